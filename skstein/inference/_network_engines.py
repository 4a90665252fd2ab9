"""The engines for neural networks by name: those whose settings suit thousands of coordinates."""

from functools import partial

from ..kernels import RBF
from ..samplers.sghmc import SGHMC
from ..thinning import OnlineKSDThinner
from .adaptive_pmfvb import AdaptivePMFVB
from .ensemble import Ensemble
from .fwss import FWSS
from .ksd_mcmc import KSDThinnedMCMC
from .mcmc import MCMC
from .svgd import SVGD


def _chains(engine, n_networks, steps, **options):
    # A chain of few draws from every network; all of them become particles.
    return engine(
        200,
        sampler=SGHMC(**steps),
        n_chains=n_networks,
        n_draws=10,
        max_draws=10,
        n_warmup=10,
        whiten=False,
        one_sided=False,
        **options,
    )


def _thinned_chains(n_networks, steps):
    # No chain sees enough of the posterior for Stein's identity to hold of it.
    return _chains(KSDThinnedMCMC, n_networks, steps, thinner=OnlineKSDThinner(spread=0))


def _svgd(n_networks):
    return SVGD(n_networks, kernel=RBF("median"), max_iter=500, learning_rate=0.01, batch_size=100)


def _fwss(n_networks):
    return FWSS(
        n_networks,
        kernel=RBF("median"),
        max_iter_oracle=250,
        max_iter_sweep=100,
        learning_rate=0.01,
        batch_size=100,
    )


_CHAINS = {"mcmc": partial(_chains, MCMC), "ksd-mcmc": _thinned_chains}
_PARTICLES = {"ensemble": Ensemble, "pmfvb": AdaptivePMFVB, "svgd": _svgd, "fwss": _fwss}

NETWORK_ENGINES = *_CHAINS, *_PARTICLES


def network_engine(name, n_networks, steps):
    """The engine of one of `NETWORK_ENGINES`; ``steps`` are parameters of the chains' `SGHMC`."""
    if name in _CHAINS:
        return _CHAINS[name](n_networks, steps)
    return _PARTICLES[name](n_networks)
