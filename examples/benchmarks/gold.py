"""Every engine against every gold posterior.

For each pair the table gives the error of the posterior mean (root mean square over coordinates and
worst coordinate, in gold standard deviations), the ratio of standard deviations (mean, least,
greatest), the error of the 5, 50 and 95 % points of coordinates (root mean square and worst) and of
linear combinations of them, the log predictive density of held-out rows (of a second fit on the
other rows), the warnings raised, and the processor seconds of the fit, the least over seeds.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/gold.py --engines pmd fwss --seeds 0 1 2
        [--csv doc/tables/engines.csv]

SKSTEIN_DATA names a folder with ``gold/*.npz`` and ``gold/quantiles/*.npz``; without it the
posteriors of ``tests/data`` are used, of which no quantiles are known.
"""

import argparse
import csv
import os
import time
import warnings
from pathlib import Path

import numpy as np

from skstein import BayesianLinearRegression, BayesianLogisticRegression, BayesianProbitRegression
from skstein.inference import ENGINES
from skstein.posterior import weighted_quantile
from skstein.priors import Normal
from skstein.targets import LinearTarget, LogisticTarget, ProbitTarget, SoftmaxTarget

LEVELS = np.array([0.05, 0.5, 0.95])
LOCAL = Path(__file__).parents[2] / "tests" / "data"
NAMES = (
    "synthetic4_logistic",
    "breast_cancer_logistic",
    "german_logistic",
    "covertype5k_logistic",
    "mnist8v6pca50_logistic",
    "diabetes_linear",
    "wine_softmax",
    "digits_softmax",
    "synthetic4_probit",
    "breast_cancer_probit",
    "german_probit",
    "covertype5k_probit",
    "mnist8v6pca50_probit",
)
KINDS = {
    "logistic": (BayesianLogisticRegression, LogisticTarget),
    "softmax": (BayesianLogisticRegression, SoftmaxTarget),
    "probit": (BayesianProbitRegression, ProbitTarget),
    "linear": (BayesianLinearRegression, LinearTarget),
}


def load(name):
    """The gold posterior as a dict, from SKSTEIN_DATA or tests/data; None where it is absent."""
    folder = os.environ.get("SKSTEIN_DATA")
    candidates = [LOCAL / f"gold_{name}.npz"]
    if folder:
        candidates.insert(0, Path(folder) / "gold" / f"{name}.npz")
    for path in candidates:
        if path.exists():
            with np.load(path) as file:
                gold = {key: file[key] for key in file.files}
            gold["X_std"] = gold["X_std"].astype(float)
            return gold
    return None


def kind_of(name):
    """Estimator and target of a gold posterior."""
    return KINDS[name.rsplit("_", 1)[1]]


def model_of(name, gold, engine, seed):
    """The estimator whose posterior the gold file holds."""
    prior = Normal(float(gold["prior_sd"]))
    own = {"noise_shape": 1.0, "noise_scale": 1.0} if name.endswith("linear") else {}
    options = {"standardize": False, "random_state": seed, **own}
    return kind_of(name)[0](engine, prior=prior, intercept_prior=prior, **options)


def accuracy(posterior, gold):
    """Error of the mean and ratio of standard deviations, each of shape (dim,)."""
    particles = posterior.particles
    mean, sd = gold["mean"], gold["sd"]
    if posterior.names[-1] == "log_sigma2":
        particles = np.column_stack([particles[:, :-1], np.exp(particles[:, -1])])
        mean, sd = gold["exact_mean"], np.sqrt(np.diag(gold["exact_cov"]))
    ours = posterior.weights @ particles
    spread = np.sqrt(posterior.weights @ (particles - ours) ** 2)
    return (ours - mean) / sd, spread / sd


def quantile_errors(posterior, name, gold):
    """Errors of the 5, 50 and 95 % points of coordinates (3, dim) and combinations (3, k), or None.

    In standard deviations; a noise variance is left out.
    """
    path = Path(os.environ.get("SKSTEIN_DATA", "")) / "gold" / "quantiles" / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        levels = np.searchsorted(file["probabilities"], LEVELS)
        n_coef = len(file["directions"])
        particles = posterior.particles[:, :n_coef]
        directions = np.hstack([np.eye(n_coef), file["directions"]])
        expected = np.hstack([file["coordinates"][levels, :n_coef], file["predictors"][levels]])
    covariance = gold["cov"][:n_coef, :n_coef]
    sd = np.sqrt(np.einsum("ij,ik,kj->j", directions, covariance, directions))
    found = weighted_quantile(particles @ directions, posterior.weights, LEVELS)
    return np.split((found - expected) / sd, [n_coef], axis=1)


def held_out(name, gold, engine, seed):
    """Mean log predictive density of rows that the fit has not seen."""
    X, y = gold["X_std"], gold["y"]
    if "X_test" in gold:
        X_test, y_test = gold["X_test"].astype(float), gold["y_test"]
    else:
        order = np.random.default_rng(0).permutation(len(y))
        test, train = order[: len(y) // 5], order[len(y) // 5 :]
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    model = model_of(name, gold, engine, seed).fit(X, y)
    return model.log_predictive(X_test, y_test).mean()


def run(name, gold, engine, seed, predictive=True):
    """One row of the table, as a dict."""
    model = model_of(name, gold, engine, seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model.fit(gold["X_std"], gold["y"])
        seconds = time.process_time() - start
    error, ratio = accuracy(model.posterior_, gold)
    quantiles = quantile_errors(model.posterior_, name, gold)
    coordinates, combinations = ([np.nan], [np.nan]) if quantiles is None else quantiles
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log_predictive = held_out(name, gold, engine, seed) if predictive else np.nan
    return {
        "mean_error": np.sqrt(np.mean(error**2)),
        "worst": np.abs(error).max(),
        "sd": ratio.mean(),
        "sd_min": ratio.min(),
        "sd_max": ratio.max(),
        "sd_5": np.quantile(ratio, 0.05),
        "sd_95": np.quantile(ratio, 0.95),
        "quantiles": np.sqrt(np.mean(np.square(coordinates))),
        "worst_quantile": np.max(np.abs(coordinates)),
        "combinations": np.sqrt(np.mean(np.square(combinations))),
        "log_predictive": log_predictive,
        "warnings": [str(w.message) for w in caught],
        "seconds": seconds,
    }


COLUMNS = (
    "posterior",
    "engine",
    "mean error",
    "worst",
    "sd ratio",
    "quantiles",
    "worst quantile",
    "combinations",
    "time",
    "warns",
)


def shortened(name, dim, engine, row, default):
    """A row of the documentation's table; times are relative to those of the default engine."""
    data, kind = name.rsplit("_", 1)
    keys = ("mean_error", "worst", "sd", "quantiles", "worst_quantile", "combinations")
    numbers = [f"{row[key]:.3f}" for key in keys]
    relative = f"{row['seconds'] / default:.1f}" if default else ""
    label = f"{data.replace('_', ' ')}, {kind} ({dim})"
    return [label, engine, *numbers, relative, "yes" if row["warnings"] else "no"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES))
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--no-predictive", action="store_true", help="skip the held-out fits")
    parser.add_argument("--each-seed", action="store_true", help="print a row for every seed too")
    parser.add_argument("--csv", type=Path, help="write a shorter table to this file")
    arguments = parser.parse_args()
    table = []
    print(
        f"{'posterior':24}{'engine':10}{'seed':>5}{'mean err':>9}{'worst':>7}{'sd':>6}"
        f"{'[min':>7}{'5%':>6}{'95%':>6}{'max]':>6}{'q':>6}{'worst':>6}{'lin':>6}{'log pred':>10}"
        f"{'warned':>7}{'seconds':>8}"
    )
    for name in arguments.names:
        gold = load(name)
        if gold is None:
            print(f"{name:24}absent: set SKSTEIN_DATA to a folder that holds gold/{name}.npz")
            continue
        found = {}
        for engine in arguments.engines:
            rows = [
                run(name, gold, engine, seed, not arguments.no_predictive)
                for seed in arguments.seeds
            ]
            if arguments.each_seed:
                for seed, row in zip(arguments.seeds, rows, strict=True):
                    print_row(name, engine, seed, row)
            summary = {
                key: np.mean([row[key] for row in rows]) for key in rows[0] if key != "warnings"
            }
            summary["warnings"] = [text for row in rows for text in row["warnings"]]
            summary["seconds"] = min(row["seconds"] for row in rows)
            found[engine] = summary
            print_row(name, engine, "mean", summary)
            for text in sorted(set(summary["warnings"])):
                print(f"    {text[:300]}")
        default = found["mcmc"]["seconds"] if "mcmc" in found else None
        dim = len(gold["mean"])
        table += [shortened(name, dim, engine, row, default) for engine, row in found.items()]
        if arguments.csv:
            with arguments.csv.open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *table])


def print_row(name, engine, seed, row):
    print(
        f"{name:24}{engine:10}{seed:>5}{row['mean_error']:9.3f}{row['worst']:7.3f}{row['sd']:6.3f}"
        f"{row['sd_min']:7.2f}{row['sd_5']:6.2f}{row['sd_95']:6.2f}{row['sd_max']:6.2f}"
        f"{row['quantiles']:6.3f}{row['worst_quantile']:6.2f}{row['combinations']:6.3f}"
        f"{row['log_predictive']:10.4f}{len(row['warnings']):7d}{row['seconds']:8.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
