"""Rows by groups: a design matrix with the sparse columns of random effects beside it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

_MOST_BLOCKS = 64


@dataclass
class Grouping:
    """Rows by groups, and what each group has effects of.

    Parameters
    ----------
    name : str
    codes : ndarray of int, shape (n,)
        The group of each row.
    groups : sequence of str
        Names of the groups.
    terms : sequence of str
        Names of the features that have slopes; "" for the intercept.
    values : ndarray of shape (n, n_terms)
        What the effects of a row are multiplied by; 1 for the intercept.
    """

    name: str
    codes: np.ndarray
    groups: Any
    terms: Any
    values: np.ndarray

    @property
    def n_groups(self):
        return len(self.groups)

    def take(self, rows):
        return replace(self, codes=self.codes[rows], values=self.values[rows])

    @property
    def labels(self):
        """The grouping's name with each term."""
        return [f"{self.name}:{term}" if term else self.name for term in self.terms]

    def columns(self):
        """Its columns of a design, shape (n, n_groups * n_terms): a sparse array."""
        n, n_terms = self.values.shape
        where = self.codes[:, None] * n_terms + np.arange(n_terms)
        starts = np.arange(0, n * n_terms + 1, n_terms)
        shape = (n, self.n_groups * n_terms)
        return scipy.sparse.csr_array((self.values.ravel(), where.ravel(), starts), shape=shape)


class GroupedDesign:
    """A design matrix with the sparse columns of random effects beside it."""

    def __init__(self, common, effects):
        self.common, self.effects = common, effects
        self.shape = (common.shape[0], common.shape[1] + effects.shape[1])
        self.bytes_per_row, self.least_rows = common.bytes_per_row, common.least_rows
        self._blocks = {}  # of rows, which come again with every gradient

    def take(self, rows):
        """The design of some of the rows."""
        return GroupedDesign(self.common.take(rows), self.effects[rows])

    def _of(self, rows):
        if not isinstance(rows, slice):
            return self.effects[rows]
        block = rows.start, rows.stop
        found = self._blocks.get(block)
        if found is None:
            found = self.effects[rows]
            if len(self._blocks) < _MOST_BLOCKS:
                self._blocks[block] = found
        return found

    def predictor(self, theta, rows):
        """``theta`` (m, k) times the rows' columns: shape (m, len(rows))."""
        first = self.common.shape[1]
        of_effects = (self._of(rows) @ theta[:, first:].T).T
        return self.common.predictor(theta[:, :first], rows) + of_effects

    def pull(self, residual, rows):
        """``residual`` (m, len(rows)) summed against the rows: shape (m, k)."""
        return np.hstack([self.common.pull(residual, rows), (self._of(rows).T @ residual.T).T])


class GroupedGram:
    """The Gram matrix of a `GroupedDesign`, of which only products from the left are asked."""

    __array_ufunc__ = None

    def __init__(self, common, across, effects):
        self.common, self.across, self.effects = common, across, effects

    def __rmatmul__(self, theta):
        first = len(self.common)
        coef, effects = theta[:, :first], theta[:, first:]
        by_coef = coef @ self.common + effects @ self.across
        return np.hstack([by_coef, coef @ self.across.T + (self.effects @ effects.T).T])
