"""R-hat and ESS against direct sums, autoregressive chains of known ESS, and chains that fail."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import lfilter
from scipy.stats import norm

from skstein.diagnostics import ess, split_rhat, weighted_ess


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
    n, m = len(halves[0]), len(halves)

    def covariance(half, lag):
        centred = half - half.mean()
        return sum(centred[i] * centred[i + lag] for i in range(n - lag)) / n

    within = np.mean([np.var(half, ddof=1) for half in halves])
    total = (n - 1) / n * within + np.var([half.mean() for half in halves], ddof=1)
    rho = [1 - (within - np.mean([covariance(h, lag) for h in halves])) / total for lag in range(n)]
    rho[0] = 1.0
    time, previous = -1.0, np.inf
    for lag in range(0, n - 1, 2):
        pair = rho[lag] + rho[lag + 1]
        if pair <= 0:
            break
        previous = min(previous, pair)
        time += 2 * previous
    return n * m / max(time, 1 / np.log10(n * m))


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
        assert_allclose(ess(draws)[j], ess(one)[0])


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


def test_coordinates_that_say_nothing(rng):
    draws = rng.normal(size=(2, 100, 4))
    draws[:, :, 0] = 1.7
    draws[1, 5, 1] = np.nan
    draws[1, 5, 2] = np.inf
    for rank in (True, False):
        assert_array_equal(np.isnan(split_rhat(draws, rank=rank)), [True, True, True, False])
        assert_array_equal(np.isnan(ess(draws, rank=rank)), [True, True, True, False])
    # Chains that stand still at different places have no variance within.
    still = np.repeat([[[0.0]], [[1.0]]], 100, axis=1)
    assert split_rhat(still, rank=False) == np.inf
    assert split_rhat(still) > 1e6
    assert ess(still) <= 4


@pytest.mark.parametrize("shape", [(100,), (4, 100), (4, 3, 2), (0, 100, 2)])
def test_bad_shapes_are_named(shape):
    for diagnostic in (split_rhat, ess):
        with pytest.raises(ValueError, match="draws must be"):
            diagnostic(np.zeros(shape))


def test_weighted_ess(rng):
    assert weighted_ess(np.full(7, 3.0)) == pytest.approx(7)
    assert weighted_ess([0, 0, 1e-300]) == pytest.approx(1)
    weights = rng.uniform(size=50)
    assert weighted_ess(weights) == pytest.approx(1 / np.sum((weights / weights.sum()) ** 2))
    for bad in ([-1.0, 2.0], [np.nan, 1.0], [0.0, 0.0], [[1.0]], []):
        with pytest.raises(ValueError, match="weights must"):
            weighted_ess(bad)
