"""Packages whose names load when they are first asked for (SPEC 1), and registries of such names.

What a package has, and where, is said once: in the stub beside its ``__init__.py``, which type
checkers read as well.
"""

import ast
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path


def attach(package):
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package with a stub.

    The stub has ``from .home import name as name`` for a name, and ``from . import home as home``
    for a module, which is not in ``__all__``.
    """
    namespace = vars(sys.modules[package])
    stub = Path(namespace["__file__"]).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {
        alias.name: (node.level * ".", node.module)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def __getattr__(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        dots, home = homes[name]
        if home is None:
            return import_module(dots + name, package)
        namespace[name] = getattr(import_module(dots + home, package), name)
        return namespace[name]

    def __dir__():
        return sorted({*namespace, *homes})

    return __getattr__, __dir__, sorted(name for name, (_, home) in homes.items() if home)


class Registry(Mapping):
    """Classes of a package, which load when they are asked for, by the names of parameters."""

    def __init__(self, package, classes):
        self._package, self._classes = package, classes

    def __getitem__(self, name):
        return getattr(import_module(self._package), self._classes[name])

    def __iter__(self):
        return iter(self._classes)

    def __len__(self):
        return len(self._classes)

    def __repr__(self):
        return repr(dict(self))
