"""A family that the package does not have, added as a stranger would in doc/extending.rst."""

import copy
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit
from sklearn.base import clone

from skstein import BayesianLogisticRegression, check_target, predictive
from skstein.inference import ENGINES
from skstein.targets import RegressionTarget
from small import later

FILE = Path(__file__).parents[1] / "doc" / "geometric.py"
namespace = runpy.run_path(str(FILE))
Geometric = namespace["Geometric"]
BayesianGeometricRegression = namespace["BayesianGeometricRegression"]


@pytest.fixture(scope="module")
def attempts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, rng.geometric(expit(-0.8 + X @ [0.5, -0.3, 0.0]))


@pytest.fixture(scope="module")
def of_two(attempts):
    """A posterior of two particles, and the two distributions that it mixes, for 20 rows."""
    X, y = attempts
    reg = copy.copy(BayesianGeometricRegression("laplace", random_state=0).fit(X, y))
    theta, X = reg.posterior_.particles[:2], X[:20]
    reg.posterior_ = type(reg.posterior_)(theta, np.array([0.3, 0.7]), names=reg.posterior_.names)
    return reg, X, y[:20], stats.geom(expit(theta[:, 0] + X @ theta[:, 1:].T))


def test_it_is_short():
    assert len(FILE.read_text(encoding="utf-8").splitlines()) <= 60


def test_density_score_and_curvature_agree(attempts):
    X, y = attempts
    check_target(RegressionTarget(Geometric(), X[:40], y[:40]), random_state=0)


@pytest.mark.parametrize(
    "engine", ["pmd", *(later(engine) for engine in ENGINES if engine != "pmd")]
)
def test_every_engine_finds_the_coefficients(engine, attempts):
    """A logistic regression of y - 1 failures and one success a row has the same posterior."""
    X, y = attempts
    options = {"standardize": False, "random_state": 0}
    with np.errstate(all="ignore"):
        reg = BayesianGeometricRegression(engine, **options).fit(X, y)
    rows, success = np.tile(X, (2, 1)), np.repeat([1, 0], len(y))
    theirs = BayesianLogisticRegression("pmfvb", **options)
    theirs.fit(rows, success, sample_weight=np.concatenate([np.ones(len(y)), y - 1]))
    expected = theirs.posterior_
    error = (reg.posterior_.mean() - expected.mean()) / expected.std()
    assert np.abs(error).max() < 0.25


def test_predictions_are_those_of_the_mixture(of_two):
    reg, X, y, parts = of_two
    weights = np.array([0.3, 0.7])
    mean, std = reg.predict(X, return_std=True)
    assert_allclose(mean, parts.mean() @ weights)
    assert_allclose(
        std**2, parts.var() @ weights + np.square(parts.mean() - mean[:, None]) @ weights
    )
    assert_allclose(reg.log_predictive(X, y), np.log(parts.pmf(y[:, None]) @ weights))
    counts = np.arange(400)
    table = np.stack([parts.cdf(count) @ weights for count in counts])
    for q in (0.05, 0.5, 0.95):
        assert_array_equal(reg.predict_quantiles(X, q)[:, 0], np.argmax(table >= q, axis=0))
    crps = np.sum(np.square(table - (counts[:, None] >= y)), axis=0)
    assert_allclose(predictive(reg, X).crps(y), crps, rtol=1e-3)  # of cells in the far tail
    draws = reg.sample_predictive(X, 5, random_state=0)
    assert np.issubdtype(draws.dtype, np.integer) and draws.min() >= 1


def test_what_cannot_be_observed_is_refused(attempts):
    X, y = attempts
    with pytest.raises(ValueError, match="y must be at least 1"):
        clone(BayesianGeometricRegression()).fit(X, y - 1)
