"""Markov chains that feed KSD thinning: batched over chains, in white or nearly white coordinates.

A sampler has ``warm_up(target, n_iterations, theta, rng) -> chains`` and
``draw(target, n_draws, chains) -> (chains, draws, scores, acceptance)``. It holds parameters only;
the `Chains` hold all that changes, so that drawing can go on from them at any later time.
`Sampler` says what else a sampler may declare.
"""

from ..protocols import DrawsChains
from .base import Chains, Sampler
from .hmc import HMC
from .mala import MALA
from .mams import MAMS
from .rwm import RWM
from .sghmc import SGHMC
from .sgld import SGLD

SAMPLERS: dict[str, type[DrawsChains]] = {
    "rwm": RWM,
    "mala": MALA,
    "hmc": HMC,
    "mams": MAMS,
    "sgld": SGLD,
}

__all__ = ["HMC", "MALA", "MAMS", "RWM", "SAMPLERS", "SGHMC", "SGLD", "Chains", "Sampler"]
