"""Small versions of two benchmarks: simulation-based calibration, and random regressions.

The functions are those of ``examples/benchmarks``, which do the same hundreds of times and compare
distribution functions with bands that 95 % of right ones keep. Here nearly all have to.
"""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "examples" / "benchmarks"
N_REPLICATIONS, N_PROBLEMS, LARGEST = 60, 24, 20  # coordinates
RARE = 1e-5  # least probability of a count of ranks that is taken for chance


def benchmark(name):
    return SimpleNamespace(**runpy.run_path(str(BENCHMARKS / f"{name}.py")))


@pytest.fixture(scope="module")
def calibration():
    return benchmark("calibration")


@pytest.fixture(scope="module")
def problems():
    return benchmark("random_problems")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
@pytest.mark.parametrize("model", ["logistic", "linear"])
def test_ranks_of_true_parameters_are_uniform(calibration, model, engine, seed):
    first = 10_000 * seed
    replications = range(first, first + N_REPLICATIONS)
    ranks = [calibration.run(model, engine, number)["ranks"] for number in replications]
    assert calibration.least_probabilities(np.array(ranks)).min() > RARE


def test_ranks_among_too_narrow_or_moved_draws_are_seen(calibration, rng):
    """Posteriors N(y / 2, 1 / 2) of theta ~ N(0, 1), y ~ N(theta, 1), and two wrong ones."""
    theta = rng.standard_normal(500)
    mean = 0.5 * (theta + rng.standard_normal(500))
    noise = np.sqrt(0.5) * rng.standard_normal((999, 500))
    drawn = [mean + noise, mean + 0.7 * noise, mean + 0.25 + noise]
    below = np.mean(np.array(drawn) < theta, axis=1)
    ranks = (999 * below + rng.random(below.shape)) / 1000
    right, *wrong = calibration.least_probabilities(ranks.T)
    assert right > RARE
    assert max(wrong) < calibration.critical(500, 0.05, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mcmc", "pmfvb"])
def test_random_regressions_are_right_or_warned_of(problems, engine, seed):
    first = 1000 * (seed + 1)
    for number in range(first, first + N_PROBLEMS):
        problem = problems.make_problem(number)
        if problem.dim > LARGEST:
            continue
        truth = problems.find_truth(problem, number, seconds=10.0)
        if not problems.meets((truth["rhat"], truth["ess"]), problems.LEAST):
            continue
        fit = problems.run(problem, truth, engine, number)
        wrong = problems.judge(fit, truth["ess"], noise=True)
        assert fit["warned"] or not wrong, f"{number} {problem.what}: {wrong}"


def test_two_ways_to_the_truth_agree(problems, seed):
    """Exact draws and chains on a linear regression, within five standard errors of both."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + rng.normal(size=30)
    prior = problems.HierarchicalNormal(shape=3.0)
    problem = problems.Problem("linear", X, y, None, prior, problems.Normal(2.5), {}, "")
    exact = problems.exact_draws(problem, rng)
    chains = problems.Chains(problem.target(), rng)
    chains.warm_up()
    draws = chains.run(60)
    rhat, size = problems.quality(draws)
    assert rhat < 1.05
    error = np.sqrt(1 / size + 1 / len(exact))
    draws, sd = draws.reshape(-1, draws.shape[2]), exact.std(axis=0)
    assert (np.abs(draws.mean(axis=0) - exact.mean(axis=0)) < 5 * error * sd).all()
    assert (np.abs(draws.std(axis=0) / sd - 1) < 5 * error).all()
