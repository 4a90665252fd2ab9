"""Random-walk Metropolis: Gaussian steps, accepted by the density alone.

Moves cost a log density each and no gradient. The score, which thinning needs and from which the
warm-up learns the shape of the steps, is evaluated only where a chain has moved to: for about one
proposal in four.
"""

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._input.validation import Interval, StrOptions
from .base import Metropolis


@dataclass(eq=False, repr=False)
class RWM(Metropolis):
    """Random-walk Metropolis chains.

    Parameters
    ----------
    acceptance : float, default=0.234
        Acceptance probability that the step size is adapted to; optimal in many dimensions.
    step_size : float or "auto", default="auto"
        First guess of the standard deviation of a step, kept where there is no warm-up;
        ``2.38 / sqrt(dim)`` for "auto".
    thinning : int, default=10
        One state in this many is kept as a draw.
    adapt_metric : bool, default=True
        Learn the shape of the steps from the warm-up.

    References
    ----------
    Roberts, Gelman & Gilks (1997), "Weak convergence and optimal scaling of random walk Metropolis
    algorithms" (doi:10.1214/aoap/1034625254).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import LogDensity
    >>> from skstein.samplers import RWM
    >>> target = LogDensity(lambda t: -0.5 * (t**2).sum(1), score=lambda t: -t, dim=3)
    >>> sampler, rng = RWM(), np.random.default_rng(0)
    >>> chains = sampler.warm_up(target, 100, rng.normal(size=(4, 3)), rng)
    >>> chains, draws, scores, acceptance = sampler.draw(target, 500, chains)
    >>> bool(abs(acceptance - 0.234) < 0.1), bool(abs(draws.std() - 1) < 0.1)
    (True, True)
    """

    _parameter_constraints = {
        **Metropolis._parameter_constraints,
        "step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    }

    acceptance: float = 0.234
    _: KW_ONLY
    step_size: Any = "auto"
    thinning: int = 10

    def _first_step(self, dim):
        return 2.38 / math.sqrt(dim) if isinstance(self.step_size, str) else self.step_size

    def _propose(self, target, chains):
        noise = chains.rng.standard_normal(chains.theta.shape)
        theta = chains.theta + chains.step_size * chains.metric.forward(noise)
        with np.errstate(over="ignore", invalid="ignore"):
            log_density = target.log_density(theta)
        return theta, log_density, None, log_density - chains.log_density
