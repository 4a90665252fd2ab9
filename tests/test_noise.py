"""Noise of regressors: against SciPy, NUTS and equivariance, and what bad input says."""

import copy
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import (
    BayesianLinearRegression,
    BayesianMLPRegressor,
    check_target,
    loo,
    predictive,
    to_arviz,
)
from skstein.inference import ENGINES, PMD, PMFVB, SVGD, KSDThinnedMCMC
from skstein.metrics import crps_scorer, log_predictive_scorer
from skstein.noise import HeteroscedasticNoise, NormalNoise, StudentTNoise, resolve_noise
from skstein.outcomes import Heteroscedastic, Normal, StudentT
from skstein.posterior import weighted_quantile
from skstein.priors import Horseshoe, Laplace
from skstein.priors import Normal as NormalPrior
from skstein.samplers import SGHMC
from skstein.targets import HorseshoeTarget, MLPTarget, RegressionTarget
from skstein.targets.networks.curvature import gauss_newton
from skstein.targets.networks.dense_layers import bounded_log_scale
from small import later

NOISES = {
    "student-t": "student-t",
    "t of 4": StudentTNoise(df=4.0),
    "heteroscedastic": "heteroscedastic",
    "both": HeteroscedasticNoise(df="estimate"),
    "both, given": HeteroscedasticNoise(df=5.0),
}
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
may_warn = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CHAINS = KSDThinnedMCMC(
    12, sampler=SGHMC(thinning=20), n_chains=3, n_draws=8, max_draws=8, n_warmup=5, whiten=False
)
GOLD = Path(__file__).parent / "data"


def data(seed=0, n=200, slopes=(0.7, 0.0), df=None):
    """Rows with uneven noise, or outliers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    error = rng.normal(size=n) if df is None else rng.standard_t(df, size=n)
    return X, 3.0 + X @ [1.0, -0.5] + np.exp(-1.0 + X @ slopes) * error


def linear(noise, engine="laplace", **params):
    return BayesianLinearRegression(engine, noise=noise, random_state=0, **params)


def small(noise, **params):
    params = {"n_networks": 3, "max_iter": 30, "inference": "ensemble", **params}
    return BayesianMLPRegressor((6,), noise=noise, random_state=0, **params)


# What is predicted.


@every_noise
@may_warn
def test_two_particles_mix_two_distributions_of_scipy(noise):
    X, y = data(n=20)
    reg = linear(noise).fit(X, y)
    weights = np.array([0.3, 0.7])
    theta = reg.posterior_.particles[:2]
    reg.posterior_ = type(reg.posterior_)(theta, weights, names=reg.posterior_.names)
    by_name = dict(zip(reg.posterior_.names, theta.T, strict=True))
    if "log_sigma2" in by_name:
        mean = by_name["intercept"] + X @ theta[:, 1:3].T
        sd = np.exp(0.5 * by_name["log_sigma2"])
    else:
        mean = by_name["intercept[mean]"] + X @ theta[:, 1:3].T
        sd = np.exp(by_name["intercept[log_sd]"] + X @ theta[:, 4:6].T)
    if noise == "heteroscedastic":
        parts = stats.norm(mean, sd)
    else:
        df = 2.0 + np.exp(by_name["log_df_above_2"]) if "log_df_above_2" in by_name else noise.df
        parts = stats.t(df, mean, sd)
    found, std = reg.predict(X, return_std=True)
    assert_allclose(found, mean @ weights)
    between = np.square(mean - found[:, None]) @ weights
    assert_allclose(std, np.sqrt(between + parts.var() @ weights))
    assert_allclose(reg.predict_uncertainty(X).aleatoric, parts.var() @ weights)
    assert_allclose(reg.log_predictive(X, y), np.log(parts.pdf(y[:, None]) @ weights))
    for q in (0.001, 0.05, 0.5, 0.95, 0.9999):
        at = reg.predict_quantiles(X, q)[:, 0]
        assert_allclose(parts.cdf(at[:, None]) @ weights, q, rtol=1e-9)
    ends = reg.predict_quantiles(X, [0.0, 1.0])
    assert_array_equal(ends, np.tile([-np.inf, np.inf], (20, 1)))
    draws = reg.sample_predictive(X[:2], 5_000, random_state=0)
    for row in range(2):
        uniform = parts.cdf(draws[row][:, None, None])[:, row] @ weights
        assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    grid = np.linspace(-60.0, 60.0, 60_001)
    crps = predictive(reg, X[:2]).crps(y[:2])
    for row in range(2):
        args = [np.broadcast_to(part, mean.shape)[row] for part in parts.args]
        cdf = parts.dist.cdf(grid[:, None], *args)
        exact = np.trapezoid(np.square(cdf @ weights - (grid >= y[row])), grid)
        assert_allclose(crps[row], exact, rtol=5e-3)


@every_noise
@may_warn
def test_units_do_not_matter(noise):
    """Everything predicted of data in other units is what was predicted, in those units."""
    (X, y), engine = data(df=4), PMFVB(20, max_iter=60)
    X_there = X * [10.0, 0.1] + [5.0, 70.0]
    here = linear(noise, engine).fit(X, y)
    there = linear(noise, engine).fit(X_there, 100.0 * y - 3000.0)
    (mean, std), (mean_there, std_there) = (
        reg.predict(rows, return_std=True) for reg, rows in ((here, X), (there, X_there))
    )
    assert_allclose(mean_there, 100.0 * mean - 3000.0, rtol=1e-6)
    assert_allclose(std_there, 100.0 * std, rtol=1e-6)
    q = here.predict_quantiles(X, [0.1, 0.9])
    assert_allclose(there.predict_quantiles(X_there, [0.1, 0.9]), 100.0 * q - 3000.0, rtol=1e-5)
    lost = here.log_predictive(X, y) - there.log_predictive(X_there, 100.0 * y - 3000.0)
    assert_allclose(lost, np.log(100.0), rtol=1e-5)
    if hasattr(here, "noise_coef_"):
        assert_allclose(there.noise_coef_, here.noise_coef_ / [10.0, 0.1], rtol=1e-5)
        level = here.noise_intercept_ + np.log(100.0) - there.noise_coef_ @ [5.0, 70.0]
        assert_allclose(there.noise_intercept_, level, rtol=1e-5)
    else:
        assert_allclose(there.noise_variance_, 1e4 * here.noise_variance_, rtol=1e-6)


# The posterior.


def gold(name, noise):
    with np.load(GOLD / f"gold_{name}_noise.npz") as file:
        arrays = {key: file[key].astype(float) for key in file.files}
    return arrays, {key: arrays[f"{noise}_{key}"] for key in ("mean", "sd", "quantiles")}


def errors(reg, found):
    """Errors of means and quantiles (root mean squares), and ratios of standard deviations."""
    posterior = reg.posterior_
    quantiles = weighted_quantile(posterior.particles, posterior.weights, [0.05, 0.5, 0.95])
    differences = posterior.mean() - found["mean"], quantiles - found["quantiles"]
    sizes = [np.sqrt(np.mean(np.square(part / found["sd"]))) for part in differences]
    return *sizes, posterior.std() / found["sd"]


@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
@pytest.mark.parametrize(
    ("name", "key", "noise"),
    [
        ("stackloss", "student_t", "student-t"),
        pytest.param("airfoil", "normal", "heteroscedastic", marks=pytest.mark.slow),
        pytest.param(
            "airfoil", "student_t", HeteroscedasticNoise(df="estimate"), marks=pytest.mark.slow
        ),
        pytest.param("radon", "student_t", "student-t", marks=pytest.mark.slow),
    ],
)
def test_posteriors_are_those_of_nuts(name, key, noise, engine, seed):
    arrays, found = gold(name, key)
    reg = BayesianLinearRegression(engine, noise=noise, standardize=False, random_state=seed)
    mean, quantile, ratio = errors(reg.fit(arrays["X_std"], arrays["y_std"]), found)
    assert mean < 0.06 and quantile < 0.08
    assert np.all(np.abs(ratio - 1.0) < 0.08)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name not in ("mcmc", "pmfvb")])
def test_every_engine_is_right_or_warns(engine, seed, recwarn):
    arrays, found = gold("stackloss", "student_t")
    reg = BayesianLinearRegression(engine, noise="student-t", standardize=False, random_state=seed)
    mean, _, ratio = errors(reg.fit(arrays["X_std"], arrays["y_std"]), found)
    right = mean < 0.1 and np.all(np.abs(ratio - 1.0) < 0.17)
    assert right or len(recwarn)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
@pytest.mark.parametrize("kind", ["student-t", "heteroscedastic", "both"])
def test_intervals_cover(kind, engine, seed):
    """Data from each model: outcomes that were not seen are in 90 % intervals."""
    shares = []
    for number in range(60):
        rng = np.random.default_rng([seed, number])
        X, slopes = rng.normal(size=(150, 3)), 0.5 * rng.normal(size=3)
        error = rng.normal(size=150) if kind == "heteroscedastic" else rng.standard_t(4, size=150)
        scale = 1.0 if kind == "student-t" else np.exp(X @ slopes)
        y = X @ rng.normal(size=3) + scale * error
        noise = NOISES[kind]
        reg = BayesianLinearRegression(engine, noise=noise, random_state=number)
        low, high = reg.fit(X[:100], y[:100]).predict_interval(X[100:], level=0.9).T
        shares.append(np.mean((low <= y[100:]) & (y[100:] <= high)))
    assert abs(np.mean(shares) - 0.9) < 0.03 + 2.0 * np.std(shares) / np.sqrt(len(shares))


def test_an_outlier_does_not_move_the_line():
    X, y = data(slopes=(0.0, 0.0))
    y_wrong = np.where(np.arange(len(y)) < 5, y + 40.0, y)
    lines = [linear("student-t", "pmfvb").fit(X, rows) for rows in (y, y_wrong)]
    moved = np.abs(lines[1].coef_ - lines[0].coef_) / lines[0].coef_std_
    least_squares = LinearRegression().fit(X, y_wrong).coef_ - lines[0].coef_
    assert moved.max() < 2.0 < np.abs(least_squares / lines[0].coef_std_).max()


def test_uneven_noise_is_found():
    reg = linear("heteroscedastic", "pmfvb").fit(*data(n=500))
    for found, std, truth in (
        (reg.noise_coef_, reg.noise_coef_std_, [0.7, 0.0]),
        (reg.noise_intercept_, reg.noise_intercept_std_, -1.0),
        (reg.coef_, reg.coef_std_, [1.0, -0.5]),
    ):
        assert np.all(np.abs(found - truth) < 4.0 * np.asarray(std))
    assert not hasattr(reg, "noise_variance_")


def test_a_prior_of_no_width_leaves_normal_noise_of_one_variance():
    X, y = data(n=100)
    even = linear("normal", "pmfvb").fit(X, y)
    uneven = linear(HeteroscedasticNoise(NormalPrior(1e-6)), "pmfvb").fit(X, y)
    tailless = linear(StudentTNoise(df=1e6), "pmfvb").fit(X, y)
    for reg in (uneven, tailless):
        assert_allclose(reg.predict(X), even.predict(X), atol=0.02)
        assert_allclose(reg.predict(X, True)[1], even.predict(X, True)[1], rtol=0.02)


@every_noise
@may_warn
def test_weights_repetitions_and_sparse_features(noise):
    (X, y), rng = data(n=60), np.random.default_rng(1)
    weights, engine = rng.integers(0, 4, size=60), PMFVB(20, max_iter=40)
    rows = np.repeat(np.arange(60), weights)
    weighted = linear(noise, engine).fit(X, y, sample_weight=weights)
    others = [
        linear(noise, engine).fit(X[rows], y[rows]),
        linear(noise, engine).fit(sparse.csr_array(X), y, sample_weight=weights),
    ]
    for other in others:
        assert_allclose(other.predict(X, True), weighted.predict(X, True), rtol=1e-7)


# Around it.


@may_warn
def test_names_instances_and_grids():
    X, y = data(n=60, df=3)
    grid = {
        "bayesianlinearregression__noise": ["student-t"],
        "bayesianlinearregression__noise__df": [3.0, "estimate"],
    }
    pipe = make_pipeline(StandardScaler(), linear("normal", PMFVB(20, max_iter=40)))
    search = GridSearchCV(pipe, grid, cv=2, scoring=log_predictive_scorer).fit(X, y)
    assert np.isfinite(crps_scorer(search, X, y))
    noise = search.best_estimator_[-1].noise
    assert isinstance(noise, StudentTNoise) and noise.df in (3.0, "estimate")
    reg = linear("heteroscedastic").set_params(noise__prior__scale=0.2, noise__df=4.0)
    assert repr(clone(reg)) == repr(reg) and reg.noise.prior.scale == 0.2
    assert isinstance(resolve_noise("normal"), NormalNoise)


@may_warn
def test_after_a_fit_the_parameter_says_nothing_of_predictions():
    X, y = data(n=40)
    reg = linear("heteroscedastic").fit(X, y)
    expected = reg.predict(X, return_std=True)
    assert_array_equal(reg.set_params(noise="normal").predict(X, return_std=True), expected)
    assert_array_equal(pickle.loads(pickle.dumps(reg)).predict(X, return_std=True), expected)


def test_streams():
    X, y = data(n=1500, df=4)
    reg = linear("student-t", PMD(200))
    for start in range(0, 1500, 500):
        reg.partial_fit(X[start : start + 500], y[start : start + 500])
    assert np.all(np.abs(reg.coef_ - [1.0, -0.5]) < 5.0 * reg.coef_std_)
    with pytest.raises(ValueError, match="of the rows before is that of the whole stream"):
        reg.set_params(noise="normal").partial_fit(X, y)


@may_warn
@pytest.mark.filterwarnings("ignore:the Pareto shape")
def test_arviz_leave_one_out_and_transformed_outcomes():
    X, y = data(n=60, df=4)
    reg = linear(NOISES["both"]).fit(X, y)
    assert np.isfinite(loo(reg, X, y).elpd)
    pytest.importorskip("arviz_base")
    drawn = to_arviz(reg, X, y, random_state=0)
    assert drawn["log_likelihood"]["y"].shape[-1] == len(y)
    whole = TransformedTargetRegressor(reg, func=np.log, inverse_func=np.exp).fit(X, np.exp(y))
    direct = predictive(whole, X).quantiles([0.1, 0.5])
    assert_allclose(direct, np.exp(whole.regressor_.predict_quantiles(X, [0.1, 0.5])), rtol=1e-6)
    with pytest.raises(TypeError, match="heavy tails"):
        predictive(whole, X).mean()


@pytest.mark.parametrize("make", [linear, small])
@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"noise": "cauchy"}, ValueError, "noise"),
        ({"noise": StudentTNoise}, TypeError, "noise is the class StudentTNoise"),
        ({"noise": StudentTNoise(df=2.0)}, ValueError, "df"),
        ({"noise": HeteroscedasticNoise(prior="cauchy")}, ValueError, "prior"),
        ({"noise": "student-t", "noise_shape": 1.0}, ValueError, "noise_shape and noise_scale"),
        ({"noise": "heteroscedastic", "noise_scale": 2.0}, ValueError, "prior of normal noise"),
    ],
)
def test_bad_input_is_one_sentence(make, params, error, match):
    with pytest.raises(error, match=match):
        make(**params).fit(*data(n=30))


def test_what_a_model_cannot_have():
    with pytest.raises(ValueError, match="use fit_intercept=True"):
        linear("heteroscedastic", fit_intercept=False).fit(*data(n=30))
    with pytest.raises(ValueError, match="no precisions in closed form"):
        small(HeteroscedasticNoise(prior=Laplace())).fit(*data(n=30))


# Networks.

OUTCOMES = [
    StudentT(),
    StudentT(df=4.0),
    Heteroscedastic(Normal()),
    Heteroscedastic(StudentT()),
    Heteroscedastic(StudentT(df=3.0)),
]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_compiled_passes_are_those_of_the_outcome(outcome, columns, rng):
    X, y = rng.normal(size=(70, 3)), rng.normal(size=(70, columns))
    weights = rng.uniform(0.5, 2.0, size=70)
    target = MLPTarget(
        X,
        y,
        outcome=outcome,
        sample_weight=weights,
        hidden_layer_sizes=(4,),
        activation="tanh",
        dtype="float64",
    )
    theta = target.sample_initial(rng, 3) + 0.3 * rng.normal(size=(3, target.dim))
    check_target(target, theta, random_state=0)
    value = target.log_density_and_score(theta)[0] - target.log_prior(theta)
    assert_allclose(value, target.log_likelihood(theta), rtol=1e-10)
    assert np.all(target.scales(theta[0], target.initial_precision, rng) > 0.0)
    if columns == 1 and not outcome.extra:
        # A network without hidden layers is a linear regression.
        line = RegressionTarget(outcome, X, y[:, 0], sample_weight=weights)
        flat = MLPTarget(
            X,
            y,
            outcome=outcome,
            sample_weight=weights,
            hidden_layer_sizes=(),
            dtype="float64",
            y_size=1.0,
        )
        theta = rng.normal(size=(3, flat.dim))
        theta[:, [*range(3, 6), 7]] *= 1e-4  # log scales that are not bent yet
        table = np.concatenate([theta[:, 6:, None], theta[:, :6].reshape(3, 2, 3)], axis=2)
        same = line.log_likelihood(table.reshape(3, -1))
        assert_allclose(flat.log_likelihood(theta), same, rtol=1e-10)


@every_noise
@may_warn
def test_networks_predict_in_the_units_of_y(noise):
    X, y = data(n=100)
    Y = np.column_stack([y, -y])
    one, two = small(noise).fit(X, 1000.0 * y + 5.0), small(noise).fit(X, Y)
    same = small(noise).fit(X, y)
    mean, std = same.predict(X, return_std=True)
    assert_allclose(one.predict(X, True), [1000.0 * mean + 5.0, 1000.0 * std], rtol=1e-3)
    found = two.predict_quantiles(X, [0.05, 0.95])
    assert found.shape == (100, 2, 2) and two.log_predictive(X, Y).shape == (100,)
    assert predictive(two, X).crps(Y).shape == (100, 2)
    assert two.sample_predictive(X, 3, random_state=0).shape == (100, 2, 3)
    below = np.mean(Y[:, :, None] <= found, axis=0)
    assert np.all(below[:, 0] < 0.3) and np.all(below[:, 1] > 0.7)
    again = copy.deepcopy(small(noise)).partial_fit(X, y).partial_fit(X, y)
    assert np.isfinite(again.predict(X, return_std=True)).all()


@may_warn
def test_networks_choose_their_noise():
    def chosen(n=200, weight=None, **params):
        X, y = data(n=n)
        reg = small("auto", **{"inference": CHAINS, "max_iter": 2, **params})
        return reg.fit(X, y, None if weight is None else np.full(n, weight)).noise_

    uneven = HeteroscedasticNoise(df="estimate")
    assert repr(chosen()) == repr(chosen(100, weight=2.0)) == repr(uneven)
    plain = {"n": 199}, {"weight": 0.9}, {"noise_scale": 0.1}, {"inference": "ensemble"}
    for params in (
        *plain,
        {"inference": SVGD(max_iter=2)},
        {"inference": "laplace", "subspace": "curve"},
    ):
        assert isinstance(chosen(**params), NormalNoise)
    X, y = data()
    reg = small("auto", inference=CHAINS).partial_fit(X, y)
    assert isinstance(reg.partial_fit(X, y).noise_, NormalNoise)
    assert repr(reg.fit(X, y).partial_fit(X, y).noise_) == repr(uneven)
    assert np.isfinite(reg.predict(X, return_std=True)).all()
    with pytest.raises(ValueError, match="noise_scale"):
        reg.set_params(noise_scale=0.1).partial_fit(X, y)
    reg = small("auto", inference=CHAINS, warm_start=True, standardize=False).fit(X[:150], y[:150])
    assert isinstance(reg.fit(X, y).noise_, NormalNoise)
    with pytest.raises(ValueError, match="name a noise"):
        reg.set_params(noise__df=4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_networks_bound_the_noise_of_a_row(dtype, rng):
    """Far away a line would say noise of e**40 sizes of y; and next to none of equal outcomes."""
    X, y = rng.normal(size=(50, 1)), rng.normal(size=(50, 1))
    y /= y.std()
    given = {"outcome": Heteroscedastic(Normal()), "hidden_layer_sizes": (), "dtype": dtype}
    small, large = MLPTarget(X, y, **given), MLPTarget(X, 100.0 * y, **given)
    slopes, biases = np.array([-200.0, -1.0, 1e-3, 1.0, 200.0]), np.zeros(5)
    theta = np.column_stack([biases, slopes, biases, biases])
    moved = theta + [0.0, 0.0, 0.0, np.log(100.0)]
    one = np.ones((1, 1))
    _, log_sd = small.network.heads(small.outcome, theta, small.network.outputs(theta, one))
    _, of_large = large.network.heads(large.outcome, moved, large.network.outputs(moved, one))
    assert_allclose(of_large, log_sd + np.log(100.0), rtol=1e-5)
    log_sd = log_sd.ravel()
    assert_allclose(log_sd[[0, 2, 4]], [np.log(1e-3), 1e-3, np.log(10.0)], rtol=1e-5)
    assert np.all(np.diff(log_sd) > 0.0)
    assert np.isfinite(small.score(theta)).all()
    if dtype == "float64":
        for target in (small, large):
            check_target(target, 3.0 * rng.normal(size=(3, target.dim)), random_state=0)


def test_curvature_of_uneven_noise(rng):
    """Of a network without hidden layers, whose derivatives are the features."""
    X, y = rng.normal(size=(9, 1)), rng.normal(size=(9, 1))
    for given_df, shares in ((None, (1.0, 2.0)), (4.0, (5.0 / 7.0, 8.0 / 7.0))):
        even = Normal() if given_df is None else StudentT(df=given_df)
        target = MLPTarget(
            X, y, outcome=Heteroscedastic(even), hidden_layer_sizes=(), dtype="float64", y_size=1.0
        )
        theta = np.array([0.3, 2.0, -0.2, 0.5])
        log_scale, slope = bounded_log_scale(2.0 * X[:, 0] + 0.5, 0.0)
        of_mean = shares[0] * np.exp(-2.0 * log_scale)
        of_scale = shares[1] * slope**2
        expected = [X[:, 0] ** 2 @ of_mean, X[:, 0] ** 2 @ of_scale, of_mean.sum(), of_scale.sum()]
        draws = [
            gauss_newton(theta, target.data, np.arange(9), target._compiled, np.ones(2), rng)[0]
            for _ in range(20)  # signs cancel in squares of single outputs
        ]
        assert_allclose(np.mean(draws, axis=0), expected, rtol=1e-8)


@may_warn
def test_networks_live_with_outcomes_that_repeat():
    """Zeros without noise: no scale vanishes, and no chain is lost."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = np.where(X[:, 0] < 0.0, 0.0, X[:, 0] + 0.3 * rng.normal(size=500))
    reg = small("auto", inference=CHAINS, max_iter=100)
    with pytest.warns(UserWarning, match="it may be left without noise"):
        reg.fit(X[:250], y[:250])
    assert np.isfinite(reg.posterior_.diagnostics["steepness"])
    assert reg.posterior_.diagnostics["n_dropped"] == 0
    even = small("normal", inference=CHAINS, max_iter=100).fit(X[:250], y[:250])
    density, of_even = (each.log_predictive(X[250:], y[250:]).mean() for each in (reg, even))
    assert density > of_even + 0.5


@pytest.mark.parametrize("engine", ["ensemble", CHAINS])
@may_warn
def test_a_network_finds_uneven_noise(engine):
    def draw(n):
        X = rng.uniform(-2.0, 2.0, size=(n, 1))
        return X, np.sin(2.0 * X[:, 0]) + np.exp(X[:, 0] - 1.0) * rng.normal(size=n)

    rng = np.random.default_rng(0)
    X, y = draw(400)
    fits = [
        small(noise, inference=engine, max_iter=150).fit(X, y)
        for noise in ("normal", "heteroscedastic", NOISES["both"])
    ]
    X_new, y_new = draw(500)
    even, *uneven = (reg.log_predictive(X_new, y_new).mean() for reg in fits)
    assert min(uneven) > even + 0.2
    found = 0.5 * np.log(fits[1].predict_uncertainty(X_new).aleatoric)
    assert np.corrcoef(found, X_new[:, 0])[0, 1] > 0.9


@may_warn
def test_networks_are_not_moved_by_outliers():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(200, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    y[X[:, 0] > 1.8] += 30.0
    fits = [small(noise, max_iter=150).fit(X, y) for noise in ("normal", "student-t")]
    errors = [np.abs(reg.predict([[0.5], [1.0]]) - [0.5, 1.0]).max() for reg in fits]
    assert errors[1] < 0.5 < errors[0] or errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("engine", ["svgd", later("mcmc"), later("pmfvb"), later("fwss")])
@pytest.mark.parametrize("size", [1e3, 1e4])
def test_gross_outliers_do_not_hold_up_the_noise(engine, size, rng):
    X = rng.normal(size=(100, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=100)
    y[:3] = size
    widths = [
        BayesianLinearRegression(engine, noise="student-t", random_state=0, standardize=scaled)
        .fit(X, y)
        .posterior_.std()[1]
        for scaled in (True, False)
    ]
    assert_allclose(*widths, rtol=0.15)


def test_noise_that_its_prior_adds_is_reported(rng):
    X, y = rng.normal(size=(100, 1)), rng.normal(size=100)
    y[:3] = 1e8
    with pytest.warns(UserWarning, match="mostly what its prior adds"):
        BayesianLinearRegression("pmfvb", noise="student-t", random_state=0).fit(X, y)


@pytest.mark.parametrize("n, noise", [(20, 1e-3), (100, 1e-4)])
def test_intervals_of_precise_outcomes_are_those_of_student(n, noise, rng):
    X = rng.normal(size=(n, 1))
    y = X[:, 0] + noise * rng.normal(size=n)
    interval = BayesianLinearRegression(random_state=0).fit(X, y).predict_interval([[0.0]])
    columns = np.column_stack([np.ones(n), X])
    _, (rss,), *_ = np.linalg.lstsq(columns, y)
    own = np.sqrt(rss / (n - 2) * (1.0 + np.linalg.inv(columns.T @ columns)[0, 0]))
    assert_allclose(np.diff(interval)[0, 0] / 2, stats.t.ppf(0.95, n - 2) * own, rtol=0.06)


@pytest.mark.parametrize("level, share", [(2.5, 0.90), (5.0, 0.20)])
@pytest.mark.parametrize(
    "engine",
    [
        "pmfvb",
        *map(later, ["mcmc", "ksd-mcmc", "pmd", "svgd", "fwss"]),
    ],
)
def test_a_posterior_of_two_modes(engine, level, share, seed):
    """Outliers of the features: the line goes through them, or not; masses are by quadrature."""
    rng = np.random.default_rng(3)
    x = np.append(rng.uniform(-1, 1, 30), rng.normal(5, 0.1, 3))
    y = np.append(0.3 * rng.normal(size=30), level + 0.3 * rng.normal(size=3))
    target = RegressionTarget(StudentT(df=2.5), x[:, None], y)
    axes = np.linspace(-1.5, 1.5, 31), np.linspace(-0.6, 1.6, 111), np.linspace(-7, 4, 45)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    mass = np.exp(target.log_density(grid) - target.log_density(grid).max())
    through = grid[:, 1] > level / 10
    assert_allclose(mass[through].sum() / mass.sum(), share, atol=0.015)
    model = BayesianLinearRegression(
        engine, noise=StudentTNoise(df=2.5), standardize=False, random_state=seed
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = model.fit(x[:, None], y).posterior_
    found = posterior.weights @ (posterior["x0"] > level / 10)
    chance = np.sqrt(share * (1 - share) / 150)  # of as many independent draws as there are points
    assert abs(found - share) < 3 * chance or caught


def test_priors_of_uneven_noise_and_of_its_mean_are_one_per_feature(rng):
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    short = NormalPrior([0.01, 2.0])
    model = BayesianLinearRegression("laplace", noise=HeteroscedasticNoise(prior=short))
    for params in ({}, {"noise": "heteroscedastic", "prior": short}):
        with pytest.raises(ValueError, match=r"scale has shape \(2,\) for 4 features"):
            model.set_params(**params).fit(X, y)
    with pytest.raises(ValueError, match="a horseshoe is for outcomes with one linear predictor"):
        model.set_params(prior="horseshoe").fit(X, y)


@pytest.mark.parametrize("df", [5.0, "estimate"])
def test_a_horseshoe_is_relative_to_the_scale_of_student_t_noise(df, rng):
    """In whichever coordinate that is: with estimated degrees of freedom it is not the last."""
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    outcome = BayesianLinearRegression(noise=StudentTNoise(df)).fit(X, y)._outcome
    target = HorseshoeTarget(RegressionTarget(outcome, X, y), Horseshoe(n_relevant=1))
    assert [target.names[j] for j in target.map.log_noise] == ["log_sigma2"]


def test_noise_takes_no_horseshoe():
    model = BayesianLinearRegression(noise=HeteroscedasticNoise(prior="horseshoe"))
    with pytest.raises(ValueError, match="not a prior of these coefficients alone"):
        model.fit(np.eye(5), np.arange(5.0))
