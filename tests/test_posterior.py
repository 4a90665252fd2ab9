"""Weighted particles against NumPy on repeated ones, and against closed forms."""

import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skstein import ParticlePosterior
from skstein.diagnostics import ess, ess_tail, mcse_mean, split_rhat
from skstein.kernels import IMQ
from skstein.metrics import ksd
from skstein.posterior import narrowest_interval, weighted_quantile
from skstein.targets import Affine, HyperbolicMap, LogDensity, Transformed


@pytest.fixture
def repeated(rng):
    """A posterior with integer weights, and its particles repeated by them."""
    particles, counts = rng.normal(size=(12, 3)), rng.integers(1, 6, size=12)
    return ParticlePosterior(particles, counts), np.repeat(particles, counts, axis=0)


@pytest.fixture
def scored(rng):
    """Particles with uneven weights, log densities and scores of a standard normal."""
    theta = rng.normal(size=(15, 2))
    return ParticlePosterior(
        theta,
        rng.uniform(0.1, 1.0, size=15),
        names=["a", "b"],
        log_densities=-0.5 * (theta**2).sum(axis=1),
        scores=-theta,
        history={"ksd": np.arange(3.0)},
        diagnostics={"acceptance": 0.8},
        n_iter=7,
        converged=False,
    )


def test_weighted_moments_are_those_of_repeated_particles(repeated):
    posterior, rows = repeated
    assert_allclose(posterior.weights.sum(), 1.0)
    assert_allclose(posterior.mean(), rows.mean(axis=0))
    assert_allclose(posterior.std(), rows.std(axis=0))
    assert_allclose(posterior.cov(), np.cov(rows.T, bias=True))


def test_the_variance_survives_a_distant_mean(rng):
    particles = rng.normal(size=(50, 2))
    far = ParticlePosterior(particles + 1e8)
    assert_allclose(far.std(), particles.std(axis=0), rtol=1e-6)
    assert_allclose(far.cov(), np.cov(particles.T, bias=True), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("particles", "weights", "words"),
    [
        (np.ones(3), None, r"shape \(m, dim\), got \(3,\)"),
        (np.ones((3, 1)), [1.0, 2.0], r"weights must have the shape \(3,\), got \(2,\)"),
        (np.ones((3, 1)), [1.0, -1.0, 1.0], "weights must be finite, non-negative"),
        (np.ones((3, 1)), np.zeros(3), "weights must be finite, non-negative"),
    ],
)
def test_what_is_no_set_of_particles_is_refused(particles, weights, words):
    with pytest.raises(ValueError, match=words):
        ParticlePosterior(particles, weights)


def test_coordinates_go_by_name_alone(repeated):
    posterior, *_ = repeated
    with pytest.raises(TypeError, match="not iterable"):
        list(posterior)


def test_a_level_is_one_number(repeated):
    with pytest.raises(ValueError, match="hdi must be one number from 0 to 1"):
        repeated[0].summary(hdi=[0.5, 0.9])


def test_expectations_are_those_of_repeated_particles(repeated):
    posterior, rows = repeated
    assert_allclose(posterior.expect(lambda t: t[:, 0] ** 2), (rows[:, 0] ** 2).mean())
    outer = posterior.expect(lambda t: t[:, :, None] * t[:, None, :])
    assert_allclose(outer, rows.T @ rows / len(rows))
    with pytest.raises(ValueError, match="a first axis of length 12, got shape"):
        posterior.expect(lambda t: t.sum())
    with pytest.raises(ValueError, match=r"got shape \(3,\)"):
        posterior.expect(lambda t: t.mean(axis=0))


def test_quantiles_of_equal_weights_are_numpys(rng):
    """With equal weights the mid-point rule is NumPy's "hazen"."""
    particles, q = rng.normal(size=(21, 2)), [0.0, 0.03, 0.5, 0.77, 1.0]
    posterior = ParticlePosterior(particles)
    expected = np.quantile(particles, q, axis=0, method="hazen")
    assert_allclose(posterior.quantile(q), expected)
    assert_allclose(posterior.quantile(0.3), np.quantile(particles, 0.3, axis=0, method="hazen"))


@pytest.mark.parametrize("weights", ["equal", "uneven", "some are 0"])
@pytest.mark.parametrize("points", ["distinct", "tied", "infinite", "far"])
@pytest.mark.parametrize("shape", [(1,), (2, 3), (7,), (40, 5, 2), (900, 300)])
def test_weighted_quantiles_are_interpolated_one_by_one(points, weights, shape, rng):
    """Sorted as the particles are where they tie, those that count interpolated by `np.interp`."""
    m = shape[0]
    values = rng.normal(size=shape)
    if points == "tied":
        values = values.round()
    elif points == "infinite":
        values[values > 1.0], values[values < -1.0] = np.inf, -np.inf
    elif points == "far":
        values += 1e8
    weights = (
        np.ones(m)
        if weights == "equal"
        else rng.exponential(size=m) * (rng.random(m) > 0.4 * (weights == "some are 0"))
    )
    weights = np.append(weights[:-1], 1.0) / np.sum(np.append(weights[:-1], 1.0))
    q = np.array([0.0, 0.05, 0.5, 1.0, *rng.random(3)])
    found = weighted_quantile(values, weights, q)
    expected = np.empty((len(q), *shape[1:]))
    values, weights = values[weights > 0.0], weights[weights > 0.0]
    for index in np.ndindex(shape[1:]):
        column = values[:, *index]
        order = np.argsort(column, kind="stable")
        middle = np.cumsum(weights[order]) - 0.5 * weights[order]
        expected[:, *index] = np.interp(q, middle, column[order])
    # Between ties the rounding of shares is multiplied by their number.
    assert_allclose(found, expected, rtol=1e-13, atol=1e-10)


def test_weighted_quantiles_lie_among_those_of_repeated_particles(repeated):
    """A weighted quantile interpolates between neighbours of the step function's quantile."""
    posterior, rows = repeated
    for q in (0.1, 0.5, 0.9):
        value = posterior.quantile(q)
        for j in range(3):
            ordered = np.sort(posterior.particles[:, j])
            step = np.quantile(rows[:, j], q, method="inverted_cdf")
            index = np.searchsorted(ordered, step)
            low, high = ordered[max(index - 1, 0)], ordered[min(index + 1, len(ordered) - 1)]
            assert low <= value[j] <= high


def test_quantiles_increase_and_ignore_weightless_particles(rng):
    particles, weights = rng.normal(size=(30, 2)), rng.uniform(size=30)
    weights[:10], particles[:10] = 0.0, 1e3
    q = np.linspace(0.05, 0.95, 19)
    posterior = ParticlePosterior(particles, weights)
    quantiles = posterior.quantile(q)
    assert (np.diff(quantiles, axis=0) >= 0).all()
    assert_allclose(quantiles, ParticlePosterior(particles[10:], weights[10:]).quantile(q))


@pytest.mark.parametrize("q", [-0.1, 1.1, [0.5, np.nan]])
def test_quantiles_outside_the_unit_interval_are_refused(q, repeated):
    with pytest.raises(ValueError, match="q must be one or several numbers from 0 to 1"):
        repeated[0].quantile(q)


def test_weighted_quantile_keeps_further_axes(rng):
    values, weights = rng.normal(size=(9, 2, 3)), np.full(9, 1 / 9)
    expected = np.quantile(values, [0.2, 0.8], axis=0, method="hazen")
    assert_allclose(weighted_quantile(values, weights, [0.2, 0.8]), expected)


def test_draws_come_by_weight(rng, seed):
    """Counts of 40,000 draws within five standard errors of a multinomial's."""
    weights = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
    posterior = ParticlePosterior(np.arange(5.0)[:, None], weights)
    draws = posterior.sample(40_000, random_state=seed)
    assert draws.shape == (40_000, 1)
    share = np.bincount(draws[:, 0].astype(int), minlength=5) / 40_000
    assert (np.abs(share - weights) <= 5 * np.sqrt(weights * (1 - weights) / 40_000)).all()
    assert_array_equal(draws, posterior.sample(40_000, random_state=seed))
    one, other = (posterior.sample(9, np.random.default_rng(seed)) for _ in range(2))
    assert_array_equal(one, other)


def test_thinning_is_systematic(scored):
    """Each particle is kept within one of n times its weight, the best that integers can do."""
    for n in (1, 4, 15):
        thinned = scored.thin(n)
        kept = (thinned.particles[:, None] == scored.particles).all(axis=2).sum(axis=0)
        assert kept.sum() == len(thinned) == n
        assert (np.abs(kept - n * scored.weights) < 1).all()
        assert_allclose(thinned.weights, 1 / n)
        assert_array_equal(thinned.scores, -thinned.particles)
        assert_array_equal(thinned.log_densities, -0.5 * (thinned.particles**2).sum(axis=1))
        assert_array_equal(thinned.particles, scored.thin(n).particles)
    assert thinned.names == scored.names and thinned.n_iter == 7 and not thinned.converged


def test_thinning_equal_weights_to_as_many_keeps_all(rng):
    posterior = ParticlePosterior(rng.normal(size=(10, 2)))
    assert_array_equal(posterior.thin(10).particles, posterior.particles)
    assert_array_equal(posterior.thin(5).particles, posterior.particles[::2])


@pytest.mark.parametrize("n", [0, -1, 2.5, 16])
def test_thinning_to_an_impossible_number_is_refused(n, scored):
    with pytest.raises(ValueError, match=r"n_particles must (be a positive|lie in 1\.\.15, got)"):
        scored.thin(n)


# Coordinates.


def hyperbolic(rng):
    return HyperbolicMap(
        np.array([1]),
        xi=rng.normal(size=1),
        a=np.array([1.0]),
        b=np.array([0.8]),
        c=np.array([0.5]),
        u0=np.array([0.2]),
    )


@pytest.mark.parametrize("curved", [False, True])
def test_pushed_particles_carry_the_density_and_score_of_their_new_place(curved, rng):
    """A posterior of the transformed target, pushed, against the target itself."""
    bijection = hyperbolic(rng) if curved else Affine(np.ones(2), np.array([[2.0, 0], [0.5, 3.0]]))
    target = LogDensity(
        lambda t: -np.log(np.cosh(t)).sum(axis=1), score=lambda t: -np.tanh(t), dim=2
    )
    z = rng.normal(size=(8, 2))
    value, score = Transformed(target, bijection).log_density_and_score(z)
    pushed = ParticlePosterior(z, log_densities=value, scores=score)._pushed(bijection, ["a", "b"])
    theta = bijection.forward(z)
    assert_allclose(pushed.particles, theta)
    assert_allclose(pushed.log_densities, target.log_density(theta), atol=1e-10)
    assert_allclose(pushed.scores, target.score(theta), atol=1e-10)
    assert pushed.names == ("a", "b")


def test_pushing_keeps_all_else(scored):
    pushed = scored._pushed(Affine(np.ones(2), 2 * np.eye(2)))
    assert_allclose(pushed.weights, scored.weights)
    assert pushed.names == scored.names
    assert pushed.diagnostics == {"acceptance": 0.8} and pushed.n_iter == 7
    assert not pushed.converged
    bare = ParticlePosterior(np.ones((3, 2)))._pushed(Affine(np.ones(2), 2 * np.eye(2)))
    assert bare.log_densities is None and bare.scores is None


# Discrepancy.


def test_ksd_is_that_of_the_whitened_particles(scored):
    expected = ksd(scored.particles, -scored.particles, weights=scored.weights)
    assert_allclose(scored.ksd(), expected)
    assert_allclose(
        scored.ksd(kernel=IMQ(length_scale=1.0)),
        ksd(scored.particles, -scored.particles, scored.weights, IMQ(length_scale=1.0)),
    )
    # Other units change nothing once the posterior knows its whitening.
    units = Affine(np.array([5.0, -2.0]), np.diag([1e3, 1e-3]))
    scored.whitening = Affine(np.zeros(2), np.eye(2))
    assert_allclose(scored._pushed(units).ksd(), expected, rtol=1e-8)


def test_ksd_needs_scores(rng):
    with pytest.raises(ValueError, match="keeps no scores"):
        ParticlePosterior(rng.normal(size=(3, 2))).ksd()


# Tables and files.


def test_summary_is_a_table_by_coordinate(scored):
    table = scored.summary()
    assert list(table.columns) == ["mean", "std", "5%", "50%", "95%", "P(>0)"]
    assert list(table.index) == ["a", "b"]
    assert_allclose(table["mean"], scored.mean())
    assert_allclose(table["std"], scored.std())
    assert_allclose(table[["5%", "50%", "95%"]].T, scored.quantile([0.05, 0.5, 0.95]))


def test_summary_has_the_quantiles_and_the_interval_asked_for(repeated):
    posterior, rows = repeated
    table = posterior.summary([0.025, 0.7], hdi=0.8)
    assert list(table) == ["mean", "std", "2.5%", "70%", "hdi80_lb", "hdi80_ub", "P(>0)"]
    assert_allclose(table[["2.5%", "70%"]].T, posterior.quantile([0.025, 0.7]))
    assert_allclose(table["P(>0)"], (rows > 0.0).mean(axis=0))
    assert list(posterior.summary(0.5)) == ["mean", "std", "50%", "P(>0)"]
    uneven = ParticlePosterior(rows, np.arange(1.0, len(rows) + 1.0))
    assert list(uneven.summary([], hdi=0.9)) == ["mean", "std", "hdi90_lb", "hdi90_ub", "P(>0)"]
    assert uneven.names[0] in uneven and "another" not in uneven
    for wrong in ({"quantiles": [0.5, 5]}, {"hdi": 90}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be .* from 0 to 1"):
            posterior.summary(**wrong)


@pytest.mark.parametrize("mass", [0.3, 0.5, 0.9])
def test_the_narrowest_interval_of_equal_weights_is_that_of_order_statistics(rng, mass):
    """Between order statistics a share of the points apart, as ArviZ has it."""
    x = np.sort(rng.gamma(2.0, size=(200, 3)), axis=0)
    k = round(200 * mass)
    first = np.argmin(x[k:] - x[:-k], axis=0)
    expected = [x[first, range(3)], x[first + k, range(3)]]
    found = narrowest_interval(rng.permutation(x), np.full(200, 1 / 200), mass)
    assert_allclose(found[1] - found[0], expected[1] - expected[0])


def test_what_is_known_of_particles_has_their_number():
    known = {"log_densities": [0.0, 1.0], "scores": [[1.0], [2.0]]}
    posterior = ParticlePosterior([[0.0], [1.0]], **known)
    assert posterior.log_densities.dtype == posterior.scores.dtype == float
    for name, values in known.items():
        with pytest.raises(ValueError, match=f"{name} must be of shape"):
            ParticlePosterior([[0.0], [1.0]], **{name: values[:1]})


@pytest.mark.parametrize("mass", [0.2, 0.8])
def test_no_interval_of_the_same_mass_is_narrower(rng, mass):
    values, weights = rng.normal(size=(60, 2)), rng.exponential(size=60) * (rng.random(60) > 0.2)
    weights /= weights.sum()
    low, high = narrowest_interval(values, weights, mass)
    values, weights = values[weights > 0.0], weights[weights > 0.0]
    starts = np.linspace(weights.max(), 1.0 - mass - weights.max(), 2001)
    ends = [weighted_quantile(values, weights, at) for at in (starts, starts + mass)]
    assert (high - low <= (ends[1] - ends[0]).min(axis=0) + 1e-12).all()
    for j in range(2):
        order = np.argsort(values[:, j])
        middle = np.cumsum(weights[order]) - 0.5 * weights[order]
        at = np.interp([low[j], high[j]], values[order, j], middle)
        assert_allclose(np.diff(at), mass)


def test_the_narrowest_interval_of_few_points_is_their_range():
    found = narrowest_interval(np.array([[3.0], [1.0], [2.0]]), np.full(3, 1 / 3), 0.9)
    assert_array_equal(found.ravel(), [1.0, 3.0])


def test_summary_of_chains_has_their_error(rng):
    chains = rng.normal(size=(4, 200, 2)).cumsum(axis=1) / 10
    posterior = ParticlePosterior(chains[0, ::20], names=["a", "b"], chains=chains)
    table = posterior.summary()
    assert list(table)[-4:] == ["mcse_mean", "ess_bulk", "ess_tail", "rhat"]
    gap = posterior.mean() - chains.mean(axis=(0, 1))
    assert_allclose(table["mcse_mean"] ** 2, mcse_mean(chains) ** 2 + gap**2)
    for column, function in (("ess_bulk", ess), ("ess_tail", ess_tail), ("rhat", split_rhat)):
        assert_allclose(table[column], function(chains))
    stats, errors = posterior.summary(kind="stats"), posterior.summary(kind="diagnostics")
    assert [*stats, *errors] == list(table) and next(iter(errors)) == "mcse_mean"
    with pytest.raises(ValueError, match="kind must be"):
        posterior.summary(kind="errors")
    posterior.chains = chains[:, :3]  # too few to tell
    assert list(posterior.summary())[-1] == "P(>0)"


def test_chains_are_pushed_with_the_particles(rng):
    chains = rng.normal(size=(2, 10, 2))
    posterior = ParticlePosterior(chains[1], chains=chains)
    bijection = hyperbolic(rng)
    pushed = posterior._pushed(bijection)
    assert_allclose(pushed.chains[1], pushed.particles)
    assert pushed.chains.shape == (2, 10, 2)
    assert pushed._pulled(bijection).chains is None


def test_a_coordinate_is_found_by_its_name(scored):
    assert_array_equal(scored["b"], scored.particles[:, 1])
    for unknown in ("c", 0):
        with pytest.raises(KeyError, match=f"no coordinate is called {unknown!r}; there are a, b"):
            scored[unknown]


def test_summary_without_pandas_is_a_dict(scored, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = scored.summary()
    assert_array_equal(table["name"], ["a", "b"])
    assert_allclose(table["50%"], scored.quantile(0.5))


def test_a_pickle_is_the_same_posterior(scored):
    scored.whitening = Affine(np.ones(2), np.eye(2))
    copy = pickle.loads(pickle.dumps(scored))
    for key, value in vars(scored).items():
        if isinstance(value, np.ndarray):
            assert_array_equal(getattr(copy, key), value)
    assert copy.names == scored.names and copy.n_iter == scored.n_iter
    assert_array_equal(copy.history["ksd"], scored.history["ksd"])
    assert copy.ksd() == scored.ksd()


def test_defaults_are_equal_weights_and_numbered_names(rng):
    posterior = ParticlePosterior(rng.normal(size=(4, 2)))
    assert_array_equal(posterior.weights, np.full(4, 0.25))
    assert posterior.names == ("theta[0]", "theta[1]")
    assert repr(posterior) == "ParticlePosterior(4 particles, 2 coordinates)"
    assert len(posterior) == 4
    assert posterior.history == {} and posterior.diagnostics == {} and posterior.converged


def test_points_without_weight_do_not_count(rng):
    near, far = rng.normal(size=(20, 1)), np.full((3, 1), 1e6)
    weights = np.append(rng.random(20), np.zeros(3))
    q = [0.0, 0.05, 0.5, 0.975, 1.0]
    found = ParticlePosterior(np.vstack([near, far]), weights).quantile(q)
    assert_allclose(found, ParticlePosterior(near, weights[:20]).quantile(q))
