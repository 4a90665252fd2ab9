"""The compiled half of `mlp`: passes through layers, and what follows, training or chain steps.

They share a file because the cache on disk does not see that a routine of another file changed.
What compiles is paid for at a first fit: gradients, training and chains are one routine, which
would otherwise hold a copy of the passes each, and products of matrices are single calls of BLAS.
"""

import math
from typing import Any

import numpy as np
from numba import types
from numba.np.linalg import ensure_blas

from ._compile import REORDERED, compiled, part

DF_UNIT = 15.0  # of the degrees of freedom beyond 2, so that their logarithm is about 0
# Bounds of the log scale of a row's noise, beside that of the outcome.
LOG_LEAST, LOG_MOST = math.log(1e-3), math.log(10.0)
RELU, TANH, LOGISTIC, RELU_TANH = 0, 1, 2, 3
BLOCK = 256  # rows that layers work on together
GRADIENT, TRAINING, CHAIN, LOSS = 0, 1, 2, 3  # what passes are for
_LARGEST_VELOCITY = 4.0  # standard deviations

# Of splitmix64, and of sums of the bytes of a number.
_GOLDEN, _MIX_1, _MIX_2 = np.array(
    [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64
)
_8, _11, _27, _30, _31, _48 = np.array([8, 11, 27, 30, 31, 48], dtype=np.uint64)
_EVEN_BYTES, _TO_THE_TOP = np.array([0x00FF00FF00FF00FF, 0x0001000100010001], dtype=np.uint64)
_MEAN_OF_BYTES, _SD_OF_BYTES = 8 * 127.5, math.sqrt(8 * (256**2 - 1) / 12)

# The product that `np.dot` calls, of column-major matrices: type, which are transposed, three
# sizes, then addresses, each matrix with its number of rows.
ensure_blas()
_gemm: Any = types.ExternalFunction(
    "numba_xxgemm", types.intc(types.char, types.char, types.char, *[types.intp] * 11)
)
_SINGLE, _DOUBLE, _PLAIN, _TRANSPOSED = map(ord, "sdnt")


def rectified(activation, width):
    """How many units of a layer, the first ones, are rectified; the others are squashed."""
    if activation == RELU:
        return width
    return (width + 1) // 2 if activation == RELU_TANH else 0


_rectified = part(rectified)


@part
def _tanh(values, first):
    """Hyperbolic tangents in place, from the column ``first`` on.

    In float32 to 2e-7 by a rational function (that of Eigen), of all columns: a loop over some of
    them would not use vector instructions.
    """
    n, width = values.shape
    if values.itemsize > 4:
        for i in range(n):
            for k in range(first, width):
                values[i, k] = math.tanh(values[i, k])
        return
    number = values.dtype.type
    most = number(7.905311)
    for i in range(n):
        for k in range(width):
            given = values[i, k]
            x = most if given > most else given
            x = -most if x < -most else x
            s = x * x
            p = number(-2.76076848e-16) * s + number(2.00018790e-13)
            p = (p * s - number(8.60467152e-11)) * s + number(5.12229710e-08)
            p = (p * s + number(1.48572236e-05)) * s + number(6.37261928e-04)
            p = p * s + number(4.89352456e-03)
            q = number(1.19825839e-06) * s + number(1.18534706e-04)
            q = (q * s + number(2.26843463e-03)) * s + number(4.89352519e-03)
            values[i, k] = given if k < first else x * p / q


@part
def _activate(result, bias, activation):
    """Add the biases of a layer and apply its activation, -1 for none, in place."""
    zero = result.dtype.type(0.0)
    half = result.dtype.type(0.5)
    n, width = result.shape
    first = _rectified(activation, width)
    # The logistic function is a hyperbolic tangent, moved and scaled.
    scale = half if activation == LOGISTIC else result.dtype.type(1.0)
    for i in range(n):
        for k in range(width):
            value = scale * (result[i, k] + bias[k])
            # A comparison the other way round would turn NaN into zero.
            result[i, k] = zero if k < first and value < zero else value
    if activation >= 0 and first < width:
        _tanh(result, first)
        if activation == LOGISTIC:
            for i in range(n):
                for k in range(width):
                    result[i, k] = half + half * result[i, k]


@part
def _through(inputs, activation, below):
    """Multiply derivatives by those of the activation, whose values are ``inputs``."""
    zero = below.dtype.type(0.0)
    one = below.dtype.type(1.0)
    n, width = below.shape
    first = _rectified(activation, width)
    if activation == LOGISTIC:
        for i in range(n):
            for k in range(width):
                below[i, k] *= inputs[i, k] * (one - inputs[i, k])
        return
    for i in range(n):
        for k in range(width):
            value = inputs[i, k]
            slope = one - value * value
            if k < first:
                slope = zero if value <= zero else one
            below[i, k] *= slope


@part
def _add_rows(rows, total):
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            total[k] += rows[i, k]


@part
def _proportions(logits):
    """Turn logits into probabilities in place; return the log of the sum of exponentials."""
    largest = logits[0]
    for k in range(1, logits.shape[0]):
        if not logits[k] <= largest:
            largest = logits[k]
    total = logits.dtype.type(0.0)
    for k in range(logits.shape[0]):
        logits[k] = math.exp(logits[k] - largest)
        total += logits[k]
    for k in range(logits.shape[0]):
        logits[k] /= total
    return largest + math.log(total)


@part
def _digamma(x):
    """Of x > 0, to 1e-9: recurrence and asymptotic series."""
    value = 0.0
    while x < 6.0:
        value -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    return value + math.log(x) - 0.5 / x - series


@part
def _degrees(df, extra, k):
    """Degrees of freedom of the outcome ``k``, of as many as the last entries of ``extra``."""
    return df if df > 0.0 else 2.0 + DF_UNIT * math.exp(extra[k])


@part
def _bound(log_scale, log_size, slope):
    """Bend log scales as `bounded_log_scale` of `mlp` does; set ``slope`` to the derivative."""
    below, above = log_scale.dtype.type(-LOG_LEAST), log_scale.dtype.type(LOG_MOST)
    one = log_scale.dtype.type(1.0)
    for k in range(log_scale.shape[1]):
        bent = slope[:, k : k + 1]
        for i in range(bent.shape[0]):
            off = log_scale[i, k] - log_size
            bent[i, 0] = off / (above if off > 0.0 else below)
        _tanh(bent, 0)
        for i in range(bent.shape[0]):
            b = bent[i, 0]
            log_scale[i, k] = log_size + (above if b > 0.0 else below) * b
            bent[i, 0] = one - b * b


@part
def _compare_scaled(
    result, Y, row_weights, rows, df, log_size, extra, evenness, delta, losses, slope
):
    """As `_compare`, of a location-scale likelihood; ``slope`` is the gradient by ``extra``.

    Of uneven noise derivatives are multiplied by its variance to the power of ``evenness``, over
    the mean of that: at 1 every row has the same say about the location.
    """
    one = result.dtype.type(1.0)
    half = result.dtype.type(0.5)
    n, n_outputs = result.shape
    k_all = Y.shape[1]
    uneven = n_outputs > k_all
    if uneven:
        _bound(result[:, k_all:], log_size, delta[:, k_all:])
    normal = math.isinf(df)
    first = extra.shape[0] - k_all  # of the degrees of freedom, if they are there
    for k in range(k_all):
        nu = 1.0 if normal else _degrees(df, extra, first + k)
        most = result.dtype.type(nu + 1.0)
        nu_ = result.dtype.type(nu)
        constant = 0.5 * math.log(2.0 * math.pi)
        if not normal:
            constant = math.lgamma(0.5 * nu) - math.lgamma(0.5 * (nu + 1.0))
            constant += 0.5 * math.log(math.pi * nu)
        log_scale = result.dtype.type(0.0) if uneven else half * extra[k]
        power = result.dtype.type(2.0 * evenness)
        mean_share = 1.0
        if uneven and evenness > 0.0:
            mean_share = 0.0
            for i in range(n):
                mean_share += math.exp(power * result[i, k_all + k]) / n
        inverse_share = result.dtype.type(1.0 / mean_share)
        total = 0.0  # of weights
        spread = 0.0
        tail = 0.0
        logs = 0.0
        for i in range(n):
            weight = row_weights[rows[i]]
            if uneven:
                log_scale = result[i, k_all + k]
            inverse = math.exp(-log_scale)
            z = (result[i, k] - Y[rows[i], k]) * inverse
            square = z * z
            trust = one
            if normal:
                losses[0] += weight * (log_scale + half * square)
            else:
                trust = most / (nu_ + square)
                log_tail = math.log1p(square / nu_)
                losses[0] += weight * (log_scale + half * most * log_tail)
                logs += weight * log_tail
                tail += weight * trust * square
            delta[i, k] = weight * trust * z * inverse
            rise = weight * (one - trust * square)
            if uneven:
                share = one
                if evenness > 0.0:
                    share = math.exp(power * log_scale) * inverse_share
                    delta[i, k] *= share
                delta[i, k_all + k] *= share * rise
            spread += rise
            total += weight
        losses[0] += total * constant
        if not uneven:
            slope[k] += half * spread
        if df == 0.0:
            by_df = total * (_digamma(0.5 * (nu + 1.0)) - _digamma(0.5 * nu) - 1.0 / nu)
            slope[first + k] -= 0.5 * (nu - 2.0) * (by_df - logs + tail / nu)


@part
def _compare(result, Y, row_weights, rows, likelihood, precision, delta, losses):
    """Set ``delta`` to the derivatives of the loss by the outputs, and add to ``losses``."""
    zero = result.dtype.type(0.0)
    one = result.dtype.type(1.0)
    n, n_outputs = result.shape
    if likelihood == 0:
        for i in range(n):
            row = rows[i]
            weight = row_weights[row]
            for k in range(n_outputs):
                error = result[i, k] - Y[row, k]
                delta[i, k] = weight * precision[k] * error
                losses[k] += weight * error * error
    elif likelihood == 1:
        for i in range(n):
            row = rows[i]
            weight = row_weights[row]
            logit = result[i, 0]
            small = math.exp(-abs(logit))
            proba = (one if logit >= zero else small) / (one + small)
            delta[i, 0] = weight * (proba - Y[row, 0])
            losses[0] += weight * (max(logit, zero) - logit * Y[row, 0] + math.log1p(small))
    else:
        for i in range(n):
            row = rows[i]
            weight = row_weights[row]
            hit = zero
            for k in range(n_outputs):
                hit += result[i, k] * Y[row, k]
                delta[i, k] = result[i, k]
            losses[0] += weight * (_proportions(delta[i]) - hit)
            for k in range(n_outputs):
                delta[i, k] = weight * (delta[i, k] - Y[row, k])


@part
def _adam(weights, first, second, gradient, precision, scale, shrinkage, rate, correction):
    keep_first = weights.dtype.type(0.9)
    keep_second = weights.dtype.type(0.999)
    one = weights.dtype.type(1.0)
    zero = weights.dtype.type(0.0)
    small = weights.dtype.type(1e-8)
    # The prior takes the weights of dead units to where processors are tens of times as slow.
    tiny = weights.dtype.type(1e-30)
    for p in range(weights.shape[0]):
        slope = scale * gradient[p] + shrinkage * precision[p] * weights[p]
        mean = keep_first * first[p] + (one - keep_first) * slope
        mean = zero if abs(mean) < tiny else mean
        square = keep_second * second[p] + (one - keep_second) * slope * slope
        weight = weights[p] - rate * mean / (math.sqrt(square * correction) + small)
        first[p] = mean
        second[p] = square
        weights[p] = zero if abs(weight) < tiny else weight


@part
def _gather(X, rows, units):
    p = X.shape[1]
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(p):
            units[i * p + j] = X[row, j]


@part
def next_bits(seed):
    """64 random bits (splitmix64)."""
    seed[0] += _GOLDEN
    z = seed[0]
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@part
def _noise(seed):
    """A number of mean 0 and variance 1; a few added up are normal.

    It is the sum of eight random bytes. Steps of Langevin dynamics ask for no more, and a normal
    number takes several times as long.
    """
    z = next_bits(seed)
    pairs = (z & _EVEN_BYTES) + ((z >> _8) & _EVEN_BYTES)
    return (((pairs * _TO_THE_TOP) >> _48) - _MEAN_OF_BYTES) / _SD_OF_BYTES


@part
def _kick(
    weights, velocity, metric, starts, gradient, precision, step, keep, factor, spread, most, seed
):
    for p in range(weights.shape[0]):
        gradient[p] = factor * gradient[p] + precision[p] * weights[p]
    half = step * weights.dtype.type(0.5)
    end = 0
    for p in range(weights.shape[0]):
        before = gradient[starts[p] : p + 1]
        moved = weights[starts[p] : p + 1]
        row = metric[end : end + before.shape[0]]
        end += before.shape[0]
        force = weights.dtype.type(0.0)
        for q in range(row.shape[0]):
            force += row[q] * before[q]
        v = velocity[p] - step * force
        v = most if v > most else v
        v = -most if v < -most else v
        u = keep * v + spread * weights.dtype.type(_noise(seed))
        u = most if u > most else u
        u = -most if u < -most else u
        velocity[p] = u
        way = half * (v + u)
        for q in range(row.shape[0]):
            moved[q] += row[q] * way


@part
def _shuffle(order, count, seed):
    """Put ``count`` entries first, drawn without replacement."""
    n = order.shape[0]
    for i in range(count):
        j = i + int((next_bits(seed) >> _11) * 2.0**-53 * (n - i))
        chosen = order[j]
        order[j] = order[i]
        order[i] = chosen


@compiled(fastmath=REORDERED)
def passes(
    purpose, weights, first, second, gradient, X, Y, row_weights, order, batch_size, n_epochs,
    sizes, activation, likelihood, scaled, noise, precision, losses, met, done, starts, step_size,
    friction, n_steps, noise_shape, noise_scale, numbers, units, deltas, seed,
):  # fmt: skip
    dtype = weights.dtype.type
    n = order.shape[0]
    n_layers = sizes.shape[0] - 1
    n_network = 0  # weights of the network, in front of what else the likelihood has
    for layer in range(n_layers):
        n_network += (sizes[layer] + 1) * sizes[layer + 1]
    n_outputs = sizes[n_layers]
    total = 0.0
    squares = 0.0
    for i in range(n):
        total += row_weights[order[i]]
        squares += row_weights[order[i]] ** 2
    used = batch_size if purpose == CHAIN else n
    inverse = numbers[2:]
    # For BLAS: the type, and addresses of the numbers 0 and 1, weights, units and derivatives.
    size = weights.itemsize
    kind = _SINGLE if size == 4 else _DOUBLE
    zero = numbers.ctypes.data
    one = zero + size
    at_weights = weights.ctypes.data
    at_gradient = gradient.ctypes.data
    at_units = units.ctypes.data
    at_deltas = deltas.ctypes.data
    for epoch in range(n_epochs):
        if batch_size < n:
            _shuffle(order, used, seed)
        mean_noise = 1.0
        evenness = 0.0
        if purpose == TRAINING:
            # Where rows that are not fitted yet may be called noisy, they are never fitted.
            evenness = max(0.0, 1.0 - 2.0 * done[0] / n_steps)
            mean_noise = 0.0
            for k in range(noise.shape[0]):
                mean_noise += noise[k] / noise.shape[0]
        for k in range(noise.shape[0]):
            inverse[k] = mean_noise / noise[k]
            losses[k] = 0.0
        for begin in range(0, used, batch_size):
            end = min(begin + batch_size, used)
            for p in range(weights.shape[0]):
                gradient[p] = 0.0
            for start in range(begin, end, BLOCK):
                rows = order[start : min(start + BLOCK, end)]
                m = rows.shape[0]
                _gather(X, rows, units)
                # Forwards. BLAS counts columns first: for it all is transposed.
                p = 0
                unit = 0
                for layer in range(n_layers):
                    a = sizes[layer]
                    b = sizes[layer + 1]
                    last = layer == n_layers - 1
                    above = unit + m * a
                    _gemm(
                        kind, _TRANSPOSED if last else _PLAIN, _PLAIN, b, m, a,
                        one, at_weights + p * size, a if last else b, at_units + unit * size, a,
                        zero, at_units + above * size, b,
                    )  # fmt: skip
                    p += a * b
                    result = units[above : above + m * b].reshape(m, b)
                    _activate(result, weights[p : p + b], -1 if last else activation)
                    p += b
                    unit = above
                result = units[unit : unit + m * n_outputs].reshape(m, n_outputs)
                delta = deltas[unit : unit + m * n_outputs].reshape(m, n_outputs)
                if scaled is None:  # a type of its own, for which the other branch is not compiled
                    _compare(result, Y, row_weights, rows, likelihood, inverse, delta, losses)
                else:
                    df, log_size = scaled
                    _compare_scaled(
                        result, Y, row_weights, rows, df, dtype(log_size), weights[n_network:],
                        evenness, delta, losses, gradient[n_network:],
                    )  # fmt: skip
                if purpose == LOSS:
                    continue
                # Backwards.
                for layer in range(n_layers - 1, -1, -1):
                    a = sizes[layer]
                    b = sizes[layer + 1]
                    last = layer == n_layers - 1
                    p -= b
                    delta = deltas[unit : unit + m * b].reshape(m, b)
                    _add_rows(delta, gradient[p : p + b])
                    p -= a * b
                    below = unit - m * a
                    at_inputs = at_units + below * size
                    at_delta = at_deltas + unit * size
                    _gemm(
                        kind, _PLAIN, _TRANSPOSED, a if last else b, b if last else a, m,
                        one, at_inputs if last else at_delta, a if last else b,
                        at_delta if last else at_inputs, b if last else a,
                        one, at_gradient + p * size, a if last else b,
                    )  # fmt: skip
                    if layer > 0:
                        _gemm(
                            kind, _PLAIN if last else _TRANSPOSED, _PLAIN, a, m, b,
                            one, at_weights + p * size, a if last else b, at_delta, b,
                            zero, at_deltas + below * size, a,
                        )  # fmt: skip
                        _through(
                            units[below:unit].reshape(m, a), activation,
                            deltas[below:unit].reshape(m, a),
                        )  # fmt: skip
                    unit = below
            if purpose == TRAINING:
                done[0] += 1
                rate = 0.5 * step_size
                rate *= 1.0 + math.cos(math.pi * min(1.0, done[0] / n_steps))
                _adam(
                    weights, first, second, gradient, precision,
                    dtype(n / (total * (end - begin))), dtype(mean_noise / total),
                    dtype(rate / (1.0 - 0.9 ** done[0])), dtype(1.0 / (1.0 - 0.999 ** done[0])),
                )  # fmt: skip
            elif purpose == CHAIN:
                # What the minibatch brings of noise is taken off that of the dynamics.
                ratio = n / batch_size
                keep = math.exp(-friction * step_size)
                variance = 1.0 - keep**2 - step_size**2 * (ratio - 1.0) * squares / total
                _kick(
                    weights, first, second, starts, gradient, precision, dtype(step_size),
                    dtype(keep), dtype(ratio), dtype(math.sqrt(max(0.0, variance))),
                    dtype(_LARGEST_VELOCITY), seed,
                )  # fmt: skip
        if purpose == TRAINING:
            met[epoch] = 0.0
            for k in range(noise.shape[0]):
                met[epoch] += losses[k] / total
                if likelihood == 0:
                    noise[k] = (0.5 * losses[k] + noise_scale) / (0.5 * total + noise_shape)
