"""What is found out about the columns of a table before anything is fitted to its rows."""

from collections import Counter
from numbers import Integral

import numpy as np
from scipy import sparse

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


def check_distinct(names):
    """Refuse names of coordinates that come twice: one of the two would not be found again."""
    if len(set(names)) < len(names):
        [(name, times)] = Counter(names).most_common(1)
        raise ValueError(
            f"{times} coordinates are called {name!r}: give them different names, and rename "
            "columns of X that are called as the intercept is or a parameter of the outcome."
        )


def as_names(names, count, parameter="names"):
    """``names`` as a tuple of ``count`` strings.

    A string is a sequence too, of its letters; none that is given for names means that.
    """
    if isinstance(names, str | bytes):
        raise TypeError(f"{parameter} must be a list of {count} names, got {names!r}.")
    names = tuple(map(str, names))
    if len(names) != count:
        raise ValueError(f"{parameter} must have {count} entries, got {len(names)}.")
    check_distinct(names)
    return names
