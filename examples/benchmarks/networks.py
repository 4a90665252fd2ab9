"""Neural networks: what a fit costs, and whether ignorance grows away from the data.

*speed*: one `BayesianMLPRegressor` with its defaults (20 networks of 50 units, and chains around
them) on 10,000 rows, beside five fits of scikit-learn's `MLPRegressor` with the same number of
steps. Seconds of the processor, on one thread; compilation, in a first fit on few rows, is left
out.

*ood*: the area under the ROC curve with which epistemic uncertainty tells rows from elsewhere from
test rows. For concrete, elsewhere is the tenth of the rows with most cement, none of which was
trained on; for digits, the classes 7, 8 and 9.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/networks.py [speed] [ood] [--seeds 0 1 2]

SKSTEIN_DATA names a folder with ``data/uci_concrete.npz``.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPRegressor

from skstein import BayesianMLPClassifier, BayesianMLPRegressor


def seconds(function):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function()
    return time.process_time() - start


def speed(seeds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 10))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=10_000)
    BayesianMLPRegressor((50,), max_iter=1).fit(X[:200], y[:200])
    for seed in seeds:
        ours = BayesianMLPRegressor((50,), random_state=seed)
        time_ours = seconds(lambda model=ours: model.fit(X, y))
        epochs = ours.n_iter_ - ours.inference_.n_draws - ours.inference_.n_warmup
        theirs = 0.0
        for k in range(5):
            one = MLPRegressor(
                hidden_layer_sizes=(50,),
                batch_size=100,
                max_iter=epochs,
                n_iter_no_change=epochs,
                random_state=k,
            )
            theirs += seconds(lambda model=one: model.fit(X, y))
        print(
            f"seed {seed}: {epochs} epochs of 100 steps; ours, 20 networks {time_ours:.1f} s, "
            f"5 of scikit-learn {theirs:.1f} s, ratio {time_ours / theirs:.2f}",
            flush=True,
        )


def concrete(seed, inference):
    path = Path(os.environ.get("SKSTEIN_DATA", ".")) / "data" / "uci_concrete.npz"
    with np.load(path) as file:
        X, y = file["X"], file["y"]
    far = X[:, 0] > np.quantile(X[:, 0], 0.9)
    near = np.random.default_rng(seed).permutation(np.flatnonzero(~far))
    test, train = np.split(near, [len(near) // 10])
    reg = BayesianMLPRegressor((50,), inference=inference, random_state=seed)
    reg.fit(X[train], y[train])
    return [reg.predict_uncertainty(X[rows]).epistemic for rows in (test, np.flatnonzero(far))]


def digits(seed, inference):
    X, y = load_digits(return_X_y=True)
    near = np.random.default_rng(seed).permutation(np.flatnonzero(y < 7))
    test, train = np.split(near, [len(near) // 5])
    clf = BayesianMLPClassifier((50,), inference=inference, random_state=seed)
    clf.fit(X[train], y[train])
    return [clf.predict_uncertainty(X[rows]).epistemic for rows in (test, np.flatnonzero(y >= 7))]


def ood(seeds):
    for case in (concrete, digits):
        for inference in ("ensemble", "ksd-mcmc"):
            areas = []
            for seed in seeds:
                near, far = case(seed, inference)
                truth = np.repeat([0, 1], [len(near), len(far)])
                areas.append(roc_auc_score(truth, np.concatenate([near, far])))
            print(f"{case.__name__:9}{inference:10} area {np.mean(areas):.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["speed", "ood"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    for part in args.parts:
        {"speed": speed, "ood": ood}[part](args.seeds)


if __name__ == "__main__":
    main()
