"""Online thinning: a dictionary of points that follows a stream of draws.

The method is that of Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized
Stein discrepancy". It differs from the paper in five ways. The default budget is a hard cap: a
candidate is tried together with the dictionary before it replaces the point that contributes most
to the KSD, so that bad points leave at any time and memory is bounded. The length scale grows with
the dimension, l^2 = 4 d for points with unit covariance, where a fixed one lets the kept points
shrink towards the mode; and the kernel has a further term, Stein's identity of the spread, without
which they still shrink. Row sums of the Stein matrix are updated, and summed anew once in as many
replacements as there are points, where the paper recomputes the KSD for every trial. The candidate
of a group minimises ``k0(x, x) + 2 sum_i k0(x, x_i)``, and with it the KSD after it has entered.
"""

import math
import numbers
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import _jit
from .._input.validation import check_count
from .._tools.warnings import warn
from .budgets import finite_value, floor_of, slack_of
from .chains import interleaved, read_chains
from .coordinates import SteinCoordinates
from .moments import StreamMoments
from .subsets import simplex_weights

_PIECE = 100  # draws passed on at a time, and between two records of the path at first
_PART = 10_000  # draws of all chains copied at a time
_LONGEST_PATH = 1000


@dataclass(eq=False, repr=False)
class OnlineKSDThinner(BaseEstimator):
    """Keep a few points of a stream of samples, those with the smallest kernel Stein discrepancy.

    Parameters
    ----------
    n_points : int, default=100
        Number of points kept when ``budget="cap"``. Below twice the dimension the spread of the
        kept points falls short in some directions. It can be changed between calls of
        `partial_fit`: room for more is filled by the draws that come, and the most redundant points
        are dropped when it gets smaller. Memory is quadratic in the number of points, and does not
        grow with the stream.
    kernel : "imq", "rbf", IMQ or RBF, default="imq"
        Base kernel, in whitened coordinates. ``bandwidth="median"`` is settled by the first call.
    budget : "cap", "linear", "sqrt", float or callable, default="cap"
        "cap": at most ``n_points``. The others are the paper's floors f(t) at step t: one sample
        enters in every step, and points are dropped only down to f(t). "linear": t / 2; "sqrt":
        sqrt(t log t); a number: constant; a callable: ``f(t)``, such as `PowerBudget`.
    eps : float, "decaying" or callable, default=0.0
        With a floor, how much the squared KSD may rise by dropping: a number, ``eps(t)``, or
        "decaying": log(t) / f(t)^2, the sequence of the paper's theorem 1. Not used by "cap".
    spread : float, default=0.1
        Weight of Stein's identity of the spread, ``E[s.(x - a)] = -d``, beside the kernel. With 0,
        as in the paper, kept points have too little spread, and less the longer the stream. a is
        the mean of the first call's samples with "cov", else the origin.
    candidates : int, default=1
        Only the best of every ``candidates`` samples is tried (the paper's SPMCMC).
    preconditioner : "auto", None, "cov" or array of shape (d, d), default="auto"
        Covariance that whitens samples and scores. "cov": that of the samples of the first call.
        "auto": "cov" in `fit`, which sees a whole sample, and None in `partial_fit`, whose first
        call may hold a single draw: let `fit` take the first part of a stream, pass a covariance,
        or pass points whose covariance is about the identity.
    weights : {"uniform", "stein"}, default="uniform"
        What ``weights_`` are: equal, or of minimum KSD.

    Attributes
    ----------
    indices_ : array of shape (n,)
        Positions of the kept points in the stream, increasing. The stream takes the draws of
        several chains in turn: draw t of chain c is number ``t * n_chains + c``. After `merge`, the
        other's stream follows this one's.
    samples_, scores_ : arrays of shape (n, d)
        The kept points and their scores, in the coordinates of the input.
    weights_ : array of shape (n,)
        Of sum 1.
    ksd_ : float
        KSD of the kept points, equally weighted, in whitened coordinates; ``spread`` left out.
    ksd_path_ : array of shape (k, 4)
        Draws seen, points kept, KSD, and normalised KSD (KSD times the root of the number of
        points, eq. 16 of the paper); after every 100 draws, or fewer times once there would be
        more than 1000 rows.
    n_seen_, n_rejected_, n_accepted_ : int
        Draws seen; draws left out because they or their scores were not finite (the first call that
        meets one warns); draws that ever entered the dictionary.
    moment_gap_, sd_ratio_ : arrays of shape (d,)
        Mean of the kept points minus that of the stream, in standard deviations of the stream; and
        the ratio of the standard deviations. See `check_moments`.
    kernel_ : IMQ or RBF
        The kernel with numbers for rules.

    Raises
    ------
    ValueError
        If a parameter or the shape of the input is wrong.

    Notes
    -----
    **Scores are gradients of the log density with respect to the coordinates of the samples.**
    Samplers of constrained parameters move on an unconstrained scale and report the constrained
    values: take samples *and* scores from the unconstrained scale, the log Jacobian included.

    A draw that repeats the one before it in its chain is skipped.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein
    discrepancy" (arXiv:2201.07130), Algorithms 1 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.thinning import OnlineKSDThinner
    >>> samples = np.random.default_rng(0).normal(size=(4, 500, 2))  # chains, draws, d
    >>> thinner = OnlineKSDThinner(n_points=50).fit(samples, -samples)
    >>> thinner.samples_.shape
    (50, 2)
    >>> bool(np.all(np.abs(thinner.moment_gap_) < 0.1))
    True
    """

    n_points: int = 100
    kernel: Any = "imq"
    _: KW_ONLY
    budget: Any = "cap"
    eps: Any = 0.0
    spread: float = 0.1
    candidates: Any = 1
    preconditioner: Any = "auto"
    weights: str = "uniform"

    def fit(self, samples, scores):
        """Forget what was seen before and pass all of ``samples`` through the dictionary.

        Parameters
        ----------
        samples : array of shape (draws, d) or (chains, draws, d), or an ArviZ posterior
            For ArviZ see `stack_draws`.
        scores : array of the same shape, an ArviZ Dataset, or callable
            Gradient of the target's log density at the samples, or the function (n, d) -> (n, d)
            that computes it.

        Returns
        -------
        self : OnlineKSDThinner

        Warns
        -----
        ConvergenceWarning
            See `check_moments`.
        UserWarning
            If draws were left out because they or their scores are not finite.
        """
        fresh = copy(self)  # so that what fails leaves no trace
        fresh.__dict__.pop("_dictionary", None)
        fresh._feed(samples, scores, "cov")
        if not fresh._size:
            raise ValueError(
                "nothing was kept: no draw is finite and has a finite score, or there are fewer "
                "draws than candidates."
            )
        self.__dict__ = fresh.__dict__
        self.check_moments()
        return self

    def partial_fit(self, samples, scores):
        """Pass more of the stream through the dictionary.

        How the stream is cut into calls makes no difference, except to ``preconditioner="cov"`` and
        ``bandwidth="median"``, which look at the first call. Nothing is said about moments: when
        the stream ends, call `check_moments`.

        Parameters
        ----------
        samples : array of shape (draws, d) or (chains, draws, d), or an ArviZ posterior
        scores : array of the same shape, an ArviZ Dataset, or callable

        Returns
        -------
        self : OnlineKSDThinner
        """
        return self._feed(samples, scores, None)

    def merge(self, other):
        """Take in what another thinner kept of another stream of the same target.

        The points of both are united, and those that contribute most to the KSD are dropped until
        ``n_points`` are left, or as many as the floor asks for after the steps of both. Moments and
        counts are those of both streams. The kernel and the whitening are this thinner's. Draws
        that wait in a started group of candidates are lost.

        Parameters
        ----------
        other : OnlineKSDThinner
            Left as it is.

        Returns
        -------
        self : OnlineKSDThinner

        Raises
        ------
        ValueError
            If the dimensions differ.
        NotFittedError
            If one of the two has seen no stream.

        Examples
        --------
        >>> import numpy as np
        >>> from skstein.thinning import OnlineKSDThinner
        >>> chains = np.random.default_rng(0).normal(size=(2, 1000, 3))
        >>> first, second = (OnlineKSDThinner(50).fit(x, -x) for x in chains)
        >>> first.merge(second).samples_.shape, first.n_seen_
        ((50, 3), 2000)
        """
        check_is_fitted(self)
        check_is_fitted(other)
        if other._dim != self._dim:
            raise ValueError(f"other has {other._dim} coordinates, this thinner {self._dim}.")
        counts, theirs = self._dictionary.counts, other._dictionary.counts
        steps = int(counts[_jit.thinning.STEPS] + theirs[_jit.thinning.STEPS])
        entered = counts[_jit.thinning.ENTERED] + theirs[_jit.thinning.ENTERED]
        floor = floor_of(self.budget)
        check_count(self.n_points, "n_points")
        allowed = self.n_points if floor is None else finite_value("budget", floor, steps)
        left = max(1, math.ceil(allowed))
        self._moments.merge(other._moments)
        union = _jit.thinning.resized_dictionary(self._dictionary, self._size + other._size)
        _jit.thinning.extend(
            union,
            self._coordinates.samples(other.samples_),
            self._coordinates.scores(other.scores_),
            other.indices_ + self.n_seen_,
            self._coordinates.kernel,
        )
        _jit.thinning.shrink(union, left)
        union.counts[[_jit.thinning.STEPS, _jit.thinning.ENTERED]] = steps, entered
        self._dictionary = _jit.thinning.resized_dictionary(union, left)
        self.n_seen_ += other.n_seen_
        self.n_rejected_ += other.n_rejected_
        self._record()
        return self

    def check_moments(self):
        """Compare the kept points with all of the stream, and warn where they differ.

        A gap of means above 0.3 standard deviations in some coordinate, or a ratio of standard
        deviations that is outside 0.85-1.15 on average over coordinates or 0.7-1.3 in one, says
        that the kept points have deserted a mode or shrunk, that the stream began with a burn-in,
        whose draws count in its moments, or that the scores are wrong. `fit` ends with this check.

        Returns
        -------
        passed : bool

        Warns
        -----
        ConvergenceWarning
            If not.
        """
        check_is_fitted(self)
        # Coordinates that never moved have no standard deviation, and are not judged.
        moved = self._moments.variances() > 0.0
        gap, ratio = np.abs(self.moment_gap_[moved]), self.sd_ratio_[moved]
        if not self._size or not gap.size:
            return True
        # A lost mode widens some coordinates and narrows others.
        in_range = ratio.min() >= 0.7 and ratio.max() <= 1.3
        if gap.max() <= 0.3 and 0.85 <= ratio.mean() <= 1.15 and in_range:
            return True
        warn(
            f"the {self._size} kept points miss the moments of the {self._moments.count} draws: "
            f"the largest gap of a mean is {gap.max():.2f} standard deviations (coordinate "
            f"{np.flatnonzero(moved)[np.argmax(gap)]}), the ratio of standard deviations "
            f"{ratio.mean():.2f} on average, {ratio.min():.2f} to {ratio.max():.2f}. Keep more "
            "points, look for separated modes, drop the burn-in from the stream, and check that "
            "the scores are those of these coordinates.",
        )
        return False

    def _feed(self, samples, scores, automatic):
        """Pass samples on; ``automatic`` is what the preconditioner "auto" stands for."""
        samples, scores = read_chains(samples, scores)
        check_count(self.candidates, "candidates")
        first = not hasattr(self, "_dictionary")
        if not first and samples.shape[2] != self._dim:
            raise ValueError(f"samples have {samples.shape[2]} coordinates, before {self._dim}.")
        with np.errstate(over="ignore", invalid="ignore"):
            # Squares, so that a number too large for the kernel counts as infinite.
            finite = np.isfinite(sum(np.einsum("ctk,ctk->ct", a, a) for a in (samples, scores)))
        if first:
            flat = samples.reshape(-1, samples.shape[2]) if finite.all() else samples[finite]
            self._start(samples.shape[2], flat, automatic)
            del flat
        # Parameters that have changed may ask for another room.
        if floor_of(self.budget) is None:
            check_count(self.n_points, "n_points")
            if len(self._dictionary.row_sums) != self.n_points:
                if self._size > self.n_points:
                    _jit.thinning.shrink(self._dictionary, self.n_points)
                self._dictionary = _jit.thinning.resized_dictionary(self._dictionary, self.n_points)
        self._count_rejected(np.sum(~finite))
        # In parts, so that no copy of the stream is made.
        length = max(1, _PART // max(1, len(samples)))
        for start in range(0, samples.shape[1], length):
            part = (slice(None), slice(start, start + length))
            self._feed_part(samples[part], scores[part], finite[part])
        return self

    def _feed_part(self, samples, scores, finite):
        # One stream; a repetition within a chain is skipped.
        keep = interleaved(finite & self._differs_from_previous(samples))
        finite, samples, scores = map(interleaved, (finite, samples, scores))
        self._moments.add(samples[finite])
        position = 0
        while position < len(samples):
            # Cut where the path may be recorded, whatever the cuts between calls.
            size = _PIECE - self.n_seen_ % _PIECE
            piece = slice(position, position + size)
            (kept,) = np.nonzero(keep[piece])
            self._pass(samples[piece][kept], scores[piece][kept], kept + self.n_seen_)
            self.n_seen_ += len(keep[piece])
            position += size
            if self.n_seen_ % self._path_every == 0:
                self._record()

    def _start(self, dim, samples, automatic):
        check_count(self.n_points, "n_points")
        slack_of(self.eps, floor_of(self.budget))
        if not (isinstance(self.spread, numbers.Real) and 0.0 <= self.spread < math.inf):
            raise ValueError(f"spread must be a number >= 0, got {self.spread!r}.")
        if self.weights not in ("uniform", "stein"):
            raise ValueError(f'weights must be "uniform" or "stein", got {self.weights!r}.')
        auto = isinstance(self.preconditioner, str) and self.preconditioner == "auto"
        given = automatic if auto else self.preconditioner
        self._coordinates = SteinCoordinates(self.kernel, None, given, samples, self.spread)
        self._dim = dim
        self._previous = None
        self._moments = StreamMoments(dim)
        self._path: list[tuple] = []
        self._path_every = _PIECE
        self.n_seen_ = self.n_rejected_ = 0
        self._dictionary = _jit.thinning.empty_dictionary(1, dim)

    def _differs_from_previous(self, samples):
        fresh = np.ones(samples.shape[:2], dtype=bool)
        fresh[:, 1:] = np.any(samples[:, 1:] != samples[:, :-1], axis=2)
        if self._previous is not None and len(self._previous) == len(samples):
            fresh[:, 0] = np.any(samples[:, 0] != self._previous, axis=1)
        self._previous = samples[:, -1].copy()
        return fresh

    def _count_rejected(self, n_rejected):
        if n_rejected and not self.n_rejected_:
            warn(
                f"{n_rejected} draws are left out, because they or their scores are not finite (or "
                "too large to square); n_rejected_ goes on counting them.",
                UserWarning,
            )
        self.n_rejected_ += int(n_rejected)

    def _record(self):
        self._path.append((self.n_seen_, self._size, self.ksd_))
        if len(self._path) > _LONGEST_PATH:
            self._path = self._path[1::2]
            self._path_every *= 2

    def _pass(self, samples, scores, index):
        draws = self._coordinates.samples(samples), self._coordinates.scores(scores), index
        rest = self.candidates, self._coordinates.kernel
        floor = floor_of(self.budget)
        if floor is None:
            _jit.thinning.thin_capped(self._dictionary, *draws, self.n_points, *rest)
            return
        slack = slack_of(self.eps, floor)
        counts = self._dictionary.counts
        groups = (counts[_jit.thinning.GROUP] + len(samples)) // self.candidates
        first = int(counts[_jit.thinning.STEPS]) + 1
        steps = range(first, first + groups)
        floors = np.ceil([finite_value("budget", floor, t) for t in steps])
        slacks = [finite_value("eps", slack, t) for t in steps]
        capacity = len(self._dictionary.row_sums)
        if self._size + groups > capacity:
            larger = max(2 * capacity, self._size + groups)
            self._dictionary = _jit.thinning.resized_dictionary(self._dictionary, larger)
        _jit.thinning.thin_floored(self._dictionary, *draws, floors, slacks, *rest)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_dictionary")

    @property
    def _size(self):
        return int(self._dictionary.counts[_jit.thinning.SIZE])

    @property
    def _order(self):
        return np.argsort(self._dictionary.index[: self._size])

    @property
    def kernel_(self):
        return self._coordinates.base_kernel

    @property
    def indices_(self):
        return self._dictionary.index[self._order]

    @property
    def samples_(self):
        points = np.ascontiguousarray(self._dictionary.points[:, self._order].T)
        return self._coordinates.original_samples(points)

    @property
    def scores_(self):
        scores = np.ascontiguousarray(self._dictionary.scores[:, self._order].T)
        return self._coordinates.original_scores(scores)

    @property
    def weights_(self):
        if self.weights == "uniform" or not self._size:
            return np.full(self._size, 1.0 / max(self._size, 1))
        return simplex_weights(self._dictionary.matrix[np.ix_(self._order, self._order)])

    @property
    def ksd_(self):
        if not self._size:
            return math.nan
        total = self._dictionary.row_sums[: self._size].sum()
        identities = self._dictionary.identities[: self._size].sum()
        total -= self._coordinates.kernel.spread * identities**2
        # Rounding can leave a tiny negative sum.
        return math.sqrt(max(total, 0.0)) / self._size

    @property
    def ksd_path_(self):
        path = np.array(self._path, dtype=float).reshape(-1, 3)
        return np.column_stack([path, path[:, 2] * np.sqrt(path[:, 1])])

    @property
    def n_accepted_(self):
        return int(self._dictionary.counts[_jit.thinning.ENTERED])

    @property
    def moment_gap_(self):
        return self._over_stream_std(np.mean, shift=self._moments.mean)

    @property
    def sd_ratio_(self):
        return self._over_stream_std(np.std)

    def _over_stream_std(self, moment, shift=0.0):
        if not self._size:
            return np.full(self._dim, np.nan)
        # A coordinate that never moved has no scale to compare with.
        variances = self._moments.variances()
        std = np.sqrt(np.where(variances > 0.0, variances, np.nan))
        return (moment(self.samples_, axis=0) - shift) / std
