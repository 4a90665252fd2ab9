"""Neural networks of dense layers: gradients, training, and Hamiltonian steps on minibatches.

One network is worked on at a time, by products of small matrices: its weights, and the moments of
the optimiser, then stay in the first-level cache. Types are float32 or float64 throughout, those of
the weights, but for losses, which are sums over many rows.

The weights of a network are one vector. Layer after layer it holds a matrix and the biases; the
matrix has a row for each input of the layer, in the last layer a row for each output, so that inner
loops run along rows. ``sizes`` are the numbers of units, inputs and outputs included.
"""

import numpy as np

from . import dense_layers

ACTIVATIONS = {
    "relu": dense_layers.RELU,
    "tanh": dense_layers.TANH,
    "logistic": dense_layers.LOGISTIC,
    "relu-tanh": dense_layers.RELU_TANH,
}
LIKELIHOODS = {"normal": 0, "binary": 1, "softmax": 2, "location-scale": 3}


def aligned(values, dtype):
    """A C-contiguous, writable array of ``dtype``: the one layout that the routines compile for."""
    return np.require(values, dtype, ["C", "A", "W"])


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
