"""Copies of an object with some attributes changed."""

import copy


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
