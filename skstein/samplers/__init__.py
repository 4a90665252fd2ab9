"""Markov chains that feed KSD thinning: batched over chains, in whitened coordinates."""

from .hmc import HMC
from .sgld import SGLD

SAMPLERS = {"hmc": HMC, "sgld": SGLD}

__all__ = ["HMC", "SAMPLERS", "SGLD"]
