"""Hamiltonian Monte Carlo: long moves along trajectories that keep the energy nearly constant.

In white coordinates a trajectory of about a quarter period (1.5) carries a chain to a nearly
independent point. The warm-up learns a Gaussian; its own trajectories are circles and are followed
without error, and only what the score is beyond that Gaussian's comes as kicks between two turns
(Shahbaba, Lan, Johnson & Neal 2014). So the steps are as long as the density is close to normal:
one or two make a trajectory where leapfrog steps, which are taken as long as no Gaussian is known,
have to be three. All chains of a batch take the same number of them, so that every gradient is one
batched call. After Neal (2011), "MCMC using Hamiltonian dynamics", with the step size of Hoffman &
Gelman (2014).
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from .._input.validation import Interval
from .base import Metropolis


@dataclass(eq=False, repr=False)
class HMC(Metropolis):
    """Hamiltonian Monte Carlo over a batch of chains.

    Parameters
    ----------
    trajectory : float, default=1.5
        Length of a trajectory, in white units; jittered by 20 % either way.
    acceptance : float, default=0.85
        Acceptance probability that the step size is adapted to.
    max_leapfrogs : int, default=64
        Most steps, each of one gradient, of one trajectory.
    step_size : float, default=0.5
        First guess of the longest step; kept where there is no warm-up. Steps are no longer than a
        trajectory.
    thinning : int, default=1
        One state in this many is kept as a draw.
    adapt_metric : bool, default=True
        Learn the Gaussian, and with it the linear coordinates to move in, from the warm-up.

    References
    ----------
    Neal (2011), "MCMC using Hamiltonian dynamics" (arXiv:1206.1901), section 5.3.

    Shahbaba, Lan, Johnson & Neal (2014), "Split Hamiltonian Monte Carlo" (arXiv:1106.5941).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import LogDensity
    >>> from skstein.samplers import HMC
    >>> target = LogDensity(lambda t: -0.5 * (t**2).sum(1), score=lambda t: -t, dim=3)
    >>> sampler, rng = HMC(), np.random.default_rng(0)
    >>> chains = sampler.warm_up(target, 100, rng.normal(size=(4, 3)), rng)
    >>> chains, draws, scores, acceptance = sampler.draw(target, 250, chains)
    >>> draws.shape, bool(abs(draws.std() - 1) < 0.1)
    ((4, 250, 3), True)
    """

    _parameter_constraints = {
        **Metropolis._parameter_constraints,
        "trajectory": [Interval(Real, 0, None, closed="neither")],
        "max_leapfrogs": [Interval(Integral, 1, None, closed="left")],
    }

    trajectory: float = 1.5
    acceptance: float = 0.85
    max_leapfrogs: int = 64

    def _propose(self, target, chains):
        length = self.trajectory * chains.rng.uniform(0.8, 1.2)
        # Longer ones are this one, and would not become shorter when they are told to.
        chains.step_size = min(chains.step_size, 1.2 * self.trajectory)
        n_steps = min(math.ceil(length / chains.step_size), self.max_leapfrogs)
        step = min(length / n_steps, chains.step_size)
        return trajectories(target, chains, step, n_steps, chains.metric.center)


def trajectories(target, chains, step, n_steps, center=None):
    """Trajectories of ``n_steps`` with a fresh momentum, as a proposal.

    In the coordinates of the metric they turn about ``center`` between two kicks, as those of a
    standard normal do, or run straight on where there is none. Both are linear in where a chain is,
    in its momentum and in the force on it, the rows of ``state``.
    """
    metric, normal, shape = chains.metric, center is not None, chains.theta.shape
    about = [[math.cos(step), math.sin(step)], [-math.sin(step), math.cos(step)]]
    turn = np.array(about if normal else [[1.0, step], [0.0, 1.0]])
    half, whole = ([[1.0, 0.0, 0.0], [normal * kick, 1.0, kick]] for kick in (0.5 * step, step))
    origin = center if normal else chains.theta
    state = np.zeros((3, *shape))
    place, momentum, force = state
    if normal:
        place[:] = metric.inverse(chains.theta - center)
    momentum[:] = chains.rng.standard_normal(shape)
    log_ratio = 0.5 * np.vecdot(momentum, momentum)
    score, rows = chains.score, state.reshape(3, -1)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(n_steps):
            force[:] = metric.pull(score)
            rows[:2] = turn @ (whole if i else half) @ rows
            theta = origin + metric.forward(place)
            if i < n_steps - 1:
                score = target.score(theta)
        log_density, score = target.log_density_and_score(theta)
        force[:] = metric.pull(score)
        momentum = np.dot(half[1], rows).reshape(shape)
        log_ratio -= 0.5 * np.vecdot(momentum, momentum)
        log_ratio += log_density - chains.log_density
    return theta, log_density, score, log_ratio
