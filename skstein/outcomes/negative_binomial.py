"""Counts with more variance than their mean: a Poisson distribution of uneven rates."""

import numpy as np
from scipy.special import betainc, expit, gammaln, xlogy
from scipy.stats import nbinom

from ..priors import HalfStudentT
from .log_link import CAP, Count, binet, exp_of_scale


class NegativeBinomial(Count):
    r"""A count of mean :math:`\mu` and variance :math:`\mu + \alpha \mu^2`.

    It is a Poisson count whose rate is the mean times a gamma variable of mean 1 and variance
    :math:`\alpha`; the number of that gamma's shape is :math:`r = 1 / \alpha`. The coordinate is
    :math:`\log \alpha`. Its prior is that of a noise variance: :math:`\sqrt\alpha`, the relative
    spread of rates, is half Student t of scale 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import NegativeBinomial
    >>> outcome, one = NegativeBinomial(), np.ones(1)
    >>> outcome.quantiles((np.log([[3.0]]), np.log([0.5])), one, np.array([0.05, 0.95]))
    array([[0., 8.]])
    """

    extra = ("log_alpha",)
    extra_prior = HalfStudentT()

    def _parts(self, eta, y):
        """r, r + y, log odds and share of the gamma's part of the rate, and what is 0 at mean y.

        These are the residual of the predictor and ``r log((r + mu) / (r + y))``: where counts are
        large, their terms are not.
        """
        at = eta[0] + np.clip(eta[1], -CAP, CAP)
        r, share = exp_of_scale(-eta[1]), expit(at)
        excess = r * (np.logaddexp(0.0, at) - np.log1p(y / r))
        return r, r + y, at, share, y * expit(-at) - r * share, excess

    def log_density(self, eta, y):
        r, total, at, _, _, excess = self._parts(eta, y)
        # log Gamma(r + y) - log Gamma(r) - log y!, with all digits where r or y is large.
        rising = y * np.log1p(r / np.maximum(y, 1e-200)) - 0.5 * np.log1p(y / r)
        rising += binet(total, 0) - binet(r, 0) + (xlogy(y, y) - y - gammaln(y + 1.0))
        return rising - excess - y * np.logaddexp(0.0, -at)

    def residual(self, eta, y):
        r, total, _, _, residual, excess = self._parts(eta, y)
        return residual, excess + residual - (0.5 * y + r * binet(total, 1)) / total + binet(r, 1)

    def curvature(self, eta, y):
        r, total, at, share, residual, excess = self._parts(eta, y)
        spread, across, part = total * share * expit(-at), share * residual, r / total
        own = part * (binet(total, 1) + part * binet(total, 2)) - binet(r, 1) - binet(r, 2)
        last = excess + across + part * (residual + 0.5 * y / total) - own
        return np.array([[spread, across], [across, last]])

    def distribution(self, eta):
        return nbinom(np.exp(-eta[1]), expit(-eta[0] - eta[1]))

    def noise(self, eta):
        mean = self.expected(eta)
        return mean + np.exp(eta[1]) * mean**2

    def cdf_by_particle(self, eta, y):
        y = y[:, None]
        cdf = betainc(np.exp(-eta[1]), np.floor(np.maximum(y, 0.0)) + 1.0, expit(-eta[0] - eta[1]))
        return np.where(y < 0.0, 0.0, cdf)

    def ratio(self, eta, y):
        return (np.exp(-eta[1]) + y) / (y + 1.0) * expit(eta[0] + eta[1])

    def sample(self, eta, rng):
        r = np.exp(-eta[1])
        return self.draw(self.expected(eta) * (rng.standard_gamma(r, np.shape(eta[0])) / r), rng)
