"""Small engines and networks, for tests of what does not depend on a posterior's accuracy."""

from functools import cache
from itertools import product
from operator import ne

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_classifier_data_not_an_array,
    check_estimator_sparse_array,
    check_estimator_sparse_matrix,
    check_estimators_dtypes,
    check_regressor_data_not_an_array,
    parametrize_with_checks,
)

from skstein.inference import (
    FWSS,
    MCMC,
    PMD,
    PMFVB,
    SVGD,
    AdaptivePMFVB,
    KSDThinnedMCMC,
    LaplaceDraws,
    SteinPoints,
)
from skstein.kernels import RBF
from skstein.samplers import SGHMC

# Each takes milliseconds. Chains go on once, because they have not converged.
ENGINES = {
    "svgd": SVGD(20, max_iter=10),
    "pmd": PMD(100, max_iter=6, n_moves=2),
    "pmfvb": PMFVB(20, n_warmup=24, n_snapshots=5, max_iter=40),
    "fwss": FWSS(10, max_iter_oracle=5, max_iter_sweep=5),
    "stein-points": SteinPoints(10, n_warmup=20),
    "mcmc": MCMC(20, n_draws=40, max_draws=80, n_warmup=20),
    "ksd-mcmc": KSDThinnedMCMC(20, n_draws=40, max_draws=80, n_warmup=20),
    "laplace": LaplaceDraws(40),
}

_CHAINS = {
    "sampler": SGHMC(thinning=5),
    "n_chains": 3,
    "n_draws": 8,
    "max_draws": 8,
    "n_warmup": 2,
    "whiten": False,
}
# Of networks: these follow the training of `network`.
NETWORK_ENGINES = {
    "ensemble": "ensemble",
    "mcmc": MCMC(12, **_CHAINS),
    "ksd-mcmc": KSDThinnedMCMC(12, **_CHAINS),
    "pmfvb": AdaptivePMFVB(3, max_iter=20, batch_size=None),
    "svgd": SVGD(3, kernel=RBF("median"), max_iter=10),
    "fwss": FWSS(3, kernel=RBF("median"), max_iter_oracle=10),
}


def later(*values):
    """A parameter of `make test-all` alone: a case of what the others test in every run."""
    return pytest.param(*values, marks=pytest.mark.slow)


def crossed(*values):
    """Parameters for all combinations of values.

    Those that differ from the first of each in one value come in every run, the others in
    `make test-all`.
    """
    first = [next(iter(some)) for some in values]
    return [
        pytest.param(*each, marks=[pytest.mark.slow] * (sum(map(ne, each, first)) > 1))
        for each in product(*values)
    ]


OF_READING = {
    check_classifier_data_not_an_array,
    check_estimator_sparse_array,
    check_estimators_dtypes,
    check_regressor_data_not_an_array,
}


def with_checks(estimators, **params):
    """`parametrize_with_checks` that prints an estimator once, not for each of its checks.

    Sparse matrices are for `make test-all`: they are converted where sparse arrays are. So are
    other checks of how rows are read for all but the first of a class: these take longest of all.
    """
    mark = parametrize_with_checks(estimators, **params)
    names, cases = mark.args
    first: dict[type, object] = {}
    for i, case in enumerate(cases):
        check = getattr(case[-1], "func", None)
        again = first.setdefault(type(case[0]), case[0]) is not case[0]
        of_reading = check in OF_READING or "readonly_memmap" in getattr(case[-1], "keywords", {})
        if (again and of_reading) or check is check_estimator_sparse_matrix:
            cases[i] = later(*case)
    return pytest.mark.parametrize(names, cases, ids=cache(mark.kwargs["ids"]))


def network(Estimator, engine="ensemble", **params):
    """Three networks with four units, on full batches."""
    params = {
        "n_networks": 3,
        "max_iter": 200,
        "learning_rate_init": 0.02,
        "batch_size": None,
        "random_state": 0,
        **params,
    }
    return Estimator((4,), inference=clone(NETWORK_ENGINES[engine], safe=False), **params)
