"""A checked posterior of more rows, by the engine that found that of the rows before."""

import numpy as np

from ..._tools.parallel import make_map, one_thread
from ..._tools.warnings import warn
from ...posterior import ParticlePosterior
from ...targets.transformed import Transformed
from .._registry import resolve_engine
from ..base import Engine


def update(posterior, target, inference="pmd", *, n_jobs=None):
    """Update a posterior with more rows of a stream.

    Parameters
    ----------
    posterior : ParticlePosterior
        The result of `infer` or `update` for the rows so far, by the same engine; it is not
        changed. Its coordinates and its generator are kept.
    target : Target
        Of the new rows alone, with the same prior.
    inference : str or engine, default="pmd"
        An engine with a method ``update``.
    n_jobs : int, default=None
        Workers, as in joblib; the result does not depend on it.

    Returns
    -------
    ParticlePosterior
        Of all rows, in the target's own coordinates.

    Raises
    ------
    ValueError
        If the engine cannot be updated, did not make the posterior, or the prior has changed.

    Warns
    -----
    ConvergenceWarning
        If the posterior is likely to be wrong; the message says why.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import infer
    >>> from skstein.inference import PMD, update
    >>> from skstein.targets import LogisticTarget
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = (X[:, 0] + rng.logistic(size=2000) > 0).astype(float)
    >>> posterior = infer(LogisticTarget(X[:500], y[:500]), "pmd", random_state=0)
    >>> posterior = update(posterior, LogisticTarget(X[500:], y[500:]))
    >>> posterior.diagnostics["n_seen"]
    2000
    """
    return run_update(posterior, target, resolve_engine(inference), n_jobs=n_jobs)


def run_update(posterior, target, engine: Engine, *, n_jobs) -> ParticlePosterior:
    """As `update`, with the caller's own engine."""
    name = engine.name
    if engine.update is None:
        raise ValueError(f'{name} cannot learn from more rows; use inference="pmd".')
    if not hasattr(getattr(posterior, "state", None), "bijection"):
        raise ValueError(f"the posterior was not made by {name}, which cannot go on from it.")
    if posterior.names != tuple(target.names):
        raise ValueError("the new rows have other coordinates than the posterior.")
    if target.n_rows is None:
        raise ValueError("a target without n_rows has no rows to learn from.")
    with one_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        coordinates = posterior.state.bijection
        with make_map(n_jobs) as map:
            updated = engine.update(Transformed(target, coordinates), posterior.state, map=map)
        updated = updated._pushed(coordinates, target.names)
        updated.whitening = coordinates
    if not updated.converged:
        warn(updated.diagnostics["message"], by=name)
    return updated
