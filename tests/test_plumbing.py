"""Beside scikit-learn's other tools: what they make of an estimator is what it does by itself."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import BaggingRegressor, StackingClassifier, VotingClassifier, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, SelectFromModel, SequentialFeatureSelector
from sklearn.inspection import DecisionBoundaryDisplay, partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_validate,
    learning_curve,
)
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import small
from skstein import BayesianLinearRegression, BayesianLogisticRegression, posterior_of, predictive

ENGINES = ["mcmc", "svgd"]  # the default, and one without chance but for its start

# Whether a fit of this size converges is not the question here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FEATURES = {"classifier": ["alcohol", "flavanoids", "hue"], "regressor": ["bmi", "bp", "s5"]}


@pytest.fixture(params=["classifier", "regressor"])
def problem(request):
    return request.param


@pytest.fixture(params=ENGINES)
def engine(request):
    return clone(small.ENGINES[request.param])


@pytest.fixture
def data(problem):
    """Three features as a data frame with names, and an outcome: words for classes, or numbers."""
    load = load_wine if problem == "classifier" else load_diabetes
    X, y = load(return_X_y=True, as_frame=True)
    X, y = X[FEATURES[problem]].iloc[::3].reset_index(drop=True), y.iloc[::3].to_numpy()
    return X, np.array(["north", "south", "west"])[y] if problem == "classifier" else y


@pytest.fixture
def model(problem, engine):
    if problem == "classifier":
        return BayesianLogisticRegression(engine, random_state=0)
    return BayesianLinearRegression(engine, random_state=0)


@pytest.fixture
def clf(engine):
    return BayesianLogisticRegression(engine, random_state=0)


@pytest.fixture
def reg(engine):
    return BayesianLinearRegression(engine, random_state=0)


classifier_only = pytest.mark.parametrize("problem", ["classifier"], indirect=True)
regressor_only = pytest.mark.parametrize("problem", ["regressor"], indirect=True)


def predicted(estimator, X):
    return getattr(estimator, "predict_proba", estimator.predict)(X)


def assert_predicts_alike(a, b, X, **tolerance):
    assert_allclose(predicted(a, X), predicted(b, X), **(tolerance or {"rtol": 1e-7}))


# Metadata routing.


@pytest.mark.parametrize("routing", [False, True])
def test_sample_weights_reach_the_fit_through_a_search_of_pipelines(routing, model, data):
    X, y = data
    weights = np.where(np.arange(len(y)) % 3, 1.0, 3.0)
    expected = clone(model).fit(StandardScaler().fit_transform(X), y, weights)
    name = type(model).__name__.lower()
    grid = {f"{name}__prior__scale": [1.0]}
    with config_context(enable_metadata_routing=routing):
        if routing:
            scaler = StandardScaler().set_fit_request(sample_weight=False)
            model = model.set_fit_request(sample_weight=True)
            model = model.set_score_request(sample_weight=True)
            given = {"sample_weight": weights}
        else:
            scaler, given = StandardScaler(), {f"{name}__sample_weight": weights}
        search = GridSearchCV(make_pipeline(scaler, model), grid, cv=2, error_score="raise")
        search.fit(X, y, **given)
    assert_allclose(search.best_estimator_[-1].coef_, expected.coef_)


def test_routed_weights_reach_who_asks_for_them(model, data, problem):
    X, y = data
    weights = np.where(np.arange(len(y)) % 3, 1.0, 3.0)
    Voting = VotingClassifier if problem == "classifier" else VotingRegressor
    with config_context(enable_metadata_routing=True):
        members = [
            (str(asks), clone(model).set_fit_request(sample_weight=asks)) for asks in (True, False)
        ]
        voting = Voting(members).fit(X, y, sample_weight=weights)
    codes = np.unique(y, return_inverse=True)[1] if problem == "classifier" else y
    for member, given in zip(voting.estimators_, (weights, None), strict=True):
        assert_allclose(member.coef_, clone(model).fit(X, codes, given).coef_)


def test_cross_validation_scores_routed_weights(model, data):
    X, y = data
    weights = np.where(np.arange(len(y)) % 3, 1.0, 3.0)
    folds = list(KFold(2, shuffle=True, random_state=0).split(X))
    with config_context(enable_metadata_routing=True):
        asking = clone(model).set_fit_request(sample_weight=True)
        asking.set_score_request(sample_weight=True)
        found = cross_validate(asking, X, y, cv=folds, params={"sample_weight": weights})
    for score, (train, test) in zip(found["test_score"], folds, strict=True):
        fold = clone(model).fit(X.iloc[train], y[train], weights[train])
        assert_allclose(score, fold.score(X.iloc[test], y[test], weights[test]))


# Data frames.


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_what_arrays_are_and_keep_names(library, model, data):
    frames = pytest.importorskip(library)
    X, y = data
    frame = frames.DataFrame({name: X[name].to_numpy() for name in X})
    fitted = clone(model).fit(frame, frames.Series(y))
    assert_array_equal(fitted.feature_names_in_, X.columns)
    assert set(X.columns) <= {name.partition("[")[0] for name in fitted.posterior_.names}
    array = clone(model).fit(X.to_numpy(), y)
    assert_allclose(predicted(fitted, frame), predicted(array, X.to_numpy()), rtol=1e-7)
    assert_allclose(
        predictive(fitted, frame).interval(0.9), array.predict_interval(X.to_numpy(), 0.9)
    )
    reordered = frame[list(frame.columns)[::-1]]
    with pytest.raises(ValueError, match="must be in the same order"):
        fitted.predict(reordered)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        fitted.predict(X.to_numpy())


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output_passes_names_to_the_posterior(output, model, data):
    frames = pytest.importorskip(output)
    X, y = data
    kinds = {"kind": np.resize(["a", "b", "b"], len(X))}
    X = frames.DataFrame({name: X[name].to_numpy() for name in X} | kinds)
    columns = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), ["kind"]),
        remainder=StandardScaler(),
        verbose_feature_names_out=False,
    )
    pipeline = make_pipeline(columns, model).set_output(transform=output).fit(X, y)
    names = {name.partition("[")[0] for name in pipeline[-1].posterior_.names}
    assert {"kind_b", *list(X.columns)[:3]} <= names
    assert_array_equal(pipeline[-1].feature_names_in_, ["kind_b", *list(X.columns)[:3]])
    assert_allclose(
        predictive(pipeline, X).mean(), predicted(pipeline[-1], pipeline[:-1].transform(X))
    )


def test_a_topic_model_and_a_union_name_their_output():
    from skstein import LatentDirichletAllocation

    counts = np.random.default_rng(0).poisson(2.0, size=(20, 6))
    model = LatentDirichletAllocation(2, max_iter=2, random_state=0).set_output(transform="pandas")
    table = model.fit_transform(counts)
    assert list(table.columns) == ["latentdirichletallocation0", "latentdirichletallocation1"]
    union = FeatureUnion([("topics", clone(model)), ("all", FunctionTransformer())])
    assert union.fit_transform(counts).shape == (20, 8)


# Out-of-fold predictions and curves.


@classifier_only
def test_out_of_fold_probabilities(model, data):
    X, y = data
    folds = StratifiedKFold(2)
    found = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    for train, test in folds.split(X, y):
        fold = clone(model).fit(X.iloc[train], y[train])
        assert_allclose(found[test], fold.predict_proba(X.iloc[test]))
    logs = cross_val_predict(model, X, y, cv=folds, method="predict_log_proba")
    assert_allclose(np.exp(logs), found)
    assert log_loss(y, found) < 0.4


@regressor_only
def test_out_of_fold_predictions(model, data):
    X, y = data
    found = cross_val_predict(model, X, y, cv=3)
    for train, test in KFold(3).split(X):
        fold = clone(model).fit(X.iloc[train], y[train])
        assert_allclose(found[test], fold.predict(X.iloc[test]))


@pytest.mark.slow
@regressor_only
@pytest.mark.parametrize("engine", ["svgd"], indirect=True)
def test_learning_curve_in_parallel(model, data):
    X, y = data
    options = {"train_sizes": [0.7], "cv": 2, "shuffle": True, "random_state": 0}
    one = learning_curve(model, X, y, n_jobs=1, **options)
    two = learning_curve(model, X, y, n_jobs=2, **options)
    for a, b in zip(one, two, strict=True):
        assert_allclose(a, b)
    assert np.isfinite(one[2]).all()


@pytest.mark.parametrize("Search", [RandomizedSearchCV, HalvingGridSearchCV])
def test_other_searches(Search, model, data):
    X, y = data
    options = {"n_iter": 2} if Search is RandomizedSearchCV else {}
    search = Search(
        model, {"prior__scale": [0.01, 1.0]}, cv=2, random_state=0, error_score="raise", **options
    ).fit(X, y)
    assert search.best_params_ == {"prior__scale": 1.0}


# Meta-estimators of classifiers.


@classifier_only
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration(method, model, data):
    X, y = data
    calibrated = CalibratedClassifierCV(model, method=method, cv=2).fit(X, y)
    proba = calibrated.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert calibrated.score(X, y) > 0.85
    inner = calibrated.calibrated_classifiers_[0].estimator
    train = next(StratifiedKFold(2).split(X, y))[0]
    assert_allclose(inner.coef_, clone(model).fit(X.iloc[train], y[train]).coef_)


@classifier_only
def test_soft_votes_are_averages(model, data):
    X, y = data
    voting = VotingClassifier([("a", model), ("b", LogisticRegression())], voting="soft").fit(X, y)
    votes = [estimator.predict_proba(X) for estimator in voting.estimators_]
    assert_allclose(voting.predict_proba(X), np.mean(votes, axis=0))
    assert_allclose(votes[0], clone(model).fit(X, y).predict_proba(X))


@classifier_only
def test_stacking(model, data):
    X, y = data
    stack = StackingClassifier([("a", model)], final_estimator=clone(model), cv=2).fit(X, y)
    assert stack.score(X, y) > 0.85
    assert stack.final_estimator_.coef_.shape == (3, 3)


@classifier_only
def test_several_columns_of_classes(model, data):
    X, y = data
    two = np.column_stack([y, np.where(y == "west", "yes", "no")])
    multi = MultiOutputClassifier(model).fit(X, two)
    for k, proba in enumerate(multi.predict_proba(X)):
        assert_allclose(proba, clone(model).fit(X, two[:, k]).predict_proba(X))


@classifier_only
def test_decision_boundary(model, data):
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt

    X, y = data
    X = X.iloc[:, :2]
    display = DecisionBoundaryDisplay.from_estimator(
        model.fit(X, y),
        X,
        response_method="predict_proba",
        grid_resolution=5,
        class_of_interest="west",
    )
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    expected = model.predict_proba(type(X)(grid, columns=X.columns))[:, 2]
    assert_allclose(display.response.ravel(), expected)
    plt.close("all")


# Meta-estimators of regressors.


@regressor_only
def test_several_outcomes(model, data):
    X, y = data
    two = np.column_stack([y, -2 * y + 3])
    multi = MultiOutputRegressor(model).fit(X, two)
    for k, estimator in enumerate(multi.estimators_):
        assert_predicts_alike(estimator, clone(model).fit(X, two[:, k]), X)
    # The second of the chain is shown the first outcome, of which it is a half, with a minus.
    chain = RegressorChain(model, order=[1, 0]).fit(X, two)
    assert_allclose(chain.estimators_[1].coef_[-1], -0.5, rtol=0.05)


@regressor_only
def test_a_transformed_outcome(model, data):
    X, y = data
    transformed = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp).fit(X, y)
    inner = clone(model).fit(X, np.log(y))
    assert_allclose(transformed.predict(X), np.exp(inner.predict(X)))
    interval = predictive(transformed, X).interval(0.9)
    assert_allclose(interval, np.exp(inner.predict_interval(X, 0.9)))


@regressor_only
def test_bagging(model, data):
    X, y = data
    bagging = BaggingRegressor(model, 3, random_state=0).fit(X.to_numpy(), y)
    votes = [estimator.predict(X.to_numpy()) for estimator in bagging.estimators_]
    assert_allclose(bagging.predict(X.to_numpy()), np.mean(votes, axis=0))


# Selection and inspection of features.


def with_noise(X):
    """A feature of pure chance beside the others."""
    return X.assign(chance=np.random.default_rng(0).normal(size=len(X)))


def test_sequential_selection_leaves_chance_out(model, data, problem):
    X, y = data
    selector = SequentialFeatureSelector(
        model,
        n_features_to_select=3,
        cv=2,
        direction="backward",
        scoring="neg_log_loss" if problem == "classifier" else "r2",
    )
    chosen = selector.set_output(transform="pandas").fit_transform(with_noise(X), y)
    assert "chance" not in chosen


def test_coefficients_select_features(model, data):
    X, y = data
    X = with_noise(X)
    scaled = (X - X.mean()) / X.std()
    for selector in (SelectFromModel(model, max_features=3, threshold=-np.inf), RFE(model)):
        selector.fit(scaled, y)
        assert not selector.get_support()[-1]


def test_a_posterior_behind_a_selection_names_what_was_selected(model, data):
    X, y = data
    scaled = make_pipeline(StandardScaler(), RFE(model, n_features_to_select=2)).fit(X, y)
    kept = X.columns[scaled[-1].get_support()]
    names = posterior_of(scaled).names
    assert [name for name in X.columns if any(name in one for one in names)] == list(kept)


def test_permuting_chance_costs_nothing(model, data):
    X, y = data
    X = with_noise(X)
    found = permutation_importance(model.fit(X, y), X, y, n_repeats=5, random_state=0)
    assert (found.importances_mean[:3] > 3 * abs(found.importances_mean[3])).sum() >= 2
    assert abs(found.importances_mean[3]) < 0.05


def test_partial_dependence_is_an_average_over_rows(model, data, problem):
    X, y = data
    name = X.columns[1]
    values = [float(X[name].min()), float(X[name].max())]
    found = partial_dependence(
        model.fit(X, y), X, [name], custom_values={name: np.array(values)}, kind="both"
    )
    for k, value in enumerate(values):
        expected = predicted(model, X.assign(**{name: value}))
        each = found["individual"][..., k]
        assert_allclose(each.T if problem == "classifier" else each[0], expected)
        assert_allclose(found["average"][..., k], np.atleast_1d(expected.mean(axis=0)))


# Files.


def test_joblib_files(model, data, tmp_path):
    X, y = data
    path = tmp_path / "model.joblib"
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    joblib.dump(pipeline, path, compress=3)
    restored = joblib.load(path)
    assert_predicts_alike(restored, pipeline, X, rtol=1e-12)
    assert restored[-1].posterior_.ksd() == model.posterior_.ksd()


def test_skops_files_need_no_pickle(model, data, tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y = data
    path = tmp_path / "model.skops"
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    skops.dump(pipeline, path)
    unknown = skops.get_untrusted_types(file=path)
    assert all(name.startswith(("skstein.", "scipy.sparse.")) for name in unknown), unknown
    restored = skops.load(path, trusted=unknown)
    assert_predicts_alike(restored, pipeline, X, rtol=1e-12)
    assert_array_equal(restored[-1].posterior_.particles, model.posterior_.particles)
    assert restored[-1].posterior_.names == model.posterior_.names
    assert restored[-1].posterior_.ksd() == model.posterior_.ksd()
