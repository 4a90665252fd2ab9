"""What every estimator shares: parameters, and the way from a target to a posterior.

An estimator builds a target, passes it to `skstein.inference.infer` and keeps the particles. All
its predictions are averages over them (`_predictions/methods.py`).
"""

from contextlib import contextmanager
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from inspect import signature
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin

from .._input.validation import validate_data
from .._tools.copies import changed
from .._tools.named_parameters import NamedParameters
from .._tools.versioned_pickles import VersionedPickles
from ..inference import resolve_engine
from .progress import ProgressLines, RoundTasks, joined_callbacks


@dataclass(eq=False, repr=False)
class BayesianEstimator(VersionedPickles, NamedParameters, CallbackSupportMixin, BaseEstimator):
    """Base class: parameters that may be names, and inference."""

    _: KW_ONLY
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict] = {
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    # What to do in place of parameters that users of scikit-learn know.
    _instead: ClassVar[dict] = {}

    _named_parameters: ClassVar[dict] = {"inference": resolve_engine}

    _kept: ClassVar[list] = []  # names of the attributes of the last fit

    def __new__(cls, *args, **params):
        # The message of a generated `__init__` would name the class that it was generated for.
        try:
            signature(cls.__init__).bind_partial(None, *args, **params)
        except TypeError as error:
            advice = [f"; use {cls._instead[name]}" for name in params if name in cls._instead]
            raise TypeError(f"{cls.__name__}() {error}{''.join(advice)}.") from None
        return super().__new__(cls)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _infer(self, target, bijection, X, y, sample_weight, offset=None, **fitted):
        """Run the engine on `target`, and set the attributes that follow from the posterior.

        The posterior is kept in the coordinates of `bijection`, or as it is for None. X, y, the
        weights and the offset are those that `fit` was given: callbacks see and score them as the
        user would.
        ``fitted`` are other attributes needed to read the posterior; they change with it.
        """

        from ..inference._run.infer import run_engine

        engine = self._engine(target)
        self.inference_ = engine.last_stage
        fitted = {"_weighted": sample_weight is not None, "_n_rows": target.n_rows} | fitted
        attributes = partial(self._attributes, bijection, target.names, fitted)
        init, n_rounds = self._earlier(target, bijection), engine.n_rounds(target)
        with self._rounds(n_rounds, attributes, X, y, sample_weight, offset) as callback:
            posterior = run_engine(target, engine, init, self.random_state, self.n_jobs, callback)
            self._keep(attributes(posterior))
        return self

    def _engine(self, target):
        """The engine that finds the posterior of a target, ready to run."""
        return resolve_engine(self.inference)

    def _earlier(self, target, bijection):
        """The posterior to go on from in a warm start, in the target's coordinates, or None."""
        previous = getattr(self, "posterior_", None) if self.warm_start else None
        if previous is None:
            return None
        if previous.names != tuple(target.names):
            raise ValueError(
                "warm_start=True goes on with the same features and classes as the fit before; "
                "these have other names or another number. Fit with warm_start=False."
            )
        return previous._pulled(bijection)

    def _update(self, target, bijection, X, y, sample_weight, offset=None, **fitted):
        """Update the posterior with more rows by the engine's `update`; else as `_infer`."""
        from ..inference._run.update import run_update

        self.inference_ = resolve_engine(self.inference)
        fitted["_weighted"] = sample_weight is not None or self.__dict__.get("_weighted", False)
        fitted["_n_rows"] = self.__dict__.get("_n_rows", 0) + target.n_rows
        attributes = partial(self._attributes, bijection, target.names, fitted)
        with self._rounds(1, attributes, X, y, sample_weight, offset) as callback:
            posterior = run_update(self.posterior_, target, self.inference_, n_jobs=self.n_jobs)
            if callback is not None:
                callback(1, 1, partial(copy, posterior), {})
            self._keep(attributes(posterior))
        return self

    def _keep(self, attributes):
        """Set the attributes of a fit; those that only an earlier one had go."""
        for name in set(self._kept) - attributes.keys():
            self.__dict__.pop(name, None)
        self.__dict__.update(attributes, _kept=list(attributes))

    def _attributes(self, bijection, names, fitted, posterior):
        """``fitted``, and what follows from a posterior in the target's coordinates."""
        posterior = posterior._pushed(bijection, names)
        # Chains keep all their draws, which only a warm start needs.
        if not self.warm_start and self.inference_.update is None:
            posterior.state = None
        posterior.classes = getattr(self, "classes_", None)
        fitted = {**fitted, "posterior_": posterior, "n_iter_": posterior.n_iter}
        return fitted | changed(self, **fitted)._summaries(posterior)

    @contextmanager
    def _rounds(self, n_rounds, attributes, X, y, sample_weight=None, offset=None):
        """Tell scikit-learn's callbacks about a fit; returns the function to call after each round.

        Every hook receives what `fit` was given, and ``attributes(posterior)`` gives the attributes
        of an estimator fitted with that posterior.
        """
        metadata = {"sample_weight": sample_weight, "offset": offset}
        metadata = {name: values for name, values in metadata.items() if values is not None}
        event = {"estimator": self, "X": X, "y": y, "metadata": metadata or None}
        context = self._init_callback_context(max_subtasks=n_rounds)
        context.call_on_fit_task_begin(**event)
        lines = [ProgressLines(type(self).__name__)] if self.verbose else []
        # Its own callbacks, or those of a meta-estimator.
        tasks = [RoundTasks(context, event, attributes)] if hasattr(self, "_skl_callbacks") else []
        yield joined_callbacks(*lines, *tasks) if lines or tasks else None
        for task in tasks:
            task.close()
        context.call_on_fit_task_end(**event, reconstruction_attributes={})

    def _read(self, X):
        """X for predictions, an array or CSR array of numbers."""
        return validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")

    def _summaries(self, posterior):
        """The fitted attributes that summarise `posterior`, by name."""
        return {}
