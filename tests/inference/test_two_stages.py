"""Training and an engine that goes on from there, also engines and samplers of other kinds."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgError
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skstein import BayesianMLPClassifier, BayesianMLPRegressor, ParticlePosterior, infer
from skstein.inference import (
    FWSS,
    MCMC,
    SVGD,
    AdaptivePMFVB,
    Engine,
    Ensemble,
    KSDThinnedMCMC,
    Trained,
)
from skstein.inference.base import N_NETWORKS
from skstein.inference.networks import two_stages
from skstein.inference.networks.failed_networks import without_failures
from skstein.samplers import SGHMC
from skstein.targets import MLPTarget
from small import later

ESTIMATORS = [BayesianMLPRegressor, BayesianMLPClassifier]
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)
# Chains as short as these have not converged, and R-hat would say so.
unjudged = {"max_mcse": 1e6, "max_rhat": 1e9, "min_ess": 0, "whiten": False}


def data(Estimator, n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    signal = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, signal if Estimator is BayesianMLPRegressor else (signal > 0).astype(int)


def small(Estimator, inference="ensemble", **params):
    params = {"n_networks": 3, "max_iter": 200, "learning_rate_init": 0.02, **params}
    return Estimator((4,), inference=inference, random_state=0, **params)


def chains(sampler, **params):
    params = {"n_chains": 3, "n_draws": 10, "max_draws": 10, "n_warmup": 3, **unjudged, **params}
    return KSDThinnedMCMC(30, sampler=sampler, **params)


# Engines of another kind.


class Shaken:
    """Knows nothing of this package but what an engine is called with."""

    def __init__(self, size=0.1):
        self.size = size

    def run(self, target, rng, *, init=None, map=map, callback=None):
        self.dim_ = target.dim
        theta = init + self.size * rng.standard_normal(init.shape)
        keep = target.log_density(theta) > target.log_density(init) - 5.0
        return ParticlePosterior(np.where(keep[:, None], theta, init))


class ByWeights(Engine):
    """A step along the score of the weights given their precisions, which only networks have."""

    requires = ("weight_score", "initial_precision")

    def run(self, target, rng, *, init=None, map=map, callback=None):
        p = target.n_weights
        noise_precision = np.exp(-init[0, p:]) if target.n_noise else np.ones(target.n_outputs)
        rows = np.arange(target.n_rows)
        score = target.weight_score(init[:, :p], rows, target.initial_precision, noise_precision)
        theta = init.copy()
        theta[:, :p] += 1e-9 * score
        return ParticlePosterior(theta)


@every_estimator
def test_an_engine_with_nothing_but_run_works_in_scaled_weights(Estimator):
    X, y = data(Estimator)
    alone = small(Estimator).fit(X, y)
    model = small(Estimator, Shaken()).fit(X, y)
    n_weights = model._network.n_weights
    assert model.inference_.dim_ == n_weights
    weights = [m.posterior_.particles[:, :n_weights] for m in (alone, model)]
    assert np.abs(weights[1] - weights[0]).max() > 0.0
    assert model.score(X, y) > alone.score(X, y) - 0.1


@pytest.mark.parametrize("Engine", [MCMC, KSDThinnedMCMC, AdaptivePMFVB, SVGD, FWSS])
def test_all_trained_networks_go_on_unless_an_engine_says_a_number(Engine):
    for training, said, n in [
        (Ensemble(), "auto", N_NETWORKS),
        (Ensemble(3), "auto", 3),
        (Ensemble(3), 5, 5),
    ]:
        engine = Engine().set_params(**{Engine.of_networks: said})
        assert getattr(Trained(training, engine).last_stage, Engine.of_networks) == n
        assert getattr(engine, Engine.of_networks) == said


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("engine", [SVGD(12), FWSS(12), AdaptivePMFVB(12)])
def test_more_particles_than_networks_are_trained_networks_too(engine, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)
    trained, more = (small(BayesianMLPRegressor, each).fit(X, y) for each in ("ensemble", engine))
    errors = [np.square(model.predict(X) - y).mean() for model in (trained, more)]
    assert errors[1] < 1.2 * errors[0]
    assert len(np.unique(more.posterior_.particles, axis=0)) >= 12


@every_estimator
def test_an_engine_that_asks_for_a_network_is_given_one(Estimator):
    X, y = data(Estimator)
    model = small(Estimator, ByWeights()).fit(X, y)
    assert model.posterior_.particles.shape == (3, len(model.posterior_.names))
    assert model.score(X, y) > 0.5


@every_estimator
def test_what_a_network_does_not_offer_is_named_before_any_work(Estimator, monkeypatch):
    class Moon(Engine):
        requires = ("score", "hessian_of_the_moon")

    def begin_training(*args):
        raise AssertionError("training has begun")

    monkeypatch.setattr(MLPTarget, "begin_training", begin_training)
    X, y = data(Estimator)
    with pytest.raises(ValueError, match="Moon needs hessian_of_the_moon, which the target does"):
        small(Estimator, Moon()).fit(X, y)
    with pytest.raises(ValueError, match="Moon needs hessian_of_the_moon, which the target does"):
        small(Estimator, Moon(), subspace="curve").fit(X, y)
    with pytest.raises(ValueError, match="cannot work on minibatches"):
        small(Estimator, chains("hmc", batch_size=10)).fit(X, y)
    with pytest.raises(ValueError, match="surrogate needs hessian and take"):
        small(Estimator, SVGD(surrogate=10)).fit(X, y)


def test_a_score_that_is_singular_says_where():
    class Singular(Engine):
        def run(self, target, rng, *, init=None, map=map, callback=None):
            callback(1, 2, lambda: ParticlePosterior(init), {})
            raise LinAlgError("singular")

    X, y = data(BayesianMLPRegressor)
    with pytest.raises(FloatingPointError, match="singular after iteration 21 of 22 of Singular"):
        small(BayesianMLPRegressor, Singular()).fit(X, y)


@every_estimator
def test_particles_that_are_not_finite_are_refused(Estimator):
    class Lost(Engine):
        def run(self, target, rng, *, init=None, map=map, callback=None):
            return ParticlePosterior(np.full_like(init, np.nan))

    X, y = data(Estimator)
    with (
        pytest.raises(FloatingPointError, match="Lost diverged: its particles are not finite"),
        pytest.warns(ConvergenceWarning, match="infinitely many nats per row"),
    ):
        small(Estimator, Lost()).fit(X, y)


# Samplers of another kind, inside KSD thinning.


class Counting(BaseEstimator):
    """A sampler around another one."""

    def __init__(self, sampler=None):
        self.sampler = sampler

    @property
    def requires(self):
        return self.sampler.requires

    def warm_up(self, target, n_iterations, theta, rng):
        self.n_draws_ = 0
        return self.sampler.warm_up(target, n_iterations, theta, rng)

    def draw(self, target, n_draws, chains):
        self.n_draws_ += n_draws
        return self.sampler.draw(target, n_draws, chains)


class Walk:
    """Random-walk Metropolis on values alone."""

    def warm_up(self, target, n_iterations, theta, rng):
        state = SimpleNamespace(theta=theta, rng=rng, step_size=0.05, n_divergent=0)
        return self.draw(target, n_iterations, state)[0]

    def draw(self, target, n_draws, chains):
        draws = np.empty((len(chains.theta), n_draws, target.dim))
        for t in range(n_draws):
            step = chains.step_size * chains.rng.standard_normal(chains.theta.shape)
            new = chains.theta + step
            gain = target.log_density(new) - target.log_density(chains.theta)
            accept = np.log(chains.rng.random(len(new))) < gain
            chains.theta = np.where(accept[:, None], new, chains.theta)
            draws[:, t] = chains.theta
        scores = target.score(draws.reshape(-1, target.dim)).reshape(draws.shape)
        return chains, draws, scores, 0.5


class Drift:
    """Steps along the scores of minibatches, and noise."""

    noisy_scores = True

    def warm_up(self, target, n_iterations, theta, rng):
        state = SimpleNamespace(theta=theta, rng=rng, step_size=1e-3, n_divergent=0, sizes=set())
        return self.draw(target, n_iterations, state)[0]

    def draw(self, target, n_draws, chains):
        draws = np.empty((len(chains.theta), n_draws, target.dim))
        scores = np.empty_like(draws)
        for t in range(n_draws):
            rows = chains.rng.choice(target.n_rows, target.batch_size, replace=False)
            chains.sizes.add(len(rows))
            scores[:, t] = target.score(chains.theta, rows)
            noise = np.sqrt(chains.step_size) * chains.rng.standard_normal(chains.theta.shape)
            chains.theta = chains.theta + 0.5 * chains.step_size * scores[:, t] + noise
            draws[:, t] = chains.theta
        return chains, draws, scores, 1.0


@every_estimator
def test_a_sampler_around_another_one_draws_the_same(Estimator):
    X, y = data(Estimator)
    plain = small(Estimator, chains(SGHMC(thinning=5))).fit(X, y)
    around = small(Estimator, chains(Counting(SGHMC(thinning=5)))).fit(X, y)
    assert around.inference_.sampler.n_draws_ == 10
    assert_array_equal(around.posterior_.particles, plain.posterior_.particles)


@pytest.mark.parametrize(("sampler", "batch_size"), [(Walk(), None), (Drift(), 16)])
@every_estimator
def test_a_sampler_of_ones_own_moves_networks(Estimator, sampler, batch_size):
    X, y = data(Estimator)
    alone = small(Estimator).fit(X, y)
    model = small(Estimator, chains(sampler, batch_size=batch_size)).fit(X, y)
    assert len(np.unique(model.posterior_.particles[:, 0])) > 3
    assert model.score(X, y) > alone.score(X, y) - 0.15


# What is left to the user.


@pytest.mark.filterwarnings("ignore:.*inference is an Ensemble:UserWarning")
@pytest.mark.parametrize("engine", [Shaken(), chains(SGHMC(thinning=2)), Ensemble(3)])
def test_the_engine_that_is_shown_is_the_one_that_ran(engine, monkeypatch):
    ran = []
    original = type(engine).run

    def run(self, *args, **options):
        ran.append(self)
        return original(self, *args, **options)

    monkeypatch.setattr(type(engine), "run", run)
    model = small(BayesianMLPRegressor, engine).fit(*data(BayesianMLPRegressor))
    shown = getattr(model.inference_, "engine", model.inference_)
    assert ran[-1] is shown and shown is not engine


@every_estimator
def test_stages_of_ones_own_run_by_infer_and_in_an_estimator(Estimator):
    X, y = data(Estimator)
    stages = Trained(Ensemble(3, max_iter=200), SVGD(3, max_iter=10))
    model = small(Estimator, stages).fit(X, y)
    assert model.n_iter_ == 210
    target = MLPTarget(X, X[:, 0], hidden_layer_sizes=(4,))
    posterior = infer(target, stages, random_state=0)
    assert posterior.n_iter == 210 and len(posterior.state) == 3
    assert infer(target, Trained(stages.training), init=posterior, random_state=0).n_iter == 200
    assert "pmd" not in repr(stages)


@pytest.mark.parametrize("engine", ["ensemble", "svgd", "ksd-mcmc"])
@every_estimator
def test_scores_are_there_and_ksd_is_that_of_scaled_weights(Estimator, engine):
    X, y = data(Estimator)
    engine = {"svgd": SVGD(3, max_iter=10), "ksd-mcmc": chains(SGHMC(thinning=20))}.get(
        engine, engine
    )
    posterior = small(Estimator, engine).fit(X, y).posterior_
    assert np.isfinite(posterior.log_densities).all()
    dim = len(posterior.names)
    z = posterior.whitening.inverse(posterior.particles)
    scale = np.diag(posterior.whitening.forward(np.eye(dim)))
    assert_allclose(z * scale, posterior.particles)
    expected = ParticlePosterior(z, scores=posterior.scores * scale).ksd()
    assert_allclose(posterior.ksd(), expected, rtol=1e-6)
    assert posterior.diagnostics["stein_mean_residual"].shape == (dim,)


def test_weights_of_a_linear_model_are_about_one_wide_in_the_coordinates_of_the_posterior():
    """Without hidden layers the posterior is normal, and its scale that of least squares."""
    X, y = data(BayesianMLPRegressor, 200)
    engine = chains(SGHMC(), n_draws=40, max_draws=40).set_params(n_particles=120)
    model = small(BayesianMLPRegressor, engine, max_iter=300).set_params(hidden_layer_sizes=())
    posterior = model.fit(X, y).posterior_
    *std, std_of_df = posterior.whitening.inverse(posterior.particles).std(axis=0)
    assert np.all((np.array(std) > 0.6) & (np.array(std) < 1.6))
    assert 0.4 < std_of_df < 1.2  # 0.7 by long chains: its unit is that of many rows


class Normal(Engine):
    """Draws of the posterior of a linear model given its noise, wider or narrower by a factor."""

    requires = ("weight_score",)

    def __init__(self, factor=1.0):
        self.factor = factor

    def run(self, target, rng, *, init=None, map=map, callback=None):
        X, y, weights = (part.astype(float) for part in target.data)
        design, p = np.column_stack([X, np.ones(len(X))]), target.n_weights
        noise = np.exp(init[0, p:])
        precision = design.T @ (weights[:, None] * design) / noise
        precision += np.diag(target.initial_precision)
        covariance = np.linalg.inv(precision)
        mean = covariance @ (design.T @ (weights * y[:, 0])) / noise
        draws = rng.multivariate_normal(mean, self.factor**2 * covariance, size=200)
        theta = np.column_stack([draws, np.tile(init[0, p:], (200, 1))])
        return ParticlePosterior(theta, scores=target.score(theta))


@pytest.mark.parametrize("factor", [0.5, 1.0, 5.0])
def test_networks_that_have_left_the_posterior_are_warned_of(factor, rng, monkeypatch):
    """Draws f times as wide as a normal posterior have f^2 times its squared scores."""
    # Those that are wide enough to be warned of are worse than a constant here, and left out.
    monkeypatch.setattr(two_stages, "_STEEP", 20.0)
    X = rng.normal(size=(300, 30))
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    model = small(BayesianMLPRegressor, Normal(factor), prior="normal", dtype="float64")
    model.set_params(hidden_layer_sizes=())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        diagnostics = model.fit(X, y).posterior_.diagnostics
    told = sum("have left the posterior" in str(one.message) for one in caught)
    assert told == (factor**2 > 20.0)
    assert_allclose(diagnostics["steepness"], factor**2, rtol=0.2)
    spread = diagnostics["stein_spread_residual"][:-1].mean()
    assert_allclose(spread, abs(factor**2 - 1.0), rtol=0.1, atol=0.15)


# Streams.


def stream(Estimator):
    return {"classes": [0, 1]} if Estimator is BayesianMLPClassifier else {}


@every_estimator
def test_a_part_that_fails_counts_no_rows(Estimator, monkeypatch):
    X, y = data(Estimator)
    parts = [slice(0, 20), slice(20, 40), slice(40, 60)]
    smooth, interrupted = small(Estimator), small(Estimator)
    for part in parts:
        smooth.partial_fit(X[part], y[part], **stream(Estimator))
    for part in parts:
        for error in (FloatingPointError, KeyboardInterrupt):

            def finite(self, theta, error=error):
                raise error

            before = dict(vars(interrupted))
            with monkeypatch.context() as broken, pytest.raises(error):
                broken.setattr(MLPTarget, "finite", finite)
                interrupted.partial_fit(X[part], y[part], **stream(Estimator))
            changed = {k for k, v in vars(interrupted).items() if before.get(k) is not v}
            assert changed <= {"classes_", "n_features_in_"}
        interrupted.partial_fit(X[part], y[part], **stream(Estimator))
    assert_array_equal(interrupted.posterior_.particles, smooth.posterior_.particles)


@every_estimator
def test_the_number_of_jobs_does_not_change_a_stream(Estimator):
    X, y = data(Estimator)
    one, two = (small(Estimator, n_jobs=n, batch_size=7) for n in (1, 2))
    for model in (one, two):
        for _ in range(3):
            model.partial_fit(X, y, **stream(Estimator))
    assert_array_equal(one.posterior_.particles, two.posterior_.particles)


# Early stopping.


@pytest.mark.filterwarnings("ignore:.* than a constant does:UserWarning")
@every_estimator
def test_epochs_are_those_that_were_made(Estimator):
    X, y = data(Estimator)
    options = {"early_stopping": True, "n_iter_no_change": 2, "tol": 1e9}
    model = small(Estimator, **options).fit(X, y)
    assert model.n_iter_ == 3  # one to compare with, and two without progress
    assert small(Estimator, SVGD(3, max_iter=10), **options).fit(X, y).n_iter_ == 13


@pytest.mark.filterwarnings("ignore:.*the first rows of a stream")
@every_estimator
@pytest.mark.parametrize("fitted", [True, False])
def test_few_rows_and_streams_are_not_stopped_early(Estimator, fitted):
    X, y = data(Estimator, 19)
    fits = [small(Estimator, early_stopping=early) for early in (True, False)]
    for model in fits:
        _ = model.fit(X, y) if fitted else model.partial_fit(X, y, **stream(Estimator))
    assert_array_equal(*(model.posterior_.particles for model in fits))


def test_pmfvb_asks_for_what_it_uses():
    """Everything that it calls is in ``requires``: a target without it is refused by name."""
    target = MLPTarget(np.zeros((5, 1)), np.zeros(5), hidden_layer_sizes=(2,))
    target.scales = None
    with pytest.raises(ValueError, match="AdaptivePMFVB needs scales"):
        infer(target, AdaptivePMFVB(2))


@pytest.mark.parametrize("engine", ["svgd", later("fwss")])
def test_networks_of_few_rows_do_not_shrink_to_a_constant(engine, rng, seed):
    """Under a prior whose precisions are unknown the mode of hundreds of weights is zero."""
    X = rng.normal(size=(600, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=600)
    model = BayesianMLPRegressor(inference=engine, n_networks=5, random_state=seed)
    low, high = model.fit(X[:100], y[:100]).predict_interval(X[100:]).T
    assert model.score(X[:100], y[:100]) > 0.7
    assert np.mean((low < y[100:]) & (y[100:] < high)) > 0.7  # of five networks


def test_another_noise_is_no_warm_start(rng):
    X = rng.normal(size=(40, 2))
    model = BayesianMLPRegressor((4,), n_networks=2, max_iter=5, warm_start=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="goes on with the same noise as the fit before"):
        model.set_params(noise="student-t").fit(X, X[:, 0])


def test_draws_of_networks_that_are_left_out_are_no_chains(rng):
    X = rng.normal(size=(50, 2))
    target = MLPTarget(X, X[:, 0], hidden_layer_sizes=(3,))
    theta = target.sample_initial(rng, 3)
    theta[:, : target.n_weights] *= [[0.1], [1e3], [0.1]]  # small ones are nearly constants
    fitted = ParticlePosterior(theta, chains=theta[:, None], diagnostics={"n_dropped": 0})
    kept, message = without_failures(target, fitted, weighted=False)
    assert message.startswith("1 of 3 networks explain") and len(kept) == 2
    assert kept.chains is None and fitted.chains is not None


@pytest.mark.parametrize("engine", ["ensemble", SVGD(6, max_iter=5)])
def test_networks_that_are_trained_further_never_see_the_rows_that_measure_noise(engine):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = 3.0 * X[:, 0] + rng.normal(size=100)
    model = small(BayesianMLPRegressor, engine, n_networks=6, max_iter=150, early_stopping=False)
    model.set_params(hidden_layer_sizes=(30,), warm_start=True)

    def noise(seed):
        model.set_params(random_state=seed).fit(X, y)
        return np.exp(0.5 * model.posterior_.particles[:, -1])

    first = noise(0)
    for seed in range(1, 4):
        assert np.all(noise(seed) > 0.99 * first)
    loaded = pickle.loads(pickle.dumps(model))
    for further, rows in ((model, X[::-1]), (model, X[:70]), (loaded, X)):
        for _ in range(2):  # what was learnt once stays learnt
            with pytest.warns(ConvergenceWarning, match="rows that now measure the noise"):
                further.fit(rows, y[: len(rows)])
