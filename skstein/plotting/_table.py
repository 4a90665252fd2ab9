"""Rows of a matrix or a data frame, with one feature replaced."""

import numpy as np
from scipy import sparse


def table_of(X):
    """A table of X, which may be an array, a sparse matrix, or a data frame of any library."""
    return _Frame(X) if hasattr(X, "columns") else _Matrix(X)


class _Table:
    """Columns with names, from which rows of the same kind are made again."""

    def position(self, feature):
        """Where the feature of that name, or at that position, is."""
        names = list(self.names)
        if feature in names:
            return names.index(feature)
        if isinstance(feature, int | np.integer) and 0 <= feature < len(names):
            return int(feature)
        raise ValueError(f"feature must be one of {names[:10]}, or a position; got {feature!r}.")

    def numeric(self, j):
        """The column at a position, as floats."""
        column = self.column(j)
        if column.dtype.kind not in "biuf":
            raise ValueError(f"feature {self.names[j]!r} is not numeric: it has no values between.")
        return column.astype(float)


class _Matrix(_Table):
    def __init__(self, X):
        self.X = X.tocsc() if sparse.issparse(X) else np.asarray(X)
        self.names = range(self.X.shape[1])

    def column(self, j):
        column = self.X[:, [j]]
        return (column.toarray() if sparse.issparse(column) else column).ravel()

    def typical(self):
        """One row: means of numbers, the most frequent value of other columns."""
        if sparse.issparse(self.X):
            return _Matrix(np.asarray(self.X.mean(axis=0)).reshape(1, -1))
        return _Matrix([[_typical(column) for column in self.X.T]])

    def replaced(self, j, value):
        """The rows, dense, with another value in column j."""
        rows = self.X.toarray() if sparse.issparse(self.X) else self.X
        rows = rows.astype(np.result_type(rows, float))
        rows[:, j] = value
        return rows


class _Frame(_Table):
    def __init__(self, X):
        self.kind, self.names = type(X), list(X.columns)
        self.columns = [np.asarray(X[name]) for name in self.names]

    def column(self, j):
        return self.columns[j]

    def typical(self):
        """One row: means of numbers, the most frequent value of other columns."""
        row = [[_typical(column)] for column in self.columns]
        return _Frame(self.kind(dict(zip(self.names, row, strict=True))))

    def replaced(self, j, value):
        """The rows, as what X was, with another value in column j."""
        columns = list(self.columns)
        columns[j] = np.full(len(columns[j]), value)
        return self.kind(dict(zip(self.names, columns, strict=True)))


def _typical(column):
    if column.dtype.kind in "iuf":
        return column.mean()
    values, counts = np.unique(column, return_counts=True)
    return values[counts.argmax()]
