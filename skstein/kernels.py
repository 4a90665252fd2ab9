"""Kernels as parameter objects: their value, the Stein drift and the Langevin Stein kernel.

With the score ``s = grad log p`` and a base kernel ``k``, two operations are all that the Stein
methods need:

- the drift ``sum_l w_l [k(y_l, x) s(y_l) + grad_{y_l} k(y_l, x)]`` of Stein variational gradient
  descent (Liu & Wang 2016, eq. 8);
- the Langevin Stein kernel (Oates, Girolami & Chopin 2017; Gorham & Mackey 2017)
  ``k0(x, y) = k s(x).s(y) + grad_x k . s(y) + grad_y k . s(x) + trace grad_x grad_y k``, whose mean
  under p is zero, so that the mean of ``k0`` over all pairs of a sample is the squared kernel Stein
  discrepancy (KSD).

A kernel keeps either a number or the name of a rule; `Kernel.fixed` turns rules into numbers, given
the points. Products of matrices carry the work, so the arithmetic is BLAS's.

References
----------
Liu & Wang (2016), "Stein variational gradient descent" (arXiv:1608.04471).

Gorham & Mackey (2017), "Measuring sample quality with kernels" (arXiv:1703.01717).

Oates, Girolami & Chopin (2017), "Control functionals for Monte Carlo integration"
(doi:10.1111/rssb.12185).
"""

import numbers
from abc import ABCMeta, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator

from . import _jit

# Up to about ten particles a dozen array calls cost more than the compiled double loop.
_FEW = 8
_NUMBER = (float, numbers.Real)  # abstract classes take long to recognise a plain float

__all__ = ["IMQ", "RBF", "Kernel", "Linear", "Sum", "resolve_kernel"]


class Kernel(BaseEstimator, metaclass=ABCMeta):
    """What every kernel offers.

    ``x`` is (n, d), ``y`` and ``points`` are (m, d), scores have the shape of their points.
    """

    def __add__(self, other):
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    @abstractmethod
    def fixed(self, points):
        """Kernel of the same class with numbers for rules, from ``points`` of shape (m, d)."""

    @abstractmethod
    def matrix(self, x, y):
        """``k(x_i, y_j)``, of shape (n, m)."""

    @abstractmethod
    def drift(self, x, points, scores, weights=None, outside=None):
        """``sum_l w_l [k(y_l, x) s_l + grad_{y_l} k(y_l, x)]``, of shape (n, d); w_l is 1/m unless
        given. With the `Outside` of a block of coordinates, the arrays hold that block alone."""

    def drift_of(self, points, scores, weights):
        """`drift` as a function of x alone, for the thousands of steps of one search."""
        return lambda x: self.drift(x, points, scores, weights)

    @abstractmethod
    def self_term(self, x, scores):
        """``k(x, x) s(x) + grad_{x'} k(x', x)`` at x' = x, of shape (n, d): a particle's own
        drift."""

    @abstractmethod
    def stein_matrix(self, x, sx, y=None, sy=None):
        """Langevin Stein kernel ``k0(x_i, y_j)``, of shape (n, m); y = x unless given."""

    @abstractmethod
    def stein_diagonal(self, x, sx):
        """``k0(x_i, x_i)``, of shape (n,)."""


class _Radial(Kernel):
    """Kernels ``phi(|x - y|^2)``; a subclass supplies phi and its derivatives over phi."""

    @abstractmethod
    def _profile(self, squares, dim):
        """Phi, phi'/phi and phi''/phi at squared distances; the ratios may be scalars."""

    def matrix(self, x, y):
        return self._profile(_squared_distances(*_centred(x, y)), x.shape[1])[0]

    def drift(self, x, points, scores, weights=None, outside=None):
        squares, dim = _squared_distances(*_centred(x, points)), x.shape[1]
        if outside is not None:
            squares, dim = squares + outside.squares, outside.dim
        phi, ratio, _ = self._profile(squares, dim)
        phi *= _weights(weights, len(points))
        # grad_y k = -2 phi' (x - y)
        gradient = 2.0 * phi * ratio
        return phi @ scores + gradient @ points - gradient.sum(axis=1)[:, None] * x

    def self_term(self, x, scores):
        return np.array(scores, dtype=float)

    def stein_matrix(self, x, sx, y=None, sy=None):
        y, sy = (x, sx) if y is None else (y, sy)
        x, y = _centred(x, y)
        dim = x.shape[1]
        squares = _squared_distances(x, y)
        phi, first, second = self._profile(squares, dim)
        # (x - y).(s_y - s_x)
        slope = x @ sy.T + sx @ y.T
        slope -= np.vecdot(x, sx)[:, None] + np.vecdot(y, sy)
        return phi * (sx @ sy.T + 2.0 * first * (slope - dim) - 4.0 * squares * second)

    def stein_diagonal(self, x, sx):
        dim = x.shape[1]
        _, first, _ = self._profile(np.zeros(1), dim)
        return np.vecdot(sx, sx) - 2.0 * dim * first


class RBF(_Radial):
    """Gaussian kernel ``k(x, y) = exp(-|x - y|^2 / (2 h^2))``.

    Parameters
    ----------
    bandwidth : "dim", "median" or float, default="dim"
        ``h``, in the units of the points. "dim": h^2 = d, right for points with unit covariance.
        "median": h^2 = median of the squared distances between the m points / (2 log(m + 1)), so
        that a point's neighbours weigh about as much as itself (Liu & Wang 2016); from at most
        1000 evenly spaced points, and h^2 = d while that median is 0.

    Raises
    ------
    ValueError
        From every method that needs it, if ``bandwidth`` is none of these; and if it is "median"
        where only `fixed` can know the points.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.kernels import RBF
    >>> x = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> RBF().matrix(x, x).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> round(RBF(bandwidth="median").fixed(x).bandwidth ** 2, 4)
    0.9102
    """

    def __init__(self, bandwidth="dim"):
        self.bandwidth = bandwidth

    def fixed(self, points):
        return RBF(bandwidth=float(np.sqrt(self._h2(points.shape[1], points))))

    def _h2(self, dim, points=None):
        if isinstance(self.bandwidth, str) and self.bandwidth == "median":
            if points is None:
                raise ValueError('bandwidth="median" needs the points: use kernel.fixed(points).')
            m = len(points)
            points = points[:: max(1, -(-m // 1000))]
            squares = np.median(pdist(points, "sqeuclidean")) if m > 1 else 0.0
            return squares / (2.0 * np.log(m + 1.0)) if squares > 0.0 else float(dim)
        return _scale("bandwidth", self.bandwidth, {"dim": float(dim)}, '"dim", "median"', 2)

    def _profile(self, squares, dim):
        ratio = -0.5 / self._h2(dim)
        return np.exp(ratio * squares), ratio, ratio * ratio


class IMQ(_Radial):
    """Inverse multiquadric kernel ``k(x, y) = (1 + |x - y|^2 / l^2)^exponent``.

    With an exponent in (-1, 0) its KSD is known to control convergence to distantly dissipative
    targets, which that of the RBF does not in three or more dimensions (Gorham & Mackey 2017).

    Parameters
    ----------
    length_scale : "auto" or float, default="auto"
        ``l``, in the units of the points. "auto": l^2 = 4 d, for points with unit covariance, whose
        typical squared distance is 2 d.
    exponent : float, default=-0.5
        Negative.

    Raises
    ------
    ValueError
        From every method that needs it, if a parameter is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.kernels import IMQ
    >>> IMQ(length_scale=1.0).matrix(np.zeros((1, 3)), np.ones((1, 3)))
    array([[0.5]])
    """

    def __init__(self, length_scale="auto", exponent=-0.5):
        self.length_scale = length_scale
        self.exponent = exponent

    def fixed(self, points):
        return IMQ(length_scale=float(np.sqrt(self._l2(points.shape[1]))), exponent=self._beta())

    def _l2(self, dim):
        return _scale("length_scale", self.length_scale, {"auto": 4.0 * dim}, '"auto"', 2)

    def _beta(self):
        if not isinstance(self.exponent, _NUMBER) or not self.exponent < 0:
            raise ValueError(f"exponent must be a negative number, got {self.exponent!r}.")
        return float(self.exponent)

    def _profile(self, squares, dim):
        beta, l2 = self._beta(), self._l2(dim)
        q = 1.0 + squares / l2
        phi = 1.0 / np.sqrt(q) if beta == -0.5 else q**beta
        q *= l2
        return phi, beta / q, beta * (beta - 1.0) / (q * q)


class Linear(Kernel):
    """Linear kernel ``k(x, y) = c (1 + x.y) / (1 + d)``.

    Added to a radial kernel it makes the drift match the target's mean and, with whitened
    coordinates, its covariance.

    Parameters
    ----------
    scale : "dim" or float, default="dim"
        ``c``. "dim": c = d, so that k(x, x) is about d for points with unit covariance.

    Raises
    ------
    ValueError
        From every method, if ``scale`` is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.kernels import RBF, Linear
    >>> kernel = RBF() + Linear(scale=3.0)
    >>> kernel.matrix(np.zeros((1, 2)), np.zeros((1, 2)))
    array([[2.]])
    """

    def __init__(self, scale="dim"):
        self.scale = scale

    def fixed(self, points):
        return Linear(scale=self._c(points.shape[1]))

    def _c(self, dim):
        return _scale("scale", self.scale, {"dim": float(dim)}, '"dim"')

    def _factor(self, dim):
        return self._c(dim) / (1.0 + dim)

    def matrix(self, x, y):
        return self._factor(x.shape[1]) * (1.0 + x @ y.T)

    def drift(self, x, points, scores, weights=None, outside=None):
        w, products, dim = _weights(weights, len(points)), 1.0 + x @ points.T, x.shape[1]
        if outside is not None:
            products, dim = products + outside.products, outside.dim
        return self._factor(dim) * ((products * w) @ scores + w.sum() * x)

    def self_term(self, x, scores):
        factor = self._factor(x.shape[1])
        return (factor * (1.0 + np.vecdot(x, x)))[:, None] * scores + factor * x

    def stein_matrix(self, x, sx, y=None, sy=None):
        y, sy = (x, sx) if y is None else (y, sy)
        products = (1.0 + x @ y.T) * (sx @ sy.T)
        terms = products + np.vecdot(x, sx)[:, None] + np.vecdot(y, sy) + x.shape[1]
        return self._factor(x.shape[1]) * terms

    def stein_diagonal(self, x, sx):
        squares = (1.0 + np.vecdot(x, x)) * np.vecdot(sx, sx)
        return self._factor(x.shape[1]) * (squares + 2.0 * np.vecdot(x, sx) + x.shape[1])


class Sum(Kernel):
    """Sum of two kernels, what ``k1 + k2`` returns.

    Parameters
    ----------
    k1, k2 : Kernel

    Examples
    --------
    >>> from skstein.kernels import IMQ, Linear
    >>> (IMQ() + Linear()).set_params(k2__scale=2.0)
    Sum(k1=IMQ(), k2=Linear(scale=2.0))
    """

    def __init__(self, k1, k2):
        self.k1 = k1
        self.k2 = k2

    def fixed(self, points):
        return Sum(self.k1.fixed(points), self.k2.fixed(points))

    def matrix(self, x, y):
        return self.k1.matrix(x, y) + self.k2.matrix(x, y)

    def drift(self, x, points, scores, weights=None, outside=None):
        if not self._is_rbf_plus_linear:
            arguments = x, points, scores, weights, outside
            return self.k1.drift(*arguments) + self.k2.drift(*arguments)
        dim, w = x.shape[1] if outside is None else outside.dim, _weights(weights, len(points))
        h2, factor = self.k1._h2(dim), self.k2._factor(dim)
        if len(x) <= _FEW:
            return _jit.stein.rbf_linear_drift(points, scores, w, h2, factor, outside)(x)
        # Both kernels from one product of x and points, and one with the scores.
        center = points.mean(axis=0)
        near, far = x - center, points - center
        products = near @ far.T
        squares = np.vecdot(far, far) - 2.0 * products
        squares += np.vecdot(near, near)[:, None]
        products += (near @ center)[:, None]
        products += 1.0 + points @ center
        if outside is not None:
            squares, products = squares + outside.squares, products + outside.products
        np.maximum(squares, 0.0, out=squares)
        squares *= -0.5 / h2
        radial = np.exp(squares, out=squares)
        radial *= w
        products *= factor * w
        products += radial
        radial /= h2
        pull = radial.sum(axis=1) + factor * w.sum()
        return products @ scores - radial @ points + pull[:, None] * x

    def drift_of(self, points, scores, weights):
        many = super().drift_of(points, scores, weights)
        if not self._is_rbf_plus_linear:
            return many
        scales = self.k1._h2(points.shape[1]), self.k2._factor(points.shape[1])
        few = _jit.stein.rbf_linear_drift(points, scores, weights, *scales)
        return lambda x: few(x) if len(x) <= _FEW else many(x)

    @property
    def _is_rbf_plus_linear(self):
        return isinstance(self.k1, RBF) and isinstance(self.k2, Linear)

    def self_term(self, x, scores):
        return self.k1.self_term(x, scores) + self.k2.self_term(x, scores)

    def stein_matrix(self, x, sx, y=None, sy=None):
        return self.k1.stein_matrix(x, sx, y, sy) + self.k2.stein_matrix(x, sx, y, sy)

    def stein_diagonal(self, x, sx):
        return self.k1.stein_diagonal(x, sx) + self.k2.stein_diagonal(x, sx)


class Outside(NamedTuple):
    """What coordinates outside of a block, which are held, add to distances of a kernel.

    Attributes
    ----------
    squares, products : ndarray of shape (n, m)
        Their share of the squared distances and of the products of n and m points.
    dim : int
        Number of all coordinates.
    """

    squares: np.ndarray
    products: np.ndarray
    dim: int


def outside(block, x, points):
    """The `Outside` of the columns that the slice ``block`` leaves of ``x`` and ``points``.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.kernels import outside
    >>> outside(slice(0, 1), np.ones((1, 3)), np.zeros((1, 3))).squares
    array([[2.]])
    """
    kept = np.ones(x.shape[1], dtype=bool)
    kept[block] = False
    x, points = x[:, kept], points[:, kept]
    return Outside(_squared_distances(*_centred(x, points)), x @ points.T, len(kept))


def resolve_kernel(kernel):
    """``kernel`` itself, or the default kernel of the name "imq" or "rbf".

    Examples
    --------
    >>> from skstein.kernels import resolve_kernel
    >>> resolve_kernel("imq")
    IMQ()
    """
    if isinstance(kernel, str) and kernel in ("imq", "rbf"):
        return IMQ() if kernel == "imq" else RBF()
    if not isinstance(kernel, Kernel):
        raise ValueError(f'kernel must be "imq", "rbf" or a Kernel, got {kernel!r}.')
    return kernel


def _scale(argument, value, rules, names, power=1):
    """A scale given as a number, raised to a power, or what its rule prescribes for that."""
    if isinstance(value, str) and value in rules:
        return rules[value]
    if not isinstance(value, _NUMBER) or not 0 < value < np.inf:  # type: ignore[operator]
        raise ValueError(f"{argument} must be {names} or a positive number, got {value!r}.")
    return float(value) ** power


def _weights(weights, m):
    return np.full(m, 1.0 / m) if weights is None else np.asarray(weights, dtype=float)


def _centred(x, y):
    # |x|^2 + |y|^2 - 2 x.y loses digits when the points are far from the origin; differences do not
    # change with it.
    center = y.mean(axis=0)
    return x - center, y - center


def _squared_distances(x, y):
    squares = x @ y.T
    squares *= -2.0
    squares += np.vecdot(x, x)[:, None]
    squares += np.vecdot(y, y)
    return np.maximum(squares, 0.0, out=squares)


def drift_kernel(kernel):
    """The kernel of a Stein drift: ``kernel``, or RBF plus linear by default."""
    return RBF() + Linear() if kernel is None else kernel
