"""KSD-thinned MCMC: chains, interleaved draw by draw into an online thinner.

The thinner keeps the few draws that represent the chains best by the kernel Stein discrepancy. What
differs from the paper: chains and thinner work in whitened coordinates, the kernel's squared length
scale is 4 d instead of 1, and the budget is a hard cap with try-before-replace, all three needed
above about ten dimensions. If tails are heavy, with small scores far out, the discrepancy prefers
points far out that do not resemble the draws; draws with the margins of all then replace them. So
they do if the coordinates of the model bend, as those of a horseshoe prior, and the points of the
whitened ones miss their quantiles.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.base import clone

from ..posterior import ParticlePosterior
from ..thinning import OnlineKSDThinner
from ._building_blocks.chain_checks import draws_misfit, moments_missed
from ._building_blocks.particles import automatic_particles
from .mcmc import MCMC

_MAX_MISFIT = 0.4  # of quantiles; a hundred independent draws of a few coordinates have as much


@dataclass(eq=False, repr=False)
class KSDThinnedMCMC(MCMC):
    """Several Markov chains, thinned online by their kernel Stein discrepancy.

    As `MCMC`, with fewer points: for fast predictions, or to represent a density by a handful of
    its draws. How it works: :doc:`/methods/ksd_mcmc`.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Points that the thinner keeps: ``max(150, 2 dim)``, at most 500, for "auto".
    thinner : OnlineKSDThinner, default=None
        How draws are kept: budget, candidates, kernel, weights. None takes the defaults, and moves
        the points, if they are at least twice as many as the coordinates, to the mean and
        covariance of all draws, whose error control variates reduce. To keep unmoved draws pass
        ``OnlineKSDThinner()``. ``n_points`` is the engine's ``n_particles``.
    sampler, n_chains, n_draws, max_draws, n_warmup, batch_size, surrogate
        As of `MCMC`.
    max_mcse, max_rhat, min_ess
        As of `MCMC`.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy"
    (arXiv:2201.07130), algorithm 2.

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import KSDThinnedMCMC
    >>> model = BayesianLogisticRegression(inference=KSDThinnedMCMC(n_draws=2000))
    """

    _parameter_constraints = {**MCMC._parameter_constraints, "thinner": [None, OnlineKSDThinner]}

    _: KW_ONLY
    thinner: Any = None

    _kept_fixed = [*MCMC._kept_fixed, "thinner"]

    def _new_state(self, chains):
        state = super()._new_state(chains)
        state.thinner = OnlineKSDThinner() if self.thinner is None else clone(self.thinner)
        return state

    def _take_in(self, state, draws, scores):
        thinner = state.thinner
        most = self._n_chains * (state.n_draws + self.n_draws)
        thinner.n_points = min(self._n_points(draws.shape[2]), most)
        thinner.partial_fit(draws, scores)
        return {"ksd": thinner.ksd_, "n_accepted": thinner.n_accepted_}

    def _n_points(self, dim):
        return automatic_particles(self.n_particles, dim)

    def _kept(self, state, target):
        thinner = state.thinner
        scores = None if target.stochastic else thinner.scores_
        kept = ParticlePosterior(thinner.samples_, thinner.weights_, scores=scores)
        if moments_missed(thinner.moment_gap_, thinner.sd_ratio_):
            return super()._kept(state, target)
        error = 0.0 if self.thinner is not None else draws_misfit(kept, state, target)
        if error <= _MAX_MISFIT:
            return kept
        drawn = super()._kept(state, target)
        return drawn if draws_misfit(drawn, state, target) < error else kept

    def _move(self, posterior, state, target):
        if self.thinner is None:
            super()._move(posterior, state, target)
