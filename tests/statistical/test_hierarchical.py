"""Priors with a hyper-parameter integrated out, against chains that sample the hyper-parameter too.

The chains are the package's own, on the joint density of coefficients and the logarithm of one
precision, or of a variance for each coefficient, written out below. What they say of the
coefficients has to be what the marginal prior says: within five Monte-Carlo standard errors, from
the effective sample sizes of both.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from skstein import BayesianLinearRegression, BayesianLogisticRegression, LogDensity
from skstein.diagnostics import ess, split_rhat
from skstein.priors import AdaptiveRidge, HierarchicalNormal, Normal
from skstein.samplers import HMC
from skstein.targets import LinearTarget, LogisticTarget, Transformed, laplace_approximation
from small import crossed, later

INTERCEPT = Normal(3.0)
COEF = np.array([1.0, -0.6, 0.3, 0.0, 0.0])
P = len(COEF)
SHARED = HierarchicalNormal(shape=1.5, rate=0.5)
EACH = AdaptiveRidge(shape=1.5, rate=0.3)
STANDARD_ERRORS = 5.0


def data(kind, rng, n=150):
    """Features as an estimator would make them, so that all see the same."""
    X = rng.normal(size=(n, P))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    eta = 0.3 + X @ COEF
    if kind == "linear":
        y = eta + 2.0 * rng.normal(size=n)
        return X, (y - y.mean()) / y.std()
    return X, (rng.random(n) < expit(eta)).astype(int)


def regression(kind, X, y, prior):
    target = LinearTarget if kind == "linear" else LogisticTarget
    return target(X, y, prior=prior, intercept_prior=INTERCEPT)


class Joint:
    """Coefficients and the logarithms of what their prior integrates out, as a `LogDensity`.

    The likelihood, and the priors of intercept and noise, are those of the regression less its
    normal prior of the coefficients.
    """

    def __init__(self, regression, prior, n_hyper):
        self.regression, self.prior, self.n_hyper = regression, prior, n_hyper

    def split(self, z):
        """What the regression has, the coefficients, and the logarithms of the others."""
        theta, hyper = z[:, : -self.n_hyper], z[:, -self.n_hyper :]
        return theta, theta[:, 1 : 1 + P], hyper

    def log_density(self, z):
        theta, coef, hyper = self.split(z)
        rest = self.regression.log_density(theta) - self.regression.prior.log_density(coef)
        return rest + self.log_hierarchy(coef, hyper)

    def score(self, z):
        theta, coef, hyper = self.split(z)
        gradient = self.regression.score(theta)
        gradient[:, 1 : 1 + P] -= self.regression.prior.score(coef)
        by_coef, by_hyper = self.hierarchy_score(coef, hyper)
        gradient[:, 1 : 1 + P] += by_coef
        return np.hstack([gradient, by_hyper])

    def target(self):
        return LogDensity(self.log_density, self.score, dim=self.regression.dim + self.n_hyper)


class SharedPrecision(Joint):
    """coef ~ N(0, 1 / alpha), alpha ~ Gamma(shape, rate); the last coordinate is log alpha."""

    def log_hierarchy(self, coef, log_alpha):
        log_alpha, square = log_alpha[:, 0], (coef**2).sum(axis=1)
        a, b = self.prior.shape, self.prior.rate
        return (a + 0.5 * P) * log_alpha - np.exp(log_alpha) * (b + 0.5 * square)

    def hierarchy_score(self, coef, log_alpha):
        alpha, square = np.exp(log_alpha), (coef**2).sum(axis=1, keepdims=True)
        a, b = self.prior.shape, self.prior.rate
        return -alpha * coef, a + 0.5 * P - alpha * (b + 0.5 * square)


class VarianceEach(Joint):
    """coef_j ~ N(0, tau_j), tau_j ~ InvGamma(shape, rate); the last coordinates are log tau."""

    def log_hierarchy(self, coef, log_tau):
        a, b = self.prior.shape, self.prior.rate
        return -np.sum((a + 0.5) * log_tau + np.exp(-log_tau) * (b + 0.5 * coef**2), axis=1)

    def hierarchy_score(self, coef, log_tau):
        a, b = self.prior.shape, self.prior.rate
        return -coef * np.exp(-log_tau), np.exp(-log_tau) * (b + 0.5 * coef**2) - a - 0.5


HIERARCHIES = {"shared": (SharedPrecision, SHARED, 1), "each": (VarianceEach, EACH, P)}
KINDS = ["logistic", "linear"]
every_model = pytest.mark.parametrize("kind", KINDS)
every_hierarchy = pytest.mark.parametrize("hierarchy", HIERARCHIES)


@dataclass
class Estimate:
    """Mean and standard deviation of each quantity, with the standard errors of both."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray

    @classmethod
    def of(cls, draws):
        """From chains (n_chains, n_draws, d), which have to agree."""
        mean = draws.mean(axis=(0, 1))
        square = (draws - mean) ** 2
        assert split_rhat(np.concatenate([draws, square], axis=2)).max() < 1.02
        sd = np.sqrt(square.mean(axis=(0, 1)))
        error = square.std(axis=(0, 1)) / np.sqrt(ess(square, rank=False))
        return cls(mean, sd, sd / np.sqrt(ess(draws, rank=False)), 0.5 * error / sd)

    def assert_agrees(self, other):
        error = np.hypot(self.mean_error, other.mean_error)
        assert (np.abs(self.mean - other.mean) < STANDARD_ERRORS * error).all()
        error = np.hypot(self.sd_error, other.sd_error)
        assert (np.abs(self.sd - other.sd) < STANDARD_ERRORS * error).all()


def chains(target, rng, n_chains=8, n_warmup=300, n_draws=2000):
    """Draws (n_chains, n_draws, dim) of a target, sampled in coordinates whitened at its mode."""
    bijection = laplace_approximation(target).bijection
    white, sampler = Transformed(target, bijection), HMC()
    start = rng.normal(size=(n_chains, target.dim))
    warm = sampler.warm_up(white, n_warmup, start, rng)
    draws = sampler.draw(white, n_draws, warm)[1]
    return bijection.forward(draws.reshape(-1, target.dim)).reshape(draws.shape)


def joint_of(kind, hierarchy, X, y):
    make, prior, n_hyper = HIERARCHIES[hierarchy]
    return make(regression(kind, X, y, Normal(1.0)), prior, n_hyper), prior


@every_model
@every_hierarchy
def test_the_joint_density_is_differentiated_rightly(kind, hierarchy, rng):
    joint, _ = joint_of(kind, hierarchy, *data(kind, rng))
    target = joint.target()
    z = 0.5 * rng.normal(size=(3, target.dim))
    moves = 1e-5 * np.eye(target.dim)
    expected = [(target.log_density(z + e) - target.log_density(z - e)) / 2e-5 for e in moves]
    np.testing.assert_allclose(target.score(z), np.transpose(expected), rtol=1e-5, atol=1e-5)


@every_model
@every_hierarchy
def test_the_joint_density_integrates_to_the_marginal_prior(kind, hierarchy, rng):
    """Up to a constant, by quadrature over one logarithm at a time."""
    joint, prior = joint_of(kind, hierarchy, *data(kind, rng))
    coef, u = rng.normal(size=(4, P)), np.linspace(-25.0, 15.0, 8001)
    if hierarchy == "shared":
        integrated = [
            np.log(np.exp(joint.log_hierarchy(np.tile(row, (len(u), 1)), u[:, None])).sum())
            for row in coef
        ]
    else:
        # Of one coordinate, the others held at 0.
        coef[:, 1:], table = 0.0, np.zeros((len(u), P))
        table[:, 0] = u
        integrated = [
            np.log(np.exp(joint.log_hierarchy(np.tile(row, (len(u), 1)), table)).sum())
            for row in coef
        ]
    constant = integrated - prior.log_density(coef)
    np.testing.assert_allclose(constant, constant[0], rtol=1e-7)


@pytest.mark.parametrize("hierarchy", ["shared", later("each")])
@pytest.mark.parametrize("kind", ["logistic", later("linear")])
def test_marginal_chains_agree_with_joint_chains(kind, hierarchy, rng):
    X, y = data(kind, rng)
    joint, prior = joint_of(kind, hierarchy, X, y)
    marginal = regression(kind, X, y, prior)
    together = chains(joint.target(), rng)
    alone = chains(marginal, rng)
    of_joint = Estimate.of(together[:, :, : marginal.dim])
    Estimate.of(alone).assert_agrees(of_joint)

    # What was integrated out, too: the expected precisions of the prior, given each draw.
    hyper = together[:, :, marginal.dim :]
    precision = np.exp(hyper) if hierarchy == "shared" else np.exp(-hyper)
    square = alone[:, :, 1 : 1 + P].reshape(-1, P) ** 2
    expected = np.array([prior.expected_precision(row) for row in square])
    expected = expected[:, : joint.n_hyper].reshape(*alone.shape[:2], -1)
    one, other = Estimate.of(precision), Estimate.of(expected)
    error = np.hypot(one.mean_error, other.mean_error)
    assert (np.abs(one.mean - other.mean) < STANDARD_ERRORS * error).all()


@pytest.mark.parametrize(
    ("kind", "hierarchy", "engine"), crossed(KINDS, HIERARCHIES, ["mcmc", "pmfvb"])
)
def test_a_fit_agrees_with_joint_chains(kind, hierarchy, engine, rng, seed):
    """The particles rest on some 2000 effective draws, the joint chains on theirs."""
    X, y = data(kind, rng)
    joint, prior = joint_of(kind, hierarchy, X, y)
    estimator = BayesianLinearRegression if kind == "linear" else BayesianLogisticRegression
    model = estimator(engine, prior=prior, intercept_prior=INTERCEPT, random_state=seed).fit(X, y)
    posterior = model.posterior_
    truth = Estimate.of(chains(joint.target(), rng)[:, :, : len(posterior.names)])
    error = np.hypot(truth.mean_error / truth.sd, 1 / np.sqrt(2000))
    gap = np.abs(posterior.mean() - truth.mean) / truth.sd
    assert (gap < STANDARD_ERRORS * error).all(), gap
    error = np.hypot(truth.sd_error / truth.sd, 1 / np.sqrt(2000))
    gap = np.abs(posterior.std() / truth.sd - 1)
    assert (gap < STANDARD_ERRORS * error).all(), gap


def test_without_data_the_joint_chains_have_the_prior(rng):
    """The chains themselves, where the answer is known: no row has weight."""
    X, y = data("logistic", rng)
    empty = LogisticTarget(
        X, y, sample_weight=np.zeros(len(y)), prior=Normal(1.0), intercept_prior=INTERCEPT
    )
    prior = HierarchicalNormal(shape=6.0, rate=6.0)
    draws = chains(SharedPrecision(empty, prior, 1).target(), rng)
    estimate = Estimate.of(draws)
    variance = 6.0 / (6.0 - 1.0)
    sd = np.append(norm(scale=3.0).std(), np.full(P, np.sqrt(variance)))
    assert (np.abs(estimate.mean[:-1]) < STANDARD_ERRORS * estimate.mean_error[:-1]).all()
    assert (np.abs(estimate.sd[:-1] - sd) < STANDARD_ERRORS * estimate.sd_error[:-1]).all()
