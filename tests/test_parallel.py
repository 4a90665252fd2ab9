"""The ``map`` of independent pieces: order, errors, and who does the work."""

import contextlib
import os
import pickle
import threading
import time
from functools import partial

import joblib
import numpy as np
import pytest
from joblib.parallel import ParallelBackendBase
from sklearn import config_context, get_config
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

from skstein import BayesianLogisticRegression
from skstein._tools.parallel import make_map, one_thread
from skstein.inference import FWSS, KSDThinnedMCMC
from skstein.targets import LogisticTarget
from skstein.targets.regression.design import make_design


def worker(_):
    return os.getpid(), threading.current_thread().name


def settings(_):
    return get_config()["working_memory"], np.geterr()["over"]


def main_thread():
    return os.getpid(), threading.main_thread().name


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3, -1])
def test_results_are_in_the_order_of_the_pieces(n_jobs):
    pieces = make_map(n_jobs)
    assert pieces(pow, range(20), [2] * 20) == [k**2 for k in range(20)]
    assert pieces(pow, [], []) == []
    assert pieces(pow, [3], [2]) == [9]  # once more on the same workers


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_pieces_of_different_lengths_are_refused(n_jobs):
    with pytest.raises(ValueError, match="zip"):
        make_map(n_jobs)(pow, [1, 2], [1])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_of_a_piece_arrives(n_jobs):
    with pytest.raises(ZeroDivisionError):
        make_map(n_jobs)(lambda k: 1 / k, [1, 0, 2])


def test_one_job_stays_in_its_thread_and_two_do_not():
    assert set(make_map(1)(worker, range(4))) == {main_thread()}
    assert main_thread() not in make_map(2)(worker, range(4))


def test_a_piece_that_maps_again_does_not_wait_for_itself():
    pieces = make_map(2)
    result = pieces(lambda k: pieces(abs, [-k, -k - 1]), range(4))
    assert result == [[k, k + 1] for k in range(4)]


def test_joblib_says_which_backend():
    with joblib.parallel_config(backend="threading", n_jobs=2):
        inside = make_map()
    assert {pid for pid, _ in inside(worker, range(4))} == {os.getpid()}
    assert main_thread() not in inside(worker, range(4))
    with joblib.parallel_config(backend="loky", n_jobs=2), config_context(working_memory=3):
        processes = {pid for pid, _ in make_map()(worker, range(4))}
        assert {memory for memory, _ in make_map()(settings, range(4))} == {3}
    assert os.getpid() not in processes


def test_threads_have_the_settings_of_their_caller():
    with config_context(working_memory=3), np.errstate(over="ignore"):
        assert set(make_map(2)(settings, range(4))) == {(3, "ignore")}
    assert set(make_map(2)(settings, range(4))) == {settings(0)}


def test_no_jobs_at_all_are_refused():
    with pytest.raises(ValueError, match="n_jobs == 0"):
        make_map(0)(abs, [1])


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two_threads():
    """BLAS at two threads, whatever the environment says."""
    as_found = threadpool_limits(2, user_api="blas")
    before = blas_threads()
    assert set(before) == {2}
    with threadpool_limits(None):  # whose end lets other threads set it too
        pass
    yield before
    as_found.restore_original_limits()


def test_blocks_that_overlap_give_blas_its_threads_back(two_threads):
    """The first to enter is the first to leave: the other still has one thread, and then nobody."""
    first_left, second_in = threading.Event(), threading.Event()
    seen = []

    def second():
        with one_thread():
            second_in.set()
            first_left.wait(10.0)
            seen.append(blas_threads())

    with one_thread():
        with one_thread():
            seen.append(blas_threads())
        seen.append(blas_threads())
        thread = threading.Thread(target=second)
        thread.start()
        second_in.wait(10.0)
    first_left.set()
    thread.join()
    assert all(set(threads) == {1} for threads in seen) and len(seen) == 3
    assert blas_threads() == two_threads


@pytest.mark.parametrize("fails", [False, True])
def test_an_error_gives_blas_its_threads_back(two_threads, fails):
    with contextlib.suppress(ZeroDivisionError), one_thread():
        assert 1 / (not fails)
    assert blas_threads() == two_threads


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_in_threads_gives_blas_its_threads_back(two_threads):
    X, y = make_classification(100, 3, n_informative=3, n_redundant=0, random_state=0)
    model = BayesianLogisticRegression("laplace", random_state=0)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        GridSearchCV(model, {"prior__scale": np.geomspace(0.1, 3.0, 8)}, cv=3).fit(X, y)
    assert blas_threads() == two_threads


def pool_threads():
    return {t for t in threading.enumerate() if t.name.startswith("ThreadPoolExecutor")}


def wait_for_the_end_of(threads):
    deadline = time.monotonic() + 10.0
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("interrupted", [False, True])
def test_threads_end_with_the_fit(interrupted, rng):
    before, seen = pool_threads(), set()

    class Sampler:
        """A chain that stays where it is, and looks around."""

        def warm_up(self, target, n, start, rng):
            return Chain()

        def draw(self, target, n, chain):
            seen.update(pool_threads() - before)
            if interrupted:
                raise KeyboardInterrupt
            draws = rng.normal(size=(4, n, 3))
            return chain, draws, -draws, 1.0

    class Chain:
        step_size, n_divergent = 0.1, 0

    engine = KSDThinnedMCMC(8, sampler=Sampler(), n_draws=10, max_draws=10)
    X, y = make_classification(50, 2, n_informative=2, n_redundant=0, random_state=0)
    model = BayesianLogisticRegression(engine, random_state=0, n_jobs=2)
    with pytest.raises(KeyboardInterrupt) if interrupted else contextlib.nullcontext():
        model.fit(X, y)
    assert seen
    assert wait_for_the_end_of(seen)


def test_a_map_goes_on_after_the_end_of_its_block():
    with make_map(2) as pieces:
        assert pieces(abs, [-1, 2]) == [1, 2]
    assert pieces(abs, [-1, 2]) == [1, 2]


# Workers that receive arrays at odd addresses, as those of Dask may.


def at_odd_addresses(call):
    """``call`` pickled and read again, with all buffers that travel apart 4 bytes off."""
    buffers = []
    data = pickle.dumps(call, protocol=5, buffer_callback=buffers.append)
    moved = []
    for buffer in map(pickle.PickleBuffer.raw, buffers):
        place = np.empty(buffer.nbytes + 128, dtype=np.uint8)
        start = -place.ctypes.data % 64 + 4
        moved.append(place[start : start + buffer.nbytes])
        moved[-1][:] = buffer
    return pickle.loads(data, buffers=moved)


class OddAddresses(ParallelBackendBase):
    """Runs a piece as soon as it is submitted, with arguments and result at odd addresses."""

    supports_retrieve_callback = False
    supports_timeout = False

    def effective_n_jobs(self, n_jobs):
        return 2

    def submit(self, function, callback=None):
        result = at_odd_addresses(at_odd_addresses(function)())
        callback(result)
        return result

    def retrieve_result(self, out, timeout=None):
        return out


@pytest.fixture
def odd_addresses():
    joblib.register_parallel_backend("odd-addresses", OddAddresses)
    with joblib.parallel_config(backend="odd-addresses", n_jobs=2):
        yield


@pytest.fixture
def wide(rng):
    X = rng.normal(size=(20_000, 20))
    return X, (X[:, 0] + rng.logistic(size=len(X)) > 0).astype(int)


@pytest.mark.parametrize("copied_up_to", [0, 2**28])
def test_a_target_is_aligned_wherever_it_is_unpickled(wide, rng, copied_up_to):
    target, theta = LogisticTarget(*wide), 0.1 * rng.normal(size=(1, 21))
    target.design = make_design(wide[0], copied_up_to=copied_up_to)
    arrived = at_odd_addresses(target)
    assert not at_odd_addresses(wide[0]).flags.aligned
    arrays = [*vars(arrived).values(), *vars(arrived.design).values()]
    assert all(array.flags.aligned for array in arrays if isinstance(array, np.ndarray))
    np.testing.assert_array_equal(arrived.score(theta), target.score(theta))


def test_what_arrives_and_returns_is_aligned(wide, rng, odd_addresses):
    target, theta = LogisticTarget(*wide), 0.1 * rng.normal(size=(1, 21))

    def aligned(target, theta):
        return theta.flags.aligned, target.score(theta)

    ((argument, score),) = make_map(2)(partial(aligned, target), [theta])
    assert argument
    assert score.flags.aligned
    np.testing.assert_array_equal(score, target.score(theta))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_workers_with_odd_addresses_change_no_bit(wide, request):
    engine = FWSS(3, n_blocks=2, max_iter_oracle=5)
    model = BayesianLogisticRegression(engine, random_state=0)
    expected = model.fit(*wide).posterior_.particles
    request.getfixturevalue("odd_addresses")
    np.testing.assert_array_equal(model.fit(*wide).posterior_.particles, expected)
