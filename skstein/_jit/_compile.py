"""The one decorator and the one choke point of compiled code.

A routine compiles on its first call, once for every combination of argument types. Numba's types
tell writable from read-only arrays and C order from strided, so every wrapper passes its inputs
through `frozen` and its scalars through `float` or `int`: then a routine has one signature,
compiles once and is found again in the cache by the next process.
"""

from contextlib import suppress
from functools import partial
from typing import Any

import numba
import numpy as np
from numba.core.caching import FunctionCache

DISPATCHERS = []


# Sums may be reordered, which lets them use vector instructions. That there is no NaN is never
# assumed: a test for divergence would silently vanish.
REORDERED = {"reassoc", "contract", "arcp", "nsz"}
# Nothing outside of Python and Numba calls a routine; code for C would be compiled beside it.
_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}


class _Cache(FunctionCache):
    """Numba's cache on disk, without which a full disk would end the call that compiles."""

    def save_overload(self, sig, data):
        with suppress(OSError):
            super().save_overload(sig, data)


def compiled(function=None, *, fastmath=False):
    """Compile ``function`` on first use, without the GIL, and keep the result on disk if possible.

    ``fastmath`` is False or `REORDERED`, where a division by zero is infinite. Every dispatcher is
    appended to `DISPATCHERS`, so that signatures and cache misses can be counted.
    """
    if function is None:
        return partial(compiled, fastmath=fastmath)
    # A test for zero before every division would keep loops from vector instructions.
    errors: Any = "numpy" if fastmath else "python"
    dispatcher: Any = numba.njit(fastmath=fastmath, error_model=errors, **_OPTIONS)(function)
    # Numba finds no directory to write to in a read-only installation: compile in every process.
    with suppress(RuntimeError):
        dispatcher._cache = _Cache(function)
    DISPATCHERS.append(dispatcher)
    return dispatcher


def part(function):
    """Compile ``function`` as a part of routines: sums reordered, and no way in from Python."""
    options = {**_OPTIONS, "no_cpython_wrapper": True, "error_model": "numpy"}
    return numba.njit(fastmath=REORDERED, **options)(function)


def frozen(a):
    """``a`` as compiled routines take it: read-only, aligned, C-contiguous, float64; rarely a copy.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit._compile import frozen
    >>> b = frozen(np.arange(6).reshape(2, 3).T)
    >>> b.dtype, b.flags.c_contiguous, b.flags.writeable
    (dtype('float64'), True, False)
    """
    # `np.require` does the same in five times the time, which counts where a routine is small.
    array = np.asarray(a, np.float64, order="C")
    view = array.view() if array.flags.aligned else array.copy()
    view.flags.writeable = False
    return view
