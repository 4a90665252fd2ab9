"""Classes by the probit link: two, or one against the rest for more."""

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, softmax

from .base import summed, weighted
from .class_outcome import FAINT, ClassOutcome

_FAR = 3.0  # beyond it log Phi nears 0 and the difference of two logarithms would lose its digits


def log_phi_and_ratio(s, value=True, ratio=True):
    """``log Phi(s)`` and ``phi(s) / Phi(s)``, stable in both tails; None where not asked for.

    Both follow from one evaluation of the scaled complementary error function,
    ``Phi(s) = erfcx(-s / sqrt 2) exp(-s^2 / 2) / 2``.
    """
    with np.errstate(over="ignore"):
        scaled = erfcx(s * -np.sqrt(0.5))
    log_phi = None
    if value:
        with np.errstate(invalid="ignore"):
            log_phi = np.log(0.5 * scaled) - 0.5 * s**2
        far = s > _FAR
        if far.any():
            log_phi[far] = log_ndtr(s[far])
    return log_phi, np.sqrt(2 / np.pi) / scaled if ratio else None


class Probit(ClassOutcome):
    """Two classes, the second of probability ``Phi(eta)``; or more, each told from all others.

    With more than two classes the likelihood is the product of a binary one for each class, and
    predictions normalise over classes, particle by particle.

    Parameters
    ----------
    n_classes : int, default=2

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Probit
    >>> np.exp(Probit().log_density(np.zeros((1, 2)), np.array([1, 0])))
    array([0.5, 0.5])
    """

    def __init__(self, n_classes=2):
        self.n_predictors = 1 if n_classes == 2 else int(n_classes)

    def _signed(self, eta, y):
        """Predictors, and their signs: +1 where one's class is the row's, else -1."""
        eta = np.asarray(eta)
        classes = np.array([1]) if self.n_predictors == 1 else np.arange(self.n_predictors)
        classes = classes.reshape(-1, *[1] * (eta.ndim - 1))
        signs = np.where(y == classes, 1.0, -1.0)
        return eta * signs, signs

    def log_density(self, eta, y):
        return log_phi_and_ratio(self._signed(eta, y)[0], ratio=False)[0].sum(axis=0)

    def residual(self, eta, y):
        signed, signs = self._signed(eta, y)
        return log_phi_and_ratio(signed, value=False)[1] * signs

    def curvature(self, eta, y):
        s, _ = self._signed(eta, y)
        ratio = log_phi_and_ratio(s, value=False)[1]
        return np.eye(self.n_predictors)[:, :, None] * (ratio * (ratio + s))

    def terms(self, eta, y, weights, value, score):
        signed, signs = self._signed(eta, y)
        log_phi, ratio = log_phi_and_ratio(signed, value, score)
        return (
            summed(log_phi.sum(axis=0), weights) if value else None,
            ratio * weighted(signs, weights) if score else None,
        )

    def logits(self, eta):
        eta = super().logits(eta)
        return log_ndtr(eta) - log_ndtr(-eta) if len(eta) == 1 else log_ndtr(eta)

    def of_two(self, predictor, sign):
        return ndtr(sign * predictor)

    def every(self, eta):
        if len(eta) == 1:
            return super().every(eta)
        proba = ndtr(eta)
        total = proba.sum(axis=0)
        faint = total < FAINT
        proba /= np.where(faint, 1.0, total)
        if faint.any():
            proba[:, faint] = softmax(log_ndtr(np.asarray(eta)[:, faint]), axis=0)
        return proba
