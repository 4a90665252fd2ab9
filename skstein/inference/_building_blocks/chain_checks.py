"""Faults of chains, and of the points that stand for their draws."""

import numpy as np

from ..._statistics.quantiles import quantile_misfit
from ...targets.bijections import Affine
from ...targets.transformed import of_model

MAX_DIVERGENT = 0.01  # share of the chains' draws


def draws_misfit(posterior, state, target):
    """Largest error of quantiles of points that stand for draws of chains, if coordinates bend.

    0 if they do not: then means and covariances tell.
    """
    if target.bijection is None or isinstance(target.bijection, Affine):
        return 0.0
    draws, _ = state.flat()
    points = of_model(target, posterior.particles)
    return quantile_misfit(points, posterior.weights, of_model(target, draws))


def moments_missed(gap, ratio):
    """Whether moments of points are far from those of the draws of chains, by coordinate."""
    return np.abs(gap).max() > 0.2 or not 0.85 <= ratio.mean() <= 1.15 or ratio.min() < 0.7


def divergences(pieces, draws):
    """A list with a message if too many proposals of the chains have diverged, else empty.

    Parameters
    ----------
    pieces : list of Chains
    draws : ndarray of shape (n_chains, n_draws, dim)
        All draws of the chains.
    """
    share = sum(chains.n_divergent for chains in pieces) / (draws.shape[0] * draws.shape[1])
    if share <= MAX_DIVERGENT:
        return []
    return [
        f"more than {MAX_DIVERGENT:.0%} of the chains' proposals diverged: the density ends or "
        "changes within a step, and the chains may not have visited that part"
    ]
