"""The design matrix of a regression: products with it, and nothing else.

One class per kind of storage; all sums over rows that a regression needs go through these products.
All stand for the same matrix, ``[1, (X - center) / scale]``, the column of ones only when there is
an intercept. A dense matrix is made once if it is small. A large one stays as it is, a memory map
or of single precision, and standardising is left to the coefficients.
"""

from typing import Any

import numpy as np
import scipy.sparse

from ..._tools.copies import Aligned, changed
from ..._tools.row_blocks import LEAST_ROWS

# Up to here a copy is not a burden, and a little faster.
_COPIED_UP_TO = 2**28  # bytes
_KEPT_UP_TO = 2**22
_FAR = 1e4  # standard deviations from 0, from where on centring in the coefficients loses digits


def make_design(X, fit_intercept=True, center=None, scale=None, copied_up_to=_COPIED_UP_TO):
    """The design of dense or sparse features.

    Parameters
    ----------
    X : array-like or SciPy sparse array of shape (n, p)
    fit_intercept : bool
        Whether a column of ones stands first.
    center, scale : array-like of shape (p,), default=None
        The features are taken as ``(X - center) / scale``.
    copied_up_to : int, default=2**28
        Size in bytes of a dense copy up to which one is made.

    Returns
    -------
    DenseDesign, FoldedDesign or SparseDesign
    """
    sparse = scipy.sparse.issparse(X)
    if not sparse:
        X = np.asarray(X)
        X = X if X.dtype in (np.float64, np.float32) else X.astype(float)
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n, p), got {X.shape}.")
    p = X.shape[1]
    center = np.zeros(p) if center is None else np.asarray(center, dtype=float)
    scale = np.ones(p) if scale is None else np.asarray(scale, dtype=float)
    folded = 8 * X.shape[0] * (p + bool(fit_intercept)) > copied_up_to
    dense = FoldedDesign if folded else DenseDesign
    return (SparseDesign if sparse else dense)(X, bool(fit_intercept), center, scale)


def joined(designs):
    """The rows of several designs of the same columns as one; some of the dense may be folded."""
    if len({type(design) for design in designs}) > 1:
        designs = [d.standardised() if isinstance(d, FoldedDesign) else d for d in designs]
    first, parts = designs[0], [design._X for design in designs]
    sparse = isinstance(first, SparseDesign)
    X = scipy.sparse.vstack(parts, format="csr") if sparse else np.concatenate(parts)
    return changed(first, _X=X, shape=(X.shape[0], first.shape[1]))


def _standardised(X, fit_intercept, center, scale):
    """``[1, (X - center) / scale]`` in double precision."""
    columns = np.empty((len(X), X.shape[1] + fit_intercept))
    columns[:, :fit_intercept] = 1.0
    body = columns[:, fit_intercept:]
    np.subtract(X, center, out=body)
    body /= scale
    return columns


def _gram(columns, weights):
    if (weights >= 0.0).all():  # then BLAS computes one triangle only
        half = np.sqrt(weights)[:, None] * columns
        return half.T @ half
    return columns.T @ (weights[:, None] * columns)


class _Design(Aligned):
    """What the designs share."""

    _X: Any
    shape: tuple[int, int]
    sent_once = True  # to each worker: it is large, and never changes
    least_rows = LEAST_ROWS  # of a block; see `row_blocks`

    def take(self, rows):
        """The design of some of the rows."""
        X = self._X[rows]
        return changed(self, _X=X, shape=(X.shape[0], self.shape[1]))


class DenseDesign(_Design):
    """Standardised features with an intercept column, in one dense array.

    Attributes
    ----------
    shape : tuple of int
    bytes_per_row : int
        What a block of rows has to keep in the cache between two products with it.
    """

    def __init__(self, X, fit_intercept, center, scale):
        self._X = _standardised(X, fit_intercept, center, scale)
        self.shape = self._X.shape
        self.bytes_per_row = self._X.strides[0]

    def predictor(self, theta, rows):
        """``theta`` (m, k) times the rows' columns: shape (m, len(rows))."""
        return theta @ self._X[rows].T

    def pull(self, residual, rows):
        """``residual`` (m, len(rows)) summed against the rows: shape (m, k)."""
        return residual @ self._X[rows]

    def gram(self, weights, rows):
        """Sum over rows of ``weights`` times the outer product of the row: shape (k, k)."""
        return _gram(self._X[rows], weights)

    def gram_diagonal(self, weights, rows):
        """The diagonal of `gram`, shape (k,)."""
        return weights @ np.square(self._X[rows])


class FoldedDesign(_Design):
    """The same of features that stay as they are, in a file or in single precision.

    Products are with a copy of a block's rows, beside a column of ones. Scales are folded into the
    coefficients, and centres too, unless digits would be lost: then they are taken off the rows.
    """

    def __init__(self, X, fit_intercept, center, scale):
        self._X, self._how = X, (fit_intercept, center, scale)
        self._intercept, self._inverse = int(fit_intercept), 1.0 / scale
        far = np.abs(center / scale).max(initial=0.0) > _FAR
        self._pivot = center if far else None
        self._shift = np.zeros_like(center) if far else center / scale
        self.shape = (X.shape[0], X.shape[1] + fit_intercept)
        self.bytes_per_row = 8 * self.shape[1]
        self._last: tuple = (None, None)  # a gradient needs a block twice, one after the other

    def __getstate__(self):
        return {**vars(self), "_last": (None, None)}

    def take(self, rows):
        """The design of some of the rows."""
        return make_design(self._X[rows], *self._how)

    def standardised(self):
        """The same design in memory."""
        return DenseDesign(self._X, *self._how)

    def _of(self, rows):
        last, columns = self._last
        if columns is None or rows is not last:
            X = self._X[rows]
            columns = np.empty((len(X), X.shape[1] + 1))
            columns[:, 0] = 1.0
            columns[:, 1:] = X if self._pivot is None else X - self._pivot
            if columns.nbytes <= _KEPT_UP_TO:
                self._last = rows, columns
        return columns

    def predictor(self, theta, rows):
        """``theta`` (m, k) times the rows' columns: shape (m, len(rows))."""
        coef = theta[:, self._intercept :]
        constant = theta[:, : self._intercept].sum(axis=1) - coef @ self._shift
        return np.column_stack([constant, coef * self._inverse]) @ self._of(rows).T

    def pull(self, residual, rows):
        """``residual`` (m, len(rows)) summed against the rows: shape (m, k)."""
        pulled = residual @ self._of(rows)
        pulled[:, 1:] *= self._inverse
        pulled[:, 1:] -= pulled[:, :1] * self._shift
        return pulled[:, 1 - self._intercept :]

    def gram(self, weights, rows):
        """Sum over rows of ``weights`` times the outer product of the row: shape (k, k)."""
        return _gram(_standardised(self._X[rows], *self._how), weights)

    def gram_diagonal(self, weights, rows):
        """The diagonal of `gram`, shape (k,)."""
        return weights @ np.square(_standardised(self._X[rows], *self._how))


class SparseDesign(_Design):
    """Sparse features, centred implicitly: ``X @ (w / s) - mu . (w / s)``, never densified."""

    bytes_per_row = 0  # each product copies the block anyway: the fewer blocks, the better

    def __init__(self, X, fit_intercept, center, scale):
        # Products are double all the same.
        self._X = scipy.sparse.csr_array(X, dtype=np.float32 if X.dtype == np.float32 else float)
        self._intercept = int(fit_intercept)
        self._center, self._scale, self._shift = center, scale, center / scale
        self.shape = (X.shape[0], X.shape[1] + self._intercept)
        # Of few rows, a product is faster than making the dense array (m, k) that it ends in.
        self.least_rows = max(LEAST_ROWS, X.shape[1] // 8)

    def predictor(self, theta, rows):
        """``theta`` (m, k) times the rows' columns: shape (m, len(rows))."""
        coef = theta[:, self._intercept :]
        constant = theta[:, : self._intercept].sum(axis=1) - coef @ self._shift
        return (self._X[rows] @ (coef / self._scale).T).T + constant[:, None]

    def pull(self, residual, rows):
        """``residual`` (m, len(rows)) summed against the rows: shape (m, k)."""
        pulled = np.empty((len(residual), self.shape[1]))
        total, body = residual.sum(axis=1, keepdims=True), pulled[:, self._intercept :]
        pulled[:, : self._intercept] = total
        np.divide((self._X[rows].T @ residual.T).T, self._scale, out=body)
        body -= total * self._shift
        return pulled

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
