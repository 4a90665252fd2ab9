"""Outcomes: one file per family, used by targets and predictions alike."""

from .base import Canonical, NumericOutcome, Outcome
from .categorical import Bernoulli, Categorical, ClassOutcome
from .gamma import Gamma
from .heteroscedastic import Heteroscedastic
from .location_scale import LocationScale
from .negative_binomial import NegativeBinomial
from .normal import Normal
from .ordinal import Ordinal
from .poisson import Poisson
from .probit import Probit
from .student_t import StudentT

__all__ = [
    "Bernoulli",
    "Canonical",
    "Categorical",
    "ClassOutcome",
    "Gamma",
    "Heteroscedastic",
    "LocationScale",
    "NegativeBinomial",
    "Normal",
    "NumericOutcome",
    "Ordinal",
    "Outcome",
    "Poisson",
    "Probit",
    "StudentT",
]
