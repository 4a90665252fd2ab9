"""A balanced sample of the draws of a chain: without scores, in linear time.

In the words of survey sampling (Deville & Tillé 2004, "Efficient balanced sampling: the cube
method"), a sample is balanced on auxiliary variables if it has their means over the population.
Here these are the coordinates, white, for the means of all linear combinations, and smooth steps
at the tails and the median of every margin, for spread and quantiles. The squared distance of
their means is a maximum mean discrepancy whose kernel has finitely many features, so that to
descend it point by point costs as much as reading the draws. Strata, the blocks of a stream, give
each mode that chains visit in turn its share.
"""

import numpy as np

from .. import _jit
from .._input.validation import check_count
from .chains import as_chains, check_finite, interleaved

_LEVELS = (0.05, 0.5, 0.95)
_RANGE = 3.29  # standard deviations between the outer levels of a normal
_REACH = 0.5  # of a step to either side, in standard deviations
_FAR = 30.0  # from the median: beyond, a draw counts in means as if it were here
_SWEEPS = 2  # of all blocks; more change little
_LARGEST_SAMPLE = 2000  # by which scales are settled, or ten times the dimension


def balanced_thin(samples, n_points):
    """Indices of draws, one of each of ``n_points`` equal blocks, that balance each other.

    They have nearly the means of all draws, in coordinates and linear combinations, as far as these
    are not of a few draws far out, and nearly as many of them lie beyond the 5 %, 50 % and 95 %
    points of every coordinate. Needs no scores and no random numbers; time and memory are linear in
    the number of draws. Units and location of the coordinates make no difference.

    Parameters
    ----------
    samples : array of shape (draws, d) or (chains, draws, d), or an ArviZ posterior
        In the order in which they were drawn. Chains are put into one stream that takes a draw of
        each in turn: draw t of chain c is number ``t * n_chains + c``. See `stack_draws` for ArviZ.
    n_points : int
        At most the number of samples.

    Returns
    -------
    indices : array of shape (n_points,)
        Increasing and distinct.

    Raises
    ------
    ValueError
        If the shape is wrong, a value is not finite, or there are fewer samples than ``n_points``.

    Notes
    -----
    Errors of the chain, above all its burn-in, are errors of the points too. Of a coordinate with a
    wall on one side and a heavy tail on the other, such as a variance, the share near the wall is
    met less well, but not of its logarithm.

    References
    ----------
    Dwivedi & Mackey (2021), "Kernel thinning" (arXiv:2105.05842), whose refinement by exchange this
    is, within blocks and with a kernel of finitely many features.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.thinning import balanced_thin
    >>> samples = np.random.default_rng(0).normal(size=(4, 2500, 3))  # chains, draws, d
    >>> indices = balanced_thin(samples, 100)
    >>> points = samples.swapaxes(0, 1).reshape(-1, 3)[indices]
    >>> bool(np.abs(points.mean(axis=0)).max() < 0.03)  # of 100 draws at even steps: about 0.1
    True
    """
    check_count(n_points, "n_points")
    x = interleaved(as_chains("samples", samples))
    check_finite("samples", x)
    if n_points > len(x):
        raise ValueError(f"n_points must be at most the number of samples, {len(x)}.")
    some = x[:: max(1, len(x) // max(_LARGEST_SAMPLE, 10 * x.shape[1]))]
    low, median, high = knots = np.quantile(some, _LEVELS, axis=0)
    # Of a heavy tail a few draws have nearly all of the variance.
    scale = np.where(high > low, (high - low) / _RANGE, some.std(axis=0))
    # A coordinate that never moves has nothing to balance.
    slopes = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
    some, near = (np.clip(a, median - _FAR * scale, median + _FAR * scale) for a in (some, x))
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(some * slopes, rowvar=False, ddof=0)))
    varies = values > 1e-10 * values[-1]
    white = slopes[:, None] * vectors[:, varies] / np.sqrt(values[varies])
    z = (near - near.mean(axis=0)) @ white
    return _jit.thinning.balanced_selection(x, z, knots, slopes / _REACH, n_points, _SWEEPS)


def representative_draws(draws, n_points):
    """Indices of a few of many draws (n, dim), one chain after the other, that keep the margins.

    Where the points are too few to be moved to a covariance, they are those at even steps.
    """
    if 2 * draws.shape[1] <= n_points < len(draws):
        return balanced_thin(draws, n_points)
    return np.linspace(0, len(draws) - 1, n_points).round().astype(int)
