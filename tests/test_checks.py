"""`check_target` passes right targets and names what is wrong with wrong ones.

The stated truth is a correlated normal whose derivatives are known; each test breaks one function.
"""

import numpy as np
import pytest

from skstein import LogDensity
from skstein.checks import check_target
from skstein.priors import HierarchicalNormal, StudentT
from skstein.targets import LinearTarget, LogisticTarget, ProbitTarget, SoftmaxTarget

PRECISION = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 3.0]])


def log_density(theta):
    return -0.5 * np.einsum("mi,ij,mj->m", theta, PRECISION, theta)


def score(theta):
    return -theta @ PRECISION


def hessian(theta):
    return PRECISION


def normal(log_density=log_density, score=score, hessian=hessian):
    return LogDensity(log_density, score, dim=3, hessian=hessian)


def refuse(target, match, **kwargs):
    with pytest.raises(ValueError, match=match) as caught:
        check_target(target, random_state=0, **kwargs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_a_right_target_passes_at_any_height(scale, seed):
    target = LogDensity(
        lambda t: scale * log_density(t), lambda t: scale * score(t), dim=3, hessian=None
    )
    assert check_target(target, random_state=seed) is None


def test_a_narrow_target_far_from_0_passes():
    """A step of 6e-6 of the place would be six standard deviations long."""
    target = LogDensity(
        lambda t: -np.logaddexp(t - 1e6, 1e6 - t).sum(axis=1),
        lambda t: -np.tanh(t - 1e6),
        dim=1,
        initial=np.array([1e6]),
    )
    assert check_target(target, random_state=0) is None


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_a_wrong_score_is_found_at_any_height(scale):
    refuse(
        normal(lambda t: scale * log_density(t), lambda t: -scale * score(t), None), r"^score\[0\]"
    )


def test_the_mode_itself_passes():
    def skewed(theta):
        return (theta - np.exp(theta)).sum(axis=1)

    target = LogDensity(
        skewed, lambda t: 1.0 - np.exp(t), dim=2, hessian=lambda t: np.diag(np.exp(t))
    )
    assert check_target(target, np.zeros((1, 2))) is None


@pytest.mark.parametrize("parts", [{}, {"hessian": None}, {"score": None, "hessian": None}])
def test_optional_parts_may_be_missing(parts, seed):
    assert check_target(normal(**parts), random_state=seed) is None


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("prior", [None, StudentT(), HierarchicalNormal()])
@pytest.mark.parametrize("Target", [LinearTarget, LogisticTarget, ProbitTarget, SoftmaxTarget])
def test_regression_targets_pass(Target, prior, fit_intercept, rng):
    X, codes = rng.standard_normal((21, 2)), np.arange(21) % (3 if Target is SoftmaxTarget else 2)
    options = {"n_classes": 3} if Target is SoftmaxTarget else {}
    target = Target(X, codes, prior=prior, fit_intercept=fit_intercept, **options)
    assert check_target(target, random_state=rng) is None


def test_a_single_data_row_passes(rng):
    assert check_target(LinearTarget(np.ones((1, 1)), np.ones(1)), random_state=rng) is None


def test_points_given_are_the_points_checked():
    wrong_beyond_ten = normal(score=lambda t: np.where(t > 10.0, t, score(t)))
    assert check_target(wrong_beyond_ten, [[0.0, 0.0, 1.0]]) is None
    refuse(wrong_beyond_ten, r"score\[2\] is 11 at point 1, .* -33", theta=[[0, 0, 1], [0, 0, 11]])


def test_a_score_of_the_wrong_sign():
    refuse(
        normal(score=lambda t: -score(t), hessian=None),
        r"^score\[0\] is 2 at point 0, but the difference quotient of log_density is -2\.$",
        theta=[[1.0, 0.0, 0.0]],
    )


@pytest.mark.parametrize("j", range(3))
def test_the_wrong_coordinate_is_named(j, seed):
    def wrong(theta):
        gradient = score(theta)
        gradient[:, j] += 0.01
        return gradient

    with pytest.raises(ValueError, match=rf"^score\[{j}\] is "):
        check_target(normal(score=wrong), random_state=seed)


def test_a_hessian_of_the_log_density_itself():
    refuse(
        normal(hessian=lambda t: -PRECISION), r"-hessian\[0, 0\] is 2 at point 0, .* score is -2"
    )


def test_a_wrong_score_of_a_coordinate_beside_a_larger_one(rng):
    income = rng.normal(3e4, 1e4, 100)
    A = np.column_stack([np.ones(100), income])
    y = A @ [2.0, 1e-4] + rng.normal(size=100)

    def log_density(theta):
        return -0.5 * ((y - theta @ A.T) ** 2).sum(axis=1)

    def score(theta):
        return (y - theta @ A.T) @ A

    check_target(LogDensity(log_density, score, dim=2), random_state=0)
    for wrong in ([-1.0, 1.0], [2.0, 1.0], [1.0, 0.0]):
        target = LogDensity(log_density, lambda t, w=wrong: w * score(t), dim=2)
        with pytest.raises(ValueError, match=r"the difference quotient of log_density is"):
            check_target(target, random_state=0)


def test_what_is_no_target():
    with pytest.raises(TypeError, match="target must be a log density such as LogDensity"):
        check_target(log_density)


def test_a_hessian_with_a_wrong_entry():
    wrong = PRECISION.copy()
    wrong[1, 2] = 0.0
    refuse(normal(hessian=lambda t: wrong), r"-hessian\[1, 2\] is -?0 at point 0, .* is 0\.3")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 1)])
def test_a_log_density_of_the_wrong_shape(shape):
    refuse(
        normal(lambda t: np.zeros(shape)),
        r"log_density returned shape \(.*\), expected \(2,\)",
        theta=np.zeros((2, 3)),
    )


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_log_density_that_is_not_finite(value):
    refuse(normal(lambda t: np.where(t[:, 0] > 0, value, 0.0)), "log_density", theta=np.eye(3))


def test_rows_that_are_mixed():
    refuse(
        normal(lambda t: log_density(t) - log_density(t).mean()),
        "log_density is .* for point 0 in a batch of 4, but 0 for the same point alone",
    )
    refuse(normal(score=lambda t: score(t) - score(t).mean(axis=0)), r"score\[0\] is .* alone")


def test_a_theta_that_is_overwritten():
    def in_place(theta):
        theta *= 2.0
        return log_density(theta)

    target = normal()
    target.log_density = in_place  # past the copies that a `LogDensity` makes
    refuse(target, "log_density changed theta in place")


@pytest.mark.parametrize("part", ["score", "log_likelihood"])
def test_minibatches_that_are_not_scaled(part, rng):
    class Unscaled(LogisticTarget):
        pass

    def unscaled(self, theta, rows=None):
        value = getattr(LogisticTarget, part)(self, theta, rows)
        return value if rows is None else value * len(rows) / self.n_rows

    setattr(Unscaled, part, unscaled)
    target = Unscaled(rng.standard_normal((20, 2)), np.arange(20) % 2)
    refuse(target, rf"{part}.* two halves of the rows, averaged, .* scaled by n_rows")


def test_a_wrong_minibatch_of_a_coordinate_beside_a_larger_one(rng):
    class WrongIntercept(LogisticTarget):
        def score(self, theta, rows=None):
            value = super().score(theta, rows)
            if rows is not None:
                value[:, 0] *= 2.0
            return value

    X = rng.normal(3e6, 1e6, (20, 1))
    refuse(WrongIntercept(X, np.arange(20) % 2), r"score\[0\] is .* scaled by n_rows")


@pytest.mark.parametrize("theta", [[1.0, 2.0, 3.0], np.zeros((2, 2)), np.zeros((0, 3))])
def test_theta_of_the_wrong_shape(theta):
    refuse(normal(), r"theta must have shape \(m, 3\)", theta=theta)


def test_theta_that_is_not_finite():
    refuse(normal(), "theta must be finite", theta=[[0.0, np.nan, 0.0]])


def test_an_exception_of_the_function_comes_through():
    class OwnError(Exception):
        pass

    def fails(theta):
        raise OwnError("mine")

    with pytest.raises(OwnError, match="mine"):
        check_target(normal(fails))
