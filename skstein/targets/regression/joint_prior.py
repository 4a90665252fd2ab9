"""A regression under one prior of all its coordinates, in place of those of its blocks."""

import numpy as np

from ..._tools.copies import changed
from ...priors.coefficients import FlatPrior
from ..bijections import Affine
from ..wrapper import Wrapper


class NormalPriorTarget(Wrapper):
    """A regression whose coordinates have a normal prior together; its own priors do not count.

    Parameters
    ----------
    regression : RegressionTarget
    loc : ndarray of shape (dim,)
    cov : ndarray of shape (dim, dim)
        Positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import LogisticTarget, NormalPriorTarget
    >>> regression = LogisticTarget(np.eye(2), np.array([0, 1]), fit_intercept=False)
    >>> target = NormalPriorTarget(regression, np.ones(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> target.score(np.ones((1, 2)))
    array([[-0.73105858,  0.26894142]])
    """

    def __init__(self, regression, loc, cov):
        flat = changed(regression, prior=FlatPrior(), intercept_prior=FlatPrior())
        if flat.outcome.extra:
            flat.outcome = changed(flat.outcome, extra_prior=FlatPrior())
        super().__init__(flat)
        self._normal = Affine(loc, np.linalg.cholesky(cov))
        self._precision = np.linalg.inv(cov)

    @property
    def initial(self):
        return self._normal.offset

    def log_prior(self, theta):
        white = self._normal.inverse(theta)
        square = np.einsum("ij,ij->i", white, white)
        return -0.5 * (square + self.dim * np.log(2 * np.pi)) - self._normal.log_det(white)

    _added = log_prior

    def _pulled(self, theta, score):
        return score + (self._normal.offset - theta) @ self._precision

    def hessian(self, theta, rows=None):
        """Negative Hessian of the log density (dim, dim), over ``rows`` scaled to all rows."""
        return self.target.hessian(theta, rows) + self._precision

    def hessian_diagonal(self, theta):
        """The diagonal of `hessian`, shape (dim,)."""
        return self.target.hessian_diagonal(theta) + self._precision.diagonal()

    def sample_prior(self, rng, m):
        return self._normal.forward(rng.standard_normal((m, self.dim)))

    def take(self, rows, multiplier=None):
        """The same model on some of the rows, an index array, their weights multiplied."""
        return self._around(self.target.take(rows, multiplier))
