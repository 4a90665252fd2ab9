"""Bayesian neural networks: a classifier and a regressor that say how sure they are.

Every particle is a whole network, with its own noise variances in a regression. Inference has two
stages. Networks are trained independently, each from its own start (`skstein.inference.Ensemble`);
then an engine goes on from there to spread particles around each mode, or nothing does
(``inference="ensemble"``). Predictions are mixtures over all particles. Features, and outcomes, are
standardised inside, and particles are kept in the standardised coordinates.
"""

from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import MultiOutputMixin
from sklearn.utils.multiclass import check_classification_targets

from ._classes import class_codes, stream_classes
from ._columns import drop_weightless, location_and_scale
from ._estimator import BayesianEstimator
from ._parallel import make_map, one_thread
from ._prediction import BayesianClassifierMixin, BayesianRegressorMixin
from ._random import as_generator
from ._validation import (
    HasMethods,
    Interval,
    StrOptions,
    about,
    check_magnitude,
    check_sample_weight,
    validate_data,
    validated,
)
from ._warnings import warn
from .inference import ENGINES, Ensemble, Trained, resolve_engine
from .inference._network import NETWORK_ENGINES
from .inference.ensemble import (
    automatic_epochs,
    epoch_of_stream,
    resolve_batch_size,
    untrained,
)
from .inference.staged import works_in_scaled_weights
from .noise import NOISES, NormalNoise, noise_to_fit, resolve_noise
from .outcomes import Bernoulli, Categorical, Normal
from .posterior import ParticlePosterior
from .priors import PRIORS, InverseGamma, resolve_prior
from .targets.mlp import MLPTarget

_FITTING = 1e-3, 1e3  # sizes of features and outcomes that weights of size 1 can match


@dataclass
class _Scaling:
    """``(X - center) / scale`` and ``(y - y_center) / y_scale``."""

    center: np.ndarray | float = 0.0
    scale: np.ndarray | float = 1.0
    y_center: np.ndarray | float = 0.0
    y_scale: np.ndarray | float = 1.0

    def features(self, X, dtype):
        """Standardised features, dense."""
        if sparse.issparse(X):
            X = X.toarray()
        return ((X - self.center) / self.scale).astype(dtype)


def _warn_of_scale(name, columns, sample_weight):
    """Warn of columns of a size for which the prior of the weights is not made."""
    squares = columns.power(2) if sparse.issparse(columns) else np.square(columns)
    sizes = np.sqrt(sample_weight @ squares / sample_weight.sum())
    largest = float(sizes.max())
    if largest and not _FITTING[0] <= largest <= _FITTING[1]:
        size = "large" if largest > 1.0 else "small"
        warn(
            f"the largest column of {name} is a thousand times too {size} for the priors, which "
            "are made for a root mean square of about 1: use standardize=True, or scale it.",
            UserWarning,
        )


@dataclass(eq=False, repr=False)
class _BayesianMLP(BayesianEstimator):
    """What classifier and regressor share: the network, its training, and the second stage."""

    hidden_layer_sizes: Any = (100,)
    activation: str = "relu"
    _: KW_ONLY
    subspace: str | None = None
    n_networks: int = 20
    batch_size: int | str | None = "auto"
    max_iter: int | str = "auto"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    standardize: bool = True
    dtype: str = "float32"
    warm_start: bool = False

    _parameter_constraints = {
        **BayesianEstimator._parameter_constraints,
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 0, None, closed="left"),
        ],
        "activation": [StrOptions({"relu", "tanh", "logistic"})],
        "inference": [StrOptions({*NETWORK_ENGINES, *ENGINES}), HasMethods("run")],
        "subspace": [None, StrOptions({"curve"})],
        "n_networks": [Interval(Integral, 2, None, closed="left")],
        "prior": [StrOptions(set(PRIORS)), HasMethods("log_density")],
        "batch_size": [
            None,
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "standardize": ["boolean"],
        "dtype": [StrOptions({"float32", "float64"})],
        "warm_start": ["boolean"],
    }

    @property
    def _named_parameters(self):
        return {
            "inference": self._resolve_engine,
            "prior": lambda prior: resolve_prior(prior, 3.0, "prior"),
        }

    def set_params(self, **params):
        # The engine that a name becomes is set up by the other parameters, whatever their order.
        own = {name: value for name, value in params.items() if "__" not in name}
        nested = {name: value for name, value in params.items() if name not in own}
        super().set_params(**own)
        return super().set_params(**nested)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _validated(self, X, y, further, **options):
        X, y = validate_data(
            self, X, y, reset=not further, dtype=np.float64, accept_sparse="csr", **options
        )
        check_magnitude(X, "X")
        return X, y

    @property
    def _hidden(self):
        sizes = np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)).ravel()
        if not all(isinstance(size, Integral) and size >= 1 for size in sizes):
            raise ValueError(
                f"hidden_layer_sizes must be positive integers, the units of each hidden layer; "
                f"got {self.hidden_layer_sizes!r}."
            )
        return tuple(map(int, sizes))

    def _target(self, X, y, sample_weight, scaling, **options):
        # In the few coordinates of a subspace second derivatives are differenced.
        dtype = self.dtype if self.subspace is None else "float64"
        return MLPTarget(
            scaling.features(X, dtype),
            y,
            outcome=self._outcome,
            sample_weight=sample_weight,
            hidden_layer_sizes=self._hidden,
            activation=self.activation,
            prior=self._named_parameters["prior"](self.prior),
            dtype=dtype,
            **options,
        )

    def _resolve_engine(self, inference):
        """The engine of ``inference``; one by name does as the other parameters say."""
        if inference == "ensemble":
            return self._training(self.n_networks, True)
        by_name = isinstance(inference, str) and self.subspace is None
        if by_name and inference in NETWORK_ENGINES:
            inference = NETWORK_ENGINES[inference](self.n_networks)
        return resolve_engine(inference)

    def _training(self, n_networks, out_of_bag):
        return Ensemble(
            n_networks,
            max_iter=self.max_iter,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate_init,
            out_of_bag=out_of_bag,
            validation_fraction=self.validation_fraction if self.early_stopping else None,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
        )

    def _engine(self, target):
        training, then = self._resolve_engine(self.inference), None
        if "train" not in training.requires:
            then, whole = training, self.subspace is None
            scaled = whole and works_in_scaled_weights(then, target)
            training = self._training(self.n_networks if whole else 2, scaled)
        if getattr(training, "max_iter", None) == "auto":
            size = resolve_batch_size(training.batch_size, target.n_rows)
            training.max_iter = automatic_epochs(target.n_rows, size, *self._effort)
        return Trained(training, then, subspace=self.subspace)

    def _learn(self, target, scaling, given):
        """Train the networks, run the second stage, and set the attributes that follow."""
        return self._infer(target, None, *given, _network=target.network, _scaling=scaling)

    def _earlier(self, target, bijection):
        if not (self.warm_start and hasattr(self, "posterior_")):
            return None
        if self._network != target.network:
            raise ValueError(
                "warm_start=True goes on with the same features, outputs and layers as the fit "
                "before; these are others. Fit with warm_start=False."
            )
        return np.stack([target.trained(state) for state in self._networks])

    def _attributes(self, bijection, names, fitted, posterior):
        posterior, fitted = copy(posterior), fitted | {"_networks": _without_rows(posterior.state)}
        posterior.state = None
        return super()._attributes(bijection, names, fitted, posterior)

    def _check_stream(self):
        if self.subspace is not None:
            raise ValueError(
                f"partial_fit trains whole networks, and would leave the plane of "
                f"subspace={self.subspace!r}: use fit, or subspace=None."
            )
        if self.early_stopping:
            raise ValueError(
                "partial_fit trains for one epoch, which early_stopping=True cannot shorten: use "
                "fit, or early_stopping=False."
            )

    def _go_on(self, make_target, sample_weight, scaling):
        """One epoch of the networks on further rows; nothing changes if it fails."""
        weight = getattr(self, "_stream_weight", 0.0) + float(sample_weight.sum())
        target = make_target(prior_share=float(sample_weight.sum()) / weight)
        networks = getattr(self, "_networks", None)
        if networks is None:
            networks = untrained(target, self.n_networks, as_generator(self.random_state))
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            kept, noise = epoch_of_stream(
                target,
                networks,
                getattr(self, "_stream_noise", None),
                self.batch_size,
                self.learning_rate_init,
                make_map(self.n_jobs),
            )
        kept.report()
        n_iter = getattr(self, "n_iter_", 0) + 1
        posterior = ParticlePosterior(
            kept.particles, names=target.names, n_iter=n_iter, diagnostics=kept.counts
        )
        vars(self).update(
            posterior_=posterior,
            n_iter_=n_iter,
            inference_=Ensemble(self.n_networks),
            _networks=_without_rows(kept.states),
            _network=target.network,
            _scaling=scaling,
            _stream_weight=weight,
            _stream_noise=noise,
        )
        return self

    def _outputs(self, X, theta):
        return self._network.outputs(theta, self._scaling.features(X, self._network.dtype))

    def _find_scaling(self, X, sample_weight, y=None):
        if not self.standardize:
            _warn_of_scale("X", X, sample_weight)
            if y is not None:
                _warn_of_scale("y", y, sample_weight)
            return _Scaling()
        dense = X.toarray() if sparse.issparse(X) else X
        scaling = _Scaling(*location_and_scale(dense, sample_weight))
        if y is not None:
            scaling.y_center, scaling.y_scale = location_and_scale(y, sample_weight)
        return scaling

    def _prepared(self, X, y, sample_weight):
        """Rows to train on: for full batches equal ones are merged.

        Then a weight and as many repetitions, in any order, are the same data to the last bit.
        """
        if self.batch_size is not None:
            return X, y, sample_weight
        X = X.toarray() if sparse.issparse(X) else X
        rows = np.column_stack([X, y.reshape(len(y), -1)])
        rows, inverse = np.unique(rows, axis=0, return_inverse=True)
        weights = np.bincount(inverse.ravel(), sample_weight)
        p = X.shape[1]
        return rows[:, :p], rows[:, p:].reshape(len(rows), *y.shape[1:]), weights


def _without_rows(networks):
    """What training goes on from."""
    none = np.array([], dtype=np.int64)
    return [
        replace(state, rows=none, held_out=none, best=None, waiting=0, start=None)
        for state in networks
    ]


@dataclass(eq=False, repr=False)
class BayesianMLPRegressor(BayesianRegressorMixin, MultiOutputMixin, _BayesianMLP):
    r"""Bayesian neural network for regression.

    The outcome is normal around the network's output with an unknown variance :math:`\sigma^2`, one
    for each of several outcomes; or, by ``noise``, it has outliers, or a second output says how
    much noise a row has. What is predicted is a mixture over particles, each a network with its own
    noise. How it works, and when not to trust it:
    :doc:`/methods/neural_networks`.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(100,)
        Units of each hidden layer.
    activation : {"relu", "tanh", "logistic"}, default="relu"
        Of the hidden layers.
    inference : str or engine instance, default="ksd-mcmc"
        What follows the training of the networks. "ensemble": nothing; variances of normal noise
        are then those of rows that a network was not trained on, while other noise is that of the
        training, which is too small. "ksd-mcmc": a chain of stochastic gradient
        Hamiltonian Monte Carlo from each network. "pmfvb", "svgd" or "fwss": particles that go on
        from the networks by these engines. Or an engine, which is cloned; an `Ensemble` takes the
        place of the training that the parameters below describe. A name becomes an engine that
        does as they say when a nested parameter is set, such as ``inference__max_iter``.
    subspace : "curve" or None, default=None
        "curve": of all networks, only those in a plane, through two trained networks and the middle
        of a curve of good networks between them. There ``inference`` may be "ksd-mcmc", "pmfvb",
        "svgd", "fwss", "stein-points", "pmd", "laplace" or an engine, with the defaults that these
        have elsewhere, on all rows and in float64; `partial_fit` is refused.
    n_networks : int, default=20
        Networks that are trained.
    prior : str or prior instance, default="hierarchical-normal"
        Prior of the weights times the root of their layer's number of inputs; names have scale 3.
        By default all weights of a layer share an unknown precision, bounded from below: the lowest
        tenth of its prior is left out.
    noise : str or noise instance, default="normal"
        "normal", "student-t" (robust to outliers) or "heteroscedastic" (a second output is the log
        standard deviation), or one of :mod:`skstein.noise`. The log standard deviation, of
        heteroscedastic noise its bias, has a normal prior of scale 2 in these two; that of degrees
        of freedom is log-normal here, with the moments of that in a linear regression.
    noise_shape, noise_scale : float, default=None
        Of normal noise alone: shape and scale of the inverse gamma prior of the noise variance, the
        scale in squared units of the (standardised) outcome; 1 and 0.01 where they are None.
    batch_size : int, "auto" or None, default="auto"
        Rows of a step: 32 below 3000 rows, else 100, for "auto"; all rows for None. On all rows,
        weights equal repetition, and the order of rows does not matter, to the last bit.
    learning_rate_init : float, default=0.01
        First step of Adam; it falls to zero along a cosine.
    max_iter : int or "auto", default="auto"
        Epochs of training; "auto" is as many as make 20,000 steps, from 50 to 2000.
    early_stopping : bool, default=False
        Whether each network is stopped when its likelihood of some rows, held out for it alone, no
        longer grows.
    validation_fraction : float, default=0.1
        Share of these rows.
    n_iter_no_change : int, default=10
        Epochs without progress after which a network stops early.
    tol : float, default=1e-4
        What counts as progress in the mean log likelihood.
    standardize : bool, default=True
        Whether features and outcomes are centred and divided by their standard deviations.
        Otherwise they are taken as they are.
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
        stage anew.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Particles: the weights of a network, layer by layer, and the logarithms of its noise
        variances, all for the standardised data. Of Student t noise these are its squared scales,
        and unknown degrees of freedom follow, as the logarithm of what they have beyond 2, over 15.
    inference_ : engine instance
        The engine that was run last.
    n_iter_ : int
        Epochs of training, and iterations of the engine.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has any.

    See Also
    --------
    BayesianMLPClassifier : The counterpart for classes.
    sklearn.neural_network.MLPRegressor : A single network.

    Notes
    -----
    Sparse X is made dense for training, in ``dtype``.

    With several outcomes, results have an axis of length n_targets behind that of the rows:
    `predict` gives (n_samples, n_targets), `predict_quantiles` (n_samples, n_targets, n_quantiles)
    and `sample_predictive` (n_samples_X, n_targets, n_samples). Only `log_predictive`, of the joint
    density of all outcomes, is of shape (n_samples,).

    References
    ----------
    Tran, Tseng & Kohn, "Particle mean field variational Bayes", section 7.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import BayesianMLPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> reg = BayesianMLPRegressor((20,), n_networks=5, max_iter=200, random_state=0).fit(X, y)
    >>> mean, std = reg.predict([[0.5], [12.0]], return_std=True)
    >>> bool(std[1] > 2 * std[0])
    True
    >>> reg.predict_interval(X[:3], level=0.9).shape
    (3, 2)
    """

    _effort = (20_000, 50)

    _parameter_constraints = {
        **_BayesianMLP._parameter_constraints,
        "noise": [StrOptions(set(NOISES)), HasMethods("outcome")],
        "noise_shape": [None, Interval(Real, 0, None, closed="neither")],
        "noise_scale": [None, Interval(Real, 0, None, closed="neither")],
    }

    _noise = NormalNoise()  # that was fitted

    _: KW_ONLY
    inference: Any = "ksd-mcmc"
    prior: Any = "hierarchical-normal"
    noise: Any = "normal"
    noise_shape: float | None = None
    noise_scale: float | None = None
    learning_rate_init: float = 0.01

    @property
    def _named_parameters(self):
        return {**super()._named_parameters, "noise": resolve_noise}

    @property
    def _n_outputs(self):
        return self._network.sizes[-1] // self._outcome.n_predictors

    @validated
    def fit(self, X, y, sample_weight=None):
        """Train the networks, and find the posterior around them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.

        Returns
        -------
        self : BayesianMLPRegressor

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights are invalid.
        FloatingPointError
            If every network diverges, or one of the two of ``subspace="curve"`` diverges or dies.

        Warns
        -----
        UserWarning
            If y is constant. If ``standardize=False`` and X or y is a thousand times too large or
            too small for the priors.
        ConvergenceWarning
            If networks diverge, die (put out the same for every row) or explain the rows worse
            than a constant does. They are left out, unless all of them do. If the loss of networks
            rose in training to more than ten times that of knowing nothing. If most were still on
            their way at the end, or err more than a constant where they were not trained, and
            ``inference`` does not go on far from there.
        """
        given = X, y, sample_weight
        self._noise = noise_to_fit(self)
        X, y, weights = self._rows(X, y, sample_weight, False)
        scaling = self._find_scaling(X, weights, y)
        if len(y) > 1 and (y[0] == y).all(axis=0).any():
            warn(
                f"y is constant ({y[0].tolist()}): there is nothing to learn, and the noise "
                "variance is that of its prior.",
                UserWarning,
            )
        target = self._make_target(X, y, weights, scaling)
        self._learn(target, scaling, given)
        self._stream_weight = float(weights.sum())
        noise = self.posterior_.mean()[target.n_weights :]
        self._stream_noise = np.exp(noise) if target.n_noise else None
        return self

    @validated
    def partial_fit(self, X, y, sample_weight=None):
        """Train the same networks for one epoch on further rows, with a constant learning rate.

        The second stage needs all rows at once, and is left out: particles are the networks, and
        the variance of normal noise is that of the errors that rows met when they came. The first
        rows fix what is standardised by.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.

        Returns
        -------
        self : BayesianMLPRegressor

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights are invalid, or ``subspace="curve"``.
        FloatingPointError
            If every network diverges.

        Warns
        -----
        ConvergenceWarning
            If networks diverge, or die: put out the same for every one of 50 rows or more. They are
            left out, unless all of them do. If their loss rose on these rows, 50 or more, to ten
            times that of knowing nothing.

        Examples
        --------
        >>> import numpy as np
        >>> from skstein import BayesianMLPRegressor
        >>> rng = np.random.default_rng(0)
        >>> reg = BayesianMLPRegressor((20,), n_networks=5, random_state=0)
        >>> for _ in range(200):
        ...     X = rng.normal(size=(100, 2))
        ...     reg = reg.partial_fit(X, np.abs(X[:, 0]))
        >>> reg.score(X, np.abs(X[:, 0])) > 0.95
        True
        """
        self._check_stream()
        further = hasattr(self, "posterior_")
        self._noise = noise_to_fit(self, further)
        X, y, weights = self._rows(X, y, sample_weight, further)
        scaling = self._scaling if further else self._find_scaling(X, weights, y)
        make_target = partial(self._make_target, X, y, weights, scaling)
        return self._go_on(make_target, weights, scaling)

    def _rows(self, X, y, sample_weight, further):
        """Rows as `_prepared` gives them, with y of shape (n, n_outputs)."""
        X, y = self._validated(X, y, further, multi_output=True)
        with about("y"):
            y = y.astype(np.float64).reshape(len(y), -1)
        check_magnitude(y, "y")
        if further and y.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {y.shape[1]} columns, but the fit was on {self._n_outputs} outcomes."
            )
        return self._prepared(*drop_weightless(X, y, check_sample_weight(sample_weight, X)))

    def _make_target(self, X, y, sample_weight, scaling, **options):
        return self._target(
            X,
            (y - scaling.y_center) / scaling.y_scale,
            sample_weight,
            scaling,
            **options,
        )

    @property
    def _outcome(self):
        outcome = self._noise.outcome(None)
        if not isinstance(outcome, Normal):
            return outcome
        shape = 1.0 if self.noise_shape is None else self.noise_shape
        scale = 0.01 if self.noise_scale is None else self.noise_scale
        return Normal(InverseGamma(shape, scale))

    def _heads(self, X, theta):
        outcome, scaling = self._outcome, self._scaling
        heads = self._network.heads(outcome, theta[:, None], self._outputs(X, theta))
        units = outcome.predictors_rescaled(scaling.y_center, scaling.y_scale)
        units = [*units, *((1.0, shift) for shift in outcome.rescaled_by(scaling.y_scale))]
        heads = [
            np.moveaxis(factor * head + shift, 0, 2)
            for head, (factor, shift) in zip(heads, units, strict=True)
        ]
        return [head[:, 0] for head in heads] if self._n_outputs == 1 else heads


@dataclass(eq=False, repr=False)
class BayesianMLPClassifier(BayesianClassifierMixin, _BayesianMLP):
    """Bayesian neural network for two or more classes.

    What is predicted are the networks' probabilities, averaged over particles. How it works, and
    when not to trust it: :doc:`/methods/neural_networks`.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(100,)
        Units of each hidden layer.
    activation : {"relu", "tanh", "logistic"}, default="relu"
        Of the hidden layers.
    inference : str or engine instance, default="ensemble"
        What follows the training of the networks. "ensemble": nothing. "ksd-mcmc": a chain of
        stochastic gradient Hamiltonian Monte Carlo from each network. "pmfvb", "svgd" or "fwss":
        particles that go on from the networks by these engines. Or an engine, which is cloned; an
        `Ensemble` takes the place of the training that the parameters below describe. A name
        becomes an engine that does as they say when a nested parameter is set, such as
        ``inference__max_iter``.
    subspace : "curve" or None, default=None
        "curve": of all networks, only those in a plane, through two trained networks and the middle
        of a curve of good networks between them. There ``inference`` may be "ksd-mcmc", "pmfvb",
        "svgd", "fwss", "stein-points", "pmd", "laplace" or an engine, with the defaults that these
        have elsewhere, on all rows and in float64; `partial_fit` is refused.
    n_networks : int, default=20
        Networks that are trained.
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
        Whether each network is stopped when its likelihood of some rows, held out for it alone, no
        longer grows.
    validation_fraction : float, default=0.1
        Share of these rows.
    n_iter_no_change : int, default=10
        Epochs without progress after which a network stops early.
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
        stage anew.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Particles: the weights of a network, layer by layer, for the standardised features.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    inference_ : engine instance
        The engine that was run last.
    n_iter_ : int
        Epochs of training, and iterations of the engine.
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

    _: KW_ONLY
    inference: Any = "ensemble"
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
        self._learn(self._make_target(X, codes, weights, scaling), scaling, given)
        self._stream_weight = float(weights.sum())
        return self

    @validated
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train the same networks for one epoch on further rows, with a constant learning rate.

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
            times that of knowing nothing.
        """
        self._check_stream()
        further = hasattr(self, "posterior_")
        classes = stream_classes(classes, self.classes_ if further else None)
        X, y = self._validated(X, y, further)
        X, codes, weights = self._coded(X, y, sample_weight, classes)
        scaling = self._scaling if further else self._find_scaling(X, weights)
        make_target = partial(self._make_target, X, codes, weights, scaling)
        return self._go_on(make_target, weights, scaling)

    def _coded(self, X, y, sample_weight, classes=None):
        """Rows as `_prepared` gives them, with numbers for labels; sets the classes."""
        check_classification_targets(y)
        X, y, weights = drop_weightless(X, y, check_sample_weight(sample_weight, X))
        classes = np.unique(y) if classes is None else classes
        codes = class_codes(y, classes, type(self).__name__)
        self.classes_ = classes
        return self._prepared(X, codes, weights)

    def _make_target(self, X, codes, sample_weight, scaling, **options):
        return self._target(X, codes, sample_weight, scaling, **options)

    @property
    def _outcome(self):
        n_classes = len(self.classes_)
        return Bernoulli() if n_classes == 2 else Categorical(n_classes)

    def _heads(self, X, theta):
        return np.moveaxis(self._outputs(X, theta), 2, 0).swapaxes(1, 2)
