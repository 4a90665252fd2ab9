"""What the parts of the package ask of each other.

A part is known to the others by what it does, never by its class: an engine runs on whatever has
the members of `WorkingTarget`, `infer` runs whatever has a ``run``, and chains are drawn by
whatever has ``warm_up`` and ``draw``. The classes that implement these protocols have defaults for
most of their members (`skstein.targets.Target`, `skstein.inference.Engine`,
`skstein.samplers.Sampler`); a class of your own may start from them, or from nothing.

Arrays are float64. ``m`` counts particles, or chains; every call is batched over them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

Array = np.ndarray
Rng = np.random.Generator
Callback = Callable[[int, int, Callable[[], Any], dict], Any]


class Bijection(Protocol):
    """Protocol of changes of coordinates, ``theta = forward(z)``, both of shape (m, dim)."""

    def forward(self, z: Array, /) -> Array: ...

    def inverse(self, theta: Array, /) -> Array: ...

    def log_det(self, z: Array, /) -> Array:
        """Log absolute determinant of the Jacobian of ``forward``, shape (m,)."""

    def pull_score(self, z: Array, score: Array, /) -> Array:
        """Score in ``z`` of the density whose score at ``forward(z)`` is ``score``."""

    def push_score(self, z: Array, score: Array, /) -> Array:
        """Score at ``forward(z)`` of the density whose score in ``z`` is ``score``."""


class Observed(Protocol):
    """An outcome, as far as a regression's target asks; `skstein.outcomes.Outcome` has all of it.

    The *heads* ``eta`` are a sequence of arrays: linear predictors of shape (m, n), and behind them
    what is the same for all rows, (m, 1). So are derivatives by them.
    """

    n_predictors: int
    predictor_names: tuple[str, ...] | None
    further_priors: tuple
    extra: tuple[str, ...]
    extra_prior: Any

    def initial_heads(self, y: Array, weights: Array, /) -> Array:
        """Heads, the same for all rows, where the search for a mode starts."""

    def log_density(self, eta: Any, y: Array, /) -> Array:
        """Of each outcome, shape (m, n)."""

    def center(self, y: Array, weights: Array, offset: Array, /) -> float:
        """The constant about which the linear predictor is expected."""

    def curvature(self, eta: Any, y: Array, /) -> Array:
        """Negative second derivatives by pairs of heads, in front of the common shape."""

    def terms(
        self, eta: Any, y: Array, weights: Array | None, value: bool, score: bool, /
    ) -> tuple:
        """Weighted log density, summed over rows (m,), and weighted derivatives by the heads.

        Without ``weights`` all are 1.
        """


class WorkingTarget(Protocol):
    """What an engine is given: an unnormalised log density, and where to start.

    A part that the target cannot offer is None, or missing: ``score``, ``hessian``, ``log_prior``,
    ``sample_prior``, ``log_likelihood``, ``pointwise_log_likelihood``. An engine names those that
    it needs in ``requires``, and is not run without them; `skstein.targets.supports` tells of the
    others.

    Attributes
    ----------
    dim : int
        Number of coordinates.
    n_rows : int or None
        Number of data rows; None when there is no data.
    n_weightless : int
        Rows that were left out because they have no weight; a stream counts them as seen.
    more_follow : bool
        Whether these rows are of a stream, which may keep some of them.
    stochastic : bool
        Whether ``score`` is noisy: then engines draw ``batch_size`` rows for each score.
    batch_size : int or None
    validation : WorkingTarget or None
        The same model of rows kept back for validation.
    whitened : bool
        Whether the scale of every coordinate is about 1.
    bijection : Bijection or None
        From these coordinates to the model's own; None where they are these. An engine that takes
        in more rows later keeps it.
    start : Bijection or None
        From a standard normal to the Gaussian start; None where that is the standard normal.
    names : tuple of str
        A name for each coordinate.
    factors : sequence of ndarray of int or ConjugateFactor
        A partition of the coordinates for mean field.
    """

    dim: int
    n_rows: int | None
    n_weightless: int
    more_follow: bool
    stochastic: bool
    batch_size: int | None
    validation: Any
    whitened: bool
    bijection: Bijection | None
    start: Bijection | None

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def factors(self) -> Sequence: ...

    def log_density(self, theta: Array, /) -> Array:
        """Unnormalised log density at each row of ``theta`` (m, dim), shape (m,)."""

    def score(self, theta: Array, rows: Array | None = None, /) -> Array:
        """Gradient of the log density (m, dim); from ``rows`` alone, scaled to all, if given."""

    def log_density_and_score(self, theta: Array, /) -> tuple[Array, Array]:
        """Both in one pass."""

    def sample_start(self, rng: Rng, m: int, df: float | None = None) -> Array:
        """Draws of the Gaussian start, or a Student-t of ``df`` degrees of freedom, (m, dim)."""

    def log_start(self, theta: Array, df: float | None = None) -> Array:
        """Normalised log density of ``sample_start``, shape (m,)."""

    def draws_of(self, distribution, rng: Rng, m: int) -> tuple[Array, Array]:
        """Draws (m, dim) of a distribution over the model's coordinates, and log densities (m,)."""


class RunsOnTargets(Protocol):
    """An engine, as far as it cannot do without; `skstein.inference.Engine` has all hooks."""

    def run(
        self, target: Any, rng: Rng, *, init: Any, map: Callable, callback: Callback | None
    ) -> Any:
        """A `ParticlePosterior` of a `WorkingTarget`, in its coordinates."""


class ChainState(Protocol):
    """Protocol of chains that are warmed up: what a sampler goes on from, and two numbers.

    Attributes
    ----------
    step_size : float
    n_divergent : int
        Proposals that met a density or an energy out of all proportion.

    Notes
    -----
    Chains may also count ``n_stiff``, proposals without a chance of acceptance: if they are many,
    the engine begins again with shorter steps.
    """

    step_size: float
    n_divergent: int


class DrawsChains(Protocol):
    """A sampler; `skstein.samplers.Sampler` has defaults for what it may say of itself."""

    def warm_up(self, target: Any, n_iterations: int, theta: Array, rng: Rng, /) -> ChainState:
        """Chains that start at ``theta`` (chains, dim), after so many iterations."""

    def draw(self, target: Any, n_draws: int, chains: Any, /) -> tuple[Any, Array, Array, float]:
        """The chains moved on, draws and scores (chains, n_draws, dim), and mean acceptance."""


class TrainableNetwork(Protocol):
    """What is made for networks asks for more than a `WorkingTarget`.

    A particle holds ``n_weights`` weights and ``n_noise`` log noise variances. What is called a
    ``state`` is a network in training, `skstein.targets.networks.network.Training`.

    Attributes
    ----------
    n_weights, n_noise, n_outputs : int
    total_weight : float
        Of all rows.
    prior_share : float
        Of the weight of a stream so far: what these rows have of the prior.
    noise_shape, noise_scale : float
        Of the inverse gamma prior of the noise variances.
    initial_precision : ndarray of shape (n_weights,)
        Precision of each weight before anything is learnt.
    unevenness : float
        Mean square of the rows' weights over their mean.
    checksum : int
        Of features and outcomes, which a training state keeps as its ``data``.
    """

    # Training, and the judges of what it has come to.

    def sample_initial(self, rng: np.random.Generator, m: int) -> Array:
        """Networks as training begins with, (m, dim)."""

    def begin_training(self, theta: Array, rows: Array, held_out: Array, rng) -> Any:
        """The state of one network, (dim,), that is trained on ``rows``.

        Such as a `skstein.targets.networks.network.Training`, whose ``at_best`` is the one to keep.
        """

    def train(self, n_epochs, batch_size, learning_rate, n_steps, patience, tol, state) -> Any:
        """The state after some more epochs; the one given is left as it was."""

    def trained(self, state: Any) -> Array:
        """The network, (dim,), that a state has come to."""

    def training_loss(self, theta: Array, rows: Array) -> float:
        """Mean loss of one network, as training sees it."""

    def finite(self, theta: Array) -> Array:
        """Which networks are finite, and put out finite numbers, (m,)."""

    def dead(self, theta: Array) -> Array:
        """Which networks put out the same for every row although rows differ, (m,)."""

    def constant(self) -> Array:
        """The best network among those that put out the same for every row, (dim,)."""

    def shortfall(self, theta: Array, rows: Array) -> tuple[Array, float]:
        """By how many nats networks explain rows worse than a constant, (m,); the rows' weight."""

    def out_of_bag_noise(self, theta: Array, held_out: list) -> Array:
        """Log noise variances from the errors on the rows that each network has not seen."""

    # What chains and mean field move by, one network at a time.

    def scales(self, theta: Array, precision: Array, rng: np.random.Generator) -> Array:
        """Standard deviation that each weight of a network would have on its own, (n_weights,)."""

    def metric(
        self, theta: Array, precision: Array, damping: float, rng: np.random.Generator
    ) -> Any:
        """Covariance that the weights of a network are thought to have, for `hamiltonian_steps`."""

    def resample(self, theta: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """A network with noise variances drawn given its weights; precisions of the weights."""

    def hamiltonian_steps(
        self, theta, velocity, metric, precision, step_size, friction, batch_size, n_steps, rng
    ) -> tuple[Array, Array]:
        """Move the weights of one network; it and its velocity."""

    def squared_errors(self, theta: Array, rows: Array | None = None) -> Array:
        """Weighted sum of squared errors of each output of one network, (n_outputs,)."""

    def expected_precision(self, second_moment: Array) -> Array:
        """Mean of each weight's precision given mean squares of the weights, (n_weights,)."""

    def weight_score(self, weights: Array, rows: Array, precision, noise_precision) -> Array:
        """Gradient by the weights, (m, n_weights), given precisions and noise."""
