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
Callback = Callable[[int, int, Callable[[], Any], dict], Any]


class Bijection(Protocol):
    """A change of coordinates, ``theta = forward(z)``, both of shape (m, dim)."""

    def forward(self, z: Array, /) -> Array: ...

    def inverse(self, theta: Array, /) -> Array: ...

    def log_det(self, z: Array, /) -> Array:
        """Log absolute determinant of the Jacobian of ``forward``, shape (m,)."""

    def pull_score(self, z: Array, score: Array, /) -> Array:
        """Score in ``z`` of the density whose score at ``forward(z)`` is ``score``."""

    def push_score(self, z: Array, score: Array, /) -> Array:
        """Score at ``forward(z)`` of the density whose score in ``z`` is ``score``."""


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
    stochastic : bool
        Whether ``score`` is noisy: then engines draw ``batch_size`` rows for each score.
    batch_size : int or None
    held_out : WorkingTarget or None
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
    stochastic: bool
    batch_size: int | None
    held_out: Any
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

    def sample_start(self, rng: np.random.Generator, m: int, df: float | None = None) -> Array:
        """Draws of the Gaussian start, or a Student-t of ``df`` degrees of freedom, (m, dim)."""

    def log_start(self, theta: Array, df: float | None = None) -> Array:
        """Normalised log density of ``sample_start``, shape (m,)."""

    def draws_of(self, distribution, rng: np.random.Generator, m: int) -> tuple[Array, Array]:
        """Draws (m, dim) of a distribution over the model's coordinates, and log densities (m,)."""


class RunsOnTargets(Protocol):
    """An engine, as far as it cannot do without; `skstein.inference.Engine` has all hooks."""

    def run(
        self,
        target: WorkingTarget,
        rng: np.random.Generator,
        *,
        init: Any = None,
        map: Callable = map,
        callback: Callback | None = None,
    ) -> Any:
        """A `ParticlePosterior` of the target, in its coordinates."""


class ChainState(Protocol):
    """Chains that a sampler has warmed up: all that it needs to go on, and two numbers to report.

    Attributes
    ----------
    step_size : float
    n_divergent : int
        Proposals that met a density or an energy out of all proportion.
    """

    step_size: float
    n_divergent: int


class DrawsChains(Protocol):
    """A sampler; `skstein.samplers.Sampler` has defaults for what it may say of itself."""

    def warm_up(
        self, target: WorkingTarget, n_iterations: int, theta: Array, rng: np.random.Generator, /
    ) -> ChainState:
        """Chains that start at ``theta`` (chains, dim), after so many iterations."""

    def draw(
        self, target: WorkingTarget, n_draws: int, chains: Any, /
    ) -> tuple[Any, Array, Array, float]:
        """The chains moved on, draws and scores (chains, n_draws, dim), and mean acceptance."""
