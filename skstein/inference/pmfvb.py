"""Particle Mean Field Variational Bayes.

Particles of every block of coordinates move by Langevin steps under the mean field of the other
blocks. What differs from the paper's algorithm 1, each found necessary:

- coordinates are whitened, and a target has one block unless more are asked for: mean field shrinks
  correlated posteriors;
- other blocks are averaged over by re-pairing (independent permutations of each block's particles,
  then one full gradient for all blocks), which costs O(M) instead of O(m M); the paper's average
  over a random subset is an option;
- the noise is that of Leimkuhler & Matthews (2013), which removes the leading bias of the step;
- with a single block the sampling phase is Metropolis-adjusted (MALA), which removes the rest;
- the posterior pools snapshots of few particles: for the same number of gradients ten times more
  accurate than the last state of many;
- it stops on Stein residuals and R-hat, or on a validation score, since the paper's lower bound
  holds log M for an entropy.

A block that the target knows in closed form is drawn from it at every step.
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._input.validation import Interval, StrOptions
from ..posterior import ParticlePosterior
from ..targets import Transformed
from ..targets.laplace_at_mode import DIAGONAL_ABOVE, gaussian_bijection
from ..targets.mean_field_factors import ConjugateFactor, within_factors
from ..thinning.balanced import representative_draws
from ._building_blocks.elbo import approximate_elbo
from ._building_blocks.langevin import AdjustedLangevin, Diverged, UnadjustedLangevin
from ._building_blocks.langevin_stopping import StopOnResiduals, StopOnValidation
from ._building_blocks.particles import draw_rows, first_particles, in_chunks
from ._building_blocks.rounds import History, Rounds, with_posteriors
from ._building_blocks.zero_variance import move_to_moments
from .base import N_PARTICLES, SubsamplingEngine

_ADAPTATION = 12  # the last iterations of the warm-up adapt MALA's step size
# Share of proposals without a chance: .06 to .27 on bananas whose arms particles missed, up to .03
# where the posterior was right, and between these in funnels, where it was nearly right.
_MAX_STIFF = 0.05
_STIFF = "parts of the density are too narrow for the steps"
_LEAST_CURVATURE = 0.1  # of a re-whitened direction, relative to the Laplace approximation's


@dataclass(eq=False, repr=False)
class PMFVB(SubsamplingEngine):
    """Particle Mean Field Variational Bayes by whitened Langevin particles.

    How it works, and when not to trust it: :doc:`/methods/pmfvb`.

    Parameters
    ----------
    n_particles : int, default=200
        Particles that move together. The posterior has at most ``n_points`` particles, pooled over
        snapshots.
    blocks : int, list of index arrays or None, default=None
        Mean-field blocks of the (whitened) coordinates: None for the target's own factorisation,
        which is one block for regressions; a number of consecutive blocks; or index arrays that
        partition the coordinates. More than one block understates the spread of correlated
        coordinates.
    coupling : {"repair", "subset"}, default="repair"
        How a block averages over the others: by a fresh pairing of the particles at every step, or,
        as in the paper, block after block over a random subset of the others' particles.
    n_coupled : int, default=10
        Size of the random subset of ``coupling="subset"``, which costs that many gradients per
        particle and block.
    rewhiten : bool, default=False
        Learn the coordinates again from a first run of ``n_warmup`` iterations, by Stein's estimate
        of the expected Hessian under the mean field; for many blocks, whose means it improves.
    step_size : float, default=0.4
        Step of the Langevin warm-up, and of the whole run with several blocks or minibatches, in
        whitened units. With one block on all rows the sampling phase adapts its own.
    n_warmup : int, default=40
        Iterations before the first snapshot.
    n_snapshots : int, default=60
        Snapshots pooled, two iterations apart; of a run that has to go on, as many of its second
        half, further apart. No more are held in memory.
    max_iter : int, default=1000
        Iterations after which a run stops without meeting ``tol``, with a warning if the residual
        is more than Monte-Carlo error.
    tol : float, default=0.2
        Largest Stein residual, over the sampling phase: about the error of a mean in posterior
        standard deviations, or the relative error of a standard deviation.
    max_rhat : float, default=1.2
        Largest R-hat between the particles, each a chain of its own, over the sampling phase. The
        particles are many and their chains short, so that it is far above 1 without harm. That of
        their distance from the mode may exceed 1 by half as much.
    early_stopping : bool, default=False
        Stop on the log predictive density of rows set aside, and return the particles of the state
        where it was largest: the posterior of the other rows, by ``n_particles`` particles. For
        models that need no exact posterior; Stein residuals then do not stop the run.
    validation_fraction : float, default=0.1
        Share of the rows that is set aside.
    n_iter_no_change : int, default=20
        Iterations without a better validation score after which the run stops.
    n_points : int or None, default=1000
        How many of the pooled particles are kept, so that they have the margins of all; None for
        all. With one block they are moved to have the mean and covariance of the pool, whose error
        control variates reduce where scores are of all rows.
    batch_size : int, default=None
        Rows for each score, with a control variate at the mode; all rows by default.
    surrogate : int or "auto", default=None
        Rows that stand for all of very many, with the rest to the second order about the mode; as
        many as the error asks for, for "auto". The exact density corrects the particles
        (:doc:`/large_data`).
    control_variate : {1, 2}, default=None
        Order of the control variate: whether it removes the minibatch's error of the score at the
        mode alone, or of the Hessian there too; None is 2 where there is a Hessian of some rows,
        in up to 2000 coordinates.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    Raises
    ------
    FloatingPointError
        If the particles diverge at four step sizes, each half of the one before.

    References
    ----------
    Tran, Tseng & Kohn, "Particle mean field variational Bayes" (arXiv:2303.13930), algorithm 1.

    Leimkuhler & Matthews (2013), "Rational construction of stochastic numerical methods for
    molecular sampling" (doi:10.1093/amrx/abs010).

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import PMFVB
    >>> model = BayesianLogisticRegression(inference=PMFVB(n_particles=500))
    """

    _parameter_constraints = {
        **SubsamplingEngine._parameter_constraints,
        "n_particles": N_PARTICLES[1:],
        "blocks": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "coupling": [StrOptions({"repair", "subset"})],
        "n_coupled": [Interval(Integral, 1, None, closed="left")],
        "rewhiten": ["boolean"],
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "n_warmup": [Interval(Integral, 2 * _ADAPTATION, None, closed="left")],
        "n_snapshots": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_rhat": [Interval(Real, 1, None, closed="neither")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "n_points": [None, Interval(Integral, 2, None, closed="left")],
        "control_variate": [None, Interval(Integral, 1, 2, closed="both")],
    }

    n_particles: int = 200
    _: KW_ONLY
    blocks: Any = None
    coupling: str = "repair"
    n_coupled: int = 10
    rewhiten: bool = False
    step_size: float = 0.4
    n_warmup: int = 40
    n_snapshots: int = 60
    max_iter: int = 1000
    tol: float = 0.2
    max_rhat: float = 1.2
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 20
    n_points: int | None = 1000
    control_variate: int | None = None

    curved = True

    @property
    def keeps_factors(self):
        return self.blocks is None

    def n_rounds(self, target):
        return self.max_iter

    def run(self, target, rng, *, init=None, map=map, callback=None):
        self._factors(target)  # refuses wrong blocks before any work
        if self.rewhiten and target.dim > DIAGONAL_ABOVE:
            raise ValueError(
                f"rewhiten=True needs at most {DIAGONAL_ABOVE} coordinates, got {target.dim}."
            )
        step_size, run = self.step_size, self._run_rewhitened if self.rewhiten else self._run
        for _ in range(4):
            history = History()
            try:
                return run(target, rng, init, map, callback, step_size, history)
            except Diverged as diverged:
                (iteration,) = diverged.args
                step_size /= 2
        error = FloatingPointError(
            f"PMFVB diverged at iteration {iteration} with step_size={2 * step_size:g}, "
            f"after three halvings of step_size={self.step_size:g}; use a smaller one, or "
            "whiten=True."
        )
        error.history = history.arrays()  # type: ignore[attr-defined]
        raise error

    def _factors(self, target):
        """A partition of the coordinates: index arrays, and factors in closed form."""
        if self.blocks is None:
            return target.factors
        if isinstance(self.blocks, Integral):
            return np.array_split(np.arange(target.dim), min(self.blocks, target.dim))
        blocks = [np.atleast_1d(block) for block in self.blocks]
        if not np.array_equal(np.sort(np.concatenate([*blocks, []])), np.arange(target.dim)):
            raise ValueError(f"blocks must partition the coordinates 0..{target.dim - 1}.")
        return [block.astype(int) for block in blocks]

    def _mover(self, target, rng, init, map, step_size):
        def evaluator(theta):
            if target.stochastic:
                rows = draw_rows(target, rng)
                score = in_chunks(map, partial(target.score, rows=rows), theta, target.batch_size)
                return None, score
            return in_chunks(map, target.log_density_and_score, theta, target.n_rows)

        theta = first_particles(target, rng, self.n_particles, init)
        factors = self._factors(target)
        n_coupled = self.n_coupled if self.coupling == "subset" else None
        return evaluator, UnadjustedLangevin(
            theta, factors, step_size, evaluator, rng, target.stochastic, self.whiten, n_coupled
        )

    def _run_rewhitened(self, target, rng, init, map, callback, step_size, history):
        """Run in coordinates that a first run has learnt, and map back."""
        _, mover = self._mover(target, rng, init, map, step_size)
        thetas, scores = [], []
        for iteration in range(1, self.n_warmup + 1):
            state = mover.step(warmup=True)
            if iteration > self.n_warmup // 2:
                # As paired: how the score of a block depends on another block is wanted too.
                thetas.append(state.theta)
                scores.append(state.score)
        factors = self._factors(target) if self.blocks is None else ()
        bijection = _stein_whitening(np.concatenate(thetas), np.concatenate(scores), factors)

        def mapped_back(posterior):
            return posterior._pushed(bijection, target.names)

        white, start = Transformed(target, bijection), bijection.inverse(mover.theta)
        called = None if callback is None else with_posteriors(callback, mapped_back)
        return mapped_back(self._run(white, rng, start, map, called, step_size, history))

    def _run(self, target, rng, init, map, callback, step_size, history):
        def make_posterior():
            states = rule.states
            exact = states[0].log_density is not None

            def pooled(name):
                # One particle after the other: what is chosen evenly then lies far apart in time.
                return np.stack([getattr(state, name) for state in states], axis=1)

            draws, slopes = pooled("theta"), pooled("score")
            pool = np.concatenate(draws)
            chosen = representative_draws(pool, min(self.n_points or len(pool), len(pool)))
            posterior = ParticlePosterior(
                pool[chosen],
                log_densities=pooled("log_density").ravel()[chosen] if exact else None,
                scores=np.concatenate(slopes)[chosen] if exact else None,
                n_iter=iteration,
            )
            if one_block and not self.early_stopping and not rule.problems():
                move_to_moments(posterior, target, draws, slopes)
            return posterior

        evaluator, mover = self._mover(target, rng, init, map, step_size)
        factors = self._factors(target)
        one_block = len(factors) == 1 and not isinstance(factors[0], ConjugateFactor)
        rule, rounds = self._rule(target), Rounds(self.max_iter, make_posterior, callback, history)
        for iteration in range(1, self.max_iter + 1):
            adapts = iteration == self.n_warmup - _ADAPTATION + 1
            if adapts and one_block and not target.stochastic:
                mover = AdjustedLangevin(mover.theta, step_size, evaluator, rng)
            warmup = iteration <= self.n_warmup
            state = mover.step(warmup)
            seen, elbo = rule.see(state, warmup), approximate_elbo([state], factors)
            moves = {"acceptance": mover.acceptance, "step_size": mover.step_size}
            if rounds.end(iteration, **seen, elbo=elbo, **moves) or rule.finished:
                break
        posterior, problems = make_posterior(), rule.problems()
        if mover.stiff > _MAX_STIFF and not self.early_stopping:
            problems = [*problems, _STIFF]
        posterior.history = rounds.history.arrays()
        posterior.converged = not problems
        numbers = {"elbo": approximate_elbo(rule.states, factors), "stiff": mover.stiff}
        message = ""
        if problems:
            cure = "raise max_iter, or use mcmc" if _STIFF in problems else "raise max_iter"
            message = f"after {iteration} iterations {' and '.join(problems)}; {cure}."
        posterior.diagnostics = {**rule.diagnostics(), **numbers, "message": message}
        return posterior

    def _rule(self, target):
        n_kept, n_points = self.n_snapshots, self.n_points
        if n_points is not None and n_points < 2 * target.dim:
            # All snapshots would serve the moments alone, which so few points cannot be moved to.
            n_kept = min(n_kept, -(-n_points // self.n_particles))
        settings = self.n_snapshots, n_kept, self.tol, self.max_rhat
        if not self.early_stopping:
            return StopOnResiduals(*settings)
        if target.validation is None:
            raise ValueError("early_stopping=True needs a target with rows kept back (validation).")
        return StopOnValidation(target.validation, self.n_iter_no_change, *settings)


def _stein_whitening(theta, score, factors):
    """Coordinates in which the expected Hessian of the negative log density is the identity.

    By Stein's lemma ``E[(z - E z) g'] = -Cov(z) E[H]`` for a normal mean field of the particles.
    """
    centred = theta - theta.mean(axis=0)
    covariance, product = centred.T @ centred, centred.T @ (score - score.mean(axis=0))
    if len(factors) > 1:
        covariance, product = (within_factors(part, factors) for part in (covariance, product))
    hessian = -np.linalg.solve(covariance, product)
    size, axes = np.linalg.eigh(0.5 * (hessian + hessian.T))
    hessian = (axes * np.maximum(size, _LEAST_CURVATURE)) @ axes.T
    return gaussian_bijection(theta.mean(axis=0), hessian)
