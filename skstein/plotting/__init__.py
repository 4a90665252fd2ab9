"""Displays: what a posterior says, and how it was found, as figures in scikit-learn's manner.

A display holds plain arrays, made by ``from_estimator`` (or ``from_posterior``, where a posterior
is enough) and drawn by ``plot``, on your own axes or on new ones. Estimators may be inside a
pipeline, a search or a transformed target, wherever `skstein.predictive` reaches.

matplotlib is imported when something is drawn, never before.
"""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
