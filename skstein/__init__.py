"""Bayesian regression for scikit-learn users, with posteriors made of particles.

Estimators whose ``inference=`` chooses how the posterior is found: Particle Mirror Descent,
Particle Mean Field Variational Bayes, Frank-Wolfe Stein Sampling, Stein variational gradient
descent, or MCMC thinned by its kernel Stein discrepancy.
"""

from ._inside import posterior_of
from .checks import check_target
from .decomposition import LatentDirichletAllocation
from .gaussian_process import SparseGPRegressor
from .inference import infer
from .inference_data import to_arviz
from .linear_model import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianProbitRegression,
)
from .model_comparison import compare, loo
from .neural_network import BayesianMLPClassifier, BayesianMLPRegressor
from .posterior import ParticlePosterior
from .predictive import predictive
from .targets import LogDensity
from .time_series import StochasticVolatility

__version__ = "0.1.0"

__all__ = [
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "BayesianMLPClassifier",
    "BayesianMLPRegressor",
    "BayesianProbitRegression",
    "LatentDirichletAllocation",
    "LogDensity",
    "ParticlePosterior",
    "SparseGPRegressor",
    "StochasticVolatility",
    "check_target",
    "compare",
    "infer",
    "loo",
    "posterior_of",
    "predictive",
    "to_arviz",
]
