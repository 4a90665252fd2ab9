r"""Particle mean field variational Bayes for neural networks.

The weights of all particles move by Langevin steps with an adaptive drift; noise variances and
prior precisions are factors of their own, in closed form given the particles:

.. math::
   q(w)\, q(\tau)\, q(\sigma^2), \qquad \langle 1/\sigma^2 \rangle = \frac{a + n/2}{b +
   \frac1{2M} \sum_i \sum_j (y_j - f(x_j; w_i))^2}, \qquad \langle \tau \rangle =
   E[\tau \mid \tfrac1M \sum_i w_i^2].

After Tran, Tseng & Kohn, algorithm 2. What differs:

- all weights of a particle move at once, given its own others (``block_fraction=1``). The paper
  moves a random tenth and puts the mean of the particles in place of the rest; networks in
  different modes have no common mean, and on simulated data the test error doubled;
- the drift is :math:`a\, m / (v + \lambda)` in units of the metric, where :math:`m` and :math:`v`
  average the mean and the standard deviation of the particles' gradients, and steps are clipped. As
  printed, :math:`m / \sqrt{v + \lambda}` with a double root and without clipping, weights overflow
  within a few iterations;
- the likelihood of a minibatch is scaled by n / B, which algorithm 2 leaves out;
- the step is in units of a Gauss-Newton metric, one for each particle, and starts from trained
  networks. ``preconditioned=False`` is the paper's;
- the posterior pools snapshots of the second half.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..._input.validation import Interval, StrOptions
from ...diagnostics import split_rhat
from ...posterior import ParticlePosterior
from .._building_blocks.rounds import Rounds, require_finite
from ..base import BATCH_SIZE, N_NETWORKS, N_PARTICLES, Engine

_FIRST, _SECOND, _SMALL = 0.9, 0.99, 1e-8
_LARGEST = 10.0  # mean size of a step's drift, in standard deviations of its noise
_REFRESH = 20  # iterations between updates of the closed-form factors
_RENEWAL = 5  # of those between two metrics
_ROUNDS = 20
_MIXED, _LEAST_SNAPSHOTS, _JUDGED_ROWS = 1.12, 4, 200  # of the median split R-hat of outputs


@dataclass(eq=False, repr=False)
class AdaptivePMFVB(Engine):
    """Particle mean field variational Bayes for targets that are neural networks.

    How it works, and when not to trust it: :doc:`/methods/neural_networks`. With features that
    correlate by 0.9 and more, particles spread too little along what the rows tie together.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Networks that move together; trained ones are repeated if there are fewer. For "auto" those
        that were trained, or 20 where none were.
    block_fraction : float, default=1.0
        Share of the weights that move in an iteration, chosen at random for each particle, with the
        particles' mean in place of the others; all weights, each particle by itself, for 1.
    step_size : float or "auto", default="auto"
        Step h of the Langevin dynamics; "auto" is 0.02, or less where a minibatch is a small share
        of the rows, so that its noise stays below a tenth of the dynamics'.
    drift : float, default=0.0
        Factor of the adaptive drift. Trained networks do not need it; the paper has 100, from small
        random weights.
    max_iter : int, default=2000
        Langevin steps; every network moves in each.
    n_snapshots : int, default=10
        Pooled, of the second half of the iterations.
    batch_size : int or None, default=100
        Rows of a step; all rows for None.
    preconditioned : bool, default=True
        Whether steps are in units of a Gauss-Newton metric, in which no weight counts less than the
        mean of its row.

    Raises
    ------
    FloatingPointError
        If the particles diverge.

    Warns
    -----
    ConvergenceWarning
        If outputs on the rows, of each particle at four snapshots or more, have not mixed:
        ``posterior_.diagnostics["rhat"]``, the median split R-hat, is above 1.12.

    References
    ----------
    Tran, Tseng & Kohn, "Particle mean field variational Bayes" (arXiv:2303.13930), algorithm 2.

    Kim, Song & Liang (2022), "Stochastic gradient Langevin dynamics with adaptive drifts"
    (arXiv:2009.09535).

    Examples
    --------
    >>> from skstein import BayesianMLPRegressor
    >>> from skstein.inference import AdaptivePMFVB
    >>> reg = BayesianMLPRegressor(inference=AdaptivePMFVB(block_fraction=0.1))
    """

    _parameter_constraints = {
        "n_particles": N_PARTICLES,
        "block_fraction": [Interval(Real, 0, 1, closed="right")],
        "step_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "drift": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 2, None, closed="left")],
        "n_snapshots": [Interval(Integral, 1, None, closed="left")],
        "batch_size": BATCH_SIZE,
        "preconditioned": ["boolean"],
    }
    requires = ("expected_precision", "sample_initial", "scales", "squared_errors", "weight_score")
    gaussian = False
    subsampling = "plain"

    n_particles: int | str = "auto"
    _: KW_ONLY
    block_fraction: float = 1.0
    step_size: Any = "auto"
    drift: float = 0.0
    max_iter: int = 2000
    n_snapshots: int = 10
    batch_size: int | str | None = 100
    preconditioned: bool = True

    def n_rounds(self, target):
        return min(_ROUNDS, self.max_iter)

    def run(self, target, rng, *, init=None, map=map, callback=None):
        m, p, n = self.moving(N_NETWORKS).n_particles, target.n_weights, target.n_rows
        # Copies of a network part by their noise.
        theta = target.sample_initial(rng, m) if init is None else np.resize(init, (m, target.dim))
        batch = n if self.batch_size is None else min(self.batch_size, n)
        step = min(0.02, 0.4 * batch / n) if self.step_size == "auto" else self.step_size
        scale, first, second = np.ones((m, p)), np.zeros(p), np.zeros(p)
        size = max(1, round(self.block_fraction * p))
        limit = _LARGEST * np.sqrt(size)
        pool = []
        kept = np.linspace(self.max_iter / 2, self.max_iter, self.n_snapshots + 1)[1:]
        snapshots = set(kept.round().astype(int))
        parts = np.array_split(np.arange(1, self.max_iter + 1), self.n_rounds(target))
        ends = {part[-1] for part in parts}

        def make_posterior():
            # Before the first snapshot without draws, which would change what follows.
            particles = np.concatenate(pool) if pool else theta.copy()
            history = rounds.history.arrays()
            own = {"time": step * iteration} if self.preconditioned else {}
            return ParticlePosterior(particles, history=history, n_iter=iteration, diagnostics=own)

        rounds = Rounds(self.max_iter, make_posterior, callback)
        for iteration in range(1, self.max_iter + 1):
            weights = theta[:, :p]
            if (iteration - 1) % _REFRESH == 0:
                precision = target.expected_precision(np.mean(weights**2, axis=0))
                shape, rate = self._noise_factor(target, theta)  # q(sigma^2) of eq. 36
                theta[:, p:] = np.log(rate / shape)
                if self.preconditioned and (iteration - 1) % (_REFRESH * _RENEWAL) == 0:
                    scale = np.stack([target.scales(row, precision, rng) for row in theta])
            noise_precision = np.exp(-theta[0, p:]) if target.n_noise else np.ones(target.n_outputs)
            rows = rng.choice(n, batch, replace=False) if batch < n else np.arange(n)
            point, moves = weights, np.ones((m, p), dtype=bool)
            if size < p:  # eq. 32, with the others' mean for the expectation
                moves = rng.random((m, p)).argsort(axis=1) < size
                point = np.where(moves, weights, weights.mean(axis=0))
            score = scale * target.weight_score(point, rows, precision, noise_precision)
            require_finite(score, "the score", iteration, rounds.history)
            if self.drift:
                score = score + self.drift * first / (second + _SMALL)
            drift = 0.5 * np.sqrt(step) * np.where(moves, score, 0.0)
            length = np.linalg.norm(drift, axis=1, keepdims=True)
            drift *= np.minimum(1.0, limit / np.maximum(length, 1e-300))
            noise = np.where(moves, rng.standard_normal((m, p)), 0.0)
            theta[:, :p] = weights + np.sqrt(step) * scale * (drift + noise)  # eq. 33
            if self.drift:  # algorithm 2, line 10
                new = scale * target.weight_score(theta[:, :p], rows, precision, noise_precision)
                first = _FIRST * first + (1.0 - _FIRST) * new.mean(axis=0)
                second = _SECOND * second + (1.0 - _SECOND) * new.std(axis=0)
            if iteration in snapshots:  # with noise variances drawn from their factor
                drawn, (shape, rate) = theta.copy(), self._noise_factor(target, theta)
                drawn[:, p:] = np.log(rate / rng.gamma(shape, size=(m, target.n_noise)))
                pool.append(drawn)
            if iteration in ends and rounds.end(iteration, drift=float(length.mean())):
                break
        posterior = make_posterior()
        if len(pool) >= _LEAST_SNAPSHOTS:
            X = target.data[0][:: -(-n // _JUDGED_ROWS)]
            outputs = [target.network.outputs(some, X).reshape(m, -1) for some in pool]
            rhat = float(np.median(split_rhat(np.stack(outputs, axis=1))))
            posterior.diagnostics["rhat"] = rhat
            if rhat > _MIXED:
                posterior.converged = False
                posterior.diagnostics["message"] = (
                    "outputs of the networks have not mixed: their means, spread and noise may be "
                    "off; raise max_iter. Predictions may still be good: compare a score."
                )
        return posterior

    def _noise_factor(self, target, theta):
        """Shape and rate of the inverse gamma factors of the noise variances."""
        if not target.n_noise:
            return 1.0, np.ones(0)
        errors = np.mean([target.squared_errors(row) for row in theta], axis=0)
        return target.noise_shape + 0.5 * target.total_weight, target.noise_scale + 0.5 * errors
