"""Markov chains, many at a time: what `MCMC` draws and KSD thinning thins.

A sampler has ``warm_up(target, n_iterations, theta, rng) -> chains`` and
``draw(target, n_draws, chains) -> (chains, draws, scores, acceptance)``. It holds parameters only;
the `Chains` hold all that changes, so that drawing can go on from them at any later time.
`Sampler` says what else a sampler may declare.
"""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
