"""A million rows through ``partial_fit``: error, memory and time by chunk.

Rows of a logistic regression come in chunks of 10,000 that are made on the spot and forgotten.
After the first pass, and after one further pass over the same rows (``n_total``), the table gives
the error of the posterior mean (root mean square over coordinates and worst coordinate, in
posterior standard deviations) and the ratio of standard deviations, against the Gaussian at the
mode of all rows; at this size the posterior is within a hundredth of a standard deviation of it.

Sorted streams bring the rows of one class after those of the other (``--sorted``).

Usage::

    python examples/benchmarks/streaming.py --dims 4 10 --seeds 0 1
"""

import argparse
import time
import tracemalloc
import warnings

import numpy as np
from scipy.special import expit

from skstein import BayesianLogisticRegression
from skstein.inference import PMD
from skstein.priors import Normal
from skstein.targets import LogisticTarget, laplace_approximation

N_CHUNKS, CHUNK = 100, 10_000


def make_chunk(seed, number, dim):
    """Rows of one chunk; the coefficients belong to the seed."""
    coef = np.random.default_rng([seed, dim]).standard_normal(dim - 1)
    rng = np.random.default_rng([seed, dim, number])
    X = rng.standard_normal((CHUNK, dim - 1))
    return X, (rng.random(CHUNK) < expit(0.5 + X @ coef)).astype(int)


def chunks(seed, dim, by_class):
    made = (make_chunk(seed, number, dim) for number in range(N_CHUNKS))
    if not by_class:
        return made
    X, y = (np.concatenate(parts) for parts in zip(*made, strict=True))
    order = np.argsort(y, kind="stable")
    return zip(np.split(X[order], N_CHUNKS), np.split(y[order], N_CHUNKS), strict=True)


def all_rows(seed, dim):
    """Mean and standard deviations of the Gaussian at the mode of all rows."""
    X, y = (np.concatenate(parts) for parts in zip(*chunks(seed, dim, False), strict=True))
    target = LogisticTarget(X, y, prior=Normal(1.0), intercept_prior=Normal(10.0))
    fit = laplace_approximation(target)
    root = fit.bijection.matrix
    return fit.bijection.offset, np.sqrt(np.sum(root**2, axis=1))


def compare(model, mean, std):
    gap = (model.posterior_.mean() - mean) / std
    return np.sqrt(np.mean(gap**2)), np.abs(gap).max(), np.mean(model.posterior_.std() / std)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dims", nargs="+", type=int, default=[4, 10])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--n-particles", type=int, default=1000)
    parser.add_argument("--sorted", action="store_true", help="one class after the other")
    arguments = parser.parse_args()
    print("dim seed  pass    mean   worst     sd  ms a chunk: early  late  peak MB  warned")
    for dim in arguments.dims:
        for seed in arguments.seeds:
            mean, std = all_rows(seed, dim)
            engine = PMD(arguments.n_particles, n_total=N_CHUNKS * CHUNK)
            model = BayesianLogisticRegression(engine, standardize=False, random_state=seed)
            for number in (1, 2):
                seconds, warned = [], 0
                tracemalloc.start()
                for X, y in chunks(seed, dim, arguments.sorted):
                    start = time.perf_counter()
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        model.partial_fit(X, y, classes=[0, 1])
                    seconds.append(time.perf_counter() - start)
                    warned = len(caught)
                peak = tracemalloc.get_traced_memory()[1] / 2**20
                tracemalloc.stop()
                error, worst, ratio = compare(model, mean, std)
                early, late = np.mean(seconds[5:25]) * 1e3, np.mean(seconds[-20:]) * 1e3
                print(
                    f"{dim:>3}{seed:>5}{number:>6}{error:>8.3f}{worst:>8.3f}{ratio:>7.3f}"
                    f"{early:>19.0f}{late:>6.0f}{peak:>9.0f}{warned:>8}"
                )


if __name__ == "__main__":
    main()
