"""Linear models of a numeric outcome of any family."""

from functools import partial

import numpy as np

from .._input.validation import available_if, check_outcomes, validated
from .._predictions.methods import BayesianRegressorMixin
from .._tools.warnings import warn
from ..outcomes.log_link import LogLink
from .base import BayesianLinearModel, takes_more_rows
from .predictions import LinearPredictions

# Of a logarithmic link, the largest share of one particle in the mean or in the variance of the
# outcome, if there it is so many times the average. Beyond it these come with a warning.
_MOST_OF_ONE, _FAR_ABOVE = 0.25, 10.0


class GeneralizedLinearRegressor(LinearPredictions, BayesianRegressorMixin, BayesianLinearModel):
    """Base class of linear models of a numeric outcome with one linear predictor.

    A subclass says in ``_outcome`` what is observed (:mod:`skstein.outcomes`); fits, streams and
    predictions follow. :doc:`/extending` has an example. The parameters are those of
    `BayesianLinearRegression`, without ``noise``, ``noise_shape`` and ``noise_scale``.
    """

    @available_if(takes_more_rows)
    @validated
    def partial_fit(self, X, y, sample_weight=None, offset=None):
        """Learn from more rows: a stream of them, each once, in chunks of any size.

        The posterior is that of all rows so far, up to sampling error; 10,000 rows at most are
        kept, until a quadratic stands for them (:doc:`/streaming`). The first call is a fit, and
        its standardisation stays. After `fit`, the rows of the fit are the first ones; a later
        `fit` starts again. Needs ``inference="pmd"``, whose ``n_total`` allows more passes over the
        same rows; rows of weight zero count as rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.
        offset : array-like of shape (n_samples,), default=None
            Added to the linear predictor of each row, with coefficient 1; predictions need one too.
            Where it is a column of X, the parameter ``offset`` names it instead.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter, X, y, the weights or the offset are invalid, the rows go beyond
            ``n_total``, or priors, standardisation or offset are not those of the rows before.

        Warns
        -----
        ConvergenceWarning
            If the first rows are too few, y of these spreads more than five times as much, or the
            posterior is likely to be wrong.

        Examples
        --------
        >>> from sklearn.datasets import make_regression
        >>> from skstein import BayesianLinearRegression
        >>> X, y = make_regression(3000, 3, noise=10.0, random_state=0)
        >>> reg = BayesianLinearRegression("pmd", random_state=0)
        >>> for start in range(0, 3000, 1000):
        ...     reg = reg.partial_fit(X[start : start + 1000], y[start : start + 1000])
        >>> reg.posterior_.diagnostics["n_seen"]
        3000
        """
        return self._fit(X, y, sample_weight, stream=True, offset=offset)

    def _mean(self, X):
        return self._averages(X, 1, "mean")[0]

    def _moments(self, X):
        return self._averages(X, 2, "standard deviation")

    def _averages(self, X, order, what):
        """The moments; a warning where that of this order rests on a few particles."""

        def averages(heads, weights):
            moments = self._outcome.moments(heads, weights)
            if not isinstance(self._outcome, LogLink):
                return np.column_stack([moments, np.zeros(len(moments))])
            parts = (self._outcome.expected(heads) - (order - 1) * moments[:, :1]) ** order
            parts = weights * (parts + (order - 1) * self._outcome.noise(heads))
            # With all its nodes, which are in a row.
            of_one = parts.reshape(len(parts), len(self.posterior_), -1).sum(axis=2)
            most = max(_MOST_OF_ONE, _FAR_ABOVE / of_one.shape[1]) * of_one.sum(axis=1)
            return np.column_stack([moments, ~(of_one.max(axis=1) <= most)])

        *moments, few = np.moveaxis(self._over_nodes(X, averages), 1, 0)
        if few.any():
            warn(
                f"the {what} of some rows rests on a few draws of the posterior, and may be "
                "infinite: use predict_quantiles or predict_interval, or tighter priors.",
                UserWarning,
            )
        return moments

    def _checked(self, y):
        y = check_outcomes(y)
        self._outcome.check(y)
        return y

    @staticmethod
    def _survey(y, sample_weight):
        ends = np.array([y.min(), y.max()]) if len(y) else y
        return ends, np.zeros(len(ends))

    def _learn_outcomes(self, present, totals, classes):
        encode = partial(_without_offset, self._outcome.location_scale)
        return encode, "one outcome alone" if len(np.unique(present)) == 1 else ""

    def _summaries(self, posterior):
        summaries = super()._summaries(posterior).items()
        return {name: value[0] if value[0].ndim else float(value[0]) for name, value in summaries}


def _without_offset(location_scale, y, sample_weight, offset):
    return y - offset if location_scale else y, sample_weight
