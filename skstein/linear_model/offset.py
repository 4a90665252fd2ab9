"""Offsets: what is known of the linear predictor beforehand, and enters it with coefficient 1.

There are two doors. A column of X, by the estimator's parameter ``offset``, is with the rows
wherever they go: through pipelines, searches and scorers. An argument of `fit` and of each
prediction is for one who calls these, or routes metadata.
"""

import numpy as np
from sklearn.utils import check_array

from .._input.columns import dense
from .._input.validation import about, check_magnitude, refuse_dask


def split_offset(X, column):
    """The other columns of X, and one as an array of shape (n,)."""
    return X[:, np.arange(X.shape[1]) != column], dense(X[:, [column]]).ravel()


def check_offset(offset, n):
    """An offset as float64 of shape (n,), refused where it is anything else; 0 for None."""
    if offset is None:
        return np.zeros(n)
    refuse_dask(offset, "offset")
    with about("offset"):
        options = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "offset"}
        offset = check_array(offset, dtype=np.float64, **options)
    if offset.shape != (n,):
        raise ValueError(f"offset must have one number per row, shape ({n},), got {offset.shape}.")
    check_magnitude(offset, "offset", smallest=0.0)
    return offset
