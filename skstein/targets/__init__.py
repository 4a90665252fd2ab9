"""Log densities and the adapters that wrap them."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
