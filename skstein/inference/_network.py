"""The engines for neural networks by name: those whose settings suit thousands of coordinates."""

from ..kernels import RBF
from ..samplers.sghmc import SGHMC
from ..thinning import OnlineKSDThinner
from .adaptive_pmfvb import AdaptivePMFVB
from .ensemble import Ensemble
from .fwss import FWSS
from .ksd_mcmc import KSDThinnedMCMC
from .svgd import SVGD


def _chains(n_networks):
    # R-hat and effective sample sizes of single weights say nothing: networks with their units in
    # another order are the same function.
    return KSDThinnedMCMC(
        200,
        sampler=SGHMC(),
        # Particles are networks that a chain came to, moved by nothing; no chain sees enough of the
        # posterior for Stein's identity to hold of it.
        thinner=OnlineKSDThinner(spread=0),
        n_chains=n_networks,
        n_draws=10,
        max_draws=10,
        n_warmup=10,
        max_mcse=1e6,
        max_rhat=1e6,
        min_ess=0,
        whiten=False,
        one_sided=False,
    )


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
    "ksd-mcmc": _chains,
    "pmfvb": AdaptivePMFVB,
    "svgd": _svgd,
    "fwss": _fwss,
}
