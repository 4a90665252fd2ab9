"""The states of a run that make its posterior: a fixed number, spread over its second half.

How long a run will be is not known beforehand, so states are held as they come, up to that number.
From then on only those of the second half of the run so far are kept, and where these are too many,
the one whose neighbours are closest to each other goes.
"""

import numpy as np


class Snapshots:
    """Keeps up to ``n`` of the states that it is offered.

    Parameters
    ----------
    n : int

    Attributes
    ----------
    states : list
        Those kept, in order of time: all at first; after ``2 n`` or more, ``n`` of the second half,
        none further from the next than twice what even spacing would have.

    Examples
    --------
    >>> from skstein.inference._building_blocks.snapshots import Snapshots
    >>> kept = Snapshots(4)
    >>> for t in range(1, 25):
    ...     kept.offer(t)
    >>> kept.states
    [13, 18, 22, 24]
    """

    def __init__(self, n):
        self._n, self.n_offered, self._places, self.states = n, 0, [], []

    def offer(self, state):
        """Take the next state."""
        self.n_offered += 1
        self._places.append(self.n_offered)
        self.states.append(state)
        while self.n_offered > self._n and self._places[0] <= self.n_offered // 2:
            self._drop(0)
        if len(self.states) > self._n:
            places = np.array(self._places)
            self._drop(1 + np.argmin(places[2:] - places[:-2]) if len(places) > 2 else 0)

    def _drop(self, i):
        del self._places[i], self.states[i]
