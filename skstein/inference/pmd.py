"""Particle Mirror Descent.

Mirror descent on densities: each step multiplies the current density by a power of the posterior
over itself,

    log q' = (1 - g) log q + g (log p + (n / b) sum_batch log-likelihood),

represented by weighted particles (a "good" proposal, never moved) or by a weighted kernel density
estimate that is resampled. Only values of the log density are used, never a gradient. What differs
from the paper's algorithm 1, each found necessary:

- the step size is ``g_t = 2 / (t - 1 + 2 n / b)``, so that the first step applies each datum at
  most once; the power of the likelihood reached, ``1 - prod(1 - g)``, is reported;
- a step that would take more than 0.3 of the effective sample size is split exactly;
- minibatches are reshuffled epochs without replacement: with replacement the noise stays;
- particles are resampled (systematically) only when the effective sample size falls below 0.7 m,
  not at every step;
- draws from the kernels keep the mean and covariance of the particles, group by group
  (`kernel_density.py`); from round kernels each draw inflates the variance;
- a final stage on all rows removes the remaining bias: importance weights where they do not
  degenerate, and preconditioned Crank-Nicolson moves.

`update` learns from more rows (`stream.py`).
"""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._input.validation import HasMethods, Interval, StrOptions
from .._statistics.density_fingerprint import Fingerprint
from ..posterior import ParticlePosterior
from ..targets import supports
from ._building_blocks.crank_nicolson import pcn_moves
from ._building_blocks.kernel_density import defensive_draws, grouped_draws, plain_draws
from ._building_blocks.mirror_steps import MAX_PIECES, WeightedParticles, batches, mirror_step
from ._building_blocks.particles import in_chunks
from ._building_blocks.rounds import Rounds
from ._building_blocks.step_sizes import STEP_SIZES
from ._run.stream import N_PARTS, Stream
from ._run.stream_memory import Memory
from .base import BATCH_SIZE, N_PARTICLES, ParticleEngine

_IMPORTANCE_UP_TO = 4  # coordinates in which importance weights hold without the final moves
_PRIOR_UP_TO = 10  # coordinates in which "auto" starts from the prior
_PER_COORDINATE = 15  # particles that a start from the prior needs
_DISTINCT = 0.25  # share of the particles that the final moves start from at least
_DF = 10  # degrees of freedom of the Student-t start


@dataclass(eq=False, repr=False)
class PMD(ParticleEngine):
    """Particle Mirror Descent.

    How it works, and when not to trust it: :doc:`/methods/pmd`.

    Parameters
    ----------
    n_particles : int, default=1000
        Number of particles.
    init : {"auto", "prior", "laplace", "student-t"} or distribution, default="auto"
        Where the particles start: the prior, from which only likelihood values are needed; the
        Gaussian at the mode, or a Student-t with
        ten degrees of freedom there; or a distribution of your own, an object with
        ``rvs(size, random_state)`` and ``logpdf(theta)``, such as a frozen one of `scipy.stats`,
        over the target's own coordinates (for an estimator with ``standardize=True``, those of the
        standardised features). "auto" is the prior in up to ten coordinates, or where there is no
        score.
    strategy : {"auto", "particles", "kde", "hybrid"}, default="auto"
        "particles": the first draws are only weighted, which needs a start close to the posterior.
        "kde": they are redrawn from a kernel density estimate when their weights degenerate.
        "hybrid": the same, and at the end ``n_weighted`` draws of the estimate are weighted with
        all rows. "auto" is "particles" from a start other than the prior, "hybrid" from the prior
        in up to four coordinates, else "kde".
    step_size : {"auto", "inverse", "inverse-sqrt"} or callable, default="auto"
        ``g_t = step_size(t, n_batches)`` in (0, 1], for t = 1, 2, ... and batches in an epoch:
        ``2 / (t - 1 + 2 n_batches)``, ``1 / t``, ``1 / (100 + sqrt(t))``, or a function;
        `InverseTime` and `InverseSqrt` have other constants.
    max_iter : int, default=10
        Epochs: passes over all rows.
    batch_size : int, default=None
        Rows in a step, in reshuffled epochs; all rows by default.
    replacement : bool, default=False
        Draw the rows of a batch with replacement, as published. Its noise does not vanish.
    target_ess : float, default=0.7
        Redraw particles when their effective sample size falls below this share of their number,
        and split steps under which it would fall by more. With 1 they are redrawn at every step,
        and no step is split, as published.
    kernel : {"grouped", "plain"}, default="grouped"
        "grouped": full covariances of groups of particles, around centres shrunk so that the draws
        have the particles' covariance. "plain": one round kernel around the particles, which
        widens them, as published.
    bandwidth : float, default=None
        Of the kernels: for "grouped" in (0, 1], in standard deviations, Silverman's rule by
        default; for "plain" in units of the coordinates, ``m ** (-1 / (dim + 2))`` by default.
    n_weighted : int, default=None
        Particles that are weighted in the last stage of "hybrid" and in later passes over a stream;
        ``n_particles`` by default.
    n_moves : int or "auto", default="auto"
        Moves of every particle in the final stage, each one log likelihood of all rows: 60, or as
        many as there are coordinates if that is more, for "auto".
    n_total : int, default=None
        Rows of a whole stream, for `partial_fit`: the rows after that many are another pass over
        the same ones. By default all rows are new.
    min_power : float, default=0.95
        Warn when a smaller power of the likelihood was reached.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Dai, He, Dai & Song (2016), "Provable Bayesian inference via particle mirror descent"
    (arXiv:1506.03101), algorithms 1 and 2.

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import PMD
    >>> model = BayesianLogisticRegression(inference=PMD(init="prior"))
    """

    subsampling = "plain"
    _parameter_constraints = {
        **ParticleEngine._parameter_constraints,
        "n_particles": N_PARTICLES[1:],
        "init": [
            StrOptions({"auto", "prior", "laplace", "student-t"}),
            HasMethods(["rvs", "logpdf"]),
        ],
        "strategy": [StrOptions({"auto", "particles", "kde", "hybrid"})],
        "step_size": [StrOptions(set(STEP_SIZES)), callable],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": BATCH_SIZE,
        "replacement": ["boolean"],
        "target_ess": [Interval(Real, 0, 1, closed="right")],
        "kernel": [StrOptions({"grouped", "plain"})],
        "bandwidth": [None, Interval(Real, 0, None, closed="neither")],
        "n_weighted": [None, Interval(Integral, 2, None, closed="left")],
        "n_moves": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "n_total": [None, Interval(Integral, 1, None, closed="left")],
        "min_power": [Interval(Real, 0, 1, closed="both")],
    }

    n_particles: int = 1000
    _: KW_ONLY
    init: Any = "auto"
    strategy: str = "auto"
    step_size: Any = "auto"
    max_iter: int = 10
    batch_size: int | None = None
    replacement: bool = False
    target_ess: float = 0.7
    kernel: Any = "grouped"
    bandwidth: float | None = None
    n_weighted: int | None = None
    n_moves: int | str = "auto"
    n_total: int | None = None
    min_power: float = 0.95

    needs_gaussian = True
    curved = calibrated = True

    @property
    def requires(self):
        if not isinstance(self.init, str):
            return ()
        prior, score = ("sample_prior", "log_prior"), ("score",)
        return {"prior": prior, "laplace": score, "student-t": score, "auto": ()}[self.init]

    def stays_near_start(self, target):
        return self._start(target) in ("laplace", "student-t")

    def check(self, target):
        super().check(target)
        n_rows = (target.n_rows or 0) + getattr(target, "n_weightless", 0)
        if self.n_total is not None and n_rows > self.n_total:
            raise ValueError(
                f"these {n_rows} rows are more than n_total={self.n_total}, the rows of the whole "
                "stream: raise n_total, or give fewer rows."
            )

    def n_rounds(self, target):
        n = target.n_rows or 1
        return self.max_iter * -(-n // min(self.batch_size or n, n))

    def run(self, target, rng, *, init=None, map=map, callback=None):
        m, dim = self.n_particles, target.dim
        self._require_enough(dim)
        n = target.n_rows or 1
        batch = n if self.batch_size is None else min(self.batch_size, n)
        start = "init" if init is not None else self._start(target)
        strategy = self.strategy
        if strategy == "auto":
            strategy = "particles"
            if start in ("prior", "init"):
                strategy = "hybrid" if dim <= _IMPORTANCE_UP_TO else "kde"
        state = WeightedParticles(  # type: ignore[misc]
            *self._first(target, rng, start, init),
            strategy != "particles",
            target_ess=self.target_ess,
            draws=self._draws,
        )
        total, power, t, n_visited, problems = self.n_rounds(target), 0.0, 0, 0, []

        def log_posterior(theta, rows=None):
            if rows is not None:
                return target.log_prior(theta) + target.log_likelihood(theta, rows)
            return in_chunks(map, target.log_density, theta, target.n_rows)

        rounds = Rounds(total, lambda: ParticlePosterior(state.theta, state.weights), callback)
        for rows, size in batches(n, batch, self.max_iter, rng, self.replacement):
            t += 1
            step_size = self._step_size(t, n / size)
            pieces = mirror_step(state, partial(log_posterior, rows=rows), step_size, rng)
            if pieces == MAX_PIECES:
                # The next steps would be no shorter.
                problems.append(
                    f"it stopped at a step that was not done after {MAX_PIECES} pieces: use "
                    'init="laplace", or a prior nearer to the posterior'
                )
                break
            power += (1.0 - power) * step_size
            n_visited += size
            ess, drawn = state.ess(), state.n_resampled
            if rounds.end(t, ess=ess, power=power, n_resampled=drawn, n_visited=n_visited):
                break
        n_moves = max(60, dim) if self.n_moves == "auto" else self.n_moves
        memory = self._finish(state, log_posterior, strategy, n_moves, rng, problems)
        if power < self.min_power:
            problems.append(
                f"less than a power of {self.min_power:g} of the likelihood was reached, so that "
                "the posterior is too wide: raise max_iter"
            )
        if start == "prior" and m < _PER_COORDINATE * dim:
            problems.append(
                f"{m} particles are few for a start from the prior in {dim} coordinates: raise "
                f'n_particles to {_PER_COORDINATE * dim}, or use init="laplace"'
            )
        n_seen, history = n + target.n_weightless, rounds.history.arrays()
        parts, rest = (state,), (target.bijection, rng, n_seen, t, power, history, problems)
        if not supports(target, "log_prior"):
            return Stream(parts, *rest, None).posterior(memory=memory)
        value = log_posterior(state.theta)
        if n_moves:  # which have moved the particles to the posterior
            state.log_q = value
        stream = Stream(parts, *rest, Fingerprint.of(target.log_prior, state.theta), held=(target,))
        state.memory = Memory.nothing(dim)
        values = value - target.log_prior(state.theta)
        stream.remember([state.memory.and_of(state.theta, values, state.weights, stream.score)])
        return stream.posterior(memory=memory)

    def _finish(self, state, log_posterior, strategy, n_moves, rng, problems):
        """Remove the bias that is left, with all rows; ``problems`` are added to.

        Returns
        -------
        float
            What is left of the memory of the final moves; 0 without any.
        """
        m, dim = self.n_particles, state.theta.shape[1]
        if strategy == "hybrid":
            state.replace(defensive_draws, self.n_weighted or m, rng)
        if strategy != "kde":
            problem = state.weigh(log_posterior(state.theta))
            if problem and (dim <= _IMPORTANCE_UP_TO or not n_moves):
                problems.append(problem)
        if not n_moves:
            return 0.0
        # Temper the weights first: the moves correct a slight bias faster than they separate many
        # copies of a few particles.
        state.flatten(_DISTINCT * m)
        copies = m / state.ess()
        state.resample(m, rng)
        state.theta, memory = pcn_moves(log_posterior, state.theta, copies, n_moves, rng)
        if memory > 1.0:
            problems.append("the final moves have not separated the particles: raise n_moves")
        return memory

    def update(self, target, stream, *, map=map):
        """Learn from more rows of a stream.

        Parameters
        ----------
        target : Target
            Of those rows, in the coordinates of the first ones.
        stream : Stream
            The ``state`` of the posterior so far, which is left as it is.
        map : callable
            ``map(function, *iterables)``, used over independent pieces.

        Returns
        -------
        ParticlePosterior

        Raises
        ------
        ValueError
            If the prior is another, or the rows begin in one pass over ``n_total`` rows and end in
            the next.
        """
        self._require_enough(target.dim, N_PARTS)
        known = stream.prior is not None and supports(target, "log_prior")
        if known and not stream.prior.matches(target.log_prior):
            raise ValueError(
                "the prior is not the one that the rows before were taken in with: go on with the "
                "same prior, or start again."
            )
        n_rows, n_total = target.n_rows + target.n_weightless, self.n_total or np.inf
        left = n_total - stream.n_seen % n_total  # of the pass
        if n_rows > left:
            raise ValueError(
                f"these {n_rows} rows begin in one pass over n_total={self.n_total} rows, of which "
                f"{left} are left, and end in the next; cut them there, or set n_total to the "
                "number of rows."
            )
        # Others may go on from the one given; its targets are never changed.
        stream = deepcopy(stream, {id(held): held for held in stream.held})

        def log_likelihood(theta):
            return in_chunks(map, target.log_likelihood, theta, target.n_rows)

        if stream.n_seen >= n_total:
            m, last = self.n_weighted or self.n_particles, n_rows == left
            stream.assimilate_again(log_likelihood, target.log_prior, m, last)
        elif target.n_rows:
            stream.assimilate(target, self.n_particles, self.target_ess, self._draws, map)
            if self.kernel == "plain":
                stream.problems.append('plain kernels widen the particles: use kernel="grouped"')
        stream.count(n_rows)
        errors = {"mc_error": stream.mc_error(), "memory_error": stream.memory_error()}
        return stream.posterior(**errors)

    def _require_enough(self, dim, n_parts=1):
        if self.n_particles // n_parts <= dim + 1:
            least = f"at least {n_parts * (dim + 2)} in {dim} coordinates"
            raise ValueError(f"n_particles={self.n_particles} must be {least}.")

    def _start(self, target):
        """Where to start, by name: what "auto" means, or "distribution" for your own."""
        if not isinstance(self.init, str):
            return "distribution"
        if self.init != "auto":
            return self.init
        possible = supports(target, "sample_prior") and supports(target, "log_prior")
        if not possible and not supports(target, "score"):
            raise ValueError(
                "PMD needs somewhere to start: give the target sample_prior and log_prior, or a "
                "score, or pass init."
            )
        small = target.dim <= _PRIOR_UP_TO or not supports(target, "score")
        return "prior" if possible and small else "laplace"

    def _first(self, target, rng, start, init):
        """Draws of the first density (m, dim), and its log density there."""
        m = self.n_particles
        if start == "init":
            if len(init) < 2:
                raise ValueError("PMD needs two particles or more to start from (init), got one.")
            theta, density = self._draws(init, np.full(len(init), 1.0 / len(init)), m, rng)
            return theta, density.log_density(theta)
        if start == "distribution":
            return target.draws_of(self.init, rng, m)
        if start == "prior":
            theta = target.sample_prior(rng, m)
            if not np.isfinite(theta).all():
                raise FloatingPointError(
                    "the prior's draws are not finite: its tails are too heavy to start from it; "
                    'use init="laplace", or a prior with lighter tails.'
                )
            return theta, target.log_prior(theta)
        df = _DF if start == "student-t" else None
        theta = target.sample_start(rng, m, df)
        return theta, target.log_start(theta, df)

    @property
    def _draws(self):
        if self.kernel == "plain":
            return partial(plain_draws, bandwidth=self.bandwidth)
        if self.bandwidth is not None and self.bandwidth > 1.0:
            raise ValueError(
                f"bandwidth={self.bandwidth} must be at most 1, one standard deviation, for "
                'kernel="grouped".'
            )
        return partial(grouped_draws, bandwidth=self.bandwidth)

    def _step_size(self, t, n_batches):
        schedule = STEP_SIZES[self.step_size] if isinstance(self.step_size, str) else self.step_size
        step_size = schedule(t, n_batches)  # type: ignore[operator]
        if not 0.0 < step_size <= 1.0:
            raise ValueError(f"step_size gave {step_size!r} at step {t}; it must lie in (0, 1].")
        return step_size
