"""The ``map`` that engines are given: joblib over independent pieces.

Threads by default, since BLAS and the compiled routines release the GIL. joblib says how many, and
which backend `joblib.parallel_config` has asked for; threads are then run without it, because it
looks for results every ten milliseconds, which is longer than a piece may take. BLAS and OpenMP are
held to one thread, for one job too, so that a result does not depend on the number of jobs.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from joblib import Parallel, delayed
from joblib.parallel import ThreadingBackend, get_active_backend
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


_local = threading.local()


def _mark():
    _local.is_worker = True


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
    backend, _ = get_active_backend(prefer="threads")
    n_workers = backend.effective_n_jobs(parallel.n_jobs)
    threads = None
    if isinstance(backend, ThreadingBackend) and n_workers > 1:
        threads = ThreadPoolExecutor(n_workers, initializer=_mark)

    def map_pieces(function, *iterables):
        pieces = zip(*iterables, strict=True)
        if getattr(_local, "is_worker", False):  # which would wait for itself
            return [_held(function, *args) for args in pieces]
        if threads is not None:
            return list(threads.map(lambda args: _held(function, *args), pieces))
        return list(parallel(delayed(_held)(function, *args) for args in pieces))

    return map_pieces
