"""Make the gold posteriors of noises: ``tests/data/gold_{stackloss,radon,airfoil}_noise.npz``.

Stackloss (Brownlee, 21 days of a plant, four of which are outliers in every textbook) and radon in
919 houses of Minnesota with Student t noise of unknown degrees of freedom; airfoil noise, 1503
rows, with a log standard deviation that is linear in the features, and Student t too. Features and
outcome are standardised and used as float32 values. The priors are the defaults of
``BayesianLinearRegression``.

The sampler is the NUTS of NumPyro, which shares no code with skstein; the model is written out
below. Split R-hat and the effective sample sizes are printed, and draws that fail are refused.

Usage, with numpyro installed and SKSTEIN_DATA a folder with ``data/*.npz``::

    SKSTEIN_DATA=folder python examples/benchmarks/make_noise_gold.py stackloss radon airfoil
"""

import argparse
import os
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "tests" / "data"
LEVELS = np.array([0.05, 0.5, 0.95])
NOISES = {"stackloss": ("student-t",), "radon": ("student-t",), "airfoil": ("normal", "student-t")}

# Air flow, temperature of the cooling water, concentration of acid; ammonia lost.
STACKLOSS = np.array(
    [
        [80, 80, 75, 62, 62, 62, 62, 62, 58, 58, 58, 58, 58, 58, 50, 50, 50, 50, 50, 56, 70],
        [27, 27, 25, 24, 22, 23, 24, 24, 23, 18, 18, 17, 18, 19, 18, 18, 19, 19, 20, 20, 20],
        [89, 88, 90, 87, 87, 87, 93, 93, 87, 80, 89, 88, 82, 93, 89, 86, 72, 79, 80, 82, 91],
        [42, 37, 37, 28, 18, 18, 19, 20, 15, 14, 14, 13, 11, 12, 8, 7, 8, 8, 9, 15, 15],
    ],
    dtype=float,
).T


def data(name):
    """Standardised features and outcome, as float32 values."""
    if name == "stackloss":
        table = STACKLOSS
    else:
        file = {"radon": "radon_mn", "airfoil": "airfoil"}[name]
        with np.load(Path(os.environ["SKSTEIN_DATA"]) / "data" / f"{file}.npz") as loaded:
            if name == "radon":
                columns = [loaded[key] for key in ("floor", "log_uranium", "log_radon")]
                table = np.column_stack(columns).astype(float)
            else:
                table = np.column_stack([loaded["X"], loaded["y"]])
    table = ((table - table.mean(axis=0)) / table.std(axis=0)).astype(np.float32)
    return table[:, :-1], table[:, -1]


def log_density(z, X, y, uneven, heavy):
    """The posterior, in the coordinates of skstein; ``z`` has all of them."""
    import jax.numpy as jnp
    from jax.scipy import stats

    p = X.shape[1]
    mean = z[0] + X @ z[1 : p + 1]
    value = stats.norm.logpdf(z[0], 0.0, 10.0) + stats.norm.logpdf(z[1 : p + 1]).sum()
    if uneven:
        level, slopes = z[p + 1], z[p + 2 : 2 * p + 2]
        value += stats.norm.logpdf(slopes, 0.0, 0.5).sum()
        log_sd = level + X @ slopes
    else:
        level = log_sd = 0.5 * z[p + 1]
    # Half Student t of the standard deviation exp(level), as a density of its logarithm.
    value += stats.t.logpdf(jnp.exp(level), 3.0) + level - 1e-5 * jnp.exp(-2.0 * level)
    error = (y - mean) * jnp.exp(-log_sd)
    if heavy:
        beyond = jnp.exp(z[-1])  # df - 2, a gamma variable, as a density of its logarithm
        value += stats.gamma.logpdf(beyond, 2.0, scale=10.0) + z[-1]
        value += jnp.sum(stats.t.logpdf(error, 2.0 + beyond) - log_sd)
    else:
        value += jnp.sum(stats.norm.logpdf(error) - log_sd)
    return value


def sample(X, y, uneven, heavy, arguments):
    """Draws (chains, draws, dim) by NUTS."""
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    X, y = (jax.numpy.asarray(values, dtype=float) for values in (X, y))
    dim = 1 + X.shape[1] + (1 + X.shape[1] if uneven else 1) + heavy

    def potential(z):
        return -log_density(z, X, y, uneven, heavy)

    kernel = NUTS(potential_fn=potential, dense_mass=True, target_accept_prob=0.9)
    chains = MCMC(
        kernel,
        num_warmup=arguments.warmup,
        num_samples=arguments.draws,
        num_chains=arguments.chains,
        chain_method="sequential",
        progress_bar=False,
    )
    key = jax.random.PRNGKey(arguments.seed)
    start = 0.1 * np.random.default_rng(arguments.seed).standard_normal((arguments.chains, dim))
    chains.run(key, init_params=start)
    draws = np.asarray(chains.get_samples(group_by_chain=True))
    rhat = numpyro.diagnostics.split_gelman_rubin(draws)
    size = numpyro.diagnostics.effective_sample_size(draws)
    print(f"  {dim} coordinates: R-hat {rhat.max():.4f}, least ESS {size.min():.0f}", flush=True)
    if not (rhat.max() < 1.003 and size.min() > 5000):
        raise RuntimeError("the draws fail a check: run longer chains.")
    return draws


def make(name, arguments):
    """Sample the posteriors of one data set and write its file."""
    X, y = data(name)
    print(f"{name}: {len(y)} rows")
    found = {}
    for noise in NOISES[name]:
        draws = sample(X, y, name == "airfoil", noise == "student-t", arguments)
        flat = draws.reshape(-1, draws.shape[2])
        key = noise.replace("-", "_")
        found |= {
            f"{key}_mean": flat.mean(axis=0),
            f"{key}_sd": flat.std(axis=0),
            f"{key}_quantiles": np.quantile(flat, LEVELS, axis=0),
        }
    path = FOLDER / f"gold_{name}_noise.npz"
    np.savez_compressed(path, X_std=X, y_std=y, **found)
    print(f"wrote {path.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=list(NOISES))
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.names:
        make(name, arguments)


if __name__ == "__main__":
    main()
