"""Regression targets: what they share, and the logistic and softmax likelihoods.

Each is a likelihood on a design matrix and a prior on its coefficients. All sums over rows go block
by block (`_blocks.py`), through BLAS and NumPy's vectorised exponentials, which are several times
faster than a compiled scalar loop.
"""

import copy

import numpy as np

from .._blocks import row_blocks
from ..priors import Normal
from .base import Target, as_names
from .design import make_design


class RegressionTarget(Target):
    """What the regressions share: rows, weights, packing and prior.

    ``theta`` holds, for each of ``n_outputs`` linear predictors, the intercept (if any) and the
    coefficients; a subclass may append further coordinates.

    Parameters
    ----------
    X : array-like or SciPy sparse array of shape (n, p)
        Features.
    y : array-like of shape (n,)
        Outcomes, as the subclass wants them.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row's log likelihood; an integer weight equals repetition of the row.
    fit_intercept : bool, default=True
        Whether each linear predictor has an intercept, which stands first.
    prior, intercept_prior : prior objects
        On the coefficients and on the intercepts.
    center, scale : array-like of shape (p,), default=None
        The features are taken as ``(X - center) / scale``.
    feature_names : sequence of str, default=None
        Names of the columns.
    """

    n_outputs = 1
    n_extra = 0

    def __init__(
        self,
        X,
        y,
        *,
        sample_weight=None,
        fit_intercept=True,
        prior=None,
        intercept_prior=None,
        center=None,
        scale=None,
        feature_names=None,
    ):
        self.design = make_design(X, fit_intercept, center, scale)
        self.n_rows, self.n_columns = self.design.shape
        self.y = np.asarray(y)
        self.weights = (
            np.ones(self.n_rows) if sample_weight is None else np.asarray(sample_weight, float)
        )
        for name, value in (("y", self.y), ("sample_weight", self.weights)):
            if value.shape != (self.n_rows,):
                raise ValueError(f"{name} must have shape ({self.n_rows},), got {value.shape}.")
        self.fit_intercept = bool(fit_intercept)
        self.prior = Normal(1.0) if prior is None else prior
        self.intercept_prior = Normal(10.0) if intercept_prior is None else intercept_prior
        self.n_features = self.n_columns - self.fit_intercept
        scale = np.asarray(getattr(self.prior, "scale", 1.0))
        if scale.ndim and scale.shape != (self.n_features,):
            raise ValueError(
                f"the prior's scale has shape {scale.shape} for {self.n_features} features: give "
                "one number, or one a feature."
            )
        self.feature_names = (
            tuple(f"x{j}" for j in range(self.n_features))
            if feature_names is None
            else as_names(feature_names, self.n_features, "feature_names")
        )
        self.dim = self.n_outputs * self.n_columns + self.n_extra

    @property
    def names(self):
        return ("intercept",) * self.fit_intercept + self.feature_names

    def take(self, rows):
        """The same regression on some of the rows, an index array."""
        twin = copy.copy(self)
        twin.design, twin.y, twin.weights = self.design.take(rows), self.y[rows], self.weights[rows]
        twin.n_rows = len(twin.y)
        return twin

    # Prior: the coefficients of all outputs together are one block, the intercepts another.

    def _split(self, theta):
        """Intercepts (m, n_outputs or 0) and coefficients (m, n_outputs * p)."""
        m = len(theta)
        table = theta[:, : self.n_outputs * self.n_columns].reshape(m, self.n_outputs, -1)
        intercepts = table[:, :, : self.fit_intercept].reshape(m, -1)
        return intercepts, table[:, :, self.fit_intercept :].reshape(m, -1)

    def _join(self, intercepts, coef, extra=None):
        """The inverse of `_split`."""
        m = len(coef)
        parts = [intercepts.reshape(m, self.n_outputs, -1), coef.reshape(m, self.n_outputs, -1)]
        theta = np.concatenate(parts[not self.fit_intercept :], axis=2).reshape(m, -1)
        return theta if extra is None else np.concatenate([theta, extra], axis=1)

    def log_prior(self, theta):
        intercepts, coef = self._split(theta)
        value = self.prior.log_density(coef)
        return value + self.intercept_prior.log_density(intercepts) if self.fit_intercept else value

    def _prior_score(self, theta):
        intercepts, coef = self._split(theta)
        if self.fit_intercept:
            intercepts = self.intercept_prior.score(intercepts)
        return self._join(intercepts, self.prior.score(coef))

    def _prior_precision(self, theta):
        size = self.n_outputs * self.n_columns
        intercepts, coef = self._split(theta[None])
        is_intercept = np.zeros((self.n_outputs, self.n_columns), dtype=bool)
        is_intercept[:, : self.fit_intercept] = True
        where, which = np.flatnonzero(is_intercept), np.flatnonzero(~is_intercept)
        precision = np.zeros((size, size))
        precision[np.ix_(which, which)] = self.prior.precision(coef[0])
        if self.fit_intercept:
            precision[np.ix_(where, where)] = self.intercept_prior.precision(intercepts[0])
        return precision

    def conditional(self, second_moment):
        """The same regression with normal priors that stand for its own; see `Prior.conditional`.

        Parameters
        ----------
        second_moment : ndarray of shape (dim,)
            ``E[theta**2]`` under the posterior.
        """
        intercepts, coef = (block[0] for block in self._split(second_moment[None]))
        twin = copy.copy(self)
        twin.prior = self.prior.conditional(coef)
        if self.fit_intercept:
            twin.intercept_prior = self.intercept_prior.conditional(intercepts)
        return twin

    def _prior_precision_diagonal(self, theta):
        square = theta[None] ** 2
        intercepts, coef = (block[0] for block in self._split(square))
        if self.fit_intercept:
            intercepts = self.intercept_prior.expected_precision(intercepts)
        return self._join(intercepts[None], self.prior.expected_precision(coef)[None])[0]

    def sample_prior(self, rng, m):
        intercepts = self.intercept_prior.sample(rng, m, self.n_outputs * self.fit_intercept)
        return self._join(intercepts, self.prior.sample(rng, m, self.n_outputs * self.n_features))

    # Likelihood: a subclass writes the terms of one block of rows.

    def _sum(self, theta, rows, value, score):
        """Log likelihood (m,) and its score (m, n_outputs * n_columns) over ``rows``, scaled."""
        m, k = len(theta), self.n_outputs
        coef = theta[:, : k * self.n_columns].reshape(m * k, self.n_columns)
        total = np.zeros(m)
        gradient = np.zeros((m * k, self.n_columns)) if score else None
        design, y, weights = self.design, self.y, self.weights
        if rows is not None:
            design, y, weights = design.take(rows), y[rows], weights[rows]
        n = len(y)
        for block in row_blocks(n, 8 * m * k):
            eta = design.predictor(coef, block).reshape(m, k, -1)
            terms, residual = self._terms(eta, y[block], weights[block], value, score)
            if value:
                total += terms
            if score:
                gradient += design.pull(residual.reshape(m * k, -1), block)
        factor = 1.0 if rows is None else self.n_rows / n  # there may be no rows at all
        return factor * total, None if gradient is None else factor * gradient.reshape(m, -1)

    def log_likelihood(self, theta, rows=None):
        return self._sum(theta, rows, value=True, score=False)[0]

    def score(self, theta, rows=None):
        return self._sum(theta, rows, value=False, score=True)[1] + self._prior_score(theta)

    def log_density_and_score(self, theta):
        value, score = self._sum(theta, None, value=True, score=True)
        return value + self.log_prior(theta), score + self._prior_score(theta)

    # Second derivatives: a subclass writes the curvature of one block of rows.

    def _curvatures(self, theta, rows=None):
        """Yield each block of rows with its weighted curvature, shape (k, k, rows)."""
        k = self.n_outputs
        n = self.n_rows if rows is None else len(rows)
        for block in row_blocks(n, 8 * (k * k + self.n_columns)):
            block = block if rows is None else rows[block]
            eta = self.design.predictor(theta.reshape(k, self.n_columns), block)
            yield block, self._curvature(eta, self.y[block]) * self.weights[block]

    def hessian(self, theta, rows=None):
        """Negative Hessian of the log density (dim, dim), over ``rows`` scaled to all rows."""
        k, c = self.n_outputs, self.n_columns
        information = np.zeros((k, c, k, c))
        for block, curvature in self._curvatures(theta, rows):
            for i, j in np.argwhere(curvature.any(axis=2)):
                if j <= i:
                    gram = self.design.gram(curvature[i, j], block)
                    information[i, :, j] += gram
                    if j < i:
                        information[j, :, i] += gram.T
        if rows is not None:
            information *= self.n_rows / len(rows)
        return information.reshape(k * c, k * c) + self._prior_precision(theta)

    def hessian_diagonal(self, theta):
        """The diagonal of `hessian`, shape (dim,), with the prior's expected precision."""
        k, c = self.n_outputs, self.n_columns
        information = np.zeros((k, c))
        for block, curvature in self._curvatures(theta):
            for i in range(k):
                information[i] += self.design.gram_diagonal(curvature[i, i], block)
        return information.ravel() + self._prior_precision_diagonal(theta)

    def pointwise_log_likelihood(self, theta):
        """Log likelihood of every row (unweighted), shape (m, n)."""
        m, k = len(theta), self.n_outputs
        coef = theta[:, : k * self.n_columns].reshape(m * k, self.n_columns)
        eta = self.design.predictor(coef, slice(None)).reshape(m, k, -1)
        return self._row_terms(eta, self.y)

    def _blocks(self, bytes_per_row):
        return row_blocks(self.n_rows, bytes_per_row)


def _softplus(eta):
    """log(1 + exp(eta)), to absolute rounding error and without overflow."""
    if np.max(eta, initial=0.0) > 700.0:
        return np.maximum(eta, 0.0) + np.log(1.0 + np.exp(-np.abs(eta)))
    result = np.exp(eta)
    result += 1.0
    return np.log(result, out=result)


def _sigmoid(eta):
    return 0.5 + 0.5 * np.tanh(0.5 * eta)


class LogisticTarget(RegressionTarget):
    """Binary logistic regression, ``y`` in {0, 1}; ``theta`` = (intercept, coefficients).

    Parameters
    ----------
    X : array-like or SciPy sparse array of shape (n, p)
        Features.
    y : array-like of shape (n,)
        0 or 1.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row's log likelihood; an integer weight equals repetition of the row.
    fit_intercept : bool, default=True
        Whether there is an intercept, which stands first.
    prior, intercept_prior : prior object, default=None
        On the coefficients and on the intercept; ``Normal(1.0)`` and ``Normal(10.0)`` by default.
    center, scale : array-like of shape (p,), default=None
        The features are taken as ``(X - center) / scale``.
    feature_names : sequence of str, default=None
        Names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import LogisticTarget
    >>> target = LogisticTarget(np.eye(4)[:, :2], np.array([1, 0, 1, 0]))
    >>> target.names, target.score(np.zeros((5, 3))).shape
    (('intercept', 'x0', 'x1'), (5, 3))
    """

    def _row_terms(self, eta, y):
        return y * eta[:, 0] - _softplus(eta[:, 0])

    def _terms(self, eta, y, w, value, score):
        return (
            eta[:, 0] @ (y * w) - _softplus(eta[:, 0]) @ w if value else None,
            (y - _sigmoid(eta)) * w if score else None,
        )

    def _curvature(self, eta, y):
        p = _sigmoid(eta)
        return (p * (1 - p))[None]


class SoftmaxTarget(RegressionTarget):
    """Multinomial logistic regression, ``y`` in 0..K-1, every class with its own coefficients.

    ``theta.reshape(K, -1)`` has a row (intercept, coefficients) for each class. The prior makes the
    over-parameterised model proper and treats all classes alike.

    Parameters
    ----------
    X : array-like or SciPy sparse array of shape (n, p)
        Features.
    y : array-like of shape (n,)
        Numbers of the classes.
    n_classes : int
        Number of classes.
    class_names : sequence of str, default=None
        For the names of the coordinates; the numbers by default.
    **kwargs : dict
        ``sample_weight``, ``fit_intercept``, ``prior``, ``intercept_prior``, ``center``, ``scale``
        and ``feature_names``, as in `LogisticTarget`.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import SoftmaxTarget
    >>> SoftmaxTarget(np.eye(4)[:, :2], np.array([0, 1, 2, 0]), n_classes=3).dim
    9
    """

    def __init__(self, X, y, *, n_classes, class_names=None, **kwargs):
        self.n_outputs = int(n_classes)
        self.class_names = (
            tuple(map(str, range(n_classes)))
            if class_names is None
            else as_names(class_names, n_classes, "class_names")
        )
        super().__init__(X, np.asarray(y, dtype=np.intp), **kwargs)

    @property
    def names(self):
        columns = super().names
        return tuple(f"{column}[{label}]" for label in self.class_names for column in columns)

    @staticmethod
    def _log_normaliser(eta):
        top = eta.max(axis=1)
        return top + np.log(np.exp(eta - top[:, None]).sum(axis=1))

    def _row_terms(self, eta, y):
        return eta[:, y, np.arange(len(y))] - self._log_normaliser(eta)

    def _terms(self, eta, y, w, value, score):
        normaliser = self._log_normaliser(eta)
        rows = np.arange(len(y))
        terms = (eta[:, y, rows] - normaliser) @ w if value else None
        if not score:
            return terms, None
        residual = -np.exp(eta - normaliser[:, None])
        residual[:, y, rows] += 1.0
        return terms, residual * w

    def _curvature(self, eta, y):
        p = np.exp(eta - self._log_normaliser(eta[None])[0])
        return np.eye(self.n_outputs)[:, :, None] * p - p[:, None] * p
