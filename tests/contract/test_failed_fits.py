"""Fitted state is set at once or not at all: a fit that fails leaves the estimator as it was.

The truth is the estimator before: the same attributes, the same bits in its predictions, and for a
stream the particles of one that never met the rows that failed.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianProbitRegression,
    LatentDirichletAllocation,
    SparseGPRegressor,
    StochasticVolatility,
)
from skstein.inference import PMD, PMFVB, Engine, KSDThinnedMCMC, LaplaceDraws

# What is fitted here need not be a good posterior.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:these networks differ less"),
]

SMALL = LaplaceDraws(n_particles=20)
NETWORK = {"inference": "ensemble", "n_networks": 2, "max_iter": 20}
MODELS = {
    "linear": BayesianLinearRegression(SMALL, random_state=0),
    "logistic": BayesianLogisticRegression(SMALL, random_state=0),
    "probit": BayesianProbitRegression(SMALL, random_state=0),
    "network regressor": BayesianMLPRegressor((3,), **NETWORK, random_state=0),
    "network classifier": BayesianMLPClassifier((3,), **NETWORK, random_state=0),
    "process": SparseGPRegressor(n_inducing=5, n_particles=2, random_state=0),
    "topics": LatentDirichletAllocation(2, n_sweeps=4, n_snapshots=2, random_state=0),
    "volatility": StochasticVolatility(PMFVB(10, max_iter=5), random_state=0),
}
CLASSIFIERS = ("logistic", "probit", "network classifier")
STREAMS = {
    "linear": clone(MODELS["linear"]).set_params(inference=PMD(n_particles=200)),
    "logistic": clone(MODELS["logistic"]).set_params(inference=PMD(n_particles=200)),
    "topics": MODELS["topics"],
}


class Broken(Engine):
    """Does some work, and then fails."""

    _parameter_constraints = {"error": "no_validation"}

    def __init__(self, error=FloatingPointError):
        self.error = error

    requires = ("score",)
    whiten = one_sided = False

    def run(self, target, rng, *, init=None, map=map, callback=None):
        target.score(np.zeros((1, target.dim)))
        raise self.error("half-way")


def data(name, rng, n_classes=2, n=60):
    """Arguments of `fit`."""
    X = rng.normal(size=(n, 3))
    if name == "volatility":
        return (X[:, 0],)
    if name == "topics":
        return (rng.poisson(2.0, size=(n, 6)).astype(float),)
    return X, rng.permutation(n) % n_classes if name in CLASSIFIERS else X[:, 0] + X[:, 1] ** 2


def predictions(name, model, X):
    """Everything that a user might read of a fitted model."""
    if name == "volatility":
        return model.predict(3), model.log_predictive(X[:5])
    if name == "topics":
        return model.transform(X), model.components_, model.get_feature_names_out()
    if name in CLASSIFIERS:
        return model.predict_proba(X), model.predict(X), model.predict_quantiles(X, 0.3)
    return *model.predict(X, return_std=True), model.predict_quantiles(X, 0.3)


class State:
    """What a model is before a call that fails."""

    def __init__(self, name, model, X):
        self.name, self.model, self.X = name, model, X
        self.attributes = dict(vars(model))
        self.predictions = predictions(name, model, X)

    def assert_unchanged(self):
        now = vars(self.model)
        assert now.keys() == self.attributes.keys()
        assert [name for name in now if now[name] is not self.attributes[name]] == []
        found = predictions(self.name, self.model, self.X)
        for value, expected in zip(found, self.predictions, strict=True):
            np.testing.assert_array_equal(value, expected)


def break_next_fit(name, model, error, monkeypatch):
    """Let the model fail after it has begun to set attributes."""

    def broken(*args, **kwargs):
        raise error("half-way")

    if name == "process":
        monkeypatch.setattr("skstein.gaussian_process.sparse_regressor.mirror_step", broken)
    elif name == "topics":
        monkeypatch.setattr("skstein.decomposition.topics.mirror_step", broken)
    else:
        model.set_params(inference=Broken(error))


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


@pytest.mark.parametrize("error", [FloatingPointError, KeyboardInterrupt])
def test_a_refit_that_fails_changes_nothing(name, error, rng, monkeypatch):
    """Of another number of features and classes, so that what does not fit together would show."""
    first, second = data(name, rng), data(name, rng, n_classes=3)
    if name not in ("volatility", "topics"):
        second = second[0][:, :2], second[1]
    model = clone(MODELS[name]).fit(*first)
    break_next_fit(name, model, error, monkeypatch)
    before = State(name, model, first[0])
    with pytest.raises((error, ValueError), match=r"half-way|no finite, positive definite"):
        model.fit(*second)
    before.assert_unchanged()


@pytest.mark.parametrize("error", [FloatingPointError, KeyboardInterrupt])
def test_a_first_fit_that_fails_leaves_it_unfitted(name, error, rng, monkeypatch):
    model = clone(MODELS[name])
    break_next_fit(name, model, error, monkeypatch)
    parameters = set(model.get_params(deep=False))
    arguments = data(name, rng)
    with pytest.raises((error, ValueError), match=r"half-way|no finite, positive definite"):
        model.fit(*arguments)
    assert vars(model).keys() == parameters
    if name != "process":  # which predicts its prior
        with pytest.raises(NotFittedError):
            predictions(name, model, arguments[0])


def test_missing_values_change_nothing(name, rng):
    first = data(name, rng)
    model = clone(MODELS[name]).fit(*first)
    before = State(name, model, first[0])
    X, *y = data(name, rng, n=40)
    X.flat[5] = np.nan
    with pytest.raises(ValueError, match=r"NaN|missing"):
        model.fit(X, *y)
    before.assert_unchanged()


def test_other_columns_that_fail_leave_the_names(name, rng):
    """Names are set before anything else is known of the rows."""
    pandas = pytest.importorskip("pandas")
    if name == "volatility":
        pytest.skip("a series has no columns")
    X, *y = data(name, rng)
    model = clone(MODELS[name]).fit(pandas.DataFrame(X).add_prefix("a"), *y)
    names = model.feature_names_in_
    with pytest.raises(ValueError, match=r"NaN|missing"):
        model.fit(pandas.DataFrame(np.full_like(X, np.nan)).add_prefix("b"), *y)
    assert model.feature_names_in_ is names


def chunk(name, rng, n=300):
    arguments = data(name, rng, n=n)
    return (*arguments, [0, 1]) if name == "logistic" else arguments


@pytest.mark.parametrize("error", [FloatingPointError, KeyboardInterrupt])
@pytest.mark.parametrize("name", STREAMS)
def test_rows_of_a_stream_that_fail_do_not_count(name, error, rng, monkeypatch):
    """The call is repeated with the result of a stream in which it did not fail."""
    chunks = [chunk(name, rng) for _ in range(3)]
    model, expected = clone(STREAMS[name]), clone(STREAMS[name])
    for rows in chunks:
        expected.partial_fit(*rows)
    for rows in chunks[:2]:
        model.partial_fit(*rows)
    before = State(name, model, chunks[0][0])

    def fails_late(real):
        def broken(*args, **kwargs):
            real(*args, **kwargs)
            raise error("half-way")

        return broken

    if name == "topics":
        place, method = LatentDirichletAllocation, "_finish"
    else:
        place, method = PMD, "update"
    with monkeypatch.context() as patch, pytest.raises(error, match="half-way"):
        patch.setattr(place, method, fails_late(getattr(place, method)))
        model.partial_fit(*chunks[2])
    before.assert_unchanged()
    model.partial_fit(*chunks[2])
    found, truth = model.posterior_, expected.posterior_
    np.testing.assert_array_equal(found.particles, truth.particles)
    np.testing.assert_array_equal(found.weights, truth.weights)
    if name == "topics":
        assert model.n_batch_iter_ == expected.n_batch_iter_
        assert model.random_state_.random() == expected.random_state_.random()
    else:
        assert found.diagnostics["n_seen"] == 900


@pytest.mark.parametrize("name", ["network regressor", "network classifier"])
def test_rows_of_a_networks_stream_that_fail_do_not_count(name, rng, monkeypatch):
    chunks = [chunk(name, rng, 100) for _ in range(3)]
    if name == "network classifier":
        chunks = [(*rows, [0, 1]) for rows in chunks]
    model, expected = clone(MODELS[name]), clone(MODELS[name])
    for rows in chunks:
        expected.partial_fit(*rows)
    for rows in chunks[:2]:
        model.partial_fit(*rows)
    before = State(name, model, chunks[0][0])

    def broken(*args, **kwargs):
        raise FloatingPointError("half-way")

    with monkeypatch.context() as patch, pytest.raises(FloatingPointError, match="half-way"):
        patch.setattr("skstein.neural_network.base.ParticlePosterior", broken)
        model.partial_fit(*chunks[2])
    before.assert_unchanged()
    model.partial_fit(*chunks[2])
    np.testing.assert_array_equal(model.posterior_.particles, expected.posterior_.particles)


def test_a_warm_start_that_fails_can_be_tried_again(rng):
    """Chains go on from where they were, not from where the attempt that failed had got to."""
    engine = KSDThinnedMCMC(10, n_warmup=20, n_draws=20, max_draws=20)
    model = BayesianLinearRegression(engine, warm_start=True, random_state=0)
    arguments = data("linear", rng)
    expected = clone(model).fit(*arguments).fit(*arguments)
    model.fit(*arguments)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(KSDThinnedMCMC, "_diagnosed", interrupt)
        model.fit(*arguments)
    model.fit(*arguments)
    np.testing.assert_array_equal(model.posterior_.particles, expected.posterior_.particles)


def interrupt(*args):
    raise KeyboardInterrupt
