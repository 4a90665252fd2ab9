"""Geometric regression: one outcome and one estimator."""

import numpy as np
from scipy.special import expit
from scipy.stats import geom

from skstein.linear_model import GeneralizedLinearRegressor
from skstein.outcomes import NumericOutcome


class Geometric(NumericOutcome):
    """How many attempts it takes to succeed, where the log-odds of each are the predictor."""

    predictor = "log-odds of an attempt"

    # log p(y) = eta - y log(1 + exp(eta))
    def log_density(self, eta, y):
        return eta[0] - y * np.logaddexp(0.0, eta[0])

    def residual(self, eta, y):
        return (1.0 - y * expit(eta[0]))[None]

    def curvature(self, eta, y):
        return (y * expit(eta[0]) * expit(-eta[0]))[None, None]

    def distribution(self, eta):
        return geom(expit(eta[0]))

    def check(self, y):
        if (y < 1.0).any():
            raise ValueError("y must be at least 1: it holds numbers of attempts.")


class BayesianGeometricRegression(GeneralizedLinearRegressor):
    """Bayesian regression of numbers of attempts, with a logistic link."""

    _outcome = Geometric()
