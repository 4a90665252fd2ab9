"""Priors on regression coefficients.

A prior is a parameter object: an estimator's ``prior="normal"`` makes one with its defaults, and
``prior__scale`` tunes it in a grid search. It knows only a block of coefficients, never the data.
"""

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, clone

from ._validation import Interval


class Normal(BaseEstimator):
    """Independent normal prior with mean 0 on every coefficient.

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation, in units of the coefficients of the features as the model sees them
        (standardised ones when the estimator standardises).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.priors import Normal
    >>> Normal(scale=2.0).score(np.array([[4.0, 0.0]]))
    array([[-1., -0.]])
    """

    _parameter_constraints = {"scale": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, scale=1.0):
        self.scale = scale

    def log_density(self, coef):
        """Normalised log density of each row of ``coef`` (m, p), shape (m,)."""
        p = coef.shape[1]
        quadratic = np.einsum("ij,ij->i", coef, coef) / self.scale**2
        return -0.5 * quadratic - p * (np.log(self.scale) + 0.5 * np.log(2 * np.pi))

    def score(self, coef):
        """Gradient of the log density at each row of ``coef`` (m, p), shape (m, p)."""
        return -coef / self.scale**2

    def precision(self, coef):
        """Negative Hessian of the log density at ``coef`` (p,), shape (p, p)."""
        return np.eye(coef.shape[0]) / self.scale**2

    def sample(self, rng, m, p):
        """Draw ``m`` coefficient vectors of length ``p``, shape (m, p)."""
        return self.scale * rng.standard_normal((m, p))


PRIORS = {"normal": Normal}


def resolve_prior(prior, default_scale=1.0, name="prior"):
    """Turn an estimator's ``prior`` parameter into a prior of its own.

    Parameters
    ----------
    prior : str or prior object
        A name of ``PRIORS``, or an instance, which is cloned.
    default_scale : float, default=1.0
        The scale that a name stands for.
    name : str, default="prior"
        The parameter's name, for messages.

    Returns
    -------
    prior object

    Raises
    ------
    ValueError
        For an unknown name.
    TypeError
        For a class instead of an instance, or an object that is no prior.

    Examples
    --------
    >>> from skstein.priors import resolve_prior
    >>> resolve_prior("normal", 10.0)
    Normal(scale=10.0)
    """
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise ValueError(f"{name}={prior!r} is unknown; use one of {sorted(PRIORS)}.")
        return PRIORS[prior](scale=default_scale)
    if isinstance(prior, type):
        raise TypeError(
            f"{name} is the class {prior.__name__}; pass an instance: {name}={prior.__name__}()."
        )
    if not hasattr(prior, "log_density"):
        raise TypeError(
            f"{name}={prior!r} is no prior; pass a name of {sorted(PRIORS)} or a prior."
        )
    prior = clone(prior)
    if hasattr(prior, "_validate_params"):
        prior._validate_params()
    return prior
