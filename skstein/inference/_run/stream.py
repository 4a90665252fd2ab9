"""A stream: the posterior of rows that come in chunks and are not kept.

With n rows seen so far the recursion of mirror descent at step size b / n is Bayes' rule, and needs
neither the density of the kernel estimate nor rows of the past,

    log q' = log p + (n' / n) (1 - b / n') (log q - log p) + (b / n') (n' / b) l = log q + l,

for b new rows with log likelihood l and n' = n + b. What is off is the sampling error of the draws
between chunks, which two halves of the particles that evolve on their own make visible. There is
none where the rows so far are remembered by a quadratic (`stream_memory.py`), or are still held.

When all rows have been seen, another pass over them adds up the log likelihood of particles that
stay where they are. At its end they are weighted by the posterior over the density that they were
drawn from: what is left is the error of importance sampling.
"""

from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import log_softmax

from ..._statistics.density_fingerprint import Fingerprint
from ...posterior import ParticlePosterior
from .._building_blocks.kernel_density import KernelDensity, defensive_draws
from .._building_blocks.mirror_steps import LEAST_ESS, MAX_PIECES, WeightedParticles, bayes_step
from .._building_blocks.particles import antithetic_normals, in_chunks
from .stream_memory import Memory

# Bayes' rule does not correct for the kernels, so that small changes between draws pay.
_TARGET_ESS = 0.9
_MAX_ERROR = 0.1  # of the mean, in standard deviations, above which to complain
N_PARTS = 2
_FEW_DRAWS, _MOST_DRAWS = 3, 30  # of a normal for one chunk; more than few to find the posterior
_EVEN = 0.5  # effective sample, of the particles, with which to leave it there
_MOST_HELD, _MOST_CHUNKS = 10_000, 100  # rows, and calls for their log likelihood
_NO_ROWS = np.arange(0)
_CLOSE = 0.05  # error of a memory, in nats, below which rows need not be held
_MAX_MISSED = 0.1  # the same, above which to complain


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
    prior : Fingerprint or None
        Of the rows' prior, in the same coordinates; None for a target that has none to itself.
    again : WeightedParticles or None
        Of another pass that is under way.
    log_likelihood : ndarray of shape (m,) or None
        Of the rows of that pass so far.
    held : tuple of Target
        Of rows that the memory of the parts does not include.
    """

    parts: tuple
    bijection: object
    rng: np.random.Generator
    n_seen: int
    n_iter: int
    power: float
    history: dict
    problems: list
    prior: Fingerprint | None
    again: WeightedParticles | None = None
    log_likelihood: np.ndarray | None = None
    held: tuple = ()

    def pooled(self):
        """Particles (m, dim) and weights (m,) of all parts together."""
        theta = np.concatenate([part.theta for part in self.parts])
        return theta, np.concatenate([part.weights for part in self.parts]) / len(self.parts)

    def mc_error(self):
        """Root mean square error of the posterior mean, in standard deviations.

        Half the distance between the means of the two halves, without what both remember in common,
        which may be twice to four times as much on pieces of ten rows; of one weighted population
        that of as many independent draws as its effective sample size.
        """
        if len(self.parts) == 1:
            return 1.0 / np.sqrt(self.parts[0].ess())
        (a, spread_a), (b, spread_b) = (part.moments() for part in self.parts)
        within = 0.5 * (spread_a + spread_b)
        return 0.5 * np.sqrt((a - b) @ np.linalg.lstsq(within, a - b)[0] / len(a))

    def memory_error(self):
        """Root mean square error of the log density remembered, over the particles, in nats."""
        return max((p.memory.error(p.theta) for p in self.parts if p.memory), default=0.0)

    def posterior(self, **diagnostics):
        """The posterior of the rows so far."""
        known = {"posterior_power": self.power, "n_seen": self.n_seen, **diagnostics}
        return ParticlePosterior(
            *self.pooled(),
            history=self.history,
            diagnostics=known | {"message": "; ".join(self.problems)},
            n_iter=self.n_iter,
            converged=not self.problems,
            state=self,
        )

    def assimilate(self, target, n_particles, target_ess, draws, map):
        """Bayes' rule for new rows.

        Parameters
        ----------
        target : Target
            Of the new rows.
        n_particles : int
            Of both halves together, from the next draws on.
        target_ess : float
        draws : callable
            As for `WeightedParticles`.
        map : callable
        """
        if len(self.parts) == 1:
            self.parts = self.parts[0].halves()
        self.held += (target,)
        advanced = []
        for odd, part in enumerate(self.parts):
            part.resampled, part.draws = True, draws
            part.target_ess = max(target_ess, _TARGET_ESS)
            part.n_particles = (n_particles + odd) // N_PARTS
            advanced.append(self._advanced(part, map))
        self.parts, memories, pieces = zip(*advanced, strict=True)
        self.remember(memories)
        self.problems = []
        if MAX_PIECES in pieces:
            self.problems.append(f"the rows were not taken in after {MAX_PIECES} pieces")
        if self.mc_error() > _MAX_ERROR:
            self.problems.append(
                f"the mean is off by more than {_MAX_ERROR:g} standard deviations: raise "
                "n_particles, give the rows in random order, or pass over them again (n_total)"
            )
        if self.memory_error() > _MAX_MISSED:
            self.problems.append(
                "what is kept of earlier rows does not fit where the posterior is now: give the "
                "rows in random order, in larger chunks, or pass over them again (n_total)"
            )

    def _advanced(self, part, map):
        """A part after the newest rows, its memory with all that are held, pieces of the step."""
        newest, memory, rng = self.held[-1], part.memory, self.rng
        log_prior = newest.log_prior

        def log_likelihood(theta, held):
            return sum(in_chunks(map, each.log_likelihood, theta, each.n_rows) for each in held)

        def log_posterior(theta):
            return log_prior(theta) + memory(theta) + log_likelihood(theta, self.held)

        def score(theta):
            held = self.score(theta)
            if held is None:
                return None
            return held + memory.score(theta) + newest.score(theta, _NO_ROWS)

        new = partial(log_likelihood, held=self.held[-1:])
        values, pieces = new(part.theta), 0
        if memory is None:
            return part, None, bayes_step(part, new, rng, values)
        drawn = _drawn(part, part.log_q + values, log_posterior, score, rng)
        if drawn is None:
            pieces = bayes_step(part, new, rng, values)
            drawn = _drawn(part, log_posterior(part.theta), log_posterior, score, rng)
        if drawn is None:
            values = log_likelihood(part.theta, self.held)
        else:
            part = drawn
            values = part.log_q - log_prior(part.theta) - memory(part.theta)
        return part, memory.and_of(part.theta, values, part.weights, self.score), pieces

    def score(self, theta):
        """Of the log likelihood that is held, shape (m, dim); None where it is not known."""
        if not self.held[-1].scores_no_rows:
            return None
        return sum(each.score(theta) - each.score(theta, _NO_ROWS) for each in self.held)

    def remember(self, memories):
        """Have the ``memories`` of the parts, which include them, in place of the rows held.

        If they fit, if the rows are many, or if no more follow; what does not fit is used when it
        does. Rows of which a few sums tell all are held for ever, as one target.
        """
        if all(target.sufficient and target.more_follow for target in self.held):
            self.held = (self.held[0].joined(*self.held[1:]),)
            return
        parts, n_held = self.parts, sum(target.n_rows or np.inf for target in self.held)
        near = all(m and m.error(of.theta) < _CLOSE for m, of in zip(memories, parts, strict=True))
        full = n_held > _MOST_HELD or len(self.held) > _MOST_CHUNKS
        if near or full or not self.held[-1].more_follow or None in memories:
            for part, memory in zip(parts, memories, strict=True):
                part.memory = memory
            self.held = ()
        else:  # the caller may fill its arrays again
            self.held = (*self.held[:-1], deepcopy(self.held[-1]))

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
            self.problems = [f"{problem}: make another pass or raise n_weighted"] if problem else []
            # Half way to the posterior is nearer to it than one particle.
            again.flatten(LEAST_ESS * len(again.theta))
            again.n_resampled = self.parts[0].n_resampled + 1
            nothing = Memory.nothing(again.theta.shape[1])
            again.memory = nothing.and_of(again.theta, self.log_likelihood, again.weights)
            self.parts, self.held, self.power = (again,), (), 1.0
            self.again = self.log_likelihood = None

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


def _drawn(part, values, log_posterior, score, rng):
    """Particles drawn from the normal nearest to the posterior and weighted, or None.

    ``values`` are those of ``log_posterior`` at the particles of ``part``, and ``score`` is its
    score. None where the weights are uneven.
    """
    change = np.nan_to_num(values - part.log_q, nan=-np.inf)
    weights = np.exp(log_softmax(part.log_weights + change))
    for number in range(_MOST_DRAWS):
        fit = Memory.of(part.theta, values, weights, score)
        normal = fit and fit.gaussian()
        if not normal:
            return None
        part = copy(part)
        part.replace(partial(_normal_draws, *normal), part.n_particles, rng)
        problem = part.weigh(log_posterior(part.theta))
        values, weights = part.log_q, part.weights
        if part.ess() > _EVEN * len(weights) or (number >= _FEW_DRAWS - 1 and not problem):
            break
    return None if problem else part


def _normal_draws(mean, factor, theta, weights, n_draws, rng):
    """Draws of a normal, with its mean and covariance, in pairs; as of `grouped_draws`."""
    draws = antithetic_normals(rng, n_draws, len(mean))
    return mean + draws @ factor.T, KernelDensity([(np.zeros(1), mean[None], factor)])
