"""Make the gold posteriors of ordinal regression: ``tests/data/gold_{...}_ordinal.npz``.

- grades_logit, grades_probit: quality of 1599 red wines, grades 3 to 8, by 11 measurements.
- marriage_logit: how 500 women rate their marriage, 1 to 5, by 8 features (Fair, 1978), the first
  rows of the copy in statsmodels.

Features are standardised and kept as float32 values. The coefficients are standard normal, and the
class probabilities where all features are 0 are uniform on the simplex. NumPyro's NUTS samples
those probabilities, in its own coordinates of the simplex; the cut points follow from them. So
nothing is shared with the parametrisation of this package. A file holds moments and quantiles of
(coefficients, cut points), and quantiles of 20 linear combinations of them, whose directions are
normal after whitening.

Usage, with numpyro (and for the second set statsmodels) installed::

    python examples/benchmarks/make_ordinal_gold.py grades_logit marriage_logit
"""

import argparse
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "tests" / "data"
WINES = Path(__file__).parents[1] / "data" / "red_wine.csv.gz"
LEVELS = np.array([0.05, 0.5, 0.95])
SETS = ("grades_logit", "grades_probit", "marriage_logit")


def data(name):
    """Standardised features, as float32 values, and grades."""
    if name.startswith("grades"):
        table = np.loadtxt(WINES, delimiter=",", skiprows=1)
        X, y = table[:, :-1], table[:, -1]
    else:
        from statsmodels.datasets import fair

        table = fair.load_pandas().data[:500]
        X, y = table.drop(columns="rate_marriage").to_numpy(), table["rate_marriage"].to_numpy()
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32), y.astype(int)


def sample(X, y, link, arguments):
    """Draws of (coefficients, cut points), of shape (chains, draws, dim)."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.special import ndtr, ndtri

    numpyro.enable_x64()
    codes = np.unique(y, return_inverse=True)[1]
    n_classes = codes.max() + 1

    def model():
        coef = numpyro.sample("coef", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
        share = numpyro.sample("share", dist.Dirichlet(jnp.ones(n_classes)))
        below = jnp.cumsum(share)[:-1]
        predictor = X.astype(float) @ coef
        if link == "logit":
            cuts = jnp.log(below) - jnp.log1p(-below)
            outcome = dist.OrderedLogistic(predictor, cuts)
        else:
            cuts = ndtri(below)
            cdf = ndtr(cuts - predictor[:, None])
            ends = [jnp.zeros((len(y), 1)), cdf, jnp.ones((len(y), 1))]
            outcome = dist.Categorical(probs=jnp.diff(jnp.concatenate(ends, axis=1)))
        numpyro.deterministic("cuts", cuts)
        numpyro.sample("y", outcome, obs=codes)

    sampler = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model, dense_mass=True, target_accept_prob=0.9),
        num_warmup=arguments.warmup,
        num_samples=arguments.draws,
        num_chains=arguments.chains,
        chain_method="sequential",
        progress_bar=False,
    )
    sampler.run(jax.random.PRNGKey(arguments.seed), extra_fields=("diverging",))
    divergent = int(sampler.get_extra_fields()["diverging"].sum())
    print(f"{divergent} divergent transitions")
    found = sampler.get_samples(group_by_chain=True)
    return np.concatenate([found["coef"], found["cuts"]], axis=2), divergent


def make(name, arguments):
    """Sample one posterior, check it and write its file."""
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    X, y = data(name)
    draws, divergent = sample(X, y, name.rsplit("_", 1)[1], arguments)
    squares = (draws - draws.mean(axis=(0, 1))) ** 2
    rhat = np.maximum(split_gelman_rubin(draws), split_gelman_rubin(squares))
    size, size_of_squares = effective_sample_size(draws), effective_sample_size(squares)
    print(f"{name}: R-hat {rhat.max():.4f}, ESS {size.min():.0f}, {size_of_squares.min():.0f}")
    if divergent or rhat.max() > 1.005:
        raise RuntimeError("the draws fail a check: run longer chains.")
    flat = draws.reshape(-1, draws.shape[2])
    cov = np.cov(flat, rowvar=False)
    rng = np.random.default_rng(0)
    directions = np.linalg.solve(np.linalg.cholesky(cov).T, rng.standard_normal((len(cov), 20)))
    np.savez_compressed(
        FOLDER / f"gold_{name}_ordinal.npz",
        X_std=X,
        y=y,
        model=name.rsplit("_", 1)[1],
        mean=flat.mean(axis=0),
        sd=flat.std(axis=0),
        cov=cov,
        ess=size,
        ess_sq=size_of_squares,
        rhat=rhat,
        probabilities=LEVELS,
        coordinates=np.quantile(flat, LEVELS, axis=0),
        directions=directions,
        predictors=np.quantile(flat @ directions, LEVELS, axis=0),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=SETS)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=8000)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.names:
        make(name, arguments)


if __name__ == "__main__":
    main()
