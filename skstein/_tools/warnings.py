"""Warnings that name their fit and point to the user's line."""

import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar

from sklearn.exceptions import ConvergenceWarning

from .copies import changed

# Callers of a fit are outside of these; a search and its workers are inside.
_BETWEEN = sys.stdlib_module_names | {"joblib", "skstein", "sklearn"}

_fit = ContextVar("fit", default=None)


@contextmanager
def fit_of(estimator):
    """Warnings inside begin with the estimator and its parameters that are not the defaults."""
    token = _fit.set(estimator)
    try:
        yield
    finally:
        _fit.reset(token)


def warn(message, category=ConvergenceWarning, *, by=""):
    """Warn the first caller outside of this package, scikit-learn and joblib.

    Parameters
    ----------
    message : str
        Without measured numbers, which differ from fold to fold of a search; diagnostics have them.
    category : type
    by : str
        The engine that is meant.
    """
    estimator = _fit.get()
    who = " by ".join(filter(None, ("" if estimator is None else _described(estimator), by)))
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{who}: {message}" if who else message, category, stacklevel=level + 1)


def _described(estimator):
    """The estimator in one line, without parts that differ between folds or do not matter."""
    shown = changed(estimator, random_state=None, n_jobs=None, verbose=0)
    return " ".join(shown.__repr__(N_CHAR_MAX=200).split())
