"""Pickles that say which version of skstein wrote them."""

import warnings

from sklearn.exceptions import InconsistentVersionWarning


class VersionWarning(InconsistentVersionWarning):
    """An estimator was saved by another version of skstein; scikit-learn's warning is its base."""

    def __init__(self, estimator_name, written):
        self.estimator_name = estimator_name
        self.original_skstein_version = written
        self.current_skstein_version = _version()

    def __str__(self):
        return (
            f"{self.estimator_name} was saved by skstein {self.original_skstein_version} and is "
            f"loaded by {self.current_skstein_version}: its predictions may be wrong or fail; fit "
            "it again, or load it with the version that saved it."
        )


def _version():
    from .. import __version__

    return __version__


class VersionedPickles:
    """What is pickled carries the version of skstein, and warns when another one loads it."""

    def __getstate__(self):
        return {**super().__getstate__(), "_skstein_version": _version()}  # type: ignore[dict-item]

    def __setstate__(self, state):
        state = dict(state)
        written = state.pop("_skstein_version", "before 0.1.0")
        if written != _version():
            warnings.warn(VersionWarning(type(self).__name__, written), stacklevel=2)
        super().__setstate__(state)  # type: ignore[misc]
