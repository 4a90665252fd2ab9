r"""Moment matching: a last move of all particles that makes Stein's identities hold.

For a smooth field :math:`\phi` the posterior satisfies
:math:`E[s \cdot \phi + \nabla \cdot \phi] = 0`, :math:`s` its score. At the fixed point of SVGD
with a kernel of finitely many features these identities hold on the particles for the features, and
nothing else is asked (Liu & Wang 2018): with a linear kernel mean and covariance come out exactly
where the posterior is normal. Here the fixed point is sought alone, for the features that a set of
particles has to get right: 1 and all coordinates, and of each coordinate its own Hermite
polynomials of degree two and three, so that the skewness and tails of every margin are right too.

With standardised coordinates :math:`c` and their score :math:`t` the residuals are

.. math::
   g = E[t], \quad G_{jk} = E[t_j c_k] + \delta_{jk}, \quad
   r_{m,j} = E[t_j h_m(c_j) + m\, h_{m-1}(c_j)], \quad m = 2, 3,

and the displacement

.. math::
   f(c) = g + \tfrac12 \tfrac{G + G'}{2} c + \tfrac16 r_2 h_2(c) + \tfrac1{24} r_3 h_3(c)

is Newton's step where the posterior and the particles are standard normal: there a displacement
:math:`a\, h_m` of a coordinate lowers its residual by :math:`a\, (m + 1)!`. Elsewhere mean and
covariance pull at each other and plain steps may swing; mixing them with the steps before (Anderson
1965) ends that. A particle that a step would carry up a wall of a one-sided coordinate, where its
score would outweigh all others, sits that step out.

References
----------
Liu & Wang (2018), "Stein variational gradient descent as moment matching" (arXiv:1810.11693).

Anderson (1965), "Iterative procedures for nonlinear integral equations".
"""

import numpy as np

from .particles import in_chunks

_LONGEST = 0.5  # displacement of a coordinate in a step before mixing, in standard deviations
_ENOUGH = 0.01  # displacement of a coordinate that is left undone, in standard deviations
_STEEP = 2.0  # growth of a particle's score in one step that a normal posterior does not have


def match_identities(target, points, scores, weights, n_steps, map=map, first=0):
    """Particles moved until Stein's identities of their first moments hold.

    Parameters
    ----------
    target : Target
    points, scores : ndarray of shape (m, dim)
        Particles, and their scores on all rows.
    weights : ndarray of shape (m,)
        Normalised.
    n_steps : int
        Most steps, each one score of every particle that moves.
    map : callable
    first : int, default=0
        The first particle that may move. The identities are those of all: the others move as much
        further as makes up for those that stay.

    Returns
    -------
    points, scores : ndarray of shape (m, dim)
        Of the step after which the residuals are least: those given, if no step lowers them. They
        are returned as well when there are too few particles to carry a covariance, an effective
        number of not more than the coordinates.
    """
    if 1.0 / np.sum(weights**2) <= points.shape[1] or not weights[first:].any():
        return points, scores
    best, least = (points, scores), np.inf
    path, moves, misses = [], [], []
    for step in range(n_steps + 1):
        move, miss = _newton_step(points, scores, weights, first)
        size = np.linalg.norm(miss) / np.sqrt(points.shape[1])
        if size < least:
            best, least = (points, scores), size
        if step == n_steps or not _ENOUGH < size < np.inf:
            break
        path, moves, misses = [*path, points[first:]], [*moves, move], [*misses, miss]
        there = _mixed(path, moves, misses)
        found = in_chunks(map, target.score, there, target.n_rows)
        # The scores of a normal posterior have a length of about the root of the dimension.
        usual = np.maximum(np.linalg.norm(scores[first:], axis=1), np.sqrt(points.shape[1]))
        gentle = first + np.flatnonzero(np.linalg.norm(found, axis=1) <= _STEEP * usual)
        if not len(gentle):
            break
        points, scores = points.copy(), scores.copy()
        points[gentle], scores[gentle] = there[gentle - first], found[gentle - first]
    return best


def matched_particles(target, theta, n_steps, map=map):
    """Particles of equal weight after `match_identities`, where coordinates are whitened.

    Elsewhere a step has no unit, and minibatches would hide the residuals: nothing moves.
    """
    if not n_steps or not target.whitened or target.stochastic:
        return theta
    scores = in_chunks(map, target.score, theta, target.n_rows)
    weights = np.full(len(theta), 1.0 / len(theta))
    return match_identities(target, theta, scores, weights, n_steps, map)[0]


def _newton_step(points, scores, weights, first):
    """The displacement of particles that move, and all residuals in units of what ends them.

    Returns
    -------
    move : ndarray of shape (m - first, dim)
    miss : ndarray of shape (dim * (dim + 3),)
        Its squared length is the mean square of the displacement of normal particles.
    """
    mean = weights @ points
    scale = np.sqrt(weights @ (points - mean) ** 2)
    c, t = (points - mean) / scale, weights[:, None] * scores * scale
    h2, h3 = c**2 - 1.0, c**3 - 3.0 * c
    g, G = t.sum(axis=0), t.T @ c + np.eye(len(mean))
    half = 0.25 * (G + G.T)
    r2 = (t * h2).sum(axis=0) / 6.0
    r3 = ((t * h3).sum(axis=0) + 3.0 * weights @ h2) / 24.0
    move = (g + c @ half + r2 * h2 + r3 * h3)[first:] / weights[first:].sum()
    miss = np.concatenate([g, half.ravel(), np.sqrt(2.0) * r2, np.sqrt(6.0) * r3])
    return scale * np.clip(move, -_LONGEST, _LONGEST), miss


def _mixed(path, moves, misses):
    """Anderson's next point: what the steps so far say together, were residuals linear."""
    point, move, miss = path[-1], moves[-1], misses[-1]
    if len(path) == 1:
        return point + move
    shares = np.linalg.lstsq(np.stack([miss - other for other in misses[:-1]], axis=1), miss)[0]
    there = point + move
    return there - sum(
        share * (there - other - earlier)
        for share, other, earlier in zip(shares, path, moves, strict=False)
    )
