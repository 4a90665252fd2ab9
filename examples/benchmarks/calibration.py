"""Simulation-based calibration of every engine: are posteriors right on average over their prior?

Parameters are drawn from the prior, an outcome of 50 rows and three standard normal features from
the model, and the model is fitted to it. If posteriors are right, the rank of the true parameter
among the particles is uniform, over all simulations, for each coordinate and for the log likelihood
(Talts et al. 2018; Modrak et al. 2023). Rank here is the weight of the particles below the truth,
spread evenly over the step of one of them. Where an outcome lacks a class, parameters and outcome
are drawn anew: ranks are uniform for every single outcome, so that any of them may be left out.

The table gives the share of truths in central 50 and 90 % intervals, averaged over coordinates, and
which of them leave the simultaneous 95 % band of their empirical distribution function (Säilynoja,
Bürkner & Vehtari 2022; the level is shared out to the coordinates of a model).

Every fit is a line of a file in a folder; a run leaves out what is there, so that it can be stopped
at any time. All engines see the same simulations.

Usage::

    python examples/benchmarks/calibration.py FOLDER [--engines mcmc svgd] [--replications 500]
    python examples/benchmarks/calibration.py FOLDER --table [--csv doc/tables/calibration.csv]
        [--figure doc/images/calibration.png]
"""

import argparse
import csv
import json
import time
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import binom

from skstein import BayesianLinearRegression, BayesianLogisticRegression, BayesianProbitRegression
from skstein.inference import ENGINES
from skstein.priors import HalfStudentT, Normal
from skstein.targets import LinearTarget, LogisticTarget, ProbitTarget, SoftmaxTarget

MODELS = {
    "logistic": (BayesianLogisticRegression, LogisticTarget),
    "probit": (BayesianProbitRegression, ProbitTarget),
    "linear": (BayesianLinearRegression, LinearTarget),
    "softmax": (BayesianLogisticRegression, SoftmaxTarget),
}
N, P, N_CLASSES = 50, 3, 3
LEVEL = 0.05
POINTS = np.linspace(0.01, 0.99, 99)  # where distribution functions are compared
TOGETHER = 25  # replications of a model before it is the next one's turn


def simulate(model, replication):
    """Features, outcome, and the parameters that made it, in the order of the target."""
    rng = np.random.default_rng([replication, list(MODELS).index(model)])
    while True:
        X = rng.normal(size=(N, P))
        k = N_CLASSES if model == "softmax" else 1
        theta = rng.normal(size=(k, P + 1))
        eta = theta[:, 0] + X @ theta[:, 1:].T
        if model == "linear":
            log_v = draw_noise(rng)
            y = eta[:, 0] + np.exp(0.5 * log_v) * rng.normal(size=N)
            return X, y, np.append(theta, log_v)
        if model == "softmax":
            y = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)
        else:
            probability = expit if model == "logistic" else ndtr
            y = (rng.random(N) < probability(eta[:, 0])).astype(int)
        if len(np.unique(y)) == max(k, 2):
            return X, y, theta.ravel()


def draw_noise(rng):
    """From the default prior of log sigma^2, whose density keeps clear of no noise at all."""
    while True:
        log_v = HalfStudentT().sample(rng, 1)[0, 0]
        if rng.random() < np.exp(-1e-5 * np.exp(-log_v)):
            return log_v


def run(model, engine, replication):
    """One fit: randomised ranks of the coordinates and of the log likelihood, in (0, 1)."""
    X, y, truth = simulate(model, replication)
    estimator, make_target = MODELS[model]
    options = {"n_classes": N_CLASSES} if model == "softmax" else {}
    target = make_target(X, y, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        fitted = estimator(
            engine, intercept_prior=Normal(1.0), standardize=False, random_state=replication
        ).fit(X, y)
        seconds = time.process_time() - start
    posterior = fitted.posterior_
    theta = np.vstack([posterior.particles, truth])
    values = np.column_stack([theta, target.log_likelihood(theta)])
    m, weights = len(posterior), posterior.weights
    below, even = (weights @ part for part in (values[:-1] < values[-1], values[:-1] == values[-1]))
    uniform = np.random.default_rng([replication, 9]).random(values.shape[1])
    ranks = (m * (below + uniform * even) + uniform) / (m + 1)
    return {
        "replication": replication,
        "names": [*posterior.names, "log likelihood"],
        "ranks": ranks.round(5).tolist(),
        "warned": bool(caught),
        "seconds": round(seconds, 3),
    }


def fits_of(folder, model, engine):
    path = folder / f"{model}-{engine}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def sweep(folder, models, engines, n_replications):
    folder.mkdir(parents=True, exist_ok=True)
    done = {
        (model, engine): {fit["replication"] for fit in fits_of(folder, model, engine)}
        for model in models
        for engine in engines
    }
    for first in range(0, n_replications, TOGETHER):
        for (model, engine), known in done.items():
            wanted = set(range(first, min(first + TOGETHER, n_replications))) - known
            for replication in sorted(wanted):
                fit = run(model, engine, replication)
                with (folder / f"{model}-{engine}.jsonl").open("a") as file:
                    file.write(json.dumps(fit) + "\n")
        print(f"{first + TOGETHER} replications", flush=True)


# Bands.


def least_probabilities(ranks):
    """Smallest two-sided probability of the counts below `POINTS`, by column of ``ranks``."""
    n = len(ranks)
    counts = np.array([np.searchsorted(np.sort(column), POINTS) for column in ranks.T])
    tails = np.minimum(binom.cdf(counts, n, POINTS), binom.sf(counts - 1, n, POINTS))
    return 2.0 * tails.min(axis=1)


@lru_cache
def critical(n, level, n_simulations=20_000):
    """The probability that a uniform sample of size ``n`` goes below with probability ``level``."""
    ranks = np.random.default_rng(0).random((n, n_simulations))
    return np.quantile(least_probabilities(ranks), level)


def band(n, probability):
    """Lower and upper limits of the distribution function minus its argument at `POINTS`."""
    low, high = (binom.ppf(q, n, POINTS) / n for q in (probability / 2, 1 - probability / 2))
    return low - POINTS, high - POINTS


def judged(folder, model, engine):
    """Ranks (replications, coordinates), names, critical probability and those that leave."""
    fits = fits_of(folder, model, engine)
    if not fits:
        return None
    ranks, names = np.array([fit["ranks"] for fit in fits]), fits[0]["names"]
    limit = critical(len(ranks), LEVEL / len(names))
    return ranks, names, limit, least_probabilities(ranks) < limit, fits


# What is printed and drawn.

COLUMNS = ("model", "engine", "fits", "in 50 %", "in 90 %", "warned", "seconds", "leaves its band")


def table(folder, engines):
    rows = []
    for model in MODELS:
        for engine in engines:
            found = judged(folder, model, engine)
            if found is None:
                continue
            ranks, names, _, outside, fits = found
            inside = [f"{np.mean(np.abs(ranks[:, :-1] - 0.5) < half):.3f}" for half in (0.25, 0.45)]
            warned = f"{np.mean([fit['warned'] for fit in fits]):.0%}".replace("%", " %")
            seconds = f"{np.median([fit['seconds'] for fit in fits]):.2f}"
            leaving = ", ".join(np.array(names)[outside]) or "no"
            if outside.sum() > 3:
                leaving = f"{outside.sum()} of {len(names)}"
            rows.append([model, engine, len(ranks), *inside, warned, seconds, leaving])
    return rows


def draw(folder, engines, path):
    """A row a model and a column an engine; the other way round where engines are few."""
    import matplotlib.pyplot as plt
    from PIL import Image

    shape = len(MODELS), len(engines)
    upright = shape[0] < shape[1]
    figure, axes = plt.subplots(
        *(shape if upright else shape[::-1]),
        figsize=(8.0, 8.0 * min(shape) / max(shape) + 0.4),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    by_model = axes if upright else axes.T
    for row, model in zip(by_model, MODELS, strict=True):
        for axis, engine in zip(row, engines, strict=True):
            axis.tick_params(labelsize=7)
            found = judged(folder, model, engine)
            if found is None:
                continue
            ranks, _, probability, outside, _ = found
            axis.fill_between(POINTS, *band(len(ranks), probability), color="0.88", lw=0)
            for column, leaves in zip(np.sort(ranks, axis=0).T, outside, strict=True):
                difference = np.searchsorted(column, POINTS) / len(column) - POINTS
                axis.plot(POINTS, difference, color="C3" if leaves else "C0", lw=0.7)
            axis.spines[["top", "right"]].set_visible(False)
    titles, labels = (engines, MODELS) if upright else (MODELS, engines)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    for axis, label in zip(axes[:, 0], labels, strict=True):
        axis.set_ylabel(label, fontsize=9)
    axes[0, 0].set(xlim=(0, 1), ylim=(-0.2, 0.2), xticks=[0, 0.5, 1], yticks=[-0.1, 0, 0.1])
    figure.supxlabel("rank of the truth", fontsize=9)
    figure.tight_layout(pad=0.4)
    figure.savefig(path, dpi=110)
    with Image.open(path) as image:  # a third of the size
        image.quantize(32).save(path, optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument(
        "--table", action="store_true", help="print what was found, and run nothing"
    )
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    parser.add_argument("--figure", type=Path, help="draw the distribution functions to this file")
    arguments = parser.parse_args()
    if not arguments.table:
        sweep(arguments.folder, arguments.models, arguments.engines, arguments.replications)
    rows = table(arguments.folder, arguments.engines)
    for row in (COLUMNS, *rows):
        print("".join(f"{cell!s:<14}" for cell in row))
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    if arguments.figure:
        draw(arguments.folder, arguments.engines, arguments.figure)


if __name__ == "__main__":
    main()
