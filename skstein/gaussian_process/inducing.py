"""A Gaussian process seen through one set of inducing inputs, with a closed-form posterior.

Let ``k`` be the kernel without its white noise, ``Z`` the inducing inputs, ``k(Z, Z) = L L'`` and
``a(x) = L^-1 k(Z, x)``. The inducing values are ``L v`` with ``v ~ N(0, I)`` a priori, and

    f(x) = a(x)'v + e,    Var e = k(x, x) - |a(x)|^2.

What is said of ``e`` on the training rows makes the approximation; with noise variance s of a row

- "dtc" leaves it out: ``y ~ N(a'v, G)`` with ``G = s``;
- "fitc" takes it as independent noise: ``G = s + Var e``;
- "vfe" takes the expected log likelihood, so that ``log p`` of a row falls by ``Var e / (2 s)``.

In all three the posterior of v is normal, with precision ``R'R`` and mean ``R^-1 h``, R triangular,
and it stays so under a mirror step of any size. A step is a QR decomposition, of the rows of the
batch with the triangle that is there below them: the precision itself, whose condition number is
that of R squared, is never formed, and tiny noise does no harm. Predictions are

    mean = (R^-T a)'h,    variance = k(x, x) - |a|^2 + |R^-T a|^2.

Sources: Dai, He, Dai & Song (2016), appendix F.1, as corrected in the documentation;
Quinonero-Candela & Rasmussen (2005) for the approximations; Titsias (2009) for "vfe".
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dtpqrt
from sklearn.base import clone
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.utils import gen_batches

from .._tools.row_blocks import row_batches

JITTER = 1e-10  # of its mean diagonal, added to every kernel matrix of inducing inputs
_MOST_JITTER = 1e-4
_PANEL = 32  # columns that LAPACK's QR decomposition takes at a time
_EPS = np.finfo(np.float64).eps
_TINY = np.finfo(np.float64).tiny


class SplitKernel:
    """A kernel of scikit-learn, split into the process (``signal``) and each row's white noise.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    """

    def __init__(self, kernel):
        self.kernel = kernel
        self.signal = clone(kernel)
        parts = self.signal, *self.signal.get_params().values()
        white = [part for part in parts if isinstance(part, WhiteKernel)]
        for part in white:
            part.set_params(noise_level=0.0)
        self.is_noisy = bool(white)

    def noise(self, X):
        """Variance of the white noise, shape (n,)."""
        return np.maximum(self.kernel.diag(X) - self.signal.diag(X), 0.0)

    def noise_gradient(self, X):
        """Its gradient with respect to the kernel's ``theta``, shape (n, n_theta)."""
        result = np.zeros((len(X), self.kernel.n_dims))
        if self.is_noisy:
            # Kernels have no gradient of the diagonal alone; small blocks waste little.
            for rows in gen_batches(len(X), 64):
                result[rows] = _diagonal(self.kernel(X[rows], eval_gradient=True)[1])
                result[rows] -= _diagonal(self.signal(X[rows], eval_gradient=True)[1])
        return result


@dataclass(frozen=True)
class InducingPosterior:
    """Posterior of the whitened inducing values ``v`` at one set of inducing inputs.

    Parameters
    ----------
    inputs : ndarray of shape (M, n_features)
        ``Z``.
    root : ndarray of shape (M, M)
        ``L``, lower triangular.
    precision_root : ndarray of shape (M, M)
        ``R``, upper triangular, with a diagonal of any sign.
    shift : ndarray of shape (M, n_targets)
        ``h``.
    jitter : float
        What was added to k(Z, Z), as a share of its mean diagonal.
    """

    inputs: np.ndarray
    root: np.ndarray
    precision_root: np.ndarray
    shift: np.ndarray
    jitter: float

    @classmethod
    def prior(cls, split, inputs, n_targets):
        """The density before any data: ``v ~ N(0, I)``."""
        root, jitter = _root(split.signal(inputs))
        m = len(inputs)
        return cls(inputs, root, np.eye(m), np.zeros((m, n_targets)), jitter)

    def projected(self, split, X):
        """``a(x)`` of every row as columns, shape (M, n)."""
        # The transpose of a C-ordered matrix is what LAPACK takes without a copy.
        cross = split.signal(X, self.inputs).T
        return solve_triangular(self.root, cross, lower=True, overwrite_b=True, check_finite=False)

    def stepped(self, split, X, y, alpha, approximation, step=1.0, scale=1.0):
        """One step of mirror descent on (Z, v), in closed form for v.

        With the batch's likelihood l, of ``scale`` times as many rows, the density of v becomes
        proportional to ``q(v)^(1 - step) N(v; 0, I)^step l(v)^(step * scale)``.

        Parameters
        ----------
        split : SplitKernel
        X : ndarray of shape (n, n_features)
        y : ndarray of shape (n, n_targets)
        alpha : ndarray of shape (n,)
            Noise variance beyond the kernel's.
        approximation : {"dtc", "fitc", "vfe"}
        step : float
            In (0, 1].
        scale : float
            Number of rows in all by number of rows in the batch.

        Returns
        -------
        InducingPosterior
        log_normaliser : float
            Logarithm of the integral over v: by it ``log q(Z)`` changes, beyond its own power
            ``1 - step``. With ``step=1`` on all rows, the log marginal likelihood.
        """
        m, n_targets = self.shift.shape
        keep, count = 1.0 - step, step * scale
        # Triangle [R, h] of the least squares problem for v, with that of the residuals below it.
        triangle = np.zeros((m + n_targets, m + n_targets), order="F")
        penalty = 0.0
        for rows in row_batches(len(X), m):
            a = self.projected(split, X[rows])
            variance, remainder = self._variances(split, X[rows], alpha[rows], a, approximation)
            penalty += np.log(2.0 * np.pi * variance).sum()
            if approximation == "vfe":
                penalty += np.sum(remainder / variance)
            block = np.vstack([a, y[rows].T])
            block *= np.sqrt(count / variance)
            triangle = _stacked(triangle, block.T)
        # Rows of small weight keep their digits only below those of large weight.
        if keep > 0.0:
            before = np.sqrt(keep) * np.hstack([self.precision_root, self.shift])
            triangle = _stacked(triangle, before, m)
        triangle = _stacked(triangle, np.sqrt(step) * np.eye(m, m + n_targets), m)
        after = replace(self, precision_root=triangle[:m, :m], shift=triangle[:m, m:])
        log_normaliser = n_targets * (keep * self._log_root() - after._log_root())
        log_normaliser -= 0.5 * (np.sum(triangle[m:] ** 2) + n_targets * count * penalty)
        return after, log_normaliser

    def _log_root(self):
        """``log |det R|``."""
        return np.log(np.abs(np.diag(self.precision_root))).sum()

    def _variances(self, split, X, alpha, a, approximation):
        """Variances of the outcome given v, ``G``, and of ``e``, each of shape (n,)."""
        remainder = np.maximum(split.signal.diag(X) - np.einsum("ij,ij->j", a, a), 0.0)
        noise = split.noise(X) + alpha
        return noise + remainder if approximation == "fitc" else noise, remainder

    def weights(self):
        """Weights of ``k(Z, x)`` in the predicted mean, shape (M, n_targets)."""
        mean = solve_triangular(self.precision_root, self.shift, check_finite=False)
        return solve_triangular(self.root, mean, lower=True, trans="T", check_finite=False)

    def moments(self, split, X):
        """Mean (n, n_targets) and variance (n,) of f."""
        a = self.projected(split, X)
        prior = split.signal.diag(X)
        # Rounding leaves a variance known to so many digits only.
        variance = np.maximum(prior - np.einsum("ij,ij->j", a, a), _EPS * prior + _TINY)
        b = self._informed(a)
        return b.T @ self.shift, variance + np.einsum("ij,ij->j", b, b)

    def covariance(self, split, X):
        """Covariance of f between the rows of X, shape (n, n)."""
        a = self.projected(split, X)
        covariance = split.signal(X) - a.T @ a
        diagonal, least = np.diag_indices(len(X)), _EPS * split.signal.diag(X) + _TINY
        covariance[diagonal] = np.maximum(covariance[diagonal], least)
        b = self._informed(a)
        return covariance + b.T @ b

    def sample(self, split, X, v, rng, *, noisy):
        """Joint draws of the outcomes of some rows, or of f, for draws of v.

        ``v`` has shape (M, n_targets, n_samples), the result (n, n_targets, n_samples).
        """
        a, prior = self.projected(split, X), split.signal(X)
        # Where v leaves little open, rounding is not to make it indefinite.
        remainder = prior - a.T @ a + np.diag(JITTER * np.diag(prior) + _TINY)
        e = np.tensordot(_root(remainder)[0], rng.standard_normal((len(X), *v.shape[1:])), 1)
        noise = np.sqrt(split.noise(X) * noisy)[:, None, None]
        return np.tensordot(a, v, (0, 0)) + e + noise * rng.standard_normal(e.shape)

    def sample_values(self, n_samples, rng):
        """Draws of v, shape (M, n_targets, n_samples)."""
        m, n_targets = self.shift.shape
        noise = rng.standard_normal((m, n_targets, n_samples))
        h = (self.shift[:, :, None] + noise).reshape(m, -1)
        return solve_triangular(self.precision_root, h, check_finite=False).reshape(noise.shape)

    def _informed(self, a):
        return solve_triangular(self.precision_root, a, trans="T", check_finite=False)


def log_marginal_likelihood(split, inputs, X, y, alpha, approximation, eval_gradient=False):
    """Logarithm of the density of y under the sparse approximation, and its gradient.

    The gradient is that of ``log N(y; 0, P)``, ``P = Q + diag(G)``, ``Q = T'k(Z, Z) T``,
    ``T = k(Z, Z)^-1 k(Z, X)``, by the chain rule backwards: from the derivative ``W`` with respect
    to Q follow ``2 T W`` for k(Z, X) and ``-T W T'`` for k(Z, Z). Kernels give derivatives of
    square matrices only, so that rows come in blocks beside Z; memory does not grow with n.

    Parameters
    ----------
    split, X, y, alpha, approximation
        As in `InducingPosterior.stepped`.
    inputs : ndarray of shape (M, n_features)
    eval_gradient : bool, default=False

    Returns
    -------
    value : float
    gradient : ndarray of shape (n_theta,)
        Zeros unless ``eval_gradient``.
    """
    m, n_targets = len(inputs), y.shape[1]
    posterior = InducingPosterior.prior(split, inputs, n_targets)
    posterior, value = posterior.stepped(split, X, y, alpha, approximation)
    gradient = np.zeros(split.kernel.n_dims)
    if not eval_gradient:
        return value, gradient

    def back(right):
        return solve_triangular(posterior.root, right, lower=True, trans="T", check_finite=False)

    def explained(rows):
        """``a``, variances, ``R^-T a``, and ``P^-1 y`` up to the rounding of y - a'v."""
        a = posterior.projected(split, X[rows])
        variance, remainder = posterior._variances(split, X[rows], alpha[rows], a, approximation)
        b = posterior._informed(a)
        return a, variance, remainder, b, (y[rows] - b.T @ posterior.shift) / variance[:, None]

    weights = posterior.weights()
    # What small noise makes of that rounding shows in a P^-1 y, which is the mean of v.
    excess = -posterior.root.T @ weights
    for rows in gen_batches(len(X), m):
        a, *_, residual = explained(rows)
        excess += a @ residual
    excess = posterior._informed(excess)
    inducing_bar = np.zeros((m, m))
    for rows in gen_batches(len(X), m):
        a, variance, remainder, b, residual = explained(rows)
        residual -= b.T @ excess / variance[:, None]
        t = back(a)
        # The row's own derivative: (P^-1 y)^2 - diag(P^-1), halved.
        shrinkage = 1.0 - np.einsum("ij,ij->j", b, b) / variance
        variance_bar = 0.5 * (np.sum(residual**2, axis=1) - n_targets * shrinkage / variance)
        cross_bar = weights @ residual.T
        inner = solve_triangular(posterior.precision_root, b / variance, check_finite=False)
        cross_bar -= n_targets * back(inner)
        signal_bar = np.zeros(len(a.T))
        if approximation == "fitc":
            signal_bar = variance_bar
        elif approximation == "vfe":
            signal_bar = -0.5 * n_targets / variance
            variance_bar = variance_bar + 0.5 * n_targets * remainder / variance**2
        cross_bar -= 2.0 * t * signal_bar
        inducing_bar -= 0.5 * cross_bar @ t.T

        derivative = split.signal(np.vstack([inputs, X[rows]]), eval_gradient=True)[1]
        gradient += np.einsum("ij,ijp->p", cross_bar, derivative[:m, m:])
        gradient += signal_bar @ _diagonal(derivative[m:, m:])
        gradient += variance_bar @ split.noise_gradient(X[rows])
    derivative = split.signal(inputs, eval_gradient=True)[1]
    gradient += np.einsum("ij,ijp->p", inducing_bar, derivative)
    gradient += posterior.jitter * np.trace(inducing_bar) * _diagonal(derivative).mean(axis=0)
    return value, gradient


def _diagonal(derivative):
    """Derivatives (n, n_theta) of the diagonal, from those of the matrix."""
    return np.einsum("iip->ip", derivative)


def _stacked(triangle, rows, n_triangular=0):
    """Triangle of the QR decomposition of a triangle with ``rows`` below it.

    The last ``n_triangular`` of the rows are zero below their diagonal.
    """
    panel = min(_PANEL, len(triangle))
    return dtpqrt(n_triangular, panel, triangle, rows, overwrite_a=1, overwrite_b=1)[0]


def _root(matrix):
    """Lower Cholesky factor, with more and more added to the diagonal until there is one.

    Returns the factor and the share of the mean diagonal that was added.
    """
    mean = np.trace(matrix) / len(matrix)
    jitter = JITTER
    while jitter < _MOST_JITTER:
        try:
            raised = matrix + jitter * mean * np.eye(len(matrix))
            return cholesky(raised, lower=True, check_finite=False), jitter
        except np.linalg.LinAlgError:
            jitter *= 10.0
    raise np.linalg.LinAlgError("the kernel matrix of the inducing inputs is not positive definite")
