r"""Microcanonical dynamics: velocities of constant length, steered by the gradient.

Hamiltonian Monte Carlo draws a momentum whose length varies, and a trajectory speeds up wherever
the density rises. Microcanonical dynamics keep the speed, and the direction u alone turns towards
the score s, in d coordinates,

.. math::
   \dot x = u, \qquad \dot u = (I - u u') s / (d - 1), \qquad |u| = 1,

so that steep places do not throw a chain out, and steps may be long. A kick of length h turns u by
the exact solution for a constant score, with :math:`e = s / |s|` and
:math:`\delta = h |s| / (d - 1)`,

.. math::
   u \leftarrow \frac{u + e\, (\sinh \delta + (e'u) (\cosh \delta - 1))}
   {\cosh \delta + e'u \sinh \delta}, \qquad
   \Delta K = (d - 1) \log(\cosh \delta + e'u \sinh \delta),

and a trajectory is accepted by the energy error, the sum of :math:`\Delta K` less the gain in log
density. Without that step, as in the papers before (Robnik et al. 2023), draws are those of a
density nearby. After Robnik, Cohn-Gordon & Seljak (2025); what differs: the step size and the
linear coordinates are those that `HMC` adapts, directions are drawn again for each trajectory
alone, and in a single coordinate, where a direction is a sign that nothing can turn, trajectories
are those of `HMC`.
"""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from .._input.validation import Interval
from .base import Metropolis
from .hmc import HMC


@dataclass(eq=False, repr=False)
class MAMS(Metropolis):
    """Metropolis-adjusted microcanonical sampling over a batch of chains.

    Parameters
    ----------
    trajectory : float, default=1.5
        Length of a trajectory over the root of the number of coordinates, in white units; jittered
        by 20 % either way.
    acceptance : float, default=0.9
        Acceptance probability that the step size is adapted to.
    max_steps : int, default=64
        Most steps of one trajectory.
    step_size : float, default=0.5
        First guess of a step over the root of the number of coordinates; kept where there is no
        warm-up.
    thinning : int, default=1
        One state in this many is kept as a draw.
    adapt_metric : bool, default=True
        Learn the linear coordinates to move in from the warm-up.

    References
    ----------
    Robnik, Cohn-Gordon & Seljak (2025), "Metropolis adjusted microcanonical Hamiltonian Monte
    Carlo" (arXiv:2503.01707).

    Robnik, De Luca, Silverstein & Seljak (2023), "Microcanonical Hamiltonian Monte Carlo"
    (arXiv:2212.08549).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import LogDensity
    >>> from skstein.samplers import MAMS
    >>> target = LogDensity(lambda t: -0.5 * (t**2).sum(1), score=lambda t: -t, dim=3)
    >>> sampler, rng = MAMS(), np.random.default_rng(0)
    >>> chains = sampler.warm_up(target, 100, rng.normal(size=(4, 3)), rng)
    >>> chains, draws, scores, acceptance = sampler.draw(target, 250, chains)
    >>> draws.shape, bool(abs(draws.std() - 1) < 0.1)
    ((4, 250, 3), True)
    """

    _parameter_constraints = {
        **Metropolis._parameter_constraints,
        "trajectory": [Interval(Real, 0, None, closed="neither")],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
    }

    trajectory: float = 1.5
    acceptance: float = 0.9
    max_steps: int = 64

    def _propose(self, target, chains):
        m, dim = chains.theta.shape
        if dim == 1:
            hmc = HMC(trajectory=self.trajectory, max_leapfrogs=self.max_steps)
            return hmc._propose(target, chains)
        length = self.trajectory * chains.rng.uniform(0.8, 1.2)
        n_steps = min(max(1, round(length / chains.step_size)), self.max_steps)
        step, metric = chains.step_size * np.sqrt(dim), chains.metric
        direction = _normalized(chains.rng.standard_normal((m, dim)))
        theta, log_ratio = chains.theta, np.zeros(m)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            score = metric.pull(chains.score)
            for k in range(n_steps):
                direction, kinetic = turned(direction, score, 0.5 * step)
                log_ratio -= kinetic
                theta = theta + step * metric.forward(direction)
                if k < n_steps - 1:
                    score = metric.pull(target.score(theta))
                else:
                    log_density, last = target.log_density_and_score(theta)
                    score = metric.pull(last)
                direction, kinetic = turned(direction, score, 0.5 * step)
                log_ratio -= kinetic
            log_ratio += log_density - chains.log_density
        return theta, log_density, last, log_ratio


def turned(direction, score, step):
    """Directions (m, dim) after a kick by constant scores, and the gain of energy (m,)."""
    dim = direction.shape[1]
    size = np.sqrt(np.einsum("ij,ij->i", score, score))
    towards = score / np.maximum(size, np.finfo(float).tiny)[:, None]
    delta = step * size / (dim - 1)
    cosine = np.einsum("ij,ij->i", towards, direction)
    decay = np.exp(-delta)  # hyperbolic functions of a long kick would overflow
    along = (1.0 - decay) * (1.0 + decay + cosine * (1.0 - decay))
    kinetic = delta - np.log(2.0) + np.log1p(cosine + (1.0 - cosine) * decay**2)
    direction = along[:, None] * towards + 2.0 * decay[:, None] * direction
    return _normalized(direction), (dim - 1) * kinetic


def _normalized(vectors):
    return vectors / np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
