"""Digits in the plane of a curve of networks: how well few points stand for the posterior.

After sections 4.3 and 7.3 of Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with
kernelized Stein discrepancy". A network of one hidden layer of 5 units is trained, for 100 epochs,
on 100 digits with noise added to the pixels, under a wide prior (scale 30), so that the posterior
in the plane is wide: predictions at its mode are far from the posterior's. With the default prior
of scale 3 they are not, because hundreds of weights together hold networks near the origin, and in
a plane all good networks predict nearly the same (--scale 3).

The reference is a long run of Hamiltonian Monte Carlo in the plane. Points of a shorter run, all of
them or thinned by KSD or evenly, are compared with it on test digits, as are the mode and the
particles of mirror descent:

agreement  share of rows with the same most probable class
TV         mean total variation between predictive distributions
error, ECE accuracy and calibration, of the reference too

Usage::

    python examples/benchmarks/curve_subspace.py [--seeds 0 1 2] [--scale 30]
"""

import argparse
import warnings

import numpy as np
from scipy.special import logsumexp
from sklearn.datasets import load_digits

from skstein.inference import PMD, Ensemble, KSDThinnedMCMC, infer
from skstein.inference.networks.curve import curve_middle, curve_plane
from skstein.metrics import agreement, expected_calibration_error, total_variation
from skstein.outcomes import Categorical
from skstein.priors import Normal
from skstein.targets.networks.mlp import MLPTarget
from skstein.targets.subspace import Subspace
from skstein.thinning import OnlineKSDThinner

N_TRAIN, NOISE, HIDDEN, EPOCHS = 100, 2.0, 5, 100
N_SHORT, N_LONG = 250, 2500  # draws of each of eight chains


def setting(seed, scale):
    """The target in the plane, and test rows."""
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    X = (X + NOISE * rng.normal(size=X.shape)) / 8.0 - 0.6
    order = rng.permutation(len(y))
    train, test = order[:N_TRAIN], order[N_TRAIN:]
    target = MLPTarget(
        X[train],
        y[train],
        outcome=Categorical(10),
        hidden_layer_sizes=(HIDDEN,),
        prior=Normal(scale),
        dtype=np.float64,
    )
    ends = Ensemble(2, max_iter=EPOCHS, batch_size=None).run(target, rng).particles
    middle = curve_middle(target, ends[0], ends[1], rng)
    plane = Subspace(target, *curve_plane(ends[0], middle, ends[1], target.n_weights))
    return plane, X[test], y[test]


def predict(plane, phi, X, weights=None):
    logits = plane.target.network.outputs(plane.forward(phi), X)
    log_proba = logits - logsumexp(logits, axis=2, keepdims=True)
    return np.average(np.exp(log_proba), axis=0, weights=weights)


def chain(plane, seed, **options):
    engine = KSDThinnedMCMC(sampler="hmc", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return infer(plane, engine, random_state=seed)


def compare(seed, scale):
    """(agreement, TV, error, ECE) of every set of points, by name."""
    plane, X, y = setting(seed, scale)
    long = chain(plane, seed, n_draws=N_LONG, max_draws=N_LONG)
    draws = np.concatenate(long.state.draws, axis=1).reshape(-1, plane.dim)
    whitening = long.whitening
    draws = draws if whitening is None else whitening.forward(draws)
    truth = predict(plane, draws[::4], X)
    short = chain(plane, 1000 + seed, n_draws=N_SHORT, max_draws=N_SHORT)
    white = np.concatenate(short.state.draws, axis=1)
    phi = short.whitening.forward(white.reshape(-1, plane.dim)).reshape(white.shape)
    scores = short.whitening.pull_score(
        white.reshape(-1, plane.dim), plane.score(phi.reshape(-1, plane.dim))
    ).reshape(white.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pmd = infer(plane, PMD(), random_state=seed)
    mode = draws[np.argmax(plane.log_density(draws))][None]
    results = {"reference": truth, "mode": predict(plane, mode, X)}
    flat = np.swapaxes(phi, 0, 1).reshape(-1, plane.dim)
    results[f"all {len(flat)}"] = predict(plane, flat, X)
    for n_points in (10, 20, 50):
        thinner = OnlineKSDThinner(n_points=n_points).partial_fit(white, scores)
        kept = short.whitening.forward(thinner.samples_)
        results[f"KSD {n_points}"] = predict(plane, kept, X)
        even = flat[np.linspace(0, len(flat) - 1, n_points).round().astype(int)]
        results[f"even {n_points}"] = predict(plane, even, X)
    results[f"PMD {len(pmd)}"] = predict(plane, pmd.particles, X, pmd.weights)
    return {
        name: (
            agreement(proba, truth),
            total_variation(proba, truth),
            np.mean(proba.argmax(axis=1) != y),
            expected_calibration_error(y, proba),
        )
        for name, proba in results.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--scale", type=float, default=30.0)
    args = parser.parse_args()
    runs = [compare(seed, args.scale) for seed in args.seeds]
    print(f"mean over {len(runs)} seeds")
    print(f"{'points':12}{'agreement':>11}{'TV':>9}{'error':>9}{'ECE':>9}")
    for name in runs[0]:
        values = np.mean([run[name] for run in runs], axis=0)
        print(f"{name:12}{values[0]:11.4f}{values[1]:9.4f}{values[2]:9.4f}{values[3]:9.4f}")


if __name__ == "__main__":
    main()
