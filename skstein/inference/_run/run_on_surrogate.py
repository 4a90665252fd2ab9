"""When an engine runs on a surrogate of very many rows, and what corrects its particles.

The surrogate (`targets/surrogate.py`) is close to the posterior, not equal to it. How far off it is
shows in the log ratio of the two densities over the particles: no mean moves by more standard
deviations than that ratio has, nor any probability by more. A hundred or two of the particles tell
it. Where it is not negligible, all of them are weighted by the ratio, smoothed along its tail
(Vehtari et al. 2024), whose shape says whether the weights can be trusted.
"""

import numpy as np
from sklearn.exceptions import EfficiencyWarning

from ..._statistics.density_fingerprint import Fingerprint
from ..._statistics.pareto_smoothing import pareto_smoothed
from ..._tools.warnings import warn
from ...targets.surrogate import Surrogate, surrogate_lacks
from .stein_identities import affordable_particles

_MUCH = 10**7  # rows times coordinates from which chains on all rows take minutes
NEGLIGIBLE = 0.05  # standard deviation of the log ratio, which is left as it is
_MAX_K = 0.7
_LEAST_ESS = 0.1  # of the particles
_CURE = "raise surrogate, the rows that stand for all, or use batch_size or all rows (None)"


def surrogate_of(target, engine):
    """What the engine is to run on: the target, or where it asks for one a surrogate.

    Warns
    -----
    EfficiencyWarning
        Where it does not ask, and rows are so many that all of them take minutes.
    """
    if engine.surrogate is not None and not getattr(target, "sufficient", False):
        return Surrogate(target, engine.surrogate)
    constraints = getattr(engine, "_parameter_constraints", {})
    if "surrogate" in constraints and engine.batch_size is None and _worth_a_surrogate(target):
        warn(
            f"on {target.n_rows} rows each step takes a pass over all of them; with "
            'surrogate="auto" it takes some, and the exact density corrects the result.',
            EfficiencyWarning,
            by=engine.name,
        )
    return target


def _worth_a_surrogate(target):
    """Whether a target has so many rows that chains take minutes, and allows a surrogate."""
    much = (target.n_rows or 0) * target.dim >= _MUCH
    return much and not getattr(target, "sufficient", False) and not surrogate_lacks(target)


def correct_surrogate(posterior, target, surrogate, name):
    """Weight the particles of a surrogate towards the target, where that makes a difference.

    Parameters
    ----------
    posterior : ParticlePosterior
        Changed in place; its ``diagnostics`` get ``surrogate_rows``, ``surrogate_error``, the
        standard deviation of the log ratio, and ``surrogate_pareto_k``, NaN where no weights are
        needed.
    target : Target
    surrogate : Surrogate
    name : str
        Of the engine.

    Warns
    -----
    ConvergenceWarning
        Where the weights degenerate.
    """
    theta = posterior.particles
    # What a warm start compares with.
    posterior._fingerprint = Fingerprint.of(surrogate.log_density, theta)
    n_asked = affordable_particles(target, len(theta))
    few = np.linspace(0, len(theta) - 1, n_asked).round().astype(int)
    ratio, k = _log_ratio(target, surrogate, theta[few]), np.nan
    error = np.std(ratio)
    if not error <= NEGLIGIBLE:
        if len(few) < len(theta):
            ratio = _log_ratio(target, surrogate, theta)
        log_weights, k = pareto_smoothed((ratio + np.log(posterior.weights))[None])
        weights, k = np.exp(log_weights[0]), float(k[0])
        posterior.weights = weights / weights.sum()
        # They stand for the surrogate, and these particles do not any more.
        posterior.log_densities = posterior.scores = posterior.chains = None
        ess = 1.0 / np.sum(posterior.weights**2)
        if k > _MAX_K or ess < _LEAST_ESS * len(theta):
            warn(
                "the surrogate is too far from the posterior for importance weights to correct it: "
                f"{_CURE}. The posterior's diagnostics have the numbers.",
                by=name,
            )
    posterior.diagnostics |= {
        "surrogate_rows": surrogate.n_rows,
        "surrogate_error": float(error),
        "surrogate_pareto_k": k,
    }


def _log_ratio(target, surrogate, theta):
    ratio = target.log_density(theta) - surrogate.log_density(theta)
    return np.where(np.isfinite(ratio), ratio, -1e300)
