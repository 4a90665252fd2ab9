"""What an outcome is: its distribution given predictors, for targets and for predictions alike.

A target asks an outcome for the log density of each row and its derivatives; a prediction asks it
for moments, quantiles and draws of the mixture over the posterior's particles. Both pass it the
*heads* ``eta``: a sequence of ``n_predictors`` arrays of linear predictors, and one for each of
``extra``, the coordinates that are the same for all rows (such as the logarithm of a noise
variance). All heads broadcast against each other and against ``y``. So an outcome is elementwise
and does not know which axis is that of the particles: for targets rows are the last axis, (m, n),
for predictions particles are, (n, m).

After the distributions of glum and the losses of scikit-learn; what differs is the second half:
predictions are mixtures over the particles.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp

# Of the quadrature over an error of a predictor: standard normal nodes, and how much each counts.
_NODES, _SHARES = np.reshape(np.polynomial.hermite_e.hermegauss(8), (2, 8, 1, 1))
_SHARES /= _SHARES.sum()


def summed(values, weights):
    """Sum over rows, the last axis of ``values``; weights of None are 1."""
    return values.sum(axis=-1) if weights is None else values @ weights


def weighted(values, weights):
    """``values`` (..., n) times the weights of the rows; unchanged if these are None."""
    return values if weights is None else values * weights


def in_rows(eta):
    """The heads with the axes of rows and of several outcomes in one."""
    if np.ndim(eta[0]) == 2:
        return eta
    shape = np.shape(eta[0])
    return [np.broadcast_to(head, shape).reshape(-1, shape[-1]) for head in eta]


class Outcome:
    """Base class of outcomes.

    A subclass writes `log_density`, `residual` and `curvature`, and for predictions the methods
    that `NumericOutcome` or `ClassOutcome` leave to it.

    Attributes
    ----------
    n_predictors : int
        Linear predictors per row, each with its own coefficients.
    extra : tuple of str
        Names of coordinates behind the coefficients; each is the same for all rows.
    extra_prior : object or None
        Of those: ``log_density`` (m,), ``score`` (m, e) and ``curvature`` (m, e) at ``(m, e)``, and
        ``sample(rng, m)``. Of coordinates that depend on each other the curvature is (m, e, e).
    constant : int or None
        Position in ``extra`` of the coordinate that replaces an intercept: adding a number to it
        and to the only linear predictor changes nothing.
    reported : bijection or None
        Maps ``extra``, which is unconstrained, to what a posterior reports in its place, both of
        shape (m, e); None for the identity.
    location_scale : bool
        Whether y may be centred and divided by its standard deviation, with `rescaled_by`.
    has_classes : bool
        Whether the outcome is a class, given by its position. Then predictions are about the
        probability of each class; otherwise about the outcome itself.
    unit : str
        Of the uncertainty of a prediction.
    predictor : str
        What a linear predictor is, for labels.
    predictor_names : tuple of str or None
        Names of several linear predictors that are not those of classes.
    further_priors : tuple
        For predictors that differ in kind: the priors (of coefficients, of the intercept) of each
        one after the first; otherwise all predictors share the model's.
    nodes : callable or None
        ``nodes(eta, coarse=False)`` yields (outcomes, share) of a quadrature over each particle's
        outcome, for the moments of a transformed outcome, or of a coarser one, by which it is
        judged; None if there is none.
    """

    n_predictors: int = 1
    extra: tuple[str, ...] = ()
    extra_prior: Any = None
    constant: int | None = None
    reported: Any = None
    location_scale: bool = False
    has_classes: bool = False
    unit: str = "squared units of y"
    predictor: str = "linear predictor"
    predictor_names: tuple[str, ...] | None = None
    further_priors: tuple = ()
    nodes: Any = None

    def check(self, y):
        """Raise a ValueError if ``y``, finite numbers of shape (n,), cannot be observed."""

    def center(self, y, weights, offset):
        """The constant about which a predictor beside ``offset`` (n,) is expected.

        The prior of an intercept applies to the distance from it, so that it is equally weak
        whatever the size of the outcomes.
        """
        return 0.0

    def rescaled_by(self, y_scale):
        """What is added to each of `extra` when y is multiplied by ``y_scale``."""
        return np.zeros(len(self.extra))

    def predictors_rescaled(self, y_center, y_scale):
        """What each predictor is multiplied by, and what is added to it then, when y is."""
        return [(y_scale, y_center)] * self.n_predictors

    def initial_heads(self, y, weights):
        """Heads, the same for all rows, that suit ``y``: where the search for a mode starts."""
        return np.zeros(self.n_predictors + len(self.extra))

    def is_discrete(self, eta):
        """Whether outcomes have probabilities, and not densities."""
        return self.has_classes

    def log_density(self, eta, y):
        """Log density, or log probability, of each outcome: the heads' common shape."""
        raise NotImplementedError(f"{type(self).__name__} does not define log_density().")

    def residual(self, eta, y):
        """Derivatives of `log_density` by each head: a sequence of arrays of the common shape."""
        raise NotImplementedError(f"{type(self).__name__} does not define residual().")

    def curvature(self, eta, y):
        """Negative second derivatives by pairs of heads, in front of the common shape."""
        raise NotImplementedError(f"{type(self).__name__} does not define curvature().")

    def terms(self, eta, y, weights, value, score):
        """Weighted log density, summed over rows, and weighted residuals; None where not asked for.

        Parameters
        ----------
        eta : sequence of ndarray of shape (m, n)
        y : ndarray of shape (n,)
        weights : ndarray of shape (n,) or None
            None where all are 1.
        value, score : bool
            Which of the two are wanted; a subclass may share work between them.
        """
        return (
            summed(self.log_density(eta, y), weights) if value else None,
            [weighted(part, weights) for part in self.residual(eta, y)] if score else None,
        )

    def log_density_widened(self, eta, y, spread):
        """Log density of each outcome whose first predictor has a normal error of that ``spread``.

        It may be narrow beside the error, or far out; so the nodes are about the mode of the error
        given the outcome, of which there is one where the log density is concave. All shapes
        broadcast to that of ``spread``, (n, m).
        """
        u = np.zeros_like(spread)
        low, high = np.sort([u, spread * self.residual([eta[0] + u, *eta[1:]], y)[0]], axis=0)
        for _ in range(100):  # of Newton's method between bounds
            moved = [eta[0] + spread * u, *eta[1:]]
            bend = spread**2 * np.maximum(self.curvature(moved, y)[0][0], 0.0)
            width = (1.0 + bend) ** -0.5
            step = (spread * self.residual(moved, y)[0] - u) * width**2
            if not np.any(np.abs(step) > 0.01 * width):
                break
            low, high = np.where(step > 0.0, u, low), np.where(step > 0.0, high, u)
            to = u + np.clip(step, -1.0 - np.abs(u), 1.0 + np.abs(u))
            u = np.where((to >= low) & (to <= high), to, 0.5 * (low + high))
        at = u + width * _NODES
        density = self.log_density([eta[0] + spread * at, *eta[1:]], y)
        return logsumexp(density + 0.5 * (_NODES**2 - at**2), axis=0, b=_SHARES * width)

    def log_density_by_particle(self, eta, y):
        """Log density of each outcome (n,) under each particle, shape (n, m)."""
        return self.log_density(eta, y[:, None])

    def log_predictive(self, eta, weights, y):
        """Log density of each outcome (n,), averaged over particles with ``weights`` (m,)."""
        return logsumexp(self.log_density_by_particle(eta, y), axis=1, b=weights)


class Canonical:
    """The likelihood of an exponential family whose predictor is its natural parameter.

    ``log p(y) = y eta - cumulant(eta) + log_base(y)``; a subclass writes the cumulant and its first
    two derivatives.
    """

    cumulant: Any
    cumulant_slope: Any
    cumulant_curvature: Any

    def log_base(self, y):
        """What does not depend on the predictor."""
        return 0.0

    def log_density(self, eta, y):
        return y * eta[0] - self.cumulant(eta[0]) + self.log_base(y)

    def residual(self, eta, y):
        return (y - self.cumulant_slope(eta[0]))[None]

    def curvature(self, eta, y):
        return self.cumulant_curvature(eta[0])[None, None]
