"""Families of outcomes on real data, beside their counterparts in scikit-learn and statsmodels.

On each of five random splits (a fifth of the rows is held out) every family of a set is fitted, the
one with the best leave-one-out score on the training rows is chosen, and judged by the rows held
out: mean log predictive density or probability, and the share of them in 90 % intervals, that is of
their randomised ranks among draws in (.05, .95). Counterparts predict with their estimates plugged
in; a dispersion that they do not estimate is that of the training residuals.

- bicycles: rentals in 3,000 hours, the hour as a circle; visits: a tenth of RAND's health insurance
  experiment (statsmodels); amounts: the outcome of ``load_diabetes``; grades: 1,599 red wines;
  outliers: radon in 919 houses; uneven: airfoil noise.

Usage, with statsmodels installed::

    SKSTEIN_DATA=folder python examples/benchmarks/families.py [SET ...] [--inference mcmc]
"""

import argparse
import os
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import statsmodels.api as sm
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)
from sklearn.model_selection import train_test_split
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.miscmodels.tmodel import TLinearModel

import skstein
from skstein.noise import HeteroscedasticNoise

N_DRAWS = 999


def stored(name):
    path = Path(os.environ.get("SKSTEIN_DATA", ".")) / "data" / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"set SKSTEIN_DATA to a folder with data/{name}.npz")
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def bicycles():
    table = stored("bikesharing")
    rows = np.random.default_rng(0).choice(len(table["y"]), 3000, replace=False)
    X, hour = table["X"][rows], 2.0 * np.pi * table["X"][rows, 3] / 24.0
    circle = [f(k * hour) for k in (1, 2) for f in (np.cos, np.sin)]
    return np.column_stack([np.delete(X, 3, axis=1), *circle]), table["y"][rows].astype(int)


def visits():
    table = sm.datasets.randhie.load_pandas().data.to_numpy()[::10]
    return table[:, 1:], table[:, 0].astype(int)


def grades():
    path = Path(__file__).parents[1] / "data" / "red_wine.csv.gz"
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1].astype(int)


def outliers():
    table = stored("radon_mn")
    return np.column_stack([table["floor"], table["log_uranium"]]), table["log_radon"]


def uneven():
    table = stored("airfoil")
    return table["X"], table["y"]


# Counterparts: from training rows and new features to a distribution of the new outcomes.


def poisson(X, y, new):
    return stats.poisson(PoissonRegressor(alpha=0.0, max_iter=1000).fit(X, y).predict(new))


def negative_binomial(X, y, new):
    found = sm.NegativeBinomial(y, sm.add_constant(X)).fit(disp=False, maxiter=500)
    mean = found.predict(sm.add_constant(new, has_constant="add"))
    size = 1.0 / found.params[-1]
    return stats.nbinom(size, size / (size + mean))


def gamma(X, y, new):
    model = GammaRegressor(alpha=0.0, max_iter=1000).fit(X, y)
    dispersion = np.sum((y / model.predict(X) - 1.0) ** 2) / (len(y) - X.shape[1] - 1)
    return stats.gamma(1.0 / dispersion, scale=dispersion * model.predict(new))


def normal(X, y, new):
    model = LinearRegression().fit(X, y)
    sd = np.sqrt(np.sum((y - model.predict(X)) ** 2) / (len(y) - X.shape[1] - 1))
    return stats.norm(model.predict(new), sd)


def huber(X, y, new):
    model = HuberRegressor(alpha=0.0, max_iter=1000).fit(X, y)
    return stats.norm(model.predict(new), np.std(y - model.predict(X)))


def student_t(X, y, new):
    found = TLinearModel(y, sm.add_constant(X)).fit(disp=False, maxiter=5000, maxfun=5000)
    *coef, df, scale = found.params
    return stats.t(df, sm.add_constant(new, has_constant="add") @ np.array(coef), scale)


def softmax(X, y, new):
    return Classes(LogisticRegression(C=np.inf, max_iter=5000).fit(X, y).predict_proba(new), y)


def proportional_odds(X, y, new):
    found = OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=False, maxiter=1000)
    return Classes(np.asarray(found.model.predict(found.params, exog=new)), y)


class Classes:
    """A distribution over the sorted classes of ``y``."""

    def __init__(self, proba, y):
        self.proba, self.classes = proba, np.unique(y)

    def logpmf(self, y):
        column = np.searchsorted(self.classes, y)
        return np.log(self.proba[np.arange(len(y)), column])


COUNTS = {
    "Poisson": skstein.BayesianPoissonRegression,
    "negative binomial": skstein.BayesianNegativeBinomialRegression,
}
NOISES = {
    "normal": "normal",
    "Student t": "student-t",
    "uneven": "heteroscedastic",
    "uneven t": HeteroscedasticNoise(df="estimate"),
}
REGRESSIONS = {
    name: lambda noise=noise, **kwargs: skstein.BayesianLinearRegression(noise=noise, **kwargs)
    for name, noise in NOISES.items()
}
SETS = {
    "bicycles": (bicycles, COUNTS, (poisson, negative_binomial)),
    "visits": (visits, COUNTS, (poisson, negative_binomial)),
    "amounts": (
        lambda: load_diabetes(return_X_y=True),
        {"gamma": skstein.BayesianGammaRegression, **REGRESSIONS},
        (gamma, normal),
    ),
    "grades": (
        grades,
        {
            link: lambda link=link, **kwargs: skstein.BayesianOrdinalRegression(link=link, **kwargs)
            for link in ("logit", "probit")
        },
        (softmax, proportional_odds),
    ),
    "outliers": (outliers, REGRESSIONS, (normal, huber, student_t)),
    "uneven": (uneven, REGRESSIONS, (normal, huber, student_t)),
}


def randomized_ranks(model, X, y, rng):
    """Ranks of outcomes among draws, between 0 and 1; ties in random order."""
    draws = np.asarray(model.sample_predictive(X, N_DRAWS, random_state=0))
    draws = draws if draws.shape[-1] == len(y) else draws.T
    below, even = (draws < y).sum(axis=0), (draws == y).sum(axis=0)
    return (below + rng.random(len(y)) * (even + 1)) / (N_DRAWS + 1)


def split(name, seed, inference):
    load, families, counterparts = SETS[name]
    X, y = load()
    parts = train_test_split(X, y, test_size=0.2, random_state=seed)
    scale = parts[0].mean(axis=0), parts[0].std(axis=0)
    old, new = ((part - scale[0]) / scale[1] for part in parts[:2])
    fitted = {
        family: make(inference=inference, random_state=seed).fit(old, parts[2])
        for family, make in families.items()
    }
    elpd = {family: skstein.loo(model, old, parts[2]).elpd for family, model in fitted.items()}
    best = max(elpd, key=elpd.get)
    chosen = fitted[best]
    ranks = randomized_ranks(chosen, new, parts[3], np.random.default_rng(seed))
    rivals = {}
    for rival in counterparts:
        with warnings.catch_warnings(), redirect_stdout(None):
            warnings.simplefilter("ignore")
            found = rival(old, parts[2], new)
        density = found.logpmf if hasattr(found, "logpmf") else found.logpdf
        rivals[rival.__name__] = density(parts[3])
    own = chosen.log_predictive(new, parts[3])
    return best, np.abs(ranks - 0.5) < 0.45, own, rivals


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--inference", default="mcmc")
    parser.add_argument("--seeds", type=int, nargs="+", default=range(100, 105))
    arguments = parser.parse_args()
    for name in arguments.sets:
        splits = [split(name, seed, arguments.inference) for seed in arguments.seeds]
        best, inside, own, rivals = zip(*splits, strict=True)
        line = f"{name}: {', '.join(sorted(set(best)))}; in 90 % {np.mean(inside):.3f}"
        print(f"{line}; log predictive {np.mean(own):.3f}")
        for rival in rivals[0]:
            lead = np.array([np.mean(a - b[rival]) for a, b in zip(own, rivals, strict=True)])
            error = lead.std(ddof=1) / np.sqrt(len(lead))
            print(f"    {rival}: ahead by {lead.mean():.4f} (standard error {error:.4f})")


if __name__ == "__main__":
    main()
