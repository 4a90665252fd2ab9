"""Gamma regression: positive amounts whose spread is in proportion to their mean."""

from ..outcomes import Gamma
from .log_link import LogLinkRegressor


class BayesianGammaRegression(LogLinkRegressor):
    r"""Bayesian gamma regression with a logarithmic link.

    The outcome is a positive amount of mean ``mu = exp(X @ coef + intercept + offset)`` and
    variance ``dispersion mu**2``: costs, durations, sizes. The square root of the unknown
    dispersion, the relative spread, has a half Student t prior of 3 degrees of freedom and scale 1,
    which is weak down to a spread of a thousandth; one below a ten-thousandth is overstated.
    Priors of the coefficients are on the scale of the standardised features (``standardize=True``);
    everything the estimator reports is on the original scale.

    Parameters
    ----------
    inference : str or engine instance, default="mcmc"
        How the posterior is found: "mcmc", "ksd-mcmc", "pmfvb", "svgd", "fwss", "stein-points",
        "pmd" or "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
    prior : str or prior instance, default="normal"
        Prior of the coefficients: "normal", "laplace", "student-t", "adaptive-ridge",
        "hierarchical-normal" or "horseshoe", of scale 1, or one of :mod:`skstein.priors`.
    intercept_prior : str or prior instance, default="normal"
        Prior of the intercept; a name has scale 10. With ``standardize=True`` it is about the
        logarithm of the mean of y (over that of the exposure, if there is an offset).
    fit_intercept : bool, default=True
        Whether there is an intercept.
    standardize : bool, default=True
        Whether to divide the features by their standard deviations, and with an intercept to centre
        them and the linear predictor, before the priors apply. Otherwise they are taken as they
        are.
    positive : bool, array-like of shape (n_features,), dict of str to int or Series, default=False
        Signs of the coefficients that are known: all positive, or 1, -1 and 0 (either) for each
        feature, in their order or by name as in ``{"age": 1}`` or a pandas Series. The prior is cut
        off at 0.
    factorized : bool, default=False
        Whether the variances of the priors "adaptive-ridge" and "hierarchical-normal" are a
        mean-field factor of their own, in closed form, with ``inference="pmfvb"``; they are then
        part of the posterior. Otherwise they are integrated out, which is the better posterior:
        mean field understates standard deviations.
    offset : str or int, default=None
        Name, with or without a transformer's prefix, or position of a column of X that is not a
        feature: it is added to the linear predictor as it is, with coefficient 1, like the
        logarithm of an exposure. If the offset is not in X, `fit` and the predictions take it
        beside X.
    random_state : int, RandomState instance or None, default=None
        Seed of the inference; an int makes it reproducible.
    n_jobs : int, default=None
        Number of jobs for independent pieces of the inference; the result does not depend on it.
    verbose : int, default=0
        If positive, a line is printed for each tenth of the inference.
    warm_start : bool, default=False
        Whether `fit` goes on from the posterior of the previous call, on the same data: "mcmc"
        continues its chains, "fwss" keeps the particles and adds those missing to a larger
        ``n_particles``, "laplace" starts again, the other engines start from the particles. With
        other data, weights or prior `fit` raises a ValueError.
    random_effects : list, dict or callable, default=None
        Columns of X that hold groups, text or numbers, by name or position, each with an effect of
        its own, drawn from one distribution: ``["county"]`` gives each county an intercept,
        ``{"county": ["floor"]}`` a slope of that feature too. A function is given X and returns
        either. See :doc:`/groups`.
    effects_prior : str or prior instance, default="half-normal"
        Prior of the standard deviations of random effects: "half-normal" or "half-student-t", of
        scale 1, or :class:`~skstein.priors.HalfNormal` or `~skstein.priors.HalfStudentT`; on the
        scale of `prior`.
    missing_groups : {"error", "group"}, default="error"
        Whether rows without a group are refused, or are a group of their own.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Weighted particles of ``(intercept, coefficients, log_dispersion)``, in original units; with
        ``factorized=True`` also the logarithms of the prior's variances, on the scale on which it
        applies. :doc:`/trust` says how to read it, and whether to believe it.
    coef_ : ndarray of shape (n_features,)
        Posterior means of the coefficients, for reading: predictions come from ``posterior_``, and
        changes here do not affect them. A column of X that is the offset has none.
    intercept_ : float
        Posterior mean of the intercept, 0 without one.
    coef_std_ : ndarray of shape (n_features,)
        Posterior standard deviations of the coefficients.
    intercept_std_ : float
        Posterior standard deviation of the intercept, 0 without one.
    dispersion_ : float
        Posterior mean of the dispersion, 1 over the shape of the gamma distribution.
    random_effects_ : dict of str to :class:`~sklearn.utils.Bunch`
        With ``random_effects``, for each of these: the ``groups``, and of their effects (rows) for
        each of the ``terms`` (columns) the posterior ``mean``, ``std`` and ``shrinkage`` (0: known,
        1: nothing known); ``sd`` and ``sd_std`` of the standard deviation of all groups' effects.
    inference_ : engine instance
        The engine that was run.
    n_iter_ : int
        Number of iterations it made.
    n_features_in_ : int
        Number of columns of X, those of groups included; these have no entry in ``coef_``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has any.

    See Also
    --------
    BayesianLinearRegression : Of the logarithm of y, it describes medians.
    sklearn.linear_model.GammaRegressor : The penalised mode of the same means.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianGammaRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> mean = np.exp(1.0 + X @ [0.5, -0.3])
    >>> y = rng.gamma(3.0, mean / 3.0)
    >>> reg = BayesianGammaRegression(random_state=0).fit(X, y)
    >>> bool(np.all(np.abs(reg.coef_ - [0.5, -0.3]) < 4 * reg.coef_std_))
    True
    >>> reg.predict_interval(X[:3], level=0.9).shape
    (3, 2)
    """

    _outcome = Gamma()
