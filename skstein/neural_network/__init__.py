"""Bayesian neural networks: a classifier and a regressor that say how sure they are.

Every particle is a whole network, with its own noise in a regression. Inference has two
stages. Networks are trained independently, each from its own start (`skstein.inference.Ensemble`);
then an engine goes on from there to spread particles around each mode, or nothing does
(``inference="ensemble"``). Predictions are mixtures over all particles. Features, and outcomes, are
standardised inside, and particles are kept in the standardised coordinates.
"""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
