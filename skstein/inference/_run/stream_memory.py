"""What a stream remembers of rows that are gone: their log likelihood, as a quadratic.

A quadratic is fitted to the log likelihood at the particles by least squares, or to its score where
they are too few for that, and the quadratics add up. The density of all rows so far is then known
anywhere: particles are drawn from the normal nearest to it and weighted towards it, and no draw
inherits the errors of another. If the log likelihood is not a quadratic over the particles, as that
of the first few rows, the residuals say so, and the rows are held. As rows come in, the posterior
becomes narrow within the particles that a quadratic was fitted to, and what is left of the
residuals is a slope, of less and less weight; if it drifts out of them, what was missed grows with
the square of the distance.
"""

from dataclasses import dataclass
from operator import add

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

_PER_COEFFICIENT = 2  # particles that a fit needs


@dataclass(frozen=True)
class Memory:
    """The sum of quadratics ``value + theta . slope - theta . curvature theta / 2``.

    Parameters
    ----------
    value : float
    slope : ndarray of shape (dim,)
    curvature : ndarray of shape (dim, dim)
    missed_value, missed_slope, missed_curvature : float, ndarray, ndarray
        The same of the slope that is left of the fits' residuals: of each over the scale of its
        particles, and more as far from them as a cubic would have it.
    """

    value: float
    slope: np.ndarray
    curvature: np.ndarray
    missed_value: float
    missed_slope: np.ndarray
    missed_curvature: np.ndarray

    @classmethod
    def nothing(cls, dim):
        """Of no rows, in ``dim`` coordinates."""
        return cls(*(0.0, np.zeros(dim), np.zeros((dim, dim))) * 2)

    @classmethod
    def of(cls, theta, values, weights, score=None):
        """Of a function that is known at weighted particles; None where they are too few.

        Parameters
        ----------
        theta : ndarray of shape (m, dim)
        values, weights : ndarray of shape (m,)
        score : callable, default=None
            Of points of shape (k, dim), which is asked for the function's score where values do not
            suffice, and may return None.
        """
        finite = values > -1e299
        theta, values, weights = theta[finite], values[finite], weights[finite]
        m, dim = theta.shape
        rows, columns = np.triu_indices(dim)
        n_coefficients = 1 + dim + len(rows)
        scores = score(theta) if score and m < _PER_COEFFICIENT * n_coefficients else None
        if scores is not None:
            n_coefficients = 1 + dim
        if m < _PER_COEFFICIENT * n_coefficients:
            return None
        center = theta.mean(axis=0)
        try:
            factor = cholesky(np.cov(theta.T).reshape(dim, dim), lower=True)
        except LinAlgError:
            return None
        white = solve_triangular(factor, np.eye(dim), lower=True)
        u = (theta - center) @ white.T
        # Of particles that these rows leave behind, less is asked.
        weights = 0.5 / m + 0.5 * weights / weights.sum()
        root, top, linear = np.sqrt(weights)[:, None], values.max(), np.hstack([np.ones((m, 1)), u])
        if scores is not None:
            slope, *square = np.linalg.lstsq(root * linear, root * scores @ factor)[0]
            square = 0.5 * np.array(square)
        else:
            features = np.hstack([linear, u[:, rows] * u[:, columns]])
            coef = np.linalg.lstsq(root * features, root[:, 0] * (values - top))[0]
            slope, square = coef[1 : 1 + dim], np.zeros((dim, dim))
            square[rows, columns] = coef[1 + dim :]
        residual = values - top - u @ slope - np.einsum("ij,ij->i", u @ square, u)
        level = weights @ residual
        error = np.sqrt(weights @ (residual - level) ** 2 / (1.0 - n_coefficients / m))
        curvature = -white.T @ (square + square.T) @ white
        slope = slope @ white
        value = top + level - slope @ center - 0.5 * center @ curvature @ center
        tilt = error / np.exp(np.log(factor.diagonal()).mean())
        pull = 2.0 / dim * tilt * white.T @ white
        missed = tilt + 0.5 * center @ pull @ center, -pull @ center, -pull
        return cls(value, slope + curvature @ center, curvature, *missed)

    def and_of(self, *known):
        """The sum with `of` what is known; None where that is None."""
        fit = Memory.of(*known)
        return fit and Memory(*map(add, vars(self).values(), vars(fit).values()))

    def score(self, theta):
        """The score of the log likelihood remembered, shape (m, dim)."""
        return self.slope - theta @ self.curvature

    def __call__(self, theta):
        """The log likelihood remembered at each row of ``theta``, shape (m,)."""
        return _quadratic(theta, self.value, self.slope, self.curvature)

    def error(self, theta):
        """Root mean square of what was missed, over particles of shape (m, dim), in nats."""
        mean, dim = theta.mean(axis=0, keepdims=True), theta.shape[1]
        slope = _quadratic(mean, self.missed_value, self.missed_slope, self.missed_curvature)[0]
        return slope * np.exp(0.5 * np.linalg.slogdet(np.cov(theta.T).reshape(dim, dim))[1] / dim)

    def gaussian(self):
        """Mean (dim,) and covariance factor (dim, dim) of the normal density with this logarithm.

        None where there is none.
        """
        try:
            covariance = cho_solve(cho_factor(self.curvature), np.eye(len(self.slope)))
            return covariance @ self.slope, cholesky(covariance, lower=True)
        except LinAlgError:
            return None


def _quadratic(theta, value, slope, curvature):
    return value + theta @ slope - 0.5 * np.einsum("ij,ij->i", theta @ curvature, theta)
