"""Particle mean field against what mean field theory says of Gaussians, and against quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest, logistic
from sklearn.exceptions import ConvergenceWarning

from skstein import LogDensity, infer
from skstein.inference import PMFVB
from skstein.inference._langevin import AdjustedLangevin, UnadjustedLangevin

CORRELATION = 0.8
PRECISION = np.linalg.inv([[1.0, CORRELATION], [CORRELATION, 1.0]])


def gaussian(precision=PRECISION):
    precision = np.asarray(precision, dtype=float)
    return LogDensity(
        lambda t: -0.5 * np.einsum("ij,jk,ik->i", t, precision, t),
        score=lambda t: -t @ precision,
        dim=len(precision),
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("blocks", [2, [[0], [1]], [[1], [0]]])
def test_blocks_of_correlated_coordinates_understate_their_spread(blocks, seed):
    """Mean field's factor of a Gaussian has the variance 1 / precision_jj, here 0.36 of the true
    one, and no correlation."""
    engine = PMFVB(
        1000,
        blocks=blocks,
        step_size=0.02,
        n_warmup=400,
        n_snapshots=50,
        max_iter=500,
        whiten=False,
    )
    posterior = infer(gaussian(), engine, random_state=seed)
    # 1000 chains; re-pairing adds noise of the order of the step: (h P_12 / 2)^2 / (h P_11) < 1 %.
    expected = np.diag(1 / PRECISION.diagonal())
    assert_allclose(posterior.cov() / expected[0, 0], np.eye(2), atol=5 * np.sqrt(2 / 1000))
    assert np.abs(posterior.mean()).max() < 0.6 * 5 / np.sqrt(1000)


def test_blocks_of_whitened_coordinates_lose_nothing_of_a_gaussian(seed):
    """Whitening has taken the correlation off before."""
    posterior = infer(gaussian(), PMFVB(blocks=2), random_state=seed)
    assert_allclose(posterior.cov(), np.linalg.inv(PRECISION), atol=np.sqrt(2) * 5 / np.sqrt(2000))


def test_one_block_keeps_the_correlation(seed):
    posterior = infer(gaussian(), PMFVB(whiten=False), random_state=seed)
    assert_allclose(posterior.cov(), np.linalg.inv(PRECISION), atol=np.sqrt(2) * 5 / np.sqrt(1000))


def test_unadjusted_steps_keep_a_standard_normal_exactly(rng):
    """The noise of Leimkuhler & Matthews: its stationary variance is 1 at any step size below 4,
    where plain Euler steps have 1 / (1 - h / 4)."""
    for step_size in (0.1, 0.5, 1.5):
        mover = UnadjustedLangevin(
            rng.normal(size=(20_000, 1)), [np.array([0])], step_size, lambda t: -t, rng, 1e4, False
        )
        for _ in range(60):
            mover.step(warmup=False)
        assert abs(mover.theta.var() - 1) < 5 * np.sqrt(2 / 20_000)


def test_long_scores_are_clipped_in_the_warm_up_and_when_noisy(rng):
    def wall(theta):
        return np.full_like(theta, -1e6)

    start = np.zeros((10, 4))
    blocks = [np.arange(4)]
    moved = {}
    for noisy in (False, True):
        for warmup in (False, True):
            mover = UnadjustedLangevin(start, blocks, 0.5, wall, rng, 1e9, noisy)
            mover.step(warmup)
            moved[noisy, warmup] = np.linalg.norm(mover.theta, axis=1)
    assert moved.pop((False, False)).min() > 1e5
    # The drift has a norm of 3 sqrt(d) at most; noise is beyond 10 once in 10^22.
    assert all(norms.max() < 0.25 * 6 + 10 for norms in moved.values())


def test_adjusted_steps_leave_a_density_invariant(rng):
    """Exact logistic draws remain logistic, at a step size that would bias unadjusted ones."""

    def evaluate(theta):
        return logistic.logpdf(theta)[:, 0], -np.tanh(0.5 * theta)

    mover = AdjustedLangevin(rng.logistic(size=(5000, 1)), 4.0, evaluate, rng)
    for _ in range(30):
        mover.step(warmup=False)
    assert mover.step_size == 4.0
    assert kstest(mover.theta[:, 0], "logistic").pvalue > 1e-6


def test_adjusted_steps_find_the_acceptance_they_aim_at(rng):
    def evaluate(theta):
        return -0.5 * (theta**2).sum(axis=1), -theta

    mover = AdjustedLangevin(rng.normal(size=(500, 5)), 0.01, evaluate, rng)
    for _ in range(60):
        mover.step(warmup=True)
    assert 0.45 < mover.acceptance < 0.7


@pytest.mark.parametrize("step_size", [0.1, 0.4, 0.8])
def test_the_step_size_leaves_no_bias(step_size, seed):
    """sech^2: a logistic density of scale 1/2, whose standard deviation no step size may change."""
    target = LogDensity(
        lambda t: logistic.logpdf(t, scale=0.5)[:, 0], score=lambda t: -2 * np.tanh(t), dim=1
    )
    posterior = infer(target, PMFVB(1000, step_size=step_size), random_state=seed)
    sd = np.pi / np.sqrt(12)
    assert abs(posterior.mean()[0]) < 5 * sd / np.sqrt(1000)
    # The kurtosis of 4.2 makes the standard error sqrt(3.2) / 2 over sqrt(m).
    assert abs(posterior.std()[0] / sd - 1) < 5 * 0.9 / np.sqrt(1000)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_step_too_long_is_halved_until_it_is_stable(seed):
    """A curvature of 30 is stable below h = 4 / 30: 0.4 is halved twice. With a snapshot every
    second state of 1000 chains the variance is that of the target."""
    engine = PMFVB(1000, blocks=2, step_size=0.4, whiten=False)
    posterior = infer(gaussian(30 * np.eye(2)), engine, random_state=seed)
    assert posterior.history["step_size"][-1] == 0.1
    assert_allclose(30 * posterior.std() ** 2, 1.0, atol=5 * np.sqrt(2 / 1000))


def test_after_three_halvings_it_is_an_error(seed):
    engine = PMFVB(blocks=2, step_size=0.4, whiten=False)
    with pytest.raises(FloatingPointError, match=r"step_size=0\.05, after three halvings") as info:
        infer(gaussian(1e4 * np.eye(2)), engine, random_state=seed)
    assert "iteration" in str(info.value)
    assert len(info.value.history["step_size"]) > 0


def test_pooled_particles_can_be_thinned(seed):
    all_of_them = infer(gaussian(), PMFVB(), random_state=seed)
    thinned = infer(gaussian(), PMFVB(n_points=150), random_state=seed)
    assert len(all_of_them) == 200 * 40
    assert len(thinned) == 150
    kept = {tuple(row) for row in all_of_them.particles.round(12)}
    assert {tuple(row) for row in thinned.particles.round(12)} <= kept


@pytest.mark.filterwarnings("ignore:PMFVB. the posterior is likely to be wrong")
def test_a_run_stops_at_its_tolerance_or_says_that_it_did_not(seed):
    stopped = infer(gaussian(), PMFVB(max_iter=5000), random_state=seed)
    assert stopped.n_iter == 40 + 2 * 40
    assert stopped.diagnostics["stein_residual"] < 0.2
    # From two standard deviations away, with steps far too small to come back.
    engine = PMFVB(step_size=1e-5, n_warmup=24, max_iter=30, blocks=2)
    with pytest.warns(ConvergenceWarning, match=r"a Stein residual of .* is left"):
        infer(gaussian(), engine, init=np.full((200, 2), 2.0), random_state=seed)


@pytest.mark.parametrize("blocks", [[[0]], [[0], [0, 1]], [[0], [2]]])
def test_blocks_must_partition_the_coordinates(blocks):
    with pytest.raises(ValueError, match=r"blocks must partition the coordinates 0\.\.1"):
        infer(gaussian(), PMFVB(blocks=blocks))


def test_more_blocks_than_coordinates_are_one_each(seed):
    assert len(infer(gaussian(), PMFVB(blocks=7), random_state=seed)) > 0
