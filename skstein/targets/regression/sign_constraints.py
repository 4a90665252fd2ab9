r"""Coordinates that keep to one side of 0.

.. math::
   \theta_j = \pm s_j T(z_j), \qquad T(z) = \Phi^{-1}\Big(\frac{1 + \Phi(z)}{2}\Big),

is half-normal of scale :math:`s_j` where :math:`z_j` is standard normal: a coefficient that leans
against 0 is nearly normal in z, and one that is far from it is moved by a line. The logarithm would
leave a long tail to the left, which no line straightens.
"""

import numpy as np
from scipy.special import erf, erfinv, log_ndtr, ndtr, ndtri, ndtri_exp

from ..base import supports
from ..bijections import pulled_entrywise, replaced
from ..transformed import Transformed
from .horseshoe import HorseshoeTarget

_LOG2 = np.log(2.0)


class SignConstraintMap:
    """A map of some coordinates from the whole line to the positive or negative half.

    Parameters
    ----------
    signs : ndarray of shape (d,)
        1 and -1 for a half, 0 for coordinates that stay as they are.
    scale : ndarray of shape (d,)
        Below which the map bends.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import SignConstraintMap
    >>> SignConstraintMap(np.array([1.0, -1.0, 0.0]), np.ones(3)).forward(np.zeros((1, 3))).round(3)
    array([[ 0.674, -0.674,  0.   ]])
    """

    def __init__(self, signs, scale):
        self.selected = np.flatnonzero(signs)
        self.unit = (signs * scale)[self.selected]

    def _turn(self, z):
        """T of the selected coordinates of ``z`` (..., d), and the logarithm of T'."""
        z = z[..., self.selected]
        low = np.sqrt(2.0) * erfinv(ndtr(np.minimum(z, 0.0)))
        value = np.where(z < 0.0, low, -ndtri_exp(log_ndtr(-np.maximum(z, 0.0)) - _LOG2))
        return z, value, 0.5 * (value**2 - z**2) - _LOG2

    def forward(self, z):
        return replaced(z, self.selected, self.unit * self._turn(z)[1])

    def inverse(self, theta):
        value = np.maximum(theta[:, self.selected] / self.unit, np.finfo(float).tiny)
        # Of either form where it does not cancel.
        high = -ndtri_exp(np.minimum(log_ndtr(-np.maximum(value, 0.5)) + _LOG2, 0.0))
        low = ndtri(erf(np.clip(value, 0.0, 0.5) / np.sqrt(2.0)))
        return replaced(theta, self.selected, np.where(value > 0.5, high, low))

    def log_det(self, z):
        return self._turn(z)[2].sum(axis=1) + np.log(np.abs(self.unit)).sum()

    def _slopes(self, z):
        """Slope of the map, and the derivative of its logarithm, of the selected coordinates."""
        z, value, log_slope = self._turn(z)
        slope = np.maximum(np.exp(log_slope), np.finfo(float).tiny)
        return self.unit * slope, value * slope - z, value, slope

    def pull_score(self, z, score):
        slope, curve, _, _ = self._slopes(z)
        return replaced(score, self.selected, score[:, self.selected] * slope + curve)

    def push_score(self, z, score):
        slope, curve, _, _ = self._slopes(z)
        with np.errstate(over="ignore"):
            return replaced(score, self.selected, (score[:, self.selected] - curve) / slope)

    def pull_hessian(self, z, score, hessian):
        slope, curve, value, plain = self._slopes(z)
        bend = score[self.selected] * slope * curve + plain**2 + value * plain * curve - 1.0
        return pulled_entrywise(hessian, self.selected, slope, bend)


class SignConstrainedTarget(Transformed):
    """A target in coordinates in which some of its own keep to one side of 0.

    Its density is cut off at 0, and the prior with it, which is not normalised again. Draws of the
    prior are mirrored, where it is symmetric; otherwise there are none.

    Parameters
    ----------
    target : Target
    bijection : SignConstraintMap
    """

    def __init__(self, target, bijection):
        super().__init__(target, bijection)
        self.whitened = False
        if not target.symmetric_prior:
            self.sample_prior = None  # type: ignore[assignment, method-assign]

    @property
    def initial(self):
        """That of the target, or the middle of the half that it is not in."""
        theta, middle = self.target.initial.copy(), self.forward(np.zeros((1, self.dim)))[0]
        wrong = self.bijection.selected[theta[self.bijection.selected] * self.bijection.unit <= 0.0]
        theta[wrong] = middle[wrong]
        return self.inverse(theta[None])[0]

    def sample_prior(self, rng, m):
        theta, chosen = self.target.sample_prior(rng, m), self.bijection.selected
        theta[:, chosen] = np.copysign(theta[:, chosen], self.bijection.unit)
        return self.inverse(theta)

    def take(self, rows, multiplier=None):
        """The same model on some of the rows, an index array, their weights multiplied."""
        few = self.target.take(rows) if multiplier is None else self.target.take(rows, multiplier)
        return SignConstrainedTarget(few, self.bijection)


def sign_constraint_scale(target):
    """The expected scale of each coordinate, (dim,): near 0 a half line bends."""
    if isinstance(target, HorseshoeTarget):  # standard normal before the data
        return np.ones(target.dim)
    normal = target
    if supports(target, "conditional"):
        normal = target.conditional(np.ones(target.dim))
    # Of outliers the density may curve upwards where the search for its mode begins.
    curvature = np.abs(normal.hessian_diagonal(target.initial))
    return np.where(curvature > 0.0, curvature, 1.0) ** -0.5
