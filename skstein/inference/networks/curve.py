r"""A curve of good networks between two trained ones, and with it a plane worth sampling in.

Between two modes a straight line passes through bad networks; a bent one need not. The middle
:math:`w_{1/2}` of the bent line

.. math::
   w_t = w_0 + 2t\,(w_{1/2} - w_0) \quad (t \le \tfrac12), \qquad
   w_t = w_{1/2} + (2t - 1)(w_1 - w_{1/2}) \quad (t > \tfrac12)

is trained so that networks all along it are good: every step draws t and a minibatch. The plane
through the three networks has two coordinates, in which any engine is at home. After Izmailov,
Maddox, Kirichenko, Garipov, Vetrov & Wilson (2020) and section 7.3 of Hawkins, Koppel & Zhang,
whose middle starts at :math:`w_0 + w_1`; here it starts at half of that. The ends are trained to
modes, without averaging of their weights.
"""

import numpy as np

from .._building_blocks.adam import Adam

_LEARNING_RATE, _N_STEPS, _BATCH = 0.01, 2000, 100


def curve_middle(target, first, second, rng):
    """Weights of the middle of the curve between two networks.

    Parameters
    ----------
    target : Target
        A neural network.
    first, second : ndarray of shape (dim,)
        Trained networks.
    rng : numpy.random.Generator

    Returns
    -------
    middle : ndarray of shape (n_weights,)

    Raises
    ------
    FloatingPointError
        If training diverges.
    """
    p, n = target.n_weights, target.n_rows
    ends = np.stack([first[:p], second[:p]])
    middle = ends.mean(axis=0)
    precision = target.initial_precision
    log_noise = 0.5 * (first[p:] + second[p:])
    noise_precision = np.exp(-log_noise) if target.n_noise else np.ones(target.n_outputs)
    adam = Adam(_LEARNING_RATE, _N_STEPS)
    for _ in range(_N_STEPS):
        rows = rng.choice(n, min(_BATCH, n), replace=False)
        t = rng.random()
        share = 2.0 * min(t, 1.0 - t)
        point = share * middle + (1.0 - share) * ends[int(t > 0.5)]
        score = target.weight_score(point[None], rows, precision, noise_precision)[0]
        middle = middle + adam.step(share * score)
    if not np.isfinite(middle).all():
        raise FloatingPointError(
            "the curve between two networks diverged: scale the features, or use other networks."
        )
    return middle


def curve_plane(first, middle, second, n_weights):
    """Origin, basis and a start of the plane through two networks and the middle of a curve.

    Coordinates behind the weights, the logarithms of noise variances, stay the mean of the two
    ends: networks of the plane have all learnt the rows by heart, and would say far too little.

    Parameters
    ----------
    first, second : ndarray of shape (dim,)
    middle : ndarray of shape (n_weights,)
    n_weights : int

    Returns
    -------
    origin : ndarray of shape (dim,)
    basis : ndarray of shape (2, dim)
    initial : ndarray of shape (2,)
        The middle: the origin, between the ends, is a bad network.
    """
    origin = 0.5 * (first + second)
    basis = np.zeros((2, len(origin)))
    basis[0, :n_weights] = (first - origin)[:n_weights]
    basis[1, :n_weights] = middle - origin[:n_weights]
    return origin, basis, np.array([0.0, 1.0])
