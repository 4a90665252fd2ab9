r"""A few rows in place of very many, and what they leave out to the second order.

With :math:`\ell_i` the log likelihood of row i, :math:`T_i` its Taylor polynomial of second order
about a point near the mode, and a fixed subset S of rows with weights :math:`1/\pi_i`,

.. math::
    \log \tilde p(\theta) = \log p(\theta \mid \text{prior}) + \sum_i T_i(\theta)
      + \sum_{i \in S} \frac{\ell_i(\theta) - T_i(\theta)}{\pi_i}

is a density like any other, no estimate: chains run on it as on the posterior itself. The sum over
all rows is known from one score and one Hessian, so that a density costs the rows of S alone. Its
error is that of a sample of third-order remainders, which among n rows are of the size
:math:`n^{-3/2}` each where the posterior is: a few thousand rows stand for a million. Rows are
drawn in proportion to their remainders (a row that a coefficient hangs on, as that of a rare
category, is drawn for certain), and the remainders say beforehand how many it takes. What is left
of an error the exact density corrects; see `skstein.inference`.

The control variate is that of Bardenet, Doucet & Holmes (2017), "On Markov chain Monte Carlo
methods for tall data"; with rows that are drawn once and kept it makes a data set of its own.
"""

from inspect import signature

import numpy as np

from .base import supports
from .laplace_at_mode import DIAGONAL_ABOVE, laplace_approximation
from .wrapper import Wrapper

_ERROR = 0.03  # of the log density, in nats, that "auto" allows
_LEAST_ROWS = 1000
_MOST_ROWS = 0.5  # of all; with more there is nothing to gain
_N_DIRECTIONS = 12
_FAR = 10.0  # standard deviations from the center
_LEAST_SHARE = 0.2  # of the mean share: far out, where no draw went, no row must stand for too many


class Surrogate(Wrapper):
    """A target on some of its rows, with the rest to the second order about a center.

    Parameters
    ----------
    target : Target
        With ``score``, ``take(rows, multiplier)`` and ``pointwise_log_likelihood``.
    n_rows : int or "auto", default="auto"
        Of the subset; as many as keep the error of the log density below .03 nats, for "auto".

    Raises
    ------
    ValueError
        If the target lacks one of these, or has more than 2000 coordinates.
    """

    def __init__(self, target, n_rows="auto"):
        if reason := surrogate_lacks(target):
            raise ValueError(f"surrogate needs {reason}; use surrogate=None.")
        # Any normal prior serves to find the center: here priors come and go with both sides.
        plain = target
        if supports(target, "conditional"):
            plain = target.conditional(np.ones(target.dim))
        laplace = laplace_approximation(plain, tol=1e-4)
        self.center = laplace.mode
        rows, multiplier = chosen_rows(target, laplace, n_rows)
        few = target.take(rows, multiplier)
        super().__init__(few)
        self.take = self.hessian_diagonal = self.pointwise_log_likelihood = None  # type: ignore[assignment, method-assign]
        self.prior_location = getattr(few, "prior_location", 0.0)
        self.symmetric_prior = getattr(few, "symmetric_prior", False)
        few = few if plain is target else few.conditional(np.ones(target.dim))
        # What the rows left out add to the second order: a value, a slope and a curvature.
        at = self.center[None]
        all_rows, some = plain.log_density_and_score(at), few.log_density_and_score(at)
        self._value, self._slope = (a[0] - b[0] for a, b in zip(all_rows, some, strict=True))
        # In the axes of the difference of the Hessians, in standard deviations.
        white = np.linalg.cholesky(laplace.hessian)
        part = np.linalg.solve(white, few.hessian(self.center))
        size, axes = np.linalg.eigh(np.eye(self.dim) - np.linalg.solve(white, part.T))
        self._curvature, self._axes = size, white @ axes

    @property
    def initial(self):
        return self.center

    def conditional(self, second_moment):
        """The same with the conditional target of the subset; see `RegressionTarget.conditional`.

        Parameters
        ----------
        second_moment : ndarray of shape (dim,)
        """
        if not supports(self.target, "conditional"):
            return self
        inside = self.target.conditional(second_moment)
        return self if inside is self.target else self._around(inside)

    def _rest(self, theta):
        """Of the rows left out, log likelihood (m,) and its score (m, dim)."""
        shift = theta - self.center
        along = shift @ self._axes
        # A parabola that opens upwards would in the end outgrow what the subset falls by.
        bounded = np.where(self._curvature < 0.0, np.clip(along, -_FAR, _FAR), along)
        pulled = bounded * self._curvature
        value = self._value + shift @ self._slope
        value -= 0.5 * np.einsum("ij,ij->i", pulled, 2.0 * along - bounded)
        return value, self._slope - pulled @ self._axes.T

    def log_likelihood(self, theta, rows=None):
        return self.target.log_likelihood(theta) + self._rest(theta)[0]

    def _placed(self, theta):
        more, slope = self._rest(theta)
        return theta, lambda: more, lambda score: score + slope

    def hessian(self, theta):
        """Negative Hessian of the log density, (dim, dim)."""
        far = np.abs((theta - self.center) @ self._axes) > _FAR
        size = np.where(far & (self._curvature < 0.0), 0.0, self._curvature)
        return self.target.hessian(theta) + (self._axes * size) @ self._axes.T


def surrogate_lacks(target):
    """What a target has not that a surrogate needs, in words; empty where there is nothing."""
    parts = ("score", "hessian", "take", "pointwise_log_likelihood")
    missing = [part for part in parts if not supports(target, part)]
    if missing:
        return f"{' and '.join(missing)}, which the target does not offer"
    if "multiplier" not in signature(target.take).parameters:
        return "take(rows, multiplier), and the target takes rows as they are"
    return f"at most {DIAGONAL_ABOVE} coordinates" if target.dim > DIAGONAL_ABOVE else ""


def chosen_rows(target, laplace, n_rows="auto"):
    """Rows drawn in proportion to what a Taylor polynomial of second order leaves of them.

    Parameters
    ----------
    target : Target
    laplace : LaplaceApproximation
        Whose draws say how far from the center it matters.
    n_rows : int or "auto", default="auto"

    Returns
    -------
    rows : ndarray of int
        In order.
    multiplier : ndarray of float
        By which their weights stand for those of all rows.
    """
    # The same rows for any seed: what a warm start goes on with must not change.
    rng = np.random.default_rng(0)
    z = rng.standard_normal((_N_DIRECTIONS, target.dim))
    along = np.multiply.outer([-2.0, -1.0, 1.0, 2.0], z).swapaxes(0, 1).reshape(-1, target.dim)
    theta = laplace.bijection.forward(np.concatenate([np.zeros((1, target.dim)), along]))
    apart = supports(target, "of_rows")
    remainder = target.of_rows(remainders, theta) if apart else remainders(target, theta)
    size = remainder + np.finfo(float).tiny

    def shares(factor):
        share = np.minimum(factor * size, 1.0)
        return np.maximum(share, _LEAST_SHARE * share.mean())

    def enough(share):
        if n_rows == "auto":
            error = np.sqrt(np.sum((1.0 / share - 1.0) * remainder**2))
            return error <= _ERROR and share.sum() >= min(_LEAST_ROWS, len(size))
        return share.sum() >= min(n_rows, len(size))

    low, high = 0.1 / size.max(), 1.0 / size.min()
    while high > 1.01 * low:
        middle = np.sqrt(low * high)
        low, high = (low, middle) if enough(shares(middle)) else (middle, high)
    share = shares(high)
    if n_rows == "auto" and share.sum() > _MOST_ROWS * len(size):
        share = np.ones(len(size))
    # Systematically: their number, and that of each kind that lies together, is as it should be.
    rows = np.flatnonzero(np.diff(np.floor(np.cumsum(share) + rng.random()), prepend=0.0) > 0.0)
    rows = np.union1d(rows, np.flatnonzero(share == 1.0))
    return rows, 1.0 / share[rows]


def remainders(target, theta):
    """Root mean square over lines of what is left of each row's log likelihood, shape (n,).

    Differences between five points on a line through the center give the terms of the third and
    fourth order.

    Parameters
    ----------
    target : Target
    theta : ndarray of shape (1 + 4 lines, dim)
        The center, and for each line points at -2, -1, 1 and 2 steps from it.
    """
    center = target.pointwise_log_likelihood(theta[:1])[0]
    lines = theta[1:].reshape(-1, 4, target.dim)
    total = np.zeros_like(center)
    for points in lines:
        far_left, left, right, far_right = target.pointwise_log_likelihood(points)
        odd = far_right - far_left - 2.0 * (right - left)
        even = far_right + far_left - 4.0 * (right + left) + 6.0 * center
        total += (odd / 12.0) ** 2 + (even / 24.0) ** 2
    return (1.0 if target.weights is None else target.weights) * np.sqrt(total / len(lines))
