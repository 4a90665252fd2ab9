"""Bayesian linear models: linear, logistic and probit regression.

The target is fitted in the coordinates of standardised features (and a standardised outcome), where
a default prior makes sense, and the posterior is moved to the original scale by an affine map. So
whatever an estimator reports or predicts is in the units of the data it was given.
"""

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ._classes import class_codes, stream_classes
from ._columns import constant_columns, drop_weightless, location_and_scale
from ._estimator import BayesianEstimator
from ._prediction import BayesianClassifierMixin, BayesianRegressorMixin
from ._validation import (
    LARGEST,
    HasMethods,
    Interval,
    StrOptions,
    about,
    available_if,
    check_magnitude,
    check_sample_weight,
    validate_data,
    validated,
)
from ._warnings import warn
from .inference import ENGINES, resolve_engine
from .outcomes import Bernoulli, Categorical, Normal, Probit
from .priors import PRIORS, HalfStudentT, InverseGamma, resolve_prior
from .targets import Affine, HierarchicalTarget, LinearTarget, RegressionTarget

# For each coordinate, with which a stream begins well. With fewer, the scale of a skewed feature is
# a matter of luck, and so is the prior, which applies on it.
_FIRST_ROWS = 10


@dataclass
class _Scaling:
    """``(X - center) / scale`` and ``(y - y_center) / y_scale``; None leaves features alone."""

    fit_intercept: bool = True
    center: np.ndarray | None = None
    scale: np.ndarray | None = None
    y_center: float = 0.0
    y_scale: float = 1.0

    @property
    def standardize(self):
        return self.scale is not None


def _takes_further_rows(estimator):
    """Whether the engine can bring a posterior up to date; what `partial_fit` is there for."""
    with suppress(TypeError, ValueError):  # of what is no engine at all, which `fit` refuses
        if resolve_engine(estimator.inference).update is not None:
            return True
    raise AttributeError(
        f"partial_fit of {type(estimator).__name__} needs an engine that takes in further rows, "
        f'such as inference="pmd"; got inference={estimator.inference!r}.'
    )


@dataclass(eq=False, repr=False)
class _BayesianLinearModel(BayesianEstimator):
    """What the linear models share: priors, standardisation, and the layout of ``theta``.

    ``theta`` holds a row (intercept, coefficients) for each linear predictor of ``_outcome``, then
    the outcome's further coordinates, then what else the target has.
    """

    inference: Any = "mcmc"
    _: KW_ONLY
    prior: Any = "normal"
    intercept_prior: Any = "normal"
    fit_intercept: bool = True
    standardize: bool = True
    factorized: bool = False
    warm_start: bool = False

    _named_parameters = {
        "inference": resolve_engine,
        "prior": lambda prior: resolve_prior(prior, 1.0, "prior"),
        "intercept_prior": lambda prior: resolve_prior(prior, 10.0, "intercept_prior"),
    }

    _parameter_constraints = {
        **BayesianEstimator._parameter_constraints,
        "inference": [StrOptions(set(ENGINES)), HasMethods("run")],
        "prior": [StrOptions(set(PRIORS)), HasMethods("log_density")],
        "intercept_prior": [StrOptions(set(PRIORS)), HasMethods("log_density")],
        "fit_intercept": ["boolean"],
        "standardize": ["boolean"],
        "factorized": ["boolean"],
        "warm_start": ["boolean"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _validated(self, X, y, further):
        """X in float64, dense or CSR with one entry a place, and y as it is."""
        X, y = validate_data(self, X, y, reset=not further, dtype=np.float64, accept_sparse="csr")
        if sparse.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        check_magnitude(X, "X")
        return X, y

    def _fit(self, X, y, sample_weight, stream=False, classes=None):
        """Find the posterior; in a stream, go on from that of the rows before."""
        given = X, y, sample_weight
        further = stream and hasattr(self, "posterior_")
        X, y = self._validated(X, y, further)
        y = self._checked(y)
        weights = check_sample_weight(sample_weight, X, may_be_zero=further)
        X, y, sample_weight = drop_weightless(X, y, weights)
        y, sample_weight, problem = self._prepared(y, sample_weight, classes)
        outcome = self._outcome
        scaled = y if outcome.location_scale else None
        scaling = self._find_scaling(further, X, sample_weight, scaled)
        if scaled is not None:
            y = (y - scaling.y_center) / scaling.y_scale
        target = self._with_factors(
            self._make_target(X, y, self._target_options(scaling, sample_weight))
        )
        if stream and not further:
            self._begins_stream(X, target.dim, problem)
        offset, matrix, inverse = self._to_original_scale(scaling)
        k = outcome.n_predictors
        rest = sparse.eye_array(target.dim - k * len(offset))
        shift = np.zeros(rest.shape[0])
        shift[: len(outcome.extra)] = outcome.rescaled_by(scaling.y_scale)
        to_original = Affine(
            np.append(np.tile(offset, k), shift),
            sparse.block_diag([matrix] * k + [rest], format="csr"),
            sparse.block_diag([inverse] * k + [rest], format="csr"),
        )
        target.n_weightless = len(weights) - target.n_rows
        learn = self._update if further else self._infer
        return learn(target, to_original, *given, _scaling=scaling)

    def _make_target(self, X, y, options):
        return RegressionTarget(self._outcome, X, y, **options)

    def _find_scaling(self, further, X, sample_weight, y=None):
        """How features, and the outcome if given, are standardised; ``further`` rows as the first.

        Raises
        ------
        ValueError
            If parameters ask for another way than that of the first rows.
        """
        if further:
            for name in ("fit_intercept", "standardize"):
                before = getattr(self._scaling, name)
                if getattr(self, name) != before:
                    raise ValueError(
                        f"{name}={before} of the rows before is that of the whole stream: set it "
                        "back, or begin anew with fit."
                    )
            return self._scaling
        if not self.standardize:
            return _Scaling(self.fit_intercept)
        scaling = _Scaling(self.fit_intercept, *location_and_scale(X, sample_weight))
        if y is not None:
            (y_mean,), (scaling.y_scale,) = location_and_scale(y[:, None], sample_weight)
            scaling.y_center = y_mean
        if not self.fit_intercept:
            scaling.center, scaling.y_center = None, 0.0
        return scaling

    def _target_options(self, scaling, sample_weight):
        """Options of the target that do not depend on the outcome."""
        return {
            "sample_weight": sample_weight,
            "fit_intercept": self.fit_intercept,
            "prior": self._named_parameters["prior"](self.prior),
            "intercept_prior": self._named_parameters["intercept_prior"](self.intercept_prior),
            "center": scaling.center,
            "scale": scaling.scale,
            "feature_names": getattr(self, "feature_names_in_", None),
        }

    def _with_factors(self, target):
        """The target with its variances as mean-field factors, if ``factorized``."""
        if not self.factorized:
            return target
        if not resolve_engine(self.inference).keeps_factors:
            raise ValueError(
                'factorized=True needs an engine that keeps factors apart: use inference="pmfvb", '
                "with blocks=None."
            )
        if target.prior.variance_groups(target.n_features) is not None:
            target = HierarchicalTarget(target)
        if len(target.factors) == 1:
            raise ValueError(
                "factorized=True finds no variance to give a factor: use "
                'prior="adaptive-ridge" or "hierarchical-normal", or factorized=False.'
            )
        return target

    def _begins_stream(self, X, n_coordinates, *problems):
        """Warn where the first rows of a stream are poor ground for all that follow."""
        problems = [text for text in problems if text]
        if X.shape[0] < _FIRST_ROWS * n_coordinates:
            problems.append(f"{X.shape[0]} rows for {n_coordinates} coordinates")
        constant = self.standardize and constant_columns(X)
        if constant:
            problems.append(f"{constant} constant features, which are never scaled")
        if problems:
            warn(
                "the first rows of a stream fix scaling and coordinates, and these have "
                f"{', '.join(problems)}: begin with more of them, some hundreds in random order "
                f"and at least {_FIRST_ROWS} for each coordinate."
            )

    def _to_original_scale(self, scaling):
        """The map of one row (intercept, coefficients) to original units: offset, matrix, inverse.

        With x' = (x - center) / scale and y' = (y - y_center) / y_scale, the coefficients of x are
        those of x' times y_scale / scale, and the intercept gives up what centring took.
        """
        p, first = self.n_features_in_, int(scaling.fit_intercept)
        center, y_center, y_scale = scaling.center, scaling.y_center, scaling.y_scale
        scale = np.ones(p) if scaling.scale is None else scaling.scale
        offset = np.zeros(first + p)
        matrix = sparse.lil_array((first + p, first + p))
        inverse = sparse.lil_array((first + p, first + p))
        matrix.setdiag(np.append(np.full(first, y_scale), y_scale / scale))
        inverse.setdiag(np.append(np.full(first, 1.0 / y_scale), scale / y_scale))
        if scaling.fit_intercept:
            center = np.zeros(p) if center is None else center
            offset[0] = y_center
            matrix[0, 1:] = -y_scale * center / scale
            inverse[0, 1:] = center / y_scale
        return offset, matrix, inverse

    def _unpack(self, theta):
        """Intercepts (m, k) and coefficients (m, k, p) of the k linear predictors."""
        first, k = int(self._scaling.fit_intercept), self._outcome.n_predictors
        rows = theta[:, : k * (first + self.n_features_in_)].reshape(len(theta), k, -1)
        intercept = rows[:, :, 0] if first else np.zeros(rows.shape[:2])
        return intercept, rows[:, :, first:]

    def _heads(self, X, theta):
        intercept, coef = (values.swapaxes(0, 1) for values in self._unpack(theta))
        predictors = X @ coef.reshape(-1, self.n_features_in_).T
        predictors += intercept.ravel()
        predictors = predictors.reshape(X.shape[0], *intercept.shape).swapaxes(0, 1)
        if not self._outcome.extra:
            return predictors
        first = len(predictors) * (int(self._scaling.fit_intercept) + self.n_features_in_)
        return [*predictors, *theta.T[first : first + len(self._outcome.extra)]]

    def _summaries(self, posterior):
        """Means and standard deviations of intercepts (k,) and coefficients (k, p)."""
        (intercept, coef), (intercept_std, coef_std) = (
            self._unpack(moment[None]) for moment in (posterior.mean(), posterior.std())
        )
        return {
            "intercept_": intercept[0],
            "coef_": coef[0],
            "intercept_std_": intercept_std[0],
            "coef_std_": coef_std[0],
        }


class GeneralizedLinearRegressor(BayesianRegressorMixin, _BayesianLinearModel):
    """Base class of linear models of a numeric outcome with one linear predictor.

    A subclass says in ``_outcome`` what is observed (:mod:`skstein.outcomes`); fits, streams and
    predictions follow. :doc:`/extending` has an example. The parameters are those of
    `BayesianLinearRegression`, without the prior of its noise.
    """

    @validated
    def fit(self, X, y, sample_weight=None):
        """Find the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Sparse features are centred implicitly and never made dense.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights are invalid.
        TypeError
            If an engine or prior is a class instead of an instance.
        """
        return self._fit(X, y, sample_weight)

    @available_if(_takes_further_rows)
    @validated
    def partial_fit(self, X, y, sample_weight=None):
        """Take in further rows: a stream of them, each once, in chunks of any size.

        The posterior is that of all rows so far, up to sampling error; the rows are not kept. The
        first call is a fit, and what it standardises by stays. After `fit`, the rows of the fit are
        the first ones; a later `fit` begins anew. Needs ``inference="pmd"``, whose ``n_total``
        allows for further passes over the same rows; rows of weight zero count as rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights are invalid, the rows go beyond ``n_total``, or
            priors or the standardisation are not those of the rows before.

        Warns
        -----
        ConvergenceWarning
            If the first rows are too few, or the posterior is likely to be wrong.

        Examples
        --------
        >>> from sklearn.datasets import make_regression
        >>> from skstein import BayesianLinearRegression
        >>> X, y = make_regression(3000, 3, noise=10.0, random_state=0)
        >>> reg = BayesianLinearRegression("pmd", random_state=0)
        >>> for start in range(0, 3000, 1000):
        ...     reg = reg.partial_fit(X[start : start + 1000], y[start : start + 1000])
        >>> reg.posterior_.diagnostics["n_seen"]
        3000
        """
        return self._fit(X, y, sample_weight, stream=True)

    def _checked(self, y):
        with about("y"):
            y = y.astype(np.float64)
        check_magnitude(y, "y")
        self._outcome.check(y)
        return y

    def _prepared(self, y, sample_weight, classes):
        """Outcomes and weights for the target, and what is poor about them as first of a stream."""
        alone = len(y) and np.ptp(y) == 0.0
        return y, sample_weight, "one outcome alone" if alone else ""

    def _summaries(self, posterior):
        summaries = {name: value[0] for name, value in super()._summaries(posterior).items()}
        for name in ("intercept_", "intercept_std_"):
            summaries[name] = float(summaries[name])
        return summaries


@dataclass(eq=False, repr=False)
class BayesianLinearRegression(GeneralizedLinearRegressor):
    r"""Bayesian linear regression with unknown noise variance.

    The outcome is normal around ``X @ coef + intercept`` with variance :math:`\sigma^2`. Priors are
    on the scale of the standardised data (``standardize=True``); everything the estimator reports
    is on the original scale.

    Parameters
    ----------
    inference : str or engine instance, default="mcmc"
        How the posterior is found: "mcmc", "pmfvb", "svgd", "fwss", "stein-points", "pmd" or
        "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
    prior : str or prior instance, default="normal"
        Prior of the coefficients: "normal", "laplace", "student-t", "adaptive-ridge" or
        "hierarchical-normal", of scale 1, or one of :mod:`skstein.priors`.
    intercept_prior : str or prior instance, default="normal"
        Prior of the intercept; a name has scale 10.
    noise_shape, noise_scale : float, default=None
        By default the noise's standard deviation has a half Student t prior of 3 degrees of freedom
        and scale 1, in units of the (standardised) outcome, which is weak at every signal-to-noise
        ratio. Numbers are the shape and scale of an inverse gamma prior of its variance (1 for the
        one that is not given), which expects noise of the order of the outcome and makes intervals
        too wide where it is not.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    standardize : bool, default=True
        Whether to divide features and outcome by their standard deviations, and with an intercept
        to centre them, before the priors apply. Otherwise they are taken as they are.
    factorized : bool, default=False
        Whether the noise variance, and the variances of the priors "adaptive-ridge" and
        "hierarchical-normal", are mean-field factors of their own, in closed form, with
        ``inference="pmfvb"``. The priors' variances are then part of the posterior. Otherwise they
        are integrated out and the noise variance is a coordinate like the others, which is the
        better posterior: mean field understates standard deviations.
    random_state : int, RandomState instance or None, default=None
        Seed of the inference; an int makes it reproducible.
    n_jobs : int, default=None
        Number of jobs for independent pieces of the inference; the result does not depend on it.
    verbose : int, default=0
        If positive, a line is printed for each tenth of the inference.
    warm_start : bool, default=False
        Whether `fit` goes on from the posterior of the call before, on the same data: "mcmc"
        continues its chains and adds to its points, "fwss" keeps the particles and adds those
        missing to a larger ``n_particles``, the other engines start from the particles.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Weighted particles of ``(intercept, coefficients, log_sigma2)``, in original units; with
        ``factorized=True`` also the logarithms of the prior's variances, if it has any, on the
        scale on which it applies. :doc:`/trust` tells what it says, and whether to believe it.
    coef_ : ndarray of shape (n_features,)
        Posterior means of the coefficients, to be read: predictions come from ``posterior_``, and
        do not follow what is written here.
    intercept_ : float
        Posterior mean of the intercept, 0 without one.
    coef_std_ : ndarray of shape (n_features,)
        Posterior standard deviations of the coefficients.
    intercept_std_ : float
        Posterior standard deviation of the intercept, 0 without one.
    noise_variance_ : float
        Posterior mean of the noise variance, in squared units of y.
    inference_ : engine instance
        The engine that was run.
    n_iter_ : int
        Number of iterations it made.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has any.

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
        **_BayesianLinearModel._parameter_constraints,
        "noise_shape": [None, Interval(Real, 1 / LARGEST, LARGEST, closed="both")],
        "noise_scale": [None, Interval(Real, 1 / LARGEST, LARGEST, closed="both")],
    }

    _: KW_ONLY
    noise_shape: float | None = None
    noise_scale: float | None = None

    @property
    def _outcome(self):
        given = {"shape": self.noise_shape, "scale": self.noise_scale}
        given = {name: value for name, value in given.items() if value is not None}
        return Normal(InverseGamma(**given) if given else HalfStudentT())

    def _make_target(self, X, y, options):
        options["noise_prior"] = self._outcome.extra_prior
        return LinearTarget(X, y, factorized=self.factorized, **options)

    def _summaries(self, posterior):
        with np.errstate(over="ignore"):
            variances = np.exp(posterior.particles[:, posterior.names.index("log_sigma2")])
        if not (np.isfinite(variances) & (variances > 0.0)).all():
            raise FloatingPointError(
                "the noise variance leaves the range of floating point in part of the posterior; "
                "give its prior a noise_shape and a noise_scale nearer to 1."
            )
        summaries = super()._summaries(posterior)
        return {**summaries, "noise_variance_": float(variances @ posterior.weights)}


@dataclass(eq=False, repr=False)
class _BayesianLinearClassifier(BayesianClassifierMixin, _BayesianLinearModel):
    """What the linear classifiers share; a subclass says in ``_outcome`` how classes are linked."""

    _parameter_constraints = {
        **_BayesianLinearModel._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _instead = {"C": "prior=Normal(scale=sqrt(C)), the prior of variance C"}

    _: KW_ONLY
    class_weight: Any = None

    @validated
    def fit(self, X, y, sample_weight=None):
        """Find the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Sparse features are centred implicitly and never made dense.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights are invalid, or there is only one class.
        TypeError
            If an engine or prior is a class instead of an instance.
        """
        return self._fit(X, y, sample_weight)

    @available_if(_takes_further_rows)
    @validated
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Take in further rows: a stream of them, each once, in chunks of any size.

        The posterior is that of all rows so far, up to sampling error; the rows are not kept. The
        first call is a fit, and what it standardises by stays. After `fit`, the rows of the fit are
        the first ones; a later `fit` begins anew. Needs ``inference="pmd"``, whose ``n_total``
        allows for further passes over the same rows; rows of weight zero count as rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream; required by the first call, unless it follows a `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights are invalid, the classes are not given or change,
            ``class_weight="balanced"``, the rows go beyond ``n_total``, or priors or the
            standardisation are not those of the rows before.

        Warns
        -----
        ConvergenceWarning
            If the first rows are too few, or the posterior is likely to be wrong.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from skstein import BayesianLogisticRegression
        >>> X, y = make_classification(3000, 4, random_state=0)
        >>> clf = BayesianLogisticRegression("pmd", random_state=0)
        >>> for start in range(0, 3000, 1000):
        ...     rows = slice(start, start + 1000)
        ...     clf = clf.partial_fit(X[rows], y[rows], classes=[0, 1])
        >>> clf.posterior_.diagnostics["n_seen"]
        3000
        """
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs all rows at once; give partial_fit the weights as a '
                "dict."
            )
        before = self.classes_ if hasattr(self, "posterior_") else None
        return self._fit(X, y, sample_weight, True, stream_classes(classes, before))

    def _checked(self, y):
        check_classification_targets(y)
        return y

    def _prepared(self, y, sample_weight, classes):
        """Codes and weights for the target, and what is poor about them as first of a stream."""
        classes = np.unique(y) if classes is None else classes
        codes = class_codes(y, classes, type(self).__name__)
        self.classes_ = classes
        class_weight = compute_class_weight(
            self.class_weight, classes=classes, y=y, sample_weight=sample_weight
        )
        if not np.all((class_weight > 0.0) & (class_weight <= LARGEST)):
            raise ValueError(
                f"class_weight must be positive and at most {LARGEST:g}, got {self.class_weight!r}."
            )
        absent = np.setdiff1d(classes, y).tolist()
        problem = f"no sample of classes {absent}" if absent else ""
        return codes, sample_weight * class_weight[codes], problem

    def _target_options(self, scaling, sample_weight):
        options = super()._target_options(scaling, sample_weight)
        return {**options, "class_names": self.classes_}


class BayesianLogisticRegression(_BayesianLinearClassifier):
    """Bayesian logistic regression: two classes, or softmax for more.

    With more than two classes every class has coefficients of its own, with the prior on each, so
    that all classes are treated alike. Priors are on the scale of the standardised features
    (``standardize=True``); everything the estimator reports is on the original scale.

    Parameters
    ----------
    inference : str or engine instance, default="mcmc"
        How the posterior is found: "mcmc", "pmfvb", "svgd", "fwss", "stein-points", "pmd" or
        "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
    prior : str or prior instance, default="normal"
        Prior of the coefficients: "normal", "laplace", "student-t", "adaptive-ridge" or
        "hierarchical-normal", of scale 1, or one of :mod:`skstein.priors`.
    intercept_prior : str or prior instance, default="normal"
        Prior of the intercepts; a name has scale 10.
    fit_intercept : bool, default=True
        Whether there are intercepts.
    standardize : bool, default=True
        Whether to divide the features by their standard deviations, and with an intercept to centre
        them, before the priors apply. Otherwise they are taken as they are.
    factorized : bool, default=False
        Whether the variances of the priors "adaptive-ridge" and "hierarchical-normal" are a
        mean-field factor of their own, in closed form, with ``inference="pmfvb"``; they are then
        part of the posterior. Otherwise they are integrated out, which is the better posterior:
        mean field understates standard deviations.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, multiplied into the sample weights; ``"balanced"`` gives all classes
        the same total weight.
    random_state : int, RandomState instance or None, default=None
        Seed of the inference; an int makes it reproducible.
    n_jobs : int, default=None
        Number of jobs for independent pieces of the inference; the result does not depend on it.
    verbose : int, default=0
        If positive, a line is printed for each tenth of the inference.
    warm_start : bool, default=False
        Whether `fit` goes on from the posterior of the call before, on the same data: "mcmc"
        continues its chains and adds to its points, "fwss" keeps the particles and adds those
        missing to a larger ``n_particles``, the other engines start from the particles.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Weighted particles of ``(intercept, coefficients)``, for each class if there are more than
        two, in original units; with ``factorized=True`` also the logarithms of the prior's
        variances, on the scale on which it applies. :doc:`/trust` tells what it says, and whether
        to believe it.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior means of the coefficients, to be read: predictions come from ``posterior_``, and
        do not follow what is written here.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Posterior means of the intercepts, 0 without them.
    coef_std_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior standard deviations of the coefficients.
    intercept_std_ : ndarray of shape (1,) or (n_classes,)
        Posterior standard deviations of the intercepts, 0 without them.
    inference_ : engine instance
        The engine that was run.
    n_iter_ : int
        Number of iterations it made.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has any.

    See Also
    --------
    BayesianLinearRegression : The counterpart for a numeric outcome.
    sklearn.linear_model.LogisticRegression : The penalised point estimate.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skstein import BayesianLogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesianLogisticRegression(random_state=0).fit(X, y)
    >>> clf.predict(X[:2])
    array([0, 0])
    >>> clf.predict_interval(X[:2], level=0.9).shape
    (2, 3, 2)
    """

    @property
    def _outcome(self):
        n_classes = len(self.classes_)
        return Bernoulli() if n_classes == 2 else Categorical(n_classes)


class BayesianProbitRegression(_BayesianLinearClassifier):
    """Bayesian probit regression: two classes, or one against the rest for more.

    With two classes the probability of the second is ``Phi(X @ coef + intercept)``. With more, each
    class has coefficients of its own and is told from all others; the posterior is the product of
    those binary ones, and every particle's probabilities are normalised over the classes. Priors
    are on the scale of the standardised features
    (``standardize=True``); everything the estimator reports is on the original scale.

    Parameters
    ----------
    inference : str or engine instance, default="mcmc"
        How the posterior is found: "mcmc", "pmfvb", "svgd", "fwss", "stein-points", "pmd" or
        "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
    prior : str or prior instance, default="normal"
        Prior of the coefficients: "normal", "laplace", "student-t", "adaptive-ridge" or
        "hierarchical-normal", of scale 1, or one of :mod:`skstein.priors`.
    intercept_prior : str or prior instance, default="normal"
        Prior of the intercepts; a name has scale 10.
    fit_intercept : bool, default=True
        Whether there are intercepts.
    standardize : bool, default=True
        Whether to divide the features by their standard deviations, and with an intercept to centre
        them, before the priors apply. Otherwise they are taken as they are.
    factorized : bool, default=False
        Whether the variances of the priors "adaptive-ridge" and "hierarchical-normal" are a
        mean-field factor of their own, in closed form, with ``inference="pmfvb"``; they are then
        part of the posterior. Otherwise they are integrated out, which is the better posterior:
        mean field understates standard deviations.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, multiplied into the sample weights; ``"balanced"`` gives all classes
        the same total weight.
    random_state : int, RandomState instance or None, default=None
        Seed of the inference; an int makes it reproducible.
    n_jobs : int, default=None
        Number of jobs for independent pieces of the inference; the result does not depend on it.
    verbose : int, default=0
        If positive, a line is printed for each tenth of the inference.
    warm_start : bool, default=False
        Whether `fit` goes on from the posterior of the call before, on the same data: "mcmc"
        continues its chains and adds to its points, "fwss" keeps the particles and adds those
        missing to a larger ``n_particles``, the other engines start from the particles.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Weighted particles of ``(intercept, coefficients)``, for each class if there are more than
        two, in original units; with ``factorized=True`` also the logarithms of the prior's
        variances, on the scale on which it applies. :doc:`/trust` tells what it says, and whether
        to believe it.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior means of the coefficients, to be read: predictions come from ``posterior_``, and
        do not follow what is written here.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Posterior means of the intercepts, 0 without them.
    coef_std_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior standard deviations of the coefficients.
    intercept_std_ : ndarray of shape (1,) or (n_classes,)
        Posterior standard deviations of the intercepts, 0 without them.
    inference_ : engine instance
        The engine that was run.
    n_iter_ : int
        Number of iterations it made.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has any.

    See Also
    --------
    BayesianLogisticRegression : The logistic link, and softmax for more classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skstein import BayesianProbitRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesianProbitRegression(random_state=0).fit(X, y)
    >>> clf.predict(X[:2])
    array([0, 0])
    >>> clf.predict_interval(X[:2], level=0.9).shape
    (2, 3, 2)
    """

    @property
    def _outcome(self):
        return Probit(len(self.classes_))
