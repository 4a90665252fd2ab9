"""How good a set of points is, and how good predicted probabilities are.

Points are measured against a target whose score is known (`ksd`, `normalized_ksd`), against a
sample that is trusted (`mmd`), or against a Gaussian mixture (`mmd_gaussian_mixture`).

Probabilities are measured against what happened: `expected_calibration_error` asks whether
predictions made with confidence c are right in a fraction c of the cases, and
`negative_log_predictive` is the usual proper score, the log loss. They are measured against those
of another posterior by `agreement` and `total_variation`, which see how much of a prediction an
approximation has changed.
"""

import numbers

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.metrics import log_loss

from .kernels import RBF, resolve_kernel

__all__ = [
    "agreement",
    "expected_calibration_error",
    "ksd",
    "mmd",
    "mmd_gaussian_mixture",
    "negative_log_predictive",
    "normalized_ksd",
    "total_variation",
]

# Entries of a kernel matrix that exist at a time; with its temporary arrays some 50 MB.
_BLOCK = 2**20


def ksd(samples, scores, weights=None, kernel="imq"):
    """Kernel Stein discrepancy ``sqrt(sum_ij w_i w_j k0(x_i, x_j))`` between points and a target.

    Of all distributions only the target itself has a discrepancy of zero, but points are judged
    where they are: it is blind to modes that none of them visits, and no test of convergence. Use
    it to compare sets of points in the same coordinates with the same kernel.

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
    samples, scores = _points(samples, "samples"), np.asarray(scores, dtype=float)
    if scores.shape != samples.shape:
        raise ValueError(
            f"scores must have the shape of samples, {samples.shape}, got {scores.shape}."
        )
    weights = _normalized(weights, len(samples), "weights")
    kernel = resolve_kernel(kernel).fixed(samples)

    def stein_matrix(rows):
        return kernel.stein_matrix(samples[rows], scores[rows], samples, scores)

    return _root(_double_sum(stein_matrix, weights))


def normalized_ksd(samples, scores, weights=None, kernel="imq"):
    """Kernel Stein discrepancy times the root of the number of points.

    The KSD of n independent draws of the target falls as 1 / sqrt(n), so that this stays constant;
    it is smaller where points stand for the target better than as many draws would. It compares
    sets of points of different sizes, as `ksd` cannot, and is as blind to unvisited modes.

    Parameters
    ----------
    samples : array of shape (n, d)
        Best in coordinates in which the target has about unit covariance.
    scores : array of shape (n, d)
        Gradient of the target's log density at the samples.
    weights : array of shape (n,), default=None
        Non-negative, scaled to sum 1; equal by default. Points of weight 0 are not counted.
    kernel : "imq", "rbf" or Kernel, default="imq"
        Base kernel; rules for its scales are settled by the samples.

    Returns
    -------
    normalized_ksd : float

    Raises
    ------
    ValueError
        If the shapes do not fit, or weights are negative or all zero.

    References
    ----------
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy",
    equation 16.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.metrics import normalized_ksd
    >>> x = np.random.default_rng(0).normal(size=(2000, 2))
    >>> bool(0.5 < normalized_ksd(x, -x) / normalized_ksd(x[:100], -x[:100]) < 2.0)
    True
    """
    value = ksd(samples, scores, weights, kernel)
    n = len(samples) if weights is None else np.count_nonzero(weights)
    return float(np.sqrt(n)) * value


def mmd(samples, reference, weights=None, reference_weights=None, kernel="rbf"):
    """Maximum mean discrepancy between two weighted samples: the root, not its square.

    The largest difference of the means of a function, over the functions of norm 1 in the kernel's
    space: ``sqrt(w'K w - 2 w'K v + v'K v)`` with the weights ``w`` and ``v`` of the two samples. It
    is the distance between the samples as they stand, diagonal terms included: two samples of one
    distribution are about ``sqrt(1/n + 1/m)`` apart.

    Parameters
    ----------
    samples : array of shape (n, d)
        Best in coordinates in which the points have about unit covariance.
    reference : array of shape (m, d)
    weights, reference_weights : arrays of shape (n,) and (m,), default=None
        Non-negative, scaled to sum 1; equal by default.
    kernel : "rbf", "imq" or Kernel, default="rbf"
        Rules for its scales are settled by the points of both samples.

    Returns
    -------
    mmd : float
        Values below 1e-7 are rounding.

    Raises
    ------
    ValueError
        If the shapes do not fit, or weights are negative or all zero.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schoelkopf & Smola (2012), "A kernel two-sample test", equation 5.

    Examples
    --------
    Two single points, for which it is ``sqrt(2 - 2 k(x, y))``:

    >>> from skstein.metrics import mmd
    >>> round(mmd([[0.0]], [[1.0]]), 4)
    0.8871
    """
    samples, reference = _points(samples, "samples"), _points(reference, "reference")
    if samples.shape[1] != reference.shape[1]:
        raise ValueError(
            f"reference must have the {samples.shape[1]} columns of samples, "
            f"got {reference.shape[1]}."
        )
    weights = _normalized(weights, len(samples), "weights")
    reference_weights = _normalized(reference_weights, len(reference), "reference_weights")
    points = np.concatenate([samples, reference])
    kernel = resolve_kernel(kernel).fixed(points)
    signed = np.concatenate([weights, -reference_weights])
    return _root(_double_sum(lambda rows: kernel.matrix(points[rows], points), signed))


def mmd_gaussian_mixture(
    samples, means, covariances, weights=None, mixture_weights=None, kernel="rbf"
):
    """Maximum mean discrepancy between a weighted sample and a Gaussian mixture, in closed form.

    What `mmd` tends to when the reference is a sample of the mixture and grows without end.

    Parameters
    ----------
    samples : array of shape (n, d)
        Best in coordinates in which the mixture has about unit covariance.
    means : array of shape (k, d)
    covariances : array of shape (k, d, d)
        Symmetric and positive semi-definite, as the ``covariances_`` of scikit-learn's
        ``GaussianMixture``; a component of covariance 0 is a point.
    weights, mixture_weights : arrays of shape (n,) and (k,), default=None
        Non-negative, scaled to sum 1; equal by default.
    kernel : "rbf" or RBF, default="rbf"
        A rule for its bandwidth is settled by the samples.

    Returns
    -------
    mmd : float
        The root, not the square. Values below 1e-7 are rounding.

    Raises
    ------
    ValueError
        If the shapes do not fit, weights are negative or all zero, a matrix is not a covariance, or
        the kernel is not an RBF.

    Notes
    -----
    The mean of ``k(x, y)`` over y from N(m, S) is ``|I + S / h^2|^(-1/2) exp(-(x - m)'(S + h^2
    I)^(-1) (x - m) / 2)``; over x from another component too, it is the same at that component's
    mean, with the sum of the covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.metrics import mmd_gaussian_mixture
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> mean, covariance = np.zeros((1, 2)), np.eye(2)[None]
    >>> fits = mmd_gaussian_mixture(x, mean, covariance)
    >>> bool(fits < 0.1 < mmd_gaussian_mixture(x + 1.0, mean, covariance))
    True
    """
    samples, means = _points(samples, "samples"), _points(means, "means")
    (n, dim), k = samples.shape, len(means)
    if means.shape[1] != dim:
        raise ValueError(f"means must have the {dim} columns of samples, got {means.shape[1]}.")
    covariances = np.asarray(covariances, dtype=float)
    if covariances.shape != (k, dim, dim):
        raise ValueError(
            f"covariances must have the shape {(k, dim, dim)}, got {covariances.shape}."
        )
    if not all(map(_is_covariance, covariances)):
        raise ValueError("covariances must be finite, symmetric and positive semi-definite.")
    weights = _normalized(weights, n, "weights")
    mixture_weights = _normalized(mixture_weights, k, "mixture_weights")
    kernel = resolve_kernel(kernel)
    if not isinstance(kernel, RBF):
        raise ValueError(f'kernel must be "rbf" or an RBF for a closed form, got {kernel!r}.')
    kernel = kernel.fixed(samples)

    def embedding(x, mean, covariance):
        """Mean of k(x_i, y) over y from N(mean, covariance), shape (len(x),)."""
        factor = np.linalg.cholesky(np.eye(dim) + covariance / kernel.bandwidth**2)
        z = solve_triangular(factor, (x - mean).T / kernel.bandwidth, lower=True)
        return np.exp(-0.5 * np.sum(z * z, axis=0) - np.log(factor.diagonal()).sum())

    squared = _double_sum(lambda rows: kernel.matrix(samples[rows], samples), weights)
    for mean, covariance, weight in zip(means, covariances, mixture_weights, strict=True):
        squared -= 2.0 * weight * (weights @ embedding(samples, mean, covariance))
        others = [
            embedding(other[None], mean, covariance + other_covariance)[0]
            for other, other_covariance in zip(means, covariances, strict=True)
        ]
        squared += weight * (mixture_weights @ others)
    return _root(squared)


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
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy",
    section 4, after Izmailov, Vikram, Hoffman & Wilson (2021), "What are Bayesian neural network
    posteriors really like?"

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


def _points(points, name):
    points = np.asarray(points, dtype=float)
    if points.ndim != 2 or not len(points):
        raise ValueError(f"{name} must be (n, d) with n >= 1, got the shape {points.shape}.")
    return points


def _normalized(weights, n, name):
    """Weights (n,) that sum to 1."""
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    if weights.shape != (n,):
        raise ValueError(f"{name} must have the shape ({n},), got {weights.shape}.")
    if not (np.all(weights >= 0.0) and 0.0 < weights.sum() < np.inf):
        raise ValueError(f"{name} must be finite, non-negative and not all zero.")
    return weights / weights.sum()


def _double_sum(matrix_rows, weights):
    """``sum_ij w_i w_j K_ij``, given a function from a slice to those rows of K."""
    n, total = len(weights), 0.0
    size = max(1, _BLOCK // n)
    for start in range(0, n, size):
        rows = slice(start, start + size)
        total += weights[rows] @ matrix_rows(rows) @ weights
    return total


def _root(squared):
    # Rounding can leave a tiny negative sum; NaN must stay NaN.
    return float(np.sqrt(np.maximum(squared, 0.0)))


def _is_covariance(matrix):
    if not np.isfinite(matrix).all():
        return False
    scale = np.abs(matrix).max()
    symmetric = np.abs(matrix - matrix.T).max() <= 1e-8 * scale
    return symmetric and np.linalg.eigvalsh(matrix)[0] >= -1e-8 * scale


def _coded(y_true, y_prob, labels):
    """Positions of the labels (n,) and the probabilities of all classes (n, K)."""
    y_true = np.asarray(y_true)
    if y_true.ndim != 1 or not len(y_true):
        raise ValueError(f"y_true must be (n,) with n >= 1, got the shape {y_true.shape}.")
    proba = _probabilities(y_prob, "y_prob", len(y_true))
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


def _two_predictions(y_prob, reference):
    """Probabilities of all classes by both, of the same shape (n, K)."""
    if np.ndim(y_prob) not in (1, 2) or not len(y_prob):
        raise ValueError(
            f"y_prob must be (n,) or (n, K) with n >= 1, got the shape {np.shape(y_prob)}."
        )
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
    if not np.all((proba >= 0.0) & (proba <= 1.0)):
        raise ValueError(f"{name} must hold probabilities between 0 and 1.")
    if proba.ndim == 1:
        return np.column_stack([1.0 - proba, proba])
    if not np.allclose(proba.sum(axis=1), 1.0, rtol=0.0, atol=1e-6):
        raise ValueError(f"{name} must have rows that sum to 1.")
    return proba
