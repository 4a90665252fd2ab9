"""Bayesian linear models: one file a family of outcomes."""

from .base import BayesianLinearModel
from .base import _Scaling as _Scaling  # where pickles look for it
from .classifier import GeneralizedLinearClassifier
from .logistic import BayesianLogisticRegression
from .normal import BayesianLinearRegression
from .ordinal import BayesianOrdinalRegression
from .probit import BayesianProbitRegression
from .regressor import GeneralizedLinearRegressor

__all__ = [
    "BayesianLinearModel",
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "BayesianOrdinalRegression",
    "BayesianProbitRegression",
    "GeneralizedLinearClassifier",
    "GeneralizedLinearRegressor",
]
