"""Importance weights smoothed by the tail of their own distribution, whose shape says if they hold.

References
----------
Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling", JMLR 25(72).

Zhang & Stephens (2009), "A new and efficient estimation method for the generalized Pareto
distribution", Technometrics 51(3).
"""

import numpy as np
from scipy.special import logsumexp


def pareto_smoothed(log_ratios):
    """Importance weights whose tail is smoothed, and the shape of the tail.

    Parameters
    ----------
    log_ratios : ndarray of shape (n, m)
        Of n importance samples of m draws each, up to a constant for each.

    Returns
    -------
    log_weights : ndarray of shape (n, m)
        Their exponentials sum to 1.
    k : ndarray of shape (n,)
        Shape of the generalised Pareto distribution of the tail; 0 where all of it is one value.
    """
    m = log_ratios.shape[1]
    size = int(3.0 * np.sqrt(m)) if m > 225 else max(1, m // 5)
    log_weights = log_ratios - log_ratios.max(axis=1, keepdims=True)
    order = np.argpartition(log_weights, m - size - 1, axis=1)[:, m - size - 1 :]
    largest = np.take_along_axis(log_weights, order, axis=1)
    order = np.take_along_axis(order, np.argsort(largest, axis=1), axis=1)
    largest = np.sort(np.exp(largest), axis=1)
    cutoff, tail = largest[:, :1], largest[:, 1:]
    varies = tail[:, -1] > tail[:, 0]
    k, sigma = _fit_pareto(np.where(varies[:, None], tail - cutoff, np.arange(1.0, size + 1.0)))
    share = (np.arange(size) + 0.5) / size
    quantiles = cutoff + sigma[:, None] * np.expm1(-k[:, None] * np.log1p(-share)) / k[:, None]
    smooth = np.log(np.minimum(quantiles, 1.0))  # the largest ratio is 1
    varies &= np.isfinite(k)
    smooth = np.where(varies[:, None], smooth, np.log(tail))
    np.put_along_axis(log_weights, order[:, 1:], smooth, axis=1)
    log_weights -= logsumexp(log_weights, axis=1, keepdims=True)
    return log_weights, np.where(varies, k, 0.0)


def _fit_pareto(x):
    """Shape and scale (n,) of generalised Pareto distributions of ordered excesses (n, size).

    The empirical Bayes estimate of Zhang & Stephens, the shape drawn towards 0.5 as by ten
    observations (Vehtari et al. 2024, appendix G).
    """
    size = x.shape[1]
    n_grid = 30 + int(np.sqrt(size))
    quartile = np.maximum(x[:, int(size / 4.0 + 0.5) - 1], np.finfo(float).tiny)
    grid = 1.0 - np.sqrt(n_grid / (np.arange(n_grid) + 0.5))
    b = grid / (3.0 * quartile[:, None]) + 1.0 / x[:, -1:]
    k = np.mean(np.log1p(-b[:, :, None] * x[:, None]), axis=2)
    log_likelihood = size * (np.log(-b / k) - k - 1.0)
    log_likelihood -= log_likelihood.max(axis=1, keepdims=True)
    weights = np.exp(log_likelihood)
    b = np.sum(b * weights, axis=1) / weights.sum(axis=1)
    k = np.mean(np.log1p(-b[:, None] * x), axis=1)
    return (size * k + 5.0) / (size + 10.0), -k / b
