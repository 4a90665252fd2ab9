"""One normal prior of all coordinates of a model: the posterior of earlier rows, say."""

import numpy as np

from .coefficients import Prior


class MultivariateNormal(Prior):
    """One normal prior of all coordinates of a model: what earlier rows have told.

    It is on the scale of the raw features, and has all that the posterior of a fit has: intercepts,
    coefficients, and other coordinates of the outcome, such as the log variance of noise. It takes
    the place of ``prior``, ``intercept_prior`` and the prior of the noise. The method ``as_prior``
    of a posterior makes one; rows that come later then count as if all had come at once, as far as
    the earlier posterior is normal.

    Parameters
    ----------
    loc : array-like of shape (d,)
        Mean.
    cov : array-like of shape (d, d)
        Covariance.
    names : sequence of str, default=None
        The coordinates, in the order of ``posterior_.names`` of a fit, which must have the same;
        None does not look.
    classes : array-like of shape (n_classes,), default=None
        The classes of a classifier, which must be the same; None does not look.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [1.0, -1.0] + rng.normal(size=200)
    >>> yesterday = BayesianLinearRegression(random_state=0).fit(X[:100], y[:100])
    >>> today = BayesianLinearRegression(prior=yesterday.posterior_.as_prior(), random_state=0)
    >>> today.fit(X[100:], y[100:]).coef_.round(1)
    array([ 0.9, -0.9])
    """

    blockwise = False
    _parameter_constraints = {
        "loc": ["array-like"],
        "cov": ["array-like"],
        "names": ["array-like", None],
        "classes": ["array-like", None],
    }

    def __init__(self, loc, cov, names=None, classes=None):
        self.loc = loc
        self.cov = cov
        self.names = names
        self.classes = classes

    def moments(self):
        """Mean (d,) and covariance (d, d), looked over.

        Raises
        ------
        ValueError
            If shapes do not fit, or the covariance is not symmetric and positive definite.
        """
        loc, cov = (np.asarray(values, dtype=float) for values in (self.loc, self.cov))
        d = loc.size
        if loc.shape != (d,) or cov.shape != (d, d):
            raise ValueError(
                f"MultivariateNormal needs loc of shape (d,) and cov of shape (d, d); got "
                f"{loc.shape} and {cov.shape}."
            )
        if not (np.isfinite(loc).all() and np.isfinite(cov).all()):
            raise ValueError("MultivariateNormal needs a finite loc and cov; one holds NaN or inf.")
        std = np.sqrt(np.maximum(cov.diagonal(), 0.0))
        correlation = cov / np.outer(*[np.where(std > 0.0, std, 1.0)] * 2)
        if not std.all() or np.abs(correlation - correlation.T).max() > 1e-8:
            raise ValueError("cov of MultivariateNormal must be symmetric, its diagonal positive.")
        if np.linalg.eigvalsh(correlation)[0] < 1e-12:
            raise ValueError(
                "the cov of MultivariateNormal must be positive definite: with no more particles "
                "than coordinates it is not; fit with more particles (n_particles)."
            )
        return loc, 0.5 * (cov + cov.T)

    def sample(self, rng, m, p):
        """Draw ``m`` vectors, shape (m, d)."""
        loc, cov = self.moments()
        return loc + rng.standard_normal((m, len(loc))) @ np.linalg.cholesky(cov).T
