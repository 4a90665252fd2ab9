"""Outcomes whose mean is the exponential of the predictor; among them counts.

A search for a mode, or a chain on its way, may look where an exponential overflows. There densities
go on along a tangent, so that they and their derivatives stay finite. Predictions do not: a mean
out of range is refused.
"""

import math

import numpy as np
from scipy.special import gammaincinv, gammaln, logsumexp, psi, zeta

from .numeric_outcome import NumericOutcome

CAP = 230.0  # of exponents: 1e100, whose products with large values are finite
_TABLE, _TAIL = 500, 1e-8  # counts that are summed one by one, and what is left out at either end
# Of a mean beyond, quantiles are those of a gamma variable, from which no count can be told: the
# search of SciPy fails there, or has no end.
_FAR = 1e10
_MOST = 2.0**53  # beyond it floats skip whole numbers

# Of the series of `binet` in odd powers of 1 / x: B_2j / (2j (2j - 1)), exact to rounding from on.
_POWERS = 2.0 * np.arange(1, 8) - 1.0
_TERMS = np.array([1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156])
_FROM = 16.0


def capped_exp(x):
    """``exp(x)``, beyond a cap its tangent there, and its derivative."""
    low = np.minimum(x, CAP)
    slope = np.exp(low)
    return slope + slope * (x - low), slope


def exp_of_scale(x):
    """The exponential of a log scale, held in a range whose products are finite."""
    return np.exp(np.clip(x, -CAP, CAP))


def binet(x, order):
    """Binet's function, ``log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2``, for x > 0.

    It vanishes for large x, where differences of log Gamma would lose their digits.

    Parameters
    ----------
    x : ndarray
    order : {0, 1, 2}
        Of the derivative; it is multiplied by ``x ** order``.
    """
    x = np.asarray(x, dtype=float)
    terms = _TERMS * [1.0, -_POWERS, _POWERS * (_POWERS + 1.0)][order]
    far = np.maximum(x, _FROM)
    result = np.asarray(np.polynomial.polynomial.polyval(far**-2.0, terms) / far)
    near = x < _FROM
    if near.any():
        x = x[near]
        result[near] = (
            lambda: gammaln(x) - (x - 0.5) * np.log(x) + x - 0.5 * math.log(2.0 * math.pi),
            lambda: x * (psi(x) - np.log(x)) + 0.5,
            lambda: x * x * zeta(2.0, x) - x - 0.5,
        )[order]()
    return result


class LogLink(NumericOutcome):
    """A non-negative outcome whose mean is the exponential of the predictor."""

    predictor = "log mean"

    def center(self, y, weights, offset):
        weights = weights / weights.max()  # tiny ones would underflow in products
        total = weights @ y
        return float(np.log(total) - logsumexp(offset, b=weights)) if total > 0.0 else 0.0

    def deviance(self, y, mean):
        """Twice what each outcome lacks in log density against a mean equal to it."""
        raise NotImplementedError(f"{type(self).__name__} does not define deviance().")

    def expected(self, eta):
        mean = np.exp(eta[0])
        return np.where(np.isinf(mean), np.nan, mean)  # of no use, and refused

    def moments(self, eta, weights):
        moments = super().moments(eta, weights)
        return np.where(np.isfinite(moments).all(axis=1, keepdims=True), moments, np.nan)


class Count(LogLink):
    """A number of events. The density allows for any y >= 0, such as an average of counts."""

    def check(self, y):
        if (y < 0.0).any():
            raise ValueError("y must not be negative: it holds counts.")
        if (y > _MOST).any():
            raise ValueError(
                f"y must be at most 2**53, beyond which floats are no counts; got {y.max():g}."
            )

    def deviance(self, y, mean):
        """That of Poisson, by which all models of counts compare."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(y > 0.0, y * np.log(y / mean), 0.0)
        return 2.0 * (ratio - y + mean)

    def quantiles_by_particle(self, eta, level):
        mean = self.expected(eta)
        if not (far := ~(mean <= _FAR)).any():
            return super().quantiles_by_particle(eta, level)
        near = super().quantiles_by_particle((np.where(far, 0.0, eta[0]), *eta[1:]), level)
        shape = mean / self.noise(eta) * mean
        rate = np.floor(gammaincinv(shape, level) / shape * mean) - (level == 0.0)
        return np.where(far, rate, near)

    def pmf(self, eta, weights, counts):
        """Probability of each of ``counts`` (k,), shape (n, k)."""
        return np.stack([np.exp(self.log_density(eta, k)) @ weights for k in counts], axis=1)

    def ratio(self, eta, y):
        """Probability of ``y + 1`` over that of the whole number ``y``, under each particle."""
        raise NotImplementedError(f"{type(self).__name__} does not define ratio().")

    def crps(self, eta, weights, y):
        # The score is linear in y between whole numbers.
        whole = np.floor(y)
        slope = 2.0 * self.cdf(eta, weights, whole) - 1.0
        first, last = self.quantiles(eta, weights, np.array([_TAIL, 1.0 - _TAIL])).T
        first, last = np.minimum(first, whole), np.maximum(last, whole)
        if not (last - first <= _TABLE).all():
            return super().crps(eta, weights, whole) + (y - whole) * slope
        # From one probability to the next, which is faster than one distribution function each.
        crps, at = np.zeros(len(y)), first
        each = np.exp(self.log_density_by_particle(eta, at))
        below = each @ weights
        while (at < last).any():
            crps += np.square(below - (at >= whole)) * (at < last)
            each *= self.ratio(eta, at[:, None])
            below += each @ weights
            at = at + 1.0
        return crps + (y - whole) * slope

    def draw(self, rate, rng):
        """Poisson counts of these rates; nan where floats hold no whole numbers."""
        far = ~(rate < _MOST)
        drawn = rng.poisson(np.where(far, 0.0, rate))
        return np.where(far, np.nan, drawn) if far.any() else drawn
