"""Particle Mirror Descent on handwritten digits, 8 against 6: accuracy against data visited.

The experiment of appendix H.2 of Dai, He, Dai & Song (2016): logistic regression on 50 principal
components, batches of 100, five passes over the data. Printed are, by the number of passes, the
accuracy on the 1,932 test rows, the mean error (root mean square over coordinates, in standard
deviations of the gold posterior) and the ratio of standard deviations. The last row of a start is
after the final moves of all particles, each of which is a pass too.

The paper has 1.6 million rows, deformations of the 11,769 that are used here.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/pmd_mnist.py --seeds 0 1 2

SKSTEIN_DATA names a folder with ``gold/mnist8v6pca50_logistic.npz``.
"""

import argparse
import warnings

import numpy as np
from gold import load
from sklearn.linear_model import LogisticRegression

from skstein import infer
from skstein.inference import PMD
from skstein.priors import Normal
from skstein.targets import LogisticTarget

BATCH, PASSES = 100, (0.1, 0.25, 0.5, 1, 2, 3, 4, 5)
STARTS = {
    "prior, kde": {"init": "prior", "strategy": "kde"},
    "prior, hybrid": {"init": "prior", "strategy": "hybrid"},
    "prior, 1/(100+sqrt t)": {"init": "prior", "strategy": "kde", "step_size": "inverse-sqrt"},
    "laplace": {"init": "laplace"},
}


def accuracy(theta, weights, gold):
    """Of the probability averaged over the particles; the first coordinate is the intercept."""
    logits = gold["X_test"] @ theta[:, 1:].T + theta[:, 0]
    proba = (1 / (1 + np.exp(-logits))) @ weights
    return np.mean((proba > 0.5) == gold["y_test"])


def distances(posterior, gold):
    error = (posterior.mean() - gold["mean"]) / gold["sd"]
    ratio = posterior.std() / gold["sd"]
    return (
        accuracy(posterior.particles, posterior.weights, gold),
        np.sqrt(np.mean(error**2)),
        ratio.mean(),
    )


def run(gold, seed, **params):
    """Numbers by passes, in the order of `PASSES`, and those of the final posterior."""
    prior = Normal(float(gold["prior_sd"]))
    target = LogisticTarget(gold["X_std"], gold["y"], prior=prior, intercept_prior=prior)
    per_pass = -(-target.n_rows // BATCH)
    steps, rows = [round(passes * per_pass) for passes in PASSES], []

    def keep(iteration, total, make_posterior, info):
        if iteration in steps:
            rows.append(distances(make_posterior(), gold))

    engine = PMD(batch_size=BATCH, max_iter=PASSES[-1], **params)
    posterior = infer(target, engine, random_state=seed, callback=keep)
    return [*rows, distances(posterior, gold)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    seeds = parser.parse_args().seeds
    gold = load("mnist8v6pca50_logistic")
    if gold is None:
        raise SystemExit("set SKSTEIN_DATA to a folder with gold/mnist8v6pca50_logistic.npz")
    warnings.simplefilter("ignore")  # starts that fail are part of the comparison
    draws = gold["draws"]
    exact = accuracy(draws, np.full(len(draws), 1 / len(draws)), gold)
    plain = LogisticRegression(C=float(gold["prior_sd"]) ** 2).fit(gold["X_std"], gold["y"])
    print(f"gold posterior: accuracy {exact:.4f}")
    print(f"LogisticRegression: accuracy {plain.score(gold['X_test'], gold['y_test']):.4f}")
    print(f"{'start':<24}{'passes':>8}{'accuracy':>10}{'mean error':>12}{'sd ratio':>10}")
    for label, params in STARTS.items():
        table = np.mean([run(gold, seed, **params) for seed in seeds], axis=0)
        for passes, (right, error, ratio) in zip([*PASSES, "final"], table, strict=True):
            print(f"{label:<24}{passes:>8}{right:>10.4f}{error:>12.3f}{ratio:>10.3f}")


if __name__ == "__main__":
    main()
