"""Rows in shards against the same rows in memory: targets, fits, predictions, and faults."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianOrdinalRegression,
    BayesianPoissonRegression,
)
from skstein.inference import SVGD, LaplaceDraws
from skstein.outcomes import Bernoulli, StudentT
from skstein.priors import Laplace
from skstein.shards import Chunks
from skstein.shards.chunks import LocalShards
from skstein.targets import LinearTarget, RegressionTarget, Surrogate, over_shards
from skstein.targets.regression.design import make_design
from skstein.targets.regression.sign_constraints import SignConstrainedTarget, SignConstraintMap

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N = 600
CUTS = [200, 200, 450]  # of which one block is empty
QUICK = SVGD(n_particles=20, max_iter=15)


def pieces(values, cuts=CUTS):
    return None if values is None else Chunks(np.split(values, cuts))


@pytest.fixture
def rows(rng):
    """Features, one constant and one far from 0, a signal, and weights of which some are 0."""
    X = rng.normal(size=(N, 4)) * [1.0, 20.0, 0.1, 0.0] + [0.0, 5.0, 1e5, 2.5]
    return X, X[:, 0] + 0.05 * X[:, 1], rng.integers(0, 3, N).astype(float)


# Targets.


def regressions(rng):
    X = rng.normal(size=(40, 3)) + [0.0, 1.0, 10.0]
    y = X[:, 0] + rng.normal(size=40)
    options = {
        "sample_weight": rng.uniform(0.5, 2.0, 40),
        "center": X.mean(axis=0),
        "scale": X.std(axis=0),
        "prior": Laplace(),
    }
    return X, [
        (RegressionTarget(Bernoulli(), X, (y > 0).astype(int), **options)),
        (RegressionTarget(StudentT(), X, y, offset=0.1 * y, **options)),
        (LinearTarget(X, y, **options)),
    ]


def cut(target, X, cuts):
    """The same target, its rows in shards; empty blocks are dropped."""

    def piece(where):
        offset = None if target.offset is None else target.offset[where]
        center, scale = X.mean(axis=0), X.std(axis=0)
        design = make_design(X[where], True, center, scale, copied_up_to=0)
        return target.with_rows(design, target.y[where], target.weights[where], offset)

    blocks = [where for where in np.split(np.arange(len(X)), cuts) if len(where)]
    shards = LocalShards([partial(piece, where) for where in blocks])
    return over_shards(target, shards, [len(where) for where in blocks])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=6))
def test_every_cut_gives_the_same_density_score_and_hessian(cuts):
    rng = np.random.default_rng(0)
    X, targets = regressions(rng)
    rows = rng.choice(40, 9, replace=False)
    for target in targets:
        sharded, theta = cut(target, X, sorted(cuts)), 0.3 * rng.normal(size=(5, target.dim))
        for which in (None, rows):
            close = partial(assert_allclose, rtol=1e-12, atol=1e-12 * 40)
            close(sharded.log_likelihood(theta, which), target.log_likelihood(theta, which))
            close(sharded.score(theta, which), target.score(theta, which))
            close(sharded.hessian(theta[0], which), target.hessian(theta[0], which))
        close(sharded.hessian_diagonal(theta[0]), target.hessian_diagonal(theta[0]))
        for found, expected in zip(
            sharded.log_density_and_score(theta), target.log_density_and_score(theta), strict=True
        ):
            close(found, expected)
        few = np.sort(rows)
        close(
            sharded.take(few).pointwise_log_likelihood(theta),
            target.take(few).pointwise_log_likelihood(theta),
        )


def test_linear_regression_needs_its_rows_three_times(rng):
    X, (*_, target) = regressions(rng)
    calls = []
    shards = cut(target, X, [15])._shards

    class Counted(LocalShards):
        def map(self, function, *args, each=None):
            calls.append(args[0])
            return super().map(function, *args, each=each)

    sharded = over_shards(target, Counted(shards._makers), [15, 25])
    assert calls == ["_gram_of_rows", "_sums", "_sums"]
    sharded.log_density_and_score(rng.normal(size=(100, target.dim)))
    sharded.hessian(np.zeros(target.dim))
    assert len(calls) == 3


@pytest.mark.parametrize("kind", ["dense", "sparse", "one-signed"])
def test_a_surrogate_of_shards_is_that_of_all_rows(kind, rng):
    n, cuts = 3000, [700, 700, 2000]
    X = rng.normal(size=(n, 3))
    X = scipy.sparse.csr_array(X * (X > 0.0)) if kind == "sparse" else X
    y = (X[:, [0]].sum(axis=1) + rng.logistic(size=n) > 0).astype(int)
    weights = rng.uniform(0.5, 2.0, n)
    rows = RegressionTarget(Bernoulli(), X, y, sample_weight=weights, offset=0.1 * y)

    def piece(where):
        return rows.with_rows(*rows.rows_at(where))

    blocks = [where for where in np.split(np.arange(n), cuts) if len(where)]
    shards = LocalShards([partial(piece, where) for where in blocks])
    both = [rows, over_shards(rows, shards, [len(where) for where in blocks])]
    if kind == "one-signed":
        both = [
            SignConstrainedTarget(of, SignConstraintMap(np.array([0, 1, 0, 0]), 1.0)) for of in both
        ]
    few, apart = (Surrogate(of, 300) for of in both)
    assert apart.n_rows == few.n_rows
    assert not apart.in_shards
    theta = 0.3 * rng.normal(size=(5, 4))
    for found, expected in zip(
        apart.log_density_and_score(theta), few.log_density_and_score(theta), strict=True
    ):
        assert_allclose(found, expected, rtol=1e-6)


# Fits.


def problems(rng, signal):
    n = len(signal)
    noise = rng.logistic(size=n)
    return {
        "classes": (BayesianLogisticRegression(), (signal + noise > 0).astype(int)),
        "text": (
            BayesianLogisticRegression(class_weight="balanced"),
            np.array(["low", "mid", "top"])[np.digitize(signal + noise, [-1.0, 1.0])],
        ),
        "signs": (BayesianLogisticRegression(positive=[1, 0, 0, 0]), np.sign(signal + noise)),
        "ordered": (BayesianOrdinalRegression(), np.digitize(signal + noise, [-1.0, 1.0])),
        "numbers": (BayesianLinearRegression(), 100.0 + 7.0 * (signal + noise)),
        "noise": (BayesianLinearRegression(noise="heteroscedastic"), 9.0 * signal + noise),
        "counts": (BayesianPoissonRegression(), rng.poisson(np.exp(0.3 * signal))),
    }


NAMES = ("classes", "text", "signs", "ordered", "numbers", "noise", "counts")


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_to_chunks_is_that_of_all_rows(name, rows, rng):
    X, signal, weights = rows
    model, y = problems(rng, signal)[name]
    offset = 0.1 * rng.normal(size=N) if name in ("counts", "numbers", "classes") else None
    model.set_params(inference="laplace", random_state=0)
    expected = model.fit(X, y, weights, offset).posterior_
    found = model.fit(pieces(X), pieces(y), pieces(weights), pieces(offset)).posterior_
    assert found.names == expected.names
    sd = np.where(expected.std() > 0.0, expected.std(), 1.0)
    assert_allclose((found.particles - expected.particles) / sd, 0.0, atol=1e-6)


def test_sorted_outcomes_leave_blocks_with_one_class(rows, rng):
    X, signal, _ = rows
    order = np.argsort(signal)
    X, y = X[order], (signal[order] > 0).astype(int)
    model = BayesianLogisticRegression("laplace", random_state=0)
    expected = model.fit(X, y).coef_
    assert_allclose(model.fit(pieces(X), pieces(y)).coef_, expected, rtol=1e-6)


@pytest.mark.parametrize("engine", [SVGD(20, max_iter=30, batch_size=50), LaplaceDraws(50)])
def test_minibatches_of_shards_are_those_of_all_rows(engine, rows):
    X, signal, _ = rows
    y = (signal > 0.1).astype(int)
    model = BayesianLogisticRegression(engine, random_state=0)
    expected = model.fit(X, y).posterior_
    found = model.fit(pieces(X), pieces(y)).posterior_
    assert_allclose((found.particles - expected.particles) / expected.std().max(), 0.0, atol=1e-6)


def test_sparse_chunks_and_a_column_of_offsets(rows, rng):
    X, signal, weights = rows
    X[:, 2] = 0.1 * rng.normal(size=N)
    X[rng.random(X.shape) < 0.5] = 0.0
    y = rng.poisson(np.exp(0.3 * signal))
    model = BayesianPoissonRegression("laplace", offset=2, random_state=0)
    expected = model.fit(X, y, weights).coef_
    first, *others = np.split(X, CUTS)
    sparse = Chunks([scipy.sparse.coo_array(first), *map(scipy.sparse.csr_array, others)])
    assert_allclose(model.fit(sparse, pieces(y), pieces(weights)).coef_, expected, rtol=1e-6)


def test_an_offset_beside_chunks_is_refused_when_predicting(rows, rng):
    X, signal, _ = rows
    offset, y = rng.normal(size=N), rng.poisson(np.exp(0.3 * signal))
    model = BayesianPoissonRegression("laplace", random_state=0).fit(X, y, offset=offset)
    refused = "predictions of X in blocks take no offset beside it"
    for predict in (model.predict, model.predict_interval):
        with pytest.raises(TypeError, match=refused):
            predict(pieces(X), offset=offset)


def test_files_are_read_one_at_a_time(rows, tmp_path):
    X, signal, _ = rows
    y = (signal > 0.1).astype(int)
    for i, (part, labels) in enumerate(zip(np.split(X, CUTS), np.split(y, CUTS), strict=True)):
        np.save(tmp_path / f"X{i}.npy", part)
        np.save(tmp_path / f"y{i}.npy", labels)
    names = [[tmp_path / f"{name}{i}.npy" for i in range(4)] for name in "Xy"]
    model = BayesianLogisticRegression(QUICK, random_state=0)
    expected = model.fit(pieces(X), pieces(y)).posterior_.particles
    assert_array_equal(model.fit(*map(Chunks, names)).posterior_.particles, expected)


def test_parquet_files_have_names_of_columns(rows, tmp_path):
    pytest.importorskip("pyarrow")
    X, signal, _ = rows
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=signal)
    for i, part in enumerate((frame[:300], frame[300:])):
        part.to_parquet(tmp_path / f"{i}.parquet")
    files = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    model = BayesianLinearRegression("laplace", random_state=0)
    model.fit(Chunks(files, columns=list("abcd")), Chunks(files, columns="y"))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert_allclose(
        model.coef_, model.fit(frame[list("abcd")], frame.y).coef_, rtol=1e-6, atol=1e-12
    )


def refused(X, y, match, kind=ValueError, model=None, **more):
    model = BayesianLogisticRegression("laplace") if model is None else model
    with pytest.raises(kind, match=match):
        model.fit(X, y, **more)
    assert not hasattr(model, "n_features_in_")


def test_what_is_wrong_with_a_block_is_said(rows):
    X, signal, weights = rows
    y = (signal > 0.1).astype(int)
    bad = X.copy()
    bad[203, 1] = np.nan
    refused(pieces(bad), pieces(y), r"X holds NaN or infinity in row 3, column 1 \(block 2\)")
    refused(pieces(X), Chunks([y[:200], y[200:]]), "y has 2 pieces and X has 4")
    refused(pieces(X), pieces(y, [200, 210, 450]), r"y has 10 rows and X has 0.*\(block 1\)")
    refused(pieces(X), y, "y must come in Chunks, as X does", TypeError)
    refused(X, pieces(y), "if all of X, y, weights and offset are Chunks", TypeError)
    model = BayesianLogisticRegression("laplace").fit(pieces(X), pieces(y))
    with pytest.raises(TypeError, match="predict each piece by itself"):
        model.predict(pieces(X))
    refused(pieces(X), pieces(np.zeros(N)), "only one class")
    gaps = np.where(signal > 1.0, None, y.astype(str).astype(object))
    refused(pieces(X), pieces(gaps), r"y contains NaN \(block 0\)")
    for text in (y[200:].astype(str), y[200:].astype(str).astype(object)):
        mixed = Chunks([y[:200], text])
        refused(Chunks([X[:200], X[200:]]), mixed, "y is text in block 1 and numbers in block 0")
    refused(pieces(X), pieces(y), "positive weight", sample_weight=pieces(0.0 * weights))
    refused(
        pieces(X),
        pieces(-1.0 - y),
        r"must not be negative.* \(block 0\)",
        model=BayesianPoissonRegression(),
    )
    wide = Chunks([X[:300], X[300:, :3]])
    refused(wide, Chunks([y[:300], y[300:]]), r"X has 3 columns, and 4 .*\(block 1\)")
    effects = BayesianLinearRegression(random_effects=[0])
    refused(pieces(X), pieces(signal), "random_effects takes rows in memory", TypeError, effects)
    with pytest.raises(TypeError, match="partial_fit takes rows in memory"):
        BayesianLinearRegression("pmd").partial_fit(pieces(X), pieces(signal))
    with pytest.raises(ValueError, match=r"x\.csv is not a file of a known kind"):
        Chunks(["x.csv"]).read(0)
    assert Chunks(np.array(["x.npy"])).sources == ["x.npy"]
    for one in (signal, pd.DataFrame(X)):
        with pytest.raises(TypeError, match="must be a list of pieces, got one"):
            Chunks(one)
    with pytest.raises(TypeError, match="piece 0 is of type ndarray: leave columns out"):
        Chunks([X], columns=["a"]).read(0)


def test_frames_with_other_columns_are_refused(rows):
    pd = pytest.importorskip("pandas")
    X, signal, _ = rows
    frame, y = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]), (signal > 0.1).astype(int)
    model = BayesianLogisticRegression("laplace", random_state=0)
    for names in (["b", "a", "c"], ["a", "b", "z"]):
        later = frame[200:].set_axis(names, axis=1)
        refused = r"X has the columns .*, and \['a', 'b', 'c'\] in the first one \(block 1\)"
        with pytest.raises(ValueError, match=refused):
            model.fit(Chunks([frame[:200], later]), Chunks([y[:200], y[200:]]))


def test_chunks_of_polars_frames(rows):
    pl = pytest.importorskip("polars")
    X, signal, _ = rows
    y = (signal > 0.1).astype(int)
    model = BayesianLogisticRegression("laplace", random_state=0)
    expected = model.fit(X, y).coef_
    halves = [pl.DataFrame(part, schema=["a", "b", "c", "d"]) for part in (X[:200], X[200:])]
    found = model.fit(Chunks(halves), Chunks([y[:200], y[200:]])).coef_
    assert_allclose(found, expected, rtol=1e-9)
