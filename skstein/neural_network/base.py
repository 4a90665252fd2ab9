"""What the classifier and the regressor share: the network, its training, and the second stage."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .._estimators.base import BayesianEstimator
from .._input.columns import dense, warn_of_little_weight
from .._input.streams import warn_of_first_rows
from .._input.validation import (
    HasMethods,
    Interval,
    StrOptions,
    check_magnitude,
    check_sample_weight,
    validate_data,
)
from .._statistics.column_moments import location_and_scale
from .._tools.parallel import make_map, one_thread
from .._tools.random import as_generator
from .._tools.warnings import warn
from ..inference import ENGINES, Ensemble, Trained, resolve_engine
from ..inference.networks._registry import NETWORK_ENGINES
from ..inference.networks.ensemble import (
    AUTO_BATCH_SIZE,
    epoch_of_stream,
    training_batch_size,
    training_epochs,
    untrained,
)
from ..posterior import ParticlePosterior
from ..priors import PRIORS, resolve_prior
from ..targets.networks.mlp import MLPTarget

_NO_ROWS = np.array([], dtype=np.int64)
_FIRST_ROWS = 20  # of a stream, which know a column's size to a sixth
_LEAST_TIME = 10.0  # of Langevin dynamics; 13 leave 0.88 of the 90 % intervals right, 4 leave 0.7
_FITTING = 1e-3, 1e3  # sizes of features and outcomes that weights of size 1 can match


@dataclass
class _Scaling:
    """``(X - center) / scale`` and ``(y - y_center) / y_scale``, of sizes ``y_size``."""

    center: np.ndarray | float = 0.0
    scale: np.ndarray | float = 1.0
    y_center: np.ndarray | float = 0.0
    y_scale: np.ndarray | float = 1.0
    y_size: np.ndarray | float = 1.0

    def features(self, X, dtype):
        """Standardised features, dense."""
        return ((dense(X) - self.center) / self.scale).astype(dtype)


def _warn_of_scale(name, columns, sample_weight):
    """Warn of columns of a size for which the prior of the weights is not made."""
    squares = columns.power(2) if sparse.issparse(columns) else np.square(columns)
    largest = float(np.sqrt(sample_weight @ squares / sample_weight.sum()).max())
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
    n_iter_no_change: int | None = None
    tol: float = 1e-4
    standardize: bool = True
    dtype: str = "float32"
    warm_start: bool = False

    _parameter_constraints = {
        **BayesianEstimator._parameter_constraints,
        "hidden_layer_sizes": ["array-like", Interval(Integral, 0, None, closed="left")],
        "activation": [StrOptions({"relu", "tanh", "relu-tanh", "logistic"})],
        "inference": [StrOptions({*NETWORK_ENGINES, *ENGINES}), HasMethods("run")],
        "subspace": [None, StrOptions({"curve"})],
        "n_networks": [Interval(Integral, 2, None, closed="left")],
        "prior": [StrOptions(set(PRIORS)), HasMethods("log_density")],
        "batch_size": AUTO_BATCH_SIZE,
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [None, Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "standardize": ["boolean"],
        "dtype": [StrOptions({"float32", "float64"})],
        "warm_start": ["boolean"],
    }

    # Attributes of a fit that has networks and nothing around them.
    _of_networks_alone: ClassVar[dict] = {}
    _subspace = None

    @property
    def _named_parameters(self):
        return {
            "inference": self._resolve_engine,
            "prior": lambda prior: resolve_prior(prior, 3.0, "prior"),
        }

    @property
    def _narrow(self):
        """Whether particles are near networks as trained, or in a plane: their spread is little."""
        near = self._subspace is not None or getattr(self.inference_, "near_start", False)
        return near or self.posterior_.diagnostics.get("time", np.inf) < _LEAST_TIME

    def set_params(self, **params):
        # The engine that a name becomes is set up by the other parameters, whatever their order.
        own = {name: value for name, value in params.items() if "__" not in name}
        nested = {name: value for name, value in params.items() if name not in own}
        super().set_params(**own)
        return super().set_params(**nested)

    def _validated(self, X, y, further, **options):
        X, y = validate_data(
            self, X, y, reset=not further, dtype=np.float64, accept_sparse="csr", **options
        )
        check_magnitude(X, "X")
        return X, y

    @property
    def _hidden(self):
        sizes = np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)).ravel()
        if not all(isinstance(size, Integral) and size >= 1 for size in sizes):  # type: ignore[operator]
            raise ValueError(
                f"hidden_layer_sizes must be positive integers, the units of each hidden layer; "
                f"got {self.hidden_layer_sizes!r}."
            )
        return tuple(map(int, sizes))

    def _make_target(self, X, y, sample_weight, scaling, **options):
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
            return self._training()
        if isinstance(inference, str) and self.subspace is None and inference in NETWORK_ENGINES:
            inference = NETWORK_ENGINES[inference](self._chain_steps)
        return resolve_engine(inference)

    @property
    def _stops_early(self):
        return self.early_stopping

    def _training(self):
        return Ensemble(
            max_iter=self.max_iter,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate_init,
            validation_fraction=self.validation_fraction if self._stops_early else None,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
        )

    def _engine(self, target):
        training, then = self._resolve_engine(self.inference), None
        if isinstance(self.inference, Ensemble):
            self._warn_of_ignored(self.inference)
        if "train" not in training.requires:
            then, training = training, self._training()
        training = training.moving(2 if self.subspace else self.n_networks)
        if getattr(training, "max_iter", None) == "auto":
            size = training_batch_size(training.batch_size, target.n_rows)
            training.max_iter = training_epochs(target.n_rows, size, *self._effort)
        return Trained(training, then, subspace=self.subspace)

    def _warn_of_ignored(self, engine):
        """Warn of parameters that were set, where the `Ensemble` given has others."""
        usual, here = type(self)()._training().get_params(), self._training().get_params()
        there = engine.get_params()
        ignored = [name for name in here if usual[name] != here[name] != there[name]]
        if ignored:
            nested = ", ".join(f"inference__{name}" for name in ignored)
            warn(f"inference is an Ensemble, which trains as it says: set {nested}.", UserWarning)

    def _learn(self, target, scaling, given):
        """Train the networks, run the second stage, and set the attributes that follow."""
        fitted = {"_network": target.network, "_scaling": scaling, "_subspace": self.subspace}
        fitted["_chain_rows"] = target.n_rows, target.unevenness
        fitted["_n_rows"] = np.count_nonzero(check_sample_weight(given[2], given[0]))
        fitted |= self._of_networks_alone
        return self._infer(target, None, *given, _stream_weight=target.total_weight, **fitted)

    def _earlier(self, target, bijection):
        if not (self.warm_start and hasattr(self, "posterior_")):
            return None
        if self._network != target.network:
            raise ValueError(
                "warm_start=True goes on with the same features, outputs and layers as the fit "
                "before; these are others. Fit with warm_start=False."
            )
        networks = np.stack([target.trained(state) for state in self._networks])
        if networks.shape[1] != target.dim:
            raise ValueError(
                "warm_start=True goes on with the same noise as the fit before; this is another. "
                "Fit with warm_start=False."
            )
        return ParticlePosterior(networks, state=self._networks)

    def _attributes(self, bijection, names, fitted, posterior):
        fitted = fitted | {"_networks": _without_rows(posterior.state)}
        return super()._attributes(bijection, names, fitted, posterior._with(state=None))

    def __getstate__(self):
        state = super().__getstate__()
        if "_networks" in state:  # which a pickle takes along without a trace of the rows
            state["_networks"] = [replace(net, held_out=_NO_ROWS) for net in state["_networks"]]
        return state

    def _go_on(self, X, y, sample_weight, scaling):
        """One epoch of the networks on more rows; nothing changes if it fails."""
        subspace = self.subspace or self._subspace
        if subspace is not None:
            raise ValueError(
                f"partial_fit trains whole networks, and would leave the plane of "
                f"subspace={subspace!r}: use fit, with subspace=None."
            )
        weight = getattr(self, "_stream_weight", 0.0) + float(sample_weight.sum())
        share = float(sample_weight.sum()) / weight
        target = self._make_target(X, y, sample_weight, scaling, prior_share=share)
        networks = getattr(self, "_networks", None)
        if networks is None:
            few = [f"{len(y)} rows"] if self.standardize and len(y) < _FIRST_ROWS else []
            warn_of_first_rows(few, X, self.standardize, _FIRST_ROWS)
            networks = untrained(target, self.n_networks, as_generator(self.random_state))
        elif self._network != target.network:
            raise ValueError(
                "partial_fit goes on with the same hidden_layer_sizes, activation and dtype as "
                "before: set them back, or call fit to start again."
            )
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
        self.__dict__.update(
            posterior_=posterior,
            n_iter_=n_iter,
            inference_=Ensemble(self.n_networks),
            _networks=_without_rows(kept.states),
            _network=target.network,
            _scaling=scaling,
            _stream_weight=weight,
            _stream_noise=noise,
            **self._of_networks_alone,
        )
        return self

    def _outputs(self, X, theta):
        return self._network.outputs(theta, self._scaling.features(X, self._network.dtype))

    def _find_scaling(self, X, sample_weight, y=None):
        warn_of_little_weight(sample_weight)
        if not self.standardize:
            _warn_of_scale("X", X, sample_weight)
            if y is None:
                return _Scaling()
            _warn_of_scale("y", y, sample_weight)
            return _Scaling(y_size=location_and_scale(y, sample_weight)[1])
        scaling = _Scaling(*location_and_scale(dense(X), sample_weight))
        if y is not None:
            scaling.y_center, scaling.y_scale = location_and_scale(y, sample_weight)
        return scaling

    def _prepared(self, X, y, sample_weight):
        """Rows to train on: for full batches equal ones are merged.

        Then a weight and as many repetitions, in any order, are the same data to the last bit.
        """
        if self.batch_size is not None:
            return X, y, sample_weight
        X = dense(X)
        rows = np.column_stack([X, y.reshape(len(y), -1)])
        rows, inverse = np.unique(rows, axis=0, return_inverse=True)
        weights = np.bincount(inverse.ravel(), sample_weight)
        p = X.shape[1]
        return rows[:, :p], rows[:, p:].reshape(len(rows), *y.shape[1:]), weights


def _without_rows(networks):
    """What training goes on from."""
    return [replace(state, rows=_NO_ROWS, best=None, waiting=0, start=None) for state in networks]
