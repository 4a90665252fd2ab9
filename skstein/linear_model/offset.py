"""Offsets: what is known of the linear predictor beforehand, and enters it with coefficient 1.

There are two doors. A column of X, by the estimator's parameter ``offset``, is with the rows
wherever they go: through pipelines, searches and scorers. An argument of `fit` and of each
prediction is for one who calls these, or routes metadata.
"""

import re
from copy import copy
from functools import wraps
from inspect import Parameter, signature

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._prediction import PredictsOutcomes
from .._validation import about, check_magnitude, refuse_dask


def offset_column(offset, names, n_columns):
    """Position of the column of X that the parameter ``offset`` says, None for None."""
    if offset is None:
        return None
    known = range(n_columns) if names is None or not isinstance(offset, str) else list(names)
    if offset not in known or isinstance(offset, bool):
        columns = f"columns 0 to {n_columns - 1}" if isinstance(known, range) else f"{known}"
        raise ValueError(f"offset={offset!r} is no column of X, which has {columns}.")
    if n_columns == 1:
        raise ValueError(f"offset={offset!r} leaves no feature: X needs another column.")
    return known.index(offset)


def split(X, column):
    """The other columns of X, and one as an array of shape (n,)."""
    others = np.flatnonzero(np.arange(X.shape[1]) != column)
    values = X[:, [column]]
    return X[:, others], (values.toarray() if sparse.issparse(values) else values).ravel()


def check_offset(offset, n):
    """An offset as float64 of shape (n,), refused where it is anything else; None for None."""
    if offset is None:
        return None
    refuse_dask(offset, "offset")
    with about("offset"):
        options = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "offset"}
        offset = check_array(offset, dtype=np.float64, **options)
    if offset.shape != (n,):
        raise ValueError(
            f"offset must have one number a row of X, shape ({n},), got {offset.shape}."
        )
    check_magnitude(offset, "offset", smallest=0.0)
    return offset


_ENTRY = """offset : array-like of shape (n_samples,), default=None
    Added to the linear predictor of each row; needed where `fit` was given one."""


def with_offset(method):
    """A method of predictions that takes an offset beside X."""

    @wraps(method)
    def given_offset(self, X, *args, offset=None, **kwargs):
        return method(self if offset is None else self._at_offset(X, offset), X, *args, **kwargs)

    own = signature(method)
    offset = Parameter("offset", Parameter.KEYWORD_ONLY, default=None)
    given_offset.__signature__ = own.replace(parameters=[*own.parameters.values(), offset])
    # Behind the last parameter, which a blank line or the end of the text follows.
    section = re.search(r"\n( *)Parameters\n *-+\n.*?(?=\n *\n|\s*\Z)", method.__doc__, re.DOTALL)
    entry = "".join(f"\n{section[1]}{line}" for line in _ENTRY.splitlines())
    end = section.end()
    given_offset.__doc__ = method.__doc__[:end] + entry + method.__doc__[end:]
    return given_offset


class PredictsWithOffset(PredictsOutcomes):
    """Predictions that take an offset beside X."""

    _offset = None

    log_predictive = with_offset(PredictsOutcomes.log_predictive)
    predict_quantiles = with_offset(PredictsOutcomes.predict_quantiles)
    predict_interval = with_offset(PredictsOutcomes.predict_interval)
    predict_uncertainty = with_offset(PredictsOutcomes.predict_uncertainty)
    sample_predictive = with_offset(PredictsOutcomes.sample_predictive)
    sample_mean = with_offset(PredictsOutcomes.sample_mean)

    def _at_offset(self, X, offset):
        """The same estimator, which predicts rows with this offset."""
        check_is_fitted(self)
        if self._scaling.offset_column is not None:
            raise ValueError(
                f"offset is column {self._scaling.offset_column} of X: give no other beside X."
            )
        twin = copy(self)
        twin._offset = check_offset(offset, X.shape[0] if hasattr(X, "shape") else len(X))
        return twin

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
