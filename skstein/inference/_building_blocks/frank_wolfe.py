"""The two pieces of a Frank-Wolfe step over particles: an oracle, and weights.

The measure ``sum_l w_l delta(x_l)`` is moved towards the target in the space of a kernel. The
oracle ascends the corrected field of Frank-Wolfe Stein Sampling to the next particle, for blocks of
coordinates at the same time if it is asked to (algorithm 4). Weights minimise the distance to the
target in the space of the Stein kernel ``k0``, where the target's embedding is zero, so that the
distance is the kernel Stein discrepancy and needs no integral. (Weights of Bayesian quadrature,
eq. 11, over the particles, with the same kernel, would change nothing.)

Equations and algorithms are those of Futami, Cui, Sato & Sugiyama (2018), "Frank-Wolfe Stein
sampling", as corrected in the documentation.
"""

import math
from functools import partial

import numpy as np

from ...kernels import IMQ, Linear, outside
from ...posterior import ParticlePosterior
from ...thinning.subsets import simplex_weights
from .adam import Adam
from .particles import draw_rows
from .stein_matching import match_identities

_PATIENCE = 0.25  # share of the steps without progress that ends an ascent
_PROGRESS = 0.99  # share to which the field's norm must fall, for progress
_RIDGE = 0.1  # in units of the mean diagonal, on the matrix that weights are found from
_ROUND = 5  # steps that a block takes between two looks at the others


class OracleAscent:
    """Adam steps along a field, until it stops falling.

    Parameters
    ----------
    learning_rate : float
        First step; it falls linearly to 0.
    n_steps : int
        Most steps.
    noisy : bool, default=False
        Whether the field is noisy: its norm then says nothing, and all steps are taken.
    """

    def __init__(self, learning_rate, n_steps, noisy=False):
        self._adam = Adam(learning_rate, n_steps)
        self._left, self._patience, self._noisy = n_steps, _PATIENCE * n_steps, noisy
        self._least, self._stale = np.inf, 0

    @property
    def done(self):
        return self._left == 0 or self._stale >= self._patience

    def advance(self, field, y, n_steps):
        """Where at most ``n_steps`` steps lead from ``y``, an array of any shape."""
        for _ in range(n_steps):
            if self.done:
                break
            direction = field(y)
            y = y + self._adam.step(direction)
            self._left -= 1
            norm = math.sqrt(np.vdot(direction, direction))
            progress = self._noisy or norm < _PROGRESS * self._least
            self._least, self._stale = (norm, 0) if progress else (self._least, self._stale + 1)
        return y


class Oracle:
    """The search for the place of one particle, given the others.

    The field is the Stein drift that the others exert (eq. 4, corrected), and the particle's own
    term: the drift that another at its place would exert.

    Parameters
    ----------
    target : Target
    kernel : Kernel
        With numbers for its scales.
    points, scores : ndarray of shape (m, dim)
        All particles; the row ``i`` changes with every step of the search.
    weights : ndarray of shape (m,)
        They sum to 1; that of the particle itself may be 0, which leaves its own term out.
    i : int

    Attributes
    ----------
    start : pair of ndarray of shape (1, dim), default=None
        A point and its score on all rows, which correct minibatches. The mode, about which a
        target corrects them, is some ``sqrt(dim)`` standard deviations from every particle, and
        the particle's own start is near.
    """

    def __init__(self, target, kernel, points, scores, weights, i):
        self._target, self._kernel, self._own = target, kernel, weights[i]
        self._place, self._others = (points[i], scores[i]), (points, scores, weights.copy())
        self._others[2][i] = 0.0
        self._drift = kernel.drift_of(points, scores, weights)
        self.start = None

    def field(self, y, rng=None):
        """The field at ``y`` of shape (1, dim), from a minibatch of ``rng`` if there are any."""
        if self._own:
            self._place[0][:], self._place[1][:] = y[0], self._score(y, rng)[0]
        return self._drift(y)

    def weakest(self, y, scores):
        """Which of ``y`` (n, dim), with their scores, has the weakest field."""
        field = self._own * self._kernel.self_term(y, scores) + self._kernel.drift(y, *self._others)
        return np.argmin(np.einsum("ij,ij->i", field, field))

    def _score(self, y, rng):
        """The particle's own score at ``y`` of shape (1, dim)."""
        rows = draw_rows(self._target, rng)
        if rows is None or self.start is None:
            return self._target.score(y, rows)
        start, known = self.start
        there, before = self._target.score(np.concatenate([y, start]), rows)
        return known + (there - before)

    def search(self, y, learning_rate, n_steps, rng):
        """Where the field leads from ``y`` of shape (1, dim): algorithm 2."""
        ascent = OracleAscent(learning_rate, n_steps, self._target.stochastic)
        return ascent.advance(partial(self.field, rng=rng), y, n_steps)

    def search_blocks(self, y, learning_rate, n_steps, rng, n_blocks, map):
        """The same by blocks of coordinates, each a piece for ``map``: algorithm 4.

        A block takes `_ROUND` steps while the others, and with them their factor of the kernel,
        stand still; then all are put together. Without that the blocks repeat each other's
        correction of the radius, on which the linear kernel's own term depends through ``|y|^2``:
        in a nearly normal posterior the errors of W blocks are multiplied by ``2 (W - 1) / (W +
        2)``, and grow from W = 4 on.
        """
        target, kernel, own = self._target, self._kernel, self._own
        all_points, all_scores, weights = self._others

        def advance(block, points, scores, ascent, rng):
            rest = outside(block, y, all_points)

            def field(part):
                direction = kernel.drift(part, points, scores, weights, rest)
                if own:
                    point = y.copy()
                    point[:, block] = part
                    direction += own * kernel.self_term(point, self._score(point, rng))[:, block]
                return direction

            return ascent.advance(field, y[:, block], _ROUND), ascent, rng

        places = np.array_split(np.arange(y.shape[1]), n_blocks)
        blocks = [slice(own[0], own[-1] + 1) for own in places]
        points = [np.ascontiguousarray(all_points[:, block]) for block in blocks]
        scores = [np.ascontiguousarray(all_scores[:, block]) for block in blocks]
        ascents = tuple(OracleAscent(learning_rate, n_steps, target.stochastic) for _ in blocks)
        rngs = rng.spawn(n_blocks)
        while not all(ascent.done for ascent in ascents):
            moved = map(advance, blocks, points, scores, ascents, rngs)
            parts, ascents, rngs = zip(*moved, strict=True)
            y = np.concatenate(parts, axis=1)
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
        Equal, unless `line_search` or `correct` has set them.
    """

    def __init__(self, capacity, points):
        dim = points.shape[1]
        self.kernel = (IMQ() + Linear()).fixed(points)
        self._points, self._scores = np.zeros((capacity, dim)), np.zeros((capacity, dim))
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
        equal = np.full(self.size, 1.0 / max(self.size, 1))
        return equal if self._weights is None else self._weights

    def oracle(self, target, kernel, i, self_term=True):
        """The `Oracle` for particle ``i``, one of those there or the next."""
        n = max(self.size, i + 1)
        weights = np.zeros(n)
        weights[: self.size] = self.weights
        weights[i] = 0.0
        if not weights.any():
            weights[np.arange(n) != i] = 1.0
        own = 1.0 / n if self_term else 0.0
        weights *= (1.0 - own) / (weights.sum() or 1.0)
        weights[i] = own
        return Oracle(target, kernel, self._points[:n], self._scores[:n], weights, i)

    def posterior(self, **known):
        """The particles so far, as arrays of their own, with what else is known of the run."""
        points, scores = self.points.copy(), self.scores.copy()
        return ParticlePosterior(points, self.weights, scores=scores, **known)

    def put(self, i, y, score):
        """Set particle ``i``, which is new or has moved; a new one has weight only among equals."""
        if i == self.size:
            self.size += 1
            if self._weights is not None:
                self._weights = np.append(self._weights, 0.0)
        self._place(slice(i, i + 1), y[None], score[None])

    def _place(self, some, points, scores):
        """Set the particles of a slice."""
        self._points[some], self._scores[some] = points, scores
        rows = self.kernel.stein_matrix(points, scores, self.points, self.scores)
        if not np.isfinite(rows).all():
            longest = np.linalg.norm(scores, axis=1).max()
            raise FloatingPointError(
                f"the Stein kernel overflows at a particle whose score has length {longest:.1g}; "
                "reduce learning_rate or sample_weight, or scale the features."
            )
        self._matrix[some, : self.size] = rows
        self._matrix[: self.size, some] = rows.T

    def ksd(self):
        """Kernel Stein discrepancy."""
        return float(np.sqrt(max(self.weights @ self.matrix @ self.weights, 0.0)))

    def residual(self):
        """Largest error by Stein's identities: of a mean in standard deviations, or of one."""
        z, scores, weights = self.points, self.scores, self.weights
        spread = weights @ ((z - weights @ z) * scores) + 1.0
        return max(np.abs(weights @ scores).max(), 0.5 * np.abs(spread).max())

    def gaps(self, x, scores):
        """Duality gaps of ``x`` (m, dim), eq. 31: positive for what can lower the discrepancy."""
        cross = self.kernel.stein_matrix(x, scores, self.points, self.scores) @ self.weights
        return self.ksd() ** 2 - cross

    def line_search(self):
        """Step towards the last particle, as far as leaves the least discrepancy."""
        weights, n_earlier = self._weights, self.size - 1
        if weights is None:
            weights = np.append(np.full(n_earlier, 1.0 / max(n_earlier, 1)), 0.0)
        row = self.matrix[-1]
        squared, cross = weights @ self.matrix @ weights, row @ weights
        step = 1.0
        if weights.any():
            # Eq. 10, with the distance from the measure to the new particle below the line.
            distance = squared - 2.0 * cross + row[-1]
            step = np.clip((squared - cross) / distance, 0.0, 1.0) if distance > 0.0 else 0.0
        self._weights = (1.0 - step) * weights
        self._weights[-1] += step

    def correct(self):
        """The weights on the simplex of the least discrepancy, slightly regularised."""
        ridge = _RIDGE * np.trace(self.matrix) / self.size * np.eye(self.size)
        self._weights = simplex_weights(self.matrix + ridge)

    def match(self, target, n_steps, first=0, map=map):
        """Move the particles from the ``first`` on together, until the moments of all are right.

        In coordinates that are not whitened a step has no unit: there nothing moves.
        """
        if not target.whitened:
            return
        # They are views of what `_place` changes.
        points, scores = self.points.copy(), self.scores.copy()
        points, scores = match_identities(target, points, scores, self.weights, n_steps, map, first)
        self._place(slice(first, self.size), points[first:], scores[first:])
