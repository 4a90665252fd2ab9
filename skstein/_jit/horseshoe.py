"""Coefficients under a horseshoe prior by what is normal of them: a bicubic table, in one pass."""

import math

import numpy as np

from ._compile import compiled, frozen


def horseshoe_coefficients(table, w, log_tau, log_c):
    r"""Coefficients, :math:`\beta = w \tau \exp G(y, \rho)`, and their derivatives.

    With :math:`y = \log(w^2 + r^2) / 2` and :math:`\rho = \log c / \tau`. Beyond the table G is
    constant, but for small :math:`\rho`, where :math:`\beta` goes with c.

    Parameters
    ----------
    table : tuple
        Coefficients of the powers of y and :math:`\rho` in each cell of an even grid, an array of
        shape (n_y, n_rho, 4, 4), the first corner and the size of a cell, arrays of shape (2,), and
        r.
    w : array of shape (m, p)
    log_tau, log_c : array of shape (m, 1)

    Returns
    -------
    array of shape (7, m, p)
        :math:`\beta`; its derivatives by w, :math:`\log \tau` and :math:`\log c`; the logarithm of
        the first of these, and its derivatives by w and :math:`\log c`.
    """
    *grid, width = table
    result = np.empty((7, *w.shape))
    _horseshoe_coefficients(
        *map(frozen, grid), float(width), *map(frozen, (w, log_tau, log_c)), result
    )
    return result


@compiled
def _horseshoe_coefficients(coefficients, start, step, width, w, log_tau, log_c, result):
    n_y, n_rho = coefficients.shape[:2]
    m, p = w.shape
    y_reach, rho_reach = n_y * step[0], n_rho * step[1]
    for i in range(m):
        rho = log_c[i, 0] - log_tau[i, 0] - start[1]
        t = min(max(rho, 0.0), rho_reach)
        column = min(int(t / step[1]), n_rho - 1)
        t -= column * step[1]
        for j in range(p):
            square = w[i, j] ** 2 + width**2
            s = 0.5 * math.log(square) - start[0]
            inside = s < y_reach
            s = min(max(s, 0.0), y_reach)
            row = min(int(s / step[0]), n_y - 1)
            s -= row * step[0]
            a = coefficients[row, column]
            value = by_y = by_yy = by_rho = by_y_rho = 0.0
            for k in range(3, -1, -1):
                term = a[k, 0] + t * (a[k, 1] + t * (a[k, 2] + t * a[k, 3]))
                slope = a[k, 1] + t * (2.0 * a[k, 2] + 3.0 * t * a[k, 3])
                by_yy = by_yy * s + 2.0 * by_y
                by_y = by_y * s + value
                value = value * s + term
                by_y_rho = by_y_rho * s + by_rho
                by_rho = by_rho * s + slope
            if not inside:
                by_y = by_yy = by_y_rho = 0.0
            if rho <= 0.0:
                value, by_rho, by_y_rho = value + rho, 1.0, 0.0
            elif rho >= rho_reach:
                by_rho = by_y_rho = 0.0
            y_by_w = w[i, j] / square
            share = w[i, j] * y_by_w
            stretch = 1.0 + share * by_y
            log_factor = log_tau[i, 0] + value
            beta = w[i, j] * math.exp(log_factor)
            bend = 2.0 * y_by_w * (1.0 - share) * by_y + share * by_yy * y_by_w
            result[0, i, j] = beta
            result[1, i, j] = math.exp(log_factor) * stretch
            result[2, i, j] = beta * (1.0 - by_rho)
            result[3, i, j] = beta * by_rho
            result[4, i, j] = log_factor + math.log(stretch)
            result[5, i, j] = by_y * y_by_w + bend / stretch
            result[6, i, j] = by_rho + share * by_y_rho / stretch
