"""
Look at a fit: the displays
===========================

What did the posterior learn, did the engine finish, and how sure is a prediction? Each question has
a display in :mod:`skstein.plotting`, like those of scikit-learn: ``from_estimator`` computes and
draws, the object keeps the numbers, ``plot`` draws them again, and ``ax=`` chooses the axes.
"""

# %%
# Coefficients
# ------------
# Diabetes progression after a year, from ten measurements of 442 patients. Coefficients in units of
# y per standard deviation of a feature can be compared with each other: the two blood serum
# measurements ``s1`` and ``s2`` go up and down together, so the data say little about either alone.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import BayesianLinearRegression, BayesianLogisticRegression
from skstein.plotting import (
    HistoryDisplay,
    KSDPathDisplay,
    PosteriorIntervalDisplay,
    PredictiveIntervalDisplay,
    UncertaintyDisplay,
)

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
reg = BayesianLinearRegression(random_state=0).fit(X, y)
PosteriorIntervalDisplay.from_estimator(reg)
plt.show()

# %%
# Two engines on the same axes. The names are drawn once; ``offset`` moves one of the posteriors to
# the side.

other = BayesianLinearRegression("pmfvb", random_state=0).fit(X, y)
display = PosteriorIntervalDisplay.from_estimator(reg, name="mcmc", offset=-0.16)
PosteriorIntervalDisplay.from_estimator(
    other, name="pmfvb", offset=0.16, color="#D55E00", ax=display.ax_
)
plt.show()

# %%
# How they were found
# -------------------
# The second engine goes on until the Stein residual and R-hat are below their limits and it has
# gathered enough particles. It met both limits long before the end. It checks them after a warm-up
# of forty iterations; the last twelve of these find the step size for the acceptance rate.

HistoryDisplay.from_estimator(other, quantities=["residual", "rhat", "acceptance"])
plt.show()

# %%
# The first engine runs until its error is small, and keeps a thousand draws. Thinned to a few by
# their kernel Stein discrepancy (KSD), the same chains show how it fell; as many independent draws
# would lie at the dashed line.

few = BayesianLinearRegression("ksd-mcmc", random_state=0).fit(X, y)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
KSDPathDisplay.from_estimator(few, ax=left)
left.set_title("KSD of the kept points", loc="left", fontsize=11)
HistoryDisplay.from_estimator(reg, quantities=[], names=["bmi"], ax=right)
plt.show()

# %%
# Predictions along a feature
# ---------------------------
# The line is known well and the outcome is not: the dark band is what the posterior leaves open
# about the mean, the pale one holds nine outcomes in ten. On the left the other features are at
# their means; on the right they are what they are in each row, and the predictions are averaged.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
PredictiveIntervalDisplay.from_estimator(
    reg, X, "bmi", y=y, values=np.linspace(15, 55, 50), ax=left
)
PredictiveIntervalDisplay.from_estimator(
    reg, X, "bmi", kind="average", values=np.linspace(15, 55, 20), ax=right
)
left.set_title("Other features at their means", loc="left", fontsize=11)
right.set_title("Average over the rows", loc="left", fontsize=11)
plt.show()

# %%
# A classifier, here inside a pipeline, has a probability in place of the mean. Forty tumours leave
# it wide open, most of all for the largest.

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X[["mean radius", "mean texture", "mean smoothness", "mean concavity"]]
y = y.map({0: "malignant", 1: "benign"})
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=40, stratify=y, random_state=0)
clf = make_pipeline(StandardScaler(), BayesianLogisticRegression(random_state=0))
clf.fit(X_train, y_train)
display = PredictiveIntervalDisplay.from_estimator(
    clf, X_train, "mean radius", y=y_train, values=np.linspace(0, 35, 60)
)
display.ax_.set_title("Other features at their means", loc="left", fontsize=11)
plt.show()

# %%
# What a prediction does not know
# -------------------------------
# Both parts of the uncertainty, in two forms. Most of the wrong predictions are among the doubtful
# ones; those with a large epistemic part are of tumours unlike the forty.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
display = UncertaintyDisplay.from_estimator(clf, X_test, y_test, ax=left)
display.plot(ax=right, kind="stacked")
left.legend(loc="upper left", frameon=False, fontsize=9)
left.set_title("Two parts of not knowing", loc="left", fontsize=11)
right.set_title("Stacked, row by row", loc="left", fontsize=11)
plt.show()
