"""The engines for neural networks by name: those whose settings suit thousands of coordinates."""

from ..samplers.sghmc import SGHMC
from ._registry import resolve_engine
from .ensemble import Ensemble
from .ksd_mcmc import KSDThinnedMCMC


def _chains():
    # R-hat and effective sample sizes of single weights say nothing: networks with their units in
    # another order are the same function.
    return KSDThinnedMCMC(
        200,
        sampler=SGHMC(),
        n_chains=20,
        n_draws=10,
        max_draws=10,
        n_warmup=10,
        max_rhat=1e6,
        min_ess=0,
        whiten=False,
        one_sided=False,
    )


NETWORK_ENGINES = {"ensemble": Ensemble, "ksd-mcmc": _chains}


def resolve_network_engine(inference):
    """Turn ``inference`` of a neural network into an engine of its own.

    Parameters
    ----------
    inference : str or engine
        A name of ``NETWORK_ENGINES``, or an instance, which is cloned.

    Returns
    -------
    engine

    Raises
    ------
    ValueError
        For an unknown name, or an engine with invalid parameters.
    TypeError
        For a class instead of an instance, or an object without ``run``.

    Examples
    --------
    >>> from skstein.inference._network import resolve_network_engine
    >>> resolve_network_engine("ensemble")
    Ensemble()
    """
    if isinstance(inference, str) and inference in NETWORK_ENGINES:
        return resolve_engine(NETWORK_ENGINES[inference]())
    return resolve_engine(inference)
