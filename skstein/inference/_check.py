"""The check at the end of every fit: do the particles satisfy Stein's identities?

Under the posterior, ``E[g_j] = 0`` and ``E[(z_j - mean_j) g_j] = -1`` for the score ``g`` in
whitened coordinates. Where a coordinate misses them by more than its Monte-Carlo error allows, and
by enough to matter, it is named in a warning. Errors of the mean below about a tenth of a standard
deviation are not detectable in this way, and engines that solve these very identities on their
particles (SVGD, FWSS) satisfy them when they are wrong; for those, and for all that stay near
their start, the spread of importance weights tells how far the posterior is from there.
"""

from dataclasses import dataclass

import numpy as np

MAX_PARTICLES = 1000  # the check needs no more
MAX_MISMATCH = 1.2


def start_mismatch(target, rng, m=MAX_PARTICLES):
    """How far the Gaussian start is from the target: 0 when they agree, whatever the dimension.

    The spread of the log importance weights of ``m`` draws (interquartile range, in units of a
    normal's standard deviation) over the square root of the dimension. The effective sample size of
    those weights would fall with the dimension even where every coordinate is nearly normal.
    """
    draws = target.sample_start(rng, m)
    log_weights = target.log_density(draws) - target.log_start(draws)
    low, high = np.quantile(np.nan_to_num(log_weights, nan=-np.inf), [0.25, 0.75])
    return (high - low) / 1.349 / np.sqrt(target.dim) if np.isfinite(low) else np.inf


@dataclass
class SteinResiduals:
    """Residuals of Stein's identities in whitened coordinates.

    Attributes
    ----------
    mean : ndarray of shape (dim,)
        ``|E[g_j]|``: about the error of the mean, in posterior standard deviations.
    spread : ndarray of shape (dim,)
        ``|E[(z_j - mean_j) g_j] + 1|``: about twice the relative error of the standard deviation.
    flagged : ndarray of bool, shape (dim,)
    """

    mean: np.ndarray
    spread: np.ndarray
    flagged: np.ndarray


def stein_residuals(z, scores, weights):
    """Residuals of the particles ``z`` (m, dim) with their ``scores``, and which are too large.

    A residual counts when it is large in itself and against its standard error for independent
    draws; a very large one counts alone, because an outlier inflates its own standard error.
    """
    ess = 1.0 / np.sum(weights**2)
    product = (z - weights @ z) * scores

    def residual(values, expected):
        mean = weights @ values
        error = np.sqrt(weights @ (values - mean) ** 2 / ess)
        size = np.abs(mean - expected)
        return size, size / np.maximum(error, 1e-12)

    mean, z_mean = residual(scores, 0.0)
    spread, z_spread = residual(product, -1.0)
    flagged = ((mean > 0.35) & (z_mean > 4)) | ((spread > 0.5) & (z_spread > 4))
    flagged |= (mean > 2) | (spread > 4)
    return SteinResiduals(mean, spread, flagged)
