"""Stein drift of a few points against many, for the kernel RBF + linear.

The Frank-Wolfe and sweep steps of FWSS move one particle against about a hundred frozen ones,
thousands of times: there NumPy spends its time on calls, not on arithmetic. Large batches belong to
BLAS (`skstein.kernels`).
"""

import math

import numpy as np

from ._compile import REORDERED, compiled, frozen


def rbf_linear_drift(points, scores, weights, h2, factor, outside=None):
    """As a function of x: sum over l of ``w_l [k(y_l, x) s_l + grad_{y_l} k(y_l, x)]``.

    The kernel is ``k(y, x) = exp(-|x - y|^2 / (2 h2)) + factor (1 + x.y)``.

    Parameters
    ----------
    points, scores : arrays of shape (m, d)
    weights : array of shape (m,)
    h2, factor : float
        Squared bandwidth and weight of the linear part; ``factor=0`` leaves the RBF alone.
    outside : tuple, default=None
        Of two arrays of shape (n, m), what further coordinates add to ``|x - y|^2`` and ``x.y``.

    Returns
    -------
    drift : callable
        From ``x`` to the drift there, both of shape (n, d).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit.stein import rbf_linear_drift
    >>> drift = rbf_linear_drift(np.zeros((1, 2)), np.ones((1, 2)), np.ones(1), 2.0, 1.0)
    >>> drift(np.zeros((1, 2)))
    array([[2., 2.]])
    """
    squares, products = 2 * [np.zeros((1, len(points)))] if outside is None else outside[:2]
    scores, weights = np.broadcast_to(scores, points.shape), np.broadcast_to(weights, len(points))
    arrays = tuple(map(frozen, (points, scores, weights, squares, products)))
    h2, factor = float(h2), float(factor)

    def drift(x):
        x = frozen(x)
        out = np.zeros(x.shape)
        _rbf_linear_drift(x, *arrays, h2, factor, out)
        return out

    return drift


@compiled(fastmath=REORDERED)
def _square_and_product(x, y):
    """``|x - y|^2`` and ``x.y``."""
    square = product = 0.0
    for k in range(x.size):
        difference = x[k] - y[k]
        square += difference * difference
        product += x[k] * y[k]
    return square, product


# Not reordered: a loop that stores comes in two versions, taken by where arrays lie.
@compiled
def _rbf_linear_drift(x, points, scores, weights, squares, products, h2, factor, drift):
    n, d = x.shape
    for i in range(n):
        pull, row = 0.0, min(i, len(squares) - 1)  # one row stands for all
        for j in range(points.shape[0]):
            square, product = _square_and_product(x[i], points[j])
            square += squares[row, j]
            product += products[row, j]
            radial = weights[j] * math.exp(-0.5 * square / h2)
            along_score = radial + weights[j] * factor * (1.0 + product)
            # grad_y of the RBF is (x - y) k / h2; its x part and the linear part's factor x
            # share one pass.
            away = radial / h2
            pull += away + weights[j] * factor
            for k in range(d):
                drift[i, k] += along_score * scores[j, k] - away * points[j, k]
        for k in range(d):
            drift[i, k] += pull * x[i, k]
