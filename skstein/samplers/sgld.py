"""Stochastic gradient Langevin dynamics: Langevin steps on minibatches, none of them rejected.

For data so large that a score of all rows is dear. The noise of the Leimkuhler-Matthews scheme
takes off the leading bias of the step. What the minibatch adds depends on the target. With a
control variate (`ControlVariate`) it is small, because its error vanishes at the mode, and it
grows with the step size, not with the number of rows (Baker, Fearnhead, Fox & Nemeth 2019). Without
one (Welling & Teh 2011) the noise of the minibatch adds to that of the dynamics wherever the chain
is: the draws are then spread more than the posterior, the more the larger the data, however many
they are (Brosse, Durmus & Moulines 2018). That is here to be compared with, and only when asked
for. What differs from Welling & Teh: the step size stays constant.
"""

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real

import numpy as np

from .._input.validation import Interval
from ._warm_up import Metric, MetricAdaptation
from .base import Chains, Sampler


@dataclass(eq=False, repr=False)
class SGLD(Sampler):
    """Langevin chains on minibatches, without an acceptance step.

    A target with a control variate (`ControlVariate`) says itself how many rows it needs.

    Parameters
    ----------
    step_size : float, default=0.2
        In white units, the usual h: a step has the standard deviation ``sqrt(step_size)``.
    thinning : int, default=5
        One state in this many is kept as a draw.
    batch_size : int, default=None
        Rows of a plain minibatch, for a target without a control variate: a different, wider
        distribution than the posterior. None takes all rows there.
    adapt_metric : bool, default=False
        Precondition, for coordinates that are not white: learn the linear coordinates to move in,
        from the starting points, which must not be all the same, and from the warm-up. They are
        frozen after it, so that no correction for their changes is due.

    References
    ----------
    Welling & Teh (2011), "Bayesian learning via stochastic gradient Langevin dynamics".

    Baker, Fearnhead, Fox & Nemeth (2019), "Control variates for stochastic gradient MCMC"
    (doi:10.1007/s11222-018-9826-2).

    Brosse, Durmus & Moulines (2018), "The promises and pitfalls of stochastic gradient Langevin
    dynamics" (arXiv:1811.10072).

    Leimkuhler & Matthews (2013), "Rational construction of stochastic numerical methods for
    molecular sampling" (doi:10.1093/amrx/abs010).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.samplers import SGLD
    >>> from skstein.targets import ControlVariate, LogisticTarget, laplace_approximation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> target = LogisticTarget(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(float))
    >>> mode = laplace_approximation(target).mode
    >>> sampler, minibatch = SGLD(step_size=5e-4), ControlVariate(target, mode, batch_size=200)
    >>> chains = sampler.warm_up(minibatch, 20, np.tile(mode, (4, 1)), rng)
    >>> chains, draws, scores, acceptance = sampler.draw(minibatch, 200, chains)
    >>> draws.shape
    (4, 200, 3)
    """

    noisy_scores = True
    _parameter_constraints = {
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "thinning": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "adapt_metric": ["boolean"],
    }

    step_size: float = 0.2
    thinning: int = 5
    _: KW_ONLY
    batch_size: int | None = None
    adapt_metric: bool = False

    def warm_up(self, target, n_iterations, theta, rng):
        """Leave the start, and learn the metric with ``adapt_metric=True``.

        Parameters
        ----------
        target : Target
        n_iterations : int
            Each of ``thinning`` moves, as a draw is.
        theta : ndarray of shape (chains, dim)
            Where the chains start.
        rng : numpy.random.Generator
            Used by these chains from now on.

        Returns
        -------
        Chains

        Raises
        ------
        ValueError
            If a parameter is wrong, ``batch_size`` is given for a target without rows or with a
            batch size of its own, or there is no metric to learn from chains that start together.
        FloatingPointError
            If the chains leave for infinity, or start where the score is not finite.
        """
        self._validate_params()
        if self.batch_size is not None and (target.stochastic or target.n_rows is None):
            reason = "chooses its own" if target.stochastic else "has no rows"
            raise ValueError(f"batch_size was given, but the target {reason}; use batch_size=None.")
        theta = np.array(theta, dtype=float)
        noise = rng.standard_normal(theta.shape)
        chains = Chains(
            theta, np.zeros(len(theta)), np.zeros_like(theta), self.step_size, rng, noise=noise
        )
        windows = MetricAdaptation(n_iterations)
        if self.adapt_metric:
            chains.metric = Metric().refined(theta, self._score(target, chains))
            if np.ndim(chains.metric.scale) == 0:
                raise ValueError(
                    "adapt_metric=True needs chains that start apart, in every coordinate; give "
                    "other starting points (init)."
                )
        for _ in range(n_iterations):
            theta, score = self._iterate(target, chains)
            if self.adapt_metric:
                chains.metric = windows.update(chains.metric, theta, score)
        return chains

    def draw(self, target, n_draws, chains):
        """Draw from the chains; see `HMC.draw`.

        The scores are those that the chains moved by, noisy ones of a minibatch; 1 stands for the
        acceptance probability.

        Raises
        ------
        FloatingPointError
            If the chains leave for infinity.
        """
        draws = np.empty((len(chains.theta), n_draws, target.dim))
        scores = np.empty_like(draws)
        for t in range(n_draws):
            draws[:, t], scores[:, t] = self._iterate(target, chains)
        return chains, draws, scores, 1.0

    def _iterate(self, target, chains):
        """Move ``thinning`` times; the states before, with the scores that they moved by."""
        theta, score = chains.theta, self._move(target, chains)
        for _ in range(self.thinning - 1):
            self._move(target, chains)
        return theta, score

    def _move(self, target, chains):
        """Move every chain once; the scores that they moved by."""
        chains.score = self._score(target, chains)
        fresh = chains.rng.standard_normal(chains.theta.shape)
        step, metric = chains.step_size, chains.metric
        drift = 0.5 * step * metric.pull(chains.score)
        diffusion = math.sqrt(step) * 0.5 * (chains.noise + fresh)
        chains.theta = chains.theta + metric.forward(drift + diffusion)
        chains.noise = fresh
        return chains.score

    def _score(self, target, chains):
        batch_size = target.batch_size if target.stochastic else self.batch_size
        rows = None
        if batch_size is not None:
            rows = chains.rng.choice(target.n_rows, min(batch_size, target.n_rows), replace=False)
        with np.errstate(over="ignore", invalid="ignore"):
            score = target.score(chains.theta, rows)
        if not np.isfinite(score).all():
            raise FloatingPointError(
                "SGLD: the score is not finite where a chain is; use a step_size below "
                f"{self.step_size:g}, or other starting points (init)."
            )
        return score
