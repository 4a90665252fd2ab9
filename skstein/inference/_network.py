"""The engines for neural networks by name: those whose settings suit thousands of coordinates."""

from ..kernels import RBF
from ..samplers.sghmc import SGHMC
from ..thinning import OnlineKSDThinner
from ._registry import resolve_engine
from .adaptive_pmfvb import AdaptivePMFVB
from .ensemble import Ensemble
from .fwss import FWSS
from .ksd_mcmc import KSDThinnedMCMC
from .laplace import LaplaceDraws
from .pmd import PMD
from .stein_points import SteinPoints
from .svgd import SVGD


def _chains():
    # R-hat and effective sample sizes of single weights say nothing: networks with their units in
    # another order are the same function.
    return KSDThinnedMCMC(
        200,
        sampler=SGHMC(),
        thinner=OnlineKSDThinner(),  # particles are networks that a chain came to, moved by nothing
        n_chains=20,
        n_draws=10,
        max_draws=10,
        n_warmup=10,
        max_rhat=1e6,
        min_ess=0,
        whiten=False,
        one_sided=False,
    )


NETWORK_ENGINES = {
    "ensemble": Ensemble,
    "ksd-mcmc": _chains,
    "pmfvb": AdaptivePMFVB,
    "svgd": lambda: SVGD(
        20, kernel=RBF("median"), max_iter=500, learning_rate=0.01, batch_size=100
    ),
    "fwss": lambda: FWSS(
        20,
        kernel=RBF("median"),
        max_iter_oracle=250,
        max_iter_sweep=100,
        learning_rate=0.01,
        batch_size=100,
    ),
}

# They need a normal approximation, or far more particles than coordinates.
HOPELESS = (PMD, LaplaceDraws, SteinPoints)


def needs_scaling(engine):
    """Whether an engine knows nothing of networks, and works in scaled weights with given noise."""
    return not (
        isinstance(engine, AdaptivePMFVB) or isinstance(getattr(engine, "sampler", None), SGHMC)
    )


def refuse_hopeless(engine, dim):
    """Refuse engines that are lost among the weights of a whole network."""
    if isinstance(engine, HOPELESS):
        raise ValueError(
            f"{type(engine).__name__} is lost among the {dim} coordinates of a network: use "
            'subspace="curve", where it has a few, or another engine.'
        )


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
