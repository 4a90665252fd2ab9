"""Particle Mirror Descent.

Mirror descent on densities: each step multiplies the current density by a power of the posterior
over itself,

    log q' = (1 - g) log q + g (log p + (n / b) sum_batch log-likelihood),

carried by weighted particles (a "good" proposal, never moved) or by a weighted kernel density
estimate that is resampled. Only values of the log density are used, never a gradient. What differs
from the paper's algorithm 1, each found necessary:

- the step size is ``g_t = 2 / (t + 2 n / b)``, so that the first step applies each datum at most
  once; the power of the likelihood reached, ``1 - prod(1 - g)``, is reported;
- a step that would halve the effective sample size is split exactly (steps on one batch compose);
- minibatches are reshuffled epochs without replacement: with replacement the noise stays;
- particles are resampled (systematically) only when the effective sample size falls below m / 2:
  each kernel draw inflates the variance, which the paper's resampling at every step accumulates;
- the kernel has the full covariance and Silverman's bandwidth, and draws are shrunk towards the
  mean of their group (Liu & West 2001) so that the variance is kept; groups come from a small
  Gaussian mixture, so that separated modes survive;
- a final stage on all rows takes off what bias is left: importance weights in up to four
  coordinates, where they do not degenerate, and preconditioned Crank-Nicolson moves.
"""

from functools import partial
from numbers import Integral, Real

import numpy as np

from .._validation import Interval, StrOptions
from ..posterior import ParticlePosterior
from ..targets import supports
from ._kde import KernelDensity
from ._pcn import pcn_sweeps
from .base import BATCH_SIZE, N_PARTICLES, Engine, History, in_chunks

_IMPORTANCE_UP_TO = 4  # coordinates in which a final importance pass keeps its weights
_PRIOR_UP_TO = 10  # coordinates in which a start from the prior can be trusted
_MAX_SUBSTEPS = 300
_DISTINCT = 0.25  # share of the particles that the final moves start from at least


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
    """

    def __init__(self, theta, log_q, resampled):
        self.theta, self.log_q, self.resampled = theta, log_q, resampled
        self.log_weights = np.full(len(theta), -np.log(len(theta)))
        self.n_resampled = 0

    @property
    def weights(self):
        return np.exp(self.log_weights)

    def ess(self):
        """Effective sample size of the weights."""
        return _ess(self.log_weights)

    def advance(self, log_ratio, step):
        """``log q += step * log_ratio``, for particles and weights alike."""
        self.log_q = self.log_q + step * log_ratio
        self.log_weights = _normalised(self.log_weights + step * log_ratio)

    def flatten(self, least):
        """Raise the weights to the largest power up to 1 that keeps the ESS at ``least``."""
        power = _largest(lambda power: _ess(_normalised(power * self.log_weights)) >= least, 1.0)
        self.log_weights = _normalised(power * self.log_weights)

    def resample(self, rng):
        """Equal weights, by systematic resampling."""
        m = len(self.theta)
        # Sorted along one coordinate, neighbours in the cumulative sum are neighbours in space.
        order = np.argsort(self.theta[:, 0], kind="stable")
        positions = (np.arange(m) + rng.random()) / m
        cumulative = np.cumsum(self.weights[order])
        chosen = order[np.minimum(np.searchsorted(cumulative, positions * cumulative[-1]), m - 1)]
        self.theta, self.log_q = self.theta[chosen], self.log_q[chosen]
        self.log_weights = np.full(m, -np.log(m))

    def rejuvenate(self, rng):
        """Resample and draw anew from a kernel density estimate."""
        self.resample(rng)
        density = KernelDensity(self.theta, rng)
        self.theta = density.sample(rng)
        self.log_q = density.log_density(self.theta)
        self.n_resampled += 1


def _normalised(log_weights):
    shifted = log_weights - log_weights.max()
    return shifted - np.log(np.exp(shifted).sum())


def _ess(log_weights):
    return 1.0 / np.sum(np.exp(2.0 * log_weights))


def _largest(holds, top):
    """The largest number up to ``top`` for which ``holds``, by bisection; it holds near 0."""
    if holds(top):
        return top
    low, high = 0.0, top
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def mirror_step(state, log_posterior, step_size, rng):
    """One prox step of mirror descent, split exactly where the weights would degenerate.

    Steps on the same batch compose, ``1 - g = prod_k (1 - g_k)``, so that a step which would halve
    the effective sample size is taken in pieces with resampling between them.

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
    rest, goal, pieces = 1.0, 1.0 - step_size, 0
    log_ratio = _log_ratio(state, log_posterior)
    while pieces < _MAX_SUBSTEPS:
        largest = 1.0 - goal / rest
        piece = _bounded_step(state, log_ratio, largest) if state.resampled else largest
        state.advance(log_ratio, piece)
        pieces += 1
        if piece == largest:
            rest = goal
        else:
            rest *= 1.0 - piece
            log_ratio = log_ratio * (1.0 - piece)
        if state.resampled and state.ess() < 0.5 * len(state.theta):
            state.rejuvenate(rng)
            if rest > goal:
                log_ratio = _log_ratio(state, log_posterior)
        if rest <= goal:
            break
    return pieces


def _log_ratio(state, log_posterior):
    value = log_posterior(state.theta)
    # A density of 0 or an overflow puts a particle out; it may come back by resampling.
    log_ratio = np.where(np.isfinite(value), value, -1e300) - state.log_q
    if not np.isfinite(value).any():
        raise FloatingPointError(
            "no particle has a finite log density: start elsewhere (init), or check the density."
        )
    return log_ratio


def _bounded_step(state, log_ratio, largest):
    """The largest step up to ``largest`` that keeps half of the effective sample size."""
    floor = 0.5 * state.ess()
    step = _largest(
        lambda step: _ess(_normalised(state.log_weights + step * log_ratio)) >= floor, largest
    )
    return max(step, 1e-9 * largest)


class PMD(Engine):
    """Particle Mirror Descent.

    Parameters
    ----------
    n_particles : int, default=1000
        Number of particles.
    init : {"auto", "prior", "laplace"}, default="auto"
        Where the particles start: the prior, from which only likelihood values are needed (in up
        to ten coordinates, or a warning is raised), or the Gaussian at the mode. "auto" is the
        prior in up to ten coordinates.
    strategy : {"auto", "particles", "kde"}, default="auto"
        "particles": the first draws are only weighted, until the final stage. "kde": they are
        resampled from a kernel density estimate when their weights degenerate, which "auto" does.
    max_iter : int, default=10
        Epochs: passes over all rows.
    batch_size : int, default=None
        Rows in a step, in reshuffled epochs; all rows by default.
    n_sweeps : int or "auto", default="auto"
        Moves of every particle in the final stage, each one log likelihood of all rows: 60, or as
        many as there are coordinates if that is more, for "auto".
    min_power : float, default=0.95
        Warn when a smaller power of the likelihood was reached.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Dai, He, Dai & Song (2016), "Provable Bayesian inference via particle mirror descent",
    algorithms 1 and 2.

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import PMD
    >>> model = BayesianLogisticRegression(inference=PMD(init="prior"))
    """

    minibatch = "plain"
    _parameter_constraints = {
        "n_particles": N_PARTICLES[1:],
        "init": [StrOptions({"auto", "prior", "laplace"})],
        "strategy": [StrOptions({"auto", "particles", "kde"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": BATCH_SIZE,
        "n_sweeps": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "min_power": [Interval(Real, 0, 1, closed="both")],
        "whiten": ["boolean"],
        "one_sided": ["boolean"],
    }

    def __init__(
        self,
        n_particles=1000,
        *,
        init="auto",
        strategy="auto",
        max_iter=10,
        batch_size=None,
        n_sweeps="auto",
        min_power=0.95,
        whiten=True,
        one_sided=True,
    ):
        self.n_particles = n_particles
        self.init = init
        self.strategy = strategy
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.n_sweeps = n_sweeps
        self.min_power = min_power
        self.whiten = whiten
        self.one_sided = one_sided

    @property
    def requires(self):
        return {"prior": ("sample_prior", "log_prior"), "laplace": ("score",), "auto": ()}[
            self.init
        ]

    def stays_near_start(self, target):
        return self._start(target) == "laplace"

    def n_rounds(self, target):
        n = target.n_rows or 1
        return self.max_iter * -(-n // min(self.batch_size or n, n))

    def run(self, target, rng, *, init=None, map=map, callback=None):
        m, dim = self.n_particles, target.dim
        if m <= dim + 1:
            raise ValueError(
                f"n_particles={m} must exceed the number of coordinates plus one ({dim + 1})."
            )
        n = target.n_rows or 1
        batch = n if self.batch_size is None else min(self.batch_size, n)
        n_sweeps = max(60, dim) if self.n_sweeps == "auto" else self.n_sweeps
        start = "init" if init is not None else self._start(target)
        state = self._first(target, rng, start, init)
        n_steps = self.max_iter * -(-n // batch)
        history, power, t, problems = History(), 0.0, 0, []

        def log_posterior(theta, rows=None):
            if rows is not None:
                return target.log_prior(theta) + target.log_likelihood(theta, rows)
            return in_chunks(map, target.log_density, theta, target.n_rows)

        def make_posterior():
            return ParticlePosterior(state.theta, state.weights)

        for rows in _batches(n, batch, self.max_iter, rng):
            size = n if rows is None else len(rows)
            step_size = 2.0 / (t + 2.0 * n / size)
            pieces = mirror_step(state, partial(log_posterior, rows=rows), step_size, rng)
            t += 1
            if pieces == _MAX_SUBSTEPS:
                # The next steps would be no shorter.
                problems.append(
                    f"it stopped at step {t}, which had to be cut into more than {_MAX_SUBSTEPS} "
                    'pieces: use init="laplace", or a prior nearer to the posterior'
                )
                break
            power += (1.0 - power) * step_size
            info = history.add(ess=state.ess(), power=power, n_resampled=state.n_resampled)
            if callback is not None and callback(t, n_steps, make_posterior, info):
                break
        if dim <= _IMPORTANCE_UP_TO or not n_sweeps:
            state.advance(_log_ratio(state, log_posterior), 1.0)
            if state.ess() < 0.1 * m:
                problems.append(f"the weights keep an effective sample of {state.ess():.0f} of {m}")
        memory = 0.0
        if n_sweeps:
            # Few particles that carry all the weight would need many moves to spread; particles
            # somewhat off the posterior need few to get there.
            state.flatten(_DISTINCT * m)
            copies = m / state.ess()
            state.resample(rng)
            state.theta, memory = pcn_sweeps(log_posterior, state.theta, copies, n_sweeps, rng)
            if memory > 1.0:
                problems.append(
                    "the final moves have not taken the particles away from where they were: "
                    "raise n_sweeps"
                )
        if power < self.min_power:
            problems.append(
                f"only a power of {power:.2f} of the likelihood was reached, so that the posterior "
                "is too wide: raise max_iter"
            )
        if start == "prior" and dim > _PRIOR_UP_TO:
            problems.append(
                f"a start from the prior is not reliable in {dim} coordinates (above "
                f'{_PRIOR_UP_TO}): use init="laplace"'
            )
        return ParticlePosterior(
            state.theta,
            state.weights,
            history=history.arrays(),
            diagnostics={
                "posterior_power": power,
                "memory": memory,
                "message": "; ".join(problems),
            },
            n_iter=t,
            converged=not problems,
        )

    def _start(self, target):
        """ "prior" or "laplace", what "auto" stands for included."""
        if self.init != "auto":
            return self.init
        possible = supports(target, "sample_prior") and supports(target, "log_prior")
        if not possible and not supports(target, "score"):
            raise ValueError(
                "PMD needs somewhere to start: give the target sample_prior and log_prior, or a "
                "score, or pass init."
            )
        small = target.dim <= _PRIOR_UP_TO or not supports(target, "score")
        return "prior" if possible and small else "laplace"

    def _first(self, target, rng, start, init):
        """Particles of the first density, with its log density."""
        resampled = self.strategy == "kde" or (self.strategy == "auto" and start == "prior")
        if start == "init":
            density = KernelDensity(np.resize(init, (self.n_particles, target.dim)), rng)
            theta = density.sample(rng)
            return WeightedParticles(theta, density.log_density(theta), True)
        if start == "prior":
            theta = target.sample_prior(rng, self.n_particles)
            if not np.isfinite(theta).all():
                raise FloatingPointError(
                    "the prior's draws are not finite: its tails are too heavy to start from it; "
                    'use init="laplace", or a prior with lighter tails.'
                )
            return WeightedParticles(theta, target.log_prior(theta), resampled)
        theta = target.sample_start(rng, self.n_particles)
        return WeightedParticles(theta, target.log_start(theta), resampled)


def _batches(n, batch, n_epochs, rng):
    """Rows of each step: reshuffled epochs without replacement, or None for all rows."""
    for _ in range(n_epochs):
        if batch == n:
            yield None
            continue
        order = rng.permutation(n)
        for first in range(0, n, batch):
            yield order[first : first + batch]
