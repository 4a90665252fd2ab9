"""
Notice drift in a stream: forests
=================================

A model that learns from a stream is right as long as the stream does not change. A predictive
distribution can tell when it does: it knows how surprised it should be.
"""

# %%
# A stream that moves to another valley
# -------------------------------------
# Patches of forest in Colorado, thirty metres square; the question is whether lodgepole pine grows
# there, told by ten measurements of each patch (elevation, slope, light, distances). The first
# 60,000 patches come from one wilderness area, in random order. Then patches from a second one are
# mixed in, more and more of them, until after another 40,000 patches all come from there.
#
# The data are those of Blackard & Dean (1998).

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets
from sklearn.base import clone

from skstein import BayesianLogisticRegression
from skstein.inference import PMD

CHUNK, BEFORE, MOVING, AFTER = 1000, 60, 40, 50


def fetch():
    """Measurements (n, 10), wilderness area and pine or not of each patch."""
    X, y = datasets.fetch_covtype(return_X_y=True)
    return X[:, :10], X[:, 10:14].argmax(axis=1), (y == 2).astype(int)


def stream(X, area, y, rng):
    """Chunks of patches: of area 0, then of a mixture, then of area 2."""
    first, second = (list(rng.permutation(np.flatnonzero(area == a))) for a in (0, 2))
    for k in range(BEFORE + MOVING + AFTER):
        share = np.clip((k - BEFORE + 1) / MOVING, 0.0, 1.0)
        n = round(share * CHUNK)
        rows = [second.pop() for _ in range(n)] + [first.pop() for _ in range(CHUNK - n)]
        rows = rng.permutation(rows)
        yield X[rows], y[rows]


# %%
# How surprised it should be
# --------------------------
# The surprise of a row is minus the log of the probability that was given to what happened. If the
# prediction is right its mean is the entropy, the *total* of ``predict_uncertainty``, and its
# variance is known too. So the sum over a chunk, less what was expected, in standard deviations,
# should stay between -3 and 3. Every chunk is predicted before it is learnt from.


def surprise(model, X, y):
    """Mean surprise of a chunk, and its distance from what was expected, in its deviations."""
    proba = np.clip(model.predict_proba(X), 1e-12, 1.0)
    found = -model.log_predictive(X, y).sum()
    expected = model.predict_uncertainty(X).total.sum()
    variance = (proba * np.log(proba) ** 2).sum(axis=1) - (proba * np.log(proba)).sum(axis=1) ** 2
    return found / len(y), (found - expected) / np.sqrt(variance.sum())


# %%
# Two models watch the stream. One goes on learning, and averages over all it has ever seen. The
# other starts again after three surprising chunks in a row, with the fourth one as its first rows;
# it forgets everything before.


def study(*forest):
    """Surprises of both models at each chunk, and the chunks with which the second began again."""
    steady = BayesianLogisticRegression(PMD(n_particles=1000), random_state=0)
    watchful, alarms, restarts, table = clone(steady), 0, [], []
    for k, (X, y) in enumerate(stream(*forest, np.random.default_rng(0))):
        if alarms == 3:
            watchful, alarms = clone(watchful), 0
            restarts.append(k)
        elif k:
            table.append((*surprise(steady, X, y), *surprise(watchful, X, y)))
            alarms = alarms + 1 if table[-1][3] > 3 else 0
        if len(table) < k:  # a model that has just begun has nothing to say
            table.append((*surprise(steady, X, y), np.nan, np.nan))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the steady one is lost is the point
            steady.partial_fit(X, y, classes=[0, 1])
            watchful.partial_fit(X, y, classes=[0, 1])
    return {"table": np.array(table), "restarts": restarts}


# %%
# ``study(*fetch())`` takes minutes; this is what it returned.

with np.load("../results/drift.npz") as file:
    table, restarts = file["table"], list(file["restarts"])

# %%
# The surprise rises soon after the first patches of the second area come in, when they are still
# few. The model that goes on learning learns the mixture of all it has seen, which the second area
# is not; its surprise sinks in the end by slow averaging, not by forgetting. Each new start costs a
# chunk (the dotted lines).

figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(8.5, 5.6), sharex=True, height_ratios=[3, 2], layout="constrained"
)
chunks = np.arange(1, len(table) + 1)
for ax in (top, bottom):
    ax.axvspan(BEFORE, BEFORE + MOVING, color="0.93", lw=0)
    for k in restarts:
        ax.axvline(k, color="#D55E00", lw=0.8, ls=":")
top.axhspan(-3, 3, color="#009E73", alpha=0.15, lw=0)
top.plot(chunks, table[:, 1], color="#0072B2", label="goes on learning")
top.plot(chunks, table[:, 3], color="#D55E00", label="starts again after an alarm")
top.set_ylabel("surprise above expectation (sd)")
top.set_title("Is the model as surprised as it expects to be?", loc="left", fontsize=11)
top.annotate(
    "the stream moves",
    (BEFORE + 1, 1.0),
    xycoords=("data", "axes fraction"),
    va="top",
    xytext=(0, -5),
    textcoords="offset points",
    color="0.4",
    fontsize=9,
)
top.legend(frameon=False)
bottom.plot(chunks, table[:, 0], color="#0072B2")
bottom.plot(chunks, table[:, 2], color="#D55E00")
bottom.set_xlabel("chunk of 1000 patches")
bottom.set_ylabel("surprise (nats per row)")
plt.show()

# %%
# The figures in numbers: the first alarm, and the mean surprise of the last fifty chunks. Somebody
# who tosses a coin is surprised by 0.693 nats per row: less than the model that does not forget.

first = int(np.flatnonzero(table[BEFORE:, 1] > 3)[0]) + 1
print(f"first surprise above 3 sd: {first} chunks after the move began")
for label, column in (("goes on learning", 0), ("starts again", 2)):
    print(f"{label:>18}: {np.nanmean(table[-AFTER:, column]):.3f} nats per row")
print(f"starts again at chunks {', '.join(map(str, restarts))}")
