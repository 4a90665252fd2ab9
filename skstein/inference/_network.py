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


def _chains(engine, n_networks, **options):
    # A chain of few draws, far apart, from every network; all of them become particles.
    return engine(
        200,
        sampler=SGHMC(),
        n_chains=n_networks,
        n_draws=10,
        max_draws=10,
        n_warmup=10,
        whiten=False,
        one_sided=False,
        **options,
    )


def _thinned_chains(n_networks):
    # No chain sees enough of the posterior for Stein's identity to hold of it.
    return _chains(KSDThinnedMCMC, n_networks, thinner=OnlineKSDThinner(spread=0))


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


# Each a function of the number of networks.
NETWORK_ENGINES = {
    "ensemble": Ensemble,
    "mcmc": partial(_chains, MCMC),
    "ksd-mcmc": _thinned_chains,
    "pmfvb": AdaptivePMFVB,
    "svgd": _svgd,
    "fwss": _fwss,
}
