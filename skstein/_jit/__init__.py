"""Compiled routines: float64 C-order arrays and scalars in, arrays out; no classes.

A module is loaded when one of its routines is first asked for, as ``_jit.stein.rbf_linear_drift``:
importing numba takes as long as importing all the rest.
"""

from importlib import import_module
from pkgutil import iter_modules

_MODULES = {module.name for module in iter_modules(__path__)}


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)
