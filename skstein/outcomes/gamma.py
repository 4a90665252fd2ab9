"""Positive outcomes whose standard deviation is in proportion to their mean."""

import math

import numpy as np
from scipy.special import gammainc, gammaincinv
from scipy.stats import gamma

from ..priors import HalfStudentT
from .log_link import CAP, LogLink, binet, exp_of_scale


class Gamma(LogLink):
    """A positive outcome, gamma distributed about the exponential of the predictor.

    The coordinate is the logarithm of the dispersion, which is the squared ratio of the standard
    deviation to the mean, and 1 over the shape of the distribution. The ratio has the prior of a
    noise's standard deviation, half Student t of scale 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Gamma
    >>> outcome, one = Gamma(), np.ones(1)
    >>> outcome.quantiles((np.log([[3.0]]), np.zeros(1)), one, np.array([0.5])).round(3)
    array([[2.079]])
    """

    extra = ("log_dispersion",)
    extra_prior = HalfStudentT()

    def check(self, y):
        if (y <= 0.0).any():
            raise ValueError("y must be positive: it holds amounts, and 0 is none.")

    def deviance(self, y, mean):
        return 2.0 * np.maximum(np.log(mean / y) + y / mean - 1.0, 0.0)  # of rounding

    def _parts(self, eta, y):
        """The shape, ``exp(z) - 1`` of the log ratio z of outcome and mean, and z less that."""
        z = np.log(y) - eta[0]
        low = np.minimum(z, CAP)
        ratio = np.expm1(low)
        return exp_of_scale(-eta[1]), ratio, z - ratio - (ratio + 1.0) * (z - low)

    def log_density(self, eta, y):
        shape, _, distance = self._parts(eta, y)
        constant = 0.5 * np.log(shape / (2.0 * math.pi)) - binet(shape, 0)
        return constant + shape * distance - np.log(y)

    def residual(self, eta, y):
        shape, ratio, distance = self._parts(eta, y)
        return shape * ratio, binet(shape, 1) - 0.5 - shape * distance

    def curvature(self, eta, y):
        shape, ratio, distance = self._parts(eta, y)
        across = shape * ratio
        last = binet(shape, 1) + binet(shape, 2) - shape * distance
        return np.array([[across + shape, across], [across, last]])

    def _scale(self, eta):
        return self.expected(eta) * np.exp(eta[1])

    def distribution(self, eta):
        return gamma(np.exp(-eta[1]), scale=self._scale(eta))

    def noise(self, eta):
        return self.expected(eta) * self._scale(eta)

    def cdf_by_particle(self, eta, y):
        return gammainc(np.exp(-eta[1]), np.maximum(y, 0.0)[:, None] / self._scale(eta))

    def quantiles_by_particle(self, eta, level):
        return gammaincinv(np.exp(-eta[1]), level) * self._scale(eta)

    def sample(self, eta, rng):
        return self._scale(eta) * rng.standard_gamma(np.exp(-eta[1]), np.shape(eta[0]))
