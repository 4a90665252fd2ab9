"""Moments of chains whose Monte-Carlo error Stein's identities take away, and what is left of it.

Under a density with score :math:`s` the expectations of :math:`s_j` and of
:math:`s_j z_k + \\delta_{jk}` are 0, so that a multiple of them may be subtracted from any average.
With the multiples of a linear regression the mean of a normal density comes out exactly, and the
covariance of one without correlations, however few the draws (Mira, Solgi & Imparato 2013, "Zero
variance Markov chain Monte Carlo for Bayesian estimators" (doi:10.1007/s11222-012-9344-6)); near a
normal most of the error goes.
"""

import numpy as np
from scipy.sparse import diags_array
from scipy.stats import kurtosis

from ...diagnostics import ENOUGH_DRAWS, mcse_mean, mcse_sd
from ...targets.laplace_at_mode import DIAGONAL_ABOVE
from ...thinning.moments import match_moments

_OUTER = np.array([0.05, 0.95])
_DRAWS_A_COORDINATE = 4  # fewer do not tell a covariance
_LEAST_POINTS = 50  # whose quantiles follow their moments
_CONTRADICTION = 4.5  # standard errors of a moment of the draws
_FAR_OFF = 0.08  # of a standard deviation
_MAX_KURTOSIS = 8.0  # of a normal density it is 3, of a t of five degrees of freedom 9
_FEW = 100
_TINY = np.finfo(float).tiny
_STEP = 0.025  # in probability, over which the density at a quantile is taken


def zero_variance_moments(draws, scores):
    """Mean and covariance of the density that was drawn from.

    Parameters
    ----------
    draws : ndarray of shape (n, dim)
    scores : ndarray of shape (n, dim) or None
        Of all rows of data; without them the moments are those of the draws.

    Returns
    -------
    mean : ndarray of shape (dim,)
    covariance : ndarray of shape (dim, dim)
    """
    if scores is None:
        return draws.mean(axis=0), np.atleast_2d(np.cov(draws.T, ddof=0))
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
    s, z = scores - scores.mean(axis=0), draws - draws.mean(axis=0)
    if draws.shape[1] > DIAGONAL_ABOVE:
        square = np.maximum(np.square(s).sum(axis=0), _TINY)
        return diags_array(np.sum(z * scores, axis=0) / square)
    return np.linalg.lstsq(s.T @ s, s.T @ z)[0]


def _margins(draws, scores):
    """Mean and standard deviation of each coordinate, by its own identities where scores are."""
    mean = draws.mean(axis=0)
    if scores is None:
        return mean, draws.std(axis=0)
    z = draws - mean
    move, square = _without(np.stack([z, z**2]), scores, scores * z + 1.0).mean(axis=1)
    return mean + move, np.sqrt(np.maximum(square - move**2, _TINY))


def move_to_moments(posterior, target, draws, scores):
    """Move a few of many draws by the little that gives them zero-variance moments.

    Where points or draws are too few for a covariance, the moments are those of each coordinate;
    where tails are heavy, the mean alone. The points stay where they are very few, do not vary in
    every direction, or the move would lead out of the support of the density; and where the
    identities contradict the draws, as they do if the density jumps.

    Parameters
    ----------
    posterior : ParticlePosterior
        Of equal weights; without log densities and scores once its particles have moved.
    target : WorkingTarget
    draws, scores : ndarray of shape (n_chains, n_draws, dim)
        All draws; ``scores`` are not used where they are those of minibatches, for the greater part
        noise.

    Returns
    -------
    bool
        Whether draws and identities agree about means and standard deviations.
    """
    few = draws.shape[1] < ENOUGH_DRAWS
    errors = (np.inf, np.inf) if few else (mcse_mean(draws), mcse_sd(draws))
    draws, scores = (part.reshape(-1, part.shape[2]) for part in (draws, scores))
    points = posterior.particles
    enough = len(points) >= 2 * target.dim and len(draws) >= _DRAWS_A_COORDINATE * target.dim
    if not enough and len(points) < _LEAST_POINTS:
        return True
    scores = None if target.stochastic else scores
    moments_of = zero_variance_moments if enough else _margins
    try:
        mean, spread = moments_of(draws, scores)
        heavy = kurtosis(draws, axis=0, fisher=False).max() > _MAX_KURTOSIS
        std = draws.std(axis=0)
        excess = (np.sqrt(np.diagonal(spread)) if enough else spread) - std
        wider = (np.abs(excess) > _CONTRADICTION * errors[1]) & (np.abs(excess) > _FAR_OFF * std)
        other = np.abs(mean - draws.mean(axis=0)) > _CONTRADICTION * errors[0]
        if (other | (wider & ~heavy)).any():
            return False
        if heavy:
            # A few draws far out are most of such a spread, and not of where draws lie.
            moved = points + (mean - points.mean(axis=0))
        elif enough:
            moved = match_moments(points, mean, spread)
        else:
            moved = mean + (points - points.mean(axis=0)) * (spread / points.std(axis=0))
    except np.linalg.LinAlgError:
        return True
    # After minibatches a few have to do, which are asked on all rows.
    asked = moved[:: -(-len(moved) // _FEW)] if target.stochastic else moved
    if np.isfinite(target.log_density(asked)).all():
        posterior.particles, posterior.log_densities, posterior.scores = moved, None, None
    return True


def monte_carlo_errors(draws, scores):
    """What is left of the error of moments and of quantiles where Stein's identities are used.

    Parameters
    ----------
    draws : ndarray of shape (n_chains, n_draws, dim)
    scores : ndarray of the same shape, or None
        None for draws as they are; so it is if squares of scores overflow.

    Returns
    -------
    mean, quantile : ndarray of shape (dim,)
        Standard errors in standard deviations of the draws, 0 where a coordinate never moved: of
        the mean, and the larger of those of the 5 and the 95 % point.
    """
    dim = draws.shape[2]
    flat = draws.reshape(-1, dim)
    std = flat.std(axis=0)
    std = np.where(std > 0.0, std, 1.0)
    z = (flat - flat.mean(axis=0)) / std
    ends = np.quantile(z, np.add.outer(_OUTER, [-_STEP, 0.0, _STEP]), axis=0)
    width = (ends[:, 2] - ends[:, 0]) / (2.0 * _STEP)
    below = (z <= ends[:, 1, None]).astype(float)
    t = np.inf if scores is None else scores.reshape(-1, dim) * std
    if np.isfinite(np.square(t * (1.0 + np.abs(z))).sum() ** 2):
        below = _without(below, t, t * z + 1.0)
        z = z - t @ _slopes(z, t)
    each = np.stack([z, *below], axis=1).reshape(*draws.shape[:2], -1)
    mean, *quantiles = mcse_mean(each).reshape(3, dim)
    return np.nan_to_num(mean), np.nan_to_num(np.max(width * quantiles, axis=0))


def _without(values, first, second):
    """``values`` (k, n, dim) less regressions on two others of mean 0, of shape (n, dim)."""
    a, b = (part - part.mean(axis=0) for part in (first, second))
    aa, ab, bb = (np.einsum("ij,ij->j", *pair) for pair in ((a, a), (a, b), (b, b)))
    av, bv = (np.einsum("ij,kij->kj", part, values)[:, None] for part in (a, b))
    det = aa * bb - ab**2
    det = np.where(det > 0.0, det, np.inf)
    left = values - first * ((bb * av - ab * bv) / det)
    left -= second * ((aa * bv - ab * av) / det)
    return left
