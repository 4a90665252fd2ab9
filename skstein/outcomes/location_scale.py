"""What outcomes around a location share: y may be centred and scaled, and rows have one head each.

Their heads are the location, the logarithm of the squared scale, and what gives the shape.
"""

from typing import Any

import numpy as np

from .base import in_rows
from .numeric_outcome import NumericOutcome


class LocationScale(NumericOutcome):
    """Base class of outcomes whose distribution is moved by one head and stretched by another.

    In predictions the heads may have an axis of several outcomes in front of that of the particles,
    (n, n_targets, m); so have the results then.
    """

    location_scale = True
    predictor = "y"
    shape_prior: Any = None  # of the coordinates behind the log squared scale
    given_df = np.inf  # degrees of freedom of a Student t; 0 where they are a coordinate

    def rescaled_by(self, y_scale):
        return [2.0 * np.log(y_scale), *np.zeros(len(self.extra) - 1)]

    def initial_heads(self, y, weights):
        if not np.any(weights):
            return super().initial_heads(y, weights)
        mean = np.average(y, weights=weights)
        variance = np.average(np.square(y - mean), weights=weights)
        shape = np.zeros(self.n_predictors + len(self.extra) - 2)
        return np.array([mean, np.log(variance) if variance > 0.0 else 0.0, *shape])

    def widened(self, eta, spread):
        """Heads of the outcome whose location has a normal error of this standard deviation.

        Approximate for a Student t outcome, whose degrees of freedom stay as they are.
        """
        return [eta[0], np.log(np.exp(eta[1]) + np.square(spread)), *eta[2:]]

    def log_density_widened(self, eta, y, spread):
        return self.log_density(self.widened(eta, spread), y)

    def expected(self, eta):
        return eta[0]

    def log_density_by_particle(self, eta, y):
        # Of several outcomes jointly: they are independent given a particle.
        log_density = self.log_density(eta, y[..., None])
        return log_density.reshape(len(y), -1, log_density.shape[-1]).sum(axis=1)

    def crps(self, eta, weights, y):
        return super().crps(in_rows(eta), weights, y.ravel()).reshape(y.shape)
