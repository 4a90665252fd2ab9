"""Between the data: UCI tables with the middle third of a feature held out.

Rows are sorted by one feature, and those of the middle third are left for testing, once for each
feature (Foong et al. 2019, "'In-between' uncertainty in Bayesian neural networks"). What is learnt
from both ends should say in the middle that it does not know. Outcomes are standardised by the
training rows. Of each set the mean over features is printed, and the least, of the log density of
the test rows, and the coverage of 90 % intervals: of `BayesianMLPRegressor` as it is by default, or
with other settings (``--set activation=tanh``), of `BayesianLinearRegression`, and of
scikit-learn's Gaussian process on 1000 of the rows at most.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/gaps.py gaps.csv [--sets boston yacht]
        [--methods ours gp linear] [--features 3] [--set NAME=VALUE]

Every fit is a row of the CSV file, and a run leaves out what is there already. SKSTEIN_DATA names
a folder with ``data/uci_*.npz``.
"""

import argparse
from pathlib import Path

import numpy as np
from uci import append, evaluate, parsed, read, table

SETS = ["boston", "concrete", "energy", "kin8nm", "power", "wine", "yacht"]
LARGEST_GP = 1000  # rows


def gap(name, feature):
    """Training and test rows, with outcomes standardised; None where there is no such feature."""
    arrays = table(name)
    X, y = arrays["X"], arrays["y"]
    if feature >= X.shape[1]:
        return None
    order = np.argsort(X[:, feature], kind="stable")
    low, middle, high = np.array_split(order, 3)
    train = np.concatenate([low, high])
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[middle], y[middle]


def thinned(data, most):
    X, y, *test = data
    some = np.random.default_rng(0).permutation(len(X))[:most]
    return X[some], y[some], *test


def print_table(rows):
    print(f"{'set':9}{'method':40}{'gaps':>5}{'density':>9}{'least':>8}{'covered':>9}", end="")
    print(f"{'least':>7}{'seconds':>9}{'warnings':>9}")
    for name in SETS:
        own = [row for row in rows if row["set"] == name]
        for method in dict.fromkeys(row["method"] for row in own):
            keys = ("log_likelihood", "coverage", "seconds", "n_warnings")
            each = [[float(r[key]) for key in keys] for r in own if r["method"] == method]
            density, covered, seconds, n_warnings = np.transpose(each)
            print(f"{name:9}{method:40}{len(each):5}{density.mean():9.2f}", end="")
            print(f"{density.min():8.2f}{covered.mean():9.2f}{covered.min():7.2f}", end="")
            print(f"{seconds.mean():9.1f}{int(n_warnings.sum()):9}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--methods", nargs="+", default=["gp", "linear", "ours"])
    parser.add_argument("--features", type=int, default=99, help="the first of them")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", dest="settings")
    args = parser.parse_args()
    done = {(row["set"], row["method"], row["split"]) for row in read(args.csv)}
    for name in args.sets:
        for feature in range(args.features):
            data = gap(name, feature)
            for method in args.methods if data else ():
                label = " ".join([method, *args.settings])
                if (name, label, str(feature)) in done:
                    continue
                few = thinned(data, LARGEST_GP) if method == "gp" else data
                result = evaluate(method, name, feature, few, parsed(args.settings))
                append(args.csv, {"set": name, "method": label, "split": feature, **result})
                print(
                    f"{name:9}{label:40}{feature:5}{result['log_likelihood']:9.2f}"
                    f"{result['rmse']:8.3f}{result['coverage']:9.2f}{result['seconds']:9.1f}",
                    flush=True,
                )
    print_table(read(args.csv))


if __name__ == "__main__":
    main()
