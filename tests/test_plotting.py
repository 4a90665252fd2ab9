"""Displays: their arrays against the estimators' own methods, scikit-learn and closed forms."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    LatentDirichletAllocation,
    ParticlePosterior,
    SparseGPRegressor,
    predictive,
)
from skstein.inference import FWSS, PMFVB, SteinPoints
from skstein.kernels import IMQ, RBF, Linear
from skstein.metrics import ksd
from skstein.plotting import (
    HistoryDisplay,
    KSDPathDisplay,
    PosteriorIntervalDisplay,
    PredictiveIntervalDisplay,
    UncertaintyDisplay,
)
from skstein.posterior import weighted_quantile
from skstein.targets.bijections import HyperbolicMap
from skstein.thinning import OnlineKSDThinner

pytest.importorskip("matplotlib").use("agg")

# Whether a fit of this size converges is not the question here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return X[["age", "bmi", "bp"]], y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X.iloc[::3], y.iloc[::3]


@pytest.fixture(scope="module")
def reg(diabetes):
    return BayesianLinearRegression("svgd", random_state=0).fit(*diabetes)


@pytest.fixture(scope="module")
def clf(iris):
    return BayesianLogisticRegression("svgd", random_state=0).fit(*iris)


def texts(labels):
    return [label.get_text() for label in labels]


# Posterior intervals.


def test_intervals_are_quantiles_of_the_coordinates(rng):
    posterior = ParticlePosterior(rng.normal(size=(30, 3)), rng.random(30), names=["a", "b", "c"])
    display = PosteriorIntervalDisplay.from_posterior(posterior, names=["c", "a"], level=0.8)
    low, inner_low, median, inner_high, high = posterior.quantile([0.1, 0.25, 0.5, 0.75, 0.9])[
        :, [2, 0]
    ]
    assert_allclose(display.estimates[0], median)
    assert_allclose(display.intervals[0], np.column_stack([low, high]))
    assert_allclose(display.inner_intervals[0], np.column_stack([inner_low, inner_high]))
    assert texts(display.ax_.get_yticklabels()) == ["c", "a"]
    assert display.ax_.yaxis_inverted()


def test_standardized_coefficients_are_those_of_standardized_features(diabetes, reg):
    X, y = diabetes
    scaled = BayesianLinearRegression("svgd", random_state=0).fit(
        StandardScaler().fit_transform(X), y
    )
    shown = PosteriorIntervalDisplay.from_estimator(reg)
    expected = PosteriorIntervalDisplay.from_estimator(scaled)
    assert_allclose(shown.estimates, expected.estimates, rtol=1e-6)
    assert_allclose(shown.intervals, expected.intervals, rtol=1e-6)
    assert shown.names == ["age", "bmi", "bp"] and expected.names == ["x0", "x1", "x2"]
    assert "y per standard deviation" in shown.ax_.get_xlabel()
    plain = PosteriorIntervalDisplay.from_estimator(reg, standardized=False)
    assert_allclose(plain.estimates * X.std(ddof=0).to_numpy(), shown.estimates, rtol=1e-9)
    assert "y per unit" in plain.ax_.get_xlabel()


def test_coefficients_without_scales_are_shown_as_they_are(diabetes):
    X, y = diabetes
    raw = BayesianLinearRegression("laplace", standardize=False, random_state=0).fit(X - 40, y)
    display = PosteriorIntervalDisplay.from_estimator(raw)
    assert_allclose(display.estimates[0], raw.posterior_.quantile(0.5)[1:4], rtol=1e-9)
    assert "y per unit" in display.ax_.get_xlabel()


def test_classes_share_the_rows(iris, clf):
    display = PosteriorIntervalDisplay.from_estimator(
        clf, names=list(iris[0])[1:], standardized=False
    )
    assert display.estimates.shape == (3, 3)
    median = clf.posterior_.quantile(0.5).reshape(3, 5)[:, 2:]
    assert_allclose(display.estimates, median)
    assert texts(display.ax_.get_legend().get_texts()) == ["0", "1", "2"]


def test_top_shows_the_clearest_first(reg):
    display = PosteriorIntervalDisplay.from_estimator(reg, top=2)
    order = np.argsort(-np.abs(reg.coef_ / reg.coef_std_))[:2]
    assert display.names == list(reg.feature_names_in_[order])


def test_other_models_show_their_coordinates(diabetes):
    X, y = diabetes
    gp = SparseGPRegressor(n_inducing=3, n_particles=4, optimizer=None, random_state=0)
    display = PosteriorIntervalDisplay.from_estimator(gp.fit(X[["bmi"]], y))
    assert display.names == list(gp.posterior_.names)


def test_what_posterior_intervals_refuse(reg, diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match="names has 'weight', but there are age, bmi, bp"):
        PosteriorIntervalDisplay.from_estimator(reg, names=["weight"])
    with pytest.raises(ValueError, match="level must be"):
        PosteriorIntervalDisplay.from_estimator(reg, level=1.5)
    with pytest.raises(ValueError, match="top must be a positive integer, got -1"):
        PosteriorIntervalDisplay.from_estimator(reg, top=-1)
    raw = BayesianLinearRegression("laplace", standardize=False, random_state=0).fit(X - 40, y)
    with pytest.raises(ValueError, match="standardise X before the fit"):
        PosteriorIntervalDisplay.from_estimator(raw, standardized=True)
    with pytest.raises(TypeError, match="found LinearRegression"):
        PosteriorIntervalDisplay.from_estimator(LinearRegression().fit(X, y))
    with pytest.raises(NotFittedError):
        PosteriorIntervalDisplay.from_estimator(BayesianLinearRegression())
    topics = LatentDirichletAllocation(2, random_state=0).fit(np.eye(4, dtype=int) + 1)
    with pytest.raises(TypeError, match="LatentDirichletAllocation is a TopicPosterior"):
        PosteriorIntervalDisplay.from_estimator(topics)


# History.


def test_history_has_a_panel_a_quantity_and_the_limits(diabetes):
    reg = BayesianLinearRegression(PMFVB(max_rhat=1.3), random_state=0).fit(*diabetes)
    display = HistoryDisplay.from_estimator(reg, names=np.array(["bmi"]))
    history = reg.posterior_.history
    assert len(display.axes_) == len(history) + 1
    assert display.limits == {"rhat": 1.3, "residual": 0.2}
    for panel, values in zip(display.axes_, history.values(), strict=False):
        x, drawn = panel.lines[0].get_data()
        finite = np.isfinite(values)
        assert_array_equal(drawn[finite], values[finite])
        assert x[-1] == reg.n_iter_
    assert_array_equal(display.axes_[-1].lines[0].get_ydata(), reg.posterior_.particles[:, 2])
    assert display.ax_ is display.axes_[0]


def test_history_on_given_axes(reg):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2)
    display = HistoryDisplay.from_estimator(reg, ax=left)
    assert display.figure_ is figure and len(display.axes_) == len(reg.posterior_.history)
    for panel in display.axes_:
        assert panel.get_position().x1 <= right.get_position().x0
    _, two = plt.subplots(2)
    assert_array_equal(HistoryDisplay.from_estimator(reg, ax=two).axes_, two)
    _, three = plt.subplots(3)
    with pytest.raises(ValueError, match="ax must be one, or 2"):
        HistoryDisplay.from_estimator(reg, ax=three)


def test_what_history_refuses(diabetes, reg):
    with pytest.raises(ValueError, match="quantities has 'rhat', but the history holds drift"):
        HistoryDisplay.from_estimator(reg, quantities=["rhat"])
    drawn = BayesianLinearRegression("laplace", random_state=0).fit(*diabetes)
    with pytest.raises(ValueError, match="keeps no history"):
        HistoryDisplay.from_estimator(drawn)
    assert len(HistoryDisplay.from_posterior(drawn.posterior_, names=["bmi"]).axes_) == 1


# Prediction along one feature.


def test_typical_rows_are_predicted_as_the_estimator_does(diabetes, reg):
    X = diabetes[0]
    values = [20.0, 60.0]
    display = PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", values=values, level=0.8)
    rows = X.mean().to_frame().T.loc[[0, 0]].assign(bmi=values)
    assert_allclose(display.mean[:, 0], reg.predict(rows))
    assert_allclose(display.interval, reg.predict_interval(rows, 0.8))
    means = reg.posterior_.particles[:, 1:4] @ rows.to_numpy().T
    means += reg.posterior_.particles[:, :1]
    low, high = weighted_quantile(means, reg.posterior_.weights, [0.1, 0.9])
    assert_allclose(display.mean_interval[:, 0], np.column_stack([low, high]))


def test_probabilities_have_the_estimators_interval(iris, clf):
    X, _ = iris
    values = np.array([1.0, 2.0, 9.0])
    rows = np.tile(X.mean(), (3, 1))
    rows[:, 2] = values
    clf = BayesianLogisticRegression("svgd", random_state=0).fit(X.to_numpy(), iris[1])
    display = PredictiveIntervalDisplay.from_estimator(clf, X.to_numpy(), 2, values=values)
    assert_allclose(display.mean, clf.predict_proba(rows))
    assert_allclose(display.mean_interval, clf.predict_interval(rows))
    assert display.interval is None and display.labels == ["0", "1", "2"]
    one = PredictiveIntervalDisplay.from_estimator(clf, X.to_numpy(), 2, values=values, target=1)
    assert_allclose(one.mean, display.mean[:, 1:2])
    assert one.ax_.get_ylabel() == "probability of 1"


def test_an_average_is_sklearns_partial_dependence(diabetes, reg, iris, clf):
    X, y = diabetes
    pipeline = make_pipeline(StandardScaler(), clone(reg)).fit(X, y)
    values = np.array([18.0, 25.0, 40.0])
    options = {"custom_values": {"bmi": values}, "kind": "average", "method": "brute"}
    expected = partial_dependence(pipeline, X, ["bmi"], **options)["average"][0]
    display = PredictiveIntervalDisplay.from_estimator(
        pipeline, X, "bmi", kind="average", values=values
    )
    assert_allclose(display.mean[:, 0], expected)
    assert display.interval is None
    name = "petal width (cm)"
    options["custom_values"] = {name: values / 10}
    expected = partial_dependence(clf, iris[0], [name], **options)["average"]
    display = PredictiveIntervalDisplay.from_estimator(
        clf, iris[0], name, kind="average", values=values / 10
    )
    assert_allclose(display.mean, expected.T)
    # The interval is that of the average over rows, a particle at a time.
    by_particle = []
    theta = clf.posterior_.particles.reshape(-1, 3, 5)
    rows = iris[0].assign(**{name: 4.0}).to_numpy()
    for intercept, coef in zip(theta[:, :, 0], theta[:, :, 1:], strict=True):
        eta = np.exp(rows @ coef.T + intercept)
        by_particle.append((eta / eta.sum(axis=1, keepdims=True)).mean(axis=0))
    low, high = weighted_quantile(by_particle, clf.posterior_.weights, [0.05, 0.95])
    assert_allclose(display.mean_interval[-1], np.column_stack([low, high]), rtol=1e-6)


def test_transformed_outcomes_are_in_their_own_units(diabetes):
    X, y = diabetes
    inner = BayesianLinearRegression("svgd", random_state=0)
    reg = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
    display = PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", values=[25.0], y=y)
    rows = X.mean().to_frame().T.assign(bmi=25.0)
    prediction = predictive(reg, rows)
    assert_allclose(display.mean[0], prediction.mean())
    assert_allclose(display.interval, prediction.interval(0.9))
    # The mean of a log-normal outcome under each particle is known.
    theta = reg.regressor_.posterior_.particles
    eta = theta[:, 1:4] @ rows.to_numpy()[0] + theta[:, 0]
    expected = np.exp(eta + 0.5 * np.exp(theta[:, -1]))
    low, high = weighted_quantile(expected, reg.regressor_.posterior_.weights, [0.05, 0.95])
    assert_allclose(display.mean_interval[0, 0], [low, high], rtol=1e-6)


def test_a_transformed_outcome_with_heavy_tails_has_a_median(diabetes):
    X, y = diabetes
    inner = BayesianLinearRegression("laplace", noise="student-t", random_state=0)
    reg = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
    display = PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", values=[20.0, 30.0])
    rows = X.mean().to_frame().T.loc[[0, 0]].assign(bmi=[20.0, 30.0])
    medians = predictive(reg, rows).quantiles([0.5])
    assert_allclose(display.mean, medians)
    assert np.all(np.abs(np.log(display.mean_interval[..., 0] / medians)) < 0.2)
    assert "median" in [line.get_label() for line in display.ax_.lines]
    with pytest.raises(TypeError, match="need not have a mean"):
        PredictiveIntervalDisplay.from_estimator(reg, X[:20], "bmi", kind="average")


def test_a_process_is_known_where_the_data_are(diabetes):
    """With a single particle the band of a Gaussian process is normal, and wide far away."""
    X, y = diabetes
    X, y = X[["bmi"]].iloc[:40], y.iloc[:40]
    gp = SparseGPRegressor(n_inducing=60, optimizer=None, random_state=0).fit(X / 10, y)
    display = PredictiveIntervalDisplay.from_estimator(gp, X / 10, "bmi", values=[2.5, 9.0])
    rows = X.iloc[:2].assign(bmi=[2.5, 9.0])
    spread = np.sqrt(gp.predict_uncertainty(rows).epistemic)
    width = np.ptp(display.mean_interval[:, 0], axis=1)
    assert_allclose(width, 2 * 1.645 * spread, rtol=0.1)  # a quadrature of 20 nodes
    assert width[1] > width[0]


def test_an_average_of_a_process_is_one_of_functions(rng):
    """Errors of its rows have little in common and mostly cancel."""
    X = rng.normal(size=(100, 2))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=100)
    gp = SparseGPRegressor(n_inducing=20, n_particles=5, random_state=0).fit(X, y)
    display = PredictiveIntervalDisplay.from_estimator(gp, X, 0, kind="average", values=[0.5])
    drawn = gp.sample_mean(np.column_stack([np.full(100, 0.5), X[:, 1]]), 4000, 1)
    low, high = np.quantile(drawn.mean(axis=0), [0.05, 0.95])
    assert_allclose(np.ptp(display.mean_interval), high - low, rtol=0.15)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_with_text_are_made_again(library, diabetes):
    frames = pytest.importorskip(library)
    X, y = diabetes
    X = frames.DataFrame({"bmi": X["bmi"].tolist(), "sex": ["a", "b"] * 221})
    columns = ColumnTransformer([("text", OneHotEncoder(), ["sex"])], remainder="passthrough")
    reg = make_pipeline(columns, BayesianLinearRegression("svgd", random_state=0)).fit(X, y)
    display = PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", values=[25.0])
    row = frames.DataFrame({"bmi": [25.0], "sex": ["a"]})
    assert_allclose(display.mean[0], reg.predict(row))
    with pytest.raises(ValueError, match="'sex' is not numeric"):
        PredictiveIntervalDisplay.from_estimator(reg, X, "sex")


def test_categories_are_labels_also_where_these_are_numbers(rng):
    store = pd.Categorical(rng.choice([1, 2, 9], 200, p=[0.2, 0.2, 0.6]))
    X = pd.DataFrame({"a": rng.normal(size=200), "store": store})
    y = X["a"] + X["store"].astype(float)
    columns = ColumnTransformer([("store", OneHotEncoder(), ["store"])], remainder="passthrough")
    reg = make_pipeline(columns, BayesianLinearRegression("laplace", random_state=0)).fit(X, y)
    display = PredictiveIntervalDisplay.from_estimator(reg, X, "a", values=[0.0])
    assert_allclose(display.mean[0], 9.0, atol=0.1)
    with pytest.raises(ValueError, match="'store' is not numeric"):
        PredictiveIntervalDisplay.from_estimator(reg, X, "store")


@pytest.mark.parametrize("missing", [None, np.nan])
def test_text_may_be_missing(missing, diabetes):
    X, y = diabetes
    X = pd.DataFrame({"bmi": X["bmi"], "sex": [*["a", "b", "b"] * 147, None]})
    X["sex"] = X["sex"].astype(object).where(X["sex"].notna(), missing)
    columns = ColumnTransformer([("text", OneHotEncoder(), ["sex"])], remainder="passthrough")
    reg = make_pipeline(columns, BayesianLinearRegression("laplace", random_state=0)).fit(X, y)
    display = PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", values=[25.0])
    assert_allclose(display.mean[0], reg.predict(pd.DataFrame({"bmi": [25.0], "sex": ["b"]})))


@pytest.mark.parametrize("kind", ["typical", "average"])
def test_sparse_rows_are_dense_ones(kind, diabetes):
    X, y = diabetes
    X = sparse.csr_array(np.maximum(X.to_numpy() - 40.0, 0.0))
    reg = BayesianLinearRegression("svgd", random_state=0).fit(X, y)
    one, other = (
        PredictiveIntervalDisplay.from_estimator(reg, rows, 2, kind=kind, values=3)
        for rows in (X, X.toarray())
    )
    assert_allclose(one.mean, other.mean)
    assert_allclose(one.values, other.values)


def test_what_a_prediction_along_a_feature_refuses(diabetes, reg, clf, iris):
    X = diabetes[0]
    with pytest.raises(ValueError, match="feature must be one of"):
        PredictiveIntervalDisplay.from_estimator(reg, X, "weight")
    with pytest.raises(ValueError, match="feature must be one of"):
        PredictiveIntervalDisplay.from_estimator(reg, X, diabetes[1])
    with pytest.raises(ValueError, match="kind must be"):
        PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", kind="median")
    with pytest.raises(ValueError, match="values must be a positive integer, got 0"):
        PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", values=0)
    with pytest.raises(ValueError, match="values is empty"):
        PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", values=[])
    with pytest.raises(ValueError, match="were not seen in fit"):
        PredictiveIntervalDisplay.from_estimator(clf, iris[0], 0, y=iris[1] + 1, target=1)
    with pytest.raises(ValueError, match=r"target must be one of the classes .*, got 7"):
        PredictiveIntervalDisplay.from_estimator(clf, iris[0], 0, target=7)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PredictiveIntervalDisplay.from_estimator(reg, X, "bmi", y=diabetes[1][:9])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        UncertaintyDisplay.from_estimator(clf, iris[0], iris[1][:9])
    several = SparseGPRegressor(n_inducing=5, n_particles=2, optimizer=None, random_state=0)
    several.fit(X, np.column_stack([diabetes[1], -diabetes[1]]))
    with pytest.raises(TypeError, match="one outcome is drawn at a time"):
        PredictiveIntervalDisplay.from_estimator(several, X, "bmi")
    with pytest.raises(TypeError, match="one outcome is drawn at a time"):
        UncertaintyDisplay.from_estimator(several, X)


# Uncertainty.


def test_uncertainty_is_the_estimators(iris, clf):
    X, y = iris
    display = UncertaintyDisplay.from_estimator(clf, X, y)
    expected = clf.predict_uncertainty(X)
    assert_array_equal(display.aleatoric, expected.aleatoric)
    assert_array_equal(display.epistemic, expected.epistemic)
    assert_array_equal(display.wrong, clf.predict(X) != y)
    assert display.ax_.get_xlabel() == "aleatoric (nats)"
    stacked = display.plot(kind="stacked")
    assert stacked.ax_.get_ylabel() == "uncertainty (nats)"
    with pytest.raises(ValueError, match="kind must be"):
        display.plot(kind="pie")


def test_uncertainty_of_a_search_and_of_a_regressor(diabetes):
    X, y = diabetes
    model = BayesianLinearRegression("laplace", random_state=0)
    search = GridSearchCV(model, {"prior__scale": [1.0]}, cv=2).fit(X, y)
    display = UncertaintyDisplay.from_estimator(search, X)
    assert_allclose(display.epistemic, search.best_estimator_.predict_uncertainty(X).epistemic)
    assert display.unit == "squared units of y"
    with pytest.raises(ValueError, match="leave it out for a regressor"):
        UncertaintyDisplay.from_estimator(search, X, y)


# KSD.


def test_the_reference_is_the_ksd_of_independent_draws(rng):
    """Of a standard normal target, against the KSDs of a hundred samples of its draws."""
    draws = rng.normal(size=(4, 1000, 2))
    thinner = OnlineKSDThinner(40, preconditioner=np.eye(2)).fit(draws, -draws)
    display = KSDPathDisplay.from_thinner(thinner)
    assert_array_equal(display.steps, thinner.ksd_path_[:, 0])
    assert_array_equal(display.ksd, thinner.ksd_path_[:, 2])
    samples = rng.normal(size=(100, 40, 2))
    squares = [ksd(x, -x) ** 2 for x in samples]
    error = np.std(squares) / 10
    # The kept points, not the target, give the expectation: good to some ten per cent.
    assert abs(display.reference[-1] ** 2 - np.mean(squares)) < 4 * error + 0.15 * np.mean(squares)


def test_the_reference_is_taken_in_white_coordinates(rng):
    """Of draws seen through a bent map, as of the draws before it."""
    z = rng.normal(size=(60, 2))
    one, none = np.ones(1), np.zeros(1)
    bent = HyperbolicMap(np.array([0]), none, one, 0.8 * one, one, none)
    history = {"ksd": np.array([0.3, 0.2])}
    plain = ParticlePosterior(z, scores=-z, history=history, n_iter=2)
    pushed = ParticlePosterior(
        bent.forward(z), scores=bent.push_score(z, -z), history=history, n_iter=2, whitening=bent
    )
    expected = KSDPathDisplay.from_posterior(plain).reference
    assert_allclose(KSDPathDisplay.from_posterior(pushed).reference, expected)


@pytest.mark.parametrize(
    ("engine", "kernel"), [(FWSS(n_particles=30), RBF() + Linear()), (SteinPoints(30), IMQ())]
)
def test_a_path_grows_with_the_particles(engine, kernel, diabetes):
    reg = BayesianLinearRegression(engine, random_state=0).fit(*diabetes)
    display = KSDPathDisplay.from_estimator(reg)
    assert_array_equal(display.ksd, reg.posterior_.history["ksd"])
    sizes = reg.posterior_.history["n_particles"]
    assert_allclose(display.reference * np.sqrt(sizes), display.reference[0], rtol=1e-12)
    of_engine = KSDPathDisplay.from_posterior(reg.posterior_, kernel=kernel)
    assert_allclose(display.reference, of_engine.reference)


def test_what_a_path_refuses(reg, rng):
    with pytest.raises(ValueError, match="holds no KSD"):
        KSDPathDisplay.from_estimator(reg)
    draws = rng.normal(size=(1, 50, 2))
    with pytest.raises(ValueError, match="the path is empty"):
        KSDPathDisplay.from_thinner(OnlineKSDThinner(10).partial_fit(draws, -draws))


# All of them.


@pytest.mark.parametrize(
    "draw",
    [
        lambda reg, X, ax: PosteriorIntervalDisplay.from_estimator(reg, ax=ax),
        lambda reg, X, ax: HistoryDisplay.from_estimator(reg, quantities=["drift"], ax=ax),
        lambda reg, X, ax: PredictiveIntervalDisplay.from_estimator(reg, X, 1, values=3, ax=ax),
        lambda reg, X, ax: UncertaintyDisplay.from_estimator(reg, X, ax=ax),
    ],
)
def test_displays_draw_on_the_axes_they_are_given(draw, reg, diabetes):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    display = draw(reg, diabetes[0], ax)
    assert display.ax_ is ax and display.figure_ is ax.figure
    assert ax.has_data()
    again = display.plot()
    assert again is display and display.ax_ is not ax


def test_without_matplotlib_a_display_says_what_to_install(reg, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "skstein\[plot\]"'):
        PosteriorIntervalDisplay.from_estimator(reg)


def test_groups_are_no_quantity(rng):
    """Groups by number and by name have the same curves, of the group with most rows."""
    pd = pytest.importorskip("pandas")
    site = np.repeat([0, 1, 5, 9], [20, 40, 20, 20])
    frame = pd.DataFrame({"x": rng.normal(size=100), "site": site})
    y = frame["x"] + site + 0.1 * rng.normal(size=100)
    model = BayesianLinearRegression("laplace", random_effects=["site"], random_state=0)
    shown = []
    for table in (frame, frame.astype({"site": str})):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(table, y)
        shown.append(PredictiveIntervalDisplay.from_estimator(model, table, "x", values=5))
    assert_allclose(shown[0].mean, shown[1].mean)
    assert_allclose(shown[0].mean[2], frame["x"].min() / 2 + frame["x"].max() / 2 + 1.0, atol=0.3)


@pytest.mark.parametrize("names", [None, ["x", "school__id", "id"]])
def test_groups_behind_transformers_are_no_quantity(names, rng):
    X = np.column_stack([rng.normal(size=100), np.repeat([0.0, 10.0], 50), rng.normal(size=100)])
    y = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=100)
    rows = X if names is None else pd.DataFrame(X, columns=names)
    columns = ColumnTransformer([("a", StandardScaler(), [0, 2])], remainder="passthrough")
    of_groups, of_pipeline = (
        BayesianLinearRegression("laplace", random_effects=[j], random_state=0) for j in (1, 2)
    )
    shown = [
        PredictiveIntervalDisplay.from_estimator(model.fit(rows, y), rows, 0, values=3)
        for model in (of_groups, make_pipeline(columns, of_pipeline))
    ]
    assert_allclose(shown[0].interval, shown[1].interval, atol=0.01)


def test_a_feature_that_is_imputed_is_shown(rng):
    X = rng.normal(size=(100, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=100)
    X[::7, 0] = np.nan
    model = make_pipeline(SimpleImputer(), BayesianLinearRegression("laplace", random_state=0))
    display = PredictiveIntervalDisplay.from_estimator(model.fit(X, y), X, 0, values=3)
    assert display.values[0] == np.nanmin(X[:, 0])


def test_a_missing_number_is_no_part_of_a_mean(rng):
    X = rng.normal(size=(100, 2))
    y = X.sum(axis=1)
    X[0, 1] = np.nan
    imputer = SimpleImputer(strategy="constant", fill_value=50.0)
    reg = make_pipeline(imputer, BayesianLinearRegression("laplace", random_state=0)).fit(X, y)
    display = PredictiveIntervalDisplay.from_estimator(reg, X, 0, values=[0.0])
    assert_allclose(display.mean[0], reg.predict([[0.0, np.nanmean(X[:, 1])]]))


def test_levels_are_not_rounded(reg, diabetes):
    display = PosteriorIntervalDisplay.from_estimator(reg, level=0.995, inner_level=0.55)
    assert display.ax_.get_title(loc="left") == "Median, 55% and 99.5% interval"
    display = PredictiveIntervalDisplay.from_estimator(reg, diabetes[0], "bmi", level=0.995)
    assert texts(display.ax_.get_legend().get_texts())[:2] == [
        "99.5% of outcomes",
        "99.5% interval of the mean",
    ]


def test_classes_in_a_column_are_marked(clf, iris):
    X, y = iris
    display = UncertaintyDisplay.from_estimator(clf, X, np.asarray(y)[:, None])
    assert_array_equal(display.wrong, clf.predict(X) != y)
    with pytest.raises(ValueError, match="classes that were not seen in fit"):
        UncertaintyDisplay.from_estimator(clf, X, y.astype(str))
    with pytest.raises(ValueError, match=r"classes that were not seen in fit: \[None\]"):
        predictive(clf, X).log_predictive([None, *y[1:]])
