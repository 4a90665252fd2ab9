"""Stein points: particles chosen one at a time, each the best of a few candidates.

The next point minimises the kernel Stein discrepancy together with those chosen ("greedy"), or the
Stein kernel's mean over them ("herding", kernel herding in the Stein kernel's own space, where the
target's embedding is zero). Differs from the papers in the coordinates, which `infer` whitens, in
the kernel's scale, which grows with the dimension, and in a last move of all points to the moments
of the candidates' chains: points of a small discrepancy are some per cent too narrow.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.optimize import minimize

from .._input.validation import Interval, StrOptions
from ..diagnostics import ENOUGH_DRAWS, split_rhat
from ..kernels import IMQ, Kernel
from ..posterior import ParticlePosterior
from ..samplers import HMC
from ._building_blocks.chain_checks import divergences
from ._building_blocks.particles import automatic_particles, within_support
from ._building_blocks.rounds import Rounds, require_finite
from ._building_blocks.zero_variance import move_to_moments
from .base import ParticleEngine

_N_CHAINS = 4


@dataclass(eq=False, repr=False)
class SteinPoints(ParticleEngine):
    """Stein points, greedy or by herding.

    How it works, and when not to trust it: :doc:`/methods/fwss`.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        ``max(200, 2 dim)``, at most 500, for "auto". One point may be chosen more than once.
    kernel : Kernel, default=None
        ``IMQ()`` by default.
    selection : {"greedy", "herding"}, default="greedy"
        What the next point minimises: ``k0(x, x) / 2 + sum_i k0(x_i, x)``, the discrepancy of all
        points, or the sum alone.
    candidates : {"chain", "gaussian", "nelder-mead"}, default="chain"
        Where candidates come from: Hamiltonian Monte Carlo, which goes on between the points, and
        to whose moments all points are moved at the end; the Gaussian start; or the Gaussian start
        and a Nelder-Mead search from the best of them, for a handful of coordinates.
    n_candidates : int, default=8
        Candidates for each point, with "chain" a multiple of its four chains; with "nelder-mead"
        also the most evaluations of its search, in units of the dimension.
    n_warmup : int, default=100
        Iterations before the first candidates of a chain.
    max_rhat : float, default=1.05
        Warn when the split R-hat of a coordinate over the chains' candidates is above it.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Chen, Mackey, Gorham, Briol & Oates (2018), "Stein points" (arXiv:1803.10161); with chains,
    Chen, Barp, Briol, Gorham, Girolami, Mackey & Oates (2019), "Stein point Markov chain Monte
    Carlo" (arXiv:1905.03673).

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import SteinPoints
    >>> model = BayesianLogisticRegression(inference=SteinPoints(n_particles=50))
    """

    _parameter_constraints = {
        **ParticleEngine._parameter_constraints,
        "kernel": [None, Kernel],
        "selection": [StrOptions({"greedy", "herding"})],
        "candidates": [StrOptions({"chain", "gaussian", "nelder-mead"})],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "n_warmup": [Interval(Integral, 0, None, closed="left")],
        "max_rhat": [Interval(Real, 1, None, closed="neither")],
    }
    subsampling = None
    needs_gaussian = True
    curved = calibrated = True

    _: KW_ONLY
    kernel: Any = None
    selection: str = "greedy"
    candidates: Any = "chain"
    n_candidates: int = 8
    n_warmup: int = 100
    max_rhat: float = 1.05

    def stays_near_start(self, target):
        return self.candidates != "chain"

    @property
    def ksd_kernel(self):
        """Of the discrepancy in the history, before its scale is fixed."""
        return IMQ() if self.kernel is None else self.kernel

    def n_rounds(self, target):
        return automatic_particles(self.n_particles, target.dim, least=200)

    def run(self, target, rng, *, init=None, map=map, callback=None):
        n = automatic_particles(self.n_particles, target.dim, least=200)
        theta, scores = np.empty((n, target.dim)), np.empty((n, target.dim))
        chains, drawn = None, []
        if self.candidates == "chain":
            start = target.sample_start(rng, _N_CHAINS)
            start = within_support(target, start if init is None else np.resize(init, start.shape))
            chains = HMC().warm_up(target, self.n_warmup, start, rng)
        own = 0.5 if self.selection == "greedy" else 0.0
        squared, kernel = 0.0, None

        def current():
            return ParticlePosterior(theta[:iteration].copy(), scores=scores[:iteration].copy())

        rounds = Rounds(n, current, callback)
        for iteration in range(1, n + 1):
            points, their_scores = self._propose(target, rng, chains, drawn)
            require_finite(their_scores, "the score", iteration, rounds.history)
            if kernel is None:
                kernel = self.ksd_kernel.fixed(points)

            def objective(x, sx, kernel=kernel, chosen=iteration - 1):
                value = own * kernel.stein_diagonal(x, sx)
                if chosen:
                    table = kernel.stein_matrix(x, sx, theta[:chosen], scores[:chosen])
                    value = value + table.sum(axis=1)
                return value

            best = np.argmin(objective(points, their_scores))
            x, sx = points[best], their_scores[best]
            if self.candidates == "nelder-mead":
                x, sx = self._searched(target, objective, x, sx)
            theta[iteration - 1], scores[iteration - 1] = x, sx
            diagonal = kernel.stein_diagonal(x[None], sx[None])[0]
            cross = objective(x[None], sx[None])[0] - own * diagonal
            squared += diagonal + 2.0 * cross
            ksd = np.sqrt(max(squared, 0.0)) / iteration
            if rounds.end(iteration, ksd=ksd, n_particles=iteration):
                break
        posterior = current()
        posterior.history, posterior.n_iter = rounds.history.arrays(), iteration
        if chains is not None:
            draws, slopes = (np.concatenate(parts, axis=1) for parts in zip(*drawn, strict=True))
            self._judge_chains(posterior, chains, draws)
            if posterior.converged:
                posterior.converged = move_to_moments(posterior, target, draws, slopes)
                if not posterior.converged:
                    posterior.diagnostics["message"] = (
                        "the scores are not those of the log density that the candidates' chains "
                        'follow: is it continuous? use inference="mcmc".'
                    )
        return posterior

    def _judge_chains(self, posterior, chains, draws):
        problems = divergences([chains], draws)
        if draws.shape[1] < ENOUGH_DRAWS:
            problems.append(f"{draws.shape[1]} draws of a chain are too few to judge candidates")
        else:
            rhat = split_rhat(draws)
            posterior.diagnostics["rhat"] = rhat
            if not rhat.max() <= self.max_rhat:
                problems.append(f"R-hat of the candidates' chains is above {self.max_rhat}")
        posterior.converged = not problems
        if problems:
            posterior.diagnostics["message"] = (
                f"{'; '.join(problems)}. Raise n_particles, n_candidates or n_warmup, and look for "
                "separated modes."
            )

    def _propose(self, target, rng, chains, drawn):
        """Candidates and their scores; those of chains are added to ``drawn``."""
        if chains is None:
            points = target.sample_start(rng, self.n_candidates)
            return points, target.score(points)
        _, points, scores, _ = HMC().draw(target, -(-self.n_candidates // _N_CHAINS), chains)
        drawn.append((points, scores))
        return points.reshape(-1, target.dim), scores.reshape(-1, target.dim)

    def _searched(self, target, objective, x, sx):
        """The point that a Nelder-Mead search from ``x`` finds, and its score."""

        def value(point):
            result = objective(point[None], target.score(point[None]))[0]
            return result if np.isfinite(result) else np.inf

        options = {"maxfev": self.n_candidates * len(x), "xatol": 1e-3, "fatol": 1e-3}
        found = minimize(value, x, method="Nelder-Mead", options=options)
        if not found.fun < objective(x[None], sx[None])[0]:
            return x, sx
        return found.x, target.score(found.x[None])[0]
