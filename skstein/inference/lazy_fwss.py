"""Lazy Frank-Wolfe Stein Sampling: an oracle call only if no particle in store is good enough.

The Stein kernel's embedding of the target is zero, so the gap ``w'Kw - sum_l w_l k0(x_l, x)`` by
which a particle ``x`` can lower the discrepancy is known, which the paper leaves open (its eq. 31
needs an integral). A store of particles from a short run of SVGD answers most calls. Corrected from
the paper: a particle helps where its gap is positive and at least ``Phi / K``, and ``Phi`` starts
at half the largest gap (algorithm 9 has the sign the other way). The largest gap over the store is
a lower bound of the true one: a monitor of progress, not a certificate.

Beyond the paper: the store starts from draws whose mean and covariance are exactly those of the
Gaussian at the mode, which costs no score, and at the end all particles move together until their
moments are right (`stein_matching.py`). With that a store of two iterations of SVGD is
enough, and if there are more particles than coordinates, a particle that no longer helps needs no
long search.
"""

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._input.validation import Interval
from ..kernels import Kernel, drift_kernel
from ._building_blocks.frank_wolfe import SteinMeasure
from ._building_blocks.particles import first_particles, of_unit_moments, repelling_particles
from ._building_blocks.rounds import History, Rounds, require_finite
from .base import ParticleEngine
from .svgd import SVGD


@dataclass(eq=False, repr=False)
class LazyFWSS(ParticleEngine):
    """Lazy Frank-Wolfe Stein Sampling, with fully corrective weights.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Particles in store, and the most that are weighted: ``max(150, 3 dim)``, at most 1500, for
        "auto". Of networks: all that were trained, for "auto".
    kernel : Kernel, default=None
        Of the field that moves particles, ``RBF() + Linear()`` by default.
    max_iter : int, default=2
        Iterations of SVGD that fill the store.
    learning_rate : float, default=0.4
        First step of SVGD and of the oracle, in posterior standard deviations.
    max_iter_oracle : int, default=2
        Most ascent steps of an oracle call.
    max_iter_matching : int, default=4
        Most steps of the moment matching at the end, each one score of every particle taken, as in
        `FWSS`. With no more particles than coordinates (for "auto" from 1500 on) nothing is
        matched: raise ``max_iter`` to 6.
    accuracy : float, default=4.0
        ``K``: a particle in store is good enough from ``Phi / K`` on.
    tol : float, default=0.01
        Stop when ``Phi`` has fallen to this share of its first value.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Futami, Cui, Sato & Sugiyama (2018), "Frank-Wolfe Stein sampling" (arXiv:1805.07912v1),
    algorithms 9 and 10.

    Liu & Wang (2018), "Stein variational gradient descent as moment matching" (arXiv:1810.11693).

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import LazyFWSS
    >>> model = BayesianLogisticRegression(inference=LazyFWSS())
    """

    _parameter_constraints = {
        **ParticleEngine._parameter_constraints,
        "kernel": [None, Kernel],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter_oracle": [Interval(Integral, 1, None, closed="left")],
        "max_iter_matching": [Interval(Integral, 0, None, closed="left")],
        "accuracy": [Interval(Real, 1, None, closed="left")],
        "tol": [Interval(Real, 0, 1, closed="neither")],
    }
    subsampling = None

    _: KW_ONLY
    kernel: Any = None
    max_iter: int = 2
    learning_rate: float = 0.4
    max_iter_oracle: int = 2
    max_iter_matching: int = 4
    accuracy: float = 4.0
    tol: float = 0.01

    curved = calibrated = near_start = True

    def n_rounds(self, target):
        # Each round uses up a particle in store or halves Phi.
        halvings = math.floor(math.log2(1.0 / self.tol)) + 1
        return repelling_particles(self.n_particles, target.dim) - 1 + halvings

    def run(self, target, rng, *, init=None, map=map, callback=None):
        n = repelling_particles(self.n_particles, target.dim)
        svgd = SVGD(n, kernel=self.kernel, max_iter=self.max_iter, learning_rate=self.learning_rate)
        if init is None:
            start = _typical_draws(target, rng, n)
        else:
            start = first_particles(target, rng, n, init)
        store = svgd.run(target, rng, init=start, map=map).particles
        scores = target.score(store)
        require_finite(scores, "the score", 0, History())
        kernel = drift_kernel(self.kernel).fixed(store)
        measure, used = SteinMeasure(n, store), np.zeros(n, dtype=bool)

        def accept(j):
            used[j] = True
            measure.put(measure.size, store[j], scores[j])
            measure.correct()

        accept(np.argmin(np.einsum("ij,ij->i", scores, scores)))
        # Algorithm 10, with the sign of the gap as in eq. 31.
        phi = 0.5 * measure.gaps(store, scores).max()
        least, n_calls, iteration = self.tol * phi, 0, 0
        rounds = Rounds(self.n_rounds(target), measure.posterior, callback)
        while phi >= least > 0.0 and not used.all():
            iteration += 1
            gaps = np.where(used, -np.inf, measure.gaps(store, scores))
            best = np.argmax(gaps)
            enough = gaps[best] >= phi / self.accuracy
            if not enough:
                n_calls += 1
                oracle, y = measure.oracle(target, kernel, measure.size), store[best : best + 1]
                y = oracle.search(y, self.learning_rate, self.max_iter_oracle, None)
                score = target.score(y)
                require_finite(score, "the score", iteration, rounds.history)
                enough = measure.gaps(y, score)[0] >= phi / self.accuracy
                if enough:
                    store[best], scores[best] = y[0], score[0]
            if enough:
                accept(best)
            else:
                phi /= 2
            told = {"gap": gaps[best], "phi": phi, "ksd": measure.ksd(), "n_oracle_calls": n_calls}
            if rounds.end(iteration, **told, n_particles=measure.size):
                break
        measure.match(target, self.max_iter_matching, map=map)
        return measure.posterior(history=rounds.history.arrays(), n_iter=iteration)


def _typical_draws(target, rng, n):
    """Draws of the Gaussian start with exactly its mean, and if they are enough its covariance."""
    z = rng.standard_normal((n, target.dim))
    z = of_unit_moments(z - z.mean(axis=0))
    return z if target.start is None else target.start.forward(z)
