"""Moments of a stream in constant memory, and the map of a few points to them.

Parts are united by the formulas of Chan, Golub & LeVeque (1983), "Algorithms for computing the
sample variance", which subtract no large numbers from each other.
"""

import numpy as np
from scipy.linalg import eigh, issymmetric

from .._input.validation import normalized_weights


class StreamMoments:
    """Mean and variances, or covariance, of the samples added so far.

    Parameters
    ----------
    dim : int
    full : bool, default=False
        Keep the covariance, not the variances only.
    """

    def __init__(self, dim, full=False):
        self.count, self.mean, self.full = 0, np.zeros(dim), full
        self.scatter = np.zeros((dim, dim) if full else dim)

    def add(self, samples):
        """Take in ``samples`` (n, d)."""
        if len(samples):
            new = StreamMoments(samples.shape[1], self.full)
            new.count, new.mean = len(samples), samples.mean(axis=0)
            centred = samples - new.mean
            new.scatter = centred.T @ centred if self.full else np.sum(centred**2, axis=0)
            self.merge(new)

    def merge(self, other):
        """Take in the moments of another stream, of the same kind."""
        total = self.count + other.count
        if total:
            gap = other.mean - self.mean
            product = np.outer(gap, gap) if self.full else gap**2
            between = product * (self.count * other.count / total)
            self.scatter = self.scatter + other.scatter + between
            self.mean = self.mean + gap * (other.count / total)
            self.count = total

    def variances(self):
        """Variances (d,), over n and not n - 1."""
        return (np.diagonal(self.scatter) if self.full else self.scatter) / max(self.count, 1)


def match_moments(points, mean, covariance, weights=None):
    """Move points as little as possible to have this mean and covariance.

    A few thinned points get the moments of the whole chain. They are not draws of it any more, and
    need scores of their own.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        At least 2 d points, or all of them go far.
    mean : ndarray of shape (d,)
    covariance : ndarray of shape (d, d)
        Over n and not n - 1.
    weights : ndarray of shape (n,), default=None
        Of the points; None for equal ones.

    Returns
    -------
    ndarray of shape (n, d)

    Raises
    ------
    ValueError
        If mean, covariance or weights are not of these shapes, or the covariance not symmetric.
    LinAlgError
        If points, mean or covariance are not finite, or the covariance, or that of the points, is
        not positive definite: a coordinate is constant, or there are no more points than
        coordinates.

    Notes
    -----
    Where the covariance is the identity, the map with a symmetric matrix is the one of least mean
    squared distance between normal distributions.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.thinning import balanced_thin, match_moments
    >>> draws = np.random.default_rng(0).normal(size=(1000, 2))
    >>> kept = draws[balanced_thin(draws, 32)]
    >>> moved = match_moments(kept, draws.mean(axis=0), np.cov(draws.T, bias=True))
    >>> bool(np.allclose(moved.std(axis=0), draws.std(axis=0)))
    True
    """
    points, weights = np.asarray(points), normalized_weights(weights, len(points), "weights")
    mean, covariance = np.atleast_1d(mean), np.atleast_2d(covariance)
    if not all(np.isfinite(given).all() for given in (points, mean, covariance)):
        raise np.linalg.LinAlgError("points, mean and covariance must be finite.")
    square = mean.shape + covariance.shape == 3 * points.shape[1:]
    if not (square and issymmetric(covariance, atol=1e-8 * np.abs(covariance).max())):
        raise ValueError("mean must be (d,) and covariance (d, d), symmetric, for points (n, d).")
    root = np.linalg.cholesky(covariance)
    z = np.linalg.solve(root, (points - weights @ points).T).T
    values, vectors = eigh((z.T * weights) @ z)
    if not values[0] > 1e-12 * values[-1]:
        raise np.linalg.LinAlgError("the points do not vary in every direction: give more of them.")
    return mean + z @ (vectors / np.sqrt(values)) @ vectors.T @ root.T
