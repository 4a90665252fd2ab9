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
    tested = {"doc/clusters.rst": 3, "doc/thinning.rst": 1, "README.md": 1}
    assert {page: n for page, n in found.items() if n} == tested


@pytest.fixture
def distributed():
    return pytest.importorskip("distributed", reason="the extra `dask` is not installed")


HERE = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}


def test_jobs_on_a_cluster(rng, distributed):
    """A cluster of one machine finds the same posterior as no cluster."""
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + rng.logistic(size=80) > 0).astype(int)
    model = BayesianLogisticRegression("svgd", random_state=0)
    search = GridSearchCV(model, {"prior__scale": [0.3, 1.0]}, cv=3).fit(X, y)
    alone = search.best_estimator_.posterior_.particles
    *_, code = blocks("doc/clusters.rst")
    with distributed.LocalCluster(n_workers=1, **HERE) as cluster:
        code = code.replace("scheduler-address:8786", cluster.scheduler_address)
        namespace = {"search": search, "X": X, "y": y}
        exec(code, namespace)
        namespace["client"].close()
    np.testing.assert_array_equal(search.best_estimator_.posterior_.particles, alone)


def test_rows_on_one_machine(distributed, capsys):
    code, *_ = blocks("doc/clusters.rst")
    code = code.replace("threads_per_worker=1", "**HERE")
    exec(code, {"__name__": "__main__", "HERE": HERE})
    coef = re.findall(r"-?[0-9]+\.[0-9]*", capsys.readouterr().out)
    np.testing.assert_allclose(np.array(coef, dtype=float), [1.0, 0.0, 0.0], atol=0.03)


def test_rows_on_a_cluster(rng, distributed, tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"distance": rng.gamma(2.0, size=300), "hour": rng.integers(0, 24, 300)})
    frame = frame.assign(passengers=rng.poisson(np.exp(0.3 * frame.distance)), weight=1.0)
    (tmp_path / "trips").mkdir()
    for i in range(2):
        frame[150 * i : 150 * (i + 1)].to_parquet(tmp_path / f"trips/{i}.parquet")
    monkeypatch.chdir(tmp_path)
    _, code, _ = blocks("doc/clusters.rst")
    with distributed.LocalCluster(n_workers=1, **HERE) as cluster:
        namespace = {}
        exec(code.replace("scheduler-address:8786", cluster.scheduler_address), namespace)
        expected = namespace["expected"].compute()
        namespace["client"].close()
    reg, features = namespace["reg"], frame[["distance", "hour"]]
    np.testing.assert_allclose(expected, reg.predict(features))
    np.testing.assert_allclose(namespace["share"], reg.score(features, frame.passengers))


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
