"""Linear regression with unknown noise variance as a target."""

import math
from typing import Any

import numpy as np

from ... import outcomes
from ..._tools.copies import changed
from ..._tools.row_blocks import row_blocks
from ..mean_field_factors import ConjugateFactor, NormalFactor
from .glm import RegressionTarget
from .noise_map import NoiseMap

_GRAM_UP_TO = 2000  # columns


class _Integrated:
    """A noise prior times the volume that the coefficients have under each noise.

    ``explained`` (k,) are the eigenvalues of the Gram matrix, relative to the prior's precision.
    """

    def __init__(self, prior, explained):
        self.prior, self.explained, self.updated = prior, explained, prior.updated

    def log_density(self, log_v):
        volume = np.log1p(self.explained * np.exp(-log_v)).sum(axis=1)
        return self.prior.log_density(log_v) - 0.5 * volume

    def score(self, log_v):
        share = self.explained / (self.explained + np.exp(log_v))
        return self.prior.score(log_v) + 0.5 * share.sum(axis=1, keepdims=True)

    def curvature(self, log_v):
        share = self.explained / (self.explained + np.exp(log_v))
        lost = (share * (1.0 - share)).sum(axis=1, keepdims=True)
        return self.prior.curvature(log_v) + 0.5 * lost


class LinearTarget(RegressionTarget):
    """Linear regression with unknown noise variance.

    ``theta`` = (intercept, coefficients, log sigma^2).

    On all rows the likelihood needs only the Gram matrix, so that a gradient costs O(p^2), not
    O(n p); above 2000 columns the matrix is not formed.

    With ``factorized=True`` the factors for mean field are ``q(intercept, coefficients)``, a normal
    under normal priors, and ``q(sigma^2)``, inverse gamma under such a prior.

    Parameters
    ----------
    X : array-like or SciPy sparse array of shape (n, p)
        Features.
    y : array-like of shape (n,)
        Outcomes.
    noise_prior : NoisePrior, default=None
        Of sigma^2, independent of the coefficients; by default ``HalfStudentT()``.
    factorized : bool, default=False
        Whether there are factors for mean field.
    **kwargs : dict
        ``sample_weight``, ``fit_intercept``, ``prior``, ``intercept_prior``, ``center``, ``scale``,
        ``offset`` and ``feature_names``, as in `RegressionTarget`.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import LinearTarget
    >>> LinearTarget(np.eye(4)[:, :2], np.arange(4.0)).names
    ('intercept', 'x0', 'x1', 'log_sigma2')
    """

    sums_rows = False
    _gram: Any

    def __init__(self, X, y, *, noise_prior=None, factorized=False, **kwargs):
        y, offset = np.asarray(y, dtype=float), kwargs.pop("offset", None)
        y = y if offset is None else y - offset
        super().__init__(outcomes.Normal(noise_prior), X, y, **kwargs)
        self.factorized = bool(factorized)
        self._sum_up()

    def take(self, rows, multiplier=None):
        """The same regression on some of the rows, an index array, their weights multiplied."""
        twin = super().take(rows, multiplier)
        twin._sum_up()
        return twin

    def joined(self, *others):
        """The regression on these rows and others, of which only the sums are kept.

        Parameters
        ----------
        *others : LinearTarget
            Of the same columns, `sufficient` as this one.

        Returns
        -------
        LinearTarget
            Without rows.
        """
        twin = self.with_rows(*self.rows_at(np.arange(0)))

        def sums(coef):
            return map(sum, zip(*(each._sufficient(coef) for each in (self, *others)), strict=True))

        twin._keep(self._gram + sum(other._gram for other in others), sums)
        return twin

    def _sum_up(self):
        """What the likelihood of all rows needs of them."""
        self._keep(self._gram_of_rows() if self.n_columns <= _GRAM_UP_TO else None, self._sums)

    def _keep(self, gram, sums):
        """Keep a Gram matrix, and the ``sums`` of `_sums` about where they do not cancel."""
        self._spectrum, self._gram, self._center = None, gram, np.zeros(self.n_columns)
        if gram is not None:  # about a ridge solution
            ridge = 1e-10 * max(1.0, np.trace(gram) / max(1, self.n_columns))
            _, _, (moment,) = sums(self._center[None])
            self._center = np.linalg.solve(gram + ridge * np.eye(self.n_columns), moment)
        self._total_weight, (self._rss,), (self._moment,) = sums(self._center[None])

    def _gram_of_rows(self, rows=None):
        """The Gram matrix, of some of the rows scaled to all."""
        if rows is not None:
            return self.design.gram(self.weights[rows], rows) * (self.n_rows / len(rows))
        grams = (self.design.gram(self.weights[r], r) for r in self._blocks(16 * self.dim))
        return sum(grams, np.zeros((self.n_columns, self.n_columns)))

    def _gram_diagonal_of_rows(self):
        blocks = self._blocks(16 * self.dim)
        grams = (self.design.gram_diagonal(self.weights[rows], rows) for rows in blocks)
        return sum(grams, np.zeros(self.n_columns))

    @property
    def sufficient(self):
        return self._gram is not None

    @property
    def factors(self):
        if not self.factorized:
            return super().factors
        coef: Any = np.arange(self.n_columns)
        noise: Any = np.array([self.n_columns])
        normal = self.prior.precisions == self.intercept_prior.precisions == "given"
        if normal and self._gram is not None:
            coef = ConjugateFactor(coef, self._coef_given_noise)
        if self.outcome.extra_prior.updated is not None:
            noise = ConjugateFactor(noise, self._noise_given_coef)
        return coef, noise

    def _coef_given_noise(self, theta):
        precision = np.exp(-theta[:, -1]).mean()
        information = precision * self._gram + self._prior_precision(theta[0])
        moment = self._moment + self._gram @ self._center
        zero = np.zeros((1, self.dim))
        pull = self._add_prior_score(zero, zero.copy())[0, :-1]  # of normals: precision times loc
        return NormalFactor(information, precision * moment + pull)

    def _noise_given_coef(self, theta):
        weight, rss, _ = self._sufficient(theta[:, :-1])
        return self.outcome.extra_prior.updated(weight, rss.mean())

    @property
    def initial(self):
        updated = self.outcome.extra_prior.updated
        if updated is not None:
            given = updated(self._total_weight, self._rss)
            return np.append(self._center, np.log(given.scale / given.shape))
        # The residuals of no more rows than columns vanish; then the outcome tells the order.
        rows = max(self._total_weight, 1.0)
        squares = self._rss + self.weights @ self.y**2 / rows
        return np.append(self._center, math.log(max(squares / rows, 1e-8)))

    def conditional(self, second_moment):
        """As for any regression; and the noise has its mode with the coefficients integrated out.

        The joint density of coefficients and noise is highest at less noise than is likely, at none
        where rows are no more than columns, because the coefficients fit best there.
        """
        twin = super().conditional(second_moment)
        if self._gram is None:
            return twin
        scale = twin._prior_precision_diagonal(second_moment) ** -0.5
        noise_prior = _Integrated(self.outcome.extra_prior, self._explained(scale))
        return changed(twin, outcome=outcomes.Normal(noise_prior))

    def _explained(self, scale):
        """Eigenvalues of the Gram matrix in units of the prior's scales; the last are kept."""
        if self._spectrum is None or not np.array_equal(self._spectrum[0], scale):
            values = np.linalg.eigvalsh(scale[:, None] * self._gram * scale)
            self._spectrum = scale, np.maximum(values, 0.0)
        return self._spectrum[1]

    def scanned(self, surrogate):
        """This regression with the noise of its `conditional` one, whose mode it shares."""
        return changed(self, outcome=surrogate.outcome)

    def straightened(self, surrogate):
        """Coordinates in which a regression with normal priors is standard normal.

        Parameters
        ----------
        surrogate : LinearTarget
            This regression with such priors: its `conditional`.

        Returns
        -------
        NoiseMap
        """
        log_prior = self.outcome.extra_prior.log_density
        sums = self._total_weight, self._rss, self._gram, self._moment, self._center
        location = surrogate.prior_location[: self._n_coef]
        scale = surrogate._prior_precision_diagonal(np.ones(self.dim)) ** -0.5
        return NoiseMap(log_prior, *sums, location, scale, self.initial[-1])

    def _sufficient(self, coef, rows=None):
        """Total weight, residual sum of squares (m,) and residual moment (m, n_columns)."""
        if rows is not None or self._gram is None:
            return self._sums(coef, rows)
        shift = coef - self._center
        pulled = shift @ self._gram
        rss = self._rss - 2 * shift @ self._moment + np.einsum("ij,ij->i", shift, pulled)
        return self._total_weight, rss, self._moment - pulled

    def _sums(self, coef, rows=None):
        """What `_sufficient` returns, from the rows themselves; scaled to all rows."""
        n = self.n_rows if rows is None else len(rows)
        weight, rss, moment = 0.0, np.zeros(len(coef)), np.zeros((len(coef), self.n_columns))
        for block in row_blocks(n, 8 * len(coef), least=self.design.least_rows):
            block = block if rows is None else rows[block]
            weights = self.weights[block]
            residual = self.y[block] - self.design.predictor(coef, block)
            weight += weights.sum()
            rss += residual**2 @ weights
            moment += self.design.pull(weights * residual, block)
        factor = 1.0 if rows is None else self.n_rows / max(n, 1)  # there may be no rows at all
        return factor * weight, factor * rss, factor * moment

    def _sum(self, theta, rows, value, score):
        weight, rss, moment = self._sufficient(theta[:, :-1], rows)
        log_sigma2, precision = theta[:, -1], np.exp(-theta[:, -1])
        total = -0.5 * (weight * (math.log(2 * math.pi) + log_sigma2) + rss * precision)
        gradient = np.empty_like(theta)
        gradient[:, :-1] = precision[:, None] * moment
        gradient[:, -1] = 0.5 * (rss * precision - weight)
        return total, gradient

    def hessian(self, theta, rows=None):
        """Negative Hessian of the log density (dim, dim), over ``rows`` scaled to all rows."""
        _, rss, moment = self._sufficient(theta[None, :-1], rows)
        gram = self._gram if rows is None and self._gram is not None else self._gram_of_rows(rows)
        precision = math.exp(-theta[-1])
        hessian = np.empty((self.dim, self.dim))
        hessian[:-1, :-1] = precision * gram + self._prior_precision(theta)
        hessian[:-1, -1] = hessian[-1, :-1] = precision * moment[0]
        hessian[-1, -1] = 0.5 * precision * rss[0]
        return self._with_extra_curvature(hessian, theta)

    def hessian_diagonal(self, theta):
        """The diagonal of `hessian`, shape (dim,), with the prior's expected precision."""
        _, rss, _ = self._sufficient(theta[None, :-1])
        precision = math.exp(-theta[-1])
        coef = precision * self._gram_diagonal_of_rows() + self._prior_precision_diagonal(theta)
        return self._with_extra_curvature(np.append(coef, 0.5 * precision * rss[0]), theta)
