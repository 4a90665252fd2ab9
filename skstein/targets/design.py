"""The design matrix of a regression: products with it, and nothing else.

One class a storage; every sum over rows that a regression needs goes through these products.
Both stand for the same matrix, ``[1, (X - center) / scale]``, the column of ones only when there
is an intercept.
"""

import copy

import numpy as np
import scipy.sparse


def make_design(X, fit_intercept=True, center=None, scale=None):
    """The design of dense or sparse features.

    Parameters
    ----------
    X : array-like or SciPy sparse array of shape (n, p)
    fit_intercept : bool
        Whether a column of ones stands first.
    center, scale : array-like of shape (p,), default=None
        The features are taken as ``(X - center) / scale``.

    Returns
    -------
    DenseDesign or SparseDesign
    """
    sparse = scipy.sparse.issparse(X)
    if not sparse:
        X = np.asarray(X, dtype=float)
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n, p), got {X.shape}.")
    p = X.shape[1]
    center = np.zeros(p) if center is None else np.asarray(center, dtype=float)
    scale = np.ones(p) if scale is None else np.asarray(scale, dtype=float)
    return (SparseDesign if sparse else DenseDesign)(X, bool(fit_intercept), center, scale)


class DenseDesign:
    """Standardised features with an intercept column, in one dense array.

    Attributes
    ----------
    shape : tuple of int
    bytes_per_row : int
        What a block of rows has to keep in the cache between two products with it.
    """

    def __init__(self, X, fit_intercept, center, scale):
        n, p = X.shape
        self._columns = np.empty((n, p + fit_intercept))
        self._columns[:, :fit_intercept] = 1.0
        body = self._columns[:, fit_intercept:]
        np.subtract(X, center, out=body)
        body /= scale
        self.shape = self._columns.shape
        self.bytes_per_row = self._columns.strides[0]

    def take(self, rows):
        """The design of some of the rows."""
        twin = copy.copy(self)
        twin._columns = self._columns[rows]
        twin.shape = twin._columns.shape
        return twin

    def predictor(self, theta, rows):
        """``theta`` (m, k) times the rows' columns: shape (m, len(rows))."""
        return theta @ self._columns[rows].T

    def pull(self, residual, rows):
        """``residual`` (m, len(rows)) summed against the rows: shape (m, k)."""
        return residual @ self._columns[rows]

    def gram(self, weights, rows):
        """Sum over rows of ``weights`` times the outer product of the row: shape (k, k)."""
        columns = self._columns[rows]
        if (weights >= 0.0).all():  # then BLAS computes one triangle only
            half = np.sqrt(weights)[:, None] * columns
            return half.T @ half
        return columns.T @ (weights[:, None] * columns)

    def gram_diagonal(self, weights, rows):
        """The diagonal of `gram`, shape (k,)."""
        return weights @ np.square(self._columns[rows])


class SparseDesign:
    """Sparse features, centred implicitly: ``X @ (w / s) - mu . (w / s)``, never densified."""

    bytes_per_row = 0  # each product copies the block anyway: the fewer blocks, the better

    def __init__(self, X, fit_intercept, center, scale):
        self._X = scipy.sparse.csr_array(X, dtype=float)
        self._intercept = int(fit_intercept)
        self._center, self._scale, self._shift = center, scale, center / scale
        self.shape = (X.shape[0], X.shape[1] + self._intercept)

    def take(self, rows):
        """The design of some of the rows."""
        twin = copy.copy(self)
        twin._X = self._X[rows]
        twin.shape = (twin._X.shape[0], self.shape[1])
        return twin

    def predictor(self, theta, rows):
        """``theta`` (m, k) times the rows' columns: shape (m, len(rows))."""
        coef = theta[:, self._intercept :]
        constant = theta[:, : self._intercept].sum(axis=1) - coef @ self._shift
        return (self._X[rows] @ (coef / self._scale).T).T + constant[:, None]

    def pull(self, residual, rows):
        """``residual`` (m, len(rows)) summed against the rows: shape (m, k)."""
        total = residual.sum(axis=1, keepdims=True)
        body = (self._X[rows].T @ residual.T).T / self._scale - total * self._shift
        return np.hstack([total, body]) if self._intercept else body

    def gram(self, weights, rows):
        """Sum over rows of ``weights`` times the outer product of the row: shape (k, k)."""
        X, total = self._X[rows], weights.sum()
        first = (weights @ X) / self._scale
        body = (X.T @ X.multiply(weights[:, None]).tocsr()).toarray()
        body /= np.outer(self._scale, self._scale)
        body += np.outer(total * self._shift - first, self._shift) - np.outer(self._shift, first)
        np.fill_diagonal(body, self._centred_squares(weights, rows))
        if not self._intercept:
            return body
        border = first - total * self._shift
        return np.block([[np.atleast_2d(total), border[None]], [border[:, None], body]])

    def gram_diagonal(self, weights, rows):
        """The diagonal of `gram`, shape (k,)."""
        body = self._centred_squares(weights, rows)
        return np.append(weights.sum(), body) if self._intercept else body

    def _centred_squares(self, weights, rows):
        """Weighted sums of squares of the columns, centred entry by entry so that none cancels."""
        X = self._X[rows]
        stored = np.repeat(weights, np.diff(X.indptr))
        p = X.shape[1]
        squares = np.bincount(X.indices, stored * (X.data - self._center[X.indices]) ** 2, p)
        zeros = weights.sum() - np.bincount(X.indices, stored, p)
        zeros[np.bincount(X.indices, minlength=p) == len(weights)] = 0.0  # not a rounding error
        return (squares + zeros * self._center**2) / self._scale**2
