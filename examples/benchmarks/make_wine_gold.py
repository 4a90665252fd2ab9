"""Make ``tests/data/gold_wine_softmax.npz``: the posterior of softmax regression on the wine data.

The 13 features are standardised (population standard deviation) and all 178 rows are used; every
class has its own intercept and coefficients, 42 coordinates in all, each with a standard normal
prior. The moments come from long Hamiltonian chains in coordinates whitened by the Laplace
approximation.

Three checks are printed. Split R-hat says whether the chains agree. Stein's identities
E[score_j] = 0 and E[(theta_j - mean_j) score_j] = -1 tie the draws to the density itself; their
deviations are divided by their Monte Carlo errors. And the posterior can be shifted along each
direction that adds the same to every class, where the likelihood is flat: the sum over the classes
is normal with variance K whatever the data, so its moments are known exactly.

Usage::

    python examples/benchmarks/make_wine_gold.py
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from skstein.diagnostics import ess, split_rhat
from skstein.priors import Normal
from skstein.samplers import HMC
from skstein.targets import SoftmaxTarget, Whitened, laplace_approximation

PATH = Path(__file__).parents[2] / "tests" / "data" / "gold_wine_softmax.npz"
PRIOR_SD = 1.0


def wine_target():
    """The log density, coordinates (intercept, coefficients) of each class in turn."""
    X, y = load_wine(return_X_y=True)
    prior = Normal(PRIOR_SD)
    return SoftmaxTarget(
        StandardScaler().fit_transform(X), y, n_classes=3, prior=prior, intercept_prior=prior
    )


def sample(target, n_chains, n_draws, n_warmup, seed):
    """Draws and scores in the target's own coordinates, each of shape (chains, draws, dim)."""
    rng = np.random.default_rng(seed)
    frame = laplace_approximation(target).bijection
    white = Whitened(target, frame.offset, frame.matrix)
    start = rng.standard_normal((n_chains, target.dim))
    draws, scores, info = HMC().sample(white, start, n_warmup, n_draws, rng)
    print(f"acceptance {info['acceptance']:.3f}, {info['n_scores']} gradients a chain")
    flat, flat_scores = draws.reshape(-1, target.dim), scores.reshape(-1, target.dim)
    return (
        frame.forward(flat).reshape(draws.shape),
        frame.push_score(flat, flat_scores).reshape(draws.shape),
    )


def z_score(values, truth):
    """(mean - truth) / Monte Carlo error, per coordinate of ``values`` (chains, draws, dim)."""
    mean, sd = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    return (mean - truth) / (sd / np.sqrt(ess(values, rank=False)))


def check(draws, scores, rhat, n_classes=3):
    """Print the checks and refuse draws that fail one."""
    centred = draws - draws.mean(axis=(0, 1))
    z = np.concatenate([z_score(scores, 0.0), z_score(centred * scores, -1.0)])
    total = draws.reshape(*draws.shape[:2], n_classes, -1).sum(axis=2)
    z_sum = np.concatenate([z_score(total, 0.0), z_score(total**2, n_classes * PRIOR_SD**2)])
    print(f"largest split R-hat {rhat.max():.4f}")
    for label, values in (("Stein's identities", z), ("sums over classes", z_sum)):
        rms = np.sqrt(np.mean(values**2))
        print(f"{label}: worst |z| {np.abs(values).max():.1f} of {len(values)}, rms {rms:.2f}")
    if not (rhat.max() < 1.005 and max(np.abs(z).max(), np.abs(z_sum).max()) < 4.5):
        raise RuntimeError("the draws fail a check: run longer chains.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--draws", type=int, default=6000)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=PATH)
    arguments = parser.parse_args()

    draws, scores = sample(
        wine_target(), arguments.chains, arguments.draws, arguments.warmup, arguments.seed
    )
    centred = draws - draws.mean(axis=(0, 1))
    rhat = np.maximum(split_rhat(draws), split_rhat(centred**2))
    check(draws, scores, rhat)
    size, size_of_squares = ess(draws, rank=False), ess(centred**2, rank=False)
    print(f"least ESS {size.min():.0f}, of squares {size_of_squares.min():.0f}")
    flat = draws.reshape(-1, draws.shape[2])
    np.savez_compressed(
        arguments.output,
        model="softmax",
        prior_sd=PRIOR_SD,
        mean=flat.mean(axis=0),
        sd=flat.std(axis=0),
        cov=np.cov(flat, rowvar=False, bias=True),
        ess=size,
        ess_sq=size_of_squares,
        rhat=rhat,
        n_chains=arguments.chains,
        n_draws=arguments.draws,
    )
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
