"""Thinning against brute force on the full Stein matrix, and on streams of known moments."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skstein._jit._compile import DISPATCHERS
from skstein.kernels import IMQ, RBF, Linear
from skstein.thinning import OnlineKSDThinner, stein_thin

KERNELS = [IMQ(), IMQ(length_scale=1.5, exponent=-0.7), RBF()]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def stream(rng, n=200, dim=3):
    x = rng.normal(size=(n, dim)) * 1.5 + 0.3
    return x, -x


def total(matrix, subset):
    return matrix[np.ix_(subset, subset)].sum()


def best_candidate(matrix, kept, group):
    return min(group, key=lambda c: matrix[c, c] + 2 * matrix[c, kept].sum())


def brute_capped(matrix, n_points, candidates):
    """Leave out, of dictionary and candidate, the point without which the KSD is smallest."""
    kept = []
    for start in range(0, len(matrix) - candidates + 1, candidates):
        union = [*kept, best_candidate(matrix, kept, range(start, start + candidates))]
        if len(union) > n_points:
            out = min(union, key=lambda i: total(matrix, [j for j in union if j != i]))
            union.remove(out)
        kept = union
    return kept


def brute_floored(matrix, floor, eps, candidates):
    kept = []
    for t, start in enumerate(range(0, len(matrix) - candidates + 1, candidates), start=1):
        kept.append(best_candidate(matrix, kept, range(start, start + candidates)))
        bound = total(matrix, kept) / len(kept) ** 2 + eps(t)
        while len(kept) - 1 >= max(1, np.ceil(floor(t))):
            rests = [[j for j in kept if j != i] for i in kept]
            rest = min(rests, key=lambda r: total(matrix, r))
            if not total(matrix, rest) / len(rest) ** 2 < bound:
                break
            kept = rest
    return kept


def brute_greedy(matrix, n_points):
    chosen = []
    for _ in range(n_points):
        chosen.append(min(range(len(matrix)), key=lambda c: total(matrix, [*chosen, c])))
    return chosen


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("candidates", [1, 3])
@pytest.mark.parametrize("n_points", [1, 12])
def test_capped_is_brute_force(kernel, candidates, n_points, rng):
    x, s = stream(rng)
    thinner = OnlineKSDThinner(n_points, kernel, candidates=candidates).fit(x, s)
    matrix = kernel.stein_matrix(x, s)
    kept = brute_capped(matrix, n_points, candidates)
    assert_array_equal(thinner.indices_, sorted(kept))
    assert_array_equal(thinner.samples_, x[sorted(kept)])
    assert_array_equal(thinner.scores_, s[sorted(kept)])
    assert thinner.ksd_ == pytest.approx(np.sqrt(total(matrix, kept)) / len(kept), rel=1e-9)
    assert n_points <= thinner.n_accepted_ <= len(x) // candidates


@pytest.mark.parametrize("kernel", KERNELS[::2], ids=repr)
@pytest.mark.parametrize("candidates", [1, 2])
@pytest.mark.parametrize(
    "budget, floor",
    [
        ("linear", lambda t: t / 2),
        ("sqrt", lambda t: np.sqrt(t * np.log(t))),
        (7.5, lambda t: 7.5),
        (lambda t: 2 + t**0.5, lambda t: 2 + t**0.5),
    ],
)
@pytest.mark.parametrize("eps", [0.0, lambda t: 0.1 / t])
def test_floored_is_brute_force(kernel, candidates, budget, floor, eps, rng):
    x, s = stream(rng, 90)
    thinner = OnlineKSDThinner(kernel=kernel, budget=budget, eps=eps, candidates=candidates)
    thinner.fit(x, s)
    slack = eps if callable(eps) else lambda t: eps
    kept = brute_floored(kernel.stein_matrix(x, s), floor, slack, candidates)
    assert_array_equal(thinner.indices_, sorted(kept))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_greedy_is_brute_force(kernel, rng):
    x, s = stream(rng, 60)
    indices = stein_thin(x, s, 15, kernel=kernel, preconditioner=None)
    assert_array_equal(indices, brute_greedy(kernel.stein_matrix(x, s), 15))


@pytest.mark.parametrize("options", [{}, {"candidates": 7}, {"budget": "linear"}])
def test_cuts_between_calls_do_not_matter(options, rng):
    x, s = stream(rng, 530)
    whole = OnlineKSDThinner(20, **options).fit(x, s)
    parts = OnlineKSDThinner(20, **options)
    for cut in np.split(np.arange(530), [1, 40, 41, 300]):
        parts.partial_fit(x[cut], s[cut])
    assert_array_equal(parts.indices_, whole.indices_)
    assert_array_equal(parts.ksd_path_, whole.ksd_path_)
    assert_allclose(parts.moment_gap_, whole.moment_gap_, rtol=1e-9)
    assert parts.n_seen_ == whole.n_seen_ == 530
    assert_array_equal(whole.ksd_path_[:, 0], np.arange(100, 531, 100))


def test_chains_are_taken_in_turn(rng):
    x = rng.normal(size=(3, 50, 2))
    flat = x.swapaxes(0, 1).reshape(-1, 2)
    thinner = OnlineKSDThinner(20).fit(x, -x)
    assert_array_equal(thinner.indices_, OnlineKSDThinner(20).fit(flat, -flat).indices_)
    assert_array_equal(thinner.samples_, flat[thinner.indices_])
    assert_array_equal(stein_thin(x, -x, 5), stein_thin(flat, -flat, 5))


@pytest.mark.parametrize("n_chains", [1, 3])
def test_repeats_are_skipped(n_chains, rng):
    x = rng.normal(size=(n_chains, 60, 2))
    twice = np.repeat(x, 2, axis=1)
    once = OnlineKSDThinner(200).fit(x, -x)
    thinner = OnlineKSDThinner(200)
    # The cut falls between a draw and its repetition.
    for part in (twice[:, :31], twice[:, 31:]):
        thinner.partial_fit(part, -part)
    assert_array_equal(thinner.samples_, once.samples_)
    assert thinner.n_seen_ == 2 * once.n_seen_
    # The moments are the stream's, which repeats every draw equally often.
    assert_allclose(thinner.sd_ratio_, once.sd_ratio_, rtol=1e-10)


def test_draws_that_are_not_finite_are_counted_and_left_out(rng):
    x, s = stream(rng)
    bad = s.copy()
    bad[5:25:2] = np.nan
    x[50, 1] = np.inf
    thinner = OnlineKSDThinner(30).fit(x, bad)
    good = np.isfinite(bad).all(axis=1) & np.isfinite(x).all(axis=1)
    assert thinner.n_rejected_ == np.sum(~good) == 11
    expected = OnlineKSDThinner(30).fit(x[good], s[good])
    assert_array_equal(thinner.samples_, expected.samples_)
    assert_allclose(thinner.moment_gap_, expected.moment_gap_, atol=1e-12)
    nothing = OnlineKSDThinner().fit(x, np.full_like(s, np.nan))
    assert nothing.samples_.shape == (0, 3)
    assert np.isnan(nothing.ksd_) and np.isnan(nothing.sd_ratio_).all()


def test_whitening_is_the_affine_map_of_samples_and_scores(rng):
    z = rng.normal(size=(300, 3))
    root = np.tril(rng.normal(size=(3, 3))) + 3 * np.eye(3)
    x, s = z @ root.T + 5, -np.linalg.solve(root.T, z.T).T
    thinner = OnlineKSDThinner(25, preconditioner=root @ root.T).fit(x, s)
    plain = OnlineKSDThinner(25).fit(z, -z)
    assert_array_equal(thinner.indices_, plain.indices_)
    assert thinner.ksd_ == pytest.approx(plain.ksd_)
    assert_allclose(thinner.samples_, x[thinner.indices_])
    assert_allclose(thinner.scores_, s[thinner.indices_])
    assert_array_equal(
        stein_thin(x, s, 9, preconditioner=root @ root.T), stein_thin(z, -z, 9, preconditioner=None)
    )
    # The sample covariance makes the choice invariant to affine maps.
    assert_array_equal(stein_thin(x, s, 9), stein_thin(z, -z, 9))
    adaptive = OnlineKSDThinner(25, preconditioner="cov")
    assert_array_equal(adaptive.fit(x, s).indices_, adaptive.fit(z, -z).indices_)


@pytest.mark.parametrize("seed", range(3))
def test_kept_points_have_the_moments_of_the_target(seed):
    # Means of 100 independent draws have errors of 0.1; the kept points must do five times better.
    dim, n_points = 5, 100
    x = np.random.default_rng(seed).normal(size=(4, 2000, dim))
    thinner = OnlineKSDThinner(n_points).fit(x, -x)
    assert np.sqrt(np.mean(thinner.samples_.mean(axis=0) ** 2)) < 0.02
    assert 0.94 < thinner.samples_.std(axis=0).mean() < 1.03
    stream_std = x.std(axis=(0, 1))
    assert_allclose(thinner.sd_ratio_, thinner.samples_.std(axis=0) / stream_std, rtol=1e-9)
    gap = (thinner.samples_.mean(axis=0) - x.mean(axis=(0, 1))) / stream_std
    assert_allclose(thinner.moment_gap_, gap, rtol=1e-9)


@pytest.mark.parametrize("budget", ["cap", 50])
def test_row_sums_survive_outliers_and_many_replacements(budget, rng):
    x = rng.normal(size=(20_000, 3))
    s = -x
    x[:60] *= 100
    s[:60] *= 1e8
    thinner = OnlineKSDThinner(50, budget=budget).fit(x, s)
    kept = thinner.indices_
    assert kept.min() >= 60
    truth = np.sqrt(IMQ().stein_matrix(x[kept], s[kept]).sum()) / len(kept)
    assert thinner.ksd_ == pytest.approx(truth, rel=1e-6)


def test_is_a_parameter_object(rng):
    x, s = stream(rng)
    thinner = OnlineKSDThinner(10, RBF(bandwidth="median"), budget="sqrt")
    with pytest.raises(NotFittedError):
        check_is_fitted(thinner)
    first = thinner.fit(x, s).indices_
    check_is_fitted(thinner)
    copy = pickle.loads(pickle.dumps(thinner))
    more = rng.normal(size=(50, 3))
    assert_array_equal(
        copy.partial_fit(more, -more).indices_, thinner.partial_fit(more, -more).indices_
    )
    assert_array_equal(thinner.fit(x, s).indices_, first)
    assert_array_equal(clone(thinner).fit(x, s).indices_, first)
    assert thinner.kernel_.bandwidth == RBF(bandwidth="median").fixed(x).bandwidth


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_points": 0}, "n_points must be"),
        ({"candidates": 1.5}, "candidates must be"),
        ({"kernel": "linear"}, "kernel must be"),
        ({"kernel": Linear()}, "kernel must be"),
        ({"budget": "tight"}, "budget must be"),
        ({"budget": 0.5}, "budget must be"),
        ({"budget": lambda t: np.nan}, "budget must give"),
        ({"eps": -1.0}, "eps must be"),
        ({"budget": 5, "eps": lambda t: -1.0}, "eps must give"),
        ({"preconditioner": np.eye(2)}, "preconditioner must be"),
        ({"preconditioner": -np.eye(3)}, "preconditioner is not positive definite"),
    ],
)
def test_bad_parameters_are_named(options, message, rng):
    with pytest.raises(ValueError, match=message):
        OnlineKSDThinner(**options).fit(*stream(rng, 10))


def test_bad_input_is_named(rng):
    x, s = stream(rng, 10)
    with pytest.raises(ValueError, match="samples must be"):
        OnlineKSDThinner().fit(x[0], s[0])
    with pytest.raises(ValueError, match="scores must have the shape"):
        OnlineKSDThinner().fit(x, s[:5])
    with pytest.raises(ValueError, match="3"):
        OnlineKSDThinner().fit(x, s).partial_fit(x[:, :2], s[:, :2])
    with pytest.raises(ValueError, match="more than 3 samples"):
        stein_thin(x[:3], s[:3], 2)
    with pytest.raises(ValueError, match="scores has values that are not finite"):
        stein_thin(x, np.full_like(s, np.inf), 2)
    with pytest.raises(ValueError, match="samples is empty"):
        stein_thin(x[:0], s[:0], 2)


def test_every_routine_has_one_signature(rng):
    x, s = stream(rng, 30)
    for budget in ("cap", 5, "linear"):
        OnlineKSDThinner(10, budget=budget).fit(np.asfortranarray(x), s[::-1].copy())
        OnlineKSDThinner(10, RBF(), budget=budget).fit(x.tolist(), s)
    stein_thin(x, s, 5)
    routines = [d for d in DISPATCHERS if d.__module__ == "skstein._jit.thinning"]
    assert routines
    for routine in routines:
        assert len(routine.signatures) <= 1, routine
