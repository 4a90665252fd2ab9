r"""
How many points should a thinned chain keep?
============================================

A thinner of the kernel Stein discrepancy (KSD) needs a *budget*: how many points it may keep, or
must. This example repeats the studies of Hawkins, Koppel & Zhang, "Online, informative MCMC
thinning with kernelized Stein discrepancy", on mixtures of normals (sections 4.4 and 7.4 there),
and then shows two failures that the KSD does not mind, with what does see them.
"""

# %%
# Mixtures
# --------
# The paper's components have covariance :math:`I / 2` and stand on the diagonal, at (0, 0), (1, 1)
# and so on. Draws are independent, so that nothing but the thinner is judged. All settings here
# are the paper's: an inverse multiquadric kernel with :math:`l = 1` on coordinates as they are, and
# the best of every five draws as the candidate of a step (SPMCMC).

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp, softmax

from skstein import LogDensity
from skstein.diagnostics import split_rhat
from skstein.kernels import IMQ
from skstein.samplers import MALA
from skstein.thinning import OnlineKSDThinner, PowerBudget


class Mixture:
    """Equally weighted normals with a common variance."""

    def __init__(self, means, variance=0.5):
        self.means, self.variance = np.array(means, dtype=float), variance

    def _log_parts(self, x):
        squares = np.sum((x[:, None] - self.means) ** 2, axis=2)
        return -0.5 * squares / self.variance

    def log_density(self, x):
        return logsumexp(self._log_parts(x), axis=1)

    def score(self, x):
        share = softmax(self._log_parts(x), axis=1)
        return (share @ self.means - x) / self.variance

    def sample(self, rng, n):
        component = rng.integers(len(self.means), size=n)
        return self.means[component] + np.sqrt(self.variance) * rng.standard_normal((n, 2))

    def points_by_mode(self, x):
        return np.bincount(self._log_parts(x).argmax(axis=1), minlength=len(self.means))


def diagonal(k, spacing=1.0):
    return Mixture([(spacing * i, spacing * i) for i in range(k)])


def thin(mixture, draws, budget):
    thinner = OnlineKSDThinner(
        kernel=IMQ(length_scale=1.0), budget=budget, spread=0, candidates=5, preconditioner=None
    )
    return thinner.partial_fit(draws, mixture.score)


# %%
# Budgets
# -------
# The paper's budgets are floors: at step :math:`t` points are dropped, as long as the KSD does not
# rise, down to :math:`f(t)`. ``"linear"`` is :math:`t / 2`, ``"sqrt"`` is :math:`\sqrt{t \log t}`,
# and :class:`~skstein.thinning.PowerBudget` is :math:`\sqrt{t^\alpha \log t} / 2`. With
# :math:`f(t) = t` nothing is ever dropped. ``"cap"``, the default of this package, is a ceiling.
#
# The normalised KSD is the KSD times the root of the number of points; that of independent draws
# stays, whatever their number, near the root of the mean of :math:`k_0(x, x) = |s(x)|^2 + d`.

budgets = {
    "none": lambda t: t,
    "alpha = 1.8": PowerBudget(1.8),
    "linear": "linear",
    "alpha = 1.4": PowerBudget(1.4),
    "sqrt": "sqrt",
    "alpha = 1.0": PowerBudget(1.0),
    "constant 10": 10,
    "cap 100": "cap",
}
bimodal = diagonal(2)
draws = bimodal.sample(np.random.default_rng(0), 10_000)
independent = np.sqrt(np.mean(np.sum(bimodal.score(draws) ** 2, axis=1)) + 2)
thinners = {label: thin(bimodal, draws, budget) for label, budget in budgets.items()}

print(f"normalised KSD of independent draws: {independent:.2f}")
print(f"{'':12}{'points':>7}{'KSD':>8}{'normalised':>12}{'variance / truth':>18}")
for label, thinner in thinners.items():
    n, variance = len(thinner.samples_), thinner.samples_.var(axis=0).mean()
    print(
        f"{label:12}{n:7d}{thinner.ksd_:8.4f}{np.sqrt(n) * thinner.ksd_:12.3f}"
        f"{variance / 0.75:18.3f}"
    )

# %%
# More points have a lower KSD, so it is the normalised one that compares budgets. Floors that grow
# nearly as fast as the steps do best by it, and keep a good part of all candidates; below some
# hundred points the ranking is by their number. A constant floor of ten costs spread: with so few
# points the KSD is lowest where they huddle.

colors = dict(zip(thinners, plt.cm.viridis(np.linspace(0, 0.92, 6)), strict=False))
colors |= {"constant 10": "#D55E00", "cap 100": "#CC79A7"}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for label, thinner in thinners.items():
    seen, *columns = thinner.ksd_path_.T
    for ax, column in zip(axes, columns, strict=True):
        ax.loglog(seen, column, color=colors[label], lw=1.6, label=label)
axes[2].axhline(independent, color="0.4", ls=":")
axes[2].text(110, 0.9 * independent, "independent draws", color="0.4", fontsize=9, va="top")
for ax, title in zip(axes, ("Points kept", "KSD", "Normalised KSD"), strict=True):
    ax.set_title(title, loc="left", fontsize=11)
    ax.set_xlabel("draws seen")
axes[0].legend(frameon=False, fontsize=8)
plt.show()

# %%
# Sensitivity to the growth rate
# ------------------------------
# The exponent, for five streams (grey; blue is their mean). :math:`\alpha = 2` stands for the
# linear budget, as in the paper, where :math:`\alpha = 1.8` was best by both measures. Here the
# normalised KSD is about as good with either. The plain one follows the number of points:
# :math:`\alpha = 1.8` asks for more of them than the linear budget does, until some 300,000 steps
# have passed. With streams twice as long (``examples/benchmarks/ksd_experiments.py``) 1.8 is ahead
# of 2 by a little.

alphas = [1.0, 1.2, 1.4, 1.6, 1.8, 2.0]
last = np.empty((5, len(alphas), 2))
for seed in range(5):
    stream = bimodal.sample(np.random.default_rng(seed), 10_000)
    for i, alpha in enumerate(alphas):
        thinner = thin(bimodal, stream, PowerBudget(alpha) if alpha < 2 else "linear")
        last[seed, i] = thinner.ksd_path_[-1, 2:]

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for ax, values, title in zip(axes, last.T, ("KSD", "Normalised KSD"), strict=True):
    ax.semilogy(alphas, values, color="0.75", lw=1)
    ax.semilogy(alphas, values.mean(axis=1), "o-", color="#0072B2")
    ax.set_xlabel(r"$\alpha$")
    ax.set_title(f"{title} after 10,000 draws", loc="left", fontsize=11)
plt.show()

# %%
# Adaptation to the target, and its limits
# ----------------------------------------
# With the constant floor :math:`f = 10` the number of points is the thinner's own choice. The paper
# reports 24 for four modes and 40 for ten. The choice comes and goes with the stream:

print(f"{'modes':>5}   points kept, five streams")
chosen = {}
for k in (1, 2, 4, 6, 8, 10):
    mixture = diagonal(k)
    chosen[k] = [
        thin(mixture, mixture.sample(np.random.default_rng(seed), 10_000), 10) for seed in range(5)
    ]
    sizes = [len(thinner.samples_) for thinner in chosen[k]]
    print(f"{k:5d}   {sizes}, mean {np.mean(sizes):.1f}")

# %%
# That is no count of modes: neighbours this close overlap to a single ridge, and what is measured
# is its length. When the modes move apart the number *falls*, because points in one mode have as
# low a KSD as points in all of them, and fewer do.

print("four modes, first stream:")
apart = {}
for spacing in (1.0, 1.5, 2.0, 3.0, 4.0):
    mixture = diagonal(4, spacing)
    thinner = thin(mixture, mixture.sample(np.random.default_rng(0), 10_000), 10)
    apart[spacing] = mixture, thinner
    modes = mixture.points_by_mode(thinner.samples_)
    print(f"  spacing {spacing:.1f}: {len(thinner.samples_):3d} points, by mode {modes.tolist()}")


def show(ax, mixture, points, title):
    low, high = mixture.means.min() - 2.5, mixture.means.max() + 2.5
    grid = np.linspace(low, high, 120)
    mesh = np.stack(np.meshgrid(grid, grid), axis=2).reshape(-1, 2)
    density = np.exp(mixture.log_density(mesh)).reshape(120, 120)
    ax.contourf(grid, grid, density, 8, cmap="Greys", alpha=0.5)
    ax.plot(*points.T, ".", color="#D55E00", ms=5)
    ax.set_aspect("equal")
    ax.set_title(title, loc="left", fontsize=10)


figure, axes = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained")
for ax, k in zip(axes, (4, 10), strict=False):
    show(ax, diagonal(k), chosen[k][0].samples_, f"{k} modes: {len(chosen[k][0].samples_)} points")
for ax, spacing in zip(axes[2:], (2.0, 4.0), strict=True):
    mixture, thinner = apart[spacing]
    show(ax, mixture, thinner.samples_, f"spacing {spacing:.0f}: {len(thinner.samples_)} points")
plt.show()

# %%
# Failure 1: a chain that never leaves its mode
# ---------------------------------------------
# Four Langevin chains, two started in each of two modes ten apart. None crosses. The points thinned
# from the first chain alone, half of the target, have a *lower* KSD than those of all four.

two = Mixture([(-5.0, 0.0), (5.0, 0.0)], variance=1.0)
target = LogDensity(two.log_density, two.score, dim=2)
rng = np.random.default_rng(0)
# Learnt from all chains, the metric would stretch the steps to the distance between the modes.
sampler = MALA(adapt_metric=False)
chains = sampler.warm_up(target, 200, np.repeat(two.means, 2, axis=0), rng)
chains, samples, scores, _ = sampler.draw(target, 1000, chains)

for label, part in (("first chain", slice(1)), ("all four", slice(None))):
    thinner = OnlineKSDThinner(kernel=IMQ(length_scale=1.0), spread=0, preconditioner=None)
    thinner.fit(samples[part], scores[part])
    print(
        f"{label:12} points by mode {two.points_by_mode(thinner.samples_).tolist()!s:9} "
        f"KSD {thinner.ksd_:.4f}, R-hat {split_rhat(samples[part]).max():.2f}"
    )

# %%
# R-hat of the four chains is far above 1.01: they have not met. That of a single chain sees nothing
# either, and four chains from one start would all agree. So run several, from starts that are
# spread out, and ask R-hat before the KSD.

# %%
# Failure 2: points that desert a mode
# ------------------------------------
# Here the stream is perfect, independent draws of four modes in a row, four apart. A hundred points
# cover them; ten do not. The KSD of the ten says nothing of it, but the thinner follows the moments
# of all it has seen, and warns.

row = Mixture([(4.0 * i, 0.0) for i in range(4)])
stream = row.sample(np.random.default_rng(0), 5000)
for n_points in (100, 10):
    thinner = OnlineKSDThinner(
        n_points, IMQ(length_scale=1.0), spread=0, candidates=5, preconditioner=None
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thinner.fit(stream, row.score)
    print(f"cap {n_points}: by mode {row.points_by_mode(thinner.samples_).tolist()}")
    for warning in caught:
        text = f"{warning.category.__name__}: {warning.message}"
        print(textwrap.fill(text, 90, initial_indent="  ", subsequent_indent="  "))

# %%
# Moments are a coarse check: points that desert modes evenly on both sides of the mean can pass it.
# A cap of a hundred points, the default, or more is the better protection.
