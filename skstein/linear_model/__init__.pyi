from .base import BayesianLinearModel as BayesianLinearModel
from .classifier import GeneralizedLinearClassifier as GeneralizedLinearClassifier
from .gamma import BayesianGammaRegression as BayesianGammaRegression
from .logistic import BayesianLogisticRegression as BayesianLogisticRegression
from .negative_binomial import (
    BayesianNegativeBinomialRegression as BayesianNegativeBinomialRegression,
)
from .normal import BayesianLinearRegression as BayesianLinearRegression
from .ordinal import BayesianOrdinalRegression as BayesianOrdinalRegression
from .poisson import BayesianPoissonRegression as BayesianPoissonRegression
from .probit import BayesianProbitRegression as BayesianProbitRegression
from .regressor import GeneralizedLinearRegressor as GeneralizedLinearRegressor
