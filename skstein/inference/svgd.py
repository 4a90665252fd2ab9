"""Stein variational gradient descent (Liu & Wang 2016).

All particles move together along the kernelised Stein drift. The textbook kernel (an RBF with the
median bandwidth) loses most of the variance above ten dimensions; in whitened coordinates, with an
RBF of squared bandwidth d plus a linear kernel, mean and variance come out right.

The drift is slow along the skewness of a coordinate, which this kernel hardly sees. Moment matching
(`stein_matching.py`) before the first iteration and after the last makes up for it.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._input.validation import Interval
from ..kernels import Kernel, drift_kernel
from ..posterior import ParticlePosterior
from ._building_blocks.adam import Adam
from ._building_blocks.particles import draw_rows, first_particles, in_chunks, repelling_particles
from ._building_blocks.rounds import Rounds, require_finite
from ._building_blocks.stein_matching import matched_particles
from .base import SubsamplingEngine


@dataclass(eq=False, repr=False)
class SVGD(SubsamplingEngine):
    """Stein variational gradient descent.

    How it works, and when not to trust it: :doc:`/methods/fwss`.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        ``max(200, 4 dim)``, at most 1500, for "auto". With fewer particles the variance
        of sums of coefficients, such as predictions, is too large; fewer than ``dim`` cannot
        represent that of a single coefficient.
        Of networks: all that were trained, for "auto"; if more, the others start near these.
    kernel : Kernel, default=None
        ``RBF() + Linear()`` by default.
    max_iter : int, default=100
        Iterations, each one score of every particle. From the Laplace start more iterations rarely
        help: with few particles for the dimension the fixed point itself is too wide.
    max_iter_matching : int, default=6
        Most steps of moment matching before the first iteration, and as many after the last, each
        one score of every particle; 0 for none. There is none with minibatches or ``whiten=False``.
    learning_rate : float, default=0.05
        First step of Adam, in posterior standard deviations; it falls linearly to 0.
    batch_size : int, default=None
        Rows for each score, with a control variate at the mode; all rows by default.
    surrogate : int or "auto", default=None
        Rows that stand for all of very many, with the rest to the second order about the mode; as
        many as the error asks for, for "auto". The exact density corrects the particles
        (:doc:`/large_data`).
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Liu & Wang (2016), "Stein variational gradient descent: a general purpose Bayesian inference
    algorithm" (arXiv:1608.04471).

    Liu & Wang (2018), "Stein variational gradient descent as moment matching" (arXiv:1810.11693).

    Examples
    --------
    >>> from skstein import BayesianLinearRegression
    >>> model = BayesianLinearRegression(inference="svgd").set_params(inference__max_iter=200)
    """

    _parameter_constraints = {
        **SubsamplingEngine._parameter_constraints,
        "kernel": [None, Kernel],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_iter_matching": [Interval(Integral, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
    }

    _: KW_ONLY
    kernel: Any = None
    max_iter: int = 100
    max_iter_matching: int = 6
    learning_rate: float = 0.05

    curved = calibrated = near_start = True

    def n_rounds(self, target):
        return self.max_iter

    def run(self, target, rng, *, init=None, map=map, callback=None):
        m = repelling_particles(self.n_particles, target.dim, least=200, each=4)
        theta = first_particles(target, rng, m, init)
        theta = matched_particles(target, theta, self.max_iter_matching, map)
        kernel = drift_kernel(self.kernel)
        adam = Adam(self.learning_rate, self.max_iter)
        rounds = Rounds(self.max_iter, lambda: ParticlePosterior(theta), callback)
        for iteration in range(1, self.max_iter + 1):
            rows = draw_rows(target, rng)
            scores = in_chunks(map, lambda part: target.score(part, rows), theta, target.n_rows)  # noqa: B023
            drift = kernel.fixed(theta).drift(theta, theta, scores)
            require_finite(drift, "the drift", iteration, rounds.history)
            theta = theta + adam.step(drift)
            if iteration == self.max_iter:
                theta = matched_particles(target, theta, self.max_iter_matching, map)
            size, score = np.sqrt(np.mean(drift**2)), np.abs(scores.mean(axis=0)).max()
            if rounds.end(iteration, drift=size, score=score):
                break
        return ParticlePosterior(theta, history=rounds.history.arrays(), n_iter=iteration)
