"""Classes: two by the logistic link, more by softmax.

Observed is the position of a class. A prediction is about the probability of each class, which the
posterior leaves uncertain: means and quantiles are those of the probability over particles.
"""

import numpy as np
from scipy.special import expit, log_softmax, softmax

from .._jit.predict import log_mean_proba, mean_entropy
from .._quantiles import weighted_quantile
from .base import Canonical, Outcome


class ClassOutcome(Outcome):
    """Base class of outcomes that are classes: predictions from each particle's logits.

    A subclass may turn the heads into other logits.
    """

    has_classes = True
    unit = "nats"

    def logits(self, eta):
        """Log-odds of the second of two classes, (n, m), or unnormalised log probabilities.

        The latter are of shape (n, m, n_classes).
        """
        return eta[0] if len(eta) == 1 else np.moveaxis(np.asarray(eta), 0, -1)

    def log_proba(self, eta, weights):
        """Logarithm of the averaged probability of each class, exact in the tails."""
        return log_mean_proba(self.logits(eta), weights)

    def log_predictive(self, eta, weights, y):
        return self.log_proba(eta, weights)[np.arange(len(y)), y]

    def log_density_by_particle(self, eta, y):
        """Log probability of each observed class under each particle, shape (n, m)."""
        logits = self.logits(eta)
        if logits.ndim == 2:
            logits = np.stack([np.zeros_like(logits), logits], axis=2)
        return np.take_along_axis(log_softmax(logits, axis=2), y[:, None, None], axis=2)[:, :, 0]

    def expected(self, eta):
        """Class probabilities of each particle, shape (n, m, n_classes)."""
        logits = self.logits(eta)
        if logits.ndim == 2:
            return np.stack([expit(-logits), expit(logits)], axis=2)
        return softmax(logits, axis=2)

    def std(self, eta, weights):
        """Standard deviation of each probability over the particles, shape (n, n_classes)."""
        by_particle = np.moveaxis(self.expected(eta), 1, -1)
        mean = by_particle @ weights
        return np.sqrt(np.square(by_particle - mean[..., None]) @ weights)

    def quantiles(self, eta, weights, q):
        """Quantiles of each probability, of shape (n, n_classes, n_quantiles)."""
        by_particle = np.moveaxis(self.expected(eta), 1, 0)
        return np.moveaxis(weighted_quantile(by_particle, weights, q), 0, -1)

    def sample(self, eta, rng):
        """A class under each particle, by its position, shape (n, m)."""
        cumulative = np.cumsum(self.expected(eta), axis=2)[:, :, :-1]
        uniform = rng.random(cumulative.shape[:2])
        return np.sum(uniform[:, :, None] > cumulative, axis=2)

    def uncertainty(self, eta, weights):
        """The particles' entropies, averaged, and what the averaged one has beyond, (n, 2)."""
        logits = self.logits(eta)
        log_proba = log_mean_proba(logits, weights)
        proba = np.exp(log_proba)
        total = -np.sum(proba * np.where(proba > 0.0, log_proba, 0.0), axis=1)
        aleatoric = mean_entropy(logits, weights)
        # Rounding alone can turn the order round where all particles agree.
        return np.column_stack([aleatoric, np.maximum(total - aleatoric, 0.0)])


class Bernoulli(Canonical, ClassOutcome):
    """Two classes, the second of which has the log-odds ``eta``.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Bernoulli
    >>> np.exp(Bernoulli().log_density((np.log([3.0, 3.0]),), np.array([1, 0])))
    array([0.75, 0.25])
    """

    def cumulant(self, eta):
        """log(1 + exp(eta)), to absolute rounding error and without overflow."""
        if np.max(eta, initial=0.0) > 700.0:
            return np.maximum(eta, 0.0) + np.log(1.0 + np.exp(-np.abs(eta)))
        result = np.exp(eta)
        result += 1.0
        return np.log(result, out=result)

    def cumulant_slope(self, eta):
        return 0.5 + 0.5 * np.tanh(0.5 * eta)

    def cumulant_curvature(self, eta):
        p = self.cumulant_slope(eta)
        return p * (1 - p)


class Categorical(ClassOutcome):
    """More classes: softmax of a predictor for each.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes):
        self.n_predictors = int(n_classes)

    @staticmethod
    def _log_normaliser(eta):
        eta = np.asarray(eta)
        top = eta.max(axis=0)
        return top + np.log(np.exp(eta - top).sum(axis=0))

    def log_density(self, eta, y):
        eta = np.asarray(eta)
        y = np.broadcast_to(y, eta.shape[1:])[None]
        return np.take_along_axis(eta, y, axis=0)[0] - self._log_normaliser(eta)

    def residual(self, eta, y):
        return self._residual(eta, self._log_normaliser(eta), y)

    def _residual(self, eta, normaliser, y):
        residual = -np.exp(eta - normaliser)
        residual[y, ..., np.arange(len(y))] += 1.0
        return residual

    def curvature(self, eta, y):
        eta = np.asarray(eta)
        p = np.exp(eta - self._log_normaliser(eta))
        return np.eye(self.n_predictors)[:, :, None] * p - p[:, None] * p

    def terms(self, eta, y, weights, value, score):
        eta = np.asarray(eta)
        normaliser = self._log_normaliser(eta)
        observed = eta[y, :, np.arange(len(y))].T
        return (
            (observed - normaliser) @ weights if value else None,
            self._residual(eta, normaliser, y) * weights if score else None,
        )
