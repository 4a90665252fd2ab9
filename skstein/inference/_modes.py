"""Search for other modes of a density.

The coordinates belong to one mode, and engines that stay near it see no other. So the search is
repeated from a few distant points; usually it ends at the same mode. If it ends elsewhere, the
Gaussians at both modes show which has more mass, and whether the other can be ignored.
"""

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import minimize

from ..targets import Transformed, laplace_approximation
from ..targets.base import NotANumber

_N_PAIRS = 4  # of starts, mirror images of each other about the mode
_FAR = 6.0  # their distance, in standard deviations of each coordinate
_N_NEAR = 2  # more pairs about ``initial``, in the target's own units
_MAX_ITER = 60  # of a search, in white coordinates
_SAME = 1.0  # distance from the mode below which a search has come back to it
APART = 3.0  # distance, in standard deviations at both modes, from which they are separated
LEAST_MASS = 0.01  # mass of another mode, relative to the first, below which it may be ignored


def other_modes(target, laplace):
    """The best mode found, and the mass of distant ones.

    Parameters
    ----------
    target : Target
        With a score.
    laplace : LaplaceApproximation
        At the mode that was found first.

    Returns
    -------
    laplace : LaplaceApproximation
        At the mode with the most mass, as its Gaussian measures that.
    mass : float
        The largest mass of a mode that is separated from it, relative to its own; 0 for none.
    """
    found = [laplace]
    for start in _starts(target, laplace):
        end = _search(target, laplace, start)
        if end is None or any(_distance(mode, end) < _SAME for mode in found):
            continue
        try:
            mode = laplace_approximation(target, end)
        except (FloatingPointError, LinAlgError, NotANumber):
            continue
        if mode.converged and all(_distance(other, mode.mode) >= _SAME for other in found):
            found.append(mode)
    log_mass = np.array([_log_mass(target, mode) for mode in found])
    best = found[log_mass.argmax()]
    apart = [min(_distance(best, mode.mode), _distance(mode, best.mode)) > APART for mode in found]
    return best, float(np.max(np.exp(log_mass - log_mass.max()), where=apart, initial=0.0))


def _starts(target, laplace):
    """Points to search from, the same for every seed."""
    rng = np.random.default_rng(0)
    z = _FAR * rng.standard_normal((_N_PAIRS, target.dim))
    near = rng.standard_normal((_N_NEAR, target.dim))
    far = laplace.bijection.forward(np.concatenate([z, -z]))
    return np.concatenate([far, target.initial + np.concatenate([near, -near])])


def _search(target, laplace, start):
    """Where an ascent from ``start`` ends, in the target's coordinates; None if it fails."""
    white = Transformed(target, laplace.bijection)

    def negative(z):
        value, score = white.log_density_and_score(z[None])
        return -value[0], -score[0]

    z = laplace.bijection.inverse(start[None])[0]
    try:
        if not np.isfinite(negative(z)[0]):
            return None
        options = {"maxiter": _MAX_ITER, "gtol": 1e-2}
        found = minimize(negative, z, jac=True, method="L-BFGS-B", options=options)
    except (FloatingPointError, NotANumber):
        return None
    return laplace.bijection.forward(found.x[None])[0] if np.isfinite(found.fun) else None


def _distance(laplace, theta):
    """From the mode, in standard deviations."""
    return np.linalg.norm(laplace.bijection.inverse(theta[None]))


def _log_mass(target, laplace):
    zero = np.zeros((1, target.dim))
    return (target.log_density(laplace.mode[None]) + laplace.bijection.log_det(zero))[0]
