"""The Metropolis-adjusted Langevin algorithm, one gradient a move.

A Langevin step of size h, accepted or rejected, is Hamiltonian Monte Carlo with a single leapfrog
step of size sqrt(h) (Neal 2011, section 5.2), and that is how it is written: the kinetic energies
at both ends are the two proposal densities of the acceptance ratio.
"""

from dataclasses import KW_ONLY, dataclass

from .base import Metropolis
from .hmc import trajectories


@dataclass(eq=False, repr=False)
class MALA(Metropolis):
    """Metropolis-adjusted Langevin chains.

    Parameters
    ----------
    acceptance : float, default=0.57
        Acceptance probability that the step size is adapted to; optimal in many dimensions.
    step_size : float, default=0.8
        First guess of the standard deviation of a proposal, the root of the usual h; kept where
        there is no warm-up.
    thinning : int, default=4
        One state in this many is kept as a draw, which then costs about as much as one of `HMC`.
    adapt_metric : bool, default=True
        Learn the linear coordinates to move in from the warm-up.

    References
    ----------
    Roberts & Tweedie (1996), "Exponential convergence of Langevin distributions and their discrete
    approximations" (doi:10.2307/3318418).

    Roberts & Rosenthal (1998), "Optimal scaling of discrete approximations to Langevin diffusions"
    (doi:10.1111/1467-9868.00123).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import LogDensity
    >>> from skstein.samplers import MALA
    >>> target = LogDensity(lambda t: -0.5 * (t**2).sum(1), score=lambda t: -t, dim=3)
    >>> sampler, rng = MALA(), np.random.default_rng(0)
    >>> chains = sampler.warm_up(target, 100, rng.normal(size=(4, 3)), rng)
    >>> chains, draws, scores, acceptance = sampler.draw(target, 250, chains)
    >>> bool(abs(acceptance - 0.57) < 0.1), bool(abs(draws.std() - 1) < 0.1)
    (True, True)
    """

    acceptance: float = 0.57
    _: KW_ONLY
    step_size: float = 0.8
    thinning: int = 4

    def _propose(self, target, chains):
        return trajectories(target, chains, chains.step_size, 1)
