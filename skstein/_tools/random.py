"""Random numbers: from scikit-learn's ``random_state`` to NumPy generators."""

import numpy as np
from sklearn.utils import check_random_state


def as_generator(random_state):
    """A generator of its own for one fit.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        An int gives the same stream at every call; a RandomState is advanced; a Generator spawns.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> from skstein._tools.random import as_generator
    >>> bool(as_generator(0).random() == as_generator(0).random())
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state.spawn(1)[0]
    entropy = check_random_state(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(entropy.tolist())
