"""FWSS on mixtures of normals, where the distance to the truth is known in closed form."""

import numpy as np
import pytest

from skstein import LogDensity, infer
from skstein.inference import FWSS
from skstein.kernels import IMQ, RBF
from skstein.metrics import ksd, mmd_gaussian_mixture
from skstein.targets import Transformed


def mixture(means, variance):
    """Equal shares of normals with the covariance ``variance * I``."""

    def terms(theta):
        offsets = theta[:, None] - means
        logs = -0.5 * (offsets**2).sum(axis=2) / variance
        top = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - top)
        return offsets, top[:, 0], shares

    def log_density(theta):
        _, top, shares = terms(theta)
        return top + np.log(shares.sum(axis=1))

    def score(theta):
        offsets, _, shares = terms(theta)
        shares = shares / shares.sum(axis=1, keepdims=True)
        return -np.einsum("ij,ijk->ik", shares, offsets) / variance

    return LogDensity(log_density, score, dim=2)


def eleven_means():
    """On a spiral that fills a disc of radius 1.5 evenly."""
    i = np.arange(11)
    angle, radius = i * np.pi * (3.0 - np.sqrt(5.0)), 1.5 * np.sqrt((i + 0.5) / 11)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def test_the_discrepancy_falls_faster_than_that_of_independent_draws(rng, seed):
    """Squared, as N^-1.5 or faster on eleven normals; that of independent draws as 1/N."""
    means, variance = eleven_means(), 0.16
    covariances = np.repeat(variance * np.eye(2)[None], 11, axis=0)
    sizes, squares = [20, 28, 40, 56, 80, 112, 160, 200], []

    def measure(n, total, make_posterior, info):
        if n in sizes:
            particles = make_posterior().particles
            discrepancy = mmd_gaussian_mixture(particles, means, covariances, kernel=RBF(0.3))
            squares.append(discrepancy**2)

    engine = FWSS(200, kernel=RBF(0.3), n_sweeps=0, max_iter_oracle=100, learning_rate=0.2)
    target = Transformed(mixture(means, variance), None)
    engine.run(target, rng, init=1.5 * rng.normal(size=(200, 2)), callback=measure)
    slope = np.polyfit(np.log(sizes), np.log(squares), 1)[0]
    assert slope <= -1.3  # of eight sizes
    assert squares[-1] < 1.2e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_two_normals_of_the_stein_points_paper(seed):
    """Less than half of the discrepancy of as many independent draws, 0.33."""
    target = mixture(np.array([[-1.5, 0.0], [1.5, 0.0]]), 1.0)
    # (0.5 + r^2)^-0.7, up to a factor.
    kernel, factor = IMQ(length_scale=np.sqrt(0.5), exponent=-0.7), 0.5**-0.7
    engine = FWSS(
        100, kernel=kernel, max_iter_oracle=200, max_iter_sweep=200, learning_rate=0.2, whiten=False
    )
    posterior = infer(target, engine, random_state=seed)
    scores = target.score(posterior.particles)
    assert np.sqrt(factor) * ksd(posterior.particles, scores, kernel=kernel) <= 0.16
