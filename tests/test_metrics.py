"""Metrics against double sums, quadrature, closed forms and scikit-learn."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist

from skstein.kernels import IMQ, RBF, Linear
from skstein.metrics import (
    agreement,
    expected_calibration_error,
    ksd,
    mmd,
    mmd_gaussian_mixture,
    normalized_ksd,
    total_variation,
)

PROFILE = settings(deadline=None, suppress_health_check=list(HealthCheck))
# Rounding of sums of order 1, of which the root is taken.
ROUNDING = 1e-7


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "kernel", ["imq", "rbf", RBF(bandwidth="median"), IMQ() + Linear()], ids=repr
)
@pytest.mark.parametrize("n", [1, 40])
def test_ksd_is_the_double_sum(kernel, n, rng):
    x, s = rng.normal(size=(2, n, 3))
    weights = rng.uniform(size=n)
    w = weights / weights.sum()
    base = {"imq": IMQ(), "rbf": RBF()}.get(kernel, kernel) if isinstance(kernel, str) else kernel
    matrix = base.fixed(x).stein_matrix(x, s)
    assert ksd(x, s, weights, kernel) == pytest.approx(np.sqrt(w @ matrix @ w))
    assert ksd(x, s, kernel=kernel) == pytest.approx(np.sqrt(matrix.mean()))


def test_ksd_of_one_point_is_its_stein_kernel():
    # |s|^2 + d / l^2 with l^2 = 4 d
    assert ksd([[0.0, 0.0]], [[3.0, 4.0]]) == pytest.approx(np.sqrt(25 + 1 / 4))


def test_ksd_in_blocks_is_the_same_and_small(rng):
    x = rng.normal(size=(5000, 2))
    tracemalloc.start()
    value = ksd(x, -x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27
    blocks = np.split(x, 50)
    total = sum(IMQ().stein_matrix(block, -block, x, -x).sum() for block in blocks)
    assert value == pytest.approx(np.sqrt(total) / 5000)


@pytest.mark.parametrize("metric", [ksd, normalized_ksd])
@pytest.mark.parametrize(
    "arguments, message",
    [
        ((np.zeros(3), np.zeros(3)), "samples must be"),
        ((np.zeros((0, 2)), np.zeros((0, 2))), "samples must be"),
        ((np.zeros((3, 2)), np.zeros((3, 1))), "scores must be"),
        ((np.zeros((3, 2)), np.zeros((3, 2)), np.ones(2)), "weights must have"),
        ((np.zeros((3, 2)), np.zeros((3, 2)), [-1, 1, 1]), "weights must be"),
        ((np.zeros((3, 2)), np.zeros((3, 2)), None, "linear"), "kernel must be"),
    ],
)
def test_bad_arguments_of_ksd_are_named(metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        metric(*arguments)


def test_normalized_ksd_counts_the_points_that_have_weight(rng):
    x, s = rng.normal(size=(2, 30, 3))
    weights = rng.uniform(size=30)
    assert normalized_ksd(x, s) == pytest.approx(np.sqrt(30) * ksd(x, s))
    assert normalized_ksd(x, s, weights, "rbf") == pytest.approx(
        np.sqrt(30) * ksd(x, s, weights, "rbf")
    )
    weights[:12] = 0
    assert normalized_ksd(x, s, weights) == pytest.approx(
        normalized_ksd(x[12:], s[12:], weights[12:])
    )


@pytest.mark.parametrize("n", [10, 100])
def test_normalized_ksd_of_exact_draws_does_not_depend_on_their_number(n, rng):
    # Terms of two different draws have mean zero, those of one have mean E|s|^2 + d / l^2 with
    # l^2 = 4 d: of a standard normal target d + 1/4.
    squares = [normalized_ksd(x, -x) ** 2 for x in rng.normal(size=(400, n, 3))]
    assert abs(np.mean(squares) - 3.25) < 4 * np.std(squares) / np.sqrt(400)


def direct_mmd(x, y, w, v, k):
    """The three double sums, with a kernel that is a function of the squared distance."""
    xx, yy, xy = (k(cdist(a, b, "sqeuclidean")) for a, b in ((x, x), (y, y), (x, y)))
    return np.sqrt(w @ xx @ w + v @ yy @ v - 2 * w @ xy @ v)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    "kernel, profile",
    [
        ("rbf", lambda squares: np.exp(-squares / 6)),
        (RBF(bandwidth=0.5), lambda squares: np.exp(-2 * squares)),
        ("imq", lambda squares: 1 / np.sqrt(1 + squares / 12)),
        (IMQ(length_scale=2.0, exponent=-0.3), lambda squares: (1 + squares / 4) ** -0.3),
    ],
    ids=["rbf", "narrow rbf", "imq", "imq of another exponent"],
)
def test_mmd_is_its_double_sums(kernel, profile, weighted, rng):
    x, y = rng.normal(size=(30, 3)), rng.normal(0.5, 2.0, size=(20, 3))
    w, v = (rng.uniform(size=n) if weighted else np.ones(n) for n in (30, 20))
    given_weights = (3 * w, v) if weighted else (None, None)
    truth = direct_mmd(x, y, w / w.sum(), v / v.sum(), profile)
    assert mmd(x, y, *given_weights, kernel=kernel) == pytest.approx(truth)


def test_mmd_of_a_rule_takes_the_points_of_both(rng):
    x, y = rng.normal(size=(30, 2)), rng.normal(5.0, 1.0, size=(20, 2))
    fixed = RBF(bandwidth="median").fixed(np.concatenate([x, y]))
    assert mmd(x, y, kernel=RBF(bandwidth="median")) == pytest.approx(mmd(x, y, kernel=fixed))


def test_mmd_with_a_linear_kernel_is_the_distance_of_the_means(rng):
    x, y = rng.normal(size=(30, 4)), rng.normal(size=(20, 4))
    distance = np.linalg.norm(x.mean(axis=0) - y.mean(axis=0))
    assert mmd(x, y, kernel=Linear(scale=5.0)) == pytest.approx(distance)


def test_mmd_in_blocks_is_the_same_and_small(rng):
    x, y = rng.normal(size=(3000, 2)), rng.normal(size=(2500, 2)) + 0.1
    tracemalloc.start()
    value = mmd(x, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27
    w, v = np.full(3000, 1 / 3000), np.full(2500, 1 / 2500)
    assert value == pytest.approx(direct_mmd(x, y, w, v, lambda squares: np.exp(-squares / 4)))


@given(seed=st.integers(0, 99), scale=st.floats(0.01, 10.0))
@PROFILE
def test_mmd_is_a_distance(seed, scale):
    rng = np.random.default_rng(seed)
    x, y, z = (rng.normal(0, scale, size=(n, 2)) for n in rng.integers(1, 9, size=3))
    w, v, u = (rng.exponential(size=len(points)) for points in (x, y, z))
    for kernel in (RBF(bandwidth=1.0), IMQ(length_scale=1.0)):
        value = mmd(x, y, w, v, kernel)
        assert 0 <= value <= np.sqrt(2)
        assert value == pytest.approx(mmd(y, x, v, w, kernel), abs=ROUNDING)
        assert mmd(x, x[::-1], w, w[::-1], kernel) < ROUNDING
        assert value <= mmd(x, z, w, u, kernel) + mmd(z, y, u, v, kernel) + ROUNDING
        # Points of weight zero are not there, and a repeated one counts twice.
        more = mmd(np.concatenate([x, z]), y, np.concatenate([w, 0 * u]), v, kernel)
        assert more == pytest.approx(value, abs=ROUNDING)
        twice = mmd(np.concatenate([x, x]), y, np.concatenate([w, w]), v, kernel)
        assert twice == pytest.approx(value, abs=ROUNDING)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((np.zeros(3), np.zeros((3, 1))), "samples must be"),
        ((np.zeros((3, 2)), np.zeros((0, 2))), "reference must be"),
        ((np.zeros((3, 2)), np.zeros((3, 1))), "reference must have"),
        ((np.zeros((3, 2)), np.zeros((4, 2)), np.ones(4)), "weights must have"),
        ((np.zeros((3, 2)), np.zeros((4, 2)), None, np.ones(3)), "reference_weights must have"),
        ((np.zeros((3, 2)), np.zeros((4, 2)), None, [1, 0, 0, np.nan]), "reference_weights must"),
        ((np.zeros((3, 2)), np.zeros((4, 2)), np.zeros(3)), "weights must be"),
        ((np.zeros((3, 2)), np.zeros((4, 2)), None, None, "linear"), "kernel must be"),
    ],
)
def test_bad_arguments_of_mmd_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        mmd(*arguments)


@pytest.fixture
def mixture(rng):
    """Means, full covariances and weights of three components in the plane."""
    factors = rng.normal(size=(3, 2, 2))
    return rng.normal(0, 2, size=(3, 2)), factors @ factors.transpose(0, 2, 1), [0.5, 0.2, 0.3]


def quadrature(means, covariances, weights):
    """Gauss-Hermite nodes of a mixture in the plane and their weights.

    So many that in the widest direction of a component they are closer than a kernel is wide.
    """
    z, w = np.polynomial.hermite_e.hermegauss(120)
    z, w = z[w > 1e-14], w[w > 1e-14]
    nodes = np.stack(np.meshgrid(z, z), axis=-1).reshape(-1, 2)
    points = [m + nodes @ np.linalg.cholesky(S).T for m, S in zip(means, covariances, strict=True)]
    return np.concatenate(points), np.concatenate([p * np.outer(w, w).ravel() for p in weights])


@pytest.mark.parametrize("bandwidth", [1.5, "dim", "median"])
def test_mmd_to_a_mixture_is_quadrature(bandwidth, mixture, rng):
    x, w = rng.normal(0, 2, size=(12, 2)), rng.uniform(size=12)
    means, covariances, pi = mixture
    nodes, node_weights = quadrature(*mixture)
    truth = mmd(x, nodes, w, node_weights, RBF(bandwidth).fixed(x))
    value = mmd_gaussian_mixture(x, means, covariances, w, pi, RBF(bandwidth))
    assert value == pytest.approx(truth, rel=1e-6)


def test_mmd_to_a_mixture_of_points_is_mmd(rng):
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    w, v = rng.uniform(size=9), rng.uniform(size=5)
    value = mmd_gaussian_mixture(x, y, np.zeros((5, 3, 3)), w, v)
    assert value == pytest.approx(mmd(x, y, w, v))


@pytest.mark.parametrize("dim", [1, 10])
def test_mmd_of_draws_from_a_mixture(dim, rng):
    # One Gaussian as two halves. E mmd^2 = (E k(x, x) - E k(x, x')) / n, where h^2 = d and x - x'
    # has the covariance 2 S: E k(x, x') = |I + 2 S / d|^(-1/2).
    n, replicates = 20, 400
    factor = rng.normal(size=(dim, dim))
    covariance = factor @ factor.T
    mean = rng.normal(size=dim)
    squares = [
        mmd_gaussian_mixture(x, [mean, mean], [covariance, covariance], None, [0.3, 0.7]) ** 2
        for x in rng.multivariate_normal(mean, covariance, size=(replicates, n))
    ]
    truth = (1 - np.linalg.det(np.eye(dim) + 2 * covariance / dim) ** -0.5) / n
    assert abs(np.mean(squares) - truth) < 4 * np.std(squares) / np.sqrt(replicates)


def test_mmd_to_a_mixture_does_not_depend_on_the_frame(mixture, rng):
    x = rng.normal(size=(8, 2))
    means, covariances, pi = mixture
    value = mmd_gaussian_mixture(x, means, covariances, None, pi)
    turn, shift = np.linalg.qr(rng.normal(size=(2, 2)))[0], [100.0, -50.0]
    turned = turn @ covariances @ turn.T
    moved = mmd_gaussian_mixture(x @ turn.T + shift, means @ turn.T + shift, turned, None, pi)
    assert moved == pytest.approx(value)
    order = [2, 0, 1]
    permuted = (x[::-1], means[order], covariances[order], None, np.array(pi)[order])
    assert mmd_gaussian_mixture(*permuted) == pytest.approx(value)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"samples": np.zeros(3)}, "samples must be"),
        ({"means": np.zeros(2)}, "means must be"),
        ({"means": np.zeros((2, 3))}, "means must have"),
        ({"covariances": np.eye(2)}, "covariances must be"),
        ({"covariances": [np.eye(2), [[1, 1], [0, 1]]]}, "covariances must be"),
        ({"covariances": [np.eye(2), [[1, 2], [2, 1]]]}, "covariances must be"),
        ({"covariances": [np.eye(2), np.full((2, 2), np.nan)]}, "covariances must be"),
        ({"weights": [1, 2]}, "weights must have"),
        ({"mixture_weights": [1, -1]}, "mixture_weights must be"),
        ({"kernel": "imq"}, "kernel must be"),
        ({"kernel": RBF() + Linear()}, "kernel must be"),
    ],
)
def test_bad_mixtures_are_named(changed, message):
    arguments = {
        "samples": np.zeros((3, 2)),
        "means": np.zeros((2, 2)),
        "covariances": [np.eye(2), np.eye(2)],
    }
    with pytest.raises(ValueError, match=message):
        mmd_gaussian_mixture(**{**arguments, **changed})


def direct_calibration_error(codes, proba, n_bins):
    error = 0.0
    for b in range(n_bins):
        inside = [
            (p.max(), p.argmax() == c)
            for c, p in zip(codes, proba, strict=True)
            if b / n_bins < p.max() <= (b + 1) / n_bins
        ]
        if inside:
            confidence, right = np.mean(inside, axis=0)
            error += len(inside) / len(codes) * abs(right - confidence)
    return error


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_bins", [1, 7, 15])
def test_calibration_error_is_its_definition(n_classes, n_bins, rng):
    proba = rng.dirichlet(np.ones(n_classes), size=300)
    codes = rng.integers(n_classes, size=300)
    truth = direct_calibration_error(codes, proba, n_bins)
    assert expected_calibration_error(codes, proba, n_bins) == pytest.approx(truth)
    names = np.array(["a", "b", "c", "d"])[:n_classes]
    assert expected_calibration_error(names[codes], proba, n_bins) == pytest.approx(truth)
    if n_classes == 2:
        assert expected_calibration_error(codes, proba[:, 1], n_bins) == pytest.approx(truth)


def test_calibration_error_in_closed_form(rng):
    assert expected_calibration_error([0, 1, 1], [0.0, 1.0, 1.0 + 7e-16]) < 1e-15
    assert expected_calibration_error([1, 0, 0], [0.0, 1.0, 1.0]) == 1
    # Labels drawn from the stated probabilities: what remains is of the order of sqrt(15 / n).
    p = rng.uniform(size=100_000)
    assert expected_calibration_error(rng.uniform(size=p.size) < p, p) < 0.01


@pytest.mark.parametrize(
    "y_true, y_prob, labels, message",
    [
        ([[0, 1]], [0.5], None, "y_true must be"),
        ([0, 1], [0.5], None, r"y_prob must be \(2,\)"),
        ([0, 1], [0.5, 1.5], None, "between 0 and 1"),
        ([0, 1], [0.5, np.nan], None, "between 0 and 1"),
        ([0, 1], [[0.5, 0.4], [0.5, 0.5]], None, "sum to 1"),
        ([0, 0], [0.5, 0.4], None, "pass all class labels"),
        ([0, 2], [0.5, 0.4], [0, 1], "labels must be distinct"),
        ([0, 0], [0.5, 0.4], [0, 0], "labels must be distinct"),
    ],
)
def test_bad_predictions_are_named(y_true, y_prob, labels, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(y_true, y_prob, labels=labels)


def test_bad_bins_are_named():
    with pytest.raises(ValueError, match="n_bins must be"):
        expected_calibration_error([0, 1], [0.1, 0.9], n_bins=0)


@st.composite
def predictions(draw, number):
    """Predictive distributions of the same cases and classes."""
    shape = (draw(st.integers(1, 6)), draw(st.integers(2, 4)))
    counts = arrays(int, shape, elements=st.integers(0, 50))
    return [
        (n + 1e-3) / (n + 1e-3).sum(axis=1, keepdims=True)
        for n in draw(st.tuples(*[counts] * number))
    ]


@given(predictions(2))
@PROFILE
def test_agreement_and_total_variation_are_their_definitions(pair):
    p, q = pair
    same, distance = 0, 0.0
    classes = range(p.shape[1])
    sets = [s for r in range(len(classes) + 1) for s in itertools.combinations(classes, r)]
    for a, b in zip(p, q, strict=True):
        same += max(classes, key=lambda j: a[j]) == max(classes, key=lambda j: b[j])
        distance += max(a[list(s)].sum() - b[list(s)].sum() for s in sets)
    assert agreement(p, q) == same / len(p)
    assert total_variation(p, q) == pytest.approx(distance / len(p))


@given(predictions(3), st.randoms(use_true_random=False))
@PROFILE
def test_invariances_of_agreement_and_total_variation(three, random):
    p, q, r = three
    rows, columns = (random.sample(range(n), n) for n in p.shape)
    for metric, of_itself in ((agreement, 1.0), (total_variation, 0.0)):
        value = metric(p, q)
        assert 0 <= value <= 1 + 1e-12
        assert value == metric(q, p)
        assert metric(p, p) == of_itself
        assert metric(p[rows], q[rows]) == pytest.approx(value)
    assert total_variation(p[:, columns], q[:, columns]) == pytest.approx(total_variation(p, q))
    assert total_variation(p, q) <= total_variation(p, r) + total_variation(r, q) + 1e-12


def test_two_classes_may_be_given_by_the_second(rng):
    p, q = rng.uniform(size=(2, 50))
    both = np.column_stack([1 - q, q])
    for metric in (agreement, total_variation):
        assert metric(p, q) == metric(p, both) == metric(both, p)
    assert total_variation(p, q) == pytest.approx(np.abs(p - q).mean())
    assert agreement(p, q) == np.mean((p > 0.5) == (q > 0.5))


def test_total_variation_of_certain_predictions():
    certain = np.eye(3)
    assert total_variation(certain, certain[[1, 2, 0]]) == 1
    assert total_variation(certain, certain[[0, 2, 1]]) == pytest.approx(2 / 3)
    assert agreement(certain, certain[[0, 2, 1]]) == pytest.approx(1 / 3)
    # Of equally probable classes the first is named.
    assert agreement([[0.5, 0.5]], [[1, 0]]) == 1


@pytest.mark.parametrize("metric", [agreement, total_variation])
@pytest.mark.parametrize(
    "y_prob, reference, message",
    [
        (0.5, 0.5, "y_prob must be"),
        ([], [], "y_prob must be"),
        ([[[0.5]]], [0.5], "y_prob must be"),
        ([0.5, -0.1], [0.5, 0.5], "y_prob must hold"),
        ([0.5, 0.1], [0.5], r"reference must be \(2,\)"),
        ([0.5, 0.1], [0.5, np.nan], "reference must hold"),
        ([[0.5, 0.5]], [[0.5, 0.4]], "reference must have rows"),
        ([0.5], [[0.5, 0.4, 0.1]], "reference must be about the 2 classes"),
    ],
)
def test_bad_pairs_of_predictions_are_named(metric, y_prob, reference, message):
    with pytest.raises(ValueError, match=message):
        metric(y_prob, reference)
