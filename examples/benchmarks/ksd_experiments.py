"""The experiments of the KSD thinning paper in full size, and its chains against NUTS.

Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy":

budgets
    Section 7.4: a mixture of two normals, independent draws, the best of five as candidate. Points
    kept, KSD, normalised KSD and the ratio of the variance to the truth, by budget and base kernel.
alpha
    The same, by the exponent of the budget sqrt(t^alpha log t) / 2.
adaptation
    Sections 4.4 and 7.5: how many points are kept with a constant floor of ten, by the number of
    modes. The paper does not say how far apart the modes stand; on the diagonal they are (i, i).
goodwin
    Section 4.1: chains of Goodwin's oscillator, in the coordinates of a pilot run, every draw a
    candidate or the best of ten. The problem is that of ``examples/plot_goodwin.py``, which is run
    first. The paper thins stored chains of two million draws; ``--draws`` is their number here.
    Budgets that would keep more than 3000 points are left out, because memory is quadratic in
    their number; 2000 evenly spaced draws stand for the chain itself. The last column is the ratio
    of the points' variance to the chain's.

nuts
    No experiment of the paper: the chains of the engine "ksd-mcmc", in coordinates that straighten
    one-sided coefficients, against the No-U-Turn sampler of NumPyro, in the coordinates of the
    model. Gradients per effective draw (the least ESS over coefficients and their squares), of the
    draws alone and with the warm-up, and seconds. It needs SKSTEIN_DATA; without ``pip install
    numpyro jax`` NUTS is left out.

Usage::

    python examples/benchmarks/ksd_experiments.py budgets alpha --seeds 0 1 2
    SKSTEIN_DATA=folder python examples/benchmarks/ksd_experiments.py nuts --seeds 0
"""

import argparse
import runpy
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from gold import kind_of, load
from scipy.special import softmax

from skstein.diagnostics import ess, split_rhat
from skstein.inference import KSDThinnedMCMC
from skstein.inference._run.working_coordinates import find_frame
from skstein.kernels import IMQ, RBF
from skstein.priors import Normal
from skstein.samplers import HMC, MALA, RWM
from skstein.targets.transformed import Transformed
from skstein.thinning import OnlineKSDThinner, PowerBudget

KERNELS = {"imq": IMQ(length_scale=1.0), "rbf": RBF()}  # exp(-r^2 / 2d) is the paper's RBF
BUDGETS = {
    "none": lambda t: t,
    "linear": "linear",
    "alpha 1.8": PowerBudget(1.8),
    "alpha 1.4": PowerBudget(1.4),
    "alpha 1.0": PowerBudget(1.0),
    "sqrt": "sqrt",
    "constant 10": 10,
    "cap 100": "cap",
}
MOST_POINTS = 3000
VARIANCE = 0.5


def mixture_score(means, x):
    differences = means - x[:, None]
    share = softmax(-0.5 * np.sum(differences**2, axis=2) / VARIANCE, axis=1)
    return np.einsum("nk,nkd->nd", share, differences) / VARIANCE


def mixture_draws(means, n, seed):
    rng = np.random.default_rng(seed)
    component = rng.integers(len(means), size=n)
    return means[component] + np.sqrt(VARIANCE) * rng.standard_normal((n, 2))


def on_diagonal(k, spacing=1.0):
    return spacing * np.arange(k)[:, None] * np.ones(2)


def thin(draws, scores, kernel, budget, candidates, eps=0.0):
    thinner = OnlineKSDThinner(
        100, kernel, budget=budget, eps=eps, spread=0, candidates=candidates, preconditioner=None
    )
    return thinner.partial_fit(draws, scores)


def thin_bimodal(kernel, budget, steps, seed, eps=0.0):
    """Points kept, KSD, normalised KSD, ratio of variances."""
    means = on_diagonal(2)
    draws = mixture_draws(means, 5 * steps, seed)
    thinner = thin(draws, mixture_score(means, draws), kernel, budget, 5, eps)
    variance = thinner.samples_.var(axis=0).mean()
    return *thinner.ksd_path_[-1, 1:], variance / (VARIANCE + 0.25)


def print_table(title, rows, seeds):
    """Mean and standard deviation over seeds of each (seeds, 4) row."""
    print(f"\n{title}; mean of {len(seeds)} seeds, +- standard deviation of one")
    print(f"{'':24}{'points':>7}{'KSD':>9}{'normalised':>19}{'variance':>17}")
    for label, values in rows.items():
        mean, std = np.mean(values, axis=0), np.std(values, axis=0)
        print(
            f"{label:24}{mean[0]:7.0f}{mean[1]:9.4f}{mean[2]:11.3f} +- {std[2]:.3f}"
            f"{mean[3]:10.3f} +- {std[3]:.3f}",
            flush=True,
        )


def budgets(arguments):
    for name, kernel in KERNELS.items():
        rows = {}
        for label, budget in BUDGETS.items():
            for eps in (0.0, "decaying"):
                if eps and label not in ("linear", "sqrt"):
                    continue
                rows[f"{label}, eps {eps}" if eps else label] = [
                    thin_bimodal(kernel, budget, arguments.steps, seed, eps)
                    for seed in arguments.seeds
                ]
        print_table(f"budgets, {name}, {arguments.steps} steps", rows, arguments.seeds)


def alpha(arguments):
    for name, kernel in KERNELS.items():
        rows = {}
        for exponent in (1.0, 1.2, 1.4, 1.6, 1.8, 2.0):
            budget = PowerBudget(exponent) if exponent < 2.0 else "linear"
            rows[f"alpha {exponent:.1f}"] = [
                thin_bimodal(kernel, budget, arguments.steps, seed) for seed in arguments.seeds
            ]
        print_table(f"alpha, {name}, {arguments.steps} steps", rows, arguments.seeds)


def adapted(means, kernel, steps, seed):
    """Points kept with a floor of ten, and modes that have some of them."""
    draws = mixture_draws(means, 5 * steps, seed)
    points = thin(draws, mixture_score(means, draws), kernel, 10, 5).samples_
    nearest = np.sum((points[:, None] - means) ** 2, axis=2).argmin(axis=1)
    return len(points), len(np.unique(nearest))


def adaptation(arguments):
    for name, kernel in KERNELS.items():
        for spacing in (np.sqrt(0.5), 1.0, 2.0, 4.0):
            distance = f"{np.sqrt(2.0) * spacing:.1f}"
            print(f"\nadaptation, {name}, neighbours {distance} apart: points kept, by seed")
            for k, steps in product((1, 2, 4, 6, 8, 10), (1000, 2000, 5000)):
                means = on_diagonal(k, spacing)
                found = [adapted(means, kernel, steps, seed) for seed in arguments.seeds]
                sizes, visited = zip(*found, strict=True)
                print(
                    f"{k:3d} modes{steps:6d} steps   {sizes!s:28} mean {np.mean(sizes):5.1f}   "
                    f"modes with points {visited}",
                    flush=True,
                )


def thin_chains(z, scores):
    """Points kept, KSD, normalised KSD and ratio of variances, by budget and kernel."""
    even = slice(None, None, max(1, z.shape[0] * z.shape[1] // 2000))
    runs = {"evenly spaced": (z[:, even], scores[:, even], "none", 1)}
    n_moves = np.sum(np.any(np.diff(z, axis=1) != 0.0, axis=2)) + len(z)
    for candidates, budget in product((1, 10), ("none", "linear", "sqrt", "cap 100")):
        n_points = {"none": 1.0, "linear": 0.5}.get(budget, 0.0) * n_moves / candidates
        if n_points < MOST_POINTS:
            runs[f"{budget}, of {candidates}"] = z, scores, budget, candidates
    rows = {}
    for label, (x, s, budget, candidates) in runs.items():
        for scale, kernel in (("l^2 = 4d", IMQ()), ("l = 1", KERNELS["imq"])):
            thinner = thin(x, s, kernel, BUDGETS[budget], candidates)
            spread = np.mean((thinner.samples_.std(axis=0) / z.std(axis=(0, 1))) ** 2)
            rows[f"{label}, {scale}"] = *thinner.ksd_path_[-1, 1:], spread
    return rows


def goodwin(arguments):
    import matplotlib

    matplotlib.use("Agg")
    example = runpy.run_path(str(Path(__file__).parents[1] / "plot_goodwin.py"))
    white, pilot = example["white"], example["pilot"]
    start = pilot.metric.inverse(pilot.theta - example["centre"])
    for sampler in (RWM(thinning=1, adapt_metric=False), MALA(thinning=1, adapt_metric=False)):
        rows = {}
        for seed in arguments.seeds:
            chains = sampler.warm_up(white, 500, start, np.random.default_rng(seed))
            _, z, scores, acceptance = sampler.draw(white, arguments.draws // len(start), chains)
            print(
                f"{type(sampler).__name__}, seed {seed}: acceptance {acceptance:.2f}, R-hat "
                f"{split_rhat(z).max():.3f}, effective sample size {ess(z).min():.0f}",
                flush=True,
            )
            for label, row in thin_chains(z, scores).items():
                rows.setdefault(label, []).append(row)
        title = f"goodwin, {type(sampler).__name__}, {arguments.draws} draws, IMQ"
        print_table(title, rows, arguments.seeds)


class Counted(Transformed):
    """A target that counts the gradients, one for each point."""

    n_gradients = n_warmup = 0

    def score(self, z, rows=None):
        self.n_gradients += len(z)
        return super().score(z, rows)

    def log_density_and_score(self, z):
        self.n_gradients += len(z)
        return super().log_density_and_score(z)


class CountedHMC(HMC):
    """Notes how many gradients the warm-up took."""

    def warm_up(self, target, *args):
        chains = super().warm_up(target, *args)
        target.n_warmup = target.n_gradients
        return chains


def thinned_chains(name, gold, seed):
    """Draws of the chains (chains, draws, dim), gradients for them and for the warm-up, seconds."""
    began = time.perf_counter()
    prior = Normal(float(gold["prior_sd"]))
    target = kind_of(name)[1](gold["X_std"], gold["y"], prior=prior, intercept_prior=prior)
    working = Counted(target, find_frame(target).bijection)
    engine = KSDThinnedMCMC(sampler=CountedHMC())
    posterior = engine.run(working, np.random.default_rng(seed))
    seconds = time.perf_counter() - began
    z = np.concatenate(posterior.state.draws, axis=1)
    theta = working.bijection.forward(z.reshape(-1, target.dim)).reshape(z.shape)
    return theta, working.n_gradients - working.n_warmup, working.n_warmup, seconds


def nuts_chains(name, gold, seed, dense, n_warmup=500, n_draws=500, n_chains=4):
    """The same for NumPyro; compiling counts as well, since every new shape compiles again."""
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    X = jnp.asarray(np.column_stack([np.ones(len(gold["y"])), gold["X_std"]]))
    sign, prior_sd = jnp.asarray(2.0 * gold["y"] - 1.0), float(gold["prior_sd"])
    log_link = jax.scipy.stats.norm.logcdf if name.endswith("probit") else jax.nn.log_sigmoid

    def potential(theta):
        return 0.5 * jnp.sum((theta / prior_sd) ** 2) - jnp.sum(log_link(sign * (X @ theta)))

    began = time.perf_counter()
    kernel = NUTS(potential_fn=potential, dense_mass=dense)
    sampler = MCMC(
        kernel,
        num_warmup=n_warmup,
        num_samples=n_draws,
        num_chains=n_chains,
        chain_method="sequential",
        progress_bar=False,
    )
    key = jax.random.PRNGKey(seed)
    start = 0.1 * jax.random.normal(key, (n_chains, X.shape[1]))
    sampler.warmup(key, init_params=start, collect_warmup=True, extra_fields=("num_steps",))
    warmup = int(sampler.get_extra_fields()["num_steps"].sum())
    sampler.run(key, init_params=start, extra_fields=("num_steps",))
    draws = np.asarray(sampler.get_samples(group_by_chain=True))
    gradients = int(sampler.get_extra_fields()["num_steps"].sum())
    return draws, gradients, warmup, time.perf_counter() - began


def nuts(arguments):
    runs = {"ksd-mcmc": thinned_chains}
    try:
        import jax  # noqa: F401
        import numpyro  # noqa: F401
    except ImportError:
        print("nuts: NumPyro is left out, because it is not installed; pip install numpyro jax")
    else:
        runs["NUTS, dense"] = lambda *args: nuts_chains(*args, dense=True)
        runs["NUTS, diagonal"] = lambda *args: nuts_chains(*args, dense=False)
    for name in arguments.posteriors:
        gold = load(name)
        if gold is None:
            print(f"nuts: set SKSTEIN_DATA to a folder that holds gold/{name}.npz; skipped")
            continue
        print(f"\n{name}: gradients per effective draw, of all rows and one point each")
        print(
            f"{'':16}{'seed':>5}{'draws':>7}{'R-hat':>7}{'ESS':>6}{'gradients / ESS':>17}"
            f"{'with warm-up':>14}{'seconds':>9}{'ESS / s':>9}{'mean error':>12}"
        )
        for seed in arguments.seeds:
            for label, run in runs.items():
                draws, gradients, warmup, seconds = run(name, gold, seed)
                centred = draws - draws.mean(axis=(0, 1))
                both = np.concatenate([centred, centred**2], axis=2)
                size = ess(both).min()
                error = (draws.mean(axis=(0, 1)) - gold["mean"]) / gold["sd"]
                print(
                    f"{label:16}{seed:5d}{draws.shape[0] * draws.shape[1]:7d}"
                    f"{split_rhat(both).max():7.3f}{size:6.0f}{gradients / size:17.1f}"
                    f"{(gradients + warmup) / size:14.1f}{seconds:9.1f}{size / seconds:9.1f}"
                    f"{np.sqrt(np.mean(error**2)):12.3f}",
                    flush=True,
                )


EXPERIMENTS = {
    "budgets": budgets,
    "alpha": alpha,
    "adaptation": adaptation,
    "goodwin": goodwin,
    "nuts": nuts,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("experiments", nargs="*", help=f"of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=4000, help="of budgets and alpha")
    parser.add_argument("--draws", type=int, default=100_000, help="of goodwin")
    parser.add_argument("--posteriors", nargs="+", default=["covertype5k_logistic"])
    arguments = parser.parse_args()
    unknown = set(arguments.experiments) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}")
    # Points that miss the moments of their stream are part of the experiments.
    warnings.simplefilter("ignore")
    for name in arguments.experiments or EXPERIMENTS:
        EXPERIMENTS[name](arguments)


if __name__ == "__main__":
    main()
