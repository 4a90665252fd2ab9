"""Densities whose truth is known, rows of rare categories, and derivatives by differences."""

import numpy as np

from skstein import LogDensity


def gaussian(precision, mean=0.0, **parts):
    """Log density and score of a normal distribution; ``parts`` replace them or are added."""
    precision = np.asarray(precision, dtype=float)
    functions = {
        "log_density": lambda t: -0.5 * np.einsum("ij,jk,ik->i", t - mean, precision, t - mean),
        "score": lambda t: -(t - mean) @ precision,
    }
    return LogDensity(**(functions | parts), dim=len(precision))


def standard_normal(dim=2):
    return LogDensity(lambda t: -0.5 * (t**2).sum(axis=1), score=lambda t: -t, dim=dim)


def student_t(dim, df):
    """Multivariate, of location 0 and scale 1; its margins have as many degrees of freedom."""

    def score(theta):
        return -(df + dim) * theta / (df + np.sum(theta**2, axis=1, keepdims=True))

    return LogDensity(
        lambda theta: -0.5 * (df + dim) * np.log1p(np.sum(theta**2, axis=1) / df),
        score=score,
        dim=dim,
    )


def rare_categories(rng, n, n_regular, sizes):
    """Standardised data whose last columns are dummies of a few rows, each seen with one class."""
    X = np.zeros((n, n_regular + len(sizes)))
    X[:, :n_regular] = rng.normal(size=(n, n_regular))
    eta = X[:, :n_regular] @ rng.normal(0, 0.4, size=n_regular)
    y = (eta + rng.logistic(size=n) > 0).astype(float)
    for j, size in enumerate(sizes):
        X[rng.choice(np.flatnonzero(y == j % 2), size, replace=False), n_regular + j] = 1.0
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def central_differences(function, theta, step=1e-5):
    """Derivative of ``function`` along every coordinate, on a new last axis."""
    moves = step * np.eye(theta.shape[1])
    return np.stack([(function(theta + e) - function(theta - e)) / (2 * step) for e in moves], -1)
