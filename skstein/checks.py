"""Check your own target before an engine runs on it.

A score that is not the gradient, or a log density that mixes its rows, gives a wrong posterior
rather than an error. Each function is compared with what it must agree with: rows with the same
rows alone, derivatives with central differences, minibatches with all rows. The points are few, so
it takes a moment even where a fit takes hours.
"""

from functools import partial

import numpy as np

from ._tools.random import as_generator
from .targets import supports
from .targets.base import require_target

_POINTS = 4
_STEPS = np.finfo(float).eps ** (1 / 3) * np.array([1.0, 8.0, 64.0])


def check_target(target, theta=None, *, random_state=None, rtol=1e-4):
    """Check that the functions of a target agree with each other.

    Parameters
    ----------
    target : Target
        For example a `LogDensity` of your own.
    theta : array-like of shape (m, dim), default=None
        Where to check; by default at four points that are normal, with standard deviation 1/2,
        around the target's ``initial``. Choose points where the density is finite and smooth.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator, default=None
        Of the points and minibatches.
    rtol : float, default=1e-4
        Largest error of a derivative, relative to the largest entry of the score (over all points)
        or of the Hessian.

    Raises
    ------
    ValueError
        If the log density has the wrong shape, is not finite or mixes its rows, or if score,
        Hessian or minibatches disagree with it; the message names the function, the coordinate and
        the two numbers.
    TypeError
        If it is not a target.

    Notes
    -----
    A row on its own may differ from the row in a batch by rounding, a millionth of its size.
    Derivatives are central differences at three step sizes; the closest counts.

    Examples
    --------
    >>> from skstein import LogDensity, check_target
    >>> def log_density(theta):
    ...     return -0.5 * (theta**2).sum(axis=1)
    >>> check_target(LogDensity(log_density, lambda theta: -theta, dim=2), random_state=0)
    >>> check_target(LogDensity(log_density, lambda theta: theta, dim=2), theta=[[1.0, 0.0]])
    Traceback (most recent call last):
        ...
    ValueError: score[0] is 1 at point 0, but the difference quotient of log_density is -1.
    """
    require_target(target)
    rng = as_generator(random_state)
    if theta is None:
        theta = target.initial + 0.5 * rng.standard_normal((_POINTS, target.dim))
    theta = np.array(theta, dtype=float)
    if theta.ndim != 2 or theta.shape[1] != target.dim or not len(theta):
        raise ValueError(f"theta must have shape (m, {target.dim}), got {theta.shape}.")
    if not np.isfinite(theta).all():
        raise ValueError("theta must be finite.")

    _check_rows(target, "log_density", theta, (len(theta),))
    if supports(target, "score"):
        score = _check_rows(target, "score", theta, theta.shape)
        # A point may be the mode, where the score is 0; the neighbourhood tells its size.
        size = np.abs(np.concatenate([score, target.score(theta + 0.01)])).max(axis=0)
        for i, point in enumerate(theta):
            _check_derivative(target, "log_density", point, "score", score[i], rtol * size, i)
    if supports(target, "hessian") and supports(target, "score"):
        for i, point in enumerate(theta):
            hessian = _evaluate(target, "hessian", point, (target.dim, target.dim))
            size = np.abs(hessian).max(axis=0)
            size = np.sqrt(np.outer(size, size))
            _check_derivative(target, "score", point, "-hessian", -hessian, rtol * size, i)
    if target.n_rows is not None:
        _check_minibatches(target, theta, rng, rtol)


def _evaluate(target, name, theta, shape, *args):
    """The value of a function at ``theta``, which must have a shape and be finite."""
    value = np.asarray(getattr(target, name)(theta, *args), dtype=float)
    if value.shape != shape:
        raise ValueError(f"{name} returned shape {value.shape}, expected {shape}.")
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise ValueError(f"{name} is {value[tuple(bad[0])]} at [{where}]; it must be finite there.")
    return value


def _check_rows(target, name, theta, shape):
    """The value at a batch, which must equal the values at its rows one by one."""
    before = theta.copy()
    batch = _evaluate(target, name, theta, shape)
    if not np.array_equal(theta, before):
        raise ValueError(f"{name} changed theta in place; it must work on a copy.")
    for i in range(len(theta)):
        alone = _evaluate(target, name, theta[i : i + 1], (1, *shape[1:]))[0]
        size = max(1.0, np.abs(alone).max())
        wrong = np.argwhere(np.abs(np.atleast_1d(batch[i] - alone)) > 1e-6 * size)
        if len(wrong):
            j = wrong[0][0]
            entry = f"{name}[{j}]" if batch.ndim > 1 else name
            together, single = np.atleast_1d(batch[i])[j], np.atleast_1d(alone)[j]
            raise ValueError(
                f"{entry} is {together:.6g} for point {i} in a batch of {len(theta)}, but "
                f"{single:.6g} for the same point alone: rows of theta must not be mixed."
            )
    return batch


def _check_derivative(target, of, point, name, derivative, tolerance, i):
    """Compare a derivative (dim, ...) at a point with central differences of ``target.of``."""
    function, best = getattr(target, of), np.full(derivative.shape, np.nan)
    error = np.full(derivative.shape, np.inf)
    # Rounding spoils short steps where the values or coordinates are large, curvature long ones.
    for relative in _STEPS:
        step = relative * np.sqrt(np.maximum(1.0, np.abs(point)))
        upper = function(point + np.diag(step))
        lower = function(point - np.diag(step))
        quotient = ((upper - lower).T / (2 * step)).T
        miss = np.abs(quotient - derivative)
        best = np.where(miss <= error, quotient, best)
        error = np.fmin(error, miss)
    rounding = np.finfo(float).eps * np.abs(upper).max(axis=0) / _STEPS[-1]
    wrong = np.argwhere(~(error <= tolerance + 10.0 * rounding))
    if len(wrong):
        first = tuple(wrong[0])
        raise ValueError(
            f"{name}[{', '.join(map(str, first))}] is {derivative[first]:.6g} at point {i}, but "
            f"the difference quotient of {of} is {best[first]:.6g}."
        )


def _check_minibatches(target, theta, rng, rtol):
    """All rows must give the same as no ``rows``, and two halves must average to it."""
    order = rng.permutation(target.n_rows)
    halves = np.array_split(order, min(2, target.n_rows))
    for name in ("score", "log_likelihood"):
        if not supports(target, name):
            continue
        full = np.asarray(getattr(target, name)(theta))
        on_rows = partial(_evaluate, target, name, theta, full.shape)
        first = on_rows(order)
        pooled = sum(len(rows) / target.n_rows * on_rows(rows) for rows in halves)
        for value, what in ((first, "all rows"), (pooled, "two halves of the rows, averaged")):
            size = np.maximum(1.0, np.abs(full).max(axis=0))
            wrong = np.argwhere(np.abs(value - full) > rtol * size)
            if len(wrong):
                at = tuple(wrong[0])
                entry = f"{name}[{at[1]}]" if full.ndim > 1 else name
                raise ValueError(
                    f"{entry} is {value[at]:.6g} at point {at[0]} from {what}, but {full[at]:.6g} "
                    "without rows: a minibatch's sum must be scaled by n_rows / len(rows)."
                )
