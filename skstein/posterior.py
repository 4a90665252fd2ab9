"""The posterior: weighted particles, with the diagnostics of the engine that found them."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from ._input.columns import as_names
from ._input.validation import check_count, check_fraction, check_fractions, normalized_weights
from ._statistics.density_fingerprint import Fingerprint
from ._statistics.quantiles import narrowest_interval, weighted_quantile
from ._statistics.resampling import systematic_resampling
from ._tools.copies import changed
from ._tools.pandas_and_arviz import arviz_variables, as_table, make_container
from ._tools.random import as_generator
from ._tools.warnings import warn
from .diagnostics import mcse_mean, rank_diagnostics
from .metrics import ksd
from .priors import MultivariateNormal
from .protocols import Array, Bijection
from .targets.bijections import Composition

# The comment beside draws of a posterior without chains.
_NO_CHAIN = (
    "Particles of a posterior, taken by weight, and not draws of a chain: R-hat and effective "
    "sample sizes computed from them have no meaning."
)
# Of coordinates of a posterior that a normal stands for. Below these, data that came in two parts
# had a mean within .1 standard deviations of that of all rows at once.
_MAX_SKEWNESS, _MAX_EXCESS = 0.5, 1.5
_FEWEST_DRAWS = 4  # of a chain, for R-hat and effective sample sizes


@dataclass(eq=False, repr=False)
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
    history : dict of str to ndarray, default={}
        Diagnostics per iteration.
    diagnostics : dict, default={}
        What the engine knows about its accuracy.
    n_iter : int, default=1
        Iterations done.
    converged : bool, default=True
        Whether the engine's own criterion was met, and no check of the fit found it wrong.
    whitening : bijection, default=None
        From whitened coordinates to these; `ksd` and `thin` use it.
    state : object, default=None
        What the engine needs to go on from here; None if particles are enough.
    chains : ndarray of shape (n_chains, n_draws, dim), default=None
        Draws of the Markov chains that the particles represent, in the coordinates of the
        particles; None if there are no chains, or they are too long to keep. `summary`, `to_arviz`
        and `skstein.loo` use them. Set it to None to make a saved posterior smaller: chains take 8
        bytes per number.

    Attributes
    ----------
    classes : ndarray or None
        Classes of the classifier it is the posterior of.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import ParticlePosterior
    >>> posterior = ParticlePosterior(np.array([[0.0], [2.0]]), names=["slope"])
    >>> posterior.mean(), posterior.std()
    (array([1.]), array([1.]))
    >>> posterior["slope"]
    array([0., 2.])
    """

    particles: Array
    weights: Any = None
    _: KW_ONLY
    names: Any = None
    log_densities: Array | None = None
    scores: Array | None = None
    history: dict[str, Array] = field(default_factory=dict)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    n_iter: int = 1
    converged: bool = True
    whitening: Bijection | None = None
    state: Any = None
    chains: Array | None = None
    # A few log densities, by which a warm start recognises the target if `log_densities` is None.
    _fingerprint: Fingerprint | None = field(default=None, init=False)
    # Of the classifier that it is the posterior of.
    classes: Any = field(default=None, init=False)

    def __post_init__(self):
        self.particles = np.ascontiguousarray(self.particles, dtype=float)
        if self.particles.ndim != 2:
            raise ValueError(
                f"particles must be of shape (m, dim), got {self.particles.shape}; "
                "reshape(-1, 1) makes one coordinate."
            )
        m, dim = self.particles.shape
        self.weights = normalized_weights(self.weights, m, "weights")
        for name, shape in (("log_densities", (m,)), ("scores", (m, dim))):
            if getattr(self, name) is not None:
                setattr(self, name, values := np.asarray(getattr(self, name), dtype=float))
                if values.shape != shape:
                    raise ValueError(f"{name} must be of shape {shape}, got {values.shape}.")
        default = [f"theta[{j}]" for j in range(dim)]
        self.names = as_names(default if self.names is None else self.names, dim)

    def __repr__(self):
        m, dim = self.particles.shape
        return f"ParticlePosterior({m} particles, {dim} coordinates)"

    def __len__(self):
        return len(self.particles)

    __iter__ = None  # by name alone: Python would ask for the coordinates 0, 1, ...

    def __getitem__(self, name: str) -> Array:
        """The particles' values of the coordinate of that name, shape (m,)."""
        if name not in self.names:
            more = ", ..." if len(self.names) > 10 else ""
            raise KeyError(
                f"no coordinate is called {name!r}; there are {', '.join(self.names[:10])}{more}."
            )
        return self.particles[:, self.names.index(name)]

    def __contains__(self, name):
        return name in self.names

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
        result = weighted_quantile(self.particles, self.weights, check_fractions(q, "q"))
        return result[0] if np.ndim(q) == 0 else result

    def expect(self, function: Callable) -> Array:
        """Posterior mean of ``function(particles)``, whose first axis runs over particles."""
        values = np.asarray(function(self.particles))
        if values.ndim == 0 or len(values) != len(self):
            raise ValueError(
                f"function must return one value per particle: a first axis of length {len(self)}, "
                f"got shape {values.shape}."
            )
        return np.tensordot(self.weights, values, axes=1)

    def as_prior(self) -> MultivariateNormal:
        """The normal of this mean and covariance, as the ``prior=`` of a fit to more rows.

        It covers all coordinates on their reported scale, so that the new rows may have other means
        and standard deviations. Particles are not kept: anything that is not normal is lost. The
        fit has to be of the same family, link and offset: names and classes are compared, these
        are not.

        Returns
        -------
        skstein.priors.MultivariateNormal
            Arrays, names and classes.

        Raises
        ------
        ValueError
            If there are no more particles than coordinates.

        Warns
        -----
        ConvergenceWarning
            If the posterior is far from normal; the message names the coordinates.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skstein import BayesianLogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> first = BayesianLogisticRegression(random_state=0).fit(X[::2], y[::2])
        >>> prior = first.posterior_.as_prior()
        >>> both = BayesianLogisticRegression(prior=prior, random_state=0).fit(X[1::2], y[1::2])
        """
        if far := self._far_from_normal():
            worst = ", ".join(far[:5]) + ", ..." * (len(far) > 5)
            warn(
                f"the posterior is far from normal in {worst}, so that the prior made of it stands "
                "for it poorly: fit all rows together, or use more rows before, or a tighter prior."
            )
        prior = MultivariateNormal(self.mean(), self.cov(), self.names, self.classes)
        prior.moments()
        return prior

    def _far_from_normal(self) -> list[str]:
        """Coordinates that are one-sided, skewed or heavy-tailed, beyond sampling error."""
        draws, weights = self.particles, self.weights
        if self.chains is not None:
            draws = self.chains.reshape(-1, draws.shape[1])
            weights = np.full(len(draws), 1.0 / len(draws))
        z = draws - weights @ draws
        z = z / np.maximum(np.sqrt(weights @ z**2), np.finfo(float).tiny)
        error = np.sqrt(weights @ weights)  # 1 / sqrt(ess)
        skewed = np.abs(weights @ z**3) > _MAX_SKEWNESS + 2.5 * np.sqrt(6.0) * error
        heavy = np.abs(weights @ z**4 - 3.0) > _MAX_EXCESS + 2.5 * np.sqrt(24.0) * error
        one_sided = np.isin(self.names, list(self.diagnostics.get("one_sided", ())))
        return [self.names[j] for j in np.flatnonzero(skewed | heavy | one_sided)]

    def sample(self, n_samples: int = 1, random_state=None) -> Array:
        """Draw particles with replacement, by weight.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : None, int, numpy.random.RandomState or numpy.random.Generator, default=None

        Returns
        -------
        ndarray of shape (n_samples, dim)

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
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
        n_particles = check_count(n_particles, "n_particles")
        if n_particles > len(self):
            raise ValueError(f"n_particles must lie in 1..{len(self)}, got {n_particles}.")
        chosen = systematic_resampling(self.weights, n_particles)
        return self._some(chosen, weights=np.full(n_particles, 1.0 / n_particles), state=None)

    def ksd(self, kernel=None) -> float:
        """Kernel Stein discrepancy between the particles and the target, in whitened coordinates.

        It measures how well the particles represent the parts of the posterior that they visit; it
        cannot see a mode that no particle visited, and does not prove convergence.

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

    def summary(self, quantiles=(0.05, 0.5, 0.95), *, hdi=None, kind="all"):
        """A table of the coordinates, with the Monte Carlo error if there are chains.

        Parameters
        ----------
        quantiles : float or array-like of shape (k,), default=(0.05, 0.5, 0.95)
            Probabilities in [0, 1].
        hdi : float, default=None
            Probability of the highest density interval, the narrowest one; None for no interval.
        kind : {"all", "stats", "diagnostics"}, default="all"
            "diagnostics": the columns about the Monte Carlo error; "stats": the others.

        Returns
        -------
        pandas.DataFrame, or dict of str to ndarray when pandas is not installed
            One row per coordinate, in their order, by name (``summary().loc["bmi"]``). Columns:

            - ``mean`` and ``std``;
            - a quantile each, such as ``5%``;
            - ``hdi90_lb`` and ``hdi90_ub``, the ends of the interval for ``hdi=0.9``;
            - ``P(>0)``, the probability that the coordinate is positive, in steps of a particle's
              weight;
            - only where the posterior has ``chains``: ``mcse_mean``, the Monte Carlo standard error
              of the mean; ``ess_bulk`` and ``ess_tail``, the effective sample sizes of the chains;
              ``rhat``, which should be below 1.01.

        Raises
        ------
        ValueError
            If a probability is outside [0, 1], or ``kind`` unknown.

        Notes
        -----
        ``mcse_mean`` combines the error of the chains' mean with its distance from the mean of the
        particles. It is an upper bound if an engine has improved the chains' mean by control
        variates. Particles that are not draws do not show their error; the engine's judgement of
        them is in ``diagnostics``.

        References
        ----------
        Vehtari et al. (2021), whose estimates :mod:`skstein.diagnostics` has.

        Examples
        --------
        >>> import numpy as np
        >>> from skstein import ParticlePosterior
        >>> slopes = np.random.default_rng(0).normal(1.0, 2.0, size=(1000, 1))
        >>> posterior = ParticlePosterior(slopes, names=["slope"])
        >>> list(posterior.summary([0.025, 0.975], hdi=0.9))
        ['mean', 'std', '2.5%', '97.5%', 'hdi90_lb', 'hdi90_ub', 'P(>0)']
        """
        levels = check_fractions(quantiles, "quantiles")
        if kind not in ("all", "stats", "diagnostics"):
            raise ValueError(f'kind must be "all", "stats" or "diagnostics"; got {kind!r}.')
        mean = self.mean()
        table = {"mean": mean, "std": self.std()}
        table |= dict(zip([f"{100 * q:g}%" for q in levels], self.quantile(levels), strict=True))
        if hdi is not None:
            mass = check_fraction(hdi, "hdi")
            low, high = narrowest_interval(self.particles, self.weights, mass)
            table |= {f"hdi{100 * mass:g}_lb": low, f"hdi{100 * mass:g}_ub": high}
        table["P(>0)"] = self.weights @ (self.particles > 0.0)
        if kind == "diagnostics":
            table = {}
        if kind != "stats" and self.chains is not None and self.chains.shape[1] >= _FEWEST_DRAWS:
            gap = mean - self.chains.mean(axis=(0, 1))
            table["mcse_mean"] = np.hypot(mcse_mean(self.chains), gap)
            ranked = rank_diagnostics(self.chains)
            table |= {name: ranked[name] for name in ("ess_bulk", "ess_tail", "rhat")}
        return as_table(self.names, table)

    def to_arviz(self, *, n_draws=None, container="auto"):
        """The posterior as ArviZ data: its chains, or draws of equal weight.

        If the posterior has ``chains``, ArviZ gets these, and its R-hat and effective sample sizes
        are those of the fit.

        Otherwise, and with ``n_draws``, it gets the particles as one chain. ArviZ has no weights:
        particles with different weights are repeated or left out, so that each appears ``n_draws``
        times its weight, to within one, as in `thin`; particles of equal weight are passed
        unchanged. They are not a chain: R-hat and effective sample sizes that ArviZ computes of
        them have no meaning, and the ``comment`` in the group's ``attrs`` says so.

        Parameters
        ----------
        n_draws : int, default=None
            Number of draws to make of the particles; more make the weights finer. By default all
            draws of the chains, or without chains as many as there are particles.
        container : {"auto", "datatree", "inferencedata"}, default="auto"
            "datatree": the tree of ArviZ 1, which needs ArviZ 1 or ``arviz-base``.
            "inferencedata": the container of ArviZ below 1. "auto": that of the installed ArviZ.

        Returns
        -------
        xarray.DataTree or arviz.InferenceData
            With the groups ``posterior`` and, if log densities of the draws are known,
            ``sample_stats`` (``lp``, unnormalised). Names such as ``"beta[0]"`` are gathered into
            one variable ``beta``.

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
        groups, layout, _ = self._arviz_groups(n_draws)
        return make_container(groups, **layout, container=container)

    def _arviz_groups(self, n_draws):
        """Groups for ArviZ, the layout of their variables, and which particles are the draws.

        The latter is None where the draws are those of the chains.
        """
        groups, comment, chosen = {}, {}, None
        if self.chains is not None and n_draws is None:
            draws = self.chains
        else:
            n_draws = len(self) if n_draws is None else check_count(n_draws, "n_draws")
            chosen = systematic_resampling(self.weights, n_draws)
            draws, comment = self.particles[None, chosen], {"comment": _NO_CHAIN}
            if self.log_densities is not None:
                groups["sample_stats"] = {"lp": self.log_densities[None, chosen]}
        groups["posterior"], dims, coords = arviz_variables(draws, self.names)
        return groups, {"dims": dims, "coords": coords, "attrs": comment}, chosen

    def _pushed(self, bijection: Bijection | None, names=None) -> "ParticlePosterior":
        """The same posterior in the coordinates ``bijection.forward(particles)``, or these ones."""
        names = self.names if names is None else names
        if bijection is None:
            return self._with(names=names)
        log_densities, scores = self.log_densities, self.scores
        if log_densities is not None:
            log_densities = log_densities - bijection.log_det(self.particles)
        if scores is not None:
            scores = bijection.push_score(self.particles, scores)
        chains = self.chains
        if chains is not None:
            chains = bijection.forward(chains.reshape(-1, chains.shape[2])).reshape(chains.shape)
        return self._with(
            particles=bijection.forward(self.particles),
            chains=chains,
            names=names,
            log_densities=log_densities,
            scores=scores,
            whitening=None if self.whitening is None else Composition(bijection, self.whitening),
            _fingerprint=self._fingerprint and self._fingerprint.pushed(bijection),
        )

    def _pulled(self, bijection: Bijection) -> "ParticlePosterior":
        """The same particles and log densities, taken back by ``bijection``; undoes `_pushed`."""
        particles = bijection.inverse(self.particles)
        log_densities = self.log_densities
        if log_densities is not None:
            log_densities = log_densities + bijection.log_det(particles)
        pulled = ParticlePosterior(
            particles, self.weights, log_densities=log_densities, state=self.state
        )
        pulled._fingerprint = self._fingerprint and self._fingerprint.pulled(bijection)
        return pulled

    def _some(self, chosen, **changes) -> "ParticlePosterior":
        """The chosen particles, with what is known of each."""
        for name in ("particles", "log_densities", "scores"):
            values = getattr(self, name)
            changes[name] = None if values is None else values[chosen]
        return self._with(**changes)

    def _with(self, **changes) -> "ParticlePosterior":
        posterior = changed(self, **changes)
        posterior.names = as_names(posterior.names, posterior.particles.shape[1])
        posterior.particles = np.ascontiguousarray(posterior.particles)
        return posterior
