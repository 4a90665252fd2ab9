"""Equally weighted points in place of weighted ones."""

import numpy as np

_FEW = 32  # components, where a rough answer about all of a mixture is enough


def systematic_resampling(weights, n, rng=None):
    """Indices of ``n`` components, each as often as its weight says, to within one.

    Without ``rng`` the choice is not random: the middles of ``n`` equal shares are taken.
    """
    first = 0.5 if rng is None else rng.random()
    total = np.cumsum(weights)
    found = np.searchsorted(total, (np.arange(n) + first) / n * total[-1])
    return np.minimum(found, len(weights) - 1)


def few_resampled(weights):
    """Indices of a few components of a mixture, which stand for all with equal weights."""
    return systematic_resampling(weights, min(len(weights), _FEW))
