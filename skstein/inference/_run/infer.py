"""From a target and an engine to a checked posterior.

Only this module wraps targets and warns about a posterior as a whole. It finds the coordinates that
an engine works in, runs the engine there, maps the particles back, and checks them.
"""

from contextlib import AbstractContextManager
from operator import methodcaller

import numpy as np
from scipy.linalg import LinAlgError

from ..._input.validation import about
from ..._statistics.density_fingerprint import FEW, Fingerprint
from ..._tools.parallel import OneByOne, make_map, one_thread
from ..._tools.random import as_generator
from ..._tools.warnings import warn
from ...posterior import ParticlePosterior
from ...protocols import Bijection, WorkingTarget
from ...targets import ControlVariate, Transformed, supports
from ...targets.base import NotANumber, require_target
from ...targets.regression.transformed_regression import transformed_target
from ...targets.surrogate import surrogate_lacks
from .._building_blocks.rounds import with_posteriors
from .._registry import resolve_engine
from ..base import Engine
from .hold_out import hold_out
from .run_on_surrogate import correct_surrogate, surrogate_of
from .stein_identities import StartDraws, comparable, judge, most_scored
from .tails_and_funnels import follow_tails
from .working_coordinates import find_frame


class RunStage(AbstractContextManager):
    """The stage of a run, for messages of errors from the target or from linear algebra.

    Attributes
    ----------
    cut_short : str
        Where the callback stopped the run early; empty if it did not.
    """

    def __init__(self, engine, callback):
        self._name, self._callback = engine.name, callback
        self._n_particles = getattr(engine, "n_particles", None)
        self._stage = "in the search for the mode"
        self.cut_short = ""

    def __call__(self, iteration, total, make_posterior, info):
        where = f"after iteration {iteration} of {total}"
        self._stage = f"{where} of {self._name}"
        if self._callback is None or not self._callback(iteration, total, make_posterior, info):
            return False
        if iteration < total:
            self.cut_short = f"stopped by the callback {where}"
        return True

    def begin(self):
        self._stage = f"in the first iteration of {self._name}"

    def __exit__(self, kind, error, traceback):
        if isinstance(error, NotANumber):
            error.args = (f"{error} ({self._stage}).",)
        elif isinstance(error, MemoryError) and self._n_particles is not None:
            raise MemoryError(
                f"out of memory {self._stage}, with n_particles={self._n_particles!r} ({error}); "
                "use fewer particles, or give scikit-learn a smaller working_memory."
            ) from error
        elif isinstance(error, LinAlgError):
            raise FloatingPointError(
                f"a matrix is singular {self._stage} ({error}); bring features and weights, "
                "or the values of your own density, to moderate sizes, or use a tighter prior."
            ) from error


def infer(target, inference="mcmc", *, init=None, random_state=None, n_jobs=None, callback=None):
    """Approximate the posterior of a target by weighted particles.

    Parameters
    ----------
    target : Target
        For example a `LogDensity` of your own.
    inference : str or engine, default="mcmc"
        How the posterior is found: "mcmc", "ksd-mcmc", "pmfvb", "svgd", "fwss", "stein-points",
        "pmd" or "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
    init : array-like of shape (m, dim) or ParticlePosterior, default=None
        Particles to start from, in the target's own coordinates. A posterior of the same target is
        continued: "mcmc" continues its chains, "fwss" keeps the particles and adds the missing
        ones, an `Ensemble` keeps each network from the rows that it was kept from, the others start
        from the particles; "laplace" and Stein points without chains have no use for them.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator, default=None
    n_jobs : int, default=None
        Workers, as in joblib; the result does not depend on it.
    callback : callable, default=None
        ``callback(iteration, total, make_posterior, info) -> stop``, called between rounds.

    Returns
    -------
    ParticlePosterior
        In the target's own coordinates. If the callback stopped the run early, ``converged`` is
        False and the ``message`` of its diagnostics begins with where it stopped; this alone causes
        no warning.

    Raises
    ------
    ValueError
        If the target lacks something that the engine needs, ``init`` has the wrong shape, or the
        log density is finite at none of the particles found.
    TypeError
        If ``target`` is not a target, or a class instead of an instance.
    FloatingPointError
        If the run diverges.

    Warns
    -----
    ConvergenceWarning
        If the posterior is likely to be wrong; the message says why.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import LogDensity, infer
    >>> target = LogDensity(lambda t: -0.5 * (t**2).sum(1), score=lambda t: -t, dim=2)
    >>> posterior = infer(target, "svgd", random_state=0)
    >>> bool(np.all(np.abs(posterior.mean()) < 0.1))
    True
    """
    require_target(target)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, got {callback!r}.")
    return run_engine(target, resolve_engine(inference), init, random_state, n_jobs, callback)


def run_engine(target, engine: Engine, init, random_state, n_jobs, callback) -> ParticlePosterior:
    """As `infer`, with the caller's own engine: what the run sets on it stays there."""
    progress = RunStage(engine, callback)
    with OneByOne() if getattr(target, "in_shards", False) else make_map(n_jobs) as map:
        posterior = approximate(target, engine, as_generator(random_state), map, progress, init)
    problem = ""
    if not posterior.converged:
        problem = posterior.diagnostics.get("message", "the run did not converge")
        warn(problem, by=engine.name)
    if progress.cut_short:
        # The caller knows that the run was stopped; faults that the engine found are reported
        # above.
        posterior.converged = False
        posterior.diagnostics["message"] = "; ".join(filter(None, (progress.cut_short, problem)))
    return posterior


def approximate(target, engine, rng, map, progress, init=None):
    """As `run_engine`, for a run or a part of one; without warnings about convergence."""
    name = engine.name
    engine.check(target)
    previous = init if isinstance(init, ParticlePosterior) else None
    if previous is not None:
        equal = np.ptp(previous.weights) == 0.0
        init = (previous if equal else previous.thin(len(previous))).particles
    if init is not None:
        init = _checked_particles(init, target.dim)
    # If an engine strays into overflow its steps are rejected; the rest is refused below.
    with one_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"), progress:
        held_out = None
        if engine.early_stopping:
            state = None if previous is None else previous.state
            target, held_out = hold_out(target, engine.validation_fraction, rng, state)
        exact, target = target, surrogate_of(target, engine)
        whitens = engine.gaussian and supports(target, "score")
        frame = find_frame(target, leaning=not engine.calibrated) if whitens else None
        pilot, near = None, engine.stays_near_start(target)
        if frame is not None and engine.curved and engine.whiten and engine.one_sided:
            frame, pilot = follow_tails(target, frame, engine.calibrated)
        coordinates, working = _wrap(target, engine, frame)
        if init is not None and coordinates is not None:
            init = coordinates.inverse(init)
        if previous is not None:
            _require_same_density(previous, target)
            if engine.continues:
                init = ParticlePosterior(init, state=previous.state)
        in_own_coordinates = methodcaller("_pushed", coordinates, target.names)
        callback = with_posteriors(progress, in_own_coordinates)
        progress.begin()
        posterior = engine.run(working, rng, init=init, map=map, callback=callback)
        if pilot is not None and engine.calibrated:
            posterior = pilot.calibrated(posterior, working)
        elif pilot is not None and not engine.runs_chains:
            pilot.compare(posterior, working)
        # On rows, an engine that finds its own coordinates knows what it can afford.
        if engine.gaussian or target.n_rows is None:
            _fill_in_scores(posterior, working, target, most_scored(engine, target))
        posterior = in_own_coordinates(posterior)
        if not (np.isfinite(posterior.particles).all() and np.isfinite(posterior.weights).all()):
            raise FloatingPointError(
                f"{name} diverged: its particles are not finite; reduce the engine's step size, or "
                "scale the features."
            )
        _require_density(posterior, name)
        if posterior.log_densities is None:
            posterior._fingerprint = Fingerprint.of(target.log_density, posterior.particles)
        if held_out is not None:
            posterior.state = held_out
        if frame is not None:
            posterior.whitening = frame.bijection
            start = None
            if (near or comparable(target)) and (init is None or previous is not None):
                start = StartDraws(working, rng.spawn(1)[0])
            judge(posterior, target, engine, frame, start, pilot, near)
        if target is not exact:
            correct_surrogate(posterior, exact, target, name)
    return posterior


def _checked_particles(init, dim):
    """``init`` as an array (m, dim)."""
    with about("init"):
        init = np.atleast_2d(np.asarray(init, dtype=float))
    if init.ndim != 2 or init.shape[1] != dim or not len(init):
        raise ValueError(f"init must have shape (m, {dim}), got {init.shape}.")
    if not np.isfinite(init).all():
        raise ValueError("init must be finite; it holds NaN or infinity.")
    return init


def _require_same_density(previous, target):
    """Refuse to go on from particles of another density; a few values show it."""
    fingerprint = previous._fingerprint
    if fingerprint is None and previous.log_densities is not None:
        fingerprint = Fingerprint(previous.particles[:FEW], previous.log_densities[:FEW])
    if fingerprint is None or fingerprint.matches(target.log_density):
        return
    same = "data, weights and prior"
    if target.validation is not None:
        same = "data, weights, prior and rows set aside (early_stopping)"
    raise ValueError(
        "warm start: the log density is not that of the earlier posterior; "
        f"go on with the same {same}, or start again (warm_start=False)."
    )


def _wrap(target, engine: Engine, frame) -> tuple[Bijection | None, WorkingTarget]:
    """The bijection from the engine's coordinates, None for the target's own, and the engine's
    target.

    The latter is in those coordinates, with minibatches if the engine asks for them.
    """
    if engine.batch_size is not None and engine.subsampling == "control-variate":
        if frame is None:
            raise ValueError("batch_size needs the mode of the density, which was not found.")
        if engine.lost_beside_walls and len(frame.one_sided) and engine.batch_size < target.n_rows:
            names = ", ".join(np.array(target.names)[frame.one_sided])
            rows = "all rows" if surrogate_lacks(target) else 'surrogate="auto"'
            raise ValueError(
                f"batch_size does not work with {engine.name} where the posterior is one-sided, as "
                f"in {names}: most minibatches hold none of the few rows that bound it; use "
                f'{rows} with sampler="hmc", or a tighter prior.'
            )
        target = ControlVariate(target, frame.mode, engine.batch_size, engine.control_variate)
    if not engine.gaussian:
        return None, target
    if frame is None:
        return None, Transformed(target, None)
    if not engine.whiten:
        return None, Transformed(target, None, start=frame.gaussian)
    coordinates = frame.bijection if engine.one_sided else frame.gaussian
    return coordinates, transformed_target(target, coordinates)


def _fill_in_scores(posterior, working, target, most):
    """Fill in log densities and scores on all rows, if that is affordable."""
    if len(posterior) <= most:
        if supports(target, "score") and posterior.scores is None:
            value, score = working.log_density_and_score(posterior.particles)
            posterior.log_densities, posterior.scores = value, score
        elif posterior.log_densities is None:
            posterior.log_densities = working.log_density(posterior.particles)
    elif working.stochastic:
        posterior.log_densities = posterior.scores = None


def _require_density(posterior, name):
    """Refuse particles if the density is 0 at all of them, and warn if it is at some."""
    if posterior.log_densities is None:
        return
    outside = posterior.weights @ ~np.isfinite(posterior.log_densities)
    if outside > 1.0 - 1e-9:
        raise ValueError(
            f"log_density is finite at no particle of {name}; check the function, or start where "
            "the density is positive (initial, init)."
        )
    if outside > 0.0:
        warn("some of the particles are where the density is 0.", by=name)
