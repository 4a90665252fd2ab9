"""Linear models against direct computations with their particles, and against closed forms."""

import copy

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from scipy.special import expit, log_expit, logsumexp, ndtr, softmax
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianPoissonRegression,
    ParticlePosterior,
)
from skstein.inference import MCMC, LaplaceDraws
from skstein.posterior import weighted_quantile
from skstein.priors import Normal
from skstein.samplers import HMC

# The fits here only have to give particles: whether those are a good posterior is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ENGINE = LaplaceDraws(n_particles=40)


def with_uneven_weights(estimator, rng):
    estimator.posterior_.weights = rng.dirichlet(np.ones(len(estimator.posterior_)))
    return estimator


@pytest.fixture
def regressor(rng):
    X, y = load_diabetes(return_X_y=True)
    fitted = BayesianLinearRegression(ENGINE, random_state=0).fit(X[::4], y[::4])
    return with_uneven_weights(fitted, rng), X[1:12]


@pytest.fixture
def binary(rng):
    X, y = make_classification(80, 4, flip_y=0.1, random_state=0)
    fitted = BayesianLogisticRegression(ENGINE, random_state=0).fit(X, y)
    return with_uneven_weights(fitted, rng), X[:11]


@pytest.fixture
def multiclass(rng):
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    fitted = BayesianLogisticRegression(ENGINE, random_state=0).fit(X, y)
    return with_uneven_weights(fitted, rng), X[::14]


@pytest.fixture(params=["binary", "multiclass"])
def classifier(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["regressor", "binary", "multiclass"])
def estimator(request):
    return request.getfixturevalue(request.param)


def particle_probabilities(classifier, X):
    """(n, m, n_classes), written out one particle at a time."""
    k = len(classifier.classes_)
    result = []
    for theta in classifier.posterior_.particles:
        rows = theta.reshape(1 if k == 2 else k, -1)
        predictors = rows[:, 0] + X @ rows[:, 1:].T
        if k == 2:
            predictors = np.column_stack([np.zeros(len(X)), predictors])
        result.append(softmax(predictors, axis=1))
    return np.stack(result, axis=1)


def particle_means(regressor, X):
    theta = regressor.posterior_.particles
    return theta[:, 0] + X @ theta[:, 1:-1].T, np.exp(theta[:, -1])


# Predictions of classifiers.


def test_probabilities_are_averaged_over_particles(classifier):
    clf, X = classifier
    expected = np.einsum("nmk,m->nk", particle_probabilities(clf, X), clf.posterior_.weights)
    assert_allclose(clf.predict_proba(X), expected, rtol=1e-12)
    assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(np.exp(clf.predict_log_proba(X)), expected, rtol=1e-12)
    assert_array_equal(clf.predict(X), clf.classes_[expected.argmax(axis=1)])


def test_decision_function_is_the_log_odds_or_log_of_the_average(classifier):
    clf, X = classifier
    proba = clf.predict_proba(X)
    if len(clf.classes_) == 2:
        expected = np.log(proba[:, 1] / proba[:, 0])
    else:
        expected = np.log(proba)
    assert_allclose(clf.decision_function(X), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("factor", [1.0, 1e2, 1e5])
def test_decision_function_is_exact_in_the_tails(binary, factor):
    """Where the averaged probability itself underflows, against sums of logarithms."""
    clf, X = binary
    X = factor * X
    theta, weights = clf.posterior_.particles, clf.posterior_.weights
    logits = theta[:, 0] + X @ theta[:, 1:].T
    log_proba = [logsumexp(log_expit(sign * logits), b=weights, axis=1) for sign in (-1, 1)]
    assert_allclose(clf.predict_log_proba(X), np.transpose(log_proba), rtol=1e-10, atol=1e-14)
    assert_allclose(clf.decision_function(X), log_proba[1] - log_proba[0], rtol=1e-10, atol=1e-12)


def test_log_probabilities_of_many_classes_are_exact_in_the_tails(multiclass):
    clf, X = multiclass
    X = 1e4 * (X - X.mean(axis=0))
    intercept, coef = np.split(clf.posterior_.particles.reshape(40, 3, 5), [1], axis=2)
    logits = np.einsum("np,mkp->nmk", X, coef) + intercept[:, :, 0]
    log_proba = logits - logsumexp(logits, axis=2, keepdims=True)
    expected = logsumexp(log_proba, b=clf.posterior_.weights[:, None], axis=1)
    assert_allclose(clf.predict_log_proba(X), expected, rtol=1e-10, atol=1e-14)


def test_quantiles_of_probabilities_are_those_of_the_particles(classifier):
    clf, X = classifier
    q = [0.0, 0.2, 0.5, 1.0]
    proba = np.moveaxis(particle_probabilities(clf, X), 1, 0)
    expected = np.moveaxis(weighted_quantile(proba, clf.posterior_.weights, q), 0, -1)
    assert_allclose(clf.predict_quantiles(X, q), expected, rtol=1e-10)
    assert clf.predict_quantiles(X, 0.5).shape == (len(X), len(clf.classes_), 1)
    assert_allclose(clf.predict_quantiles(X, [0, 1])[..., 0], proba.min(axis=0), rtol=1e-10)
    assert_allclose(clf.predict_quantiles(X, [0, 1])[..., 1], proba.max(axis=0), rtol=1e-10)
    assert_allclose(
        clf.predict_interval(X, level=0.8), clf.predict_quantiles(X, [0.1, 0.9]), rtol=1e-12
    )


def test_two_classes_have_mirrored_intervals(binary):
    clf, X = binary
    interval = clf.predict_interval(X, level=0.5)
    assert_allclose(interval[:, 0], 1.0 - interval[:, 1, ::-1], rtol=1e-9)


def test_entropies(classifier):
    clf, X = classifier
    proba, weights = particle_probabilities(clf, X), clf.posterior_.weights
    aleatoric = -np.einsum("nmk,nmk,m->n", proba, np.log(proba), weights)
    mean = clf.predict_proba(X)
    total = -np.sum(mean * np.log(mean), axis=1)
    uncertainty = clf.predict_uncertainty(X)
    assert_allclose(uncertainty.aleatoric, aleatoric, rtol=1e-9)
    assert_allclose(uncertainty.total, total, rtol=1e-9)
    assert_allclose(uncertainty.epistemic, total - aleatoric, rtol=1e-5, atol=1e-14)
    assert_array_equal(uncertainty.total, uncertainty.aleatoric + uncertainty.epistemic)


def test_entropies_are_finite_and_not_negative_for_certain_labels(classifier):
    clf, X = classifier
    for part in clf.predict_uncertainty(1e6 * X).values():
        assert np.isfinite(part).all() and (part >= 0.0).all()


# Predictions of regressors.


def test_moments_of_the_outcome(regressor):
    reg, X = regressor
    means, variances = particle_means(reg, X)
    weights = reg.posterior_.weights
    mean = means @ weights
    second_moment = (means**2 + variances) @ weights
    y_mean, y_std = reg.predict(X, return_std=True)
    assert_allclose(y_mean, mean, rtol=1e-12)
    assert_array_equal(reg.predict(X), y_mean)
    assert_allclose(y_std, np.sqrt(second_moment - mean**2), rtol=1e-9)
    uncertainty = reg.predict_uncertainty(X)
    assert_allclose(uncertainty.aleatoric, variances @ weights, rtol=1e-12)
    assert_allclose(uncertainty.epistemic, (means - mean[:, None]) ** 2 @ weights, rtol=1e-9)
    assert_allclose(uncertainty.total, y_std**2, rtol=1e-12)


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_quantiles_of_the_outcome_solve_the_mixture(regressor, spread):
    """Against Brent's method, also where the components are far apart and in both far tails."""
    reg, X = regressor
    theta = reg.posterior_.particles
    theta[:, 1:-1] = theta[:, 1:-1].mean(axis=0) + spread * (
        theta[:, 1:-1] - theta[:, 1:-1].mean(axis=0)
    )
    means, variances = particle_means(reg, X)
    stds, weights = np.sqrt(variances), reg.posterior_.weights
    lower = [1e-12, 0.01, 0.3, 0.5]
    q = np.append(lower, np.subtract(1.0, lower))
    quantiles = reg.predict_quantiles(X, q)
    for row, mean in zip(quantiles, means, strict=True):
        ends = mean.min() - 10 * stds.max(), mean.max() + 10 * stds.max()
        for level, found in zip(q, row, strict=True):
            if level <= 0.5:
                root = brentq(
                    lambda y, mean=mean, p=level: weights @ ndtr((y - mean) / stds) - p, *ends
                )
            else:
                root = brentq(
                    lambda y, mean=mean, p=1 - level: weights @ ndtr((mean - y) / stds) - p, *ends
                )
            assert_allclose(found, root, rtol=1e-9, atol=1e-9 * stds.min())
    assert_allclose(
        reg.predict_interval(X, level=0.4), reg.predict_quantiles(X, [0.3, 0.7]), rtol=1e-12
    )
    assert_array_equal(reg.predict_quantiles(X[:1], [0.0, 1.0]), [[-np.inf, np.inf]])


# Predictions of both.


def test_draws_from_the_predictive_have_its_moments(estimator, seed):
    est, X = estimator
    n_draws = 4000
    draws = est.sample_predictive(X, n_draws, random_state=seed)
    assert draws.shape == (len(X), n_draws)
    if hasattr(est, "classes_"):
        expected = est.predict_proba(X)
        found = np.stack([(draws == label).mean(axis=1) for label in est.classes_], axis=1)
        error = np.sqrt(expected * (1.0 - expected) / n_draws)
    else:
        expected, std = est.predict(X, return_std=True)
        found, error = draws.mean(axis=1), std / np.sqrt(n_draws)
        spread = draws.std(axis=1) / std
        assert_allclose(spread, 1.0, atol=6.0 / np.sqrt(n_draws))
    assert (np.abs(found - expected) <= 6.0 * error + 5.0 / n_draws).all()


def test_draws_of_the_mean_are_those_of_the_particles(estimator, seed):
    """Each is what a particle alone predicts, and they occur by weight."""
    est, X = estimator
    n_draws = 4000
    draws = est.sample_mean(X, n_draws, random_state=seed)
    predict = est.predict_proba if hasattr(est, "classes_") else est.predict
    expected, posterior = predict(X), est.posterior_
    assert draws.shape == (*expected.shape, n_draws)
    alone = copy.copy(est)
    for draw in np.moveaxis(draws, -1, 0)[:3]:
        found = []
        for theta in posterior.particles:
            alone.posterior_ = ParticlePosterior(theta[None], names=posterior.names)
            found.append(np.abs(getattr(alone, predict.__name__)(X) - draw).max())
        assert min(found) < 1e-9 * np.abs(expected).max()
    error = draws.std(axis=-1) / np.sqrt(n_draws)
    assert (np.abs(draws.mean(axis=-1) - expected) <= 6.0 * error + 1e-12).all()


def test_draws_depend_on_their_seed_alone(estimator):
    est, X = estimator
    draws = est.sample_predictive(X, 5, random_state=3)
    assert_array_equal(draws, est.sample_predictive(X, 5, random_state=3))
    assert_array_equal(draws, est.sample_predictive(X, 5, random_state=np.random.RandomState(3)))
    assert est.sample_predictive(X).shape == (len(X), 1)


def test_blocks_of_rows_change_nothing(estimator):
    """With almost no working memory every row is a block of its own."""
    est, X = estimator

    def predictions():
        return (
            est.predict(X),
            est.predict_interval(X),
            est.predict_uncertainty(X).total,
            est.sample_predictive(X, 3, random_state=0),
        )

    whole = predictions()
    with sklearn.config_context(working_memory=1e-3):
        by_row = predictions()
    for a, b in zip(whole, by_row, strict=True):
        if a.dtype.kind == "f":
            assert_allclose(a, b, rtol=1e-12)
        else:
            assert_array_equal(a, b)


# What is reported.


def test_reported_moments_are_those_of_the_particles(estimator):
    est, X = estimator
    posterior = est.posterior_
    posterior.weights[:] = 1.0 / len(posterior)
    k = est.coef_.shape[0] if est.coef_.ndim == 2 else 1
    rows = posterior.particles[:, : k * (X.shape[1] + 1)].reshape(len(posterior), k, -1)
    mean, std = rows.mean(axis=0), rows.std(axis=0)
    assert_allclose(np.atleast_2d(est.coef_), mean[:, 1:], rtol=1e-10)
    assert_allclose(np.atleast_1d(est.intercept_), mean[:, 0], rtol=1e-10)
    assert_allclose(np.atleast_2d(est.coef_std_), std[:, 1:], rtol=1e-10)
    assert_allclose(np.atleast_1d(est.intercept_std_), std[:, 0], rtol=1e-10)
    if hasattr(est, "noise_variance_"):
        assert_allclose(est.noise_variance_, np.exp(posterior.particles[:, -1]).mean(), rtol=1e-10)


def test_shapes_and_names():
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    X = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    three = BayesianLogisticRegression(ENGINE, random_state=0).fit(X, y)
    assert three.coef_.shape == three.coef_std_.shape == (3, 4)
    assert three.intercept_.shape == three.intercept_std_.shape == (3,)
    assert three.posterior_.names[:2] == ("intercept[0]", "sl[0]")
    two = BayesianLogisticRegression(ENGINE, random_state=0).fit(X[:100], y[:100])
    assert two.coef_.shape == (1, 4) and two.intercept_.shape == (1,)
    assert two.posterior_.names == ("intercept", "sl", "sw", "pl", "pw")
    line = BayesianLinearRegression(ENGINE, random_state=0).fit(X.to_numpy(), y)
    assert line.coef_.shape == (4,) and isinstance(line.intercept_, float)
    assert line.posterior_.names == ("intercept", "x0", "x1", "x2", "x3", "log_sigma2")
    origin = BayesianLinearRegression(ENGINE, fit_intercept=False, random_state=0).fit(X, y)
    assert origin.intercept_ == origin.intercept_std_ == 0.0
    assert origin.posterior_.names == ("sl", "sw", "pl", "pw", "log_sigma2")


# Scaling.


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("problem", ["regressor", "binary", "multiclass"])
def test_standardising_equals_fitting_standardised_data(problem, fit_intercept):
    """Fitting raw data and fitting data standardised by hand give the same predictions."""
    X, y = load_diabetes(return_X_y=True) if problem == "regressor" else load_iris(return_X_y=True)
    if problem == "binary":
        X, y = X[50:], y[50:]
    weights = np.linspace(0.5, 2.0, len(y))

    def moments(values):
        mean = np.average(values, axis=0, weights=weights)
        std = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
        return fit_intercept * mean, std

    mean, std = moments(X)
    options = {"fit_intercept": fit_intercept, "random_state": 0}
    if problem == "regressor":
        y_mean, y_std = moments(y)
        raw = BayesianLinearRegression(ENGINE, **options).fit(X, y, weights)
        by_hand = BayesianLinearRegression(ENGINE, standardize=False, **options)
        by_hand.fit((X - mean) / std, (y - y_mean) / y_std, weights)
        for a, b, shift in zip(
            raw.predict(X, return_std=True),
            by_hand.predict((X - mean) / std, return_std=True),
            (y_mean, 0.0),
            strict=True,
        ):
            assert_allclose(a, shift + y_std * b, rtol=1e-8)
        assert_allclose(raw.noise_variance_, y_std**2 * by_hand.noise_variance_, rtol=1e-8)
    else:
        raw = BayesianLogisticRegression(ENGINE, **options).fit(X, y, weights)
        by_hand = BayesianLogisticRegression(ENGINE, standardize=False, **options)
        by_hand.fit((X - mean) / std, y, weights)
        assert_allclose(
            raw.predict_proba(X), by_hand.predict_proba((X - mean) / std), rtol=1e-7, atol=1e-12
        )
    assert_allclose(raw.coef_std_ * std, by_hand.coef_std_ * (y_std if y.dtype == float else 1.0))


@pytest.mark.parametrize("problem", ["regressor", "binary", "multiclass"])
def test_units_of_the_data_do_not_matter(problem):
    """Other units of features and outcome: the same predictions, coefficients converted."""
    X, y = load_diabetes(return_X_y=True) if problem == "regressor" else load_iris(return_X_y=True)
    if problem == "binary":
        X, y = X[50:], y[50:]
    unit, zero = np.geomspace(1e-3, 1e3, X.shape[1]), np.linspace(-5.0, 5.0, X.shape[1])
    X_other = zero + unit * X
    if problem == "regressor":
        est, other = (BayesianLinearRegression(ENGINE, random_state=0) for _ in range(2))
        est.fit(X, y)
        other.fit(X_other, 7.0 + 100.0 * y)
        assert_allclose(other.coef_ * unit, 100.0 * est.coef_, rtol=1e-6)
        assert_allclose(other.coef_std_ * unit, 100.0 * est.coef_std_, rtol=1e-6)
        assert_allclose(other.noise_variance_, 1e4 * est.noise_variance_, rtol=1e-6)
        assert_allclose(other.predict(X_other), 7.0 + 100.0 * est.predict(X), rtol=1e-6)
        assert_allclose(
            other.predict_interval(X_other), 7.0 + 100.0 * est.predict_interval(X), rtol=1e-6
        )
    else:
        est, other = (BayesianLogisticRegression(ENGINE, random_state=0) for _ in range(2))
        est.fit(X, y)
        other.fit(X_other, y)
        assert_allclose(other.coef_ * unit, est.coef_, rtol=1e-6)
        assert_allclose(other.coef_std_ * unit, est.coef_std_, rtol=1e-6)
        assert_allclose(other.intercept_, est.intercept_ - other.coef_ @ zero, rtol=1e-6, atol=1e-6)
        assert_allclose(other.predict_proba(X_other), est.predict_proba(X), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 3.0, 0.1 + 0.2, -1e8 + 0.1])
def test_a_constant_column_is_left_alone(value, rng):
    """Its coefficient keeps the prior, and the others do not notice it, rounded or not."""
    X, y = load_diabetes(return_X_y=True)
    X = X[:60, :3].copy()
    X[:, 1] = value
    X[::2, 1] = np.nextafter(value, np.inf) if value else value
    est = BayesianLinearRegression(LaplaceDraws(n_particles=400), random_state=0).fit(X, y[:60])
    y_std = y[:60].std()
    assert_allclose(est.coef_std_[1], y_std, rtol=0.25)
    assert np.isfinite(est.predict(X)).all()


def test_rounding_in_large_units_is_in_small_ones():
    """A column of 6e23 is constant up to rounding, which is larger than 1."""
    X, y = load_diabetes(return_X_y=True)
    X = X[:60, :3].copy()
    X[:, 1] = np.where(np.arange(60) % 2, 6e23, np.nextafter(6e23, np.inf))
    est = BayesianLinearRegression("laplace", random_state=0).fit(X, y[:60])
    expected, sd = est.coef_[::2], est.coef_std_[::2]
    est.fit(X[:, ::2], y[:60])
    assert_allclose(est.coef_, expected, atol=0.5 * sd.min())
    assert_allclose(est.coef_std_, sd, rtol=0.1)


def test_constant_outcome():
    X = np.arange(6.0).reshape(3, 2) ** 2
    reg = BayesianLinearRegression(ENGINE, random_state=0).fit(X, [4.0, 4.0, 4.0])
    assert_allclose(reg.predict(X), 4.0, atol=2.0)


@pytest.mark.parametrize("noise_shape", [None, 1.0])
def test_posterior_of_the_coefficients_against_quadrature(noise_shape, seed):
    """Given sigma^2 the coefficients are normal in closed form; sigma^2 is integrated on a grid."""
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:100, :4], y[:100]
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    design = np.column_stack([np.ones(len(y)), X])
    prior_precision = np.diag([1e-2, 1.0, 1.0, 1.0, 1.0])
    log_sigma2 = np.linspace(-3.0, 2.0, 400)
    log_weights, means, covariances = [], [], []
    for s2 in np.exp(log_sigma2):
        precision = design.T @ design / s2 + prior_precision
        mean = np.linalg.solve(precision, design.T @ y / s2)
        means.append(mean)
        covariances.append(np.linalg.inv(precision))
        log_evidence = (
            0.5 * mean @ precision @ mean
            - 0.5 * y @ y / s2
            - 0.5 * len(y) * np.log(s2)
            - 0.5 * np.linalg.slogdet(precision)[1]
        )
        # Densities of log sigma^2.
        log_prior = {None: 0.5 * np.log(s2) - 2.0 * np.log1p(s2 / 3.0), 1.0: -np.log(s2) - 1.0 / s2}
        log_weights.append(log_evidence + log_prior[noise_shape])
    weights = np.exp(log_weights - logsumexp(log_weights))
    means, covariances = np.array(means), np.array(covariances)
    mean = weights @ means
    variance = weights @ (np.diagonal(covariances, axis1=1, axis2=2) + (means - mean) ** 2)

    reg = BayesianLinearRegression(
        noise_shape=noise_shape, standardize=False, random_state=seed
    ).fit(X, y)
    assert_allclose(reg.coef_, mean[1:], atol=0.2 * np.sqrt(variance[1:].min()))
    assert_allclose(reg.coef_std_, np.sqrt(variance[1:]), rtol=0.15)
    assert_allclose(reg.noise_variance_, weights @ np.exp(log_sigma2), rtol=0.05)


@pytest.mark.parametrize("noise", [1.0, 0.01])
def test_intervals_are_as_wide_as_the_noise(noise, rng):
    """Of 1000 new rows 900 fall into them: up to four standard errors, sqrt(.9 .1 / 1000) of the
    rows and .017 of a noise that 200 rows tell to 5 %."""
    X = rng.normal(size=(1200, 3))
    y = X @ [3.0, -2.0, 1.0] + noise * rng.normal(size=1200)
    reg = BayesianLinearRegression("pmfvb", random_state=0).fit(X[:200], y[:200])
    low, high = reg.predict_interval(X[200:], level=0.9).T
    assert abs(np.mean((low <= y[200:]) & (y[200:] <= high)) - 0.9) < 0.08
    assert_allclose(reg.noise_variance_, noise**2, rtol=4 * np.sqrt(2 / 196))


def test_rows_without_noise_are_fitted(rng):
    """All but exactly, with a spread that is finite and next to nothing."""
    X = rng.normal(size=(50, 3))
    y = X @ [3.0, -2.0, 1.0]
    reg = BayesianLinearRegression(random_state=0).fit(X, y)
    mean, std = reg.predict(X, return_std=True)
    assert_allclose(mean, y, atol=1e-3)
    assert ((std > 0.0) & (std < 1e-3 * y.std())).all()


# Parameters and errors.


def test_nested_parameters_replace_names_by_separate_instances():
    a, b = (BayesianLinearRegression() for _ in range(2))
    a.set_params(prior__scale=3.0, intercept_prior__scale=4.0, inference__n_particles=20)
    assert (a.prior.scale, a.intercept_prior.scale, a.inference.n_particles) == (3.0, 4.0, 20)
    assert b.prior == b.intercept_prior == "normal" and b.inference == "mcmc"
    b.set_params(inference__n_particles=30)
    assert a.inference.n_particles == 20
    # The name in the same call wins over the parameter as it was, in any order.
    b.set_params(inference__n_particles=30, inference="laplace")
    assert isinstance(b.inference, LaplaceDraws) and b.inference.n_particles == 30


def test_names_stand_for_documented_defaults():
    c = BayesianLogisticRegression()
    c.set_params(prior__scale=c._named_parameters["prior"]("normal").scale)
    assert c.prior.scale == 1.0
    assert c._named_parameters["intercept_prior"]("normal").scale == 10.0
    X, y = load_iris(return_X_y=True)
    named = BayesianLogisticRegression(ENGINE, random_state=0).fit(X, y)
    explicit = BayesianLogisticRegression(
        ENGINE, prior=Normal(1.0), intercept_prior=Normal(10.0), random_state=0
    ).fit(X, y)
    assert_array_equal(named.posterior_.particles, explicit.posterior_.particles)


def test_html_shows_nested_parameters(estimator):
    est, _ = estimator
    assert "inference__n_particles" in est._repr_html_()


def test_diagrams_link_to_no_page_of_others():
    assert 'href="' not in BayesianLogisticRegression()._repr_html_()


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"inference": "nuts"}, ValueError, "'inference' parameter.*'nuts'"),
        ({"inference": LaplaceDraws}, TypeError, "inference is the class LaplaceDraws"),
        ({"inference": 3}, ValueError, "'inference' parameter"),
        ({"inference": MCMC(sampler=HMC)}, TypeError, "sampler is the class HMC; pass an instance"),
        ({"inference": LaplaceDraws(n_particles=0)}, ValueError, "'n_particles' parameter"),
        ({"prior": "cauchy"}, ValueError, "'prior' parameter.*'cauchy'"),
        ({"prior": Normal}, TypeError, "prior is the class Normal"),
        ({"intercept_prior": Normal}, TypeError, "intercept_prior is the class Normal"),
        ({"prior": Normal(scale=-1.0)}, ValueError, "'scale' parameter of Normal"),
        ({"noise_shape": 0.0}, ValueError, "'noise_shape' parameter"),
        ({"noise_scale": -1.0}, ValueError, "'noise_scale' parameter"),
        ({"standardize": "yes"}, ValueError, "'standardize' parameter"),
    ],
)
def test_bad_parameters_are_refused_by_name(params, error, words):
    with pytest.raises(error, match=words):
        BayesianLinearRegression(**params).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"inference__steps": 3}, ValueError, "Invalid parameter 'steps'.*Valid parameters"),
        ({"prior__width": 3}, ValueError, "Invalid parameter 'width' for estimator Normal"),
        ({"inference": "nuts", "inference__n_particles": 3}, ValueError, "'nuts' is unknown"),
        ({"inference": LaplaceDraws, "inference__n_particles": 3}, TypeError, "is the class"),
    ],
)
def test_bad_nested_parameters_are_refused_by_name(params, error, words):
    with pytest.raises(error, match=words):
        BayesianLogisticRegression().set_params(**params)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([["a"], ["b"]], [0, 1], r"X has text in it \('a'\)"),
        ([[0.0], [np.nan]], [0, 1], "Input X contains NaN"),
        ([[0.0], [1.0]], [0, 1, 1], "inconsistent numbers of samples"),
        ([[0.0], [1.0]], ["no", "no"], "only one class: 'no'"),
        ([[0.0], [1.0]], [0.1, 0.7], "Unknown label type: continuous"),
    ],
)
def test_bad_data_is_refused(X, y, words):
    with pytest.raises(ValueError, match=words):
        BayesianLogisticRegression().fit(X, y)


def test_bad_weights_are_refused():
    X, y = [[0.0], [1.0], [2.0]], [0, 1, 1]
    clf = BayesianLogisticRegression()
    with pytest.raises(ValueError, match="sample_weight"):
        clf.fit(X, y, sample_weight=[1, -1, 1])
    with pytest.raises(ValueError, match="only one class: 1"):
        clf.fit(X, y, sample_weight=[0, 1, 1])
    with pytest.raises(ValueError, match="class_weight must be positive"):
        clf.set_params(class_weight={0: 1.0, 1: -1.0}).fit(X, y)


def test_bad_arguments_of_predictions_are_refused_by_name(estimator):
    est, X = estimator
    for q in (1.1, [0.5, -0.1], [[0.5]], np.nan):
        with pytest.raises(ValueError, match=r"^q must be"):
            est.predict_quantiles(X, q)
    with pytest.raises(ValueError, match=r"^level must be"):
        est.predict_interval(X, level=95)
    with pytest.raises(ValueError, match="level must be one number from 0 to 1"):
        est.predict_interval(X, level=[0.5, 0.9])
    with pytest.raises(ValueError, match=r"level has text in it \('wide'\)"):
        est.predict_interval(X, level="wide")


@pytest.mark.parametrize(
    "method", ["predict", "predict_interval", "predict_uncertainty", "sample_predictive"]
)
@pytest.mark.parametrize("Estimator", [BayesianLinearRegression, BayesianLogisticRegression])
def test_predicting_before_fitting(Estimator, method):
    with pytest.raises(NotFittedError):
        getattr(Estimator(), method)([[0.0]])
    with pytest.raises(NotFittedError):
        Estimator().log_predictive([[0.0]], [0])


def test_convergence_warnings_reach_the_user():
    """Separated classes with a flat prior: a normal approximation is far off and must say so."""
    X = np.linspace(-1.0, 1.0, 12)[:, None]
    clf = BayesianLogisticRegression("laplace", prior=Normal(100.0), random_state=0)
    with pytest.warns(ConvergenceWarning):
        clf.fit(X, X[:, 0] > 0)


def test_expit_of_the_linear_predictor_is_what_a_single_particle_predicts(binary):
    clf, X = binary
    clf.posterior_.weights[:] = 0.0
    clf.posterior_.weights[7] = 1.0
    theta = clf.posterior_.particles[7]
    assert_allclose(clf.predict_proba(X)[:, 1], expit(theta[0] + X @ theta[1:]), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_predictive_of_classes_is_the_chosen_log_probability(rng, n_classes):
    X = rng.normal(size=(60, 2))
    y = np.array(["a", "b", "c"])[rng.integers(0, n_classes, 60)]
    clf = BayesianLogisticRegression(ENGINE, random_state=0).fit(X, y)
    expected = np.log(clf.predict_proba(X)[y[:, None] == clf.classes_])
    assert_allclose(clf.log_predictive(X, y), expected, rtol=1e-10)
    with pytest.raises(ValueError, match=r"not seen in fit: \['z'\]"):
        clf.log_predictive(X[:1], ["z"])


def test_log_predictive_of_an_outcome_is_the_mixture_density(rng):
    X = rng.normal(size=(50, 2))
    y = X[:, 0] + rng.normal(size=50)
    reg = BayesianLinearRegression("svgd", random_state=0).fit(X, y)
    theta, weights = reg.posterior_.particles, reg.posterior_.weights
    means = theta[:, 0] + X @ theta[:, 1:3].T
    sd = np.exp(0.5 * theta[:, 3])
    density = np.exp(-0.5 * ((y[:, None] - means) / sd) ** 2) / (np.sqrt(2 * np.pi) * sd) @ weights
    assert_allclose(reg.log_predictive(X, y), np.log(density), rtol=1e-10)


@pytest.mark.parametrize("n_rows", [1, 5])
def test_a_score_needs_an_outcome_for_each_row(rng, n_rows):
    X = rng.normal(size=(40, 2))
    y = rng.integers(0, 2, size=40)
    for Estimator in (
        BayesianLinearRegression,
        BayesianLogisticRegression,
        BayesianPoissonRegression,
    ):
        model = Estimator("laplace", random_state=0).fit(X, y)
        for rows in ((X[:n_rows], y), (X, y[:n_rows])):
            with pytest.raises(ValueError, match="inconsistent numbers of samples"):
                model.score(*rows)


def test_a_subclass_may_predict_without_a_docstring(rng):
    class Doubled(BayesianLinearRegression):
        def predict(self, X):
            return 2.0 * super().predict(X)

    X = rng.normal(size=(20, 2))
    model = Doubled("laplace", random_state=0).fit(X, X[:, 0])
    assert_allclose(model.predict(X, offset=None), 2.0 * BayesianLinearRegression.predict(model, X))


def test_complex_outcomes_are_not_blamed_on_X(rng):
    X = rng.normal(size=(20, 2))
    with pytest.raises(ValueError, match="y must hold real numbers"):
        BayesianLinearRegression().fit(X, X[:, 0] + 1j)


def test_names_that_come_twice_are_refused(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    X = pd.DataFrame(X, columns=["intercept", "b"])
    with pytest.raises(ValueError, match="2 coordinates are called 'intercept'"):
        BayesianLinearRegression("laplace").fit(X, y)
    reg = BayesianLinearRegression("laplace", fit_intercept=False).fit(X, y)
    assert reg.posterior_.names[:2] == ("intercept", "b")


def test_neither_features_nor_an_intercept_are_refused(rng):
    groups, y = rng.integers(0, 3, (20, 1)), np.arange(20) % 2
    clf = BayesianLogisticRegression("laplace", random_effects=[0], fit_intercept=False)
    with pytest.raises(ValueError, match="neither a feature nor an intercept"):
        clf.fit(groups, y)


def test_missing_outcomes_are_said_to_be_missing():
    with pytest.raises(ValueError, match="Input y contains NaN"):
        BayesianLinearRegression().fit(np.eye(3), np.array([1.0, 2.0, None]))


def test_signs_of_a_series_go_by_name(rng):
    X = pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"])
    y = X["a"] - X["b"] + rng.normal(size=50)
    signs = pd.Series({"b": -1, "a": 1})
    reg = BayesianLinearRegression("laplace", positive=signs, random_state=0).fit(X, y)
    assert reg.coef_[0] > 0.2 and reg.coef_[1] < -0.2
