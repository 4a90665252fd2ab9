"""What a network looks like, and a network in training."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ... import _jit
from . import dense_layers

# On noise of all kinds, with few rows or many, losses on the way were up to 3 times the usual; with
# thirty times the default rate of regressors, or 300 of classifiers, 10 to thousands of times that.
_BOUNCE = 10.0


@dataclass(frozen=True)
class Network:
    """What networks look like: all that is needed to evaluate them.

    Attributes
    ----------
    sizes : tuple of int
        Units of every layer, inputs and outputs included.
    activation : {"relu", "tanh", "relu-tanh", "logistic"}
        Of the hidden layers.
    dtype : dtype
        In which networks are evaluated.
    log_size : float
        Logarithm of the size of the outcomes, which bounds the scales of uneven noise.
    """

    sizes: tuple
    activation: str
    dtype: np.dtype
    log_size: float = field(default=0.0, compare=False)

    @property
    def n_weights(self):
        return sum((a + 1) * b for a, b in pairwise(self.sizes))

    @property
    def layers(self):
        """(first coordinate, fan_in, fan_out) of every layer."""
        first, layers = 0, []
        for fan_in, fan_out in pairwise(self.sizes):
            layers.append((first, fan_in, fan_out))
            first += (fan_in + 1) * fan_out
        return layers

    def outputs(self, theta, X):
        """Outputs before the link, of shape (m, len(X), n_outputs), in float64."""
        weights, X = theta[:, : self.n_weights], _jit.mlp.aligned(X, self.dtype)
        sizes, activation = np.array(self.sizes), _jit.mlp.ACTIVATIONS[self.activation]
        return dense_layers.outputs(weights, X, sizes, activation).astype(float)

    def tangents(self, theta, directions, X):
        """Outputs, and their derivatives when the weights move in given directions.

        Parameters
        ----------
        theta : ndarray of shape (m, dim)
        directions : ndarray of shape (m, n_weights)
            One for each network.
        X : ndarray of shape (n, p)

        Returns
        -------
        outputs, slopes : ndarray of shape (m, n, n_outputs), in float64
        """
        inputs = X.astype(self.dtype)
        slopes: Any = None
        both = (dense_layers.split(w.astype(self.dtype), self.sizes) for w in (theta, directions))
        layers, activation = zip(*both, strict=True), _jit.mlp.ACTIVATIONS[self.activation]
        for layer, ((weights, bias), (way, way_of_bias)) in enumerate(layers):
            moved = inputs @ way + way_of_bias
            slopes = moved if slopes is None else slopes @ weights + moved
            inputs = inputs @ weights + bias
            if layer < len(self.sizes) - 2:
                dense_layers.activate(inputs, activation)
                slopes *= dense_layers.activation_slope(inputs, activation)
        return inputs.astype(float), slopes.astype(float)

    def jacobian(self, theta, X, output):
        """Derivatives of one output by the weights of one network, of shape (n, n_weights)."""
        layers = dense_layers.split(theta.astype(float), self.sizes)
        activation = _jit.mlp.ACTIVATIONS[self.activation]
        *inputs, _ = dense_layers.forward(layers, X.astype(float), activation)
        slopes = np.zeros((len(X), self.sizes[-1]))
        slopes[:, output] = 1.0
        steps = dense_layers.backpropagate(layers, inputs, slopes, activation)
        return np.hstack([dense_layers.derivatives_by_weights(*step) for step in steps][::-1])

    def heads(self, outcome, theta, outputs):
        """Heads of a numeric outcome, each with the axis of several outcomes behind.

        Parameters
        ----------
        outcome : Outcome
        theta : ndarray of shape (..., dim)
        outputs : ndarray of shape (..., n_outputs)
        """
        heads = np.split(outputs, outcome.n_predictors, axis=-1)
        if outcome.n_predictors > 1:
            heads[1], _ = dense_layers.bounded_log_scale(heads[1], self.log_size)
        if outcome.extra:
            heads += np.split(theta[..., self.n_weights :], len(outcome.extra), axis=-1)
        if "log_df_above_2" in outcome.extra:
            heads[-1] = heads[-1] + np.log(_jit.dense_layers.DF_UNIT)
        return heads


@dataclass
class Training:
    """A network in training: all that the next epoch needs.

    Attributes
    ----------
    weights, first, second : ndarray of shape (n_weights,)
        The network, and the moments of its gradient.
    noise : ndarray of shape (n_outputs,)
        Noise variances.
    done : ndarray of int64, shape (1,)
        Steps done.
    rows, held_out : ndarray of int64
        Rows to train on, and those to validate on.
    rng : numpy.random.Generator
    best : tuple (loss, weights, noise) or None
        Of the best epoch on the rows held out.
    waiting : int
        Epochs since then.
    start : ndarray of shape (n_weights,)
        The weights that training began with.
    usual_loss : float or None
        Mean loss of who knows nothing: the largest of that at the start, of a constant, and of the
        noise or of guessing. None before the first epoch.
    worst_loss : float
        The largest mean loss met in an epoch since.
    loss : float
        Mean loss met in the last epoch.
    silent : int
        Rows of a stream since the last two that the network told apart.
    data : int
        Check sum of the data whose rows these are; its complement if others of them may have been
        trained on.
    """

    weights: np.ndarray
    first: np.ndarray
    second: np.ndarray
    noise: np.ndarray
    done: np.ndarray
    rows: np.ndarray
    held_out: np.ndarray
    rng: np.random.Generator
    best: tuple | None = None
    waiting: int = 0
    start: np.ndarray | None = None
    usual_loss: float | None = None
    worst_loss: float = 0.0
    loss: float = np.nan
    silent: int = 0
    data: int = 0

    @property
    def at_best(self):
        """The same network as it was in its best epoch."""
        if self.best is None:
            return self
        _, weights, noise = self.best
        return replace(self, weights=weights, noise=noise)

    @property
    def bounced(self):
        """Whether training has been far worse on the way than knowing nothing."""
        return self.usual_loss is not None and self.worst_loss > _BOUNCE * self.usual_loss

    def straightness(self, learning_rate, n_steps):
        """How far the weights have come of how far they could have come in one direction.

        The root mean square of their way over the sum of the rates, which is how far Adam takes a
        weight whose gradient always has the same sign. Near 0 for weights that went to and fro.
        """
        done = int(self.done[0])
        path = done + n_steps / np.pi * np.sin(np.pi * min(1.0, done / n_steps))
        way = np.sqrt(np.mean(np.square(self.weights - self.start, dtype=float)))
        return way / (0.5 * learning_rate * path)
