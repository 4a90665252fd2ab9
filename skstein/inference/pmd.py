"""Particle Mirror Descent.

Mirror descent on densities: each step multiplies the current density by a power of the posterior
over itself,

    log q' = (1 - g) log q + g (log p + (n / b) sum_batch log-likelihood),

carried by weighted particles (a "good" proposal, never moved) or by a weighted kernel density
estimate that is resampled. Only values of the log density are used, never a gradient. What differs
from the paper's algorithm 1, each found necessary:

- the step size is ``g_t = 2 / (t - 1 + 2 n / b)``, so that the first step applies each datum at
  most once; the power of the likelihood reached, ``1 - prod(1 - g)``, is reported;
- a step that would halve the effective sample size is split exactly (steps on one batch compose);
- minibatches are reshuffled epochs without replacement: with replacement the noise stays;
- particles are resampled (systematically) only when the effective sample size falls below m / 2:
  each kernel draw inflates the variance, which the paper's resampling at every step accumulates;
- the kernels keep the mean and covariance of the particles, group by group (`_kde.py`);
- a final stage on all rows takes off what bias is left: importance weights where they do not
  degenerate, and preconditioned Crank-Nicolson moves.

On a stream the number of rows grows. With n rows seen and ``g = b / n`` the recursion is Bayes'
rule, ``log q' = log q + sum_batch log-likelihood``, and needs neither the density of the kernel
estimate nor rows of the past. A further pass over the same rows adds up the likelihood of weighted
particles that are not moved, which leaves nothing but the error of importance sampling.
"""

from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real

import numpy as np

from .._validation import HasMethods, Interval, StrOptions
from ..posterior import ParticlePosterior
from ..targets import supports
from ._kde import defensive_draws, grouped_draws, plain_draws, systematic
from ._pcn import pcn_sweeps
from ._step_sizes import STEP_SIZES
from .base import BATCH_SIZE, N_PARTICLES, Engine, History, in_chunks

_IMPORTANCE_UP_TO = 4  # coordinates in which importance weights hold without the final moves
_PRIOR_UP_TO = 10  # coordinates in which "auto" starts from the prior
_PER_COORDINATE = 15  # particles that a start from the prior needs
_MAX_PIECES = 1000
_NEGLIGIBLE = 1e-3  # share of a step that may be left out when kernels keep it from being completed
_DISTINCT = 0.25  # share of the particles that the final moves start from at least
_LEAST_ESS = 0.1  # of weighted particles, below which to warn
_DF = 10  # degrees of freedom of the Student-t start
# Bayes' rule does not correct for the kernels, so that on a stream small changes between draws pay.
_STREAM_ESS = 0.9
_MAX_ERROR = 0.25  # of the mean of a stream, in standard deviations, above which to warn
_HALVES = (0, 1)


class WeightedParticles:
    """The state of mirror descent: weighted particles and the log density that they stand for.

    Parameters
    ----------
    theta : ndarray of shape (m, dim)
        Draws of the first density, equally weighted.
    log_q : ndarray of shape (m,)
        Its log density there.
    resampled : bool
        Whether degenerate weights are met by resampling from a kernel density estimate.
    min_ess : float, default=0.8
        Share of the particles that the effective sample size may fall to before that.
    draws : callable, default=grouped_draws
        ``draws(theta, weights, n_draws, rng)``, the estimate's draws and density.
    """

    def __init__(self, theta, log_q, resampled, *, min_ess=0.8, draws=grouped_draws):
        self.theta, self.log_q, self.resampled = theta, log_q, resampled
        self.min_ess, self.draws = min_ess, draws
        self.log_weights = _equal(len(theta))
        self.n_particles = len(theta)  # of later draws
        self.n_resampled = 0

    @property
    def weights(self):
        return np.exp(self.log_weights)

    def ess(self):
        """Effective sample size of the weights."""
        return _ess(self.log_weights)

    def advance(self, log_ratio, step):
        """``log q += step * log_ratio``, for particles and weights alike."""
        self.log_q = self.log_q + step * log_ratio
        self.log_weights = _normalised(self.log_weights + step * log_ratio)

    def weigh(self, log_posterior):
        """Weight the particles as draws of ``log_q``; what is wrong with the weights, or None."""
        self.advance(_finite(log_posterior) - self.log_q, 1.0)
        if self.ess() < _LEAST_ESS * len(self.theta):
            size = f"{self.ess():.0f} of {len(self.theta)}"
            return f"the weights keep an effective sample of {size}"
        return None

    def flatten(self, least):
        """Raise the weights to the largest power up to 1 that keeps the ESS at ``least``."""
        power = _largest(lambda power: _ess(_normalised(power * self.log_weights)) >= least, 1.0)
        self.log_weights = _normalised(power * self.log_weights)

    def resample(self, n_particles, rng):
        """Equal weights, by systematic resampling."""
        # Sorted along one coordinate, neighbours in the cumulative sum are neighbours in space.
        order = np.argsort(self.theta[:, 0], kind="stable")
        chosen = order[systematic(self.weights[order], n_particles, rng)]
        self.theta, self.log_q = self.theta[chosen], self.log_q[chosen]
        self.log_weights = _equal(n_particles)

    def replace(self, draws, n_particles, rng):
        """Draw ``n_particles`` anew from an estimate of the density, with equal weights."""
        self.theta, density = draws(self.theta, self.weights, n_particles, rng)
        self.log_q = density.log_density(self.theta)
        self.log_weights = _equal(n_particles)
        self.n_resampled += 1

    def moments(self):
        """Mean (dim,) and covariance (dim, dim)."""
        mean = self.weights @ self.theta
        centred = self.theta - mean
        return mean, centred.T @ (self.weights[:, None] * centred)

    def halves(self):
        """Two populations, each of every other particle."""
        parts = copy(self), copy(self)
        for first, part in enumerate(parts):
            part.theta, part.log_q = self.theta[first::2], self.log_q[first::2]
            part.log_weights = _normalised(self.log_weights[first::2])
        return parts


def _equal(m):
    return np.full(m, -np.log(m))


def _normalised(log_weights):
    shifted = log_weights - log_weights.max()
    return shifted - np.log(np.exp(shifted).sum())


def _ess(log_weights):
    return 1.0 / np.sum(np.exp(2.0 * log_weights))


def _largest(holds, top):
    """The largest number up to ``top`` for which ``holds``, by bisection; it holds near 0."""
    if holds(top):
        return top
    low, high = 0.0, top
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def mirror_step(state, log_posterior, step_size, rng):
    """One prox step of mirror descent, ``log q += g (log_posterior - log q)``.

    Steps on the same batch compose, ``1 - g = prod_k (1 - g_k)``, so that a step under which the
    weights would degenerate is taken in pieces with resampling between them.

    Parameters
    ----------
    state : WeightedParticles
        Changed in place.
    log_posterior : callable
        ``log_posterior(theta) -> (m,)``: log prior plus the (scaled) log likelihood of the batch.
    step_size : float
        ``g``, in (0, 1].
    rng : numpy.random.Generator

    Returns
    -------
    int
        The number of pieces.

    Raises
    ------
    FloatingPointError
        If no particle has a finite log density.
    """

    def log_change(left):
        rest = step_size * left
        step = rest / (1.0 - step_size + rest)
        return step * (_finite(log_posterior(state.theta)) - state.log_q)

    return _carry(state, log_change, rng)


def bayes_step(state, log_likelihood, rng):
    """Bayes' rule for further rows, ``log q += log_likelihood``; as `mirror_step` otherwise."""
    return _carry(state, lambda left: left * _finite(log_likelihood(state.theta)), rng)


def _carry(state, log_change, rng):
    """Change the density by ``log_change(1)``, in pieces between which particles are resampled.

    ``log_change(left)`` is what is to come, at the particles, once the share ``1 - left`` is done.
    """
    left, change, pieces = 1.0, log_change(1.0), 0
    while left >= _NEGLIGIBLE and pieces < _MAX_PIECES:
        piece = _bounded(state, change)
        pieces += 1
        state.advance(change, piece)
        change = change * (1.0 - piece)
        left = left * (1.0 - piece)
        if state.resampled and state.ess() < state.min_ess * len(state.theta):
            state.replace(state.draws, state.n_particles, rng)
            if left >= _NEGLIGIBLE:
                change = log_change(left)
    return pieces


def _finite(value):
    """Log densities in which particles of density 0, or of overflow, are put out but not lost."""
    if not np.isfinite(value).any():
        raise FloatingPointError(
            "no particle has a finite log density: start elsewhere (init), or check the density."
        )
    return np.where(np.isfinite(value), value, -1e300)


def _bounded(state, change):
    """The largest share of a change that keeps ``min_ess`` of the effective sample size."""
    if not state.resampled or state.min_ess == 1.0:
        return 1.0
    floor = state.min_ess * state.ess()
    share = _largest(
        lambda share: _ess(_normalised(state.log_weights + share * change)) >= floor, 1.0
    )
    return max(share, 1e-9)


@dataclass
class Stream:
    """What `PMD.update` needs to go on from a posterior.

    Attributes
    ----------
    parts : tuple of WeightedParticles
        In the coordinates of ``bijection``: one population, or two halves that evolve on their own
        so that their disagreement tells how far both are off.
    bijection : bijection or None
        To the target's own coordinates; kept for all further rows.
    rng : numpy.random.Generator
    n_seen : int
        Rows seen, passes counted.
    n_iter : int
    power : float
        Of the likelihood, reached for the rows of the first call.
    history : dict of str to ndarray
    again : WeightedParticles or None
        Of a further pass that is under way.
    log_likelihood : ndarray of shape (m,) or None
        Of the rows of that pass so far.
    """

    parts: tuple
    bijection: object
    rng: np.random.Generator
    n_seen: int
    n_iter: int
    power: float
    history: dict
    problems: list
    again: WeightedParticles | None = None
    log_likelihood: np.ndarray | None = None

    def copy(self):
        """A stream that can be taken further without a change of this one."""
        parts = tuple(map(copy, self.parts))
        return replace(self, parts=parts, rng=deepcopy(self.rng), again=copy(self.again))

    def pooled(self):
        """Particles (m, dim) and weights (m,) of all parts together."""
        theta = np.concatenate([part.theta for part in self.parts])
        return theta, np.concatenate([part.weights for part in self.parts]) / len(self.parts)

    def mc_error(self):
        """Root mean square error of the posterior mean, in standard deviations.

        Half the distance between the means of the two halves; of one weighted population that of
        as many independent draws as its effective sample size.
        """
        if len(self.parts) == 1:
            return 1.0 / np.sqrt(self.parts[0].ess())
        (a, spread_a), (b, spread_b) = (part.moments() for part in self.parts)
        within = 0.5 * (spread_a + spread_b)
        return 0.5 * np.sqrt((a - b) @ np.linalg.lstsq(within, a - b)[0] / len(a))

    def posterior(self, **diagnostics):
        """The posterior of the rows so far."""
        return ParticlePosterior(
            *self.pooled(),
            history=self.history,
            diagnostics={
                "posterior_power": self.power,
                "n_seen": self.n_seen,
                **diagnostics,
                "message": "; ".join(self.problems),
            },
            n_iter=self.n_iter,
            converged=not self.problems,
            state=self,
        )


class PMD(Engine):
    """Particle Mirror Descent.

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
        "particles": the first draws are only weighted, which asks for a start that is close to the
        posterior. "kde": they are drawn anew from a kernel density estimate when their weights
        degenerate. "hybrid": the same, and at the end ``n_weighted`` draws of the estimate are
        weighted with all rows. "auto" is "particles" from a start other than the prior, "hybrid"
        from the prior in up to four coordinates, else "kde".
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
    min_ess : float, default=0.8
        Draw particles anew when their effective sample size falls below this share of their
        number, and split steps under which it would fall by more. With 1 they are drawn anew at
        every step, and no step is split, as published.
    kernel : {"grouped", "plain"}, default="grouped"
        "grouped": full covariances of groups of particles, shrunk so that draws keep it. "plain":
        one round kernel that is not, as published.
    bandwidth : float, default=None
        Of the kernels: for "grouped" in (0, 1], in standard deviations, Silverman's rule by
        default; for "plain" in units of the coordinates, ``m ** (-1 / (dim + 2))`` by default.
    n_weighted : int, default=None
        Particles that are weighted in the last stage of "hybrid" and in further passes over a
        stream; ``n_particles`` by default.
    n_sweeps : int or "auto", default="auto"
        Moves of every particle in the final stage, each one log likelihood of all rows: 60, or as
        many as there are coordinates if that is more, for "auto".
    n_total : int, default=None
        Rows of a whole stream, for `partial_fit`: once so many have been seen, further rows are
        taken for another pass over the same ones. By default all rows are new.
    min_power : float, default=0.95
        Warn when a smaller power of the likelihood was reached.
    whiten, one_sided : bool, default=True
        Work in whitened coordinates, with one-sided coordinates straightened.

    References
    ----------
    Dai, He, Dai & Song (2016), "Provable Bayesian inference via particle mirror descent",
    algorithms 1 and 2.

    Examples
    --------
    >>> from skstein import BayesianLogisticRegression
    >>> from skstein.inference import PMD
    >>> model = BayesianLogisticRegression(inference=PMD(init="prior"))
    """

    minibatch = "plain"
    _parameter_constraints = {
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
        "min_ess": [Interval(Real, 0, 1, closed="right")],
        "kernel": [StrOptions({"grouped", "plain"})],
        "bandwidth": [None, Interval(Real, 0, None, closed="neither")],
        "n_weighted": [None, Interval(Integral, 2, None, closed="left")],
        "n_sweeps": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "n_total": [None, Interval(Integral, 1, None, closed="left")],
        "min_power": [Interval(Real, 0, 1, closed="both")],
        "whiten": ["boolean"],
        "one_sided": ["boolean"],
    }

    def __init__(
        self,
        n_particles=1000,
        *,
        init="auto",
        strategy="auto",
        step_size="auto",
        max_iter=10,
        batch_size=None,
        replacement=False,
        min_ess=0.8,
        kernel="grouped",
        bandwidth=None,
        n_weighted=None,
        n_sweeps="auto",
        n_total=None,
        min_power=0.95,
        whiten=True,
        one_sided=True,
    ):
        self.n_particles = n_particles
        self.init = init
        self.strategy = strategy
        self.step_size = step_size
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.replacement = replacement
        self.min_ess = min_ess
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.n_weighted = n_weighted
        self.n_sweeps = n_sweeps
        self.n_total = n_total
        self.min_power = min_power
        self.whiten = whiten
        self.one_sided = one_sided

    @property
    def requires(self):
        if not isinstance(self.init, str):
            return ()
        prior, score = ("sample_prior", "log_prior"), ("score",)
        return {"prior": prior, "laplace": score, "student-t": score, "auto": ()}[self.init]

    def stays_near_start(self, target):
        return self._start(target) in ("laplace", "student-t")

    def n_rounds(self, target):
        n = target.n_rows or 1
        return self.max_iter * -(-n // min(self.batch_size or n, n))

    def run(self, target, rng, *, init=None, map=map, callback=None):
        m, dim = self.n_particles, target.dim
        self._require_enough(dim)
        n = target.n_rows or 1
        batch = n if self.batch_size is None else min(self.batch_size, n)
        n_steps = self.max_iter * -(-n // batch)
        n_sweeps = max(60, dim) if self.n_sweeps == "auto" else self.n_sweeps
        start = "init" if init is not None else self._start(target)
        strategy = self._strategy(start, dim)
        state = WeightedParticles(
            *self._first(target, rng, start, init),
            strategy != "particles",
            min_ess=self.min_ess,
            draws=self._draws,
        )
        history, power, t, n_visited, problems = History(), 0.0, 0, 0, []

        def log_posterior(theta, rows=None):
            if rows is not None:
                return target.log_prior(theta) + target.log_likelihood(theta, rows)
            return in_chunks(map, target.log_density, theta, target.n_rows)

        def make_posterior():
            return ParticlePosterior(state.theta, state.weights)

        for rows in _batches(n, batch, self.max_iter, rng, self.replacement):
            t += 1
            size = n if rows is None else len(rows)
            step_size = self._step_size(t, n / size)
            pieces = mirror_step(state, partial(log_posterior, rows=rows), step_size, rng)
            power += (1.0 - power) * step_size
            n_visited += size
            if pieces == _MAX_PIECES:
                problems.append(f"step {t} was not done after {_MAX_PIECES} pieces")
            info = history.add(
                ess=state.ess(), power=power, n_resampled=state.n_resampled, n_visited=n_visited
            )
            if callback is not None and callback(t, n_steps, make_posterior, info):
                break
        if strategy == "hybrid":
            state.replace(defensive_draws, self.n_weighted or m, rng)
        if strategy != "kde":
            few = state.weigh(log_posterior(state.theta))
            if few and (dim <= _IMPORTANCE_UP_TO or not n_sweeps):
                problems.append(few)
        memory = 0.0
        if n_sweeps:
            # Few particles that carry all the weight would need many moves to spread; particles
            # somewhat off the posterior need few to get there.
            state.flatten(_DISTINCT * m)
            copies = m / state.ess()
            state.resample(m, rng)
            state.theta, memory = pcn_sweeps(log_posterior, state.theta, copies, n_sweeps, rng)
            if memory > 1.0:
                problems.append(
                    "the final moves have not taken the particles away from where they were: "
                    "raise n_sweeps"
                )
        if power < self.min_power:
            problems.append(
                f"only a power of {power:.2f} of the likelihood was reached, so that the posterior "
                "is too wide: raise max_iter"
            )
        if start == "prior" and m < _PER_COORDINATE * dim:
            problems.append(
                f"{m} particles are few for a start from the prior in {dim} coordinates: raise "
                f'n_particles to {_PER_COORDINATE * dim}, or use init="laplace"'
            )
        stream = Stream((state,), target.bijection, rng, n, t, power, history.arrays(), problems)
        return stream.posterior(memory=memory)

    def update(self, target, stream, *, map=map):
        """Take in further rows of a stream.

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
            If the rows begin in one pass over ``n_total`` rows and end in the next.
        """
        self._require_enough(target.dim, len(_HALVES))
        again = self._is_again(stream.n_seen, target.n_rows)
        stream = stream.copy()

        def log_likelihood(theta):
            return in_chunks(map, target.log_likelihood, theta, target.n_rows)

        if again:
            self._take_again(stream, target, log_likelihood)
        else:
            self._take(stream, log_likelihood)
        stream.n_seen += target.n_rows
        stream.n_iter += 1
        numbers = {
            "ess": 1.0 / np.sum(stream.pooled()[1] ** 2),
            "power": stream.power,
            "n_resampled": max(part.n_resampled for part in stream.parts),
            "n_visited": stream.n_seen,
        }
        stream.history = {
            key: np.append(stream.history[key], value) for key, value in numbers.items()
        }
        return stream.posterior(mc_error=stream.mc_error())

    def _take(self, stream, log_likelihood):
        """Bayes' rule for new rows."""
        if len(stream.parts) == 1:
            stream.parts = stream.parts[0].halves()
        pieces = []
        for part, odd in zip(stream.parts, _HALVES, strict=True):
            part.resampled, part.draws = True, self._draws
            part.min_ess = max(self.min_ess, _STREAM_ESS)
            part.n_particles = (self.n_particles + odd) // 2
            pieces.append(bayes_step(part, log_likelihood, stream.rng))
        stream.problems = []
        if max(pieces) == _MAX_PIECES:
            stream.problems.append(f"the rows were not taken in after {_MAX_PIECES} pieces")
        error = stream.mc_error()
        if error > _MAX_ERROR:
            stream.problems.append(
                f"the mean is off by about {error:.2f} standard deviations: raise n_particles, "
                "give the rows in random order, or pass over them again (n_total)"
            )

    def _take_again(self, stream, target, log_likelihood):
        """Weight particles that are not moved; the posterior changes at the end of the pass."""
        m = self.n_weighted or self.n_particles
        if stream.again is None:
            theta, density = defensive_draws(*stream.pooled(), m, stream.rng)
            stream.again = WeightedParticles(theta, density.log_density(theta), True)
            stream.log_likelihood = np.zeros(len(theta))
        again = stream.again
        stream.log_likelihood = stream.log_likelihood + log_likelihood(again.theta)
        if (stream.n_seen + target.n_rows) % self.n_total:
            return
        again.n_resampled = stream.parts[0].n_resampled + 1
        few = again.weigh(target.log_prior(again.theta) + stream.log_likelihood)
        stream.problems = [f"{few}: make another pass, or raise n_weighted"] if few else []
        again.flatten(_LEAST_ESS * len(again.theta))
        stream.parts, stream.again, stream.log_likelihood, stream.power = (again,), None, None, 1.0

    def _is_again(self, n_seen, n_rows):
        """Whether rows that come after ``n_seen`` others have been seen before."""
        if self.n_total is None:
            return False
        left = self.n_total - n_seen % self.n_total
        if n_rows > left:
            raise ValueError(
                f"these {n_rows} rows begin in one pass over n_total={self.n_total} rows, of which "
                f"{left} are left, and end in the next; cut them there, or set n_total to the "
                "number of rows."
            )
        return n_seen >= self.n_total

    def _require_enough(self, dim, n_parts=1):
        if self.n_particles // n_parts <= dim + 1:
            times = f"{n_parts} times " if n_parts > 1 else ""
            raise ValueError(
                f"n_particles={self.n_particles} must exceed {times}the number of coordinates plus "
                f"one ({dim + 1})."
            )

    def _start(self, target):
        """Where to start, by name: what "auto" stands for, or "distribution" for one's own."""
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

    def _strategy(self, start, dim):
        if self.strategy != "auto":
            return self.strategy
        if start in ("prior", "init"):
            return "hybrid" if dim <= _IMPORTANCE_UP_TO else "kde"
        return "particles"

    def _first(self, target, rng, start, init):
        """Draws of the first density (m, dim), and its log density there."""
        m = self.n_particles
        if start == "init":
            theta, density = self._draws(init, np.full(len(init), 1.0 / len(init)), m, rng)
            return theta, density.log_density(theta)
        if start == "distribution":
            return target.draws_of(self.init, rng, m)
        if start == "prior":
            theta = target.sample_prior(rng, m)
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
        step_size = schedule(t, n_batches)
        if not 0.0 < step_size <= 1.0:
            raise ValueError(f"step_size gave {step_size!r} at step {t}; it must lie in (0, 1].")
        return step_size


def _batches(n, batch, n_epochs, rng, replacement=False):
    """Rows of each step, epoch by epoch; None for all rows."""
    for _ in range(n_epochs):
        if batch == n and not replacement:
            yield None
            continue
        order = rng.integers(n, size=n) if replacement else rng.permutation(n)
        for first in range(0, n, batch):
            yield order[first : first + batch]
