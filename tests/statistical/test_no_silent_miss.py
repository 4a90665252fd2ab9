"""A wrong posterior comes with a warning, and a warning is not raised for nothing.

Rare categories, each seen with one class only, have one-sided coefficients, on which engines that
work without the map for them fail. The truth is a long run of Hamiltonian Monte Carlo in the map,
whose own error is measured.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import t
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from densities import rare_categories, student_t
from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    LogDensity,
    infer,
)
from skstein.diagnostics import ess, split_rhat
from skstein.inference import ENGINES, LaplaceDraws
from skstein.inference._run.stein_identities import MAX_OWN_MISFIT
from skstein.priors import AdaptiveRidge, HalfStudentT, Normal, StudentT
from skstein.samplers import HMC
from skstein.targets import LinearTarget, LogisticTarget, Transformed, laplace_approximation
from skstein.targets.one_sided import one_sided_bijection
from small import crossed, later

MISS = 0.2  # posterior standard deviations, root mean square over coordinates


@dataclass
class Problem:
    target: LogisticTarget
    rare: tuple
    mean: np.ndarray
    sd: np.ndarray

    def error(self, posterior):
        return np.sqrt(np.mean(((posterior.mean() - self.mean) / self.sd) ** 2))


def make_problem(seed, n, n_regular, sizes, prior_sd):
    """Standardised features, the last of them dummies of few rows that share their class."""
    rng = np.random.default_rng(seed)
    X, y = rare_categories(rng, n, n_regular, sizes)
    prior = Normal(prior_sd)
    target = LogisticTarget(X, y, prior=prior, intercept_prior=prior)

    rare = np.arange(1 + n_regular, target.dim)
    laplace = laplace_approximation(target)
    in_map = Transformed(target, one_sided_bijection(target, laplace, rare, target, turned=True))
    sampler = HMC()
    chains = sampler.warm_up(in_map, 100, in_map.sample_start(rng, 32), rng)
    for _ in range(4):  # a chain may take long to leave a narrow place
        chains, draws, _, _ = sampler.draw(in_map, 800, chains)
        theta = in_map.bijection.forward(draws.reshape(-1, target.dim))
        draws = theta.reshape(draws.shape)
        # The truth's own error is below a tenth of what counts as a miss.
        error = 1 / np.sqrt(ess(draws, rank=False).min())
        if split_rhat(draws).max() < 1.02 and error < 0.1 * MISS:
            names = tuple(np.array(target.names)[rare])
            return Problem(target, names, theta.mean(axis=0), theta.std(axis=0))
    raise AssertionError("the truth was not found")


@pytest.fixture(scope="module", params=[later(1.0), 10.0], ids=lambda sd: f"prior_sd={sd:g}")
def small(request):
    seed = request.config.getoption("seed")
    return make_problem(seed, n=500, n_regular=8, sizes=(2, 3, 4), prior_sd=request.param)


@pytest.fixture(scope="module", params=[1.0, 10.0], ids=lambda sd: f"prior_sd={sd:g}")
def large(request):
    seed = request.config.getoption("seed")
    sizes = (1, 2, 3, 4, 6, 8)
    return make_problem(seed, n=2000, n_regular=22, sizes=sizes, prior_sd=request.param)


def run(target, engine, seed):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = infer(target, engine, random_state=seed)
    assert all(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return posterior, [str(warning.message) for warning in caught]


without_the_map = pytest.mark.parametrize(
    ("engine", "handicap"), crossed(ENGINES, [{"one_sided": False}, {"whiten": False}])
)


def check_without_the_map(problem, engine, handicap, seed):
    # Chains would go on in vain, as long as they may.
    short = {"max_draws": 300} if "mcmc" in engine else {}
    posterior, messages = run(problem.target, ENGINES[engine](**handicap, **short), seed)
    assert np.isfinite(posterior.particles).all()
    assert messages or problem.error(posterior) < MISS
    (message,) = (text for text in messages if "one-sided" in text)
    assert ", ".join(problem.rare) in message


@without_the_map
def test_without_the_map_a_warning_names_the_coordinates(small, engine, handicap, seed):
    check_without_the_map(small, engine, handicap, seed)


@pytest.mark.slow
@without_the_map
def test_without_the_map_a_warning_names_the_coordinates_of_larger_data(
    large, engine, handicap, seed
):
    check_without_the_map(large, engine, handicap, seed)


@pytest.mark.parametrize("engine", ENGINES)
def test_in_the_map_every_engine_is_right_or_says_so(small, engine, seed):
    posterior, messages = run(small.target, engine, seed)
    assert messages or small.error(posterior) < MISS


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_in_the_map_every_engine_is_right_or_says_so_on_larger_data(large, engine, seed):
    posterior, messages = run(large.target, engine, seed)
    assert messages or large.error(posterior) < MISS


def test_without_the_map_some_engine_misses(small, seed):
    """Or the tests above would test nothing."""
    posterior, _ = run(small.target, LaplaceDraws(one_sided=False), seed)
    assert small.error(posterior) > MISS


@pytest.mark.parametrize("engine", ENGINES)
def test_particles_that_cannot_arrive_are_reported(engine, seed):
    """Unwhitened scales of 1000 and 0.001 with far too few iterations, started far away."""
    scale = np.array([1e3, 1e-3])
    target = LogDensity(
        lambda t: -0.5 * (t / scale) ** 2 @ np.ones(2), score=lambda t: -t / scale**2, dim=2
    )
    few = {
        "pmd": {"max_iter": 1, "n_moves": 1},
        "pmfvb": {"n_warmup": 24, "max_iter": 26},
        "fwss": {"max_iter_oracle": 2, "n_sweeps": 0},
        "svgd": {"max_iter": 2},
        "stein-points": {"n_warmup": 5},
        "mcmc": {"n_warmup": 5, "n_draws": 20, "max_draws": 20},
        "ksd-mcmc": {"n_warmup": 5, "n_draws": 20, "max_draws": 20},
        "laplace": {},
    }
    start = np.full((1000, 2), [5e3, 5e-3])
    engine = ENGINES[engine](whiten=False, **few[engine])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            posterior = infer(target, engine, init=start, random_state=seed)
        except FloatingPointError:
            return
    error = np.abs(posterior.mean()) / scale
    assert np.isfinite(posterior.particles).all()
    assert error.max() < MISS or any(
        issubclass(warning.category, ConvergenceWarning) for warning in caught
    )


@pytest.mark.parametrize("engine", [later("pmfvb"), "svgd", later("fwss"), later("mcmc")])
def test_a_tail_too_heavy_to_follow_is_reported(engine, seed):
    """A multivariate t of 30 coordinates; at its mode it is like a normal a quarter as wide."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = infer(student_t(30, df=2.0), engine, random_state=seed)
    low, high = posterior.quantile([0.1, 0.9])
    assert caught or abs((high - low).mean() / (2 * t(2.0).ppf(0.9)) - 1.0) < 0.2


def funnel(dim):
    """The logarithm of a scale, N(0, 1/2), and coordinates that are normal with that scale."""

    def log_density(theta):
        u, square = theta[:, 0], np.sum(theta[:, 1:] ** 2, axis=1)
        return -2.0 * u**2 - (dim - 1) * u - 0.5 * square * np.exp(-2.0 * u)

    def score(theta):
        u, rest = theta[:, :1], theta[:, 1:]
        precision = np.exp(-2.0 * u)
        square = np.sum(rest**2, axis=1, keepdims=True)
        return np.hstack([-4.0 * u - (dim - 1) + square * precision, -rest * precision])

    return LogDensity(log_density, score=score, dim=dim)


@pytest.mark.filterwarnings("ignore:FWSS.*have another spread")  # in one fit of fifty
@pytest.mark.parametrize("engine", ["pmd", "fwss", "svgd", "stein-points"])
def test_a_funnel_is_followed(engine, seed):
    """Against exact draws, whose quantiles are known to .02 standard deviations."""
    dim, rng = 6, np.random.default_rng(seed)
    posterior = infer(funnel(dim), engine, random_state=seed)
    truth = rng.standard_normal((20_000, dim))
    truth[:, 0] *= 0.5
    truth[:, 1:] *= np.exp(truth[:, :1])
    tenths = np.quantile(truth, [0.1, 0.9], axis=0)
    miss = (posterior.quantile([0.1, 0.9]) - tenths) / truth.std(axis=0)
    assert np.sqrt(np.mean(miss**2)) < MISS
    assert np.abs(posterior.mean() / truth.std(axis=0)).max() < MISS


@pytest.mark.parametrize("engine", ["pmd", "fwss", "svgd", "stein-points"])
@pytest.mark.parametrize(("n", "p"), [(8, 5), (12, 20)])
def test_noise_that_few_rows_leave_open_is_followed(engine, n, p, seed):
    """Against quadrature over the noise, given which coefficients are normal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = X @ rng.normal(size=p) + rng.normal(size=n)
    target = LinearTarget(X, y, prior=Normal(1.0), intercept_prior=Normal(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # In 1 of 121 fits, by chance: a mean of 1600 draws 4.7 standard errors from another.
        warnings.filterwarnings("ignore", "SteinPoints: the scores are not those")
        posterior = infer(target, engine, random_state=seed)

    Z = np.column_stack([np.ones(n), X])
    log_v, gram = np.linspace(-16.0, 8.0, 1000), Z @ Z.T
    log_p, mean, square = [], [], []
    for v, log_prior in zip(np.exp(log_v), HalfStudentT().log_density(log_v[:, None]), strict=True):
        inverse = np.linalg.inv(gram + v * np.eye(n))
        log_p.append(log_prior - 0.5 * (y @ inverse @ y - np.linalg.slogdet(inverse)[1]))
        mean.append(Z.T @ inverse @ y)
        square.append(mean[-1] ** 2 + 1.0 - np.einsum("ij,ik,kj->j", Z, inverse, Z))
    weights = softmax(log_p)
    mean = weights @ np.array(mean)
    sd = np.sqrt(weights @ np.array(square) - mean**2)
    assert np.abs((posterior.mean()[:-1] - mean) / sd).max() < 0.15
    assert np.abs(np.log(posterior.std()[:-1] / sd)).max() < 0.25


def two_modes(dim, apart, minor, width=1.0):
    """Normals at both ends of a line, the first of a deviation and with the share ``minor``."""
    variances = np.array([width, 1.0]) ** 2
    centres = np.array([[-1.0], [1.0]]) * 0.5 * apart / np.sqrt(dim) * np.ones(dim)
    log_share = np.log([minor, 1.0 - minor]) - 0.5 * dim * np.log(variances)

    def parts(theta):
        return log_share - 0.5 * np.sum((theta[:, None] - centres) ** 2, axis=2) / variances

    def score(theta):
        shares = softmax(parts(theta), axis=1) / variances
        return shares @ centres - shares.sum(axis=1, keepdims=True) * theta

    return LogDensity(
        lambda theta: logsumexp(parts(theta), axis=1), score=score, dim=dim, initial=centres[0]
    )


@pytest.mark.parametrize("engine", ["pmd", "fwss", "svgd", "laplace"])
@pytest.mark.parametrize("dim", [2, 10, 12])
def test_separated_modes_are_reported(engine, dim, seed):
    """Whatever engine, where the search began in one of two; particles of PMD may find both."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = infer(two_modes(dim, 6.0, 0.5), engine, random_state=seed)
    share = posterior.weights @ (posterior.particles.sum(axis=1) > 0.0)
    found = abs(share - 0.5) < 0.12
    assert found or any("initial=" in str(warning.message) for warning in caught)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
@pytest.mark.parametrize("dim, apart, width", [(2, 50.0, 1.0), (5, 1.1, 0.1)])
def test_modes_far_out_and_narrow_ones_are_reported(engine, dim, apart, width, seed):
    """Chains agree, and have not been there."""
    with pytest.warns(ConvergenceWarning):
        infer(two_modes(dim, apart, 0.5, width), engine, random_state=seed)


@pytest.mark.parametrize("engine", ["mcmc", "svgd", "pmd", "pmfvb"])
def test_a_few_per_cent_far_out_are_found_or_reported(engine, seed):
    """They move no quantile between 10 and 90 %, and make up three quarters of the variance."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = infer(two_modes(1, 0.0, 0.05, 8.0), engine, random_state=seed)
    found = posterior.std()[0] > 0.55 * np.sqrt(0.95 + 0.05 * 64.0)
    assert found or any("another spread" in str(warning.message) for warning in caught)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("engine", ["mcmc", "svgd"])
def test_a_heavy_prior_of_the_intercept_that_rows_contradict_is_reported(engine, seed):
    """A quarter of the mass is at 4, where the prior is; the rows are at 0."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 1)), rng.normal(size=6)
    prior = StudentT(df=1.0, scale=0.003, loc=4.0)
    model = BayesianLinearRegression(
        engine, intercept_prior=prior, prior=Normal(1e-3), standardize=False, random_state=seed
    )
    with pytest.warns(ConvergenceWarning, match="another mode|another spread"):
        model.fit(X, y)


def test_modes_where_particles_are_are_no_reason_to_warn(seed):
    target = two_modes(2, 4.0, 0.4)
    with warnings.catch_warnings():
        # Few crossings, and few particles in a mode, are other reasons.
        warnings.filterwarnings("ignore", ".*(R-hat|another spread)")
        posterior = infer(target, "mcmc", random_state=seed)
    assert "other_mass" not in posterior.diagnostics
    mean, sd = 0.2 * 2.0 / np.sqrt(2.0), np.sqrt(1.0 + 4.0**2 / 2.0 * 0.24)
    assert np.abs(posterior.mean() - mean).max() < MISS * sd


def test_the_main_mode_is_found_from_another(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = infer(two_modes(10, 12.0, 1e-4), "svgd", random_state=seed)
    assert np.abs(posterior.mean() - 6.0 / np.sqrt(10)).max() < MISS


def test_tails_that_are_too_heavy_for_particles_are_found_or_reported(seed):
    """Of separable rows under a Student t prior, where particles find .75 to .9 of a width."""
    X, y = load_iris(return_X_y=True)
    model = BayesianLogisticRegression("pmfvb", prior=StudentT(), random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(X, y)
    low, high = model.posterior_.quantile([0.05, 0.95])
    # Of two runs of chains with 17,000 effective draws and more, which agree to a tenth.
    widths = [54.8, 5.2, 8.7, 11.0, 22.3, 39.1, 3.9, 6.4, 3.3, 7.5, 47.8, 3.9, 7.0, 9.4, 14.3]
    reasons = "chains along them do not agree", "chains find other"
    warned = any(reason in str(warning.message) for warning in caught for reason in reasons)
    assert warned or np.all(high - low > 0.65 * np.array(widths))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_quantiles_than_those_of_chains_along_tails_are_reported(seed):
    """Of more coefficients than rows, nearly collinear, each with a scale of its own."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 6)) @ rng.normal(size=(6, 54)) + 0.1 * rng.normal(size=(25, 54))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=25) > 0
    model = BayesianProbitRegression("pmfvb", prior=AdaptiveRidge(), random_state=seed)
    with pytest.warns(ConvergenceWarning, match="chains find other quantiles"):
        model.fit(X, y)
    assert model.posterior_.diagnostics["pilot_misfit"] > MAX_OWN_MISFIT
