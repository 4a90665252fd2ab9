"""What stands inside a pipeline, a search or a transformed outcome, and the names of its features.

An estimator at the end of a pipeline is given arrays, and numbers their columns. The transformers
before it know their names.
"""

import re

from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..posterior import ParticlePosterior

__all__ = ["posterior_of"]


def posterior_of(estimator):
    """The posterior inside a pipeline or search, its coordinates under the features' own names.

    Parameters
    ----------
    estimator : estimator instance
        Fitted: an estimator of skstein, alone or in a pipeline, a search or a transformed target.

    Returns
    -------
    ParticlePosterior
        ``posterior_`` of the estimator inside. Where it saw arrays, and called their columns
        ``x0``, ``x1``, ..., coordinates take the names that the transformers before it give their
        columns by ``get_feature_names_out``, if all of them do.

    Raises
    ------
    TypeError
        If there is no estimator of skstein inside whose posterior has coordinates.
    NotFittedError
        If it is not fitted.

    Examples
    --------
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skstein import BayesianLinearRegression, posterior_of
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> columns = make_column_transformer((StandardScaler(), ["bmi", "bp"]))
    >>> model = make_pipeline(columns, BayesianLinearRegression("svgd", random_state=0)).fit(X, y)
    >>> posterior = posterior_of(model)
    >>> posterior.names
    ('intercept', 'standardscaler__bmi', 'standardscaler__bp', 'log_sigma2')
    >>> posterior["standardscaler__bmi"].shape
    (200,)
    """
    return named_posterior(*inside(estimator))


def named_posterior(inner, names):
    """The posterior of an estimator that `inside` found, under the names found with it."""
    posterior = inner.posterior_
    if not isinstance(posterior, ParticlePosterior):
        raise TypeError(
            f"the posterior of {type(inner).__name__} is a {type(posterior).__name__}, without "
            "coordinates that have names; it is in posterior_."
        )
    if names is None or hasattr(inner, "feature_names_in_"):
        return posterior
    named = {f"x{j}": name for j, name in enumerate(names)}

    def renamed(coordinate):
        base, label = re.fullmatch(r"((?:log_sd\[)?[^\[\]]*)(.*)", coordinate).groups()  # type: ignore[union-attr]
        return re.sub(r"\bx\d+\b", lambda found: named.get(found[0], found[0]), base) + label

    return posterior._with(names=[renamed(name) for name in posterior.names])


def inside(estimator):
    """The fitted estimator of skstein inside, and the names of its features; None if not known."""
    given, names = estimator, None
    while not hasattr(estimator, "posterior_"):
        if isinstance(estimator, Pipeline):
            names = _names_behind(estimator.steps[:-1], names)
            estimator = estimator[-1]
            continue
        # What others were given is not what they have fitted; ensembles keep it in two places.
        attributes = ["best_estimator_", "regressor_"]
        if not hasattr(estimator, "estimators_"):
            attributes.append("estimator_")
        if isinstance(estimator, FrozenEstimator | FixedThresholdClassifier):
            attributes.append("estimator")
        for attribute in attributes:
            if hasattr(estimator, attribute):
                if isinstance(estimator, RFE):  # fitted to the columns that are left
                    names = estimator.get_feature_names_out(names)
                estimator = getattr(estimator, attribute)
                break
        else:
            if type(estimator).__module__.startswith("skstein"):
                check_is_fitted(estimator)
            raise TypeError(
                "a fitted estimator of skstein is needed, alone or in a pipeline, a search or a "
                f"transformed target; found {type(given).__name__}."
            )
    return estimator, getattr(estimator, "feature_names_in_", names)


def transforming(steps):
    """Those that change X; samplers, as of imbalanced-learn, draw rows in `fit` alone."""
    return [
        s for _, s in steps if s not in (None, "passthrough") and not hasattr(s, "fit_resample")
    ]


def _names_behind(steps, names):
    """Names of the columns that leave the steps of a pipeline; None where a step does not tell."""
    for step in transforming(steps):
        try:
            names = step.get_feature_names_out(names)
        except (AttributeError, ValueError):
            names = None
    return names
