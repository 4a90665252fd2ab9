"""Sparse Gaussian process on all of protein against scikit-learn's exact one on a part of it.

The data are the 45,730 x 9 of "Physicochemical properties of protein tertiary structure" (UCI): the
outcome is a deviation in angstrom. A tenth of the rows is for testing. The exact process chooses
its hyper-parameters and is fitted on ``--exact`` rows, the sparse one chooses them on as many rows
as its default says and is fitted on all. All run in one process on the same split; seconds are
those of fit and of prediction with standard deviations, and the last column is the time of the
first line, fit and prediction, divided by that of the line.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/sparse_gp.py [--exact 2000] [--inducing 128 512]

SKSTEIN_DATA names a folder with ``data/uci_protein.npz``: arrays ``X`` (45730, 9) and ``y``.
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skstein import SparseGPRegressor


def load(seed):
    """Standardised features and outcomes: training and test rows."""
    path = Path(os.environ.get("SKSTEIN_DATA") or ".") / "data" / "uci_protein.npz"
    if not path.exists():
        sys.exit(
            f"no {path}: set SKSTEIN_DATA to a folder with data/uci_protein.npz, which holds the "
            "arrays X (45730, 9) and y (45730,) of the UCI protein data."
        )
    with np.load(path) as file:
        X, y = file["X"].astype(float), file["y"].astype(float).ravel()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.1, random_state=seed)
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), scaler.transform(X_test), y, y_test


def log_predictive(model, X, y, mean, std):
    """Mean log density of the outcomes: of the mixture if it is one, else of the normal."""
    if isinstance(model, SparseGPRegressor):
        return model.log_predictive(X, y).mean()
    return norm.logpdf(y, mean, std).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--exact", type=int, default=2000, help="rows of the exact process")
    parser.add_argument("--inducing", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--particles", type=int, default=16)
    parser.add_argument("--n-jobs", type=int, default=None)
    parser.add_argument("--ard", action="store_true", help="one length scale for each feature")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    X, X_test, y, y_test = load(arguments.seed)
    few = np.random.default_rng(arguments.seed).permutation(len(X))[: arguments.exact]
    length_scale = np.ones(X.shape[1]) if arguments.ard else 1.0
    kernel = ConstantKernel() * RBF(length_scale) + WhiteKernel()
    models = {"exact": (GaussianProcessRegressor(kernel, normalize_y=True), X[few], y[few])}
    for approximation in ("dtc", "fitc"):
        for n_inducing in arguments.inducing:
            model = SparseGPRegressor(
                kernel,
                approximation=approximation,
                n_inducing=n_inducing,
                n_particles=arguments.particles,
                normalize_y=True,
                random_state=arguments.seed,
                n_jobs=arguments.n_jobs,
            )
            models[f"{approximation}, {n_inducing} inducing"] = (model, X, y)

    header = ("rows", "rmse", "log lik.", "fit s", "predict s", "ratio")
    print("{:22}{:>7}{:>8}{:>10}{:>8}{:>11}{:>8}".format("", *header))
    first = None
    for name, (model, X_fit, y_fit) in models.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.perf_counter()
            model.fit(X_fit, y_fit)
            fit = time.perf_counter() - start
        start = time.perf_counter()
        mean, std = model.predict(X_test, return_std=True)
        predict = time.perf_counter() - start
        first = fit + predict if first is None else first
        rmse = np.sqrt(np.mean((mean - y_test) ** 2))
        density = log_predictive(model, X_test, y_test, mean, std)
        print(
            f"{name:22}{len(X_fit):7d}{rmse:8.3f}{density:10.3f}{fit:8.1f}{predict:11.2f}"
            f"{first / (fit + predict):8.2f}",
            flush=True,
        )
        for warning in caught:
            print(f"    {warning.message}")


if __name__ == "__main__":
    main()
