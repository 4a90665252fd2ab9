"""Prediction along one feature."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from .._estimators.inside_pipelines import inside
from .._input.validation import check_count, check_level
from ..posterior import weighted_quantile
from ..predictive import predictive
from ._common import COLORS, GREY, check_one_outcome, new_axes
from ._named_columns import table_of


@dataclass(eq=False, repr=False)
class PredictiveIntervalDisplay:
    """Prediction along one feature, with intervals of the mean and of the outcome.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Values of the feature.
    mean : ndarray of shape (n, n_curves)
        Means of the outcome, or probabilities of classes; see ``center``.
    mean_interval : ndarray of shape (n, n_curves, 2)
        Where the posterior puts them.
    interval : ndarray of shape (n, 2), default=None
        Of the outcome, noise included.
    level : float
        Probability of the intervals.
    feature : str
        Name of the feature.
    labels : sequence of str
        One per curve.
    ylabel : str
    observed : tuple of ndarray, default=None
        Values of the feature and outcomes (for classes, 0 and 1) of observed rows.
    center : {"mean", "median"}, default="mean"
        What ``mean`` holds: a transformed outcome with heavy tails has a median and no mean.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skstein import BayesianLinearRegression
    >>> from skstein.plotting import PredictiveIntervalDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> reg = BayesianLinearRegression(random_state=0).fit(X, y)
    >>> display = PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", y=y)
    >>> display.interval.shape, display.mean_interval.shape
    ((50, 2), (50, 1, 2))
    """

    values: np.ndarray
    mean: np.ndarray
    mean_interval: np.ndarray
    _: KW_ONLY
    interval: np.ndarray | None = None
    level: float
    feature: str
    labels: Any
    ylabel: str
    observed: Any = None
    center: str = "mean"

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        feature,
        *,
        y=None,
        kind="typical",
        target=None,
        values=50,
        level=0.9,
        ax=None,
        **kwargs,
    ):
        """Predict along one feature.

        Parameters
        ----------
        estimator : estimator instance
            Fitted; whatever `skstein.predictive` takes.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Rows that say what is usual, such as the training data.
        feature : int or str
            Position or name of the feature. It must be numeric.
        y : array-like of shape (n_samples,), default=None
            Observed outcomes of X, to be drawn too. Of several classes, only with ``target=``.
        kind : {"typical", "average"}, default="typical"
            What the other features are. "typical": at their means, or the most frequent value of a
            column that is not numeric. "average": as they are in each row of X, and the prediction
            is averaged over the rows (partial dependence), which costs a prediction of all of X for
            each value.
        target : label, default=None
            Class whose probability is shown. By default the second of two, and all of more.
        values : int or array-like, default=50
            Values of the feature, or how many between its extremes in X.
        level : float, default=0.9
            Probability of the intervals.
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        PredictiveIntervalDisplay
            With an interval of the outcome only for a regressor and "typical" rows: an average over
            rows is never an observed outcome.

        Raises
        ------
        TypeError
            If there is no estimator of skstein inside, or a regressor of several outcomes; for an
            average of outcomes that have no mean.
        ValueError
            If the feature is unknown or not numeric, y has another length than X, or ``kind``,
            ``target``, ``values`` or ``level`` is invalid.
        """
        if kind not in ("typical", "average"):
            raise ValueError(f'kind must be "typical" or "average", got {kind!r}.')
        check_consistent_length(X, y)
        table = table_of(X)
        name = table.position(feature)
        column = table.numeric(name)
        grid = values
        if np.ndim(values) == 0:
            grid = np.linspace(np.nanmin(column), np.nanmax(column), check_count(values, "values"))
        grid = np.asarray(grid, dtype=float)
        if not len(grid):
            raise ValueError("values is empty: name at least one value of the feature.")
        rows = table.typical(_groups(estimator, table)) if kind == "typical" else table
        ends = check_level(level)
        means, mean_intervals, intervals = [], [], []
        for value in grid:
            prediction = predictive(estimator, rows.replaced(name, value))
            if kind == "average" and prediction.center != "mean":
                prediction.mean()  # says why there is none
            by_particle, weights = _averaged(prediction)
            if prediction.center == "mean":
                means.append(weights @ by_particle)
            else:
                means.append(prediction.quantiles([0.5])[0])
            mean_intervals.append(weighted_quantile(by_particle, weights, ends).T)
            regression = not prediction.outcome.has_classes
            if regression and kind == "typical":
                intervals.append(prediction.interval(level)[0])
        mean, mean_interval = np.array(means), np.array(mean_intervals)
        if regression:
            labels, ylabel = [""], "y" if kind == "typical" else "mean of y"
            observed = None if y is None else (column, np.asarray(y, dtype=float))
        else:
            classes = list(estimator.classes_)
            if target is None and len(classes) == 2:
                target = classes[1]
            if target is not None and target not in classes:
                raise ValueError(f"target must be one of the classes {classes}, got {target!r}.")
            shown = range(len(classes)) if target is None else [classes.index(target)]
            mean, mean_interval = mean[:, shown], mean_interval[:, shown]
            labels = [str(classes[k]) for k in shown]
            ylabel = "probability" if target is None else f"probability of {target}"
            marked = y is not None and target is not None
            observed = (column, prediction.estimator._observed(y) == shown[0]) if marked else None
        return cls(
            grid,
            mean,
            mean_interval,
            interval=np.array(intervals) if intervals else None,
            level=level,
            feature=str(table.names[name]),
            labels=labels,
            ylabel=ylabel,
            observed=observed,
            center=prediction.center,
        ).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, color=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        color : matplotlib color, default=None
            Of all curves; by default one per class.

        Returns
        -------
        self : PredictiveIntervalDisplay
        """
        self.ax_, self.figure_ = new_axes(ax)
        regression = self.labels == [""]
        several, line = len(self.labels) > 1, self.center if regression else "probability"
        if self.observed is not None:
            x, y = self.observed
            mark = {"marker": "o", "s": 9} if regression else {"marker": "|", "s": 50}
            self.ax_.scatter(x, y, color=GREY, alpha=0.4, linewidths=0.8, label="observed", **mark)
        for k, label in enumerate(self.labels):
            drawn = COLORS[k % len(COLORS)] if color is None else color
            fill = partial(self.ax_.fill_between, self.values, color=drawn, lw=0)
            if self.interval is not None:
                fill(*self.interval.T, alpha=0.15, label=f"{100.0 * self.level:g}% of outcomes")
            text = None if several else f"{100.0 * self.level:g}% interval of the {line}"
            fill(*self.mean_interval[:, k].T, alpha=0.35, label=text)
            text = label if several else line
            self.ax_.plot(self.values, self.mean[:, k], color=drawn, label=text)
        if not regression:
            self.ax_.set_ylim(-0.03, 1.03)
        self.ax_.set_xlabel(self.feature)
        self.ax_.set_ylabel(self.ylabel)
        self.ax_.legend(frameon=False, fontsize="small")
        return self


def _groups(estimator, table):
    """The names in the table of the columns that hold groups."""
    inner, names = inside(estimator)
    columns = getattr(getattr(inner, "_effects", None), "columns", ())
    called = {name if isinstance(name, str) else f"x{name}": name for name in table.names}
    names = list(called) if inner is estimator or names is None else names
    # Transformers in front put their own names before those of columns.
    found = [[name for name in called if f"__{names[j]}".endswith(f"__{name}")] for j in columns]
    return [called[max(some, key=len)] for some in found if some]


def _averaged(prediction):
    """What each particle expects on average over the rows, (m, n_curves), and the weights."""
    check_one_outcome(prediction)
    blocks = list(prediction._by_particle())
    total = sum(means.sum(axis=0) for means, _ in blocks)
    weights = blocks[0][1]
    return (total / sum(len(means) for means, _ in blocks)).reshape(len(weights), -1), weights
