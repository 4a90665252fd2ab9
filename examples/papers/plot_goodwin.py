r"""
Thin the chains of a differential equation: Goodwin's oscillator
================================================================

Each log density costs the solution of a differential equation, and each prediction made from the
posterior one more: here it pays to keep few points, and good ones. The problem is that of section
4.1 of Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein
discrepancy". They thinned stored chains of two million draws; here data are simulated, and short
chains of two samplers are run and thinned as they come.
"""

# %%
# The model
# ---------
# A gene's product regulates the gene: messenger :math:`u_1`, enzyme :math:`u_2` and product
# :math:`u_3` follow (Goodwin 1965)
#
# .. math::
#     \dot u_1 = \frac{a_1}{1 + a_2 u_3^{10}} - \alpha u_1, \quad
#     \dot u_2 = k_1 u_1 - \alpha u_2, \quad
#     \dot u_3 = k_2 u_2 - \alpha u_3, \quad u(0) = 0.
#
# All three are measured at times 1, 2, ..., 40 with an error of standard deviation 0.1. With
# :math:`k_2 = 1` known there are four parameters, on the log scale, each with a Gamma(2, 1) prior.
#
# The score needs the derivatives :math:`S_j = \partial u / \partial \theta_j`, which follow linear
# equations of their own, :math:`\dot S_j = (\partial \dot u / \partial u) S_j + \partial \dot u /
# \partial \theta_j`: twelve beside the three. Both are compiled with Numba, and solved by the
# classical Runge-Kutta scheme in 640 steps. Row 0 of ``u`` has the concentrations, rows 1 to 4
# the derivatives; without these rows only the concentrations are solved for.

import matplotlib.pyplot as plt
import numpy as np
from numba import njit

from skstein import LogDensity, check_target
from skstein.diagnostics import ess, split_rhat
from skstein.metrics import ksd
from skstein.samplers import MALA, RWM
from skstein.targets import Affine, Transformed
from skstein.thinning import OnlineKSDThinner

N_TIMES, STEPS_BETWEEN, NOISE = 40, 16, 0.1


@njit
def velocity(u, a1, a2, k1, alpha, out):
    power = u[0, 2] ** 9
    rate = a1 / (1.0 + a2 * power * u[0, 2])
    slope = -10.0 * a2 * power * rate**2 / a1  # of the rate, by u_3
    for j in range(len(u)):
        out[j, 0] = -alpha * u[j, 0]
        out[j, 1] = k1 * u[j, 0] - alpha * u[j, 1]
        out[j, 2] = u[j, 1] - alpha * u[j, 2]
        if j > 0:
            out[j, 0] += slope * u[j, 2]
    out[0, 0] += rate
    if len(u) > 1:
        out[1, 0] += rate
        out[2, 0] += rate * (rate / a1 - 1.0)
        out[3, 1] += k1 * u[0, 0]
        for i in range(3):
            out[4, i] -= alpha * u[0, i]


@njit
def solve(theta, n_rows):
    """Concentrations, and with ``n_rows = 5`` their derivatives, (times, n_rows, 3)."""
    a1, a2, k1, alpha = np.exp(theta)
    step = 1.0 / STEPS_BETWEEN
    u = np.zeros((n_rows, 3))
    total, there, slope = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
    path = np.empty((N_TIMES, n_rows, 3))
    for t in range(N_TIMES):
        for _ in range(STEPS_BETWEEN):
            total[:] = 0.0
            there[:] = u
            for weight, reach in ((1, 0.5), (2, 0.5), (2, 1.0), (1, 0.0)):
                velocity(there, a1, a2, k1, alpha, slope)
                for j in range(n_rows):
                    for i in range(3):
                        total[j, i] += weight * slope[j, i]
                        there[j, i] = u[j, i] + reach * step * slope[j, i]
            for j in range(n_rows):
                for i in range(3):
                    u[j, i] += step / 6.0 * total[j, i]
        path[t] = u
    return path


truth = np.log([1.0, 3.0, 2.0, 0.5])
rng = np.random.default_rng(4)
data = solve(truth, 1)[:, 0] + NOISE * rng.standard_normal((N_TIMES, 3))


def log_density(theta):
    misfit = np.array([np.sum((data - solve(point, 1)[:, 0]) ** 2) for point in theta])
    value = np.sum(2 * theta - np.exp(theta), axis=1) - 0.5 * misfit / NOISE**2
    return np.where(np.isnan(value), -np.inf, value)  # where the solution overflows


def score(theta):
    gradient = 2 - np.exp(theta)
    for point, row in zip(theta, gradient, strict=True):
        path = solve(point, 5)
        row += np.einsum("ti,tji->j", data - path[:, 0], path[:, 1:]) / NOISE**2
    return np.where(np.isfinite(gradient), gradient, 0.0)


names = ["log a1", "log a2", "log k1", "log alpha"]
target = LogDensity(log_density, score, dim=4, names=names)

# %%
# :func:`~skstein.check_target` compares the score with finite differences, and raises if they
# disagree.

check_target(target, truth + 0.05 * rng.standard_normal((4, 4)))

# %%
# Two samplers
# ------------
# A pilot run starts four random-walk chains at draws of the prior. Its warm-up learns the shape of
# the posterior, a Cholesky factor, in whose coordinates the samplers work and the thinners measure:
# raw scales differ by a factor of fifty, and no single length scale of the kernel would fit them.
# Random-walk Metropolis keeps one state in ten, the Metropolis-adjusted Langevin algorithm (MALA)
# one in four.

pilot = RWM(thinning=1).warm_up(target, 2000, np.log(rng.gamma(2.0, size=(4, 4))), rng)
centre = pilot.theta.mean(axis=0)
white = Transformed(target, Affine(centre, pilot.metric.scale))
print("scales:", np.linalg.norm(pilot.metric.scale, axis=1).round(3))

streams = {}
for sampler in (RWM(adapt_metric=False), MALA(adapt_metric=False)):
    chains = sampler.warm_up(white, 100, pilot.metric.inverse(pilot.theta - centre), rng)
    _, z, scores, acceptance = sampler.draw(white, 750, chains)
    label = type(sampler).__name__
    streams[label] = z, scores
    print(
        f"{label:5} acceptance {acceptance:.2f}, R-hat {split_rhat(z).max():.3f}, effective sample "
        f"size {ess(z).min():.0f} of {z.shape[0] * z.shape[1]}"
    )

# %%
# Thinning
# --------
# Budgets of the paper, and the hard cap that is the default here. ``candidates=10`` tries the best
# of every ten draws only, the paper's SPMCMC. A linear budget needs memory that is quadratic in the
# stream, here up to 3,000 points squared, which is why the streams are no longer; the cap does not
# mind two million draws. The normalised KSD is the KSD times the root of the number of points: for
# independent draws it is the same however many there are.

budgets = {"none": lambda t: t, "linear": "linear", "sqrt": "sqrt", "cap 100": "cap"}
thinners = {
    (label, candidates, name): OnlineKSDThinner(
        100, budget=budget, spread=0, candidates=candidates, preconditioner=None
    ).partial_fit(*stream)
    for label, stream in streams.items()
    for candidates in (1, 10)
    for name, budget in budgets.items()
}
print(f"{'':10}{'of':>4}  {'budget':8}{'points':>7}{'KSD':>8}{'normalised':>12}{'sd ratio':>10}")
for (label, candidates, name), thinner in thinners.items():
    _, n, value, normalized = thinner.ksd_path_[-1]
    print(
        f"{label:10}{candidates:4d}  {name:8}{n:7.0f}{value:8.4f}{normalized:12.3f}"
        f"{thinner.sd_ratio_.mean():10.3f}"
    )
for label, (z, scores) in streams.items():
    even = ksd(z[:, ::30].reshape(-1, 4), scores[:, ::30].reshape(-1, 4))
    print(f"{label:10}every 30th draw   100{even:8.4f}{10 * even:12.3f}")

# %%
# With every draw a candidate (solid lines), all budgets beat the chain that they thin, by both
# measures. With the best of ten (dotted) what is left to thin is good already: all of it has the
# lowest KSD, the more so as budgets that grow with the number of steps have a tenth of the steps.
# Few points have less spread, the price of a low KSD; see :doc:`/thinning`.

colors = dict(zip(budgets, ("0.5", "#0072B2", "#D55E00", "#CC79A7"), strict=True))
figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True, sharey="row", layout="constrained")
for column, label in zip(axes.T, streams, strict=True):
    for name, color in colors.items():
        for candidates, style in ((1, "-"), (10, ":")):
            seen, _, value, normalized = thinners[label, candidates, name].ksd_path_.T
            column[0].loglog(seen, value, style, color=color, label=name if style == "-" else None)
            column[1].loglog(seen, normalized, style, color=color)
    column[0].set_title(f"{label}: KSD", loc="left", fontsize=11)
    column[1].set_title(f"{label}: normalised KSD", loc="left", fontsize=11)
    column[1].set_xlabel("draws seen")
axes[0, 0].legend(frameon=False, fontsize=9, loc="lower left")
plt.show()

# %%
# What the points are for: the posterior of the product's concentration, from 100 solutions instead
# of 3,000. Grey dots are the data.

points = thinners["MALA", 1, "cap 100"].samples_ @ pilot.metric.scale.T + centre
paths = np.array([solve(point, 1)[:, 0, 2] for point in points])
low, median, high = np.quantile(paths, [0.05, 0.5, 0.95], axis=0)
times = np.arange(1, N_TIMES + 1)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.5, 3.6), width_ratios=[1.6, 1], layout="constrained"
)
left.plot(times, data[:, 2], ".", color="0.6")
left.fill_between(times, low, high, color="#CC79A7", alpha=0.4)
left.plot(times, median, color="#CC79A7", lw=1.5)
left.set_xlabel("time")
left.set_ylabel("concentration")
left.set_title("Product: median and 90 % band", loc="left", fontsize=11)
drawn = streams["MALA"][0].reshape(-1, 4) @ pilot.metric.scale.T + centre
right.plot(*drawn[:, :2].T, ".", color="0.8", ms=2, label="3,000 draws")
right.plot(*points[:, :2].T, ".", color="#CC79A7", ms=6, label="100 kept")
right.plot(*truth[:2], "k+", ms=12, label="truth")
right.set_xlabel(names[0])
right.set_ylabel(names[1])
right.set_title("Posterior", loc="left", fontsize=11)
right.legend(frameon=False, fontsize=9)
plt.show()
