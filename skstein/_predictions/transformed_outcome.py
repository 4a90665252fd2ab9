"""The posterior predictive distribution of an outcome that was transformed for the fit.

Quantiles pass through a monotone map as they are. Moments do not, so each particle's outcome is
integrated by the quadrature that its distribution has, and the law of total variance splits the
result as it does for an outcome that was not transformed.
"""

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr
from sklearn import config_context
from sklearn.utils import Bunch

from .._input.validation import check_fractions, refuse_dask
from .._statistics.crps import crps_of_points
from .._statistics.quantiles import weighted_quantile
from .._tools.row_blocks import row_blocks
from .distribution import Predictive

# If the map is not monotone, outcomes at these standard normal scores stand for all. Quantiles are
# computed at the knots; a spline, which is nearly straight, gives the others.
_SCORES = np.linspace(-6.0, 6.0, 4097)
_SCORE_WEIGHTS = np.exp(-0.5 * _SCORES**2)
_SCORE_WEIGHTS = _SCORE_WEIGHTS / _SCORE_WEIGHTS.sum()
_KNOTS = np.linspace(-6.0, 6.0, 25)

# Normal scores, by that spline, of the ends of cells whose probabilities are exact.
_EDGES = np.linspace(-6.0, 6.0, 257)

# Points at which a row's map is tried for being monotone.
_TRIALS = 257

# A map need not be monotone beyond these quantiles of the outcome.
_TAILS = np.array([1e-6, 1.0 - 1e-6])

# The same for a density: the square of a root that is seldom negative has one.
_DENSITY_TAILS = np.array([0.01, 0.99])

# Half the step of an inverse's numerical derivative, in standard deviations of its argument.
# So small that the quantiles of a `QuantileTransformer` seldom lie within it.
_STEP = 2.0**-16

# The largest error of a transform against its inverse, in the same unit.
_SLACK = 1e-4

# The largest probability of an outcome outside the domain of the map for which moments are given.
_NEGLIGIBLE = 1e-3
_DISAGREEMENT = 0.03  # of two quadratures, in standard deviations; 0.01 where the inverse has kinks
_MOST_OF_A_NODE = 0.5  # of the variance, of which 64 nodes of a straight map have a tenth at most

# The largest share of one particle in the mean distance from the mean, and in its mean square, if
# it is so many times the average.
_MOST_OF_ONE, _FAR_ABOVE = np.array([[0.25], [0.5]]), 20.0


def transformed(prediction, transformer):
    """The predictive of ``transformer.inverse_transform`` of the outcome."""
    if isinstance(prediction, TransformedOutcome):
        return TransformedOutcome(prediction.direct, (*prediction.transformers, transformer))
    refuse_dask(prediction.X, "X")
    if not prediction.outcome.location_scale:
        raise TypeError(
            "only the outcome of a skstein regressor that can be any number is transformed; "
            f"{type(prediction.estimator).__name__} predicts another kind."
        )
    if prediction.n_outcomes > 1:
        raise TypeError(
            "only a single outcome can be transformed; the regressor of "
            f"TransformedTargetRegressor was fitted on {prediction.n_outcomes}."
        )
    return TransformedOutcome(prediction, (transformer,))


class TransformedOutcome(Predictive):
    """Outcome seen through the inverses of transformers, the innermost first."""

    def __init__(self, direct, transformers):
        self.direct, self.transformers = direct, transformers

    n_outcomes = 1

    @property
    def outcome(self):
        return self.direct.outcome

    def __repr__(self):
        return repr(self.direct).replace("in units", "transformed back to units")

    def mean(self):
        return self._moments()[0]

    def std(self):
        _, explained, noise = self._moments()
        return np.sqrt(explained + noise)

    def quantiles(self, q):
        q = check_fractions(q, "q")
        direction = self._direction(_TAILS)
        result = np.empty((len(direction), len(q)))
        for sign, levels in ((1, q), (-1, 1.0 - q)):
            rows = direction == sign
            if rows.any():
                result[rows] = self._inverse(self.direct.quantiles(levels)[rows])
        others = np.flatnonzero(direction == 0)
        if len(others):
            knots = self.direct.quantiles(ndtr(_KNOTS))
            for block in row_blocks(len(others), 8 * len(_SCORES)):
                rows = others[block]
                values = self._inverse(CubicSpline(_KNOTS, knots[rows], axis=1)(_SCORES))
                result[rows] = weighted_quantile(values.T, _SCORE_WEIGHTS, q).T
        if (beyond := np.isnan(result) & (direction != 0)[:, None]).any():
            # Larger, or smaller, than any outcome that the transformation has.
            unknown = np.isnan(self._inverse(self.direct.quantiles(_TAILS)))
            unknown[direction < 0] = unknown[direction < 0, ::-1]
            ends = np.select([~unknown[:, 0], ~unknown[:, 1]], [np.inf, -np.inf], np.nan)
            result = np.where(beyond, ends[:, None], result)
        return result

    def log_predictive(self, y):
        y = self.direct.estimator._observed_at(self.direct.X, y)
        z = self._transform(y)
        with np.errstate(all="ignore"):
            std = self.direct.std()
            step = _STEP * std
            low, back, high = self._inverse(np.stack([z - step, z, z + step], axis=1)).T
            slope = np.abs(high - low) / (2.0 * step)
            direction = self._direction(_DENSITY_TAILS)
            wrong = ~(direction * (high - back) > 0.0) | ~(direction * (back - low) > 0.0)
            wrong |= ~np.isfinite(slope)
            wrong |= np.abs(back - y) > _SLACK * slope * std
        if wrong.any():
            row = np.flatnonzero(wrong)[0]
            raise ValueError(
                f"the outcome of row {row}, y={y[row]:g}, has no density: the inverse of the "
                "transformer must be monotone, return it and have a slope there. Where that is not "
                "so, as beyond the rows of fit of a QuantileTransformer, score by the CRPS."
            )
        return self.direct.log_predictive(z) - np.log(slope)

    @np.errstate(over="ignore", invalid="ignore")
    def crps(self, y):
        y = self.direct.estimator._observed_at(self.direct.X, y)
        knots = self.direct.quantiles(ndtr(_KNOTS))
        edges = np.sort(CubicSpline(_KNOTS, knots, axis=1)(_EDGES), axis=1)
        blocks = []
        for rows, heads, weights in self.direct.estimator._row_heads(self.direct.X):
            below = np.stack([self.outcome.cdf(heads, weights, edge) for edge in edges[rows].T])
            # With the outermost cells and without: under an exponential of heavy tails they decide.
            cells = slice(None), slice(1, -1)
            whole, inner = (self._crps(y[rows], edges[rows, k], below[k].T) for k in cells)
            blocks.append(np.where(whole - inner <= _DISAGREEMENT * whole, whole, np.nan))
        return np.concatenate(blocks)

    def _crps(self, y, edges, below):
        """Of outcomes ``y`` (n,), by cells between ``edges`` (n, k), of cdf ``below``."""
        shares, values = np.diff(below, axis=1), self._inverse(0.5 * (edges[:, 1:] + edges[:, :-1]))
        undefined = np.isnan(values)
        shares[undefined] = 0.0
        values = np.where(undefined, y[:, None], values)
        defined = shares.sum(axis=1, keepdims=True)
        few = _NEGLIGIBLE if self.outcome.nodes else 1e-8  # heavy tails reach a pole, and beyond
        shares /= np.where(defined >= 1.0 - few, defined, np.nan)
        return crps_of_points(y, values, shares)

    def sample_mean(self, n_samples=1, random_state=None):
        estimator, means = self.direct.estimator, []
        for _, heads, _ in estimator._drawn_heads(self.direct.X, n_samples, random_state):
            mass, mean, variance, largest = self._particle_moments(heads)
            known = (mass >= 1.0 - _NEGLIGIBLE) & (largest <= _MOST_OF_A_NODE * variance)
            means.append(np.where(known, mean, np.nan))
        return np.concatenate(means)

    def sample_predictive(self, n_samples=1, random_state=None):
        return self._inverse(self.direct.sample_predictive(n_samples, random_state))

    def uncertainty(self):
        _, explained, noise = self._moments()
        return Bunch(total=explained + noise, aleatoric=noise, epistemic=explained)

    @property
    def center(self):
        monotone = self.outcome.nodes is None and np.all(self._direction(_TAILS) != 0)
        return "median" if monotone else "mean"

    def _by_particle(self):
        expected = self.outcome.expected if self.center == "median" else None
        for _, heads, weights in self.direct.estimator._common_heads(self.direct.X):
            # The middle of an outcome stays there.
            means = self._inverse(expected(heads)) if expected else self._particle_moments(heads)[1]
            yield means, weights

    def _transform(self, y):
        column = y[:, None]
        with np.errstate(all="ignore"):
            for transformer in reversed(self.transformers):
                column = np.asarray(transformer.transform(column), dtype=np.float64)
        return column[:, 0]

    def _inverse(self, values):
        # Ends of a distribution may be infinite, and its far tails may leave the inverse's domain.
        with config_context(assume_finite=True), np.errstate(all="ignore"):
            column = values.reshape(-1, 1)
            for transformer in self.transformers:
                column = np.asarray(transformer.inverse_transform(column), dtype=np.float64)
        if column.size != values.size:
            raise ValueError(
                "the transformer of TransformedTargetRegressor must map one outcome to one; its "
                f"inverse turned {values.size} outcomes into an array of shape {column.shape}."
            )
        return column.reshape(values.shape)

    def _direction(self, tails):
        """For each row: 1 where the inverse increases between the tails, -1 if it falls, else 0."""
        low, high = self.direct.quantiles(tails).T
        values = self._inverse(np.linspace(low, high, _TRIALS, axis=1))
        with np.errstate(invalid="ignore"):
            change = np.diff(values, axis=1)
        rounding = 1e-12 * (np.abs(values[:, 1:]) + np.abs(values[:, :-1]))
        falls = np.any(change < -rounding, axis=1)
        return np.where(~falls, 1, np.where(~np.any(change > rounding, axis=1), -1, 0))

    @np.errstate(invalid="ignore", over="ignore")
    def _moments(self):
        """Mean, variance between the particles' means, and mean variance of a particle's outcome.

        Outcomes without an inverse are left out as long as they are rare. Not a number where two
        quadratures disagree or one node has most of the variance: near a pole of the inverse, as
        powers have it, there are no moments. Nor where they rest on one particle.
        """
        moments, m = [], len(next(iter(self.direct.estimator._row_heads(self.direct.X)))[2])
        for _, heads, weights in self.direct.estimator._row_noises(self.direct.X):
            fine, coarse = (self._row_moments(heads, weights, m, some) for some in (False, True))
            sd, other = (np.sqrt(some[1] + some[2]) for some in (fine, coarse))
            gap = np.maximum(np.abs(fine[0] - coarse[0]), np.abs(sd - other))
            known = (gap <= _DISAGREEMENT * sd) & (fine[3] <= _MOST_OF_A_NODE * fine[2])
            # A mean whose variance does not rest on one particle does not either.
            moments.append(np.where(known & (fine[[4, 5, 5]] * fine[5] == 0.0), fine[:3], np.nan))
        return np.concatenate(moments, axis=1)

    def _row_moments(self, heads, weights, m, coarse):
        """Of ``m`` particles, each of which may have several nodes in a row."""
        mass, mean, *spread = self._particle_moments(heads, coarse)
        weights = weights * mass
        defined = weights.sum(axis=1)
        weights /= np.where(defined >= 1.0 - _NEGLIGIBLE, defined, np.nan)[:, None]
        center = np.sum(weights * mean, axis=1)
        apart = np.abs(mean - center[:, None])
        parts = weights * [apart, apart**2, *spread]
        of_one = np.stack([parts[0], parts[1] + parts[2]]).reshape(2, len(mean), m, -1).sum(axis=3)
        most = np.maximum(_MOST_OF_ONE, _FAR_ABOVE / m) * of_one.sum(axis=2)
        return np.stack([center, *parts[1:].sum(axis=2), *(of_one.max(axis=2) > most)])

    def _particle_moments(self, heads, coarse=False):
        """Probability that the inverse exists, mean and variance under each particle.

        And the largest part of the variance that a node has. One node of the quadrature at a time
        updates the moments, to bound the memory.
        """
        if self.outcome.nodes is None:
            raise TypeError(
                "a transformed outcome of heavy tails need not have a mean or a variance: use "
                'quantiles and intervals, or a noise without: noise="normal" or "heteroscedastic".'
            )
        mass = mean = squares = largest = np.zeros(())
        for values, share in self.outcome.nodes(heads, coarse):
            values = self._inverse(values)
            share = np.where(np.isnan(values), 0.0, share)
            mass = mass + share
            step = np.where(share > 0.0, values - mean, 0.0)
            fraction = share / np.where(mass > 0.0, mass, 1.0)
            mean = mean + fraction * step
            part = share * (1.0 - fraction) * step**2
            squares, largest = squares + part, np.maximum(largest, part)
        total = np.where(mass > 0.0, mass, 1.0)
        return mass, mean, squares / total, largest / total
