"""What is found out about the columns of a table before anything is fitted to its rows."""

from numbers import Integral

import numpy as np
from scipy import sparse

from .._statistics.column_moments import location_and_scale
from .._tools.warnings import warn

_ENOUGH = 30  # rows, to compare their spread
_CHANGED = 5.0  # times that of the first rows, with which priors of their size are far off
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


def warn_of_changed_scale(scaling, X, y, sample_weight):
    """Warn if rows spread otherwise than the first ones of a stream, which fixed the ``scaling``.

    y is None if it is not scaled.
    """
    if len(sample_weight) < _ENOUGH:
        return

    def spread(columns):
        spread = location_and_scale(columns, sample_weight)[1]
        return np.where(spread == 1.0, np.nan, spread)  # that of a constant

    change = {"a feature spreads {:.0f} times less": scaling.scale / spread(X)}
    if y is not None:
        change["y spreads {:.0f} times more"] = spread(y.reshape(len(y), -1)) / scaling.y_scale
    for what, times in change.items():
        if np.any(times > _CHANGED):
            warn(
                f"in these rows {what.format(np.nanmax(times))} than in the first ones of the "
                "stream, which fix the scale of the priors: coefficients are shrunk. Start again, "
                "with fit or with rows in random order."
            )
