"""A fitted estimator as ArviZ data: its posterior with what model comparison and checks need.

ArviZ compares models by the likelihood of each row under each draw, and checks them by outcomes
that each draw predicts. A posterior alone has neither; an estimator has both once it is shown rows.
"""

import numpy as np

from ._estimators.inside_pipelines import inside, named_posterior
from ._tools.pandas_and_arviz import make_container
from ._tools.random import as_generator
from .predictive import with_likelihood

__all__ = ["to_arviz"]


def to_arviz(
    estimator, X, y=None, *, offset=None, n_draws=None, random_state=None, container="auto"
):
    """A fitted classifier or regressor, and what it says of rows, for ArviZ.

    Parameters
    ----------
    estimator : estimator instance
        Fitted: a classifier or regressor of skstein, alone, in a pipeline or in a search.
    X : array-like of shape (n_samples, n_features)
        Rows to predict. For comparison of models, those of the fit.
    y : array-like of shape (n_samples,), default=None
        Their outcomes; without them there are no groups ``log_likelihood`` and ``observed_data``.
    offset : array-like of shape (n_samples,), default=None
        The offset of these rows, if `fit` was given one beside X.
    n_draws : int, default=None
        Number of draws to make of the particles. By default all draws of the chains where the
        posterior has them, which takes 16 bytes per draw and row; else, and of a network with a
        ``null_space``, which chains are without, as many as there are particles. See
        `ParticlePosterior.to_arviz`, also for what becomes of weights.
    random_state : int, RandomState instance or None, default=None
        Of the outcomes that are drawn.
    container : {"auto", "datatree", "inferencedata"}, default="auto"
        As in `ParticlePosterior.to_arviz`.

    Returns
    -------
    xarray.DataTree or arviz.InferenceData
        With the groups ``posterior``, ``posterior_predictive``, ``log_likelihood`` and
        ``observed_data``, and of particles ``sample_stats``. Coordinates have the names of
        `posterior_of`. The outcome is the variable ``y`` along the
        dimension ``row``; of a classifier, it is the position of the class in ``classes_``.

    Raises
    ------
    TypeError
        If there is no classifier or regressor of skstein inside, or its outcome is transformed, of
        which the likelihood is not known, or it has several outcomes, or rows are not independent
        given a particle, as of a Gaussian process.
    ValueError
        If y has another length than X or a class that was not seen in `fit`, or if a coordinate
        has the name of a dimension or of the outcome: "chain", "draw", "row" or "y".
    ImportError
        If the container needs a package that is not installed.

    See Also
    --------
    skstein.loo : Leave-one-out scores without ArviZ.

    Notes
    -----
    In ArviZ every row counts once, whatever the sample or class weights of the fit. `skstein.loo`
    takes weights. Of more than two classes `BayesianProbitRegression` normalises the probabilities
    after the fit. ``log_likelihood`` has these here, and scores made of them alone are too high;
    those of `skstein.loo` are right.

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
    prediction = with_likelihood(estimator, X, "to_arviz", offset)
    inner, rng, outcome = prediction.estimator, as_generator(random_state), prediction.outcome
    try:
        found, names = inside(estimator)
    except TypeError:  # behind a wrapper that `predictive` alone was taught
        found = names = None
    posterior = named_posterior(inner, names if found is inner else None)
    if getattr(inner, "null_space_", 0.0):  # which is that of particles
        posterior = posterior._with(chains=None)
    groups, layout, chosen = posterior._arviz_groups(n_draws)
    for name in {"y", "row"}.intersection(groups["posterior"]):
        raise ValueError(f"a coordinate is called {name!r}, as the outcome is: rename the column.")
    theta, n_chains = None, 1
    if chosen is None:
        theta, n_chains = posterior.chains.reshape(-1, len(posterior.names)), len(posterior.chains)
        chosen = slice(None)
    if y is not None:
        y = inner._observed_at(prediction.X, y)
    drawn, log_likelihood = [], []
    for rows, heads, _ in inner._row_heads(prediction.X, theta):
        heads = [head[..., chosen] for head in np.broadcast_arrays(*heads)]
        drawn.append(outcome.sample(heads, rng))
        if y is not None:
            log_likelihood.append(outcome.log_density_by_particle(heads, y[rows]))

    def by_chain(blocks):
        by_draw = np.concatenate(blocks).T
        return {"y": by_draw.reshape(n_chains, -1, by_draw.shape[1])}

    groups["posterior_predictive"] = by_chain(drawn)
    if y is not None:
        groups["log_likelihood"] = by_chain(log_likelihood)
        groups["observed_data"] = {"y": y}
    layout["dims"]["y"] = ["row"]
    return make_container(groups, **layout, container=container)
