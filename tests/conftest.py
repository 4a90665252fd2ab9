"""Fixtures of all tests: a generator whose seed is an option, and the reference posteriors."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# The same cases in every run: what a change broke is what fails. New ones are for `make test-all`.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

DATA_DIR = Path(__file__).parent / "data"


def pytest_addoption(parser):
    parser.addoption(
        "--seed",
        type=int,
        default=0,
        help="seed of the fixtures `seed` and `rng`: every test has to hold for any of them",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One worker runs what trains networks: the other one need not compile their routines too.

    All cases of one test go to one worker, which makes what they share once. This does not need the
    groups of xdist 3.8, which pytest 9.2 ignores.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            networks = re.search("MLP|mlp|network|two_stages", nodeid)
            return "networks" if networks else nodeid.partition("[")[0]

    return Scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture
def seed(request):
    return request.config.getoption("seed")


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture
def data_dir():
    return DATA_DIR


def _find_gold(name):
    candidates = [DATA_DIR / f"gold_{name}.npz"]
    if folder := os.environ.get("SKSTEIN_DATA"):
        candidates.append(Path(folder) / "gold" / f"{name}.npz")
    return next((path for path in candidates if path.is_file()), None)


@pytest.fixture
def gold():
    """Loader of a reference posterior by name: a dict of the arrays that data/README.md lists.

    The larger ones are not in the repository; they are read from the folder that the environment
    variable SKSTEIN_DATA names, and without it the test is skipped.
    """

    def load(name):
        path = _find_gold(name)
        if path is None:
            pytest.skip(
                f"no reference posterior {name!r} in {DATA_DIR}, nor in $SKSTEIN_DATA/gold "
                f"(SKSTEIN_DATA={os.environ.get('SKSTEIN_DATA')!r})"
            )
        with np.load(path) as file:
            arrays = {key: file[key] for key in file.files}
        # Stored as float32 to save space; the sampler was given these values as float64.
        arrays["X_std"] = arrays["X_std"].astype(np.float64)
        return arrays

    return load
