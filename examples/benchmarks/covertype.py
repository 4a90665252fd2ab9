"""Covertype, 581,012 rows and 54 columns, with every engine: seconds, peak memory, warnings.

Each engine runs in a process of its own, so that its peak memory is its own; full batch, and with
minibatches of 1000 rows where an engine takes them. The error is that of the posterior means in
units of posterior standard deviations (root mean square over coordinates) against the first engine
of the list, by default PMFVB on all rows. At the end `predict_proba` is timed on all rows with 1000
particles.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/covertype.py [--engines svgd laplace]

SKSTEIN_DATA names a folder with ``data/covertype.npz``; without it scikit-learn fetches the data.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from skstein import BayesianLogisticRegression
from skstein.inference import FWSS, PMD, PMFVB, SVGD, KSDThinnedMCMC, LaplaceDraws

RUNS = {
    "pmfvb": PMFVB(),
    "ksd-mcmc": KSDThinnedMCMC(),
    "svgd": SVGD(),
    "fwss": FWSS(),
    "laplace": LaplaceDraws(),
    "pmfvb, minibatch": PMFVB(batch_size=1000),
    "ksd-mcmc, minibatch": KSDThinnedMCMC(sampler="sgld", batch_size=1000),
    "svgd, minibatch": SVGD(batch_size=1000),
    "fwss, minibatch": FWSS(batch_size=1000),
    "pmd, minibatch": PMD(batch_size=1000, max_iter=2),
}


def load():
    """X (581012, 54) and y, 1 for lodgepole pine."""
    folder = os.environ.get("SKSTEIN_DATA")
    path = Path(folder or ".") / "data" / "covertype.npz"
    if path.exists():
        with np.load(path) as file:
            return np.hstack([file["X_quant"], file["X_bin"]]).astype(float), file["y"]
    from sklearn.datasets import fetch_covtype

    try:
        X, y = fetch_covtype(return_X_y=True)
    except OSError as error:
        sys.exit(f"no covertype: set SKSTEIN_DATA to a folder with data/covertype.npz ({error})")
    return X, (y == 2).astype(int)


def worker(name, path):
    """Fit one engine, print its row and keep its moments in ``path``."""
    X, y = load()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        model = BayesianLogisticRegression(RUNS[name], random_state=0).fit(X, y)
        fit = time.perf_counter() - start
    start = time.perf_counter()
    if len(model.posterior_) > 1000:
        model.posterior_ = model.posterior_.thin(1000)
    accuracy = np.mean(model.classes_[model.predict_proba(X).argmax(axis=1)] == y)
    predict = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name:22}{fit:8.1f}{predict:9.1f}{peak:8.2f}{accuracy:10.4f}"
        f"{len(model.posterior_):10d}{len(caught):8d}",
        flush=True,
    )
    for warning in caught:
        print(f"    {str(warning.message)[:200]}")
    np.savez(path, mean=model.posterior_.mean(), std=model.posterior_.std())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engines", nargs="+", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(*arguments.worker)
        return
    header = ("fit s", "predict s", "GiB", "accuracy", "particles", "warned")
    print("{:22}{:>8}{:>9}{:>8}{:>10}{:>10}{:>8}".format("engine", *header))
    with tempfile.TemporaryDirectory() as folder:
        reference = None
        for index, name in enumerate(arguments.engines):
            path = str(Path(folder) / f"{index}.npz")
            subprocess.run([sys.executable, __file__, "--worker", name, path], check=True)
            moments = dict(np.load(path))
            if reference is None:
                reference = moments
                continue
            gap = (moments["mean"] - reference["mean"]) / reference["std"]
            ratio = moments["std"] / reference["std"]
            print(
                f"    against {arguments.engines[0]}: means {np.sqrt(np.mean(gap**2)):.3f} sd "
                f"(worst {np.abs(gap).max():.2f}), ratio of sds {ratio.mean():.2f} "
                f"({ratio.min():.2f} to {ratio.max():.2f})"
            )


if __name__ == "__main__":
    main()
