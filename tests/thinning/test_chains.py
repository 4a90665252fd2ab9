"""Chains from ArviZ, or from what looks like it, as arrays in the documented order."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skstein.thinning import OnlineKSDThinner, stack_draws, stein_thin
from skstein.thinning.chains import read_chains


class Variable:
    """As much of xarray.DataArray as is used."""

    def __init__(self, dims, values):
        self.dims, self.values = dims, np.asarray(values)

    def transpose(self, *dims):
        assert dims == ("chain", "draw", ...)
        rest = [d for d in self.dims if d not in ("chain", "draw")]
        order = [self.dims.index(d) for d in ("chain", "draw", *rest)]
        return Variable(("chain", "draw", *rest), self.values.transpose(order))


class Dataset:
    def __init__(self, **variables):
        self.data_vars = variables

    def __getitem__(self, name):
        return self.data_vars[name]


@pytest.fixture
def arrays(rng):
    return {
        "mu": (("chain", "draw"), rng.normal(size=(2, 50))),
        "beta": (("chain", "draw", "row", "col"), rng.normal(size=(2, 50, 2, 3))),
        "late": (("group", "draw", "chain"), rng.normal(size=(4, 50, 2))),
    }


@pytest.fixture(params=["duck", "InferenceData", "DataTree"])
def posterior(request, arrays):
    """The same three variables from each source that is installed."""
    if request.param == "duck":
        return SimpleNamespace(
            posterior=Dataset(**{name: Variable(*a) for name, a in arrays.items()})
        )
    xarray = pytest.importorskip("xarray")
    dataset = xarray.Dataset(arrays)
    if request.param == "DataTree":
        if not hasattr(xarray, "DataTree"):
            pytest.skip("this xarray has no DataTree")
        return xarray.DataTree.from_dict({"/posterior": dataset})
    arviz = pytest.importorskip("arviz")
    if isinstance(arviz.InferenceData, type) and issubclass(
        arviz.InferenceData, getattr(xarray, "DataTree", ())
    ):
        pytest.skip("this ArviZ has no InferenceData of its own")
    return arviz.InferenceData(posterior=dataset)


def expected(arrays):
    return np.concatenate(
        [
            arrays["mu"][1][..., None],
            arrays["beta"][1].reshape(2, 50, 6),
            arrays["late"][1].transpose(2, 1, 0),
        ],
        axis=2,
    )


def test_variables_are_stacked_in_their_order(posterior, arrays):
    draws, names = stack_draws(posterior)
    assert_array_equal(draws, expected(arrays))
    assert draws.dtype == float
    assert names == [
        "mu",
        *(f"beta[{i},{j}]" for i in range(2) for j in range(3)),
        *(f"late[{k}]" for k in range(4)),
    ]
    assert_array_equal(stack_draws(posterior.posterior)[0], draws)
    draws, names = stack_draws(posterior, ["late", "mu"])
    assert names[0] == "late[0]" and names[-1] == "mu"
    assert_array_equal(draws[:, :, -1], arrays["mu"][1])


def test_a_posterior_is_thinned_like_its_array(posterior, arrays):
    draws = expected(arrays)
    thinner = OnlineKSDThinner(20).partial_fit(posterior, np.negative)
    assert_array_equal(thinner.indices_, OnlineKSDThinner(20).partial_fit(draws, -draws).indices_)
    assert_array_equal(stein_thin(posterior, -draws, 9), stein_thin(draws, -draws, 9))


def test_scores_may_be_a_dataset(arrays):
    dataset = Dataset(**{name: Variable(*a) for name, a in arrays.items()})
    scores = Dataset(**{name: Variable(d, -a) for name, (d, a) in arrays.items()})
    samples, values = read_chains(dataset, scores)
    assert_array_equal(values, -samples)


def test_a_group_that_scores_do_not_fit_is_refused(arrays):
    mu = Dataset(mu=Variable(*arrays["mu"]))
    both = SimpleNamespace(posterior=mu, unconstrained_posterior=mu)
    with pytest.raises(ValueError, match="pass the one whose variables"):
        stack_draws(both)
    assert stack_draws(both.unconstrained_posterior)[0].shape == (2, 50, 1)


@pytest.mark.parametrize(
    "variables, message",
    [
        ({}, "has no variables"),
        (
            {"a": Variable(("draw",), np.zeros(5))},
            "the variable 'a' has the dimensions .* \"chain\"",
        ),
        ({"a": Variable(("chain", "draw"), [["x"]])}, "of type <U1"),
    ],
)
def test_variables_that_are_no_draws_are_named(variables, message):
    with pytest.raises(ValueError, match=message):
        stack_draws(Dataset(**variables))


def test_what_is_no_posterior_is_refused(arrays):
    with pytest.raises(ValueError, match="got ndarray"):
        stack_draws(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="the variables are mu"):
        stack_draws(Dataset(mu=Variable(*arrays["mu"])), ["tau"])


@pytest.mark.parametrize(
    "samples, scores, message",
    [
        (np.zeros(3), np.zeros(3), r"samples must be \(draws, d\)"),
        (np.zeros((3, 0)), np.zeros((3, 0)), r"samples must be \(draws, d\)"),
        ({"a": 1}, np.zeros((3, 1)), "samples must be an array of numbers .* got a dict"),
        (np.zeros((3, 2)), "scores", "scores must be an array of numbers .* got a str"),
        (np.zeros((3, 2)), np.zeros((2, 2)), "scores must be shaped as samples"),
        (np.zeros((2, 3, 2)), np.zeros((6, 2)), "scores must be shaped as samples"),
        (np.zeros((3, 2)), lambda x: x[:1], "scores must return an array of the shape"),
    ],
)
def test_arrays_that_do_not_fit_are_named(samples, scores, message):
    with pytest.raises(ValueError, match=message):
        read_chains(samples, scores)
