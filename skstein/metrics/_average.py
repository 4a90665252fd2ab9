"""Weights of points and of cases, and means by them."""

import numpy as np


def normalized(weights, n, name):
    """Weights (n,) that sum to 1."""
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    if weights.shape != (n,):
        raise ValueError(f"{name} must have the shape ({n},), got {weights.shape}.")
    if not (np.all(weights >= 0.0) and 0.0 < weights.sum() < np.inf):
        raise ValueError(f"{name} must be finite, non-negative and not all zero.")
    return weights / weights.sum()


def average(values, sample_weight):
    """Weighted mean over the rows of ``values``, and plain mean over any other axis."""
    rows = values.reshape(len(values), -1).mean(axis=1)
    weights = normalized(sample_weight, len(rows), "sample_weight")
    counted = weights > 0.0  # a score may be infinite where the weight is zero
    return float(weights[counted] @ rows[counted])
