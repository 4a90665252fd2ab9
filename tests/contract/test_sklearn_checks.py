"""scikit-learn's own checks of every estimator with every engine, in its default configuration."""

import pytest
from sklearn.utils.estimator_checks import (
    check_class_weight_balanced_linear_classifier,
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianProbitRegression,
)
from skstein.inference import ENGINES

# Some of the checks' toy data is too small or too separated for an engine, which rightly says so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ESTIMATORS = [BayesianLinearRegression, BayesianLogisticRegression, BayesianProbitRegression]


@parametrize_with_checks(
    [Estimator(inference=engine) for engine in ENGINES for Estimator in ESTIMATORS]
)
def test_sklearn_check(estimator, check):
    check(estimator)


# The following are public, but not among those that `parametrize_with_checks` yields.


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_every_parameter_is_validated(Estimator):
    check_param_validation(Estimator.__name__, Estimator())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_column_names(Estimator, engine):
    check_dataframe_column_names_consistency(Estimator.__name__, Estimator(inference=engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_balanced_class_weight(engine):
    check_class_weight_balanced_linear_classifier(
        "BayesianLogisticRegression", BayesianLogisticRegression(inference=engine)
    )
