"""Bayesian linear models: one file per family of outcomes."""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
