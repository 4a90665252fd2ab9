"""Every engine against NUTS on counts, grades, positive outcomes and uneven or heavy-tailed noise.

Twelve reference posteriors of ``tests/data``, of eight families. Errors of means, of the 5, 50 and
95 % points of coordinates (root mean squares over coordinates, and the worst of all seeds) and
ratios of standard deviations, in units of the reference's standard deviations; how many fits warn.

Usage::

    python examples/benchmarks/family_gold.py [--engines mcmc svgd] [--seeds 0 1 2]
        [--csv doc/tables/families.csv]
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

from skstein import (
    BayesianGammaRegression,
    BayesianLinearRegression,
    BayesianNegativeBinomialRegression,
    BayesianOrdinalRegression,
    BayesianPoissonRegression,
)
from skstein.inference import ENGINES
from skstein.noise import HeteroscedasticNoise

DATA = Path(__file__).parents[2] / "tests" / "data"
COUNTS = {
    "poisson": BayesianPoissonRegression,
    "negative_binomial": BayesianNegativeBinomialRegression,
    "gamma": BayesianGammaRegression,
}
NOISE = {
    ("stackloss", "student_t"): "student-t",
    ("radon", "student_t"): "student-t",
    ("airfoil", "normal"): "heteroscedastic",
    ("airfoil", "student_t"): HeteroscedasticNoise(df="estimate"),
}
ALL = [
    *(("visits", family) for family in ("poisson", "negative_binomial")),
    *(("bicycles", family) for family in ("poisson", "negative_binomial")),
    ("diabetes", "gamma"),
    *(("grades", link) for link in ("logit", "probit")),
    ("marriage", "logit"),
    *NOISE,
]
COLUMNS = ("posterior", "engine", "mean error", "sd ratio", "quantiles", "worst quantile", "warns")


def read(file):
    with np.load(DATA / f"gold_{file}.npz") as arrays:
        return {key: arrays[key] for key in arrays.files}


def problem(name, kind):
    """Estimator without an engine, features, outcome and moments of its posterior."""
    if (name, kind) in NOISE:
        gold = read(f"{name}_noise")
        model = BayesianLinearRegression(noise=NOISE[name, kind])
        moments = [gold[f"{kind}_{key}"] for key in ("mean", "sd", "quantiles")]
        X, y = gold["X_std"], gold["y_std"]
    elif kind in ("logit", "probit"):
        gold = read(f"{name}_{kind}_ordinal")
        model = BayesianOrdinalRegression(link=kind)
        moments = [gold[key] for key in ("mean", "sd", "coordinates")]
        X, y = gold["X_std"], gold["y"]
    else:
        gold = read("outcomes")
        model = COUNTS[kind]()
        moments = [gold[f"{name}/{kind}/{key}"] for key in ("mean", "sd", "quantiles")]
        if name == "diabetes":
            X, y = load_diabetes(return_X_y=True)
            X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
        else:
            X, y = gold[f"{name}/X"], gold[f"{name}/y"]
    return model.set_params(standardize=False), X.astype(float), y, moments


def errors(model, X, y, moments):
    """Of means (dim,), quantiles (3, dim), the ratios of standard deviations, and if it warns."""
    mean, sd, quantiles = moments
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = model.fit(X, y).posterior_
    found = posterior.quantile([0.05, 0.5, 0.95])
    off = (posterior.mean() - mean) / sd, (found - quantiles) / sd
    return *off, posterior.std() / sd, len(caught) > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    arguments = parser.parse_args()
    table = [COLUMNS]
    for name, kind in ALL:
        model, *data = problem(name, kind)
        for engine in arguments.engines:
            runs = [
                errors(model.set_params(inference=engine, random_state=seed), *data)
                for seed in arguments.seeds
            ]
            mean, quantiles, ratio, warned = (np.array(part) for part in zip(*runs, strict=True))
            label = f"{name}, {kind.replace('_', ' ')} ({mean.shape[1]})"
            numbers = (
                np.mean(np.sqrt(np.mean(mean**2, axis=1))),
                ratio.mean(),
                np.mean(np.sqrt(np.mean(quantiles**2, axis=(1, 2)))),
                np.abs(quantiles).max(),
            )
            row = label, engine, *(f"{number:.3f}" for number in numbers), str(warned.sum())
            print("{:32}{:14}{:>8}{:>8}{:>8}{:>8}{:>4}".format(*row), flush=True)
            table.append(row)
            if arguments.csv:
                with arguments.csv.open("w", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(table)


if __name__ == "__main__":
    main()
