"""
Refer doubtful cases to a person: credit
========================================

A bank may lend, refuse, or have an officer look closer. Looking closer costs time, so it should be
kept for the cases in which it can change the decision. Which uncertainty finds them?
"""

# %%
# The decision
# ------------
# German credit: 1000 loans, 30 % of which were not paid back. To lend to a bad customer costs 5, to
# refuse a good one costs 1. So the best decision is to refuse if the probability of a bad loan is
# above 1/6. A correct probability is all one needs.
#
# A young branch has seen 150 loans. An officer who looks closer knows what 700 loans teach: a
# second model plays that part. The rows are shuffled twenty times, and each time 300 other
# applicants are judged.
#
# The data are the Statlog German credit data of the UCI repository.

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skstein import BayesianLogisticRegression, predictive
from skstein.priors import Normal

LEND_TO_BAD, REFUSE_GOOD = 5.0, 1.0
THRESHOLD = REFUSE_GOOD / (LEND_TO_BAD + REFUSE_GOOD)


def fetch():
    """Applicants, without their sex, and whether the loan was bad."""
    X, y = datasets.fetch_openml("credit-g", version=1, return_X_y=True, as_frame=True)
    return X.drop(columns="personal_status"), (y == "bad").to_numpy()


def make_model():
    text = make_column_selector(dtype_exclude="number")
    encoder = OneHotEncoder(min_frequency=20, handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((encoder, text), remainder="passthrough")
    # Sixty coefficients, most of rare categories, and few loans: a tight prior.
    model = BayesianLogisticRegression("pmfvb", prior=Normal(0.3), random_state=0)
    return make_pipeline(columns, model)


# %%
# Three uncertainties
# -------------------
# All are known before anybody looks closer:
#
# - *how near* the probability is to the threshold, which any classifier tells;
# - the *epistemic* part of the entropy: how much the posterior could still learn from the case;
# - the *value of knowing*: how much less the decision would cost, on average over the posterior, if
#   the probability were known. It is epistemic uncertainty in the currency of the decision: a
#   probability between 0.3 and 0.9 is wide open, but the loan is refused at either end.


def cost(decision_probability, bad):
    """What is lost when the decision follows that probability."""
    return np.where(decision_probability < THRESHOLD, LEND_TO_BAD * bad, REFUSE_GOOD * (1 - bad))


def expected_cost(p):
    """Of the better of the two decisions, if p is the probability."""
    return np.minimum(LEND_TO_BAD * p, REFUSE_GOOD * (1 - p))


def judge(X_train, y_train, X):
    """Probability, 90 % interval, epistemic part and value of knowing, of each applicant."""
    prediction = predictive(make_model().fit(X_train, y_train), X)
    p = prediction.mean()[:, 1]
    by_posterior = prediction.quantiles((np.arange(100) + 0.5) / 100)[:, 1]
    value = expected_cost(p) - expected_cost(by_posterior).mean(axis=1)
    interval = prediction.interval(0.9)[:, 1]
    return np.column_stack([p, interval, prediction.uncertainty().epistemic, value])


# %%
# What an officer is asked
# ------------------------
# For each share of the applicants that is referred to the officer: the mean cost of all decisions,
# when those referred are the ones with the most of each uncertainty.

shares = np.linspace(0.0, 1.0, 41)
criteria = ["at random", "most epistemic", "nearest to the threshold", "most worth knowing"]


def study(X, y):
    """Mean costs (shuffles, criteria, shares), and the judgements of the last shuffle."""
    costs = []
    for train, test in ShuffleSplit(20, test_size=300, random_state=0).split(X):
        judged = judge(X.iloc[train[:150]], y[train[:150]], X.iloc[test])
        p, epistemic, value = judged[:, [0, 3, 4]].T
        officer = make_model().fit(X.iloc[train], y[train]).predict_proba(X.iloc[test])[:, 1]
        alone, looked = cost(p, y[test]), cost(officer, y[test])
        costs.append([])
        chance = np.random.default_rng(0).random(len(test))
        for score in (chance, epistemic, -np.abs(p - THRESHOLD), value):
            order = np.argsort(-score)
            gained = np.append(0.0, np.cumsum((alone - looked)[order]))
            costs[-1].append((alone.sum() - gained[np.rint(shares * len(p)).astype(int)]) / len(p))
    return {"costs": np.array(costs), "judged": judged}


# %%
# ``study(*fetch())`` takes a minute; this is what it returned.

with np.load("../results/credit.npz") as file:
    costs, judged = file["costs"], file["judged"]

# %%
# The cases with the largest epistemic part are the wrong ones to ask about, worse than chance: most
# lie where the probability is about one half, far above 1/6, and whatever the officer learns, the
# loan is refused. In the other two orders the first hours of the officer are worth the most.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
p, low, high, epistemic, value = judged.T
shown = np.argsort(p)[::5]
rows = np.arange(len(shown))
left.vlines(rows, low[shown], high[shown], color="0.75", lw=1.2, zorder=1)
points = left.scatter(rows, p[shown], c=value[shown], s=22, cmap="plasma_r", zorder=2)
left.axhline(THRESHOLD, color="0.3", lw=0.8, ls="--")
left.annotate(
    "refuse above 1/6", (59, THRESHOLD), (0, 4), textcoords="offset points", fontsize=9, ha="right"
)
left.set_xlabel("every fifth applicant, by predicted probability")
left.set_ylabel("probability of a bad loan, 90 % interval")
left.set_title("Many are wide open, few are undecided", loc="left", fontsize=11)
figure.colorbar(points, ax=left, label="value of knowing")
mean = costs.mean(axis=0)
for label, color, curve in zip(
    criteria, ("0.5", "#0072B2", "#009E73", "#D55E00"), mean, strict=True
):
    right.plot(100 * shares, curve, color=color, label=label)
right.set_xlabel("applicants looked at closer (%)")
right.set_ylabel("mean cost of a decision")
right.set_title("Which ones?", loc="left", fontsize=11)
right.margins(y=0.2)
right.legend(frameon=False, fontsize=8, ncols=2, handlelength=1.0, loc="upper right")
plt.show()

# %%
# In numbers, with a fifth of the applicants referred; the error is that of the difference to a
# choice at random, over the twenty shuffles (which share loans, so it is a little too small).

at = np.searchsorted(shares, 0.2)
print(f"nobody referred: {mean[0, 0]:.3f}; everybody: {mean[0, -1]:.3f}")
for label, curves in zip(criteria, costs.swapaxes(0, 1), strict=True):
    difference = curves[:, at] - costs[:, 0, at]
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    print(f"{label:>25}: {curves[:, at].mean():.3f}  ({difference.mean():+.3f} ± {error:.3f})")

# %%
# So not every uncertainty is a reason to ask. The entropy's epistemic part answers another
# question: which loan would teach the model most, if it were given and watched. Nearness to the
# threshold, which needs only the mean of the posterior, is the best order here; the value of
# knowing comes second. The value has a use of its own: it is in the units of the cost, so that a
# case can be referred when knowing is worth more than the officer's time.
