"""Counts whose variance is their mean."""

import numpy as np
from scipy.special import gammaincc, gammaln
from scipy.stats import poisson

from .base import Canonical, summed, weighted
from .log_link import Count, capped_exp


class Poisson(Canonical, Count):
    """A count whose mean is the exponential of the predictor.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Poisson
    >>> outcome, one = Poisson(), np.ones(1)
    >>> outcome.quantiles((np.log([[3.0]]),), one, np.array([0.05, 0.95]))
    array([[1., 6.]])
    """

    def cumulant(self, eta):
        return capped_exp(eta)[0]

    def cumulant_slope(self, eta):
        return capped_exp(eta)[1]

    cumulant_curvature = cumulant_slope

    def log_base(self, y):
        return -gammaln(y + 1.0)

    def terms(self, eta, y, weights, value, score):
        cumulant, rate = capped_exp(eta[0])
        total = None
        if value:
            total = eta[0] @ weighted(y, weights) - summed(cumulant, weights)
            total += summed(self.log_base(y), weights)
        return total, weighted(y - rate, weights)[None] if score else None

    def distribution(self, eta):
        return poisson(self.expected(eta))

    def noise(self, eta):
        return self.expected(eta)

    def cdf_by_particle(self, eta, y):
        return gammaincc(np.floor(np.maximum(y, -1.0))[:, None] + 1.0, self.expected(eta))

    def ratio(self, eta, y):
        return self.expected(eta) / (y + 1.0)

    def sample(self, eta, rng):
        return self.draw(self.expected(eta), rng)
