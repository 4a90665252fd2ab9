"""The noise of a regressor: normal, with heavy tails, or different between rows.

A noise is a parameter object: an estimator's ``noise="student-t"`` makes one with its defaults, and
``noise__df`` tunes it in a grid search. It makes the outcome (:mod:`skstein.outcomes`). ``NOISES``
has the names: "normal", "student-t" and "heteroscedastic".
"""

from numbers import Real
from typing import Any

from sklearn.base import BaseEstimator

from . import outcomes
from ._input.validation import LARGEST, HasMethods, Interval, StrOptions
from ._tools.named_parameters import NamedParameters, own_instance
from .outcomes.student_t import LEAST_DF
from .priors import PRIORS, resolve_prior

_DF = Interval(Real, LEAST_DF, LARGEST, closed="right")


class Noise(BaseEstimator):
    """Base class of noises: ``outcome(noise_prior)`` is the outcome with it."""

    _parameter_constraints: dict = {}  # a subclass without any is not validated

    def outcome(self, noise_prior):
        """The outcome, given the prior of the squared scale of its noise."""
        raise NotImplementedError(f"{type(self).__name__} does not define outcome().")


class NormalNoise(Noise):
    """Normal noise of one unknown variance.

    Examples
    --------
    >>> from skstein.noise import NormalNoise
    >>> NormalNoise()
    NormalNoise()
    """

    def outcome(self, noise_prior):
        return outcomes.Normal(noise_prior)


class StudentTNoise(Noise):
    r"""Student t noise: outliers are expected, and do not move the fit.

    Parameters
    ----------
    df : float or "estimate", default="estimate"
        Degrees of freedom, above 2; the fewer, the heavier the tails. "estimate" makes the
        logarithm of their excess over 2 a coordinate, ``log_df_above_2``, with the prior :math:`\nu
        - 2 \sim \Gamma(2, 0.1)`, of mean 20. They are more than 2 so that predictions have a
        standard deviation.

    References
    ----------
    Juarez & Steel (2010), "Model-based clustering of non-Gaussian panel data based on skew-t
    distributions", for the prior; it is that of the whole :math:`\nu` there.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skstein import BayesianLinearRegression
    >>> from skstein.noise import StudentTNoise
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = BayesianLinearRegression(noise=StudentTNoise(df=4), random_state=0).fit(X, y)
    >>> reg.predict_interval(X[:3], level=0.9).shape
    (3, 2)
    """

    _parameter_constraints: dict = {"df": [StrOptions({"estimate"}), _DF]}

    def __init__(self, df="estimate"):
        self.df = df

    def outcome(self, noise_prior):
        return outcomes.StudentT(noise_prior, None if self.df == "estimate" else self.df)


class HeteroscedasticNoise(NamedParameters, Noise):
    """Noise that differs between rows: its log standard deviation is a predictor of its own.

    It has an intercept and coefficients of all features, or in a network an output of its own; so
    ``fit_intercept=False`` is refused.

    Parameters
    ----------
    prior : str or prior instance, default="normal"
        Prior of the coefficients of the log standard deviation, on the scale of the standardised
        features: 1 multiplies the noise by 2.7 for each standard deviation of the feature. A name
        has scale 0.5. It is a prior of these coefficients alone: not a horseshoe.
    df : float, "estimate" or None, default=None
        None for normal noise; else the degrees of freedom of Student t noise, as in
        `StudentTNoise`, of which the predictor is the log scale.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 3.0, size=(300, 1))
    >>> y = X[:, 0] + np.exp(X[:, 0] - 3.0) * rng.normal(size=300)
    >>> reg = BayesianLinearRegression(noise="heteroscedastic", random_state=0).fit(X, y)
    >>> _, std = reg.predict([[0.0], [3.0]], return_std=True)
    >>> bool(std[1] > 10 * std[0])
    True
    """

    _named_parameters = {"prior": lambda prior: resolve_prior(prior, 0.5, "noise__prior")}
    _parameter_constraints: dict = {
        "prior": [StrOptions(set(PRIORS)), HasMethods("log_density")],
        "df": [None, *StudentTNoise._parameter_constraints["df"]],
    }

    def __init__(self, prior="normal", df=None):
        self.prior = prior
        self.df = df

    def outcome(self, noise_prior):
        even = NormalNoise() if self.df is None else StudentTNoise(self.df)
        prior = self._named_parameters["prior"](self.prior)
        if not prior.blockwise:
            raise ValueError(
                f"noise__prior={self.prior!r} is not a prior of these coefficients alone: use "
                "another, such as Normal."
            )
        return outcomes.Heteroscedastic(even.outcome(noise_prior), prior)


NOISES: dict[str, Any] = {
    "normal": NormalNoise,
    "student-t": StudentTNoise,
    "heteroscedastic": HeteroscedasticNoise,
}


def resolve_noise(noise):
    """Turn an estimator's ``noise`` parameter into a noise of its own.

    Parameters
    ----------
    noise : str or Noise
        A name of ``NOISES``, or an instance, which is cloned.

    Returns
    -------
    Noise

    Raises
    ------
    ValueError
        For an unknown name.
    TypeError
        For a class instead of an instance, or an object that is not a noise.

    Examples
    --------
    >>> from skstein.noise import resolve_noise
    >>> resolve_noise("student-t")
    StudentTNoise()
    """
    return own_instance(noise, Noise, "noise", "a noise", NOISES, "skstein.noise.Noise")


def noise_to_fit(estimator, further=False, noise=None):
    """The noise of an estimator's parameters.

    Parameters
    ----------
    estimator : estimator
        With ``noise``, and ``noise_shape`` and ``noise_scale`` for normal noise alone.
    further : bool, default=False
        Whether it is that of more rows of a stream, which cannot have another.
    noise : str or Noise, default=None
        In place of the estimator's ``noise``, where that is left open.

    Raises
    ------
    ValueError
        If the parameters cannot be combined, or the stream has another noise.
    """
    noise = resolve_noise(estimator.noise if noise is None else noise)
    priors_given = (estimator.noise_shape, estimator.noise_scale) != (None, None)
    if priors_given and not isinstance(noise, NormalNoise):
        raise ValueError(
            "noise_shape and noise_scale are the prior of normal noise: leave them None with "
            f'noise={noise!r}, or use noise="normal".'
        )
    if further and repr(noise) != repr(estimator._noise):
        raise ValueError(
            f"noise={estimator._noise} of the rows before is that of the whole stream: set it "
            "back, or start again with fit."
        )
    return noise
