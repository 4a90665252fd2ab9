"""Markov chains in white coordinates; a few of their draws, moved to the moments of all.

Asymptotically exact. Chains run as one batch of gradients until the Monte-Carlo error of means and
of outer quantiles is small. The kept draws have the margins of all and are moved slightly, to the
mean and covariance of all draws, after Stein's identities have removed most of their error
(`zero_variance.py`). Where the model's coordinates bend, so that a move of the others would
take their quantiles along, the draws stay. In many coordinates (a hundred) 1000 of them have 5 and
95 % points that are off by up to 0.15 standard deviations.
"""

from copy import copy, deepcopy
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._input.validation import HasMethods, Interval, StrOptions
from .._tools.named_parameters import refuse_class
from ..diagnostics import ENOUGH_DRAWS, rank_diagnostics
from ..posterior import ParticlePosterior
from ..samplers import SAMPLERS
from ..samplers.base import declared
from ..targets.transformed import of_model
from ..thinning.balanced import representative_draws
from ._building_blocks.chain_checks import MAX_DIVERGENT, divergences, draws_misfit, moments_missed
from ._building_blocks.particles import automatic_particles, within_support
from ._building_blocks.rounds import History, Rounds
from ._building_blocks.zero_variance import monte_carlo_errors, move_to_moments
from .base import N_PARTICLES, SubsamplingEngine

_N_CHAINS = 8
_CHAINS_TOGETHER = 8  # one batch of gradients; two and more batches can run in parallel
_ROUNDS = 10  # in ``n_draws``, between which the callback may stop the run
_OUTER = 1.5  # error of an outer quantile that goes with an error of 1 of the mean
_SHORTER, _MOST_SHORTER = 0.4, 2  # steps where proposals diverge, and how often they are cut
_LONGEST_CHAINS = 2**20  # numbers that a posterior keeps; 8 MB
_TOLERATED = 4.0  # multiple of max_mcse below which there is no warning
_WORSE = 0.1  # of quantiles, by a move


@dataclass(eq=False, repr=False)
class MCMC(SubsamplingEngine):
    """Several Markov chains; some of their draws are kept and moved to the moments of all.

    How it works, and when not to trust it: :doc:`/methods/mcmc`.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Draws kept: 1000, or twice the coordinates if that is more, at most 2000, for "auto". If
        they are at least twice as many as the coordinates, they are moved to the mean and
        covariance of all draws, whose error control variates reduce; fewer are not moved. With 1000
        points and a hundred coordinates, some 5 and 95 % points are off by 0.1 to 0.15 standard
        deviations: keep more, or use all draws, which ``posterior_.chains`` has.
    sampler : {"hmc", "mala", "mams", "rwm", "sgld"} or sampler instance, default="hmc"
        Hamiltonian Monte Carlo, the Metropolis-adjusted Langevin algorithm, Metropolis-adjusted
        microcanonical sampling, random-walk Metropolis, or stochastic gradient Langevin dynamics,
        which is for minibatches; or an object of
        :mod:`skstein.samplers` with parameters of your choice, or one of your own with their
        methods (see `skstein.samplers.Sampler`).
    n_chains : int or "auto", default="auto"
        Chains, run as one batch of gradients: 8, or one for each trained network, for "auto".
    n_draws : int, default=300
        Draws of each chain after warm-up, before the first look at R-hat, effective sample size and
        Monte-Carlo error. More follow, as many as the error calls for, until all are met, or
        ``max_draws``. A warm start makes as many more, without a warm-up.
    max_draws : int, default=2400
        Most draws of each chain in one run; at least ``n_draws`` are made.
    n_warmup : int, default=100
        Iterations that adapt the step size and are thrown away.
    batch_size : int, default=None
        Rows for each score, with a control variate at the mode, of "sgld" or another sampler with
        ``noisy_scores``.
    surrogate : int or "auto", default=None
        Rows that stand for all of very many, with the rest to the second order about the mode; as
        many as the error asks for, for "auto". The exact density corrects the particles
        (:doc:`/large_data`).
    max_mcse : float, default=0.03
        Monte-Carlo standard error of a mean, in posterior standard deviations and with control
        variates counted in, at which chains end; that of the 5 and 95 % points may be one and a
        half times as large. 0.1 is enough for a search over many candidates. A fit that ends with
        more than four times as much warns.
    max_rhat : float, default=1.01
        Warn when the split R-hat of a coordinate is above it.
    min_ess : float, default=400
        Warn when the effective sample size of a coordinate is below it, in the bulk or the tails.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Neal (2011), "MCMC using Hamiltonian dynamics" (arXiv:1206.1901).

    Mira, Solgi & Imparato (2013), "Zero variance Markov chain Monte Carlo for Bayesian estimators"
    (doi:10.1007/s11222-012-9344-6).

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import MCMC
    >>> rough = BayesianLogisticRegression(inference=MCMC(max_mcse=0.1))
    """

    _parameter_constraints = {
        **SubsamplingEngine._parameter_constraints,
        "sampler": [StrOptions(set(SAMPLERS)), HasMethods(["warm_up", "draw"])],
        "n_chains": N_PARTICLES,
        "n_draws": [Interval(Integral, 8, None, closed="left")],
        "max_draws": [Interval(Integral, 8, None, closed="left")],
        "n_warmup": [Interval(Integral, 0, None, closed="left")],
        "max_mcse": [Interval(Real, 0, None, closed="neither")],
        "max_rhat": [Interval(Real, 1, None, closed="neither")],
        "min_ess": [Interval(Real, 0, None, closed="left")],
    }

    _: KW_ONLY
    sampler: Any = "hmc"
    n_chains: int | str = "auto"
    n_draws: int = 300
    max_draws: int = 2400
    n_warmup: int = 100
    max_mcse: float = 0.03
    max_rhat: float = 1.01
    min_ess: int = 400

    continues = True
    curved = runs_chains = True
    of_networks = "n_chains"
    # Nothing rejects a step that a minibatch without the few rows of a wall has led into it.
    lost_beside_walls = True

    @property
    def requires(self):
        return declared(self._sampler(), "requires")

    @property
    def subsampling(self):
        return "control-variate" if declared(self._sampler(), "noisy_scores") else None

    def _sampler(self):
        refuse_class(self.sampler, "sampler")
        return SAMPLERS[self.sampler]() if isinstance(self.sampler, str) else self.sampler

    @property
    def _n_chains(self):
        return _N_CHAINS if self.n_chains == "auto" else self.n_chains

    def n_rounds(self, target):
        further = max(self.max_draws - self.n_draws, 0)
        return len(self._round_sizes(self.n_draws)) + len(self._round_sizes(further))

    def _round_sizes(self, n_draws):
        """Draws in each of the rounds that ``n_draws`` are cut into."""
        size, rest = self._round, n_draws % self._round
        return [size] * (n_draws // size) + [rest] * (rest > 0)

    @property
    def _round(self):
        return -(-self.n_draws // _ROUNDS)

    def run(self, target, rng, *, init=None, map=map, callback=None):
        sampler = self._sampler()
        if self.subsampling and declared(sampler, "batch_size") is not None:
            raise ValueError(
                "batch_size belongs to the engine, which adds the control variate without which a "
                f"minibatch is wrong: {self.name}(batch_size=...), and None for the sampler."
            )
        state = self._continued(init)
        if state is None:
            state = self._started(target, rng, sampler, getattr(init, "particles", init), map)
        most = max(self.n_draws, self.max_draws)

        def make_posterior():
            error = self._errors(state, target)
            return self._posterior(state, target, self._diagnosed(state, error)[1])

        rounds = Rounds(state.n_iter + most, make_posterior, callback, state.history)
        done, more = 0, self.n_draws
        while more:
            done += more
            for n_draws in self._round_sizes(more):
                results = list(map(partial(sampler.draw, target, n_draws), state.chains))
                state.chains = [result[0] for result in results]
                part, scores = (np.concatenate([result[k] for result in results]) for k in (1, 2))
                state.draws.append(part)
                state.scores.append(scores)
                numbers = self._take_in(state, part, scores)
                numbers["acceptance"] = np.mean([result[3] for result in results])
                if rounds.end(state.n_iter, **numbers):
                    break
            left = 0 if rounds.stopped else most - done
            if left and self._shortened(state):
                more = min(self.n_draws, left)
                continue
            error = self._errors(state, target)
            more = min(self._wanted(state, error), left)
            if not more:
                diagnostics, problems = self._diagnosed(state, error)
                more = min(self._whole_rounds(self.n_draws), left) if problems else 0
        posterior = self._posterior(state, target, problems)
        posterior.state = state
        draws, _ = state.chained()
        posterior.chains = draws if draws.size <= _LONGEST_CHAINS else None
        if declared(sampler, "global_moves"):
            _compare_moments(posterior, state, diagnostics, problems)
        if problems:
            diagnostics["message"] = (
                "; ".join(problems)
                + ". Raise the engine's max_draws, n_warmup or n_particles, and look for "
                "separated modes."
            )
        diagnostics["step_size"] = np.array([chains.step_size for chains in state.chains])
        posterior.diagnostics, posterior.converged = diagnostics, not problems
        return posterior

    def _started(self, target, rng, sampler, init, map):
        """Chains after their warm-up."""
        if init is None:
            start = target.sample_start(rng, self._n_chains)
            if not target.stochastic:
                start = within_support(target, start)
        else:
            start = np.resize(init, (self._n_chains, target.dim))
        pieces = np.array_split(start, -(-self._n_chains // _CHAINS_TOGETHER))
        generators = rng.spawn(len(pieces))
        warm_up = partial(sampler.warm_up, target, self.n_warmup)
        return self._new_state(list(map(warm_up, pieces, generators)))

    def _new_state(self, chains):
        return MCMCState(self._fixed, chains, self.n_warmup)

    def _take_in(self, state, draws, scores):
        """Add the draws of a round; return the entries of the history."""
        return {}

    def _shortened(self, state):
        """Whether proposals diverged, and chains therefore begin again with shorter steps.

        The warm-up adapts steps to most of a density, and they may be too long for a part of it,
        such as the arms of a banana: hopeless proposals are as many there as those that diverge.
        """
        draws, _ = state.chained()
        n_stiff = sum(getattr(chains, "n_stiff", 0) for chains in state.chains)
        stiff = n_stiff > MAX_DIVERGENT * draws.shape[0] * draws.shape[1]
        if state.n_shorter == _MOST_SHORTER or not (stiff or divergences(state.chains, draws)):
            return False
        for chains in state.chains:
            chains.step_size, chains.n_divergent = _SHORTER * chains.step_size, 0
            chains.n_stiff = 0
        state.n_warmup, state.n_shorter = state.n_iter, state.n_shorter + 1
        state.draws, state.scores = [], []
        state.thinner = self._new_state(state.chains).thinner
        return True

    def _posterior(self, state, target, problems):
        posterior = self._kept(state, target)
        # Chains that have not met know no moments.
        if not problems and declared(self._sampler(), "global_moves"):
            self._move(posterior, state, target)
        posterior.history, posterior.n_iter = state.history.arrays(), state.n_iter
        return posterior

    def _n_points(self, dim):
        return automatic_particles(self.n_particles, dim, least=1000, cap=2000)

    def _kept(self, state, target):
        """The posterior as draws, of each part of the chains one."""
        draws, scores = state.flat()
        n_points = min(self._n_points(target.dim), len(draws))
        chosen = representative_draws(of_model(target, draws), n_points)
        scores = None if target.stochastic else scores[chosen]
        return ParticlePosterior(draws[chosen], scores=scores)

    def _move(self, posterior, state, target):
        """Move the particles to the moments of the density, if they should not stay."""
        drawn = copy(posterior)
        if not move_to_moments(posterior, target, *state.chained()):
            # The scores are not those of the log density, so points chosen by them are wrong too.
            drawn = MCMC._kept(self, state, target)
        elif draws_misfit(posterior, state, target) <= draws_misfit(drawn, state, target) + _WORSE:
            return
        posterior.particles, posterior.weights = drawn.particles, drawn.weights
        posterior.scores = drawn.scores

    def _continued(self, init):
        """The state of an earlier run, copied so that others can continue it too."""
        state = getattr(init, "state", None)
        if not isinstance(state, MCMCState):
            return None
        changed = [name for name, value in self._fixed.items() if value != state.fixed.get(name)]
        if changed:
            raise ValueError(
                f"a warm start continues the chains as they are: {', '.join(changed)} must not "
                "change. Start again, or set it back."
            )
        return deepcopy(state)

    @property
    def _fixed(self):
        fixed = {name: _described(getattr(self, name)) for name in self._kept_fixed}
        return {"n_chains": self._n_chains, **fixed}

    _kept_fixed = ["sampler", "batch_size", "surrogate", "whiten", "one_sided"]

    def _errors(self, state, target):
        """Monte-Carlo error by coordinate, in the measure of means.

        None from too few draws, and of chains that each stay in a mode.
        """
        if state.n_draws < ENOUGH_DRAWS or not declared(self._sampler(), "global_moves"):
            return None
        draws, scores = state.chained()
        mean, quantile = monte_carlo_errors(draws, None if target.stochastic else scores)
        return np.maximum(mean, quantile / _OUTER)

    def _wanted(self, state, error):
        """How many more draws of each chain the error calls for."""
        lacking = 0.0 if error is None else error.max() / self.max_mcse
        if not lacking > 1.0:
            return 0
        # Errors fall with the root of the number of draws.
        guess = int(min((lacking**2 - 1.0) * state.n_draws, self.max_draws))
        return self._whole_rounds(max(guess, self.n_draws // 3))

    def _whole_rounds(self, n_draws):
        return -(-n_draws // self._round) * self._round

    def _diagnosed(self, state, error):
        """R-hat, effective sample size and Monte-Carlo error by coordinate; the problems."""
        if state.n_draws < ENOUGH_DRAWS:
            return {}, [f"stopped after {state.n_draws} draws of each chain, too few to judge"]
        if error is None:
            return {}, []
        draws, _ = state.chained()
        rhat, *sizes = rank_diagnostics(draws).values()
        size = np.fmin(*sizes)
        problems = divergences(state.chains, draws)
        if not rhat.max() <= self.max_rhat:
            problems.append(f"the largest R-hat is above {self.max_rhat}")
        if not size.min() >= self.min_ess:
            problems.append(f"the smallest effective sample size is below {self.min_ess}")
        if error.max() > _TOLERATED * self.max_mcse:
            problems.append(f"the largest Monte-Carlo error is far above max_mcse={self.max_mcse}")
        return {"rhat": rhat, "ess": size, "mcse": error}, problems


@dataclass
class MCMCState:
    """The state of a run for a warm start."""

    fixed: dict  # parameters that cannot change
    chains: list
    n_warmup: int
    thinner: Any = None
    n_shorter: int = 0
    draws: list = field(default_factory=list)
    scores: list = field(default_factory=list)
    history: History = field(default_factory=History)

    @property
    def n_draws(self):
        return sum(part.shape[1] for part in self.draws)

    @property
    def n_iter(self):
        return self.n_warmup + self.n_draws

    def chained(self):
        """Draws and scores, each of shape (n_chains, n_draws, dim)."""
        for parts in (self.draws, self.scores):
            parts[:] = [np.concatenate(parts, axis=1)]
        return self.draws[0], self.scores[0]

    def flat(self):
        """Draws and scores, one chain after the other, each of shape (n, dim)."""
        return tuple(part.reshape(-1, part.shape[2]) for part in self.chained())


def _described(value):
    """A parameter as text: two objects that do not say what they are differ by their class."""
    return type(value).__qualname__ if type(value).__repr__ is object.__repr__ else repr(value)


def _compare_moments(posterior, state, diagnostics, problems):
    """Note how far the moments of points are from those of the draws, and if that is too far."""
    draws, _ = state.flat()
    std = draws.std(axis=0)
    gap, ratio = (posterior.mean() - draws.mean(axis=0)) / std, posterior.std() / std
    diagnostics["moment_gap"], diagnostics["sd_ratio"] = gap, ratio
    if moments_missed(gap, ratio):
        problems.append("the kept points miss the chains' means or standard deviations")
