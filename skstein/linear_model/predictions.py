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
# Nodes of the quadrature over effects of groups that were not seen: for steps and exponentials as
# many as eight times the largest variance of effects, within bounds for one predictor and for two;
_N_NODES = {1: (8, 64), 2: (8, 8)}
_MANY_NODES = 32  # of effects on the noise, which decide how likely an outlier is;
_MOST_PREDICTORS = 2  # on each of so many linear predictors at most.
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
        if not isinstance(effects, str) or effects != _LEVELS[0]:
            self = self._with_effects(X, effects)
        return method(self, X, *args, **kwargs)

    own = signature(method)
    predicted.__signature__ = own.replace(parameters=[*own.parameters.values(), *_KEYWORDS])  # type: ignore[attr-defined]
    # After the last parameter: up to the next section, or the end of the text.
    parameters = r"\n( *)Parameters\n *-+\n.*?(?=\s*\n *[A-Z][\w ]+\n *-{3,}|\s*\Z)"
    text = method.__doc__ or ""  # none by `python -OO`, and perhaps of a subclass
    if section := re.search(parameters, text, re.DOTALL):
        entries = "".join(f"\n{section[1]}{line}" for line in _ENTRIES.splitlines())
        predicted.__doc__ = text[: section.end()] + entries + text[section.end() :]
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
        if not isinstance(effects, str) or effects not in _LEVELS:
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
                heads, own = _integrated(heads, spreads * [[[0.0]], [[1.0]]], weights, _MANY_NODES)
            spread = np.repeat(spreads[0], len(own) // len(weights), axis=1)
            for at, column in zip(y[new].T, found.T, strict=True):
                by_particle = self._outcome.log_density_widened(heads, at[:, None], spread)
                column[new] = logsumexp(by_particle, axis=1, b=own)
        return found

    def _common_heads(self, X):
        return self._row_heads(X)


def _integrated(heads, spreads, weights, n_nodes=None):
    """Heads and weights of nodes of normals with ``spreads`` (k, n, m), about the first k heads."""
    for k in np.flatnonzero(np.any(spreads, axis=(1, 2))):
        n = n_nodes or int(np.clip(8.0 * spreads[k].max() ** 2, *_N_NODES[len(spreads)]))
        nodes, weights = normal_nodes(heads[k], spreads[k], weights, n)
        heads, spreads = ([np.repeat(a, n, axis=-1) for a in parts] for parts in (heads, spreads))
        heads[k] = nodes
    return heads, weights
