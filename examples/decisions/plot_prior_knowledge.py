"""
Use what is known: signs, and yesterday's posterior
===================================================

Bicycles are rented out, and every day the weather decides whether a second van that moves them
about pays. Few days have been seen, so that what is known before counts:

- *signs*: warmth brings riders, rain and wind keep them away. Two weeks in a spring in which the
  warm days happened to be wet say otherwise, and a model that believes them decides by noise.
- *yesterday's posterior*: rows of the first weeks need not be kept. Their posterior, as the prior
  of the weeks that follow, leads to the decisions that all rows together would.

The days are simulated, so that the right decision is known.
"""

# %%
# Two weeks of days
# -----------------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skstein import BayesianLinearRegression

NAMES = ["temperature", "rain", "wind", "holiday"]
EFFECTS = np.array([30.0, -25.0, -10.0, 5.0])  # rentals, per standard deviation of each
THRESHOLD, VAN, LOST = 100.0, 20.0, 1.0  # a van costs as much as 20 rentals that are lost


def days(n, rng):
    """Weather and rentals; warm days are wet ones more often than not."""
    warm = rng.normal(size=n)
    rain = 0.8 * warm + 0.6 * rng.normal(size=n)
    X = np.column_stack([warm, rain, rng.normal(size=n), rng.random(n) < 0.1]).astype(float)
    return pd.DataFrame(X, columns=NAMES), 90.0 + X @ EFFECTS + 35.0 * rng.normal(size=n)


def model(**params):
    return BayesianLinearRegression("pmfvb", random_state=0, **params)


signs = {"temperature": 1, "rain": -1, "wind": -1}
X, y = days(14, np.random.default_rng(7))
free, signed = model().fit(X, y), model(positive=signs).fit(X, y)

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for k, (fitted, label) in enumerate([(free, "any sign"), (signed, "signs known")]):
    low, middle, high = fitted.posterior_.quantile([0.05, 0.5, 0.95])[:, 1:5]
    place = np.arange(4) + 0.2 * k - 0.1
    ax.errorbar(
        middle, place, xerr=[middle - low, high - middle], fmt="o", color=f"C{k}", label=label
    )
ax.plot(EFFECTS, np.arange(4), "k|", markersize=22, label="truth")
ax.axvline(0.0, color="0.8", zorder=0)
ax.set(yticks=range(4), yticklabels=NAMES, xlabel="rentals per unit, median and 90 % interval")
ax.invert_yaxis()
ax.legend()
plt.show()

# %%
# What the decisions cost
# -----------------------
# The van is ordered where the expected loss without it, rentals beyond the threshold, is more than
# it costs. Over many such fortnights, each followed by a hundred days:


def cost(fitted, X, y):
    draws = fitted.sample_predictive(X, 200, random_state=0)
    without = LOST * np.maximum(draws - THRESHOLD, 0.0)
    van = without.mean(axis=1) > VAN
    return np.mean(np.where(van, VAN, LOST * np.maximum(y - THRESHOLD, 0.0)))


costs = []
for seed in range(12):
    rng = np.random.default_rng(seed)
    X, y = days(14, rng)
    X_new, y_new = days(100, rng)
    more, y_more = days(60, rng)
    first = model().fit(more, y_more)
    both = pd.concat([more, X]), np.concatenate([y_more, y])
    fits = {
        "any sign": model().fit(X, y),
        "signs known": model(positive=signs).fit(X, y),
        "60 days before, as prior": model(prior=first.posterior_.as_prior()).fit(X, y),
        "all 74 days": model().fit(*both),
    }
    costs.append({name: cost(fitted, X_new, y_new) for name, fitted in fits.items()})
costs = pd.DataFrame(costs)
excess = costs.sub(costs["all 74 days"], axis=0)

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.axvline(0.0, color="0.8", zorder=0)
for k, name in enumerate(list(costs)[:3]):
    values = excess[name]
    ax.plot(values, np.full(len(values), k), "o", color=f"C{k}", alpha=0.4)
    ax.plot(values.mean(), k, "k|", markersize=26)
ax.set(yticks=range(3), yticklabels=list(costs)[:3], ylim=(2.5, -0.5))
ax.set_xlabel("rentals lost a day, more than with all 74 days (bar: mean)")
plt.show()
print(costs.mean().round(1))

# %%
# Yesterday's posterior makes next to the same decisions as all days. Signs make up for a part of
# the days that were never seen. Where the weeks before were of another kind the prior should say
# so: a wider normal, ``MultivariateNormal(prior.loc, 4 * prior.cov, prior.names)``, believes them
# less.
