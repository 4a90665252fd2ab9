"""Rows of an array or a data frame, with one feature replaced."""

import numpy as np


class Table:
    """Columns of an array or a data frame of any library, from which rows are made again."""

    def __init__(self, X):
        self.kind = type(X) if hasattr(X, "columns") else None
        if self.kind is None:
            X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
            self.names, self.columns = range(X.shape[1]), list(X.T)
        else:
            self.names = list(X.columns)
            self.columns = [np.asarray(X[name]) for name in self.names]

    def position(self, feature):
        names = list(self.names)
        if feature in names:
            return names.index(feature)
        if isinstance(feature, int | np.integer) and 0 <= feature < len(names):
            return int(feature)
        raise ValueError(f"feature must be one of {names[:10]}, or a position; got {feature!r}.")

    def numeric(self, j):
        column = self.columns[j]
        if column.dtype.kind not in "biuf":
            raise ValueError(f"feature {self.names[j]!r} is not numeric: it has no values between.")
        return column.astype(float)

    def typical(self):
        """One row: means of numbers, the most frequent of what is not a number."""
        table = object.__new__(Table)
        table.kind, table.names = self.kind, self.names
        table.columns = [np.array([_typical(column)]) for column in self.columns]
        return table

    def replaced(self, j, value):
        """The rows with another value in column j, as what X was."""
        columns = list(self.columns)
        columns[j] = np.full(len(columns[j]), value)
        if self.kind is None:
            return np.column_stack(columns)
        return self.kind(dict(zip(self.names, columns, strict=True)))


def _typical(column):
    if column.dtype.kind in "iuf":
        return column.mean()
    values, counts = np.unique(column, return_counts=True)
    return values[counts.argmax()]
