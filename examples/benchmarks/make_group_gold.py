"""Gold posteriors of models with random effects, by NumPyro's NUTS.

    pip install numpyro
    python examples/benchmarks/make_group_gold.py tests/data

writes ``gold_groups_<name>.npz``: means, standard deviations and the 5, 50 and 95 % quantiles of
common effects, log standard deviations and effects, in the order of `MixedTarget`. The data are
those of `problems`. Priors are those of the estimators with
``standardize=False``: N(0, 10) on the intercept, N(0, 1) on coefficients, half Student t of 3
degrees of freedom on the noise, half-normal of scale 1 on standard deviations.
"""

import sys
from pathlib import Path

import numpy as np

LEVELS = [0.05, 0.5, 0.95]


def radon():
    """Homes by county, log radon, and two features."""
    path = Path(__file__).parents[1] / "results" / "radon.csv"
    return np.genfromtxt(path, delimiter=",", names=True)


def crossed(rng):
    """Answers of 300 students to 20 items."""
    student, item = np.divmod(np.arange(6000), 20)
    eta = 0.3 + rng.normal(0, 1.0, 300)[student] + rng.normal(0, 0.8, 20)[item]
    return {"student": student, "item": item, "y": (rng.logistic(size=6000) < eta).astype(int)}


def counts(rng):
    """Counts of 100 groups, of 2 to 14 rows."""
    group = np.repeat(np.arange(100), rng.integers(2, 15, 100))
    x = rng.normal(size=len(group))
    eta = 0.5 + 0.3 * x + rng.normal(0, 0.6, 100)[group]
    return {"group": group, "x": x, "y": rng.poisson(np.exp(eta))}


def many(rng):
    """3,000 groups of 20 rows."""
    group = np.repeat(np.arange(3000), 20)
    x = rng.normal(size=(60_000, 2))
    y = 1.0 + x @ [0.5, -0.2] + rng.normal(0, 0.5, 3000)[group] + rng.normal(size=60_000)
    return {"group": group, "x": x, "y": y}


def problems():
    """By name: X without groups, y, family, and groupings as (codes, columns that have slopes)."""
    data = radon()
    county = data["county"].astype(int)
    floor, uranium = data["floor"][:, None], data["log_uranium"][:, None]
    y = data["log_radon"]
    answers, few, lots = (
        make(np.random.default_rng(seed)) for seed, make in enumerate((crossed, counts, many))
    )
    none = np.empty((6000, 0))
    return {
        "radon_intercepts": (floor, y, "normal", [(county, [])]),
        "radon_slopes": (floor, y, "normal", [(county, [0])]),
        "radon_uranium": (np.hstack([floor, uranium]), y, "normal", [(county, [])]),
        "crossed": (
            none, answers["y"], "binary", [(answers["item"], []), (answers["student"], [])]
        ),
        "counts": (few["x"][:, None], few["y"], "counts", [(few["group"], [])]),
        "many": (lots["x"], lots["y"], "normal", [(lots["group"], [])]),
    }  # fmt: skip


def model(X, y, family, groupings, centred=()):
    """The plain model, as it is written in NumPyro; ``centred`` has numbers of groupings."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    eta = numpyro.sample("intercept", dist.Normal(0, 10)) * jnp.ones(len(y))
    if X.shape[1]:
        eta = eta + X @ numpyro.sample("coef", dist.Normal(jnp.zeros(X.shape[1]), 1))
    for j, (codes, slopes) in enumerate(groupings):
        values = jnp.hstack([jnp.ones((len(y), 1)), X[:, slopes]])
        sd = numpyro.sample(f"sd{j}", dist.HalfNormal(jnp.ones(values.shape[1])))
        shape = (int(codes.max()) + 1, values.shape[1])
        if j in centred:
            u = numpyro.sample(f"u{j}", dist.Normal(jnp.zeros(shape), sd))
        else:
            u = numpyro.sample(f"z{j}", dist.Normal(jnp.zeros(shape), 1)) * sd
            u = numpyro.deterministic(f"u{j}", u)
        eta = eta + (values * u[codes]).sum(axis=1)
    if family == "normal":
        sigma = numpyro.sample("sigma", half_t(dist))
        numpyro.sample("y", dist.Normal(eta, sigma), obs=y)
    elif family == "binary":
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)
    else:
        numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=y)


def half_t(dist):
    """Half Student t of 3 degrees of freedom and scale 1."""
    return dist.FoldedDistribution(dist.StudentT(3, 0.0, 1.0))


def integrated(X, y, family, groupings):
    """One grouping of intercepts and a normal outcome, with the effects integrated out."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    ((codes, _),) = groupings
    A = np.column_stack([np.ones(len(y)), X, y])
    n = np.bincount(codes)
    sums = np.stack([np.bincount(codes, column) for column in A.T], axis=1)
    gram = A.T @ A
    w = jnp.concatenate(
        [
            -numpyro.sample("intercept", dist.Normal(0, 10))[None],
            -numpyro.sample("coef", dist.Normal(jnp.zeros(X.shape[1]), 1)),
            jnp.ones(1),
        ]
    )
    sd = numpyro.sample("sd0", dist.HalfNormal(jnp.ones(1)))[0]
    sigma = numpyro.sample("sigma", half_t(dist))
    precision = n / sigma**2 + 1 / sd**2
    pulled = (sums @ w) / sigma**2
    value = -0.5 * (w @ gram @ w / sigma**2 + len(y) * 2 * jnp.log(sigma))
    value += 0.5 * jnp.sum(pulled**2 / precision - jnp.log(precision) - 2 * jnp.log(sd))
    numpyro.factor("y", value)
    numpyro.deterministic("mean", pulled / precision)
    numpyro.deterministic("scale", precision**-0.5)


def draws(name, problem, n_chains=4, n_warmup=1000, n_draws=5000):
    """Draws (n, dim) in the order of a `MixedTarget`, and the smallest effective sample size."""
    import jax
    import numpyro
    from numpyro.diagnostics import effective_sample_size
    from numpyro.infer import MCMC, NUTS

    numpyro.enable_x64()
    X, y, family, groupings = problem
    which = integrated if name == "many" else model
    # Of the items, each with 300 answers, effects and intercept are all but confounded.
    items = name == "crossed"
    options = {"centred": (0,)} if items else {}
    dense = [("intercept", "sd0", "u0")] if items else False
    kernel = NUTS(which, target_accept_prob=0.9, dense_mass=dense)
    mcmc = MCMC(
        kernel, num_warmup=n_warmup, num_samples=n_draws, num_chains=n_chains,
        chain_method="sequential", progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.PRNGKey(0), X, y, family, groupings, **options)
    found = mcmc.get_samples(group_by_chain=True)
    flat = {key: np.asarray(value).reshape(-1, *value.shape[2:]) for key, value in found.items()}
    smallest = min(
        np.min(effective_sample_size(np.asarray(value)))
        for key, value in found.items()
        if key not in ("mean", "scale")
    )
    if which is integrated:
        rng = np.random.default_rng(0)
        flat["u0"] = flat["mean"] + flat["scale"] * rng.standard_normal(flat["mean"].shape)
    n = len(flat["intercept"])
    parts = [flat["intercept"][:, None], flat.get("coef", np.empty((n, 0)))]
    if family == "normal":
        parts.append(2 * np.log(flat["sigma"])[:, None])
    numbers = range(len(groupings))
    parts += [np.log(flat[f"sd{j}"]) for j in numbers]
    parts += [flat[f"u{j}"].reshape(n, -1) for j in numbers]
    return np.hstack(parts), smallest


def main(folder, *names):
    for name, problem in problems().items():
        if names and name not in names:
            continue
        theta, smallest = draws(name, problem)
        quantiles = np.quantile(theta, LEVELS, axis=0)
        print(f"{name}: {theta.shape[1]} coordinates, smallest ESS {smallest:.0f}", flush=True)
        np.savez_compressed(
            Path(folder) / f"gold_groups_{name}.npz",
            mean=theta.mean(axis=0).astype(np.float32),
            sd=theta.std(axis=0).astype(np.float32),
            quantiles=quantiles.astype(np.float32),
            ess=smallest,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
