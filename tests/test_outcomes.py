"""Outcomes: derivatives against differences, mixtures against draws, fused forms pinned."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import log_softmax, logsumexp

from skstein._jit import normal_mixtures
from skstein._statistics.quantiles import mixture_quantiles, weighted_quantile
from skstein.outcomes import (
    Bernoulli,
    Categorical,
    Heteroscedastic,
    Normal,
    NumericOutcome,
    Poisson,
    Probit,
    StudentT,
)
from skstein.priors import HalfStudentT, InverseGamma
from skstein.targets import LinearTarget, MLPTarget, RegressionTarget

OUTCOMES = {
    "normal": Normal(InverseGamma(2.5, 0.8)),
    "bernoulli": Bernoulli(),
    "categorical": Categorical(3),
    "probit": Probit(),
    "one-vs-rest": Probit(3),
    "student-t": StudentT(),
    "student-t of 4": StudentT(df=4.0),
    "heteroscedastic": Heteroscedastic(Normal()),
    "heteroscedastic t": Heteroscedastic(StudentT()),
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
    ones = np.ones(len(y))
    for bare, whole in zip(
        outcome.terms(heads, y, None, True, True),
        outcome.terms(heads, y, ones, True, True),
        strict=True,
    ):
        assert_allclose(bare, whole, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["bernoulli", "categorical"])
def test_sums_over_rows_hold_where_exponentials_overflow(name, weighted):
    outcome = OUTCOMES[name]
    eta = np.array([[-1e5, -800.0, -1.0, 2.0, 800.0, 1e5]])
    heads = eta[None] * np.linspace(1.0, -1.0, outcome.n_predictors)[:, None, None]
    weights = np.arange(1.0, 7.0) if weighted else None
    for y in (np.zeros(6, dtype=int), np.ones(6, dtype=int)):
        # Of two classes, or of three whose middle predictor is 0.
        logits = np.vstack([np.zeros(6), eta]) if name == "bernoulli" else heads[:, 0]
        logits = logits.astype(np.longdouble)
        top = logits.max(axis=0)
        log_proba = logits - top - np.log(np.exp(logits - top).sum(axis=0))
        residual = (np.arange(len(logits))[:, None] == y) - np.exp(log_proba)
        value, score = outcome.terms(heads, y, weights, True, True)
        ones = np.ones(6) if weights is None else weights
        assert_allclose(value, [log_proba[y[0]] @ ones], rtol=1e-12)
        expected = (residual * ones)[-outcome.n_predictors :]
        assert_allclose(score[:, 0], expected.astype(float), rtol=1e-12, atol=1e-14)


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


@pytest.mark.parametrize("df", [2.1, 30.0, 1e4, 1e12, 1e16, 1e50])
def test_the_density_of_a_student_t_has_all_digits(df, rng):
    heads, y = rng.normal(size=(2, 3, 5)), rng.normal(size=5)
    reference = stats.t(df) if df < 1e6 else stats.norm()  # SciPy loses digits, too
    scale = np.exp(0.5 * heads[1])
    expected = reference.logpdf((y - heads[0]) / scale) - np.log(scale)
    assert_allclose(StudentT(df=df).log_density(heads, y), expected, rtol=1e-9, atol=1e-7)
    if df < 1e16:
        heads = np.concatenate([heads, np.full((1, 3, 5), np.log(df - 2.0))])
        assert_allclose(StudentT().log_density(heads, y), expected, rtol=1e-9, atol=1e-7)


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


def test_quantiles_between_normals_far_apart(rng):
    """A search that starts tens of standard deviations from all of them, in densities of 1e-300."""
    for _ in range(2000):
        m = rng.integers(2, 12)
        means, stds = 10.0 ** rng.uniform(-1, 3) * rng.normal(size=m), 10.0 ** rng.uniform(-3, 1, m)
        weights, q = rng.dirichlet(np.ones(m)), rng.uniform(0.01, 0.99, 3)
        found = normal_mixtures.quantile(means[None], stds[None], weights, q)[0]
        tiny = 1e-9 * np.abs(found) + 1e-12
        below, above = (
            stats.norm.cdf((found[:, None] + side * tiny[:, None] - means) / stds) @ weights
            for side in (-1.0, 1.0)
        )
        assert (below < q + 1e-6).all() and (q - 1e-6 < above).all()


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


@pytest.mark.parametrize("apart", [0.0, 3.0, 1e6])
@pytest.mark.parametrize("df", [2.1, 5.0, 300.0])
def test_quantiles_are_the_same_by_newton(df, apart, rng):
    """Also in the gap between two groups of particles, where Newton's steps lead nowhere."""
    middle = rng.normal(size=(4, 60)) + apart * (np.arange(60) < 30)
    weights, q = np.full(60, 1 / 60), np.array([1e-6, 0.05, 0.5, 0.77, 0.999])
    parts = [
        lambda y, some: stats.t.cdf(y[:, None] - middle[:, some], df),
        lambda level, some: stats.t.ppf(level, df) + middle[:, some],
    ]
    found = mixture_quantiles(
        *parts, weights, q, discrete=False, pdf=lambda y, some: stats.t.pdf(y[:, None] - middle, df)
    )
    expected = mixture_quantiles(*parts, weights, q, discrete=False)
    certain = slice(None) if apart < 1e6 else [0, 1, 3, 4]
    assert_allclose(found[:, certain], expected[:, certain], rtol=1e-6)
    levels = np.stack([parts[0](row, slice(None)) @ weights for row in found.T], axis=1)
    assert_allclose(levels, np.tile(q, (4, 1)), rtol=1e-6)


def test_general_draws_have_the_distribution(rng):
    heads = np.array([[[1.0]], [[np.log(4.0)]]]) * np.ones((2, 1, 20_000))
    draws = NumericOutcome.sample(Normal(), heads, rng)[0]
    assert stats.kstest(draws, stats.norm(1.0, 2.0).cdf).pvalue > 1e-4


@pytest.mark.parametrize("mean", [0.01, 3.0, 1e9])
def test_quantiles_of_one_count_are_its_own(mean):
    count, q = stats.poisson([[mean]]), np.array([0.0, 0.001, 0.5, 0.9999, 1.0])
    found = mixture_quantiles(
        lambda y, some: count.cdf(y[:, None]),
        lambda level, some: count.ppf(level),
        np.ones(1),
        q,
        discrete=True,
    )
    assert_array_equal(found[0], [0.0, *stats.poisson(mean).ppf(q[1:])])


@pytest.mark.parametrize("q", [0.9999999999999999, 1.0 - 1e-14])
@pytest.mark.parametrize("m", [150, 2049])
def test_quantiles_at_levels_that_a_sum_of_weights_may_not_reach(m, q):
    outcome, weights = Poisson(), np.full(m, 1.0 / m)
    (found,) = outcome.quantiles([np.zeros((1, m))], weights, np.array([q]))[0]
    assert 14.0 <= found < 20.0


@pytest.mark.parametrize("discrete", [True, False])
def test_a_level_that_no_outcome_reaches_is_not_looked_for_without_end(discrete):
    """As where some particles overflow: it is not finite, which predictions refuse."""
    four = np.full((1, 4), 5.0)
    with np.errstate(over="ignore", invalid="ignore"):
        found = mixture_quantiles(
            lambda y, some: 0.9 * (four[:, some] <= y[:, None]),
            lambda level, some: four[:, some],
            np.full(4, 0.25),
            np.array([0.95]),
            discrete=discrete,
        )
    assert not np.isfinite(found).any()


def test_quantiles_of_counts_with_gaps_between_them_are_found():
    """Above 2**53 floats are further apart than whole numbers."""
    count, q = stats.norm(1e20, 1e10), np.array([0.1, 0.5])
    parts = (
        lambda y, some: count.cdf(y[:, None]),
        lambda level, some: np.array([[count.ppf(level)]]),
    )
    assert_allclose(mixture_quantiles(*parts, np.ones(1), q, discrete=True), [count.ppf(q)])


@pytest.mark.parametrize("weights", ["equal", "uneven"])
@pytest.mark.parametrize("name", ["bernoulli", "categorical", "probit", "one-vs-rest"])
def test_predictions_of_classes_are_those_of_the_logits(name, weights, rng):
    """Far apart too, against log-softmax, the general quantile and entropies term by term."""
    outcome, m = OUTCOMES[name], 30
    heads = rng.normal(size=(outcome.n_predictors, 40, m)) * np.geomspace(0.1, 10.0, 40)[:, None]
    weights = np.full(m, 1 / m) if weights == "equal" else rng.dirichlet(np.ones(m))
    logits = outcome.logits(heads)
    if len(logits) == 1:
        logits = np.concatenate([np.zeros_like(logits), logits])
    log_parts = log_softmax(logits, axis=0)
    parts = np.exp(log_parts)
    expected = logsumexp(log_parts, axis=2, b=weights).T
    assert_allclose(outcome.log_proba(heads, weights), expected, rtol=1e-10, atol=1e-14)
    assert_allclose(outcome.every(heads), parts, rtol=1e-10, atol=1e-300)
    q = np.array([0.0, 0.05, 0.3, 0.95, 1.0])
    quantiles = weighted_quantile(np.moveaxis(parts, 2, 0), weights, q).T
    # Predictors far apart may have equal probabilities, whose order is theirs.
    untied = (np.diff(np.sort(parts, axis=2)) > 0.0).all(axis=(0, 2))
    found = outcome.quantiles(heads, weights, q)
    assert_allclose(found[untied], quantiles[untied], rtol=1e-9, atol=1e-12)
    aleatoric = -np.sum((parts * log_parts) @ weights, axis=0)
    total = -np.sum(np.exp(expected) * expected, axis=1)
    found = outcome.uncertainty(heads, weights)
    assert_allclose(found, np.column_stack([aleatoric, total - aleatoric]), atol=1e-13)


def test_quantiles_of_certain_classes_do_not_depend_on_the_order_of_the_particles(rng):
    """Probabilities that round to 1 tie; their predictors do not."""
    heads, weights, q = 1e3 * rng.normal(size=(1, 20, 9)), rng.dirichlet(np.ones(9)), [0.3, 0.7]
    order = rng.permutation(9)
    assert_allclose(
        Bernoulli().quantiles(heads[:, :, order], weights[order], np.array(q)),
        Bernoulli().quantiles(heads, weights, np.array(q)),
        atol=1e-12,
    )


def test_networks_refuse_an_outcome_without_compiled_passes(rng):
    with pytest.raises(ValueError, match="no compiled likelihood of Probit"):
        MLPTarget(rng.normal(size=(5, 2)), np.zeros(5), outcome=Probit())
