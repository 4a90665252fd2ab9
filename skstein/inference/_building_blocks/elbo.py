r"""An approximate evidence lower bound of particles of a mean field.

The bound is :math:`E_q[\log p] + \sum_b H(q_b)`. The expectation is a mean over particles; the
entropy of a factor in closed form is exact, that of any other is taken to be a normal's with the
particles' covariance. A normal has the largest entropy for its covariance, so that for other
factors the result is somewhat too large, and may exceed the log evidence.

PMFVB, equation 22, has :math:`\log M` for the entropy of M particles instead, which says how many
there are and not where they are.
"""

import math

import numpy as np

from ...targets.mean_field_factors import ConjugateFactor
from ...thinning.moments import StreamMoments

_UP_TO = 1000  # coordinates of a factor; beyond, its covariance costs more than it tells


def approximate_elbo(states, factors):
    """The approximate bound, in nats; NaN where it is not available.

    Parameters
    ----------
    states : list of LangevinState
        Of the same particles, in order of time.
    factors : sequence of ndarray of int or ConjugateFactor

    Returns
    -------
    float
        NaN without log densities, or where a factor has not twice as many particles as coordinates.
    """
    if states[0].log_density is None:
        return math.nan
    value = float(np.mean([state.log_density.mean() for state in states]))
    for factor in factors:
        if isinstance(factor, ConjugateFactor):
            value += factor.optimum(np.concatenate([state.theta for state in states])).entropy()
        elif len(factor) > _UP_TO:
            return math.nan
        else:
            value += _normal_entropy(np.stack([state.chains[0][:, factor] for state in states]))
    return value


def _normal_entropy(theta):
    """Entropy of a normal with the covariance of ``theta`` (times, m, d).

    An estimated covariance has too small a determinant, by a share that falls as 1 / m. Two halves
    of the particles show how much, and it is taken off (the jackknife of Quenouille).
    """
    _, m, d = theta.shape
    half = m // 2
    if len(theta) * half <= d:
        return math.nan
    first, second, whole = (StreamMoments(d, full=True) for _ in range(3))
    for part, values in ((first, theta[:, :half]), (second, theta[:, half:])):
        part.add(values.reshape(-1, d))
        whole.merge(part)
    covariances = np.stack([part.scatter / (part.count - 1) for part in (whole, first, second)])
    log_dets = np.linalg.slogdet(covariances)[1]
    return float(0.5 * d * (1.0 + math.log(2.0 * math.pi)) + log_dets @ [1.0, -0.25, -0.25])
