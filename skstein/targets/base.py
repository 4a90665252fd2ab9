"""What every log density offers to the engines.

A target is an unnormalised log density of an unconstrained vector ``theta``. Every call is batched:
``theta`` has shape ``(m, dim)``, one row a particle (or a chain). An optional part that a target
lacks is an attribute equal to None, and :func:`supports` tells.
"""

import numpy as np


def supports(target, part):
    """Whether ``target`` offers the optional part, such as ``"score"`` or ``"hessian"``."""
    return getattr(target, part, None) is not None


class NotANumber(ValueError):
    """A user's function returned NaN; `infer` adds to the message when that was."""


def as_names(names, count, parameter="names"):
    """``names`` as a tuple of ``count`` strings.

    A string is a sequence too, of its letters; none that is given for names means that.
    """
    if isinstance(names, str | bytes):
        raise TypeError(
            f"{parameter} must be a sequence of {count} names, got {names!r}: give a list."
        )
    names = tuple(map(str, names))
    if len(names) != count:
        raise ValueError(f"{parameter} must have {count} entries, got {len(names)}.")
    return names


class Target:
    """Base class of log densities.

    A subclass sets ``dim`` and writes ``log_likelihood`` and ``log_prior`` (or ``log_density``),
    and whatever of the optional parts it can: ``score``, ``hessian``, ``conditional``,
    ``sample_prior``, ``sample_start``, ``log_start``, ``pointwise_log_likelihood``, ``take``.

    Attributes
    ----------
    dim : int
        Number of coordinates.
    n_rows : int or None
        Number of data rows; None when there is no data.
    n_weightless : int
        Rows that were left out because they have no weight; a stream counts them among those seen.
    names : tuple of str
        A name for each coordinate.
    stochastic : bool
        Whether ``score`` is noisy: then engines draw ``batch_size`` rows for each score.
    batch_size : int or None
    initial : ndarray of shape (dim,)
        Where a search for the mode starts.
    held_out : Target or None
        The same model of rows kept back for validation.
    """

    n_rows = None
    n_weightless = 0
    stochastic = False
    batch_size = None
    held_out = None

    score = None
    hessian = None
    hessian_diagonal = None
    conditional = None
    log_prior = None
    sample_prior = None
    sample_start = None
    log_start = None
    pointwise_log_likelihood = None
    take = None

    @property
    def names(self):
        return tuple(f"theta[{j}]" for j in range(self.dim))

    @property
    def initial(self):
        return np.zeros(self.dim)

    @property
    def factors(self):
        """The target's own factorisation for mean field: a partition of the coordinates.

        Each factor is an index array or, where it is known in closed form given the others, a
        `ConjugateFactor`. Whitening keeps factors apart.
        """
        return (np.arange(self.dim),)

    def log_density(self, theta):
        """Unnormalised log density at each row of ``theta`` (m, dim), shape (m,)."""
        return self.log_prior(theta) + self.log_likelihood(theta)

    def log_density_and_score(self, theta):
        """Log density (m,) and its gradient (m, dim); a subclass may do both in one pass."""
        return self.log_density(theta), self.score(theta)
