"""How good predicted probabilities of classes are: against what happened, and against others."""

import numpy as np

from .._input.validation import check_count, normalized_weights


def expected_calibration_error(y_true, y_prob, n_bins=15, *, labels=None, sample_weight=None):
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
    sample_weight : array of shape (n,), default=None
        Of the cases; equal by default.

    Returns
    -------
    error : float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If shapes, labels, probabilities or weights do not fit.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks"
    (arXiv:1706.04599), equation 3.

    Examples
    --------
    >>> from skstein.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1, 1, 1], [0.2, 0.8, 0.8, 0.8]), 6)
    0.2
    """
    check_count(n_bins, "n_bins")
    codes, proba = _coded(y_true, y_prob, labels)
    shares = normalized_weights(sample_weight, len(codes), "sample_weight")
    confidence = proba.max(axis=1)
    right = proba.argmax(axis=1) == codes
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    return float(np.abs(np.bincount(bins, weights=shares * (right - confidence))).sum())


def agreement(y_prob, reference):
    """Fraction of the cases for which two predictive distributions name the same class.

    Parameters
    ----------
    y_prob, reference : arrays of shape (n,) or (n, K)
        Probability of the second of two classes, or of every class. Of classes that are equally
        probable the first one counts as named.

    Returns
    -------
    agreement : float
        Between 0 and 1; 1 for identical predictions.

    Raises
    ------
    ValueError
        If shapes or probabilities do not fit.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy"
    (arXiv:2201.07130), section 4, after Izmailov, Vikram, Hoffman & Wilson (2021), "What are
    Bayesian neural network posteriors really like?"

    Examples
    --------
    >>> from skstein.metrics import agreement
    >>> agreement([0.1, 0.6, 0.9, 0.8], [0.2, 0.4, 0.7, 0.9])
    0.75
    """
    first, second = _two_predictions(y_prob, reference)
    return float(np.mean(first.argmax(axis=1) == second.argmax(axis=1)))


def total_variation(y_prob, reference):
    """Mean total variation distance between two predictive distributions.

    For each case it is half the sum of the absolute differences over classes: the largest
    difference between the probabilities that the two give to any set of classes.

    Parameters
    ----------
    y_prob, reference : arrays of shape (n,) or (n, K)
        Probability of the second of two classes, or of every class.

    Returns
    -------
    distance : float
        Between 0 and 1; 0 for identical predictions.

    Raises
    ------
    ValueError
        If shapes or probabilities do not fit.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy",
    equation 17.

    Examples
    --------
    >>> from skstein.metrics import total_variation
    >>> round(total_variation([0.25, 0.5], [0.75, 0.5]), 6)
    0.25
    """
    first, second = _two_predictions(y_prob, reference)
    return float(0.5 * np.abs(first - second).sum(axis=1).mean())


def _coded(y_true, y_prob, labels):
    """Positions of the labels (n,) and the probabilities of all classes (n, K)."""
    y_true = np.asarray(y_true)
    if y_true.ndim != 1 or not len(y_true):
        raise ValueError(f"y_true must be (n,) with n >= 1, got the shape {y_true.shape}.")
    proba = _probabilities(y_prob, "y_prob", len(y_true))
    classes = np.unique(y_true) if labels is None else np.atleast_1d(labels)
    if classes.shape != (proba.shape[1],):
        raise ValueError(
            f"y_prob is about {proba.shape[1]} classes, but there are {len(classes)} labels; pass "
            "all class labels as labels, in the order of the columns of y_prob."
        )
    matches = y_true[:, None] == classes
    if not np.all(matches.sum(axis=1) == 1):
        raise ValueError("labels must be distinct and hold every value of y_true.")
    return matches.argmax(axis=1), proba


def _two_predictions(y_prob, reference):
    """Probabilities of all classes by both, of the same shape (n, K)."""
    if np.ndim(y_prob) not in (1, 2) or not len(y_prob):
        raise ValueError(f"y_prob must be (n,) or (n, K) with n >= 1, got {np.shape(y_prob)}.")
    first = _probabilities(y_prob, "y_prob", len(y_prob))
    second = _probabilities(reference, "reference", len(first))
    if first.shape != second.shape:
        raise ValueError(
            f"reference must be about the {first.shape[1]} classes of y_prob, "
            f"got {second.shape[1]} classes."
        )
    return first, second


def _probabilities(y_prob, name, n):
    """Probabilities of all classes (n, K)."""
    proba = np.asarray(y_prob, dtype=float)
    if proba.ndim not in (1, 2) or len(proba) != n:
        raise ValueError(f"{name} must be ({n},) or ({n}, K), got the shape {proba.shape}.")
    if not np.all((proba >= 0.0) & (proba <= 1.0 + 1e-6)):
        raise ValueError(f"{name} must hold probabilities between 0 and 1.")
    if proba.ndim == 1:
        return np.column_stack([1.0 - proba, proba])
    if not np.allclose(proba.sum(axis=1), 1.0, rtol=0.0, atol=1e-6):
        raise ValueError(f"{name} must have rows that sum to 1.")
    return proba
