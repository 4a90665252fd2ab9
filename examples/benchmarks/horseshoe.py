"""The gold posterior of the regularised horseshoe in ``tests/data``, by NumPyro's NUTS.

Run ``python examples/benchmarks/horseshoe.py`` where NumPyro is installed; it takes minutes. The
local scales are coordinates here, which the package integrates out, so that the two agree on
nothing but the model.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

PATH = Path(__file__).parents[2] / "tests" / "data" / "horseshoe_linear.npz"
N, P, RELEVANT, SLAB_SCALE, SLAB_DF = 100, 20, [1.0, -0.7, 0.4], 2.0, 4.0
LEVELS = np.array([0.05, 0.5, 0.95])


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, X[:, : len(RELEVANT)] @ RELEVANT + 0.8 * rng.normal(size=N)


def model(X, y):
    variance = numpyro.sample("variance", dist.InverseGamma(1.0, 1.0))
    global_scale = len(RELEVANT) / (P - len(RELEVANT)) / np.sqrt(N) * jnp.sqrt(variance)
    tau = global_scale * numpyro.sample("tau", dist.HalfCauchy(1.0))
    slab = numpyro.sample("slab", dist.InverseGamma(SLAB_DF / 2, SLAB_DF / 2 * SLAB_SCALE**2))
    free = (tau * numpyro.sample("local", dist.HalfCauchy(1.0).expand([P]))) ** 2
    noise = numpyro.sample("noise", dist.Normal().expand([P]))
    coef = noise * jnp.sqrt(slab * free / (slab + free))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 10.0))
    columns = [intercept, *coef, jnp.log(variance), jnp.log(tau), 0.5 * jnp.log(slab)]
    numpyro.deterministic("theta", jnp.stack(columns))
    numpyro.sample("y", dist.Normal(intercept + X @ coef, jnp.sqrt(variance)), obs=y)


if __name__ == "__main__":
    numpyro.enable_x64()
    X, y = data()
    kernel = NUTS(model, target_accept_prob=0.98)
    chains = MCMC(kernel, num_warmup=1500, num_samples=5000, num_chains=2)
    chains.run(jax.random.PRNGKey(0), X, y)
    theta = np.asarray(chains.get_samples()["theta"])
    moments = {"mean": theta.mean(axis=0), "std": theta.std(axis=0), "levels": LEVELS}
    quantiles = np.quantile(theta, LEVELS, axis=0)
    np.savez_compressed(PATH, X=X, y=y, quantiles=quantiles, **moments)
