"""Quantiles of weighted points, and of mixtures of distributions."""

import numpy as np

from .._tools.row_blocks import row_blocks
from .resampling import few_resampled

_ROUNDING = 1e-12  # of sums of weights
_MOST_STEPS = 100
_MOST_NEWTON = 6
_NEAR = 1e-7  # of a probability: one more step of Newton's is within rounding
_RANGE = 3.29  # standard deviations from the 5 to the 95 % point of a normal


def weighted_quantile(values, weights, q):
    """Quantiles of weighted points, by linear interpolation of the mid-point distribution function.

    Parameters
    ----------
    values : ndarray of shape (m, ...)
    weights : ndarray of shape (m,)
        Non-negative, summing to 1.
    q : array-like of shape (k,)
        Probabilities in [0, 1].

    Returns
    -------
    ndarray of shape (k, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.posterior import weighted_quantile
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.full(3, 1 / 3), [0.5])
    array([2.])
    """
    values, q = np.asarray(values, dtype=float), np.asarray(q, dtype=float)
    rows = np.moveaxis(values, 0, -1).reshape(-1, len(values))
    result = np.empty((len(q), len(rows)))
    for block in row_blocks(len(rows), 32 * len(values)):
        result[:, block] = between(*neighbours(rows[block], weights, q)).T
    return result.reshape(len(q), *values.shape[1:])


def quantile_misfit(values, weights, draws):
    """Largest error of the 5, 50 and 95 % points of weighted points, by the draws they stand for.

    In standard deviations of a normal distribution with the range of the draws (n, dim).
    """
    levels = [0.05, 0.5, 0.95]
    expected = np.quantile(draws, levels, axis=0)
    gap = np.abs(weighted_quantile(values, weights, levels) - expected).max(axis=0)
    return float((gap / (expected[2] - expected[0])).max() * _RANGE)


def neighbours(rows, weights, q):
    """The points of each row (n, m) that a quantile is interpolated from by `between`.

    Returns
    -------
    low, high : ndarray of shape (n, k)
        The points below and above each quantile.
    place : ndarray of shape (k,) or (n, k)
        That of the quantile between them, from 0 to 1.
    """
    if np.min(weights) == 0.0:  # nothing is interpolated towards what does not count
        rows, weights = rows[:, weights > 0.0], weights[weights > 0.0]
    return (_of_equal_weights if np.ptp(weights) == 0.0 else _of_uneven_weights)(rows, weights, q)


def _of_equal_weights(rows, weights, q):
    last = rows.shape[1] - 1
    rows = np.sort(rows, axis=1)  # faster than `partition`
    places = np.clip(q * (last + 1) - 0.5, 0.0, last)
    below = places.astype(np.intp)
    return rows[:, below], rows[:, np.minimum(below + 1, last)], places - below


def _of_uneven_weights(rows, weights, q):
    last = rows.shape[1] - 1
    order = np.argsort(rows, axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    # The weights of equal points are in their own order, which the faster sort does not keep.
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    order[tied] = np.argsort(rows[tied], axis=1, kind="stable")
    weights = weights[order]
    middle = np.cumsum(weights, axis=1) - 0.5 * weights
    counts = [np.sum(middle <= level, axis=1) for level in q]
    above = np.reshape(counts, (len(q), len(rows))).T.astype(np.intp)
    below, above = np.maximum(above - 1, 0), np.minimum(above, last)
    start, stop, low, high = (
        np.take_along_axis(values, end, axis=1)
        for values in (middle, ordered)
        for end in (below, above)
    )
    inside = (start <= q) & (start < stop)
    return low, high, np.where(inside, q - start, 0.0) / np.where(inside, stop - start, 1.0)


def between(low, high, place):
    """Linear interpolation that survives infinite ends."""
    with np.errstate(invalid="ignore"):
        step = high - low
        value = low + place * step
        value = np.where(np.isnan(value), high - (1.0 - place) * step, value)
    return np.where((place == 0.0) | (low == high), low, value)


def narrowest_interval(values, weights, mass):
    """The narrowest interval between two quantiles of weighted points, ``mass`` apart.

    Parameters
    ----------
    values : ndarray of shape (m, d)
    weights : ndarray of shape (m,)
        Non-negative, summing to 1.
    mass : float
        Probability of the interval.

    Returns
    -------
    ndarray of shape (2, d)
        Lower and upper ends; the range of the points where they have too few for the mass.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._statistics.quantiles import narrowest_interval
    >>> narrowest_interval(np.array([[0.0], [5.0], [6.0], [7.0]]), np.full(4, 0.25), 0.5).ravel()
    array([5., 7.])
    """
    values, weights = values[weights > 0.0], weights[weights > 0.0]
    result = np.empty((2, values.shape[1]))
    for j, column in enumerate(values.T):
        order = np.argsort(column, kind="stable")
        ordered, share = column[order], weights[order]
        middle = np.cumsum(share) - 0.5 * share
        # Between two of these starts no end passes a point, so that the width is linear there.
        start = np.concatenate([middle, middle - mass])
        start = start[(start >= middle[0] - _ROUNDING) & (start + mass <= middle[-1] + _ROUNDING)]
        start = start if len(start) else middle[:1]
        low, high = (np.interp(place, middle, ordered) for place in (start, start + mass))
        best = np.argmin(high - low)
        result[:, j] = low[best], high[best]
    return result


def mixture_quantiles(cdf, ppf, weights, q, *, discrete, pdf=None):
    """Quantiles of mixtures: those of a few components first, from which all are soon at theirs.

    Parameters
    ----------
    cdf : callable
        ``cdf(y, some) -> (n, k)``: of some components of each mixture, an index of the m
        components, at its entry of ``y`` (n,).
    ppf : callable
        ``ppf(level, some) -> (n, k)``: quantiles of some components.
    weights : ndarray of shape (m,)
        Of the components, summing to 1.
    q : ndarray of shape (k,)
        Probabilities in [0, 1].
    discrete : bool
        Whether outcomes are whole numbers; then so are the quantiles.
    pdf : callable, default=None
        The derivative of ``cdf``, by which it is asked less often.

    Returns
    -------
    ndarray of shape (n, k)

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import poisson
    >>> from skstein._statistics.quantiles import mixture_quantiles
    >>> parts, half = np.array([[1.0, 9.0]]), np.full(2, 0.5)
    >>> q = np.array([0.25, 0.75])
    >>> mixture_quantiles(
    ...     lambda y, some: poisson(parts[:, some]).cdf(y[:, None]),
    ...     lambda level, some: poisson(parts[:, some]).ppf(level),
    ...     half,
    ...     q,
    ...     discrete=True,
    ... )
    array([[1., 9.]])
    """
    few, result = few_resampled(weights), []
    for level in q:
        if level in (0.0, 1.0):
            ends = ppf(level, slice(None))
            # SciPy's 0-quantile of counts lies just below the least.
            result.append(ends.min(axis=1) + discrete if level == 0.0 else ends.max(axis=1))
            continue
        level = min(level, 1.0 - 4e-16 * len(weights))  # which sums of weights reach
        ends = ppf(level, few)
        low, high = ends.min(axis=1) - discrete, ends.max(axis=1)
        search = _whole_crossing if discrete else _crossing
        guess = search(lambda y: cdf(y, few).mean(axis=1), level, low, high)
        found = None if pdf is None else _newton(cdf, pdf, weights, level, guess, high - low)
        if found is None:
            step = 0.02 * (high - low) + 1e-9 * np.abs(guess)
            step = np.ceil(step) if discrete else step
            low, high = guess - step, guess + (step - 1.0 if discrete else step)
            found = search(lambda y: cdf(y, slice(None)) @ weights, level, low, high)
        result.append(found)
    return np.stack(result, axis=1) if result else np.empty((len(ppf(0.5, few)), 0))


def _newton(cdf, pdf, weights, level, guess, scale):
    """Where distribution functions reach a level, close to a guess; None if not found in time."""
    every = slice(None)
    for _ in range(_MOST_NEWTON):
        beyond = cdf(guess, every) @ weights - level
        with np.errstate(all="ignore"):
            step = beyond / (pdf(guess, every) @ weights)
        if not np.isfinite(step).all():
            return None
        guess = guess - step
        # A step squares the error, unless the density changes within it.
        right = np.abs(beyond) < _NEAR * min(level, 1.0 - level)
        if np.all(right & (np.abs(step) < 1e-6 * scale + 1e-12 * np.abs(guess))):
            return guess
    return None


def _bracket(cdf, level, low, high):
    """Move ends outwards until distribution functions cross a level between; their values there."""
    below, above = cdf(low), cdf(high)
    step = np.maximum(high - low, 4e-16 * np.abs(high) + 1e-300)
    while (far := below >= level).any():
        high, above = np.where(far, low, high), np.where(far, below, above)
        low, step = np.where(far, low - step, low), 2.0 * step
        below = cdf(low)
    while (far := (above < level) & (high < np.inf)).any():
        low, below = np.where(far, high, low), np.where(far, above, below)
        high, step = np.where(far, high + step, high), 2.0 * step
        above = cdf(high)
    return low, high, below, above


def _whole_crossing(cdf, level, low, high):
    """The least whole numbers at which distribution functions reach a level."""
    low, high, _, _ = _bracket(cdf, level, low, high)
    while np.any(high - low > np.maximum(1.0, np.spacing(high))):
        middle = np.floor(0.5 * (low + high))
        enough = cdf(middle) >= level
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return high


def _crossing(cdf, level, low, high):
    """Where continuous distribution functions reach a level: false position, by Illinois."""
    low, high, below, above = _bracket(cdf, level, low, high)
    below, above = below - level, above - level
    tolerance = 1e-12 * (high - low) + 4e-16 * np.abs(high)
    guess, side = high, np.zeros(len(high))
    for i in range(_MOST_STEPS):
        with np.errstate(invalid="ignore", divide="ignore"):
            new = np.where(above > below, low + (high - low) * below / (below - above), high)
        if i > 8 and i % 2:  # a function far from a line
            new = 0.5 * (low + high)
        moved, guess = np.abs(new - guess), new
        if not np.any(moved > tolerance):
            break
        value = cdf(guess) - level
        right = value >= 0.0
        # The end that stays twice counts for half, so that the other side is tried.
        below = np.where(right, np.where(side > 0.0, 0.5 * below, below), value)
        above = np.where(right, value, np.where(side < 0.0, 0.5 * above, above))
        low, high = np.where(right, low, guess), np.where(right, guess, high)
        side = np.where(right, 1.0, -1.0)
    return guess
