"""Preconditioned Crank-Nicolson moves of a population: gradient-free, and local."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

_REFITS = (0, 3, 7, 12)
_ADAPTATION = 20
# Wider than the population: with a reference of its own width the tails of a skewed target would be
# proposed so rarely that the population stays too narrow.
_INFLATION = 1.5
_ACCEPTANCE = 0.3


def pcn_moves(log_density, theta, copies, n_moves, rng):
    """Move every particle ``n_moves`` times, leaving the target invariant.

    The proposal ``mu + sqrt(1 - b^2) (theta - mu) + b L xi`` is reversible for the Gaussian
    phi = N(mu, L L'), fitted to the population and inflated, so that the Metropolis ratio is that
    of density over phi (Cotter, Roberts, Stuart & White 2013). phi is refitted and ``b`` adapted
    in the first moves; the rest leaves the target exactly invariant. The moves are local: they do
    not repair the masses of separated modes.

    Copies of one particle carry its sampling error until they have drifted apart: with correlation
    r between where particles are and were, the variance of a mean is about ``1 + copies r^2`` times
    that of independent particles. The excess is returned as the memory.

    Parameters
    ----------
    log_density : callable
        ``log_density(theta) -> (m,)``.
    theta : ndarray of shape (m, dim)
        Equally weighted particles.
    copies : float
        How many copies of a particle there are on average.
    n_moves : int
    rng : numpy.random.Generator

    Returns
    -------
    theta : ndarray of shape (m, dim)
    memory : float
        ``copies r^2`` at the end, r^2 averaged over coordinates.
    """
    m, dim = theta.shape
    start = theta - theta.mean(axis=0)
    value = log_density(theta)
    log_b = np.log(0.5)
    for move in range(n_moves):
        if move in _REFITS:
            mean = theta.mean(axis=0)
            covariance = np.atleast_2d(np.cov(theta.T))
            if not np.isfinite(covariance).all():
                raise FloatingPointError(
                    "the particles are too far apart for floating point; use a prior with lighter "
                    "tails, or another engine."
                )
            covariance += 1e-12 * np.diag(1.0 + covariance.diagonal())
            factor = cholesky(_INFLATION * covariance, lower=True)
        b = min(np.exp(log_b), 1.0)
        centred = solve_triangular(factor, (theta - mean).T, lower=True).T
        moved = np.sqrt(1.0 - b**2) * centred + b * rng.standard_normal((m, dim))
        proposal = mean + moved @ factor.T
        new = log_density(proposal)
        reference = 0.5 * (np.sum(moved**2, axis=1) - np.sum(centred**2, axis=1))
        with np.errstate(invalid="ignore"):
            change = np.nan_to_num(new - value + reference, nan=-np.inf)
        accept = np.log(rng.random(m)) < change
        theta = np.where(accept[:, None], proposal, theta)
        value = np.where(accept, new, value)
        if move < _ADAPTATION:
            log_b += (accept.mean() - _ACCEPTANCE) / np.sqrt(1.0 + move)
    end = theta - theta.mean(axis=0)
    overlap = np.sum(start * end, axis=0) ** 2
    squares = np.sum(start**2, axis=0) * np.sum(end**2, axis=0)
    # Copies of a single particle vary in nothing: no move has parted them.
    return theta, copies * np.divide(overlap, squares, out=np.ones(dim), where=squares > 0.0).mean()
