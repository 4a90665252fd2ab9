"""Step sizes of mirror descent: functions of the step and of the number of batches in an epoch."""

from dataclasses import dataclass


def _counting_once(t, n_batches):
    """``2 / (t - 1 + 2 n_batches)``: the first step counts each of its rows once.

    The power of the likelihood reached after T steps is ``1 - O(n_batches^2 / T^2)``.
    """
    return 2.0 / (t - 1.0 + 2.0 * n_batches)


@dataclass(frozen=True)
class InverseTime:
    """Step sizes ``min(1, eta / t)``, with which means of bounded functions converge.

    Parameters
    ----------
    eta : float, default=1.0
        Above 1/2 for theorem 5 of Dai, He, Dai & Song (2016).

    Examples
    --------
    >>> from skstein.inference import InverseTime
    >>> InverseTime(eta=0.8)(t=4, n_batches=10)
    0.2
    """

    eta: float = 1.0

    def __call__(self, t, n_batches):
        return min(1.0, self.eta / t)


@dataclass(frozen=True)
class InverseSqrt:
    """Step sizes ``1 / (offset + sqrt(t))``, those of the experiments of Dai et al. (2016).

    Parameters
    ----------
    offset : float, default=100.0
        Larger ones make smaller steps.

    Examples
    --------
    >>> from skstein.inference import InverseSqrt
    >>> InverseSqrt(offset=98)(t=4, n_batches=10)
    0.01
    """

    offset: float = 100.0

    def __call__(self, t, n_batches):
        return 1.0 / (self.offset + t**0.5)


STEP_SIZES = {"auto": _counting_once, "inverse": InverseTime(), "inverse-sqrt": InverseSqrt()}
