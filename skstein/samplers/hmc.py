"""Hamiltonian Monte Carlo: long moves along trajectories that keep the energy nearly constant.

In white coordinates a trajectory of about a quarter period (1.5) carries a chain to a nearly
independent point. All chains of a batch take the same number of leapfrog steps, so that every
gradient is one batched call. After Neal (2011), "MCMC using Hamiltonian dynamics", with the step
size of Hoffman & Gelman (2014).
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real

import numpy as np

from .._validation import Interval
from .base import Metropolis


@dataclass(eq=False, repr=False)
class HMC(Metropolis):
    """Hamiltonian Monte Carlo over a batch of chains.

    Parameters
    ----------
    trajectory : float, default=1.5
        Length of a trajectory, in white units; jittered by 20 % either way.
    acceptance : float, default=0.8
        Acceptance probability that the step size is adapted to.
    max_leapfrogs : int, default=64
        Most leapfrog steps of one trajectory.
    step_size : float, default=0.5
        First guess of the leapfrog step; kept where there is no warm-up.
    thinning : int, default=1
        One state in this many is kept as a draw.
    adapt_metric : bool, default=True
        Learn the linear coordinates to move in from the warm-up.

    References
    ----------
    Neal (2011), "MCMC using Hamiltonian dynamics", section 5.3.

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
        "trajectory": [Interval(Real, 0, None, closed="neither")],
        "acceptance": [Interval(Real, 0, 1, closed="neither")],
        "max_leapfrogs": [Interval(Integral, 1, None, closed="left")],
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "thinning": [Interval(Integral, 1, None, closed="left")],
        "adapt_metric": ["boolean"],
    }

    trajectory: float = 1.5
    acceptance: float = 0.8
    max_leapfrogs: int = 64
    _: KW_ONLY
    step_size: float = 0.5
    thinning: int = 1
    adapt_metric: bool = True

    def _propose(self, target, chains):
        length = self.trajectory * chains.rng.uniform(0.8, 1.2)
        n_steps = min(max(1, round(length / chains.step_size)), self.max_leapfrogs)
        return leapfrog(target, chains, n_steps)


def leapfrog(target, chains, n_steps):
    """Trajectories of ``n_steps`` leapfrog steps with a fresh momentum, as a proposal."""
    step, metric = chains.step_size, chains.metric
    momentum = chains.rng.standard_normal(chains.theta.shape)
    theta, log_ratio = chains.theta, 0.5 * np.einsum("ij,ij->i", momentum, momentum)
    with np.errstate(over="ignore", invalid="ignore"):
        momentum += 0.5 * step * metric.pull(chains.score)
        for _ in range(n_steps - 1):
            theta = theta + step * metric.forward(momentum)
            momentum += step * metric.pull(target.score(theta))
        theta = theta + step * metric.forward(momentum)
        log_density, score = target.log_density_and_score(theta)
        momentum += 0.5 * step * metric.pull(score)
        log_ratio -= 0.5 * np.einsum("ij,ij->i", momentum, momentum)
        log_ratio += log_density - chains.log_density
    return theta, log_density, score, log_ratio
