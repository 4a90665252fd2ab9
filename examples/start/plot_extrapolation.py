"""
Beyond the data: which models know that they guess
==================================================
Inside the data all sensible models agree. Outside they do what they were built to do, and only some
of them know that they are guessing. Intervals can say "I do not know", but only within what the
model can imagine.
"""

# %%
# Slim patients to learn from
# ---------------------------
# Progression of diabetes against the body mass index. The 343 patients with an index below 30 are
# to learn from, the other 99 wait. The noise grows with the level, so all models are of the
# logarithm of y: by ``TransformedTargetRegressor``, through which :func:`~skstein.predictive` gives
# intervals in the units of y, wider where y is larger.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

from skstein import BayesianLinearRegression, BayesianMLPRegressor, SparseGPRegressor, predictive
from skstein.plotting import PredictiveIntervalDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X, y = X[["bmi"]], y.to_numpy()
far = X["bmi"].to_numpy() >= 30
linear = BayesianLinearRegression("svgd", random_state=0)
process = SparseGPRegressor(
    ConstantKernel() * RBF() + WhiteKernel(0.5),
    n_inducing=40,
    n_particles=4,
    normalize_y=True,
    random_state=0,
)
models = {
    "a straight line": linear,
    "a cubic": make_pipeline(StandardScaler(), PolynomialFeatures(3, include_bias=False), linear),
    "splines": make_pipeline(SplineTransformer(5, extrapolation="linear"), linear),
    "a Gaussian process": make_pipeline(StandardScaler(), process),
    "networks": BayesianMLPRegressor(random_state=0),
}


def of_the_logarithm(model):
    return TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp)


fits = {name: of_the_logarithm(model).fit(X[~far], y[~far]) for name, model in models.items()}

# %%
# How often the 90 % intervals hold, how wide they are, and the error of the predicted median (width
# and error as medians over patients, in units of y).


def report(rows):
    for name, fit in fits.items():
        prediction = predictive(fit, X[rows])
        low, high = prediction.interval(0.9).T
        inside = np.mean((low < y[rows]) & (y[rows] < high))
        width = np.median(high - low)
        error = np.median(np.abs(prediction.quantiles(0.5)[:, 0] - y[rows]))
        print(f"{name:>18}: {inside:5.0%} inside a width of {width:4.0f}, error {error:3.0f}")


print("below 30, where they have learnt")
report(~far)
print("30 and above")
report(far)

# %%
# What they imagine
# -----------------
# On the left of 30, wherever there are many patients, the five agree. On the right, where the
# titles say how many patients are inside the 90 % intervals:
#
# - The *line* is certain of being a line. It happens to be nearly right, so it gets away with it,
#   until its exponential grows too fast.
# - The *cubic* can bend either way, and says so: its intervals are true, and of no use.
# - The *splines* go on straight with the slope of their last piece, which a few patients determine.
#   They are sure of going down, and more than half of the patients are outside.
# - The *process* returns to the mean of what it has seen, and its intervals to the spread of that.
#   They hold; what it says of each patient is that it knows nothing.
# - The *networks* go on straight, each with a slope of its own, and bends that no patient rules
#   out are imagined too. Their intervals open as soon as patients end, and say that nothing is
#   known; the median stays where it was. (It is drawn in place of the mean: their noise has heavy
#   tails, and the exponential of such an outcome has no mean.)

figure, axes = plt.subplots(2, 3, figsize=(13, 7), sharex=True, sharey=True, layout="constrained")
axes[1, 2].remove()
for ax, (name, fit) in zip(axes.flat, fits.items(), strict=False):
    PredictiveIntervalDisplay.from_estimator(
        fit, X[~far], "bmi", y=y[~far], values=np.linspace(17, 43, 40), ax=ax
    )
    ax.plot(X["bmi"][far], y[far], "o", color="#D55E00", ms=3, alpha=0.6, label="not seen")
    ax.axvline(30, color="0.6", lw=0.8, ls=":")
    low, high = predictive(fit, X[far]).interval(0.9).T
    inside = np.mean((low < y[far]) & (y[far] < high))
    ax.set_title(f"{name}: {inside:.0%} inside", loc="left", fontsize=11)
    ax.set_ylim(0, 600)
    ax.label_outer()
    if ax is not axes[0, 0]:
        ax.get_legend().remove()
axes[0, 0].legend(frameon=False, fontsize=9, loc="upper left")
axes[0, 2].tick_params(labelbottom=True)
axes[0, 2].set_xlabel("bmi")
plt.show()

# %%
# No check on the 343 patients tells the five apart: not the coverage, not the width, not the error.
# It takes knowledge of the matter, or patients from beyond. The epistemic part of the uncertainty
# helps as an alarm, of the splines too, which are wrong *and* know that they have left their data;
# only the line, which is certain of being one, hardly raises it. Here it is the variance of the
# mean of the logarithm, in multiples of the median inside.

for name, fit in fits.items():
    inside, beyond = (
        predictive(fit.regressor_, X[rows]).uncertainty().epistemic for rows in (~far, far)
    )
    usual = np.median(inside)
    print(
        f"{name:>18}: at most {inside.max() / usual:3.0f} inside, "
        f"{np.median(beyond) / usual:4.0f} beyond 30"
    )
