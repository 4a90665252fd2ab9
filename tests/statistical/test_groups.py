"""Random effects against NumPyro's NUTS (`tests/data/README.md`)."""

import importlib.util
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skstein import BayesianLinearRegression, BayesianLogisticRegression, BayesianPoissonRegression

ROOT = Path(__file__).parents[2]


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fitted(name, engine):
    X, y, family, groupings = loaded(
        ROOT / "examples" / "benchmarks" / "make_group_gold.py"
    ).problems()[name]
    Estimator = {
        "normal": BayesianLinearRegression,
        "binary": BayesianLogisticRegression,
        "counts": BayesianPoissonRegression,
    }[family]
    effects = {X.shape[1] + j: slopes for j, (_, slopes) in enumerate(groupings)}
    model = Estimator(engine, random_effects=effects, standardize=False, random_state=0)
    return model.fit(np.column_stack([X, *(codes for codes, _ in groupings)]), y)


@pytest.mark.parametrize("engine", ["pmfvb", "mcmc", "ksd-mcmc", "svgd", "fwss"])
@pytest.mark.parametrize(
    "name",
    [
        "radon_intercepts",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("radon_slopes", "radon_uranium", "crossed", "counts", "many")
        ),
    ],
)
def test_gold(name, engine):
    few = name == "many" and engine in ("svgd", "fwss")  # 1500 particles of 3005 coordinates
    with pytest.warns(ConvergenceWarning, match="fewer than two") if few else nullcontext():
        posterior = fitted(name, engine).posterior_
    with np.load(ROOT / "tests" / "data" / f"gold_groups_{name}.npz") as gold:
        mean, sd, quantiles = gold["mean"], gold["sd"], gold["quantiles"]
    error = (posterior.mean() - mean) / sd
    assert np.sqrt(np.mean(error**2)) < 0.035
    assert 0.97 < np.mean(posterior.std() / sd) < 1.03
    # That of the gold posterior is part of it, and the others keep fewer points.
    error = (posterior.quantile([0.05, 0.5, 0.95]) - quantiles) / sd
    assert np.sqrt(np.mean(error**2)) < (0.06 if engine in ("mcmc", "pmfvb") else 0.13)


@pytest.mark.parametrize("engine", ["svgd", "fwss"])
def test_a_group_for_each_row_is_warned_of(engine):
    """The 5 % point of the groups' spread is 0.6 standard deviations off."""
    rng, n = np.random.default_rng(0), 20
    X = rng.normal(size=(n, 1))
    y = 10.0 * (X[:, 0] + 1.5 * rng.normal(size=n) + 0.5 * rng.normal(size=n))
    model = BayesianLinearRegression(engine, random_effects=[1], random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(np.column_stack([X, np.arange(n)]), y)
