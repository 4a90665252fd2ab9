"""Standardisation of features and outcomes, and the way back to original units."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .. import targets


@dataclass
class _Scaling:
    """``(X - center) / scale`` and ``(y - y_center) / y_scale``; None leaves features alone.

    If the outcome is not standardised, the linear predictor is centred at ``y_center``.
    """

    fit_intercept: bool = True
    center: np.ndarray | None = None
    scale: np.ndarray | None = None
    y_center: float = 0.0
    y_scale: float = 1.0
    offset_column: int | None = None  # of X, which is then not a feature
    offset_given: bool = False  # beside X
    half_scale: np.ndarray | None = None  # of coordinates that keep to one sign

    @property
    def standardize(self):
        return self.scale is not None

    def of_outcomes(self, outcome, y, offset):
        """Outcomes as a target has them, and what is added to its predictor; None for nothing."""
        if outcome.location_scale:
            return (y - self.y_center) / self.y_scale, None
        return y, offset + self.y_center if self.y_center or offset.any() else None

    def units(self, outcome):
        """The factor and the shift of each linear predictor, in original units."""
        return outcome.predictors_rescaled(self.y_center, self.y_scale)

    def to_original(self, outcome, n_features, shift, factor):
        """The map from a target's coordinates to the reported ones, in original units.

        Parameters
        ----------
        outcome : Outcome
        n_features : int
        shift, factor : ndarray of shape (dim,)
            What becomes of the coordinates behind those of the outcome.
        """
        rows = [self._row_to_original(n_features, *units) for units in self.units(outcome)]
        origins, *matrices = map(list, zip(*rows, strict=True))
        first, n_extra = sum(map(len, origins)), len(outcome.extra)
        shift[:first] = np.concatenate(origins)
        shift[first : first + n_extra] = outcome.rescaled_by(self.y_scale)
        both = [
            sparse.block_diag([*parts, sparse.diags_array(rest[first:])], format="lil")
            for parts, rest in zip(matrices, (factor, 1.0 / factor), strict=True)
        ]
        if outcome.constant is not None and self.center is not None:
            # It returns what centring took from the predictor.
            both[0][first + outcome.constant, :first] = self.center / self.scale
            both[1][first + outcome.constant, :first] = -self.center
        affine = targets.Affine(shift, *(part.tocsr() for part in both))
        if outcome.reported is None:
            return affine
        within = targets.Within(outcome.reported, slice(first, first + n_extra))
        return targets.Composition(within, affine)

    def _row_to_original(self, p, factor, shift):
        """The map of one row (intercept, coefficients) to original units: offset, matrix, inverse.

        With x' = (x - center) / scale and a predictor eta = factor eta' + shift, the coefficients
        of x are those of x' times factor / scale, and the intercept returns what centring took.
        """
        first, scale = int(self.fit_intercept), np.ones(p) if self.scale is None else self.scale
        offset = np.zeros(first + p)
        matrix, inverse = (sparse.lil_array((first + p, first + p)) for _ in range(2))
        matrix.setdiag(np.append(np.full(first, factor), factor / scale))
        inverse.setdiag(np.append(np.full(first, 1.0 / factor), scale / factor))
        if self.fit_intercept:
            center = np.zeros(p) if self.center is None else self.center
            offset[0] = shift
            matrix[0, 1:] = -factor * center / scale
            inverse[0, 1:] = center / factor
        return offset, matrix, inverse
