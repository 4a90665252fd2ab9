"""Ordered classes: one linear predictor, and cut points between neighbouring classes.

``P(class <= k) = F(cut_k - eta)``, the proportional-odds model where F is the logistic distribution
and the ordered probit where it is the normal one (McCullagh, 1980). A number that is added to the
predictor and to all cut points changes nothing: they take the place of an intercept.

Cut points are ordered, so the target has others in their place: the cut point in the middle, and
logarithms of the gaps on either side. Gaps count outwards so that a rare class at either end, whose
gap the data leave open, moves no other cut point.

The prior is that of Betancourt's case study *Ordinal regression* (2019): the class probabilities
where the predictor is 0 have a Dirichlet distribution, which says how the cut points are spread.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit, gammaln, log_expit, ndtr, ndtri_exp

from .base import Outcome, summed, weighted
from .class_outcome import ClassOutcome
from .probit import log_phi_and_ratio

_NEAR = 1e-3  # below it a difference of two logarithms is that of a density times a length
_LEAST_GAP = 1e-300


class _Logit:
    """The standard logistic distribution."""

    @staticmethod
    def tail(z):
        """Probability beyond ``z`` on the side that has less of it."""
        return expit(-np.abs(z))

    @staticmethod
    def quantile(log_below, log_above):
        """The point that has these logarithms of probabilities below and above."""
        return log_below - log_above

    @staticmethod
    def log_density(z):
        """With its first derivative, and the negative second one."""
        slope = -np.tanh(0.5 * z)
        return log_expit(z) + log_expit(-z), slope, 0.5 * (1.0 - slope**2)

    @staticmethod
    def interval(lower, upper, gap):
        """Log probability of an interval, and its derivatives by the upper and by minus the lower.

        ``F(u) - F(l) = F(u) F(-l) (1 - exp(l - u))``, in which nothing cancels.
        """
        with np.errstate(over="ignore", divide="ignore"):
            below, above = 1.0 + np.exp(-upper), 1.0 + np.exp(lower)
            log_mass = -np.log(below * above)
            far = np.isinf(log_mass)
            if far.any():
                both = np.broadcast_arrays(upper, -lower)
                log_mass[far] = sum(log_expit(part[far]) for part in both)
            between = 1.0 / np.expm1(gap)
            log_mass += np.log(-np.expm1(-gap))
        return log_mass, 1.0 - 1.0 / below + between, 1.0 - 1.0 / above + between


class _Probit:
    """The standard normal distribution."""

    @staticmethod
    def tail(z):
        return ndtr(-np.abs(z))

    @staticmethod
    def quantile(log_below, log_above):
        return np.where(log_below < log_above, ndtri_exp(log_below), -ndtri_exp(log_above))

    @staticmethod
    def log_density(z):
        return -0.5 * (np.log(2 * np.pi) + z**2), -z, np.ones_like(z)

    @classmethod
    def interval(cls, lower, upper, gap):
        """As of `_Logit`, by logarithms of the tail on the side that has less of it."""
        lower, upper, gap = np.broadcast_arrays(lower, upper, gap)
        flip = lower + upper > 0.0
        near, far = np.where(flip, -lower, upper), np.where(flip, -upper, lower)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            log_near, _ = log_phi_and_ratio(near, ratio=False)
            drop = log_near - log_phi_and_ratio(far, ratio=False)[0]
            log_mass = log_near + np.log(-np.expm1(-drop))
            short = drop < _NEAR
            if short.any():
                middle, length = (lower + 0.5 * gap)[short], gap[short]
                log_mass[short] = cls.log_density(middle)[0] + np.log(length)
                log_mass[short] += np.log1p((middle**2 - 1.0) * length**2 / 24.0)
            rates = [np.exp(cls.log_density(z)[0] - log_mass) for z in (upper, lower)]
        return log_mass, *rates


LINKS: dict[str, Any] = {"logit": _Logit, "probit": _Probit}


class CutPoints:
    """From unconstrained coordinates to ordered cut points, both of shape (m, n_cuts).

    The coordinate in the middle moves all cut points; each other one is the logarithm of the gap to
    the neighbour on the inner side. At 0 they are those of ``center``.

    Parameters
    ----------
    center : ndarray of shape (n_cuts,)
        In order.
    """

    def __init__(self, center):
        n = len(center)
        self.middle = n // 2
        cut, step = np.arange(n)[:, None], np.arange(n)
        self.sums = ((step > self.middle) & (step <= cut)) * 1.0
        self.sums -= (step < self.middle) & (step >= cut)
        self.sums[:, self.middle] = 1.0
        self._differences = np.linalg.inv(self.sums).round()
        self._is_gap = step != self.middle
        steps = self._differences @ center
        self._unit, self._location = np.where(self._is_gap, steps, 1.0), center[self.middle]

    def steps(self, z):
        """The middle cut point, and the gaps around it in their order."""
        with np.errstate(over="ignore"):
            return np.where(self._is_gap, self._unit * np.exp(z), self._location + z)

    def slopes(self, z):
        """Derivatives of the steps."""
        return np.where(self._is_gap, self.steps(z), 1.0)

    def forward(self, z):
        return self.steps(z) @ self.sums.T

    def inverse(self, cuts):
        steps = cuts @ self._differences.T
        gaps = np.maximum(steps / self._unit, _LEAST_GAP)
        return np.where(self._is_gap, np.log(gaps), steps - self._location)

    def log_det(self, z):
        return (z + np.log(self._unit))[:, self._is_gap].sum(axis=1)

    def pull(self, z, by_cut):
        """Derivatives by the coordinates from those by the cut points."""
        return (by_cut @ self.sums) * self.slopes(z)

    def pull_score(self, z, score):
        return self.pull(z, score) + self._is_gap

    def push_score(self, z, score):
        return ((score - self._is_gap) / self.slopes(z)) @ self._differences

    def bend(self, pulled):
        """Second derivatives by each coordinate on its own, as the gaps are curved."""
        return np.where(self._is_gap, pulled, 0.0)


class InducedDirichlet:
    """Prior of the cut points by which classes have Dirichlet probabilities at predictor 0.

    Parameters
    ----------
    outcome : Ordinal
    concentration : float
        Of all classes; 1 is uniform over probabilities.
    """

    def __init__(self, outcome, concentration):
        self.outcome, self.concentration = outcome, concentration

    def _terms(self, z, value, score):
        classes = np.arange(len(self.outcome.extra) + 1)
        heads = [np.zeros((len(z), len(classes))), *z.T[:, :, None]]
        weights = np.full(len(classes), self.concentration - 1.0)
        return self.outcome.terms(heads, classes, weights, value, score)

    def log_density(self, z):
        cut_points, k = self.outcome.reported, len(self.outcome.extra) + 1
        constant = gammaln(k * self.concentration) - k * gammaln(self.concentration)
        density = self.outcome.link.log_density(cut_points.forward(z))[0]
        value = constant + density.sum(axis=1) + cut_points.log_det(z)
        return value + self._terms(z, True, False)[0] if self.concentration != 1.0 else value

    def score(self, z):
        cut_points = self.outcome.reported
        score = cut_points.pull_score(z, self.outcome.link.log_density(cut_points.forward(z))[1])
        if self.concentration != 1.0:
            score += np.hstack(self._terms(z, False, True)[1][1:])
        return score

    def curvature(self, z):
        cut_points, n_classes = self.outcome.reported, len(self.outcome.extra) + 1
        _, slope, negative = self.outcome.link.log_density(cut_points.forward(z))
        jacobian = cut_points.sums * cut_points.slopes(z)[:, None]
        curvature = jacobian.swapaxes(1, 2) @ (negative[:, :, None] * jacobian)
        curvature -= cut_points.bend(cut_points.pull(z, slope))[:, :, None] * np.eye(n_classes - 1)
        if self.concentration != 1.0:
            for point, own in zip(z, curvature, strict=True):
                heads = [np.zeros(n_classes), *point[:, None]]
                of_classes = self.outcome.curvature(heads, np.arange(n_classes))[1:, 1:]
                own += (self.concentration - 1.0) * of_classes.sum(axis=2)
        return curvature

    def sample(self, rng, m):
        parts = rng.standard_gamma(self.concentration, (m, len(self.outcome.extra) + 1))
        with np.errstate(divide="ignore"):
            log_parts = np.log(np.maximum(parts, _LEAST_GAP))
        below = np.logaddexp.accumulate(log_parts, axis=1)
        above = np.logaddexp.accumulate(log_parts[:, ::-1], axis=1)[:, ::-1]
        total = below[:, -1:]
        cuts = self.outcome.link.quantile(below[:, :-1] - total, above[:, 1:] - total)
        return self.outcome.reported.inverse(cuts)


class Ordinal(ClassOutcome):
    """Ordered classes, by cut points of a linear predictor.

    The heads behind the predictor are the coordinates of `CutPoints`.

    Parameters
    ----------
    categories : array-like of shape (n_classes,)
        Labels of the classes in their order. As for other outcomes, what is observed is the
        position among the sorted ones.
    link : {"logit", "probit"}, default="logit"
        The distribution function F.
    concentration : float, default=1.0
        Of the Dirichlet prior of the class probabilities where the predictor is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Ordinal
    >>> outcome = Ordinal([3, 4, 5])
    >>> outcome.extra
    ('cut_points[3|4]', 'cut_points[4|5]')
    >>> np.exp(outcome.log_density(np.zeros((3, 1)), np.array([0, 1, 2]))).round(3)
    array([0.333, 0.333, 0.333])
    """

    def __init__(self, categories, link="logit", concentration=1.0):
        labels = np.asarray(categories)
        n = len(labels)
        self._rank = np.argsort(labels)
        self.link = LINKS[link]
        below = np.log(np.arange(1, n) / n)
        self.reported = CutPoints(self.link.quantile(below, below[::-1]))
        self.constant = self.reported.middle
        self.extra = tuple(f"cut_points[{low}|{high}]" for low, high in pairwise(labels))
        self.extra_prior = InducedDirichlet(self, concentration)

    def _unconstrained(self, eta):
        """The coordinates of the cut points (m, n_cuts), and the shape of each among the heads."""
        extra = np.broadcast_arrays(*eta[1:])
        shape = (1,) * (np.ndim(eta[0]) - extra[0].ndim) + extra[0].shape
        return np.stack(extra, axis=-1).reshape(-1, len(extra)), shape

    def _cuts(self, eta):
        """Cut points between infinities, (n_classes + 1, ...), and gaps, infinite at the ends."""
        z, shape = self._unconstrained(eta)
        steps = self.reported.steps(z)
        below, above = (np.full((len(z), 1), end) for end in (-np.inf, np.inf))
        cuts = np.hstack([below, steps @ self.reported.sums.T, above])
        gaps = np.hstack([above, np.delete(steps, self.reported.middle, axis=1), above])
        return cuts.T.reshape(-1, *shape), gaps.T.reshape(-1, *shape)[: cuts.shape[1] - 1]

    def _intervals(self, eta, y):
        """Ends and length of the interval of the predictor's error that is each row's class."""
        shape = np.broadcast_shapes(np.shape(eta[0]), np.shape(y), *map(np.shape, eta[1:]))
        rank = np.broadcast_to(self._rank[y], shape)[None]
        cuts, gaps = (np.broadcast_to(part, (len(part), *shape)) for part in self._cuts(eta))
        lower, upper, gap = (
            np.take_along_axis(part, rank + step, axis=0)[0]
            for part, step in ((cuts, 0), (cuts, 1), (gaps, 0))
        )
        return lower - eta[0], upper - eta[0], gap

    def log_density(self, eta, y):
        return self.link.interval(*self._intervals(eta, y))[0]

    log_density_by_particle = Outcome.log_density_by_particle

    def _by_heads(self, eta, y):
        """Derivatives of the upper and the lower end of each row's interval, (n_heads, ...)."""
        z, shape = self._unconstrained(eta)
        slopes = self.reported.slopes(z).T.reshape(-1, *shape)
        sums = np.pad(self.reported.sums, ((1, 1), (0, 0)))  # the ends at infinity do not move
        rank = self._rank[np.reshape(y, (1,) * (len(shape) - np.ndim(y)) + np.shape(y))]
        ends = [np.moveaxis(sums[rank + step], -1, 0) * slopes for step in (1, 0)]
        return [np.concatenate([np.full_like(end[:1], -1.0), end]) for end in ends]

    def residual(self, eta, y):
        _, at_upper, at_lower = self.link.interval(*self._intervals(eta, y))
        by_upper, by_lower = self._by_heads(eta, y)
        return at_upper * by_upper - at_lower * by_lower

    def curvature(self, eta, y):
        lower, upper, gap = self._intervals(eta, y)
        _, at_upper, at_lower = self.link.interval(lower, upper, gap)
        bent = [self.link.log_density(np.where(np.isfinite(z), z, 0.0))[1] for z in (upper, lower)]
        by_upper, by_lower = self._by_heads(eta, y)
        across = by_upper[:, None] * by_lower
        curvature = (at_upper**2 - bent[0] * at_upper) * (by_upper[:, None] * by_upper)
        curvature += (at_lower**2 + bent[1] * at_lower) * (by_lower[:, None] * by_lower)
        curvature -= at_upper * at_lower * (across + across.swapaxes(0, 1))
        pulled = (at_upper * by_upper - at_lower * by_lower)[1:]
        curvature[1:, 1:] -= np.eye(len(pulled))[:, :, None] * self.reported.bend(pulled.T).T
        return curvature

    def terms(self, eta, y, weights, value, score):
        cuts, gaps = (part[..., 0].T for part in self._cuts(eta))
        rank = self._rank[y]
        ends = cuts[:, rank] - eta[0], cuts[:, rank + 1] - eta[0]
        log_mass, at_upper, at_lower = self.link.interval(*ends, gaps[:, rank])
        total = summed(log_mass, weights) if value else None
        if not score:
            return total, None
        at_upper, at_lower = weighted(at_upper, weights), weighted(at_lower, weights)
        is_class = (rank[:, None] == np.arange(gaps.shape[1])).astype(float)
        by_cut = (at_upper @ is_class)[:, :-1] - (at_lower @ is_class)[:, 1:]
        pulled = self.reported.pull(np.hstack(eta[1:]), by_cut)
        return total, [at_lower - at_upper, *pulled.T[:, :, None]]

    def logits(self, eta):
        """Log probabilities of all classes."""
        cuts, gaps = self._cuts(eta)
        ends = cuts - eta[0]
        gaps = np.broadcast_to(gaps, (len(gaps), *ends.shape[1:]))
        return self.link.interval(ends[:-1], ends[1:], gaps)[0][self._rank]

    def every(self, eta):
        ends = self._cuts(eta)[0] - eta[0]
        tail, above = self.link.tail(ends), ends > 0.0
        proba = np.abs(tail[1:] - tail[:-1])
        np.copyto(proba, 1.0 - tail[1:] - tail[:-1], where=above[1:] != above[:-1])
        return proba[self._rank]
