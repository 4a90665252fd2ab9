"""Factors in closed form: distributions against SciPy, fixed points against coordinate ascent."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.special import gammaincc, gammaln, logsumexp
from scipy.stats import invgamma, kstest, multivariate_normal

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    check_target,
    infer,
)
from skstein.inference import PMFVB
from skstein.priors import AdaptiveRidge, HierarchicalNormal, InverseGamma, Laplace, Normal
from skstein.targets import (
    ConjugateFactor,
    HierarchicalTarget,
    LinearTarget,
    LogInverseGamma,
    LogisticTarget,
    NormalFactor,
    SoftmaxTarget,
    Target,
    Transformed,
    laplace_approximation,
)
from skstein.targets.laplace_at_mode import whitening_laplace

CLOSED = {"noise_prior": InverseGamma(), "factorized": True}
PRIORS = [AdaptiveRidge(1.5, 0.3), HierarchicalNormal(1.5, 0.5)]


@pytest.mark.parametrize("shape", [0.1, 0.5, 3.0, 200.0])
def test_log_inverse_gamma(shape, rng):
    distribution = LogInverseGamma(shape, 2.0)
    draws = distribution.sample(rng, 2000)
    assert draws.shape == (2000, 1)
    assert np.isfinite(draws).all()
    # P(log v < x) = P(G > 2 exp(-x)) for a gamma variable G.
    assert kstest(draws[:, 0], lambda x: gammaincc(shape, 2 * np.exp(-x))).pvalue > 1e-6
    grid = np.log(2.0 / shape) + np.linspace(-20, 40 + 40 / shape, 400_001)
    log_density = shape * np.log(2.0) - gammaln(shape) - shape * grid - 2 * np.exp(-grid)
    entropy = -np.trapezoid(np.exp(log_density) * log_density, grid)
    assert_allclose(distribution.entropy(), entropy, rtol=1e-3)


def test_entropies_of_independent_variables_add_up():
    both = LogInverseGamma([1.0, 4.0], [2.0, 3.0])
    alone = LogInverseGamma(1.0, 9.0).entropy() + LogInverseGamma(4.0, 0.1).entropy()
    assert_allclose(both.entropy(), alone)


def test_multivariate_normal(rng):
    factor = np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    precision, mean = factor @ factor.T, rng.normal(size=3)
    distribution = NormalFactor(precision, precision @ mean)
    covariance = np.linalg.inv(precision)
    draws = distribution.sample(rng, 20_000)
    white = (draws - mean) @ factor
    assert np.abs(white.mean(axis=0)).max() < 5 / np.sqrt(20_000)
    assert np.abs(np.cov(white.T) - np.eye(3)).max() < 5 * np.sqrt(2 / 20_000)
    assert_allclose(distribution.mean, mean)
    assert_allclose(distribution.entropy(), multivariate_normal(mean, covariance).entropy())


def test_a_precision_has_to_be_positive_definite():
    with pytest.raises(np.linalg.LinAlgError):
        NormalFactor(-np.eye(2), np.zeros(2))


class OneObservation(Target):
    """``y ~ N(w, 1)``, ``w ~ N(0, v)``, ``v ~ InvGamma(1, 1)``; coordinates w and log v."""

    dim, y = 2, 2.0

    def __init__(self, closed=()):
        self._closed = closed

    @property
    def factors(self):
        forms = (
            ConjugateFactor(np.array([0]), self._w_given_v),
            ConjugateFactor(np.array([1]), self._v_given_w),
        )
        return tuple(forms[j] if j in self._closed else np.array([j]) for j in (0, 1))

    def _w_given_v(self, theta):
        return NormalFactor(np.array([[1 + np.exp(-theta[:, 1]).mean()]]), np.array([self.y]))

    def _v_given_w(self, theta):
        return LogInverseGamma(1.5, 1 + 0.5 * np.mean(theta[:, 0] ** 2))

    def log_density(self, theta):
        w, s = theta.T
        value = -0.5 * (self.y - w) ** 2 - 0.5 * w**2 * np.exp(-s) - 0.5 * s
        return value - s - np.exp(-s) - np.log(2 * np.pi)

    def score(self, theta, rows=None):
        w, s = theta.T
        return np.stack([self.y - w - w * np.exp(-s), (0.5 * w**2 + 1) * np.exp(-s) - 1.5], axis=1)


def coordinate_ascent(y=2.0):
    """Mean and standard deviation of w, and the bound, at the fixed point of both factors."""
    precision = 1.0
    for _ in range(200):
        mean, variance = y / (1 + precision), 1 / (1 + precision)
        scale = 1 + 0.5 * (mean**2 + variance)
        precision = 1.5 / scale
    return mean, np.sqrt(variance), scale


def test_the_numbers_of_the_documentation():
    """Integrated over v, and under mean field."""

    def density(w):
        return np.exp(-0.5 * (2 - w) ** 2) * (1 + 0.5 * w**2) ** -1.5

    total, first, second = (quad(lambda w, k=k: w**k * density(w), -20, 20)[0] for k in range(3))
    mean, sd = first / total, np.sqrt(second / total - (first / total) ** 2)
    assert (round(mean, 2), round(sd, 2)) == (1.22, 0.88)
    mean, sd, _ = coordinate_ascent()
    assert (round(mean, 2), round(sd, 2)) == (1.12, 0.75)


@pytest.mark.filterwarnings("ignore:PMFVB. the posterior is likely to be wrong")
@pytest.mark.parametrize("closed", [(), (0,), (1,), (0, 1)])
def test_closed_forms_mix_with_particles(closed, seed):
    """Every mixture has the fixed point of coordinate ascent."""
    target = OneObservation(closed)
    check_target(target)
    engine = PMFVB(1000, step_size=0.2, n_warmup=80, max_rhat=1.5)
    posterior = infer(target, engine, random_state=seed)
    mean, sd, scale = coordinate_ascent()
    assert abs(posterior.mean()[0] - mean) < 5 * sd / np.sqrt(1000)
    assert abs(posterior.std()[0] / sd - 1) < 5 / np.sqrt(2 * 1000)
    # E[1 / v] = 1.5 / scale, with a coefficient of variation of sqrt(1 / 1.5).
    expected = np.exp(-posterior.particles[:, 1]).mean() / (1.5 / scale)
    assert abs(expected - 1) < 5 * np.sqrt(1 / 1.5 / 1000)
    entropy = 0.5 * (1 + np.log(2 * np.pi)) + np.log(sd) + LogInverseGamma(1.5, scale).entropy()
    draws = LogInverseGamma(1.5, scale).sample(np.random.default_rng(0), 10**6)[:, 0]
    log_density = -0.5 * ((2 - mean) ** 2 + sd**2) - 1.5 * draws.mean() - 1.5 - np.log(2 * np.pi)
    # A normal in place of the log gamma overstates its entropy by 0.06.
    assert abs(posterior.diagnostics["elbo"] - (log_density + entropy)) < 0.06 + 5 / np.sqrt(1000)


def data(rng, n=60):
    X = rng.normal(size=(n, 3))
    return X, 0.3 + X @ [1.0, -0.5, 0.0] + 0.5 * rng.normal(size=n)


def regressions(rng, prior):
    X, y = data(rng)
    labels = (y > 0).astype(int)
    return [
        LinearTarget(X, y, prior=prior),
        LinearTarget(X, y, prior=prior, **CLOSED, fit_intercept=False),
        LogisticTarget(X, labels.astype(float), prior=prior),
        SoftmaxTarget(X, labels, n_classes=2, prior=prior),
    ]


@pytest.mark.parametrize("prior", PRIORS, ids=["each", "shared"])
def test_explicit_variances_have_the_right_derivatives(prior, rng):
    for regression in regressions(rng, prior):
        target = HierarchicalTarget(regression)
        check_target(target)
        assert len(target.names) == target.dim == len(target.initial)
        rows = np.arange(0, 60, 7)
        theta = rng.normal(size=(4, target.dim))
        part = target.take(rows)
        scaled = target.log_likelihood(theta, rows)
        assert_allclose(part.log_likelihood(theta) * 60 / len(rows), scaled)
        assert_allclose(
            part.pointwise_log_likelihood(theta), target.pointwise_log_likelihood(theta)[:, rows]
        )
        assert target.sample_prior(rng, 5).shape == (5, target.dim)


def test_integrating_the_variances_out_gives_the_integrated_prior(rng):
    """Quadrature over one log variance, shared by three coefficients, and over each of one."""
    X, y = data(rng)
    grid = np.linspace(-30, 60, 20_001)
    for prior, columns in ((PRIORS[1], 3), (PRIORS[0], 1)):
        regression = LogisticTarget(X[:, :columns], (y > 0).astype(float), prior=prior)
        target = HierarchicalTarget(regression)
        for theta in rng.normal(size=(3, regression.dim)):
            points = np.column_stack([np.tile(theta, (len(grid), 1)), grid])
            integral = logsumexp(target.log_density(points)) + np.log(grid[1] - grid[0])
            assert_allclose(integral, regression.log_density(theta[None])[0], atol=1e-6)


def test_prior_draws_of_explicit_variances(rng):
    """Given its variance a coefficient is normal, and the variances are inverse gamma."""
    regression = regressions(rng, PRIORS[0])[2]
    draws = HierarchicalTarget(regression).sample_prior(rng, 4000)
    coef, log_v = draws[:, 1:4], draws[:, 4:]
    assert kstest((coef * np.exp(-0.5 * log_v)).ravel(), "norm").pvalue > 1e-6
    assert kstest(np.exp(log_v).ravel(), invgamma(1.5, scale=0.3).cdf).pvalue > 1e-6


def test_a_prior_without_variances_is_refused(rng):
    for prior in (Normal(1.0), Laplace(1.0)):
        with pytest.raises(ValueError, match="has no variances of its own"):
            HierarchicalTarget(regressions(rng, prior)[0])


def ascend_linear(X, y, prior, a, b, intercept_scale=10.0, n_iter=500):
    """Coordinate ascent for q(coef) q(sigma^2) q(v), written out; returns its moments."""
    A = np.column_stack([np.ones(len(y)), X])
    groups = prior.variance_groups(X.shape[1])
    sizes = np.bincount(groups)
    noise, precisions = 1.0, np.ones(len(sizes))
    for _ in range(n_iter):
        P = noise * A.T @ A + np.diag([intercept_scale**-2, *precisions[groups]])
        cov = np.linalg.inv(P)
        mean = noise * cov @ A.T @ y
        rss = np.sum((y - A @ mean) ** 2) + np.trace(cov @ A.T @ A)
        shape, scale = a + 0.5 * len(y), b + 0.5 * rss
        noise = shape / scale
        second = (mean**2 + cov.diagonal())[1:]
        v_scale = prior.rate + 0.5 * np.bincount(groups, second)
        v_shape = prior.shape + 0.5 * sizes
        precisions = v_shape / v_scale
    return mean, cov, LogInverseGamma(shape, scale), LogInverseGamma(v_shape, v_scale)


@pytest.mark.parametrize("prior", PRIORS, ids=["each", "shared"])
def test_linear_regression_has_the_factors_of_coordinate_ascent(prior, rng, seed):
    X, y = data(rng)
    target = HierarchicalTarget(LinearTarget(X, y, prior=prior, **CLOSED))
    assert [type(factor) for factor in target.factors] == [ConjugateFactor] * 3
    posterior = infer(target, "pmfvb", random_state=seed)
    mean, cov, noise, variances = ascend_linear(X, y, prior, 1.0, 1.0)
    # Fresh draws at every step: 8000 independent ones, but of factors that were given by the means
    # over 200 particles of the others: covariances scatter by .036, over rows and seeds.
    sd = np.sqrt(cov.diagonal())
    assert (np.abs(posterior.mean()[:4] - mean) < 5 * sd / np.sqrt(200)).all()
    assert_allclose(posterior.cov()[:4, :4] / np.outer(sd, sd), cov / np.outer(sd, sd), atol=0.17)
    expected = np.exp(-posterior.particles[:, 4:]).mean(axis=0)
    shape = np.append(noise.shape, variances.shape)
    scale = np.append(noise.scale, variances.scale)
    assert_allclose(expected * scale / shape, 1.0, atol=5 / np.sqrt(200))


def test_a_factorized_linear_regression_with_another_prior_has_particles(rng):
    X, y = data(rng)
    first, second = LinearTarget(X, y, prior=Laplace(1.0), **CLOSED).factors
    assert isinstance(first, np.ndarray)
    assert isinstance(second, ConjugateFactor)
    assert [f.tolist() for f in LinearTarget(X, y).factors] == [[0, 1, 2, 3, 4]]


def test_whitening_starts_at_the_fixed_point_of_the_factors(rng):
    """Of the closed forms: the surrogate's fixed point is that of coordinate ascent, but for the
    noise, whose mode stands for it."""
    X, y = data(rng, n=2000)
    target = HierarchicalTarget(LinearTarget(X, y, prior=PRIORS[0], **CLOSED))
    _, laplace = whitening_laplace(target)
    mean, cov, _, variances = ascend_linear(X, y, PRIORS[0], 1.0, 1.0)
    sd = np.sqrt(cov.diagonal())
    assert_allclose(laplace.mode[:4], mean, atol=0.02 * sd.min())
    assert_allclose(np.sqrt(laplace.variances()[:4]), sd, rtol=0.01)
    assert_allclose(laplace.mode[5:], np.log(variances.scale / variances.shape), atol=0.01)
    matrix = laplace.bijection.matrix
    assert not matrix[:4, 4:].any() and not matrix[4:, :4].any() and not matrix[5:, 4].any()


def test_closed_forms_in_other_coordinates(rng):
    X, y = data(rng)
    target = LinearTarget(X, y, **CLOSED)
    laplace = laplace_approximation(target)
    seen = Transformed(target, laplace.bijection)
    theta = rng.normal(size=(10, 5))
    z = laplace.bijection.inverse(theta)
    for own, other in zip(target.factors, seen.factors, strict=True):
        expected, found = own.optimum(theta), other.optimum(z)
        one, two = (np.random.default_rng(0) for _ in range(2))
        back = laplace.bijection.forward(np.zeros((6, 5)))
        back[:, own.indices] = expected.sample(one, 6)
        z_expected = laplace.bijection.inverse(back)[:, own.indices]
        assert_allclose(found.sample(two, 6), z_expected, atol=1e-10)
        log_det = np.linalg.slogdet(laplace.bijection.matrix[np.ix_(own.indices, own.indices)])[1]
        assert_allclose(found.entropy(), expected.entropy() - log_det)
    assert Transformed(target, None).factors[0].indices.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("prior", PRIORS, ids=["each", "shared"])
def test_the_estimator_reports_its_factors_in_original_units(prior, rng, seed):
    X, y = data(rng)
    X, y = 3.0 + 0.1 * X, 50.0 + 20.0 * y
    model = BayesianLinearRegression(
        "pmfvb", prior=prior, noise_shape=1.0, factorized=True, random_state=seed
    )
    model.fit(X, y)
    standard_X, standard_y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    mean, cov, noise, variances = ascend_linear(standard_X, standard_y, prior, 1.0, 1.0)
    unit, sd = y.std() / X.std(axis=0), np.sqrt(cov.diagonal()[1:])
    assert (np.abs(model.coef_ / unit - mean[1:]) < 5 * sd / np.sqrt(200)).all()
    assert_allclose(model.coef_std_ / unit, sd, rtol=0.1)
    mean_noise = float(noise.scale[0] / (noise.shape[0] - 1)) * y.var()
    assert_allclose(model.noise_variance_, mean_noise, rtol=5 / np.sqrt(200))
    names = model.posterior_.names
    assert names[4] == "log_sigma2"
    assert len(names) == 5 + len(variances.shape)
    # E[1 / v] on the scale of the standardised coefficients.
    precision = np.exp(-model.posterior_.particles[:, 5:]).mean(axis=0)
    assert_allclose(precision * variances.scale / variances.shape, 1.0, atol=5 / np.sqrt(200))
    assert model.predict_interval(X[:3]).shape == (3, 2)
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("Classifier", [BayesianLogisticRegression, BayesianProbitRegression])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_with_a_factor_for_the_variances(Classifier, n_classes, rng, seed):
    """The mean of 1 / v is what the coefficients of all classes imply, on their scale."""
    X = 2.0 + rng.normal(size=(120, 3)) * [1.0, 10.0, 0.1]
    y = rng.integers(0, n_classes, 120)
    model = Classifier("pmfvb", prior=PRIORS[1], factorized=True, random_state=seed).fit(X, y)
    assert model.posterior_.names[-1] == "log_variance"
    assert model.coef_.shape == (1 if n_classes == 2 else 3, 3)
    square = np.sum((model.coef_**2 + model.coef_std_**2) * X.var(axis=0))
    expected = (1.5 + 0.5 * model.coef_.size) / (0.5 + 0.5 * square)
    found = np.exp(-model.posterior_.particles[:, -1]).mean()
    assert_allclose(found / expected, 1.0, atol=0.1)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore:.*importance-weighted draws have another spread")
def test_a_factorized_fit_can_be_gone_on_from(rng):
    X, y = data(rng)
    model = BayesianLogisticRegression(
        "pmfvb", prior=PRIORS[0], factorized=True, warm_start=True, random_state=0
    )
    first = model.fit(X, y > 0).coef_
    assert_allclose(model.fit(X, y > 0).coef_, first, atol=model.coef_std_.max())


@pytest.mark.parametrize(
    "params", [{"inference": "mcmc"}, {"inference": PMFVB(blocks=2)}], ids=["engine", "blocks"]
)
def test_factors_need_an_engine_that_keeps_them_apart(params, rng):
    X, y = data(rng)
    with pytest.raises(ValueError, match="factorized=True needs an engine that keeps factors"):
        BayesianLinearRegression(**params, factorized=True).fit(X, y)


def test_a_classifier_without_variances_has_nothing_to_factorize(rng):
    X, y = data(rng)
    with pytest.raises(ValueError, match="factorized=True finds no variance"):
        BayesianLogisticRegression("pmfvb", factorized=True).fit(X, y > 0)


def test_weights_equal_repetition_with_factors(rng):
    X, y = data(rng)
    weights = rng.integers(1, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    options = {"prior": PRIORS[0], "factorized": True, "random_state": 0}
    weighted = BayesianLinearRegression("pmfvb", **options).fit(X, y, weights)
    longer = BayesianLinearRegression("pmfvb", **options).fit(X[repeated], y[repeated])
    assert_allclose(weighted.posterior_.particles, longer.posterior_.particles, atol=1e-7)


# A mean field may be a fifth too narrow, and say so.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sparse_features_with_factors(rng):
    X, y = data(rng)
    X = np.where(rng.random(X.shape) < 0.5, X, 0.0)
    options = {"prior": PRIORS[1], "factorized": True, "random_state": 0}
    for Estimator, outcome in ((BayesianLinearRegression, y), (BayesianProbitRegression, y > 0)):
        dense = Estimator("pmfvb", **options).fit(X, outcome)
        sparse = Estimator("pmfvb", **options).fit(csr_array(X), outcome)
        assert_allclose(sparse.posterior_.particles, dense.posterior_.particles, atol=1e-7)


@pytest.mark.parametrize("options", [{"rewhiten": True}, {"coupling": "subset", "n_coupled": 5}])
def test_closed_forms_with_other_options(options, rng, seed):
    """The same mean field, whatever the coordinates of its particles and their coupling."""
    X, y = data(rng)
    target = LinearTarget(X, y, prior=Laplace(0.5), factorized=True)
    usual = infer(target, "pmfvb", random_state=seed)
    other = infer(target, PMFVB(**options), random_state=seed)
    sd = usual.std()
    # A subset of five moves all particles by the same error.
    assert (np.abs(other.mean() - usual.mean()) < 5 * np.sqrt(2 / 1000) * sd).all()
    assert_allclose(other.std() / sd, 1.0, atol=5 * np.sqrt(2 / 1000))
    assert abs(other.diagnostics["elbo"] - usual.diagnostics["elbo"]) < 0.2
