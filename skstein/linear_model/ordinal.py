"""Ordinal regression: classes that have an order, such as grades."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from .._input.class_labels import alphabetical_order, classes_in_order, declared_order
from .._input.validation import LARGEST, Interval, StrOptions
from ..outcomes import Ordinal
from ..outcomes.ordinal import LINKS
from .classifier import GeneralizedLinearClassifier


@dataclass(eq=False, repr=False)
class BayesianOrdinalRegression(GeneralizedLinearClassifier):
    """Bayesian regression on ordered classes: proportional odds, or the ordered probit.

    The probability of the k-th class or one below is ``F(cut_points[k] - X @ coef)``, F being the
    logistic or the normal distribution function: all classes share one set of coefficients, and a
    positive one moves probability towards the classes at the end. With two classes this is logistic
    or probit regression, with another prior.

    Cut points take the place of an intercept. The prior of the coefficients is on the scale of the
    standardised features (``standardize=True``), and that of the cut points is on the class
    probabilities where these are 0, at the means of the features; everything the estimator reports
    is on the original scale.

    Parameters
    ----------
    inference : str or engine instance, default="mcmc"
        How the posterior is found: "mcmc", "ksd-mcmc", "pmfvb", "svgd", "fwss", "stein-points",
        "pmd" or "laplace" (:doc:`/engines` says which to take when), or an engine, which is cloned.
    link : {"logit", "probit"}, default="logit"
        Whose distribution function F is: that of the logistic or of the normal distribution.
    categories : array-like of shape (n_classes,), default=None
        The classes in their order, also those that no sample has. By default those of an ordered
        pandas Categorical or a polars Enum, else the labels of ``y``, sorted. Wrappers that number
        classes, such as `VotingClassifier`, do so in alphabetical order: give them a ``y`` of
        numbers.
    prior : str or prior instance, default="normal"
        Prior of the coefficients: "normal", "laplace", "student-t", "adaptive-ridge",
        "hierarchical-normal" or "horseshoe", of scale 1, or one of :mod:`skstein.priors`, but for
        ``as_prior()``.
    concentration : float, default=1.0
        Concentration of the Dirichlet prior of the class probabilities at the means of the features
        (without ``standardize``, at features of 0). The prior of the cut points follows from it.
        With 1 all vectors of class probabilities are equally likely; larger numbers expect classes
        of similar size.
    standardize : bool, default=True
        Whether to centre the features and divide them by their standard deviations before the
        priors apply. Otherwise they are taken as they are.
    positive : bool, array-like of shape (n_features,), dict of str to int or Series, default=False
        Signs of the coefficients that are known: all positive, or 1, -1 and 0 (either) for each
        feature, in their order or by name as in ``{"age": 1}`` or a pandas Series. The prior is cut
        off at 0.
    factorized : bool, default=False
        Whether the variances of the priors "adaptive-ridge" and "hierarchical-normal" are a
        mean-field factor of their own, in closed form, with ``inference="pmfvb"``; they are then
        part of the posterior. Otherwise they are integrated out, which is the better posterior:
        mean field understates standard deviations.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, multiplied into the sample weights; ``"balanced"`` gives all classes
        the same total weight.
    offset : str or int, default=None
        Name, with or without a transformer's prefix, or position of a column of X that is not a
        feature: it is added to the linear predictor as it is, with coefficient 1. Where the offset
        is not in X, `fit` and the predictions take it beside X.
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
        Weighted particles of ``(coefficients, cut points)``, in original units; with
        ``factorized=True`` also the logarithms of the prior's variances, on the scale on which it
        applies. :doc:`/trust` says how to read it, and whether to believe it.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted as by every classifier; columns of probabilities are in this order.
    categories_ : ndarray of shape (n_classes,)
        The classes in their own order.
    coef_ : ndarray of shape (n_features,)
        Posterior means of the coefficients, for reading: predictions come from ``posterior_``, and
        changes here do not affect them.
    cut_points_ : ndarray of shape (n_classes - 1,)
        Posterior means of the cut points between neighbours of ``categories_``.
    coef_std_ : ndarray of shape (n_features,)
        Posterior standard deviations of the coefficients.
    cut_points_std_ : ndarray of shape (n_classes - 1,)
        Posterior standard deviations of the cut points.
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

    Warns
    -----
    UserWarning
        If three classes or more are text and nothing says their order.

    See Also
    --------
    BayesianLogisticRegression : Classes without an order.

    References
    ----------
    P. McCullagh, "Regression models for ordinal data", Journal of the Royal Statistical Society B,
    1980. M. Betancourt, "Ordinal regression", 2019, has the prior.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianOrdinalRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> latent = X[:, 0] + rng.logistic(size=200)
    >>> y = np.array(["low", "mid", "high"])[np.digitize(latent, [-1.0, 1.0])]
    >>> clf = BayesianOrdinalRegression(categories=["low", "mid", "high"], random_state=0)
    >>> clf = clf.fit(X, y)
    >>> clf.predict([[-3.0, 0.0], [0.0, 0.0], [3.0, 0.0]]).tolist()
    ['low', 'mid', 'high']
    >>> clf.posterior_.names
    ('x0', 'x1', 'cut_points[low|mid]', 'cut_points[mid|high]')
    """

    _parameter_constraints = {
        **GeneralizedLinearClassifier._parameter_constraints,
        "link": [StrOptions(set(LINKS))],
        "categories": ["array-like", None],
        "concentration": [Interval(Real, 0.01, LARGEST, closed="both")],
    }
    del _parameter_constraints["fit_intercept"], _parameter_constraints["intercept_prior"]
    _instead = {
        **GeneralizedLinearClassifier._instead,
        "fit_intercept": "the cut points, which take the place of an intercept",
        "intercept_prior": "concentration, of the prior of the cut points",
    }
    fit_intercept: ClassVar[bool] = False  # type: ignore[misc]  # no parameter here
    intercept_prior: ClassVar[str] = "normal"  # type: ignore[misc]

    _: KW_ONLY
    link: str = "logit"
    categories: Any = None
    concentration: float = 1.0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # where classes have no order, as in its checks
        return tags

    @property
    def _classes_known(self):
        return self.categories

    def _note_order(self, y, further):
        given = declared_order(self.categories, y)
        other = given is not None and further and not np.array_equal(given, self.categories_)
        if other or (further and self._outcome.link is not LINKS[self.link]):
            raise ValueError(
                "link and categories of the rows before are those of the whole stream: set them "
                "back, or start again with fit."
            )
        self.categories_ = self.categories_ if further else given

    def _learn_outcomes(self, present, totals, classes):
        order = self.categories_
        if order is not None:
            classes = classes_in_order(present, classes, order)
        prepared = super()._learn_outcomes(present, totals, classes)
        self.categories_ = alphabetical_order(self.classes_) if order is None else order
        self._outcome = Ordinal(self.categories_, self.link, self.concentration)
        return prepared

    def _summaries(self, posterior):
        p = len(self._features(self._scaling))
        cuts = slice(p, p + len(self.classes_) - 1)
        mean, std = posterior.mean(), posterior.std()
        named = {"coef_": mean[:p], "coef_std_": std[:p]}
        return {**named, "cut_points_": mean[cuts], "cut_points_std_": std[cuts]}
