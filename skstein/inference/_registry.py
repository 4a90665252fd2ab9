"""The engines by name, and how ``inference=`` becomes one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sklearn.base import clone

from .._tools.lazy_imports import Registry
from .._tools.named_parameters import by_name, refuse_class

if TYPE_CHECKING:
    from ..protocols import RunsOnTargets
    from .base import Engine

ENGINES: Mapping[str, type["Engine"]] = Registry(
    "skstein.inference",
    {
        "pmd": "PMD",
        "pmfvb": "PMFVB",
        "fwss": "FWSS",
        "svgd": "SVGD",
        "stein-points": "SteinPoints",
        "mcmc": "MCMC",
        "ksd-mcmc": "KSDThinnedMCMC",
        "laplace": "LaplaceDraws",
    },
)


def resolve_engine(inference: "str | RunsOnTargets") -> "Engine":
    """Turn ``inference`` into an engine of its own.

    Parameters
    ----------
    inference : str or engine
        A name of ``ENGINES``, which gives a new engine with its defaults, or an instance, which is
        cloned. Anything with a ``run`` method counts as an engine, and comes back inside a
        `ForeignEngine` if it is not a subclass of `Engine`.

    Returns
    -------
    Engine

    Raises
    ------
    ValueError
        For an unknown name, or an engine with invalid parameters.
    TypeError
        For a class instead of an instance, or an object without ``run``.

    Examples
    --------
    >>> from skstein.inference import resolve_engine
    >>> resolve_engine("fwss")
    FWSS()
    """
    from .base import as_engine

    if isinstance(inference, str):
        engine = by_name(inference, ENGINES, "inference", "an engine")()
    else:
        refuse_class(inference, "inference")
        if not hasattr(inference, "run"):
            raise TypeError(f"inference={inference!r} is not an engine: it has no run method.")
        engine = clone(inference, safe=False)
    if hasattr(engine, "_parameter_constraints"):
        engine._validate_params()
    return as_engine(engine)
