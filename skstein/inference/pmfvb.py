"""Particle Mean Field Variational Bayes.

Particles of every block of coordinates move by Langevin steps under the mean field of the other
blocks. What differs from the paper's algorithm 1, each found necessary:

- coordinates are whitened, and a target has one block unless more are asked for: mean field shrinks
  correlated posteriors;
- other blocks are averaged over by re-pairing (independent permutations of each block's particles,
  then one full gradient for all blocks), which costs O(M) instead of O(m M);
- the noise is that of Leimkuhler & Matthews (2013), which takes off the leading bias of the step;
- with a single block the sampling phase is Metropolis-adjusted (MALA), which takes off the rest;
- the posterior pools snapshots of few particles: for the same number of gradients ten times more
  accurate than the last state of many;
- it stops on Stein residuals and R-hat, since the paper's lower bound holds log M for an entropy.
"""

from functools import partial
from numbers import Integral, Real

import numpy as np

from .._validation import Interval
from ..posterior import ParticlePosterior
from ._langevin import AdjustedLangevin, Diverged, UnadjustedLangevin
from .base import BATCH_SIZE, N_PARTICLES, Engine, History, draw_rows, in_chunks, starting_particles

_ADAPTATION = 12  # the last iterations of the warm-up adapt MALA's step size


class PMFVB(Engine):
    """Particle Mean Field Variational Bayes by whitened Langevin particles.

    Parameters
    ----------
    n_particles : int, default=200
        Particles that move together.
    blocks : int, list of index arrays or None, default=None
        Mean-field blocks of the (whitened) coordinates: None for the target's own factorisation,
        which is one block for regressions; a number of consecutive blocks; or index arrays that
        partition the coordinates. More than one block understates the spread of correlated
        coordinates.
    step_size : float, default=0.4
        Step of the Langevin warm-up, and of the whole run with several blocks or minibatches, in
        whitened units. With one block on all rows the sampling phase adapts its own.
    n_warmup : int, default=40
        Iterations before the first snapshot.
    n_snapshots : int, default=40
        Snapshots pooled, two iterations apart; of a run that has to go on, as many of its second
        half, further apart.
    max_iter : int, default=1000
        Iterations after which a run stops that does not meet ``tol``, with a warning if what is
        left is more than Monte-Carlo error.
    tol : float, default=0.2
        Largest Stein residual, over the sampling phase: about the error of a mean in posterior
        standard deviations, or the relative error of a standard deviation.
    max_rhat : float, default=1.2
        Largest R-hat between the particles, each a chain of its own, over the sampling phase. The
        particles are many and their chains short, so that it is far above 1 without harm.
    n_points : int, default=None
        Evenly thin the pooled particles to this number; all are kept by default.
    batch_size : int, default=None
        Rows for each score, with a control variate at the mode; all rows by default.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    Raises
    ------
    FloatingPointError
        If the particles diverge at four step sizes, each half of the one before.

    References
    ----------
    Tran, Tseng & Kohn, "Particle mean field variational Bayes", algorithm 1.

    Leimkuhler & Matthews (2013), "Rational construction of stochastic numerical methods for
    molecular sampling".

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import PMFVB
    >>> model = BayesianLogisticRegression(inference=PMFVB(n_particles=500))
    """

    _parameter_constraints = {
        "n_particles": N_PARTICLES[1:],
        "blocks": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "n_warmup": [Interval(Integral, 2 * _ADAPTATION, None, closed="left")],
        "n_snapshots": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_rhat": [Interval(Real, 1, None, closed="neither")],
        "n_points": [None, Interval(Integral, 2, None, closed="left")],
        "batch_size": BATCH_SIZE,
        "whiten": ["boolean"],
        "one_sided": ["boolean"],
    }

    def __init__(
        self,
        n_particles=200,
        *,
        blocks=None,
        step_size=0.4,
        n_warmup=40,
        n_snapshots=40,
        max_iter=1000,
        tol=0.2,
        max_rhat=1.2,
        n_points=None,
        batch_size=None,
        whiten=True,
        one_sided=True,
    ):
        self.n_particles = n_particles
        self.blocks = blocks
        self.step_size = step_size
        self.n_warmup = n_warmup
        self.n_snapshots = n_snapshots
        self.max_iter = max_iter
        self.tol = tol
        self.max_rhat = max_rhat
        self.n_points = n_points
        self.batch_size = batch_size
        self.whiten = whiten
        self.one_sided = one_sided

    def n_rounds(self, target):
        return self.max_iter

    def run(self, target, rng, *, init=None, map=map, callback=None):
        blocks = self._resolve_blocks(target)
        step_size = self.step_size
        for _ in range(4):
            try:
                return self._run(target, rng, init, map, callback, blocks, step_size)
            except Diverged as diverged:
                failure = diverged
                step_size /= 2
        error = FloatingPointError(
            f"PMFVB diverged at iteration {failure.iteration} with step_size={2 * step_size:g}, "
            f"after three halvings of step_size={self.step_size:g}; use a smaller one, or "
            "whiten=True."
        )
        error.history = failure.history
        raise error

    def _resolve_blocks(self, target):
        if self.blocks is None:
            return [np.asarray(block) for block in target.factors]
        if isinstance(self.blocks, Integral):
            return np.array_split(np.arange(target.dim), min(self.blocks, target.dim))
        blocks = [np.asarray(block, dtype=int) for block in self.blocks]
        if not np.array_equal(np.sort(np.concatenate(blocks)), np.arange(target.dim)):
            raise ValueError(f"blocks must partition the coordinates 0..{target.dim - 1}.")
        return blocks

    def _kept(self, pool):
        """The snapshots that make the posterior."""
        if len(pool) <= self.n_snapshots:
            return pool
        late = pool[len(pool) // 2 :]
        count = min(self.n_snapshots, len(late))
        return [late[i] for i in np.linspace(0, len(late) - 1, count).round().astype(int)]

    def _run(self, target, rng, init, map, callback, blocks, step_size):
        def scorer(theta):
            rows = draw_rows(target, rng)
            return in_chunks(map, partial(target.score, rows=rows), theta, target.n_rows)

        def evaluator(theta):
            return in_chunks(map, target.log_density_and_score, theta, target.n_rows)

        def make_posterior():
            theta, values, scores = zip(*self._kept(pool or [snapshot]), strict=True)
            exact = values[0] is not None
            posterior = ParticlePosterior(
                np.concatenate(theta),
                log_densities=np.concatenate(values) if exact else None,
                scores=None if target.stochastic else np.concatenate(scores),
                n_iter=iteration,
            )
            many = self.n_points is not None and self.n_points < len(posterior)
            return posterior.thin(self.n_points) if many else posterior

        theta = starting_particles(target, rng, self.n_particles, init)
        limit = 1e4 * max(1.0, np.abs(theta).max())
        mover = UnadjustedLangevin(theta, blocks, step_size, scorer, rng, limit, target.stochastic)
        adjusted = len(blocks) == 1 and not target.stochastic
        moments, history, pool = _StreamMoments(), History(), []
        for iteration in range(1, self.max_iter + 1):
            if adjusted and iteration == self.n_warmup - _ADAPTATION + 1:
                mover = AdjustedLangevin(mover.theta, step_size, evaluator, rng)
            warmup = iteration <= self.n_warmup
            try:
                snapshot = mover.step(warmup)
            except Diverged as diverged:
                diverged.iteration, diverged.history = iteration, history.arrays()
                raise
            if not warmup:
                moments.add(snapshot[0], snapshot[2])
                if (iteration - self.n_warmup) % 2 == 0:
                    pool.append(snapshot)
            (worst, certain), rhat = moments.residuals(), moments.rhat()
            info = history.add(
                residual=worst,
                rhat=rhat,
                acceptance=mover.acceptance,
                step_size=mover.step_size,
            )
            if callback is not None and callback(iteration, self.max_iter, make_posterior, info):
                break
            if len(pool) >= self.n_snapshots and worst < self.tol and rhat < self.max_rhat:
                break
        posterior = make_posterior()
        posterior.history = history.arrays()
        problems = []
        if certain >= self.tol:
            problems.append(f"a Stein residual of {certain:.3g} (tol={self.tol:g}) is left")
        if rhat >= self.max_rhat:
            problems.append(f"the particles move too slowly (R-hat {rhat:.2f})")
        posterior.converged = not problems
        posterior.diagnostics = {
            "stein_residual": worst,
            "rhat": rhat,
            "message": f"after {iteration} iterations {' and '.join(problems)}; raise max_iter.",
        }
        return posterior


class _StreamMoments:
    """Averages over the states that have been added, particle by particle.

    Each particle is a chain of its own: the spread between their averages gives the standard errors
    of Stein's residuals, however slowly a particle moves, and R-hat says how slowly.
    """

    def __init__(self):
        self._count = 0

    def add(self, theta, score):
        parts = np.stack([theta, score, theta * score, theta**2])
        self._sums = self._sums + parts if self._count else parts
        self._count += 1

    def residuals(self):
        """The largest residual, and the largest one that is more than four standard errors.

        A residual is ``max(|E g_j|, |1 + Cov(z_j, g_j)| / 2)``. Both are infinite before the first
        state, and 0 stands for none.
        """
        if not self._count:
            return np.inf, np.inf
        means = self._sums[:3] / self._count
        theta, score, product = means.mean(axis=1)
        root = np.sqrt(means.shape[1])
        errors = np.stack([means[1].std(axis=0), 0.5 * means[2].std(axis=0)]) / root
        residuals = np.stack([np.abs(score), 0.5 * np.abs(1.0 + product - theta * score)])
        certain = np.where(residuals > 4.0 * errors, residuals, 0.0)
        return float(residuals.max()), float(certain.max())

    def rhat(self):
        """The largest R-hat (Gelman & Rubin 1992) of a coordinate, with particles as chains."""
        n = self._count
        if n < 2:
            return np.inf
        means = self._sums[0] / n
        within = (self._sums[3] / n - means**2).mean(axis=0) * n / (n - 1)
        between = means.var(axis=0, ddof=1)
        return float(np.sqrt((n - 1) / n + between / np.maximum(within, 1e-300)).max())
