"""A regression in affine coordinates, the map folded into the design.

Where there are few rows a gradient is a dozen calls on small arrays, and taking coordinates and
scores through the map, and a prior block by block, costs as much as the rows do. With the map
``theta = o + M z`` predictors are ``X o + (X M) z``, and normal priors are one quadratic in z. What
straightens one-sided coordinates stays before the affine map that it ends in.
"""

import numpy as np

from ..._tools.row_blocks import row_blocks
from ..bijections import placed
from ..transformed import Transformed

_ONE_BLOCK = 2**18  # bytes, for which the blocks are not asked
_MOST = 2**17  # numbers in a design, 1 MB; with more the rows are what takes the time


def transformed_target(target, bijection):
    """The target in other coordinates, as a `TransformedRegression` where that is faster."""
    few = getattr(target, "sums_rows", False) and target.n_rows * target.dim <= _MOST
    parts = _apart(bijection) if few and target.n_outputs == 1 else None
    if parts is None:
        return Transformed(target, bijection)
    return TransformedRegression(target, bijection, *parts)


def _apart(bijection):
    """The affine map that a bijection ends in, and what is before it, or None; None without one."""
    for affine, before in ((bijection, None), (getattr(bijection, "outer", None), "inner")):
        if isinstance(getattr(affine, "matrix", None), np.ndarray):
            return affine, before and getattr(bijection, before)
    return None


class TransformedRegression(Transformed):
    """`Transformed`, faster for a regression on few rows.

    Parameters
    ----------
    target : RegressionTarget
        With one predictor, and a likelihood that is a sum over rows.
    bijection : bijection
    affine : Affine
        What it ends in, with a dense matrix.
    before : bijection or None
        What comes before that.
    """

    n_rows: int

    def __init__(self, target, bijection, affine, before=None):
        super().__init__(target, bijection)
        self._affine, self._before = affine, before
        c, everything = target.n_columns, slice(None)
        # Each product with the design is fastest in an order of its own.
        self._wide = np.ascontiguousarray(target.design.predictor(affine.matrix[:c].T, everything))
        self._tall = np.ascontiguousarray(self._wide.T)
        self._shift = target.design.predictor(affine.offset[None, :c], everything)
        if target.offset is not None:
            self._shift = self._shift + target.offset
        self._weights = target.weights if (target.weights != 1.0).any() else None
        given = target.prior.precisions == target.intercept_prior.precisions == "given"
        self._quadratic = self._normal_prior() if given and not target.outcome.extra else None

    def _log_prior(self, theta):
        return self.target.log_prior(theta) + self._affine.log_det(theta)

    def _normal_prior(self):
        """Log density, score and precision of the prior at ``z = 0``."""
        matrix, origin = self._affine.matrix, self._affine.offset[None]
        score = self.target._add_prior_score(origin, np.zeros_like(origin)) @ matrix
        precision = matrix.T @ self.target._prior_precision(origin[0]) @ matrix
        return self._log_prior(origin)[0], score[0], precision

    def _in_design(self, z, value, score):
        """Log density (m,) and score (m, dim) by the affine coordinates ``z``, as far as wanted."""
        outcome, theta, total = self.target.outcome, None, 0.0
        if self._quadratic is None:
            theta = self._affine.forward(z)
            gradient, at_theta = np.zeros((2, *z.shape))
            extra = theta.T[self.target.n_columns :, :, None]
            if value:
                total = self._log_prior(theta)
            if score:
                at_theta = self.target._add_prior_score(theta, at_theta)
        else:
            constant, slope, precision = self._quadratic
            pull = z @ precision
            gradient = slope - pull
            if value:
                total = constant + np.vecdot(z, slope - 0.5 * pull)
        few = 16 * len(z) * self.n_rows <= _ONE_BLOCK
        for block in [slice(None)] if few else row_blocks(self.n_rows, 16 * len(z)):
            eta = z @ self._wide[:, block]
            eta += self._shift[:, block]
            heads = eta[None] if self._quadratic is not None else [eta, *extra]
            weights = None if self._weights is None else self._weights[block]
            terms, residual = outcome.terms(heads, self.target.y[block], weights, value, score)
            if value:
                total = total + terms
            if score:
                gradient += residual[0] @ self._tall[block]
                for j, part in enumerate(residual[1:], start=self.target.n_columns):
                    at_theta[:, j] += part.sum(axis=1)
        if score and theta is not None:
            gradient += at_theta @ self._affine.matrix
        return total, gradient

    def _evaluated(self, z, value, score):
        bent, log_det, pull = placed(self._before, z)
        total, gradient = self._in_design(bent, value, score)
        return total + log_det() if value else total, pull(gradient) if score else gradient

    def log_density(self, z):
        return self._evaluated(z, True, False)[0]

    def score(self, z, rows=None):
        return self._evaluated(z, False, True)[1] if rows is None else super().score(z, rows)

    def log_density_and_score(self, z):
        return self._evaluated(z, True, True)
