"""The engines for neural networks by name: those whose settings suit thousands of coordinates."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ...kernels import RBF
from ...samplers.sghmc import SGHMC
from ...thinning import OnlineKSDThinner
from ..fwss import FWSS
from ..ksd_mcmc import KSDThinnedMCMC
from ..mcmc import MCMC
from ..svgd import SVGD
from .adaptive_pmfvb import AdaptivePMFVB
from .ensemble import Ensemble


def _chains(engine, steps, **options):
    # A chain of few draws from every network; all of them become particles.
    return engine(
        200,
        sampler=SGHMC(**steps),
        n_draws=10,
        max_draws=10,
        n_warmup=10,
        whiten=False,
        one_sided=False,
        **options,
    )


_CHAINS = {
    "mcmc": partial(_chains, MCMC),
    # No chain sees enough of the posterior for Stein's identity to hold of it.
    "ksd-mcmc": partial(_chains, KSDThinnedMCMC, thinner=OnlineKSDThinner(spread=0)),
}
_DRIFT: dict[str, Any] = {"kernel": RBF("median"), "learning_rate": 0.01, "batch_size": 100}
_PARTICLES: dict[str, Callable] = {
    "ensemble": Ensemble,
    "pmfvb": AdaptivePMFVB,
    "svgd": partial(SVGD, max_iter=500, **_DRIFT),
    "fwss": partial(FWSS, max_iter_oracle=250, max_iter_sweep=100, **_DRIFT),
}

NETWORK_ENGINES = *_CHAINS, *_PARTICLES


def network_engine(name, steps):
    """The engine of one of `NETWORK_ENGINES`; ``steps`` are parameters of the chains' `SGHMC`."""
    if name in _CHAINS:
        return _CHAINS[name](steps)
    return _PARTICLES[name]()
