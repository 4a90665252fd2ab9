"""Priors by name."""

from .. import priors
from .._tools.lazy_imports import Registry
from .._tools.named_parameters import by_name, own_instance

PRIORS = {
    "normal": lambda scale: priors.Normal(scale),
    "laplace": lambda scale: priors.Laplace(scale),
    "student-t": lambda scale: priors.StudentT(scale=scale),
    "adaptive-ridge": lambda scale: priors.AdaptiveRidge(rate=scale**2),
    "hierarchical-normal": lambda scale: priors.HierarchicalNormal(rate=scale**2),
    "horseshoe": lambda scale: priors.Horseshoe(slab_scale=2.0 * scale),
}

DEVIATION_PRIORS = Registry(
    "skstein.priors", {"half-normal": "HalfNormal", "half-student-t": "HalfStudentT"}
)


def resolve_deviation_prior(prior):
    """Turn an estimator's ``effects_prior`` into a prior of its own; see `resolve_prior`."""
    from .deviations import DeviationPrior

    bases = "skstein.priors.HalfNormal or HalfStudentT"
    return own_instance(prior, DeviationPrior, "effects_prior", "a prior", DEVIATION_PRIORS, bases)


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
        For a class instead of an instance, or an object that is not a prior.

    Examples
    --------
    >>> from skstein.priors import resolve_prior
    >>> resolve_prior("normal", 10.0)
    Normal(scale=10.0)
    """
    if isinstance(prior, str):
        return by_name(prior, PRIORS, name, "a prior")(default_scale)
    return own_instance(prior, priors.Prior, name, "a prior", PRIORS, "skstein.priors.Prior")
