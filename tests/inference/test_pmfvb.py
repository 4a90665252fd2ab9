"""Particle mean field against what mean field theory says of Gaussians, and against quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import kstest, logistic, multivariate_t
from sklearn.exceptions import ConvergenceWarning

from densities import gaussian, standard_normal
from skstein import LogDensity, infer
from skstein._tools.random import as_generator
from skstein.inference import PMFVB, SVGD
from skstein.inference._building_blocks.elbo import _normal_entropy
from skstein.inference._building_blocks.langevin import AdjustedLangevin, UnadjustedLangevin
from skstein.inference._building_blocks.snapshots import Snapshots
from skstein.priors import Normal
from skstein.targets import LogisticTarget
from small import later

CORRELATION = 0.8
PRECISION = np.linalg.inv([[1.0, CORRELATION], [CORRELATION, 1.0]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"blocks": 2},
        {"blocks": [[0], [1]]},
        {"blocks": [[1], [0]]},
        {"blocks": 2, "coupling": "subset", "n_coupled": 3},
    ],
    ids=["number", "arrays", "turned", "subset"],
)
def test_blocks_of_correlated_coordinates_understate_their_spread(options, seed):
    """Mean field's factor of a Gaussian has the variance 1 / precision_jj, here 0.36 of the true
    one, and no correlation."""
    engine = PMFVB(
        1000, **options, step_size=0.02, n_warmup=400, n_snapshots=50, max_iter=500, whiten=False
    )
    posterior = infer(gaussian(PRECISION), engine, random_state=seed)
    # 1000 chains; re-pairing adds noise of the order of the step: (h P_12 / 2)^2 / (h P_11) < 1 %.
    # A subset of three moves all chains alike, and the mean with them: its standard deviation over
    # sixty seeds is 0.06, that of other pairs 0.03.
    expected = np.diag(1 / PRECISION.diagonal())
    assert_allclose(posterior.cov() / expected[0, 0], np.eye(2), atol=5 * np.sqrt(2 / 1000))
    assert np.abs(posterior.mean()).max() < 5 * (0.06 if "coupling" in options else 0.03)


def test_blocks_of_whitened_coordinates_lose_nothing_of_a_gaussian(seed):
    """Whitening has taken the correlation off before."""
    posterior = infer(gaussian(PRECISION), PMFVB(blocks=2), random_state=seed)
    assert_allclose(posterior.cov(), np.linalg.inv(PRECISION), atol=np.sqrt(2) * 5 / np.sqrt(2000))


def test_one_block_keeps_the_correlation(seed):
    posterior = infer(gaussian(PRECISION), PMFVB(whiten=False), random_state=seed)
    assert_allclose(posterior.cov(), np.linalg.inv(PRECISION), atol=np.sqrt(2) * 5 / np.sqrt(1000))


def test_unadjusted_steps_keep_a_standard_normal_exactly(rng):
    """The noise of Leimkuhler & Matthews: its stationary variance is 1 at any step size below 4,
    where plain Euler steps have 1 / (1 - h / 4)."""
    for step_size in (0.1, 0.5, 1.5):
        mover = UnadjustedLangevin(
            rng.normal(size=(20_000, 1)), [[0]], step_size, lambda t: (None, -t), rng, False
        )
        for _ in range(60):
            mover.step(warmup=False)
        assert abs(mover.theta.var() - 1) < 5 * np.sqrt(2 / 20_000)


def test_long_scores_are_clipped_in_the_warm_up_and_when_noisy(rng):
    """In white coordinates, where their length is known."""

    def wall(theta):
        return None, np.full_like(theta, -1e6)

    start = np.zeros((10, 4))
    blocks = [np.arange(4)]
    moved = {}
    for noisy in (False, True):
        for warmup in (False, True):
            mover = UnadjustedLangevin(start, blocks, 0.5, wall, rng, noisy)
            mover.step(warmup)
            moved[noisy, warmup] = np.linalg.norm(mover.theta, axis=1)
    assert moved.pop((False, False)).min() > 1e5
    raw = UnadjustedLangevin(start, blocks, 0.5, wall, rng, True, white=False)
    raw.step(warmup=True)
    assert np.linalg.norm(raw.theta, axis=1).min() > 1e5
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


def test_particles_on_a_cliff_come_down_with_the_warm_up(rng):
    def evaluate(theta):
        return -np.sum(theta**4, axis=1), -4.0 * theta**3

    start = rng.normal(size=(100, 2))
    start[:3] = 50.0
    mover = AdjustedLangevin(start, 0.4, evaluate, rng)
    for _ in range(12):
        mover.step(warmup=True)
    assert (mover.theta[:3] == 50.0).all()
    state = mover.step(warmup=False)
    assert np.abs(state.theta).max() < 5.0
    value, score = evaluate(state.theta)
    assert_allclose(state.log_density, value)
    assert_allclose(state.score, score)


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
def test_particles_that_miss_the_arms_of_a_banana_are_not_silent(seed):
    """The steps suit its middle, and hardly any proposal along the narrow arms is accepted."""

    def residual(t):
        return (t[:, 1] - t[:, 0] ** 2) / 0.5

    def log_density(t):
        return -0.5 * (t[:, 0] ** 2 + residual(t) ** 2)

    def score(t):
        slope = residual(t) / 0.5
        return np.stack([2.0 * t[:, 0] * slope - t[:, 0], -slope], axis=1)

    with pytest.warns(ConvergenceWarning, match=r"too narrow for the steps.* or use mcmc"):
        posterior = infer(LogDensity(log_density, score, dim=2), "pmfvb", random_state=seed)
    assert posterior.std()[1] < 0.95 * 1.5
    assert posterior.diagnostics["stiff"] > 0.1
    assert infer(standard_normal(2), "pmfvb", random_state=seed).diagnostics["stiff"] < 0.001


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


@pytest.mark.parametrize("options", [{}, {"coupling": "subset"}, {"rewhiten": True}])
def test_scores_that_are_not_finite_are_a_divergence(options, seed):
    target = LogDensity(
        lambda t: -0.5 * (t**2).sum(1), score=lambda t: np.where(np.abs(t) < 2.0, -t, np.inf), dim=2
    )
    with pytest.raises(FloatingPointError, match=r"iteration 1 with step_size=0\.05, after"):
        infer(target, PMFVB(blocks=2, **options), random_state=seed)


def test_a_pairing_keeps_every_particle_of_a_block_in_its_row(rng):
    """The state holds the pairs at which the score was taken, and the same numbers by row."""
    start = rng.normal(size=(50, 3))
    blocks = [np.array([0, 2]), np.array([1])]
    precision = np.diag([1.0, 2.0, 3.0])  # then the score of a block does not depend on the others
    mover = UnadjustedLangevin(
        start.copy(), blocks, 0.1, lambda t: (None, -t @ precision), rng, False
    )
    state = mover.step(warmup=False)
    theta, score = state.chains
    assert_allclose(theta, start)
    assert_allclose(score, -start @ precision)
    assert not np.array_equal(state.theta, start)
    for block in blocks:
        assert_allclose(np.sort(state.theta[:, block], axis=0), np.sort(start[:, block], axis=0))


def test_rewhitening_finds_the_correlation_that_blocks_lose(seed):
    """Stein's estimate of the Hessian of a Gaussian is exact, so that the blocks of the new
    coordinates are independent."""
    engine = PMFVB(blocks=2, step_size=0.1, n_warmup=80, rewhiten=True, whiten=False)
    posterior = infer(gaussian(PRECISION), engine, random_state=seed)
    assert_allclose(posterior.cov(), np.linalg.inv(PRECISION), atol=np.sqrt(2) * 5 / np.sqrt(1000))


def test_rewhitening_is_for_few_coordinates():
    target = standard_normal(2001)
    with (
        pytest.warns(ConvergenceWarning, match="diagonal"),
        pytest.raises(ValueError, match="rewhiten=True needs at most 2000 coordinates, got 2001"),
    ):
        infer(target, PMFVB(rewhiten=True))


def test_a_callback_of_a_rewhitened_run_sees_the_targets_coordinates(seed):
    means = []

    def callback(iteration, total, make_posterior, info):
        means.append(make_posterior().mean())

    target = LogDensity(lambda t: -0.5 * ((t - 30.0) ** 2).sum(1), score=lambda t: 30.0 - t, dim=2)
    engine = PMFVB(blocks=2, rewhiten=True)
    posterior = infer(target, engine, random_state=seed, callback=callback)
    assert_allclose(means[-1], posterior.mean())
    assert_allclose(np.array(means), 30.0, atol=5 / np.sqrt(200))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_bound_of_a_gaussian_is_its_log_normaliser_less_what_mean_field_costs(seed):
    """KL(q || p) = (sum_j log P_jj - log det P) / 2 with one factor a coordinate. The log densities
    have a standard deviation of 1, and the autocorrelation of a chain is below 0.97."""
    log_normaliser = np.log(2 * np.pi) - 0.5 * np.log(np.linalg.det(PRECISION))
    joint = infer(gaussian(PRECISION), PMFVB(whiten=False), random_state=seed)
    assert abs(joint.diagnostics["elbo"] - log_normaliser) < 5 / np.sqrt(1000)
    engine = PMFVB(1000, blocks=2, step_size=0.02, n_warmup=400, whiten=False, max_rhat=2.0)
    apart = infer(gaussian(PRECISION), engine, random_state=seed)
    cost = 0.5 * np.log(PRECISION.diagonal().prod() / np.linalg.det(PRECISION))
    assert abs(apart.diagnostics["elbo"] - (log_normaliser - cost)) < 5 / np.sqrt(1000)


def test_the_entropy_of_few_particles_is_not_too_small(rng):
    """Means over 400 sets of 60 particles in ten dimensions; plain estimates are 1 nat too low."""
    found = [_normal_entropy(rng.normal(size=(1, 60, 10))) for _ in range(400)]
    exact = 5 * (1 + np.log(2 * np.pi))
    # What the jackknife leaves is of order d^3 / m^2.
    assert abs(np.mean(found) - exact) < 0.3 + 5 * np.std(found) / np.sqrt(400)


def test_there_is_no_bound_for_more_coordinates_than_particles(rng):
    assert np.isnan(_normal_entropy(rng.normal(size=(1, 40, 20))))
    assert np.isfinite(_normal_entropy(rng.normal(size=(2, 40, 20))))


@pytest.mark.parametrize(
    "options", [{}, {"blocks": 31}, later({"blocks": 2, "coupling": "subset"})]
)
def test_the_bound_is_near_the_log_evidence(options, gold, seed):
    """Of breast cancer, against importance sampling from a normal with the reference moments."""
    data = gold("breast_cancer_logistic")
    prior = Normal(float(data["prior_sd"]))
    target = LogisticTarget(data["X_std"], data["y"], prior=prior, intercept_prior=prior)
    proposal = multivariate_t(data["mean"], data["cov"], df=50, seed=seed)
    theta = proposal.rvs(10_000)
    log_weights = target.log_density(theta) - proposal.logpdf(theta)
    evidence = logsumexp(log_weights) - np.log(len(theta))
    weights = np.exp(log_weights - logsumexp(log_weights))
    assert np.sum(weights**2) < 1 / 400  # an error of 0.05 nats
    posterior = infer(target, PMFVB(**options), random_state=seed)
    assert abs(posterior.diagnostics["elbo"] - evidence) < 0.5
    assert abs(posterior.history["elbo"][-20:].mean() - evidence) < 0.7


def test_minibatches_have_no_bound(rng, seed):
    posterior = infer(logistic_target(rng), PMFVB(batch_size=50), random_state=seed)
    assert np.isnan(posterior.diagnostics["elbo"])


def logistic_target(rng, n=400):
    X = rng.normal(size=(n, 2))
    return LogisticTarget(X, (X[:, 0] + rng.logistic(size=n) > 0).astype(float))


def validated(target, seed, init=None, **options):
    engine = PMFVB(early_stopping=True, **options)
    return infer(target, engine, init=init, random_state=seed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_early_stopping_waits_and_restores_the_best_state(rng, seed):
    """From far away the validation score first grows."""
    target = logistic_target(rng)
    start = np.random.default_rng(seed).normal(8.0, 0.1, size=(200, 3))
    posterior = validated(target, seed, start, n_iter_no_change=7, step_size=0.05)
    path = posterior.history["validation_score"]
    assert path.argmax() > 5
    assert len(path) == path.argmax() + 1 + 7
    assert posterior.diagnostics["validation_score"] == path.max()
    assert len(posterior) == 200
    assert path[0] < path.max() - 0.5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_early_stopping_keeps_the_rows_apart(rng, seed):
    """The log densities of the posterior are those of nine tenths of the rows."""
    target = logistic_target(rng)
    posterior = validated(target, seed)
    order = as_generator(seed).permutation(400)
    kept, held_out = target.take(np.sort(order[40:])), target.take(np.sort(order[:40]))
    assert_allclose(posterior.log_densities, kept.log_density(posterior.particles))
    by_row = held_out.pointwise_log_likelihood(posterior.particles)
    expected = np.mean(logsumexp(by_row, axis=0) - np.log(200))
    assert_allclose(posterior.diagnostics["validation_score"], expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_early_stopping_that_did_not_stop_says_so(rng, seed):
    with pytest.warns(ConvergenceWarning, match="the validation score was still growing"):
        validated(logistic_target(rng), seed, max_iter=30, n_iter_no_change=100)


def test_early_stopping_needs_rows():
    with pytest.raises(ValueError, match="early_stopping=True sets rows aside"):
        validated(gaussian(PRECISION), 0)
    few = LogisticTarget(np.eye(3), np.array([0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"validation_fraction=0\.1 of 3 rows sets 0 aside"):
        validated(few, 0)


def test_a_long_run_holds_no_more_than_its_snapshots():
    """And they are spread over its second half, whatever its length."""
    for n in (1, 2, 3, 40):
        kept = Snapshots(n)
        for t in range(1, 60 * n):
            kept.offer(t)
            assert kept.n_offered == t
            if t <= n:
                assert kept.states == list(range(1, t + 1))
                continue
            assert min(kept.states) > t // 2
            assert len(kept.states) == (n if t >= 2 * n else t - t // 2)
            gaps = np.diff([t // 2, *kept.states, t])
            assert gaps.max() <= max(1, 2 * (t / 2) / n)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_that_goes_on_pools_as_many_snapshots(seed):
    engine = PMFVB(50, n_snapshots=10, max_iter=300, max_rhat=1.0001)
    posterior = infer(gaussian(PRECISION), engine, random_state=seed)
    assert posterior.n_iter == 300
    assert len(posterior) == 50 * 10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pooled_particles_are_thinned_and_have_the_moments_of_the_pool(seed):
    """Exact ones, since the density is normal; with several blocks they stay where they are."""
    engines = [
        PMFVB(n_points=n_points, blocks=blocks) for blocks in (1, 2) for n_points in (None, 150)
    ]
    moved_all, moved, all_of_them, thinned = (
        infer(gaussian(PRECISION), engine, random_state=seed) for engine in engines
    )
    assert len(moved_all) == len(all_of_them) == 200 * 60
    assert len(moved) == len(thinned) == 150
    assert_allclose(moved.mean(), moved_all.mean(), atol=1e-8)
    assert_allclose(moved.cov(), moved_all.cov(), atol=1e-8)
    kept = {tuple(row) for row in all_of_them.particles.round(12)}
    assert {tuple(row) for row in thinned.particles.round(12)} <= kept


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_stops_at_its_tolerance_or_says_that_it_did_not(seed):
    stopped = infer(gaussian(PRECISION), PMFVB(max_iter=5000), random_state=seed)
    assert stopped.n_iter == 40 + 2 * 60
    assert stopped.diagnostics["stein_residual"] < 0.2
    # From two standard deviations away, with steps far too small to come back.
    engine = PMFVB(step_size=1e-5, n_warmup=24, max_iter=30, blocks=2)
    with pytest.warns(ConvergenceWarning, match=r"a Stein residual above tol=0\.2 is left"):
        infer(gaussian(PRECISION), engine, init=np.full((200, 2), 2.0), random_state=seed)


@pytest.mark.parametrize("blocks", [[[0]], [[0], [0, 1]], [[0], [2]], [], [["a"]], [[0.4, 1.2]]])
def test_blocks_must_partition_the_coordinates(blocks):
    with pytest.raises(ValueError, match=r"blocks must partition the coordinates 0\.\.1"):
        infer(gaussian(PRECISION), PMFVB(blocks=blocks))


def test_more_blocks_than_coordinates_are_one_each(seed):
    assert len(infer(gaussian(PRECISION), PMFVB(blocks=7), random_state=seed)) > 0


def test_after_minibatches_few_particles_are_scored_on_all_rows(rng, seed, monkeypatch):
    """Or the check would cost more than the steps. They are all of different chains."""
    target, sizes = logistic_target(rng), []
    original = target.score

    def score(theta, rows=None):
        if rows is None:
            sizes.append(len(theta))
        return original(theta, rows)

    monkeypatch.setattr(target, "score", score)
    posterior = infer(target, PMFVB(batch_size=50), random_state=seed)
    assert len(posterior) == 1000
    few = sum(size for size in sizes if size > 1)
    assert few == 151
    # Of each of 200 particles there are five, one behind the other.
    places = np.searchsorted(np.arange(1, 1001) / 1000, (np.arange(few) + 0.5) / few)
    assert len(np.unique(places // 5)) == few


@pytest.mark.slow
def test_minibatches_agree_with_all_rows(rng, seed):
    """Five standard errors of 2000 effective draws for each of the two."""
    target = logistic_target(rng, 20_000)
    full = infer(target, PMFVB(), random_state=seed)
    for order in (1, 2):
        engine = PMFVB(batch_size=500, control_variate=order)
        cheap = infer(target, engine, random_state=seed)
        error = (cheap.mean() - full.mean()) / full.std()
        assert np.abs(error).max() < 5 * np.sqrt(2 / 2000)
        assert np.abs(cheap.std() / full.std() - 1).max() < 5 * np.sqrt(2 / 2000)


@pytest.mark.parametrize("engine", [PMFVB, SVGD])
def test_minibatches_know_rare_categories(engine, rng, seed):
    """Most hold none of its fifteen rows, as a Hessian at the mode knows."""
    X = np.column_stack([rng.normal(size=(20_000, 2)), np.arange(20_000) < 15])
    y = (X @ [1.0, -0.5, 0.8] + rng.logistic(size=20_000) > 0.5).astype(int)
    target = LogisticTarget(X, y)
    full = infer(target, "mcmc", random_state=seed)
    cheap = infer(target, engine(batch_size=1000), random_state=seed)
    assert_allclose(cheap.std()[3] / full.std()[3], 1.0, atol=0.06)
