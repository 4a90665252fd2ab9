"""What every log density offers to the engines.

A target is an unnormalised log density of an unconstrained vector ``theta``. Every call is batched:
``theta`` has shape ``(m, dim)``, one row per particle (or chain). An optional part that a target
lacks is an attribute equal to None, and :func:`supports` tells.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln

from ..protocols import Array, Bijection, Rng


def supports(target: Any, part: str) -> bool:
    """Whether ``target`` offers the optional part, such as ``"score"`` or ``"hessian"``."""
    return getattr(target, part, None) is not None


def require_target(target):
    """Refuse what is not a target, such as a function or a class."""
    if isinstance(target, type) or not (hasattr(target, "dim") and hasattr(target, "log_density")):
        raise TypeError(
            f"target must be a log density such as LogDensity(log_density, score, dim=2), got "
            f"{target!r}."
        )


class NotANumber(ValueError):
    """A user's function returned NaN; `infer` adds to the message when that was."""


class Target:
    """Base class of log densities.

    A subclass sets ``dim`` and writes ``log_likelihood`` and ``log_prior`` (or ``log_density``),
    and those of the optional parts that it can offer:

    - ``score``, ``hessian``, ``sample_prior``, ``pointwise_log_likelihood``, ``take``;
    - ``conditional``, a target whose mode is found more easily; with it ``scanned``, the target
      about that mode, and ``straightened``, coordinates in which it is standard normal;
    - ``coordinates``, a bijection to work in, with a `LaplaceApproximation` of what it maps from;
    - ``of_rows``, which applies a function of rows where the rows are.

    Engines start from a standard normal where there is no ``start``. What an engine asks for is in
    `skstein.protocols.WorkingTarget`.

    Attributes
    ----------
    dim : int
        Number of coordinates.
    n_rows : int or None
        Number of data rows; None when there is no data.
    weights : ndarray of shape (n_rows,) or None
        Of the rows, by which their log likelihoods count; None where all are 1.
    sufficient : bool
        Whether a density costs no row, because a few sums over them tell all; ``joined`` adds them
        to those of other rows.
    n_weightless : int
        Rows that were left out because they have no weight; a stream counts them among those seen.
    more_follow : bool
        Whether these rows are of a stream, which may keep up to 10,000 of them for a while.
    scores_no_rows : bool
        Whether ``score`` may be asked of no rows, and is that of the prior then.
    names : tuple of str
        A name for each coordinate.
    modes_unknown : bool
        Whether it may have several modes, and the search for one may end at the wrong one.
    stochastic : bool
        Whether ``score`` is noisy: then engines draw ``batch_size`` rows for each score.
    batch_size : int or None
    initial : ndarray of shape (dim,)
        Where a search for the mode starts.
    prior_location : float or ndarray of shape (dim,)
        About which ``conditional`` is given second moments.
    symmetric_prior : bool
        Whether the prior stays the same if a coordinate of a linear predictor changes its sign.
    in_shards : bool
        Whether a call goes to rows elsewhere, as many as they are: then particles stay together.
    sums_rows : bool
        Whether the likelihood is a sum over rows of what an ``outcome`` says of each, as that of
        `RegressionTarget`, and goes through them all at every gradient.
    judged_by_chains : bool
        Whether engines that stay near their start are compared with chains however normal the
        density looks from there.
    validation : Target or None
        The same model of rows kept back for validation.
    whitened : bool
        Whether the scale of every coordinate is about 1.
    bijection : bijection or None
        To coordinates of a target inside; None where there are no others.
    start : bijection or None
        ``start.forward`` of a standard normal draw is where engines start; None is the standard
        normal itself.
    """

    dim: int
    n_rows: int | None = None
    weights: Any = None
    sufficient: bool = False
    n_weightless: int = 0
    more_follow: bool = False
    scores_no_rows: bool = False
    modes_unknown: bool = False
    stochastic: bool = False
    batch_size: int | None = None
    validation: Any = None
    whitened: bool = False
    bijection: Bijection | None = None
    start: Bijection | None = None
    prior_location: Any = 0.0
    symmetric_prior: bool = False
    sums_rows: bool = False
    judged_by_chains: bool = False
    in_shards: bool = False

    score: Any = None
    hessian: Any = None
    hessian_diagonal: Any = None
    conditional: Any = None
    coordinates: Any = None
    scanned: Any = None
    straightened: Any = None
    log_prior: Any = None
    log_likelihood: Any = None
    sample_prior: Any = None
    pointwise_log_likelihood: Any = None
    of_rows: Any = None
    take: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"theta[{j}]" for j in range(self.dim))

    @property
    def initial(self) -> Array:
        return np.zeros(self.dim)

    @property
    def factors(self) -> Sequence:
        """The target's own factorisation for mean field: a partition of the coordinates.

        Each factor is an index array or, where it is known in closed form given the others, a
        `ConjugateFactor`. Whitening keeps factors apart.
        """
        return (np.arange(self.dim),)

    def log_density(self, theta: Array) -> Array:
        """Unnormalised log density at each row of ``theta`` (m, dim), shape (m,)."""
        return self.log_prior(theta) + self.log_likelihood(theta)

    def log_density_and_score(self, theta: Array) -> tuple[Array, Array]:
        """Log density (m,) and its gradient (m, dim); a subclass may do both in one pass."""
        return self.log_density(theta), self.score(theta)

    def sample_start(self, rng: Rng, m: int, df: float | None = None) -> Array:
        """Draws of the Gaussian start, shape (m, dim).

        With ``df`` it is a Student-t of so many degrees of freedom and the Gaussian's scale.
        """
        draws = rng.standard_normal((m, self.dim))
        if df is not None:
            draws /= np.sqrt(rng.chisquare(df, (m, 1)) / df)
        return draws if self.start is None else self.start.forward(draws)

    def log_start(self, theta: Array, df: float | None = None) -> Array:
        """Normalised log density of ``sample_start``, shape (m,)."""
        white = theta if self.start is None else self.start.inverse(theta)
        square = np.einsum("ij,ij->i", white, white)
        if df is None:
            value = -0.5 * (square + self.dim * np.log(2 * np.pi))
        else:
            half = 0.5 * (df + self.dim)
            value = gammaln(half) - gammaln(0.5 * df) - 0.5 * self.dim * np.log(df * np.pi)
            value = value - half * np.log1p(square / df)
        return value if self.start is None else value - self.start.log_det(white)

    def draws_of(self, distribution: Any, rng: Rng, m: int) -> tuple[Array, Array]:
        """Draws of a distribution over the model's own coordinates, in these ones.

        Parameters
        ----------
        distribution : object
            With ``rvs(size, random_state)`` and ``logpdf(theta)``, as those of `scipy.stats`.
        rng : numpy.random.Generator
        m : int

        Returns
        -------
        theta : ndarray of shape (m, dim)
        log_density : ndarray of shape (m,)
            Normalised, in these coordinates.
        """
        theta = np.asarray(distribution.rvs(size=m, random_state=rng), dtype=float)
        if theta.size != m * self.dim:
            raise ValueError(
                f"rvs(size={m}) of {distribution!r} has shape {theta.shape}, expected "
                f"({m}, {self.dim})."
            )
        theta = theta.reshape(m, self.dim)
        value = np.asarray(distribution.logpdf(theta), dtype=float)
        if value.size != m:
            raise ValueError(
                f"logpdf of {distribution!r} has shape {value.shape} for {m} points, expected "
                f"({m},)."
            )
        return theta, value.reshape(m)


class SummedTarget(Target):
    """Base class of densities whose value and score come from one walk over the rows.

    A subclass writes ``_sum``, the log likelihood and its score as far as wanted, and
    ``_add_prior_score``.
    """

    _sum: Any
    _add_prior_score: Any

    def log_likelihood(self, theta, rows=None):
        return self._sum(theta, rows, value=True, score=False)[0]

    def score(self, theta, rows=None):
        _, score = self._sum(theta, rows, value=False, score=True)
        return self._add_prior_score(theta, score)

    def log_density_and_score(self, theta):
        value, score = self._sum(theta, None, value=True, score=True)
        return value + self.log_prior(theta), self._add_prior_score(theta, score)
