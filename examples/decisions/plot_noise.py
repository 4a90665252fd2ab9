"""
Outliers and uneven noise: choose the noise
===========================================

A linear regression whose noise is normal, of one variance, believes its worst rows most, and
promises the same precision everywhere. Two decisions where that matters: whether a fertiliser pays,
and what time of delivery to promise.
"""

# %%
# Sixty plots and three slips of the pen
# --------------------------------------
#
# Half of sixty plots get a new fertiliser, which pays if it adds more than 0.2 tonnes a hectare. In
# truth it adds 0.4. Three of the yields were written down without their decimal point.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.linear_model import BayesianRidge, HuberRegressor
from sklearn.preprocessing import StandardScaler

from skstein import BayesianLinearRegression
from skstein.metrics import coverage_scorer, log_predictive_scorer

rng = np.random.default_rng(1)
treated, soil = np.repeat([0.0, 1.0], 30), rng.normal(size=60)
X = np.column_stack([treated, soil])
truth = 5.0 + 0.4 * treated + 0.3 * soil + 0.35 * rng.normal(size=60)
written = truth.copy()
written[[7, 19, 41]] *= 10.0

# %%
# With normal noise the three rows decide: what the fertiliser adds might be anything. Student t
# noise expects that some rows are far off, and finds nearly what the true yields would have said.
# Huber's regression gives those rows less weight too, but one number and no probability.

models = {
    "true yields": BayesianLinearRegression(random_state=0).fit(X, truth),
    "normal": BayesianLinearRegression(random_state=0).fit(X, written),
    "student-t": BayesianLinearRegression(noise="student-t", random_state=0).fit(X, written),
}
points = {
    "ridge": BayesianRidge().fit(X, written).coef_[0],
    "Huber": HuberRegressor(max_iter=1000).fit(X, written).coef_[0],
}
figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
colors = {"student-t": "#D55E00", "true yields": "0.4"}
for place, (label, model) in enumerate(models.items()):
    low, middle, high = model.posterior_.quantile([0.05, 0.5, 0.95])[:, 1]
    color = colors.get(label, "#0072B2")
    axis.plot([low, high], [place, place], color=color, lw=2)
    axis.plot(middle, place, "o", color=color)
    pays = model.posterior_.weights @ (model.posterior_["x0"] > 0.2)
    print(f"{label:12} probability that it pays {pays:.2f}")
for place, value in enumerate(points.values(), start=len(models)):
    axis.plot(value, place, "o", color="#0072B2", mfc="white")
axis.axvline(0.2, color="0.8", zorder=0)
axis.set_yticks(range(5), [*models, *points])
axis.set_xlabel("tonnes a hectare that the fertiliser adds, with 90 % intervals")
plt.show()

# %%
# A delivery at the promised time
# -------------------------------
#
# Deliveries take longer the further they go, and how long is less certain the further they go. A
# promise should be kept in nineteen of twenty cases: a quantile of 95 %.

rng = np.random.default_rng(0)


def deliveries(n):
    """Distances in km, and minutes."""
    distance = rng.uniform(1.0, 15.0, size=n)
    return distance[:, None], 8.0 + 2.5 * distance + np.exp(0.2 * distance) * rng.normal(size=n)


X, minutes = deliveries(300)
X_new, minutes_new = deliveries(5000)
promises, scores = {}, {}
for noise in ("normal", "heteroscedastic"):
    model = BayesianLinearRegression(noise=noise, random_state=0).fit(X, minutes)
    promises[noise] = model.predict_quantiles(X_new, 0.95)[:, 0]
    scores[noise] = log_predictive_scorer(model, X_new, minutes_new)
    print(f"{noise:16} coverage of 90 %: {coverage_scorer(model, X_new, minutes_new):.3f}")
scaler = StandardScaler().fit(X)
huber = HuberRegressor().fit(scaler.transform(X), minutes)
spread = np.std(minutes - huber.predict(scaler.transform(X)))
promises["Huber"] = huber.predict(scaler.transform(X_new)) + norm.ppf(0.95) * spread

# %%
# On average all promises are kept about as often as they should be. Nearby customers wait for a
# courier who is long there, and those far off are let down.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
order = np.argsort(X_new[:, 0])
colors = {"normal": "#0072B2", "heteroscedastic": "#D55E00", "Huber": "0.5"}
left.plot(X[:, 0], minutes, ".", color="0.75", ms=4)
edges = np.linspace(1.0, 15.0, 8)
middle = 0.5 * (edges[1:] + edges[:-1])
which = np.digitize(X_new[:, 0], edges[1:-1])
for label, promise in promises.items():
    style = {"color": colors[label], "label": label, "ls": "--" if label == "Huber" else "-"}
    left.plot(X_new[order, 0], promise[order], **style)
    late = [np.mean(minutes_new[which == k] > promise[which == k]) for k in range(7)]
    right.plot(middle, late, "o", mfc="white", **style)
right.axhline(0.05, color="0.85", zorder=0)
left.set(xlabel="km", ylabel="minutes")
left.set_title("What is promised", loc="left", fontsize=11)
left.legend(frameon=False)
right.set(xlabel="km", ylabel="share of promises broken")
right.set_title("What becomes of it", loc="left", fontsize=11)
plt.show()

# %%
# The choice between the two needs no customers: the log predictive density of rows that were not
# fitted, in nats per row. A search does the same by ``{"noise": ["normal", "heteroscedastic"]}``
# and ``scoring=log_predictive_scorer``.

print({noise: round(float(score), 2) for noise, score in scores.items()})
