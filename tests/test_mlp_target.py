"""Networks as targets: against differences, an independent implementation, and closed forms."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats
from scipy.special import expit, log_softmax, softmax

from skstein import outcomes
from skstein._jit import dense_layers
from skstein.priors import (
    AdaptiveRidge,
    HierarchicalNormal,
    InverseGamma,
    Laplace,
    Normal,
    StudentT,
)
from skstein.targets.networks import mlp
from skstein.targets.networks.curvature import gauss_newton
from skstein.targets.networks.mlp import MLPTarget
from skstein.targets.networks.null_space import null_space_tangent
from skstein.targets.networks.scaled_network import ScaledNetwork
from skstein.targets.networks.weight_priors import weight_prior

PRIORS = [Normal(2.0), StudentT(), AdaptiveRidge(rate=0.5), HierarchicalNormal(rate=9.0)]
FUNCTIONS = {
    "relu": lambda a: np.maximum(a, 0.0),
    "tanh": np.tanh,
    "relu-tanh": lambda a: np.where(
        np.arange(a.shape[-1]) < 0.5 * a.shape[-1], np.maximum(a, 0.0), np.tanh(a)
    ),
    "logistic": expit,
}
CASES = list(product(["normal", "binary", "softmax"], FUNCTIONS, [(), (5,), (4, 3)]))
every_case = pytest.mark.parametrize(("likelihood", "activation", "hidden"), CASES)


def outcome_of(likelihood, n_classes=3):
    if likelihood == "normal":
        return outcomes.Normal(InverseGamma(1.0, 0.01))
    return outcomes.Bernoulli() if likelihood == "binary" else outcomes.Categorical(n_classes)


def make(rng, likelihood="normal", activation="relu", hidden=(5,), n=23, **options):
    options = {"dtype": np.float64, **options}
    X = rng.normal(size=(n, 3))
    X[::3, 1] = 0.0  # inputs that are zero take another path
    if likelihood == "normal":
        y = rng.normal(size=(n, 2))
    else:
        y = rng.integers(2 if likelihood == "binary" else 3, size=n)
    weights = rng.uniform(0.5, 2.0, size=n)
    return MLPTarget(
        X,
        y,
        **{"outcome": outcome_of(likelihood), **options},
        sample_weight=weights,
        hidden_layer_sizes=hidden,
        activation=activation,
    )


def plain_outputs(target, theta, X):
    """Outputs of one network by matrix products."""
    layers = target.network.layers
    for number, (first, fan_in, fan_out) in enumerate(layers):
        matrix = theta[first : first + fan_in * fan_out]
        bias = theta[first + fan_in * fan_out :][:fan_out]
        if number == len(layers) - 1:
            return X @ matrix.reshape(fan_out, fan_in).T + bias
        X = FUNCTIONS[target.network.activation](X @ matrix.reshape(fan_in, fan_out) + bias)


def differences(function, theta, step=1e-6):
    result = np.empty_like(theta)
    for j in range(len(theta)):
        ends = np.repeat(theta[None], 2, axis=0)
        ends[:, j] += [-step, step]
        low, high = function(ends)
        result[j] = (high - low) / (2 * step)
    return result


@every_case
def test_log_likelihood_is_that_of_plain_matrix_products(likelihood, activation, hidden, rng):
    target = make(rng, likelihood, activation, hidden)
    theta = 0.7 * rng.normal(size=(4, target.dim))
    X, y, weights = target.data
    for particle, value in zip(theta, target.log_likelihood(theta), strict=True):
        outputs = plain_outputs(target, particle, X)
        if likelihood == "normal":
            scale = np.exp(0.5 * particle[target.n_weights :])
            expected = weights @ stats.norm.logpdf(y, outputs, scale)
        elif likelihood == "binary":
            expected = weights @ stats.bernoulli.logpmf(y, expit(outputs))
        else:
            expected = weights @ (y * log_softmax(outputs, axis=1))
        assert_allclose(value, expected.sum(), rtol=1e-10)


@every_case
def test_score_is_the_gradient(likelihood, activation, hidden, rng):
    target = make(rng, likelihood, activation, hidden)
    theta = 0.7 * rng.normal(size=target.dim)
    expected = differences(target.log_density, theta)
    value, score = target.log_density_and_score(theta[None])
    assert_allclose(score[0], expected, rtol=1e-5, atol=1e-6)
    assert_allclose(value, target.log_density(theta[None]), rtol=1e-10)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_prior_score_is_the_gradient(prior, rng):
    target = make(rng, prior=prior)
    theta = rng.normal(size=target.dim)
    expected = differences(target.log_prior, theta)
    assert_allclose(target._prior_score(theta[None])[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_scaled_weights_are_under_the_precisions_of_training(prior, rng):
    """With given noise: the density is that of normal weights beside the likelihood."""
    target = make(rng, prior=prior)
    log_noise, scale = rng.normal(size=2), rng.uniform(0.5, 2.0, size=target.n_weights)
    scaled = ScaledNetwork(target, scale, log_noise)
    z = rng.normal(size=(2, scaled.dim))
    value, score = scaled.log_density_and_score(z)
    assert_allclose(score[0], differences(scaled.log_density, z[0]), rtol=1e-5, atol=1e-5)
    assert_allclose(scaled.score(z), score, rtol=1e-10)
    theta = scaled.forward(z)
    given = stats.norm.logpdf(theta[:, : scaled.dim], scale=target.initial_precision**-0.5)
    expected = target.log_likelihood(theta) + given.sum(axis=1)
    assert_allclose(np.diff(value), np.diff(expected), rtol=1e-9)


def test_prior_density_is_that_of_its_draws(rng):
    """A normal prior, scaled by the number of inputs, and an inverse gamma variance."""
    target = make(
        rng, prior=Normal(2.0), hidden=(4,), outcome=outcomes.Normal(InverseGamma(3.0, 0.5))
    )
    draws = target.sample_prior(rng, 20_000)
    scale = np.concatenate(
        [np.full(12, 2 / np.sqrt(3)), np.full(4, 2.0), np.full(8, 2 / np.sqrt(4)), np.ones(2)]
    )
    weights, noise = draws[:, :26], np.exp(draws[:, 26:])
    assert_allclose(weights.std(axis=0), scale, rtol=0.05)
    assert_allclose(noise.mean(axis=0), 0.5 / 2.0, rtol=0.1)
    density = stats.norm.logpdf(weights, scale=scale).sum(axis=1)
    density += (stats.invgamma.logpdf(noise, 3.0, scale=0.5) + np.log(noise)).sum(axis=1)
    assert_allclose(target.log_prior(draws[:50]), density[:50], rtol=1e-10)


@pytest.mark.parametrize("likelihood", ["normal", "binary", "softmax"])
def test_batches_add_up(likelihood, rng):
    """The scores of disjoint batches, each scaled by n / B, average to the full one."""
    target = make(rng, likelihood, n=24)
    theta = rng.normal(size=(3, target.dim))
    parts = np.split(rng.permutation(24), 4)
    scores = [target.score(theta, rows) for rows in parts]
    assert_allclose(np.mean(scores, axis=0), target.score(theta), rtol=1e-9, atol=1e-9)
    values = [target.log_likelihood(theta, rows) for rows in parts]
    assert_allclose(np.mean(values, axis=0), target.log_likelihood(theta), rtol=1e-9)


@pytest.mark.parametrize("likelihood", ["normal", "binary", "softmax"])
def test_integer_weights_equal_repetition(likelihood, rng):
    weights = rng.integers(1, 4, size=30)
    X = rng.normal(size=(30, 2))
    y = rng.normal(size=30) if likelihood == "normal" else rng.integers(2, size=30)
    options = {"outcome": outcome_of(likelihood, 2), "dtype": np.float64}
    weighted = MLPTarget(X, y, sample_weight=weights, **options)
    repeated = MLPTarget(np.repeat(X, weights, axis=0), np.repeat(y, weights), **options)
    theta = rng.normal(size=(2, weighted.dim))
    assert_allclose(weighted.score(theta), repeated.score(theta), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("likelihood", ["normal", "binary", "softmax"])
def test_float32_agrees_with_float64(likelihood, seed):
    exact, fast = (
        make(np.random.default_rng(seed), likelihood, dtype=dtype)
        for dtype in (np.float64, np.float32)
    )
    theta = np.random.default_rng(seed).normal(size=(3, exact.dim))
    scale = np.abs(exact.score(theta)).max()
    assert_allclose(fast.score(theta), exact.score(theta), atol=1e-4 * scale)


def curvature(target, theta):
    """The Gauss-Newton matrix J' H J summed over rows, with J by differences."""
    X, _, weights = target.data
    outputs = target.network.outputs(theta[None], X)[0]
    result = np.zeros((target.n_weights, target.n_weights))
    for i in range(len(X)):
        jacobian = np.stack(
            [
                differences(
                    lambda t, i=i, k=k: target.network.outputs(t, X[i : i + 1])[:, 0, k], theta
                )
                for k in range(target.n_outputs)
            ]
        )[:, : target.n_weights]
        if target.n_noise:
            inner = np.diag(np.exp(-theta[target.n_weights :]))
        else:
            p = expit(outputs[i]) if target.n_outputs == 1 else softmax(outputs[i])
            inner = np.diag(p) - np.outer(p, p)
        result += weights[i] * np.einsum("kp,kl,lq->pq", jacobian, inner, jacobian)
    return result


@pytest.mark.parametrize("likelihood", ["normal", "binary", "softmax"])
@pytest.mark.parametrize("hidden", [(5,), (4, 3)])
def test_curvature_is_that_of_the_gauss_newton_matrix(likelihood, hidden, rng):
    """Random signs of outputs, and random labels, average out."""
    target = make(rng, likelihood, "tanh", hidden, n=9)
    theta = 0.5 * rng.normal(size=target.dim)
    noise = np.exp(-theta[target.n_weights :]) if target.n_noise else np.ones(target.n_outputs)
    weights, rows = theta[: target.n_weights], np.arange(9)
    expected = curvature(target, theta)
    for largest in (0, 1000):
        draws = [
            gauss_newton(weights, target.data, rows, target._compiled, noise, rng, largest)
            for _ in range(2000)
        ]
        for layer, (first, fan_in, fan_out) in zip(
            zip(*draws, strict=True), target.network.layers, strict=True
        ):
            own = slice(first, first + (fan_in + 1) * fan_out)
            truth = expected[own, own] if largest else np.diagonal(expected)[own]
            error = np.std(layer, axis=0) / np.sqrt(len(layer)) + 1e-6
            assert np.all(np.abs(np.mean(layer, axis=0) - truth) < 6.0 * error)


def floored_diagonal(matrix, layers):
    """No entry less than the mean of its row of weights, or of the biases of its layer."""
    diagonal = np.diagonal(matrix).copy()
    for first, rows, columns in layers:
        end = first + rows * columns
        of_row = diagonal[first:end].reshape(rows, columns)
        np.maximum(of_row, of_row.mean(axis=1, keepdims=True), out=of_row)
        biases = slice(end, end + (columns if rows > 1 else 1))
        diagonal[biases] = np.maximum(diagonal[biases], diagonal[biases].mean())
    return diagonal


def test_scales_have_a_floor(rng):
    """No weight counts less than the mean of its row, dead units included."""
    target = make(rng, "binary", "relu", (4, 3))
    theta = 0.5 * rng.normal(size=target.dim)
    theta[12] = -100.0  # the first unit's bias
    matrix = curvature(target, theta)
    expected = floored_diagonal(matrix, [(0, 3, 4), (16, 4, 3), (31, 1, 3)])
    assert matrix[12, 12] == 0.0
    precision = np.full(target.n_weights, 2.0)
    scales = target.scales(theta, precision, rng)
    assert_allclose(scales, 1.0 / np.sqrt(expected + 2.0), rtol=1e-5)


def test_metric_is_the_inverse_of_the_curvature_of_each_layer(rng, monkeypatch):
    """Of layers with too many weights, of its diagonal."""
    monkeypatch.setattr(mlp, "_LARGEST_BLOCK", 15)
    target = make(rng, "binary", "relu", (4, 3))
    theta = 0.5 * rng.normal(size=target.dim)
    matrix, precision = curvature(target, theta), rng.uniform(1.0, 3.0, target.n_weights)
    diagonal = floored_diagonal(matrix, [(0, 3, 4), (16, 4, 3), (31, 1, 3)])
    expected = np.diag(diagonal + precision)
    for first, end in [(16, 31), (31, 35)]:
        own = slice(first, end)
        expected[own, own] = matrix[own, own] + np.diag(precision[own] + 0.1 * diagonal[own])
    values, starts = target.metric(theta, precision, 0.1, rng)
    rows = np.split(values, np.cumsum(np.arange(target.n_weights) - starts + 1)[:-1])
    factor = np.zeros_like(matrix)
    for i, (start, row) in enumerate(zip(starts, rows, strict=True)):
        factor[i, start : i + 1] = row
    assert_allclose(factor.T @ factor, np.linalg.inv(expected), rtol=1e-5, atol=1e-8)


def test_noise_is_drawn_from_its_conditional(rng):
    target = make(rng, n=40, outcome=outcomes.Normal(InverseGamma(2.0, 0.3)))
    theta = 0.3 * rng.normal(size=target.dim)
    X, y, weights = target.data
    rate = 0.3 + 0.5 * weights @ np.square(plain_outputs(target, theta, X) - y)
    shape = 2.0 + 0.5 * weights.sum()
    draws = np.array([target.resample(theta, rng)[0][target.n_weights :] for _ in range(2000)])
    for k in range(2):
        law = stats.invgamma(shape, scale=rate[k])
        assert stats.kstest(np.exp(draws[:, k]), law.cdf).pvalue > 1e-4


@pytest.mark.parametrize("prior", PRIORS[1:], ids=repr)
def test_precisions_are_drawn_from_their_conditional(prior, rng):
    """The mean precision given weights is what the integrated prior's gradient says it is.

    For a scale mixture ``score(w) = -E[precision | w] w``.
    """
    target = make(rng, prior=prior)
    theta = rng.normal(size=target.dim)
    draws = np.stack([target.resample(theta, rng)[1] for _ in range(4000)])
    inside = slice(0, target.n_weights - target.n_outputs)
    expected = -target._prior_score(theta[None])[0][inside] / theta[inside]
    error = draws.std(axis=0)[inside] / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0)[inside] - expected) < 6.0 * error)


def bounded(shape, rate):
    """The law of a shared precision, by rejection in SciPy's terms: its density and its bound."""
    whole = stats.gamma(shape, scale=1.0 / rate)
    return (lambda tau: whole.pdf(tau) / 0.9), whole.ppf(0.1)


@pytest.mark.parametrize("size", [0.1, 1.0, 4.0, 30.0])
@pytest.mark.parametrize(("shape", "rate"), [(1.0, 9.0), (2.5, 0.4)])
def test_a_shared_precision_is_integrated_out_above_its_bound(shape, rate, size):
    """Density, gradient and mean precision of one law, by quadrature."""
    prior = weight_prior(HierarchicalNormal(shape, rate))
    density, least = bounded(shape, rate)
    coef = size * np.array([[1.0, -0.5, 0.2]])

    def log_normal(tau):
        return stats.norm.logpdf(coef, scale=tau**-0.5).sum()

    def joint(tau):
        return density(tau) * np.exp(log_normal(tau) - log_normal(least))

    scale = 1.0 / (rate + 0.5 * np.sum(coef**2))
    options = {"epsabs": 0.0, "epsrel": 1e-11, "limit": 200}
    ends = least, least + 60.0 * (shape + 2.0) * scale
    total, _ = integrate.quad(joint, *ends, **options)
    mean, _ = integrate.quad(lambda tau: tau * joint(tau), *ends, **options)
    log_total = np.log(total) + log_normal(least)
    assert_allclose(prior.log_density(coef), log_total, rtol=1e-8, atol=1e-8)
    assert_allclose(prior.score(coef), -mean / total * coef, rtol=1e-8)
    assert_allclose(prior.expected_precision(coef[0] ** 2), mean / total, rtol=1e-8)
    whole, _ = integrate.quad(lambda tau: tau * density(tau), least, np.inf)
    assert_allclose(prior.typical_precision(2), whole, rtol=1e-6)


@pytest.mark.parametrize("size", [1e2, 1e3, 1e6, 1e100])
def test_far_out_only_the_bound_of_a_shared_precision_holds_the_weights(size):
    """There its conditional is an exponential above the bound, and nothing under- or overflows."""
    prior = weight_prior(HierarchicalNormal(1.0, 9.0))
    _, least = bounded(1.0, 9.0)
    coef = np.full((1, 10), size)
    rate = 9.0 + 5.0 * size**2
    # The next order of the expansion is as large as the square of this one.
    excess = 1.0 / (rate - 5.0 / least)
    assert_allclose(-prior.score(coef) / coef, least + excess, rtol=1e-3 * (1e2 / size))
    steps = coef * (1.0 + np.array([[-1e-4], [1e-4]]))
    low, high = prior.log_density(steps)
    slope = np.sum(prior.score(coef) * coef)
    assert_allclose((high - low) / 2e-4, slope, rtol=1e-6)


def test_a_shared_precision_is_sampled_above_its_bound(rng):
    prior, (density, least) = weight_prior(HierarchicalNormal(1.0, 9.0)), bounded(1.0, 9.0)
    draws = prior.sample(rng, 4000, 1)[:, 0]

    grid = np.linspace(-30.0, 30.0, 200)
    table, _ = integrate.quad_vec(
        lambda tau: density(tau) * stats.norm.cdf(grid, scale=tau**-0.5), least, np.inf
    )
    assert stats.kstest(draws, lambda u: np.interp(u, grid, table)).pvalue > 1e-4


def test_shared_precisions_leave_out_the_lowest_tenth_of_their_prior(rng):
    """However large the weights: a dead network is held by nothing else."""
    target = make(rng, prior=HierarchicalNormal(shape=2.0, rate=5.0))
    _, precision = target.resample(np.full(target.dim, 1e6), rng)
    _, least = bounded(2.0, 5.0)
    for block, root, _ in target.groups:
        assert_allclose(precision[block], root**2 * least)


def test_a_precision_that_meets_the_cut_is_drawn_from_what_is_left(rng):
    prior, coef = weight_prior(HierarchicalNormal(shape=2.0, rate=5.0)), np.full(10, 3.6)
    draws = [prior.draw_precision(coef, rng, np.array([len(coef)]))[0] for _ in range(2000)]
    whole = stats.gamma(2.0 + 5.0, scale=1.0 / (5.0 + 0.5 * np.sum(coef**2)))
    least = whole.cdf(stats.gamma(2.0, scale=1.0 / 5.0).ppf(0.1))
    assert 0.1 < least < 0.9
    assert stats.kstest((whole.cdf(draws) - least) / (1.0 - least), "uniform").pvalue > 1e-4


def test_training_finds_the_ridge_solution(rng):
    """Without hidden layers the mode is that of ridge regression with the noise found."""
    n, p = 60, 3
    X = rng.normal(size=(n, p))
    y = X @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=n)
    target = MLPTarget(X, y, hidden_layer_sizes=(), prior=Normal(1.0), dtype=np.float64)
    state = target.begin_training(target.sample_initial(rng, 1)[0], np.arange(n), [], rng)
    theta = target.trained(target.train(4000, n, 0.05, 4000, 1, 0.0, state))
    noise = np.exp(theta[-1])
    design = np.column_stack([X, np.ones(n)])
    penalty = noise * np.append(np.full(p, float(p)), 1.0)
    expected = np.linalg.solve(design.T @ design + np.diag(penalty), design.T @ y)
    assert_allclose(theta[:-1], expected, atol=2e-3)
    errors = y - design @ theta[:-1]
    assert_allclose(noise, (0.5 * errors @ errors + 0.01) / (0.5 * n + 1.0), rtol=1e-3)


@pytest.mark.parametrize(("batch_size", "friction"), [(40, 0.1), (40, 1.0), (20, 1.0)])
def test_hamiltonian_steps_sample_the_posterior(batch_size, friction, rng):
    """A linear model with known noise and correlated features, whose posterior is normal."""
    n, p = 40, 3
    X = rng.normal(size=(n, p)) + 2.0 * rng.normal(size=(n, 1))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=n)
    target = MLPTarget(X, y, hidden_layer_sizes=(), prior=Normal(1.0), dtype=np.float64)
    precision = np.append(np.full(p, float(p)), 1.0)
    design = np.column_stack([X, np.ones(n)])
    covariance = np.linalg.inv(design.T @ design + np.diag(precision))
    mean = covariance @ design.T @ y
    theta, velocity = np.append(mean, 0.0), rng.normal(size=p + 1)
    metric = target.metric(theta, precision, 0.1, rng)
    draws = []
    for _ in range(4000):
        theta, velocity = target.hamiltonian_steps(
            theta, velocity, metric, precision, 0.05, friction, batch_size, 40, rng
        )
        draws.append(theta[:-1])
    draws = np.array(draws)
    std = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(axis=0) - mean) / std).max() < 0.12
    # Over seventeen seeds the ratios have a standard deviation of 0.03.
    assert_allclose(draws.std(axis=0) / std, 1.0, atol=0.15)


def test_out_of_bag_noise_averages_the_networks_that_did_not_see_a_row(rng):
    target = make(rng, n=6)
    theta = rng.normal(size=(3, target.dim))
    held_out = [np.array([0, 1]), np.array([1, 2]), np.array([2])]
    X, y, weights = target.data
    f = np.stack([plain_outputs(target, t, X) for t in theta])
    mean = np.stack([f[0, 0], (f[0, 1] + f[1, 1]) / 2, (f[1, 2] + f[2, 2]) / 2])
    rate = 0.01 + 0.5 * weights[:3] @ np.square(mean - y[:3])
    expected = np.log(rate / (1.0 + 0.5 * weights[:3].sum()))
    assert_allclose(target.out_of_bag_noise(theta, held_out), expected)


@pytest.mark.parametrize("likelihood", ["normal", "binary", "softmax"])
def test_not_a_number_is_never_hidden(likelihood, rng):
    """Reordered sums must not come with the assumption that there is no NaN."""
    target = make(rng, likelihood, "relu", (5,))
    theta = rng.normal(size=(1, target.dim))
    theta[0, 0] = np.nan
    assert np.isnan(target.score(theta)[0, : target.n_weights]).any()
    assert np.isnan(target.log_density(theta)).all()


def test_far_out_logits_do_not_overflow(rng):
    for likelihood in ("binary", "softmax"):
        target = make(rng, likelihood, hidden=())
        theta = 1e6 * rng.normal(size=(2, target.dim))
        assert np.isfinite(target.log_likelihood(theta)).all()
        assert np.isfinite(target.score(theta)).all()


def test_what_is_refused(rng):
    X, y = rng.normal(size=(9, 2)), rng.normal(size=9)
    with pytest.raises(ValueError, match="no precisions in closed form"):
        MLPTarget(X, y, prior=Laplace())
    for n, weights in ((18, None), (9, np.ones(10))):
        with pytest.raises(ValueError, match=r"must have 9 rows, got 1[08]"):
            MLPTarget(X, np.zeros(n), sample_weight=weights)
    with pytest.raises(ValueError, match="layer without units"):
        MLPTarget(X, y, hidden_layer_sizes=(5, 0))


def test_a_network_is_dead_if_it_is_constant_on_all_rows_that_differ(rng):
    """One row among many is enough to be alive, and rows that are equal tell nothing."""
    X = rng.normal(size=(2000, 2))
    X[1234] = 100.0
    target = MLPTarget(X, rng.normal(size=2000), hidden_layer_sizes=(3, 2))
    theta = target.sample_initial(rng, 4)
    theta[1, 6:9] = -20.0
    theta[2, 6:9] = -1e4
    theta[3, 15:17] = -1e4
    theta[1, :6] = theta[1, 9:15] = 1.0
    assert_array_equal(target.dead(theta), [False, False, True, True])
    same = MLPTarget(np.ones((5, 2)), rng.normal(size=5), hidden_layer_sizes=(3, 2))
    assert not same.dead(theta).any()


def test_a_strong_prior_does_not_kill(rng):
    """Weights so small that the outputs' biases swallow what units say, but for which it lives."""
    X = rng.normal(size=(50, 2))
    target = MLPTarget(X, rng.normal(size=50), hidden_layer_sizes=(3,))
    theta = 1e-6 * target.sample_initial(rng, 2)
    theta[:, target.n_weights - 1] = 1.0
    assert np.ptp(target.network.outputs(theta, target.data[0])) == 0.0
    theta[1, 6:9] = -1.0
    assert_array_equal(target.dead(theta), [False, True])


def test_outputs_that_overflow_are_not_finite(rng):
    target = MLPTarget(rng.normal(size=(9, 2)), rng.normal(size=9), hidden_layer_sizes=(3,))
    theta = np.concatenate([target.sample_initial(rng, 1)] * 3)
    theta[1, 0] = np.nan
    theta[2] *= 1e25
    with np.errstate(over="ignore", invalid="ignore"):
        assert_array_equal(target.finite(theta), [True, False, False])


@pytest.mark.parametrize("likelihood", ["normal", "binary", "softmax"])
def test_shortfall_is_beside_the_best_constant(likelihood, rng):
    """Of normal outcomes by the variance of errors: whatever noise a particle has, it is fitted."""
    target = make(rng, likelihood, n=50)
    theta = 0.5 * rng.normal(size=(3, target.dim))
    X, y, weights = target.data
    rows = np.arange(0, 50, 2)
    shares = weights / weights.sum()
    mean = shares @ y
    if likelihood == "normal":
        constant = np.log(weights[rows] @ np.square(y[rows] - mean) / weights[rows].sum()).sum()
    outputs = np.stack([plain_outputs(target, particle, X) for particle in theta])
    expected = np.empty(3)
    for i in range(3):
        if likelihood == "normal":
            errors = weights[rows] @ np.square(y[rows] - outputs[i][rows]) / weights[rows].sum()
            expected[i] = 0.5 * weights[rows].sum() * (np.log(errors).sum() - constant)
            continue
        if likelihood == "binary":
            proba, base = expit(outputs[i]), mean
            own = stats.bernoulli.logpmf(y, proba) - stats.bernoulli.logpmf(y, base)
        else:
            own = y * (log_softmax(outputs[i], axis=1) - np.log(mean))
        expected[i] = -weights[rows] @ own[rows].sum(axis=1)
    assert_allclose(target.shortfall(theta, rows)[0], expected, rtol=1e-8)


def test_a_network_that_is_not_finite_falls_short_without_end(rng):
    target = make(rng)
    theta = np.full((1, target.dim), np.nan)
    assert_array_equal(target.shortfall(theta, np.arange(23))[0], [np.inf])


@pytest.mark.parametrize("n_epochs", [5, 40])
def test_weights_that_go_straight_on_have_come_as_far_as_they_could(n_epochs, rng):
    """Log-odds that are far off: the bias moves by the rate in every step of Adam."""
    X, y = np.zeros((1000, 1)), np.ones(1000)
    options = {"outcome": outcomes.Bernoulli(), "hidden_layer_sizes": (), "dtype": np.float64}
    target = MLPTarget(X, y, **options)
    state = target.begin_training(np.zeros(2), np.arange(1000), [], rng)
    state = target.train(n_epochs, 1000, 0.002, 40, 1, 0.0, state)
    way = 0.5 * 0.002 * np.sum(1.0 + np.cos(np.pi * np.arange(1, n_epochs + 1) / 40))
    assert_allclose(state.weights, [0.0, way], rtol=0.01)
    # The other one of two weights has no gradient; the sum of rates is an integral there.
    assert_allclose(state.straightness(0.002, 40), np.sqrt(0.5), rtol=0.03)


@pytest.mark.parametrize("likelihood", ["normal", "binary", "softmax"])
def test_training_bounces_where_its_loss_is_far_above_that_of_knowing_nothing(likelihood, rng):
    target = make(rng, likelihood, n=60)
    start = target.sample_initial(rng, 1)[0]
    for learning_rate, bounced in [(0.01, False), (100.0, True)]:
        state = target.begin_training(start, np.arange(60), [], rng)
        state = target.train(30, 10, learning_rate, 180, 1, 0.0, state)
        assert state.bounced == bounced


def test_weights_of_dead_units_are_zero_before_they_are_subnormal():
    """Processors are tens of times as slow with subnormal numbers."""
    weights, first = np.full((2, 3), [1.0, 1e-29, 1e-36], dtype=np.float32)
    second, gradient = np.ones(3, dtype=np.float32), np.zeros(3, dtype=np.float32)
    options = gradient, np.float32(1.0), np.float32(0.0), np.float32(0.01), np.float32(1.0)
    dense_layers._adam.py_func(weights, first, second, gradient, *options)
    assert_array_equal(weights != 0.0, [True, True, False])
    assert_array_equal(first != 0.0, [True, True, False])


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("hidden", [(), (5,), (4, 3)])
def test_tangents_and_jacobians_are_derivatives_of_the_outputs(rng, activation, hidden):
    target = make(rng, activation=activation, hidden=hidden)
    network, (X, *_) = target.network, target.data
    theta = target.sample_initial(rng, 2)
    directions = rng.standard_normal((2, network.n_weights))
    step = np.zeros_like(theta)
    step[:, : network.n_weights] = 1e-6 * directions
    difference = (network.outputs(theta + step, X) - network.outputs(theta - step, X)) / 2e-6
    outputs, slopes = network.tangents(theta, directions, X)
    assert_allclose(outputs, network.outputs(theta, X), atol=1e-12)
    assert_allclose(slopes, difference, atol=1e-7)
    for k in range(2):
        jacobian = network.jacobian(theta[0], X, k)
        assert_allclose(jacobian @ directions[0], slopes[0, :, k], atol=1e-12)


@pytest.mark.parametrize("n", [6, 60])
def test_null_space_tangent_is_the_prior_regressed_on_the_rows_twice(rng, n):
    target = make(rng, n=n, hidden=(4,), prior=Normal(2.0))  # whose precisions are known
    theta, d = target.sample_initial(rng, 1)[0], target.network.n_weights
    X, _, weights = target.data
    prior = np.diag(target.initial_precision)
    curvature = 0.0
    for k in range(2):
        jacobian = target.network.jacobian(theta, X, k)
        noise = np.exp(theta[target.n_weights + k])
        curvature = curvature + jacobian.T @ (weights[:, None] * jacobian) / noise
    left = np.linalg.solve(prior + curvature, prior)
    found = null_space_tangent(target, theta, np.random.default_rng(0))
    twin = np.random.default_rng(0)
    target.resample(theta, twin)
    draw = twin.standard_normal(d) / np.sqrt(target.initial_precision)
    assert_allclose(found, left @ left @ draw, atol=1e-8)
