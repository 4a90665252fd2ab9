"""The simulation of section 7.2 in Tran, Tseng & Kohn, "Particle mean field variational Bayes".

Twenty correlated normal features, of which ten matter; 100,000 rows to train on and 10,000 to test
on; two hidden layers of 20 units. The partial predictive score (PPS) is minus the mean log density
of test outcomes without the constant log(2 pi) / 2; the noise alone, of variance 1, has 0.5. The
paper's table 1 has 2.06 (mean squared error) and 0.86 for its method, of which the best run's
validation score is 0.82; the second best, preconditioned SGLD, has 3.15 and 1.07.

``initial`` is algorithm 2 as far as it runs, from small random weights with the adaptive drift and
random blocks of a tenth, without trained networks to start from.

Usage::

    python examples/benchmarks/pmfvb_network.py [--methods ensemble ksd-mcmc pmfvb initial]
        [--seeds 0 1] [--rows 100000]
"""

import argparse
import time
import warnings

import numpy as np

from skstein import BayesianMLPRegressor
from skstein.inference import AdaptivePMFVB


def simulate(n, rng):
    """Features (n, 20) and outcomes (n,)."""
    lag = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    X = rng.multivariate_normal(np.zeros(20), 0.5**lag, size=n, method="cholesky")
    x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = X[:, :10].T
    mean = 5 + 10 * x1 + 10 / (x2**2 + 1) + 5 * x3 * x4 + 2 * x4 + 5 * x4**2 + 5 * x5 + 2 * x6
    mean += 10 / (x7**2 + 1) + 5 * x8 * x9 + 5 * x9**2 + 5 * x10
    return X, mean + rng.normal(size=n)


def model(method, seed, n_networks):
    options = {"n_networks": n_networks, "random_state": seed}
    if method == "initial":
        engine = AdaptivePMFVB(
            n_networks,
            block_fraction=0.1,
            step_size=1e-3,
            drift=100.0,
            max_iter=5000,
            preconditioned=False,
        )
        return BayesianMLPRegressor((20, 20), inference=engine, max_iter=1, **options).set_params(
            learning_rate_init=1e-12
        )
    return BayesianMLPRegressor((20, 20), inference=method, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--methods", nargs="+", default=["ksd-mcmc"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--networks", type=int, default=20)
    args = parser.parse_args()
    print(f"{'method':12}{'seed':>5}{'MSE':>9}{'PPS':>9}{'cover':>8}{'seconds':>9}")
    for seed in args.seeds:
        rng = np.random.default_rng(seed)
        X, y = simulate(args.rows, rng)
        X_test, y_test = simulate(10_000, rng)
        for method in args.methods:
            reg = model(method, seed, args.networks)
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reg.fit(X, y)
            seconds = time.process_time() - start
            error = np.mean((reg.predict(X_test) - y_test) ** 2)
            score = -reg.log_predictive(X_test, y_test).mean() - 0.5 * np.log(2 * np.pi)
            low, high = reg.predict_interval(X_test, 0.9).T
            cover = np.mean((low <= y_test) & (y_test <= high))
            print(
                f"{method:12}{seed:5}{error:9.3f}{score:9.3f}{cover:8.3f}{seconds:9.1f}", flush=True
            )


if __name__ == "__main__":
    main()
