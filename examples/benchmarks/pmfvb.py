"""
PMFVB: its bound, many rows by minibatches, and what two workers save.

Three parts, each by name: ``bound`` compares the approximate evidence bound with importance
sampling on breast cancer. ``rows`` fits 500,000 rows of 51 columns by minibatches with control
variates of both orders, and by all rows, against importance-weighted draws around the mode (or,
with ``--hmc``, a long HMC run); printed are errors in posterior standard deviations, times relative
to Newton's method for the mode, ours from zero and scikit-learn's, and memory. ``parallel`` times
serial runs against ``n_jobs=2`` over a grid of sizes, beside two copies of the serial run at once,
which tells whether the machine has a second core to spare.

Run: python examples/benchmarks/pmfvb.py [bound] [rows] [parallel] [--hmc]
"""

import argparse
import resource
import time
import warnings
from multiprocessing import get_context

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_t
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from skstein import infer
from skstein._tools.parallel import make_map, one_thread
from skstein.diagnostics import mcse_mean, split_rhat
from skstein.inference import PMFVB
from skstein.priors import Normal
from skstein.samplers import HMC
from skstein.targets import LogisticTarget, Transformed, laplace_approximation


def regression(n, p, seed=0):
    """Correlated features, and classes that coefficients leave open."""
    rng = np.random.default_rng(seed)
    mix = np.eye(p) + 0.5 * np.tril(rng.normal(size=(p, p)), -1) / np.sqrt(p)
    X = rng.normal(size=(n, p)) @ mix.T
    eta = 0.3 + X @ (rng.normal(size=p) / np.sqrt(p))
    return X, (eta + rng.logistic(size=n) > 0).astype(float)


def quietly(target, engine, seed=0):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = infer(target, engine, random_state=seed)
    return posterior, len(caught)


def importance(target, location, covariance, n_draws, seed=0):
    """Log evidence, mean, standard deviations and effective sample size, from a multivariate t."""
    proposal = multivariate_t(location, covariance, df=50, seed=seed)
    theta = proposal.rvs(n_draws)
    log_weights = target.log_density(theta) - proposal.logpdf(theta)
    weights = np.exp(log_weights - logsumexp(log_weights))
    mean = weights @ theta
    sd = np.sqrt(weights @ (theta - mean) ** 2)
    return logsumexp(log_weights) - np.log(n_draws), mean, sd, 1 / np.sum(weights**2)


def bound():
    X, y = load_breast_cancer(return_X_y=True)
    prior = Normal(1.0)
    target = LogisticTarget(scale(X), y.astype(float), prior=prior, intercept_prior=prior)
    many = quietly(target, PMFVB(1000))[0]
    evidence, *_, size = importance(target, many.mean(), many.cov(), 20_000)
    print(f"breast cancer: log evidence {evidence:.2f} (effective sample size {size:.0f})")
    cases = {
        "one block": {},
        "two blocks": {"blocks": 2},
        "a block a coordinate": {"blocks": 31},
        "  re-whitened": {"blocks": 31, "rewhiten": True},
        "two blocks, subsets of 10": {"blocks": 2, "coupling": "subset"},
    }
    for label, options in cases.items():
        found = [
            quietly(target, PMFVB(**options), seed)[0].diagnostics["elbo"] for seed in range(3)
        ]
        gaps = ", ".join(f"{value - evidence:+.2f}" for value in found)
        print(f"  {label:27} bound less evidence, three seeds: {gaps}")


def memory():
    """Most memory that the process has held so far, in gigabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def rows(by_hmc):
    X, y = regression(500_000, 50)
    target = LogisticTarget(X, y)
    newton, peer = np.inf, np.inf
    for _ in range(3):
        start = time.process_time()
        laplace = laplace_approximation(target, target.initial)
        newton = min(newton, time.process_time() - start)
        start = time.process_time()
        LogisticRegression(solver="newton-cholesky", tol=1e-8).fit(X, y)
        peer = min(peer, time.process_time() - start)
    covariance = np.linalg.inv(laplace.hessian)
    print(
        f"500,000 x 51: Newton's method from zero in {newton:.2f} s, {laplace.n_iter} iterations; "
        f"scikit-learn's newton-cholesky in {peer:.2f} s; memory {memory():.2f} GB"
    )
    if by_hmc:
        mean, sd = long_run(target, laplace)
    else:
        _, mean, sd, size = importance(target, laplace.mode, covariance, 4000)
        print(f"  importance weights: effective sample size {size:.0f} of 4000")
    cases = {
        "first order, 1000 rows": PMFVB(batch_size=1000, control_variate=1),
        "second order, 1000 rows": PMFVB(batch_size=1000, control_variate=2),
        "second order, 200 rows": PMFVB(batch_size=200, control_variate=2),
        "all rows, 50 particles": PMFVB(50, n_snapshots=20),
    }
    head = f"{'error':>7}{'worst':>7}{'sd':>7}{'[min':>7}{'max]':>6}{'time/Newton':>13}{'/peer':>7}"
    print(f"  {'':24}{head}")
    for label, engine in cases.items():
        start = time.process_time()
        posterior, warned = quietly(target, engine)
        took = time.process_time() - start
        error, ratio = (posterior.mean() - mean) / sd, posterior.std() / sd
        print(
            f"  {label:24}{np.sqrt(np.mean(error**2)):7.3f}{np.abs(error).max():7.3f}"
            f"{ratio.mean():7.3f}{ratio.min():7.2f}{ratio.max():6.2f}{took / newton:13.1f}"
            f"{took / peer:7.1f}   {warned} warnings, memory {memory():.2f} GB",
            flush=True,
        )


def long_run(target, laplace, n_chains=8, n_draws=400, seed=0):
    """Mean and standard deviations by HMC in whitened coordinates."""
    working = Transformed(target, laplace.bijection)
    rng, sampler = np.random.default_rng(seed), HMC()
    chains = sampler.warm_up(working, 50, working.sample_start(rng, n_chains), rng)
    chains, draws, *_ = sampler.draw(working, n_draws, chains)
    error = (mcse_mean(draws) / draws.reshape(-1, target.dim).std(axis=0)).max()
    print(f"  HMC: R-hat {split_rhat(draws).max():.4f}, error of means {error:.3f} sd at most")
    theta = laplace.bijection.forward(draws.reshape(-1, target.dim))
    return theta.mean(axis=0), theta.std(axis=0)


def engine_seconds(n, p, m, n_jobs, repeats=4):
    """Of one iteration, the best of several runs for each number of jobs, taken in turns.

    The engine alone, without the search for the mode and the check at the end of a fit.
    """
    target = LogisticTarget(*regression(n, p))
    working = Transformed(target, laplace_approximation(target).bijection)
    iterations = int(np.clip(3e8 / (n * p * m), 6, 60))
    engine = PMFVB(m, n_warmup=24, max_iter=iterations, tol=1e-9)
    best = dict.fromkeys(n_jobs, np.inf)
    with one_thread():
        for _ in range(repeats):
            for jobs in n_jobs:
                start = time.perf_counter()
                engine.run(working, np.random.default_rng(0), map=make_map(jobs))
                best[jobs] = min(best[jobs], time.perf_counter() - start)
    return [best[jobs] / iterations for jobs in n_jobs]


def parallel():
    print("time of an iteration with n_jobs=2 to that of serial, and of two serial runs at once to")
    print("that of one: 1 with two idle cores, 2 without a second one")
    print(
        f"{'rows':>8}{'columns':>9}{'particles':>11}{'serial, ms':>12}{'n_jobs=2':>10}{'copies':>8}"
    )
    context = get_context("spawn")
    for n, p in ((500, 4), (500, 30), (5000, 30), (50_000, 10)):
        for m in (50, 200, 1000):
            serial, both = engine_seconds(n, p, m, (1, 2))
            with context.Pool(2) as pool:
                copies = max(pool.starmap(engine_seconds, [(n, p, m, (1,))] * 2))[0]
            print(
                f"{n:8}{p:9}{m:11}{1000 * serial:12.2f}{both / serial:10.2f}{copies / serial:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("parts", nargs="*", choices=["bound", "rows", "parallel", []])
    parser.add_argument("--hmc", action="store_true", help="a long HMC run as the reference")
    arguments = parser.parse_args()
    parts = arguments.parts or ["bound", "rows", "parallel"]
    if "bound" in parts:
        bound()
    if "rows" in parts:
        rows(arguments.hmc)
    if "parallel" in parts:
        parallel()
