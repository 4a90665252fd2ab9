"""Engines, which find posteriors, one per file, and `infer`, which runs them.

``ENGINES`` has the names that ``inference=`` takes, with their classes: "pmd", "pmfvb", "fwss",
"svgd", "stein-points", "mcmc" (the default), "ksd-mcmc" (`KSDThinnedMCMC`) and "laplace"
(`LaplaceDraws`).
:doc:`/engines` says which to take when.
"""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
