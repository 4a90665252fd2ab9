"""Convergence of Markov chains: split R-hat and effective sample size, after Vehtari et al. (2021).

Both compare the variance within half chains with that between them, so that a chain that drifts
disagrees with itself. Draws are first replaced by their normal scores: heavy tails then cannot hide
a disagreement, and the answer does not depend on the scale on which a parameter was written. What
differs from the paper: everything is vectorised over coordinates, and the tail ESS is not here;
pass the squares of centred draws as further coordinates to watch their spread.

Reference
---------
Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), "Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16(2).
"""

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

__all__ = ["ess", "split_rhat", "weighted_ess"]


def split_rhat(draws, *, rank=True):
    """Potential scale reduction of half chains: 1 where they agree, larger where they do not.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)
    rank : bool, default=True
        The larger of R-hat of the normal scores of the draws and of their distances from the
        median, which sees chains that agree in location but not in spread. False: R-hat of the
        draws themselves.

    Returns
    -------
    rhat : array of shape (d,)
        Unitless; above 1.01 the chains should not be trusted. NaN where a coordinate is constant or
        not finite.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws a chain.

    References
    ----------
    Vehtari et al. (2021), rank-normalised and folded split R-hat.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.diagnostics import split_rhat
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> bool(split_rhat(draws).max() < 1.01)
    True
    >>> draws[0, :, 1] += 1.0  # one chain explores another region
    >>> split_rhat(draws).round(1)
    array([1. , 1.1])
    """
    halves, usable = _halves(draws)
    if rank:
        folded = np.abs(halves - np.median(halves, axis=(0, 1)))
        # Chains at the same distances from the median leave the second without a value.
        rhat = np.fmax(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded)))
    else:
        rhat = _rhat(halves)
    return np.where(usable, rhat, np.nan)


def ess(draws, *, rank=True):
    """Effective sample size: as many independent draws would give means of the same error.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)
    rank : bool, default=True
        The "bulk" size: of the normal scores of the draws. False: of the draws themselves, the size
        that the error of their mean needs.

    Returns
    -------
    size : array of shape (d,)
        In draws, of all chains together, at most S log10(S) for S draws in all. NaN where a
        coordinate is constant or not finite.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws a chain.

    References
    ----------
    Vehtari et al. (2021), bulk ESS, with the initial monotone sequence of Geyer (1992), "Practical
    Markov chain Monte Carlo".

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.diagnostics import ess
    >>> independent = np.random.default_rng(0).normal(size=(4, 500, 1))
    >>> repeated = np.repeat(independent, 4, axis=1)
    >>> bool(0.2 < ess(repeated)[0] / 8000 < 0.3)
    True
    """
    halves, usable = _halves(draws)
    if rank:
        halves = _normal_scores(halves)
    n_halves, n, _ = halves.shape
    means = halves.mean(axis=1, keepdims=True)
    # Autocovariances averaged over half chains; padding keeps the circular convolution apart.
    length = next_fast_len(2 * n, real=True)
    power = sum(np.abs(rfft(half, length, axis=0)) ** 2 for half in halves - means)
    covariances = irfft(power, length, axis=0)[:n] / (n * n_halves)
    within = covariances[0] * n / (n - 1.0)
    total = covariances[0] + means[:, 0].var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    pairs = correlations[: n - n % 2].reshape(n // 2, 2, -1).sum(axis=1)
    # Sums of two neighbours are positive and decreasing in theory: cut at the first negative one.
    positive = np.logical_and.accumulate(pairs > 0.0, axis=0)
    pairs = np.minimum.accumulate(pairs, axis=0)
    time = -1.0 + 2.0 * np.sum(pairs, axis=0, where=positive)
    n_total = n_halves * n
    return np.where(usable, n_total / np.maximum(time, 1.0 / np.log10(n_total)), np.nan)


def weighted_ess(weights):
    """Kish's effective sample size of weighted independent draws, ``(sum w)^2 / sum w^2``.

    Parameters
    ----------
    weights : array of shape (m,)
        Non-negative; they need not sum to 1.

    Returns
    -------
    size : float
        Between 1 and m.

    Raises
    ------
    ValueError
        If ``weights`` has negative or non-finite entries, or no positive one.

    Examples
    --------
    >>> from skstein.diagnostics import weighted_ess
    >>> weighted_ess([1.0, 1.0, 0.0, 0.0])
    2.0
    """
    weights = np.asarray(weights, dtype=float)
    if weights.ndim != 1 or not np.all((weights >= 0.0) & (weights < np.inf)):
        raise ValueError("weights must be a vector of finite numbers >= 0.")
    if not np.any(weights > 0.0):
        raise ValueError("weights must have a positive entry.")
    weights = weights / weights.max()
    return float(weights.sum() ** 2 / np.sum(weights**2))


def _halves(draws):
    """Half chains (2 n_chains, n, d), and which coordinates have finite and different draws."""
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 3 or draws.shape[0] < 1 or draws.shape[1] < 4:
        raise ValueError(
            "draws must be (n_chains, n_draws, d) with at least 4 draws in a chain, got the shape "
            f"{draws.shape}."
        )
    # With an odd number the middle draw is left out.
    n = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :n], draws[:, -n:]])
    finite = np.isfinite(halves).all(axis=(0, 1))
    halves = np.where(finite, halves, 0.0)
    return halves, finite & (np.ptp(halves, axis=(0, 1)) > 0.0)


def _normal_scores(x):
    ranks = rankdata(x.reshape(-1, x.shape[2]), axis=0)
    return ndtri((ranks - 0.375) / (len(ranks) + 0.25)).reshape(x.shape)


def _rhat(x):
    within = x.var(axis=1, ddof=1).mean(axis=0)
    between = x.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(1.0 - 1.0 / x.shape[1] + between / within)
