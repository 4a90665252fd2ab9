"""Thinning of one set of Hamiltonian draws by skstein and by its peers, against gold posteriors.

Four chains of 5000 draws are thinned to 100 points by every method. The table gives the error of
the mean (root mean square over coordinates and worst coordinate, in gold standard deviations), the
ratio of standard deviations (mean, least, greatest), the error of the 5, 50 and 95 % points of
coordinates and of 20 linear combinations (root mean square in standard deviations; for gold files
with quantiles) and the seconds of the processor; beneath stand the ratios of times and errors
measured in this run.

Peers that are not installed are skipped: ``pip install skstein[peers]``; goodpoints is compiled on
installation. stein-thinning is given the draws as they are, and standardises them. Compress++ of
goodpoints returns the square root of a power of four: 128 points, of the last 16,384 draws, here
whitened; g is its oversampling.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/thinning.py --seeds 0 1 2

SKSTEIN_DATA names a folder with ``gold/*.npz``; without it the posteriors of ``tests/data`` are
used.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from gold import accuracy, kind_of, load

from skstein import ParticlePosterior
from skstein.posterior import weighted_quantile
from skstein.priors import Normal
from skstein.samplers import HMC
from skstein.targets import Transformed, laplace_approximation
from skstein.thinning import (
    OnlineKSDThinner,
    backward_thin,
    balanced_thin,
    match_moments,
    stein_kernel_thin,
    stein_thin,
)

N_CHAINS, N_DRAWS, N_WARMUP = 4, 5000, 300
N_POINTS, N_COMPRESSED = 100, 128


def draw(name, gold, seed):
    """Draws and scores (chains, draws, dim), names of the target's coordinates, and seconds."""
    prior = Normal(float(gold["prior_sd"]))
    options = {"n_classes": len(np.unique(gold["y"]))} if name.endswith("softmax") else {}
    target = kind_of(name)[1](
        gold["X_std"], gold["y"], prior=prior, intercept_prior=prior, **options
    )
    start = time.process_time()
    frame = laplace_approximation(target).bijection
    white = Transformed(target, frame)
    rng, sampler = np.random.default_rng(seed), HMC()
    chains = sampler.warm_up(white, N_WARMUP, rng.standard_normal((N_CHAINS, target.dim)), rng)
    _, z, scores, _ = sampler.draw(white, N_DRAWS, chains)
    flat, flat_scores = z.reshape(-1, target.dim), scores.reshape(-1, target.dim)
    x, s = frame.forward(flat), frame.push_score(flat, flat_scores)
    return x.reshape(z.shape), s.reshape(z.shape), target.names, time.process_time() - start


def in_turn(chains):
    return chains.swapaxes(0, 1).reshape(-1, chains.shape[2])


def every_kth(x, s):
    return in_turn(x)[:: N_CHAINS * N_DRAWS // N_POINTS]


def balanced(x, s, n_points=N_POINTS):
    return in_turn(x)[balanced_thin(x, n_points)]


def greedy(x, s):
    return in_turn(x)[stein_thin(x, s, N_POINTS)]


def backward(x, s):
    """From every tenth draw."""
    x, s = in_turn(x)[::10], in_turn(s)[::10]
    return x[backward_thin(x, s, N_POINTS)]


def online(x, s, n_points=N_POINTS, **options):
    return OnlineKSDThinner(n_points, **options).fit(x, s)


def exchanged(x, s):
    """The last tenth of the draws once more: each is tried for every kept point."""
    return online(x, s).partial_fit(x[:, -N_DRAWS // 10 :], s[:, -N_DRAWS // 10 :]).samples_


def merged(x, s):
    first, *others = (online(chain, scores) for chain, scores in zip(x, s, strict=True))
    for other in others:
        first.merge(other)
    return first.samples_


def matched(x, points):
    draws = in_turn(x)
    return match_moments(points, draws.mean(axis=0), np.cov(draws.T, bias=True))


def weighted(x, s):
    thinner = online(x, s, weights="stein")
    return thinner.samples_, thinner.weights_


METHODS = {
    "all draws": lambda x, s: in_turn(x),
    "every 200th draw": every_kth,
    "balanced_thin": balanced,
    "  128 points": lambda x, s: balanced(x, s, N_COMPRESSED),
    "OnlineKSDThinner": lambda x, s: online(x, s).samples_,
    "  spread=0": lambda x, s: online(x, s, spread=0).samples_,
    "  and match_moments": lambda x, s: matched(x, online(x, s).samples_),
    "  and weighted": weighted,
    "  and 2,000 draws again": exchanged,
    "  chain by chain, merged": merged,
    "  with 128 points": lambda x, s: online(x, s, N_COMPRESSED).samples_,
    "  128, match_moments": lambda x, s: matched(x, online(x, s, N_COMPRESSED).samples_),
    "stein_thin": greedy,
    "stein_kernel_thin": lambda x, s: in_turn(x)[stein_kernel_thin(x, s, N_POINTS, random_state=0)],
    "backward_thin": backward,
}


def peers():
    """Methods of the peers that are installed, by name; what is missing is said."""
    found = {}
    try:
        from stein_thinning.thinning import thin
    except ImportError:
        print("stein-thinning is not installed: skipped")
    else:
        for setting in ("id", "med", "smpcov"):
            found[f"stein-thinning {setting}"] = lambda x, s, setting=setting: in_turn(x)[
                thin(in_turn(x), in_turn(s), N_POINTS, preconditioner=setting)
            ]
    try:
        from goodpoints.compress import compresspp_kt
    except ImportError:
        print("goodpoints is not installed: skipped")
    else:

        def compress(x, s, g):
            x = in_turn(x)[-(N_COMPRESSED**2) :]
            root = np.linalg.cholesky(np.cov(x, rowvar=False))
            z = np.ascontiguousarray(np.linalg.solve(root, (x - x.mean(axis=0)).T).T)
            scale = np.array([2.0 * x.shape[1]])
            return x[compresspp_kt(z, b"gaussian", scale, g=g, seed=0)]

        for g in (0, 4):
            found[f"goodpoints g={g} (128)"] = lambda x, s, g=g: compress(x, s, g)
    return found


def quantile_errors(name, points, weights):
    """Root mean square errors of coordinates and of linear combinations, NaN without gold."""
    path = Path(os.environ.get("SKSTEIN_DATA", "."), "gold", "quantiles", f"{name}.npz")
    if not path.exists():
        return np.nan, np.nan
    with np.load(path) as gold:
        (levels,) = np.nonzero(np.isin(gold["probabilities"].round(3), [0.05, 0.5, 0.95]))
        q, sd, directions = gold["probabilities"][levels], gold["sd"], gold["directions"]
        found = (
            weighted_quantile(points / sd, weights, q),
            weighted_quantile(points @ directions, weights, q),
        )
        true = gold["coordinates"][levels] / sd, gold["predictors"][levels]
    return [np.sqrt(np.mean((a - b) ** 2)) for a, b in zip(found, true, strict=True)]


def run(method, x, s, names, gold, name):
    """One row of the table, as a dict."""
    start = time.process_time()
    result = method(x, s)
    seconds = time.process_time() - start
    points, weights = result if isinstance(result, tuple) else (result, None)
    posterior = ParticlePosterior(points, weights, names=names)
    error, ratio = accuracy(posterior, gold)
    coordinates, combinations = quantile_errors(name, points, posterior.weights)
    return {
        "mean_error": np.sqrt(np.mean(error**2)),
        "worst": np.abs(error).max(),
        "sd": ratio.mean(),
        "sd_min": ratio.min(),
        "sd_max": ratio.max(),
        "coordinates": coordinates,
        "combinations": combinations,
        "seconds": seconds,
    }


def compare(name, gold, methods, seeds):
    """Mean rows over seeds by method, and mean seconds of the chains."""
    rows, chain_seconds = {label: [] for label in methods}, []
    for seed in seeds:
        x, s, names, seconds = draw(name, gold, seed)
        chain_seconds.append(seconds)
        if seed == seeds[0]:
            # Compile before the clock starts.
            for method in methods.values():
                method(x[:, :500], s[:, :500])
        for label, method in methods.items():
            rows[label].append(run(method, x, s, names, gold, name))
    means = {
        label: {key: np.mean([row[key] for row in found]) for key in found[0]}
        for label, found in rows.items()
    }
    return means, np.mean(chain_seconds)


def print_ratios(rows, chain_seconds):
    for label in ("balanced_thin", "OnlineKSDThinner"):
        print(f"seconds: {label} / the chains {rows[label]['seconds'] / chain_seconds:.3f}")
    for peer, ours in (
        ("goodpoints g=0 (128)", "  128 points"),
        ("goodpoints g=4 (128)", "  128 points"),
        ("goodpoints g=4 (128)", "  with 128 points"),
        ("stein-thinning smpcov", "balanced_thin"),
        ("stein-thinning smpcov", "OnlineKSDThinner"),
    ):
        if peer in rows:
            print(f"{peer} / {ours.strip()}:", end="")
            for key in ("seconds", "mean_error", "coordinates", "combinations"):
                print(f" {key} {rows[peer][key] / rows[ours][key]:.2f}", end="")
            print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--names", nargs="+", default=["breast_cancer_logistic"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", help="only methods whose names begin like these")
    arguments = parser.parse_args()
    # A method that misses the moments is part of the comparison.
    warnings.simplefilter("ignore")
    methods = {**METHODS, **peers()}
    if arguments.methods:
        wanted = tuple(arguments.methods)
        methods = {k: m for k, m in methods.items() if k.strip().startswith(wanted)}
    for name in arguments.names:
        gold = load(name)
        if gold is None:
            print(f"{name}: absent, set SKSTEIN_DATA to a folder that holds gold/{name}.npz")
            continue
        possible = dict(methods)
        if 2 * gold["mean"].size > N_POINTS:
            possible.pop("  and match_moments", None)
        rows, chain_seconds = compare(name, gold, possible, arguments.seeds)
        print(f"\n{name}: {gold['mean'].size} coordinates, chains in {chain_seconds:.2f} s")
        widths = {"mean_error": 11, "worst": 7, "sd": 7, "sd_min": 8, "sd_max": 8}
        widths |= {"coordinates": 12, "combinations": 13, "seconds": 9}
        print(" " * 28 + "".join(f"{key:>{width}}" for key, width in widths.items()))
        for label, row in rows.items():
            numbers = (f"{row[key]:{width}.3f}" for key, width in widths.items())
            print(f"{label:28}" + "".join(numbers))
        if set(METHODS) - {"  and match_moments"} <= set(rows):
            print_ratios(rows, chain_seconds)


if __name__ == "__main__":
    main()
