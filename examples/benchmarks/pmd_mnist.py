"""Particle Mirror Descent on handwritten digits, 8 against 6: accuracy against data visited.

The experiment of appendix H.2 of Dai, He, Dai & Song (2016): logistic regression on 50 principal
components, batches of 100, five passes over the data. Printed are, by the number of passes, the
accuracy on the 1,932 test rows, the mean error (root mean square over coordinates, in standard
deviations of the gold posterior) and the ratio of standard deviations. The last row of a start is
after the final moves of all particles, each of which is a pass too.

The paper has 1.6 million rows, deformations of the 11,769 that are used here.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/pmd_mnist.py --seeds 0 1 2 [--store]

SKSTEIN_DATA names a folder with ``gold/mnist8v6pca50_logistic.npz``. With ``--store`` the numbers
of every seed go where the gallery looks for them.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from gold import load
from sklearn.linear_model import LogisticRegression

from skstein import infer
from skstein.inference import PMD
from skstein.priors import Normal
from skstein.targets import LogisticTarget

RESULTS = Path(__file__).parents[1] / "results" / "pmd_digits.npz"
BATCH, PASSES = 100, (0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 4, 5)
STARTS = {
    "prior, kde": {"init": "prior", "strategy": "kde"},
    "prior, hybrid": {"init": "prior", "strategy": "hybrid"},
    "prior, 1/(100+sqrt t)": {"init": "prior", "strategy": "kde", "step_size": "inverse-sqrt"},
    "laplace": {"init": "laplace"},
}


def probabilities(theta, gold):
    """Of an 8, for each row of the test set and each particle; the intercept comes first."""
    return 1 / (1 + np.exp(-(gold["X_test"] @ theta[:, 1:].T + theta[:, 0])))


def accuracy(theta, weights, gold):
    """Of the probability averaged over the particles."""
    return np.mean((probabilities(theta, gold) @ weights > 0.5) == gold["y_test"])


def distances(posterior, gold):
    error = (posterior.mean() - gold["mean"]) / gold["sd"]
    ratio = posterior.std() / gold["sd"]
    return (
        accuracy(posterior.particles, posterior.weights, gold),
        np.sqrt(np.mean(error**2)),
        ratio.mean(),
    )


def run(gold, seed, **params):
    """Numbers by passes, in the order of `PASSES`, with the last of the final posterior, and it."""
    prior = Normal(float(gold["prior_sd"]))
    target = LogisticTarget(gold["X_std"], gold["y"], prior=prior, intercept_prior=prior)
    per_pass = -(-target.n_rows // BATCH)
    steps, rows = [round(passes * per_pass) for passes in PASSES], []

    def keep(iteration, total, make_posterior, info):
        if iteration in steps:
            rows.append(distances(make_posterior(), gold))

    engine = PMD(batch_size=BATCH, max_iter=PASSES[-1], **params)
    posterior = infer(target, engine, random_state=seed, callback=keep)
    return [*rows, distances(posterior, gold)], posterior


def hardest(gold, posteriors, n=12):
    """Test digits of which the gold posterior is least sure, and what each posterior says of them.

    Pixels are those that the components leave, 0 to 255; of a probability there are the mean and
    the ends of the 90 % interval.
    """
    p = probabilities(gold["draws"], gold)
    order = np.argsort(np.abs(p.mean(axis=1) - 0.5))[:n]
    pixels = (gold["X_test"][order] * gold["x_scale"]) @ gold["components"] + gold["pixel_mean"]
    opinions = []
    for theta, weights in posteriors:
        chosen = np.random.default_rng(0).choice(len(theta), 4000, p=weights)
        drawn = probabilities(theta[chosen], gold)[order]
        opinions.append(np.column_stack([drawn.mean(axis=1), *np.quantile(drawn, [0.05, 0.95], 1)]))
    return {
        "hard_pixels": np.rint(255 * pixels.clip(0, 1)).astype(np.uint8).reshape(n, 28, 28),
        "hard_y": gold["y_test"][order],
        "hard_opinions": np.array(opinions, dtype=np.float32),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--store", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    gold = load("mnist8v6pca50_logistic")
    if gold is None:
        raise SystemExit("set SKSTEIN_DATA to a folder with gold/mnist8v6pca50_logistic.npz")
    warnings.simplefilter("ignore")  # starts that fail are part of the comparison
    draws = gold["draws"]
    equal = np.full(len(draws), 1 / len(draws))
    exact = accuracy(draws, equal, gold)
    model = LogisticRegression(C=float(gold["prior_sd"]) ** 2).fit(gold["X_std"], gold["y"])
    plain = model.score(gold["X_test"], gold["y_test"])
    print(f"gold posterior: accuracy {exact:.4f}")
    print(f"LogisticRegression: accuracy {plain:.4f}")
    print(f"{'start':<24}{'passes':>8}{'accuracy':>10}{'mean error':>12}{'sd ratio':>10}")
    tables, firsts = {}, {}
    for label, params in STARTS.items():
        found, posteriors = zip(
            *(run(gold, seed, **params) for seed in arguments.seeds), strict=True
        )
        tables[label], firsts[label] = np.array(found), posteriors[0]
        for passes, (right, error, ratio) in zip(
            [*PASSES, "final"], tables[label].mean(axis=0), strict=True
        ):
            print(f"{label:<24}{passes:>8}{right:>10.4f}{error:>12.3f}{ratio:>10.3f}", flush=True)
    if arguments.store:
        shown = [firsts[label] for label in ("laplace", "prior, kde")]
        np.savez_compressed(
            RESULTS,
            accuracy=np.array([exact, plain]),
            passes=PASSES,
            starts=list(STARTS),
            tables=np.array(list(tables.values()), dtype=np.float32),
            gaps=np.array([(p.mean() - gold["mean"]) / gold["sd"] for p in shown]),
            ratios=np.array([p.std() / gold["sd"] for p in shown]),
            **hardest(gold, [(draws, equal), *((p.particles, p.weights) for p in shown)]),
        )


if __name__ == "__main__":
    main()
