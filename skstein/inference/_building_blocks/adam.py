"""Adam steps with a rate that falls linearly to zero.

What differs from Kingma & Ba (2015): the directions are remembered for at most a quarter of the
steps. In six steps with the usual memory of ten, the first would be taken six times.
"""

import numpy as np

# Directions are in units where 1 is large. Below this they count as noise: dividing by their own
# size would turn rounding errors into full steps.
_SMALL = 1e-2
_MEMORY = 0.25  # share of the steps


class Adam:
    """Adam (Kingma & Ba 2015) that ascends, for a known number of steps.

    Parameters
    ----------
    learning_rate : float
        Size of the first step, in the coordinates' own units.
    n_steps : int
        The rate falls linearly and is 0 after that many steps, so that the last steps settle.
    """

    def __init__(self, learning_rate, n_steps):
        self.learning_rate, self.n_steps = learning_rate, n_steps
        self._decay = min(0.9, max(0.0, 1.0 - 1.0 / (_MEMORY * n_steps)))
        self._first = self._second = 0.0  # sums of directions and squares, not yet averages
        self._t = 0

    def step(self, direction):
        """The step to add for an ascent ``direction``, of the same shape."""
        rate = self.learning_rate * (1.0 - self._t / self.n_steps)
        self._t += 1
        self._first = self._decay * self._first + direction
        self._second = 0.999 * self._second + direction * direction
        size = np.sqrt(0.001 / (1.0 - 0.999**self._t) * self._second)
        size += _SMALL
        return rate * (1.0 - self._decay) / (1.0 - self._decay**self._t) * self._first / size
