"""Outcomes that are classes, and how they are predicted.

Observed is the position of a class. A prediction is about the probability of each class, which the
posterior leaves uncertain: means and quantiles are those of the probability over particles.
"""

import numpy as np
from scipy.special import entr, log_softmax, logsumexp, softmax

from .._statistics.quantiles import between, neighbours, weighted_quantile
from .base import Outcome

_SMALL = 1e-3  # below it a probability loses digits as the complement of the other one
FAINT = 1e-290  # averages and sums of probabilities below it lose digits to subnormal numbers


class ClassOutcome(Outcome):
    """Base class of outcomes that are classes: predictions from each particle's logits.

    A subclass may turn the heads into other logits, and say how the probabilities that belong to
    them are computed faster than from logarithms.
    """

    has_classes = True
    unit = "nats"

    def logits(self, eta):
        """Log-odds of the second of two classes, (1, n, m), or unnormalised log probabilities.

        The latter are of shape (n_classes, n, m).
        """
        return np.asarray(eta)

    def of_two(self, predictor, sign):
        """Probability of the second of two classes, or where ``sign`` is -1 of the first.

        For outcomes of one head; the probability of the second class increases with it.
        """
        logits = self.logits(predictor[None])[0]
        with np.errstate(over="ignore"):
            proba = np.exp(logits if isinstance(sign, float) and sign < 0.0 else -sign * logits)
        proba += 1.0
        return np.divide(1.0, proba, out=proba)

    def every(self, eta):
        """Probabilities of each class, (n_classes, n, m)."""
        if len(eta) == 1:
            return self.of_two(eta[0], np.array([-1.0, 1.0])[:, None, None])
        return softmax(_of_every_class(self.logits(eta)), axis=0)

    def log_proba(self, eta, weights):
        """Logarithm of the averaged probabilities, (n, n_classes), exact in the tails."""
        if len(eta) == 1:
            proba = np.empty((2, len(eta[0])))
            first, second = proba
            np.matmul(self.of_two(eta[0], -1.0), weights, out=first)
            np.subtract(1.0, first, out=second)
            few = np.flatnonzero(second < _SMALL)
            second[few] = self.of_two(eta[0][few], 1.0) @ weights
        else:
            proba = self.every(eta) @ weights
        faint = np.flatnonzero(proba.min(axis=0) < FAINT)
        # Weights sum to 1 up to rounding only, and a probability must not pass 1.
        proba /= proba.sum(axis=0)
        with np.errstate(divide="ignore"):
            log_proba = np.log(proba, out=proba)
        if len(faint):
            logits = _of_every_class(self.logits(eta)[:, faint])
            log_parts = logsumexp(log_softmax(logits, axis=0), axis=2, b=weights)
            log_proba[:, faint] = log_parts - np.logaddexp.reduce(log_parts, axis=0)
        return log_proba.T

    def log_predictive(self, eta, weights, y):
        return self.log_proba(eta, weights)[np.arange(len(y)), y]

    def log_density_by_particle(self, eta, y):
        """Log probability of each observed class under each particle, shape (n, m)."""
        return log_softmax(_of_every_class(self.logits(eta)), axis=0)[y, np.arange(len(y))]

    def expected(self, eta):
        """Class probabilities of each particle, shape (n, m, n_classes)."""
        return np.moveaxis(self.every(eta), 0, 2)

    def std(self, eta, weights):
        """Standard deviation of each probability over the particles, shape (n, n_classes)."""
        proba = self.every(eta)
        return np.sqrt(np.square(proba - (proba @ weights)[..., None]) @ weights).T

    def quantiles(self, eta, weights, q):
        """Quantiles of each probability, of shape (n, n_classes, n_quantiles)."""
        if len(eta) == 1:
            # Both probabilities are monotone, so that one order of the predictors is theirs.
            low, high, place = neighbours(eta[0], weights, np.concatenate([1.0 - q, q]))
            sign = np.repeat([-1.0, 1.0], len(q))
            found = between(self.of_two(low, sign), self.of_two(high, sign), place)
            return found.reshape(len(found), 2, len(q))
        return weighted_quantile(np.moveaxis(self.every(eta), 2, 0), weights, q).T

    def sample(self, eta, rng):
        """A class under each particle, by its position, shape (n, m)."""
        if len(eta) == 1:
            first = self.of_two(eta[0], -1.0)
            return (rng.random(first.shape) > first).astype(np.intp)
        cumulative = np.cumsum(self.every(eta), axis=0)[:-1]
        return np.sum(rng.random(cumulative.shape[1:]) > cumulative, axis=0)

    def uncertainty(self, eta, weights):
        """The particles' entropies, averaged, and what the averaged one has beyond, (n, 2)."""
        proba = self.every(eta)
        total = entr(proba @ weights).sum(axis=0)
        aleatoric = (entr(proba) @ weights).sum(axis=0)
        # Rounding alone can turn the order round where all particles agree.
        return np.column_stack([aleatoric, np.maximum(total - aleatoric, 0.0)])


def _of_every_class(logits):
    """Unnormalised log probabilities, (n_classes, n, m), of two classes too."""
    return np.concatenate([np.zeros_like(logits), logits]) if len(logits) == 1 else logits
