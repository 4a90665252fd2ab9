"""The mode of a target by Newton's method, and the Gaussian there."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from .base import supports
from .bijections import Affine
from .mean_field_factors import within_factors

# Above this many coordinates whitening is diagonal; differencing a Hessian stops being cheap
# sooner.
DIAGONAL_ABOVE = 2000
DIFFERENCES_UP_TO = 500
_ROWS_PER_COORDINATE = 1000  # from which on the search starts at the mode of a tenth of the rows
# Of the surrogate: until second moments change by a smaller share.
_MOST_ROUNDS, _SETTLED = 200, 1e-10
# A direction is narrowed if the density has fallen within this share of its Gaussian; where that
# ends is found by bisection, this many halvings away at most.
_FAR_TOO_WIDE, _MOST_HALVINGS, _N_BISECTIONS = 0.1, 256, 16
_WIDEST_STEP = 0.01  # of differences, in standard deviations
_KEPT = 1e-3  # of the squared distance to the mode, that a step with an old Hessian must leave


@dataclass
class LaplaceApproximation:
    """A Gaussian at the mode.

    Attributes
    ----------
    mode : ndarray of shape (dim,)
    hessian : ndarray of shape (dim, dim), or (dim,) above 2000 coordinates
        Of the negative log density, at the mode.
    bijection : Affine, or Within with an Affine of some coordinates
        From standard normal coordinates. It keeps the target's factors apart: then these are the
        coordinates of the Gaussian's mean field.
    n_iter : int
        Hessians that the search took, each for one step or several.
    converged : bool
    """

    mode: np.ndarray
    hessian: np.ndarray
    bijection: Any
    n_iter: int
    converged: bool

    def variances(self):
        """Of each coordinate, shape (dim,)."""
        matrix = self.bijection.matrix
        return np.asarray((matrix * matrix).sum(axis=1)).ravel()


def hessian_of(target, theta, widest=np.inf):
    """Negative Hessian at ``theta`` (dim,): the target's own, or differenced from its score.

    Shape (dim, dim), but (dim,) above 2000 coordinates, its diagonal. Differences take
    ``2 dim`` scores, again where their steps, ``widest`` at most, turn out to be wide beside the
    density; above 500 coordinates they are taken of the diagonal alone.
    """
    dim = len(theta)
    known = "hessian" if dim <= DIAGONAL_ABOVE else "hessian_diagonal"
    if supports(target, known):
        return getattr(target, known)(theta)
    step = np.minimum(np.finfo(float).eps ** (1 / 3) * np.maximum(1.0, np.abs(theta)), widest)
    if dim > DIFFERENCES_UP_TO:
        diagonal = np.empty(dim)
        for j in range(dim):
            points = np.repeat(theta[None], 2, axis=0)
            points[:, j] += [step[j], -step[j]]
            upper, lower = target.score(points)
            diagonal[j] = (lower[j] - upper[j]) / (2 * step[j])
        hessian = diagonal if dim > DIAGONAL_ABOVE else np.diag(diagonal)
    else:
        points = theta + np.concatenate([np.diag(step), -np.diag(step)])
        scores = target.score(points)
        hessian = (scores[dim:] - scores[:dim]) / (2 * step[:, None])
        hessian = 0.5 * (hessian + hessian.T)
    curvature = np.abs(hessian.diagonal() if hessian.ndim == 2 else hessian)
    within = _WIDEST_STEP / np.sqrt(np.maximum(curvature, 1e-300))
    if (step > within).any() and np.isfinite(curvature).all():
        return hessian_of(target, theta, np.minimum(step, 0.5 * within))
    return hessian


def _positive_factor(hessian):
    """Cholesky factor of ``hessian``, its diagonal raised until it is positive definite."""
    if not np.isfinite(hessian).all():
        raise FloatingPointError(
            "the Hessian of the log density is not finite where the search for the mode went; "
            "scale the features, or check the function there."
        )
    scale = np.abs(hessian.diagonal())
    scale = np.where(scale > 0, scale, scale.max() if scale.any() else 1.0)
    damping = 0.0
    while True:
        raised = hessian + np.diag(damping * scale)
        if damping > 1e12 or not np.isfinite(raised).all():
            raise LinAlgError("no multiple of its diagonal makes the Hessian positive definite.")
        try:
            return cho_factor(raised, lower=True), damping
        except LinAlgError:
            damping = max(1e-3, 4 * damping)


def _scale_tril(hessian):
    """Lower triangular L with L L' the inverse of ``hessian``."""
    # chol of the reversed matrix, reversed, gives the factor that inverts to a lower triangle.
    upper = cholesky(hessian[::-1, ::-1], lower=True)[::-1, ::-1]
    return np.ascontiguousarray(solve_triangular(upper, np.eye(len(hessian)), lower=False).T)


# The search may look where a density overflows; it steps back from there.
@np.errstate(over="ignore", invalid="ignore")
def laplace_approximation(target, start=None, tol=1e-16, max_iter=100):
    """Find the mode by damped Newton steps and factor the Hessian there.

    Parameters
    ----------
    target : Target
        With a score; a Hessian is differenced when it has none.
    start : ndarray of shape (dim,), default=None
        By default the target's ``initial``, or where that is 0 and rows are many, the mode of every
        tenth row.
    tol : float, default=1e-16
        Stop when ``g' H^-1 g``, the squared distance to the mode in posterior standard deviations,
        is below it. Being relative it means the same for ten rows and for a million.
    max_iter : int, default=100

    Returns
    -------
    LaplaceApproximation

    Raises
    ------
    FloatingPointError
        If the log density or its score is not finite where the search starts.
    numpy.linalg.LinAlgError
        If the Hessian at the mode is not positive definite.
    """
    theta = np.array(_first_guess(target) if start is None else start, dtype=float)
    value, score = (part[0] for part in target.log_density_and_score(theta[None]))
    if not (np.isfinite(value) and np.isfinite(score).all()):
        raise FloatingPointError(
            "the log density or its score is not finite at the starting point of the search for "
            "the mode; give another starting point, or check the data for extreme values."
        )
    if len(theta) > DIAGONAL_ABOVE:
        return _wide_approximation(target, theta)
    n_iter, converged, fresh, factor, before = 0, False, False, None, 0.0
    while n_iter < max_iter:
        # Near the mode the Hessian hardly changes, and costs several scores.
        step = None if factor is None else cho_solve(factor, score)
        if step is None or not 0.0 <= score @ step < _KEPT * before:
            n_iter, hessian, fresh = n_iter + 1, hessian_of(target, theta), True
            factor, damping = _positive_factor(hessian)
            step = cho_solve(factor, score)
        decrement = score @ step
        if decrement < tol and not damping:
            converged = True
            break
        before = 0.0 if damping else decrement
        found = _uphill(target, theta, step, value, decrement)
        if found is None:
            break
        fresh = np.array_equal(found[0], theta)
        theta, value, score = found
        if fresh:  # the step is lost to rounding
            break
    if not fresh:
        hessian = hessian_of(target, theta)
    if not converged:
        converged = bool(score @ cho_solve(_positive_factor(hessian)[0], score) < 1e-8)
    if target.modes_unknown and len(theta) <= DIFFERENCES_UP_TO:
        hessian = _narrowed(target, theta, hessian)
    factors = getattr(target, "factors", ())
    kept = within_factors(hessian, factors) if len(factors) > 1 else hessian
    return LaplaceApproximation(theta, hessian, gaussian_bijection(theta, kept), n_iter, converged)


def _narrowed(target, mode, hessian):
    """``hessian``, raised in directions in which its Gaussian is far too wide.

    At a flat top, as that of exp(-x^4), a Hessian is almost 0. There the Gaussian is made as wide
    as the density: its two standard deviations end where the log density has fallen by 2. Scores
    at both ends tell along which plane. Directions in which the density rises stay.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.abs(hessian.diagonal()), 1e-64))
    axes = np.diag(2.0 * scale)
    wide = _fallen(target, mode, _FAR_TOO_WIDE * axes)
    scale[wide] *= _shares(target, mode, axes[wide])
    for _ in mode:
        value, vector = np.linalg.eigh(scale[:, None] * hessian * scale)
        size = np.sqrt(np.maximum(value, np.finfo(float).eps ** 2))
        directions = (2.0 * scale[:, None] * vector / size).T[value > -1e-8]
        wide = np.flatnonzero(_fallen(target, mode, _FAR_TOO_WIDE * directions))[:1]
        if not len(wide):
            break
        end = (_shares(target, mode, directions[wide])[:, None] * directions[wide])[0]
        change = np.subtract(*target.score(mode + np.stack([-end, end])))
        if not 0.0 < change @ end < np.inf:
            break
        hessian = hessian + np.outer(change, change) * (2.0 / (change @ end)) ** 2
    return hessian


def _fallen(target, mode, steps):
    """Whether the log density is lower by 2 on both sides, ``steps`` (n, dim) from the mode."""
    top, *sides = target.log_density(np.concatenate([mode[None], mode + steps, mode - steps]))
    # Very far out it may have no value.
    return ~(top - np.max(np.reshape(sides, (2, -1)), axis=0) <= 2.0)


def _shares(target, mode, directions):
    """At which share of each of ``directions`` (n, dim) the log density has fallen."""
    high = np.full(len(directions), np.log2(_FAR_TOO_WIDE))
    low = high - _MOST_HALVINGS
    for _ in range(_N_BISECTIONS * bool(len(directions))):
        middle = 0.5 * (low + high)
        fallen = _fallen(target, mode, 2.0 ** middle[:, None] * directions)
        low, high = np.where(fallen, low, middle), np.where(fallen, middle, high)
    return 2.0**high


def _uphill(target, theta, step, value, decrement):
    """The first point of the step, or of its halves, that is high enough; its value and score.

    None where none is.
    """
    # Within rounding of the mode the value no longer tells a good step from a bad one.
    slack, size = 1e-9 + 1e-12 * abs(value), 1.0
    while size > 1e-10:
        candidate = theta + size * step
        there, score = (part[0] for part in target.log_density_and_score(candidate[None]))
        finite = np.isfinite(there) and np.isfinite(score).all()
        if finite and there > value + 1e-4 * size * decrement - slack:
            return candidate, there, score
        size *= 0.5
    return None


def _first_guess(target):
    """Where to start; the mode of a tenth of the rows saves half of the steps on all of them."""
    n, initial = target.n_rows or 0, target.initial
    alone = getattr(target, "in_shards", False) or not supports(target, "take")
    if initial.any() or n < _ROWS_PER_COORDINATE * target.dim or alone:
        return initial
    try:
        few = laplace_approximation(target.take(np.arange(0, n, 10)), tol=1e-4)
    except (FloatingPointError, LinAlgError):
        return initial
    guesses = np.stack([initial, few.mode])
    first, other = target.log_density(guesses)
    return guesses[int(other > first)]


def _wide_approximation(target, start):
    """The same by L-BFGS, preconditioned, where the coordinates are too many for a Hessian."""
    scale = 1 / np.sqrt(np.maximum(hessian_of(target, start), 1e-12))

    def negative(u):
        value, score = target.log_density_and_score((start + scale * u)[None])
        return -value[0], -score[0] * scale

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-6}
    found = minimize(negative, np.zeros(len(start)), jac=True, method="L-BFGS-B", options=options)
    mode = start + scale * found.x
    hessian = hessian_of(target, mode)
    score = target.score(mode[None])[0]
    close = bool(np.abs(score / np.sqrt(np.maximum(hessian, 1e-12))).max() < 1e-3)
    return LaplaceApproximation(mode, hessian, gaussian_bijection(mode, hessian), found.nit, close)


def whitening_laplace(target, near=None):
    """The Laplace approximation that engines are whitened with, and the target it belongs to.

    For a prior that is a mixture of normals it is not the one at the joint mode, which may sit
    where no mass is: the prior is replaced by the normal of its expected precision, given the
    second moments about its location under the approximation, until the two agree. At a fixed point
    the evidence of the approximation is at a maximum. For other targets it is the plain
    approximation.

    Parameters
    ----------
    target : Target
    near : LaplaceApproximation, default=None
        Of the target, at the mode near which to begin.

    Returns
    -------
    target : Target
        The target itself, or its normal stand-in.
    laplace : LaplaceApproximation
    """
    if not supports(target, "conditional"):
        return target, near or laplace_approximation(target)
    location = getattr(target, "prior_location", 0.0)
    second_moment, start = np.ones(target.dim), None
    if near is not None:
        second_moment, start = (near.mode - location) ** 2 + near.variances(), near.mode
    for _ in range(_MOST_ROUNDS):
        surrogate = target.conditional(second_moment)
        laplace = laplace_approximation(surrogate, start)
        if surrogate is target:  # its priors are normal
            break
        # A search that fails even from where the last one ended would go on failing.
        if start is not None and not laplace.converged:
            break
        start, before = laplace.mode, second_moment
        second_moment = (laplace.mode - location) ** 2 + laplace.variances()
        if np.allclose(second_moment, before, rtol=_SETTLED, atol=0.0):
            break
    return surrogate, laplace


def gaussian_bijection(mode, hessian):
    """The affine map from standard normal coordinates to N(mode, hessian^-1)."""
    try:
        if hessian.ndim == 2 and np.count_nonzero(hessian) > len(mode):
            return Affine(mode, _scale_tril(hessian))
        curvature = hessian.diagonal() if hessian.ndim == 2 else hessian
        if not (curvature > 0).all():
            raise LinAlgError("not positive definite")
    except LinAlgError:
        raise LinAlgError(
            "the negative log density has no positive definite Hessian at the point where the "
            "search for its mode ended: the posterior is improper, flat in some direction or not "
            "smooth, as of rectified units; use a proper prior, smooth units, or another start."
        ) from None
    return Affine.diagonal(mode, 1 / np.sqrt(curvature))
