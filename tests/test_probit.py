"""Probit regression: both tails, derivatives, quadrature, and the product of binary posteriors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm
from sklearn.datasets import load_iris

from densities import central_differences
from skstein import BayesianProbitRegression, infer
from skstein.inference import LaplaceDraws
from skstein.outcomes.probit import log_phi_and_ratio
from skstein.priors import Laplace, Normal
from skstein.targets import ProbitTarget, laplace_approximation
from small import later

K = 3
PRIORS = {"prior": Normal(0.7), "intercept_prior": Normal(3.0)}
MC_ERROR = 5 / np.sqrt(2000)  # five standard errors of the mean of some 2000 effective draws
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
two_and_more_classes = pytest.mark.parametrize("n_classes", [2, K])
# Of fits that only have to give particles.
only_particles = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# The normal distribution function in its tails.

GRID = np.concatenate([np.linspace(-300.0, 300.0, 4801), np.linspace(-8.0, 8.0, 1601)])


def mills_ratio(s):
    """Phi(s) / phi(s) for s below -20 by its asymptotic series, good to 1e-14 there."""
    term, total = np.ones_like(s), np.ones_like(s)
    for k in range(1, 9):
        term = -term * (2 * k - 1) / s**2
        total += term
    return total / -s


def test_log_phi_is_exact_in_relative_terms():
    value, nothing = log_phi_and_ratio(GRID, ratio=False)
    assert nothing is None
    assert_allclose(value, log_ndtr(GRID), rtol=1e-11)
    low = GRID[GRID < -20.0]
    expected = norm.logpdf(low) + np.log(mills_ratio(low))
    assert_allclose(value[GRID < -20.0], expected, rtol=1e-13)


def test_ratio_is_exact_in_relative_terms():
    nothing, ratio = log_phi_and_ratio(GRID, value=False)
    assert nothing is None
    low, middle = GRID < -20.0, (GRID >= -20.0) & (GRID < 37.0)
    assert_allclose(ratio[low], 1 / mills_ratio(GRID[low]), rtol=1e-13)
    assert_allclose(
        ratio[middle], norm.pdf(GRID[middle]) / ndtr(GRID[middle]), rtol=1e-12, atol=1e-300
    )
    assert (ratio[GRID >= 37.0] <= 1e-290).all()
    assert (ratio >= 0.0).all() and np.isfinite(ratio).all()


def test_value_and_ratio_do_not_depend_on_what_else_is_wanted():
    value, ratio = log_phi_and_ratio(GRID)
    assert_array_equal(value, log_phi_and_ratio(GRID, ratio=False)[0])
    assert_array_equal(ratio, log_phi_and_ratio(GRID, value=False)[1])


def test_curvature_is_between_zero_and_one(rng):
    """ratio (ratio + s) is 1 minus the variance of a truncated normal."""
    X = np.concatenate([[0.0], GRID])[:, None]
    target = ProbitTarget(X, np.ones(len(X)), fit_intercept=False)
    curvature = target.outcome.curvature(X.T, target.y)[0, 0]
    assert (curvature > -1e-9).all() and (curvature < 1 + 1e-9).all()
    assert_allclose(curvature[0], 2 / np.pi, rtol=1e-14)


# The target.


def problem(rng, n_classes, n=30, p=2, **params):
    X, y = rng.normal(size=(n, p)), rng.integers(0, n_classes, size=n)
    weights = rng.uniform(0.2, 3.0, size=n)
    params = PRIORS | params
    target = ProbitTarget(X, y, n_classes=n_classes, sample_weight=weights, **params)
    return target, X, y, weights


def design(X, fit_intercept):
    return np.column_stack([np.ones(len(X)), X]) if fit_intercept else X


def direct_rows(theta, X, y, n_classes, fit_intercept):
    """Log likelihood of each row for one ``theta``, straight from the definition."""
    A = design(X, fit_intercept)
    if n_classes == 2:
        return norm.logcdf(np.where(y == 1, 1, -1) * (A @ theta))
    eta = A @ theta.reshape(n_classes, -1).T
    return sum(norm.logcdf(np.where(y == k, 1, -1) * eta[:, k]) for k in range(n_classes))


@two_and_more_classes
@with_and_without_intercept
def test_log_density_is_that_of_the_model(n_classes, fit_intercept, rng):
    target, X, y, weights = problem(rng, n_classes, fit_intercept=fit_intercept)
    theta = rng.normal(size=(4, target.dim))
    rows = np.array([direct_rows(one, X, y, n_classes, fit_intercept) for one in theta])
    assert_allclose(target.pointwise_log_likelihood(theta), rows, rtol=1e-9, atol=1e-12)
    assert_allclose(target.log_likelihood(theta), rows @ weights, rtol=1e-10)
    table = theta.reshape(len(theta), -1, 2 + fit_intercept)
    prior = norm.logpdf(table[:, :, fit_intercept:], scale=0.7).sum(axis=(1, 2))
    if fit_intercept:
        prior += norm.logpdf(table[:, :, 0], scale=3.0).sum(axis=1)
    assert_allclose(target.log_prior(theta), prior, rtol=1e-10)


@two_and_more_classes
@with_and_without_intercept
def test_score_and_hessian_are_derivatives(n_classes, fit_intercept, rng):
    target, *_ = problem(rng, n_classes, fit_intercept=fit_intercept)
    theta = rng.normal(size=(4, target.dim))
    score = target.score(theta)
    expected = central_differences(target.log_density, theta)
    assert_allclose(score, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    value, both = target.log_density_and_score(theta)
    assert_allclose(value, target.log_density(theta), rtol=1e-12)
    assert_allclose(both, score, rtol=1e-12)
    hessian = target.hessian(theta[0])
    expected = -central_differences(target.score, theta[:1])[0]
    assert_allclose(hessian, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert_allclose(target.hessian_diagonal(theta[0]), hessian.diagonal(), rtol=1e-12)


@two_and_more_classes
def test_score_is_the_gradient_far_out(n_classes, rng):
    """Where a row's probability underflows: theta a hundred times too large."""
    target, *_ = problem(rng, n_classes)
    theta = 100.0 * rng.normal(size=(3, target.dim))
    assert target.log_density(theta).max() < -1000.0
    score, expected = target.score(theta), central_differences(target.log_density, theta, 1e-3)
    assert_allclose(score, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert np.isfinite(target.hessian(theta[0])).all()


@two_and_more_classes
def test_a_weight_repeats_the_row(n_classes, rng):
    X, y = rng.normal(size=(12, 2)), np.arange(12) % n_classes
    counts = rng.integers(1, 4, size=12)
    weighted = ProbitTarget(X, y, n_classes=n_classes, sample_weight=counts)
    repeated = ProbitTarget(np.repeat(X, counts, axis=0), np.repeat(y, counts), n_classes=n_classes)
    theta = rng.normal(size=(3, weighted.dim))
    assert_allclose(weighted.log_density(theta), repeated.log_density(theta), rtol=1e-11)
    assert_allclose(weighted.score(theta), repeated.score(theta), rtol=1e-9, atol=1e-11)
    assert_allclose(weighted.hessian(theta[0]), repeated.hessian(theta[0]), rtol=1e-9, atol=1e-11)


@two_and_more_classes
def test_batches_of_a_partition_average_to_all_rows(n_classes, rng):
    target, *_ = problem(rng, n_classes)
    theta = rng.normal(size=(3, target.dim))
    parts = rng.permutation(30).reshape(3, 10)
    mean = np.mean([target.score(theta, rows) for rows in parts], axis=0)
    assert_allclose(mean, target.score(theta), rtol=1e-9, atol=1e-11)
    mean = np.mean([target.log_likelihood(theta, rows) for rows in parts], axis=0)
    assert_allclose(mean, target.log_likelihood(theta), rtol=1e-10)


def test_swapping_two_classes_turns_theta_round(rng):
    target, X, y, weights = problem(rng, 2)
    swapped = ProbitTarget(X, 1 - y, sample_weight=weights, **PRIORS)
    theta = rng.normal(size=(4, target.dim))
    assert_allclose(swapped.log_density(-theta), target.log_density(theta), rtol=1e-12)


@with_and_without_intercept
@pytest.mark.parametrize("prior", [Normal(0.7), Normal([0.5, 2.0]), Laplace(0.8)])
def test_one_against_the_rest_is_a_product_of_binary_targets(prior, fit_intercept, rng):
    target, X, y, weights = problem(rng, K, prior=prior, fit_intercept=fit_intercept)
    theta = rng.normal(size=(4, target.dim))
    blocks = theta.reshape(4, K, -1)
    binary = [
        ProbitTarget(
            X,
            y == k,
            sample_weight=weights,
            **PRIORS | {"prior": prior},
            fit_intercept=fit_intercept,
        )
        for k in range(K)
    ]
    value = sum(part.log_density(blocks[:, k]) for k, part in enumerate(binary))
    score = np.stack([part.score(blocks[:, k]) for k, part in enumerate(binary)], axis=1)
    assert_allclose(target.log_density(theta), value, rtol=1e-11)
    assert_allclose(target.score(theta).reshape(score.shape), score, rtol=1e-10, atol=1e-11)
    hessian = target.hessian(theta[0]).reshape(K, target.n_columns, K, target.n_columns)
    for i in range(K):
        for j in range(K):
            expected = binary[i].hessian(blocks[0, i]) if i == j else 0.0
            assert_allclose(hessian[i, :, j], expected * np.ones_like(hessian[i, :, j]), atol=1e-11)


def test_names_tell_the_classes(rng):
    X, y = rng.normal(size=(9, 1)), np.arange(9) % 3
    target = ProbitTarget(X, y, n_classes=3, class_names=["a", "b", "c"])
    assert target.names[:4] == ("intercept[a]", "x0[a]", "intercept[b]", "x0[b]")
    assert ProbitTarget(X, y == 1).names == ("intercept", "x0")


# Fits.


def grid_posterior(target, n_grid=301, half=9.0):
    """Points and normalised weights of the trapezoidal rule in two dimensions."""
    laplace = laplace_approximation(target)
    sd = np.sqrt(np.linalg.inv(laplace.hessian).diagonal())
    axes = laplace.mode[:, None] + np.linspace(-half, half, n_grid) * sd[:, None]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    value = np.concatenate([target.log_density(part) for part in np.array_split(grid, 30)])
    weights = np.exp(value - value.max()) / np.exp(value - value.max()).sum()
    return grid, weights


@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
def test_a_binary_fit_agrees_with_quadrature(engine, rng, seed):
    """Moments within Monte-Carlo error, probabilities within that of eta at that row."""
    X = rng.normal(size=(60, 1)) + 0.5
    y = (X[:, 0] + rng.normal(size=60) > 0.3).astype(int)
    clf = BayesianProbitRegression(engine, standardize=False, random_state=seed).fit(X, y)
    grid, weights = grid_posterior(ProbitTarget(X, y))
    mean = weights @ grid
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    assert (np.abs(clf.posterior_.mean() - mean) < MC_ERROR * sd).all()
    assert (np.abs(clf.posterior_.std() / sd - 1) < MC_ERROR).all()
    rows = np.linspace(-2.0, 3.0, 7)[:, None]
    proba = ndtr(grid[:, :1] + grid[:, 1:] * rows.T)
    expected = weights @ proba
    spread = np.sqrt(weights @ (proba - expected) ** 2)
    assert (np.abs(clf.predict_proba(rows)[:, 1] - expected) < MC_ERROR * spread + 1e-12).all()


@only_particles
def test_standardised_features_are_fitted_as_if_given_standardised(rng, seed):
    X, y = load_iris(return_X_y=True)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    engine = LaplaceDraws(n_particles=200)
    ours = BayesianProbitRegression(engine, random_state=seed).fit(X, y)
    given = BayesianProbitRegression(engine, standardize=False, random_state=seed).fit(Z, y)
    assert_allclose(ours.coef_ * X.std(axis=0), given.coef_, rtol=1e-6, atol=1e-8)
    assert_allclose(ours.predict_proba(X), given.predict_proba(Z), rtol=1e-6, atol=1e-10)


@pytest.fixture(scope="module")
def iris():
    """Iris with its labels shuffled a little, so that no class is told apart completely."""
    X, y = load_iris(return_X_y=True)
    flips = np.random.default_rng(7).random(len(y)) < 0.15
    y = np.where(flips, np.random.default_rng(8).integers(0, 3, len(y)), y)
    return X[:, :2], np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.mark.parametrize("engine", [later("mcmc"), "pmfvb"])
def test_one_against_the_rest_has_the_means_of_separate_fits(engine, iris, seed):
    X, y = iris
    joint = BayesianProbitRegression(engine, random_state=seed).fit(X, y)
    for k, label in enumerate(joint.classes_):
        single = BayesianProbitRegression(engine, random_state=seed + 1).fit(X, y == label)
        gap = np.abs(joint.coef_[k] - single.coef_[0]) / single.coef_std_[0]
        assert (gap < np.sqrt(2) * MC_ERROR).all()
        gap = np.abs(joint.intercept_[k] - single.intercept_[0]) / single.intercept_std_[0]
        assert gap < np.sqrt(2) * MC_ERROR


@only_particles
def test_probabilities_are_normalised_particle_by_particle(iris, rng, seed):
    X, y = iris
    clf = BayesianProbitRegression(LaplaceDraws(n_particles=60), random_state=seed).fit(X, y)
    clf.posterior_.weights = rng.dirichlet(np.ones(60))
    proba = clf.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-13)
    table = clf.posterior_.particles.reshape(60, K, 3)
    phi = norm.cdf(table[:, :, 0] + np.einsum("np,mkp->nmk", X, table[:, :, 1:]))
    direct = phi / phi.sum(axis=2, keepdims=True)
    expected = np.einsum("nmk,m->nk", direct, clf.posterior_.weights)
    assert_allclose(proba, expected, rtol=1e-10)
    assert_array_equal(clf.predict(X), clf.classes_[expected.argmax(axis=1)])
    low, high = clf.predict_quantiles(X, [0.0, 1.0]).transpose(2, 0, 1)
    assert_allclose(low, direct.min(axis=1), rtol=1e-9)
    assert_allclose(high, direct.max(axis=1), rtol=1e-9)


@only_particles
def test_binary_probabilities_are_averages_of_phi(rng, seed):
    X = rng.normal(size=(50, 2))
    y = np.where(X[:, 0] + rng.normal(size=50) > 0, "yes", "no")
    clf = BayesianProbitRegression(LaplaceDraws(n_particles=60), random_state=seed).fit(X, y)
    clf.posterior_.weights = rng.dirichlet(np.ones(60))
    theta, weights = clf.posterior_.particles, clf.posterior_.weights
    for factor in (1.0, 10.0, 1000.0):
        eta = theta[:, 0] + factor * X @ theta[:, 1:].T
        proba = clf.predict_proba(factor * X)
        assert_allclose(proba[:, 1], norm.cdf(eta) @ weights, rtol=1e-9, atol=1e-300)
        assert_allclose(proba[:, 0], norm.cdf(-eta) @ weights, rtol=1e-9, atol=1e-300)
        assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-13)


@only_particles
def test_class_weights_multiply_sample_weights(iris, rng, seed):
    X, y = iris
    w = rng.uniform(0.5, 2.0, size=len(y))
    engine, factor = LaplaceDraws(n_particles=100), {"setosa": 2.0, "versicolor": 0.5}
    one = BayesianProbitRegression(
        engine, standardize=False, class_weight=factor, random_state=seed
    ).fit(X, y, w)
    product = w * np.array([factor.get(label, 1.0) for label in y])
    other = BayesianProbitRegression(engine, standardize=False, random_state=seed)
    assert_allclose(one.coef_, other.fit(X, y, product).coef_, rtol=1e-9)


def test_separated_classes_have_the_posterior_that_quadrature_gives(rng, seed):
    """One coefficient, all rows on the right side: the likelihood alone has no maximum."""
    X = np.concatenate([rng.uniform(0.5, 2.0, 15), -rng.uniform(0.5, 2.0, 15)])[:, None]
    target = ProbitTarget(X, X[:, 0] > 0, fit_intercept=False, prior=Normal(2.0))
    grid = np.linspace(-2.0, 25.0, 20_001)
    density = np.exp(target.log_density(grid[:, None]))
    density /= density.sum()
    mean = density @ grid
    sd = np.sqrt(density @ (grid - mean) ** 2)
    posterior = infer(target, "mcmc", random_state=seed)
    assert abs(posterior.mean()[0] - mean) < MC_ERROR * sd
    assert abs(posterior.std()[0] / sd - 1) < MC_ERROR
