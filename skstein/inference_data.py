"""A fitted estimator as ArviZ data: its posterior with what model comparison and checks need.

ArviZ compares models by the likelihood of each row under each draw, and checks them by outcomes
that each draw predicts. A posterior alone has neither; an estimator has both once it is shown rows.
"""

import numpy as np
from scipy.special import log_softmax
from scipy.stats import norm
from sklearn.utils import check_consistent_length, column_or_1d

from ._containers import make_container
from ._random import as_generator
from .predictive import _ClassProbabilities, _Outcome, predictive

__all__ = ["to_arviz"]


def to_arviz(estimator, X, y=None, *, n_draws=None, random_state=None, container="auto"):
    """A fitted classifier or regressor, and what it says of rows, for ArviZ.

    Parameters
    ----------
    estimator : estimator instance
        Fitted: a classifier or regressor of skstein, alone, in a pipeline or in a search.
    X : array-like of shape (n_samples, n_features)
        Rows to predict. For comparison of models, those of the fit.
    y : array-like of shape (n_samples,), default=None
        Their outcomes; without them there are no groups ``log_likelihood`` and ``observed_data``.
    n_draws : int, default=None
        Number of draws, by default that of the particles. See `ParticlePosterior.to_arviz` for what
        becomes of weights.
    random_state : int, RandomState instance or None, default=None
        Of the outcomes that are drawn.
    container : {"auto", "datatree", "inferencedata"}, default="auto"
        As in `ParticlePosterior.to_arviz`.

    Returns
    -------
    xarray.DataTree or arviz.InferenceData
        With the groups ``posterior``, ``sample_stats``, ``posterior_predictive``,
        ``log_likelihood`` and ``observed_data``. The outcome is the variable ``y`` along the
        dimension ``row``; of a classifier, it is the position of the class in ``classes_``.

    Raises
    ------
    TypeError
        If there is no classifier or regressor of skstein inside, or its outcome is transformed, of
        which the likelihood is not known, or it has several outcomes.
    ValueError
        If y has another length than X or a class that was not seen in `fit`.
    ImportError
        If the container needs a package that is not installed.

    Notes
    -----
    Leave-one-out scores are importance sampling, whose tails a hundred points cannot show: fit with
    ``inference="pmfvb"``, or with ``KSDThinnedMCMC(n_particles=1000)``, before comparing models.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skstein import BayesianLinearRegression, to_arviz
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = BayesianLinearRegression("pmfvb", random_state=0).fit(X, y)
    >>> data = to_arviz(reg, X, y)
    >>> from arviz_stats import loo
    >>> round(loo(data).p)  # effective number of parameters
    11
    """
    prediction = predictive(estimator, X)
    if not isinstance(prediction, _ClassProbabilities | _Outcome):
        raise TypeError(
            "to_arviz needs the likelihood of y, which is not known behind a "
            "TransformedTargetRegressor; pass its regressor_, with the transformed y."
        )
    inner = prediction.estimator
    if getattr(inner, "_n_outputs", 1) > 1 and isinstance(prediction, _Outcome):
        raise TypeError("to_arviz needs a single outcome; fit one estimator an outcome.")
    rng = as_generator(random_state)
    groups, dims, coords, chosen = inner.posterior_._arviz_groups(n_draws)
    classes = getattr(inner, "classes_", None)
    if y is not None:
        y = _checked_outcome(y, classes)
        check_consistent_length(prediction.X, y)
    law = _Normal if classes is None else _Categorical
    drawn, log_likelihood = [], []
    for rows, outputs, _ in inner._row_outputs(prediction.X):
        given_draw = law(outputs, chosen)
        drawn.append(given_draw.sample(rng))
        if y is not None:
            log_likelihood.append(given_draw.log_likelihood(y[rows]))
    groups["posterior_predictive"] = {"y": np.concatenate(drawn).T[None]}
    if y is not None:
        groups["log_likelihood"] = {"y": np.concatenate(log_likelihood).T[None]}
        groups["observed_data"] = {"y": y}
    dims["y"] = ["row"]
    return make_container(groups, dims=dims, coords=coords, container=container)


class _Normal:
    """The outcome of each row under each chosen particle, both (n, n_draws)."""

    def __init__(self, outputs, chosen):
        means, variances = outputs
        self.means = means[:, chosen]
        self.stds = np.sqrt(np.broadcast_to(variances, means.shape)[:, chosen])

    def sample(self, rng):
        return self.means + self.stds * rng.standard_normal(self.means.shape)

    def log_likelihood(self, y):
        return norm.logpdf(y[:, None], self.means, self.stds)


class _Categorical:
    """The class of each row under each chosen particle, both (n, n_draws)."""

    def __init__(self, logits, chosen):
        if logits.ndim == 2:  # log-odds of the second class
            logits = np.stack([np.zeros_like(logits), logits], axis=2)
        self.log_proba = log_softmax(logits[:, chosen], axis=2)

    def sample(self, rng):
        below = np.cumsum(np.exp(self.log_proba), axis=2)[:, :, :-1]
        return np.sum(rng.random(below.shape[:2])[:, :, None] > below, axis=2)

    def log_likelihood(self, codes):
        return np.take_along_axis(self.log_proba, codes[:, None, None], axis=2)[:, :, 0]


def _checked_outcome(y, classes):
    """Outcomes as floats, or classes as positions in ``classes``."""
    if classes is None:
        return column_or_1d(y, dtype=np.float64)
    y = column_or_1d(y)
    unseen = np.setdiff1d(y, classes)
    if len(unseen):
        raise ValueError(f"y holds classes that were not seen in fit: {unseen.tolist()}.")
    return np.searchsorted(classes, y)
