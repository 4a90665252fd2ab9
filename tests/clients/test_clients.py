"""Packages that take any estimator of scikit-learn, with estimators of this one.

`make test-clients` installs them; a test whose package is missing is skipped.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.model_selection import cross_val_score

from skstein import BayesianLinearRegression, BayesianLogisticRegression, predictive
from skstein.inference import LaplaceDraws
from skstein.metrics import log_predictive_scorer

# What the packages deprecate among themselves is not the question here.
pytestmark = pytest.mark.filterwarnings("default")
ENGINE = LaplaceDraws(n_particles=100)


@pytest.fixture
def regression():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X[:, :4], y


def test_mapie_wraps_a_regressor(regression):
    """Conformal intervals hold about as many outcomes as they promise."""
    mapie = pytest.importorskip("mapie.regression")
    X, y = regression
    model = mapie.SplitConformalRegressor(
        BayesianLinearRegression(ENGINE, random_state=0), confidence_level=0.9, prefit=False
    )
    model.fit(X[:150], y[:150]).conformalize(X[150:300], y[150:300])
    _, intervals = model.predict_interval(X[300:])
    low, high = intervals[:, 0, 0], intervals[:, 1, 0]
    assert abs(np.mean((low < y[300:]) & (y[300:] < high)) - 0.9) < 0.1


def test_mapie_wraps_a_classifier():
    mapie = pytest.importorskip("mapie.classification")
    X, y = load_breast_cancer(return_X_y=True)
    model = mapie.SplitConformalClassifier(
        BayesianLogisticRegression(ENGINE, random_state=0), confidence_level=0.9, prefit=False
    )
    model.fit(X[:200, :5], y[:200]).conformalize(X[200:400, :5], y[200:400])
    _, sets = model.predict_set(X[400:, :5])
    assert sets[np.arange(len(sets)), y[400:], 0].mean() > 0.8


def test_shap_explains_a_linear_model_by_its_coefficients(regression):
    shap = pytest.importorskip("shap")
    X, y = regression
    reg = BayesianLinearRegression(ENGINE, random_state=0).fit(X, y)
    values = shap.explainers.Exact(reg.predict, X[:50])(X[50:60]).values
    assert_allclose(values, reg.coef_ * (X[50:60] - X[:50].mean(axis=0)), rtol=1e-6, atol=1e-6)


def test_optuna_tunes_a_nested_parameter(regression):
    optuna = pytest.importorskip("optuna")
    X, y = regression
    model = BayesianLinearRegression(ENGINE, prior="normal", random_state=0)

    def objective(trial):
        model.set_params(prior__scale=trial.suggest_float("scale", 1e-3, 1.0, log=True))
        return cross_val_score(model, X, y, cv=3, scoring=log_predictive_scorer).mean()

    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.GridSampler({"scale": [1e-3, 1.0]})
    )
    study.optimize(objective)
    assert study.best_params == {"scale": 1.0}


def test_imbalanced_learn_draws_rows_in_fit_alone():
    pipeline = pytest.importorskip("imblearn.pipeline")
    sampling = pytest.importorskip("imblearn.under_sampling")
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    model = pipeline.make_pipeline(
        sampling.RandomUnderSampler(random_state=0),
        BayesianLogisticRegression(ENGINE, random_state=0),
    ).fit(X, y)
    prediction = predictive(model, X)
    assert_allclose(prediction.mean(), model.predict_proba(X))
    assert prediction.interval(0.9).shape == (len(X), 2, 2)


def test_imputed_values_scatter_as_much_as_those_that_are_missing(rng):
    X = rng.normal(size=(600, 2))
    X[:, 1] += 2.0 * X[:, 0]
    missing = rng.random(600) < 0.5
    holed = X.copy()
    holed[missing, 1] = np.nan
    imputer = IterativeImputer(
        BayesianLinearRegression(ENGINE, random_state=0),
        sample_posterior=True,
        max_iter=2,
        random_state=0,
    )
    errors = imputer.fit_transform(holed)[missing, 1] - 2.0 * X[missing, 0]
    assert abs(errors.mean()) < 0.3
    assert abs(errors.std() - 1.0) < 0.2


def test_skpro_takes_mean_and_standard_deviation(regression):
    adapters = pytest.importorskip("skpro.regression.adapters.sklearn")
    pd = pytest.importorskip("pandas")
    X, y = regression
    table = pd.DataFrame(X, columns=list("abcd"))
    reg = BayesianLinearRegression(ENGINE, random_state=0)
    model = adapters.SklearnProbaReg(reg).fit(table[:300], pd.DataFrame(y[:300], columns=["y"]))
    distribution = model.predict_proba(table[300:])
    mean, std = reg.fit(table[:300], y[:300]).predict(table[300:], return_std=True)
    assert_allclose(np.ravel(distribution.mean()), mean)
    assert_allclose(np.ravel(distribution.var()) ** 0.5, std)


def test_dask_ml_predicts_block_by_block():
    wrappers = pytest.importorskip("dask_ml.wrappers")
    da = pytest.importorskip("dask.array")
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    clf = BayesianLogisticRegression(ENGINE, random_state=0).fit(X, y)
    lazy = wrappers.ParallelPostFit(clf).predict_proba(da.from_array(X, chunks=(100, 5)))
    assert_allclose(lazy.compute(), clf.predict_proba(X))


def test_dask_ml_learns_from_a_stream_of_blocks():
    wrappers = pytest.importorskip("dask_ml.wrappers")
    da = pytest.importorskip("dask.array")
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    model = wrappers.Incremental(BayesianLogisticRegression("pmd", random_state=0))
    blocks = da.from_array(X, chunks=(200, 5)), da.from_array(y, chunks=200)
    model.fit(*blocks, classes=[0, 1])
    assert model.estimator_.posterior_.diagnostics["n_seen"] == len(y)
    assert model.estimator_.score(X, y) > 0.9
