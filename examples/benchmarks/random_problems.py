"""Hundreds of random regressions: is a fit right where it is silent, and wrong where it warns?

A seed makes a problem: 8 to 500 rows, 2 to 60 features (normal, heavy-tailed, rare or nearly
collinear ones), classes or an outcome of any signal-to-noise ratio, separable ones too, every
prior, weights. Features are standardised here, so that the estimators take them as they are.

The truth is found in this file, not by the package's engines. Linear regressions with normal
priors, and with one unknown precision of all, are drawn exactly, by quadrature over noise and
precision. All others get 64 Hamiltonian chains in adapted coordinates, with moves along rays from
the centre and along single axes that follow heavy tails, until R-hat is at most 1.01 and the
effective sample size of bulk and tails at least 6000; a problem where they stop before R-hat 1.02
and 1500 does not count, and is listed.

A fit is *wrong* if for any coordinate the mean is off by more than 0.15 posterior standard
deviations, the ratio of standard deviations is outside 0.85 to 1.18, or a 5, 50 or 95 % point is
off by more than 0.2 standard deviations. Where a prior has at most four degrees of freedom only the
quantiles count, in units of the interquartile range / 1.35. A thousand exact draws do not always
meet that in hundreds of coordinates, nor far out in heavy tails: the table's row ``exact draws``
says how often. ``beyond noise`` counts those silent misses whose
deviation is significant too: above four standard errors, of as many independent draws as the
posterior has points for a quantile, and of a thousand for a mean or a standard deviation, whose own
error grows with the kurtosis. The error of the truth is added to each.

Truths and fits are files in a folder; a run leaves out what is there, so that it can be stopped at
any time.

Usage::

    python examples/benchmarks/random_problems.py FOLDER --engines mcmc pmfvb --problems 0 500
        [--largest 30]
    python examples/benchmarks/random_problems.py FOLDER --table [--csv doc/tables/problems.csv]
"""

import argparse
import csv
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    ParticlePosterior,
)
from skstein.diagnostics import ess, ess_tail, split_rhat
from skstein.inference import ENGINES
from skstein.priors import (
    AdaptiveRidge,
    HalfStudentT,
    HierarchicalNormal,
    InverseGamma,
    Laplace,
    Normal,
    StudentT,
)
from skstein.targets import LinearTarget, LogisticTarget, ProbitTarget, SoftmaxTarget

FAMILIES = ("logistic", "probit", "linear", "softmax")
ESTIMATORS = {
    "logistic": BayesianLogisticRegression,
    "softmax": BayesianLogisticRegression,
    "probit": BayesianProbitRegression,
    "linear": BayesianLinearRegression,
}
TARGETS = {
    "logistic": LogisticTarget,
    "softmax": SoftmaxTarget,
    "probit": ProbitTarget,
    "linear": LinearTarget,
}
LEVELS = np.array([0.05, 0.5, 0.95])
GRID = ndtr(np.linspace(-3.2, 3.2, 257))
MEAN, SD, QUANTILE = 0.15, (0.85, 1.18), 0.2
HEAVY = 4.0  # degrees of freedom up to which moments say little
STANDARD_ERRORS = 4.0
WANTED, LEAST = (1.01, 6000), (1.02, 1500)  # R-hat and effective sample size of the truth


# Problems.


@dataclass
class Problem:
    """Features ``X`` (n, p), outcomes, weights or None, and the model as an estimator has it."""

    family: str
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    prior: object
    intercept_prior: object
    noise: dict
    what: str

    def estimator(self, engine, seed):
        return ESTIMATORS[self.family](
            engine,
            prior=self.prior,
            intercept_prior=self.intercept_prior,
            standardize=False,
            random_state=seed,
            **self.noise,
        )

    def target(self):
        options = {}
        if self.family == "softmax":
            options["n_classes"] = int(self.y.max()) + 1
        if self.family == "linear":
            noise = {key.removeprefix("noise_"): value for key, value in self.noise.items()}
            options["noise_prior"] = InverseGamma(**noise) if noise else HalfStudentT()
        return TARGETS[self.family](
            self.X,
            self.y,
            prior=self.prior,
            intercept_prior=self.intercept_prior,
            sample_weight=self.weights,
            **options,
        )

    @property
    def dim(self):
        n_predictors = int(self.y.max()) + 1 if self.family == "softmax" else 1
        return n_predictors * (self.X.shape[1] + 1) + (self.family == "linear")

    @property
    def heavy(self):
        df = 2 * self.prior.shape if hasattr(self.prior, "shape") else None
        return getattr(self.prior, "df", df or np.inf) <= HEAVY


def features(rng, n, p):
    """Standardised columns of one or two kinds, and what they are."""
    X, kinds = rng.normal(size=(n, p)), ["normal"]
    kind = rng.choice(["heavy", "rare", "collinear", "none"])
    chosen = rng.random(p) < 0.5
    if kind == "heavy":
        X[:, chosen] = np.exp(1.5 * X[:, chosen])
    elif kind == "rare":
        X[:, chosen] = rng.random((n, chosen.sum())) < rng.choice([0.02, 0.05, 0.1])
    elif kind == "collinear" and p > 2:
        base = max(1, p // 3)
        mixed = X[:, :base] @ rng.normal(size=(base, p - base))
        X[:, base:] = mixed + 10 ** rng.uniform(-3, -0.5) * X[:, base:]
    kinds += [kind] * (kind != "none")
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0), "+".join(kinds)


def make_prior(rng, p):
    scale = float(rng.choice([0.3, 1.0, 2.5, 5.0, 10.0]))
    kind = rng.choice(["normal", "normal", "each", "laplace", "student-t", "ridge", "hierarchical"])
    if kind == "each":
        return Normal(np.exp(rng.normal(size=p)).round(2) + 0.01)
    if kind == "laplace":
        return Laplace(min(scale, 2.5))
    if kind == "student-t":
        return StudentT(df=float(rng.choice([1.0, 3.0, 4.0, 7.0])), scale=min(scale, 2.5))
    if kind == "ridge":
        return AdaptiveRidge(shape=float(rng.choice([1.0, 3.0])), rate=min(scale, 1.0) ** 2)
    if kind == "hierarchical":
        return HierarchicalNormal(shape=float(rng.choice([1.0, 3.0])), rate=min(scale, 2.5) ** 2)
    return Normal(scale)


def make_problem(seed):
    rng = np.random.default_rng([seed, 2024])
    family = FAMILIES[seed % len(FAMILIES)]
    n, p = (round(np.exp(rng.uniform(*np.log(ends)))) for ends in ((8, 500), (2, 60)))
    n_classes = int(rng.integers(3, 6))
    if family == "softmax":
        p = min(p, 20)
    X, kinds = features(rng, n, p)
    columns = n_classes if family == "softmax" else 1
    strength = rng.choice([0.3, 1.0, 3.0, 10.0])  # the last is mostly separable
    eta = X @ (rng.normal(size=(p, columns)) * (rng.random((p, 1)) < 0.6)) * strength / np.sqrt(p)
    eta += rng.normal(size=columns)
    noise, weights = {}, None
    if family == "linear":
        y = eta[:, 0] + rng.choice([0.03, 0.3, 1.0]) * rng.normal(size=n)
        y = (y - y.mean()) / y.std()
        if rng.random() < 0.3:
            noise = {"noise_shape": 1.0, "noise_scale": float(rng.choice([0.01, 1.0]))}
    else:
        if family == "softmax":
            y = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)
        else:
            error = rng.normal(size=n) if family == "probit" else rng.logistic(size=n)
            y = (eta[:, 0] + error > 0).astype(int)
        y[:columns] = np.arange(columns)
        y[:2] = [0, 1]
    if rng.random() < 0.25:
        weights = np.exp(rng.normal(size=n) * rng.choice([0.5, 1.5]))
        weights *= n / weights.sum()
    prior = make_prior(rng, p)
    intercept_prior = Normal(float(rng.choice([2.5, 10.0])))
    what = f"{family} {n} x {p} {kinds} strength {strength:g} {prior!r}".replace("\n", " ")
    if isinstance(prior, Normal) and np.ndim(prior.scale):
        what = what.split("Normal(")[0] + "Normal(scale=each)"
    what += f" {noise}" * bool(noise) + " weighted" * (weights is not None)
    return Problem(family, X, y, weights, prior, intercept_prior, noise, what)


# The truth.


class Chains:
    """Many Hamiltonian chains of one density, in coordinates adapted in a warm-up."""

    def __init__(self, target, rng, n_chains=64):
        self.target, self.rng, self.dim = target, rng, target.dim
        self.center, self.factor = self._start()
        # A mode of small area is no place to start from: twice as far out as its width.
        self.z = 1.5 * rng.normal(size=(n_chains, self.dim))
        self.step = 0.5 / self.dim**0.25
        self.value, self.score = self._evaluate(self.z)

    def _start(self):
        first = np.asarray(self.target.initial, dtype=float)
        free = np.arange(self.dim - (self.target.names[-1] == "log_sigma2"))

        def negative(part):
            theta = first.copy()
            theta[free] = part
            value, score = self.target.log_density_and_score(theta[None])
            return -value[0], -score[0, free]

        first[free] = minimize(negative, first[free], jac=True, method="L-BFGS-B").x
        moves = 1e-4 * np.eye(self.dim)
        slopes = self.target.score(first + moves) - self.target.score(first - moves)
        values, vectors = np.linalg.eigh(-(slopes + slopes.T) / 4e-4)
        return first, vectors / np.sqrt(np.maximum(values, 0.05))

    def _theta(self, z):
        return self.center + z @ self.factor.T

    def _evaluate(self, z):
        theta = self._theta(z)
        with np.errstate(over="ignore"):  # jumps go far out, and are rejected
            value, score = self.target.log_density_and_score(theta)
        value = np.where(np.isfinite(value), value, -np.inf)
        return value, np.nan_to_num(score, posinf=0.0, neginf=0.0) @ self.factor

    def _accept(self, log_ratio, proposed):
        ratio = np.exp(np.minimum(np.nan_to_num(log_ratio, nan=-np.inf), 0.0))
        taken = self.rng.random(len(ratio)) < ratio
        self.z, self.value, self.score = (
            np.where(taken.reshape(-1, *[1] * (new.ndim - 1)), new, old)
            for new, old in zip(proposed, (self.z, self.value, self.score), strict=True)
        )
        return ratio.mean()

    def hamiltonian(self):
        p = self.rng.normal(size=self.z.shape)
        n_steps = int(np.clip(np.ceil(self.rng.uniform(1.0, 2.0) / self.step), 1, 40))
        z, score, momentum = self.z, self.score, p
        for _ in range(n_steps):
            momentum = momentum + 0.5 * self.step * score
            z = z + self.step * momentum
            value, score = self._evaluate(z)
            momentum = momentum + 0.5 * self.step * score
        kinetic = 0.5 * (np.sum(p**2, axis=1) - np.sum(momentum**2, axis=1))
        return self._accept(value - self.value + kinetic, (z, value, score))

    def along_rays(self):
        u = self.rng.normal(size=(len(self.z), 1)) * 1.5 / np.sqrt(self.dim)
        z = np.exp(u) * self.z
        value, score = self._evaluate(z)
        self._accept(value - self.value + self.dim * u[:, 0], (z, value, score))

    def along_axes(self):
        which = self.rng.integers(self.dim, size=len(self.z))
        axes = np.linalg.inv(self.factor).T[which]
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        z = self.z + axes * self.rng.standard_cauchy((len(self.z), 1))
        value, score = self._evaluate(z)
        self._accept(value - self.value, (z, value, score))

    def run(self, n, adapt=0.0):
        """Coordinates of ``n`` iterations, shape (n_chains, n, dim)."""
        draws = []
        for i in range(n):
            acceptance = self.hamiltonian()
            if adapt:
                rate = adapt * (3.0 if i < 15 else 1.0)
                self.step = min(self.step * np.exp(rate * (acceptance - 0.85)), 1.6)
            self.along_rays()
            self.along_axes()
            draws.append(self._theta(self.z))
        return np.stack(draws, axis=1)

    def warm_up(self, stages=(40, 60, 100, 50)):
        for n in stages:
            draws = self.run(n, adapt=0.12)
            if n == stages[-1]:
                break
            # Heavy tails must not make the coordinates.
            flat = draws[:, n // 3 :].reshape(-1, self.dim)
            low, middle, high = np.quantile(flat, [0.25, 0.5, 0.75], axis=0)
            spread = 4.0 * (high - low) + 1e-10
            flat = np.clip(flat, middle - spread, middle + spread)
            covariance = np.cov(flat.T).reshape(self.dim, self.dim)
            covariance[np.diag_indices(self.dim)] *= 1.02
            self.center, self.factor = flat.mean(axis=0), np.linalg.cholesky(covariance)
            self.z = np.linalg.solve(self.factor, (draws[:, -1] - self.center).T).T
            self.value, self.score = self._evaluate(self.z)


def exact_draws(problem, rng, n_draws=12_000):
    """Independent draws of a linear regression whose priors are normal, given one precision.

    On a grid of the logarithms of noise variance and precision the coefficients are integrated out;
    given both they are normal.
    """
    prior, weights = problem.prior, problem.weights
    n, p = problem.X.shape
    root = np.sqrt(np.ones(n) if weights is None else weights)
    Z = root[:, None] * np.column_stack([np.ones(n), problem.X])
    y, noise_prior = root * problem.y, problem.target().outcome.extra_prior
    hierarchical = isinstance(prior, HierarchicalNormal)
    scale = 1.0 if hierarchical else prior.scale

    def spectrum(log_alpha):
        sd = np.append(problem.intercept_prior.scale, np.exp(-0.5 * log_alpha) * scale * np.ones(p))
        values, vectors = np.linalg.eigh((Z * sd).T @ (Z * sd))
        return sd[:, None] * vectors, np.maximum(values, 0.0), vectors.T @ (sd * (Z.T @ y))

    def density(log_v, log_alpha):
        table = np.empty((len(log_alpha), len(log_v)))
        for row, alpha in zip(table, log_alpha, strict=True):
            _, values, moment = spectrum(alpha)
            ridge = values + np.exp(log_v)[:, None]
            rest = y @ y - np.sum(moment**2 / ridge, axis=1)
            row[:] = -0.5 * (np.log(ridge).sum(axis=1) + np.exp(-log_v) * rest)
            row += 0.5 * (len(values) - root @ root) * log_v
            row += noise_prior.log_density(log_v[:, None])
            if hierarchical:
                row += prior.shape * alpha - prior.rate * np.exp(alpha)
        return table - table.max()

    def around(grid, found):
        return grid[max(found[0] - 1, 0)], grid[min(found[-1] + 1, len(grid) - 1)]

    log_v, log_alpha = np.linspace(-16.0, 14.0, 400), np.linspace(-16.0, 16.0, 200) * hierarchical
    log_alpha = np.unique(log_alpha)
    for _ in range(2):  # the second time where the first found it
        near = density(log_v, log_alpha) > -18.0
        rows, columns = np.flatnonzero(near.any(axis=1)), np.flatnonzero(near.any(axis=0))
        log_v = np.linspace(*around(log_v, columns), 800)
        if hierarchical:
            log_alpha = np.linspace(*around(log_alpha, rows), 200)
    cumulative = np.cumsum(np.exp(density(log_v, log_alpha)))
    uniform = (np.arange(n_draws) + rng.random(n_draws)) / n_draws
    cells = np.searchsorted(cumulative, uniform * cumulative[-1])
    of_alpha, of_v = np.divmod(cells, len(log_v))
    draws = np.empty((n_draws, p + 2))
    draws[:, -1] = log_v[of_v] + (rng.random(n_draws) - 0.5) * (log_v[1] - log_v[0])
    for k in np.unique(of_alpha):
        chosen = np.flatnonzero(of_alpha == k)
        back, values, moment = spectrum(log_alpha[k])
        v = np.exp(draws[chosen, -1:])
        z = moment / (values + v) + rng.normal(size=(len(chosen), p + 1)) / np.sqrt(values / v + 1)
        draws[chosen, :-1] = z @ back.T
    return rng.permutation(draws)


def quality(draws):
    return split_rhat(draws).max(), np.fmin(ess(draws), ess_tail(draws)).min()


def meets(found, limits):
    return found[0] <= limits[0] and found[1] >= limits[1]


def find_truth(problem, seed, seconds):
    """Mean, standard deviations, quantiles on ``GRID``, R-hat and effective sample size."""
    start = time.process_time()
    rng = np.random.default_rng([seed, 77])
    if problem.family == "linear" and isinstance(problem.prior, Normal | HierarchicalNormal):
        draws = exact_draws(problem, rng)
        draws = draws.reshape(4, -1, draws.shape[1])
    else:
        with np.errstate(all="ignore"):
            chains = Chains(problem.target(), rng)
            chains.warm_up()
            draws = chains.run(120)
            while not meets(quality(draws), WANTED) and time.process_time() - start < seconds:
                draws = np.concatenate([draws, chains.run(draws.shape[1] // 2)], axis=1)
    rhat, size = quality(draws)
    flat = draws.reshape(-1, draws.shape[2])
    return {
        "mean": flat.mean(axis=0),
        "sd": flat.std(axis=0),
        "grid": np.quantile(flat, GRID, axis=0),
        "rhat": rhat,
        "ess": size,
        "seconds": time.process_time() - start,
    }


def truth_of(folder, problem, seed, seconds):
    path = folder / "truth" / f"{seed}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **find_truth(problem, seed, seconds))
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


# Fits, and what is wrong with them.


def quantiles_of(truth, levels):
    return np.stack([np.interp(ndtri(levels), ndtri(GRID), g) for g in truth["grid"].T], axis=1)


def compare(posterior, truth):
    """Errors of each coordinate: what `judge` needs."""
    quarter = quantiles_of(truth, np.array([0.25, 0.75]))
    found, expected = posterior.quantile(LEVELS), quantiles_of(truth, LEVELS)
    reached = [np.interp(q, g, GRID) for q, g in zip(found.T, truth["grid"].T, strict=True)]
    fourth = ((truth["grid"] - truth["mean"]) / truth["sd"]) ** 4
    return {
        "mean": (posterior.mean() - truth["mean"]) / truth["sd"],
        "sd": posterior.std() / truth["sd"],
        "quantiles": (found - expected) / truth["sd"],
        "robust": (found - expected) * 1.35 / np.diff(quarter, axis=0),
        "levels": np.transpose(reached) - LEVELS[:, None],
        "kurtosis": np.trapezoid(fourth, GRID, axis=0) + GRID[0] * (fourth[0] + fourth[-1]),
    }


def judge(fit, ess, noise=False):
    """What is wrong, as a list of words; with ``noise`` only what sampling does not explain."""
    error, ratio, levels = (np.array(fit[name]) for name in ("mean", "sd", "levels"))
    quantiles = np.abs(fit["robust" if fit["heavy"] else "quantiles"])
    off = quantiles > QUANTILE
    wrong_mean, wrong_sd = np.abs(error) > MEAN, (ratio < SD[0]) | (ratio > SD[1])
    if noise:
        share = np.sqrt(1 / fit["points"] + 1 / ess)
        spread = np.sqrt(LEVELS * (1 - LEVELS))[:, None] * share
        off &= np.abs(levels) > STANDARD_ERRORS * spread
        certain = STANDARD_ERRORS * np.sqrt(1 / 1000 + 1 / ess)
        wrong_mean &= np.abs(error) > certain
        wrong_sd &= np.abs(np.log(ratio)) > certain * np.sqrt((np.array(fit["kurtosis"]) - 1) / 4)
    words = [
        f"{label} {worst:+.2f}"
        for label, bad, worst in (
            ("mean", wrong_mean, error[np.argmax(np.abs(error))]),
            ("sd", wrong_sd, ratio[np.argmax(np.abs(np.log(ratio)))]),
        )
        if bad.any() and not fit["heavy"]
    ]
    return words + [f"quantile {quantiles.max():.2f}"] * bool(off.any())


def run(problem, truth, engine, seed):
    model = problem.estimator(engine, seed)
    weights = {} if problem.weights is None else {"sample_weight": problem.weights}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        try:
            posterior = model.fit(problem.X, problem.y, **weights).posterior_
        except Exception as error:
            return {"seed": seed, "raised": repr(error)}
        seconds = time.process_time() - start
    errors = compare(posterior, truth)
    return {
        "seed": seed,
        "heavy": bool(problem.heavy),
        "points": len(posterior),
        "warned": [str(warning.message).split(": ", 1)[-1] for warning in caught],
        "seconds": round(seconds, 3),
        **{name: np.round(value, 3).tolist() for name, value in errors.items()},
    }


def exact(truth, problem, seed):
    """As `run`, of a thousand independent draws of every coordinate."""
    uniform = np.random.default_rng([seed, 5]).random((1000, len(truth["mean"])))
    draws = [np.interp(u, GRID, g) for u, g in zip(uniform.T, truth["grid"].T, strict=True)]
    errors = compare(ParticlePosterior(np.transpose(draws)), truth)
    about = {"seed": seed, "heavy": problem.heavy, "points": 1000, "warned": []}
    return {**about, "seconds": np.nan, **errors}


def fits_of(folder, engine):
    path = folder / f"{engine}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {fit["seed"]: fit for fit in map(json.loads, lines)}


def sweep(folder, engines, seeds, seconds, largest):
    done = {engine: fits_of(folder, engine) for engine in engines}
    for seed in seeds:
        wanted = [engine for engine in engines if seed not in done[engine]]
        if not wanted:
            continue
        problem = make_problem(seed)
        if problem.dim > largest:
            continue
        truth = truth_of(folder, problem, seed, seconds)
        found = truth["rhat"], truth["ess"]
        print(
            f"{seed:4d} {problem.what}: R-hat {found[0]:.3f} ESS {found[1]:.0f} "
            f"{truth['seconds']:.1f} s",
            flush=True,
        )
        if not meets(found, LEAST):
            continue
        for engine in wanted:
            fit = run(problem, truth, engine, seed)
            with (folder / f"{engine}.jsonl").open("a") as file:
                file.write(json.dumps(fit) + "\n")
            if "raised" in fit:
                print(f"     {engine:12} raised {fit['raised'][:150]}", flush=True)
                continue
            wrong = judge(fit, found[1])
            verdict = ", ".join(wrong) or "right"
            if wrong and not judge(fit, found[1], noise=True):
                verdict += " (noise)"
            warned = f" WARNED {fit['warned'][0][:110]}" if fit["warned"] else ""
            print(f"     {engine:12} {fit['seconds']:6.2f} s {verdict}{warned}", flush=True)


# The table.

COLUMNS = (
    "engine",
    "problems",
    "right, silent",
    "right, warned",
    "wrong, warned",
    "wrong, silent",
    "beyond noise",
    "seconds",
)


def table(folder, seeds):
    """Rows of ``COLUMNS`` by engine, and lines on what was missed in silence."""
    truths, unknown = {}, []
    for seed in seeds:
        if (folder / "truth" / f"{seed}.npz").exists():
            problem = make_problem(seed)
            truth = truth_of(folder, problem, seed, 0.0)
            if meets((truth["rhat"], truth["ess"]), LEAST):
                truths[seed] = problem, truth
            else:
                unknown.append(seed)
    found = {engine: fits_of(folder, engine) for engine in ENGINES}
    found["exact draws"] = {s: exact(truth, problem, s) for s, (problem, truth) in truths.items()}
    lines, rows = [f"problems without a truth: {unknown}"], []
    for engine, fits in found.items():
        fits = {seed: fit for seed, fit in fits.items() if seed in truths}
        raised = [seed for seed, fit in fits.items() if "raised" in fit]
        lines += [f"{engine} {seed} raised {fits.pop(seed)['raised']}" for seed in raised]
        counts, beyond = np.zeros((2, 2), dtype=int), 0
        counts[1, 1] = len(raised)
        for seed, fit in fits.items():
            problem, truth = truths[seed]
            wrong, warned = judge(fit, truth["ess"]), bool(fit["warned"])
            counts[int(bool(wrong)), int(warned)] += 1
            if wrong and not warned:
                noise = not judge(fit, truth["ess"], noise=True)
                beyond += not noise
                said = f"silent: {', '.join(wrong)}{' (noise)' * noise}"
                lines.append(f"{engine} {seed} {said} {problem.what}")
            elif warned and not wrong:
                lines.append(f"{engine} {seed} false alarm: {fit['warned'][0][:150]}")
        if fits:
            seconds = np.median([fit["seconds"] for fit in fits.values()])
            row = [engine, counts.sum(), *counts[0], *counts[1, ::-1], beyond]
            rows.append([*row, f"{seconds:.2f}".replace("nan", "")])
    return rows, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", nargs="+", default=["mcmc", "pmfvb"], choices=ENGINES)
    parser.add_argument("--problems", nargs=2, type=int, default=[0, 500], metavar=("FIRST", "END"))
    parser.add_argument("--largest", type=int, default=200, help="leave out more coordinates")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a truth, at most")
    parser.add_argument(
        "--table", action="store_true", help="print what was found, and run nothing"
    )
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    arguments = parser.parse_args()
    seeds = range(*arguments.problems)
    if not arguments.table:
        sweep(arguments.folder, arguments.engines, seeds, arguments.seconds, arguments.largest)
    rows, lines = table(arguments.folder, seeds)
    print("\n".join(lines))
    for row in (COLUMNS, *rows):
        print("".join(f"{cell!s:>15}" for cell in row))
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
