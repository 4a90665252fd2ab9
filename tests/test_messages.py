"""What a user reads: warnings, errors, progress and reprs, in words that lead on."""

import inspect
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianProbitRegression,
    SparseGPRegressor,
    StochasticVolatility,
    infer,
    predictive,
)
from skstein.inference import PMD, KSDThinnedMCMC, LaplaceDraws
from skstein.priors import Normal
from skstein.shards import Chunks
from skstein.targets import LogisticTarget

ESTIMATORS = [
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    SparseGPRegressor,
    StochasticVolatility,
]
# Never long enough, and all draws are kept: always the same problems, with other numbers.
TOO_SHORT = KSDThinnedMCMC(
    160, n_draws=20, max_draws=20, max_mcse=1e6, max_rhat=1 + 1e-9, min_ess=1e9
)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def rows():
    X, y = load_iris(return_X_y=True)
    return X[50:], y[50:]


def messages(caught):
    return [str(warning.message) for warning in caught]


def test_a_warning_names_the_estimator_and_its_line(rows):
    model = BayesianLogisticRegression(TOO_SHORT, prior=Normal(2.0), random_state=3, n_jobs=1)
    with pytest.warns(ConvergenceWarning) as caught:
        first = inspect.currentframe().f_lineno + 1
        model.fit(*rows)
    described = " ".join(repr(clone(model).set_params(random_state=None, n_jobs=None)).split())
    assert "prior=Normal(scale=2.0)" in described and "random_state" not in described
    for warning in caught:
        assert str(warning.message).startswith(f"{described} by KSDThinnedMCMC: ")
        assert (warning.filename, warning.lineno) == (__file__, first)


def test_infer_warns_at_its_caller_and_names_the_engine(rows):
    X, y = rows
    target = LogisticTarget(X - X.mean(axis=0), y == 2)
    with pytest.warns(ConvergenceWarning) as caught:
        infer(target, TOO_SHORT, random_state=0)
    assert all(text.startswith("KSDThinnedMCMC: ") for text in messages(caught))
    assert {warning.filename for warning in caught} == {__file__}


@quiet
@pytest.mark.parametrize("share", [1e-3, 1.0 / 60])
@pytest.mark.parametrize(
    "model",
    [
        BayesianLinearRegression("laplace"),
        BayesianLogisticRegression("laplace", standardize=False),
        BayesianMLPRegressor((4,), n_networks=2, max_iter=5),
        BayesianMLPClassifier((4,), n_networks=2, max_iter=5, batch_size=None),
    ],
    ids=repr,
)
def test_weights_of_less_than_one_row_are_questioned(model, share, rng):
    X = rng.normal(size=(60, 2))
    y, weights = (X[:, 0] > 0.0).astype(int), np.full(60, share)
    model = clone(model).set_params(random_state=0)
    with pytest.warns(UserWarning, match="weights of all rows sum to 1 or less") as caught:
        model.fit(X, y, weights)
    assert sum("sum to 1" in text for text in messages(caught)) == 1
    if not hasattr(model, "n_networks"):
        with pytest.warns(UserWarning, match="weights of all rows sum to 1 or less"):
            model.fit(*(Chunks(np.split(values, 3)) for values in (X, y, weights)))
    model.score(X, y, weights)
    model.fit(X, y, np.full(60, 0.1))


@quiet
def test_little_weight_of_one_row_or_of_more_rows_of_a_stream_is_not_questioned(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    linear = BayesianLinearRegression("laplace", random_state=0).fit(X[:1], y[:1], [0.5])
    stream = clone(linear).set_params(inference=PMD(n_particles=200)).partial_fit(X, y)
    stream.partial_fit(X[:3], y[:3], np.full(3, 0.1))
    networks = BayesianMLPRegressor((4,), n_networks=2, random_state=0).partial_fit(X, y)
    networks.partial_fit(X[:3], y[:3], np.full(3, 0.1)).partial_fit(X[:1], y[:1], [0.5])


def test_folds_of_a_search_warn_in_the_same_words_and_candidates_in_others(rows):
    model = make_pipeline(StandardScaler(), BayesianLogisticRegression(TOO_SHORT, random_state=0))
    grid = {"bayesianlogisticregression__prior": [Normal(0.5), Normal(5.0)]}
    with pytest.warns(ConvergenceWarning) as caught:
        GridSearchCV(model, grid, cv=3, refit=False).fit(*rows)
    found = [text for text in messages(caught) if "effective sample size" in text]
    assert len(found) == 6 and len(set(found)) == 2
    assert {re.search(r"scale=([\d.]+)", text)[1] for text in found} == {"0.5", "5.0"}
    assert {warning.filename for warning in caught} == {__file__}


def test_words_repeat_where_numbers_differ(rows):
    X, y = rows
    texts, sizes = set(), set()
    for part in (slice(0, None, 2), slice(1, None, 2)):
        with pytest.warns(ConvergenceWarning, match="smallest effective sample size") as caught:
            model = BayesianLogisticRegression(TOO_SHORT, random_state=0).fit(X[part], y[part])
        texts |= {text for text in messages(caught) if "effective sample size" in text}
        sizes.add(model.posterior_.diagnostics["ess"].min())
    assert len(texts) == 1 and len(sizes) == 2


def test_a_warning_after_a_fit_is_not_that_of_the_fit(rows):
    X, y = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        BayesianLogisticRegression(TOO_SHORT, random_state=0).fit(X, y)
        with pytest.raises(ValueError, match="Input X contains NaN"):
            BayesianLogisticRegression(TOO_SHORT).fit(X * np.nan, y)
    with pytest.warns(ConvergenceWarning) as caught:
        infer(LogisticTarget(X, y == 2), TOO_SHORT, random_state=0)
    assert not any("BayesianLogisticRegression" in text for text in messages(caught))


def test_a_wrong_posterior_of_rows_leaves_predictions_open():
    """A category that was seen with one class only, by an engine without the map for it."""
    target = LogisticTarget(np.ones((20, 1)), np.zeros(20), fit_intercept=False, prior=Normal(10.0))
    engine = LaplaceDraws(one_sided=False, min_relative_ess=0.0, max_shift=10.0)
    with pytest.warns(ConvergenceWarning, match="Predictions may still be good: compare a score"):
        posterior = infer(target, engine, random_state=0)
    assert posterior.diagnostics["one_sided"].tolist() == ["x0"]


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_wrong_parameter_is_refused_by_the_public_name(Estimator):
    with pytest.raises(TypeError, match=rf"^{Estimator.__name__}\(\) .*'zeta'"):
        Estimator(zeta=1)
    with pytest.raises(TypeError, match=rf"^{Estimator.__name__}\(\) too many positional"):
        Estimator(*range(9))


@pytest.mark.parametrize("Estimator", [BayesianLogisticRegression, BayesianProbitRegression])
def test_the_penalty_of_a_point_estimate_leads_to_the_prior(Estimator):
    with pytest.raises(TypeError, match=r"'C'; use prior=Normal\(scale=sqrt\(C\)\)"):
        Estimator(C=1.0)


def test_a_constructor_keeps_its_signature():
    parameters = inspect.signature(BayesianLogisticRegression).parameters
    assert next(iter(parameters)) == "inference" and "class_weight" in parameters


@pytest.mark.parametrize("Estimator", [BayesianLinearRegression, BayesianLogisticRegression])
def test_partial_fit_says_what_it_needs(Estimator):
    model = Estimator()
    assert not hasattr(model, "partial_fit") and hasattr(Estimator("pmd"), "partial_fit")
    with pytest.raises(AttributeError, match=rf'{Estimator.__name__} needs .* inference="pmd"'):
        model.partial_fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("Estimator", ESTIMATORS[:-1])
@pytest.mark.parametrize("dtype", [object, "category", "string"])
def test_text_in_X_is_to_be_encoded(Estimator, dtype):
    X = pd.DataFrame({"day": np.array(["mon", "tue"] * 5), "x": np.arange(10.0)})
    X["day"] = X["day"].astype(dtype)
    with pytest.raises(ValueError, match=r"^X has text in it \('mon'\): .* OneHotEncoder\.$"):
        Estimator().fit(X, np.arange(10) % 2)


@pytest.mark.parametrize(
    "Estimator", [BayesianLinearRegression, BayesianMLPRegressor, SparseGPRegressor]
)
@pytest.mark.parametrize("dtype", [object, str])
def test_text_in_y_is_told_from_text_in_X(Estimator, dtype):
    with pytest.raises(ValueError, match=r"^y has text in it \('low'\)\.$"):
        Estimator().fit(np.arange(10.0)[:, None], np.array(["low", "high"] * 5, dtype=dtype))


def test_predictive_without_rows_names_the_function():
    with pytest.raises(TypeError, match=r"^predictive\(\) missing 1 required .*'X'"):
        predictive(BayesianLogisticRegression())


@quiet
def test_a_predictive_shows_what_it_is_of():
    X, y = load_iris(return_X_y=True)
    clf = BayesianLogisticRegression("laplace", random_state=0).fit(X, y)
    assert repr(predictive(clf, X)) == "<Predictive of 3 classes for 150 rows>"
    assert repr(predictive(clf, X[:2].tolist())) == "<Predictive of 3 classes for 2 rows>"
    reg = BayesianLinearRegression("laplace", random_state=0)
    frame = pd.DataFrame(X[:, :3])
    found = predictive(reg.fit(frame, X[:, 3]), frame)
    assert repr(found) == "<Predictive of an outcome, in units of y, for 150 rows>"
    logged = TransformedTargetRegressor(reg, func=np.log, inverse_func=np.exp)
    found = predictive(logged.fit(frame, X[:, 3]), frame[:7])
    expected = "<Predictive of an outcome, transformed back to units of y, for 7 rows>"
    assert repr(found) == expected
    gp = SparseGPRegressor(n_inducing=3, n_particles=2, optimizer=None, random_state=0)
    found = predictive(gp.fit(X[:, :2], X[:, 2:]), X[:4, :2])
    assert repr(found) == "<Predictive of 2 outcomes, in units of y, for 4 rows>"


@quiet
def test_progress_of_networks_tells_stage_and_time(rows, capsys):
    X, y = rows
    fit = partial(BayesianMLPClassifier, (3,), n_networks=2, max_iter=10, random_state=0, verbose=1)
    fit(inference="svgd").fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    pattern = (
        r"\[BayesianMLPClassifier\] (training|SVGD), iteration (\d+) of (\d+),"
        r"(?: loss -?\d+\.\d+,)? (\d+\.\d) s(?:, about \d+ s left)?"
    )
    stages, iterations, totals, times = zip(
        *(re.fullmatch(pattern, line).groups() for line in lines), strict=True
    )
    assert list(dict.fromkeys(stages)) == ["training", "SVGD"] and len(set(totals)) == 1
    assert sorted(map(int, iterations)) == list(map(int, iterations))
    assert sorted(map(float, times)) == list(map(float, times))
