"""Engines for networks, against closed forms where there is no hidden layer: a linear model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import gamma
from sklearn.exceptions import ConvergenceWarning

from skstein import BayesianMLPRegressor, infer
from skstein.inference import AdaptivePMFVB, Ensemble
from skstein.priors import HierarchicalNormal, Normal
from skstein.samplers import SGHMC, sghmc
from skstein.targets.networks.mlp import MLPTarget


def linear(rng, n=60, prior=None):
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.7 * rng.normal(size=n)
    prior = Normal(1.0) if prior is None else prior
    target = MLPTarget(X, y, hidden_layer_sizes=(), prior=prior, dtype=np.float64)
    return target, np.column_stack([X, np.ones(n)]), y


def test_pmfvb_finds_the_mean_field_of_a_linear_model(rng):
    """q(w) normal and q(sigma^2) inverse gamma, by coordinate ascent."""
    target, design, y = linear(rng)
    penalty = np.diag([3.0, 3.0, 3.0, 1.0])
    precision = 1.0
    for _ in range(100):
        covariance = np.linalg.inv(precision * design.T @ design + penalty)
        mean = precision * covariance @ design.T @ y
        errors = np.sum((y - design @ mean) ** 2) + np.trace(design.T @ design @ covariance)
        precision = (1.0 + 0.5 * len(y)) / (0.01 + 0.5 * errors)
    engine = AdaptivePMFVB(100, batch_size=None, max_iter=1500)  # of 0.02, from random weights
    particles = engine.run(target, rng).particles
    std = np.sqrt(np.diag(covariance))
    assert np.abs((particles[:, :4].mean(axis=0) - mean) / std).max() < 0.25
    assert_allclose(particles[:, :4].std(axis=0) / std, 1.0, atol=0.15)
    assert_allclose(np.mean(np.exp(-particles[:, 4])), precision, rtol=0.1)


def test_precisions_are_those_of_the_particles(rng):
    """A shared precision is Gamma(a + p/2, b + E|u|^2 / 2) above its bound, of u = sqrt(3) w."""
    target, _, _ = linear(rng, prior=HierarchicalNormal(2.0, 5.0))
    second_moment = np.array([1.0, 4.0, 0.5, 9.0])
    law = gamma(2.0 + 1.5, scale=1.0 / (5.0 + 0.5 * 3.0 * 5.5))
    least = gamma(2.0, scale=1.0 / 5.0).ppf(0.1)
    expected = 3.0 * law.expect(lb=least, conditional=True)
    assert_allclose(target.expected_precision(second_moment), [*[expected] * 3, 1.0], rtol=1e-6)


def test_random_blocks_and_the_adaptive_drift_approach_the_mode(rng):
    """The paper's own settings, from random weights: far from the mode they get near it."""
    target, design, y = linear(rng)
    start = 5.0 + target.sample_initial(rng, 20)
    start[:, 4] = 0.0
    engine = AdaptivePMFVB(
        20,
        block_fraction=0.5,
        step_size=1e-3,
        drift=100.0,
        max_iter=1000,
        batch_size=30,
        preconditioned=False,
    )
    posterior = engine.run(target, rng, init=start)
    best, *_ = np.linalg.lstsq(design, y, rcond=None)
    before = np.linalg.norm(start[:, :4].mean(axis=0) - best)
    after = np.linalg.norm(posterior.particles[:, :4].mean(axis=0) - best)
    assert np.isfinite(posterior.particles).all()
    assert after < 0.1 * before


def test_copies_of_a_network_part(rng):
    target, _, _ = linear(rng)
    engine = AdaptivePMFVB(6, batch_size=None, max_iter=4, n_snapshots=1)
    particles = engine.run(target, rng, init=target.sample_initial(rng, 2)).particles
    assert len(np.unique(particles[:, 0])) == 6


@pytest.mark.parametrize("m", [2, 20])
def test_every_network_is_kept_from_a_tenth_of_the_rows(m, rng):
    target, _, _ = linear(rng)
    posterior = Ensemble(m, max_iter=2).run(target, rng)
    assert [len(state.held_out) for state in posterior.state] == [6] * m
    if m == 20:
        counts = np.bincount(np.concatenate([state.held_out for state in posterior.state]))
        assert np.all(counts == 2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_ensemble_is_an_engine_of_its_own(rng):
    target, _, _ = linear(rng)
    assert len(infer(target, Ensemble(3, max_iter=2), random_state=0)) == 3


def test_an_ensemble_without_hidden_layers_is_one_ridge_regression(rng):
    target, design, y = linear(rng)
    engine = Ensemble(3, max_iter=2000, batch_size=None, learning_rate=0.05, out_of_bag=False)
    particles = engine.run(target, rng).particles
    noise = np.exp(particles[0, 4])
    penalty = noise * np.diag([3.0, 3.0, 3.0, 1.0])
    expected = np.linalg.solve(design.T @ design + penalty, design.T @ y)
    assert_allclose(particles[:, :4], np.tile(expected, (3, 1)), atol=2e-3)


@pytest.mark.parametrize("adapts", [True, False])
def test_chains_that_run_hot_take_shorter_steps(adapts, rng, monkeypatch):
    """On noise units go off and wake up; the mean square of velocities is 1 in equilibrium."""
    if not adapts:
        monkeypatch.setattr(sghmc, "_CHANCE", np.inf)
    X, y = rng.normal(size=(100, 5)), rng.normal(size=100)
    target, sampler = MLPTarget(X, y, hidden_layer_sizes=(5, 5)), SGHMC(thinning=100)
    chains = sampler.warm_up(target, 20, target.sample_initial(rng, 5), rng)
    heat = []
    for _ in range(20):
        chains = sampler.draw(target, 1, chains)[0]
        heat.append(np.mean([np.mean(np.square(chain.velocity)) for chain in chains.each]))
    # Over thirty seeds 1.14, with a standard deviation of 0.03.
    assert np.mean(heat) < 1.3 if adapts else np.mean(heat) > 1.4
    assert chains.step_size < 0.1 if adapts else chains.step_size == sampler.step_size


@pytest.mark.parametrize("off", [10.0, 300.0])
def test_chains_that_fall_keep_their_steps(off, rng):
    """Heat of a start that many posterior standard deviations away is no error of the steps."""
    X = rng.normal(size=(80, 3))
    target = MLPTarget(
        X, X @ [1.0, -0.5, 0.0], sample_weight=np.full(80, 100.0), hidden_layer_sizes=()
    )
    start = np.r_[1.0, -0.5, 0.0, 0.0, np.log(0.5)] + np.r_[np.full(4, off * 0.008), 0.0]
    chains = SGHMC().warm_up(target, 5, start[None], rng)
    assert chains.step_size > 0.5 * SGHMC().step_size
    assert_allclose(chains.each[0].theta[:4], [1.0, -0.5, 0.0, 0.0], atol=0.04)


class Recording:
    """A network that does not move, and notes what steps it was asked for."""

    n_weights = dim = 3
    unevenness = 1.0

    def __init__(self, n_rows):
        self.n_rows, self.calls, self.renewed = n_rows, [], []

    def resample(self, theta, rng):
        return theta, np.ones(3)

    def metric(self, theta, precision, damping, rng):
        self.renewed.append(theta[0])
        return np.ones(3), np.arange(3)

    def hamiltonian_steps(self, theta, velocity, *rest):
        *_, step_size, friction, batch_size, n_steps, _ = rest
        self.calls.append((step_size, friction, batch_size, n_steps))
        return theta, 0.0 * velocity


def test_outputs_that_have_not_mixed_are_reported(rng):
    """A hard posterior of few rows, which longer runs reach, and an easy one."""
    X = rng.uniform(-2.0, 2.0, size=(40, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=40)
    options = {"activation": "tanh", "prior": Normal(2.0), "noise": "normal", "null_space": 0}
    reg = BayesianMLPRegressor((5,), inference="pmfvb", random_state=0, **options)
    with pytest.warns(ConvergenceWarning, match="outputs of the networks have not mixed"):
        reg.set_params(inference__max_iter=1000).fit(X, y)
    assert reg.posterior_.diagnostics["rhat"] > 1.12
    assert not reg.posterior_.converged
    target, _, _ = linear(rng)
    posterior = infer(target, AdaptivePMFVB(20, batch_size=None, max_iter=4000), random_state=0)
    assert posterior.diagnostics["rhat"] < 1.12
    assert posterior.converged


def test_uneven_weights_are_heat_of_minibatches(rng):
    """Few heavy rows say as much as many, with more noise; standard deviations in closed form."""
    n, sd = 4000, 0.7
    X, weights = rng.normal(size=(n, 3)), rng.gamma(0.5, 2.0, size=n)
    y = X @ [1.0, -2.0, 0.5] + sd * rng.normal(size=n)
    target = MLPTarget(X, y, sample_weight=weights, hidden_layer_sizes=(), prior=Normal(1.0))
    design = np.column_stack([X, np.ones(n)])
    errors = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    precision = design.T @ (weights[:, None] * design) / np.average(errors**2, weights=weights)
    sampler = SGHMC(batch_size=1000, thinning=100)
    chains = sampler.warm_up(target, 5, np.zeros((4, 5)), rng)
    _, draws, _, _ = sampler.draw(target, 200, chains)
    ratio = draws[:, :, :4].std(axis=1).mean(axis=0) / np.sqrt(np.diag(np.linalg.inv(precision)))
    assert abs(np.mean(ratio) - 1.0) < 0.15


@pytest.mark.parametrize(
    ("n", "batch_size", "step_size", "friction", "n_steps"),
    [
        (90, 90, 0.2, 0.1, 126),
        (2000, 2000, 0.2, 0.1, 420),
        (4000, 1000, 0.2, 0.6, 420),
        (20_000, 1000, 0.05, 0.95, 420),
    ],
)
def test_small_minibatches_have_friction_and_few_rows_fewer_steps(
    n, batch_size, step_size, friction, n_steps, rng
):
    """Heat of 0.5: step_size * (n / batch_size - 1) / (2 * friction)."""
    target = Recording(n)
    SGHMC().warm_up(target, 1, np.zeros((1, 3)), rng)
    calls = np.array(target.calls)
    assert_allclose(calls[:, :3], np.tile([step_size, friction, batch_size], (len(calls), 1)))
    assert calls[:, 3].sum() == n_steps


class HotOnce(Recording):
    """A network that counts steps in its weights; its velocities are hot once."""

    hot = False

    def hamiltonian_steps(self, theta, velocity, *rest):
        theta, before = theta + rest[-2], self.hot
        self.hot = before or theta[0] >= 190
        return theta, np.full(3, 4.0 if self.hot and not before else 0.0)

    def score(self, theta):
        return 0.0 * theta

    def log_density(self, theta):
        return np.zeros(len(theta))


def test_a_hot_time_is_not_drawn(rng):
    """Neither where it began, nor the states of the hundred steps behind it; it is taken back."""
    target, sampler = HotOnce(500), SGHMC(thinning=100)
    chains = sampler.warm_up(target, 1, np.zeros((1, 3)), rng)
    _, draws, _, _ = sampler.draw(target, 3, chains)
    steps = draws[0, :, 0]
    assert not np.any((steps >= 180) & (steps < 280))
    assert np.all(np.diff(steps) >= 100)
    assert target.renewed == [0, 60, 180]  # in the warm-up, and where the chain is back


@pytest.mark.parametrize(("step_size", "renewed"), [(0.2, [0, 300, 600, 900]), (0.05, [0, 300])])
def test_a_metric_is_renewed_when_the_last_one_is_forgotten(step_size, renewed, rng):
    """After 60 units of time, and after half of the warm-up, of 600 steps; of 1100 in all."""
    target, sampler = HotOnce(500), SGHMC(step_size, thinning=100)
    target.hot = True  # not any more
    sampler.draw(target, 5, sampler.warm_up(target, 6, np.zeros((1, 3)), rng))
    assert target.renewed == renewed
