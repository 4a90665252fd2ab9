"""Changes of coordinates: plain arrays that know no data.

A bijection maps coordinates ``z`` in which an engine works to coordinates ``theta`` of a target,
``theta = forward(z)``. It is kept in the posterior, which is why it holds no target.
"""

import numpy as np
import scipy.sparse
from scipy.linalg import solve_triangular


def _solved(points, tril, trans="N"):
    """Each row of ``points`` times the inverse of ``tril`` transposed; NaN stays the caller's."""
    return solve_triangular(tril, points.T, lower=True, trans=trans, check_finite=False).T


def _times(points, matrix):
    """Each row of ``points`` times ``matrix``, dense or sparse."""
    return points @ matrix if isinstance(matrix, np.ndarray) else (matrix.T @ points.T).T


class Affine:
    """An affine map, ``theta = offset + matrix z``.

    Parameters
    ----------
    offset : ndarray of shape (d,)
    matrix : ndarray of shape (d, d), lower triangular, or a SciPy sparse array
    inverse : SciPy sparse array, default=None
        Needed when ``matrix`` is sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import Affine
    >>> Affine(np.ones(2), 2 * np.eye(2)).forward(np.array([[1.0, 2.0]]))
    array([[3., 5.]])
    """

    def __init__(self, offset, matrix, inverse=None):
        self.offset, self.matrix, self.inverse_matrix = offset, matrix, inverse
        self._log_scales = np.log(np.abs(matrix.diagonal()))
        self._log_det = float(self._log_scales.sum())

    @classmethod
    def diagonal(cls, offset, scale):
        """``theta = offset + scale * z``."""
        matrix, inverse = (scipy.sparse.diags_array(d, format="csr") for d in (scale, 1 / scale))
        return cls(offset, matrix, inverse)

    def forward(self, z):
        return self.offset + _times(z, self.matrix.T)

    def inverse(self, theta):
        return self._solve(theta - self.offset)

    def _solve(self, delta):
        if self.inverse_matrix is not None:
            return _times(delta, self.inverse_matrix.T)
        return _solved(delta, self.matrix)

    def log_det(self, z):
        """Log absolute determinant of the Jacobian of ``forward``, shape (m,)."""
        return np.full(len(z), self._log_det)

    def log_det_of(self, indices):
        """What coordinates that the map keeps apart from the others add to ``log_det``."""
        return float(self._log_scales[indices].sum())

    def pull_score(self, z, score):
        """Score in ``z`` of the density whose score at ``forward(z)`` is ``score``."""
        return _times(score, self.matrix)

    def push_score(self, z, score):
        """Score at ``forward(z)`` of the density whose score in ``z`` is ``score``."""
        if self.inverse_matrix is not None:
            return _times(score, self.inverse_matrix)
        return _solved(score, self.matrix, "T")

    def pull_hessian(self, z, score, hessian):
        """Negative Hessian in ``z`` (d,), from the score and negative Hessian at ``forward(z)``."""
        half = _times(np.asarray(hessian), self.matrix)
        return _times(half.T, self.matrix).T


class Chain:
    """Two bijections one after the other: ``forward(z) = outer.forward(inner.forward(z))``.

    Parameters
    ----------
    outer, inner : bijection
    """

    def __init__(self, outer, inner):
        self.outer, self.inner = outer, inner

    def forward(self, z):
        return self.outer.forward(self.inner.forward(z))

    def inverse(self, theta):
        return self.inner.inverse(self.outer.inverse(theta))

    def log_det(self, z):
        return self.inner.log_det(z) + self.outer.log_det(self.inner.forward(z))

    def pull_score(self, z, score):
        return self.inner.pull_score(z, self.outer.pull_score(self.inner.forward(z), score))

    def push_score(self, z, score):
        return self.outer.push_score(self.inner.forward(z), self.inner.push_score(z, score))


class HyperbolicMap:
    r"""A monotone map of some coordinates and an affine map of the rest.

    For coordinates :math:`S` with a one-sided posterior and the rest :math:`R`,

    .. math::
        \theta_S = T(u_S), \quad T(u) = \xi + a u + b \sqrt{c^2 + (u - u_0)^2}, \quad |b| < a,
        \qquad \theta_R = \mu_R + B (\theta_S - \mu_S) + L u_R.

    :math:`T` has slope :math:`a \mp b` far to the left and right: a steep wall on one side and a
    wide tail on the other become one Gaussian axis.

    Parameters
    ----------
    selected : ndarray of int, shape (s,)
        The coordinates :math:`S`.
    location : ndarray of shape (d,)
        :math:`\mu`.
    regression : ndarray of shape (d - s, s)
        :math:`B`.
    scale_tril : ndarray of shape (d - s, d - s)
        :math:`L`.
    xi, a, b, c, u0 : ndarray of shape (s,)
        The parameters of :math:`T`, one set a coordinate.
    """

    def __init__(self, selected, location, regression, scale_tril, xi, a, b, c, u0):
        self.selected = selected
        self.rest = np.setdiff1d(np.arange(len(location)), selected)
        self.location, self.regression, self.scale_tril = location, regression, scale_tril
        self.xi, self.a, self.b, self.c, self.u0 = xi, a, b, c, u0
        self._log_det = float(np.log(scale_tril.diagonal()).sum())

    def _slope(self, u):
        """T', T'', T''' at ``u``."""
        v = u - self.u0
        h = np.hypot(self.c, v)
        curve = self.b * self.c**2 / h**3
        return self.a + self.b * v / h, curve, -3.0 * curve * v / h**2

    def forward(self, z):
        u = z[:, self.selected]
        theta = np.empty_like(z)
        value = self.xi + self.a * u + self.b * np.hypot(self.c, u - self.u0)
        theta[:, self.selected] = value
        theta[:, self.rest] = (
            self.location[self.rest]
            + (value - self.location[self.selected]) @ self.regression.T
            + z[:, self.rest] @ self.scale_tril.T
        )
        return theta

    def inverse(self, theta):
        value = theta[:, self.selected]
        a, b = self.a, self.b
        y = value - self.xi - a * self.u0
        v = (a * y - b * np.sqrt(y**2 + (a**2 - b**2) * self.c**2)) / (a**2 - b**2)
        z = np.empty_like(theta)
        z[:, self.selected] = self.u0 + v
        shift = (value - self.location[self.selected]) @ self.regression.T
        delta = theta[:, self.rest] - self.location[self.rest] - shift
        z[:, self.rest] = _solved(delta, self.scale_tril)
        return z

    def log_det(self, z):
        return np.log(self._slope(z[:, self.selected])[0]).sum(axis=1) + self._log_det

    def pull_score(self, z, score):
        slope, curve, _ = self._slope(z[:, self.selected])
        rest = score[:, self.rest]
        pulled = np.empty_like(z)
        along = score[:, self.selected] + rest @ self.regression
        pulled[:, self.selected] = along * slope + curve / slope
        pulled[:, self.rest] = rest @ self.scale_tril
        return pulled

    def push_score(self, z, score):
        slope, curve, _ = self._slope(z[:, self.selected])
        rest = _solved(score[:, self.rest], self.scale_tril, "T")
        pushed = np.empty_like(z)
        pushed[:, self.rest] = rest
        along = (score[:, self.selected] - curve / slope) / slope
        pushed[:, self.selected] = along - rest @ self.regression
        return pushed

    def pull_hessian(self, z, score, hessian):
        slope, curve, third = self._slope(z[self.selected])
        jacobian = np.zeros((len(z), len(z)))
        jacobian[self.selected, self.selected] = slope
        jacobian[np.ix_(self.rest, self.selected)] = self.regression * slope
        jacobian[np.ix_(self.rest, self.rest)] = self.scale_tril
        pulled = jacobian.T @ hessian @ jacobian
        along = score[self.selected] + score[self.rest] @ self.regression
        correction = along * curve + third / slope - (curve / slope) ** 2
        pulled[self.selected, self.selected] -= correction
        return pulled
