"""Scores of predictive distributions against closed forms, quadrature, sums and scoringrules."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad
from sklearn.metrics import mean_pinball_loss

from skstein._statistics.crps import crps_of_points, mixture_crps
from skstein.metrics import (
    crps,
    crps_normal_mixture,
    expected_calibration_error,
    interval_coverage,
    interval_score,
)
from skstein.outcomes import Normal, NumericOutcome


def crps_of_normal(y, mean, std):
    z = (y - mean) / std
    bracket = z * (2.0 * stats.norm.cdf(z) - 1.0) + 2.0 * stats.norm.pdf(z)
    return std * (bracket - 1.0 / np.sqrt(np.pi))


def by_definition(cdf, y, low, high):
    """Integral of ``(F - [x >= y])^2``."""
    left, _ = quad(lambda x: cdf(x) ** 2, low, y, limit=500, epsabs=1e-12)
    right, _ = quad(lambda x: (1.0 - cdf(x)) ** 2, y, high, limit=500, epsabs=1e-12)
    return left + right


def by_outcome(distribution, weights, y, discrete=False):
    """By the quadrature that an outcome without a closed form has."""
    return mixture_crps(
        lambda x: distribution.cdf(x[:, None]) @ weights,
        lambda level, some: distribution.ppf(level),
        weights,
        y,
        discrete=discrete,
    )


def mixture(rng, n=6, m=9):
    """Heads of a normal outcome, weights, and outcomes: one near, one far out."""
    heads = rng.normal(size=(n, m)), rng.normal(size=m)
    y = np.append(rng.normal(size=n - 1), 30.0)
    return heads, rng.dirichlet(np.ones(m)), y


# The continuous ranked probability score.


def test_crps_of_a_normal(rng):
    mean, y = rng.normal(size=(2, 8))
    std = np.exp(rng.normal(size=8))
    truth = crps_of_normal(y, mean, std)
    assert crps_normal_mixture(y, mean[:, None], std[:, None]) == pytest.approx(truth.mean())
    one = np.ones(1)
    assert_allclose(by_outcome(stats.norm(mean[:, None], std[:, None]), one, y), truth, rtol=1e-7)
    # A mixture of a component with itself, and of points, whose CRPS is that of the points.
    twice = np.stack([mean, mean], axis=1), np.stack([std, std], axis=1)
    assert crps_normal_mixture(y, *twice, [0.3, 0.7]) == pytest.approx(truth.mean())
    points, weights = rng.normal(size=(8, 5)), rng.dirichlet(np.ones(5))
    assert crps_normal_mixture(y, points, 0.0, weights) == pytest.approx(crps(y, points, weights))


def test_crps_of_mixtures_of_normals_against_its_definition(rng):
    heads, weights, y = mixture(rng)
    means, stds = heads[0], np.exp(0.5 * heads[1])
    truth = [
        by_definition(lambda x, row=row: weights @ stats.norm.cdf(x, row, stds), at, -40.0, 40.0)
        for row, at in zip(means, y, strict=True)
    ]
    assert_allclose(Normal().crps(heads, weights, y), truth, rtol=1e-8)
    assert_allclose(NumericOutcome.crps(Normal(), heads, weights, y), truth, rtol=1e-6)
    assert crps_normal_mixture(y, means, stds, weights) == pytest.approx(np.mean(truth))


@pytest.mark.parametrize("m", [400, 401])
def test_crps_of_many_particles(m, rng):
    """Of quantiles in place of draws; with more than 400 of them it is a quadrature."""
    means = np.sqrt(3.0) * stats.norm.ppf((np.arange(m) + 0.5) / m) * np.ones((3, 2, 1))
    y = rng.normal(size=(3, 2))
    found = Normal().crps((means, np.zeros(m)), np.full(m, 1.0 / m), y)
    assert_allclose(found, crps_of_normal(y, 0.0, 2.0), rtol=1e-3)


def test_crps_of_points_is_the_mean_distance_less_half_that_among_themselves(rng):
    points, y, weights = rng.normal(size=(5, 7)), rng.normal(size=5), rng.dirichlet(np.ones(7))
    points[0, :3] = y[0]
    truth = np.abs(points - y[:, None]) @ weights
    truth -= 0.5 * np.abs(points[:, :, None] - points[:, None]) @ weights @ weights
    assert_allclose(crps_of_points(y, points, weights), truth)
    assert crps(y, points, 3.0 * weights) == pytest.approx(truth.mean())
    assert crps(y, points[:, :1]) == pytest.approx(np.abs(points[:, 0] - y).mean())
    # Outcomes far from zero keep their digits.
    far = crps_of_points(y + 1e8, points + 1e8, weights)
    assert_allclose(far, truth, atol=1e-6)


def test_crps_of_points_is_the_mean_pinball_loss_of_all_quantiles(rng):
    points, y = np.sort(rng.normal(size=(1, 400))), np.array([0.3])
    levels = (np.arange(400) + 0.5) / 400
    losses = [mean_pinball_loss(y, points[:, k], alpha=level) for k, level in enumerate(levels)]
    assert crps(y, points) == pytest.approx(2.0 * np.mean(losses), rel=1e-9)


@pytest.mark.parametrize(("mean", "rtol"), [(0.01, 1e-7), (3.0, 1e-7), (40.0, 1e-4)])
def test_crps_of_counts_is_a_sum(mean, rtol):
    """Exact while few counts lie between the quantiles, else by cells."""
    rates, weights = np.array([[mean, 2.0 * mean]]), np.array([0.3, 0.7])
    counts = np.arange(400)
    below = stats.poisson.cdf(counts[:, None], rates) @ weights
    for y in (0.0, np.round(mean), 300.0):
        truth = np.sum((below - (counts >= y)) ** 2)
        found = by_outcome(stats.poisson(rates), weights, np.array([y]), discrete=True)
        assert_allclose(found, truth, rtol=rtol)


def test_crps_of_large_counts_is_that_of_a_normal():
    found = by_outcome(stats.poisson([[1e10]]), np.ones(1), np.array([1e10 + 2e5]), discrete=True)
    assert_allclose(found, crps_of_normal(2e5, 0.0, 1e5), rtol=2e-3)


@pytest.mark.parametrize(("df", "rtol"), [(1.0, 1e-3), (2.0, 1e-6), (30.0, 1e-7)])
def test_crps_of_heavy_tails(df, rtol):
    distribution = stats.t(df, [[0.0]])
    truth = by_definition(stats.t(df).cdf, 1.5, -np.inf, np.inf)
    assert_allclose(by_outcome(distribution, np.ones(1), np.array([1.5])), truth, rtol=rtol)


def test_crps_of_components_of_very_different_width():
    heads = np.zeros((1, 2)), np.log([1e-4, 100.0])
    weights, y = np.array([0.6, 0.4]), np.array([0.02])
    exact = Normal().crps(heads, weights, y)
    assert_allclose(NumericOutcome.crps(Normal(), heads, weights, y), exact, rtol=0.01)


# Intervals.


def test_interval_score_is_the_sum_of_two_pinball_losses(rng):
    y, interval = rng.normal(size=50), np.sort(rng.normal(size=(50, 2)), axis=1)
    for level in (0.0, 0.3, 0.9):
        tail = 0.5 * (1.0 - level)
        ends = [
            mean_pinball_loss(y, interval[:, k], alpha=alpha)
            for k, alpha in enumerate([tail, 1.0 - tail])
        ]
        assert interval_score(y, interval, level) == pytest.approx(sum(ends) / tail)


def test_the_true_interval_has_the_best_score_and_its_coverage(rng):
    y = rng.normal(size=200_000)
    scores = {
        wide: interval_score(y, wide * stats.norm.ppf([0.05, 0.95]) * np.ones((len(y), 1)), 0.9)
        for wide in (0.8, 1.0, 1.25)
    }
    assert min(scores, key=scores.get) == 1.0
    covered = interval_coverage(y, stats.norm.ppf([0.05, 0.95]) * np.ones((len(y), 1)))
    assert covered == pytest.approx(0.9, abs=5 * np.sqrt(0.09 / len(y)))
    assert interval_coverage([1.0, 2.0], [[1.0, 1.0], [2.5, 3.0]]) == 0.5
    assert np.isnan(interval_coverage([1.0, 2.0], [[0.0, np.nan], [1.0, np.inf]]))
    assert np.isnan(interval_coverage([np.nan, 2.0], [[0.0, 1.0], [1.0, np.inf]]))


# All of them.

PROBA = [0.2, 0.7, 0.6, 0.9]
SCORES = {
    "crps": lambda y, **options: crps(y, np.outer(PROBA, [1.0, 2.0]), **options),
    "mixture": lambda y, **options: crps_normal_mixture(y, np.outer(PROBA, [1, 2]), 1.0, **options),
    "interval": lambda y, **options: interval_score(y, np.outer(PROBA, [1.0, 2.0]), **options),
    "coverage": lambda y, **options: interval_coverage(y, np.outer(PROBA, [1.0, 1.5]), **options),
    "calibration": lambda y, **options: expected_calibration_error(y, PROBA, **options),
}


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_a_weight_counts_as_repetition(score, monkeypatch):
    y, weights = np.array([0, 1, 1, 0]), np.array([1, 0, 3, 2])
    found = score(y, sample_weight=weights)
    assert found != score(y)
    monkeypatch.setitem(globals(), "PROBA", np.repeat(PROBA, weights))
    assert found == pytest.approx(score(np.repeat(y, weights)))
    with pytest.raises(ValueError, match="sample_weight must"):
        score(np.repeat(y, weights), sample_weight=weights)


def test_several_outcomes_are_averaged(rng):
    y, samples, weights = rng.normal(size=(5, 2)), rng.normal(size=(5, 2, 6)), rng.uniform(size=5)
    interval = np.sort(samples[..., :2], axis=-1)
    for metric, prediction in ((crps, samples), (interval_score, interval)):
        columns = [metric(y[:, k], prediction[:, k], sample_weight=weights) for k in range(2)]
        assert metric(y, prediction, sample_weight=weights) == pytest.approx(np.mean(columns))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: crps([], []), "y_true must be"),
        (lambda: crps([1.0], [1.0]), "samples must have the shape"),
        (lambda: crps([1.0, 2.0], [[1.0]]), "samples must have the shape"),
        (lambda: crps([1.0], [[1.0, 2.0]], [1.0]), "weights must have the shape"),
        (lambda: crps_normal_mixture([1.0], [1.0], 1.0), "means must have the shape"),
        (lambda: crps_normal_mixture([1.0], [[1.0]], -1.0), "stds must not be negative"),
        (lambda: interval_score([1.0], [[1.0]]), "interval must have the shape"),
        (lambda: interval_score([1.0], [[1.0, 2.0]], 1.0), "level must be less than 1"),
        (lambda: interval_score([1.0], [[1.0, 2.0]], 2.0), "level must be"),
        (lambda: interval_coverage([1.0], [[1.0, 2.0, 3.0]]), "interval must have the shape"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_scoringrules_agrees(rng):
    rules = pytest.importorskip("scoringrules")
    (means, log_variances), weights, y = mixture(rng)
    stds = np.broadcast_to(np.exp(0.5 * log_variances), means.shape)
    many = np.broadcast_to(weights, means.shape)
    truth = rules.crps_mixnorm(y, means, stds, many)
    assert_allclose(Normal().crps((means, log_variances), weights, y), truth, rtol=1e-9)
    assert_allclose(crps(y, means), rules.crps_ensemble(y, means, estimator="nrg").mean())
    found = by_outcome(stats.t(5.0, means[:, :1]), np.ones(1), y)
    assert_allclose(found, rules.crps_t(y, 5.0, means[:, 0]), rtol=1e-6)
    counts, rates = np.round(np.abs(y)), np.exp(means[:, :1])
    found = by_outcome(stats.poisson(rates), np.ones(1), counts, discrete=True)
    assert_allclose(found, rules.crps_poisson(counts, rates[:, 0]), rtol=1e-7)
    low, high = np.sort(means[:, :2], axis=1).T
    theirs = rules.interval_score(y, low, high, 0.2)
    assert interval_score(y, np.stack([low, high], 1), 0.8) == pytest.approx(theirs.mean())
