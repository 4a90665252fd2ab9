"""Weighted particles, and the steps that change the density they stand for.

A step multiplies the density q by a known function. The weights follow at once; where they would
degenerate, the step is cut into pieces (steps on one batch compose exactly) and the particles are
redrawn from a kernel density estimate between them. Equations are those of Dai, He, Dai & Song
(2016), "Provable Bayesian inference via particle mirror descent".
"""

from copy import copy

import numpy as np
from scipy.special import log_softmax

from ..._statistics.resampling import systematic_resampling
from .kernel_density import grouped_draws

MAX_PIECES = 300
_NEGLIGIBLE = 1e-3  # share of a step that may be left out when kernels keep it from being completed
LEAST_ESS = 0.1  # of weighted particles, below which to complain
LEAST_POWER = 0.95  # of the likelihood, below which to complain


class WeightedParticles:
    """The state of mirror descent: weighted particles and the log density that they stand for.

    Parameters
    ----------
    theta : ndarray of shape (m, dim)
        Draws of the first density, equally weighted.
    log_q : ndarray of shape (m,)
        Its log density there.
    resampled : bool
        Whether degenerate weights are met by resampling from a kernel density estimate.
    target_ess : float, default=0.7
        Share of the particles that the effective sample size may fall to before that.
    draws : callable, default=grouped_draws
        ``draws(theta, weights, n_draws, rng)``, the estimate's draws and density.

    Attributes
    ----------
    memory : Memory or None
        Of the rows of a stream.
    """

    def __init__(self, theta, log_q, resampled, *, target_ess=0.7, draws=grouped_draws):
        self.theta, self.log_q, self.resampled = theta, log_q, resampled
        self.target_ess, self.draws = target_ess, draws
        self.log_weights = _equal(len(theta))
        self.n_particles = len(theta)  # of later draws
        self.memory = None
        self.n_resampled = 0

    @property
    def weights(self):
        return np.exp(self.log_weights)

    def ess(self):
        """Effective sample size of the weights."""
        return _ess(self.log_weights)

    def advance(self, log_ratio, step):
        """``log q += step * log_ratio``, for particles and weights alike: eq. 4 of the paper."""
        self.log_q = self.log_q + step * log_ratio
        self.log_weights = log_softmax(self.log_weights + step * log_ratio)

    def weigh(self, log_posterior):
        """Weight the particles as draws of ``log_q``; what is wrong with the weights, or None."""
        self.advance(_finite(log_posterior) - self.log_q, 1.0)
        if self.ess() < LEAST_ESS * len(self.theta):
            return f"the weights keep an effective sample of less than {LEAST_ESS:.0%}"
        return None

    def flatten(self, least):
        """Raise the weights to the largest power up to 1 that keeps the ESS at ``least``."""
        power = _largest_share(lambda power: _ess(log_softmax(power * self.log_weights)) >= least)
        self.log_weights = log_softmax(power * self.log_weights)

    def resample(self, n_particles, rng):
        """Equal weights, by systematic resampling."""
        # Sorted along one coordinate, neighbours in the cumulative sum are neighbours in space.
        order = np.argsort(self.theta[:, 0], kind="stable")
        chosen = order[systematic_resampling(self.weights[order], n_particles, rng)]
        self.theta, self.log_q = self.theta[chosen], self.log_q[chosen]
        self.log_weights = _equal(n_particles)

    def replace(self, draws, n_particles, rng):
        """Draw ``n_particles`` from an estimate of the density, with equal weights: eq. 6."""
        self.theta, density = draws(self.theta, self.weights, n_particles, rng)
        self.log_q = density.log_density(self.theta)
        self.log_weights = _equal(n_particles)
        self.n_resampled += 1

    def moments(self):
        """Mean (dim,) and covariance (dim, dim)."""
        mean = self.weights @ self.theta
        centred = self.theta - mean
        return mean, centred.T @ (self.weights[:, None] * centred)

    def halves(self):
        """Two populations, each of every other particle."""
        parts = copy(self), copy(self)
        for first, part in enumerate(parts):
            part.theta, part.log_q = self.theta[first::2], self.log_q[first::2]
            part.log_weights = log_softmax(self.log_weights[first::2])
        return parts


def _equal(m):
    return np.full(m, -np.log(m))


def _ess(log_weights):
    return 1.0 / np.sum(np.exp(2.0 * log_weights))


def _largest_share(holds):
    """The largest number up to 1 for which ``holds``, by bisection; it holds near 0."""
    if holds(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def batches(n, batch, n_epochs, rng, replacement=False):
    """(rows, their number) of each step, epoch by epoch; None for all rows."""
    for _ in range(n_epochs):
        if batch == n and not replacement:
            yield None, n
            continue
        order = rng.integers(n, size=n) if replacement else rng.permutation(n)
        for first in range(0, n, batch):
            rows = order[first : first + batch]
            yield rows, len(rows)


def mirror_step(state, log_posterior, step_size, rng):
    """One prox step of mirror descent, ``log q += g (log_posterior - log q)``: eq. 2.

    Steps on the same batch compose, ``1 - g = prod_k (1 - g_k)``, so that a step under which the
    weights would degenerate is taken in pieces with resampling between them.

    Parameters
    ----------
    state : WeightedParticles
        Changed in place.
    log_posterior : callable
        ``log_posterior(theta) -> (m,)``: log prior plus the (scaled) log likelihood of the batch.
    step_size : float
        ``g``, in (0, 1].
    rng : numpy.random.Generator

    Returns
    -------
    int
        The number of pieces.

    Raises
    ------
    FloatingPointError
        If no particle has a finite log density.
    """

    def log_change(left):
        rest = step_size * left
        return rest / (1.0 - step_size + rest) * (_finite(log_posterior(state.theta)) - state.log_q)

    return _carry(state, log_change(1.0), log_change, rng)


def bayes_step(state, log_likelihood, rng, values=None):
    """Bayes' rule for more rows, ``log q += log_likelihood``; as `mirror_step` otherwise.

    ``values`` are those of the likelihood at the particles, where they are known.
    """
    values = log_likelihood(state.theta) if values is None else values
    return _carry(state, _finite(values), lambda x: x * _finite(log_likelihood(state.theta)), rng)


def _carry(state, change, log_change, rng):
    """Change the density by ``change``, in pieces between which particles are resampled.

    ``log_change(left)`` is the remaining change at new particles when the share ``1 - left`` is
    done.
    """
    left, pieces = 1.0, 0
    while left >= _NEGLIGIBLE and pieces < MAX_PIECES:
        piece = _bounded(state, change)
        pieces += 1
        state.advance(change, piece)
        change = change * (1.0 - piece)
        left = left * (1.0 - piece)
        # A bounded piece ends on the edge; rounding must not decide on which side.
        if state.resampled and state.ess() < (state.target_ess + 1e-6) * len(state.theta):
            state.replace(state.draws, state.n_particles, rng)
            if left >= _NEGLIGIBLE:
                change = log_change(left)
    return pieces


def _finite(value):
    """Log densities with -inf and overflow replaced by -1e300: weight 0, but finite differences."""
    if not np.isfinite(value).any():
        raise FloatingPointError(
            "no particle has a finite log density: start elsewhere (init), or check the density."
        )
    return np.where(np.isfinite(value), value, -1e300)


def _bounded(state, change):
    """The largest share of a change that keeps ``target_ess`` of the effective sample size."""
    if not state.resampled or state.target_ess == 1.0:
        return 1.0
    floor = state.target_ess * state.ess()
    share = _largest_share(lambda to: _ess(log_softmax(state.log_weights + to * change)) >= floor)
    return max(share, 1e-9)
