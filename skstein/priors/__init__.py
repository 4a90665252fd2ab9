r"""Priors on regression coefficients.

A prior is a parameter object: an estimator's ``prior="normal"`` makes one with its defaults, and
``prior__scale`` tunes it in a grid search. It knows only a block of coefficients, never the data.
``PRIORS`` has the names: "normal", "laplace", "student-t", "adaptive-ridge",
"hierarchical-normal" and "horseshoe".

The hierarchical priors are scale mixtures of normals with the mixing variable integrated out: a
variance of its own for each coefficient, :math:`\tau_j \sim IG(a, b)`, gives a Student t; one
precision for all, :math:`\alpha \sim \Gamma(a, b)`, a multivariate t. No engine then has to move in
the funnel that a coefficient and its own variance form. Their joint mode is a poor centre; engines
are whitened with `conditional`, the normal prior of the expected precision.

A noise variance has a prior of its own kind, `NoisePrior`, which is a density of its logarithm.
Standard deviations of random effects have `HalfNormal` or `HalfStudentT`.
"""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
