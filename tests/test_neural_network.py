"""The estimators that are neural networks."""

import pickle
import re
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skstein import BayesianMLPClassifier, BayesianMLPRegressor, ParticlePosterior, predictive
from skstein._estimators.progress import ProgressLines
from skstein.inference import PMD, AdaptivePMFVB, Ensemble, resolve_engine
from skstein.inference.base import Engine
from skstein.inference.networks._registry import NETWORK_ENGINES
from skstein.inference.networks.curve import curve_middle
from skstein.outcomes import Bernoulli
from skstein.priors import Normal
from skstein.samplers import HMC
from skstein.targets.networks import null_space
from skstein.targets.networks.mlp import MLPTarget
from small import ENGINES, crossed, later, network

# Runs of "pmfvb" are short here.
pytestmark = pytest.mark.filterwarnings("ignore:.*outputs of the networks have not mixed")

ESTIMATORS = [BayesianMLPRegressor, BayesianMLPClassifier]
CASES = crossed(ESTIMATORS, NETWORK_ENGINES)
every_case = pytest.mark.parametrize(("Estimator", "engine"), CASES)
# The engines that repel particles take the longest.
some_cases = pytest.mark.parametrize(
    ("Estimator", "engine"),
    [later(*case.values) if {"svgd", "fwss"} & set(case.values) else case for case in CASES],
)
# Networks that are meant to fit too well may be told so, or may just not.
follows_noise = pytest.mark.filterwarnings("ignore:.* err more than a constant:UserWarning")


def data(Estimator, n=60, n_classes=3):
    rng = np.random.default_rng(0)
    if Estimator is BayesianMLPRegressor:
        X = rng.normal(size=(n, 3))
        return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    return make_classification(
        n, 3, n_informative=3, n_redundant=0, n_classes=n_classes, random_state=0
    )


def predicted(estimator, X):
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X)
    return np.column_stack(estimator.predict(X, return_std=True))


# On full batches, equal data are equal to the last bit.


@every_case
def test_dense_and_sparse_agree(Estimator, engine):
    X, y = data(Estimator)
    X[::2, 1] = 0.0
    for batch_size in (None, 16):
        dense = network(Estimator, engine, batch_size=batch_size).fit(X, y)
        thin = network(Estimator, engine, batch_size=batch_size).fit(sparse.csr_array(X), y)
        assert_array_equal(predicted(dense, X), predicted(thin, sparse.csr_array(X)))


@every_case
def test_a_seed_fixes_every_bit_whatever_n_jobs(Estimator, engine):
    X, y = data(Estimator)
    one, two = (network(Estimator, engine, n_jobs=n, batch_size=16).fit(X, y) for n in (1, 2))
    assert_array_equal(one.posterior_.particles, two.posterior_.particles)
    other = network(Estimator, engine, random_state=1, batch_size=16).fit(X, y)
    assert not np.array_equal(one.posterior_.particles, other.posterior_.particles)


@every_case
def test_units_do_not_matter(Estimator, engine):
    """Features in other units, and outcomes, give the same predictions in theirs."""
    X, y = data(Estimator)
    here = network(Estimator, engine, dtype="float64").fit(X, y)
    scale, shift = np.array([8.0, 0.5, 2.0]), np.array([1.0, -2.0, 4.0])
    if Estimator is BayesianMLPClassifier:
        there = clone(here).fit(X * scale + shift, y)
        assert_allclose(predicted(there, X * scale + shift), predicted(here, X), rtol=1e-6)
        return
    there = clone(here).fit(X * scale + shift, 4.0 * y + 8.0)
    mean, std = there.predict(X * scale + shift, return_std=True)
    expected = here.predict(X, return_std=True)
    assert_allclose((mean - 8.0) / 4.0, expected[0], rtol=1e-5, atol=1e-5)
    assert_allclose(std / 4.0, expected[1], rtol=1e-5)


def test_noise_of_small_outcomes_is_small_without_standardizing(rng):
    """The prior of its variance follows the size of y, and does not outweigh the rows."""
    X = rng.uniform(-2.0, 2.0, size=(150, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=150)
    raw = BayesianMLPRegressor((16,), n_networks=4, standardize=False, random_state=0)
    small = raw.fit(X, 0.01 * y).predict(X, return_std=True)[1] / 0.01
    assert 0.08 < np.median(small) < 0.17  # it was 1.2
    both = raw.fit(X, np.column_stack([0.01 * y, y])).predict(X, return_std=True)[1]
    assert_allclose(np.median(both / [0.01, 1.0], axis=0), 0.12, atol=0.05)
    given = raw.set_params(noise_scale=0.01).fit(X, 0.01 * y).predict(X, return_std=True)[1]
    assert np.median(given) > 0.01


# Predictions are mixtures over the particles.


@pytest.mark.parametrize("null_space", [0, 2.0])
def test_a_regression_is_a_mixture_of_normals(null_space):
    X, y = data(BayesianMLPRegressor)
    reg = network(BayesianMLPRegressor, "ksd-mcmc", null_space=null_space).fit(X, y)
    means, log_variances = reg._heads(X, reg.posterior_.particles)
    variances = np.exp(log_variances)
    if null_space:
        particles, scaling = reg.posterior_.particles, reg._scaling
        features = scaling.features(X, np.float32)
        _, slopes = reg._network.tangents(particles, reg._tangents, features)
        variances = variances + np.square(scaling.y_scale * slopes[:, :, 0]).T
    weights = reg.posterior_.weights
    mean, std = reg.predict(X, return_std=True)
    rounding = 1e-5 if null_space else 1e-9  # of outputs in float32
    assert_allclose(mean, means @ weights, rtol=max(rounding, 1e-7), atol=rounding)
    assert_allclose(std**2, (means**2 + variances) @ weights - mean**2, rtol=10 * rounding + 1e-6)
    density = logsumexp(norm.logpdf(y[:, None], means, np.sqrt(variances)), axis=1, b=weights)
    assert_allclose(reg.log_predictive(X, y), density, rtol=1e-7 + rounding, atol=10 * rounding)
    low, high = reg.predict_interval(X, 0.9).T
    cdf = norm.cdf(np.stack([low, high])[:, :, None], means, np.sqrt(variances)) @ weights
    assert_allclose(cdf, np.broadcast_to([[0.05], [0.95]], cdf.shape), atol=rounding)
    parts = reg.predict_uncertainty(X)
    assert_allclose(parts.total, std**2, rtol=1e-9)
    assert reg.sample_predictive(X, 5, random_state=0).shape == (60, 5)
    assert_allclose(predictive(reg, X).interval(0.9), reg.predict_interval(X, 0.9))


def test_several_outcomes_have_noise_of_their_own(rng):
    X = rng.normal(size=(300, 2))
    y = np.column_stack([X[:, 0] + 0.1 * rng.normal(size=300), 5.0 * rng.normal(size=300)])
    reg = network(BayesianMLPRegressor, "ksd-mcmc", max_iter=300, batch_size=30).fit(X, y)
    mean, std = reg.predict(X, return_std=True)
    assert mean.shape == std.shape == (300, 2)
    assert np.all(std[:, 0] < 0.8) and np.all(std[:, 1] > 2.5)
    assert reg.predict_interval(X).shape == (300, 2, 2)
    assert reg.predict_quantiles(X, [0.1, 0.5, 0.9]).shape == (300, 2, 3)
    assert reg.log_predictive(X, y).shape == (300,)
    assert reg.sample_predictive(X, 4, random_state=0).shape == (300, 2, 4)
    assert reg.sample_mean(X, 4, random_state=0).shape == (300, 2, 4)
    assert reg.score(X, y) > 0.3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classification_averages_probabilities(n_classes):
    X, y = data(BayesianMLPClassifier, n_classes=n_classes)
    clf = network(BayesianMLPClassifier, "ksd-mcmc").fit(X, np.array(list("abc"))[y])
    proba = clf.predict_proba(X)
    outputs = np.moveaxis(clf._heads(X, clf.posterior_.particles), 0, 2)
    if n_classes == 2:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=2)
    by_particle = np.exp(outputs - logsumexp(outputs, axis=2, keepdims=True))
    assert_allclose(proba, np.einsum("m,nmk->nk", clf.posterior_.weights, by_particle))
    assert_array_equal(clf.predict(X), clf.classes_[proba.argmax(axis=1)])
    parts = clf.predict_uncertainty(X)
    assert np.all(parts.epistemic >= 0.0)
    assert clf.predict_interval(X).shape == (60, n_classes, 2)


@pytest.mark.parametrize(
    ("activation", "hidden"), crossed(["relu", "tanh", "relu-tanh", "logistic"], [(6, 5), 6, ()])
)
def test_it_learns(activation, hidden):
    X, y = load_iris(return_X_y=True)
    clf = BayesianMLPClassifier(hidden, activation, n_networks=3, random_state=0)
    assert clf.fit(X, y).score(X, y) > 0.93


@follows_noise
def test_out_of_bag_noise_is_larger_than_that_of_training_errors(rng):
    """Far more weights than rows: training errors would be all but zero."""
    X = rng.normal(size=(60, 5))
    y = X[:, 0] + rng.normal(size=60)
    params = {"inference": "ensemble", "early_stopping": False, "max_iter": 500}
    reg = BayesianMLPRegressor((50,), random_state=0, **params).fit(X, y)
    training = np.mean((reg.predict(X) - y) ** 2)
    noise = reg.predict_uncertainty(X).aleatoric.mean()
    assert noise > 0.8 > 2.0 * training


@every_case
def test_ignorance_grows_away_from_the_data(Estimator, engine, rng):
    X, y = data(Estimator, 200, n_classes=2)
    params = {"batch_size": 32, "max_iter": 150, "n_networks": 8}
    if Estimator is BayesianMLPRegressor:
        model = network(Estimator, engine, **params).fit(X, y)
        far = model.predict_uncertainty(X * 6.0).epistemic
        assert np.median(far) > 4.0 * np.median(model.predict_uncertainty(X).epistemic)


# Training that goes on.


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_warm_start_goes_on_with_the_same_networks(Estimator):
    X, y = data(Estimator)
    model = network(Estimator, warm_start=True, batch_size=16).fit(X, y)
    before = model.posterior_.particles
    model.set_params(learning_rate_init=1e-7).fit(X, y)
    n_weights = model._network.n_weights
    assert_allclose(model.posterior_.particles[:, :n_weights], before[:, :n_weights], atol=1e-4)
    with pytest.raises(ValueError, match="goes on with the same features"):
        model.set_params(hidden_layer_sizes=(7,)).fit(X, y)


def test_partial_fit_learns_a_stream(rng):
    reg = BayesianMLPRegressor((20,), n_networks=4, random_state=0)
    clf = BayesianMLPClassifier((20,), n_networks=4, random_state=0)
    for _ in range(150):
        X = rng.normal(size=(100, 2))
        signal = np.abs(X[:, 0]) + X[:, 1]
        reg.partial_fit(X, signal + 0.3 * rng.normal(size=100))
        clf.partial_fit(X, signal > 0.5, classes=[False, True])
    X = rng.normal(size=(5000, 2))
    signal = np.abs(X[:, 0]) + X[:, 1]
    assert clf.score(X, signal > 0.5) > 0.95
    mean, std = reg.predict(X, return_std=True)
    assert np.sqrt(np.mean((mean - signal) ** 2)) < 0.2
    assert 0.25 < np.median(std) < 0.45
    assert reg.n_iter_ == clf.n_iter_ == 150


def test_partial_fit_after_fit_goes_on_with_its_networks(rng):
    X, y = data(BayesianMLPRegressor)
    reg = network(BayesianMLPRegressor, "ksd-mcmc", batch_size=16).fit(X, y)
    networks = np.stack([state.weights for state in reg._networks])
    reg.set_params(learning_rate_init=1e-7).partial_fit(X, y)
    after = np.stack([state.weights for state in reg._networks])
    assert_allclose(networks, after, atol=1e-4)
    with pytest.raises(ValueError, match="columns, but the fit was on 1"):
        reg.partial_fit(X, np.column_stack([y, y]))


@follows_noise
def test_early_stopping_takes_the_best_state(rng):
    X = rng.normal(size=(80, 5))
    y = X[:, 0] + rng.normal(size=80)
    params = {"inference": "ensemble", "max_iter": 1000, "random_state": 0}
    late = BayesianMLPRegressor((50,), early_stopping=False, **params).fit(X, y)
    early = BayesianMLPRegressor((50,), **params).fit(X, y)
    X = rng.normal(size=(500, 5))
    y = X[:, 0] + rng.normal(size=500)
    assert np.mean((early.predict(X) - y) ** 2) < np.mean((late.predict(X) - y) ** 2)


@pytest.mark.parametrize(
    ("inference", "early_stopping"),
    [("mcmc", True), later("mcmc", False), later("pmfvb", False)],
)
def test_the_noise_is_found_whether_networks_followed_it_or_not(inference, early_stopping, seed):
    """From the last epoch, where it is next to nothing, too; the truth is log(1).

    Found within a tenth or two, in the worst of twelve data sets .52 below.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 20))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=200)
    options = {"n_networks": 3, "noise": "normal", "early_stopping": early_stopping}
    reg = BayesianMLPRegressor(inference=inference, **options, random_state=seed).fit(X, y)
    assert reg.posterior_.mean()[-1] + np.log(y.var()) > -0.8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of the plane's mode
def test_the_noise_of_a_plane_is_that_of_new_rows(rng):
    """Its networks have learnt the rows by heart: in half of such data their noise was a fifth."""
    reg = BayesianMLPRegressor(inference="laplace", subspace="curve", max_iter=300, random_state=0)
    for _ in range(2):
        X = rng.normal(size=(200, 20))
        y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=200)
        assert reg.fit(X, y).posterior_.mean()[-1] + np.log(y.var()) > -0.5
    with pytest.raises(ValueError, match="would be that of training errors in a subspace"):
        reg.set_params(noise="student-t").fit(X, y)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_grid_over_engines_and_what_they_contain(Estimator):
    X, y = data(Estimator)
    pipeline = make_pipeline(StandardScaler(), network(Estimator))
    name = pipeline.steps[-1][0]
    grid = {f"{name}__inference": ["ensemble", "ksd-mcmc"], f"{name}__prior__scale": [0.5, 2.0]}
    pipeline.set_params(**{f"{name}__prior": "normal"})
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_[-1].prior.scale == search.best_params_[f"{name}__prior__scale"]


# Of each engine a parameter, at the value that it has by default.
A_DEFAULT = {
    "ensemble": {"inference__out_of_bag": True},
    "mcmc": {"inference__n_draws": 10},
    "ksd-mcmc": {"inference__n_draws": 10},
    "pmfvb": {"inference__batch_size": 100},
    "svgd": {"inference__learning_rate": 0.01},
    "fwss": {"inference__learning_rate": 0.01},
}


@some_cases
def test_a_nested_parameter_leaves_the_others_alone(Estimator, engine):
    """At its default it changes no bit, in whatever order the parameters come."""
    X, y = data(Estimator, 200, n_classes=2)
    params = {
        "n_networks": 3,
        "max_iter": 20,
        "learning_rate_init": 0.05,
        "batch_size": 30,
        "early_stopping": True,
        "validation_fraction": 0.3,
        "n_iter_no_change": 5,
        "tol": 1e-2,
        "random_state": 0,
    }
    nested = A_DEFAULT[engine]
    expected = Estimator((5,), inference=engine, **params).fit(X, y)
    other_number = Estimator((5,), inference=engine, **params | {"n_networks": 5})
    models = [
        Estimator((5,), inference=engine, **params).set_params(**nested),
        other_number.set_params(**nested).set_params(n_networks=3),
        Estimator((5,)).set_params(**nested, **params, inference=engine),
    ]
    for model in models:
        assert not isinstance(model.inference, str)
        assert model.get_params()[next(iter(nested))] == next(iter(nested.values()))
        model = clone(model).fit(X, y)
        assert repr(model.inference_) == repr(expected.inference_)
        assert len(model._networks) == 3
        assert_array_equal(model.posterior_.particles, expected.posterior_.particles)


@pytest.mark.parametrize(
    ("Estimator", "n_epochs"), [(BayesianMLPRegressor, 1600), (BayesianMLPClassifier, 800)]
)
def test_automatic_epochs_are_those_of_the_estimator_whoever_makes_the_ensemble(
    Estimator, n_epochs
):
    X, y = data(Estimator, 200, n_classes=2)
    params = {"inference": "ensemble", "n_networks": 2, "early_stopping": False}
    model = Estimator((2,), random_state=0, **params)
    for changed in ({}, {"inference__out_of_bag": False}, {"inference": Ensemble(2)}):
        assert model.set_params(**changed).fit(X, y).inference_.max_iter == n_epochs
        assert model.n_iter_ == n_epochs


@pytest.mark.parametrize("inference", ["svgd", "pmd"])
def test_a_nested_parameter_leaves_the_engine_of_a_plane_alone(inference):
    model = BayesianMLPRegressor(subspace="curve")
    model.set_params(inference__max_iter=7, inference=inference)
    assert repr(model.inference) == repr(type(resolve_engine(inference))(max_iter=7))


# What is refused, and what is warned of.


@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize("hidden", [(5, 0), 0, (-1,), (2.5,), "ab"])
def test_layers_without_units_are_refused(Estimator, hidden):
    X, y = data(Estimator)
    with pytest.raises((ValueError, TypeError), match=r"hidden_layer_sizes.* [gG]ot ['\d(]"):
        network(Estimator).set_params(hidden_layer_sizes=hidden).fit(X, y)


def test_a_batch_of_more_rows_than_there_are_is_one_of_all():
    X, y = data(BayesianMLPRegressor)
    many, all_rows = (
        network(BayesianMLPRegressor, "ensemble", batch_size=n).fit(X, y) for n in (100, len(y))
    )
    assert_array_equal(many.posterior_.particles, all_rows.posterior_.particles)


def test_parameters_that_an_ensemble_ignores_are_named():
    X, y = data(BayesianMLPRegressor)
    model = network(BayesianMLPRegressor, "ensemble", max_iter=2)
    model.set_params(inference__out_of_bag=False).fit(X, y)
    with pytest.warns(UserWarning, match=r"set inference__max_iter, inference__tol\."):
        model.set_params(max_iter=3, tol=0.01).fit(X, y)
    assert model.n_iter_ == 2


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_not_a_number_is_refused(Estimator):
    X, y = data(Estimator)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        network(Estimator).fit(X, y)


@pytest.mark.filterwarnings("ignore:.* than a constant does")
def test_a_constant_outcome_is_warned_of():
    X, _ = data(BayesianMLPRegressor)
    with pytest.warns(UserWarning, match="y is constant"):
        reg = network(BayesianMLPRegressor, "ksd-mcmc").fit(X, np.full(60, 3.0))
    assert_allclose(reg.predict(X), 3.0, atol=0.5)
    with pytest.warns(UserWarning, match=r"column 1 of y is constant \(\[3.0\]\)"):
        network(BayesianMLPRegressor).fit(X, np.column_stack([X[:, 0], np.full(60, 3.0)]))
    with pytest.warns(UserWarning, match="y is constant"):
        network(BayesianMLPRegressor).fit(X[:1], [3.0])


# Four units may fail beside a value far off, and say so.
@pytest.mark.filterwarnings("ignore:.* than a constant does")
def test_outcomes_that_are_lost_beside_values_far_off_are_warned_of(rng):
    X, far = rng.normal(size=(60, 1)), np.append(1e5, np.zeros(59))
    with pytest.warns(UserWarning, match="half of y is within a thousandth"):
        network(BayesianMLPRegressor).fit(X, X[:, 0] + far)
    network(BayesianMLPRegressor).fit(X, X[:, 0] + 1e-3 * far)
    network(BayesianMLPRegressor).fit(X, far + 1e5 * (X[:, 0] > 1.0))  # zeros are told apart


@pytest.mark.parametrize("share", [0.5, 0.6])
def test_outcomes_half_of_which_are_one_value_are_warned_of_where_rows_have_their_own_noise(
    share, rng
):
    X, y = rng.normal(size=(60, 2)), np.where(np.arange(60) < 60 * share, 0.0, 1.0)
    network(BayesianMLPRegressor, noise="normal").fit(X, y)
    with pytest.warns(UserWarning, match='without noise: compare noise="normal"'):
        network(BayesianMLPRegressor, "mcmc", noise="heteroscedastic").fit(X, y)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_of_copies_all_are_held_out_or_none(early_stopping, rng):
    X = rng.normal(size=(20, 2))
    X, y = np.repeat(X, 3, axis=0), np.repeat(X[:, 0], 3)
    reg = network(BayesianMLPRegressor, "ensemble", early_stopping=early_stopping)
    reg.set_params(batch_size=32).fit(X, y)
    held_out = [state.held_out for state in reg._networks]
    assert sum(map(len, held_out)) > 0
    for rows in held_out:
        assert_array_equal(rows, np.flatnonzero(np.isin(X[:, 0], X[rows, 0])))


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_cells_of_a_table_are_no_copies(Estimator):
    """With all rows of a cell held out networks would be judged where they know nothing."""
    X = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (25, 1))
    y = (X[:, 0] != X[:, 1]).astype(int)
    model = network(Estimator, "ensemble", early_stopping=True).set_params(batch_size=32)
    model.set_params(hidden_layer_sizes=(16,)).fit(X, y)
    assert_allclose(
        predicted(model, X[:4])[:, -1 if Estimator is BayesianMLPClassifier else 0], y[:4], atol=0.2
    )


def test_alike_rows_can_be_held_out():
    with pytest.warns(UserWarning, match="y is constant"):
        BayesianMLPRegressor((4,), n_networks=2, max_iter=2).fit(np.ones((30, 2)), np.ones(30))


def test_means_on_minibatches_vary_too_much_and_say_so(rng):
    X = rng.normal(size=(2100, 2))
    reg = BayesianMLPRegressor((4,), n_networks=2, max_iter=2, random_state=0)
    reg.set_params(inference__sampler__thinning=20).fit(X, X[:, 0] + rng.normal(size=2100))
    for ask in (reg.predict_uncertainty, reg.sample_mean):
        with pytest.warns(UserWarning, match="intervals of means of y up to twice"):
            ask(X[:3])
    reg.predict_interval(X[:3])
    reg.sample_predictive(X[:3])
    reg.set_params(inference__sampler__batch_size=None).fit(X[:500], X[:500, 0])
    reg.predict_uncertainty(X[:3])


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_training_that_diverges_says_so(Estimator):
    X, y = data(Estimator)
    model = network(Estimator, learning_rate_init=1e30)
    with pytest.raises(FloatingPointError, match="every network diverged: use"):
        model.fit(X, y)
    classes = {"classes": [0, 1, 2]} if Estimator is BayesianMLPClassifier else {}
    with pytest.raises(FloatingPointError, match="every network diverged: use"):
        for _ in range(10):
            model.partial_fit(X, y, **classes)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_networks_that_are_worse_than_a_constant_are_reported(Estimator):
    """Their weights are finite, so that nothing else would tell."""
    X, y = data(Estimator)
    with (
        pytest.warns(ConvergenceWarning, match="the networks explain .* worse than a constant"),
        pytest.warns(ConvergenceWarning, match="3 of 3 networks bounced in training"),
    ):
        network(Estimator, learning_rate_init=1e4, max_iter=3).fit(X, y)


@every_case
def test_training_that_bounces_is_reported(Estimator, engine):
    """Whatever goes on from there, and although the rate falls to zero in the end."""
    X, y = data(Estimator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network(Estimator, engine, learning_rate_init=100.0, dtype="float64").fit(X, y)
    messages = [str(one.message) for one in caught]
    assert sum("of 3 networks bounced in training" in message for message in messages) == 1


@every_case
def test_training_that_ends_too_early_is_reported_where_nothing_goes_on(Estimator, engine):
    X, y = data(Estimator)
    model = network(Estimator, engine, learning_rate_init=0.003, max_iter=10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    messages = [str(one.message) for one in caught]
    early = "most networks were still on their way when training ended"
    stays = engine in ("ensemble", "svgd", "fwss")
    assert sum(early in message for message in messages) == stays
    assert (early in model.posterior_.diagnostics.get("message", "")) == stays


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_what_was_meant_to_end_early_is_not_reported(Estimator):
    """Stopped by rows held out, by a callback, or a little further after an earlier fit."""
    X, y = data(Estimator)
    few = {"learning_rate_init": 0.003, "max_iter": 10}
    judged = network(Estimator, early_stopping=True, n_iter_no_change=1, tol=1e9, **few)
    stopped = network(Estimator, max_iter=200).set_callbacks(Recorder(1))
    longer = network(Estimator, warm_start=True).fit(X, y).set_params(**few)
    for model in (judged, stopped, longer):
        with warnings.catch_warnings():
            # Worse than a constant they may be.
            warnings.filterwarnings("ignore", ".* than a constant does")
            posterior = model.fit(X, y).posterior_
        assert posterior.converged == (model is not stopped)
        assert "on their way" not in posterior.diagnostics.get("message", "")


@pytest.mark.filterwarnings("ignore:.* than a constant does")
def test_training_that_goes_on_from_a_fit_to_other_labels_may_end_too_early(rng):
    X, y = data(BayesianMLPClassifier)
    clf = network(BayesianMLPClassifier, warm_start=True).fit(X, y)
    clf.set_params(learning_rate_init=0.003, max_iter=10)
    for labels in (y[::-1], y):
        with pytest.warns(ConvergenceWarning, match="on their way"):
            clf.fit(X, labels)


def test_an_ensemble_that_follows_noise_says_so():
    """Test rows say the same; chains, which draw the noise variance, need no such warning.

    Of 47 data sets one is not warned of: its intervals, too, hold all test rows.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    params = {"n_networks": 10, "max_iter": 800, "early_stopping": False, "random_state": 0}
    params["prior"] = Normal(30.0)
    with pytest.warns(ConvergenceWarning, match="err more than a constant does"):
        reg = BayesianMLPRegressor((50,), inference="ensemble", **params).fit(X, y)
    assert reg.score(rng.normal(size=(2000, 5)), rng.normal(size=2000)) < -0.1
    BayesianMLPRegressor((50,), **params).fit(X, y)


@pytest.mark.parametrize("n", [30, 100])
def test_an_ensemble_that_learns_what_there_is_to_learn_is_not_warned_of(n, rng):
    """Noise of twice the signal's variance is no fault of the fit."""
    X = rng.uniform(-3, 3, size=(n + 2000, 1))
    y = np.sin(X[:, 0]) + rng.normal(size=n + 2000)
    reg = BayesianMLPRegressor(inference="ensemble", n_networks=6, max_iter=300, random_state=0)
    assert reg.fit(X[:n], y[:n]).score(X[n:], y[n:]) > -0.4


@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_columns_that_no_weight_can_match_are_warned_of(Estimator, size):
    X, y = data(Estimator)
    raw = network(Estimator, standardize=False)
    for make in (np.asarray, sparse.csr_array):
        with pytest.warns(UserWarning, match="the largest column of X is a thousand times too"):
            fit_quietly(raw, make(size * X), y)
    if Estimator is BayesianMLPRegressor:
        with pytest.warns(UserWarning, match="the largest column of y is a thousand times too"):
            fit_quietly(raw, X, size * y)
    raw.fit(X, y)
    network(Estimator).fit(size * X, y)


def fit_quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_network_that_diverges_is_dropped_and_counted(Estimator, monkeypatch):
    X, y = data(Estimator)
    original, started = MLPTarget.begin_training, []

    def broken(self, theta, *args):
        state = original(self, theta, *args)
        if not started:
            state.weights[0] = np.inf
        started.append(state)
        return state

    monkeypatch.setattr(MLPTarget, "begin_training", broken)
    with pytest.warns(ConvergenceWarning, match="1 of 3 networks diverged and were left out"):
        model = network(Estimator).fit(X, y)
    assert len(model.posterior_) == 2
    assert model.posterior_.diagnostics["n_dropped"] == 1
    assert np.isfinite(predicted(model, X)).all()


def killed(monkeypatch, n_killed):
    """The first networks that are drawn have hidden units which are off for every row."""
    original = MLPTarget.sample_initial

    def dead(self, rng, m):
        theta = original(self, rng, m)
        first, fan_in, fan_out = self.network.layers[0]
        end = first + fan_in * fan_out
        theta[:n_killed, end : end + fan_out] = -1e3
        return theta

    monkeypatch.setattr(MLPTarget, "sample_initial", dead)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_dead_network_is_dropped_and_counted(Estimator, monkeypatch):
    X, y = data(Estimator)
    killed(monkeypatch, 1)
    with pytest.warns(ConvergenceWarning, match="1 of 3 networks died in training and were left"):
        model = network(Estimator).fit(X, y)
    assert len(model.posterior_) == 2
    assert model.posterior_.diagnostics["n_dropped"] == model.posterior_.diagnostics["n_dead"] == 1
    assert np.ptp(model._outputs(X, model.posterior_.particles), axis=1).min() > 0.1


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_networks_that_are_all_dead_are_reported_once(Estimator, monkeypatch):
    """Their predictions are those of a constant, so that nothing else would tell."""
    X, y = data(Estimator)
    killed(monkeypatch, 3)
    with pytest.warns(ConvergenceWarning, match="all networks died in training") as caught:
        model = network(Estimator).fit(X, y)
    assert len(caught) == 1
    assert np.ptp(predicted(model, X), axis=0).max() < 1e-9
    classes = {"classes": [0, 1, 2]} if Estimator is BayesianMLPClassifier else {}
    with pytest.warns(ConvergenceWarning, match="all networks died in training"):
        clone(model).partial_fit(X, y, **classes)


@pytest.mark.parametrize("activation", ["relu", later("tanh")])
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_networks_that_learn_nothing_from_noise_are_not_dead(Estimator, activation, rng):
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    y = y if Estimator is BayesianMLPRegressor else y > 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "[^:]*: 1 of 50 .* worse than a constant")
        model = Estimator((10,), activation, n_networks=5, max_iter=400, random_state=0).fit(X, y)
        model.fit(np.ones((200, 3)), y)
    assert model.posterior_.diagnostics["n_dropped"] <= 1


class Spoiling(Engine):
    """Returns the networks it is given, one of them too large."""

    def __init__(self, factor=1e3):
        self.factor = factor

    def run(self, target, rng, *, init=None, map=map, callback=None):
        particles = init.copy()
        particles[0] *= self.factor
        return ParticlePosterior(particles)


@pytest.mark.parametrize(
    ("factor", "much"),
    [(1e3, r"by [\d.e+]+ nats per row"), (1e200, "by infinitely many nats per row")],
)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_particle_that_an_engine_spoils_is_dropped(Estimator, factor, much):
    """Finite as it is, it would spoil the mean; overflow in its likelihood is no news."""
    X, y = data(Estimator)
    alone = network(Estimator).fit(X, y)
    failure = f"1 of 3 networks explain .*, {much}, and were left out"
    with pytest.warns(ConvergenceWarning, match=failure) as caught:
        model = network(Estimator).set_params(inference=Spoiling(factor)).fit(X, y)
    assert len(caught) == 1
    assert len(model.posterior_) == 2
    assert model.posterior_.diagnostics["n_dropped"] == 1
    assert model.score(X, y) > alone.score(X, y) - 0.1


class Shifting(Engine):
    """Returns the networks it is given, the first with outputs that are off by ``shift``."""

    requires = ("constant",)

    def __init__(self, shift=0.0):
        self.shift = shift

    def run(self, target, rng, *, init=None, map=map, callback=None):
        particles = init.copy()
        particles[0] = target.constant()
        particles[0, target.n_weights - 1] += self.shift
        return ParticlePosterior(particles)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_constant_may_stay_and_what_is_worse_by_a_nat_a_row_may_not(Estimator):
    """By 0.5 log(1 + 4^2) = 1.4 nats, if outcomes are standardised; of 2 log-odds by 1."""
    X, y = data(Estimator, n_classes=2)
    model = network(Estimator).set_params(inference=Shifting()).fit(X, y)
    assert len(model.posterior_) == 3
    with pytest.warns(ConvergenceWarning, match=r"1 of 3 networks .*, by 1\.\d+ nats per row"):
        model.set_params(inference=Shifting(4.0)).fit(X, y)
    assert len(model.posterior_) == 2
    assert model.posterior_.diagnostics["n_dropped"] == 1


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_what_training_left_out_is_counted_whatever_goes_on_from_there(Estimator, monkeypatch):
    X, y = data(Estimator)
    killed(monkeypatch, 1)
    with pytest.warns(ConvergenceWarning):
        model = network(Estimator).set_params(inference=Spoiling()).fit(X, y)
    counts = {"n_dropped": 2, "n_dead": 1}
    assert model.posterior_.diagnostics.items() >= counts.items()


def stream(Estimator):
    """``fit`` of more rows, in the words of ``partial_fit``."""
    classes = {"classes": [0, 1, 2]} if Estimator is BayesianMLPClassifier else {}
    return partial(network(Estimator).partial_fit, **classes)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_stream_leaves_out_what_a_fit_leaves_out(Estimator, monkeypatch):
    X, y = data(Estimator)
    original, started = MLPTarget.begin_training, []

    def broken(self, theta, *args):
        state = original(self, theta, *args)
        if len(started) == 1:
            state.weights[0] = np.inf
        started.append(state)
        return state

    killed(monkeypatch, 1)
    monkeypatch.setattr(MLPTarget, "begin_training", broken)
    for learn in (network(Estimator).fit, stream(Estimator)):
        started.clear()
        with (
            pytest.warns(ConvergenceWarning, match="1 of 3 networks diverged and were left out"),
            pytest.warns(ConvergenceWarning, match="1 of 3 networks died in training and were"),
        ):
            model = learn(X, y)
        assert model.posterior_.diagnostics["n_dropped"] == 2
        assert model.posterior_.diagnostics["n_dead"] == 1
        assert len(model.posterior_) == 1
        assert np.isfinite(predicted(model, X)).all()
    assert model.partial_fit(X, y).posterior_.diagnostics == {"n_dropped": 0, "n_dead": 0}


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_first_rows_that_are_too_few_or_alike_to_scale_by_are_reported(Estimator):
    X, y = data(Estimator)
    with pytest.warns(ConvergenceWarning, match=r"fix scaling, and these have 5 rows: start"):
        stream(Estimator)(X[:5], y[:5])
    alike = np.column_stack([X, np.ones(len(X))])
    with pytest.warns(ConvergenceWarning, match="these have 1 constant features, which are never"):
        stream(Estimator)(alike, y)
    learn = stream(Estimator)
    learn(X, y)
    learn(X[:5], y[:5])
    unscaled = stream(Estimator)
    unscaled.func.__self__.set_params(standardize=False)
    unscaled(X[:5], y[:5])


def test_outcomes_that_spread_more_than_the_first_are_reported():
    X, y = data(BayesianMLPRegressor)
    learn = stream(BayesianMLPRegressor)
    learn(X, y)
    learn(X, 3.0 * y)
    with pytest.warns(ConvergenceWarning, match="y of these rows spreads more than 5 times"):
        learn(X, 10.0 * y)


@pytest.mark.filterwarnings("ignore:.*the first rows of a stream")
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_few_rows_of_a_stream_kill_no_network(Estimator, monkeypatch):
    """All units may be off on them by chance; 50 in a row are enough to tell."""
    X, y = data(Estimator)
    killed(monkeypatch, 1)
    learn = stream(Estimator)
    for _ in range(4):
        assert len(learn(X[:12], y[:12]).posterior_) == 3
    with pytest.warns(ConvergenceWarning, match="1 of 3 networks died in training"):
        assert len(learn(X[:12], y[:12]).posterior_) == 2


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_stream_that_bounces_is_reported(Estimator):
    X, y = data(Estimator)
    learn = stream(Estimator)
    learn.func.__self__.set_params(learning_rate_init=100.0, dtype="float64")
    with pytest.warns(ConvergenceWarning, match="of 3 networks bounced in training"):
        learn(X, y)


@pytest.mark.filterwarnings("ignore:.*networks (have left the posterior|explain the rows)")
def test_chains_of_dead_networks_stay_near(rng):
    """Outcomes are noise, and networks so small that all their units can be off by chance.

    Then the prior alone holds their weights, and what wakes up elsewhere must not be absurd. A
    network that wakes up with a bias of 30 has steep scores until it has settled, so that some
    processors' rounding ends in a warning.
    """
    X, y = rng.normal(size=(100, 5)), rng.normal(size=100)
    reg = BayesianMLPRegressor((5, 5), n_networks=5, max_iter=30, random_state=0).fit(X, y)
    assert np.sqrt(np.mean(reg.predict(rng.normal(size=(2000, 5))) ** 2)) < 3.0


def test_a_chain_that_leaves_for_infinity_is_held():
    X, y = data(BayesianMLPRegressor)
    reg = network(BayesianMLPRegressor, "ksd-mcmc").set_params(inference__sampler__step_size=1e30)
    with pytest.warns(ConvergenceWarning, match="a chain left for infinity"):
        reg.fit(X, y)
    assert np.isfinite(reg.posterior_.particles).all()


@pytest.mark.parametrize("engine", [PMD(), "pmd", "laplace", "stein-points"])
def test_engines_that_would_be_lost_are_refused(engine):
    X, y = data(BayesianMLPRegressor)
    with pytest.raises(ValueError, match=r"lost among the 22 coordinates of a network: use sub"):
        BayesianMLPRegressor((4,), inference=engine, max_iter=5).fit(X, y)


def test_intervals_hold_the_probabilities_or_say_that_they_are_too_narrow(rng):
    X = rng.normal(size=(3500, 3))
    truth = expit(2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1])
    y, X, X_test = rng.random(1500) < truth[:1500], X[:1500], X[1500:]

    def share_inside(inference):
        model = BayesianMLPClassifier(
            (20,), inference=inference, n_networks=5, max_iter=40, random_state=0
        )
        low, high = model.fit(X, y).predict_interval(X_test)[:, 1].T
        return model, np.mean((low < truth[1500:]) & (truth[1500:] < high))

    assert share_inside("mcmc")[1] > 0.65  # .72 to .98 in 47 data sets
    with pytest.warns(UserWarning, match="intervals are too narrow"):
        model, share = share_inside("ensemble")
    assert share < 0.7
    with pytest.warns(UserWarning, match="standard deviations, .* are too narrow"):
        predictive(model, X_test[:3]).std()
    assert share_inside("pmfvb")[1] > 0.5  # .63 to .95
    with pytest.warns(UserWarning, match="intervals are too narrow"):  # whose steps are short
        assert share_inside(AdaptivePMFVB(batch_size=4))[1] < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("tails", [1.2, np.inf])
def test_probabilities_vary_as_in_long_chains(rng, tails):
    X = np.repeat(rng.normal(size=(6, 1)), 20, axis=0)
    if np.isfinite(tails):
        X = rng.standard_t(tails, size=(80, 2))
    y = (np.arange(len(X)) < 8) ^ (X[:, 0] > 0.0)
    model = BayesianMLPClassifier(n_networks=10, random_state=0).fit(X, y)
    X = StandardScaler().fit_transform(X)
    target = MLPTarget(
        X,
        y.astype(float),
        outcome=Bernoulli(),
        hidden_layer_sizes=(100,),
        prior=Normal(3.0),
        dtype=np.float64,
    )
    sampler = HMC(trajectory=2.5, max_leapfrogs=100, acceptance=0.8)
    chains = sampler.warm_up(target, 100, target.sample_initial(rng, 8), rng)
    _, draws, _, _ = sampler.draw(target, 150, chains)
    long, short = (
        expit(target.network.outputs(theta, X)[..., 0]).std(axis=0).mean()
        for theta in (draws.reshape(-1, target.dim), model.posterior_.particles)
    )
    assert abs(short / long - 1.0) < 0.2


def test_a_fit_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*have not mixed")
        for Estimator, engine in (case.values for case in CASES if not case.marks):
            X, y = data(Estimator)
            Estimator((4,), inference=engine, n_networks=4).fit(X, y)


# In the plane of a curve.


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("Estimator", "engine"),
    [
        (BayesianMLPClassifier, ENGINES["ksd-mcmc"]),
        later(BayesianMLPRegressor, ENGINES["pmd"]),
        later(BayesianMLPRegressor, ENGINES["ksd-mcmc"]),
        later(BayesianMLPClassifier, ENGINES["pmd"]),
        later(BayesianMLPRegressor, "svgd"),
        later(BayesianMLPClassifier, "svgd"),
    ],
)
def test_particles_of_a_subspace_lie_in_a_plane(Estimator, engine):
    X, y = data(Estimator)
    model = network(Estimator, subspace="curve").set_params(inference=engine).fit(X, y)
    weights = model.posterior_.particles[:, : model._network.n_weights]
    spread = np.linalg.svd(weights - weights.mean(axis=0), compute_uv=False)
    assert spread[1] > 1e-6 * spread[0]
    assert np.all(spread[2:] < 1e-9 * spread[0])
    assert np.isfinite(predicted(model, X)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("Estimator", [BayesianMLPRegressor, later(BayesianMLPClassifier)])
def test_a_stream_does_not_leave_the_plane(Estimator):
    X, y = data(Estimator)
    options = {} if Estimator is BayesianMLPRegressor else {"classes": np.unique(y)}
    model = network(Estimator, "svgd", subspace="curve")
    with pytest.raises(ValueError, match="partial_fit trains whole networks"):
        model.partial_fit(X, y, **options)
    before = model.fit(X, y).posterior_
    with pytest.raises(ValueError, match="partial_fit trains whole networks"):
        model.partial_fit(X, y)
    assert model.posterior_ is before


def test_a_stream_keeps_its_classes():
    X, y = data(BayesianMLPClassifier)
    clf = network(BayesianMLPClassifier)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        clf.partial_fit(X, y)
    clf.partial_fit(X, y, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="are not those of the rows before"):
        clf.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="classes that are not in classes: \\[9\\]"):
        clf.partial_fit(X, np.append(y[1:], 9))
    weights = np.append(np.ones(len(y) - 1), 0.0)
    clf.partial_fit(X, np.append(y[1:], 9), sample_weight=weights)
    assert_array_equal(clf.classes_, [0, 1, 2, 3])
    with pytest.raises(ValueError, match="got only one class: 1"):
        clf.fit(X, np.ones(len(y), int))


@pytest.mark.filterwarnings("ignore:.* died in training:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_killed", [1, 2])
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_dead_networks_span_no_subspace(Estimator, n_killed, monkeypatch):
    X, y = data(Estimator)
    killed(monkeypatch, n_killed)
    with pytest.raises(FloatingPointError, match=r"diverged or died: .* more hidden units"):
        network(Estimator, "svgd", subspace="curve").fit(X, y)


def test_an_ensemble_has_no_subspace():
    X, y = data(BayesianMLPRegressor)
    with pytest.raises(ValueError, match="needs an engine to find the posterior in it"):
        network(BayesianMLPRegressor, subspace="curve").fit(X, y)


def test_networks_on_the_curve_are_better_than_on_the_straight_line(rng):
    X = rng.normal(size=(200, 2))
    target = MLPTarget(X, np.sin(2.0 * X[:, 0]) + X[:, 1], hidden_layer_sizes=(10,))
    start = Ensemble(2, max_iter=300).run(target, rng).particles
    middle = np.append(curve_middle(target, start[0], start[1], rng), start[0, -1])
    straight = start.mean(axis=0)
    errors = [target.squared_errors(theta)[0] for theta in (middle, straight)]
    assert errors[0] < 0.5 * errors[1]


@some_cases
def test_names_stand_for_engines_that_fit_the_number_of_networks(Estimator, engine):
    """No particle is a network that nothing has trained."""
    X, y = data(Estimator, 200, n_classes=2)
    params = {"n_networks": 4, "max_iter": 100, "random_state": 0}
    alone = Estimator((10,), inference="ensemble", **params).fit(X, y)
    model = Estimator((10,), inference=engine, **params).fit(X, y)
    assert len(model.posterior_) in (4, 40)
    assert model.score(X, y) > alone.score(X, y) - 0.1


# scikit-learn's callbacks.


class Recorder:
    """Keeps what the estimator of each round predicts; asks for a stop after some rounds."""

    def __init__(self, stop_after=None):
        self.stop_after, self.n_particles = stop_after, []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None): ...

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        if context.task_name != "round" or fitted_estimator is None:
            return False
        assert np.isfinite(predicted(fitted_estimator, X)).all()
        self.n_particles.append(len(fitted_estimator.posterior_))
        return len(self.n_particles) == self.stop_after


@pytest.mark.filterwarnings("ignore:.*MCMC. stopped after 7 draws of each chain")
@every_case
def test_callbacks_see_both_stages_and_may_stop_either(Estimator, engine):
    X, y = data(Estimator)
    recorder = Recorder()
    model = network(Estimator, engine).set_callbacks(recorder).fit(X, y)
    assert recorder.n_particles[:20] == [3] * 20
    total = len(recorder.n_particles)
    assert (total > 20) == (engine != "ensemble")
    for stop_after in (5, total - 1):
        recorder = Recorder(stop_after)
        stopped = clone(model).set_callbacks(recorder).fit(X, y)
        assert len(recorder.n_particles) == stop_after
        assert np.isfinite(predicted(stopped, X)).all()


def test_a_line_of_progress_says_where_training_is(capsys):
    X, y = data(BayesianMLPRegressor)
    network(BayesianMLPRegressor, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    pattern = r"\[.*\] training, iteration \d+ of \d+, loss [\d.e-]+, [\d.]+ s(, about .*)?"
    assert len(lines) > 9 and all(re.fullmatch(pattern, line) for line in lines)


def test_a_line_of_progress_says_what_is_left_once_it_is_known(capsys, monkeypatch):
    clock = iter([0.0, 90.0, 91.0, 100.0, 103.0, 106.0])  # routines compile, and chains warm up
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    lines = ProgressLines("")
    for iteration, stage in enumerate(["training", "training", "MCMC", "MCMC", "MCMC"], start=1):
        lines(iteration, 5, None, {"stage": stage, "last_stage": stage == "MCMC"})
    ends = [line.split(" of 5, ")[1] for line in capsys.readouterr().out.splitlines()]
    assert ends == ["90.0 s", "91.0 s", "100.0 s", "103.0 s, about 3 s left", "106.0 s"]


@pytest.mark.parametrize("noise", ["normal", later("student-t"), "heteroscedastic"])
def test_null_space_opens_intervals_away_from_the_rows(rng, noise):
    X = np.concatenate([rng.uniform(-3, -1, 40), rng.uniform(1, 3, 40)])[:, None]
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    options = {"n_networks": 4, "max_iter": 200, "noise": noise, "random_state": 0}
    reg = BayesianMLPRegressor((16, 16), **options).fit(X, y)
    without = BayesianMLPRegressor((16, 16), null_space=0, **options).fit(X, y)
    assert_array_equal(reg.posterior_.particles, without.posterior_.particles)

    def width(model, X):
        return np.diff(model.predict_interval(X)).mean()

    outside = np.array([[-7.0], [7.0]])
    assert width(reg, X) < 1.5 * width(without, X)
    assert width(reg, outside) > 1.05 * width(without, outside)  # mostly twice
    assert_allclose(reg.predict(outside), without.predict(outside), rtol=1e-4)
    # Draws, and the parts of the variance, are of the same mixture.
    parts, draws = reg.predict_uncertainty(outside), reg.sample_mean(outside, 20_000, 0)
    assert_allclose(draws.var(axis=1), parts.epistemic, rtol=0.15)
    noises = without.predict_uncertainty(outside).aleatoric
    assert_allclose(parts.aleatoric, noises, rtol=1e-4)
    transformed = predictive(reg, outside)
    quantiles = np.quantile(reg.sample_predictive(outside, 20_000, 0), [0.25, 0.75], axis=1).T
    tolerance = 0.1 * np.diff(quantiles).max()
    assert_allclose(transformed.interval(0.5), quantiles, atol=tolerance)


def test_a_null_space_beyond_all_priors_is_refused(rng):
    X, y = data(BayesianMLPRegressor)
    with pytest.raises(ValueError, match=r"'null_space' parameter .* in the range \[0.0, 100.0\]"):
        network(BayesianMLPRegressor, null_space=1e300).fit(X, y)
    reg = network(BayesianMLPRegressor, null_space=100.0).fit(X, y)
    assert np.isfinite(reg.predict_interval(1e3 * X)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_null_space_ends_with_a_stream(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    reg = BayesianMLPRegressor((4,), n_networks=2, max_iter=20, random_state=0).fit(X, y)
    before = pickle.loads(pickle.dumps(reg))
    assert_array_equal(before.predict_interval(X), reg.predict_interval(X))
    assert before.null_space_ == reg.null_space_ == 0.5
    reg.partial_fit(X, y)
    assert reg.null_space_ == 0.0
    assert_array_equal(reg.predict(X), reg._moments(X)[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_null_space_says_where_it_was_left_out(monkeypatch, rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    options = {"n_networks": 2, "max_iter": 20, "random_state": 0}
    plane = BayesianMLPRegressor((4,), inference="laplace", subspace="curve", **options)
    assert plane.fit(X, y).null_space_ == 0.0
    monkeypatch.setattr(null_space, "_MOST_PRODUCTS", 10)
    assert BayesianMLPRegressor((4,), **options).fit(X, y).null_space_ == 0.0


@pytest.mark.parametrize(
    ("noise", "times"), [("normal", 1.0), ("normal", 50.0), ("heteroscedastic", 1.0)]
)
def test_outcomes_move_together_along_a_tangent(noise, times, rng):
    """The joint density of normal outcomes, whose covariance has rank one beside the noise."""
    X = rng.uniform(-2.0, 2.0, (150, 1))
    y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])])
    y += [0.1, 0.1 if noise == "normal" else 0.003] * rng.normal(size=(150, 2))
    reg = network(BayesianMLPRegressor, "mcmc", max_iter=300, noise=noise, null_space=1.0)
    X_far = np.array([[0.0], [3.0], [5.0]])
    y_far = reg.fit(X, y).predict(X_far) + [0.2, -0.2]
    reg._tangents *= times
    ((_, (mean, log_noise), spread, weights),) = list(reg._row_spreads(X_far))
    log_noise = np.broadcast_to(log_noise, mean.shape) * (1.0 if noise == "normal" else 2.0)
    expected = []
    for i, observed in enumerate(y_far):
        densities = [
            multivariate_normal(
                mean[i, :, k], np.diag(np.exp(log_noise[i, :, k])) + np.outer(s, s)
            ).logpdf(observed)
            for k, s in enumerate(spread[i].T)
        ]
        expected.append(logsumexp(densities, b=weights))
    assert (spread**2 > np.exp(log_noise)).any()
    assert_allclose(reg.log_predictive(X_far, y_far), expected, atol=0.01)


@pytest.mark.parametrize(
    "changed", [{"activation": "tanh"}, {"dtype": "float64"}, {"hidden_layer_sizes": (40, 4)}]
)
def test_a_stream_goes_on_with_the_same_networks(changed, rng):
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    reg = BayesianMLPRegressor((4,), n_networks=2, random_state=0)
    reg.partial_fit(X, y).set_params(**changed)
    with pytest.raises(ValueError, match="the same hidden_layer_sizes, activation and dtype"):
        reg.partial_fit(X, y)


def test_one_row_of_a_stream_says_little_of_the_noise(rng):
    X = rng.normal(size=(2001, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=2001)
    y[-1] = X[-1, 0] + 3.0
    reg = BayesianMLPRegressor((10,), n_networks=3, random_state=0)
    found = []
    for start in range(0, 2001, 100):
        reg.partial_fit(X[start : start + 100], y[start : start + 100])
        found.append(np.exp(0.5 * reg.posterior_["log_sigma2[0]"]).mean())
    assert_allclose(found[-1], found[-2], rtol=0.05)  # alone it was half as much again


@pytest.mark.filterwarnings("ignore:.*too small for the priors")
@pytest.mark.parametrize("size", [1, later(2), later(5)])
def test_noise_in_small_chunks_is_no_smaller(size, rng):
    n = 400 * size
    X = rng.normal(size=(n, 1))
    y = 2.0 * X[:, 0] + rng.normal(size=n)
    reg = BayesianMLPRegressor(
        (4,), n_networks=3, standardize=False, learning_rate_init=0.01, random_state=0
    )
    found = []
    for start in range(0, n, size):
        reg.partial_fit(X[start : start + size], y[start : start + size])
        found.append(np.exp(reg.posterior_["log_sigma2[0]"]).mean())
    assert 0.5 < np.mean(found[-150:]) < 2.2
