"""Priors of what a noise has besides one variance, as densities of unconstrained coordinates."""

import numpy as np
from scipy.linalg import block_diag

from .coefficients import Prior
from .deviations import LogInverseGamma


class LogGamma:
    """Prior of noise, logarithm of a gamma variable: minus that of an inverse gamma one.

    Parameters
    ----------
    shape, rate : float
        The density of the variable v is proportional to ``v ** (shape - 1) * exp(-rate * v)``.

    Examples
    --------
    >>> from skstein.priors.noise import LogGamma
    >>> LogGamma(2.0, 0.1).score([[0.0]])
    array([[1.9]])
    """

    def __init__(self, shape, rate):
        self._inverse = LogInverseGamma(shape, rate)

    def log_density(self, log_v):
        """Normalised log density of each row of ``log_v`` (m, 1), shape (m,)."""
        return self._inverse.log_density(-np.asarray(log_v))

    def score(self, log_v):
        """Gradient of the log density, shape (m, 1)."""
        return -self._inverse.score(-np.asarray(log_v))

    def curvature(self, log_v):
        """Negative second derivative of the log density, shape (m, 1)."""
        return self._inverse.curvature(-np.asarray(log_v))

    def sample(self, rng, m):
        """``m`` draws, shape (m, 1)."""
        return -self._inverse.sample(rng, m)


class LogScale(Prior):
    """Prior of a log standard deviation, from that of the variance.

    Parameters
    ----------
    noise_prior : NoisePrior

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors.noise import LogScale
    >>> from skstein.priors import HalfStudentT
    >>> LogScale(HalfStudentT()).score(np.log([[1e-2], [1.0], [1e2]])).round(2)
    array([[ 1.],
           [ 0.],
           [-3.]])
    """

    def __init__(self, noise_prior):
        self.noise_prior = noise_prior

    def log_density(self, coef):
        return self.noise_prior.log_density(2.0 * coef) + np.log(2.0)

    def score(self, coef):
        return 2.0 * self.noise_prior.score(2.0 * coef)

    def precision(self, coef):
        return 4.0 * self.noise_prior.curvature(2.0 * coef[None])

    def expected_precision(self, second_moment):
        return np.ones(len(second_moment))

    def conditional(self, second_moment):
        return self  # no mixture of normals around 0: the density itself

    def sample(self, rng, m, p):
        return 0.5 * self.noise_prior.sample(rng, m)


class BlockPriors(Prior):
    """Priors of blocks of the same size, one beside the other and independent.

    Parameters
    ----------
    *parts : prior objects

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors.noise import BlockPriors
    >>> from skstein.priors import Normal
    >>> BlockPriors(Normal(1.0), Normal(0.5)).score(np.ones((1, 4)))
    array([[-1., -1., -4., -4.]])
    """

    def __init__(self, *parts):
        self.parts = parts

    def _of_each(self, method, values):
        """What a method of each part gives for its block of ``values``."""
        pairs = zip(self.parts, np.split(values, len(self.parts), axis=-1), strict=True)
        return [getattr(part, method)(block) for part, block in pairs]

    def log_density(self, coef):
        return sum(self._of_each("log_density", coef))

    def score(self, coef):
        return np.hstack(self._of_each("score", coef))

    def curvature(self, coef):
        """Negative second derivatives of the log density, shape (m, k)."""
        return np.hstack(self._of_each("curvature", coef))

    def precision(self, coef):
        return block_diag(*self._of_each("precision", coef))

    def expected_precision(self, second_moment):
        return np.concatenate(self._of_each("expected_precision", second_moment))

    def conditional(self, second_moment):
        return BlockPriors(*self._of_each("conditional", second_moment))

    def sample(self, rng, m, *size):
        share = [p // len(self.parts) for p in size]
        return np.hstack([part.sample(rng, m, *share) for part in self.parts])
