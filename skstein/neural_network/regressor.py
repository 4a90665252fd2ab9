"""Neural networks for numeric outcomes."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin

from .._columns import drop_weightless
from .._prediction import BayesianRegressorMixin
from .._validation import (
    HasMethods,
    Interval,
    StrOptions,
    about,
    check_magnitude,
    check_sample_weight,
    validated,
)
from .._warnings import warn
from ..noise import NOISES, NormalNoise, noise_to_fit, resolve_noise
from ..outcomes import Normal
from ..priors import InverseGamma
from .base import _BayesianMLP


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
    hidden_layer_sizes : array-like of int, default=(16, 16, 16, 16)
        Units of each hidden layer.
    activation : {"relu", "tanh", "logistic"}, default="relu"
        Of the hidden layers.
    inference : str or engine instance, default="mcmc"
        What follows the training of the networks. "ensemble": nothing; variances of normal noise
        are then those of rows that a network was not trained on, while other noise is that of the
        training, which is too small. "mcmc": a chain of stochastic gradient Hamiltonian Monte Carlo
        from each network; "ksd-mcmc": thinned, if ``n_particles`` is less than draws. "pmfvb",
        "svgd" or "fwss": particles that go on from the networks by these engines. Or an engine,
        which is cloned; an `Ensemble` takes the place of the training that the parameters below
        describe. A name becomes an engine that does as they say when a nested parameter is set,
        such as ``inference__max_iter``.
    subspace : "curve" or None, default=None
        "curve": of all networks, only those in a plane, through two trained networks and the middle
        of a curve of good networks between them. There ``inference`` may be "mcmc", "ksd-mcmc",
        "pmfvb", "svgd", "fwss", "stein-points", "pmd", "laplace" or an engine, with the defaults
        that these have elsewhere, on all rows and in float64; `partial_fit` is refused.
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
        stage again.

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

    hidden_layer_sizes: Any = (16, 16, 16, 16)
    _: KW_ONLY
    inference: Any = "mcmc"
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
        """Train the same networks for one epoch on more rows, with a constant learning rate.

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
