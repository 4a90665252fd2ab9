"""The one file that touches scikit-learn's private helpers: a new release is met in one place."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight

__all__ = [
    "HasMethods",
    "Interval",
    "StrOptions",
    "check_fractions",
    "check_kernel_bounds",
    "check_sample_weight",
    "has_callbacks",
    "validated",
]

# Engines and priors are validated by whoever uses them, also inside an estimator's fit.
validated = _fit_context(prefer_skip_nested_validation=False)


def check_sample_weight(sample_weight, X):
    """Weights as float64 of shape (n,): ones for None, else finite, non-negative, not all zero."""
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def check_fractions(values, name):
    """``values`` as a float64 array of shape (k,), refused by ``name`` if one leaves [0, 1]."""
    fractions = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if fractions.ndim != 1 or not np.all((fractions >= 0.0) & (fractions <= 1.0)):
        raise ValueError(f"{name} must be one or several numbers from 0 to 1; got {values!r}.")
    return fractions


def check_kernel_bounds(kernel):
    """Warn of every hyper-parameter of a scikit-learn kernel that is at one of its bounds."""
    kernel._check_bounds_params()


def has_callbacks(estimator):
    """Whether an estimator has callbacks: its own, or handed on by a meta-estimator."""
    return hasattr(estimator, "_skl_callbacks")
