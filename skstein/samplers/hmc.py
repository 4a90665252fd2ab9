"""Hamiltonian Monte Carlo with a step size adapted by dual averaging.

The coordinates are whitened before, so that the mass matrix is the identity and a trajectory of
about a quarter period (1.5) carries a chain to a nearly independent point. All chains of a batch
take the same number of leapfrog steps, so that every gradient is one batched call.
"""

import math
from dataclasses import dataclass

import numpy as np


def quantized(step_size):
    """``step_size`` on a geometric grid of ratio ``2 ** (1 / 16)``.

    An adapted step size depends on the energies of the steps before, and they on it: without the
    grid a difference in the last digit (the order of a sum) grows to a different chain.
    """
    return 2.0 ** (round(16.0 * math.log2(step_size)) / 16.0)


class DualAveraging:
    """Step size adaptation of Hoffman & Gelman (2014), section 3.2.

    Parameters
    ----------
    step_size : float
        First guess.
    target : float
        Acceptance probability to reach.
    """

    def __init__(self, step_size, target):
        self.step_size = quantized(step_size)
        self._centre, self._target = math.log(10.0 * step_size), target
        self._error = self._average = 0.0
        self._t = 0

    def update(self, acceptance):
        """Adapt to the mean ``acceptance`` of one iteration."""
        self._t += 1
        share = 1.0 / (self._t + 10.0)
        self._error += share * (self._target - acceptance - self._error)
        log_step = self._centre - math.sqrt(self._t) / 0.05 * self._error
        decay = self._t**-0.75
        self._average += decay * (log_step - self._average)
        self.step_size = quantized(math.exp(log_step))

    def freeze(self):
        """Use the averaged step size from now on."""
        if self._t:
            self.step_size = quantized(math.exp(self._average))


@dataclass
class Chains:
    """What the next draw needs.

    Attributes
    ----------
    theta, score : ndarray of shape (chains, dim)
    log_density : ndarray of shape (chains,)
    step_size : float
    rng : numpy.random.Generator
    noise : ndarray of shape (chains, dim) or None
        Of the last Langevin step.
    """

    theta: np.ndarray
    log_density: np.ndarray
    score: np.ndarray
    step_size: float
    rng: np.random.Generator
    noise: np.ndarray | None = None


class HMC:
    """Hamiltonian Monte Carlo over a batch of chains.

    Parameters
    ----------
    trajectory : float, default=1.5
        Length of a trajectory, in whitened units; jittered by 20 % either way.
    acceptance : float, default=0.8
        Acceptance probability that the step size is adapted to.
    max_leapfrogs : int, default=64
        Most leapfrog steps of one trajectory.
    """

    def __init__(self, trajectory=1.5, acceptance=0.8, max_leapfrogs=64):
        self.trajectory, self.acceptance, self.max_leapfrogs = trajectory, acceptance, max_leapfrogs

    def warm_up(self, target, n_iterations, theta, rng):
        """Adapt the step size.

        Parameters
        ----------
        target : Target
            With an exact score.
        n_iterations : int
        theta : ndarray of shape (chains, dim)
            Where the chains start.
        rng : numpy.random.Generator
            Used by these chains from now on.

        Returns
        -------
        Chains

        Raises
        ------
        ValueError
            If the target's scores are noisy.
        FloatingPointError
            If the log density is not finite where a chain starts.
        """
        if target.stochastic:
            raise ValueError('HMC cannot use minibatches: use sampler="sgld" with batch_size.')
        theta = np.array(theta, dtype=float)
        log_density, score = target.log_density_and_score(theta)
        bad = ~(np.isfinite(log_density) & np.isfinite(score).all(axis=1))
        if bad.any():
            raise FloatingPointError(
                f"the log density or its score is not finite where chain {np.flatnonzero(bad)[0]} "
                "starts; give other starting points (init)."
            )
        adaptation = DualAveraging(0.5, self.acceptance)
        chains = Chains(theta, log_density, score, adaptation.step_size, rng)
        for _ in range(n_iterations):
            adaptation.update(self._iterate(target, chains))
            chains.step_size = adaptation.step_size
        adaptation.freeze()
        chains.step_size = adaptation.step_size
        return chains

    def draw(self, target, n_draws, chains):
        """Draw from the chains.

        Parameters
        ----------
        target : Target
        n_draws : int
        chains : Chains
            Advanced.

        Returns
        -------
        chains : Chains
        draws, scores : ndarray of shape (chains, n_draws, dim)
        acceptance : float
            Mean acceptance probability.
        """
        draws = np.empty((len(chains.theta), n_draws, target.dim))
        scores, acceptance = np.empty_like(draws), 0.0
        for t in range(n_draws):
            acceptance += self._iterate(target, chains) / n_draws
            draws[:, t], scores[:, t] = chains.theta, chains.score
        return chains, draws, scores, acceptance

    def _iterate(self, target, chains):
        """One trajectory of every chain; the mean acceptance probability."""
        rng, step = chains.rng, chains.step_size
        length = self.trajectory * rng.uniform(0.8, 1.2)
        n_steps = min(max(1, round(length / step)), self.max_leapfrogs)
        momentum = rng.standard_normal(chains.theta.shape)
        theta, log_density, score, change = _leapfrog(target, chains, momentum, step, n_steps)
        # A trajectory that ran off to where the density overflows is rejected, not an error.
        change = np.where(np.isfinite(change), change, -np.inf)
        accept = np.log(rng.random(len(theta))) < change
        chains.theta = np.where(accept[:, None], theta, chains.theta)
        chains.score = np.where(accept[:, None], score, chains.score)
        chains.log_density = np.where(accept, log_density, chains.log_density)
        return np.exp(np.minimum(0.0, change)).mean()


def _leapfrog(target, chains, momentum, step, n_steps):
    """End of the trajectories and the log acceptance ratio there."""
    theta, kinetic = chains.theta, np.einsum("ij,ij->i", momentum, momentum)
    with np.errstate(over="ignore", invalid="ignore"):
        momentum = momentum + 0.5 * step * chains.score
        for _ in range(n_steps - 1):
            theta = theta + step * momentum
            momentum += step * target.score(theta)
        theta = theta + step * momentum
        log_density, score = target.log_density_and_score(theta)
        momentum += 0.5 * step * score
        kinetic -= np.einsum("ij,ij->i", momentum, momentum)
        change = log_density - chains.log_density + 0.5 * kinetic
    return theta, log_density, score, change
