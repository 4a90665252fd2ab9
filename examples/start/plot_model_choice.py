"""
Choose a model by its predictive distribution: diabetes
=======================================================

:math:`R^2` asks how far the mean of a prediction is off. A predictive distribution says more than
its mean, and a score of the whole of it sees differences that :math:`R^2` cannot.
"""

# %%
# The candidates
# --------------
# Progression of diabetes a year on, told by ten measurements of 442 patients. Is it linear in them?
# Are two of them enough? And on which scale: of the outcome as it is, its square root, or its
# logarithm? On another scale the noise is another one, too: that of the outcome itself then grows
# with its level.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from skstein import BayesianLinearRegression, predictive
from skstein.priors import Normal

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
y = y.to_numpy()


def linear(*steps, scale=1.0):
    """A linear model of the features that the steps make, with a prior of that scale."""
    model = BayesianLinearRegression("svgd", prior=Normal(scale), random_state=0)
    return make_pipeline(*steps or [FunctionTransformer()], model)


two = make_column_transformer(("passthrough", ["bmi", "s5"]))
squares = [StandardScaler(), PolynomialFeatures(2, include_bias=False)]

root = TransformedTargetRegressor(linear(), func=np.sqrt, inverse_func=np.square)
logarithm = TransformedTargetRegressor(linear(), func=np.log, inverse_func=np.exp)
candidates = {
    "linear": linear(),
    "two features": linear(two),
    "splines": linear(SplineTransformer(4, degree=2), scale=0.1),
    "quadratic": linear(*squares),
    "quadratic, tight prior": linear(*squares, scale=0.1),
    "linear, of the root": root,
    "linear, of the logarithm": logarithm,
}

# %%
# The score
# ---------
# The log predictive density of each patient, by a fit that has not seen this patient. It is a
# proper score: on average nothing beats the truth. It is per unit of the outcome on whatever scale
# the model is, so that the scales can be compared. A search maximises its mean by
# ``scoring=log_predictive_scorer`` (of ``skstein.metrics``); here it is wanted for each patient.

scores, means, intervals = {}, {}, {}
for name, model in candidates.items():
    score, mean, interval = np.empty(len(y)), np.empty(len(y)), np.empty((len(y), 2))
    for train, test in KFold(10, shuffle=True, random_state=0).split(X):
        prediction = predictive(model.fit(X.iloc[train], y[train]), X.iloc[test])
        score[test] = prediction.log_predictive(y[test])
        mean[test] = model.predict(X.iloc[test])
        interval[test] = prediction.interval(0.9)
    scores[name], means[name], intervals[name] = score, mean, interval

# %%
# Every candidate is compared with the straight line, patient by patient. Patients that are hard to
# predict are so for all models; in the differences that cancels, and their standard error is small.
# On another scale the prediction that :math:`R^2` judges is the median, transformed back.

print(f"{'':26}log score  difference          R2")
for name, score in scores.items():
    difference = score - scores["linear"]
    error = difference.std(ddof=1) / np.sqrt(len(y))
    r2 = r2_score(y, means[name])
    print(f"{name:26}{score.mean():9.3f}{difference.mean():+10.3f} ± {error:.3f}{r2:10.3f}")

# %%
# By :math:`R^2` the straight line and that of the root are the same. By the score the root wins, by
# four standard errors. Where the difference is, the right panel shows: intervals of constant width
# are too wide for the mildest third of the cases, and too narrow for the most severe.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.5, 4), width_ratios=[1.5, 1], layout="constrained"
)
for row, (name, score) in enumerate(scores.items()):
    difference = score - scores["linear"]
    error = difference.std(ddof=1) / np.sqrt(len(y))
    color = "#D55E00" if name == "linear, of the root" else "#0072B2"
    left.errorbar(difference.mean(), row, xerr=2 * error, fmt="o", color=color, ms=5, lw=1.8)
    left.text(
        1.02,
        row,
        f"{r2_score(y, means[name]):.2f}",
        transform=left.get_yaxis_transform(),
        va="center",
        fontsize=9,
    )
left.text(1.02, -0.75, "$R^2$", transform=left.get_yaxis_transform(), fontsize=10)
left.axvline(0.0, color="0.5", lw=0.8)
left.set_yticks(range(len(scores)), scores)
left.invert_yaxis()
left.set_xlabel("log score above that of the straight line\n(nats a patient, ± 2 standard errors)")
left.set_xticks(np.arange(-0.08, 0.08, 0.04))
left.set_title("Better to the right", loc="left", fontsize=11)
thirds = np.array_split(np.argsort(means["linear"]), 3)
for name, color in (("linear", "#0072B2"), ("linear, of the root", "#D55E00")):
    low, high = intervals[name].T
    inside = (low < y) & (y < high)
    right.plot([inside[rows].mean() for rows in thirds], "o-", color=color, label=name)
right.axhline(0.9, color="0.5", lw=0.8, ls="--")
right.set_ylim(0.8, 1.0)
right.set_xticks(range(3), ["mild", "middle", "severe"])
right.set_xlabel("predicted progression, in thirds")
right.set_ylabel("share of outcomes inside")
right.set_title("Coverage of 90 % intervals", loc="left", fontsize=11)
right.legend(frameon=False, fontsize=9)
plt.show()

# %%
# Two features are not enough, and squares and products without a tight prior are too many; that
# much :math:`R^2` sees as well. Had the candidates been hundreds, the best score would be too good
# by luck, and a last set of patients would have to judge.
