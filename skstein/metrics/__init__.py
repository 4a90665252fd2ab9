"""How good points, predicted probabilities and predictive distributions are.

Points are measured against a target whose score is known (`ksd`, `normalized_ksd`), against a
sample that is trusted (`mmd`), or against a Gaussian mixture (`mmd_gaussian_mixture`).

Probabilities are measured against what happened: `expected_calibration_error` asks whether
predictions made with confidence c are right in a fraction c of the cases; the usual proper score is
`log_loss` of scikit-learn. They are measured against those of another posterior by `agreement` and
`total_variation`, which show how much an approximation has changed a prediction.

Distributions of numbers are measured against what happened by the proper scores `crps`,
`crps_normal_mixture` and `interval_score`; look at `interval_coverage` beside them.

For ``scoring=`` of scikit-learn there are ``log_predictive_scorer``, ``crps_scorer``,
``interval_score_scorer`` and ``coverage_scorer``. They are instances of the classes of these names,
which make others: ``IntervalScoreScorer(level=0.5)``, or
``CRPSScorer().set_score_request(sample_weight=True)``. For a quantile there is `PinballScorer`, and
for probabilities scikit-learn has ``"neg_log_loss"`` and ``"neg_brier_score"``.
"""

from .._tools.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(__name__)
