"""Bayesian regression for scikit-learn users, with posteriors made of particles.

Estimators whose ``inference=`` chooses how the posterior is found: by Markov chains, the default of
most, or by particle methods (:doc:`/engines`).
"""

from ._tools.lazy_imports import attach

# A module of the same name would take its place when it is loaded later.
from .predictive import predictive as predictive

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__)
