"""KSD-thinned MCMC: chains, interleaved draw by draw into an online thinner.

Asymptotically exact: the chains sample the posterior, and the thinner keeps the few draws that
stand for it best by the kernel Stein discrepancy. What differs from the paper: chains and thinner
work in whitened coordinates, the kernel's squared length scale is 4 d instead of 1, and the budget
is a hard cap with try-before-replace, all three needed above about ten dimensions.
"""

from functools import partial
from numbers import Integral, Real

import numpy as np

from .._validation import Interval, StrOptions
from ..diagnostics import ess, split_rhat
from ..posterior import ParticlePosterior
from ..samplers import HMC, SAMPLERS, SGLD
from ..thinning import OnlineKSDThinner
from .base import BATCH_SIZE, N_PARTICLES, Engine, History, automatic, starting_particles

_CHAINS_TOGETHER = 4  # one batched piece of work; two and more pieces can run in parallel
_ENOUGH_DRAWS = 8  # of each chain, for R-hat and effective sample size
_ROUNDS = 10  # between which the callback may stop the run


class KSDThinnedMCMC(Engine):
    """Several Markov chains, thinned online by their kernel Stein discrepancy.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Points that the thinner keeps: ``max(100, 2 dim)``, at most 500, for "auto".
    sampler : {"hmc", "sgld"}, default="hmc"
        "sgld" is for minibatches.
    n_chains : int, default=8
        Chains, run four at a time as one batch of gradients.
    n_draws : int, default=600
        Draws of each chain after warm-up, and as many again until R-hat and effective sample size
        are met, or ``max_draws``.
    max_draws : int, default=2400
        Most draws of each chain.
    n_warmup : int, default=150
        Iterations that adapt the step size and are thrown away.
    step_size : float, default=0.2
        Of "sgld", in posterior standard deviations; "hmc" adapts its own.
    batch_size : int, default=None
        Rows for each score of "sgld", with a control variate at the mode.
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

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import KSDThinnedMCMC
    >>> model = BayesianLogisticRegression(inference=KSDThinnedMCMC(n_draws=2000))
    """

    _parameter_constraints = {
        "n_particles": N_PARTICLES,
        "sampler": [StrOptions(set(SAMPLERS))],
        "n_chains": [Interval(Integral, 2, None, closed="left")],
        "n_draws": [Interval(Integral, 8, None, closed="left")],
        "max_draws": [Interval(Integral, 8, None, closed="left")],
        "n_warmup": [Interval(Integral, 0, None, closed="left")],
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "batch_size": BATCH_SIZE,
        "max_rhat": [Interval(Real, 1, None, closed="neither")],
        "min_ess": [Interval(Real, 0, None, closed="left")],
        "whiten": ["boolean"],
        "one_sided": ["boolean"],
    }

    def __init__(
        self,
        n_particles="auto",
        *,
        sampler="hmc",
        n_chains=8,
        n_draws=600,
        max_draws=2400,
        n_warmup=150,
        step_size=0.2,
        batch_size=None,
        max_rhat=1.01,
        min_ess=400,
        whiten=True,
        one_sided=True,
    ):
        self.n_particles = n_particles
        self.sampler = sampler
        self.n_chains = n_chains
        self.n_draws = n_draws
        self.max_draws = max_draws
        self.n_warmup = n_warmup
        self.step_size = step_size
        self.batch_size = batch_size
        self.max_rhat = max_rhat
        self.min_ess = min_ess
        self.whiten = whiten
        self.one_sided = one_sided

    @property
    def minibatch(self):
        return "control-variate" if self.sampler == "sgld" else None

    def n_rounds(self, target):
        most = max(self.n_draws, self.max_draws)
        return -(-most // self.n_draws) * len(_round_sizes(self.n_draws))

    def run(self, target, rng, *, init=None, map=map, callback=None):
        sampler = SGLD(self.step_size) if self.sampler == "sgld" else HMC()
        start = starting_particles(target, rng, self.n_chains, init)
        pieces = np.array_split(start, -(-self.n_chains // _CHAINS_TOGETHER))
        generators = rng.spawn(len(pieces))
        warm_up = partial(sampler.warm_up, target, self.n_warmup)
        chains = list(map(warm_up, pieces, generators))

        n_points = automatic(self.n_particles, target.dim)
        thinner = OnlineKSDThinner(n_points=min(n_points, self.n_chains * self.n_draws))
        history, draws = History(), []

        def make_posterior():
            exact = not target.stochastic
            return ParticlePosterior(
                thinner.samples_,
                scores=thinner.scores_ if exact else None,
                history=history.arrays(),
                n_iter=self.n_warmup + sum(part.shape[1] for part in draws),
            )

        most = max(self.n_draws, self.max_draws)
        stopped, done = False, 0
        while not stopped:
            done += self.n_draws
            for n_draws in _round_sizes(self.n_draws):
                results = list(map(partial(sampler.draw, target, n_draws), chains))
                chains = [result[0] for result in results]
                part, scores = (np.concatenate([result[k] for result in results]) for k in (1, 2))
                draws.append(part)
                thinner.partial_fit(part, scores)
                info = history.add(
                    ksd=thinner.ksd_,
                    n_accepted=thinner.n_accepted_,
                    acceptance=np.mean([result[3] for result in results]),
                )
                posterior = make_posterior()
                stopped = callback is not None and callback(
                    posterior.n_iter, self.n_warmup + most, make_posterior, info
                )
                if stopped:
                    break
            diagnostics = self._diagnose(np.concatenate(draws, axis=1), thinner)
            stopped = stopped or "message" not in diagnostics or done + self.n_draws > most
        posterior.diagnostics = diagnostics
        posterior.diagnostics["step_size"] = np.array([chain.step_size for chain in chains])
        posterior.converged = "message" not in posterior.diagnostics
        return posterior

    def _diagnose(self, draws, thinner):
        """R-hat and ESS of each coordinate and its square, moments of the points, a message."""
        if draws.shape[1] < _ENOUGH_DRAWS:
            few = f"stopped after {draws.shape[1]} draws of each chain, too few to judge"
            return {"message": few}
        centred = draws - draws.mean(axis=(0, 1))
        both = np.concatenate([centred, centred**2], axis=2)
        rhat, size = split_rhat(both), ess(both)
        gap, ratio = thinner.moment_gap_, thinner.sd_ratio_
        problems = []
        if not rhat.max() <= self.max_rhat:
            problems.append(f"the largest R-hat is {rhat.max():.3f} (above {self.max_rhat})")
        if not size.min() >= self.min_ess:
            problems.append(
                f"the smallest effective sample size is {size.min():.0f} (below {self.min_ess})"
            )
        # Below 2 dim points the spread must fall short in some direction: an honest choice of few
        # points is judged by its mean, the automatic number by both.
        if np.abs(gap).max() > 0.2 or not 0.85 <= ratio.mean() <= 1.15 or ratio.min() < 0.7:
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
            "n_accepted": thinner.n_accepted_,
        }
        if problems:
            diagnostics["message"] = (
                "; ".join(problems) + ". Raise max_draws, n_warmup or n_particles, and look for "
                "separated modes."
            )
        return diagnostics


def _round_sizes(n_draws):
    """Sizes of the rounds, at most `_ROUNDS`, that ``n_draws`` are cut into."""
    return [len(part) for part in np.array_split(np.arange(n_draws), min(n_draws, _ROUNDS))]
