"""Regression targets: an outcome, a design matrix and a prior of its coefficients.

All sums over rows go block by block (`_tools/row_blocks.py`), through BLAS and NumPy's vectorised
exponentials, which are several times faster than a compiled scalar loop.
"""

import numpy as np

from ..._input.columns import as_names, check_distinct
from ..._tools.copies import Aligned, changed
from ..._tools.row_blocks import row_blocks
from ...outcomes import Bernoulli, Categorical, Probit
from ...priors import Normal
from ...priors.noise import BlockPriors
from ...protocols import Observed
from ..base import SummedTarget
from .design import make_design

SEARCHED_UP_TO = 10_000  # rows with which a search for other modes costs little


class RegressionTarget(Aligned, SummedTarget):
    """The posterior of a regression on a design matrix, whatever its outcome.

    ``theta`` holds, for each linear predictor of the outcome, the intercept (if any) and the
    coefficients, then the outcome's other coordinates.

    Parameters
    ----------
    outcome : Outcome
        What is observed; see :mod:`skstein.outcomes`.
    X : array-like or SciPy sparse array of shape (n, p)
        Features.
    y : array-like of shape (n,)
        Outcomes, or numbers of classes.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row's log likelihood; an integer weight equals repetition of the row.
    fit_intercept : bool, default=True
        Whether each linear predictor has an intercept, which stands first.
    prior, intercept_prior : prior object, default=None
        On the coefficients and on the intercepts; ``Normal(1.0)`` and ``Normal(10.0)`` by default.
    center, scale : array-like of shape (p,), default=None
        The features are taken as ``(X - center) / scale``.
    offset : array-like of shape (n,), default=None
        What is added to the (first) linear predictor of each row.
    feature_names : sequence of str, default=None
        Names of the columns.
    class_names : sequence of str, default=None
        Of several linear predictors, for the names of the coordinates; the numbers by default.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Bernoulli
    >>> from skstein.targets import RegressionTarget
    >>> target = RegressionTarget(Bernoulli(), np.eye(4)[:, :2], np.array([1, 0, 1, 0]))
    >>> target.names, target.score(np.zeros((5, 3))).shape
    (('intercept', 'x0', 'x1'), (5, 3))
    """

    n_rows: int
    sums_rows = scores_no_rows = True

    def __init__(
        self,
        outcome: Observed,
        X,
        y,
        *,
        sample_weight=None,
        fit_intercept=True,
        prior=None,
        intercept_prior=None,
        center=None,
        scale=None,
        offset=None,
        feature_names=None,
        class_names=None,
    ):
        self.outcome = outcome
        self.n_outputs = outcome.n_predictors
        self.design = make_design(X, fit_intercept, center, scale)
        self.n_rows, self.n_columns = self.design.shape
        self.y = np.asarray(y)
        equal = np.broadcast_to(1.0, self.n_rows)
        self.weights = equal if sample_weight is None else np.asarray(sample_weight, dtype=float)
        self.offset = None if offset is None else np.asarray(offset, dtype=float)
        by_row = {"y": self.y, "sample_weight": self.weights, "offset": self.offset}
        for name, value in by_row.items():
            if value is not None and value.shape != (self.n_rows,):
                raise ValueError(f"{name} must have shape ({self.n_rows},), got {value.shape}.")
        self._weighted = bool((self.weights != 1.0).any())
        self.fit_intercept = bool(fit_intercept)
        self.prior = Normal(1.0) if prior is None else prior
        self.intercept_prior = Normal(10.0) if intercept_prior is None else intercept_prior
        self.n_features = self.n_columns - self.fit_intercept
        _require_one_per_feature(self.prior, self.n_features)
        if outcome.further_priors:
            further, intercepts = zip(*outcome.further_priors, strict=True)
            for prior in further:
                _require_one_per_feature(prior, self.n_features)
            self.prior = BlockPriors(self.prior, *further)
            self.intercept_prior = BlockPriors(self.intercept_prior, *intercepts)
        if feature_names is None:
            feature_names = [f"x{j}" for j in range(self.n_features)]
        self.feature_names = as_names(feature_names, self.n_features, "feature_names")
        if class_names is None or self.n_outputs == 1:
            class_names = outcome.predictor_names or range(self.n_outputs)
        self.class_names = as_names(class_names, self.n_outputs, "class_names")
        check_distinct([*["intercept"] * self.fit_intercept, *self.feature_names, *outcome.extra])
        self._n_coef = self.n_outputs * self.n_columns
        self.dim = self._n_coef + len(outcome.extra)
        if not self.dim:
            raise ValueError("there is neither a feature nor an intercept: nothing to learn.")

    @property
    def names(self):
        names = ("intercept",) * self.fit_intercept + self.feature_names
        if self.n_outputs > 1:
            names = tuple(f"{name}[{label}]" for label in self.class_names for name in names)
        return names + tuple(self.outcome.extra)

    def take(self, rows, multiplier=None):
        """The same regression on some of the rows, an index array, their weights multiplied."""
        design, y, weights, offset = self.rows_at(rows)
        if multiplier is not None:
            weights = weights * multiplier
        return self.with_rows(design, y, weights, offset)

    def rows_at(self, rows):
        """Design, outcomes, weights and offsets of some of the rows."""
        offset = None if self.offset is None else self.offset[rows]
        return self.design.take(rows), self.y[rows], self.weights[rows], offset

    def with_rows(self, design, y, weights, offset):
        """The same regression on other rows, whose sums over rows are their own.

        Parameters
        ----------
        design : DenseDesign, FoldedDesign or SparseDesign
            Of the same columns; see `make_design`.
        y : ndarray of shape (n,)
        weights : ndarray of shape (n,)
        offset : ndarray of shape (n,) or None

        Returns
        -------
        RegressionTarget
        """
        twin = changed(self, design=design, y=y, weights=weights, offset=offset, n_rows=len(y))
        twin._weighted = bool((weights != 1.0).any())
        return twin

    @property
    def initial(self):
        """0, or where Newton would need many steps to it, the constant that suits the outcomes."""
        heads = self.outcome.initial_heads(self.y, self.weights)
        table = np.zeros((self.n_outputs, self.n_columns))
        table[:, : self.fit_intercept] = heads[: self.n_outputs, None]
        theta = np.append(table.ravel(), heads[self.n_outputs :])
        if self.fit_intercept and self.n_outputs == 1:
            offset = np.zeros(len(self.y)) if self.offset is None else self.offset
            center = self.outcome.center(self.y, self.weights, offset)
            theta[0] = center if abs(center) > 1.0 else theta[0]
        return theta

    # Prior: the coefficients of all outputs together are one block, the intercepts another.

    def _split(self, theta):
        """Intercepts (m, n_outputs or 0) and coefficients (m, n_outputs * p)."""
        m = len(theta)
        table = theta[:, : self._n_coef].reshape(m, self.n_outputs, -1)
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
        if self.fit_intercept:
            value = value + self.intercept_prior.log_density(intercepts)
        if self.outcome.extra:
            value = value + self.outcome.extra_prior.log_density(theta[:, self._n_coef :])
        return value

    def _add_prior_score(self, theta, score):
        """Turn the score of the likelihood, (m, dim), into that of the density."""
        intercepts, coef = self._split(theta)
        table = score[:, : self._n_coef].reshape(len(theta), self.n_outputs, -1)  # a view
        own = table[:, :, self.fit_intercept :]
        own += self.prior.score(coef).reshape(own.shape)
        if self.fit_intercept:
            table[:, :, 0] += self.intercept_prior.score(intercepts)
        if self.outcome.extra:
            score[:, self._n_coef :] += self.outcome.extra_prior.score(theta[:, self._n_coef :])
        return score

    def _prior_precision(self, theta):
        """Of intercepts and coefficients."""
        intercepts, coef = self._split(theta[None])
        (where,), (which,) = self._split(np.arange(self._n_coef)[None])
        precision = np.zeros((self._n_coef, self._n_coef))
        precision[np.ix_(which, which)] = self.prior.precision(coef[0])
        if self.fit_intercept:
            precision[np.ix_(where, where)] = self.intercept_prior.precision(intercepts[0])
        return precision

    @property
    def prior_location(self):
        intercepts = self.intercept_prior.location(self.n_outputs * self.fit_intercept)
        coef = self.prior.location(self.n_outputs * self.n_features)
        return self._join(intercepts[None], coef[None], np.zeros((1, len(self.outcome.extra))))[0]

    @property
    def symmetric_prior(self):
        return not self.prior_location.any()

    @property
    def modes_unknown(self):
        # Of nearly equal columns a prior with heavy tails lets one or the other have the effect.
        priors = {self.prior.precisions, self.intercept_prior.precisions}
        return not priors.isdisjoint(("each", "shared")) and self.n_rows <= SEARCHED_UP_TO

    def conditional(self, second_moment):
        """The same regression with normal priors that stand for its own; see `Prior.conditional`.

        Parameters
        ----------
        second_moment : ndarray of shape (dim,)
            ``E[(theta - prior_location)**2]`` under the posterior.

        Returns
        -------
        RegressionTarget
            Itself where its priors are normal.
        """
        intercepts, coef = (block[0] for block in self._split(second_moment[None]))
        prior, of_intercepts = self.prior.conditional(coef), self.intercept_prior
        if self.fit_intercept:
            of_intercepts = of_intercepts.conditional(intercepts)
        if prior is self.prior and of_intercepts is self.intercept_prior:
            return self
        return changed(self, prior=prior, intercept_prior=of_intercepts)

    def _prior_precision_diagonal(self, theta):
        squares = (theta - self.prior_location) ** 2
        intercepts, coef = (block[0] for block in self._split(squares[None]))
        if self.fit_intercept:
            intercepts = self.intercept_prior.expected_precision(intercepts)
        return self._join(intercepts[None], self.prior.expected_precision(coef)[None])[0]

    def sample_prior(self, rng, m):
        extra = self.outcome.extra_prior.sample(rng, m) if self.outcome.extra else None
        intercepts = self.intercept_prior.sample(rng, m, self.n_outputs * self.fit_intercept)
        coef = self.prior.sample(rng, m, self.n_outputs * self.n_features)
        return self._join(intercepts, coef, extra)

    # Likelihood: sums over blocks of rows of what the outcome says of each.

    def _heads(self, theta, rows):
        """What the outcome is given for some rows, each of shape (m, rows) or (m, 1)."""
        coef = theta[:, : self._n_coef].reshape(len(theta) * self.n_outputs, self.n_columns)
        eta = self.design.predictor(coef, rows).reshape(len(theta), self.n_outputs, -1)
        eta = eta.swapaxes(0, 1)
        if self.offset is not None:
            eta[0] += self.offset[rows]
        return [*eta, *theta.T[self._n_coef :, :, None]] if self.outcome.extra else eta

    def _sum(self, theta, rows, value, score):
        """Log likelihood (m,) and its score (m, dim) over ``rows``, scaled."""
        if rows is not None:
            few = self.take(rows)
            factor = self.n_rows / max(few.n_rows, 1)  # there may be no rows at all
            total, gradient = few._sum(theta, None, value, score)
            return factor * total, None if gradient is None else factor * gradient
        m, k = len(theta), self.n_outputs
        total = np.zeros(m)
        gradient = np.zeros((m * k, self.n_columns)) if score else None
        extra = np.zeros((m, len(self.outcome.extra)))
        for block in self._blocks(8 * m * k):
            heads = self._heads(theta, block)
            weights = self.weights[block] if self._weighted else None
            terms, residual = self.outcome.terms(heads, self.y[block], weights, value, score)
            if value:
                total += terms
            if score:
                by_predictor = np.asarray(residual[:k]).swapaxes(0, 1)
                gradient += self.design.pull(by_predictor.reshape(m * k, -1), block)
                for j, part in enumerate(residual[k:]):
                    extra[:, j] += part.sum(axis=1)
        if score:
            gradient = gradient.reshape(m, -1)
            gradient = np.hstack([gradient, extra]) if extra.size else gradient
        return total, gradient

    # Second derivatives, of the rows first and then of the prior.

    def _curvatures(self, theta, bytes_per_row):
        """Yield each block of rows with its weighted curvature, (n_heads, n_heads, rows)."""
        for block in self._blocks(bytes_per_row):
            heads = [head[0] for head in self._heads(theta[None], block)]
            yield block, self.outcome.curvature(heads, self.y[block]) * self.weights[block]

    def _information(self, theta):
        """Negative Hessian of the log likelihood, shape (dim, dim)."""
        k, c, size = self.n_outputs, self.n_columns, self._n_coef
        among, hessian = np.zeros((k, c, k, c)), np.zeros((self.dim, self.dim))
        for block, curvature in self._curvatures(theta, 8 * (k * k + c)):
            for i, j in np.argwhere(curvature[:k, :k].any(axis=2)):
                if j <= i:
                    gram = self.design.gram(curvature[i, j], block)
                    among[i, :, j] += gram
                    if j < i:
                        among[j, :, i] += gram.T
            for j, across in enumerate(curvature[k:]):
                hessian[size + j, :size] += self.design.pull(across[:k], block).ravel()
                hessian[size + j, size:] += across[k:].sum(axis=1)
        hessian[:size, :size] = among.reshape(size, size)
        hessian[:size, size:] = hessian[size:, :size].T
        return hessian

    def hessian(self, theta, rows=None):
        """Negative Hessian of the log density (dim, dim), over ``rows`` scaled to all rows."""
        if rows is None:
            hessian = self._information(theta)
        else:
            hessian = self.take(rows)._information(theta) * (self.n_rows / len(rows))
        hessian[: self._n_coef, : self._n_coef] += self._prior_precision(theta)
        return self._with_extra_curvature(hessian, theta)

    def hessian_diagonal(self, theta):
        """The diagonal of `hessian`, shape (dim,), with the prior's expected precision."""
        information = self._information_diagonal(theta)
        information[: self._n_coef] += self._prior_precision_diagonal(theta)
        return self._with_extra_curvature(information, theta)

    def _information_diagonal(self, theta):
        """The diagonal of the negative Hessian of the log likelihood, shape (dim,)."""
        k, size = self.n_outputs, self._n_coef
        information = np.zeros(self.dim)
        for block, curvature in self._curvatures(theta, 8 * (k * k + self.n_columns)):
            by_predictor = information[:size].reshape(k, -1)
            for i in range(k):
                by_predictor[i] += self.design.gram_diagonal(curvature[i, i], block)
            information[size:] += curvature[k:, k:].sum(axis=2).diagonal()
        return information

    def _with_extra_curvature(self, hessian, theta):
        """A Hessian, or its diagonal, with the prior's curvature of what is ``extra``."""
        if self.outcome.extra:
            extra = slice(self._n_coef, self.dim)
            own = self.outcome.extra_prior.curvature(theta[None, extra])[0]
            hessian[(extra,) * hessian.ndim] += own if own.ndim == hessian.ndim else np.diag(own)
        return hessian

    def pointwise_log_likelihood(self, theta):
        """Log likelihood of every row (unweighted), shape (m, n)."""
        return self.outcome.log_density(self._heads(theta, slice(None)), self.y)

    def _blocks(self, bytes_per_row):
        # Three temporaries and the rows of a dense design, which are read twice, share the cache;
        # but a block that is cut to an eighth for these rows costs more in calls than it saves.
        shared = min(self.design.bytes_per_row // 3, 7 * bytes_per_row)
        return row_blocks(self.n_rows, bytes_per_row + shared, least=self.design.least_rows)


class LogisticTarget(RegressionTarget):
    """`RegressionTarget` of `skstein.outcomes.Bernoulli`, for ``y`` in {0, 1}.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import LogisticTarget
    >>> LogisticTarget(np.eye(4)[:, :2], np.array([1, 0, 1, 0])).names
    ('intercept', 'x0', 'x1')
    """

    def __init__(self, X, y, **options):
        super().__init__(Bernoulli(), X, y, **options)


class SoftmaxTarget(RegressionTarget):
    """`RegressionTarget` of `skstein.outcomes.Categorical`, for ``y`` in 0..n_classes - 1.

    ``theta.reshape(n_classes, -1)`` has a row (intercept, coefficients) for each class. The prior
    makes the over-parameterised model proper and treats all classes alike.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import SoftmaxTarget
    >>> SoftmaxTarget(np.eye(4)[:, :2], np.array([0, 1, 2, 0]), n_classes=3).dim
    9
    """

    def __init__(self, X, y, *, n_classes, **options):
        super().__init__(Categorical(n_classes), X, np.asarray(y, dtype=np.intp), **options)


class ProbitTarget(RegressionTarget):
    """`RegressionTarget` of `skstein.outcomes.Probit`, for ``y`` in 0..n_classes - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import ProbitTarget
    >>> ProbitTarget(np.eye(4)[:, :2], np.array([0, 1, 2, 0]), n_classes=3).dim
    9
    """

    def __init__(self, X, y, *, n_classes=2, **options):
        super().__init__(Probit(n_classes), X, np.asarray(y, dtype=np.intp), **options)


def _require_one_per_feature(prior, n_features):
    for name in ("scale", "loc"):
        each = np.asarray(getattr(prior, name, 0.0))
        if each.ndim and each.shape != (n_features,):
            raise ValueError(
                f"the prior's {name} has shape {each.shape} for {n_features} features: give one "
                "number, or one per feature."
            )
