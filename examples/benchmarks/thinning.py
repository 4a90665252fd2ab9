"""Thinning of one set of Hamiltonian draws by skstein and by its peers, against gold posteriors.

Four chains of 5000 draws are thinned to 100 points by every method. The table gives the error of
the mean (root mean square over coordinates and worst coordinate, in gold standard deviations), the
ratio of standard deviations (mean, least, greatest) and the seconds; beneath stand the ratios of
times and errors measured in this run.

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
import time
import warnings

import numpy as np
from gold import accuracy, kind_of, load

from skstein import ParticlePosterior
from skstein.priors import Normal
from skstein.samplers import HMC
from skstein.targets import Whitened, laplace_approximation
from skstein.thinning import OnlineKSDThinner, backward_thin, stein_thin

N_CHAINS, N_DRAWS, N_WARMUP = 4, 5000, 300
N_POINTS, N_COMPRESSED = 100, 128


def draw(name, gold, seed):
    """Draws and scores (chains, draws, dim), names of the target's coordinates, and seconds."""
    prior = Normal(float(gold["prior_sd"]))
    options = {"n_classes": len(np.unique(gold["y"]))} if name.endswith("softmax") else {}
    target = kind_of(name)[1](
        gold["X_std"], gold["y"], prior=prior, intercept_prior=prior, **options
    )
    start = time.perf_counter()
    frame = laplace_approximation(target).bijection
    white = Whitened(target, frame.offset, frame.matrix)
    rng, sampler = np.random.default_rng(seed), HMC()
    chains = sampler.warm_up(white, N_WARMUP, rng.standard_normal((N_CHAINS, target.dim)), rng)
    _, z, scores, _ = sampler.draw(white, N_DRAWS, chains)
    flat, flat_scores = z.reshape(-1, target.dim), scores.reshape(-1, target.dim)
    x, s = frame.forward(flat), frame.push_score(flat, flat_scores)
    return x.reshape(z.shape), s.reshape(z.shape), target.names, time.perf_counter() - start


def in_turn(chains):
    return chains.swapaxes(0, 1).reshape(-1, chains.shape[2])


def every_kth(x, s):
    return in_turn(x)[:: N_CHAINS * N_DRAWS // N_POINTS]


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


def weighted(x, s):
    thinner = online(x, s, weights="stein")
    return thinner.samples_, thinner.weights_


METHODS = {
    "all draws": lambda x, s: in_turn(x),
    "every 200th draw": every_kth,
    "OnlineKSDThinner": lambda x, s: online(x, s).samples_,
    "  and recalibrated": lambda x, s: online(x, s, recalibrate=True).recalibrated_samples_,
    "  and weighted": weighted,
    "  and 2,000 draws again": exchanged,
    "  chain by chain, merged": merged,
    "  128 points": lambda x, s: online(x, s, N_COMPRESSED).samples_,
    "  128, recalibrated": lambda x, s: (
        online(x, s, N_COMPRESSED, recalibrate=True).recalibrated_samples_
    ),
    "stein_thin": greedy,
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


def run(method, x, s, names, gold):
    """One row of the table, as a dict."""
    start = time.perf_counter()
    result = method(x, s)
    seconds = time.perf_counter() - start
    points, weights = result if isinstance(result, tuple) else (result, None)
    error, ratio = accuracy(ParticlePosterior(points, weights, names=names), gold)
    return {
        "mean_error": np.sqrt(np.mean(error**2)),
        "worst": np.abs(error).max(),
        "sd": ratio.mean(),
        "sd_min": ratio.min(),
        "sd_max": ratio.max(),
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
            rows[label].append(run(method, x, s, names, gold))
    means = {
        label: {key: np.mean([row[key] for row in found]) for key in found[0]}
        for label, found in rows.items()
    }
    return means, np.mean(chain_seconds)


def print_ratios(rows, chain_seconds):
    ours = rows["OnlineKSDThinner"]
    print(f"seconds: OnlineKSDThinner / the chains {ours['seconds'] / chain_seconds:.2f}")
    for label, ours in (
        ("stein-thinning id", rows["OnlineKSDThinner"]),
        ("goodpoints g=4 (128)", rows["  128 points"]),
    ):
        if label in rows:
            peer = rows[label]
            print(
                f"{label} / OnlineKSDThinner: seconds {peer['seconds'] / ours['seconds']:.1f}, "
                f"mean error {peer['mean_error'] / ours['mean_error']:.2f}"
            )


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
            possible.pop("  and recalibrated", None)
        rows, chain_seconds = compare(name, gold, possible, arguments.seeds)
        print(f"\n{name}: {gold['mean'].size} coordinates, chains in {chain_seconds:.2f} s")
        print(f"{'':28}{'mean err':>9}{'worst':>7}{'sd':>7}{'[min':>7}{'max]':>7}{'seconds':>9}")
        for label, row in rows.items():
            print(
                f"{label:28}{row['mean_error']:9.3f}{row['worst']:7.3f}{row['sd']:7.3f}"
                f"{row['sd_min']:7.2f}{row['sd_max']:7.2f}{row['seconds']:9.3f}"
            )
        if {"OnlineKSDThinner", "  128 points"} <= set(rows):
            print_ratios(rows, chain_seconds)


if __name__ == "__main__":
    main()
