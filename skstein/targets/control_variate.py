"""Minibatch scores that are exact at one point."""

from inspect import signature

import numpy as np

from .base import supports
from .laplace_at_mode import DIAGONAL_ABOVE
from .wrapper import Wrapper


class ControlVariate(Wrapper):
    r"""A target whose score on a minibatch has its error at the centre taken off.

    With log likelihood terms :math:`\ell_i`, centre :math:`c` and a minibatch :math:`B`,

    .. math::
        \hat g(\theta) = \nabla \log p(\theta)
          + \frac{n}{|B|} \sum_{i \in B} [\nabla \ell_i(\theta) - \nabla \ell_i(c)]
          + \sum_i \nabla \ell_i(c).

    The variance falls with :math:`|\theta - c|^2`, so that near the mode of a large data set a
    small batch is nearly as good as all rows. A plain minibatch is not: its error does not fall,
    and it moves the posterior by several standard deviations. The engine draws the rows.

    Of the second order, the minibatch's error of the Hessian at the centre is taken off too,
    :math:`(H_B - H)(\theta - c)` with :math:`H_B` the negative Hessian of the minibatch, scaled:
    then the variance falls with :math:`|\theta - c|^4`, for one more product of the minibatch with
    itself.

    Parameters
    ----------
    target : Target
        A target with rows and a score.
    center : ndarray of shape (dim,)
        A point near the mode.
    batch_size : int
        Rows drawn for each score.
    order : {1, 2}, default=None
        2 needs a target with ``hessian(theta, rows)``; None is 2 where there is one, of at most
        2000 coordinates.

    Raises
    ------
    ValueError
        If the target has no Hessian of some of the rows, for ``order=2``.
    """

    stochastic = True

    def __init__(self, target, center, batch_size, order=None):
        super().__init__(target)
        self.center, self.batch_size = center, min(int(batch_size), target.n_rows)
        self._full_score = target.score(center[None])
        known = supports(target, "hessian") and "rows" in signature(target.hessian).parameters
        order = order or (2 if known and target.dim <= DIAGONAL_ABOVE else 1)
        if order == 2 and not known:
            raise ValueError("order 2 needs a target with hessian(theta, rows); use order 1.")
        self._full_hessian = target.hessian(center) if order == 2 else None
        self.hessian = getattr(target, "hessian", None)
        self.sample_prior = getattr(target, "sample_prior", None)

    @property
    def initial(self):
        return self.center

    def score(self, theta, rows=None):
        if rows is None:
            return self.target.score(theta)
        # The prior's score at the centre is in both of the last terms and cancels.
        both = self.target.score(np.concatenate([self.center[None], theta]), rows)
        correction = self._full_score - both[0]
        if self._full_hessian is not None:
            excess = self.target.hessian(self.center, rows) - self._full_hessian
            correction = correction + (theta - self.center) @ excess
        return both[1:] + correction
