"""Stochastic gradient Langevin dynamics: Langevin steps on minibatches, none of them rejected.

For data so large that a score of all rows is dear. The noise of the Leimkuhler-Matthews scheme
takes off the leading bias of the step. What the minibatch adds depends on the target. With a
control variate (`targets/minibatch.py`) it is small, because its error vanishes at the mode, and it
grows with the step size, not with the number of rows (Baker, Fearnhead, Fox & Nemeth 2019). Without
one (Welling & Teh 2011) the noise of the minibatch adds to that of the dynamics wherever the chain
is: draws of large data are then spread by far more than the posterior, whatever the number of steps
(Nagapetyan et al. 2017). That is here to be compared with, and only when asked for. What differs
from Welling & Teh: the step size stays constant.
"""

import math
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator

from .._validation import Interval
from ._adapt import Metric
from .base import Chains

_MEMORY = 0.99


class SGLD(BaseEstimator):
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
    precondition : bool, default=False
        Scale each coordinate by the root mean square of its scores, learnt in the warm-up: for
        coordinates that are not white. The moving average is that of Li et al. (2016); its inverse
        is taken instead of its inverse root, which makes ``step_size`` free of units, and it is
        frozen after the warm-up, so that no correction for its changes is due.

    References
    ----------
    Welling & Teh (2011), "Bayesian learning via stochastic gradient Langevin dynamics".

    Baker, Fearnhead, Fox & Nemeth (2019), "Control variates for stochastic gradient MCMC".

    Li, Chen, Carlson & Carin (2016), "Preconditioned stochastic gradient Langevin dynamics for deep
    neural networks".

    Leimkuhler & Matthews (2013), "Rational construction of stochastic numerical methods for
    molecular sampling".

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

    _parameter_constraints = {
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "thinning": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "precondition": ["boolean"],
    }

    def __init__(self, step_size=0.2, thinning=5, *, batch_size=None, precondition=False):
        self.step_size = step_size
        self.thinning = thinning
        self.batch_size = batch_size
        self.precondition = precondition

    def warm_up(self, target, n_iterations, theta, rng):
        """Leave the start, and learn the scale of the coordinates with ``precondition=True``.

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
            If a parameter is wrong, or ``batch_size`` is given for a target without rows or with a
            batch size of its own.
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
        information = np.ones(theta.shape[1])
        for _ in range(n_iterations * self.thinning):
            self._move(target, chains)
            if self.precondition:
                information *= _MEMORY
                information += (1.0 - _MEMORY) * np.mean(chains.score**2, axis=0)
                chains.metric = Metric(1.0 / np.sqrt(information))
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
            draws[:, t] = chains.theta
            self._move(target, chains)
            scores[:, t] = chains.score
            for _ in range(self.thinning - 1):
                self._move(target, chains)
        return chains, draws, scores, 1.0

    def _move(self, target, chains):
        batch_size = target.batch_size if target.stochastic else self.batch_size
        rows = None
        if batch_size is not None:
            rows = chains.rng.choice(target.n_rows, min(batch_size, target.n_rows), replace=False)
        chains.score = target.score(chains.theta, rows)
        if not np.isfinite(chains.score).all():
            raise FloatingPointError(
                f"SGLD: the score is not finite where a chain is; use a step_size below "
                f"{self.step_size:g}, or other starting points (init)."
            )
        fresh = chains.rng.standard_normal(chains.theta.shape)
        step, metric = chains.step_size, chains.metric
        drift = 0.5 * step * metric.pull(chains.score)
        diffusion = math.sqrt(step) * 0.5 * (chains.noise + fresh)
        chains.theta = chains.theta + metric.forward(drift + diffusion)
        chains.noise = fresh
