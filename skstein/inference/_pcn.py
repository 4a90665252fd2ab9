"""Preconditioned Crank-Nicolson moves of a population: gradient-free, and local."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

_REFITS = (0, 3, 7, 12)
_INFLATION = 1.1
_ACCEPTANCE = 0.3


def pcn_sweeps(log_density, theta, n_sweeps, rng):
    """Move every particle ``n_sweeps`` times, leaving the target invariant.

    The proposal ``mu + sqrt(1 - b^2) (theta - mu) + b L xi`` is reversible for the Gaussian
    phi = N(mu, L L'), fitted to the population and slightly inflated, so that the Metropolis ratio
    is that of density over phi (Cotter, Roberts, Stuart & White 2013). phi is refitted in the first
    sweeps and ``b`` adapted in the first half; the rest leaves the target exactly invariant. The
    moves are local: they do not repair the masses of separated modes.

    Parameters
    ----------
    log_density : callable
        ``log_density(theta) -> (m,)``.
    theta : ndarray of shape (m, dim)
        Equally weighted particles.
    n_sweeps : int
    rng : numpy.random.Generator

    Returns
    -------
    theta : ndarray of shape (m, dim)
    acceptance : float
        In the last sweep.
    """
    m, dim = theta.shape
    value = log_density(theta)
    log_b = np.log(0.5)
    for sweep in range(n_sweeps):
        if sweep in _REFITS:
            mean = theta.mean(axis=0)
            covariance = np.atleast_2d(np.cov(theta.T)) + 1e-12 * np.eye(dim)
            factor = cholesky(_INFLATION * covariance, lower=True)
        b = min(np.exp(log_b), 1.0)
        centred = solve_triangular(factor, (theta - mean).T, lower=True).T
        moved = np.sqrt(1.0 - b**2) * centred + b * rng.standard_normal((m, dim))
        proposal = mean + moved @ factor.T
        new = log_density(proposal)
        reference = 0.5 * (
            np.einsum("ij,ij->i", moved, moved) - np.einsum("ij,ij->i", centred, centred)
        )
        with np.errstate(invalid="ignore"):
            change = np.nan_to_num(new - value + reference, nan=-np.inf)
        accept = np.log(rng.random(m)) < change
        theta = np.where(accept[:, None], proposal, theta)
        value = np.where(accept, new, value)
        acceptance = accept.mean()
        if sweep < max(n_sweeps // 2, _REFITS[-1] + 1):
            log_b += 1.0 / (1 + sweep) ** 0.5 * (acceptance - _ACCEPTANCE)
    return theta, acceptance
