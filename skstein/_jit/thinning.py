"""Thinning by the kernel Stein discrepancy, of a stream as it passes and of a finished sample.

The squared KSD of n points is ``S / n^2``, where S is the sum of the Stein matrix K over all pairs.
Beside K the dictionary keeps its row sums r, so that what a point contributes to S,
``2 r_i - K_ii``, is at hand: a candidate costs one row of kernel evaluations and one argmax. S is
summed from r when it is asked for, never accumulated: after a point with a huge score has come and
gone, an accumulated S would have lost every digit. Points are stored by coordinate, (d, capacity),
so that the loop over points vectorises.
"""

import math
from typing import NamedTuple

import numpy as np

from ._compile import compiled, frozen

# The greedy search walks through the samples in pieces that stay in the processor's cache.
_PIECE = 512


class Dictionary(NamedTuple):
    """The points kept and their Stein matrix, and the best candidate of the current group.

    ``counts`` holds the number of points, of samples in the current group, of finished groups, of
    points that ever entered, and of replacements since the row sums were last recomputed.
    ``best_numbers`` holds the candidate's objective and k0(x, x).
    """

    points: np.ndarray
    scores: np.ndarray
    matrix: np.ndarray
    row_sums: np.ndarray
    index: np.ndarray
    counts: np.ndarray
    best_point: np.ndarray
    best_score: np.ndarray
    best_row: np.ndarray
    best_index: np.ndarray
    best_numbers: np.ndarray
    row: np.ndarray
    slopes: np.ndarray
    squares: np.ndarray


SIZE, GROUP, STEPS, ENTERED, REPLACED = range(5)


def empty_dictionary(capacity, dim):
    """Dictionary without points, with room for ``capacity`` of them."""
    return Dictionary(
        points=np.zeros((dim, capacity)),
        scores=np.zeros((dim, capacity)),
        matrix=np.zeros((capacity, capacity)),
        row_sums=np.zeros(capacity),
        index=np.zeros(capacity, dtype=np.int64),
        counts=np.zeros(5, dtype=np.int64),
        best_point=np.zeros(dim),
        best_score=np.zeros(dim),
        best_row=np.zeros(capacity),
        best_index=np.zeros(1, dtype=np.int64),
        best_numbers=np.zeros(2),
        row=np.zeros(capacity),
        slopes=np.zeros(capacity),
        squares=np.zeros(capacity),
    )


def enlarged(dictionary, capacity):
    """Copy of ``dictionary`` with room for ``capacity`` points."""
    larger = empty_dictionary(capacity, len(dictionary.points))
    for new, old in zip(larger, dictionary, strict=True):
        new[tuple(slice(n) for n in old.shape)] = old
    return larger


def thin_capped(dictionary, x, scores, index, n_points, candidates, kernel):
    """Pass ``x`` (n, d) through the dictionary, which never holds more than ``n_points``.

    The dictionary fills up first; then the best of every ``candidates`` samples replaces the point
    that contributes most to the KSD, if it contributes less itself. ``kernel`` is (gaussian,
    squared scale, exponent); ``index`` (n,) are the samples' numbers in the stream. ``dictionary``
    is changed in place and must have room for ``n_points``.
    """
    gaussian, scale2, exponent = kernel
    _thin_capped(
        dictionary,
        frozen(x),
        frozen(scores),
        index,
        int(n_points),
        int(candidates),
        bool(gaussian),
        float(scale2),
        float(exponent),
    )


def thin_floored(dictionary, x, scores, index, floors, slacks, candidates, kernel):
    """Pass ``x`` (n, d) through the dictionary, which grows with the number of steps.

    At step t the best of ``candidates`` samples enters; then the points that contribute most are
    dropped while at least ``floors[t]`` remain and the squared KSD stays below what it was before
    dropping, plus ``slacks[t]``. ``floors`` and ``slacks`` have an entry for every group that ends
    within ``x``. ``dictionary`` must have room for one more point per group.
    """
    gaussian, scale2, exponent = kernel
    _thin_floored(
        dictionary,
        frozen(x),
        frozen(scores),
        index,
        frozen(floors),
        frozen(slacks),
        int(candidates),
        bool(gaussian),
        float(scale2),
        float(exponent),
    )


def greedy(x, scores, n_points, kernel):
    """Indices (n_points,) of the samples that one after the other minimise the KSD."""
    gaussian, scale2, exponent = kernel
    indices = np.empty(n_points, dtype=np.int64)
    _greedy(frozen(x), frozen(scores), bool(gaussian), float(scale2), float(exponent), indices)
    return indices


@compiled
def _stein_row(x, s, points, scores, gaussian, scale2, exponent, row, slopes, squares):
    """``row[i] = k0(x, points[:, i])`` for a radial kernel phi(|x - y|^2)."""
    dim, n = points.shape
    for i in range(n):
        row[i] = 0.0
        slopes[i] = 0.0
        squares[i] = 0.0
    for k in range(dim):
        xk = x[k]
        sk = s[k]
        for i in range(n):
            difference = xk - points[k, i]
            score = scores[k, i]
            squares[i] += difference * difference
            slopes[i] += difference * (score - sk)
            row[i] += sk * score
    # k0 = phi [s.s' + 2 phi'/phi ((x - y).(s' - s) - d) - 4 |x - y|^2 phi''/phi]
    if gaussian:
        first = -0.5 / scale2
        for i in range(n):
            curvature = 4.0 * squares[i] * first * first
            k0 = row[i] + 2.0 * first * (slopes[i] - dim) - curvature
            row[i] = k0 * math.exp(first * squares[i])
    else:
        for i in range(n):
            q = 1.0 + squares[i] / scale2
            first = exponent / (scale2 * q)
            curvature = 4.0 * squares[i] * first * (exponent - 1.0) / (scale2 * q)
            row[i] += 2.0 * first * (slopes[i] - dim) - curvature
            squares[i] = q
        if exponent == -0.5:
            for i in range(n):
                row[i] /= math.sqrt(squares[i])
        else:
            for i in range(n):
                row[i] *= squares[i] ** exponent


@compiled
def _stein_diagonal(s, gaussian, scale2, exponent):
    total = 0.0
    for k in range(s.size):
        total += s[k] * s[k]
    return total + s.size / scale2 if gaussian else total - 2.0 * s.size * exponent / scale2


@compiled
def _offer(d, x, s, index, candidates, gaussian, scale2, exponent):
    """Let a sample compete for its group; True when the group's best candidate stands ready."""
    n = d.counts[SIZE]
    row = d.row[:n]
    _stein_row(
        x,
        s,
        d.points[:, :n],
        d.scores[:, :n],
        gaussian,
        scale2,
        exponent,
        row,
        d.slopes,
        d.squares,
    )
    own = _stein_diagonal(s, gaussian, scale2, exponent)
    objective = own + 2.0 * row.sum()
    if d.counts[GROUP] == 0 or objective < d.best_numbers[0]:
        d.best_numbers[0] = objective
        d.best_numbers[1] = own
        d.best_index[0] = index
        d.best_point[:] = x
        d.best_score[:] = s
        d.best_row[:n] = row
    d.counts[GROUP] += 1
    if d.counts[GROUP] < candidates:
        return False
    d.counts[GROUP] = 0
    d.counts[STEPS] += 1
    return True


@compiled
def _place(d, j):
    """Write the candidate into slot j; the other points' row sums are the caller's."""
    n = d.counts[SIZE]
    for i in range(n):
        d.matrix[i, j] = d.best_row[i]
        d.matrix[j, i] = d.best_row[i]
    d.matrix[j, j] = d.best_numbers[1]
    d.row_sums[j] = d.matrix[j, :n].sum()
    d.points[:, j] = d.best_point
    d.scores[:, j] = d.best_score
    d.index[j] = d.best_index[0]
    d.counts[ENTERED] += 1


@compiled
def _append(d):
    n = d.counts[SIZE]
    for i in range(n):
        d.row_sums[i] += d.best_row[i]
    d.counts[SIZE] = n + 1
    _place(d, n)


@compiled
def _refresh(d):
    """Recompute the row sums once in n replacements: O(n) work for each, and no drift."""
    n = d.counts[SIZE]
    d.counts[REPLACED] += 1
    if d.counts[REPLACED] >= n:
        d.counts[REPLACED] = 0
        for i in range(n):
            d.row_sums[i] = d.matrix[i, :n].sum()


@compiled
def _replace_worst(d):
    """Try before replacing: of dictionary and candidate, leave out what contributes most."""
    n = d.counts[SIZE]
    worst = n  # the candidate; a literal here would compile what `worst` is passed to twice
    largest = d.best_numbers[0]
    for i in range(n):
        contribution = 2.0 * (d.row_sums[i] + d.best_row[i]) - d.matrix[i, i]
        if contribution > largest:
            largest = contribution
            worst = i
    if worst == n:
        return
    for i in range(n):
        d.row_sums[i] += d.best_row[i] - d.matrix[i, worst]
    _place(d, worst)
    _refresh(d)


@compiled
def _drop(d, j):
    """Remove point j; the last point takes its slot."""
    last = d.counts[SIZE] - 1
    for i in range(last + 1):
        d.row_sums[i] -= d.matrix[i, j]
    d.row_sums[j] = d.row_sums[last]
    d.index[j] = d.index[last]
    d.points[:, j] = d.points[:, last]
    d.scores[:, j] = d.scores[:, last]
    d.matrix[j, : last + 1] = d.matrix[last, : last + 1]
    d.matrix[: last + 1, j] = d.matrix[: last + 1, last]
    d.counts[SIZE] = last
    _refresh(d)


@compiled
def _thin_capped(d, x, scores, index, n_points, candidates, gaussian, scale2, exponent):
    for t in range(len(x)):
        if _offer(d, x[t], scores[t], index[t], candidates, gaussian, scale2, exponent):
            if d.counts[SIZE] < n_points:
                _append(d)
            else:
                _replace_worst(d)


@compiled
def _thin_floored(d, x, scores, index, floors, slacks, candidates, gaussian, scale2, exponent):
    step = 0
    for t in range(len(x)):
        if not _offer(d, x[t], scores[t], index[t], candidates, gaussian, scale2, exponent):
            continue
        _append(d)
        n = d.counts[SIZE]
        bound = d.row_sums[:n].sum() / (n * n) + slacks[step]
        while n - 1 >= max(1.0, floors[step]):
            worst = n - 1
            largest = 2.0 * d.row_sums[worst] - d.matrix[worst, worst]
            for i in range(n - 1):
                contribution = 2.0 * d.row_sums[i] - d.matrix[i, i]
                if contribution > largest:
                    largest = contribution
                    worst = i
            rest = d.row_sums[:n].sum() - largest
            if not rest < bound * (n - 1) * (n - 1):
                break
            _drop(d, worst)
            n -= 1
        step += 1


@compiled
def _greedy(x, scores, gaussian, scale2, exponent, indices):
    n, dim = x.shape
    points = np.empty((dim, n))
    point_scores = np.empty((dim, n))
    # Half of k0(x, x) plus the sum of k0(x, x_j) over the points chosen so far.
    objective = np.empty(n)
    for i in range(n):
        points[:, i] = x[i]
        point_scores[:, i] = scores[i]
        objective[i] = 0.5 * _stein_diagonal(scores[i], gaussian, scale2, exponent)
    row = np.empty(_PIECE)
    slopes = np.empty(_PIECE)
    squares = np.empty(_PIECE)
    for step in range(indices.size):
        chosen = np.argmin(objective)
        indices[step] = chosen
        for low in range(0, n, _PIECE):
            high = min(low + _PIECE, n)
            _stein_row(
                x[chosen],
                scores[chosen],
                points[:, low:high],
                point_scores[:, low:high],
                gaussian,
                scale2,
                exponent,
                row,
                slopes,
                squares,
            )
            for i in range(low, high):
                objective[i] += row[i - low]
