"""What is said of the rows of a stream, the first of which fix the scaling of all."""

import numpy as np

from .._statistics.column_moments import location_and_scale
from .._tools.warnings import warn
from .columns import dense

_ENOUGH = 30  # rows, to compare their spread
_CHANGED = 5.0  # times that of the first rows, with which priors of their size are far off


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


def warn_of_changed_scale(scaling, X, y, sample_weight):
    """Warn if rows spread otherwise than the first ones of a stream, which fixed the ``scaling``.

    y is None if it is not scaled.
    """
    if len(sample_weight) < _ENOUGH:
        return

    def spread(columns):
        spread = location_and_scale(columns, sample_weight)[1]
        return np.where(spread == 1.0, np.nan, spread)  # that of a constant

    change = {"a feature spreads {:.0f} times less": scaling.scale / spread(X)}
    if y is not None:
        change["y spreads {:.0f} times more"] = spread(y.reshape(len(y), -1)) / scaling.y_scale
    for what, times in change.items():
        if np.any(times > _CHANGED):
            warn(
                f"in these rows {what.format(np.nanmax(times))} than in the first ones of the "
                "stream, which fix the scale of the priors: coefficients are shrunk. Start again, "
                "with fit or with rows in random order."
            )
