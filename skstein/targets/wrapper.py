"""A target around another one: what is handed on, said once."""

from .base import Target, supports

_RESTS = (
    "score",
    "hessian",
    "log_prior",
    "sample_prior",
    "pointwise_log_likelihood",
    "of_rows",
)


class Wrapper(Target):
    """The density of a target inside, at ``forward`` of these coordinates.

    Rows and coordinates are those of the target inside. A subclass overrides what differs; of the
    parts that it has, it offers those which the target inside offers too.

    Parameters
    ----------
    target : Target
    """

    def __init__(self, target):
        self.target, self.dim, self.n_rows = target, target.dim, target.n_rows
        self.validation = getattr(target, "validation", None)
        self.judged_by_chains = getattr(target, "judged_by_chains", False)
        self.sufficient = getattr(target, "sufficient", False)
        for part in _RESTS:
            if not supports(target, part):
                setattr(self, part, None)

    @property
    def names(self):
        return self.target.names

    @property
    def weights(self):
        return getattr(self.target, "weights", None)

    @property
    def factors(self):
        return self.target.factors

    def forward(self, z):
        """The coordinates of the target inside, shape (m, target.dim)."""
        return z

    def log_density(self, z):
        return self.target.log_density(self.forward(z))

    def log_prior(self, z):
        return self.target.log_prior(self.forward(z))

    def log_likelihood(self, z, rows=None):
        return self.target.log_likelihood(self.forward(z), rows)

    def pointwise_log_likelihood(self, z):
        return self.target.pointwise_log_likelihood(self.forward(z))

    def of_rows(self, function, z):
        return self.target.of_rows(function, self.forward(z))
