"""Stein drift of a few points against many, for the kernel RBF + linear.

The Frank-Wolfe and sweep steps of FWSS move one particle against about a hundred frozen ones,
thousands of times: there NumPy spends its time on calls, not on arithmetic. Large batches belong to
BLAS (`skstein.kernels`).
"""

import math

import numpy as np

from ._compile import compiled, frozen


def rbf_linear_drift(x, points, scores, weights, h2, factor, outside=None):
    """Sum over l of ``w_l [k(y_l, x) s_l + grad_{y_l} k(y_l, x)]``.

    The kernel is ``k(y, x) = exp(-|x - y|^2 / (2 h2)) + factor (1 + x.y)``.

    Parameters
    ----------
    x : array of shape (n, d)
    points, scores : arrays of shape (m, d)
    weights : array of shape (m,)
    h2, factor : float
        Squared bandwidth and weight of the linear part; ``factor=0`` leaves the RBF alone.
    outside : tuple, default=None
        Of two arrays of shape (n, m), what further coordinates add to ``|x - y|^2`` and ``x.y``.

    Returns
    -------
    drift : array of shape (n, d)

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._jit.stein import rbf_linear_drift
    >>> rbf_linear_drift(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2)), np.ones(1), 2.0, 1.0)
    array([[2., 2.]])
    """
    return drift_of(points, scores, weights, h2, factor)(x, outside)


def drift_of(points, scores, weights, h2, factor):
    """`rbf_linear_drift` as a function of x and ``outside``, for many calls."""
    points, scores, weights = map(frozen, (points, scores, weights))
    h2, factor, nothing = float(h2), float(factor), frozen(np.zeros((1, len(points))))

    def drift(x, outside=None):
        x, squares, products = frozen(x), nothing, nothing
        if outside is not None:
            squares, products = map(frozen, outside[:2])
        elif len(x) > 1:
            squares = products = frozen(np.zeros((len(x), len(points))))
        out = np.zeros(x.shape)
        _rbf_linear_drift(x, points, scores, weights, h2, factor, squares, products, out)
        return out

    return drift


@compiled
def _rbf_linear_drift(x, points, scores, weights, h2, factor, squares, products, drift):
    n, d = x.shape
    for i in range(n):
        pull = 0.0
        for j in range(points.shape[0]):
            square = squares[i, j]
            product = products[i, j]
            for k in range(d):
                difference = x[i, k] - points[j, k]
                square += difference * difference
                product += x[i, k] * points[j, k]
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
