"""Moments of chains whose Monte-Carlo error Stein's identities take away.

Under a density with score :math:`s` the expectations of :math:`s_j` and of
:math:`s_j z_k + \\delta_{jk}` are 0, so that a multiple of them may be subtracted from any average.
With the multiples of a linear regression the mean of a normal density comes out exactly, and its
covariance too, however few the draws (Mira, Solgi & Imparato 2013, "Zero variance Markov chain
Monte Carlo for Bayesian estimators"); near a normal most of the error goes.
"""

import numpy as np


def zero_variance_moments(draws, scores):
    """Mean and covariance of the density that was drawn from.

    Parameters
    ----------
    draws, scores : ndarray of shape (n, dim)
        The scores are of all rows of data.

    Returns
    -------
    mean : ndarray of shape (dim,)
    covariance : ndarray of shape (dim, dim)
    """
    residual = scores.mean(axis=0)
    centred, mean = scores - residual, draws.mean(axis=0)
    mean = mean - residual @ np.linalg.lstsq(centred, draws - mean)[0]
    z = draws - mean
    covariance = np.empty((len(mean), len(mean)))
    for j in range(len(mean)):
        product = z[:, j, None] * z
        identity = 0.5 * (scores[:, j, None] * z + z[:, j, None] * scores)
        identity[:, j] += 1.0
        residual = identity.mean(axis=0)
        identity -= residual
        spread = np.sum(identity**2, axis=0)
        slope = np.einsum("ij,ij->j", identity, product) / np.where(spread > 0.0, spread, 1.0)
        covariance[j] = product.mean(axis=0) - slope * residual
    return mean, 0.5 * (covariance + covariance.T)
