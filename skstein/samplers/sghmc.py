r"""Stochastic gradient Hamiltonian Monte Carlo, for one network at a time.

After Chen, Fox & Guestrin (2014), with what networks of a few thousand weights were found to need:

- a metric of curvature, :math:`K^T K = (H + \operatorname{diag}(\tau + \alpha h))^{-1}`, from the
  blocks :math:`H` of the Gauss-Newton matrix that belong to a layer, the prior precisions
  :math:`\tau` and the diagonal :math:`h` of H: in other units chains creep along the directions
  that the data leave open. It is renewed on the way, and seldom among draws. h has a floor: a unit
  that is dead when the metric is taken has no curvature, and throws the chain out when it wakes up.
  :math:`\alpha` is the `damping`. Large layers have :math:`\operatorname{diag}(h + \tau)^{-1}`;
- velocities no larger than 4 standard deviations;
- steps of a length of their own: where the mean square of a chain's velocities, 1 in equilibrium,
  is above :math:`1 + 4 \sqrt{2 / d}`, the velocities are drawn again, the chain goes back to the
  last Gibbs step, and its steps become shorter; but not if the log density has risen by that heat,
  since a chain that falls towards the mode is hot at any step. The states of such a time are not
  drawn;
- the noise that a minibatch brings is taken off that of the dynamics. It
  heats stiff directions all the same, by :math:`\varepsilon (n / B - 1) / (2 \gamma)`, and the
  friction :math:`\gamma` is as large as that asks for, where they are as stiff as when the metric
  was taken; some become a hundred times as stiff, and `damping` holds against it. On all rows
  friction is small: directions in which the posterior is wide are then crossed in one sweep, where
  with much friction they are diffused through;
- noise variances and prior precisions are drawn from their conditionals (Gibbs steps), at most once
  in an epoch.

A step of size :math:`\varepsilon` on a batch of B of n rows, with the gradient G of its negative
log likelihood and friction :math:`\gamma`:

.. math::
   v' &= v - \varepsilon\, K (\tfrac nB G + \tau \odot \theta), \\
   v &\leftarrow e^{-\gamma \varepsilon} v'
   + \sqrt{\max(0, 1 - e^{-2 \gamma \varepsilon} - \varepsilon^2 (\tfrac nB - 1) u)}\; \xi, \\
   \theta &\leftarrow \theta + \tfrac 12 \varepsilon\, K^T (v' + v),

where u is the mean square of the rows' weights over their mean. So split, between two halves of the
drift, friction and noise leave the weights of a Gaussian with its covariance, whatever the step
(Leimkuhler & Matthews 2013).

There is no acceptance step. The chains explore the mode they start in, and what they draw is an
approximate posterior around it.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real

import numpy as np

from .._input.validation import Interval, StrOptions
from .._tools.warnings import warn
from .base import Sampler

_ALL_ROWS, _LEAST_BATCH, _LARGEST_RATIO = 2000, 1000, 50
# Velocities of too long a step are hot: their squares leave what chance and a rise of the density
# explain. Steps go down fast, and up slowly.
_CHANCE, _DOWN, _UP = 4.0, 0.7, 1.02
_SETTLED = 100  # steps without a hot one
_PATIENCE = 100  # times `_LEAST_STEPS` that a draw waits for them
# What a minibatch of many rows heats are a few directions, which the mean does not tell.
_HEAT, _SMALL_STEP = 0.5, 0.05
_LEAST_STEPS = 20  # between Gibbs steps, and after a draw to see whether it was in a hot time
_STEPS = 420  # of a draw, of 1000 rows
# Time (the sum of steps) between two metrics. A new one depends on where the chain is, which no
# posterior survives unless the chain has forgotten where the last one was taken. The warm-up has
# two at least, and a hot time brings the next one.
_RENEWAL = 60.0


@dataclass
class NetworkChain:
    """What the next draw of one chain needs.

    Attributes
    ----------
    theta : ndarray of shape (dim,)
    velocity : ndarray of shape (n_weights,)
    step : float
    rng : numpy.random.Generator
    metric : tuple (rows, starts) or None
        As `MLPTarget.metric` gives it; None before the first Gibbs step, like the next.
    precision : ndarray of shape (n_weights,) or None
    until : int
        Steps to the next Gibbs step.
    unsettled : int
        Steps to take before what too long a step has done is forgotten.
    age : float
        Of the metric, in units of time; infinite for one to be renewed.
    alive : bool
        False for a chain that has left for infinity: it stays at its last state.
    """

    theta: np.ndarray
    velocity: np.ndarray
    step: float
    rng: np.random.Generator
    metric: tuple | None = None
    precision: np.ndarray | None = None
    until: int = 0
    unsettled: int = 0
    age: float = np.inf
    alive: bool = True


@dataclass
class NetworkChains:
    """Several chains, each on its own."""

    each: list[NetworkChain]
    n_divergent: int = 0  # always: there are no proposals to be rejected

    @property
    def step_size(self):
        """The mean over chains."""
        return float(np.mean([chain.step for chain in self.each]))


@dataclass(eq=False, repr=False)
class SGHMC(Sampler):
    """Hamiltonian chains on minibatches for targets that are neural networks.

    Parameters
    ----------
    step_size : float, default=0.2
        The longest step, in units of the metric. A chain takes shorter ones where its velocities
        are hotter than the posterior, and than its way up the density explains. On a minibatch of n
        rows it takes none above 0.05 for which ``step * n / (2 * batch_size)`` is more than 0.5.
    thinning : int or "auto", default="auto"
        Steps of a draw, 20 at least; "auto" is 420 for 1000 rows or more, and for n rows, if they
        are fewer, in proportion to the root of n.
    friction : float, default=0.1
        The least: a step keeps a share ``exp(-friction * step_size)`` of the velocity. The smaller
        a minibatch, the more friction takes off the heat of its noise, up to 1.
    damping : float, default=0.1
        What share of its diagonal is added to the curvature. With more of it the directions that
        become stiff while the metric grows old are heated less by minibatches, and the others are
        crossed more slowly.
    batch_size : int, "auto" or None, default="auto"
        Rows of a step: for "auto" all if they are 2000 at most, else 1000, or a fiftieth if that is
        more, and with uneven weights more, by their mean square over their mean; all for None.

    References
    ----------
    Chen, Fox & Guestrin (2014), "Stochastic gradient Hamiltonian Monte Carlo"
    (arXiv:1402.4102).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.samplers import SGHMC
    >>> from skstein.targets import MLPTarget
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> target = MLPTarget(X, np.sin(3 * X[:, 0]), hidden_layer_sizes=(5,))
    >>> rng, sampler = np.random.default_rng(0), SGHMC(thinning=20)
    >>> chains = sampler.warm_up(target, 5, target.sample_initial(rng, 2), rng)
    >>> chains, draws, scores, acceptance = sampler.draw(target, 10, chains)
    >>> draws.shape
    (2, 10, 17)
    """

    requires = ("hamiltonian_steps", "metric", "resample", "score")
    global_moves = False  # each chain explores the mode it starts in
    _parameter_constraints = {
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "thinning": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "friction": [Interval(Real, 0, None, closed="neither")],
        "damping": [Interval(Real, 0, None, closed="left")],
        "batch_size": [None, StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    }

    step_size: float = 0.2
    thinning: int | str = "auto"
    _: KW_ONLY
    friction: float = 0.1
    damping: float = 0.1
    batch_size: int | str | None = "auto"

    def warm_up(self, target, n_iterations, theta, rng):
        """Leave the start.

        Parameters
        ----------
        target : Target
            With the pieces of `MLPTarget`.
        n_iterations : int
            Each of ``thinning`` steps, as a draw is.
        theta : ndarray of shape (chains, dim)
            Where the chains start.
        rng : numpy.random.Generator

        Returns
        -------
        NetworkChains

        Raises
        ------
        ValueError
            If a parameter is wrong, or the target is not a neural network.
        """
        self._validate_params()
        if not hasattr(target, "hamiltonian_steps"):
            raise ValueError("SGHMC moves networks only: use HMC, or SGLD on minibatches.")
        step, chains = self._longest_step(target), []
        n_steps = n_iterations * self._n_steps(target)
        for row, own in zip(theta, rng.spawn(len(theta)), strict=True):
            velocity = own.standard_normal(target.n_weights)
            chains.append(NetworkChain(np.array(row, dtype=float), velocity, step, own))
            self._advance(target, chains[-1], n_steps, min(_RENEWAL, 0.5 * n_steps * step))
        return NetworkChains(chains)

    def draw(self, target, n_draws, chains):
        """Draw from the chains; see `HMC.draw`.

        The scores are those of all rows; 1 stands for the acceptance probability.

        Warns
        -----
        ConvergenceWarning
            If a chain leaves for infinity; it is held at its last state.
        """
        draws = np.empty((len(chains.each), n_draws, target.dim))
        for chain, own in zip(chains.each, draws, strict=True):
            for t in range(n_draws):
                self._advance(target, chain, self._n_steps(target) - _LEAST_STEPS)
                own[t] = self._settled(target, chain)
        return chains, draws, target.score(draws.reshape(-1, target.dim)).reshape(draws.shape), 1.0

    def _advance(self, target, chain, n_steps, renewal=_RENEWAL):
        batch_size = self.rows_of_step(target.n_rows, target.unevenness)
        noise = (target.n_rows / batch_size - 1.0) * target.unevenness
        while n_steps > 0 and chain.alive:
            theta = chain.theta
            if chain.until == 0:
                theta, chain.precision = target.resample(theta, chain.rng)
                if chain.age >= renewal:
                    chain.metric = target.metric(theta, chain.precision, self.damping, chain.rng)
                    chain.age = 0.0
                chain.until = max(_LEAST_STEPS, target.n_rows // batch_size)
            count = min(n_steps, chain.until)
            before = theta
            friction = max(self.friction, min(1.0, chain.step * noise / (2.0 * _HEAT)))
            theta, velocity = target.hamiltonian_steps(
                theta, chain.velocity, chain.metric, chain.precision, chain.step, friction,
                batch_size, count, chain.rng,
            )  # fmt: skip
            if not np.isfinite(theta).all():
                chain.alive = False
                warn(
                    "a chain left for infinity and is held where it was last: use a step_size "
                    f"below {self.step_size:g}, or a larger batch_size."
                )
                return
            chain.theta, chain.velocity = theta, velocity
            chain.until -= count
            n_steps -= count
            chain.age += count * chain.step
            heat = 0.5 * (np.sum(np.square(velocity)) - len(velocity))
            if heat > _CHANCE * np.sqrt(0.5 * len(velocity)):
                if np.diff(target.log_density(np.stack([before, theta]))) < heat:
                    chain.theta = before
                    chain.step *= _DOWN
                chain.velocity = chain.rng.standard_normal(len(velocity))
                chain.unsettled, chain.age = _SETTLED, np.inf
            else:
                chain.unsettled = max(0, chain.unsettled - count)
                chain.step = min(self._longest_step(target), _UP * chain.step)

    def _settled(self, target, chain):
        """A state with no step before or behind it that was too long; the chain goes on.

        A chain that is still on its way to the mode has none: its scores say so.
        """
        for _ in range(_PATIENCE):
            theta, settled = chain.theta, not chain.unsettled
            self._advance(target, chain, _LEAST_STEPS)
            if settled and not chain.unsettled:
                return theta
        return chain.theta

    def _longest_step(self, target):
        batch_size = self.rows_of_step(target.n_rows, target.unevenness)
        share = batch_size / (target.n_rows * target.unevenness)
        if batch_size == target.n_rows:
            return self.step_size
        return min(self.step_size, max(_SMALL_STEP, 2.0 * _HEAT * share))

    def _n_steps(self, target):
        if self.thinning == "auto":
            return round(_STEPS * min(1.0, target.n_rows / _LEAST_BATCH) ** 0.5)
        return self.thinning

    def rows_of_step(self, n_rows, unevenness=1.0):
        """How many of the rows a step takes, whose weights are so uneven; see `batch_size`."""
        if self.batch_size is None or (self.batch_size == "auto" and n_rows <= _ALL_ROWS):
            return n_rows
        usual = round(max(_LEAST_BATCH, n_rows // _LARGEST_RATIO) * max(1.0, unevenness))
        return min(n_rows, usual if self.batch_size == "auto" else self.batch_size)
