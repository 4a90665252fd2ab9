"""From a target and an engine to a checked posterior.

This is the only place that wraps targets and that warns about a posterior as a whole: it finds the
coordinates an engine works in, runs the engine there, brings the particles back, and checks them.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError
from sklearn.exceptions import ConvergenceWarning

from .._parallel import make_map, one_thread
from .._probe import FEW, Probe
from .._random import as_generator
from .._validation import about
from ..posterior import ParticlePosterior
from ..targets import (
    ControlVariate,
    OneSided,
    Transformed,
    line_shifts,
    supports,
)
from ..targets.base import NotANumber
from ..targets.newton import DIAGONAL_ABOVE, gaussian_surrogate
from ..targets.one_sided import SHIFT
from ._check import (
    FEW_PARTICLES,
    MAX_MISMATCH,
    MAX_PARTICLES,
    MIN_EFFICIENCY,
    StartDraws,
    radial_shift,
    stein_residuals,
)
from ._registry import resolve_engine

MAX_ROUNDING = 0.1  # of the log density: engines tell particles apart by differences of about 1


class _Progress:
    """Where a run is, for the message of an error from the target or from linear algebra."""

    def __init__(self, name, callback):
        self._name, self._callback = name, callback
        self._stage = "in the search for the mode"

    def __call__(self, iteration, total, make_posterior, info):
        self._stage = f"after iteration {iteration} of {total} of {self._name}"
        return self._callback is not None and self._callback(iteration, total, make_posterior, info)

    def begin(self):
        self._stage = f"in the first iteration of {self._name}"

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, NotANumber):
            error.args = (f"{error} ({self._stage}).",)
        elif isinstance(error, LinAlgError):
            raise FloatingPointError(
                f"a matrix is singular {self._stage} ({error}); bring features and weights to "
                "moderate sizes, or use a tighter prior."
            ) from error


@dataclass
class Frame:
    """Coordinates in which the posterior is close to standard normal.

    Attributes
    ----------
    bijection : bijection
        From them to the target's own.
    gaussian : bijection
        The plain Laplace approximation.
    mode : ndarray of shape (dim,)
    one_sided : ndarray of int
        Coordinates that a line scan found one-sided.
    """

    bijection: object
    gaussian: object
    mode: np.ndarray
    one_sided: np.ndarray


@dataclass
class HeldOut:
    """Which rows early stopping has set aside, for a run that goes on from there.

    Attributes
    ----------
    mask : ndarray of bool, shape (n,)
    """

    mask: np.ndarray


def _hold_out(target, fraction, rng, state=None):
    """The target of part of its rows, with the others as ``held_out``; and which those are.

    They are those of ``state``, what an earlier run has left, where it has set as many aside.
    """
    if not (supports(target, "take") and supports(target, "pointwise_log_likelihood")):
        raise ValueError(
            "early_stopping=True sets rows aside, which this target does not allow (take); use "
            "early_stopping=False."
        )
    n, count = target.n_rows, round(fraction * target.n_rows)
    if not 0 < count < n:
        raise ValueError(
            f"validation_fraction={fraction:g} of {n} rows sets {count} aside; at "
            "least one row has to be, and one has to remain."
        )
    mask = np.zeros(n, dtype=bool)
    mask[rng.permutation(n)[:count]] = True
    if isinstance(state, HeldOut) and len(state.mask) == n and state.mask.sum() == count:
        mask = state.mask
    kept = target.take(np.flatnonzero(~mask))
    kept.held_out = target.take(np.flatnonzero(mask))
    return kept, HeldOut(mask)


def find_frame(target):
    """The frame of a target with a score; None, with a warning, where no mode is found."""
    try:
        surrogate, laplace = gaussian_surrogate(target)
    except (FloatingPointError, LinAlgError) as error:
        _warn(f"the posterior could not be whitened: {error}")
        return None
    if not laplace.converged:
        _warn(
            f"the search for the posterior's mode stopped after {laplace.n_iter} Newton steps "
            "without reaching it; the coordinates may be poor. Scale the features or use a tighter "
            "prior."
        )
    gaussian = laplace.bijection
    rounding = np.spacing(np.abs(target.log_density(laplace.mode[None])[0]))
    if not rounding < MAX_ROUNDING:
        _warn(
            f"near its mode the log density is so large that differences of {rounding:.1g} are "
            "lost to rounding; reduce sample_weight, or leave out a constant term."
        )
        return Frame(gaussian, gaussian, laplace.mode, np.array([], dtype=int))
    if target.dim > DIAGONAL_ABOVE:
        _warn(
            f"with {target.dim} coordinates whitening is diagonal; correlated coefficients will "
            "mix slowly."
        )
        return Frame(gaussian, gaussian, laplace.mode, np.array([], dtype=int))
    bijection = gaussian
    if len(getattr(target, "factors", ())) > 1:  # which the map would mix
        return Frame(gaussian, gaussian, laplace.mode, np.array([], dtype=int))
    try:
        one_sided = np.flatnonzero(np.abs(line_shifts(target, laplace)) > SHIFT)
        if len(one_sided):
            bijection = OneSided(target, laplace, one_sided, surrogate).bijection
    except (FloatingPointError, LinAlgError) as error:
        _warn(f"one-sided coordinates could not be straightened: {error}")
        one_sided = np.array([], dtype=int)
    return Frame(bijection, gaussian, laplace.mode, one_sided)


def infer(
    target, inference="ksd-mcmc", *, init=None, random_state=None, n_jobs=None, callback=None
):
    """Approximate the posterior of a target by weighted particles.

    Parameters
    ----------
    target : Target
        For example a `LogDensity` of your own.
    inference : str or engine, default="ksd-mcmc"
        How the posterior is found: "ksd-mcmc", "pmfvb", "svgd", "fwss", "stein-points", "pmd" or
        "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
    init : array-like of shape (m, dim) or ParticlePosterior, default=None
        Particles to start from, in the target's own coordinates. A posterior of the same target is
        gone on from: "ksd-mcmc" continues its chains and adds to its points, "fwss" keeps the
        particles and adds the missing ones, the others start from the particles.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator, default=None
    n_jobs : int, default=None
        Workers, as in joblib; the result does not depend on it.
    callback : callable, default=None
        ``callback(iteration, total, make_posterior, info) -> stop``, called between rounds.

    Returns
    -------
    ParticlePosterior
        In the target's own coordinates.

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
        If the posterior is likely to be wrong, with what is wrong about it.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import LogDensity, infer
    >>> target = LogDensity(lambda t: -0.5 * (t**2).sum(1), score=lambda t: -t, dim=2)
    >>> posterior = infer(target, "svgd", random_state=0)
    >>> bool(np.all(np.abs(posterior.mean()) < 0.1))
    True
    """
    if isinstance(target, type) or not (hasattr(target, "dim") and hasattr(target, "log_density")):
        raise TypeError(
            f"target must be a log density such as LogDensity(log_density, score, dim=2), got "
            f"{target!r}."
        )
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, got {callback!r}.")
    engine = resolve_engine(inference)
    return run_engine(engine, target, init, random_state, n_jobs, callback)


def run_engine(engine, target, init=None, random_state=None, n_jobs=None, callback=None):
    """As `infer`, with this very engine and a target that is one."""
    rng, map = as_generator(random_state), make_map(n_jobs)
    posterior = approximate(engine, target, rng, map, init=init, callback=callback)
    if not posterior.converged:
        message = posterior.diagnostics.get("message", "the run did not converge")
        _warn(f"{engine.name}: {message}")
    return posterior


def approximate(engine, target, rng, map, *, init=None, callback=None):
    """As `run_engine`, also as a part of another run: it does not warn of what did not converge."""
    name = engine.name
    engine.check(target)
    previous = init if isinstance(init, ParticlePosterior) else None
    if init is not None:
        init = _equally_weighted(previous) if previous is not None else init
        with about("init"):
            init = np.atleast_2d(np.asarray(init, dtype=float))
        if init.ndim != 2 or init.shape[1] != target.dim or not len(init):
            raise ValueError(f"init must have shape (m, {target.dim}), got {init.shape}.")
        if not np.isfinite(init).all():
            raise ValueError("init must be finite; it holds NaN or infinity.")
    progress = _Progress(name, callback)
    # Where an engine strays into overflow its steps are rejected; what is left is refused below.
    overflow_allowed = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    with one_thread(), overflow_allowed, progress:
        held_out = None
        if engine.early_stopping:
            state = None if previous is None else previous.state
            target, held_out = _hold_out(target, engine.validation_fraction, rng, state)
        frame = find_frame(target) if engine.gaussian and supports(target, "score") else None
        coordinates, working = _wrap(target, engine, frame)
        if init is not None and coordinates is not None:
            init = coordinates.inverse(init)
        if previous is not None:
            _require_same_density(previous, target)
            if engine.continues:
                init = ParticlePosterior(init, state=previous.state)
        callback = _in_own_coordinates(progress, coordinates, target.names)
        progress.begin()
        posterior = engine.run(working, rng, init=init, map=map, callback=callback)
        if engine.gaussian:
            _score(posterior, working, target)
        posterior = _bring_back(posterior, coordinates, target.names)
        if not (np.isfinite(posterior.particles).all() and np.isfinite(posterior.weights).all()):
            raise FloatingPointError(
                f"{name} diverged: its particles are not finite; reduce the engine's step size, or "
                "scale the features."
            )
        _require_density(posterior, name)
        if posterior.log_densities is None:
            posterior.probe = Probe.of(target.log_density, posterior.particles)
        if held_out is not None:
            posterior.state = held_out
        if frame is not None:
            posterior.whitening = frame.bijection
            start = None
            if (init is None or previous is not None) and engine.stays_near_start(target):
                start = StartDraws(working, rng.spawn(1)[0])
            _check(posterior, target, engine, frame, start)
    return posterior


def update(posterior, target, inference="pmd", *, n_jobs=None):
    """Bring a posterior up to date with further rows of a stream.

    Parameters
    ----------
    posterior : ParticlePosterior
        What `infer` or `update` returned for the rows so far, by the same engine; it is not
        changed. Its coordinates and its generator are used on.
    target : Target
        Of the further rows alone, with the same prior.
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
        If the engine cannot be updated, the posterior is none of its own, or the prior is another.

    Warns
    -----
    ConvergenceWarning
        If the posterior is likely to be wrong, with what is wrong about it.

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
    engine = resolve_engine(inference)
    name = engine.name
    if engine.update is None:
        raise ValueError(f'{name} cannot take in further rows; use inference="pmd".')
    if not hasattr(posterior.state, "bijection"):
        raise ValueError(f"the posterior was not made by {name}, which cannot go on from it.")
    if posterior.names != tuple(target.names):
        raise ValueError("the further rows have other coordinates than the posterior.")
    if target.n_rows is None:
        raise ValueError("a target without n_rows has no rows to take in.")
    with one_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        coordinates = posterior.state.bijection
        working = Transformed(target, coordinates)
        updated = engine.update(working, posterior.state, map=make_map(n_jobs))
        updated = _bring_back(updated, coordinates, target.names)
        updated.whitening = coordinates
    if not updated.converged:
        _warn(f"{name}: {updated.diagnostics['message']}")
    return updated


def _equally_weighted(posterior):
    """Particles that stand for the posterior with equal weights."""
    if np.ptp(posterior.weights) == 0.0:
        return posterior.particles
    return posterior.thin(len(posterior)).particles


def _require_same_density(previous, target):
    """Refuse to go on from particles of another density; a few values tell."""
    probe = previous.probe
    if previous.log_densities is not None:
        probe = Probe(previous.particles[:FEW], previous.log_densities[:FEW])
    if probe is None or probe.matches(target.log_density):
        return
    same = "data, weights and prior"
    if target.held_out is not None:
        same = "data, weights, prior and rows set aside (early_stopping)"
    raise ValueError(
        "warm start: the log density is not the one that the earlier posterior was made for; "
        f"go on with the same {same}, or start anew (warm_start=False)."
    )


def _wrap(target, engine, frame):
    """The bijection from the engine's coordinates, None for the target's own, and what it is given.

    That is the target in those coordinates, with minibatches if the engine asks for them.
    """
    if engine.batch_size is not None:
        if target.n_rows is None:
            raise ValueError("batch_size was given, but the target has no data rows.")
        if engine.minibatch is None:
            raise ValueError(
                f"{engine!r} cannot work on minibatches; use batch_size=None, or for chains "
                'sampler="sgld".'
            )
        if engine.minibatch == "control-variate":
            if frame is None:
                raise ValueError("batch_size needs the mode of the density, which was not found.")
            target = ControlVariate(target, frame.mode, engine.batch_size, engine.control_variate)
    if not engine.gaussian:
        return None, target
    if frame is None:
        return None, Transformed(target, None)
    if not engine.whiten:
        return None, Transformed(target, None, start=frame.gaussian)
    coordinates = frame.bijection if engine.one_sided else frame.gaussian
    return coordinates, Transformed(target, coordinates)


def _bring_back(posterior, coordinates, names):
    if coordinates is None:
        posterior.names = names
        return posterior
    return posterior.pushed(coordinates, names)


def _in_own_coordinates(callback, coordinates, names):
    def wrapped(iteration, total, make_posterior, info):
        return callback(
            iteration, total, lambda: _bring_back(make_posterior(), coordinates, names), info
        )

    return wrapped


def _score(posterior, working, target):
    """Fill in log densities and scores on all rows, where that is affordable."""
    if len(posterior) <= MAX_PARTICLES:
        if supports(target, "score") and posterior.scores is None:
            value, score = working.log_density_and_score(posterior.particles)
            posterior.log_densities, posterior.scores = value, score
        elif posterior.log_densities is None:
            posterior.log_densities = working.log_density(posterior.particles)
    elif working.stochastic:
        posterior.log_densities = posterior.scores = None


def _require_density(posterior, name):
    """Refuse particles that are all where the density is 0, and warn of some that are."""
    if posterior.log_densities is None:
        return
    outside = posterior.weights @ ~np.isfinite(posterior.log_densities)
    if outside > 1.0 - 1e-9:
        raise ValueError(
            f"log_density is finite at no particle of {name}; check the function, or start where "
            "the density is positive (initial, init)."
        )
    if outside > 0.0:
        _warn(f"{name}: {outside:.0%} of the particles are where the density is 0.")


def _check(posterior, target, engine, frame, start):
    """Warn where the posterior misses Stein's identities, or is known to be out of reach."""
    names = np.array(target.names)
    # After minibatches, scores on all rows are the dearest part of a fit.
    most = MAX_PARTICLES if engine.batch_size is None else FEW_PARTICLES
    many = posterior.scores is None and len(posterior) > most
    subset = posterior.thin(most) if many else posterior
    scores = target.score(subset.particles) if subset.scores is None else subset.scores
    z = frame.bijection.inverse(subset.particles)
    residuals = stein_residuals(z, frame.bijection.pull_score(z, scores), subset.weights)
    posterior.diagnostics["stein_mean_residual"] = residuals.mean
    posterior.diagnostics["stein_spread_residual"] = residuals.spread
    posterior.diagnostics["one_sided"] = names[frame.one_sided]
    mapped = engine.whiten and engine.one_sided
    reasons = []
    if len(frame.one_sided) and not mapped:
        reasons.append(
            f"the posterior is one-sided in {_listed(names[frame.one_sided])} and the engine ran "
            "without the map for it (whiten=True, one_sided=True)"
        )
    if residuals.flagged.any():
        reasons.append(f"Stein's identities fail for {_listed(names[residuals.flagged])}")
    if residuals.shrinkage:
        by = f"{abs(residuals.shrinkage):.0%} too {'small' if residuals.shrinkage > 0 else 'large'}"
        reasons.append(f"standard deviations are about {by} on average")
    shift = radial_shift(Transformed(target, frame.bijection), z, subset.weights)
    if shift:
        where = "near the mode" if shift > 0 else "far from the mode"
        reasons.append(f"the particles lie at least {abs(np.expm1(shift)):.0%} too {where}")
    posterior.diagnostics["radial_shift"] = shift
    flagged = residuals.flagged
    if start is not None:
        contradicted = start.contradicted(posterior.particles, posterior.weights)
        flagged = flagged | contradicted
        if contradicted.any():
            reasons.append(
                f"importance-weighted draws are spread otherwise in {_listed(names[contradicted])}"
            )
        posterior.diagnostics["start_mismatch"] = start.mismatch
        posterior.diagnostics["start_efficiency"] = start.efficiency
        if start.mismatch > MAX_MISMATCH or start.efficiency < MIN_EFFICIENCY:
            reasons.append(
                "the posterior is far from the Gaussian start that the engine leans on (mismatch "
                f"{start.mismatch:.1f}, at most {MAX_MISMATCH}; efficiency {start.efficiency:.2f}, "
                f"at least {MIN_EFFICIENCY}); use pmfvb or ksd-mcmc, or a tighter prior"
            )
    posterior.diagnostics["flagged"] = names[flagged]
    if reasons:
        cure = "Raise the engine's iterations or particles, or use" if engine.iterative else "Use"
        _warn(
            f"{engine.name}: the posterior is likely to be wrong: {'; '.join(reasons)}. "
            f"{cure} another engine."
        )


def _listed(names, most=12):
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _warn(message):
    warnings.warn(message, ConvergenceWarning, stacklevel=3)
