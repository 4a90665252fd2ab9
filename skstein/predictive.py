"""The posterior predictive distribution of any object that holds an estimator of this package.

A pipeline, a search, a shifted threshold or a transformed outcome hides the estimator's predictive
methods. `predictive` reaches through them: it is a table from the type of a wrapper to the step
inwards, so each wrapper is a few lines here and nests with all others.

Only a transformed outcome changes the prediction itself. Quantiles pass through a monotone map as
they are. Moments do not, so each particle's outcome is integrated by the quadrature that its
distribution has, and the law of total variance splits the result as it does for an outcome that was
not transformed.
"""

from abc import ABC, abstractmethod
from functools import singledispatch

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from ._blocks import row_blocks
from ._crps import crps_of_points
from ._prediction import PredictsOutcomes
from ._quantiles import weighted_quantile
from ._validation import check_fractions, interval_ends

# If the map is not monotone, outcomes at these standard normal scores stand for all. Quantiles are
# computed at the knots; a spline, which is nearly straight, gives the others.
_SCORES = np.linspace(-6.0, 6.0, 4097)
_SCORE_WEIGHTS = np.exp(-0.5 * _SCORES**2)
_SCORE_WEIGHTS = _SCORE_WEIGHTS / _SCORE_WEIGHTS.sum()
_KNOTS = np.linspace(-6.0, 6.0, 25)

# Normal scores, by that spline, of the ends of cells whose probabilities are exact.
_EDGES = np.linspace(-6.0, 6.0, 257)

# Points at which a row's map is tried for being monotone.
_TRIALS = 257

# A map need not be monotone beyond these quantiles of the outcome.
_TAILS = np.array([1e-6, 1.0 - 1e-6])

# The same for a density: the square of a root that is seldom negative has one.
_DENSITY_TAILS = np.array([0.01, 0.99])

# Half the step of an inverse's numerical derivative, in standard deviations of its argument.
# So small that the quantiles of a `QuantileTransformer` seldom lie within it.
_STEP = 2.0**-16

# The largest error of a transform against its inverse, in the same unit.
_SLACK = 1e-4

# The largest probability of an outcome outside the domain of the map for which moments are given.
_NEGLIGIBLE = 1e-3


class Predictive(ABC):
    """Posterior predictive distribution at the rows of X, made by `predictive`.

    For a classifier it is the distribution of each class's probability over the posterior; for a
    regressor, that of the outcome, in the units of the y that the outermost object was fitted on.
    Nothing is averaged over the posterior before a method is called, no result is kept, and only
    `sample_predictive` and `sample_mean` draw random numbers.

    Attributes
    ----------
    outcome : Outcome
        What is observed, before any transformation.
    n_outcomes : int
        Outcomes per row.

    See Also
    --------
    skstein.predictive : Makes it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skstein import BayesianLogisticRegression, predictive
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesianLogisticRegression(random_state=0).fit(X, y)
    >>> prediction = predictive(clf, X[:5])
    >>> prediction.mean().shape, prediction.interval(0.9).shape
    ((5, 3), (5, 3, 2))
    >>> prediction
    <Predictive of 3 classes for 5 rows>
    >>> prediction.sample_predictive(4, random_state=0).shape
    (5, 4)
    """

    n_outcomes = 1

    @abstractmethod
    def mean(self):
        """Mean over the posterior.

        Returns
        -------
        mean : ndarray of shape (n, n_classes) or (n,)
            Class probabilities in the order of ``classes_``; or outcomes, in units of y, nan
            where more than about one outcome in a thousand has no inverse transform.
        """

    @abstractmethod
    def std(self):
        """Standard deviation: over the posterior for a class probability, else of the outcome.

        Returns
        -------
        std : ndarray of shape (n, n_classes) or (n,)
            Of the probability of each class; or of the outcome, noise included, in units of y, nan
            where `mean` is.
        """

    @abstractmethod
    def quantiles(self, q):
        """Quantiles.

        Parameters
        ----------
        q : float or array-like of shape (n_quantiles,)
            From 0 to 1.

        Returns
        -------
        quantiles : ndarray of shape (n, n_classes, n_quantiles) or (n, n_quantiles)
            Of the probability of each class; or of the outcome, in units of y.

        Raises
        ------
        ValueError
            If ``q`` leaves [0, 1].
        """

    def interval(self, level=0.9):
        """Central interval: of the probability of each class, or of the outcome.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the interval, from 0 to 1.

        Returns
        -------
        interval : ndarray of shape (n, n_classes, 2) or (n, 2)
            Lower and upper end.

        Raises
        ------
        ValueError
            If ``level`` leaves [0, 1].
        """
        return self.quantiles(interval_ends(level))

    @abstractmethod
    def log_predictive(self, y):
        """Logarithm of the density, or probability, of each observed outcome: the log score.

        Parameters
        ----------
        y : array-like of shape (n,), or (n, n_targets) for several outcomes
            What was observed at the rows of X: classes, or outcomes in units of y.

        Returns
        -------
        log_predictive : ndarray of shape (n,)
            Natural logarithm of a density per unit of y, or of a probability.

        Raises
        ------
        ValueError
            If ``y`` does not fit X or cannot be observed. If the outcome was transformed, and has
            no density at ``y``: the inverse is not monotone, does not reach ``y``, or is flat
            there.
        """

    @abstractmethod
    def crps(self, y):
        """Continuous ranked probability score of each observed outcome; smaller is better.

        Parameters
        ----------
        y : array-like of shape (n,), or (n, n_targets) for several outcomes
            What was observed at the rows of X.

        Returns
        -------
        crps : ndarray of shape (n,) or (n, n_targets)
            In units of y; nan where `mean` is.

        Raises
        ------
        ValueError
            If ``y`` does not fit X or cannot be observed.
        TypeError
            If outcomes are classes.
        """

    @abstractmethod
    def sample_mean(self, n_samples, random_state=None):
        """Draw means of the outcome, or class probabilities, from the posterior: without noise.

        Each column comes from one particle, so it is a joint draw for all rows.

        Parameters
        ----------
        n_samples : int
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            An int makes the draws reproducible.

        Returns
        -------
        means : ndarray of shape (n, n_samples) or (n, n_classes, n_samples)
            In units of y, nan where the outcome often has no inverse transform; or probabilities.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """

    @abstractmethod
    def sample_predictive(self, n_samples=1, random_state=None):
        """Draw labels or outcomes.

        Each column comes from one particle, so it is a joint draw for all rows.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            An int makes the draws reproducible.

        Returns
        -------
        samples : ndarray of shape (n, n_samples)
            Labels of ``classes_``; or outcomes, in units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """

    @abstractmethod
    def uncertainty(self):
        """Uncertainty of the prediction, split into noise and ignorance of the model.

        Returns
        -------
        uncertainty : :class:`~sklearn.utils.Bunch`
            ``total``, ``aleatoric`` (the noise) and ``epistemic`` (what more data could take away),
            ndarrays of shape (n,); the first is the sum of the others. Entropies of the label, in
            nats; or variances of the outcome, in squared units of y, nan where `mean` is.
        """

    @abstractmethod
    def _by_particle(self):
        """Yield (means, weights) of blocks of rows: what each particle expects.

        Means are class probabilities, of shape (n, m, n_classes), or means of the outcome, (n, m).
        """

    @abstractmethod
    def _transformed(self, transformer):
        """The predictive of ``transformer.inverse_transform`` of the outcome."""


class _Direct(Predictive):
    """Predictive of an estimator of this package, by its own methods."""

    def __init__(self, estimator, X):
        self.estimator = estimator
        self.X = X

    def __repr__(self):
        n_rows = next(iter(np.shape(self.X)), 0)
        if self.outcome.has_classes:
            return f"<Predictive of {len(self.estimator.classes_)} classes for {n_rows} rows>"
        what = "an outcome" if self.n_outcomes == 1 else f"{self.n_outcomes} outcomes"
        return f"<Predictive of {what}, in units of y, for {n_rows} rows>"

    @property
    def outcome(self):
        return self.estimator._outcome

    @property
    def n_outcomes(self):
        return 1 if self.outcome.has_classes else self.estimator._n_outputs

    def mean(self):
        return self.estimator._predictive_mean(self.X)

    def std(self):
        return self.estimator._predictive_std(self.X)

    def quantiles(self, q):
        return self.estimator.predict_quantiles(self.X, q)

    def log_predictive(self, y):
        return self.estimator.log_predictive(self.X, y)

    def crps(self, y):
        if self.outcome.has_classes:
            raise TypeError(
                "the CRPS is of an outcome that is a number, and "
                f"{type(self.estimator).__name__} predicts classes: use log_predictive."
            )
        return self.estimator._scores(self.X, y, self.outcome.crps)

    def sample_mean(self, n_samples, random_state=None):
        return self.estimator.sample_mean(self.X, n_samples, random_state)

    def sample_predictive(self, n_samples=1, random_state=None):
        return self.estimator.sample_predictive(self.X, n_samples, random_state)

    def uncertainty(self):
        return self.estimator.predict_uncertainty(self.X)

    def _by_particle(self):
        for _, heads, weights in self.estimator._row_noises(self.X):
            yield self.outcome.expected(heads), weights

    def _transformed(self, transformer):
        if not self.outcome.location_scale:
            raise TypeError(
                "only the outcome of a skstein regressor that can be any number is transformed; "
                f"{type(self.estimator).__name__} predicts another kind."
            )
        if self.n_outcomes > 1:
            raise TypeError(
                "only a single outcome can be transformed; the regressor of "
                f"TransformedTargetRegressor was fitted on {self.n_outcomes}."
            )
        return _TransformedOutcome(self, (transformer,))


def with_likelihood(estimator, X, caller):
    """`predictive`, if there is a likelihood of one outcome; otherwise ``caller`` refuses it."""
    prediction = predictive(estimator, X)
    if not isinstance(prediction, _Direct):
        raise TypeError(
            f"{caller} needs the likelihood of y, which is not known behind a "
            "TransformedTargetRegressor; pass its regressor_, with the transformed y."
        )
    if prediction.n_outcomes > 1:
        raise TypeError(f"{caller} needs a single outcome; fit one estimator per outcome.")
    return prediction


class _TransformedOutcome(Predictive):
    """Outcome seen through the inverses of transformers, the innermost first."""

    def __init__(self, direct, transformers):
        self.direct = direct
        self.outcome = direct.outcome
        self.transformers = transformers

    def __repr__(self):
        return repr(self.direct).replace("in units", "transformed back to units")

    def mean(self):
        return self._moments()[0]

    def std(self):
        _, explained, noise = self._moments()
        return np.sqrt(explained + noise)

    def quantiles(self, q):
        q = check_fractions(q, "q")
        direction = self._direction(_TAILS)
        result = np.empty((len(direction), len(q)))
        for sign, levels in ((1, q), (-1, 1.0 - q)):
            rows = direction == sign
            if rows.any():
                result[rows] = self._inverse(self.direct.quantiles(levels)[rows])
        others = np.flatnonzero(direction == 0)
        if len(others):
            knots = self.direct.quantiles(ndtr(_KNOTS))
            for block in row_blocks(len(others), 8 * len(_SCORES)):
                rows = others[block]
                values = self._inverse(CubicSpline(_KNOTS, knots[rows], axis=1)(_SCORES))
                result[rows] = weighted_quantile(values.T, _SCORE_WEIGHTS, q).T
        return result

    def log_predictive(self, y):
        y = self._observed(y)
        z = self._transform(y)
        with np.errstate(all="ignore"):
            std = self.direct.std()
            step = _STEP * std
            low, back, high = self._inverse(np.stack([z - step, z, z + step], axis=1)).T
            slope = np.abs(high - low) / (2.0 * step)
            direction = self._direction(_DENSITY_TAILS)
            wrong = ~(direction * (high - back) > 0.0) | ~(direction * (back - low) > 0.0)
            wrong |= ~np.isfinite(slope)
            wrong |= np.abs(back - y) > _SLACK * slope * std
        if wrong.any():
            row = np.flatnonzero(wrong)[0]
            raise ValueError(
                f"the outcome of row {row}, y={y[row]:g}, has no density: the inverse of the "
                "transformer must be monotone, return it and have a slope there. Where that is not "
                "so, as beyond the rows of fit of a QuantileTransformer, score by the CRPS."
            )
        return self.direct.log_predictive(z) - np.log(slope)

    def crps(self, y):
        y = self._observed(y)
        knots = self.direct.quantiles(ndtr(_KNOTS))
        edges = np.sort(CubicSpline(_KNOTS, knots, axis=1)(_EDGES), axis=1)
        blocks = []
        for rows, heads, weights in self.direct.estimator._row_heads(self.direct.X):
            below = [self.outcome.cdf(heads, weights, edge) for edge in edges[rows].T]
            shares = np.diff(below, axis=0).T
            values = self._inverse(0.5 * (edges[rows, 1:] + edges[rows, :-1]))
            undefined = np.isnan(values)
            shares[undefined] = 0.0
            values = np.where(undefined, y[rows, None], values)
            defined = shares.sum(axis=1, keepdims=True)
            shares /= np.where(defined >= 1.0 - _NEGLIGIBLE, defined, np.nan)
            blocks.append(crps_of_points(y[rows], values, shares))
        return np.concatenate(blocks)

    def sample_mean(self, n_samples, random_state=None):
        estimator, means = self.direct.estimator, []
        for _, heads, _ in estimator._drawn_heads(self.direct.X, n_samples, random_state):
            mass, mean, _ = self._particle_moments(heads)
            means.append(np.where(mass >= 1.0 - _NEGLIGIBLE, mean, np.nan))
        return np.concatenate(means)

    def sample_predictive(self, n_samples=1, random_state=None):
        return self._inverse(self.direct.sample_predictive(n_samples, random_state))

    def uncertainty(self):
        _, explained, noise = self._moments()
        return Bunch(total=explained + noise, aleatoric=noise, epistemic=explained)

    def _by_particle(self):
        for _, heads, weights in self.direct.estimator._row_noises(self.direct.X):
            yield self._particle_moments(heads)[1], weights

    def _transformed(self, transformer):
        return _TransformedOutcome(self.direct, (*self.transformers, transformer))

    def _observed(self, y):
        """Outcomes as floats, checked."""
        y = self.direct.estimator._observed(y)
        check_consistent_length(self.direct.X, y)
        return y

    def _transform(self, y):
        column = y[:, None]
        with np.errstate(all="ignore"):
            for transformer in reversed(self.transformers):
                column = np.asarray(transformer.transform(column), dtype=np.float64)
        return column[:, 0]

    def _inverse(self, values):
        # Ends of a distribution may be infinite, and its far tails may leave the inverse's domain.
        with config_context(assume_finite=True), np.errstate(all="ignore"):
            column = values.reshape(-1, 1)
            for transformer in self.transformers:
                column = np.asarray(transformer.inverse_transform(column), dtype=np.float64)
        if column.size != values.size:
            raise ValueError(
                "the transformer of TransformedTargetRegressor must map one outcome to one; its "
                f"inverse turned {values.size} outcomes into an array of shape {column.shape}."
            )
        return column.reshape(values.shape)

    def _direction(self, tails):
        """For each row: 1 where the inverse increases between the tails, -1 if it falls, else 0."""
        low, high = self.direct.quantiles(tails).T
        values = self._inverse(np.linspace(low, high, _TRIALS, axis=1))
        with np.errstate(invalid="ignore"):
            change = np.diff(values, axis=1)
        rounding = 1e-12 * (np.abs(values[:, 1:]) + np.abs(values[:, :-1]))
        falls = np.any(change < -rounding, axis=1)
        rises = np.any(change > rounding, axis=1)
        return np.where(~falls, 1, np.where(~rises, -1, 0))

    def _moments(self):
        """Mean, variance between the particles' means, and mean variance of a particle's outcome.

        Outcomes without an inverse are left out as long as they are rare.
        """
        moments = []
        for _, heads, weights in self.direct.estimator._row_noises(self.direct.X):
            mass, mean, variance = self._particle_moments(heads)
            weights = weights * mass
            defined = weights.sum(axis=1)
            weights /= np.where(defined >= 1.0 - _NEGLIGIBLE, defined, np.nan)[:, None]
            center = np.sum(weights * mean, axis=1)
            explained = np.sum(weights * np.square(mean - center[:, None]), axis=1)
            moments.append(np.stack([center, explained, np.sum(weights * variance, axis=1)]))
        return np.concatenate(moments, axis=1)

    def _particle_moments(self, heads):
        """Probability that the inverse exists, mean and variance under each particle.

        One node of the quadrature at a time updates the moments, to bound the memory.
        """
        if self.outcome.nodes is None:
            raise TypeError(
                "a transformed outcome of heavy tails need not have a mean or a variance: use "
                "quantiles and intervals, or normal noise."
            )
        mass = mean = squares = 0.0
        for values, share in self.outcome.nodes(heads):
            values = self._inverse(values)
            share = np.where(np.isnan(values), 0.0, share)
            mass = mass + share
            step = np.where(share > 0.0, values - mean, 0.0)
            fraction = share / np.where(mass > 0.0, mass, 1.0)
            mean = mean + fraction * step
            squares = squares + share * (1.0 - fraction) * step**2
        return mass, mean, squares / np.where(mass > 0.0, mass, 1.0)


def predictive(estimator, X, *, offset=None, effects=None):
    """Posterior predictive of a fitted object whose final predictor is an estimator of skstein.

    Supported are skstein's classifiers and regressors, alone or inside
    :class:`~sklearn.pipeline.Pipeline`, a search such as
    :class:`~sklearn.model_selection.GridSearchCV`,
    :class:`~sklearn.compose.TransformedTargetRegressor`,
    :class:`~sklearn.model_selection.FixedThresholdClassifier`,
    :class:`~sklearn.model_selection.TunedThresholdClassifierCV` and
    :class:`~sklearn.frozen.FrozenEstimator`, nested in any order. Another wrapper is added by
    ``predictive.register(Wrapper)``, a decorator of a function of the same arguments.

    Parameters
    ----------
    estimator : estimator instance
        Fitted.
    X : array-like of shape (n, n_features)
        What ``estimator.predict`` takes. It passes through the transformers of pipelines at once;
        everything else waits for a method of the result.
    offset : array-like of shape (n,), default=None
        Added to the linear predictor of each row; for a linear model that was fitted with one.
    effects : {"group", "population"}, default=None
        For a linear model with ``random_effects``: "group", as for None, adds the effects of the
        row's group; "population" adds none.

    Returns
    -------
    Predictive
        Its methods ``mean``, ``std``, ``quantiles``, ``interval``, ``sample_predictive``,
        ``sample_mean``, ``uncertainty`` and ``log_predictive`` give what the inner estimator's own
        methods give for the transformed X; ``crps`` is another score.

    Raises
    ------
    TypeError
        If there is no estimator of skstein inside, or one that is not a linear model is given an
        ``offset`` or ``effects``.
    ValueError
        If the offset has another length than X, or ``effects`` is another word.
    NotFittedError
        If ``estimator`` is not fitted, or is a search with ``refit=False``.

    Notes
    -----
    A threshold changes which label is predicted, not its probability: the predictive is that of the
    classifier inside.

    The inverse of a transformed outcome is taken to map each value on its own. Where it is
    monotone, but for a millionth of the outcomes at either end, quantiles are exact; where it
    decreases they swap ends. Otherwise they are those of 4097 outcomes, equally spaced in normal
    score, and good to about a thousandth in probability. Mean, standard deviation and
    uncertainty come from 64 nodes of Gauss-Hermite quadrature for each particle, exact to rounding
    for a polynomial or exponential inverse. So ``mean`` is the mean of the outcome, whereas
    ``TransformedTargetRegressor.predict`` is the inverse transform of a mean. The density is that
    of the transformed outcome over the slope of the inverse, by a difference that is good to about
    a millionth; the inverse must be monotone but for a hundredth of the outcomes at either end, and
    what those add to the density is left out. The CRPS is that of 256 outcomes with the
    probabilities of the cells around them, good to about a thousandth.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skstein import BayesianLinearRegression, predictive
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = TransformedTargetRegressor(
    ...     make_pipeline(StandardScaler(), BayesianLinearRegression(random_state=0)),
    ...     func=np.log,
    ...     inverse_func=np.exp,
    ... )
    >>> prediction = predictive(reg.fit(X, y), X[:3])
    >>> prediction.interval(0.9).shape
    (3, 2)
    >>> bool(np.all(prediction.mean() > prediction.quantiles(0.5)[:, 0]))
    True
    """
    found = _reached(estimator, X)
    direct = getattr(found, "direct", found)
    given = {"offset": offset, "effects": effects}
    for name, value in given.items():
        if value is None:
            continue
        if not hasattr(direct.estimator, f"_with_{name}"):
            raise TypeError(
                f"{name} is for linear models; {type(direct.estimator).__name__} is not one."
            )
        direct.estimator = getattr(direct.estimator, f"_with_{name}")(direct.X, value)
    return found


@singledispatch
def _reached(estimator, X):
    if isinstance(estimator, type):
        found = f"the class {estimator.__name__} instead of an instance"
    else:
        found = type(estimator).__name__
    wrappers = _reached.registry.keys() - {object, PredictsOutcomes}
    wrappers = sorted(wrapper.__name__ for wrapper in wrappers)
    raise TypeError(
        "predictive needs a fitted classifier or regressor of skstein, alone or as the final "
        f"predictor inside {', '.join(wrappers)}; found {found}."
    )


vars(predictive)["register"] = _reached.register


@_reached.register(PredictsOutcomes)
def _estimator(estimator, X):
    check_is_fitted(estimator)
    return _Direct(estimator, X)


@_reached.register(Pipeline)
def _pipeline(pipeline, X):
    check_is_fitted(pipeline)
    for _, step in pipeline.steps[:-1]:
        # Samplers, as in pipelines of imbalanced-learn, draw rows in `fit` alone.
        if step not in (None, "passthrough") and not hasattr(step, "fit_resample"):
            X = step.transform(X)
    return predictive(pipeline[-1], X)


# The class that all searches derive from; scikit-learn has no public name for it.
@_reached.register(GridSearchCV.__base__)
def _search(search, X):
    check_is_fitted(
        search,
        "best_estimator_",
        msg="This %(name)s has no best_estimator_: call fit with refit=True first.",
    )
    return predictive(search.best_estimator_, X)


@_reached.register(TransformedTargetRegressor)
def _transformed_target(regressor, X):
    check_is_fitted(regressor)
    return predictive(regressor.regressor_, X)._transformed(regressor.transformer_)


@_reached.register(FixedThresholdClassifier)
@_reached.register(TunedThresholdClassifierCV)
def _threshold(classifier, X):
    # As scikit-learn has it: without a fit of its own, a fitted estimator inside is enough.
    return predictive(getattr(classifier, "estimator_", classifier.estimator), X)


@_reached.register(FrozenEstimator)
def _frozen(frozen, X):
    return predictive(frozen.estimator, X)
