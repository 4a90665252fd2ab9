"""What a warm-up learns: a step size, and the linear coordinates in which chains move.

A *metric* L makes a sampler move as it would in the coordinates z of ``theta = L z``: proposals
have the covariance L L', which is the inverse of what Hamiltonian Monte Carlo calls the mass
matrix. It is estimated window by window as the minimiser of the Fisher divergence between the
density of z and a standard normal (Seyboldt, Carlson & Carpenter 2026), the one symmetric positive
definite S = L L' with

    S cov(scores) S = cov(states),

the geometric mean of the states' covariance and the inverse of the scores'. For a Gaussian,
``scores = -precision (states - mean)`` whatever the states are, so that S is exact from little more
than ``dim`` of them, however dependent; the states' covariance alone is poor after ten times as
many. The same divergence is least about ``mean(states) + S mean(scores)``. What differs from the
paper: in more than 200 coordinates S is diagonal instead of low-rank plus diagonal, and both
covariances are shrunk alike, towards the identity in the coordinates of the metric before.
"""

import math
from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

_DENSE_UP_TO = 200
_FIRST_WINDOW = 10
_LONGEST = 5.0  # logarithm of an adapted step size, beyond ten times the first guess


def quantized_step_size(step_size):
    """``step_size`` of a sampler on a geometric grid of ratio ``2 ** (1 / 16)``.

    An adapted step size depends on the energies of the steps before, and they on it: without the
    grid a difference in the last digit (the order of a sum) grows to a different chain.
    """
    return 2.0 ** (round(16.0 * math.log2(step_size)) / 16.0)


class DualAveraging:
    """Step size adaptation of Hoffman & Gelman (2014), section 3.2.

    Parameters
    ----------
    step_size : float
        First guess.
    target : float
        Acceptance probability to reach.
    """

    def __init__(self, step_size, target):
        self.step_size = quantized_step_size(step_size)
        self._centre, self._target = math.log(10.0 * step_size), target
        self._error = self._average = 0.0
        self._t = 0

    def update(self, acceptance):
        """Adapt to the mean ``acceptance`` of one iteration."""
        self._t += 1
        self._error += 1.0 / (self._t + 10.0) * (self._target - acceptance - self._error)
        log_step = self._centre - math.sqrt(self._t) / 0.05 * self._error
        log_step = min(log_step, self._centre + _LONGEST)
        self._average += self._t**-0.75 * (log_step - self._average)
        self.step_size = quantized_step_size(math.exp(log_step))

    def freeze(self):
        """Use the averaged step size from now on."""
        if self._t:
            self.step_size = quantized_step_size(math.exp(self._average))


class Metric:
    """Linear coordinates ``theta = center + scale z`` in which a sampler moves.

    Parameters
    ----------
    scale : ndarray of shape (dim, dim) or (dim,), or 1, default=1
        A lower triangular matrix, a diagonal, or the identity.
    center : ndarray of shape (dim,), default=None
        Where z is 0; None while it is not known that z is about standard normal.
    """

    def __init__(self, scale=1.0, center=None):
        self.scale, self.center = scale, center
        self._inverse: Any = None
        if np.ndim(scale) == 2:
            self._inverse = solve_triangular(scale, np.eye(len(scale)), lower=True)

    def forward(self, z):
        """Displacements of theta for displacements ``z``, both of shape (m, dim)."""
        return z * self.scale if self._inverse is None else z @ self.scale.T

    def inverse(self, theta):
        """Displacements of z for those of theta."""
        return theta / self.scale if self._inverse is None else theta @ self._inverse.T

    def pull(self, score):
        """Scores with respect to z, from those with respect to theta."""
        return score * self.scale if self._inverse is None else score @ self.scale

    def refined(self, theta, score):
        """The metric that a window of a warm-up calls for.

        Parameters
        ----------
        theta, score : ndarray of shape (n, dim)
            States of all chains together, and their scores.

        Returns
        -------
        Metric
            Itself if the states say nothing: they have not moved, or have left for infinity.
        """
        n, dim = theta.shape
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            mean, pull = theta.mean(axis=0), score.mean(axis=0)
            z, score = self.inverse(theta - mean), self.pull(score - pull)
            scale = (np.mean(z**2, axis=0) / np.mean(score**2, axis=0)) ** 0.25
            z, score = z / scale, score * scale
            # Of what is decomposed below no entry is larger than the product of the two sums.
            if not np.isfinite(np.sum(z**2) * np.sum(score**2)):
                return self
        if dim > _DENSE_UP_TO:
            return _centred(self.forward(scale), mean, pull)
        # Few states leave directions unseen, and long tails leave some to rounding: the next window
        # goes on from there.
        shrinkage = max(0.25 * dim / n, 1e-7 * np.sum(z**2) / n) * np.eye(dim)
        root = cholesky(score.T @ score / n + shrinkage, lower=True)
        value, vector = eigh(root.T @ (z.T @ z / n + shrinkage) @ root)
        half = solve_triangular(root, vector * value**0.25, lower=True, trans="T")
        triangle = scale[:, None] * cholesky(half @ half.T, lower=True)
        return _centred(triangle if self._inverse is None else self.scale @ triangle, mean, pull)


def _centred(scale, mean, score):
    """The metric of this ``scale`` about where the mean score of a normal would be 0."""
    metric = Metric(scale)
    metric.center = mean + metric.forward(metric.pull(score))
    return metric


class MetricAdaptation:
    """The windows of a warm-up, at the end of each of which the metric is estimated again.

    A window is as long as all before it together, and at least a third of the warm-up is left for
    the step size that belongs to the last metric.

    Parameters
    ----------
    n_iterations : int
        Of the warm-up.
    """

    def __init__(self, n_iterations):
        self._n_iterations, self._iteration, self._window = n_iterations, 0, []

    def update(self, metric, theta, score):
        """Take in the states (chains, dim) of an iteration; the metric to go on with."""
        self._iteration += 1
        self._window.append((theta, score))
        windows, rest = divmod(self._iteration, _FIRST_WINDOW)
        if rest or windows.bit_count() != 1 or 3 * self._iteration > 2 * self._n_iterations:
            return metric
        theta, score = (np.concatenate(parts) for parts in zip(*self._window, strict=True))
        self._window = []
        return metric.refined(theta, score)
