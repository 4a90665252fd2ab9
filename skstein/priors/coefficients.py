"""Priors on a block of coefficients, in closed form."""

from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from .._input.validation import Interval

POSITIVE = [Interval(Real, 0, None, closed="neither")]
_LOCATION = [Real, "array-like"]


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
    streams : bool
        Whether rows may come in chunks: particles of a stream do not follow a horseshoe's tails.
    blockwise : bool
        Whether it is a density of a block of coefficients alone. `MultivariateNormal` is of all
        coordinates of a model, and `Horseshoe` adds some: an estimator finds coordinates for them.
    """

    _parameter_constraints: dict = {}  # a subclass without any is not validated
    precisions: str | None = None
    loc: Any = 0.0
    blockwise: bool = True
    streams: bool = True

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


class _Scaled(Prior):
    """A prior of independent coefficients that has a scale and a location."""

    _parameter_constraints = {"scale": [*POSITIVE, "array-like"], "loc": _LOCATION}

    def __init__(self, scale=1.0, loc=0.0):
        self.scale = scale
        self.loc = loc


class _OfGamma(Prior):
    """A prior with gamma distributed precisions, and a location."""

    _parameter_constraints = {"shape": POSITIVE, "rate": POSITIVE, "loc": _LOCATION}

    def __init__(self, shape=1.0, rate=1.0, loc=0.0):
        self.shape = shape
        self.rate = rate
        self.loc = loc


class Normal(_Scaled):
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

    def log_density(self, coef):
        """Normalised log density of each row of ``coef`` (m, p), shape (m,)."""
        scale = _each(self.scale, coef.shape[1])
        standard = self._deviation(coef) / scale
        standard = -0.5 * np.einsum("ij,ij->i", standard, standard)
        return standard - np.log(scale).sum() - 0.5 * coef.shape[1] * np.log(2 * np.pi)

    def score(self, coef):
        """Gradient of the log density at each row of ``coef`` (m, p), shape (m, p)."""
        return -self._deviation(coef) / _each(self.scale, coef.shape[1]) ** 2

    def conditional(self, second_moment):
        """Itself."""
        return self

    def precision(self, coef):
        """Negative Hessian of the log density at ``coef`` (p,), shape (p, p)."""
        return np.diag(self.expected_precision(self._deviation(coef) ** 2))

    def expected_precision(self, second_moment):
        """Precision of the normals mixed, given ``E[(coef - loc)**2]``, shape (p,)."""
        return _each(self.scale, len(second_moment)) ** -2.0

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, shape (m, p)."""
        return self.location(p) + _each(self.scale, p) * rng.standard_normal((m, p))


class Laplace(_Scaled):
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
    _parameter_constraints = {"df": POSITIVE, "scale": [*POSITIVE, "array-like"], "loc": _LOCATION}

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
        return -coef * self.expected_precision(coef**2)

    def precision(self, coef):
        """Negative Hessian of the log density at ``coef`` (p,), shape (p, p)."""
        coef = self._deviation(coef)
        precision = self.expected_precision(coef**2)
        return np.diag(precision - 2 * (precision * coef) ** 2 / (self.df + 1))

    def expected_precision(self, second_moment):
        """Precision of the normals mixed, given ``E[(coef - loc)**2]``, shape (p,)."""
        scale = _each(self.scale, second_moment.shape[-1])
        return (self.df + 1) / (self.df * scale**2 + second_moment)

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, shape (m, p)."""
        return self.location(p) + rng.standard_t(self.df, (m, p)) * _each(self.scale, p)


class AdaptiveRidge(_OfGamma, StudentT):
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
    Tran, Tseng & Kohn, "Particle mean field variational Bayes" (arXiv:2303.13930), section 7.

    Examples
    --------
    >>> from skstein.priors import AdaptiveRidge
    >>> AdaptiveRidge(shape=2.0).df
    4.0
    """

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


class HierarchicalNormal(_OfGamma):
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
    "Frank-Wolfe Stein sampling" (arXiv:1805.07912v1), section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import HierarchicalNormal
    >>> HierarchicalNormal().score(np.array([[1.0, 1.0]]))
    array([[-1., -1.]])
    """

    precisions = "shared"

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
        return -self._alpha(np.einsum("ij,ij->i", coef, coef), coef.shape[1])[:, None] * coef

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


def _each(value, p, name="scale"):
    """A parameter as an array of shape (p,): one per feature, repeated for each class."""
    # Asked for at every gradient: where there are few rows that costs as much as the rows do.
    number = isinstance(value, (float, Real))  # a plain float is found out at once
    return _same(float(value), p, name) if number else _tiled(value, p, name)


@lru_cache
def _same(value, p, name):
    each = _tiled(value, p, name)
    each.flags.writeable = False
    return each


def _tiled(value, p, name):
    index = getattr(value, "index", ())
    try:
        if not callable(index) and any(isinstance(label, str) for label in index):
            raise TypeError("a prior does not know the names of the features")
        value = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the prior's {name} must be a number or one number per feature, without names and in "
            f"the order of the columns; got {value!r}."
        ) from error
    if value.ndim > 1 or (value.ndim == 1 and (p % len(value) if len(value) else p)):
        raise ValueError(
            f"the prior's {name} must be a number or one number per feature; got shape "
            f"{value.shape} for {p} coefficients."
        )
    # Beyond these its square leaves the range of floating point.
    if not (np.abs(value) < 1e150).all() or (name == "scale" and not (value > 1e-150).all()):
        allowed = "positive and finite, from 1e-150" if name == "scale" else "finite, from -1e150"
        raise ValueError(f"the prior's {name} must be {allowed} to 1e150; got {value}.")
    return np.tile(value, p // max(1, len(value))) if value.ndim else np.full(p, float(value))


class FlatPrior(Prior):
    """No prior of coefficients: what stands in its place is added elsewhere."""

    updated = None

    def log_density(self, coef):
        return np.zeros(len(coef))

    def score(self, coef):
        return np.zeros_like(coef)

    curvature = score

    def precision(self, coef):
        return np.zeros((len(coef), len(coef)))

    def expected_precision(self, second_moment):
        return np.zeros(len(second_moment))

    def sample(self, rng, m, p):
        return np.zeros((m, p))
