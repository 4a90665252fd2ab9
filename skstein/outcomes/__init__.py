"""What is observed: one file a family, read by targets and by predictions alike."""

from .base import Canonical, NumericOutcome, Outcome
from .categorical import Bernoulli, Categorical, ClassOutcome
from .normal import Normal
from .ordinal import Ordinal
from .probit import Probit

__all__ = [
    "Bernoulli",
    "Canonical",
    "Categorical",
    "ClassOutcome",
    "Normal",
    "NumericOutcome",
    "Ordinal",
    "Outcome",
    "Probit",
]
