"""scikit-learn's callbacks and metadata routing, for every estimator with every engine."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.callback import CallbackSupportMixin, ProgressBar, ScoringMonitor
from sklearn.callback import FitCallback as FitCallbackProtocol
from sklearn.datasets import make_classification, make_regression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import small
from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianProbitRegression,
)

# Whether a fit this short converges is not the question here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LINEAR = [BayesianLinearRegression, BayesianLogisticRegression, BayesianProbitRegression]
NETWORKS = [BayesianMLPRegressor, BayesianMLPClassifier]
ESTIMATORS = LINEAR + NETWORKS
# The number of rounds that each makes, where the parameters alone fix it.
ROUNDS = {
    "svgd": 10,
    "pmd": 6,
    "pmfvb": None,
    "fwss": 20,
    "stein-points": 10,
    "mcmc": None,
    "ksd-mcmc": None,
    "laplace": 1,
}
# Those of networks follow the six of the training.
OF_NETWORKS = {"ensemble": 6, "mcmc": 14, "ksd-mcmc": 14, "pmfvb": 26, "svgd": 16, "fwss": 12}
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)
every_case = pytest.mark.parametrize(
    ("Estimator", "engine"),
    [*small.crossed(LINEAR, ROUNDS), *small.crossed(NETWORKS, OF_NETWORKS)],
)


def make(Estimator, engine=None, **params):
    if Estimator in LINEAR:
        return Estimator(clone(small.ENGINES[engine or "svgd"]), random_state=0, **params)
    params = {"max_iter": 6, "learning_rate_init": 0.05, **params}
    return small.network(Estimator, engine or "ensemble", **params)


def n_rounds(Estimator, engine):
    return (ROUNDS if Estimator in LINEAR else OF_NETWORKS)[engine]


def grid(Estimator, *n_iter):
    """A grid for a pipeline over how many rounds there are."""
    name = "inference__max_iter" if Estimator in LINEAR else "max_iter"
    return {f"{Estimator.__name__.lower()}__{name}": list(n_iter)}


def metric(Estimator):
    """The name of what the estimator's ``score`` gives."""
    return "accuracy" if is_classifier(Estimator()) else "r2"


def data(estimator, n=40):
    if is_classifier(estimator):
        return make_classification(n, 3, n_informative=3, n_redundant=0, random_state=0)
    return make_regression(n, 3, noise=5.0, bias=3.0, random_state=0)


class Recorder:
    """Keeps what the hooks are told, in order; asks for a stop after ``stop_after`` rounds."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.events = []

    def setup(self, estimator, context):
        self.events.append(("setup", context, None))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context, None))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.events.append(("begin", context, {"X": X, "y": y, "metadata": metadata}))

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        told = {"X": X, "y": y, "metadata": metadata, "fitted": fitted_estimator}
        self.events.append(("end", context, told))
        return context.task_name == "round" and context.task_id + 1 == self.stop_after

    def rounds(self, event="end"):
        """What was told of the rounds that were made."""
        found = [
            told for name, ctx, told in self.events if (name, ctx.task_name) == (event, "round")
        ]
        return [told for told in found if event == "begin" or told["fitted"] is not None]


def record(estimator, X, y, sample_weight=None, **options):
    recorder = Recorder(**options)
    estimator.set_callbacks(recorder).fit(X, y, sample_weight)
    return recorder


def scores(log, level):
    return [row for row in log.data if len(row["task_id_path"]) == level]


@every_case
def test_the_tasks_are_one_level_of_rounds(Estimator, engine):
    estimator = make(Estimator, engine)
    recorder = record(estimator, *data(estimator))
    (first, root, _), *inner, (last, _, _) = recorder.events
    assert (first, last) == ("setup", "teardown")
    assert [(name, ctx.task_name) for name, ctx, _ in (inner[0], inner[-1])] == [
        ("begin", "fit"),
        ("end", "fit"),
    ]
    # Rounds follow each other: 0 begins, 0 ends, 1 begins, ...
    names = [(name, ctx.task_id) for name, ctx, _ in inner[1:-1]]
    assert names == [(name, i) for i in range(len(names) // 2) for name in ("begin", "end")]
    assert all(ctx.parent is root and ctx.max_subtasks == 0 for _, ctx, _ in inner[1:-1])
    expected = n_rounds(Estimator, engine)
    assert len(names) <= 2 * root.max_subtasks
    assert len(recorder.rounds()) >= 1
    assert expected is None or len(names) == 2 * expected == 2 * len(recorder.rounds())
    assert recorder.rounds()[-1]["fitted"].n_iter_ == estimator.n_iter_


@every_case
def test_callbacks_do_not_change_the_fit(Estimator, engine):
    estimator = make(Estimator, engine)
    X, y = data(estimator)
    record(estimator, X, y)
    plain = make(Estimator, engine).fit(X, y)
    assert_array_equal(estimator.posterior_.particles, plain.posterior_.particles)
    assert_array_equal(estimator.posterior_.weights, plain.posterior_.weights)
    assert set(vars(estimator)) == set(vars(plain)) | {"_skl_callbacks"}


@every_case
def test_each_round_shows_a_usable_estimator(Estimator, engine):
    """Its summaries are those of its own posterior, and it has all that the fitted one has."""
    estimator = make(Estimator, engine)
    X, y = data(estimator)
    recorder = record(estimator, X, y)
    for told in recorder.rounds():
        fitted = told["fitted"]
        assert fitted is not estimator and type(fitted) is Estimator
        fitted_attributes = {name for name in vars(estimator) if name.endswith("_")}
        assert fitted_attributes <= vars(fitted).keys()
        if Estimator in LINEAR:
            assert_allclose(np.ravel(fitted.coef_), fitted.posterior_.mean()[1:4])
        assert np.isfinite(fitted.score(X, y)) and np.isfinite(fitted.log_predictive(X, y)).all()
        assert fitted.posterior_.names == estimator.posterior_.names


@every_case
def test_a_callback_stops_the_engine(Estimator, engine):
    estimator = make(Estimator, engine)
    X, y = data(estimator)
    recorder = record(estimator, X, y, stop_after=1)
    assert len(recorder.rounds("begin")) == len(recorder.rounds("end")) == 1
    assert estimator.n_iter_ == recorder.rounds()[0]["fitted"].n_iter_
    assert np.isfinite(estimator.posterior_.particles).all()
    assert np.isfinite(estimator.score(X, y))


@every_estimator
def test_a_later_stop_leaves_what_the_callback_saw(Estimator):
    estimator = make(Estimator)
    X, y = data(estimator)
    seen = record(estimator, X, y, stop_after=3).rounds()[-1]["fitted"]
    assert estimator.n_iter_ == seen.n_iter_ == 3
    assert_allclose(seen.posterior_.particles, estimator.posterior_.particles)
    assert_allclose(seen.predict(X), estimator.predict(X))


@every_estimator
@pytest.mark.parametrize(
    "container", [np.asarray, sparse.csr_array, pd.DataFrame, np.ndarray.tolist]
)
def test_hooks_see_the_data_as_given(Estimator, container, rng):
    """Column names and samples of weight zero included, so that a score needs no care."""
    estimator = make(Estimator)
    X, y = data(estimator)
    X, y = container(X), y.tolist()
    if isinstance(X, pd.DataFrame):
        X = X.add_prefix("x")
    weights = rng.integers(0, 3, len(y))
    weights[:2] = 0, 1
    monitor = ScoringMonitor(scoring=metric(Estimator))
    recorder = Recorder()
    estimator.set_callbacks(recorder, monitor).fit(X, y, sample_weight=weights)
    for name, _, told in recorder.events:
        if name in ("begin", "end"):
            assert told["X"] is X and told["y"] is y
            assert told["metadata"] == {"sample_weight": weights}
    *_, last = scores(monitor.get_logs(), level=2)
    assert last[metric(Estimator)] == estimator.score(X, y, weights)
    assert record(estimator, X, y).rounds()[0]["metadata"] is None


@every_case
def test_scores_of_each_round(Estimator, engine):
    estimator = make(Estimator, engine)
    X, y = data(estimator)
    monitor, recorder = ScoringMonitor(scoring=metric(Estimator)), Recorder()
    estimator.set_callbacks(monitor, recorder).fit(X, y)
    log = monitor.get_logs()
    expected = [told["fitted"].score(X, y) for told in recorder.rounds()]
    assert [row[metric(Estimator)] for row in scores(log, level=2)] == expected
    (row,) = scores(log, level=1)
    assert row[metric(Estimator)] == estimator.score(X, y)


@pytest.mark.parametrize(
    ("Estimator", "n_jobs"),
    [
        (LINEAR[0], 2),
        (NETWORKS[0], None),
        *(small.later(Estimator, n_jobs) for Estimator in ESTIMATORS for n_jobs in (None, 2)),
    ],
)
def test_scores_inside_a_pipeline_inside_a_search(Estimator, n_jobs):
    estimator = make(Estimator)
    X, y = data(estimator)
    monitor = ScoringMonitor(scoring=metric(Estimator))
    pipeline = make_pipeline(StandardScaler(), estimator.set_callbacks(monitor))
    rounds = grid(Estimator, 2, 4)
    search = GridSearchCV(pipeline, rounds, cv=2, n_jobs=n_jobs, error_score="raise").fit(X, y)
    best = search.best_params_.popitem()[1]
    (log,) = monitor.get_logs(select="all")
    rounds = [row for row in log.data if row["task_name"] == "round"]
    assert len(rounds) == 2 * (2 + 4) + best
    # The refit is the last: its final round has the score of the estimator that is kept.
    final = max(rounds, key=lambda row: row["task_id_path"])
    assert_allclose(final[metric(Estimator)], search.score(X, y), rtol=1e-12)


class Shared(Recorder):
    """A callback that meta-estimators hand on to what they contain."""

    max_propagation_depth = None


@every_estimator
def test_what_is_set_on_a_search_reaches_the_estimator(Estimator):
    estimator = make(Estimator)
    X, y = data(estimator)
    pipeline = make_pipeline(StandardScaler(), estimator)
    shared = Shared()
    search = GridSearchCV(pipeline, grid(Estimator, 2, 3), cv=2, error_score="raise")
    search.set_callbacks(shared)
    search.fit(X, y)
    assert [name for name, _, _ in shared.events].count("setup") == 1
    (best,) = search.best_params_.values()
    assert len(shared.rounds()) == 2 * (2 + 3) + best
    assert not hasattr(search.best_estimator_[-1], "_skl_callbacks")
    assert not hasattr(estimator, "_skl_callbacks")


@every_case
def test_a_progress_bar_finishes(Estimator, engine, capsys):
    pytest.importorskip("rich")
    estimator = make(Estimator, engine)
    estimator.set_callbacks(ProgressBar()).fit(*data(estimator))
    out = capsys.readouterr().out
    assert f"{Estimator.__name__} - fit" in out and "100%" in out


@every_estimator
def test_a_progress_bar_of_a_search(Estimator, capsys):
    pytest.importorskip("rich")
    estimator = make(Estimator)
    pipeline = make_pipeline(StandardScaler(), estimator)
    search = GridSearchCV(pipeline, grid(Estimator, 2, 3), cv=2, error_score="raise")
    search.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(*data(estimator))
    out = capsys.readouterr().out
    assert f"{Estimator.__name__} - fit" in out and "GridSearchCV - fit" in out


def without_times(printed):
    return re.sub(r", \d+\.\d s(, about \d+ s left)?$", "", printed, flags=re.M)


@every_estimator
def test_verbose_prints_the_same_beside_callbacks(Estimator, capsys):
    estimator = make(Estimator, verbose=1)
    X, y = data(estimator)
    estimator.fit(X, y)
    alone = without_times(capsys.readouterr().out)
    recorder = record(estimator, X, y)
    assert without_times(capsys.readouterr().out) == alone != ""
    assert len(recorder.rounds()) == estimator.n_iter_


@every_estimator
def test_teardown_follows_a_fit_that_fails(Estimator):
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise RuntimeError("no more")

    estimator = make(Estimator)
    failing = Failing()
    with pytest.raises(RuntimeError, match="no more"):
        estimator.set_callbacks(failing).fit(*data(estimator))
    assert failing.events[-1][0] == "teardown"
    X, y = data(estimator)
    assert len(record(estimator, X, y).rounds()) == estimator.n_iter_


@every_estimator
def test_callbacks_survive_clone_and_pickle(Estimator):
    estimator = make(Estimator)
    X, y = data(estimator)
    monitor = ScoringMonitor(scoring=metric(Estimator))
    estimator.set_callbacks(monitor).fit(X, y)
    clone(estimator).fit(X, y)
    assert len(monitor.get_logs(select="all")) == 2
    restored = pickle.loads(pickle.dumps(estimator))
    assert_array_equal(restored.predict(X), estimator.predict(X))
    restored.fit(X, y)
    assert len(monitor.get_logs(select="all")) == 2
    assert isinstance(estimator, CallbackSupportMixin) and isinstance(monitor, FitCallbackProtocol)
    estimator.set_callbacks().fit(X, y)
    assert len(monitor.get_logs(select="all")) == 2


@every_estimator
def test_a_callback_must_be_one(Estimator):
    with pytest.raises(TypeError, match="FitCallback"):
        make(Estimator).set_callbacks(print)


def weighted_problem(Estimator):
    """Weights of which leaving them out would be seen; folds that do not depend on them."""
    estimator = make(Estimator)
    X, y = data(estimator)
    weights = np.where(X[:, 0] > 0, 5.0, 0.5)
    order = (y > np.median(y)).astype(int)
    folds = list(StratifiedKFold(2).split(X, order))
    return X, y, weights, folds


def by_hand(Estimator, X, y, weights, folds):
    """Weighted scores over the folds, and the posterior mean of a fit to everything."""
    found = []
    for train, test in folds:
        fold = make(Estimator).fit(X[train], y[train], weights[train])
        found.append(fold.score(X[test], y[test], weights[test]))
    return found, make(Estimator).fit(X, y, weights).posterior_.mean()


@every_estimator
def test_weights_are_routed_through_a_search(Estimator):
    X, y, weights, folds = weighted_problem(Estimator)
    expected, mean = by_hand(Estimator, X, y, weights, folds)
    with config_context(enable_metadata_routing=True):
        estimator = make(Estimator).set_fit_request(sample_weight=True)
        estimator.set_score_request(sample_weight=True)
        search = GridSearchCV(estimator, {"random_state": [0]}, cv=folds, error_score="raise")
        search.fit(X, y, sample_weight=weights)
    found = [search.cv_results_[f"split{k}_test_score"][0] for k in range(2)]
    assert_allclose(found, expected)
    assert_allclose(search.best_estimator_.posterior_.mean(), mean)


@every_estimator
def test_weights_are_routed_through_a_pipeline(Estimator):
    X, y, weights, _ = weighted_problem(Estimator)
    mean = make(Estimator).fit(X, y, weights).posterior_.mean()
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler(with_mean=False, with_std=False).set_fit_request(sample_weight=True)
        for asked in (True, False):
            estimator = make(Estimator).set_fit_request(sample_weight=asked)
            pipeline = make_pipeline(scaler, estimator).fit(X, y, sample_weight=weights)
            assert np.allclose(pipeline[-1].posterior_.mean(), mean) == asked


@every_estimator
def test_weights_under_another_name_and_weights_nobody_asked_for(Estimator):
    X, y, weights, folds = weighted_problem(Estimator)
    with config_context(enable_metadata_routing=True):
        estimator = make(Estimator).set_fit_request(sample_weight="importance")
        search = GridSearchCV(estimator, {"random_state": [0]}, cv=folds, error_score="raise")
        search.fit(X, y, importance=weights)
        mean = make(Estimator).fit(X, y, weights).posterior_.mean()
        assert_allclose(search.best_estimator_.posterior_.mean(), mean)
        silent = GridSearchCV(make(Estimator), {"random_state": [0]}, cv=folds)
        with pytest.raises(ValueError, match="sample_weight"):
            silent.fit(X, y, sample_weight=weights)


@every_estimator
def test_weights_without_routing(Estimator):
    X, y, weights, folds = weighted_problem(Estimator)
    expected, mean = by_hand(Estimator, X, y, weights, folds)
    search = GridSearchCV(
        make(Estimator), {"random_state": [0]}, cv=folds, error_score="raise"
    ).fit(X, y, sample_weight=weights)
    found = [search.cv_results_[f"split{k}_test_score"][0] for k in range(2)]
    assert_allclose(found, expected)
    assert_allclose(search.best_estimator_.posterior_.mean(), mean)
    name = Estimator.__name__.lower()
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), make(Estimator))
    pipeline.fit(X, y, **{f"{name}__sample_weight": weights})
    assert_allclose(pipeline[-1].posterior_.mean(), mean)


@every_estimator
def test_scores_with_routed_weights(Estimator):
    X, y, weights, folds = weighted_problem(Estimator)
    with config_context(enable_metadata_routing=True):
        scorer = get_scorer(metric(Estimator)).set_score_request(sample_weight=True)
        monitor = ScoringMonitor(scoring=scorer)
        estimator = make(Estimator).set_fit_request(sample_weight=True).set_callbacks(monitor)
        search = GridSearchCV(
            estimator, {"random_state": [0]}, scoring=scorer, cv=folds, error_score="raise"
        ).fit(X, y, sample_weight=weights)
    final = max(monitor.get_logs().data, key=lambda row: row["task_id_path"])
    assert_allclose(final["score"], search.best_estimator_.score(X, y, weights))
