"""Rows that are set aside, on which an engine tells when to stop."""

from dataclasses import dataclass

import numpy as np

from ..targets import supports


@dataclass
class HeldOut:
    """Which rows early stopping has set aside, for a run that goes on from there.

    Attributes
    ----------
    mask : ndarray of bool, shape (n,)
    """

    mask: np.ndarray


def hold_out(target, fraction, rng, state):
    """Split off rows to validate on.

    Returns
    -------
    target : Target
        Of the other rows, its ``validation`` the target of those set aside.
    held_out : HeldOut
        Which they are: those of ``state``, if an earlier run has left one with as many rows.

    Raises
    ------
    ValueError
        If the target cannot be cut, or a part would be empty.
    """
    if not (supports(target, "take") and supports(target, "pointwise_log_likelihood")):
        raise ValueError(
            "early_stopping=True sets rows aside, which this target does not allow (take); use "
            "early_stopping=False."
        )
    n, count = target.n_rows, round(fraction * target.n_rows)
    if not 0 < count < n:
        raise ValueError(
            f"validation_fraction={fraction:g} of {n} rows sets {count} aside; at "
            "least one row has to be, and one has to remain."
        )
    mask = np.zeros(n, dtype=bool)
    mask[rng.permutation(n)[:count]] = True
    if isinstance(state, HeldOut) and len(state.mask) == n and state.mask.sum() == count:
        mask = state.mask
    kept = target.take(np.flatnonzero(~mask))
    kept.validation = target.take(np.flatnonzero(mask))
    return kept, HeldOut(mask)
