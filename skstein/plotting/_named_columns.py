"""Rows of a matrix or a data frame, with one feature replaced."""

from collections.abc import Hashable

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from .._input.columns import missing_values


def table_of(X):
    """A table to draw of X: an array, a sparse matrix, or a data frame of any library."""
    if hasattr(X, "columns"):
        names = list(X.columns)
        columns = [_labels_or_numbers(X[name]) for name in names]
        return NamedColumns(
            names, columns, lambda parts: type(X)(dict(zip(names, parts, strict=True)))
        )
    X = X.toarray() if sparse.issparse(X) else check_array(X, dtype=None, ensure_all_finite=False)
    return NamedColumns(range(X.shape[1]), list(X.T), np.column_stack)


def _labels_or_numbers(column):
    """A column as an array; categories are labels, also where these are numbers."""
    if getattr(column.dtype, "name", None) == "category":
        column = column.astype(object)
    return np.asarray(column)


class NamedColumns:
    """Columns with names, from which ``make(columns)`` makes rows of the kind that they were."""

    def __init__(self, names, columns, make):
        self.names, self.columns, self._make = names, columns, make

    def position(self, feature):
        """Where the feature of that name, or at that position, is."""
        names = list(self.names)
        if isinstance(feature, Hashable) and feature in names:
            return names.index(feature)
        if isinstance(feature, int | np.integer) and 0 <= feature < len(names):
            return int(feature)
        raise ValueError(f"feature must be one of {names[:10]}, or a position; got {feature!r}.")

    def numeric(self, j):
        """The column at a position, as floats."""
        column = self.columns[j]
        if column.dtype.kind not in "biuf":
            raise ValueError(f"feature {self.names[j]!r} is not numeric: it has no values between.")
        return column.astype(float)

    def typical(self, groups):
        """One row: means of numbers, the most frequent value of others, and of those in ``groups``.

        ``groups`` are names.
        """
        row = [
            [_typical(column, name in groups)]
            for name, column in zip(self.names, self.columns, strict=True)
        ]
        return NamedColumns(self.names, row, self._make)

    def replaced(self, j, value):
        """The rows, with another value in column j."""
        columns = list(self.columns)
        columns[j] = np.full(len(columns[j]), value)
        return self._make(columns)


def _typical(column, is_label):
    present = column[~missing_values(column)]
    if column.dtype.kind in "iuf" and not is_label and len(present):
        return present.mean()
    values, counts = np.unique(present.tolist(), return_counts=True)
    return values[counts.argmax()] if len(present) else column[0]
