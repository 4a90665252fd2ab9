"""The ``map`` that engines are given: joblib over independent pieces.

Threads by default, since BLAS and the compiled routines release the GIL. BLAS and OpenMP are held
to one thread, for one job too, so that a result does not depend on the number of jobs.
"""

from contextlib import contextmanager
from functools import cache

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController


@cache
def _controller():
    return ThreadpoolController()


@contextmanager
def one_thread():
    """Hold BLAS and OpenMP to one thread inside the block."""
    with _controller().limit(limits=1):
        yield


def _held(function, *args):
    # A worker process has thread pools of its own.
    with one_thread():
        return function(*args)


def make_map(n_jobs=None):
    """A ``map(function, *iterables) -> list`` over ``n_jobs`` workers, in order.

    Parameters
    ----------
    n_jobs : int, default=None
        As in joblib: None is 1 unless a ``joblib.parallel_config`` is active, -1 is all cores.

    Returns
    -------
    callable

    Examples
    --------
    >>> from skstein._parallel import make_map
    >>> make_map(2)(abs, [-1, 2])
    [1, 2]
    """
    # Memory-mapped arguments would be deleted between the calls of one run.
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", max_nbytes=None)

    def map_pieces(function, *iterables):
        return list(
            parallel(delayed(_held)(function, *args) for args in zip(*iterables, strict=True))
        )

    return map_pieces
