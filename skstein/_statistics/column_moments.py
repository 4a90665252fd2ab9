"""Means and variances of the columns of a table, also of parts of its rows."""

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from .._tools.row_blocks import row_blocks


def location_and_scale(X, sample_weight):
    """Weighted mean and standard deviation of each column, the latter 1 for a constant column.

    Sums are taken about the first row, so that a constant column has its own value as mean and no
    variance; a standard deviation that rounding of the values explains counts as none.
    """
    # Weights count in proportion to each other, and tiny ones would underflow in products.
    return location_and_scale_of([moments(X, sample_weight / sample_weight.max())])


def moments(X, sample_weight):
    """Total weight, and weighted mean and variance of each column."""
    total = sample_weight.sum()
    if sparse.issparse(X):
        X = X.astype(np.float64, copy=False)
        mean, variance = mean_variance_axis(X, axis=0, weights=sample_weight)
        return total, mean, np.maximum(variance, 0.0)  # rounding may leave less
    pivot = X[0].astype(np.float64)
    mean = pivot + _weighted_sum(X, sample_weight, lambda rows: rows - pivot) / total
    variance = _weighted_sum(X, sample_weight, lambda rows: np.square(rows - mean)) / total
    return total, mean, variance


def location_and_scale_of(parts):
    """As `location_and_scale`, from the `moments` of parts of the rows, one after the other."""
    total, mean, variance = parts[0]
    for weight, other, within in parts[1:]:
        share = weight / (total + weight)
        apart = other - mean
        mean = mean + share * apart  # the same number where both are
        variance = variance + share * (within - variance + (1.0 - share) * apart**2)
        total += weight
    scale = np.sqrt(variance)
    rounding = scale <= 16.0 * np.finfo(float).eps * np.abs(mean)
    return mean, np.where(rounding, np.maximum(scale, 1.0), scale)


def _weighted_sum(X, sample_weight, function):
    blocks = row_blocks(len(X), 8 * X.shape[1])
    return sum(sample_weight[rows] @ function(X[rows]) for rows in blocks)
