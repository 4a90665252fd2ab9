"""Separated groups of particles: a Gaussian mixture chosen by BIC.

Each component more begins as the best straight cut of one that is there, along a coordinate or a
principal axis. Random starts, k-means among them, miss well separated modes once in ten to three
times, and particles are grouped a hundred times in one run.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

_MAX_GROUPS = 4
_REGULARISATION = 1e-6


def find_groups(theta, weights, sample):
    """A label for each particle.

    Parameters
    ----------
    theta : ndarray of shape (m, dim)
    weights : ndarray of shape (m,)
        Summing to 1.
    sample : ndarray of int
        Particles, chosen by weight, that the mixture is fitted to.

    Returns
    -------
    ndarray of int, shape (m,)
        From 0; a group has an effective sample of more than ``2 dim`` particles.
    """
    dim = theta.shape[1]
    least = 2 * dim + 1  # a group must be able to carry a covariance of its own
    centred = theta - weights @ theta
    scale = np.sqrt(weights @ centred**2)
    scaled = centred / np.where(scale > 0, scale, 1.0)
    points = scaled[sample]
    labels, parts, n = np.zeros(len(theta), dtype=int), [points], len(points)
    covariance = np.atleast_2d(np.cov(points.T, bias=True)) + _REGULARISATION * np.eye(dim)
    best = n * (np.linalg.slogdet(2.0 * np.pi * covariance)[1] + dim)  # BIC of one component
    best -= n * np.linalg.inv(covariance / _REGULARISATION).trace()
    best += 0.5 * dim * (dim + 3) * np.log(n)
    for k in range(2, _MAX_GROUPS + 1):
        if (parts := _cut_one(parts, least)) is None:
            break
        mixture = _mixture_of(parts)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            bic = mixture.fit(points).bic(points)
        if bic >= best:
            break
        found = mixture.predict(scaled)
        parts = [points[found[sample] == j] for j in range(k)]
        mass, squares = (np.bincount(found, w, k) for w in (weights, weights**2))
        effective = np.divide(mass**2, squares, out=np.zeros(k), where=squares > 0)
        if min(effective.min(), *map(len, parts)) < least:
            break
        best, labels = bic, found
    return labels


def _mixture_of(parts):
    """A mixture that begins with a component for each part."""
    from sklearn.mixture import GaussianMixture  # which loads all of its clusterings

    ridge = _REGULARISATION * np.eye(parts[0].shape[1])
    covariances = [np.atleast_2d(np.cov(part.T, bias=True)) + ridge for part in parts]
    return GaussianMixture(
        len(parts),
        tol=1e-2,
        reg_covar=_REGULARISATION,
        weights_init=np.array([len(part) for part in parts]) / sum(map(len, parts)),
        means_init=np.array([part.mean(axis=0) for part in parts]),
        precisions_init=np.linalg.inv(covariances),
        init_params="random_from_data",
        random_state=0,
    )


def _cut_one(parts, least):
    """The parts with one of them cut in two; None where all are too small."""
    cuts = [_best_cut(part, least) for part in parts]
    j = int(np.argmax([share for share, _ in cuts]))
    if (right := cuts[j][1]) is None:
        return None
    return [*parts[:j], *parts[j + 1 :], parts[j][~right], parts[j][right]]


def _best_cut(points, least):
    """The straight cut that explains the largest share of the variance across it.

    Returns
    -------
    share : float
        Of the variance between the two sides; -1 when there are too few points.
    right : ndarray of bool or None
        The points on one side, at least ``least`` on each.
    """
    n = len(points)
    if n < 2 * least:
        return -1.0, None
    centred = points - points.mean(axis=0)
    along = np.hstack([centred, centred @ np.linalg.svd(centred, full_matrices=False)[2].T])
    order = np.argsort(along, axis=0, kind="stable")
    sums = np.cumsum(np.take_along_axis(along, order, axis=0), axis=0)[least - 1 : n - least]
    size = np.arange(least, n - least + 1)[:, None]
    variance = (along**2).mean(axis=0)
    between = sums**2 / (size * (n - size))
    share = np.divide(between, variance, out=np.zeros_like(between), where=variance > 0)
    cut, axis = np.unravel_index(np.argmax(share), share.shape)
    right = np.ones(n, dtype=bool)
    right[order[: cut + least, axis]] = False
    return share[cut, axis], right
