"""Sparse features, and dense ones left as they are, against a dense copy: products and fits."""

import math
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import small
from skstein import BayesianLinearRegression, BayesianLogisticRegression, BayesianProbitRegression
from skstein._statistics.column_moments import location_and_scale
from skstein.inference import SVGD, LaplaceDraws
from skstein.priors import Normal
from skstein.targets import LinearTarget, LogisticTarget, ProbitTarget, SoftmaxTarget
from skstein.targets.regression.design import joined, make_design

ESTIMATORS = [BayesianLinearRegression, BayesianLogisticRegression, BayesianProbitRegression]
every_estimator = pytest.mark.parametrize("kind", ESTIMATORS)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
# The fits of this file are short: whether a posterior is good is tested elsewhere.
short_fits = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ENGINES = {name: small.ENGINES[name] for name in ("svgd", "ksd-mcmc")}


def features(rng, n=60, p=4, density=0.4):
    """Dense, with many zeros, columns of different size, and none constant."""
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < density)
    X[:2] = rng.normal(size=(2, p))
    return X * np.geomspace(0.1, 20.0, p) + 3.0 * (X != 0.0)


def outcomes(kind, X, rng, n_classes=2):
    signal = X @ (1.0 / X.std(axis=0)) + rng.normal(size=len(X))
    if kind is BayesianLinearRegression:
        return 5.0 + 2.0 * signal
    return np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))


# Products.

LAYOUTS = {
    "plain": {},
    "centred": {"center": True},
    "scaled": {"scale": True},
    "standardised": {"center": True, "scale": True},
}


def designs(X, fit_intercept, rng, center=False, scale=False):
    """Dense, folded and sparse design, and the matrix that they stand for."""
    center = rng.normal(size=X.shape[1]) if center else None
    scale = rng.uniform(0.5, 2.0, size=X.shape[1]) if scale else None
    A = (X - (0.0 if center is None else center)) / (1.0 if scale is None else scale)
    if fit_intercept:
        A = np.column_stack([np.ones(len(A)), A])
    every = [make_design(kind, fit_intercept, center, scale) for kind in (X, csr(X))]
    return [*every, make_design(X, fit_intercept, center, scale, copied_up_to=0)], A


def csr(X):
    return scipy.sparse.csr_array(X)


@with_and_without_intercept
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(
    "rows", [slice(None), slice(7, 31), "index"], ids=["all", "block", "index"]
)
def test_products_are_those_of_the_matrix(fit_intercept, layout, rows, rng):
    X = features(rng)
    if rows == "index":
        rows = rng.permutation(len(X))[:17]
    every, A = designs(X, fit_intercept, rng, **layout)
    part = A[rows]
    theta = rng.normal(size=(5, A.shape[1]))
    residual, weights = rng.normal(size=(5, len(part))), rng.uniform(0.1, 2.0, size=len(part))
    for design in every:
        assert design.shape == A.shape
        predictor, pull = design.predictor(theta, rows), design.pull(residual, rows)
        gram, diagonal = design.gram(weights, rows), design.gram_diagonal(weights, rows)
        assert all(isinstance(each, np.ndarray) for each in (predictor, pull, gram, diagonal))
        expected = part.T @ (weights[:, None] * part)
        size = np.abs(A).max()
        assert_allclose(predictor, theta @ part.T, rtol=1e-11, atol=1e-12 * size)
        assert_allclose(pull, residual @ part, rtol=1e-11, atol=1e-11 * size)
        assert_allclose(gram, expected, rtol=1e-10, atol=1e-12 * expected.max())
        assert_allclose(diagonal, expected.diagonal(), rtol=1e-10)


def test_weights_of_either_sign_are_summed(rng):
    """The curvature of two classes of a softmax is negative."""
    every, A = designs(features(rng), True, rng, center=True, scale=True)
    weights = rng.normal(size=len(A))
    expected = A.T @ (weights[:, None] * A)
    for design in every:
        gram = design.gram(weights, slice(None))
        assert_allclose(gram, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("far", [1.0, 1e8])
def test_single_precision_is_kept_and_summed_in_double(far, rng):
    """Also far from 0, where centring in the coefficients would lose all digits."""
    X = (far + features(rng)).astype(np.float32)
    center, scale = X.astype(float).mean(axis=0), X.std(axis=0, dtype=float)
    scale[scale == 0.0] = 1.0
    theta, residual = rng.normal(size=(5, 5)), rng.normal(size=(5, len(X)))
    copied = make_design(X, center=center, scale=scale)
    folded = make_design(X, center=center, scale=scale, copied_up_to=0)
    assert folded._X is X
    every = slice(None)
    predictor, pulled = copied.predictor(theta, every), copied.pull(residual, every)
    assert_allclose(folded.predictor(theta, every), predictor, rtol=1e-9, atol=1e-9)
    assert_allclose(folded.pull(residual, every), pulled, rtol=1e-9, atol=1e-9)
    few = folded.take(np.arange(3))
    assert_allclose(few.predictor(theta, every), predictor[:, :3], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("folded", [0, 1])
def test_parts_that_are_folded_and_not_are_joined(folded, fit_intercept, rng):
    """As those of shards may be, of which only some are large."""
    X = features(rng)
    how = fit_intercept, X.mean(axis=0), X.std(axis=0) + 1.0
    halves = np.array_split(X, 2)
    parts = [
        make_design(half, *how, copied_up_to=0 if i == folded else 2**28)
        for i, half in enumerate(halves)
    ]
    theta, every = rng.normal(size=(5, X.shape[1] + fit_intercept)), slice(None)
    expected = make_design(X, *how).predictor(theta, every)
    assert_allclose(joined(parts).predictor(theta, every), expected)


TARGETS = {
    "linear": LinearTarget,
    "logistic": LogisticTarget,
    "softmax": SoftmaxTarget,
    "probit": ProbitTarget,
}


def target_of(name, X, y, **options):
    if name == "linear":
        return LinearTarget(X, y, **options)
    if name == "logistic":
        return LogisticTarget(X, y > 0, **options)
    return TARGETS[name](X, np.digitize(y, [-0.5, 0.5]), n_classes=3, **options)


@with_and_without_intercept
@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_those_of_dense_features(name, fit_intercept, rng):
    X = features(rng)
    options = {
        "sample_weight": rng.uniform(0.2, 3.0, size=len(X)),
        "fit_intercept": fit_intercept,
        "center": X.mean(axis=0),
        "scale": X.std(axis=0),
    }
    y = rng.normal(size=len(X))
    dense, sparse = (target_of(name, each, y, **options) for each in (X, csr(X)))
    theta = rng.normal(size=(4, dense.dim))
    rows = rng.permutation(len(X))[:9]
    pairs = [
        (dense.log_density(theta), sparse.log_density(theta)),
        (dense.log_likelihood(theta, rows), sparse.log_likelihood(theta, rows)),
        (dense.score(theta), sparse.score(theta)),
        (dense.score(theta, rows), sparse.score(theta, rows)),
        (dense.pointwise_log_likelihood(theta), sparse.pointwise_log_likelihood(theta)),
        (dense.hessian(theta[0]), sparse.hessian(theta[0])),
        (dense.hessian_diagonal(theta[0]), sparse.hessian_diagonal(theta[0])),
    ]
    for expected, value in pairs:
        assert_allclose(value, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
    diagonal = sparse.hessian(theta[0]).diagonal()
    assert_allclose(sparse.hessian_diagonal(theta[0]), diagonal, rtol=1e-9)


# Fits.


def answers(model, X):
    """What a user may ask of a fit, by name."""
    found = {
        "coef": model.coef_,
        "coef_std": model.coef_std_,
        "intercept": np.atleast_1d(model.intercept_),
        "particles": model.posterior_.particles,
        "quantiles": model.predict_quantiles(X, [0.1, 0.5, 0.9]),
    }
    if isinstance(model, BayesianLinearRegression):
        found["mean"], found["sd"] = model.predict(X, return_std=True)
    else:
        found["proba"] = model.predict_proba(X)
    return found


def assert_same_answers(model, X, other, other_X, tolerance=1e-7):
    given = answers(other, other_X)
    for name, expected in answers(model, X).items():
        assert_allclose(given[name], expected, rtol=tolerance, atol=tolerance, err_msg=name)


@short_fits
@every_estimator
@with_and_without_intercept
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_fit_is_that_of_dense_features(kind, fit_intercept, standardize, engine, rng, seed):
    X = features(rng)
    y, weights = outcomes(kind, X, rng), rng.uniform(0.2, 3.0, size=len(X))
    options = {
        "fit_intercept": fit_intercept,
        "standardize": standardize,
        "prior": Normal(0.5),
    }
    # Rounding may decide whether a chain moves or a draw is kept, once in thousands of fits.
    for state in (seed, seed + 1):
        dense = kind(engine, random_state=state, **options).fit(X, y, weights)
        sparse = kind(engine, random_state=state, **options).fit(csr(X), y, weights)
        if np.allclose(dense.coef_, sparse.coef_, rtol=1e-7, atol=1e-7):
            break
    assert_same_answers(dense, X, sparse, csr(X))


@short_fits
@pytest.mark.parametrize("kind", ESTIMATORS[1:])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_fit_of_three_classes_is_that_of_dense_features(kind, engine, rng, seed):
    X = features(rng)
    y = outcomes(kind, X, rng, n_classes=3)
    dense = kind(engine, random_state=seed).fit(X, y)
    sparse = kind(engine, random_state=seed).fit(csr(X), y)
    assert_same_answers(dense, X, sparse, csr(X))


def unsorted(X):
    """CSR with the entries of each row in reverse order, and explicit zeros."""
    n, p = X.shape
    indices = np.tile(np.arange(p)[::-1], n)
    return scipy.sparse.csr_array(
        (X[:, ::-1].ravel(), indices, np.arange(0, n * p + 1, p)), X.shape
    )


def duplicated(X):
    """COO with every entry in two halves."""
    rows, columns = np.indices(X.shape).reshape(2, -1)
    half = 0.5 * X.ravel()
    places = (np.append(rows, rows), np.append(columns, columns))
    return scipy.sparse.coo_array((np.append(half, half), places), X.shape)


FORMATS = {
    "csc_array": scipy.sparse.csc_array,
    "coo_array": scipy.sparse.coo_array,
    "csr_matrix": scipy.sparse.csr_matrix,
    "csc_matrix": scipy.sparse.csc_matrix,
    "float32": lambda X: scipy.sparse.csr_array(X, dtype=np.float32),
    "int64-indices": lambda X: scipy.sparse.csr_array(
        (csr(X).data, csr(X).indices.astype(np.int64), csr(X).indptr.astype(np.int64)), X.shape
    ),
    "unsorted": unsorted,
    "duplicated": duplicated,
}


@short_fits
@every_estimator
@pytest.mark.parametrize("convert", FORMATS.values(), ids=FORMATS)
def test_every_format_gives_the_same_fit(kind, convert, rng, seed):
    # Values that single precision holds.
    X = np.round(8.0 * features(rng)) / 8.0
    y = outcomes(kind, X, rng)
    engine = LaplaceDraws(n_particles=30)
    expected = kind(engine, random_state=seed).fit(X, y)
    given = convert(X)
    model = kind(engine, random_state=seed).fit(given, y)
    assert_same_answers(expected, X, model, convert(X))
    assert_array_equal(given.toarray(), X)
    assert_same_answers(expected, X, expected, given)


@short_fits
@every_estimator
def test_a_weight_repeats_the_row(kind, rng, seed):
    X = features(rng)
    y, counts = outcomes(kind, X, rng), rng.integers(0, 4, size=len(X))
    counts[:4] = 1
    X[4:8], y[4:8], counts[4:8] = 50.0, y[np.argmax(y)], 0
    engine = LaplaceDraws(n_particles=30)
    weighted = kind(engine, random_state=seed).fit(csr(X), y, counts)
    repeated = kind(engine, random_state=seed)
    repeated.fit(csr(np.repeat(X, counts, axis=0)), np.repeat(y, counts))
    assert_same_answers(repeated, X, weighted, csr(X))


def with_a_constant_column(kind, value, rng, seed):
    """Dense and sparse fit of the same data, and their features."""
    X = features(rng)
    X[:, 1] = value
    y, engine = outcomes(kind, X[:, [0, 2, 3]], rng), LaplaceDraws(n_particles=30)
    return [(kind(engine, random_state=seed).fit(each, y), each) for each in (X, csr(X))]


@short_fits
@every_estimator
@pytest.mark.parametrize("value", [0.0, 0.1, -1e3])
def test_a_constant_column_is_left_alone_as_if_dense(kind, value, rng, seed):
    (dense, X), (sparse, sparse_X) = with_a_constant_column(kind, value, rng, seed)
    assert_allclose(sparse.coef_std_, dense.coef_std_, rtol=1e-6)
    assert_allclose(np.ravel(sparse.predict(sparse_X)), np.ravel(dense.predict(X)), rtol=1e-6)


@short_fits
@pytest.mark.parametrize("kind", ESTIMATORS[1:])
def test_a_constant_column_of_large_values_is_left_alone_as_if_dense(kind, rng, seed):
    (dense, _), (sparse, _) = with_a_constant_column(kind, 1e9 + 0.1, rng, seed)
    assert_allclose(sparse.coef_std_, dense.coef_std_, rtol=1e-3)


# Size.


def wide(rng, n, p, per_row):
    """``per_row`` entries of size one in each row, and outcomes that ten columns decide."""
    rows = np.repeat(np.arange(n), per_row)
    columns = rng.integers(0, p, size=n * per_row)
    values = rng.normal(size=n * per_row)
    X = scipy.sparse.csr_array((values, (rows, columns)), shape=(n, p))
    coef = np.zeros(p)
    coef[:10] = 3.0
    return X, X @ coef + rng.logistic(size=n)


@pytest.fixture
def no_dense_copies(monkeypatch):
    """Makes a sparse array refuse to become dense if that has as many as ``limit`` entries."""
    formats = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    kinds = [getattr(scipy.sparse, f"{name}_array") for name in formats]
    owners = {
        (owner, method)
        for kind in kinds
        for method in ("toarray", "todense")
        for owner in kind.__mro__
        if method in vars(owner)
    }

    def guarded(original, limit):
        def refuse(self, *args, **kwargs):
            if math.prod(self.shape) >= limit:
                raise AssertionError(f"a sparse array of shape {self.shape} was made dense")
            return original(self, *args, **kwargs)

        return refuse

    def forbid(limit):
        for owner, method in owners:
            monkeypatch.setattr(owner, method, guarded(getattr(owner, method), limit))

    return forbid


def test_the_guard_against_dense_copies_works(no_dense_copies):
    no_dense_copies(100)
    for name in ("csr_array", "csc_matrix", "coo_array", "lil_array", "dia_array"):
        with pytest.raises(AssertionError, match="made dense"):
            getattr(scipy.sparse, name)(np.eye(10)).toarray()
    assert scipy.sparse.csr_array(np.eye(9)).toarray().shape == (9, 9)


@short_fits
@every_estimator
@pytest.mark.parametrize("standardize", [True, False])
def test_wide_features_are_never_made_dense(kind, standardize, no_dense_copies, rng):
    """Neither the features nor a matrix of all coefficients, above 2000 of them."""
    n, p = 500, 2100
    X, signal = wide(rng, n, p, 8)
    y = signal if kind is BayesianLinearRegression else (signal > 0).astype(int)
    no_dense_copies(n * p // 4)
    model = kind(SVGD(n_particles=10, max_iter=5), standardize=standardize, random_state=0)
    model.fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict_quantiles(X[:50], [0.1, 0.9])).all()


@short_fits
@every_estimator
def test_many_rows_are_never_made_dense(kind, no_dense_copies, rng):
    n, p = 20_000, 50
    X, signal = wide(rng, n, p, 2)
    y = signal if kind is BayesianLinearRegression else (signal > 0).astype(int)
    no_dense_copies(n * p // 10)
    kind(LaplaceDraws(n_particles=10), random_state=0).fit(X, y)


@pytest.mark.parametrize("kind", [small.later(ESTIMATORS[0]), ESTIMATORS[1]])
def test_a_large_problem_fits_and_says_that_it_is_whitened_diagonally(kind, no_dense_copies, rng):
    n, p = 20_000, 5_000
    X, signal = wide(rng, n, p, 8)
    y = signal if kind is BayesianLinearRegression else (signal > 0).astype(int)
    no_dense_copies(n * p // 100)
    model = kind(SVGD(n_particles=20, max_iter=20), random_state=0)
    tracemalloc.start()
    try:
        # Twenty particles are too few for the spread, and a fit may say that as well.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert all(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    messages = [str(warning.message) for warning in caught]
    assert sum("coordinates whitening is diagonal" in message for message in messages) == 1
    assert peak < 8 * n * p / 3
    assert len(model.posterior_.particles) == 20
    coef = np.ravel(model.coef_)
    assert coef[:10].min() > np.abs(coef[10:]).mean()


@with_and_without_intercept
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_mode_of_a_large_problem_is_that_of_scikit_learn(fit_intercept, rng):
    """The mean of antithetic draws is the mode; an error counts in standard deviations."""
    n, p, scale = 20_000, 5_000, 0.7
    X, signal = wide(rng, n, p, 8)
    y = signal > 0.5
    clf = BayesianLogisticRegression(
        LaplaceDraws(n_particles=10),
        prior=Normal(scale),
        intercept_prior=Normal(1e6),
        standardize=False,
        fit_intercept=fit_intercept,
        random_state=0,
    ).fit(X, y)
    point = LogisticRegression(C=scale**2, tol=1e-8, max_iter=1000, fit_intercept=fit_intercept)
    point.fit(scipy.sparse.csr_matrix(X), y)
    target = LogisticTarget(X, y, prior=Normal(scale), fit_intercept=fit_intercept)
    mode = clf.posterior_.mean()
    sd = 1 / np.sqrt(target.hessian_diagonal(mode))
    expected = np.append(point.intercept_, point.coef_) if fit_intercept else point.coef_[0]
    assert (np.abs(mode - expected) < 0.01 * sd).all()


# What hides in the storage.


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("decades", [0, 12])
def test_location_and_scale_are_those_of_dense_features(offset, decades, rng):
    """Weights may differ by 24 orders of magnitude; a column without a zero may be far away."""
    X = features(rng)
    X[:, 1] = 3.7
    X[:, 2] = rng.normal(size=len(X)) + offset
    weights = 10.0 ** rng.uniform(-decades, decades, len(X))
    mean, scale = location_and_scale(X, weights)
    sparse_mean, sparse_scale = location_and_scale(scipy.sparse.csr_array(X), weights)
    assert_allclose(sparse_mean, mean, rtol=1e-12, atol=1e-12 * np.abs(X).max())
    assert_allclose(sparse_scale, scale, rtol=1e-7)


@short_fits
@every_estimator
def test_entries_in_two_parts_count_by_their_sum(kind, rng):
    X = features(rng)
    y = outcomes(kind, X, rng)
    whole = scipy.sparse.csr_array(X)
    parts = scipy.sparse.csr_array(
        (np.repeat(0.5 * whole.data, 2), np.repeat(whole.indices, 2), 2 * whole.indptr),
        shape=X.shape,
    )
    before = parts.data.copy()
    expected = kind("laplace", random_state=0).fit(whole, y)
    assert_allclose(kind("laplace", random_state=0).fit(parts, y).coef_, expected.coef_, rtol=1e-9)
    assert_array_equal(parts.data, before)
