from . import diagnostics as diagnostics
from . import inference as inference
from . import kernels as kernels
from . import linear_model as linear_model
from . import metrics as metrics
from . import outcomes as outcomes
from . import plotting as plotting
from . import priors as priors
from . import protocols as protocols
from . import samplers as samplers
from . import targets as targets
from . import thinning as thinning
from ._inside import posterior_of as posterior_of
from .checks import check_target as check_target
from .decomposition import LatentDirichletAllocation as LatentDirichletAllocation
from .gaussian_process import SparseGPRegressor as SparseGPRegressor
from .inference import infer as infer
from .inference_data import to_arviz as to_arviz
from .linear_model import BayesianGammaRegression as BayesianGammaRegression
from .linear_model import BayesianLinearRegression as BayesianLinearRegression
from .linear_model import BayesianLogisticRegression as BayesianLogisticRegression
from .linear_model import (
    BayesianNegativeBinomialRegression as BayesianNegativeBinomialRegression,
)
from .linear_model import BayesianOrdinalRegression as BayesianOrdinalRegression
from .linear_model import BayesianPoissonRegression as BayesianPoissonRegression
from .linear_model import BayesianProbitRegression as BayesianProbitRegression
from .model_comparison import compare as compare
from .model_comparison import loo as loo
from .neural_network import BayesianMLPClassifier as BayesianMLPClassifier
from .neural_network import BayesianMLPRegressor as BayesianMLPRegressor
from .posterior import ParticlePosterior as ParticlePosterior
from .predictive import predictive as predictive
from .targets import LogDensity as LogDensity
from .time_series import StochasticVolatility as StochasticVolatility

__version__: str
