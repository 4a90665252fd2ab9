"""Neural networks for classes."""

from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._input.class_labels import class_codes, stream_classes
from .._input.validation import check_sample_weight, drop_weightless, validated
from .._predictions.methods import BayesianClassifierMixin
from .._tools.warnings import warn
from ..outcomes import Bernoulli, Categorical
from .base import _BayesianMLP


@dataclass(eq=False, repr=False)
class BayesianMLPClassifier(BayesianClassifierMixin, _BayesianMLP):
    """Bayesian neural network for two or more classes.

    What is predicted are the networks' probabilities, averaged over particles. How it works, and
    when not to trust it: :doc:`/methods/neural_networks`.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(100,)
        Units of each hidden layer.
    activation : {"relu", "tanh", "relu-tanh", "logistic"}, default="relu"
        Of the hidden layers. "relu-tanh": half of a layer's units are rectified, the others
        hyperbolic tangents.
    inference : str or engine instance, default="mcmc"
        What follows the training of the networks. "mcmc": a chain of stochastic gradient
        Hamiltonian Monte Carlo from each network, 2000 steps, which on a few hundred rows draw the
        posterior; "ksd-mcmc": thinned if ``inference__n_particles`` (200) is less than the number
        of draws, ten for each network. "pmfvb", "svgd" or "fwss": particles that go on from the
        networks by these engines. "ensemble": nothing, in a fifth of the time; it predicts about as
        well, but intervals of probabilities are far too narrow, as of "svgd" and "fwss". Or an
        engine, which is cloned; an `Ensemble` takes the place of the training that the parameters
        below describe. If you set a parameter of the engine, such as ``inference__n_draws`` of
        "mcmc" or ``inference__max_iter`` of "svgd", the name becomes an engine with that parameter.
        "ensemble" then becomes an `Ensemble` that takes the parameters below as they are at that
        moment.
    subspace : "curve" or None, default=None
        "curve": of all networks, only those in a plane, through two trained networks and the middle
        of a curve of good networks between them. There ``inference`` may be "mcmc", "ksd-mcmc",
        "pmfvb", "svgd", "fwss", "stein-points", "pmd", "laplace" or an engine, with the defaults
        that these have elsewhere, on all rows and in float64; `partial_fit` is refused.
    n_networks : int, default=20
        Networks that are trained; two with a ``subspace``.
    prior : str or prior instance, default="normal"
        Prior of the weights times the root of their layer's number of inputs; names have scale 3.
    batch_size : int, "auto" or None, default="auto"
        Rows of a step: 32 below 3000 rows, else 100, for "auto"; all rows for None. On all rows,
        weights equal repetition, and the order of rows does not matter, to the last bit.
    learning_rate_init : float, default=0.003
        First step of Adam; it falls to zero along a cosine.
    max_iter : int or "auto", default="auto"
        Epochs of training; "auto" is as many as make 5,000 steps, from 15 to 2000.
    early_stopping : bool, default=False
        Whether each network is that of its best epoch, by the likelihood of some rows that are held
        out for it alone. The second stage sees all rows. With fewer than 20 rows, and in
        `partial_fit`, networks do not stop early.
    validation_fraction : float, default=0.1
        Share of these rows.
    n_iter_no_change : int or None, default=None
        Epochs without progress after which a network stops early; None: a third of all epochs.
    tol : float, default=1e-4
        What counts as progress in the mean log likelihood.
    standardize : bool, default=True
        Whether features are centred and divided by their standard deviations. Otherwise they are
        taken as they are.
    dtype : {"float32", "float64"}, default="float32"
        In which networks are trained and evaluated.
    random_state : int, RandomState instance or None, default=None
        Seed of the inference; an int makes it reproducible.
    n_jobs : int, default=None
        Number of jobs, over networks; the result does not depend on it.
    verbose : int, default=0
        If positive, a line is printed for each tenth of the inference, with the stage and the
        seconds so far.
    warm_start : bool, default=False
        Whether `fit` trains the networks of the call before for longer, and then makes the second
        stage again. On the same data the rows that were held out for a network stay held out; a
        pickle forgets which they were.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Particles: the weights of a network, layer by layer, for the standardised features.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    inference_ : engine instance
        The engine that was run last.
    n_iter_ : int
        Epochs of training plus iterations of the engine that follows.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has any.

    See Also
    --------
    BayesianMLPRegressor : The counterpart for a numeric outcome.
    sklearn.neural_network.MLPClassifier : A single network.

    Notes
    -----
    Sparse X is made dense for training, in ``dtype``.

    References
    ----------
    Tran, Tseng & Kohn, "Particle mean field variational Bayes", section 7.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skstein import BayesianMLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesianMLPClassifier((20,), n_networks=5, max_iter=50, random_state=0).fit(X, y)
    >>> clf.predict(X[:2])
    array([0, 0])
    >>> clf.predict_interval(X[:2], level=0.9).shape
    (2, 3, 2)
    """

    _effort = (5_000, 15)
    # The curvature of classes changes with the probabilities: steps are shorter than a regressor's.
    _chain_steps = {"step_size": 0.05, "thinning": 100, "friction": 1.0, "damping": 0.5}

    _: KW_ONLY
    inference: Any = "mcmc"
    prior: Any = "normal"
    learning_rate_init: float = 0.003

    @validated
    def fit(self, X, y, sample_weight=None):
        """Train the networks, and find the posterior around them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.

        Returns
        -------
        self : BayesianMLPClassifier

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights are invalid.
        FloatingPointError
            If every network diverges, or one of the two of ``subspace="curve"`` diverges or dies.

        Warns
        -----
        UserWarning
            If ``standardize=False`` and X is a thousand times too large or too small for the prior.
            If the weights of several rows sum to 1 or less.
        ConvergenceWarning
            If networks diverge, die (put out the same for every row) or explain the rows worse
            than a constant does. They are left out, unless all of them do. If the loss of networks
            rose in training to more than ten times that of knowing nothing. If most were still on
            their way at the end, and ``inference`` does not go on far from there.
        """
        given = X, y, sample_weight
        X, y = self._validated(X, y, False)
        X, codes, weights = self._coded(X, y, sample_weight)
        scaling = self._find_scaling(X, weights)
        return self._learn(self._make_target(X, codes, weights, scaling), scaling, given)

    @validated
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train the same networks for one epoch on more rows, with a constant learning rate.

        The second stage needs all rows at once, and is left out: particles are the networks. The
        first rows fix what is standardised by.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream; required by the first call, unless it follows a `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.

        Returns
        -------
        self : BayesianMLPClassifier

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights are invalid, the classes are not given or change, or
            ``subspace="curve"``.
        FloatingPointError
            If every network diverges.

        Warns
        -----
        ConvergenceWarning
            If networks diverge, or die: put out the same for every one of 50 rows or more. They are
            left out, unless all of them do. If their loss rose on these rows, 50 or more, to ten
            times that of knowing nothing. If the first rows are fewer than 20, or a feature is
            constant on them.
        """
        further = hasattr(self, "posterior_")
        classes = stream_classes(classes, self.classes_ if further else None)
        X, y = self._validated(X, y, further)
        X, codes, weights = self._coded(X, y, sample_weight, classes)
        scaling = self._scaling if further else self._find_scaling(X, weights)
        return self._go_on(X, codes, weights, scaling)

    def _coded(self, X, y, sample_weight, classes=None):
        """Rows as `_prepared` gives them, with numbers for labels; sets the classes."""
        check_classification_targets(y)
        X, y, weights = drop_weightless(X, y, check_sample_weight(sample_weight, X))
        classes = np.unique(y) if classes is None else classes
        codes = class_codes(y, classes, type(self).__name__)
        self.classes_ = classes
        return self._prepared(X, codes, weights)

    @wraps(BayesianClassifierMixin.predict_quantiles)
    def predict_quantiles(self, X, q):
        check_is_fitted(self)
        self._warn_if_narrow()
        return super().predict_quantiles(X, q)

    def _proba_std(self, X):
        self._warn_if_narrow()
        return super()._proba_std(X)

    def _warn_if_narrow(self):
        if self._narrow:
            warn(
                "these networks differ less than probabilities are uncertain, so that standard "
                'deviations, quantiles and intervals are too narrow: fit with inference="mcmc".',
                UserWarning,
            )

    @property
    def _outcome(self):
        n_classes = len(self.classes_)
        return Bernoulli() if n_classes == 2 else Categorical(n_classes)

    def _heads(self, X, theta):
        return np.moveaxis(self._outputs(X, theta), 2, 0).swapaxes(1, 2)
