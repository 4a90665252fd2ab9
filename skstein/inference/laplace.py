"""Draws of the Laplace approximation.

The Gaussian at the mode, in coordinates where one-sided coefficients have been straightened. Fast,
and the start of the other engines; how far it is from the posterior is measured by importance
weights, and a fit warns when they say that it is far.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import softmax

from .._input.validation import Interval
from ..posterior import ParticlePosterior
from ._building_blocks.particles import antithetic_normals
from ._building_blocks.rounds import Rounds
from ._run.stein_identities import affordable_particles
from .base import N_PARTICLES, ParticleEngine


@dataclass(eq=False, repr=False)
class LaplaceDraws(ParticleEngine):
    """Laplace approximation as particles: antithetic draws of the Gaussian at the mode.

    Draws of an even number of more than twice the coordinates have its mean and covariance exactly.

    How it works, and when not to trust it: :doc:`/methods/coordinates`.

    Parameters
    ----------
    n_particles : int, default=1000
        Number of draws.
    min_relative_ess : float, default=0.985
        Warn when the effective sample size of importance weights towards the posterior, as a
        fraction of the draws, is below this to the power of the number of coordinates, or below a
        half (or this, if it is less).
    max_shift : float, default=0.15
        Warn when importance weights move a mean by more, in posterior standard deviations.
    max_stretch : float, default=0.25
        Warn when importance weights change a standard deviation by a larger factor than one plus
        this, or its inverse.
    whiten, one_sided : bool, default=True
        Accepted for uniformity; ``one_sided=False`` gives the plain Gaussian.

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import LaplaceDraws
    >>> model = BayesianLogisticRegression(inference=LaplaceDraws(n_particles=500))
    """

    needs_gaussian = True
    subsampling = None
    iterative = False
    _parameter_constraints = {
        **ParticleEngine._parameter_constraints,
        "n_particles": N_PARTICLES[1:],
        "max_shift": [Interval(Real, 0, None, closed="left")],
        "max_stretch": [Interval(Real, 0, None, closed="left")],
        "min_relative_ess": [Interval(Real, 0, 1, closed="both")],
    }

    n_particles: int = 1000
    _: KW_ONLY
    min_relative_ess: float = 0.985
    max_shift: float = 0.15
    max_stretch: float = 0.25

    def n_rounds(self, target):
        return 1

    def run(self, target, rng, *, init=None, map=map, callback=None):
        m = self.n_particles
        z = antithetic_normals(rng, m, target.dim)
        theta = z if target.start is None else target.start.forward(z)
        few = affordable_particles(target, m)
        value, scores = target.log_density_and_score(theta[:few])
        known: Any = {"log_densities": value, "scores": scores} if few == m else {}
        weights = softmax(value - target.log_start(theta[:few]))
        fraction = 1.0 / np.sum(weights**2) / few
        # In directions without correlation, and in the coordinates that are reported.
        both = np.hstack([z[:few], (theta[:few] - theta.mean(axis=0)) / theta.std(axis=0)])
        mean = weights @ both
        worst = _largest_certain(np.abs(mean), _error(weights, both - mean))
        square = (both - mean) ** 2
        variance = weights @ square
        error = _error(weights, square - variance) / (2.0 * variance)
        stretch = np.expm1(_largest_certain(np.abs(0.5 * np.log(variance)), error))
        problems = []
        # That of independent coordinates is the product of theirs.
        least = max(min(0.5, self.min_relative_ess), self.min_relative_ess**target.dim)
        if fraction < least:
            problems.append(f"keep an effective sample of less than {least:.0%} of the draws")
        if worst > self.max_shift:
            problems.append(f"move a mean by more than {self.max_shift:g} standard deviations")
        if stretch > self.max_stretch:
            problems.append(
                f"change a standard deviation by more than a factor of {1.0 + self.max_stretch:g}"
            )
        numbers = {"importance_ess": fraction, "shift": worst, "stretch": stretch, "message": ""}
        if problems:
            numbers["message"] = (
                "importance weights from the Gaussian at the mode to the posterior "
                f"{' and '.join(problems)}: it is a poor approximation; use another engine"
            )
        posterior = ParticlePosterior(theta, diagnostics=numbers, converged=not problems, **known)
        Rounds(1, lambda: posterior, callback).end(1, importance_ess=fraction)
        return posterior


def _error(weights, values):
    """Standard errors (dim,) of weighted sums of values (m, dim) of pairs.

    What one draw of a pair does to a mean the other undoes, but for their weights; what it does to
    a variance it does again.
    """
    pairs = np.add.reduceat(weights[:, None] * values, np.arange(0, len(values), 2))
    return np.sqrt(np.sum(pairs**2, axis=0))


def _largest_certain(size, error):
    """The largest entry that is more than four standard errors; 0 where none is."""
    return np.max(size, where=size > 4.0 * error, initial=0.0)
