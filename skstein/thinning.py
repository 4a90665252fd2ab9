"""Thinning of Monte-Carlo samples by their kernel Stein discrepancy (KSD).

A sample of the target density and its scores are enough to measure how far a small set of points is
from the target: the mean of the Stein kernel over all pairs is zero in expectation only under the
target itself. `OnlineKSDThinner` keeps such a set while a Markov chain runs, in constant memory;
`stein_thin` picks one from a finished sample.

The method is that of Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized
Stein discrepancy", with greedy selection from Riabiz et al. (2022), "Optimal thinning of MCMC
output". It differs from the former in four ways. The default budget is a hard cap: a candidate is
tried together with the dictionary before it replaces the point that contributes most to the KSD, so
that bad points leave at any time and memory is bounded. The length scale grows with the dimension,
l^2 = 4 d for points with unit covariance, where a fixed one lets the kept points shrink towards the
mode. The row sums of the Stein matrix are updated and their sum taken afresh, where the paper
recomputes the KSD for every trial. The candidate of a group minimises
``k0(x, x) + 2 sum_i k0(x, x_i)``, and with it the KSD after it has entered.

KSD does not see modes that no sample visited. It is no test of convergence: look at R-hat first.
"""

import math
import numbers

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator

from ._jit import thinning as _jit
from .kernels import IMQ, RBF, resolve_kernel

__all__ = ["OnlineKSDThinner", "stein_thin"]

_PATH_EVERY = 100
_BUDGETS = {
    "linear": lambda t: 0.5 * t,
    "sqrt": lambda t: math.sqrt(t * math.log(t)),
}


class OnlineKSDThinner(BaseEstimator):
    """Keep a few points of a stream of samples, those with the smallest kernel Stein discrepancy.

    Parameters
    ----------
    n_points : int, default=100
        Number of points kept when ``budget="cap"``. Below twice the dimension the spread of the
        kept points falls short in some directions.
    kernel : "imq", "rbf", IMQ or RBF, default="imq"
        Base kernel. Its automatic scales are meant for samples with about unit covariance: whiten
        them, or let ``preconditioner`` do it. ``bandwidth="median"`` is settled by the first call.
    budget : "cap", "linear", "sqrt", float or callable, default="cap"
        "cap": at most ``n_points``. The others are the paper's floors f(t) at step t: one sample
        enters in every step, and points are dropped only down to f(t). "linear": t / 2; "sqrt":
        sqrt(t log t); a number: constant; a callable: ``f(t)``. Memory is quadratic in the number
        of points.
    eps : float or callable, default=0.0
        With a floor, how much the squared KSD may rise by dropping, a number or ``eps(t)``. Not
        used by "cap".
    candidates : int, default=1
        Only the best of every ``candidates`` samples is tried (the paper's SPMCMC).
    preconditioner : None, "cov" or array of shape (d, d), default=None
        Covariance that whitens samples and scores. "cov": that of the samples of the first call.

    Attributes
    ----------
    indices_ : array of shape (n,)
        Positions of the kept points in the stream, increasing. The stream takes the draws of
        several chains in turn: draw t of chain c is number ``t * n_chains + c``.
    samples_, scores_ : arrays of shape (n, d)
        The kept points and their scores, in the coordinates of the input.
    ksd_ : float
        KSD of the kept points (in whitened coordinates).
    ksd_path_ : array of shape (k, 3)
        After every 100 draws: draws seen, points kept, KSD.
    n_seen_, n_rejected_, n_accepted_ : int
        Draws seen; draws left out because they or their scores were not finite; draws that entered
        the dictionary.
    moment_gap_, sd_ratio_ : arrays of shape (d,)
        Mean of the kept points minus that of the stream, in standard deviations of the stream; and
        the ratio of the standard deviations. Gaps above 0.3 or mean ratios outside 0.85-1.15 say
        that the kept points miss a mode or have shrunk.
    kernel_ : IMQ or RBF
        The kernel with numbers for rules.

    Raises
    ------
    ValueError
        If a parameter or the shape of the input is wrong.

    Notes
    -----
    Scores are gradients of the log density in the very coordinates of the samples: for a
    constrained parameter sampled on an unconstrained scale, the Jacobian included. A draw that
    repeats the one before it in its chain is skipped.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein
    discrepancy", Algorithms 1 and 2.

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

    def __init__(
        self,
        n_points=100,
        kernel="imq",
        *,
        budget="cap",
        eps=0.0,
        candidates=1,
        preconditioner=None,
    ):
        self.n_points = n_points
        self.kernel = kernel
        self.budget = budget
        self.eps = eps
        self.candidates = candidates
        self.preconditioner = preconditioner

    def fit(self, samples, scores):
        """Forget what was seen before and pass all of ``samples`` through the dictionary.

        Parameters
        ----------
        samples : array of shape (draws, d) or (chains, draws, d)
        scores : array of the same shape
            Gradient of the target's log density at the samples.

        Returns
        -------
        self : OnlineKSDThinner
        """
        self.__dict__.pop("_dictionary", None)
        return self.partial_fit(samples, scores)

    def partial_fit(self, samples, scores):
        """Pass more of the stream through the dictionary.

        How the stream is cut into calls makes no difference, except to ``preconditioner="cov"`` and
        ``bandwidth="median"``, which look at the first call.

        Parameters
        ----------
        samples : array of shape (draws, d) or (chains, draws, d)
        scores : array of the same shape

        Returns
        -------
        self : OnlineKSDThinner
        """
        samples, scores = _checked(samples, scores)
        if not hasattr(self, "_dictionary"):
            self._start(samples, scores)
        if samples.shape[2] != self._dim:
            raise ValueError(
                f"samples have {samples.shape[2]} coordinates, those of earlier calls {self._dim}."
            )
        finite = np.isfinite(samples).all(axis=2) & np.isfinite(scores).all(axis=2)
        fresh = self._differs_from_previous(samples)
        # (chains, draws, ...) -> one stream that takes a draw of every chain in turn
        finite, fresh = finite.T.ravel(), fresh.T.ravel()
        samples = samples.swapaxes(0, 1).reshape(-1, self._dim)
        scores = scores.swapaxes(0, 1).reshape(-1, self._dim)
        self._add_moments(samples[finite])
        self.n_rejected_ += int(np.sum(~finite))
        keep = finite & fresh
        position = 0
        while position < len(samples):
            # Cut where the path is recorded, whatever the cuts between calls.
            size = _PATH_EVERY - self.n_seen_ % _PATH_EVERY
            piece = slice(position, position + size)
            (kept,) = np.nonzero(keep[piece])
            self._pass(samples[piece][kept], scores[piece][kept], kept + self.n_seen_)
            self.n_seen_ += len(keep[piece])
            position += size
            if self.n_seen_ % _PATH_EVERY == 0:
                self._path.append((self.n_seen_, self._size, self.ksd_))
        return self

    def _start(self, samples, scores):
        _check_count("n_points", self.n_points)
        _check_count("candidates", self.candidates)
        flat = samples.reshape(-1, samples.shape[2])
        usable = flat[np.isfinite(flat).all(axis=1)]
        root = _root(self.preconditioner, usable)
        _slack(self.eps)
        capacity = self.n_points if _floor(self.budget) is None else 2 * _PATH_EVERY
        kernel = _radial(self.kernel).fixed(_whiten(root, usable))
        self._root, self.kernel_, self._dim = root, kernel, samples.shape[2]
        self._previous = None
        self._moments = (0, np.zeros(self._dim), np.zeros(self._dim))
        self._path = []
        self.n_seen_ = 0
        self.n_rejected_ = 0
        self._dictionary = _jit.empty_dictionary(capacity, self._dim)

    def _differs_from_previous(self, samples):
        fresh = np.ones(samples.shape[:2], dtype=bool)
        if samples.shape[1]:
            fresh[:, 1:] = np.any(samples[:, 1:] != samples[:, :-1], axis=2)
            if self._previous is not None and len(self._previous) == len(samples):
                fresh[:, 0] = np.any(samples[:, 0] != self._previous, axis=1)
            self._previous = samples[:, -1].copy()
        return fresh

    def _add_moments(self, samples):
        """Mean and sum of squared deviations of the stream so far (Chan, Golub & LeVeque 1983)."""
        count, mean, squares = self._moments
        new = len(samples)
        if new:
            gap = samples.mean(axis=0) - mean
            total = count + new
            squares = squares + new * samples.var(axis=0) + gap**2 * (count * new / total)
            self._moments = (total, mean + gap * (new / total), squares)

    def _pass(self, samples, scores, index):
        samples = _whiten(self._root, samples)
        scores = scores if self._root is None else scores @ self._root
        kernel = _numbers(self.kernel_, self._dim)
        floor, slack = _floor(self.budget), _slack(self.eps)
        if floor is None:
            _jit.thin_capped(
                self._dictionary, samples, scores, index, self.n_points, self.candidates, kernel
            )
            return
        counts = self._dictionary.counts
        groups = (counts[_jit.GROUP] + len(samples)) // self.candidates
        steps = range(counts[_jit.STEPS] + 1, counts[_jit.STEPS] + 1 + groups)
        floors = np.array([_finite("budget", floor, t) for t in steps])
        slacks = np.array([_finite("eps", slack, t) for t in steps])
        capacity = len(self._dictionary.row_sums)
        if self._size + groups > capacity:
            larger = max(2 * capacity, self._size + groups)
            self._dictionary = _jit.enlarged(self._dictionary, larger)
        _jit.thin_floored(
            self._dictionary,
            samples,
            scores,
            index,
            np.ceil(floors),
            slacks,
            self.candidates,
            kernel,
        )

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_dictionary")

    @property
    def _size(self):
        return int(self._dictionary.counts[_jit.SIZE])

    @property
    def _order(self):
        return np.argsort(self._dictionary.index[: self._size])

    @property
    def indices_(self):
        return self._dictionary.index[self._order]

    @property
    def samples_(self):
        points = np.ascontiguousarray(self._dictionary.points[:, self._order].T)
        return points if self._root is None else points @ self._root.T

    @property
    def scores_(self):
        scores = np.ascontiguousarray(self._dictionary.scores[:, self._order].T)
        if self._root is None:
            return scores
        return solve_triangular(self._root, scores.T, lower=True, trans="T").T

    @property
    def ksd_(self):
        if not self._size:
            return math.nan
        # Rounding can leave a tiny negative sum.
        return math.sqrt(max(self._dictionary.row_sums[: self._size].sum(), 0.0)) / self._size

    @property
    def ksd_path_(self):
        return np.array(self._path).reshape(-1, 3)

    @property
    def n_accepted_(self):
        return int(self._dictionary.counts[_jit.ENTERED])

    @property
    def moment_gap_(self):
        _, mean, _ = self._moments
        return self._over_stream_std(np.mean, shift=mean)

    @property
    def sd_ratio_(self):
        return self._over_stream_std(np.std)

    def _over_stream_std(self, moment, shift=0.0):
        count, _, squares = self._moments
        if not self._size:
            return np.full(self._dim, np.nan)
        # A coordinate that never moved has no scale to compare with.
        std = np.sqrt(np.where(squares > 0.0, squares, np.nan) / count)
        return (moment(self.samples_, axis=0) - shift) / std


def stein_thin(samples, scores, n_points, *, kernel="imq", preconditioner="cov"):
    """Indices of the samples that greedily minimise the kernel Stein discrepancy.

    Every step takes the sample that gives the smallest KSD together with those taken before; one
    can come more than once. The cost is ``n_points`` rows of the Stein matrix, and memory is linear
    in the number of samples.

    Parameters
    ----------
    samples : array of shape (draws, d) or (chains, draws, d)
        Chains are put into one stream that takes a draw of each in turn: draw t of chain c is
        number ``t * n_chains + c``.
    scores : array of the same shape
        Gradient of the target's log density at the samples.
    n_points : int
        Number of indices.
    kernel : "imq", "rbf", IMQ or RBF, default="imq"
        Base kernel, in whitened coordinates.
    preconditioner : None, "cov" or array of shape (d, d), default="cov"
        Covariance that whitens samples and scores; "cov": that of the samples.

    Returns
    -------
    indices : array of shape (n_points,)
        In the order of selection.

    Raises
    ------
    ValueError
        If the shapes differ, a value is not finite, or a parameter is wrong.

    References
    ----------
    Riabiz, Chen, Cockayne, Swietach, Niederer, Mackey & Oates (2022), "Optimal thinning
    of MCMC output", Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.thinning import stein_thin
    >>> samples = np.random.default_rng(0).normal(size=(1000, 2))
    >>> indices = stein_thin(samples, -samples, 20)
    >>> bool(np.abs(samples[indices].mean(axis=0)).max() < 0.1)
    True
    """
    _check_count("n_points", n_points)
    samples, scores = _checked(samples, scores)
    dim = samples.shape[2]
    samples = samples.swapaxes(0, 1).reshape(-1, dim)
    scores = scores.swapaxes(0, 1).reshape(-1, dim)
    for name, array in (("samples", samples), ("scores", scores)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite; remove those draws.")
    if not len(samples):
        raise ValueError("samples is empty.")
    root = _root(preconditioner, samples)
    samples = _whiten(root, samples)
    scores = scores if root is None else scores @ root
    kernel = _radial(kernel).fixed(samples)
    return _jit.greedy(samples, scores, n_points, _numbers(kernel, dim))


def _checked(samples, scores):
    """Samples and scores as (chains, draws, d) arrays of equal shape."""
    samples, scores = np.asarray(samples, dtype=float), np.asarray(scores, dtype=float)
    if samples.ndim not in (2, 3):
        raise ValueError(
            f"samples must be (draws, d) or (chains, draws, d), got the shape {samples.shape}."
        )
    if samples.shape != scores.shape:
        raise ValueError(
            f"scores must have the shape of samples, {samples.shape}, got {scores.shape}."
        )
    return (samples, scores) if samples.ndim == 3 else (samples[None], scores[None])


def _check_count(name, value):
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")


def _radial(kernel):
    kernel = resolve_kernel(kernel)
    if not isinstance(kernel, IMQ | RBF):
        raise ValueError(f'kernel must be "imq", "rbf", an IMQ or an RBF, got {kernel!r}.')
    return kernel


def _numbers(kernel, dim):
    """Gaussian or not, squared scale and exponent: what the compiled routines take."""
    if isinstance(kernel, RBF):
        return True, kernel._h2(dim), 0.0
    return False, kernel._l2(dim), kernel._beta()


def _root(preconditioner, samples):
    """Lower triangular L with L L' = the covariance that whitens, or None."""
    if preconditioner is None:
        return None
    dim = samples.shape[1]
    if isinstance(preconditioner, str) and preconditioner == "cov":
        if len(samples) <= dim:
            raise ValueError(
                f'preconditioner="cov" needs more than {dim} samples in the first call, got '
                f"{len(samples)}; pass more of them, or a covariance."
            )
        covariance = np.cov(samples, rowvar=False).reshape(dim, dim)
    else:
        covariance = preconditioner
        if isinstance(covariance, str) or np.shape(covariance) != (dim, dim):
            raise ValueError(
                f'preconditioner must be None, "cov" or an array of shape ({dim}, {dim}), got '
                f"{preconditioner!r}."
            )
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise ValueError(
            "preconditioner is not positive definite; pass a covariance that is, or None."
        ) from None


def _whiten(root, samples):
    return samples if root is None else solve_triangular(root, samples.T, lower=True).T


def _floor(budget):
    """Floor f(t) of the number of points, None for the hard cap."""
    if isinstance(budget, str):
        if budget == "cap":
            return None
        if budget in _BUDGETS:
            return _BUDGETS[budget]
    elif callable(budget):
        return budget
    elif isinstance(budget, numbers.Real) and 1 <= budget < math.inf:
        return lambda t: budget
    raise ValueError(
        f'budget must be "cap", "linear", "sqrt", a number >= 1 or a callable, got {budget!r}.'
    )


def _slack(eps):
    if callable(eps):
        return eps
    if isinstance(eps, numbers.Real) and 0 <= eps < math.inf:
        return lambda t: eps
    raise ValueError(f"eps must be a number >= 0 or a callable, got {eps!r}.")


def _finite(name, function, t):
    value = float(function(t))
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must give finite numbers >= 0, got {value} at t = {t}.")
    return value
