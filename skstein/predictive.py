"""The posterior predictive distribution of any object that holds an estimator of this package.

A pipeline, a search, a shifted threshold or a transformed outcome hides the estimator's predictive
methods. `predictive` reaches through them: it is a table from the type of a wrapper to the step
inwards, so each wrapper is a few lines here and nests with all others.
"""

from functools import singledispatch

from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._estimators.inside_pipelines import transforming
from ._predictions.distribution import Predictive
from ._predictions.methods import PredictsOutcomes
from ._predictions.transformed_outcome import TransformedOutcome, transformed

__all__ = ["Predictive", "predictive", "with_likelihood"]


def with_likelihood(estimator, X, caller, offset=None):
    """`predictive`, if rows have a likelihood of one outcome each; else ``caller`` refuses it."""
    prediction = predictive(estimator, X, offset=offset)
    if isinstance(prediction, TransformedOutcome):
        raise TypeError(
            f"{caller} needs the likelihood of y, which is not known behind a "
            "TransformedTargetRegressor; pass its regressor_, with the transformed y."
        )
    if prediction.n_outcomes > 1:
        raise TypeError(f"{caller} needs a single outcome; fit one estimator per outcome.")
    inner = prediction.estimator
    if not inner._rows_independent:
        raise TypeError(
            f"{caller} needs rows that are independent given a particle; a particle of "
            f"{type(inner).__name__} has seen them all. Use cross_val_score."
        )
    return prediction


def predictive(estimator, X, *, offset=None, effects=None):
    """Posterior predictive of a fitted object whose final predictor is an estimator of skstein.

    Supported are skstein's classifiers and regressors, alone or inside
    :class:`~sklearn.pipeline.Pipeline`, a search such as
    :class:`~sklearn.model_selection.GridSearchCV`,
    :class:`~sklearn.compose.TransformedTargetRegressor`,
    :class:`~sklearn.model_selection.FixedThresholdClassifier`,
    :class:`~sklearn.model_selection.TunedThresholdClassifierCV`,
    :class:`~sklearn.feature_selection.RFE` and :class:`~sklearn.frozen.FrozenEstimator`, nested in
    any order. Another wrapper is added by ``predictive.register(Wrapper)``, a decorator of a
    function of the wrapper and X; ``offset`` and ``effects`` reach the estimator inside by
    themselves.

    Parameters
    ----------
    estimator : estimator instance
        Fitted.
    X : array-like of shape (n, n_features)
        What ``estimator.predict`` takes. It passes through the transformers of pipelines at once;
        everything else waits for a method of the result.
    offset : array-like of shape (n,), default=None
        Added to the linear predictor of each row; for a linear model that was fitted with one.
    effects : {"group", "population"}, default=None
        For a linear model with ``random_effects``: "group", as for None, adds the effects of the
        row's group; "population" adds none.

    Returns
    -------
    Predictive
        Its methods ``mean``, ``std``, ``quantiles``, ``interval``, ``sample_predictive``,
        ``sample_mean``, ``uncertainty`` and ``log_predictive`` give what the inner estimator's own
        give for the transformed X (``predict_interval`` and so on); ``crps`` is another score.

    Raises
    ------
    TypeError
        If there is no estimator of skstein inside, or one that is not a linear model is given an
        ``offset`` or ``effects``.
    ValueError
        If the offset has another length than X, or ``effects`` is another word.
    NotFittedError
        If ``estimator`` is not fitted, or is a search with ``refit=False``.

    Notes
    -----
    A threshold changes which label is predicted, not its probability: the predictive is that of the
    classifier inside.

    The inverse of a transformed outcome is taken to map each value on its own. Where it is
    monotone, but for a millionth of the outcomes at either end, quantiles are exact; where it
    decreases they swap ends. Otherwise they are those of 4097 outcomes, equally spaced in normal
    score, and good to about a thousandth in probability. Mean, standard deviation and
    uncertainty come from 64 nodes of Gauss-Hermite quadrature for each particle, exact to rounding
    for a polynomial or exponential inverse. So ``mean`` is the mean of the outcome, whereas
    ``TransformedTargetRegressor.predict`` is the inverse transform of a mean. The density is that
    of the transformed outcome over the slope of the inverse, by a difference that is good to about
    a millionth; the inverse must be monotone but for a hundredth of the outcomes at either end, and
    what those add to the density is left out. The CRPS is that of 256 outcomes with the
    probabilities of the cells around them, good to about a thousandth.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skstein import BayesianLinearRegression, predictive
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = TransformedTargetRegressor(
    ...     make_pipeline(StandardScaler(), BayesianLinearRegression(random_state=0)),
    ...     func=np.log,
    ...     inverse_func=np.exp,
    ... )
    >>> prediction = predictive(reg.fit(X, y), X[:3])
    >>> prediction.interval(0.9).shape
    (3, 2)
    >>> bool(np.all(prediction.mean() > prediction.quantiles(0.5)[:, 0]))
    True
    """
    found = _reached(estimator, X)
    direct = getattr(found, "direct", found)
    for name, value in (("offset", offset), ("effects", effects)):
        if value is None:
            continue
        if not hasattr(direct.estimator, f"_with_{name}"):
            raise TypeError(f"{name} is for linear models, not {type(direct.estimator).__name__}.")
        direct.estimator = getattr(direct.estimator, f"_with_{name}")(direct.X, value)
    return found


@singledispatch
def _reached(estimator, X):
    found = type(estimator).__name__
    if isinstance(estimator, type):
        found = f"the class {estimator.__name__} instead of an instance"
    reached = _reached.registry.keys() - {object, PredictsOutcomes, GridSearchCV.__base__}
    wrappers = sorted(wrapper.__name__ for wrapper in {*reached, GridSearchCV})
    raise TypeError(
        "predictive needs a fitted classifier or regressor of skstein, alone or as the final "
        f"predictor inside {', '.join(wrappers)}; found {found}."
    )


vars(predictive)["register"] = _reached.register


@_reached.register(PredictsOutcomes)
def _estimator(estimator, X):
    check_is_fitted(estimator)
    return Predictive(estimator, X)


@_reached.register(Pipeline)
def _pipeline(pipeline, X):
    check_is_fitted(pipeline)
    for step in transforming(pipeline.steps[:-1]):
        X = step.transform(X)
    return predictive(pipeline[-1], X)


# The class that all searches derive from; scikit-learn has no public name for it.
@_reached.register(GridSearchCV.__base__)
def _search(search, X):
    missing = "This %(name)s has no best_estimator_: call fit with refit=True first."
    check_is_fitted(search, "best_estimator_", msg=missing)
    return predictive(search.best_estimator_, X)


@_reached.register(TransformedTargetRegressor)
def _transformed_target(regressor, X):
    check_is_fitted(regressor)
    return transformed(predictive(regressor.regressor_, X), regressor.transformer_)


@_reached.register(FixedThresholdClassifier)
@_reached.register(TunedThresholdClassifierCV)
def _threshold(classifier, X):
    # As scikit-learn has it: without a fit of its own, a fitted estimator inside is enough.
    return predictive(getattr(classifier, "estimator_", classifier.estimator), X)


@_reached.register(RFE)
def _elimination(selector, X):
    check_is_fitted(selector)
    return predictive(selector.estimator_, selector.transform(X))


@_reached.register(FrozenEstimator)
def _frozen(frozen, X):
    return predictive(frozen.estimator, X)
