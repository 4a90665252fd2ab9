"""FWSS by blocks of coordinates (algorithm 4): what a second core is worth.

The seconds that it takes to place a particle against 100 others, with all coordinates together and
with two blocks of them on two threads, for 50 to 10,000 coordinates and two kinds of target: a
normal density, whose score costs next to nothing, and a logistic regression on 1000 rows, each
block of which needs the score of all coordinates. The last column is the control, two searches of
the first kind at the same time: what the machine has left for a second thread, 2 on idle cores.

Usage::

    python examples/benchmarks/fwss_blocks.py [--dims 50 500 5000]
"""

import argparse
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from skstein import LogDensity
from skstein._tools.parallel import make_map, one_thread
from skstein.inference import FWSS
from skstein.posterior import ParticlePosterior
from skstein.targets import LogisticTarget, Transformed

N_OTHERS, N_PLACED, N_ROWS = 100, 12, 1000


def targets(dim, rng):
    """Name and target, in coordinates in which it is about standard normal."""
    normal = LogDensity(lambda t: -0.5 * (t**2).sum(axis=1), score=lambda t: -t, dim=dim)
    X = rng.normal(size=(N_ROWS, dim - 1)) / np.sqrt(dim)
    logistic = LogisticTarget(X, (rng.random(N_ROWS) < 0.5).astype(float))
    return {"normal": Transformed(normal, None), "logistic": Transformed(logistic, None)}


def seconds(target, n_blocks, map):
    """Median over the particles placed, of the least of three runs: other work only adds to it."""
    runs = []
    for _ in range(3):
        rng, times = np.random.default_rng(0), []
        start = ParticlePosterior(rng.normal(size=(N_OTHERS, target.dim)))
        engine = FWSS(N_OTHERS + N_PLACED, n_blocks=n_blocks, n_sweeps=0)
        engine.run(
            target,
            rng,
            init=start,
            map=map,
            callback=lambda *_, times=times: times.append(time.perf_counter()),
        )
        runs.append(np.diff(times))
    return np.median(np.min(runs, axis=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dims", nargs="+", type=int, default=[50, 200, 1000, 3000, 10000])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    header = ("1 block", "2 blocks", "ratio", "2 threads", "ratio", "control")
    print("{:>7} {:10}{:>9}{:>10}{:>7}{:>11}{:>7}{:>9}".format("dim", "target", *header))
    with one_thread(), ThreadPoolExecutor(2) as pool:
        for dim in arguments.dims:
            for name, target in targets(dim, np.random.default_rng(dim)).items():
                seconds(target, 2, make_map(2))  # the routines are compiled
                one = seconds(target, 1, map)
                serial, threads = (seconds(target, 2, make_map(jobs)) for jobs in (1, 2))
                together = max(pool.map(lambda _: seconds(target, 1, map), range(2)))  # noqa: B023
                print(
                    f"{dim:7d} {name:10}{1e3 * one:7.2f}ms{1e3 * serial:8.2f}ms{one / serial:7.2f}"
                    f"{1e3 * threads:9.2f}ms{one / threads:7.2f}{2 * one / together:9.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
