"""What a fit costs, in numbers that do not depend on the machine.

A budget is what was counted when it was set and a quarter more. A change that needs more says why.
"""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from sklearn.base import clone

from skstein import BayesianLogisticRegression, StochasticVolatility
from skstein.inference import PMFVB
from skstein.outcomes import Bernoulli
from skstein.priors import Normal

ROOT = Path(__file__).parents[1]


@pytest.fixture
def passes(monkeypatch):
    """Passes over the rows, counted: how many, and gradients and values of one particle in them."""
    counted = {"passes": 0.0, "gradients": 0.0, "values": 0.0}
    terms = Bernoulli.terms

    def counting(self, eta, y, weights, value, score):
        share = len(y) / N_ROWS  # of a block
        counted["passes"] += share
        counted["gradients" if score else "values"] += share * len(eta[0])
        return terms(self, eta, y, weights, value, score)

    monkeypatch.setattr(Bernoulli, "terms", counting)
    return counted


N_ROWS = 569
# Passes, gradients and values of breast cancer (569 rows, 31 coordinates).
BUDGETS = {
    "mcmc": (2100, 18_000, 3700),
    "svgd": (150, 25_000, 3700),
    "fwss": (4500, 5000, 3900),
    "pmfvb": (225, 42_000, 3700),
}


@pytest.mark.parametrize("engine", BUDGETS)
def test_passes_over_the_rows(engine, passes, gold):
    arrays = gold("breast_cancer_logistic")
    prior = Normal(float(arrays["prior_sd"]))
    options = {"prior": prior, "intercept_prior": prior, "standardize": False}
    model = BayesianLogisticRegression(engine, random_state=0, **options)
    model.fit(arrays["X_std"].astype(float), arrays["y"])
    for found, budget in zip(passes.values(), BUDGETS[engine], strict=True):
        assert found <= budget


COMPILED = """
import json
import numpy as np
from skstein import BayesianLogisticRegression
from skstein._jit._compile import DISPATCHERS

X = np.random.default_rng(0).normal(size=(200, 3))
counts = {}
for engine in ("mcmc", "svgd", "pmfvb", "fwss"):
    BayesianLogisticRegression(engine, random_state=0).fit(X, X[:, 0] > X[:, 1]).predict_proba(X)
    counts[engine] = sum(len(d.signatures) for d in DISPATCHERS)
print(json.dumps(counts))
"""


@pytest.mark.slow
def test_routines_compiled_for_a_first_fit(tmp_path):
    """Four that balance the points of MCMC and PMFVB, and two of the drift of FWSS."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILED],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts == {"mcmc": 4, "svgd": 4, "pmfvb": 4, "fwss": 6}


def peak(function):
    """Most bytes held at a time beyond those before."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_of_a_default_fit(rng):
    """A few copies of the design, and all draws with their scores."""
    X = rng.normal(size=(5000, 20))
    y = X[:, 0] + rng.logistic(size=5000) > 0
    model = BayesianLogisticRegression(random_state=0)
    clone(model).fit(X[:50, :2], y[:50])  # compiling takes memory, too
    assert peak(lambda: model.fit(X, y)) < 30 * X.nbytes


def test_memory_of_a_long_series(rng):
    """By the time step: the points and a few states of 200 particles, not all that are pooled."""
    returns, engine = rng.normal(size=250), PMFVB(n_points=400)
    model = StochasticVolatility(engine, random_state=0)
    assert peak(lambda: model.fit(returns)) < 200_000 * len(returns)
