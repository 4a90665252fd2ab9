"""The check at the end of a fit: what it flags, and how rarely it is wrong."""

import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from scipy.stats import cauchy, norm

from skstein import LogDensity, infer
from skstein.inference import SVGD
from skstein.inference._run.stein_identities import StartDraws, radial_shift, stein_residuals
from skstein.targets import Transformed

REPLICATES = 200


def equal(m):
    return np.full(m, 1 / m)


def score_logistic(z):
    """Of independent logistic coordinates with unit variance."""
    scale = np.sqrt(3) / np.pi
    return -np.tanh(0.5 * z / scale) / scale


def score_gumbel(z):
    """Of independent Gumbel coordinates, standardised: skewness 1.14."""
    scale, center = np.sqrt(6) / np.pi, np.euler_gamma * np.sqrt(6) / np.pi
    return (np.exp(-(z + center) / scale) - 1) / scale


DENSITIES = {
    "normal": (lambda rng, shape: rng.normal(size=shape), lambda z: -z),
    "logistic": (lambda rng, shape: rng.logistic(size=shape) * np.sqrt(3) / np.pi, score_logistic),
    "gumbel": (
        lambda rng, shape: (rng.gumbel(size=shape) - np.euler_gamma) * np.sqrt(6) / np.pi,
        score_gumbel,
    ),
}


def test_residuals_are_those_of_steins_identities(rng):
    """For a standard normal: |mean| and |1 - variance|, weighted."""
    z, weights = rng.normal(size=(300, 2)), rng.dirichlet(np.ones(300))
    residuals = stein_residuals(z, -z, weights)
    mean = weights @ z
    assert_allclose(residuals.mean, np.abs(mean))
    assert_allclose(residuals.spread, np.abs(1 - weights @ (z - mean) ** 2), atol=1e-12)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize(("m", "dim"), [(100, 5), (1000, 20)])
def test_exact_draws_are_rarely_flagged(density, m, dim, rng):
    """Below one fit in twenty, coordinates taken together, over 200 replicates: were the rate
    1 / 20, more than 10 + 5 * 3.1 flags would not come up."""
    draw, score = DENSITIES[density]
    flags = 0
    for _ in range(REPLICATES):
        z = draw(rng, (m, dim))
        residuals = stein_residuals(z, score(z), equal(m))
        flags += residuals.flagged.any() or residuals.shrinkage != 0.0
    assert flags <= REPLICATES / 20


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("m", [100, 1000])
def test_shifted_particles_are_flagged_in_their_coordinate(density, m, rng):
    """By one standard deviation, in one coordinate of five."""
    draw, score = DENSITIES[density]
    for sign in (-1.0, 1.0):
        z = draw(rng, (m, 5))
        z[:, 2] += sign
        flagged = stein_residuals(z, score(z), equal(m)).flagged
        assert flagged[2]


@pytest.mark.parametrize("m", [100, 1000])
@pytest.mark.parametrize("factor", [0.3, 2.0])
def test_shrunken_and_inflated_particles_are_flagged(factor, m, rng):
    z = rng.normal(size=(m, 5))
    z[:, 3] *= factor
    flagged = stein_residuals(z, -z, equal(m)).flagged
    assert flagged[3]
    assert flagged.sum() == 1


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_what_all_coordinates_lack_counts_though_none_does_alone(factor, rng):
    z = rng.normal(size=(100, 50))
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    assert stein_residuals(z, -z, equal(100)).shrinkage == 0.0
    residuals = stein_residuals(factor * z, -factor * z, equal(100))
    assert not residuals.flagged.any()
    assert residuals.shrinkage == pytest.approx(0.5 * (1 - factor**2))


def radial(kind, dim):
    """Exact draws and a density, in the coordinates of the engine."""
    if kind == "normal":
        return lambda rng, m: rng.normal(size=(m, dim)), lambda z: -0.5 * np.sum(z**2, axis=1)
    if kind == "box":
        # Its density is 0 on parts of each ray.
        return (
            lambda rng, m: rng.uniform(-1.7, 1.7, (m, dim)),
            lambda z: np.where(np.abs(z).max(axis=1) < 1.7, 0.0, -np.inf),
        )
    df = 3.0
    return (
        lambda rng, m: rng.normal(size=(m, dim)) / np.sqrt(rng.chisquare(df, (m, 1)) / df),
        lambda z: -0.5 * (df + dim) * np.log1p(np.sum(z**2, axis=1) / df),
    )


def shift_of(z, log_density):
    target = Transformed(LogDensity(log_density, dim=z.shape[1]), None)
    return radial_shift(target, z, equal(len(z)))


@pytest.mark.parametrize("kind", ["normal", "t", "box"])
@pytest.mark.parametrize("dim", [1, 5, 60])
def test_exact_draws_rarely_have_a_radial_shift(kind, dim, rng):
    """A few in a thousand by 3.5 standard errors; were it 1 in 50, 10 of 200 would be too many."""
    draw, log_density = radial(kind, dim)
    flags = sum(shift_of(draw(rng, 100), log_density) != 0.0 for _ in range(REPLICATES))
    assert flags <= 10


@pytest.mark.parametrize("kind", ["normal", "t"])
@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_a_radial_shift_is_seen_in_many_coordinates(kind, factor, rng):
    draw, log_density = radial(kind, 60)
    shift = shift_of(factor * draw(rng, 200), log_density)
    assert np.sign(shift) == -np.sign(np.log(factor))
    if kind == "normal":
        # Its rays do not depend on the radius: one move finds all of the shift.
        assert shift == pytest.approx(-np.log(factor), abs=0.05)


def test_a_radial_shift_of_few_rays_is_looked_for_in_more(rng):
    z = rng.normal(size=(1010, 5))
    z[4::10] *= 1.2  # those that are looked at first, but for rounding
    z[5::10] *= 1.2
    assert shift_of(z, lambda z: -0.5 * np.sum(z**2, axis=1)) == 0.0
    assert shift_of(1.3 * z, lambda z: -0.5 * np.sum(z**2, axis=1)) < -0.2


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300, np.inf])
def test_particles_without_rays_have_no_radial_shift(size):
    z = np.zeros((20, 3))
    z[:, 0] = size
    with np.errstate(over="ignore"):
        assert shift_of(z, lambda z: -np.abs(z).sum(axis=1)) == 0.0


def test_weighted_particles_have_the_radial_shift_of_what_they_stand_for(rng):
    z = rng.normal(size=(4000, 20))
    weights = np.exp(-0.5 * np.sum(z**2, axis=1) * (1 / 0.75 - 1))
    target = Transformed(LogDensity(lambda z: -0.5 * np.sum(z**2, axis=1) / 0.75, dim=20), None)
    assert radial_shift(target, z, equal(4000)) < -0.1
    assert radial_shift(target, z, weights / weights.sum()) == 0.0


def test_an_outlier_cannot_hide_behind_its_own_standard_error(rng):
    z = rng.normal(size=(200, 2))
    z[0, 1] = 60.0
    assert stein_residuals(z, -z, equal(200)).flagged.tolist() == [False, True]


def test_few_effective_particles_are_no_evidence(rng):
    """The same residual that counts for equal weights does not for three effective particles."""
    z = rng.normal(size=(1000, 1)) + 0.8
    assert stein_residuals(z, -z, equal(1000)).flagged[0]
    weights = np.full(1000, 1e-9)
    weights[:3] = 1 / 3
    z[:3, 0] = [0.0, 0.8, 1.6]
    assert not stein_residuals(z, -z, weights / weights.sum()).flagged[0]


def test_small_errors_are_let_pass(rng):
    """A tenth of a standard deviation is certain from 100,000 draws and does not matter."""
    z = rng.normal(size=(100_000, 1)) + 0.1
    assert not stein_residuals(z, -z, equal(len(z))).flagged[0]


def test_particles_that_lack_skewness_are_flagged():
    """N(-1/2, 1) in place of the density exp(z - exp(z)) meets the first two identities exactly."""
    levels = (np.arange(4000) + 0.5) / 4000  # no farther than 3.7 deviations
    skewed = np.log(-np.log(levels))[:, None]
    straight = norm.ppf(levels)[:, None] - 0.5
    right, wrong = (stein_residuals(z, 1.0 - np.exp(z), equal(4000)) for z in (skewed, straight))
    assert max(wrong.mean[0], wrong.spread[0]) < 0.05 and right.skew[0] < 0.05
    assert_allclose(wrong.skew, 1.0, atol=0.05)
    assert wrong.flagged[0] and not right.flagged[0]


def test_particles_without_any_spread_are_flagged():
    z = np.zeros((50, 2))
    assert stein_residuals(z, -z, equal(50)).flagged.all()


def start_draws(log_density, dim, rng):
    target = LogDensity(lambda z: log_density(z).sum(axis=1), dim=dim)
    return StartDraws(Transformed(target, None), rng)


def log_normal(z):
    return -0.5 * z**2


def log_cauchy(z):
    return -np.log1p(z**2)


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_weighted_draws_have_the_moments_of_their_target(dim, rng):
    """Normal with mean 1/2 and standard deviation 3/4; five standard errors of the draws."""
    start = start_draws(lambda z: -0.5 * ((z - 0.5) / 0.75) ** 2, dim, rng)
    error = 5 * np.sqrt(np.sum(start.weights**2))
    mean = start.weights @ start.draws
    assert_allclose(mean, 0.5, atol=0.75 * error)
    assert_allclose(start.weights @ (start.draws - mean) ** 2, 0.75**2, atol=np.sqrt(2) * error)


@pytest.mark.parametrize("dim", [1, 10, 11, 50])
def test_a_target_that_is_the_start_does_not_mismatch(dim, rng):
    start = start_draws(log_normal, dim, rng)
    assert start.mismatch < 1e-9
    assert start.efficiency > 0.8


@pytest.mark.parametrize(("log_density", "law"), [(log_normal, norm), (log_cauchy, cauchy)])
@pytest.mark.parametrize("dim", [1, 5])
def test_particles_at_the_quantiles_are_rarely_contradicted(log_density, law, dim, rng):
    """As for Stein's residuals above; what varies is the draws they are compared with."""
    quantiles = law.ppf((np.arange(100) + 0.5) / 100)
    particles = np.stack([rng.permutation(quantiles) for _ in range(dim)], axis=1)
    contradicted = 0
    for _ in range(REPLICATES):
        start = start_draws(log_density, dim, rng)
        contradicted += start.contradicted(particles, equal(100)).any()
    assert contradicted <= REPLICATES / 20


@pytest.mark.parametrize("change", [lambda x: 0.6 * x, lambda x: 1.8 * x, lambda x: x + 0.6])
def test_particles_elsewhere_are_contradicted_in_their_coordinate(change, rng):
    start = start_draws(log_normal, 4, rng)
    particles = rng.standard_normal((1000, 4))
    particles[:, 2] = change(particles[:, 2])
    assert start.contradicted(particles, equal(1000)).tolist() == [False, False, True, False]


def test_missing_tails_are_contradicted(rng):
    """Particles of the normal that satisfies Stein's identities of a Cauchy density."""
    start = start_draws(log_cauchy, 1, rng)
    z = norm.ppf((np.arange(100) + 0.5) / 100)
    z = z / np.sqrt(np.mean(2 * z**2 / (1 + z**2)))
    assert start.contradicted(z[:, None], equal(100)).all()


@pytest.mark.parametrize("max_iter", [1, 20])
def test_svgd_that_stops_too_early_is_not_silent(max_iter, seed):
    """A Cauchy density, from whose core the particles take some thousand iterations to spread.

    One fit in twenty starts from draws that happen to have the spread of such a density.
    """
    target = LogDensity(
        lambda t: log_cauchy(t).sum(axis=1), score=lambda t: -2 * t / (1 + t**2), dim=1
    )
    message = r"importance-weighted draws have another spread.*Raise the engine's iterations"
    said = 0
    for offset in range(6):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            infer(target, SVGD(max_iter=max_iter), random_state=seed + offset)
        said += any(re.search(message, str(warning.message)) for warning in caught)
    assert said >= 4


@pytest.mark.parametrize("engine", ["mcmc", "stein-points"])
def test_chains_that_agree_and_know_the_peak_alone_are_contradicted(engine, seed):
    """Half of the mass is twenty times as wide as the peak that all chains start in and stay in."""

    def parts(t):
        square = np.sum(t**2, axis=1)
        return np.stack([-0.5 * square, -0.5 * square / 0.05**2 - 2.0 * np.log(0.05)])

    def score(t):
        share = softmax(parts(t), axis=0)
        return -t * (share[0] + share[1] / 0.05**2)[:, None]

    target = LogDensity(lambda t: logsumexp(parts(t), axis=0), score, dim=2)
    silent = 0
    for offset in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            posterior = infer(target, engine, random_state=seed + offset)
        wrong = abs(np.log(posterior.std() / np.sqrt(0.5 * (1.0 + 0.05**2)))).max() > 0.3
        silent += wrong and not caught
    assert not silent


def test_a_density_that_fails_far_out_does_not_end_a_fit():
    def log_density(theta):
        if np.abs(theta).max() > 30.0:
            raise np.linalg.LinAlgError("singular")
        return -0.5 * np.sum(theta**2, axis=1)

    target = LogDensity(log_density, score=lambda theta: -theta, dim=2)
    posterior = infer(target, "svgd", random_state=0)
    assert np.abs(posterior.mean()).max() < 0.1
