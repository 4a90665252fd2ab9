"""Stochastic volatility: its target, the coordinates it is fitted in, and the estimator.

Truths: finite differences, SciPy's densities, dense linear algebra, importance sampling from the
prior for a short series, and long runs of HMC.
"""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError, SkipTestWarning
from sklearn.utils import estimator_checks

from skstein import StochasticVolatility, check_target
from skstein.diagnostics import mcse_mean, split_rhat
from skstein.inference import FWSS, MCMC, PMFVB, SVGD, KSDThinnedMCMC
from skstein.samplers import HMC
from skstein.targets import (
    FactorizedTarget,
    SmoothedTarget,
    StochasticVolatilityTarget,
    laplace_approximation,
)
from skstein.targets.volatility.smoothed_path import marginal_laplace


def simulate(T, rng, mu=1.0, phi=0.8, sigma=0.5):
    x = np.empty(T)
    x[0] = mu + sigma / np.sqrt(1 - phi**2) * rng.standard_normal()
    for t in range(1, T):
        x[t] = mu + phi * (x[t - 1] - mu) + sigma * rng.standard_normal()
    return np.exp(x / 2) * rng.standard_normal(T)


def parameters(rng, m):
    """Plausible draws of the three parameters."""
    return np.array([1.0, 1.1, -1.4]) + np.array([0.3, 0.4, 0.6]) * rng.standard_normal((m, 3))


@pytest.mark.parametrize("T", [2, 3, 30])
def test_derivatives_of_the_target(T, rng):
    target = StochasticVolatilityTarget(simulate(T, rng))
    theta = np.concatenate([parameters(rng, 4), 1 + rng.standard_normal((4, T))], axis=1)
    check_target(target, theta, rtol=1e-6)


@pytest.mark.parametrize("Coordinates", [SmoothedTarget, FactorizedTarget])
@pytest.mark.parametrize("T", [2, 3, 30])
def test_derivatives_in_smoothed_coordinates(Coordinates, T, rng):
    target = Coordinates(StochasticVolatilityTarget(simulate(T, rng)))
    check_target(target, rng.standard_normal((4, T + 3)), rtol=1e-5)


def test_the_log_density_is_that_of_the_model(rng):
    T, m = 6, 5
    y = simulate(T, rng)
    hyper = {"mu_variance": 4.0, "phi_a": 8.0, "phi_b": 2.0, "sigma2_shape": 3.0}
    target = StochasticVolatilityTarget(y, **hyper, sigma2_scale=0.2)
    theta = np.concatenate([parameters(rng, m), rng.standard_normal((m, T))], axis=1)
    mu, psi, log_sigma2, x = theta[:, 0], theta[:, 1], theta[:, 2], theta[:, 3:]
    phi, sigma = np.tanh(psi), np.exp(log_sigma2 / 2)
    expected = stats.norm(0, 2).logpdf(mu)
    # Jacobians: dphi / dpsi = 1 - phi^2, for (1 + phi) / 2 half of it; dsigma2 / dlog = sigma2.
    expected += stats.beta(8, 2).logpdf((1 + phi) / 2) + np.log((1 - phi**2) / 2)
    expected += stats.invgamma(3, scale=0.2).logpdf(sigma**2) + log_sigma2
    expected += stats.norm(mu, sigma / np.sqrt(1 - phi**2)).logpdf(x[:, 0])
    for t in range(1, T):
        expected += stats.norm(mu + phi * (x[:, t - 1] - mu), sigma).logpdf(x[:, t])
    expected += stats.norm(0, np.exp(x / 2)).logpdf(y).sum(axis=1)
    assert_allclose(target.log_density(theta), expected, rtol=1e-12)


def test_draws_of_the_prior_have_its_moments(rng):
    m = 40000
    target = StochasticVolatilityTarget(np.ones(4))
    theta = target.sample_prior(rng, m)
    tau = (1 + np.tanh(theta[:, 1])) / 2
    values = [theta[:, 0], tau, np.exp(-theta[:, 2])]
    laws = [stats.norm(0, np.sqrt(10)), stats.beta(20, 1.5), stats.gamma(2.5, scale=1 / 0.025)]
    for value, law in zip(values, laws, strict=True):
        assert stats.kstest(value, law.cdf).pvalue > 1e-4
    spread = np.exp(theta[:, 2] / 2) * np.cosh(theta[:, 1])
    for t in (3, 6):
        standard = (theta[:, t] - theta[:, 0]) / spread
        assert stats.kstest(standard, "norm").pvalue > 1e-4


def test_a_smoothed_path_is_a_draw_of_the_normal_posterior_given_pseudo_observations(rng):
    T = 7
    target = SmoothedTarget(StochasticVolatilityTarget(simulate(T, rng)))
    z = rng.standard_normal((3, T + 3))
    path = target.bijection
    theta = path.forward(z)
    for i in range(3):
        mu, phi = theta[i, 0], np.tanh(theta[i, 1])
        lags = np.abs(np.subtract.outer(np.arange(T), np.arange(T)))
        prior = np.linalg.inv(np.exp(theta[i, 2]) / (1 - phi**2) * phi**lags)
        level = path.mode[3:] + path.response @ (theta[i, :3] - path.mode[:3])
        weight = 0.5 * target.target.standard_squares(level)
        # The gradient of the log likelihood at `level` is weight - 1 / 2.
        natural = weight * level + weight - 0.5
        precision = prior + np.diag(weight)
        mean = np.linalg.solve(precision, prior @ np.full(T, mu) + natural)
        factor = np.linalg.cholesky(precision)
        assert_allclose(theta[i, 3:], mean + np.linalg.solve(factor.T, z[i, 3:]), rtol=1e-9)
        log_det = np.log(path.scale_tril.diagonal()).sum() - np.log(factor.diagonal()).sum()
        assert_allclose(path.log_det(z)[i], log_det, rtol=1e-10)


@pytest.mark.parametrize("Coordinates", [SmoothedTarget, FactorizedTarget])
def test_smoothed_coordinates_can_be_undone(Coordinates, rng):
    target = Coordinates(StochasticVolatilityTarget(simulate(20, rng)))
    z, score = rng.standard_normal((2, 5, 23))
    path = target.bijection
    assert_allclose(path.inverse(path.forward(z)), z, atol=1e-10)
    assert_allclose(path.push_score(z, path.pull_score(z, score)), score, atol=1e-10)


def test_parameters_that_overflow_have_next_to_no_density(rng):
    target = SmoothedTarget(StochasticVolatilityTarget(simulate(20, rng)))
    z = np.zeros((4, 23))
    z[:, 1:3] = np.array([[1e4, 0.0], [0.0, 1e4], [0.0, -1e4], [-1e4, 1e4]])
    with np.errstate(all="ignore"):
        assert not (target.log_density(z) > -1e4).any()


@pytest.mark.parametrize("psi", [-25.0, 25.0])
def test_where_phi_rounds_to_one_there_is_a_density(psi, rng):
    target = StochasticVolatilityTarget(simulate(20, rng))
    theta = np.concatenate([[1.0, psi, 0.0], rng.normal(size=20)])
    step = 1e-3 * np.eye(23)[1]
    slope = np.diff(target.log_density(theta + np.array([-step, step])))[0] / 2e-3
    assert_allclose(target.score(theta[None])[0, 1], slope, rtol=1e-6)


def test_the_laplace_approximation_of_the_parameters_agrees_with_importance_sampling(rng):
    """Of the path, from its normal approximation, which is close for a path that hardly moves."""
    y = simulate(40, rng, phi=0.5, sigma=0.05)
    target = StochasticVolatilityTarget(y, sigma2_shape=400.0, sigma2_scale=1.0)
    mode, scale_tril, _ = marginal_laplace(target)
    smoothed = SmoothedTarget(target)

    def log_marginal(u):
        z = np.concatenate([np.repeat(u[None], 4000, axis=0), noise], axis=1)
        excess = smoothed.log_density(z) + 0.5 * np.sum(noise**2, axis=1)
        return np.log(np.mean(np.exp(excess - excess[0]))) + excess[0]

    noise = rng.standard_normal((4000, 40))
    values = [log_marginal(u) for u in (np.zeros(3), *np.eye(3), *-np.eye(3))]
    # One standard deviation to either side of a normal's mode the density falls by exp(-1/2).
    falls = values[0] - np.array(values[1:])
    assert_allclose(0.5 * (falls[:3] + falls[3:]), 0.5, atol=0.15)
    assert scale_tril.shape == (3, 3) and len(mode) == 43


def test_the_joint_mode_is_far_from_the_mass(rng):
    """Why engines are whitened elsewhere: there the path has collapsed to a line."""
    target = StochasticVolatilityTarget(simulate(200, rng))
    joint = laplace_approximation(target)
    marginal, scale_tril, _ = marginal_laplace(target)
    below = (marginal[2] - joint.mode[2]) / np.linalg.norm(scale_tril[2])
    assert np.std(joint.mode[3:]) < 0.1 * np.std(marginal[3:]) or below > 4


def test_factors_are_those_of_the_paper(rng):
    target = FactorizedTarget(StochasticVolatilityTarget(simulate(20, rng)))
    mu, sigma2, rest = target.factors
    assert [target.names[j] for j in (*mu, *sigma2)] == ["mu", "log_sigma2"]
    assert sorted([*mu, *sigma2, *rest]) == list(range(target.dim))
    z = rng.standard_normal((1, target.dim))
    moved = z.copy()
    moved[:, [0, 2]] += 1.0
    changed = target.bijection.forward(moved) - target.bijection.forward(z)
    assert np.flatnonzero(changed[0]).tolist() == [0, 2]


quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# A series in eight leaves so much open that particles need more than the usual iterations.
PATIENT = PMFVB(max_iter=10_000)


@pytest.fixture(scope="module")
def returns(request):
    return simulate(60, np.random.default_rng(request.config.getoption("seed")))


@pytest.fixture(scope="module")
def fitted(returns):
    return StochasticVolatility(PATIENT, random_state=0).fit(returns)


@pytest.fixture(scope="module")
def short_series(request):
    """Ten returns, draws of the prior and their weights, in the model's own coordinates."""
    rng = np.random.default_rng(request.config.getoption("seed"))
    y = simulate(10, rng)
    target = StochasticVolatilityTarget(y)
    theta = target.sample_prior(rng, 500_000)
    log_weights = target.log_likelihood(theta)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    assert 1 / np.sum(weights**2) > 1500
    theta[:, 3:] = np.exp(0.5 * theta[:, 3:])
    return y, theta, weights


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["pmfvb", MCMC(max_draws=20_000)])  # most need a tenth
def test_a_short_series_against_importance_sampling_from_the_prior(inference, short_series):
    y, theta, weights = short_series
    mean = weights @ theta
    sd = np.sqrt(weights @ (theta - mean) ** 2)
    # One fit in fifty warns, as it should: chains have stayed in the tail.
    models = (StochasticVolatility(inference, random_state=state).fit(y) for state in range(3))
    model = next(model for model in models if model.posterior_.converged)
    assert_allclose(model.posterior_.mean()[:3], mean[:3], atol=0.1 * sd[:3].min())
    assert_allclose(model.posterior_.std()[:3], sd[:3], rtol=0.12)
    assert_allclose(model.volatility_, mean[3:], rtol=0.1)
    assert abs(model.mu_ - mean[0]) < 0.15 * sd[0]
    assert_allclose(model.phi_, weights @ np.tanh(theta[:, 1]), atol=0.02)


@pytest.mark.slow
def test_500_returns_against_a_long_run(rng, seed):
    y = simulate(500, rng)
    target = SmoothedTarget(StochasticVolatilityTarget(y))
    sampler = HMC()
    chains = sampler.warm_up(target, 300, target.sample_start(rng, 8), rng)
    _, z, *_ = sampler.draw(target, 1200, chains)
    draws = target.bijection.forward(z.reshape(-1, 503)).reshape(8, -1, 503)[:, :, :3]
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    assert split_rhat(draws).max() < 1.01
    assert np.all(mcse_mean(draws) < 0.03 * sd)
    posterior = StochasticVolatility(random_state=seed).fit(y).posterior_
    assert np.all(np.abs(posterior.mean()[:3] - mean) < 0.2 * sd)
    assert_allclose(posterior.std()[:3], sd, rtol=0.25)


def test_summaries_are_those_of_the_posterior(fitted):
    theta, weights = fitted.posterior_.particles, fitted.posterior_.weights
    assert fitted.posterior_.names[:4] == ("mu", "atanh_phi", "log_sigma2", "x[0]")
    for value, mean, std in (
        (theta[:, 0], fitted.mu_, fitted.mu_std_),
        (np.tanh(theta[:, 1]), fitted.phi_, fitted.phi_std_),
        (np.exp(theta[:, 2]), fitted.sigma2_, fitted.sigma2_std_),
    ):
        assert_allclose(mean, np.average(value, weights=weights))
        assert_allclose(std**2, np.cov(value, aweights=weights, ddof=0), rtol=1e-6)
    assert_allclose(fitted.volatility_, weights @ np.exp(theta[:, 3:] / 2))
    low, high = fitted.volatility_interval(0.8).T
    inside = (np.exp(theta[:, 3:] / 2) > low) & (np.exp(theta[:, 3:] / 2) < high)
    assert_allclose(weights @ inside, 0.8, atol=0.01)


def test_the_scores_kept_are_those_of_the_target(fitted, returns):
    target = StochasticVolatilityTarget(returns)
    few = fitted.posterior_.thin(20)
    assert_allclose(few.scores, target.score(few.particles), rtol=1e-6, atol=1e-6)
    difference = few.log_densities - target.log_density(few.particles)
    assert_allclose(difference, difference[0], atol=1e-6)


def test_predictions_are_those_of_simulated_futures(fitted):
    """With as many particles as all predictions use."""
    fitted = copy.copy(fitted)
    fitted.posterior_ = fitted.posterior_.thin(1000)
    m, q = 40000, np.array([0.05, 0.5, 0.95])
    draws = fitted.sample_predictive(horizon=4, n_samples=m, random_state=0)
    error = draws.volatility.std(axis=1) / np.sqrt(m)
    assert np.all(np.abs(draws.volatility.mean(axis=1) - fitted.predict(4)) < 6 * error)
    for of in ("volatility", "returns"):
        quantiles = fitted.predict_quantiles(4, q, of=of)
        below = np.mean(draws[of][:, :, None] < quantiles[:, None], axis=1)
        assert_allclose(below, np.broadcast_to(q, (4, 3)), atol=0.012)
        assert_allclose(fitted.predict_interval(4, 0.9, of=of), quantiles[:, [0, 2]])


def test_a_mean_that_is_that_of_one_particle_is_reported(fitted):
    """The variance of the log variance has a heavy tail, and so the mean may be infinite."""
    fitted = copy.copy(fitted)
    fitted.posterior_ = fitted.posterior_.thin(100)
    fitted.predict(50)
    theta = fitted.posterior_.particles.copy()
    theta[0, 1:3] = np.arctanh(0.99), np.log(4.0)
    fitted.posterior_ = fitted.posterior_._with(particles=theta)
    with pytest.warns(ConvergenceWarning, match="that of one particle, and may be infinite"):
        fitted.predict(50)


def test_the_mean_ahead_is_that_of_the_recursion(fitted):
    theta, weights = fitted.posterior_.particles, fitted.posterior_.weights
    mean, variance = theta[:, -1], np.zeros(len(theta))
    for volatility in fitted.predict(20):
        phi = np.tanh(theta[:, 1])
        mean = theta[:, 0] + phi * (mean - theta[:, 0])
        variance = phi**2 * variance + np.exp(theta[:, 2])
        assert_allclose(volatility, weights @ np.exp(mean / 2 + variance / 8), rtol=1e-10)


def test_log_predictive_of_one_return_against_quadrature(fitted):
    posterior = fitted.posterior_.thin(1000)
    theta = posterior.particles
    nodes, shares = np.polynomial.hermite_e.hermegauss(64)
    mean = theta[:, 0] + np.tanh(theta[:, 1]) * (theta[:, -1] - theta[:, 0])
    x = mean[:, None] + np.exp(theta[:, 2:3] / 2) * nodes
    for y in (0.0, 1.0, 4.0):
        density = stats.norm(0, np.exp(x / 2)).pdf(y) @ (shares / shares.sum())
        expected = np.log(density.mean())
        assert_allclose(fitted.log_predictive([y]), [expected], atol=0.02)


def test_log_predictive_of_several_returns_against_simulation(fitted, rng):
    """The joint density of three returns, averaged over many paths of each particle at once."""
    y = np.array([0.5, -3.0, 2.0])
    theta = np.repeat(fitted.posterior_.thin(1000).particles, 500, axis=0)
    x, log_density = theta[:, -1], 0.0
    for value in y:
        innovation = np.exp(theta[:, 2] / 2) * rng.standard_normal(len(theta))
        x = theta[:, 0] + np.tanh(theta[:, 1]) * (x - theta[:, 0]) + innovation
        log_density = log_density + stats.norm(0, np.exp(x / 2)).logpdf(value)
    expected = np.log(np.mean(np.exp(log_density)))
    assert_allclose(fitted.log_predictive(y).sum(), expected, atol=0.03)
    assert fitted.score(y) == fitted.log_predictive(y).mean()


def test_a_future_that_the_posterior_cannot_carry_is_warned_of(fitted, rng):
    with pytest.warns(ConvergenceWarning, match="fit to them"):
        fitted.log_predictive(1e4 * rng.standard_normal(30))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_unit_of_the_returns_moves_mu_alone(returns):
    options = {"mu_variance": 1e8, "random_state": 0}
    percent = StochasticVolatility(PATIENT, **options).fit(returns)
    decimal = StochasticVolatility(PATIENT, **options).fit(returns / 100)
    assert_allclose(decimal.mu_, percent.mu_ - 2 * np.log(100), atol=0.1 * percent.mu_std_)
    assert_allclose(decimal.phi_, percent.phi_, atol=0.1 * percent.phi_std_)
    assert_allclose(100 * decimal.volatility_, percent.volatility_, rtol=0.05)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_mean_field_understates_and_says_so(rng):
    y = simulate(150, rng)
    engine = PMFVB(100, one_sided=False, max_iter=300)
    with pytest.warns() as caught:
        factorized = StochasticVolatility(engine, factorized=True, random_state=0).fit(y)
    assert any("understates" in str(warning.message) for warning in caught)
    joint = StochasticVolatility(random_state=0).fit(y)
    assert factorized.posterior_.std()[2] < 0.4 * joint.posterior_.std()[2]
    # Under the factorisation sigma^2 is inverse gamma, of shape 2.5 + T / 2.
    assert_allclose(factorized.sigma2_std_ / factorized.sigma2_, 75.5**-0.5, rtol=0.25)


@pytest.mark.parametrize("engine", ["pmfvb", "mcmc", PMFVB(one_sided=False, blocks=2)])
def test_mean_field_needs_an_engine_that_keeps_factors(engine, returns):
    with pytest.raises(ValueError, match="factorized=True needs an engine"):
        StochasticVolatility(engine, factorized=True).fit(returns)


def test_a_series_a_column_and_a_list_are_the_same_returns(returns):
    engine = PMFVB(20, max_iter=30)
    days = pd.date_range("2024-01-01", periods=len(returns))
    given = [
        returns,
        returns.tolist(),
        returns[:, None],
        pd.Series(returns, index=days, name="GBP"),
        pd.DataFrame({"GBP": returns}, index=days),
    ]
    with pytest.warns(ConvergenceWarning):
        models = [StochasticVolatility(engine, random_state=0).fit(X) for X in given]
    for model in models:
        assert_array_equal(model.posterior_.particles, models[0].posterior_.particles)
    assert models[-1].feature_names_in_.tolist() == ["GBP"]


def broken(position, value):
    y = simulate(30, np.random.default_rng(0))
    y[position] = value
    return y


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (broken(7, np.nan), "1 missing returns, the first at position 7; leave"),
        (broken(7, np.inf), "1 infinite returns, the first at position 7; leave"),
        (np.zeros(30), "all returns in X are 0, which says nothing"),
        (np.ones(30), "all returns in X are 1; X must hold returns that vary"),
        (broken(0, 1.0)[:9], "minimum of 10 is required"),
        (np.r_[np.zeros(4), broken(0, 1.0)[4:]], "4 of 30 returns in X are 0, as of prices"),
        (np.ones((30, 2)), "one series of returns, got 2 columns"),
        (broken(3, 1e60), "magnitude 1e[+]60"),
        (["up"] * 30, "X has text in it"),
        (
            pd.Series(broken(0, 1.0), index=pd.date_range("2024-01-01", periods=30)[::-1]),
            "not in order of time; sort it by its index",
        ),
    ],
)
def test_returns_that_cannot_be_fitted(X, message):
    with pytest.raises(ValueError, match=message):
        StochasticVolatility().fit(X)


@quiet
def test_prices_are_warned_of(returns):
    with pytest.warns(UserWarning, match="returns, not prices"):
        StochasticVolatility(PMFVB(20, max_iter=30), random_state=0).fit(100 + returns)


@quiet
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_a_unit_that_the_prior_does_not_expect_is_warned_of(unit, returns):
    with pytest.warns(UserWarning, match="or raise mu_variance"):
        StochasticVolatility(PMFVB(20, max_iter=30), random_state=0).fit(unit * returns)


@quiet
@pytest.mark.parametrize("engine", [SVGD(20, max_iter=3), FWSS(3, n_sweeps=0)])
def test_engines_that_stay_near_their_start_are_warned_of(engine, returns):
    with pytest.warns(ConvergenceWarning, match="use pmfvb or mcmc"):
        StochasticVolatility(engine, random_state=0).fit(returns)


def test_a_few_returns_of_zero_are_fitted(returns):
    y = np.where(np.arange(len(returns)) % 15 == 0, 0.0, returns)
    model = StochasticVolatility(PATIENT, random_state=0).fit(y)
    assert np.isfinite(model.posterior_.scores).all()
    assert model.volatility_.min() > 0.1 * np.std(y)


def test_predictions_before_fit_and_of_nothing(fitted):
    for method in ("predict", "predict_interval", "sample_predictive", "volatility_interval"):
        with pytest.raises(NotFittedError):
            getattr(StochasticVolatility(), method)()
    for horizon in (0, 1.5, True):
        with pytest.raises(ValueError, match="horizon must be a positive integer"):
            fitted.predict(horizon)
    with pytest.raises(ValueError, match="of must be"):
        fitted.predict_interval(3, of="prices")
    with pytest.raises(ValueError, match="1 missing"):
        fitted.score([0.1, np.nan])


@quiet
def test_what_scikit_learn_expects(returns, capsys):
    engine = PMFVB(20, max_iter=30)
    model = StochasticVolatility(engine, phi_a=10.0, random_state=3, verbose=1)
    twin = clone(model).set_params(inference__max_iter=31, n_jobs=2, verbose=0)
    assert twin.get_params()["phi_a"] == 10.0 and model.inference.max_iter == 30
    model.fit(returns)
    assert "[StochasticVolatility] iteration 3 of 30" in capsys.readouterr().out
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(3), model.predict(3))
    twin.set_params(inference__max_iter=30).fit(returns)
    assert_array_equal(twin.posterior_.particles, model.posterior_.particles)
    other = clone(model).set_params(random_state=4, verbose=0).fit(returns)
    assert not np.array_equal(other.posterior_.particles, model.posterior_.particles)


class Recorder:
    """A callback that keeps what the rounds show, and stops the third."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        if context.task_name == "round" and fitted_estimator is not None:
            self.seen.append((fitted_estimator.sigma2_, fitted_estimator.score(X[:5])))
        return len(self.seen) == 3


@quiet
def test_callbacks_see_each_round_and_can_stop(returns):
    recorder = Recorder()
    model = StochasticVolatility(PMFVB(20), random_state=0).set_callbacks(recorder).fit(returns)
    assert model.n_iter_ == len(recorder.seen) == 3
    assert recorder.seen[-1] == (model.sigma2_, model.score(returns[:5]))


@quiet
@pytest.mark.parametrize(
    ("engine", "more"),
    [(PMFVB(20, max_iter=30), 0), (KSDThinnedMCMC(50, n_draws=40, max_draws=40), 40)],
)
def test_a_warm_start_goes_on_with_the_same_returns(engine, more, returns):
    model = StochasticVolatility(engine, random_state=0, warm_start=True).fit(returns)
    first = model.n_iter_
    model.fit(returns)
    assert model.n_iter_ == first + more
    with pytest.raises(ValueError, match="warm"):
        model.fit(returns[::-1])
    with pytest.raises(ValueError, match="warm"):
        model.fit(returns[:50])


# scikit-learn's contract, of which `check_estimator` tries nothing on a series.

CHECKS = [
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_estimators_fit_returns_self,
    estimator_checks.check_estimators_overwrite_params,
    estimator_checks.check_estimators_unfitted,
    estimator_checks.check_fit_check_is_fitted,
    estimator_checks.check_fit_score_takes_y,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_mixin_order,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_param_validation,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_readonly_memmap_input,
    estimator_checks.check_set_params,
    estimator_checks.check_valid_tag_types,
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*the mean of the returns")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_sklearn_check(check):
    check("StochasticVolatility", StochasticVolatility(PMFVB(10, max_iter=5)))


def test_check_estimator_knows_that_it_is_given_no_series():
    with pytest.warns(SkipTestWarning, match="one_d_array=True"):
        estimator_checks.check_estimator(StochasticVolatility())
