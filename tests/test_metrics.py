"""Metrics against double sums, closed forms and scikit-learn."""

import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import log_loss

from skstein.kernels import IMQ, RBF, Linear
from skstein.metrics import expected_calibration_error, ksd, negative_log_predictive


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "kernel", ["imq", "rbf", RBF(bandwidth="median"), IMQ() + Linear()], ids=repr
)
@pytest.mark.parametrize("n", [1, 40])
def test_ksd_is_the_double_sum(kernel, n, rng):
    x, s = rng.normal(size=(2, n, 3))
    weights = rng.uniform(size=n)
    w = weights / weights.sum()
    base = {"imq": IMQ(), "rbf": RBF()}.get(kernel, kernel) if isinstance(kernel, str) else kernel
    matrix = base.fixed(x).stein_matrix(x, s)
    assert ksd(x, s, weights, kernel) == pytest.approx(np.sqrt(w @ matrix @ w))
    assert ksd(x, s, kernel=kernel) == pytest.approx(np.sqrt(matrix.mean()))


def test_ksd_of_one_point_is_its_stein_kernel():
    # |s|^2 + d / l^2 with l^2 = 4 d
    assert ksd([[0.0, 0.0]], [[3.0, 4.0]]) == pytest.approx(np.sqrt(25 + 1 / 4))


def test_ksd_in_blocks_is_the_same_and_small(rng):
    x = rng.normal(size=(5000, 2))
    tracemalloc.start()
    value = ksd(x, -x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27
    rows = [IMQ().stein_matrix(x[i : i + 1], -x[i : i + 1], x, -x).sum() for i in range(5000)]
    assert value == pytest.approx(np.sqrt(np.sum(rows)) / 5000)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((np.zeros(3), np.zeros(3)), "samples must be"),
        ((np.zeros((0, 2)), np.zeros((0, 2))), "samples must be"),
        ((np.zeros((3, 2)), np.zeros((3, 1))), "scores must have"),
        ((np.zeros((3, 2)), np.zeros((3, 2)), np.ones(2)), "weights must have"),
        ((np.zeros((3, 2)), np.zeros((3, 2)), [-1, 1, 1]), "weights must be"),
        ((np.zeros((3, 2)), np.zeros((3, 2)), None, "linear"), "kernel must be"),
    ],
)
def test_bad_arguments_of_ksd_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ksd(*arguments)


def direct_calibration_error(codes, proba, n_bins):
    error = 0.0
    for b in range(n_bins):
        inside = [
            (p.max(), p.argmax() == c)
            for c, p in zip(codes, proba, strict=True)
            if b / n_bins < p.max() <= (b + 1) / n_bins
        ]
        if inside:
            confidence, right = np.mean(inside, axis=0)
            error += len(inside) / len(codes) * abs(right - confidence)
    return error


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_bins", [1, 7, 15])
def test_calibration_error_is_its_definition(n_classes, n_bins, rng):
    proba = rng.dirichlet(np.ones(n_classes), size=300)
    codes = rng.integers(n_classes, size=300)
    truth = direct_calibration_error(codes, proba, n_bins)
    assert expected_calibration_error(codes, proba, n_bins) == pytest.approx(truth)
    names = np.array(["a", "b", "c", "d"])[:n_classes]
    assert expected_calibration_error(names[codes], proba, n_bins) == pytest.approx(truth)
    if n_classes == 2:
        assert expected_calibration_error(codes, proba[:, 1], n_bins) == pytest.approx(truth)


def test_calibration_error_in_closed_form(rng):
    assert expected_calibration_error([0, 1, 1], [0.0, 1.0, 1.0]) == 0
    assert expected_calibration_error([1, 0, 0], [0.0, 1.0, 1.0]) == 1
    # Labels drawn from the stated probabilities: what remains is of the order of sqrt(15 / n).
    p = rng.uniform(size=100_000)
    assert expected_calibration_error(rng.uniform(size=p.size) < p, p) < 0.01


@pytest.mark.parametrize("n_classes", [2, 3])
def test_negative_log_predictive_is_the_log_loss(n_classes, rng):
    proba = rng.dirichlet(np.ones(n_classes), size=50)
    codes = rng.permutation(np.arange(50) % n_classes)
    truth = -np.mean(np.log(proba[np.arange(50), codes]))
    assert negative_log_predictive(codes, proba) == pytest.approx(truth)
    assert log_loss(codes, proba) == pytest.approx(truth)
    # Columns follow the given labels, which need not be sorted nor all occur.
    labels = ["z", "a", "k"][:n_classes]
    first = negative_log_predictive(["z"] * 50, proba, labels=labels)
    assert first == pytest.approx(-np.log(proba[:, 0]).mean())
    if n_classes == 2:
        assert negative_log_predictive(codes, proba[:, 1]) == pytest.approx(truth)


@pytest.mark.parametrize("metric", [expected_calibration_error, negative_log_predictive])
@pytest.mark.parametrize(
    "y_true, y_prob, labels, message",
    [
        ([[0, 1]], [0.5], None, "y_true must be"),
        ([0, 1], [0.5], None, r"y_prob must be \(2,\)"),
        ([0, 1], [0.5, 1.5], None, "between 0 and 1"),
        ([0, 1], [0.5, np.nan], None, "between 0 and 1"),
        ([0, 1], [[0.5, 0.4], [0.5, 0.5]], None, "sum to 1"),
        ([0, 0], [0.5, 0.4], None, "pass all class labels"),
        ([0, 2], [0.5, 0.4], [0, 1], "labels must be distinct"),
        ([0, 0], [0.5, 0.4], [0, 0], "labels must be distinct"),
    ],
)
def test_bad_predictions_are_named(metric, y_true, y_prob, labels, message):
    with pytest.raises(ValueError, match=message):
        metric(y_true, y_prob, labels=labels)


def test_bad_bins_are_named():
    with pytest.raises(ValueError, match="n_bins must be"):
        expected_calibration_error([0, 1], [0.1, 0.9], n_bins=0)
