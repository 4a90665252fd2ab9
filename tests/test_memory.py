"""What a fit keeps in memory beside the rows that it was given."""

import tracemalloc

import numpy as np
import pytest

from skstein import BayesianLogisticRegression
from skstein.inference import LaplaceDraws
from skstein.targets.regression import design

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N, P = 40_000, 20
DOUBLE = 8 * N * P


class Asks(LaplaceDraws):
    """Calls a function when it is run."""

    def __init__(self, function=None, n_particles=100):
        super().__init__(n_particles=n_particles)
        self.function = function

    _parameter_constraints: dict = {}

    def run(self, target, rng, **options):
        self.function()
        return super().run(target, rng, **options)


@pytest.fixture
def rows(rng):
    X = rng.integers(-3, 4, size=(N, P))
    return X, (X[:, 0] + rng.logistic(size=N) > 0).astype(int)


def memory_of_fit(X, y):
    """Bytes held when the engine starts, and at most, beyond those before the fit."""
    held = []
    model = BayesianLogisticRegression(
        Asks(lambda: held.append(tracemalloc.get_traced_memory()[0])), random_state=0
    )
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        model.fit(X, y)
        return held[0] - before, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_the_validated_copy_is_gone_when_the_engine_runs(rows):
    held, _ = memory_of_fit(*rows)
    assert held < 1.3 * DOUBLE  # the design alone is 1.05


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_features_are_never_copied(rows, dtype, monkeypatch, tmp_path):
    """A tenth of the rows, on which the search for the mode starts, and some numbers a row."""
    monkeypatch.setattr(design.make_design, "__defaults__", (True, None, None, 0))
    X, y = rows
    np.save(tmp_path / "X.npy", X.astype(dtype))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    held, peak = memory_of_fit(mapped, y)
    assert held < 32 * N
    assert peak < 32 * N + 0.25 * DOUBLE + 2**21


def test_an_allocation_that_fails_names_the_number_of_particles():
    def fail():
        raise MemoryError("Unable to allocate 6.71 GiB")

    X = np.arange(20.0)[:, None]
    with pytest.raises(
        MemoryError, match=r"first iteration of Asks, with n_particles=7 .*6.71 GiB"
    ):
        BayesianLogisticRegression(Asks(fail, 7)).fit(X, np.arange(20) % 2)
