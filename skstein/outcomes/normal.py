"""A normal outcome: its mean is the linear predictor, its log variance a coordinate."""

import math

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

from .. import _jit
from ..priors import HalfStudentT
from .location_scale import LocationScale

# Standard normal nodes and weights: exact for polynomials up to degree 127, and 95.
_FINE, _COARSE = map(np.polynomial.hermite_e.hermegauss, (64, 48))

_MANY = 400  # particles, beyond which quadrature is faster than the closed form of all pairs


class Normal(LocationScale):
    """A normal outcome with unknown variance.

    Parameters
    ----------
    noise_prior : NoisePrior, default=None
        Of the variance; by default ``HalfStudentT()``, whose scale is in units of y.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Normal
    >>> outcome, one = Normal(), np.ones(1)
    >>> outcome.quantiles((np.zeros((1, 1)), np.zeros(1)), one, np.array([0.95])).round(3)
    array([[1.645]])
    """

    extra: tuple[str, ...] = ("log_sigma2",)

    def __init__(self, noise_prior=None):
        self.noise_prior = self.extra_prior = HalfStudentT() if noise_prior is None else noise_prior

    def log_density(self, eta, y):
        mean, log_variance = eta
        square = np.square(y - mean) * np.exp(-log_variance)
        return -0.5 * (math.log(2 * math.pi) + log_variance + square)

    def residual(self, eta, y):
        mean, log_variance = eta
        precision = np.exp(-log_variance)
        error = y - mean
        return error * precision, 0.5 * (np.square(error) * precision - 1.0)

    def curvature(self, eta, y):
        mean, log_variance = eta
        precision, error = np.exp(-log_variance), y - mean
        across = precision * error
        return np.array(
            [[np.full_like(error, precision), across], [across, 0.5 * precision * error**2]]
        )

    def distribution(self, eta):
        return norm(eta[0], np.exp(0.5 * eta[1]))

    def noise(self, eta):
        return np.exp(eta[1])

    def quantiles(self, eta, weights, q):
        return _jit.normal_mixtures.quantile(eta[0], np.sqrt(self.noise(eta)), weights, q)

    def cdf(self, eta, weights, y):
        return ndtr((y[..., None] - eta[0]) * np.exp(-0.5 * eta[1])) @ weights

    def crps(self, eta, weights, y):
        if len(weights) > _MANY:
            return super().crps(eta, weights, y)
        return _jit.normal_mixtures.crps(eta[0], np.sqrt(self.noise(eta)), weights, y)

    def nodes(self, eta, coarse=False):
        std = np.sqrt(self.noise(eta))
        nodes, weights = _COARSE if coarse else _FINE
        for node, share in zip(nodes, weights / weights.sum(), strict=True):
            yield eta[0] + node * std, share
