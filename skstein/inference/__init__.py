"""Engines, which find posteriors, one per file, and `infer`, which runs them.

``ENGINES`` has the names that ``inference=`` takes, with their classes: "pmd", "pmfvb", "fwss",
"svgd", "stein-points", "mcmc" (the default), "ksd-mcmc" (`KSDThinnedMCMC`) and "laplace"
(`LaplaceDraws`).
:doc:`/engines` says which to take when.
"""

from ._infer import infer, update
from ._registry import ENGINES, resolve_engine
from ._step_sizes import InverseSqrt, InverseTime
from .adaptive_pmfvb import AdaptivePMFVB
from .base import Engine
from .ensemble import Ensemble
from .fwss import FWSS
from .ksd_mcmc import KSDThinnedMCMC
from .laplace import LaplaceDraws
from .lazy_fwss import LazyFWSS
from .mcmc import MCMC
from .pmd import PMD
from .pmfvb import PMFVB
from .staged import Trained
from .stein_points import SteinPoints
from .svgd import SVGD

__all__ = [
    "ENGINES",
    "FWSS",
    "MCMC",
    "PMD",
    "PMFVB",
    "SVGD",
    "AdaptivePMFVB",
    "Engine",
    "Ensemble",
    "InverseSqrt",
    "InverseTime",
    "KSDThinnedMCMC",
    "LaplaceDraws",
    "LazyFWSS",
    "SteinPoints",
    "Trained",
    "infer",
    "resolve_engine",
    "update",
]
