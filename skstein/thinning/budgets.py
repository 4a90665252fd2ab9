"""How many points an online thinner keeps, and how much the squared KSD may rise, by its steps."""

import math
import numbers
from dataclasses import dataclass

_BUDGETS = {"cap": None, "linear": lambda t: t / 2, "sqrt": lambda t: math.sqrt(t * math.log(t))}


@dataclass(frozen=True)
class PowerBudget:
    """The floor ``f(t) = sqrt(t^alpha log t) / 2`` of the paper's comparison of growth rates.

    Parameters
    ----------
    alpha : float
        1 to below 2; the paper found 1.8 best on a mixture of two normals. In place of 2, use
        ``budget="linear"``.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein
    discrepancy" (arXiv:2201.07130), figure 20.

    Examples
    --------
    >>> from skstein.thinning import OnlineKSDThinner, PowerBudget
    >>> round(PowerBudget(1.8)(1000), 1)
    658.6
    >>> thinner = OnlineKSDThinner(budget=PowerBudget(1.8))
    """

    alpha: float

    def __call__(self, t):
        return 0.5 * math.sqrt(t**self.alpha * math.log(t))


def floor_of(budget):
    """Floor f(t) of the number of points, None for the hard cap."""
    if isinstance(budget, str) and budget in _BUDGETS:
        return _BUDGETS[budget]
    if callable(budget):
        return budget
    if isinstance(budget, numbers.Real) and 1 <= budget < math.inf:  # type: ignore[operator]
        return lambda t: budget
    raise ValueError(
        f'budget must be "cap", "linear", "sqrt", a number >= 1 or a callable, got {budget!r}.'
    )


def slack_of(eps, floor):
    """The allowed rise eps(t) of the squared KSD."""
    if callable(eps):
        return eps
    if isinstance(eps, str) and eps == "decaying":
        return lambda t: math.log(t) / max(floor(t), 1.0) ** 2
    if isinstance(eps, numbers.Real) and 0 <= eps < math.inf:  # type: ignore[operator]
        return lambda t: eps
    raise ValueError(f'eps must be a number >= 0, "decaying" or a callable, got {eps!r}.')


def finite_value(name, function, t):
    """``function(t)``, refused by ``name`` if it is not a finite number >= 0."""
    value = float(function(t))
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must give finite numbers >= 0, got {value} at t = {t}.")
    return value
