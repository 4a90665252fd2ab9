r"""The stochastic volatility model as a target.

.. math::
    y_t \sim N(0, e^{x_t}), \quad x_t \sim N(\mu + \phi (x_{t-1} - \mu), \sigma^2), \quad
    x_1 \sim N(\mu, \sigma^2 / (1 - \phi^2))

PMFVB, equations 27 and 28, with its priors; derivatives differ from those of its appendix A in that
phi and sigma^2 are unconstrained, as ``atanh(phi)`` and ``log sigma^2``.
"""

import math

import numpy as np
from scipy.special import betaln, expit, logsumexp

from ..base import Target

_LOG_2PI = math.log(2 * math.pi)


class StochasticVolatilityTarget(Target):
    """Parameters and path of the stochastic volatility model, given returns.

    ``theta`` = (mu, atanh(phi), log sigma^2, x_1, ..., x_T). The priors are normal for mu, inverse
    gamma for sigma^2, and (1 + phi) / 2 is a beta variable.

    Parameters
    ----------
    y : array-like of shape (T,)
        Returns, T >= 2.
    mu_variance : float, default=10.0
        Of the normal prior of mu, whose mean is 0.
    phi_a, phi_b : float, default=20.0, 1.5
        Of the beta prior of (1 + phi) / 2.
    sigma2_shape, sigma2_scale : float, default=2.5, 0.025
        Of the inverse gamma prior of sigma^2.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import StochasticVolatilityTarget
    >>> target = StochasticVolatilityTarget([0.5, -1.0, 0.2])
    >>> target.names[:4], target.score(np.zeros((1, 6))).shape
    (('mu', 'atanh_phi', 'log_sigma2', 'x[0]'), (1, 6))
    """

    def __init__(
        self, y, *, mu_variance=10.0, phi_a=20.0, phi_b=1.5, sigma2_shape=2.5, sigma2_scale=0.025
    ):
        # In logarithms a return of 0 stays harmless where the variance underflows.
        with np.errstate(divide="ignore"):
            self._log_square = 2 * np.log(np.abs(np.asarray(y, dtype=float)))
        self.dim = 3 + len(self._log_square)
        self.mu_variance = float(mu_variance)
        self.phi_a, self.phi_b = float(phi_a), float(phi_b)
        self.sigma2_shape, self.sigma2_scale = float(sigma2_shape), float(sigma2_scale)

    @property
    def names(self):
        return "mu", "atanh_phi", "log_sigma2", *(f"x[{t}]" for t in range(self.dim - 3))

    @property
    def initial(self):
        """All of the path at the level of the returns, and a prior's guess of the parameters."""
        level = logsumexp(self._log_square) - math.log(self.dim - 3)
        parameters = [level, math.atanh(0.9), math.log(0.05)]
        return np.concatenate([parameters, np.full(self.dim - 3, level)])

    def standard_squares(self, x):
        """Squares of the returns, each over its variance, for log variances of shape (..., T)."""
        return np.exp(self._log_square - x)

    def log_prior(self, theta):
        mu, _, _, log_sigma2, deviation, innovation = autoregression(theta)
        a, b, shape, scale = self.phi_a, self.phi_b, self.sigma2_shape, self.sigma2_scale
        value = -0.5 * (_LOG_2PI + math.log(self.mu_variance) + mu**2 / self.mu_variance)
        value += math.log(2) - betaln(a, b)
        value -= a * np.logaddexp(0.0, -2 * theta[:, 1]) + b * np.logaddexp(0.0, 2 * theta[:, 1])
        value += shape * math.log(scale) - math.lgamma(shape)
        value -= shape * log_sigma2 + scale * np.exp(-log_sigma2)
        T = deviation.shape[1]
        log_cosh = np.logaddexp(theta[:, 1], -theta[:, 1]) - math.log(2)  # 1 - phi^2 = cosh^-2
        squares = np.exp(-2 * log_cosh) * deviation[:, 0] ** 2 + np.sum(innovation**2, axis=1)
        path = T * (_LOG_2PI + log_sigma2) + 2 * log_cosh + squares * np.exp(-log_sigma2)
        return value - 0.5 * path

    def log_likelihood(self, theta, rows=None):
        return self.pointwise_log_likelihood(theta).sum(axis=1)

    def pointwise_log_likelihood(self, theta):
        """Log likelihood of every return given the path, shape (m, T)."""
        x = theta[:, 3:]
        return -0.5 * (_LOG_2PI + x + self.standard_squares(x))

    def score(self, theta, rows=None):
        mu, phi, gap, log_sigma2, deviation, innovation = autoregression(theta)
        T = deviation.shape[1]
        tau, stationary = np.exp(-log_sigma2), gap * (1 + phi)
        first, before = deviation[:, 0], deviation[:, :-1]
        gradient = np.empty_like(theta)
        gradient[:, 0] = tau * (stationary * first + gap * innovation.sum(axis=1))
        gradient[:, 0] -= mu / self.mu_variance
        along = phi * first**2 + np.einsum("ij,ij->i", innovation, before)
        gradient[:, 1] = self.phi_a * gap - self.phi_b * (1 + phi) - phi + tau * stationary * along
        squares = stationary * first**2 + np.einsum("ij,ij->i", innovation, innovation)
        gradient[:, 2] = tau * (0.5 * squares + self.sigma2_scale) - self.sigma2_shape - 0.5 * T
        path = 0.5 * (self.standard_squares(theta[:, 3:]) - 1.0)
        path[:, 0] -= tau * stationary * first
        path[:, 1:] -= tau[:, None] * innovation
        path[:, :-1] += (tau * phi)[:, None] * innovation
        gradient[:, 3:] = path
        return gradient

    def sample_prior(self, rng, m):
        theta = np.empty((m, self.dim))
        theta[:, 0] = math.sqrt(self.mu_variance) * rng.standard_normal(m)
        a, b = rng.standard_gamma(self.phi_a, m), rng.standard_gamma(self.phi_b, m)
        theta[:, 1] = 0.5 * (np.log(a) - np.log(b))
        theta[:, 2] = math.log(self.sigma2_scale) - np.log(rng.standard_gamma(self.sigma2_shape, m))
        spread = np.exp(0.5 * theta[:, 2]) * np.cosh(theta[:, 1])
        theta[:, 3] = theta[:, 0] + spread * rng.standard_normal(m)
        for t in range(4, self.dim):
            theta[:, t] = draw_next(theta, theta[:, t - 1], rng)
        return theta


def autoregression(theta):
    """mu, phi, 1 - phi, log sigma^2 (m,), deviations (m, T) and innovations (m, T - 1)."""
    mu, psi, log_sigma2 = theta[:, 0], theta[:, 1], theta[:, 2]
    phi = np.tanh(psi)
    deviation = theta[:, 3:] - mu[:, None]
    innovation = deviation[:, 1:] - phi[:, None] * deviation[:, :-1]
    return mu, phi, 2 * expit(-2 * psi), log_sigma2, deviation, innovation


def draw_next(theta, x, rng):
    """The values that follow ``x``, one for each row of parameters, shape (m, ...)."""
    mu, phi, scale = (
        part.reshape(-1, *[1] * (x.ndim - 1))
        for part in (theta[:, 0], np.tanh(theta[:, 1]), np.exp(0.5 * theta[:, 2]))
    )
    return mu + phi * (x - mu) + scale * rng.standard_normal(x.shape)
