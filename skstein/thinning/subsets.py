"""Subsets and weights of a finished sample by their kernel Stein discrepancy.

Three ways to make the KSD small: add the best sample n times (`stein_thin`), drop the worst until n
are left (`backward_thin`), or keep all of them and choose weights (`stein_weights`). All take their
kernel from `coordinates`.
"""

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import nnls

from .. import _jit
from .._input.validation import check_count
from .coordinates import in_round_coordinates


def stein_thin(samples, scores, n_points, *, kernel="imq", length_scale=None, preconditioner="cov"):
    """Indices of the samples that greedily minimise the kernel Stein discrepancy.

    Every step takes the sample that gives the smallest KSD together with those taken before; one
    can come more than once. The cost is ``n_points`` rows of the Stein matrix, and memory is linear
    in the number of samples.

    Parameters
    ----------
    samples : array of shape (draws, d) or (chains, draws, d), or an ArviZ posterior
        Chains are put into one stream that takes a draw of each in turn: draw t of chain c is
        number ``t * n_chains + c``. See `stack_draws` for ArviZ.
    scores : array of the same shape, an ArviZ Dataset, or callable
        Gradient of the target's log density with respect to the coordinates of the samples, on the
        *unconstrained* scale, Jacobian included; or the function (n, d) -> (n, d) that computes it.
    n_points : int
        Number of indices.
    kernel : "imq", "rbf", IMQ or RBF, default="imq"
        Base kernel, in whitened coordinates.
    length_scale : None, "median", "scaled-median", "cov", float or array (d, d), default=None
        Of the kernel in whitened coordinates, in place of its own. "median": the median distance
        between at most 1000 evenly spaced samples; "scaled-median": that over the root of the
        logarithm of their number. An array holds squares: distances are ``(x - y)' G^-1 (x - y)``;
        "cov": G is the covariance of the samples.
    preconditioner : None, "cov" or array of shape (d, d), default="cov"
        Covariance that whitens samples and scores; "cov": that of the samples.

    Returns
    -------
    indices : array of shape (n_points,)
        In the order of selection.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or a parameter is wrong.

    Notes
    -----
    The package stein-thinning divides every coordinate by its mean absolute deviation m and has a
    base kernel of exponent -1/2. With ``preconditioner=np.diag(m**2)``, its settings "id", "med",
    "sclmed" and "smpcov" are ``length_scale=1.0``, ``"median"``, ``"scaled-median"`` and ``"cov"``.

    References
    ----------
    Riabiz, Chen, Cockayne, Swietach, Niederer, Mackey & Oates (2022), "Optimal thinning of MCMC
    output" (doi:10.1111/rssb.12503), Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.thinning import stein_thin
    >>> samples = np.random.default_rng(0).normal(size=(1000, 2))
    >>> indices = stein_thin(samples, -samples, 20)
    >>> bool(np.abs(samples[indices].mean(axis=0)).max() < 0.1)
    True
    """
    check_count(n_points, "n_points")
    u, t, coordinates = in_round_coordinates(samples, scores, kernel, length_scale, preconditioner)
    return _jit.thinning.greedy(u, t, n_points, coordinates.kernel)


def backward_thin(
    samples, scores, n_points, *, kernel="imq", length_scale=None, preconditioner="cov"
):
    """Indices of the samples that are left when those that raise the KSD most are dropped.

    One sample is dropped at a time, the one without which the rest has the smallest KSD, until
    ``n_points`` are left. The cost is that of the whole Stein matrix of the n samples, twice, and
    memory is linear in n: rows are computed when they are needed. Made for up to ten thousand
    samples; thin a longer chain with `OnlineKSDThinner` first.

    Parameters
    ----------
    samples : array of shape (draws, d) or (chains, draws, d), or an ArviZ posterior
        See `stein_thin`, for the other parameters too.
    scores : array of the same shape, an ArviZ Dataset, or callable
    n_points : int
        At most the number of samples.
    kernel : "imq", "rbf", IMQ or RBF, default="imq"
    length_scale : None, "median", "scaled-median", "cov", float or array (d, d), default=None
    preconditioner : None, "cov" or array of shape (d, d), default="cov"

    Returns
    -------
    indices : array of shape (n_points,)
        Increasing and distinct.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or a parameter is wrong.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy"
    (arXiv:2201.07130), the inner loop of Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.thinning import backward_thin
    >>> samples = np.random.default_rng(0).normal(size=(500, 2))
    >>> indices = backward_thin(samples, -samples, 50)
    >>> bool(np.abs(samples[indices].mean(axis=0)).max() < 0.1)
    True
    """
    check_count(n_points, "n_points")
    u, t, coordinates = in_round_coordinates(samples, scores, kernel, length_scale, preconditioner)
    if n_points > len(u):
        raise ValueError(f"n_points must be at most the number of samples, {len(u)}.")
    return np.sort(_jit.thinning.backward(u, t, n_points, coordinates.kernel))


def stein_weights(samples, scores, *, kernel="imq", length_scale=None, preconditioner="cov"):
    """Non-negative weights of sum 1 that minimise the kernel Stein discrepancy of the samples.

    They repair a set of points chosen without regard to the target; points that were chosen by
    their KSD gain little from them, and weights lower the KSD at the price of some spread. Time
    grows with the cube of the number of samples and memory with its square: thin first.

    Parameters
    ----------
    samples : array of shape (draws, d) or (chains, draws, d), or an ArviZ posterior
        See `stein_thin`, for the other parameters too.
    scores : array of the same shape, an ArviZ Dataset, or callable
    kernel : "imq", "rbf", IMQ or RBF, default="imq"
    length_scale : None, "median", "scaled-median", "cov", float or array (d, d), default=None
    preconditioner : None, "cov" or array of shape (d, d), default="cov"

    Returns
    -------
    weights : array of shape (n,)
        Of the samples; of several chains in the order of the stream, see `stein_thin`.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or a parameter is wrong.

    References
    ----------
    Liu & Lee (2017), "Black-box importance sampling" (arXiv:1610.05247).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.metrics import ksd
    >>> from skstein.thinning import stein_weights
    >>> samples = np.random.default_rng(0).normal(size=(50, 2))
    >>> weights = stein_weights(samples, -samples)
    >>> bool(ksd(samples, -samples, weights) < 0.5 * ksd(samples, -samples))
    True
    """
    u, t, coordinates = in_round_coordinates(samples, scores, kernel, length_scale, preconditioner)
    return simplex_weights(_jit.thinning.stein_matrix(u, t, coordinates.kernel))


def simplex_weights(matrix):
    """Minimiser of ``w' K w`` over w >= 0 of sum 1, for a positive semi-definite K (n, n).

    With ``K = B'B``, that is the solution of the non-negative least squares problem
    ``|B v|^2 + c (sum v - 1)^2``, scaled to sum 1, whatever c > 0: for v = a w the best a makes the
    objective ``c w'Kw / (c + w'Kw)``, which increases with ``w'Kw``.
    """
    values, vectors = eigh(matrix)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    scale = np.sqrt(np.mean(np.diagonal(matrix)))
    n = len(matrix)
    weights, _ = nnls(np.vstack([root / scale, np.ones(n)]), np.append(np.zeros(n), 1.0))
    return weights / weights.sum()
