"""Outcomes: derivatives against differences, mixtures against draws, fused forms pinned."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skstein._quantiles import mixture_quantiles
from skstein.outcomes import Bernoulli, Categorical, Normal, NumericOutcome, Probit
from skstein.priors import HalfStudentT, InverseGamma
from skstein.targets import LinearTarget, MLPTarget, RegressionTarget

OUTCOMES = {
    "normal": Normal(InverseGamma(2.5, 0.8)),
    "bernoulli": Bernoulli(),
    "categorical": Categorical(3),
    "probit": Probit(),
    "one-vs-rest": Probit(3),
}
every_outcome = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)


def draw(outcome, rng, m=4, n=7):
    """Heads in the layout of targets, and outcomes."""
    heads = rng.normal(size=(outcome.n_predictors + len(outcome.extra), m, n))
    if outcome.has_classes:
        return heads, rng.integers(max(2, outcome.n_predictors), size=n)
    return heads, rng.normal(size=n)


@every_outcome
def test_residual_is_the_derivative(outcome, rng):
    heads, y = draw(outcome, rng)
    for k, residual in enumerate(outcome.residual(heads, y)):
        step = np.zeros_like(heads)
        step[k] = 1e-5
        low, high = (outcome.log_density(heads + sign * step, y) for sign in (-1, 1))
        assert_allclose(residual, (high - low) / 2e-5, rtol=1e-6, atol=1e-8)


@every_outcome
def test_curvature_is_the_derivative_of_the_residual(outcome, rng):
    heads, y = draw(outcome, rng, m=1)
    curvature = outcome.curvature(heads[:, 0], y)
    for k in range(len(heads)):
        step = np.zeros_like(heads)
        step[k] = 1e-5
        low, high = (np.asarray(outcome.residual(heads + s * step, y))[:, 0] for s in (-1, 1))
        assert_allclose(curvature[k], (low - high) / 2e-5, rtol=1e-6, atol=1e-8)


@every_outcome
def test_terms_are_weighted_sums(outcome, rng):
    heads, y = draw(outcome, rng)
    weights = rng.uniform(0.5, 2.0, size=len(y))
    value, residual = outcome.terms(heads, y, weights, True, True)
    assert_allclose(value, outcome.log_density(heads, y) @ weights, rtol=1e-12)
    assert_allclose(residual, np.multiply(outcome.residual(heads, y), weights), rtol=1e-12)
    assert outcome.terms(heads, y, weights, False, False) == (None, None)


@every_outcome
def test_the_layout_of_the_heads_does_not_matter(outcome, rng):
    """Rows last for targets, particles last for predictions."""
    heads, y = draw(outcome, rng)
    turned = heads.swapaxes(1, 2)
    assert_allclose(outcome.log_density(turned, y[:, None]).T, outcome.log_density(heads, y))


@every_outcome
def test_predictions_of_the_density_are_averages_of_the_particles(outcome, rng):
    heads, y = draw(outcome, rng)
    heads, weights = heads.swapaxes(1, 2), np.array([0.1, 0.2, 0.3, 0.4])
    by_particle = np.exp(outcome.log_density_by_particle(heads, y))
    assert_allclose(np.exp(outcome.log_predictive(heads, weights, y)), by_particle @ weights)


@pytest.mark.parametrize("noise_prior", [HalfStudentT(4.0, 0.7), InverseGamma(2.5, 0.8)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_gram_form_is_the_general_one_of_a_normal_outcome(
    weighted, fit_intercept, noise_prior, rng
):
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    options = {
        "sample_weight": rng.uniform(0.5, 2.0, size=50) if weighted else None,
        "fit_intercept": fit_intercept,
    }
    fused = LinearTarget(X, y, noise_prior=noise_prior, **options)
    general = RegressionTarget(Normal(noise_prior), X, y, **options)
    theta, rows = rng.normal(size=(5, fused.dim)), rng.permutation(50)[:20]
    assert fused.names == general.names
    for chosen in (None, rows):
        assert_allclose(fused.score(theta, chosen), general.score(theta, chosen), rtol=1e-10)
        assert_allclose(
            fused.log_likelihood(theta, chosen), general.log_likelihood(theta, chosen), rtol=1e-10
        )
        assert_allclose(
            fused.hessian(theta[0], chosen), general.hessian(theta[0], chosen), rtol=1e-9, atol=1e-9
        )
    for one, other in zip(
        fused.log_density_and_score(theta), general.log_density_and_score(theta), strict=True
    ):
        assert_allclose(one, other, rtol=1e-10)
    assert_allclose(fused.hessian_diagonal(theta[0]), general.hessian_diagonal(theta[0]))
    assert_allclose(fused.pointwise_log_likelihood(theta), general.pointwise_log_likelihood(theta))


@pytest.mark.parametrize("name", ["normal", "bernoulli", "categorical"])
def test_the_compiled_passes_of_networks_are_the_outcome(name, rng):
    """Without hidden layers a network is a linear model: its gradient is that of the outcome."""
    outcome, X = OUTCOMES[name], rng.normal(size=(40, 3))
    y = rng.integers(outcome.n_predictors + 1, size=40) % max(2, outcome.n_predictors)
    y = y if outcome.has_classes else rng.normal(size=40)
    weights = rng.uniform(0.5, 2.0, size=40)
    network = MLPTarget(
        X, y, outcome=outcome, sample_weight=weights, hidden_layer_sizes=(), dtype=np.float64
    )
    theta = rng.normal(size=(6, network.dim))
    k = outcome.n_predictors
    coef, bias = theta[:, : 3 * k].reshape(6, k, 3), theta[:, 3 * k : 4 * k]
    eta = (coef @ X.T + bias[:, :, None]).swapaxes(0, 1)
    value, residual = outcome.terms(
        [*eta, *theta.T[4 * k :, :, None]], y, weights, value=True, score=True
    )
    found, score = network.log_density_and_score(theta)
    assert_allclose(found - network.log_prior(theta), value, rtol=1e-10)
    expected = [np.swapaxes(residual[:k], 0, 1) @ X, np.sum(residual, axis=2)]
    expected = np.concatenate([expected[0].reshape(6, -1), expected[1].T], axis=1)
    assert_allclose(score - network._prior_score(theta), expected, rtol=1e-9, atol=1e-9)


def test_quantiles_of_a_continuous_mixture(rng):
    """The general bisection against the exact quantiles of normals."""
    heads = rng.normal(size=(2, 6, 9))
    weights = rng.dirichlet(np.ones(9))
    q = np.array([0.0, 0.01, 0.3, 0.95, 1.0])
    exact = Normal().quantiles(heads, weights, q)
    assert_allclose(NumericOutcome.quantiles(Normal(), heads, weights, q), exact, rtol=1e-9)
    at = Normal().cdf(heads, weights, exact[:, 2])
    assert_allclose(at, 0.3)
    assert_allclose(NumericOutcome.expected(Normal(), heads), heads[0])
    assert_allclose(NumericOutcome.noise(Normal(), heads), np.exp(heads[1]))


def test_general_draws_have_the_distribution(rng):
    heads = np.array([[[1.0]], [[np.log(4.0)]]]) * np.ones((2, 1, 20_000))
    draws = NumericOutcome.sample(Normal(), heads, rng)[0]
    assert stats.kstest(draws, stats.norm(1.0, 2.0).cdf).pvalue > 1e-4


@pytest.mark.parametrize("mean", [0.01, 3.0, 1e9])
def test_quantiles_of_one_count_are_its_own(mean):
    count, q = stats.poisson([[mean]]), np.array([0.0, 0.001, 0.5, 0.9999, 1.0])
    found = mixture_quantiles(lambda y: count.cdf(y[:, None])[:, 0], count.ppf, q, discrete=True)
    assert_array_equal(found[0], [0.0, *stats.poisson(mean).ppf(q[1:])])


def test_networks_refuse_an_outcome_without_compiled_passes(rng):
    with pytest.raises(ValueError, match="no compiled likelihood of Probit"):
        MLPTarget(rng.normal(size=(5, 2)), np.zeros(5), outcome=Probit())
