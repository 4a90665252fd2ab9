"""R-hat, ESS and Monte Carlo errors against direct sums, ArviZ, chains of known ESS and replicates.

Replicates are independent coordinates: how an estimate scatters over them is the error that its
standard error has to state.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import lfilter
from scipy.stats import beta, norm

from skstein.diagnostics import (
    ess,
    ess_quantile,
    ess_sd,
    ess_tail,
    mcse_mean,
    mcse_quantile,
    mcse_sd,
    split_rhat,
    summarize,
    weighted_ess,
)

OF_DRAWS = {
    "split_rhat": split_rhat,
    "ess": ess,
    "ess_mean": lambda draws: ess(draws, rank=False),
    "ess_sd": ess_sd,
    "ess_tail": ess_tail,
    "ess_quantile": lambda draws: ess_quantile(draws, 0.3),
    "mcse_mean": mcse_mean,
    "mcse_sd": mcse_sd,
    "mcse_quantile": lambda draws: mcse_quantile(draws, 0.3),
}
every_diagnostic = pytest.mark.parametrize("diagnostic", OF_DRAWS.values(), ids=OF_DRAWS)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def autoregressive(rng, phi, shape):
    """Stationary chains x_t = phi x_{t-1} + noise, with unit variance."""
    noise = rng.normal(size=shape) * np.sqrt(1 - phi**2)
    noise[:, 0] /= np.sqrt(1 - phi**2)
    return lfilter([1], [1, -phi], noise, axis=1)


def direct_halves(chains):
    n = chains.shape[1] // 2
    return [half for chain in chains for half in (chain[:n], chain[-n:])]


def direct_normal_scores(chains):
    flat = chains.ravel()
    ranks = np.array([np.sum(flat < v) + (np.sum(flat == v) + 1) / 2 for v in flat])
    return norm.ppf((ranks - 3 / 8) / (len(flat) + 1 / 4)).reshape(chains.shape)


def direct_rhat(halves):
    n = len(halves[0])
    within = np.mean([np.var(half, ddof=1) for half in halves])
    between = n * np.var([np.mean(half) for half in halves], ddof=1)
    return np.sqrt(((n - 1) / n * within + between / n) / within)


def direct_ess(halves):
    if np.ptp(halves) == 0:
        return np.nan
    n, m = len(halves[0]), len(halves)

    def covariance(half, lag):
        centred = half - half.mean()
        return sum(centred[i] * centred[i + lag] for i in range(n - lag)) / n

    within = np.mean([np.var(half, ddof=1) for half in halves])
    total = (n - 1) / n * within + np.var([half.mean() for half in halves], ddof=1)
    rho = [1 - (within - np.mean([covariance(h, lag) for h in halves])) / total for lag in range(n)]
    rho[0] = 1.0
    rho.append(1 - within / total)  # of lag n, which no product of two draws has
    time, previous, lag = -1.0, np.inf, 0
    while lag < n - 1 and rho[lag] + rho[lag + 1] >= 0:
        previous = min(previous, rho[lag] + rho[lag + 1])
        time += 2 * previous
        lag += 2
    time += max(rho[lag], 0)
    return n * m / max(time, 1 / np.log10(n * m))


def direct_quantile_error(chains, size, p):
    if np.isnan(size):
        return np.nan
    ordered = np.sort(chains.ravel())
    low, high = beta.ppf(norm.cdf([-1, 1]), size * p + 1, size * (1 - p) + 1) * len(ordered)
    last = len(ordered)
    return (ordered[min(int(np.ceil(high)), last) - 1] - ordered[max(int(low), 1) - 1]) / 2


@pytest.mark.parametrize("n_chains", [1, 3])
@pytest.mark.parametrize("n_draws", [10, 41])
@pytest.mark.parametrize("phi", [-0.6, 0.0, 0.8])
def test_equal_direct_sums(n_chains, n_draws, phi, rng):
    draws = autoregressive(rng, phi, (n_chains, n_draws, 2)).round(2)
    draws[..., 1] += np.arange(n_chains)[:, None]
    for j in range(2):
        halves = np.array(direct_halves(draws[..., j]))
        scores = direct_normal_scores(halves)
        folded = direct_normal_scores(np.abs(halves - np.median(halves)))
        one = draws[..., j : j + 1]
        assert_allclose(split_rhat(one, rank=False), direct_rhat(halves))
        assert_allclose(split_rhat(one), max(direct_rhat(scores), direct_rhat(folded)))
        assert_allclose(ess(one, rank=False), direct_ess(halves))
        assert_allclose(ess(one), direct_ess(scores))
        squares = (draws[..., j] - draws[..., j].mean()) ** 2
        size_sd = direct_ess(np.array(direct_halves(squares)))
        assert_allclose(ess_sd(one), size_sd)
        spread = np.sqrt(squares.mean())
        assert_allclose(mcse_sd(one), squares.std() / np.sqrt(size_sd) / (2 * spread))
        error = draws[..., j].std(ddof=1) / np.sqrt(direct_ess(halves))
        assert_allclose(mcse_mean(one), error)
        sizes = []
        for p in (0.05, 0.4, 0.95):
            below = 1.0 * (draws[..., j] <= np.quantile(draws[..., j], p))
            sizes.append(direct_ess(np.array(direct_halves(below))))
            assert_allclose(ess_quantile(one, p), sizes[-1])
            error = direct_quantile_error(draws[..., j], sizes[-1], p)
            assert_allclose(mcse_quantile(one, p), error)
        assert_allclose(ess_tail(one), np.nanmin([sizes[0], sizes[2]]))


@every_diagnostic
def test_coordinates_do_not_mix(diagnostic, rng):
    draws = autoregressive(rng, 0.3, (3, 61, 4))
    one_by_one = [diagnostic(draws[..., j : j + 1])[0] for j in range(4)]
    assert_allclose(diagnostic(draws), one_by_one)
    several = [ess_quantile(draws, [0.2, 0.7]), mcse_quantile(draws, [0.2, 0.7])]
    assert_allclose(several[0], [ess_quantile(draws, 0.2), ess_quantile(draws, 0.7)])
    assert_allclose(several[1], [mcse_quantile(draws, 0.2), mcse_quantile(draws, 0.7)])


@pytest.fixture
def arviz():
    """ArviZ's statistics of one array (n_chains, n_draws, d)."""
    statistics = pytest.importorskip("arviz_stats.base").array_stats

    def call(name, draws, **kwargs):
        return getattr(statistics, name)(draws, chain_axis=0, draw_axis=1, **kwargs)

    return call


@pytest.mark.parametrize("n_draws", [4, 8, 11, 50, 1000, 1001])
@pytest.mark.parametrize("n_chains", [2, 5])
def test_rhat_is_that_of_arviz(n_chains, n_draws, arviz, rng):
    draws = autoregressive(rng, 0.5, (n_chains, n_draws, 4))
    draws[0, :, 1] += 3
    draws[..., 2] = np.exp(3 * draws[..., 2])
    draws[..., 3] = draws[..., 3].round(1)
    assert_allclose(split_rhat(draws), arviz("rhat", draws, method="rank"))
    assert_allclose(split_rhat(draws, rank=False), arviz("rhat", draws, method="split"))


def assert_same_size(ours, theirs, n_draws):
    """Equal, and where; but where correlations are positive to the last lag, which is rare.

    There ArviZ leaves out up to four of the n / 2 lags, of which no later one counts for more.
    """
    same = np.isclose(ours, theirs, rtol=1e-9)
    assert np.mean(same) > 0.5
    assert np.all(np.abs(ours / theirs - 1) < np.where(same, np.inf, 10 / n_draws))
    return same


@pytest.mark.parametrize("n_draws", [1000, 1001])
@pytest.mark.parametrize("n_chains", [1, 4])
@pytest.mark.parametrize("phi", [-0.9, -0.5, 0.0, 0.5, 0.8])
def test_ess_is_that_of_arviz(phi, n_chains, n_draws, arviz, rng):
    draws = autoregressive(rng, phi, (n_chains, n_draws, 4))
    draws[..., 1] += 5 * rng.integers(2, size=(n_chains, n_draws))  # two modes, mixed
    draws[..., 2] = np.exp(draws[..., 2])
    draws[..., 3] = draws[..., 3].round(1)
    assert_same_size(ess(draws), arviz("ess", draws, method="bulk"), n_draws)
    tail = arviz("ess", draws, method="tail", prob=(0.05, 0.95))
    assert_same_size(ess_tail(draws), tail, n_draws)
    assert_same_size(ess_sd(draws), arviz("ess", draws, method="sd"), n_draws)
    same = assert_same_size(ess(draws, rank=False), arviz("ess", draws, method="mean"), n_draws)
    assert_allclose(mcse_mean(draws)[same], arviz("mcse", draws, method="mean")[same])
    for p in (0.05, 0.5, 0.9):
        size = arviz("ess", draws, method="quantile", prob=p)
        same = assert_same_size(ess_quantile(draws, p), size, n_draws)
        theirs = arviz("mcse", draws, method="quantile", prob=p)
        assert_allclose(mcse_quantile(draws, p)[same], theirs[same])


@pytest.mark.parametrize("n_draws", [400, 1001])
def test_ess_of_chains_that_never_meet_is_nearly_that_of_arviz(n_draws, arviz, rng):
    draws = autoregressive(rng, 0.5, (4, n_draws, 3))
    draws[:2] += 10
    ratio = ess(draws, rank=False) / arviz("ess", draws, method="mean")
    assert np.all((1 - 10 / n_draws < ratio) & (ratio < 1))
    assert np.all(ess(draws) < 10)


@pytest.mark.parametrize("phi", [-0.6, 0.0, 0.7])
def test_standard_errors_are_the_scatter_of_replicates(phi, rng):
    replicates = 1000
    draws = np.exp(0.5 * autoregressive(rng, phi, (4, 500, replicates)))
    flat = draws.reshape(-1, replicates)
    # The scatter is known to 1 / sqrt(2 replicates) = 2 %; beyond that, 10 % are allowed for the
    # bias of estimates from 2000 draws.
    for estimates, errors in [
        (flat.mean(axis=0), mcse_mean(draws)),
        (flat.std(axis=0), mcse_sd(draws)),
        *((np.quantile(flat, p, axis=0), mcse_quantile(draws, p)) for p in (0.05, 0.5, 0.95)),
    ]:
        assert 0.85 < estimates.std() / np.sqrt(np.mean(errors**2)) < 1.15


def test_errors_of_independent_draws_in_closed_form(rng):
    sd, n = 3.0, 8000
    draws = rng.normal(7.0, sd, size=(4, n // 4, 200))
    density = norm.pdf(norm.ppf(0.9)) / sd
    for errors, truth in [
        (mcse_mean(draws), sd / np.sqrt(n)),
        (mcse_sd(draws), sd / np.sqrt(2 * n)),
        (mcse_quantile(draws, 0.9), np.sqrt(0.9 * 0.1 / n) / density),
    ]:
        # One quantile's error varies by 15 %, and is 2 % too large for taking whole draws.
        assert abs(errors.mean() / truth - 1) < 0.08


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("rank", [True, False])
def test_ess_of_autoregressive_chains(phi, rank, rng):
    draws = autoregressive(rng, phi, (4, 5000, 20))
    truth = 20_000 * (1 - phi) / (1 + phi)
    sizes = ess(draws, rank=rank)
    # One estimate varies by some 10 %; the mean of twenty by a fifth of that, with a small bias.
    assert abs(sizes.mean() / truth - 1) < 0.1
    assert np.all(np.abs(sizes / truth - 1) < 0.4)
    assert split_rhat(draws, rank=rank).max() < 1.02


def test_ranks_make_the_answer_invariant(rng):
    draws = autoregressive(rng, 0.5, (4, 200, 3))
    assert_allclose(ess(np.exp(5 * draws)), ess(draws))
    cauchy = np.tan(np.pi * (norm.cdf(draws) - 0.5))
    assert_allclose(ess(cauchy), ess(draws))


def test_chains_that_disagree(rng):
    draws = rng.normal(size=(4, 1000, 4))
    draws[0, :, 0] += 3  # elsewhere
    draws[0, :, 1] *= 5  # wider, at the same place
    draws[0, :, 2] = 0.3  # stuck
    draws[:, :, 3] += np.linspace(0, 3, 1000)  # drifting together
    assert np.all(split_rhat(draws) > 1.05)
    # Without ranks a difference in spread alone is not seen.
    assert split_rhat(draws, rank=False)[1] < 1.02
    assert np.all(ess(draws)[[0, 3]] < 50)


@every_diagnostic
def test_coordinates_that_say_nothing(diagnostic, rng):
    draws = rng.normal(size=(2, 101, 5))
    draws[:, :, 0] = 1.7
    draws[1, 5, 1] = np.nan
    draws[1, 5, 2] = np.inf
    draws[0, 50, 3] = np.nan  # the middle draw, which belongs to no half
    assert_array_equal(np.isnan(diagnostic(draws)), [True, True, True, True, False])


def test_chains_that_stand_still_at_different_places():
    still = np.repeat([[[0.0]], [[1.0]]], 100, axis=1)
    assert split_rhat(still, rank=False) == np.inf
    assert split_rhat(still) > 1e6
    for size in (ess, ess_quantile):
        assert OF_DRAWS[size.__name__](still) <= 4


def test_discrete_draws(rng):
    # Nine in ten are 1: no draw is above the 95 % quantile, and the 5 % quantile is 0.
    draws = 1.0 * (rng.uniform(size=(4, 500, 1)) < 0.9)
    assert_array_equal(np.isnan(ess_quantile(draws, [0.05, 0.95])[:, 0]), [False, True])
    assert_allclose(ess_tail(draws), ess_quantile(draws, 0.05))
    assert_array_equal(np.isnan(mcse_quantile(draws, [0.05, 0.95])[:, 0]), [False, True])
    # Ninety-nine in a hundred: both quantiles are the largest value.
    assert np.isnan(ess_tail(1.0 * (np.arange(2000).reshape(4, 500, 1) % 100 > 0)))


@every_diagnostic
@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-600, 2.0**600, 2.0**1000])
def test_extreme_units(diagnostic, scale, rng):
    draws = rng.normal(size=(4, 100, 3))
    unit = scale if diagnostic(7 * draws)[0] > 3 * diagnostic(draws)[0] else 1.0
    assert_allclose(diagnostic(scale * draws), unit * diagnostic(draws))


def test_summary(rng):
    draws = rng.normal([5, -1], [2, 1e200], size=(4, 500, 2))
    table = summarize(draws)
    flat = draws.reshape(-1, 2)
    assert_allclose(table.pop("mean"), flat.mean(axis=0))
    units = [1.0, 1e200]
    assert_allclose(table.pop("sd"), units * (flat / units).std(axis=0, ddof=1))
    functions = {"rhat": "split_rhat", "ess_bulk": "ess"}
    for name, values in table.items():
        assert_array_equal(values, OF_DRAWS[functions.get(name, name)](draws))
    draws[:, :, 0] = 3
    draws[1, 7, 1] = np.inf
    for name, values in summarize(draws).items():
        expected = {"mean": [3, np.inf], "sd": [0, np.nan]}.get(name, [np.nan, np.nan])
        assert_array_equal(values, expected)


@every_diagnostic
@pytest.mark.parametrize("shape", [(100,), (4, 100), (4, 3, 2), (0, 100, 2), (4, 100, 0)])
def test_bad_shapes_are_named(diagnostic, shape):
    with pytest.raises(ValueError, match="draws must be"):
        diagnostic(np.zeros(shape))


@pytest.mark.parametrize("q", [0, 1, [0.5, 1.2], np.nan, [[0.5]]])
def test_bad_probabilities_are_named(q, rng):
    for diagnostic in (ess_quantile, mcse_quantile):
        with pytest.raises(ValueError, match="q must be"):
            diagnostic(rng.normal(size=(2, 10, 1)), q)


def test_weighted_ess(rng):
    assert weighted_ess(np.full(7, 3.0)) == pytest.approx(7)
    assert weighted_ess([0, 0, 1e-300]) == pytest.approx(1)
    weights = rng.uniform(size=50)
    assert weighted_ess(weights) == pytest.approx(1 / np.sum((weights / weights.sum()) ** 2))
    for bad in ([-1.0, 2.0], [np.nan, 1.0], [0.0, 0.0], [[1.0]], []):
        with pytest.raises(ValueError, match="weights must"):
            weighted_ess(bad)
