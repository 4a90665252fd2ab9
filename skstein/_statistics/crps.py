"""The continuous ranked probability score (CRPS): of weighted points, and of mixtures.

For a distribution function F and an outcome y it is the integral of ``(F(x) - [x >= y])^2``, in the
unit of y and smaller for a better prediction; for a point it is the absolute error. It is that
integral which is taken here: none of its parts cancels another.

References: Gneiting & Raftery (2007), "Strictly proper scoring rules, prediction, and estimation"
(doi:10.1198/016214506000001437), section 4.2.
"""

from itertools import pairwise

import numpy as np
from scipy.special import ndtr

from .quantiles import weighted_quantile
from .resampling import few_resampled

# Normal scores of the quantiles between which the integrand is smooth enough for a few nodes.
_SCORES = np.linspace(-6.0, 6.0, 13)
_SHARES = np.exp(-0.5 * _SCORES**2)
_NODES, _NODE_SHARES = np.polynomial.legendre.leggauss(12)
_NODES, _NODE_SHARES = 0.5 * (_NODES + 1.0), 0.5 * _NODE_SHARES
_NEGLIGIBLE = 1e-8


def crps_of_points(y, points, weights):
    """CRPS of weighted points, exact.

    Parameters
    ----------
    y : ndarray of shape (n,)
    points : ndarray of shape (n, m)
    weights : ndarray of shape (m,) or (n, m)
        Non-negative, summing to 1.

    Returns
    -------
    crps : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._statistics.crps import crps_of_points
    >>> crps_of_points(np.array([0.0]), np.array([[1.0, 3.0]]), np.array([0.5, 0.5]))
    array([1.5])
    """
    steps = np.column_stack([points, y])
    order = np.argsort(steps, axis=1)
    steps = np.take_along_axis(steps, order, axis=1)
    weights = np.column_stack([np.broadcast_to(weights, points.shape), np.zeros(len(y))])
    excess = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1) - (steps >= y[:, None])
    return np.sum(np.diff(steps, axis=1) * np.square(excess[:, :-1]), axis=1)


def mixture_crps(cdf, ppf, weights, y, *, discrete):
    """CRPS of mixtures, by Gauss-Legendre quadrature between their quantiles, or by sums.

    Parameters
    ----------
    cdf : callable
        ``cdf(y) -> (n,)``: of each mixture at its entry of ``y`` (n,).
    ppf : callable
        ``ppf(level, some) -> (n, k)``: quantiles of some of the components, an index array.
    weights : ndarray of shape (m,)
        Of the components, summing to 1.
    y : ndarray of shape (n,)
    discrete : bool
        Whether outcomes are whole numbers.

    Returns
    -------
    crps : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import uniform
    >>> from skstein._statistics.crps import mixture_crps
    >>> parts, one = uniform(np.zeros((1, 1))), np.ones(1)
    >>> cdf = lambda y: parts.cdf(y[:, None])[:, 0]
    >>> ppf = lambda level, some: parts.ppf(level)
    >>> mixture_crps(cdf, ppf, one, np.array([0.5]), discrete=False).round(6)
    array([0.083333])
    """
    few = few_resampled(weights)
    points = np.concatenate([ppf(level, few) for level in ndtr(_SCORES)], axis=1)
    shares = np.outer(_SHARES / _SHARES.sum(), np.full(len(few), 1.0 / len(few))).ravel()
    knots = weighted_quantile(points.T, shares, ndtr(_SCORES)).T
    low, high = _reaching(cdf, points.min(axis=1), points.max(axis=1))
    knots = np.column_stack([low, knots, high, y])
    knots = np.sort(np.floor(knots) if discrete else knots, axis=1)
    nodes = _whole_nodes if discrete else _legendre_nodes
    crps = np.zeros(len(y))
    for x, width, start in nodes(knots):
        crps += width * np.square(cdf(x) - (start >= y))
    return crps


def _reaching(cdf, low, high):
    """Ends with next to no probability beyond: components may reach further than a few."""
    down = up = np.maximum(high - low, 1.0)
    while (far := cdf(low) > _NEGLIGIBLE).any():
        low, down = np.where(far, low - down, low), 2.0 * down
    while (far := 1.0 - cdf(high) > _NEGLIGIBLE).any():
        high, up = np.where(far, high + up, high), 2.0 * up
    return low, high


def _legendre_nodes(knots):
    """Yield (nodes, widths, starts of the pieces) of a quadrature of a smooth function."""
    for low, high in pairwise(knots.T):
        for node, share in zip(_NODES, _NODE_SHARES, strict=True):
            yield low + node * (high - low), share * (high - low), low


def _whole_nodes(knots):
    """As `_legendre_nodes`, of a function with steps at whole numbers.

    Simpson's rule for sums over cells of whole numbers: exact with up to three in a cell, and for
    polynomials of degree 2.
    """
    # Cells grow within a piece: near zero long tails have most of their curvature.
    growing = np.linspace(0.0, 1.0, len(_NODES) + 1)[:, None] ** 2
    parts = [np.floor(low + growing * (high - low)) for low, high in pairwise(knots.T)]
    first = np.concatenate([edges[:-1] for edges in parts])
    end = np.concatenate([edges[1:] for edges in parts])
    starts = np.tile(np.repeat(knots.T[:-1], len(_NODES), axis=0), (3, 1))
    steps, middle = np.maximum(end - first - 1.0, 0.0), np.floor(0.5 * (end - first - 1.0))
    # Shares with which the sums of 1, k and k (steps - k) over a cell are right.
    inner = middle * (steps - middle)
    of_middle = steps * (steps**2 - 1.0) / 6.0 / np.maximum(inner, 1.0)
    of_last = np.where(
        steps > 0.0, 0.5 * (steps + 1.0) - of_middle * middle / np.maximum(steps, 1.0), 0.0
    )
    of_first = end - first - of_middle - of_last
    nodes = np.concatenate([first, first + middle, first + steps])
    widths = np.concatenate([of_first, of_middle, of_last])
    # Most cells of small counts are empty: the others of each row come first.
    order = np.argsort(widths == 0.0, axis=0, kind="stable")
    table = nodes, widths, starts
    for x, width, start in zip(*(np.take_along_axis(v, order, axis=0) for v in table), strict=True):
        if not width.any():
            break
        yield x, width, start
