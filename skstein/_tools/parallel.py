"""The ``map`` that engines are given: joblib over independent pieces.

Threads by default, since BLAS and the compiled routines release the GIL. joblib says how many, and
which backend `joblib.parallel_config` has asked for; threads are then run without it, because it
looks for results every ten milliseconds, which is longer than a piece may take. BLAS and OpenMP are
held to one thread, for one job too, so that a result does not depend on the number of jobs.

What goes to another process and comes back is pickled as one block of bytes. Arrays that travel on
their own, as Dask sends them, may arrive at odd addresses, where products with them take another
path and end in other bits.
"""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache, partial
from io import BytesIO
from operator import call
from typing import Any

import numpy as np
from joblib import Parallel, delayed, wrap_non_picklable_objects
from joblib.parallel import ThreadingBackend, get_active_backend
from sklearn import config_context, get_config
from threadpoolctl import ThreadpoolController


@cache
def _libraries(kind):
    return ThreadpoolController().select(user_api=kind)


class _Hold:
    """BLAS at one thread as long as anybody holds it; the last one to leave gives it back.

    The number of threads belongs to the process. If everybody restored what they had found, fits
    that overlap in threads could leave it at one for good.
    """

    def __init__(self):
        self._lock, self._holders = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self):
        with self._lock:
            if not self._holders:
                self._limit = _libraries("blas").limit(limits=1)
                _let_others_set()
            self._holders += 1

    def __exit__(self, *error):
        with self._lock:
            self._holders -= 1
            if not self._holders:
                self._limit.restore_original_limits()
                _let_others_set()


def _let_others_set():
    # Until a block of its own has ended, threadpoolctl ignores all threads but the first to set.
    with _libraries("blas").limit(limits=None):
        pass


_blas = _Hold()


@contextmanager
def one_thread():
    """Hold BLAS and OpenMP to one thread inside the block."""
    # OpenMP has a number for each thread that calls it. It comes first: BLAS may be built on it.
    openmp = _libraries("openmp").limit(limits=1)
    try:
        with _blas:
            yield
    finally:
        openmp.restore_original_limits()


def _configured(config, function, *args):
    with config_context(**config):  # scikit-learn's, which belongs to the thread
        return function(*args)


def _held(function, *args):
    # A worker process has thread pools of its own.
    with one_thread():
        return function(*args)


def _here(function, pieces):
    with one_thread():  # once: it takes longer than a small piece
        return [function(*args) for args in pieces]


def _delivered(piece):
    result = piece()
    return wrap_non_picklable_objects(lambda: result)


class _Sent:
    """What the workers of a Dask cluster are sent once: objects whose class says ``sent_once``.

    Whatever else a piece consists of is pickled around them.
    """

    def __init__(self, backend):
        self._backend, self._parcels = backend, {}

    def piece(self, function, args):
        """A call for joblib; what it was sent before goes by reference."""
        import cloudpickle

        held, stream = [], BytesIO()

        class Around(cloudpickle.Pickler):
            def persistent_id(_, value):
                if not getattr(type(value), "sent_once", False):
                    return None
                held.append(self._parcel(value))
                return len(held) - 1

        Around(stream, protocol=5).dump(partial(_held, function, *args))
        return delayed(_opened)(stream.getvalue(), *held)

    def _parcel(self, value):
        if id(value) not in self._parcels:
            parcel = np.frombuffer(pickle.dumps(value, protocol=5), dtype=np.uint8)
            sent = self._backend.client.scatter(parcel, broadcast=True, hash=False)
            self._backend.data_futures[id(parcel)] = sent  # where joblib looks for arguments
            self._parcels[id(value)] = value, parcel
        return self._parcels[id(value)][1]

    def forget(self):
        for _, parcel in self._parcels.values():
            self._backend.data_futures.pop(id(parcel), None)
        self._parcels = {}


def _opened(packed, *parcels):
    class Around(pickle.Unpickler):
        def persistent_load(self, place):
            return pickle.loads(parcels[place])

    return _delivered(Around(BytesIO(packed)).load())


_local = threading.local()


def _begin_thread():
    _local.is_worker = True
    _libraries("openmp").limit(limits=1)  # for as long as this thread lives


def make_map(n_jobs=None):
    """A ``map(function, *iterables) -> list`` over ``n_jobs`` workers, in order.

    Parameters
    ----------
    n_jobs : int, default=None
        As in joblib: None is 1 unless a ``joblib.parallel_config`` is active, -1 is all cores.

    Returns
    -------
    callable
        And a context manager: its threads end with the block, or when the map is collected.

    Examples
    --------
    >>> from skstein._tools.parallel import make_map
    >>> make_map(2)(abs, [-1, 2])
    [1, 2]
    """
    return _Map(n_jobs)


class OneByOne(AbstractContextManager):
    """A map that runs pieces here, one after the other, for work that is spread already."""

    whole = True  # so that what could be one piece should be

    def __call__(self, function, *iterables):
        return _here(function, zip(*iterables, strict=True))

    def __exit__(self, *error):
        pass


class _Map(AbstractContextManager):
    def __init__(self, n_jobs):
        # Memory-mapped arguments would be deleted between the calls of one run.
        self._parallel = Parallel(n_jobs=n_jobs, prefer="threads", max_nbytes=None)
        backend, _ = get_active_backend(prefer="threads")
        self._n_workers = backend.effective_n_jobs(self._parallel.n_jobs)
        self._threads = None
        self._sent = _Sent(backend) if hasattr(backend, "data_futures") else None
        if isinstance(backend, ThreadingBackend) and self._n_workers > 1:
            self._threads = ThreadPoolExecutor(self._n_workers, initializer=_begin_thread)

    def __call__(self, function, *iterables):
        pieces, alone = zip(*iterables, strict=True), self._sent is None and self._n_workers == 1
        if alone or getattr(_local, "is_worker", False):  # which would wait for itself
            return _here(function, pieces)
        function = partial(_configured, get_config(), function)
        if self._threads is not None:
            with one_thread():
                here = (partial(copy_context().run, function, *args) for args in pieces)
                return list(self._threads.map(call, here))
        if self._sent is not None:
            calls: Any = (self._sent.piece(function, args) for args in pieces)
        else:
            held = (wrap_non_picklable_objects(partial(_held, function, *args)) for args in pieces)
            calls = map(delayed(_delivered), held)
        return [result() for result in self._parallel(calls)]

    def __exit__(self, *error):
        if self._sent is not None:
            self._sent.forget()
        if self._threads is not None:
            # An interrupt does not wait for the pieces under way.
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None  # a posterior asked for later is made without them
