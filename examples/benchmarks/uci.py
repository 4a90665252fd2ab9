"""Regression on UCI tables with the standard splits: RMSE, log likelihood, CRPS and coverage.

The splits are those of Hernandez-Lobato & Adams (2015), 90 % of the rows to train on. ``ours`` is
`BayesianMLPRegressor` as it is by default; the other engines by name; ``sklearn`` an ensemble of
twenty `MLPRegressor` whose common noise variance is that of 10 % of the rows held out from another
such ensemble; ``gp`` is `GaussianProcessRegressor` with one length scale a feature, up to 2000
rows. On wine, whose grades are whole numbers and whose rows repeat, a density means little, and the
CRPS says more.

Every finished split is a row of the CSV file; a run leaves out what is there already, so that it
can be stopped at any time. With ``--validate`` nothing is tested: of the training rows of a split a
tenth is held out, which is how settings are chosen (``--set max_iter=100``). ``--table`` prints the
means; ``--csv`` writes those of all methods in the form of the documentation's table.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/uci.py uci.csv [--sets boston yacht]
        [--methods ours sklearn] [--splits 5]
    python examples/benchmarks/uci.py uci.csv --table
    python examples/benchmarks/uci.py examples/results/networks.csv --csv doc/tables/networks.csv

SKSTEIN_DATA names a folder with ``data/uci_*.npz``.
"""

import argparse
import ast
import csv
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import BayesianLinearRegression, BayesianMLPRegressor, predictive
from skstein.metrics import crps_normal_mixture

SETS = ["boston", "yacht", "energy", "concrete", "wine", "power", "kin8nm", "naval", "protein"]
SCORES = ["rmse", "log_likelihood", "crps", "coverage", "seconds", "n_warnings"]
FIELDS = ["set", "method", "split", *SCORES]
TITLES = {"ours": "mcmc", "sklearn": "20 of scikit-learn", "gp": "Gaussian process"}
PEERS = ("sklearn", "gp")
LARGEST_GP = 2000  # rows
# Mean test log likelihoods of Stein variational gradient descent, Liu & Wang (2016), table 1;
# probabilistic back-propagation, Hernandez-Lobato & Adams (2015), table 2; dropout run to
# convergence, results of the repository yaringal/DropoutUncertaintyExps; deep ensembles,
# Lakshminarayanan et al. (2017), table 1; EasyUQ, results of the repository evwalz/easyuq.
PUBLISHED = {
    "boston": (-2.50, -2.57, -2.40, -2.41, -2.83),
    "concrete": (-3.08, -3.16, -2.94, -3.06, -3.04),
    "energy": (-1.77, -2.04, -1.21, -1.38, -0.79),
    "kin8nm": (0.98, 0.90, 1.14, 1.20, 1.05),
    "naval": (4.09, 3.73, 4.45, 5.63, 6.51),
    "power": (-2.82, -2.84, -2.81, -2.79, -2.77),
    "protein": (-2.95, -2.97, -2.87, -2.83, -2.48),
    "wine": (-0.93, -0.97, -0.93, -0.94, -0.48),
    "yacht": (-1.23, -1.63, -1.25, -1.18, -1.36),
}


def table(name):
    """The arrays of a set."""
    path = Path(os.environ.get("SKSTEIN_DATA", ".")) / "data" / f"uci_{name}.npz"
    if not path.exists():
        sys.exit(f"no {path}: set SKSTEIN_DATA to a folder with data/uci_*.npz")
    with np.load(path) as file:
        return dict(file)


def load(name, split, validate):
    """Training and test rows of a split, or of its training rows nine tenths and one."""
    arrays = table(name)
    if split >= len(arrays["train_index"]):
        return None
    X, y = arrays["X"], arrays["y"]
    train, test = (arrays[key][split].astype(int) for key in ("train_index", "test_index"))
    if validate:
        order = np.random.default_rng(1000 + split).permutation(train)
        test, train = np.split(order, [len(order) // 10])
    return X[train], y[train], X[test], y[test]


def ours(name, split, **options):
    return BayesianMLPRegressor(**{"random_state": split} | options)


class SklearnEnsemble:
    """Twenty `MLPRegressor`, with a noise variance from rows held out."""

    def __init__(self, name, split):
        self.size = 100 if name == "protein" else 50
        self.split = split

    def _members(self, X, y):
        members = [
            make_pipeline(
                StandardScaler(),
                MLPRegressor(
                    hidden_layer_sizes=(self.size,),
                    alpha=1e-3,
                    max_iter=500,
                    random_state=20 * self.split + i,
                ),
            )
            for i in range(20)
        ]
        return [member.fit(X, y) for member in members]

    def fit(self, X, y):
        self.center, self.scale = y.mean(), y.std()
        z = (y - self.center) / self.scale
        out, kept = np.split(np.random.default_rng(self.split).permutation(len(y)), [len(y) // 10])
        held = np.mean([m.predict(X[out]) for m in self._members(X[kept], z[kept])], axis=0)
        self.noise = self.scale**2 * np.mean((held - z[out]) ** 2)
        self.members = self._members(X, z)
        return self

    def predict(self, X, return_std=True):
        each = self.center + self.scale * np.stack([m.predict(X) for m in self.members])
        return each.mean(axis=0), np.sqrt(each.var(axis=0) + self.noise)


class GaussianProcess:
    """`GaussianProcessRegressor` on standardised features."""

    def __init__(self, name, split):
        self.split = split

    def fit(self, X, y):
        kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(
            0.1, noise_level_bounds=(1e-8, 10)
        )
        self.model = make_pipeline(
            StandardScaler(),
            GaussianProcessRegressor(
                kernel, normalize_y=True, n_restarts_optimizer=1, random_state=self.split
            ),
        ).fit(X, y)
        return self

    def predict(self, X, return_std=True):
        return self.model.predict(X, return_std=True)


def evaluate(method, name, split, data, settings):
    X, y, X_test, y_test = data
    if method == "sklearn":
        model = SklearnEnsemble(name, split)
    elif method == "gp":
        model = GaussianProcess(name, split)
    elif method == "linear":
        model = BayesianLinearRegression(random_state=split)
    elif method == "ours":
        model = ours(name, split, **settings)
    else:
        model = ours(name, split, inference=method, **settings)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    seconds = time.process_time() - start
    mean, std = model.predict(X_test, return_std=True)
    if method not in PEERS:
        log_likelihood = model.log_predictive(X_test, y_test)
        low, high = model.predict_interval(X_test, 0.9).T
        crps = predictive(model, X_test).crps(y_test).mean()
    else:
        log_likelihood = norm.logpdf(y_test, mean, std)
        low, high = norm.interval(0.9, mean, std)
        crps = crps_normal_mixture(y_test, mean[:, None], std[:, None])
    return {
        "rmse": np.sqrt(np.mean((mean - y_test) ** 2)),
        "log_likelihood": log_likelihood.mean(),
        "crps": crps,
        "coverage": np.mean((low <= y_test) & (y_test <= high)),
        "seconds": seconds,
        "n_warnings": len(caught),
    }


def read(path):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path, row):
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def parsed(settings):
    """Values of ``NAME=VALUE``."""
    values = {}
    for item in settings:
        key, _, value = item.partition("=")
        try:
            values[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            values[key] = value
    return values


def print_table(rows):
    print(f"{'set':9}{'method':22}{'splits':>6}{'RMSE':>22}{'log likelihood':>18}", end="")
    print(f"{'CRPS':>10}{'cover':>7}{'seconds':>9}   SVGD  PBP  dropout  deep ensembles  EasyUQ")
    coverage = {}
    for name in SETS:
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [r for r in rows if r["set"] == name and r["method"] == method]
            if not own:
                continue
            keys = ("rmse", "log_likelihood", "coverage", "seconds", "crps")
            table = np.array([[float(row.get(key) or np.nan) for key in keys] for row in own])
            mean = table.mean(axis=0)
            error = table.std(axis=0, ddof=min(1, len(own) - 1)) / np.sqrt(len(own))
            coverage.setdefault(method, []).append(mean[2])
            print(f"{name:9}{method:22}{len(own):6}", end="")
            print(f"{mean[0]:13.4g} +- {error[0]:5.2g}{mean[1]:10.3f} +- {error[1]:.3f}", end="")
            print(f"{mean[4]:10.3g}{mean[2]:7.3f}{mean[3]:9.1f}", end="   ")
            print("  ".join(map(str, PUBLISHED[name])))
    for method, values in coverage.items():
        print(f"coverage of {method}: {np.mean(values):.3f} over {len(values)} sets")


def write_csv(rows, path):
    """A row for every set: log likelihood and, in round brackets, RMSE of every method.

    Of the splits that all engines of ours are through with; a peer may have fewer, then their
    number follows in square brackets.
    """
    methods = list(dict.fromkeys(row["method"] for row in rows))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["", "splits", *(TITLES.get(method, method) for method in methods)])
        for name in SETS:
            found = {method: {} for method in methods}
            for row in rows:
                if row["set"] == name:
                    found[row["method"]][row["split"]] = row
            common = set.intersection(*(set(found[m]) for m in methods if m not in PEERS))
            cells = []
            for method in methods:
                own = [row for split, row in found[method].items() if split in common]
                keys = ("log_likelihood", "rmse") if own else ()
                mean = [np.mean([float(row[key]) for row in own]) for key in keys]
                few = f" [{len(own)}]" if len(own) < len(common) else ""
                cells.append("{:.2f} ({:#.3g})".format(*mean) + few if own else "")
            if common:
                writer.writerow([name, len(common), *cells])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--methods", nargs="+", default=["ours"])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--csv", type=Path, dest="summary", metavar="FILE")
    args = parser.parse_args()
    settings = parsed(args.settings)
    if args.summary:
        return write_csv(read(args.csv), args.summary)
    if args.table:
        return print_table(read(args.csv))
    suffix = "".join(f" {item}" for item in args.settings) + " (validation)" * args.validate
    done = {(row["set"], row["method"], row["split"]) for row in read(args.csv)}
    for name in args.sets:
        for method in args.methods:
            for split in range(args.first, args.first + args.splits):
                label = method + suffix
                if (name, label, str(split)) in done:
                    continue
                data = load(name, split, args.validate)
                if data is None or (method == "gp" and len(data[0]) > LARGEST_GP):
                    continue
                result = evaluate(method, name, split, data, settings)
                append(args.csv, {"set": name, "method": label, "split": split, **result})
    print_table(read(args.csv))


if __name__ == "__main__":
    main()
