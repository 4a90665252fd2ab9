r"""Bayesian neural networks of dense layers as a target.

A particle is a whole network, for regression with the logarithms of its noise variances. As a
density it is like any other target. What networks need besides, because generic engines are lost
in thousands of coordinates with symmetries, are the pieces from which engines are made here:
training, Hamiltonian steps, and the closed-form conditionals of noise variances and prior
precisions, each for one network at a time on compiled routines (`skstein._jit.mlp`).

The prior is on weights times the root of their layer's number of inputs, so that one scale fits
layers of any width, in groups: each layer's matrix, and each hidden layer's biases. Biases of the
outputs are standard normal. Precisions of mixture priors are integrated out of the density, and
drawn where a conditional is asked for (`skstein.targets.networks.weight_priors`).

The likelihood of minibatches is scaled by n / B, which Tran, Tseng & Kohn leave out of their
algorithm 2.
"""

from copy import deepcopy
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from zlib import crc32

import numpy as np
from scipy.linalg import get_lapack_funcs

from ... import _jit
from ..._tools.row_blocks import row_blocks
from ...outcomes import Bernoulli, Categorical, Heteroscedastic, Normal, StudentT
from ...priors import HierarchicalNormal, InverseGamma
from ..base import Target
from .curvature import gauss_newton
from .network import Network, Training
from .weight_priors import weight_prior

_METRIC_ROWS = 500  # of which curvature is measured
_LARGEST_BLOCK = 600  # weights of a layer whose curvature is a matrix
_FIRST_ROWS = 100  # on which almost every network shows that it is alive


# The outcomes of which there are compiled passes, and what those are called there.
_COMPILED = {
    Normal: "normal",
    Bernoulli: "binary",
    Categorical: "softmax",
    StudentT: "location-scale",
    Heteroscedastic: "location-scale",
}

# Standard deviations of the normal priors of what is not a matrix of weights, for outcomes of unit
# size: of biases, and of further coordinates. The last has the moments of log Gamma(2, 1.5).
_BIAS, _LOG_SD = 1.0, 2.0
_FURTHER = {"log_sigma2": 2.0 * _LOG_SD, "log_df_above_2": 0.8}
_CURVATURE = {"log_sigma2": 0.4, "log_df_above_2": 0.01}  # of their likelihood, per row
_FIRST_LOG_SD = 0.1  # of the weights of other outputs, when training begins


class MLPTarget(Target):
    r"""The posterior of a neural network.

    ``theta`` holds the weights, layer by layer: a matrix, row by row, with a row for each input of
    the layer (of the last layer, for each output), then the biases of its units. For a normal
    likelihood :math:`\log \sigma^2` of each output follows. A Student t one has that, and if they
    are unknown the logarithm of (degrees of freedom - 2) / 15, among the weights, with normal
    priors; heteroscedastic ones have a second output, the log scale, for each outcome.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,) or (n, n_outputs)
        For a normal likelihood the outcomes, otherwise the numbers of classes, (n,).
    outcome : Normal, StudentT, Heteroscedastic, Bernoulli or Categorical, default=None
        Of :mod:`skstein.outcomes`; ``Normal(InverseGamma(1.0, 0.01))`` by default.
    sample_weight : ndarray of shape (n,), default=None
        A weight equals that many repetitions of a row.
    hidden_layer_sizes : sequence of int, default=(50,)
    activation : {"relu", "tanh", "relu-tanh", "logistic"}, default="relu"
    prior : Normal, StudentT or HierarchicalNormal, default=None
        Of the scaled weights; ``HierarchicalNormal(rate=9.0)`` by default, whose precision for each
        group is bounded: the lowest tenth of its prior is left out. `AdaptiveRidge` is a Student t.
    prior_share : float, default=1.0
        Share of the prior that counts in training: less than 1 where the rows are a part of those
        that the networks see.
    dtype : dtype, default=float32
        In which networks are evaluated and trained.
    y_size : float, default=None
        Standard deviation of the outcomes, by default the largest of those of ``y``. The log scale
        of a row's noise is the second output near that, bent farther away, and stays between a
        thousandth and ten times as much.

    Raises
    ------
    ValueError
        If the outcome is another, a prior has no closed-form precisions, or a layer has no units.

    References
    ----------
    Tran, Tseng & Kohn, "Particle mean field variational Bayes" (arXiv:2303.13930), section 7.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import MLPTarget
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> target = MLPTarget(X, np.sin(3 * X[:, 0]), hidden_layer_sizes=(5,))
    >>> target.dim, target.names[:2], target.names[-1]
    (17, ('W0[0,0]', 'W0[0,1]'), 'log_sigma2[0]')
    >>> rng = np.random.default_rng(0)
    >>> target.score(target.sample_initial(rng, 3)).shape
    (3, 17)
    """

    n_rows: int

    def __init__(
        self,
        X,
        y,
        *,
        outcome=None,
        sample_weight=None,
        hidden_layer_sizes=(50,),
        activation="relu",
        prior=None,
        prior_share=1.0,
        dtype=np.float32,
        y_size=None,
    ):
        self.prior_share = prior_share
        self.prior = weight_prior(HierarchicalNormal(rate=9.0) if prior is None else prior)
        if any(size < 1 for size in hidden_layer_sizes):
            raise ValueError(
                f"hidden_layer_sizes={tuple(hidden_layer_sizes)} has a layer without units; every "
                "layer needs at least one."
            )
        self.dtype = np.dtype(dtype)
        self.outcome = Normal(InverseGamma(1.0, 0.01)) if outcome is None else outcome
        likelihood = _COMPILED.get(type(self.outcome))
        if likelihood is None:
            raise ValueError(
                f"networks have no compiled likelihood of {type(self.outcome).__name__}: outcome "
                "must be Normal, StudentT, Heteroscedastic, Bernoulli or Categorical."
            )
        normal = likelihood == "normal"
        noise = self.outcome.extra_prior if normal else InverseGamma()
        self.noise_shape, self.noise_scale = float(noise.shape), float(noise.scale)
        for name, value in {"y": y, "sample_weight": sample_weight}.items():
            if value is not None and len(value) != len(X):
                raise ValueError(f"{name} must have {len(X)} rows, got {len(value)}.")
        X = _jit.mlp.aligned(X, self.dtype)
        codes = np.asarray(y, dtype=np.intp if self.outcome.has_classes else None)
        if self.outcome.has_classes and self.outcome.n_predictors > 1:
            y = codes[:, None] == np.arange(self.outcome.n_predictors)
        y = _jit.mlp.aligned(np.asarray(y).reshape(len(X), -1), self.dtype)
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        self.data = X, y, _jit.mlp.aligned(weights, self.dtype)
        self._observed = codes if self.outcome.has_classes else y
        self.total_weight = float(np.sum(weights))
        self.n_rows, self.n_targets = y.shape
        self._kinds = 1 if self.outcome.has_classes else self.outcome.n_predictors
        self.n_outputs = self.n_targets * self._kinds
        sizes = (X.shape[1], *map(int, hidden_layer_sizes), self.n_outputs)
        self.network = Network(sizes, activation, self.dtype, self._log_size(y_size))
        self.n_noise = self.n_outputs if normal else 0
        # What a likelihood that is not normal has besides the network moves as weights do.
        self._further = () if normal else np.repeat(self.outcome.extra, self.n_targets).tolist()
        self.n_weights = self.network.n_weights + len(self._further)
        self.dim = self.n_weights + self.n_noise
        self._tail = slice(self._output_bias.start, self.n_weights)
        biases = [_BIAS] * self.n_targets + [_LOG_SD] * (self.n_outputs - self.n_targets)
        self._tail_scale = np.array(biases + [_FURTHER[name] for name in self._further])
        self._compiled = (
            np.array(sizes),
            _jit.mlp.ACTIVATIONS[activation],
            _jit.mlp.LIKELIHOODS[likelihood],
            self.outcome.given_df if likelihood == "location-scale" else np.inf,
            self.network.log_size,
        )
        self._all = np.arange(self.n_rows)

    def _log_size(self, y_size):
        if self._kinds == 1:
            return 0.0
        if y_size is None:
            _, y, weights = (array.astype(float) for array in self.data)
            off = y - weights @ y / self.total_weight
            y_size = np.sqrt(np.max(weights @ np.square(off)) / self.total_weight) or 1.0
        return float(np.log(y_size))

    @property
    def groups(self):
        """(coordinates, root of the number of inputs, prior) of weights that share a precision."""
        groups = []
        for first, fan_in, fan_out in self.network.layers:
            end = first + fan_in * fan_out
            groups.append((slice(first, end), np.sqrt(fan_in), self.prior))
            groups.append((slice(end, end + fan_out), 1.0, self.prior))
        del groups[-1]
        if self.outcome.further_priors:  # the rows of outputs of another kind
            block, root, _ = groups.pop()
            middle = (block.start + block.stop) // 2
            ((prior, _),) = self.outcome.further_priors
            groups.append((slice(block.start, middle), root, self.prior))
            groups.append((slice(middle, block.stop), root, weight_prior(prior)))
        return groups

    @cached_property
    def _groups_by_prior(self):
        """(prior, coordinates, sizes of the groups, root for each weight) of groups in a row."""
        parts = []
        for prior, some in groupby(self.groups, key=itemgetter(2)):
            blocks, roots, _ = zip(*some, strict=True)
            sizes = np.array([block.stop - block.start for block in blocks])
            coordinates = slice(blocks[0].start, blocks[-1].stop)
            parts.append((prior, coordinates, sizes, np.repeat(roots, sizes)))
        return parts

    @property
    def names(self):
        names = []
        for layer, (_, fan_in, fan_out) in enumerate(self.network.layers):
            last = layer == len(self.network.layers) - 1
            rows, columns = (fan_out, fan_in) if last else (fan_in, fan_out)
            names += [f"W{layer}[{j},{k}]" for j in range(rows) for k in range(columns)]
            names += [f"b{layer}[{k}]" for k in range(fan_out)]
        # Degrees of freedom are in another unit than those of the outcome.
        further = [name.removesuffix("_above_2") for name in self._further]
        names += [f"{name}[{j % self.n_targets}]" for j, name in enumerate(further)]
        return (*names, *(f"log_sigma2[{k}]" for k in range(self.n_noise)))

    # The density.

    def log_prior(self, theta):
        """Log density of the prior at each row of ``theta``, normalised, shape (m,)."""
        value = np.zeros(len(theta))
        for block, root, prior in self.groups:
            coef = root * theta[:, block]
            value += prior.log_density(coef) + coef.shape[1] * np.log(root)
        tail, scale = theta[:, self._tail], self._tail_scale
        value -= 0.5 * np.sum(np.square(tail / scale) + np.log(2 * np.pi * scale**2), axis=1)
        if self.n_noise:
            value += self.outcome.extra_prior.log_density(theta[:, self.n_weights :])
        return value

    def log_likelihood(self, theta, rows=None):
        """Log likelihood at each row of ``theta``, scaled by n / len(rows), shape (m,)."""
        chosen, scale = self._chosen(rows)
        value = np.zeros(len(theta))
        weights = self.data[2].astype(float)
        for block in row_blocks(len(chosen), 16 * len(theta) * self.n_outputs):
            part = chosen[block]
            value += self._pointwise(theta, part) @ weights[part]
        return scale * value

    def score(self, theta, rows=None):
        """Gradient of the log density, of ``rows`` scaled by n / len(rows), shape (m, dim)."""
        return self.log_density_and_score(theta, rows)[1]

    def log_density_and_score(self, theta, rows=None):
        """Log density (m,) and its gradient (m, dim)."""
        chosen, scale = self._chosen(rows)
        score = self._prior_score(theta)
        value = self.log_prior(theta)
        total = float(self.data[2][chosen].sum(dtype=float))
        for i, particle in enumerate(theta):
            weights, log_noise = particle[: self.n_weights], particle[self.n_weights :]
            precision = self._noise_precision(particle)
            losses, gradient = self._loss_and_gradient(weights, chosen, precision)
            score[i, : self.n_weights] -= scale * gradient
            if self.n_noise:
                half = 0.5 * losses * precision
                score[i, self.n_weights :] += scale * (half - 0.5 * total)
                constant = 0.5 * total * (np.log(2 * np.pi) + log_noise)
                value[i] -= scale * np.sum(half + constant)
            else:
                value[i] -= scale * float(losses[0])
        return value, score

    def pointwise_log_likelihood(self, theta):
        """Log likelihood of every row, without its weight, shape (m, n)."""
        return self._pointwise(theta, self._all)

    def sample_prior(self, rng, m):
        """Draws of the prior, shape (m, dim)."""
        theta = rng.standard_normal((m, self.dim))
        for block, root, prior in self.groups:
            theta[:, block] = prior.sample(rng, m, block.stop - block.start) / root
        theta[:, self._tail] *= self._tail_scale
        gamma = rng.gamma(self.noise_shape, size=(m, self.n_noise))
        theta[:, self.n_weights :] = np.log(self.noise_scale) - np.log(gamma)
        return theta

    # What engines for networks are made of.

    @cached_property
    def unevenness(self):
        """How much more noise a minibatch has than one of rows of weight 1 that say as much."""
        weights = self.data[2].astype(float)
        return float(weights @ weights / weights.sum())

    @cached_property
    def checksum(self):
        """Of features and outcomes: by it an engine knows the rows of an earlier fit again."""
        X, y, _ = self.data
        return crc32(y, crc32(X))

    def sample_initial(self, rng, m):
        """Networks as training begins with, shape (m, dim): outputs of unit size, unit noise."""
        theta = np.zeros((m, self.dim))
        last = len(self.network.layers) - 1
        share_rectified = _jit.dense_layers.rectified(self._compiled[1], 2) / 2
        for layer, (first, fan_in, fan_out) in enumerate(self.network.layers):
            gain = 1.0 + (layer < last) * share_rectified
            end = first + fan_in * fan_out
            theta[:, first:end] = rng.standard_normal((m, end - first)) * np.sqrt(gain / fan_in)
            if layer < last:
                theta[:, end : end + fan_out] = 0.5 * rng.standard_normal((m, fan_out))
        if self.outcome.further_priors:  # outputs of another kind begin nearly constant
            block, _, _ = self.groups[-1]
            theta[:, block] *= _FIRST_LOG_SD
        return theta

    def begin_training(self, theta, rows, held_out, rng):
        """Start to train the network of one particle, of shape (dim,), on some of the rows."""
        weights = theta[: self.n_weights].astype(self.dtype)
        noise = np.exp(theta[self.n_weights :]) if self.n_noise else np.ones(self.n_outputs)
        return Training(
            weights,
            np.zeros_like(weights),
            np.zeros_like(weights),
            noise.astype(self.dtype),
            np.zeros(1, dtype=np.int64),
            np.array(rows, dtype=np.int64),
            np.array(held_out, dtype=np.int64),
            rng,
            start=weights.copy(),
            data=self.checksum,
        )

    def train(self, n_epochs, batch_size, learning_rate, n_steps, patience, tol, state):
        """Train for some epochs by Adam towards a mode of the posterior.

        Parameters
        ----------
        n_epochs, batch_size : int
        learning_rate : float
            It falls to zero, along a cosine, in ``n_steps``.
        n_steps : int
        patience : int
            Epochs without progress by ``tol`` on the rows held out after which nothing is done.
        tol : float
        state : Training
            As `begin_training` or this method returned it; it is left as it was.

        Returns
        -------
        Training
        """
        precision = (self.prior_share * self.initial_precision).astype(self.dtype)
        prior = precision, self.noise_shape, self.noise_scale
        state = deepcopy(state)  # the one given stays as it is
        mover = state.weights, state.first, state.second, state.noise, state.done
        rest = self._compiled, float(learning_rate), int(n_steps), prior, state.rng
        if state.usual_loss is None:
            state.usual_loss = self._usual_loss(state)

        def epochs(count):
            met = _jit.mlp.train(mover, self.data, state.rows, int(batch_size), int(count), *rest)
            state.worst_loss = max(state.worst_loss, float(met.max()))
            state.loss = float(met[-1])

        if not len(state.held_out):
            epochs(n_epochs)
            return state
        for _ in range(n_epochs):
            if state.waiting >= patience:
                break
            epochs(1)
            loss = self._held_out_loss(self.trained(state), state.held_out)
            if state.best is None or loss < state.best[0] - tol:
                state.best = loss, state.weights.copy(), state.noise.copy()
                state.waiting = 0
            else:
                state.waiting += 1
        return state

    def trained(self, state):
        """The particle, of shape (dim,), that a `Training` has come to."""
        return np.concatenate([state.weights, np.log(state.noise[: self.n_noise])]).astype(float)

    def training_loss(self, theta, rows):
        """Mean loss of one particle as training sees it: squared errors, or - log likelihood."""
        return self.squared_errors(theta, rows).sum() / self.data[2][rows].sum(dtype=float)

    def _held_out_loss(self, theta, rows):
        """Mean negative log likelihood of rows held out, with the normal noise that suits them."""
        if not self.n_noise:
            return self.training_loss(theta, rows)
        variance = self.squared_errors(theta, rows) / self.data[2][rows].sum(dtype=float)
        return 0.5 * float(np.log(np.maximum(variance, self.noise_scale / self.n_rows)).sum())

    def _usual_loss(self, state):
        guess = state.noise.sum(dtype=float) if self.n_noise else np.log(max(2, self.n_outputs))
        at_start = self.training_loss(self.trained(state), state.rows)
        return float(max(guess, at_start, self._loss_of_constant))

    @cached_property
    def _loss_of_constant(self):
        return self.training_loss(self.constant(), self._all)

    def resample(self, theta, rng):
        """Draw noise variances and precisions given the weights of one particle.

        Returns
        -------
        theta : ndarray of shape (dim,)
            With the new noise variances.
        precision : ndarray of shape (n_weights,)
        """
        theta = theta.copy()
        if self.n_noise:
            shape = self.noise_shape + 0.5 * self.total_weight
            rate = self.noise_scale + 0.5 * self.squared_errors(theta)
            theta[self.n_weights :] = np.log(rate / rng.gamma(shape, size=self.n_noise))
        precision = self._precision
        for prior, block, sizes, root in self._groups_by_prior:
            coef = root * theta[block]
            precision[block] = root**2 * prior.draw_precision(coef, rng, sizes)
        return theta, precision

    def scales(self, theta, precision, rng):
        """Standard deviation that each weight of one particle would have on its own.

        From the diagonal of the Gauss-Newton matrix, in which no weight counts less than the mean
        of its row: a unit that is dead now has no curvature, and may wake up.
        """
        _, diagonal = self._curvature(theta, rng)
        return 1.0 / np.sqrt(diagonal + precision)

    def metric(self, theta, precision, damping, rng):
        """What the covariance of the weights of one particle is thought to be, layer by layer.

        The inverse of the Gauss-Newton matrix of a layer and of the prior precisions, with a share
        ``damping`` of the diagonal in `scales`; of layers of more than 600 weights, of that
        diagonal.

        Returns
        -------
        rows, starts : ndarray
            As `hamiltonian_steps` takes them.
        """
        blocks, diagonal = self._curvature(theta, rng, _LARGEST_BLOCK)
        rows, starts, first = [], np.arange(self.n_weights), 0
        for block in blocks:
            layer = slice(first, first + len(block))
            if block.ndim == 1:
                rows.append(1.0 / np.sqrt(diagonal[layer] + precision[layer]))
            else:
                block[np.diag_indices_from(block)] += precision[layer] + damping * diagonal[layer]
                cholesky, inverse = get_lapack_funcs(("potrf", "trtri"), (block,))
                factor, _ = cholesky(block.T, lower=True, overwrite_a=True)
                factor, _ = inverse(factor, lower=True, overwrite_c=True)
                rows.append(factor[np.tri(len(factor), dtype=bool)])
                starts[layer] = first
            first = layer.stop
        rows.append(1.0 / np.sqrt(diagonal[first:] + precision[first:]))
        return np.concatenate(rows).astype(self.dtype), starts

    def _curvature(self, theta, rng, largest=0):
        """Blocks of the Gauss-Newton matrix, and its diagonal."""
        rows, share = self._all, 1.0
        if self.n_rows > _METRIC_ROWS:
            rows = rng.choice(self.n_rows, _METRIC_ROWS, replace=False)
            share = self.n_rows / _METRIC_ROWS
        weights, precision = theta[: self.n_weights], self._noise_precision(theta)
        blocks = gauss_newton(weights, self.data, rows, self._compiled, precision, rng, largest)
        for block in blocks:
            block *= share
        diagonal = [block if block.ndim == 1 else np.diagonal(block) for block in blocks]
        curvature = np.concatenate([*diagonal, np.zeros(len(self._further))]).astype(float)
        last = len(self.network.layers) - 1
        for layer, (first, fan_in, fan_out) in enumerate(self.network.layers):
            end = first + fan_in * fan_out
            length = fan_in if layer == last else fan_out
            matrix = curvature[first:end].reshape(-1, length)
            np.maximum(matrix, matrix.mean(axis=1, keepdims=True), out=matrix)
            bias = curvature[end : end + fan_out]
            for of_kind in np.split(bias, self._kinds if layer == last else 1):
                np.maximum(of_kind, of_kind.mean(), out=of_kind)
        for j, name in enumerate(self._further, start=self.network.n_weights):
            curvature[j] = _CURVATURE[name] * self.total_weight
        return blocks, curvature

    def hamiltonian_steps(
        self, theta, velocity, metric, precision, step_size, friction, batch_size, n_steps, rng
    ):
        """Move the weights of one particle, given its noise variances and precisions.

        Parameters
        ----------
        metric : tuple (rows, starts)
            The rows of a lower triangular matrix K, each from its first entry that is not zero, one
            behind the other, and the columns of these entries. ``K.T @ K`` is the covariance that
            the weights are thought to have.

        Returns
        -------
        theta : ndarray of shape (dim,)
        velocity : ndarray of shape (n_weights,)
            ``K.T @ velocity`` is the speed of the weights.
        """  # fmt: skip
        weights = theta[: self.n_weights].astype(self.dtype)
        velocity = velocity.astype(self.dtype)
        noise = 1.0 / self._noise_precision(theta)
        _jit.mlp.hamiltonian_steps(
            (weights, velocity, *metric),
            self.data,
            self._all.copy(),
            int(min(batch_size, self.n_rows)),
            int(n_steps),
            self._compiled,
            float(step_size),
            float(friction),
            (precision.astype(self.dtype), noise.astype(self.dtype)),
            rng,
        )
        return np.concatenate([weights.astype(float), theta[self.n_weights :]]), velocity

    def out_of_bag_noise(self, theta, held_out):
        """Log noise variances from the errors of averages of networks that did not see a row.

        Parameters
        ----------
        theta : ndarray of shape (m, dim)
        held_out : sequence of m arrays of int
            The rows that each network was not trained on.

        Returns
        -------
        log_noise : ndarray of shape (n_noise,)
        """
        X, y, weights = self.data
        total, count = np.zeros(y.shape), np.zeros(self.n_rows)
        for particle, rows in zip(theta, held_out, strict=True):
            total[rows] += self.network.outputs(particle[None], X[rows])[0]
            count[rows] += 1
        rows = np.flatnonzero(count)
        errors = total[rows] / count[rows, None] - y[rows]
        weights = weights[rows].astype(float)
        rate = self.prior_share * self.noise_scale + 0.5 * weights @ np.square(errors)
        return np.log(rate / (self.prior_share * self.noise_shape + 0.5 * weights.sum()))

    def finite(self, theta):
        """Which networks are finite, and put out finite numbers, shape (m,)."""
        rows = self._all[:: -(-self.n_rows // _FIRST_ROWS)]
        outputs = self.network.outputs(theta, self.data[0][rows])
        return np.isfinite(theta).all(axis=1) & np.isfinite(outputs).all(axis=(1, 2))

    def dead(self, theta):
        """Which networks put out the same for every row although rows differ, shape (m,).

        All units of one of their layers are dead, and no gradient gets past it. Networks that have
        learnt that there is nothing to learn are nearly constant, but, apart from the biases of
        their outputs, not to the last digit.
        """
        X = self.data[0]
        if np.all(X[:1] == X):
            return np.zeros(len(theta), dtype=bool)
        dead = self._constant_on(theta, self._all[:: -(-self.n_rows // _FIRST_ROWS)])
        if dead.any():
            dead[dead] = self._constant_on(theta[dead], self._all)
        return dead

    def constant(self):
        """The network that puts out the same for every row and explains them best, shape (dim,)."""
        _, y, weights = self.data
        shares = weights.astype(float) / self.total_weight
        mean = shares @ y
        theta = np.zeros(self.dim)
        if self.n_noise:
            theta[self._output_bias] = mean
            variance = shares @ np.square(y - mean)
            theta[self.n_weights :] = np.log(np.maximum(variance, self.noise_scale))
        elif not self.outcome.has_classes:
            heads = [self.outcome.initial_heads(column, weights) for column in y.T.astype(float)]
            theta[self._tail] = np.transpose(heads).ravel()
        else:
            mean = np.clip(mean, 1e-12, 1.0 - 1e-12)
            odds = 1.0 - mean if self.n_outputs == 1 else 1.0
            theta[self._output_bias] = np.log(mean / odds)
        return theta

    def shortfall(self, theta, rows):
        """By how many nats networks explain ``rows`` worse than a constant does.

        Networks and constant alike have the noise variances that suit them best: those of particles
        may be honest ones, of rows that a network has not seen.

        Returns
        -------
        shortfall : ndarray of shape (m,)
        weight : float
            Of these rows.
        """
        weight = float(self.data[2][rows].sum(dtype=float))
        theta = np.concatenate([theta, self.constant()[None]])
        if self.n_noise:
            errors = np.array([self.squared_errors(particle, rows) for particle in theta])
            variance = np.maximum(errors / weight, self.noise_scale)
            value = -0.5 * weight * np.log(variance).sum(axis=1)
        else:
            value = self.log_likelihood(theta, rows) * len(rows) / self.n_rows
        return np.nan_to_num(value[-1] - value[:-1], nan=np.inf), weight

    def squared_errors(self, theta, rows=None):
        """Weighted sum of squared errors of each output for one particle, shape (n_outputs,).

        If the likelihood is not normal, minus its logarithm, and zeros.
        """
        chosen, _ = self._chosen(rows)
        return _jit.mlp.loss(theta[: self.n_weights], self.data, chosen, self._compiled)

    @property
    def initial_precision(self):
        """Precision of each weight before anything is learnt, shape (n_weights,)."""
        precision = self._precision
        for block, root, prior in self.groups:
            precision[block] = root**2 * prior.typical_precision(block.stop - block.start)
        return precision

    def expected_precision(self, second_moment):
        """Mean of each precision given the mean squares of the weights, shape (n_weights,)."""
        precision = self._precision
        for block, root, prior in self.groups:
            squares = root**2 * second_moment[block]
            precision[block] = root**2 * prior.expected_precision(squares)
        return precision

    def weight_score(self, weights, rows, precision, noise_precision):
        """Gradient by the weights, (m, n_weights), given precisions and noise.

        The likelihood of ``rows`` is scaled by n / len(rows).
        """
        chosen, scale = self._chosen(rows)
        score = -precision * weights
        for i, particle in enumerate(weights):
            _, gradient = self._loss_and_gradient(particle, chosen, noise_precision)
            score[i] -= scale * gradient
        return score

    def _constant_on(self, theta, rows):
        # Beside a large bias the last digit of a network that a strong prior has shrunk is lost.
        theta = theta.copy()
        theta[:, self._output_bias] = 0.0
        outputs = self.network.outputs(theta, self.data[0][rows])
        return np.all(outputs == outputs[:, :1], axis=(1, 2))

    @property
    def _output_bias(self):
        return slice(self.network.n_weights - self.n_outputs, self.network.n_weights)

    @property
    def _precision(self):
        """That of what is in no group, and 1 elsewhere, shape (n_weights,)."""
        precision = np.ones(self.n_weights)
        precision[self._tail] = self._tail_scale**-2.0
        return precision

    def _loss_and_gradient(self, weights, rows, precision):
        return _jit.mlp.loss_and_gradient(weights, self.data, rows, self._compiled, precision)

    def _noise_precision(self, theta):
        return np.exp(-theta[self.n_weights :]) if self.n_noise else np.ones(self.n_outputs)

    def _chosen(self, rows):
        return (self._all, 1.0) if rows is None else (np.asarray(rows), self.n_rows / len(rows))

    def _prior_score(self, theta):
        score = np.zeros_like(theta)
        for block, root, prior in self.groups:
            score[:, block] = root * prior.score(root * theta[:, block])
        score[:, self._tail] = -theta[:, self._tail] / self._tail_scale**2
        if self.n_noise:
            score[:, self.n_weights :] = self.outcome.extra_prior.score(theta[:, self.n_weights :])
        return score

    def _pointwise(self, theta, rows):
        outputs, y = self.network.outputs(theta, self.data[0][rows]), self._observed[rows]
        if self.outcome.has_classes:
            return self.outcome.log_density(np.moveaxis(outputs, 2, 0), y)
        heads = self.network.heads(self.outcome, theta[:, None], outputs)
        return self.outcome.log_density(heads, y).sum(axis=2)
