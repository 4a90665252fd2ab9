"""The compiled half of `mlp`: layers forwards and backwards, likelihoods, training, chain steps.

They share a file because the cache on disk does not see that a routine of another file changed.
A routine is compiled once more within each that calls it, so few call others: what works on whole
blocks of rows is in `mlp`, in NumPy.
"""

import math

import numpy as np

from ._compile import REORDERED, compiled

DF_UNIT = 15.0  # of the degrees of freedom beyond 2, so that their logarithm is about 0
BLOCK = 256  # rows that layers work on together
_LARGEST_VELOCITY = 4.0  # standard deviations

# Layers work on blocks of rows by products of matrices. Units, and the derivatives of the loss by
# them, lie layer after layer, with all rows of a block.


@compiled(fastmath=REORDERED)
def _tanh(values):
    """Hyperbolic tangents in place; in float32 to 2e-7 by a rational function (that of Eigen)."""
    if values.itemsize > 4:
        for k in range(values.shape[0]):
            values[k] = math.tanh(values[k])
        return
    number = values.dtype.type
    most = number(7.905311)
    for k in range(values.shape[0]):
        x = values[k]
        x = most if x > most else x
        x = -most if x < -most else x
        s = x * x
        p = number(-2.76076848e-16) * s + number(2.00018790e-13)
        p = (p * s - number(8.60467152e-11)) * s + number(5.12229710e-08)
        p = (p * s + number(1.48572236e-05)) * s + number(6.37261928e-04)
        p = p * s + number(4.89352456e-03)
        q = number(1.19825839e-06) * s + number(1.18534706e-04)
        q = (q * s + number(2.26843463e-03)) * s + number(4.89352519e-03)
        values[k] = x * p / q


@compiled(fastmath=REORDERED)
def _activate(result, bias, activation):
    """Add the biases of a layer and apply its activation, -1 for none, in place."""
    zero = result.dtype.type(0.0)
    half = result.dtype.type(0.5)
    n, fan_out = result.shape
    # The logistic function is a hyperbolic tangent, moved and scaled.
    scale = half if activation == 2 else result.dtype.type(1.0)
    for i in range(n):
        for k in range(fan_out):
            value = scale * (result[i, k] + bias[k])
            # A comparison the other way round would turn NaN into zero.
            result[i, k] = zero if activation == 0 and value < zero else value
    if activation >= 1:
        flat = result.reshape(n * fan_out)
        _tanh(flat)
        if activation == 2:
            for k in range(n * fan_out):
                flat[k] = half + half * flat[k]


@compiled
def forward(weights, x, sizes, activation, units):
    """Fill ``units`` from the rows ``x``; returns the view of the outputs."""
    n = x.shape[0]
    last = sizes.shape[0] - 2
    inputs = x
    first = 0
    unit = 0
    for layer in range(last + 1):
        fan_in = sizes[layer]
        fan_out = sizes[layer + 1]
        end = first + fan_in * fan_out
        result = units[unit : unit + n * fan_out].reshape(n, fan_out)
        if layer == last:
            np.dot(inputs, weights[first:end].reshape(fan_out, fan_in).T, result)
        else:
            np.dot(inputs, weights[first:end].reshape(fan_in, fan_out), result)
        _activate(result, weights[end : end + fan_out], activation if layer < last else -1)
        inputs = result
        first = end + fan_out
        unit += n * fan_out
    return inputs


@compiled(fastmath=REORDERED)
def _through(inputs, activation, below):
    """Multiply derivatives by those of the activation, whose values are ``inputs``."""
    zero = below.dtype.type(0.0)
    one = below.dtype.type(1.0)
    if activation == 0:
        for j in range(below.shape[0]):
            below[j] = zero if inputs[j] <= zero else below[j]
    elif activation == 1:
        for j in range(below.shape[0]):
            below[j] *= one - inputs[j] * inputs[j]
    else:
        for j in range(below.shape[0]):
            below[j] *= inputs[j] * (one - inputs[j])


@compiled
def propagate(weights, n, sizes, activation, units, deltas):
    """Fill ``deltas`` from its last part, the derivatives of the loss by the outputs."""
    last = sizes.shape[0] - 2
    end = weights.shape[0]
    unit = n * _count_units(sizes)
    for layer in range(last, 0, -1):
        fan_in = sizes[layer]
        fan_out = sizes[layer + 1]
        first = end - (fan_in + 1) * fan_out
        delta = deltas[unit - n * fan_out : unit].reshape(n, fan_out)
        unit -= n * fan_out
        flat = deltas[unit - n * fan_in : unit]
        below = flat.reshape(n, fan_in)
        matrix = weights[first : end - fan_out]
        if layer == last:
            np.dot(delta, matrix.reshape(fan_out, fan_in), below)
        else:
            np.dot(delta, matrix.reshape(fan_in, fan_out).T, below)
        _through(units[unit - n * fan_in : unit], activation, flat)
        end = first


@compiled(fastmath=REORDERED)
def _add(part, total):
    for p in range(part.shape[0]):
        total[p] += part[p]


@compiled(fastmath=REORDERED)
def _add_rows(rows, total):
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            total[k] += rows[i, k]


@compiled
def accumulate(x, sizes, units, deltas, gradient, product):
    """Add the products of inputs and derivatives of every layer to ``gradient``."""
    n = x.shape[0]
    last = sizes.shape[0] - 2
    inputs = x
    first = 0
    unit = 0
    for layer in range(last + 1):
        fan_in = sizes[layer]
        fan_out = sizes[layer + 1]
        end = first + fan_in * fan_out
        delta = deltas[unit : unit + n * fan_out].reshape(n, fan_out)
        matrix = product[: fan_in * fan_out]
        if layer == last:
            np.dot(delta.T, inputs, matrix.reshape(fan_out, fan_in))
        else:
            np.dot(inputs.T, delta, matrix.reshape(fan_in, fan_out))
        _add(matrix, gradient[first:end])
        _add_rows(delta, gradient[end : end + fan_out])
        first = end + fan_out
        inputs = units[unit : unit + n * fan_out].reshape(n, fan_out)
        unit += n * fan_out


@compiled(fastmath=REORDERED)
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


@compiled
def _count(sizes):
    """Weights of the network, in front of what else the likelihood has."""
    n = 0
    for layer in range(sizes.shape[0] - 1):
        n += (sizes[layer] + 1) * sizes[layer + 1]
    return n


@compiled
def _count_units(sizes):
    n = 0
    for layer in range(1, sizes.shape[0]):
        n += sizes[layer]
    return n


# Sums and products of whole arrays take seconds to compile, loops do not.


@compiled
def _sum(values):
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k]
    return total


@compiled
def _digamma(x):
    """Of x > 0, to 1e-9: recurrence and asymptotic series."""
    value = 0.0
    while x < 6.0:
        value -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    return value + math.log(x) - 0.5 / x - series


@compiled
def _degrees(df, extra, k):
    """Degrees of freedom of the outcome ``k``, of as many as the last entries of ``extra``."""
    return df if df > 0.0 else 2.0 + DF_UNIT * math.exp(extra[k])


@compiled(fastmath=REORDERED)
def _compare_scaled(result, Y, row_weights, rows, df, extra, evenness, delta, losses, slope):
    """As `_compare`, of a location-scale likelihood; ``slope`` is the gradient by ``extra``.

    Of uneven noise derivatives are multiplied by its variance to the power of ``evenness``, over
    the mean of that: at 1 every row has the same say about the location.
    """
    one = result.dtype.type(1.0)
    half = result.dtype.type(0.5)
    n, n_outputs = result.shape
    k_all = Y.shape[1]
    uneven = n_outputs > k_all
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
                share = math.exp(power * log_scale) * inverse_share
                delta[i, k] *= share
                delta[i, k_all + k] = share * rise
            spread += rise
            total += weight
        losses[0] += total * constant
        if not uneven:
            slope[k] += half * spread
        if df == 0.0:
            by_df = total * (_digamma(0.5 * (nu + 1.0)) - _digamma(0.5 * nu) - 1.0 / nu)
            slope[first + k] -= 0.5 * (nu - 2.0) * (by_df - logs + tail / nu)


@compiled(fastmath=REORDERED)
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


@compiled(fastmath=REORDERED)
def add_gradient(
    weights, X, Y, row_weights, rows, sizes, activation, likelihood, df, evenness, precision,
    losses, gradient, x, units, deltas, product,
):  # fmt: skip
    n_weights = _count(sizes)
    extra = weights[n_weights:]
    weights = weights[:n_weights]
    n_outputs = sizes[sizes.shape[0] - 1]
    n_units = _count_units(sizes)
    for start in range(0, rows.shape[0], x.shape[0]):
        block = rows[start : start + x.shape[0]]
        n = block.shape[0]
        for i in range(n):
            row = block[i]
            for j in range(X.shape[1]):
                x[i, j] = X[row, j]
        result = forward(weights, x[:n], sizes, activation, units)
        delta = deltas[n * (n_units - n_outputs) : n * n_units].reshape(n, n_outputs)
        if df is None:  # a type of its own, for which the other branch is not compiled
            _compare(result, Y, row_weights, block, likelihood, precision, delta, losses)
        else:
            slope = gradient[n_weights:]
            _compare_scaled(
                result, Y, row_weights, block, df, extra, evenness, delta, losses, slope
            )
        propagate(weights, n, sizes, activation, units, deltas)
        accumulate(x[:n], sizes, units, deltas, gradient, product)


@compiled
def scratch(n_rows, sizes, like):
    """Rows of a block, units, their derivatives, and the product of two layers."""
    n = min(n_rows, BLOCK)
    n_units = _count_units(sizes)
    largest = 0
    for layer in range(sizes.shape[0] - 1):
        largest = max(largest, sizes[layer] * sizes[layer + 1])
    x = np.empty((n, sizes[0]), like.dtype)
    units = np.empty(n * n_units, like.dtype)
    return x, units, np.empty_like(units), np.empty(largest, like.dtype)


@compiled
def _shuffle(order, count, rng):
    """Put ``count`` entries first, drawn without replacement."""
    n = order.shape[0]
    for i in range(count):
        # Ten times as fast as rng.integers, and unbiased to 2**-53 n.
        j = i + int(rng.random() * (n - i))
        order[i], order[j] = order[j], order[i]


@compiled(fastmath=REORDERED)
def _adam(weights, first, second, gradient, rate, correction):
    keep_first = weights.dtype.type(0.9)
    keep_second = weights.dtype.type(0.999)
    one = weights.dtype.type(1.0)
    zero = weights.dtype.type(0.0)
    small = weights.dtype.type(1e-8)
    # The prior takes the weights of dead units to where processors are tens of times as slow.
    tiny = weights.dtype.type(1e-30)
    for p in range(weights.shape[0]):
        slope = gradient[p]
        mean = keep_first * first[p] + (one - keep_first) * slope
        mean = zero if abs(mean) < tiny else mean
        square = keep_second * second[p] + (one - keep_second) * slope * slope
        weight = weights[p] - rate * mean / (math.sqrt(square * correction) + small)
        first[p] = mean
        second[p] = square
        weights[p] = zero if abs(weight) < tiny else weight


@compiled
def train(
    weights, first, second, noise, done, X, Y, row_weights, order, batch_size, n_epochs, sizes,
    activation, likelihood, df, learning_rate, n_steps, precision, noise_shape, noise_scale, rng,
):  # fmt: skip
    dtype = weights.dtype.type
    n = order.shape[0]
    total = 0.0
    for i in order:
        total += row_weights[i]
    gradient = np.empty_like(weights)
    losses = np.empty(noise.shape[0])
    inverse = np.empty_like(noise)
    x, units, deltas, product = scratch(batch_size, sizes, weights)
    met = np.empty(n_epochs)
    for epoch in range(n_epochs):
        if batch_size < n:
            _shuffle(order, n, rng)
        losses[:] = 0
        # Where rows that are not fitted yet may be called noisy, they are never fitted.
        evenness = max(0.0, 1.0 - 2.0 * done[0] / n_steps)
        mean_noise = _sum(noise) / noise.shape[0]
        for k in range(noise.shape[0]):
            inverse[k] = mean_noise / noise[k]
        shrinkage = dtype(mean_noise / total)
        for start in range(0, n, batch_size):
            rows = order[start : start + batch_size]
            gradient[:] = 0
            add_gradient(
                weights, X, Y, row_weights, rows, sizes, activation, likelihood, df, evenness,
                inverse, losses, gradient, x, units, deltas, product,
            )  # fmt: skip
            scale = dtype(n / (total * rows.shape[0]))
            for p in range(weights.shape[0]):
                gradient[p] = scale * gradient[p] + shrinkage * precision[p] * weights[p]
            step = done[0] + 1
            done[0] = step
            rate = 0.5 * learning_rate * (1.0 + math.cos(math.pi * min(1.0, step / n_steps)))
            rate /= 1.0 - 0.9**step
            correction = 1.0 / (1.0 - 0.999**step)
            _adam(weights, first, second, gradient, dtype(rate), dtype(correction))
        met[epoch] = _sum(losses) / total
        if likelihood == 0:
            for k in range(noise.shape[0]):
                noise[k] = (0.5 * losses[k] + noise_scale) / (0.5 * total + noise_shape)
    return met


@compiled(fastmath=REORDERED)
def _kick(weights, velocity, scale, gradient, precision, normal, step, keep, factor, spread, most):
    for p in range(weights.shape[0]):
        force = factor * gradient[p] + precision[p] * weights[p]
        v = keep * velocity[p] - step * scale[p] * force + spread * normal[p]
        v = most if v > most else v
        v = -most if v < -most else v
        velocity[p] = v
        weights[p] += step * scale[p] * v


@compiled
def hamiltonian_steps(
    weights, velocity, scale, X, Y, row_weights, order, batch_size, n_steps, sizes, activation,
    likelihood, df, step_size, precision, noise, rng,
):  # fmt: skip
    dtype = weights.dtype.type
    n = order.shape[0]
    ratio = n / batch_size
    gradient = np.empty_like(weights)
    normal = np.empty_like(weights)
    losses = np.empty(noise.shape[0])
    inverse = np.empty_like(noise)
    for k in range(noise.shape[0]):
        inverse[k] = 1 / noise[k]
    x, units, deltas, product = scratch(batch_size, sizes, weights)
    rows = order[:batch_size]
    for _ in range(n_steps):
        if batch_size < n:
            _shuffle(order, batch_size, rng)
        gradient[:] = 0
        losses[:] = 0
        add_gradient(
            weights, X, Y, row_weights, rows, sizes, activation, likelihood, df, 0.0, inverse,
            losses, gradient, x, units, deltas, product,
        )  # fmt: skip
        # What the minibatch brings of noise is taken off that of the dynamics.
        share = 1.0
        if likelihood == 0:
            for k in range(noise.shape[0]):
                losses[k] *= inverse[k] / (batch_size * noise.shape[0])
            share = min(1.0, _sum(losses))
        variance = 1.0 - math.exp(-2.0 * step_size) - step_size**2 * (ratio - 1.0) * share
        spread = math.sqrt(max(0.0, variance))
        for p in range(weights.shape[0]):
            normal[p] = rng.standard_normal()
        _kick(
            weights, velocity, scale, gradient, precision, normal, dtype(step_size),
            dtype(math.exp(-step_size)), dtype(ratio), dtype(spread), dtype(_LARGEST_VELOCITY),
        )  # fmt: skip
