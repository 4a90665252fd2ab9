"""Hamiltonian Monte Carlo with a step size adapted by dual averaging.

The coordinates are whitened before, so that the mass matrix is the identity and a trajectory of
about a quarter period (1.5) carries a chain to a nearly independent point. All chains of a batch
take the same number of leapfrog steps, so that every gradient is one batched call.
"""

import math

import numpy as np


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
        self.step_size = step_size
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
        self.step_size = math.exp(log_step)

    def freeze(self):
        """Use the averaged step size from now on."""
        self.step_size = math.exp(self._average)


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

    stochastic = False

    def __init__(self, trajectory=1.5, acceptance=0.8, max_leapfrogs=64):
        self.trajectory, self.acceptance, self.max_leapfrogs = trajectory, acceptance, max_leapfrogs

    def sample(self, target, theta, n_warmup, n_draws, rng):
        """Run the chains.

        Parameters
        ----------
        target : Target
            With an exact score.
        theta : ndarray of shape (chains, dim)
            Where the chains start.
        n_warmup, n_draws : int
            Iterations that adapt the step size, and iterations kept after them.
        rng : numpy.random.Generator

        Returns
        -------
        draws, scores : ndarray of shape (chains, n_draws, dim)
        info : dict
            ``acceptance``, ``step_size``, ``n_scores`` (gradients of one chain).

        Raises
        ------
        ValueError
            If the target's scores are noisy.
        """
        if target.stochastic:
            raise ValueError('HMC cannot use minibatches: use sampler="sgld" with batch_size.')
        theta = np.array(theta, dtype=float)
        value, score = target.log_density_and_score(theta)
        adaptation = DualAveraging(0.5, self.acceptance)
        draws = np.empty((len(theta), n_draws, target.dim))
        scores = np.empty_like(draws)
        accepted, n_scores = 0.0, 1
        for iteration in range(n_warmup + n_draws):
            if iteration == n_warmup and n_warmup:
                adaptation.freeze()
            step = adaptation.step_size
            length = self.trajectory * rng.uniform(0.8, 1.2)
            n_steps = min(max(1, round(length / step)), self.max_leapfrogs)
            momentum = rng.standard_normal(theta.shape)
            new, new_value, new_score, energy = self._leapfrog(
                target, theta, value, score, momentum, step, n_steps
            )
            # A trajectory that ran off to where the density overflows is rejected, not an error.
            change = np.where(np.isfinite(energy), energy, -np.inf)
            probability = np.exp(np.minimum(0.0, change))
            accept = np.log(rng.random(len(theta))) < change
            theta = np.where(accept[:, None], new, theta)
            score = np.where(accept[:, None], new_score, score)
            value = np.where(accept, new_value, value)
            n_scores += n_steps
            if iteration < n_warmup:
                adaptation.update(probability.mean())
            else:
                draws[:, iteration - n_warmup] = theta
                scores[:, iteration - n_warmup] = score
                accepted += probability.mean() / n_draws
        info = {"acceptance": accepted, "step_size": adaptation.step_size, "n_scores": n_scores}
        return draws, scores, info

    @staticmethod
    def _leapfrog(target, theta, value, score, momentum, step, n_steps):
        """End of the trajectories and the log acceptance ratio there."""
        kinetic = np.einsum("ij,ij->i", momentum, momentum)
        with np.errstate(over="ignore", invalid="ignore"):
            momentum = momentum + 0.5 * step * score
            for _ in range(n_steps - 1):
                theta = theta + step * momentum
                momentum += step * target.score(theta)
            theta = theta + step * momentum
            new_value, new_score = target.log_density_and_score(theta)
            momentum += 0.5 * step * new_score
            energy = new_value - value + 0.5 * (kinetic - np.einsum("ij,ij->i", momentum, momentum))
        return theta, new_value, new_score, energy
