"""Leave-one-out scores of a fit, and models compared by them.

A row's leave-one-out score is its log predictive density under a fit without that row. Importance
sampling finds it from the one fit of all rows: the posterior without row i has the density of the
full one divided by ``p(y_i | theta)``. If that likelihood is small under some particles, these few
carry most of the weight. So the largest ratios are replaced by the quantiles of a generalised
Pareto distribution fitted to them, whose shape k says how heavy their tail is and whether the score
can be trusted (PSIS). Weights of particles are part of the ratios.

References
----------
Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling", JMLR 25(72).

Vehtari, Gelman & Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC", Statistics and Computing 27.

Yao, Vehtari, Simpson & Gelman (2018), "Using stacking to average Bayesian predictive
distributions", Bayesian Analysis 13(3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from ._input.validation import check_sample_weight
from ._statistics.pareto_smoothing import pareto_smoothed
from ._tools.pandas_and_arviz import as_table
from ._tools.warnings import warn
from .predictive import with_likelihood

__all__ = ["LeaveOneOut", "compare", "loo"]

_FEWEST_DRAWS = 25  # a fifth of them is the shortest tail to which a shape is fitted
_ENOUGH_DRAWS = 1000  # with so many, a bad shape is due to the row


@dataclass(eq=False)
class LeaveOneOut:
    """What `loo` finds.

    Parameters
    ----------
    elpd : float
        Expected log pointwise predictive density: the sum of the rows' leave-one-out scores, in
        nats. Only differences between models of the same y mean something.
    se : float
        Its standard error, over the choice of rows.
    p_loo : float
        Effective number of parameters: by how much `elpd` is below the score of the same rows
        within the fit.
    n_draws : int
        Particles, or draws of chains, with a positive weight.
    threshold : float
        The largest Pareto shape with which so many draws give a score that can be trusted.
    pointwise : ndarray of shape (n_samples,)
        Score of each row: log density of its outcome given all others.
    pareto_k : ndarray of shape (n_samples,)
        Shape of the tail of its importance ratios.
    bad_k : float
        Share of the rows whose Pareto shape is above the threshold.
    discrete : bool
        Whether scores are of probabilities, as of counts and classes, and not of densities.
    """

    elpd: float
    se: float
    p_loo: float
    n_draws: int
    threshold: float
    pointwise: np.ndarray = field(repr=False)
    pareto_k: np.ndarray = field(repr=False)
    bad_k: float
    discrete: bool


def loo(estimator, X, y, sample_weight=None, offset=None):
    """Leave-one-out score of a fit, from the rows of the fit.

    Parameters
    ----------
    estimator : estimator instance
        Fitted: a classifier or regressor of skstein, alone, in a pipeline or in a search.
    X : array-like of shape (n_samples, n_features)
        The rows of the fit. Their number is compared, not what is in them.
    y : array-like of shape (n_samples,)
        Their outcomes.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights of the fit. A weight of k counts as k equal rows, one of which is left out, and
        a weight below 1 as that part of a row, which is left out whole. What ``class_weight`` made
        of them in the fit is known.
    offset : array-like of shape (n_samples,), default=None
        The offset that `fit` was given beside X, if any.

    Returns
    -------
    LeaveOneOut
        With ``elpd``, ``se``, ``p_loo``, ``pareto_k`` and ``pointwise``. Draws are those of the
        posterior's ``chains`` where it has them, else its particles with their weights. What the
        ``null_space`` of a network adds to predictions is left out.

    Raises
    ------
    TypeError
        If there is no classifier or regressor of skstein inside, its outcome is transformed, it has
        several outcomes, or rows are not independent given a particle, as of a Gaussian process. If
        networks are as they were trained, by "ensemble", "svgd" or "fwss", or in a plane.
    ValueError
        If there are fewer than 25 draws, y has another length than X, or there is a class that was
        not seen in `fit`.

    Warns
    -----
    UserWarning
        If the fit had weights and ``sample_weight`` is None: each row then counts once, which is
        not the model of the fit. If the fit had another number of rows. If the Pareto shape of a
        row is above ``min(1 - 1 / log10(n_draws), 0.7)``: its score is unreliable. A hundred points
        cannot show the tails; keep more of them.

    See Also
    --------
    compare : A table of several models.
    skstein.to_arviz : What ArviZ needs for the same, and more.

    References
    ----------
    Vehtari et al. (2024), "Pareto smoothed importance sampling".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skstein import BayesianLinearRegression, loo
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = BayesianLinearRegression(random_state=0).fit(X, y)
    >>> result = loo(reg, X, y)
    >>> round(result.p_loo)  # ten coefficients, the intercept and the noise variance
    11
    >>> result.bad_k
    0.0
    """
    prediction = with_likelihood(estimator, X, "loo", offset)
    inner = prediction.estimator
    if sample_weight is None and inner._weighted:
        warn("the fit had weights, and here each row counts once: give sample_weight.", UserWarning)
    y = inner._observed_at(prediction.X, y)
    counts = check_sample_weight(sample_weight, prediction.X)
    n_rows, n_given = inner._n_rows, np.count_nonzero(counts)
    if n_rows not in (None, n_given, counts.sum()):  # a weight of 2 may stand for two equal rows
        warn(
            f"the fit had {n_rows} rows, and these are {n_given}: loo is for the rows of the fit; "
            "of rows that the fit has not seen, use log_predictive.",
            UserWarning,
        )
    if getattr(inner, "_narrow", False):
        raise TypeError(
            "loo needs draws of all weights from their posterior; these networks are where the "
            "training on all rows has left them: use cross_val_score."
        )
    posterior = inner.posterior_
    theta, weights = posterior.particles, posterior.weights
    if posterior.chains is not None:
        theta = posterior.chains.reshape(-1, theta.shape[1])
        weights = np.ones(len(theta))
    theta, log_weights = theta[weights > 0.0], np.log(weights[weights > 0.0])
    n_draws = len(log_weights)
    powers = np.minimum(counts, 1.0)  # of its likelihood, that the posterior has of a row left out
    if (class_weight := inner._class_weight) is not None:
        powers = powers * class_weight[y]
    networks = hasattr(inner, "n_networks")
    pooled = hasattr(getattr(inner, "inference_", None), "n_points")  # as of "pmfvb"
    number = "n_networks" if networks else "n_points" if pooled else "n_particles"
    if n_draws < _FEWEST_DRAWS:
        raise ValueError(
            f"loo needs at least {_FEWEST_DRAWS} particles with a weight, there are {n_draws}; fit "
            f"with a larger {number}, or use cross_val_score."
        )
    blocks = []
    for rows, heads, _ in inner._row_heads(prediction.X, theta):
        value = prediction.outcome.log_density_by_particle(heads, y[rows])
        # Of several probit classes the posterior has another likelihood than their probability.
        likelihood = prediction.outcome.log_density(heads, y[rows, None])
        left_out, k = pareto_smoothed(log_weights - powers[rows, None] * likelihood)
        seen = logsumexp(value + log_weights, axis=1) - logsumexp(log_weights)
        blocks.append(np.stack([logsumexp(value + left_out, axis=1), seen, k]))
    pointwise, seen, k = np.concatenate(blocks, axis=1)
    threshold = float(min(1.0 - 1.0 / np.log10(n_draws), 0.7))
    result = LeaveOneOut(
        elpd=float(counts @ pointwise),
        se=_standard_error(pointwise, counts),
        p_loo=float(counts @ (seen - pointwise)),
        n_draws=n_draws,
        threshold=threshold,
        pointwise=pointwise,
        pareto_k=k,
        bad_k=float(np.average(~(k <= threshold), weights=counts)),
        discrete=prediction.outcome.is_discrete(heads),
    )
    if result.bad_k:
        other = "use cross_val_score" if networks else 'fit with inference="pmfvb"'
        few = f"keep more particles, by a larger {number}, or {other}"
        odd = "the model did not expect these rows: check whether it suits them"
        warn(
            f"the Pareto shape of {result.bad_k:.1%} of the rows is above {result.threshold:.2f}, "
            f"so their leave-one-out scores are unreliable: {n_draws} draws do not show the tails "
            f"of their importance ratios; {few if n_draws < _ENOUGH_DRAWS else odd}.",
            UserWarning,
        )
    return result


def compare(estimators, X, y, sample_weight=None, offset=None):
    """A table of models of the same outcomes, by their leave-one-out scores, the best one first.

    Parameters
    ----------
    estimators : dict of str to estimator instance
        Fitted on these rows. For a model of some features only, pass a pipeline that selects
        columns first.
    X, y, sample_weight, offset
        As in `loo`.

    Returns
    -------
    pandas.DataFrame, or dict of str to ndarray when pandas is not installed
        One row per model, with the columns of ArviZ:

        - ``elpd``, ``se``, ``p_loo``, as in `LeaveOneOut`;
        - ``elpd_diff``, by how much its score is below the best, and ``dse``, the standard error of
          that difference: a difference of less than four, or of few standard errors, is small;
        - ``weight``, its share in the mixture of predictions with the best leave-one-out score
          (stacking); it is not the probability that the model is true;
        - ``bad_k``, the share of the rows whose score is unreliable.

    Raises
    ------
    ValueError
        If there are no estimators, if some have probabilities of y, as of counts, and others
        densities, or as in `loo`.
    TypeError
        As in `loo`.

    Warns
    -----
    UserWarning
        As in `loo`.

    References
    ----------
    Yao et al. (2018), "Using stacking to average Bayesian predictive distributions".

    Examples
    --------
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from skstein import BayesianLinearRegression, compare
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> all = BayesianLinearRegression("pmfvb", random_state=0).fit(X, y)
    >>> columns = make_column_transformer(("passthrough", ["bmi", "bp"]))
    >>> two = make_pipeline(columns, BayesianLinearRegression("pmfvb", random_state=0)).fit(X, y)
    >>> table = compare({"two": two, "all": all}, X, y)
    >>> table.index.tolist(), bool(table.loc["two", "elpd_diff"] > 4 * table.loc["two", "dse"])
    (['all', 'two'], True)
    """
    if not isinstance(estimators, Mapping) or not estimators:
        raise ValueError("compare needs a dict of estimators by name, such as {'a': reg}.")
    results = {name: loo(model, X, y, sample_weight, offset) for name, model in estimators.items()}
    if len({result.discrete for result in results.values()}) > 1:
        discrete = ", ".join(name for name, result in results.items() if result.discrete)
        raise ValueError(
            f"{discrete} give probabilities of y, and the others densities, which are in a unit of "
            "their own: compare models of one kind."
        )
    names = sorted(results, key=lambda name: -results[name].elpd)
    found = [results[name] for name in names]
    scores = np.column_stack([result.pointwise for result in found])
    counts = check_sample_weight(sample_weight, scores)
    columns = {
        key: np.array([getattr(result, key) for result in found]) for key in ("elpd", "se", "p_loo")
    }
    columns["elpd_diff"] = found[0].elpd - columns["elpd"]
    columns["dse"] = np.array([_standard_error(row, counts) for row in (scores[:, :1] - scores).T])
    columns["weight"] = _stacking_weights(scores, counts)
    columns["bad_k"] = np.array([result.bad_k for result in found])
    return as_table(names, columns)


def _standard_error(scores, counts):
    """Standard error over the choice of rows of the sum of scores (n,), each times its count."""
    return float(np.sqrt(counts @ (scores - np.average(scores, weights=counts)) ** 2))


def _stacking_weights(scores, counts):
    """Weights (k,) of the mixture of models with the best score, for scores (n, k)."""
    density = np.exp(scores - scores.max(axis=1, keepdims=True))
    counts = counts / counts.sum()

    def loss(weights):
        mixture = np.maximum(density @ weights, np.finfo(float).tiny)
        return -(counts @ np.log(mixture)), -(counts / mixture) @ density

    k = scores.shape[1]
    start = np.full(k, 1.0 / k)
    for _ in range(30):  # of EM: so near the best weights, no step leaves a row without density
        start *= -loss(start)[1]
    found = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * k,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1.0},
        options={"ftol": 1e-12},
    )
    weights = np.maximum(found.x, 0.0)
    return weights / weights.sum()
