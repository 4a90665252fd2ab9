"""Copies of an object: with some attributes changed, and out of a pickle."""

import copy

import numpy as np


def changed(original, /, **attributes):
    """A shallow copy of ``original`` with other attributes.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from skstein._tools.copies import changed
    >>> changed(SimpleNamespace(a=1, b=2), b=3)
    namespace(a=1, b=3)
    """
    twin = copy.copy(original)
    vars(twin).update(attributes)
    return twin


class Aligned:
    """What lies at odd addresses once it is unpickled is moved, or products have other bits."""

    def __setstate__(self, state):
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value = np.require(value, requirements="A")
            vars(self)[name] = value
