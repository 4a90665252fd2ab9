"""Four engines on three data sets that ship with scikit-learn: one table, one figure.

The table says how well each method predicts rows that it has not seen, how close its posterior is
to a gold posterior from long Markov chains, and how long it took. The figure shows coefficients
with their intervals, and what averaging over the posterior does to predictions from little data.

Usage::

    python examples/demo.py [--figure demo.png]
"""

import argparse
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from benchmarks.gold import LOCAL, accuracy
from scipy.stats import norm
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.model_selection import (
    KFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from skstein import BayesianLinearRegression, BayesianLogisticRegression
from skstein.metrics import expected_calibration_error
from skstein.priors import Normal

# Colours of Okabe & Ito, which colour-blind readers can tell apart.
ENGINES = {
    "pmd": ("PMD", "#0072B2", "o"),
    "pmfvb": ("PMFVB", "#E69F00", "s"),
    "fwss": ("FWSS", "#009E73", "^"),
    "mcmc": ("MCMC", "#CC79A7", "D"),
}
PROBLEMS = {
    "breast cancer": ("breast_cancer_logistic", load_breast_cancer(), BayesianLogisticRegression),
    "wine": ("wine_softmax", load_wine(), BayesianLogisticRegression),
    "diabetes": ("diabetes_linear", load_diabetes(scaled=False), BayesianLinearRegression),
}
# For the panel on calibration: little data and a weak prior leave much to average over.
TRAIN_SIZE, PRIOR_SD, N_SPLITS = 100, 3.0, 20

LEGEND = f"""
accuracy or R2, log loss or -log p (the outcome of diabetes being standardised), and expected
calibration error (ECE): five-fold cross-validation. mean error (root mean square over coordinates,
in posterior standard deviations) and sd ratio (mean, least-greatest): a fit to all rows against
long Markov chains. seconds: of that fit.

Next, calibration of {N_SPLITS} fits to {TRAIN_SIZE} rows of breast cancer, on the other rows.
"""


def gold_posterior(name):
    with np.load(LOCAL / f"gold_{name}.npz") as file:
        return dict(file)


def standardised(estimator):
    return make_pipeline(StandardScaler(), estimator)


def bayesian(kind, engine, prior_sd=1.0):
    """Standardised features, and one normal prior for the coefficients and the intercept."""
    prior = Normal(float(prior_sd))
    # Noise as in the gold posterior.
    own = {"noise_shape": 1.0, "noise_scale": 1.0} if kind is BayesianLinearRegression else {}
    options = {"standardize": False, "random_state": 0, **own}
    return standardised(kind(engine, prior=prior, intercept_prior=prior, **options))


def warm_up():
    """Seconds of small fits, one of every kind, so that later times are free of compiling."""
    X, y = load_wine(return_X_y=True)
    start = time.perf_counter()
    for engine in ENGINES:
        bayesian(BayesianLinearRegression, engine).fit(X[:, :3], y).predict(X[:, :3])
        for labels in (y, y == 0):
            bayesian(BayesianLogisticRegression, engine).fit(X[:, :3], labels).predict(X[:, :3])
    return time.perf_counter() - start


def out_of_sample(model, X, y):
    """Accuracy or R2, log loss, and calibration error, by cross-validation."""
    if is_classifier(model):
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        proba = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
        return (
            accuracy_score(y, proba.argmax(axis=1)),
            log_loss(y, proba),
            expected_calibration_error(y, proba),
        )
    mean, std = np.empty((2, len(y)))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        fitted = clone(model).fit(X[train], y[train])
        mean[test], std[test] = fitted.predict(X[test], return_std=True)
    return r2_score(y, mean), -norm.logpdf(y, mean, std).mean(), None


def print_table():
    """Print the table; return the posteriors of the breast cancer data by engine."""
    posteriors = {}
    for title, (name, data, kind) in PROBLEMS.items():
        gold, regression = gold_posterior(name), kind is BayesianLinearRegression
        X, y = data.data, scale(data.target) if regression else data.target
        models = {engine: bayesian(kind, engine, gold["prior_sd"]) for engine in ENGINES}
        baseline = BayesianRidge() if regression else LogisticRegression(max_iter=1000)
        models[type(baseline).__name__] = standardised(baseline)
        print_header(f"{title} {X.shape[0]} x {X.shape[1]}", *("R2", "-log p") * regression)
        for label, model in models.items():
            start = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - start
            posterior = getattr(model[-1], "posterior_", None)
            posteriors[title, label] = posterior
            errors = () if posterior is None else accuracy(posterior, gold)
            print_row(label, out_of_sample(model, X, y), errors, seconds)
    return {engine: posteriors["breast cancer", engine] for engine in ENGINES}


def print_header(title, score="accuracy", loss="log loss"):
    posterior = f"{'mean error':>13}{'sd ratio':>19}"
    print(f"\n{title:25}{score:>8}{loss:>10}{'ECE':>8}{posterior}{'seconds':>10}")


def print_row(label, predictions, errors, seconds):
    score, loss, calibration = predictions
    ece = "-" if calibration is None else f"{calibration:.3f}"
    mean_error = spread = "-"
    if len(errors):
        error, ratio = errors
        mean_error = f"{np.sqrt(np.mean(error**2)):.3f}"
        spread = f"{ratio.mean():.2f} ({ratio.min():.2f}-{ratio.max():.2f})"
    cells = f"{score:8.3f}{loss:10.4f}{ece:>8}{mean_error:>13}{spread:>19}{seconds:10.2f}"
    print(f"  {label:23}{cells}", flush=True)


def draw_coefficients(axes, posteriors, n_shown=10):
    """Means and 90 % intervals of the coefficients that the gold posterior is surest about."""
    gold = gold_posterior("breast_cancer_logistic")
    sure = np.argsort(-np.abs(gold["mean"][1:] / gold["sd"][1:]))[:n_shown]
    shown = 1 + sure[np.argsort(gold["mean"][1 + sure])]
    rows, half = np.arange(n_shown), norm.ppf(0.95) * gold["sd"][shown]
    mean = gold["mean"][shown]
    axes.barh(rows, 2 * half, left=mean - half, height=0.82, color="0.87", label="gold posterior")
    axes.vlines(mean, rows - 0.41, rows + 0.41, color="0.45", lw=1.2)
    for k, (engine, (label, color, marker)) in enumerate(ENGINES.items()):
        posterior = posteriors[engine]
        low, high = posterior.quantile([0.05, 0.95])[:, shown]
        height = rows + 0.3 - 0.2 * k
        axes.hlines(height, low, high, color=color, lw=1.8)
        axes.plot(posterior.mean()[shown], height, marker, color=color, ms=4.5, label=label)
    axes.axvline(0.0, color="0.6", lw=0.8, ls=":", zorder=0)
    names = PROBLEMS["breast cancer"][1].feature_names
    axes.set_yticks(rows, [names[j - 1] for j in shown])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("effect of one standard deviation on the log-odds of benign")
    axes.set_title("Coefficients: mean and 90 % interval", loc="left", pad=26)
    layout = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 5, "columnspacing": 1.2}
    spacing = {"borderpad": 0.2, "handlelength": 1.0, "handletextpad": 0.4, "frameon": False}
    axes.legend(**layout, **spacing)


def small_training_sets():
    """Labels (splits, n) and probabilities of each model on the rows that small samples left."""
    X, y = PROBLEMS["breast cancer"][1].data, PROBLEMS["breast cancer"][1].target
    # C is the variance of the prior whose posterior mode LogisticRegression finds.
    models = {
        f"scikit-learn, C = {C:g}": standardised(LogisticRegression(C=C, max_iter=1000))
        for C in (1.0, PRIOR_SD**2)
    }
    label = f"skstein, prior sd {PRIOR_SD:g}"
    models[label] = bayesian(BayesianLogisticRegression, "mcmc", PRIOR_SD)
    splits = StratifiedShuffleSplit(N_SPLITS, train_size=TRAIN_SIZE, random_state=0)
    labels, proba = [], {label: [] for label in models}
    for train, test in splits.split(X, y):
        labels.append(y[test])
        for label, model in models.items():
            proba[label].append(model.fit(X[train], y[train]).predict_proba(X[test])[:, 1])
    return np.array(labels), {label: np.array(values) for label, values in proba.items()}


def draw_calibration(axes, labels, proba, n_bins=5):
    """How often the predicted class is right, by confidence; jackknife errors over the splits."""
    axes.plot([0.5, 1], [0.5, 1], color="0.6", lw=0.8, ls=":")
    styles = (("#999999", "v"), ("#333333", "X"), ("#D55E00", "o"))
    for (label, values), (color, marker) in zip(proba.items(), styles, strict=True):
        confidence, right = np.maximum(values, 1 - values), (values > 0.5) == labels
        bins = np.minimum((2 * confidence - 1) * n_bins, n_bins - 1).astype(int)
        inside = bins[:, :, None] == np.arange(n_bins)
        total, hits, count = (
            (inside * weight[:, :, None]).sum(axis=1)
            for weight in (confidence, right, np.ones_like(values))
        )
        left_out = (hits.sum(axis=0) - hits) / (count.sum(axis=0) - count)
        loss = log_loss(labels.ravel(), values.ravel())
        axes.errorbar(
            total.sum(axis=0) / count.sum(axis=0),
            hits.sum(axis=0) / count.sum(axis=0),
            left_out.std(axis=0) * np.sqrt(N_SPLITS - 1),
            **{"color": color, "marker": marker, "ms": 6, "lw": 1.5, "elinewidth": 1},
            label=f"{label}: {loss:.3f}",
        )
    axes.set(xlim=(0.49, 1.01), ylim=(0.43, 1.01))
    axes.set_xlabel("confidence in the predicted class")
    axes.set_ylabel("share of correct predictions")
    axes.set_title(f"Calibration, {TRAIN_SIZE} training rows", loc="left", pad=26)
    same = f"C = {PRIOR_SD**2:g} is the prior of standard deviation {PRIOR_SD:g}"
    axes.text(0.0, 1.025, same, transform=axes.transAxes)
    axes.legend(title="log loss", alignment="left", loc="lower right", frameon=False, fontsize=9)


def save_figure(path, posteriors, labels, proba):
    plt.rcParams.update({"font.size": 10, "axes.titlesize": 11, "axes.titleweight": "bold"})
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 4.8), layout="constrained", width_ratios=(1.25, 1)
    )
    draw_coefficients(left, posteriors)
    draw_calibration(right, labels, proba)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=140)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("demo.png"))
    arguments = parser.parse_args()
    print(f"Warm-up, which compiles routines or loads numba's cache of them: {warm_up():.1f} s")
    posteriors = print_table()
    print(LEGEND)
    save_figure(arguments.figure, posteriors, *small_training_sets())
    print(f"Figure: {arguments.figure.resolve()}")


if __name__ == "__main__":
    main()
