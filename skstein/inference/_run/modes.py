"""Search for other modes of a density, and whether particles are there.

The coordinates belong to one mode, and engines that stay near it see no other. So the search is
repeated from a few distant points; usually it ends at the same mode. If it ends elsewhere, the
Gaussians at both modes show which has more mass, and how much of it particles should have.
"""

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import minimize
from scipy.special import softmax

from ...targets import Transformed, laplace_approximation
from ...targets.base import NotANumber

# Of pairs of starts, mirror images of each other: their number, and their distance from the mode in
# standard deviations of each coordinate.
_FAR, _VERY_FAR = (4, 6.0), (2, 30.0)
_N_NEAR = 2  # more pairs about ``initial``, in the target's own units
_MAX_ITER = 60  # of a search, in white coordinates
_SAME = 1.0  # distance from the mode below which a search has come back to it
_APART = 3.0  # standard deviations of the narrower of two modes, from which they are separated
_LEAST_MASS = 0.01  # share of all mass, below which a mode may be ignored
_MOST_MISSED = 0.1  # that the share of the particles may be below that of the mass
_LEAST_FOUND = 1 / 3  # of the share of the mass, that particles must have


class Modes:
    """Modes of a density that were found, with the Gaussian at each.

    Parameters
    ----------
    target : Target
        With a score.
    laplace : LaplaceApproximation
        At the mode that was found first.

    Attributes
    ----------
    best : LaplaceApproximation
        At the mode with the most mass, as its Gaussian measures that.
    """

    def __init__(self, target, laplace):
        self._target, self._first, self._found = target, laplace, [laplace]
        self.search(_starts(target, laplace))
        self.best = max(self._found, key=self._log_mass)

    def search(self, starts):
        """Ascend from each of ``starts`` (m, dim), and add the modes that are new."""
        for start in starts:
            end = _search(self._target, self._first, start)
            if end is None or any(_distance(mode, end) < _SAME for mode in self._found):
                continue
            try:
                mode = laplace_approximation(self._target, end)
            except (FloatingPointError, LinAlgError, NotANumber):
                continue
            new = all(_distance(other, mode.mode) >= _SAME for other in self._found)
            if mode.converged and new:
                self._found.append(mode)

    def missed(self, particles, weights):
        """Mass of the mode that particles miss most, as a share of that of all; 0 for none.

        A particle belongs to modes in proportion to their Gaussians' densities where it is. A mode
        is missed if the particles that belong to it are far from its share.

        Parameters
        ----------
        particles : ndarray of shape (m, dim)
        weights : ndarray of shape (m,)
        """
        modes = [self.best, *(mode for mode in self._found if _apart(mode, self.best))]
        log_mass = np.array([self._log_mass(mode) for mode in modes])
        log_density = [_log_normal(mode.bijection, particles) for mode in modes]
        share = softmax(log_mass)
        found = weights @ softmax(np.column_stack(log_density) + log_mass, axis=1)
        lacking = (share - found > _MOST_MISSED) | (found < _LEAST_FOUND * share)
        return float(np.max(share, where=lacking & (share > _LEAST_MASS), initial=0.0))

    def _log_mass(self, laplace):
        zero = np.zeros((1, self._target.dim))
        return (self._target.log_density(laplace.mode[None]) + laplace.bijection.log_det(zero))[0]


def _starts(target, laplace):
    """Points to search from, the same for every seed."""
    rng = np.random.default_rng(0)
    far, near, very_far = (
        distance * rng.standard_normal((n, target.dim))
        for n, distance in (_FAR, (_N_NEAR, 1.0), _VERY_FAR)
    )
    z = laplace.bijection.forward(np.concatenate([far, -far, very_far, -very_far]))
    return np.concatenate([z, target.initial + np.concatenate([near, -near])])


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
    except (FloatingPointError, LinAlgError, NotANumber):
        return None
    return laplace.bijection.forward(found.x[None])[0] if np.isfinite(found.fun) else None


def _distance(laplace, theta):
    """From the mode, in standard deviations."""
    return np.linalg.norm(laplace.bijection.inverse(theta[None]))


def _apart(first, second):
    """Whether two modes are separated, as the narrower one measures it."""
    return max(_distance(first, second.mode), _distance(second, first.mode)) > _APART


def _log_normal(bijection, theta):
    """Log density of what a bijection makes of a standard normal, but for a constant."""
    z = bijection.inverse(theta)
    return -0.5 * np.einsum("ij,ij->i", z, z) - bijection.log_det(z)
