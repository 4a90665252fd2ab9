"""What predictions of the linear models take beside X: an offset, and whose effects they have.

Every method that predicts takes both keywords. Each is answered by a copy of the estimator that
knows them, so that the methods themselves read X alone.
"""

import re
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from .. import shards
from .._predictions.methods import PredictsOutcomes, normal_nodes, without_overflow
from .._tools.copies import changed
from .offset import check_offset

_PREDICTIONS = (
    "decision_function",
    "log_predictive",
    "predict",
    "predict_interval",
    "predict_log_proba",
    "predict_pmf",
    "predict_proba",
    "predict_quantiles",
    "predict_uncertainty",
    "sample_mean",
    "sample_predictive",
    "score",
)
_LEVELS = ("group", "population")
SEEN = "seen"  # within the package: the effects of groups that `fit` has seen, of others none
_N_NODES = 8  # of the quadrature over effects of groups that were not seen,
_MOST_PREDICTORS = 2  # on each of so many linear predictors at most
_KEYWORDS = [
    Parameter("offset", Parameter.KEYWORD_ONLY, default=None),
    Parameter("effects", Parameter.KEYWORD_ONLY, default=_LEVELS[0]),
]
_ENTRIES = """offset : array-like of shape (n_samples,), default=None
    Added to the linear predictor of each row; needed where `fit` was given one.
effects : {"group", "population"}, default="group"
    Of a model with ``random_effects``: whether a row has the effects of its group, which are drawn
    from the fitted distribution if the group was not seen in `fit`, or none."""


def _with_keywords(method):
    """A method of predictions that takes ``offset`` and ``effects`` beside X."""

    @wraps(method)
    def predicted(self, X, *args, offset=None, effects=_LEVELS[0], **kwargs):
        if offset is not None:
            self = self._with_offset(X, offset)
        if effects != _LEVELS[0]:
            self = self._with_effects(X, effects)
        return method(self, X, *args, **kwargs)

    own = signature(method)
    predicted.__signature__ = own.replace(parameters=[*own.parameters.values(), *_KEYWORDS])  # type: ignore[attr-defined]
    # After the last parameter: up to the next section, or the end of the text.
    parameters = r"\n( *)Parameters\n *-+\n.*?(?=\s*\n *[A-Z][\w ]+\n *-{3,}|\s*\Z)"
    section = re.search(parameters, method.__doc__, re.DOTALL)
    entries = "".join(f"\n{section[1]}{line}" for line in _ENTRIES.splitlines())  # type: ignore[index]
    end = section.end()  # type: ignore[union-attr]
    predicted.__doc__ = method.__doc__[:end] + entries + method.__doc__[end:]
    return predicted


class LinearPredictions(PredictsOutcomes):
    """Predictions that take an offset and ``effects`` beside X."""

    _scaling: Any
    _check_offset: Callable
    _effects: Any
    _offset = None
    _level = _LEVELS[0]

    def __init_subclass__(cls, **kwargs):
        for name in _PREDICTIONS:
            method = getattr(cls, name, None)
            if method is not None and "effects" not in signature(method).parameters:
                setattr(cls, name, _with_keywords(method))
        super().__init_subclass__(**kwargs)

    def _with_offset(self, X, offset):
        """The same estimator, which predicts rows with this offset."""
        check_is_fitted(self)
        if shards.is_collection(X):
            raise TypeError(
                "predictions of X in blocks take no offset beside it: fit with offset= the name or "
                "position of a column of X."
            )
        if self._scaling.offset_column is not None:
            raise ValueError(
                f"offset is column {self._scaling.offset_column} of X: give no other beside X."
            )
        offset = check_offset(offset, X.shape[0] if hasattr(X, "shape") else len(X))
        self._check_offset(np.any(offset))
        return changed(self, _offset=offset)

    def _with_effects(self, X, effects):
        """The same estimator, whose predictions have the effects of groups, or none."""
        if effects not in _LEVELS:
            raise ValueError(f'effects must be "group" or "population", got {effects!r}.')
        return changed(self, _level=effects)

    def _row_heads(self, X, theta=None):
        check_is_fitted(self)
        if self._scaling.offset_given and self._offset is None:
            raise ValueError(
                "offset is missing: fit was given one, so give the prediction one for each row of "
                "X, or fit with offset= the name or position of a column of X."
            )
        for rows, heads, weights in super()._row_heads(X, theta):
            if self._offset is not None:
                heads[0] += self._offset[rows, None]
            yield rows, heads, weights

    def _integrates(self):
        """Whether there are effects of groups that were not seen, and few enough to integrate."""
        effects = self._effects is not None and self._level == _LEVELS[0]
        return effects and self._outcome.n_predictors <= _MOST_PREDICTORS

    def _row_spreads(self, X):
        """As `_row_heads` with effects of groups that were seen; also the spreads of the others."""
        read, theta = self._read(X), self.posterior_.particles
        for rows, heads, weights in changed(self, _level=SEEN)._row_heads(X):
            yield rows, heads, weights, self._effects.spreads(read[rows], theta)

    def _row_noises(self, X):
        # Where the exponential of an effect counts, the mean of a draw for each particle may be far
        # off.
        if not self._integrates():
            yield from super()._row_noises(X)
            return
        for rows, heads, weights, spreads in self._row_spreads(X):
            yield rows, *_integrated(heads, spreads, weights)

    def _log_scores(self, X, y):
        if not self._integrates() or self._outcome.has_classes:
            return super()._log_scores(X, y)
        return self._log_densities(X, self._observed_at(X, y)[:, None])[:, 0]

    def _log_densities(self, X, y):
        """Log densities (n, k) of outcomes (n, k), with integrals over effects of new groups."""
        return without_overflow(self._block_densities(y, *block) for block in self._row_spreads(X))

    def _block_densities(self, y, rows, heads, weights, spreads):
        y, log_predictive = y[rows], self._outcome.log_predictive
        found = np.stack([log_predictive(heads, weights, column) for column in y.T], axis=1)
        new = spreads.any(axis=(0, 2))
        if new.any():
            heads = [head[new] if head.ndim > 1 else head for head in heads]
            spreads, own = spreads[:, new], weights
            if len(spreads) > 1:
                heads, own = _integrated(heads, spreads * [[[0.0]], [[1.0]]], weights)
            spread = np.repeat(spreads[0], len(own) // len(weights), axis=1)
            arguments = self._outcome, heads, spread, own
            found[new] = np.transpose([_log_integral(*arguments, at) for at in y[new].T])
        return found

    def _common_heads(self, X):
        return self._row_heads(X)


def _integrated(heads, spreads, weights):
    """Heads and weights of nodes of normals with ``spreads`` (k, n, m), about the first k heads."""
    for k in range(len(spreads)):
        if spreads[k].any():
            nodes, weights = normal_nodes(heads[k], spreads[k], weights, _N_NODES)
            heads, spreads = (
                [np.repeat(part, _N_NODES, axis=-1) for part in parts] for parts in (heads, spreads)
            )
            heads[k] = nodes
    return heads, weights


def _log_integral(outcome, heads, spread, weights, y):
    """Log density of each outcome (n,) where its location has normal errors of ``spread`` (n, m).

    It may be narrow beside them, or far out. So the nodes for a particle are about the mode of the
    error given the outcome; of a Student t there may be two, of which the larger one counts.
    """

    def at(u):
        return outcome.log_density([heads[0] + spread * u, *heads[1:]], y) - 0.5 * u**2

    y = y[:, None]
    u = np.stack([0.0 * spread, (y - heads[0]) / np.maximum(spread, 1e-300)])
    u = u[: 1 + outcome.location_scale]
    low, high = np.full(u.shape, -np.inf), np.full(u.shape, np.inf)
    for _ in range(100):  # of Newton's method between bounds
        eta = [heads[0] + spread * u, *heads[1:]]
        width = (1.0 + spread**2 * np.maximum(outcome.curvature(eta, y)[0][0], 0.0)) ** -0.5
        step = (spread * outcome.residual(eta, y)[0] - u) * width**2
        step[np.abs(step) < 0.01 * width] = 0.0  # whatever the other rows need
        if not step.any():
            break
        low, high = np.where(step > 0.0, u, low), np.where(step > 0.0, high, u)
        moved = u + np.clip(step, -1.0 - np.abs(u), 1.0 + np.abs(u))
        u = np.where((moved >= low) & (moved <= high), moved, 0.5 * (low + high))
    node, share = np.polynomial.hermite_e.hermegauss(_N_NODES)
    node, share = (part[:, None, None, None] for part in (node, share / share.sum()))
    value = np.logaddexp.reduce(at(u + width * node) + 0.5 * node**2 + np.log(share * width))
    return logsumexp(value.max(axis=0), axis=1, b=weights)
