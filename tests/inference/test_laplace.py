"""Draws of the Gaussian at the mode, and when they warn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from densities import standard_normal
from skstein import LogDensity, infer
from skstein.inference import LaplaceDraws
from skstein.priors import Normal
from skstein.targets import LogisticTarget, laplace_approximation


def test_a_gaussian_is_its_own_approximation(seed):
    """All importance weights are equal; mean and covariance of the draws are exact."""
    precision = np.array([[2.0, 0.5], [0.5, 1.0]])
    target = LogDensity(
        lambda t: -0.5 * np.einsum("ij,jk,ik->i", t - 1, precision, t - 1),
        score=lambda t: -(t - 1) @ precision,
        dim=2,
    )
    posterior = infer(target, "laplace", random_state=seed)
    assert_allclose(posterior.diagnostics["importance_ess"], 1.0, atol=1e-6)
    assert_allclose(posterior.mean(), 1.0, atol=1e-6)
    assert_allclose(posterior.cov() @ precision, np.eye(2), atol=1e-6)


@pytest.mark.parametrize("n_particles", [2, 3, 1001])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_number_of_draws(n_particles, seed):
    target = standard_normal()
    assert len(infer(target, LaplaceDraws(n_particles), random_state=seed)) == n_particles


def test_plenty_of_data_raises_no_warning(rng, seed):
    """With 2000 rows and three coefficients the posterior is close to normal."""
    X = rng.normal(size=(2000, 2))
    target = LogisticTarget(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(float))
    posterior = infer(target, "laplace", random_state=seed)
    laplace = laplace_approximation(target)
    assert_allclose(posterior.mean(), laplace.mode, atol=1e-6)
    assert posterior.diagnostics["importance_ess"] > 0.9


def rare_category():
    return LogisticTarget(np.ones((20, 1)), np.zeros(20), fit_intercept=False, prior=Normal(10.0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_skewed_posterior_raises_a_warning_without_the_map(seed):
    """It has no iterations to raise, and says nothing of any."""
    with pytest.warns(ConvergenceWarning, match=r"one-sided in x0 .*\. Use another engine\."):
        infer(
            rare_category(),
            LaplaceDraws(one_sided=False, min_relative_ess=0.0, max_shift=10.0),
            random_state=seed,
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_skewed_posterior_raises_none_in_the_map(seed):
    """There the Gaussian keeps most of the importance weights, though it may be told from it."""
    posterior = infer(rare_category(), "laplace", random_state=seed)
    assert posterior.diagnostics["importance_ess"] > 0.8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_heavy_tails_or_light_ones_keep_few_weights(seed):
    """-x^2 / 2 - x^4 in five coordinates: the Gaussian at the mode is far too wide."""
    target = LogDensity(
        lambda t: (-0.5 * t**2 - t**4).sum(axis=1), score=lambda t: -t - 4 * t**3, dim=5
    )
    with pytest.warns(ConvergenceWarning, match="effective sample of less than 93% of the draws"):
        infer(target, "laplace", random_state=seed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dim", [1, 3])
def test_tails_that_the_gaussian_does_not_reach_show_in_few_coordinates(dim, seed):
    """A Student t with 8 degrees of freedom, off by 0.3 at 5 %, and one with 40, off by 0.06."""

    def student(df):
        return LogDensity(
            lambda t: -0.5 * (df + 1) * np.log1p(t**2 / df).sum(axis=1),
            score=lambda t: -(df + 1) * t / (df + t**2),
            dim=dim,
        )

    with pytest.warns(ConvergenceWarning, match="keep an effective sample of less than 9.% of"):
        infer(student(8), "laplace", random_state=seed)
    infer(student(40), "laplace", random_state=seed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_limit_is_a_parameter(seed):
    target = LogDensity(
        lambda t: (-0.5 * t**2 - 0.05 * t**4).sum(axis=1), score=lambda t: -t - 0.2 * t**3, dim=2
    )
    fraction = infer(target, LaplaceDraws(min_relative_ess=0.1), random_state=seed).diagnostics[
        "importance_ess"
    ]
    assert 0.1 < fraction < 0.95
    with pytest.warns(ConvergenceWarning, match="effective sample"):
        infer(target, LaplaceDraws(min_relative_ess=np.sqrt(fraction) + 0.02), random_state=seed)
