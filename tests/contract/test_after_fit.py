"""After `fit`: new parameters are for the next one, and what is asked of this one is checked."""

import pickle
from functools import cache, partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.gaussian_process.kernels import RBF

from skstein import (
    BayesianGammaRegression,
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianNegativeBinomialRegression,
    BayesianOrdinalRegression,
    BayesianPoissonRegression,
    BayesianProbitRegression,
    LatentDirichletAllocation,
    SparseGPRegressor,
    StochasticVolatility,
    predictive,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NETWORK = {"hidden_layer_sizes": (3,), "n_networks": 2, "max_iter": 4, "batch_size": None}
FITS = {
    BayesianLinearRegression: {"inference": "laplace"},
    BayesianLogisticRegression: {"inference": "laplace"},
    BayesianOrdinalRegression: {"inference": "laplace"},
    BayesianProbitRegression: {"inference": "laplace"},
    BayesianPoissonRegression: {"inference": "laplace"},
    BayesianNegativeBinomialRegression: {"inference": "laplace"},
    BayesianGammaRegression: {"inference": "laplace"},
    BayesianMLPClassifier: NETWORK,
    BayesianMLPRegressor: NETWORK,
    SparseGPRegressor: {"n_inducing": 5, "max_iter": 1, "optimizer": None},
    StochasticVolatility: {"inference": "laplace"},
    LatentDirichletAllocation: {"n_components": 2, "max_iter": 1},
}
# Values that no fit here has, of parameters that are neither true or false nor numbers.
OTHERS = {
    "n_iter_no_change": 7,
    "noise_shape": 2.0,
    "noise_scale": 2.0,
    "activation": "tanh",
    "approximation": "fitc",
    "batch_size": 7,
    "categories": [2, 1, 0],
    "class_weight": {0: 2.0, 1: 3.0},
    "doc_topic_prior": 0.3,
    "dtype": "float64",
    "effects_prior": "half-student-t",
    "hidden_layer_sizes": (2, 2),
    "inference": "svgd",
    "intercept_prior": "student-t",
    "kernel": RBF(9.0),
    "learning_method": "batch",
    "link": "probit",
    "max_iter": 3,
    "missing_groups": "group",
    "n_jobs": 2,
    "noise": "student-t",
    "n_particles": 5,
    "n_targets": 3,
    "offset": 1,
    "optimizer": "fmin_l_bfgs_b",
    "prior": "laplace",
    "random_effects": [0],
    "random_state": 7,
    "step_size": lambda t: 0.5,
    "subspace": "curve",
    "topic_word_prior": 0.3,
}
# How closely the topics of a document are found is no matter of the fit.
OF_PREDICTION = {"max_doc_update_iter", "mean_change_tol"}


def predictions(model, X):
    """What a fitted model says of X."""
    if isinstance(model, StochasticVolatility):
        return [model.predict(3), model.predict_interval(3), model.log_predictive(X)]
    if isinstance(model, LatentDirichletAllocation):
        return [model.transform(X)]
    said = [model.predict(X), model.predict_interval(X), *model.predict_uncertainty(X).values()]
    draws = [model.sample_predictive(X, 3, random_state=0), model.sample_mean(X, 3, random_state=0)]
    return said + draws + ([model.predict_proba(X)] if is_classifier(model) else [])


def fitted(Estimator, n_rows=40, **params):
    """A fit, and what it is asked of."""
    rng = np.random.default_rng(0)
    model = Estimator(random_state=0, **FITS[Estimator], **params)
    if Estimator is LatentDirichletAllocation:
        X = rng.poisson(1.0, (n_rows, 8))
        return model.fit(X), X
    X = rng.normal(1.0, 2.0, (n_rows, 3))
    y = 10.0 + X[:, 0] + rng.normal(size=n_rows)
    if Estimator in (BayesianPoissonRegression, BayesianNegativeBinomialRegression):
        y = np.floor(np.abs(y))
    if Estimator is StochasticVolatility:
        return model.fit(y - y.mean()), y[:5] - y.mean()
    return model.fit(X, np.digitize(y, [10.5, 11.5]) if is_classifier(model) else y), X


@pytest.fixture(scope="module")
def fits():
    """From an estimator to its fit, once it is asked for: networks take long to compile."""
    return cache(fitted)


@pytest.mark.parametrize("Estimator", sorted(FITS.keys() - {StochasticVolatility}, key=str))
def test_a_pickle_holds_no_rows(Estimator):
    """It does not grow with them, beyond those that the Gaussian process is said to keep."""
    params = {"n_optimizer_samples": 20} if Estimator is SparseGPRegressor else {}
    sizes = [len(pickle.dumps(fitted(Estimator, n_rows, **params)[0])) for n_rows in (210, 570)]
    assert sizes[1] < sizes[0] + 360


def another(name, value):
    if isinstance(value, bool):
        return not value
    return OTHERS[name] if name in OTHERS else value + 1


@pytest.mark.parametrize("Estimator", FITS)
def test_a_parameter_that_is_set_after_fit_changes_no_prediction(fits, Estimator):
    model, X = fits(Estimator)
    X = X[:5]
    before = predictions(model, X)
    for name, value in model.get_params(deep=False).items():
        if name in OF_PREDICTION:
            continue
        model.set_params(**{name: another(name, value)})
        assert repr(getattr(model, name)) != repr(value)
        for now, then in zip(predictions(model, X), before, strict=True):
            assert_array_equal(now, then, err_msg=name)
        model.set_params(**{name: value})


@pytest.mark.parametrize("Estimator", [BayesianLinearRegression, BayesianLogisticRegression])
def test_a_fit_that_is_refused_leaves_the_one_before(Estimator):
    model, X = fitted(Estimator)
    before, y = model.predict_interval(X), model.predict(X)
    model.set_params(fit_intercept=False, warm_start=True)
    with pytest.raises(ValueError, match="warm_start=True goes on with the same features"):
        model.fit(X, y)
    assert_array_equal(model.predict_interval(X), before)


@pytest.mark.parametrize("n_samples", [0, -1, 10.0, True, "many"])
@pytest.mark.parametrize("Estimator", FITS)
def test_a_number_of_draws_is_a_positive_integer(fits, Estimator, n_samples):
    model, X = fits(Estimator)
    calls = [partial(model.posterior_.sample, n_samples)]
    if isinstance(model, StochasticVolatility):
        calls.append(partial(model.sample_predictive, 2, n_samples))
    elif not isinstance(model, LatentDirichletAllocation):
        calls += [
            partial(model.sample_predictive, X, n_samples),
            partial(model.sample_mean, X, n_samples),
            partial(predictive(model, X).sample_predictive, n_samples),
            partial(predictive(model, X).sample_mean, n_samples),
        ]
    if isinstance(model, SparseGPRegressor):
        calls += [partial(asked.sample_y, X, n_samples) for asked in (model, clone(model))]
    for call in calls:
        with pytest.raises(ValueError, match="n_samples must be a positive integer, got"):
            call()


@pytest.mark.parametrize(
    "Estimator", [BayesianLogisticRegression, BayesianOrdinalRegression, BayesianProbitRegression]
)
def test_labels_that_are_refused_leave_the_classes(Estimator):
    model, X = fitted(Estimator)
    classes, before = model.classes_, model.predict(X)
    with pytest.raises(ValueError, match="needs at least two classes in y"):
        model.fit(X, np.full(len(X), "a"))
    assert_array_equal(model.classes_, classes)
    assert_array_equal(model.predict(X), before)
