"""Curvature of the loss of one network: the Gauss-Newton matrix, layer by layer."""

import math

import numpy as np

from ... import _jit
from . import dense_layers


def gauss_newton(weights, data, rows, network, precision, rng, largest=0):
    """Blocks on the diagonal of the Gauss-Newton matrix of the loss of one network, for each layer.

    Several outputs would need a backward pass each. One pass of a random combination has the same
    mean: of outputs with random signs, or of the loss of a label drawn from the network.

    Parameters
    ----------
    weights, data, rows, network, precision
        As in `skstein._jit.mlp.loss_and_gradient`.
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
    weights, blocks = _jit.mlp.aligned(weights, X.dtype), []
    layers = dense_layers.split(weights, sizes)
    extra = weights[sum(matrix.size + bias.size for matrix, bias in layers) :]
    *inputs, result = dense_layers.forward(layers, X[rows], activation)
    slopes = _expected_slopes(result, likelihood, Y.shape[1], *scaled, extra, precision, rng)  # type: ignore[call-arg]
    slopes = (slopes * np.sqrt(row_weights[rows])[:, None]).astype(X.dtype)
    for by_bias, outer, inner in dense_layers.backpropagate(layers, inputs, slopes, activation):
        if outer.shape[1] * inner.shape[1] + by_bias.shape[1] <= largest:
            products = dense_layers.derivatives_by_weights(by_bias, outer, inner)
            blocks.append(products.T @ products)
        else:
            matrix = np.square(outer).T @ np.square(inner)
            blocks.append(np.append(matrix, np.square(by_bias).sum(axis=0)))
    return blocks[::-1]


def _expected_slopes(result, likelihood, n_targets, df, log_size, extra, precision, rng):
    """Derivatives of the loss by the outputs, of random sign or for a random label."""
    n, k = len(result), n_targets
    if likelihood == _jit.mlp.LIKELIHOODS["normal"]:
        return _signs(rng, result.shape) * np.sqrt(precision)
    if likelihood == _jit.mlp.LIKELIHOODS["binary"]:
        half = np.exp(-0.5 * np.abs(result))
        return half / (1.0 + half * half)
    if likelihood == _jit.mlp.LIKELIHOODS["softmax"]:
        slopes = np.exp(result - result.max(axis=1, keepdims=True))
        slopes /= slopes.sum(axis=1, keepdims=True)
        passed = np.cumsum(slopes[:, :-1], axis=1) <= rng.random(n)[:, None]
        slopes[np.arange(n), passed.sum(axis=1)] -= 1.0
        return slopes
    of_mean, of_scale = 1.0, 2.0
    if not math.isinf(df):
        nu = df if df > 0.0 else 2.0 + _jit.dense_layers.DF_UNIT * np.exp(extra[len(extra) - k :])
        of_mean, of_scale = (nu + 1.0) / (nu + 3.0), 2.0 * nu / (nu + 3.0)
    if result.shape[1] == k:
        return _signs(rng, (n, k)) * np.sqrt(of_mean) * np.exp(-0.5 * extra[:k])
    signs = _signs(rng, (n, k, 2))
    log_scale, slope = dense_layers.bounded_log_scale(result[:, k:], log_size)
    of_location = signs[:, :, 0] * np.sqrt(of_mean) * np.exp(-log_scale)
    return np.hstack([of_location, signs[:, :, 1] * np.sqrt(of_scale) * slope])


def _signs(rng, shape):
    return np.where(rng.random(shape) < 0.5, 1.0, -1.0)
