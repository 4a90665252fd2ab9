"""Scorers inside cross-validation and searches, against the predictive distribution by hand."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianPoissonRegression,
    SparseGPRegressor,
    predictive,
)
from skstein.inference import LaplaceDraws
from skstein.metrics import (
    CoverageScorer,
    CRPSScorer,
    IntervalScoreScorer,
    LogPredictiveScorer,
    PinballScorer,
    PredictiveScorer,
    coverage_scorer,
    crps,
    crps_scorer,
    interval_coverage,
    interval_score,
    interval_score_scorer,
    log_predictive_scorer,
)

# The fits here only have to give particles: whether those are a good posterior is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ENGINE = LaplaceDraws(n_particles=30)

# Each scorer, and what it is of a prediction in units of y.
SCORERS = {
    "log": (log_predictive_scorer, lambda p, y: p.log_predictive(y).mean()),
    "crps": (crps_scorer, lambda p, y: -p.crps(y).mean()),
    "interval": (interval_score_scorer, lambda p, y: -interval_score(y, p.interval(0.9), 0.9)),
    "half": (IntervalScoreScorer(0.5), lambda p, y: -interval_score(y, p.interval(0.5), 0.5)),
    "coverage": (coverage_scorer, lambda p, y: interval_coverage(y, p.interval(0.9))),
    "seventy": (CoverageScorer(0.7), lambda p, y: interval_coverage(y, p.interval(0.7))),
    "pinball": (
        PinballScorer(quantile=0.2),
        lambda p, y: -mean_pinball_loss(y, p.quantiles(0.2)[:, 0], alpha=0.2),
    ),
}
every_scorer = pytest.mark.parametrize("name", SCORERS)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return 1e3 * X[::8], y[::8]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]


def regressor(**options):
    return BayesianLinearRegression(ENGINE, random_state=0, **options)


def by_logarithm(estimator):
    pipeline = make_pipeline(StandardScaler(), estimator)
    return TransformedTargetRegressor(pipeline, func=np.log, inverse_func=np.exp)


def test_a_search_over_a_pipeline_with_a_transformed_outcome_takes_every_scorer(diabetes):
    X, y = diabetes
    model, grid = by_logarithm(regressor()), [0.01, 1.0]
    name = "regressor__bayesianlinearregression__prior__scale"
    scoring = {key: scorer for key, (scorer, _) in SCORERS.items()}
    folds = KFold(3)
    search = GridSearchCV(model, {name: grid}, scoring=scoring, refit="crps", cv=folds)
    search.fit(X, y)
    for j, scale in enumerate(grid):
        for k, (train, test) in enumerate(folds.split(X)):
            fitted = clone(model).set_params(**{name: scale}).fit(X[train], y[train])
            prediction = predictive(fitted, X[test])
            for key, (_, score) in SCORERS.items():
                found = search.cv_results_[f"split{k}_test_{key}"][j]
                assert_allclose(found, score(prediction, y[test]), rtol=1e-10)
    # Through the search as well.
    for key, (scorer, score) in SCORERS.items():
        assert scorer(search, X, y) == pytest.approx(score(predictive(search, X), y)), key


@every_scorer
def test_a_single_scorer_chooses(name, diabetes):
    X, y = diabetes
    scorer, _ = SCORERS[name]
    search = GridSearchCV(regressor(), {"prior__scale": [1e-3, 1.0]}, scoring=scorer, cv=2)
    search.fit(X, y)
    assert np.isfinite(search.best_score_)
    if isinstance(scorer, CoverageScorer):
        return
    assert search.best_params_["prior__scale"] == 1.0  # the other knows next to nothing


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_proper_scores_prefer_the_true_spread(sign, diabetes, rng):
    """Greater is better: a noise that is off by a factor loses by each of them."""
    X = rng.normal(size=(2000, 1))
    y = X[:, 0] + rng.normal(size=2000)
    true = regressor().fit(X, y)
    wrong = regressor().fit(X, y)
    wrong.posterior_.particles[:, -1] += sign * np.log(4.0)
    for key in ("log", "crps", "interval", "half", "pinball"):
        scorer, _ = SCORERS[key]
        assert scorer(true, X, y) > scorer(wrong, X, y), key


def test_classes_have_the_log_loss_and_the_brier_score_of_scikit_learn(iris):
    X, y = iris
    model = make_pipeline(StandardScaler(), BayesianLogisticRegression(ENGINE, random_state=0))
    scoring = {"ours": log_predictive_scorer, "log": "neg_log_loss", "brier": "neg_brier_score"}
    search = GridSearchCV(model, {}, scoring=scoring, refit="ours", cv=3).fit(X, y)
    results = search.cv_results_
    assert_allclose(results["mean_test_ours"], results["mean_test_log"], rtol=1e-9)
    proba = search.predict_proba(X)
    assert log_predictive_scorer(search, X, y) == pytest.approx(-log_loss(y, proba))
    assert -2.0 < -brier_score_loss(y, proba) < 0.0
    assert np.isfinite(results["mean_test_brier"]).all()
    # Rows without one of the classes are scored too.
    assert np.isfinite(log_predictive_scorer(search, X[:10], y[:10]))


def test_several_outcomes(diabetes):
    X, y = diabetes
    Y = np.stack([y, -2.0 * y], axis=1)
    gp = SparseGPRegressor(n_inducing=5, random_state=0, max_iter=20).fit(X[:, :2], Y)
    prediction = predictive(gp, X[:7, :2])
    assert prediction.crps(Y[:7]).shape == (7, 2)
    for key in ("log", "crps", "interval", "coverage"):
        scorer, score = SCORERS[key]
        found = scorer(gp, X[:7, :2], Y[:7])
        assert found == pytest.approx(score(prediction, Y[:7]))
    draws = prediction.sample_predictive(4000, random_state=0)
    spread = prediction.std().max()
    assert -crps_scorer(gp, X[:7, :2], Y[:7]) == pytest.approx(
        crps(Y[:7], draws), abs=0.05 * spread
    )


# Weights and metadata.


@every_scorer
def test_a_weight_counts_as_repetition(name, diabetes):
    X, y = diabetes
    weights = np.arange(len(y)) % 3
    scorer, _ = SCORERS[name]
    fitted = regressor().fit(X, y)
    found = scorer(fitted, X, y, sample_weight=weights)
    again = scorer(fitted, np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert found == pytest.approx(again)
    assert found != pytest.approx(scorer(fitted, X, y))
    with pytest.raises(ValueError, match="sample"):
        scorer(fitted, X, y, sample_weight=weights[:-1])


@pytest.mark.parametrize("scoring", [crps_scorer, {"a": crps_scorer, "b": log_predictive_scorer}])
def test_a_search_hands_on_its_weights(scoring, diabetes):
    X, y = diabetes
    weights = 1.0 + np.arange(len(y)) % 3
    folds, refit = KFold(2), "a" if isinstance(scoring, dict) else True
    search = GridSearchCV(regressor(), {}, scoring=scoring, refit=refit, cv=folds)
    search.fit(X, y, sample_weight=weights)
    expected = []
    for train, test in folds.split(X):
        fitted = regressor().fit(X[train], y[train], sample_weight=weights[train])
        expected.append(crps_scorer(fitted, X[test], y[test], sample_weight=weights[test]))
    assert search.best_score_ == pytest.approx(np.mean(expected))


@every_scorer
def test_metadata_are_routed_on_request(name, diabetes):
    X, y = diabetes
    weights = 1.0 + np.arange(len(y)) % 3
    scorer, folds = clone(SCORERS[name][0]), KFold(2)
    with config_context(enable_metadata_routing=True):
        model = regressor().set_fit_request(sample_weight=False)
        options = {"cv": folds, "params": {"sample_weight": weights}}
        with pytest.raises(UnsetMetadataPassedError):
            cross_val_score(model, X, y, scoring=scorer, **options)
        scorer.set_score_request(sample_weight=True)
        found = cross_val_score(model, X, y, scoring=scorer, **options)
        both = cross_validate(model, X, y, scoring={"one": clone(scorer)}, **options)
    expected = []
    for train, test in folds.split(X):
        fitted = regressor().fit(X[train], y[train])
        expected.append(scorer(fitted, X[test], y[test], sample_weight=weights[test]))
    assert_allclose(found, expected)
    assert_allclose(both["test_one"], expected)


@pytest.mark.parametrize("scorer", [log_predictive_scorer, IntervalScoreScorer(0.5)], ids=str)
def test_an_offset_is_routed_on_request(scorer, rng):
    X, offset = rng.normal(size=(60, 1)), rng.uniform(0.0, 2.0, 60)
    y = rng.poisson(np.exp(0.3 * X[:, 0] + offset))
    scorer = clone(scorer)
    with config_context(enable_metadata_routing=True):
        model = BayesianPoissonRegression("laplace", random_state=0).set_fit_request(offset=True)
        options = {"cv": KFold(2), "params": {"offset": offset}}
        with pytest.raises(UnsetMetadataPassedError):
            cross_val_score(model, X, y, scoring=scorer, **options)
        scorer.set_score_request(offset=True)
        found = cross_val_score(model, X, y, scoring=scorer, **options)
    column = BayesianPoissonRegression("laplace", random_state=0, offset=1)
    beside = np.column_stack([X, offset])
    assert_allclose(found, cross_val_score(column, beside, y, scoring=scorer, cv=KFold(2)))


# scikit-learn objects.


@every_scorer
def test_a_scorer_is_cloned_pickled_and_printed(name, diabetes):
    scorer, _ = SCORERS[name]
    for other in (clone(scorer), pickle.loads(pickle.dumps(scorer))):
        assert type(other) is type(scorer)
        assert other.get_params() == scorer.get_params()
        assert repr(other) == repr(scorer)
    search = clone(GridSearchCV(regressor(), {}, scoring=scorer))
    assert repr(search.scoring) == repr(scorer)


def test_a_scorer_shows_what_was_set():
    assert repr(crps_scorer) == "CRPSScorer()"
    assert repr(IntervalScoreScorer(level=0.5)) == "IntervalScoreScorer(level=0.5)"
    assert repr(PinballScorer().set_params(quantile=0.1)) == "PinballScorer(quantile=0.1)"


# Errors.


@every_scorer
def test_an_estimator_without_a_posterior_is_named(name, diabetes):
    X, y = diabetes
    scorer, _ = SCORERS[name]
    plain = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
    with pytest.raises(TypeError, match="found LinearRegression"):
        scorer(plain, X, y)
    with pytest.raises(TypeError, match="found LogisticRegression"):
        scorer(LogisticRegression().fit(X, y > 150), X, y > 150)
    with pytest.raises(NotFittedError):
        scorer(regressor(), X, y)


@pytest.mark.parametrize(
    "scorer", [CRPSScorer(), IntervalScoreScorer(), CoverageScorer(), PinballScorer()], ids=repr
)
def test_scores_of_numbers_refuse_classes(scorer, iris):
    X, y = iris
    fitted = BayesianLogisticRegression(ENGINE, random_state=0).fit(X, y)
    with pytest.raises(
        TypeError, match=f"{type(scorer).__name__} scores outcomes.*neg_brier_score"
    ):
        scorer(fitted, X, y)


def test_classes_have_no_crps(iris):
    X, y = iris
    fitted = BayesianLogisticRegression(ENGINE, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="BayesianLogisticRegression predicts classes"):
        predictive(fitted, X).crps(y)


def test_outcomes_that_do_not_fit_are_refused(diabetes):
    X, y = diabetes
    fitted = by_logarithm(regressor()).fit(X, y)
    for scorer, _ in SCORERS.values():
        with pytest.raises(ValueError):
            scorer(fitted, X, y[:-1])
    with pytest.raises(ValueError, match="level must be"):
        IntervalScoreScorer(level=1.5)(fitted, X, y)
    with pytest.raises(ValueError, match="quantile must be between 0 and 1"):
        PinballScorer(quantile=1.0)(fitted, X, y)


def test_a_base_class_has_no_score(diabetes):
    X, y = diabetes
    with pytest.raises(NotImplementedError, match=r"PredictiveScorer does not define score\(\)"):
        PredictiveScorer()(regressor().fit(X, y), X, y)


def test_the_log_score_is_the_density_of_the_mixture(diabetes):
    X, y = diabetes
    fitted = regressor().fit(X, y)
    theta, weights = fitted.posterior_.particles, fitted.posterior_.weights
    means = theta[:, 0] + X @ theta[:, 1:-1].T
    density = stats.norm.pdf(y[:, None], means, np.exp(0.5 * theta[:, -1])) @ weights
    assert LogPredictiveScorer()(fitted, X, y) == pytest.approx(np.log(density).mean())


def test_one_column_of_outcomes_is_scored(diabetes):
    X, y = diabetes
    reg = regressor().fit(X, y)
    for scorer in (coverage_scorer, interval_score_scorer, crps_scorer):
        assert scorer(reg, X, y[:, None]) == scorer(reg, X, y)
