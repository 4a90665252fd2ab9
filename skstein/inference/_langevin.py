"""Langevin moves of many particles at once, in whitened coordinates."""

import math
from types import SimpleNamespace

import numpy as np

from ..samplers import MALA, Chains
from ..samplers._adapt import quantized

_MALA = MALA()


class Diverged(Exception):
    """Particles left for infinity; the caller tries a smaller step."""


class UnadjustedLangevin:
    """Langevin steps with the noise of Leimkuhler & Matthews, blocks re-paired at each step.

    The noise ``(xi_t + xi_{t-1}) / 2`` takes off the leading bias of the step size. Under a mean
    field the pairing of the blocks' particles is arbitrary, so a fresh pairing at every step makes
    one full gradient an unbiased estimate of every block's averaged one.

    Parameters
    ----------
    theta : ndarray of shape (m, dim)
    blocks : list of ndarray of int
    step_size : float
    scorer : callable
        ``scorer(theta) -> (m, dim)``.
    rng : numpy.random.Generator
    limit : float
        A coordinate beyond it counts as diverged.
    noisy : bool
        Whether the scores are of minibatches.
    """

    acceptance = np.nan

    def __init__(self, theta, blocks, step_size, scorer, rng, limit, noisy):
        self.theta, self.blocks, self.step_size = theta, blocks, step_size
        self._scorer, self._rng, self._limit, self._noisy = scorer, rng, limit, noisy
        self._noise = rng.standard_normal(theta.shape)

    def step(self, warmup):
        """Move once; return the state before the move as (theta, None, score).

        Long scores are clipped during ``warmup``, when a start beyond a steep wall must not
        overshoot, and when they are ``noisy``: one row of a minibatch may stand for many.
        """
        if len(self.blocks) > 1:
            for block in self.blocks:
                order = self._rng.permutation(len(self.theta))
                self.theta[:, block] = self.theta[np.ix_(order, block)]
                self._noise[:, block] = self._noise[np.ix_(order, block)]
        theta = self.theta
        score = self._scorer(theta)
        if not np.isfinite(score).all() or np.abs(theta).max() > self._limit:
            raise Diverged
        drift = score
        if warmup or self._noisy:
            norm = np.linalg.norm(score, axis=1, keepdims=True)
            longest = 3 * math.sqrt(theta.shape[1])
            drift = score * np.minimum(1.0, longest / np.maximum(norm, 1e-300))
        fresh = self._rng.standard_normal(theta.shape)
        noise = 0.5 * (fresh + self._noise)
        self.theta = theta + 0.5 * self.step_size * drift + math.sqrt(self.step_size) * noise
        self._noise = fresh
        return theta, None, score


class AdjustedLangevin:
    """Metropolis-adjusted Langevin steps (MALA), every particle a chain of its own.

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
        self._chains = Chains(theta, *evaluator(theta), math.sqrt(step_size), rng)

    @property
    def theta(self):
        return self._chains.theta

    def step(self, warmup):
        """Move once; return the state after the move as (theta, log density, score).

        During ``warmup`` the step size is adapted to the acceptance rate; then it is frozen.
        """
        chains = self._chains
        self.acceptance = _MALA.move(self._target, chains)
        if warmup:
            self._adapted += 1
            # So many particles measure the rate well: a plain Robbins-Monro step is quick enough.
            excess = self.acceptance - _MALA.acceptance
            self._log_step += 2 * excess / math.sqrt(self._adapted)
            self.step_size = quantized(math.exp(self._log_step))
            chains.step_size = math.sqrt(self.step_size)
        return chains.theta, chains.log_density, chains.score
