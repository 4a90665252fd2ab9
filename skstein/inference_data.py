"""A fitted estimator as ArviZ data: its posterior with what model comparison and checks need.

ArviZ compares models by the likelihood of each row under each draw, and checks them by outcomes
that each draw predicts. A posterior alone has neither; an estimator has both once it is shown rows.
"""

import numpy as np
from sklearn.utils import check_consistent_length

from ._containers import make_container
from ._random import as_generator
from .predictive import predictive

__all__ = ["to_arviz"]


def to_arviz(estimator, X, y=None, *, n_draws=None, random_state=None, container="auto"):
    """A fitted classifier or regressor, and what it says of rows, for ArviZ.

    Parameters
    ----------
    estimator : estimator instance
        Fitted: a classifier or regressor of skstein, alone, in a pipeline or in a search.
    X : array-like of shape (n_samples, n_features)
        Rows to predict. For comparison of models, those of the fit.
    y : array-like of shape (n_samples,), default=None
        Their outcomes; without them there are no groups ``log_likelihood`` and ``observed_data``.
    n_draws : int, default=None
        Number of draws, by default that of the particles. See `ParticlePosterior.to_arviz` for what
        becomes of weights.
    random_state : int, RandomState instance or None, default=None
        Of the outcomes that are drawn.
    container : {"auto", "datatree", "inferencedata"}, default="auto"
        As in `ParticlePosterior.to_arviz`.

    Returns
    -------
    xarray.DataTree or arviz.InferenceData
        With the groups ``posterior``, ``sample_stats``, ``posterior_predictive``,
        ``log_likelihood`` and ``observed_data``. The outcome is the variable ``y`` along the
        dimension ``row``; of a classifier, it is the position of the class in ``classes_``.

    Raises
    ------
    TypeError
        If there is no classifier or regressor of skstein inside, or its outcome is transformed, of
        which the likelihood is not known, or it has several outcomes.
    ValueError
        If y has another length than X or a class that was not seen in `fit`.
    ImportError
        If the container needs a package that is not installed.

    Notes
    -----
    Leave-one-out scores are importance sampling, whose tails a hundred points cannot show: fit with
    ``inference="pmfvb"``, or with ``KSDThinnedMCMC(n_particles=1000)``, before comparing models.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skstein import BayesianLinearRegression, to_arviz
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = BayesianLinearRegression("pmfvb", random_state=0).fit(X, y)
    >>> data = to_arviz(reg, X, y)
    >>> from arviz_stats import loo
    >>> round(loo(data).p)  # effective number of parameters
    11
    """
    prediction = predictive(estimator, X)
    inner = getattr(prediction, "estimator", None)
    if inner is None:
        raise TypeError(
            "to_arviz needs the likelihood of y, which is not known behind a "
            "TransformedTargetRegressor; pass its regressor_, with the transformed y."
        )
    if prediction.n_outcomes > 1:
        raise TypeError("to_arviz needs a single outcome; fit one estimator an outcome.")
    rng, outcome = as_generator(random_state), prediction.outcome
    groups, dims, coords, chosen = inner.posterior_._arviz_groups(n_draws)
    if y is not None:
        y = inner._observed(y)
        check_consistent_length(prediction.X, y)
    drawn, log_likelihood = [], []
    for rows, heads, _ in inner._row_heads(prediction.X):
        heads = [head[..., chosen] for head in np.broadcast_arrays(*heads)]
        drawn.append(outcome.sample(heads, rng))
        if y is not None:
            log_likelihood.append(outcome.log_density_by_particle(heads, y[rows]))
    groups["posterior_predictive"] = {"y": np.concatenate(drawn).T[None]}
    if y is not None:
        groups["log_likelihood"] = {"y": np.concatenate(log_likelihood).T[None]}
        groups["observed_data"] = {"y": y}
    dims["y"] = ["row"]
    return make_container(groups, dims=dims, coords=coords, container=container)
