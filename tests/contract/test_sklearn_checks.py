"""scikit-learn's own checks of every estimator with every engine, in its default configuration."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_class_weight_balanced_linear_classifier,
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from skstein import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianProbitRegression,
)
from skstein.inference import (
    ENGINES,
    FWSS,
    MCMC,
    PMD,
    PMFVB,
    SVGD,
    AdaptivePMFVB,
    KSDThinnedMCMC,
    SteinPoints,
)
from skstein.kernels import RBF
from skstein.samplers import SGHMC

# Some of the checks' toy data is too small or too separated for an engine, which rightly says so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# What these checks ask does not depend on the accuracy of a posterior, nor on its coordinates.
QUICK = {"one_sided": False}
SHORT = {
    "pmd": PMD(100, max_iter=2, n_sweeps=2, **QUICK),
    "pmfvb": PMFVB(20, n_warmup=24, n_snapshots=5, max_iter=40, **QUICK),
    "fwss": FWSS(20, max_iter_oracle=5, max_iter_sweep=5, **QUICK),
    "svgd": SVGD(20, max_iter=10),
    "stein-points": SteinPoints(10, n_warmup=20, **QUICK),
    "mcmc": MCMC(20, n_draws=40, max_draws=40, n_warmup=20, **QUICK),
    "ksd-mcmc": KSDThinnedMCMC(20, n_draws=40, max_draws=40, n_warmup=20, **QUICK),
    "laplace": "laplace",
}
ESTIMATORS = [BayesianLinearRegression, BayesianLogisticRegression, BayesianProbitRegression]
NETWORKS = [BayesianMLPRegressor, BayesianMLPClassifier]
# Of three networks with four units, instead of the default configuration, which takes seconds.
NETWORK_ENGINES = {
    "ensemble": "ensemble",
    "ksd-mcmc": KSDThinnedMCMC(
        12, sampler=SGHMC(thinning=5), n_chains=3, n_draws=8, max_draws=8, n_warmup=2, whiten=False
    ),
    "pmfvb": AdaptivePMFVB(3, n_iterations=20, minibatch=None),
    "svgd": SVGD(3, kernel=RBF("median"), max_iter=10),
    "fwss": FWSS(3, kernel=RBF("median"), max_iter_oracle=10),
}


def linear(Estimator, engine):
    # Rows of these checks are fitted without noise: a prior that leaves some keeps rounding small.
    noise = {"noise_shape": 1.0} if Estimator is BayesianLinearRegression else {}
    return Estimator(clone(SHORT[engine], safe=False), **noise)


def network(Estimator, engine, batch_size=None):
    return Estimator(
        (4,),
        inference=clone(NETWORK_ENGINES[engine], safe=False),
        n_networks=3,
        max_iter=200,
        learning_rate_init=0.02,
        batch_size=batch_size,
    )


@parametrize_with_checks(
    [linear(Estimator, engine) for engine in SHORT for Estimator in ESTIMATORS]
    + [network(Estimator, engine) for engine in NETWORK_ENGINES for Estimator in NETWORKS]
)
def test_sklearn_check(estimator, check):
    check(estimator)


def not_on_minibatches(estimator):
    why = "the rows of a minibatch are drawn, whatever their weights"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [
        network(BayesianMLPRegressor, "ksd-mcmc", batch_size="auto"),
        network(BayesianMLPClassifier, "ensemble", batch_size="auto"),
    ],
    expected_failed_checks=not_on_minibatches,
    xfail_strict=False,
)
def test_sklearn_check_on_minibatches(estimator, check):
    check(estimator)


# The following are public, but not among those that `parametrize_with_checks` yields.


@pytest.mark.parametrize("Estimator", ESTIMATORS + NETWORKS)
def test_every_parameter_is_validated(Estimator):
    estimator = Estimator() if Estimator in ESTIMATORS else network(Estimator, "ensemble")
    check_param_validation(Estimator.__name__, estimator)


@pytest.mark.parametrize("engine", SHORT)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_column_names(Estimator, engine):
    check_dataframe_column_names_consistency(Estimator.__name__, linear(Estimator, engine))


@pytest.mark.parametrize("engine", NETWORK_ENGINES)
@pytest.mark.parametrize("Estimator", NETWORKS)
def test_column_names_of_networks(Estimator, engine):
    check_dataframe_column_names_consistency(Estimator.__name__, network(Estimator, engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_balanced_class_weight(engine):
    check_class_weight_balanced_linear_classifier(
        "BayesianLogisticRegression", BayesianLogisticRegression(inference=engine)
    )
