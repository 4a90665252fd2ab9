"""A target seen in other coordinates."""

from functools import partial

import numpy as np
from scipy.special import gammaln

from .base import Target, supports
from .bijections import Affine
from .factors import ConjugateFactor


class Transformed(Target):
    """The density of ``z`` when ``theta = bijection.forward(z)`` has the target's density.

    Parameters
    ----------
    target : Target
    bijection : bijection or None
        The coordinates; None leaves them as they are.
    start : bijection or None
        ``start.forward`` of a standard normal draw is where engines start, an approximation of the
        posterior in these coordinates; None is the standard normal itself.
    """

    def __init__(self, target, bijection, start=None):
        self.target, self.bijection, self.start = target, bijection, start
        self.dim, self.n_rows, self.stochastic = target.dim, target.n_rows, target.stochastic
        self.batch_size, self.n_weightless = target.batch_size, target.n_weightless
        held_out = getattr(target, "held_out", None)
        self.held_out = None if held_out is None else Transformed(held_out, bijection)
        for part in ("score", "hessian", "log_prior", "sample_prior", "pointwise_log_likelihood"):
            if not supports(target, part):
                setattr(self, part, None)

    @property
    def names(self):
        return self.target.names

    @property
    def factors(self):
        if self.bijection is None:
            return self.target.factors
        return tuple(
            ConjugateFactor(factor.indices, partial(self._optimum, factor))
            if isinstance(factor, ConjugateFactor)
            else factor
            for factor in self.target.factors
        )

    def _optimum(self, factor, z):
        return _Pulled(factor.optimum(self._forward(z)), factor.indices, self)

    @property
    def initial(self):
        return self._inverse(self.target.initial[None])[0]

    def _forward(self, z):
        return z if self.bijection is None else self.bijection.forward(z)

    def _inverse(self, theta):
        return theta if self.bijection is None else self.bijection.inverse(theta)

    def _log_det(self, z):
        return 0.0 if self.bijection is None else self.bijection.log_det(z)

    def _pull(self, z, score):
        return score if self.bijection is None else self.bijection.pull_score(z, score)

    def log_prior(self, z):
        return self.target.log_prior(self._forward(z)) + self._log_det(z)

    def log_likelihood(self, z, rows=None):
        return self.target.log_likelihood(self._forward(z), rows)

    def log_density(self, z):
        return self.target.log_density(self._forward(z)) + self._log_det(z)

    def score(self, z, rows=None):
        return self._pull(z, self.target.score(self._forward(z), rows))

    def log_density_and_score(self, z):
        value, score = self.target.log_density_and_score(self._forward(z))
        return value + self._log_det(z), self._pull(z, score)

    def pointwise_log_likelihood(self, z):
        return self.target.pointwise_log_likelihood(self._forward(z))

    def hessian(self, z):
        theta = self._forward(z[None])
        hessian = self.target.hessian(theta[0])
        if self.bijection is None:
            return hessian
        return self.bijection.pull_hessian(z, self.target.score(theta)[0], hessian)

    def sample_prior(self, rng, m):
        return self._inverse(self.target.sample_prior(rng, m))

    def sample_start(self, rng, m, df=None):
        """Draws of the Gaussian start (pushed through the coordinates), shape (m, dim).

        With ``df`` it is a Student-t of so many degrees of freedom and the Gaussian's scale.
        """
        draws = rng.standard_normal((m, self.dim))
        if df is not None:
            draws /= np.sqrt(rng.chisquare(df, (m, 1)) / df)
        return draws if self.start is None else self.start.forward(draws)

    def log_start(self, z, df=None):
        """Normalised log density of ``sample_start``, shape (m,)."""
        white = z if self.start is None else self.start.inverse(z)
        square = np.einsum("ij,ij->i", white, white)
        if df is None:
            value = -0.5 * (square + self.dim * np.log(2 * np.pi))
        else:
            half = 0.5 * (df + self.dim)
            value = gammaln(half) - gammaln(0.5 * df) - 0.5 * self.dim * np.log(df * np.pi)
            value = value - half * np.log1p(square / df)
        return value if self.start is None else value - self.start.log_det(white)

    def draws_of(self, distribution, rng, m):
        """Draws of a distribution over the target's own coordinates, in these ones.

        Parameters
        ----------
        distribution : object
            With ``rvs(size, random_state)`` and ``logpdf(theta)``, as those of `scipy.stats`.
        rng : numpy.random.Generator
        m : int

        Returns
        -------
        z : ndarray of shape (m, dim)
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
        z = self._inverse(theta)
        return z, value.reshape(m) + self._log_det(z)


class _Pulled:
    """The distribution of a factor's coordinates as seen in those of a `Transformed`."""

    def __init__(self, distribution, indices, transformed):
        self._distribution, self._indices = distribution, indices
        self._transformed = transformed

    def sample(self, rng, m):
        # The map keeps factors apart, so that the other coordinates may be any.
        theta = self._transformed._forward(np.zeros((m, self._transformed.dim)))
        theta[:, self._indices] = self._distribution.sample(rng, m)
        return self._transformed._inverse(theta)[:, self._indices]

    def entropy(self):
        log_det = self._transformed.bijection.log_det_of(self._indices)
        return self._distribution.entropy() - log_det


class Whitened(Transformed):
    """``theta = location + scale_tril z``: the target in coordinates whitened by a Gaussian.

    Parameters
    ----------
    target : Target
    location : ndarray of shape (dim,)
    scale_tril : ndarray of shape (dim, dim)
        Lower Cholesky factor of the Gaussian's covariance.
    """

    def __init__(self, target, location, scale_tril):
        super().__init__(target, Affine(location, scale_tril))
