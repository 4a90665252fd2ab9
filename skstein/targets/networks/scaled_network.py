"""The weights of a network as a density for engines that know nothing of networks."""

import numpy as np

from ..wrapper import InnerTarget

_APART = 0.1  # of the scales


class ScaledNetwork(InnerTarget):
    """The weights of a network in units of given scales, with given noise: for generic engines.

    Parameters
    ----------
    target : MLPTarget
    scale : ndarray of shape (n_weights,)
        What the weights are measured in.
    log_noise : ndarray of shape (n_noise,)
        Noise variances do not move: generic engines need many particles around a mode to know them.
        Neither do the precisions of the prior, which are those of training: with precisions
        integrated out the mode of hundreds of weights is a network of zeros.
    batch_size : int or None
        Rows of a plain minibatch; all rows for None.
    trained : ndarray of shape (m, n_weights + n_noise), default=None
        Networks near which `sample_start` draws others; it needs them.
    """

    def __init__(self, target, scale, log_noise, batch_size=None, trained=None):
        self.target, self.scale, self.log_noise = target, scale, log_noise
        self.trained = trained
        self.precision = target.initial_precision
        self.dim, self.n_rows = target.n_weights, target.n_rows
        self.stochastic = batch_size is not None and batch_size < target.n_rows
        self.batch_size = batch_size if self.stochastic else None

    def forward(self, z):
        """Particles of the whole network."""
        noise = np.broadcast_to(self.log_noise, (len(z), len(self.log_noise)))
        return np.concatenate([self.scale * z, noise], axis=1)

    def inverse(self, theta):
        """Weights in units of the scales."""
        return theta[:, : self.dim] / self.scale

    def _added(self, z):
        given = -0.5 * np.square(self.scale * z) @ self.precision
        return given - self.target.log_prior(self.forward(z))

    def _pulled(self, z, score):
        integrated = self.target._prior_score(self.forward(z))
        score = (score - integrated)[:, : self.dim] - self.precision * self.scale * z
        return self.scale * score

    def sample_start(self, rng, m):
        """Networks apart from the trained ones and from each other, shape (m, dim)."""
        near = np.resize(self.inverse(self.trained), (m, self.dim))
        return near + _APART * rng.standard_normal(near.shape)
