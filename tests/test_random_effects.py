"""Random effects: the target by differences, coordinates, columns of groups, predictions."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit, logsumexp
from scipy.stats import entropy, halfnorm, kstest, norm, t
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPRegressor,
    BayesianOrdinalRegression,
    BayesianPoissonRegression,
    BayesianProbitRegression,
    posterior_of,
    predictive,
)
from skstein.linear_model.predictions import LinearPredictions, _integrated
from skstein.outcomes import Gamma, Heteroscedastic, NegativeBinomial, Normal, Poisson, StudentT
from skstein.plotting import PosteriorIntervalDisplay
from skstein.priors import HalfNormal, HalfStudentT, MultivariateNormal
from skstein.targets import (
    Grouping,
    LinearTarget,
    LogisticTarget,
    MixedTarget,
    SoftmaxTarget,
    Transformed,
)
from skstein.targets.bijections import Composition
from skstein.targets.laplace_at_mode import hessian_of
from small import later

JOINT = MultivariateNormal(np.zeros(3), np.eye(3))
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def grouping(name, rng, n_groups, X, slopes):
    codes = np.append(np.arange(n_groups), rng.integers(0, n_groups, len(X) - n_groups))
    values = np.column_stack([np.ones(len(X)), X[:, slopes]])
    labels = [f"x{j}" for j in slopes]
    return Grouping(name, codes, [str(g) for g in range(n_groups)], ["", *labels], values)


def mixed(outcome, layout, rng, n=90):
    """A small model, whose regression is weighted."""
    X = rng.normal(size=(n, 2))
    of = [grouping("a", rng, 9, X, layout[0])]
    if len(layout) > 1:
        of.append(grouping("b", rng, 4, X, layout[1]))
    effects = rng.normal(size=(9, len(of[0].terms)))
    z = X[:, 0] + (of[0].values * effects[of[0].codes]).sum(axis=1) + rng.normal(size=n)
    weights = rng.uniform(0.5, 2.0, n)
    regression = {
        "normal": lambda: LinearTarget(X, z, sample_weight=weights),
        "binary": lambda: LogisticTarget(X, (z > 0.0).astype(int), sample_weight=weights),
        "classes": lambda: SoftmaxTarget(X, np.digitize(z, [-0.5, 0.5]), n_classes=3),
    }[outcome]()
    return MixedTarget(regression, of, HalfStudentT(3.0, 0.8))


def differenced(function, points, step=1e-5):
    moves = step * np.eye(points.shape[1])
    return np.stack([(function(points + m) - function(points - m)) / (2 * step) for m in moves], 1)


CASES = [
    ("normal", [[]]),
    ("normal", [[0], [1]]),
    ("binary", [[0, 1]]),
    ("binary", [[], [0]]),
    ("classes", [[], []]),
]


@pytest.mark.parametrize("outcome, layout", CASES)
def test_target_and_coordinates(outcome, layout, rng):
    """Scores and volumes by differences; in its coordinates the mode is that of a normal."""
    target = mixed(outcome, layout, rng)
    theta = 0.3 * target.sample_prior(rng, 3)
    value, score = target.log_density_and_score(theta)
    assert_allclose(value, target.log_density(theta))
    assert_allclose(score, differenced(target.log_density, theta), rtol=1e-4, atol=1e-4)
    rows = target.pointwise_log_likelihood(theta) @ target.regression.weights
    assert_allclose(rows, target.log_likelihood(theta))
    some = target.take(np.arange(0, 90, 3)).log_likelihood(theta)
    assert_allclose(target.log_likelihood(theta, np.arange(0, 90, 3)), 3.0 * some)

    bijection, laplace = target.coordinates()
    assert laplace.converged
    working = Transformed(target, bijection)
    z = laplace.mode + 0.3 * rng.standard_normal((3, target.dim))
    there = bijection.forward(z)
    assert_allclose(bijection.inverse(there), z, rtol=1e-6, atol=1e-6)
    jacobian = differenced(lambda at: bijection.forward(at), z[:1])[0]
    assert_allclose(np.linalg.slogdet(jacobian)[1], bijection.log_det(z)[0], atol=1e-4)
    assert_allclose(working.score(z), differenced(working.log_density, z), rtol=1e-3, atol=1e-3)
    score = target.score(there)
    back = bijection.push_score(z, bijection.pull_score(z, score))
    assert_allclose(back, score, rtol=1e-6, atol=1e-6)

    white = Transformed(target, Composition(bijection, laplace.bijection))
    hessian = hessian_of(white, np.zeros(target.dim))
    assert_allclose(hessian, np.eye(target.dim), atol=0.05)


def test_effects_of_a_normal_outcome_are_independent_of_all_else(rng):
    """Whatever the rest is, the score by their coordinates is that of a standard normal."""
    target = mixed("normal", [[0]], rng)
    bijection, _ = target.coordinates()
    z = rng.standard_normal((5, target.dim))
    effects = target.places(target.groupings[0])[1].ravel()
    score = Transformed(target, bijection).score(z)
    assert_allclose(score[:, effects], -z[:, effects], atol=1e-6)


@pytest.mark.parametrize(
    "prior, exact",
    [(HalfNormal(0.7), halfnorm(scale=0.7)), (HalfStudentT(4.0, 0.7), None)],
    ids=["normal", "student-t"],
)
def test_priors_of_standard_deviations(prior, exact, rng):
    scores = np.linspace(-9.1, 6.0, 61)
    log_sd, slope, bend = prior.from_normal(scores)
    sd = np.exp(log_sd)
    density = 2 * t(4.0, scale=0.7).pdf(sd) if exact is None else exact.pdf(sd)
    assert_allclose(prior.log_density_of_log(log_sd), np.log(density * sd), atol=1e-10)
    assert_allclose(prior.log_density_of_log(log_sd) + np.log(slope), norm.logpdf(scores))
    assert_allclose(prior.to_normal(log_sd), scores, atol=1e-4)
    step = 1e-5
    low, high = (prior.from_normal(scores + move) for move in (-step, step))
    assert_allclose((high[0] - low[0]) / (2 * step), slope, rtol=1e-4)
    assert_allclose(np.log(high[1] / low[1]) / (2 * step), bend, rtol=1e-3, atol=1e-4)
    move = (np.array([log_sd]) - step, np.array([log_sd]) + step)
    low, high = map(prior.log_density_of_log, move)
    assert_allclose((high - low)[0] / (2 * step), prior.score_of_log(log_sd), atol=1e-5)
    if exact is not None:
        assert kstest(np.exp(prior.sample_log(rng, 2000)), exact.cdf).pvalue > 1e-3


# Estimators


@pytest.fixture(scope="module")
def sites():
    """Rows of eight sites, whose effects are known."""
    rng = np.random.default_rng(0)
    n = 160
    X = pd.DataFrame(
        {
            "x": rng.normal(3.0, 2.0, n),
            "site": rng.permutation(np.resize(list("abcdefgh"), n)),
            "year": rng.integers(2000, 2005, n),
        }
    )
    effects = dict(zip("abcdefgh", rng.normal(0.0, 2.0, 8), strict=True))
    y = 1.0 + 0.5 * X["x"] + X["site"].map(effects) + 0.5 * rng.normal(size=n)
    return X, y.to_numpy(), np.array(list(effects.values()))


@pytest.fixture(scope="module")
def fitted(sites):
    X, y, _ = sites
    model = BayesianLinearRegression("pmfvb", random_effects={"site": ["x"]}, random_state=0)
    return model.fit(X[["x", "site"]], y)


def test_what_a_fit_reports(fitted, sites):
    X, y, effects = sites
    assert fitted.n_features_in_ == 2
    assert fitted.coef_.shape == fitted.coef_std_.shape == (1,)
    found = fitted.random_effects_["site"]
    assert list(found.groups) == list("abcdefgh")
    assert found.terms == ["intercept", "x"]
    assert found.mean.shape == found.std.shape == found.shrinkage.shape == (8, 2)
    # The mean of all effects is told apart from the intercept by the prior alone.
    deviations = found.mean[:, 0] - found.mean[:, 0].mean()
    assert_allclose(deviations, effects - effects.mean(), atol=0.5)
    assert (found.shrinkage >= 0.0).all()
    assert (found.shrinkage[:, 0] < found.shrinkage[:, 1]).all()  # there are no slopes
    assert 1.0 < found.sd[0] < 4.0
    names = fitted.posterior_.names
    assert names[:7] == (
        "intercept", "x", "log_sigma2", "log_sd[site]", "log_sd[site:x]", "site[a]", "site:x[a]",
    )  # fmt: skip
    assert_allclose(fitted.posterior_["log_sd[site]"].mean(), np.log(found.sd[0]), atol=0.1)
    assert fitted.score(X[["x", "site"]], y) > 0.9


def test_predictions_of_groups_and_of_the_population(fitted, sites):
    X = sites[0][["x", "site"]][:6]
    theta, names = fitted.posterior_.particles, list(fitted.posterior_.names)
    column = {name: theta[:, names.index(name)] for name in names}
    x = X["x"].to_numpy()[:, None]
    common = column["intercept"] + x * column["x"]
    own = np.stack([column[f"site[{site}]"] for site in X["site"]])
    own += (x - sites[0]["x"].mean()) * np.stack([column[f"site:x[{site}]"] for site in X["site"]])
    weights = fitted.posterior_.weights
    assert_allclose(fitted.predict(X), (common + own) @ weights)
    assert_allclose(fitted.predict(X, effects="population"), common @ weights)
    population = predictive(fitted, X, effects="population")
    assert_allclose(population.mean(), common @ weights)
    assert_allclose(population.interval(), fitted.predict_interval(X, effects="population"))
    assert_allclose(predictive(fitted, X).mean(), (common + own) @ weights)
    with pytest.raises(ValueError, match='effects must be "group" or "population"'):
        fitted.predict(X, effects="groups")
    with pytest.raises(ValueError, match='effects must be "group" or "population"'):
        fitted.predict(X, effects=np.ones(len(X)))


def test_groups_never_seen(fitted, sites):
    """Their effects have the fitted distribution; a row does not depend on the others."""
    X = pd.DataFrame({"x": [3.0, 3.0, 3.0, 8.0], "site": ["new", "other", "a", "new"]})
    mean, std = fitted.predict(X, return_std=True)
    again, _ = fitted.predict(X[3:], return_std=True)
    assert_allclose(again[0], mean[3])
    population, noise = fitted.predict(X, return_std=True, effects="population")
    assert_allclose(mean[:2], population[:2])
    posterior = fitted.posterior_
    variance = posterior.weights @ np.exp(2.0 * posterior["log_sd[site]"])
    # Near the mean of x the slopes say nothing.
    assert_allclose(std[:2] ** 2, noise[:2] ** 2 + variance, rtol=0.01)
    draws = fitted.sample_predictive(X, 500, random_state=0)
    assert_allclose(draws[0].std(), std[0], rtol=0.15)
    assert np.corrcoef(draws[0], draws[3])[0, 1] > 0.5 > abs(np.corrcoef(draws[:2])[0, 1])
    assert len(np.unique(fitted.sample_mean(X[:1], 20, random_state=0))) > 10


@pytest.mark.parametrize("n_groups", [5, 40])
def test_means_of_a_logarithmic_link_are_integrals_over_new_groups(n_groups):
    """The same for all of them; a standard deviation that rests on a few draws is reported."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(n_groups), 20)
    X = pd.DataFrame({"x": rng.normal(size=len(groups)), "site": groups})
    y = rng.poisson(np.exp(1.0 + 0.3 * X["x"] + rng.normal(size=n_groups)[groups]))
    model = BayesianPoissonRegression(random_effects=["site"], random_state=0).fit(X, y)
    rows = pd.DataFrame({"x": 0.0, "site": [0, 101, 102, 103]})
    posterior = model.posterior_
    half = 0.5 * np.exp(2.0 * posterior["log_sd[site]"])
    expected = posterior.weights @ np.exp(posterior["intercept"] + half)
    assert_allclose(model.predict(rows)[1:], expected, rtol=0.02)
    if n_groups == 5:
        with pytest.warns(UserWarning, match="rests on a few draws"):
            model.predict(rows, return_std=True)
        model.predict(rows[:1], return_std=True)
    else:
        squares = np.exp(2.0 * posterior["intercept"] + 4.0 * half)
        variance = posterior.weights @ squares - expected**2 + expected
        assert_allclose(model.predict(rows, return_std=True)[1][1:] ** 2, variance, rtol=0.02)


@quiet
def test_probabilities_are_integrals_over_new_groups(rng):
    """The same for all of them, and all that is said of them agrees."""
    groups = np.repeat(np.arange(30), 10)
    X = pd.DataFrame({"x": rng.normal(size=300), "site": groups})
    predictor = 1.0 + X["x"] + rng.normal(size=30)[groups]
    rows = pd.DataFrame({"x": 0.0, "site": [101, 102]})
    nodes, shares = np.polynomial.hermite_e.hermegauss(64)
    options = {"random_effects": ["site"], "standardize": False, "random_state": 0}
    model = BayesianLogisticRegression("pmfvb", **options)
    model.fit(X, (predictor + rng.logistic(size=300) > 0.0).astype(int))
    posterior = model.posterior_
    at = posterior["intercept"][:, None] + np.exp(posterior["log_sd[site]"])[:, None] * nodes
    expected = posterior.weights @ expit(at) @ shares / shares.sum()
    assert_allclose(model.predict_proba(rows)[:, 1], expected, rtol=1e-3)
    assert_allclose(model.log_predictive(rows, [1, 1]), np.log(expected), rtol=1e-2)
    total = model.predict_uncertainty(rows).total
    assert_allclose(total, entropy([expected, 1.0 - expected]), rtol=1e-3)
    grades = BayesianOrdinalRegression("pmfvb", **options)
    grades.fit(X, np.digitize(predictor + rng.logistic(size=300), [0.0, 2.0]))
    assert_allclose(*grades.predict_proba(rows), rtol=1e-12)


@pytest.mark.parametrize("spread", [0.3, 1.0, 1.5, 2.0, 3.0, 4.5])
def test_nodes_over_effects_are_as_many_as_wide_groups_need(spread):
    """Integrals of steps and exponentials have closed forms; one particle of a thousand is wide."""
    sd, weights = np.where(np.arange(1000) == 7, spread, 0.3), np.full(1000, 1e-3)
    (at,), shares = _integrated([np.full((1, 1000), 0.5)], sd[None, None], weights)
    assert_allclose(norm.cdf(at) @ shares, [norm.cdf(0.5 / np.hypot(1, sd)) @ weights], atol=1e-5)
    assert_allclose(np.exp(2.0 * at) @ shares, [np.exp(1.0 + 2.0 * sd**2) @ weights], rtol=0.01)


@quiet
def test_outcomes_of_wide_groups_behind_a_logarithm(rng):
    groups = np.repeat(np.arange(30), 6)
    X = pd.DataFrame({"x": rng.normal(size=180), "site": groups})
    y = np.exp(X["x"] + 2.0 * rng.normal(size=30)[groups] + 0.3 * rng.normal(size=180))
    inner = BayesianLinearRegression("pmfvb", random_effects=["site"], random_state=0)
    log = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
    posterior = log.regressor_.posterior_
    variance = np.exp(2.0 * posterior["log_sd[site]"]) + np.exp(posterior["log_sigma2"])
    first, second = (
        posterior.weights @ np.exp(k * posterior["intercept"] + 0.5 * k**2 * variance)
        for k in (1, 2)
    )
    found = predictive(log, pd.DataFrame({"x": [0.0], "site": [101]}))
    assert_allclose(found.mean(), first, rtol=1e-3)
    assert np.isnan(found.std()) or found.std() == pytest.approx(np.sqrt(second - first**2), 1e-2)


@quiet
def test_a_moment_that_rests_on_one_particle_is_told_whatever_its_nodes(rng):
    """Of few groups that differ much one particle has the variance, spread over 64 nodes."""
    groups = np.repeat(np.arange(10), 8)
    X = pd.DataFrame({"x": rng.normal(size=80), "site": groups})
    predictor = 4.0 * rng.normal(size=10)[groups]
    rows = pd.DataFrame({"x": 0.0, "site": [101, 102]})
    params = {"random_effects": ["site"], "effects_prior": HalfNormal(5.0), "random_state": 0}
    counts = BayesianPoissonRegression("laplace", **params).fit(X, rng.poisson(np.exp(predictor)))
    with pytest.warns(UserWarning, match="standard deviation of some rows rests on a few draws"):
        counts.predict(rows, return_std=True)
    linear = BayesianLinearRegression("laplace", **params)
    log = TransformedTargetRegressor(linear, func=np.log, inverse_func=np.exp)
    found = predictive(log.fit(X, np.exp(predictor + rng.normal(size=80))), rows)
    assert np.isnan(found.std()).all()


@pytest.mark.parametrize("far", [0.0, 6.0, 10.0])
@pytest.mark.parametrize("spread", [0.1, 2.0])
@pytest.mark.parametrize(
    "outcome, extra, outcomes",
    [
        (Normal(), [-9.0], [-3.0, 0.0, 1.0, 4.0]),
        (Normal(), [1.0], [-3.0, 0.0, 1.0, 4.0]),
        (StudentT(df=2.1), [-10.0], [-0.5, 0.0, 1.0, 2.0]),
        (StudentT(df=4), [-4.0], [-0.5, 0.0, 1.0, 2.0]),
        (StudentT(), [-4.0, 2.0], [-0.5, 0.0, 1.0, 2.0]),
        (StudentT(df=1e6), [-6.0], [-0.5, 0.0, 1.0, 2.0]),
        (Poisson(), [], [0.0, 3.0, 2000.0, 30000.0]),
        (NegativeBinomial(), [-6.0], [0.0, 3.0, 2000.0, 30000.0]),
        (Gamma(), [-7.0], [0.3, 0.5, 20.0, 1e3]),
    ],
)
def test_densities_are_integrals_over_new_groups(outcome, extra, outcomes, spread, far, rng):
    """However narrow they are beside the groups, against a fine grid of effects."""
    y, weights = np.array(outcomes), np.array([0.5, 0.3, 0.2])
    middle = np.log(np.maximum(y, 0.5)) if outcome.predictor == "log mean" else y
    level = middle[:, None] + spread * rng.normal(size=(len(y), 3)) + far * spread
    heads = [level, *(np.full(3, value) for value in extra)]
    nodes = np.linspace(-30.0, 30.0, 60_001)
    on_grid = [heads[0][..., None] + spread * nodes, *(head[0] for head in heads[1:])]
    values = outcome.log_density(on_grid, y[:, None, None]) + norm.logpdf(nodes)
    expected = logsumexp(values, axis=(1, 2), b=weights[:, None] * (nodes[1] - nodes[0]))
    widened = outcome.log_density_widened(heads, y[:, None], np.full((len(y), 3), spread))
    assert_allclose(logsumexp(widened, axis=1, b=weights), expected, atol=0.02)


@pytest.mark.parametrize("one_scale", [Normal(), StudentT(df=4)])
@pytest.mark.parametrize("spread_of_log_sd", [0.3, 1.0])
def test_densities_are_integrals_over_effects_on_the_noise(one_scale, spread_of_log_sd):
    """Of outliers, too: a group may have much noise, or be far from the others."""
    outcome, y, nodes = Heteroscedastic(one_scale), np.arange(0.0, 10.0), np.linspace(-9, 9, 2001)
    spreads = np.tile(np.reshape([0.3, spread_of_log_sd], (2, 1, 1)), (1, len(y), 1))
    model = SimpleNamespace(_outcome=outcome)
    block = slice(None), list(np.zeros((2, len(y), 1))), np.ones(1), spreads
    found = LinearPredictions._block_densities(model, y[:, None], *block)[:, 0]
    heads = np.zeros((len(y), len(nodes))), np.tile(spread_of_log_sd * nodes, (len(y), 1))
    values = outcome.log_density_widened(heads, y[:, None], np.full(heads[0].shape, 0.3))
    shares = norm.pdf(nodes) * (nodes[1] - nodes[0])
    assert_allclose(found, logsumexp(values, axis=1, b=shares), atol=0.1)


def test_log_predictive_of_new_groups_with_little_noise(rng):
    """Of normal outcomes the density is that of normals, whose variances add up."""
    groups = np.repeat(np.arange(60), 5)
    X = pd.DataFrame({"x": rng.normal(size=300), "site": groups})
    y = 1.0 + X["x"] + rng.normal(size=60)[groups] + 0.003 * rng.normal(size=300)
    old, new = X["site"] < 30, X["site"] >= 30
    model = BayesianLinearRegression(random_effects=["site"], random_state=0).fit(X[old], y[old])
    posterior = model.posterior_
    mean = posterior["intercept"] + np.outer(X["x"][new], posterior["x"])
    std = np.sqrt(np.exp(posterior["log_sigma2"]) + np.exp(2.0 * posterior["log_sd[site]"]))
    expected = np.log(norm.pdf(y[new].to_numpy()[:, None], mean, std) @ posterior.weights)
    assert_allclose(model.log_predictive(X[new], y[new]), expected, atol=1e-6)


@quiet
def test_columns_of_groups_in_all_forms(sites):
    """By name, position and function; text, categories and numbers; frames, arrays and lists."""
    X, y, _ = sites
    X = X[["x", "site"]]
    model = BayesianLinearRegression("laplace", random_effects=["site"], random_state=0)
    expected = model.fit(X, y).predict(X)
    table = X.to_numpy()
    numbers = X.assign(site=X["site"].map(ord))
    for effects, rows in [
        ([1], X),
        (lambda X: ["site"], X),
        (["site"], X.assign(site=X["site"].astype("category"))),
        (["site"], numbers),
        ([1], table),
        ([1], table.tolist()),
        ([1], numbers.to_numpy()),
    ]:
        twin = clone(model).set_params(random_effects=effects).fit(rows, y)
        assert_allclose(twin.predict(rows), expected)
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == expected.tolist()


@quiet
@pytest.mark.parametrize("kind", ["ns", "s", "UTC", "date"])
def test_dates_are_groups_and_missing_ones_their_own(kind, rng):
    days = pd.Series(pd.date_range("2024-01-01", periods=4)[rng.integers(0, 4, 80)])
    if kind == "UTC":
        days = days.dt.tz_localize("UTC")
    else:
        days = days.dt.date.astype(object) if kind == "date" else days.astype(f"M8[{kind}]")
    days[:5] = None
    X = pd.DataFrame({"x": rng.normal(size=80), "day": days})
    y = 5.0 * days.isna() + 0.2 * rng.normal(size=80)
    options = {"random_effects": ["day"], "missing_groups": "group", "random_state": 0}
    model = BayesianLinearRegression("laplace", **options).fit(X, y)
    groups = model.random_effects_["day"].groups
    assert [str(group)[:10] for group in groups[:-1]] == [f"2024-01-0{i}" for i in range(1, 5)]
    assert groups[-1] is None
    assert_allclose(model.predict(X), y, atol=1.5)
    with pytest.raises(ValueError, match="are of another type than in fit"):
        model.predict(X.assign(day=3))


@quiet
@pytest.mark.parametrize("Estimator", [BayesianLinearRegression, BayesianPoissonRegression])
def test_a_column_offset_is_the_same_as_an_array(Estimator, sites):
    X, y, _ = sites
    y = np.floor(np.exp(0.3 * y)) if Estimator is BayesianPoissonRegression else y
    offset = np.random.default_rng(1).normal(size=len(y))
    X, wide = X[["x", "site"]], X[["x", "site"]]
    wide = wide.assign(log_exposure=offset)[["log_exposure", "x", "site"]]
    model = Estimator("laplace", random_effects={"site": ["x"]}, random_state=0)
    column = clone(model).set_params(offset="log_exposure").fit(wide, y)
    model.fit(X, y, offset=offset)
    assert column.posterior_.names == model.posterior_.names
    assert_allclose(column.posterior_.particles, model.posterior_.particles)
    assert_allclose(column.coef_, model.coef_)
    for effects in ("group", "population"):
        found = column.predict_interval(wide, effects=effects)
        assert_allclose(found, model.predict_interval(X, effects=effects, offset=offset))
    assert_allclose(predictive(column, wide).mean(), predictive(model, X, offset=offset).mean())
    alone = clone(column).set_params(random_effects=["site"]).fit(wide[["log_exposure", "site"]], y)
    assert alone.coef_.shape == (0,)


@quiet
def test_sparse_features(sites):
    """Groups are numbers in a column, of which 0 is one; the answers are those of a dense X."""
    X, y, _ = sites
    rng = np.random.default_rng(1)
    words = sparse.random_array((len(y), 6), density=0.3, rng=rng)
    site = X["site"].map(ord).to_numpy() - 98.0
    Z = sparse.hstack([words, site[:, None], X[["x", "year"]].to_numpy(float)]).tocsr()
    model = BayesianLinearRegression("laplace", random_effects={6: [0, 7], 8: []}, random_state=0)
    dense = clone(model).fit(Z.toarray(), y)
    assert dense.random_effects_["x6"].groups[:2].tolist() == [-1.0, 0.0]
    new = Z[:9].toarray()
    new[0, 6] = 77.0
    for table in (Z, sparse.csc_matrix(Z)):
        model.fit(table, y)
        assert model.posterior_.names == dense.posterior_.names
        assert_allclose(model.posterior_.mean(), dense.posterior_.mean(), atol=1e-4)
        assert_allclose(model.predict(Z), dense.predict(Z.toarray()), rtol=1e-4)
        found, expected = model.predict_interval(sparse.csr_array(new)), dense.predict_interval(new)
        assert_allclose(found[1:], expected[1:], rtol=1e-3)
        assert_allclose(found[0], expected[0], atol=1.0)  # draws for a group that is not known
    column = clone(model).set_params(offset=1).fit(Z, y)
    given = clone(model).set_params(random_effects={5: [0, 6], 7: []})
    given.fit(Z[:, [0, *range(2, 9)]], y, offset=Z[:, [1]].toarray().ravel())
    assert_allclose(column.posterior_.particles, given.posterior_.particles)


@quiet
def test_pipelines_and_searches(sites):
    X, y, _ = sites
    columns = make_column_transformer((StandardScaler(), ["x"]), remainder="passthrough")
    columns.set_output(transform="pandas")
    model = BayesianLinearRegression(
        "laplace", random_effects={"site": ["x"], "year": []}, random_state=0
    )
    pipe = make_pipeline(columns, model)
    grid = {"bayesianlinearregression__effects_prior__scale": [0.5, 2.0]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert predictive(search, X[:3]).interval().shape == (3, 2)
    assert "log_sd[remainder__site:standardscaler__x]" in posterior_of(search).names
    known = cross_val_score(pipe, X, y, cv=4).mean()
    new = cross_val_score(pipe, X, y, cv=GroupKFold(4), groups=X["site"]).mean()
    assert known > 0.8 > new


@quiet
@pytest.mark.parametrize("Estimator", [BayesianLogisticRegression, BayesianProbitRegression])
def test_classes(Estimator, sites):
    X, y, _ = sites
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    model = Estimator("laplace", random_effects={"site": ["x"]}, random_state=0)
    model.fit(X[["x", "site"]], labels)
    assert model.random_effects_["site"].mean.shape == (8, 3, 2)
    assert model.random_effects_["site"].sd.shape == (3, 2)
    assert model.score(X[["x", "site"]], labels) > 0.7
    binary = clone(model).fit(X[["x", "site"]], labels > 0)
    assert binary.random_effects_["site"].mean.shape == (8, 2)
    assert binary.predict_proba(X[["x", "site"]], effects="population").shape == (160, 2)


@quiet
def test_weights_are_repetitions(sites, rng):
    """Rows of weight 0 make no group either."""
    X, y, _ = sites
    weights = rng.integers(0, 3, len(X))
    weights[X["site"] == "c"] = 0
    model = BayesianLinearRegression("laplace", random_effects=["site", "year"], random_state=0)
    weighted = model.fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(len(X)), weights)
    repeated = clone(model).fit(X.iloc[rows], y[rows])
    assert list(weighted.random_effects_["site"].groups) == list("abdefgh")
    assert_allclose(
        weighted.posterior_.particles, repeated.posterior_.particles, rtol=1e-6, atol=1e-6
    )


@quiet
def test_rows_without_a_group(sites):
    X, y, _ = sites
    X = X[["x", "site"]].copy()
    X.loc[:9, "site"] = None
    model = BayesianLinearRegression("laplace", random_effects=["site"], random_state=0)
    with pytest.raises(ValueError, match="column 'site' of X has rows without a group"):
        model.fit(X, y)
    model.set_params(missing_groups="group").fit(X, y)
    assert model.random_effects_["site"].groups[-1] is None
    nan = X.assign(site=X["site"].where(X["site"].notna(), np.nan))
    assert_array_equal(model.predict(X), model.predict(nan))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"random_effects": ["town"]}, "has the column 'town', but X has x, site, year"),
        ({"random_effects": [7]}, "has column 7, and X has columns 0 to 2"),
        ({"random_effects": ["site", 1]}, "names a column twice"),
        ({"random_effects": {"site": ["year"], "year": []}}, "slopes of a column that holds"),
        ({"random_effects": {"site": ["x"]}, "offset": "x"}, "that holds groups or the offset"),
        ({"random_effects": ["site"], "offset": "site"}, "names a column twice, or that of the"),
        ({"random_effects": ["site"], "positive": {"x": 1}}, "positive= and random_effects"),
        (
            {"random_effects": ["site"], "prior": "horseshoe"},
            "a Horseshoe prior and random_effects",
        ),
        ({"random_effects": ["site"], "prior": JOINT}, "a MultivariateNormal prior and random"),
        ({"random_effects": lambda X: "site"}, "must be a list of columns"),
        ({"random_effects": {"site": "x"}}, "give a list of features"),
        ({"random_effects": [1.5]}, "takes names or numbers of columns"),
        ({"random_effects": ["site"], "factorized": True}, "factorized=True and random_effects"),
        ({"random_effects": ["year"]}, "X has text in it"),
        ({"random_effects": []}, "random_effects has no column"),
        ({"random_effects": lambda X: []}, "random_effects has no column"),
        ({"random_effects": {"site": ["x", "x"]}}, "a slope twice"),
        ({"effects_prior": HalfNormal, "random_effects": ["site"]}, "is the class HalfNormal"),
    ],
)
def test_refusals(sites, params, message):
    X, y, _ = sites
    with pytest.raises((ValueError, TypeError), match=message):
        BayesianLinearRegression("laplace", **params).fit(X, y)


def test_further_refusals(fitted, sites):
    X, y, _ = sites
    with pytest.raises(ValueError, match="of another type than in fit: 3, not 'a'"):
        fitted.predict(X[["x"]].assign(site=3))
    with pytest.raises(ValueError, match="partial_fit and random_effects"):
        BayesianLinearRegression("pmd", random_effects=["site"]).partial_fit(X, y)
    with pytest.raises(ValueError, match="mixes text and other values"):
        BayesianLinearRegression(random_effects=[1]).fit([[0.0, "a"], [1.0, 2]] * 5, y[:10])
    network = BayesianMLPRegressor((2,), n_networks=2, max_iter=2, random_state=0)
    with pytest.raises(TypeError, match="effects is for linear models"), np.errstate(all="ignore"):
        predictive(network.fit(X[["x"]], y), X[["x"]], effects="population")


@quiet
@pytest.mark.parametrize(
    "Estimator",
    [BayesianLinearRegression, BayesianLogisticRegression, BayesianOrdinalRegression],
)
def test_groups_without_any_feature_predict(Estimator, sites):
    X, y, _ = sites
    y = y if Estimator is BayesianLinearRegression else np.digitize(y, np.quantile(y, [0.3, 0.7]))
    model = Estimator("laplace", random_effects=["site"], random_state=0).fit(X[["site"]], y)
    predict = getattr(model, "predict_proba", model.predict)
    by_site = pd.DataFrame(predict(X[["site"]])).groupby(X["site"].to_numpy())
    assert by_site.std().max().max() < 1e-12 < by_site.mean().std().min()


@quiet
def test_times_are_groups_and_may_be_missing(sites):
    X, y, _ = sites
    when = np.array(["2000", "2001", "2002", "2003"], dtype="datetime64[ns]")
    X = X[["x"]].assign(when=np.resize(when, len(y)))
    model = BayesianLinearRegression("laplace", random_effects=["when"], random_state=0).fit(X, y)
    X.loc[3, "when"] = pd.NaT
    for ask in (model.predict, lambda X: model.fit(X, y)):
        with pytest.raises(ValueError, match="column 'when' of X has rows without a group"):
            ask(X)
    X["when"] = pd.cut(X["x"], 3)
    with pytest.raises(ValueError, match="'when' of X is neither text nor numbers"):
        model.fit(X, y)


@quiet
def test_a_fit_without_groups_forgets_those_before(sites):
    X, y, _ = sites
    model = BayesianLinearRegression("laplace", random_effects=["site"], random_state=0)
    model.fit(X[["x", "site"]], y).set_params(random_effects=None).fit(X[["x"]], y)
    assert not hasattr(model, "random_effects_")
    model.set_params(noise="heteroscedastic").fit(X[["x"]], y)
    assert not hasattr(model, "noise_variance_") and hasattr(model, "noise_coef_")


def test_display_sorts_groups(fitted):
    pytest.importorskip("matplotlib")
    display = PosteriorIntervalDisplay.from_estimator(fitted, grouping="site")
    found = fitted.random_effects_["site"]
    assert display.names == found.groups[np.argsort(found.mean[:, 0])].tolist()
    slopes = PosteriorIntervalDisplay.from_estimator(fitted, grouping="site", term="x", top=3)
    assert len(slopes.names) == 3
    assert PosteriorIntervalDisplay.from_estimator(fitted).names == ["x"]
    with pytest.raises(ValueError, match="grouping='town' is not one of"):
        PosteriorIntervalDisplay.from_estimator(fitted, grouping="town")


@pytest.mark.parametrize("engine", ["pmfvb", later("mcmc"), later("svgd")])
def test_groups_hold_the_level_where_there_is_no_intercept(engine, rng):
    """A search from effects of 0 ends where the noise is as large as the level: 200 nats lower."""
    group = np.arange(100) % 10
    y = 100.0 + rng.normal(size=10)[group] + rng.normal(size=100)
    X = pd.DataFrame({"x": rng.normal(size=100), "group": group.astype(str)})
    model = BayesianLinearRegression(
        engine, random_effects=["group"], fit_intercept=False, random_state=0
    ).fit(X, y)
    within = np.std(y - np.array([y[group == j].mean() for j in range(10)])[group], ddof=11)
    assert 0.8 < np.sqrt(model.noise_variance_) / within < 1.25
    assert_allclose(model.predict(X).mean(), y.mean(), atol=0.5)


def test_a_model_of_groups_alone(sites):
    """One-way analysis of variance, against the exact posterior of its two variances."""
    X, y, _ = sites
    model = BayesianLinearRegression(
        "pmfvb", random_effects=[0], standardize=False, random_state=0
    ).fit(X[["site"]], y)
    log_sigma, log_sd = np.meshgrid(np.linspace(-0.3, 0.9, 81), np.linspace(-2.5, 3.0, 121))
    sums = pd.Series(y).groupby(X["site"].to_numpy()).agg(["sum", "count"])
    noise, between = np.exp(2 * log_sigma)[..., None], np.exp(2 * log_sd)[..., None]
    n, total = sums["count"].to_numpy(), sums["sum"].to_numpy()
    # y'V^-1 y, 1'V^-1 y, 1'V^-1 1 and log |V|, by groups; the intercept is integrated out too.
    shared = between / (noise * (noise + n * between))
    square = (np.sum(y**2) / noise[..., 0]) - np.sum(shared * total**2, axis=-1)
    across = np.sum(total / noise - shared * n * total, axis=-1)
    precision = np.sum(n / noise - shared * n**2, axis=-1) + 1 / 100
    volume = np.sum((n - 1) * np.log(noise) + np.log(noise + n * between), axis=-1)
    value = -0.5 * (square - across**2 / precision + np.log(precision) + volume)
    value += t(3).logpdf(np.exp(log_sigma)) + log_sigma
    value += norm.logpdf(np.exp(log_sd)) + log_sd
    weights = np.exp(value - value.max())
    weights /= weights.sum()
    for name, values in (("log_sigma2", 2 * log_sigma), ("log_sd[site]", log_sd)):
        mean = np.sum(weights * values)
        std = np.sqrt(np.sum(weights * (values - mean) ** 2))
        assert_allclose(model.posterior_[name].mean(), mean, atol=0.1 * std)
        assert_allclose(model.posterior_[name].std(), std, rtol=0.1)


def test_large_numbers_of_groups_stay_apart(rng):
    numbers = 2**60 + np.arange(8)
    column = np.repeat(numbers, 20)
    y = np.repeat(rng.normal(size=8), 20) + 0.1 * rng.normal(size=160)
    x = rng.normal(size=160)
    missing = pd.array(column, dtype="Int64").copy()
    missing[0] = pd.NA
    for site, expected in ((column, 8), (column.astype(object), 8), (missing, 9)):
        frame = pd.DataFrame({"x": x, "site": site})
        options = {"random_effects": ["site"], "missing_groups": "group", "random_state": 0}
        model = BayesianLinearRegression("laplace", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(frame, y)
        assert len(model.random_effects_["site"].groups) == expected
        assert model.noise_variance_ < 0.1


def test_groups_of_polars_frames(rng):
    pl = pytest.importorskip("polars")
    names = np.repeat(list("abcd"), 20)
    x, y = rng.normal(size=80), rng.normal(size=4).repeat(20) + 0.1 * rng.normal(size=80)
    model = BayesianLinearRegression("laplace", random_effects=["site"], random_state=0)
    found = []
    for frame in (pd.DataFrame({"x": x, "site": names}), pl.DataFrame({"x": x, "site": names})):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(model.fit(frame, y).predict(frame))
    assert_allclose(found[0], found[1])


def test_effects_on_the_noise_are_shown(sites):
    X, y = sites[:2]
    options = {"noise": "heteroscedastic", "random_effects": ["site"], "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianLinearRegression("laplace", **options).fit(X, np.asarray(y, dtype=float))
    display = PosteriorIntervalDisplay.from_estimator(model, grouping="site")
    assert list(display.groups) == ["mean", "log_sd"]
