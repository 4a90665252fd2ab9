"""Make the gold posteriors of counts and positive outcomes: ``tests/data/gold_outcomes.npz``.

The sampler is NumPyro's NUTS in float64, on densities that are written here once more. RAND:
visits to a physician, every tenth row of ``statsmodels.datasets.randhie``. Bicycles: rentals in
1,500 hours (``bikesharing.npz`` in the folder ``SKSTEIN_DATA``), with the hour as a circle.
Diabetes: the outcome of ``sklearn.datasets.load_diabetes``, which is positive. Features are
standardised; the intercept has a normal prior of scale 10, coefficients of scale 1, the square root
of alpha or of the dispersion a half Student t prior of 3 degrees of freedom and scale 1.

Kept are means, standard deviations, quantiles, effective sample sizes, and the rows of the first
two as float32 and int16.

Usage, where numpyro and statsmodels are installed::

    python examples/benchmarks/make_outcome_gold.py
"""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import statsmodels.api as sm
from jax.scipy.special import gammaln
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from sklearn.datasets import load_diabetes

FILE = Path(__file__).parents[2] / "tests" / "data" / "gold_outcomes.npz"
PROBABILITIES = np.array([0.05, 0.5, 0.95])
N_DIRECTIONS = 20


def standardized(X):
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)


def visits():
    table = sm.datasets.randhie.load_pandas().data.to_numpy()[::10]
    return standardized(table[:, 1:]), table[:, 0].astype(np.int16)


def bicycles():
    table = np.load(Path(os.environ["SKSTEIN_DATA"]) / "data" / "bikesharing.npz")
    rows = np.sort(np.random.default_rng(0).choice(len(table["y"]), 1500, replace=False))
    X, hour = table["X"][rows], 2.0 * np.pi * table["X"][rows, 3] / 24.0
    circle = np.column_stack([np.cos(hour), np.sin(hour), np.cos(2 * hour), np.sin(2 * hour)])
    return standardized(np.column_stack([np.delete(X, 3, axis=1), circle])), table["y"][
        rows
    ].astype(np.int16)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return standardized(X), y


def log_likelihood(family, eta, y, log_dispersion):
    """What ``y`` adds up to, given the logarithms of the means."""
    size = jnp.exp(-log_dispersion)
    if family == "poisson":
        return jnp.sum(y * eta - jnp.exp(eta) - gammaln(y + 1.0))
    if family == "negative_binomial":
        rising = gammaln(y + size) - gammaln(size) - gammaln(y + 1.0)
        log_total = jnp.logaddexp(jnp.log(size), eta)
        return jnp.sum(rising + size * (jnp.log(size) - log_total) + y * (eta - log_total))
    constant = size * jnp.log(size) - gammaln(size)
    return jnp.sum(constant + (size - 1.0) * jnp.log(y) - size * (eta + y * jnp.exp(-eta)))


def potential(family, X, y):
    """Minus the log density of (intercept, coefficients, log dispersion), unnormalised."""

    def negative(theta):
        p = X.shape[1]
        own = theta[p + 1] if len(theta) > p + 1 else 0.0
        value = log_likelihood(family, theta[0] + X @ theta[1 : p + 1], y, own)
        value += -0.5 * (theta[0] / 10.0) ** 2 - 0.5 * jnp.sum(theta[1 : p + 1] ** 2)
        if len(theta) > p + 1:
            value += 0.5 * own - 2.0 * jnp.log1p(jnp.exp(own) / 3.0) - 1e-5 * jnp.exp(-own)
        return -value

    return negative


def gold(family, X, y):
    X, y = jnp.asarray(X, dtype=float), jnp.asarray(y, dtype=float)
    dim = X.shape[1] + 1 + (family != "poisson")
    kernel = NUTS(potential_fn=potential(family, X, y), dense_mass=True, target_accept_prob=0.8)
    mcmc = MCMC(
        kernel,
        num_warmup=1000,
        num_samples=4000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = np.random.default_rng(0).normal(scale=0.1, size=(4, dim))
    start[:, 0] += np.log(np.mean(y))
    mcmc.run(jax.random.PRNGKey(0), init_params=jnp.asarray(start))
    chains = np.asarray(mcmc.get_samples(group_by_chain=True))
    draws = chains.reshape(-1, dim)
    rhat, ess = split_gelman_rubin(chains).max(), effective_sample_size(chains)
    print(f"R-hat at most {rhat:.4f}, ESS at least {ess.min():.0f}")
    assert rhat < 1.005
    covariance = np.cov(draws.T)
    directions = np.random.default_rng(1).normal(size=(N_DIRECTIONS, dim))
    directions = np.linalg.solve(np.linalg.cholesky(covariance).T, directions.T).T
    return {
        "mean": draws.mean(axis=0),
        "sd": draws.std(axis=0),
        "ess": ess,
        "quantiles": np.quantile(draws, PROBABILITIES, axis=0),
        "directions": directions,
        "predictors": np.quantile(draws @ directions.T, PROBABILITIES, axis=0),
    }


def main():
    numpyro.enable_x64()
    kept = {"probabilities": PROBABILITIES}
    sets = {"visits": visits(), "bicycles": bicycles(), "diabetes": diabetes()}
    for name, (X, y) in sets.items():
        if name != "diabetes":
            kept |= {f"{name}/X": X, f"{name}/y": y}
        for family in ["gamma"] if name == "diabetes" else ["poisson", "negative_binomial"]:
            print(f"{name}, {family}: ", end="", flush=True)
            kept |= {f"{name}/{family}/{key}": v for key, v in gold(family, X, y).items()}
            np.savez_compressed(FILE, **kept)
    print(f"{FILE}: {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
