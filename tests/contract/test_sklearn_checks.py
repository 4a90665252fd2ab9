"""scikit-learn's own checks: all of them for every estimator with one engine, and for every engine
with one estimator; for the rest of the product, in `make test-all`, those that an engine can fail.
"""

from itertools import product

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_class_weight_balanced_linear_classifier,
    check_dataframe_column_names_consistency,
    check_estimators_nan_inf,
    check_estimators_pickle,
    check_fit2d_1feature,
    check_fit2d_1sample,
    check_param_validation,
    check_sample_weight_equivalence_on_dense_data,
)

import small
from skstein import (
    BayesianGammaRegression,
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianNegativeBinomialRegression,
    BayesianOrdinalRegression,
    BayesianPoissonRegression,
    BayesianProbitRegression,
)
from skstein.inference import ENGINES
from skstein.noise import HeteroscedasticNoise
from skstein.priors import Normal

# Some of the checks' toy data is too small or too separated for an engine, which rightly says so.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*alphabetical order:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*rests on a few draws:UserWarning"),
]

# What these checks ask does not depend on the accuracy of a posterior, nor on its coordinates.
SHORT = {name: clone(engine).set_params(one_sided=False) for name, engine in small.ENGINES.items()}
ESTIMATORS = [
    BayesianLogisticRegression,
    BayesianLinearRegression,
    BayesianOrdinalRegression,
    BayesianProbitRegression,
]
COUNTS = [BayesianPoissonRegression, BayesianNegativeBinomialRegression]
NETWORKS = [BayesianMLPRegressor, BayesianMLPClassifier]


def linear(Estimator, engine):
    # Rows of these checks are fitted without noise: a prior that leaves some keeps rounding small.
    own = {
        BayesianLinearRegression: {"noise_shape": 1.0},
        BayesianGammaRegression: {"prior": Normal(0.03)},
    }
    return Estimator(clone(SHORT[engine]), **own.get(Estimator, {}))


def network(*args, **params):
    # The checks set a random state themselves, and their tolerances are those of double precision:
    # in single precision a row on its own is rounded in another way than among others.
    return small.network(*args, random_state=None, dtype="float64", **params)


def cross(estimators, engines):
    """Pairs with all checks, in which every estimator and every engine comes, and the others."""
    first, one = estimators[0], next(iter(engines))
    pairs = list(product(estimators, engines))
    all_checks = [pair for pair in pairs if pair[0] is first or pair[1] == one]
    return all_checks, [pair for pair in pairs if pair not in all_checks]


LINEAR, OTHER_LINEAR = cross(ESTIMATORS, SHORT)
LINEAR += [(Estimator, "laplace") for Estimator in [*COUNTS, BayesianGammaRegression]]
OTHER_LINEAR += product(COUNTS, [engine for engine in SHORT if engine != "laplace"])
NETWORK, OTHER_NETWORK = cross(NETWORKS, small.NETWORK_ENGINES)
# What an engine does to a network is much the same work for each: two of them in every run.
NETWORK_FIRST = [pair for pair in NETWORK if pair[1] in ("ensemble", "ksd-mcmc")]
NETWORK_LATER = [network(*pair) for pair in NETWORK if pair not in NETWORK_FIRST]


@small.with_checks([linear(*pair) for pair in LINEAR] + [network(*pair) for pair in NETWORK_FIRST])
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@small.with_checks(NETWORK_LATER)
def test_sklearn_check_of_networks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    NETWORK_LATER
    + [small.later(linear(*pair)) for pair in OTHER_LINEAR]
    + [small.later(network(*pair)) for pair in OTHER_NETWORK],
    ids=repr,
)
@pytest.mark.parametrize(
    "check",
    [
        check_estimators_nan_inf,
        check_estimators_pickle,
        check_fit2d_1feature,
        check_fit2d_1sample,
        check_sample_weight_equivalence_on_dense_data,
    ],
)
def test_what_an_engine_can_fail(estimator, check):
    check(type(estimator).__name__, clone(estimator))


def not_on_minibatches(estimator):
    why = "the rows of a minibatch are drawn, whatever their weights"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@small.with_checks(
    [network(BayesianMLPClassifier, "ensemble", batch_size="auto")],
    expected_failed_checks=not_on_minibatches,
    xfail_strict=False,
)
def test_sklearn_check_on_minibatches(estimator, check):
    check(estimator)


@pytest.mark.slow
@small.with_checks(
    [network(BayesianMLPRegressor, "ksd-mcmc", batch_size="auto")],
    expected_failed_checks=not_on_minibatches,
    xfail_strict=False,
)
def test_sklearn_check_of_chains_on_minibatches(estimator, check):
    check(estimator)


def not_without_noise(estimator):
    # Noise of 1e-5 leaves five digits less of what rows share; see `linear` above.
    why = "rows without any noise leave rounding"
    kinds = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in kinds}


@pytest.mark.slow
@small.with_checks(
    [BayesianLinearRegression(clone(SHORT["svgd"]), noise="student-t")],
    expected_failed_checks=not_without_noise,
    xfail_strict=False,
)
@pytest.mark.filterwarnings("ignore:.*half of y is within a thousandth")  # labels, for outcomes
def test_sklearn_check_of_outliers(estimator, check):
    check(estimator)


@small.with_checks([BayesianLinearRegression(clone(SHORT["svgd"]), noise="heteroscedastic")])
@pytest.mark.filterwarnings("ignore:.*half of y is within a thousandth")
def test_sklearn_check_of_other_noise(estimator, check):
    check(estimator)


@pytest.mark.slow
@small.with_checks(
    [network(BayesianMLPRegressor, "ensemble").set_params(noise=HeteroscedasticNoise(df=4.0))]
)
@pytest.mark.filterwarnings("ignore:.*half of y is within a thousandth")
def test_sklearn_check_of_other_noise_of_networks(estimator, check):
    check(estimator)


# The following are public, but not among those that `parametrize_with_checks` yields.


@pytest.mark.parametrize("Estimator", ESTIMATORS + NETWORKS)
def test_every_parameter_is_validated(Estimator):
    estimator = Estimator() if Estimator in ESTIMATORS else network(Estimator, "ensemble")
    check_param_validation(Estimator.__name__, estimator)


@pytest.mark.parametrize("Estimator", ESTIMATORS + NETWORKS)
def test_column_names(Estimator):
    estimator = linear(Estimator, "svgd") if Estimator in ESTIMATORS else network(Estimator, "svgd")
    check_dataframe_column_names_consistency(Estimator.__name__, estimator)


@pytest.mark.parametrize("engine", ENGINES)
def test_balanced_class_weight(engine):
    check_class_weight_balanced_linear_classifier(
        "BayesianLogisticRegression", BayesianLogisticRegression(inference=engine)
    )
