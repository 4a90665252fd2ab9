"""A routine is compiled once: not by importing the package, not again in a later process, and
not for a second set of argument types.

Each claim is about a fresh process, so each is measured in one. All share the cache of the tests:
what one of them compiles, the others need not.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

REPORT = """
import importlib, json, pkgutil, sys
import skstein._jit
from numba.core.dispatcher import Dispatcher

def report():
    found = {}
    for info in pkgutil.walk_packages(skstein._jit.__path__, "skstein._jit."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher) and value.__module__ == info.name:
                part = value.targetoptions.get("no_cpython_wrapper")  # cached within routines
                found[f"{info.name}.{name}"] = {
                    "signatures": [str(s) for s in value.signatures],
                    "cached": part or value.stats.cache_path is not None,
                    "misses": sum(value.stats.cache_misses.values()),
                    "hits": sum(value.stats.cache_hits.values()),
                }
    print(json.dumps(found))
"""

OPTIONAL = ["arviz", "dask", "matplotlib", "pandas"]

# Each layout and type of X would be a signature of its own if it reached a compiled routine as it
# is. Estimators convert X before any engine sees it, so one engine, the fastest, is given them all,
# and all outcomes.
USE = """
import warnings
import numpy as np
from skstein import BayesianLinearRegression, BayesianLogisticRegression
from skstein.inference import ENGINES

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
noise = rng.normal(size=30)
outcomes = {
    "linear": X[:, 0] + noise,
    "binary": (X[:, 0] + noise > 0).astype(int),
    "classes": np.digitize(X[:, 0] + noise, [-0.5, 0.5]),
}
layouts = [X, np.asfortranarray(X), X.astype(np.float32), X[:, ::-1]]

def use(estimator, X, y):
    estimator.fit(X, y)
    estimator.predict(X)
    if hasattr(estimator, "predict_proba"):
        estimator.predict_proba(X)
    else:
        estimator.predict(X, return_std=True)
    if estimator.posterior_.scores is not None:
        estimator.posterior_.ksd()

for problem, y in outcomes.items():
    Estimator = BayesianLinearRegression if problem == "linear" else BayesianLogisticRegression
    for name, Engine in ENGINES.items():
        if name == "laplace" or problem == "binary":
            for layout in layouts if name == "laplace" else [X]:
                use(Estimator(inference=Engine(n_particles=12), random_state=0), layout, y)
"""


def run(code):
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def after_import():
    return run(f"import skstein\n{REPORT}\nreport()")


@pytest.fixture(scope="module")
def two_runs():
    """Reports of two processes doing the same work, the second with what the first one cached."""
    return [run(f"{REPORT}\n{USE}\nreport()") for _ in range(2)]


def test_importing_compiles_nothing(after_import):
    assert after_import
    assert {name: r["signatures"] for name, r in after_import.items() if r["signatures"]} == {}


def test_every_routine_is_cached_on_disk(after_import):
    assert [name for name, r in after_import.items() if not r["cached"]] == []


def test_an_estimator_loads_no_numba_and_a_display_no_optional_dependency():
    """Numba would double the time of an import; a fit may load it."""
    loaded = run(f"""
import sys, json
import joblib, scipy, sklearn.base, sklearn.utils
before = set(sys.modules)
from skstein import BayesianLogisticRegression
BayesianLogisticRegression()
import skstein.plotting
print(json.dumps([name for name in {[*OPTIONAL, "numba"]} if name in set(sys.modules) - before]))
""")
    assert loaded == []


def test_a_second_process_compiles_nothing(two_runs):
    second = two_runs[1]
    assert {name: r["misses"] for name, r in second.items() if r["misses"]} == {}
    assert sum(r["hits"] for r in second.values()) > 0


def test_each_routine_has_at_most_one_signature(two_runs):
    several = {n: r["signatures"] for n, r in two_runs[0].items() if len(r["signatures"]) > 1}
    assert several == {}
