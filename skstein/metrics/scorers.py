"""Scorers: proper scores of a predictive distribution, for ``scoring=`` of scikit-learn.

scikit-learn's own scorers see what ``predict`` and ``predict_proba`` return. These look at the
whole distribution of the outcome, by `skstein.predictive`, which reaches through pipelines,
searches and transformed targets. They are scikit-learn objects with parameters, so that they are
cloned, pickled and tuned, and ask for metadata, as estimators do.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import mean_pinball_loss
from sklearn.utils import column_or_1d
from sklearn.utils.metadata_routing import UNUSED

from ..predictive import predictive
from ._average import average
from .distributions import interval_coverage, interval_score


class PredictiveScorer(BaseEstimator):
    """Base class of scorers that see the predictive distribution.

    A subclass writes ``score(prediction, y, sample_weight)``, with what `skstein.predictive` gives
    at the held-out rows; greater is better. Where metadata is routed, the rows' ``offset`` reaches
    it after ``set_score_request(offset=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import cross_val_score
    >>> from skstein import BayesianLinearRegression
    >>> from skstein.metrics import PredictiveScorer
    >>> @dataclass(eq=False, repr=False)
    ... class Sharpness(PredictiveScorer):
    ...     '''Minus the mean width of the intervals.'''
    ...
    ...     def score(self, prediction, y, sample_weight):
    ...         width = np.diff(prediction.interval(0.5), axis=1)[:, 0]
    ...         return -np.average(width, weights=sample_weight)
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = BayesianLinearRegression("svgd", random_state=0)
    >>> cross_val_score(reg, X, y, scoring=Sharpness(), cv=3).shape
    (3,)
    """

    # Of the arguments of `score`, scikit-learn takes all but X and y for metadata.
    __metadata_request__score = {"prediction": UNUSED, "offset": None}

    def __call__(self, estimator, X, y, sample_weight=None, offset=None):
        """Score a fitted estimator.

        Parameters
        ----------
        estimator : estimator instance
            Fitted; an estimator of skstein, or what `skstein.predictive` finds one in.
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,) or (n, n_targets)
        sample_weight : array-like of shape (n,), default=None
        offset : array-like of shape (n,), default=None
            Added to the linear predictor of each row; for a linear model that was fitted with one.

        Returns
        -------
        score : float
            Greater is better.

        Raises
        ------
        TypeError
            If there is no estimator of skstein inside, or its outcomes are not of the kind that is
            scored.
        ValueError
            If ``y`` or the weights do not fit.
        """
        y = column_or_1d(y) if np.shape(y)[1:] == (1,) else y
        return self.score(predictive(estimator, X, offset=offset), y, sample_weight)

    def score(self, prediction, y, sample_weight):
        raise NotImplementedError(f"{type(self).__name__} does not define score().")

    def _accept_sample_weight(self):
        # Searches ask it of every scorer where metadata is not routed.
        return True

    def _require_numbers(self, prediction):
        if prediction.outcome.has_classes:
            raise TypeError(
                f"{type(self).__name__} scores outcomes that are numbers; for classes use "
                'log_predictive_scorer, or "neg_brier_score" of scikit-learn.'
            )


class LogPredictiveScorer(PredictiveScorer):
    """Mean logarithm of the density, or probability, that was given to what happened.

    Strictly proper, and the score of classes and numbers alike. Of transformed outcomes it is per
    unit of the original y, so that transformations can be compared.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skstein import BayesianLinearRegression
    >>> from skstein.metrics import log_predictive_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = TransformedTargetRegressor(BayesianLinearRegression("svgd", random_state=0))
    >>> grid = [{}, {"func": [np.sqrt], "inverse_func": [np.square]}]
    >>> search = GridSearchCV(reg, grid, scoring=log_predictive_scorer, cv=5).fit(X, y)
    >>> search.best_params_["func"]
    <ufunc 'sqrt'>
    """

    def score(self, prediction, y, sample_weight):
        return average(prediction.log_predictive(y), sample_weight)


class CRPSScorer(PredictiveScorer):
    """Minus the mean continuous ranked probability score (CRPS) of numbers.

    Strictly proper, in the unit of y, and less severe than the log score on an outcome far out in a
    tail. Of transformed outcomes it is good to about a thousandth.
    """

    def score(self, prediction, y, sample_weight):
        self._require_numbers(prediction)
        return -average(prediction.crps(y), sample_weight)


@dataclass(eq=False, repr=False)
class IntervalScoreScorer(PredictiveScorer):
    """Minus the mean `interval_score` of central intervals.

    Parameters
    ----------
    level : float, default=0.9
        Probability of the intervals, less than 1.
    """

    level: float = 0.9

    def score(self, prediction, y, sample_weight):
        self._require_numbers(prediction)
        interval = prediction.interval(self.level)
        return -interval_score(y, interval, self.level, sample_weight=sample_weight)


@dataclass(eq=False, repr=False)
class CoverageScorer(PredictiveScorer):
    """Share of the outcomes in central intervals, to look at beside a proper score.

    Greater is not better: it should be near ``level``. So do not let a search choose by it.

    Parameters
    ----------
    level : float, default=0.9
        Probability of the intervals.
    """

    level: float = 0.9

    def score(self, prediction, y, sample_weight):
        self._require_numbers(prediction)
        return interval_coverage(y, prediction.interval(self.level), sample_weight=sample_weight)


@dataclass(eq=False, repr=False)
class PinballScorer(PredictiveScorer):
    """Minus scikit-learn's ``mean_pinball_loss`` of one quantile.

    Parameters
    ----------
    quantile : float, default=0.5
        Its probability, between 0 and 1.
    """

    quantile: float = 0.5

    def score(self, prediction, y, sample_weight):
        self._require_numbers(prediction)
        if not 0.0 < self.quantile < 1.0:
            raise ValueError(f"quantile must be between 0 and 1, got {self.quantile!r}.")
        values = prediction.quantiles(self.quantile)[..., 0]
        return -mean_pinball_loss(y, values, alpha=self.quantile, sample_weight=sample_weight)


log_predictive_scorer = LogPredictiveScorer()
crps_scorer = CRPSScorer()
interval_score_scorer = IntervalScoreScorer()
coverage_scorer = CoverageScorer()
