"""The search for the mode against SciPy's optimisers, closed forms and differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgError
from scipy.optimize import minimize
from scipy.special import gamma
from scipy.stats import multivariate_normal

from densities import gaussian
from skstein import LogDensity
from skstein.priors import Normal
from skstein.targets import (
    Affine,
    LinearTarget,
    LogisticTarget,
    SoftmaxTarget,
    laplace_approximation,
)
from skstein.targets.laplace_at_mode import gaussian_bijection, hessian_of, whitening_laplace


def random_precision(rng, dim):
    A = rng.normal(size=(dim, dim))
    return A @ A.T / dim + 0.2 * np.eye(dim)


def regression(kind, rng, n=60, **params):
    X = rng.normal(size=(n, 3))
    eta = X @ [1.0, -0.5, 0.0] + 0.3 + rng.logistic(size=n)
    if kind == "linear":
        return LinearTarget(X, eta, **params)
    if kind == "softmax":
        return SoftmaxTarget(X, np.digitize(eta, [-1.0, 1.0]), n_classes=3, **params)
    return LogisticTarget(X, eta > 0, **params)


@pytest.mark.parametrize("kind", ["logistic", "softmax", "linear"])
def test_mode_is_where_scipy_finds_it(kind, rng):
    target = regression(kind, rng)
    laplace = laplace_approximation(target)
    found = minimize(
        lambda t: -target.log_density(t[None])[0],
        target.initial,
        jac=lambda t: -target.score(t[None])[0],
        method="BFGS",
        options={"gtol": 1e-6},
    )
    assert laplace.converged
    assert_allclose(laplace.mode, found.x, atol=1e-5)
    assert_allclose(laplace.hessian, target.hessian(laplace.mode), rtol=1e-12)
    # In posterior standard deviations what is left of the score is rounding.
    score = target.score(laplace.mode[None])[0]
    assert score @ np.linalg.solve(laplace.hessian, score) < 1e-14


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_many_rows_start_from_the_mode_of_a_few(kind, rng):
    target = regression(kind, rng, n=15_000)
    plain = laplace_approximation(target, target.initial)
    laplace = laplace_approximation(target)
    assert laplace.converged
    assert laplace.n_iter < plain.n_iter
    assert_allclose(laplace.mode, plain.mode, rtol=1e-7, atol=1e-9)


def test_rows_that_tell_nothing_do_not_stop_the_search(rng):
    """Every tenth row has no weight."""
    weights = np.where(np.arange(5000) % 10, 1.0, 0.0)
    target = regression("logistic", rng, n=5000, sample_weight=weights)
    assert laplace_approximation(target).converged


def test_a_gaussian_takes_one_step(rng):
    mean, precision = 5 * rng.normal(size=4), random_precision(rng, 4)
    laplace = laplace_approximation(gaussian(precision, mean, hessian=lambda theta: precision))
    assert laplace.n_iter == 1
    assert laplace.converged
    assert_allclose(laplace.mode, mean, atol=1e-10)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_tolerance_is_relative_to_the_posterior(factor, rng):
    """Coordinates in other units (and so another Hessian) take the same number of steps."""
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, size=60)
    plain = LogisticTarget(X, y, fit_intercept=False)

    def units(theta):
        return theta * factor

    target = LogDensity(
        lambda t: plain.log_density(units(t)),
        score=lambda t: plain.score(units(t)) * factor,
        hessian=lambda t: plain.hessian(units(t)) * factor**2,
        dim=2,
    )
    expected, found = laplace_approximation(plain), laplace_approximation(target)
    assert found.converged
    assert found.n_iter == expected.n_iter
    assert_allclose(found.mode * factor, expected.mode, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["logistic", "softmax", "linear"])
def test_a_thousand_times_the_rows_take_no_more_steps(kind, rng):
    X = rng.normal(size=(60, 2))
    y = np.digitize(X @ [1.0, -0.5] + rng.logistic(size=60), [-1.0, 1.0])
    make = {
        "logistic": lambda weight: LogisticTarget(X, y > 0, sample_weight=weight),
        "softmax": lambda weight: SoftmaxTarget(X, y, n_classes=3, sample_weight=weight),
        "linear": lambda weight: LinearTarget(X, y, sample_weight=weight),
    }[kind]
    once, often = (laplace_approximation(make(np.full(60, repeats))) for repeats in (1.0, 1000.0))
    assert once.converged and often.converged
    assert abs(often.n_iter - once.n_iter) <= 2


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_scale_tril_inverts_the_hessian(dim, rng):
    mean, precision = rng.normal(size=dim), random_precision(rng, dim)
    bijection = laplace_approximation(gaussian(precision, mean)).bijection
    scale_tril = bijection.matrix
    scale_tril = scale_tril if isinstance(scale_tril, np.ndarray) else scale_tril.toarray()
    assert_allclose(scale_tril, np.tril(scale_tril))
    assert (scale_tril.diagonal() > 0).all()
    assert_allclose(scale_tril @ scale_tril.T @ precision, np.eye(dim), atol=1e-7)
    assert_allclose(bijection.offset, mean, atol=1e-7)


def test_a_diagonal_hessian_gives_a_sparse_factor(rng):
    curvature = rng.uniform(0.1, 10.0, size=3)
    bijection = gaussian_bijection(np.zeros(3), np.diag(curvature))
    assert isinstance(bijection, Affine)
    assert_allclose(bijection.matrix.toarray(), np.diag(curvature**-0.5))
    z = rng.normal(size=(4, 3))
    assert_allclose(bijection.inverse(bijection.forward(z)), z)


def test_a_hessian_is_differenced_where_there_is_none(rng):
    target = regression("logistic", rng)
    bare = LogDensity(target.log_density, score=target.score, dim=target.dim)
    theta = rng.normal(size=target.dim)
    exact = target.hessian(theta)
    assert_allclose(hessian_of(bare, theta), exact, atol=1e-6 * np.abs(exact).max())
    expected, found = laplace_approximation(target), laplace_approximation(bare)
    assert found.converged
    assert_allclose(found.mode, expected.mode, atol=1e-7)


def test_above_500_coordinates_only_the_diagonal_is_differenced(rng):
    curvature = rng.uniform(0.5, 2.0, size=501)
    target = LogDensity(lambda t: -0.5 * t**2 @ curvature, score=lambda t: -curvature * t, dim=501)
    assert_allclose(hessian_of(target, np.zeros(501)), np.diag(curvature), rtol=1e-8)


def test_a_start_where_the_hessian_is_indefinite(rng):
    """log p = -log(1 + x^2 + y^2 / 2) is concave only near its mode at 0."""

    def score(t):
        return -np.array([2.0, 1.0]) * t / (1 + t[:, :1] ** 2 + 0.5 * t[:, 1:] ** 2)

    target = LogDensity(lambda t: -np.log1p(t[:, 0] ** 2 + 0.5 * t[:, 1] ** 2), score=score, dim=2)
    start = np.array([3.0, -2.0]) * rng.choice([-1.0, 1.0], size=2)
    assert np.linalg.eigvalsh(hessian_of(target, start)).min() < 0
    laplace = laplace_approximation(target, start)
    assert laplace.converged
    assert_allclose(laplace.mode, 0.0, atol=1e-6)
    assert_allclose(laplace.hessian, np.diag([2.0, 1.0]), atol=1e-5)


def test_a_full_step_that_overshoots_is_shortened():
    """log p = -log cosh x: from x = 2 Newton's full step lands at -11.6, the next far beyond."""
    target = LogDensity(
        lambda t: -np.logaddexp(t[:, 0], -t[:, 0]), score=lambda t: -np.tanh(t), dim=1
    )
    laplace = laplace_approximation(target, np.array([2.0]))
    assert laplace.converged
    assert_allclose(laplace.mode, 0.0, atol=1e-6)
    assert_allclose(laplace.hessian, [[1.0]], atol=1e-6)


def test_perfect_separation_has_a_mode_by_the_prior():
    X = np.linspace(-2, 2, 20)[:, None]
    target = LogisticTarget(X, X[:, 0] > 0)
    laplace = laplace_approximation(target)
    assert laplace.converged
    assert np.abs(target.score(laplace.mode[None])).max() < 1e-6


@pytest.mark.parametrize("infinite", ["log_density", "score"])
def test_a_start_that_is_not_finite_is_an_error(infinite):
    parts = {"log_density": lambda t: -0.5 * (t**2).sum(axis=1), "score": lambda t: -t}
    parts[infinite] = lambda t: np.full(len(t) if infinite == "log_density" else t.shape, -np.inf)
    with pytest.raises(FloatingPointError, match="not finite at the starting point"):
        laplace_approximation(LogDensity(**parts, dim=2))


@pytest.mark.parametrize(
    "precision", [np.diag([1.0, 0.0]), np.array([[1.0, 1.0], [1.0, 1.0 - 1e-9]])]
)
def test_a_flat_direction_is_an_error_that_says_so(precision):
    with pytest.raises(LinAlgError, match="improper, flat in some direction or not smooth"):
        gaussian_bijection(np.zeros(2), precision)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("power", [4, 10])
@pytest.mark.parametrize("with_hessian", [False, True])
def test_a_flat_top_gets_a_gaussian_as_wide_as_the_density(power, scale, with_hessian, rng):
    """exp(-sum u^power) of correlated coordinates, some flat and some not; its Hessian is 0."""
    powers = np.array([power, power, 2])
    inverse = np.linalg.inv(scale * (np.eye(3) + 0.3 * rng.normal(size=(3, 3))))

    def hessian(t):
        return inverse.T * (powers * (powers - 1) * (inverse @ t) ** (powers - 2)) @ inverse

    target = LogDensity(
        lambda t: -((t @ inverse.T) ** powers).sum(axis=1),
        score=lambda t: -powers * (t @ inverse.T) ** (powers - 1) @ inverse,
        hessian=hessian if with_hessian else None,
        dim=3,
    )
    laplace = laplace_approximation(target)
    assert laplace.converged
    variances = gamma(3 / powers) / gamma(1 / powers)
    ratios = np.linalg.svd(inverse @ laplace.bijection.matrix / np.sqrt(variances)[:, None])[1]
    assert ratios.max() < 3.0
    assert ratios.min() > 0.3


@pytest.mark.parametrize(("unit", "location"), [(1e-8, 0.0), (1e-5, 0.0), (1.0, 1e6), (1e6, -1e9)])
def test_neither_units_nor_a_place_far_from_0_change_a_gaussian(unit, location):
    """Without a Hessian: steps of 6e-6, or of that share of the place, may be wide beside it."""
    matrix = np.array([[1.0, 0.5], [0.3, -2.0]])

    def tilted(t, unit, location):
        return ((t - location) / unit) @ matrix.T - 1.0

    def gaussian(unit=1.0, location=0.0):
        target = LogDensity(
            lambda t: -np.log(np.cosh(tilted(t, unit, location))).sum(axis=1),
            score=lambda t: -np.tanh(tilted(t, unit, location)) @ matrix / unit,
            dim=2,
        )
        laplace = laplace_approximation(target, np.full(2, location))
        assert laplace.converged
        return laplace

    plain, other = gaussian(), gaussian(unit, location)
    assert_allclose((other.mode - location) / unit, plain.mode, atol=1e-4)
    assert_allclose(other.bijection.matrix / unit, plain.bijection.matrix, rtol=1e-4)


@pytest.mark.parametrize("power", [1.5, 2.0, 2.5])
def test_a_gaussian_that_is_not_far_too_wide_stays(power, rng):
    """log p = -(1 + x^2)^power, and twice as curved on one side."""

    def parts(t):
        slope = np.where(t > 0, 1.0, 2.0) * t
        return (1.0 + slope * t) ** power, -2.0 * power * (1.0 + slope * t) ** (power - 1.0) * slope

    target = LogDensity(lambda t: -parts(t)[0].sum(1), score=lambda t: parts(t)[1], dim=2)
    laplace = laplace_approximation(target, rng.normal(size=2))
    assert_array_equal(laplace.hessian, hessian_of(target, laplace.mode))


def test_a_saddle_stays_an_error():
    target = LogDensity(
        lambda t: (t**2 - t**4).sum(axis=1), score=lambda t: 2 * t - 4 * t**3, dim=1
    )
    with pytest.raises(LinAlgError, match="no positive definite Hessian"):
        laplace_approximation(target)


def test_a_density_without_a_mode_is_an_error():
    def log_density(t):
        with np.errstate(over="ignore"):
            return 0.5 * (t**2).sum(axis=1)

    target = LogDensity(log_density, score=lambda t: t, dim=2)
    with pytest.raises(LinAlgError, match="no positive definite Hessian"):
        laplace_approximation(target, np.ones(2))


def test_too_few_iterations_are_reported(rng):
    X = rng.normal(size=(60, 2))
    target = LogisticTarget(X, X[:, 0] + 0.1 * rng.normal(size=60) > 0)
    laplace = laplace_approximation(target, np.full(3, 3.0), max_iter=1)
    assert laplace.n_iter == 1
    assert not laplace.converged


@pytest.mark.parametrize(("n", "p"), [(8, 5), (10, 20), (50, 5)])
def test_noise_has_its_mode_with_the_coefficients_integrated_out(n, p, rng):
    """Of the outcome's own density N(0, prior covariance of X w + noise), on a grid; jointly with
    the coefficients it may be where rows are fitted exactly."""
    X, y = rng.normal(size=(n, p)), rng.normal(size=n)
    target = LinearTarget(X, y, fit_intercept=False, prior=Normal(0.5))
    _, laplace = whitening_laplace(target)
    grid = np.linspace(-8.0, 3.0, 1101)[:, None]
    density = target.outcome.extra_prior.log_density(grid)
    for k, v in enumerate(np.exp(grid[:, 0])):
        density[k] += multivariate_normal.logpdf(y, cov=0.25 * X @ X.T + v * np.eye(n))
    assert_allclose(laplace.mode[-1], grid[np.argmax(density), 0], atol=0.01)
    curvature = -np.diff(density, 2)[np.argmax(density) - 1] / 0.01**2
    assert_allclose(laplace.variances()[-1], 1.0 / curvature, rtol=0.05)
