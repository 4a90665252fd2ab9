"""`partial_fit`: a stream of rows against all of them at once, and scikit-learn's conventions."""

import pickle
import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianNegativeBinomialRegression,
    BayesianProbitRegression,
    predictive,
)
from skstein.inference import ENGINES, PMD, LaplaceDraws
from skstein.targets import LogisticTarget
from skstein.targets.laplace_at_mode import laplace_approximation
from small import later

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CASES = {
    "linear": (BayesianLinearRegression, None),
    "logistic": (BayesianLogisticRegression, 2),
    "softmax": (BayesianLogisticRegression, 3),
    "probit": (BayesianProbitRegression, 2),
    "one-vs-rest": (BayesianProbitRegression, 3),
}
every_case = pytest.mark.parametrize("case", CASES)
# Three probit regressions take as long as all the other cases of a test together, nearly.
short_case = pytest.mark.parametrize("case", [*list(CASES)[:-1], later("one-vs-rest")])


def data(case, n, rng, p=2):
    X = 5.0 + 2.0 * rng.normal(size=(n, p))
    latent = (X - 5.0) @ np.linspace(0.5, -0.5, p)
    if case == "linear":
        return X, 100.0 + latent + rng.normal(size=n)
    noise = rng.logistic(size=n)
    return X, np.digitize(latent + noise, [0.0] if CASES[case][1] == 2 else [-1.0, 1.0])


def make(case, n_particles=100, seed=0, **params):
    Estimator, _ = CASES[case]
    settings = {"n_moves": 5, "max_iter": 2, **params}
    return Estimator(PMD(n_particles, **settings), random_state=seed)


def feed(model, X, y, cuts, sample_weight=None):
    """`partial_fit` with the rows between the cuts."""
    options = {} if isinstance(model, BayesianLinearRegression) else {"classes": np.unique(y)}
    for start, stop in pairwise(cuts):
        weights = None if sample_weight is None else sample_weight[start:stop]
        model.partial_fit(X[start:stop], y[start:stop], sample_weight=weights, **options)
    return model


@short_case
@quiet
def test_a_stream_is_near_a_fit_of_all_rows(case, rng, seed):
    """Some tenths of a standard deviation; the second half left out would widen it by 40 %."""
    X, y = data(case, 1200, rng)
    X = StandardScaler().fit_transform(X)
    y = (y - 100.0) / 1.5 if case == "linear" else y
    fitted, streamed = (
        make(case, 500, seed, init="laplace", n_moves=30).set_params(standardize=False)
        for _ in range(2)
    )
    fitted.fit(X, y)
    feed(streamed, X, y, [0, 600, 800, 1200])
    sd = fitted.posterior_.std()
    gap = (streamed.posterior_.mean() - fitted.posterior_.mean()) / sd
    assert np.sqrt(np.mean(gap**2)) < 0.6
    assert_allclose(streamed.posterior_.std() / sd, 1.0, atol=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["three classes", "rare counts"])
def test_short_chunks_lose_nothing(outcome, rng, seed):
    """Within a tenth of a standard deviation, where the particles alone were off by .2 to .5."""
    X = rng.normal(size=(3000, 2))
    eta = X @ [0.5, -0.5]
    options = {"random_state": seed, "standardize": False}
    if outcome == "three classes":
        Estimator, classes = BayesianLogisticRegression, {"classes": [0, 1, 2]}
        y = np.digitize(eta + rng.logistic(size=3000), [-1.0, 1.0])
    else:
        Estimator, classes = BayesianNegativeBinomialRegression, {}
        y = rng.negative_binomial(1.0, 1.0 / (1.0 + np.exp(eta - 1.5)))
    fitted = Estimator(**options).fit(X, y)
    streamed = Estimator(PMD(), **options)
    for start in range(0, 3000, 300):
        streamed.partial_fit(X[start : start + 300], y[start : start + 300], **classes)
    sd = fitted.posterior_.std()
    gap = (streamed.posterior_.mean() - fitted.posterior_.mean()) / sd
    assert np.abs(gap).max() < 0.1
    assert_allclose(streamed.posterior_.std() / sd, 1.0, atol=0.1)


# At .1 the particles of one seed in nine are the ones that were weighted, up to .2 off.
@pytest.mark.parametrize(("least_noise", "limit"), [(0.3, 0.12), later(0.1, 0.3)])
@quiet
def test_a_linear_stream_keeps_all_that_rows_say(least_noise, limit, rng, seed):
    """Outliers, and the first rows without one: a few sums are enough, and no row is held."""
    X = rng.normal(size=(500, 3))
    noise = np.exp(1.5 * rng.normal(size=500))
    noise[:100] = least_noise * rng.normal(size=100)
    y = X @ [1.0, 0.0, -1.0] + noise
    options = {"random_state": seed, "standardize": False}
    fitted = BayesianLinearRegression("pmfvb", **options).fit(X, y)
    streamed = feed(BayesianLinearRegression(PMD(), **options), X, y, [0, 100, 300, 500])
    sd = fitted.posterior_.std()
    gap = (streamed.posterior_.mean() - fitted.posterior_.mean()) / sd
    assert np.abs(gap).max() < limit
    assert_allclose(streamed.posterior_.std() / sd, 1.0, atol=limit)
    assert streamed.posterior_.converged
    assert [target.n_rows for target in streamed.posterior_.state.held] == [0]


@pytest.mark.parametrize("case", ["linear", "logistic"])
@quiet
def test_a_stream_of_many_coordinates(case, rng, seed):
    """Forty, in which a quadratic has more coefficients than there are particles."""
    X, y = data(case, 4000, rng, p=40)
    engine = {"n_particles": 300, "init": "laplace"}
    streamed = feed(make(case, **engine, seed=seed), X, y, [0, 1000, 2000, 4000])
    fitted = CASES[case][0]("mcmc", random_state=seed).fit(X, y)
    gap = (streamed.posterior_.mean() - fitted.posterior_.mean()) / fitted.posterior_.std()
    assert np.sqrt(np.mean(gap**2)) < 0.1
    assert_allclose(streamed.posterior_.std() / fitted.posterior_.std(), 1.0, atol=0.2)


@quiet
def test_rows_are_held_while_no_quadratic_fits(rng):
    """Rare events at first, then so many that the rows are known well enough by a quadratic."""
    X = rng.normal(size=(4400, 1))
    y = (X[:, 0] + np.repeat([-4.0, 0.0], [400, 4000]) + rng.logistic(size=4400) > 0).astype(int)
    model = BayesianLogisticRegression(PMD(400), random_state=0)
    held = []
    for start in (0, 200, 400):
        rows = slice(start, start + 200 if start < 400 else None)
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
        held.append(sum(target.n_rows for target in model.posterior_.state.held))
    assert held == [200, 400, 0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("drift", [2.0, later(6.0)])
def test_a_stream_that_drifts_away_from_what_it_remembers_is_reported(drift, rng, seed):
    """No chunk is far from the one before; all together the posterior moves many deviations."""
    X = rng.normal(size=(8000, 2))
    y = (X[:, 0] + drift * np.linspace(-0.5, 0.5, 8000) + rng.logistic(size=8000) > 0).astype(int)
    model = BayesianLogisticRegression(PMD(), random_state=seed)
    with pytest.warns(ConvergenceWarning, match="earlier rows does not fit where the posterior is"):
        for start in range(0, 8000, 250):
            model.partial_fit(X[start : start + 250], y[start : start + 250], classes=[0, 1])
    assert model.posterior_.diagnostics["memory_error"] > 0.1


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_that_are_held_are_copies(is_sparse, rng):
    """The caller may fill one array with chunk after chunk."""
    X, y = rng.normal(size=(400, 2)), rng.poisson(1.0, size=400)
    weights = rng.uniform(0.5, 2.0, size=400)
    own, filled = (BayesianNegativeBinomialRegression(PMD(400), random_state=0) for _ in range(2))
    X_buffer, y_buffer, buffer = np.empty((100, 2)), np.empty(100), np.empty(100)
    X_buffer = sparse.csr_array(np.ones((100, 2))) if is_sparse else X_buffer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for rows in np.split(np.arange(400), 4):
            features = sparse.csr_array(X[rows]) if is_sparse else X[rows]
            own.partial_fit(features, y[rows], weights[rows])
            (X_buffer.data if is_sparse else X_buffer)[...] = (
                features.data if is_sparse else features
            )
            y_buffer[:], buffer[:] = y[rows], weights[rows]
            filled.partial_fit(X_buffer, y_buffer, buffer)
    assert own.posterior_.state.held
    assert_array_equal(own.posterior_.particles, filled.posterior_.particles)


def test_an_engine_with_wrong_parameters_is_named_by_partial_fit():
    X = np.linspace(-1.0, 1.0, 40)
    X, y = X[:, None], np.sin(5.0 * X)
    with pytest.raises(ValueError, match="The 'n_particles' parameter of PMD"):
        BayesianLinearRegression(PMD(n_particles=-5)).partial_fit(X, y)


@short_case
@quiet
def test_the_first_rows_standardise_the_stream(case, rng):
    """The same particles as of rows that a scaler fitted to the first ones has transformed."""
    X, y = data(case, 400, rng)
    streamed = feed(make(case), X, y, [0, 200, 400])
    scaler = StandardScaler().fit(X[:200])
    shift, scale = (y[:200].mean(), y[:200].std()) if case == "linear" else (0, 1)
    scaled = make(case).set_params(standardize=False)
    feed(scaled, scaler.transform(X), (y - shift) / scale, [0, 200, 400])
    coef = scaled.coef_ * scale / scaler.scale_
    assert_allclose(streamed.coef_, coef, rtol=1e-6, atol=1e-8)
    intercept = shift + scale * scaled.intercept_ - coef @ scaler.mean_
    assert_allclose(streamed.intercept_, intercept, rtol=1e-6)


@short_case
@quiet
def test_the_first_call_is_a_fit(case, rng):
    X, y = data(case, 300, rng)
    fitted = make(case).fit(X, y)
    streamed = feed(make(case), X, y, [0, 300])
    assert_array_equal(streamed.posterior_.particles, fitted.posterior_.particles)
    assert streamed.n_iter_ == fitted.n_iter_


@short_case
@quiet
def test_fit_and_partial_fit_after_each_other(case, rng):
    """A fit begins anew; `partial_fit` after it goes on from its rows, but for what it held."""
    X, y = data(case, 600, rng)
    streamed = feed(make(case), X, y, [0, 300, 600])
    other = make(case).fit(X[:300], y[:300])
    feed(other, X, y, [300, 600])
    gap = other.posterior_.particles - streamed.posterior_.particles
    # Of three classes: .03, and .1 in one of twenty-six.
    assert np.abs(gap / streamed.posterior_.std()).max() < 0.25
    assert other.n_iter_ == streamed.n_iter_ == 3
    streamed.fit(X[:300], y[:300])
    again = make(case).fit(X[:300], y[:300])
    assert_array_equal(streamed.posterior_.particles, again.posterior_.particles)


@every_case
@quiet
def test_every_prediction_works_after_a_stream(case, rng):
    X, y = data(case, 400, rng)
    model = feed(make(case), X, y, [0, 200, 300, 400])
    n, k = len(X), CASES[case][1]
    assert model.predict(X).shape == (n,)
    assert model.score(X, y) > 0.3
    assert model.log_predictive(X, y).shape == (n,)
    assert model.predict_interval(X).shape == ((n, 2) if k is None else (n, k, 2))
    assert model.sample_predictive(X, 3, random_state=0).shape == (n, 3)
    assert model.predict_uncertainty(X).total.shape == (n,)
    assert predictive(model, X).mean().shape == ((n,) if k is None else (n, k))
    if k is not None:
        assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.inference_.n_particles == len(model.posterior_) == 100
    assert model.n_iter_ == model.posterior_.n_iter == 4
    assert model.n_features_in_ == 2
    assert not hasattr(clone(model), "posterior_")


@short_case
@quiet
def test_weights_equal_repetition_in_a_stream(case, rng):
    X, y = data(case, 400, rng)
    weights = rng.integers(0, 4, size=400)
    rows = np.repeat(np.arange(400), weights)
    cut = weights[:200].sum()
    weighted = feed(make(case), X, y, [0, 200, 400], weights)
    repeated = feed(make(case), X[rows], y[rows], [0, cut, len(rows)])
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7, atol=1e-8)
    assert_allclose(weighted.coef_std_, repeated.coef_std_, rtol=1e-7)


@short_case
@quiet
def test_rows_without_weight_are_seen_and_say_nothing(case, rng):
    """The same as without them; with `n_total`, passes end where the rows do."""
    X, y = data(case, 400, rng)
    weights = (np.arange(400) % 2).astype(float)
    weights[200:300] = 0.0  # a chunk of its own
    y[weights == 0.0] = y[0]
    rows = np.flatnonzero(weights)
    given, without = make(case, n_total=400), make(case, n_total=len(rows))
    for _ in range(2):
        feed(given, X, y, [0, 200, 300, 350, 400], weights)
        feed(without, X[rows], y[rows], np.searchsorted(rows, [0, 200, 350, 400]))
    assert given.posterior_.diagnostics["n_seen"] == 800
    assert given.posterior_.diagnostics["posterior_power"] == 1.0  # the second pass is complete
    assert_array_equal(given.posterior_.particles, without.posterior_.particles)
    assert_array_equal(given.posterior_.weights, without.posterior_.weights)


@every_case
@quiet
def test_a_chunk_without_weight_is_nothing_but_not_the_first_one(case, rng):
    X, y = data(case, 200, rng)
    options = {} if case == "linear" else {"classes": np.unique(y)}
    with pytest.raises(ValueError, match="at least one non-zero number"):
        make(case).partial_fit(X, y, sample_weight=np.zeros(200), **options)
    model = feed(make(case, n_total=400), X, y, [0, 200])
    before = model.posterior_.particles
    for storage in (np.asarray, sparse.csr_array):
        model.partial_fit(storage(X[:100]), y[:100], sample_weight=np.zeros(100))
        assert_array_equal(model.posterior_.particles, before)
    assert model.posterior_.diagnostics["n_seen"] == 400
    # The next pass may end with such a chunk.
    model.partial_fit(X, y).partial_fit(X, y, sample_weight=np.zeros(200))
    assert model.posterior_.diagnostics["n_seen"] == 800
    assert not np.array_equal(model.posterior_.particles, before)


@short_case
@quiet
def test_sparse_chunks_are_dense_ones(case, rng):
    X, y = data(case, 400, rng)
    X[rng.random(X.shape) < 0.5] = 0.0
    dense = feed(make(case), X, y, [0, 200, 400])
    mixed = feed(make(case), sparse.csr_array(X), y, [0, 200])
    feed(mixed, X, y, [200, 400])
    assert_allclose(mixed.coef_, dense.coef_, rtol=1e-7, atol=1e-8)


@quiet
def test_a_pickle_goes_on_with_the_stream(rng):
    X, y = data("logistic", 600, rng)
    model = feed(make("logistic"), X, y, [0, 300])
    other = feed(pickle.loads(pickle.dumps(model)), X, y, [300, 600])
    assert_array_equal(
        other.posterior_.particles, feed(model, X, y, [300, 600]).posterior_.particles
    )


@quiet
def test_a_further_pass_makes_it_exact(rng, seed):
    """Against many particles that have seen all rows at once, from another start."""
    X, y = data("logistic", 2000, rng)
    X = StandardScaler().fit_transform(X)
    model = make("logistic", 2000, seed, n_total=2000, n_moves=30).set_params(standardize=False)
    for _ in range(2):
        feed(model, X, y, [0, 400, 800, 1200, 1600, 2000])
    reference = make("logistic", 4000, seed, init="laplace", n_moves=30)
    reference.set_params(standardize=False)
    reference.fit(X, y)
    gap = (model.posterior_.mean() - reference.posterior_.mean()) / reference.posterior_.std()
    ess = 1 / np.sum(model.posterior_.weights**2)
    assert np.abs(gap).max() < 5 * np.sqrt(1 / ess + 1 / 4000)


@quiet
def test_memory_is_that_of_a_chunk(rng):
    """Four times as many rows: the peak, and the estimator, stay as they are but for a history.

    Chunks are larger than what is held.
    """
    peaks, sizes = [], []
    for n_chunks in (2, 8):
        model = make("logistic", 100)
        stream = np.random.default_rng(0)
        tracemalloc.start()
        for _ in range(n_chunks):
            X, y = data("logistic", 11_000, stream, p=4)
            model.partial_fit(X, y, classes=[0, 1])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        sizes.append(len(pickle.dumps(model)))
    assert peaks[1] < 1.1 * peaks[0]
    assert sizes[1] - sizes[0] < 16 * 100
    assert sizes[1] < 0.5 * X.nbytes


# What is refused, and what is warned of.


@pytest.mark.parametrize("engine", ENGINES)
def test_only_pmd_takes_further_rows(engine):
    model = BayesianLogisticRegression(engine)
    assert hasattr(model, "partial_fit") == (engine == "pmd")
    assert hasattr(model.set_params(inference=ENGINES[engine]()), "partial_fit") == (
        engine == "pmd"
    )
    if engine != "pmd":
        with pytest.raises(AttributeError, match='such as inference="pmd"'):
            model.partial_fit([[0.0], [1.0]], [0, 1], classes=[0, 1])


@quiet
def test_classes_are_given_first_and_stay(rng):
    X, y = data("logistic", 100, rng)
    model = make("logistic")
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"not in classes: \[1\]"):
        model.partial_fit(X, y, classes=[0, 2])
    with pytest.raises(ValueError, match="at least two classes"):
        model.partial_fit(X[y == 0], y[y == 0], classes=[0])
    model.partial_fit(X, y, classes=[1, 0])
    assert_array_equal(model.classes_, [0, 1])
    model.partial_fit(X[y == 1], y[y == 1])
    with pytest.raises(ValueError, match=r"classes=\[0, 1, 2\] are not those of the rows before"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"not in classes: \[2\]"):
        model.partial_fit(X, np.where(y == 1, 2, 0))
    with pytest.raises(ValueError, match='"balanced" needs all rows at once'):
        model.set_params(class_weight="balanced").partial_fit(X, y)


@quiet
def test_a_class_may_come_later(rng, seed):
    X, y = data("softmax", 600, rng)
    order = np.argsort(y == 2, kind="stable")
    with pytest.warns(ConvergenceWarning, match=r"no sample of classes \[2\]"):
        model = make("softmax", 1000, seed).partial_fit(X[order][:200], y[order][:200], [0, 1, 2])
    assert model.predict_proba(X).shape == (600, 3)


@quiet
def test_poor_first_rows_are_reported(rng):
    X, y = data("linear", 40, rng)
    X[:, 1] = 7.0
    with pytest.warns(ConvergenceWarning, match="1 constant features, which are never scaled"):
        make("linear").partial_fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"3 rows for 4 coordinates.*, some hundreds"):
        make("linear").partial_fit(X[:3], y[:3])
    with pytest.warns(
        ConvergenceWarning, match=r"39 rows for 4 coord.* at least 10 for each coord"
    ):
        make("linear").partial_fit(X, y, sample_weight=np.arange(40) > 0)
    sparse_X = sparse.csr_array(np.where(X > 6, X, 0.0) * [1.0, 0.0])
    with pytest.warns(ConvergenceWarning, match="1 constant features"):
        make("linear").partial_fit(sparse_X, y)


@quiet
def test_ten_first_rows_for_each_coordinate_are_no_reason_to_warn(rng):
    X, y = data("linear", 40, rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make("linear").partial_fit(X, y)
    assert not [w for w in caught if "the first rows of a stream" in str(w.message)]


@quiet
def test_outcomes_that_spread_more_than_the_first_are_reported(rng):
    X, y = data("linear", 400, rng)
    model = make("linear").partial_fit(X[:200], y[:200])
    with pytest.warns(ConvergenceWarning, match="y of these rows spreads more than 5 times"):
        model.partial_fit(X[200:], 20.0 * y[200:])
    far = y.copy()
    far[200] = 1e3  # one row
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.partial_fit(X[200:], far[200:])
        model.partial_fit(X[200:210], 100.0 * y[200:210])  # few rows do not tell
        model.partial_fit(X[200:], np.full(200, y[0]))
    assert not [w for w in caught if "y of these rows" in str(w.message)]
    unscaled = make("linear").set_params(standardize=False).partial_fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="standardize=False of the rows before"):
        unscaled.set_params(standardize=True).partial_fit(X[200:], 20.0 * y[200:])


@quiet
def test_a_posterior_of_another_engine_is_not_gone_on_from(rng):
    X, y = data("linear", 100, rng)
    model = BayesianLinearRegression(LaplaceDraws(), random_state=0).fit(X, y)
    model.set_params(inference=PMD(100))
    with pytest.raises(ValueError, match="was not made by PMD, which cannot go on from it"):
        model.partial_fit(X, y)
    model.fit(X, y).partial_fit(X, y)


@pytest.mark.parametrize(
    ("Estimator", "changed", "named"),
    [
        (BayesianLogisticRegression, {"prior__scale": 0.01}, "the prior is not the one"),
        (BayesianLogisticRegression, {"prior": "laplace"}, "the prior is not the one"),
        (BayesianProbitRegression, {"intercept_prior__scale": 1.0}, "the prior is not the one"),
        (BayesianLinearRegression, {"noise_scale": 3.0}, "the prior is not the one"),
        (BayesianLinearRegression, {"standardize": False}, "standardize=True of the rows before"),
        (BayesianProbitRegression, {"fit_intercept": False}, "fit_intercept=True of the rows"),
    ],
)
@quiet
def test_what_the_first_rows_have_fixed_cannot_change(Estimator, changed, named, rng):
    case = "linear" if Estimator is BayesianLinearRegression else "logistic"
    X, y = data(case, 200, rng)
    model = Estimator(PMD(100, n_moves=5, max_iter=2), prior="normal", random_state=0)
    feed(model, X, y, [0, 100])
    before, params = model.posterior_, model.get_params(deep=False)
    with pytest.raises(ValueError, match=f"^{named}"):
        feed(model.set_params(**changed), X, y, [100, 200])
    assert model.posterior_ is before
    feed(model.set_params(**params), X, y, [100, 200])
    model.set_params(**changed).fit(X, y)


@quiet
def test_a_failed_call_leaves_the_stream_as_it_was(rng):
    X, y = data("linear", 300, rng)
    model = feed(make("linear", n_total=250), X, y, [0, 200])
    before = model.posterior_
    with pytest.raises(ValueError, match="n_total=250 rows, of which 50 are left"):
        model.partial_fit(X[200:], y[200:])
    with pytest.raises(ValueError, match="X has 1 features"):
        model.partial_fit(X[200:, :1], y[200:])
    assert model.posterior_ is before
    with pytest.raises(ValueError, match="these 300 rows are more than n_total=250"):
        make("linear", n_total=250).partial_fit(X, y)
    model.partial_fit(X[200:250], y[200:250])


@pytest.mark.slow
@pytest.mark.parametrize(("p", "bound"), [(3, 0.15), (9, 0.25)])
@quiet
def test_a_million_rows(p, bound, seed):
    """After one further pass, against the mode: at this size the posterior is normal."""
    n, chunk = 1_000_000, 10_000
    rng = np.random.default_rng(seed)
    beta = rng.normal(size=p)
    X = rng.normal(size=(n, p))
    y = (X @ beta + rng.logistic(size=n) > 0).astype(int)
    model = BayesianLogisticRegression(PMD(n_total=n), standardize=False, random_state=seed)
    for _ in range(2):
        for start in range(0, n, chunk):
            model.partial_fit(X[start : start + chunk], y[start : start + chunk], classes=[0, 1])
    laplace = laplace_approximation(LogisticTarget(X, y))
    gap = (model.posterior_.mean() - laplace.mode) / np.sqrt(laplace.variances())
    assert np.sqrt(np.mean(gap**2)) < bound
