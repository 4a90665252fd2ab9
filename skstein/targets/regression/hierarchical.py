r"""A regression whose prior variances are coordinates, instead of integrated out.

The priors `AdaptiveRidge` and `HierarchicalNormal` are normals of unknown variance,

.. math::
   w_j \mid v \sim N(m_j, v_{g(j)}), \qquad v_g \sim IG(a, b),

with a group for every coefficient or one for all. Their own densities have the variances integrated
out, which is the better posterior. Here the variances stand for themselves, so that mean field can
give them a factor, as PMFVB does in section 7, with :math:`m` the prior's location,

.. math::
   q(v) = \prod_g IG\Big(a + n_g / 2,\ b + \tfrac12 \sum_{g(j) = g} E (w_j - m_j)^2\Big).
"""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from ..._tools.copies import changed
from ...priors import Normal
from ...priors.coefficients import FlatPrior
from ...priors.deviations import LogInverseGamma
from ..base import Target
from ..mean_field_factors import ConjugateFactor, indices_of


class HierarchicalTarget(Target):
    """A regression with the logarithms of its prior's variances as more coordinates.

    ``theta`` = (coordinates of the regression, log variances). Its factors for mean field are those
    of the regression under a normal prior, and the variances, in closed form.

    Parameters
    ----------
    regression : RegressionTarget
        With the prior `AdaptiveRidge` or `HierarchicalNormal`.

    Raises
    ------
    ValueError
        If its prior is another.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import AdaptiveRidge
    >>> from skstein.targets import HierarchicalTarget, LogisticTarget
    >>> regression = LogisticTarget(np.eye(2), np.array([0.0, 1.0]), prior=AdaptiveRidge())
    >>> HierarchicalTarget(regression).names
    ('intercept', 'x0', 'x1', 'log_variance[x0]', 'log_variance[x1]')
    """

    def __init__(self, regression):
        self.regression, self.n_rows = regression, regression.n_rows
        self._inner = regression.dim
        self._coef = regression._split(np.arange(self._inner)[None])[1][0]
        groups = regression.prior.variance_groups(len(self._coef))
        if groups is None:
            raise ValueError(
                f"{regression.prior!r} has no variances of its own; use AdaptiveRidge or "
                "HierarchicalNormal."
            )
        self._groups, self._sizes = groups, np.bincount(groups)
        self._loc = regression.prior.location(len(self._coef))
        self._shape, self._rate = float(regression.prior.shape), float(regression.prior.rate)
        self.dim = self._inner + len(self._sizes)
        self._flat = changed(regression, prior=FlatPrior())

    @property
    def names(self):
        names = np.array(self.regression.names, dtype=object)
        if len(self._sizes) < len(self._coef):
            return (*names, "log_variance")
        return (*names, *(f"log_variance[{name}]" for name in names[self._coef]))

    @property
    def initial(self):
        level = math.log(self._rate / self._shape)
        return np.append(self.regression.initial, np.full(len(self._sizes), level))

    @property
    def prior_location(self):
        return np.append(self.regression.prior_location, np.zeros(len(self._sizes)))

    @property
    def factors(self):
        inner = [
            ConjugateFactor(factor.indices, partial(self._optimum_given_variances, number))
            if isinstance(factor, ConjugateFactor)
            else factor
            for number, factor in enumerate(self._given(self.initial[None]).factors)
        ]
        variances = np.arange(self._inner, self.dim)
        return (*inner, ConjugateFactor(variances, self._variances_given_coef))

    def _given(self, theta):
        """The regression under the normal prior of the expected precision over ``theta``."""
        scale = np.exp(-theta[:, self._inner :]).mean(axis=0)[self._groups] ** -0.5
        return changed(self.regression, prior=Normal(scale, self._loc))

    def _optimum_given_variances(self, number, theta):
        return self._given(theta).factors[number].optimum(theta[:, : self._inner])

    def _variances_given_coef(self, theta):
        return self._variances(np.mean((theta[:, self._coef] - self._loc) ** 2, axis=0))

    def _variances(self, square):
        scale = self._rate + 0.5 * np.bincount(self._groups, square)
        return LogInverseGamma(self._shape + 0.5 * self._sizes, scale)

    def _sum_of_squares(self, coef):
        """Sums of squares of the coefficients that share a variance, shape (m, groups)."""
        if len(self._sizes) == len(self._coef):
            return coef**2
        return np.einsum("ij,ij->i", coef, coef)[:, None]

    def log_prior(self, theta):
        inner, log_v = theta[:, : self._inner], theta[:, self._inner :]
        a, b = self._shape, self._rate
        exponent = b + 0.5 * self._sum_of_squares(inner[:, self._coef] - self._loc)
        value = -(a + 0.5 * self._sizes) * log_v - exponent * np.exp(-log_v)
        constant = len(self._sizes) * (a * math.log(b) - math.lgamma(a))
        constant -= 0.5 * len(self._coef) * math.log(2 * math.pi)
        return self._flat.log_prior(inner) + value.sum(axis=1) + constant

    def log_likelihood(self, theta, rows=None):
        return self.regression.log_likelihood(theta[:, : self._inner], rows)

    def score(self, theta, rows=None):
        inner, log_v = theta[:, : self._inner], theta[:, self._inner :]
        precision, coef = np.exp(-log_v), inner[:, self._coef] - self._loc
        score = np.empty_like(theta)
        score[:, : self._inner] = self._flat.score(inner, rows)
        score[:, self._coef] -= precision[:, self._groups] * coef
        exponent = self._rate + 0.5 * self._sum_of_squares(coef)
        score[:, self._inner :] = exponent * precision - (self._shape + 0.5 * self._sizes)
        return score

    def hessian(self, theta, rows=None):
        """Negative Hessian of the log density (dim, dim), over ``rows`` scaled to all rows."""
        inner, precision = theta[: self._inner], np.exp(-theta[self._inner :])
        coef = inner[self._coef] - self._loc
        hessian = np.zeros((self.dim, self.dim))
        hessian[: self._inner, : self._inner] = self._flat.hessian(inner, rows)
        hessian[self._coef, self._coef] += precision[self._groups]
        variances = np.arange(self._inner, self.dim)
        across = -coef * precision[self._groups]
        hessian[self._coef, variances[self._groups]] = across
        hessian[variances[self._groups], self._coef] = across
        exponent = self._rate + 0.5 * np.bincount(self._groups, coef**2)
        hessian[variances, variances] = exponent * precision
        return hessian

    def conditional(self, second_moment):
        """Independent regression and variances that stand for the mean field.

        Given the second moments, the regression has the normal prior of the expected precision, and
        the log variances have their factor.

        Parameters
        ----------
        second_moment : ndarray of shape (dim,)
            ``E[(theta - prior_location)**2]`` under the posterior.
        """
        regression = self.regression.conditional(second_moment[: self._inner])
        variances = self._variances(second_moment[self._coef])
        return _Apart(regression, variances, [indices_of(factor) for factor in self.factors])

    def pointwise_log_likelihood(self, theta):
        """Log likelihood of every row (unweighted), shape (m, n)."""
        return self.regression.pointwise_log_likelihood(theta[:, : self._inner])

    def take(self, rows):
        """The same model on some of the rows, an index array."""
        return HierarchicalTarget(self.regression.take(rows))

    def sample_prior(self, rng, m):
        log_v = LogInverseGamma(self._shape, np.full(len(self._sizes), self._rate)).sample(rng, m)
        inner = self.regression.sample_prior(rng, m)
        noise = rng.standard_normal((m, len(self._coef)))
        inner[:, self._coef] = self._loc + np.exp(0.5 * log_v[:, self._groups]) * noise
        return np.concatenate([inner, log_v], axis=1)


class _Apart(Target):
    """A regression and log variances that know nothing of each other."""

    factors: Any = ()

    def __init__(self, regression, variances, factors):
        self._regression, self._variances, self.factors = regression, variances, factors
        self._inner = regression.dim
        self.dim = regression.dim + len(variances.shape)

    @property
    def initial(self):
        v = self._variances
        return np.append(self._regression.initial, np.log(v.scale / v.shape))

    def log_density(self, theta):
        v, log_v = self._variances, theta[:, self._inner :]
        value = self._regression.log_density(theta[:, : self._inner])
        return value - np.sum(v.shape * log_v + v.scale * np.exp(-log_v), axis=1)

    def score(self, theta, rows=None):
        inner = self._regression.score(theta[:, : self._inner], rows)
        return np.concatenate([inner, self._variances.score(theta[:, self._inner :])], axis=1)

    def hessian(self, theta):
        own = np.diag(self._variances.curvature(theta[self._inner :]))
        return block_diag(self._regression.hessian(theta[: self._inner]), own)

    def hessian_diagonal(self, theta):
        own = self._variances.curvature(theta[self._inner :])
        return np.append(self._regression.hessian_diagonal(theta[: self._inner]), own)
