from .base import _Scaling as _Scaling  # where pickles look for it
from .classifier import BayesianMLPClassifier as BayesianMLPClassifier
from .regressor import BayesianMLPRegressor as BayesianMLPRegressor
