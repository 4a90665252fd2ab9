"""Targets against finite differences, direct computations with SciPy, and repeated rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma, log_expit, log_softmax, polygamma
from scipy.stats import invgamma, norm
from sklearn import config_context

from densities import central_differences
from skstein import LogDensity
from skstein._tools.row_blocks import row_blocks
from skstein.priors import InverseGamma, Normal, resolve_prior
from skstein.targets import LinearTarget, LogisticTarget, SoftmaxTarget, Target, supports

KINDS = ["logistic", "softmax", "linear"]
every_kind = pytest.mark.parametrize("kind", KINDS)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])

PRIORS = {"prior": Normal(0.7), "intercept_prior": Normal(3.0)}
NOISE = InverseGamma(2.5, 0.8)
CLASSES = 3


def outcomes(kind, rng, n):
    if kind == "linear":
        return rng.normal(size=n)
    return rng.integers(0, CLASSES if kind == "softmax" else 2, size=n)


def build(kind, X, y, **params):
    params = PRIORS | params
    if kind == "linear":
        return LinearTarget(X, y, noise_prior=NOISE, **params)
    if kind == "softmax":
        return SoftmaxTarget(X, y, n_classes=CLASSES, **params)
    return LogisticTarget(X, y, **params)


def problem(kind, rng, n=30, p=2, **params):
    X, y = rng.normal(size=(n, p)), outcomes(kind, rng, n)
    weights = rng.uniform(0.2, 3.0, size=n)
    target = build(kind, X, y, sample_weight=weights, **params)
    return target, X, y, weights


def direct_rows(kind, theta, X, y, fit_intercept):
    """Log likelihood of each row for one ``theta``, straight from the definition."""
    A = np.column_stack([np.ones(len(X)), X]) if fit_intercept else X
    if kind == "linear":
        return norm.logpdf(y, A @ theta[:-1], np.exp(0.5 * theta[-1]))
    if kind == "softmax":
        eta = A @ theta.reshape(CLASSES, -1).T
        return log_softmax(eta, axis=1)[np.arange(len(y)), y]
    return log_expit(np.where(y == 1, 1, -1) * (A @ theta))


def direct_prior(kind, theta, fit_intercept):
    value, coefficients = 0.0, theta
    if kind == "linear":
        # The density of log sigma^2: that of sigma^2 times sigma^2.
        sigma2, coefficients = np.exp(theta[-1]), theta[:-1]
        value += invgamma.logpdf(sigma2, NOISE.shape, scale=NOISE.scale)
        value += theta[-1]
    table = coefficients.reshape(CLASSES if kind == "softmax" else 1, -1)
    if fit_intercept:
        value += norm.logpdf(table[:, 0], scale=PRIORS["intercept_prior"].scale).sum()
    return value + norm.logpdf(table[:, fit_intercept:], scale=PRIORS["prior"].scale).sum()


@every_kind
@with_and_without_intercept
def test_log_density_is_that_of_the_model(kind, fit_intercept, rng):
    target, X, y, weights = problem(kind, rng, fit_intercept=fit_intercept)
    theta = rng.normal(size=(4, target.dim))
    likelihood = [weights @ direct_rows(kind, t, X, y, fit_intercept) for t in theta]
    prior = [direct_prior(kind, t, fit_intercept) for t in theta]
    assert_allclose(target.log_likelihood(theta), likelihood, rtol=1e-10)
    assert_allclose(target.log_prior(theta), prior, rtol=1e-10)
    assert_allclose(target.log_density(theta), np.add(likelihood, prior), rtol=1e-10)


@every_kind
@with_and_without_intercept
def test_pointwise_log_likelihood_is_that_of_each_row(kind, fit_intercept, rng):
    target, X, y, weights = problem(kind, rng, fit_intercept=fit_intercept)
    theta = rng.normal(size=(4, target.dim))
    pointwise = target.pointwise_log_likelihood(theta)
    direct = [direct_rows(kind, t, X, y, fit_intercept) for t in theta]
    assert_allclose(pointwise, direct, rtol=1e-9, atol=1e-12)
    assert_allclose(pointwise @ weights, target.log_likelihood(theta), rtol=1e-10)


@every_kind
@with_and_without_intercept
def test_score_is_the_gradient(kind, fit_intercept, rng):
    target, *_ = problem(kind, rng, fit_intercept=fit_intercept)
    theta = rng.normal(size=(4, target.dim))
    score = target.score(theta)
    expected = central_differences(target.log_density, theta)
    assert_allclose(score, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    value, both = target.log_density_and_score(theta)
    assert_allclose(value, target.log_density(theta), rtol=1e-12)
    assert_allclose(both, score, rtol=1e-12, atol=1e-12)


@every_kind
@with_and_without_intercept
def test_hessian_is_the_derivative_of_the_negative_score(kind, fit_intercept, rng):
    target, *_ = problem(kind, rng, fit_intercept=fit_intercept)
    theta = rng.normal(size=(1, target.dim))
    hessian = target.hessian(theta[0])
    expected = -central_differences(target.score, theta)[0]
    assert_allclose(hessian, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert_allclose(hessian, hessian.T, rtol=1e-12, atol=1e-12)


def test_hessian_of_a_regression_too_wide_for_its_products_to_be_kept(rng, monkeypatch):
    X, y = rng.normal(size=(6, 3)), rng.normal(size=6)
    kept, theta = LinearTarget(X, y), rng.normal(size=5)
    monkeypatch.setattr("skstein.targets.regression.linear._GRAM_UP_TO", 2)
    assert_allclose(LinearTarget(X, y).hessian(theta), kept.hessian(theta))


@every_kind
@with_and_without_intercept
def test_a_minibatch_is_those_rows_scaled(kind, fit_intercept, rng):
    target, X, y, weights = problem(kind, rng, fit_intercept=fit_intercept)
    theta = rng.normal(size=(3, target.dim))
    rows = rng.permutation(len(X))[:7]
    part = build(kind, X[rows], y[rows], sample_weight=weights[rows], fit_intercept=fit_intercept)
    factor = len(X) / len(rows)
    assert_allclose(
        target.log_likelihood(theta, rows), factor * part.log_likelihood(theta), rtol=1e-9
    )
    prior_score = central_differences(target.log_prior, theta)
    expected = factor * (part.score(theta) - prior_score) + prior_score
    assert_allclose(target.score(theta, rows), expected, atol=1e-7 * np.abs(expected).max())


@every_kind
def test_batches_of_a_partition_average_to_all_rows(kind, rng):
    target, *_ = problem(kind, rng)
    theta = rng.normal(size=(3, target.dim))
    batches = rng.permutation(30).reshape(5, 6)
    assert_allclose(
        np.mean([target.score(theta, rows) for rows in batches], axis=0),
        target.score(theta),
        rtol=1e-9,
        atol=1e-9,
    )


@every_kind
@with_and_without_intercept
def test_integer_weights_equal_repetition(kind, fit_intercept, rng):
    X, y = rng.normal(size=(20, 2)), outcomes(kind, rng, 20)
    weights = rng.integers(0, 4, size=20)
    rows = np.repeat(np.arange(20), weights)
    weighted = build(kind, X, y, sample_weight=weights, fit_intercept=fit_intercept)
    repeated = build(kind, X[rows], y[rows], fit_intercept=fit_intercept)
    theta = rng.normal(size=(3, weighted.dim))
    for a, b in zip(
        weighted.log_density_and_score(theta), repeated.log_density_and_score(theta), strict=True
    ):
        assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    assert_allclose(weighted.hessian(theta[0]), repeated.hessian(theta[0]), rtol=1e-10, atol=1e-10)


@every_kind
def test_center_and_scale_equal_features_standardised_before(kind, rng):
    X, y = rng.normal(3.0, 5.0, size=(20, 2)), outcomes(kind, rng, 20)
    center, scale = X.mean(axis=0), X.std(axis=0)
    inside, outside = (
        build(kind, X, y, center=center, scale=scale),
        build(kind, (X - center) / scale, y),
    )
    theta = rng.normal(size=(3, inside.dim))
    assert_allclose(inside.log_density(theta), outside.log_density(theta), rtol=1e-12)
    assert_allclose(inside.score(theta), outside.score(theta), rtol=1e-10, atol=1e-12)


@every_kind
def test_row_blocks_change_nothing(kind, rng):
    """Blocks of one row (no working memory at all) against a single block."""
    X, y, weights = rng.normal(size=(25, 2)), outcomes(kind, rng, 25), rng.uniform(size=25)
    with config_context(working_memory=0):
        single = build(kind, X, y, sample_weight=weights)
        theta = rng.normal(size=(3, single.dim))
        small = (*single.log_density_and_score(theta), single.hessian(theta[0]))
    whole = build(kind, X, y, sample_weight=weights)
    for a, b in zip(
        small, (*whole.log_density_and_score(theta), whole.hessian(theta[0])), strict=True
    ):
        assert_allclose(a, b, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(
    ("n_rows", "bytes_per_row"), [(0, 8), (1, 8), (1000, 2**12), (7, 2**30), (5, 0)]
)
def test_row_blocks_cover_every_row_once(n_rows, bytes_per_row):
    with config_context(working_memory=1):
        blocks = list(row_blocks(n_rows, bytes_per_row))
    covered = [row for block in blocks for row in range(block.start, block.stop)]
    assert covered == list(range(n_rows))
    assert all(
        block.stop - block.start == 1 or (block.stop - block.start) * bytes_per_row <= 2**20
        for block in blocks
    )


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_extreme_predictors_stay_finite_and_right(kind, rng):
    target, X, y, _ = problem(kind, rng, n=8)
    theta = 1e3 * rng.normal(size=(3, target.dim))
    direct = [direct_rows(kind, t, X, y, True) for t in theta]
    assert_allclose(target.pointwise_log_likelihood(theta), direct, rtol=1e-9, atol=1e-9)
    assert np.isfinite(target.score(theta)).all()


@every_kind
def test_prior_draws_have_the_prior_moments(kind, rng):
    """Means and variances within five standard errors; for log sigma^2 they are polygammas."""
    target, *_ = problem(kind, rng)
    m = 20_000
    draws = target.sample_prior(rng, m)
    mean, variance = np.zeros(target.dim), np.full(target.dim, PRIORS["prior"].scale ** 2)
    excess = np.zeros(target.dim)
    k = CLASSES if kind == "softmax" else 1
    variance[: 3 * k : 3] = PRIORS["intercept_prior"].scale ** 2
    if kind == "linear":
        a, b = NOISE.shape, NOISE.scale
        mean[-1], variance[-1] = np.log(b) - digamma(a), polygamma(1, a)
        excess[-1] = polygamma(3, a) / variance[-1] ** 2
    assert draws.shape == (m, target.dim)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / m)).all()
    error = variance * np.sqrt((2 + excess) / m)
    assert (np.abs(draws.var(axis=0) - variance) < 5 * error).all()
    correlation = np.corrcoef(draws.T) - np.eye(target.dim)
    assert np.abs(correlation).max() < 6 / np.sqrt(m)


def test_linear_target_does_not_cancel_far_from_zero(rng):
    """A mean of 1e6 with noise of 1: the residual sum of squares keeps its digits."""
    X = rng.normal(size=(50, 1))
    y = 1e6 + X[:, 0] + rng.normal(size=50)
    target = LinearTarget(X, y, intercept_prior=Normal(1e7))
    theta = np.array([[1e6, 1.0, 0.0]])
    direct = norm.logpdf(y, 1e6 + X[:, 0], 1.0).sum()
    assert_allclose(target.log_likelihood(theta), [direct], rtol=1e-7)


def test_names_say_intercept_column_and_class(rng):
    X, y = rng.normal(size=(6, 2)), np.array([0, 1, 2, 0, 1, 2])
    named = {"feature_names": ["age", "dose"]}
    assert LogisticTarget(X, y > 0, **named).names == ("intercept", "age", "dose")
    assert LogisticTarget(X, y > 0, fit_intercept=False).names == ("x0", "x1")
    assert LinearTarget(X, y, **named).names == ("intercept", "age", "dose", "log_sigma2")
    softmax = SoftmaxTarget(
        X, y, n_classes=3, class_names=list("abc"), fit_intercept=False, **named
    )
    assert softmax.names == ("age[a]", "dose[a]", "age[b]", "dose[b]", "age[c]", "dose[c]")
    assert len(softmax.names) == softmax.dim


@pytest.mark.parametrize(
    ("X", "y", "weights", "message"),
    [
        (np.ones(3), np.ones(3), None, r"X must have shape \(n, p\), got \(3,\)"),
        (np.ones((3, 1)), np.ones(2), None, r"y must have shape \(3,\), got \(2,\)"),
        (np.ones((3, 1)), np.ones(3), np.ones(4), r"sample_weight must have shape \(3,\)"),
    ],
)
def test_wrong_shapes_are_named(X, y, weights, message):
    with pytest.raises(ValueError, match=message):
        LogisticTarget(X, y, sample_weight=weights)


def test_a_prior_is_resolved_by_name_or_cloned():
    prior = Normal(2.0)
    resolved = resolve_prior(prior)
    assert resolved is not prior and resolved.scale == 2.0
    assert resolve_prior("normal", 7.0).scale == 7.0
    with pytest.raises(ValueError, match="'cauchy' is unknown"):
        resolve_prior("cauchy")
    with pytest.raises(TypeError, match=r"class Normal; pass an instance: intercept_prior=Normal"):
        resolve_prior(Normal, name="intercept_prior")
    with pytest.raises(TypeError, match="is not a prior"):
        resolve_prior(3.0)
    with pytest.raises(ValueError, match="scale"):
        resolve_prior(Normal(-1.0))


# A user's own density.


def standard_normal(**changes):
    parts = {"log_density": lambda t: -0.5 * (t**2).sum(axis=1), "score": lambda t: -t, "dim": 2}
    return LogDensity(**(parts | changes))


def test_log_density_offers_what_it_was_given():
    target = standard_normal()
    assert supports(target, "score")
    for part in ("hessian", "sample_prior", "log_prior", "pointwise_log_likelihood"):
        assert not supports(target, part)
    assert not supports(standard_normal(score=None), "score")
    assert target.names == ("theta[0]", "theta[1]")
    assert_array_equal(target.initial, np.zeros(2))
    assert_array_equal(standard_normal(initial=[1, 2]).initial, [1.0, 2.0])
    assert standard_normal(names=["a", "b"]).names == ("a", "b")


def test_log_density_calls_the_functions_with_batches(rng):
    target = standard_normal(
        hessian=lambda theta: np.eye(2),
        sample_prior=lambda rng, m: rng.normal(size=(m, 2)),
        log_prior=lambda theta: -theta[:, 0],
    )
    theta = rng.normal(size=(5, 2))
    value, score = target.log_density_and_score(theta)
    assert_allclose(value, -0.5 * (theta**2).sum(axis=1))
    assert_array_equal(score, -theta)
    assert_array_equal(target.hessian(theta[0]), np.eye(2))
    assert target.sample_prior(rng, 7).shape == (7, 2)
    assert_array_equal(target.log_prior(theta), -theta[:, 0])


@pytest.mark.parametrize(
    ("part", "function", "arguments", "message"),
    [
        ("log_density", lambda t: 0.0, 1, r"log_density returned shape \(\), expected \(3,\)"),
        ("log_density", lambda t: t, 1, r"log_density returned shape \(3, 2\), expected \(3,\)"),
        ("score", lambda t: t[:, 0], 1, r"score returned shape \(3,\), expected \(3, 2\)"),
        ("log_prior", lambda t: t, 1, r"log_prior returned shape \(3, 2\)"),
        ("sample_prior", lambda rng, m: np.ones(2), 2, r"sample_prior returned shape \(2,\)"),
    ],
)
def test_a_wrong_shape_is_named(part, function, arguments, message, rng):
    target = standard_normal(**{part: function})
    with pytest.raises(ValueError, match=message):
        getattr(target, part)(*[(np.zeros((3, 2)),), (rng, 3)][arguments - 1])


def test_functions_may_work_in_place(rng):
    kept = np.empty(5)

    def log_density(theta):
        theta *= theta
        return np.sum(theta, axis=1, out=kept)

    target, theta = LogDensity(log_density, dim=2), rng.normal(size=(5, 2))
    first, before = target.log_density(theta), theta.copy()
    target.log_density(2.0 * theta)
    assert_array_equal(theta, before)
    assert_allclose(first, np.sum(theta**2, axis=1))


def test_two_coordinates_of_one_name_are_refused():
    with pytest.raises(ValueError, match="2 coordinates are called 'a'"):
        LogDensity(lambda t: -0.5 * np.sum(t**2, axis=1), dim=2, names=["a", "a"])


def test_nan_names_the_function_and_the_particle():
    def log_density(theta):
        return np.where(theta[:, 0] > 1, np.nan, 0.0)

    theta = np.array([[0.0, 0.0], [0.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match="log_density returned NaN for particle 2 of 4"):
        standard_normal(log_density=log_density).log_density(theta)
    with pytest.raises(ValueError, match="score returned NaN for particle 1 of 2"):
        standard_normal(score=lambda t: np.array([[0.0, 0.0], [0.0, np.nan]])).score(
            np.ones((2, 2))
        )


def test_infinity_is_refused_as_a_log_density():
    target = standard_normal(log_density=lambda t: np.where(t[:, 0] > 1, np.inf, 0.0))
    with pytest.raises(ValueError, match="log_density returned infinity for particle 1 of 2"):
        target.log_density(np.array([[0.0, 0.0], [2.0, 0.0]]))


def test_a_density_of_zero_is_allowed():
    target = standard_normal(log_density=lambda t: np.full(len(t), -np.inf))
    assert_array_equal(target.log_density(np.zeros((2, 2))), [-np.inf, -np.inf])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim must be a positive integer, got 0"),
        ({"dim": 2.0}, ValueError, "dim must be a positive integer, got 2.0"),
        ({"dim": True}, ValueError, "dim must be a positive integer, got True"),
        ({"score": 3}, TypeError, "score must be a function of theta, got 3"),
        ({"log_density": None}, TypeError, "log_density must be a function"),
        ({"initial": [0.0]}, ValueError, r"initial must have shape \(2,\), got \(1,\)"),
        ({"names": ["a"]}, ValueError, "names must have 2 entries, got 1"),
    ],
)
def test_log_density_refuses_what_makes_no_sense(changes, error, message):
    with pytest.raises(error, match=message):
        standard_normal(**changes)


def test_a_target_of_ones_own_needs_only_a_prior_and_a_likelihood(rng):
    class Own(Target):
        dim = 2

        def log_prior(self, theta):
            return -theta[:, 0]

        def log_likelihood(self, theta, rows=None):
            return 2.0 * theta[:, 1]

    theta = rng.normal(size=(3, 2))
    assert_allclose(Own().log_density(theta), 2 * theta[:, 1] - theta[:, 0])
    assert Own().names == ("theta[0]", "theta[1]")
    assert not supports(Own(), "score")
    assert [block.tolist() for block in Own().factors] == [[0, 1]]


def test_an_offset_of_a_linear_target_is_taken_off_the_outcome(rng):
    X, y, offset = rng.normal(size=(20, 2)), rng.normal(size=20), rng.normal(size=20)
    theta = rng.normal(size=(3, 4))
    found = LinearTarget(X, y, offset=offset).log_density(theta)
    assert_allclose(found, LinearTarget(X, y - offset).log_density(theta))
