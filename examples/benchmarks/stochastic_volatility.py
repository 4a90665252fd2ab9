"""
Stochastic volatility: accuracy of the engines, and NUTS for the same effective sample size.

For each series of 500 returns with the paper's parameters, and for GBP/USD where SKSTEIN_DATA names
the folder that has it, a long run of this package's HMC is the reference. Printed are its R-hat and
Monte-Carlo error, then for each engine the errors of the means (in posterior standard deviations)
and the ratios of the standard deviations of mu, atanh(phi) and log sigma^2, with the ratio of its
time to that of PMFVB. If NumPyro is installed, its NUTS runs on the first series: what is compared
is the time for the same effective sample size, of the worst of the three parameters, without
compilation.

Run: python examples/benchmarks/stochastic_volatility.py [seed ...]
"""

import gzip
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from skstein import StochasticVolatility
from skstein.diagnostics import ess, mcse_mean, split_rhat
from skstein.inference import PMFVB, KSDThinnedMCMC
from skstein.samplers import HMC
from skstein.targets import SmoothedTarget, StochasticVolatilityTarget


def simulate(seed, T=500, mu=1.0, phi=0.8, sigma=0.5):
    rng = np.random.default_rng(seed)
    x = np.empty(T)
    x[0] = mu + sigma / np.sqrt(1 - phi**2) * rng.standard_normal()
    for t in range(1, T):
        x[t] = mu + phi * (x[t - 1] - mu) + sigma * rng.standard_normal()
    return np.exp(x / 2) * rng.standard_normal(T)


def exchange_rates():
    """Centred log returns in percent, or None."""
    path = Path(os.environ.get("SKSTEIN_DATA", "")) / "data" / "gbp_usd_9798.txt.gz"
    if not path.is_file():
        return None
    with gzip.open(path, "rt") as file:
        rows = [line.split() for line in file]
    rates = [float(row[3]) for row in rows if len(row) == 4 and row[0].isdigit()]
    returns = 100 * np.diff(np.log(rates))
    return returns - returns.mean()


def long_run(y, n_chains=8, n_draws=2000, seed=0):
    """Draws (chains, draws, 3) of the parameters, and seconds without warm-up's compilation."""
    target = SmoothedTarget(StochasticVolatilityTarget(y))
    rng = np.random.default_rng(seed)
    sampler = HMC()
    target.score(np.zeros((1, target.dim)))
    start = time.perf_counter()
    chains = sampler.warm_up(target, 300, target.sample_start(rng, n_chains), rng)
    parts = []
    for _ in range(n_draws // 100):
        chains, z, *_ = sampler.draw(target, 100, chains)
        flat = z.reshape(-1, target.dim)
        parts.append(target.bijection.forward(flat)[:, :3].reshape(n_chains, -1, 3))
    return np.concatenate(parts, axis=1), time.perf_counter() - start


def compare(name, y):
    draws, seconds = long_run(y)
    flat = draws.reshape(-1, 3)
    mean, sd = flat.mean(axis=0), flat.std(axis=0)
    error = mcse_mean(draws) / sd
    print(f"\n{name}: {len(y)} returns; HMC mean {mean.round(3)}, sd {sd.round(3)}")
    print(f"  its R-hat {split_rhat(draws).max():.4f}, error of means {error.max():.3f} sd")
    unit = None
    engines = {"pmfvb": PMFVB(), "ksd-mcmc": KSDThinnedMCMC()}
    for label, engine in engines.items():
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            posterior = StochasticVolatility(engine, random_state=0).fit(y).posterior_
        took = time.perf_counter() - start
        unit = took if unit is None else unit
        misses = np.abs(posterior.mean()[:3] - mean) / sd
        ratios = posterior.std()[:3] / sd
        print(
            f"  {label:9} error {misses.round(3)}, sd ratio {ratios.round(3)}, "
            f"time {took / unit:.1f}, {len(caught)} warnings"
        )
    return ess(draws).min() / seconds


def nuts_rate(y):
    """Effective draws a second of NumPyro's NUTS, non-centred; None without NumPyro."""
    try:
        import jax
        import jax.numpy as jnp
        import numpyro
        import numpyro.distributions as dist
    except ImportError:
        print("\nNumPyro is not installed: no comparison with NUTS.")
        return None
    numpyro.enable_x64()

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, np.sqrt(10)))
        phi = 2 * numpyro.sample("tau", dist.Beta(20, 1.5)) - 1
        sigma2 = numpyro.sample("sigma2", dist.InverseGamma(2.5, 0.025))
        noise = numpyro.sample("noise", dist.Normal(0, 1).expand([len(y)]).to_event(1))
        sigma = jnp.sqrt(sigma2)

        def step(deviation, innovation):
            deviation = phi * deviation + sigma * innovation
            return deviation, deviation

        first = sigma / jnp.sqrt(1 - phi**2) * noise[0]
        _, rest = jax.lax.scan(step, first, noise[1:])
        x = mu + jnp.concatenate([first[None], rest])
        numpyro.sample("y", dist.Normal(0, jnp.exp(x / 2)), obs=y)

    kernel = numpyro.infer.NUTS(model)
    options = {"num_chains": 2, "chain_method": "sequential", "progress_bar": False}
    mcmc = numpyro.infer.MCMC(kernel, num_warmup=500, num_samples=1000, **options)
    mcmc.run(jax.random.key(0), y)
    start = time.perf_counter()
    mcmc.run(jax.random.key(1), y)
    found = mcmc.get_samples(group_by_chain=True)
    seconds = time.perf_counter() - start
    draws = [found["mu"], np.arctanh(2 * found["tau"] - 1), np.log(found["sigma2"])]
    draws = np.stack([np.asarray(part) for part in draws], axis=2)
    flat = draws.reshape(-1, 3)
    print(f"\nNUTS on the first series: mean {flat.mean(axis=0).round(3)}", end=", ")
    print(f"sd {flat.std(axis=0).round(3)}, R-hat {split_rhat(draws).max():.3f}")
    return ess(draws).min() / seconds


if __name__ == "__main__":
    seeds = [int(argument) for argument in sys.argv[1:]] or [0, 1, 2]
    rates = [compare(f"simulated, seed {seed}", simulate(seed)) for seed in seeds]
    y = exchange_rates()
    if y is None:
        print("\nSKSTEIN_DATA does not name a folder with GBP/USD: left out.")
    else:
        compare("GBP/USD", y)
    if (theirs := nuts_rate(simulate(seeds[0]))) is not None:
        print(f"time of NUTS to that of HMC here, for the same ESS: {rates[0] / theirs:.1f}")
