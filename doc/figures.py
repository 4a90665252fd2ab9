"""The pictures of the pages by goal.

Usage::

    python doc/figures.py [NAME ...]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import BayesianLinearRegression, BayesianLogisticRegression, predictive
from skstein.plotting import PosteriorIntervalDisplay, PredictiveIntervalDisplay

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True, scaled=False)


def probabilities(n_splits=40):
    """Frequencies of the posterior and of two point estimates; prints their log losses too."""
    X, y = diabetes()
    severe = y > 200
    models = {
        "no penalty": make_pipeline(StandardScaler(), LogisticRegression(C=1e6, max_iter=1000)),
        "LogisticRegression()": make_pipeline(StandardScaler(), LogisticRegression()),
        "posterior mean": BayesianLogisticRegression("svgd", random_state=0),
    }
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for n_rows in (60, 100, 200):
        found = {name: [] for name in models}
        losses = []
        for seed in range(n_splits):
            X_train, X_test, y_train, y_test = train_test_split(
                X, severe, train_size=n_rows, stratify=severe, random_state=seed
            )
            losses.append([])
            for name, model in models.items():
                p = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
                losses[-1].append(log_loss(y_test, p))
                found[name].append((p, y_test))
        print(n_rows, dict(zip(models, np.mean(losses, axis=0).round(3), strict=True)))
        if n_rows == 60:
            for (name, pairs), color in zip(found.items(), ("0.6", ORANGE, BLUE), strict=True):
                p, outcome = (np.concatenate(part) for part in zip(*pairs, strict=True))
                bins = np.minimum((10 * p).astype(int), 9)
                share = [outcome[bins == k].mean() for k in range(10)]
                axes.plot(
                    [p[bins == k].mean() for k in range(10)],
                    share,
                    "o-",
                    ms=4,
                    label=name,
                    color=color,
                )
    axes.plot([0, 1], [0, 1], color="0.3", lw=0.8, ls="--")
    axes.set(xlabel="predicted probability", ylabel="share that happened", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False)
    return figure


def coefficients():
    X, y = diabetes()
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    reg = BayesianLinearRegression(random_state=0).fit(X, y)
    PosteriorIntervalDisplay.from_estimator(reg, ax=axes)
    return figure


def abstain():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=300, random_state=0)
    model = make_pipeline(PCA(10), BayesianLogisticRegression(random_state=0))
    wrong = model.fit(X_train, y_train).predict(X_test) != y_test
    uncertainty = predictive(model, X_test).uncertainty()
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for part, color in (("total", BLUE), ("aleatoric", ORANGE), ("epistemic", GREEN)):
        errors = np.cumsum(wrong[np.argsort(uncertainty[part])])
        decided = np.arange(1, len(wrong) + 1)
        axes.plot(100 * decided / len(wrong), 100 * errors / decided, color=color, label=part)
    axes.set(xlabel="digits that the classifier decides (%)", ylabel="of these wrong (%)", ylim=0)
    axes.set_xlim(50, 100)
    axes.legend(frameon=False, title="least first")
    return figure


def intervals():
    X, y = diabetes()
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    reg = BayesianLinearRegression(random_state=0).fit(X, y)
    PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", y=y, ax=axes)
    axes.set(xlabel="body mass index", ylabel="disease progression")
    return figure


DRAWN = {f.__name__: f for f in (probabilities, coefficients, abstain, intervals)}

if __name__ == "__main__":
    for name in sys.argv[1:] or DRAWN:
        path = Path(__file__).parent / "images" / f"{name}.png"
        DRAWN[name]().savefig(path, dpi=130)
        print(path)
