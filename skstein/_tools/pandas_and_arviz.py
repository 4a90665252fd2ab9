"""What other packages take: tables for pandas, and groups of draws for ArviZ.

For ArviZ that is the tree of ArviZ 1 (and arviz-base), or InferenceData.

ArviZ knows chains and draws, but no weights. Names such as ``"beta[0]"``, ``"beta[1]"`` become one
variable ``beta``, with what stands in the brackets as its coordinate.
"""

import re
from importlib.metadata import PackageNotFoundError, version

import numpy as np

_CONTAINERS = ("auto", "datatree", "inferencedata")


def as_table(names, columns):
    """Columns, each with an entry for each of ``names``, as a frame of pandas.

    Parameters
    ----------
    names : sequence of str
    columns : dict of str to ndarray

    Returns
    -------
    pandas.DataFrame, or dict of str to ndarray when pandas is not installed
        With the names as index, or as column ``name``.
    """
    try:
        import pandas as pd
    except ImportError:
        return {"name": np.array(names), **columns}
    return pd.DataFrame(columns, index=list(names))


def arviz_variables(draws, names):
    """Arrays (n_chains, n_draws, ...), dimensions and coordinates of draws (..., dim)."""
    entries = {}
    for j, name in enumerate(names):
        match = re.fullmatch(r"(.+)\[([^\[\]]+)\]", name)
        base, label = match.groups() if match else (name, None)
        entries.setdefault(base, []).append((j, label))
    for name in {"chain", "draw"}.intersection(entries):
        raise ValueError(f"a coordinate is called {name!r}, as a dimension of ArviZ is: rename it.")
    variables, dims, coords = {}, {}, {}
    for base, members in entries.items():
        columns, labels = zip(*members, strict=True)
        if None in labels and len(labels) > 1:  # "a" beside "a[0]"
            variables.update({names[j]: draws[..., j] for j in columns})
        elif None in labels:
            variables[base] = draws[..., columns[0]]
        else:
            variables[base] = draws[..., list(columns)]
            dims[base] = [f"{base}_dim_0"]
            coords[f"{base}_dim_0"] = np.array(labels)
    return variables, dims, coords


def make_container(groups, *, dims, coords, attrs, container):
    """What ArviZ works on.

    Parameters
    ----------
    groups : dict of str to dict of str to ndarray
        Variables of each group, (n_chains, n_draws, ...), or (...) in "observed_data".
    dims : dict of str to list of str
        Names of the other dimensions of a variable.
    coords : dict of str to array-like
        Values along a dimension.
    attrs : dict of str to str
        What is to stand beside the group "posterior".
    container : {"auto", "datatree", "inferencedata"}

    Returns
    -------
    xarray.DataTree or arviz.InferenceData

    Raises
    ------
    ValueError
        If there is no such container.
    ImportError
        If what makes it is not installed.
    """
    if container not in _CONTAINERS:
        raise ValueError(f"container must be one of {', '.join(_CONTAINERS)}; got {container!r}.")
    older = _arviz_major() == 0
    if container == "inferencedata" and not older:
        raise ImportError('container="inferencedata" needs ArviZ below 1: pip install "arviz<1"')
    if older and container != "datatree":
        import arviz

        return arviz.from_dict(**groups, dims=dims, coords=coords, posterior_attrs=attrs)
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ, or arviz-base alone: pip install arviz") from error
    return from_dict(groups, dims=dims, coords=coords, attrs={"posterior": attrs})


def _arviz_major():
    """The first number of the installed ArviZ's version, None without ArviZ."""
    try:
        return int(version("arviz").partition(".")[0])
    except PackageNotFoundError:
        return None
