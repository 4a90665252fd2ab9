"""
Calibrated probabilities of ten classes: digits
===============================================

Softmax regression gives a probability to each of ten classes. How far can it be trusted, and which
digits should a person look at instead? The penalised fit of scikit-learn and the average over the
posterior answer with the same prior, so that what is left between them is the averaging.
"""

# %%
# The models
# ----------
# Ten principal components keep about 60 % of the variance of the 64 pixels: enough to get most
# digits right, not so much that nothing is left to doubt. Each class has ten coefficients and an
# intercept, 110 numbers in all, to be learnt from 600 digits.
#
# ``LogisticRegression`` finds the mode of the posterior under independent normal priors with
# standard deviation :math:`\sqrt C`. So a ``C`` that was tuned by cross-validation names a prior
# scale as well, and the Bayesian model need not be tuned again.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import BayesianLogisticRegression
from skstein.metrics import expected_calibration_error
from skstein.predictive import predictive

digits = load_digits()
X, y = digits.data, digits.target


def on_components(classifier):
    components = PCA(10, whiten=True, svd_solver="full")
    return make_pipeline(StandardScaler(), components, classifier)


tuned = GridSearchCV(
    on_components(LogisticRegression(max_iter=1000)),
    {"logisticregression__C": np.logspace(-1, 2, 7)},
    scoring="neg_log_loss",
)

# %%
# Five splits
# -----------
# Each time, 600 digits to learn from and 1197 to predict. A smaller log loss is better; the
# expected calibration error is the gap between how sure the model is and how often it is right.


def scores(y_true, probability):
    return (
        accuracy_score(y_true, probability.argmax(axis=1)),
        log_loss(y_true, probability),
        expected_calibration_error(y_true, probability),
    )


results = {"mode, C = 1": [], "mode, C tuned": [], "posterior, scale 1": []}
results["posterior, same prior as tuned C"] = []
chosen = []
for train, test in StratifiedShuffleSplit(5, train_size=600, random_state=0).split(X, y):
    tuned.fit(X[train], y[train])
    chosen.append(tuned.best_params_["logisticregression__C"])
    fitted = [
        on_components(LogisticRegression()).fit(X[train], y[train]),
        tuned,
        on_components(BayesianLogisticRegression(random_state=0)).fit(X[train], y[train]),
    ]
    same_prior = BayesianLogisticRegression(random_state=0)
    same_prior.set_params(prior__scale=np.sqrt(chosen[-1]))
    fitted.append(on_components(same_prior).fit(X[train], y[train]))
    for rows, model in zip(results.values(), fitted, strict=True):
        rows.append(scores(y[test], model.predict_proba(X[test])))

print(f"C chosen: {', '.join(f'{c:.2g}' for c in chosen)}")
print(f"{'':34}accuracy  log loss  calibration error")
for label, rows in results.items():
    print("{:34}{:8.3f}{:10.3f}{:12.3f}".format(label, *np.mean(rows, axis=0)))
reference = np.array(results["mode, C tuned"])
for label in ("posterior, scale 1", "posterior, same prior as tuned C"):
    difference = np.array(results[label]) - reference
    mean, error = difference.mean(axis=0), difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    print(f"{label} against tuned C: log loss {mean[1]:+.3f} ± {error[1]:.3f}")

# %%
# With the same prior, averaging lowers the log loss, by about twice the standard error of the
# difference over splits. Accuracy is the same, and the calibration of the tuned
# ``LogisticRegression`` is as good or better: averaged probabilities are a little too modest here.
# With scale 1, untuned, the posterior does no better than the tuned mode. What the mode cannot say
# is how far each probability is open.
#
# Is it the posterior?
# --------------------
# Two engines that have little in common, Hamiltonian Monte Carlo and Langevin particles, should
# give the same coefficients. They are compared in posterior standard deviations.

posterior_model = fitted[-1]
other = BayesianLogisticRegression("pmfvb", random_state=0)
other.set_params(prior__scale=np.sqrt(chosen[-1]))
other.fit(posterior_model[:-1].transform(X[train]), y[train])
mine = posterior_model[-1]
gap = (mine.coef_ - other.coef_) / other.coef_std_
ratio = mine.coef_std_ / other.coef_std_
root_mean_square = np.sqrt(np.mean(gap**2))
print(f"means differ by {root_mean_square:.2f} (root mean square), {abs(gap).max():.2f} at most")
print(f"ratio of standard deviations: {ratio.mean():.2f} on average")

# %%
# A hundred independent draws would leave means 0.1 apart from the true ones.
#
# Which to hand over
# ------------------
# A *rejection curve* sorts the digits by a doubt and keeps the least doubtful ones. The doubts here
# are those of the mode and of the posterior average, each one minus the largest probability, and
# the epistemic part of the posterior's uncertainty: the entropy that more data would take away.

X_test, y_test = X[test], y[test]
probability = {
    "mode, C tuned": tuned.predict_proba(X_test),
    "posterior": posterior_model.predict_proba(X_test),
}
prediction = predictive(posterior_model, X_test)
uncertainty = prediction.uncertainty()
doubts = {label: 1 - p.max(axis=1) for label, p in probability.items()}
doubts["posterior, epistemic"] = uncertainty.epistemic

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
colors = {"mode, C tuned": "0.45", "posterior": "#0072B2", "posterior, epistemic": "#D55E00"}
kept = np.arange(1, len(test) + 1)
print(f"{'accuracy on the surest':26}" + "".join(f"{share:8.0%}" for share in (0.5, 0.7, 0.9, 1)))
for label, doubt in doubts.items():
    p = probability["posterior" if label.startswith("posterior") else label]
    right_ones = (p.argmax(axis=1) == y_test)[np.argsort(doubt, kind="stable")]
    accuracy = np.cumsum(right_ones) / kept
    left.plot(kept / len(test), accuracy, color=colors[label], lw=1.8, label=label)
    row = [accuracy[int(share * len(test)) - 1] for share in (0.5, 0.7, 0.9, 1)]
    print(f"{label:26}" + "".join(f"{value:8.3f}" for value in row))
left.set_xlim(0.2, 1)
left.set_ylim(0.85, 1.002)
left.set_xlabel("fraction of digits kept")
left.set_ylabel("accuracy on them")
left.set_title("Rejection curve", loc="left", fontsize=11)
left.legend(frameon=False, loc="lower left")
right.plot([0, 1], [0, 1], color="0.8", lw=1)
for label, p in probability.items():
    sure = p.max(axis=1)
    often, confidence = calibration_curve(
        p.argmax(axis=1) == y_test, sure, n_bins=8, strategy="quantile"
    )
    right.plot(confidence, often, "o-", color=colors[label], lw=1.5, ms=5, label=label)
right.set_xlim(0.3, 1.01)
right.set_ylim(0.3, 1.01)
right.set_xlabel("probability of the predicted class")
right.set_ylabel("fraction right")
right.set_title("Calibration", loc="left", fontsize=11)
right.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Sorted by its largest probability, the posterior average is about as good a guide as the mode.
# The epistemic part alone is a worse one: a digit that truly looks like two has little of it, and
# is often wrong all the same. It answers another question.
#
# Two kinds of doubt
# ------------------
# Digits of large *aleatoric* uncertainty look like two classes at once to this model, whatever its
# coefficients. Those of large *epistemic* uncertainty are unlike what it has learnt from: the
# coefficients that matter for them are not known well. Each title is the label and the two classes
# of largest probability, over the 90 % interval of that of the first.

interval = prediction.interval(0.9)
p = probability["posterior"]
figure, axes = plt.subplots(2, 6, figsize=(9.5, 4), layout="constrained")
for row, kind in zip(axes, ("aleatoric", "epistemic"), strict=True):
    other_kind = "epistemic" if kind == "aleatoric" else "aleatoric"
    order = np.argsort(uncertainty[other_kind] - uncertainty[kind])[:6]
    for axis, i in zip(row, order, strict=True):
        axis.imshow(digits.images[test[i]], cmap="Greys")
        first, second = np.argsort(-p[i])[:2]
        low, high = interval[i, first]
        axis.set_title(f"{y_test[i]}: {first} or {second}?\n{low:.2f} to {high:.2f}", fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    row[0].set_ylabel(f"mostly {kind}")
plt.show()
