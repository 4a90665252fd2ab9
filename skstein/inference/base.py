"""What every engine is: a parameter object with one method, ``run``.

An engine sees a target, a generator and a ``map`` for independent pieces, and nothing else. The
target it is given is usually whitened (`infer.py` wraps it), so engines are written for
densities whose scale is about 1 and whose start is a standard normal.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

from sklearn.base import BaseEstimator, clone

from .._input.validation import Interval, StrOptions
from .._tools.copies import changed
from ..posterior import ParticlePosterior
from ..protocols import Rng, WorkingTarget
from ..targets import supports

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
    control_variate : {1, 2} or None
        Its order; None for the second where the target has a Hessian of rows and few coordinates.
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
    control_variate: int | None = None
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
            raise ValueError("batch_size and surrogate are two ways to do with few rows: use one.")
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
