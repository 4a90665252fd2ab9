"""Rows that are set aside, on which an engine tells when to stop."""

import numpy as np

from ...targets import supports


def hold_out(target, fraction, rng, state):
    """Split off rows to validate on.

    Returns
    -------
    target : Target
        Of the other rows, its ``validation`` the target of those set aside.
    held_out : ndarray of bool, shape (n,)
        Which they are: those of ``state``, if an earlier run has left it and set as many aside.

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
    if isinstance(state, np.ndarray) and len(state) == n and state.sum() == count:
        mask = state
    kept = target.take(np.flatnonzero(~mask))
    kept.validation = target.take(np.flatnonzero(mask))
    return kept, mask
