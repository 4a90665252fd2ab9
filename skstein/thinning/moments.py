"""Moments of a stream in constant memory, and the map of a few points to them.

Parts are united by the formulas of Chan, Golub & LeVeque (1983), "Algorithms for computing the
sample variance", which subtract no large numbers from each other.
"""

import numpy as np
from scipy.linalg import eigh


class StreamMoments:
    """Mean and variances, or covariance, of the samples added so far.

    Parameters
    ----------
    dim : int
    full : bool
        Keep the covariance, not the variances only.
    """

    def __init__(self, dim, full):
        self.count, self.mean = 0, np.zeros(dim)
        self.scatter = np.zeros((dim, dim) if full else dim)

    @property
    def full(self):
        return self.scatter.ndim == 2

    def add(self, samples):
        """Take in ``samples`` (n, d)."""
        if len(samples):
            new = StreamMoments(samples.shape[1], self.full)
            new.count, new.mean = len(samples), samples.mean(axis=0)
            centred = samples - new.mean
            new.scatter = centred.T @ centred if self.full else np.sum(centred**2, axis=0)
            self.merge(new)

    def merge(self, other):
        """Take in the moments of another stream."""
        if self.full and not other.full:
            raise ValueError("other must have followed its covariance too: recalibrate=True.")
        scatter = other.scatter if self.full or not other.full else np.diagonal(other.scatter)
        total = self.count + other.count
        if total:
            gap = other.mean - self.mean
            product = np.outer(gap, gap) if self.full else gap**2
            self.scatter = self.scatter + scatter + product * (self.count * other.count / total)
            self.mean = self.mean + gap * (other.count / total)
            self.count = total

    def variances(self):
        """Variances (d,), over n and not n - 1."""
        return (np.diagonal(self.scatter) if self.full else self.scatter) / max(self.count, 1)

    def recalibrated(self, points):
        """``points`` (n, d) moved to the mean and the covariance of the stream.

        Where the stream has unit covariance, the map with a symmetric matrix is the one of least
        mean squared distance between normal distributions.
        """
        if len(points) < 2 * points.shape[1]:
            raise ValueError(
                f"recalibrated_samples_ needs at least {2 * points.shape[1]} points, twice the "
                f"dimension; there are {len(points)}."
            )
        try:
            return recalibrated(points, self.mean, self.scatter / self.count)
        except np.linalg.LinAlgError:
            raise ValueError(
                "the stream or the kept points do not vary in every direction, so that there is no "
                "map between their covariances; leave out coordinates that are constant."
            ) from None


def recalibrated(points, mean, covariance, weights=None):
    """``points`` (n, d) with ``weights``, moved to this mean and covariance.

    Raises
    ------
    LinAlgError
        If the covariance, or that of the points, is not positive definite.
    """
    if not np.isfinite(covariance).all():
        raise np.linalg.LinAlgError
    root = np.linalg.cholesky(covariance)
    z = np.linalg.solve(root, (points - np.average(points, axis=0, weights=weights)).T).T
    values, vectors = eigh(z.T @ z / len(z) if weights is None else (z.T * weights) @ z)
    if not values[0] > 1e-12 * values[-1]:
        raise np.linalg.LinAlgError
    return mean + z @ (vectors / np.sqrt(values)) @ vectors.T @ root.T
