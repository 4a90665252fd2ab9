"""Noise that differs between rows: its log standard deviation is a second predictor."""

import numpy as np

from .. import priors
from ..priors.noise import LogScale
from .location_scale import LocationScale


def _of_that_outcome(name):
    """A method of the outcome with one scale, for the heads of `Heteroscedastic`."""

    def method(self, eta, *args):
        return getattr(self.outcome, name)(self._of_one_scale(eta), *args)

    return method


class Heteroscedastic(LocationScale):
    """A normal or Student t outcome whose log scale is a linear predictor of its own.

    Parameters
    ----------
    outcome : Normal or StudentT
        With one scale for all rows; its prior is that of the scale where all features are 0.
    prior : Prior, default=None
        Of the coefficients of the log scale; ``Normal(0.5)`` by default.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import Heteroscedastic, Normal
    >>> heads = np.zeros((2, 1)), np.log([[1.0], [10.0]])
    >>> Heteroscedastic(Normal()).quantiles(heads, np.ones(1), np.array([0.95])).round(3)
    array([[ 1.645],
           [16.449]])
    """

    n_predictors = 2
    predictor_names = ("mean", "log_sd")

    def __init__(self, outcome, prior=None):
        self.outcome, self.given_df = outcome, outcome.given_df
        prior = priors.Normal(0.5) if prior is None else prior
        self.further_priors = ((prior, LogScale(outcome.noise_prior)),)
        self.extra, self.extra_prior = outcome.extra[1:], outcome.shape_prior
        self.nodes = None if outcome.nodes is None else self._nodes

    def predictors_rescaled(self, y_center, y_scale):
        return [(y_scale, y_center), (1.0, np.log(y_scale))]

    def rescaled_by(self, y_scale):
        return np.zeros(len(self.extra))

    def initial_heads(self, y, weights):
        mean, log_variance, *shape = super().initial_heads(y, weights)
        return np.array([mean, 0.5 * log_variance, *shape])

    # The outcome with one scale is given the logarithm of its square.

    def _of_one_scale(self, eta):
        return [eta[0], 2.0 * np.asarray(eta[1]), *eta[2:]]

    def widened(self, eta, spread):
        location, log_square, *shape = super().widened(self._of_one_scale(eta), spread)
        return [location, 0.5 * log_square, *shape]

    def residual(self, eta, y):
        location, scale, *shape = self.outcome.residual(self._of_one_scale(eta), y)
        return [location, 2.0 * scale, *shape]

    def curvature(self, eta, y):
        curvature = self.outcome.curvature(self._of_one_scale(eta), y)
        curvature[1] *= 2.0
        curvature[:, 1] *= 2.0
        return curvature

    log_density, distribution, noise, sample = map(
        _of_that_outcome, ("log_density", "distribution", "noise", "sample")
    )
    cdf, quantiles, crps, _nodes = map(_of_that_outcome, ("cdf", "quantiles", "crps", "nodes"))
    log_density_widened = _of_that_outcome("log_density_widened")
