"""Do 90 % intervals hold 90 %? On data drawn from each model, of parameters and of new outcomes.

*Groups.* Common effects, the noise, the standard deviation of the groups and their effects are
drawn from the priors, then an outcome of 60 rows, two features and 3 or 10 groups. The share of
truths in 90 % intervals is that of randomised ranks in (.05, .95), as in ``calibration.py``.

*Families.* Outcomes of 150 rows and three standard normal features are drawn from the family with
random coefficients; the estimator, with its default parameters, is fitted to 100 rows. The share of
the other 50 in 90 % intervals is that of their randomised probability integral transforms.

Every fit is a line of a file in a folder; a run leaves out what is there, so that it can be stopped
at any time. Both engines see the same data.

Usage::

    python examples/benchmarks/simulated_coverage.py FOLDER [--cases 3-groups poisson]
        [--engines mcmc pmfvb] [--sets 300]
    python examples/benchmarks/simulated_coverage.py FOLDER --table
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from calibration import draw_noise
from sklearn.base import clone, is_classifier

import skstein
from skstein.noise import HeteroscedasticNoise
from skstein.priors import Normal

N_GROUPED, N, N_NEW, P = 60, 100, 50, 3
GROUPS = {"10-groups": 10, "3-groups": 3}
FAMILIES = {
    "normal": skstein.BayesianLinearRegression(),
    "student-t": skstein.BayesianLinearRegression(noise="student-t"),
    "heteroscedastic": skstein.BayesianLinearRegression(noise="heteroscedastic"),
    "heteroscedastic-t": skstein.BayesianLinearRegression(
        noise=HeteroscedasticNoise(df="estimate")
    ),
    "poisson": skstein.BayesianPoissonRegression(),
    "negative-binomial": skstein.BayesianNegativeBinomialRegression(),
    "gamma": skstein.BayesianGammaRegression(),
    "logistic": skstein.BayesianLogisticRegression(),
    "probit": skstein.BayesianProbitRegression(),
    "ordinal-logit": skstein.BayesianOrdinalRegression(),
    "ordinal-probit": skstein.BayesianOrdinalRegression(link="probit"),
}
CASES = [*GROUPS, *FAMILIES]
LEVEL = 0.9


def grouped(case, number):
    """Randomised ranks of the truth among the particles, by coordinate."""
    rng = np.random.default_rng([number, CASES.index(case)])
    X, group = rng.normal(size=(N_GROUPED, 2)), rng.integers(0, GROUPS[case], N_GROUPED)
    theta = rng.normal(size=3)
    log_v, sd = draw_noise(rng), abs(rng.normal())
    eta = theta[0] + X @ theta[1:] + rng.normal(0.0, sd, GROUPS[case])[group]
    y = eta + np.exp(0.5 * log_v) * rng.normal(size=N_GROUPED)
    truth = np.append(theta, [log_v, np.log(sd)])
    model = skstein.BayesianLinearRegression(
        intercept_prior=Normal(1.0), standardize=False, random_effects=[2]
    )

    def ranks(fitted):
        posterior = fitted.posterior_
        values = posterior.particles[:, : len(truth)]
        below, even = (posterior.weights @ part for part in (values < truth, values == truth))
        m, uniform = len(posterior), rng.random(len(truth))
        return (m * (below + uniform * even) + uniform) / (m + 1)

    return model, np.column_stack([X, group]), y, ranks


def outcomes(case, rng, eta, spread):
    """Outcomes of a family; ``spread`` is a second predictor."""
    n = len(eta)
    mean = np.exp(0.5 + 0.5 * eta)
    latent = eta + (rng.normal(size=n) if "probit" in case else rng.logistic(size=n))
    return {
        "normal": lambda: eta + rng.normal(size=n),
        "student-t": lambda: eta + rng.standard_t(4.0, n),
        "heteroscedastic": lambda: eta + np.exp(spread) * rng.normal(size=n),
        "heteroscedastic-t": lambda: eta + np.exp(spread) * rng.standard_t(4.0, n),
        "poisson": lambda: rng.poisson(mean),
        "negative-binomial": lambda: rng.poisson(mean * rng.gamma(2.0, 0.5, n)),
        "gamma": lambda: mean * rng.gamma(2.0, 0.5, n),
        "logistic": lambda: (latent > 0.0).astype(int),
        "probit": lambda: (latent > 0.0).astype(int),
        "ordinal-logit": lambda: np.digitize(latent, [-1.0, 0.0, 1.0]),
        "ordinal-probit": lambda: np.digitize(latent, [-1.0, 0.0, 1.0]),
    }[case]()


def family(case, number):
    """Randomised probability integral transforms of new outcomes."""
    rng = np.random.default_rng([number, CASES.index(case)])
    while True:
        X = rng.normal(size=(N + N_NEW, P))
        eta, spread = X @ rng.normal(size=P), X @ rng.normal(0.0, 0.5, P)
        y = outcomes(case, rng, eta, spread)
        if not is_classifier(FAMILIES[case]) or len(np.unique(y[:N])) == len(np.unique(y)) > 1:
            break

    def transforms(fitted):
        new, uniform = y[N:], rng.random(N_NEW)
        if is_classifier(fitted):
            up_to = np.cumsum(fitted.predict_proba(X[N:]), axis=1)
            up_to = up_to[np.arange(N_NEW), np.searchsorted(fitted.classes_, new)]
        else:
            up_to = fitted._scores(X[N:], new, fitted._outcome.cdf)
        whole = y.dtype.kind == "i"
        return up_to - (uniform * np.exp(fitted.log_predictive(X[N:], new)) if whole else 0.0)

    return FAMILIES[case], X[:N], y[:N], transforms


def run(case, engine, number):
    """One fit, and where the truths lie in their distributions, in (0, 1)."""
    model, X, y, places = (grouped if case in GROUPS else family)(case, number)
    model = clone(model).set_params(inference=engine, random_state=number)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - start
    return {
        "number": number,
        "places": places(model).round(5).tolist(),
        "warned": bool(caught),
        "seconds": round(seconds, 3),
    }


def fits_of(folder, case, engine):
    path = folder / f"{case}-{engine}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(folder, cases, engines):
    """Coverage of each parameter (groups) or of new outcomes, and its standard error."""
    print(f"{'case':<20}{'engine':<9}{'fits':>5}{'warned':>8}{'seconds':>9}   in 90 %")
    for case in cases:
        for engine in engines:
            fits = fits_of(folder, case, engine)
            if not fits:
                continue
            inside = np.abs(np.array([fit["places"] for fit in fits]) - 0.5) < 0.5 * LEVEL
            inside = inside if case in GROUPS else inside.mean(axis=1, keepdims=True)
            share, error = inside.mean(axis=0), inside.std(axis=0) / np.sqrt(len(fits))
            shares = "  ".join(f"{a:.3f} ({b:.3f})" for a, b in zip(share, error, strict=True))
            warned, seconds = (np.mean([fit[key] for fit in fits]) for key in ("warned", "seconds"))
            print(f"{case:<20}{engine:<9}{len(fits):>5}{warned:>8.1%}{seconds:>9.2f}   {shares}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--engines", nargs="+", default=["mcmc", "pmfvb"])
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--table", action="store_true", help="print, and run nothing")
    arguments = parser.parse_args()
    folder = arguments.folder
    if not arguments.table:
        folder.mkdir(parents=True, exist_ok=True)
        for case in arguments.cases:
            for engine in arguments.engines:
                known = {fit["number"] for fit in fits_of(folder, case, engine)}
                for number in sorted(set(range(arguments.sets)) - known):
                    with (folder / f"{case}-{engine}.jsonl").open("a") as file:
                        file.write(json.dumps(run(case, engine, number)) + "\n")
    table(folder, arguments.cases, arguments.engines)


if __name__ == "__main__":
    main()
