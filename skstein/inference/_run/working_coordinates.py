"""The coordinates that engines work in: those of the Gaussian at the mode.

One-sided coordinates (quasi-separation), found by a line scan, are straightened too; a target may
have better coordinates of its own. A mode that is not found, or too many coordinates, cause a
warning.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError

from ..._tools.warnings import warn
from ...protocols import Bijection
from ...targets import Transformed, line_shifts, supports
from ...targets.bijections import Composition
from ...targets.laplace_at_mode import DIFFERENCES_UP_TO, whitening_laplace
from ...targets.one_sided import SHIFT, one_sided_bijection
from .modes import Modes

_SCALE = "Scale the features or use a tighter prior."
# A single coordinate that leans so much, as a deviation of few groups does, makes chains three
# times as long; and then those that lean less hold them up next.
_HINDRANCE, _LEANING = 0.25, 0.1
MAX_ROUNDING = 0.1  # of the log density: engines tell particles apart by differences of about 1


@dataclass
class Frame:
    """Coordinates in which the posterior is close to standard normal.

    Attributes
    ----------
    bijection : bijection
        From them to the target's own.
    gaussian : bijection
        The plain Laplace approximation.
    mode : ndarray of shape (dim,)
    one_sided : ndarray of int
        Coordinates that a line scan found one-sided.
    modes : Modes or None
        Of a density that may have several.
    """

    bijection: Bijection
    gaussian: Bijection
    mode: np.ndarray
    one_sided: np.ndarray
    modes: Modes | None = None


def start_elsewhere(target):
    """What to do about a density of your own that may have other modes; "" of others."""
    own = target.modes_unknown and not target.sums_rows
    return "If another mode is the main one, start the search from there (initial=)." if own else ""


def find_frame(target, leaning=True):
    """The frame of a target with a score; None, with a warning, if no mode is found.

    ``leaning=False`` leaves coordinates that only lean as they are: Stein particles are less
    accurate with more of them straightened.
    """
    outer, inner = None, target
    try:
        if supports(target, "coordinates"):
            outer, laplace = target.coordinates()
            inner = surrogate = Transformed(target, outer)
        else:
            surrogate, laplace = whitening_laplace(target)
        modes = None
        if target.modes_unknown and target.dim <= DIFFERENCES_UP_TO and laplace.converged:
            modes = Modes(target, laplace)
            if modes.best is not laplace:
                surrogate, laplace = whitening_laplace(target, modes.best)
    except (FloatingPointError, LinAlgError) as error:
        warn(f"unwhitened, the posterior may be wrong: {error} {start_elsewhere(target)}".rstrip())
        return None
    if not laplace.converged:
        warn(
            "the search for the posterior's mode stopped without reaching it; the coordinates may "
            "be poor. " + (start_elsewhere(target) or _SCALE)
        )
    gaussian, mode = laplace.bijection, laplace.mode
    if outer is not None:
        gaussian, mode = Composition(outer, gaussian), outer.forward(mode[None])[0]
    plain = Frame(gaussian, gaussian, mode, np.array([], dtype=int), modes)
    rounding = np.spacing(np.abs(target.log_density(mode[None])[0]))
    if not rounding < MAX_ROUNDING:
        warn(
            f"near its mode the log density is so large that differences of {MAX_ROUNDING:g} are "
            "lost to rounding; reduce sample_weight, or leave out a constant term."
        )
        return plain
    if laplace.hessian.ndim == 1:
        warn(f"with {target.dim} coordinates whitening is diagonal: correlated ones mix slowly.")
        return plain
    mixed = len(getattr(target, "factors", ())) > 1  # by a map of several coordinates
    expensive = outer is not None and target.dim > DIFFERENCES_UP_TO  # its Hessian is differenced
    if mixed or expensive:
        return plain
    try:
        return _straightened(plain, target, outer, inner, laplace, surrogate, leaning)
    except (FloatingPointError, LinAlgError) as error:
        warn(f"one-sided coordinates could not be straightened: {error}")
        return plain


def _straightened(plain, target, outer, inner, laplace, surrogate, leaning):
    """The frame with one-sided coordinates, or those that lean, straightened, if there are any.

    ``inner`` is the target before its own coordinates ``outer``, or itself; the Laplace
    approximation there is of ``surrogate``.
    """
    scanned = inner.scanned(surrogate) if supports(inner, "scanned") else inner
    shifts = np.abs(line_shifts(scanned, laplace))
    one_sided = np.flatnonzero(shifts > SHIFT)
    if supports(target, "straightened"):
        return replace(plain, bijection=target.straightened(surrogate), one_sided=one_sided)
    # A line through the center of a Gaussian that is none at a mode tells little.
    at_mode = outer is not None or not getattr(target, "judged_by_chains", False)
    leaning = leaning and at_mode
    least = SHIFT if outer is None and not leaning else _HINDRANCE
    if not shifts.max() > least:
        return plain
    bent = np.argsort(-shifts)[: np.sum(shifts > (_LEANING if leaning else least))]
    # Walls in coordinates that are curved already are no planes to turn along.
    bijection = one_sided_bijection(scanned, laplace, bent, surrogate, at_mode and outer is None)
    bijection = bijection if outer is None else Composition(outer, bijection)
    return replace(plain, bijection=bijection, one_sided=one_sided)
