"""Log densities and the adapters that wrap them."""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
