"""Averages over particles for prediction, in one pass over a block of per-particle outputs.

NumPy needs several passes and temporaries of the block's size, and took two to three times as long.

Class probabilities are averaged and returned as logarithms. The average itself is a plain sum; only
where that sum underflows is the row summed again in logarithms, so the tails stay exact at no cost
elsewhere.
"""

import math
from statistics import NormalDist

import numpy as np

from ._compile import compiled, frozen

# Below this an average of probabilities starts to lose digits to subnormal numbers.
_UNDERFLOW = 1e-290


def log_mean_proba(logits, weights):
    """Logarithm of averaged class probabilities, ``log sum_i w_i p(k | x, theta_i)``.

    Parameters
    ----------
    logits : array of shape (n, m) or (n, m, n_classes)
        Two dimensions: log-odds of the second of two classes. Three: unnormalised log probabilities
        of every class.
    weights : array of shape (m,)

    Returns
    -------
    log_proba : array of shape (n, n_classes)

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit.predict import log_mean_proba
    >>> np.exp(log_mean_proba(np.log([[1.0, 3.0]]), np.array([0.5, 0.5])))
    array([[0.375, 0.625]])
    """
    logits, weights = frozen(logits), frozen(weights)
    n = logits.shape[0]
    if logits.ndim == 2:
        log_proba = np.empty((n, 2))
        _log_mean_expit(logits, weights, log_proba)
    else:
        log_proba = np.empty((n, logits.shape[2]))
        _log_mean_softmax(logits, weights, log_proba)
    # Weights sum to 1 up to rounding only, and a probability must not pass 1.
    log_proba -= np.logaddexp.reduce(log_proba, axis=1, keepdims=True)
    return log_proba


def mean_entropy(logits, weights):
    """Entropy of each particle's class probabilities, averaged over particles, in nats.

    Parameters
    ----------
    logits, weights : arrays
        As in `log_mean_proba`.

    Returns
    -------
    entropy : array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit.predict import mean_entropy
    >>> mean_entropy(np.array([[0.0, 1000.0]]), np.array([0.5, 0.5])) / np.log(2)
    array([0.5])
    """
    logits, weights = frozen(logits), frozen(weights)
    entropy = np.empty(logits.shape[0])
    if logits.ndim == 2:
        _mean_entropy_expit(logits, weights, entropy)
    else:
        _mean_entropy_softmax(logits, weights, entropy)
    return entropy


def normal_mixture_quantile(means, stds, weights, q):
    """Quantiles of mixtures of normals, by Newton steps in a shrinking bracket.

    The quantile of the mixture lies between the smallest and the largest quantile of its
    components, which brackets it. Above one half the upper tail is solved for, so that both tails
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
    >>> from skstein._jit.predict import normal_mixture_quantile
    >>> means, stds, weights = np.array([[-1.0, 1.0]]), np.ones(2), np.full(2, 0.5)
    >>> normal_mixture_quantile(means, stds, weights, np.array([0.05, 0.95])).round(4)
    array([[-2.2845,  2.2845]])
    """
    q = np.asarray(q, dtype=np.float64)
    rows = means.reshape(-1, means.shape[-1])
    tail = np.minimum(q, 1.0 - q)
    z_tail = [NormalDist().inv_cdf(t) if t > 0.0 else -np.inf for t in tail]
    quantiles = np.empty((len(rows), q.size))
    _normal_mixture_quantile(
        frozen(rows),
        frozen(np.broadcast_to(stds, means.shape).reshape(rows.shape)),
        frozen(weights),
        frozen(tail),
        frozen(z_tail),
        frozen(np.where(q > 0.5, -1.0, 1.0)),
        quantiles,
    )
    return quantiles.reshape(*means.shape[:-1], q.size)


@compiled
def _log_mean_expit(logits, weights, log_proba):
    n, m = logits.shape
    for i in range(n):
        negative = 0.0
        positive = 0.0
        for j in range(m):
            z = logits[i, j]
            e = math.exp(-abs(z))
            likely = weights[j] / (1.0 + e)
            if z > 0.0:
                positive += likely
                negative += e * likely
            else:
                negative += likely
                positive += e * likely
        log_proba[i, 0] = _log_sum(negative, -1.0, logits[i], weights)
        log_proba[i, 1] = _log_sum(positive, 1.0, logits[i], weights)


@compiled
def _log_sum(total, sign, logits, weights):
    if total > _UNDERFLOW or math.isnan(total):
        return math.log(total)
    top = -math.inf
    rest = 0.0
    for j in range(logits.shape[0]):
        if weights[j] > 0.0:
            z = sign * logits[j]
            term = math.log(weights[j]) + min(z, 0.0) - math.log1p(math.exp(-abs(z)))
            top, rest = _log_add(top, rest, term)
    return top + math.log(rest) if rest > 0.0 else -math.inf


@compiled
def _log_add(top, rest, term):
    """Add exp(term) to the running sum exp(top) * rest."""
    if term == -math.inf:
        return top, rest
    if term > top:
        return term, rest * math.exp(top - term) + 1.0
    return top, rest + math.exp(term - top)


@compiled
def _log_mean_softmax(logits, weights, log_proba):
    n, m, n_classes = logits.shape
    e = np.empty(n_classes)
    for i in range(n):
        for k in range(n_classes):
            log_proba[i, k] = 0.0
        for j in range(m):
            normalizer = _exponentials(logits[i, j], e)[1]
            for k in range(n_classes):
                log_proba[i, k] += weights[j] / normalizer * e[k]
        for k in range(n_classes):
            total = log_proba[i, k]
            if total > _UNDERFLOW or math.isnan(total):
                log_proba[i, k] = math.log(total)
                continue
            top = -math.inf
            rest = 0.0
            for j in range(m):
                if weights[j] > 0.0:
                    largest, normalizer = _exponentials(logits[i, j], e)
                    term = math.log(weights[j] / normalizer) + logits[i, j, k] - largest
                    top, rest = _log_add(top, rest, term)
            log_proba[i, k] = top + math.log(rest) if rest > 0.0 else -math.inf


@compiled
def _exponentials(logits, e):
    """Fill e with exp(logits - largest); return the largest logit and the sum of e."""
    largest = logits[0]
    for k in range(1, logits.shape[0]):
        largest = max(largest, logits[k])
    normalizer = 0.0
    for k in range(logits.shape[0]):
        e[k] = math.exp(logits[k] - largest)
        normalizer += e[k]
    return largest, normalizer


@compiled
def _mean_entropy_expit(logits, weights, entropy):
    n, m = logits.shape
    for i in range(n):
        entropy[i] = 0.0
        for j in range(m):
            z = abs(logits[i, j])
            e = math.exp(-z)
            if e > 0.0:
                entropy[i] += weights[j] * (math.log1p(e) + z * e / (1.0 + e))


@compiled
def _mean_entropy_softmax(logits, weights, entropy):
    n, m, n_classes = logits.shape
    e = np.empty(n_classes)
    for i in range(n):
        entropy[i] = 0.0
        for j in range(m):
            largest, normalizer = _exponentials(logits[i, j], e)
            surprise = 0.0
            for k in range(n_classes):
                if e[k] > 0.0:
                    surprise += e[k] * (largest - logits[i, j, k])
            entropy[i] += weights[j] * (math.log(normalizer) + surprise / normalizer)


@compiled
def _normal_mixture_quantile(means, stds, weights, tail, z_tail, sign, quantiles):
    n, m = means.shape
    for i in range(n):
        narrowest = stds[i, 0]
        for j in range(1, m):
            narrowest = min(narrowest, stds[i, j])
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
            x = 0.5 * (low + high)
            step = high - low
            tolerance = 1e-13 * narrowest + 4e-16 * max(abs(low), abs(high))
            while step > tolerance:
                excess = -tail[k]
                density = 0.0
                for j in range(m):
                    z = (x - sign[k] * means[i, j]) / stds[i, j]
                    excess += 0.5 * weights[j] * math.erfc(-z * math.sqrt(0.5))
                    density += weights[j] / stds[i, j] * math.exp(-0.5 * z * z)
                density /= math.sqrt(2.0 * math.pi)
                if excess > 0.0:
                    high = x
                else:
                    low = x
                # Bisection takes over where a Newton step leaves the bracket or does not halve.
                newton = x - excess / density if density > 0.0 else math.inf
                if low <= newton <= high and abs(newton - x) <= 0.5 * step:
                    step = abs(newton - x)
                    x = newton
                else:
                    step = 0.5 * (high - low)
                    x = 0.5 * (low + high)
            quantiles[i, k] = sign[k] * x
