"""A stream: the posterior of rows that come in chunks and are not kept.

With n rows seen so far the recursion of mirror descent at step size b / n is Bayes' rule, and needs
neither the density of the kernel estimate nor rows of the past,

    log q' = log p + (n' / n) (1 - b / n') (log q - log p) + (b / n') (n' / b) l = log q + l,

for b new rows with log likelihood l and n' = n + b. What is off is the sampling error of the draws
between chunks, which two halves of the particles that evolve on their own make visible. It does not
add up where the rows so far are remembered by a quadratic (`_stream_memory.py`).

When all rows have been seen, another pass over them adds up the log likelihood of particles that
stay where they are. At its end they are weighted by the posterior over the density that they were
drawn from: what is left is the error of importance sampling.
"""

from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np

from .._density_probe import Probe
from ..posterior import ParticlePosterior
from ._kde import KernelDensity, defensive_draws
from ._mirror import LEAST_ESS, MAX_PIECES, WeightedParticles, bayes_step
from ._stream_memory import Memory

# Bayes' rule does not correct for the kernels, so that small changes between draws pay.
_MIN_ESS = 0.9
_MAX_ERROR = 0.25  # of the mean, in standard deviations, above which to complain
N_PARTS = 2
_FAR = 4.0  # standard deviations in each coordinate, by which rows may move a posterior


@dataclass
class Stream:
    """What is needed to go on from a posterior with more rows.

    Attributes
    ----------
    parts : tuple of WeightedParticles
        In the coordinates of ``bijection``: one population, or two halves that evolve on their own
        so that their disagreement tells how far both are off.
    bijection : bijection or None
        To the target's own coordinates; kept for all later rows.
    rng : numpy.random.Generator
    n_seen : int
        Rows seen, passes counted.
    n_iter : int
    power : float
        Of the likelihood, reached for the rows of the first call.
    history : dict of str to ndarray
    problems : list of str
        What there is to warn of.
    prior : Probe or None
        Of the rows' prior, in the same coordinates; None for a target that has none to itself.
    again : WeightedParticles or None
        Of another pass that is under way.
    log_likelihood : ndarray of shape (m,) or None
        Of the rows of that pass so far.
    """

    parts: tuple
    bijection: object
    rng: np.random.Generator
    n_seen: int
    n_iter: int
    power: float
    history: dict
    problems: list
    prior: Probe | None
    again: WeightedParticles | None = None
    log_likelihood: np.ndarray | None = None

    def pooled(self):
        """Particles (m, dim) and weights (m,) of all parts together."""
        theta = np.concatenate([part.theta for part in self.parts])
        return theta, np.concatenate([part.weights for part in self.parts]) / len(self.parts)

    def mc_error(self):
        """Root mean square error of the posterior mean, in standard deviations.

        Half the distance between the means of the two halves; of one weighted population that of
        as many independent draws as its effective sample size.
        """
        if len(self.parts) == 1:
            return 1.0 / np.sqrt(self.parts[0].ess())
        (a, spread_a), (b, spread_b) = (part.moments() for part in self.parts)
        within = 0.5 * (spread_a + spread_b)
        return 0.5 * np.sqrt((a - b) @ np.linalg.lstsq(within, a - b)[0] / len(a))

    def posterior(self, **diagnostics):
        """The posterior of the rows so far."""
        return ParticlePosterior(
            *self.pooled(),
            history=self.history,
            diagnostics={
                "posterior_power": self.power,
                "n_seen": self.n_seen,
                **diagnostics,
                "message": "; ".join(self.problems),
            },
            n_iter=self.n_iter,
            converged=not self.problems,
            state=self,
        )

    def assimilate(self, log_likelihood, log_prior, n_particles, min_ess, draws):
        """Bayes' rule for new rows, which also go into the memory of each half.

        Parameters
        ----------
        log_likelihood : callable
            ``log_likelihood(theta) -> (m,)`` of the new rows.
        log_prior : callable or None
        n_particles : int
            Of both halves together, from the next draws on.
        min_ess : float
        draws : callable
            As for `WeightedParticles`.
        """
        if len(self.parts) == 1:
            self.parts = self.parts[0].halves()
        pieces, parts = [], []
        for odd, part in enumerate(self.parts):
            part.resampled, part.draws = True, draws
            part.min_ess = max(min_ess, _MIN_ESS)
            part.n_particles = (n_particles + odd) // N_PARTS
            values = log_likelihood(part.theta)
            recalled = _recalled(part, values, log_prior, self.rng)
            if recalled is None:
                pieces.append(bayes_step(part, log_likelihood, self.rng, values))
            parts.append(recalled or part)
        self.parts = tuple(parts)
        error = self.mc_error()
        self.problems = []
        if MAX_PIECES in pieces:
            self.problems.append(f"the rows were not taken in after {MAX_PIECES} pieces")
        if error > _MAX_ERROR:
            self.problems.append(
                f"the mean is off by more than {_MAX_ERROR:g} standard deviations: raise "
                "n_particles, give the rows in random order, or pass over them again (n_total)"
            )

    def assimilate_again(self, log_likelihood, log_prior, n_particles, last):
        """Weight particles with rows that were seen before; they count at the end of the pass.

        Parameters
        ----------
        log_likelihood : callable
            Of these rows.
        log_prior : callable
        n_particles : int
            To be weighted.
        last : bool
            Whether these rows are the last ones of the pass.
        """
        if self.again is None:
            theta, density = defensive_draws(*self.pooled(), n_particles, self.rng)  # type: ignore[call-arg]
            self.again = WeightedParticles(theta, density.log_density(theta), True)
            self.log_likelihood = np.zeros(len(theta))
        again = self.again
        self.log_likelihood = self.log_likelihood + log_likelihood(again.theta)
        if last:
            problem = again.weigh(log_prior(again.theta) + self.log_likelihood)
            self.problems = (
                [f"{problem}: make another pass, or raise n_weighted"] if problem else []
            )
            # Half way to the posterior is nearer to it than one particle.
            again.flatten(LEAST_ESS * len(again.theta))
            again.n_resampled = self.parts[0].n_resampled + 1
            again.memory = Memory.of(again.theta, self.log_likelihood)
            self.parts, self.again, self.log_likelihood, self.power = (again,), None, None, 1.0

    def count(self, n_rows):
        """Note that rows have been taken in."""
        self.n_seen += n_rows
        self.n_iter += 1
        numbers = {
            "ess": 1.0 / np.sum(self.pooled()[1] ** 2),
            "power": self.power,
            "n_resampled": max(part.n_resampled for part in self.parts),
            "n_visited": self.n_seen,
        }
        before = self.history or dict.fromkeys(numbers, ())  # a run that stopped at once has none
        self.history = {key: np.append(before[key], value) for key, value in numbers.items()}


def _recalled(part, values, log_prior, rng):
    """Particles drawn and weighted by what a part remembers, new rows included.

    ``values`` are the log likelihoods of these at the particles. None where that is not to be
    trusted.
    """
    if part.memory is None or log_prior is None:
        return None
    theta, before = part.theta, part.memory
    new, prior = Memory.of(theta, values), Memory.of(theta, log_prior(theta))
    part.memory = None if new is None else before + new
    found = None if part.memory is None or prior is None else (part.memory + prior).gaussian()
    if found is None:
        return None
    mean, covariance = part.moments()
    shift = found[0] - mean
    if not shift @ np.linalg.lstsq(covariance, shift)[0] < _FAR**2 * len(mean):
        part.memory = None  # where the posterior has gone to nothing was fitted
        return None
    part = copy(part)
    part.replace(partial(_normal_draws, *found), part.n_particles, rng)
    problem = part.weigh(log_prior(part.theta) + part.memory(part.theta))
    return None if problem else part


def _normal_draws(mean, factor, theta, weights, n_draws, rng):
    """Draws of a normal, in pairs about its mean; as of `grouped_draws`."""
    half = rng.standard_normal((-(-n_draws // 2), len(mean)))
    draws = np.concatenate([half, -half])[:n_draws]
    return mean + draws @ factor.T, KernelDensity([(np.zeros(1), mean[None], factor)])
