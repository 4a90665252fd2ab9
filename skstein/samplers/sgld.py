"""Stochastic gradient Langevin dynamics with a control variate, in whitened coordinates.

For data so large that a score of all rows is dear. The noise of the Leimkuhler-Matthews scheme
takes off the leading bias of the step; what the minibatch adds is small because its error vanishes
at the mode (`targets/minibatch.py`), and it grows with the step size, not with the number of rows.
"""

import math

import numpy as np

from .hmc import Chains


class SGLD:
    """Langevin chains on minibatches, without an acceptance step.

    Parameters
    ----------
    step_size : float, default=0.2
        In whitened units.
    thinning : int, default=5
        One state in this many is kept as a draw.
    """

    def __init__(self, step_size=0.2, thinning=5):
        self.step_size, self.thinning = step_size, thinning

    def warm_up(self, target, n_iterations, theta, rng):
        """Leave the start; see `HMC.warm_up`."""
        theta = np.array(theta, dtype=float)
        chains = Chains(theta, np.zeros(len(theta)), np.zeros_like(theta), self.step_size, rng)
        self._noise(chains)
        for _ in range(n_iterations):
            self._iterate(target, chains)
        return chains

    def draw(self, target, n_draws, chains):
        """Draw from the chains; see `HMC.draw`. The scores are noisy ones, of a minibatch."""
        draws = np.empty((len(chains.theta), n_draws, target.dim))
        scores = np.empty_like(draws)
        for t in range(n_draws):
            draws[:, t] = chains.theta
            self._iterate(target, chains)
            scores[:, t] = chains.score
            for _ in range(self.thinning - 1):
                self._iterate(target, chains)
        return chains, draws, scores, 1.0

    @staticmethod
    def _noise(chains):
        chains.noise = chains.rng.standard_normal(chains.theta.shape)
        return chains.noise

    def _iterate(self, target, chains):
        rows = None
        if target.stochastic:
            rows = chains.rng.choice(target.n_rows, target.batch_size, replace=False)
        chains.score = target.score(chains.theta, rows)
        noise = 0.5 * (chains.noise + self._noise(chains))
        step = chains.step_size
        chains.theta = chains.theta + 0.5 * step * chains.score + math.sqrt(step) * noise
