"""Regressions whose rows are in shards, each a regression of its own where its rows are.

A sum over rows is the sum of the shards', added in their order, so that its bits depend on how rows
are cut and on nothing else. Priors, and all else that is not a sum over rows, are those of a
regression on a few rows that stand for all. One call is one round to all shards.
"""

import copy

import numpy as np

from .design import joined
from .glm import RegressionTarget
from .linear import LinearTarget


def over_shards(target, shards, sizes):
    """A regression on rows in shards.

    Parameters
    ----------
    target : RegressionTarget
        The same regression on rows that stand for all, with their total weight, and with the mean
        and variance of y, or its classes, in their proportions.
    shards : Shards
        Of regressions, made by `RegressionTarget.with_rows` of ``target``.
    sizes : sequence of int
        Rows of each shard.

    Returns
    -------
    RegressionTarget
    """
    kind = ShardedLinear if isinstance(target, LinearTarget) else ShardedRegression
    sharded = object.__new__(kind)
    vars(sharded).update(vars(target))
    return sharded._over(shards, sizes)


def _call(shard, name, *args):
    return getattr(shard, name)(*args)


def _take(shard, rows):
    return shard.with_rows(*shard.rows_at(rows))


def _added(parts):
    """Sums over shards of what each gives: arrays or numbers, or a tuple of these and None."""
    if isinstance(parts[0], tuple):
        return tuple(_added(of_each) for of_each in zip(*parts, strict=True))
    return None if parts[0] is None else sum(parts[1:], parts[0])


class ShardedRegression(RegressionTarget):
    """A `RegressionTarget` of rows in shards; `over_shards` makes it."""

    in_shards = True
    sums_rows = False  # here

    def _over(self, shards, sizes):
        self._shards, self._sizes = shards, np.asarray(sizes)
        self.n_rows = int(self._sizes.sum())
        return self

    def _sum_of(self, name, *args, rows=None):
        shards = self._shards
        if rows is not None:
            shards, each = self._few(rows)
            shards = shards.derive(_take, each=each)
        return _added(shards.map(_call, name, *args))

    def _few(self, rows):
        """The shards that some of the rows are in, and which of its own are meant of each."""
        rows = np.sort(rows)
        ends = np.cumsum(self._sizes)
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        places = [i for i, part in enumerate(parts) if len(part)]
        return self._shards.at(places), [parts[i] - (ends[i] - self._sizes[i]) for i in places]

    def take(self, rows, multiplier=None):
        """The same regression on some of the rows, an index array, in their order.

        They stay where they are. With a ``multiplier`` of their weights, as the rows of a surrogate
        have, they come into memory.
        """
        shards, each = self._few(rows)
        if multiplier is None:
            return copy.copy(self)._over(shards.derive(_take, each=each), [len(i) for i in each])
        parts = zip(*shards.map(_call, "rows_at", each=each), strict=True)
        designs, y, weights, offsets = (list(part) for part in parts)
        here = object.__new__(RegressionTarget)
        away = ("_shards", "_sizes", "in_shards")
        vars(here).update({name: part for name, part in vars(self).items() if name not in away})
        weights = np.concatenate(weights) * multiplier[np.argsort(rows, kind="stable")]
        offset = None if offsets[0] is None else np.concatenate(offsets)
        return here.with_rows(joined(designs), np.concatenate(y), weights, offset)

    def _sum(self, theta, rows, value, score):
        if rows is not None:
            return super()._sum(theta, rows, value, score)
        return self._sum_of("_sum", theta, None, value, score)

    def _information(self, theta):
        return self._sum_of("_information", theta)

    def _information_diagonal(self, theta):
        return self._sum_of("_information_diagonal", theta)

    def of_rows(self, function, theta):
        """``function(shard, theta)`` of every shard, one after the other along the last axis."""
        return np.concatenate(self._shards.map(function, theta), axis=-1)

    def pointwise_log_likelihood(self, theta):
        return self.of_rows(RegressionTarget.pointwise_log_likelihood, theta)


class ShardedLinear(ShardedRegression, LinearTarget):
    """A `LinearTarget` of rows in shards: three rounds, and then the rows are not needed."""

    def _over(self, shards, sizes):
        super()._over(shards, sizes)
        self._sum_up()
        return self

    def _sums(self, coef, rows=None):
        factor = 1.0 if rows is None else self.n_rows / len(rows)
        return tuple(factor * part for part in self._sum_of("_sums", coef, None, rows=rows))

    def _gram_of_rows(self, rows=None):
        factor = 1.0 if rows is None else self.n_rows / len(rows)
        return factor * self._sum_of("_gram_of_rows", rows=rows)

    def _gram_diagonal_of_rows(self):
        return self._sum_of("_gram_diagonal_of_rows")

    _sum = LinearTarget._sum
