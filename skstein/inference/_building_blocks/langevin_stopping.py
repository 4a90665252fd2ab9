"""When a run of Langevin particles stops, and which of its states make the posterior.

Either on Stein's identities: averaged over the states after the warm-up their residuals and R-hat
have to be small, and the posterior pools snapshots. Or on rows set aside: their log predictive
density has not grown for a while, and the posterior is the state where it was largest (PMFVB,
section 4).
"""

import math

import numpy as np
from scipy.special import logsumexp

from .snapshots import Snapshots


class StopOnResiduals:
    """Stop when Stein residuals and R-hat are small, and enough snapshots are pooled.

    Parameters
    ----------
    n_snapshots : int
        Taken every second state.
    n_kept : int
        How many of them are held at most, evenly spread.
    tol : float
    max_rhat : float
    """

    def __init__(self, n_snapshots, n_kept, tol, max_rhat):
        self._n_snapshots, self._tol, self._max_rhat = n_snapshots, tol, max_rhat
        self._moments, self._pool = _StateMoments(), Snapshots(n_kept)
        self._last = None

    def see(self, state, warmup):
        """Take in a state; returns what is measured of the run so far, a dict of float."""
        self._last = state
        if not warmup:
            self._moments.add(*state.chains)
            if self._moments.count % 2 == 0:
                self._pool.offer(state)
        self._worst = float(self._moments.residuals().max())
        self._rhats = self._moments.rhats()
        return {"residual": self._worst, **self._rhats}

    @property
    def states(self):
        """Those of the posterior, in order of time."""
        return self._pool.states or [self._last]

    @property
    def finished(self):
        enough = self._pool.n_offered >= self._n_snapshots
        return enough and self._worst < self._tol and not self._too_slow()

    def _too_slow(self):
        """What moves too slowly, by its R-hat, a list of str.

        The spread of all coordinates stands or falls with the distance from the mode: of what
        `max_rhat` lets pass it is left half.
        """
        found = []
        if not self._rhats["rhat"] < self._max_rhat:
            found.append(f"R-hat above {self._max_rhat:g}")
        limit = 0.5 * (1.0 + self._max_rhat)
        if not self._rhats["rhat_distance"] < limit:
            found.append(f"that of their distance from the mode above {limit:g}")
        return found

    def diagnostics(self):
        """Numbers for the posterior, a dict of float."""
        return {"stein_residual": self._worst, **self._rhats}

    def problems(self):
        """What is left undone by more than Monte-Carlo error, a list of str."""
        problems = []
        residuals = self._moments.residuals()
        certain = np.where(residuals > 4.0 * self._moments.errors(), residuals, 0.0).max()
        if certain >= self._tol:
            problems.append(f"a Stein residual above tol={self._tol:g} is left")
        if self._too_slow():
            problems.append(f"the particles move too slowly ({', '.join(self._too_slow())})")
        return problems


class StopOnValidation(StopOnResiduals):
    """Stop Langevin steps if rows set aside are no more probable for ``patience`` states.

    Parameters
    ----------
    validation : Target
        Of the rows set aside, in the coordinates of the states.
    patience : int
    *settings
        As of `StopOnResiduals`, which is measured too and stops nothing.
    """

    def __init__(self, validation, patience, *settings):
        super().__init__(*settings)
        self._validation, self._patience = validation, patience
        self._best, self._best_score, self._since = None, -math.inf, 0

    def see(self, state, warmup):
        measured = super().see(state, warmup)
        by_row = self._validation.pointwise_log_likelihood(state.theta)
        score = float(np.mean(logsumexp(by_row, axis=0) - math.log(len(by_row))))
        self._since += 1
        if self._best is None or score > self._best_score:
            self._best, self._best_score, self._since = state, score, 0
        return {**measured, "validation_score": score}

    @property
    def states(self):
        return [self._best]

    @property
    def finished(self):
        return self._since >= self._patience

    def diagnostics(self):
        return {**super().diagnostics(), "validation_score": self._best_score}

    def problems(self):
        return [] if self.finished else ["the validation score was still growing"]


class _StateMoments:
    """Averages over the states that have been added, particle by particle.

    Each particle is a chain of its own: the spread between their averages gives the standard errors
    of Stein's residuals, however slowly a particle moves, and R-hat says how slowly.
    """

    def __init__(self):
        self.count = 0

    def add(self, theta, score):
        parts = np.stack([theta, score, theta * score])
        # The distance from the mode moves most slowly of all where tails are heavy.
        moving = np.column_stack([theta, np.log1p(np.sum(theta**2, axis=1))])
        moving = np.stack([moving, moving**2])
        self._parts = self._parts + parts if self.count else parts
        self._moving = self._moving + moving if self.count else moving
        self.count += 1

    def residuals(self):
        """``|E g_j|`` and ``|1 + Cov(z_j, g_j)| / 2``, of shape (2, dim).

        Infinite before the first state.
        """
        if not self.count:
            return np.full((2, 1), np.inf)
        theta, score, product = self._parts.mean(axis=1) / self.count
        return np.stack([np.abs(score), 0.5 * np.abs(1.0 + product - theta * score)])

    def errors(self):
        """Standard errors of the residuals, of shape (2, dim); 0 before the first state."""
        if not self.count:
            return np.zeros((2, 1))
        scatter = self._parts[1:].std(axis=1) / self.count
        return scatter * [[1.0], [0.5]] / np.sqrt(self._parts.shape[1])

    def rhats(self):
        """R-hat (Gelman & Rubin 1992), with particles as chains.

        The largest of a coordinate, and that of the logarithm of the distance from the mode, by
        the names that they have in a posterior's diagnostics.
        """
        n = self.count
        if n < 2:
            return {"rhat": np.inf, "rhat_distance": np.inf}
        means, squares = self._moving / n
        within = (squares - means**2).mean(axis=0) * n / (n - 1)
        rhat = np.sqrt((n - 1) / n + means.var(axis=0, ddof=1) / np.maximum(within, 1e-300))
        return {"rhat": float(rhat[:-1].max()), "rhat_distance": float(rhat[-1])}
