"""KSD-thinned MCMC: chains, interleaved draw by draw into an online thinner.

Asymptotically exact: the chains sample the posterior, and the thinner keeps the few draws that
stand for it best by the kernel Stein discrepancy. What differs from the paper: chains and thinner
work in whitened coordinates, the kernel's squared length scale is 4 d instead of 1, and the budget
is a hard cap with try-before-replace, all three needed above about ten dimensions. The kept points
are moved by the little that gives them the mean and covariance of all draws, from which Stein's
identities have taken most of the Monte-Carlo error (`_zero_variance.py`). Where tails are heavy,
with small scores far out, the discrepancy prefers points there that are no likeness of the draws:
then draws at even steps take their place.
"""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from .._validation import HasMethods, Interval, StrOptions
from ..diagnostics import ess, split_rhat
from ..posterior import ParticlePosterior
from ..samplers import SAMPLERS
from ..samplers.base import declared
from ..thinning import OnlineKSDThinner
from ..thinning.moments import recalibrated
from ._zero_variance import zero_variance_moments
from .base import (
    BATCH_SIZE,
    COORDINATES,
    N_PARTICLES,
    Engine,
    History,
    Rounds,
    automatic,
    divergences,
    kept_chains,
)

_CHAINS_TOGETHER = 4  # one batched piece of work; two and more pieces can run in parallel
_ENOUGH_DRAWS = 8  # of each chain, for R-hat and effective sample size
_ROUNDS = 10  # between which the callback may stop the run


@dataclass(eq=False, repr=False)
class KSDThinnedMCMC(Engine):
    """Several Markov chains, thinned online by their kernel Stein discrepancy.

    How it works, and when not to trust it: :doc:`/methods/ksd_mcmc`.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Points that the thinner keeps: ``max(100, 2 dim)``, at most 500, for "auto".
    sampler : {"hmc", "mala", "rwm", "sgld"} or sampler instance, default="hmc"
        Hamiltonian Monte Carlo, the Metropolis-adjusted Langevin algorithm, random-walk Metropolis,
        or stochastic gradient Langevin dynamics, which is for minibatches; or an object of
        :mod:`skstein.samplers` with parameters of your choice, or one of your own with their
        methods (see `skstein.samplers.Sampler`).
    thinner : OnlineKSDThinner, default=None
        How draws are kept: budget, candidates, kernel, recalibration, weights. For None with their
        defaults; and from twice as many points as coordinates on the points are moved to have the
        mean and covariance of all draws, whose error control variates reduce. For draws as they
        are, ``OnlineKSDThinner()``. ``n_points`` is the engine's ``n_particles``.
    n_chains : int, default=8
        Chains, run four at a time as one batch of gradients.
    n_draws : int, default=600
        Draws of each chain after warm-up, and as many again until R-hat and effective sample size
        are met, or ``max_draws``. A warm start makes as many more, without a warm-up.
    max_draws : int, default=2400
        Most draws of each chain in one run.
    n_warmup : int, default=150
        Iterations that adapt the step size and are thrown away.
    batch_size : int, default=None
        Rows for each score, with a control variate at the mode, of "sgld" or another sampler with
        ``noisy_scores``.
    max_rhat : float, default=1.01
        Warn when the split R-hat of a coordinate or of its square is above it.
    min_ess : float, default=400
        Warn when the effective sample size of a coordinate or of its square is below it.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy",
    algorithm 2.

    Mira, Solgi & Imparato (2013), "Zero variance Markov chain Monte Carlo for Bayesian estimators".

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import KSDThinnedMCMC
    >>> model = BayesianLogisticRegression(inference=KSDThinnedMCMC(n_draws=2000))
    """

    _parameter_constraints = {
        "n_particles": N_PARTICLES,
        "sampler": [StrOptions(set(SAMPLERS)), HasMethods(["warm_up", "draw"])],
        "thinner": [None, OnlineKSDThinner],
        "n_chains": [Interval(Integral, 2, None, closed="left")],
        "n_draws": [Interval(Integral, 8, None, closed="left")],
        "max_draws": [Interval(Integral, 8, None, closed="left")],
        "n_warmup": [Interval(Integral, 0, None, closed="left")],
        "batch_size": BATCH_SIZE,
        "max_rhat": [Interval(Real, 1, None, closed="neither")],
        "min_ess": [Interval(Real, 0, None, closed="left")],
        **COORDINATES,
    }

    n_particles: int | str = "auto"
    _: KW_ONLY
    sampler: Any = "hmc"
    thinner: Any = None
    n_chains: int = 8
    n_draws: int = 600
    max_draws: int = 2400
    n_warmup: int = 150
    batch_size: int | None = None
    max_rhat: float = 1.01
    min_ess: int = 400
    whiten: bool = True
    one_sided: bool = True

    continues = True

    @property
    def requires(self):
        return declared(self._sampler(), "requires")

    @property
    def minibatch(self):
        return "control-variate" if declared(self._sampler(), "noisy_scores") else None

    def _sampler(self):
        return SAMPLERS[self.sampler]() if isinstance(self.sampler, str) else self.sampler

    def n_rounds(self, target):
        most = max(self.n_draws, self.max_draws)
        return -(-most // self.n_draws) * len(_round_sizes(self.n_draws))

    def run(self, target, rng, *, init=None, map=map, callback=None):
        sampler = self._sampler()
        if declared(sampler, "batch_size") is not None:
            raise ValueError(
                "batch_size belongs to the engine, which adds the control variate without which a "
                "minibatch is wrong: KSDThinnedMCMC(batch_size=...), and None for the sampler."
            )
        state = self._continued(init)
        if state is None:
            state = self._started(target, rng, sampler, getattr(init, "particles", init), map)
        thinner = state.thinner
        n_draws = self.n_chains * (state.n_draws + self.n_draws)
        thinner.n_points = min(automatic(self.n_particles, target.dim), n_draws)

        def make_posterior():
            points, scores = thinner.samples_, None if target.stochastic else thinner.scores_
            moved = self._moved(state, target)
            # They are no draws: their scores are others, and a density that ends may end here.
            if moved is not None and np.isfinite(target.log_density(moved)).all():
                points, scores = moved, None
            return ParticlePosterior(
                points,
                thinner.weights_,
                scores=scores,
                history=state.history.arrays(),
                n_iter=state.n_iter,
            )

        most = max(self.n_draws, self.max_draws)
        rounds = Rounds(state.n_iter + most, make_posterior, callback, state.history)
        done = 0
        while True:
            done += self.n_draws
            for n_draws in _round_sizes(self.n_draws):
                results = list(map(partial(sampler.draw, target, n_draws), state.chains))
                state.chains = [result[0] for result in results]
                part, scores = (np.concatenate([result[k] for result in results]) for k in (1, 2))
                state.draws.append(part)
                state.scores.append(scores)
                thinner.partial_fit(part, scores)
                acceptance, n = np.mean([result[3] for result in results]), thinner.n_accepted_
                if rounds.end(state.n_iter, ksd=thinner.ksd_, n_accepted=n, acceptance=acceptance):
                    break
            diagnostics = self._diagnose(state)
            if rounds.stopped or "message" not in diagnostics or done + self.n_draws > most:
                break
        posterior = make_posterior()
        if diagnostics.get("even_draws"):
            posterior = ParticlePosterior(
                _even(state, thinner.n_points), history=state.history.arrays(), n_iter=state.n_iter
            )
        posterior.state = state
        posterior.chains = kept_chains(np.concatenate(state.draws, axis=1))
        posterior.diagnostics = diagnostics
        posterior.diagnostics["step_size"] = np.array([chain.step_size for chain in state.chains])
        posterior.converged = "message" not in posterior.diagnostics
        return posterior

    def _started(self, target, rng, sampler, init, map):
        """Chains after their warm-up, and an empty thinner."""
        if init is None:
            start = target.sample_start(rng, self.n_chains)
        else:
            start = np.resize(init, (self.n_chains, target.dim))
        pieces = np.array_split(start, -(-self.n_chains // _CHAINS_TOGETHER))
        generators = rng.spawn(len(pieces))
        warm_up = partial(sampler.warm_up, target, self.n_warmup)
        chains = list(map(warm_up, pieces, generators))
        thinner = OnlineKSDThinner() if self.thinner is None else clone(self.thinner)
        return _State(self._fixed, chains, thinner, self.n_warmup)

    def _moved(self, state, target):
        """The kept points moved to the moments of the density; None where they should stay."""
        points = state.thinner.samples_
        if len(points) < 2 * target.dim:
            return None
        if self.thinner is not None:
            return state.thinner.recalibrated_samples_ if self.thinner.recalibrate else None
        draws, scores = (
            np.concatenate([part.reshape(-1, target.dim) for part in parts])
            for parts in (state.draws, state.scores)
        )
        try:
            if target.stochastic:
                # Its scores are noise for the greater part, and its draws are biased.
                moments = draws.mean(axis=0), np.atleast_2d(np.cov(draws.T, ddof=0))
            else:
                moments = zero_variance_moments(draws, scores)
            return recalibrated(points, *moments)
        except np.linalg.LinAlgError:
            return None

    def _continued(self, init):
        """The state of an earlier run, copied so that it can be gone on from again."""
        state = getattr(init, "state", None)
        if not isinstance(state, _State):
            return None
        changed = [name for name, value in self._fixed.items() if value != state.fixed[name]]
        if changed:
            raise ValueError(
                f"a warm start continues the chains as they are: {', '.join(changed)} must not "
                "change. Start anew, or set it back."
            )
        return deepcopy(state)

    @property
    def _fixed(self):
        names = ("sampler", "thinner", "n_chains", "batch_size", "whiten", "one_sided")
        return {name: repr(getattr(self, name)) for name in names}

    def _diagnose(self, state):
        """R-hat and ESS of each coordinate and its square, moments of the points, a message."""
        draws, thinner = np.concatenate(state.draws, axis=1), state.thinner
        if draws.shape[1] < _ENOUGH_DRAWS:
            few = f"stopped after {draws.shape[1]} draws of each chain, too few to judge"
            return {"message": few}
        centred = draws - draws.mean(axis=(0, 1))
        both = np.concatenate([centred, centred**2], axis=2)
        rhat, size = split_rhat(both), ess(both)
        gap, ratio = thinner.moment_gap_, thinner.sd_ratio_
        even_draws = _misses(gap, ratio)
        if even_draws:
            points, flat = _even(state, thinner.n_points), draws.reshape(-1, draws.shape[2])
            std = flat.std(axis=0)
            gap, ratio = (points.mean(axis=0) - flat.mean(axis=0)) / std, points.std(axis=0) / std
        problems = divergences(state.chains, draws)
        if not rhat.max() <= self.max_rhat:
            problems.append(f"the largest R-hat is {rhat.max():.3f} (above {self.max_rhat})")
        if not size.min() >= self.min_ess:
            problems.append(
                f"the smallest effective sample size is {size.min():.0f} (below {self.min_ess})"
            )
        if _misses(gap, ratio):
            problems.append(
                "the kept points miss the chains' moments (largest gap of a mean "
                f"{np.abs(gap).max():.2f} standard deviations, ratio of standard deviations "
                f"{ratio.mean():.2f} on average and {ratio.min():.2f} at least)"
            )
        d = draws.shape[2]
        diagnostics = {
            "rhat": np.maximum(rhat[:d], rhat[d:]),
            "ess": np.minimum(size[:d], size[d:]),
            "moment_gap": gap,
            "sd_ratio": ratio,
            "even_draws": even_draws,
            "n_accepted": thinner.n_accepted_,
        }
        if problems:
            diagnostics["message"] = (
                "; ".join(problems) + ". Raise max_draws, n_warmup or n_particles, and look for "
                "separated modes."
            )
        return diagnostics


@dataclass
class _State:
    """What a run leaves behind for a warm start."""

    fixed: dict  # parameters that cannot change
    chains: list
    thinner: OnlineKSDThinner
    n_warmup: int
    draws: list = field(default_factory=list)
    scores: list = field(default_factory=list)
    history: History = field(default_factory=History)

    @property
    def n_draws(self):
        return sum(part.shape[1] for part in self.draws)

    @property
    def n_iter(self):
        return self.n_warmup + self.n_draws


def _misses(gap, ratio):
    """Whether the moments of points are far from those of the draws, by coordinate."""
    return np.abs(gap).max() > 0.2 or not 0.85 <= ratio.mean() <= 1.15 or ratio.min() < 0.7


def _even(state, n_points):
    """``n_points`` draws at even steps through the chains, one after the other."""
    draws = np.concatenate(state.draws, axis=1)
    draws = draws.reshape(-1, draws.shape[2])
    return draws[np.linspace(0, len(draws) - 1, n_points).round().astype(int)]


def _round_sizes(n_draws):
    """Sizes of the rounds, at most `_ROUNDS`, that ``n_draws`` are cut into."""
    return [len(part) for part in np.array_split(np.arange(n_draws), min(n_draws, _ROUNDS))]
