"""Checks of parameters and data, and the only module that imports private names of scikit-learn."""

import re
from contextlib import contextmanager
from functools import wraps
from numbers import Integral

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing, assert_all_finite
from sklearn.utils._available_if import _AvailableIfDescriptor
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils.validation import _check_sample_weight
from sklearn.utils.validation import validate_data as _validate_data

from .._tools.warnings import fit_of
from .columns import dense, missing_values

# Products of a few values up to the first, and squares of values down to the second, stay in the
# range of floating point.
LARGEST, SMALLEST = 1e50, 1e-150


def validated(fit):
    """A ``fit`` or ``partial_fit`` that validates parameters, and succeeds or changes nothing.

    After any failure, an interrupt included, the attributes are as before. So their values are
    replaced, never changed in place.
    """
    # Engines and priors are validated where they are used, also inside an estimator's fit.
    fit = _fit_context(prefer_skip_nested_validation=False)(fit)

    @wraps(fit)
    def all_or_nothing(estimator, *args, **kwargs):
        before = dict(vars(estimator))
        try:
            with fit_of(estimator):
                return fit(estimator, *args, **kwargs)
        except BaseException:
            estimator.__dict__ = before
            raise

    return all_or_nothing


class _AvailableWithReason(_AvailableIfDescriptor):
    def _check(self, obj, owner):
        self.check(obj)


def available_if(check):
    """As scikit-learn's, but the AttributeError that ``check(estimator)`` raises is the message."""
    return lambda method: _AvailableWithReason(method, check, method.__name__)


def validate_data(estimator, X, y="no_validation", **options):
    """As scikit-learn's, which would silently load a Dask collection into memory.

    Values of y are left as they are, to be told apart from those of X in an error.
    """
    refuse_dask(X, "X")
    check_present(y)
    with about("X"):
        return _validate_data(estimator, X, y, **options)


def check_features(estimator, X, reset):
    """Record, or compare, the number and names of the columns of X, whatever they hold."""
    refuse_dask(X, "X")
    _validate_data(estimator, X, reset=reset, skip_check_array=True)


def columns_of(X, which):
    """A column of an array or a data frame, or several, by position."""
    return _safe_indexing(X, which, axis=1)


def is_dask(values):
    """Whether something is a Dask collection, which is told without importing Dask."""
    graph = getattr(values, "__dask_graph__", None)
    return graph is not None and graph() is not None  # of xarray, None says that it is in memory


def refuse_dask(values, name):
    """Refuse a Dask collection by name."""
    if is_dask(values):
        raise TypeError(
            f"{name} is a Dask collection, which is not taken here: give {name}.compute() if it "
            "fits in memory, and for predictions use X.map_blocks(estimator.predict)."
        )


def check_present(y):
    """Refuse outcomes that are a Dask collection, complex, or missing."""
    refuse_dask(y, "y")
    if np.asarray(y).dtype.kind == "c":
        raise ValueError("y must hold real numbers: Complex data not supported.")
    if y is not None and missing_values(np.asarray(y).ravel()).any():
        raise ValueError("Input y contains NaN.")


@contextmanager
def about(name):
    """Name the argument in an error of NumPy or pandas, which do not know it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = re.search(r"could not convert string to float: (?:np\.str_\()?('.*?')", str(error))
        if text:
            cure = ": encode it first, for example with OneHotEncoder" if name == "X" else ""
            raise ValueError(f"{name} has text in it ({text[1]}){cure}.") from error
        known = rf"\b({name}|[Ss]ample.weights?|y|samples?|features?|column names|required by)\b"
        if re.search(known, str(error)):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        (reason, *_) = re.split(r"\.\s|\n", str(error))
        raise kind(
            f"{name} must hold real numbers, with text and categories encoded as such: {reason}"
        ) from error


def check_sample_weight(sample_weight, X, may_be_zero=False):
    """Weights as float64 of shape (n,): ones for None, else finite and non-negative.

    All of them are zero only if ``may_be_zero``.
    """
    refuse_dask(sample_weight, "sample_weight")
    with about("sample_weight"):
        options = {"ensure_non_negative": True, "allow_all_zero_weights": may_be_zero}
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, **options)
    check_magnitude(weights, "sample_weight", smallest=0.0)
    return weights


def drop_weightless(X, y, sample_weight, *others):
    """Leave out samples of weight zero, so that they define no class and no mean."""
    kept, arrays = sample_weight > 0.0, (X, y, sample_weight, *others)
    return arrays if kept.all() else tuple(values[kept] for values in arrays)


def check_magnitude(values, name, smallest=SMALLEST):
    """Refuse values that are not finite or too large to be squared, and columns that are too small.

    A column that is zero everywhere may stay.
    """
    table = values if values.ndim == 2 else values[:, None]
    least, most = dense(table.min(axis=0)), dense(table.max(axis=0))
    sizes = np.maximum(most, -least).astype(float)
    wrong = sizes[~((sizes <= LARGEST) & ((sizes >= smallest) | (sizes == 0.0)))]
    if len(wrong):
        raise ValueError(
            f"{name} holds a value of magnitude {wrong[0]:.3g}, outside {smallest:g} to "
            f"{LARGEST:g}; change its unit."
        )


def check_outcomes(y):
    """Outcomes as float64, finite and of moderate size."""
    with about("y"):
        y = y.astype(np.float64)
    assert_all_finite(y, input_name="y")
    check_magnitude(y, "y")
    return y


def check_count(value, name):
    """``value`` as an int; refused by ``name`` if it is not a positive whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    return int(value)


def check_fractions(values, name, number="one or several numbers"):
    """``values`` as a float64 array of shape (k,), refused by ``name`` if one is outside [0, 1]."""
    with about(name):
        fractions = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if fractions.ndim != 1 or not np.all((fractions >= 0.0) & (fractions <= 1.0)):
        raise ValueError(f"{name} must be {number} from 0 to 1; got {values!r}.")
    return fractions


def check_fraction(value, name):
    """One number from 0 to 1, refused by ``name``."""
    fractions = check_fractions(value, name, "one number")
    if len(fractions) != 1:
        raise ValueError(f"{name} must be one number from 0 to 1; got {value!r}.")
    return float(fractions[0])


def check_level(level):
    """Check ``level``; return the quantiles that an interval of this probability lies between."""
    level = check_fraction(level, "level")
    return np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])


def normalized_weights(weights, n, name):
    """Weights (n,) that sum to 1."""
    with about(name):
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    if weights.shape != (n,):
        raise ValueError(f"{name} must have the shape ({n},), got {weights.shape}.")
    if not (np.all(weights >= 0.0) and 0.0 < weights.sum() < np.inf):
        raise ValueError(f"{name} must be finite, non-negative and not all zero.")
    return weights / weights.sum()
