"""Fits saved by this and earlier versions: they predict what they did, and tell their version."""

import copy
import pickle
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

import skstein
from skstein import BayesianLinearRegression, LatentDirichletAllocation

FOLDER = Path(__file__).parent / "data"
FILES = sorted(FOLDER.glob("fits_*.pickle"))


def test_this_version_has_its_file():
    assert f"fits_{skstein.__version__}.pickle" in [path.name for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_saved_fit_predicts_what_it_did(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fits = pickle.loads(path.read_bytes())
    warned = [w for w in caught if issubclass(w.category, InconsistentVersionWarning)]
    same = path.stem == f"fits_{skstein.__version__}"
    assert len(warned) == (0 if same else len(fits))
    for estimator, method, X, expected in fits:
        # Networks compute in single precision, which differs between machines.
        assert_allclose(getattr(estimator, method)(X), expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")  # fits of this size do not converge
def test_every_estimator_comes_back():
    """What `write_pickles.py` saves once a version, and what it cannot have saved yet."""
    fits = runpy.run_path(str(FOLDER / "write_pickles.py"))["fits"]()
    for estimator, method, X, expected in fits:
        again = pickle.loads(pickle.dumps(estimator))
        assert_array_equal(getattr(again, method)(X), expected)
        assert clone(again).get_params().keys() == estimator.get_params().keys()


@pytest.mark.parametrize("Estimator", [BayesianLinearRegression, LatentDirichletAllocation])
def test_another_version_warns(Estimator, monkeypatch):
    estimator = Estimator(random_state=3)
    monkeypatch.setattr(skstein, "__version__", "0.0.1")
    saved = pickle.dumps(estimator)
    monkeypatch.undo()
    with pytest.warns(InconsistentVersionWarning) as caught:
        restored = pickle.loads(saved)
    assert restored.random_state == 3
    assert str(caught[0].message).startswith(
        f"{Estimator.__name__} was saved by skstein 0.0.1 and is loaded by {skstein.__version__}"
    )
    assert caught[0].message.original_skstein_version == "0.0.1"


def test_a_pickle_without_a_version_warns():
    estimator = BayesianLinearRegression()
    state = estimator.__getstate__()
    del state["_skstein_version"]
    with pytest.warns(InconsistentVersionWarning, match=r"before 0\.1\.0"):
        estimator.__setstate__(state)


def test_copies_carry_no_version():
    X, y = np.eye(3), np.arange(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = BayesianLinearRegression("laplace", random_state=0).fit(X, y)
    for other in (copy.copy(estimator), copy.deepcopy(estimator), clone(estimator)):
        assert "_skstein_version" not in vars(other)
