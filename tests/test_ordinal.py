"""Ordinal regression: closed forms, both tails, the prior, quadrature, labels and their order."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from scipy.special import expit, log_expit, log_ndtr, ndtr, ndtri
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.metrics import get_scorer

from skstein import BayesianOrdinalRegression, BayesianProbitRegression
from skstein.inference import ENGINES, MCMC, PMD
from skstein.outcomes import Bernoulli, Ordinal, Probit
from skstein.outcomes.ordinal import CutPoints
from skstein.posterior import weighted_quantile
from skstein.priors import Normal
from skstein.targets import RegressionTarget, Within

CDF = {"logit": expit, "probit": ndtr}
INVERSE = {"logit": lambda p: np.log(p) - np.log1p(-p), "probit": ndtri}
GRADES = ["low", "mid", "high"]
every_link = pytest.mark.parametrize("link", CDF)
every_size = pytest.mark.parametrize("n_classes", [2, 3, 7, 30])
every_concentration = pytest.mark.parametrize("concentration", [1.0, 0.4, 3.0])
# Of fits that only have to give particles.
only_particles = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def draw(rng, n_classes, link="logit", m=3, n=40):
    """An outcome, heads in the layout of targets, and observed classes."""
    outcome = Ordinal(np.arange(n_classes), link)
    z = outcome.extra_prior.sample(rng, m)
    return (
        outcome,
        [3.0 * rng.normal(size=(m, n)), *z.T[:, :, None]],
        rng.integers(n_classes, size=n),
    )


def mass(outcome, heads, link):
    """Probabilities of all classes, (n_classes, m, n), by differences of distribution functions."""
    cuts = outcome.reported.forward(np.hstack(heads[1:])).T[:, :, None]
    below = CDF[link](cuts - heads[0])
    ends = [np.zeros((1, *heads[0].shape)), below, np.ones((1, *heads[0].shape))]
    return np.diff(np.concatenate(ends), axis=0)


def differences(function, z, step=1e-6):
    """Derivatives by each of the last axis, which stands first."""
    moves = step * np.eye(z.shape[-1])
    return np.stack([(function(z + move) - function(z - move)) / (2 * step) for move in moves])


# The outcome.


@every_link
@every_size
def test_probabilities_are_differences_of_a_distribution_function(n_classes, link, rng):
    outcome, heads, y = draw(rng, n_classes, link)
    expected = mass(outcome, heads, link)
    observed = np.take_along_axis(expected, np.broadcast_to(y, (1, *heads[0].shape)), 0)[0]
    assert_allclose(np.exp(outcome.log_density(heads, y)), observed, atol=1e-13)
    # In the layout of predictions, where particles are the last axis.
    turned = [heads[0].T, *(head[:, 0] for head in heads[1:])]
    assert_allclose(outcome.every(turned), expected.swapaxes(1, 2), atol=1e-13)
    assert_allclose(np.exp(outcome.logits(turned)), expected.swapaxes(1, 2), atol=1e-13)
    by_particle = outcome.log_density_by_particle(turned, y)
    assert_allclose(by_particle, outcome.log_density(heads, y).T, rtol=1e-12)
    whole = outcome.log_density_by_particle(np.broadcast_arrays(*turned), y)
    assert_allclose(whole, by_particle, rtol=1e-12)


@every_link
@every_size
def test_derivatives_are_differences(n_classes, link, rng):
    outcome, heads, y = draw(rng, n_classes, link)
    point = np.array([head.ravel()[0] for head in heads])

    def shifted(function):
        def at(z):
            return function(
                [
                    heads[0][0] + z[0],
                    *(
                        head[:1] + z
                        for head, z in zip([h[0] for h in heads[1:]], z[1:], strict=True)
                    ),
                ],
                y,
            )

        return at

    zero = np.zeros(len(point))
    first = [heads[0][0], *(head[0] for head in heads[1:])]
    residual = np.asarray(outcome.residual(first, y))
    assert_allclose(residual, differences(shifted(outcome.log_density), zero), atol=1e-5, rtol=1e-5)
    by_differences = -differences(lambda z: np.asarray(shifted(outcome.residual)(z)), zero, 1e-5)
    # Classes as narrow as 1e-5 leave the residual eleven digits, of which differences lose six.
    assert_allclose(outcome.curvature(first, y), by_differences, atol=5e-5, rtol=5e-5)


@every_link
@every_size
def test_terms_are_weighted_sums(n_classes, link, rng):
    outcome, heads, y = draw(rng, n_classes, link)
    log_density, residual = outcome.log_density(heads, y), outcome.residual(heads, y)
    for weights in (None, rng.uniform(0.5, 2.0, len(y))):
        ones = np.ones(len(y)) if weights is None else weights
        value, parts = outcome.terms(heads, y, weights, True, True)
        assert_allclose(value, log_density @ ones, rtol=1e-12)
        assert_allclose(parts[0], residual[0] * ones, atol=1e-10)
        sums = np.hstack([part.sum(axis=1, keepdims=True) for part in parts[1:]])
        assert_allclose(sums.T, residual[1:] @ ones, rtol=1e-9, atol=1e-9)
        assert outcome.terms(heads, y, weights, False, False) == (None, None)


@every_link
def test_tails_keep_their_digits(link):
    """Far from all classes, and of a class that hardly has an interval."""
    log_cdf = {"logit": log_expit, "probit": log_ndtr}[link]
    outcome, y = Ordinal([1, 2, 3], link), np.arange(3)
    extra = outcome.reported.inverse(np.array([[-0.5, 1.0]])).T
    for predictor in (-1e3, -40.0, 40.0, 1e3):
        value = outcome.log_density([np.full(3, predictor), *extra], y)
        low, high = log_cdf(-0.5 - predictor), log_cdf(1.0 - predictor)
        if predictor < 0:  # from the upper tail, by symmetry
            low, high = log_cdf(predictor - 1.0), log_cdf(predictor + 0.5)
        middle = high + np.log(-np.expm1(low - high))
        assert_allclose(value[1], middle, rtol=1e-12)
        ends = [log_cdf(-0.5 - predictor), log_cdf(predictor - 1.0)]
        assert_allclose(value[[0, 2]], ends, rtol=1e-12, atol=1e-15)
        heads = [np.full((3, 1), predictor), *extra]
        log_proba = outcome.log_proba(heads, np.ones(1))
        assert_allclose(log_proba, np.tile(value, (3, 1)), rtol=1e-12, atol=1e-15)
        assert np.isfinite(outcome.residual([np.full(3, predictor), *extra], y)).all()
        assert np.isfinite(outcome.curvature([np.full(3, predictor), *extra], y)).all()
    density = {"logit": stats.logistic.logpdf, "probit": stats.norm.logpdf}[link]
    for gap in (1e-4, 1e-7, 1e-12):
        z = np.log(gap / outcome.reported.steps(np.zeros((1, 2)))[0, 0])
        value = outcome.log_density([np.array([2.0]), np.array([z]), np.array([0.0])], [1])
        cut = outcome.reported.steps(np.zeros((1, 2)))[0, 1]
        assert_allclose(value, density(cut - 0.5 * gap - 2.0) + np.log(gap), rtol=1e-7)


@every_size
def test_cut_points_are_ordered_by_a_bijection(n_classes, rng):
    center = np.sort(rng.normal(size=n_classes - 1))
    bijection = Within(CutPoints(center), slice(1, n_classes))
    z = rng.normal(size=(4, n_classes + 1))
    theta = bijection.forward(z)
    assert (np.diff(theta[:, 1:n_classes]) > 0.0).all()
    assert_allclose(bijection.forward(0.0 * z)[0, 1:n_classes], center, atol=1e-12)
    assert_allclose(bijection.inverse(theta), z, atol=1e-9)
    jacobian = differences(bijection.forward, z)  # by z first: its transpose, for each point
    log_det = np.linalg.slogdet(jacobian.swapaxes(0, 1))[1]
    assert_allclose(bijection.log_det(z), log_det, atol=1e-6)
    score = rng.normal(size=z.shape)
    pulled = bijection.pull_score(z, score)
    along = np.einsum("jmk,mk->mj", jacobian, score)
    assert_allclose(pulled, along + differences(bijection.log_det, z).T, atol=1e-6, rtol=1e-6)
    assert_allclose(bijection.push_score(z, pulled), score, atol=1e-9)


# The prior.


@every_link
@every_concentration
def test_prior_is_a_dirichlet_of_the_probabilities_at_zero(link, concentration, rng):
    """Its draws have their moments, and its density is theirs by the change of variables."""
    outcome = Ordinal(np.arange(4), link, concentration)
    prior = outcome.extra_prior
    z = prior.sample(rng, 20_000)
    heads = [np.zeros((1, len(z))), *z.T]
    shares = outcome.every(heads)[:, 0]
    variance = 3 / 16 / (4 * concentration + 1)
    assert_allclose(shares.mean(axis=1), 0.25, atol=5 * np.sqrt(variance / len(z)))
    assert_allclose(shares.var(axis=1), variance, rtol=0.07)
    z = z[(shares > 1e-3).all(axis=0)][:5]

    def shares_of(z):
        return outcome.every([np.zeros((1, len(z))), *z.T])[:3, 0].T

    log_det = np.linalg.slogdet(differences(shares_of, z).swapaxes(0, 1))[1]
    simplex = outcome.every([np.zeros((1, len(z))), *z.T])[:, 0]
    simplex = simplex / simplex.sum(axis=0)
    expected = stats.dirichlet(np.full(4, concentration)).logpdf(simplex) + log_det
    assert_allclose(prior.log_density(z), expected, atol=1e-5)


@every_link
@every_size
@every_concentration
def test_derivatives_of_the_prior_are_differences(n_classes, link, concentration, rng):
    prior = Ordinal(np.arange(n_classes), link, concentration).extra_prior
    z = 0.5 * rng.normal(size=(3, n_classes - 1))
    assert_allclose(prior.score(z), differences(prior.log_density, z).T, rtol=1e-5, atol=1e-5)
    by_differences = -np.moveaxis(differences(prior.score, z), 0, 2)
    assert_allclose(prior.curvature(z), by_differences, rtol=1e-5, atol=1e-5)


# The target.


@every_link
def test_two_classes_are_logistic_or_probit_regression(link, rng):
    """The cut point is minus the intercept, and its prior is logistic or normal."""
    X, y = rng.normal(size=(30, 2)), rng.integers(2, size=30)
    ours = RegressionTarget(Ordinal([0, 1], link), X, y, fit_intercept=False)
    other = Bernoulli() if link == "logit" else Probit()
    theirs = RegressionTarget(other, X, y)
    theta = rng.normal(size=(5, 3))
    cut = theta[:, 2]
    same = np.column_stack([-cut, theta[:, :2]])
    assert_allclose(ours.log_likelihood(theta), theirs.log_likelihood(same), rtol=1e-12)
    score, expected = (t.score(x) for t, x in ((ours, theta), (theirs, same)))
    assert_allclose(score[:, :2], expected[:, 1:], rtol=1e-10)
    prior = {"logit": stats.logistic, "probit": stats.norm}[link]
    assert_allclose(ours.outcome.extra_prior.log_density(cut[:, None]), prior.logpdf(cut))


@every_link
@pytest.mark.parametrize("fit_weights", [False, True])
def test_target_has_its_derivatives(link, fit_weights, rng):
    X, y = rng.normal(size=(50, 2)), rng.integers(5, size=50)
    weights = rng.uniform(0.5, 2.0, 50) if fit_weights else None
    outcome = Ordinal(np.arange(5), link, 1.7)
    target = RegressionTarget(outcome, X, y, fit_intercept=False, sample_weight=weights)
    theta = 0.5 * rng.normal(size=(2, target.dim))
    score = differences(target.log_density, theta).T
    assert_allclose(target.score(theta), score, rtol=1e-5, atol=1e-5)
    hessian = -differences(target.score, theta)[:, 0]
    assert_allclose(target.hessian(theta[0]), hessian, rtol=1e-5, atol=1e-4)
    assert_allclose(target.hessian_diagonal(theta[0]), hessian.diagonal(), rtol=1e-5, atol=1e-4)


# The estimator.


def rows(rng, n=200, cuts=(-1.0, 1.0), link="logit"):
    X = rng.normal([1.0, -2.0], [2.0, 0.5], size=(n, 2))
    noise = rng.logistic(size=n) if link == "logit" else rng.normal(size=n)
    return X, np.digitize(X @ [0.7, -1.0] - 2.7 + noise, cuts)


@every_link
@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
def test_posterior_is_that_of_quadrature(engine, link, rng, seed):
    """One feature, three classes: a grid over the coefficient and two of the probabilities."""
    x = rng.normal(size=40)
    y = np.digitize(x + rng.normal(size=40), [0.0, 1.5])
    n = 60
    coef = np.linspace(-1.0, 4.0, n)
    # Of p = (u, (1-u) v, (1-u)(1-v)), dense at the ends, where cut points are far out.
    at_u, at_v, slope = np.meshgrid(*2 * [np.linspace(-5.0, 5.0, n)], coef, indexing="ij")
    first, rest = stats.norm.cdf(at_u), stats.norm.cdf(at_v)
    log_weight = stats.norm.logpdf([slope, at_u, at_v]).sum(axis=0) + stats.norm.logsf(at_u)
    cuts = INVERSE[link](np.stack([first, first + (1.0 - first) * rest]))
    for value, label in zip(x, y, strict=True):
        below = CDF[link](cuts - slope * value)
        with np.errstate(divide="ignore"):
            log_weight += np.log([below[0], below[1] - below[0], 1.0 - below[1]][label])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    points = np.stack([slope, *cuts])
    mean = (points * weight).sum(axis=(1, 2, 3))
    sd = np.sqrt(((points - mean[:, None, None, None]) ** 2 * weight).sum(axis=(1, 2, 3)))
    model = BayesianOrdinalRegression(engine, link=link, standardize=False, random_state=seed)
    model.fit(x[:, None], y)
    assert_allclose((np.append(model.coef_, model.cut_points_) - mean) / sd, 0.0, atol=0.12)
    assert_allclose(np.append(model.coef_std_, model.cut_points_std_) / sd, 1.0, atol=0.1)


@only_particles
def test_two_classes_predict_as_probit_regression(rng, seed):
    X, y = rows(rng, cuts=[0.0], link="probit")
    ours = BayesianOrdinalRegression("svgd", link="probit", random_state=seed).fit(X, y)
    theirs = BayesianProbitRegression("svgd", intercept_prior=Normal(1.0), random_state=seed)
    proba, expected = ours.predict_proba(X), theirs.fit(X, y).predict_proba(X)
    assert_allclose(proba, expected, atol=0.01)
    assert_allclose(ours.decision_function(X), np.log(proba[:, 1] / proba[:, 0]), rtol=1e-9)
    # Ends of intervals are those of 200 particles.
    assert_allclose(ours.predict_interval(X), theirs.predict_interval(X), atol=0.05)


@every_link
@only_particles
def test_everything_is_in_original_units(link, rng):
    """Other units, and a place far off, change the report by what they are and predictions not."""
    X, y = rows(rng)
    options = {"link": link, "random_state": 0}
    model = BayesianOrdinalRegression("laplace", **options).fit(X, y)
    scale, shift = np.array([10.0, 0.1]), np.array([300.0, -5.0])
    other = BayesianOrdinalRegression("laplace", **options).fit(scale * X + shift, y)
    assert_allclose(other.coef_, model.coef_ / scale, rtol=1e-6)
    cuts = model.cut_points_ + model.coef_ / scale @ shift
    assert_allclose(other.cut_points_, cuts, rtol=1e-6)
    proba = model.predict_proba(X)
    assert_allclose(other.predict_proba(scale * X + shift), proba, rtol=1e-6)
    of_sparse = BayesianOrdinalRegression("laplace", **options).fit(sparse.csr_array(X), y)
    assert_allclose(of_sparse.predict_proba(sparse.csr_array(X)), proba, rtol=1e-6)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    given = BayesianOrdinalRegression("laplace", standardize=False, **options).fit(Z, y)
    assert_allclose(given.predict_proba(Z), proba, rtol=1e-6)
    # Probabilities are those of the reported particles, by the definition.
    theta, weights = model.posterior_.particles, model.posterior_.weights
    below = CDF[link](theta[:, 2:] - (X[:3] @ theta[:, :2].T)[:, :, None])
    cumulative = np.einsum("imk,m->ik", below, weights)
    assert_allclose(np.cumsum(proba[:3], axis=1)[:, :2], cumulative, rtol=1e-9)
    draws = model.sample_predictive(X, 4000, random_state=0)
    share = (draws[:, :, None] == model.classes_).mean(axis=1)
    assert_allclose(share, proba, atol=0.05)
    uncertainty = model.predict_uncertainty(X)
    assert_allclose(uncertainty.total, -(proba * np.log(proba)).sum(axis=1), rtol=1e-9)


@only_particles
def test_labels_in_any_order_are_the_same_model(rng):
    """``classes_`` is sorted, for scikit-learn's scorers; ``categories_`` has the order."""
    X, codes = rows(rng)
    y = np.array(GRADES)[codes]
    numbers = BayesianOrdinalRegression("laplace", random_state=0).fit(X, codes)
    named = BayesianOrdinalRegression("laplace", categories=GRADES, random_state=0).fit(X, y)
    assert named.classes_.tolist() == sorted(GRADES) and named.categories_.tolist() == GRADES
    assert named.posterior_.names[2:] == ("cut_points[low|mid]", "cut_points[mid|high]")
    assert_array_equal(named.posterior_.particles, numbers.posterior_.particles)
    columns = [named.classes_.tolist().index(grade) for grade in GRADES]
    proba = named.predict_proba(X)[:, columns]
    assert_allclose(proba, numbers.predict_proba(X), rtol=1e-12)
    assert_array_equal(
        named.predict_quantiles(X, 0.3)[:, columns], numbers.predict_quantiles(X, 0.3)
    )
    assert_array_equal(named.predict(X), np.array(GRADES)[numbers.predict(X)])
    assert_allclose(named.log_predictive(X, y), numbers.log_predictive(X, codes), rtol=1e-12)
    score = get_scorer("neg_log_loss")
    assert_allclose(score(named, X, y), numbers.log_predictive(X, codes).mean())
    for column in (pd.Categorical(y, GRADES, ordered=True), pd.Series(y, dtype="category")):
        column = pd.Series(column).cat.set_categories(GRADES, ordered=True)
        model = BayesianOrdinalRegression("laplace", random_state=0).fit(X, column)
        assert model.categories_.tolist() == GRADES
        assert_array_equal(model.predict_proba(X), named.predict_proba(X))
    pl = pytest.importorskip("polars")
    column = pl.Series(y.tolist(), dtype=pl.Enum(GRADES))
    model = BayesianOrdinalRegression("laplace", random_state=0).fit(X, column)
    assert_array_equal(model.predict_proba(X), named.predict_proba(X))
    with pytest.warns(DataConversionWarning):
        model.fit(X, column.to_frame())
    assert_array_equal(model.predict_proba(X), named.predict_proba(X))


@only_particles
def test_text_without_an_order_is_questioned(rng):
    X, codes = rows(rng)
    y = np.array(GRADES)[codes]
    with pytest.warns(UserWarning, match=r"alphabetical order \['high', 'low', 'mid'\] is taken"):
        model = BayesianOrdinalRegression("laplace", random_state=0).fit(X, y)
    assert model.categories_.tolist() == ["high", "low", "mid"]
    with warnings.catch_warnings():  # of two classes either may come first
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        BayesianOrdinalRegression("laplace").fit(X, np.where(codes > 0, "yes", "no"))


@only_particles
@every_link
def test_categories_that_nobody_has(link, rng):
    """Between others they have a share by the prior alone; it is small, and all is finite.

    So small that coefficients move by less than a standard deviation.
    """
    X, y = rows(rng)
    declared = [-1, 0, 1, 1.5, 2, 3]
    model = BayesianOrdinalRegression("pmfvb", link=link, categories=declared, random_state=0).fit(
        X, y
    )
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), 6) and (proba > 0.0).all()
    assert proba[:, [0, 3, 5]].mean() < 0.02
    plain = BayesianOrdinalRegression("laplace", link=link, random_state=0).fit(X, y)
    assert_allclose(model.coef_, plain.coef_, atol=0.8 * plain.coef_std_.max())
    weighted = BayesianOrdinalRegression("laplace", categories=declared, class_weight="balanced")
    assert np.isfinite(weighted.fit(X, y).predict_proba(X)).all()


@pytest.mark.parametrize(
    ("params", "labels", "message"),
    [
        ({}, [1, 1, 1], "needs at least two classes in y"),
        ({"categories": [1]}, [1, 1, 1], "needs at least two classes in y"),
        ({"categories": [0, 1]}, [0, 1, 2], r"not in categories: \[2\]"),
        ({"categories": [0, 1, 1]}, [0, 1, 1], "holds a class twice"),
        ({"link": "cloglog"}, [0, 1, 2], "'link' parameter"),
        ({"concentration": 0.0}, [0, 1, 2], "'concentration' parameter"),
        ({}, [0.5, 1.3, 2.7], "Unknown label type"),
    ],
)
def test_what_is_refused(params, labels, message, rng):
    model = BayesianOrdinalRegression("laplace", **params)
    with pytest.raises(ValueError, match=message):
        model.fit(rng.normal(size=(30, 2)), np.repeat(labels, 10))
    assert not hasattr(model, "categories_")


def test_an_intercept_is_refused_by_name():
    for name in ("fit_intercept", "intercept_prior"):
        assert name not in BayesianOrdinalRegression().get_params()
        with pytest.raises(TypeError, match=rf"'{name}'; use (the cut points|concentration)"):
            BayesianOrdinalRegression(**{name: None})


def test_unseen_classes_are_refused_in_predictions(rng):
    X, y = rows(rng)
    model = BayesianOrdinalRegression("laplace", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"not seen in fit: \[7\]"):
        model.log_predictive(X[:2], [0, 7])


@only_particles
@every_link
@pytest.mark.parametrize("engine", [MCMC(20, n_draws=40, max_draws=40, n_warmup=20), "laplace"])
def test_hostile_rows(engine, link, rng):
    """Separated classes, thousands of standard deviations away, and rows far from those of fit."""
    X = np.concatenate([rng.normal(size=(20, 2)) + 2e3 * k for k in range(4)])
    y = np.repeat(np.arange(4), 20)
    model = BayesianOrdinalRegression(engine, link=link, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    wild = BayesianOrdinalRegression(engine, link=link, standardize=False, random_state=0)
    for fitted in (model, wild.fit(X, y)):
        assert np.isfinite(fitted.posterior_.particles).all()
        for rows in (X, 1e3 * X, -1e3 * X):
            assert_allclose(fitted.predict_proba(rows).sum(axis=1), 1.0)
            assert not np.isnan(fitted.predict_log_proba(rows)).any()
            assert np.isfinite(fitted.predict_interval(rows)).all()


@only_particles
def test_streams(rng):
    X, codes = rows(rng, 600)
    y = np.array(GRADES)[codes]
    engine = PMD(400, max_iter=2, n_moves=5)
    model = BayesianOrdinalRegression(engine, categories=GRADES, random_state=0)
    for start in (0, 200, 400):
        chunk = slice(start, start + 200)
        model.partial_fit(X[chunk], y[chunk], classes=GRADES)
    whole = BayesianOrdinalRegression(engine, categories=GRADES, random_state=0).fit(X, y)
    gap = (model.posterior_.mean() - whole.posterior_.mean()) / whole.posterior_.std()
    assert np.sqrt(np.mean(gap**2)) < 0.7
    for params in ({"link": "probit"}, {"categories": GRADES[::-1]}):
        before = model.get_params()
        with pytest.raises(ValueError, match="of the whole stream"):
            model.set_params(**params).partial_fit(X, y)
        model.set_params(**{name: before[name] for name in params})
    known = BayesianOrdinalRegression(engine, categories=GRADES, random_state=0)
    known.partial_fit(X[:200], y[:200]).partial_fit(X[200:400], y[200:400])
    assert known.classes_.tolist() == sorted(GRADES)
    with pytest.raises(ValueError, match="are not the categories"):
        BayesianOrdinalRegression(engine, categories=GRADES).partial_fit(
            X, y, classes=["low", "mid"]
        )


@only_particles
def test_warm_start_goes_on(rng):
    X, y = rows(rng)
    model = BayesianOrdinalRegression("svgd", warm_start=True, random_state=0).fit(X, y)
    before = model.cut_points_
    assert_allclose(model.fit(X, y).cut_points_, before, atol=0.1 * model.cut_points_std_.max())


# Against NumPyro's NUTS (`tests/data/README.md`).

# Errors of the mean, and of the 5, 50 and 95 % points, in standard deviations.
BARS = {
    "mcmc": (0.035, 0.075),
    "ksd-mcmc": (0.035, 0.14),
    "pmfvb": (0.035, 0.075),
    "pmd": (0.09, 0.14),
    "fwss": (0.09, 0.15),
    "svgd": (0.09, 0.15),
}
assert BARS.keys() < ENGINES.keys()


def errors(name, engine, gold, seed):
    truth = gold(f"{name}_ordinal")
    model = BayesianOrdinalRegression(
        engine, link=str(truth["model"]), standardize=False, random_state=seed
    ).fit(truth["X_std"], truth["y"])
    posterior = model.posterior_
    mean = (posterior.mean() - truth["mean"]) / truth["sd"]
    ratio = posterior.std() / truth["sd"]
    axes = np.hstack([np.eye(len(mean)), truth["directions"]])
    expected = np.hstack([truth["coordinates"], truth["predictors"]])
    sd = np.sqrt(np.einsum("ij,ik,kj->j", axes, truth["cov"], axes))
    found = weighted_quantile(posterior.particles @ axes, posterior.weights, truth["probabilities"])
    return np.sqrt(np.mean(mean**2)), ratio, np.sqrt(np.mean(((found - expected) / sd) ** 2))


@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
def test_an_engine_meets_its_bar(engine, gold, seed):
    mean, ratio, quantiles = errors("marriage_logit", engine, gold, seed)
    assert mean < BARS[engine][0] and quantiles < BARS[engine][1]
    assert_allclose(ratio, 1.0, atol=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("engine", BARS)
@pytest.mark.parametrize("name", ["marriage_logit", "grades_logit", "grades_probit"])
def test_every_engine_meets_its_bar(name, engine, gold, seed):
    mean, ratio, quantiles = errors(name, engine, gold, seed)
    assert mean < BARS[engine][0] and quantiles < BARS[engine][1]
    assert_allclose(ratio, 1.0, atol=0.18)


def test_the_order_of_a_frame_with_one_column_counts(rng):
    X, codes = rows(rng)
    y = pd.Series(pd.Categorical(codes, categories=[2, 0, 1], ordered=True))
    model = BayesianOrdinalRegression("laplace", random_state=0)
    with pytest.warns(Warning, match="column-vector"):
        found = model.fit(X, y.to_frame()).coef_
    assert_allclose(found, model.fit(X, y).coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_text_is_no_number(rng):
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 20
    model = BayesianOrdinalRegression("laplace", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="classes that were not seen in fit: "):
        model.log_predictive(X, y.astype(str))
    with pytest.raises(ValueError, match="classes that are not in categories"):
        BayesianOrdinalRegression("laplace", categories=range(20)).fit(X, y.astype(str))
    model.set_params(categories=[f"{code:02d}" for code in range(20)])
    with pytest.raises(ValueError, match=r"such as VotingClassifier, a y of numbers\): \[0, 1"):
        model.fit(X, y)
