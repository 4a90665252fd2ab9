"""What is known before: yesterday's posterior, against the densities that it stands for."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    ParticlePosterior,
    check_target,
)
from skstein.inference import LaplaceDraws
from skstein.priors import MultivariateNormal
from skstein.targets import (
    LinearTarget,
    LogisticTarget,
    NormalPriorTarget,
    ProbitTarget,
    SoftmaxTarget,
)

P = 3
quick = LaplaceDraws(n_particles=40)


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
    assert_allclose(posterior.scores, score + prior.score(theta), rtol=1e-6, atol=1e-6)
    assert_allclose(prior.log_density(theta), normal.logpdf(theta), rtol=1e-8)


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
    likelihood = target.take(rows).score(theta) - prior.score(theta)
    assert_allclose(target.score(theta, rows), 2 * likelihood + prior.score(theta), atol=1e-8)


def _prior_score(target, theta, step=1e-5):
    moves = step * np.eye(len(theta))
    return (target.log_prior(theta + moves) - target.log_prior(theta - moves)) / (2 * step)


@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
def test_one_half_and_then_the_other_is_as_all_rows(engine, seed):
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    model = BayesianLogisticRegression(engine, standardize=False, random_state=seed)
    first = clone(model).fit(X[:284], y[:284])
    second = clone(model).set_params(prior=first.posterior_.as_prior()).fit(X[284:], y[284:])
    whole = model.fit(X, y).posterior_
    gap = (second.posterior_.mean() - whole.mean()) / whole.std()
    assert np.sqrt(np.mean(gap**2)) < 0.1
    assert_allclose(second.posterior_.std() / whole.std(), 1.0, atol=0.15)


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
