"""Half a million rows: what a posterior costs in units of scikit-learn's Newton solver.

Logistic regression on 500,000 rows and 51 features that are drawn anew for every seed. The unit is
`LogisticRegression(solver="newton-cholesky")` on the same rows, the least of three solves in the
same process; everything is processor time. The truth are importance weights from the Gaussian at
the mode, in pairs of mirror images: at this size they are nearly equal. For each engine: its cost
in Newtons, the error of the means (root mean square over coordinates, and the worst) in posterior
standard deviations, the standard deviations' ratio (mean, least, largest), the rows of a surrogate
and the error of its log density, and whether the fit warned.

With ``--covertype``, the same on covertype (581,012 rows, rare categories, one-sided coefficients)
for the surrogate alone. The truth are twelve times as many draws of the same chains on fifty
thousand rows, with an error of the log density of a thousandth.

Usage::

    OMP_NUM_THREADS=1 python examples/benchmarks/large_data.py --seeds 0 1 [--covertype]
"""

import argparse
import time
import warnings

import numpy as np
from covertype import load
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skstein import BayesianLogisticRegression
from skstein.inference import FWSS, MCMC, PMFVB, SVGD, LaplaceDraws
from skstein.targets import LogisticTarget, laplace_approximation

N_ROWS, N_FEATURES = 500_000, 51
N_TRUE = 2000  # draws that are weighted
ENGINES = {
    "laplace": LaplaceDraws(),
    "svgd, minibatch": SVGD(batch_size=1000),
    "pmfvb, minibatch": PMFVB(batch_size=1000),
    "mcmc, surrogate": MCMC(surrogate="auto"),
    "svgd, surrogate": SVGD(surrogate="auto"),
    "pmfvb, surrogate": PMFVB(surrogate="auto"),
    "fwss, surrogate": FWSS(surrogate="auto"),
}
LONG = MCMC(surrogate=50_000, n_draws=3600, max_draws=3600, n_warmup=400)


def rows_of(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    coef = rng.standard_normal(N_FEATURES) / np.sqrt(N_FEATURES)
    return X, (rng.random(N_ROWS) < expit(0.3 + X @ coef)).astype(int)


def timed(function):
    """Processor seconds of a call, what it returns, and whether it warned."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    return time.process_time() - start, result, bool(caught)


def newton(X, y):
    X = StandardScaler().fit_transform(X)
    solver = LogisticRegression(solver="newton-cholesky")
    return min(timed(lambda: solver.fit(X, y))[0] for _ in range(3))


def weighted_moments(X, y, seed):
    """Mean and standard deviation of the posterior, in the units of X, intercept first."""
    center, scale = X.mean(axis=0), X.std(axis=0)
    target = LogisticTarget(X, y, center=center, scale=scale)
    laplace = laplace_approximation(target)
    half = np.random.default_rng([seed, 1]).standard_normal((N_TRUE // 2, target.dim))
    z = np.concatenate([half, -half])
    theta = laplace.bijection.forward(z)
    log_weights = target.log_density(theta) + 0.5 * np.sum(z**2, axis=1)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    # By how much weights change the moments of these draws, from those of the Gaussian.
    change = weights - 1.0 / N_TRUE
    mean = laplace.mode + change @ theta
    second = np.sqrt(laplace.variances() + change @ (theta - laplace.mode) ** 2)
    # The intercept of the features as they are has the covariance of all.
    root = laplace.bijection.matrix.copy()
    root[0] -= (center / scale) @ root[1:]
    mean[0] -= (center / scale) @ mean[1:]
    std = np.append(np.sqrt(np.sum(root[0] ** 2)), second[1:] / scale)
    return np.append(mean[0], mean[1:] / scale), std


def row(name, seconds, unit, posterior, mean, std, warned):
    gap, ratio = (posterior.mean() - mean) / std, posterior.std() / std
    error = posterior.diagnostics.get("surrogate_error", np.nan)
    print(
        f"{name:18}{seconds / unit:9.1f}{np.sqrt(np.mean(gap**2)):8.3f}{np.abs(gap).max():8.3f}"
        f"{ratio.mean():8.3f}{ratio.min():7.3f}{ratio.max():7.3f}"
        f"{posterior.diagnostics.get('surrogate_rows', 0):9d}{error:7.3f}{warned:8d}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--covertype", action="store_true")
    arguments = parser.parse_args()
    print(
        "engine              newtons   means   worst      sd  least   most     rows  error  warned"
    )
    if arguments.covertype:
        X, y = load()
        unit = newton(X, y)
        long = BayesianLogisticRegression(LONG, random_state=1000)
        _, model, _ = timed(lambda: long.fit(X, y))
        mean, std = model.posterior_.mean(), model.posterior_.std()
        print(f"R-hat of the long run {model.posterior_.diagnostics['rhat'].max():.4f}", flush=True)
    for seed in arguments.seeds:
        engines = arguments.engines
        if arguments.covertype:
            engines = ["mcmc, surrogate"]
        else:
            X, y = rows_of(seed)
            unit = newton(X, y)
            mean, std = weighted_moments(X, y, seed)
        print(f"seed {seed}: Newton {unit:.2f} s", flush=True)
        for name in engines:
            model = BayesianLogisticRegression(ENGINES[name], random_state=seed)
            seconds, model, warned = timed(lambda: model.fit(X, y))  # noqa: B023
            row(name, seconds, unit, model.posterior_, mean, std, warned)


if __name__ == "__main__":
    main()
