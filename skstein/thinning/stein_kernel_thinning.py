"""Stein kernel thinning: many greedy points, halved until few are left.

A greedy choice by the kernel Stein discrepancy leaves out what is wrong with a chain, but its
points lie too close together. So more points are taken than asked for, and halved repeatedly by a
random walk that keeps both halves alike in the Stein kernel (`_halved`). The best of the sets that
result is refined point by point.

Li, Dwivedi & Mackey (2024), "Debiased distribution compression", Algorithm 1, with the halving of
Dwivedi & Mackey (2022), "Generalized kernel thinning", Algorithm 1a. What differs: at most 4096
points are halved, so that memory does not grow with the chain.
"""

import math

import numpy as np

from .. import _jit
from .._input.validation import check_count
from .._tools.random import as_generator
from .coordinates import in_round_coordinates

_MOST_HALVED = 4096
_FAILURE = 0.5  # probability that the walk is cut off somewhere


def stein_kernel_thin(
    samples,
    scores,
    n_points,
    *,
    kernel="imq",
    length_scale=None,
    preconditioner="cov",
    random_state=None,
):
    """Indices of samples chosen by Stein kernel thinning.

    It needs a finished sample, and corrects a burn-in as `OnlineKSDThinner` does, which is as
    accurate and faster.

    Parameters
    ----------
    samples : array of shape (draws, d) or (chains, draws, d), or an ArviZ posterior
        See `stein_thin`, for the other parameters too.
    scores : array of the same shape, an ArviZ Dataset, or callable
    n_points : int
        At most 4096.
    kernel : "imq", "rbf", IMQ or RBF, default="imq"
    length_scale : None, "median", "scaled-median", "cov", float or array (d, d), default=None
    preconditioner : None, "cov" or array of shape (d, d), default="cov"
    random_state : int, RandomState instance or None, default=None
        Of the halving.

    Returns
    -------
    indices : array of shape (n_points,)
        One can come more than once.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or a parameter is wrong.

    References
    ----------
    Li, Dwivedi & Mackey (2024), "Debiased distribution compression" (arXiv:2404.12290), Algorithm
    1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.thinning import stein_kernel_thin
    >>> samples = np.random.default_rng(0).normal(size=(1000, 2))
    >>> indices = stein_kernel_thin(samples, -samples, 20, random_state=0)
    >>> bool(np.abs(samples[indices].mean(axis=0)).max() < 0.1)
    True
    """
    check_count(n_points, "n_points")
    if n_points > _MOST_HALVED:
        raise ValueError(f"n_points must be at most {_MOST_HALVED}, got {n_points}.")
    u, t, coordinates = in_round_coordinates(samples, scores, kernel, length_scale, preconditioner)
    halvings = math.ceil(0.5 * math.log2(max(1.0, len(u) / n_points)))
    halvings = min(halvings, int(math.log2(_MOST_HALVED / n_points)))
    many = _jit.thinning.greedy(u, t, n_points * 2**halvings, coordinates.kernel)
    matrix = _jit.thinning.stein_matrix(u[many], t[many], coordinates.kernel)
    rng, sets = as_generator(random_state), [np.arange(len(many))]
    for _ in range(halvings):
        sets = [half for whole in sets for half in _halved(matrix, whole, rng)]
    best = min(sets, key=lambda chosen: matrix[np.ix_(chosen, chosen)].sum())
    return many[_refined(matrix, best)]


def _halved(matrix, whole, rng):
    """Two halves of an even number of points: each pair is split between them."""
    pairs, kernel = whole.reshape(-1, 2).copy(), matrix[np.ix_(whole, whole)]
    factor = math.sqrt(2.0 * math.log(2.0 * len(whole) / _FAILURE))
    difference, variance = np.zeros(len(whole)), 0.0  # of the sums of both halves
    for i, (x, y) in enumerate(np.arange(len(whole)).reshape(-1, 2)):
        square = max(kernel[x, x] + kernel[y, y] - 2.0 * kernel[x, y], 0.0)
        threshold = max(math.sqrt(square * variance) * factor, square)
        if threshold == 0.0:
            continue  # the same point twice
        variance += max(square * (1.0 + (square - 2.0 * threshold) * variance / threshold**2), 0.0)
        if rng.random() > 0.5 * (1.0 - (difference[x] - difference[y]) / threshold):
            pairs[i] = pairs[i, ::-1]
            x, y = y, x
        difference += kernel[x] - kernel[y]
    return pairs.T


def _refined(matrix, chosen):
    """The points, each replaced in its turn by the one with which the discrepancy is smallest."""
    chosen, total = chosen.copy(), matrix[chosen].sum(axis=0)
    for i, point in enumerate(chosen):
        total -= matrix[point]
        chosen[i] = np.argmin(2.0 * total + np.diagonal(matrix))
        total += matrix[chosen[i]]
    return chosen
