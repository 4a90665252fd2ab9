"""Every engine against quadrature, on posteriors of one and two coordinates.

An error counts in posterior standard deviations. What is allowed is five standard errors of the
draws an engine rests on: 1000 of PMD's particles, some 2000 effective draws that PMFVB pools and
KSD thinning sees. Particles that repel each other have no such error; theirs is the accuracy asked
of them on larger problems. The Gaussian at the mode is no more than an approximation: where it is
off by more than the check at the end of a fit can see, it has to warn.
"""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skstein import infer
from skstein.inference import ENGINES
from skstein.priors import Normal
from skstein.targets import (
    LinearTarget,
    LogisticTarget,
    SoftmaxTarget,
    laplace_approximation,
    line_shifts,
)
from skstein.targets.one_sided import SHIFT
from small import crossed

# Mean in standard deviations, relative error of the standard deviation. For draws the latter is
# that of the mean times sqrt(kurtosis - 1) / 2, with a kurtosis of up to 5.
TOLERANCE = {
    "pmd": (5 / np.sqrt(1000), 5 / np.sqrt(1000)),
    "pmfvb": (5 / np.sqrt(2000), 5 / np.sqrt(2000)),
    "fwss": (0.06, 0.07),
    "svgd": (0.06, 0.07),
    "stein-points": (0.2, 0.2),
    "mcmc": (5 / np.sqrt(2000), 5 / np.sqrt(2000)),
    "ksd-mcmc": (5 / np.sqrt(2000), 5 / np.sqrt(2000)),
    "laplace": (0.35, 5 / np.sqrt(1000)),
}


def logistic_1d(rng):
    X = rng.normal(size=(40, 1))
    y = X[:, 0] + rng.logistic(size=40) > 0
    return LogisticTarget(X, y.astype(float), fit_intercept=False)


def logistic_2d(rng):
    X = rng.normal(size=(40, 1)) + 0.5
    y = X[:, 0] + rng.logistic(size=40) > 0
    return LogisticTarget(X, y.astype(float))


def softmax_2d(rng):
    X = rng.normal(size=(40, 1))
    y = X[:, 0] + rng.logistic(size=40) > 0
    return SoftmaxTarget(X, y, n_classes=2, fit_intercept=False)


def linear_2d(rng):
    X = rng.normal(size=(40, 1))
    return LinearTarget(X, 0.5 * X[:, 0] + rng.normal(size=40), fit_intercept=False)


def rare_category_1d(rng):
    """A category seen 20 times, always with y = 0."""
    return LogisticTarget(np.ones((20, 1)), np.zeros(20), fit_intercept=False, prior=Normal(10.0))


def rare_category_2d(rng):
    """200 rows, six of them in a category seen only with y = 0."""
    X = np.zeros((200, 1))
    X[:6] = 1.0
    y = (rng.random(200) < 0.4).astype(float)
    y[:6] = 0.0
    return LogisticTarget(X, y, prior=Normal(10.0), intercept_prior=Normal(10.0))


REGULAR = [logistic_1d, logistic_2d, softmax_2d, linear_2d]
RARE = [rare_category_1d, rare_category_2d]


def moments(target, n_grid):
    """Mean and standard deviations by the trapezoidal rule on a grid that is wide enough."""
    laplace = laplace_approximation(target)
    sd = np.sqrt(np.linalg.inv(laplace.hessian).diagonal())
    half = np.full(target.dim, 12.0)
    while True:
        axes = [
            center + np.linspace(-width, width, n_grid) * scale
            for center, width, scale in zip(laplace.mode, half, sd, strict=True)
        ]
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        value = np.concatenate([target.log_density(part) for part in np.array_split(grid, 50)])
        weights = np.exp(value - value.max())
        weights /= weights.sum()
        mean = weights @ grid
        table = weights.reshape([n_grid] * target.dim)
        edges = [
            np.delete(np.moveaxis(table, j, 0), np.s_[1:-1], 0).sum() for j in range(target.dim)
        ]
        if max(edges) < 1e-12:
            return mean, np.sqrt(weights @ (grid - mean) ** 2)
        half[np.array(edges) >= 1e-12] *= 1.5


@pytest.mark.parametrize(("problem", "engine"), crossed([*REGULAR, *RARE], ENGINES))
def test_moments_agree_with_quadrature(problem, engine, rng, seed):
    target = problem(rng)
    mean, sd = moments(target, 8001 if target.dim == 1 else 401)
    with warnings.catch_warnings():
        if engine == "laplace":
            warnings.simplefilter("ignore", ConvergenceWarning)
        posterior = infer(target, engine, random_state=seed)
    if not posterior.converged:
        return
    mean_tolerance, sd_tolerance = TOLERANCE[engine]
    trusted = ~np.isin(posterior.names, posterior.diagnostics["flagged"])
    error = np.abs(posterior.mean() - mean)[trusted] / sd[trusted]
    ratio = posterior.std()[trusted] / sd[trusted]
    assert (error < mean_tolerance).all(), error
    assert (np.abs(ratio - 1) < sd_tolerance).all(), ratio


@pytest.mark.parametrize("problem", RARE)
def test_the_rare_categories_are_one_sided(problem, rng):
    """Or the tests of them would test nothing."""
    target = problem(rng)
    shifts = line_shifts(target, laplace_approximation(target))
    assert shifts[-1] < -SHIFT
    assert (np.abs(shifts[:-1]) < SHIFT).all()


# A Gaussian in the map may still be told from the posterior.
WARNS = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=WARNS if name == "laplace" else ()) for name in ENGINES]
)
def test_quantiles_of_a_one_sided_coordinate_agree_with_quadrature(engine, rng, seed):
    """The share of particles below each true decile: within five standard errors of 1000 draws, or,
    of 100 particles that are placed or chosen, within two of as many draws."""
    target = rare_category_1d(rng)
    grid = np.linspace(-80.0, 10.0, 40_001)
    density = np.exp(target.log_density(grid[:, None]))
    cumulative = np.cumsum(density) / density.sum()
    deciles = np.interp(np.arange(0.1, 0.95, 0.1), cumulative, grid)
    posterior = infer(target, engine, random_state=seed)
    below = posterior.weights @ (posterior.particles < deciles)
    n, errors = (1000, 5) if engine in ("pmd", "laplace") else (100, 2)
    tolerance = errors * np.sqrt(0.25 / n)
    assert (np.abs(below - np.arange(0.1, 0.95, 0.1)) < tolerance).all(), below
