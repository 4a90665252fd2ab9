"""Predictions: averages of the outcome's distribution over the particles.

An estimator gives the outcome in `_outcome` and, in `_heads(X, theta)`, the outcome's heads for a
block of rows under each particle (`skstein.outcomes.base`). Everything else is here, block by
block.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import (
    Bunch,
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
)
from sklearn.utils.validation import check_is_fitted

from .. import shards
from .._input.class_labels import refuse_unknown
from .._input.validation import (
    about,
    check_fractions,
    check_level,
    check_sample_weight,
    refuse_dask,
)
from .._tools.parallel import one_thread
from .._tools.random import as_generator
from .._tools.row_blocks import row_blocks
from ..shards.dask_collections import lazy_on_collections


class PredictsOutcomes:
    """What predictions of all outcomes share.

    For classes they are about the probability of each class, which the posterior leaves uncertain;
    else they are about the outcome itself.
    """

    classes_: Any
    posterior_: Any
    _outcome: Any
    _heads: Callable
    _observed: Callable
    _read: Callable
    _uncertainty: Callable
    _n_outputs = 1  # numbers that one particle predicts for one row
    _rows_independent = True  # given a particle, so that their likelihood is a product

    # Of the fit: rows with a weight, if they are counted; weights of samples, and of classes.
    _n_rows: int | None = None
    _weighted = False
    _class_weight: Any = None

    def log_predictive(self, X, y):
        """Logarithm of the density, or probability, of each observed outcome.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or (n_samples, n_targets) for several outcomes
            Classes of ``classes_``, or outcomes.

        Returns
        -------
        log_predictive : ndarray of shape (n_samples,)
            Natural logarithm of a density per unit of y, or of a probability, averaged over the
            posterior; of several outcomes their joint density.

        Raises
        ------
        ValueError
            If ``y`` has another length than X, a class that was not seen in `fit`, a value that is
            not finite or cannot be observed, or another number of outcomes than in `fit`.
        """
        check_is_fitted(self)
        if shards.is_collection(X):
            return shards.by_block(self._log_predictive_of, X, y)
        return self._log_scores(X, y)

    def _log_predictive_of(self, X, y=None):
        return np.zeros(1) if y is None else self.log_predictive(X, y)

    @lazy_on_collections
    def predict_quantiles(self, X, q):
        """Quantiles of the outcome; of classes, quantiles over the posterior of each probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        q : float or array-like of shape (n_quantiles,)
            From 0 to 1; a single number gives one column.

        Returns
        -------
        quantiles : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_classes, n_quantiles)
            In units of y, exact ones of the mixture over the particles; or probabilities.

        Raises
        ------
        ValueError
            If ``q`` is outside [0, 1].
        """
        q = check_fractions(q, "q")
        return self._over_rows(X, lambda heads, w: self._outcome.quantiles(heads, w, q))

    def predict_interval(self, X, level=0.9):
        """Central interval of the outcome; of classes, credible interval of each probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            Probability of the interval, from 0 to 1.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2) or (n_samples, n_classes, 2)
            Lower and upper end, in units of y or probabilities.

        Raises
        ------
        ValueError
            If ``level`` is outside [0, 1].
        """
        return self.predict_quantiles(X, check_level(level))

    def sample_predictive(self, X, n_samples=1, random_state=None):
        """Draw outcomes, or labels, from the posterior predictive distribution.

        Each column comes from one particle, so it is a joint draw for all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        y : ndarray of shape (n_samples_X, n_samples)
            In units of y, or labels of ``classes_``.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        rng = as_generator(random_state)
        drawn = self._drawn_heads(X, n_samples, rng)
        draws = without_overflow(self._outcome.sample(heads, rng) for _, heads, _ in drawn)
        return self.classes_[draws] if self._outcome.has_classes else draws

    def sample_mean(self, X, n_samples=1, random_state=None):
        """Draw means of the outcome, or class probabilities, from the posterior: without noise.

        Each column comes from one particle, so it is a joint draw for all rows: a regression line,
        say. It varies over the columns by the uncertainty of the posterior, not by noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        means : ndarray of shape (n_samples_X, n_samples) or (n_samples_X, n_classes, n_samples)
            In units of y, of several outcomes (n_samples_X, n_targets, n_samples); or probabilities
            in the order of ``classes_``.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.

        Warns
        -----
        UserWarning
            If means of the outcome vary more than their posterior does: networks on minibatches.

        See Also
        --------
        sample_predictive : Draws of the outcome itself.
        """
        self._warn_of_means()
        drawn = self._drawn_heads(X, n_samples, random_state)
        means = without_overflow(self._outcome.expected(heads) for _, heads, _ in drawn)
        return np.moveaxis(means, 1, -1) if self._outcome.has_classes else means

    def predict_uncertainty(self, X):
        """Uncertainty of the prediction: noise of the outcome, and ignorance of the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        uncertainty : :class:`~sklearn.utils.Bunch`
            ``total``, ``aleatoric`` (the noise) and ``epistemic`` (what more data could take away),
            ndarrays of shape (n_samples,); the first is the sum of the others. Variances in squared
            units of y; or entropies of the label in nats, the epistemic one being the mutual
            information between label and parameters.

        Warns
        -----
        UserWarning
            As `sample_mean`.
        """
        self._warn_of_means()
        aleatoric, epistemic = self._uncertainty(X)
        return Bunch(total=aleatoric + epistemic, aleatoric=aleatoric, epistemic=epistemic)

    def _warn_of_means(self):
        """Warn where means of the outcome vary otherwise than their posterior does."""

    def _log_scores(self, X, y):
        return self._scores(X, y, self._outcome.log_predictive)

    def _scores(self, X, y, score):
        """Concatenate ``score(heads, weights, y)`` over blocks of the rows of X and y."""
        return self._over_rows(X, score, self._observed_at(X, y))

    def _over_rows(self, X, function, *by_row):
        """Concatenate ``function(heads, weights, *by_row)`` over blocks of the rows of X."""
        return without_overflow(
            function(heads, weights, *(values[rows] for values in by_row))
            for rows, heads, weights in self._row_heads(X)
        )

    def _over_nodes(self, X, integral):
        """Concatenate ``integral(heads, weights)`` over the blocks of `_row_noises`."""
        return without_overflow(integral(heads, w) for _, heads, w in self._row_noises(X))

    def _observed_at(self, X, y):
        """Outcomes as `_observed` gives them, one for each row of X."""
        y = self._observed(y)
        check_consistent_length(X, y)
        return y

    def _row_heads(self, X, theta=None):
        """Yield (rows, heads, weights) of each block of rows of X.

        The heads are those of the posterior's particles, or of those given, without weights.
        """
        check_is_fitted(self)
        weights = None
        if theta is None:
            theta, weights = self.posterior_.particles, self.posterior_.weights
        for rows, heads in self._by_rows(X, len(theta), partial(self._heads, theta=theta)):
            yield rows, heads, weights

    def _by_rows(self, X, m, function):
        """Yield (rows, ``function`` of them) of each block of rows of X, for ``m`` particles."""
        X = self._read(X)
        # Blocks are small enough for the cache, and too small for several threads of BLAS.
        with one_thread():
            for rows in row_blocks(X.shape[0], 8 * m * self._n_outputs):
                yield rows, function(X[rows])

    def _drawn_heads(self, X, n_samples, random_state):
        """As `_row_noises`, of ``n_samples`` draws from the posterior."""
        check_is_fitted(self)
        return self._row_heads(X, self.posterior_.sample(n_samples, random_state))

    def _row_noises(self, X):
        """As `_row_heads`, but with components whose variance is noise of the outcome only."""
        return self._row_heads(X)

    def _common_heads(self, X):
        """As `_row_noises`, with components that are one function on all rows."""
        return self._row_noises(X)


class BayesianClassifierMixin(PredictsOutcomes, ClassifierMixin):
    """Predictions of a classifier, by scikit-learn's names."""

    @wraps(ClassifierMixin.score)
    def score(self, X, y, sample_weight=None):
        if not shards.is_collection(X):
            return super().score(X, y, sample_weight)
        right, weight = _sums_over(X, y, sample_weight, partial(_accuracy, self))
        return float(right / weight)

    @property
    def _n_outputs(self):
        return len(self.classes_) if len(self.classes_) > 2 else 1

    @lazy_on_collections
    def predict_log_proba(self, X):
        """Logarithm of `predict_proba`, exact in the tails.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
        """
        return self._over_nodes(X, lambda heads, w: self._outcome.log_proba(heads, w))

    @lazy_on_collections
    def predict_proba(self, X):
        """Class probabilities, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    @lazy_on_collections
    def decision_function(self, X):
        """Log-odds of the averaged probability (two classes), or its logarithm (more classes).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        decision : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    @lazy_on_collections
    def predict(self, X):
        """Class of the largest averaged probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        codes = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[codes]

    def _observed(self, y):
        """Positions of the classes of ``y``."""
        refuse_dask(y, "y")
        y = column_or_1d(y)
        refuse_unknown(y, self.classes_, "were not seen in fit")
        return np.searchsorted(self.classes_, y)

    def _log_scores(self, X, y):
        y = self._observed_at(X, y)
        return self.predict_log_proba(X)[np.arange(len(y)), y]

    def _uncertainty(self, X):
        return self._over_nodes(X, lambda heads, w: self._outcome.uncertainty(heads, w)).T

    def _proba_std(self, X):
        return self._over_nodes(X, self._outcome.std)


class BayesianRegressorMixin(PredictsOutcomes, RegressorMixin):
    """Predictions of a regressor, by scikit-learn's names."""

    @wraps(RegressorMixin.score)
    def score(self, X, y, sample_weight=None):
        if not shards.is_collection(X):
            return super().score(X, y, sample_weight)
        return self._share_explained(X, y, sample_weight, _squares)

    def _share_explained(self, X, y, sample_weight, loss):
        """The share of the losses about the mean of y that predictions explain, by blocks."""
        left, total, weight = _sums_over(X, y, sample_weight, partial(_losses, self, loss, None))
        whole, *_ = _sums_over(X, y, sample_weight, partial(_losses, self, loss, total / weight))
        # As in scikit-learn a constant y is explained in full or not at all.
        varies = whole > 0.0
        share = 1.0 - left / np.where(varies, whole, 1.0)
        return float(np.mean(np.where(varies, share, left == 0.0)))

    @lazy_on_collections
    def predict(self, X, return_std=False):
        """Mean of the outcome, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return the standard deviation of the outcome, noise included, too.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,)
        y_std : ndarray of shape (n_samples,)
            Only if ``return_std``; in units of y.

        Warns
        -----
        UserWarning
            If one particle has a quarter of the mean of a count or an amount, an average of
            exponentials that may be infinite; with ``return_std``, of its variance.
        """
        if not return_std:
            return self._mean(X)
        mean, explained, noise = self._moments(X)
        return mean, np.sqrt(explained + noise)

    def _observed(self, y):
        """Outcomes as floats, checked."""
        refuse_dask(y, "y")
        with about("y"):
            if self._n_outputs == 1:
                y = column_or_1d(y, dtype=np.float64)
            else:
                y = check_array(y, dtype=np.float64, input_name="y")
        if y.ndim == 2 and y.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {y.shape[1]} columns, but the fit was on {self._n_outputs} outcomes."
            )
        assert_all_finite(y, input_name="y")
        self._outcome.check(y)
        return y

    def _mean(self, X):
        return self._moments(X)[0]

    def _moments(self, X):
        """Mean, variance between the particles' means, and mean noise variance of each row."""
        moments = self._over_rows(X, lambda heads, w: self._outcome.moments(heads, w))
        return np.moveaxis(moments, 1, 0)

    def _uncertainty(self, X):
        _, explained, noise = self._moments(X)
        return noise, explained


def normal_nodes(mean, spread, weights, n_nodes):
    """Points (..., m n_nodes) and weights (m n_nodes,) of mixtures of m normals, for integrals.

    With 8 nodes for each normal, integrals of polynomials up to degree 15 are exact.
    """
    nodes, shares = np.polynomial.hermite_e.hermegauss(n_nodes)
    points = mean[..., None] + spread[..., None] * nodes
    return points.reshape(*mean.shape[:-1], -1), np.outer(weights, shares / shares.sum()).ravel()


def without_overflow(blocks):
    """Predictions of all blocks, made here; refuse NaN that infinities have caused."""
    with np.errstate(over="ignore", invalid="ignore"):
        predicted = np.concatenate(list(blocks))
    if predicted.dtype.kind == "f":
        bad = np.isnan(predicted.reshape(len(predicted), -1)).any(axis=1)
        if bad.any():
            raise FloatingPointError(
                f"the prediction overflows for row {np.flatnonzero(bad)[0]} of X, which is too far "
                "from the rows that fit saw; bring X to their magnitude."
            )
    return predicted


def _sums_over(X, y, sample_weight, function):
    """Sums of what ``function(X, y, weights)`` gives of each block that has rows, or of all."""
    if not shards.is_collection(X):
        return np.array(function(X, y, check_sample_weight(sample_weight, y)))
    sums = sum(shards.bind(X, y=y, sample_weight=sample_weight).map(_of_columns, function))
    if np.ndim(sums) == 0:
        raise ValueError("X has no rows of positive weight: a score needs at least one.")
    return sums


def _of_columns(block, function):
    X, y, weights = block["X"], np.asarray(block["y"]), block.get("sample_weight")
    if not len(y) or not (weights := check_sample_weight(weights, y, True)).any():
        return 0.0
    return np.array(function(X, y, weights))


def _accuracy(estimator, X, y, weights):
    right = accuracy_score(y, estimator.predict(X), normalize=False, sample_weight=weights)
    return right, weights.sum()


def _squares(y, mean):
    return np.square(y - mean)


def _losses(estimator, loss, center, X, y, weights):
    y = estimator._observed_at(X, y)
    predicted = estimator.predict(X) if center is None else np.broadcast_to(center, y.shape)
    return np.broadcast_arrays(weights @ loss(y, predicted), weights @ y, weights.sum())
