"""What every estimator shares: from data to a posterior, and from a posterior to predictions.

An estimator builds a target, hands it to `skstein.inference.infer` and keeps the particles. All its
predictions are averages over them: an estimator only says, in `_particle_outputs(X, theta)`, what
each particle predicts for a block of rows, and the mixins below do the averaging block by block.
"""

import warnings
from contextlib import contextmanager
from copy import copy
from functools import partial

import numpy as np
from scipy.special import expit, logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import (
    Bunch,
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from ._blocks import row_blocks
from ._callbacks import ProgressLines, RoundTasks, between_rounds
from ._jit.predict import log_mean_proba, mean_entropy, normal_mixture_quantile
from ._parallel import one_thread
from ._random import as_generator
from ._validation import about, check_fractions, has_callbacks
from .inference import resolve_engine
from .inference._infer import run_engine, run_update
from .posterior import weighted_quantile


class VersionWarning(InconsistentVersionWarning):
    """An estimator was saved by another version of skstein; scikit-learn's warning is its base."""

    def __init__(self, estimator_name, written):
        self.estimator_name = estimator_name
        self.original_skstein_version = written
        self.current_skstein_version = _version()

    def __str__(self):
        return (
            f"{self.estimator_name} was saved by skstein {self.original_skstein_version} and is "
            f"loaded by {self.current_skstein_version}: its predictions may be wrong or fail; fit "
            "it again, or load it with the version that saved it."
        )


def _version():
    from . import __version__

    return __version__


class VersionedPickles:
    """What is pickled carries the version of skstein, and warns when another one loads it."""

    def __getstate__(self):
        return {**super().__getstate__(), "_skstein_version": _version()}

    def __setstate__(self, state):
        state = dict(state)
        written = state.pop("_skstein_version", "before 0.1.0")
        if written != _version():
            warnings.warn(VersionWarning(type(self).__name__, written), stacklevel=2)
        super().__setstate__(state)


class BayesianEstimator(VersionedPickles, CallbackSupportMixin, BaseEstimator):
    """Base class: parameters that may be names, inference, and a walk over the rows of X."""

    # Parameters that may be a name, and what turns the name into an instance with its defaults.
    _named_parameters: dict = {"inference": resolve_engine}

    def set_params(self, **params):
        """Set the parameters of this estimator and of what it contains.

        A parameter given by name, such as ``inference="pmd"`` or ``prior="normal"``, becomes an
        instance of its own when a nested parameter arrives, so that a grid may hold both
        ``inference`` and ``inference__n_particles``.

        Parameters
        ----------
        **params : dict
            Parameters, nested ones as ``<component>__<parameter>``.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a name or a nested parameter is unknown.
        TypeError
            If a component is a class instead of an instance.
        """
        components = {key.partition("__")[0] for key in params if "__" in key}
        for name in sorted(components & self._named_parameters.keys()):
            value = params.get(name, getattr(self, name))
            if isinstance(value, str | type):
                params[name] = self._named_parameters[name](value)
        return super().set_params(**params)

    def _infer(self, target, bijection, X, y, sample_weight, **fitted):
        """Run the engine on `target`, and set the attributes that follow from the posterior.

        The posterior is kept in the coordinates of `bijection`, or as it is for None. X, y and the
        weights are those that `fit` was given: callbacks see and score them as the user would.
        ``fitted`` are further attributes, without which the posterior could not be read: they
        change with it.
        """

        engine = self._engine(target)
        self.inference_ = engine.last_stage
        attributes = partial(self._attributes, bijection, target.names, fitted)
        event, init = self._event(X, y, sample_weight), self._earlier(target, bijection)
        with self._rounds(engine.n_rounds(target), event, attributes) as callback:
            posterior = run_engine(
                target,
                engine,
                init=init,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
                callback=callback,
            )
            vars(self).update(attributes(posterior))
        return self

    def _engine(self, target):
        """The engine that finds the posterior of a target, to be run as it is."""
        return resolve_engine(self.inference)

    def _earlier(self, target, bijection):
        """What a warm start goes on from, before `bijection`; None without one."""
        previous = getattr(self, "posterior_", None) if self.warm_start else None
        if previous is None:
            return None
        if previous.names != tuple(target.names):
            raise ValueError(
                "warm_start=True goes on with the same features and classes as the fit before; "
                "these have other names or another number. Fit with warm_start=False."
            )
        return previous.pulled(bijection)

    def _update(self, target, bijection, X, y, sample_weight, **fitted):
        """Take further rows into the posterior, by the engine's own `update`; as `_infer` else."""
        self.inference_ = resolve_engine(self.inference)
        attributes = partial(self._attributes, bijection, target.names, fitted)
        with self._rounds(1, self._event(X, y, sample_weight), attributes) as callback:
            posterior = run_update(self.posterior_, target, self.inference_, n_jobs=self.n_jobs)
            if callback is not None:
                callback(1, 1, partial(copy, posterior), {})
            vars(self).update(attributes(posterior))
        return self

    def _event(self, X, y, sample_weight):
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        return {"estimator": self, "X": X, "y": y, "metadata": metadata}

    def _attributes(self, bijection, names, fitted, posterior):
        """``fitted``, and the attributes that follow from a posterior before `bijection`."""
        if bijection is not None:
            posterior = posterior.pushed(bijection, names)
        # Chains keep all their draws, which only a warm start needs.
        if not self.warm_start and self.inference_.update is None:
            posterior.state = None
        fitted = {**fitted, "posterior_": posterior, "n_iter_": posterior.n_iter}
        twin = copy(self)
        vars(twin).update(fitted)
        return fitted | twin._summaries(posterior)

    @contextmanager
    def _rounds(self, n_rounds, event, attributes):
        """Tell scikit-learn's callbacks of a fit; gives what is to be called after each round.

        `event` is what every hook is told, and ``attributes(posterior)`` gives the attributes of an
        estimator fitted with that posterior.
        """
        context = self._init_callback_context(max_subtasks=n_rounds)
        context.call_on_fit_task_begin(**event)
        lines = [ProgressLines(type(self).__name__)] if self.verbose else []
        tasks = [RoundTasks(context, event, attributes)] if has_callbacks(self) else []
        yield between_rounds(*lines, *tasks) if lines or tasks else None
        for task in tasks:
            task.close()
        context.call_on_fit_task_end(**event, reconstruction_attributes={})

    def _summaries(self, posterior):
        """The fitted attributes that summarise `posterior`, by name."""
        return {}

    def _over_rows(self, X, function, theta=None, weights=None):
        """Concatenate ``function(outputs, weights)`` over blocks of the rows of X."""
        blocks = self._row_outputs(X, theta, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            result = np.concatenate([function(outputs, weights) for _, outputs, weights in blocks])
        _require_no_overflow(result)
        return result

    def _row_outputs(self, X, theta=None, weights=None):
        """Yield (rows, outputs, weights) of each block of rows of X.

        The outputs are those of the posterior's particles, or of those given.
        """
        check_is_fitted(self)
        with about("X"):
            X = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")
        if theta is None:
            theta, weights = self.posterior_.particles, self.posterior_.weights
        blocks = row_blocks(X.shape[0], 8 * len(theta) * self._n_outputs)
        # Blocks are small enough for the cache, and too small to be worth several threads of BLAS.
        with one_thread():
            for rows in blocks:
                yield rows, self._particle_outputs(X[rows], theta), weights


class BayesianClassifierMixin(ClassifierMixin):
    """Predictions of a classifier, all averages over the particles.

    The estimator's ``_particle_outputs(X, theta)`` returns the log-odds of the second class, of
    shape (n, m), when there are two classes, else unnormalised log probabilities of shape
    (n, m, n_classes).
    """

    @property
    def _n_outputs(self):
        return len(self.classes_)

    def predict_log_proba(self, X):
        """Logarithm of `predict_proba`, exact in the tails.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
        """
        return self._over_rows(X, log_mean_proba)

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

    def log_predictive(self, X, y):
        """Logarithm of the probability of each observed class, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes of ``classes_``.

        Returns
        -------
        log_predictive : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If ``y`` has another length than X, or a class that was not seen in `fit`.
        """
        log_proba = self.predict_log_proba(X)
        y = column_or_1d(y)
        check_consistent_length(log_proba, y)
        unseen = np.setdiff1d(y, self.classes_)
        if len(unseen):
            raise ValueError(f"y holds classes that were not seen in fit: {unseen.tolist()}.")
        return log_proba[np.arange(len(y)), np.searchsorted(self.classes_, y)]

    def predict_quantiles(self, X, q):
        """Quantiles, over the posterior, of the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        q : float or array-like of shape (n_quantiles,)
            From 0 to 1.

        Returns
        -------
        quantiles : ndarray of shape (n_samples, n_classes, n_quantiles)

        Raises
        ------
        ValueError
            If ``q`` leaves [0, 1].
        """
        q = check_fractions(q, "q")

        def quantiles(logits, weights):
            by_particle = np.moveaxis(_probabilities(logits), 1, 0)
            return np.moveaxis(weighted_quantile(by_particle, weights, q), 0, -1)

        return self._over_rows(X, quantiles)

    def predict_interval(self, X, level=0.9):
        """Central credible interval of the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            Posterior probability of the interval, from 0 to 1.

        Returns
        -------
        interval : ndarray of shape (n_samples, n_classes, 2)
            Lower and upper end.

        Raises
        ------
        ValueError
            If ``level`` leaves [0, 1].
        """
        return self.predict_quantiles(X, _ends(level))

    def sample_predictive(self, X, n_samples=1, random_state=None):
        """Draw labels from the posterior predictive distribution.

        Each column comes from one particle, so it is a joint draw of the labels of all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        labels : ndarray of shape (n_samples_X, n_samples)

        Raises
        ------
        ValueError
            If ``n_samples`` is no positive integer.
        """
        check_is_fitted(self)
        rng = as_generator(random_state)
        theta = self.posterior_.sample(n_samples, rng)

        def draw(logits, weights):
            cumulative = np.cumsum(_probabilities(logits), axis=2)[:, :, :-1]
            uniform = rng.random(cumulative.shape[:2])
            return np.sum(uniform[:, :, None] > cumulative, axis=2)

        return self.classes_[self._over_rows(X, draw, theta)]

    def predict_uncertainty(self, X):
        """Entropy of the prediction, split into noise of the label and ignorance of the model.

        ``epistemic`` is the mutual information between label and parameters: what more data could
        take away.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        uncertainty : :class:`~sklearn.utils.Bunch`
            ``total``, ``aleatoric`` and ``epistemic``, ndarrays of shape (n_samples,), in nats;
            the first is the sum of the others.
        """

        def entropies(logits, weights):
            log_proba = log_mean_proba(logits, weights)
            proba = np.exp(log_proba)
            total = -np.sum(proba * np.where(proba > 0.0, log_proba, 0.0), axis=1)
            return np.column_stack([total, mean_entropy(logits, weights)])

        total, aleatoric = self._over_rows(X, entropies).T
        # Rounding alone can turn the order round where all particles agree.
        epistemic = np.maximum(total - aleatoric, 0.0)
        return Bunch(total=aleatoric + epistemic, aleatoric=aleatoric, epistemic=epistemic)


class BayesianRegressorMixin(RegressorMixin):
    """Predictions of a regressor whose outcome is normal given a particle: a mixture of normals.

    The estimator's ``_particle_outputs(X, theta)`` returns the means, of shape (n, m), or
    (n, n_targets, m) where there are several outcomes, and the variances around them, of any shape
    that broadcasts against the means.
    """

    _n_outputs = 1

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
        """
        mean, explained, noise = self._moments(X)
        return (mean, np.sqrt(explained + noise)) if return_std else mean

    def log_predictive(self, X, y):
        """Logarithm of the density of each observed outcome, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or (n_samples, n_targets) for several outcomes

        Returns
        -------
        log_predictive : ndarray of shape (n_samples,)
            Natural logarithm of a density per unit of y; of the joint density of all outcomes.

        Raises
        ------
        ValueError
            If ``y`` is not finite, has another length than X, or another number of outcomes than
            in `fit`.
        """
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
        check_consistent_length(X, y)
        result = []
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, (means, variances), weights in self._row_outputs(X):
                standard = (y[rows, ..., None] - means) ** 2 / variances
                standard += np.log(2 * np.pi * variances)
                joint = standard.reshape(len(standard), -1, len(weights)).sum(axis=1)
                result.append(logsumexp(-0.5 * joint, axis=1, b=weights))
        result = np.concatenate(result)
        _require_no_overflow(result)
        return result

    def predict_quantiles(self, X, q):
        """Quantiles of the outcome: exact ones of the mixture of normals over the particles.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        q : float or array-like of shape (n_quantiles,)
            From 0 to 1.

        Returns
        -------
        quantiles : ndarray of shape (n_samples, n_quantiles)
            In units of y.

        Raises
        ------
        ValueError
            If ``q`` leaves [0, 1].
        """
        q = check_fractions(q, "q")
        return self._over_rows(
            X, lambda outputs, w: normal_mixture_quantile(outputs[0], np.sqrt(outputs[1]), w, q)
        )

    def predict_interval(self, X, level=0.9):
        """Central prediction interval of the outcome.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            Probability that the outcome falls in the interval, from 0 to 1.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper end, in units of y.

        Raises
        ------
        ValueError
            If ``level`` leaves [0, 1].
        """
        return self.predict_quantiles(X, _ends(level))

    def sample_predictive(self, X, n_samples=1, random_state=None):
        """Draw outcomes from the posterior predictive distribution.

        Each column comes from one particle, so it is a joint draw of the outcomes of all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        y : ndarray of shape (n_samples_X, n_samples)
            In units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is no positive integer.
        """
        check_is_fitted(self)
        rng = as_generator(random_state)
        theta = self.posterior_.sample(n_samples, rng)

        def draw(outputs, weights):
            means, variances = outputs
            return means + np.sqrt(variances) * rng.standard_normal(means.shape)

        return self._over_rows(X, draw, theta)

    def predict_uncertainty(self, X):
        """Variance of the prediction, split into noise of the outcome and ignorance of the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        uncertainty : :class:`~sklearn.utils.Bunch`
            ``total``, ``aleatoric`` (the noise) and ``epistemic`` (what more data could take away),
            ndarrays of shape (n_samples,), in squared units of y; the first is the sum of the
            others.
        """
        _, explained, noise = self._moments(X)
        return Bunch(total=explained + noise, aleatoric=noise, epistemic=explained)

    def _moments(self, X):
        """Mean, variance between the particles' means, and mean noise variance of each row."""

        def moments(outputs, weights):
            means, variances = outputs
            mean = means @ weights
            between = np.square(means - mean[..., None]) @ weights
            return np.stack([mean, between, np.full_like(mean, variances @ weights)], axis=1)

        return np.moveaxis(self._over_rows(X, moments), 1, 0)

    def _row_noises(self, X):
        """As `_row_outputs`, of components so fine that the variances are those of the noise."""
        return self._row_outputs(X)


def _require_no_overflow(predicted):
    """Refuse a prediction that is NaN because infinities met on the way."""
    bad = np.isnan(predicted.reshape(len(predicted), -1)).any(axis=1)
    if bad.any():
        raise FloatingPointError(
            f"the prediction overflows for row {np.flatnonzero(bad)[0]} of X, which is too far "
            "from the rows that fit saw; bring X to their magnitude."
        )


def _ends(level):
    (level,) = check_fractions(level, "level")
    return np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])


def _probabilities(logits):
    """Class probabilities of each particle, shape (n, m, n_classes)."""
    if logits.ndim == 2:
        return np.stack([expit(-logits), expit(logits)], axis=2)
    return softmax(logits, axis=2)
