"""Random effects of the linear models: columns of X that hold groups, and their effects.

The columns are separated before X is validated, since groups may be text, and become the number of
each row's group: a negative one, made from the label, for a group that was not seen in `fit`.

The effects of a new group are drawn from the fitted distribution, one draw per particle. The draw
depends on the particle and the label alone: predictions of a row do not depend on the others, drawn
particles keep their draws, and over the posterior's particles the draws are those of evenly spread
probabilities. Means and variances are integrals over the distribution.
"""

import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.utils import Bunch, check_array, check_X_y

from .._input.columns import canonical, column_position, dense, missing_values
from .._input.validation import about, check_features, check_magnitude, check_present, columns_of
from ..targets import Grouping, MixedTarget
from .offset import split_offset


@dataclass
class GroupedRows:
    """Rows of X by what their columns mean.

    Attributes
    ----------
    features : ndarray or CSR array of shape (n, p)
    offset : ndarray of shape (n,)
        The column of the offset, 0 without one.
    codes : ndarray of shape (n, n_groupings)
        Numbers of groups.
    """

    features: Any
    offset: Any
    codes: Any

    @property
    def shape(self):
        return self.features.shape

    def __getitem__(self, rows):
        return GroupedRows(self.features[rows], self.offset[rows], self.codes[rows])


@dataclass
class FittedGrouping:
    """One grouping of a fitted model.

    Attributes
    ----------
    name : str
    number : int
        Of the grouping, among all.
    slopes : list of int
        The features, by their numbers, that have a slope in each group.
    terms : list of str
        The terms with an effect in each group: "" for the intercept, and the names of these
        features.
    labels : ndarray
        The groups seen, sorted.
    center, scale : ndarray of shape (n_terms,)
        Centres of the features of the terms, and the scale on which their prior applies.
    sds : ndarray of int, shape (n_outputs * n_terms,)
        The log standard deviations, among the coordinates of the posterior.
    effects : ndarray of int, shape (n_groups, n_outputs * n_terms)
        The effects there.
    factors : ndarray of shape (n_outputs * n_terms,)
        Their factors in original units.
    """

    name: str
    number: int
    slopes: list
    terms: list
    labels: Any = None
    center: Any = None
    scale: Any = None
    sds: Any = None
    effects: Any = None
    factors: Any = None

    def values(self, X):
        """The factors of the effects of each row, shape (n, n_terms), in units of X."""
        features = dense(X.features[:, self.slopes])
        return np.hstack([np.ones((len(features), 1)), features]) - self.center

    def contribution(self, X, theta, known):
        """Yield the effects' part of each linear predictor, shape (n, m), output by output.

        Of groups that were not seen they are drawn, or if ``known`` is None left out.
        """
        codes, values, n_terms = X.codes[:, self.number], self.values(X), len(self.terms)
        unseen = codes < 0
        places = np.where(unseen, 0, codes).astype(int)
        strangers = [] if known is None else np.unique(codes[unseen])
        for first in range(0, len(self.sds), n_terms):
            total = 0.0
            for t in range(n_terms):
                effects = theta[:, self.effects[places, first + t]].T
                effects[unseen] = 0.0
                sd = np.exp(theta[:, self.sds[first + t]])
                for code in strangers:
                    effects[codes == code] = sd * _drawn(code, known, theta, self.sds[first + t])
                total = total + values[:, t, None] * effects
            yield total

    def unseen_variances(self, X, theta):
        """Yield the variances (n, m) that effects of groups that were not seen would add."""
        squares = np.where(X.codes[:, [self.number]] < 0, self.values(X) ** 2, 0.0)
        for first in range(0, len(self.sds), len(self.terms)):
            yield squares @ np.exp(2.0 * theta[:, self.sds[first : first + len(self.terms)]]).T


def _drawn(code, known, theta, which):
    """Standard normal draws of a group that was not seen, one per particle."""
    seed = np.uint64((int(-code) * 0x9E3779B97F4A7C15 + int(which)) % 2**64)
    hashes, known = _hashed(theta, seed), np.sort(_hashed(known, seed))
    return ndtri((np.minimum(np.searchsorted(known, hashes), len(known) - 1) + 0.5) / len(known))


def _hashed(theta, seed):
    """A number from each row of ``theta`` and the seed, shape (m,)."""
    with np.errstate(over="ignore"):
        mixed = np.ascontiguousarray(theta[:, :3]).view(np.uint64).sum(axis=1) ^ seed
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):  # as in splitmix64
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(31))


@dataclass
class RandomEffects:
    """The groupings of a fitted model, and their places in X and in ``theta``.

    Attributes
    ----------
    groupings : list of FittedGrouping
    columns : list of int
        The columns of X that hold them.
    common : ndarray of int
        The columns of X that are features.
    offset : int or None
        The column of X that is the offset.
    missing : {"error", "group"}
    """

    groupings: list = field(default_factory=list)
    columns: list = field(default_factory=list)
    common: Any = None
    offset: int | None = None
    missing: str = "error"

    @classmethod
    def of(cls, estimator, X):
        """Which columns hold groups, as the estimator's parameter says."""
        given, names = estimator.random_effects, getattr(estimator, "feature_names_in_", None)
        given = given(X) if callable(given) else given
        if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
            raise TypeError(
                "random_effects must be a list of columns, or a dict from columns to lists of "
                f"features that have slopes; got {given!r}."
            )
        slopes = given if isinstance(given, dict) else {}
        given, p = list(given), estimator.n_features_in_
        if not given:
            raise ValueError("random_effects has no column: give one, or None for no groups.")
        columns = [column_position(column, names, p, "random_effects") for column in given]
        offset = estimator._offset_column(None)
        if len({*columns, offset}) <= len(columns):
            raise ValueError("random_effects names a column twice, or that of the offset.")
        common = np.setdiff1d(np.arange(p), columns if offset is None else [*columns, offset])
        groupings = []
        for number, (column, j) in enumerate(zip(given, columns, strict=True)):
            with_slopes = slopes.get(column, ())
            if isinstance(with_slopes, str) or not hasattr(with_slopes, "__iter__"):
                raise TypeError(
                    f"random_effects gives {column!r} the slopes {with_slopes!r}: give a list of "
                    "features, [] for an intercept alone."
                )
            of_slopes = [column_position(one, names, p, "random_effects") for one in with_slopes]
            if len(set(of_slopes)) < len(of_slopes):
                raise ValueError(f"random_effects gives {column!r} a slope twice: {with_slopes!r}.")
            if not np.isin(of_slopes, common).all():
                raise ValueError(
                    f"random_effects gives {column!r} slopes of a column that holds groups or the "
                    "offset; slopes are of features."
                )
            label, *terms = [f"x{i}" if names is None else names[i] for i in (j, *of_slopes)]
            of_slopes = np.searchsorted(common, of_slopes).tolist()
            groupings.append(FittedGrouping(label, number, of_slopes, ["", *terms]))
        return cls(groupings, columns, common, offset, estimator.missing_groups)

    def encoded(self, X, reset):
        """X as a `GroupedRows`, in float64."""
        n, is_sparse = X.shape[0], sparse.issparse(X)
        codes = np.empty((n, len(self.groupings)))
        for grouping, j in zip(self.groupings, self.columns, strict=True):
            values = X[:, [j]].toarray().ravel() if is_sparse else _as_array(columns_of(X, j))
            codes[:, grouping.number] = self._codes(grouping, values, reset)
        numeric = np.setdiff1d(np.arange(X.shape[1]), self.columns)
        if not len(numeric):
            return GroupedRows(np.empty((n, 0)), np.zeros(n), codes)
        with about("X"):
            features = columns_of(X, numeric.tolist())
            features = check_array(features, dtype=np.float64, accept_sparse="csr", input_name="X")
        if reset:
            check_magnitude(features, "X")
        offset = np.zeros(n)
        if self.offset is not None:
            features, offset = split_offset(features, np.searchsorted(numeric, self.offset))
        return GroupedRows(features, offset, codes)

    def _codes(self, grouping, values, reset):
        missing = missing_values(values)
        if missing.any() and self.missing == "error":
            raise ValueError(
                f"column {grouping.name!r} of X has rows without a group: leave them out, or use "
                'missing_groups="group", which makes them a group of their own.'
            )
        there = _comparable(values[~missing], grouping.name)
        if reset:
            grouping.labels = np.unique(there)
            if missing.any():
                # As an object NumPy makes a date a number.
                objects = list if there.dtype.kind in "mM" else np.ndarray.tolist
                grouping.labels = np.array([*objects(grouping.labels), None], dtype=object)
        codes, labels = np.empty(len(values)), grouping.labels
        with_none = len(labels) > 0 and labels[-1] is None
        known = _comparable(labels[: len(labels) - with_none], grouping.name)
        if len(known) and len(there) and _kind(known) != _kind(there):
            raise ValueError(
                f"groups in column {grouping.name!r} of X are of another type than in fit: "
                f"{there.tolist()[0]!r}, not {known.tolist()[0]!r}."
            )
        found = np.minimum(np.searchsorted(known, there), max(len(known) - 1, 0))
        seen = known[found] == there if len(known) else np.zeros(len(there), dtype=bool)
        codes[~missing] = np.where(seen, found, -1.0)
        codes[missing] = len(known) if with_none else _code_of(None)
        if not seen.all():
            strangers, which = np.unique(there[~seen], return_inverse=True)
            numbers = np.array([_code_of(label) for label in strangers.tolist()])
            codes[np.flatnonzero(~missing)[~seen]] = numbers[which]
        return codes

    def keep_seen(self, X):
        """Leave out groups without a row in ``X``, whose codes are changed accordingly."""
        codes = np.empty(X.codes.shape, dtype=int)
        for grouping in self.groupings:
            own = X.codes[:, grouping.number]
            seen, codes[:, grouping.number] = np.unique(own, return_inverse=True)
            grouping.labels = grouping.labels[seen.astype(int)]
        return GroupedRows(X.features, X.offset, codes)

    def target(self, regression, X, scaling, prior, factors):
        """The regression with the effects of the groups in ``X``.

        ``factors`` multiply its linear predictors in original units.
        """
        in_rows = []
        for grouping in self.groupings:
            plain = np.zeros(len(grouping.slopes)), np.ones(len(grouping.slopes))
            center = plain[0] if scaling.center is None else scaling.center[grouping.slopes]
            scale = plain[1] if scaling.scale is None else scaling.scale[grouping.slopes]
            grouping.center, grouping.scale = np.append(0.0, center), np.append(1.0, scale)
            codes, values = X.codes[:, grouping.number], grouping.values(X) / grouping.scale
            in_rows.append(Grouping(grouping.name, codes, grouping.labels, grouping.terms, values))
        target = MixedTarget(regression, in_rows, prior)
        for grouping, given in zip(self.groupings, in_rows, strict=True):
            grouping.sds, grouping.effects = target.places(given)
            grouping.factors = np.concatenate([factor / grouping.scale for factor in factors])
        return target

    def set_scales(self, shift, factor):
        """Set shifts of log standard deviations and factors of effects, in original units."""
        for grouping in self.groupings:
            shift[grouping.sds] = np.log(grouping.factors)
            factor[grouping.effects] = grouping.factors

    def spreads(self, X, theta):
        """Standard deviations (k, n, m) of the linear predictors by groups that were not seen."""
        return np.sqrt(sum(np.stack([*of.unseen_variances(X, theta)]) for of in self.groupings))

    def drawn(self, theta, name, term):
        """Effects of one term under each particle, (m, n_outputs, n_groups), and the groups."""
        known = {grouping.name: grouping for grouping in self.groupings}
        if name not in known:
            raise ValueError(f"grouping={name!r} is not one of {list(known)}.")
        grouping = known[name]
        terms = ["intercept", *grouping.terms[1:]]
        if term not in terms:
            raise ValueError(f"term={term!r} is not one of {terms} of {name!r}.")
        where = grouping.effects[:, terms.index(term) :: len(terms)]
        return np.moveaxis(theta[:, where], 2, 1), [_shown(label) for label in grouping.labels]

    def summary(self, posterior, n_outputs):
        """``random_effects_``: a dict from groupings to the effects of their groups."""
        mean, std, found = posterior.mean(), posterior.std(), {}
        for grouping in self.groupings:
            sds = np.exp(posterior.particles[:, grouping.sds])
            spread, square = posterior.weights @ sds, posterior.weights @ sds**2
            outputs = (n_outputs,) if n_outputs > 1 else ()
            shape = len(grouping.labels), *outputs, len(grouping.terms)
            found[grouping.name] = Bunch(
                groups=grouping.labels,
                terms=["intercept", *grouping.terms[1:]],
                mean=mean[grouping.effects].reshape(shape),
                std=std[grouping.effects].reshape(shape),
                shrinkage=np.minimum(std[grouping.effects] ** 2 / square, 1.0).reshape(shape),
                sd=spread.reshape(shape[1:]),
                sd_std=np.sqrt(np.maximum(square - spread**2, 0.0)).reshape(shape[1:]),
            )
        return found


def read_groups(estimator, X, y="no_validation", reset=False):
    """X as a `GroupedRows`, and y if given, validated; the layout is set if ``reset``."""
    if sparse.issparse(X):
        X = canonical(X.tocsr())
    if not hasattr(X, "shape"):
        X = np.array(list(X), dtype=object)
    if len(X.shape) != 2:
        raise ValueError("Expected 2D array, one row a sample: reshape(-1, 1) makes one column.")
    check_features(estimator, X, reset)
    layout = RandomEffects.of(estimator, X) if reset else estimator._effects
    table = layout.encoded(X, reset)
    if reset:
        estimator._effects = layout
    if isinstance(y, str):
        return table
    check_present(y)
    with about("X"):
        _, y = check_X_y(table.codes, y, estimator=estimator)
    return table, y


def _as_array(column):
    """A column as an array, in which large whole numbers stay apart beside missing ones."""
    kind = getattr(column.dtype, "kind", None)
    if kind is None:  # of polars
        values = np.empty(len(column), dtype=object)
        values[:] = column.to_list()
        return values
    nullable = not isinstance(column.dtype, np.dtype) and kind in ("i", "u")
    return np.asarray(column.astype(object) if nullable else column)


def _kind(labels):
    """Text, dates or numbers: labels of other kinds are not compared."""
    return next((kinds for kinds in ("US", "mM") if labels.dtype.kind in kinds), "")


def _comparable(values, name):
    """Labels as an array that can be sorted: numbers, dates or text, also of objects of time."""
    if values.dtype.kind != "O":
        return values
    if len(values) and all(isinstance(value, np.datetime64 | np.timedelta64) for value in values):
        return np.array(list(values))
    if len(values) and all(hasattr(value, "isoformat") for value in values):
        return np.array([value.isoformat() for value in values])
    if all(isinstance(value, Integral) for value in values):  # floats merge large ones
        whole = np.array([int(value) for value in values])
        return whole.astype(float) if whole.dtype.kind == "O" else whole
    text = {isinstance(value, str) for value in values}
    if text <= {True}:
        return values.astype(str)
    with np.errstate(all="ignore"), suppress(TypeError, ValueError):
        if text == {False}:
            return values.astype(np.float64)
    what = "mixes text and other values" if len(text) == 2 else "is neither text nor numbers"
    raise ValueError(
        f"column {name!r} of X {what}: make all groups text, such as by astype(str), or numbers."
    )


def _shown(label):
    """The name of a group, also if its number was read as a float."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def _code_of(label):
    """A negative number for a group that was not seen in `fit`."""
    whole = isinstance(label, int) or (isinstance(label, float) and label.is_integer())
    return -1.0 - zlib.crc32(repr(int(label) if whole else label).encode())
