"""What a stream remembers of rows that are gone: their log likelihood, as a quadratic.

Chunk by chunk a quadratic is fitted to the log likelihood at the particles, by least squares, and
the quadratics add up. The density of all rows so far is then known anywhere: particles are drawn
from the normal nearest to it and weighted towards it, and no draw inherits the errors of another.
If the log likelihood is not a quadratic over the particles, as that of the first few rows, the
residuals say so. As rows come in, the posterior becomes narrow within the particles that a
quadratic was fitted to, and what is left of the residuals is a slope, of less and less weight.
"""

from dataclasses import dataclass
from operator import add

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import softmax

_PER_COEFFICIENT = 2  # particles that a fit needs
_TRUSTED = 0.1  # error of the log density over the posterior, in nats


@dataclass(frozen=True)
class Memory:
    """The sum of quadratics ``value + theta . slope - theta . curvature theta / 2``.

    Parameters
    ----------
    value : float
    slope : ndarray of shape (dim,)
    curvature : ndarray of shape (dim, dim)
    tilt : float
        Sum of the fits' residuals, each over the scale of the particles that it was fitted to.
    """

    value: float
    slope: np.ndarray
    curvature: np.ndarray
    tilt: float

    @classmethod
    def of(cls, theta, values):
        """Of one log likelihood, known at particles; None where they are too few.

        Parameters
        ----------
        theta : ndarray of shape (m, dim)
        values : ndarray of shape (m,)
        """
        finite = np.isfinite(values)
        theta, values = theta[finite], values[finite]
        m, dim = theta.shape
        rows, columns = np.triu_indices(dim)
        n_coefficients = 1 + dim + len(rows)
        if m < _PER_COEFFICIENT * n_coefficients:
            return None
        center = theta.mean(axis=0)
        try:
            factor = cholesky(np.cov(theta.T).reshape(dim, dim), lower=True)
        except LinAlgError:
            return None
        white = solve_triangular(factor, np.eye(dim), lower=True)
        u = (theta - center) @ white.T
        features = np.hstack([np.ones((m, 1)), u, u[:, rows] * u[:, columns]])
        # Of particles that these rows leave behind, less is asked.
        weights = 0.5 / m + 0.5 * softmax(values)
        root, top = np.sqrt(weights), values.max()
        coef = np.linalg.lstsq(root[:, None] * features, root * (values - top))[0]
        residual = values - top - features @ coef
        error = np.sqrt(weights @ residual**2 / (1.0 - n_coefficients / m))
        square = np.zeros((dim, dim))
        square[rows, columns] = coef[1 + dim :]
        curvature = -white.T @ (square + square.T) @ white
        slope = coef[1 : 1 + dim] @ white
        value = top + coef[0] - slope @ center - 0.5 * center @ curvature @ center
        scale = np.exp(np.log(factor.diagonal()).mean())
        return cls(value, slope + curvature @ center, curvature, error / scale)

    def __add__(self, other):
        return Memory(*map(add, vars(self).values(), vars(other).values()))

    def __call__(self, theta):
        """The log likelihood remembered at each row of ``theta``, shape (m,)."""
        pulled = 0.5 * theta @ self.curvature
        return self.value + theta @ self.slope - np.einsum("ij,ij->i", theta, pulled)

    def gaussian(self):
        """Mean (dim,) and covariance factor (dim, dim) of the normal density with this logarithm.

        None where there is none, or where it is not to be trusted.
        """
        try:
            upper = cholesky(self.curvature, lower=False)
        except LinAlgError:
            return None
        factor = solve_triangular(upper, np.eye(len(upper)), lower=False)
        scale = np.exp(-np.log(upper.diagonal()).mean())
        return (factor @ (factor.T @ self.slope), factor) if self.tilt * scale < _TRUSTED else None
