"""What holds for every engine: on a correlated Gaussian the truth is known in closed form."""

import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import densities
import small
from skstein import LogDensity, ParticlePosterior, infer
from skstein.inference import (
    ENGINES,
    FWSS,
    MCMC,
    PMD,
    PMFVB,
    SVGD,
    KSDThinnedMCMC,
    LaplaceDraws,
    resolve_engine,
)
from skstein.samplers import SGLD
from skstein.targets import LinearTarget, LogisticTarget, Target

every_engine = pytest.mark.parametrize("engine", ENGINES)

MEAN = np.array([1.0, -2.0, 30.0])
FACTOR = np.array([[1.0, 0.0, 0.0], [0.9, 0.5, 0.0], [-3.0, 2.0, 5.0]])
COVARIANCE = FACTOR @ FACTOR.T
PRECISION = np.linalg.inv(COVARIANCE)

# What is allowed in standard deviations: five standard errors of 1000 independent draws, of the 500
# antithetic pairs whose squares count once, of the thousands that are pooled or thinned; particles
# that repel each other are far nearer.
ALLOWED = {
    "pmd": 5 / np.sqrt(1000),
    "pmfvb": 5 / np.sqrt(2000),
    "fwss": 0.05,
    "svgd": 0.05,
    "stein-points": 0.2,
    "mcmc": 5 / np.sqrt(2000),
    "ksd-mcmc": 5 / np.sqrt(2000),
    "laplace": 5 / np.sqrt(500),
}
iterative = pytest.mark.parametrize("engine", [name for name in ENGINES if name != "laplace"])
may_warn = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def gaussian(**parts):
    return densities.gaussian(PRECISION, MEAN, **({"names": ["a", "b", "c"]} | parts))


def logistic(rng, n=400):
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + rng.logistic(size=n) > 0
    return LogisticTarget(X, y.astype(float))


@every_engine
def test_a_correlated_gaussian_is_recovered(engine, seed):
    # A thousand independent draws may be a tenth too narrow, which is rightly said.
    run = {"laplace": LaplaceDraws(4000), "pmd": PMD(4000)}.get(engine, engine)
    posterior = infer(gaussian(), run, random_state=seed)
    inverse = np.linalg.inv(FACTOR)
    assert np.abs(inverse @ (posterior.mean() - MEAN)).max() < ALLOWED[engine]
    # Every entry of the whitened covariance: standard error sqrt(2 / m) at most.
    white = inverse @ posterior.cov() @ inverse.T
    assert np.abs(white - np.eye(3)).max() < np.sqrt(2) * ALLOWED[engine]
    assert posterior.names == ("a", "b", "c")
    assert_allclose(posterior.weights.sum(), 1.0)


@every_engine
@may_warn
def test_scores_and_log_densities_are_the_targets(engine, rng, seed):
    """In the target's own coordinates, whatever the engine worked in."""
    for target in (gaussian(), logistic(rng)):
        posterior = infer(target, small.ENGINES[engine], random_state=seed)
        if posterior.scores is not None:
            expected = target.score(posterior.particles)
            assert_allclose(posterior.scores, expected, atol=1e-8 * np.abs(expected).max())
            assert posterior.ksd() >= 0
        if posterior.log_densities is not None:
            expected = target.log_density(posterior.particles)
            assert_allclose(posterior.log_densities, expected, atol=1e-8 * np.abs(expected).max())


@every_engine
@may_warn
def test_a_seed_fixes_every_bit(engine, seed):
    first, second = (infer(gaussian(), small.ENGINES[engine], random_state=seed) for _ in range(2))
    assert_array_equal(first.particles, second.particles)
    assert_array_equal(first.weights, second.weights)
    third = infer(gaussian(), small.ENGINES[engine], random_state=seed + 1)
    assert not np.array_equal(first.particles, third.particles)


@every_engine
@may_warn
def test_a_generator_is_not_shared_between_fits(engine, seed):
    """Each fit spawns, so that two fits differ and both can be repeated."""
    one, other = (np.random.default_rng(seed) for _ in range(2))
    runs = [
        infer(gaussian(), small.ENGINES[engine], random_state=rng)
        for rng in (one, one, other, other)
    ]
    assert_array_equal(runs[0].particles, runs[2].particles)
    assert_array_equal(runs[1].particles, runs[3].particles)
    assert not np.array_equal(runs[0].particles, runs[1].particles)


@every_engine
@may_warn
def test_the_number_of_jobs_changes_nothing(engine, rng, seed, monkeypatch):
    # So that work is cut into pieces.
    monkeypatch.setattr("skstein.inference._building_blocks.particles._WORTH_A_DISPATCH", 1e4)
    X = rng.normal(size=(200, 1))
    target = LinearTarget(X, X[:, 0] + rng.normal(size=len(X)))
    run = {
        "pmd": PMD(100, init="laplace", max_iter=2, n_moves=5),
        "pmfvb": PMFVB(100, n_warmup=24, n_snapshots=2, max_iter=28),
        "svgd": SVGD(100, max_iter=5),
    }.get(engine, small.ENGINES[engine])
    expected = infer(target, run, random_state=seed)
    runs = [infer(target, run, random_state=seed, n_jobs=2)]
    with joblib.parallel_config(backend="loky", n_jobs=2):
        runs.append(infer(target, run, random_state=seed))
    for posterior in runs:
        assert_array_equal(posterior.particles, expected.particles)
        assert_array_equal(posterior.weights, expected.weights)


@pytest.mark.parametrize("engine", ["pmd", "pmfvb", "fwss", "svgd", "mcmc"])
@may_warn
def test_init_is_where_the_particles_start(engine, seed):
    """After next to no iterations they are still near it, in the target's own coordinates."""
    short = {
        "pmd": PMD(n_particles=50, strategy="particles", max_iter=1, n_moves=0),
        "pmfvb": PMFVB(n_particles=50, step_size=1e-6, n_warmup=24, max_iter=1),
        "fwss": FWSS(
            n_particles=50, n_sweeps=0, max_iter_oracle=1, max_iter_matching=0, learning_rate=1e-6
        ),
        "svgd": SVGD(n_particles=50, max_iter=1, max_iter_matching=0, learning_rate=1e-6),
        "mcmc": MCMC(50, sampler=SGLD(1e-8), n_warmup=0, n_draws=8, max_draws=8),
    }[engine]
    place = MEAN + FACTOR @ np.array([0.5, -0.5, 0.5])
    spread = 1e-3 * np.random.default_rng(seed).normal(size=(50, 3))
    posterior = infer(gaussian(), short, init=place + spread, random_state=seed)
    moved = (posterior.particles - place) @ np.linalg.inv(FACTOR).T
    assert np.abs(moved).max() < 0.05


@every_engine
@pytest.mark.parametrize(
    "init, message",
    [
        (np.zeros((5, 2)), r"init must have shape \(m, 3\), got \(5, 2\)"),
        (np.zeros(4), r"init must have shape \(m, 3\), got \(1, 4\)"),
        (np.zeros((0, 3)), r"init must have shape \(m, 3\), got \(0, 3\)"),
        (np.full((5, 3), np.nan), "init must be finite"),
    ],
    ids=["2-d", "1-d", "empty", "nan"],
)
def test_an_unusable_init_is_refused(engine, init, message):
    with pytest.raises(ValueError, match=message):
        infer(gaussian(), small.ENGINES[engine], init=init)


@iterative
@may_warn
def test_a_callback_sees_every_round(engine, seed):
    calls = []

    def callback(iteration, total, make_posterior, info):
        calls.append((iteration, total, make_posterior(), dict(info)))

    posterior = infer(gaussian(), small.ENGINES[engine], random_state=seed, callback=callback)
    iterations = [call[0] for call in calls]
    assert iterations == sorted(set(iterations))
    # A run that goes on beyond what it planned raises the total, never lowers it.
    totals = [call[1] for call in calls]
    assert totals == sorted(totals)
    assert all(iteration <= total for iteration, total in zip(iterations, totals, strict=True))
    for _, _, snapshot, info in calls:
        assert snapshot.particles.shape[1] == 3
        assert np.isfinite(snapshot.mean()).all()
        assert snapshot.names == ("a", "b", "c")
        assert all(isinstance(key, str) and np.ndim(value) == 0 for key, value in info.items())
    # The last snapshot is in the target's own coordinates, near where the run ended.
    gap = np.linalg.inv(FACTOR) @ (calls[-1][2].mean() - posterior.mean())
    assert np.abs(gap).max() < 1.0
    without = infer(gaussian(), small.ENGINES[engine], random_state=seed)
    assert_array_equal(posterior.particles, without.particles)


@iterative
@pytest.mark.parametrize("whiten", [True, False])
@may_warn
def test_a_snapshot_stays_as_it_was(engine, whiten, seed):
    kept = []

    def callback(iteration, total, make_posterior, info):
        snapshot = make_posterior()
        kept.append((snapshot, snapshot.particles.copy(), snapshot.weights.copy()))

    infer(
        gaussian(),
        clone(small.ENGINES[engine]).set_params(whiten=whiten),
        random_state=seed,
        callback=callback,
    )
    for snapshot, particles, weights in kept:
        assert_array_equal(snapshot.particles, particles)
        assert_array_equal(snapshot.weights, weights)


@iterative
@may_warn
def test_a_callback_stops_the_run(engine, seed):
    seen = []

    def stop_at_once(iteration, total, make_posterior, info):
        seen.append(iteration)
        return True

    posterior = infer(gaussian(), small.ENGINES[engine], random_state=seed, callback=stop_at_once)
    assert len(seen) == 1
    assert np.isfinite(posterior.particles).all()
    assert posterior.n_iter == seen[0] or engine == "pmd"


@every_engine
@may_warn
def test_history_has_one_entry_an_iteration(engine, seed):
    posterior = infer(gaussian(), small.ENGINES[engine], random_state=seed)
    for values in posterior.history.values():
        assert values.ndim == 1 and len(values) > 0
        if engine not in ("mcmc", "ksd-mcmc"):
            assert len(values) == posterior.n_iter


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "pmd"])
def test_a_missing_score_is_named_before_any_work(engine):
    def never(theta):
        raise AssertionError("the density was evaluated")

    name = ENGINES[engine].__name__
    with pytest.raises(ValueError, match=f'{name} needs score, .*inference="pmd"'):
        infer(LogDensity(never, dim=2), engine)


def test_what_pmd_lacks_is_named():
    with pytest.raises(ValueError, match="PMD needs sample_prior and log_prior"):
        infer(gaussian(), PMD(init="prior"))
    with pytest.raises(ValueError, match="PMD needs score"):
        infer(gaussian(score=None), PMD(init="laplace"))


def test_an_engine_of_ones_own_needs_no_registration(seed):
    class Exact:
        """Not even a scikit-learn object."""

        requires = ()

        def run(self, target, rng, *, init=None, map=map, callback=None):
            return ParticlePosterior(target.sample_start(rng, 1000))

    posterior = infer(gaussian(), Exact(), random_state=seed)
    inverse = np.linalg.inv(FACTOR)
    assert np.abs(inverse @ (posterior.mean() - MEAN)).max() < 5 / np.sqrt(1000)
    assert_allclose(posterior.scores, -(posterior.particles - MEAN) @ PRECISION, atol=1e-9)


@every_engine
def test_a_target_of_ones_own_needs_no_registration(engine, seed):
    class Own(Target):
        dim = 2

        def log_prior(self, theta):
            return -0.5 * (theta**2).sum(axis=1)

        def log_likelihood(self, theta, rows=None):
            return -0.5 * ((theta - 2.0) ** 2).sum(axis=1)

        def score(self, theta, rows=None):
            return 2.0 - 2.0 * theta

        def sample_prior(self, rng, m):
            return rng.normal(size=(m, self.dim))

    posterior = infer(Own(), engine, random_state=seed)
    assert_allclose(posterior.mean(), 1.0, atol=ALLOWED[engine] * np.sqrt(0.5))
    assert_allclose(posterior.std(), np.sqrt(0.5), atol=ALLOWED[engine])


@every_engine
def test_a_parameter_is_public(engine):
    assert not [name for name in ENGINES[engine]().get_params() if name.startswith("_")]


def test_engines_are_resolved_by_name_or_cloned():
    for name, kind in ENGINES.items():
        assert type(resolve_engine(name)) is kind
        assert resolve_engine(name) is not resolve_engine(name)
    engine = SVGD(max_iter=7)
    resolved = resolve_engine(engine)
    assert resolved is not engine and resolved.max_iter == 7
    with pytest.raises(ValueError, match=r"'nuts' is unknown; use one of .*'ksd-mcmc'"):
        resolve_engine("nuts")
    with pytest.raises(TypeError, match=r"class SVGD; pass an instance: inference=SVGD\(\)"):
        resolve_engine(SVGD)
    with pytest.raises(TypeError, match="is not an engine: it has no run method"):
        resolve_engine(3)


@pytest.mark.parametrize(
    ("engine", "parameter"),
    [
        *((ENGINES[name](n_particles=1), "n_particles") for name in ENGINES),
        *((ENGINES[name](n_particles=10.5), "n_particles") for name in ENGINES),
        *((ENGINES[name](whiten="yes"), "whiten") for name in ENGINES),
        *((ENGINES[name](one_sided=2), "one_sided") for name in ENGINES),
        (PMD(init="map"), "init"),
        (PMD(strategy="both"), "strategy"),
        (PMD(max_iter=0), "max_iter"),
        (PMD(batch_size=0), "batch_size"),
        (PMD(n_moves=-1), "n_moves"),
        (PMD(min_power=1.5), "min_power"),
        (PMFVB(step_size=0.0), "step_size"),
        (PMFVB(blocks=0), "blocks"),
        (PMFVB(n_warmup=3), "n_warmup"),
        (PMFVB(n_snapshots=0), "n_snapshots"),
        (PMFVB(tol=0.0), "tol"),
        (PMFVB(n_points=1), "n_points"),
        (FWSS(kernel="rbf"), "kernel"),
        (FWSS(n_sweeps=-1), "n_sweeps"),
        (FWSS(max_iter_oracle=0), "max_iter_oracle"),
        (SVGD(learning_rate=-1.0), "learning_rate"),
        (SVGD(max_iter=0), "max_iter"),
        (KSDThinnedMCMC(sampler="nuts"), "sampler"),
        (KSDThinnedMCMC(n_chains=1), "n_chains"),
        (KSDThinnedMCMC(n_draws=4), "n_draws"),
        (KSDThinnedMCMC(max_rhat=1.0), "max_rhat"),
        (ENGINES["laplace"](min_relative_ess=2.0), "min_relative_ess"),
    ],
    ids=repr,
)
def test_invalid_parameters_are_named(engine, parameter):
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of {type(engine).__name__}"):
        infer(gaussian(), engine)


# Minibatches.


@pytest.mark.parametrize("engine", [PMD, PMFVB, FWSS, SVGD])
def test_a_batch_needs_rows(engine):
    with pytest.raises(ValueError, match="batch_size was given, but the target has no data rows"):
        infer(gaussian(), engine(batch_size=10))


def test_hamiltonian_chains_refuse_minibatches(rng):
    with pytest.raises(ValueError, match='batch_size=None, or for chains sampler="sgld"'):
        infer(logistic(rng), KSDThinnedMCMC(batch_size=10))


@pytest.fixture(scope="module")
def many_rows(request):
    """A logistic regression, and a long PMFVB run on all rows, accurate to .02 sd."""
    seed = request.config.getoption("seed")
    target = logistic(np.random.default_rng(seed), n=2000)
    return target, infer(target, PMFVB(1000), random_state=seed)


@pytest.mark.parametrize(
    "engine",
    [
        PMFVB(batch_size=100),
        small.later(FWSS(n_particles=60, batch_size=100)),
        SVGD(batch_size=100),
        small.later(KSDThinnedMCMC(sampler="sgld", batch_size=100)),
    ],
    ids=lambda engine: type(engine).__name__,
)
def test_minibatches_with_a_control_variate_find_the_posterior(engine, many_rows, seed):
    target, truth = many_rows
    posterior = infer(target, engine, random_state=seed)
    assert np.abs(posterior.mean() - truth.mean()).max() / truth.std().min() < 0.25
    assert_allclose(posterior.std() / truth.std(), 1.0, atol=0.2)


# Failures.


BRIEF = {
    "mcmc": MCMC(n_draws=100, max_draws=100, n_warmup=50),
    "ksd-mcmc": KSDThinnedMCMC(n_draws=100, max_draws=100, n_warmup=50),
}


def run_and_listen(target, engine, seed):
    """The posterior or None after a FloatingPointError, and whether a ConvergenceWarning came."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            posterior = infer(target, BRIEF.get(engine, engine), random_state=seed)
        except FloatingPointError:
            return None, False
    return posterior, any(issubclass(w.category, ConvergenceWarning) for w in caught)


def infinite_beyond(t):
    return np.where(np.abs(t) > 1.5, np.copysign(np.inf, -t), -t)


HOPELESS = {
    "a score that diverges": LogDensity(
        lambda t: -0.5 * (t**2).sum(axis=1), score=infinite_beyond, dim=2
    ),
    "no maximum": LogDensity(
        lambda t: 0.5 * (t**2).sum(axis=1), score=lambda t: t, dim=2, initial=[1.0, 1.0]
    ),
    "flat": LogDensity(lambda t: np.zeros(len(t)), score=np.zeros_like, dim=2),
}


@every_engine
@pytest.mark.parametrize("density", HOPELESS)
def test_a_hopeless_density_is_never_passed_over(density, engine, seed):
    posterior, warned = run_and_listen(HOPELESS[density], engine, seed)
    if posterior is not None:
        assert warned
        assert np.isfinite(posterior.particles).all()


@every_engine
def test_nan_from_a_users_function_names_the_particle(engine, seed):
    def score(t):
        return np.where(np.abs(t) > 1.5, np.nan, -t)

    target = LogDensity(lambda t: -0.5 * (t**2).sum(axis=1), score=score, dim=2)
    with pytest.raises(ValueError, match=r"score returned NaN for particle \d+ of \d+"):
        infer(target, engine, random_state=seed)
