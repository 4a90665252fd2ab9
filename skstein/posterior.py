"""The posterior: weighted particles, and what was learnt on the way to them."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from ._containers import make_container, variables_of
from ._probe import Probe
from ._quantiles import weighted_quantile
from ._random import as_generator
from ._validation import check_count
from .metrics import ksd
from .protocols import Array, Bijection
from .targets.base import as_names
from .targets.bijections import Chain


class ParticlePosterior:
    """A posterior as weighted particles; plain arrays, so it pickles.

    Parameters
    ----------
    particles : ndarray of shape (m, dim)
    weights : ndarray of shape (m,), default=None
        Non-negative; normalised here. Equal by default.
    names : sequence of str, default=None
        A name for each coordinate.
    log_densities : ndarray of shape (m,), default=None
        Unnormalised log density at the particles.
    scores : ndarray of shape (m, dim), default=None
        Gradient of the log density at the particles.
    history : dict of str to ndarray, default=None
        Diagnostics per iteration.
    diagnostics : dict, default=None
        What the engine could know about its accuracy.
    n_iter : int, default=1
        Iterations done.
    converged : bool, default=True
        Whether the engine's own criterion was met.
    whitening : bijection, default=None
        From whitened coordinates to these; `ksd` and `thin` use it.
    state : object, default=None
        What the engine that made it needs to go on from here; None if particles are enough.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import ParticlePosterior
    >>> posterior = ParticlePosterior(np.array([[0.0], [2.0]]), names=["slope"])
    >>> posterior.mean(), posterior.std()
    (array([1.]), array([1.]))
    """

    # A few log densities, by which a warm start knows the target where `log_densities` is None.
    _probe: Probe | None = None

    def __init__(
        self,
        particles,
        weights=None,
        *,
        names: Sequence[str] | None = None,
        log_densities: Array | None = None,
        scores: Array | None = None,
        history: dict[str, Array] | None = None,
        diagnostics: dict[str, Any] | None = None,
        n_iter: int = 1,
        converged: bool = True,
        whitening: Bijection | None = None,
        state: Any = None,
    ):
        self.particles = np.ascontiguousarray(particles, dtype=float)
        m, dim = self.particles.shape
        weights = np.ones(m) if weights is None else np.asarray(weights, dtype=float)
        self.weights = weights / weights.sum()
        default = [f"theta[{j}]" for j in range(dim)]
        self.names = as_names(default if names is None else names, dim)
        self.log_densities = log_densities
        self.scores = scores
        self.history = {} if history is None else history
        self.diagnostics = {} if diagnostics is None else diagnostics
        self.n_iter = n_iter
        self.converged = converged
        self.whitening = whitening
        self.state = state

    def __repr__(self):
        m, dim = self.particles.shape
        return f"ParticlePosterior({m} particles, {dim} coordinates)"

    def __len__(self):
        return len(self.particles)

    def mean(self) -> Array:
        """Posterior mean, shape (dim,)."""
        return self.weights @ self.particles

    def cov(self) -> Array:
        """Posterior covariance, shape (dim, dim)."""
        centred = self.particles - self.mean()
        return centred.T @ (self.weights[:, None] * centred)

    def std(self) -> Array:
        """Posterior standard deviations, shape (dim,)."""
        centred = self.particles - self.mean()
        # In units of the largest deviation, the squares neither overflow nor underflow.
        unit = np.abs(centred).max(axis=0)
        unit[unit == 0.0] = 1.0
        return unit * np.sqrt(self.weights @ (centred / unit) ** 2)

    def quantile(self, q) -> Array:
        """Posterior quantiles of each coordinate.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (dim,) or (k, dim)
        """
        probabilities = np.atleast_1d(np.asarray(q, dtype=float))
        if not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise ValueError(f"q must lie in [0, 1], got {q!r}.")
        result = weighted_quantile(self.particles, self.weights, probabilities)
        return result[0] if np.ndim(q) == 0 else result

    def expect(self, function: Callable) -> Array:
        """Posterior mean of ``function(particles)``, whose first axis runs over particles."""
        values = np.asarray(function(self.particles))
        if values.ndim == 0 or len(values) != len(self):
            raise ValueError(
                f"function must return one value a particle: a first axis of length {len(self)}, "
                f"got shape {values.shape}."
            )
        return np.tensordot(self.weights, values, axes=1)

    def sample(self, n_samples: int, random_state=None) -> Array:
        """Draw particles with replacement, by weight.

        Parameters
        ----------
        n_samples : int
        random_state : None, int, numpy.random.RandomState or numpy.random.Generator, default=None

        Returns
        -------
        ndarray of shape (n_samples, dim)

        Raises
        ------
        ValueError
            If ``n_samples`` is no positive integer.
        """
        n_samples = check_count(n_samples, "n_samples")
        rng = as_generator(random_state)
        return self.particles[rng.choice(len(self), size=n_samples, p=self.weights)]

    def thin(self, n_particles: int) -> "ParticlePosterior":
        """A posterior of ``n_particles`` evenly chosen particles with equal weights.

        The choice is systematic in the order of the particles and never random.

        Parameters
        ----------
        n_particles : int
            At most the number of particles.

        Returns
        -------
        ParticlePosterior

        Raises
        ------
        ValueError
            If ``n_particles`` is below 1 or above the number of particles.
        """
        if not 1 <= n_particles <= len(self):
            raise ValueError(f"n_particles must lie in 1..{len(self)}, got {n_particles}.")
        chosen = self._evenly_chosen(n_particles)
        return self._with(
            particles=self.particles[chosen],
            weights=np.full(n_particles, 1.0 / n_particles),
            log_densities=None if self.log_densities is None else self.log_densities[chosen],
            scores=None if self.scores is None else self.scores[chosen],
            state=None,
        )

    def ksd(self, kernel=None) -> float:
        """Kernel Stein discrepancy between the particles and the target, in whitened coordinates.

        It measures how well the particles stand for the parts of the posterior that they visit; it
        cannot see a mode that no particle visited, and is no proof of convergence.

        Parameters
        ----------
        kernel : "imq", "rbf" or Kernel, default=None
            Base kernel; "imq" by default. Only values of the same kernel compare.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the posterior keeps no scores.
        """
        if self.scores is None:
            raise ValueError(
                "this posterior keeps no scores: the target has none, or the fit used minibatches."
            )
        points, scores = self._white()
        return ksd(points, scores, self.weights, "imq" if kernel is None else kernel)

    def _white(self) -> tuple[Any, Any]:
        """Particles and scores in the coordinates in which discrepancies are measured."""
        if self.whitening is None:
            return self.particles, self.scores
        points, scores = self.whitening.inverse(self.particles), np.asarray(self.scores)
        return points, self.whitening.pull_score(points, scores)

    def summary(self):
        """Mean, standard deviation and quantiles of each coordinate.

        Returns
        -------
        pandas.DataFrame, or dict of str to ndarray when pandas is not installed
            Columns ``mean``, ``std``, ``5%``, ``50%``, ``95%``; one row a coordinate.
        """
        low, median, high = self.quantile([0.05, 0.5, 0.95])
        table = {"mean": self.mean(), "std": self.std(), "5%": low, "50%": median, "95%": high}
        try:
            import pandas as pd
        except ImportError:
            return {"name": np.array(self.names), **table}
        return pd.DataFrame(table, index=list(self.names))

    def to_arviz(self, *, n_draws=None, container="auto"):
        """The posterior as ArviZ data: draws of equal weight, as one chain.

        ArviZ knows no weights. Particles whose weights differ are repeated and left out so that
        each of them appears within one of ``n_draws`` times its weight, as in `thin`; particles of
        equal weight are taken as they are. Particles are no chain: R-hat and effective sample sizes
        that ArviZ computes of them have no meaning; those of the fit are in ``diagnostics``.

        Parameters
        ----------
        n_draws : int, default=None
            Number of draws, by default that of the particles; more make the weights finer.
        container : {"auto", "datatree", "inferencedata"}, default="auto"
            "datatree": the tree of ArviZ 1, which needs ArviZ 1 or ``arviz-base``.
            "inferencedata": the container of ArviZ below 1. "auto": that of the installed ArviZ.

        Returns
        -------
        xarray.DataTree or arviz.InferenceData
            With the groups ``posterior`` and, if log densities are known, ``sample_stats`` (``lp``,
            unnormalised). Names such as ``"beta[0]"`` are gathered into one variable ``beta``.

        Raises
        ------
        ValueError
            If ``n_draws`` is below 1 or the container unknown.
        ImportError
            If the container needs a package that is not installed.

        See Also
        --------
        skstein.to_arviz : Adds what model comparison needs, of an estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from skstein import ParticlePosterior
        >>> posterior = ParticlePosterior(np.eye(2), names=["beta[0]", "beta[1]"])
        >>> posterior.to_arviz()["posterior"]["beta"].shape
        (1, 2, 2)
        """
        groups, dims, coords, _ = self._arviz_groups(n_draws)
        return make_container(groups, dims=dims, coords=coords, container=container)

    def _arviz_groups(self, n_draws):
        """Groups, dimensions and coordinates for ArviZ, and which particles are the draws."""
        n_draws = len(self) if n_draws is None else n_draws
        if n_draws < 1:
            raise ValueError(f"n_draws must be at least 1, got {n_draws}.")
        chosen = self._evenly_chosen(n_draws)
        variables, dims, coords = variables_of(self.particles[chosen], self.names)
        groups = {"posterior": variables}
        if self.log_densities is not None:
            groups["sample_stats"] = {"lp": self.log_densities[None, chosen]}
        return groups, dims, coords, chosen

    def _evenly_chosen(self, n):
        """Positions of n particles, each within one of n times its weight; systematic."""
        positions = (np.arange(n) + 0.5) / n
        cumulative = np.cumsum(self.weights)
        return np.minimum(np.searchsorted(cumulative, positions * cumulative[-1]), len(self) - 1)

    def _pushed(self, bijection: Bijection, names=None) -> "ParticlePosterior":
        """The same posterior in the coordinates ``bijection.forward(particles)``."""
        log_densities, scores = self.log_densities, self.scores
        if log_densities is not None:
            log_densities = log_densities - bijection.log_det(self.particles)
        if scores is not None:
            scores = bijection.push_score(self.particles, scores)
        return self._with(
            particles=bijection.forward(self.particles),
            names=self.names if names is None else as_names(names, self.particles.shape[1]),
            log_densities=log_densities,
            scores=scores,
            whitening=None if self.whitening is None else Chain(bijection, self.whitening),
            _probe=None if self._probe is None else self._probe.pushed(bijection),
        )

    def _pulled(self, bijection: Bijection) -> "ParticlePosterior":
        """The same particles and log densities before ``bijection``; the inverse of `_pushed`."""
        particles = bijection.inverse(self.particles)
        log_densities = self.log_densities
        if log_densities is not None:
            log_densities = log_densities + bijection.log_det(particles)
        pulled = ParticlePosterior(
            particles, self.weights, log_densities=log_densities, state=self.state
        )
        pulled._probe = None if self._probe is None else self._probe.pulled(bijection)
        return pulled

    def _with(self, **changes) -> "ParticlePosterior":
        posterior = copy(self)
        vars(posterior).update(changes)
        posterior.particles = np.ascontiguousarray(posterior.particles)
        return posterior
