"""Stochastic gradient Langevin dynamics with a control variate, in whitened coordinates.

For data so large that a score of all rows is dear. The noise of the Leimkuhler-Matthews scheme takes
off the leading bias of the step; what the minibatch adds is small because its error vanishes at the
mode (`targets/minibatch.py`), and it grows with the step size, not with the number of rows.
"""

import numpy as np


class SGLD:
    """Langevin chains on minibatches, without an acceptance step.

    Parameters
    ----------
    step_size : float, default=0.2
        In whitened units.
    """

    stochastic = True

    def __init__(self, step_size=0.2):
        self.step_size = step_size

    def sample(self, target, theta, n_warmup, n_draws, rng, thin=5):
        """Run the chains; see `HMC.sample`. One state in ``thin`` is kept, with a score of all rows
        being the caller's to compute: the noisy ones returned are those of the step."""
        theta = np.array(theta, dtype=float)
        draws = np.empty((len(theta), n_draws, target.dim))
        scores = np.empty_like(draws)
        step, noise = self.step_size, rng.standard_normal(theta.shape)
        for iteration in range(n_warmup + n_draws * thin):
            rows = (
                rng.choice(target.n_rows, target.batch_size, replace=False)
                if target.stochastic
                else None
            )
            score = target.score(theta, rows)
            kept, offset = divmod(iteration - n_warmup, thin)
            if iteration >= n_warmup and offset == 0:
                draws[:, kept], scores[:, kept] = theta, score
            fresh = rng.standard_normal(theta.shape)
            theta = theta + 0.5 * step * score + np.sqrt(step) * 0.5 * (fresh + noise)
            noise = fresh
        info = {"acceptance": 1.0, "step_size": step, "n_scores": n_warmup + n_draws * thin}
        return draws, scores, info
