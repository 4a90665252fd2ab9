"""Kernels against finite differences, the definition of the Stein operator and direct sums."""

import errno

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

from skstein._jit._compile import DISPATCHERS, compiled, frozen
from skstein._jit.stein import rbf_linear_drift
from skstein.kernels import IMQ, RBF, Linear, outside

KERNELS = [
    RBF(),
    RBF(bandwidth=0.7),
    IMQ(),
    IMQ(length_scale=1.3, exponent=-0.7),
    Linear(),
    Linear(scale=2.5),
    RBF() + Linear(),
    RBF(bandwidth=2.0) + Linear(scale=0.5),
    IMQ() + Linear() + RBF(),
]
STEP = 1e-4


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def value(kernel, x, y):
    return kernel.matrix(x[None], y[None])[0, 0]


def gradient(f, x, step=STEP):
    """Central differences, fourth order."""
    columns = []
    for e in np.eye(len(x)) * step:
        columns.append((8 * (f(x + e) - f(x - e)) - f(x + 2 * e) + f(x - 2 * e)) / (12 * step))
    return np.array(columns)


def stein_value(kernel, x, sx, y, sy):
    """k0 from its definition, derivatives of k by finite differences."""
    grad_x = gradient(lambda u: value(kernel, u, y), x)
    grad_y = gradient(lambda v: value(kernel, x, v), y)
    mixed = gradient(lambda u: gradient(lambda v: value(kernel, u, v), y, 1e-2), x, 1e-2)
    return value(kernel, x, y) * (sx @ sy) + grad_x @ sy + grad_y @ sx + np.trace(mixed)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_stein_matrix_is_the_stein_operator_applied_twice(kernel, rng):
    x, sx = rng.normal(size=(2, 4, 3))
    y, sy = rng.normal(size=(2, 5, 3))
    truth = [
        [stein_value(kernel, *p, *q) for q in zip(y, sy, strict=True)]
        for p in zip(x, sx, strict=True)
    ]
    assert_allclose(kernel.stein_matrix(x, sx, y, sy), truth, rtol=1e-5, atol=1e-5)
    square = kernel.stein_matrix(x, sx)
    assert_allclose(square, square.T, atol=1e-12)
    assert_allclose(np.diag(square), kernel.stein_diagonal(x, sx), rtol=1e-10)
    assert np.linalg.eigvalsh(square).min() > -1e-10


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n", [1, 20])
def test_drift_is_its_definition(kernel, n, rng):
    x = rng.normal(size=(n, 3))
    points, scores = rng.normal(size=(2, 6, 3))
    weights = rng.dirichlet(np.ones(6))
    truth = np.zeros_like(x)
    for i, w in enumerate(weights):
        for row, u in zip(truth, x, strict=True):
            row += w * value(kernel, points[i], u) * scores[i]
            row += w * gradient(lambda v, u=u: value(kernel, v, u), points[i])
    assert_allclose(kernel.drift(x, points, scores, weights), truth, atol=1e-9)
    uniform = kernel.drift(x, points, scores, np.full(6, 1 / 6))
    assert_allclose(kernel.drift(x, points, scores), uniform, atol=1e-14)
    with pytest.raises(ValueError, match=r"shape|broadcast|dimension"):
        kernel.drift(x, points, scores, weights[:4])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_self_term_is_the_drift_of_a_point_on_itself(kernel, rng):
    x, scores = rng.normal(size=(2, 4, 3))
    truth = [kernel.drift(u[None], u[None], s[None])[0] for u, s in zip(x, scores, strict=True)]
    assert_allclose(kernel.self_term(x, scores), truth, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(), IMQ(), RBF() + Linear()], ids=repr)
def test_stein_kernel_has_mean_zero_under_its_target(kernel):
    # Gauss-Hermite quadrature: for N(0, 1), where s(x) = -x, the integral of k0(x, y) p(x) dx is 0.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    y = np.linspace(-2, 2, 5)[:, None]
    k0 = kernel.stein_matrix(nodes[:, None], -nodes[:, None], y, -y)
    assert_allclose(weights @ k0 / weights.sum(), 0, atol=1e-6)


def test_translation_does_not_cost_digits(rng):
    x, scores = rng.normal(size=(2, 50, 4))
    kernel = IMQ()
    far = kernel.stein_matrix(x + 1e6, scores)
    assert_allclose(far, kernel.stein_matrix(x, scores), rtol=1e-7, atol=1e-7)


def test_rules(rng):
    x = rng.normal(size=(7, 3))
    assert RBF().fixed(x).bandwidth ** 2 == pytest.approx(3)
    assert IMQ().fixed(x).length_scale ** 2 == pytest.approx(12)
    assert Linear().fixed(x).scale == 3
    squares = [np.sum((x[i] - x[j]) ** 2) for i in range(7) for j in range(i)]
    median = RBF(bandwidth="median").fixed(x)
    assert median.bandwidth**2 == pytest.approx(np.median(squares) / (2 * np.log(8)))
    for alone in (x[:1], np.repeat(x[:1], 3, axis=0)):
        assert RBF(bandwidth="median").fixed(alone).bandwidth ** 2 == pytest.approx(3)
    total = (RBF() + Linear()).fixed(x)
    assert_allclose(total.matrix(x, x), (RBF() + Linear()).matrix(x, x), atol=1e-12)


@pytest.mark.parametrize(
    "kernel, message",
    [
        (RBF(bandwidth="median"), "fixed"),
        (RBF(bandwidth="wide"), "bandwidth must be"),
        (RBF(bandwidth=0.0), "bandwidth must be"),
        (IMQ(length_scale=-1), "length_scale must be"),
        (IMQ(exponent=0.5), "exponent must be"),
        (Linear(scale="big"), "scale must be"),
    ],
)
def test_bad_parameters_are_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel.drift(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n", [1, 20])
def test_drift_of_a_block_is_that_of_all_coordinates(kernel, n, rng):
    x = rng.normal(size=(n, 5))
    points, scores = rng.normal(size=(2, 6, 5))
    weights = rng.dirichlet(np.ones(6))
    kernel = kernel.fixed(points)
    expected = kernel.drift(x, points, scores, weights)
    for block in (slice(0, 2), slice(2, 5)):
        rest = outside(block, x, points)
        drift = kernel.drift(x[:, block], points[:, block], scores[:, block], weights, rest)
        assert_allclose(drift, expected[:, block], atol=1e-12)


def test_compiled_drift_has_one_signature(rng):
    x, points, scores = rng.normal(size=(3, 5, 2))
    weights = np.full(5, 0.2)
    expected = (RBF() + Linear()).fixed(x).drift(x, points, scores, weights)
    strided = np.asfortranarray(points)
    for at, near in ((x, points), (frozen(x), points), (x[::1], strided), (x.tolist(), points)):
        drift = rbf_linear_drift(near, scores, weights, 2, 2.0 / 3.0)
        assert_allclose(drift(at), expected, rtol=1e-12)
    (routine,) = [d for d in DISPATCHERS if d.__name__ == "_rbf_linear_drift"]
    assert len(routine.signatures) == 1


def test_compiled_works_without_a_place_for_the_cache():
    # Numba finds no directory for code that comes from no file.
    namespace = {}
    exec("def double(x):\n    return 2 * x", namespace)
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(namespace["double"])
    routine = compiled(namespace["double"])
    DISPATCHERS.remove(routine)
    assert routine(2.0) == 4.0


def test_compiled_works_where_the_cache_cannot_be_saved(tmp_path, monkeypatch):
    """The disk is full by the time that a routine has been compiled, which is at its first call."""
    source = tmp_path / "routines.py"
    source.write_text("def double(x):\n    return 2 * x\n")
    namespace = {}
    exec(compile(source.read_text(), source, "exec"), namespace)
    saved = []

    def full(self, key, data):
        saved.append(key)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", full)
    routine = compiled(namespace["double"])
    DISPATCHERS.remove(routine)
    assert (routine(2.0), routine(2.0), routine(2)) == (4.0, 4.0, 4)
    assert len(saved) == 2


def test_the_median_rule_counts_all_points(rng):
    points = rng.normal(size=(3000, 1))
    expected = np.median(pdist(points[::3], "sqeuclidean")) / (2.0 * np.log(3001.0))
    assert_allclose(RBF(bandwidth="median").fixed(points).bandwidth ** 2, expected)
