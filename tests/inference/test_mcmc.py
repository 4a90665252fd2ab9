"""Chains against densities that they must leave invariant, and what makes thinned MCMC warn."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gamma, polygamma
from scipy.stats import kstest, norm, t
from sklearn.exceptions import ConvergenceWarning

from densities import standard_normal, student_t
from skstein import BayesianLinearRegression, LogDensity, infer
from skstein.inference import MCMC, KSDThinnedMCMC, LaplaceDraws
from skstein.inference._building_blocks.chain_checks import draws_misfit
from skstein.inference._building_blocks.zero_variance import (
    monte_carlo_errors,
    zero_variance_moments,
)
from skstein.metrics import ksd
from skstein.posterior import ParticlePosterior
from skstein.priors import Horseshoe, Normal
from skstein.samplers import HMC, MALA, RWM, SGLD
from skstein.targets import ControlVariate, LogisticTarget, Transformed, laplace_approximation
from skstein.targets.base import NotANumber
from skstein.thinning import OnlineKSDThinner
from skstein.thinning.moments import match_moments
from small import later


def logistic(rng, n=400):
    X = rng.normal(size=(n, 2))
    return LogisticTarget(X, (X[:, 0] + rng.logistic(size=n) > 0).astype(float))


def test_hamiltonian_chains_leave_a_density_invariant(rng):
    """Exact logistic draws remain logistic; no warm-up, so a step of 0.5 throughout."""
    target = LogDensity(
        lambda t: (-t - 2 * np.logaddexp(0, -t))[:, 0], score=lambda t: -np.tanh(0.5 * t), dim=1
    )
    sampler = HMC()
    chains = sampler.warm_up(target, 0, rng.logistic(size=(4000, 1)), rng)
    chains, draws, _, _ = sampler.draw(target, 10, chains)
    assert kstest(draws[:, -1, 0], "logistic").pvalue > 1e-6
    assert abs(np.corrcoef(draws[:, 0, 0], draws[:, -1, 0])[0, 1]) < 0.5


def test_hamiltonian_chains_forget_a_wrong_start(rng):
    sampler = HMC()
    start = 5.0 + 3.0 * rng.normal(size=(2000, 3))
    chains = sampler.warm_up(standard_normal(3), 30, start, rng)
    _, draws, _, _ = sampler.draw(standard_normal(3), 1, chains)
    assert np.abs(draws[:, 0].mean(axis=0)).max() < 5 / np.sqrt(2000)
    assert np.abs(draws[:, 0].var(axis=0) - 1).max() < 5 * np.sqrt(2 / 2000)


def test_scores_of_draws_are_the_targets(rng):
    target = logistic(rng)
    sampler = HMC()
    chains = sampler.warm_up(target, 10, 0.1 * rng.normal(size=(4, 3)), rng)
    _, draws, scores, acceptance = sampler.draw(target, 20, chains)
    assert draws.shape == scores.shape == (4, 20, 3)
    expected = target.score(draws.reshape(-1, 3)).reshape(scores.shape)
    assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
    assert 0 < acceptance <= 1


def test_a_trajectory_that_overflows_is_rejected(rng):
    """-x^4 / 4 from 1000: a step of 0.5 runs to infinity, where the density has no value."""

    def log_density(t):
        with np.errstate(over="ignore"):
            return -0.25 * t[:, 0] ** 4

    def score(t):
        with np.errstate(over="ignore"):
            return -(t**3)

    target = LogDensity(log_density, score=score, dim=1)
    sampler = HMC(trajectory=8.0)
    chains = sampler.warm_up(target, 0, np.full((3, 1), 1e3), rng)
    _, draws, _, acceptance = sampler.draw(target, 2, chains)
    assert_array_equal(draws, np.full((3, 2, 1), 1e3))
    assert acceptance == 0.0


def test_a_chain_that_starts_where_the_density_is_infinite_is_named(rng):
    target = LogDensity(lambda t: np.where(t[:, 0] > 5, -np.inf, 0.0), score=lambda t: -t, dim=1)
    with pytest.raises(FloatingPointError, match="where chain 1 starts"):
        HMC().warm_up(target, 0, np.array([[0.0], [9.0]]), rng)


def test_hamiltonian_chains_refuse_noisy_scores(rng):
    target = logistic(rng)
    noisy = ControlVariate(target, laplace_approximation(target).mode, 50)
    with pytest.raises(ValueError, match='HMC cannot use minibatches: use sampler="sgld"'):
        HMC().warm_up(noisy, 1, np.zeros((2, 3)), rng)


def test_langevin_chains_on_all_rows_have_the_variance_of_a_normal(rng):
    """Exactly 1 with the noise of Leimkuhler & Matthews, at a step size of 1."""
    sampler = SGLD(step_size=1.0)
    chains = sampler.warm_up(standard_normal(), 30, rng.normal(size=(5000, 2)), rng)
    _, draws, _, _ = sampler.draw(standard_normal(), 2, chains)
    for i in range(2):
        assert np.abs(draws[:, i].var(axis=0) - 1).max() < 5 * np.sqrt(2 / 5000)


def test_langevin_chains_on_minibatches_are_close(rng, seed):
    """Against the Gaussian at the mode of all 5000 rows."""
    target = logistic(rng, n=5000)
    truth = infer(target, LaplaceDraws(4000), random_state=seed)
    engine = KSDThinnedMCMC(sampler="sgld", batch_size=200)
    posterior = infer(target, engine, random_state=seed)
    error = np.abs(posterior.mean() - truth.mean()) / truth.std()
    assert error.max() < 0.2
    assert_allclose(posterior.std() / truth.std(), 1.0, atol=0.15)
    # Kept scores would be those of minibatches; these are of all rows.
    assert_allclose(posterior.scores, target.score(posterior.particles), rtol=1e-6, atol=1e-6)


def test_minibatches_beside_a_wall_are_refused(rng):
    """Five rows of one class alone know of a coefficient."""
    X = rng.normal(size=(2000, 2))
    X[:, 1] = np.arange(2000) < 5
    y = (X[:, 0] + rng.logistic(size=2000) > 0) | (X[:, 1] > 0)
    target = LogisticTarget(X, y.astype(float), prior=Normal(10.0))
    with pytest.raises(ValueError, match=r"one-sided, as in x1: .* use surrogate"):
        infer(target, MCMC(sampler="sgld", batch_size=100), random_state=0)


def test_beside_a_wall_a_surrogate_is_advised_only_where_there_is_one(rng):
    X = rng.normal(size=(500, 3))
    y = X[:, 0] + rng.normal(size=500)
    model = BayesianLinearRegression(MCMC(sampler="sgld", batch_size=100), prior=Horseshoe())
    with pytest.raises(ValueError, match='use all rows with sampler="hmc"'):
        model.fit(X, y)


def two_modes(distance):
    """Equal mixture of normal densities at -distance and distance."""
    return LogDensity(
        lambda t: np.logaddexp(-0.5 * (t - distance) ** 2, -0.5 * (t + distance) ** 2)[:, 0],
        score=lambda t: distance * np.tanh(distance * t) - t,
        dim=1,
        initial=[distance],
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_chains_stuck_in_different_modes_are_reported(seed):
    start = np.where(np.arange(8) < 4, 8.0, -8.0)[:, None]
    with pytest.warns(ConvergenceWarning, match=r"the largest R-hat is above 1\.01"):
        infer(two_modes(8.0), "ksd-mcmc", init=start, random_state=seed)


@pytest.mark.slow
def test_steps_that_are_too_long_for_the_arms_of_a_banana_are_shortened(seed):
    """N(0, 1), and N(x^2, 0.16) given it; most chains of the first step have 0.7 of the spread."""

    def score(t):
        error = (t[:, 1] - t[:, 0] ** 2) / 0.16
        return np.stack([2.0 * t[:, 0] * error - t[:, 0], -error], axis=1)

    target = LogDensity(
        lambda t: -0.5 * (t[:, 0] ** 2 + (t[:, 1] - t[:, 0] ** 2) ** 2 / 0.16), score, dim=2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the error that is left
        posteriors = [infer(target, random_state=seed + offset) for offset in range(3)]
    spread = [posterior.std()[1] / np.sqrt(2.16) for posterior in posteriors]
    assert 0.8 < np.mean(spread) < 1.2


def test_a_density_that_overflows_far_out_is_the_engines_to_reject():
    """As that of a funnel, where 0 times infinity is not a number."""
    nowhere = LogDensity(lambda t: np.full(len(t), np.nan), score=np.zeros_like, dim=2)
    assert np.isnan(nowhere.log_density(np.full((1, 2), 1e200))).all()
    with pytest.raises(NotANumber, match="log_density returned NaN"):
        nowhere.log_density(np.zeros((1, 2)))


def test_chains_that_cross_between_modes_are_right(seed):
    """Variance 1 + distance^2, from draws that are correlated over crossings."""
    posterior = infer(two_modes(1.5), KSDThinnedMCMC(n_draws=3000), random_state=seed)
    assert abs(posterior.mean()[0]) < 0.3
    assert_allclose(posterior.std()[0], np.sqrt(1 + 1.5**2), rtol=0.1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_too_few_draws_are_reported(seed):
    with pytest.warns(ConvergenceWarning, match="smallest effective sample size is below 400"):
        infer(standard_normal(), KSDThinnedMCMC(n_draws=20, max_draws=20), random_state=seed)


def test_chains_go_on_until_there_are_enough_draws(seed):
    """For means and for outer quantiles, whose errors may be half as large again."""
    lengths = np.zeros(2)
    for i, most in enumerate((0.06, 0.02)):
        for repetition in range(3):
            engine = MCMC(max_mcse=most, n_draws=20)
            posterior = infer(standard_normal(), engine, random_state=3 * seed + repetition)
            assert posterior.diagnostics["mcse"].max() <= most
            assert posterior.diagnostics["ess"].min() >= 400
            lengths[i] += posterior.n_iter - 100
    # Errors fall with the root of the number of draws.
    assert lengths[1] > 3 * lengths[0]


def test_the_error_told_is_that_of_quantiles(rng):
    """Of independent normal draws moved to the exact moments, by the spread over replicates.

    What is told is larger by a sixth, and the spread is known to a twentieth.
    """
    errors, told = [], []
    for _ in range(100):
        z = rng.normal(size=(4, 250, 2))
        mean, quantile = monte_carlo_errors(z, -z)
        told.append(quantile)
        flat = z.reshape(-1, 2)
        moved = match_moments(flat, *zero_variance_moments(flat, -flat))
        errors.append(np.quantile(moved, 0.05, axis=0) - norm.ppf(0.05))
        assert mean.max() < 1e-10
    assert 0.9 < np.mean(told) / np.std(errors) < 1.5


def test_errors_of_chains_that_ran_off_are_those_of_their_draws(rng, capfd):
    """A regression on scores whose squares overflow would stop the fit, and LAPACK print."""
    z = rng.normal(size=(4, 250, 2))
    scores = np.where(np.arange(250)[:, None] % 50, -z, -1e160 * z)
    with np.errstate(over="ignore"):
        assert_array_equal(monte_carlo_errors(z, scores), monte_carlo_errors(z, None))
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_points_too_few_to_carry_the_moments_are_reported(seed):
    with pytest.warns(ConvergenceWarning, match="kept points miss the chains' means or"):
        infer(standard_normal(8), KSDThinnedMCMC(n_particles=3), random_state=seed)


@pytest.mark.parametrize("thinner", [None, OnlineKSDThinner()])
def test_kept_points_have_a_smaller_discrepancy(thinner, rng, seed):
    """Than as many independent draws, by a factor of two in each of five comparisons."""
    posterior = infer(standard_normal(), KSDThinnedMCMC(thinner=thinner), random_state=seed)
    for _ in range(5):
        independent = rng.normal(size=posterior.particles.shape)
        assert posterior.ksd() < 0.5 * ksd(independent, -independent)
    assert_allclose(posterior.weights, 1.0 / len(posterior))


def draws_of(posterior):
    draws = np.concatenate(posterior.state.draws, axis=1)
    return posterior.whitening.forward(draws.reshape(-1, draws.shape[2]))


def test_kept_points_have_the_moments_of_a_normal_and_else_are_draws(rng, seed):
    """To rounding, where 4800 draws have an error of 0.02."""
    A = rng.normal(size=(5, 5))
    precision = A @ A.T + np.eye(5)
    target = LogDensity(
        lambda t: -0.5 * np.einsum("ij,jk,ik->i", t, precision, t),
        score=lambda t: -t @ precision,
        dim=5,
    )
    posterior = infer(target, "ksd-mcmc", random_state=seed)
    assert_allclose(posterior.mean(), 0.0, atol=1e-9)
    assert_allclose(np.cov(posterior.particles.T, ddof=0) @ precision, np.eye(5), atol=1e-8)
    plain = infer(target, KSDThinnedMCMC(thinner=OnlineKSDThinner()), random_state=seed)
    assert {tuple(point) for point in plain.particles} <= {tuple(draw) for draw in draws_of(plain)}


class Funnel:
    """The first coordinate is the logarithm of the scale of the others."""

    def forward(self, z):
        return np.column_stack([z[:, :1], z[:, 1:] * np.exp(z[:, :1])])


def test_kept_points_have_the_quantiles_of_coordinates_that_bend(rng):
    """Balanced in those of chains they are off by .22 in these, those of the thinner by more."""
    target = Transformed(standard_normal(10), Funnel())
    for engine, most in ((MCMC(), 0.2), (KSDThinnedMCMC(n_particles=150), 1.2)):
        errors = []
        for draws in rng.normal(size=(4, 8, 600, 10)):
            state = engine._new_state([])
            engine._take_in(state, draws, -draws)
            state.draws, state.scores = [draws], [-draws]
            errors.append(draws_misfit(engine._kept(state, target), state, target))
            if state.thinner is not None:
                raw = ParticlePosterior(state.thinner.samples_)
                assert errors[-1] <= draws_misfit(raw, state, target)
        assert np.mean(errors) < most


def test_control_variates_lower_the_error_of_moments(rng):
    """Of standardised log-gamma coordinates, of skewness -0.34, from independent draws."""
    shape, n_replicates = 9.0, 50
    mean, sd = polygamma(0, shape), np.sqrt(polygamma(1, shape))
    errors, plain = [], []
    for _ in range(n_replicates):
        x = np.log(rng.gamma(shape, size=(500, 3)))
        z, scores = (x - mean) / sd, (shape - np.exp(x)) * sd
        found = zero_variance_moments(z, scores)
        for kept, (m, c) in ((errors, found), (plain, (z.mean(axis=0), np.cov(z.T)))):
            kept.append(np.append(m, (c - np.eye(3))[np.triu_indices(3)]))
    size, before = (np.sqrt(np.mean(np.square(part), axis=0)) for part in (errors, plain))
    assert (size[:3] < 0.4 * before[:3]).all()
    assert (size[3:] < 0.8 * before[3:]).all()
    assert (np.abs(np.mean(errors, axis=0)) < 4 * size / np.sqrt(n_replicates)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", [{"n_particles": 30}, {"n_draws": 10, "max_draws": 10}])
def test_points_too_few_for_a_covariance_are_draws(options, seed):
    engine = KSDThinnedMCMC(n_chains=3, n_warmup=50, **options)
    posterior = infer(standard_normal(20), engine, random_state=seed)
    assert 20 < len(posterior) <= 30  # a draw that repeats the one before it is no new point
    assert {tuple(point) for point in posterior.particles} <= {
        tuple(draw) for draw in draws_of(posterior)
    }


def test_no_kept_point_is_moved_out_of_the_support(seed):
    """An exponential density, whose score does not know where it ends."""
    target = LogDensity(
        lambda t: np.where(t[:, 0] > 0.0, -t[:, 0], -np.inf),
        score=lambda t: np.full_like(t, -1.0),
        dim=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = infer(target, "ksd-mcmc", init=np.ones((8, 1)), random_state=seed)
    assert posterior.particles.min() > 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", [later("mcmc"), "ksd-mcmc"])
def test_heavy_tails_are_kept_by_draws_at_even_steps(inference, seed):
    """In a multivariate t the discrepancy prefers points several times as far out as the draws."""
    posterior = infer(student_t(30, df=5.0), inference, random_state=seed)
    low, high = posterior.quantile([0.1, 0.9])
    assert abs((high - low).mean() / (2 * t(5.0).ppf(0.9)) - 1.0) < 0.12


def test_diagnostics_are_there_by_coordinate(seed):
    posterior = infer(standard_normal(3), "ksd-mcmc", random_state=seed)
    for key in ("rhat", "ess", "mcse", "moment_gap", "sd_ratio"):
        assert posterior.diagnostics[key].shape == (3,)
    assert posterior.diagnostics["ess"].min() >= 400
    assert posterior.diagnostics["rhat"].max() <= 1.01


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_run_stopped_after_a_few_draws_says_so(rng):
    target = standard_normal()
    engine = KSDThinnedMCMC(n_draws=20)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 draws of each chain"):
        posterior = infer(target, engine, random_state=0, callback=lambda *args: True)
    assert np.isfinite(posterior.particles).all()


@pytest.mark.parametrize(
    "sampler", ["hmc", "mala", "mams", "rwm", MALA(thinning=5), RWM(thinning=20)]
)
def test_every_sampler_finds_a_normal(sampler, seed):
    posterior = infer(
        standard_normal(), KSDThinnedMCMC(sampler=sampler, max_rhat=1.05), random_state=seed
    )
    assert np.abs(posterior.mean()).max() < 0.1
    assert_allclose(posterior.std(), 1.0, atol=0.12)


def test_microcanonical_chains_of_a_single_coordinate(seed):
    """A direction is a sign there, so that trajectories are those of HMC."""
    target = LogDensity(
        lambda t: (-t - 2 * np.logaddexp(0, -t))[:, 0], score=lambda t: -np.tanh(0.5 * t), dim=1
    )
    posterior = infer(target, MCMC(sampler="mams"), random_state=seed)
    assert posterior.converged
    assert kstest(posterior.chains[:, ::10].ravel(), "logistic").statistic < 0.1
    assert_allclose(posterior.std(), np.pi / np.sqrt(3.0), rtol=0.1)


def flat_topped(power, root, location):
    """exp(-|u_1|^power - u_2^2 / 2), about ``location``, of theta = root u; with its spreads."""
    inverse = np.linalg.inv(root)

    def log_density(t):
        u = (t - location) @ inverse.T
        return -(u[:, 0] ** power) - 0.5 * u[:, 1] ** 2

    def score(t):
        u = (t - location) @ inverse.T
        return -np.stack([power * u[:, 0] ** (power - 1), u[:, 1]], axis=1) @ inverse

    variances = np.array([gamma(3 / power) / gamma(1 / power), 1.0])
    return LogDensity(log_density, score=score, dim=2), np.sqrt(root**2 @ variances)


@pytest.mark.parametrize("engine", ["mcmc", "ksd-mcmc", "pmfvb"])
@pytest.mark.parametrize(("power", "location"), [(10, 0.0), (4, 3.0)])
@pytest.mark.parametrize(
    "root",
    [
        np.eye(2),
        later(np.diag([1e3, 1.0])),
        np.diag([1e-3, 1.0]),
        later(np.array([[0.1, 0.4], [0.2, -0.4]])),
    ],
    ids=["unit", "wide", "narrow", "correlated"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_flat_top_is_found(engine, power, location, root, seed):
    """The Hessian is almost 0 at its mode, and the Gaussian there many thousand times too wide."""
    target, spread = flat_topped(power, root, location)
    posterior = infer(target, engine, random_state=seed)
    assert_allclose(posterior.std(), spread, rtol=0.1)
    assert np.abs((posterior.mean() - location) / spread).max() < 0.15


def test_a_thinner_of_ones_own(seed):
    """The budget and candidates are the thinner's, and its points are not moved."""
    thinner = OnlineKSDThinner(candidates=2)
    engine = KSDThinnedMCMC(n_particles=60, thinner=thinner)
    posterior = infer(standard_normal(), engine, random_state=seed)
    assert len(posterior) == 60
    assert_allclose(posterior.std(), 1.0, atol=0.1)
    assert_allclose(posterior.scores, -posterior.particles, atol=1e-8)
    assert not hasattr(thinner, "samples_")


def test_a_floor_is_kept(seed):
    engine = KSDThinnedMCMC(thinner=OnlineKSDThinner(budget=30.0))
    assert len(infer(standard_normal(), engine, random_state=seed)) >= 30


def test_a_minibatch_without_control_variate_is_refused(rng):
    engine = KSDThinnedMCMC(sampler=SGLD(batch_size=50))
    with pytest.raises(ValueError, match="batch_size belongs to the engine"):
        infer(logistic(rng), engine)


def test_chains_whose_proposals_diverge_begin_again_with_shorter_steps(seed):
    target = LogDensity(lambda t: -(t**4).sum(axis=1), score=lambda t: -4.0 * t**3, dim=2)
    engine = MCMC(sampler=HMC(trajectory=2.0, step_size=2.0), n_warmup=0, n_draws=100)
    seen = []
    posterior = engine.run(
        target,
        np.random.default_rng(seed),
        init=np.zeros((8, 2)),
        callback=lambda iteration, total, *rest: seen.append((iteration, total)),
    )
    assert 1 <= posterior.state.n_shorter <= 2
    assert posterior.diagnostics["step_size"] < 1.0
    assert "diverged" not in posterior.diagnostics.get("message", "")
    iterations, totals = zip(*seen, strict=True)
    assert (np.diff(iterations) > 0).all()
    assert iterations[-1] == posterior.n_iter <= totals[-1] == engine.max_draws
    variance = gamma(0.75) / gamma(0.25)  # of exp(-x^4)
    assert_allclose(posterior.particles.var(axis=0), variance, rtol=0.15)


def test_divergences_are_reported(seed):
    """A density that ends at a wall, without a word from its score: one run in ten misses it."""
    target = LogDensity(
        lambda t: np.where(np.abs(t[:, 0]) < 1.0, -0.5 * (t**2).sum(axis=1), -np.inf),
        score=lambda t: -t,
        dim=2,
    )

    def reports(random_state):
        with pytest.warns(ConvergenceWarning) as caught:
            engine = MCMC(n_draws=100, max_draws=300)
            infer(target, engine, init=np.zeros((8, 2)), random_state=random_state)
        return any("proposals diverged" in str(warning.message) for warning in caught)

    assert any(reports(4 * seed + repetition) for repetition in range(4))


class Bare:
    """A sampler of one's own, with no more than the two methods."""

    def warm_up(self, *args):
        return HMC().warm_up(*args)

    def draw(self, *args):
        return HMC().draw(*args)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_chains_of_a_sampler_of_ones_own_go_on(seed):
    engine = MCMC(sampler=Bare(), n_draws=100, max_draws=100)
    first = infer(standard_normal(), engine, random_state=seed)
    assert infer(standard_normal(), engine, init=first).chains.shape[1] == 200
    with pytest.raises(ValueError, match="sampler must not change"):
        infer(standard_normal(), MCMC(n_draws=100, max_draws=100), init=first)
