"""Sparse Gaussian processes against dense linear algebra, quadrature, and scikit-learn's exact GP.

The second half asks of `SparseGPRegressor` what scikit-learn's own tests ask of its
`GaussianProcessRegressor`.
"""

import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp, ndtr, softmax
from scipy.stats import kstest, multivariate_normal, norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_param_validation

import small
from skstein import SparseGPRegressor, predictive
from skstein.gaussian_process.inducing import (
    JITTER,
    InducingPosterior,
    SplitKernel,
    log_marginal_likelihood,
)

APPROXIMATIONS = ["dtc", "fitc", "vfe"]
NOISY = 1.3 * RBF([0.7, 1.2]) + WhiteKernel(0.2)
NOISY_KERNELS = [
    NOISY,
    1.5 * (WhiteKernel(0.3) + RBF(0.8)) ** 2,
    DotProduct(1.0) + Matern(0.5, nu=1.5) * WhiteKernel(0.3) * 2.0 + RBF(1.0),
    RationalQuadratic(0.9, 1.1),
]
with_approximation = pytest.mark.parametrize("approximation", APPROXIMATIONS)
one_set_ignored = pytest.mark.filterwarnings("ignore:SparseGPRegressor.*one set of inducing inputs")
# Where data are few and bounds narrow, some optimum is at a bound.
bounds_ignored = pytest.mark.filterwarnings("ignore:The optimal value found")


@pytest.fixture
def data(rng):
    """Rows, two outcomes, a noise variance for each row, and inducing inputs among the rows."""
    X, y = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    return X, y, rng.uniform(0.1, 0.2, 50), X[:12] + 0.1


def noise_free(kernel, X, Z):
    """Two different arguments have no white noise in common, even where they are equal."""
    return kernel(X, Z.copy())


def white(kernel, X):
    return np.diag(kernel(X)) - np.diag(noise_free(kernel, X, X))


def dense(kernel, Z, X, alpha, approximation):
    """Covariance of the outcomes under an approximation, and the penalty of "vfe"."""
    inducing = noise_free(kernel, Z, Z)
    inducing += JITTER * np.diag(inducing).mean() * np.eye(len(Z))
    cross = noise_free(kernel, Z, X)
    explained = cross.T @ np.linalg.solve(inducing, cross)
    noise = white(kernel, X) + alpha
    rest = np.diag(noise_free(kernel, X, X) - explained)
    covariance = explained + np.diag(noise + (rest if approximation == "fitc" else 0.0))
    return covariance, 0.5 * np.sum(rest / noise) if approximation == "vfe" else 0.0


def dense_lml(kernel, Z, X, y, alpha, approximation):
    covariance, penalty = dense(kernel, Z, X, alpha, approximation)
    return sum(multivariate_normal(cov=covariance).logpdf(column) - penalty for column in y.T)


# The posterior at one set of inducing inputs.


@pytest.mark.parametrize("kernel", NOISY_KERNELS)
@with_approximation
def test_log_marginal_likelihood_is_that_of_the_dense_covariance(data, kernel, approximation):
    X, y, alpha, Z = data
    value, _ = log_marginal_likelihood(SplitKernel(kernel), Z, X, y, alpha, approximation)
    assert_allclose(value, dense_lml(kernel, Z, X, y, alpha, approximation), rtol=1e-9)


@pytest.mark.parametrize("kernel", NOISY_KERNELS)
@with_approximation
def test_gradient_is_that_of_finite_differences(data, kernel, approximation):
    X, y, alpha, Z = data

    def value(theta):
        split = SplitKernel(kernel.clone_with_theta(theta))
        return log_marginal_likelihood(split, Z, X, y, alpha, approximation)[0]

    _, gradient = log_marginal_likelihood(
        SplitKernel(kernel), Z, X, y, alpha, approximation, eval_gradient=True
    )
    steps = 1e-5 * np.eye(kernel.n_dims)
    expected = [(value(kernel.theta + s) - value(kernel.theta - s)) / 2e-5 for s in steps]
    assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


def test_white_noise_is_told_from_the_process(rng):
    X = rng.normal(size=(130, 2))
    for kernel in NOISY_KERNELS:
        split = SplitKernel(kernel)
        assert_allclose(split.noise(X), white(kernel, X), atol=1e-12)
        assert_allclose(split.signal(X), noise_free(kernel, X, X), atol=1e-12)


@pytest.mark.parametrize("step", [0.2, 1.0])
@with_approximation
def test_normaliser_of_a_step_is_that_of_quadrature(rng, approximation, step):
    """One inducing input: the integral over its value v by the trapezoidal rule, twice in a row."""
    kernel, Z, scale = 0.8 * RBF(1.5) + WhiteKernel(0.1), np.array([[0.3]]), 3.0
    split, v = SplitKernel(kernel), np.linspace(-12.0, 12.0, 20_001)
    posterior, log_q = InducingPosterior.prior(split, Z, 1), norm.logpdf(v)
    for _ in range(2):
        X, y, alpha = rng.normal(size=(4, 1)), rng.normal(size=4), rng.uniform(0.2, 0.4, 4)
        a = noise_free(kernel, Z, X)[0] / np.sqrt(0.8 * (1.0 + JITTER))
        noise, rest = 0.1 + alpha, 0.8 - a**2
        sd = np.sqrt(noise + (rest if approximation == "fitc" else 0.0))
        log_q = (1.0 - step) * log_q + step * norm.logpdf(v)
        log_q += step * scale * norm.logpdf(y, np.outer(v, a), sd).sum(axis=1)
        if approximation == "vfe":
            log_q -= step * scale * 0.5 * np.sum(rest / noise)
        expected = logsumexp(log_q) + np.log(v[1] - v[0])
        log_q -= expected
        posterior, found = posterior.stepped(
            split, X, y[:, None], alpha, approximation, step, scale
        )
        assert_allclose(found, expected, rtol=1e-9)
        root, shift = posterior.precision_root[0, 0], posterior.shift[0, 0]
        expected = norm.logpdf(v, shift / root, 1.0 / np.abs(root))
        assert_allclose(np.exp(log_q), np.exp(expected), atol=1e-9)


@with_approximation
def test_predictions_condition_the_joint_normal(data, approximation):
    """Mean and covariance of f against the dense formulas for the approximate joint normal."""
    X, y, alpha, Z = data
    Z, X_new = X[:12] + 0.1, X[20:25] + 0.3
    split = SplitKernel(NOISY)
    posterior, _ = InducingPosterior.prior(split, Z, 2).stepped(split, X, y, alpha, approximation)
    covariance, _ = dense(NOISY, Z, X, alpha, approximation)
    inducing = noise_free(NOISY, Z, Z) + JITTER * 1.3 * np.eye(12)
    new = np.linalg.solve(inducing, noise_free(NOISY, Z, X_new)).T @ noise_free(NOISY, Z, X)
    mean, variance = posterior.moments(split, X_new)
    expected = noise_free(NOISY, X_new, X_new) - new @ np.linalg.solve(covariance, new.T)
    assert_allclose(mean, new @ np.linalg.solve(covariance, y), atol=1e-8)
    assert_allclose(posterior.covariance(split, X_new), expected, atol=1e-8)
    assert_allclose(variance, np.diag(expected), atol=1e-8)
    assert_allclose(noise_free(NOISY, X_new, Z) @ posterior.weights(), mean, atol=1e-8)


def test_blocks_of_rows_change_nothing(data):
    X, y, alpha, Z = data
    split = SplitKernel(NOISY)
    whole = InducingPosterior.prior(split, Z, 2).stepped(split, X, y, alpha, "fitc")
    with config_context(working_memory=1e-3):  # two rows at a time
        blocks = InducingPosterior.prior(split, Z, 2).stepped(split, X, y, alpha, "fitc")
    assert_allclose(blocks[1], whole[1], rtol=1e-12)
    # Rows of the triangle have any sign.
    shifts = [p.shift * np.sign(np.diag(p.precision_root))[:, None] for p in (blocks[0], whole[0])]
    assert_allclose(*shifts, rtol=1e-9)


# The particles.


def wave(rng, n=60):
    """A function of two features, with noise; and a kernel for it."""
    X = rng.uniform(-2, 2, size=(n, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y, 1.0 * RBF([0.8, 2.0]) + WhiteKernel(0.04)


def fixed(kernel, **params):
    """An estimator of the kernel as it is, with four sets of ten inducing inputs."""
    params = {"n_inducing": 10, "n_particles": 4, "random_state": 0, **params}
    return SparseGPRegressor(kernel, optimizer=None, **params)


def spread_out(reg):
    """Give the particles of a fit uneven weights, so that all of them matter."""
    reg.posterior_.weights = np.array([0.4, 0.3, 0.2, 0.1])
    return reg


@one_set_ignored
@with_approximation
def test_weights_are_the_marginal_likelihoods(rng, seed, approximation):
    X, y, kernel = wave(rng)
    reg = fixed(kernel, approximation=approximation, random_state=seed).fit(X, y)
    Z = reg.inducing_inputs_
    assert Z.shape == (4, 10, 2)
    assert all(np.isin(z.view("f8,f8"), np.ascontiguousarray(X).view("f8,f8")).all() for z in Z)
    expected = [dense_lml(kernel, z, X, y[:, None], 1e-10, approximation) for z in Z]
    assert_allclose(reg.posterior_.log_densities, expected, rtol=1e-6)
    assert_allclose(reg.posterior_.weights, softmax(expected), atol=1e-5)
    assert_array_equal(reg.posterior_.particles, Z.reshape(4, 20))
    assert reg.posterior_.names[:3] == ("z[0].0", "z[0].1", "z[1].0")


@one_set_ignored
@pytest.mark.parametrize("batch_size", [1, 7, 30, 1000])
@pytest.mark.parametrize("max_iter", [1, 2])
@with_approximation
def test_epochs_of_batches_give_what_all_rows_give(rng, approximation, batch_size, max_iter):
    X, y, kernel = wave(rng)
    full = fixed(kernel, approximation=approximation).fit(X, y)
    reg = clone(full).set_params(batch_size=batch_size, max_iter=max_iter).fit(X, y)
    assert reg.n_iter_ == max_iter * -(-60 // min(batch_size, 60))
    assert_allclose(reg.posterior_.log_densities, full.posterior_.log_densities, rtol=1e-8)
    for found, expected in zip(
        reg.predict(X, return_cov=True), full.predict(X, return_cov=True), strict=True
    ):
        assert_allclose(found, expected, atol=1e-7)


@pytest.mark.filterwarnings("ignore:SparseGPRegressor.*one set of inducing inputs")
def test_step_sizes_of_ones_own_temper_the_likelihood(rng):
    """All rows in constant steps g: the likelihood is reached to the power 1 - (1 - g)^T."""
    X, y, kernel = wave(rng)
    reg = fixed(kernel, alpha=0.5, n_inducing=60, step_size=lambda t: 0.5, max_iter=2)
    with pytest.warns(ConvergenceWarning, match=r"less than a power of 0\.95 of the likelihood"):
        reg.fit(X, y)
    assert_allclose(reg.posterior_.diagnostics["posterior_power"], 0.75)
    # A power of a normal likelihood is a larger noise.
    exact = GaussianProcessRegressor(
        1.0 * RBF([0.8, 2.0]) + WhiteKernel(0.04),
        alpha=0.5 / 0.75 + 0.04 / 0.75 - 0.04,
        optimizer=None,
    ).fit(X, y)
    assert_allclose(reg.predict(X), exact.predict(X), atol=1e-6)
    assert_array_equal(reg.posterior_.history["power"], [0.5, 0.75])


@pytest.mark.parametrize("step", [0.0, -1.0, 1.5, np.nan])
def test_a_step_size_out_of_range_is_named(rng, step):
    X, y, kernel = wave(rng)
    with pytest.raises(ValueError, match=r"step_size\(0\) gave"):
        fixed(kernel, step_size=lambda t: step).fit(X, y)


@pytest.mark.parametrize("alpha", [1e-2, "rows"])
@pytest.mark.parametrize("kernel", [1.2 * RBF([0.8, 2.0]), 1.2 * RBF(0.8) + WhiteKernel(0.04)])
@pytest.mark.parametrize("approximation", ["dtc", "fitc"])
def test_all_training_inputs_give_the_exact_process(rng, approximation, kernel, alpha):
    X, y, _ = wave(rng)
    if alpha == "rows":
        alpha = rng.uniform(0.05, 0.3, 60)
    params = {"alpha": alpha, "optimizer": None, "normalize_y": True}
    exact = GaussianProcessRegressor(kernel, **params).fit(X, y)
    reg = SparseGPRegressor(kernel, approximation=approximation, n_inducing=60, **params).fit(X, y)
    assert reg.inducing_inputs_.shape == (1, 60, 2)
    assert_allclose(
        reg.log_marginal_likelihood_value_, exact.log_marginal_likelihood_value_, rtol=1e-6
    )
    X_new = rng.uniform(-2, 2, size=(30, 2))
    for option in ("return_std", "return_cov"):
        for found, expected in zip(
            reg.predict(X_new, **{option: True}),
            exact.predict(X_new, **{option: True}),
            strict=True,
        ):
            assert_allclose(found, expected, atol=3e-5)  # the jitter is felt


@pytest.mark.parametrize("approximation", ["dtc", "fitc"])
def test_all_training_inputs_give_the_exact_process_hyperparameters_too(rng, approximation):
    X, y, kernel = wave(rng)
    exact = GaussianProcessRegressor(kernel).fit(X, y)
    reg = SparseGPRegressor(kernel, approximation=approximation, n_inducing=60).fit(X, y)
    assert_allclose(reg.kernel_.theta, exact.kernel_.theta, atol=1e-3)
    assert_allclose(
        reg.log_marginal_likelihood_value_, exact.log_marginal_likelihood_value_, atol=1e-5
    )
    theta = exact.kernel_.theta + 0.1
    for found, expected in zip(
        reg.log_marginal_likelihood(theta, eval_gradient=True),
        exact.log_marginal_likelihood(theta, eval_gradient=True),
        strict=True,
    ):
        assert_allclose(found, expected, rtol=1e-4)


def paper_function(x):
    """Appendix H.3.1 of the paper."""
    wiggle = np.sin(3.53 * np.pi * x) + np.cos(7.7 * np.pi * x)
    return 3 * x**2 + wiggle * np.exp(-1.6 * np.pi * np.abs(x))


@pytest.mark.parametrize("noise", [1e-3, small.later(1e-2)])
@pytest.mark.parametrize("params", [{}, {"batch_size": 128}])
def test_the_function_of_the_paper(rng, seed, noise, params):
    """16 particles of 128 inducing inputs predict as well as the exact process."""
    x = rng.uniform(-0.5, 0.5, 2048)
    X, y = x[:, None], paper_function(x) + 0.1 * rng.normal(size=2048)
    kernel = RBF(0.1 * np.median(np.abs(x[:, None] - x))) + WhiteKernel(noise)
    grid = np.linspace(-0.5, 0.5, 500)
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y).predict(grid[:, None])
    reg = SparseGPRegressor(kernel, optimizer=None, random_state=seed, **params).fit(X, y)
    errors = [
        np.sqrt(np.mean((mean - paper_function(grid)) ** 2))
        for mean in (reg.predict(grid[:, None]), exact)
    ]
    assert abs(errors[0] - errors[1]) < 0.002
    assert reg.posterior_.diagnostics["ess"] > 2.0


def particle_moments(reg, X):
    """Mean (n, m) and covariance (n, n, m) of the outcome, one particle at a time."""
    split = SplitKernel(reg.kernel_)
    means = np.stack([p.moments(split, X)[0][:, 0] for p in reg._particles], axis=-1)
    noise = np.diag(split.noise(X))
    covariances = np.stack([p.covariance(split, X) + noise for p in reg._particles], axis=-1)
    return means, covariances


@pytest.fixture
def mixture(rng):
    X, y, kernel = wave(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        reg = fixed(kernel).fit(X, y)
    return spread_out(reg), X[:9] + 0.2


def test_predictions_are_those_of_the_mixture(mixture):
    reg, X = mixture
    weights = reg.posterior_.weights
    means, covariances = particle_moments(reg, X)
    mean = means @ weights
    gaps = means - mean[:, None]
    covariance = covariances @ weights + (weights * gaps) @ gaps.T
    assert_allclose(reg.predict(X), mean, atol=1e-10)
    assert_allclose(reg.predict(X, return_std=True)[0], mean, atol=1e-10)
    assert_allclose(reg.predict(X, return_std=True)[1], np.sqrt(np.diag(covariance)), rtol=1e-8)
    assert_allclose(reg.predict(X, return_cov=True)[1], covariance, atol=1e-10)

    stds = np.sqrt(np.einsum("iim->im", covariances))
    y = mean + 0.1
    expected = logsumexp(norm.logpdf(y[:, None], means, stds), b=weights, axis=1)
    assert_allclose(reg.log_predictive(X, y), expected, rtol=1e-8)
    q = np.array([0.01, 0.3, 0.5, 0.99])
    quantiles = reg.predict_quantiles(X, q)
    reached = ndtr((quantiles[:, :, None] - means[:, None]) / stds[:, None]) @ weights
    assert_allclose(reached, np.broadcast_to(q, reached.shape), atol=1e-9)
    assert_allclose(reg.predict_interval(X, 0.4), reg.predict_quantiles(X, [0.3, 0.7]))

    uncertainty = reg.predict_uncertainty(X)
    assert_allclose(uncertainty.total, np.diag(covariance), rtol=1e-8)
    assert_allclose(uncertainty.aleatoric, 0.04, rtol=1e-10)
    assert_allclose(uncertainty.epistemic, np.diag(covariance) - 0.04, rtol=1e-6)


def test_samples_have_the_distribution_of_the_mixture(mixture):
    reg, X = mixture
    weights = reg.posterior_.weights
    means, covariances = particle_moments(reg, X)
    stds = np.sqrt(np.einsum("iim->im", covariances))
    n = 20_000
    joint = reg.sample_y(X, n, random_state=1)
    scalable = reg.sample_predictive(X, n, random_state=1)
    for samples in (joint, scalable):
        assert samples.shape == (9, n)
        for row, m, s in zip(samples, means, stds, strict=True):
            p = kstest(row, lambda y, m=m, s=s: ndtr((y[:, None] - m) / s) @ weights).pvalue
            assert p > 1e-6
    covariance = reg.predict(X, return_cov=True)[1]
    sd = np.sqrt(np.diag(covariance))
    error = 10.0 * np.outer(sd, sd) * np.sqrt(2.0 / n)  # tails are those of a mixture
    for samples in (joint, scalable):
        assert np.all(np.abs(np.cov(samples) - covariance) < error)
    assert_array_equal(reg.sample_predictive(X, 3, 5), reg.sample_predictive(X, 3, 5))
    assert_array_equal(reg.sample_y(X, 3), reg.sample_y(X, 3))


def test_joint_draws_of_equal_rows_are_equal_however_many(rng):
    X = rng.uniform(-3, 3, size=(60, 1))
    kernel = RBF(0.1) + WhiteKernel(1e-4)
    reg = SparseGPRegressor(kernel, optimizer=None, n_inducing=5, n_particles=1).fit(X, X[:, 0])
    for n_samples in (3, 40_000):
        draws = reg.sample_mean(np.tile([[0.05]], (200, 1)), n_samples, random_state=0)
        assert np.abs(draws - draws[0]).max() < 1e-3


def test_a_row_without_variance_is_drawn(rng):
    X = rng.uniform(-3, 3, size=(60, 2))
    kernel = DotProduct(0.0, "fixed") + WhiteKernel()
    reg = SparseGPRegressor(kernel, optimizer=None, n_inducing=10).fit(X, X[:, 0])
    assert_allclose(reg.sample_mean(np.zeros((1, 2)), 3, random_state=0), 0.0, atol=1e-8)


def test_samples_of_the_mean_have_no_noise(mixture):
    """What they add to the mean is what more data could take away."""
    reg, X = mixture
    n = 20_000
    means = reg.sample_mean(X, n, random_state=1)
    assert means.shape == (9, n)
    variance = reg.predict_uncertainty(X).epistemic
    assert (np.abs(means.mean(axis=1) - reg.predict(X)) < 5.0 * np.sqrt(variance / n)).all()
    assert_allclose(means.var(axis=1), variance, rtol=5.0 * np.sqrt(6.0 / n))
    assert_array_equal(reg.sample_mean(X, 3, 5), reg.sample_mean(X, 3, 5))


def test_particles_without_weight_are_passed_over(mixture):
    reg, X = mixture
    reg.posterior_.weights = np.array([0.7, 0.3, 1e-20, 0.0])
    means, _ = particle_moments(reg, X)
    assert_allclose(reg.predict(X), means[:, :2] @ [0.7, 0.3], atol=1e-10)
    reg._particles = (*reg._particles[:2], None, None)
    assert reg.predict_interval(X).shape == (9, 2)
    assert reg.sample_y(X, 2).shape == reg.sample_predictive(X, 2).shape == (9, 2)


def test_several_outcomes_share_the_weights(rng):
    """Fields of each outcome, and the joint density, from particles of both."""
    X, y, kernel = wave(rng)
    Y = np.column_stack([y, 3.0 + 10.0 * np.roll(y, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        reg = spread_out(fixed(kernel, normalize_y=True).fit(X, Y))
        singles = [spread_out(fixed(kernel, normalize_y=True).fit(X, column)) for column in Y.T]
    new = X[:7] + 0.1
    for method, options in [
        ("predict", {}),
        ("predict", {"return_std": True}),
        ("predict_quantiles", {"q": [0.1, 0.6]}),
        ("predict_interval", {}),
    ]:
        found = np.asarray(getattr(reg, method)(new, **options))
        expected = [np.asarray(getattr(single, method)(new, **options)) for single in singles]
        axis = found.ndim - 1 if method == "predict" else 1
        assert_allclose(found, np.stack(expected, axis=axis), rtol=1e-8)
    for part, value in reg.predict_uncertainty(new).items():
        expected = [single.predict_uncertainty(new)[part] for single in singles]
        assert_allclose(value, np.stack(expected, axis=1), rtol=1e-6)
    log_densities = []
    for i in range(4):
        for single in singles:
            single.posterior_.weights = np.eye(4)[i]
        columns = [s.log_predictive(new, c) for s, c in zip(singles, Y[:7].T, strict=True)]
        log_densities.append(np.sum(columns, axis=0))
    expected = logsumexp(log_densities, axis=0, b=reg.posterior_.weights[:, None])
    assert_allclose(reg.log_predictive(new, Y[:7]), expected, rtol=1e-8)
    assert reg.sample_predictive(new, 5).shape == reg.sample_y(new, 5).shape == (7, 2, 5)
    with pytest.raises(ValueError, match="y has 3 columns, but the fit was on 2 outcomes"):
        reg.log_predictive(new, np.ones((7, 3)))


# How it is used.


@one_set_ignored
@pytest.mark.parametrize("batch_size", [None, 20])
def test_the_result_depends_on_the_seed_alone(rng, batch_size):
    X, y, kernel = wave(rng)
    reg = fixed(kernel, batch_size=batch_size).fit(X, y)
    for other in (
        clone(reg).fit(X, y),
        clone(reg).set_params(n_jobs=2).fit(X, y),
        pickle.loads(pickle.dumps(reg)),
    ):
        assert_array_equal(other.posterior_.particles, reg.posterior_.particles)
        assert_array_equal(other.posterior_.weights, reg.posterior_.weights)
        for found, expected in zip(
            other.predict(X, return_std=True), reg.predict(X, return_std=True), strict=True
        ):
            assert_array_equal(found, expected)
    other = clone(reg).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.posterior_.particles, reg.posterior_.particles)


@one_set_ignored
def test_predictive_reaches_it(rng):
    X, y, kernel = wave(rng)
    pipeline = make_pipeline(StandardScaler(), fixed(kernel))
    search = GridSearchCV(pipeline, {"sparsegpregressor__alpha": [1e-10, 1e-2]}, cv=2).fit(X, y)
    found, inner = predictive(search, X[:5]), search.best_estimator_[-1]
    X_inner = search.best_estimator_[0].transform(X[:5])
    assert_array_equal(found.mean(), inner.predict(X_inner))
    assert_array_equal(found.std(), inner.predict(X_inner, return_std=True)[1])
    assert_array_equal(found.interval(0.8), inner.predict_interval(X_inner, 0.8))
    assert_array_equal(found.sample_predictive(4, 0), inner.sample_predictive(X_inner, 4, 0))
    assert_array_equal(found.uncertainty().total, inner.predict_uncertainty(X_inner).total)
    assert_array_equal(predictive(fixed(kernel), X).mean(), np.zeros(60))


def test_predictive_of_the_exponential_of_a_process(rng):
    """The log-normal moments: noise alone is aleatoric, all that is not known of f epistemic."""
    X, y, kernel = wave(rng)
    reg = fixed(kernel, n_inducing=60)
    transformed = TransformedTargetRegressor(reg, func=np.log, inverse_func=np.exp)
    found = predictive(transformed.fit(X, np.exp(y)), X[:6] + 3.0)
    mean, std = transformed.regressor_.predict(X[:6] + 3.0, return_std=True)
    noise = 0.04
    assert_allclose(found.mean(), np.exp(mean + 0.5 * std**2), rtol=1e-9)
    uncertainty = found.uncertainty()
    total = np.expm1(std**2) * np.exp(2 * mean + std**2)
    aleatoric = np.expm1(noise) * np.exp(2 * mean + 2 * std**2 - noise)
    assert_allclose(uncertainty.total, total, rtol=1e-6)
    assert_allclose(uncertainty.aleatoric, aleatoric, rtol=1e-6)
    assert_allclose(uncertainty.epistemic, total - aleatoric, rtol=1e-6)

    several = TransformedTargetRegressor(
        reg, transformer=FunctionTransformer(), check_inverse=False
    )
    several.fit(X, np.column_stack([y, y]))
    with pytest.raises(TypeError, match="only a single outcome can be transformed"):
        predictive(several, X).mean()


class Snapshots:
    """Callback that keeps what is predicted after every step, and stops after ``stop``."""

    def __init__(self, X, stop=None):
        self.X, self.stop, self.means, self.n_iter = X, stop, [], []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        pass

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        if context.task_name != "round" or fitted_estimator is None:
            return False
        self.means.append(fitted_estimator.predict(self.X))
        self.n_iter.append(fitted_estimator.n_iter_)
        return len(self.means) == self.stop


@one_set_ignored
def test_callbacks_see_every_step(rng, capsys):
    X, y, kernel = wave(rng)
    snapshots = Snapshots(X)
    reg = fixed(kernel, batch_size=20, verbose=1).set_callbacks(snapshots).fit(X, y)
    assert snapshots.n_iter == [1, 2, 3] and reg.n_iter_ == 3
    assert_array_equal(snapshots.means[-1], reg.predict(X))
    assert not np.allclose(snapshots.means[0], snapshots.means[-1], atol=1e-3)
    assert capsys.readouterr().out.count("[SparseGPRegressor] iteration") == 3
    stopped = Snapshots(X, stop=2)
    assert fixed(kernel, batch_size=20).set_callbacks(stopped).fit(X, y).n_iter_ == 2


class SinglePrecision(RBF):
    """A kernel of smooth functions, so rounded that its matrices are not positive definite."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.float64(np.float32(super().__call__(X, Y)))


def test_problems_are_warned_of():
    X, y, kernel = wave(np.random.default_rng(0), 200)  # of others two sets may be as likely
    with pytest.warns(ConvergenceWarning, match="one set of inducing inputs has .* of the weight"):
        fixed(kernel, n_inducing=3, approximation="vfe").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="more than 1e-10 of its mean diagonal was added"):
        fixed(SinglePrecision(2.0) + WhiteKernel(0.04), n_inducing=60).fit(X[:60], y[:60])


@pytest.mark.parametrize(
    "kernel",
    [None, RBF() + WhiteKernel(), 1.0 * RBF([1, 1], (1e-9, 1e9)) + WhiteKernel()],
)
@pytest.mark.parametrize("factor", [1e-4, 1e4])
@pytest.mark.filterwarnings("ignore:The optimal value found")  # for the noise, which is small
def test_length_scales_start_again_if_they_are_far_from_the_distances(factor, kernel, rng):
    X, y, _ = wave(rng)
    near, far = (SparseGPRegressor(kernel).fit(size * X, y) for size in (1.0, factor))
    assert_allclose(far.predict(factor * X), near.predict(X), atol=1e-3)


@bounds_ignored
@one_set_ignored
def test_a_second_start_leaves_alone_what_rows_do_not_tell(rng):
    X, noise = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)]), rng.normal(size=60)
    reg = SparseGPRegressor(1.0 * RBF([1.0, 1.0, 1.0]) + WhiteKernel()).fit(X, noise)
    assert_allclose(reg.kernel_.k1.k2.length_scale[2], 1.0)  # of a constant feature
    starts = []

    def optimizer(objective, start, bounds):
        starts.append(start)
        return start, objective(start)[0]

    kernel = 2.0 * ExpSineSquared() + 3.0 * RBF() + WhiteKernel()
    SparseGPRegressor(kernel, optimizer=optimizer).fit(10.0 * X[:, :1], noise)
    names = [part.name for part in kernel.hyperparameters]
    first, second, third = (dict(zip(names, np.exp(s), strict=True)) for s in starts)
    moved = {name for name in names if first[name] != second[name]}
    constants = {name for name in names if name.endswith("constant_value")}
    assert moved == {*constants, "k1__k2__k2__length_scale"}
    assert_allclose([second[name] for name in constants], np.mean(noise**2))
    assert_allclose(third["k1__k2__k2__length_scale"], 0.25 * second["k1__k2__k2__length_scale"])
    assert all(third[name] == second[name] for name in set(names) - {"k1__k2__k2__length_scale"})
    SparseGPRegressor(DotProduct() + WhiteKernel(), optimizer=optimizer).fit(X, noise)
    assert len(starts) == 4


@one_set_ignored
@bounds_ignored
@pytest.mark.parametrize("steep", [False, True])
def test_only_the_best_search_is_warned_of(steep, monkeypatch):
    """Of noise two searches follow the first, which wins here; they stop on a slope."""
    rng = np.random.default_rng(0)
    X, y, starts = rng.normal(size=(30, 1)), rng.normal(size=30), []

    def search(objective, start, bounds):
        starts.append(start)
        wins = np.array_equal(start, starts[0])
        slope = np.full(len(start), 9.0 if steep or not wins else 0.0)
        return start, -1000.0 if wins else objective(start)[0], {"grad": slope}

    monkeypatch.setattr("scipy.optimize.fmin_l_bfgs_b", search)
    with pytest.warns(ConvergenceWarning, match="has a slope") if steep else nullcontext():
        SparseGPRegressor(RBF(1e4) + WhiteKernel()).fit(X, y)
    assert len({tuple(start) for start in starts}) == 3


@pytest.mark.parametrize("offset", [20.0, 100.0])
def test_outcomes_far_from_zero_have_their_optimum(offset, rng):
    """Unlike a nearly straight function with much noise, some hundred nats worse."""
    X, y, _ = wave(rng, n=150)
    reg = SparseGPRegressor(n_inducing=60).fit(X, y + offset)
    start = ConstantKernel(offset**2) * RBF(2.0) + WhiteKernel(0.04)
    near = SparseGPRegressor(start, n_inducing=60).fit(X, y + offset)
    assert reg.log_marginal_likelihood_value_ > near.log_marginal_likelihood_value_ - 40.0


@one_set_ignored
def test_only_some_rows_are_used_for_the_hyperparameters_and_none_is_kept(rng):
    X, y, kernel = wave(rng)
    reg = SparseGPRegressor(
        kernel, n_inducing=10, n_particles=2, n_optimizer_samples=25, random_state=0
    ).fit(X, y)
    Z, X_few, y_few, alpha = reg._optimizer_rows
    assert X_few.shape == (25, 2) and len(np.unique(X_few, axis=0)) == 25
    assert_array_equal(Z, reg.inducing_inputs_[0])
    expected = dense_lml(reg.kernel_, Z, X_few, y_few, alpha, "dtc")
    assert_allclose(reg.log_marginal_likelihood_value_, expected, rtol=1e-6)


# Input that must be refused in words.


@pytest.mark.parametrize(
    ("params", "X", "y", "message"),
    [
        ({"kernel": RBF}, None, None, "'kernel' parameter"),
        ({"kernel": CompoundKernel([RBF(), RBF()])}, None, None, "kernel must be a single kernel"),
        ({"kernel": RBF([1.0, 2.0, 3.0])}, None, None, "Anisotropic kernel"),
        ({"kernel": WhiteKernel()}, None, None, "is noise alone"),
        ({"kernel": RBF(), "alpha": 0.0}, None, None, "positive for every row"),
        ({"alpha": np.full(60, -1.0)}, None, None, "positive for every row"),
        ({"alpha": np.full(60, np.nan)}, None, None, "positive for every row"),
        ({"alpha": np.ones(7)}, None, None, "alpha must be a scalar or an array"),
        ({"alpha": np.ones((60, 1))}, None, None, "alpha must be a scalar or an array"),
        ({"n_inducing": 0}, None, None, "'n_inducing' parameter"),
        ({"n_particles": 0}, None, None, "'n_particles' parameter"),
        ({"approximation": "sor"}, None, None, "'approximation' parameter"),
        ({"optimizer": "adam"}, None, None, "'optimizer' parameter"),
        ({"n_targets": 3}, None, None, "n_targets=3"),
        (
            {"kernel": RBF(length_scale_bounds=(1e-5, np.inf)), "n_restarts_optimizer": 2},
            None,
            None,
            "all bounds are finite",
        ),
        ({}, np.full((60, 2), 1e60), None, "X holds a value of magnitude"),
        ({}, None, np.full(60, 1e60), "y holds a value of magnitude"),
        ({}, np.full((60, 2), np.nan), None, "NaN"),
        ({}, None, np.array([*"ab"] * 30), "y has text in it"),
        ({}, np.ones((60, 0)), None, "0 feature"),
    ],
)
def test_hostile_input_is_refused(rng, params, X, y, message):
    X_fine, y_fine, _ = wave(rng)
    reg = SparseGPRegressor(**{"n_inducing": 10, "n_particles": 2, **params})
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        reg.fit(X_fine if X is None else X, y_fine if y is None else y)
    assert not isinstance(caught.value, np.linalg.LinAlgError)


def test_sparse_matrices_are_refused(rng):
    X, y, _ = wave(rng)
    with pytest.raises(TypeError, match="dense"):
        SparseGPRegressor().fit(sparse.csr_array(X), y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("case", "scale"),
    small.crossed(
        ["plain", "constant y", "constant X", "two rows", "repeated"], [1.0, 1e-12, 1e12]
    ),
)
def test_degenerate_input_gives_finite_predictions(rng, case, scale):
    X, y, _ = wave(rng, 20)
    if case == "constant y":
        y = np.full(20, 3.0)
    elif case == "constant X":
        X = np.ones((20, 2))
    elif case == "two rows":
        X, y = X[:2], y[:2]
    elif case == "repeated":
        X, y = np.repeat(X[:3], 7, axis=0)[:20], y
    for normalize_y in (True, False):
        reg = SparseGPRegressor(
            n_inducing=5, n_particles=3, normalize_y=normalize_y, random_state=0
        ).fit(scale * X, scale * y)
        assert np.isfinite(reg.posterior_.weights).all()
        assert np.isfinite(np.array(reg.predict(scale * X, return_std=True))).all()
        assert np.isfinite(reg.predict_interval(scale * X)).all()
        assert np.isfinite(reg.log_predictive(scale * X, scale * y)).all()
        assert np.isfinite(reg.sample_predictive(scale * X, 2)).all()


# scikit-learn's checks, and its tests of GaussianProcessRegressor.


# Some of the checks' toy data leave hyper-parameters at their bounds, which is rightly said.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@small.with_checks([SparseGPRegressor(n_inducing=20, n_particles=3, batch_size=40)])
def test_sklearn_check(estimator, check):
    check(estimator)


def test_every_parameter_is_validated():
    check_param_validation("SparseGPRegressor", SparseGPRegressor())


X = np.array([[1.0], [3.0], [5.0], [6.0], [7.0], [8.0]])
X_NEW = np.array([[2.0], [4.0], [5.5], [6.5], [7.5]])
Y = X[:, 0] * np.sin(X[:, 0])
FIXED = RBF(1.0, "fixed")
FREE_KERNELS = [
    RBF(1.0),
    RBF(1.0, (1e-3, 1e3)),
    ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-3, 1e3)),
    ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-3, 1e3)) + ConstantKernel(1e-5, (1e-5, 1e2)),
    ConstantKernel(0.1, (1e-2, 1e2)) * RBF(1.0, (1e-3, 1e3)) + ConstantKernel(1e-5, (1e-5, 1e2)),
]
KERNELS = [*FREE_KERNELS, FIXED]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)
every_free_kernel = pytest.mark.parametrize("kernel", FREE_KERNELS, ids=str)


@bounds_ignored
@every_kernel
def test_without_noise_it_interpolates(kernel):
    reg = SparseGPRegressor(kernel).fit(X, Y)
    mean, covariance = reg.predict(X, return_cov=True)
    assert_allclose(mean, Y, atol=1e-6)
    assert_allclose(np.diag(covariance), 0.0, atol=1e-6)
    assert_allclose(reg.predict(X), Y, atol=1e-6)


@bounds_ignored
@every_free_kernel
def test_the_optimiser_raises_the_likelihood_to_a_maximum_within_the_bounds(kernel):
    reg = SparseGPRegressor(kernel).fit(X, Y)
    theta, (low, high) = reg.kernel_.theta, reg.kernel_.bounds.T
    value, gradient = reg.log_marginal_likelihood(theta, eval_gradient=True)
    assert value > reg.log_marginal_likelihood(kernel.theta)
    assert value == pytest.approx(reg.log_marginal_likelihood(), rel=1e-9)
    assert np.all((theta >= low - 1e-10) & (theta <= high + 1e-10))
    scale = 1e-3 * abs(value)
    assert np.all((np.abs(gradient) < scale) | (theta == low) | (theta == high))
    assert kernel == clone(kernel) and reg.kernel is kernel


@bounds_ignored
@every_kernel
def test_cloning_of_the_kernel(kernel):
    reg = SparseGPRegressor(kernel).fit(X, Y)
    assert reg.kernel_ is not kernel
    before, other = reg.kernel_.theta, np.ones(kernel.n_dims)
    reg.log_marginal_likelihood(other)
    assert_array_equal(reg.kernel_.theta, before)
    reg.log_marginal_likelihood(other, clone_kernel=False)
    assert_allclose(reg.kernel_.theta, other, rtol=1e-12)


@every_free_kernel
@pytest.mark.parametrize("length_scale", np.logspace(-3, 3, 7))
def test_gradient_of_the_likelihood_over_six_orders(kernel, length_scale):
    kernel = clone(kernel)
    name = next(name for name in kernel.get_params() if name.endswith("length_scale"))
    kernel.set_params(**{name: length_scale})
    reg = SparseGPRegressor(kernel, optimizer=None, alpha=1e-3).fit(X, Y)
    theta = kernel.theta
    value, gradient = reg.log_marginal_likelihood(theta, eval_gradient=True)
    steps = 1e-4 * np.eye(len(theta))
    values = [
        [reg.log_marginal_likelihood(theta + k * step) for k in (-2, -1, 1, 2)] for step in steps
    ]
    expected = np.array([(v[0] - 8 * v[1] + 8 * v[2] - v[3]) / 12e-4 for v in values])
    assert_allclose(gradient, expected, rtol=1e-4, atol=1e-9 * abs(value) / 1e-4)


@every_free_kernel
def test_tiny_noise_leaves_value_and_gradient_their_digits(kernel):
    """Central differences of order eight: a rounding of 1e-11 in the values would be seen."""
    value = SparseGPRegressor(kernel, optimizer=None).fit(X, Y).log_marginal_likelihood
    theta, weights = kernel.theta, [4 / 5, -1 / 5, 4 / 105, -1 / 280]
    _, gradient = value(theta, eval_gradient=True)
    expected = [
        sum(w * (value(theta + k * h) - value(theta - k * h)) for k, w in enumerate(weights, 1))
        for h in 1e-3 * np.eye(len(theta))
    ]
    assert_allclose(gradient, np.divide(expected, 1e-3), rtol=0, atol=1e-10 * abs(gradient).max())


@every_kernel
def test_before_fit_predictions_are_those_of_the_prior(kernel):
    reg = SparseGPRegressor(kernel)
    mean, covariance = reg.predict(X, return_cov=True)
    assert_array_equal(mean, np.zeros(6))
    assert_array_equal(covariance, kernel(X))
    assert_allclose(reg.predict(X, return_std=True)[1], np.sqrt(kernel.diag(X)))
    draws = reg.sample_y(X, 4000)
    assert np.all(np.abs(np.cov(draws) - covariance) < 5 * covariance.max() * np.sqrt(2 / 4000))


@bounds_ignored
def test_the_default_kernel_has_noise():
    explicit = SparseGPRegressor(ConstantKernel() * RBF() + WhiteKernel())
    assert_array_equal(
        SparseGPRegressor().predict(X, return_cov=True)[1], explicit.predict(X, return_cov=True)[1]
    )
    assert_array_equal(
        SparseGPRegressor().fit(X, Y).kernel_.theta, explicit.fit(X, Y).kernel_.theta
    )


@pytest.mark.parametrize("method", ["predict_interval", "predict_uncertainty", "sample_predictive"])
def test_what_needs_a_posterior_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(SparseGPRegressor(), method)(X)
    with pytest.raises(NotFittedError):
        SparseGPRegressor().log_marginal_likelihood(np.zeros(3))
    with pytest.raises(NotFittedError):
        _ = SparseGPRegressor().inducing_inputs_


@bounds_ignored
@every_kernel
def test_sample_statistics(kernel, seed):
    reg = SparseGPRegressor(kernel).fit(X, Y)
    mean, covariance = reg.predict(X_NEW, return_cov=True)
    samples = reg.sample_y(X_NEW, 100_000, random_state=seed)
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(samples.mean(axis=1) - mean) < 5 * sd / np.sqrt(1e5))
    assert np.all(np.abs(np.cov(samples) - covariance) < 5 * np.outer(sd, sd) * np.sqrt(2e-5))


@bounds_ignored
@pytest.mark.parametrize("optimizer", [None, "fmin_l_bfgs_b"])
@pytest.mark.parametrize("kernel", [None, RBF()])
def test_without_an_optimiser_the_kernel_stays(optimizer, kernel):
    reg = SparseGPRegressor(kernel, optimizer=optimizer).fit(X, Y)
    assert np.all(reg.kernel_.theta == 0.0) == (optimizer is None)


# A constant outcome drives hyper-parameters to where only the jitter stops them.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_kernel
@pytest.mark.parametrize("target", [Y, np.ones(6)])
def test_standard_deviations_are_those_of_the_covariance(kernel, target):
    reg = SparseGPRegressor(kernel).fit(X, target)
    mean, covariance = reg.predict(X_NEW, return_cov=True)
    other, std = reg.predict(X_NEW, return_std=True)
    assert_allclose(mean, other, rtol=1e-7, atol=1e-7)
    assert_allclose(np.sqrt(np.diag(covariance)), std, atol=1e-6)


def test_std_and_covariance_agree_for_a_kernel_of_low_rank():
    kernel = 9e5 * RBF([600.0, 1300.0]) + WhiteKernel(1e-5)
    inputs = np.array([[0, 0], [1.5, -0.8], [-1.5, 0], [0, -1.5], [0.8, 0.8], [-0.8, 1.5]])
    outcome = np.array([0.0, -4.7, 4.0, -1.3, -1.6, 3.3])
    reg = SparseGPRegressor(kernel, alpha=0.0, optimizer=None).fit(inputs, outcome)
    new = 2.0 * np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]])
    std, covariance = reg.predict(new, return_std=True)[1], reg.predict(new, return_cov=True)[1]
    assert_allclose(std, np.sqrt(np.diag(covariance)), rtol=1e-5)


# Without noise the last digits of the likelihood are rounding, in which a line search may get lost.
@pytest.mark.filterwarnings("ignore:SparseGPRegressor.*the search for hyper-parameters")
def test_an_anisotropic_kernel_finds_the_slow_direction(rng):
    inputs = rng.uniform(-1, 1, (50, 2))
    reg = SparseGPRegressor(RBF([1.0, 1.0])).fit(inputs, inputs[:, 0] + 0.1 * inputs[:, 1])
    assert reg.kernel_.length_scale[1] > 3 * reg.kernel_.length_scale[0]


@bounds_ignored
@pytest.mark.parametrize("seed", [193, small.later(0)])
def test_more_restarts_never_lower_the_likelihood(seed):
    """With 193 a restart beats noise, and other length scales beat both."""
    rng = np.random.default_rng(seed)
    inputs = 2 * rng.normal(size=(25, 2)) - 1
    y = np.sin(inputs).sum(axis=1) + np.sin(3 * inputs).sum(axis=1) + 0.1 * rng.normal(size=25)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF([1.0, 1.0], [(1e-4, 1e2)] * 2)
    kernel += WhiteKernel(1e-5, (1e-5, 1e1))
    values = [
        SparseGPRegressor(kernel, n_restarts_optimizer=n, n_inducing=15, n_particles=1)
        .set_params(random_state=seed)
        .fit(inputs, y)
        .log_marginal_likelihood_value_
        for n in range(4)
    ]
    assert np.all(np.diff(values) >= -1e-9)  # one optimum, from several starts


@bounds_ignored
@every_kernel
def test_normalising_y_is_normalising_it_by_hand(kernel):
    center, scale = Y.mean(), Y.std()
    by_hand = SparseGPRegressor(kernel).fit(X, (Y - center) / scale)
    reg = SparseGPRegressor(kernel, normalize_y=True).fit(X, Y)
    mean, std = by_hand.predict(X_NEW, return_std=True)
    found = reg.predict(X_NEW, return_std=True)
    assert_allclose(found[0], center + scale * mean, atol=1e-6)
    assert_allclose(found[1], scale * std, atol=1e-6)
    covariance = scale**2 * by_hand.predict(X_NEW, return_cov=True)[1]
    assert_allclose(reg.predict(X_NEW, return_cov=True)[1], covariance, atol=1e-6)


def test_an_outcome_of_large_variance():
    """Against scikit-learn's process, after both chose the length scale."""
    exact = GaussianProcessRegressor(RBF(1.0), normalize_y=True).fit(X, 10 * Y)
    reg = SparseGPRegressor(RBF(1.0), normalize_y=True).fit(X, 10 * Y)
    for found, expected in zip(
        reg.predict(X_NEW, return_std=True), exact.predict(X_NEW, return_std=True), strict=True
    ):
        assert_allclose(found, expected, rtol=1e-3)


def test_several_outcomes():
    both = np.column_stack([Y, 2 * Y])
    reg = SparseGPRegressor(RBF(1.0), optimizer=None).fit(X, Y)
    reg_2d = SparseGPRegressor(RBF(1.0), optimizer=None).fit(X, both)
    mean, std = reg.predict(X_NEW, return_std=True)
    mean_2d, std_2d = reg_2d.predict(X_NEW, return_std=True)
    covariance = reg.predict(X_NEW, return_cov=True)[1]
    covariance_2d = reg_2d.predict(X_NEW, return_cov=True)[1]
    assert_allclose(mean_2d, np.column_stack([mean, 2 * mean]), rtol=1e-7)
    for target in range(2):
        assert_allclose(std_2d[:, target], std, rtol=1e-7)
        assert_allclose(covariance_2d[..., target], covariance, atol=1e-9)
    draws, draws_2d = reg.sample_y(X_NEW, 10), reg_2d.sample_y(X_NEW, 10)
    assert draws.shape == (5, 10) and draws_2d.shape == (5, 2, 10)
    assert_allclose(draws_2d[:, 0], draws, rtol=1e-7)


@bounds_ignored
@every_free_kernel
def test_equal_outcomes_have_the_hyperparameters_of_one(kernel):
    one = SparseGPRegressor(kernel, normalize_y=True).fit(X, Y)
    two = SparseGPRegressor(kernel, normalize_y=True).fit(X, np.column_stack([Y, Y]))
    gained = one.log_marginal_likelihood(two.kernel_.theta) - one.log_marginal_likelihood()
    assert abs(gained) < 1e-4


@bounds_ignored
@every_free_kernel
def test_an_optimiser_of_ones_own(kernel):
    rng = np.random.default_rng(0)  # fifty points of a line may all be worse than the start

    def optimizer(objective, start, bounds):
        best = start, objective(start, eval_gradient=False)
        low, high = np.maximum(-2, bounds[:, 0]), np.minimum(1, bounds[:, 1])
        for theta in rng.uniform(low, high, size=(50, len(start))):
            value = objective(theta, eval_gradient=False)
            assert np.isclose(objective(theta)[0], value)
            best = min(best, (theta, value), key=lambda pair: pair[1])
        return best

    reg = SparseGPRegressor(kernel, optimizer=optimizer).fit(X, Y)
    assert reg.log_marginal_likelihood() > reg.log_marginal_likelihood(kernel.theta)


@bounds_ignored
@every_kernel
def test_two_outcomes_at_the_same_input(kernel):
    outcome = np.append(Y, Y[0] + 1)
    grid = np.linspace(0, 10, 100)[:, None]
    found = [
        SparseGPRegressor(kernel, alpha=1e-2)
        .fit(np.vstack([X, X[0] + shift]), outcome)
        .predict(grid, return_std=True)
        for shift in (0.0, 1e-15)
    ]
    assert_allclose(found[0], found[1], atol=1e-5)


def test_bounds_that_are_reached_are_named():
    at_bound = "dimension {} of parameter {} is close to the specified {} bound"
    with pytest.warns(ConvergenceWarning, match=at_bound.format(0, "length_scale", "upper")):
        SparseGPRegressor(RBF(length_scale_bounds=[1e-5, 1e-3])).fit(X, Y)
    kernel = WhiteKernel(noise_level_bounds=[1e-5, 1e-3]) + RBF(length_scale_bounds=[1e3, 1e5])
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        SparseGPRegressor(kernel).fit(X, Y)
    messages = [str(warning.message) for warning in record]
    assert any(at_bound.format(0, "k1__noise_level", "upper") in text for text in messages)
    assert any(at_bound.format(0, "k2__length_scale", "lower") in text for text in messages)


@bounds_ignored
def test_a_hyperparameter_with_fixed_bounds():
    seasonal = ExpSineSquared(1.0, periodicity=1.0, periodicity_bounds="fixed")
    reg = SparseGPRegressor(50.0**2 * RBF(50.0) + seasonal + WhiteKernel()).fit(X, Y)
    assert reg.kernel_.k1.k2.periodicity == 1.0 and reg.kernel_.n_dims == 4


@bounds_ignored
@every_kernel
def test_a_constant_outcome(kernel, rng):
    reg = SparseGPRegressor(kernel, normalize_y=True).fit(X, np.ones(6))
    mean, covariance = reg.predict(X, return_cov=True)
    assert_allclose(mean, 1.0, rtol=1e-12)
    assert_allclose(np.diag(covariance), 0.0, atol=1e-8)
    both = np.column_stack([rng.normal(size=6), np.full(6, 2.0)])
    mean, covariance = reg.fit(X, both).predict(X, return_cov=True)
    assert mean.shape == (6, 2) and covariance.shape == (6, 6, 2)
    assert_allclose(mean[:, 1], 2.0, rtol=1e-12)
    assert_allclose(np.diag(covariance[..., 1]), 0.0, atol=1e-8)


@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("n_targets", [None, 1, 4])
def test_shapes_after_and_before_fit(rng, normalize_y, n_targets):
    inputs, new = rng.normal(size=(9, 6)), rng.normal(size=(7, 6))
    y = rng.normal(size=9 if n_targets is None else (9, n_targets))
    several = () if n_targets in (None, 1) else (n_targets,)
    reg = SparseGPRegressor(optimizer=None, normalize_y=normalize_y, n_targets=n_targets)
    for _ in ("before", "after"):
        mean, std = reg.predict(new, return_std=True)
        assert mean.shape == std.shape == reg.predict(new).shape == (7, *several)
        assert reg.predict(new, return_cov=True)[1].shape == (7, 7, *several)
        assert reg.sample_y(new, 5).shape == (7, *several, 5)
        reg.fit(inputs, y)
    assert reg.predict_interval(new).shape == (7, *several, 2)
    assert reg.predict_uncertainty(new).total.shape == (7, *several)


def test_questions_that_make_no_sense():
    reg = SparseGPRegressor(FIXED).fit(X, Y)
    with pytest.raises(RuntimeError, match="At most one of return_std or return_cov"):
        reg.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="Gradient can only be evaluated for theta!=None"):
        reg.log_marginal_likelihood(eval_gradient=True)


def test_hyperparameters_that_overflow_have_no_likelihood():
    reg = SparseGPRegressor(ConstantKernel() * RBF(), optimizer=None).fit(X, Y)
    value, gradient = reg.log_marginal_likelihood(np.array([800.0, 0.0]), eval_gradient=True)
    assert value == reg.log_marginal_likelihood(np.array([800.0, 0.0])) == -np.inf
    assert_array_equal(gradient, np.zeros(2))


class FirstColumn(ConstantKernel):
    """A kernel whose diagonal is a view of its argument."""

    def diag(self, X):
        return X[:, 0]


def test_the_input_is_not_modified():
    reg = SparseGPRegressor(FirstColumn() + RBF(), optimizer=None).fit(X, Y)
    for method in (reg.predict_uncertainty, reg.predict_interval, reg.sample_predictive):
        given = X_NEW.copy()
        method(given)
        assert_array_equal(given, X_NEW)


def test_names_of_the_features(rng):
    frame = pd.DataFrame(rng.normal(size=(20, 2)), columns=["depth", "age"])
    reg = SparseGPRegressor(optimizer=None).fit(frame, frame["age"])
    assert reg.posterior_.names[:2] == ("z[0].depth", "z[0].age")
    for method in (reg.predict_uncertainty, reg.predict_interval, reg.sample_predictive):
        method(frame)  # would warn of names that got lost
    with pytest.raises(ValueError, match="feature names"):
        reg.predict(frame.rename(columns={"age": "size"}))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_targets", [1, 2])
def test_components_of_the_noise_alone_have_the_moments_of_the_prediction(n_targets, rng):
    X = rng.uniform(-2.0, 2.0, size=(60, 2))
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1]])[:, :n_targets] + 0.1 * rng.normal(
        size=(60, n_targets)
    )
    reg = SparseGPRegressor(n_inducing=10, n_particles=3, random_state=0)
    reg.fit(X, y[:, 0] if n_targets == 1 else y)
    mean, std = reg.predict(X, return_std=True)
    for rows, (means, log_noise), weights in reg._row_noises(X):
        found = means @ weights
        spread = np.square(means - found[..., None]) @ weights
        assert_allclose(found, mean[rows], atol=1e-8)
        assert_allclose(spread + np.exp(log_noise[..., 0]), std[rows] ** 2, rtol=1e-8)
