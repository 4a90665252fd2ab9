"""
Positive amounts: which claims to reinsure
==========================================

An insurer pays claims up to a limit and hands on the risk of those that may go beyond. Amounts are
positive, and the larger they are the more they spread. Which model names the right claims?
"""

# %%
# Claims
# ------
# Each row is a claim, with what is known on the day it is reported. The spread of what is paid in
# the end is in proportion to its mean: so the variance is ``dispersion * mean**2``, that of a gamma
# distribution. The claims are simulated, so that the truth is known.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import gamma
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import GammaRegressor
from sklearn.preprocessing import StandardScaler

from skstein import BayesianGammaRegression, BayesianLinearRegression, predictive

DISPERSION, LIMIT = 0.6, 20_000.0


def claims(n, rng):
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, (n, 2))])
    mean = 3000.0 * np.exp(X @ [0.5, 0.3, -0.2, 0.6, 0.4])
    return X, rng.gamma(1.0 / DISPERSION, DISPERSION * mean), mean


rng = np.random.default_rng(0)
X, y, _ = claims(250, rng)
X_new, y_new, mean_new = claims(3000, rng)

# %%
# Four answers to one question
# ----------------------------
# The question is the probability of more than the limit. `GammaRegressor` gives means; with a
# dispersion estimated from its residuals they make a distribution. Linear regression of y has
# normal noise, of the same size for all claims; of log y it has the right kind of spread, but its
# inverse takes medians for means.

scaler = StandardScaler().fit(X)
penalised = GammaRegressor(alpha=1e-3).fit(scaler.transform(X), y)
fitted, mean = (penalised.predict(scaler.transform(rows)) for rows in (X, X_new))
dispersion = np.sum((y / fitted - 1.0) ** 2) / (len(y) - X.shape[1] - 1)
truth = gamma(1.0 / DISPERSION, scale=DISPERSION * mean_new).sf(LIMIT)
beyond = {"GammaRegressor": gamma(1.0 / dispersion, scale=dispersion * mean).sf(LIMIT)}

models = {
    "linear": BayesianLinearRegression(random_state=0),
    "linear in log y": TransformedTargetRegressor(
        BayesianLinearRegression(random_state=0), func=np.log, inverse_func=np.exp
    ),
    "gamma": BayesianGammaRegression(random_state=0),
}
predictions = {}
for name, model in models.items():
    predictions[name] = predictive(model.fit(X, y), X_new)
    draws = predictions[name].sample_predictive(400, random_state=0)
    beyond[name] = np.mean(draws > LIMIT, axis=1)
    score = predictions[name].log_predictive(y_new).mean()
    low, high = predictions[name].interval(0.9).T
    inside = np.mean((low <= y_new) & (y_new <= high))
    print(f"{name}: log score {score:.3f}, 90 % intervals hold {inside:.1%}")

# %%
# Predicted against true probabilities of a claim beyond the limit, in groups of claims. Normal
# noise of one size is too wide for small claims and too narrow for large ones. A normal
# distribution of the logarithm has too heavy a tail on the right.

parts = np.array_split(np.argsort(truth), 12)
figure, ax = plt.subplots(figsize=(5.5, 4.0), layout="constrained")
for name, probability in beyond.items():
    at = [(truth[part].mean(), probability[part].mean()) for part in parts[3:]]
    ax.plot(*np.transpose(at), "o-", label=name)
ax.plot([1e-4, 0.5], [1e-4, 0.5], "k:", zorder=0)
ax.set(xscale="log", yscale="log", xlabel="true probability", ylabel="predicted")
ax.set_title(f"A claim of more than {LIMIT:,.0f}")
ax.legend(frameon=False)
plt.show()

# %%
# The decision: to reinsure one claim costs 900, a claim beyond the limit that was not reinsured
# 9,000. So claims with a probability above a tenth are reinsured.

PREMIUM, LOSS = 900.0, 9000.0


def cost(probability):
    reinsured = probability > PREMIUM / LOSS
    return np.where(reinsured, PREMIUM, LOSS * truth).mean()


least = cost(truth)
lost = {name: cost(probability) - least for name, probability in beyond.items()}
figure, ax = plt.subplots(figsize=(5.5, 2.8), layout="constrained")
ax.barh(list(lost), list(lost.values()), color=[f"C{j}" for j in range(4)])
ax.set(xlabel="cost per claim beyond that of the truth", title="Reinsuring by the model")
plt.show()

# %%
# The family decides: both gamma models are near the truth where it counts, around one in ten, and
# neither of the others is. `GammaRegressor` needed a dispersion estimated by hand, and takes it and
# the means for granted; the Bayesian one says how well it knows them, in every probability above.

model = models["gamma"]
low, high = np.exp(model.posterior_.quantile([0.05, 0.95])[:, -1])
print(
    f"dispersion {model.dispersion_:.2f}, from {low:.2f} to {high:.2f}; the truth is {DISPERSION}"
)
theirs = penalised.score(scaler.transform(X_new), y_new)
print(f"D2 {model.score(X_new, y_new):.3f}, of GammaRegressor {theirs:.3f}")
