"""What every engine is: a parameter object with one method, ``run``.

An engine sees a target, a generator and a ``map`` for independent pieces, and nothing else. The
target it is given is usually whitened (`infer.py` wraps it), so engines are written for
densities whose scale is about 1 and whose start is a standard normal.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._input.validation import Interval, StrOptions
from .._tools.copies import changed
from ..posterior import ParticlePosterior
from ..protocols import Rng, WorkingTarget
from ..targets import supports

# Entries times rows. Two to five milliseconds of work: a dispatch costs a tenth of one, and a cut
# in four a few per cent.
_WORTH_A_DISPATCH = 1e7
ENOUGH_DRAWS = 8  # of each chain, for R-hat and effective sample size
N_PARTICLES = [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")]
N_NETWORKS = 20  # where nothing says how many
BATCH_SIZE = [None, Interval(Integral, 1, None, closed="left")]
AUTO_BATCH_SIZE = [*BATCH_SIZE, StrOptions({"auto"})]


class Engine(BaseEstimator):
    """Base class of engines: every hook that `infer` or an estimator reads, with its default.

    A subclass writes `run`, and overrides what differs. A hook may be a parameter of ``__init__``,
    a class attribute or a property. An engine that is not a subclass needs `run` alone: what it
    does not say is as it is said here (see `ForeignEngine`).

    Attributes
    ----------
    requires : tuple of str
        The optional parts of a target without which it cannot work.
    gaussian : bool
        Whether it works from the Gaussian at the mode, which `infer` then finds. Without it `infer`
        looks for no mode, passes the target as it is, and leaves the posterior's ``whitening``, log
        densities and scores to the engine.
    needs_gaussian : bool
        Whether it is lost where no Gaussian comes near the posterior, as among the weights of a
        network: its particles are draws of one, or too few for thousands of coordinates.
    whiten : bool
        Whether its coordinates are those of that Gaussian, where the target allows it.
    one_sided : bool
        Whether one-sided coordinates are straightened first.
    curved : bool
        Whether coordinates are bent to follow heavy tails, for an engine that is lost in them.
    calibrated : bool
        If ``curved``: whether the particles are then moved to the margins of the chains that found
        the coordinates.
    near_start : bool
        Whether its particles stay near that Gaussian, or trained networks near where they ended.
    runs_chains : bool
        Whether it runs long chains, whose own R-hat says more than that of short ones.
    batch_size : int or None
        Rows in a minibatch; None for all.
    subsampling : {"control-variate", "plain"} or None
        What a minibatch's score is corrected by: `infer` wraps the target in a `ControlVariate`, or
        leaves it to the engine to draw rows; None refuses a ``batch_size``.
    control_variate : {1, 2}
        Its order.
    lost_beside_walls : bool
        Whether minibatches take it far from the posterior where coordinates are one-sided.
    surrogate : int, "auto" or None
        Rows of a `Surrogate` that the engine is given in place of the target; `infer` corrects the
        particles.
    early_stopping : bool
        Whether `infer` sets rows aside, as the target's ``validation``.
    validation_fraction : float
        The share of these rows.
    keeps_factors : bool
        Whether the factors of a target stay apart, as in mean field.
    continues : bool
        Whether `run` takes an earlier posterior as ``init`` and adds to it; other engines start
        from its particles.
    iterative : bool
        Whether there are iterations of which more could do better.
    of_networks : str
        The parameter that says how many networks it moves; "auto" then is all that were trained.
    update : callable or None
        ``update(target, state, *, map) -> posterior`` takes in more rows of a stream: ``target`` is
        of these rows, ``state`` what `run` or `update` left in the posterior, with the
        ``bijection`` to the coordinates that it goes on in.
    """

    _parameter_constraints: dict = {}  # a subclass without any is not validated
    requires: tuple[str, ...] = ("score",)
    gaussian: bool = True
    needs_gaussian: bool = False
    whiten: bool = True
    one_sided: bool = True
    curved: bool = False
    calibrated: bool = False
    near_start: bool = False
    runs_chains: bool = False
    batch_size: int | str | None = None
    subsampling: Any = "control-variate"
    control_variate: int = 1
    lost_beside_walls: bool = False
    surrogate: int | str | None = None
    early_stopping: bool = False
    validation_fraction: float | None = 0.1
    keeps_factors: bool = False
    continues: bool = False
    iterative: bool = True
    of_networks: str = "n_particles"
    update: Callable | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @property
    def last_stage(self):
        """The engine itself; of several that run one after the other the last."""
        return self

    def check(self, target):
        """Refuse a target before any work; an engine made of other engines asks them.

        Raises
        ------
        ValueError
            If the target lacks a part that the engine needs, with its name, or ``batch_size`` is
            given for a target without rows, or to an engine that works on all of them.
        """
        missing = [part for part in self.requires if not supports(target, part)]
        if missing:
            cure = 'give it, or use inference="pmd" with init="prior", which needs only values'
            raise ValueError(
                f"{self.name} needs {' and '.join(missing)}, which the target does not offer; "
                f"{cure if 'score' in missing else 'use another engine'}."
            )
        if self.batch_size is None:
            return
        if self.surrogate is not None:
            raise ValueError(
                "batch_size and surrogate are two ways to do with few rows: use one of them."
            )
        if target.n_rows is None:
            raise ValueError("batch_size was given, but the target has no data rows.")
        if self.subsampling is None:
            raise ValueError(
                f"{self!r} cannot work on minibatches; use batch_size=None, or for chains "
                'sampler="sgld".'
            )

    def moving(self, n_networks):
        """The engine for this many trained networks, all of which move unless it says a number."""
        if getattr(self, self.of_networks, None) != "auto":
            return self
        return changed(self, **{self.of_networks: n_networks})

    def stays_near_start(self, target) -> bool:
        """Whether the result depends on the Gaussian start, whose quality `infer` then measures."""
        return self.near_start

    def n_rounds(self, target) -> int | None:
        """The most rounds, each ended by a call of the callback, of a run; None if not known."""
        return None

    def run(
        self, target: WorkingTarget, rng: Rng, *, init=None, map=map, callback=None
    ) -> ParticlePosterior:
        """Approximate the target's density by weighted particles.

        Parameters
        ----------
        target : WorkingTarget
            See :mod:`skstein.protocols`; its coordinates are usually whitened.
        rng : numpy.random.Generator
        init : ndarray of shape (m, dim), ParticlePosterior or None
            Particles to start from, in the target's coordinates; a posterior, with the ``state``
            that the engine left in it, only if the engine ``continues``.
        map : callable
            ``map(function, *iterables)``, used over independent pieces.
        callback : callable or None
            ``callback(iteration, total, make_posterior, info) -> stop``, called between rounds;
            ``make_posterior()`` gives the posterior as it stands, ``info`` is a dict of numbers,
            and of the name of the ``stage`` where there are several.

        Returns
        -------
        ParticlePosterior
        """
        raise NotImplementedError(f"{type(self).__name__} does not define run().")


@dataclass(eq=False, repr=False)
class ParticleEngine(Engine):
    """Parameters of the engines that work from the Gaussian at the mode."""

    _parameter_constraints = {
        "n_particles": N_PARTICLES,
        "whiten": ["boolean"],
        "one_sided": ["boolean"],
    }

    n_particles: int | str = "auto"
    _: KW_ONLY
    whiten: bool = True
    one_sided: bool = True


@dataclass(eq=False, repr=False)
class SubsamplingEngine(ParticleEngine):
    """Parameters of those that can do with few rows: a minibatch in each step, or a surrogate."""

    _parameter_constraints = {
        **ParticleEngine._parameter_constraints,
        "batch_size": BATCH_SIZE,
        "surrogate": [None, StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    }

    _: KW_ONLY
    batch_size: int | None = None
    surrogate: int | str | None = None


_OWN = frozenset(name for name in vars(Engine) if not name.startswith("_")) | {"get_params"}


class ForeignEngine(Engine):
    """An object with ``run`` as an engine; `Engine` gives the defaults for everything that it
    lacks.

    Parameters
    ----------
    engine : object
        With a method ``run``. Everything else, ``get_params`` included, is its own too.
    """

    def __init__(self, engine):
        self.engine = engine

    def __getattribute__(self, name):
        if name in _OWN and hasattr(self.engine, name):
            return getattr(self.engine, name)
        return super().__getattribute__(name)

    def __getattr__(self, name):
        if name == "engine":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self.engine, name)

    @property
    def name(self):
        return type(self.engine).__name__

    def __repr__(self):
        return repr(self.engine)

    def __sklearn_clone__(self):
        return ForeignEngine(clone(self.engine, safe=False))


def as_engine(engine):
    """An object with a method ``run`` as an `Engine`."""
    return engine if isinstance(engine, Engine) else ForeignEngine(engine)


def automatic_particles(n_particles, dim, least=150, cap=500):
    """The number of particles for "auto": ``max(least, 2 dim)``, at most ``cap``."""
    if not isinstance(n_particles, str):
        return int(n_particles)
    return min(max(least, 2 * dim), cap)


def starting_particles(target, rng, m, init):
    """``m`` particles: those of ``init``, as far as they go, and draws of the Gaussian start.

    Two equal particles never separate under a repulsive kernel, so ``init`` is not repeated:
    missing particles are drawn from the start, with the draws that a run without ``init`` would
    have there.
    """
    theta = target.sample_start(rng, m)
    if init is not None:
        theta[: len(init)] = init[:m]
    return theta


def within_support(target, start):
    """``start`` (m, dim), with states of no density replaced by others, if some have one."""
    inside = np.isfinite(target.log_density(start))
    return start if inside.all() or not inside.any() else np.resize(start[inside], start.shape)


def draw_rows(target, rng):
    """Rows of a minibatch for a stochastic target; None for all rows."""
    if not target.stochastic:
        return None
    return rng.choice(target.n_rows, size=target.batch_size, replace=False)


def in_chunks(map, function, theta, n_rows):
    """``function`` of ``theta`` piece by piece, if the pieces are worth a dispatch.

    The cut depends on the sizes alone, never on the number of workers.
    """
    work = theta.size * (n_rows or 1)
    if work < _WORTH_A_DISPATCH or len(theta) < 64 or getattr(map, "whole", False):
        return function(theta)
    results = list(map(function, np.array_split(theta, 4)))
    if isinstance(results[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*results, strict=True))
    return np.concatenate(results)


def require_finite(values, what, iteration, history):
    """Raise when a run has diverged; the arrays of its `History` are kept on the error."""
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        error = FloatingPointError(
            f"{what} of particle {np.flatnonzero(bad)[0]} is not finite at iteration {iteration}; "
            "reduce learning_rate or step_size, use whiten=True, or check the log density there."
        )
        vars(error)["history"] = history.arrays()
        raise error


def with_posteriors(callback, changed):
    """``callback``, which is given ``changed(posterior)`` in place of each posterior."""

    def called(iteration, total, make_posterior, info):
        return callback(iteration, total, lambda: changed(make_posterior()), info)

    return called


class Rounds:
    """The rounds of a run: their numbers, and the callback between them.

    Parameters
    ----------
    total : int
        Iterations of a whole run.
    make_posterior : callable
        ``make_posterior()``: the posterior as it stands.
    callback : callable or None
        As of `Engine.run`.
    history : History, default=None
        Of a run that is continued.

    Attributes
    ----------
    history : History
    stopped : bool
        Whether the callback has asked to stop.
    """

    def __init__(self, total, make_posterior, callback, history=None):
        self.history = History() if history is None else history
        self.stopped = False
        self._total, self._make_posterior, self._callback = total, make_posterior, callback

    def end(self, iteration, **numbers):
        """End a round, after so many iterations; return whether to stop."""
        info = self.history.add(**numbers)
        if self._callback is not None:
            self.stopped = bool(self._callback(iteration, self._total, self._make_posterior, info))
        return self.stopped


class History:
    """Numbers collected between rounds, as arrays at the end."""

    def __init__(self):
        self._rows = []

    def add(self, **numbers):
        self._rows.append(numbers)
        return numbers

    def arrays(self):
        """dict of str to ndarray of shape (iterations,)."""
        keys = self._rows[-1] if self._rows else ()
        return {key: np.array([row.get(key, np.nan) for row in self._rows]) for key in keys}
