"""Bayesian regression for scikit-learn users, with posteriors made of particles.

Estimators whose ``inference=`` chooses how the posterior is found: Particle Mirror Descent,
Particle Mean Field Variational Bayes, Frank-Wolfe Stein Sampling, Stein variational gradient
descent, or MCMC thinned by its kernel Stein discrepancy.
"""

import ast
from importlib import import_module
from pathlib import Path

# A module of the same name would take its place when it is loaded later.
from .predictive import predictive as predictive

__version__ = "0.1.0"

# All else is loaded when it is first asked for, from where `__init__.pyi` says (SPEC 1).
_HOMES = {
    alias.name: node.module
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = sorted(name for name, home in _HOMES.items() if home)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    if home is None:
        return import_module(f".{name}", __name__)
    return getattr(import_module(f".{home}", __name__), name)


def __dir__():
    return sorted({*globals(), *_HOMES})
