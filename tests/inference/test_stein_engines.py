"""SVGD and Frank-Wolfe Stein Sampling: their fixed points on Gaussians, and their fields."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma, expit, polygamma
from sklearn.exceptions import ConvergenceWarning

from densities import gaussian, standard_normal
from skstein import LogDensity, infer
from skstein.inference import FWSS, SVGD, LazyFWSS, SteinPoints
from skstein.inference._building_blocks.adam import Adam
from skstein.inference._building_blocks.frank_wolfe import Oracle, SteinMeasure
from skstein.inference._building_blocks.particles import repelling_particles
from skstein.inference.lazy_fwss import _typical_draws
from skstein.kernels import IMQ, RBF, Linear
from skstein.metrics import ksd
from skstein.priors import Normal
from skstein.targets import ControlVariate, LogisticTarget, Transformed
from skstein.targets.bijections import Affine

both = pytest.mark.parametrize("engine", [SVGD, FWSS])


def random_gaussian(rng, dim):
    """The target, its mean and its covariance."""
    A = rng.normal(size=(dim, dim))
    precision = A @ A.T / dim + 0.3 * np.eye(dim)
    mean = 3 * rng.normal(size=dim)
    return gaussian(precision, mean), mean, np.linalg.inv(precision)


@both
@pytest.mark.parametrize("dim", [2, 10])
def test_a_gaussian_is_a_fixed_point(engine, dim, rng, seed):
    """Mean and covariance far nearer than the 100 independent draws they start from."""
    target, mean, covariance = random_gaussian(rng, dim)
    posterior = infer(target, engine(), random_state=seed)
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    assert np.abs(inverse @ (posterior.mean() - mean)).max() < 0.03
    white = inverse @ posterior.cov() @ inverse.T
    assert np.abs(white.diagonal() - 1).max() < 0.12
    assert np.abs(white - np.eye(dim)).max() < 0.12


@both
def test_a_start_that_is_off_is_repaired(engine, rng, seed):
    """By one standard deviation and too narrow by half, in whitened coordinates."""
    target, mean, covariance = random_gaussian(rng, 2)
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
    target = standard_normal(3)
    posterior = infer(target, engine(n_particles=100, kernel=kernel), random_state=seed)
    for _ in range(5):
        independent = rng.normal(size=(100, 3))
        assert posterior.ksd() < 0.8 * ksd(independent, -independent)


@both
def test_automatic_numbers_of_particles(engine, rng, seed):
    few = {SVGD: {"max_iter": 1}, FWSS: {"max_iter_oracle": 1, "n_sweeps": 0}}[engine]
    least, many = {SVGD: (200, 480), FWSS: (150, 360)}[engine]
    for dim, expected in ((2, least), (120, many)):
        target = standard_normal(dim)
        posterior = infer(target, engine(**few), init=rng.normal(size=(500, dim)))
        assert len(posterior) == expected
    assert repelling_particles("auto", 600) == 1500


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_posterior_that_was_warned_of_has_not_converged(rng, seed):
    """Also if the engine has no criterion; after a search warnings are often lost."""
    target, *_ = random_gaussian(rng, 6)
    with pytest.warns(ConvergenceWarning, match="two particles per coordinate") as caught:
        posterior = infer(target, SVGD(11), random_state=seed)
    (told,) = (str(w.message) for w in caught)
    assert not posterior.converged
    assert told == f"SVGD: {posterior.diagnostics['message']}"
    assert infer(target, SVGD(), random_state=seed).diagnostics.get("message") is None


@pytest.mark.parametrize("engine", ["svgd", pytest.param("fwss", marks=pytest.mark.slow)])
def test_sums_of_more_coefficients_than_rows_have_the_right_spread(engine):
    """As predictions are, which two particles per coordinate made up to a quarter too wide."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 20)) @ rng.normal(size=(20, 120)) + 2.0 * rng.normal(size=(60, 120))
    y = (rng.random(60) < expit(0.2 * X[:, :5].sum(axis=1))).astype(int)
    target = LogisticTarget(X / X.std(axis=0), y, prior=Normal(0.7))
    told = [infer(target, name, random_state=1) for name in (engine, "mcmc")]
    ours, truth = (found.particles[:, 1:] @ (X / X.std(axis=0)).T for found in told)
    ratios = ours.std(axis=0) / truth.std(axis=0)
    assert 0.95 < ratios.mean() < 1.12
    assert ratios.max() < 1.18


def test_the_drift_of_svgd_dies_out(rng, seed):
    target, *_ = random_gaussian(rng, 3)
    drift = infer(target, SVGD(max_iter=300), random_state=seed).history["drift"]
    assert drift[-1] < 0.1 * drift[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_first_particle_of_fwss_is_the_mode(rng, seed):
    """Alone, a particle has only its own term, whose root is the mode."""
    target, mean, _ = random_gaussian(rng, 3)
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
    target, *_ = random_gaussian(rng, 2)
    engine = FWSS(n_particles=30, max_iter_oracle=5)
    posterior = infer(target, engine, random_state=seed, callback=lambda i, *_: i == 12)
    assert posterior.particles.shape == (12, 2)
    assert posterior.n_iter == 12
    assert_allclose(posterior.scores, target.score(posterior.particles), atol=1e-8)


def test_a_sweep_improves_what_greedy_placement_left(rng, seed):
    target, *_ = random_gaussian(rng, 4)
    greedy, swept = (infer(target, FWSS(n_sweeps=n), random_state=seed).ksd() for n in (0, 1))
    assert swept < greedy


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["synthetic4_logistic", "breast_cancer_logistic"])
def test_matched_moments_halve_the_error(name, gold, seed):
    """At least; in raw coordinates, where a step has no unit, nothing is matched."""
    reference = gold(name)
    prior = Normal(float(reference["prior_sd"]))
    target = LogisticTarget(reference["X_std"], reference["y"], prior=prior, intercept_prior=prior)
    errors = []
    for n_steps in (0, 4):
        engine = FWSS(50, n_sweeps=0, max_iter_matching=n_steps)
        posterior = infer(target, engine, random_state=seed)
        errors.append(
            np.sqrt(np.mean(((posterior.mean() - reference["mean"]) / reference["sd"]) ** 2))
        )
    assert errors[1] < 0.5 * errors[0]
    raw = FWSS(50, n_sweeps=0, max_iter_oracle=1, whiten=False)
    raw = [infer(target, raw.set_params(max_iter_matching=n), random_state=seed) for n in (0, 4)]
    assert_array_equal(raw[0].particles, raw[1].particles)


def test_svgd_has_the_skewness_of_the_target_where_moments_are_matched(seed):
    """Logarithms of gamma variables."""
    shape = 4.0
    target = LogDensity(
        lambda t: np.sum(shape * t - np.exp(t), axis=1), score=lambda t: shape - np.exp(t), dim=3
    )
    sd = np.sqrt(polygamma(1, shape))
    z = (infer(target, SVGD(), random_state=seed).particles - digamma(shape)) / sd
    assert_allclose(np.mean(z**3), polygamma(2, shape) / sd**3, rtol=0.1)
    assert np.abs(z.std(axis=0) - 1.0).max() < 0.01


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_two_stein_particles_repel_each_other(seed):
    """Started together they part: as printed in the paper, with the other sign, they would not."""
    target = standard_normal(1)
    start = np.array([[0.5], [0.51]])
    for engine in (SVGD(2, max_iter=300), FWSS(2, max_iter_oracle=200)):
        posterior = infer(target, engine, init=start, random_state=seed)
        assert np.ptp(posterior.particles) > 0.8


@pytest.mark.parametrize("place", [0.0, 1.0])
@pytest.mark.parametrize("engine", [LazyFWSS(), FWSS(weights="line-search")])
def test_starts_that_coincide_end(engine, place):
    """Right, or with a warning: where all lie at the mode, the first field is 0."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = np.full((150, 2), place)
        posterior = infer(standard_normal(2), engine, init=start, random_state=0)
    right = np.abs(posterior.mean()).max() < 0.1 and np.abs(posterior.std() - 1.0).max() < 0.1
    assert right or "likely to be wrong" in str(caught[0].message)


def test_a_line_search_takes_the_best_step(rng):
    x = rng.normal(size=(6, 2))
    measure = SteinMeasure(6, x)
    for i in range(5):
        measure.put(i, x[i], -x[i])
        measure.line_search()
    before = np.append(measure.weights, 0.0)
    measure.put(5, x[5], -x[5])
    gap = measure.gaps(x[5:], -x[5:])[0]
    measure.line_search()
    steps = np.linspace(0, 1, 2001)
    mixed = (1 - steps)[:, None] * before + steps[:, None] * np.eye(6)[5]
    squares = np.einsum("si,ij,sj->s", mixed, measure.matrix, mixed)
    assert_allclose(measure.ksd() ** 2, squares.min(), rtol=1e-4)
    # A particle can lower the discrepancy exactly where its gap is positive.
    assert (gap > 0) == (measure.weights[5] > 0)


# Forty particles without a sweep may be told that their spread is off.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weights", ["line-search", "fully-corrective", "stein"])
def test_weighted_particles_find_a_gaussian(weights, rng, seed):
    target, mean, covariance = random_gaussian(rng, 3)
    equal = infer(target, FWSS(40, n_sweeps=0), random_state=seed)
    weighted = infer(target, FWSS(40, n_sweeps=0, weights=weights), random_state=seed)
    if weights == "stein":
        assert_array_equal(weighted.particles, equal.particles)
        assert weighted.ksd(IMQ() + Linear()) < 1.01 * equal.ksd(IMQ() + Linear())
    assert np.ptp(weighted.weights) > 0
    assert_allclose(weighted.weights.sum(), 1.0)
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    assert np.abs(inverse @ (weighted.mean() - mean)).max() < 0.15


@pytest.mark.parametrize("init", ["map", "prior", "svgd"])
def test_fwss_finds_a_gaussian_from_every_start(init, rng, seed):
    target, mean, covariance = random_gaussian(rng, 3)
    root = np.linalg.cholesky(covariance)
    target.sample_prior = lambda rng, m: mean + 1.5 * rng.normal(size=(m, 3)) @ root.T
    posterior = infer(target, FWSS(init=init, max_iter_oracle=50), random_state=seed)
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    assert np.abs(inverse @ (posterior.mean() - mean)).max() < 0.05
    assert np.abs((inverse @ posterior.cov() @ inverse.T).diagonal() - 1).max() < 0.15


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_cache_is_svgd_from_where_it_is_told_to_begin(rng, seed):
    """Without steps of their own the particles are those of SVGD, in another order."""
    target, *_ = random_gaussian(rng, 2)
    start = rng.normal(size=(15, 2))
    no_steps = {"max_iter_oracle": 1, "learning_rate": 1e-12, "max_iter_matching": 0}
    still = FWSS(15, init="svgd", n_sweeps=0, **no_steps)
    cached = infer(target, still, init=start, random_state=seed).particles
    svgd = SVGD(15, max_iter=8, learning_rate=0.2)
    moved = infer(target, svgd, init=start, random_state=seed).particles
    order, expected = (np.lexsort(particles.T) for particles in (cached, moved))
    assert not np.array_equal(order, expected)
    assert_allclose(cached[order], moved[expected], atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fwss_places_as_many_particles_as_the_tolerance_needs(rng, seed):
    target, *_ = random_gaussian(rng, 2)
    sizes = [
        len(infer(target, FWSS(200, tol=tol, n_sweeps=0), random_state=seed)) for tol in (0.3, 0.1)
    ]
    assert 2 < sizes[0] <= sizes[1] < 200
    swept = infer(target, FWSS(200, tol=0.1), random_state=seed)
    assert len(swept) == sizes[1]
    assert swept.n_iter == 2 * sizes[1]
    finer = infer(target, FWSS(200, tol=0.05, n_sweeps=0), init=swept, random_state=seed)
    assert_allclose(finer.particles[: len(swept)], swept.particles, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weights", ["line-search", "fully-corrective"])
def test_particles_with_weights_are_added_to_without_copies(weights, rng, seed):
    target, *_ = random_gaussian(rng, 3)
    few = infer(target, FWSS(30, weights=weights), random_state=seed)
    grown = infer(target, FWSS(60, weights=weights), init=few, random_state=seed)
    assert len(np.unique(grown.particles, axis=0)) == len(grown) == 60


@pytest.mark.parametrize("n_blocks", [2, 4, 8])
def test_blocks_of_coordinates_find_what_all_together_find(n_blocks, rng, seed):
    """With the bounds that hold for one block; searches that never meet diverge from four on."""
    target, mean, covariance = random_gaussian(rng, 10)
    posterior = infer(target, FWSS(n_blocks=n_blocks), random_state=seed)
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    assert np.abs(inverse @ (posterior.mean() - mean)).max() < 0.03
    assert np.abs(inverse @ posterior.cov() @ inverse.T - np.eye(10)).max() < 0.12


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_blocks_do_not_depend_on_who_searches_them(rng, seed):
    target, *_ = random_gaussian(rng, 4)
    engine = FWSS(8, n_blocks=2, n_sweeps=0)
    one, two = (infer(target, engine, random_state=seed, n_jobs=n).particles for n in (1, 2))
    assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["synthetic4_logistic", "breast_cancer_logistic"])
def test_a_grown_set_is_as_accurate_as_one_from_scratch(name, gold, seed):
    reference = gold(name)
    prior = Normal(float(reference["prior_sd"]))
    target = LogisticTarget(reference["X_std"], reference["y"], prior=prior, intercept_prior=prior)
    few = infer(target, FWSS(70), random_state=seed)
    grown = infer(target, FWSS(200), init=few, random_state=seed)
    assert_allclose(grown.particles[:70], few.particles, rtol=1e-9)
    scratch = infer(target, FWSS(200), random_state=seed)
    mean, spread = [], []
    for posterior in (grown, scratch):
        mean.append(
            np.sqrt(np.mean(((posterior.mean() - reference["mean"]) / reference["sd"]) ** 2))
        )
        spread.append(np.abs(posterior.std() / reference["sd"] - 1.0).max())
    # Two hundred independent draws would miss by 0.07, and in the worst spread by a tenth.
    # Over twenty-five seeds the differences have standard deviations of .002 and .012.
    assert mean[0] < mean[1] + 0.015
    assert spread[0] < spread[1] + 0.07


def test_minibatches_are_exact_where_a_search_starts(gold, rng):
    """There for any rows, elsewhere on average; with less noise than about the mode."""
    reference = gold("breast_cancer_logistic")
    full = LogisticTarget(reference["X_std"], reference["y"])
    dim, mode = full.dim, np.zeros(full.dim)
    noisy = Transformed(ControlVariate(full, mode, 20, order=1), None)
    points, scores = rng.normal(size=(2, 6, dim))
    here = 0.5 * rng.normal(size=(1, dim))
    arguments = (RBF() + Linear()).fixed(points), points, scores, np.full(6, 1.0 / 6.0), 5
    oracle = Oracle(noisy, *arguments)
    oracle.start = here, full.score(here)
    exact, about_mode = Oracle(Transformed(full, None), *arguments), Oracle(noisy, *arguments)
    assert_allclose(oracle.field(here, rng=rng), exact.field(here), atol=1e-9)
    near = here + 0.1 * rng.normal(size=(1, dim))
    draws = np.concatenate([oracle.field(near, rng=rng) for _ in range(4000)])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.abs((draws.mean(axis=0) - exact.field(near)[0]) / error).max() < 5.0
    others = np.concatenate([about_mode.field(near, rng=rng) for _ in range(400)])
    assert np.linalg.norm(draws.std(axis=0)) < 0.6 * np.linalg.norm(others.std(axis=0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_papers_own_settings_are_reported(gold, seed):
    """Raw coordinates, no own term, the median bandwidth: wrong, and it says so."""
    reference = gold("breast_cancer_logistic")
    target = LogisticTarget(reference["X_std"], reference["y"])
    printed = FWSS(
        30,
        kernel=RBF("median"),
        init="map",
        self_term=False,
        n_sweeps=0,
        max_iter_oracle=250,
        learning_rate=0.005,
        whiten=False,
    )
    with pytest.warns(ConvergenceWarning, match="likely to be wrong"):
        infer(target, printed, random_state=seed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["synthetic4_logistic", "breast_cancer_logistic"])
def test_lazy_fwss_is_as_accurate_with_a_quarter_of_the_scores(name, gold, seed, monkeypatch):
    """Those of the store included."""
    reference = gold(name)
    prior = Normal(float(reference["prior_sd"]))
    target = LogisticTarget(reference["X_std"], reference["y"], prior=prior, intercept_prior=prior)
    counted, score = [0], Transformed.score

    def counting(self, z, rows=None):
        counted[0] += len(z)
        return score(self, z, rows)

    monkeypatch.setattr(Transformed, "score", counting)
    evaluations, errors = [], []
    for engine in (FWSS(100), LazyFWSS(100)):
        counted[0] = 0
        posterior = infer(target, engine, random_state=seed)
        evaluations.append(counted[0])
        error = (posterior.mean() - reference["mean"]) / reference["sd"]
        errors.append(np.sqrt(np.mean(error**2)))
    assert evaluations[1] <= 0.26 * evaluations[0]
    # A hundred independent draws would miss by 0.1.
    assert errors[1] < errors[0] + 0.02
    gap, phi = posterior.history["gap"], posterior.history["phi"]
    assert len(gap) == len(phi) == posterior.n_iter
    assert phi[-1] < 0.25 * phi[0]  # a tenth in 46 of 47 fits


def test_the_store_of_lazy_fwss_starts_with_the_moments_of_the_gaussian(rng):
    target, mean, covariance = random_gaussian(rng, 4)
    start = Affine(mean, np.linalg.cholesky(covariance))
    for bijection, expected, spread in ((None, np.zeros(4), np.eye(4)), (start, mean, covariance)):
        draws = _typical_draws(Transformed(target, None, start=bijection), rng, 30)
        assert_allclose(draws.mean(axis=0), expected, atol=1e-10)
        assert_allclose(np.cov(draws.T, ddof=0), spread, atol=1e-10)


# Their own check warns in one fit of a hundred.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("candidates", ["chain", "gaussian", "nelder-mead"])
@pytest.mark.parametrize("selection", ["greedy", "herding"])
def test_stein_points_beat_independent_draws(candidates, selection, rng, seed):
    target = standard_normal()
    engine = SteinPoints(120, candidates=candidates, selection=selection)
    posterior = infer(target, engine, random_state=seed)
    independent = [ksd(x, -x) for x in rng.normal(size=(20, 120, 2))]
    # Herding minimises the discrepancy to infinitely many points to come: some of the first are
    # six standard deviations off.
    share = {"greedy": 0.7, "herding": 1.0}[selection]
    assert posterior.ksd() < share * np.mean(independent)
    # The path in the history is the discrepancy itself, before the move to the moments of a chain.
    if candidates != "chain":
        assert_allclose(posterior.history["ksd"][-1], posterior.ksd(IMQ()), rtol=1e-6)


@pytest.mark.parametrize("dim", [2, 20])
def test_stein_points_of_a_chain_have_its_moments(dim, seed):
    """Of a normal density exactly; points of the least discrepancy are narrower."""
    target = standard_normal(dim)
    posterior = infer(target, "stein-points", random_state=seed)
    assert_allclose(posterior.mean(), 0.0, atol=1e-6)
    assert_allclose(posterior.cov(), np.eye(dim), atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_first_stein_point_is_the_candidate_nearest_to_the_mode(seed):
    target = standard_normal()
    engine = SteinPoints(2, candidates="gaussian", n_candidates=500)
    first = infer(target, engine, random_state=seed).particles[0]
    # k0(x, x) / 2 = (|s|^2 + d / l^2) / 2 is least at the mode.
    assert np.linalg.norm(first) < 0.4


def test_adam_takes_steps_of_its_rate_that_die_out():
    """For a large constant direction each step is the rate, which falls linearly to 0."""
    adam = Adam(0.1, 10)
    steps = np.array([adam.step(np.array([100.0, -7e3])) for _ in range(10)])
    rate = 0.1 * (1 - np.arange(10) / 10)
    assert_allclose(steps, rate[:, None] * [1.0, -1.0], rtol=1e-3)


def test_adam_stays_where_there_is_no_direction():
    adam = Adam(0.1, 5)
    assert_array_equal([adam.step(np.zeros(2)) for _ in range(5)], np.zeros((5, 2)))


def test_a_score_beyond_squares_is_refused(rng):
    x = rng.standard_normal((4, 2))
    measure = SteinMeasure(4, x)
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="reduce learning_rate"):
        measure.put(0, x[0], np.array([1e200, 0.0]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nothing_is_matched_where_nothing_could_be_whitened(seed):
    """Between two modes, where the search for one of them stays, no step has a unit."""
    target = LogDensity(
        lambda t: np.logaddexp(-0.5 * (t[:, 0] + 2.5) ** 2, -0.5 * (t[:, 0] - 2.5) ** 2),
        score=lambda t: 2.5 * np.tanh(2.5 * t) - t,
        dim=1,
    )
    matched, plain = (
        infer(target, FWSS(20, **options), random_state=seed).particles
        for options in ({}, {"max_iter_matching": 0})
    )
    assert_array_equal(matched, plain)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("engine", [FWSS, LazyFWSS])
def test_fewer_particles_than_coordinates_are_reported(engine, rng, seed):
    target, _, _ = random_gaussian(rng, 40)
    with pytest.warns(ConvergenceWarning, match="deviations are too small on average"):
        infer(target, engine(30), random_state=seed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("kept", "size"), [(10, 80), (60, 80)])
def test_a_grown_set_has_the_right_moments(kept, size, rng, seed):
    """Those kept, or those added, may be too few for a covariance: what all have is matched."""
    target, mean, covariance = random_gaussian(rng, 20)
    small = infer(target, FWSS(kept), random_state=seed)
    grown = infer(target, FWSS(size), init=small, random_state=seed)
    assert_allclose(grown.particles[:kept], small.particles, rtol=1e-9)
    sd = np.sqrt(np.diag(covariance))
    # Independent draws would miss by 0.3 and 0.2; the worst spread in 47 such sets is off by 0.06.
    assert np.abs((grown.mean() - mean) / sd).max() < 0.05
    assert np.abs(grown.std() / sd - 1.0).max() < 0.1
