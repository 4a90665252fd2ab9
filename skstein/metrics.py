"""How good a set of points is, and how good predicted probabilities are.

`ksd` needs only scores of the target, no sample from it. `expected_calibration_error` asks whether
predictions made with confidence c are right in a fraction c of the cases; `negative_log_predictive`
is the usual proper score, the log loss.
"""

import numbers

import numpy as np
from sklearn.metrics import log_loss

from .kernels import resolve_kernel

__all__ = ["expected_calibration_error", "ksd", "negative_log_predictive"]

# Entries of the Stein matrix that exist at a time; with its temporary arrays some 50 MB.
_BLOCK = 2**20


def ksd(samples, scores, weights=None, kernel="imq"):
    """Kernel Stein discrepancy ``sqrt(sum_ij w_i w_j k0(x_i, x_j))`` between points and a target.

    It is zero in expectation only for the target itself, but blind to modes that no point visits:
    no test of convergence. Use it to compare sets of points in the same coordinates with the same
    kernel.

    Parameters
    ----------
    samples : array of shape (n, d)
        Best in coordinates in which the target has about unit covariance.
    scores : array of shape (n, d)
        Gradient of the target's log density at the samples.
    weights : array of shape (n,), default=None
        Non-negative, scaled to sum 1; equal by default.
    kernel : "imq", "rbf" or Kernel, default="imq"
        Base kernel; rules for its scales are settled by the samples.

    Returns
    -------
    ksd : float

    Raises
    ------
    ValueError
        If the shapes do not fit, or weights are negative or all zero.

    References
    ----------
    Gorham & Mackey (2017), "Measuring sample quality with kernels", proposition 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.metrics import ksd
    >>> x = np.random.default_rng(0).normal(size=(1000, 2))
    >>> bool(ksd(x, -x) < ksd(x + 0.5, -x - 0.5))
    True
    """
    samples, scores = np.asarray(samples, dtype=float), np.asarray(scores, dtype=float)
    if samples.ndim != 2 or not len(samples):
        raise ValueError(f"samples must be (n, d) with n >= 1, got the shape {samples.shape}.")
    if scores.shape != samples.shape:
        raise ValueError(
            f"scores must have the shape of samples, {samples.shape}, got {scores.shape}."
        )
    n = len(samples)
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    if weights.shape != (n,):
        raise ValueError(f"weights must have the shape ({n},), got {weights.shape}.")
    if not (np.all(weights >= 0.0) and 0.0 < weights.sum() < np.inf):
        raise ValueError("weights must be finite, non-negative and not all zero.")
    weights = weights / weights.sum()
    kernel = resolve_kernel(kernel).fixed(samples)
    squared, size = 0.0, max(1, _BLOCK // n)
    for start in range(0, n, size):
        rows = slice(start, start + size)
        block = kernel.stein_matrix(samples[rows], scores[rows], samples, scores)
        squared += weights[rows] @ block @ weights
    # Rounding can leave a tiny negative sum; NaN in the scores must stay NaN.
    return float(np.sqrt(np.maximum(squared, 0.0)))


def expected_calibration_error(y_true, y_prob, n_bins=15, *, labels=None):
    """Mean gap between the confidence of the predicted class and how often it is right.

    Predictions are sorted by confidence into ``n_bins`` bins of equal width on (0, 1]; the gaps
    between mean confidence and accuracy are averaged with the bins' shares of the cases.

    Parameters
    ----------
    y_true : array of shape (n,)
        Class labels.
    y_prob : array of shape (n,) or (n, K)
        Probability of the second of two classes, or of every class in the order of ``labels``.
    n_bins : int, default=15
    labels : array of shape (K,), default=None
        Class labels; by default the sorted values of ``y_true``.

    Returns
    -------
    error : float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If shapes, labels or probabilities do not fit.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks", equation 3.

    Examples
    --------
    >>> from skstein.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1, 1, 1], [0.2, 0.8, 0.8, 0.8]), 6)
    0.2
    """
    if not isinstance(n_bins, numbers.Integral) or n_bins < 1:
        raise ValueError(f"n_bins must be a positive integer, got {n_bins!r}.")
    codes, proba = _coded(y_true, y_prob, labels)
    confidence = proba.max(axis=1)
    right = proba.argmax(axis=1) == codes
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    return float(np.abs(np.bincount(bins, weights=right - confidence)).sum() / len(codes))


def negative_log_predictive(y_true, y_prob, *, labels=None):
    """Mean of ``-log p(y_i)``, the predictive probability of what happened: the log loss.

    Parameters
    ----------
    y_true : array of shape (n,)
        Class labels.
    y_prob : array of shape (n,) or (n, K)
        Probability of the second of two classes, or of every class in the order of ``labels``.
    labels : array of shape (K,), default=None
        Class labels; by default the sorted values of ``y_true``.

    Returns
    -------
    loss : float
        In nats per case. A probability of 0 counts as the smallest number that scikit-learn's
        `log_loss` tells from it.

    Raises
    ------
    ValueError
        If shapes, labels or probabilities do not fit.

    Examples
    --------
    >>> from skstein.metrics import negative_log_predictive
    >>> round(negative_log_predictive([0, 1], [0.5, 0.25]), 4)
    1.0397
    """
    codes, proba = _coded(y_true, y_prob, labels)
    return float(log_loss(codes, proba, labels=np.arange(proba.shape[1])))


def _coded(y_true, y_prob, labels):
    """Positions of the labels (n,) and the probabilities of all classes (n, K)."""
    y_true, proba = np.asarray(y_true), np.asarray(y_prob, dtype=float)
    if y_true.ndim != 1 or not len(y_true):
        raise ValueError(f"y_true must be (n,) with n >= 1, got the shape {y_true.shape}.")
    if proba.ndim not in (1, 2) or len(proba) != len(y_true):
        raise ValueError(
            f"y_prob must be ({len(y_true)},) or ({len(y_true)}, K), got the shape {proba.shape}."
        )
    if not np.all((proba >= 0.0) & (proba <= 1.0)):
        raise ValueError("y_prob must hold probabilities between 0 and 1.")
    if proba.ndim == 1:
        proba = np.column_stack([1.0 - proba, proba])
    elif not np.allclose(proba.sum(axis=1), 1.0, rtol=0.0, atol=1e-6):
        raise ValueError("y_prob must have rows that sum to 1.")
    classes = np.unique(y_true) if labels is None else np.asarray(labels)
    if classes.shape != (proba.shape[1],):
        raise ValueError(
            f"y_prob is about {proba.shape[1]} classes, but there are {len(classes)} labels; pass "
            "all class labels as labels, in the order of the columns of y_prob."
        )
    matches = y_true[:, None] == classes
    if not np.all(matches.sum(axis=1) == 1):
        raise ValueError("labels must be distinct and hold every value of y_true.")
    return matches.argmax(axis=1), proba
