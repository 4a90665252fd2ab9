"""How good predictive distributions of numbers are: proper scores, which only the truth minimises.

Beside these there are scikit-learn's ``mean_pinball_loss``, of a quantile, and the log score,
``log_predictive`` of estimators. Means over several outcomes of a row are plain ones.
"""

import numpy as np

from .. import _jit
from .._input.validation import check_level, normalized_weights
from .._statistics.crps import crps_of_points
from .._tools.row_blocks import row_blocks
from ._average import average


def crps(y_true, samples, weights=None, *, sample_weight=None):
    """Mean continuous ranked probability score (CRPS) of draws, or of weighted points.

    The CRPS is the integral of ``(F(x) - [x >= y])^2`` over x. In the unit of y, it generalises the
    absolute error, which it is for a single point.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_targets)
        Outcomes.
    samples : array of shape (n, m) or (n, n_targets, m)
        Draws of each predictive distribution. The points themselves are scored: for m draws the
        score is worse than that of their distribution, by about its spread over m.
    weights : array of shape (m,), default=None
        Of the draws: non-negative, scaled to sum 1; equal by default.
    sample_weight : array of shape (n,), default=None
        Of the cases; equal by default.

    Returns
    -------
    score : float
        In the unit of y; smaller is better.

    Raises
    ------
    ValueError
        If the shapes do not fit, or weights are negative or all zero.

    References
    ----------
    Gneiting & Raftery (2007), "Strictly proper scoring rules, prediction, and estimation"
    (doi:10.1198/016214506000001437), section 4.2.

    Examples
    --------
    >>> from skstein.metrics import crps
    >>> crps([0.0, 5.0], [[1.0, 3.0], [4.0, 4.0]])
    1.25
    """
    y_true, samples = _outcomes(y_true), np.atleast_1d(np.asarray(samples, dtype=float))
    _require_shape(samples[..., :1], (*y_true.shape, 1), "samples", "(..., m)")
    weights = normalized_weights(weights, samples.shape[-1], "weights")
    y, rows = y_true.ravel(), samples.reshape(y_true.size, -1)
    values = np.empty(len(y))
    for block in row_blocks(len(y), 8 * len(weights)):
        values[block] = crps_of_points(y[block], rows[block], weights)
    return average(values.reshape(y_true.shape), sample_weight)


def crps_normal_mixture(y_true, means, stds, weights=None, *, sample_weight=None):
    """Mean continuous ranked probability score of mixtures of normals, in closed form.

    The limit of `crps` when the samples are draws of the mixtures and their number grows. The cost
    is quadratic in the number of components.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_targets)
        Outcomes.
    means : array of shape (n, m) or (n, n_targets, m)
        Of the m components of each mixture.
    stds : array that broadcasts against ``means``
        Non-negative; a component of standard deviation 0 is a point.
    weights : array of shape (m,), default=None
        Of the components: non-negative, scaled to sum 1; equal by default.
    sample_weight : array of shape (n,), default=None
        Of the cases; equal by default.

    Returns
    -------
    score : float
        In the unit of y; smaller is better.

    Raises
    ------
    ValueError
        If the shapes do not fit, or weights or standard deviations are negative.

    References
    ----------
    Grimit, Gneiting, Berrocal & Johnson (2006), "The continuous ranked probability score for
    circular variables and its application to mesoscale forecast ensemble verification", equation 5.

    Examples
    --------
    Of a standard normal at its mean it is ``(sqrt(2) - 1) / sqrt(pi)``:

    >>> from skstein.metrics import crps_normal_mixture
    >>> round(crps_normal_mixture([0.0], [[0.0]], 1.0), 4)
    0.2337
    """
    y_true, means = _outcomes(y_true), np.atleast_1d(np.asarray(means, dtype=float))
    stds = np.asarray(stds, dtype=float)
    _require_shape(means[..., :1], (*y_true.shape, 1), "means", "(..., m)")
    if not np.all(stds >= 0.0):
        raise ValueError("stds must not be negative.")
    weights = normalized_weights(weights, means.shape[-1], "weights")
    return average(_jit.normal_mixtures.crps(means, stds, weights, y_true), sample_weight)


def interval_score(y_true, interval, level=0.9, *, sample_weight=None):
    """Mean interval score: the width, and a penalty for each outcome outside.

    The penalty is the distance of the outcome from the interval times ``2 / (1 - level)``. Nothing
    has a better score on average than the central interval of the true distribution.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_targets)
        Outcomes.
    interval : array of shape (n, 2) or (n, n_targets, 2)
        Lower and upper ends, as ``predict_interval`` gives them.
    level : float, default=0.9
        Probability of the interval, less than 1.
    sample_weight : array of shape (n,), default=None
        Of the cases; equal by default.

    Returns
    -------
    score : float
        In the unit of y; smaller is better.

    Raises
    ------
    ValueError
        If the shapes do not fit, ``level`` is not from 0 to less than 1, or weights are negative or
        all zero.

    References
    ----------
    Gneiting & Raftery (2007), "Strictly proper scoring rules, prediction, and estimation",
    equation 43.

    Examples
    --------
    >>> from skstein.metrics import interval_score
    >>> interval_score([1.0, 4.0], [[0.0, 2.0], [1.0, 3.0]], level=0.5)
    4.0
    """
    y_true, low, high = _ends(y_true, interval)
    tail = check_level(level)[0]
    if tail == 0.0:
        raise ValueError(f"level must be less than 1 for an interval score, got {level!r}.")
    outside = np.maximum(low - y_true, 0.0) + np.maximum(y_true - high, 0.0)
    return average(high - low + outside / tail, sample_weight)


def interval_coverage(y_true, interval, *, sample_weight=None):
    """Share of the outcomes inside their interval, ends included.

    It should be near the interval's probability, and says nothing more: intervals as wide as all
    outcomes together have as good a share. Choose by `interval_score`.

    Parameters
    ----------
    y_true : array of shape (n,) or (n, n_targets)
        Outcomes.
    interval : array of shape (n, 2) or (n, n_targets, 2)
        Lower and upper ends, as ``predict_interval`` gives them.
    sample_weight : array of shape (n,), default=None
        Of the cases; equal by default.

    Returns
    -------
    coverage : float
        Between 0 and 1; nan if an outcome or an end is.

    Raises
    ------
    ValueError
        If the shapes do not fit, or weights are negative or all zero.

    Examples
    --------
    >>> from skstein.metrics import interval_coverage
    >>> interval_coverage([1.0, 4.0], [[0.0, 2.0], [1.0, 3.0]])
    0.5
    """
    y_true, low, high = _ends(y_true, interval)
    inside = np.where((low <= y_true) & (y_true <= high), 1.0, 0.0)
    unknown = np.isnan(y_true) | np.isnan(low) | np.isnan(high)
    return average(np.where(unknown, np.nan, inside), sample_weight)


def _outcomes(y_true):
    y_true = np.asarray(y_true, dtype=float)
    if y_true.ndim not in (1, 2) or not y_true.size:
        raise ValueError(
            f"y_true must be (n,) or (n, n_targets) with n >= 1, got the shape {y_true.shape}."
        )
    return y_true


def _ends(y_true, interval):
    """Outcomes, and lower and upper ends of the same shape."""
    y_true, interval = _outcomes(y_true), np.asarray(interval, dtype=float)
    _require_shape(interval, (*y_true.shape, 2), "interval", "(..., 2)")
    return y_true, interval[..., 0], interval[..., 1]


def _require_shape(array, shape, name, form):
    if array.shape != shape:
        raise ValueError(
            f"{name} must have the shape {form} with that of y_true, {shape[:-1]}, in front."
        )
