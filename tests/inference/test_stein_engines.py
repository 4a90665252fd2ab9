"""SVGD and Frank-Wolfe Stein Sampling: their fixed points on Gaussians, and their fields."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skstein import LogDensity, infer
from skstein.inference import FWSS, SVGD
from skstein.inference._adam import Adam
from skstein.kernels import IMQ, RBF, Linear
from skstein.metrics import ksd

both = pytest.mark.parametrize("engine", [SVGD, FWSS])


def gaussian(rng, dim):
    A = rng.normal(size=(dim, dim))
    precision = A @ A.T / dim + 0.3 * np.eye(dim)
    mean = 3 * rng.normal(size=dim)
    return (
        LogDensity(
            lambda t: -0.5 * np.einsum("ij,jk,ik->i", t - mean, precision, t - mean),
            score=lambda t: -(t - mean) @ precision,
            dim=dim,
        ),
        mean,
        np.linalg.inv(precision),
    )


@both
@pytest.mark.parametrize("dim", [2, 10])
def test_a_gaussian_is_a_fixed_point(engine, dim, rng, seed):
    """Mean and covariance far nearer than the 100 independent draws they start from."""
    target, mean, covariance = gaussian(rng, dim)
    posterior = infer(target, engine(), random_state=seed)
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    assert np.abs(inverse @ (posterior.mean() - mean)).max() < 0.03
    white = inverse @ posterior.cov() @ inverse.T
    assert np.abs(white.diagonal() - 1).max() < 0.12
    assert np.abs(white - np.eye(dim)).max() < 0.12


@both
def test_a_start_that_is_off_is_repaired(engine, rng, seed):
    """By one standard deviation and too narrow by half, in whitened coordinates."""
    target, mean, covariance = gaussian(rng, 2)
    factor = np.linalg.cholesky(covariance)
    start = mean + (0.5 * rng.normal(size=(100, 2)) + 1.0) @ factor.T
    long = {SVGD: {"max_iter": 400}, FWSS: {"max_iter_oracle": 150}}[engine]
    posterior = infer(target, engine(**long), init=start, random_state=seed)
    inverse = np.linalg.inv(factor)
    assert np.abs(inverse @ (posterior.mean() - mean)).max() < 0.05
    white = inverse @ posterior.cov() @ inverse.T
    assert np.abs(white - np.eye(2)).max() < 0.15


@both
@pytest.mark.parametrize("kernel", [None, RBF() + Linear(), IMQ() + Linear(), RBF("median")])
def test_particles_beat_independent_draws_in_discrepancy(engine, kernel, rng, seed):
    """Whatever the kernel that moved them, measured by the same other one."""
    target = LogDensity(lambda t: -0.5 * (t**2).sum(axis=1), score=lambda t: -t, dim=3)
    posterior = infer(target, engine(n_particles=100, kernel=kernel), random_state=seed)
    for _ in range(5):
        independent = rng.normal(size=(100, 3))
        assert posterior.ksd() < 0.7 * ksd(independent, -independent)


@both
def test_automatic_numbers_of_particles(engine, rng, seed):
    few = {SVGD: {"max_iter": 1}, FWSS: {"max_iter_oracle": 1, "n_sweeps": 0}}[engine]
    for dim, expected in ((2, 100), (60, 120)):
        target = LogDensity(lambda t: -0.5 * (t**2).sum(axis=1), score=lambda t: -t, dim=dim)
        posterior = infer(target, engine(**few), init=rng.normal(size=(500, dim)))
        assert len(posterior) == expected


def test_the_drift_of_svgd_dies_out(rng, seed):
    target, *_ = gaussian(rng, 3)
    drift = infer(target, SVGD(max_iter=300), random_state=seed).history["drift"]
    assert drift[-1] < 0.1 * drift[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_first_particle_of_fwss_is_the_mode(rng, seed):
    """Alone, a particle has only its own term, whose root is the mode."""
    target, mean, _ = gaussian(rng, 3)
    calls = []

    def stop(iteration, total, make_posterior, info):
        calls.append(total)
        return True

    engine = FWSS(n_particles=20, max_iter_oracle=400)
    posterior = infer(target, engine, random_state=seed, callback=stop)
    assert calls == [40]
    assert posterior.particles.shape == (1, 3)
    # Up to the linear kernel's own pull, which whitened is far less than a standard deviation.
    assert_allclose(posterior.particles[0], mean, atol=0.05 * np.abs(mean).max() + 0.1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fwss_stopped_early_returns_the_particles_placed(rng, seed):
    target, *_ = gaussian(rng, 2)
    engine = FWSS(n_particles=30, max_iter_oracle=5)
    posterior = infer(target, engine, random_state=seed, callback=lambda i, *_: i == 12)
    assert posterior.particles.shape == (12, 2)
    assert posterior.n_iter == 12
    assert_allclose(posterior.scores, target.score(posterior.particles), atol=1e-8)


def test_a_sweep_improves_what_greedy_placement_left(rng, seed):
    target, *_ = gaussian(rng, 4)
    greedy, swept = (infer(target, FWSS(n_sweeps=n), random_state=seed).ksd() for n in (0, 1))
    assert swept < greedy


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_two_stein_particles_repel_each_other(seed):
    """Started together they part: as printed in the paper, with the other sign, they would not."""
    target = LogDensity(lambda t: -0.5 * (t**2).sum(axis=1), score=lambda t: -t, dim=1)
    start = np.array([[0.5], [0.51]])
    for engine in (SVGD(2, max_iter=300), FWSS(2, max_iter_oracle=200)):
        posterior = infer(target, engine, init=start, random_state=seed)
        assert np.ptp(posterior.particles) > 0.8


def test_adam_takes_steps_of_its_rate_that_die_out():
    """For a large constant direction each step is the rate, which falls linearly to 0."""
    adam = Adam(0.1, 10)
    steps = np.array([adam.step(np.array([100.0, -7e3])) for _ in range(10)])
    rate = 0.1 * (1 - np.arange(10) / 10)
    assert_allclose(steps, rate[:, None] * [1.0, -1.0], rtol=1e-3)


def test_adam_stays_where_there_is_no_direction():
    adam = Adam(0.1, 5)
    assert_array_equal([adam.step(np.zeros(2)) for _ in range(5)], np.zeros((5, 2)))
