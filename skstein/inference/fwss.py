"""Frank-Wolfe Stein Sampling: particles found one at a time.

Each particle is placed by a few ascent steps against those already placed and then frozen, so that
particles can be added until a budget is met. Corrected from the paper: eq. 4 has the kernel's
gradient in the wrong argument (as printed particles attract), and its field omits the new
particle's own term ``lambda [k(y, y) s(y) + grad k]``, ``lambda = 1 / (n + 1)``, without which the
search has no stable point. A sweep over all particles afterwards, each against all others, repairs
what greedy placement left.
"""

from numbers import Integral, Real

import numpy as np

from .._validation import Interval
from ..kernels import RBF, Kernel, Linear
from ..posterior import ParticlePosterior
from ._adam import Adam
from .base import (
    BATCH_SIZE,
    N_PARTICLES,
    Engine,
    History,
    automatic,
    draw_rows,
    require_finite,
    starting_particles,
)


class FWSS(Engine):
    """Frank-Wolfe Stein Sampling with the corrected field.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        ``max(100, 2 dim)``, at most 500, for "auto". Fewer than ``dim`` cannot carry the variance.
    kernel : Kernel, default=None
        ``RBF() + Linear()`` by default.
    n_sweeps : int, default=1
        Times that every particle is placed again with the others frozen. A warm start adds
        particles up to ``n_particles``, and leaves those it found where they are; with none to add
        it sweeps over all.
    max_iter_oracle : int, default=50
        Ascent steps that place a particle.
    max_iter_sweep : int, default=20
        Ascent steps for a particle in a sweep.
    learning_rate : float, default=0.05
        First step of Adam, in posterior standard deviations; it falls linearly to 0.
    batch_size : int, default=None
        Rows for the score of the particle that moves, with a control variate at the mode; all rows
        by default. The frozen particles' scores always use all rows, once each.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    "Frank-Wolfe Stein sampling", algorithm 2.

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import FWSS
    >>> model = BayesianLogisticRegression(inference=FWSS(n_particles=200))
    """

    _parameter_constraints = {
        "n_particles": N_PARTICLES,
        "kernel": [None, Kernel],
        "n_sweeps": [Interval(Integral, 0, None, closed="left")],
        "max_iter_oracle": [Interval(Integral, 1, None, closed="left")],
        "max_iter_sweep": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": BATCH_SIZE,
        "whiten": ["boolean"],
        "one_sided": ["boolean"],
    }

    def __init__(
        self,
        n_particles="auto",
        *,
        kernel=None,
        n_sweeps=1,
        max_iter_oracle=50,
        max_iter_sweep=20,
        learning_rate=0.05,
        batch_size=None,
        whiten=True,
        one_sided=True,
    ):
        self.n_particles = n_particles
        self.kernel = kernel
        self.n_sweeps = n_sweeps
        self.max_iter_oracle = max_iter_oracle
        self.max_iter_sweep = max_iter_sweep
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.whiten = whiten
        self.one_sided = one_sided

    continues = True

    def stays_near_start(self, target):
        return True

    def n_rounds(self, target):
        return automatic(self.n_particles, target.dim) * (1 + self.n_sweeps)

    def run(self, target, rng, *, init=None, map=map, callback=None):
        n, kept = automatic(self.n_particles, target.dim), 0
        if isinstance(init, ParticlePosterior):
            init, kept = init.particles, len(init)
            if kept > n:
                raise ValueError(
                    f"n_particles={n} is less than the {kept} particles of the posterior that a "
                    "warm start goes on from; raise it, or start anew."
                )
        theta = starting_particles(target, rng, n, init)
        scores = np.zeros_like(theta)
        if kept:
            scores[:kept] = target.score(theta[:kept])
        kernel = (RBF() + Linear() if self.kernel is None else self.kernel).fixed(theta)
        added = range(kept, n)
        swept = added or range(n)
        moves = [(i, False) for i in added] + [(i, True) for i in swept] * self.n_sweeps
        history, placed = History(), kept

        def current():
            return ParticlePosterior(theta[:placed].copy(), scores=scores[:placed].copy())

        iteration = 0
        for iteration, (i, sweep) in enumerate(moves, start=1):
            placed = max(placed, i + 1)
            theta[i] = self._place(target, kernel, i, theta[:placed], scores[:placed], sweep, rng)
            scores[i] = target.score(theta[i : i + 1])[0]
            require_finite(scores[i : i + 1], "the score", iteration, history.arrays())
            info = history.add(score=np.abs(scores[:placed].sum(axis=0)).max() / placed)
            if callback is not None and callback(iteration, len(moves), current, info):
                break
        # With minibatches too, each frozen score is of all rows.
        return ParticlePosterior(
            theta[:placed], scores=scores[:placed], history=history.arrays(), n_iter=iteration
        )

    def _place(self, target, kernel, i, theta, scores, sweep, rng):
        """Ascend the field of the other particles and of particle ``i`` itself from where it is."""
        y, present = theta[i : i + 1], np.arange(len(theta)) != i
        n_steps = self.max_iter_sweep if sweep else self.max_iter_oracle
        own = 1.0 / len(theta)
        points, frozen = theta[present], scores[present]
        adam = Adam(self.learning_rate, n_steps)
        for _ in range(n_steps):
            field = own * kernel.self_term(y, target.score(y, draw_rows(target, rng)))
            if len(points):
                field += (1.0 - own) * kernel.drift(y, points, frozen)
            y = y + adam.step(field)
        return y[0]
