"""Predictions of a mixture: Gaussian processes, each seen through inducing inputs of its own.

Given a particle the process is normal, with the moments of `inducing.py`. Results are in the units
of y and have an axis of outcomes, of length n_targets, behind that of the rows.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.utils import gen_batches

from .._tools.parallel import one_thread
from .._tools.row_blocks import row_batches, row_blocks
from .inducing import InducingPosterior, SplitKernel

_JOINT_ROWS = 1024  # of draws: a Cholesky factor of so many costs little


@dataclass(frozen=True)
class InducingMixture:
    """Weighted particles under one kernel, and the scale of y.

    Parameters
    ----------
    split : SplitKernel
    particles : list of InducingPosterior
    weights : ndarray of shape (n_particles,)
    center, scale : ndarray of shape (n_targets,)
        Of y, which the particles know less ``center`` and divided by ``scale``.
    """

    split: SplitKernel
    particles: list
    weights: np.ndarray
    center: np.ndarray
    scale: np.ndarray

    def mean(self, X):
        """Mean of the outcomes, shape (n, n_targets)."""
        # All particles at once: their inducing inputs side by side, with the weights folded in.
        inputs = np.concatenate([particle.inputs for particle in self.particles])
        parts = zip(self.weights, self.particles, strict=True)
        values = np.concatenate([weight * particle.weights() for weight, particle in parts])
        mean = np.empty((len(X), len(self.scale)))
        with one_thread():
            for rows in row_blocks(len(X), 8 * len(inputs)):
                mean[rows] = self.split.signal(X[rows], inputs) @ values
        return self.center + self.scale * mean

    def covariance(self, X, mean):
        """Covariance of the outcomes of all rows, shape (n, n, n_targets)."""
        covariance = np.zeros((len(X), len(X), len(self.scale)))
        for particle, weight in zip(self.particles, self.weights, strict=True):
            center, within = self._joint(particle, X)
            covariance += weight * within
            covariance += weight * (center - mean)[:, None] * (center - mean)
        return covariance

    def moments(self, X, map):
        """Yield (rows, means, variances) of blocks: of the outcome under each particle.

        Means have the shape (n, n_targets, n_particles), variances may have it.
        """
        size = len(self.particles[0].inputs) + len(self.particles) * len(self.scale)
        for rows in row_batches(len(X), size):
            moments = partial(InducingPosterior.moments, split=self.split, X=X[rows])
            each = map(moments, self.particles)
            means, variances = (np.stack(part, axis=-1) for part in zip(*each, strict=True))
            variances = (variances + self.split.noise(X[rows])[:, None])[:, None]
            means = self.center[:, None] + self.scale[:, None] * means
            yield rows, means, self.scale[:, None] ** 2 * variances

    def joints(self, X, n_samples, rng):
        """The particles of ``n_samples`` draws, one by one: how many, mean and covariance."""
        counts = rng.multinomial(n_samples, self.weights)
        chosen = np.flatnonzero(counts)
        return ((counts[index], *self._joint(self.particles[index], X)) for index in chosen)

    def draws(self, X, n_samples, rng, *, noisy):
        """Draws of the outcomes, or of the processes alone, (n, n_targets, n_samples).

        What inducing values leave open is drawn jointly for 1024 rows at a time.
        """
        chosen = rng.choice(len(self.particles), n_samples, p=self.weights)
        draws = np.empty((len(X), len(self.scale), n_samples))
        for index in np.unique(chosen):
            particle, columns = self.particles[index], np.flatnonzero(chosen == index)
            values = particle.sample_values(len(columns), rng)
            for rows in gen_batches(len(X), _JOINT_ROWS):
                with one_thread():
                    drawn = particle.sample(self.split, X[rows], values, rng, noisy=noisy)
                draws[rows, :, columns] = drawn
        draws *= self.scale[:, None]
        draws += self.center[:, None]
        return draws

    def _joint(self, particle, X):
        """Mean (n, n_targets) and covariance (n, n, n_targets) of the outcomes under a particle."""
        with one_thread():
            mean, _ = particle.moments(self.split, X)
            covariance = particle.covariance(self.split, X)
        covariance[np.diag_indices(len(X))] += self.split.noise(X)
        return self.center + self.scale * mean, covariance[:, :, None] * self.scale**2


def normal_draws(mean, covariance, n_samples, rng):
    """Draws of shape (n, n_targets, n_samples), for mean (n, n_targets), independent targets."""
    noise = rng.standard_normal((mean.shape[1], len(mean), n_samples))
    # A covariance that rounding made indefinite is cut back to the nearest one that is not.
    values, vectors = np.linalg.eigh(np.moveaxis(covariance, 2, 0))
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
    return mean[:, :, None] + np.moveaxis(roots @ noise, 0, 1)
