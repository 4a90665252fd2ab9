"""What holds for every estimator with every engine, beyond scikit-learn's own checks."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import small
from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianOrdinalRegression,
)
from skstein.inference import ENGINES, Ensemble

# Whether a fit of this size converges is not the question here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

PROBLEMS = ["regression", "binary", "multiclass"]
ORDINAL = "ordinal"
NETWORK_ENGINES = small.NETWORK_ENGINES | {
    "ensemble": Ensemble(3, max_iter=30, batch_size=None, learning_rate=0.05)
}
CASES = [
    *small.crossed([*PROBLEMS, ORDINAL], ENGINES),
    *small.crossed([f"{problem} by networks" for problem in PROBLEMS], NETWORK_ENGINES),
]
every_case = pytest.mark.parametrize(("problem", "engine"), CASES)


def kind(problem):
    return problem.partition(" ")[0]


def chosen(problem, engine):
    """A short instance of the engine."""
    return clone((NETWORK_ENGINES if "networks" in problem else small.ENGINES)[engine])


def make(problem, engine, **params):
    if "networks" in problem:
        Estimator = BayesianMLPRegressor if "regression" in problem else BayesianMLPClassifier
        inference = chosen(problem, engine) if isinstance(engine, str) else engine
        params = {"max_iter": 30, "learning_rate_init": 0.05, **params}
        return small.network(Estimator, **params).set_params(inference=inference)
    if problem == "regression":
        return BayesianLinearRegression(engine, random_state=0, **params)
    Estimator = BayesianOrdinalRegression if problem == ORDINAL else BayesianLogisticRegression
    return Estimator(engine, random_state=0, **params)


def data(problem, n=40):
    if kind(problem) == "regression":
        return make_regression(n, 3, n_informative=2, noise=5.0, bias=3.0, random_state=0)
    return make_classification(
        n,
        3,
        n_informative=2,
        n_redundant=0,
        n_classes=2 if kind(problem) == "binary" else 3,
        n_clusters_per_class=1,
        class_sep=0.5,
        random_state=0,
    )


def posterior_arrays(estimator):
    posterior = estimator.posterior_
    return posterior.particles, posterior.weights


def assert_same_fit(a, b, X, rtol):
    for moment in ("mean", "std"):
        expected = getattr(b.posterior_, moment)()
        atol = rtol * np.abs(expected).max()
        assert_allclose(getattr(a.posterior_, moment)(), expected, rtol=rtol, atol=atol)
    if hasattr(a, "coef_"):
        assert_allclose(a.coef_, b.coef_, rtol=rtol, atol=rtol * np.abs(a.coef_).max())
        assert_allclose(a.coef_std_, b.coef_std_, rtol=rtol)
    method = "predict_proba" if hasattr(a, "predict_proba") else "predict"
    predicted = getattr(a, method)(X)
    assert_allclose(
        predicted, getattr(b, method)(X), rtol=rtol, atol=rtol * np.abs(predicted).max()
    )


@every_case
def test_integer_weights_equal_repetition(problem, engine, rng):
    X, y = data(problem)
    weights = rng.integers(0, 4, size=len(y))
    weights[:3] = [0, 1, 3]
    order = rng.permutation(weights.sum())
    rows = np.repeat(np.arange(len(y)), weights)[order]
    engine = chosen(problem, engine)
    weighted = make(problem, engine).fit(X, y, sample_weight=weights)
    assert_same_fit(weighted, make(problem, engine).fit(X[rows], y[rows]), X, rtol=1e-7)


@every_case
def test_weight_zero_equals_removal(problem, engine):
    X, y = data(problem)
    kept = np.arange(len(y)) % 4 != 0
    engine = chosen(problem, engine)
    removed = make(problem, engine).fit(X[kept], y[kept])
    # What is removed must not matter, however outlying.
    X_outlying = np.where(kept[:, None], X, 1e6)
    weighted = make(problem, engine).fit(X_outlying, y, sample_weight=kept.astype(float))
    assert_same_fit(weighted, removed, X, rtol=1e-7)


@pytest.mark.parametrize(
    ("problem", "engine"), small.crossed(["binary", "multiclass", "ordinal"], ENGINES)
)
def test_class_weights_equal_repetition(problem, engine, rng):
    X, y = data(problem)
    classes = np.unique(y)
    class_weight = dict(zip(classes.tolist(), [3, 1, 2], strict=False))
    rows = np.repeat(np.arange(len(y)), [class_weight[label] for label in y])
    engine = chosen(problem, engine)
    by_class = make(problem, engine, class_weight=class_weight).fit(X, y)
    assert_same_fit(by_class, make(problem, engine).fit(X[rows], y[rows]), X, rtol=1e-7)

    weights = rng.integers(1, 4, size=len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    balanced = make(problem, engine, class_weight="balanced").fit(X, y, sample_weight=weights)
    repeated = make(problem, engine, class_weight="balanced").fit(X[rows], y[rows])
    assert_same_fit(balanced, repeated, X, rtol=1e-7)


@every_case
def test_a_seed_fixes_every_bit_whatever_n_jobs(problem, engine):
    X, y = data(problem)
    one, two, other = (
        make(problem, chosen(problem, engine), n_jobs=n).set_params(random_state=s).fit(X, y)
        for n, s in ((None, 0), (2, 0), (None, 1))
    )
    for a, b in zip(posterior_arrays(one), posterior_arrays(two), strict=True):
        assert_array_equal(a, b)
    assert not np.array_equal(one.posterior_.particles, other.posterior_.particles)


@every_case
def test_clone_compares_equal(problem, engine):
    """By name, by instance, and with a prior set, before and after a fit."""
    X, y = data(problem)
    configurations = [
        make(problem, engine),
        make(problem, chosen(problem, engine)),
        make(problem, engine, prior="normal").set_params(
            inference__n_particles=20, prior__scale=3.0
        ),
    ]
    for estimator in configurations:
        before = repr(estimator)
        assert repr(clone(estimator)) == before
    estimator.fit(X, y)
    assert repr(estimator) == repr(clone(estimator)) == before
    assert_array_equal(
        clone(estimator).fit(X, y).posterior_.particles, estimator.posterior_.particles
    )


@every_case
def test_fit_runs_a_clone_and_leaves_the_engine_alone(problem, engine):
    X, y = data(problem)
    instance = chosen(problem, engine)
    before = dict(vars(instance))
    estimator = make(problem, instance).fit(X, y)
    assert estimator.inference_ is not instance
    assert type(estimator.inference_) is type(instance)
    assert str(estimator.inference_.get_params()) == str(instance.get_params())
    assert vars(instance) == before


@pytest.mark.parametrize("problem", ["regression", small.later("binary")])
def test_grid_over_engines_and_what_they_contain(problem):
    X, y = data(problem, n=30)
    grid = {"inference": list(ENGINES), "inference__n_particles": [10], "prior__scale": [0.5, 2.0]}
    estimator = make(problem, "laplace")
    pipeline = make_pipeline(StandardScaler(), estimator)
    prefix = pipeline.steps[-1][0]
    search = GridSearchCV(
        pipeline, {f"{prefix}__{key}": values for key, values in grid.items()}, cv=2
    ).set_params(error_score="raise")
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 2 * len(ENGINES)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_[-1]
    assert best.inference.n_particles == 10
    assert best.prior.scale == search.best_params_[f"{prefix}__prior__scale"]
    assert estimator.inference == "laplace" and estimator.prior == "normal"


def test_pickles_of_networks_and_others_predict_the_same_in_a_new_process(tmp_path):
    expected = []
    for problem, engine in (case.values for case in CASES):
        X, y = data(problem)
        estimator = make(problem, chosen(problem, engine)).fit(X, y)
        predict = "predict" if kind(problem) == "regression" else "predict_proba"
        expected.append((estimator, predict, X, getattr(estimator, predict)(X)))
    path = tmp_path / "fits.pickle"
    path.write_bytes(pickle.dumps(expected))
    code = f"""
import pickle
import numpy as np
for estimator, predict, X, expected in pickle.load(open({str(path)!r}, "rb")):
    np.testing.assert_allclose(getattr(estimator, predict)(X), expected, rtol=1e-12, atol=1e-15)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@every_case
def test_a_fit_keeps_no_training_data(problem, engine):
    """A pickle grows with the particles, not with the rows."""
    sizes = []
    for n in (40, 800):
        X, y = data(problem, n)
        estimator = make(problem, chosen(problem, engine)).fit(X, y)
        sizes.append(len(pickle.dumps(estimator)))
    assert sizes[1] - sizes[0] < X.nbytes / 2


@every_case
def test_verbose_prints_a_line_a_tenth(problem, engine, capsys):
    X, y = data(problem)
    estimator = make(problem, chosen(problem, engine), verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 10 + 2  # and one for each stage
    assert len(lines) > 0 or estimator.n_iter_ <= 1
    assert all("iteration" in line for line in lines)
