"""Stochastic volatility: its target, the coordinates it is fitted in, and the estimator.

Truths: finite differences, SciPy's densities, dense linear algebra, quadrature over the three
parameters of a short series, and long runs of HMC.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skstein import check_target
from skstein.targets import (
    FactorizedTarget,
    SmoothedTarget,
    StochasticVolatilityTarget,
    laplace_approximation,
)
from skstein.targets.smoothed_path import marginal_laplace


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
        weight = 0.5 * target.target.square * np.exp(-level)
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


def test_parameters_that_overflow_have_no_density(rng):
    target = SmoothedTarget(StochasticVolatilityTarget(simulate(20, rng)))
    z = np.zeros((4, 23))
    z[:, 1:3] = np.array([[1e4, 0.0], [0.0, 1e4], [0.0, -1e4], [-1e4, 1e4]])
    with np.errstate(all="ignore"):
        assert not np.isfinite(target.log_density(z)).any()


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
