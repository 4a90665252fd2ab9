r"""Coordinates in which a linear regression of unknown noise is standard normal.

Given the noise variance :math:`v` the coefficients of a linear regression with a normal prior are
normal, and the density of :math:`\log v` with the coefficients integrated out is known. Few rows
leave :math:`v` open by powers of ten, and with it the scale of some directions and not of others: a
funnel that no linear map makes round. One decomposition of the Gram matrix, in units of the prior,
undoes it for every :math:`v`.
"""

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from ..bijections import Placed

_KNOTS = np.linspace(-6.0, 6.0, 121)  # standard deviations, beyond which a quantile is a line
_GRID = np.linspace(-60.0, 60.0, 601)  # about a first guess of log v
_N_ZOOMS = 3  # of the grid, until it is as wide as the density
_DROP = 60.0  # of the log density, where it ends
_ROUNDING = 1e-14
_MAX_NEWTON = 60


class _QuantileMap:
    """An increasing map of a standard normal number to one with a given density.

    Parameters
    ----------
    log_density : callable
        ``log_density(x) -> (m,)`` for ``x`` of shape (m,), with one peak or several near by.
    centre : float
        Somewhere within 60 of the peaks.
    """

    def __init__(self, log_density, centre):
        x = centre + _GRID
        for _ in range(_N_ZOOMS):
            value = log_density(x)
            inside = np.flatnonzero(value > value.max() - _DROP)
            x = np.linspace(x[max(inside[0] - 1, 0)], x[min(inside[-1] + 1, len(x) - 1)], len(x))
        value = log_density(x)
        density = np.exp(value - value.max())
        below = cumulative_trapezoid(density, x, initial=0.0)
        above = cumulative_trapezoid(density[::-1], dx=x[1] - x[0], initial=0.0)[::-1]
        z = np.where(below < above, ndtri(below / below[-1]), -ndtri(above / above[0]))
        rising = np.append(np.diff(z) > 0.0, True) & np.isfinite(z)
        self._values = PchipInterpolator(z[rising], x[rising])(_KNOTS)
        self._spline = PchipInterpolator(_KNOTS, self._values)

    def __getstate__(self):
        return {"_values": self._values}  # arrays alone

    def __setstate__(self, state):
        self._values = state["_values"]
        self._spline = PchipInterpolator(_KNOTS, self._values)

    def turn(self, z):
        """Value, slope and second derivative at ``z`` (m,)."""
        inside = np.clip(z, _KNOTS[0], _KNOTS[-1])
        slope = self._spline(inside, 1)
        curve = np.where(inside == z, self._spline(inside, 2), 0.0)
        return self._spline(inside) + slope * (z - inside), slope, curve

    def inverse(self, x):
        """Where the value is ``x`` (m,), by Newton's method between two knots."""
        z = np.interp(x, self._values, _KNOTS)
        low = _KNOTS[np.clip(np.searchsorted(self._values, x) - 1, 0, len(_KNOTS) - 1)]
        low = np.where(x < self._values[0], -np.inf, low)
        high = np.where(x > self._values[-1], np.inf, low + _KNOTS[1] - _KNOTS[0])
        high = np.where(x < self._values[0], _KNOTS[0], high)
        for _ in range(_MAX_NEWTON):
            value, slope, _ = self.turn(z)
            low, high = np.where(value < x, z, low), np.where(value > x, z, high)
            there = z + (x - value) / slope
            # A step out of the bracket is replaced by half of it.
            there = np.where((there >= low) & (there <= high), there, 0.5 * (low + high))
            if np.all(np.abs(there - z) <= _ROUNDING * (1.0 + np.abs(z))):
                break
            z = there
        return there


class NoiseMap(Placed):
    r"""From standard normal coordinates to coefficients and the logarithm of a noise variance.

    With the Gram matrix in units of the prior's scales D, :math:`D G D = U \Lambda U'`,
    coefficients :math:`b` about which sums of squares are taken, :math:`u = U' D X'W(y - X b)` and
    :math:`p = U' D^{-1} (b - m)`, m the prior means,

    .. math::
        \log v = T(z_0), \quad
        \beta = b + D U \left(\frac{u - v p}{\Lambda + v}
                + \sqrt{\frac{v}{\Lambda + v}}\, U' z_\beta\right).

    No coordinate depends on the choice of U, which is arbitrary where eigenvalues are equal.

    Parameters
    ----------
    log_prior : callable
        ``log_prior(log_v) -> (m,)`` for ``log_v`` of shape (m, 1).
    weight : float
        The number of rows, or their sum of weights.
    rss : float
        Sum of squares of the residuals at ``center``.
    gram : ndarray of shape (c, c)
    moment : ndarray of shape (c,)
        Of the features and the residuals at ``center``.
    center : ndarray of shape (c,)
        Coefficients.
    location, scale : ndarray of shape (c,)
        Prior means and standard deviations of the coefficients.
    guess : float
        Of log v.
    """

    def __init__(self, log_prior, weight, rss, gram, moment, center, location, scale, guess):
        values, self._basis = np.linalg.eigh(scale[:, None] * gram * scale)
        self._values = np.maximum(values, 0.0)
        self._center, self._scale = center, scale
        # By Cauchy and Schwarz: where there is no eigenvalue, a moment is rounding alone.
        most = np.sqrt(self._values * max(rss, 0.0))
        self._pull = np.clip((scale * moment) @ self._basis, -most, most)
        self._prior = ((center - location) / scale) @ self._basis
        self._log_det = float(np.log(scale).sum())

        def log_density(log_v):
            v = np.exp(log_v)[:, None]
            total = self._values + v
            fit = self._prior * (self._values * self._prior + 2.0 * self._pull) - self._pull**2 / v
            log_total = np.log1p(self._values / v)
            loss = weight * log_v + rss / v[:, 0] + np.sum(fit / total + log_total, axis=1)
            return log_prior(log_v[:, None]) - 0.5 * loss

        self._noise = _QuantileMap(log_density, guess)

    def _given(self, log_v):
        """Mean and scale of the coefficients along the basis, and what log v adds to both."""
        v = np.exp(log_v)[:, None]
        total = self._values + v
        mean, scale = (self._pull - v * self._prior) / total, np.sqrt(v / total)
        drift = -v * (self._values * self._prior + self._pull) / total**2
        return mean, scale, drift, 0.5 * self._values / total

    def _moved(self, z):
        """Coefficients along the basis, their scales, and what both add to scores; log v's own."""
        log_v, slope, curve = self._noise.turn(z[:, -1])
        mean, scale, drift, growth = self._given(log_v)
        white = z[:, :-1] @ self._basis

        def added(score):
            return np.sum(score * (drift + growth * scale * white) + growth, axis=1)

        return mean + scale * white, scale, added, (log_v, slope, curve / slope)

    def at(self, z):
        along, scale, added, (log_v, slope, curve) = self._moved(z)
        theta = np.column_stack([self._center + self._scale * (along @ self._basis.T), log_v])

        def log_det():
            return self._log_det + np.log(slope) + np.log(scale).sum(axis=1)

        def pull(score):
            along = (score[:, :-1] * self._scale) @ self._basis
            last = (score[:, -1] + added(along)) * slope + curve
            return np.column_stack([(along * scale) @ self._basis.T, last])

        return theta, log_det, pull

    def inverse(self, theta):
        mean, scale, _, _ = self._given(theta[:, -1])
        along = ((theta[:, :-1] - self._center) / self._scale) @ self._basis
        z = ((along - mean) / scale) @ self._basis.T
        return np.column_stack([z, self._noise.inverse(theta[:, -1])])

    def push_score(self, z, score):
        _, scale, added, (_, slope, curve) = self._moved(z)
        along = (score[:, :-1] @ self._basis) / scale
        last = (score[:, -1] - curve) / slope - added(along)
        return np.column_stack([(along @ self._basis.T) / self._scale, last])
