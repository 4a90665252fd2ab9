"""Outcomes: one file per family, used by targets and predictions alike."""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
