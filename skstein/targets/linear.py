"""Linear regression with unknown noise variance as a target."""

import math

import numpy as np

from .. import outcomes
from .._blocks import row_blocks
from ..priors import LogInverseGamma
from .factors import ConjugateFactor, MultivariateNormal
from .glm import RegressionTarget

_GRAM_UP_TO = 2000  # columns


class LinearTarget(RegressionTarget):
    """Linear regression with unknown noise variance.

    ``theta`` = (intercept, coefficients, log sigma^2).

    sigma^2 has an inverse gamma prior with density proportional to
    ``sigma2 ** -(noise_shape + 1) * exp(-noise_scale / sigma2)``, independent of the coefficients.
    On all rows the likelihood needs only the Gram matrix, so that a gradient costs O(p^2), not
    O(n p); above 2000 columns the matrix is not formed.

    With ``factorized=True`` the factors for mean field are ``q(intercept, coefficients)``, a normal
    under normal priors, and ``q(sigma^2)``, an inverse gamma.

    Parameters
    ----------
    X : array-like or SciPy sparse array of shape (n, p)
        Features.
    y : array-like of shape (n,)
        Outcomes.
    noise_shape, noise_scale : float, default=1.0
        Of the prior of sigma^2, the scale in squared units of y.
    factorized : bool, default=False
        Whether there are factors for mean field.
    **kwargs : dict
        ``sample_weight``, ``fit_intercept``, ``prior``, ``intercept_prior``, ``center``, ``scale``
        and ``feature_names``, as in `RegressionTarget`.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import LinearTarget
    >>> LinearTarget(np.eye(4)[:, :2], np.arange(4.0)).names
    ('intercept', 'x0', 'x1', 'log_sigma2')
    """

    def __init__(self, X, y, *, noise_shape=1.0, noise_scale=1.0, factorized=False, **kwargs):
        outcome = outcomes.Normal(noise_shape, noise_scale)
        super().__init__(outcome, X, np.asarray(y, dtype=float), **kwargs)
        self.factorized = bool(factorized)
        self._sum_up()

    def take(self, rows):
        """The same regression on some of the rows, an index array."""
        twin = super().take(rows)
        twin._sum_up()
        return twin

    def _sum_up(self):
        """What the likelihood of all rows needs of them."""
        self._total_weight = self.weights.sum()
        self._gram = None
        if self.n_columns <= _GRAM_UP_TO:
            blocks = self._blocks(16 * self.dim)
            grams = (self.design.gram(self.weights[rows], rows) for rows in blocks)
            self._gram = sum(grams, np.zeros((self.n_columns, self.n_columns)))
        # Sums of squares are taken about a ridge solution, where they do not cancel.
        self._center = np.zeros(self.n_columns)
        self._center = self._ridge_solution()
        _, rss, moment = self._sums(self._center[None], None)
        self._rss, self._moment = rss[0], moment[0]

    @property
    def factors(self):
        if not self.factorized:
            return super().factors
        coef, noise = np.arange(self.n_columns), np.array([self.n_columns])
        normal = self.prior.precisions == self.intercept_prior.precisions == "given"
        return (
            ConjugateFactor(coef, self._coef_given_noise)
            if normal and self._gram is not None
            else coef,
            ConjugateFactor(noise, self._noise_given_coef),
        )

    def _coef_given_noise(self, theta):
        precision = np.exp(-theta[:, -1]).mean()
        information = precision * self._gram + self._prior_precision(theta[0])
        moment = self._moment + self._gram @ self._center
        return MultivariateNormal(information, precision * moment)

    def _noise_given_coef(self, theta):
        weight, rss, _ = self._sufficient(theta, None)
        prior = self.outcome
        return LogInverseGamma(
            prior.noise_shape + 0.5 * weight, prior.noise_scale + 0.5 * rss.mean()
        )

    def _ridge_solution(self):
        if self._gram is None:
            return self._center
        ridge = 1e-10 * max(1.0, np.trace(self._gram) / max(1, self.n_columns))
        moment = self._sums(self._center[None], None)[2][0]
        return np.linalg.solve(self._gram + ridge * np.eye(self.n_columns), moment)

    @property
    def initial(self):
        shape, scale = self.outcome.noise_shape, self.outcome.noise_scale
        variance = (self._rss + 2 * scale) / (self._total_weight + 2 * shape)
        return np.append(self._center, math.log(variance))

    def _sufficient(self, theta, rows):
        """Total weight, residual sum of squares (m,) and residual moment (m, n_columns)."""
        coef = theta[:, :-1]
        if rows is not None or self._gram is None:
            return self._sums(coef, rows)
        shift = coef - self._center
        pulled = shift @ self._gram
        rss = self._rss - 2 * shift @ self._moment + np.einsum("ij,ij->i", shift, pulled)
        return self._total_weight, rss, self._moment - pulled

    def _sums(self, coef, rows):
        """What `_sufficient` returns, from the rows themselves; scaled to all rows."""
        n = self.n_rows if rows is None else len(rows)
        weight, rss, moment = 0.0, np.zeros(len(coef)), np.zeros((len(coef), self.n_columns))
        for block in row_blocks(n, 8 * len(coef)):
            block = block if rows is None else rows[block]
            weights = self.weights[block]
            residual = self.y[block] - self.design.predictor(coef, block)
            weight += weights.sum()
            rss += residual**2 @ weights
            moment += self.design.pull(weights * residual, block)
        factor = 1.0 if rows is None else self.n_rows / n  # there may be no rows at all
        return factor * weight, factor * rss, factor * moment

    def _sum(self, theta, rows, value, score):
        weight, rss, moment = self._sufficient(theta, rows)
        log_sigma2, precision = theta[:, -1], np.exp(-theta[:, -1])
        total = -0.5 * (weight * (math.log(2 * math.pi) + log_sigma2) + rss * precision)
        gradient = np.empty_like(theta)
        gradient[:, :-1] = precision[:, None] * moment
        gradient[:, -1] = 0.5 * (rss * precision - weight)
        return total, gradient

    def hessian(self, theta, rows=None):
        """Negative Hessian of the log density (dim, dim), over ``rows`` scaled to all rows."""
        _, rss, moment = self._sufficient(theta[None], rows)
        gram = self._gram
        if rows is not None:
            gram = self.design.gram(self.weights[rows], rows) * (self.n_rows / len(rows))
        precision = math.exp(-theta[-1])
        hessian = np.empty((self.dim, self.dim))
        hessian[:-1, :-1] = precision * gram + self._prior_precision(theta)
        hessian[:-1, -1] = hessian[-1, :-1] = precision * moment[0]
        hessian[-1, -1] = precision * (0.5 * rss[0] + self.outcome.noise_scale)
        return hessian

    def hessian_diagonal(self, theta):
        """The diagonal of `hessian`, shape (dim,), with the prior's expected precision."""
        _, rss, _ = self._sufficient(theta[None], None)
        precision = math.exp(-theta[-1])
        blocks = self._blocks(16 * self.dim)
        gram = sum(self.design.gram_diagonal(self.weights[rows], rows) for rows in blocks)
        coef = precision * gram + self._prior_precision_diagonal(theta)
        return np.append(coef, precision * (0.5 * rss[0] + self.outcome.noise_scale))
