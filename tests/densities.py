"""Densities whose truth is known, and derivatives by differences."""

import numpy as np

from skstein import LogDensity


def gaussian(precision, mean=0.0, **parts):
    """Log density and score of a normal distribution; ``parts`` replace them or are added."""
    precision = np.asarray(precision, dtype=float)
    functions = {
        "log_density": lambda t: -0.5 * np.einsum("ij,jk,ik->i", t - mean, precision, t - mean),
        "score": lambda t: -(t - mean) @ precision,
    }
    return LogDensity(**(functions | parts), dim=len(precision))


def central_differences(function, theta, step=1e-5):
    """Derivative of ``function`` along every coordinate, on a new last axis."""
    moves = step * np.eye(theta.shape[1])
    return np.stack([(function(theta + e) - function(theta - e)) / (2 * step) for e in moves], -1)
