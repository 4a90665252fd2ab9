"""Warnings about the rows of a stream, the first of which fix the scaling of all."""

import numpy as np

from .._tools.warnings import warn
from .columns import dense

_ENOUGH = 30  # rows, to compare their spread
_WIDER = 5  # times, from which on means are some tenths of a standard deviation off


def warn_of_first_rows(problems, X, standardize, least, fixed="scaling"):
    """Warn if the first rows of a stream are too few or degenerate to fix what they do for all."""
    constant = standardize and (dense(X.max(axis=0)) == dense(X.min(axis=0))).sum()
    if constant:
        problems = [*problems, f"{constant} constant features, which are never scaled"]
    if problems:
        warn(
            f"the first rows of a stream fix {fixed}, and these have {', '.join(problems)}: "
            f"start with more of them, some hundreds in random order and at least {least}."
        )


def warn_of_wider_outcomes(y, y_scale):
    """Warn if y spreads far more than the ``y_scale`` that the first rows of a stream have fixed.

    Quantiles are compared: outliers do not change them.
    """
    if len(y) >= _ENOUGH:
        low, high = np.quantile(y, [0.1, 0.9], axis=0)
        if np.any(high - low > _WIDER * 2.56 * y_scale):  # a normal y has 2.56 between them
            warn(
                f"y of these rows spreads more than {_WIDER:g} times as much as that of the first "
                "ones of the stream, which fix the scale of the priors: coefficients are shrunk. "
                "Start again, with fit or with rows in random order."
            )
