"""Degenerate and hostile input: a fit is refused in words, or gives a posterior that is finite.

Nothing in between: no exception from inside NumPy or SciPy, no RuntimeWarning (warnings are errors
here), no NaN in what is predicted. A ConvergenceWarning is an honest answer and is allowed.
"""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import small
from skstein import (
    BayesianGammaRegression,
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPRegressor,
    BayesianNegativeBinomialRegression,
    BayesianPoissonRegression,
    BayesianProbitRegression,
    LogDensity,
    ParticlePosterior,
    check_target,
    infer,
)
from skstein.inference import PMD, PMFVB, SVGD, KSDThinnedMCMC, LaplaceDraws, LazyFWSS
from skstein.priors import PRIORS as PRIOR_NAMES
from skstein.priors import AdaptiveRidge, HierarchicalNormal, Horseshoe, Laplace, Normal, StudentT
from skstein.samplers import SGLD
from skstein.targets import LogisticTarget, SoftmaxTarget

# Few rows leave exponentials of the predictor without a mean.
pytestmark = pytest.mark.filterwarnings("ignore:.*rests on a few draws:UserWarning")

ENGINES = small.ENGINES | {"lazy-fwss": LazyFWSS(20)}
PRIORS = [
    *PRIOR_NAMES,
    *(Normal(scale) for scale in (1e-100, 1e-8, 1e8, 1e100)),
    *(Laplace(scale) for scale in (1e-4, 1e4, 1e100)),
    *(kind(loc=loc) for kind in (Normal, StudentT, HierarchicalNormal) for loc in (-3.0, 1e6)),
    *(Horseshoe(1e-3, slab) for slab in (1e-8, 1e8)),
    *(StudentT(df) for df in (1e-100, 0.1, 1.0, 1e8)),
    *(StudentT(scale=scale) for scale in (1e-100, 1e100)),
    *(AdaptiveRidge(*pair) for pair in [(1e-3, 1e-3), (1e3, 1e-3), (1e-100, 1e100)]),
    *(
        HierarchicalNormal(*pair)
        for pair in [(1e-3, 1e-3), (1e4, 1.0), (1.0, 1e100), (1.0, 1e-100)]
    ),
]
CLASSIFIERS = [BayesianLogisticRegression, BayesianProbitRegression]
COUNTS = [BayesianPoissonRegression, BayesianNegativeBinomialRegression]
LOG_LINK = (*COUNTS, BayesianGammaRegression)
ESTIMATORS = [BayesianLinearRegression, *COUNTS, BayesianGammaRegression, *CLASSIFIERS]
PROFILE = dict(deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def finite(*arrays):
    return all(np.isfinite(array).all() for array in arrays)


def rows_of(X, chosen):
    """The chosen rows of whatever features may be stored in."""
    if isinstance(X, pd.DataFrame):
        return X.iloc[chosen]
    return X.tocsr()[chosen] if sparse.issparse(X) else np.asarray(X)[chosen]


def assert_sound(model, X, y):
    """Whatever a fitted model reports is finite, and probabilities are probabilities."""
    posterior = model.posterior_
    assert finite(posterior.particles, posterior.weights, posterior.mean(), posterior.std())
    assert finite(model.coef_, model.intercept_, model.coef_std_, model.intercept_std_)
    interval = model.predict_interval(X)
    assert finite(interval) and (interval[..., 0] <= interval[..., 1]).all()
    assert finite(*model.predict_uncertainty(X).values())
    assert posterior.weights.min() >= 0.0
    np.testing.assert_allclose(posterior.weights.sum(), 1.0)
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(X)
        assert proba.min() >= 0.0 and proba.max() <= 1.0
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert np.isin(model.predict(X), model.classes_).all()
        assert not np.isnan(model.decision_function(X)).any()
        # A class whose samples all have weight zero is none.
        seen = np.flatnonzero(np.isin(np.asarray(y), model.classes_))
        assert model.log_predictive(rows_of(X, seen), np.asarray(y)[seen]).max() <= 1e-9
    else:
        assert finite(*model.predict(X, return_std=True))
        # Counts of 1e-149 under a mean of 1e200 have the score -inf.
        assert len(y) < 2 or model.score(X, y) <= 1.0
        assert getattr(model, "noise_variance_", 1.0) > 0.0
        assert not np.isnan(model.log_predictive(X, y)).any()


def names_an_argument(message):
    components = [*ENGINES.values(), *(make(1.0) for make in PRIOR_NAMES.values())]
    names = {"X", "y", "sample_weight", "features", "init"}
    for component in [*(Estimator() for Estimator in ESTIMATORS), *components]:
        names |= component.get_params(deep=False).keys()
    return any(re.search(rf"\b{name}\b", message) for name in names)


def refused_or_sound(model, X, y, sample_weight=None):
    """Fit and check; the message when the fit was refused in words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", UserWarning)  # of which ConvergenceWarning is one
        try:
            model.fit(X, y, sample_weight)
        except (ValueError, TypeError, FloatingPointError) as error:
            assert not isinstance(error, np.linalg.LinAlgError), error
            frame = error.__traceback__
            while frame.tb_next:
                frame = frame.tb_next
            module = frame.tb_frame.f_globals["__name__"].partition(".")[0]
            assert module in {"skstein", "sklearn", "narwhals"}, error
            message = str(error)
            if module == "skstein":
                assert names_an_argument(message), message
                assert not re.search(r"[.!?] +[A-Z]", message), "more than one sentence: " + message
            return message
    model.warned = bool(caught)
    # Rows without weight were not seen, and may be further away than numbers reach.
    weights = 1.0 if sample_weight is None else sample_weight
    seen = np.flatnonzero(np.broadcast_to(weights, len(y)))
    try:
        assert_sound(model, rows_of(X, seen), np.asarray(y)[seen])
    except FloatingPointError as error:  # where nothing bounds the logarithm of a mean
        assert isinstance(model, LOG_LINK) and "overflows" in str(error)
    return None


def data(rng, n=30, p=3, n_classes=2):
    X = rng.standard_normal((n, p))
    y = X[:, 0] + 0.5 * rng.standard_normal(n)
    return X, y, np.arange(n) % n_classes


def outcome_of(Estimator, y, codes):
    if Estimator in CLASSIFIERS:
        return codes
    return observable(Estimator, y)


def observable(Estimator, y):
    """Numbers that the outcome can be."""
    if Estimator is BayesianLinearRegression:
        return y
    return np.exp(y) if Estimator is BayesianGammaRegression else np.floor(np.exp(y))


def with_explicit_zeros(X):
    X = sparse.csr_array(X)
    X.data[X.data < 0.3 * np.abs(X.data).max(initial=0.0)] = 0.0
    return X


def in_two_parts(X):
    """CSR with two entries at the same place, whose sum counts."""
    n, p = X.shape
    entries = np.repeat(0.5 * X.ravel(), 2), np.repeat(np.tile(np.arange(p), n), 2)
    return sparse.csr_array((*entries, 2 * p * np.arange(n + 1)), shape=(n, p))


def with_empty_rows(X):
    return sparse.csr_array(np.where(np.arange(len(X))[:, None] % 2, X, 0.0))


COLUMNS = {
    "as it is": lambda X, codes: X,
    "constant": lambda X, codes: np.column_stack([X, np.full(len(X), 7.0)]),
    "all constant": lambda X, codes: np.full_like(X, -3.0),
    "zero": lambda X, codes: np.zeros_like(X),
    "duplicate": lambda X, codes: X[:, [0] * X.shape[1]],
    "collinear": lambda X, codes: np.column_stack([X, X.sum(axis=1)]),
    "nearly collinear": lambda X, codes: np.column_stack([X, X[:, 0] * (1.0 + 1e-12)]),
    "separable": lambda X, codes: np.column_stack([X, 2.0 * codes - 1.0]),
    "one a row": lambda X, codes: np.eye(*X.shape),
    "offset": lambda X, codes: X + 1e8,
    "offset beyond digits": lambda X, codes: X + 1e15,
    "outlier": lambda X, codes: np.vstack([np.full(X.shape[1], 1e40), X[1:]]),
}
STORAGE = {
    "array": lambda X: X,
    "list": lambda X: X.tolist(),
    "frame": lambda X: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]),
    "object": lambda X: X.astype(object),
    "float32": lambda X: np.clip(X, -1e38, 1e38).astype(np.float32),
    "Fortran order": np.asfortranarray,
    "bool": lambda X: X > 0.0,
    "sparse": lambda X: sparse.csr_array(np.where(X > 1.0, X, 0.0)),
    "dense in CSR": sparse.csr_array,
    "CSC matrix": sparse.csc_matrix,
    "COO": sparse.coo_array,
    "explicit zeros": with_explicit_zeros,
    "explicit zeros in CSC": lambda X: sparse.csc_array(with_explicit_zeros(X)),
    "empty rows": with_empty_rows,
    "entries in two parts": in_two_parts,
}
OUTCOMES = {
    "as it is": lambda y: y,
    "list": lambda y: y.tolist(),
    "series": pd.Series,
    "bool": lambda y: y > np.min(y),
    "negative": lambda y: -y,
}
LABELS = {
    **OUTCOMES,
    "text": lambda y: np.array([f"c{code:g}" for code in y]),
    "objects": lambda y: np.array([f"c{code:g}" for code in y], dtype=object),
}
WEIGHTS = {
    "none": lambda rng, n: None,
    "a number": lambda rng, n: 2.0,
    "some zero": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "one": lambda rng, n: np.eye(n)[0],
    "tiny": lambda rng, n: np.full(n, 1e-300),
    "small": lambda rng, n: np.full(n, 1e-12),
    "large": lambda rng, n: np.full(n, 1e12),
    "huge": lambda rng, n: np.full(n, 1e40),
    "uneven": lambda rng, n: 10.0 ** rng.uniform(-12, 12, n),
    "wild": lambda rng, n: 10.0 ** rng.uniform(-300, 49, n),
}
SCALES = [1.0, 1e-8, 1e8, 1e-40, 1e40, 1e-149]

BAD_X = {
    "NaN": (lambda X: np.where(np.isclose(X, X.max()), np.nan, X), "X contains NaN"),
    "infinity": (lambda X: np.where(np.isclose(X, X.max()), np.inf, X), "X contains infinity"),
    "beyond squares": (lambda X: np.full(X.shape, 1e200), "X holds a value of magnitude 1e+200"),
    "below squares": (lambda X: np.full(X.shape, 1e-200), "X holds a value of magnitude 1e-200"),
    "text": (lambda X: np.full(X.shape, "a"), "X has text in it"),
    "categories": (lambda X: pd.DataFrame({"a": ["b"] * len(X)}), "X has text in it"),
    "ragged": (lambda X: [[1.0], *[[1.0, 2.0]] * len(X)][: len(X)], "X must hold real numbers"),
    "objects": (lambda X: np.full(X.shape, None), "NaN"),
    "complex": (lambda X: X + 1j, "Complex data not supported"),
    "one dimension": (lambda X: X[:, 0], "Expected 2D array"),
    "three dimensions": (lambda X: X[None], "dim 3"),
    "nothing": (lambda X: None, "Expected 2D array"),
    "no row": (lambda X: X[:0], "0 sample"),
    "no column": (lambda X: X[:, :0], "0 feature"),
    "names of two types": (lambda X: named(X, ["a", *range(1, X.shape[1])]), "names"),
    "repeated names": (lambda X: named(X, ["a"] * X.shape[1]), "unique"),
}
BAD_Y = {
    "short": (lambda y: y[:-1], "inconsistent numbers of samples"),
    "NaN": (lambda y: np.full(len(y), np.nan), "y contains NaN"),
    "infinity": (lambda y: np.full(len(y), np.inf), "y contains infinity"),
    "missing": (lambda y: None, "y"),
    "a number": (lambda y: 3.0, "y"),
    "a table": (lambda y: np.column_stack([y, y]), "y should be a 1d array"),
    "complex": (lambda y: y + 1j, "Complex data not supported"),
    "objects": (lambda y: np.full(len(y), None), ""),
}
BAD_WEIGHTS = {
    "zero": (np.zeros, "at least one non-zero"),
    "negative": (lambda n: -np.ones(n), "sample_weight"),
    "NaN": (lambda n: np.full(n, np.nan), "sample_weight"),
    "infinity": (lambda n: np.full(n, np.inf), "sample_weight"),
    "beyond squares": (lambda n: np.full(n, 1e200), "sample_weight holds a value of magnitude"),
    "text": (lambda n: np.full(n, "a"), "sample_weight has text in it"),
    "short": (lambda n: np.ones(n + 1), "sample_weight"),
    "a table": (lambda n: np.ones((n, 2)), "[Ss]ample.weight"),
}
PARAMETERS = [
    ("prior", "normla", ["normal", "laplace", "student-t"]),
    ("intercept_prior", "normla", ["normal", "laplace", "student-t"]),
    ("inference", "nuts", ["pmd", "pmfvb", "fwss", "svgd", "ksd-mcmc", "laplace"]),
    ("prior", Normal, ["prior=Normal()"]),
    ("inference", SVGD, ["inference=SVGD()"]),
    ("prior", 3, ["prior"]),
    ("prior", Normal(0.0), ["scale"]),
    ("prior", Normal(1e-160), ["prior", "scale"]),
    ("intercept_prior", Normal(1e160), ["prior", "scale"]),
    ("prior", Normal(np.ones((2, 2))), ["prior", "scale", "(2, 2)"]),
    ("prior", StudentT(df=0.0), ["df"]),
    ("prior", AdaptiveRidge(rate=-1.0), ["rate"]),
    ("prior", AdaptiveRidge(1e-200, 1e200), ["prior", "scale"]),
    ("prior", HierarchicalNormal(shape=np.nan), ["shape"]),
    ("inference", None, ["inference"]),
    ("inference", SVGD(n_particles=-1), ["n_particles", "SVGD"]),
    ("inference", SVGD(n_particles="many"), ["n_particles", "auto"]),
    ("inference", SVGD(batch_size=0), ["batch_size"]),
    ("inference", SVGD(learning_rate=np.nan), ["learning_rate"]),
    ("inference", SVGD(kernel="rbf"), ["kernel"]),
    ("inference", PMD(n_particles=2), ["n_particles=2", "coordinates"]),
    ("inference", PMFVB(n_particles=1), ["n_particles", "PMFVB"]),
    ("inference", KSDThinnedMCMC(batch_size=5), ["batch_size", "sgld"]),
    ("inference", KSDThinnedMCMC(sampler="nuts"), ["sampler", "hmc"]),
    ("inference", LaplaceDraws(min_relative_ess=2.0), ["min_relative_ess"]),
    ("standardize", 3, ["standardize"]),
    ("random_state", "a", ["random_state"]),
]


def named(X, columns):
    return pd.DataFrame(X).set_axis(columns, axis=1)


# What is wrong in a case: mostly nothing.
WRONG = [
    None,
    *(("X", kind) for kind in BAD_X),
    *(("y", kind) for kind in BAD_Y),
    *(("sample_weight", kind) for kind in BAD_WEIGHTS),
    *(("parameter", index) for index in range(len(PARAMETERS))),
]


@st.composite
def fits(draw):
    """An estimator with hostile data for it: (model, X, y, sample_weight), and what is wrong."""

    def pick(table):
        return table[draw(st.sampled_from(list(table)))]

    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Estimator = draw(st.sampled_from(ESTIMATORS))
    linear = Estimator not in CLASSIFIERS
    n, p = draw(st.integers(2, 25)), draw(st.sampled_from([1, 2, 3, 4, 5, 6, 40]))
    X, y, codes = data(rng, n, p, draw(st.sampled_from([2, 3])))
    units = [draw(st.sampled_from(SCALES)) for _ in range(2)]
    X = pick(STORAGE)(pick(COLUMNS)(X * np.where(rng.random(p) < 0.5, *units), codes))
    units = st.sampled_from([0.0, 1.0, 1e-12, 1e12, 1e-149, 1e40])
    y = observable(Estimator, y) * draw(units) if linear else 1.0 * codes
    y = pick(OUTCOMES if linear else LABELS)(y)
    weights = pick(WEIGHTS)(rng, n)
    extreme = draw(st.sampled_from([1.0] * 5 + [1e-300, 1e-50, 1e-8, 1e8, 1e50, 1e300]))
    own = {"class_weight": draw(CLASS_WEIGHTS)}
    if linear:
        own = {}
    if Estimator is BayesianLinearRegression:
        own = {"noise_shape": draw(st.sampled_from([None, extreme]))}
    parameters = {
        "inference": pick(ENGINES),
        "prior": draw(st.sampled_from(PRIORS)),
        "intercept_prior": draw(st.sampled_from(["normal"] * len(PRIORS) + PRIORS)),
        "positive": draw(st.sampled_from([False, False, False, True])),
        "fit_intercept": draw(st.booleans()),
        "standardize": draw(st.booleans()),
        "random_state": 0,
        **own,
    }
    where, what = wrong = draw(st.none() | st.none() | st.sampled_from(WRONG)) or (None, None)
    if where == "X":
        X = BAD_X[what][0](rng.standard_normal((n, p + 1)))
    elif where == "y":
        y = BAD_Y[what][0](np.asarray(codes, dtype=float))
    elif where == "sample_weight":
        weights = BAD_WEIGHTS[what][0](n)
    elif where == "parameter":
        name, value, _ = PARAMETERS[what]
        parameters |= {name: value, "fit_intercept": True}
    return (Estimator(**parameters), X, y, weights), wrong


CLASS_WEIGHTS = st.sampled_from([None, None, None, "balanced"])


def check_case(case):
    fit, (where, what) = case
    message = refused_or_sound(*fit)
    if where is not None:
        assert message is not None, f"{where} {what} was not refused"
    event("refused" if message else "fitted with a warning" if fit[0].warned else "fitted")


@settings(max_examples=6, **PROFILE)
@given(fits())
def test_any_fit_is_refused_in_words_or_sound(case):
    check_case(case)


@pytest.mark.slow
@settings(max_examples=2000, derandomize=False, **PROFILE)
@given(fits())
def test_many_fits_are_refused_in_words_or_sound(case):
    check_case(case)


def test_a_horseshoe_without_a_mode_under_a_ridge():
    """Which tells the coefficients that are far from 0."""
    X, y, weights = np.eye(16, 1), np.tile([0.0, 1e-149], 8), np.full(16, 1e40)
    model = BayesianNegativeBinomialRegression(
        ENGINES["mcmc"],
        prior="horseshoe",
        positive=True,
        fit_intercept=False,
        standardize=False,
        random_state=0,
    )
    refused_or_sound(model, X, y, weights)
    assert model.warned


@pytest.mark.parametrize(("Estimator", "columns"), small.crossed(ESTIMATORS, COLUMNS))
def test_degenerate_columns_are_fitted(Estimator, columns, rng):
    X, y, codes = data(rng, n_classes=2 + (columns in ("constant", "duplicate")))
    model = Estimator(ENGINES["svgd"], random_state=0)
    y = outcome_of(Estimator, y, codes)
    assert refused_or_sound(model, COLUMNS[columns](X, codes), y) is None


@pytest.mark.parametrize(
    ("Estimator", "engine"), small.crossed(ESTIMATORS, ["laplace", "svgd", "fwss"])
)
def test_more_columns_than_rows(Estimator, engine, rng):
    X, y, codes = data(rng, n=10, p=40)
    y = outcome_of(Estimator, y, codes)
    assert refused_or_sound(Estimator(ENGINES[engine], random_state=0), X, y) is None


@pytest.mark.parametrize(("Estimator", "engine"), small.crossed(ESTIMATORS, ENGINES))
def test_two_rows(Estimator, engine):
    model = Estimator(ENGINES[engine], random_state=0)
    y = np.array([0, 1]) + (Estimator is BayesianGammaRegression)
    assert refused_or_sound(model, np.array([[1.0, 2.0], [3.0, 4.0]]), y) is None


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


@pytest.mark.parametrize("kind", BAD_X)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_features_that_are_refused(Estimator, kind, rng):
    X, _, codes = data(rng)
    change, words = BAD_X[kind]
    message = refused_or_sound(Estimator(ENGINES["laplace"]), change(X), codes)
    assert message is not None and words in message


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
    for missing in (None, np.nan, pd.NA):
        labels = np.where(np.arange(30) == 3, missing, np.array(["a", "b", "c"], object)[codes])
        assert "y contains NaN" in refused_or_sound(model, X, labels)


@pytest.mark.parametrize("kind", BAD_WEIGHTS)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_weights_that_are_refused(Estimator, kind, rng):
    X, _, codes = data(rng)
    change, words = BAD_WEIGHTS[kind]
    y = codes + (Estimator is BayesianGammaRegression)
    message = refused_or_sound(Estimator(ENGINES["laplace"]), X, y, change(len(X)))
    assert message is not None and re.search(words, message)


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


@pytest.mark.parametrize(("name", "value", "words"), PARAMETERS)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_parameters_that_are_refused(Estimator, name, value, words, rng):
    X, _, codes = data(rng)
    y = codes + (Estimator is BayesianGammaRegression)
    message = refused_or_sound(Estimator(**{"inference": "laplace", name: value}), X, y)
    assert message is not None and all(word in message for word in words)


@pytest.mark.parametrize(
    "engine",
    [
        SVGD(max_iter=10, batch_size=1000),
        KSDThinnedMCMC(
            sampler=SGLD(step_size=0.02), batch_size=1000, n_draws=20, max_draws=20, n_warmup=5
        ),
    ],
)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_batch_of_more_rows_than_there_are_is_all_of_them(Estimator, engine, rng):
    X, y, codes = data(rng)
    model = Estimator(engine, random_state=0)
    assert refused_or_sound(model, X, outcome_of(Estimator, y, codes)) is None


@pytest.fixture(params=ESTIMATORS, scope="module")
def fitted(request):
    X, y, codes = data(np.random.default_rng(request.config.getoption("seed")))
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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-300, 1e60, 1e150, 1e300])
def test_features_far_away_are_refused_or_predicted(fitted, method, scale, rng):
    X = pd.DataFrame(scale * rng.standard_normal((4, 3)), columns=list("abc"))
    try:
        predicted = getattr(fitted, method)(X)
    except FloatingPointError as error:
        assert "overflows for row" in str(error)
    else:
        values = predicted.values() if method == "predict_uncertainty" else [predicted]
        assert not any(np.isnan(value).any() for value in values)


def test_outcomes_whose_probability_is_refused():
    X = np.arange(10.0)[:, None]
    model = BayesianLinearRegression("laplace", random_state=0)
    assert refused_or_sound(model, X, X[:, 0]) is None
    for bad, words in [(np.nan, "NaN"), (np.inf, "infinity"), ("a", "y has text in it")]:
        with pytest.raises(ValueError, match=words):
            model.log_predictive(X[:2], [0.0, bad])
    with pytest.raises(ValueError, match="inconsistent"):
        model.log_predictive(X[:2], [0.0])
    assert not np.isnan(model.log_predictive(X[:2], [0.0, 1e300])).any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_whose_posterior_rounding_blurs(rng):
    """The log density is of size 1e17, where neighbouring numbers are 16 apart."""
    X, _, codes = data(rng)
    model = BayesianLogisticRegression(SVGD(20, max_iter=20), random_state=0)
    with pytest.warns(ConvergenceWarning, match="lost to rounding; reduce sample_weight"):
        model.fit(X, codes, np.full(len(X), 1e16))


def test_chains_that_fall_for_ever_end_and_say_so(rng):
    """Under such weights the mode is farther away than any number of steps."""
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    model = BayesianMLPRegressor((4,), n_networks=2, max_iter=20, random_state=0)
    with pytest.warns(ConvergenceWarning, match="networks have left the posterior"):
        model.fit(X, y, np.full(60, 1e12))


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
def test_a_log_density_that_is_nan_names_its_particle_and_when(engine):
    target = normal(lambda t: np.where(t[:, 0] > 1.0, np.nan, log_density(t)))
    words = r"log_density returned NaN for particle \d+ of \d+, at .*\((in|after) .*\)\."
    with pytest.raises(ValueError, match=words):
        inferred(target, engine)


def test_a_score_that_turns_nan_names_its_iteration():
    """One call at each iteration, after those of the search for the mode."""
    engine, calls = clone(ENGINES["svgd"]).set_params(max_iter_matching=0), []
    m = engine.n_particles

    def fails(theta):
        calls.append(len(theta))
        return np.where(calls.count(m) > 7, np.nan, -theta)

    words = rf"score returned NaN for particle 0 of {m}, at .*\(after iteration 7 of 10 of SVGD\)\."
    with pytest.raises(ValueError, match=words):
        infer(normal(score=fails), engine, random_state=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_density_that_is_zero_everywhere_is_refused(engine):
    target = normal(lambda t: np.full(len(t), -np.inf))
    with pytest.raises((ValueError, FloatingPointError), match=r"finite .* (start|init)"):
        inferred(target, engine)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_particles_of_density_zero_are_not_silent(seed):
    """A half normal density whose score knows nothing of its edge."""
    target = normal(lambda t: np.where(t[:, 0] > 0.0, log_density(t), -np.inf), initial=[0.5, 0.0])
    with pytest.warns(ConvergenceWarning):
        infer(target, SVGD(30, max_iter=10, one_sided=False), random_state=seed)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("part", ["log_density", "score"])
@pytest.mark.parametrize("values", [lambda t: t.astype(str), lambda t: t + 1j])
def test_what_is_no_number_is_refused(engine, part, values):
    shape = {"log_density": lambda t: values(t[:, 0]), "score": values}[part]
    if part == "score" and engine == "pmd":
        return
    with pytest.raises(TypeError, match=rf"{part} must be an array of real numbers"):
        inferred(normal(**{part: shape}), engine)


@pytest.mark.parametrize(
    "target", [None, log_density, LogDensity, BayesianLinearRegression(), np.zeros(3)]
)
def test_what_is_no_target_is_refused(target):
    with pytest.raises(TypeError, match="target must be a log density such as LogDensity"):
        infer(target)


def test_a_callback_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="callback must be a function"):
        infer(normal(), callback=3)


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
        ({"initial": [0.0, np.nan]}, "initial must be finite"),
        ({"initial": "ab"}, "initial"),
        ({"names": ["a"]}, "names"),
        ({"names": "ab"}, "names must be a list of 2 names, got 'ab'"),
        ({"score": 3}, "score"),
    ],
)
def test_a_log_density_whose_parts_do_not_fit(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        normal(**options)


def test_one_string_is_no_list_of_names():
    with pytest.raises(TypeError, match="names must be a list of 2 names, got 'ab'"):
        ParticlePosterior(np.zeros((3, 2)), names="ab")
    with pytest.raises(TypeError, match="feature_names must be a list of 2 names, got 'ab'"):
        LogisticTarget(np.ones((3, 2)), [0, 1, 0], feature_names="ab")
    with pytest.raises(TypeError, match="class_names must be a list of 3 names, got 'abc'"):
        SoftmaxTarget(np.ones((3, 2)), [0, 1, 2], n_classes=3, class_names="abc")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: t,
        lambda t: -2.0 * t,
        lambda t: -t + 0.1,
        lambda t: -t * [1.0, 0.0],
        lambda t: -t[:, ::-1],
    ],
)
def test_check_target_finds_a_score_that_is_not_the_gradient(wrong, seed):
    check_target(normal(), random_state=seed)
    with pytest.raises(ValueError, match=r"score\[\d\] is .*, but the difference quotient of"):
        check_target(normal(score=wrong), random_state=seed)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "init", [np.zeros((3, 5)), np.full((3, 2), np.nan), np.zeros((1, 3, 2)), "laplace"]
)
def test_starting_particles_that_are_refused(engine, init):
    with pytest.raises(ValueError, match=r"init (must|has text)"):
        inferred(normal(), engine, init=init)


def test_minibatches_of_a_target_without_rows():
    with pytest.raises(ValueError, match="batch_size"):
        infer(normal(), SVGD(batch_size=5))
