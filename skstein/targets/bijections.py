"""Changes of coordinates: plain arrays that know no data.

A bijection maps coordinates ``z`` in which an engine works to coordinates ``theta`` of a target,
``theta = forward(z)``. It is kept in the posterior, which is why it holds no target.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse
from scipy.linalg import solve_triangular


def _solved(points, tril, trans="N"):
    """Each row of ``points`` times the inverse of ``tril`` transposed; NaN stays the caller's."""
    return solve_triangular(tril, points.T, lower=True, trans=trans, check_finite=False).T


def _through(matrix, points, transposed=False):
    """``matrix`` times each row of ``points``; a sparse one with a number per row is diagonal."""
    if not isinstance(matrix, np.ndarray) and matrix.nnz == len(matrix.indptr) - 1:
        return np.multiply(matrix.data[:, None], points.T, order="C").T + 0.0  # never -0.0
    matrix = matrix.T if transposed else matrix
    return points @ matrix.T if isinstance(matrix, np.ndarray) else (matrix @ points.T).T


def replaced(values, where, part):
    """A copy of ``values`` (m, d) with ``part`` in the columns ``where``."""
    values = values.copy()
    values[:, where] = part
    return values


def pulled_entrywise(hessian, where, slope, bend):
    """`pull_hessian` of a map of each of some coordinates ``where``, the others staying.

    ``slope`` are its derivatives; ``bend`` is subtracted from the diagonal.
    """
    scale = np.ones(len(hessian))
    scale[where] = slope
    pulled = scale[:, None] * hessian * scale
    pulled[where, where] -= bend
    return pulled


def placed(bijection, z):
    """``forward(z)``, and functions of nothing and of a score for ``log_det`` and ``pull_score``.

    A bijection that shares work between the three has a method ``at`` for that; None leaves ``z``
    as it is.
    """
    if bijection is None:
        return z, lambda: 0.0, lambda score: score
    if hasattr(bijection, "at"):
        return bijection.at(z)
    return bijection.forward(z), partial(bijection.log_det, z), partial(bijection.pull_score, z)


class Affine:
    """An affine map, ``theta = offset + matrix z``.

    Parameters
    ----------
    offset : ndarray of shape (d,)
    matrix : ndarray of shape (d, d) or SciPy sparse array
        Lower triangular, unless ``inverse`` is an ndarray.
    inverse : ndarray or SciPy sparse array, default=None
        Of ``matrix``; needed unless that is an ndarray and lower triangular.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import Affine
    >>> Affine(np.ones(2), 2 * np.eye(2)).forward(np.array([[1.0, 2.0]]))
    array([[3., 5.]])
    """

    def __init__(self, offset, matrix, inverse=None):
        self.offset, self.matrix, self.inverse_matrix = offset, matrix, inverse
        if isinstance(inverse, np.ndarray):
            self._log_det = float(np.linalg.slogdet(matrix)[1])
        else:
            self._log_det = float(np.log(np.abs(matrix.diagonal())).sum())

    @classmethod
    def diagonal(cls, offset, scale):
        """``theta = offset + scale * z``."""
        matrix, inverse = (scipy.sparse.diags_array(d, format="csr") for d in (scale, 1 / scale))
        return cls(offset, matrix, inverse)

    def forward(self, z):
        return self.offset + _through(self.matrix, z)

    def inverse(self, theta):
        delta, inverse = theta - self.offset, self.inverse_matrix
        return _solved(delta, self.matrix) if inverse is None else _through(inverse, delta)

    def log_det(self, z):
        """Log absolute determinant of the Jacobian of ``forward``, shape (m,)."""
        return np.full(len(z), self._log_det)

    def pull_score(self, z, score):
        """Score in ``z`` of the density whose score at ``forward(z)`` is ``score``."""
        return _through(self.matrix, score, transposed=True)

    def push_score(self, z, score):
        """Score at ``forward(z)`` of the density whose score in ``z`` is ``score``."""
        if self.inverse_matrix is not None:
            return _through(self.inverse_matrix, score, transposed=True)
        return _solved(score, self.matrix, "T")

    def pull_hessian(self, z, score, hessian):
        """Negative Hessian in ``z`` (d,), from the score and negative Hessian at ``forward(z)``."""
        return _through(self.matrix, _through(self.matrix, np.asarray(hessian), True).T, True).T


class Placed:
    """Base class of bijections that share the work of what `placed` gives, in a method ``at``."""

    at: Callable

    def forward(self, z):
        return self.at(z)[0]

    def log_det(self, z):
        """Log absolute determinant of the Jacobian of ``forward``, shape (m,)."""
        return self.at(z)[1]()

    def pull_score(self, z, score):
        """Score in ``z`` of the density whose score at ``forward(z)`` is ``score``."""
        return self.at(z)[2](score)


class Composition(Placed):
    """Two bijections one after the other: ``forward(z) = outer.forward(inner.forward(z))``.

    Parameters
    ----------
    outer, inner : bijection
    """

    def __init__(self, outer, inner):
        self.outer, self.inner = outer, inner

    def inverse(self, theta):
        return self.inner.inverse(self.outer.inverse(theta))

    def push_score(self, z, score):
        return self.outer.push_score(self.inner.forward(z), self.inner.push_score(z, score))

    def pull_hessian(self, z, score, hessian):
        middle = self.inner.forward(z[None])
        hessian = self.outer.pull_hessian(middle[0], score, hessian)
        score = self.outer.pull_score(middle, score[None])[0]
        return self.inner.pull_hessian(z, score, hessian)

    def at(self, z):
        middle, inner_log_det, inner_pull = placed(self.inner, z)
        theta, outer_log_det, outer_pull = placed(self.outer, middle)
        return (
            theta,
            lambda: inner_log_det() + outer_log_det(),
            lambda score: inner_pull(outer_pull(score)),
        )


class Within:
    """A bijection of some of the coordinates; the others stay.

    Parameters
    ----------
    bijection : bijection
    where : slice
    """

    def __init__(self, bijection, where):
        self.bijection, self.where = bijection, where

    def forward(self, z):
        return replaced(z, self.where, self.bijection.forward(z[:, self.where]))

    def inverse(self, theta):
        return replaced(theta, self.where, self.bijection.inverse(theta[:, self.where]))

    def log_det(self, z):
        return self.bijection.log_det(z[:, self.where])

    def pull_score(self, z, score):
        own = self.bijection.pull_score(z[:, self.where], score[:, self.where])
        return replaced(score, self.where, own)

    def push_score(self, z, score):
        own = self.bijection.push_score(z[:, self.where], score[:, self.where])
        return replaced(score, self.where, own)


class HyperbolicMap(Placed):
    r"""A monotone map of some coordinates; the others stay.

    .. math::
        v_S = T(u_S), \quad T(u) = \xi + a u + b \sqrt{c^2 + (u - u_0)^2}, \quad |b| < a,
        \qquad v_R = u_R.

    :math:`T` has slope :math:`a \mp b` far to the left and right: a steep wall on one side and a
    wide tail on the other become one Gaussian axis.

    Parameters
    ----------
    selected : ndarray of int, shape (s,)
        The coordinates :math:`S`; :math:`R` are the rest.
    xi, a, b, c, u0 : ndarray of shape (s,)
        The parameters of :math:`T`, one set per coordinate.
    """

    def __init__(self, selected, xi, a, b, c, u0):
        self.selected = selected
        self.xi, self.a, self.b, self.c, self.u0 = xi, a, b, c, u0

    def _bent(self, u):
        """T and its first two derivatives at ``u``."""
        v = u - self.u0
        square = self.c**2 + v * v
        root = np.sqrt(square)  # `np.hypot` takes four times as long
        value, slope = self.xi + self.a * u + self.b * root, self.a + self.b * v / root
        return value, slope, self.b * self.c**2 / (root * square)

    def wall_ends(self):
        """T at 2.5 or -2.5: on the side where it is less steep, shape (s,)."""
        return self._bent(-2.5 * np.sign(self.b))[0]

    def at(self, z):
        value, slope, curve = self._bent(z[:, self.selected])

        def pull(score):
            return replaced(score, self.selected, score[:, self.selected] * slope + curve / slope)

        return replaced(z, self.selected, value), lambda: np.log(slope).sum(axis=1), pull

    def inverse(self, theta):
        a, b = self.a, self.b
        y = theta[:, self.selected] - self.xi - a * self.u0
        v = (a * y - b * np.sqrt(y**2 + (a**2 - b**2) * self.c**2)) / (a**2 - b**2)
        return replaced(theta, self.selected, self.u0 + v)

    def push_score(self, z, score):
        _, slope, curve = self._bent(z[:, self.selected])
        return replaced(score, self.selected, (score[:, self.selected] - curve / slope) / slope)

    def pull_hessian(self, z, score, hessian):
        u = z[self.selected]
        _, slope, curve = self._bent(u)
        third = -3.0 * curve * (u - self.u0) / (self.c**2 + (u - self.u0) ** 2)
        bend = score[self.selected] * curve + third / slope - (curve / slope) ** 2
        return pulled_entrywise(hessian, self.selected, slope, bend)


class FunnelMap:
    r"""A map in which one coordinate sets the place and the scale of all others.

    .. math::
        \theta = \mu + M \begin{pmatrix} T(z_0) \\
                 k_1 z_0 + k_2 \psi(z_0) + e^{s(z_0)} z_{1:} \end{pmatrix}, \quad
        T(z) = \xi + \eta \sinh\frac{\operatorname{arsinh} z + \kappa}{\delta}, \quad
        s(z) = b z + c\, \psi(z),

    where :math:`\psi`, a hyperbola, is about :math:`z^2` near 0 and linear farther off; beyond 6
    standard deviations, where no draw goes, its terms level off. The funnel of a variance and what
    it is the variance of, the cone of coefficients that grow together, and the heavy tail of each
    are one Gaussian.

    Parameters
    ----------
    location : ndarray of shape (d,)
        :math:`\mu`.
    matrix : ndarray of shape (d, d)
        :math:`M`.
    tail : ndarray of shape (4,)
        :math:`\xi, \log \eta, \kappa, \log \delta`.
    growth : ndarray of shape (2,)
        :math:`b` and :math:`c`.
    bend : ndarray of shape (2, d - 1)
        :math:`k_1` and :math:`k_2`.
    """

    _ROUND = 1.5  # where the hyperbola turns from a square to a line
    _REACH = 6.0  # beyond which nothing grows: no draw tells how it would

    def __init__(self, location, matrix, tail, growth, bend):
        self.location, self.matrix, self.growth, self.bend = location, matrix, growth, bend
        self.xi, self.kappa = tail[0], tail[2]
        self.eta, self.delta = np.exp(tail[[1, 3]])
        self._log_det = float(np.linalg.slogdet(matrix)[1])

    @classmethod
    def features(cls, z):
        """``z`` and the hyperbola of it, both level far off, shape (m, 2)."""
        z = z / np.hypot(1.0, z / cls._REACH)
        return np.stack([z, 2.0 * cls._ROUND * (np.hypot(cls._ROUND, z) - cls._ROUND)], axis=1)

    def _turn(self, z):
        """T's argument of the sinh, T' and T'' / T', at ``z`` (m,)."""
        h = np.hypot(1.0, z)
        angle = (np.arcsinh(z) + self.kappa) / self.delta
        slope = self.eta * np.cosh(angle) / (self.delta * h)
        return angle, slope, np.tanh(angle) / (self.delta * h) - z / h**2

    def _parts(self, z):
        """Features and their slopes, shape (m, 2), and the scale of the rest, (m, 1)."""
        first = z[:, 0]
        features = self.features(first)
        slopes = np.ones_like(features)
        slopes[:, 1] = 2.0 * self._ROUND * features[:, 0] / np.hypot(self._ROUND, features[:, 0])
        slopes /= np.hypot(1.0, first / self._REACH)[:, None] ** 3
        return features, slopes, np.exp(features @ self.growth)[:, None]

    def forward(self, z):
        features, _, scale = self._parts(z)
        y = np.empty_like(z)
        y[:, 0] = self.xi + self.eta * np.sinh(self._turn(z[:, 0])[0])
        y[:, 1:] = features @ self.bend + scale * z[:, 1:]
        return self.location + y @ self.matrix.T

    def inverse(self, theta):
        y = np.linalg.solve(self.matrix, (theta - self.location).T).T
        z = np.empty_like(theta)
        z[:, 0] = np.sinh(self.delta * np.arcsinh((y[:, 0] - self.xi) / self.eta) - self.kappa)
        features, _, scale = self._parts(z)
        z[:, 1:] = (y[:, 1:] - features @ self.bend) / scale
        return z

    def log_det(self, z):
        growth = self.features(z[:, 0]) @ self.growth
        return self._log_det + np.log(self._turn(z[:, 0])[1]) + (z.shape[1] - 1) * growth

    def _along(self, z, score):
        """What the other coordinates, moved by the first, add to its score."""
        _, slopes, scale = self._parts(z)
        growth = slopes @ self.growth
        moved = slopes @ self.bend + (growth[:, None] * scale) * z[:, 1:]
        return np.einsum("ij,ij->i", moved, score) + (z.shape[1] - 1) * growth, scale

    def pull_score(self, z, score):
        pulled = score @ self.matrix
        _, slope, curve = self._turn(z[:, 0])
        along, scale = self._along(z, pulled[:, 1:])
        pulled[:, 0] = pulled[:, 0] * slope + curve + along
        pulled[:, 1:] *= scale
        return pulled

    def push_score(self, z, score):
        pushed = np.empty_like(score)
        _, slope, curve = self._turn(z[:, 0])
        pushed[:, 1:] = score[:, 1:] / self._parts(z)[2]
        along, _ = self._along(z, pushed[:, 1:])
        pushed[:, 0] = (score[:, 0] - curve - along) / slope
        return np.linalg.solve(self.matrix.T, pushed.T).T
