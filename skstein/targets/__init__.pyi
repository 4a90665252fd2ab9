from ..priors.deviations import LogInverseGamma as LogInverseGamma
from .base import Target as Target
from .base import supports as supports
from .bijections import Affine as Affine
from .bijections import Composition as Composition
from .bijections import HyperbolicMap as HyperbolicMap
from .bijections import Within as Within
from .control_variate import ControlVariate as ControlVariate
from .laplace_at_mode import LaplaceApproximation as LaplaceApproximation
from .laplace_at_mode import laplace_approximation as laplace_approximation
from .log_density import LogDensity as LogDensity
from .mean_field_factors import ConjugateFactor as ConjugateFactor
from .mean_field_factors import NormalFactor as NormalFactor
from .networks.mlp import MLPTarget as MLPTarget
from .networks.network import Network as Network
from .one_sided import line_shifts as line_shifts
from .regression.effects_map import EffectsMap as EffectsMap
from .regression.glm import LogisticTarget as LogisticTarget
from .regression.glm import ProbitTarget as ProbitTarget
from .regression.glm import RegressionTarget as RegressionTarget
from .regression.glm import SoftmaxTarget as SoftmaxTarget
from .regression.hierarchical import HierarchicalTarget as HierarchicalTarget
from .regression.horseshoe import HorseshoeTarget as HorseshoeTarget
from .regression.joint_prior import NormalPriorTarget as NormalPriorTarget
from .regression.linear import LinearTarget as LinearTarget
from .regression.mixed import Grouping as Grouping
from .regression.mixed import MixedTarget as MixedTarget
from .regression.sharded import over_shards as over_shards
from .regression.sign_constraints import SignConstrainedTarget as SignConstrainedTarget
from .regression.sign_constraints import SignConstraintMap as SignConstraintMap
from .surrogate import Surrogate as Surrogate
from .transformed import Transformed as Transformed
from .volatility.smoothed_path import FactorizedTarget as FactorizedTarget
from .volatility.smoothed_path import SmoothedTarget as SmoothedTarget
from .volatility.stochastic_volatility import (
    StochasticVolatilityTarget as StochasticVolatilityTarget,
)
