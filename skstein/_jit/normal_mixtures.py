"""Quantiles and scores of mixtures of normals, in one pass over a block of rows."""

import math
from statistics import NormalDist

import numpy as np

from ._compile import compiled, frozen


def quantile(means, stds, weights, q):
    """Quantiles of mixtures of normals, by Halley steps in a shrinking bracket.

    The quantile of the mixture lies between the smallest and the largest quantile of its
    components, which brackets it; the search starts from that of one normal with the mixture's
    mean and variance. Above one half the upper tail is solved for, so that both tails
    are equally exact.

    Parameters
    ----------
    means : array of shape (..., m)
        The last axis runs over the components of a mixture.
    stds : array that broadcasts against ``means``
        Positive.
    weights : array of shape (m,)
    q : array of shape (n_quantiles,), in [0, 1]

    Returns
    -------
    quantiles : array of shape (..., n_quantiles)

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit.normal_mixtures import quantile
    >>> means, stds, weights = np.array([[-1.0, 1.0]]), np.ones(2), np.full(2, 0.5)
    >>> quantile(means, stds, weights, np.array([0.05, 0.95])).round(4)
    array([[-2.2845,  2.2845]])
    """
    q = np.asarray(q, dtype=np.float64)
    components = _components(means, np.maximum(stds, np.finfo(np.float64).tiny))
    tail = np.minimum(q, 1.0 - q)
    z_tail = [NormalDist().inv_cdf(t) if t > 0.0 else -np.inf for t in tail]
    sign = np.where(q > 0.5, -1.0, 1.0)
    quantiles = np.empty((len(components[0]), q.size))
    _quantile(*components, *map(frozen, (weights, tail, z_tail, sign)), quantiles)
    return quantiles.reshape(*means.shape[:-1], q.size)


@compiled
def _quantile(means, stds, weights, tail, z_tail, sign, quantiles):
    n, m = means.shape
    for i in range(n):
        narrowest = stds[i, 0]
        mean = 0.0
        for j in range(m):
            narrowest = min(narrowest, stds[i, j])
            mean += weights[j] * means[i, j]
        variance = 0.0
        for j in range(m):
            variance += weights[j] * (stds[i, j] ** 2 + (means[i, j] - mean) ** 2)
        for k in range(tail.shape[0]):
            if tail[k] == 0.0:
                quantiles[i, k] = -sign[k] * math.inf
                continue
            low = math.inf
            high = -math.inf
            for j in range(m):
                if weights[j] > 0.0:
                    end = sign[k] * means[i, j] + stds[i, j] * z_tail[k]
                    low = min(low, end)
                    high = max(high, end)
            x = min(max(sign[k] * mean + math.sqrt(variance) * z_tail[k], low), high)
            step = high - low
            tolerance = 1e-13 * narrowest + 4e-16 * max(abs(low), abs(high))
            while step > tolerance:
                excess = -tail[k]
                density = 0.0
                slope = 0.0
                for j in range(m):
                    z = (x - sign[k] * means[i, j]) / stds[i, j]
                    excess += 0.5 * weights[j] * math.erfc(-z * math.sqrt(0.5))
                    part = weights[j] / stds[i, j] * math.exp(-0.5 * z * z)
                    density += part
                    slope -= part * z / stds[i, j]
                density /= math.sqrt(2.0 * math.pi)
                slope /= math.sqrt(2.0 * math.pi)
                if excess > 0.0:
                    high = x
                else:
                    low = x
                # Bisection takes over where a step leaves the bracket or does not halve.
                halley = math.inf
                if density * narrowest > 1e-290:  # or ratios of it would overflow
                    newton = excess / density
                    halley = x - newton / max(1.0 - 0.5 * newton * slope / density, 0.5)
                if low <= halley <= high and abs(halley - x) <= 0.5 * step:
                    step = abs(halley - x)
                    x = halley
                    if step < 1e-5 * narrowest:  # what is left is of the order of its cube
                        break
                else:
                    step = 0.5 * (high - low)
                    x = 0.5 * (low + high)
            quantiles[i, k] = sign[k] * x


def crps(means, stds, weights, y):
    """Compiled continuous ranked probability score of mixtures of normals, in closed form.

    Parameters
    ----------
    means : array of shape (..., m)
        The last axis runs over the components of a mixture.
    stds : array that broadcasts against ``means``
        Non-negative.
    weights : array of shape (m,)
    y : array of the shape of ``means`` without its last axis

    Returns
    -------
    scores : array of the shape of ``y``

    References
    ----------
    Grimit, Gneiting, Berrocal & Johnson (2006), "The continuous ranked probability score for
    circular variables and its application to mesoscale forecast ensemble verification", equation 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit.normal_mixtures import crps
    >>> crps(np.zeros((1, 2)), np.ones(2), np.full(2, 0.5), np.zeros(1)).round(4)
    array([0.2337])
    """
    scores = np.empty(y.size)
    _crps(*_components(means, stds), frozen(weights), frozen(y.ravel()), scores)
    return scores.reshape(y.shape)


@compiled
def _crps(means, stds, weights, y, scores):
    n, m = means.shape
    for i in range(n):
        total = 0.0
        for j in range(m):
            mean, variance = means[i, j], stds[i, j] ** 2
            pairs = 0.5 * weights[j] * _mean_distance(0.0, 2.0 * variance)
            for k in range(j):
                pairs += weights[k] * _mean_distance(mean - means[i, k], variance + stds[i, k] ** 2)
            total += weights[j] * (_mean_distance(mean - y[i], variance) - pairs)
        scores[i] = total


@compiled
def _mean_distance(mean, variance):
    """Mean of ``|x|`` for a normal x."""
    if variance == 0.0:
        return abs(mean)
    std = math.sqrt(variance)
    z = mean / std
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return 2.0 * std * density + mean * math.erf(z * math.sqrt(0.5))


def _components(means, stds):
    """Means and standard deviations of all mixtures, one per row."""
    rows = means.reshape(-1, means.shape[-1])
    return frozen(rows), frozen(np.broadcast_to(stds, means.shape).reshape(rows.shape))
