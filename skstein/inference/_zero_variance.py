"""Moments of chains whose Monte-Carlo error Stein's identities take away, and what is left of it.

Under a density with score :math:`s` the expectations of :math:`s_j` and of
:math:`s_j z_k + \\delta_{jk}` are 0, so that a multiple of them may be subtracted from any average.
With the multiples of a linear regression the mean of a normal density comes out exactly, and its
covariance too, however few the draws (Mira, Solgi & Imparato 2013, "Zero variance Markov chain
Monte Carlo for Bayesian estimators"); near a normal most of the error goes.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import diags_array
from scipy.stats import kurtosis

from ..diagnostics import mcse_mean
from ..targets.newton import DIAGONAL_ABOVE
from ..thinning.moments import recalibrated

_OUTER = np.array([0.05, 0.95])
_DRAWS_A_COORDINATE = 4  # fewer do not tell a covariance
_MAX_KURTOSIS = 8.0  # of a normal density it is 3, of a t of five degrees of freedom 9
_TINY = np.finfo(float).tiny
_STEP = 0.025  # in probability, over which the density at a quantile is taken


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
    mean = draws.mean(axis=0) - scores.mean(axis=0) @ _slopes(draws, scores)
    z, n = draws - mean, len(draws)
    # The sums over draws of products of the identities (s_j z_k + s_k z_j) / 2 + delta_jk with
    # themselves and with z_j z_k are sums of products of matrices.
    product, both, squares = z.T @ z / n, scores * z, z**2
    cross = both.T @ squares
    size = (scores**2).T @ squares
    identity = scores.T @ z / n
    identity = 0.5 * (identity + identity.T)
    with_product = 0.5 * (cross + cross.T) / n - identity * product
    with_itself = (0.25 * (size + size.T) + 0.5 * both.T @ both) / n - identity**2
    slope = with_product / np.where(with_itself > 0.0, with_itself, np.inf)
    return mean, product - slope * (identity + np.eye(len(mean)))


def _slopes(draws, scores):
    """Of the regression of draws on scores, shape (dim, dim); of very many each on its own."""
    if draws.shape[1] > DIAGONAL_ABOVE:
        square = np.square(scores - scores.mean(axis=0)).sum(axis=0)
        slope = np.sum((draws - draws.mean(axis=0)) * scores, axis=0) / np.maximum(square, _TINY)
        return diags_array(slope)
    centred = scores - scores.mean(axis=0)
    return np.linalg.lstsq(centred.T @ centred, centred.T @ (draws - draws.mean(axis=0)))[0]


def moved_to_moments(points, target, draws, scores):
    """A few of many draws, moved by the little that gives them the moments of the density.

    Where tails are heavy they are given its mean alone.

    Parameters
    ----------
    points : ndarray of shape (m, dim)
    target : WorkingTarget
    draws, scores : ndarray of shape (n, dim)
        All draws; ``scores`` are not used where they are those of minibatches, for the greater part
        noise.

    Returns
    -------
    ndarray of shape (m, dim), or None
        None where the points should stay: they are too few to carry a covariance, the draws too few
        to tell it, or the move would lead out of the support of the density.
    """
    if len(points) < 2 * target.dim or len(draws) < _DRAWS_A_COORDINATE * target.dim:
        return None
    try:
        if target.stochastic:
            moments = draws.mean(axis=0), np.atleast_2d(np.cov(draws.T, ddof=0))
        else:
            moments = zero_variance_moments(draws, scores)
        if kurtosis(draws, axis=0, fisher=False).max() > _MAX_KURTOSIS:
            # A few draws far out are most of such a covariance, and not of where draws lie.
            moved = points + (moments[0] - points.mean(axis=0))
        else:
            moved = recalibrated(points, *moments)
    except np.linalg.LinAlgError:
        return None
    return moved if np.isfinite(target.log_density(moved)).all() else None


class MonteCarloErrors(NamedTuple):
    """Standard errors by coordinate, in standard deviations of the draws, each of shape (dim,)."""

    mean: np.ndarray
    quantile: np.ndarray  # the larger of those of the 5 and the 95 % point


def monte_carlo_errors(draws, scores):
    """What is left of the error of moments and of quantiles where Stein's identities are used.

    Parameters
    ----------
    draws : ndarray of shape (n_chains, n_draws, dim)
    scores : ndarray of the same shape, or None
        None for draws as they are.

    Returns
    -------
    MonteCarloErrors
    """
    n_chains, n_draws, dim = draws.shape
    std = draws.std(axis=(0, 1))
    std = np.where(std > 0.0, std, 1.0)
    z = (draws - draws.mean(axis=(0, 1))) / std
    ends = np.quantile(z, np.add.outer(_OUTER, [-_STEP, 0.0, _STEP]), axis=(0, 1))
    below = (z <= ends[:, 1, None, None]).astype(float)
    width = (ends[:, 2] - ends[:, 0]) / (2.0 * _STEP)
    if scores is not None:
        flat = z.reshape(-1, dim)
        t = scores.reshape(-1, dim) * std
        z = (flat - t @ _slopes(flat, t)).reshape(z.shape)
        product = t * flat
        below = np.stack([_without(part.reshape(-1, dim), t, product) for part in below])
        below = below.reshape(2, n_chains, n_draws, dim)
    quantile = np.max(
        [slope * mcse_mean(part) for slope, part in zip(width, below, strict=True)], axis=0
    )
    return MonteCarloErrors(_known(mcse_mean(z)), _known(quantile))


def _without(values, first, second):
    """What is left of ``values`` after a regression on two others, each of shape (n, dim)."""
    values, first, second = (part - part.mean(axis=0) for part in (values, first, second))
    aa, ab, bb = (
        np.einsum("ij,ij->j", *pair) for pair in ((first, first), (first, second), (second, second))
    )
    av, bv = np.einsum("ij,ij->j", first, values), np.einsum("ij,ij->j", second, values)
    det = aa * bb - ab**2
    det = np.where(det > 0.0, det, np.inf)
    return values - first * ((bb * av - ab * bv) / det) - second * ((aa * bv - ab * av) / det)


def _known(error):
    """Errors, 0 where a coordinate never moved."""
    return np.nan_to_num(error, nan=0.0)
