"""Fits of linear models to rows in shards: what is done of rows in memory, as two reductions.

The first round reads and checks every block and surveys the outcomes; the second finds means and
variances, and a few rows that stand for those of the block; then a block becomes a regression of
its own, and the target is their sum.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import is_classifier
from sklearn.utils import check_array, column_or_1d

from .. import shards
from .._input.columns import canonical
from .._input.validation import (
    about,
    check_features,
    check_magnitude,
    check_present,
    check_sample_weight,
    drop_weightless,
)
from .._statistics.column_moments import location_and_scale_of, moments
from ..targets import over_shards
from ..targets.regression.design import make_design
from .offset import check_offset, split_offset


def build_target(model, X, y, sample_weight, offset, stream):
    """The target of a linear model on collections, the map to original units, and the scaling.

    Parameters
    ----------
    model : BayesianLinearModel
        Whose columns and classes are taken down.
    X, y, sample_weight, offset : collections
        See `skstein.shards.bind`; the last two may be None.
    stream : bool
        Which is refused.
    """
    if stream or model.random_effects is not None:
        what = "partial_fit" if stream else "random_effects"
        raise TypeError(
            f"{what} takes rows in memory alone, and X or y is in blocks: give X.compute() if it "
            "fits in memory, or use fit without random_effects."
        )
    model._effects = None
    model._note_order(shards.header(y) if shards.is_collection(y) else y, False)
    head = shards.header(X)
    if len(np.shape(head)) != 2:
        raise ValueError(f"X must have rows and columns; it has {len(np.shape(head))} dimensions.")
    check_features(model, head, reset=True)
    column = model._offset_column(offset)
    outcome = None if is_classifier(model) else model._outcome
    read = _Reader(model.n_features_in_, column, outcome, getattr(model, "feature_names_in_", None))
    blocks = shards.bind(X, y=y, sample_weight=sample_weight, offset=offset)

    surveys = blocks.map(_surveyed, read, type(model)._survey)
    filled = [i for i, survey in enumerate(surveys) if survey.n]
    if not filled:
        raise ValueError("no row of X has a positive weight: give at least one.")
    n_given = sum(survey.n_given for survey in surveys)
    blocks, surveys = blocks.at(filled), [surveys[i] for i in filled]
    of_text = [isinstance(survey.labels[0], str) for survey in surveys]
    if len(set(of_text)) > 1:
        text, other = (blocks.numbers[of_text.index(kind)] for kind in (True, False))
        raise ValueError(f"y is text in block {text} and numbers in block {other}: use one kind.")
    labels = np.concatenate([survey.labels for survey in surveys])
    totals = np.concatenate([survey.totals for survey in surveys])
    present, where = np.unique(labels, return_inverse=True)
    encode, _ = model._learn_outcomes(model._checked(present), np.bincount(where, totals), None)
    model._check_offset(any(survey.has_offset for survey in surveys))

    heaviest = max(survey.heaviest for survey in surveys)
    found = blocks.map(_summed_up, read, encode, model._outcome, heaviest)
    stand_ins = np.concatenate([rows for _, rows in found], axis=1)
    y, weights, at = stand_ins[0], heaviest * stand_ins[1], stand_ins[2]
    if model._outcome.has_classes:
        y = y.astype(np.intp)
    features = partial(location_and_scale_of, [part for part, _ in found])
    scaling = model._find_scaling(False, features, y, weights, at)
    scaling = replace(scaling, offset_column=column, offset_given=offset is not None)

    like = model._regression(np.zeros((len(y), len(found[0][0][1]))), y, weights, at, scaling)
    blocks = blocks.derive(_regression_of, read, encode, like, scaling)
    regression = over_shards(like, blocks, [survey.n for survey in surveys])
    target, to_original = model._assembled(regression, scaling)
    target.in_shards, target.n_weightless = True, n_given - regression.n_rows
    return target, to_original, scaling


@dataclass
class _Survey:
    """What the first round finds in a block; ``n`` counts the rows that have weight."""

    n_given: int
    n: int = 0
    labels: Any = ()
    totals: Any = ()
    heaviest: float = 0.0
    has_offset: bool = False


@dataclass
class _Reader:
    """The rows of a block as arrays, without those of no weight.

    Attributes
    ----------
    n_columns : int
        Of X.
    offset_column : int or None
        Among these; it is not a feature.
    outcome : Outcome or None
        None for classes.
    names : array of str, or None
        Of the columns of X.
    """

    n_columns: int
    offset_column: int | None
    outcome: Any
    names: Any = None

    def __call__(self, block, check=False):
        X, y = self._table(block["X"]), column_or_1d(block["y"])
        if self.outcome is not None:
            with about("y"):
                y = y.astype(np.float64)
        if check:
            self._check(X, y)
        weights = check_sample_weight(block.get("sample_weight"), X, may_be_zero=True)
        offset = check_offset(block.get("offset"), len(y))
        if self.offset_column is not None:
            X, offset = split_offset(X, self.offset_column)
        return drop_weightless(X, y, weights, np.asarray(offset, dtype=float))

    def _table(self, X):
        names = list(getattr(X, "columns", ()))
        if names and self.names is not None and names != list(self.names):
            raise ValueError(f"X has the columns {names}, and {list(self.names)} in the first one.")
        with about("X"):
            X = check_array(
                X, accept_sparse="csr", dtype=(np.float64, np.float32), ensure_all_finite=False
            )
        if X.shape[1] != self.n_columns:
            raise ValueError(f"X has {X.shape[1]} columns, and {self.n_columns} in other blocks.")
        return canonical(X)

    def _check(self, X, y):
        _require_finite(X, "X")
        check_magnitude(X, "X")
        if y.dtype.kind == "f":
            _require_finite(y, "y")
        check_present(y)
        if self.outcome is not None:
            check_magnitude(y, "y")
            self.outcome.check(y)


def _require_finite(values, name):
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    table = values.tocoo() if sparse.issparse(values) else values
    bad = np.argwhere(~np.isfinite(table.data if sparse.issparse(values) else table))
    if not len(bad):
        return
    place = [axis[bad[0][0]] for axis in table.coords] if sparse.issparse(values) else bad[0]
    column = f", column {place[1]}" if values.ndim == 2 else ""
    raise ValueError(f"{name} holds NaN or infinity in row {place[0]}{column}.")


def _surveyed(block, read, survey):
    n = block["X"].shape[0]
    if len(block["y"]) != n:
        raise ValueError(f"y has {len(block['y'])} rows and X has {n}: cut both in the same way.")
    if not n:
        return _Survey(0)
    _, y, weights, offset = read(block, check=True)
    if not len(y):
        return _Survey(n)
    return _Survey(n, len(y), *survey(y, weights), weights.max(), bool(offset.any()))  # type: ignore[call-arg]


def _summed_up(block, read, encode, outcome, heaviest):
    """Moments of the features; and y, weight and offset of rows that stand for all, (3, k).

    These have the sums of the outcomes and their squares, or those of each class, and of the
    exponentials of the offsets.
    """
    X, y, weights, offset = read(block)
    y, weights = encode(y, weights / heaviest, offset)
    total = weights.sum()
    at = logsumexp(offset, b=weights / total)
    if outcome.has_classes:
        shares = np.bincount(y, weights)
        values = np.flatnonzero(shares)
        shares = shares[values]
    else:
        _, (mean,), (variance,) = moments(y[:, None], weights)
        values = mean + np.sqrt(variance) * np.array([-1.0, 1.0])
        shares = np.full(2, 0.5 * total)
    return moments(X, weights), np.stack([values, shares, np.full(len(values), at)])


def _regression_of(block, read, encode, like, scaling):
    """The rows of a block as a regression like another one."""
    X, y, weights, offset = read(block)
    y, weights = encode(y, weights, offset)
    y, offset = scaling.of_outcomes(like.outcome, y, offset)
    design = make_design(X, scaling.fit_intercept, scaling.center, scaling.scale, copied_up_to=0)
    return like.with_rows(design, y, weights, offset)
