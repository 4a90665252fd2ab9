"""
How sure is a probability? Breast cancer
========================================

A probability of 0.9 can mean that one in ten such cases turns out otherwise, or that the data say
little about such cases. A posterior tells the two apart.
"""

# %%
# Forty patients to learn from, and the rest to predict: so few data leave much open.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from skstein import BayesianLogisticRegression
from skstein.priors import Normal

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X[["mean radius", "mean texture", "mean smoothness", "mean concavity"]]
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=40, stratify=y, random_state=0)
model = BayesianLogisticRegression(random_state=0).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.3f}")

# %%
# Each particle of the posterior is a logistic regression of its own. Their average is the predicted
# probability, their quantiles an interval for it.

probability = model.predict_proba(X_test)[:, 1]
low, high = model.predict_interval(X_test, 0.9)[:, 1].T

# %%
# The entropy of the prediction has two parts: *aleatoric*, which stays even if the coefficients
# were known, and *epistemic*, which goes as more data make them known.

uncertainty = model.predict_uncertainty(X_test)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
shown = np.argsort(probability)[::6]
rows = np.arange(len(shown))
colors = np.where(y_test.to_numpy()[shown] == 1, "#0072B2", "#D55E00")
left.vlines(rows, low[shown], high[shown], color=colors, lw=1.5, alpha=0.6)
left.scatter(rows, probability[shown], c=colors, s=12)
for name, color in (("benign", "#0072B2"), ("malignant", "#D55E00")):
    left.plot([], [], "o", color=color, ms=4, label=name)
left.legend(frameon=False, loc="lower right")
left.set_xlabel("patients, by predicted probability")
left.set_ylabel("probability of benign")
left.set_title("Prediction and 90 % interval", loc="left", fontsize=11)
points = right.scatter(
    uncertainty.aleatoric, uncertainty.epistemic, c=probability, s=14, cmap="cividis"
)
right.set_xlabel("aleatoric (nats)")
right.set_ylabel("epistemic (nats)")
right.set_title("Two kinds of not knowing", loc="left", fontsize=11)
figure.colorbar(points, label="probability of benign")
plt.show()

# %%
# The points on the right do not lie on one curve: cases of the same probability differ in how well
# it is known. To learn most about the model, examine the patients at the top of that plot, not
# those nearest to one half.

nearest = np.argsort(np.abs(probability - 0.5))[:20]
highest = np.argsort(-uncertainty.epistemic)[:20]
print(f"in both lists of twenty: {len(np.intersect1d(nearest, highest))}")

# %%
# Can the intervals be believed?
# ------------------------------
# The true probabilities are not known, but the fit to all 569 patients knows them far better than
# one to forty. Six times forty patients are drawn. How often is the probability by all patients
# inside the 90 % interval by forty, and how does that depend on the scale of the prior, and show in
# the log loss? (Grey: each of the six draws; blue: their mean.)

scales = [0.3, 0.6, 1.0, 2.0, 4.0]
reference = BayesianLogisticRegression(prior=Normal(4.0), random_state=0).fit(X, y)
coverage, loss = np.empty((len(scales), 6)), np.empty((len(scales), 6))
for draw in range(6):
    few, rest = train_test_split(np.arange(len(y)), train_size=40, stratify=y, random_state=draw)
    target = reference.predict_proba(X.iloc[rest])[:, 1]
    for k, scale in enumerate(scales):
        model = BayesianLogisticRegression(prior=Normal(scale), random_state=0)
        model.fit(X.iloc[few], y.iloc[few])
        low, high = model.predict_interval(X.iloc[rest], 0.9)[:, 1].T
        coverage[k, draw] = np.mean((low <= target) & (target <= high))
        loss[k, draw] = -model.log_predictive(X.iloc[rest], y.iloc[rest]).mean()

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for ax, values, label, title in (
    (axes[0], coverage, "share inside the 90 % interval", "Coverage"),
    (axes[1], loss, "log loss of the other patients (nats)", "Score"),
):
    ax.plot(scales, values, color="0.8", lw=0.8)
    ax.plot(scales, values.mean(axis=1), "o-", color="#0072B2")
    ax.set_xscale("log")
    ax.set_xticks(scales, [f"{scale:g}" for scale in scales])
    ax.minorticks_off()
    ax.set_xlabel("standard deviation of the prior")
    ax.set_ylabel(label)
    ax.set_title(title, loc="left", fontsize=11)
axes[0].axhline(0.9, color="0.5", lw=0.8, ls="--")
plt.show()
print("coverage", coverage.mean(axis=1).round(2), "loss", loss.mean(axis=1).round(3))

# %%
# With few data an interval is as good as its prior. Tumours differ more than a prior of scale 1
# takes for likely (by all patients the coefficient of the radius is -4.6 per standard deviation),
# so that intervals under it miss more often than they hit; narrower priors are worse, wider ones
# are on the safe side. The log loss of other patients shows it too, without any knowledge of the
# truth. So choose the prior's scale like any other parameter, by a grid search with
# ``scoring="neg_log_loss"``.
