"""One-sided coordinates: found by a line scan, straightened by a monotone map.

A rare category seen with one class only has a coefficient whose posterior is nearly half-normal: a
steep wall on one side, the prior's tail on the other. Linear whitening cannot help there (it raises
the largest curvature). Each wall gets an axis of its own and a hyperbolic map learnt from the log
density along a line; the other axes run along the wall. In the new coordinates the posterior is
close to normal and every engine works unchanged.
"""

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicSpline
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.stats import norm

from .bijections import Affine, Composition, HyperbolicMap
from .laplace_at_mode import gaussian_bijection, laplace_approximation
from .transformed import Transformed

SHIFT = 0.5  # a coordinate is one-sided when its line density's mean is this many sds off the mode
_SCAN = np.sinh(np.linspace(-np.arcsinh(5.0), np.arcsinh(5.0), 25))
_PEEK = np.array([-2.0, 2.0])
_DROP = 12.0
_STEEPEST = 0.985
_SIDE = np.array([0.15, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0])
_FALL = 3.0  # of the log density, where a wall is looked at
_OWN = 0.2  # how much of the push of a wall other walls must leave
_WORST = 4.0  # condition of the walls' pushes on each other's lines, up to which they turn axes


def _line_values(target, origins, directions, steps):
    """Log density at ``origins + steps * directions``, shape (lines, steps)."""
    lines, count = len(directions), steps.shape[-1]
    points = origins + steps[..., None] * directions[:, None, :]
    value = target.log_density(points.reshape(lines * count, -1)).reshape(lines, count)
    return np.where(np.isfinite(value), value, -np.inf)


def _lines(laplace, selected=slice(None)):
    """Directions (lines, dim) of a line through the mode for each coordinate, and the covariance.

    Along its column of the covariance lies the regression of all coordinates on that one.
    """
    covariance = cho_solve(cho_factor(laplace.hessian), np.eye(len(laplace.mode)))
    return covariance[selected] / np.sqrt(covariance.diagonal()[selected])[:, None], covariance


def line_shifts(target, laplace):
    """How far to one side the density along each coordinate's line leans, in standard deviations.

    Lines whose two sides fall alike at two standard deviations are not scanned further: their shift
    is reported as 0.

    Parameters
    ----------
    target : Target
    laplace : LaplaceApproximation

    Returns
    -------
    ndarray of shape (dim,)
    """
    directions, _ = _lines(laplace)
    peek = _line_values(target, laplace.mode, directions, np.tile(_PEEK, (target.dim, 1)))
    # A Gaussian falls by 2 on both sides; a shift of .1 goes with a difference above a half.
    suspects = np.flatnonzero(~(np.abs(peek[:, 1] - peek[:, 0]) < 0.5))
    shifts = np.zeros(target.dim)
    if len(suspects):
        steps = np.tile(_SCAN, (len(suspects), 1))
        value = _line_values(target, laplace.mode, directions[suspects], steps)
        density = np.exp(value - value.max(axis=1, keepdims=True)) * np.gradient(_SCAN)
        shifts[suspects] = density @ _SCAN / density.sum(axis=1)
    return shifts


def _line_quantiles(target, origin, direction, scale, u):
    """Quantiles at ``norm.cdf(u)`` of the density along ``origin + t * direction``."""
    reach = scale * 2.0 ** np.arange(-3, 14)
    steps = np.concatenate([-reach[::-1], [0.0], reach])
    value = _line_values(target, origin, direction[None], steps[None])[0]
    inside = np.flatnonzero(value >= value.max() - _DROP)
    low, high = steps[max(inside[0] - 1, 0)], steps[min(inside[-1] + 1, len(steps) - 1)]
    grid = np.linspace(np.arcsinh(low / scale), np.arcsinh(high / scale), 61)
    value = _line_values(target, origin, direction[None], scale * np.sinh(grid)[None])[0]
    # Beyond a wall the density may underflow; a spline needs finite knots.
    value = np.maximum(value - value.max(), -60.0)
    fine = np.linspace(grid[0], grid[-1], 4001)
    density = np.exp(CubicSpline(grid, value)(fine)) * np.cosh(fine)
    cumulative = cumulative_trapezoid(density, fine, initial=0.0)
    cumulative = (cumulative + 1e-14 * np.arange(len(fine))) / (cumulative[-1] + 1e-14 * len(fine))
    return scale * np.sinh(np.interp(norm.cdf(u), cumulative, fine))


def _fit_hyperbola(u, quantiles):
    """(xi, a, b, c, u0) of the least squares fit of T(u) to the quantiles, |b| < a."""
    weights = np.sqrt(norm.pdf(u) + 0.02)[:, None]
    grid = np.meshgrid(np.geomspace(0.05, 4.0, 16), np.linspace(-3.0, 3.0, 25), indexing="ij")
    c, u0 = (axis.ravel() for axis in grid)
    h = np.hypot(c[:, None], u - u0[:, None])
    one, u = np.ones_like(h), np.broadcast_to(u, h.shape)
    wanted = weights[:, 0] * quantiles

    def solved(*basis):
        q, r = np.linalg.qr(weights * np.stack(basis, axis=2))
        return np.linalg.solve(r, (wanted @ q)[..., None])

    xi, a, b = solved(one, u, h).swapaxes(0, 1)
    steep = (a <= 0) | (np.abs(b) > _STEEPEST * a)
    ratio = _STEEPEST * np.sign(b)
    narrow_xi, narrow_a = solved(one, u + ratio * h).swapaxes(0, 1)
    xi, a = np.where(steep, narrow_xi, xi), np.where(steep, narrow_a, a)
    b = np.where(steep, ratio * a, b)
    error = np.sum((weights[:, 0] * (xi + a * u + b * h - quantiles)) ** 2, axis=1)
    best = np.argmin(np.where(a[:, 0] > 0, error, np.inf))
    return xi[best, 0], a[best, 0], b[best, 0], c[best], u0[best]


def _pushes(target, laplace, directions, ends):
    """What the score has beyond that of the Gaussian, at ``mode + ends * directions``, by line."""
    steps = ends[:, None] * directions
    return np.nan_to_num(target.score(laplace.mode + steps) + steps @ laplace.hessian)


def _distinct(target, laplace, selected):
    """Those of the ``selected`` coordinates whose lines run into walls of their own.

    A wall is known by where it pushes. The coefficients of all classes in a category that one class
    never has run into one wall, which moves with them: bent along each of them, it would keep
    particles from where all of them are large. The first that runs into a wall is kept.
    """
    directions, covariance = _lines(laplace, selected)
    peek = _line_values(target, laplace.mode, directions, np.tile(_PEEK, (len(selected), 1)))
    sides = np.where(peek[:, 1] < peek[:, 0], 1.0, -1.0)[:, None] * _SIDE
    value = _line_values(target, laplace.mode, directions, sides)
    at_wall = np.argmin(np.abs(value - value.max(axis=1, keepdims=True) + _FALL), axis=1)
    ends = np.take_along_axis(sides, at_wall[:, None], axis=1)[:, 0]
    pushes = _pushes(target, laplace, directions, ends) @ np.linalg.cholesky(covariance)
    kept, basis = [], np.empty((0, target.dim))
    for j, push in zip(selected, pushes, strict=True):
        own = push - (basis @ push) @ basis
        if (size := np.linalg.norm(own)) > _OWN * np.linalg.norm(push):
            kept.append(j)
            basis = np.vstack([basis, own / size])
    return np.sort(np.array(kept, dtype=np.intp))


def _turn_along_walls(matrix, walls, pushes):
    """Mix the columns of ``matrix`` until walls are met along their own of the columns alone.

    ``walls`` are these columns, those that matter most first; ``pushes`` are along all columns.
    Walls that are hardly told apart from those before stay as they are.
    """
    pushes = pushes / np.abs(pushes[np.arange(len(walls)), walls])[:, None]
    told: list[int] = []
    for k in range(len(walls)):
        if np.linalg.cond(pushes[np.ix_([*told, k], walls[[*told, k]])]) < _WORST:
            told.append(k)
    walls, pushes = walls[told], pushes[told]
    others, own = np.setdiff1d(np.arange(len(matrix)), walls), pushes[:, walls]
    matrix[:, others] -= matrix[:, walls] @ np.linalg.solve(own, pushes[:, others])
    matrix[:, walls] = matrix[:, walls] @ np.linalg.solve(own, np.diag(own.diagonal()))


def one_sided_bijection(target, laplace, selected, surrogate, turned):
    r"""Coordinates in which the ``selected`` one-sided coordinates are close to normal.

    With the Gaussian's regression B of the rest on them, its root L given them, and the monotone T,

    .. math::
        \theta_S = v_S + C L u_R, \qquad
        \theta_R = \mu_R + B (v_S - \mu_S) + L u_R, \qquad v_S = T(u_S),

    but for a mixture of several :math:`v_S`. Along the columns of C and I together a wall is
    nowhere steep, so that it is met by its own coordinate alone, wherever the others are.

    Parameters
    ----------
    target : Target
    laplace : LaplaceApproximation
    selected : ndarray of int
        The one-sided coordinates, in the order in which they matter.
    surrogate : Target
        What the Laplace approximation is of.
    turned : bool
        Whether the other axes are turned along the walls; otherwise C is 0.

    Returns
    -------
    bijection
        From coordinates in which the Laplace approximation is standard normal.
    """
    selected = _distinct(target, laplace, selected)
    if not len(selected):
        raise LinAlgError("the density ends or jumps where its score does not say so.")
    rest = np.setdiff1d(np.arange(target.dim), selected)
    hessian, mode = laplace.hessian, laplace.mode
    of_rest = hessian[np.ix_(rest, rest)]
    conditional = gaussian_bijection(mode[rest], of_rest).matrix
    if not isinstance(conditional, np.ndarray):
        conditional = conditional.toarray()
    regression = -cho_solve(cho_factor(of_rest), hessian[np.ix_(rest, selected)])
    schur = hessian[np.ix_(selected, selected)] + hessian[np.ix_(selected, rest)] @ regression
    if not (schur.diagonal() > 0.0).all():
        raise LinAlgError("the Hessian at the mode is singular to rounding.")
    u, scale = np.linspace(-3.2, 3.2, 65), 1 / np.sqrt(schur.diagonal())
    directions = np.zeros((len(selected), target.dim))
    directions[:, selected], directions[:, rest] = np.eye(len(selected)), regression.T
    lines = list(zip(directions, scale, strict=True))
    quantiles = np.array([_line_quantiles(target, mode, *line, u) for line in lines])
    fits = [_fit_hyperbola(u, mode[j] + q) for j, q in zip(selected, quantiles, strict=True)]
    bend = HyperbolicMap(selected, *np.array(fits).T)
    matrix = np.zeros((target.dim, target.dim))
    matrix[:, selected] = directions.T
    matrix[np.ix_(rest, rest)] = conditional
    if turned:
        pushes = _pushes(target, laplace, directions, bend.wall_ends() - mode[selected]) @ matrix
        order = np.argsort(-np.abs(quantiles @ norm.pdf(u)) / scale)
        _turn_along_walls(matrix, selected[order], pushes[order])
    centre = np.zeros(target.dim)
    centre[selected] = mode[selected]
    affine = Affine(mode - matrix @ centre, matrix, np.linalg.inv(matrix))
    straight = Transformed(surrogate, Composition(affine, bend))
    redone = laplace_approximation(straight, np.zeros(target.dim))
    return Composition(affine, Composition(bend, redone.bijection))
