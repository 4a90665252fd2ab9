"""`warm_start`: a fit goes on from the one before, on the same data."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from densities import standard_normal
from skstein import BayesianLinearRegression, BayesianLogisticRegression, infer
from skstein.inference import ENGINES, FWSS, PMD, PMFVB, SVGD, KSDThinnedMCMC

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def data(gold):
    reference = gold("synthetic4_logistic")
    return reference["X_std"], reference["y"]


def error(model, reference):
    mean = np.append(model.intercept_, model.coef_)
    return np.sqrt(np.mean(((mean - reference["mean"]) / reference["sd"]) ** 2))


@quiet
def test_chains_in_two_fits_are_the_chains_of_one(data):
    settings = dict(n_draws=60, n_warmup=50, min_ess=1e9, n_particles=50)
    once = BayesianLogisticRegression(KSDThinnedMCMC(max_draws=120, **settings), random_state=0)
    twice = BayesianLogisticRegression(
        KSDThinnedMCMC(max_draws=60, **settings), random_state=0, warm_start=True
    )
    once.fit(*data)
    twice.fit(*data)
    assert twice.n_iter_ == 110
    twice = pickle.loads(pickle.dumps(twice)).fit(*data)
    assert twice.n_iter_ == once.n_iter_ == 170
    assert_allclose(twice.posterior_.particles, once.posterior_.particles, rtol=1e-9)
    assert_array_equal(twice.posterior_.history["ksd"], once.posterior_.history["ksd"])
    assert_allclose(
        twice.posterior_.diagnostics["rhat"], once.posterior_.diagnostics["rhat"], rtol=1e-9
    )


@quiet
def test_an_earlier_posterior_is_left_as_it_was():
    target = standard_normal()
    engine = KSDThinnedMCMC(n_draws=50, max_draws=50)
    first = infer(target, engine, random_state=0)
    particles = first.particles.copy()
    a, b = (infer(target, engine, init=first, random_state=1) for _ in range(2))
    assert_array_equal(first.particles, particles)
    assert_array_equal(a.particles, b.particles)
    assert a.n_iter == first.n_iter + 50


@quiet
def test_chains_take_more_or_fewer_points(data):
    model = BayesianLogisticRegression(
        KSDThinnedMCMC(n_particles=40, n_draws=60, max_draws=60), random_state=0, warm_start=True
    ).fit(*data)
    for n in (80, 20):
        model.set_params(inference__n_particles=n).fit(*data)
        assert len(model.posterior_) == n


@pytest.mark.parametrize("changed", [{"n_chains": 4}, {"whiten": False}])
@quiet
def test_what_the_chains_cannot_change_is_named(data, changed):
    model = BayesianLogisticRegression(
        KSDThinnedMCMC(n_draws=60, max_draws=60), random_state=0, warm_start=True
    ).fit(*data)
    (name,) = changed
    model.inference.set_params(**changed)
    with pytest.raises(ValueError, match=f"continues the chains as they are: {name} must not"):
        model.fit(*data)


def test_fwss_keeps_its_particles_and_adds_to_them(data, gold):
    reference = gold("synthetic4_logistic")
    model = BayesianLogisticRegression(
        FWSS(50), standardize=False, random_state=0, warm_start=True
    ).set_params(prior__scale=reference["prior_sd"], intercept_prior__scale=reference["prior_sd"])
    first = model.fit(*data).posterior_.particles
    grown = model.set_params(inference__n_particles=200).fit(*data).posterior_
    assert_allclose(grown.particles[:50], first, rtol=1e-9)
    assert len(grown) == 200
    assert error(model, reference) < 0.06
    with pytest.raises(ValueError, match="n_particles=100 is less than the 200 particles"):
        model.set_params(inference__n_particles=100).fit(*data)


@pytest.mark.parametrize("engine", ENGINES)
@quiet
def test_every_engine_goes_on_to_the_same_posterior(engine, data, gold):
    reference = gold("synthetic4_logistic")
    model = BayesianLogisticRegression(
        engine, standardize=False, random_state=0, warm_start=True
    ).set_params(prior__scale=reference["prior_sd"], intercept_prior__scale=reference["prior_sd"])
    before = error(model.fit(*data), reference)
    assert error(model.fit(*data), reference) < max(0.1, 1.1 * before)


@quiet
def test_without_warm_start_a_fit_begins_anew_and_keeps_nothing(data):
    model = BayesianLogisticRegression(random_state=0).fit(*data)
    assert model.posterior_.state is None
    particles = model.posterior_.particles
    assert_array_equal(model.fit(*data).posterior_.particles, particles)
    # Turned on later, chains start from the particles.
    again = model.set_params(warm_start=True).fit(*data)
    assert not np.array_equal(again.posterior_.particles, particles)
    assert not hasattr(clone(again), "posterior_")


@pytest.mark.parametrize("engine", ENGINES)
@quiet
def test_other_data_are_refused(engine, data):
    X, y = data
    model = BayesianLogisticRegression(engine, random_state=0, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="the log density is not that of the earlier"):
        model.fit(X[:-1], y[:-1])
    with pytest.raises(ValueError, match="same features and classes"):
        model.fit(X[:, :-1], y)
    with pytest.raises(ValueError, match="the log density is not that of the earlier"):
        model.set_params(prior__scale=0.5).fit(X, y)


@pytest.mark.parametrize(
    "engine",
    [
        PMD(1001, n_moves=5, max_iter=2),
        PMFVB(50, batch_size=20, n_points=None),
        KSDThinnedMCMC(1001, sampler="sgld", n_draws=300, max_draws=300),
    ],
)
@quiet
def test_other_data_are_refused_where_few_log_densities_are_known(engine, data):
    """Of more particles than log densities are worth, which a pickle and a copy keep too."""
    X, y = data[0] * [1.0, 2.0, 3.0] + 5.0, data[1]
    model = BayesianLogisticRegression(engine, prior="normal", random_state=0, warm_start=True)
    model = pickle.loads(pickle.dumps(model.fit(X, y)))
    assert len(model.posterior_) > 1000 and model.posterior_.log_densities is None
    params, before = model.get_params(deep=False), model.posterior_
    for changed in ({"prior__scale": 0.5}, {"standardize": False}, {"class_weight": "balanced"}):
        with pytest.raises(ValueError, match="the log density is not that of the earlier"):
            model.set_params(**changed).fit(X, y)
        model.set_params(**params)
    for others in ((X, 1 - y), (2.0 * X, y), (X[:-1], y[:-1])):
        with pytest.raises(ValueError, match="the log density is not that of the earlier"):
            model.fit(*others)
    assert model.posterior_ is before
    model.fit(X, y)


@quiet
def test_early_stopping_goes_on_with_the_same_rows_set_aside(data):
    """Drawn anew they would make another posterior, and leak what was learnt of them."""
    X, y = data
    engine = PMFVB(50, max_iter=60, early_stopping=True)
    model = BayesianLogisticRegression(engine, warm_start=True)  # without a seed
    model.fit(X, y)
    aside = model.posterior_.state
    assert aside.sum() == round(0.1 * len(y))
    model = pickle.loads(pickle.dumps(model)).fit(X, y)
    assert_array_equal(model.posterior_.state, aside)
    with pytest.raises(ValueError, match=r"prior and rows set aside \(early_stopping\), or start"):
        model.set_params(inference__validation_fraction=0.3).fit(X, y)
    with pytest.raises(ValueError, match=r"prior and rows set aside \(early_stopping\), or start"):
        model.set_params(inference__validation_fraction=0.1).fit(X, 1 - y)
    once = BayesianLogisticRegression(engine, random_state=0).fit(X, y)
    assert once.posterior_.state is None


@quiet
def test_regression_goes_on_in_units_of_the_outcome(rng):
    X = rng.standard_normal((50, 2)) + 1e3
    y = 1e4 + 100.0 * X[:, 0] + rng.standard_normal(50)
    model = BayesianLinearRegression(FWSS(30), random_state=0, warm_start=True).fit(X, y)
    first = model.posterior_.particles
    model.set_params(inference__n_particles=40).fit(X, y)
    assert_allclose(model.posterior_.particles[:30], first, rtol=1e-7)


def test_particles_that_repel_start_apart():
    """One starting point for many particles: the others start elsewhere, not on top of it."""
    target = standard_normal()
    posterior = infer(target, SVGD(50), init=[[0.0, 0.0]], random_state=0)
    assert len(np.unique(posterior.particles.round(6), axis=0)) == 50
    assert_allclose(posterior.std(), 1.0, atol=0.15)
