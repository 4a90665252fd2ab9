"""The regularised horseshoe, for whose scales a linear model finds coordinates."""

import numpy as np

from .coefficients import POSITIVE, Prior
from .deviations import EXTREME


class Horseshoe(Prior):
    r"""Regularised horseshoe: most coefficients next to 0, a few as large as the data say.

    ``coef_j ~ N(0, v_j)`` with ``1 / v_j = 1 / (tau lambda_j)**2 + 1 / c**2``: local scales
    ``lambda_j`` and a global one ``tau``, half-Cauchy, and a slab of scale ``c`` for what is large,
    whose square is inverse gamma. Local scales are integrated out; ``tau`` and ``c`` are part of
    the posterior, as logarithms and on the scale on which the prior applies.

    Parameters
    ----------
    n_relevant : float, default=None
        How many coefficients are expected to be relevant: it sets the scale of ``tau`` to
        ``n_relevant / (p - n_relevant) * sigma / sqrt(n)``, with ``sigma`` the standard deviation
        of the noise, estimated along, in linear regression, and what stands for it in others (2 for
        logistic regression). By default a tenth of the coefficients, and at least one.
    slab_scale : float, default=2.0
        Scale of large coefficients, in units of the coefficients of the features as the model sees
        them (standardised ones when the estimator standardises).
    slab_df : float, default=4.0
        Degrees of freedom of large coefficients, which have a Student t distribution.
    global_scale : float, default=None
        The scale of ``tau`` itself, in place of ``n_relevant``. In linear
        regression it is relative to the standard deviation of the noise.

    References
    ----------
    Piironen & Vehtari, "Sparsity information and regularization in the horseshoe and other
    shrinkage priors", 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianLinearRegression
    >>> from skstein.priors import Horseshoe
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 10))
    >>> y = 2.0 * X[:, 0] + rng.normal(size=50)
    >>> model = BayesianLinearRegression(prior=Horseshoe(n_relevant=2), random_state=0).fit(X, y)
    >>> bool(model.coef_[0] > 20 * np.abs(model.coef_[1:]).mean())
    True
    """

    blockwise = streams = False
    _parameter_constraints = {
        "n_relevant": [*POSITIVE, None],
        "slab_scale": EXTREME,
        "slab_df": EXTREME,
        "global_scale": [*EXTREME, None],
    }

    def __init__(self, n_relevant=None, slab_scale=2.0, slab_df=4.0, global_scale=None):
        self.n_relevant = n_relevant
        self.slab_scale = slab_scale
        self.slab_df = slab_df
        self.global_scale = global_scale

    def odds(self, p):
        """The expected number of relevant coefficients over that of the others.

        Raises
        ------
        ValueError
            If ``n_relevant`` are all coefficients or more.
        """
        relevant = min(max(1.0, 0.1 * p), 0.5 * p) if self.n_relevant is None else self.n_relevant
        if not relevant < p:
            raise ValueError(
                f"Horseshoe expects n_relevant={relevant} relevant coefficients of {p}: give fewer "
                "than there are, or use another prior."
            )
        return relevant / (p - relevant)

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, (m, p), with noise of variance 1."""
        if self.global_scale is None:
            raise ValueError("draws of a Horseshoe need its global_scale: without data it is open.")
        half = 0.5 * self.slab_df
        slab = half * self.slab_scale**2 / rng.standard_gamma(half, (m, 1))
        tau, local = (np.abs(rng.standard_cauchy(size)) for size in [(m, 1), (m, p)])
        free = (self.global_scale * tau * local) ** 2
        return np.sqrt(slab * free / (slab + free)) * rng.standard_normal((m, p))
