"""A user's own log density as a target."""

from typing import Any

import numpy as np

from .._input.columns import as_names
from .base import NotANumber, Target

_RUN_OFF = 1e30


def _real(values, name):
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of real numbers, got one of {values.dtype}.")
    return values.astype(float, copy=False)


class LogDensity(Target):
    """A target made of plain NumPy functions.

    Parameters
    ----------
    log_density : callable
        ``log_density(theta) -> (m,)`` for ``theta`` of shape (m, dim), up to a constant.
    score : callable, default=None
        ``score(theta) -> (m, dim)``, the gradient of ``log_density``. Without it only engines that
        need no gradient can be used. A wrong one gives a wrong posterior: a multiple of the
        gradient passes through "svgd", "fwss" and "laplace" without a warning. `check_target`
        compares the two functions by differences; call it before the first fit.
    dim : int
        Number of coordinates.
    initial : array-like of shape (dim,), default=None
        Where the search for the mode starts; zeros by default. The density must not be 0 there.
    hessian : callable, default=None
        ``hessian(theta) -> (dim, dim)`` for ``theta`` of shape (dim,): the second derivatives of
        the *negative* log density. By default they are differenced from the score.
    sample_prior : callable, default=None
        ``sample_prior(rng, m) -> (m, dim)``: where PMD starts when there is no score.
    log_prior : callable, default=None
        ``log_prior(theta) -> (m,)``: the log density of ``sample_prior``'s draws.
    names : sequence of str, default=None
        A name for each coordinate.

    Raises
    ------
    ValueError
        If ``dim``, ``initial`` or ``names`` do not fit each other; when a function is called, if it
        returns the wrong shape or NaN, or ``log_density`` infinity.
    TypeError
        If a function is not callable, or ``names`` is a single string.

    See Also
    --------
    check_target : Compares the functions with each other and finds a score that is not the
        gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import LogDensity, check_target
    >>> target = LogDensity(lambda t: -0.5 * (t**2).sum(1), score=lambda t: -t, dim=2)
    >>> check_target(target)
    >>> target.log_density(np.ones((3, 2)))
    array([-1., -1., -1.])
    """

    modes_unknown = True
    names: Any = ()
    initial: Any = None

    def __init__(
        self,
        log_density,
        score=None,
        *,
        dim,
        initial=None,
        hessian=None,
        sample_prior=None,
        log_prior=None,
        names=None,
    ):
        if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 1:
            raise ValueError(f"dim must be a positive integer, got {dim!r}.")
        self.dim = int(dim)
        self._functions = {
            "log_density": log_density,
            "score": score,
            "hessian": hessian,
            "sample_prior": sample_prior,
            "log_prior": log_prior,
        }
        for name, function in self._functions.items():
            if function is None and name != "log_density":
                setattr(self, name, None)
            elif not callable(function):
                raise TypeError(f"{name} must be a function of theta, got {function!r}.")
        self.initial = np.zeros(dim) if initial is None else _real(np.array(initial), "initial")
        if self.initial.shape != (dim,):
            raise ValueError(f"initial must have shape ({dim},), got {self.initial.shape}.")
        if not np.isfinite(self.initial).all():
            raise ValueError(f"initial must be finite, got {self.initial}.")
        self.names = super().names if names is None else as_names(names, self.dim)

    def _call(self, name, shape, *args):
        # Copies: a function may work in place, and give the same array whenever it is called.
        own = [np.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        value = np.array(self._functions[name](*own))
        if value.shape != shape:
            raise ValueError(f"{name} returned shape {value.shape}, expected {shape}.")
        value = _real(value, name)
        wrong = np.isnan(value)
        if name == "log_density":
            wrong |= value == np.inf
        if wrong.any():
            _explain(name, value, wrong, args[0])
        return value

    def log_density(self, theta):
        return self._call("log_density", (len(theta),), theta)

    def score(self, theta, rows=None):
        return self._call("score", theta.shape, theta)

    def hessian(self, theta):
        return self._call("hessian", (self.dim, self.dim), theta)

    def sample_prior(self, rng, m):
        return self._call("sample_prior", (m, self.dim), rng, m)

    def log_prior(self, theta):
        return self._call("log_prior", (len(theta),), theta)


def _explain(name, value, wrong, theta):
    if name in ("hessian", "sample_prior"):
        raise NotANumber(f"{name} returned NaN; check the function")
    bad = wrong.reshape(len(wrong), -1).any(axis=1)
    # A trajectory that has run off, where squares overflow, is the engine's to reject.
    bad &= (np.abs(theta) < _RUN_OFF).all(axis=1)
    if bad.any():
        first = np.flatnonzero(bad)[0]
        where = np.array2string(theta[first], threshold=6, precision=4)
        raise NotANumber(
            f"{name} returned {'NaN' if np.isnan(value[first]).any() else 'infinity'} for particle "
            f"{first} of {len(value)}, at theta = {where}; where the density is 0, return -inf for "
            "it and any finite score, and check the function there"
        )
