"""Degenerate and hostile input: a fit is refused in words, or gives a posterior that is finite.

Nothing in between: no exception from inside NumPy or SciPy, no RuntimeWarning (warnings are errors
here), no NaN in what is predicted. A ConvergenceWarning is an honest answer and is allowed.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    LogDensity,
    infer,
)
from skstein.inference import FWSS, PMD, PMFVB, SVGD, KSDThinnedMCMC, LaplaceDraws
from skstein.priors import AdaptiveRidge, HierarchicalNormal, Laplace, Normal, StudentT

ENGINES = {
    "svgd": SVGD(max_iter=10),
    "laplace": LaplaceDraws(n_particles=100),
    "pmfvb": PMFVB(n_particles=30, max_iter=20),
    "fwss": FWSS(n_particles=20),
    "ksd-mcmc": KSDThinnedMCMC(n_chains=2, n_draws=50, max_draws=50, n_warmup=20),
    "pmd": PMD(n_particles=100, n_sweeps=5),
}
PRIORS = [
    Normal(),
    Laplace(),
    StudentT(df=1.0),
    AdaptiveRidge(),
    HierarchicalNormal(),
]
CLASSIFIERS = [BayesianLogisticRegression, BayesianProbitRegression]
ESTIMATORS = [BayesianLinearRegression, *CLASSIFIERS]
PROFILE = dict(deadline=None, suppress_health_check=list(HealthCheck))
SCALES = [1e-8, 1.0, 1e8]


def finite(*arrays):
    return all(np.isfinite(array).all() for array in arrays)


def assert_sound(model, X):
    """Whatever a fitted model reports is finite, and probabilities are probabilities."""
    posterior = model.posterior_
    assert finite(posterior.particles, posterior.weights, posterior.mean(), posterior.std())
    assert finite(model.coef_, model.intercept_, model.coef_std_, model.intercept_std_)
    assert finite(model.predict_interval(X), *model.predict_uncertainty(X).values())
    assert posterior.weights.min() >= 0.0
    np.testing.assert_allclose(posterior.weights.sum(), 1.0)
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(X)
        assert proba.min() >= 0.0 and proba.max() <= 1.0
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert np.isin(model.predict(X), model.classes_).all()
    else:
        assert finite(*model.predict(X, return_std=True)) and model.noise_variance_ > 0.0


def refused_or_sound(model, X, y, sample_weight=None):
    """Fit and check; the message when the fit was refused in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(X, y, sample_weight)
        except (ValueError, TypeError, FloatingPointError) as error:
            assert not isinstance(error, np.linalg.LinAlgError), error
            frame = error.__traceback__
            while frame.tb_next:
                frame = frame.tb_next
            module = frame.tb_frame.f_globals["__name__"].partition(".")[0]
            assert module in {"skstein", "sklearn", "narwhals"}, error
            return str(error)
        assert_sound(model, X)
        return None


def data(rng, n=30, p=3, n_classes=2):
    X = rng.standard_normal((n, p))
    y = X[:, 0] + 0.5 * rng.standard_normal(n)
    return X, y, np.arange(n) % n_classes


def outcome_of(Estimator, y, codes):
    return y if Estimator is BayesianLinearRegression else codes


COLUMNS = {
    "as it is": lambda X, codes: X,
    "constant": lambda X, codes: np.column_stack([X, np.full(len(X), 7.0)]),
    "all constant": lambda X, codes: np.full_like(X, -3.0),
    "zero": lambda X, codes: np.zeros_like(X),
    "duplicate": lambda X, codes: X[:, [0] * X.shape[1]],
    "collinear": lambda X, codes: np.column_stack([X, X.sum(axis=1)]),
    "separable": lambda X, codes: np.column_stack([X, 2.0 * codes - 1.0]),
    "offset": lambda X, codes: X + 1e8,
    "offset beyond digits": lambda X, codes: X + 1e15,
    "outlier": lambda X, codes: np.vstack([np.full(X.shape[1], 1e40), X[1:]]),
    "bool": lambda X, codes: X > 0.0,
    "object": lambda X, codes: X.astype(object),
    "sparse": lambda X, codes: sparse.csr_array(np.where(X > 1.0, X, 0.0)),
}
WEIGHTS = {
    "none": lambda rng, n: None,
    "some zero": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "all zero": lambda rng, n: np.zeros(n),
    "one": lambda rng, n: np.eye(n)[0],
    "negative": lambda rng, n: -np.ones(n),
    "tiny": lambda rng, n: np.full(n, 1e-300),
    "uneven": lambda rng, n: 10.0 ** rng.uniform(-4, 4, n),
}


@st.composite
def fits(draw):
    """An estimator with data of a hostile kind for it: (model, X, y, sample_weight)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Estimator = draw(st.sampled_from(ESTIMATORS))
    n, p = draw(st.integers(1, 25)), draw(st.integers(1, 6))
    X, y, codes = data(rng, n, p, draw(st.integers(1, 3)))
    X = X * np.where(
        rng.random(p) < 0.5, draw(st.sampled_from(SCALES)), draw(st.sampled_from(SCALES))
    )
    if draw(st.booleans()):
        X = COLUMNS[draw(st.sampled_from(sorted(set(COLUMNS) - {"outlier"})))](X, codes)
    y = y * draw(st.sampled_from([0.0, 1e-12, 1.0, 1e12]))
    model = Estimator(
        ENGINES[draw(st.sampled_from(["svgd", "laplace", "ksd-mcmc"]))],
        prior=draw(st.sampled_from(PRIORS)),
        fit_intercept=draw(st.booleans()),
        random_state=0,
    )
    return (
        model,
        X,
        outcome_of(Estimator, y, codes),
        WEIGHTS[draw(st.sampled_from(sorted(WEIGHTS)))](rng, n),
    )


@settings(max_examples=80, **PROFILE)
@given(fits())
def test_any_fit_is_refused_in_words_or_sound(case):
    refused_or_sound(*case)


@pytest.mark.slow
@settings(max_examples=2000, **PROFILE)
@given(fits())
def test_many_fits_are_refused_in_words_or_sound(case):
    refused_or_sound(*case)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_degenerate_columns_are_fitted(Estimator, columns, rng):
    X, y, codes = data(rng, n_classes=2 + (columns in ("constant", "duplicate")))
    model = Estimator(ENGINES["svgd"], random_state=0)
    y = outcome_of(Estimator, y, codes)
    assert refused_or_sound(model, COLUMNS[columns](X, codes), y) is None


@pytest.mark.parametrize("engine", ["svgd", "laplace", "fwss"])
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_more_columns_than_rows(Estimator, engine, rng):
    X, y, codes = data(rng, n=10, p=40)
    y = outcome_of(Estimator, y, codes)
    assert refused_or_sound(Estimator(ENGINES[engine], random_state=0), X, y) is None


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_two_rows(Estimator, engine):
    model = Estimator(ENGINES[engine], random_state=0)
    assert refused_or_sound(model, np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])) is None


@pytest.mark.parametrize("engine", ENGINES)
def test_a_regression_on_one_row_or_a_constant_outcome(engine, rng):
    model = BayesianLinearRegression(ENGINES[engine], random_state=0)
    assert refused_or_sound(model, np.ones((1, 2)), np.ones(1)) is None
    assert refused_or_sound(model, rng.standard_normal((20, 2)), np.full(20, 5.0)) is None
    np.testing.assert_allclose(model.predict(np.zeros((1, 2))), 5.0, atol=1.5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_unit_of_the_outcome_does_not_matter(scale, rng):
    X, y, _ = data(rng)
    model = BayesianLinearRegression(ENGINES["svgd"], random_state=0)
    expected = model.fit(X, y).predict(X, return_std=True)
    rescaled = model.fit(X, scale * y).predict(X, return_std=True)
    for one, other in zip(expected, rescaled, strict=True):
        np.testing.assert_allclose(other / scale, one, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e40])
@pytest.mark.parametrize("Estimator", CLASSIFIERS)
def test_the_unit_of_a_feature_does_not_matter(Estimator, scale, rng):
    X, _, codes = data(rng)
    model = Estimator(ENGINES["svgd"], random_state=0)
    expected = model.fit(X, codes).predict_proba(X)
    rescaled = scale * X
    np.testing.assert_allclose(
        model.fit(rescaled, codes).predict_proba(rescaled), expected, atol=1e-4
    )


BAD_X = {
    "NaN": (lambda X: np.where(np.isclose(X, X.max()), np.nan, X), "X contains NaN"),
    "infinity": (lambda X: np.where(np.isclose(X, X.max()), np.inf, X), "X contains infinity"),
    "text": (lambda X: np.full(X.shape, "a"), "could not convert string"),
    "objects": (lambda X: np.full(X.shape, None), "NaN"),
    "complex": (lambda X: X + 1j, "Complex data not supported"),
    "one dimension": (lambda X: X[:, 0], "Expected 2D array"),
    "three dimensions": (lambda X: X[None], "dim 3"),
    "no row": (lambda X: X[:0], "0 sample"),
    "no column": (lambda X: X[:, :0], "0 feature"),
    "names of two types": (lambda X: pd.DataFrame(X, columns=["a", 1, 2]), "names"),
    "repeated names": (lambda X: pd.DataFrame(X, columns=list("aab")), "unique"),
}


@pytest.mark.parametrize("kind", BAD_X)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_features_that_are_refused(Estimator, kind, rng):
    X, _, codes = data(rng)
    change, words = BAD_X[kind]
    message = refused_or_sound(Estimator(ENGINES["laplace"]), change(X), codes)
    assert message is not None and words in message


BAD_Y = {
    "short": (lambda y: y[:5], "inconsistent numbers of samples"),
    "NaN": (lambda y: np.where(y > 0, np.nan, 1.0), "y contains NaN"),
    "infinity": (lambda y: np.where(y > 0, np.inf, 1.0), "y contains infinity"),
    "missing": (lambda y: None, "y"),
    "a table": (lambda y: np.column_stack([y, y]), "y should be a 1d array"),
}


@pytest.mark.parametrize("kind", BAD_Y)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_outcomes_that_are_refused(Estimator, kind, rng):
    X, _, codes = data(rng)
    change, words = BAD_Y[kind]
    message = refused_or_sound(Estimator(ENGINES["laplace"]), X, change(codes))
    assert message is not None and words in message


@pytest.mark.parametrize("Estimator", CLASSIFIERS)
def test_classes_that_are_none(Estimator, rng):
    X, y, codes = data(rng)
    model = Estimator(ENGINES["laplace"])
    assert "continuous" in refused_or_sound(model, X, y)
    assert "at least two classes in y" in refused_or_sound(model, X, np.zeros(30))
    weights = np.where(codes == 0, 1.0, 0.0)
    assert "at least two classes in y" in refused_or_sound(model, X, codes, weights)


BAD_WEIGHTS = {
    "zero": (np.zeros(30), "at least one non-zero"),
    "negative": (-np.ones(30), "sample_weight"),
    "NaN": (np.full(30, np.nan), "sample_weight"),
    "short": (np.ones(3), "sample_weight"),
    "a table": (np.ones((30, 2)), "[Ss]ample.weight"),
}


@pytest.mark.parametrize("kind", BAD_WEIGHTS)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_weights_that_are_refused(Estimator, kind, rng):
    X, _, codes = data(rng)
    weights, words = BAD_WEIGHTS[kind]
    with pytest.raises(ValueError, match=words):
        Estimator(ENGINES["laplace"]).fit(X, codes, weights)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("Estimator", CLASSIFIERS)
def test_class_weights_that_are_refused(Estimator, weight, rng):
    X, _, codes = data(rng)
    model = Estimator(ENGINES["laplace"], class_weight={0: weight, 1: 1.0})
    assert "class_weight" in refused_or_sound(model, X, codes)


@pytest.mark.parametrize("parameter", ["prior", "intercept_prior"])
@pytest.mark.parametrize(
    "scale", [0.0, -1.0, np.nan, np.inf, "wide", None, [1.0, 2.0], [1.0, -2.0, 3.0], []]
)
@pytest.mark.parametrize("Prior", [Normal, Laplace, StudentT])
def test_scales_of_a_prior_that_are_refused(Prior, scale, parameter, rng):
    X, _, codes = data(rng)
    model = BayesianLogisticRegression(ENGINES["laplace"], **{parameter: Prior(scale=scale)})
    assert "scale" in refused_or_sound(model, X, codes)


PARAMETERS = [
    ("prior", "normla", ["normal", "laplace", "student-t"]),
    ("intercept_prior", "normla", ["normal", "laplace", "student-t"]),
    ("inference", "mcmc", ["pmd", "pmfvb", "fwss", "svgd", "ksd-mcmc", "laplace"]),
    ("prior", Normal, ["prior=Normal()"]),
    ("inference", SVGD, ["inference=SVGD()"]),
    ("prior", 3, ["prior"]),
    ("inference", None, ["inference"]),
    ("inference", SVGD(n_particles=-1), ["n_particles", "SVGD"]),
    ("inference", SVGD(n_particles="many"), ["n_particles", "auto"]),
    ("inference", SVGD(batch_size=0), ["batch_size"]),
    ("inference", SVGD(learning_rate=np.nan), ["learning_rate"]),
    ("inference", SVGD(kernel="rbf"), ["kernel"]),
    ("inference", PMD(n_particles=3), ["n_particles=3", "coordinates"]),
    ("inference", PMFVB(n_particles=1), ["n_particles", "PMFVB"]),
    ("inference", KSDThinnedMCMC(batch_size=5), ["batch_size", "sgld"]),
    ("inference", KSDThinnedMCMC(sampler="nuts"), ["sampler", "hmc"]),
    ("inference", LaplaceDraws(min_ess=2.0), ["min_ess"]),
    ("standardize", 3, ["standardize"]),
    ("random_state", "a", ["random_state"]),
]


@pytest.mark.parametrize(("name", "value", "words"), PARAMETERS)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_parameters_that_are_refused(Estimator, name, value, words, rng):
    X, _, codes = data(rng)
    message = refused_or_sound(Estimator(**{"inference": "laplace", name: value}), X, codes)
    assert message is not None and all(word in message for word in words)


@pytest.mark.parametrize(
    "engine",
    [
        SVGD(max_iter=10, batch_size=1000),
        KSDThinnedMCMC(sampler="sgld", batch_size=1000, n_draws=20, max_draws=20, n_warmup=5),
    ],
)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_batch_of_more_rows_than_there_are_is_all_of_them(Estimator, engine, rng):
    X, y, codes = data(rng)
    assert refused_or_sound(Estimator(engine), X, outcome_of(Estimator, y, codes)) is None


@pytest.fixture(params=ESTIMATORS)
def fitted(request, rng):
    X, y, codes = data(rng)
    model = request.param(ENGINES["laplace"], random_state=0)
    X = pd.DataFrame(X, columns=list("abc"))
    assert refused_or_sound(model, X, outcome_of(request.param, y, codes)) is None
    return model


METHODS = ["predict", "predict_interval", "predict_uncertainty"]


@pytest.mark.parametrize("method", METHODS)
def test_features_that_prediction_refuses(fitted, method, rng):
    X = pd.DataFrame(rng.standard_normal((4, 3)), columns=list("abc"))
    predict = getattr(fitted, method)
    for bad, words in [
        (X[["a", "b"]], "[Ff]eature"),
        (X.assign(d=1.0), "[Ff]eature"),
        (X.set_axis(list("abd"), axis=1), "feature names"),
        (X[["c", "b", "a"]], "feature names"),
        (X.iloc[:0], "0 sample"),
        (X.assign(b=np.nan), "NaN"),
        (X.assign(b=np.inf), "infinity"),
    ]:
        with pytest.raises(ValueError, match=words):
            predict(bad)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, "half", [[0.5]], None])
def test_fractions_that_prediction_refuses(fitted, value):
    X = pd.DataFrame(np.zeros((2, 3)), columns=list("abc"))
    with pytest.raises((ValueError, TypeError)):
        fitted.predict_quantiles(X, value)
    with pytest.raises((ValueError, TypeError)):
        fitted.predict_interval(X, level=value)


def test_the_ends_of_the_fractions_are_allowed(fitted):
    X = pd.DataFrame(np.zeros((2, 3)), columns=list("abc"))
    ends = fitted.predict_quantiles(X, [0.0, 1.0])
    assert (ends[..., 0] < ends[..., 1]).all()
    assert finite(fitted.predict_interval(X, level=0.0))


def log_density(theta):
    return -0.5 * (theta**2).sum(axis=1)


def score(theta):
    return -theta


def normal(log_density=log_density, score=score, **options):
    return LogDensity(log_density, score, **{"dim": 2, **options})


def inferred(target, engine, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return infer(target, ENGINES[engine], random_state=0, **options)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_density_that_is_nan_names_its_particle(engine):
    target = normal(lambda t: np.where(t[:, 0] > 1.0, np.nan, log_density(t)))
    with pytest.raises(ValueError, match=r"log_density returned NaN for particle \d+ of \d+"):
        inferred(target, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "wrong", [lambda t: t, lambda t: 0.0, lambda t: None, lambda t: np.zeros((len(t), 1))]
)
def test_a_log_density_of_the_wrong_shape(engine, wrong):
    with pytest.raises(ValueError, match=r"log_density returned shape .*, expected \(\d+,\)"):
        inferred(normal(wrong), engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("part", ["log_density", "score"])
def test_an_exception_of_the_users_own_comes_through(engine, part):
    class OwnError(Exception):
        pass

    error = OwnError("mine")

    def fails(theta):
        raise error

    with pytest.raises(OwnError) as caught:
        inferred(normal(**{part: fails}), engine)
    assert caught.value is error


@pytest.mark.parametrize("engine", ENGINES)
def test_a_score_of_the_wrong_sign_is_not_silent(engine):
    with pytest.warns(ConvergenceWarning):
        infer(normal(score=lambda t: t), ENGINES[engine], random_state=0)


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"pmd"}))
def test_engines_with_gradients_refuse_a_target_without(engine):
    with pytest.raises(ValueError, match=r"needs score, which the target does not offer"):
        inferred(normal(score=None), engine)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dim": 0}, "dim"),
        ({"dim": 2.5}, "dim"),
        ({"initial": [1.0]}, "initial"),
        ({"names": ["a"]}, "names"),
        ({"score": 3}, "score"),
    ],
)
def test_a_log_density_whose_parts_do_not_fit(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        normal(**options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("init", [np.zeros((3, 5)), np.full((3, 2), np.nan), np.zeros((1, 3, 2))])
def test_starting_particles_that_are_refused(engine, init):
    with pytest.raises(ValueError, match="init must"):
        inferred(normal(), engine, init=init)


def test_minibatches_of_a_target_without_rows():
    with pytest.raises(ValueError, match="batch_size"):
        infer(normal(), SVGD(batch_size=5))
