"""Thinning by the kernel Stein discrepancy, of a stream as it passes and of a finished sample.

The squared KSD of n points is ``S / n^2``, where S is the sum of the Stein matrix K over all pairs.
Beside K the dictionary keeps its row sums r, so that what a point contributes to S,
``2 r_i - K_ii``, is at hand: a candidate costs one row of kernel evaluations and one argmax. S is
summed from r when it is asked for, never accumulated: after a point with a huge score has come and
gone, an accumulated S would have lost every digit. Points are stored by coordinate, (d, capacity),
so that the loop over points vectorises.

Base kernels are ``phi(|u - v|^2)`` in coordinates u in which their ellipsoids are spheres. There a
score ``t_k`` stands for ``t_k / sqrt(rates_k)`` in the coordinates of the Stein kernel, which are
the same up to a rotation if all rates are 1.

In a dictionary ``k0`` has a multiple of ``b(u) b(v)`` beside the base kernel's part. The mean of
``b = s.x + d`` over the target is 0 by Stein's identity, and above or below 0 for points that are
spread too little or too much.

Equations are those of Hawkins, Koppel & Zhang (2022), "Online, informative MCMC thinning with
kernelized Stein discrepancy".
"""

import math
from typing import NamedTuple

import numpy as np

from ._compile import REORDERED, compiled, frozen

# Rows of the Stein matrix are computed in pieces that stay in the processor's cache.
_PIECE = 512
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class Kernel(NamedTuple):
    """A base kernel as numbers for compiled thinning: Gaussian or inverse multiquadric, and scales.

    ``spread`` is the factor of ``b(u) b(v)`` in a dictionary.
    """

    gaussian: bool
    scale2: float
    exponent: float
    rates: np.ndarray
    spread: float


class Dictionary(NamedTuple):
    """The points that a thinner keeps, their Stein matrix, and the best candidate of a group.

    ``counts`` holds the number of points, of samples in the current group, of finished groups, of
    points that ever entered, and of replacements since the row sums were last recomputed.
    ``best_numbers`` holds the candidate's objective, k0(x, x) and b(x), ``identities`` the points'
    b(u), ``scratch`` has room for what a row of the Stein matrix needs.
    """

    points: np.ndarray
    scores: np.ndarray
    matrix: np.ndarray
    row_sums: np.ndarray
    identities: np.ndarray
    index: np.ndarray  # type: ignore[assignment]
    counts: np.ndarray
    best_point: np.ndarray
    best_score: np.ndarray
    best_row: np.ndarray
    best_index: np.ndarray
    best_numbers: np.ndarray
    scratch: np.ndarray


SIZE, GROUP, STEPS, ENTERED, REPLACED = range(5)


def empty_dictionary(capacity, dim):
    """Dictionary without points, with room for ``capacity`` of them."""
    return Dictionary(
        points=np.zeros((dim, capacity)),
        scores=np.zeros((dim, capacity)),
        matrix=np.zeros((capacity, capacity)),
        row_sums=np.zeros(capacity),
        identities=np.zeros(capacity),
        index=np.zeros(capacity, dtype=np.int64),
        counts=np.zeros(5, dtype=np.int64),
        best_point=np.zeros(dim),
        best_score=np.zeros(dim),
        best_row=np.zeros(capacity),
        best_index=np.zeros(1, dtype=np.int64),
        best_numbers=np.zeros(3),
        scratch=np.zeros((4, capacity)),
    )


def resized_dictionary(dictionary, capacity):
    """Copy of a thinner's ``dictionary`` with room for ``capacity`` points, or all that it has."""
    copy = empty_dictionary(capacity, len(dictionary.points))
    for new, old in zip(copy, dictionary, strict=True):
        common = tuple(slice(min(sizes)) for sizes in zip(new.shape, old.shape, strict=True))
        new[common] = old[common]
    return copy


def extend(dictionary, x, scores, index, kernel):
    """Put ``x`` (n, d) into the dictionary, which must have room for it; a started group is lost.

    ``index`` (n,) are the points' numbers in the stream.
    """
    steps, capacity = dictionary.counts[STEPS], len(dictionary.row_sums)
    dictionary.counts[GROUP] = 0
    thin_capped(dictionary, x, scores, index, capacity, 1, kernel)  # groups of one
    dictionary.counts[STEPS] = steps


def shrink(dictionary, n_points):
    """Drop the point that contributes most to the KSD, again and again until ``n_points`` remain.

    Changes ``dictionary`` in place.
    """
    _shrink(dictionary, int(n_points))


def thin_capped(dictionary, x, scores, index, n_points, candidates, kernel):
    """Pass ``x`` (n, d) through the dictionary, which never holds more than ``n_points``.

    The dictionary fills up first; then the best of every ``candidates`` samples replaces the point
    that contributes most to the KSD, if it contributes less itself. ``index`` (n,) are the samples'
    numbers in the stream. ``dictionary`` is changed in place and must have room for ``n_points``.
    """
    samples = frozen(x), frozen(scores), index
    _thin_capped(dictionary, *samples, int(n_points), int(candidates), kernel)


def thin_floored(dictionary, x, scores, index, floors, slacks, candidates, kernel):
    """Pass ``x`` (n, d) through the dictionary, which grows with the number of steps.

    At step t the best of ``candidates`` samples enters; then the points that contribute most are
    dropped while at least ``floors[t]`` remain and the squared KSD stays below what it was before
    dropping, plus ``slacks[t]``. ``floors`` and ``slacks`` have an entry for every group that ends
    within ``x``. ``dictionary`` must have room for one more point per group.
    """
    samples, bounds = (frozen(x), frozen(scores), index), (frozen(floors), frozen(slacks))
    _thin_floored(dictionary, *samples, *bounds, int(candidates), kernel)


def greedy(x, scores, n_points, kernel):
    """Compiled search for the samples, (n_points,), that one after the other minimise the KSD."""
    indices = np.empty(n_points, dtype=np.int64)
    _greedy(frozen(x), frozen(scores), kernel, indices)
    return indices


def backward(x, scores, n_points, kernel):
    """Compiled search for samples, (n_points,), that are left when dropping minimises the KSD.

    Memory is linear in the number of samples: rows of the Stein matrix are computed when needed.
    """
    order = np.arange(len(x))
    _backward(frozen(x), frozen(scores), kernel, order, int(n_points))
    return order[:n_points]


def stein_matrix(x, scores, kernel):
    """Compiled Stein kernel of all pairs of ``x`` (n, d), of shape (n, n)."""
    matrix = np.empty((len(x), len(x)))
    _stein_matrix(frozen(x), frozen(scores), kernel, matrix)
    return matrix


def balanced_selection(x, z, knots, slopes, n_points, sweeps):
    """Indices (n_points,) of samples, one of each block of the stream, whose features balance.

    Features are ``z`` (n, r) and, of every coordinate of ``x`` (n, d), the ramps from -1 to 1
    through ``knots`` (k, d) with ``slopes`` (d,). Every sweep replaces each block's sample by the
    one with which the sum of the deviations from the features' means is smallest.
    """
    # A start from none would favour samples near the mean, and one at even steps would take all
    # from one of several chains: the places within the blocks are multiples of the golden ratio.
    starts = np.arange(n_points + 1) * len(x) // n_points
    places = np.arange(n_points) * _GOLDEN % 1.0
    indices = starts[:-1] + (places * np.diff(starts)).astype(np.int64)
    _balanced(*map(frozen, (x, z, knots, slopes)), starts, int(sweeps), indices)
    return indices


@compiled
def _stein_row(x, s, points, scores, kernel, scratch):
    """``scratch[0, i] = k0(x, points[:, i])`` for a radial kernel phi(|x - y|^2).

    ``scratch`` has four rows, which hold intermediate values of at least as many points.
    """
    row, slopes, squares, curvatures = scratch[0], scratch[1], scratch[2], scratch[3]
    gaussian, scale2, exponent, rates, _ = kernel
    dim, n = points.shape
    trace = 0.0
    isotropic = True
    scratch[:3, :n] = 0.0
    for k in range(dim):
        xk = x[k]
        sk = s[k]
        rate = rates[k]
        weight = sk / rate
        trace += rate
        isotropic = isotropic and rate == 1.0
        for i in range(n):
            difference = xk - points[k, i]
            score = scores[k, i]
            squares[i] += difference * difference
            slopes[i] += difference * (score - sk)
            row[i] += weight * score
    if isotropic:
        curvatures = squares
    else:
        curvatures[:n] = 0.0
        for k in range(dim):
            xk = x[k]
            rate = rates[k]
            for i in range(n):
                difference = xk - points[k, i]
                curvatures[i] += rate * difference * difference
    # With D the matrix of the rates,
    # k0 = phi [s.s' + 2 phi'/phi ((x - y).(s' - s) - tr D) - 4 (x - y)'D(x - y) phi''/phi]
    if gaussian:
        first = -0.5 / scale2
        for i in range(n):
            k0 = row[i] + 2.0 * first * (slopes[i] - trace) - 4.0 * curvatures[i] * first * first
            row[i] = k0 * math.exp(first * squares[i])
    else:
        for i in range(n):
            q = 1.0 + squares[i] / scale2
            first = exponent / (scale2 * q)
            second = first * (exponent - 1.0) / (scale2 * q)
            row[i] += 2.0 * first * (slopes[i] - trace) - 4.0 * curvatures[i] * second
            squares[i] = q
        if exponent == -0.5:
            for i in range(n):
                row[i] /= math.sqrt(squares[i])
        else:
            for i in range(n):
                row[i] *= squares[i] ** exponent


@compiled
def _identity(x, s, rates):
    """``s.x + d``."""
    total = float(s.size)
    for k in range(s.size):
        total += s[k] * x[k] / rates[k]
    return total


@compiled
def _stein_diagonal(s, kernel):
    gaussian, scale2, exponent, rates, _ = kernel
    total = 0.0
    trace = 0.0
    for k in range(s.size):
        total += s[k] * s[k] / rates[k]
        trace += rates[k]
    return total + trace / scale2 if gaussian else total - 2.0 * trace * exponent / scale2


@compiled
def _offer(d, x, s, index, candidates, kernel):
    """Let a sample compete for its group; True when the group's best candidate stands ready."""
    n = d.counts[SIZE]
    _stein_row(x, s, d.points[:, :n], d.scores[:, :n], kernel, d.scratch)
    row, total = d.scratch[0], 0.0
    identity = _identity(x, s, kernel.rates)
    for i in range(n):
        row[i] += kernel.spread * identity * d.identities[i]
        total += row[i]
    own = _stein_diagonal(s, kernel) + kernel.spread * identity * identity
    objective = own + 2.0 * total  # eq. 10
    if d.counts[GROUP] == 0 or objective < d.best_numbers[0]:
        d.best_numbers[0], d.best_numbers[1], d.best_numbers[2] = objective, own, identity
        d.best_index[0] = index
        for k in range(x.size):
            d.best_point[k], d.best_score[k] = x[k], s[k]
        for i in range(n):
            d.best_row[i] = row[i]
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
        d.matrix[i, j] = d.matrix[j, i] = d.best_row[i]
    d.matrix[j, j] = d.best_numbers[1]
    d.row_sums[j] = d.matrix[j, :n].sum()
    for k in range(d.best_point.size):
        d.points[k, j], d.scores[k, j] = d.best_point[k], d.best_score[k]
    d.identities[j], d.index[j] = d.best_numbers[2], d.best_index[0]
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
def _worst(d):
    """The point whose contribution to the KSD is largest, the last of several: eq. 9."""
    n = d.counts[SIZE]
    worst = n - 1
    largest = 2.0 * d.row_sums[worst] - d.matrix[worst, worst]
    for i in range(n - 1):
        contribution = 2.0 * d.row_sums[i] - d.matrix[i, i]
        if contribution > largest:
            largest = contribution
            worst = i
    return worst


@compiled
def _drop(d, j):
    """Remove point j; the last point takes its slot."""
    last = d.counts[SIZE] - 1
    for k in range(len(d.points)):
        d.points[k, j], d.scores[k, j] = d.points[k, last], d.scores[k, last]
    for i in range(last, -1, -1):  # the last point's diagonal comes first, and goes on to j
        d.row_sums[i] -= d.matrix[i, j]
        d.matrix[i, j] = d.matrix[j, i] = d.matrix[last, i]
    d.row_sums[j] = d.row_sums[last]
    d.identities[j], d.index[j] = d.identities[last], d.index[last]
    d.best_row[j] = d.best_row[last]
    d.counts[SIZE] = last
    _refresh(d)


@compiled
def _shrink(d, n_points):
    while d.counts[SIZE] > n_points:
        _drop(d, _worst(d))
    # The best candidate of a started group goes on competing, against the smaller dictionary.
    d.best_numbers[0] = d.best_numbers[1] + 2.0 * d.best_row[: d.counts[SIZE]].sum()


@compiled
def _thin_capped(d, x, scores, index, n_points, candidates, kernel):
    for t in range(len(x)):
        if _offer(d, x[t], scores[t], index[t], candidates, kernel):
            if d.counts[SIZE] < n_points:
                _append(d)
            else:
                _replace_worst(d)


@compiled
def _thin_floored(d, x, scores, index, floors, slacks, candidates, kernel):
    step = 0
    for t in range(len(x)):
        if not _offer(d, x[t], scores[t], index[t], candidates, kernel):
            continue
        _append(d)  # eq. 7
        n = d.counts[SIZE]
        # Eq. 8 bounds the squared KSD, eq. 6, while points are dropped: algorithm 2.
        bound = d.row_sums[:n].sum() / (n * n) + slacks[step]
        while n - 1 >= max(1.0, floors[step]):
            worst = _worst(d)
            rest = d.row_sums[:n].sum() - (2.0 * d.row_sums[worst] - d.matrix[worst, worst])
            if not rest < bound * (n - 1) * (n - 1):
                break
            _drop(d, worst)
            n -= 1
        step += 1


@compiled
def _add_row(x, s, points, scores, kernel, scratch, sign, sums):
    """Add ``sign`` times k0 of ``x`` and each of the first points to their ``sums``."""
    for low in range(0, sums.size, _PIECE):
        high = min(low + _PIECE, sums.size)
        _stein_row(x, s, points[:, low:high], scores[:, low:high], kernel, scratch)
        for i in range(low, high):
            sums[i] += sign * scratch[0, i - low]


@compiled
def _greedy(x, scores, kernel, indices):
    n = len(x)
    points, point_scores = x.T.copy(), scores.T.copy()
    scratch = np.empty((4, _PIECE))
    # Half of k0(x, x) plus the sum of k0(x, x_j) over the points chosen so far.
    objective = np.empty(n)
    for i in range(n):
        objective[i] = 0.5 * _stein_diagonal(scores[i], kernel)
    for step in range(indices.size):
        chosen = np.argmin(objective)
        indices[step] = chosen
        x_new, s_new = x[chosen], scores[chosen]
        _add_row(x_new, s_new, points, point_scores, kernel, scratch, 1.0, objective)


@compiled
def _sum_rows(x, scores, points, point_scores, order, n, kernel, scratch, diagonal, row_sums):
    """Row sums of the Stein matrix of the first n points, from one half of it."""
    row = scratch[0]
    for i in range(n):
        row_sums[i] = diagonal[i]
    for low in range(0, n, _PIECE):
        high = min(low + _PIECE, n)
        for i in range(high):
            j = order[i]
            first = max(low, i + 1)
            there = points[:, first:high]
            _stein_row(x[j], scores[j], there, point_scores[:, first:high], kernel, scratch)
            total = 0.0
            for k in range(first, high):
                total += row[k - first]
                row_sums[k] += row[k - first]
            row_sums[i] += total


@compiled
def _backward(x, scores, kernel, order, n_points):
    """Reorder ``order`` so that the first ``n_points`` remain."""
    n = len(x)
    points, point_scores = x.T.copy(), scores.T.copy()
    scratch = np.empty((4, _PIECE))
    diagonal = np.empty(n)
    for i in range(n):
        diagonal[i] = _stein_diagonal(scores[i], kernel)
    sums = np.empty(n)
    trace = math.inf
    while n > n_points:
        # Subtractions lose digits as the sums shrink, at once when an outlier goes. The trace
        # bounds all entries that a sum has ever held.
        if diagonal[:n].sum() < 0.1 * trace:
            trace = diagonal[:n].sum()
            _sum_rows(x, scores, points, point_scores, order, n, kernel, scratch, diagonal, sums)
        worst = np.argmax(2.0 * sums[:n] - diagonal[:n])
        j = order[worst]
        n -= 1
        order[worst], order[n] = order[n], j
        for k in range(len(points)):
            points[k, worst], point_scores[k, worst] = points[k, n], point_scores[k, n]
        diagonal[worst] = diagonal[n]
        sums[worst] = sums[n]
        _add_row(x[j], scores[j], points, point_scores, kernel, scratch, -1.0, sums[:n])


@compiled
def _stein_matrix(x, scores, kernel, matrix):
    n = len(x)
    points, point_scores = x.T.copy(), scores.T.copy()
    scratch = np.empty((4, _PIECE))
    for low in range(0, n, _PIECE):
        high = min(low + _PIECE, n)
        there = points[:, low:high]
        for i in range(n):
            _stein_row(x[i], scores[i], there, point_scores[:, low:high], kernel, scratch)
            for j in range(low, high):
                matrix[i, j] = scratch[0, j - low]


@compiled(fastmath=REORDERED)
def _ramp(value, knot, slope):
    return min(max((value - knot) * slope, -1.0), 1.0)


@compiled(fastmath=REORDERED)
def _add_features(x, z, knots, slopes, means, sign, linear, ramps):
    """Add ``sign`` times a sample's deviations from the means of the ramps; those of z are 0."""
    for k in range(z.size):
        linear[k] += sign * z[k]
    for j in range(len(knots)):
        for k in range(x.size):
            ramps[j, k] += sign * (_ramp(x[k], knots[j, k], slopes[k]) - means[j, k])


@compiled(fastmath=REORDERED)
def _rise(x, z, knots, slopes, means, linear, ramps):
    """By how much a sample raises the squared norm of the sums."""
    total = 0.0
    for k in range(z.size):
        total += z[k] * (2.0 * linear[k] + z[k])
    for j in range(len(knots)):
        for k in range(x.size):
            deviation = _ramp(x[k], knots[j, k], slopes[k]) - means[j, k]
            total += deviation * (2.0 * ramps[j, k] + deviation)
    return total


@compiled
def _balanced(x, z, knots, slopes, starts, sweeps, indices):
    linear, means, ramps = np.zeros(z.shape[1]), np.zeros(knots.shape), np.zeros(knots.shape)
    for i in range(len(x)):
        _add_features(x[i], z[i], knots, slopes, means, 1.0, linear, ramps)
    means = ramps / len(x)
    linear[:] = 0.0
    ramps[:] = 0.0
    for i in indices:
        _add_features(x[i], z[i], knots, slopes, means, 1.0, linear, ramps)
    for _ in range(sweeps):
        moved = False
        for block in range(indices.size):
            old = indices[block]
            _add_features(x[old], z[old], knots, slopes, means, -1.0, linear, ramps)
            best, least = old, math.inf
            for i in range(starts[block], starts[block + 1]):
                rise = _rise(x[i], z[i], knots, slopes, means, linear, ramps)
                if rise < least:
                    best, least = i, rise
            moved = moved or best != old
            indices[block] = best
            _add_features(x[best], z[best], knots, slopes, means, 1.0, linear, ramps)
        if not moved:
            break
