r"""Directions of a network's weights that the data leave undetermined.

Chains cannot go far in them: the length of their steps is set by the directions that the data do
determine. To a network with weights w, prior precisions :math:`\Lambda` and the Gauss-Newton matrix
:math:`H = J^T \Sigma^{-1} J` over the training rows, J the derivatives of its outputs and
:math:`\Sigma` their noise variances, belongs the tangent

.. math::
   \delta = \big[(\Lambda + H)^{-1} \Lambda\big]^2 \Lambda^{-1/2} \varepsilon,
   \qquad \varepsilon \sim N(0, I).

:math:`\Lambda^{-1/2} \varepsilon` is a draw of the prior, and :math:`(\Lambda + H)^{-1} \Lambda`
takes off what a regression on the training rows, in the network's linearisation, explains of it
(Matheron's rule without noise; a linear form of the randomised prior functions of Osband, Aslanides
& Cassirer 2018). Where nothing is known the prior is left; in a direction of curvature h it is
multiplied by :math:`\lambda^2 / (\lambda + h)^2`, so that training rows hardly see it. The
regression is done twice, since chains have explored what is half determined.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

_MOST_ROWS = 1000
_MOST_PRODUCTS = 2e10  # of a matrix from its factors
_ROUNDING = 1e-14


def tangents_affordable(target):
    """Whether tangents take about a second at most, each."""
    n = min(target.n_rows, _most_rows(target)) * target.n_targets
    d = target.network.n_weights
    return min(n, d) ** 2 * max(n, d) <= _MOST_PRODUCTS


def null_space_tangent(target, theta, rng):
    """A draw of what the data leave open around a network.

    Parameters
    ----------
    target : MLPTarget
        Of a numeric outcome.
    theta : ndarray of shape (dim,)
    rng : numpy.random.Generator
        Prior precisions are drawn given the weights.

    Returns
    -------
    tangent : ndarray of shape (network.n_weights,)
    """
    d, (X, _, row_weights) = target.network.n_weights, target.data
    rows, most = np.arange(target.n_rows), _most_rows(target)
    if target.n_rows > most:
        rows = rng.choice(target.n_rows, most, replace=False)
    _, precision = target.resample(theta, rng)
    prior_sd = precision[:d] ** -0.5
    share = target.total_weight / row_weights[rows].sum(dtype=float)
    outputs = target.network.outputs(theta[None], X[rows])[0]
    heads = target.network.heads(target.outcome, theta[None], outputs)
    noise = np.broadcast_to(target.outcome.noise(heads), (len(rows), target.n_targets))
    white = np.sqrt(share * row_weights[rows, None] / noise)
    k_all = range(target.n_targets)
    jacobian = np.vstack([target.network.jacobian(theta, X[rows], k) for k in k_all])
    jacobian *= white.T.reshape(-1, 1)
    jacobian *= prior_sd
    tangent = rng.standard_normal(d)
    wide = len(jacobian) < d
    matrix = dsyrk(1.0, jacobian.T, trans=wide)  # its upper triangle
    matrix[np.diag_indices_from(matrix)] += 1.0 + _ROUNDING * np.trace(matrix)
    factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
    for _ in range(2):
        if wide:
            tangent -= jacobian.T @ cho_solve(factor, jacobian @ tangent)
        else:
            tangent = cho_solve(factor, tangent)
    return prior_sd * tangent


def _most_rows(target):
    """With fewer rows than weights, those that are left out would seem undetermined."""
    return max(_MOST_ROWS, target.network.n_weights)
