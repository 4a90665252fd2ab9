"""What is known before, against SciPy, Gibbs sampling and posteriors of all rows."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import halfnorm, ks_2samp, multivariate_normal, norm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianPoissonRegression,
    BayesianProbitRegression,
    ParticlePosterior,
    check_target,
)
from skstein.inference import FWSS, MCMC, PMD, PMFVB, SVGD, LaplaceDraws
from skstein.priors import Horseshoe, MultivariateNormal, Normal
from skstein.targets import (
    HorseshoeTarget,
    LinearTarget,
    LogisticTarget,
    NormalPriorTarget,
    ProbitTarget,
    SignConstrainedTarget,
    SignConstraintMap,
    SoftmaxTarget,
)
from skstein.targets.regression.horseshoe import HorseshoeMap
from small import later

DATA = Path(__file__).parent / "data"
P = 3
quick = LaplaceDraws(n_particles=40, min_relative_ess=0.5)


def problem(kind, rng, n=60):
    """An estimator, features on scales of their own, outcomes, and the target of raw features."""
    X = 2.0 + rng.normal(size=(n, P)) * [1.0, 5.0, 0.2]
    eta = (X - 2.0) @ [1.0, -0.2, 0.0] + rng.normal(size=n)
    if kind == "linear":
        return BayesianLinearRegression, X, 5.0 + 3.0 * eta, LinearTarget
    if kind == "softmax":
        y = np.digitize(eta, [-0.7, 0.7])
        return BayesianLogisticRegression, X, y, lambda X, y: SoftmaxTarget(X, y, n_classes=3)
    target = {"logistic": LogisticTarget, "probit": ProbitTarget}[kind]
    Estimator = BayesianLogisticRegression if kind == "logistic" else BayesianProbitRegression
    return Estimator, X, (eta > 0).astype(int), target


KINDS = ["linear", "logistic", "softmax", "probit"]


# A posterior as prior.


def normal_prior(dim, rng, **params):
    root = rng.normal(size=(dim, dim))
    return MultivariateNormal(rng.normal(size=dim), 0.1 * (root @ root.T + np.eye(dim)), **params)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("standardize", [False, True])
def test_a_joint_prior_is_on_the_scale_of_the_raw_features(kind, standardize, rng):
    """The log density that a fit reports is the raw likelihood's and SciPy's normal, exactly."""
    Estimator, X, y, make_target = problem(kind, rng)
    target = make_target(X, y)
    prior = normal_prior(target.dim, rng, names=target.names)
    model = Estimator(quick, prior=prior, standardize=standardize, random_state=0).fit(X, y)
    posterior = model.posterior_
    normal = multivariate_normal(prior.loc, prior.cov)
    theta = posterior.particles
    expected = target.log_likelihood(theta) + normal.logpdf(theta)
    assert_allclose(np.ptp(posterior.log_densities - expected), 0.0, atol=1e-7)
    score = target.score(theta) - np.stack([_prior_score(target, row) for row in theta])
    score += _normal_score(prior, theta)
    assert_allclose(posterior.scores, score, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_and_parts_agree(kind, rng):
    _, X, y, make_target = problem(kind, rng)
    regression = make_target(X, y)
    prior = normal_prior(regression.dim, rng)
    target = NormalPriorTarget(regression, prior.loc, prior.cov)
    check_target(target, random_state=0)
    theta = target.sample_prior(rng, 3)
    rows = np.arange(0, len(y), 2)
    assert_allclose(target.hessian(theta[0]).diagonal(), target.hessian_diagonal(theta[0]))
    of_prior = _normal_score(prior, theta)
    likelihood = target.take(rows).score(theta) - of_prior
    assert_allclose(target.score(theta, rows), 2 * likelihood + of_prior, atol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed_of_rows", [0, 3])
def test_signs_beside_outliers(seed_of_rows):
    """Where the search for the mode begins, the density of Student t noise may curve upwards."""
    rng = np.random.default_rng(seed_of_rows)
    X = rng.normal(10.0, 2.0, size=(50, 2))
    y = 3.0 + X[:, 0] + rng.normal(size=50)
    X[0, 0] *= 10.0
    y[0] *= -20.0
    model = BayesianLinearRegression(quick, noise="student-t", positive=True, random_state=0)
    assert_allclose(model.fit(X, y).coef_, [1.0, 0.0], atol=0.5)


def _normal_score(prior, theta):
    return np.linalg.solve(prior.cov, (prior.loc - theta).T).T


def _prior_score(target, theta, step=1e-5):
    moves = step * np.eye(len(theta))
    return (target.log_prior(theta + moves) - target.log_prior(theta - moves)) / (2 * step)


@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
def test_one_half_and_then_the_other_is_as_all_rows(engine, seed):
    """As far as the first half is normal: of 67 halves most are off by 0.02 to 0.06, one by 0.11.

    A standard deviation is off by up to 0.18.
    """
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    model = BayesianLogisticRegression(engine, standardize=False, random_state=seed)
    first = clone(model).fit(X[:284], y[:284])
    second = clone(model).set_params(prior=first.posterior_.as_prior()).fit(X[284:], y[284:])
    whole = model.fit(X, y).posterior_
    gap = (second.posterior_.mean() - whole.mean()) / whole.std()
    assert np.sqrt(np.mean(gap**2)) < 0.15
    assert_allclose(second.posterior_.std() / whole.std(), 1.0, atol=0.25)


def test_in_a_stream_and_in_a_pipeline(rng):
    _, X, y, _ = problem("logistic", rng, n=400)
    first = make_pipeline(StandardScaler(), BayesianLogisticRegression(random_state=0))
    first.fit(X[:200], y[:200])
    prior = first[-1].posterior_.as_prior()
    Z = first[0].transform(X)
    whole = BayesianLogisticRegression(random_state=0).fit(Z, y).posterior_
    stream = BayesianLogisticRegression("pmd", prior=prior, random_state=0)
    for rows in (slice(200, 300), slice(300, 400)):
        stream.partial_fit(Z[rows], y[rows], classes=[0, 1])
    gap = (stream.posterior_.mean() - whole.mean()) / whole.std()
    assert np.sqrt(np.mean(gap**2)) < 0.25


def test_it_warns_where_the_posterior_is_far_from_normal(rng):
    """A rare category that was seen with one class only has a one-sided coefficient."""
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BayesianLogisticRegression("pmfvb", random_state=0).fit(X, y).posterior_.as_prior()
    X[:, 2] = (np.arange(300) < 4) & (y == y[0])
    for engine in ("mcmc", "laplace"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Laplace's own answer
            model = BayesianLogisticRegression(engine, random_state=0).fit(X, y)
        with pytest.warns(ConvergenceWarning, match="far from normal in x2"):
            model.posterior_.as_prior()
    heavy = ParticlePosterior(rng.standard_t(3, size=(2000, 2)), names=["a", "b"])
    with pytest.warns(ConvergenceWarning, match="far from normal in a, b"):
        heavy.as_prior()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # separable
def test_a_prior_of_other_coordinates_or_classes_is_refused(rng):
    X, y = load_iris(return_X_y=True)
    prior = BayesianLogisticRegression(quick, random_state=0).fit(X, y).posterior_.as_prior()
    binary = BayesianLogisticRegression(quick, random_state=0).fit(X[:100], y[:100])
    two = binary.posterior_.as_prior()
    cases = [
        (prior, {}, X[:100], y[:100], "the prior's coordinates are intercept\\[0\\]"),
        (two, {}, X[50:], y[50:], "the prior's classes are 0, 1, and those of this fit 1, 2"),
        (two, {}, X[:100, :3], y[:100], "the prior's coordinates are intercept, x0"),
        (two, {"fit_intercept": False}, X[:100], y[:100], "the prior's coordinates"),
        (MultivariateNormal(np.zeros(2), np.eye(2)), {}, X[:100], y[:100], "of 2 coordinates and"),
        (two, {"factorized": True, "inference": "pmfvb"}, X[:100], y[:100], "factorized=False"),
    ]
    for prior, params, X, y, message in cases:
        model = BayesianLogisticRegression(quick, prior=prior).set_params(**params)
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)
    counts = BayesianPoissonRegression(quick, prior=binary.posterior_.as_prior())
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="classes are 0, 1, and those of this fit none: fit the"):
        counts.fit(X, y)


@pytest.mark.parametrize(
    ("loc", "cov", "message"),
    [
        (np.zeros(5), np.eye(4), "needs loc of shape"),
        (np.zeros((5, 1)), np.eye(5), "needs loc of shape"),
        (np.full(5, np.nan), np.eye(5), "holds NaN"),
        (np.zeros(5), np.diag([1.0, 1.0, 1.0, 1.0, 0.0]), "its diagonal positive"),
        (np.zeros(5), np.triu(np.ones((5, 5))), "must be symmetric"),
        (np.zeros(5), np.ones((5, 5)), "must be positive definite"),
    ],
)
def test_a_normal_that_is_none_is_refused(loc, cov, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        BayesianLogisticRegression(quick, prior=MultivariateNormal(loc, cov)).fit(X[:100], y[:100])


def test_particles_that_are_too_few_for_a_covariance_are_refused(rng):
    with pytest.raises(ValueError, match="more particles"):
        ParticlePosterior(rng.normal(size=(4, 4))).as_prior()


# Signs.


@pytest.mark.parametrize("signs", [[1.0, -1.0, 0.0], [0.0, 1.0, 1.0]])
def test_the_half_line_map_is_a_bijection_with_its_derivatives(signs, rng):
    signs, scale = np.array(signs), np.array([0.1, 2.0, 1.0])
    bijection = SignConstraintMap(signs, scale)
    z = np.linspace(-6.0, 6.0, 25)[:, None] * np.array([1.0, 0.7, -0.9])
    theta = bijection.forward(z)
    assert ((theta * signs >= 0.0) | (signs == 0.0)).all()
    assert_allclose(bijection.inverse(theta), z, rtol=1e-8, atol=1e-12)
    # A half-normal prior of that scale is standard normal.
    j = np.flatnonzero(signs)[0]
    assert_allclose(halfnorm.cdf(np.abs(theta[:, j]), scale=scale[j]), norm.cdf(z[:, j]))
    regression = LinearTarget(rng.normal(size=(9, 2)), rng.normal(size=9), fit_intercept=False)
    target = SignConstrainedTarget(regression, bijection)
    check_target(target, rng.normal(size=(3, 3)), random_state=0)
    score = rng.normal(size=z.shape)
    assert_allclose(bijection.push_score(z, bijection.pull_score(z, score)), score, atol=1e-6)


def truncated_normal_gibbs(X, y, signs, rng, n=40_000):
    """Draws of (intercept, coefficients, log sigma^2) under the priors of the estimator."""
    A = np.column_stack([np.ones(len(y)), X])
    gram, moment, prior = A.T @ A, A.T @ y, np.array([0.01] + [1.0] * X.shape[1])
    theta, noise, draws = np.append(0.0, 0.1 * signs), 1.0, []
    for _ in range(n):
        for j, sign in enumerate([0.0, *signs]):
            precision = gram[j, j] / noise + prior[j]
            mean = (moment[j] - gram[j] @ theta + gram[j, j] * theta[j]) / noise / precision
            sd = precision**-0.5
            low = ndtr(-sign * mean / sd) if sign else 0.0
            u = low + (1.0 - low) * rng.random()
            theta[j] = mean + (sign or 1.0) * sd * ndtri(np.clip(u, 1e-300, 1.0 - 1e-16))
        shape, rate = 1.0 + 0.5 * len(y), 1.0 + 0.5 * np.sum((y - A @ theta) ** 2)
        noise = rate / rng.gamma(shape)
        draws.append([*theta, np.log(noise)])
    return np.array(draws[500:])


@pytest.mark.parametrize("engine", ["mcmc", "ksd-mcmc", "pmfvb", "svgd", "fwss", "pmd"])
def test_signs_against_gibbs_sampling(engine, leaning, seed):
    """Coefficients that lean against 0 from either side; the noise prior is inverse gamma."""
    X, y, signs, draws = leaning
    model = BayesianLinearRegression(
        engine, positive=signs, standardize=False, noise_shape=1.0, random_state=seed
    ).fit(X, y)
    posterior = model.posterior_
    assert (posterior.particles[:, 1:-1] * signs >= 0.0).all()
    sd = draws.std(axis=0)
    mean_error = (posterior.mean() - draws.mean(axis=0)) / sd
    assert np.sqrt(np.mean(mean_error**2)) < 0.1
    assert_allclose(posterior.std() / sd, 1.0, atol=0.25)
    levels = [0.05, 0.5, 0.95]
    quantile_error = (posterior.quantile(levels) - np.quantile(draws, levels, axis=0)) / sd
    assert np.sqrt(np.mean(quantile_error**2)) < 0.2


@pytest.fixture(scope="module")
def leaning():
    rng = np.random.default_rng(0)
    signs = np.array([1, 1, -1, 0])
    X = rng.normal(size=(40, 4))
    y = X @ [0.8, -0.3, 0.0, -0.5] + rng.normal(size=40)
    return X, y, signs, truncated_normal_gibbs(X, y, signs, rng, n=8000)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["linear", "logistic", "probit"])
def test_signs_by_position_and_by_name_hold_on_every_scale(kind, rng):
    Estimator, X, y, _ = problem(kind, rng)
    X = pd.DataFrame(X, columns=["a", "b", "c"])
    model = Estimator(quick, random_state=0)
    by_name = clone(model).set_params(positive={"a": -1, "c": 1}).fit(X, y)
    by_place = clone(model).set_params(positive=[-1, 0, 1]).fit(X, y)
    assert_allclose(by_name.posterior_.particles, by_place.posterior_.particles)
    assert (by_name.posterior_["a"] <= 0.0).all() and (by_name.posterior_["c"] >= 0.0).all()
    model.set_params(positive=True).fit(sparse.csr_array(X.to_numpy()), y)
    assert (np.ravel(model.coef_) > 0.0).all() and (model.posterior_["x2"] >= 0.0).all()
    # The prior is cut off, not moved: where a sign is clear it changes nothing.
    free = Estimator("mcmc", random_state=0).fit(X, y)
    clear = Estimator("mcmc", positive=[1, 0, 0], random_state=0).fit(X, y)
    gap = (free.posterior_.mean() - clear.posterior_.mean()) / free.posterior_.std()
    assert np.abs(gap).max() < 0.1


@pytest.mark.parametrize("prior", ["laplace", Normal(loc=1.0)])
def test_signs_with_other_priors_streams_and_warm_starts(prior, rng):
    _, X, y, _ = problem("logistic", rng, n=400)
    model = BayesianLogisticRegression("mcmc", prior=prior, positive=True, random_state=0)
    whole = clone(model).fit(X, y).posterior_
    stream = clone(model).set_params(inference="pmd")
    stream.partial_fit(X[:200], y[:200], classes=[0, 1]).partial_fit(X[200:], y[200:])
    assert (stream.posterior_.particles[:, 1:] >= 0.0).all()
    gap = (stream.posterior_.mean() - whole.mean()) / whole.std()
    assert np.sqrt(np.mean(gap**2)) < 0.5  # the first rows standardise
    warm = model.set_params(warm_start=True).fit(X, y).fit(X, y).posterior_
    assert np.abs((warm.mean() - whole.mean()) / whole.std()).max() < 0.1
    from_prior = PMD(init="prior", n_particles=200)
    if isinstance(prior, Normal):
        with pytest.raises(ValueError, match="sample_prior"):
            clone(model).set_params(inference=from_prior).fit(X, y)
    else:
        found = clone(model).set_params(inference=from_prior, warm_start=False).fit(X, y)
        assert (found.posterior_.particles[:, 1:] >= 0.0).all()


def test_signs_under_the_posterior_of_yesterday(seed):
    """Those of particles without signs, the others rejected."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 3))
    y = X @ [0.3, -0.2, 0.0] + rng.logistic(size=120) > 0
    yesterday = BayesianLogisticRegression(random_state=seed).fit(X[:60], y[:60])
    model = BayesianLogisticRegression(prior=yesterday.posterior_.as_prior(), random_state=seed)
    free = model.fit(X[60:], y[60:]).posterior_
    allowed = free.particles[free.particles[:, 2] < 0.0]
    signed = model.set_params(positive=[0, -1, 0]).fit(X[60:], y[60:]).posterior_
    assert signed.particles[:, 2].max() < 0.0
    assert_allclose(signed.mean(), allowed.mean(axis=0), atol=0.2 * free.std().max())


def test_signs_under_a_horseshoe_with_rows_set_aside(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.logistic(size=200) > 0
    engine = PMFVB(early_stopping=True, max_iter=100)
    model = BayesianLogisticRegression(engine, prior="horseshoe", positive=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert model.fit(X, y).posterior_.particles[:, 1:4].min() >= 0.0


@pytest.mark.parametrize(
    ("positive", "params", "message"),
    [
        ([1, 0], {}, "1, -1 or 0 for each of 4 features"),
        ([1, 0, 2, 0], {}, "1, -1 or 0 for each of 4 features"),
        (np.ones((4, 1)), {}, "1, -1 or 0 for each of 4 features"),
        ({"age": 1}, {}, "signs of age, which are not features of X"),
        ([1, np.nan, 0, 0], {}, "1, -1 or 0 for each of 4 features"),
        (["+", "-", "+", "-"], {}, "1, -1 or 0 for each of 4 features"),
        ("all", {}, "'positive' parameter"),
        (True, {"factorized": True, "inference": "pmfvb", "prior": "adaptive-ridge"}, "factors"),
    ],
)
def test_infeasible_signs_are_refused(positive, params, message):
    X, y = load_iris(return_X_y=True)
    model = BayesianLogisticRegression(quick, positive=positive).set_params(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="one linear predictor"):
        BayesianLogisticRegression(quick, positive=True).fit(X, y)


# A horseshoe.


@pytest.fixture(scope="module")
def sparse_problem():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 8))
    return X, 1.5 * X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=60)


@pytest.mark.parametrize("kind", KINDS)
def test_a_horseshoe_target_agrees_with_itself(kind, rng):
    _, X, y, make_target = problem(kind, rng)
    target = HorseshoeTarget(make_target((X - 2.0) / [1.0, 5.0, 0.2], y), Horseshoe(1))
    z = 1.5 * rng.normal(size=(4, target.dim))
    check_target(target, z, random_state=0)
    bijection, score, step = target.map, rng.normal(size=z.shape), 1e-6
    assert_allclose(bijection.inverse(bijection.forward(z)), z, atol=1e-8)
    assert_allclose(bijection.push_score(z, bijection.pull_score(z, score)), score, atol=1e-5)
    moves = step * np.eye(target.dim)
    for row in z:
        jacobian = (bijection.forward(row + moves) - bijection.forward(row - moves)) / (2 * step)
        log_det = np.linalg.slogdet(jacobian)[1]
        assert_allclose(bijection.log_det(row[None])[0], log_det, atol=1e-5)
        slope = (bijection.log_det(row + moves) - bijection.log_det(row - moves)) / (2 * step)
        pulled = bijection.pull_score(row[None], score[:1])[0]
        assert_allclose(pulled, jacobian @ score[0] + slope, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [BayesianLinearRegression, later(BayesianLogisticRegression)])
def test_strong_coefficients_under_a_horseshoe_stay_as_they_are(kind, rng):
    """Chains would not move along the ridge of a coefficient that is known and the scales."""
    X = rng.normal(size=(300, 12))
    signal = X[:, :2] @ [3.0, -2.0]
    y = signal + rng.logistic(size=300)
    regressor = kind is BayesianLinearRegression
    engine = MCMC(n_draws=800, max_draws=800)
    model = kind(engine, prior="horseshoe", random_state=0)
    posterior = model.fit(X, y if regressor else (y > 0).astype(int)).posterior_
    # Not of others, nor of the global scale: one visit to a long tail makes 2,400 draws 100.
    assert posterior.diagnostics["rhat"][:3].max() < 1.05
    assert posterior.diagnostics["ess"][:3].min() > 200
    assert_allclose(np.ravel(model.coef_)[:2], [3.0, -2.0], atol=1.0)


def test_a_horseshoe_target_with_strong_coefficients_agrees_with_itself(rng):
    X = rng.normal(size=(80, 4))
    y = X @ [3.0, -2.0, 0.0, 0.1] + 0.5 * rng.normal(size=80)
    target = HorseshoeTarget(LinearTarget(X, y), Horseshoe(1))
    assert list(target._strong) == [1, 2]
    z = rng.normal(size=(4, target.dim))
    check_target(target, z, random_state=0)
    draws = target.map.forward(target.sample_prior(rng, 20_000))
    same_kind = [np.abs(draws[:, j]) / np.exp(draws[:, -2]) for j in (1, 3)]
    assert ks_2samp(*same_kind).pvalue > 1e-4


@pytest.mark.parametrize("positive", [False, True])
def test_a_horseshoe_of_features_that_say_nothing_is_its_prior(positive):
    """Nor is there a curvature that says how large a coefficient is: that of one unit stands in."""
    X, y = sparse.csr_array((40, 4)), np.arange(40) % 2
    prior = Horseshoe(0.5, slab_scale=1.0)
    model = BayesianLogisticRegression("svgd", prior=prior, positive=positive, random_state=0)
    assert_allclose(model.fit(X, y).predict_proba(X), 0.5, atol=0.02)
    assert not positive or (model.coef_ > 0.0).all()


@pytest.mark.parametrize(("tau", "slab"), [(1e-3, 1.0), (0.1, 2.0), (3.0, 0.5), (50.0, 0.1)])
def test_coefficients_have_the_distribution_of_a_horseshoe(tau, slab):
    """Of normal coordinates at chosen quantiles, against quadrature over the local scale."""
    w = np.array([0.1, 0.5, 1.0, 2.0, 3.5])
    bijection = HorseshoeMap(np.array([0]), 0.0)
    theta = np.tile([0.0, np.log(tau), np.log(slab)], (len(w), 1))
    z = bijection.inverse(theta)
    z[:, 0] = w
    for beta, expected in zip(bijection.forward(z)[:, 0], norm.cdf(w), strict=True):

        def below(x, beta=beta):
            free = (tau * np.exp(x)) ** 2
            std = np.sqrt(slab**2 * free / (slab**2 + free))
            return norm.cdf(beta / std) / (np.pi * np.cosh(x))

        assert_allclose(quad(below, -40.0, 40.0, points=[0.0], limit=400)[0], expected, atol=2e-3)


short = MCMC(n_draws=150, max_draws=150)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of few draws
@pytest.mark.parametrize(
    "engine",
    [
        short,
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("mcmc", "ksd-mcmc", "pmfvb")),
    ],
    ids=str,
)
def test_a_horseshoe_against_nuts(engine, seed):
    """Three relevant coefficients of twenty, by NumPyro (``examples/benchmarks/horseshoe.py``)."""
    gold = np.load(DATA / "horseshoe_linear.npz")
    model = BayesianLinearRegression(
        engine, prior=Horseshoe(3), standardize=False, noise_shape=1.0, random_state=seed
    )
    posterior = model.fit(gold["X"], gold["y"]).posterior_
    error = (posterior.mean() - gold["mean"]) / gold["std"]
    assert np.sqrt(np.mean(error**2)) < 0.1
    assert abs(np.mean(posterior.std() / gold["std"]) - 1.0) < 0.1
    # A spike with long tails: 150 independent draws of it have .21, a thousand .08.
    quantiles = posterior.quantile(gold["levels"])
    error = np.sqrt(np.mean(((quantiles - gold["quantiles"]) / gold["std"]) ** 2))
    size = min(len(posterior), *posterior.diagnostics.get("ess", [len(posterior)]))
    assert error < 1.5 * 0.21 * np.sqrt(150 / max(size, 150))


def few_rows():
    """Where points are as dense as chains find them, and too wide by half in a coefficient."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(25, 4))
    X[:, 3] = rng.random(25) < 0.05
    return X, X @ [0.5, 0.0, 0.1, 1.0] + rng.normal(size=25)


@pytest.fixture(scope="module", params=["few rows", later("gold")])
def horseshoe(request):
    """Features, outcome, prior, 5, 50 and 95 % points and standard deviations."""
    gold = np.load(DATA / "horseshoe_linear.npz")
    X, y, n_relevant = (gold["X"], gold["y"], 3) if request.param == "gold" else (*few_rows(), 1)
    engine = MCMC(n_draws=1200, max_draws=1200, max_mcse=0.1, max_rhat=1.05)
    model = BayesianLinearRegression(engine, prior=Horseshoe(n_relevant), random_state=5)
    posterior = model.fit(X, y).posterior_
    return X, y, model.prior, posterior.quantile([0.05, 0.5, 0.95]), posterior.std()


@pytest.mark.slow
@pytest.mark.parametrize("engine", [SVGD(), FWSS()], ids=str)
def test_few_points_find_the_tails_of_a_horseshoe_or_say_so(engine, horseshoe, seed):
    X, y, prior, truth, sd = horseshoe
    model = BayesianLinearRegression(engine, prior=prior, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = model.fit(X, y).posterior_
    error = np.sqrt(np.mean(((posterior.quantile([0.05, 0.5, 0.95]) - truth) / sd) ** 2))
    warned = any("chains find" in str(warning.message) for warning in caught)
    assert warned or error < 0.3  # of as many exact draws .2
    if isinstance(engine, SVGD) and len(y) == len(few_rows()[1]):
        assert error < 0.3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_horseshoe_shrinks_noise_and_keeps_signals(sparse_problem):
    X, y = sparse_problem
    plain = BayesianLinearRegression(MCMC(n_draws=60, max_draws=60), random_state=0).fit(X, y)
    sharp = clone(plain).set_params(prior="horseshoe").fit(X, y)
    assert np.abs(sharp.coef_[2:]).sum() < 0.6 * np.abs(plain.coef_[2:]).sum()
    assert_allclose(sharp.coef_[:2], plain.coef_[:2], rtol=0.15)
    assert sharp.posterior_.names[-2:] == ("log_global_scale", "log_slab_scale")
    assert sharp.predict_interval(X[:3]).shape == (3, 2)
    signed = clone(sharp).set_params(positive=[1, -1] + [1] * 6).fit(X, y)
    assert (signed.posterior_.particles[:, 1:9] * ([1, -1] + [1] * 6) >= 0.0).all()


@pytest.mark.parametrize(
    ("prior", "params", "message"),
    [
        (Horseshoe(n_relevant=4), {}, "n_relevant=4 relevant coefficients of 4"),
        (Horseshoe(slab_scale=0.0), {}, "'slab_scale' parameter of Horseshoe"),
        (Horseshoe(), {"factorized": True, "inference": "pmfvb"}, "factorized=False"),
        ("normal", {"intercept_prior": Horseshoe()}, "not a prior of intercepts alone"),
    ],
)
def test_a_horseshoe_where_it_cannot_be_is_refused(prior, params, message):
    X, y = load_iris(return_X_y=True)
    model = BayesianLogisticRegression(quick, prior=prior).set_params(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="a Horseshoe has tails that the particles of a stream"):
        stream = BayesianLogisticRegression("pmd", prior="horseshoe")
        stream.partial_fit(X[:100], y[:100], classes=[0, 1])
    with pytest.raises(ValueError, match="which networks need"):
        BayesianMLPClassifier((3,), prior="horseshoe").fit(X, y)
