"""Langevin moves of many particles at once, in whitened coordinates."""

import math

import numpy as np

from ..samplers.hmc import quantized

_ACCEPTANCE = 0.57  # optimal for MALA (Roberts & Rosenthal 1998)


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
        self.theta, self.step_size, self.acceptance = theta, step_size, np.nan
        self._log_step = math.log(step_size)
        self._evaluator, self._rng = evaluator, rng
        self._value, self._score = evaluator(theta)
        self._adapted = 0

    def step(self, warmup):
        """Move once; return the state after the move as (theta, log density, score).

        During ``warmup`` the step size is adapted to the acceptance rate; then it is frozen.
        """
        h, theta = self.step_size, self.theta
        noise = self._rng.standard_normal(theta.shape)
        proposal = theta + 0.5 * h * self._score + math.sqrt(h) * noise
        with np.errstate(over="ignore", invalid="ignore"):
            value, score = self._evaluator(proposal)
            back = theta - proposal - 0.5 * h * score
            change = value - self._value
            change += 0.5 * (
                np.einsum("ij,ij->i", noise, noise) - np.einsum("ij,ij->i", back, back) / h
            )
        change = np.where(np.isfinite(change), change, -np.inf)
        accept = np.log(self._rng.random(len(theta))) < change
        self.theta = np.where(accept[:, None], proposal, theta)
        self._score = np.where(accept[:, None], score, self._score)
        self._value = np.where(accept, value, self._value)
        self.acceptance = np.exp(np.minimum(0.0, change)).mean()
        if warmup:
            self._adapted += 1
            self._log_step += 2 * (self.acceptance - _ACCEPTANCE) / math.sqrt(self._adapted)
            self.step_size = quantized(math.exp(self._log_step))
        return self.theta, self._value, self._score
