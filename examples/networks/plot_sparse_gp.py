"""
Average over inducing inputs: sparse Gaussian processes
=======================================================

A Gaussian process on 2,048 observations, seen through 128 *inducing inputs*. Where these should lie
is not known, so :class:`~skstein.SparseGPRegressor` averages over 16 sets of them, its particles.
This is the one-dimensional experiment of appendix H.3 of Dai, He, Dai & Song (2016), watched while
Particle Mirror Descent passes over the data in minibatches, and compared with the exact process.
"""

# %%
# Data and model
# --------------
# The kernel is that of the paper: its length scale is a tenth of the median distance of the data,
# and the noise variance is given (the paper takes 0.001; the data have 0.01). ``optimizer=None``
# leaves both as they are.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skstein import SparseGPRegressor


def truth(x):
    waves = np.sin(3.53 * np.pi * x) + np.cos(7.7 * np.pi * x)
    return 3 * x**2 + waves * np.exp(-1.6 * np.pi * np.abs(x))


rng = np.random.default_rng(0)
x = rng.uniform(-0.5, 0.5, 2048)
X, y = x[:, None], truth(x) + 0.1 * rng.normal(size=2048)
kernel = RBF(0.1 * np.median(np.abs(x[:, None] - x))) + WhiteKernel(0.01)
grid = np.linspace(-0.5, 0.5, 400)

exact = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
exact_mean, exact_std = exact.predict(grid[:, None], return_std=True)

# %%
# Watching the steps
# ------------------
# scikit-learn's callbacks are shown the estimator after every step. This one keeps the predictions.


class Snapshots:
    def __init__(self):
        self.predictions = []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context, **told): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, **told):
        if context.task_name == "round" and fitted_estimator is not None:
            prediction = fitted_estimator.predict(grid[:, None], return_std=True)
            self.predictions.append(prediction)


def watch(**params):
    reg = SparseGPRegressor(kernel, optimizer=None, batch_size=128, random_state=0, **params)
    snapshots = Snapshots()
    prior = reg.predict(grid[:, None], return_std=True)
    reg.set_callbacks(snapshots).fit(X, y)
    return reg, [prior, *snapshots.predictions]


# %%
# An epoch is 16 steps of 128 rows. Steps of :math:`2 / (t + 2 n / b)`, like those of the paper,
# give the likelihood its weight little by little, over several epochs. By default a step is the
# share of its rows in all that were visited; as inducing inputs do not move, the steps then add up
# to the exact posterior of each set when the first epoch is over, and there is no second.

runs = {
    "2 / (t + 2n/b), 10 epochs": watch(max_iter=10, step_size=lambda t: 2 / (t + 32)),
    "rows / visited, 1 epoch": watch(),
}


def error(mean):
    return np.sqrt(np.mean((mean - truth(grid)) ** 2))


print(f"{'':26}   error  gap to exact  power  effective particles")
print(f"{'exact process':26}{error(exact_mean):8.4f}")
for label, (reg, predictions) in runs.items():
    gap = np.abs(predictions[-1][0] - exact_mean).max()
    power, ess = (reg.posterior_.diagnostics[name] for name in ("posterior_power", "ess"))
    print(f"{label:26}{error(predictions[-1][0]):8.4f}{gap:14.4f}{power:7.3f}{ess:15.1f} of 16")

# %%
# Both come out at the exact process: what 128 inducing inputs lose cannot be seen here, and none of
# the 16 sets of them outweighs another.
#
# Mean and 90 % band of the outcome, in grey, against the function without noise: those of the steps
# that take several epochs. At the bottom right the error of the mean, for both kinds of steps: it
# is that of the exact process when the first epoch is over.

label, (_, predictions) = next(iter(runs.items()))
shown = {0: "prior", 1: "1 step", 4: "4 steps", 16: "1 epoch", 160: "10 epochs"}
figure, axes = plt.subplots(2, 3, figsize=(10, 5.6), layout="constrained")
for ax, (step, title) in zip(axes.flat, shown.items(), strict=False):
    mean, std = predictions[step]
    ax.fill_between(grid, mean - 1.645 * std, mean + 1.645 * std, color="0.85")
    ax.plot(x[::4], y[::4], ".", ms=1.5, color="0.6")
    ax.plot(grid, truth(grid), color="#0072B2", lw=1.5, label="function")
    ax.plot(grid, mean, color="#D55E00", lw=1.5, label="mean")
    ax.set_title(title, loc="left", fontsize=11)
    ax.set_ylim(-1.8, 1.8)
    ax.set_xlim(-0.5, 0.5)
    ax.set_xlabel("x")
axes[0, 0].legend(frameon=False, fontsize=9, loc="lower right")
ax = axes[1, 2]
for (label, (_, predictions)), color in zip(runs.items(), ("#CC79A7", "#009E73"), strict=True):
    epochs = np.arange(1, len(predictions)) / 16
    ax.plot(epochs, [error(mean) for mean, _ in predictions[1:]], color=color, label=label)
ax.axhline(error(exact_mean), color="0.3", ls="--", lw=1, label="exact process")
ax.set_xscale("log")
ax.set_yscale("log")
ax.set_xlabel("epochs")
ax.set_title("Error of the mean", loc="left", fontsize=11)
ax.legend(frameon=False, fontsize=9)
plt.show()
