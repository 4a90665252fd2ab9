"""A family that the package does not have, added as a stranger would: doc/extending.rst shows it.

Its predictions are compared with closed forms (a gamma mixture of Poisson counts is negative
binomial) and with draws, its coefficients with scikit-learn's.
"""

import copy
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import check_target, predictive, to_arviz
from skstein.inference import ENGINES
from skstein.metrics import crps_scorer
from skstein.plotting import (
    PosteriorIntervalDisplay,
    PredictiveIntervalDisplay,
    UncertaintyDisplay,
)
from skstein.targets import RegressionTarget

FILE = Path(__file__).parents[1] / "doc" / "poisson.py"
namespace = runpy.run_path(str(FILE))
Poisson, BayesianPoissonRegression = namespace["Poisson"], namespace["BayesianPoissonRegression"]


def counts(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, rng.poisson(np.exp(0.8 + X @ [0.5, -0.3, 0.0]))


@pytest.fixture(scope="module")
def fitted():
    X, y = counts()
    return BayesianPoissonRegression(random_state=0).fit(X, y), X, y


def test_it_is_short():
    assert len(FILE.read_text(encoding="utf-8").splitlines()) <= 60


def test_density_score_and_curvature_agree():
    X, y = counts(n=40)
    check_target(RegressionTarget(Poisson(), X, y), random_state=0)


def test_the_crps_is_a_sum_over_counts(fitted):
    reg, X, y = fitted
    theta, counts = reg.posterior_.particles, np.arange(200)
    for row, found in enumerate(predictive(reg, X[:5]).crps(y[:5])):
        rates = np.exp(theta[:, 0] + theta[:, 1:] @ X[row])
        below = stats.poisson.cdf(counts[:, None], rates) @ reg.posterior_.weights
        assert_allclose(found, np.sum((below - (counts >= y[row])) ** 2))
    assert -crps_scorer(reg, X[:50], y[:50]) < y.std()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_finds_the_coefficients(engine):
    X, y = counts()
    reg = BayesianPoissonRegression(engine, prior="normal", standardize=False, random_state=0)
    with np.errstate(all="ignore"):
        reg.fit(X, y)
    theirs = PoissonRegressor(alpha=1.0 / len(y), tol=1e-8).fit(X, y)
    error = (reg.coef_ - theirs.coef_) / reg.coef_std_
    assert np.abs(error).max() < 0.35  # of modes and means, of finitely many particles
    assert reg.coef_.shape == (3,) and isinstance(reg.intercept_, float)


def test_a_posterior_of_two_particles_mixes_two_poissons(fitted):
    """Every prediction against the two distributions themselves."""
    reg, X, y = fitted
    reg, X, y = copy.copy(reg), X[:20], y[:20]
    theta = reg.posterior_.particles[:2]
    reg.posterior_ = type(reg.posterior_)(theta, np.array([0.3, 0.7]), names=reg.posterior_.names)
    rates = np.exp(theta[:, 0] + X @ theta[:, 1:].T)
    parts, weights = stats.poisson(rates), np.array([0.3, 0.7])
    mean, std = reg.predict(X, return_std=True)
    assert_allclose(mean, rates @ weights)
    between = np.square(rates - mean[:, None]) @ weights
    assert_allclose(std, np.sqrt(between + mean))
    found = reg.predict_uncertainty(X)
    assert_allclose(found.epistemic, between)
    assert_allclose(found.aleatoric, mean)
    assert_allclose(reg.log_predictive(X, y), np.log(parts.pmf(y[:, None]) @ weights))
    table = np.cumsum(parts.pmf(np.arange(200)[:, None, None]) @ weights, axis=0)
    for q in (0.0, 0.05, 0.5, 0.9, 0.999):
        expected = np.argmax(table >= q, axis=0)
        assert_array_equal(reg.predict_quantiles(X, q)[:, 0], expected)
    assert_array_equal(reg.predict_quantiles(X, 1.0), np.inf)
    at = reg._outcome.cdf(np.log(rates)[None], weights, y)
    assert_allclose(at, parts.cdf(y[:, None]) @ weights)


def test_draws_have_the_moments_and_are_whole_numbers(fitted):
    reg, X, _ = fitted
    draws = reg.sample_predictive(X[:5], 20_000, random_state=0)
    assert np.issubdtype(draws.dtype, np.integer) and draws.min() >= 0
    mean, std = reg.predict(X[:5], return_std=True)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5.0 * std / np.sqrt(20_000))
    assert_allclose(draws.std(axis=1), std, rtol=0.05)
    low, high = reg.predict_interval(X[:5], 0.9).T
    inside = np.mean((draws >= low[:, None]) & (draws <= high[:, None]), axis=1)
    assert np.all(inside >= 0.89)  # of counts, an interval holds at least its level


def test_many_particles_of_a_gamma_posterior_are_negative_binomial():
    """An intercept alone, whose posterior is a gamma distribution of the rate."""
    rate = stats.gamma(7.0, scale=0.4).ppf((np.arange(4000) + 0.5) / 4000)
    heads, weights = np.log(rate)[None, None], np.full(4000, 1 / 4000)
    exact = stats.nbinom(7, 1.0 / 1.4)
    y = np.arange(8)
    heads_of_rows = np.repeat(heads, 8, axis=1)
    found = Poisson().log_predictive(heads_of_rows, weights, y)
    assert_allclose(np.exp(found), exact.pmf(y), rtol=1e-3)
    assert_allclose(Poisson().cdf(heads_of_rows, weights, y), exact.cdf(y), rtol=1e-3)
    q = np.array([0.05, 0.5, 0.95])
    assert_array_equal(Poisson().quantiles(heads, weights, q)[0], exact.ppf(q))


def test_pipelines_searches_and_clones(fitted):
    _, X, y = fitted
    pipe = make_pipeline(StandardScaler(), BayesianPoissonRegression("laplace", random_state=0))
    grid = {"bayesianpoissonregression__prior__scale": [0.3, 1.0]}
    search = GridSearchCV(clone(pipe), grid, cv=3).fit(X, y)
    prediction = predictive(search, X[:4])
    assert_allclose(prediction.mean(), search.predict(X[:4]))
    interval = prediction.interval(0.9)
    assert_array_equal(interval, np.round(interval))
    assert prediction.sample_predictive(3, random_state=0).shape == (4, 3)
    assert_allclose(prediction.std() ** 2, prediction.uncertainty().total)


def test_arviz_has_the_likelihood_of_counts(fitted):
    pytest.importorskip("arviz_base")
    reg, X, y = fitted
    data = to_arviz(reg, X, y, n_draws=len(reg.posterior_), random_state=0)
    log_likelihood = data["log_likelihood"]["y"].values[0]
    weights = reg.posterior_.weights
    assert np.ptp(weights) == 0.0
    found = np.log(np.exp(log_likelihood).mean(axis=0))
    assert_allclose(found, reg.log_predictive(X, y))
    drawn = data["posterior_predictive"]["y"].values
    assert np.issubdtype(drawn.dtype, np.integer)


def test_displays_are_those_of_a_numeric_outcome(fitted):
    pytest.importorskip("matplotlib").use("agg")
    reg, X, y = fitted
    along = PredictiveIntervalDisplay.from_estimator(reg, X, 0, y=y, values=5)
    assert_array_equal(along.interval, np.round(along.interval))
    assert along.ylabel == "y"
    assert UncertaintyDisplay.from_estimator(reg, X[:9]).unit == "squared units of y"
    coefficients = PosteriorIntervalDisplay.from_estimator(reg)
    assert coefficients.xlabel.startswith("coefficient (linear predictor per")


def test_counts_cannot_be_negative_or_transformed(fitted):
    reg, X, y = fitted
    with pytest.raises(ValueError, match="y must not be negative"):
        clone(reg).fit(X, y - 3)
    with pytest.raises(ValueError, match="y must not be negative"):
        reg.log_predictive(X, y - 3)
    with pytest.raises(TypeError, match="that can be any number"):
        predictive(reg, X)._transformed(StandardScaler())
