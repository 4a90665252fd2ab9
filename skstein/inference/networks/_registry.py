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


_DRIFT: dict[str, Any] = {"kernel": RBF("median"), "learning_rate": 0.01, "batch_size": 100}

# Engines, given the parameters of the chains' `SGHMC`.
NETWORK_ENGINES: dict[str, Callable] = {
    "mcmc": partial(_chains, MCMC),
    # No chain sees enough of the posterior for Stein's identity to hold of it.
    "ksd-mcmc": partial(_chains, KSDThinnedMCMC, thinner=OnlineKSDThinner(spread=0)),
    "ensemble": lambda steps: Ensemble(),
    "pmfvb": lambda steps: AdaptivePMFVB(),
    "svgd": lambda steps: SVGD(max_iter=500, **_DRIFT),
    "fwss": lambda steps: FWSS(max_iter_oracle=250, max_iter_sweep=100, **_DRIFT),
}
