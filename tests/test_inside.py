"""Names of coordinates through pipelines: against the columns that the transformers make."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    LatentDirichletAllocation,
    posterior_of,
    predictive,
    to_arviz,
)
from skstein.inference import LaplaceDraws
from skstein.plotting import HistoryDisplay, PosteriorIntervalDisplay

# The fits here only have to give particles.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ENGINE = LaplaceDraws(n_particles=40)
NAMES = ["kind__color_blue", "kind__color_red", "size__width", "size__height"]


@pytest.fixture
def frame(rng):
    width, height = rng.normal(size=(2, 90))
    color = rng.choice(["red", "blue"], size=90)
    return pd.DataFrame({"height": height, "color": color, "width": width})


@pytest.fixture
def columns():
    parts = [("kind", OneHotEncoder(), ["color"]), ("size", StandardScaler(), ["width", "height"])]
    return ColumnTransformer(parts)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_coefficients_have_the_names_of_a_column_transformer(frame, columns, n_classes):
    y = np.array(["a", "b[0]", "c"])[np.arange(90) % n_classes]
    pipeline = Pipeline(
        [("pre", columns), ("clf", BayesianLogisticRegression(ENGINE, random_state=0))]
    )
    pipeline.fit(frame, y)
    posterior = posterior_of(pipeline)
    expected = ["intercept", *NAMES]
    if n_classes > 2:
        expected = [f"{name}[{label}]" for label in pipeline.classes_ for name in expected]
    assert list(posterior.names) == expected == posterior.summary().index.tolist()
    assert_array_equal(posterior.particles, pipeline[-1].posterior_.particles)
    assert pipeline[-1].posterior_.names[1].startswith("x0")  # which is left as it was


def test_names_are_found_through_whatever_holds_a_pipeline(frame, columns, rng):
    y = rng.normal(size=90)
    inner = make_pipeline(columns, "passthrough", BayesianLinearRegression(ENGINE, random_state=0))
    outer = TransformedTargetRegressor(GridSearchCV(inner, {}, cv=2), transformer=StandardScaler())
    posterior = posterior_of(outer.fit(frame, y))
    assert posterior.names == ("intercept", *NAMES, "log_sigma2")
    pipeline = outer.regressor_.best_estimator_
    data = to_arviz(pipeline, frame, y)
    for name in NAMES:
        assert_array_equal(data["posterior"][name].values[0], posterior[name])
    display = PosteriorIntervalDisplay.from_estimator(pipeline, names=NAMES[2:])
    assert list(display.names) == NAMES[2:]
    assert HistoryDisplay.from_estimator(pipeline, quantities=[], names=NAMES[:1]).traces


def test_pipelines_pass_names_inwards(frame, columns, rng):
    reg = BayesianLinearRegression(ENGINE, random_state=0)
    nested = make_pipeline(columns, make_pipeline(StandardScaler(), reg))
    assert posterior_of(nested.fit(frame, rng.normal(size=90))).names[1:-1] == tuple(NAMES)


class Nameless(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X)[:, ::-1]


def test_columns_without_names_keep_their_numbers(frame, columns, rng):
    """No name is better than that of another column."""
    y = rng.normal(size=90)
    reg = BayesianLinearRegression(ENGINE, random_state=0)
    for transformer in (Nameless(), FunctionTransformer(np.negative)):
        pipeline = make_pipeline(columns, transformer, reg).fit(frame, y)
        assert posterior_of(pipeline).names[1:-1] == ("x0", "x1", "x2", "x3")
    numbers = frame[["width", "height"]].to_numpy()
    assert posterior_of(reg.fit(numbers, y)).names == reg.posterior_.names


def test_arviz_data_need_no_names(rng):
    """Behind a wrapper that `predictive` alone was taught."""

    class Wrapper(MetaEstimatorMixin, BaseEstimator):
        def __init__(self, inner):
            self.inner = inner

    predictive.register(Wrapper)(lambda wrapper, X: predictive(wrapper.inner, X))
    X = rng.normal(size=(40, 2))
    reg = BayesianLinearRegression(ENGINE, random_state=0).fit(X, X[:, 0])
    data = to_arviz(Wrapper(reg), X)
    assert_array_equal(data["posterior"]["x1"].values[0], reg.posterior_["x1"])


def test_names_of_a_frame_stay_though_they_look_like_numbers(rng):
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["x1", "x0"])
    reg = make_pipeline(
        StandardScaler().set_output(transform="pandas"), BayesianLinearRegression(ENGINE)
    )
    assert posterior_of(reg.fit(X, X["x0"])).names[1:-1] == ("x1", "x0")


def test_what_has_no_named_coordinates_is_refused():
    with pytest.raises(TypeError, match=r"needed, alone or .* found LogisticRegression"):
        posterior_of(LogisticRegression())
    with pytest.raises(NotFittedError):
        posterior_of(make_pipeline(StandardScaler(), BayesianLinearRegression()))
    topics = LatentDirichletAllocation(2, random_state=0).fit(np.eye(4, dtype=int) + 1)
    with pytest.raises(TypeError, match="posterior of LatentDirichletAllocation is a TopicPost"):
        posterior_of(topics)


def test_what_a_wrapper_was_given_is_not_what_it_fitted(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    before = BayesianLogisticRegression("laplace", random_state=0).fit(X, y)
    search, bagging = GridSearchCV(before, {"prior__scale": [1.0]}), BaggingClassifier(before, 2)
    for wrapper in (search, bagging, bagging.fit(-X, y)):
        with pytest.raises(TypeError, match="a fitted estimator of skstein is needed"):
            posterior_of(wrapper)
    frozen = FixedThresholdClassifier(FrozenEstimator(before))
    assert posterior_of(frozen) is before.posterior_
