"""A target around another one: what passes through, said once."""

from functools import partial
from typing import Any

from .._tools.copies import changed
from .base import Target, supports

_RESTS = ("score", "hessian", "log_prior", "sample_prior", "pointwise_log_likelihood", "of_rows")


class InnerTarget(Target):
    """The density of a target inside, at ``forward`` of these coordinates, and what is added."""

    target: Any

    def forward(self, z):
        """The coordinates of the target inside, shape (m, target.dim)."""
        return z

    def _added(self, z):
        """What the log density has beyond that of the target inside, shape (m,)."""
        return 0.0

    def _pulled(self, z, score):
        """The score here, from that of the target inside at ``forward(z)``."""
        return score

    def _placed(self, z):
        """``forward(z)``, and functions of nothing and of a score for `_added` and `_pulled`."""
        return self.forward(z), partial(self._added, z), partial(self._pulled, z)

    def log_density(self, z):
        theta, added, _ = self._placed(z)
        return self.target.log_density(theta) + added()

    def score(self, z, rows=None):
        theta, _, pull = self._placed(z)
        return pull(self.target.score(theta, rows))

    def log_density_and_score(self, z):
        theta, added, pull = self._placed(z)
        value, score = self.target.log_density_and_score(theta)
        return value + added(), pull(score)


class Wrapper(InnerTarget):
    """A target around another one, whose parts it has too.

    Rows and coordinates are those of the target inside. A subclass overrides what differs; of the
    parts that it has, it offers those which the target inside offers too.

    Parameters
    ----------
    target : Target
    """

    def __init__(self, target):
        self.target, self.dim, self.n_rows = target, target.dim, target.n_rows
        for name in ("validation", "judged_by_chains", "sufficient", "scores_no_rows"):
            setattr(self, name, getattr(target, name, getattr(Target, name)))
        for part in _RESTS:
            if not supports(target, part):
                setattr(self, part, None)

    def _around(self, target):
        """The same about another target."""
        return changed(self, target=target, n_rows=target.n_rows)

    def joined(self, *others):
        """The same about these rows and others, where a few sums over them tell all."""
        return self._around(self.target.joined(*(other.target for other in others)))

    @property
    def names(self):
        return self.target.names

    @property
    def weights(self):
        return getattr(self.target, "weights", None)

    @property
    def factors(self):
        return self.target.factors

    def log_prior(self, z):
        return self.target.log_prior(self.forward(z))

    def log_likelihood(self, z, rows=None):
        return self.target.log_likelihood(self.forward(z), rows)

    def pointwise_log_likelihood(self, z):
        return self.target.pointwise_log_likelihood(self.forward(z))

    def of_rows(self, function, z):
        return self.target.of_rows(function, self.forward(z))
