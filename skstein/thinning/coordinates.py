"""Where a Stein kernel is evaluated: in coordinates in which its base kernel is round.

Two different maps are both called preconditioning. Whitening, ``x = L z`` with
scores ``L' s``, changes the coordinates of the problem: the result then does not depend on the
units or on a linear mixing of the parameters. A base kernel with a matrix G of squared length
scales, ``phi((x - y)' G^-1 (x - y))``, leaves the scores as they are (Riabiz et al. 2022, "Optimal
thinning of MCMC output" (doi:10.1111/rssb.12503)), and its Stein kernel is a different one. With
``G = Q diag(g) Q'`` the kernel is round in ``u``, ``x = Q diag(g)^(1/2) u``; there a score counts
with the rate 1 / g.
"""

import numbers
from contextlib import suppress

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.utils import gen_batches

from .. import _jit
from ..kernels import IMQ, RBF, resolve_kernel
from .chains import check_finite, interleaved, read_chains
from .moments import StreamMoments

_PART = 10_000  # samples whose moments are computed at a time
_LARGEST_SAMPLE = 1000  # for the median distance


class SteinCoordinates:
    """A radial Stein kernel and the affine map to coordinates in which its base kernel is round.

    Parameters
    ----------
    kernel : "imq", "rbf", IMQ or RBF
    length_scale : None, "median", "scaled-median", "cov", float or array of shape (d, d)
        Takes the place of the kernel's own; an array holds squares.
    preconditioner : None, "cov" or array of shape (d, d)
        Covariance that whitens.
    samples : array of shape (n, d)
        The samples from which rules are settled.
    spread : float
        Factor of Stein's identity of the spread, before it is divided by the dimension.

    Attributes
    ----------
    base_kernel : IMQ or RBF
        With numbers for rules.
    kernel : skstein._jit.thinning.Kernel
        The same for the compiled routines.
    """

    def __init__(self, kernel, length_scale, preconditioner, samples, spread=0.0):
        kernel = resolve_kernel(kernel)
        if not isinstance(kernel, IMQ | RBF):
            raise ValueError(f'kernel must be "imq", "rbf", an IMQ or an RBF, got {kernel!r}.')
        dim = samples.shape[1]
        # x = location + root u; without a root, u is x itself.
        self._root, self._rates = None, np.ones(dim)
        self._spread = spread
        self._location = np.zeros(dim)
        covariance = _covariance("preconditioner", preconditioner, samples)
        if covariance is not None:
            self._root = _cholesky("preconditioner", covariance)
            self._inverse = solve_triangular(self._root, np.eye(dim), lower=True)
        if isinstance(preconditioner, str):
            self._location = samples.mean(axis=0)
        # Rules look at no more than these.
        few = np.linspace(0, len(samples) - 1, min(len(samples), _LARGEST_SAMPLE), dtype=int)
        some = samples[few]
        squares = _squared_scale(length_scale, self.samples(some))
        if np.ndim(squares) == 2:
            self._make_round(squares)
            squares = 1.0
        if squares is not None:
            scale = "bandwidth" if isinstance(kernel, RBF) else "length_scale"
            kernel = clone(kernel).set_params(**{scale: float(np.sqrt(squares))})
        self.base_kernel = kernel.fixed(self.samples(some))

    @property
    def kernel(self):
        dim, base = len(self._rates), self.base_kernel
        if isinstance(base, RBF):
            shape = True, base._h2(dim), 0.0
        else:
            shape = False, base._l2(dim), base._beta()
        rates = _jit.thinning.frozen(self._rates)
        return _jit.thinning.Kernel(*shape, rates, float(self._spread / dim))

    def samples(self, x):
        """Samples (n, d) in round coordinates."""
        return x if self._root is None else (x - self._location) @ self._inverse.T

    def scores(self, s):
        """Scores (n, d) as the compiled routines want them: in round coordinates, times rates."""
        return s if self._root is None else (s @ self._root) * self._rates

    def original_samples(self, u):
        """What `samples` undoes."""
        return u if self._root is None else self._location + u @ self._root.T

    def original_scores(self, t):
        """What `scores` undoes."""
        return t if self._root is None else (t / self._rates) @ self._inverse

    def _make_round(self, squares):
        g, rotation = np.linalg.eigh(squares)
        scaled, inverse = rotation * np.sqrt(g), (rotation / np.sqrt(g)).T
        if self._root is not None:
            scaled, inverse = self._root @ scaled, inverse @ self._inverse
        self._root, self._inverse, self._rates = scaled, inverse, 1.0 / g


def _covariance(name, value, samples):
    """The matrix that ``value`` names or is, or None."""
    dim = samples.shape[1]
    if value is None:
        return None
    if isinstance(value, str) and value == "cov":
        if len(samples) <= dim:
            raise ValueError(
                f'{name}="cov" needs more than {dim} samples (in the first call, if there are '
                f"several), got {len(samples)}; pass more of them, or a matrix."
            )
        moments = StreamMoments(dim, full=True)
        for part in gen_batches(len(samples), _PART):
            moments.add(samples[part])
        return moments.scatter / (len(samples) - 1)
    if isinstance(value, str) or np.shape(value) != (dim, dim):
        raise ValueError(
            f'{name} must be None, "cov" or an array of shape ({dim}, {dim}), got {value!r}.'
        )
    return np.asarray(value, dtype=float)


def _cholesky(name, covariance):
    with suppress(np.linalg.LinAlgError):
        # LAPACK looks at the lower triangle only, and lets NaN pass.
        if np.abs(covariance - covariance.T).max() <= 1e-8 * np.abs(covariance).max():
            return np.linalg.cholesky(covariance)
    raise ValueError(
        f"{name} is not symmetric and positive definite; pass a covariance that is, leave out "
        "coordinates that are constant or sums of others, or pass None."
    )


def _squared_scale(length_scale, samples):
    """Squared length scale: a number, a matrix, or None for the kernel's own."""
    if isinstance(length_scale, str) and length_scale in ("median", "scaled-median"):
        n = len(samples)
        median = np.median(pdist(samples)) if n > 1 else 0.0
        if not median > 0.0:
            raise ValueError(
                f'length_scale="{length_scale}": the median distance between samples is 0; pass a '
                "number."
            )
        return median**2 / (np.log(n) if length_scale == "scaled-median" else 1.0)
    if isinstance(length_scale, numbers.Real):
        if not 0.0 < length_scale < np.inf:  # type: ignore[operator]
            raise ValueError(f"length_scale must be positive, got {length_scale!r}.")
        return float(length_scale) ** 2
    if isinstance(length_scale, str) and length_scale != "cov":
        raise ValueError(
            'length_scale must be None, "median", "scaled-median", "cov", a positive number or an '
            f"array of squares of shape (d, d), got {length_scale!r}."
        )
    squares = _covariance("length_scale", length_scale, samples)
    if squares is not None:
        _cholesky("length_scale", squares)
    return squares


def in_round_coordinates(samples, scores, kernel, length_scale, preconditioner):
    """Samples and scores of chains in the round coordinates of a kernel, and these."""
    samples, scores = map(interleaved, read_chains(samples, scores))
    check_finite("samples", samples)
    check_finite("scores", scores)
    coordinates = SteinCoordinates(kernel, length_scale, preconditioner, samples)
    return coordinates.samples(samples), coordinates.scores(scores), coordinates
