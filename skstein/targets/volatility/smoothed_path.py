"""Coordinates in which the posterior of a stochastic volatility model is nearly standard normal.

The scale of the path depends on the parameters, so that no linear map makes the posterior normal,
and the joint mode of parameters and path is far from the mass: the path has collapsed there. With
pseudo-observations in place of the likelihood, the path is normal given the parameters, with a
tridiagonal precision, and can be replaced by the standard normal noise that it is a draw with. The
pseudo-observations and the map of the parameters are those of Laplace's approximation of the
parameters' marginal posterior, after Rue, Martino & Chopin (2009), "Approximate Bayesian inference
for latent Gaussian models". A draw, its inverse and all derivatives cost O(T).
"""

from functools import partial

import numpy as np
from scipy.linalg import cholesky_banded, solve_banded, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit

from ... import _jit
from ..bijections import Placed
from ..log_density import LogDensity
from ..transformed import Transformed
from .stochastic_volatility import autoregression

_SIMPLEX = np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 1.0]])
_STEPS = np.diag([0.05, 0.05, 0.1])
_FLATTEST = 0.1  # precision


def _path_mode(target, hyper, start):
    """The mode of the path given the parameters, and the log density that Laplace leaves of them.

    The log density of the path is concave and its Hessian tridiagonal: Newton's method, O(T). Where
    the parameters overflow the log density is minus infinity.
    """
    T = target.dim - 3
    theta = np.concatenate([hyper, start])[None]
    value = target.log_density(theta)[0]
    if not np.isfinite(value):
        return start, -np.inf
    banded = np.zeros((3, T))
    for _ in range(100):
        _, (phi,), _, (log_sigma2,), _, _ = autoregression(theta)
        tau = np.exp(-log_sigma2)
        banded[0, 1:] = banded[2, :-1] = -tau * phi
        banded[1] = tau * (1 + phi**2) + 0.5 * target.standard_squares(theta[0, 3:])
        banded[1, [0, -1]] -= tau * phi**2
        score = target.score(theta)[0, 3:]
        step = solve_banded((1, 1), banded, score)
        decrement, size = score @ step, 1.0
        if decrement < 1e-12:
            break
        while size > 1e-10:
            candidate = theta.copy()
            candidate[0, 3:] += size * step
            new_value = target.log_density(candidate)[0]
            if new_value > value + 1e-4 * size * decrement - 1e-9:
                break
            size *= 0.5
        else:
            break
        theta, value = candidate, new_value
    return theta[0, 3:], value - np.log(cholesky_banded(banded[:2])[1]).sum()


def marginal_laplace(target):
    """Laplace's approximation of the parameters' marginal posterior, and the path's mode along it.

    Parameters
    ----------
    target : StochasticVolatilityTarget

    Returns
    -------
    mode : ndarray of shape (dim,)
        Its mode, and that of the path given these parameters.
    scale_tril : ndarray of shape (3, 3)
        Lower Cholesky factor of its covariance.
    response : ndarray of shape (T, 3)
        Derivative of the path's mode with respect to the parameters.

    Raises
    ------
    FloatingPointError
        If the search ends where the log density is not finite.
    """
    path = target.initial[3:]

    def value(hyper):
        nonlocal path
        try:
            path, log_density = _path_mode(target, hyper, path)
        except np.linalg.LinAlgError:
            return -np.inf
        return log_density

    start = target.initial[:3]
    options = {"xatol": 1e-3, "fatol": 1e-5, "initial_simplex": start + _SIMPLEX}
    curvature, response = np.empty((3, 3)), np.empty((target.dim - 3, 3))
    # The search may look where a density overflows; it steps back from there.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mode = minimize(lambda hyper: -value(hyper), start, method="Nelder-Mead", options=options).x
        for i, a in enumerate(_STEPS):
            for j, b in enumerate(_STEPS[: i + 1]):
                difference = value(mode + a + b) - value(mode + a - b)
                difference += value(mode - a - b) - value(mode - a + b)
                curvature[i, j] = curvature[j, i] = -difference / (4 * a.max() * b.max())
            upper, lower = (_path_mode(target, mode + step, path)[0] for step in (a, -a))
            response[:, i] = (upper - lower) / (2 * a.max())
    if not (np.isfinite(curvature).all() and np.isfinite(response).all()):
        raise FloatingPointError(
            "no mode of the posterior was found: some returns are beyond comparison with the "
            "others; look for prices that stood still, and for errors."
        )
    # Few returns leave a direction nearly flat, where only the priors' tails bound it.
    size, axis = np.linalg.eigh(curvature)
    covariance = (axis / np.maximum(size, _FLATTEST)) @ axis.T
    mode = np.concatenate([mode, _path_mode(target, mode, path)[0]])
    return mode, np.linalg.cholesky(covariance), response


class SmoothedPath(Placed):
    """From white coordinates to (mu, atanh(phi), log sigma^2) and a path.

    The first three coordinates are the parameters, by an affine map, the others the noise with
    which the path is drawn from its normal posterior given the parameters and pseudo-observations.
    These are the second-order expansion of the likelihood at a path that is affine in the
    parameters: the mode of the path where it is given, and nearly so elsewhere.

    Parameters
    ----------
    mode : ndarray of shape (3 + T,)
        Parameters, and the mode of the path there.
    scale_tril : ndarray of shape (3, 3)
        Of the affine map.
    response : ndarray of shape (T, 3)
        Derivative of the path's mode with respect to the parameters.
    weight : ndarray of shape (T,)
        Negative second derivative of the log likelihood at the mode.
    """

    def __init__(self, mode, scale_tril, response, weight):
        self.mode, self.scale_tril, self.response, self.weight = mode, scale_tril, response, weight
        self._log_det = np.log(scale_tril.diagonal()).sum()

    def _given(self, theta):
        """Parameters as `draw_path` wants them, and the pseudo-observations."""
        psi, log_sigma2 = theta[:, 1], theta[:, 2]
        hyper = np.stack([theta[:, 0], 2 * expit(-2 * psi), np.exp(-log_sigma2)], axis=1)
        moved = (theta[:, :3] - self.mode[:3]) @ self.response.T
        weight = self.weight * np.exp(-moved)
        return hyper, weight, weight * (1.0 + self.mode[3:] + moved) - 0.5

    def _by_parameters(self, theta, given, by_hyper, by_weight, by_shift):
        """Derivatives with respect to mu, atanh(phi), log sigma^2."""
        weight = given[1]
        by_moved = -by_weight * weight - by_shift * (given[2] + 0.5 - weight)
        chain = np.stack([np.ones(len(theta)), np.cosh(theta[:, 1]) ** -2, -np.ones(len(theta))])
        return by_hyper * chain.T + by_moved @ self.response

    def _draw(self, z):
        """theta, what the path was drawn with, and the log determinant."""
        parameters = self.mode[:3] + z[:, :3] @ self.scale_tril.T
        hyper, weight, shift = self._given(parameters)
        path, log_det = _jit.volatility.draw_path(hyper, z[:, 3:], weight, shift)
        theta = np.concatenate([parameters, path], axis=1)
        return theta, (hyper, weight, shift), log_det + self._log_det

    def at(self, z):
        theta, given, log_det = self._draw(z)
        return theta, lambda: log_det, partial(self._pull, theta, given)

    def inverse(self, theta):
        hyper, weight, shift = self._given(theta)
        noise = _jit.volatility.undraw_path(hyper, theta[:, 3:], weight, shift)
        centred = theta[:, :3] - self.mode[:3]
        parameters = solve_triangular(self.scale_tril, centred.T, lower=True).T
        return np.concatenate([parameters, noise], axis=1)

    def _pull(self, theta, given, score):
        path, known = theta[:, 3:], score[:, 3:]
        by_noise, *by_rest = _jit.volatility.derivatives(path, *given, known, push=False)
        by_parameters = score[:, :3] + self._by_parameters(theta, given, *by_rest)
        return np.concatenate([by_parameters @ self.scale_tril, by_noise], axis=1)

    def push_score(self, z, score):
        """Score at ``forward(z)`` of the density whose score in ``z`` is ``score``."""
        theta, given, _ = self._draw(z)
        path, known = theta[:, 3:], score[:, 3:]
        path_score, *by_rest = _jit.volatility.derivatives(path, *given, known, push=True)
        by_parameters = solve_triangular(self.scale_tril, score[:, :3].T, lower=True, trans="T").T
        by_parameters -= self._by_parameters(theta, given, *by_rest)
        return np.concatenate([by_parameters, path_score], axis=1)


class SmoothedTarget(Transformed):
    """A stochastic volatility target in coordinates in which it is nearly standard normal.

    They are those of a `SmoothedPath` at the mode of Laplace's approximation of the parameters'
    marginal posterior.

    Parameters
    ----------
    target : StochasticVolatilityTarget

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import SmoothedTarget, StochasticVolatilityTarget
    >>> target = SmoothedTarget(StochasticVolatilityTarget([0.5, -1.0, 0.2]))
    >>> target.score(np.zeros((1, 6))).shape
    (1, 6)
    """

    def __init__(self, target):
        mode, scale_tril, response = marginal_laplace(target)
        weight = 0.5 * target.standard_squares(mode[3:])
        super().__init__(target, SmoothedPath(mode, scale_tril, response, weight))

    def conditional(self, second_moment):
        """The standard normal, whatever the second moments: engines need no other whitening."""
        return LogDensity(
            lambda z: -0.5 * np.einsum("ij,ij->i", z, z),
            lambda z: -z,
            dim=self.dim,
            hessian=lambda z: np.eye(self.dim),
        )


class FactorizedPath(SmoothedPath):
    """A `SmoothedPath` in which mu and log sigma^2 have axes of their own.

    They do not move the path: the map is one of each factor, mu, sigma^2 and (phi, path), alone.
    """

    def _given(self, theta):
        pinned = np.repeat(self.mode[None, :3], len(theta), axis=0)
        pinned[:, 1] = theta[:, 1]
        return super()._given(pinned)

    def _by_parameters(self, theta, *given):
        derivatives = super()._by_parameters(theta, *given)
        derivatives[:, [0, 2]] = 0.0
        return derivatives


class FactorizedTarget(SmoothedTarget):
    """The same density with the factors q(mu) q(sigma^2) q(phi, x) for mean field.

    PMFVB, equation 29. Under it mu and log sigma^2 spread as they do given the path.

    Parameters
    ----------
    target : StochasticVolatilityTarget
    """

    def __init__(self, target):
        mode, scale_tril, response = marginal_laplace(target)
        _, (phi,), (gap,), (log_sigma2,), _, _ = autoregression(mode[None])
        steps = gap * (1 + phi) + (target.dim - 4) * gap**2
        of_mu = 1 / target.mu_variance + np.exp(-log_sigma2) * steps
        curvature = of_mu, target.sigma2_shape + 0.5 * (target.dim - 3)
        scales = np.append(np.array(curvature) ** -0.5, np.linalg.norm(scale_tril[1]))[[0, 2, 1]]
        weight = 0.5 * target.standard_squares(mode[3:])
        Transformed.__init__(self, target, FactorizedPath(mode, np.diag(scales), response, weight))

    @property
    def factors(self):
        return np.array([0]), np.array([2]), np.setdiff1d(np.arange(self.dim), [0, 2])
