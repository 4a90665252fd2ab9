"""What predictions of the linear models take beside X: an offset, and whose effects they have.

Every method that predicts takes both keywords. Each is answered by a copy of the estimator that
knows them, so that the methods themselves read X alone.
"""

import re
from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import shards
from .._predictions.methods import PredictsOutcomes, without_overflow
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
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(8)  # over effects of groups not seen,
_SHARES = _SHARES / _SHARES.sum()
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

    def _row_noises(self, X, y=None):
        # An effect of a group that was not seen is integrated over: where its exponential counts,
        # or its outcome is known, the mean of a draw for each particle may be far off.
        integrals = self._effects is not None and self._level == _LEVELS[0]
        if not integrals or self._outcome.n_predictors > _MOST_PREDICTORS:
            yield from super()._row_noises(X)
            return
        read, theta = self._read(X), self.posterior_.particles
        for rows, heads, weights in changed(self, _level=SEEN)._row_heads(X):
            spreads = self._effects.spreads(read[rows], theta)
            at = None if y is None else partial(_located, self._outcome, y[rows, None])
            yield rows, *_integrated(heads, spreads, weights, at)

    def _log_scores(self, X, y):
        y, log_predictive = self._observed_at(X, y), self._outcome.log_predictive
        blocks = self._row_noises(X, None if self._outcome.has_classes else y)
        return without_overflow(log_predictive(heads, w, y[rows]) for rows, heads, w in blocks)

    def _common_heads(self, X):
        return self._row_heads(X)


def _integrated(heads, spreads, weights, at=None):
    """Heads and weights of nodes of normals with ``spreads`` (k, n, m), about the first k heads.

    ``at(heads, spread)`` says where those of the first head are needed, and how far apart.
    """
    for k in reversed(range(len(spreads))):
        if spreads[k].any():
            middle, width = at(heads, spreads[k]) if at is not None and k == 0 else (0.0, 1.0)
            nodes = middle + width * _NODES
            weights = weights[..., None] * _SHARES * width * np.exp(0.5 * (_NODES**2 - nodes**2))
            weights = weights.reshape(*weights.shape[:-2], -1)
            moved = heads[k][..., None] + spreads[k][..., None] * nodes
            repeated = partial(np.repeat, repeats=len(_NODES), axis=-1)
            heads, spreads = list(map(repeated, heads)), list(map(repeated, spreads))
            heads[k] = moved.reshape(len(moved), -1)
    return heads, weights


def _located(outcome, y, heads, spread):
    """Mode and scale of an effect given the outcome, in units of ``spread`` (n, m)."""
    # Of locations it is near y, to which no way leads through the tails of a Student t.
    u = outcome.location_scale * np.clip((y - heads[0]) / np.maximum(spread, 1e-300), -20.0, 20.0)
    for _ in range(50):  # of Newton's method
        eta = [heads[0] + spread * u, *heads[1:]]
        bend = 1.0 + spread**2 * np.maximum(outcome.curvature(eta, y)[0][0], 0.0)
        step = np.clip((spread * outcome.residual(eta, y)[0] - u) / bend, -1.0, 1.0)
        u = np.clip(u + step, -20.0, 20.0)
        if np.abs(step).max() < 1e-3:
            break
    return u[..., None], bend[..., None] ** -0.5
