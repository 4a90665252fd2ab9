"""Balanced thinning against its definition in NumPy, and the moments and quantiles of all draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skstein.thinning import balanced_thin
from skstein.thinning.balanced import _SWEEPS


def features(x):
    """White coordinates and ramps of half a standard deviation to either side, less their means.

    The standard deviation is that of a normal with these outer quantiles.
    """
    knots = np.quantile(x, [0.05, 0.5, 0.95], axis=0)
    std = (knots[2] - knots[0]) / 3.29
    root = np.linalg.cholesky(np.cov(x.T, ddof=0).reshape(x.shape[1], -1))
    white = np.linalg.solve(root, x.T).T
    ramps = [np.clip((x - knot) / (0.5 * std), -1, 1) for knot in knots]
    every = np.concatenate([white, *ramps], axis=1)
    return every - every.mean(axis=0)


def brute_force(x, n_points):
    f, n = features(x), len(x)
    golden = (np.sqrt(5) - 1) / 2
    blocks = [range(b * n // n_points, (b + 1) * n // n_points) for b in range(n_points)]
    chosen = [block[int(b * golden % 1 * len(block))] for b, block in enumerate(blocks)]
    for _ in range(_SWEEPS):
        for b, block in enumerate(blocks):
            others = f[chosen[:b] + chosen[b + 1 :]].sum(axis=0)
            chosen[b] = min(block, key=lambda i: np.sum((others + f[i]) ** 2))
    return chosen


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(10, 80),
    dim=st.integers(1, 4),
    share=st.floats(0.0, 1.0),
)
@settings(deadline=None, max_examples=60)
def test_it_is_descent_over_the_blocks(seed, n, dim, share):
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, size=(n, dim)) @ rng.normal(size=(dim, dim))
    n_points = max(1, round(share * n))
    assert_array_equal(balanced_thin(x, n_points), brute_force(x, n_points))


def test_points_have_the_means_and_shares_in_the_tails_of_all_draws(rng):
    """100 independent draws miss means by 0.1 standard deviations."""
    gaps, misses, levels = [], [], np.array([[0.05], [0.5], [0.95]])
    for _ in range(6):
        x = rng.normal(size=(4, 2500, 6)) ** 3
        flat = x.swapaxes(0, 1).reshape(-1, 6)
        std = flat.std(axis=0)
        points, even = flat[balanced_thin(x, 100)], flat[50::100]
        misses.append((np.abs(points.mean(axis=0) - flat.mean(axis=0)) / std).max())
        knots = np.quantile(flat, levels[:, 0], axis=0)
        shares = ((some[:, None] <= knots).mean(axis=0) for some in (points, even))
        gaps.append([np.mean((share - levels) ** 2) for share in shares])
    assert np.median(misses) < 0.03  # one draw far out may be .1
    of_points, of_even = np.mean(gaps, axis=0)
    assert of_points < of_even  # .3 to .75 of it, and once .9


@pytest.mark.parametrize("tail", ["one draw far out", "Cauchy"])
def test_few_draws_far_out_do_not_decide(tail, rng):
    x = rng.standard_cauchy((10_000, 2)) if tail == "Cauchy" else rng.normal(size=(10_000, 2))
    x[-1] += 1e4
    levels = np.quantile(x, [0.05, 0.5, 0.95], axis=0)
    below = np.mean(x[balanced_thin(x, 100)][:, None] < levels, axis=0)
    # The share of a hundred independent draws below the median has a standard error of .05.
    assert np.abs(below - [[0.05], [0.5], [0.95]]).max() < 0.12


def test_linear_combinations_of_correlated_coordinates_are_balanced(rng):
    z = rng.normal(size=(10_000, 5))
    x = z @ (np.ones((5, 5)) + 0.01 * np.diag(rng.uniform(1, 2, 5)))
    points = z[balanced_thin(x, 100)]
    assert np.abs(points.mean(axis=0) - z.mean(axis=0)).max() < 0.03


def test_units_and_location_make_no_difference(rng):
    x = rng.normal(size=(3000, 4)) ** 3
    scales, shift = np.array([1e-6, 1.0, 1e3, 1e8]), np.array([0.0, 1.0, -1e4, 0.0])
    assert_array_equal(balanced_thin(x, 30), balanced_thin(x * scales + shift, 30))


def test_coordinates_that_are_constant_or_repeat_others_change_no_balance(rng):
    x = rng.normal(size=(2000, 3))
    more = np.column_stack([x, np.full(2000, 7.0), x[:, 0] - 2 * x[:, 1]])
    for draws in (more, more[:3], np.ones((50, 2))):
        indices = balanced_thin(draws, min(50, len(draws)))
        assert np.all(np.diff(indices) > 0)
    chosen = x[balanced_thin(more, 50)]
    assert np.abs(chosen.mean(axis=0) - x.mean(axis=0)).max() < 0.05


def test_modes_get_their_share(rng):
    """Of two chains, one visits the far mode in the last third of its draws alone."""
    x = rng.normal(size=(2, 3000, 2))
    x[0, 2000:] += 20.0
    flat = x.swapaxes(0, 1).reshape(-1, 2)
    assert abs(np.mean(flat[balanced_thin(x, 120), 0] > 10) - 1 / 6) < 0.01


def test_one_draw_of_every_block_of_the_stream(rng):
    x = rng.normal(size=(3, 411, 2))
    indices = balanced_thin(x, 50)
    edges = np.arange(51) * 1233 // 50
    assert np.all(edges[:-1] <= indices) and np.all(indices < edges[1:])
    assert_array_equal(indices, balanced_thin(x.swapaxes(0, 1).reshape(-1, 2), 50))
    assert_array_equal(balanced_thin(x, 1233), np.arange(1233))


def test_bad_input_is_named(rng):
    x = rng.normal(size=(20, 2))
    x[3, 0] = 2.0
    for draws, n_points, message in (
        (x, 0, "n_points must be a positive integer"),
        (x, 21, "n_points must be at most the number of samples, 20"),
        (x[:0], 1, "samples is empty"),
        (np.where(x > 1, np.nan, x), 5, "samples has values that are not finite"),
        (x[0], 1, r"samples must be \(draws, d\)"),
    ):
        with pytest.raises(ValueError, match=message):
            balanced_thin(draws, n_points)
