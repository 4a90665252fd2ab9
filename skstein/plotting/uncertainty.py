"""The two parts of a prediction's uncertainty."""

from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from .._input.class_labels import refuse_unknown
from ..predictive import predictive
from ._common import COLORS, check_one_outcome, new_axes


@dataclass(eq=False, repr=False)
class UncertaintyDisplay:
    """How uncertain predictions are: noise (aleatoric) and ignorance of the model (epistemic).

    Parameters
    ----------
    aleatoric, epistemic : ndarray of shape (n,)
        Their sum is the total uncertainty.
    unit : str
        "nats", or "squared units of y".
    wrong : ndarray of bool of shape (n,), default=None
        Whether the prediction was wrong.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.plotting import UncertaintyDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesianLogisticRegression(random_state=0).fit(X[::2], y[::2])
    >>> display = UncertaintyDisplay.from_estimator(clf, X[1::2], y[1::2])
    >>> display.ax_.get_ylabel()
    'epistemic (nats)'
    """

    aleatoric: np.ndarray
    epistemic: np.ndarray
    _: KW_ONLY
    unit: str
    wrong: np.ndarray | None = None

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, ax=None, **kwargs):
        """Draw the uncertainty of the predictions of rows.

        Parameters
        ----------
        estimator : estimator instance
            Fitted; whatever `skstein.predictive` takes.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            True classes; wrong predictions are marked. Only for classifiers.
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        UncertaintyDisplay

        Raises
        ------
        TypeError
            If there is no estimator of skstein inside, or a regressor of several outcomes.
        ValueError
            If y is given for a regressor, or has another length than X.
        """
        check_consistent_length(X, y)
        prediction = predictive(estimator, X)
        check_one_outcome(prediction)
        uncertainty = prediction.uncertainty()
        outcome = prediction.outcome
        if y is not None and not outcome.has_classes:
            raise ValueError("y marks the wrongly predicted classes; leave it out for a regressor.")
        if y is not None:
            y = column_or_1d(y)
            refuse_unknown(y, estimator.classes_, "were not seen in fit")
        return cls(
            uncertainty.aleatoric,
            uncertainty.epistemic,
            unit=outcome.unit,
            wrong=None if y is None else np.asarray(estimator.predict(X)) != y,
        ).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, kind="scatter"):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        kind : {"scatter", "stacked"}, default="scatter"
            "scatter": one point per row, one part against the other. "stacked": the parts on top of
            each other, rows sorted by their sum.

        Returns
        -------
        self : UncertaintyDisplay

        Raises
        ------
        ValueError
            If ``kind`` is neither.
        """
        if kind not in ("scatter", "stacked"):
            raise ValueError(f'kind must be "scatter" or "stacked", got {kind!r}.')
        self.ax_, self.figure_ = new_axes(ax)
        if kind == "scatter":
            self._scatter()
        else:
            self._stack()
        return self

    def _scatter(self):
        self.ax_.scatter(self.aleatoric, self.epistemic, s=14, color=COLORS[0], alpha=0.6, lw=0)
        if self.wrong is not None:
            x, y = self.aleatoric[self.wrong], self.epistemic[self.wrong]
            label = f"wrong ({self.wrong.sum()} of {len(self.wrong)})"
            self.ax_.scatter(x, y, s=60, facecolors="none", edgecolors=COLORS[1], label=label)
            self.ax_.legend(frameon=False, fontsize="small")
        self.ax_.set_xlabel(f"aleatoric ({self.unit})")
        self.ax_.set_ylabel(f"epistemic ({self.unit})")

    def _stack(self):
        total = self.aleatoric + self.epistemic
        order = np.argsort(total)
        rows = np.arange(1, len(order) + 1)
        fill = partial(self.ax_.fill_between, rows, lw=0)
        fill(0.0, self.aleatoric[order], color=COLORS[0], alpha=0.6, label="aleatoric")
        fill(self.aleatoric[order], total[order], color=COLORS[4], alpha=0.8, label="epistemic")
        if self.wrong is not None:
            (marked,) = np.nonzero(self.wrong[order])
            label = f"wrong ({len(marked)} of {len(order)})"
            self.ax_.plot(rows[marked], total[order][marked], "v", color=COLORS[1], label=label)
        self.ax_.set_xlim(1, max(len(order), 2))
        self.ax_.set_ylim(bottom=0.0)
        self.ax_.set_xlabel("rows, by total uncertainty")
        self.ax_.set_ylabel(f"uncertainty ({self.unit})")
        self.ax_.legend(frameon=False, fontsize="small", loc="upper left")
