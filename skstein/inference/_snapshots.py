"""The states of a run that make its posterior: evenly spaced, and never more than twice as many.

How long a run will be is not known beforehand, so states are held as they come. Only those of the
second half of the run so far can still be wanted, and where these are too many, every second is let
go and from then on only every second (fourth, ...) is taken.
"""

import numpy as np


class Snapshots:
    """Keeps up to ``2 n`` of the states that it is offered, for a choice of ``n``.

    Parameters
    ----------
    n : int

    Examples
    --------
    >>> from skstein.inference._snapshots import Snapshots
    >>> kept = Snapshots(3)
    >>> for t in range(1, 25):
    ...     kept.offer(t)
    >>> kept.chosen(), kept.held
    ([14, 18, 24], [14, 16, 18, 20, 22, 24])
    """

    def __init__(self, n):
        self._n, self._stride, self._offered = n, 1, 0
        self._places = []
        self.held = []

    def __len__(self):
        return self._offered

    def offer(self, state):
        """Take the next state, if it may be wanted."""
        self._offered += 1
        if self._offered % self._stride == 0:
            self._places.append(self._offered)
            self.held.append(state)
        if self._offered > self._n:
            self._keep(lambda place: place > self._offered // 2)
        while len(self.held) > 2 * self._n:
            self._stride *= 2
            self._keep(lambda place: place % self._stride == 0)

    def _keep(self, wanted):
        kept = [i for i, place in enumerate(self._places) if wanted(place)]
        self._places = [self._places[i] for i in kept]
        self.held = [self.held[i] for i in kept]

    def chosen(self):
        """Up to ``n`` states: all at first, then evenly spaced ones of the second half."""
        count = min(self._n, len(self.held))
        return [self.held[i] for i in np.linspace(0, len(self.held) - 1, count).round().astype(int)]
