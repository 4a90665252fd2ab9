"""Factors of a mean field that are known in closed form.

Mean field approximates a density by a product ``q = prod_b q_b``. Given the others, the best factor
is ``q_b ~ exp E[log p]``, the expectation over the others. A target's `factors` are a partition of
its coordinates: index arrays, for factors that only particles can follow, and `ConjugateFactor`
objects where that expectation is a known distribution. They know the model and nothing of how a
posterior is found: an engine passes particles of ``q`` and gets the distribution.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular


@dataclass(frozen=True)
class ConjugateFactor:
    """Coordinates whose factor has a closed form, given the particles of the other factors.

    Attributes
    ----------
    indices : ndarray of int
        The coordinates.
    optimum : callable
        ``optimum(theta) -> distribution``, from particles ``theta`` (m, dim) of all coordinates, of
        which those of ``indices`` play no part. The distribution has ``sample(rng, m)``, of shape
        (m, len(indices)), and ``entropy()``, in nats.

    Examples
    --------
    One observation ``y ~ N(0, v)`` of a variance with the prior InvGamma(1, 1), as a target with
    the single coordinate ``log v``:

    >>> import numpy as np
    >>> from skstein.targets import ConjugateFactor, LogInverseGamma
    >>> y = 2.0
    >>> factor = ConjugateFactor(np.array([0]), lambda theta: LogInverseGamma(1.5, 1 + y**2 / 2))
    >>> factor.optimum(np.zeros((5, 1))).sample(np.random.default_rng(0), 5).shape
    (5, 1)
    """

    indices: np.ndarray
    optimum: Callable


class NormalFactor:
    """A normal distribution given by its precision.

    Parameters
    ----------
    precision : ndarray of shape (k, k)
    shift : ndarray of shape (k,)
        The precision times the mean.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the precision is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import NormalFactor
    >>> NormalFactor(4.0 * np.eye(2), np.array([4.0, 8.0])).mean
    array([1., 2.])
    """

    def __init__(self, precision, shift):
        self._factor = cho_factor(precision, lower=True)
        self.mean = cho_solve(self._factor, shift)

    def sample(self, rng, m):
        """``m`` draws, shape (m, k)."""
        noise = rng.standard_normal((m, len(self.mean)))
        return self.mean + solve_triangular(self._factor[0], noise.T, lower=True, trans="T").T

    def entropy(self):
        """Differential entropy in nats."""
        log_det = np.log(self._factor[0].diagonal()).sum()
        return float(0.5 * len(self.mean) * (1.0 + math.log(2.0 * math.pi)) - log_det)


def indices_of(factor):
    """The coordinates of a factor, whatever its kind."""
    return factor.indices if isinstance(factor, ConjugateFactor) else np.asarray(factor, dtype=int)


def within_factors(matrix, factors):
    """``matrix`` (dim, dim) with 0 between coordinates of different factors."""
    owner = np.empty(len(matrix), dtype=int)
    for number, factor in enumerate(factors):
        owner[indices_of(factor)] = number
    return np.where(owner[:, None] == owner, matrix, 0.0)
