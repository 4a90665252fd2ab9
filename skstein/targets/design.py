"""The design matrix of a regression: products with it, and nothing else.

One class a storage; every sum over rows that a regression target needs goes through these three
products, so that another storage (sparse, centred implicitly) is another class here.
"""

import numpy as np


class DenseDesign:
    """Standardised features with an intercept column, in one dense array.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Features.
    fit_intercept : bool
        Whether a column of ones stands first.
    center, scale : array-like of shape (p,), default=None
        The design is ``(X - center) / scale``.
    """

    def __init__(self, X, fit_intercept=True, center=None, scale=None):
        X = np.asarray(X, dtype=float)
        if X.ndim != 2:
            raise ValueError(f"X must have shape (n, p), got {X.shape}.")
        n, p = X.shape
        self._columns = np.empty((n, p + fit_intercept))
        self._columns[:, :fit_intercept] = 1.0
        body = self._columns[:, fit_intercept:]
        np.subtract(X, 0.0 if center is None else center, out=body)
        if scale is not None:
            body /= scale
        self.shape = self._columns.shape

    def predictor(self, theta, rows):
        """``theta`` (m, k) times the rows' columns: shape (m, len(rows))."""
        return theta @ self._columns[rows].T

    def pull(self, residual, rows):
        """``residual`` (m, len(rows)) summed against the rows: shape (m, k)."""
        return residual @ self._columns[rows]

    def gram(self, weights, rows):
        """Sum over rows of ``weights`` times the outer product of the row: shape (k, k)."""
        columns = self._columns[rows]
        return columns.T @ (weights[:, None] * columns)
