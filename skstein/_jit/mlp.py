"""Neural networks of dense layers: gradients, training, and Hamiltonian steps on minibatches.

One network is worked on at a time, by products of small matrices: its weights, and the moments of
the optimiser, then stay in the first-level cache. Types are float32 or float64 throughout, those of
the weights, but for losses, which are sums over many rows.

The weights of a network are one vector. Layer after layer it holds a matrix and the biases; the
matrix has a row for each input of the layer, in the last layer a row for each output, so that inner
loops run along rows. ``sizes`` are the numbers of units, inputs and outputs included.
"""

import math
from itertools import pairwise

import numpy as np

from . import dense_layers
from .dense_layers import DF_UNIT, LOG_LEAST, LOG_MOST, rectified

ACTIVATIONS = {
    "relu": dense_layers.RELU,
    "tanh": dense_layers.TANH,
    "logistic": dense_layers.LOGISTIC,
    "relu-tanh": dense_layers.RELU_TANH,
}
LIKELIHOODS = {"normal": 0, "binary": 1, "softmax": 2, "location-scale": 3}


_TOGETHER = 2**16  # numbers in a layer of networks that are evaluated together


def aligned(values, dtype):
    """A C-contiguous, writable array of ``dtype``: the one layout that the routines compile for."""
    return np.require(values, dtype, ["C", "A", "W"])


def n_weights(sizes):
    """Length of the weight vector of a network.

    Examples
    --------
    >>> from skstein._jit.mlp import n_weights
    >>> n_weights([4, 50, 1])
    301
    """
    return sum((a + 1) * b for a, b in pairwise(sizes))


def outputs(weights, X, sizes, activation):
    """Outputs of several networks.

    Parameters
    ----------
    weights : array of shape (m, n_weights)
    X : array of shape (n, sizes[0]) and the type of the weights
    sizes : array of int64, shape (n_layers + 1,)
    activation : int
        One of `ACTIVATIONS`.

    Returns
    -------
    outputs : array of shape (m, n, sizes[-1])

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit.mlp import outputs
    >>> outputs(np.ones((1, 4)), np.array([[2.0], [-5.0]]), np.array([1, 1, 1]), 0)
    array([[[4.],
            [1.]]])
    """
    result = np.empty((len(weights), len(X), sizes[-1]), X.dtype)
    weights = weights.astype(X.dtype)
    rows = dense_layers.BLOCK
    networks = max(1, _TOGETHER // (min(rows, len(X)) * max(sizes[1:])))
    for first in range(0, len(weights), networks):
        some = slice(first, first + networks)
        layers = layers_of(weights[some], sizes)
        for start in range(0, len(X), rows):
            block = slice(start, start + rows)
            result[some, block] = forward(layers, X[block], activation)[-1]
    return result


def bounded_log_scale(output, log_size):
    """Log scale of noise from an output: from a thousandth to ten times the size of the outcome.

    The farther from that size the more it is bent: the exponential of a network that is linear far
    from its rows would soon be larger than any number, and where outcomes are all the same, as
    zeros are, there would be no noise at all.

    Returns
    -------
    log_scale : ndarray
    slope : ndarray
        Its derivative.
    """
    off = output - log_size
    end = np.where(off > 0.0, LOG_MOST, LOG_LEAST).astype(off.dtype)
    bent = np.tanh(off / end)
    return log_size + end * bent, 1.0 - bent**2


def layers_of(weights, sizes):
    """(matrices (..., inputs, outputs), biases (..., 1, outputs)) of the layers of networks."""
    layers, first = [], 0
    for layer, (a, b) in enumerate(pairwise(sizes)):
        end = first + a * b
        matrix, bias = weights[..., first:end], weights[..., None, end : end + b]
        shape = weights.shape[:-1]
        if layer == len(sizes) - 2:
            layers.append((matrix.reshape(*shape, b, a).swapaxes(-1, -2), bias))
        else:
            layers.append((matrix.reshape(*shape, a, b), bias))
        first = end + b
    return layers


def forward(layers, x, activation):
    """Inputs of every layer, and the outputs."""
    values = [x]
    for matrix, bias in layers:
        # An outer product is not left to BLAS by NumPy, and slow.
        x = x * matrix if matrix.shape[-2] == 1 else x @ matrix
        x += bias
        if len(values) < len(layers):
            activate(x, activation)
        values.append(x)
    return values


def loss_and_gradient(weights, data, rows, network, precision):
    """Loss and its gradient for one network, summed over rows with their weights.

    The loss of a normal likelihood is half the sum over outputs of squared errors times
    ``precision``, that of classes the negative log likelihood. So is that of the likelihood
    "location-scale", normal or Student t, whose k outputs are locations: with 2 k outputs those
    behind them are log scales, `bounded_log_scale`; else there are log squared scales behind the
    weights of the network. Where ``df`` is 0, logarithms of ``(degrees of freedom - 2) / DF_UNIT``
    are at the very end.

    Parameters
    ----------
    weights : array of shape (n_weights,)
    data : tuple (X, Y, row_weights)
        Of shapes (n, sizes[0]), (n, sizes[-1]) and (n,); Y is 0 or 1 for classes.
    rows : array of int64
    network : tuple (sizes, activation, likelihood, df, log_size)
        ``df`` are the degrees of freedom of a location-scale likelihood, infinite for a normal one;
        ``log_size`` is the logarithm of the size of the outcomes.
    precision : array of shape (sizes[-1],)
        One over the noise variance of each output.

    Returns
    -------
    losses : array of shape (sizes[-1],)
        Weighted sum of squared errors of each output; otherwise the loss comes first.
    gradient : array of shape (n_weights,)
    """
    dtype = data[0].dtype
    weights, noise = aligned(weights, dtype), aligned(1.0 / precision, dtype)
    purpose = dense_layers.GRADIENT
    losses, _, gradient = _passes(purpose, weights, data, rows, len(rows), 1, network, noise)
    return losses, gradient


def loss(weights, data, rows, network):
    """The losses of `loss_and_gradient`, of a normal likelihood squared errors, alone."""
    weights, ones = aligned(weights, data[0].dtype), np.ones(data[1].shape[1], data[0].dtype)
    return _passes(dense_layers.LOSS, weights, data, rows, len(rows), 1, network, ones)[0]


def _passes(
    purpose, weights, data, order, batch_size, n_epochs, network, noise, others=None, step_size=0.0,
    friction=0.0, n_steps=1, prior=(0.0, 0.0), done=None, starts=None, rng=None,
):  # fmt: skip
    """Run the one routine that is compiled.

    ``others`` are the arrays ``first``, ``second`` and ``precision`` of training and chains.
    Returns the losses of the last epoch, the mean losses of all, and the last gradient.
    """
    sizes, activation, likelihood, *scaled = network
    # None has a type of its own: routines are compiled with the likelihoods that are in use.
    scaled = tuple(map(float, scaled)) if likelihood == LIKELIHOODS["location-scale"] else None
    X, Y, row_weights = data
    first, second, precision = 3 * [weights] if others is None else others
    gradient = np.empty_like(weights)
    done = np.zeros(1, dtype=np.int64) if done is None else done
    starts = done if starts is None else starts
    seed = np.zeros(1, dtype=np.uint64)
    if rng is not None:
        seed[0] = rng.integers(2**64, dtype=np.uint64)
    units = np.empty((2, min(batch_size, dense_layers.BLOCK) * sizes.sum()), X.dtype)
    numbers = np.array([0.0, 1.0, *noise], dtype=X.dtype)
    losses, met = np.empty(len(noise)), np.empty(n_epochs)
    dense_layers.passes(
        purpose, weights, first, second, gradient, X, Y, row_weights, order, batch_size, n_epochs,
        sizes, activation, likelihood, scaled, noise, precision, losses, met, done, starts,
        step_size, friction, n_steps, *prior, numbers, units[0], units[1], seed,
    )  # fmt: skip
    return losses, met, gradient


def train(state, data, order, batch_size, n_epochs, network, learning_rate, n_steps, prior, rng):
    """Epochs of Adam for one network, with a rate that falls to zero along a cosine.

    It descends the loss of `loss_and_gradient` plus ``0.5 * precision * weights**2``, scaled by the
    mean noise variance over the number of rows. After an epoch the noise variances are set to their
    posterior mode given the errors that were met.

    Parameters
    ----------
    state : tuple (weights, first, second, noise, done)
        Weights, moments of the gradient, noise variances, and an int64 array with the number of
        steps done: changed in place.
    data, network : tuples
        As in `loss_and_gradient`.
    order : array of int64
        Rows to train on; reshuffled in place.
    batch_size, n_epochs : int
    learning_rate : float
    n_steps : int
        At which the rate reaches zero.
    prior : tuple (precision, noise_shape, noise_scale)
        Precision of each weight, and the inverse gamma distribution of the noise variances.
    rng : numpy.random.Generator

    Returns
    -------
    met : ndarray of shape (n_epochs,)
        Mean loss met in each epoch, with errors in units of the outcomes.
    """
    weights, first, second, noise, done = state
    precision, *noise_prior = prior
    return _passes(
        dense_layers.TRAINING, weights, data, order, batch_size, n_epochs, network, noise,
        (first, second, precision), learning_rate, 0.0, n_steps, noise_prior, done, rng=rng,
    )[1]  # fmt: skip


def hamiltonian_steps(
    state, data, order, batch_size, n_steps, network, step_size, friction, prior, rng
):
    """Steps of stochastic gradient Hamiltonian Monte Carlo for one network.

    Parameters
    ----------
    state : tuple (weights, velocity, metric, starts)
        ``metric`` holds the rows of a lower triangular matrix K, one behind the other, from the
        column in ``starts`` to the diagonal. The covariance of the weights is thought to be
        ``K.T @ K``, and ``K.T @ velocity`` is their speed. Weights and velocity are changed in
        place.
    data, network : tuples
        As in `loss_and_gradient`.
    order : array of int64
        All rows; reshuffled in place.
    batch_size, n_steps : int
    step_size, friction : float
        In a step a share ``exp(-friction * step_size)`` of the velocity is kept.
    prior : tuple (precision, noise)
        Precision of each weight, and variance of the noise of each output.
    rng : numpy.random.Generator
    """
    weights, velocity, metric, starts = state
    precision, noise = prior
    _passes(
        dense_layers.CHAIN, weights, data, order, batch_size, n_steps, network, noise,
        (velocity, metric, precision), step_size, friction, starts=starts, rng=rng,
    )  # fmt: skip


def gauss_newton(weights, data, rows, network, precision, rng, largest=0):
    """Blocks on the diagonal of the Gauss-Newton matrix of the loss of one network, for each layer.

    Several outputs would need a backward pass each. One pass of a random combination has the same
    mean: of outputs with random signs, or of the loss of a label drawn from the network.

    Parameters
    ----------
    weights, data, rows, network, precision
        As in `loss_and_gradient`.
    rng : numpy.random.Generator
    largest : int, default=0
        Weights of a layer of which there is a matrix; of larger layers there is its diagonal alone.

    Returns
    -------
    blocks : list of array of shape (k, k) or (k,)
        Summed over rows; k is the number of weights of the layer, its biases included.
    """
    X, Y, row_weights = data
    sizes, activation, likelihood, *scaled = network
    weights, extra = np.split(aligned(weights, X.dtype), [n_weights(sizes)])
    layers, blocks = layers_of(weights, sizes), []
    *inputs, result = forward(layers, X[rows], activation)
    slopes = _expected_slopes(result, likelihood, Y.shape[1], *scaled, extra, precision, rng)  # type: ignore[call-arg]
    slopes = (slopes * np.sqrt(row_weights[rows])[:, None]).astype(X.dtype)
    for by_bias, outer, inner in backpropagate(layers, inputs, slopes, activation):
        if outer.shape[1] * inner.shape[1] + by_bias.shape[1] <= largest:
            products = derivatives_by_weights(by_bias, outer, inner)
            blocks.append(products.T @ products)
        else:
            matrix = np.square(outer).T @ np.square(inner)
            blocks.append(np.append(matrix, np.square(by_bias).sum(axis=0)))
    return blocks[::-1]


def backpropagate(layers, inputs, slopes, activation):
    """Yield derivatives by the biases of each layer, from the last one, where they are ``slopes``.

    With them come the two factors, (n, rows) and (n, columns), whose products are the derivatives
    by the layer's matrix in the order of the weights.
    """
    for layer in range(len(layers) - 1, -1, -1):
        x = inputs[layer]
        yield slopes, *((slopes, x) if layer == len(layers) - 1 else (x, slopes))
        if layer > 0:
            slopes = slopes @ layers[layer][0].T
            slopes *= activation_slope(x, activation)


def derivatives_by_weights(by_bias, outer, inner):
    """Derivatives by a layer's weights, row by row, (n, k), from what `backpropagate` yields."""
    products = outer[:, :, None] * inner[:, None, :]
    return np.hstack([products.reshape(len(by_bias), -1), by_bias])


def activate(values, activation):
    """Apply an activation in place; the last axis is that of units."""
    first = rectified(activation, values.shape[-1])
    np.maximum(values[..., :first], 0.0, out=values[..., :first])
    squashed = values[..., first:]
    if activation == dense_layers.LOGISTIC:
        squashed *= 0.5
    np.tanh(squashed, out=squashed)
    if activation == dense_layers.LOGISTIC:
        squashed *= 0.5
        squashed += 0.5


def activation_slope(values, activation):
    """Derivative of the activation where it has these values."""
    if activation == dense_layers.LOGISTIC:
        return values * (1.0 - values)
    first = rectified(activation, values.shape[-1])
    slopes = 1.0 - values**2
    slopes[..., :first] = values[..., :first] > 0.0
    return slopes


def _expected_slopes(result, likelihood, n_targets, df, log_size, extra, precision, rng):
    """Derivatives of the loss by the outputs, of random sign or for a random label."""
    n, k = len(result), n_targets
    if likelihood == LIKELIHOODS["normal"]:
        return _signs(rng, result.shape) * np.sqrt(precision)
    if likelihood == LIKELIHOODS["binary"]:
        half = np.exp(-0.5 * np.abs(result))
        return half / (1.0 + half * half)
    if likelihood == LIKELIHOODS["softmax"]:
        slopes = np.exp(result - result.max(axis=1, keepdims=True))
        slopes /= slopes.sum(axis=1, keepdims=True)
        passed = np.cumsum(slopes[:, :-1], axis=1) <= rng.random(n)[:, None]
        slopes[np.arange(n), passed.sum(axis=1)] -= 1.0
        return slopes
    of_mean, of_scale = 1.0, 2.0
    if not math.isinf(df):
        nu = df if df > 0.0 else 2.0 + DF_UNIT * np.exp(extra[len(extra) - k :])
        of_mean, of_scale = (nu + 1.0) / (nu + 3.0), 2.0 * nu / (nu + 3.0)
    if result.shape[1] == k:
        return _signs(rng, (n, k)) * np.sqrt(of_mean) * np.exp(-0.5 * extra[:k])
    signs = _signs(rng, (n, k, 2))
    log_scale, slope = bounded_log_scale(result[:, k:], log_size)
    of_location = signs[:, :, 0] * np.sqrt(of_mean) * np.exp(-log_scale)
    return np.hstack([of_location, signs[:, :, 1] * np.sqrt(of_scale) * slope])


def _signs(rng, shape):
    return np.where(rng.random(shape) < 0.5, 1.0, -1.0)
