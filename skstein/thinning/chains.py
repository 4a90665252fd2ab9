"""Draws and scores of Markov chains, from NumPy or ArviZ, as arrays (chains, draws, d).

ArviZ is recognised by its structure, not its type: anything with a ``posterior`` group, or with
variables of dimensions ``chain`` and ``draw``, so that neither ArviZ nor xarray is ever imported.
"""

import numpy as np


def stack_draws(posterior, var_names=None):
    """Draws of all variables of an ArviZ posterior as one array.

    Parameters
    ----------
    posterior : arviz.InferenceData, xarray.DataTree or xarray.Dataset
        Its ``posterior`` group is taken, or the variables themselves. They must have the dimensions
        ``chain`` and ``draw``.
    var_names : sequence of str, default=None
        Variables to take, in this order; by default all, in the order of the group.

    Returns
    -------
    draws : ndarray of shape (chains, draws, d)
        One variable after the other; the entries of each in C order of its other dimensions.
    names : list of str
        Of the d columns, such as ``"mu"``, ``"beta[0]"``, ``"beta[1]"``.

    Raises
    ------
    ValueError
        If there is no such group, or there are two that scores could belong to; if a variable is
        missing, is not numeric, or lacks a dimension.

    Examples
    --------
    >>> import numpy as np
    >>> from arviz_base import from_dict
    >>> from skstein.thinning import stack_draws
    >>> idata = from_dict({"posterior": {"mu": np.ones((4, 100)), "beta": np.ones((4, 100, 2))}})
    >>> draws, names = stack_draws(idata)
    >>> draws.shape, names
    ((4, 100, 3), ['mu', 'beta[0]', 'beta[1]'])
    """
    group = _group(posterior)
    columns, names = [], []
    for name in list(group.data_vars) if var_names is None else var_names:
        if name not in group.data_vars:
            raise ValueError(
                f"var_names has {name!r}, but the variables are {', '.join(group.data_vars)}."
            )
        variable = group[name]
        if not {"chain", "draw"} <= set(variable.dims):
            raise ValueError(
                f"the variable {name!r} has the dimensions {tuple(variable.dims)}; it needs "
                '"chain" and "draw".'
            )
        values = np.asarray(variable.transpose("chain", "draw", ...).values)
        if values.dtype.kind not in "biuf":
            raise ValueError(f"the variable {name!r} is of type {values.dtype}, not real numbers.")
        columns.append(values.reshape(*values.shape[:2], -1))
        for index in np.ndindex(values.shape[2:]):
            names.append(f"{name}[{','.join(map(str, index))}]" if index else name)
    if not columns:
        raise ValueError("the posterior has no variables.")
    return np.concatenate(columns, axis=2, dtype=float), names


def read_chains(samples, scores):
    """Samples and scores as (chains, draws, d) arrays of equal shape; scores may be a function."""
    samples = as_chains("samples", samples)
    if callable(scores):
        flat = samples.reshape(-1, samples.shape[2])
        values = np.asarray(scores(flat), dtype=float)
        if values.shape != flat.shape:
            raise ValueError(
                f"scores must return an array of the shape of its argument, {flat.shape}, got "
                f"{values.shape}."
            )
        return samples, values.reshape(samples.shape)
    scores = as_chains("scores", scores)
    if samples.shape != scores.shape:
        raise ValueError(f"scores must be shaped as samples, {samples.shape}, got {scores.shape}.")
    return samples, scores


def check_finite(name, samples):
    """Refuse samples (n, d) that are empty or not finite."""
    if not len(samples):
        raise ValueError(f"{name} is empty.")
    if not np.isfinite(samples).all():
        raise ValueError(f"{name} has values that are not finite; remove those draws.")


def interleaved(chains):
    """One stream (chains * draws, ...) that takes a draw of every chain in turn."""
    return chains.swapaxes(0, 1).reshape(-1, *chains.shape[2:])


def as_chains(name, values):
    """An ArviZ posterior or an array as an array (chains, draws, d)."""
    if _is_dataset(values) or _is_dataset(getattr(values, "posterior", None)):
        return stack_draws(values)[0]
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be an array of numbers or an ArviZ posterior, got a "
            f"{type(values).__name__}."
        ) from None
    if array.ndim not in (2, 3) or not array.shape[-1]:
        raise ValueError(f"{name} must be (draws, d) or (chains, draws, d), got {array.shape}.")
    return array if array.ndim == 3 else array[None]


def _group(posterior):
    group = getattr(posterior, "posterior", None)
    group = group if _is_dataset(group) else posterior
    if not _is_dataset(group):
        raise ValueError(
            "posterior must be an InferenceData or a DataTree with a group posterior, or a "
            f"Dataset, got {type(posterior).__name__}."
        )
    if group is not posterior and hasattr(posterior, "unconstrained_posterior"):
        raise ValueError(
            "there are two groups, posterior and unconstrained_posterior: pass the one whose "
            "variables the scores are derivatives by, normally the unconstrained one."
        )
    return group


def _is_dataset(values):
    return hasattr(values, "data_vars")
