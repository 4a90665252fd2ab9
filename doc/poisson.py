"""Poisson regression: one outcome and one estimator."""

import numpy as np
from scipy.special import gammaln
from scipy.stats import poisson

from skstein.linear_model import GeneralizedLinearRegressor
from skstein.outcomes import Canonical, NumericOutcome


class Poisson(Canonical, NumericOutcome):
    """A count whose mean is the exponential of the predictor."""

    # log p(y) = y eta - cumulant(eta) + log_base(y)
    cumulant = cumulant_slope = cumulant_curvature = np.exp

    def log_base(self, y):
        return -gammaln(y + 1.0)

    def distribution(self, eta):
        return poisson(np.exp(eta[0]))

    def check(self, y):
        if (y < 0.0).any():
            raise ValueError("y must not be negative: it holds counts.")


class BayesianPoissonRegression(GeneralizedLinearRegressor):
    """Bayesian Poisson regression with a logarithmic link."""

    _outcome = Poisson()
