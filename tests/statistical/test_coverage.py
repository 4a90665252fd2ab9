"""Predictive intervals of linear regressions hold what they promise at every strength of signal.

Over data sets with coefficients and features drawn from standard normals, the share of new outcomes
in 90 % intervals lies between .87 and .93; with a noise prior that expects noise of the order of
the outcome it would be 1 where R^2 is .99.
"""

import numpy as np
import pytest

from skstein import BayesianLinearRegression
from small import later

N_SETS, N_NEW, P = 200, 50, 5


def data(rng, n, r2):
    """Rows, and new ones behind them."""
    X, coef = rng.normal(size=(n + N_NEW, P)), rng.normal(size=P)
    signal = X @ coef if r2 else 0.0
    noise = np.sqrt(coef @ coef * (1.0 - r2) / r2) if r2 else 1.0
    return X, signal + noise * rng.normal(size=n + N_NEW)


def coverage(engine, n, r2, n_sets, seed):
    """Share of new outcomes in their intervals, and its standard error over data sets."""
    shares = []
    for number in range(n_sets):
        X, y = data(np.random.default_rng([seed, number, n]), n, r2)
        model = BayesianLinearRegression(engine, random_state=number).fit(X[:n], y[:n])
        low, high = model.predict_interval(X[n:], level=0.9).T
        shares.append(np.mean((low <= y[n:]) & (y[n:] <= high)))
    return np.mean(shares), np.std(shares) / np.sqrt(n_sets)


@pytest.mark.parametrize("r2", [later(0.0), 0.9999])
def test_intervals_cover(r2, seed):
    share, error = coverage("pmfvb", 50, r2, 10, seed)
    assert abs(share - 0.9) < 0.03 + 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("r2", [0.0, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("n", [20, 50, 200, 1000])
@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
def test_intervals_cover_at_every_size(engine, n, r2, seed):
    share, error = coverage(engine, n, r2, N_SETS, seed)
    assert abs(share - 0.9) < 0.03 + 2 * error
