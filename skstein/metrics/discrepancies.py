"""How good a set of points is: against a target, another sample, or a Gaussian mixture."""

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.utils import gen_batches

from .._input.validation import normalized_weights
from ..kernels import RBF, resolve_kernel

# Entries of a kernel matrix that exist at a time; with its temporary arrays some 50 MB.
_BLOCK = 2**20


def ksd(samples, scores, weights=None, kernel="imq"):
    """Kernel Stein discrepancy ``sqrt(sum_ij w_i w_j k0(x_i, x_j))`` between points and a target.

    Of all distributions only the target itself has a discrepancy of zero, but points are judged
    where they are: it is blind to modes that none of them visits, and does not test convergence.
    Use it to compare sets of points in the same coordinates with the same kernel.

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
    Gorham & Mackey (2017), "Measuring sample quality with kernels" (arXiv:1703.01717), proposition
    2; Liu, Lee & Jordan (2016), "A kernelized Stein discrepancy for goodness-of-fit tests"
    (arXiv:1602.03253); Chwialkowski, Strathmann & Gretton (2016), "A kernel test of goodness of
    fit" (arXiv:1602.02964).

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
        raise ValueError(f"scores must be shaped as samples, {samples.shape}, got {scores.shape}.")
    weights = normalized_weights(weights, len(samples), "weights")
    kernel = resolve_kernel(kernel).fixed(samples)

    def stein_matrix(rows):
        return kernel.stein_matrix(samples[rows], scores[rows], samples, scores)

    return _root(_double_sum(stein_matrix, weights))


def normalized_ksd(samples, scores, weights=None, kernel="imq"):
    """Kernel Stein discrepancy times the root of the number of points.

    The KSD of n independent draws of the target falls as 1 / sqrt(n), so that this stays constant;
    it is smaller if points represent the target better than as many draws would. It compares sets
    of points of different sizes, as `ksd` cannot, and is as blind to unvisited modes.

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
    Hawkins, Koppel & Zhang, "Online, informative MCMC thinning with kernelized Stein discrepancy"
    (arXiv:2201.07130), equation 16.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.metrics import normalized_ksd
    >>> x = np.random.default_rng(0).normal(size=(2000, 2))
    >>> bool(0.5 < normalized_ksd(x, -x) / normalized_ksd(x[:100], -x[:100]) < 2.0)
    True
    """
    value = ksd(samples, scores, weights, kernel)
    return value * float(np.sqrt(len(samples) if weights is None else np.count_nonzero(weights)))


def mmd(samples, reference, weights=None, reference_weights=None, kernel="rbf"):
    """Maximum mean discrepancy between two weighted samples: the root, not its square.

    The largest difference of the means of a function, over the functions of norm 1 in the kernel's
    space: ``sqrt(w'K w - 2 w'K v + v'K v)`` with the weights ``w`` and ``v`` of the two samples. It
    is the distance between the samples as they stand, diagonal terms included: two samples of one
    distribution are about ``sqrt((1/n + 1/m) (1 - E k(x, x')))`` apart, for a kernel of 1 at 0.

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
    Gretton, Borgwardt, Rasch, Schölkopf & Smola (2012), "A kernel two-sample test", JMLR 13,
    equation 5.

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
    weights = normalized_weights(weights, len(samples), "weights")
    reference_weights = normalized_weights(reference_weights, len(reference), "reference_weights")
    points = np.concatenate([samples, reference])
    kernel = resolve_kernel(kernel).fixed(points)
    signed = np.concatenate([weights, -reference_weights])
    return _root(_double_sum(lambda rows: kernel.matrix(points[rows], points), signed))


def mmd_gaussian_mixture(
    samples, means, covariances, weights=None, mixture_weights=None, kernel="rbf"
):
    """Maximum mean discrepancy between a weighted sample and a Gaussian mixture, in closed form.

    The limit of `mmd` when the reference is a sample of the mixture and grows.

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
        raise ValueError(f"covariances must be of shape {(k, dim, dim)}, got {covariances.shape}.")
    if not all(map(_is_covariance, covariances)):
        raise ValueError("covariances must be finite, symmetric and positive semi-definite.")
    weights = normalized_weights(weights, n, "weights")
    mixture_weights = normalized_weights(mixture_weights, k, "mixture_weights")
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


def _points(points, name):
    points = np.asarray(points, dtype=float)
    if points.ndim != 2 or not len(points):
        raise ValueError(f"{name} must be (n, d) with n >= 1, got the shape {points.shape}.")
    return points


def _double_sum(matrix_rows, weights):
    """``sum_ij w_i w_j K_ij``, given a function from a slice to those rows of K."""
    n, total = len(weights), 0.0
    for rows in gen_batches(n, max(1, _BLOCK // n)):
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
