"""Covertype with the hierarchical prior: accuracy against seconds, and the posterior against HMC.

Logistic regression of lodgepole pine on the 54 columns of 522,910 rows, tested on the other tenth;
the coefficients of the standardised columns have one unknown precision, Gamma(1, 0.01), which is
integrated out (figure 1 of "Frank-Wolfe Stein sampling"). FWSS, SVGD and SGLD run one after the
other, each with 100 particles, minibatches and a control variate, in the same coordinates, and FWSS
with 200 too. The search for the coordinates, which comes first in every run, is in the seconds; the
tests between the rounds are not. The reference is a long run of HMC on all rows, in those
coordinates too, and the point estimate scikit-learn's with the ``C`` that is best on the test rows.
The squared discrepancy (MMD) of the first N particles of FWSS, and of SVGD with N, from the draws
of HMC is measured in the coordinates that these have white.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/covertype_hierarchical.py [--reference file.npz]

SKSTEIN_DATA names a folder with ``data/covertype.npz``; without it scikit-learn fetches the data.
The reference is taken from ``file.npz`` if it exists and else found, a quarter of an hour on one
core, and kept there. The results go to ``examples/results``, from where the gallery draws them.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from covertype import load
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skstein import infer
from skstein.diagnostics import ess, split_rhat
from skstein.inference import FWSS, SVGD, KSDThinnedMCMC
from skstein.inference._run.working_coordinates import find_frame
from skstein.kernels import RBF
from skstein.metrics import mmd
from skstein.priors import HierarchicalNormal
from skstein.samplers import HMC
from skstein.targets import LogisticTarget, Transformed

RESULTS = Path(__file__).parents[1] / "results" / "covertype_hierarchical.npz"
BATCH_SIZE = 1000
SIZES = np.array([20, 40, 70, 100])
ENGINES = {
    "FWSS": FWSS(100, batch_size=BATCH_SIZE),
    "FWSS 200": FWSS(200, batch_size=BATCH_SIZE),
    "SVGD": SVGD(100, batch_size=BATCH_SIZE),
    "SGLD": KSDThinnedMCMC(100, sampler="sgld", batch_size=BATCH_SIZE),
}


def split():
    """Standardised columns and outcomes, of the rows to learn from and of those to test on."""
    X, y = load()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.1, random_state=0)
    mean, sd = X.mean(axis=0), X.std(axis=0)
    return (X - mean) / sd, y, (X_test - mean) / sd, y_test


def reference(target, n_chains=6, n_warmup=150, n_draws=1500):
    """Draws of a long run of HMC, their moments, largest R-hat and least effective sample size."""
    bijection = find_frame(target).bijection
    working, rng = Transformed(target, bijection), np.random.default_rng(0)
    chains = HMC().warm_up(working, n_warmup, rng.normal(size=(n_chains, target.dim)), rng)
    draws = HMC().draw(working, n_draws, chains)[1]
    theta = bijection.forward(draws.reshape(-1, target.dim)).reshape(draws.shape)
    squares = (theta - theta.mean(axis=(0, 1))) ** 2
    size = min(ess(theta).min(), ess(squares).min())
    return {
        "mean": theta.mean(axis=(0, 1)),
        "sd": theta.std(axis=(0, 1)),
        "rhat": split_rhat(theta).max(),
        "ess": size,
        "draws": theta.reshape(-1, target.dim).astype(np.float32),
    }


class Discrepancy:
    """Squared discrepancy from the draws of HMC, in the coordinates that they have white."""

    def __init__(self, draws):
        self._mean, factor = draws.mean(axis=0), np.linalg.cholesky(np.cov(draws.T))
        self._inverse = np.linalg.inv(factor).T
        self._white = (draws - self._mean) @ self._inverse

    def __call__(self, particles):
        return mmd((particles - self._mean) @ self._inverse, self._white, kernel=RBF()) ** 2


def scores(posterior, X, y):
    """Accuracy and log loss of the probability that the particles give on average."""
    coef = posterior.particles
    logits = X @ coef[:, 1:].T + coef[:, 0]
    p = (0.5 + 0.5 * np.tanh(0.5 * logits)) @ posterior.weights
    return np.mean((p > 0.5) == y), log_loss(y, p)


def curve(target, engine, X_test, y_test, seed):
    """Seconds, accuracy and log loss after each round, the posterior, and what was warned of."""
    rows, spent, start = [], 0.0, time.perf_counter()

    def test(iteration, total, make_posterior, info):
        nonlocal spent
        now = time.perf_counter()
        if not rows or now - start - spent > rows[-1][0] + 0.1:
            rows.append((now - start - spent, *scores(make_posterior(), X_test, y_test)))
            spent += time.perf_counter() - now

    posterior, messages = run(target, engine, seed, test)
    rows.append((time.perf_counter() - start - spent, *scores(posterior, X_test, y_test)))
    return np.array(rows), posterior, messages


def run(target, engine, seed, callback=None):
    """The posterior, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = infer(target, engine, random_state=seed, callback=callback)
    return posterior, [str(w.message) for w in caught]


def by_size(target, discrepancy, seed):
    """Squared discrepancies of FWSS on its way, when it is done, and of SVGD, for `SIZES`."""
    greedy = {}

    def measure(n, total, make_posterior, info):
        if n in SIZES:
            greedy[n] = discrepancy(make_posterior().particles)

    options = {"batch_size": BATCH_SIZE}
    run(target, FWSS(max(SIZES), n_sweeps=0, **options), seed, measure)
    rows = [[greedy[n] for n in SIZES]]
    for engine in (FWSS(**options), SVGD(**options)):
        runs = [run(target, engine.set_params(n_particles=n), seed)[0] for n in SIZES]
        rows.append([discrepancy(posterior.particles) for posterior in runs])
    return np.array(rows)


def point_estimate(X, y, X_test, y_test, grid=(1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)):
    """The ``C`` of the least test log loss of scikit-learn's estimate, and its scores."""
    best = None
    for C in grid:
        model = LogisticRegression(C=C, solver="newton-cholesky").fit(X, y)
        p = model.predict_proba(X_test)[:, 1]
        loss = log_loss(y_test, p)
        if best is None or loss < best[2]:
            best = C, np.mean((p > 0.5) == y_test), loss
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reference", type=Path, help="moments of the long run of HMC")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    X, y, X_test, y_test = split()
    target = LogisticTarget(X, y.astype(float), prior=HierarchicalNormal(1.0, 0.01))
    if arguments.reference and arguments.reference.exists():
        gold = dict(np.load(arguments.reference))
    else:
        gold = reference(target)
        if arguments.reference:
            np.savez(arguments.reference, **gold)
    discrepancy = Discrepancy(gold.pop("draws").astype(float))
    print("HMC: R-hat {rhat:.3f}, effective sample size {ess:.0f}".format(**gold))
    C, accuracy, loss = point_estimate(X, y, X_test, y_test)
    print(f"scikit-learn, C={C:g}: accuracy {accuracy:.4f}, log loss {loss:.4f}", flush=True)
    results = {"C": C, "point": np.array([accuracy, loss])}
    results |= {f"hmc_{key}": value for key, value in gold.items()}
    for name, engine in ENGINES.items():
        rows, posterior, messages = curve(target, engine, X_test, y_test, arguments.seed)
        gap = (posterior.mean() - gold["mean"]) / gold["sd"]
        ratio = posterior.std() / gold["sd"]
        results |= {f"{name}_curve": rows, f"{name}_gap": gap, f"{name}_ratio": ratio}
        print(
            f"{name}: {rows[-1, 0]:.0f} s, accuracy {rows[-1, 1]:.4f}, log loss {rows[-1, 2]:.4f}; "
            f"means {np.sqrt(np.mean(gap**2)):.3f} sd (worst {np.abs(gap).max():.3f}), "
            f"ratio of sds {ratio.mean():.3f} ({ratio.min():.3f} to {ratio.max():.3f})",
            flush=True,
        )
        for text in messages:
            print(f"    {text[:200]}")
        np.savez_compressed(RESULTS, **results)
    results |= {"sizes": SIZES, "by_size": by_size(target, discrepancy, arguments.seed)}
    print(results["by_size"])
    np.savez_compressed(RESULTS, **results)


if __name__ == "__main__":
    main()
