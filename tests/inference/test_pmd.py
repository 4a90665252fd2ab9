"""Particle Mirror Descent against closed forms, brute force and grids."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm
from sklearn.exceptions import ConvergenceWarning

from skstein import LogDensity, infer
from skstein.inference import PMD
from skstein.inference._kde import KernelDensity
from skstein.inference._pcn import pcn_sweeps
from skstein.inference.pmd import WeightedParticles, _batches, mirror_step
from skstein.targets import LogisticTarget


def gaussian_state(rng, m, dim, sd, resampled):
    theta = sd * rng.normal(size=(m, dim))
    return WeightedParticles(theta, norm.logpdf(theta, scale=sd).sum(axis=1), resampled)


def log_posterior(theta):
    """An unnormalised normal density with mean 1 and standard deviation 1/2."""
    return -2.0 * ((theta - 1.0) ** 2).sum(axis=1)


def moments(state):
    mean = state.weights @ state.theta
    return mean, state.weights @ (state.theta - mean) ** 2


@pytest.mark.parametrize("step_size", [0.3, 0.8, 1.0])
def test_a_step_is_a_geometric_mixture(step_size, rng):
    """Of normal densities: precisions mix linearly, and so do precisions times means."""
    state = gaussian_state(rng, 50_000, 1, 1.5, resampled=False)
    assert mirror_step(state, log_posterior, step_size, rng) == 1
    before, after = 1 / 1.5**2, 4.0
    precision = (1 - step_size) * before + step_size * after
    mean, variance = moments(state)
    ess = state.ess()
    assert abs(mean[0] - step_size * after / precision) < 5 / np.sqrt(precision * ess)
    assert abs(variance[0] * precision - 1) < 5 * np.sqrt(2 / ess)
    assert_allclose(state.weights.sum(), 1.0)


def test_steps_on_one_batch_compose(rng):
    """1 - g = (1 - g1)(1 - g2)(1 - g3): the same weights and the same density."""
    steps = [0.2, 0.5, 0.3]
    split = gaussian_state(rng, 200, 2, 1.5, resampled=False)
    whole = WeightedParticles(split.theta, split.log_q, False)
    for step in steps:
        mirror_step(split, log_posterior, step, rng)
    mirror_step(whole, log_posterior, 1 - np.prod(1 - np.array(steps)), rng)
    assert_allclose(split.weights, whole.weights, rtol=1e-10)
    difference = split.log_q - whole.log_q  # up to the constant of an unnormalised density
    assert_allclose(difference, difference[0], atol=1e-9)


def test_a_step_that_would_degenerate_is_split_and_keeps_its_goal(rng):
    """From a normal prior thirty times too wide in two coordinates."""
    m = 2000
    state = gaussian_state(rng, m, 2, 15.0, resampled=True)
    assert mirror_step(state, log_posterior, 1.0, rng) > 2
    assert state.n_resampled > 0
    assert state.ess() >= 0.4 * m
    mean, variance = moments(state)
    # Kernel estimates replace exact densities along the way: errors of a few per cent.
    assert np.abs(mean - 1.0).max() < 0.5 * (5 / np.sqrt(0.4 * m) + 0.05)
    assert np.abs(4 * variance - 1).max() < 5 * np.sqrt(2 / (0.4 * m)) + 0.1


def test_particles_of_density_zero_are_left_behind(rng):
    def half(theta):
        return np.where(theta[:, 0] > 0, log_posterior(theta), -np.inf)

    state = gaussian_state(rng, 500, 1, 1.5, resampled=False)
    mirror_step(state, half, 1.0, rng)
    assert state.weights[state.theta[:, 0] <= 0].sum() < 1e-12


def test_a_density_of_zero_everywhere_is_an_error(rng):
    state = gaussian_state(rng, 50, 1, 1.0, resampled=True)
    with pytest.raises(FloatingPointError, match="no particle has a finite log density"):
        mirror_step(state, lambda theta: np.full(len(theta), -np.inf), 0.5, rng)


def test_systematic_resampling_keeps_each_particle_within_one_of_its_share(rng):
    state = gaussian_state(rng, 300, 2, 1.0, resampled=True)
    theta = state.theta.copy()
    state.log_weights = np.log(rng.dirichlet(np.ones(300)))
    weights = state.weights
    state.resample(rng)
    copies = (state.theta[:, 0][None] == theta[:, 0][:, None]).sum(axis=1)
    assert copies.sum() == 300
    # One more where rounding puts a position on the edge.
    assert (np.abs(copies - 300 * weights) < 1 + 1e-9).all()
    assert_allclose(state.weights, 1 / 300)


@pytest.mark.parametrize(("n", "batch"), [(10, 3), (12, 4), (5, 1)])
def test_every_epoch_visits_every_row_once(n, batch, rng):
    batches = list(_batches(n, batch, 3, rng))
    each = -(-n // batch)
    assert len(batches) == 3 * each
    for epoch in range(3):
        rows = np.concatenate(batches[epoch * each : (epoch + 1) * each])
        assert sorted(rows) == list(range(n))


def test_all_rows_are_one_batch(rng):
    assert list(_batches(7, 7, 2, rng)) == [None, None]


# The kernel density estimate.


def grid_of(low, high, n):
    axis = np.linspace(low, high, n)
    points = np.stack([g.ravel() for g in np.meshgrid(axis, axis, indexing="ij")], axis=1)
    return points, (axis[1] - axis[0]) ** 2


def test_a_kernel_density_integrates_to_one_with_the_particles_moments(rng):
    """By a grid: mass, mean and covariance, which the shrinkage keeps exactly."""
    theta = rng.normal(size=(80, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    density = KernelDensity(theta, rng)
    assert len(density._groups) == 1
    points, area = grid_of(-9, 9, 361)
    weights = np.exp(density.log_density(points)) * area
    assert_allclose(weights.sum(), 1.0, atol=1e-6)
    assert_allclose(weights @ points, theta.mean(axis=0), atol=1e-5)
    centred = points - theta.mean(axis=0)
    assert_allclose(centred.T @ (weights[:, None] * centred), np.cov(theta.T, bias=True), atol=1e-5)


def test_a_kernel_density_is_the_mixture_of_its_kernels(rng):
    theta = rng.normal(size=(40, 3))
    density = KernelDensity(theta, rng)
    points = rng.normal(size=(5, 3))
    expected = np.zeros(5)
    for centres, factor in density._groups:
        for centre in centres:
            expected += multivariate_normal(centre, factor @ factor.T).pdf(points) / 40
    assert_allclose(density.log_density(points), np.log(expected), rtol=1e-9)


def test_draws_of_a_kernel_density_keep_the_covariance(rng):
    theta = rng.normal(size=(4000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    draws = KernelDensity(theta, rng).sample(rng)
    white = draws @ np.linalg.inv(np.linalg.cholesky(np.cov(theta.T))).T
    assert np.abs(white.mean(axis=0)).max() < 0.1
    assert np.abs(np.cov(white.T) - np.eye(2)).max() < 5 * np.sqrt(2 / 4000)


def test_separated_modes_have_kernels_of_their_own(rng):
    """A quarter of the particles at -5, the rest at 5: mass and spread of both are kept."""
    theta = rng.normal(size=(400, 2))
    theta[:100, 0] -= 5.0
    theta[100:, 0] += 5.0
    density = KernelDensity(theta, rng)
    points, area = grid_of(-10, 10, 301)
    weights = np.exp(density.log_density(points)) * area
    left = points[:, 0] < 0
    assert_allclose(weights[left].sum(), 0.25, atol=1e-3)
    assert_allclose(weights[~left].sum(), 0.75, atol=1e-3)
    for side, group in ((left, theta[:100]), (~left, theta[100:])):
        share = weights[side] / weights[side].sum()
        mean = share @ points[side]
        variance = share @ (points[side] - mean) ** 2
        assert_allclose(mean, group.mean(axis=0), atol=0.05)
        assert_allclose(variance, group.var(axis=0), rtol=0.05)


def test_particles_on_a_line_have_a_density(rng):
    line = np.repeat(rng.normal(size=(50, 1)), 2, axis=1)
    density = KernelDensity(line, rng)
    assert np.isfinite(density.log_density(density.sample(rng))).all()


# The final moves.


def test_crank_nicolson_moves_leave_the_target_invariant(rng):
    """Exact draws of a skewed density (independent log-gammas) keep their moments."""
    m, shape = 4000, 2.0

    def log_density(theta):
        return (shape * theta - np.exp(theta)).sum(axis=1)

    before = np.log(rng.gamma(shape, size=(m, 2)))
    after, _ = pcn_sweeps(log_density, before, 1000.0, 60, rng)
    assert (before != after).any(axis=1).mean() > 0.99
    pooled = np.sqrt(2 / m)  # two samples, and both could be off
    for power in (1, 2, 3):
        gap = (after**power).mean(axis=0) - (before**power).mean(axis=0)
        assert (np.abs(gap) < 5 * pooled * (before**power).std(axis=0)).all()


def test_crank_nicolson_moves_repair_a_wrong_start(rng):
    """Too wide by half and off by one standard deviation, in five coordinates."""
    theta = 1.0 + 1.5 * rng.normal(size=(2000, 5))
    theta, _ = pcn_sweeps(lambda t: -0.5 * (t**2).sum(axis=1), theta, 1000.0, 80, rng)
    assert np.abs(theta.mean(axis=0)).max() < 5 / np.sqrt(2000)
    assert np.abs(theta.std(axis=0) - 1).max() < 5 / np.sqrt(4000)


def test_crank_nicolson_moves_report_what_is_left_of_the_start(rng):
    """Against the squared correlation of every coordinate with its start."""

    def log_density(theta):
        return -0.5 * (theta**2).sum(axis=1)

    before = np.repeat(rng.normal(size=(100, 3)), 10, axis=0)
    for n_sweeps in (1, 40):
        after, memory = pcn_sweeps(log_density, before, 10.0, n_sweeps, rng)
        r = np.array([np.corrcoef(before[:, j], after[:, j])[0, 1] for j in range(3)])
        assert_allclose(memory, 10.0 * np.mean(r**2), atol=1e-10)
    assert memory < 1.0


# The engine.


def logistic(rng, n=400, p=2):
    X = rng.normal(size=(n, p))
    return LogisticTarget(X, (X[:, 0] + rng.logistic(size=n) > 0).astype(float))


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_power_reached_is_that_of_the_step_sizes(epochs, rng, seed):
    """g_t = 2 / (t + 2 n / b) with n / b = 8: 1 - power = 14 * 15 / ((T + 14) (T + 15))."""
    engine = PMD(100, max_iter=epochs, batch_size=50, n_sweeps=0)
    posterior = infer(logistic(rng), engine, random_state=seed)
    steps = 8 * epochs
    expected = 1 - 14 * 15 / ((steps + 14) * (steps + 15))
    assert posterior.n_iter == steps
    assert_allclose(posterior.diagnostics["posterior_power"], expected)
    assert_allclose(posterior.history["power"][-1], expected)


def test_too_small_a_power_is_reported(rng, seed):
    engine = PMD(max_iter=1, batch_size=50)
    with pytest.warns(ConvergenceWarning, match=r"only a power of 0\.58 of the likelihood"):
        infer(logistic(rng), engine, random_state=seed)


def test_on_all_rows_the_full_power_is_reached(rng, seed):
    posterior = infer(logistic(rng), "pmd", random_state=seed)
    assert posterior.diagnostics["posterior_power"] == 1.0


def test_minibatches_reach_the_posterior_of_all_rows(rng, seed):
    """Both within five standard errors of 1000 draws of each other."""
    target = logistic(rng)
    whole = infer(target, PMD(), random_state=seed)
    parts = infer(target, PMD(batch_size=50), random_state=seed + 1)
    error = np.abs(whole.mean() - parts.mean()) / whole.std()
    assert error.max() < 5 * np.sqrt(2 / 1000)
    assert_allclose(parts.std() / whole.std(), 1.0, atol=5 / np.sqrt(1000))


def mixture(with_score):
    """0.3 N((-3, 0), I / 4) + 0.7 N((3, 0), I / 4), from the prior N(0, 25 I)."""
    centres, share = np.array([[-3.0, 0.0], [3.0, 0.0]]), np.array([0.3, 0.7])

    def parts(theta):
        squares = ((theta[:, None] - centres) ** 2).sum(axis=2)
        return np.log(share) - 2.0 * squares

    def score(theta):
        weights = np.exp(parts(theta) - np.logaddexp.reduce(parts(theta), axis=1)[:, None])
        return 4.0 * (weights @ centres - theta)

    return LogDensity(
        lambda theta: np.logaddexp.reduce(parts(theta), axis=1),
        score=score if with_score else None,
        dim=2,
        initial=[-3.0, 0.0],
        sample_prior=lambda rng, m: 5.0 * rng.normal(size=(m, 2)),
        log_prior=lambda theta: norm.logpdf(theta, scale=5.0).sum(axis=1),
    )


@pytest.mark.parametrize("n_sweeps", [0, 30])
def test_both_modes_survive_without_a_score(n_sweeps, seed):
    """Their masses and spreads; the final weights rest on some hundred effective draws."""
    posterior = infer(mixture(with_score=False), PMD(n_sweeps=n_sweeps), random_state=seed)
    left = posterior.particles[:, 0] < 0
    assert abs(posterior.weights[left].sum() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 300)
    for side, centre in ((left, -3.0), (~left, 3.0)):
        share = posterior.weights[side] / posterior.weights[side].sum()
        mean = share @ posterior.particles[side]
        sd = np.sqrt(share @ (posterior.particles[side] - mean) ** 2)
        effective = 1 / np.sum(share**2) / (2 if n_sweeps else 1)
        assert np.abs(mean - [centre, 0]).max() < 0.5 * 5 / np.sqrt(effective)
        assert np.abs(sd / 0.5 - 1).max() < 5 / np.sqrt(2 * effective)


@pytest.mark.parametrize(
    ("init", "strategy"),
    [
        ("prior", "auto"),
        ("prior", "kde"),
        ("laplace", "auto"),
        ("laplace", "particles"),
        ("laplace", "kde"),
    ],
)
def test_every_start_and_strategy_finds_the_posterior(init, strategy, rng, seed):
    """Against the default, each within five standard errors of 1000 draws."""
    target = logistic(rng, n=100)
    expected = infer(target, PMD(4000), random_state=seed)
    posterior = infer(target, PMD(init=init, strategy=strategy), random_state=seed + 1)
    error = np.abs(posterior.mean() - expected.mean()) / expected.std()
    assert error.max() < 5 * np.sqrt(1 / 1000 + 1 / 4000)
    assert_allclose(posterior.std() / expected.std(), 1.0, atol=5 / np.sqrt(1000))


@pytest.mark.filterwarnings("ignore:PMD. the posterior is likely to be wrong")
def test_prior_draws_that_are_only_weighted_degenerate_and_say_so(rng, seed):
    engine = PMD(200, init="prior", strategy="particles")
    with pytest.warns(
        ConvergenceWarning, match=r"the weights keep an effective sample of \d+ of 200"
    ):
        infer(logistic(rng, n=400), engine, random_state=seed)


def test_too_few_particles_for_the_dimension_are_refused(rng):
    with pytest.raises(ValueError, match=r"n_particles=4 must exceed .* \(4\)"):
        infer(logistic(rng), PMD(n_particles=4))


@pytest.mark.filterwarnings("ignore:PMD. the posterior is likely to be wrong")
def test_a_prior_start_in_many_coordinates_is_reported(rng, seed):
    target = logistic(rng, n=100, p=11)
    with pytest.warns(ConvergenceWarning, match="a start from the prior is not reliable in 12"):
        infer(target, PMD(200, init="prior", max_iter=2, n_sweeps=2), random_state=seed)
