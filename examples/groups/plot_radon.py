"""
Partial pooling of groups: homes in counties
============================================

How much radon is in the homes of a county? Some counties of Minnesota have a hundred measurements,
others two. This is the textbook example of groups (Gelman & Hill 2007, chapter 12): a model that
learns how much counties differ, beside one that ignores them and one that treats each alone.
"""

# %%
# The data
# --------
# 919 homes in 85 counties. The outcome is the logarithm of the radon level, in units of pCi/L. A
# measurement was made in the basement (floor 0) or on the ground floor. The data are those of
# posteriordb (BSD-3-Clause).

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skstein import BayesianLinearRegression
from skstein.plotting import PosteriorIntervalDisplay
from skstein.priors import Normal

radon = pd.read_csv("../results/radon.csv")
X, y = radon[["county", "floor"]], radon["log_radon"].to_numpy()
n_homes = X["county"].value_counts().sort_index()
print(n_homes.describe()[["min", "50%", "max"]])

# %%
# Three models
# ------------
# Complete pooling has one line for all counties. Without pooling every county has an intercept of
# its own, with a prior so wide that counties tell nothing about each other. Partial pooling is one
# word: ``random_effects=["county"]``. Features and outcome are taken as they are, so that the
# numbers compare.

common = {"standardize": False, "random_state": 0}
complete = BayesianLinearRegression(**common).fit(X[["floor"]], y)

columns = make_column_transformer((OneHotEncoder(), ["county"]), remainder="passthrough")
scales = [3.0] * len(n_homes) + [1.0]
alone = make_pipeline(columns, BayesianLinearRegression(prior=Normal(scales), **common))
alone.fit(X, y)

partial = BayesianLinearRegression(random_effects=["county"], **common).fit(X, y)
county = partial.random_effects_["county"]
print(f"standard deviation between counties {county['sd'][0]:.2f} +- {county['sd_std'][0]:.2f}")
print(f"and between homes of a county {np.sqrt(partial.noise_variance_):.2f}")

# %%
# What pooling does
# -----------------
# Each point is the level of a county's basements. Without pooling (left) counties of few homes are
# all over the place, with wide intervals; their extremes are mostly noise. With partial pooling
# (right) they are pulled towards the line of all counties, the more the fewer homes they have. The
# shrinkage factor says how far: 0 is where a county is told by its own homes, 1 where it is not.

basements = X.drop_duplicates("county").sort_values("county").assign(floor=0)
rng = np.random.default_rng(0)
jittered = n_homes * np.exp(rng.uniform(-0.1, 0.1, len(n_homes)))
fig, axes = plt.subplots(1, 2, figsize=(9.0, 4.0), sharey=True, layout="constrained")
for ax, model, title in zip(axes, (alone, partial), ("No pooling", "Partial pooling"), strict=True):
    draws = (
        model.sample_mean(basements, 1000, random_state=0)
        if model is partial
        else model[-1].sample_mean(model[:-1].transform(basements), 1000, random_state=0)
    )
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=1)
    ax.vlines(jittered, low, high, lw=0.8, color="C0")
    ax.plot(jittered, middle, "o", ms=3.5, color="C0")
    ax.axhline(complete.intercept_, color="C1", lw=1.2, label="complete pooling")
    ax.set(xscale="log", xlabel="homes measured in the county", title=title)
axes[0].set_ylabel("log radon, median and 90 % interval")
axes[0].legend(frameon=False)

most, least = n_homes.idxmax(), n_homes.idxmin()
for code in (most, least):
    print(f"{n_homes[code]} homes: shrinkage {county['shrinkage'][code, 0]:.2f}")

# %%
# The counties in order
# ---------------------
# The display sorts groups by their effects; here are those that differ most clearly.

display = PosteriorIntervalDisplay.from_estimator(partial, grouping="county", top=25)
display.ax_.set_ylabel("county")

# %%
# A county never seen
# -------------------
# ``effects="group"``, the default, draws its effect from the distribution of the counties;
# ``effects="population"`` leaves it out. For the outcome of one home that is a small difference,
# for the mean of a county it is most of what is not known.

somewhere = pd.DataFrame({"county": [1000], "floor": [0]})
for effects in ("group", "population"):
    low, high = np.quantile(partial.sample_mean(somewhere, 4000, 0, effects=effects), [0.05, 0.95])
    print(f"effects={effects!r}: mean of its basements between {low:.2f} and {high:.2f}")

# %%
# Leave one county out
# --------------------
# Which model knows most about a county that it has not seen? Each is fitted without the county,
# and asked for the density of all its measurements together. Given a particle these are normal with
# a common deviation, of standard deviation :math:`\\tau`: what was learnt, 0, or the wide prior.


def log_density(model, X_left, y_left, log_sd):
    """Joint log density of a county's measurements, averaged over the posterior."""
    posterior = model.posterior_
    noise, between, n = np.exp(posterior["log_sigma2"]), np.exp(2 * log_sd), len(y_left)
    line = posterior["intercept"] + posterior["floor"] * X_left["floor"].to_numpy()[:, None]
    residual = y_left[:, None] - line
    inside = norm.logpdf(residual, scale=np.sqrt(noise)).sum(axis=0)
    spread = noise + n * between
    gain = 0.5 * between * residual.sum(axis=0) ** 2 / (noise * spread)
    value = inside + gain - 0.5 * np.log(spread / noise)
    return logsumexp(value, b=posterior.weights)


scores = {"no pooling": [], "complete pooling": [], "partial pooling": []}
quick = {"inference": "svgd", **common}
for kept, left in LeaveOneGroupOut().split(X, y, X["county"]):
    out = X.iloc[left], y[left]
    within = X.iloc[kept]
    model = BayesianLinearRegression(**quick).fit(within[["floor"]], y[kept])
    scores["complete pooling"].append(log_density(model, *out, -np.inf))
    # Counties of the others have no say in the level of this one: its prior is that of all.
    model = BayesianLinearRegression(random_effects=["county"], **quick).fit(within, y[kept])
    scores["partial pooling"].append(log_density(model, *out, model.posterior_["log_sd[county]"]))
    scores["no pooling"].append(log_density(model, *out, np.log(3.0)))

table = pd.DataFrame(scores)
print(table.sum().round(1))
difference = table["partial pooling"] - table["complete pooling"]
error = np.sqrt(len(table)) * difference.std()
print(f"partial less complete pooling: {difference.sum():.1f} +- {error:.1f} nats")

# %%
# Partial pooling predicts a new county best. Complete pooling takes the homes of a county for
# independent, which they are not; and what is known of a county alone is nothing before it is
# measured.

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
best = table["partial pooling"]
for k, name in enumerate(("complete pooling", "no pooling")):
    ax.plot(jittered, table[name] - best, "o", ms=3.5, color=f"C{k + 1}", label=name)
ax.axhline(0.0, color="0.5", lw=0.8)
ax.set(xscale="log", xlabel="homes measured in the county")
ax.set_ylabel("log density against\npartial pooling (nats)")
ax.legend(frameon=False)
plt.show()
