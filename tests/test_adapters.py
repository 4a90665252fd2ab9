"""Changes of coordinates against numerical Jacobians, and minibatches against all rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from densities import central_differences, rare_categories, standard_normal
from skstein import LogDensity
from skstein.inference._run.working_coordinates import find_frame
from skstein.outcomes import Bernoulli, NegativeBinomial, Probit
from skstein.priors import Normal, StudentT
from skstein.targets import (
    Affine,
    Composition,
    ControlVariate,
    HyperbolicMap,
    LinearTarget,
    LogisticTarget,
    ProbitTarget,
    RegressionTarget,
    SoftmaxTarget,
    Transformed,
    laplace_approximation,
    line_shifts,
    supports,
)
from skstein.targets.bijections import FunnelMap
from skstein.targets.one_sided import SHIFT, one_sided_bijection
from skstein.targets.regression.transformed_regression import (
    TransformedRegression,
    transformed_target,
)

DIM = 4


def lower_triangle(rng, dim):
    return np.tril(rng.normal(size=(dim, dim)), -1) + np.diag(rng.uniform(0.3, 2.0, size=dim))


def affine(rng):
    return Affine(rng.normal(size=DIM), lower_triangle(rng, DIM))


def sparse_affine(rng):
    scale = rng.uniform(0.3, 2.0, size=DIM)
    matrix, inverse = scipy.sparse.diags_array(scale), scipy.sparse.diags_array(1 / scale)
    return Affine(rng.normal(size=DIM), matrix.tocsr(), inverse.tocsr())


def hyperbolic(rng):
    a = rng.uniform(0.5, 2.0, size=2)
    return HyperbolicMap(
        selected=np.array([1, 3]),
        xi=rng.normal(size=2),
        a=a,
        b=a * rng.uniform(-0.98, 0.98, size=2),
        c=rng.uniform(0.1, 2.0, size=2),
        u0=rng.normal(size=2),
    )


def general_affine(rng):
    matrix = rng.normal(size=(DIM, DIM)) + 3.0 * np.eye(DIM)
    return Affine(rng.normal(size=DIM), matrix, np.linalg.inv(matrix))


def chain(rng):
    return Composition(general_affine(rng), Composition(hyperbolic(rng), affine(rng)))


def funnel(rng):
    return FunnelMap(
        location=rng.normal(size=DIM),
        matrix=lower_triangle(rng, DIM),
        tail=0.3 * rng.normal(size=4),
        growth=rng.uniform(-0.5, 0.5, size=2),
        bend=rng.normal(size=(2, DIM - 1)),
    )


def few_rows(rng, n=2, p=DIM - 2):
    X = rng.normal(size=(n, p))
    return LinearTarget(X, X @ rng.normal(size=p) + rng.normal(size=n))


def noise(rng):
    return find_frame(few_rows(rng)).bijection


every_bijection = pytest.mark.parametrize(
    "make", [affine, sparse_affine, general_affine, hyperbolic, chain, funnel, noise]
)
with_hessian = pytest.mark.parametrize("make", [affine, sparse_affine, hyperbolic, chain])


def logistic(rng, n=40, p=3, **params):
    X = rng.normal(size=(n, p))
    y = X[:, 0] + rng.logistic(size=n) > 0
    return LogisticTarget(X, y.astype(float), **params)


# Bijections.


@every_bijection
def test_inverse_undoes_forward(make, rng):
    bijection, z = make(rng), 2 * rng.normal(size=(20, DIM))
    assert_allclose(bijection.inverse(bijection.forward(z)), z, rtol=1e-8, atol=1e-8)


@every_bijection
def test_log_det_is_that_of_the_jacobian(make, rng):
    bijection, z = make(rng), rng.normal(size=(5, DIM))
    jacobian = central_differences(bijection.forward, z)
    assert_allclose(bijection.log_det(z), np.linalg.slogdet(jacobian)[1], atol=1e-6)


@every_bijection
def test_pulled_score_is_the_gradient_in_the_new_coordinates(make, rng):
    bijection, z = make(rng), rng.normal(size=(5, DIM))
    center = rng.normal(size=DIM)

    def log_density(z):
        return -np.log(np.cosh(bijection.forward(z) - center)).sum(axis=1) + bijection.log_det(z)

    pulled = bijection.pull_score(z, -np.tanh(bijection.forward(z) - center))
    expected = central_differences(log_density, z)
    assert_allclose(pulled, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))


@every_bijection
def test_push_score_undoes_pull_score(make, rng):
    bijection, z, score = make(rng), rng.normal(size=(5, DIM)), rng.normal(size=(5, DIM))
    assert_allclose(bijection.push_score(z, bijection.pull_score(z, score)), score, atol=1e-8)


@with_hessian
def test_pulled_hessian_is_that_in_the_new_coordinates(make, rng):
    bijection, z = make(rng), rng.normal(size=(1, DIM))
    center, A = rng.normal(size=DIM), rng.normal(size=(DIM, DIM))
    precision = A @ A.T + np.eye(DIM)

    def score(z):
        return bijection.pull_score(z, -(bijection.forward(z) - center) @ precision)

    theta_score = -(bijection.forward(z)[0] - center) @ precision
    pulled = bijection.pull_hessian(z[0], theta_score, precision)
    expected = -central_differences(score, z)[0]
    assert_allclose(pulled, expected, atol=1e-5 * np.abs(expected).max())


def test_a_hyperbolic_map_is_monotone_with_the_slopes_it_promises(rng):
    bijection = hyperbolic(rng)
    u = np.linspace(-1e4, 1e4, 2001)
    z = np.zeros((len(u), DIM))
    z[:, 1] = u
    value = bijection.forward(z)[:, 1]
    assert (np.diff(value) > 0).all()
    a, b = bijection.a[0], bijection.b[0]
    step = u[1] - u[0]
    assert_allclose((value[1] - value[0]) / step, a - b, rtol=1e-3, atol=1e-6)
    assert_allclose((value[-1] - value[-2]) / step, a + b, rtol=1e-3, atol=1e-6)


@every_bijection
def test_bijections_pickle(make, rng):
    bijection, z = make(rng), rng.normal(size=(3, DIM))
    assert_array_equal(pickle.loads(pickle.dumps(bijection)).forward(z), bijection.forward(z))


@pytest.mark.parametrize(("n", "p"), [(1, 1), (3, 6), (8, 5), (200, 5)])
def test_a_linear_regression_is_standard_normal_in_its_own_coordinates(n, p, rng):
    target = few_rows(rng, n, p)
    z = np.clip(2 * rng.normal(size=(50, target.dim)), -5.0, 5.0)  # a table ends at six
    bijection = find_frame(target).bijection
    excess = Transformed(target, bijection).log_density(z) + 0.5 * np.sum(z**2, axis=1)
    assert np.ptp(excess) < 0.05


# Transformed targets.


@every_bijection
def test_a_transformed_target_has_the_transformed_density(make, rng):
    """log p(z) = log p(theta) + log |d theta / d z|, by numerical determinants and differences."""
    bijection, target = make(rng), logistic(rng)
    z = rng.normal(size=(4, DIM))
    transformed = Transformed(target, bijection)
    theta = bijection.forward(z)
    volume = np.linalg.slogdet(central_differences(bijection.forward, z))[1]
    assert_allclose(transformed.log_density(z), target.log_density(theta) + volume, atol=1e-5)
    expected = central_differences(transformed.log_density, z)
    assert_allclose(transformed.score(z), expected, atol=1e-5 * max(1, np.abs(expected).max()))
    value, score = transformed.log_density_and_score(z)
    assert_allclose(value, transformed.log_density(z))
    assert_allclose(score, transformed.score(z))
    assert_allclose(transformed.log_prior(z) + transformed.log_likelihood(z), value)
    assert_allclose(transformed.pointwise_log_likelihood(z), target.pointwise_log_likelihood(theta))
    rows = np.array([3, 5])
    assert_allclose(transformed.log_likelihood(z, rows), target.log_likelihood(theta, rows))


def test_prior_draws_are_carried_over(seed, rng):
    target, bijection = logistic(rng), affine(rng)
    transformed = Transformed(target, bijection)
    draws = transformed.sample_prior(np.random.default_rng(seed), 5)
    expected = target.sample_prior(np.random.default_rng(seed), 5)
    assert_allclose(bijection.forward(draws), expected)
    assert_allclose(bijection.forward(transformed.initial[None])[0], target.initial, atol=1e-9)


@pytest.mark.parametrize("make_start", [None, affine, hyperbolic])
def test_the_start_has_the_density_it_reports(make_start, rng):
    """log_start against the change of variables from a standard normal."""
    start = None if make_start is None else make_start(rng)
    transformed = Transformed(logistic(rng), None, start=start)
    z = transformed.sample_start(rng, 6)
    white = z if start is None else start.inverse(z)
    expected = multivariate_normal(np.zeros(DIM)).logpdf(white)
    if start is not None:
        expected -= np.linalg.slogdet(central_differences(start.forward, white))[1]
    assert_allclose(transformed.log_start(z), expected, atol=1e-5)


def test_what_the_target_lacks_the_transformed_lacks():
    target = LogDensity(lambda t: -0.5 * (t**2).sum(axis=1), dim=2)
    transformed = Transformed(target, Affine(np.zeros(2), np.eye(2)))
    for part in ("score", "hessian", "log_prior", "sample_prior", "pointwise_log_likelihood"):
        assert not supports(transformed, part)
    assert supports(Transformed(logistic(np.random.default_rng(0)), None), "hessian")


@pytest.mark.parametrize("kind", ["logistic", "linear"])
def test_whitened_has_the_identity_for_a_hessian_at_the_mode(kind, rng):
    X = rng.normal(size=(50, 3)) @ lower_triangle(rng, 3)
    y = X[:, 0] + rng.logistic(size=50)
    target = LinearTarget(X, y) if kind == "linear" else LogisticTarget(X, (y > 0).astype(float))
    laplace = laplace_approximation(target)
    whitened = Transformed(target, laplace.bijection)
    origin = np.zeros((1, target.dim))
    assert_allclose(whitened.hessian(origin[0]), np.eye(target.dim), atol=1e-7)
    assert_allclose(-central_differences(whitened.score, origin)[0], np.eye(target.dim), atol=1e-5)
    assert_allclose(whitened.score(origin), 0.0, atol=1e-6)


# One-sided coordinates.


def one_sided_target(target, laplace, selected):
    bijection = one_sided_bijection(target, laplace, selected, surrogate=target, turned=True)
    return Transformed(target, bijection)


def rare_category(n_seen, prior_sd):
    """One coefficient, of a category seen ``n_seen`` times, always with the same class."""
    prior = Normal(prior_sd)
    return LogisticTarget(np.ones((n_seen, 1)), np.zeros(n_seen), fit_intercept=False, prior=prior)


@pytest.mark.parametrize("prior_sd", [1.0, 10.0])
def test_the_scan_finds_the_rare_categories_and_nothing_else(prior_sd, rng):
    X, y = rare_categories(rng, 2000, 22, (1, 2, 3, 4, 6, 8))
    prior = Normal(prior_sd)
    target = LogisticTarget(X, y, prior=prior, intercept_prior=prior)
    shifts = line_shifts(target, laplace_approximation(target))
    rare = np.arange(23, 29)
    assert_array_equal(np.flatnonzero(np.abs(shifts) > SHIFT), rare)
    # Even columns were seen with y = 0 only: their coefficients have their tail to the left.
    assert_array_equal(np.sign(shifts[rare]), [-1, 1, -1, 1, -1, 1])


@pytest.mark.parametrize("prior_sd", [1.0, 10.0])
def test_the_scan_finds_nothing_in_regular_data(prior_sd, rng):
    X, y = rare_categories(rng, 500, 22, ())
    prior = Normal(prior_sd)
    target = LogisticTarget(X, y, prior=prior, intercept_prior=prior)
    assert np.abs(line_shifts(target, laplace_approximation(target))).max() < SHIFT


def test_the_scan_finds_nothing_in_linear_regression(rng):
    X = rng.normal(size=(60, 3))
    target = LinearTarget(X, X[:, 0] + rng.normal(size=60))
    assert np.abs(line_shifts(target, laplace_approximation(target))).max() < SHIFT


def test_the_scan_measures_the_shift_of_a_known_density():
    """The mean of a 1-d density minus its mode, in Laplace sds, by quadrature over the scan's
    range of five Laplace sds; the scan's 25 points integrate to a few hundredths."""
    target = rare_category(20, 10.0)
    laplace = laplace_approximation(target)
    sd = 1 / np.sqrt(laplace.hessian[0, 0])
    t = np.linspace(-5, 5, 20_001)
    log_density = target.log_density((laplace.mode[0] + t * sd)[:, None])
    weights = np.exp(log_density - log_density.max())
    assert_allclose(line_shifts(target, laplace), weights @ t / weights.sum(), atol=0.05)


@pytest.mark.parametrize("n_seen", [4, 20, 100])
def test_in_the_map_one_rare_category_is_nearly_normal(n_seen):
    """Mean, variance, skewness and kurtosis in the map, by quadrature."""
    target = rare_category(n_seen, 10.0)
    one_sided = one_sided_target(target, laplace_approximation(target), np.array([0]))
    z = np.linspace(-8, 8, 8001)
    log_density = one_sided.log_density(z[:, None])
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ z
    sd = np.sqrt(weights @ (z - mean) ** 2)
    assert abs(mean) < 0.1
    assert abs(sd - 1) < 0.1
    assert abs(weights @ ((z - mean) / sd) ** 3) < 0.2
    assert abs(weights @ ((z - mean) / sd) ** 4 - 3) < 0.4


def test_a_one_sided_target_is_the_target(rng):
    """Density and score in the map, by numerical determinants and differences."""
    X, y = rare_categories(rng, 300, 2, (2, 3))
    prior = Normal(10.0)
    target = LogisticTarget(X, y, prior=prior, intercept_prior=prior)
    one_sided = one_sided_target(target, laplace_approximation(target), np.array([3, 4]))
    z = rng.normal(size=(6, 5))
    theta = one_sided.bijection.forward(z)
    volume = np.linalg.slogdet(central_differences(one_sided.bijection.forward, z))[1]
    assert_allclose(one_sided.log_density(z), target.log_density(theta) + volume, atol=1e-4)
    expected = central_differences(one_sided.log_density, z)
    assert_allclose(one_sided.score(z), expected, atol=1e-5 * max(1, np.abs(expected).max()))
    origin = np.zeros((1, 5))
    assert_allclose(one_sided.score(origin), 0.0, atol=1e-6)
    assert_allclose(-central_differences(one_sided.score, origin)[0], np.eye(5), atol=1e-4)


def test_coefficients_of_all_classes_share_a_wall(rng):
    """A category that the last class never has: its coefficient's wall moves with the others'.

    So one bend is enough, of the class that is missing, and in the map coefficients of all classes
    may grow together, as far as the prior lets them.
    """
    rare = np.arange(400) < 30
    X = np.column_stack([rng.normal(size=400), rare])
    y = np.where(rare, rng.integers(0, 2, size=400), rng.integers(0, 3, size=400))
    target = SoftmaxTarget(X, y, n_classes=3, prior=Normal(10.0), intercept_prior=Normal(10.0))
    laplace = laplace_approximation(target)
    column = np.array([2, 5, 8])
    of_rare = column[np.argsort(-np.abs(line_shifts(target, laplace)[column]))]
    one_sided = one_sided_target(target, laplace, of_rare)
    assert_array_equal(one_sided.bijection.inner.outer.selected, [8])
    together = laplace.mode + np.isin(np.arange(9), column) * np.linspace(-15.0, 15.0, 7)[:, None]
    z = one_sided.bijection.inverse(together)
    assert (np.linalg.norm(z, axis=1) < 4.0).all()


def test_a_singular_hessian_is_not_straightened(rng):
    """As of two columns that are one, and a prior that says nothing."""
    target = LogisticTarget(rng.normal(size=(20, 2)), np.arange(20) % 2.0, fit_intercept=False)
    laplace = laplace_approximation(target)
    laplace.hessian = np.ones((2, 2))
    with pytest.raises(np.linalg.LinAlgError, match=r"singular to rounding|not positive"):
        one_sided_target(target, laplace, np.array([1]))


# Minibatches.


@pytest.fixture
def control_variate(rng):
    target = logistic(rng, n=2000, sample_weight=rng.uniform(0.5, 1.5, size=2000))
    laplace = laplace_approximation(target)
    return target, laplace, ControlVariate(target, laplace.mode, 100, order=1)


def test_a_control_variate_is_exact_at_its_centre(control_variate, rng):
    target, laplace, noisy = control_variate
    rows = rng.choice(2000, 100, replace=False)
    center = laplace.mode[None]
    assert_allclose(noisy.score(center, rows), target.score(center), atol=1e-9)


def test_a_control_variate_is_unbiased(control_variate, rng):
    """The average over the batches of a partition is the score of all rows."""
    target, laplace, noisy = control_variate
    theta = laplace.mode + rng.normal(size=(3, target.dim))
    batches = rng.permutation(2000).reshape(20, 100)
    average = np.mean([noisy.score(theta, rows) for rows in batches], axis=0)
    assert_allclose(average, target.score(theta), rtol=1e-8, atol=1e-8)


def test_near_the_mode_a_control_variate_is_far_quieter_than_a_plain_minibatch(
    control_variate, rng
):
    """Within posterior standard deviations of the centre, and quadratic in the distance to it."""
    target, laplace, noisy = control_variate
    batches = rng.permutation(2000).reshape(20, 100)
    direction = laplace.bijection.matrix @ rng.normal(size=target.dim)

    def variance(target, distance):
        theta = (laplace.mode + distance * direction)[None]
        return np.var([target.score(theta, rows) for rows in batches], axis=0).sum()

    assert variance(noisy, 1.0) < 0.05 * variance(target, 1.0)
    assert_allclose(variance(noisy, 0.1), 0.01 * variance(noisy, 1.0), rtol=0.5)


def test_a_control_variate_without_rows_is_the_target(control_variate, rng):
    target, laplace, noisy = control_variate
    theta = laplace.mode + rng.normal(size=(3, target.dim))
    assert noisy.stochastic and not target.stochastic
    assert_array_equal(noisy.score(theta), target.score(theta))
    assert_array_equal(noisy.log_density(theta), target.log_density(theta))
    assert_array_equal(noisy.hessian(theta[0]), target.hessian(theta[0]))
    assert noisy.names == target.names


def test_a_batch_is_at_most_all_rows(control_variate):
    target, laplace, _ = control_variate
    assert ControlVariate(target, laplace.mode, 10**6).batch_size == 2000


def targets_with_rows(rng, n=60):
    X = rng.normal(size=(n, 3))
    sparse = scipy.sparse.csr_array(np.where(rng.random((n, 3)) < 0.5, X, 0.0))
    labels = rng.integers(0, 3, n)
    options = {"sample_weight": rng.integers(1, 4, n), "center": X.mean(axis=0)}
    return [
        LogisticTarget(X, (labels > 0).astype(float), **options),
        LogisticTarget(sparse, (labels > 0).astype(float), **options),
        SoftmaxTarget(X, labels, n_classes=3, **options),
        ProbitTarget(X, labels, n_classes=3, **options),
        LinearTarget(X, X[:, 0] + rng.normal(size=n), **options),
    ]


def test_part_of_the_rows_is_a_target_of_its_own(rng):
    """Its prior is the same, and its likelihood that of the rows, not scaled."""
    rows = np.array([3, 5, 8, 13, 21, 34, 55])
    for target in targets_with_rows(rng):
        part, theta = target.take(rows), rng.normal(size=(4, target.dim))
        factor = target.n_rows / len(rows)
        assert part.n_rows == len(rows)
        assert_allclose(part.log_prior(theta), target.log_prior(theta))
        assert_allclose(factor * part.log_likelihood(theta), target.log_likelihood(theta, rows))
        found = part.pointwise_log_likelihood(theta)
        assert_allclose(found, target.pointwise_log_likelihood(theta)[:, rows])


def test_the_hessian_of_some_rows_is_the_derivative_of_their_score(rng):
    rows = np.array([3, 5, 8, 13, 21, 34, 55])
    for target in targets_with_rows(rng):
        theta = rng.normal(size=target.dim)
        expected = central_differences(lambda t, r=target: -r.score(t, rows), theta[None])[0]
        assert_allclose(target.hessian(theta, rows), expected, rtol=1e-5, atol=1e-5)
        all_rows = np.arange(target.n_rows)
        assert_allclose(target.hessian(theta, all_rows), target.hessian(theta))


@pytest.mark.parametrize("order", [1, 2])
def test_the_error_of_a_minibatch_is_of_the_order_of_its_control_variate(order, rng):
    """Halving the distance to the centre leaves a half of it, or a quarter."""
    rows = rng.choice(60, 10, replace=False)
    for target in targets_with_rows(rng):
        center = 0.3 * rng.normal(size=target.dim)
        cheap = ControlVariate(target, center, 10, order)
        direction = rng.normal(size=target.dim)
        near, far = (center + s * direction[None] for s in (0.5e-3, 1e-3))
        error = [np.linalg.norm(cheap.score(t, rows) - target.score(t)) for t in (near, far)]
        assert_allclose(error[1] / error[0], 2.0**order, rtol=0.02)
        assert_allclose(cheap.score(center[None], rows), target.score(center[None]), atol=1e-9)


def test_a_second_order_needs_a_hessian_of_rows():
    target = standard_normal()
    target.n_rows = 100
    with pytest.raises(ValueError, match=r"order 2 needs a target with hessian\(theta, rows\)"):
        ControlVariate(target, np.zeros(2), 10, order=2)


def test_a_funnel_map_is_finite_far_off(rng):
    """Draws of a Cauchy prior lie there."""
    bijection = funnel(rng)
    z = bijection.inverse(1e8 * rng.normal(size=(50, DIM)))
    assert np.isfinite(z).all() and np.isfinite(bijection.log_det(z)).all()


# Regressions on few rows


@pytest.mark.parametrize("bent", [False, True])
@pytest.mark.parametrize(
    ("outcome", "prior"),
    [
        (Bernoulli(), Normal(1.5, loc=0.3)),
        (Bernoulli(), StudentT()),
        (Probit(), Normal()),
        (NegativeBinomial(), Normal(0.5)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_map_in_the_design_changes_nothing(outcome, prior, bent, rng):
    """Against the general path; with weights, an offset and further coordinates where there are."""
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, size=50)
    options = {"sample_weight": rng.uniform(0.5, 2.0, size=50), "offset": rng.normal(size=50)}
    target = RegressionTarget(outcome, X, y, prior=prior, **options)
    place, shape = rng.normal(size=target.dim), lower_triangle(rng, target.dim)
    bijection = Affine(place, shape)
    if bent:
        one = np.ones(1)
        bend = HyperbolicMap(np.array([1]), one, one, 0.9 * one, one, one)
        bijection = Composition(bijection, Composition(bend, Affine(place, shape)))
    plain, folded = Transformed(target, bijection), transformed_target(target, bijection)
    assert isinstance(folded, TransformedRegression)
    z = 0.3 * rng.normal(size=(7, target.dim))
    assert_allclose(folded.log_density(z), plain.log_density(z), rtol=1e-12)
    for ours, theirs in zip(
        folded.log_density_and_score(z), plain.log_density_and_score(z), strict=True
    ):
        assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)
    assert_allclose(folded.score(z), plain.score(z), rtol=1e-11, atol=1e-11)
    rows = np.arange(0, 50, 3)
    assert_array_equal(folded.score(z, rows), plain.score(z, rows))


def test_what_is_not_folded():
    """Many rows, several predictors, a likelihood that does not go through the rows."""
    whole, few = Affine(np.zeros(3), np.eye(3)), np.zeros((20, 2))
    y = np.arange(20) % 2
    assert isinstance(transformed_target(LogisticTarget(few, y), whole), TransformedRegression)
    many = LogisticTarget(np.zeros((100_000, 2)), np.zeros(100_000))
    softmax = SoftmaxTarget(few, y, n_classes=2)
    for target in (many, softmax, LinearTarget(few, y), LogDensity(lambda t: t[:, 0], dim=3)):
        assert type(transformed_target(target, whole)) is Transformed
