"""Bayesian linear models: one file per family of outcomes."""

from .base import BayesianLinearModel
from .base import _Scaling as _Scaling  # where pickles look for it
from .classifier import GeneralizedLinearClassifier
from .gamma import BayesianGammaRegression
from .logistic import BayesianLogisticRegression
from .negative_binomial import BayesianNegativeBinomialRegression
from .normal import BayesianLinearRegression
from .ordinal import BayesianOrdinalRegression
from .poisson import BayesianPoissonRegression
from .probit import BayesianProbitRegression
from .regressor import GeneralizedLinearRegressor

__all__ = [
    "BayesianGammaRegression",
    "BayesianLinearModel",
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "BayesianNegativeBinomialRegression",
    "BayesianOrdinalRegression",
    "BayesianPoissonRegression",
    "BayesianProbitRegression",
    "GeneralizedLinearClassifier",
    "GeneralizedLinearRegressor",
]
