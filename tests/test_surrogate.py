"""A surrogate of some rows against the density of all, and what corrects it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning, EfficiencyWarning

from densities import standard_normal
from skstein import BayesianLogisticRegression, infer
from skstein.inference import FWSS, MCMC, PMFVB, SVGD
from skstein.outcomes import NegativeBinomial, Poisson
from skstein.priors import StudentT
from skstein.targets import (
    LinearTarget,
    LogisticTarget,
    NormalPriorTarget,
    RegressionTarget,
    SoftmaxTarget,
    Surrogate,
    laplace_approximation,
    surrogate,
)

N = 20_000


def regression(kind, rng, n=N, **options):
    X = rng.normal(size=(n, 4))
    eta = 0.5 * X @ [1.0, -0.5, 0.0, 0.3] + 0.3
    if kind == "softmax":
        return SoftmaxTarget(X, np.digitize(eta + rng.logistic(size=n), [-1, 1]), n_classes=3)
    if kind == "poisson":
        return RegressionTarget(Poisson(), X, rng.poisson(np.exp(eta)), **options)
    if kind == "negative binomial":
        y = rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, size=n))
        return RegressionTarget(NegativeBinomial(), X, y, **options)
    target = LogisticTarget(X, (eta + rng.logistic(size=n) > 0).astype(float), **options)
    if kind == "correlated prior":
        return NormalPriorTarget(target, np.full(5, 0.1), 0.5 + 0.5 * np.eye(5))
    return target


every_kind = pytest.mark.parametrize(
    "kind", ["logistic", "softmax", "poisson", "negative binomial", "correlated prior"]
)


def draws_of(target, rng, m=50):
    return laplace_approximation(target).bijection.forward(rng.standard_normal((m, target.dim)))


@every_kind
def test_it_is_exact_to_the_second_order(kind, rng):
    target = regression(kind, rng)
    few = Surrogate(target, 500)
    assert 450 < few.n_rows < 600
    at = few.center[None]
    for exact, found in zip(
        target.log_density_and_score(at), few.log_density_and_score(at), strict=True
    ):
        assert_allclose(found, exact, rtol=1e-10, atol=1e-6)
    assert_allclose(few.hessian(few.center), target.hessian(few.center), rtol=1e-8, atol=1e-6)
    theta = few.center + 0.1 * rng.normal(size=(3, target.dim))
    value, score = few.log_density_and_score(theta)
    assert_allclose(few.log_density(theta), value)
    assert_allclose(few.log_prior(theta) + few.log_likelihood(theta), value)
    far = few.center + 30.0 * rng.normal(size=(20, target.dim))
    with np.errstate(over="ignore"):
        assert (few.log_density(far) < value.min()).all()
    step = 1e-5 * np.eye(target.dim)
    slopes = [(few.log_density(theta + h) - few.log_density(theta - h)) / 2e-5 for h in step]
    assert_allclose(np.transpose(slopes), score, rtol=1e-5, atol=1e-4)


@every_kind
def test_as_many_rows_as_the_error_asks_for(kind, rng):
    target = regression(kind, rng)
    few = Surrogate(target)
    assert few.n_rows < N // 4
    theta = draws_of(target, rng)
    assert np.std(target.log_density(theta) - few.log_density(theta)) < 0.06


def test_all_rows_are_the_target(rng):
    target = regression("logistic", rng, prior=StudentT(), sample_weight=rng.integers(1, 4, N))
    same, theta = Surrogate(target, 10 * N), rng.normal(size=(5, 5))
    assert_allclose(same.log_density(theta), target.log_density(theta))
    assert_allclose(same.score(theta), target.score(theta), rtol=1e-9, atol=1e-6)


def test_rows_on_which_a_coefficient_hangs_are_there(rng):
    """Three rows of a rare category, of one class, in 20,000."""
    X = rng.normal(size=(N, 3))
    X[:, 2] = 0.0
    X[[5, 7000, 19_999], 2] = 1.0
    y = (X[:, 0] + rng.logistic(size=N) > 0).astype(float)
    y[X[:, 2] == 1.0] = 1.0
    target = LogisticTarget(X, y)
    rows, multiplier = surrogate.chosen_rows(target, laplace_approximation(target))
    assert np.isin([5, 7000, 19_999], rows[multiplier == 1.0]).all()


def test_weights_stand_for_repetition(rng):
    """Of the rows one has other ones than the other, and both have the density of all rows."""
    counts = rng.integers(0, 4, N)
    counts[0] = 1
    X, y = rng.normal(size=(N, 3)), rng.integers(0, 2, N)
    kept = counts > 0
    weighted = LogisticTarget(X[kept], y[kept], sample_weight=counts[kept])
    repeated = LogisticTarget(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    theta = draws_of(repeated, rng)
    values = [Surrogate(target).log_density(theta) for target in (weighted, repeated)]
    assert np.std(values[0] - values[1]) < 0.1


@pytest.mark.parametrize(
    "engine",
    [MCMC(surrogate="auto"), SVGD(surrogate="auto"), PMFVB(surrogate="auto"), FWSS(surrogate=800)],
    ids=lambda engine: type(engine).__name__,
)
def test_engines_run_on_it(engine, rng, seed):
    """Within a tenth of a standard deviation of the Gaussian at the mode, nearly the posterior."""
    target = regression("logistic", rng)
    laplace = laplace_approximation(target)
    posterior = infer(target, engine, random_state=seed)
    sd = np.sqrt(laplace.variances())
    assert np.abs((posterior.mean() - laplace.mode) / sd).max() < 0.15
    assert_allclose(posterior.std() / sd, 1.0, atol=0.12)
    assert posterior.diagnostics["surrogate_rows"] < N // 4
    assert posterior.diagnostics["surrogate_error"] < 0.06


def skewed(rng):
    X = rng.normal(size=(3000, 6)) * np.geomspace(1.0, 30.0, 6)
    return LogisticTarget(X, (rng.random(3000) < 0.03).astype(float))


def test_the_exact_density_corrects_it(rng, seed):
    """A surrogate of few rows is off by tenths of a nat; after the weights the means are not."""
    target = skewed(rng)
    truth = infer(target, MCMC(), random_state=seed)
    few = infer(target, MCMC(surrogate=60), random_state=seed)
    assert few.diagnostics["surrogate_error"] > 0.05
    assert few.diagnostics["surrogate_pareto_k"] < 0.7
    assert np.ptp(few.weights) > 0.0
    assert np.abs((few.mean() - truth.mean()) / truth.std()).max() < 0.12


def test_a_surrogate_too_far_off_is_said(rng):
    target = regression("logistic", rng)
    poor = Surrogate(target)
    poor._curvature = poor._curvature + 8.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skstein.inference._run.run_on_surrogate.Surrogate", lambda *_: poor)
        with pytest.warns(ConvergenceWarning, match="raise surrogate, the rows that stand for all"):
            infer(target, MCMC(surrogate=10), random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_few_particles_are_enough_to_correct(rng, seed):
    target = regression("logistic", rng, 500)
    posterior = infer(target, SVGD(4, surrogate=100), random_state=seed)
    assert_allclose(posterior.weights.sum(), 1.0)


def test_a_warm_start_goes_on_with_the_same_rows(rng, seed):
    X = rng.normal(size=(5000, 2))
    y = X[:, 0] + rng.logistic(size=5000) > 0
    model = BayesianLogisticRegression(
        MCMC(surrogate="auto"), warm_start=True, random_state=seed
    ).fit(X, y)
    n_iter = model.n_iter_
    assert model.fit(X, y).n_iter_ > n_iter


def test_what_cannot_have_one_is_refused(rng):
    density = standard_normal()
    with pytest.raises(ValueError, match=r"surrogate needs .*take and pointwise_log_likelihood"):
        infer(density, MCMC(surrogate="auto"))
    target = regression("logistic", rng, n=100)
    with pytest.raises(ValueError, match="batch_size and surrogate are two ways"):
        infer(target, SVGD(surrogate="auto", batch_size=10))


def test_linear_regression_needs_none(rng, seed):
    """Its sums over rows are sufficient: nothing is left to stand for."""
    X = rng.normal(size=(300, 2))
    target = LinearTarget(X, X[:, 0] + rng.normal(size=300))
    plain, same = (
        infer(target, MCMC(n_draws=50, surrogate=rows), random_state=seed) for rows in (None, 50)
    )
    assert_allclose(same.particles, plain.particles)


def test_very_many_rows_bring_it_to_mind(rng, monkeypatch):
    monkeypatch.setattr("skstein.inference._run.run_on_surrogate._MUCH", 1000)
    target = regression("logistic", rng, n=1000)
    with pytest.warns(EfficiencyWarning, match='with surrogate="auto" it takes some'):
        infer(target, MCMC(n_draws=50), random_state=0)


def test_a_rare_category_of_one_class_in_very_many_rows(rng):
    """Its wall is steep there: proposals that meet it are followed in shorter steps."""
    n, k = 200_000, 6
    X = np.column_stack([rng.normal(size=n), np.arange(n) < k])
    y = (X[:, 0] - 4.0 + rng.logistic(size=n) > 0.0) & (X[:, 1] == 0.0)
    model = BayesianLogisticRegression(MCMC(surrogate="auto"), random_state=0).fit(X, y)
    spread = 1.0 / X[:, 1].std()  # of the prior
    grid = np.linspace(-6.0 * spread, 40.0, 100_001)
    rows = model.intercept_[0] + model.coef_[0, 0] * X[:k, 0]
    log_density = -0.5 * (grid / spread) ** 2 - np.logaddexp(0.0, rows[:, None] + grid).sum(axis=0)
    weights = np.exp(log_density - log_density.max())
    mean = weights @ grid / weights.sum()
    sd = np.sqrt(weights @ (grid - mean) ** 2 / weights.sum())
    assert abs(model.coef_[0, 1] - mean) < 0.1 * sd
    assert_allclose(model.coef_std_[0, 1], sd, rtol=0.05)
