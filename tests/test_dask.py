"""Dask collections: the bits of chunks in this process, lazy predictions, and what may go wrong.

The cases under "peers" are complaints that other packages of distributed models have had.
"""

import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPRegressor,
    BayesianOrdinalRegression,
    BayesianPoissonRegression,
    SparseGPRegressor,
)
from skstein.inference import FWSS, MCMC, SVGD
from skstein.shards import Chunks
from small import later, network

distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
dask = pytest.importorskip("dask", reason="the extra `dask` is not installed")
da = pytest.importorskip("dask.array", reason="the extra `dask` is not installed")
dd = pytest.importorskip("dask.dataframe", reason="the extra `dask` is not installed")

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Detected different `run_spec`"
)

N = 400
SIZES = (150, 0, 130, 120)
ENGINE = SVGD(n_particles=20, max_iter=15)
NAMES = list("abc")


def cluster(n_workers=2, processes=False):
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=processes,
        dashboard_address=":0",
        silence_logs=50,
    )


@pytest.fixture
def client():
    with cluster() as here, distributed.Client(here) as client:
        yield client


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, 3)) * [1.0, 10.0, 0.1]
    return X, (X[:, 0] + rng.logistic(size=N) > 0).astype(int), rng.integers(0, 3, N).astype(float)


def pieces(values):
    return Chunks(np.split(values, np.cumsum(SIZES)[:-1]))


def blocks(values):
    return da.from_array(values, chunks=(SIZES, *[2] * (values.ndim - 1)))


def frame(X, **columns):
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(**columns), npartitions=3)


def logistic(engine=ENGINE):
    return BayesianLogisticRegression(engine, random_state=0)


def particles(model):
    return model.posterior_.particles


# Identity.


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        (BayesianLogisticRegression, ENGINE),
        later(BayesianLinearRegression, ENGINE),
        later(BayesianLogisticRegression, SVGD(n_particles=20, max_iter=15, surrogate=100)),
    ],
)
def test_the_same_shards_give_the_same_bits_wherever_they_are(kind, engine, rows):
    """In this process, by Dask's threads, and on one worker or three."""
    model = kind(engine, random_state=0)
    expected = particles(model.fit(*map(pieces, rows)))
    assert_array_equal(particles(model.fit(*map(blocks, rows))), expected)
    for n_workers in (1, 3):
        with cluster(n_workers) as here, distributed.Client(here):
            assert_array_equal(particles(model.fit(*map(blocks, rows))), expected)


def test_another_process_gives_the_same_bits_and_survives_the_loss_of_one(rows, monkeypatch):
    """A worker is killed in the middle: what it held is made again elsewhere."""
    from skstein.shards.cluster import ClusterShards

    expected = particles(logistic().fit(*map(pieces, rows)))
    rounds, visit = [], ClusterShards.map
    with cluster(2, processes=True) as here, distributed.Client(here) as client:

        def visit_and_kill(self, *args, **options):
            rounds.append(None)
            if len(rounds) == 15:
                held = client.who_has(self._futures)
                worker = max(addresses[0] for addresses in held.values() if addresses)
                os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)
            return visit(self, *args, **options)

        monkeypatch.setattr(ClusterShards, "map", visit_and_kill)
        assert_array_equal(particles(logistic().fit(*map(blocks, rows))), expected)
    assert len(rounds) > 20


def test_one_round_a_step(rows, client, monkeypatch):
    """What engines cut for threads is not cut for shards."""
    from skstein.shards.cluster import ClusterShards

    rounds, visit = [], ClusterShards.map
    monkeypatch.setattr(
        ClusterShards, "map", lambda self, *a, **k: rounds.append(a[1]) or visit(self, *a, **k)
    )
    X, y, _ = (np.tile(values, (4000 // N, *[1] * (values.ndim - 1))) for values in rows)
    model = logistic(SVGD(n_particles=1000, max_iter=3))
    model.fit(da.from_array(X, chunks=(2000, 3)), y)
    assert sum(name == "_sum" for name in rounds) < 40


def test_chains_on_a_surrogate_take_a_few_rounds(rows, client, monkeypatch):
    """Nothing but the search for the mode, the choice of rows and the last look needs all rows."""
    from skstein.shards.cluster import ClusterShards

    rounds, visit = [], ClusterShards.map
    monkeypatch.setattr(
        ClusterShards, "map", lambda self, *a, **k: rounds.append(a[0]) or visit(self, *a, **k)
    )
    engine = MCMC(surrogate=200, n_draws=20, max_draws=20, n_warmup=20)
    logistic(engine).fit(*map(blocks, rows[:2]))
    assert len(rounds) < 25


def test_what_was_fitted_is_plain_and_loads_without_dask(rows, client, tmp_path):
    X, *_ = rows
    model = logistic("laplace").fit(*map(blocks, rows))
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys; sys.modules.update(dask=None, distributed=None)\n"
        "import pickle, numpy as np\n"
        f"model = pickle.load(open({str(tmp_path / 'model')!r}, 'rb'))\n"
        f"print(model.predict_proba(np.load({str(tmp_path / 'X.npy')!r})).sum(axis=0).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert_allclose(eval(done.stdout), model.predict_proba(X).sum(axis=0))


def test_jobs_on_a_cluster_send_the_rows_once(rows, client, monkeypatch):
    X, y = np.tile(rows[0], (50, 1)), np.tile(rows[1], 50)
    model = logistic(FWSS(3, n_blocks=2, max_iter_oracle=5))
    expected = particles(model.fit(X, y))
    sent, scatter = [], client.scatter

    def counted(data, **options):
        sent.append(data.nbytes)
        return scatter(data, **options)

    monkeypatch.setattr(distributed.Client, "scatter", lambda self, *a, **k: counted(*a, **k))
    with parallel_config(backend="dask", n_jobs=2):
        assert_array_equal(particles(model.fit(X, y)), expected)
    assert sum(size > X.nbytes for size in sent) == 1


# Predictions.


@pytest.mark.parametrize(
    "method",
    ["predict", "predict_proba", "predict_log_proba", "decision_function", "predict_interval"],
)
def test_predictions_are_lazy(method, rows):
    X, *_ = rows
    model = logistic("laplace").fit(*map(blocks, rows))
    expected = getattr(model, method)(X)
    lazy = getattr(model, method)(blocks(X))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == expected.shape
    assert lazy.dtype == expected.dtype
    assert_allclose(lazy.compute(), expected, rtol=1e-12, atol=1e-12)


def test_predictions_of_a_frame_keep_its_index(rows):
    X, y, weights = rows
    table = frame(X)
    table.index = table.index + 1000
    model = logistic("laplace").fit(frame(X)[NAMES], frame(X, y=y).y, frame(X, w=weights).w)
    one, many = model.predict(table), model.predict_proba(table)
    assert one.dtype == y.dtype
    memory = table.compute()
    pd.testing.assert_series_equal(one.compute(), pd.Series(model.predict(memory), memory.index))
    expected = pd.DataFrame(model.predict_proba(memory), memory.index)
    pd.testing.assert_frame_equal(many.compute(), expected)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["b", "a", "c"]])


def test_a_process_and_two_outcomes_at_once_take_blocks(rows):
    X, y, weights = rows
    both = np.column_stack([X[:, 0], np.where(y == y[0], 1.0, -1.0) + X[:, 1]])
    process = SparseGPRegressor(n_inducing=5, random_state=0).fit(X, both)
    lazy = process.predict(blocks(X))
    assert isinstance(lazy, da.Array)
    assert_allclose(lazy.compute(), process.predict(X), rtol=1e-8, atol=1e-8)
    for model in (process, network(BayesianMLPRegressor, max_iter=20).fit(X, both)):
        of_all = model.score(X, both, sample_weight=weights)
        by_blocks = model.score(blocks(X), blocks(both), sample_weight=blocks(weights))
        assert_allclose(by_blocks, of_all, rtol=1e-6)


def test_scores_are_reduced_block_by_block(rows, rng):
    X, y, weights = rows
    counts = rng.poisson(np.exp(0.3 * X[:, 0]))
    for model, outcome in (
        (logistic("laplace"), y),
        (BayesianLinearRegression("laplace"), X[:, 1] + y),
        (BayesianPoissonRegression("laplace"), counts),
    ):
        model.fit(X, outcome)
        of_all = model.score(X, outcome, sample_weight=weights)
        by_blocks = model.score(blocks(X), blocks(outcome), sample_weight=blocks(weights))
        assert_allclose(by_blocks, of_all, rtol=1e-9)
        lazy = model.log_predictive(blocks(X), blocks(outcome))
        assert_allclose(lazy.compute(), model.log_predictive(X, outcome), rtol=1e-12)
        assert_allclose(model.predict(blocks(X)).compute(), model.predict(X), rtol=1e-12)


def test_a_score_of_no_rows_is_refused(rows):
    X, y, _ = rows
    for model in (logistic("laplace"), BayesianLinearRegression("laplace", random_state=0)):
        model.fit(X, y)
        with pytest.raises(ValueError, match="X has no rows"):
            model.score(blocks(X)[:0], blocks(y)[:0])
        with pytest.raises(ValueError, match="no rows of positive weight"):
            model.score(blocks(X), y, np.zeros(N))


def test_labels_of_another_kind_are_refused_by_score(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match="Mix of label input types"):
        logistic("laplace").fit(X, y).score(blocks(X), y.astype(str))


def test_rows_unlike_the_one_that_dask_invents(rows):
    """Whose predictions overflow, or whose group has no number; and blocks without a length."""
    X, y, _ = rows
    X[:, 1] += 20_000.0
    counts = np.floor(np.exp(0.1 * (20_000.0 - X[:, 1])))
    model = BayesianPoissonRegression("laplace", random_state=0).fit(X, counts)
    for table in (blocks(X), frame(X).to_dask_array(lengths=True)):
        assert_allclose(model.predict(table).compute(), model.predict(X))
    sparse = blocks(X).map_blocks(scipy.sparse.csr_array)
    assert_allclose(model.predict(sparse).compute(), model.predict(X))
    with dask.config.set({"dataframe.convert-string": False}):
        table = frame(X, g=np.where(y == 1, "a", "b").astype(object))
        model.set_params(random_effects=["g"]).fit(table.compute(), counts)
        assert_allclose(model.predict(table).compute(), model.predict(table.compute()))


# Peers.


def test_blocks_of_unknown_size_and_frames_are_taken(rows, client):
    X, y, weights = rows
    expected = logistic("laplace").fit(X, y, weights).coef_
    keep = np.ones(N, dtype=bool)
    unknown = [blocks(values)[blocks(keep)] for values in rows]
    assert np.isnan(unknown[0].shape[0])
    assert_allclose(logistic("laplace").fit(*unknown).coef_, expected, rtol=1e-6)
    mixed = unknown[0], da.from_array(y, chunks=99), weights
    assert_allclose(logistic("laplace").fit(*mixed).coef_, expected, rtol=1e-6)
    table = frame(X, y=y, w=weights)
    by_name = logistic("laplace").fit(table[NAMES], table.y, table.w)
    assert_allclose(by_name.coef_, expected, rtol=1e-6)
    assert by_name.feature_names_in_.tolist() == NAMES
    half = frame(X, y=y)
    half = half.map_partitions(lambda part: part[part.index < 140])  # the last one is empty
    found = logistic("laplace").fit(half[NAMES], half.y).coef_
    assert_allclose(found, logistic("laplace").fit(X[:140], y[:140]).coef_, rtol=1e-6)


def test_every_parameter_counts_and_classes_are_many(rows):
    X, y, _ = rows
    labels = np.array(["x", "y", "z"])[y + (X[:, 1] > 5.0)]
    options = {
        "fit_intercept": False,
        "prior": "laplace",
        "standardize": False,
        "class_weight": {"x": 2.0, "y": 1.0, "z": 0.5},
        "random_state": 1,
    }
    model = BayesianLogisticRegression("laplace", **options)
    expected = model.fit(X, labels).posterior_
    found = model.fit(blocks(X), blocks(labels)).posterior_
    assert found.names == expected.names
    assert_allclose(found.mean(), expected.mean(), rtol=1e-5, atol=1e-6)


def test_an_order_that_dask_does_not_know_is_asked_for(rows):
    X, y, _ = rows
    order = ["low", "mid", "high"]
    grades = pd.Categorical.from_codes(y + (X[:, 1] > 5.0), order, ordered=True)
    known = frame(X, y=grades).y
    unknown, model = known.cat.as_unknown(), BayesianOrdinalRegression("laplace", random_state=0)
    assert model.fit(frame(X), known).categories_.tolist() == order
    with pytest.raises(ValueError, match=r"Dask does not know.*give categories=\[\.\.\.\]"):
        model.fit(frame(X), unknown)
    given = model.set_params(categories=order).fit(frame(X), unknown)
    assert given.categories_.tolist() == order


def test_rows_that_do_not_match_are_refused_by_name(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match="y has 399 rows and X has 400"):
        logistic().fit(blocks(X), y[1:])
    with pytest.raises(ValueError, match="sample_weight has 10 rows and X has 400"):
        logistic().fit(blocks(X), blocks(y), da.ones(10))
    with pytest.raises(TypeError, match=r"y is a Dask collection.*y\.compute\(\)"):
        logistic().fit(X, blocks(y))


# Faults.


def test_a_block_that_raises_says_which(rows, client):
    X, y, _ = rows
    X[280, 1] = np.inf
    model = logistic("laplace")
    with pytest.raises(ValueError, match=r"X holds NaN or infinity in row 0, column 1 \(block 3\)"):
        model.fit(blocks(X), blocks(y))
    assert vars(model) == vars(logistic("laplace")) | {"inference": "laplace"}


def interrupted(rows, client, monkeypatch, action, expected, match=None):
    """A fit that comes to its end in the tenth round; the estimator is as it was before."""
    from skstein.shards.cluster import ClusterShards

    model = logistic("laplace").fit(*map(blocks, rows))
    before = dict(vars(model))
    submitted, submit = [], ClusterShards._submitted

    def submit_and_act(self, *args):
        futures = submit(self, *args)
        submitted.append(futures)
        if len(submitted) == 10:
            action()
        return futures

    with monkeypatch.context() as patch:
        patch.setattr(ClusterShards, "_submitted", submit_and_act)
        with pytest.raises(expected, match=match):
            model.fit(*map(blocks, rows))
    assert vars(model) == before
    return submitted


def test_a_closed_client_is_said_in_one_sentence(rows, client, monkeypatch):
    match = "the Dask client was closed before the fit had ended: keep it open"
    interrupted(rows, client, monkeypatch, client.close, RuntimeError, match)


def test_an_interrupt_cancels_what_was_submitted(rows, client, monkeypatch):
    gather = client.gather

    def interrupt(futures):
        raise KeyboardInterrupt

    (*_, last) = interrupted(
        rows,
        client,
        monkeypatch,
        lambda: monkeypatch.setattr(client, "gather", interrupt),
        KeyboardInterrupt,
    )
    assert all(future.cancelled() for future in last)
    monkeypatch.setattr(client, "gather", gather)
    logistic("laplace").fit(*map(blocks, rows))  # the client goes on
