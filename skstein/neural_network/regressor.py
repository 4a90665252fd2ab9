"""Neural networks for numeric outcomes."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.base import MultiOutputMixin
from sklearn.utils.validation import check_is_fitted

from .._input.columns import dense
from .._input.streams import warn_of_wider_outcomes
from .._input.validation import (
    HasMethods,
    Interval,
    StrOptions,
    check_count,
    check_outcomes,
    check_sample_weight,
    drop_weightless,
    validated,
)
from .._predictions.methods import BayesianRegressorMixin, normal_nodes, without_overflow
from .._tools.parallel import make_map, one_thread
from .._tools.random import as_generator
from .._tools.warnings import warn
from ..noise import NOISES, HeteroscedasticNoise, NormalNoise, noise_to_fit, resolve_noise
from ..outcomes import Normal
from ..priors import InverseGamma
from ..targets.networks.null_space import null_space_tangent, tangents_affordable
from .base import _BayesianMLP, _Scaling

_N_NODES = 8  # of the quadrature over distances along a tangent
_STEPS = np.linspace(-6.0, 6.0, 33)[:, None, None]  # of a joint density's

_FINEST = 1e-3  # of the standard deviation of y, the least noise of a row
_ENOUGH = 200  # rows, to tell where there is how much noise


@dataclass(eq=False, repr=False)
class BayesianMLPRegressor(BayesianRegressorMixin, MultiOutputMixin, _BayesianMLP):
    r"""Bayesian neural network for regression.

    The outcome is the network's output with noise around it. On few rows that is normal, with one
    unknown variance :math:`\sigma^2` for each outcome; on 200 or more a second output says how much
    noise a row has, and there may be outliers (``noise``). What is predicted is a mixture over
    particles, each a network with its own noise. How it works, and when not to trust it:
    :doc:`/methods/neural_networks`.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(16, 16, 16, 16)
        Units of each hidden layer.
    activation : {"relu", "tanh", "relu-tanh", "logistic"}, default="relu-tanh"
        Of the hidden layers. "relu-tanh": half of a layer's units are rectified, the others
        hyperbolic tangents.
    inference : str or engine instance, default="mcmc"
        What follows the training of the networks. "ensemble": nothing; variances of normal noise
        are then those of rows that a network was not trained on, while other noise is that of the
        training, which is too small. "mcmc": a chain of stochastic gradient Hamiltonian Monte Carlo
        from each network, on minibatches if there are more than 2000 rows, which leave intervals of
        the mean, not those of outcomes, up to twice too wide; "ksd-mcmc": thinned if
        ``inference__n_particles`` (200) is less than the number of draws, ten for each network.
        "pmfvb", "svgd" or "fwss": particles that go on from the networks by these engines. Or an
        engine, which is cloned; an `Ensemble` takes the place of the training that the parameters
        below describe. If you set a parameter of the engine, such as ``inference__n_draws`` of
        "mcmc" or ``inference__max_iter`` of "svgd", the name becomes an engine with that parameter.
        "ensemble" then becomes an `Ensemble` that takes the parameters below as they are at that
        moment.
    subspace : "curve" or None, default=None
        "curve": of all networks, only those in a plane, through two trained networks and the middle
        of a curve of good networks between them. There ``inference`` may be "mcmc", "ksd-mcmc",
        "pmfvb", "svgd", "fwss", "stein-points", "pmd", "laplace" or an engine, with the defaults
        that these have elsewhere, on all rows and in float64; the noise is normal, and stays what
        it is on rows that the two were not trained on. `partial_fit` is refused.
    n_networks : int, default=10
        Networks that are trained; two with a ``subspace``.
    prior : str or prior instance, default="hierarchical-normal"
        Prior of the weights times the root of their layer's number of inputs; names have scale 3.
        By default all weights of a layer share an unknown precision, bounded from below: the lowest
        tenth of its prior is left out.
    noise : str or noise instance, default="auto"
        "normal", "student-t" (robust to outliers) or "heteroscedastic" (a second output is the log
        standard deviation), or one of :mod:`skstein.noise`. "auto": with a chain from each network,
        as by default, and 200 rows or more (their total weight),
        ``HeteroscedasticNoise(df="estimate")``; normal noise for other engines, in a ``subspace``
        or a stream, and where its prior is given by the next two. The log scale, of heteroscedastic
        noise its bias, has a normal prior of scale 2; of a row it is bounded, between a thousandth
        and ten times the standard deviation of the outcome (of several, the largest without
        ``standardize``). The prior of degrees of freedom is log-normal here, with the moments of
        that in a linear regression.
    noise_shape, noise_scale : float, default=None
        Of normal noise alone: shape and scale of the inverse gamma prior of the noise variance, the
        scale in squared units of the (standardised) outcome. None stands for a shape of 1, and a
        scale of 0.01 times the variance of the outcome (of several, the smallest), which is 1 if
        standardised.
    null_space : float, default=0.5
        How much uncertainty predictions add for directions of the weights along which a network's
        outputs on the training rows do not change. The rows leave these undetermined, and chains
        are too slow to explore them. It widens intervals between and beyond the data. The unit is
        the prior's standard deviation; 0 for nothing, at most 100. It is left
        out by `partial_fit`, with a ``subspace``, and where it would take more than a second for
        each particle, as with 4000 weights and as many rows: see ``null_space_``. Beside Student t
        noise the two together count as Student t: where it opens intervals of heavy tails,
        quantiles are somewhat too wide (93 % for 90 %), while draws are exact.
    batch_size : int, "auto" or None, default="auto"
        Rows of a step: 32 below 3000 rows, else 100, for "auto"; all rows for None. On all rows,
        weights equal repetition, and the order of rows does not matter, to the last bit.
    learning_rate_init : float, default=0.01
        First step of Adam; it falls to zero along a cosine.
    max_iter : int or "auto", default="auto"
        Epochs of training; "auto" is as many as make 10,000 steps, from 25 to 2000.
    early_stopping : bool, default=True
        Whether each network is that of its best epoch, by the likelihood of some rows that are held
        out for it alone, so that training does not follow the noise of a noisy outcome. The second
        stage sees all rows. With fewer than 20 rows, for a ``subspace`` and in `partial_fit`,
        networks do not stop early.
    validation_fraction : float, default=0.1
        Share of these rows.
    n_iter_no_change : int or None, default=None
        Epochs without progress after which a network stops early; None: a third of all epochs.
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
        stage again. On the same data the rows that were held out for a network stay held out; a
        pickle forgets which they were.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Particles: the weights of a network, layer by layer, and the logarithms of its noise
        variances, all for the standardised data. Of Student t noise these are its squared scales,
        of heteroscedastic noise there are none; unknown degrees of freedom follow, as the logarithm
        of what they have beyond 2, over 15.
        What ``null_space`` adds is in predictions alone.
    noise_ : noise instance
        What ``noise`` was resolved to.
    null_space_ : float
        What predictions have of ``null_space``: 0 where it was left out.
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

    _effort = (10_000, 25)
    _chain_steps: ClassVar[dict] = {}

    _parameter_constraints = {
        **_BayesianMLP._parameter_constraints,
        "noise": [StrOptions({"auto", *NOISES}), HasMethods("outcome")],
        "noise_shape": [None, Interval(Real, 0, None, closed="neither")],
        "noise_scale": [None, Interval(Real, 0, None, closed="neither")],
        "null_space": [Interval(Real, 0, 100, closed="both")],
    }

    _noise = NormalNoise()  # the noise of the last fit
    _scaling = _Scaling()
    _tangents = None
    _of_networks_alone = {"_tangents": None, "null_space_": 0.0}

    hidden_layer_sizes: Any = (16, 16, 16, 16)
    activation: str = "relu-tanh"
    _: KW_ONLY
    n_networks: int = 10
    inference: Any = "mcmc"
    prior: Any = "hierarchical-normal"
    noise: Any = "auto"
    noise_shape: float | None = None
    noise_scale: float | None = None
    null_space: float = 0.5
    learning_rate_init: float = 0.01
    early_stopping: bool = True

    @property
    def _named_parameters(self):
        return {**super()._named_parameters, "noise": self._resolve_noise}

    def _resolve_noise(self, noise):
        if isinstance(noise, str) and noise == "auto":
            raise ValueError(
                'noise="auto" has no parameters of its own: name a noise, such as '
                'noise="heteroscedastic".'
            )
        return resolve_noise(noise)

    @property
    def noise_(self):
        check_is_fitted(self)
        return self._noise

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
            If y is constant, as that of one row is, or half of it is within a thousandth of its
            standard deviation; on one value only where noise is not normal. If
            ``standardize=False`` and X or y is a thousand times too large or too small for the
            priors. If the weights of several rows sum to 1 or less.
        ConvergenceWarning
            If networks diverge, die (put out the same for every row) or explain the rows worse
            than a constant does. They are left out, unless all of them do. If the loss of networks
            rose in training to more than ten times that of knowing nothing. If most were still on
            their way at the end, or err more than a constant where they were not trained, and
            ``inference`` does not go on far from there.
        """
        given = X, y, sample_weight
        X, y, weights = self._rows(X, y, sample_weight, False)
        self._noise = self._noise_to_fit(weights.sum())
        if self.subspace is not None and not isinstance(self._outcome, Normal):
            raise ValueError(
                f"noise={self.noise!r} would be that of training errors in a subspace, which are "
                'far too small: use noise="normal", or whole networks, subspace=None.'
            )
        scaling = self._find_scaling(X, weights, y)
        constant = (y[0] == y).all(axis=0)
        if constant.any():
            which = "y" if constant.all() else f"column {constant.argmax()} of y"
            warn(
                f"{which} is constant ({y[0, constant].tolist()}): there is nothing to learn, and "
                "the noise comes from its prior.",
                UserWarning,
            )
        middle = partial(np.quantile, q=0.5, axis=0, method="lower")  # a value, if half is one
        spread = middle(np.abs(y - middle(y)))
        # Zeros are told apart from the rest, but left without noise where rows have their own.
        lost = (spread > 0.0) | (not isinstance(self._outcome, Normal))
        if np.any(lost & ~constant & (spread < _FINEST * scaling.y_scale * scaling.y_size)):
            warn(
                "half of y is within a thousandth of its standard deviation. If it is one value "
                'it may be left without noise: compare noise="normal", or a classifier. Else '
                "networks see no difference: leave out the values far off, or transform y.",
                UserWarning,
            )
        target = self._make_target(X, y, weights, scaling)
        self._learn(target, scaling, given)
        self._tangents = self._find_tangents(target)
        self.null_space_ = 0.0 if self._tangents is None else float(self.null_space)
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
            times that of knowing nothing. If the first rows are fewer than 20, a feature is
            constant on them, or y of later rows spreads more than five times as much.

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
        further = hasattr(self, "posterior_")
        self._noise = self._noise_to_fit(further=further)
        X, y, weights = self._rows(X, y, sample_weight, further)
        scaling = self._scaling if further else self._find_scaling(X, weights, y)
        if further and self.standardize:
            warn_of_wider_outcomes(y, scaling.y_scale)
        return self._go_on(X, y, weights, scaling)

    def _rows(self, X, y, sample_weight, further):
        """Rows as `_prepared` gives them, with y of shape (n, n_outputs)."""
        X, y = self._validated(X, y, further, multi_output=True)
        y = check_outcomes(dense(y)).reshape(X.shape[0], -1)
        if further and y.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {y.shape[1]} columns, but the fit was on {self._n_outputs} outcomes."
            )
        return self._prepared(*drop_weightless(X, y, check_sample_weight(sample_weight, X)))

    def _noise_to_fit(self, n_rows=0.0, further=False):
        """What ``noise`` means for so many rows; networks that go on keep theirs."""
        if self.noise != "auto":
            return noise_to_fit(self, further)
        if further or (self.warm_start and hasattr(self, "posterior_")):
            return noise_to_fit(self, further, self._noise)
        prior_given = (self.noise_shape, self.noise_scale) != (None, None)
        if prior_given or round(n_rows) < _ENOUGH:
            return NormalNoise()
        chains = "hamiltonian_steps" in self._resolve_engine(self.inference).requires
        return HeteroscedasticNoise(df="estimate") if chains else NormalNoise()

    def _make_target(self, X, y, sample_weight, scaling, **options):
        self._scaling, options["y_size"] = scaling, np.max(scaling.y_size)
        y = (y - scaling.y_center) / scaling.y_scale
        return super()._make_target(X, y, sample_weight, scaling, **options)

    @property
    def _outcome(self):
        outcome = self._noise.outcome(None)
        if not isinstance(outcome, Normal):
            return outcome
        shape = 1.0 if self.noise_shape is None else self.noise_shape
        # Too small a scale says little, too large a one outweighs the rows.
        scale = self.noise_scale or 0.01 * np.min(self._scaling.y_size) ** 2
        return Normal(InverseGamma(shape, scale))

    def _warn_of_means(self):
        check_is_fitted(self)
        steps = getattr(getattr(self.inference_, "sampler", None), "rows_of_step", None)
        if steps is not None and steps(*self._chain_rows) < self._chain_rows[0]:
            warn(
                "chains on minibatches make intervals of means of y up to twice too wide, and "
                "variances four times (not of outcomes): use inference__sampler__batch_size=None.",
                UserWarning,
            )

    @property
    def _stops_early(self):
        # The middle of a curve, and with it the plane, does not.
        return self.early_stopping and self.subspace is None

    def _find_tangents(self, target):
        """One for every particle, shape (m, n_weights), or None."""
        if self.null_space == 0 or self.subspace is not None or not tangents_affordable(target):
            return None
        particles = self.posterior_.particles
        seed = as_generator(self.random_state).integers(2**32, size=4)
        generators = np.random.default_rng(seed).spawn(len(particles))
        with one_thread():
            tangent = partial(null_space_tangent, target)
            found = make_map(self.n_jobs)(tangent, particles, generators)
            return (self.null_space * np.stack(list(found))).astype(self.dtype)

    def _heads(self, X, theta):
        return self._in_units(theta, self._outputs(X, theta))

    # With tangents a particle's outcome is a mixture over how far its weights have moved.

    def _row_spreads(self, X):
        """Yield (rows, heads, spread, weights), the spread of the locations by the tangents."""
        theta, weights = self.posterior_.particles, self.posterior_.weights

        def function(X):
            features = self._scaling.features(X, self._network.dtype)
            outputs, slopes = self._network.tangents(theta, self._tangents, features)
            spread = np.moveaxis(slopes[..., : self._n_outputs] * self._scaling.y_scale, 0, 2)
            return self._in_units(theta, outputs), spread[:, 0] if self._n_outputs == 1 else spread

        for rows, (heads, spread) in self._by_rows(X, len(theta), function):
            yield rows, heads, spread, weights

    def _row_heads(self, X, theta=None):
        if theta is not None or self._tangents is None:
            yield from super()._row_heads(X, theta)
            return
        for rows, heads, spread, weights in self._row_spreads(X):
            yield rows, self._outcome.widened(heads, spread), weights

    def _drawn_heads(self, X, n_samples, random_state):
        if self._tangents is None:
            yield from super()._drawn_heads(X, n_samples, random_state)
            return
        n_samples, rng = check_count(n_samples, "n_samples"), as_generator(random_state)
        chosen = rng.choice(len(self.posterior_), n_samples, p=self.posterior_.weights)
        moved = rng.standard_normal(n_samples)
        for rows, heads, spread, _ in self._row_spreads(X):
            heads = [head[..., chosen] for head in heads]
            heads[0] = heads[0] + moved * spread[..., chosen]
            yield rows, heads, None

    def _log_scores(self, X, y):
        if self._tangents is None or self._n_outputs == 1:
            return super()._log_scores(X, y)
        # Along a tangent all outcomes move together. The trapezoidal rule has steps about 0, and
        # about the distance that normal noise would leave, which may be known very well.
        y, scores, density = self._observed_at(X, y), [], self._outcome.log_density_by_particle
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for rows, (location, *rest), spread, weights in self._row_spreads(X):
                # A second predictor is a log standard deviation, else there is a log variance.
                slope = spread / np.exp(self._outcome.n_predictors * rest[0])
                precision = 1.0 + np.sum(slope * spread, axis=1)
                at = np.sum(slope * (y[rows, :, None] - location), axis=1) / precision
                steps = np.sort([*(_STEPS + 0.0 * at), *(at + _STEPS * precision**-0.5)], axis=0)
                gaps = np.diff(steps, axis=0, prepend=steps[:1], append=steps[-1:])
                log_share = np.log(gaps[1:] + gaps[:-1]) - 0.5 * steps**2
                moved = [density([location + t[:, None] * spread, *rest], y[rows]) for t in steps]
                log_joint = logsumexp(log_share + moved, axis=0) - 0.5 * np.log(8.0 * np.pi)
                scores.append(logsumexp(log_joint, axis=1, b=weights))
        return without_overflow(scores)

    def _row_noises(self, X):
        if self._tangents is None:
            yield from super()._row_noises(X)
            return
        for rows, (location, *rest), spread, weights in self._row_spreads(X):
            location, weights = normal_nodes(location, spread, weights, _N_NODES)
            yield rows, [location, *(np.repeat(head, _N_NODES, axis=-1) for head in rest)], weights

    def _mean(self, X):
        return super()._moments(X)[0]  # tangents leave it as it is

    def _moments(self, X):
        if self._tangents is None:
            return super()._moments(X)
        moments = []
        with np.errstate(over="ignore", invalid="ignore"):
            for _, heads, spread, weights in self._row_spreads(X):
                mean, between, noise = np.moveaxis(self._outcome.moments(heads, weights), 1, 0)
                moments.append(np.stack([mean, between + spread**2 @ weights, noise], axis=1))
        return np.moveaxis(without_overflow(moments), 1, 0)

    def _in_units(self, theta, outputs):
        """Heads in units of y, with the particles behind."""
        outcome, scaling = self._outcome, self._scaling
        heads = self._network.heads(outcome, theta[:, None], outputs)
        units = outcome.predictors_rescaled(scaling.y_center, scaling.y_scale)
        units = [*units, *((1.0, shift) for shift in outcome.rescaled_by(scaling.y_scale))]
        heads = [
            np.moveaxis(factor * head + shift, 0, 2)
            for head, (factor, shift) in zip(heads, units, strict=True)
        ]
        return [head[:, 0] for head in heads] if self._n_outputs == 1 else heads
