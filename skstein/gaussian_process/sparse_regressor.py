"""Sparse Gaussian process regression by Particle Mirror Descent.

The posterior of a sparse Gaussian process over (inducing inputs Z, inducing values) is carried by
particles: each is a set of inducing inputs, drawn from the training inputs and never moved, beside
the exact normal posterior of its inducing values (`inducing.py`). A mirror step changes both in
closed form, and the particles' weights by what is left after the values are integrated out.
After Dai, He, Dai & Song (2016), "Provable Bayesian inference via particle mirror descent",
appendices F.1 and H.3. What differs:

- the weights take the complete normaliser of each step; the paper's leaves out factors that depend
  on Z;
- a step is (rows of the batch) / (rows visited), in reshuffled epochs. As particles do not move,
  steps add up exactly: after one epoch the posterior is that of all rows at once.

Everything that `sklearn.gaussian_process.GaussianProcessRegressor` says of its predictions holds
here too: the noise of a WhiteKernel belongs to the outcome, and ``alpha`` does not.
"""

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import compress
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.optimize
from sklearn.base import MultiOutputMixin, clone
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Kernel,
    WhiteKernel,
)
from sklearn.utils.validation import check_is_fitted

from .._estimators.base import BayesianEstimator
from .._input.validation import (
    Interval,
    StrOptions,
    check_count,
    check_magnitude,
    check_outcomes,
    validate_data,
    validated,
)
from .._predictions.methods import BayesianRegressorMixin, normal_nodes
from .._statistics.column_moments import location_and_scale
from .._tools.parallel import make_map, one_thread
from .._tools.random import as_generator
from .._tools.warnings import warn
from ..inference._building_blocks.mirror_steps import (
    LEAST_POWER,
    WeightedParticles,
    batches,
    mirror_step,
)
from ..inference._building_blocks.rounds import Rounds
from ..inference.base import BATCH_SIZE
from ..outcomes import Normal
from ..posterior import ParticlePosterior
from .inducing import JITTER, InducingPosterior, SplitKernel, log_marginal_likelihood
from .inducing_mixture import InducingMixture, normal_draws

_MOST_WEIGHT = 0.9  # of one particle, beyond which it stands alone
_GAIN = 3.0  # in log likelihood over noise, with less of which a kernel has found nothing
_SHARES = 2.0, 0.5  # of the spread of X, with which length scales start again
_FAR = np.log(100.0)  # if they, or constants, are that far off, or have found nothing
_TINY = np.finfo(np.float64).tiny
_FLAT = 1e-3  # gain in log likelihood, and slope relative to it, too small to search on
_N_NODES = 20  # of the quadrature over the process where its outcome is transformed
_N_FUNCTIONS = 1000  # drawn of the process, for averages over rows


@dataclass(eq=False, repr=False)
class SparseGPRegressor(BayesianRegressorMixin, MultiOutputMixin, BayesianEstimator):
    """Sparse Gaussian process regression, averaged over sets of inducing inputs.

    Each particle is a set of inducing inputs with the exact posterior of its inducing values, so
    that a prediction is a mixture of normals. The cost is linear in the number of rows: about
    ``n_particles * n_samples * n_inducing**2``. Kernels, noise and the methods that
    :class:`~sklearn.gaussian_process.GaussianProcessRegressor` has mean the same as there; up to
    about 500 rows take that one, which is faster and exact.
    :doc:`/methods/sparse_gp` has the formulas, and when not to trust it.

    Parameters
    ----------
    kernel : kernel instance, default=None
        A kernel of :mod:`sklearn.gaussian_process.kernels`, for vectors. None is
        ``ConstantKernel() * RBF() + WhiteKernel()``: unlike scikit-learn's default it has noise,
        without which a sparse approximation explains nothing that it does not interpolate.
    n_inducing : int, default=128
        Inducing inputs of each particle. With no more distinct training inputs than that, all of
        them are taken, as the only particle, and nothing is approximated.
    n_particles : int, default=16
        Sets of inducing inputs.
    approximation : {"dtc", "fitc", "vfe"}, default="dtc"
        What is made of the variance that the inducing values leave unexplained on the training
        rows: it is left out (deterministic training conditional), taken as independent noise (fully
        independent training conditional), or as a penalty (variational free energy).
    alpha : float or ndarray of shape (n_samples,), default=1e-10
        Noise variance of the training rows, beside that of a `WhiteKernel` in ``kernel``, in
        squared units of the (normalised) y. It is not part of a predicted outcome, as in
        scikit-learn: where predictions are to include the noise, give it as a `WhiteKernel`.
    batch_size : int, default=None
        Rows in a step, in reshuffled epochs; all rows by default.
    max_iter : int, default=1
        Epochs: passes over all rows. One is enough, unless ``step_size`` is given.
    step_size : callable, default=None
        ``step_size(t)``, in (0, 1], of step t = 0, 1, ...; by default the rows of the batch over
        the rows visited, with which every epoch ends at the exact posterior of the weights.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        How the hyper-parameters of the kernel are chosen, by maximising `log_marginal_likelihood`.
        None leaves them as they are. A callable ``optimizer(obj_func, initial_theta, bounds)``
        returns ``theta_opt, func_min``; ``obj_func(theta, eval_gradient=True)`` is minimised, and
        returns a gradient too if asked for it.
    n_restarts_optimizer : int, default=0
        Further runs of the optimiser, from log-uniform draws within the bounds. If none explains
        more than noise alone would, two more begin with length scales of twice and of half the
        spread of X.
    n_optimizer_samples : int, default=1000
        Training rows, drawn at random, on which hyper-parameters are chosen; all of them if there
        are fewer.
    normalize_y : bool, default=False
        Whether to centre y and divide it by its standard deviation during the fit.
    n_targets : int, default=None
        Number of outcomes, for predictions before `fit`.
    random_state : int, RandomState instance or None, default=None
        Seed of the inducing inputs, the batches and the optimiser's restarts.
    n_jobs : int, default=None
        Number of jobs, over particles; the result does not depend on it.
    verbose : int, default=0
        If positive, a line is printed for each tenth of the steps.

    Attributes
    ----------
    posterior_ : ParticlePosterior
        Weighted particles, each a set of inducing inputs row by row. Its log densities are the
        particles' log marginal likelihoods.
    inducing_inputs_ : ndarray of shape (n_particles, n_inducing, n_features)
        The same, unravelled.
    kernel_ : kernel instance
        The kernel with the hyper-parameters that were chosen.
    log_marginal_likelihood_value_ : float
        `log_marginal_likelihood` at ``kernel_.theta``.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has any.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process, of cubic cost.

    Notes
    -----
    With several outcomes the kernel and the inducing inputs are shared, and results have an axis of
    length n_targets behind that of the rows.

    References
    ----------
    Dai, He, Dai & Song (2016), "Provable Bayesian inference via particle mirror descent".
    Quinonero-Candela & Rasmussen (2005), "A unifying view of sparse approximate Gaussian process
    regression". Titsias (2009), "Variational learning of inducing variables in sparse Gaussian
    processes".

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import SparseGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=500)
    >>> reg = SparseGPRegressor(n_inducing=20, random_state=0).fit(X, y)
    >>> print(f"{np.sqrt(reg.kernel_.k2.noise_level):.1f}")
    0.2
    >>> mean, std = reg.predict([[1.0], [20.0]], return_std=True)
    >>> bool(std[1] > 3 * std[0])
    True
    >>> reg.predict_interval(X[:3], level=0.9).shape
    (3, 2)
    """

    _named_parameters = {}
    _rows_independent = False

    _parameter_constraints = {
        **BayesianEstimator._parameter_constraints,
        "kernel": [None, Kernel],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "approximation": [StrOptions({"dtc", "fitc", "vfe"})],
        "alpha": [Interval(Real, 0, None, closed="left"), np.ndarray],
        "batch_size": BATCH_SIZE,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "step_size": [callable, None],
        "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "n_optimizer_samples": [Interval(Integral, 1, None, closed="left")],
        "normalize_y": ["boolean"],
        "n_targets": [Interval(Integral, 1, None, closed="left"), None],
    }

    kernel: Any = None
    _: KW_ONLY
    n_inducing: int = 128
    n_particles: int = 16
    approximation: str = "dtc"
    alpha: Any = 1e-10
    batch_size: int | None = None
    max_iter: int = 1
    step_size: Any = None
    optimizer: Any = "fmin_l_bfgs_b"
    n_restarts_optimizer: int = 0
    n_optimizer_samples: int = 1000
    normalize_y: bool = False
    n_targets: int | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.sparse = False
        return tags

    @property
    def inducing_inputs_(self):
        check_is_fitted(self, "posterior_")
        return self.posterior_.particles.reshape(len(self.posterior_), -1, self.n_features_in_)

    _outcome = Normal()

    @property
    def _n_outputs(self):
        return len(self._y_scale) if hasattr(self, "_y_scale") else self.n_targets or 1

    @validated
    def fit(self, X, y):
        """Choose the hyper-parameters, and find the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)

        Returns
        -------
        self : SparseGPRegressor

        Raises
        ------
        ValueError
            If a parameter, X or y is invalid, a row has no noise, or the kernel is not positive
            definite.

        Warns
        -----
        ConvergenceWarning
            If a hyper-parameter is at one of its bounds, or the search for hyper-parameters ended
            where the log likelihood still has a slope. If inducing inputs are so close to each
            other, or the noise is so small, that a matrix was changed to be positive definite. If
            one set of inducing inputs has nearly all the weight. If ``step_size`` leaves out a part
            of the likelihood, so that the posterior is too wide.
        """
        given = X, y
        kernel = _default_kernel() if self.kernel is None else clone(self.kernel)
        if isinstance(kernel, CompoundKernel):
            raise ValueError("kernel must be a single kernel; got a CompoundKernel.")
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True)
        y = check_outcomes(y).reshape(len(X), -1)
        if self.n_targets is not None and self.n_targets != y.shape[1]:
            raise ValueError(
                f"y has {y.shape[1]} columns where n_targets={self.n_targets} says otherwise; "
                "n_targets may be None."
            )
        check_magnitude(X, "X")
        alpha = self._row_noise(X, kernel)
        if not SplitKernel(kernel).signal.diag(X).any():
            raise ValueError(
                f"the kernel {kernel} is noise alone: add a kernel of the function, such as "
                "RBF() + WhiteKernel()."
            )
        center, scale = np.zeros(y.shape[1]), np.ones(y.shape[1])
        if self.normalize_y:
            center, scale = location_and_scale(y, np.ones(len(y)))
        y = (y - center) / scale

        rng = as_generator(self.random_state)
        distinct = np.unique(X, axis=0)
        inputs = distinct[None]  # of each particle, (n_particles, n_inducing, n_features)
        if len(distinct) > self.n_inducing:
            draw = partial(rng.choice, len(distinct), self.n_inducing, replace=False)
            inputs = distinct[[draw() for _ in range(self.n_particles)]]
        few = slice(None)
        if len(X) > self.n_optimizer_samples:
            few = rng.choice(len(X), self.n_optimizer_samples, replace=False)
        self.kernel_ = kernel
        self._y_center, self._y_scale = center, scale
        self._optimizer_rows = inputs[0], X[few], y[few], alpha[few]
        self.log_marginal_likelihood_value_ = self._choose_hyperparameters(rng)
        try:
            self._descend(inputs, X, y, alpha, rng, given)
        except (np.linalg.LinAlgError, FloatingPointError) as error:
            raise ValueError(
                f"the kernel {self.kernel_} gives no finite, positive definite matrices for these "
                "inputs: scale X, or raise alpha."
            ) from error
        return self

    def _row_noise(self, X, kernel):
        """``alpha`` of every row, checked."""
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if alpha.ndim > 1 or alpha.size not in (1, len(X)):
            raise ValueError(
                "alpha must be a scalar or an array with same number of entries as y; got shape "
                f"{alpha.shape} for {len(X)} rows."
            )
        alpha = np.broadcast_to(alpha, len(X))
        noise = SplitKernel(kernel).noise(X) + alpha
        if not (np.all(alpha >= 0.0) and np.all(noise > 0.0) and np.all(np.isfinite(noise))):
            raise ValueError(
                "alpha, and the noise of the kernel with it, must be finite and positive for every "
                "row: raise alpha, or add a WhiteKernel to kernel."
            )
        return alpha

    def _choose_hyperparameters(self, rng):
        """Set ``kernel_.theta``; return the log marginal likelihood there."""
        kernel = self.kernel_
        if self.optimizer is None or kernel.n_dims == 0:
            return self.log_marginal_likelihood(kernel.theta, clone_kernel=False)

        def objective(theta, eval_gradient=True):
            result = self.log_marginal_likelihood(theta, eval_gradient, clone_kernel=False)
            return (-result[0], -result[1]) if eval_gradient else -result

        bounds = kernel.bounds
        starts = [kernel.theta]
        if self.n_restarts_optimizer:
            if not np.isfinite(bounds).all():
                raise ValueError(
                    "n_restarts_optimizer > 0 requires that all bounds are finite: give finite "
                    "bounds to every hyper-parameter of the kernel."
                )
            starts.extend(rng.uniform(*bounds.T, (self.n_restarts_optimizer, len(bounds))))
        with one_thread():
            optima = [self._optimum(objective, start, bounds) for start in starts]
            nothing = optima[0][1] > self._cost_of_noise() - _GAIN
            for share in _SHARES:
                start = np.clip(self._in_units_of_rows(starts[0], share), *bounds.T)
                if np.abs(start - starts[0]).max() > (0.0 if nothing else _FAR):
                    optima.append(self._optimum(objective, start, bounds))
        kernel.theta, least, *steep = min(optima, key=lambda optimum: optimum[1])
        if any(steep):
            warn(
                "the search for hyper-parameters stopped where the log likelihood still has a "
                "slope: normalise y, or raise the least noise of the kernel."
            )
        kernel._check_bounds_params()  # warns about those at one of them
        return -least

    def _cost_of_noise(self):
        """Minus the largest log likelihood of a constant with noise, on the rows of the search."""
        y = self._optimizer_rows[2]
        return 0.5 * len(y) * np.sum(1.0 + np.log(2.0 * np.pi * np.maximum(y.var(axis=0), _TINY)))

    def _in_units_of_rows(self, theta, share):
        """``theta`` in units of the rows on which it is chosen.

        Length scales of all of X are a ``share`` of its spread, constants the mean square of y.
        """
        kernel, spread = self.kernel_.clone_with_theta(theta), self._optimizer_rows[1].std(axis=0)
        given = kernel.get_params()
        for part in kernel.hyperparameters:
            name, n = part.name, part.n_elements
            periodic = name.replace("length_scale", "periodicity") in given
            if name.endswith("length_scale") and not periodic and n in (1, len(spread)):
                size = share * (spread if n > 1 else np.linalg.norm(spread))
                kernel.set_params(**{name: np.where(size > 0.0, size, given[name])})
            elif name.endswith("constant_value"):
                kernel.set_params(**{name: max(np.mean(self._optimizer_rows[2] ** 2), _TINY)})
        return kernel.theta

    def _optimum(self, objective, start, bounds):
        """The best theta found from ``start``, the objective there, and whether it is steep."""
        if callable(self.optimizer):
            return self.optimizer(objective, start, bounds=bounds)

        def search(start):
            theta, value, info = scipy.optimize.fmin_l_bfgs_b(objective, start, bounds=bounds)
            # The largest derivative that no bound holds back.
            return theta, value, np.abs(theta - np.clip(theta - info["grad"], *bounds.T)).max()

        theta, value, slope = search(start)
        gain = np.inf
        while (steep := slope > _FLAT * max(1.0, abs(value))) and gain > _FLAT:
            # Another search forgets the curvature that rounding or a bend has spoilt.
            theta, further, slope = search(theta)
            gain, value = value - further, further
        return theta, value, steep

    def _descend(self, inputs, X, y, alpha, rng, given):
        """Mirror descent from the prior over all epochs; sets the posterior."""
        n, batch = len(X), min(self.batch_size or len(X), len(X))
        n_steps = self.max_iter * -(-n // batch)
        split, map = SplitKernel(self.kernel_), make_map(self.n_jobs)
        particles = map(partial(InducingPosterior.prior, split, n_targets=y.shape[1]), inputs)
        state = WeightedParticles(inputs.reshape(len(inputs), -1), np.zeros(len(inputs)), False)
        power, visited, t = 0.0, 0, 0
        features = getattr(self, "feature_names_in_", range(self.n_features_in_))
        names = [f"z[{i}].{name}" for i in range(inputs.shape[1]) for name in features]

        def make_posterior():
            return ParticlePosterior(
                state.theta,
                state.weights,
                names=names,
                log_densities=state.log_q,
                history=rounds.history.arrays(),
                diagnostics={"posterior_power": power, "ess": state.ess()},
                n_iter=t,
            )

        def attributes(posterior):
            fitted = {"posterior_": posterior, "n_iter_": posterior.n_iter}
            return fitted | {"_particles": tuple(particles)}

        with self._rounds(n_steps, attributes, *given) as callback:
            rounds = Rounds(n_steps, make_posterior, callback)
            for batch_rows, size in batches(n, batch, self.max_iter, rng):
                rows = slice(None) if batch_rows is None else batch_rows
                visited += size
                step = size / visited if self.step_size is None else self.step_size(t)
                if not 0.0 < step <= 1.0:
                    raise ValueError(f"step_size({t}) gave {step!r}, not a number in (0, 1].")
                of_rows = {"X": X[rows], "y": y[rows], "alpha": alpha[rows], "scale": n / size}
                options = {"split": split, "approximation": self.approximation, "step": step}
                stepped = partial(InducingPosterior.stepped, **of_rows, **options)
                particles, log_normalisers = zip(*map(stepped, particles), strict=True)
                # A step adds step * (log_posterior - log_q), and the normalisers are to be added.
                log_posterior = np.array(log_normalisers) / step
                mirror_step(state, lambda theta, value=log_posterior: value, step, rng)
                power += (1.0 - power) * step
                t += 1
                if rounds.end(t, ess=state.ess(), power=power):
                    break
            self.__dict__.update(attributes(make_posterior()))
        self._warn_of_problems(power)

    def _warn_of_problems(self, power):
        weights = self.posterior_.weights
        if max(particle.jitter for particle in self._particles) > JITTER:
            warn(
                "inducing inputs are so close to each other, or the noise is so small, that more "
                f"than {JITTER:.0e} of its mean diagonal was added to a matrix: lower n_inducing, "
                "or raise alpha."
            )
        if len(weights) > 1 and weights.max() > _MOST_WEIGHT:
            warn(
                f"one set of inducing inputs has more than {_MOST_WEIGHT:.0%} of the weight, so "
                "that predictions rest on it alone: raise n_inducing until the sets explain the "
                "data equally well."
            )
        if power < LEAST_POWER:
            warn(
                f"less than a power of {LEAST_POWER:g} of the likelihood was reached, so that the "
                "posterior is too wide: raise max_iter, or leave step_size to its default."
            )

    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        """Log marginal likelihood of the kernel's hyper-parameters: the sparse approximation's.

        It is the logarithm of the density of y under ``approximation`` ("vfe": its variational
        lower bound), given the inducing inputs of the first particle, and of those rows on which
        hyper-parameters are chosen (``n_optimizer_samples``); summed over outcomes.

        Parameters
        ----------
        theta : array-like of shape (n_kernel_params,), default=None
            Logarithms of the hyper-parameters; by default those of ``kernel_``.
        eval_gradient : bool, default=False
            Whether to return the gradient too; ``theta`` must then be given.
        clone_kernel : bool, default=True
            Whether ``kernel_`` is left as it is; otherwise it gets ``theta``, which is faster.

        Returns
        -------
        log_likelihood : float
            Minus infinity where matrices are not positive definite.
        gradient : ndarray of shape (n_kernel_params,)
            With respect to ``theta``; only if ``eval_gradient``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a gradient is asked for without ``theta``.
        """
        check_is_fitted(self, "kernel_")
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None.")
            return self.log_marginal_likelihood_value_
        kernel = clone(self.kernel_) if clone_kernel else self.kernel_
        # Hyper-parameters that overflow have no likelihood, which is what is returned.
        value, gradient = np.nan, np.zeros(kernel.n_dims)
        with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
            kernel.theta = theta
            value, gradient = log_marginal_likelihood(
                SplitKernel(kernel), *self._optimizer_rows, self.approximation, eval_gradient
            )
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            value, gradient = -np.inf, np.zeros(kernel.n_dims)
        return (value, gradient) if eval_gradient else value

    def predict(self, X, return_std=False, return_cov=False):
        """Mean of the outcome, averaged over particles; before `fit`, of the prior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return the standard deviation of the outcome too, the noise of a
            `WhiteKernel` included.
        return_cov : bool, default=False
            Whether to return the covariance of the outcomes too; not both.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
        y_std : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Only if ``return_std``; in units of y.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Only if ``return_cov``; in squared units of y.

        Raises
        ------
        RuntimeError
            If both are asked for.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if not hasattr(self, "posterior_"):
            return self._predict_prior(X, return_std, return_cov)
        if not return_cov:
            return super().predict(X, return_std)
        X, mixture = self._validated(X), self._mixture()
        mean = mixture.mean(X)
        return _squeezed(mean), _squeezed(mixture.covariance(X, mean))

    def _mean(self, X):
        return _squeezed(self._mixture().mean(self._validated(X)))

    def _predict_prior(self, X, return_std, return_cov):
        """Moments of the prior, with the kernel and the number of outcomes as given."""
        X = self._validated(X)
        kernel = _default_kernel() if self.kernel is None else self.kernel
        mean = _squeezed(np.zeros((len(X), self._n_outputs)))
        if not (return_cov or return_std):
            return mean
        spread = kernel(X) if return_cov else np.sqrt(kernel.diag(X))
        return mean, _squeezed(np.repeat(spread[..., None], self._n_outputs, axis=-1))

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draw outcomes of all rows jointly, with their full covariance; before `fit`, a priori.

        The cost is cubic in the number of rows; `sample_predictive` is linear.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        y_samples : ndarray of shape (n_samples_X, n_samples) or (n_samples_X, n_targets, n_samples)
            In units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        n_samples = check_count(n_samples, "n_samples")
        rng = as_generator(random_state)
        if hasattr(self, "posterior_"):
            joints = self._mixture().joints(self._validated(X), n_samples, rng)
        else:
            mean, covariance = self.predict(X, return_cov=True)
            n = len(mean)
            joints = [(n_samples, mean.reshape(n, -1), covariance.reshape(n, n, -1))]
        # The draws of one particle are not to stand side by side.
        order = rng.permutation(n_samples)
        draws = [normal_draws(mean, covariance, count, rng) for count, mean, covariance in joints]
        return _squeezed(np.concatenate(draws, axis=2)[:, :, order], 1)

    def sample_predictive(self, X, n_samples=1, random_state=None):
        """Draw outcomes from the posterior predictive distribution, at linear cost.

        Each column comes from one particle and one draw of its inducing values, which make the
        outcomes of all rows belong together. What the inducing values leave open is drawn jointly
        for 1024 rows at a time, as they come: of no more, draws are those of `sample_y`.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        y : ndarray of shape (n_samples_X, n_samples) or (n_samples_X, n_targets, n_samples)
            In units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        return self._drawn(X, n_samples, random_state, noisy=True)

    def _drawn(self, X, n_samples, random_state, noisy):
        """Draws of the outcomes, or of the processes without their noise, in units of y."""
        mixture, X = self._mixture(), self._validated(X)
        n_samples, rng = check_count(n_samples, "n_samples"), as_generator(random_state)
        return _squeezed(mixture.draws(X, n_samples, rng, noisy=noisy), 1)

    def _validated(self, X):
        return validate_data(self, X, reset=False, dtype=np.float64)

    def _mixture(self):
        """The particles that keep any weight, which predict."""
        check_is_fitted(self, "posterior_")
        kept = self.posterior_.weights > np.finfo(float).eps
        particles, weights = list(compress(self._particles, kept)), self.posterior_.weights[kept]
        split, units = SplitKernel(self.kernel_), (self._y_center, self._y_scale)
        return InducingMixture(split, particles, weights / weights.sum(), *units)

    def _row_heads(self, X, theta=None):
        """Yield (rows, heads, weights) of each block of rows of X."""
        for rows, (means, variances), weights in self._row_moments(X):
            with np.errstate(divide="ignore"):
                yield rows, (means, np.log(variances)), weights

    def _row_moments(self, X):
        """Means and variances of the outcome under each particle, block by block."""
        mixture, X = self._mixture(), self._validated(X)
        for rows, means, variances in mixture.moments(X, make_map(self.n_jobs)):
            yield rows, (_squeezed(means, 1), _squeezed(variances, 1)), mixture.weights

    def _drawn_heads(self, X, n_samples, random_state):
        draws = self._drawn(X, n_samples, random_state, noisy=False)
        with np.errstate(divide="ignore"):
            log_noise = np.log(self._noise(self._validated(X)))
        yield slice(None), (draws, log_noise[..., None]), None

    def _row_noises(self, X):
        # The process itself is averaged over as well, by quadrature: only its noise is left.
        array = self._validated(X)
        for rows, (means, variances), weights in self._row_moments(X):
            noise = self._noise(array[rows]).reshape(*means.shape[:-1], 1)
            spread = np.sqrt(np.maximum(variances - noise, 0.0))
            means, weights = normal_nodes(means, spread, weights, _N_NODES)
            with np.errstate(divide="ignore"):
                yield rows, (means, np.log(noise)), weights

    def _common_heads(self, X):
        for rows, heads, _ in self._drawn_heads(X, _N_FUNCTIONS, 0):
            yield rows, heads, np.full(_N_FUNCTIONS, 1.0 / _N_FUNCTIONS)

    def _moments(self, X):
        # What a particle does not know of the process is ignorance too; only white noise is noise.
        mean, between, within = super()._moments(X)
        noise = self._noise(self._validated(X))
        return mean, between + np.maximum(within - noise, 0.0), noise

    def _noise(self, X):
        """Variance of the noise of the outcomes, shape (n,) or (n, n_targets)."""
        return _squeezed(SplitKernel(self.kernel_).noise(X)[:, None] * self._y_scale**2)


def _default_kernel():
    return ConstantKernel() * RBF() + WhiteKernel()


def _squeezed(values, axis=-1):
    """Without the axis of the outcomes, if there is only one."""
    return values.squeeze(axis) if values.shape[axis] == 1 else values
