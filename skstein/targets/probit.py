"""Probit regression: two classes, or one against the rest for more."""

import numpy as np
from scipy.special import erfcx, log_ndtr

from .base import as_names
from .glm import RegressionTarget

_FAR = 3.0  # beyond it log Phi nears 0 and the difference of two logarithms would lose its digits


def log_phi_and_ratio(s, value=True, ratio=True):
    """``log Phi(s)`` and ``phi(s) / Phi(s)``, stable in both tails; None for what is not wanted.

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


class ProbitTarget(RegressionTarget):
    """Probit regression, ``y`` in 0..K-1.

    With two classes ``P(y = 1) = Phi(eta)``. With more, each class has its own (intercept,
    coefficients) and is told from all others: the target is the product of K binary likelihoods, so
    that its Hessian is block-diagonal; predictions normalise over classes, particle by particle.

    Parameters
    ----------
    X : array-like or SciPy sparse array of shape (n, p)
        Features.
    y : array-like of shape (n,)
        Numbers of the classes.
    n_classes : int, default=2
        Number of classes.
    class_names : sequence of str, default=None
        For the names of the coordinates; the numbers by default.
    **kwargs : dict
        ``sample_weight``, ``fit_intercept``, ``prior``, ``intercept_prior``, ``center``, ``scale``
        and ``feature_names``, as in `LogisticTarget`.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import ProbitTarget
    >>> ProbitTarget(np.eye(4)[:, :2], np.array([0, 1, 2, 0]), n_classes=3).dim
    9
    """

    def __init__(self, X, y, *, n_classes=2, class_names=None, **kwargs):
        self.n_outputs = 1 if n_classes == 2 else int(n_classes)
        self.class_names = (
            tuple(map(str, range(n_classes)))
            if class_names is None
            else as_names(class_names, n_classes, "class_names")
        )
        super().__init__(X, np.asarray(y, dtype=np.intp), **kwargs)

    @property
    def names(self):
        columns = super().names
        if self.n_outputs == 1:
            return columns
        return tuple(f"{column}[{label}]" for label in self.class_names for column in columns)

    def _signs(self, y):
        """+1 where a linear predictor's class is the row's, else -1; shape (n_outputs, rows)."""
        classes = np.array([1]) if self.n_outputs == 1 else np.arange(self.n_outputs)
        return np.where(y == classes[:, None], 1.0, -1.0)

    def _row_terms(self, eta, y):
        return log_phi_and_ratio(eta * self._signs(y), ratio=False)[0].sum(axis=1)

    def _terms(self, eta, y, w, value, score):
        signs = self._signs(y)
        log_phi, ratio = log_phi_and_ratio(eta * signs, value, score)
        return (
            log_phi.sum(axis=1) @ w if value else None,
            ratio * (signs * w) if score else None,
        )

    def _curvature(self, eta, y):
        s = eta * self._signs(y)
        ratio = log_phi_and_ratio(s, value=False)[1]
        return np.eye(self.n_outputs)[:, :, None] * (ratio * (ratio + s))
