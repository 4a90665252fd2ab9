"""Langevin moves of many particles at once, in whitened coordinates.

Equations are those of Tran, Tseng & Kohn (2023), "Particle mean field variational Bayes".
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from ...samplers import MALA, Chains
from ...samplers._warm_up import quantized_step_size
from ...targets.mean_field_factors import ConjugateFactor, indices_of

_MALA = MALA()


class Diverged(Exception):
    """Particles left for infinity in a step of this number; the caller tries a smaller one."""


@dataclass
class LangevinState:
    """Particles and what is known of them.

    Attributes
    ----------
    theta, score : ndarray of shape (m, dim)
        Paired as the score was evaluated.
    log_density : ndarray of shape (m,) or None
        None where scores are of minibatches.
    chains : tuple of two ndarrays of shape (m, dim)
        The same numbers, theta and score, with every particle of a block in a row of its own.
    """

    theta: np.ndarray
    log_density: np.ndarray | None
    score: np.ndarray
    chains: tuple


class UnadjustedLangevin:
    """Langevin steps of the particles of a mean field, with the noise of Leimkuhler & Matthews.

    The noise ``(xi_t + xi_{t-1}) / 2`` takes off the leading bias of the step size. A factor in
    closed form is drawn again at every step, given the others.

    Two ways to average over the other factors. Under a mean field their pairing is arbitrary, so a
    fresh *re-pairing* at every step makes one full score an unbiased estimate of all averaged ones.
    The other is PMFVB, algorithm 1: factor after factor, the mean over a random *subset* of the
    others' particles, the same for all particles (eq. 20 and 21).

    Parameters
    ----------
    theta : ndarray of shape (m, dim)
    factors : list of ndarray of int or ConjugateFactor
    step_size : float
    evaluator : callable
        ``evaluator(theta) -> ((m,) or None, (m, dim))``, log density and score.
    rng : numpy.random.Generator
    noisy : bool
        Whether the scores are of minibatches.
    white : bool
        Whether the coordinates are white, so that a long score can be told.
    n_coupled : int, default=None
        Size of the random subset; None re-pairs.
    """

    acceptance, stiff = np.nan, 0.0  # nothing is rejected

    def __init__(
        self, theta, factors, step_size, evaluator, rng, noisy, white=True, n_coupled=None
    ):
        self.theta, self.step_size, self._iteration = theta, step_size, 0
        # A coordinate beyond it has diverged.
        self._limit = 1e4 * max(1.0, np.abs(theta).max())
        self._factors = factors
        self._blocks = [indices_of(factor) for factor in factors]
        self._evaluator, self._rng, self._noisy = evaluator, rng, noisy
        self._white, self._n_coupled = white, n_coupled
        self._noise = rng.standard_normal(theta.shape)

    def step(self, warmup):
        """Move once; return the `LangevinState` before the move.

        In white coordinates long scores are clipped during ``warmup``, when a start beyond a steep
        wall must not overshoot, and when they are ``noisy``: one row of a minibatch may stand for
        many.
        """
        self._iteration += 1
        self._clips = self._white and (warmup or self._noisy)
        return self._repaired() if self._n_coupled is None else self._coupled()

    def _repaired(self):
        self._draw_closed_forms(self._factors)
        theta, m = self.theta, len(self.theta)
        if len(self._blocks) == 1:
            state = self._evaluated(theta)
        else:
            orders = [self._rng.permutation(m) for _ in self._blocks]
            paired, score = np.empty_like(theta), np.empty_like(theta)
            for block, order in zip(self._blocks, orders, strict=True):
                paired[:, block] = theta[np.ix_(order, block)]
            state = self._evaluated(paired)
            for block, order in zip(self._blocks, orders, strict=True):
                score[np.ix_(order, block)] = state.score[:, block]
            state.chains = theta, score
        moving = [
            block
            for block, factor in zip(self._blocks, self._factors, strict=True)
            if not isinstance(factor, ConjugateFactor)
        ]
        self.theta = theta.copy()
        if moving:
            self._move(np.concatenate(moving), state.chains[1])
        return state

    def _coupled(self):
        state = self._evaluated(self.theta)
        self.theta, m = self.theta.copy(), len(self.theta)
        for block, factor in zip(self._blocks, self._factors, strict=True):
            if isinstance(factor, ConjugateFactor):
                self._draw_closed_forms([factor])
                continue
            n_coupled = min(self._n_coupled, m)
            chosen = [self._rng.choice(m, n_coupled, replace=False) for _ in self._blocks]
            mixed, total = self.theta.copy(), np.zeros_like(self.theta)
            for k in range(n_coupled):
                for other, subset in zip(self._blocks, chosen, strict=True):
                    if other is not block:
                        mixed[:, other] = self.theta[subset[k], other]
                total += self._evaluated(mixed).score
            self._move(block, total / n_coupled)
        return state

    def _draw_closed_forms(self, factors):
        # Eq. 16: the optimal factor, given the others.
        for factor in factors:
            if isinstance(factor, ConjugateFactor):
                optimum = factor.optimum(self.theta)
                self.theta[:, factor.indices] = optimum.sample(self._rng, len(self.theta))

    def _evaluated(self, theta):
        value, score = self._evaluator(theta)
        if not np.isfinite(score).all() or np.abs(theta).max() > self._limit:
            raise Diverged(self._iteration)
        return LangevinState(theta, value, score, (theta, score))

    def _move(self, block, score):
        drift = score[:, block]
        if self._clips:
            norm = np.linalg.norm(drift, axis=1, keepdims=True)
            drift = drift * np.minimum(1.0, 3 * math.sqrt(len(block)) / np.maximum(norm, 1e-300))
        h, fresh = self.step_size, self._rng.standard_normal(drift.shape)
        noise = 0.5 * (fresh + self._noise[:, block])
        # Eq. 13, with this noise in place of a fresh one.
        self.theta[:, block] += 0.5 * h * drift + math.sqrt(h) * noise
        self._noise[:, block] = fresh


class AdjustedLangevin:
    """Metropolis-adjusted Langevin steps (MALA), every particle a chain of its own.

    Particles that no proposal of the warm-up could move, steep as the density is where unadjusted
    steps had left them, would stay there for good: each takes the place of one that moved.

    Parameters
    ----------
    theta : ndarray of shape (m, dim)
    step_size : float
    evaluator : callable
        ``evaluator(theta) -> ((m,), (m, dim))``, log density and score.
    rng : numpy.random.Generator
    """

    def __init__(self, theta, step_size, evaluator, rng):
        self.step_size, self.acceptance = step_size, np.nan
        self._log_step, self._adapted = math.log(step_size), 0
        self._target = SimpleNamespace(log_density_and_score=evaluator)
        self._chains = Chains(theta, *evaluator(theta), math.sqrt(step_size), rng)  # type: ignore[call-arg]
        self._stuck, self._n_proposed = np.ones(len(theta), dtype=bool), 0

    @property
    def theta(self):
        return self._chains.theta

    @property
    def stiff(self):
        """Share of the proposals since the warm-up that had no chance of acceptance."""
        return self._chains.n_stiff / max(self._n_proposed, 1)

    def step(self, warmup):
        """Move once; return the `LangevinState` after the move.

        During ``warmup`` the step size is adapted to the acceptance rate; then it is frozen.
        """
        chains = self._chains
        if warmup:
            chains.n_stiff = 0
        else:
            self._free()
            self._n_proposed += len(chains.theta)
        before = chains.theta
        self.acceptance = _MALA.move(self._target, chains)
        if warmup:
            self._stuck &= (chains.theta == before).all(axis=1)
            self._adapted += 1
            # So many particles measure the rate well: a plain Robbins-Monro step is quick enough.
            excess = self.acceptance - _MALA.acceptance
            self._log_step += 2 * excess / math.sqrt(self._adapted)
            self.step_size = quantized_step_size(math.exp(self._log_step))
            chains.step_size = math.sqrt(self.step_size)
        return LangevinState(
            chains.theta, chains.log_density, chains.score, (chains.theta, chains.score)
        )

    def _free(self):
        """Put particles that are stuck where others are."""
        chains, stuck = self._chains, self._stuck
        if stuck.any() and not stuck.all():
            others = chains.rng.choice(np.flatnonzero(~stuck), np.count_nonzero(stuck))
            for values in (chains.theta, chains.log_density, chains.score):
                values[stuck] = values[others]
        self._stuck = np.zeros_like(stuck)
