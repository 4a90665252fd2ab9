"""Posteriors of posteriordb, with the models of their Stan programs written by hand.

Reference draws are Stan's: ten thousand, thinned to be nearly independent (Magnusson et al. 2025).
Engines see a `LogDensity` of unconstrained coordinates, with the logarithms of Jacobians that Stan
adds, and start their search for the mode at zeros; what is compared are the parameters as Stan
reports them. The table has the root mean square over parameters of the errors of the means and of
the 5, 50 and 95 % points, in posterior standard deviations, with their worst; the least and
greatest ratio of standard deviations; the warnings; and seconds of the processor.

A linear regression's score is written out. The others' are complex steps,
:math:`\\partial_j f(x) = Im f(x + i h e_j) / h` with h = 1e-30: no difference is taken, so that the
derivative is exact to rounding for every function of analytic pieces, at the price of a density in
complex numbers for each coordinate.

Usage::

    POSTERIORDB=folder python examples/benchmarks/posteriordb.py RESULTS [--engines mcmc svgd]
        [--names arK-arK] [--seeds 0]
    python examples/benchmarks/posteriordb.py RESULTS --table [--csv doc/tables/posteriordb.csv]

POSTERIORDB names a copy of https://github.com/stan-dev/posteriordb. RESULTS is a file of one line a
fit; what is there already is left out, so that a run can be stopped at any time.
"""

import argparse
import csv
import itertools
import json
import os
import time
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skstein import LogDensity, infer
from skstein.inference import ENGINES

LEVELS = np.array([0.05, 0.5, 0.95])
STEP = 1e-30


@dataclass
class Model:
    """A log density of ``dim`` unconstrained coordinates, and Stan's parameters from these.

    ``constrain(theta)`` gives columns in the order of ``names``. Without a ``score`` it is found by
    complex steps.
    """

    dim: int
    log_density: Any
    constrain: Any
    names: list
    score: Any = None

    def target(self):
        """The density is 0 where it leaves the range of floating point, as infinity / infinity."""
        score = self.score or self.complex_step
        return LogDensity(
            lambda theta: np.nan_to_num(self.log_density(theta), nan=-np.inf, neginf=-np.inf),
            lambda theta: np.nan_to_num(score(theta), posinf=0.0, neginf=0.0),
            dim=self.dim,
        )

    def complex_step(self, theta):
        m, dim = theta.shape
        moved = theta[None] + 1j * STEP * np.eye(dim)[:, None]
        values = self.log_density(moved.reshape(dim * m, dim))
        return values.imag.reshape(dim, m).T / STEP


def named(name, size):
    return [f"{name}[{j}]" for j in range(1, size + 1)]


# Maps from the line, with the logarithms of their slopes.


def positive(u):
    return np.exp(u), u


def unit(u):
    """To (0, 1)."""
    value = 1.0 / (1.0 + np.exp(-u))
    return value, np.log(value) + np.log(1.0 - value)


def normal(x, mean, sd):
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd)


def cauchy(x, scale):
    return -np.log(1.0 + (x / scale) ** 2)


def log_sum_exp(a, b):
    larger = np.where(a.real > b.real, a, b)
    return larger + np.log(np.exp(a - larger) + np.exp(b - larger))


# Linear regressions.


@dataclass
class NormalPrior:
    mean: Any = 0.0
    sd: Any = np.inf

    def __call__(self, x):
        z = (x - self.mean) / self.sd
        return -0.5 * z**2, -z / self.sd


@dataclass
class StudentPrior:
    df: float
    scale: float
    mean: float = 0.0

    def __call__(self, x):
        z = (x - self.mean) / self.scale
        log_density = -0.5 * (self.df + 1) * np.log1p(z**2 / self.df)
        return log_density, -(self.df + 1) * z / (self.df + z**2) / self.scale


def regression(Z, y, names=None, prior=None, sigma_prior=None, intercept_prior=None):
    """``y ~ normal(Z beta, sigma)``; coordinates are beta, where ``intercept_prior`` is that of the
    last, and log sigma. Priors are flat by default."""
    prior, sigma_prior = prior or NormalPrior(), sigma_prior or NormalPrior()
    last = intercept_prior or prior
    n, k = Z.shape
    best, gram = np.linalg.lstsq(Z, y)[0], Z.T @ Z
    least = np.sum((y - Z @ best) ** 2)

    def both(theta):
        beta, log_sigma = theta[:, :-1], theta[:, -1]
        sigma = np.exp(log_sigma)
        pulled = (beta - best) @ gram
        squares = (least + np.sum((beta - best) * pulled, axis=1)) / sigma**2
        value, slope = prior(beta)
        if last is not prior:
            value[:, -1], slope[:, -1] = last(beta[:, -1])
        of_sigma, by_sigma = sigma_prior(sigma)
        by_log_sigma = squares - n + 1.0 + by_sigma * sigma
        return (
            value.sum(axis=1) + of_sigma - 0.5 * squares - (n - 1.0) * log_sigma,
            np.column_stack([slope - pulled / sigma[:, None] ** 2, by_log_sigma]),
        )

    return Model(
        k + 1,
        lambda theta: both(theta)[0],
        lambda theta: np.column_stack([theta[:, :-1], np.exp(theta[:, -1])]),
        [*(names or named("beta", k)), "sigma"],
        lambda theta: both(theta)[1],
    )


def columns(*features):
    return np.column_stack([np.ones_like(features[0]), *features])


HALF_CAUCHY = StudentPrior(1.0, 2.5)


def kidiq(d, *names, **options):
    hs, iq = d["mom_hs"], d["mom_iq"]
    parts = {"hs": hs, "iq": iq, "interaction": hs * iq}
    return regression(columns(*(parts[name] for name in names)), d["kid_score"], **options)


def kidiq_moved(d, centers, scales=(1.0, 1.0)):
    hs, iq = ((d[k] - c) / s for k, c, s in zip(("mom_hs", "mom_iq"), centers, scales, strict=True))
    return regression(columns(hs, iq, hs * iq), d["kid_score"])


def kidiq_c(d):
    return kidiq_moved(d, (d["mom_hs"].mean(), d["mom_iq"].mean()))


def kidiq_z(d):
    centers = d["mom_hs"].mean(), d["mom_iq"].mean()
    return kidiq_moved(d, centers, (2 * d["mom_hs"].std(ddof=1), 2 * d["mom_iq"].std(ddof=1)))


def mom_work(d):
    return regression(columns(*(1.0 * (d["mom_work"] == k) for k in (2, 3, 4))), d["kid_score"])


def earnings(d, make, outcome=np.log):
    return regression(columns(*make(d["height"], d["male"])), outcome(d["earn"]))


def interaction_z(height, male):
    z = (height - height.mean()) / height.std(ddof=1)
    return z, male, z * male


def mesquite(d, *names, log=True):
    one, two, height = d["diam1"], d["diam2"], d["canopy_height"]
    parts = {**d, "volume": one * two * height, "area": one * two, "shape": one / two}
    function = np.log if log else np.asarray
    features = [parts[name] if name == "group" else function(parts[name]) for name in names]
    return regression(columns(*features), function(d["weight"]))


SIX = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
VOLUME_AREA_SHAPE = ("volume", "area", "shape", "total_height")


def nes(d):
    ages = [1.0 * (d["age_discrete"] == k) for k in (2, 3, 4)]
    others = d["educ1"], d["gender"], d["income"]
    return regression(columns(d["real_ideo"], d["race_adj"], *ages, *others), d["partyid7"])


def kilpisjarvi(d):
    prior = NormalPrior(
        np.array([d["pmualpha"], d["pmubeta"]]), np.array([d["psalpha"], d["psbeta"]])
    )
    return regression(columns(d["x"]), d["y"], ["alpha", "beta"], prior)


def blr(d):
    return regression(d["X"], d["y"], None, NormalPrior(sd=10.0), NormalPrior(sd=10.0))


def ar_k(d):
    y, k = d["y"], d["K"]
    lags = columns(*(y[k - lag : -lag] for lag in range(1, k + 1)))
    names = ["alpha", *named("beta", k)]
    return regression(lags, y[k:], names, NormalPrior(sd=10.0), HALF_CAUCHY)


def diamonds(d):
    X = d["X"][:, 1:]
    Z = np.column_stack([X - X.mean(axis=0), np.ones(len(X))])
    return regression(
        Z,
        d["Y"],
        [*named("b", X.shape[1]), "Intercept"],
        NormalPrior(sd=1.0),
        StudentPrior(3.0, 10.0),
        StudentPrior(3.0, 10.0, 8.0),
    )


# Hierarchies, time series, mixtures.


def eight_schools(d, centered):
    y, sigma = d["y"], d["sigma"]

    def effects(theta):
        tau = np.exp(theta[:, -1:])
        return theta[:, :8] if centered else theta[:, 8:9] + tau * theta[:, :8]

    def log_density(theta):
        mu, log_tau = theta[:, 8], theta[:, 9]
        tau, effect = np.exp(log_tau), effects(theta)
        of_effects = (
            normal(effect, mu[:, None], tau[:, None]) if centered else -0.5 * theta[:, :8] ** 2
        )
        value = of_effects.sum(axis=1) + normal(y, effect, sigma).sum(axis=1)
        return value + normal(mu, 0.0, 5.0) + cauchy(tau, 5.0) + log_tau

    def constrain(theta):
        return np.column_stack([effects(theta), theta[:, 8], np.exp(theta[:, 9])])

    return Model(10, log_density, constrain, [*named("theta", 8), "mu", "tau"])


def arma(d):
    y = d["y"]

    def log_density(u):
        mu, phi, theta, log_sigma = u.T
        sigma = np.exp(log_sigma)
        error = y[0] - mu - phi * mu
        squares = error**2
        for before, now in itertools.pairwise(y):
            error = now - mu - phi * before - theta * error
            squares = squares + error**2
        priors = normal(mu, 0.0, 10.0) + normal(phi, 0.0, 2.0) + normal(theta, 0.0, 2.0)
        likelihood = -0.5 * squares / sigma**2 - len(y) * log_sigma
        return priors + cauchy(sigma, 2.5) + log_sigma + likelihood

    def constrain(u):
        return np.column_stack([u[:, :3], np.exp(u[:, 3])])

    return Model(4, log_density, constrain, ["mu", "phi", "theta", "sigma"])


def garch(d):
    y, first = d["y"], d["sigma1"]

    def parts(u):
        alpha0, slope0 = positive(u[:, 1])
        alpha1, slope1 = unit(u[:, 2])
        share, slope2 = unit(u[:, 3])
        slopes = slope0 + slope1 + slope2 + np.log(1.0 - alpha1)
        return u[:, 0], alpha0, alpha1, share * (1.0 - alpha1), slopes

    def log_density(u):
        mu, alpha0, alpha1, beta1, value = parts(u)
        variance = first**2
        for t, now in enumerate(y):
            if t:
                variance = alpha0 + alpha1 * (y[t - 1] - mu) ** 2 + beta1 * variance
            value = value - 0.5 * (now - mu) ** 2 / variance - 0.5 * np.log(variance)
        return value

    def constrain(u):
        return np.column_stack(parts(u)[:4])

    return Model(4, log_density, constrain, ["mu", "alpha0", "alpha1", "beta1"])


def squared_exponential(x, alpha, rho):
    distance = (x[:, None] - x) ** 2
    return alpha[:, None, None] ** 2 * np.exp(-0.5 * distance / rho[:, None, None] ** 2)


def gp_priors(log_rho, log_alpha):
    """rho ~ gamma(25, 4), alpha ~ normal(0, 2), both as logarithms."""
    rho, alpha = np.exp(log_rho), np.exp(log_alpha)
    return rho, alpha, 25.0 * log_rho - 4.0 * rho + normal(alpha, 0.0, 2.0) + log_alpha


def cholesky(matrix):
    """Of matrices (m, n, n); analytic, where that of a complex matrix in NumPy is not."""
    n = matrix.shape[1]
    lower = np.zeros_like(matrix)
    for j in range(n):
        row = lower[:, j, :j]
        lower[:, j, j] = np.sqrt(matrix[:, j, j] - np.sum(row**2, axis=1))
        inner = np.einsum("mik,mk->mi", lower[:, j + 1 :, :j], row)
        lower[:, j + 1 :, j] = (matrix[:, j + 1 :, j] - inner) / lower[:, j, j, None]
    return lower


def gp_regression(d):
    x, y = d["x"], d["y"]
    n = len(x)

    def log_density(u):
        rho, alpha, value = gp_priors(u[:, 0], u[:, 1])
        sigma = np.exp(u[:, 2])
        cov = np.empty((len(u), n + 1, n + 1), dtype=u.dtype)
        cov[:, :n, :n] = squared_exponential(x, alpha, rho) + sigma[:, None, None] * np.eye(n)
        cov[:, n, :n] = cov[:, :n, n] = y
        cov[:, n, n] = 1.0  # does not matter
        factor = cholesky(cov)
        solved, scales = factor[:, n, :n], np.einsum("mii->mi", factor)[:, :n]
        likelihood = -np.sum(0.5 * solved**2 + np.log(scales), axis=1)
        return value + normal(sigma, 0.0, 1.0) + u[:, 2] + likelihood

    return Model(3, log_density, np.exp, ["rho", "alpha", "sigma"])


def gp_poisson(d):
    x, k = d["x"], d["k"]

    def latent(u):
        rho, alpha, value = gp_priors(u[:, 0], u[:, 1])
        factor = cholesky(squared_exponential(x, alpha, rho) + 1e-10 * np.eye(len(x)))
        return rho, alpha, np.einsum("mij,mj->mi", factor, u[:, 2:]), value

    def log_density(u):
        _, _, f, value = latent(u)
        return value - 0.5 * np.sum(u[:, 2:] ** 2, axis=1) + np.sum(k * f - np.exp(f), axis=1)

    def constrain(u):
        return np.column_stack(latent(u)[:3])

    return Model(2 + len(x), log_density, constrain, ["rho", "alpha", *named("f", len(x))])


def mixture(d):
    y = d["y"]

    def parts(u):
        second, slope = positive(u[:, 1])
        sigma, slopes = positive(u[:, 2:4])
        share, of_share = unit(u[:, 4])
        return u[:, 0], u[:, 0] + second, sigma, share, slope + slopes.sum(axis=1) + of_share

    def log_density(u):
        one, two, sigma, share, value = parts(u)
        value = value + normal(one, 0.0, 2.0) + normal(two, 0.0, 2.0)
        value = value - 0.125 * np.sum(sigma**2, axis=1) + 4 * np.log(share) + 4 * np.log(1 - share)
        a = np.log(share)[:, None] + normal(y, one[:, None], sigma[:, :1])
        b = np.log(1.0 - share)[:, None] + normal(y, two[:, None], sigma[:, 1:])
        return value + log_sum_exp(a, b).sum(axis=1)

    def constrain(u):
        one, two, sigma, share, _ = parts(u)
        return np.column_stack([one, two, sigma, share])

    return Model(5, log_density, constrain, [*named("mu", 2), *named("sigma", 2), "theta"])


def forward(log_emission, stay, leave):
    """Log likelihood of a chain of two states: ``log_emission`` (m, n, 2), and the probabilities
    (m,) with which the first state follows the first, and the second."""
    top = log_emission.real.max(axis=2)
    emission = np.exp(log_emission - top[:, :, None])
    first, second, value = emission[:, 0, 0], emission[:, 0, 1], top.sum(axis=1)
    for t in range(1, log_emission.shape[1]):
        first, second = (
            (first * stay + second * leave) * emission[:, t, 0],
            (first * (1.0 - stay) + second * (1.0 - leave)) * emission[:, t, 1],
        )
        total = first + second
        first, second, value = first / total, second / total, value + np.log(total)
    return value + np.log(first + second)


def simplexes(u):
    """Two simplexes of two, as columns, and the logarithms of the slopes."""
    a, of_a = unit(u[:, 0])
    b, of_b = unit(u[:, 1])
    return np.column_stack([a, 1.0 - a, b, 1.0 - b]), of_a + of_b


SIMPLEXES = [*named("theta1", 2), *named("theta2", 2)]


def hmm_example(d):
    y = d["y"]

    def means(u):
        gaps, slopes = positive(u[:, 2:])
        return np.cumsum(gaps, axis=1), slopes.sum(axis=1)

    def log_density(u):
        theta, value = simplexes(u)
        mu, slopes = means(u)
        value = value + slopes + normal(mu[:, 0], 3.0, 1.0) + normal(mu[:, 1], 10.0, 1.0)
        emission = normal(y[None, :, None], mu[:, None], 1.0)
        return value + forward(emission, theta[:, 0], theta[:, 2])

    def constrain(u):
        return np.column_stack([simplexes(u)[0], means(u)[0]])

    return Model(4, log_density, constrain, [*SIMPLEXES, *named("mu", 2)])


def hmm_drive(d, exponential):
    outcomes, alpha = np.stack([d["u"], d["v"]], axis=1), d["alpha"]

    def emitted(u):
        """phi and lambda, (m, 2) each, and the logarithms of the slopes."""
        pairs, slopes = [], 0.0
        for first, gap in ((u[:, 2], u[:, 3]), (u[:, 4], u[:, 5])):
            second, slope = positive(gap)
            slopes = slopes + slope
            if exponential:
                first, slope = positive(first)
                slopes = slopes + slope
            pairs.append(np.column_stack([first, first + second]))
        return *pairs, slopes

    def log_density(u):
        theta, value = simplexes(u)
        *pairs, slopes = emitted(u)
        value = value + slopes + np.log(theta) @ (alpha.ravel() - 1.0)
        emission = 0.0
        for pair, outcome, sd in zip(pairs, outcomes.T, (d.get("tau"), d.get("rho")), strict=True):
            value = value + normal(pair[:, 0], 0.0, 1.0) + normal(pair[:, 1], 3.0, 1.0)
            pair, outcome = pair[:, None], outcome[None, :, None]
            likelihood = np.log(pair) - pair * outcome if exponential else normal(outcome, pair, sd)
            emission = emission + likelihood
        return value + forward(emission, theta[:, 0], theta[:, 2])

    def constrain(u):
        phi, lambda_, _ = emitted(u)
        return np.column_stack([simplexes(u)[0], phi, lambda_])

    return Model(6, log_density, constrain, [*SIMPLEXES, *named("phi", 2), *named("lambda", 2)])


def one_compartment(d, n_steps=20):
    """Concentrations by Runge-Kutta, with ``n_steps`` between any two times of measurement."""
    times, dose, volume = np.append(d["t0"], d["times"]), d["D"], d["V"]

    def concentrations(k_a, k_m, v_m):
        def slope(t, c):
            intake = np.exp(-k_a * t) * dose * k_a / volume if t > 0 else 0.0
            return intake - v_m / volume * c / (k_m + c)

        c, found = 0.0 * k_a, []
        for start, end in itertools.pairwise(times):
            h = (end - start) / n_steps
            for t in start + h * np.arange(n_steps):
                one = slope(max(t, 1e-12), c)
                two = slope(t + 0.5 * h, c + 0.5 * h * one)
                three = slope(t + 0.5 * h, c + 0.5 * h * two)
                c = c + h / 6 * (one + 2 * two + 2 * three + slope(t + h, c + h * three))
            found.append(c)
        return np.stack(found, axis=1)

    def log_density(u):
        p = np.exp(u)
        c = concentrations(*p[:, :3].T)
        likelihood = normal(np.log(d["C_hat"]), np.log(c), p[:, 3:]).sum(axis=1)
        return likelihood + cauchy(p, 1.0).sum(axis=1) + u.sum(axis=1)

    return Model(4, log_density, np.exp, ["k_a", "K_m", "V_m", "sigma"])


def lotka_volterra(d, n_steps=5):
    """Hares and lynxes by Runge-Kutta in logarithms, with ``n_steps`` in a year."""
    observed, h = np.log(np.vstack([d["y_init"], d["y"]])), 1.0 / n_steps

    def log_density(u):
        alpha, beta, gamma, delta = np.exp(u[:, :4]).T
        growth, loss = np.stack([alpha, -gamma]), np.stack([-beta, delta])

        def slope(z):
            return growth + loss * np.exp(z[::-1])

        z, found = u[:, 4:6].T, [u[:, 4:6].T]
        for _ in range(len(d["y"])):
            for _ in range(n_steps):
                one = slope(z)
                two = slope(z + 0.5 * h * one)
                three = slope(z + 0.5 * h * two)
                z = z + h / 6 * (one + 2 * two + 2 * three + slope(z + h * three))
            found.append(z)
        value = normal(observed[:, :, None], np.stack(found), np.exp(u[:, 6:].T)).sum(axis=(0, 1))
        value = value + normal(np.stack([alpha, gamma]), 1.0, 0.5).sum(axis=0)
        value = value + normal(np.stack([beta, delta]), 0.05, 0.05).sum(axis=0)
        value = value + normal(u[:, 4:6], np.log(10.0), 1.0).sum(axis=1)
        return value + normal(u[:, 6:], -1.0, 1.0).sum(axis=1) + u[:, :4].sum(axis=1)

    names = [*named("theta", 4), *named("z_init", 2), *named("sigma", 2)]
    return Model(8, log_density, np.exp, names)


MODELS = {
    "kidiq-kidscore_momhs": lambda d: kidiq(d, "hs", sigma_prior=HALF_CAUCHY),
    "kidiq-kidscore_momiq": lambda d: kidiq(d, "iq", sigma_prior=HALF_CAUCHY),
    "kidiq-kidscore_momhsiq": lambda d: kidiq(d, "hs", "iq", sigma_prior=HALF_CAUCHY),
    "kidiq-kidscore_interaction": lambda d: kidiq(
        d, "hs", "iq", "interaction", sigma_prior=HALF_CAUCHY
    ),
    "kidiq_with_mom_work-kidscore_interaction_c": kidiq_c,
    "kidiq_with_mom_work-kidscore_interaction_c2": lambda d: kidiq_moved(d, (0.5, 100.0)),
    "kidiq_with_mom_work-kidscore_interaction_z": kidiq_z,
    "kidiq_with_mom_work-kidscore_mom_work": mom_work,
    "earnings-earn_height": lambda d: earnings(d, lambda h, m: [h], np.asarray),
    "earnings-log10earn_height": lambda d: earnings(d, lambda h, m: [h], np.log10),
    "earnings-logearn_height": lambda d: earnings(d, lambda h, m: [h]),
    "earnings-logearn_height_male": lambda d: earnings(d, lambda h, m: [h, m]),
    "earnings-logearn_logheight_male": lambda d: earnings(d, lambda h, m: [np.log(h), m]),
    "earnings-logearn_interaction": lambda d: earnings(d, lambda h, m: [h, m, h * m]),
    "earnings-logearn_interaction_z": lambda d: earnings(d, interaction_z),
    "mesquite-mesquite": lambda d: mesquite(d, *SIX, log=False),
    "mesquite-logmesquite": lambda d: mesquite(d, *SIX),
    "mesquite-logmesquite_logvolume": lambda d: mesquite(d, "volume"),
    "mesquite-logmesquite_logva": lambda d: mesquite(d, "volume", "area", "group"),
    "mesquite-logmesquite_logvas": lambda d: mesquite(d, *VOLUME_AREA_SHAPE, "density", "group"),
    "mesquite-logmesquite_logvash": lambda d: mesquite(d, *VOLUME_AREA_SHAPE, "group"),
    **{f"nes{year}-nes": nes for year in (1972, 1976, 1980, 1984, 1988, 1992, 1996, 2000)},
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    "sblrc-blr": blr,
    "sblri-blr": blr,
    "arK-arK": ar_k,
    "diamonds-diamonds": diamonds,
    "arma-arma11": arma,
    "garch-garch11": garch,
    "eight_schools-eight_schools_noncentered": lambda d: eight_schools(d, centered=False),
    "eight_schools-eight_schools_centered": lambda d: eight_schools(d, centered=True),
    "gp_pois_regr-gp_regr": gp_regression,
    "gp_pois_regr-gp_pois_regr": gp_poisson,
    "low_dim_gauss_mix-low_dim_gauss_mix": mixture,
    "hmm_example-hmm_example": hmm_example,
    "bball_drive_event_0-hmm_drive_0": lambda d: hmm_drive(d, exponential=True),
    "bball_drive_event_1-hmm_drive_1": lambda d: hmm_drive(d, exponential=False),
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs": one_compartment,
    "hudson_lynx_hare-lotka_volterra": lotka_volterra,
}


# Files, fits and the table.


def read(*parts):
    path = Path(os.environ["POSTERIORDB"], "posterior_database", *parts)
    if path.suffix == ".json":
        return json.loads(path.read_text())
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def load(name):
    """The model of a posterior, and the reference draws of its parameters (n, k)."""
    about = read("posteriors", f"{name}.json")
    data = read("data", "data", f"{about['data_name']}.json.zip")
    data = {k: np.array(v, dtype=float) if isinstance(v, list) else v for k, v in data.items()}
    model = MODELS[name](data)
    file = f"{about['reference_posterior_name']}.json.zip"
    chains = read("reference_posteriors", "draws", "draws", file)
    draws = np.column_stack([np.concatenate([chain[n] for chain in chains]) for n in model.names])
    return model, draws


def run(name, engine, seed):
    model, draws = load(name)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        start = time.process_time()
        posterior = infer(model.target(), engine, random_state=seed)
        seconds = time.process_time() - start
    ours, weights = model.constrain(posterior.particles), posterior.weights
    parameters = type(posterior)(ours, weights)
    sd = draws.std(axis=0)
    quantiles = (parameters.quantile(LEVELS) - np.quantile(draws, LEVELS, axis=0)) / sd
    return {
        "name": name,
        "engine": engine,
        "seed": seed,
        "dim": model.dim,
        "mean": ((parameters.mean() - draws.mean(axis=0)) / sd).round(4).tolist(),
        "sd": (parameters.std() / sd).round(4).tolist(),
        "quantiles": quantiles.round(4).tolist(),
        "warned": [str(warning.message) for warning in caught],
        "seconds": round(seconds, 3),
    }


def results_of(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return {(f["name"], f["engine"], f["seed"]): f for f in map(json.loads, lines)}


def summary(fit):
    mean, quantiles = np.array(fit["mean"]), np.array(fit["quantiles"])
    return {
        "mean": np.sqrt(np.mean(mean**2)),
        "worst": np.abs(mean).max(),
        "quantiles": np.sqrt(np.mean(quantiles**2)),
        "worst quantile": np.abs(quantiles).max(),
        "sd min": min(fit["sd"]),
        "sd max": max(fit["sd"]),
        "seconds": fit["seconds"],
    }


def show(fit):
    numbers = "".join(f"{value:9.3f}" for value in summary(fit).values())
    warned = fit["warned"][0][:90] if fit["warned"] else ""
    print(f"{fit['name']:46}{fit['engine']:13}{fit['seed']:2}{numbers}  {warned}", flush=True)


def cell(fits):
    """Mean and quantile error, seconds, and whether there was a warning."""
    if not fits:
        return ""
    mean, quantiles, seconds = (
        np.mean([summary(fit)[key] for fit in fits]) for key in ("mean", "quantiles", "seconds")
    )
    warns = ", warns" * any(fit["warned"] for fit in fits)
    return f"{mean:.2f} / {quantiles:.2f}, {seconds:.1f} s{warns}"


def rows_of(fits, engines):
    """A row a posterior, a `cell` an engine."""
    for name in MODELS:
        by_engine = [
            [fit for (n, e, _), fit in fits.items() if (n, e) == (name, engine)]
            for engine in engines
        ]
        if any(by_engine):
            dim = next(fit["dim"] for several in by_engine for fit in several)
            yield [f"{name.replace('-', ' - ')} ({dim})", *map(cell, by_engine)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--names", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument(
        "--table", action="store_true", help="print what was found, and run nothing"
    )
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    arguments = parser.parse_args()
    fits = results_of(arguments.results)
    for name in arguments.names:
        for engine in arguments.engines:
            for seed in arguments.seeds:
                if (name, engine, seed) not in fits:
                    if arguments.table:
                        continue
                    fits[name, engine, seed] = run(name, engine, seed)
                    with arguments.results.open("a") as file:
                        file.write(json.dumps(fits[name, engine, seed]) + "\n")
                show(fits[name, engine, seed])
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["posterior", *arguments.engines])
            writer.writerows(rows_of(fits, arguments.engines))


if __name__ == "__main__":
    main()
