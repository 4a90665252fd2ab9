"""Paths of an autoregression under a Gaussian posterior, whose precision is tridiagonal.

A path of T values has the prior precision ``tau P(phi)`` of a stationary autoregression around
``mu``, and pseudo-observations of precision ``weight`` and natural mean ``shift``. Its posterior is
``N(Q^-1 h, Q^-1)`` with ``Q = tau P + diag(weight)``, ``h = tau mu P 1 + shift`` and ``Q = L L'``;
 L has two diagonals, so a draw, its inverse and all derivatives cost O(T).
"""

import math

import numpy as np

from ._compile import compiled, frozen


def draw_path(hyper, noise, weight, shift):
    """The path ``L'^-1 (L^-1 h + noise)`` and the log determinant of ``L'^-1``.

    Parameters
    ----------
    hyper : array of shape (m, 3)
        ``mu``, ``1 - phi`` and ``tau``, the precision of the innovations.
    noise, weight, shift : arrays of shape (m, T)

    Returns
    -------
    path : array of shape (m, T)
    log_det : array of shape (m,)
        NaN where the parameters overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit.volatility import draw_path
    >>> ones = np.ones((1, 2))
    >>> path, log_det = draw_path([[0.0, 1.0, 1.0]], ones, 3 * ones, 0 * ones)
    >>> path, bool(np.isclose(log_det[0], -np.log(4)))
    (array([[0.5, 0.5]]), True)
    """
    noise = frozen(noise)
    path, log_det = np.empty(noise.shape), np.empty(len(noise))
    _draw_path(frozen(hyper), noise, frozen(weight), frozen(shift), path, log_det)
    return path, log_det


def undraw_path(hyper, path, weight, shift):
    """The noise with which `draw_path` gives ``path``, shape (m, T)."""
    path = frozen(path)
    noise = np.empty(path.shape)
    _undraw_path(frozen(hyper), path, frozen(weight), frozen(shift), noise)
    return noise


def derivatives(path, hyper, weight, shift, known, *, push):
    """Chain rule through `draw_path`, for a function of the path plus the log determinant.

    Parameters
    ----------
    path : array of shape (m, T)
        A path.
    hyper, weight, shift
        As in `draw_path`.
    known : array of shape (m, T)
        The derivative of the function with respect to the path, or with ``push`` to the noise.
    push : bool
        Whether to go from the noise to the path, which is the inverse.

    Returns
    -------
    by_noise : array of shape (m, T)
        With ``push`` the derivative with respect to the path instead.
    by_hyper : array of shape (m, 3)
        Derivatives with respect to ``mu``, ``phi`` and ``log tau``, at constant noise.
    by_weight, by_shift : array of shape (m, T)
    """
    path, by_hyper = frozen(path), np.empty((len(path), 3))
    score, by_noise = np.array([known, known], dtype=np.float64)
    by_weight, by_shift = np.empty((2, *path.shape))
    given = frozen(hyper), path, frozen(weight), frozen(shift)
    _differentiate(*given, score, by_noise, by_hyper, by_weight, by_shift, push)
    return score if push else by_noise, by_hyper, by_weight, by_shift


@compiled
def _factor(hyper, weight, shift, inverse, below, mean):
    """L, as the inverse of its diagonal and what is below it, and ``mean = L^-1 h``."""
    mu, gap, tau = hyper[0], hyper[1], hyper[2]
    phi = 1.0 - gap
    T = weight.size
    for t in range(T):
        end = t == 0 or t == T - 1
        precision = tau * (1.0 if end else 1.0 + phi * phi) + weight[t]
        pull = tau * mu * (gap if end else gap * gap) + shift[t]
        if t > 0:
            below[t - 1] = -tau * phi * inverse[t - 1]
            precision -= below[t - 1] ** 2
            pull -= below[t - 1] * mean[t - 1]
        # Where the parameters overflow there is no path.
        inverse[t] = 1.0 / math.sqrt(precision) if 0.0 < precision < math.inf else math.nan
        mean[t] = pull * inverse[t]


@compiled
def _draw_path(hyper, noise, weight, shift, path, log_det):
    m, T = noise.shape
    inverse, below, mean = np.empty(T), np.empty(T), np.empty(T)
    for i in range(m):
        _factor(hyper[i], weight[i], shift[i], inverse, below, mean)
        log_det[i] = 0.0
        for t in range(T - 1, -1, -1):
            value = mean[t] + noise[i, t]
            if t < T - 1:
                value -= below[t] * path[i, t + 1]
            path[i, t] = value * inverse[t]
            log_det[i] += math.log(inverse[t])


@compiled
def _undraw_path(hyper, path, weight, shift, noise):
    m, T = path.shape
    inverse, below, mean = np.empty(T), np.empty(T), np.empty(T)
    for i in range(m):
        _factor(hyper[i], weight[i], shift[i], inverse, below, mean)
        for t in range(T):
            noise[i, t] = path[i, t] / inverse[t] - mean[t]
            if t < T - 1:
                noise[i, t] += below[t] * path[i, t + 1]


@compiled
def _differentiate(
    hyper, path, weight, shift, score, by_noise, by_hyper, by_weight, by_shift, push
):
    """Set ``score`` from ``by_noise`` where ``push``, else the other way round; and the rest."""
    m, T = path.shape
    inverse, below, mean = np.empty(T), np.empty(T), np.empty(T)
    for i in range(m):
        _factor(hyper[i], weight[i], shift[i], inverse, below, mean)
        for t in range(T):
            before = below[t - 1] * by_noise[i, t - 1] if t > 0 else 0.0
            if push:
                score[i, t] = by_noise[i, t] / inverse[t] + before
            else:
                by_noise[i, t] = (score[i, t] - before) * inverse[t]
        given = hyper[i], path[i], by_noise[i], inverse, below, mean
        _through_factor(*given, by_hyper[i], by_weight[i], by_shift[i])


@compiled
def _through_factor(hyper, path, by_noise, inverse, below, mean, by_hyper, by_weight, by_shift):
    """What the parameters do to a path of constant noise, by reverse mode.

    Writing g for the derivative with respect to the noise, ``q = L'^-1 g`` is that with respect to
    h, and ``-(path g' + q mean')`` that with respect to L; the log determinant adds minus the
    inverse of its diagonal. From L it goes backwards through the recursion of `_factor` to Q.
    """
    mu, gap, tau = hyper[0], hyper[1], hyper[2]
    phi = 1.0 - gap
    T = path.shape[0]
    by_mu = by_phi = by_log_tau = 0.0
    for t in range(T - 1, -1, -1):
        end = t == 0 or t == T - 1
        last = t == T - 1
        q = by_noise[t]
        if not last:
            q -= below[t] * by_shift[t + 1]
        q *= inverse[t]
        by_diagonal = -path[t] * by_noise[t] - q * mean[t] - inverse[t]
        if not last:
            by_below = -path[t + 1] * by_noise[t] - by_shift[t + 1] * mean[t]
            by_below -= 2.0 * below[t] * by_weight[t + 1]
            by_off = by_below * inverse[t]
            by_diagonal -= by_off * below[t]
            by_phi -= tau * by_off
            by_log_tau -= tau * phi * by_off
        by_precision = 0.5 * by_diagonal * inverse[t]
        row_sum = gap if end else gap * gap
        by_mu += tau * row_sum * q
        by_log_tau += tau * mu * row_sum * q
        by_log_tau += tau * by_precision * (1.0 if end else 1.0 + phi * phi)
        by_phi -= tau * mu * q * (1.0 if end else 2.0 * gap)
        if not end:
            by_phi += 2.0 * tau * phi * by_precision
        by_shift[t] = q
        by_weight[t] = by_precision
    by_hyper[0] = by_mu
    by_hyper[1] = by_phi
    by_hyper[2] = by_log_tau
