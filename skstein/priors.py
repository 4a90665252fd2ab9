r"""Priors on regression coefficients.

A prior is a parameter object: an estimator's ``prior="normal"`` makes one with its defaults, and
``prior__scale`` tunes it in a grid search. It knows only a block of coefficients, never the data.
``PRIORS`` has the names: "normal", "laplace", "student-t", "adaptive-ridge",
"hierarchical-normal" and "horseshoe".

The hierarchical priors are scale mixtures of normals with the mixing variable integrated out: a
variance of its own for each coefficient, :math:`\tau_j \sim IG(a, b)`, gives a Student t; one
precision for all, :math:`\alpha \sim \Gamma(a, b)`, a multivariate t. No engine then has to move in
the funnel that a coefficient and its own variance form. Their joint mode is a poor centre; engines
are whitened with `conditional`, the normal prior of the expected precision.

A noise variance has a prior of its own kind, `NoisePrior`, which is a density of its logarithm.
Standard deviations of random effects have `HalfNormal` or `HalfStudentT`.
"""

from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import digamma, expit, gammaln, log_ndtr, ndtri_exp, stdtr, stdtrit
from sklearn.base import BaseEstimator, clone

from ._validation import LARGEST, Interval

_POSITIVE = [Interval(Real, 0, None, closed="neither")]
_LOCATION = [Real, "array-like"]
_EXTREME = [Interval(Real, 1 / LARGEST, LARGEST, closed="both")]
_FLAT = -4.0  # normal score, below which a prior of standard deviations is flat to rounding
_NO_NOISE = 1e-5  # a variance, relative to that of the outcome, which rounding alone may leave


class Prior(BaseEstimator):
    """Base class of priors on a block of ``p`` coefficients.

    A subclass writes `log_density`, `score`, `precision`, `sample` and `expected_precision`.

    Attributes
    ----------
    loc : float or array-like of shape (n_features,)
        What the coefficients are expected to be; 0 for a prior that does not say.
    precisions : {"given", "each", "shared"} or None
        Of the normals that the prior is a mixture of: "given" by ``scale``; gamma distributed, for
        "each" coefficient its own, so that the prior is a Student t with ``df`` and ``scale``; or
        one of ``shape`` and ``rate``, "shared" by all. None where they have no closed form.
    blockwise : bool
        Whether it is a density of a block of coefficients alone. `MultivariateNormal` is of all
        coordinates of a model, and `Horseshoe` adds some: an estimator finds coordinates for them.
    """

    precisions: str | None = None
    loc: Any = 0.0
    blockwise: bool = True

    def location(self, p):
        """``loc`` of each of ``p`` coefficients, shape (p,)."""
        return _each(self.loc, p, "loc")

    def _deviation(self, coef):
        """``coef`` (..., p) less ``loc``."""
        return coef - self.location(coef.shape[-1])

    def conditional(self, second_moment):
        """The normal prior that stands for this one near a posterior with ``E[(coef - loc)**2]``.

        Parameters
        ----------
        second_moment : ndarray of shape (p,)

        Returns
        -------
        Normal
        """
        return Normal(1.0 / np.sqrt(self.expected_precision(second_moment)), self.loc)

    def variance_groups(self, p):
        """Which of ``p`` coefficients share a variance that the prior integrates out.

        Returns
        -------
        ndarray of int, shape (p,), or None
            The number of each coefficient's variance; None where there is none.
        """
        return None


class Normal(Prior):
    """Independent normal prior on every coefficient.

    Parameters
    ----------
    scale : float or array-like of shape (n_features,), default=1.0
        Standard deviation, in units of the coefficients of the features as the model sees them
        (standardised ones when the estimator standardises). An array gives each feature its own,
        the same for every class.
    loc : float or array-like of shape (n_features,), default=0.0
        Mean, in the same units.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import Normal
    >>> Normal(scale=2.0).score(np.array([[4.0, 0.0]]))
    array([[-1., -0.]])
    """

    precisions = "given"
    _parameter_constraints = {"scale": [*_POSITIVE, "array-like"], "loc": _LOCATION}

    def __init__(self, scale=1.0, loc=0.0):
        self.scale = scale
        self.loc = loc

    def log_density(self, coef):
        """Normalised log density of each row of ``coef`` (m, p), shape (m,)."""
        scale = _each(self.scale, coef.shape[1])
        standard = self._deviation(coef) / scale
        standard = -0.5 * np.einsum("ij,ij->i", standard, standard)
        return standard - np.log(scale).sum() - 0.5 * coef.shape[1] * np.log(2 * np.pi)

    def score(self, coef):
        """Gradient of the log density at each row of ``coef`` (m, p), shape (m, p)."""
        return -self._deviation(coef) / _each(self.scale, coef.shape[1]) ** 2

    def precision(self, coef):
        """Negative Hessian of the log density at ``coef`` (p,), shape (p, p)."""
        return np.diag(self.expected_precision(self._deviation(coef) ** 2))

    def expected_precision(self, second_moment):
        """Precision of the normals mixed, given ``E[(coef - loc)**2]``, shape (p,)."""
        return _each(self.scale, len(second_moment)) ** -2.0

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, shape (m, p)."""
        return self.location(p) + _each(self.scale, p) * rng.standard_normal((m, p))


class Laplace(Prior):
    """Independent double exponential prior, the Bayesian lasso.

    Parameters
    ----------
    scale : float or array-like of shape (n_features,), default=1.0
        The density is ``exp(-|coef - loc| / scale) / (2 scale)``; the standard deviation is
        ``sqrt(2) scale``.
    loc : float or array-like of shape (n_features,), default=0.0
        Where the density has its peak, in the same units.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import Laplace
    >>> Laplace(scale=2.0).score(np.array([[4.0, -1.0]]))
    array([[-0.5,  0.5]])
    """

    _parameter_constraints = {"scale": [*_POSITIVE, "array-like"], "loc": _LOCATION}

    def __init__(self, scale=1.0, loc=0.0):
        self.scale = scale
        self.loc = loc

    def log_density(self, coef):
        """Normalised log density of each row of ``coef`` (m, p), shape (m,)."""
        scale = _each(self.scale, coef.shape[1])
        return -np.sum(np.abs(self._deviation(coef)) / scale, axis=1) - np.log(2 * scale).sum()

    def score(self, coef):
        """Gradient of the log density at each row of ``coef`` (m, p), shape (m, p)."""
        return -np.sign(self._deviation(coef)) / _each(self.scale, coef.shape[1])

    def precision(self, coef):
        """Negative Hessian of the log density at ``coef`` (p,), shape (p, p): 0 off the kink."""
        return np.zeros((len(coef), len(coef)))

    def expected_precision(self, second_moment):
        """Precision of the normals mixed, given ``E[(coef - loc)**2]``, shape (p,)."""
        return 1.0 / (_each(self.scale, len(second_moment)) * np.sqrt(second_moment))

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, shape (m, p)."""
        return self.location(p) + rng.laplace(size=(m, p)) * _each(self.scale, p)


class StudentT(Prior):
    """Independent Student t prior: robust to a few large coefficients.

    Parameters
    ----------
    df : float, default=4.0
        Degrees of freedom.
    scale : float or array-like of shape (n_features,), default=1.0
        Scale; the standard deviation is ``scale * sqrt(df / (df - 2))`` for ``df`` above 2.
    loc : float or array-like of shape (n_features,), default=0.0
        Median, in the same units.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import StudentT
    >>> StudentT(df=1.0).score(np.array([[1.0]]))
    array([[-1.]])
    """

    precisions = "each"
    _parameter_constraints = {
        "df": _POSITIVE,
        "scale": [*_POSITIVE, "array-like"],
        "loc": _LOCATION,
    }

    def __init__(self, df=4.0, scale=1.0, loc=0.0):
        self.df = df
        self.scale = scale
        self.loc = loc

    def log_density(self, coef):
        """Normalised log density of each row of ``coef`` (m, p), shape (m,)."""
        df, p = self.df, coef.shape[1]
        scale = _each(self.scale, p)
        value = -0.5 * (df + 1) * np.log1p((self._deviation(coef) / scale) ** 2 / df).sum(axis=1)
        constant = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
        return value + p * constant - np.log(scale).sum()

    def score(self, coef):
        """Gradient of the log density at each row of ``coef`` (m, p), shape (m, p)."""
        coef = self._deviation(coef)
        return -coef * self._precision(coef**2)

    def _precision(self, square):
        scale = _each(self.scale, square.shape[-1])
        return (self.df + 1) / (self.df * scale**2 + square)

    def precision(self, coef):
        """Negative Hessian of the log density at ``coef`` (p,), shape (p, p)."""
        coef = self._deviation(coef)
        precision = self._precision(coef**2)
        return np.diag(precision - 2 * (precision * coef) ** 2 / (self.df + 1))

    def expected_precision(self, second_moment):
        """Precision of the normals mixed, given ``E[(coef - loc)**2]``, shape (p,)."""
        return self._precision(second_moment)

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, shape (m, p)."""
        return self.location(p) + rng.standard_t(self.df, (m, p)) * _each(self.scale, p)


class AdaptiveRidge(StudentT):
    r"""A variance of its own for every coefficient, integrated out.

    ``coef_j | tau_j ~ N(loc, tau_j)``, ``tau_j ~ InvGamma(shape, rate)``: a Student t with
    ``2 shape`` degrees of freedom and scale ``sqrt(rate / shape)``.

    Parameters
    ----------
    shape, rate : float, default=1.0
        Of the inverse gamma distribution, whose density is proportional to
        ``tau ** -(shape + 1) * exp(-rate / tau)``.
    loc : float or array-like of shape (n_features,), default=0.0
        Median, in units of the coefficients of the features as the model sees them.

    References
    ----------
    Tran, Tseng & Kohn, "Particle mean field variational Bayes", section 7.

    Examples
    --------
    >>> from skstein.priors import AdaptiveRidge
    >>> AdaptiveRidge(shape=2.0).df
    4.0
    """

    _parameter_constraints = {"shape": _POSITIVE, "rate": _POSITIVE, "loc": _LOCATION}

    def __init__(self, shape=1.0, rate=1.0, loc=0.0):
        self.shape = shape
        self.rate = rate
        self.loc = loc

    @property
    def df(self):
        """Degrees of freedom of the t distribution."""
        return 2.0 * self.shape

    @property
    def scale(self):
        """Scale of the t distribution."""
        return np.sqrt(self.rate / self.shape)

    def variance_groups(self, p):
        """One for each coefficient; see `Prior.variance_groups`."""
        return np.arange(p)


class HierarchicalNormal(Prior):
    r"""One unknown precision for all coefficients, integrated out.

    ``coef_j | alpha ~ N(loc, 1 / alpha)``, ``alpha ~ Gamma(shape, rate)``: a multivariate t with
    ``2 shape`` degrees of freedom. How much all coefficients shrink is learnt from the data.

    Parameters
    ----------
    shape, rate : float, default=1.0
        Of the gamma distribution, whose mean is ``shape / rate``.
    loc : float or array-like of shape (n_features,), default=0.0
        What the coefficients shrink towards, in units of the coefficients of the features as the
        model sees them.

    References
    ----------
    "Frank-Wolfe Stein sampling", section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import HierarchicalNormal
    >>> HierarchicalNormal().score(np.array([[1.0, 1.0]]))
    array([[-1., -1.]])
    """

    precisions = "shared"
    _parameter_constraints = {"shape": _POSITIVE, "rate": _POSITIVE, "loc": _LOCATION}

    def __init__(self, shape=1.0, rate=1.0, loc=0.0):
        self.shape = shape
        self.rate = rate
        self.loc = loc

    def log_density(self, coef):
        """Normalised log density of each row of ``coef`` (m, p), shape (m,)."""
        a, b, p = self.shape, self.rate, coef.shape[1]
        coef = self._deviation(coef)
        half = 0.5 * np.einsum("ij,ij->i", coef, coef)
        constant = gammaln(a + 0.5 * p) - gammaln(a) - 0.5 * p * np.log(2 * np.pi * b)
        return constant - (a + 0.5 * p) * np.log1p(half / b)

    def _alpha(self, square, p):
        return (self.shape + 0.5 * p) / (self.rate + 0.5 * square)

    def score(self, coef):
        """Gradient of the log density at each row of ``coef`` (m, p), shape (m, p)."""
        coef = self._deviation(coef)
        square = np.einsum("ij,ij->i", coef, coef)
        return -self._alpha(square, coef.shape[1])[:, None] * coef

    def precision(self, coef):
        """Negative Hessian of the log density at ``coef`` (p,), shape (p, p)."""
        p, coef = len(coef), self._deviation(coef)
        alpha = self._alpha(coef @ coef, p)
        return alpha * np.eye(p) - alpha**2 / (self.shape + 0.5 * p) * np.outer(coef, coef)

    def expected_precision(self, second_moment):
        """Precision of the normals mixed, given ``E[(coef - loc)**2]``, shape (p,)."""
        p = len(second_moment)
        return np.full(p, self._alpha(second_moment.sum(), p))

    def variance_groups(self, p):
        """One for all coefficients; see `Prior.variance_groups`."""
        return np.zeros(p, dtype=int)

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, shape (m, p)."""
        alpha = rng.standard_gamma(self.shape, (m, 1)) / self.rate
        return self.location(p) + rng.standard_normal((m, p)) / np.sqrt(alpha)


class Horseshoe(Prior):
    r"""Regularised horseshoe: most coefficients next to 0, a few as large as the data say.

    ``coef_j ~ N(0, v_j)`` with ``1 / v_j = 1 / (tau lambda_j)**2 + 1 / c**2``: local scales
    ``lambda_j`` and a global one ``tau``, half-Cauchy, and a slab of scale ``c`` for what is large,
    whose square is inverse gamma. Local scales are integrated out; ``tau`` and ``c`` are part of
    the posterior, as logarithms and on the scale on which the prior applies.

    Parameters
    ----------
    n_relevant : float, default=None
        How many coefficients are expected to be relevant: it sets the scale of ``tau`` to
        ``n_relevant / (p - n_relevant) * sigma / sqrt(n)``, with ``sigma`` the standard deviation
        of the noise, estimated along, in linear regression, and what stands for it in others (2 for
        logistic regression). By default a tenth of the coefficients, and at least one.
    slab_scale : float, default=2.0
        Scale of large coefficients, in units of the coefficients of the features as the model sees
        them (standardised ones when the estimator standardises).
    slab_df : float, default=4.0
        Degrees of freedom of large coefficients, which have a Student t distribution.
    global_scale : float, default=None
        The scale of ``tau`` itself, in place of ``n_relevant``; streams need it. In linear
        regression it is relative to the standard deviation of the noise.

    References
    ----------
    Piironen & Vehtari, "Sparsity information and regularization in the horseshoe and other
    shrinkage priors", 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianLinearRegression
    >>> from skstein.priors import Horseshoe
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 30))
    >>> y = 2.0 * X[:, 0] + rng.normal(size=100)
    >>> model = BayesianLinearRegression(prior=Horseshoe(n_relevant=2), random_state=0).fit(X, y)
    >>> bool(model.coef_[0] > 20 * np.abs(model.coef_[1:]).mean())
    True
    """

    blockwise = False
    _parameter_constraints = {
        "n_relevant": [*_POSITIVE, None],
        "slab_scale": _EXTREME,
        "slab_df": _EXTREME,
        "global_scale": [*_EXTREME, None],
    }

    def __init__(self, n_relevant=None, slab_scale=2.0, slab_df=4.0, global_scale=None):
        self.n_relevant = n_relevant
        self.slab_scale = slab_scale
        self.slab_df = slab_df
        self.global_scale = global_scale

    def odds(self, p):
        """The expected number of relevant coefficients over that of the others.

        Raises
        ------
        ValueError
            If ``n_relevant`` are all coefficients or more.
        """
        relevant = min(max(1.0, 0.1 * p), 0.5 * p) if self.n_relevant is None else self.n_relevant
        if not relevant < p:
            raise ValueError(
                f"Horseshoe expects n_relevant={relevant} relevant coefficients of {p}: give fewer "
                "than there are, or use another prior."
            )
        return relevant / (p - relevant)

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, (m, p), with noise of variance 1."""
        if self.global_scale is None:
            raise ValueError("draws of a Horseshoe need its global_scale: without data it is open.")
        half = 0.5 * self.slab_df
        slab = half * self.slab_scale**2 / rng.standard_gamma(half, (m, 1))
        tau, local = (np.abs(rng.standard_cauchy(size)) for size in [(m, 1), (m, p)])
        free = (self.global_scale * tau * local) ** 2
        return np.sqrt(slab * free / (slab + free)) * rng.standard_normal((m, p))


class MultivariateNormal(Prior):
    """One normal prior of all coordinates of a model: what earlier rows have told.

    It is on the scale of the raw features, and has all that the posterior of a fit has: intercepts,
    coefficients, and what further coordinates the outcome has, such as the log variance of noise.
    It takes the place of ``prior``, ``intercept_prior`` and the prior of the noise. The method
    ``as_prior`` of a posterior makes one; rows that come later then count as if all had come at
    once, as far as the earlier posterior is normal.

    Parameters
    ----------
    loc : array-like of shape (d,)
        Mean.
    cov : array-like of shape (d, d)
        Covariance.
    names : sequence of str, default=None
        The coordinates, in the order of ``posterior_.names`` of a fit, which must have the same;
        None does not look.
    classes : array-like of shape (n_classes,), default=None
        The classes of a classifier, which must be the same; None does not look.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [1.0, -1.0] + rng.normal(size=200)
    >>> yesterday = BayesianLinearRegression(random_state=0).fit(X[:100], y[:100])
    >>> today = BayesianLinearRegression(prior=yesterday.posterior_.as_prior(), random_state=0)
    >>> today.fit(X[100:], y[100:]).coef_.round(1)
    array([ 0.9, -0.9])
    """

    blockwise = False
    _parameter_constraints = {
        "loc": ["array-like"],
        "cov": ["array-like"],
        "names": ["array-like", None],
        "classes": ["array-like", None],
    }

    def __init__(self, loc, cov, names=None, classes=None):
        self.loc = loc
        self.cov = cov
        self.names = names
        self.classes = classes

    def moments(self):
        """Mean (d,) and covariance (d, d), looked over.

        Raises
        ------
        ValueError
            If shapes do not fit, or the covariance is not symmetric and positive definite.
        """
        loc, cov = (np.asarray(values, dtype=float) for values in (self.loc, self.cov))
        d = loc.size
        if loc.shape != (d,) or cov.shape != (d, d):
            raise ValueError(
                f"MultivariateNormal needs loc of shape (d,) and cov of shape (d, d); got "
                f"{loc.shape} and {cov.shape}."
            )
        if not (np.isfinite(loc).all() and np.isfinite(cov).all()):
            raise ValueError("MultivariateNormal needs a finite loc and cov; one holds NaN or inf.")
        std = np.sqrt(np.maximum(cov.diagonal(), 0.0))
        correlation = cov / np.outer(*[np.where(std > 0.0, std, 1.0)] * 2)
        if not std.all() or np.abs(correlation - correlation.T).max() > 1e-8:
            raise ValueError(
                "the cov of MultivariateNormal must be symmetric, its diagonal positive."
            )
        if np.linalg.eigvalsh(correlation)[0] < 1e-12:
            raise ValueError(
                "the cov of MultivariateNormal must be positive definite: with no more particles "
                "than coordinates it is not; fit with more particles (n_particles)."
            )
        return loc, 0.5 * (cov + cov.T)

    def log_density(self, coef):
        """Normalised log density of each row of ``coef`` (m, d), shape (m,)."""
        loc, cov = self.moments()
        tril = np.linalg.cholesky(cov)
        white = np.linalg.solve(tril, (coef - loc).T)
        constant = np.log(tril.diagonal()).sum() + 0.5 * len(loc) * np.log(2 * np.pi)
        return -0.5 * np.sum(white**2, axis=0) - constant

    def score(self, coef):
        """Gradient of the log density at each row of ``coef`` (m, d), shape (m, d)."""
        loc, cov = self.moments()
        return -np.linalg.solve(cov, (coef - loc).T).T

    def precision(self, coef):
        """Negative Hessian of the log density, shape (d, d)."""
        return np.linalg.inv(self.moments()[1])

    def sample(self, rng, m, p):
        """Draw ``m`` vectors, shape (m, d)."""
        loc, cov = self.moments()
        return loc + rng.standard_normal((m, len(loc))) @ np.linalg.cholesky(cov).T


class LogInverseGamma:
    """Logarithms of independent inverse gamma variables.

    The density of each variable is proportional to ``v ** -(shape + 1) * exp(-scale / v)``.

    Parameters
    ----------
    shape, scale : float or array-like of shape (k,)

    Examples
    --------
    >>> from skstein.priors import LogInverseGamma
    >>> print(f"{LogInverseGamma(1.0, 2.0).entropy():.4f}")
    1.5772
    """

    def __init__(self, shape, scale):
        shape, scale = np.broadcast_arrays(np.atleast_1d(shape), np.atleast_1d(scale))
        self.shape, self.scale = shape.astype(float), scale.astype(float)

    def updated(self, count, squares):
        """Given ``count`` normal deviations, each of a variance, with sums ``squares``."""
        return LogInverseGamma(self.shape + 0.5 * count, self.scale + 0.5 * squares)

    def log_density(self, log_v):
        """Normalised log density of each row of ``log_v`` (m, k), shape (m,)."""
        a, b = self.shape, self.scale
        constant = a * np.log(b) - gammaln(a)
        return np.sum(constant - a * log_v - b * np.exp(-log_v), axis=1)

    def score(self, log_v):
        """Gradient of the log density at each row of ``log_v`` (m, k), shape (m, k)."""
        return self.scale * np.exp(-log_v) - self.shape

    def curvature(self, log_v):
        """Negative second derivatives of the log density, shape (m, k)."""
        return self.scale * np.exp(-log_v)

    def sample(self, rng, m):
        """``m`` draws, shape (m, k)."""
        # A gamma variable of small shape underflows; G(a) = G(a + 1) U^(1 / a) has a logarithm.
        size = (m, np.size(self.shape))
        log_gamma = np.log(rng.standard_gamma(self.shape + 1.0, size))
        log_gamma += np.log(rng.random(size)) / self.shape
        return np.log(self.scale) - log_gamma

    def entropy(self):
        """Differential entropy of the logarithms, in nats: it does not depend on the scale."""
        a = self.shape
        return float(np.sum(a + gammaln(a) - a * digamma(a)))


class NoisePrior(BaseEstimator):
    """Base class of priors of a noise variance, as densities of its logarithm.

    A subclass writes ``log_density``, ``score``, ``curvature`` and ``sample``, as `HalfStudentT`.

    Attributes
    ----------
    updated : callable or None
        ``updated(count, squares)`` is the distribution of the log variance given a number of normal
        deviations and their sum of squares; None where it has no closed form.
    """

    updated: Any = None


class _DeviationPrior(BaseEstimator):
    """Base class of priors of the standard deviation of random effects.

    A subclass writes the density of the ratio to its ``scale``, `_standard`, and the inverse of the
    upper tail probability. The *normal score* of a standard deviation is the standard normal
    quantile of its prior probability.
    """

    scale: float
    _standard: Any
    _quantile: Any
    _log_upper: Any

    def log_density_of_log(self, log_sd):
        """Log density of the logarithm, entry by entry."""
        log_ratio = log_sd - np.log(self.scale)
        return self._standard(np.exp(log_ratio))[0] + log_ratio

    def score_of_log(self, log_sd):
        """Derivative of `log_density_of_log`."""
        return self._standard(np.exp(log_sd) / self.scale)[1] + 1.0

    def log_of_score(self, t):
        """The logarithm whose normal score is ``t``, its derivative, and that one's logarithm's."""
        t = np.asarray(t, dtype=float)
        # Near 0 the density is flat, and the upper tail probability 1 to rounding.
        log_ratio = np.where(
            t < _FLAT,
            log_ndtr(t) - self._standard(np.zeros(()))[0],
            np.log(self._quantile(log_ndtr(-np.maximum(t, _FLAT)))),
        )
        log_density, slope_of_it = self._standard(np.exp(log_ratio))
        slope = np.exp(-0.5 * (t**2 + np.log(2.0 * np.pi)) - log_density - log_ratio)
        return log_ratio + np.log(self.scale), slope, -t - (slope_of_it + 1.0) * slope

    def score_of(self, log_sd):
        """The normal score of a logarithm."""
        log_ratio, least = log_sd - np.log(self.scale), log_ndtr(_FLAT)
        lower = log_ratio + self._standard(np.zeros(()))[0]
        upper = self._log_upper(np.exp(np.maximum(log_ratio, _FLAT - 10.0)))
        return np.where(lower < least, ndtri_exp(np.minimum(lower, least)), -ndtri_exp(upper))

    def sample_log(self, rng, shape):
        """Draws of the logarithm."""
        return self.log_of_score(rng.standard_normal(shape))[0]


class HalfStudentT(_DeviationPrior, NoisePrior):
    r"""Half Student t prior of the standard deviation of noise, or of random effects.

    It is flat where the noise is small against ``scale``, so that it says next to nothing at any
    signal-to-noise ratio, and yet keeps the posterior proper when features are more than rows. An
    inverse gamma prior of the variance cannot do both: its scale is a sum of squares that is added
    to that of the residuals, and without it the noise of few rows falls to 0.

    The density of the variance v is multiplied by ``exp(-1e-5 scale**2 / v)``: rows without any
    noise would otherwise have no posterior. Noise of a hundredth of ``scale`` is not affected.
    Random effects need no such factor.

    Parameters
    ----------
    df : float, default=3.0
        Degrees of freedom.
    scale : float, default=1.0
        Scale, in units of the (standardised) outcome.

    References
    ----------
    Gelman, "Prior distributions for variance parameters in hierarchical models", 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import HalfStudentT
    >>> HalfStudentT().score(np.log([[1e-3], [1.0], [1e4]])).round(2)
    array([[ 0.51],
           [ 0.  ],
           [-1.5 ]])
    """

    _parameter_constraints = {"df": _EXTREME, "scale": _EXTREME}

    def __init__(self, df=3.0, scale=1.0):
        self.df = df
        self.scale = scale

    def _log_ratio(self, log_v):
        return log_v - np.log(self.df) - 2.0 * np.log(self.scale)

    def _floor(self, log_v):
        return np.exp(np.log(_NO_NOISE) + 2.0 * np.log(self.scale) - log_v)

    def log_density(self, log_v):
        """Log density of each row of ``log_v`` (m, 1), shape (m,); normalised to 1e-3."""
        half, ratio = 0.5 * (self.df + 1.0), self._log_ratio(log_v)
        constant = gammaln(half) - gammaln(0.5 * self.df) - gammaln(0.5)
        value = 0.5 * ratio - half * np.logaddexp(0.0, ratio) - self._floor(log_v)
        return constant + value[:, 0]

    def score(self, log_v):
        """Gradient of the log density at each row of ``log_v`` (m, 1), shape (m, 1)."""
        share = expit(self._log_ratio(log_v))
        return 0.5 - 0.5 * (self.df + 1.0) * share + self._floor(log_v)

    def curvature(self, log_v):
        """Negative second derivative of the log density, shape (m, 1)."""
        share = expit(self._log_ratio(log_v))
        return 0.5 * (self.df + 1.0) * share * (1.0 - share) + self._floor(log_v)

    def _standard(self, ratio):
        """Log density of the ratio to ``scale``, and its derivative by the logarithm of that."""
        half, square = 0.5 * (self.df + 1.0), ratio**2 / self.df
        constant = gammaln(half) - gammaln(0.5 * self.df) - 0.5 * np.log(0.25 * np.pi * self.df)
        return constant - half * np.log1p(square), -2.0 * half * square / (1.0 + square)

    def _quantile(self, log_upper):
        half = 0.5 * np.exp(log_upper)
        ratio = -stdtrit(self.df, half)
        # It is good to 1e-8; a Newton step makes that rounding.
        return ratio + 2.0 * (stdtr(self.df, -ratio) - half) * np.exp(-self._standard(ratio)[0])

    def _log_upper(self, ratio):
        return np.log(2.0 * stdtr(self.df, -ratio))

    def sample(self, rng, m):
        """``m`` draws, shape (m, 1)."""
        # A variance over scale^2 is a chi-square over that of df degrees, divided by df.
        part, whole = np.log(rng.standard_gamma([0.5, 0.5 * self.df], (m, 2))).T[:, :, None]
        return part - whole + np.log(self.df) + 2.0 * np.log(self.scale)


class HalfNormal(_DeviationPrior):
    """Half-normal prior of the standard deviation of random effects.

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation of the normal whose positive half it is, in units of the linear predictor
        (of the standardised outcome, where the outcome is standardised), for the effect of a
        standardised feature.

    Examples
    --------
    >>> from skstein.priors import HalfNormal
    >>> HalfNormal(0.5)
    HalfNormal(scale=0.5)
    """

    _parameter_constraints = {"scale": _EXTREME}

    def __init__(self, scale=1.0):
        self.scale = scale

    def _standard(self, ratio):
        """Log density of the ratio to ``scale``, and its derivative by the logarithm of that."""
        square = ratio**2
        return 0.5 * np.log(2.0 / np.pi) - 0.5 * square, -square

    def _quantile(self, log_upper):
        return -ndtri_exp(log_upper - np.log(2.0))

    def _log_upper(self, ratio):
        return log_ndtr(-ratio) + np.log(2.0)


class InverseGamma(LogInverseGamma, NoisePrior):
    """Inverse gamma prior of a noise variance v, proportional to ``v**-(shape+1) exp(-scale/v)``.

    It adds ``2 shape`` rows, with squared deviations that sum up to ``2 scale``, to what is
    observed; noise that is small against those is overestimated.

    Parameters
    ----------
    shape : float, default=1.0
    scale : float, default=1.0
        In squared units of the (standardised) outcome.

    Examples
    --------
    >>> from skstein.priors import InverseGamma
    >>> InverseGamma(2.0, 0.5)
    InverseGamma(scale=0.5, shape=2.0)
    """

    _parameter_constraints = {"shape": _EXTREME, "scale": _EXTREME}

    def __init__(self, shape=1.0, scale=1.0):
        self.shape = shape
        self.scale = scale


def _each(value, p, name="scale"):
    """A parameter as an array of shape (p,): one a feature, repeated for each class."""
    # Asked for at every gradient: where there are few rows that costs as much as the rows do.
    number = isinstance(value, (float, Real))  # a plain float is found out at once
    return _same(float(value), p, name) if number else _tiled(value, p, name)


@lru_cache
def _same(value, p, name):
    each = _tiled(value, p, name)
    each.flags.writeable = False
    return each


def _tiled(value, p, name):
    value = np.asarray(value, dtype=float)
    if value.ndim > 1 or (value.ndim == 1 and (p % len(value) if len(value) else p)):
        raise ValueError(
            f"the prior's {name} must be a number or one number a feature; got shape "
            f"{value.shape} for {p} coefficients."
        )
    # Beyond these its square leaves the range of floating point.
    if not (np.abs(value) < 1e150).all() or (name == "scale" and not (value > 1e-150).all()):
        allowed = "positive and finite, from 1e-150" if name == "scale" else "finite, from -1e150"
        raise ValueError(f"the prior's {name} must be {allowed} to 1e150; got {value}.")
    return np.tile(value, p // max(1, len(value))) if value.ndim else np.full(p, float(value))


PRIORS = {
    "normal": lambda scale: Normal(scale),
    "laplace": lambda scale: Laplace(scale),
    "student-t": lambda scale: StudentT(scale=scale),
    "adaptive-ridge": lambda scale: AdaptiveRidge(rate=scale**2),
    "hierarchical-normal": lambda scale: HierarchicalNormal(rate=scale**2),
    "horseshoe": lambda scale: Horseshoe(slab_scale=2.0 * scale),
}


DEVIATION_PRIORS = {"half-normal": HalfNormal, "half-student-t": HalfStudentT}


def resolve_deviation_prior(prior):
    """Turn an estimator's ``effects_prior`` into a prior of its own; see `resolve_prior`."""
    if isinstance(prior, str):
        if prior not in DEVIATION_PRIORS:
            names = ", ".join(map(repr, sorted(DEVIATION_PRIORS)))
            raise ValueError(f"effects_prior={prior!r} is unknown; use one of {names}, or a prior.")
        return DEVIATION_PRIORS[prior]()
    return _own(prior, _DeviationPrior, "effects_prior", DEVIATION_PRIORS)


def resolve_prior(prior, default_scale=1.0, name="prior"):
    """Turn an estimator's ``prior`` parameter into a prior of its own.

    Parameters
    ----------
    prior : str or prior object
        A name of ``PRIORS``, or an instance, which is cloned.
    default_scale : float, default=1.0
        The scale that a name stands for.
    name : str, default="prior"
        The parameter's name, for messages.

    Returns
    -------
    prior object

    Raises
    ------
    ValueError
        For an unknown name.
    TypeError
        For a class instead of an instance, or an object that is no prior.

    Examples
    --------
    >>> from skstein.priors import resolve_prior
    >>> resolve_prior("normal", 10.0)
    Normal(scale=10.0)
    """
    if isinstance(prior, str):
        if prior not in PRIORS:
            names = ", ".join(map(repr, sorted(PRIORS)))
            raise ValueError(f"{name}={prior!r} is unknown; use one of {names}, or a prior.")
        return PRIORS[prior](default_scale)
    return _own(prior, Prior, name, PRIORS)


def _own(prior, kind, name, known):
    """A clone of a prior that is an instance of ``kind``."""
    if isinstance(prior, type):
        raise TypeError(
            f"{name} is the class {prior.__name__}; pass an instance: {name}={prior.__name__}()."
        )
    if not isinstance(prior, kind):
        kind_name = kind.__name__ if kind is Prior else "HalfNormal or HalfStudentT"
        raise TypeError(
            f"{name}={prior!r} is no prior; pass a name of {sorted(known)}, or an instance of a "
            f"subclass of skstein.priors.{kind_name}."
        )
    prior = clone(prior)
    if hasattr(prior, "_validate_params"):
        prior._validate_params()
    return prior
