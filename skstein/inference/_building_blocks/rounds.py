"""The rounds of a run: their numbers, the callback between them, and a halt where one diverges."""

import numpy as np


class Rounds:
    """The rounds of a run: their numbers, and the callback between them.

    Parameters
    ----------
    total : int
        Iterations of a whole run.
    make_posterior : callable
        ``make_posterior()``: the posterior as it stands.
    callback : callable or None
        As of `Engine.run`.
    history : History, default=None
        Of a run that is continued.

    Attributes
    ----------
    history : History
    stopped : bool
        Whether the callback has asked to stop.
    """

    def __init__(self, total, make_posterior, callback, history=None):
        self.history = History() if history is None else history
        self.stopped = False
        self._total, self._make_posterior, self._callback = total, make_posterior, callback

    def end(self, iteration, **numbers):
        """End a round, after so many iterations; return whether to stop."""
        info = self.history.add(**numbers)
        if self._callback is not None:
            self.stopped = bool(self._callback(iteration, self._total, self._make_posterior, info))
        return self.stopped


class History:
    """Numbers collected between rounds, as arrays at the end."""

    def __init__(self):
        self._rows = []

    def add(self, **numbers):
        self._rows.append(numbers)
        return numbers

    def arrays(self):
        """dict of str to ndarray of shape (iterations,)."""
        keys = self._rows[-1] if self._rows else ()
        return {key: np.array([row.get(key, np.nan) for row in self._rows]) for key in keys}


def with_posteriors(callback, changed):
    """``callback``, which is given ``changed(posterior)`` in place of each posterior."""

    def called(iteration, total, make_posterior, info):
        return callback(iteration, total, lambda: changed(make_posterior()), info)

    return called


def require_finite(values, what, iteration, history):
    """Raise when a run has diverged; the arrays of its `History` are kept on the error."""
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        error = FloatingPointError(
            f"{what} of particle {np.flatnonzero(bad)[0]} is not finite at iteration {iteration}; "
            "reduce learning_rate or step_size, use whiten=True, or check the log density there."
        )
        vars(error)["history"] = history.arrays()
        raise error
