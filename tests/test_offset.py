"""Offsets: a column of X, or an array beside X, with the same answers; and what is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianGammaRegression,
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianNegativeBinomialRegression,
    BayesianPoissonRegression,
    BayesianProbitRegression,
    loo,
    posterior_of,
    predictive,
    to_arviz,
)
from skstein.metrics import log_predictive_scorer
from skstein.plotting import PosteriorIntervalDisplay
from skstein.priors import Normal

ESTIMATORS = [
    BayesianGammaRegression,
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianNegativeBinomialRegression,
    BayesianPoissonRegression,
    BayesianProbitRegression,
]
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)
COLUMN = 1

# The Gaussian at the mode is not what is asked about here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(Estimator, n=200):
    """Features, the offset, and outcomes whose predictor it is a part of."""
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(n, 2)), rng.uniform(-2.0, 2.0, n)
    eta = 0.5 + X @ [0.5, -0.3] + offset
    noise = rng.normal(size=n)
    if is_classifier(Estimator()):
        return X, offset, (eta + noise > 0.0).astype(int)
    if Estimator is BayesianLinearRegression:
        return X, offset, eta + noise
    mean = np.exp(eta)
    return X, offset, mean * np.exp(0.1 * noise) if "Gamma" in str(Estimator) else rng.poisson(mean)


def beside(X, offset):
    """X with the offset as its second column."""
    return np.insert(X, COLUMN, offset, axis=1)


def said(model, X, y, **offset):
    """All that a model says of some rows."""
    found = {
        name: getattr(model, name)(X, **offset)
        for name in ("predict", "predict_interval")
        + (("predict_proba", "decision_function") if is_classifier(model) else ())
    }
    draws = {"n_samples": 3, "random_state": 0, **offset}
    return found | {
        "uncertainty": model.predict_uncertainty(X, **offset).total,
        "sample_predictive": model.sample_predictive(X, **draws),
        "sample_mean": model.sample_mean(X, **draws),
        "log_predictive": model.log_predictive(X, y, **offset),
        "score": model.score(X, y, **offset),
        "quantiles": model.predict_quantiles(X, 0.3, **offset),
    }


@pytest.mark.filterwarnings("ignore:the Pareto shape")  # of a row that probit did not expect
@every_estimator
def test_a_column_is_the_same_as_an_array_beside(Estimator):
    X, offset, y = rows(Estimator)
    given = Estimator("laplace", random_state=0).fit(X, y, offset=offset)
    expected = said(given, X[:9], y[:9], offset=offset[:9])
    Z = beside(X, offset)
    frame = pd.DataFrame(Z, columns=["a", "log_exposure", "b"])
    elpd = loo(given, X, y, offset=offset).elpd
    drawn = to_arviz(given, X, y, offset=offset, random_state=0)["posterior_predictive"]["y"]
    for which, table in ((COLUMN, Z), ("log_exposure", frame), (COLUMN, sparse.csr_array(Z))):
        model = Estimator("laplace", random_state=0, offset=which).fit(table, y)
        few = frame[:9] if table is frame else table[:9]
        assert model.coef_.shape[-1] == 2 and model.n_features_in_ == 3
        assert_allclose(model.coef_, given.coef_, rtol=1e-6)
        assert_allclose(loo(model, table, y).elpd, elpd, rtol=1e-6)
        again = to_arviz(model, table, y, random_state=0)["posterior_predictive"]["y"]
        assert_allclose(again, drawn, rtol=1e-6)
        found = said(pickle.loads(pickle.dumps(model)), few, y[:9])
        for name, values in expected.items():
            assert_allclose(found[name], values, rtol=1e-6, err_msg=name)
    assert model.posterior_.names[:3] == ("intercept", "x0", "x2")
    without = Estimator("laplace", random_state=0).fit(X, y)
    assert model.log_predictive(Z, y).sum() > without.log_predictive(X, y).sum()


def test_signs_and_scales_are_of_the_features_beside_an_offset():
    X, offset, y = rows(BayesianPoissonRegression)
    frame = pd.DataFrame(beside(X, offset), columns=["a", "log_exposure", "b"])
    model = BayesianPoissonRegression("laplace", random_state=0, offset="log_exposure")
    model.set_params(prior=Normal([1.0, 2.0]))
    by_place = clone(model).set_params(positive=[-1, 1]).fit(frame, y).coef_
    assert by_place[0] < 0.0 < by_place[1]
    by_name = clone(model).set_params(positive={"a": -1, "b": 1}).fit(frame, y).coef_
    assert_array_equal(by_name, by_place)
    with pytest.raises(ValueError, match="features of X; they are a, b"):
        model.set_params(positive={"log_exposure": 1}).fit(frame, y)


def test_rows_of_twice_the_exposure_are_two_rows():
    """An offset of log 2 and the sum of two counts have the likelihood of both."""
    X, _, y = rows(BayesianPoissonRegression)
    other = np.random.default_rng(1).permutation(y)
    options = {"standardize": False, "random_state": 0}
    sums = BayesianPoissonRegression("laplace", **options)
    sums.fit(X, y + other, offset=np.full(len(y), np.log(2.0)))
    both = BayesianPoissonRegression("laplace", **options)
    both.fit(np.tile(X, (2, 1)), np.concatenate([y, other]))
    assert_allclose(sums.posterior_.particles, both.posterior_.particles, atol=1e-5)
    assert_allclose(sums.predict(X, offset=np.zeros(len(y))), both.predict(X), rtol=1e-5)


@pytest.mark.parametrize("engine", ["mcmc", "pmfvb", "pmd"])
def test_a_constant_offset_moves_the_intercept_alone(engine):
    X, _, y = rows(BayesianPoissonRegression)
    plain = BayesianPoissonRegression(engine, random_state=0).fit(X, y)
    shifted = clone(plain).fit(X, y, offset=np.full(len(y), 3.0))
    assert_allclose(shifted.coef_, plain.coef_, atol=1e-6)
    assert_allclose(shifted.intercept_, plain.intercept_ - 3.0, atol=1e-6)


def test_streams_take_offsets():
    X, offset, y = rows(BayesianPoissonRegression, 1200)
    stream = BayesianPoissonRegression("pmd", random_state=0)
    column = clone(stream).set_params(offset=COLUMN)
    for start in range(0, 1200, 400):
        at = slice(start, start + 400)
        stream.partial_fit(X[at], y[at], offset=offset[at])
        column.partial_fit(beside(X, offset)[at], y[at])
    assert_allclose(column.coef_, stream.coef_, rtol=1e-9)
    assert np.abs((stream.coef_ - [0.5, -0.3]) / stream.coef_std_).max() < 3.5
    with pytest.raises(ValueError, match="offset must be given as it was"):
        stream.partial_fit(X, y)


def test_an_array_goes_to_the_predictive_of_a_pipeline():
    X, offset, y = rows(BayesianPoissonRegression)
    reg = make_pipeline(StandardScaler(), BayesianPoissonRegression("laplace", random_state=0))
    reg.fit(X, y, bayesianpoissonregression__offset=offset)
    direct = reg[-1].predict_interval(reg[:-1].transform(X), offset=offset)
    assert_array_equal(predictive(reg, X, offset=offset).interval(), direct)
    with pytest.raises(ValueError, match="one number per row"):
        predictive(reg, X, offset=offset[:5])


def test_a_column_goes_through_pipelines_searches_and_displays():
    pytest.importorskip("matplotlib").use("agg")
    X, offset, y = rows(BayesianPoissonRegression)
    frame = pd.DataFrame(beside(X, offset), columns=["a", "log_exposure", "b"])
    scaled = make_column_transformer(
        (StandardScaler(), ["a", "b"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    model = BayesianPoissonRegression("laplace", offset="log_exposure", random_state=0)
    grid = {"bayesianpoissonregression__prior__scale": [0.5, 1.0]}
    search = GridSearchCV(make_pipeline(scaled, model), grid, cv=3, scoring=log_predictive_scorer)
    search.fit(frame, y)
    prediction = predictive(search, frame)
    assert_allclose(prediction.mean(), search.predict(frame))
    assert posterior_of(search).names == ("intercept", "a", "b")
    display = PosteriorIntervalDisplay.from_estimator(search)
    assert sorted(display.names) == ["a", "b"]
    assert np.isfinite(loo(search, frame, y).elpd)
    # The name is found without the prefix, too.
    prefixed = clone(search.best_estimator_)
    prefixed.set_params(columntransformer__verbose_feature_names_out=True).fit(frame, y)
    assert posterior_of(prefixed).names[1] == "standardscaler__a"
    assert_allclose(prefixed.predict(frame), search.predict(frame))
    if pytest.importorskip("arviz_base"):
        assert to_arviz(search, frame, y)["observed_data"]["y"].shape == (len(y),)


def test_an_array_is_routed():
    X, offset, y = rows(BayesianPoissonRegression)
    with config_context(enable_metadata_routing=True):
        model = BayesianPoissonRegression("laplace", random_state=0)
        model.set_fit_request(offset=True).set_score_request(offset=True)
        model.set_predict_request(offset=True)
        found = cross_val_score(model, X, y, cv=3, params={"offset": offset})
        pipe = make_pipeline(StandardScaler(), model).fit(X, y, offset=offset)
        assert_allclose(pipe.predict(X, offset=offset), y, atol=30.0)
    column = BayesianPoissonRegression("laplace", random_state=0, offset=COLUMN)
    assert_allclose(found, cross_val_score(column, beside(X, offset), y, cv=3), rtol=1e-6)


@every_estimator
def test_weights_of_zero_leave_the_offset_out_too(Estimator):
    X, offset, y = rows(Estimator)
    kept = np.arange(len(y)) % 3 > 0
    all_rows = Estimator("laplace", random_state=0).fit(X, y, kept.astype(float), offset=offset)
    some = Estimator("laplace", random_state=0).fit(X[kept], y[kept], offset=offset[kept])
    assert_array_equal(all_rows.posterior_.particles, some.posterior_.particles)


@every_estimator
def test_what_is_refused(Estimator):
    X, offset, y = rows(Estimator)
    Z, model = beside(X, offset), Estimator("laplace", random_state=0)
    with pytest.raises(ValueError, match="offset must have one number per row"):
        model.fit(X, y, offset=offset[1:])
    for wrong in (np.where(offset > 1.9, np.nan, offset), np.where(offset > 1.9, np.inf, offset)):
        with pytest.raises(ValueError, match="Input offset contains"):
            model.fit(X, y, offset=wrong)
    with pytest.raises(ValueError, match="offset holds a value of magnitude"):
        model.fit(X, y, offset=np.full(len(y), 1e200))
    for wrong in ("log_exposure", 3, -1, True):
        with pytest.raises((ValueError, TypeError), match="offset"):
            clone(model).set_params(offset=wrong).fit(Z, y)
    with pytest.raises(ValueError, match="offset=0 leaves no feature"):
        clone(model).set_params(offset=0).fit(Z[:, :1], y)
    column = clone(model).set_params(offset=COLUMN).fit(Z, y)
    with pytest.raises(ValueError, match="give no other beside X"):
        column.predict(Z, offset=offset)
    with pytest.raises(ValueError, match="give no other beside X"):
        column.fit(Z, y, offset=offset)
    model.fit(X, y, offset=offset)
    for predict in (model.predict, model.predict_interval, lambda X: predictive(model, X).std()):
        with pytest.raises(ValueError, match="offset is missing"):
            predict(X)
    with pytest.raises(ValueError, match="offset must have one number per row"):
        model.predict(X, offset=offset[1:])


@pytest.mark.parametrize("Estimator", [BayesianLogisticRegression, BayesianProbitRegression])
def test_more_classes_have_no_one_predictor(Estimator):
    X, offset, _ = rows(Estimator)
    with pytest.raises(ValueError, match="offset is added to one linear predictor"):
        Estimator("laplace").fit(X, np.arange(len(X)) % 3, offset=offset)


def test_predictions_of_many_classes_take_no_offset():
    X, offset, _ = rows(BayesianLogisticRegression)
    y = np.arange(200) % 3
    model = BayesianLogisticRegression("laplace", random_state=0).fit(X, y)
    refused = "offset is added to one linear predictor"
    with pytest.raises(ValueError, match=refused):
        model.predict_proba(X, offset=offset)
    with pytest.raises(ValueError, match=refused):
        predictive(model, X, offset=offset).mean()
    within = np.column_stack([X, np.zeros(200)])
    model = BayesianLogisticRegression("laplace", offset=2, random_state=0).fit(within, y)
    model.predict_proba(within)
    with pytest.raises(ValueError, match=refused):
        model.predict_proba(np.column_stack([X, offset]))
