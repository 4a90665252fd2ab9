"""A kernel density estimate that keeps the mean, the variance and separated modes of its particles.

Gaussian kernels with the full covariance of their group and Silverman's bandwidth h; each centre is
shrunk towards its group's mean by ``sqrt(1 - h^2)``, so that draws have the group's covariance and
not ``1 + h^2`` times it (Liu & West 2001). Groups come from a Gaussian mixture chosen by BIC.
"""

import warnings

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

_MAX_GROUPS = 4
_ENOUGH = 300  # particles that show whether there are separated groups
_BUFFER = 8 * 2**20  # elements of one block of the m x m distances


class KernelDensity:
    """Kernel density estimate of equally weighted particles.

    Parameters
    ----------
    theta : ndarray of shape (m, dim)
    rng : numpy.random.Generator
        Only for the start of the mixture that finds the groups.
    """

    def __init__(self, theta, rng):
        m, dim = theta.shape
        self.bandwidth = (4.0 / ((dim + 2.0) * m)) ** (1.0 / (dim + 4.0))
        self._groups = []  # (centres, lower factor of the kernel's covariance) of each group
        labels = _groups(theta, rng)
        for label in np.unique(labels):
            group = theta[labels == label]
            mean = group.mean(axis=0)
            shrunk = mean + np.sqrt(1.0 - self.bandwidth**2) * (group - mean)
            self._groups.append((shrunk, self.bandwidth * _factor(group - mean)))

    def sample(self, rng):
        """One draw from each kernel, shape (m, dim)."""
        draws = [
            centres + rng.standard_normal(centres.shape) @ factor.T
            for centres, factor in self._groups
        ]
        return np.concatenate(draws)

    def log_density(self, theta):
        """Log density at each row of ``theta``, shape (n,); the buffer stays below 64 MB."""
        dim = theta.shape[1]
        m = sum(len(centres) for centres, _ in self._groups)
        result = np.full(len(theta), -np.inf)
        size = max(1, _BUFFER // m)
        for start in range(0, len(theta), size):
            piece = slice(start, min(start + size, len(theta)))
            for centres, factor in self._groups:
                x = solve_triangular(factor, theta[piece].T, lower=True).T
                c = solve_triangular(factor, centres.T, lower=True).T
                values = x @ c.T
                values -= 0.5 * np.einsum("ij,ij->i", x, x)[:, None]
                values -= 0.5 * np.einsum("ij,ij->i", c, c)
                part = _log_sum_exp(values) - np.log(factor.diagonal()).sum()
                result[piece] = np.logaddexp(result[piece], part)
        return result - np.log(m) - 0.5 * dim * np.log(2 * np.pi)


def _log_sum_exp(values):
    """Along the rows, in place: SciPy's function copies the array several times."""
    top = values.max(axis=1)
    values -= top[:, None]
    return top + np.log(np.exp(values, out=values).sum(axis=1))


def _groups(theta, rng):
    """A label for each particle, from the Gaussian mixture with the smallest BIC."""
    m, dim = theta.shape
    scale = theta.std(axis=0)
    scaled = (theta - theta.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    sample = scaled[rng.permutation(m)[:_ENOUGH]]
    seed = int(rng.integers(2**31))
    best, labels = np.inf, np.zeros(m, dtype=int)
    for k in range(1, _MAX_GROUPS + 1):
        if len(sample) < 4 * k * (dim + 1):
            break
        mixture = GaussianMixture(k, reg_covar=1e-6, tol=1e-2, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            bic = mixture.fit(sample).bic(sample)
        found = mixture.predict(scaled)
        # A group must be able to carry a covariance of its own.
        if bic >= best or np.bincount(found, minlength=k).min() <= 2 * dim:
            break
        best, labels = bic, found
    return labels


def _factor(centred):
    """Lower Cholesky factor of the covariance, with a ridge when it is singular."""
    covariance = centred.T @ centred / len(centred)
    ridge = 0.0
    while True:
        try:
            return cholesky(covariance + ridge * np.eye(len(covariance)), lower=True)
        except LinAlgError:
            ridge = max(1e-10 * max(np.trace(covariance) / len(covariance), 1e-300), 10 * ridge)
