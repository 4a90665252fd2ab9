"""`predictive` against the inner estimator's own methods, and against closed forms for an outcome
that was transformed."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm, truncnorm
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from skstein import BayesianLinearRegression, BayesianLogisticRegression
from skstein.inference import LaplaceDraws
from skstein.noise import StudentTNoise
from skstein.predictive import Predictive, predictive

# The fits here only have to give particles: whether those are a good posterior is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ENGINE = LaplaceDraws(n_particles=30)
Q = np.array([0.0, 0.02, 0.3, 0.5, 0.9, 1.0])


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(60, 4, flip_y=0.1, random_state=0)
    return BayesianLogisticRegression(ENGINE, random_state=0), 5.0 + 3.0 * X, y


@pytest.fixture(scope="module")
def multiclass():
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    return BayesianLogisticRegression(ENGINE, random_state=0), X[::3], y[::3]


@pytest.fixture(scope="module")
def regression():
    X, y = load_diabetes(return_X_y=True)
    return BayesianLinearRegression(ENGINE, random_state=0), 1e3 * X[::8], y[::8]


def assert_same_predictive(found, estimator, X):
    """All methods give the numbers of the estimator's own methods at X."""
    if hasattr(estimator, "classes_"):
        mean, std = estimator.predict_proba(X), class_std(estimator, X)
    else:
        mean, std = estimator.predict(X, return_std=True)
    assert_array_equal(found.mean(), mean)
    assert_allclose(found.std(), std, rtol=1e-9, atol=1e-14)
    assert_array_equal(found.interval(0.8), estimator.predict_interval(X, 0.8))
    assert_array_equal(found.interval(), estimator.predict_interval(X))
    assert_array_equal(found.quantiles(Q), estimator.predict_quantiles(X, Q))
    assert_array_equal(found.quantiles(0.3), estimator.predict_quantiles(X, 0.3))
    assert_array_equal(
        found.sample_predictive(7, 3), estimator.sample_predictive(X, 7, random_state=3)
    )
    assert_array_equal(found.sample_mean(7, 3), estimator.sample_mean(X, 7, random_state=3))
    uncertainty, expected = found.uncertainty(), estimator.predict_uncertainty(X)
    assert uncertainty.keys() == {"total", "aleatoric", "epistemic"}
    for part in uncertainty:
        assert_array_equal(uncertainty[part], expected[part])


def class_std(classifier, X):
    """Standard deviation of each probability, from one prediction for each particle alone."""
    posterior, probabilities = classifier.posterior_, []
    weights = posterior.weights
    for theta in posterior.particles:
        classifier.posterior_ = type(posterior)(theta[None])
        probabilities.append(classifier.predict_proba(X))
    classifier.posterior_ = posterior
    mean = np.tensordot(weights, probabilities, axes=1)
    return np.sqrt(np.tensordot(weights, (np.array(probabilities) - mean) ** 2, axes=1))


# Wrappers that hide the estimator.


@pytest.mark.parametrize("problem", ["binary", "multiclass", "regression"])
def test_an_estimator_alone_has_the_predictive_of_its_own_methods(problem, request, rng):
    estimator, X, y = request.getfixturevalue(problem)
    estimator.fit(X, y)
    estimator.posterior_.weights = rng.dirichlet(np.ones(len(estimator.posterior_)))
    found = predictive(estimator, X[:9])
    assert isinstance(found, Predictive)
    assert_same_predictive(found, estimator, X[:9])


@pytest.mark.parametrize("problem", ["binary", "multiclass", "regression"])
def test_a_pipeline_transforms_X(problem, request):
    estimator, X, y = request.getfixturevalue(problem)
    pipeline = make_pipeline(StandardScaler(), "passthrough", FunctionTransformer(), estimator)
    pipeline.fit(X, y)
    assert_same_predictive(predictive(pipeline, X[:9]), pipeline[-1], pipeline[0].transform(X[:9]))


def test_a_pipeline_of_one_step(regression):
    estimator, X, y = regression
    pipeline = make_pipeline(estimator).fit(X, y)
    assert_same_predictive(predictive(pipeline, X[:9]), pipeline[-1], X[:9])


class Doubled(BaseEstimator):
    """Draws the rows anew, twice over, as a sampler of imbalanced-learn."""

    def fit_resample(self, X, y):
        return np.concatenate([X, X]), np.concatenate([y, y])


class ResamplingPipeline(Pipeline):
    """Fits as a pipeline of imbalanced-learn; in predictions that one passes samplers over."""

    def fit(self, X, y):
        for _, step in self.steps[:-1]:
            if hasattr(step, "fit_resample"):
                X, y = step.fit_resample(X, y)
            elif step != "passthrough":
                X = step.fit(X, y).transform(X)
        self.steps[-1][1].fit(X, y)
        return self


@pytest.mark.parametrize(
    "transformers", [[], [StandardScaler()], [StandardScaler(), "passthrough"]]
)
def test_a_pipeline_draws_rows_anew_in_fit_alone(transformers, binary):
    estimator, X, y = binary
    steps = [*transformers, Doubled(), estimator]
    pipeline = ResamplingPipeline([(str(i), step) for i, step in enumerate(steps)]).fit(X, y)
    new = transformers[0].transform(X[:9]) if transformers else X[:9]
    assert_same_predictive(predictive(pipeline, X[:9]), pipeline[-1], new)


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV])
def test_a_search_gives_its_best_estimator(search, regression):
    estimator, X, y = regression
    options = {"n_iter": 2, "random_state": 0} if search is RandomizedSearchCV else {}
    fitted = search(estimator, {"prior__scale": [0.01, 1.0]}, cv=2, **options).fit(X, y)
    assert_same_predictive(predictive(fitted, X[:9]), fitted.best_estimator_, X[:9])


@pytest.mark.parametrize("threshold", [FixedThresholdClassifier, TunedThresholdClassifierCV])
def test_a_threshold_keeps_the_probabilities(threshold, binary):
    estimator, X, y = binary
    options = {"threshold": 0.1} if threshold is FixedThresholdClassifier else {"cv": 2}
    fitted = threshold(estimator, **options).fit(X, y)
    assert_same_predictive(predictive(fitted, X[:9]), fitted.estimator_, X[:9])


def test_a_threshold_around_a_fitted_estimator_needs_no_fit(binary):
    estimator, X, y = binary
    frozen = FrozenEstimator(estimator.fit(X, y))
    found = predictive(FixedThresholdClassifier(frozen, threshold=0.1), X[:9])
    assert_same_predictive(found, estimator, X[:9])


def test_eliminated_features_are_left_out(binary):
    estimator, X, y = binary
    noise = np.random.default_rng(0).normal(size=(len(X), 2))
    fitted = RFECV(estimator, cv=2, min_features_to_select=2).fit(np.hstack([noise, X]), y)
    given = np.hstack([noise, X])[:9]
    assert_same_predictive(predictive(fitted, given), fitted.estimator_, fitted.transform(given))


def test_search_inside_pipeline_inside_search(binary):
    estimator, X, y = binary
    inner = GridSearchCV(estimator, {"prior__scale": [0.1, 1.0]}, cv=2)
    outer = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("model", inner)]),
        {"scale__with_std": [False, True]},
        cv=2,
    )
    outer.fit(X, y)
    pipeline = outer.best_estimator_
    assert_same_predictive(
        predictive(outer, X[:9]),
        pipeline["model"].best_estimator_,
        pipeline["scale"].transform(X[:9]),
    )


def test_data_frames_keep_their_names(regression):
    estimator, X, y = regression
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    pipeline = make_pipeline(StandardScaler(), estimator).set_output(transform="pandas")
    pipeline.fit(frame, y)
    assert list(pipeline[-1].feature_names_in_) == list(frame.columns)
    new = frame.iloc[:9]
    assert_same_predictive(predictive(pipeline, new), pipeline[-1], pipeline[0].transform(new))
    with pytest.raises(ValueError, match="feature names"):
        predictive(pipeline[-1], new.rename(columns={"x0": "z"})).mean()


def test_another_wrapper_is_registered(regression):
    class Wrapper(MetaEstimatorMixin, BaseEstimator):
        def __init__(self, inner):
            self.inner = inner

    @predictive.register(Wrapper)
    def _(wrapper, X):
        return predictive(wrapper.inner, X)

    estimator, X, y = regression
    pipeline = make_pipeline(StandardScaler(), Wrapper(estimator.fit(X, y)))
    found = predictive(pipeline[-1], X[:9])
    assert_same_predictive(found, estimator, X[:9])
    with pytest.raises(TypeError, match="Wrapper"):
        predictive(LogisticRegression(), X)


# A transformed outcome.


def fit_transformed(regression, func, inverse_func, **options):
    """A fitted regressor of the transformed outcome, new X, and means, stds and weights there."""
    estimator, X, y = regression
    fitted = TransformedTargetRegressor(
        estimator, func=func, inverse_func=inverse_func, check_inverse=False, **options
    ).fit(X, y)
    return fitted, X[:9], *mixture(fitted.regressor_, X[:9])


def mixture(regressor, X):
    theta, weights = regressor.posterior_.particles, regressor.posterior_.weights
    return theta[:, 0] + X @ theta[:, 1:-1].T, np.exp(0.5 * theta[:, -1]), weights


def split_variance(means, variances, weights):
    mean = means @ weights
    return mean, (means - mean[:, None]) ** 2 @ weights, variances @ weights


def assert_moments(found, mean, epistemic, aleatoric, rtol):
    assert_allclose(found.mean(), mean, rtol=rtol)
    assert_allclose(found.std(), np.sqrt(epistemic + aleatoric), rtol=rtol)
    parts = found.uncertainty()
    assert_allclose(parts.epistemic, epistemic, rtol=rtol)
    assert_allclose(parts.aleatoric, aleatoric, rtol=rtol)
    assert_array_equal(parts.total, parts.aleatoric + parts.epistemic)


def assert_lognormal_mixture(found, means, stds, weights):
    def quantile(q, row):
        def excess(t):
            return weights @ ndtr((np.log(t) - means[row]) / stds) - q

        return brentq(excess, 1e-3, 1e6, xtol=1e-12, rtol=1e-12)

    levels = np.array([0.05, 0.5, 0.95])
    expected = [[quantile(q, row) for q in levels] for row in range(len(means))]
    assert_allclose(found.quantiles(levels), expected, rtol=1e-9)
    assert_allclose(found.interval(0.9), np.array(expected)[:, [0, 2]], rtol=1e-9)
    particle_means = np.exp(means + 0.5 * stds**2)
    assert_moments(
        found,
        *split_variance(particle_means, np.expm1(stds**2) * particle_means**2, weights),
        rtol=1e-8,
    )


def test_the_logarithm_of_the_outcome_makes_a_lognormal_mixture(regression):
    fitted, X, means, stds, weights = fit_transformed(regression, np.log, np.exp)
    found = predictive(fitted, X)
    assert_lognormal_mixture(found, means, stds, weights)
    assert_array_equal(found.quantiles([0.0, 1.0]), np.tile([0.0, np.inf], (9, 1)))
    inner = fitted.regressor_.sample_predictive(X, 20, random_state=1)
    assert_allclose(found.sample_predictive(20, random_state=1), np.exp(inner))
    # A draw of the mean is that of the outcome under one particle, not of its logarithm.
    particle_means = np.exp(means + 0.5 * stds**2)
    assert found.sample_mean().shape == (9, 1)
    for draw in found.sample_mean(20, random_state=1).T:
        assert np.abs(particle_means / draw[:, None] - 1.0).max(axis=0).min() < 1e-9


def test_transformed_outcomes_and_pipelines_nest(regression):
    # The outer transformer standardises, so the composition of both inverses is exp(a z + b).
    estimator, X, y = regression
    inner = TransformedTargetRegressor(estimator, transformer=StandardScaler())
    outer = TransformedTargetRegressor(
        GridSearchCV(make_pipeline(StandardScaler(), inner), {}, cv=2),
        func=np.log,
        inverse_func=np.exp,
    )
    search = GridSearchCV(outer, {}, cv=2).fit(X, y)
    pipeline = search.best_estimator_.regressor_.best_estimator_
    means, stds, weights = mixture(pipeline[-1].regressor_, pipeline[0].transform(X[:9]))
    scaler = pipeline[-1].transformer_
    means = scaler.mean_ + scaler.scale_ * means
    assert_lognormal_mixture(predictive(search, X[:9]), means, scaler.scale_ * stds, weights)


def test_a_decreasing_inverse_swaps_the_ends(regression):
    fitted, X, means, stds, weights = fit_transformed(regression, np.negative, np.negative)
    found, regressor = predictive(fitted, X), fitted.regressor_
    assert_array_equal(found.quantiles(Q), -regressor.predict_quantiles(X, 1.0 - Q))
    assert_array_equal(found.quantiles([0.0, 1.0]), np.tile([-np.inf, np.inf], (9, 1)))
    assert_allclose(found.interval(0.9), -regressor.predict_interval(X, 0.9)[:, ::-1], rtol=1e-12)
    variances = np.broadcast_to(stds**2, means.shape)
    assert_moments(found, *split_variance(-means, variances, weights), rtol=1e-8)


def test_an_inverse_that_is_not_monotone_folds_the_outcome(regression):
    estimator, X, y = regression
    y = (y - y.mean()) / y.std()
    fitted, X, means, stds, weights = fit_transformed((estimator, X, y), lambda y: y, np.square)
    found = predictive(fitted, X)
    levels = np.array([0.01, 0.1, 0.5, 0.9, 0.99])
    root = np.sqrt(found.quantiles(levels))[:, :, None]
    below = (ndtr((root - means[:, None]) / stds) - ndtr((-root - means[:, None]) / stds)) @ weights
    assert_allclose(below, np.tile(levels, (9, 1)), atol=2e-3)
    assert_moments(
        found,
        *split_variance(means**2 + stds**2, 2.0 * stds**4 + 4.0 * means**2 * stds**2, weights),
        rtol=1e-8,
    )


def test_each_row_has_its_own_direction(regression):
    # |y| increases where almost all of the outcome is positive, and decreases where it is negative.
    X = np.sign(regression[1][:, :1])
    y = 100.0 * X[:, 0] + np.linspace(-1.0, 1.0, len(X))
    estimator = BayesianLinearRegression(ENGINE, random_state=0)
    fitted, *_ = fit_transformed((estimator, X, y), lambda y: y, np.abs)
    new = np.array([[-1.0], [1.0]])
    low, high = fitted.regressor_.predict_interval(new).T
    assert_allclose(predictive(fitted, new).interval(), [[-high[0], -low[0]], [low[1], high[1]]])


@pytest.mark.parametrize("shift", [0.0, 1.5, 3.0, 4.0, 6.0])
def test_moments_leave_out_rare_outcomes_without_an_inverse_and_no_common_ones(shift, regression):
    def positive_only(z):
        return np.where(z > 0.0, z, np.nan)

    estimator, X, y = regression
    y = (y - y.mean()) / y.std() + shift
    fitted, X, means, stds, weights = fit_transformed((estimator, X, y), lambda y: y, positive_only)
    kept = weights * ndtr(means / stds)
    lost = 1.0 - kept.sum(axis=1)
    truncated = truncnorm.mean(-means / stds, np.inf, loc=means, scale=stds)
    expected = np.sum(kept * truncated, axis=1) / kept.sum(axis=1)
    found = predictive(fitted, X)
    assert_allclose(found.mean()[lost < 3e-4], expected[lost < 3e-4], rtol=1e-3)
    assert np.isnan(found.mean()[lost > 3e-3]).all()
    assert_array_equal(np.isnan(found.std()), np.isnan(found.mean()))
    # A quantile is infinite only where the inverse does not exist at that very quantile.
    below = fitted.regressor_.predict_quantiles(X, 0.4) <= 0
    assert_array_equal(np.isneginf(found.quantiles(0.4)), below)
    low, high = found.interval(0.98).T
    assert np.all(low < high)
    rows = estimator, regression[1], -y
    downwards = fit_transformed(rows, lambda y: -y, lambda z: -positive_only(z))[0]
    assert_array_equal(np.isposinf(predictive(downwards, X).quantiles(0.6)), below)


def test_a_power_transformer_takes_the_ends_of_the_distribution(regression):
    estimator, X, y = regression
    fitted = TransformedTargetRegressor(estimator, transformer=PowerTransformer()).fit(X, y)
    found = predictive(fitted, X[:9])
    inner = fitted.regressor_.predict_quantiles(X[:9], Q[1:-1])
    expected = fitted.transformer_.inverse_transform(inner.reshape(-1, 1)).reshape(inner.shape)
    assert_allclose(found.quantiles(Q)[:, 1:-1], expected)
    assert np.all(found.mean() > found.quantiles(0.02)[:, 0])


# Scores of a transformed outcome.


def assert_log_density(found, z, derivative, means, stds, weights):
    """That of the normal mixture at the transformed outcome, and the transform's derivative."""
    density = norm.pdf(z[:, None], means, stds) @ weights
    assert_allclose(found, np.log(density) + np.log(derivative), rtol=0, atol=1e-6)


def test_the_density_of_an_outcome_whose_logarithm_is_normal(regression):
    fitted, X, means, stds, weights = fit_transformed(regression, np.log, np.exp)
    for y in (regression[2][:9], np.full(9, 1e-3), np.full(9, 1e6)):
        found = predictive(fitted, X).log_predictive(y)
        assert_log_density(found, np.log(y), 1.0 / y, means, stds, weights)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_density_of_a_scaled_outcome(offset, regression):
    estimator, X, y = regression
    y = y + offset
    fitted = TransformedTargetRegressor(estimator, transformer=StandardScaler()).fit(X, y)
    scaler, found = fitted.transformer_, predictive(fitted, X[:9]).log_predictive(y[:9])
    z = (y[:9] - scaler.mean_) / scaler.scale_
    assert_log_density(found, z, 1.0 / scaler.scale_, *mixture(fitted.regressor_, X[:9]))


@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
def test_the_density_of_a_power_transformed_outcome(method, regression):
    estimator, X, y = regression
    transformer = PowerTransformer(method)
    fitted = TransformedTargetRegressor(estimator, transformer=transformer).fit(X, y)
    power, scale = fitted.transformer_.lambdas_[0], fitted.transformer_._scaler.scale_[0]
    X, y = X[:9], y[:9]
    derivative = (y + (method == "yeo-johnson")) ** (power - 1.0) / scale
    z = fitted.transformer_.transform(y[:, None])[:, 0]
    found = predictive(fitted, X).log_predictive(y)
    assert_log_density(found, z, derivative, *mixture(fitted.regressor_, X))


def test_moments_near_a_pole_of_the_inverse_are_no_numbers(rng):
    """Of a negative power the mean of a normal is infinite; of a logarithm it is not.

    Rows from which the pole is out of reach have one.
    """
    X = rng.normal(size=(300, 2))
    y = np.exp(0.3 * X[:, 0]) / rng.gamma(1.5, size=300)
    inner = BayesianLinearRegression("laplace", random_state=0)
    power = TransformedTargetRegressor(inner, transformer=PowerTransformer("box-cox")).fit(X, y)
    assert power.transformer_.lambdas_[0] < 0.0
    found = predictive(power, X[:100])
    low, high = found.quantiles([0.05, 0.95]).T
    assert np.isfinite(high - low).all()
    mean = found.mean()
    assert np.isnan(mean).mean() > 0.5
    assert np.all(np.isnan(mean) | ((low < mean) & (mean < high)))
    np.testing.assert_array_equal(np.isnan(found.std()), np.isnan(mean))
    log = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
    mean, std, weights = mixture(log.regressor_, X[:9])
    expected = np.exp(mean + 0.5 * std**2) @ weights
    np.testing.assert_allclose(predictive(log, X[:9]).mean(), expected)


def test_the_density_through_transformers_and_pipelines(regression):
    estimator, X, y = regression
    inner = TransformedTargetRegressor(estimator, transformer=StandardScaler())
    outer = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), inner), func=np.log, inverse_func=np.exp
    ).fit(X, y)
    pipeline, (X, y) = outer.regressor_, (X[:9], y[:9])
    scaler = pipeline[-1].transformer_
    z = (np.log(y) - scaler.mean_) / scaler.scale_
    parts = mixture(pipeline[-1].regressor_, pipeline[0].transform(X))
    found = predictive(outer, X).log_predictive(y)
    assert_log_density(found, z, 1.0 / (y * scaler.scale_), *parts)


@pytest.mark.parametrize(
    "transformer",
    [
        QuantileTransformer(n_quantiles=12, output_distribution="normal"),
        FunctionTransformer(np.arcsinh, np.sinh),
        FunctionTransformer(lambda y: -np.sqrt(y), np.square),
    ],
    ids=["quantiles", "sinh", "falling"],
)
def test_a_density_integrates_to_the_probability_between_quantiles(transformer, regression):
    estimator, X, y = regression
    fitted = TransformedTargetRegressor(estimator, transformer=transformer, check_inverse=False)
    fitted.fit(X, y)
    low, high = predictive(fitted, X[:1]).interval(0.6)[0]
    edges = np.linspace(low, high, 3001)
    middle = 0.5 * (edges[1:] + edges[:-1])
    density = np.exp(predictive(fitted, np.repeat(X[:1], 3000, axis=0)).log_predictive(middle))
    assert density.sum() * (edges[1] - edges[0]) == pytest.approx(0.6, rel=2e-3)


def test_the_square_of_a_root_that_is_seldom_negative_has_a_density(regression):
    estimator, X, y = regression
    fitted, X, means, stds, weights = fit_transformed((estimator, X, y), np.sqrt, np.square)
    assert fitted.regressor_.predict_quantiles(X, 1e-6).min() < 0.0
    found = predictive(fitted, X).log_predictive(y[:9])
    assert_log_density(found, np.sqrt(y[:9]), 0.5 / np.sqrt(y[:9]), means, stds, weights)


def test_scores_of_an_estimator_alone_are_its_own(regression, binary):
    estimator, X, y = regression
    reg = estimator.fit(X, y)
    found = predictive(reg, X)
    assert_array_equal(found.log_predictive(y), reg.log_predictive(X, y))
    means, stds, weights = mixture(reg, X[:3])
    for row in range(3):
        truth = crps_by_definition(lambda x, r=row: weights @ ndtr((x - means[r]) / stds), y[row])
        assert found.crps(y)[row] == pytest.approx(truth, rel=1e-6)
    classifier, X, y = binary
    found = predictive(classifier.fit(X, y), X)
    assert_array_equal(found.log_predictive(y), classifier.log_predictive(X, y))


def crps_by_definition(cdf, y, low=-2e3, high=3e3):
    left, _ = quad(lambda x: cdf(x) ** 2, low, y, limit=500, epsabs=1e-10)
    return left + quad(lambda x: (1.0 - cdf(x)) ** 2, y, high, limit=500, epsabs=1e-10)[0]


def test_the_crps_of_a_transformed_outcome(regression):
    fitted, X, means, stds, weights = fit_transformed(regression, np.log, np.exp)
    y = regression[2][:9]
    found = predictive(fitted, X).crps(y)
    for row in range(9):
        truth = crps_by_definition(
            lambda x, row=row: weights @ ndtr((np.log(x) - means[row]) / stds), y[row], 1e-9, 1e4
        )
        assert found[row] == pytest.approx(truth, rel=1e-3)


def test_the_crps_of_two_modes_and_a_fold(regression):
    """Of what is left of two far modes after an inverse that is not monotone."""
    estimator, X, y = regression
    fitted, X, means, stds, weights = fit_transformed((estimator, X, y), lambda y: y, np.abs)
    posterior = fitted.regressor_.posterior_
    posterior.particles[::2, 0] -= 400.0
    means, stds, weights = mixture(fitted.regressor_, X)
    found, y = predictive(fitted, X).crps(y[:9]), y[:9]

    def cdf(x, row):
        return weights @ (ndtr((x - means[row]) / stds) - ndtr((-x - means[row]) / stds))

    for row in range(3):
        truth = crps_by_definition(lambda x, row=row: cdf(x, row), y[row], 0.0)
        assert found[row] == pytest.approx(truth, rel=5e-3)


@pytest.mark.parametrize(
    ("transformer", "unit"),
    [(StandardScaler(), None), (FunctionTransformer(np.negative, np.negative), 1.0)],
)
def test_the_crps_keeps_the_unit(transformer, unit, regression):
    estimator, X, y = regression
    fitted = TransformedTargetRegressor(estimator, transformer=transformer).fit(X, y)
    z = fitted.transformer_.transform(y[:, None])[:, 0]
    direct = predictive(fitted.regressor_, X).crps(z) * (unit or y.std())
    assert_allclose(predictive(fitted, X).crps(y), direct, rtol=1e-3)


def test_the_crps_is_undefined_where_moments_are(regression):
    estimator, X, y = regression
    y = (y - y.mean()) / y.std()
    fitted, X, *_ = fit_transformed(
        (estimator, X, y), lambda y: y, lambda z: np.where(z > 0.0, z, np.nan)
    )
    found = predictive(fitted, X)
    assert np.isnan(found.mean()).any()
    assert_array_equal(np.isnan(found.crps(y[:9])), np.isnan(found.mean()))


@pytest.mark.parametrize(
    ("transformer", "y"),
    [
        # Both roots have a part in the density.
        (FunctionTransformer(np.sqrt, np.square), "fold"),
        # The transform of y is that of another outcome.
        (FunctionTransformer(np.log, lambda z: np.exp(z) + 1.0, check_inverse=False), 100.0),
        # Beyond the rows of the fit there is nothing, and at their ends all that is beyond.
        (QuantileTransformer(n_quantiles=10, output_distribution="normal"), 1e4),
        (QuantileTransformer(n_quantiles=10, output_distribution="normal"), "largest"),
        (FunctionTransformer(np.log, np.exp), 0.0),
        (FunctionTransformer(np.log, np.exp), -1.0),
        (FunctionTransformer(np.round, lambda z: z, check_inverse=False), 100.3),
    ],
)
def test_an_outcome_without_a_density_is_refused(transformer, y, regression):
    estimator, X, observed = regression
    if y == "fold":
        X, observed = X[:, :1], 0.01 + np.random.default_rng(0).exponential(size=len(X)) ** 2
    fitted = TransformedTargetRegressor(estimator, transformer=transformer, check_inverse=False)
    fitted.fit(X, observed)
    new = observed[:9].copy()
    if y != "fold":
        new[4] = observed.max() if y == "largest" else y
    with pytest.raises(ValueError, match=r"the outcome of row \d, y=.*, has no density"):
        predictive(fitted, X[:9]).log_predictive(new)


# Errors, and what must not happen.


def test_only_samples_draw_random_numbers(regression):
    fitted, X, *_ = fit_transformed(regression, np.log, np.exp)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    found = predictive(fitted, X)
    assert_array_equal(found.mean(), found.mean())
    assert_array_equal(found.quantiles(Q), found.quantiles(Q))
    found.uncertainty()
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert_array_equal(
        found.sample_predictive(5, random_state=0), found.sample_predictive(5, random_state=0)
    )
    assert not np.array_equal(
        found.sample_predictive(5, random_state=0), found.sample_predictive(5, random_state=1)
    )


@pytest.mark.parametrize(
    ("wrap", "found"),
    [
        (lambda classifier: classifier, "LogisticRegression"),
        (lambda classifier: make_pipeline(StandardScaler(), classifier), "LogisticRegression"),
        (lambda classifier: GridSearchCV(classifier, {}, cv=2), "LogisticRegression"),
        (lambda classifier: make_pipeline(StandardScaler()), "StandardScaler"),
    ],
)
def test_nothing_of_ours_inside_names_what_was_found(wrap, found, binary):
    _, X, y = binary
    with pytest.raises(
        TypeError,
        match=rf"inside FixedThresholdClassifier, .*GridSearchCV, Pipeline.*found {found}\.",
    ):
        predictive(wrap(LogisticRegression()).fit(X, y), X)


def test_a_class_instead_of_an_instance_is_named(binary):
    with pytest.raises(TypeError, match="the class BayesianLogisticRegression instead of"):
        predictive(BayesianLogisticRegression, binary[1])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda classifier: classifier,
        lambda classifier: make_pipeline(StandardScaler(), classifier),
        lambda classifier: make_pipeline(FunctionTransformer(), classifier),
        lambda classifier: GridSearchCV(classifier, {}),
        lambda classifier: FixedThresholdClassifier(classifier),
        lambda classifier: TunedThresholdClassifierCV(classifier),
        lambda classifier: FrozenEstimator(classifier),
        lambda classifier: RFECV(classifier),
    ],
)
def test_an_unfitted_object_is_refused(wrap, binary):
    _, X, _ = binary
    with pytest.raises(NotFittedError):
        predictive(wrap(BayesianLogisticRegression()), X)
    with pytest.raises(NotFittedError):
        predictive(TransformedTargetRegressor(BayesianLinearRegression()), X)


def test_a_search_without_refit_is_refused(binary):
    estimator, X, y = binary
    search = GridSearchCV(estimator, {}, cv=2, refit=False).fit(X, y)
    with pytest.raises(NotFittedError, match="refit=True"):
        predictive(search, X)


def test_fractions_outside_the_unit_interval_are_refused(regression):
    fitted, X, *_ = fit_transformed(regression, np.log, np.exp)
    for inner in (fitted, fitted.regressor_):
        with pytest.raises(ValueError, match="q must be"):
            predictive(inner, X).quantiles([0.5, 1.5])
        with pytest.raises(ValueError, match="level must be"):
            predictive(inner, X).interval(-0.1)


def test_classes_are_no_outcome_to_transform(binary):
    estimator, X, y = binary
    fitted = TransformedTargetRegressor(estimator).fit(X, y)
    with pytest.raises(TypeError, match="outcome of a skstein regressor"):
        predictive(fitted, X)


def test_a_transformer_to_several_columns_is_refused(regression):
    fitted, X, *_ = fit_transformed(regression, lambda y: y, lambda z: np.hstack([z, z]))
    with pytest.raises(ValueError, match="one outcome to one"):
        predictive(fitted, X).mean()


def test_moments_that_rest_on_one_particle_are_no_numbers(rng):
    """Five rows leave a few coefficients open, of which the exponential of one is all of a mean."""
    X = rng.normal(size=(5, 4))
    y = np.exp(X[:, 0] + 0.5 * rng.normal(size=5))
    inner = BayesianLinearRegression("laplace", noise_scale=1.0, random_state=0)
    log = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
    found = predictive(log, np.concatenate([X, 20.0 * X]))
    assert np.isnan(found.mean()[5:]).any()
    assert np.isnan(found.std()[5:]).any()
    assert np.isfinite(found.interval()).all()


@pytest.mark.filterwarnings("ignore:.*the noise is next to nothing:UserWarning")
def test_an_exponential_of_heavy_tails_has_no_crps(rng):
    """A cell six normal scores out would decide; under a straight map none does."""
    X = rng.normal(size=(60, 2))
    y = np.exp(0.5 * X[:, 0] + 0.3 * rng.standard_t(2.5, size=60))
    inner = BayesianLinearRegression("laplace", noise=StudentTNoise(df=2.5), random_state=0)
    log = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
    rows, of_rows = X[:6], y[:6]
    assert not np.isfinite(predictive(log, rows).crps(of_rows)).any()
    scaled = TransformedTargetRegressor(inner, transformer=StandardScaler()).fit(X, y)
    expected = predictive(scaled.regressor_, rows).crps((of_rows - y.mean()) / y.std())
    assert_allclose(predictive(scaled, rows).crps(of_rows), y.std() * expected, rtol=0.01)


def test_the_crps_of_rounded_outcomes_is_that_of_draws(rng):
    """Steps of the inverse lie within cells, and no row is lost."""
    X = rng.normal(size=(100, 1))
    y = np.round(3.0 * X[:, 0] + 1.0 + rng.normal(size=100))
    inner = BayesianLinearRegression("laplace", random_state=0)
    rounded = {"func": np.positive, "inverse_func": np.round, "check_inverse": False}
    found = predictive(TransformedTargetRegressor(inner, **rounded).fit(X, y), X)
    draws, others = (found.sample_predictive(4000, random_state=seed) for seed in (0, 1))
    expected = np.abs(draws - y[:, None]).mean(axis=1) - 0.5 * np.abs(draws - others).mean(axis=1)
    assert_allclose(found.crps(y), expected, atol=0.1)
