"""Frank-Wolfe Stein Sampling: particles found one at a time.

Each particle is placed by a few ascent steps against those already placed and then frozen, so that
particles can be added until a budget is met. Corrected from the paper: eq. 4 has the kernel's
gradient in the wrong argument (as printed particles attract), and its field omits the new
particle's own term ``lambda [k(y, y) s(y) + grad k]``, ``lambda = 1 / (n + 1)``, without which the
search has no stable point. A sweep over all particles afterwards, each against all others, repairs
what greedy placement left, and a move of all together gets their moments right
(`stein_matching.py`). The paper's own settings are parameters.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._input.validation import Interval, StrOptions
from ..kernels import Kernel, drift_kernel
from ..posterior import ParticlePosterior
from ._building_blocks.frank_wolfe import SteinMeasure
from ._building_blocks.particles import first_particles, repelling_particles
from ._building_blocks.rounds import Rounds, require_finite
from ._building_blocks.stein_matching import matched_particles
from .base import SubsamplingEngine
from .svgd import SVGD

# Of the SVGD that finds where searches begin.
_CACHE: dict[str, Any] = {"max_iter": 8, "learning_rate": 0.2}


@dataclass(eq=False, repr=False)
class FWSS(SubsamplingEngine):
    """Frank-Wolfe Stein Sampling with the corrected field.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        ``max(150, 3 dim)``, at most 1500, for "auto". With fewer particles the variance
        of sums of coefficients, such as predictions, is too large; fewer than ``dim`` cannot
        represent that of a single coefficient.
        Of networks: all that were trained, for "auto"; if more, the others start near these.
    kernel : Kernel, default=None
        ``RBF() + Linear()`` by default.
    init : {"laplace", "map", "prior", "svgd"}, default="laplace"
        Where the search for a particle begins: at a draw of the Gaussian at the mode, after all
        draws have moved together until their moments match; at the draw itself, with the mode as
        first particle; at a draw of the prior; or at the one of a short run of SVGD where the field
        is weakest (Cache-FWSS, algorithm 7).
    weights : {"uniform", "line-search", "fully-corrective", "stein"}, default="uniform"
        "uniform": all alike, a constant step of Frank-Wolfe. "line-search": the step towards a new
        particle that leaves the least kernel Stein discrepancy. "fully-corrective": all weights
        that do, after each particle; "stein": at the end only.
    self_term : bool, default=True
        Whether the field holds the new particle's own term. Without it, as the paper prints it, the
        search is not confined.
    n_sweeps : int, default=1
        Times that every particle is placed again with the others frozen. A warm start adds
        particles up to ``n_particles``, and leaves those it found where they are; with none to add
        it sweeps over all.
    max_iter_oracle : int, default=10
        Most ascent steps that place a particle; it ends when the field no longer falls.
    max_iter_sweep : int, default=12
        Most ascent steps for a particle in a sweep.
    max_iter_matching : int, default=6
        Most steps of moment matching of the starts, and as many at the end, each one score of every
        particle on all rows: all particles move together until Stein's identities hold for their
        mean, their covariance and each coordinate's skewness and tails. Only in whitened
        coordinates, and with more particles than coordinates. A warm start moves the particles it
        adds, until the identities hold for all. 0 leaves it out.
    learning_rate : float, default=0.05
        First step of Adam, in posterior standard deviations; it falls linearly to 0.
    tol : float, default=None
        Stop adding particles when no Stein residual (of a mean in standard deviations, or half of
        one of a variance) exceeds it, so that ``n_particles`` is only the most.
    n_blocks : int, default=1
        Blocks of coordinates that are searched at the same time (algorithm 4), for ``n_jobs``
        workers. The particles are as accurate for any number of blocks, but each block needs the
        score of all coordinates: one worker is slower with two blocks for any dimension, and two
        gain from about 1000 coordinates on at best (``examples/benchmarks/fwss_blocks.py``).
    batch_size : int, default=None
        Rows for the score of the particle that moves, with a control variate where its search
        begins, at which its score uses all rows; all rows by default. The frozen particles' scores
        always use all rows, once each.
    surrogate : int or "auto", default=None
        Rows that stand for all of very many, with the rest to the second order about the mode; as
        many as the error asks for, for "auto". The exact density corrects the particles
        (:doc:`/large_data`).
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Futami, Cui, Sato & Sugiyama (2018), "Frank-Wolfe Stein sampling" (arXiv:1805.07912v1),
    algorithms 2 to 5, 7 and 8.

    Liu & Wang (2018), "Stein variational gradient descent as moment matching" (arXiv:1810.11693).

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import FWSS
    >>> model = BayesianLogisticRegression(inference=FWSS(n_particles=200))
    """

    _parameter_constraints = {
        **SubsamplingEngine._parameter_constraints,
        "kernel": [None, Kernel],
        "init": [StrOptions({"laplace", "map", "prior", "svgd"})],
        "weights": [StrOptions({"uniform", "line-search", "fully-corrective", "stein"})],
        "self_term": ["boolean"],
        "n_sweeps": [Interval(Integral, 0, None, closed="left")],
        "max_iter_oracle": [Interval(Integral, 1, None, closed="left")],
        "max_iter_sweep": [Interval(Integral, 1, None, closed="left")],
        "max_iter_matching": [Interval(Integral, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [None, Interval(Real, 0, None, closed="neither")],
        "n_blocks": [Interval(Integral, 1, None, closed="left")],
    }

    _: KW_ONLY
    kernel: Any = None
    init: Any = "laplace"
    weights: str = "uniform"
    self_term: bool = True
    n_sweeps: int = 1
    max_iter_oracle: int = 10
    max_iter_sweep: int = 12
    max_iter_matching: int = 6
    learning_rate: float = 0.05
    tol: float | None = None
    n_blocks: int = 1

    continues = True
    curved = calibrated = near_start = True

    @property
    def requires(self):
        return ("score", "sample_prior") if self.init == "prior" else ("score",)

    @property
    def ksd_kernel(self):
        """Of the discrepancy in the history, before its scale is fixed."""
        return drift_kernel(self.kernel)

    def n_rounds(self, target):
        return repelling_particles(self.n_particles, target.dim) * (1 + self.n_sweeps)

    def run(self, target, rng, *, init=None, map=map, callback=None):
        n, kept = repelling_particles(self.n_particles, target.dim), 0
        if isinstance(init, ParticlePosterior):
            # Copies, which a posterior with weights has, would stay together.
            _, first = np.unique(init.particles, axis=0, return_index=True)
            init, kept = init.particles[np.sort(first)], len(first)
            if kept > n:
                raise ValueError(
                    f"n_particles={n} is less than the {kept} particles of the posterior that a "
                    "warm start goes on from; raise it, or start again."
                )
        starts = self._starts(target, rng, n, init, kept, map)
        kernel = self.ksd_kernel.fixed(starts)
        measure, iteration = SteinMeasure(n, starts), 0
        cached = self.init == "svgd" and not kept
        known: Any = target.score(starts) if cached or kept or target.stochastic else None
        for i in range(kept):
            measure.put(i, starts[i], known[i])
        total = (n - kept) * (1 + self.n_sweeps) or n * self.n_sweeps
        n_blocks = min(self.n_blocks, target.dim)
        rounds = Rounds(total, measure.posterior, callback)
        for iteration, i in enumerate(self._order(measure, kept, n), start=1):
            new = i == measure.size
            oracle = measure.oracle(target, kernel, i, self.self_term)
            if new and cached:
                # Algorithm 7: the cached particle where the field is weakest comes first.
                first = i + oracle.weakest(starts[i:], known[i:])
                starts[[i, first]], known[[i, first]] = starts[[first, i]], known[[first, i]]
            y = (starts if new else measure.points)[i : i + 1].copy()
            if target.stochastic:
                oracle.start = y, (known if new else measure.scores)[i : i + 1].copy()
            n_steps = self.max_iter_oracle if new else self.max_iter_sweep
            if n_blocks == 1:
                y = oracle.search(y, self.learning_rate, n_steps, rng)
            else:
                y = oracle.search_blocks(y, self.learning_rate, n_steps, rng, n_blocks, map)
            score = target.score(y)
            require_finite(score, "the score", iteration, rounds.history)
            measure.put(i, y[0], score[0])
            if self.weights == "line-search" and new:
                measure.line_search()
            elif self.weights == "fully-corrective":
                measure.correct()
            numbers = {"residual": measure.residual(), "ksd": measure.ksd()}
            if rounds.end(iteration, **numbers, n_particles=measure.size):
                break
        if iteration:
            measure.match(target, self.max_iter_matching, self._first_free(measure, kept), map)
        if self.weights == "stein":
            measure.correct()
        # With minibatches too, each frozen score is of all rows.
        return measure.posterior(history=rounds.history.arrays(), n_iter=iteration)

    def _starts(self, target, rng, n, init, kept, map):
        """Where the search for each particle begins, shape (n, dim)."""
        starts = first_particles(target, rng, n, init)
        if self.init == "svgd" and not kept:
            engine = SVGD(n, kernel=self.kernel, batch_size=self.batch_size, **_CACHE)
            return engine.run(target, rng, init=starts, map=map).particles
        if init is not None:
            return starts
        if self.init == "laplace":
            return matched_particles(target, starts, self.max_iter_matching, map)
        if self.init == "prior":
            return target.sample_prior(rng, n)
        if self.init == "map":
            mode = np.zeros((1, target.dim))
            starts[:1] = mode if target.start is None else target.start.forward(mode)
        return starts

    def _order(self, measure, kept, n):
        """The particles to place: new ones, until there are enough, then those of the sweeps."""
        while measure.size < n and not (
            self.tol is not None and measure.size and measure.residual() < self.tol
        ):
            yield measure.size
        for _ in range(self.n_sweeps):
            yield from range(self._first_free(measure, kept), measure.size)

    def _first_free(self, measure, kept):
        """The first particle that may move: a warm start leaves those it found, if it added any."""
        return kept if measure.size > kept else 0
