"""Counts and positive outcomes: Poisson, negative binomial and gamma regression.

Densities are compared with SciPy's, predictions with the mixtures themselves and with closed forms
(a gamma mixture of Poisson counts is negative binomial), coefficients with scikit-learn's.
"""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianGammaRegression,
    BayesianNegativeBinomialRegression,
    BayesianPoissonRegression,
    check_target,
    predictive,
    to_arviz,
)
from skstein._predictions.transformed_outcome import transformed
from skstein._statistics.crps import mixture_crps
from skstein.inference import ENGINES
from skstein.metrics import crps_scorer
from skstein.outcomes import Gamma, NegativeBinomial, Poisson
from skstein.outcomes.log_link import binet
from skstein.plotting import PosteriorIntervalDisplay, PredictiveIntervalDisplay, UncertaintyDisplay
from skstein.targets import RegressionTarget
from small import crossed

OUTCOMES = {
    "poisson": (Poisson(), BayesianPoissonRegression),
    "negative binomial": (NegativeBinomial(), BayesianNegativeBinomialRegression),
    "gamma": (Gamma(), BayesianGammaRegression),
}
every_outcome = pytest.mark.parametrize("family", OUTCOMES)


def counts(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, rng.poisson(np.exp(0.8 + X @ [0.5, -0.3, 0.0]))


@pytest.fixture(scope="module")
def fitted():
    X, y = counts()
    return BayesianPoissonRegression(random_state=0).fit(X, y), X, y


def observed(family, seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    mean = np.exp(0.8 + X @ [0.5, -0.3, 0.0])
    shares = rng.gamma(3.0, 1.0 / 3.0, n)
    y = {"poisson": rng.poisson(mean), "gamma": mean * shares}
    return X, y.get(family, rng.poisson(mean * shares))


def of_particles(outcome, n, m=5, seed=0):
    """Heads of some particles, their weights, and the distributions of SciPy."""
    rng = np.random.default_rng(seed)
    eta = [rng.normal(1.0, 1.0, (n, m)), *rng.normal(-1.0, 0.7, (len(outcome.extra), m))]
    weights = rng.dirichlet(np.ones(m))
    return eta, weights, outcome.distribution(eta)


@every_outcome
def test_density_score_and_curvature_agree(family):
    outcome, _ = OUTCOMES[family]
    X, y = observed(family, n=40)
    check_target(RegressionTarget(outcome, X, y, offset=X[:, 0]), random_state=0)


@every_outcome
def test_predictions_are_those_of_scipys_mixture(family):
    outcome, _ = OUTCOMES[family]
    _, y = observed(family, n=30)
    eta, weights, parts = of_particles(outcome, 30)
    density = parts.logpdf if family == "gamma" else parts.logpmf
    assert_allclose(outcome.log_density_by_particle(eta, y), density(y[:, None]), rtol=1e-9)
    assert_allclose(outcome.cdf(eta, weights, y), parts.cdf(y[:, None]) @ weights)
    assert_allclose(outcome.expected(eta), parts.mean())
    assert_allclose(np.broadcast_to(outcome.noise(eta), (30, 5)), parts.var())
    q = np.array([0.01, 0.5, 0.9])
    for level, found in zip(q, outcome.quantiles(eta, weights, q).T, strict=True):
        at = outcome.cdf(eta, weights, found)
        if family == "gamma":
            assert_allclose(at, level, rtol=1e-9)
        else:
            assert np.all(at >= level) and np.all(outcome.cdf(eta, weights, found - 1) < level)


@every_outcome
def test_quantiles_of_many_far_and_rare_particles(family):
    """Those that few particles suggest are far off where a rare one is far away."""
    outcome, _ = OUTCOMES[family]
    m = 400
    eta = [np.log(5.0) + np.r_[np.zeros(m - 1), 7.0] * np.ones((2, 1)), np.full(m, -1.0)]
    eta, weights, q = eta[: 1 + len(outcome.extra)], np.full(m, 1.0 / m), np.array([0.999])
    (found, _) = outcome.quantiles(eta, weights, q)[:, 0]
    assert found > 1000.0
    assert_allclose(outcome.cdf(eta, weights, np.array([found, found])), 0.999, atol=1e-4)


@pytest.mark.parametrize("log_alpha", [None, -40.0, -30.0, 1.0])
@pytest.mark.parametrize("log_mean", [21.0, 25.0, 34.0, 70.0])
def test_quantiles_where_floats_hold_few_counts(log_mean, log_alpha):
    """SciPy finds none of Poisson's beyond 1e11, and looks without end for the others."""
    outcome = Poisson() if log_alpha is None else NegativeBinomial()
    eta = [np.full((1, 1), log_mean), *([] if log_alpha is None else [np.full(1, log_alpha)])]
    q, one = np.array([1e-3, 0.3, 0.95]), np.ones(1)
    (found,) = outcome.quantiles(eta, one, q)
    (each,) = np.array([outcome.quantiles_by_particle(eta, level) for level in q]).T[0]
    assert_allclose(each, found, rtol=1e-10, atol=2.0 * outcome.noise(eta)[0, 0] ** 0.25)
    if log_mean < 40.0:
        at = [outcome.cdf(eta, one, y[None])[0] for y in found]
        assert_allclose(at, q, atol=2e-5)
        score = outcome.crps(eta, one, found[1:2])[0]
        assert 0.1 < score / outcome.noise(eta)[0, 0] ** 0.5 < 0.4


@every_outcome
def test_densities_stay_finite_and_exact_far_away(family):
    outcome, _ = OUTCOMES[family]
    y = np.array([1e-3, 1.0, 7.0, 1e6])
    for extra in np.linspace(-300.0, 300.0, 13):
        for predictor in (-1e60, -300.0, 0.0, 300.0, 1e60):
            eta = [np.full(4, predictor), np.full(4, extra)][: 1 + len(outcome.extra)]
            assert np.isfinite(outcome.log_density(eta, y)).all()
            assert np.isfinite(np.array(outcome.residual(eta, y))).all()
            assert np.isfinite(outcome.curvature(eta, y)).all()


def test_without_dispersion_a_negative_binomial_is_poisson():
    y, eta = np.arange(30.0), np.linspace(-2.0, 4.0, 30)
    little = [eta, np.full(30, -40.0)]
    for method in ("log_density", "residual", "curvature"):
        found = getattr(NegativeBinomial(), method)(little, y)
        expected = getattr(Poisson(), method)([eta], y)
        found = np.asarray(found)[0] if method == "residual" else np.squeeze(found)
        found = found[0, 0] if method == "curvature" else found
        assert_allclose(found, np.squeeze(expected), rtol=1e-12, atol=1e-12)


def test_binets_function_steps_as_the_gamma_function_does():
    """By ``Gamma(x + 1) = x Gamma(x)``, across the two forms in which it is computed."""
    x = np.array([1e-8, 0.3, 2.0, 14.9, 15.0, 15.9, 16.0, 300.0])
    share = x / (x + 1.0)
    steps = [binet(x, order) - share**order * binet(x + 1.0, order) for order in range(3)]
    assert_allclose(steps[0], (x + 0.5) * np.log1p(1.0 / x) - 1.0, atol=1e-12)
    assert_allclose(steps[1], x * np.log1p(1.0 / x) - (x + 0.5) / (x + 1.0), atol=1e-12)
    assert_allclose(steps[2], 0.5 / (x + 1.0) ** 2, atol=1e-11)
    assert_allclose(binet(np.array([1e9]), 0), 1.0 / 12e9)


def test_the_crps_is_a_sum_over_counts(fitted):
    reg, X, y = fitted
    theta, counts = reg.posterior_.particles, np.arange(200)
    for row, found in enumerate(predictive(reg, X[:5]).crps(y[:5])):
        rates = np.exp(theta[:, 0] + theta[:, 1:] @ X[row])
        below = stats.poisson.cdf(counts[:, None], rates) @ reg.posterior_.weights
        assert_allclose(found, np.sum((below - (counts >= y[row])) ** 2))
    assert -crps_scorer(reg, X[:50], y[:50]) < y.std()


@pytest.mark.parametrize(("mean", "dispersion"), [(100.0, 10.0), (1000.0, 20.0)])
def test_the_crps_of_wide_counts(mean, dispersion):
    n = 1.0 / dispersion
    parts, counts = stats.nbinom(n, n / (n + mean * np.ones((1, 1)))), np.arange(1_000_000)
    found = mixture_crps(
        lambda y: parts.cdf(y[:, None])[:, 0],
        lambda level, some: parts.ppf(level),
        np.ones(1),
        np.zeros(1),
        discrete=True,
    )
    assert_allclose(found[0], np.sum(parts.sf(counts[None, :])[0] ** 2), rtol=1e-3)


@pytest.fixture(scope="module")
def exact():
    """Fits of the most accurate engine to some rows."""
    return {
        family: Estimator("pmfvb", random_state=1).fit(*observed(family, n=100))
        for family, (_, Estimator) in OUTCOMES.items()
    }


@pytest.mark.parametrize(("family", "engine"), crossed(OUTCOMES, ENGINES))
def test_every_engine_finds_the_coefficients(family, engine, exact):
    reg = OUTCOMES[family][1](engine, random_state=0)
    with warnings.catch_warnings():
        # Of a coordinate that is skewed it warns.
        warnings.simplefilter("ignore" if engine == "laplace" else "error", ConvergenceWarning)
        reg.fit(*observed(family, n=100))
    error = (reg.coef_ - exact[family].coef_) / reg.coef_std_
    assert np.abs(error).max() < 0.25
    assert reg.coef_.shape == (3,) and isinstance(reg.intercept_, float)


def test_coefficients_are_near_the_penalised_modes():
    for family, Theirs in (("poisson", PoissonRegressor), ("gamma", GammaRegressor)):
        X, y = observed(family)
        reg = OUTCOMES[family][1]("pmfvb", standardize=False, random_state=0).fit(X, y)
        dispersion = getattr(reg, "dispersion_", 1.0)
        theirs = Theirs(alpha=dispersion / len(y), tol=1e-8).fit(X, y)
        assert np.abs((reg.coef_ - theirs.coef_) / reg.coef_std_).max() < 0.2
        scores = reg.score(X, y), theirs.score(X, y)
        assert_allclose(*scores, atol=2e-3)
        power = 1 + (family == "gamma")
        weights = np.arange(len(y)) % 3
        expected = d2_tweedie_score(y, reg.predict(X), sample_weight=weights, power=power)
        assert_allclose(reg.score(X, y, weights), expected)


@pytest.mark.parametrize("log_alpha", [-8.0, -0.5, 2.0])
def test_negative_binomial_densities_of_any_count(log_alpha):
    """By their definition; of very large counts, by their derivatives: terms of 1e13 cancel."""
    outcome, r = NegativeBinomial(), np.exp(-log_alpha)
    y = np.array([0.0, 0.1, 0.9, 1.0, 30.0, 1e3])
    expected = gammaln(r + y) - gammaln(r) - gammaln(y + 1) - r * np.log1p(3.0 / r)
    expected += y * np.log(3.0 / (r + 3.0))
    eta = np.log([3.0]), np.array([log_alpha])
    assert_allclose(outcome.log_density(eta, y), expected, rtol=1e-9)
    large, y, h = [np.log([1e12]), np.array([log_alpha])], np.array([3e11, 9e11, 2e12]), 1e-4
    for k in range(2):
        ends = [[part + sign * h * (j == k) for j, part in enumerate(large)] for sign in (1, -1)]
        high, low = (outcome.log_density(end, y) for end in ends)
        assert_allclose((high - low) / (2 * h), outcome.residual(large, y)[k], rtol=1e-5)
        high, low = (outcome.residual(end, y) for end in ends)
        slopes = (np.array(low) - high) / (2 * h)
        assert_allclose(slopes, outcome.curvature(large, y)[k], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("family", "mean"), crossed(OUTCOMES, [1e12, 1e-2, 1.0, 1e4]))
def test_the_size_of_the_outcome_does_not_matter(family, mean, rng):
    """Neither to the search for the mode nor to the prior of the intercept."""
    X = rng.normal(size=(2000, 2))
    rate = mean * np.exp(X @ [0.3, -0.2]) * rng.gamma(4.0, 0.25, 2000)
    y = rate if family == "gamma" else rng.poisson(rate)
    reg = OUTCOMES[family][1]("laplace", random_state=0)
    with warnings.catch_warnings():
        kept = family == "negative binomial" and mean >= 1.0  # its terms do not grow with y
        warnings.simplefilter("error" if kept else "ignore", ConvergenceWarning)
        reg.fit(X, y)
    truth = np.array([np.log(mean), 0.3, -0.2])
    if family != "poisson":
        error = (reg.posterior_.mean()[:3] - truth) / reg.posterior_.std()[:3]
        assert np.abs(error).max() < 4.5
    # The mean of an exponential is above that at the mode by half its variance: in the mean over
    # rows that of three coefficients, each of one over the number of counts.
    above = 1.5 / np.count_nonzero(y)
    assert_allclose(reg.predict(X).mean(), (1.0 + above) * y.mean(), rtol=0.1)


@every_outcome
def test_far_rows_are_refused_in_one_sentence(family):
    X, y = observed(family)
    reg = OUTCOMES[family][1]("laplace", random_state=0).fit(X[:, :1], y)
    far = [[0.0], [1e6]]
    for method in (reg.predict, reg.predict_interval, reg.predict_uncertainty):
        with pytest.raises(FloatingPointError, match="overflows for row 1 of X"):
            method(far)
    with pytest.raises(FloatingPointError, match="overflows for row 1 of X"):
        reg.sample_predictive(far)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mean_that_rests_on_a_few_draws_is_reported(rng):
    """Five rows leave the exponential of the predictor without a mean; quantiles are finite."""
    X = rng.normal(size=(5, 2))
    model = BayesianGammaRegression(random_state=0).fit(X, rng.gamma(1.0, size=5))
    far = 6.0 * np.sign(X)
    with pytest.warns(UserWarning, match="the mean of some rows rests on a few draws"):
        model.predict(far)
    with pytest.warns(UserWarning, match="the standard deviation of some rows rests on a few"):
        model.predict(far, return_std=True)
    assert np.isfinite(model.predict_interval(far)).all()


def test_probabilities_of_counts(fitted):
    reg, X, y = fitted
    found = reg.predict_pmf(X[:5], range(60))
    assert_allclose(found.sum(axis=1), 1.0)
    assert_allclose(np.log(found[np.arange(5), y[:5]]), reg.log_predictive(X[:5], y[:5]))
    assert reg.predict_quantiles(X[:5], []).shape == (5, 0)
    for wrong in ([-1], [0.5], [[1, 2]], [], [np.inf]):
        with pytest.raises(ValueError, match="counts must be whole numbers"):
            reg.predict_pmf(X, wrong)


def test_averages_of_counts_are_taken_as_scikit_learn_takes_them(fitted):
    """A mean of two counts of weight 2 has the score of the two, whatever its own density."""
    reg, X, y = fitted
    rows, weights = np.repeat(X, 2, axis=0), np.full(len(y), 2.0)
    pairs = np.stack([y, y + 1], axis=1)
    one = clone(reg).set_params(inference="laplace").fit(X, pairs.mean(axis=1), weights)
    both = clone(one).fit(rows, pairs.ravel())
    assert_allclose(one.coef_, both.coef_, atol=0.02 * both.coef_std_.min())
    assert_allclose(
        predictive(reg, X[:4]).crps(y[:4] + 0.25),
        0.75 * predictive(reg, X[:4]).crps(y[:4]) + 0.25 * predictive(reg, X[:4]).crps(y[:4] + 1),
    )


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
    assert coefficients.xlabel.startswith("coefficient (log mean per")


def test_counts_cannot_be_negative_or_transformed(fitted):
    reg, X, y = fitted
    with pytest.raises(ValueError, match="y must not be negative"):
        clone(reg).fit(X, y - 3)
    with pytest.raises(ValueError, match="y must not be negative"):
        reg.log_predictive(X, y - 3)
    with pytest.raises(TypeError, match="that can be any number"):
        transformed(predictive(reg, X), StandardScaler())


@pytest.mark.parametrize("family", ["negative binomial", "gamma"])
def test_a_feature_cannot_have_the_name_of_a_parameter(family):
    X, y = observed(family)
    named = pd.DataFrame(X, columns=["log_alpha", "log_dispersion", "log_sigma2"])
    with pytest.raises(ValueError, match=r"2 coordinates are called 'log_(alpha|dispersion)'"):
        OUTCOMES[family][1](random_state=0).fit(named, y)
