"""Linear regression: a numeric outcome, with noise that is normal by default."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np

from .. import targets
from .._input.validation import LARGEST, HasMethods, Interval, StrOptions
from .._tools.warnings import warn
from ..noise import NOISES, NormalNoise, noise_to_fit, resolve_noise
from ..outcomes import Normal, StudentT
from ..priors import InverseGamma
from .base import BayesianLinearModel
from .regressor import GeneralizedLinearRegressor

_ADDED = 0.2  # share of the sum of squares, beyond which intervals are a tenth too wide


@dataclass(eq=False, repr=False)
class BayesianLinearRegression(GeneralizedLinearRegressor):
    r"""Bayesian linear regression with unknown noise.

    The outcome is normal around ``X @ coef + intercept`` with variance :math:`\sigma^2`; or, by
    ``noise``, it has outliers, or noise that differs between rows. Priors are on the scale of the
    standardised data (``standardize=True``); everything the estimator reports is on the original
    scale.

    Parameters
    ----------
    inference : str or engine instance, default="mcmc"
        How the posterior is found: "mcmc", "ksd-mcmc", "pmfvb", "svgd", "fwss", "stein-points",
        "pmd" or "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
    prior : str or prior instance, default="normal"
        Prior of the coefficients: "normal", "laplace", "student-t", "adaptive-ridge",
        "hierarchical-normal" or "horseshoe", of scale 1, or one of :mod:`skstein.priors`.
        :doc:`/priors` says how to choose, and how a posterior becomes one.
    intercept_prior : str or prior instance, default="normal"
        Prior of the intercept; a name has scale 10.
    noise : str or noise instance, default="normal"
        "normal", "student-t" (robust to outliers) or "heteroscedastic" (its log standard deviation
        is a linear predictor too), or one of :mod:`skstein.noise`. Its standard deviation (of a
        Student t the scale; of heteroscedastic noise that of a row of average features) has a half
        Student t prior of 3 degrees of freedom and scale 1, in units of the (standardised) outcome,
        which is weak at every signal-to-noise ratio, down to noise of a ten-thousandth of y.
    noise_shape, noise_scale : float, default=None
        Of normal noise alone: numbers are the shape and scale of an inverse gamma prior of its
        variance (1 for the one that is not given), which expects noise of the order of the outcome
        and makes intervals too wide where it is not.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    standardize : bool, default=True
        Whether to divide features and outcome by their standard deviations, and with an intercept
        to centre them, before the priors apply. Otherwise they are taken as they are.
    positive : bool, array-like of shape (n_features,), dict of str to int or Series, default=False
        Signs of the coefficients that are known: all positive, or 1, -1 and 0 (either) for each
        feature, in their order or by name as in ``{"age": 1}`` or a pandas Series. The prior is cut
        off at 0.
    factorized : bool, default=False
        Whether the variance of normal noise, and those of the priors "adaptive-ridge" and
        "hierarchical-normal", are mean-field factors of their own, in closed form, with
        ``inference="pmfvb"``. The priors' variances are then part of the posterior. Otherwise they
        are integrated out and the noise variance is a coordinate like the others, which is the
        better posterior: mean field understates standard deviations.
    offset : str or int, default=None
        Name, with or without a transformer's prefix, or position of a column of X that is not a
        feature: it is added to the linear predictor as it is, with coefficient 1, like the
        logarithm of an exposure. If the offset is not in X, `fit` and the predictions take it
        beside X.
    random_state : int, RandomState instance or None, default=None
        Seed of the inference; an int makes it reproducible.
    n_jobs : int, default=None
        Number of jobs for independent pieces of the inference; the result does not depend on it.
    verbose : int, default=0
        If positive, a line is printed for each tenth of the inference.
    warm_start : bool, default=False
        Whether `fit` goes on from the posterior of the previous call, on the same data: "mcmc"
        continues its chains, "fwss" keeps the particles and adds those missing to a larger
        ``n_particles``, "laplace" starts again, the other engines start from the particles. With
        other data, weights or prior `fit` raises a ValueError.
    random_effects : list, dict or callable, default=None
        Columns of X that hold groups, text or numbers, by name or position, each with an effect of
        its own, drawn from one distribution: ``["county"]`` gives each county an intercept,
        ``{"county": ["floor"]}`` a slope of that feature too. A function is given X and returns
        either. See :doc:`/groups`.
    effects_prior : str or prior instance, default="half-normal"
        Prior of the standard deviations of random effects: "half-normal" or "half-student-t", of
        scale 1, or :class:`~skstein.priors.HalfNormal` or `~skstein.priors.HalfStudentT`; on the
        scale of `prior`.
    missing_groups : {"error", "group"}, default="error"
        Whether rows without a group are refused, or are a group of their own.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Weighted particles of ``(intercept, coefficients, log_sigma2)``, in original units; with
        ``factorized=True`` also the logarithms of the prior's variances, if it has any, on the
        scale on which it applies. Student t noise adds ``log_df_above_2``, heteroscedastic noise
        has an intercept and coefficients of the log standard deviation in place of ``log_sigma2``.
        :doc:`/trust` says how to read it, and whether to believe it.
    coef_ : ndarray of shape (n_features,)
        Posterior means of the coefficients, for reading: predictions come from ``posterior_``, and
        changes here do not affect them.
    intercept_ : float
        Posterior mean of the intercept, 0 without one.
    coef_std_ : ndarray of shape (n_features,)
        Posterior standard deviations of the coefficients.
    intercept_std_ : float
        Posterior standard deviation of the intercept, 0 without one.
    noise_variance_ : float
        Posterior mean of the noise variance, in squared units of y, unless it differs between rows:
        then ``predict_uncertainty(X).aleatoric`` has it.
    noise_coef_, noise_intercept_ : ndarray of shape (n_features,), float
        Of heteroscedastic noise alone: posterior means of the coefficients and the intercept of the
        log standard deviation.
    noise_coef_std_, noise_intercept_std_ : ndarray of shape (n_features,), float
        Their posterior standard deviations.
    random_effects_ : dict of str to :class:`~sklearn.utils.Bunch`
        With ``random_effects``, for each of these: the ``groups``, and of their effects (rows) for
        each of the ``terms`` (columns) the posterior ``mean``, ``std`` and ``shrinkage`` (0: known,
        1: nothing known); ``sd`` and ``sd_std`` of the standard deviation of all groups' effects.
        Heteroscedastic noise puts an axis of mean and log standard deviation between.
    inference_ : engine instance
        The engine that was run.
    n_iter_ : int
        Number of iterations it made.
    n_features_in_ : int
        Number of columns of X, those of groups included; these have no entry in ``coef_``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has any.

    See Also
    --------
    BayesianLogisticRegression : The counterpart for classes.
    sklearn.linear_model.BayesianRidge : Normal approximation with estimated prior precision.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skstein import BayesianLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = BayesianLinearRegression(random_state=0).fit(X, y)
    >>> print(f"{reg.score(X, y):.2f}")
    0.52
    >>> reg.predict_interval(X[:3], level=0.9).shape
    (3, 2)
    """

    _parameter_constraints = {
        **BayesianLinearModel._parameter_constraints,
        "noise": [StrOptions(set(NOISES)), HasMethods("outcome")],
        "noise_shape": [None, Interval(Real, 1 / LARGEST, LARGEST, closed="both")],
        "noise_scale": [None, Interval(Real, 1 / LARGEST, LARGEST, closed="both")],
    }

    _named_parameters = {**BayesianLinearModel._named_parameters, "noise": resolve_noise}

    _noise = NormalNoise()  # the noise of the last fit

    _: KW_ONLY
    noise: Any = "normal"
    noise_shape: float | None = None
    noise_scale: float | None = None

    def _fit(self, X, y, sample_weight, stream=False, classes=None, offset=None):
        self._noise = noise_to_fit(self, stream and hasattr(self, "posterior_"))
        if self._outcome.n_predictors > 1 and not self.fit_intercept:
            raise ValueError(
                f"noise={self.noise!r} has an intercept, which sets its level: use "
                "fit_intercept=True."
            )
        super()._fit(X, y, sample_weight, stream, classes, offset)
        if isinstance(self._outcome, StudentT) and sample_weight is None:
            self._warn_of_added_noise()
        return self

    def _warn_of_added_noise(self):
        """Warn if y is so wide, as with outliers, that its noise is mostly what the prior adds."""
        added = getattr(self._outcome.noise_prior, "floor", 0.0) * self._scaling.y_scale**2
        log_v = self.posterior_.weights @ self._extra(self.posterior_.particles)[:, 0]
        if 2.0 * added > _ADDED * self._n_rows * np.exp(log_v):  # type: ignore[operator]
            warn(
                "the noise is next to nothing against the scale of y, and mostly what its prior "
                "adds, so that intervals are too wide: leave out values of y that are far off, or "
                "scale y.",
                UserWarning,
            )

    @property
    def _outcome(self):
        given = {"shape": self.noise_shape, "scale": self.noise_scale}
        given = {name: value for name, value in given.items() if value is not None}
        return self._noise.outcome(InverseGamma(**given) if given else None)

    def _make_target(self, X, y, options):
        outcome = self._outcome
        if not isinstance(outcome, Normal):
            return targets.RegressionTarget(outcome, X, y, **options)
        options["noise_prior"] = outcome.noise_prior
        return targets.LinearTarget(X, y, factorized=self.factorized, **options)

    def _summaries(self, posterior):
        summaries = super()._summaries(posterior)
        outcome = self._outcome
        if outcome.n_predictors > 1:
            of_noise = BayesianLinearModel._summaries(self, posterior)
            return summaries | {f"noise_{name}": value[1] for name, value in of_noise.items()}
        with np.errstate(over="ignore"):
            variances = outcome.noise([None, *self._extra(posterior.particles).T])
        if not (np.isfinite(variances) & (variances > 0.0)).all():
            raise FloatingPointError(
                "the noise variance leaves the range of floating point in part of the posterior; "
                "give its prior a noise_shape and a noise_scale nearer to 1."
            )
        return {**summaries, "noise_variance_": float(variances @ posterior.weights)}
