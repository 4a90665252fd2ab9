"""Priors against SciPy's densities, finite differences, quadrature over what they integrate out."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import expon, f, gamma, invgamma, kstest, laplace, multivariate_t, norm, t
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from densities import central_differences
from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianPoissonRegression,
    BayesianProbitRegression,
)
from skstein.inference import LaplaceDraws
from skstein.priors import (
    PRIORS,
    AdaptiveRidge,
    HalfStudentT,
    HierarchicalNormal,
    Horseshoe,
    InverseGamma,
    Laplace,
    Normal,
    Prior,
    StudentT,
    resolve_prior,
)
from skstein.targets import ConjugateFactor, HierarchicalTarget, LinearTarget, SoftmaxTarget
from skstein.targets.laplace_at_mode import whitening_laplace
from small import crossed, later

# The fits here only show that a prior arrives: whether a posterior is good is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

P = 3
SCALES = np.array([0.5, 1.0, 2.5])
LOCS = np.array([-2.0, 0.0, 3.0])
EVERY = {
    "normal": Normal(1.7),
    "normal-each": Normal(SCALES),
    "laplace": Laplace(0.8),
    "laplace-each": Laplace(SCALES),
    "student-t": StudentT(df=3.0, scale=1.3),
    "student-t-each": StudentT(df=2.5, scale=SCALES),
    "adaptive-ridge": AdaptiveRidge(shape=1.6, rate=0.7),
    "hierarchical-normal": HierarchicalNormal(shape=1.4, rate=0.6),
    "normal-elsewhere": Normal(1.7, loc=2.0),
    "laplace-elsewhere-each": Laplace(SCALES, loc=LOCS),
    "student-t-elsewhere-each": StudentT(df=2.5, scale=SCALES, loc=LOCS),
    "adaptive-ridge-elsewhere": AdaptiveRidge(shape=1.6, rate=0.7, loc=-1.0),
    "hierarchical-normal-elsewhere": HierarchicalNormal(shape=1.4, rate=0.6, loc=LOCS),
}
every_prior = pytest.mark.parametrize("prior", EVERY.values(), ids=EVERY)


def marginal(prior, j):
    """The distribution of coefficient ``j``, from SciPy."""
    loc = np.broadcast_to(prior.loc, P)[j]
    if isinstance(prior, HierarchicalNormal | AdaptiveRidge):
        return t(2 * prior.shape, loc, np.sqrt(prior.rate / prior.shape))
    scale = np.broadcast_to(prior.scale, P)[j]
    if isinstance(prior, StudentT):
        return t(prior.df, loc, scale)
    return (norm if isinstance(prior, Normal) else laplace)(loc, scale)


def off_the_kink(rng, m):
    """Coefficients of either sign at a distance from 0, where the Laplace density has a corner."""
    return rng.choice([-1.0, 1.0], (m, P)) * rng.uniform(0.1, 4.0, (m, P))


# Density and derivatives.


@every_prior
def test_log_density_is_that_of_scipy(prior, rng):
    coef = rng.normal(scale=3.0, size=(6, P))
    if isinstance(prior, HierarchicalNormal):
        shape = prior.rate / prior.shape * np.eye(P)
        expected = multivariate_t(prior.location(P), shape, df=2 * prior.shape).logpdf(coef)
    else:
        expected = sum(marginal(prior, j).logpdf(coef[:, j]) for j in range(P))
    assert_allclose(prior.log_density(coef), expected, rtol=1e-10)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in EVERY
        if np.ndim(EVERY[name].loc) + np.ndim(getattr(EVERY[name], "scale", 0)) == 0
    ],
)
def test_density_of_one_coefficient_integrates_to_one(name):
    prior = EVERY[name]

    def density(c):
        return np.exp(prior.log_density(np.array([[c]]))[0])

    total = sum(quad(density, *ends)[0] for ends in [(-np.inf, 0.0), (0.0, np.inf)])
    assert_allclose(total, 1.0, rtol=1e-7)


@every_prior
def test_score_and_precision_are_derivatives(prior, rng):
    coef = off_the_kink(rng, 5)
    score = prior.score(coef)
    assert score.shape == coef.shape
    assert_allclose(score, central_differences(prior.log_density, coef), rtol=1e-6, atol=1e-8)
    for row in coef:
        precision = prior.precision(row)
        expected = -central_differences(prior.score, row[None])[0]
        assert_allclose(precision, expected, rtol=1e-6, atol=1e-8)


@every_prior
def test_score_at_the_location_is_zero(prior):
    assert_array_equal(prior.score(prior.location(P)[None]), np.zeros((1, P)))


@every_prior
def test_far_out_the_density_is_finite(prior):
    coef = np.full((1, P), 1e100)
    assert np.isfinite(prior.log_density(coef)).all() or isinstance(prior, Normal)
    assert np.isfinite(prior.score(coef)).all()


# Draws.


@every_prior
def test_draws_have_the_marginal_distributions(prior, rng):
    """Kolmogorov's distance: sqrt(n) times it is above 3 once in 3e7 times."""
    n = 20_000
    draws = prior.sample(rng, n, P)
    assert draws.shape == (n, P)
    for j in range(P):
        cdf = marginal(prior, j).cdf(np.sort(draws[:, j]))
        assert np.abs(cdf - (np.arange(n) + 0.5) / n).max() < 3.0 / np.sqrt(n)


@pytest.mark.parametrize(
    "prior", [prior for prior in EVERY.values() if not isinstance(prior, HierarchicalNormal)]
)
def test_draws_of_different_coefficients_are_independent(prior, rng):
    """Their absolute values, ranked by their own distribution, have no correlation."""
    n = 20_000
    draws = prior.location(P) + np.abs(prior.sample(rng, n, P) - prior.location(P))
    uniform = np.column_stack([marginal(prior, j).cdf(draws[:, j]) for j in range(P)])
    correlation = np.corrcoef(uniform.T)
    assert np.abs(correlation - np.eye(P)).max() < 5.0 / np.sqrt(n)


def test_draws_of_a_hierarchical_prior_share_their_precision(rng):
    """The length of a multivariate t vector: its square over p has an F distribution."""
    n, prior = 20_000, EVERY["hierarchical-normal"]
    draws = prior.sample(rng, n, P)
    ratio = np.sort((draws**2).mean(axis=1)) * prior.shape / prior.rate
    cdf = f(P, 2 * prior.shape).cdf(ratio)
    assert np.abs(cdf - (np.arange(n) + 0.5) / n).max() < 3.0 / np.sqrt(n)


# What is integrated out.


def integral(function, mixing):
    """Of ``function(v)`` over the distribution ``mixing``, by quadrature over log v."""

    def integrand(u):
        v = np.exp(u)
        return function(v) * mixing.pdf(v) * v

    ends = np.log(mixing.ppf([1e-12, 1 - 1e-12])) + [-12.0, 12.0]
    middle = np.log(mixing.median())
    return sum(
        quad(integrand, *part, limit=200, epsabs=0.0, epsrel=1e-10)[0]
        for part in [(ends[0], middle), (middle, ends[1])]
    )


@pytest.mark.parametrize("shape, rate", [(1.0, 1.0), (2.5, 0.3), (0.6, 4.0)])
def test_adaptive_ridge_integrates_over_an_inverse_gamma_variance(shape, rate, rng):
    prior, mixing = AdaptiveRidge(shape, rate), invgamma(shape, scale=rate)
    for c in rng.normal(scale=2.0, size=3):
        expected = integral(lambda tau, c=c: norm.pdf(c, scale=np.sqrt(tau)), mixing)
        assert_allclose(prior.log_density(np.array([[c]])), np.log(expected), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape, rate", [(1.0, 1.0), (2.5, 0.3), (0.6, 4.0)])
def test_hierarchical_normal_integrates_over_a_gamma_precision(shape, rate, rng):
    prior, mixing = HierarchicalNormal(shape, rate), gamma(shape, scale=1 / rate)
    for coef in rng.normal(scale=1.5, size=(3, P)):
        expected = integral(
            lambda alpha, coef=coef: norm.pdf(coef, scale=alpha**-0.5).prod(), mixing
        )
        assert_allclose(prior.log_density(coef[None]), np.log(expected), rtol=1e-6, atol=1e-7)


def test_laplace_integrates_over_an_exponential_variance():
    scale = 0.8
    for c in (-1.5, 0.3, 2.0):
        expected = integral(
            lambda tau, c=c: norm.pdf(c, scale=np.sqrt(tau)), expon(scale=2 * scale**2)
        )
        assert_allclose(Laplace(scale).log_density(np.array([[c]])), np.log(expected), rtol=1e-6)


MIXINGS = {
    "laplace": (Laplace(0.8), expon(scale=2 * 0.8**2)),
    "student-t": (StudentT(3.0, 1.3), invgamma(1.5, scale=1.5 * 1.3**2)),
    "adaptive-ridge": (AdaptiveRidge(1.6, 0.7), invgamma(1.6, scale=0.7)),
}


@pytest.mark.parametrize("prior, mixing", MIXINGS.values(), ids=MIXINGS)
def test_expected_precision_is_the_mean_over_each_variance(prior, mixing, rng):
    second_moment = rng.uniform(0.2, 4.0, size=P)
    for moment, precision in zip(
        second_moment, prior.expected_precision(second_moment), strict=True
    ):

        def tilt(tau, moment=moment):
            return np.exp(-0.5 * moment / tau) / np.sqrt(tau)

        expected = integral(lambda tau: tilt(tau) / tau, mixing) / integral(tilt, mixing)
        assert_allclose(precision, expected, rtol=1e-6)


def test_expected_precision_is_the_mean_over_the_shared_precision(rng):
    prior, mixing = HierarchicalNormal(1.4, 0.6), gamma(1.4, scale=1 / 0.6)
    second_moment = rng.uniform(0.2, 4.0, size=P)

    def tilt(alpha):
        return alpha ** (0.5 * P) * np.exp(-0.5 * alpha * second_moment.sum())

    expected = integral(lambda alpha: alpha * tilt(alpha), mixing) / integral(tilt, mixing)
    assert_allclose(prior.expected_precision(second_moment), np.full(P, expected), rtol=1e-6)


@every_prior
def test_the_score_is_that_of_the_normal_that_stands_for_the_prior(prior, rng):
    """At the point whose squares it is given: the expected precision is minus score over coef."""
    coef = prior.location(P) + off_the_kink(rng, 1)
    stand_in = prior.conditional((coef[0] - prior.location(P)) ** 2)
    assert isinstance(stand_in, Normal)
    assert_allclose(stand_in.score(coef), prior.score(coef), rtol=1e-12)


# Scales: one number, or one a feature.


@pytest.mark.parametrize("kind", [Normal, Laplace, StudentT])
def test_scales_of_the_features_repeat_for_each_class(kind, rng):
    K, X = 3, rng.normal(size=(20, P))
    y = rng.integers(0, K, size=20)
    target = SoftmaxTarget(X, y, n_classes=K, prior=kind(scale=SCALES), intercept_prior=Normal(2.0))
    theta = rng.normal(size=(4, target.dim))
    table = theta.reshape(4, K, 1 + P)
    single = kind(scale=1.0)
    expected = norm.logpdf(table[:, :, 0], scale=2.0).sum(axis=1)
    for j, scale in enumerate(SCALES):
        expected += single.log_density(table[:, :, 1 + j] / scale) - K * np.log(scale)
    assert_allclose(target.log_prior(theta), expected, rtol=1e-12)
    score = central_differences(target.log_density, theta)
    assert_allclose(target.score(theta), score, rtol=1e-5, atol=1e-6)


def test_scales_follow_the_features_through_a_fit(rng):
    """A feature with a tiny scale is shrunk to nothing, in every class; the others are not."""
    X, y = load_iris(return_X_y=True)
    clf = BayesianLogisticRegression(
        LaplaceDraws(n_particles=20), prior=Normal([1.0, 1.0, 1e-4, 1.0])
    ).fit(X, y)
    coef = np.abs(clf.coef_) * X.std(axis=0)
    assert coef[:, 2].max() < 1e-3
    assert coef[:, [0, 1, 3]].max(axis=0).min() > 0.1


BAD_SCALES = {
    "zero": 0.0,
    "negative": -1.0,
    "infinite": np.inf,
    "one-zero": [1.0, 0.0, 1.0, 1.0],
    "one-negative": [1.0, 1.0, -2.0, 1.0],
    "one-missing": [1.0, np.nan, 1.0, 1.0],
    "too-few": [1.0, 1.0, 1.0],
    "too-many": np.ones(5),
    "none": [],
    "a-table": np.ones((2, 2)),
}


@pytest.mark.parametrize("kind", [Normal, Laplace, StudentT])
@pytest.mark.parametrize("scale", BAD_SCALES.values(), ids=BAD_SCALES)
def test_a_bad_scale_is_refused_by_name(kind, scale):
    X, y = load_iris(return_X_y=True)
    clf = BayesianLogisticRegression(LaplaceDraws(n_particles=20), prior=kind(scale=scale))
    with pytest.raises(ValueError, match="scale"):
        clf.fit(X[:100], y[:100])


@pytest.mark.parametrize("n_classes, length", [(2, 2), (2, 1), (3, 2), (3, 3), (3, 12)])
def test_a_scale_has_one_entry_a_feature(n_classes, length):
    """Four features: nothing but four numbers is one number a feature."""
    X, y = load_iris(return_X_y=True)
    rows = y < n_classes
    clf = BayesianLogisticRegression(LaplaceDraws(n_particles=20), prior=Normal(np.ones(length)))
    with pytest.raises(ValueError, match="scale"):
        clf.fit(X[rows], y[rows])


@pytest.mark.parametrize(
    "prior, name",
    [
        (StudentT(df=0.0), "df"),
        (AdaptiveRidge(shape=0.0), "shape"),
        (AdaptiveRidge(rate=-1.0), "rate"),
        (HierarchicalNormal(shape=-1.0), "shape"),
        (HierarchicalNormal(rate=0.0), "rate"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(prior, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of {type(prior).__name__}"):
        resolve_prior(prior)


# Locations: what is expected of the coefficients.


@pytest.mark.parametrize("prior", [p for p in EVERY.values() if np.any(p.loc)])
@pytest.mark.parametrize("explicit", [False, True])
def test_a_location_is_a_shift_of_the_outcome(prior, explicit, rng):
    """Of the density and all that is made of it, down to factors and the Gaussian at the mode."""
    X, loc, m = rng.normal(size=(30, P)), prior.location(P), 3
    y = X @ [1.0, 2.0, 0.0] + rng.normal(size=30)
    options = {"noise_prior": InverseGamma(), "factorized": explicit}
    shift = np.concatenate([[1.0], loc, [0.0]])
    here = LinearTarget(X, y, prior=prior, intercept_prior=Normal(2.0, loc=1.0), **options)
    there = LinearTarget(
        X,
        y - 1.0 - X @ loc,
        prior=clone(prior).set_params(loc=0.0),
        intercept_prior=Normal(2.0),
        **options,
    )
    if explicit and prior.variance_groups(P) is not None:
        here, there = HierarchicalTarget(here), HierarchicalTarget(there)
        shift = np.append(shift, np.zeros(here.dim - len(shift)))
    theta = rng.normal(size=(m, here.dim))
    assert_allclose(here.log_density(theta + shift), there.log_density(theta), rtol=1e-8)
    assert_allclose(here.score(theta + shift), there.score(theta), rtol=1e-6, atol=1e-8)
    for row in theta:
        assert_allclose(here.hessian(row + shift), there.hessian(row), rtol=1e-6, atol=1e-8)
        expected = there.hessian_diagonal(row) if there.hessian_diagonal else 0.0
        found = here.hessian_diagonal(row + shift) if here.hessian_diagonal else 0.0
        assert_allclose(found, expected, rtol=1e-6)
    gaussians = [whitening_laplace(target)[1] for target in (here, there)]
    assert_allclose(gaussians[0].mode, gaussians[1].mode + shift, atol=1e-4)
    assert_allclose(gaussians[0].variances(), gaussians[1].variances(), rtol=1e-4)
    for one, other in zip(here.factors, there.factors, strict=True):
        if isinstance(one, ConjugateFactor):
            draws = [
                factor.optimum(at).sample(np.random.default_rng(0), 2)
                for factor, at in ((one, theta + shift), (other, theta))
            ]
            assert_allclose(draws[0], draws[1] + shift[one.indices], rtol=1e-6, atol=1e-8)
    draws = [target.sample_prior(np.random.default_rng(0), 2) for target in (here, there)]
    assert_allclose(draws[0], draws[1] + shift)


def test_locations_of_the_features_repeat_for_each_class(rng):
    X, y = rng.normal(size=(20, P)), rng.integers(0, 3, size=20)
    prior = HierarchicalNormal(loc=LOCS)
    target = SoftmaxTarget(X, y, n_classes=3, prior=prior)
    theta = rng.normal(size=(4, target.dim))
    score = central_differences(target.log_density, theta)
    assert_allclose(target.score(theta), score, rtol=1e-5, atol=1e-6)
    assert_allclose(target.prior_location.reshape(3, -1), np.append(0.0, LOCS)[None].repeat(3, 0))


@pytest.mark.parametrize("loc", [np.inf, np.nan, 1e200, [1.0, 2.0], np.ones((2, 2)), {"a": 1.0}])
def test_a_bad_location_is_refused_by_name(loc):
    X, y = load_iris(return_X_y=True)
    clf = BayesianLogisticRegression(LaplaceDraws(n_particles=20), prior=Normal(loc=loc))
    with pytest.raises(ValueError, match="prior's loc"):
        clf.fit(X[:100], y[:100])


@pytest.mark.parametrize("parameter", ["loc", "scale"])
def test_a_series_with_names_is_refused_and_one_without_read(parameter):
    """Read by position it would be that of other features."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    values = pd.Series([1.0, 2.0, 0.5, 1.5], index=X.columns[::-1])
    clf = BayesianLogisticRegression(
        LaplaceDraws(n_particles=20, min_relative_ess=0.1), random_state=0
    )
    clf.set_params(prior=Normal(**{parameter: values}))
    with pytest.raises(ValueError, match=f"prior's {parameter} must be .* without names"):
        clf.fit(X[:100], y[:100])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            clone(clf).set_params(prior=Normal(**{parameter: plain})).fit(X[:100], y[:100]).coef_
            for plain in (values.reset_index(drop=True), values.to_list())
        ]
    assert_array_equal(*found)


def test_networks_refuse_a_location_and_scales_of_features():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="use loc=0"):
        BayesianMLPClassifier((4,), prior=Normal(loc=1.0)).fit(X, y)
    with pytest.raises(ValueError, match="one number for scale"):
        BayesianMLPClassifier((4,), prior=Normal(scale=[1.0, 1.0, 1e-3, 1.0])).fit(X, y)


# In estimators.

ESTIMATORS = [BayesianLinearRegression, BayesianLogisticRegression, BayesianProbitRegression]
every_estimator = pytest.mark.parametrize("kind", ESTIMATORS)
TUNED = {
    "normal": ("scale", Normal(0.1)),
    "laplace": ("scale", Laplace(0.1)),
    "student-t": ("scale", StudentT(scale=0.1)),
    "adaptive-ridge": ("rate", AdaptiveRidge(rate=0.1)),
    "hierarchical-normal": ("rate", HierarchicalNormal(rate=0.1)),
    "horseshoe": ("slab_scale", Horseshoe(slab_scale=0.1)),
}


def data(rng, n=80, p=3):
    X = rng.normal(size=(n, p))
    return X, (X @ [1.5, -1.0, 0.5] + rng.normal(size=n) > 0).astype(int)


def engine():
    return LaplaceDraws(n_particles=30)


def test_every_name_is_tested():
    assert TUNED.keys() == PRIORS.keys()


@pytest.mark.parametrize(("kind", "name"), crossed(ESTIMATORS, TUNED))
def test_a_named_prior_is_tuned_through_set_params_and_clone(kind, name, rng):
    X, y = data(rng)
    parameter, prior = TUNED[name]
    named = kind(engine(), prior=name, random_state=0)
    tuned = clone(named).set_params(**{f"prior__{parameter}": 0.1})
    assert named.prior == name
    assert isinstance(tuned.prior, type(prior))
    copied = clone(tuned)
    assert copied.get_params()[f"prior__{parameter}"] == 0.1
    given = kind(engine(), prior=prior, random_state=0).fit(X, y)
    assert_array_equal(copied.fit(X, y).coef_, given.coef_)
    loose = named.fit(X, y)  # few draws have errors
    assert np.abs(given.coef_).sum() < 1.2 * np.abs(loose.coef_).sum()


@every_estimator
@pytest.mark.parametrize("name", sorted(TUNED.keys() - {"horseshoe"}))
def test_a_named_prior_of_the_intercept_is_wide(kind, name, rng):
    """It stands for scale 10: with a noise of about 1 the intercept of the data survives."""
    X, y = data(rng)
    y = (np.arange(len(y)) % 5 > 0).astype(int)
    model = kind(engine(), intercept_prior=name, random_state=0).fit(X, y)
    plain = kind(engine(), random_state=0).fit(X, y)
    gap = np.abs(np.ravel(model.intercept_) - np.ravel(plain.intercept_))
    assert (gap < np.ravel(plain.intercept_std_)).all()


# Of a noise variance, as densities of its logarithm.

NOISE = {
    "half-student-t": (HalfStudentT(3.0, 0.7), f(1, 3.0, scale=0.49)),  # a squared t is an F
    "inverse-gamma": (InverseGamma(1.5, 0.3), invgamma(1.5, scale=0.3)),
}
every_noise = pytest.mark.parametrize(("prior", "law"), NOISE.values(), ids=NOISE)


@every_noise
def test_a_noise_prior_has_the_density_of_scipy(prior, law, rng):
    log_v = rng.uniform(-4.0, 7.0, size=(8, 1))
    expected = law.logpdf(np.exp(log_v[:, 0])) + log_v[:, 0]
    assert_allclose(prior.log_density(log_v), expected, rtol=0.0, atol=1e-3)
    score = central_differences(prior.log_density, log_v)
    assert_allclose(prior.score(log_v), score, rtol=1e-6, atol=1e-8)
    curvature = -central_differences(lambda u: prior.score(u)[:, 0], log_v)
    assert_allclose(prior.curvature(log_v), curvature, rtol=1e-6, atol=1e-8)


@every_noise
def test_a_noise_prior_draws_from_itself(prior, law, rng):
    draws = prior.sample(rng, 2000)
    assert draws.shape == (2000, 1)
    assert kstest(np.exp(draws[:, 0]), law.cdf).pvalue > 1e-6


def test_a_half_student_t_leaves_some_noise():
    """Without, the density of rows that are fitted exactly grows without bound."""
    prior = HalfStudentT(scale=2.0)
    grid = np.linspace(-40.0, 0.0, 40_001)[:, None]
    exact_fit = prior.log_density(grid) - 10.0 * grid[:, 0]
    assert_allclose(grid[np.argmax(exact_fit), 0], np.log(4e-8 / 9.5), atol=0.01)


class Cauchy(Prior):
    """A prior of one's own, with no more than the five methods."""

    def log_density(self, w):
        return -np.log(np.pi * (1.0 + w**2)).sum(axis=1)

    def score(self, w):
        return -2.0 * w / (1.0 + w**2)

    def precision(self, w):
        return 2.0 / (1.0 + w**2)

    def sample(self, rng, m, p):
        return rng.standard_cauchy((m, p))

    def expected_precision(self, squares):
        return 2.0 / (1.0 + squares)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_prior_of_ones_own(rng):
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.logistic(size=80) > 0
    coef = [
        BayesianLogisticRegression("svgd", prior=prior, random_state=0).fit(X, y).coef_
        for prior in (Cauchy(), StudentT(df=1.0))
    ]
    assert_allclose(coef[0], coef[1], rtol=1e-6)


@pytest.mark.parametrize(
    "Estimator", [later(BayesianLogisticRegression), BayesianPoissonRegression]
)
def test_of_two_equal_columns_a_spiky_prior_takes_either(Estimator, rng, seed):
    """Two modes of equal mass: chains that all stay at one agree, and are wrong."""
    z = np.tile([-1.5, -0.5, 0.5, 1.5], 10)
    X = np.stack([z, z + 0.05 * np.tile([1.0, -1.0, -1.0, 1.0], 10)], axis=1)
    y = rng.poisson(np.exp(z)) if "Poisson" in Estimator.__name__ else (z > 0).astype(int)
    model = Estimator("mcmc", prior=StudentT(df=3.0, scale=0.02), random_state=seed)
    # Now and then a chain finds the other mode, and R-hat is large.
    words = "the density has another mode|largest R-hat"
    with pytest.warns(ConvergenceWarning, match=words) as told:
        model.fit(X, y)
    if "another mode" in str(told[0].message):
        assert model.posterior_.diagnostics["other_mass"] > 0.2


def test_a_prior_with_heavy_tails_alone_is_no_reason_to_warn(rng, seed):
    X = rng.normal(size=(100, 4))
    y = (X @ [1.0, -1.0, 0.0, 0.0] + rng.logistic(size=100) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BayesianLogisticRegression(prior=StudentT(df=3.0), random_state=seed).fit(X, y)
    assert "other_mass" not in model.posterior_.diagnostics
