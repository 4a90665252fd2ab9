"""Means over cases."""

from .._input.validation import normalized_weights


def average(values, sample_weight):
    """Weighted mean over the rows of ``values``, and plain mean over any other axis."""
    rows = values.reshape(len(values), -1).mean(axis=1)
    weights = normalized_weights(sample_weight, len(rows), "sample_weight")
    counted = weights > 0.0  # a score may be infinite where the weight is zero
    return float(weights[counted] @ rows[counted])
