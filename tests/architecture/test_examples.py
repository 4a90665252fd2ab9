"""Examples compile, and what they import from this package exists; building the docs runs them.

What the build leaves out is tested here: the reading of data that would have to be fetched.
"""

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_compiles_and_imports_what_exists(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), path.name)
    compile(tree, path.name, "exec")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skstein":
            module = importlib.import_module(node.module)
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            assert not missing, f"{node.module} has no {', '.join(missing)}"


def test_gallery_is_found():
    assert any(path.name.startswith("plot_") for path in EXAMPLES)


# Data that are fetched.


def definitions(name):
    """Functions of an example, which is not run."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"), name)
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    body = [node for node in tree.body if isinstance(node, kept)]
    namespace = {}
    exec(compile(ast.Module(body, []), name, "exec"), namespace)
    return namespace


def test_fetched_credit(monkeypatch, rng):
    """The fetched applicants, of which a few are drawn here, suit the story's model."""
    pd = pytest.importorskip("pandas")
    n = 60
    frame = pd.DataFrame(
        {
            "checking_status": pd.Categorical(rng.choice(["<0", "no checking"], n)),
            "duration": rng.integers(4, 72, n).astype(float),
            "personal_status": pd.Categorical(rng.choice(["male single", "female"], n)),
        }
    )
    outcome = pd.Series(pd.Categorical(np.resize(["good", "bad", "good"], n)), name="class")

    def fetch_openml(name, *, version, return_X_y, as_frame):
        assert (name, version, return_X_y, as_frame) == ("credit-g", 1, True, True)
        return frame, outcome

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    story = definitions("decisions/plot_credit.py")
    X, bad = story["fetch"]()
    assert list(X.columns) == ["checking_status", "duration"]
    np.testing.assert_array_equal(bad, np.resize([False, True, False], n))
    proba = story["make_model"]().fit(X, bad).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_fetched_forest(monkeypatch, rng):
    """Columns 10 to 13 of the 54 are the wilderness area; the second of seven trees is a pine."""
    area, tree = rng.integers(0, 4, 50), rng.integers(1, 8, 50)
    X = rng.normal(size=(50, 54))
    X[:, 10:14] = np.eye(4)[area]

    def fetch_covtype(*, return_X_y):
        assert return_X_y
        return X, tree

    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", fetch_covtype)
    measured, found_area, pine = definitions("streams/plot_drift.py")["fetch"]()
    np.testing.assert_array_equal(measured, X[:, :10])
    np.testing.assert_array_equal(found_area, area)
    np.testing.assert_array_equal(pine, tree == 2)
