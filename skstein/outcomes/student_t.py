"""A Student t outcome: the farther off a row is, the less it influences the fit."""

import math

import numpy as np
from scipy.special import digamma, polygamma, stdtr, stdtrit
from scipy.stats import t

from ..priors import HalfStudentT
from ..priors.noise import BlockPriors, LogGamma
from .base import in_rows
from .location_scale import LocationScale
from .log_link import binet

_STEP = 0.75  # of a quadrature over precisions, in standard deviations of their logarithm
LEAST_DF = 2.0  # of which there is a variance; with more, its posterior mean is finite too


class StudentT(LocationScale):
    """A Student t outcome: its location is the predictor, its log squared scale a coordinate.

    Unless given, the degrees of freedom are 2 plus a Gamma(2, 0.1) variable (mean 20), so that a
    prediction always has a mean and a variance; the coordinate is the logarithm of that variable.

    Parameters
    ----------
    noise_prior : NoisePrior, default=None
        Of the squared scale; by default ``HalfStudentT(floor=1e-10)``, whose scale is in units of
        y: gross outliers make that unit large against the noise.
    df : float, default=None
        Degrees of freedom, above 2; None for unknown ones.

    References
    ----------
    Juarez & Steel (2010), "Model-based clustering of non-Gaussian panel data based on skew-t
    distributions", for the prior Gamma(2, 0.1).

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.outcomes import StudentT
    >>> outcome, one = StudentT(df=4.0), np.ones(1)
    >>> outcome.quantiles((np.zeros((1, 1)), np.zeros(1)), one, np.array([0.95])).round(3)
    array([[2.132]])
    """

    def __init__(self, noise_prior=None, df=None):
        self.df, self.given_df = df, 0.0 if df is None else float(df)
        self.noise_prior = HalfStudentT(floor=1e-10) if noise_prior is None else noise_prior
        self.extra, self.extra_prior = ("log_sigma2",), self.noise_prior
        if df is None:
            self.extra = ("log_sigma2", "log_df_above_2")
            self.shape_prior = LogGamma(2.0, 0.1)
            self.extra_prior = BlockPriors(self.noise_prior, self.shape_prior)

    def _df(self, eta):
        return LEAST_DF + np.exp(eta[2]) if self.df is None else self.df

    def log_density(self, eta, y):
        df, half = self._df(eta), 0.5 * (self._df(eta) + 1.0)
        square = np.square(y - eta[0]) * np.exp(-eta[1])
        # log Gamma(half) - log Gamma(df / 2) - log(df / 2) / 2 + 1 / 2, without large numbers.
        ratio = binet(half, 0) - binet(0.5 * df, 0) + 0.5 * df * np.log1p(1.0 / df)
        return ratio - 0.5 * (1.0 + math.log(2.0 * math.pi) + eta[1]) - half * np.log1p(square / df)

    def residual(self, eta, y):
        df, precision, error = self._df(eta), np.exp(-eta[1]), y - eta[0]
        square = np.square(error) * precision
        trust = (df + 1.0) / (df + square)
        parts = [trust * error * precision, 0.5 * (trust * square - 1.0)]
        if self.df is None:
            parts.append((df - LEAST_DF) * _slope(df, square))
        return parts

    def curvature(self, eta, y):
        df, precision, error = np.broadcast_arrays(self._df(eta), np.exp(-eta[1]), y - eta[0])
        square = np.square(error) * precision
        trust = (df + 1.0) / (df + square)
        pull, share = trust * precision * error, df / (df + square)
        curvature = [
            [trust * precision * (2.0 * share - 1.0), pull * share],
            [pull * share, 0.5 * trust * square * share],
        ]
        if self.df is None:
            rise = df - LEAST_DF
            change = rise * (1.0 - square) / np.square(df + square)
            across = precision * error * change, 0.5 * square * change
            bend = rise * (_slope(df, square) + rise * _slope_of_slope(df, square))
            curvature = [*([*row, a] for row, a in zip(curvature, across, strict=True))]
            curvature.append([*across, -bend])
        return np.array(curvature)

    def log_density_widened(self, eta, y, spread):
        # A Student t is a mixture of normals over the logarithm w of their precision, a Gamma
        # variable of shape df / 2 and mean 1. An outlier has a small precision, or a large error.
        half, square = 0.5 * np.minimum(self._df(eta), 1e6), np.square(y - eta[0])
        width, scale = half**-0.5, np.exp(eta[1])
        # The range in which the integrand is not negligible, by the Student t alone and by the
        # prior of w against the integrand at 0: expm1(w) - w >= w**2 / (2 - w) for w < 0.
        bound = (40.0 + 0.5 * square / (scale + np.square(spread))) / half
        bound = 0.5 * (bound + np.sqrt(bound * (bound + 8.0)))
        low = -np.minimum(np.log1p(0.5 * square / scale / half) + 14.0 * width, bound)
        high = 5.0 * width
        span = (high - low) / width
        n_nodes = int(np.max(span, where=np.isfinite(span), initial=0.0) / _STEP) + 2
        density = -np.inf
        for share in np.linspace(0.0, 1.0, n_nodes):
            w = high + share * (low - high)
            variance = scale * np.exp(-w) + np.square(spread)
            normal = -0.5 * (np.log(variance) + square / variance)
            density = np.logaddexp(density, half * (w - np.expm1(w)) + normal)
        return density + np.log(span / (n_nodes - 1.0)) - binet(half, 0) - math.log(2.0 * math.pi)

    def distribution(self, eta):
        return t(self._df(eta), eta[0], np.exp(0.5 * eta[1]))

    def noise(self, eta):
        df = self._df(eta)
        return np.exp(eta[1]) * df / (df - 2.0)

    def cdf_by_particle(self, eta, y):
        return stdtr(self._df(eta), (y[..., None] - eta[0]) * np.exp(-0.5 * eta[1]))

    def quantiles_by_particle(self, eta, level):
        standard = stdtrit(self._df(eta), level) if level > 0.0 else -np.inf
        return eta[0] + np.exp(0.5 * eta[1]) * standard

    def quantiles(self, eta, weights, q):
        return super().quantiles(in_rows(eta), weights, q).reshape(*np.shape(eta[0])[:-1], len(q))


def _slope(df, square):
    """Derivative of the log density by ``df``; ``square`` is the squared error in scales."""
    constant = digamma(0.5 * (df + 1.0)) - digamma(0.5 * df) - 1.0 / df
    return 0.5 * (constant - np.log1p(square / df) + (df + 1.0) * square / (df * (df + square)))


def _slope_of_slope(df, square):
    constant = 0.5 * (polygamma(1, 0.5 * (df + 1.0)) - polygamma(1, 0.5 * df)) + 1.0 / df**2
    whole = df * (df + square)
    ratio = (whole - (df + 1.0) * (2.0 * df + square)) / whole**2
    return 0.5 * (constant + square / whole + square * ratio)
