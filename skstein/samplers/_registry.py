"""The samplers by name."""

from collections.abc import Mapping

from .._tools.lazy_imports import Registry
from ..protocols import DrawsChains

SAMPLERS: Mapping[str, type["DrawsChains"]] = Registry(
    "skstein.samplers", {"rwm": "RWM", "mala": "MALA", "hmc": "HMC", "mams": "MAMS", "sgld": "SGLD"}
)
