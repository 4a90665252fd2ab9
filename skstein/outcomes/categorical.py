"""Classes: two by the logistic link, more by softmax."""

import numpy as np

from .base import Canonical, summed, weighted
from .class_outcome import ClassOutcome

_FACTORS = 8  # of which a product overflows only where predictors are 88 on average


class Bernoulli(Canonical, ClassOutcome):
    """Two classes, the second of which has the log-odds ``eta``.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Bernoulli
    >>> np.exp(Bernoulli().log_density((np.log([3.0, 3.0]),), np.array([1, 0])))
    array([0.75, 0.25])
    """

    def cumulant(self, eta):
        """log(1 + exp(eta)), to absolute rounding error and without overflow."""
        if np.max(eta, initial=0.0) > 700.0:
            return np.maximum(eta, 0.0) + np.log(1.0 + np.exp(-np.abs(eta)))
        result = np.exp(eta)
        result += 1.0
        return np.log(result, out=result)

    def cumulant_slope(self, eta):
        return 0.5 + 0.5 * np.tanh(0.5 * eta)

    def cumulant_curvature(self, eta):
        p = self.cumulant_slope(eta)
        return p * (1 - p)

    def terms(self, eta, y, weights, value, score):
        total = residual = None
        with np.errstate(over="ignore"):
            inverse = np.exp(eta[0])  # of the probability of the first class
            inverse += 1.0
            if score:
                residual = 1.0 / inverse
                residual += y - 1.0
                residual = weighted(residual, weights)[None]
            if value:
                if weights is None:  # several factors have one logarithm
                    first = np.arange(0, len(y), _FACTORS)
                    inverse = np.multiply.reduceat(inverse, first, axis=-1)
                total = eta[0] @ weighted(y, weights) - summed(np.log(inverse), weights)
                if not np.isfinite(total).all():
                    total, _ = super().terms(eta, y, weights, True, False)
        return total, residual


class Categorical(ClassOutcome):
    """More classes: softmax of a predictor for each.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes):
        self.n_predictors = int(n_classes)

    def log_density(self, eta, y):
        eta = np.asarray(eta)
        y = np.broadcast_to(y, eta.shape[1:])[None]
        return np.take_along_axis(eta, y, axis=0)[0] - _log_normaliser(eta)

    def residual(self, eta, y):
        return self.terms(eta, y, None, False, True)[1]

    def curvature(self, eta, y):
        eta = np.asarray(eta)
        p = np.exp(eta - _log_normaliser(eta))
        return np.eye(self.n_predictors)[:, :, None] * p - p[:, None] * p

    def terms(self, eta, y, weights, value, score):
        eta = np.asarray(eta)
        top, rows = eta.max(axis=0), np.arange(len(y))
        odds = np.exp(eta - top)
        normaliser = odds.sum(axis=0)
        total = residual = None
        if value:
            observed = eta[y, ..., rows].T
            total = summed(observed - top - np.log(normaliser), weights)
        if score:
            odds /= -normaliser
            odds[y, ..., rows] += 1.0
            residual = weighted(odds, weights)
        return total, residual


def _log_normaliser(eta):
    top = eta.max(axis=0)
    return top + np.log(np.exp(eta - top).sum(axis=0))
