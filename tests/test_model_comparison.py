"""Leave-one-out scores against ArviZ, refits and known tails; stacking against a grid."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import genpareto
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPRegressor,
    BayesianPoissonRegression,
    BayesianProbitRegression,
    ParticlePosterior,
    SparseGPRegressor,
    compare,
    loo,
    to_arviz,
)
from skstein.inference import PMD, LaplaceDraws
from skstein.model_comparison import _stacking_weights, pareto_smoothed

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # Ours and ArviZ's, of single rows; what they say is tested by itself.
    pytest.mark.filterwarnings("ignore:the Pareto shape of"),
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto"),
]


def arviz_stats():
    package = pytest.importorskip("arviz_stats", reason="compared with arviz-stats")
    if not hasattr(package, "loo"):
        pytest.skip("this arviz-stats has no leave-one-out: it is installed without xarray")
    return package


@pytest.fixture(scope="module")
def regression():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X, y = X[:150], y[:150]
    models = {}
    choice = make_column_transformer(("passthrough", ["bmi", "s1"]))
    for name, transformer in (("few", choice), ("all", StandardScaler())):
        reg = BayesianLinearRegression(LaplaceDraws(1000), random_state=0)
        models[name] = make_pipeline(transformer, reg).fit(X, y)
    return models, X, y


@pytest.mark.parametrize("problem", ["regression", "classes", "chains", "few points"])
def test_scores_are_those_of_arviz(problem, seed):
    arviz = arviz_stats()
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:120], y[:120]
    engine = {"chains": "ksd-mcmc", "few points": "svgd"}.get(problem, LaplaceDraws(700))
    if problem == "classes":
        X, y = load_breast_cancer(return_X_y=True)
        X, y = X[:200, :5], np.array(["b", "m"])[y[:200]]
        model = BayesianLogisticRegression(engine, random_state=seed)
    else:
        model = BayesianLinearRegression(engine, random_state=seed)
    model.fit(X, y)
    found = loo(model, X, y)
    data = to_arviz(model, X, y, container="datatree")
    expected = arviz.loo(data, pointwise=True, reff=1.0)
    assert found.n_draws == data["posterior"].sizes["draw"] * data["posterior"].sizes["chain"]
    assert (found.n_draws > 1000) == (problem == "chains")
    assert_allclose(found.pointwise, expected.elpd_i.values, atol=1e-8)
    assert_allclose(found.pareto_k, expected.pareto_k.values, atol=1e-6)
    for name, value in (("elpd", expected.elpd), ("se", expected.se), ("p_loo", expected.p)):
        assert_allclose(getattr(found, name), value, atol=1e-6)
    assert_allclose(found.threshold, expected.good_k)


def test_weights_of_particles_are_part_of_the_ratios(regression, rng):
    """The same draws, chosen unevenly and weighted for it, give the same scores."""
    models, X, y = regression
    model = models["few"]
    inner = model[-1]
    posterior = inner.posterior_
    plain = loo(model, X, y)
    z = (posterior.particles[:, 1] - posterior.mean()[1]) / posterior.std()[1]
    weights = np.exp(0.7 * z)
    chosen = rng.choice(len(z), size=1000, p=(1 / weights) / np.sum(1 / weights))
    try:
        inner.posterior_ = ParticlePosterior(posterior.particles[chosen], weights[chosen])
        weighted = loo(model, X, y)
        uneven = inner.posterior_.weights
        inner.posterior_ = ParticlePosterior(posterior.particles[chosen])
        ignored = loo(model, X, y)
    finally:
        inner.posterior_ = posterior
    assert uneven.max() > 5 * uneven.min()
    error = np.abs(weighted.pointwise - plain.pointwise).mean()
    assert error < 0.3 * np.abs(ignored.pointwise - plain.pointwise).mean() + 0.005
    assert abs(weighted.elpd - plain.elpd) < 1.0


def test_scores_are_those_of_refits():
    """Against fits, each without one of every third row; both have some error."""
    X, y = load_diabetes(return_X_y=True)
    # A stationary scale, so that leaving a row out changes no prior.
    X, y = StandardScaler().fit_transform(X[:30, [2, 8]]), (y[:30] - y[:30].mean()) / y[:30].std()
    model = BayesianLinearRegression("pmfvb", standardize=False, random_state=0)
    expected, left_out = [], range(0, 30, 3)
    for i in left_out:
        rest = np.arange(30) != i
        expected.append(model.fit(X[rest], y[rest]).log_predictive(X[[i]], y[[i]])[0])
    found = loo(model.fit(X, y), X, y).pointwise[left_out]
    assert abs(found.sum() - sum(expected)) < 0.15
    assert np.abs(found - expected).max() < 0.1


def test_of_several_probit_classes_ratios_are_those_of_the_fit(rng):
    X = rng.normal(size=(30, 1))
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=30), [-0.5, 0.5])
    model = BayesianProbitRegression("pmfvb", standardize=False, random_state=0)
    expected, left_out = [], range(0, 30, 5)
    for i in left_out:
        rest = np.arange(30) != i
        expected.append(model.fit(X[rest], y[rest]).log_predictive(X[[i]], y[[i]])[0])
    found = loo(model.fit(X, y), X, y).pointwise[left_out]
    assert_allclose(found, expected, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("weights", ["of rows", "of classes"])
def test_a_weight_below_one_is_left_out_whole(weights, rng):
    X = rng.normal(size=(40, 1))
    y = (X[:, 0] + rng.logistic(size=40) > 0).astype(int)
    params = {"standardize": False, "random_state": 0}
    params |= {"class_weight": {0: 0.2, 1: 0.2}} if weights == "of classes" else {}
    w = np.full(40, 0.2) if weights == "of rows" else np.ones(40)
    model, expected = BayesianLogisticRegression("pmfvb", **params), []
    for i in range(0, 40, 8):
        rest = np.arange(40) != i
        model.fit(X[rest], y[rest], w[rest])
        expected.append(model.log_predictive(X[[i]], y[[i]])[0])
    found = loo(model.fit(X, y, w), X, y, w)
    assert_allclose(found.pointwise[::8], expected, atol=0.03)
    with pytest.warns(UserWarning, match="the fit had weights, .* give sample_weight"):
        loo(model, X, y)


@pytest.mark.filterwarnings("ignore:the fit had 150 rows")
def test_a_weight_is_that_many_rows(regression, rng):
    models, X, y = regression
    counts = rng.integers(0, 4, size=len(y))
    rows = np.repeat(np.arange(len(y)), counts)
    weighted = loo(models["all"], X, y, sample_weight=counts)
    repeated = loo(models["all"], X.iloc[rows], y.iloc[rows])
    for name in ("elpd", "se", "p_loo"):
        assert_allclose(getattr(weighted, name), getattr(repeated, name))
    table = compare(models, X, y, sample_weight=counts)
    assert_allclose(table, compare(models, X.iloc[rows], y.iloc[rows]), atol=1e-5)
    twice = compare(models, X, y, sample_weight=np.full(len(y), 2.0))
    assert_allclose(compare(models, X, y, sample_weight=2.0), twice)


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_the_shape_of_a_known_tail_is_found(k, rng):
    ratios = genpareto(k).rvs(size=(40, 20_000), random_state=rng)
    _, found = pareto_smoothed(np.log(ratios))
    # Its standard error is (1 + k) / sqrt(size) for the 424 points of a tail.
    assert abs(found.mean() - k) < 5 * (1 + k) / np.sqrt(424 * 40) + 0.02
    assert abs(found - k).max() < 5 * (1 + k) / np.sqrt(424)


def test_smoothing_makes_importance_sampling_steadier(rng):
    """Of the variance of a normal, from draws of one too narrow: raw errors have no variance."""
    scale = 0.6
    x = scale * rng.normal(size=(300, 1000))
    log_ratios = -0.5 * x**2 * (1.0 - 1.0 / scale**2)
    smoothed, k = pareto_smoothed(log_ratios)
    assert_allclose(logsumexp(smoothed, axis=1), 0.0, atol=1e-12)
    raw = np.exp(log_ratios - logsumexp(log_ratios, axis=1, keepdims=True))
    found = [np.sum(weights * x**2, axis=1) for weights in (raw, np.exp(smoothed))]
    assert np.mean((found[1] - 1.0) ** 2) < np.mean((found[0] - 1.0) ** 2)
    assert k.mean() > 0.4


def test_a_tail_of_one_value_is_left_alone():
    log_weights, k = pareto_smoothed(np.zeros((2, 100)))
    assert_allclose(log_weights, -np.log(100))
    assert_allclose(k, 0.0)


# ArviZ's own call.
@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.sort_values")
def test_a_table_of_models_is_that_of_arviz(regression):
    arviz = arviz_stats()
    models, X, y = regression
    table = compare(models, X, y)
    assert list(table) == ["elpd", "se", "p_loo", "elpd_diff", "dse", "weight", "bad_k"]
    data = {name: arviz.loo(to_arviz(m, X, y), pointwise=True) for name, m in models.items()}
    expected = arviz.compare(data)
    assert table.index.tolist() == expected.index.tolist() == ["all", "few"]
    for column in ("elpd", "se", "elpd_diff", "dse"):  # theirs may be rounded
        assert_allclose(table[column], expected[column].astype(float), atol=0.06)
    assert_allclose(table["weight"], expected["weight"].astype(float), atol=0.01)


def test_stacking_is_the_best_of_all_mixtures(rng):
    scores, counts = rng.normal(-2.0, 1.0, size=(50, 2)), rng.uniform(0.1, 2.0, size=50)
    shares = np.linspace(0.0, 1.0, 10_001)
    mixtures = np.logaddexp(
        scores[:, :1] + np.log(np.maximum(shares, 1e-300)),
        scores[:, 1:] + np.log(np.maximum(1 - shares, 1e-300)),
    )
    found = _stacking_weights(scores, counts)
    assert_allclose(found[0], shares[np.argmax(counts @ mixtures)], atol=1e-3)
    assert_allclose(found.sum(), 1.0)
    assert_allclose(_stacking_weights(scores - [0.0, 2e3], counts), [1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("spread", [0.1, 3.0, 20.0, 300.0])
def test_no_model_gains_on_the_stacked_mixture(spread, rng):
    """Weights are optimal if each model's density over the mixture's has at most the mean 1."""
    scores = spread * (rng.normal(size=(5000, 5)) + [0.0, 1.0, 3.0, 1.0, 3.0])
    found = _stacking_weights(scores, np.ones(5000))
    mixture = logsumexp(scores, axis=1, b=found, keepdims=True)
    assert np.exp(scores - mixture).mean(axis=0).max() < 1.001


def test_points_too_few_for_the_tails_are_warned_of(rng):
    X = rng.normal(size=(40, 6))
    y = X[:, 0] + rng.normal(size=40)
    X[0], y[0] = 8.0, -20.0  # a row that moves the fit by itself
    reg = BayesianLinearRegression(LaplaceDraws(100), random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match=r"above 0\.50, .* by a larger n_particles"):
        result = loo(reg, X, y)
    assert result.pareto_k[0] > 0.5
    assert result.bad_k == np.mean(result.pareto_k > 0.5)


@pytest.mark.parametrize(
    "options", [{"inference": "ensemble"}, {"subspace": "curve", "inference": PMD(20)}]
)
def test_networks_as_they_were_trained_are_refused(options, rng):
    """Importance weights cannot undo what training has learnt of the row that is left out."""
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.normal(size=60)
    reg = BayesianMLPRegressor((4,), n_networks=2, max_iter=30, random_state=0, **options)
    with pytest.raises(TypeError, match="training on all rows has left them: use cross_val_score"):
        loo(reg.fit(X, y), X, y)


def test_of_networks_loo_sees_no_null_space(rng):
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.normal(size=60)
    options = {"inference": "pmfvb", "n_networks": 3, "max_iter": 30, "random_state": 0}
    scores = {
        loo(BayesianMLPRegressor((4,), null_space=c, **options).fit(X, y), X, y).elpd
        for c in (0.0, 3.0)
    }
    assert len(scores) == 1


def test_rows_that_are_not_those_of_the_fit_are_warned_of(rng):
    X, weights = rng.normal(size=(60, 2)), np.repeat([0.0, 1.0], [20, 40])
    y, classes = X.sum(axis=1) + rng.normal(size=60), np.arange(60) % 2
    reg = BayesianLinearRegression("pmfvb", random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="the fit had 60 rows, and these are 15"):
        loo(reg, X[:15], y[:15])
    loo(reg.fit(X, y, sample_weight=weights), X[20:], y[20:], weights[20:])
    stream = BayesianLogisticRegression("pmd", random_state=0)
    for half in (slice(30), slice(30, None)):
        stream.partial_fit(X[half], classes[half], classes=[0, 1])
    loo(stream, X, classes)


def test_a_probability_is_not_compared_with_a_density(rng):
    X = rng.normal(size=(60, 1))
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    models = {
        "counts": BayesianPoissonRegression("pmfvb", random_state=0).fit(X, y),
        "numbers": BayesianLinearRegression("pmfvb", random_state=0).fit(X, y),
    }
    with pytest.raises(ValueError, match="counts give probabilities of y, and the others densit"):
        compare(models, X, y)


def test_what_is_refused(regression):
    models, X, y = regression
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        loo(models["all"], X, y[:-1])
    with pytest.raises(ValueError, match="compare needs a dict of estimators"):
        compare({}, X, y)
    with pytest.raises(ValueError, match="compare needs a dict of estimators"):
        compare([models["all"]], X, y)
    reg = BayesianLinearRegression(LaplaceDraws(10), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="at least 25 particles with a weight, there are 10"):
        loo(reg, X, y)
    logarithm = TransformedTargetRegressor(reg, func=np.log, inverse_func=np.exp).fit(X, y)
    with pytest.raises(TypeError, match="loo needs the likelihood of y"):
        loo(logarithm, X, y)
    process = SparseGPRegressor(n_inducing=5, random_state=0).fit(X[:20], y[:20])
    with pytest.raises(TypeError, match="a particle of SparseGPRegressor has seen them all"):
        loo(process, X, y)
    with pytest.raises(TypeError, match="to_arviz needs rows that are independent"):
        to_arviz(process, X, y)
