"""Neural networks: what a fit costs, whether ignorance grows away from the data, and what is drawn.

*speed*: one `BayesianMLPRegressor` with its defaults (but one layer of 50 units; ten networks, and
chains around them) on 10,000 rows, beside five fits of scikit-learn's `MLPRegressor` with the same
number of steps. *classes*: the training of a `BayesianMLPClassifier`, 20 networks of 100 units, on
20,000 rows of 50 features, beside a fit of `MLPClassifier` for as many epochs, and the ratio for
a network. Seconds of the processor, on one thread; compilation, in a first fit on few rows, is left
out.

*ood*: the area under the ROC curve with which epistemic uncertainty tells rows from elsewhere from
test rows. For concrete, elsewhere is the tenth of the rows with most cement, none of which was
trained on; for digits, the classes 7, 8 and 9.

*posterior*: classifiers by default, and without chains, beside eight long chains of Hamiltonian
Monte Carlo on all rows with an acceptance step, half of them from untrained networks, whose R-hat
is that of the logits: in how many test rows they choose the same class, and the total variation
between their probabilities.

*stages*: log loss and error of the same two on rows left out of tables, with 75 to 900 rows to
train on, and the seconds of a fit.

*coverage*: share of the 90 % intervals of probabilities that hold the true ones, with which classes
were drawn, their mean width, and log loss less that of the truth; 4000 rows of three features with
a sine in one of them, and of five with a linear truth.

*airfoil*: root mean squared error and mean negative log likelihood of airfoil noise, by default and
with chains five times as long, beside the package sklearn-contrib-bde, if it is there, with the
settings of its own benchmark; ``--members`` networks each.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/networks.py [speed] [classes] [ood] [posterior]
        [stages] [coverage] [airfoil] [--seeds 0 1 2]

SKSTEIN_DATA names a folder with ``data/uci_concrete.npz``, ``data/uci_wine.npz``,
``data/airfoil.npz``, ``data/german.csv.gz`` and ``data/adult-train.csv.gz``.
"""

import argparse
import os
import time
import warnings
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logsumexp, softmax
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

from skstein import BayesianMLPClassifier, BayesianMLPRegressor
from skstein.diagnostics import split_rhat
from skstein.inference import Ensemble
from skstein.outcomes import Bernoulli, Categorical
from skstein.priors import Normal
from skstein.samplers import HMC
from skstein.targets import MLPTarget


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
            f"seed {seed}: {epochs} epochs of 100 steps; ours, 10 networks {time_ours:.1f} s, "
            f"5 of scikit-learn {theirs:.1f} s, ratio {time_ours / theirs:.2f}",
            flush=True,
        )


def classes(seeds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 50))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=20_000) > 0
    BayesianMLPClassifier(inference="ensemble", max_iter=1).fit(X[:200], y[:200])
    for seed in seeds:
        ours = BayesianMLPClassifier(inference="ensemble", random_state=seed)
        time_ours = seconds(lambda model=ours: model.fit(X, y))
        epochs = ours.n_iter_
        one = MLPClassifier(max_iter=epochs, n_iter_no_change=epochs, random_state=seed)
        theirs = seconds(lambda model=one: model.fit(X, y))
        print(
            f"seed {seed}: {epochs} epochs; ours, 20 networks {time_ours:.1f} s, one of "
            f"scikit-learn {theirs:.1f} s, ratio for a network {20 * theirs / time_ours:.1f}",
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


SMALL = {
    "moons": make_moons(200, noise=0.3, random_state=0),
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "cancer": load_breast_cancer(return_X_y=True),
}


def posterior(seeds):
    for name, (X, y) in SMALL.items():
        for seed in seeds:
            X_train, X_test, y_train, _ = train_test_split(
                X, y, train_size=min(200, len(X) // 2), random_state=seed
            )
            scaler = StandardScaler().fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
            long, rhat = hamiltonian(X_train, y_train, X_test, seed)
            for inference in ("mcmc", "ensemble"):
                clf = BayesianMLPClassifier(inference=inference, random_state=seed)
                spent = seconds(lambda model=clf, X=X_train, y=y_train: model.fit(X, y))
                proba = clf.predict_proba(X_test)
                agree = np.mean(proba.argmax(axis=1) == long.argmax(axis=1))
                variation = 0.5 * np.abs(proba - long).sum(axis=1).mean()
                print(
                    f"{name:8}seed {seed} {inference:9} agreement {agree:.3f}, total variation "
                    f"{variation:.3f}, {spent:.1f} s; R-hat of long chains {rhat:.3f}",
                    flush=True,
                )


def hamiltonian(X, y, X_test, seed):
    """Probabilities of long chains, and the largest R-hat of their logits."""
    outcome = Bernoulli() if y.max() == 1 else Categorical(y.max() + 1)
    target = MLPTarget(
        X, y, outcome=outcome, hidden_layer_sizes=(100,), prior=Normal(3.0), dtype=np.float64
    )
    rng = np.random.default_rng(seed)
    trained = Ensemble(4, max_iter=100).run(target, rng).particles
    start = np.concatenate([trained, target.sample_initial(rng, 4)])
    sampler = HMC(trajectory=2.5, max_leapfrogs=100, acceptance=0.8)
    chains = sampler.warm_up(target, 50, start, rng)
    _, draws, _, _ = sampler.draw(target, 100, chains)
    logits = np.stack([target.network.outputs(chain, X_test) for chain in draws])
    rhat = split_rhat(logits.reshape(*logits.shape[:2], -1)).max()
    if logits.shape[-1] == 1:
        return np.mean([expit(-logits[..., 0]), expit(logits[..., 0])], axis=(1, 2)).T, rhat
    return softmax(logits, axis=-1).mean(axis=(0, 1)), rhat


def coded(name):
    """Features, 0/1 columns for categories, and classes of a table with the outcome last."""
    path = Path(os.environ.get("SKSTEIN_DATA", ".")) / "data" / f"{name}.csv.gz"
    table = pd.read_csv(path, header=None, skipinitialspace=True)
    X, (y, _) = pd.get_dummies(table.iloc[:, :-1], dtype=float), pd.factorize(table.iloc[:, -1])
    return X.to_numpy(), y


def grades():
    with np.load(Path(os.environ.get("SKSTEIN_DATA", ".")) / "data" / "uci_wine.npz") as file:
        return file["X"], file["y"].round().astype(int).clip(4, 7)


def stages(seeds):
    tables = {name: (X, y, min(200, len(X) // 2)) for name, (X, y) in SMALL.items()}
    tables |= {"german": (*coded("german"), 600), "grades": (*grades(), 900)}
    tables |= {f"adult {n}": (*coded("adult-train"), n) for n in (300, 900)}
    tables |= {f"digits {n}": (*load_digits(return_X_y=True), n) for n in (300, 600, 900)}
    for name, (X, y, n) in tables.items():
        for inference in ("mcmc", "ensemble"):
            losses, errors, spent = [], [], []
            for seed in seeds:
                X_train, X_test, y_train, y_test = train_test_split(
                    X,
                    y,
                    train_size=n,
                    test_size=min(len(X) - n, 2000),
                    random_state=seed,
                    stratify=y,
                )
                clf = BayesianMLPClassifier(inference=inference, random_state=seed)
                spent.append(seconds(lambda model=clf, X=X_train, y=y_train: model.fit(X, y)))
                proba = clf.predict_proba(X_test)
                losses.append(log_loss(y_test, proba))
                errors.append(np.mean(clf.classes_[proba.argmax(axis=1)] != y_test))
            print(
                f"{name:12}{inference:9} log loss {np.mean(losses):.3f}, error "
                f"{np.mean(errors):.3f}, {np.median(spent):.1f} s",
                flush=True,
            )


def coverage(seeds):
    truths = {
        "sine": (3, lambda X: 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1]),
        "linear": (5, lambda X: X @ [1.0, -1.0, 0.5, 0.0, 0.0]),
    }
    for (name, (p, log_odds)), n in product(truths.items(), (300, 1000, 3000, 20_000)):
        for inference in ("mcmc", "pmfvb", "ensemble"):
            found = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                X = rng.normal(size=(n + 4000, p))
                truth = expit(log_odds(X))
                y, (X, X_test), truth = rng.random(n) < truth[:n], np.split(X, [n]), truth[n:]
                clf = BayesianMLPClassifier(inference=inference, random_state=seed)
                spent = seconds(lambda model=clf, X=X, y=y: model.fit(X, y))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    low, high = clf.predict_interval(X_test, level=0.9)[:, 1].T
                proba = clf.predict_proba(X_test)
                true = np.column_stack([1.0 - truth, truth])
                loss = np.mean(np.sum(true * (np.log(true) - np.log(proba)), axis=1))
                held = np.mean((low < truth) & (truth < high))
                found.append([held, np.mean(high - low), loss, spent])
            held, width, loss, spent = np.mean(found, axis=0)
            print(
                f"{name:7}{n:6} {inference:9} coverage {held:.3f}, width {width:.3f}, "
                f"log loss +{loss:.4f}, {spent:.1f} s",
                flush=True,
            )


def airfoil(seeds, members):
    with np.load(Path(os.environ.get("SKSTEIN_DATA", ".")) / "data" / "airfoil.npz") as file:
        X, X_test, y, y_test = train_test_split(file["X"], file["y"], test_size=0.2, random_state=0)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    longer = {"inference__sampler__thinning": 2000}
    for seed in seeds:
        for name, options in {"default": {}, "longer chains": longer}.items():
            reg = BayesianMLPRegressor(n_networks=members, random_state=seed).set_params(**options)
            spent = seconds(lambda model=reg: model.fit(X, y))
            density = reg.log_predictive(X_test, y_test)
            show_airfoil(name, members, reg.predict(X_test), density, y_test, spent)
        with suppress(ImportError):
            show_airfoil("bde", members, *bde(seed, members, X, y, X_test, y_test))


def bde(seed, members, X, y, X_test, y_test):
    """Mean, log density and seconds of sklearn-contrib-bde as its own benchmark has it."""
    from bde import BdeRegressor
    from bde.loss import GaussianNLL

    reg = BdeRegressor(
        n_members=members,
        hidden_layers=[16, 16, 16, 16],
        loss=GaussianNLL(),
        epochs=1200,
        patience=20,
        warmup_steps=50_000,
        n_samples=1000,
        n_thinning=10,
        seed=seed,
    )
    start = time.process_time()
    reg.fit(X.astype(np.float32), y.astype(np.float32))
    spent = time.process_time() - start
    raw = np.asarray(reg.predict(X_test.astype(np.float32), raw=True), dtype=float)
    raw = raw.reshape(-1, len(X_test), 2)
    scale = np.logaddexp(0.0, raw[..., 1]) + 1e-6
    density = norm.logpdf(y_test, raw[..., 0], scale)
    return raw[..., 0].mean(axis=0), logsumexp(density, axis=0) - np.log(len(raw)), y_test, spent


def show_airfoil(name, members, mean, density, y_test, spent):
    error = np.sqrt(np.mean((mean - y_test) ** 2))
    print(
        f"airfoil, {name}, {members} networks: RMSE {error:.3f}, negative log likelihood "
        f"{-density.mean():.3f}, {spent:.0f} s",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["speed", "classes", "ood", "posterior"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--members", type=int, default=10)
    args = parser.parse_args()
    parts = {
        "speed": speed,
        "classes": classes,
        "ood": ood,
        "posterior": posterior,
        "stages": stages,
        "coverage": coverage,
        "airfoil": partial(airfoil, members=args.members),
    }
    for part in args.parts:
        parts[part](args.seeds)


if __name__ == "__main__":
    main()
