"""Code that the documentation shows runs: doctests by pytest itself, all other blocks here.

A block is run as it is printed, among stand-ins for what its page cannot have at hand: a cluster, a
compiled model. A block without an entry below fails, so that a new one is a doctest or is named.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skstein import BayesianLogisticRegression
from skstein.thinning import OnlineKSDThinner

ROOT = Path(__file__).parents[2]
DIRECTIVE = re.compile(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", re.MULTILINE)
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(name):
    """Python blocks of a page that are not doctests."""
    text = (ROOT / name).read_text(encoding="utf-8")
    pattern = FENCE if name.endswith(".md") else DIRECTIVE
    return [re.sub(r"^   ", "", code, flags=re.MULTILINE) for code in pattern.findall(text)]


def test_every_block_has_a_test():
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / "doc").rglob("*.rst")]
    pages = [page for page in pages if "generated" not in page and "_build" not in page]
    found = {page: len(blocks(page)) for page in [*pages, "README.md"]}
    tested = {"doc/clusters.rst": 1, "doc/thinning.rst": 1, "README.md": 1}
    assert {page: n for page, n in found.items() if n} == tested


def test_dask(rng):
    """A cluster of one machine finds the same posterior as no cluster."""
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + rng.logistic(size=80) > 0).astype(int)
    model = BayesianLogisticRegression("svgd", random_state=0)
    search = GridSearchCV(model, {"prior__scale": [0.3, 1.0]}, cv=3).fit(X, y)
    alone = search.best_estimator_.posterior_.particles
    (code,) = blocks("doc/clusters.rst")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        code = code.replace("scheduler-address:8786", cluster.scheduler_address)
        namespace = {"search": search, "X": X, "y": y}
        exec(code, namespace)
        namespace["client"].close()
    np.testing.assert_array_equal(search.best_estimator_.posterior_.particles, alone)


class StanModel:
    """What a BridgeStan model answers for log sigma ~ N(0, 1), sigma being reported."""

    def param_unconstrain(self, theta):
        return np.log(theta)

    def log_density_gradient(self, theta):
        """The gradient is in a buffer that the next call writes to."""
        self.gradient = getattr(self, "gradient", np.empty(1))
        self.gradient[:] = -theta
        return -0.5 * float(theta @ theta), self.gradient


def test_scores_from_stan(rng):
    constrained = np.exp(rng.normal(size=(30, 1)))
    (code,) = blocks("doc/thinning.rst")
    namespace = {"np": np, "model": StanModel(), "constrained": constrained}
    exec(code, namespace)
    draws = namespace["draws"]
    np.testing.assert_allclose(draws, np.log(constrained))
    np.testing.assert_allclose(namespace["scores"](draws), -draws)
    # 30 draws say too little of their density for `fit`, which compares moments.
    thinner = OnlineKSDThinner(10).partial_fit(draws, namespace["scores"])
    assert thinner.samples_.shape == (10, 1)


def test_the_readme_prints_what_it_says(capsys):
    """But for the last digit, which another version of a library may change."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (_, code), (_, said), *_ = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(code, {})
    printed = capsys.readouterr().out
    found, expected = (np.array(re.findall(r"\d+", part), dtype=int) for part in (printed, said))
    np.testing.assert_allclose(found, expected, atol=1)
