"""Thinning of Monte-Carlo samples, by their balance or their kernel Stein discrepancy (KSD).

`balanced_thin` takes, of a finished chain, draws with the means and margins of all draws; it needs
no scores and is the fastest.

A sample of the target density and its scores are enough to measure how far a small set of points is
from the target: the mean of the Stein kernel over all pairs is zero in expectation only under the
target itself. `OnlineKSDThinner` keeps such a set while a Markov chain runs, in constant memory;
`stein_thin`, `backward_thin` and `stein_kernel_thin` pick one from a finished sample,
`stein_weights` weights it.

KSD does not see modes that no sample visited. It does not test convergence: look at R-hat first.
"""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
