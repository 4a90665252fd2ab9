"""Log densities and the adapters that wrap them."""

from ..priors import LogInverseGamma
from .base import Target, supports
from .bijections import Affine, Chain, HyperbolicMap, Within
from .effects_map import EffectsMap
from .factors import ConjugateFactor, MultivariateNormal
from .glm import LogisticTarget, ProbitTarget, RegressionTarget, SoftmaxTarget
from .half_line import HalfLineMap, OneSignedTarget
from .hierarchical import HierarchicalTarget
from .horseshoe import HorseshoeTarget
from .joint_prior import NormalPriorTarget
from .linear import LinearTarget
from .log_density import LogDensity
from .minibatch import ControlVariate
from .mixed import Grouping, MixedTarget
from .mlp import MLPTarget
from .network import Network
from .newton import Laplace, laplace_approximation
from .one_sided import OneSided, line_shifts
from .sharded import over_shards
from .smoothed_path import FactorizedTarget, SmoothedTarget
from .stochastic_volatility import StochasticVolatilityTarget
from .surrogate import Surrogate
from .transformed import Transformed, Whitened

__all__ = [
    "Affine",
    "Chain",
    "ConjugateFactor",
    "ControlVariate",
    "EffectsMap",
    "FactorizedTarget",
    "Grouping",
    "HalfLineMap",
    "HierarchicalTarget",
    "HorseshoeTarget",
    "HyperbolicMap",
    "Laplace",
    "LinearTarget",
    "LogDensity",
    "LogInverseGamma",
    "LogisticTarget",
    "MLPTarget",
    "MixedTarget",
    "MultivariateNormal",
    "Network",
    "NormalPriorTarget",
    "OneSided",
    "OneSignedTarget",
    "ProbitTarget",
    "RegressionTarget",
    "SmoothedTarget",
    "SoftmaxTarget",
    "StochasticVolatilityTarget",
    "Surrogate",
    "Target",
    "Transformed",
    "Whitened",
    "Within",
    "laplace_approximation",
    "line_shifts",
    "over_shards",
    "supports",
]
