"""The ``map`` of independent pieces: order, errors, and who does the work."""

import os
import threading

import joblib
import pytest

from skstein._parallel import make_map


def worker(_):
    return os.getpid(), threading.current_thread().name


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
    with joblib.parallel_config(backend="loky", n_jobs=2):
        processes = {pid for pid, _ in make_map()(worker, range(4))}
    assert os.getpid() not in processes


def test_no_jobs_at_all_are_refused():
    with pytest.raises(ValueError, match="n_jobs == 0"):
        make_map(0)(abs, [1])
