"""What samplers with an acceptance step share: the warm-up, the step itself, and drawing.

A sampler moves a batch of chains, so that every gradient is one batched call. Its own part is the
proposal; the rest is here. Chains that one sampler has warmed up hold all that it needs to go on.
"""

from abc import ABCMeta, abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._input.validation import Interval
from ..protocols import DrawsChains
from ._warm_up import DualAveraging, Metric, MetricAdaptation

_DIVERGENT = 1000.0  # error of the energy, as in Stan
_STIFF = 20.0  # of which none is accepted: the step is too long for where the chain is


@dataclass
class Chains:
    """What the next draw needs.

    Attributes
    ----------
    theta, score : ndarray of shape (chains, dim)
    log_density : ndarray of shape (chains,)
        Not kept by `SGLD`.
    step_size : float
    rng : numpy.random.Generator
    metric : Metric
        Linear coordinates in which the chains move; `step_size` is in their units.
    noise : ndarray of shape (chains, dim) or None
        Of the last step of `SGLD`.
    n_divergent : int
        Proposals along the gradient, after the warm-up, that met a density or an energy out of all
        proportion: where the gradient says little, chains may not come.
    n_stiff : int
        Proposals whose error of the energy leaves no chance of acceptance.
    """

    theta: np.ndarray
    log_density: np.ndarray
    score: np.ndarray
    step_size: float
    rng: np.random.Generator
    metric: Metric = field(default_factory=Metric)
    noise: np.ndarray | None = None
    n_divergent: int = 0
    n_stiff: int = 0


class Sampler(BaseEstimator):
    """Base class of samplers: what one says of itself, with the defaults.

    A subclass writes ``warm_up`` and ``draw`` of `skstein.protocols.DrawsChains`. A sampler that is
    not a subclass needs these two alone: what it does not say is as it is said here.

    Attributes
    ----------
    requires : tuple of str
        The optional parts of a target without which it cannot work.
    noisy_scores : bool
        Whether it works on the scores of minibatches: for a ``stochastic`` target it draws
        ``target.batch_size`` rows for each.
    batch_size : int or None
        Rows of a minibatch that it chooses itself.
    global_moves : bool
        Whether its chains come to all of a density, so that they should agree, and particles may be
        moved to their moments.
    """

    requires: tuple[str, ...] = ("score",)
    noisy_scores: bool = False
    batch_size: int | str | None = None
    global_moves: bool = True


def declared(sampler: DrawsChains, name: str) -> Any:
    """What a sampler says of itself, such as its ``noisy_scores``, or `Sampler` in its place."""
    return getattr(sampler, name, getattr(Sampler, name))


@dataclass(eq=False, repr=False)
class Metropolis(Sampler, metaclass=ABCMeta):
    """Base class of samplers that accept or reject.

    A subclass has the parameter ``acceptance``, and writes ``_propose``.
    """

    _parameter_constraints = {
        "acceptance": [Interval(Real, 0, 1, closed="neither")],
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "thinning": [Interval(Integral, 1, None, closed="left")],
        "adapt_metric": ["boolean"],
    }

    _: KW_ONLY
    step_size: float = 0.5
    thinning: int = 1
    adapt_metric: bool = True

    @abstractmethod
    def _propose(self, target, chains):
        """Where each chain would go next.

        Returns
        -------
        theta : ndarray of shape (chains, dim)
        log_density : ndarray of shape (chains,)
        score : ndarray of shape (chains, dim) or None
            None if the proposal did not need it.
        log_ratio : ndarray of shape (chains,)
            Logarithm of the acceptance ratio.
        """

    def _first_step(self, dim):
        return self.step_size

    def warm_up(self, target, n_iterations, theta, rng):
        """Adapt the step size and the metric.

        Parameters
        ----------
        target : Target
            With an exact score.
        n_iterations : int
            Each of ``thinning`` moves, as a draw is.
        theta : ndarray of shape (chains, dim)
            Where the chains start.
        rng : numpy.random.Generator
            Used by these chains from now on.

        Returns
        -------
        Chains

        Raises
        ------
        ValueError
            If the target's scores are noisy, or a parameter is wrong.
        FloatingPointError
            If the log density or its score is not finite where a chain starts.
        """
        self._validate_params()
        if target.stochastic:
            raise ValueError(
                f'{type(self).__name__} cannot use minibatches: use sampler="sgld" with batch_size.'
            )
        theta = np.array(theta, dtype=float)
        log_density, score = target.log_density_and_score(theta)
        bad = ~(np.isfinite(log_density) & np.isfinite(score).all(axis=1))
        if bad.any():
            raise FloatingPointError(
                f"the log density or its score is not finite where chain {np.flatnonzero(bad)[0]} "
                "starts; give other starting points (init)."
            )
        windows, first_step = MetricAdaptation(n_iterations), self._first_step(target.dim)
        adaptation = DualAveraging(first_step, self.acceptance)
        chains = Chains(theta, log_density, score, adaptation.step_size, rng)
        for _ in range(n_iterations):
            for _ in range(self.thinning):
                chains.step_size = adaptation.step_size
                adaptation.update(self.move(target, chains))
            if self.adapt_metric:
                before = chains.metric
                chains.metric = windows.update(before, chains.theta, chains.score)
                if chains.metric is not before:
                    adaptation = DualAveraging(first_step, self.acceptance)
        adaptation.freeze()
        chains.step_size, chains.n_divergent, chains.n_stiff = adaptation.step_size, 0, 0
        return chains

    def draw(self, target, n_draws, chains):
        """Draw from the chains.

        Parameters
        ----------
        target : Target
        n_draws : int
        chains : Chains
            Where they stand; moved on in place.

        Returns
        -------
        chains : Chains
        draws, scores : ndarray of shape (chains, n_draws, dim)
        acceptance : float
            Mean acceptance probability.
        """
        draws = np.empty((len(chains.theta), n_draws, target.dim))
        scores, acceptance = np.empty_like(draws), 0.0
        for t in range(n_draws):
            for _ in range(self.thinning):
                acceptance += self.move(target, chains) / (n_draws * self.thinning)
            draws[:, t], scores[:, t] = chains.theta, chains.score
        return chains, draws, scores, acceptance

    def move(self, target, chains):
        """Move every chain once, or leave it where it is.

        Parameters
        ----------
        target : Target
        chains : Chains
            Where they stand; moved on in place.

        Returns
        -------
        acceptance : float
            Mean acceptance probability.
        """
        theta, log_density, score, log_ratio = self._propose(target, chains)
        # A proposal that ran off to where the density overflows is rejected, not an error.
        log_ratio[~np.isfinite(log_ratio)] = -np.inf
        probability = np.exp(np.minimum(0.0, log_ratio))
        accept = chains.rng.random(len(log_ratio)) < probability
        if score is not None:
            chains.n_divergent += np.count_nonzero(log_ratio < -_DIVERGENT)
            chains.n_stiff += np.count_nonzero(log_ratio < -_STIFF)
        else:
            score = chains.score.copy()
            if accept.any():
                score[accept] = target.score(theta[accept])
        chains.theta = np.where(accept[:, None], theta, chains.theta)
        chains.score = np.where(accept[:, None], score, chains.score)
        chains.log_density = np.where(accept, log_density, chains.log_density)
        return probability.sum() / len(probability)
