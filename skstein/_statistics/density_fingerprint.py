"""A log density known by a few of its values, which tell it from another one."""

from dataclasses import dataclass

import numpy as np

FEW = 10


@dataclass(frozen=True)
class Fingerprint:
    """The values of a log density at a few points.

    Parameters
    ----------
    points : ndarray of shape (k, dim)
    values : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._statistics.density_fingerprint import Fingerprint
    >>> fingerprint = Fingerprint.of(lambda theta: -np.sum(theta**2, axis=1), np.eye(3))
    >>> fingerprint.matches(lambda theta: -np.sum(theta**2, axis=1))
    True
    >>> fingerprint.matches(lambda theta: -np.sum(theta**4, axis=1) / 2)
    False
    """

    points: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, log_density, theta):
        """At the first rows of ``theta``."""
        points = theta[:FEW].copy()
        return cls(points, log_density(points))

    def matches(self, log_density):
        """Whether ``log_density(theta)`` has these values, up to rounding."""
        return np.allclose(self.values, log_density(self.points), rtol=1e-7, atol=1e-6)

    def pushed(self, bijection):
        """The same density in the coordinates ``bijection.forward(points)``."""
        return Fingerprint(
            bijection.forward(self.points), self.values - bijection.log_det(self.points)
        )

    def pulled(self, bijection):
        """The same density, taken back by ``bijection``; undoes `pushed`."""
        points = bijection.inverse(self.points)
        return Fingerprint(points, self.values + bijection.log_det(points))
