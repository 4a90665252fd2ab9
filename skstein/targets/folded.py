"""A regression in affine coordinates, the map folded into the design.

Where there are few rows a gradient is a dozen calls on small arrays, and taking coordinates and
scores through the map, and a prior block by block, costs as much as the rows do. With the map
``theta = o + M z`` predictors are ``X o + (X M) z``, and normal priors are one quadratic in z.
"""

import numpy as np

from .._blocks import row_blocks
from .transformed import Transformed

_MOST = 2**17  # numbers in a design, 1 MB; with more the rows are what takes the time


def within(target, bijection):
    """The target in other coordinates: `Folded` where that is faster, else `Transformed`."""
    few = (
        getattr(target, "sums_rows", False)
        and target.n_rows * target.dim <= _MOST
        and target.n_outputs == 1
    )
    affine = isinstance(getattr(bijection, "matrix", None), np.ndarray)
    return (Folded if few and affine else Transformed)(target, bijection)


class Folded(Transformed):
    """`Transformed`, faster for a regression on few rows.

    Parameters
    ----------
    target : RegressionTarget
        With one predictor, and a likelihood that is a sum over rows.
    bijection : Affine
        With a dense matrix.
    """

    def __init__(self, target, bijection):
        super().__init__(target, bijection)
        c, everything = target.n_columns, slice(None)
        # Each product with the design is fastest in an order of its own.
        self._wide = np.ascontiguousarray(
            target.design.predictor(bijection.matrix[:c].T, everything)
        )
        self._tall = np.ascontiguousarray(self._wide.T)
        self._shift = target.design.predictor(bijection.offset[None, :c], everything)
        if target.offset is not None:
            self._shift = self._shift + target.offset
        self._weights = target.weights if (target.weights != 1.0).any() else None
        given = target.prior.precisions == target.intercept_prior.precisions == "given"
        self._quadratic = self._normal_prior() if given and not target.outcome.extra else None

    def _normal_prior(self):
        """Log density, score and precision of the prior at ``z = 0``."""
        matrix, origin = self.bijection.matrix, self.bijection.offset[None]
        score = self.target._add_prior_score(origin, np.zeros_like(origin)) @ matrix
        precision = matrix.T @ self.target._prior_precision(origin[0]) @ matrix
        return self.log_prior(np.zeros_like(origin))[0], score[0], precision

    def _evaluated(self, z, value, score):
        """Log density (m,) and score (m, dim) of all rows and the prior, as far as wanted."""
        outcome, theta, total = self.target.outcome, None, np.zeros(len(z))
        gradient = np.zeros(z.shape)
        if self._quadratic is None:
            theta = self.forward(z)
            extra = theta.T[self.target.n_columns :, :, None]
            total, at_theta = self.log_prior(z) if value else total, np.zeros(z.shape)
            if score:
                at_theta = self.target._add_prior_score(theta, at_theta)
        else:
            constant, slope, precision = self._quadratic
            pull = z @ precision
            gradient = slope - pull
            total = constant + np.einsum("ij,ij->i", z, slope - 0.5 * pull) if value else total
        for block in row_blocks(self.n_rows, 16 * len(z)):
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
            gradient += at_theta @ self.bijection.matrix
        return total, gradient

    def log_density(self, z):
        return self._evaluated(z, True, False)[0]

    def score(self, z, rows=None):
        return self._evaluated(z, False, True)[1] if rows is None else super().score(z, rows)

    def log_density_and_score(self, z):
        return self._evaluated(z, True, True)
