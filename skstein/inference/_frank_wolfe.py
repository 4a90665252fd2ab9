"""The two pieces of a Frank-Wolfe step over particles: an oracle, and weights.

The measure ``sum_l w_l delta(x_l)`` is moved towards the target in the space of a kernel. The
oracle ascends the corrected field of Frank-Wolfe Stein Sampling to the next particle. Weights
minimise the distance to the target in the space of the Stein kernel ``k0``, where the target's
embedding is zero, so that the distance is the kernel Stein discrepancy and everything is known:
with the same kernel, the weights of Bayesian quadrature over the particles are the identity.
"""

import numpy as np

from ..kernels import IMQ, Linear
from ..thinning.subsets import simplex_weights
from ._adam import Adam

_PATIENCE = 0.25  # share of the steps without progress that ends an ascent
_PROGRESS = 0.99  # what the field's norm must fall to, for progress
_RIDGE = 0.1  # in units of the mean diagonal, on the matrix that weights are found from


def ascend(field, y, learning_rate, n_steps, noisy=False):
    """Follow ``field`` from ``y`` of shape (1, dim) with Adam steps until it stops falling."""
    adam, least, stale = Adam(learning_rate, n_steps), np.inf, 0
    for _ in range(n_steps):
        direction = field(y)
        y = y + adam.step(direction)
        if noisy:
            continue
        norm = np.linalg.norm(direction)
        progress = norm < _PROGRESS * least
        least, stale = (norm, 0) if progress else (least, stale + 1)
        if stale >= _PATIENCE * n_steps:
            break
    return y


class SteinMeasure:
    """Weighted particles, and their Stein kernel matrix as it grows.

    Parameters
    ----------
    capacity : int
        Most particles.
    points : ndarray of shape (m, dim)
        Where the kernel's scales are taken from.

    Attributes
    ----------
    points, scores : ndarray of shape (size, dim)
    weights : ndarray of shape (size,)
        Equal, unless `search` or `correct` has set them.
    """

    def __init__(self, capacity, points):
        dim = points.shape[1]
        self.kernel = (IMQ() + Linear()).fixed(points)
        self._points, self._scores = np.empty((capacity, dim)), np.empty((capacity, dim))
        self._matrix, self.size = np.empty((capacity, capacity)), 0
        self._weights = None

    @property
    def points(self):
        return self._points[: self.size]

    @property
    def scores(self):
        return self._scores[: self.size]

    @property
    def matrix(self):
        """The Stein kernel between the particles, shape (size, size)."""
        return self._matrix[: self.size, : self.size]

    @property
    def weights(self):
        return (
            np.full(self.size, 1.0 / max(self.size, 1)) if self._weights is None else self._weights
        )

    def put(self, i, y, score):
        """Set particle ``i``, which is new or has moved; a new one has weight only among equals."""
        self._points[i], self._scores[i] = y, score
        if i == self.size:
            self.size += 1
            if self._weights is not None:
                self._weights = np.append(self._weights, 0.0)
        row = self.kernel.stein_matrix(y[None], score[None], self.points, self.scores)[0]
        self._matrix[i, : self.size] = self._matrix[: self.size, i] = row

    def ksd(self):
        """Kernel Stein discrepancy."""
        return float(np.sqrt(max(self.weights @ self.matrix @ self.weights, 0.0)))

    def gaps(self, x, scores):
        """Duality gaps of ``x`` (m, dim): positive for what can lower the discrepancy."""
        cross = self.kernel.stein_matrix(x, scores, self.points, self.scores) @ self.weights
        return self.ksd() ** 2 - cross

    def search(self, i):
        """Step towards particle ``i``, the last one, as far as leaves the least discrepancy."""
        weights = self.weights if self._weights is not None else self._among_earlier()
        row = self.matrix[i]
        squared, cross = weights @ self.matrix @ weights, row @ weights
        step = 1.0
        if weights.any():
            step = np.clip((squared - cross) / (squared - 2.0 * cross + row[i]), 0.0, 1.0)
        self._weights = (1.0 - step) * weights
        self._weights[i] += step

    def _among_earlier(self):
        weights = np.full(self.size, 1.0 / max(self.size - 1, 1))
        weights[-1] = 0.0
        return weights

    def correct(self):
        """The weights on the simplex of the least discrepancy, slightly regularised."""
        ridge = _RIDGE * np.trace(self.matrix) / self.size * np.eye(self.size)
        self._weights = simplex_weights(self.matrix + ridge)
