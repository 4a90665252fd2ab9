"""Dask collections are refused in words where rows have to be in memory, and none is computed."""

import numpy as np
import pytest
from sklearn.base import clone

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianPoissonRegression,
    BayesianProbitRegression,
    LatentDirichletAllocation,
    SparseGPRegressor,
    StochasticVolatility,
)
from skstein.inference import PMD, PMFVB, LaplaceDraws

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NETWORK = {"inference": "ensemble", "n_networks": 2, "max_iter": 5, "random_state": 0}
SUPERVISED = {
    "linear": BayesianLinearRegression(LaplaceDraws(20), random_state=0),
    "logistic": BayesianLogisticRegression(LaplaceDraws(20), random_state=0),
    "probit": BayesianProbitRegression(LaplaceDraws(20), random_state=0),
    "poisson": BayesianPoissonRegression(LaplaceDraws(20), random_state=0),
    "network regressor": BayesianMLPRegressor((3,), **NETWORK),
    "network classifier": BayesianMLPClassifier((3,), **NETWORK),
    "process": SparseGPRegressor(n_inducing=5, n_particles=2, random_state=0),
}
UNSUPERVISED = {
    "topics": LatentDirichletAllocation(2, n_sweeps=2, n_snapshots=1, random_state=0),
    "volatility": StochasticVolatility(PMFVB(10, max_iter=5), random_state=0),
}
# Others are lazy.
PREDICTIONS = (
    "predict_uncertainty",
    "sample_mean",
    "sample_predictive",
    "sample_y",
    "transform",
    "perplexity",
)
IN_MEMORY = ("network regressor", "network classifier", "process")


class Collection:
    """What Dask's collections have in common, and a noise when one is computed."""

    def __init__(self, values):
        self.values, self.shape, self.ndim = values, values.shape, values.ndim

    def __len__(self):
        return len(self.values)

    def __dask_graph__(self):
        return {"rows": self.values}

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("the collection was computed")

    compute = __array__


class InMemory(np.ndarray):
    """What may hold a Dask collection and does not, as xarray's arrays."""

    def __dask_graph__(self):
        return None


def rows(name, rng):
    X = rng.normal(size=(40, 2))
    if name == "topics":
        return np.abs(X).round(), None
    if name == "volatility":
        return X[:, 0], None
    return X, X[:, 0] if name in ("linear", "network regressor", "process") else np.arange(40) % 2


@pytest.mark.parametrize("name", SUPERVISED)
@pytest.mark.parametrize("which", ["X", "y", "sample_weight"])
def test_no_fit_takes_one(name, which, rng):
    if which == "X" and name not in IN_MEMORY:
        pytest.skip("rows may be anywhere")
    model = clone(SUPERVISED[name])
    arguments = dict(zip(("X", "y"), rows(name, rng), strict=True))
    if name != "process":
        arguments["sample_weight"] = np.ones(40)
    elif which == "sample_weight":
        pytest.skip("no weights here")
    arguments[which] = Collection(arguments[which])
    with pytest.raises(TypeError, match=rf"{which} is a Dask collection.*{which}\.compute\(\)"):
        model.fit(**arguments)
    if name in ("logistic", "linear"):
        model.set_params(inference=PMD(n_particles=200))
    if hasattr(model, "partial_fit"):
        classes = {"classes": [0, 1]} if hasattr(model, "predict_proba") else {}
        refusal = rf"{which} is a Dask collection|X or y is in blocks"
        with pytest.raises(TypeError, match=refusal):
            model.partial_fit(**arguments, **classes)


@pytest.mark.parametrize("name", UNSUPERVISED)
def test_no_fit_without_an_outcome_takes_one(name, rng):
    X, _ = rows(name, rng)
    with pytest.raises(TypeError, match="X is a Dask collection"):
        clone(UNSUPERVISED[name]).fit(Collection(X))


@pytest.mark.parametrize("name", SUPERVISED | UNSUPERVISED)
def test_no_prediction_takes_one(name, rng):
    X, y = rows(name, rng)
    model = clone((SUPERVISED | UNSUPERVISED)[name]).fit(X, y)
    methods = [method for method in PREDICTIONS if hasattr(model, method)]
    if name == "volatility":  # whose other predictions are of the future
        methods = ["log_predictive", "score"]
    assert len(methods) >= 2
    for method in methods:
        with pytest.raises(TypeError, match=r"X is a Dask collection.*map_blocks"):
            getattr(model, method)(Collection(X))


def test_what_is_in_memory_is_taken(rng):
    X, y = rows("linear", rng)
    model, held = clone(SUPERVISED["linear"]), X.view(InMemory)
    expected = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(model.fit(held, y).predict(held), expected)
