"""Kernel density estimates of weighted particles, and draws from them.

The kernels are Gaussian. By default each has the full covariance of its group and Silverman's
bandwidth h; every centre is shrunk towards its group's mean by ``sqrt(1 - h^2)``, so that draws
have the group's covariance and not ``1 + h^2`` times it (Liu & West 2001). Separated modes are
groups of their own (`gaussian_mixture.py`). With h = 1 the kernels of a group are one Gaussian.

The draws of each group are moved affinely so that their mean and covariance are those of the
weighted particles exactly, and the kernels are moved with them: a long sequence of estimates, each
made from draws of the one before, then does not wander off by its sampling error.
"""

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ..._statistics.resampling import systematic_resampling
from .gaussian_mixture import find_groups

_ENOUGH = 300  # particles that show whether there are separated groups
_BUFFER = 8 * 2**20  # elements of one block of the distances: 64 MB


class KernelDensity:
    """Kernel density estimate.

    Parameters
    ----------
    kernels : list of (log_weights, centres, factor)
        Log weights (k,), centres (k, dim) and lower factor (dim, dim) of the covariance of kernels
        that share it; all weights together sum to 1.
    """

    def __init__(self, kernels):
        self.kernels = kernels

    def log_density(self, theta):
        """Log density at each row of ``theta``, shape (n,); the buffer stays below 64 MB."""
        n, dim = theta.shape
        result = np.full(n, -np.inf)
        for log_weights, centres, factor in self.kernels:
            x = solve_triangular(factor, theta.T, lower=True).T
            c = solve_triangular(factor, centres.T, lower=True).T
            offset = log_weights - 0.5 * np.einsum("ij,ij->i", c, c)
            offset -= np.log(factor.diagonal()).sum() + 0.5 * dim * np.log(2 * np.pi)
            buffer = np.empty((min(n, max(1, _BUFFER // len(c))), len(c)))
            for start in range(0, n, len(buffer)):
                rows = slice(start, min(start + len(buffer), n))
                values = np.matmul(x[rows], c.T, out=buffer[: rows.stop - start])
                values += offset
                part = _log_sum_exp(values) - 0.5 * np.einsum("ij,ij->i", x[rows], x[rows])
                result[rows] = np.logaddexp(result[rows], part)
        return result


def grouped_draws(theta, weights, n_draws, rng, bandwidth=None):
    """Draws of the estimate with a full covariance for each group, shrunk towards its mean.

    Parameters
    ----------
    theta : ndarray of shape (m, dim)
    weights : ndarray of shape (m,)
        Summing to 1.
    n_draws : int
    rng : numpy.random.Generator
    bandwidth : float, default=None
        In (0, 1], in standard deviations of the group; by default Silverman's for the effective
        sample size.

    Returns
    -------
    draws : ndarray of shape (n_draws, dim)
    density : KernelDensity
        What they are draws of.
    """
    dim = theta.shape[1]
    h = _silverman(weights, dim) if bandwidth is None else bandwidth
    sample = systematic_resampling(weights, min(len(theta), _ENOUGH), rng)
    labels = find_groups(theta, weights, sample)
    # Sorted along one coordinate, neighbours in the cumulative sum are neighbours in space.
    order = np.lexsort((theta[:, 0], labels))
    chosen = order[systematic_resampling(weights[order], n_draws, rng)]
    draws, kernels = [], []
    for label in np.unique(labels[chosen]):
        members, parents = labels == label, chosen[labels[chosen] == label]
        share = weights[members] / weights[members].sum()
        mean = share @ theta[members]
        factor = _factor(theta[members] - mean, share, np.abs(mean).max())
        noise = rng.standard_normal((len(parents), dim)) @ factor.T
        centred = np.sqrt(1.0 - h**2) * (theta[parents] - mean) + h * noise
        shift, matrix = matching(centred, factor)
        draws.append(mean + (centred - shift) @ matrix.T)
        if h < 1.0:
            centres = np.sqrt(1.0 - h**2) * (theta[members] - mean)
        else:
            centres, share = np.zeros((1, dim)), np.ones(1)
        with np.errstate(divide="ignore"):
            log_weights = np.log(share * (len(parents) / n_draws))
        kernels.append((log_weights, mean + (centres - shift) @ matrix.T, h * matrix @ factor))
    return np.concatenate(draws), KernelDensity(kernels)


def plain_draws(theta, weights, n_draws, rng, bandwidth=None):
    """Draws of the estimate with one round kernel, as published; arguments as `grouped_draws`.

    The bandwidth is in units of ``theta``, ``m ** (-1 / (dim + 2))`` by default: theorem 4 of Dai,
    He, Dai & Song (2016) for a Gaussian kernel.
    """
    m, dim = theta.shape
    h = m ** (-1.0 / (dim + 2.0)) if bandwidth is None else bandwidth
    chosen = systematic_resampling(weights, n_draws, rng)
    draws = theta[chosen] + h * rng.standard_normal((n_draws, dim))
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return draws, KernelDensity([(log_weights, theta, h * np.eye(dim))])


def defensive_draws(theta, weights, n_draws, rng):
    """Draws to be weighted: half of the kernel estimate, half of the Gaussians of its groups.

    The Gaussians keep the weights even where the posterior is close to normal and has many
    coordinates, the kernels bound them where it is not. Arguments and results as `grouped_draws`.
    """
    counts = n_draws // 2, n_draws - n_draws // 2
    draws, kernels = [], []
    for count, bandwidth in zip(counts, (None, 1.0), strict=True):
        part, density = grouped_draws(theta, weights, count, rng, bandwidth)
        draws.append(part)
        share = np.log(count / n_draws)
        kernels += [(share + log_w, centres, factor) for log_w, centres, factor in density.kernels]
    return np.concatenate(draws), KernelDensity(kernels)


def _silverman(weights, dim):
    return min(1.0, (4.0 * np.sum(weights**2) / (dim + 2.0)) ** (1.0 / (dim + 4.0)))


def _log_sum_exp(values):
    """Along the rows, in place: SciPy's function copies the array several times."""
    top = values.max(axis=1)
    values -= top[:, None]
    return top + np.log(np.exp(values, out=values).sum(axis=1))


def matching(centred, factor):
    """Shift and matrix that give the rows mean 0 and the covariance of ``factor`` exactly."""
    n, dim = centred.shape
    if n <= 2 * dim:
        return np.zeros(dim), np.eye(dim)
    shift = centred.mean(axis=0)
    found = _factor(centred - shift, np.full(n, 1.0 / n))
    return shift, solve_triangular(found, factor.T, lower=True, trans="T").T


def _factor(centred, weights, size=0.0):
    """Lower Cholesky factor of the weighted covariance, with a ridge when it is singular.

    Particles that do not differ are taken to, by what is small against their ``size``.
    """
    covariance = centred.T @ (weights[:, None] * centred)
    ridge = 0.0
    while True:
        try:
            return cholesky(covariance + ridge * np.eye(len(covariance)), lower=True)
        except LinAlgError:
            least = max(1e-10 * np.trace(covariance) / len(covariance), (1e-8 * size) ** 2, 1e-300)
            ridge = max(least, 10 * ridge)
