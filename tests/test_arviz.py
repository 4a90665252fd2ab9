"""ArviZ data: draws, weights and likelihoods against the posterior and the estimator themselves."""

import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import small
from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPRegressor,
    LatentDirichletAllocation,
    ParticlePosterior,
    to_arviz,
)
from skstein._tools.pandas_and_arviz import _arviz_major, arviz_variables
from skstein.inference import PMFVB
from skstein.thinning import stack_draws

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # ArviZ 0.23 announces ArviZ 1 whenever it is imported.
    pytest.mark.filterwarnings("ignore:\nArviZ is undergoing:FutureWarning"),
]


@pytest.fixture(
    params=[
        pytest.param(
            "datatree",
            marks=pytest.mark.skipif(
                find_spec("arviz_base") is None, reason="arviz-base is not installed"
            ),
        ),
        pytest.param(
            "inferencedata",
            marks=pytest.mark.skipif(_arviz_major() != 0, reason="needs ArviZ below 1"),
        ),
    ]
)
def container(request):
    return request.param


def test_equal_weights_keep_the_particles(container, rng):
    posterior = ParticlePosterior(rng.normal(size=(6, 2)), names=["a", "b"])
    data = posterior.to_arviz(container=container)
    for name, column in zip("ab", posterior.particles.T, strict=True):
        assert data["posterior"][name].dims == ("chain", "draw")
        assert_array_equal(data["posterior"][name].values, column[None])
    assert not hasattr(data, "sample_stats")
    assert "not draws of a chain" in data["posterior"].attrs["comment"]


def test_chains_are_handed_over_as_they_are(container, rng):
    chains = rng.normal(size=(3, 50, 3))
    posterior = ParticlePosterior(
        chains[0], names=["mu", "beta[x]", "beta[y]"], log_densities=np.zeros(50), chains=chains
    )
    data = posterior.to_arviz(container=container)
    draws, _ = stack_draws(data)
    assert_array_equal(draws, chains)
    assert "comment" not in data["posterior"].attrs
    assert not hasattr(data, "sample_stats")  # log densities are those of the particles
    assert posterior.to_arviz(n_draws=50, container=container)["posterior"]["mu"].shape == (1, 50)


def test_a_fit_by_chains_hands_over_its_chains(container):
    """In units of the data: their likelihood averages to the density of these very draws."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    reg = make_pipeline(StandardScaler(), BayesianLinearRegression(random_state=0)).fit(X, y)
    data = to_arviz(reg, X[:20], y[:20], container=container)
    inner = reg[-1]
    chains = inner.posterior_.chains
    assert_array_equal(data["posterior"]["s5"].values, chains[:, :, 9])  # by its own name
    assert data["log_likelihood"]["y"].shape == (*chains.shape[:2], 20)
    gap = chains.mean(axis=(0, 1)) - inner.posterior_.mean()
    assert (np.abs(gap) < 0.2 * inner.posterior_.std()).all()
    inner.posterior_ = ParticlePosterior(chains.reshape(-1, 12), names=inner.posterior_.names)
    found = logsumexp(data["log_likelihood"]["y"].values, axis=(0, 1)) - np.log(chains[..., 0].size)
    assert_allclose(found, inner.log_predictive(reg[:-1].transform(X[:20]), y[:20]), rtol=1e-9)


def test_draws_have_the_moments_of_the_weighted_particles(container, rng):
    """Systematic choice: the share of a particle is off by less than one draw."""
    weights = rng.random(20) ** 3
    posterior = ParticlePosterior(
        rng.normal(size=(20, 3)),
        weights,
        names=["mu", "beta[x]", "beta[y]"],
        log_densities=np.arange(20.0),
    )
    data = posterior.to_arviz(n_draws=4000, container=container)
    draws, names = stack_draws(data)
    assert names == ["mu", "beta[0]", "beta[1]"]
    assert_array_equal(data["posterior"]["beta"].coords["beta_dim_0"], ["x", "y"])
    assert_allclose(draws.mean(axis=(0, 1)), posterior.mean(), atol=20 * 4 / 4000)
    shares = np.bincount(data["sample_stats"]["lp"].values[0].astype(int), minlength=20)
    assert (np.abs(shares - 4000 * posterior.weights) < 1).all()


def test_names_that_cannot_be_gathered_stay_apart():
    variables, dims, _ = arviz_variables(
        np.arange(8.0).reshape(1, 2, 4), ["a", "a[0]", "b[x]", "z[1].c"]
    )
    assert {name: array.shape for name, array in variables.items()} == {
        "a": (1, 2),
        "a[0]": (1, 2),
        "b": (1, 2, 1),
        "z[1].c": (1, 2),
    }
    assert dims == {"b": ["b_dim_0"]}


@pytest.mark.parametrize("inference", ["pmfvb", "pmd"])
def test_the_likelihood_of_a_regression_averages_to_the_predictive_density(inference, container):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    reg = make_pipeline(StandardScaler(), BayesianLinearRegression(inference, random_state=0))
    reg.fit(X, y)
    data = to_arviz(reg, X[:40], y[:40], random_state=0, container=container)
    log_likelihood = data["log_likelihood"]["y"]
    posterior = reg[-1].posterior_
    assert log_likelihood.dims == ("chain", "draw", "row")
    found = logsumexp(log_likelihood.values[0], axis=0) - np.log(len(posterior))
    expected = reg[-1].log_predictive(reg[:-1].transform(X[:40]), y[:40])
    assert_allclose(found, expected, rtol=1e-9)
    assert_array_equal(data["observed_data"]["y"], y[:40])
    # Outcomes belong to the draw: less the mean of their draw they have its noise alone.
    draws = data["posterior"]
    coef = np.column_stack([draws[name].values[0] for name in X.columns])
    means = reg[0].transform(X[:40]) @ coef.T + draws["intercept"].values[0]
    noise = np.exp(0.5 * draws["log_sigma2"].values[0])
    standard = (data["posterior_predictive"]["y"].values[0].T - means) / noise
    assert abs(standard.mean()) < 5 / np.sqrt(standard.size)
    assert abs(standard.std() - 1) < 5 / np.sqrt(2 * standard.size)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_likelihood_of_classes_averages_to_their_probability(n_classes, container):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], np.array(["c", "a", "b"])[y[y < n_classes]]
    model = BayesianLogisticRegression(PMFVB(n_particles=100), random_state=0)
    search = GridSearchCV(model, {"prior__scale": [1.0]}, cv=2).fit(X, y)
    data = to_arviz(search, X, y, random_state=0, container=container)
    n_draws = data["posterior"].sizes["draw"]
    found = logsumexp(data["log_likelihood"]["y"].values[0], axis=0) - np.log(n_draws)
    assert_allclose(found, search.best_estimator_.log_predictive(X, y), rtol=1e-9)
    assert_array_equal(search.classes_[data["observed_data"]["y"].values], y)
    proba = search.predict_proba(X)
    drawn = data["posterior_predictive"]["y"].values[0]
    for k in range(n_classes):
        share = (drawn == k).mean(axis=0)
        error = np.sqrt(proba[:, k] * (1 - proba[:, k]) / n_draws)
        assert (np.abs(share - proba[:, k]) < 5 * error + 2 / n_draws).all()


def test_without_outcomes_there_is_no_likelihood(container):
    X, y = load_iris(return_X_y=True)
    clf = BayesianLogisticRegression("svgd", random_state=0).fit(X, y)
    data = to_arviz(clf, X[:5], n_draws=30, container=container)
    assert data["posterior_predictive"]["y"].shape == (1, 30, 5)
    assert not hasattr(data, "log_likelihood")


def test_a_network_has_its_null_space(container, rng):
    X = rng.normal(size=(60, 1))
    reg = small.network(BayesianMLPRegressor, "mcmc", null_space=1.0).fit(X, np.sin(X[:, 0]))
    far = np.array([[9.0]])
    data = to_arviz(reg, far, n_draws=4000, random_state=0, container=container)
    spread = np.std(data["posterior_predictive"]["y"])
    assert_allclose(spread, reg.predict(far, return_std=True)[1][0], rtol=0.1)
    by_default = to_arviz(reg, far, container=container)["posterior"]
    assert by_default.sizes["draw"] == len(reg.posterior_)


@pytest.mark.parametrize("name", ["chain", "draw", "row", "y"])
def test_names_that_arviz_needs_are_refused(name, rng):
    X = pd.DataFrame({name: rng.normal(size=20), "b": rng.normal(size=20)})
    reg = BayesianLinearRegression("laplace", random_state=0).fit(X, X["b"])
    with pytest.raises(ValueError, match=f"a coordinate is called '{name}'"):
        to_arviz(reg, X, X["b"])


def test_what_is_refused(rng):
    posterior = ParticlePosterior(rng.normal(size=(6, 2)))
    with pytest.raises(ValueError, match="container must be one of auto, datatree"):
        posterior.to_arviz(container="xarray")
    for n_draws in (0, 2.5):
        with pytest.raises(ValueError, match="n_draws must be a positive integer"):
            posterior.to_arviz(n_draws=n_draws)
    X, y = load_diabetes(return_X_y=True)
    inner = BayesianLinearRegression("svgd", random_state=0)
    reg = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
    with pytest.raises(TypeError, match="pass its regressor_, with the transformed y"):
        to_arviz(reg, X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        to_arviz(reg.regressor_, X, y[:-1])
    topics = LatentDirichletAllocation(2, random_state=0).fit(np.eye(4, dtype=int) + 1)
    with pytest.raises(TypeError, match="predictive needs a fitted classifier or regressor"):
        to_arviz(topics, X)


def test_without_arviz_a_message_says_what_to_install(monkeypatch, rng):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    monkeypatch.setattr("skstein._tools.pandas_and_arviz._arviz_major", lambda: None)
    posterior = ParticlePosterior(rng.normal(size=(6, 2)))
    with pytest.raises(ImportError, match="pip install arviz"):
        posterior.to_arviz()
    with pytest.raises(ImportError, match='pip install "arviz<1"'):
        posterior.to_arviz(container="inferencedata")
