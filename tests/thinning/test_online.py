"""The online thinner against brute force on the full Stein matrix, and on streams of known moments.

Tests that look at the choice of points alone use `partial_fit`, which does not judge moments.
"""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from skstein._jit._compile import DISPATCHERS
from skstein.inference import KSDThinnedMCMC
from skstein.kernels import IMQ, RBF, Linear
from skstein.metrics import ksd
from skstein.thinning import (
    OnlineKSDThinner,
    PowerBudget,
    backward_thin,
    balanced_thin,
    match_moments,
    stein_thin,
    stein_weights,
)
from skstein.thinning.subsets import simplex_weights

KERNELS = [IMQ(), IMQ(length_scale=1.5, exponent=-0.7), RBF()]


def stream(rng, n=200, dim=3):
    x = rng.normal(size=(n, dim)) * 1.5 + 0.3
    return x, -x


def stein_matrix(kernel, x, s, spread=OnlineKSDThinner.spread):
    """Stein kernel of all pairs, with the identity of the spread."""
    identities = np.sum(x * s, axis=1) + x.shape[1]
    return kernel.stein_matrix(x, s) + spread / x.shape[1] * np.outer(identities, identities)


def total(matrix, subset):
    return matrix[np.ix_(subset, subset)].sum()


def best_candidate(matrix, kept, group):
    return min(group, key=lambda c: matrix[c, c] + 2 * matrix[c, kept].sum())


def without_worst(matrix, kept):
    """The subset of one point less that has the smallest KSD."""
    return min(([j for j in kept if j != i] for i in kept), key=lambda rest: total(matrix, rest))


def brute_capped(matrix, n_points, candidates):
    """Leave out, of dictionary and candidate, the point without which the KSD is smallest."""
    kept = []
    for start in range(0, len(matrix) - candidates + 1, candidates):
        kept = [*kept, best_candidate(matrix, kept, range(start, start + candidates))]
        if len(kept) > n_points:
            kept = without_worst(matrix, kept)
    return kept


def brute_floored(matrix, floor, eps, candidates):
    kept = []
    for t, start in enumerate(range(0, len(matrix) - candidates + 1, candidates), start=1):
        kept.append(best_candidate(matrix, kept, range(start, start + candidates)))
        bound = total(matrix, kept) / len(kept) ** 2 + eps(t)
        while len(kept) - 1 >= max(1, np.ceil(floor(t))):
            rest = without_worst(matrix, kept)
            if not total(matrix, rest) / len(rest) ** 2 < bound:
                break
            kept = rest
    return kept


FLOORS = {
    "linear": lambda t: t / 2,
    "sqrt": lambda t: np.sqrt(t * np.log(t)),
    7.5: lambda t: 7.5,
    PowerBudget(1.4): lambda t: np.sqrt(t**1.4 * np.log(t)) / 2,
    np.log1p: np.log1p,
}

kernels = st.one_of(
    st.builds(
        IMQ,
        length_scale=st.one_of(st.just("auto"), st.floats(0.3, 10.0)),
        exponent=st.floats(-1.5, -0.1),
    ),
    st.builds(RBF, bandwidth=st.one_of(st.just("dim"), st.floats(0.5, 5.0))),
)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    dim=st.integers(1, 5),
    kernel=kernels,
    budget=st.one_of(st.integers(1, 20), st.sampled_from(list(FLOORS))),
    eps=st.one_of(st.just("decaying"), st.floats(0.0, 0.1)),
    spread=st.sampled_from([0.0, 0.3, 2.0]),
    candidates=st.integers(1, 6),
    n_chains=st.integers(1, 3),
    whiten=st.booleans(),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_incremental_is_brute_force(
    seed, n, dim, kernel, budget, eps, spread, candidates, n_chains, whiten, cuts
):
    """The same indices for every kernel, budget, eps, whitening, and cut of the stream."""
    assume(n_chains <= n)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_chains, n // n_chains, dim)) * 1.5 + 0.3
    s = -x + 0.1 * rng.normal(size=x.shape)
    root = np.tril(rng.normal(size=(dim, dim)), -1) + np.diag(rng.uniform(0.5, 2, dim))
    thinner = OnlineKSDThinner(
        budget if isinstance(budget, int) else 100,
        kernel,
        budget="cap" if isinstance(budget, int) else budget,
        eps=eps,
        spread=spread,
        candidates=candidates,
        preconditioner=root @ root.T if whiten else None,
    )
    for part in np.split(np.arange(x.shape[1]), sorted(cuts)):
        thinner.partial_fit(x[:, part], s[:, part])
    flat, scores = (a.swapaxes(0, 1).reshape(-1, dim) for a in (x, s))
    if whiten:
        z, zs = np.linalg.solve(root, flat.T).T, scores @ root
    else:
        z, zs = flat, scores
    base, matrix = kernel.stein_matrix(z, zs), stein_matrix(kernel, z, zs, spread)
    if isinstance(budget, int):
        kept = brute_capped(matrix, budget, candidates)
    else:
        floor = FLOORS[budget]

        def slack(t):
            return np.log(t) / max(1, floor(t)) ** 2 if eps == "decaying" else eps

        kept = brute_floored(matrix, floor, slack, candidates)
    kept = sorted(kept)
    assert_array_equal(thinner.indices_, kept)
    assert_allclose(thinner.samples_, flat[kept], rtol=1e-9, atol=1e-9)
    assert_allclose(thinner.scores_, scores[kept], rtol=1e-9, atol=1e-9)
    assert thinner.n_seen_ == len(flat)
    assert len(kept) <= thinner.n_accepted_ <= len(flat) // candidates
    if kept:
        expected = max(total(base, kept), 0) / len(kept) ** 2
        assert thinner.ksd_**2 == pytest.approx(expected, rel=1e-9, abs=1e-12 * matrix.max())


@pytest.mark.parametrize("options", [{}, {"candidates": 7}, {"budget": "linear"}])
def test_the_path_does_not_depend_on_cuts(options, rng):
    x, s = stream(rng, 530)
    whole = OnlineKSDThinner(20, **options).partial_fit(x, s)
    parts = OnlineKSDThinner(20, **options)
    for cut in np.split(np.arange(530), [1, 40, 41, 300]):
        parts.partial_fit(x[cut], s[cut])
    assert_array_equal(parts.ksd_path_, whole.ksd_path_)
    assert_allclose(parts.moment_gap_, whole.moment_gap_, rtol=1e-9)
    assert_array_equal(whole.ksd_path_[:, 0], np.arange(100, 531, 100))
    _, n, plain, normalized = whole.ksd_path_.T
    assert_allclose(normalized, plain * np.sqrt(n))


def test_a_long_path_is_recorded_less_often(rng):
    x = rng.normal(size=(250_000, 1))
    thinner = OnlineKSDThinner(2).partial_fit(x, -x)
    path = thinner.ksd_path_
    assert len(path) == 625
    assert_array_equal(path[:, 0], 400 * np.arange(1, 626))
    early = OnlineKSDThinner(2).partial_fit(x[:400], -x[:400])
    assert path[0, 2] == early.ksd_


def test_chains_are_taken_in_turn(rng):
    x = rng.normal(size=(3, 50, 2))
    flat = x.swapaxes(0, 1).reshape(-1, 2)
    thinner = OnlineKSDThinner(20).partial_fit(x, -x)
    assert_array_equal(thinner.indices_, OnlineKSDThinner(20).partial_fit(flat, -flat).indices_)
    assert_array_equal(thinner.samples_, flat[thinner.indices_])


@pytest.mark.parametrize("n_chains", [1, 3])
def test_repeats_are_skipped(n_chains, rng):
    x = rng.normal(size=(n_chains, 60, 2))
    twice = np.repeat(x, 2, axis=1)
    once = OnlineKSDThinner(200).partial_fit(x, -x)
    thinner = OnlineKSDThinner(200)
    # The cut falls between a draw and its repetition.
    for part in (twice[:, :31], twice[:, 31:]):
        thinner.partial_fit(part, -part)
    assert_array_equal(thinner.samples_, once.samples_)
    assert thinner.n_seen_ == 2 * once.n_seen_
    # The moments are the stream's, which repeats every draw equally often.
    assert_allclose(thinner.sd_ratio_, once.sd_ratio_, rtol=1e-10)


def test_draws_that_are_not_finite_are_left_out_counted_and_reported_once(rng):
    x, s = stream(rng)
    bad = s.copy()
    bad[5:25:2] = np.nan
    bad[30] = 1e200
    x[50, 1] = np.inf
    thinner = OnlineKSDThinner(30)
    with pytest.warns(UserWarning, match="12 draws are left out"):
        thinner.partial_fit(x, bad)
    good = np.isfinite(bad).all(axis=1) & np.isfinite(x).all(axis=1) & (np.arange(200) != 30)
    assert thinner.n_rejected_ == np.sum(~good) == 12
    expected = OnlineKSDThinner(30).partial_fit(x[good], s[good])
    assert_array_equal(thinner.samples_, expected.samples_)
    assert_allclose(thinner.moment_gap_, expected.moment_gap_, atol=1e-12)
    thinner.partial_fit(x, bad)
    assert thinner.n_rejected_ == 24


def test_a_fit_that_keeps_nothing_is_refused(rng):
    x, s = stream(rng)
    nothing = np.full_like(s, np.nan)
    with pytest.warns(UserWarning, match="200 draws are left out"):
        thinner = OnlineKSDThinner().partial_fit(x, nothing)
    assert thinner.samples_.shape == (0, 3) and thinner.check_moments()
    assert np.isnan(thinner.ksd_) and np.isnan(thinner.sd_ratio_).all()
    assert thinner.weights_.shape == (0,)
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="nothing was kept"),
    ):
        OnlineKSDThinner(preconditioner=None).fit(x, nothing)


def test_scores_may_be_a_function(rng):
    x = rng.normal(size=(2, 50, 3))
    seen = []

    def scores(samples):
        seen.append(samples.shape)
        return -samples

    thinner = OnlineKSDThinner(10).partial_fit(x, scores)
    assert_array_equal(thinner.indices_, OnlineKSDThinner(10).partial_fit(x, -x).indices_)
    assert seen == [(100, 3)]


def test_fit_whitens_by_itself(rng):
    """A linear map of the parameters does not change which draws are kept."""
    z = rng.normal(size=(600, 3))
    root = np.tril(rng.normal(size=(3, 3)), -1) + np.diag([1e-2, 3.0, 1e3])
    x, s = z @ root.T + 5, -np.linalg.solve(root.T, z.T).T
    thinner = OnlineKSDThinner(40).fit(x, s)
    assert_array_equal(thinner.indices_, OnlineKSDThinner(40).fit(z, -z).indices_)
    assert_allclose(thinner.samples_, x[thinner.indices_], rtol=1e-9)
    assert_allclose(thinner.scores_, s[thinner.indices_], rtol=1e-9)
    # A matrix leaves the origin, of which the spread is taken, where it is.
    explicit = OnlineKSDThinner(40, preconditioner=np.cov(x.T)).partial_fit(x - x.mean(axis=0), s)
    assert_array_equal(thinner.indices_, explicit.indices_)
    plain = OnlineKSDThinner(40, preconditioner=None).fit(z, -z)
    assert_array_equal(plain.indices_, OnlineKSDThinner(40).partial_fit(z, -z).indices_)


@pytest.mark.parametrize("offset", range(3))
def test_kept_points_have_the_moments_of_the_target(offset, seed):
    # Means of 100 independent draws have errors of 0.1; the kept points must do five times better.
    dim, n_points = 5, 100
    x = np.random.default_rng(seed + offset).normal(size=(4, 2000, dim))
    thinner = OnlineKSDThinner(n_points).fit(x, -x)
    assert np.sqrt(np.mean(thinner.samples_.mean(axis=0) ** 2)) < 0.02
    assert 0.94 < thinner.samples_.std(axis=0).mean() < 1.03
    stream_std = x.std(axis=(0, 1))
    assert_allclose(thinner.sd_ratio_, thinner.samples_.std(axis=0) / stream_std, rtol=1e-9)
    gap = (thinner.samples_.mean(axis=0) - x.mean(axis=(0, 1))) / stream_std
    assert_allclose(thinner.moment_gap_, gap, rtol=1e-9)


def widening(rng, n, dim):
    """Draws of a normal that grows by e^7, so that old points are worse and worse."""
    sd = np.exp(np.linspace(0, 7, n))[:, None]
    x = sd * rng.normal(size=(n, dim))
    return x, -x / sd**2


def relative_drift(thinner, x, s):
    kept = thinner.indices_
    matrix = IMQ().stein_matrix(x[kept], s[kept])
    return abs(thinner.ksd_**2 - matrix.mean()) / np.diagonal(matrix).mean()


@pytest.mark.parametrize("budget", ["cap", 50])
def test_row_sums_survive_outliers_and_many_replacements(budget, rng):
    x, s = widening(rng, 20_000, 3)
    x[:60] *= 100
    s[:60] *= 1e8
    thinner = OnlineKSDThinner(50, budget=budget).partial_fit(x, s)
    assert thinner.indices_.min() >= 60
    assert thinner.n_accepted_ > (2 * 50 if budget == "cap" else 10_000)
    assert relative_drift(thinner, x, s) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["cap", 20])
def test_no_drift_in_a_million_steps(budget, rng):
    x, s = widening(rng, 10**6, 2)
    thinner = OnlineKSDThinner(20, budget=budget).partial_fit(x, s)
    assert thinner.n_accepted_ > (2 * 20 if budget == "cap" else 500_000)
    assert relative_drift(thinner, x, s) < 1e-10


@pytest.mark.parametrize("offset", range(3))
def test_a_long_stream_keeps_its_spread(offset, seed):
    """Without the identity of the spread 100 points lose some per cent, the more the longer."""
    x = np.random.default_rng(seed + offset).normal(size=(60_000, 20))
    thinner = OnlineKSDThinner(100).fit(x, -x)
    assert abs(thinner.sd_ratio_.mean() - 1.0) < 0.02
    plain = OnlineKSDThinner(100, spread=0.0).fit(x, -x)
    assert plain.sd_ratio_.mean() < min(0.985, thinner.sd_ratio_.mean() - 0.01)


def test_a_fit_holds_no_copy_of_the_stream(rng):
    x = rng.normal(size=(4, 20_000, 20))
    scores = -x
    thinner = OnlineKSDThinner().fit(x[:, :500], scores[:, :500])
    peaks = []
    for length in (10_000, 20_000):
        tracemalloc.start()
        try:
            thinner.fit(x[:, :length], scores[:, :length])
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 0.5 * (x.nbytes / 2)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream(rng):
    thinner = OnlineKSDThinner(100)
    size, dim = 10_000, 4
    used = []
    tracemalloc.start()
    try:
        for _ in range(200):
            x = rng.normal(size=(size, dim))
            thinner.partial_fit(x, -x)
            del x
            used.append(tracemalloc.get_traced_memory()[0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert thinner.n_seen_ == 2_000_000 and thinner.samples_.shape == (100, dim)
    assert np.sqrt(np.mean(thinner.samples_.mean(axis=0) ** 2)) < 0.02
    # The path is all that is added, and has been full once after 20 pieces. Its 20,000 records, or
    # the stream of 64 MB, would show.
    assert max(used[20:]) < max(used[:20]) + 100_000
    assert peak < 20 * 8 * size * dim


@pytest.mark.parametrize("n_modes, least, most", [(4, 12, 34), (10, 28, 60)])
def test_a_floor_lets_the_dictionary_grow_with_the_number_of_modes(n_modes, least, most, rng):
    """The paper's experiment: modes a step apart, a floor of 10; it reports 24 and 40 points.

    Of 47 streams each, they are 16 to 29 and 34 to 48.
    """
    centres = np.column_stack([np.arange(n_modes)] * 2)
    x = centres[rng.integers(n_modes, size=15_000)] + np.sqrt(0.5) * rng.normal(size=(15_000, 2))
    shares = softmax(-np.sum((x[:, None] - centres) ** 2, axis=2), axis=1)
    scores = (shares @ centres - x) / 0.5
    thinner = OnlineKSDThinner(kernel=IMQ(1.0), budget=10, spread=0.0, candidates=5)
    thinner.partial_fit(x, scores)
    assert least <= len(thinner.samples_) <= most


def test_more_points_between_calls(rng):
    """Room that is given later is filled by the draws that come then."""
    x, s = stream(rng, 400)
    thinner = OnlineKSDThinner(30).partial_fit(x[:200], s[:200])
    early = thinner.indices_
    thinner.n_points = 50
    thinner.partial_fit(x[200:220], s[200:220])
    assert_array_equal(thinner.indices_, [*early, *range(200, 220)])
    thinner.partial_fit(x[220:], s[220:])
    assert thinner.samples_.shape == (50, 3)
    kept = thinner.indices_
    assert thinner.ksd_ == pytest.approx(ksd(x[kept], s[kept]), rel=1e-9)
    assert thinner._dictionary.matrix.shape == (50, 50)


@pytest.mark.parametrize("candidates", [1, 4])
def test_fewer_points_drop_the_most_redundant(candidates, rng):
    x, s = stream(rng, 250)
    matrix = stein_matrix(IMQ(), x, s)
    thinner = OnlineKSDThinner(40, candidates=candidates).partial_fit(x[:202], s[:202])
    kept = list(thinner.indices_)
    while len(kept) > 25:
        kept = without_worst(matrix, kept)
    thinner.n_points = 25
    thinner.partial_fit(x[:0], s[:0])
    assert_array_equal(thinner.indices_, kept)
    assert thinner._dictionary.matrix.shape == (25, 25)
    # The stream goes on, with the started group.
    thinner.partial_fit(x[202:], s[202:])
    kept = thinner.indices_
    assert len(kept) == 25
    assert thinner.ksd_ == pytest.approx(ksd(x[kept], s[kept]), rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"budget": 30}, {"preconditioner": np.diag([2, 1, 1])}])
def test_merging_drops_the_worst_of_the_union(options, rng):
    x, s = stream(rng, 500)
    first = OnlineKSDThinner(30, **options).partial_fit(x[:200], s[:200])
    second = OnlineKSDThinner(40, RBF()).partial_fit(x[200:], s[200:])
    union = [*first.indices_, *second.indices_ + 200]
    root = np.sqrt(options.get("preconditioner", np.eye(3)))
    matrix = stein_matrix(IMQ(), x @ np.linalg.inv(root), s @ root)
    while len(union) > 30:
        union = without_worst(matrix, union)
    accepted = first.n_accepted_ + second.n_accepted_
    before = pickle.dumps(second)
    merged = first.merge(second)
    assert merged is first and pickle.dumps(second) == before
    assert_array_equal(merged.indices_, sorted(union))
    assert_allclose(merged.samples_, x[merged.indices_])
    assert (merged.n_seen_, merged.n_accepted_) == (500, accepted)
    whole = OnlineKSDThinner().partial_fit(x, s)
    assert_allclose(merged._moments.mean, whole._moments.mean)
    assert_allclose(merged._moments.variances(), whole._moments.variances())
    # The stream goes on.
    merged.partial_fit(x[:100] + 1e-3, s[:100])
    kept = merged.indices_
    assert merged.n_seen_ == 600 and kept.max() < 600


def test_merging_thinners_of_single_chains_keeps_the_moments(rng):
    chains = rng.normal(size=(4, 1000, 5))
    thinners = [OnlineKSDThinner(100).fit(x, -x) for x in chains]
    for other in thinners[1:]:
        thinners[0].merge(other)
    merged = thinners[0]
    assert merged.check_moments()
    assert np.sqrt(np.mean(merged.samples_.mean(axis=0) ** 2)) < 0.04
    assert 0.92 < merged.samples_.std(axis=0).mean() < 1.08
    draw, chain = merged.indices_ % 1000, merged.indices_ // 1000
    assert_allclose(merged.samples_, chains[chain, draw], rtol=1e-9, atol=1e-12)


def test_merging_needs_two_that_fit_together(rng):
    x, s = stream(rng)
    thinner = OnlineKSDThinner(10).partial_fit(x, s)
    with pytest.raises(NotFittedError):
        thinner.merge(OnlineKSDThinner())
    with pytest.raises(NotFittedError):
        OnlineKSDThinner().merge(thinner)
    with pytest.raises(ValueError, match="other has 2 coordinates"):
        thinner.merge(OnlineKSDThinner(10).partial_fit(x[:, :2], s[:, :2]))


def separated(rng, n=2000, gap=100.0):
    """As many draws of one as of the other of two normals, and the scores of their mixture."""
    x = rng.normal(size=(n, 2))
    x[:, 0] += gap * (rng.permutation(n) % 2 - 0.5)
    s = -x
    s[:, 0] += 0.5 * gap * np.tanh(0.5 * gap * x[:, 0])
    return x, s


def test_the_moment_guard_warns_when_a_mode_falls_short(rng):
    """Of three points one mode gets two at least: a mean of a third of half the distance."""
    x, s = separated(rng)
    thinner = OnlineKSDThinner(3, preconditioner=None)
    with pytest.warns(ConvergenceWarning, match="look for separated modes"):
        thinner.fit(x, s)
    assert abs(thinner.moment_gap_[0]) > 0.3
    # A stream that is passed on in pieces is judged when it is asked for.
    thinner.partial_fit(x, s)
    with pytest.warns(ConvergenceWarning, match="coordinate 0"):
        assert not thinner.check_moments()


def test_the_moment_guard_warns_of_scores_on_another_scale(rng):
    """Draws of exp(z), but scores of z: the kept points leave the region of the draws."""
    z = rng.normal(size=(2000, 2))
    with pytest.warns(ConvergenceWarning, match="check that the scores"):
        OnlineKSDThinner(50).fit(np.exp(z), -z)


@pytest.mark.parametrize("n_points", [4, 8, 20, 60])
def test_the_moment_guard_warns_exactly_outside_its_limits(n_points, rng):
    x, s = separated(rng, 500, gap=4.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thinner = OnlineKSDThinner(n_points).fit(x, s)
    points = x[thinner.indices_]
    gap = np.abs(points.mean(axis=0) - x.mean(axis=0)) / x.std(axis=0)
    ratio = np.mean(points.std(axis=0) / x.std(axis=0))
    assert bool(caught) == (gap.max() > 0.3 or not 0.85 <= ratio <= 1.15)


def test_the_engine_does_not_repeat_the_guard(rng):
    """The chains' own message has the moments; no second warning comes from the thinner."""
    from skstein import LogDensity

    x, s = separated(rng, 10, gap=20.0)
    target = LogDensity(
        lambda t: -0.5 * np.sum(t**2, axis=1) + np.logaddexp(10 * t[:, 0], -10 * t[:, 0]),
        score=lambda t: np.column_stack([10 * np.tanh(10 * t[:, 0]) - t[:, 0], -t[:, 1]]),
        dim=2,
    )
    assert_allclose(target.score(x), s, atol=1e-9)
    engine = KSDThinnedMCMC(n_particles=1, n_draws=50, max_draws=50, n_warmup=20)
    # Half of the chains in each mode, and the point that is kept in one.
    start = np.concatenate([x[x[:, 0] < 0.0][:4], x[x[:, 0] > 0.0][:4]])
    posterior = engine.run(target, rng, init=start)
    assert "miss the chains' means or" in posterior.diagnostics["message"]


def test_kept_points_are_moved_to_the_moments_of_the_stream(rng):
    root = np.tril(rng.normal(size=(4, 4)), -1) + np.diag([0.1, 3, 3, 30])
    x = rng.normal(size=(3, 700, 4)) @ root.T + [1, 0, 0, 1e3]
    s = -np.linalg.solve(root @ root.T, (x.reshape(-1, 4) - [1, 0, 0, 1e3]).T).T.reshape(x.shape)
    thinner = OnlineKSDThinner(40)
    thinner.fit(x[:, :300], s[:, :300]).partial_fit(x[:, 300:], s[:, 300:])
    flat = x.reshape(-1, 4)
    moments = flat.mean(axis=0), np.cov(flat.T, bias=True)
    moved = match_moments(thinner.samples_, *moments)
    scale = flat.std(axis=0)
    assert_allclose((moved.mean(axis=0) - flat.mean(axis=0)) / scale, 0, atol=1e-9)
    covariances = [np.cov(a.T, bias=True) / np.outer(scale, scale) for a in (moved, flat)]
    assert_allclose(*covariances, atol=1e-9)
    # Little is left to repair, and the kept points themselves are draws.
    assert np.abs((moved - thinner.samples_) / scale).max() < 0.7
    assert_allclose(thinner.samples_, x.swapaxes(0, 1).reshape(-1, 4)[thinner.indices_])
    # Affine maps of the problem carry over.
    mix = np.tril(rng.normal(size=(4, 4)), -1) + np.eye(4)
    z = match_moments(thinner.samples_ @ mix, moments[0] @ mix, mix.T @ moments[1] @ mix)
    assert_allclose(z, moved @ mix, atol=1e-6 * np.abs(flat @ mix).max())


@pytest.mark.parametrize(
    "change",
    [
        {"mean": [5.0]},
        {"covariance": np.eye(3)},
        {"covariance": [[1.0, 0.9], [0.0, 1.0]]},
        {"weights": -np.ones(20)},
        {"weights": np.ones(19)},
    ],
)
def test_moments_of_other_shapes_are_refused(change, rng):
    given = {"points": rng.normal(size=(20, 2)), "mean": np.zeros(2), "covariance": np.eye(2)}
    with pytest.raises(ValueError, match="must"):
        match_moments(**given | change)


def test_a_mean_that_is_not_finite_is_refused(rng):
    with pytest.raises(np.linalg.LinAlgError, match="must be finite"):
        match_moments(rng.normal(size=(20, 2)), [np.nan, 0.0], np.eye(2))


@pytest.mark.parametrize("shape", [[1.0, 1.0, 0.0], [1.0, 1.0, np.nan]])
def test_moments_are_not_matched_where_they_are_undetermined(shape, rng):
    points, covariance = rng.normal(size=(20, 3)), np.diag(shape)
    with pytest.raises(np.linalg.LinAlgError):
        match_moments(points, np.zeros(3), covariance)
    with pytest.raises(np.linalg.LinAlgError):
        match_moments(points * [1.0, 1.0, 0.0], np.zeros(3), np.eye(3))
    with pytest.raises(np.linalg.LinAlgError, match="do not vary in every direction"):
        match_moments(points[:3], np.zeros(3), np.eye(3))
    line = points[:, :1]
    moved = match_moments(line, np.ones(1), np.cov(2.0 * line.T, bias=True))
    assert_allclose([moved.mean(), moved.std()], [1.0, 2.0 * line.std()])


def test_weights_are_those_of_minimum_ksd(rng):
    x, s = stream(rng)
    thinner = OnlineKSDThinner(30, weights="stein").partial_fit(x, s)
    kept = thinner.indices_
    expected = simplex_weights(stein_matrix(IMQ(), x[kept], s[kept]))
    assert_allclose(thinner.weights_, expected, atol=1e-9)
    assert_allclose(OnlineKSDThinner(30).partial_fit(x, s).weights_, 1 / 30)
    waiting = OnlineKSDThinner(30, candidates=5, weights="stein").partial_fit(x[:1], s[:1])
    assert waiting.weights_.shape == (0,)
    with pytest.raises(ValueError, match="candidates must be"):
        waiting.set_params(candidates=0).partial_fit(x, s)


def test_is_a_parameter_object(rng):
    x, s = stream(rng)
    thinner = OnlineKSDThinner(10, RBF(bandwidth="median"), budget="sqrt", preconditioner=None)
    with pytest.raises(NotFittedError):
        check_is_fitted(thinner)
    first = thinner.partial_fit(x, s).indices_
    check_is_fitted(thinner)
    copy = pickle.loads(pickle.dumps(thinner))
    more = rng.normal(size=(50, 3))
    assert_array_equal(
        copy.partial_fit(more, -more).indices_, thinner.partial_fit(more, -more).indices_
    )
    assert_array_equal(clone(thinner).partial_fit(x, s).indices_, first)
    assert thinner.kernel_.bandwidth == RBF(bandwidth="median").fixed(x).bandwidth
    assert clone(OnlineKSDThinner(budget=PowerBudget(1.8))).budget == PowerBudget(1.8)


def test_fit_forgets(rng):
    x = rng.normal(size=(500, 3))
    thinner = OnlineKSDThinner(60).fit(x + 10, -x)
    once = thinner.fit(x, -x)
    assert_array_equal(once.samples_, OnlineKSDThinner(60).fit(x, -x).samples_)
    assert once.n_seen_ == 500


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
        ({"eps": "slow"}, "eps must be"),
        ({"budget": 5, "eps": lambda t: -1.0}, "eps must give"),
        ({"spread": -1.0}, "spread must be"),
        ({"spread": "auto"}, "spread must be"),
        ({"preconditioner": "diagonal"}, "preconditioner must be"),
        ({"preconditioner": np.eye(2)}, "preconditioner must be"),
        ({"preconditioner": -np.eye(3)}, "preconditioner is not symmetric and positive definite"),
        ({"preconditioner": np.triu(np.ones((3, 3)))}, "preconditioner is not symmetric"),
        ({"weights": "equal"}, "weights must be"),
    ],
)
def test_bad_parameters_are_named(options, message, rng):
    with pytest.raises(ValueError, match=message):
        OnlineKSDThinner(**options).fit(*stream(rng, 10))


def test_a_parameter_that_turns_bad_between_calls_is_named(rng):
    x, s = stream(rng)
    thinner = OnlineKSDThinner(10).partial_fit(x, s)
    thinner.n_points = 0
    with pytest.raises(ValueError, match="n_points must be"):
        thinner.partial_fit(x, s)


def test_bad_input_is_named(rng):
    x, s = stream(rng, 10)
    with pytest.raises(ValueError, match="samples must be"):
        OnlineKSDThinner().fit(x[0], s[0])
    with pytest.raises(ValueError, match="scores must be shaped"):
        OnlineKSDThinner().fit(x, s[:5])
    with pytest.raises(ValueError, match="coordinates, before 3"):
        OnlineKSDThinner().partial_fit(x, s).partial_fit(x[:, :2], s[:, :2])
    with pytest.raises(ValueError, match="more than 3 samples"):
        OnlineKSDThinner().fit(x[:3], s[:3])


def test_every_routine_has_one_signature(rng):
    x, s = stream(rng, 30)
    for budget in ("cap", 5, "linear"):
        thinner = OnlineKSDThinner(10, budget=budget)
        thinner.partial_fit(np.asfortranarray(x), s[::-1].copy())
        thinner.merge(OnlineKSDThinner(10, RBF()).partial_fit(x.tolist(), s))
    stein_thin(x, s, 5, length_scale="cov")
    stein_thin(x, s, 5)
    backward_thin(x, s, 5)
    stein_weights(np.asfortranarray(x), s)
    for draws in (x, np.asfortranarray(x)):
        balanced_thin(draws, 5)
    routines = [d for d in DISPATCHERS if d.__module__ == "skstein._jit.thinning"]
    assert routines
    for routine in routines:
        assert len(routine.signatures) <= 1, routine


def test_a_fit_that_fails_leaves_the_one_before(rng):
    draws = rng.normal(size=(200, 2))
    thinner = OnlineKSDThinner(20).fit(draws, -draws)
    before = thinner.samples_.copy()
    with pytest.raises(ValueError, match="not symmetric and positive definite"):
        thinner.fit(np.zeros((200, 2)), np.zeros((200, 2)))
    assert_array_equal(thinner.samples_, before)
