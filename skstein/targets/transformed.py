"""A target seen in other coordinates."""

from functools import partial
from typing import Any

import numpy as np

from ..protocols import Bijection
from .bijections import placed
from .mean_field_factors import ConjugateFactor
from .wrapper import Wrapper


class Transformed(Wrapper):
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

    bijection: Any  # may have `pull_hessian` too

    def __init__(self, target, bijection: Bijection | None, start: Bijection | None = None):
        super().__init__(target)
        self.bijection, self.start, self.whitened = bijection, start, bijection is not None
        self.stochastic, self.batch_size = target.stochastic, target.batch_size
        self.n_weightless, self.more_follow = target.n_weightless, target.more_follow
        self.modes_unknown = target.modes_unknown
        if self.validation is not None:
            self.validation = Transformed(self.validation, bijection)

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
        return _Pulled(factor.optimum(self.forward(z)), factor.indices, self)

    @property
    def initial(self):
        return self.inverse(self.target.initial[None])[0]

    def forward(self, z):
        return z if self.bijection is None else self.bijection.forward(z)

    def inverse(self, theta):
        return theta if self.bijection is None else self.bijection.inverse(theta)

    def _log_det(self, z):
        return 0.0 if self.bijection is None else self.bijection.log_det(z)

    def log_prior(self, z):
        return super().log_prior(z) + self._log_det(z)

    def _placed(self, z):
        return placed(self.bijection, z)

    def hessian(self, z):
        theta = self.forward(z[None])
        hessian = self.target.hessian(theta[0])
        if self.bijection is None:
            return hessian
        return self.bijection.pull_hessian(z, self.target.score(theta)[0], hessian)

    def sample_prior(self, rng, m):
        return self.inverse(self.target.sample_prior(rng, m))

    def draws_of(self, distribution, rng, m):
        theta, value = super().draws_of(distribution, rng, m)
        z = self.inverse(theta)
        return z, value + self._log_det(z)


class _Pulled:
    """The distribution of a factor's coordinates as seen in those of a `Transformed`."""

    def __init__(self, distribution, indices, transformed):
        self._distribution, self._indices = distribution, indices
        self._transformed = transformed

    def sample(self, rng, m):
        # The map keeps factors apart, so that the other coordinates may be any.
        theta = self._transformed.forward(np.zeros((m, self._transformed.dim)))
        theta[:, self._indices] = self._distribution.sample(rng, m)
        return self._transformed.inverse(theta)[:, self._indices]

    def entropy(self):
        scales = self._transformed.bijection.matrix.diagonal()[self._indices]
        return self._distribution.entropy() - float(np.log(np.abs(scales)).sum())


def of_model(target, z):
    """Points in the coordinates of the model inside all wrappers."""
    while isinstance(target, Wrapper):
        target, z = target.target, target.forward(z)
    return z
