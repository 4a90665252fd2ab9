"""Networks of dense layers in NumPy: outputs of several, and derivatives of one by its weights.

`skstein._jit.mlp` has the same for one network at a time, compiled, and says how the weights of a
network lie in one vector.
"""

from itertools import pairwise

import numpy as np

from ... import _jit

_TOGETHER = 2**16  # numbers in a layer of networks that are evaluated together


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
    ends = _jit.dense_layers
    end = np.where(off > 0.0, ends.LOG_MOST, ends.LOG_LEAST).astype(off.dtype)
    bent = np.tanh(off / end)
    return log_size + end * bent, 1.0 - bent**2


def outputs(weights, X, sizes, activation):
    """Outputs of several networks, in NumPy.

    Parameters
    ----------
    weights : array of shape (m, n_weights)
    X : array of shape (n, sizes[0]) and the type of the weights
    sizes : array of int64, shape (n_layers + 1,)
    activation : int
        One of `skstein._jit.mlp.ACTIVATIONS`.

    Returns
    -------
    outputs : array of shape (m, n, sizes[-1])

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets.networks.dense_layers import outputs
    >>> outputs(np.ones((1, 4)), np.array([[2.0], [-5.0]]), np.array([1, 1, 1]), 0)
    array([[[4.],
            [1.]]])
    """
    result = np.empty((len(weights), len(X), sizes[-1]), X.dtype)
    weights = weights.astype(X.dtype)
    rows = _jit.dense_layers.BLOCK
    networks = max(1, _TOGETHER // (min(rows, len(X)) * max(sizes[1:])))
    for first in range(0, len(weights), networks):
        some = slice(first, first + networks)
        layers = split(weights[some], sizes)
        for start in range(0, len(X), rows):
            block = slice(start, start + rows)
            result[some, block] = forward(layers, X[block], activation)[-1]
    return result


def split(weights, sizes):
    """(matrices (..., inputs, outputs), biases (..., 1, outputs)) of the layers of networks.

    ``weights`` (..., k) may have further coordinates behind those of the layers.
    """
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
    """Inputs of every layer, and the outputs, in NumPy."""
    values = [x]
    for matrix, bias in layers:
        # An outer product is not left to BLAS by NumPy, and slow.
        x = x * matrix if matrix.shape[-2] == 1 else x @ matrix
        x += bias
        if len(values) < len(layers):
            activate(x, activation)
        values.append(x)
    return values


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
    return np.hstack([(outer[:, :, None] * inner[:, None, :]).reshape(len(by_bias), -1), by_bias])


def activate(values, activation):
    """Apply an activation in place, in NumPy; the last axis is that of units."""
    first = _jit.dense_layers.rectified(activation, values.shape[-1])
    np.maximum(values[..., :first], 0.0, out=values[..., :first])
    squashed = values[..., first:]
    if activation == _jit.dense_layers.LOGISTIC:
        squashed *= 0.5
    np.tanh(squashed, out=squashed)
    if activation == _jit.dense_layers.LOGISTIC:
        squashed *= 0.5
        squashed += 0.5


def activation_slope(values, activation):
    """Derivative of the activation where it has these values, in NumPy."""
    if activation == _jit.dense_layers.LOGISTIC:
        return values * (1.0 - values)
    first = _jit.dense_layers.rectified(activation, values.shape[-1])
    slopes = 1.0 - values**2
    slopes[..., :first] = values[..., :first] > 0.0
    return slopes
