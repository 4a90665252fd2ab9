"""Make the gold posteriors of softmax regression: ``tests/data/gold_{wine,digits}_softmax.npz``.

Wine: the 13 features, standardised. Digits: the first 10 principal components of the pixels, each
divided by its standard deviation. All rows are used, as float32 values; every class has its own
intercept and coefficients (42 and 110 coordinates), each with a standard normal prior. The moments
come from long Hamiltonian chains in coordinates whitened by the Laplace approximation.

Three checks are printed. Split R-hat says whether the chains agree. Stein's identities
E[score_j] = 0 and E[(theta_j - mean_j) score_j] = -1 tie the draws to the density itself; their
deviations are divided by their Monte Carlo errors. And the posterior can be shifted along each
direction that adds the same to every class, where the likelihood is flat: the sum over the classes
is normal with variance K whatever the data, so its moments are known exactly.

Usage::

    python examples/benchmarks/make_softmax_gold.py wine digits
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from skstein.diagnostics import ess, split_rhat
from skstein.priors import Normal
from skstein.samplers import HMC
from skstein.targets import SoftmaxTarget, Transformed, laplace_approximation

FOLDER = Path(__file__).parents[2] / "tests" / "data"
PRIOR_SD = 1.0


def data(name):
    """Standardised features, as float32 values, and labels."""
    X, y = (load_wine if name == "wine" else load_digits)(return_X_y=True)
    if name == "digits":
        X = PCA(10, svd_solver="full").fit_transform(X)
    return StandardScaler().fit_transform(X).astype(np.float32), y


def sample(target, n_chains, n_draws, n_warmup, seed):
    """Draws and scores in the target's own coordinates, each of shape (chains, draws, dim)."""
    rng = np.random.default_rng(seed)
    frame = laplace_approximation(target).bijection
    white = Transformed(target, frame)
    start = rng.standard_normal((n_chains, target.dim))
    sampler = HMC()
    chains = sampler.warm_up(white, n_warmup, start, rng)
    _, draws, scores, acceptance = sampler.draw(white, n_draws, chains)
    print(f"acceptance {acceptance:.3f}, step size {chains.step_size:.2f}")
    flat, flat_scores = draws.reshape(-1, target.dim), scores.reshape(-1, target.dim)
    return (
        frame.forward(flat).reshape(draws.shape),
        frame.push_score(flat, flat_scores).reshape(draws.shape),
    )


def z_score(values, truth):
    """(mean - truth) / Monte Carlo error, per coordinate of ``values`` (chains, draws, dim)."""
    mean, sd = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    return (mean - truth) / (sd / np.sqrt(ess(values, rank=False)))


def check(draws, scores, rhat, n_classes):
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


def make(name, arguments):
    """Sample one posterior, check it and write its file."""
    X, y = data(name)
    n_classes, prior = len(np.unique(y)), Normal(PRIOR_SD)
    target = SoftmaxTarget(X, y, n_classes=n_classes, prior=prior, intercept_prior=prior)
    print(f"{name}: {target.dim} coordinates")
    draws, scores = sample(
        target, arguments.chains, arguments.draws, arguments.warmup, arguments.seed
    )
    centred = draws - draws.mean(axis=(0, 1))
    rhat = np.maximum(split_rhat(draws), split_rhat(centred**2))
    check(draws, scores, rhat, n_classes)
    size, size_of_squares = ess(draws, rank=False), ess(centred**2, rank=False)
    print(f"least ESS {size.min():.0f}, of squares {size_of_squares.min():.0f}")
    flat = draws.reshape(-1, draws.shape[2])
    path = FOLDER / f"gold_{name}_softmax.npz"
    np.savez_compressed(
        path,
        X_std=X,
        y=y,
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
    print(f"wrote {path.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=["wine", "digits"])
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.names:
        make(name, arguments)


if __name__ == "__main__":
    main()
