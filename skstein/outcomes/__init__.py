"""What is observed: one file a family, read by targets and by predictions alike."""

from .base import Canonical, NumericOutcome, Outcome
from .categorical import Bernoulli, Categorical, ClassOutcome
from .gamma import Gamma
from .negative_binomial import NegativeBinomial
from .normal import Normal
from .ordinal import Ordinal
from .poisson import Poisson
from .probit import Probit

__all__ = [
    "Bernoulli",
    "Canonical",
    "Categorical",
    "ClassOutcome",
    "Gamma",
    "NegativeBinomial",
    "Normal",
    "NumericOutcome",
    "Ordinal",
    "Outcome",
    "Poisson",
    "Probit",
]
