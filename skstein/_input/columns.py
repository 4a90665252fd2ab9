"""What is found out about the columns of a table before anything is fitted to its rows."""

from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from .._tools.row_blocks import row_blocks
from .._tools.warnings import warn

_LITTLE = 1.001  # what weights sum to that were normalised, and rounded


def canonical(X):
    """X with one entry per place if it is sparse; a copy if it had several."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def dense(X):
    """X as an array if it is sparse, else as it is."""
    return X.toarray() if sparse.issparse(X) else X


def column_position(column, names, p, parameter):
    """The position of a column given by name, with or without a transformer's prefix, or number.

    Raises
    ------
    ValueError, TypeError
        If X, of ``p`` columns with ``names`` or None, has no such column, or several.
    """
    if isinstance(column, Integral) and not isinstance(column, bool):
        if not 0 <= column < p:  # type: ignore[operator]
            raise ValueError(f"{parameter} has column {column}, and X has columns 0 to {p - 1}.")
        return int(column)
    if not isinstance(column, str):
        raise TypeError(f"{parameter} takes names or numbers of columns, got {column!r}.")
    if names is None:
        raise ValueError(
            f"{parameter} has the column {column!r}, but the columns of X have no names: give "
            "a data frame (in a pipeline, set_output of the steps before), or numbers."
        )
    names = list(names)
    found = [j for j, name in enumerate(names) if name == column]
    found = found or [j for j, name in enumerate(names) if name.endswith(f"__{column}")]
    if len(found) != 1:
        what = "several columns of X end with it" if found else f"X has {', '.join(names)}"
        raise ValueError(f"{parameter} has the column {column!r}, but {what}.")
    return found[0]


def missing_values(column):
    """Which entries of an array are None, NaN, NaT or the NA of pandas."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind in "mM":
        return np.isnat(column)
    if column.dtype.kind != "O":
        return np.zeros(len(column), dtype=bool)
    kinds = "NoneType", "NAType", "NaTType"
    missing = [
        type(value).__name__ in kinds or (isinstance(value, float) and value != value)
        for value in column
    ]
    return np.array(missing, dtype=bool)


def warn_of_little_weight(sample_weight):
    """Warn if several rows of a fit have the weight of one, or less, together."""
    if len(sample_weight) > 1 and sample_weight.sum() < _LITTLE:
        warn(
            "the weights of all rows sum to 1 or less, so that they count as one row at most: a "
            "weight is a number of repetitions of its row; give sample_weight a mean of 1 "
            "(sample_weight / sample_weight.mean()).",
            UserWarning,
        )


def warn_of_first_rows(problems, X, standardize, least, fixed="scaling"):
    """Warn if the first rows of a stream are too few or degenerate to fix what they do for all."""
    constant = standardize and (dense(X.max(axis=0)) == dense(X.min(axis=0))).sum()
    if constant:
        problems = [*problems, f"{constant} constant features, which are never scaled"]
    if problems:
        warn(
            f"the first rows of a stream fix {fixed}, and these have {', '.join(problems)}: "
            f"start with more of them, some hundreds in random order and at least {least}."
        )


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
    return mean, np.where(scale > 16.0 * np.finfo(float).eps * np.abs(mean), scale, 1.0)


def _weighted_sum(X, sample_weight, function):
    blocks = row_blocks(len(X), 8 * X.shape[1])
    return sum(sample_weight[rows] @ function(X[rows]) for rows in blocks)
