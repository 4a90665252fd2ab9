"""Thinning and weighting of finished samples: brute force, optimality conditions, and a peer."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skstein.kernels import IMQ, RBF, Linear
from skstein.metrics import ksd
from skstein.thinning import backward_thin, stein_kernel_thin, stein_thin, stein_weights
from skstein.thinning.coordinates import SteinCoordinates
from skstein.thinning.stein_kernel_thinning import _halved, _refined
from skstein.thinning.subsets import simplex_weights
from small import later

KERNELS = [IMQ(), IMQ(length_scale=1.5, exponent=-0.7), RBF()]


def sample(rng, n=60, dim=3):
    x = rng.normal(size=(n, dim)) * 1.5 + 0.3
    return x, -x


def total(matrix, subset):
    return matrix[np.ix_(subset, subset)].sum()


def brute_greedy(matrix, n_points):
    chosen = []
    for _ in range(n_points):
        chosen.append(min(range(len(matrix)), key=lambda c: total(matrix, [*chosen, c])))
    return chosen


def brute_backward(matrix, n_points):
    kept = list(range(len(matrix)))
    while len(kept) > n_points:
        kept = min(
            ([j for j in kept if j != i] for i in kept), key=lambda rest: total(matrix, rest)
        )
    return kept


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_greedy_is_brute_force(kernel, rng):
    x, s = sample(rng)
    indices = stein_thin(x, s, 15, kernel=kernel, preconditioner=None)
    assert_array_equal(indices, brute_greedy(kernel.stein_matrix(x, s), 15))


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    dim=st.integers(1, 5),
    kernel=st.sampled_from(KERNELS),
    share=st.floats(0.01, 1.0),
)
@settings(deadline=None, max_examples=40)
def test_backward_is_brute_force(seed, n, dim, kernel, share):
    x, s = sample(np.random.default_rng(seed), n, dim)
    n_points = max(1, round(share * n))
    indices = backward_thin(x, s, n_points, kernel=kernel, preconditioner=None)
    assert_array_equal(indices, brute_backward(kernel.stein_matrix(x, s), n_points))


@pytest.mark.parametrize("n_outliers", [later(0), 8, later(30)])
def test_backward_of_more_than_one_block_and_with_outliers(n_outliers, rng):
    """Row sums are right to the last digit that matters after huge entries have left them."""
    x, s = sample(rng, 700, 2)
    s[:n_outliers] *= 10.0 ** rng.uniform(3, 12, size=(n_outliers, 1))
    matrix = IMQ().stein_matrix(x, s).astype(np.longdouble)
    kept = np.arange(700)
    while len(kept) > 10:
        inner = matrix[np.ix_(kept, kept)]
        kept = np.delete(kept, np.argmax(2 * inner.sum(axis=0) - np.diagonal(inner)))
    assert_array_equal(backward_thin(x, s, 10, preconditioner=None), kept)


@pytest.mark.parametrize(
    "setting, length_scale",
    [("id", 1.0), ("med", "median"), ("sclmed", "scaled-median"), ("smpcov", "cov")],
)
def test_the_four_settings_of_stein_thinning(setting, length_scale, data_dir):
    """The indices that the package stein-thinning 0.2.0 returns on its demo data."""
    with np.load(data_dir / "stein_gmm_demo.npz") as file:
        x, s, expected = file["samples"], file["scores"], file[setting]
    deviation = np.abs(x - x.mean(axis=0)).mean(axis=0)
    options = {"length_scale": length_scale, "preconditioner": np.diag(deviation**2)}
    assert_array_equal(stein_thin(x, s, 100, **options), expected)


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_matrix_of_squared_scales_is_the_kernel_of_its_definition(kernel, dim, rng):
    """k0 by central differences of phi((x - y)' G^-1 (x - y)), with the scores as they are."""
    x, s = rng.normal(size=(8, dim)), rng.normal(size=(8, dim))
    root = np.tril(rng.normal(size=(dim, dim)), -1) + np.diag(rng.uniform(0.5, 2, dim))
    unit = (
        kernel.set_params(bandwidth=1.0) if isinstance(kernel, RBF) else IMQ(1.0, kernel.exponent)
    )

    def k(a, b):
        return unit.matrix(np.linalg.solve(root, a)[None], np.linalg.solve(root, b)[None])[0, 0]

    def k0(a, b, sa, sb, h=1e-4):
        steps = h * np.eye(dim)
        by_a = np.array([k(a + e, b) - k(a - e, b) for e in steps]) / (2 * h)
        by_b = np.array([k(a, b + e) - k(a, b - e) for e in steps]) / (2 * h)
        both = sum(
            k(a + e, b + e) - k(a + e, b - e) - k(a - e, b + e) + k(a - e, b - e) for e in steps
        ) / (4 * h**2)
        return k(a, b) * sa @ sb + by_a @ sb + by_b @ sa + both

    matrix = np.array([[k0(x[i], x[j], s[i], s[j]) for j in range(8)] for i in range(8)])
    chosen = stein_thin(x, s, 6, kernel=kernel, length_scale=root @ root.T, preconditioner=None)
    assert_array_equal(chosen, brute_greedy(matrix, 6))
    weights = stein_weights(x, s, kernel=kernel, length_scale=root @ root.T, preconditioner=None)
    assert_allclose(weights, simplex_weights(matrix), atol=1e-5)


def test_rules_for_the_length_scale(rng):
    x, s = sample(rng, 40)
    distances = [np.linalg.norm(x[i] - x[j]) for i, j in combinations(range(40), 2)]
    median = np.median(distances)

    def thin(length_scale, kernel="imq", preconditioner=None):
        return stein_thin(
            x, s, 20, kernel=kernel, length_scale=length_scale, preconditioner=preconditioner
        )

    def own(length_scale, kernel=IMQ):
        return stein_thin(x, s, 20, kernel=kernel(length_scale), preconditioner=None)

    assert_array_equal(thin("median"), own(median))
    assert_array_equal(thin("scaled-median"), own(median / np.sqrt(np.log(40))))
    assert_array_equal(thin(0.7), own(0.7))
    assert_array_equal(thin(0.7, "rbf"), own(0.7, RBF))
    assert_array_equal(thin(0.49 * np.eye(3)), own(0.7))
    assert_array_equal(thin("cov"), thin(np.cov(x.T)))
    # In whitened coordinates the samples' covariance is the identity.
    assert_array_equal(thin("cov", preconditioner="cov"), thin(1.0, preconditioner="cov"))
    assert SteinCoordinates(IMQ(exponent=-0.3), 0.7, None, x).base_kernel.exponent == -0.3
    # Of more than 1000 samples, evenly spaced ones.
    many = rng.normal(size=(2500, 2))
    some = many[np.linspace(0, 2499, 1000, dtype=int)]
    assert SteinCoordinates("imq", "median", None, many).base_kernel.length_scale == pytest.approx(
        SteinCoordinates("imq", "median", None, some).base_kernel.length_scale
    )


def test_whitening_is_the_affine_map_of_samples_and_scores(rng):
    z = rng.normal(size=(300, 3))
    root = np.tril(rng.normal(size=(3, 3)), -1) + 3 * np.eye(3)
    x, s = z @ root.T + 5, -np.linalg.solve(root.T, z.T).T
    for thin in (stein_thin, backward_thin):
        assert_array_equal(
            thin(x, s, 9, preconditioner=root @ root.T), thin(z, -z, 9, preconditioner=None)
        )
        # The sample covariance makes the choice invariant to affine maps.
        assert_array_equal(thin(x, s, 9), thin(z, -z, 9))
    assert_allclose(stein_weights(x, s), stein_weights(z, -z), atol=1e-9)


def test_kernel_thinning_halves_alike(rng):
    """Both halves are a partition, and differ a third as much as random halves do."""
    x = rng.standard_normal((256, 2))
    matrix = IMQ().stein_matrix(x, -x)

    def difference(halves):
        signs = np.zeros(len(x))
        signs[halves[0]], signs[halves[1]] = 1.0, -1.0
        return signs @ matrix @ signs

    walks = [_halved(matrix, rng.permutation(256), rng) for _ in range(20)]
    assert_array_equal(np.sort(np.concatenate(walks[0])), np.arange(256))
    by_chance = [difference(rng.permutation(256).reshape(2, -1)) for _ in range(100)]
    assert np.mean(list(map(difference, walks))) < 0.6 * np.mean(by_chance)


def test_refinement_never_raises_the_discrepancy(rng):
    x, s = sample(rng)
    matrix = IMQ().stein_matrix(x, s)
    for _ in range(20):
        chosen = rng.integers(len(x), size=7)
        refined = _refined(matrix, chosen)
        assert total(matrix, refined) <= total(matrix, chosen) * (1 + 1e-12)


def test_kernel_thinning_corrects_a_burn_in_and_keeps_the_spread(rng):
    x = rng.standard_normal((5000, 3))
    x[:500] += np.linspace(8.0, 0.0, 500)[:, None]
    points = x[stein_kernel_thin(x, -x, 64, random_state=0)]
    assert np.abs(points.mean(axis=0)).max() < 0.05  # of all draws 0.4
    assert_allclose(points.std(axis=0), 1.0, atol=0.15)


def test_chains_are_taken_in_turn(rng):
    x = rng.normal(size=(3, 20, 2))
    flat = x.swapaxes(0, 1).reshape(-1, 2)
    for function in (
        lambda x, s: stein_thin(x, s, 5),
        lambda x, s: stein_kernel_thin(x, s, 5, random_state=0),
        lambda x, s: backward_thin(x, s, 5),
        stein_weights,
    ):
        assert_array_equal(function(x, -x), function(flat, -flat))
        assert_array_equal(function(x, -x), function(x, np.negative))


def test_weights_of_two_points_in_closed_form(rng):
    for _ in range(20):
        root = rng.normal(size=(2, 3))
        a, b, c = (root @ root.T)[[0, 0, 1], [0, 1, 1]]
        first = np.clip((c - b) / (a - 2 * b + c), 0, 1)
        assert_allclose(simplex_weights(root @ root.T), [first, 1 - first], atol=1e-9)


@pytest.mark.parametrize("rank", [2, 6, 12])
def test_weights_are_the_best_of_all_supports(rank, rng):
    """Every subset of six points has its own minimum on the plane of sum 1."""
    for _ in range(10):
        root = rng.normal(size=(6, rank)) + rng.normal(size=rank)
        matrix = root @ root.T + 1e-6 * np.eye(6)
        best = np.inf
        for size in range(1, 7):
            for support in map(list, combinations(range(6), size)):
                w = np.linalg.solve(matrix[np.ix_(support, support)], np.ones(size))
                w /= w.sum()
                if np.all(w >= 0):
                    best = min(best, w @ matrix[np.ix_(support, support)] @ w)
        weights = simplex_weights(matrix)
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
        assert weights @ matrix @ weights == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_weights_satisfy_the_conditions_of_a_minimum(scale, rng):
    """K w is the minimum itself where weight is, and no less elsewhere; repeats do no harm."""
    x, s = sample(rng, 150, 4)
    x, s = np.concatenate([x, x[:30]]) * scale, np.concatenate([s, s[:30]]) / scale
    kernel = IMQ(length_scale=4.0 * scale)
    weights = stein_weights(x, s, kernel=kernel, preconditioner=None)
    slopes = kernel.stein_matrix(x, s) @ weights
    minimum = weights @ slopes
    tolerance = 1e-8 * np.mean(kernel.stein_diagonal(x, s))
    assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
    assert_allclose(slopes[weights > 0], minimum, atol=tolerance)
    assert slopes.min() > minimum - tolerance
    assert ksd(x, s, weights, kernel) == pytest.approx(np.sqrt(minimum), rel=1e-6)
    assert np.sqrt(minimum) < 0.5 * ksd(x, s, None, kernel)


def test_bad_parameters_are_named(rng):
    x, s = sample(rng, 10)
    for function in (
        lambda x, s, **options: stein_thin(x, s, 3, **options),
        lambda x, s, **options: backward_thin(x, s, 3, **options),
        stein_weights,
    ):
        for options, message in (
            ({"kernel": Linear()}, "kernel must be"),
            ({"length_scale": "mean"}, "length_scale must be"),
            ({"length_scale": -1.0}, "length_scale must be positive"),
            ({"length_scale": np.ones(3)}, "length_scale must be"),
            ({"length_scale": -np.eye(3)}, "length_scale is not symmetric and positive"),
            ({"preconditioner": "auto"}, "preconditioner must be"),
        ):
            with pytest.raises(ValueError, match=message):
                function(x, s, **options)
        with pytest.raises(ValueError, match="scores has values that are not finite"):
            function(x, np.full_like(s, np.inf))
        with pytest.raises(ValueError, match="samples is empty"):
            function(x[:0], s[:0])
        with pytest.raises(ValueError, match="more than 3 samples"):
            function(x[:3], s[:3])
        with pytest.raises(ValueError, match="median distance between samples is 0"):
            function(np.ones((9, 2)), np.ones((9, 2)), length_scale="median", preconditioner=None)
    with pytest.raises(ValueError, match="n_points must be a positive integer"):
        stein_thin(x, s, 0)
    with pytest.raises(ValueError, match="n_points must be at most 4096"):
        stein_kernel_thin(x, s, 5000)
    with pytest.raises(ValueError, match="n_points must be at most"):
        backward_thin(x, s, 11)
