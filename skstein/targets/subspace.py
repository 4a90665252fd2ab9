"""A target on a few directions through its space, or on some of its coordinates."""

from typing import Any

import numpy as np

from .wrapper import InnerTarget, Wrapper


class Subspace(Wrapper):
    """The density of ``theta = origin + phi @ basis`` as one of ``phi``.

    Parameters
    ----------
    target : Target
    origin : ndarray of shape (dim,)
    basis : ndarray of shape (k, dim)
    initial : ndarray of shape (k,), default=None
        Where a search for the mode starts; the origin by default.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import LogDensity
    >>> from skstein.targets.subspace import Subspace
    >>> target = LogDensity(lambda t: -0.5 * (t**2).sum(1), score=lambda t: -t, dim=3)
    >>> line = Subspace(target, np.array([0.0, 0.0, 1.0]), np.array([[3.0, 4.0, 0.0]]))
    >>> line.log_density(np.array([[0.2]])), line.score(np.array([[0.2]]))
    (array([-1.]), array([[-5.]]))
    """

    factors = InnerTarget.factors
    initial: Any = None

    def __init__(self, target, origin, basis, initial=None):
        super().__init__(target)
        self.origin, self.basis, self.dim = origin, basis, len(basis)
        self.initial = np.zeros(self.dim) if initial is None else initial

    @property
    def names(self):
        return tuple(f"phi[{k}]" for k in range(self.dim))

    def forward(self, phi):
        """The points of the whole space, shape (m, target.dim)."""
        return self.origin + phi @ self.basis

    def _pulled(self, phi, score):
        return score @ self.basis.T


class SliceTarget(InnerTarget):
    """The density of some coordinates of a target inside, the others being those of a point.

    Parameters
    ----------
    target : Target
    point : ndarray of shape (target.dim,)
    free : ndarray of int, shape (dim,)
        Positions of the coordinates that are not held.
    """

    def __init__(self, target, point, free):
        self.target, self.point, self.free, self.dim = target, point, free, len(free)

    def forward(self, z):
        """The coordinates of the target inside, shape (m, target.dim)."""
        theta = np.tile(self.point, (len(z), 1))
        theta[:, self.free] = z
        return theta

    def _pulled(self, z, score):
        return score.take(self.free, axis=1)
