"""Priors on variances and standard deviations: of noise, of coefficients, of groups."""

from numbers import Real
from typing import Any

import numpy as np
from scipy.special import digamma, expit, gammaln, log_ndtr, ndtri_exp, stdtr, stdtrit
from sklearn.base import BaseEstimator

from .._input.validation import LARGEST, Interval

EXTREME = [Interval(Real, 1 / LARGEST, LARGEST, closed="both")]
_FLAT = -4.0  # normal score, below which a prior of standard deviations is flat to rounding


class LogInverseGamma:
    """Logarithms of independent inverse gamma variables.

    The density of each variable is proportional to ``v ** -(shape + 1) * exp(-scale / v)``.

    Parameters
    ----------
    shape, scale : float or array-like of shape (k,)

    Examples
    --------
    >>> from skstein.targets import LogInverseGamma
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
        return np.sum(a * np.log(b) - gammaln(a) - a * log_v - b * np.exp(-log_v), axis=1)

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


class DeviationPrior(BaseEstimator):
    """Base class of priors of the standard deviation of random effects.

    A subclass writes the density of the ratio to its ``scale``, `_standard`, the logarithm of its
    upper tail probability, `_log_upper`, and the inverse of that, `_quantile`. The *normal score*
    of a standard deviation is the standard normal quantile of its prior probability.
    """

    _parameter_constraints: dict = {}  # a subclass without any is not validated

    def log_density_of_log(self, log_sd):
        """Log density of the logarithm, entry by entry."""
        log_ratio = log_sd - np.log(self.scale)
        return self._standard(np.exp(log_ratio))[0] + log_ratio

    def score_of_log(self, log_sd):
        """Derivative of `log_density_of_log`."""
        return self._standard(np.exp(log_sd) / self.scale)[1] + 1.0

    def from_normal(self, t):
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

    def to_normal(self, log_sd):
        """The normal score of a logarithm."""
        log_ratio, least = log_sd - np.log(self.scale), log_ndtr(_FLAT)
        lower = log_ratio + self._standard(np.zeros(()))[0]
        upper = self._log_upper(np.exp(np.maximum(log_ratio, _FLAT - 10.0)))
        return np.where(lower < least, ndtri_exp(np.minimum(lower, least)), -ndtri_exp(upper))

    def sample_log(self, rng, shape):
        """Draws of the logarithm."""
        return self.from_normal(rng.standard_normal(shape))[0]


class HalfStudentT(DeviationPrior, NoisePrior):
    r"""Half Student t prior of the standard deviation of noise, or of random effects.

    It is flat where the noise is small against ``scale``, so that it says next to nothing at any
    signal-to-noise ratio, and yet keeps the posterior proper when features are more than rows. An
    inverse gamma prior of the variance cannot do both: its scale is a sum of squares that is added
    to that of the residuals, and without it the noise of few rows falls to 0.

    The density of the variance v is multiplied by ``exp(-floor scale**2 / v)``: rows without any
    noise would otherwise have no posterior. Noise of a thousandth of ``scale`` is not affected.
    Random effects need no such factor.

    Parameters
    ----------
    df : float, default=3.0
        Degrees of freedom.
    scale : float, default=1.0
        Scale, in units of the (standardised) outcome.
    floor : float, default=1e-8
        A variance that rounding alone may leave, relative to ``scale**2``. Student t noise has
        1e-10: gross outliers are part of the outcome's scale, and noise is small against it.

    References
    ----------
    Gelman, "Prior distributions for variance parameters in hierarchical models", 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import HalfStudentT
    >>> HalfStudentT().score(np.log([[1e-3], [1.0], [1e4]])).round(2)
    array([[ 0.5],
           [ 0. ],
           [-1.5]])
    """

    _parameter_constraints = {"df": EXTREME, "scale": EXTREME, "floor": EXTREME}

    def __init__(self, df=3.0, scale=1.0, floor=1e-8):
        self.df = df
        self.scale = scale
        self.floor = floor

    def _log_ratio(self, log_v):
        return log_v - np.log(self.df) - 2.0 * np.log(self.scale)

    def _floor(self, log_v):
        return np.exp(np.log(self.floor) + 2.0 * np.log(self.scale) - log_v)

    def log_density(self, log_v):
        """Log density of each row of ``log_v`` (m, 1), shape (m,); normalised to 5e-3."""
        half, ratio = 0.5 * (self.df + 1.0), self._log_ratio(log_v)
        constant = gammaln(half) - gammaln(0.5 * self.df) - gammaln(0.5)
        return constant + (0.5 * ratio - half * np.logaddexp(0.0, ratio) - self._floor(log_v))[:, 0]

    def score(self, log_v):
        """Gradient of the log density at each row of ``log_v`` (m, 1), shape (m, 1)."""
        return 0.5 - 0.5 * (self.df + 1.0) * expit(self._log_ratio(log_v)) + self._floor(log_v)

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


class HalfNormal(DeviationPrior):
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

    _parameter_constraints = {"scale": EXTREME}

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

    _parameter_constraints = {"shape": EXTREME, "scale": EXTREME}

    def __init__(self, shape=1.0, scale=1.0):
        self.shape = shape
        self.scale = scale
