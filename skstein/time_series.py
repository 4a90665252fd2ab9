"""Stochastic volatility of a series of returns.

The estimator fits parameters and path of log variances together. The engines work in coordinates in
which that posterior is nearly standard normal (`targets/volatility/smoothed_path.py`); everything
that is reported is of the parameters and the path themselves.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from . import _jit
from ._estimators.base import BayesianEstimator
from ._input.validation import (
    HasMethods,
    Interval,
    StrOptions,
    check_count,
    check_fractions,
    check_level,
    check_magnitude,
    refuse_dask,
    validate_data,
    validated,
)
from ._predictions.methods import normal_nodes
from ._tools.random import as_generator
from ._tools.warnings import warn
from .diagnostics import weighted_ess
from .inference import ENGINES, resolve_engine
from .targets import FactorizedTarget, SmoothedTarget, StochasticVolatilityTarget
from .targets.volatility.stochastic_volatility import draw_next

_MIN_RETURNS = 10
_HYPERPRIOR = ("mu_variance", "phi_a", "phi_b", "sigma2_shape", "sigma2_scale")
_N_NODES = 8  # of the quadrature over the log variance of a return ahead
_MOST_STILL = 0.1  # share of returns of 0, above which they are not those of this model
_FEW = 1000  # particles that predictions take
_DOMINANT = 0.2  # the most that one of them may have of a mean
_FILTER_PATHS = 100  # of a particle filter, for each particle
_MIN_ESS = 20  # of the posterior's particles, given the returns that `log_predictive` has passed


@dataclass(eq=False, repr=False)
class StochasticVolatility(BayesianEstimator):
    r"""Bayesian stochastic volatility of a series of returns.

    .. math::
        y_t \sim N(0, e^{x_t}), \quad x_t \sim N(\mu + \phi (x_{t-1} - \mu), \sigma^2), \quad
        x_1 \sim N(\mu, \sigma^2 / (1 - \phi^2)).

    The volatility of a return is its standard deviation :math:`e^{x_t / 2}`, in the units of the
    returns. Its logarithm wanders around a level: :math:`\mu` is the mean of the log variance
    :math:`x`, :math:`\phi` how much of a deviation is left one return later, and :math:`\sigma^2`
    the variance of the shocks. The mean of the returns is taken to be 0: centre them. The priors
    suit percent.

    :doc:`/methods/stochastic_volatility` has the coordinates, and when not to trust it.

    Parameters
    ----------
    inference : str or engine instance, default="pmfvb"
        How the posterior is found: "mcmc", "ksd-mcmc", "pmfvb", "svgd", "fwss", "stein-points",
        "pmd" or "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
        Unlike in other models, "mcmc" is not the default: "pmfvb" was as accurate as "ksd-mcmc" in
        hundreds of coordinates, and faster (:doc:`/methods/stochastic_volatility`).
    mu_variance : float, default=10.0
        Variance of the normal prior of :math:`\mu`, whose mean is 0.
    phi_a, phi_b : float, default=20.0, 1.5
        Parameters of the beta prior of :math:`(1 + \phi) / 2`.
    sigma2_shape, sigma2_scale : float, default=2.5, 0.025
        Shape and scale of the inverse gamma prior of :math:`\sigma^2`.
    factorized : bool, default=False
        Whether to make the mean-field assumption :math:`q(\mu) q(\sigma^2) q(\phi, x)` of the
        paper, which needs ``inference=PMFVB(one_sided=False)``. It understates the standard
        deviation of :math:`\sigma^2`, often seven times, and those of :math:`\mu` and :math:`\phi`
        too; a warning says so.
    random_state : int, RandomState instance or None, default=None
        Seed of the inference; an int makes it reproducible.
    n_jobs : int, default=None
        Number of jobs for independent pieces of the inference; the result does not depend on it.
    verbose : int, default=0
        If positive, a line is printed for each tenth of the inference.
    warm_start : bool, default=False
        Whether `fit` goes on from the posterior of the call before, on the same returns.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Weighted particles of ``(mu, atanh_phi, log_sigma2, x[0], ..., x[T - 1])``.
    mu_, phi_, sigma2_ : float
        Posterior means.
    mu_std_, phi_std_, sigma2_std_ : float
        Posterior standard deviations.
    volatility_ : ndarray of shape (n_samples,)
        Posterior mean of the volatility of each return, in its units.
    inference_ : engine instance
        The engine that was run.
    n_iter_ : int
        Number of iterations it made.
    n_features_in_ : int
        Always 1.
    feature_names_in_ : ndarray of shape (1,)
        Name of the column, if X is a data frame.

    References
    ----------
    Tran, Tseng & Kohn, "Particle mean field variational Bayes" (arXiv:2303.13930), section 6.2.

    Kim, Shephard & Chib (1998), "Stochastic volatility: likelihood inference and comparison with
    ARCH models" (doi:10.1111/1467-937X.00050), for the priors.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import StochasticVolatility
    >>> rng = np.random.default_rng(0)
    >>> returns = np.repeat([0.5, 2.0, 0.5], 40) * rng.normal(size=120)
    >>> model = StochasticVolatility(random_state=0).fit(returns)
    >>> bool(model.volatility_[60] > 2 * model.volatility_[10])
    True
    >>> model.predict(horizon=5).shape, model.predict_interval(horizon=5, level=0.9).shape
    ((5,), (5, 2))
    """

    _parameter_constraints = {
        **BayesianEstimator._parameter_constraints,
        "inference": [StrOptions(set(ENGINES)), HasMethods("run")],
        **{name: [Interval(Real, 0, None, closed="neither")] for name in _HYPERPRIOR},
        "factorized": ["boolean"],
        "warm_start": ["boolean"],
    }

    inference: Any = "pmfvb"
    _: KW_ONLY
    mu_variance: float = 10.0
    phi_a: float = 20.0
    phi_b: float = 1.5
    sigma2_shape: float = 2.5
    sigma2_scale: float = 0.025
    factorized: bool = False
    warm_start: bool = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # A column of returns is taken too, but no table.
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        tags.input_tags.sparse = False
        return tags

    @validated
    def fit(self, X, y=None):
        """Find the posterior of the parameters and of the path of log variances.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, 1)
            Returns, in order of time; at least ten.
        y : None
            Ignored; there for scikit-learn's sake.

        Returns
        -------
        self : StochasticVolatility

        Raises
        ------
        ValueError
            If a parameter or X is invalid: a return is missing or infinite, all are equal, more
            than a tenth are 0, or they are not in order of time.
        FloatingPointError
            If the inference diverges.

        Warns
        -----
        ConvergenceWarning
            If the posterior is likely to be wrong, as it is with "svgd" and "fwss".
        UserWarning
            If the mean of the returns is far from 0, if their variance is far from what the prior
            of mu expects, or with ``factorized=True``.
        """
        returns = self._validated(X, reset=True, least=_MIN_RETURNS)
        _require_volatility(returns, self.mu_variance)
        hyperprior = {name: getattr(self, name) for name in _HYPERPRIOR}
        target = StochasticVolatilityTarget(returns, **hyperprior)
        engine = resolve_engine(self.inference)
        if self.factorized:
            if not engine.keeps_factors or engine.one_sided:
                raise ValueError(
                    "factorized=True needs an engine that keeps the factors apart: use "
                    "inference=PMFVB(one_sided=False), with blocks=None."
                )
            warn(
                "factorized=True understates standard deviations, that of sigma^2 often seven "
                "times; use factorized=False for what the returns leave open.",
                UserWarning,
            )
        working = FactorizedTarget(target) if self.factorized else SmoothedTarget(target)
        if engine.stays_near_start(working):
            warn(
                "it stays near its start, and over so long a path that may miss means of the "
                "parameters by a standard deviation: use pmfvb or mcmc.",
                by=engine.name,
            )
        return self._infer(working, working.bijection, X, y, None)

    def _summaries(self, posterior):
        theta, weights = posterior.particles, posterior.weights
        summaries = {}
        values = {"mu": theta[:, 0], "phi": np.tanh(theta[:, 1]), "sigma2": np.exp(theta[:, 2])}
        for name, value in values.items():
            mean = weights @ value
            summaries[f"{name}_"] = float(mean)
            summaries[f"{name}_std_"] = float(np.sqrt(weights @ (value - mean) ** 2))
        return {**summaries, "volatility_": weights @ np.exp(0.5 * theta[:, 3:])}

    def volatility_interval(self, level=0.9):
        """Central credible interval of the volatility of each return of `fit`.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the interval, from 0 to 1.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper end, in units of the returns.

        Raises
        ------
        ValueError
            If ``level`` is outside [0, 1].
        """
        check_is_fitted(self)
        return np.exp(0.5 * self.posterior_.quantile(check_level(level))[:, 3:]).T

    def predict(self, horizon=1):
        """Mean volatility of the returns that follow those of `fit`, over the posterior.

        Parameters
        ----------
        horizon : int, default=1
            Number of returns ahead.

        Returns
        -------
        volatility : ndarray of shape (horizon,)
            In units of the returns.

        Warns
        -----
        ConvergenceWarning
            If a fifth of a mean is that of one particle: the variance of the log variance has a
            heavy tail, and so has the volatility, the more the farther ahead.
        """
        check_is_fitted(self)
        mean, variance = self._ahead(self.posterior_, horizon)
        parts = np.exp(0.5 * mean + 0.125 * variance) * self.posterior_.weights
        if np.any(parts.max(axis=1) > _DOMINANT * parts.sum(axis=1)):
            warn(
                "the mean volatility so far ahead is that of one particle, and may be infinite: "
                "use predict_quantiles(horizon, 0.5)."
            )
        return parts.sum(axis=1)

    def predict_quantiles(self, horizon, q, of="volatility"):
        """Quantiles of the volatility, or of the returns, that follow those of `fit`.

        Those of the mixture over the particles: exact for the volatility; for the returns up to a
        quadrature, over 1000 particles, evenly chosen, where there are more.

        Parameters
        ----------
        horizon : int
            Number of returns ahead.
        q : float or array-like of shape (n_quantiles,)
            From 0 to 1; a single number gives one column.
        of : {"volatility", "returns"}, default="volatility"
            "returns" holds the noise of a return as well.

        Returns
        -------
        quantiles : ndarray of shape (horizon, n_quantiles)
            In units of the returns.

        Raises
        ------
        ValueError
            If ``q`` is outside [0, 1], or ``horizon`` or ``of`` is invalid.
        """
        q = check_fractions(q, "q")
        if of not in ("volatility", "returns"):
            raise ValueError(f'of must be "volatility" or "returns"; got {of!r}.')
        check_is_fitted(self)
        posterior = self.posterior_ if of == "volatility" else self._few()
        mean, variance = self._ahead(posterior, horizon)
        weights = posterior.weights
        if of == "volatility":
            return np.exp(0.5 * _jit.normal_mixtures.quantile(mean, np.sqrt(variance), weights, q))
        log_variance, weights = normal_nodes(mean, np.sqrt(variance), weights, _N_NODES)
        scale = np.exp(0.5 * log_variance)
        return _jit.normal_mixtures.quantile(np.zeros_like(scale), scale, weights, q)

    def predict_interval(self, horizon=1, level=0.9, of="volatility"):
        """Central prediction interval of the volatility, or of the returns, that follow.

        Parameters
        ----------
        horizon : int, default=1
            Number of returns ahead.
        level : float, default=0.9
            Probability of the interval, from 0 to 1.
        of : {"volatility", "returns"}, default="volatility"
            "returns" holds the noise of a return as well.

        Returns
        -------
        interval : ndarray of shape (horizon, 2)
            Lower and upper end, in units of the returns.

        Raises
        ------
        ValueError
            If ``level`` is outside [0, 1], or ``horizon`` or ``of`` is invalid.
        """
        return self.predict_quantiles(horizon, check_level(level), of)

    def sample_predictive(self, horizon=1, n_samples=1, random_state=None):
        """Draw what follows the returns of `fit`.

        Parameters
        ----------
        horizon : int, default=1
            Number of returns ahead.
        n_samples : int, default=1
            Number of draws; each comes from one particle, and is a joint draw of all returns.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        draws : :class:`~sklearn.utils.Bunch`
            ``volatility`` and ``returns``, ndarrays of shape (horizon, n_samples), in units of the
            returns.

        Raises
        ------
        ValueError
            If ``horizon`` or ``n_samples`` is not a positive integer.
        """
        check_is_fitted(self)
        horizon = check_count(horizon, "horizon")
        n_samples = check_count(n_samples, "n_samples")
        rng = as_generator(random_state)
        theta = self.posterior_.sample(n_samples, rng)
        x, path = theta[:, -1], np.empty((horizon, n_samples))
        for t in range(horizon):
            path[t] = x = draw_next(theta, x, rng)
        volatility = np.exp(0.5 * path)
        returns = volatility * rng.standard_normal(volatility.shape)
        return Bunch(volatility=volatility, returns=returns)

    def log_predictive(self, X):
        """Log density of each of the returns that follow those of `fit`, given all before it.

        A bootstrap particle filter of 100 paths goes on from each particle (from 1000 of them,
        evenly chosen, where there are more). The density of a return is averaged over all paths,
        and the particles are weighted again by it, so that the parameters learn from the new
        returns too. The filter's random numbers are always the same.

        Parameters
        ----------
        X : array-like of shape (n_returns,) or (n_returns, 1)
            The returns right after those of `fit`, in order of time.

        Returns
        -------
        log_predictive : ndarray of shape (n_returns,)
            Natural logarithm of a density per unit of return.

        Raises
        ------
        ValueError
            If a return is missing or infinite, or they are not in order of time.

        Warns
        -----
        ConvergenceWarning
            If the returns leave the weight to fewer than twenty particles: fit to them instead.
        """
        posterior, rng = self._few(), as_generator(0)
        returns = self._validated(X, reset=False)
        theta = posterior.particles
        with np.errstate(divide="ignore"):
            log_weights = np.log(posterior.weights)
        x = np.repeat(theta[:, -1:], _FILTER_PATHS, axis=1)
        result = np.empty(len(returns))
        for t, y in enumerate(returns):
            x = draw_next(theta, x, rng)
            log_density = -0.5 * (np.log(2 * np.pi) + x + y**2 * np.exp(-x))
            log_weights += logsumexp(log_density, axis=1) - np.log(_FILTER_PATHS)
            result[t] = logsumexp(log_weights)
            log_weights -= result[t]
            x = _resampled(x, log_density, rng)
        left = weighted_ess(np.exp(log_weights))
        if left < min(_MIN_ESS, 0.5 * len(theta)):
            warn("after these returns few particles have weight; fit to them, or score fewer.")
        return result

    def score(self, X, y=None):
        """Mean of `log_predictive`: larger is better.

        Parameters
        ----------
        X : array-like of shape (n_returns,) or (n_returns, 1)
            The returns right after those of `fit`, in order of time.
        y : None
            Ignored; there for scikit-learn's sake.

        Returns
        -------
        score : float
        """
        return float(self.log_predictive(X).mean())

    def _validated(self, X, reset, least=1):
        """The returns as float64 of shape (n,)."""
        refuse_dask(X, "X")
        index: Any = getattr(X, "index", None)
        of_times = getattr(index, "inferred_type", "") in ("datetime64", "period")
        if of_times and not index.is_monotonic_increasing:
            raise ValueError("X is not in order of time; sort it by its index.")
        column = np.asarray(X)[:, None] if np.ndim(X) == 1 else X
        options = {"dtype": np.float64, "ensure_all_finite": False, "reset": reset}
        table = validate_data(self, column, ensure_min_samples=least, **options)
        if table.shape[1] != 1:
            raise ValueError(f"X must be one series of returns, got {table.shape[1]} columns.")
        returns = table[:, 0]
        for wrong, what in ((np.isnan(returns), "missing"), (np.isinf(returns), "infinite")):
            if wrong.any():
                raise ValueError(
                    f"X holds {np.count_nonzero(wrong)} {what} returns, the first at position "
                    f"{np.flatnonzero(wrong)[0]}; leave them out (days around become neighbours)."
                )
        check_magnitude(returns, "X")
        return returns

    def _few(self):
        """The posterior, by as many particles as numerical integration can bear."""
        check_is_fitted(self)
        posterior = self.posterior_
        return posterior if len(posterior) <= _FEW else posterior.thin(_FEW)

    def _ahead(self, posterior, horizon):
        """Mean and variance of the log variance ahead for each particle, shapes (horizon, m)."""
        theta = posterior.particles
        mu, phi, last = theta[:, 0], np.tanh(theta[:, 1]), theta[:, -1]
        ahead = np.arange(1, check_count(horizon, "horizon") + 1)[:, None]
        # sigma^2 (1 - phi^(2 h)) / (1 - phi^2), without cancellation where phi is near 1.
        gap = np.cosh(theta[:, 1]) ** -2
        with np.errstate(divide="ignore"):
            variance = np.exp(theta[:, 2]) * -np.expm1(ahead * np.log1p(-gap)) / gap
        return mu + phi**ahead * (last - mu), variance


def _require_volatility(returns, mu_variance):
    """Refuse a series without variation; warn of one that the model or its prior does not fit."""
    mean, spread = returns.mean(), returns.std()
    if np.ptp(returns) == 0.0:
        what = "0, which says nothing of their volatility" if mean == 0.0 else f"{mean:g}"
        raise ValueError(f"all returns in X are {what}; X must hold returns that vary.")
    still = np.count_nonzero(returns == 0.0)
    if still > _MOST_STILL * len(returns):
        raise ValueError(
            f"{still} of {len(returns)} returns in X are 0, as of prices that stood still: a "
            "volatility of 0 would explain them best; leave those times out."
        )
    level = np.log(np.mean(returns**2))
    if abs(level) > 4 * np.sqrt(mu_variance):
        warn(
            f"the log variance of the returns, {level:.1f}, is far from 0, where mu_variance="
            f"{mu_variance:g} expects it: give returns in percent, or raise mu_variance.",
            UserWarning,
        )
    if abs(mean) > max(0.25, 5 / np.sqrt(len(returns))) * spread:
        warn(
            f"the mean of the returns, {mean:.3g}, is large beside their standard deviation, "
            f"{spread:.3g}, and the model takes it to be 0: give returns, not prices, and centre "
            "them.",
            UserWarning,
        )


def _resampled(x, log_weights, rng):
    """Rows of ``x`` (m, k) resampled by weight, systematically within each row."""
    m, k = x.shape
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), axis=1)
    cumulative /= cumulative[:, -1:]
    # One search for all rows: row i occupies the interval from i to i + 1.
    rows = np.arange(m)[:, None]
    positions = rows + (np.arange(k) + rng.random((m, 1))) / k
    chosen = np.searchsorted((cumulative + rows).ravel(), positions.ravel())
    return x.ravel()[np.minimum(chosen.reshape(m, k), k * rows + k - 1)]
