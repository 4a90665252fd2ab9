"""
Fit your own log density: eight schools
=======================================

A density of your own needs two NumPy functions: its logarithm and the gradient of that, for many
points at a time. Here it is the hierarchical model of eight coaching programmes (Rubin 1981), whose
posterior is known up to one integral, so that what the engines find can be checked.
"""

# %%
# The model
# ---------
# School :math:`j` reports an effect :math:`y_j` with a known standard error :math:`\sigma_j`. The
# true effects scatter around a common mean, by an amount that is to be learnt too:
#
# .. math::
#     y_j \sim N(\mu + \tau \eta_j, \sigma_j^2), \quad \eta_j \sim N(0, 1), \quad
#     \mu \sim N(0, 5^2), \quad \tau \sim \text{half-Cauchy}(5).
#
# The standardised effects :math:`\eta_j` (the *non-centred* form) do away with the funnel that
# :math:`\tau` and the effects themselves would form. Engines work on unconstrained coordinates, so
# :math:`\tau` enters as :math:`\log \tau`, and the Jacobian of that change, :math:`\tau`, belongs
# to the density.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from skstein import LogDensity, infer
from skstein.inference import MCMC, PMFVB
from skstein.posterior import weighted_quantile

y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def log_density(theta):
    mu, log_tau, eta = theta[:, 0], theta[:, 1], theta[:, 2:]
    tau = np.exp(log_tau)
    residual = (y - mu[:, None] - tau[:, None] * eta) / sigma
    prior = -0.5 * (mu / 5) ** 2 - np.log1p((tau / 5) ** 2) - 0.5 * np.sum(eta**2, axis=1)
    return prior + log_tau - 0.5 * np.sum(residual**2, axis=1)


def score(theta):
    mu, eta = theta[:, 0], theta[:, 2:]
    tau = np.exp(theta[:, 1])
    pull = (y - mu[:, None] - tau[:, None] * eta) / sigma**2
    gradient = np.empty_like(theta)
    gradient[:, 0] = pull.sum(axis=1) - mu / 25
    gradient[:, 1] = tau * np.sum(pull * eta, axis=1) - 2 * tau**2 / (25 + tau**2) + 1
    gradient[:, 2:] = tau[:, None] * pull - eta
    return gradient


names = ["mu", "log_tau", *(f"eta[{school}]" for school in "ABCDEFGH")]
target = LogDensity(log_density, score, dim=10, names=names)

# %%
# A wrong gradient is the usual mistake, and a difference quotient finds it.

point, step = np.random.default_rng(0).standard_normal((1, 10)), 1e-6
shifted = point + step * np.concatenate([np.eye(10), -np.eye(10)])
quotient = np.subtract(*np.split(log_density(shifted), 2)) / (2 * step)
print(f"largest difference: {np.abs(quotient - score(point)).max():.1e}")

# %%
# Two engines
# -----------
# :func:`~skstein.infer` finds the mode, whitens the coordinates, runs the engine there and gives
# the particles back in the coordinates of the density.
#
# The left tail of :math:`\log \tau` is long, because all small :math:`\tau` are alike to the data,
# and chains and particles are slow to cross it. So both engines may run longer than by default.

engines = {"mcmc": MCMC(max_draws=8000), "pmfvb": PMFVB(n_snapshots=400, max_iter=2000)}
posteriors = {label: infer(target, engine, random_state=0) for label, engine in engines.items()}

# %%
# The exact answer
# ----------------
# Given :math:`\tau`, everything else is normal and can be integrated by hand: :math:`\mu` has
# precision :math:`1/25 + \sum_j 1/(\sigma_j^2 + \tau^2)`, and the effects of the schools follow
# from it. What is left is a sum over a grid of :math:`\log \tau`.

tau = np.exp(np.linspace(-12, 7, 1001))
precision = 1 / (sigma**2 + tau[:, None] ** 2)
mu_precision = 1 / 25 + precision.sum(axis=1)
mu_mean = precision @ y / mu_precision
log_weight = 0.5 * np.log(precision).sum(axis=1) - 0.5 * np.log(mu_precision)
log_weight += 0.5 * mu_mean**2 * mu_precision - 0.5 * precision @ y**2
log_weight += np.log(tau) - np.log1p((tau / 5) ** 2)
weight = np.exp(log_weight - logsumexp(log_weight))

share = tau[:, None] ** 2 * precision  # of the data in a school's effect, against the common mean
effect_mean = share * y + (1 - share) * mu_mean[:, None]
effect_var = share * sigma**2 + (1 - share) ** 2 / mu_precision[:, None]


def moments(mean, variance=0.0):
    total = weight @ mean
    return total, np.sqrt(weight @ (variance + (mean - total) ** 2))


print(f"{'':10}{'mu':>6}{'sd':>6}{'tau':>8}{'sd':>6}")
rows = {"exact": (*moments(mu_mean, 1 / mu_precision), *moments(tau))}
for label, posterior in posteriors.items():
    values = np.column_stack([posterior.particles[:, 0], np.exp(posterior.particles[:, 1])])
    mean = posterior.weights @ values
    sd = np.sqrt(posterior.weights @ (values - mean) ** 2)
    rows[label] = (mean[0], sd[0], mean[1], sd[1])
for label, row in rows.items():
    print("{:10}{:6.2f}{:6.2f}{:8.2f}{:6.2f}".format(label, *row))

# %%
# The effects of the schools are functions of the particles. Grey bars are exact medians and 90 %
# intervals, crosses the reported effects: eight programmes of nearly the same worth.

levels = [0.05, 0.5, 0.95]
grid = np.linspace(-30, 50, 401)
standard = (grid[:, None, None] - effect_mean) / np.sqrt(effect_var)
distribution = np.einsum("t,gts->gs", weight, norm.cdf(standard))
exact = np.array([np.interp(levels, column, grid) for column in distribution.T])

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.5, 4), width_ratios=[1.6, 1], layout="constrained"
)
schools = np.arange(8)
left.bar(schools, exact[:, 2] - exact[:, 0], 0.7, exact[:, 0], color="0.87", label="exact")
left.hlines(exact[:, 1], schools - 0.35, schools + 0.35, color="0.5", lw=1.5)
left.plot(schools, y, "x", color="0.3", ms=6, label="reported")
right.fill_between(tau, weight / np.gradient(tau), color="0.87")
for shift, color, (label, posterior) in zip(
    (-0.14, 0.14), ("#CC79A7", "#E69F00"), posteriors.items(), strict=True
):
    theta = posterior.particles
    effects = theta[:, :1] + np.exp(theta[:, 1:2]) * theta[:, 2:]
    low, median, high = weighted_quantile(effects, posterior.weights, levels)
    left.vlines(schools + shift, low, high, color=color, lw=2)
    left.plot(schools + shift, median, "o", color=color, ms=5, label=label)
    right.hist(
        np.exp(theta[:, 1]),
        np.arange(0, 16.0),
        weights=posterior.weights,
        histtype="step",
        color=color,
        lw=1.8,
    )
left.set_xticks(schools, list("ABCDEFGH"))
left.set_xlabel("school")
left.set_ylabel("points in the test")
left.set_ylim(-8, 35)
left.set_title("Effect of the programme: median and 90 % interval", loc="left", fontsize=11)
left.legend(ncols=4, fontsize=9, frameon=False, loc="upper right")
right.set_xlim(0, 15)
right.set_ylim(0, None)
right.set_xlabel(r"$\tau$, the spread of the true effects")
right.set_title("Posterior density", loc="left", fontsize=11)
plt.show()
