"""Convergence of Markov chains and the error of what they estimate, after Vehtari et al. (2021).

R-hat compares the variance within half chains with that between them, so that a chain that drifts
disagrees with itself. The effective sample size (ESS) is the number of independent draws that would
estimate something with the same error: a mean, a standard deviation, a quantile; from it follows
the Monte Carlo standard error (MCSE), in the units of the draws. For R-hat and the "bulk" ESS draws
are replaced by their normal scores: heavy tails then cannot hide a disagreement, and the answer
does not depend on the scale on which a parameter was written.

Everything is vectorised over coordinates. The numbers are those of Stan and ArviZ but for chains so
short or so apart that their autocorrelations stay positive to the last lag: there all lags count,
and the ESS is the smaller.

Reference
---------
Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC" (doi:10.1214/20-BA1221), Bayesian
Analysis 16(2).
"""

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import betaincinv, ndtr, ndtri

__all__ = [
    "ess",
    "ess_quantile",
    "ess_sd",
    "ess_tail",
    "mcse_mean",
    "mcse_quantile",
    "mcse_sd",
    "split_rhat",
    "summarize",
    "weighted_ess",
]

ENOUGH_DRAWS = 8  # of each chain, for R-hat and effective sample size to mean much


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
        If ``draws`` is not three-dimensional or has fewer than four draws per chain.

    References
    ----------
    Vehtari et al. (2021), rank-normalised and folded split R-hat. One chain is compared with itself
    here, where ArviZ gives NaN.

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
    draws = _checked(draws)
    if not rank:
        return _rhat(_halves(_in_units(draws)[0]))
    halves = _halves(draws)
    return _ranked(halves, _normal_scores(halves))


def ess(draws, *, rank=True):
    """Effective sample size: how many independent draws would give means of the same error.

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
        If ``draws`` is not three-dimensional or has fewer than four draws per chain.

    See Also
    --------
    ess_sd, ess_tail : The sizes for the spread and for the tails, often smaller.

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
    draws = _checked(draws)
    return _size(_normal_scores(_halves(draws)) if rank else _halves(_in_units(draws)[0]))


def ess_sd(draws):
    """Effective sample size of the standard deviation: of the squares of the centred draws.

    Chains that swing from side to side (antithetic ones) can know a mean far better than a spread.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)

    Returns
    -------
    size : array of shape (d,)
        In draws. NaN where a coordinate is constant or not finite.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws per chain.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.diagnostics import ess, ess_sd
    >>> x = np.random.default_rng(0).normal(size=(4, 500, 1))
    >>> there_and_back = np.stack([x, -x], axis=2).reshape(4, 1000, 1)
    >>> bool(ess(there_and_back)[0] > 4000), bool(ess_sd(there_and_back)[0] < 4000)
    (True, True)
    """
    return _size(_halves(_squares(_in_units(_checked(draws))[0])))


def ess_quantile(draws, q):
    """Effective sample size of a quantile: of whether a draw is at most the quantile.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)
    q : float or array-like of shape (k,)
        Probabilities, above 0 and below 1.

    Returns
    -------
    size : array of shape (d,) or (k, d)
        In draws. NaN where a coordinate is constant or not finite, and where all draws are at most
        the quantile, as those of a discrete coordinate may be.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws per chain, or if ``q`` is
        not between 0 and 1.

    References
    ----------
    Vehtari et al. (2021), efficiency of quantile estimates.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.diagnostics import ess_quantile
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 3))
    >>> ess_quantile(draws, [0.1, 0.5]).shape
    (2, 3)
    """
    draws = _checked(draws)
    return _for_each(q, lambda p: _size_of_quantile(draws, np.quantile(draws, p, axis=(0, 1))))


def ess_tail(draws, q=(0.05, 0.95)):
    """Effective sample size in the tails: the least of those of the 5 % and the 95 % quantiles.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)
    q : array-like of shape (k,), default=(0.05, 0.95)
        Probabilities of the quantiles, above 0 and below 1.

    Returns
    -------
    size : array of shape (d,)
        In draws. NaN where a coordinate is constant or not finite, or where no quantile has draws
        on both sides.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws per chain, or if ``q`` is
        not between 0 and 1.

    References
    ----------
    Vehtari et al. (2021), tail ESS.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.diagnostics import ess, ess_tail
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 1))
    >>> draws[:2] *= 0.2  # two chains never reach the tails
    >>> bool(ess_tail(draws)[0] < 400 < ess(draws)[0])
    True
    """
    return np.fmin.reduce(np.atleast_2d(ess_quantile(draws, q)), axis=0)


def mcse_mean(draws):
    """Monte Carlo standard error of the mean of all draws.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)

    Returns
    -------
    error : array of shape (d,)
        In the units of the draws. NaN where a coordinate is constant or not finite.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws per chain.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.diagnostics import mcse_mean
    >>> draws = np.random.default_rng(0).normal(size=(4, 2500, 1))
    >>> mcse_mean(draws).round(2)
    array([0.01])
    """
    scaled, unit = _in_units(_checked(draws))
    return unit * scaled.std(axis=(0, 1), ddof=1) / np.sqrt(_size(_halves(scaled)))


def mcse_sd(draws):
    """Monte Carlo standard error of the standard deviation of all draws.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)

    Returns
    -------
    error : array of shape (d,)
        In the units of the draws. NaN where a coordinate is constant or not finite.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws per chain.

    Notes
    -----
    The error of the mean square, divided by twice the standard deviation (delta method), with
    `ess_sd`. ArviZ 0.8 puts the ESS of the mean there, too confident for antithetic chains.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.diagnostics import mcse_sd
    >>> draws = np.random.default_rng(0).normal(size=(4, 2500, 1))
    >>> mcse_sd(draws).round(3)  # for independent normal draws sd / sqrt(2 S)
    array([0.007])
    """
    scaled, unit = _in_units(_checked(draws))
    squares = _squares(scaled)
    error = squares.std(axis=(0, 1)) / np.sqrt(_size(_halves(squares)))
    return unit * error / (2.0 * np.sqrt(squares.mean(axis=(0, 1))))


def mcse_quantile(draws, q):
    """Monte Carlo standard error of quantiles of all draws.

    Half the distance between the order statistics that bound the quantile with the probability that
    one standard deviation bounds a normal variable, so that no density has to be estimated.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)
    q : float or array-like of shape (k,)
        Probabilities, above 0 and below 1.

    Returns
    -------
    error : array of shape (d,) or (k, d)
        In the units of the draws. NaN where `ess_quantile` is.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws per chain, or if ``q`` is
        not between 0 and 1.

    References
    ----------
    Vehtari et al. (2021), Monte Carlo error of quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.diagnostics import mcse_quantile
    >>> draws = np.random.default_rng(0).normal(size=(4, 2500, 1))
    >>> mcse_quantile(draws, [0.5, 0.99]).shape
    (2, 1)
    """
    draws = _checked(draws)
    ordered = np.sort(draws.reshape(-1, draws.shape[2]), axis=0)
    n = len(ordered)

    def error(p):
        size = _size_of_quantile(draws, np.quantile(draws, p, axis=(0, 1)))
        known = np.isfinite(size)
        counts = np.where(known, size, 1.0)
        ends = betaincinv(counts * p + 1.0, counts * (1.0 - p) + 1.0, ndtr([[-1.0], [1.0]]))
        # The k-th smallest draw is at position k - 1.
        low, high = np.floor(n * ends[0]), np.ceil(n * ends[1])
        positions = np.clip([low, high], 1, n).astype(int) - 1
        below, above = np.take_along_axis(ordered, positions, axis=0)
        return np.where(known, 0.5 * (above - below), np.nan)

    return _for_each(q, error)


def summarize(draws):
    """Estimates from chains, their Monte Carlo errors, and whether to trust them.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, d)

    Returns
    -------
    table : dict of str to array of shape (d,)
        ``mean``, ``sd``, ``mcse_mean``, ``mcse_sd``, ``rhat``, ``ess_bulk`` and ``ess_tail``. The
        last five are NaN where a coordinate is constant or not finite.

    Raises
    ------
    ValueError
        If ``draws`` is not three-dimensional or has fewer than four draws per chain.

    Examples
    --------
    ``pandas.DataFrame(summarize(draws), index=names)`` prints it with a name for each row.

    >>> import numpy as np
    >>> from skstein.diagnostics import summarize
    >>> draws = np.random.default_rng(0).normal([5.0, 0.0], [2.0, 1.0], size=(4, 1000, 2))
    >>> table = summarize(draws)
    >>> list(table)
    ['mean', 'sd', 'mcse_mean', 'mcse_sd', 'rhat', 'ess_bulk', 'ess_tail']
    >>> bool(abs(table["mean"][0] - 5.0) < 4 * table["mcse_mean"][0])
    True
    """
    usable = _checked(draws)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled, unit = _in_units(np.asarray(draws, dtype=float))
        mean, sd = scaled.mean(axis=(0, 1)), scaled.std(axis=(0, 1), ddof=1)
    return {
        "mean": unit * mean,
        "sd": unit * sd,
        "mcse_mean": mcse_mean(usable),
        "mcse_sd": mcse_sd(usable),
        **rank_diagnostics(usable),
    }


def rank_diagnostics(draws):
    """``rhat``, ``ess_bulk`` and ``ess_tail`` of `summarize`, from one ranking of the draws."""
    draws = _checked(draws)
    halves = _halves(draws)
    scores = _normal_scores(halves)
    return {"rhat": _ranked(halves, scores), "ess_bulk": _size(scores), "ess_tail": ess_tail(draws)}


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


def _checked(draws):
    """Draws as floats, NaN in every coordinate that is constant or not finite."""
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 3 or draws.size == 0 or draws.shape[1] < 4:
        raise ValueError(
            "draws must be (n_chains, n_draws, d) with at least one chain of 4 draws and one "
            f"coordinate, got the shape {draws.shape}."
        )
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.ptp(_halves(draws), axis=(0, 1))
    usable = np.isfinite(draws).all(axis=(0, 1)) & (spread > 0.0) & (spread < np.inf)
    return np.where(usable, draws, np.nan)


def _halves(draws):
    """Half chains (2 n_chains, n, d); with an odd number the middle draw is left out."""
    n = draws.shape[1] // 2
    return np.concatenate([draws[:, :n], draws[:, -n:]])


def _in_units(draws):
    """Draws in units of about their range, so that powers neither overflow nor vanish; the units.

    Powers of two, by which nothing is rounded.
    """
    unit = np.ldexp(1.0, np.frexp(np.ptp(draws, axis=(0, 1)))[1] - 1)
    return draws / unit, unit


def _squares(draws):
    return (draws - draws.mean(axis=(0, 1))) ** 2


def _normal_scores(x):
    """Normal quantiles of the ranks, ties at their average rank; NaN in coordinates of NaN."""
    columns = x.reshape(-1, x.shape[2]).T.copy()
    n = columns.shape[1]
    order = np.argsort(columns, axis=1)
    ordered = np.take_along_axis(columns, order, axis=1)
    # Positions of the first and the last of those that tie, which sum to twice the average one.
    # `scipy.stats.rankdata` takes four times as long.
    ends = np.ones((len(columns), n + 1), dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=ends[:, 1:-1])
    position = np.arange(n)
    first = np.maximum.accumulate(np.where(ends[:, :-1], position, 0), axis=1)
    last = np.where(ends[:, 1:], position, n - 1)
    last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
    quantiles = ndtri((0.5 * np.arange(2 * n - 1) + 0.625) / (n + 0.25))
    np.put_along_axis(columns, order, quantiles[first + last], axis=1)
    columns[np.isnan(ordered[:, 0])] = np.nan
    return columns.T.reshape(x.shape)


def _ranked(halves, scores):
    """R-hat of half chains, whose normal scores are ``scores``, and of their distances."""
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    # Chains at the same distances from the median leave the second without a value.
    return np.fmax(_rhat(scores), _rhat(_normal_scores(folded)))


def _rhat(x):
    within = x.var(axis=1, ddof=1).mean(axis=0)
    between = x.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(1.0 - 1.0 / x.shape[1] + between / within)


def _size(halves):
    """Effective sample size of the mean over half chains (2 n_chains, n, d); NaN if all equal."""
    n_halves, n, dim = halves.shape
    means = halves.mean(axis=1, keepdims=True)
    # Autocovariances averaged over half chains; padding keeps the circular convolution apart, and
    # makes that of lag n zero.
    length = next_fast_len(2 * n, real=True)
    power = sum(np.abs(rfft(half, length, axis=0)) ** 2 for half in halves - means)
    covariances = irfft(power, length, axis=0)[: n + 1] / (n * n_halves)
    within = covariances[0] * n / (n - 1.0)
    total = covariances[0] + means[:, 0].var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    # Sums of two neighbours are positive and decreasing in theory: cut at the first negative one.
    pairs = correlations[: n - n % 2].reshape(n // 2, 2, dim).sum(axis=1)
    positive = np.logical_and.accumulate(pairs >= 0.0, axis=0)
    pairs = np.minimum.accumulate(pairs, axis=0)
    # In antithetic chains the next even lag is still positive: midway between sums cut before and
    # after it errs least.
    following = np.take_along_axis(correlations, 2 * positive.sum(axis=0)[None], axis=0)[0]
    time = -1.0 + 2.0 * np.sum(pairs, axis=0, where=positive) + np.maximum(following, 0.0)
    n_total = n_halves * n
    return np.where(total > 0.0, n_total / np.maximum(time, 1.0 / np.log10(n_total)), np.nan)


def _size_of_quantile(draws, quantile):
    return _size(_halves(np.where(np.isnan(quantile), np.nan, draws <= quantile)))


def _for_each(q, function):
    """``function`` of a probability, or of each of several, stacked."""
    q = np.asarray(q, dtype=float)
    if q.ndim > 1 or not q.size or not np.all((q > 0.0) & (q < 1.0)):
        raise ValueError(f"q must be one or several numbers above 0 and below 1, got {q.tolist()}.")
    return function(q) if q.ndim == 0 else np.stack([function(p) for p in q])
