"""What the linear models share: priors, standardisation, and the way to the original scale.

The target is fitted in the coordinates of standardised features (and a standardised outcome), where
a default prior makes sense. An affine map then moves the posterior to the original scale, so that
an estimator reports and predicts in the units of its data.
"""

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from .. import priors, shards, targets
from .._estimators.base import BayesianEstimator
from .._input.columns import canonical, column_position, warn_of_little_weight
from .._input.streams import warn_of_first_rows, warn_of_wider_outcomes
from .._input.validation import (
    HasMethods,
    StrOptions,
    check_magnitude,
    check_sample_weight,
    drop_weightless,
    validate_data,
    validated,
)
from .._statistics.column_moments import location_and_scale
from ..inference import ENGINES, resolve_engine
from ..priors import DEVIATION_PRIORS, PRIORS, resolve_deviation_prior, resolve_prior
from ..targets.regression.sign_constraints import sign_constraint_scale
from ._prior_knowledge import signs_of, under_joint_prior
from .offset import check_offset, split_offset
from .scaling import _Scaling

# Rows per coordinate for the start of a stream. With fewer, the scale of a skewed feature is a
# matter of luck, and with it the prior, which applies on that scale.
_FIRST_ROWS = 10


def takes_more_rows(estimator):
    """Whether the engine can update a posterior, and so whether there is a `partial_fit`."""
    engine = estimator.inference
    with suppress(ValueError):  # of an unknown name, which `fit` refuses
        engine = resolve_engine(engine) if isinstance(engine, str) else engine
    if getattr(engine, "update", None) is not None and not isinstance(engine, type):
        return True
    raise AttributeError(
        f"partial_fit of {type(estimator).__name__} needs an engine that takes more rows, "
        f'such as inference="pmd"; got inference={estimator.inference!r}.'
    )


@dataclass(eq=False, repr=False)
class BayesianLinearModel(BayesianEstimator):
    """What the linear models share: priors, standardisation, and the layout of ``theta``.

    ``theta`` holds a row (intercept, coefficients) for each linear predictor of ``_outcome``, then
    the outcome's other coordinates, then those that the target adds.

    A fit finds out about y (`_note_order`, `_checked`, `_survey`, `_learn_outcomes`), standardises
    (`_find_scaling`), makes the target of the rows (`_regression`, which asks `_target_options` and
    `_make_target`) and adds what else the parameters ask for (`_assembled`). On a cluster `sharded`
    takes the same steps, shard by shard. A subclass defines ``_outcome`` and what finds out about
    y, and may override `_target_options`, `_make_target` and `_summaries`, the attributes that are
    reported.
    """

    inference: Any = "mcmc"
    _: KW_ONLY
    prior: Any = "normal"
    intercept_prior: Any = "normal"
    fit_intercept: bool = True
    standardize: bool = True
    positive: Any = False
    factorized: bool = False
    offset: Any = None
    warm_start: bool = False
    random_effects: Any = None
    effects_prior: Any = "half-normal"
    missing_groups: str = "error"

    _named_parameters = {
        "inference": resolve_engine,
        "prior": lambda prior: resolve_prior(prior, 1.0, "prior"),
        "intercept_prior": lambda prior: resolve_prior(prior, 10.0, "intercept_prior"),
        "effects_prior": resolve_deviation_prior,
    }

    _parameter_constraints = {
        **BayesianEstimator._parameter_constraints,
        "inference": [StrOptions(set(ENGINES)), HasMethods("run")],
        "prior": [StrOptions(set(PRIORS)), HasMethods("sample")],
        "intercept_prior": [StrOptions(set(PRIORS)), HasMethods("sample")],
        "fit_intercept": ["boolean"],
        "standardize": ["boolean"],
        "positive": ["boolean", "array-like", dict],
        "factorized": ["boolean"],
        "offset": [str, Integral, None],
        "warm_start": ["boolean"],
        "random_effects": [None, list, tuple, dict, callable, np.ndarray],
        "effects_prior": [StrOptions(set(DEVIATION_PRIORS)), HasMethods("from_normal")],
        "missing_groups": [StrOptions({"error", "group"})],
    }

    def _validated(self, X, y, further):
        """X in float64 or float32, dense or CSR with one entry per place, and y unchanged."""
        if self.random_effects is not None:
            from .effects import read_groups

            return read_groups(self, X, y, reset=True)
        self._effects = None  # type: ignore[misc]
        X, y = validate_data(
            self, X, y, reset=not further, dtype=(np.float64, np.float32), accept_sparse="csr"
        )
        X = canonical(X)
        check_magnitude(X, "X")
        return X, y

    @validated
    def fit(self, X, y, sample_weight=None, offset=None):
        """Find the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix, Chunks, Dask array or frame} of shape \
                (n_samples, n_features)
            Sparse features are centred implicitly and never made dense, large ones are not copied.
            Rows that are not in memory, :class:`~skstein.shards.Chunks` or on a cluster, stay where
            they are (:doc:`/clusters`); ``y``, weights and offset are then collections too.
        y : array-like of shape (n_samples,)
            Numbers, or the labels of classes.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight equals that many repetitions of the sample.
        offset : array-like of shape (n_samples,), default=None
            Added to the linear predictor of each row, with coefficient 1; predictions need one too.
            Where it is a column of X, the parameter ``offset`` names it instead.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter, X, y, the weights or the offset are invalid, or there is only one class.
        TypeError
            If an engine or prior is a class instead of an instance, or ``random_effects`` are not
            columns with lists of slopes, or are given with an X that is not in memory.
        FloatingPointError
            If the inference diverges, or the noise variance leaves the range of floating point.

        Warns
        -----
        ConvergenceWarning
            If the posterior is likely to be wrong; the message says why (:doc:`/trust`).
        EfficiencyWarning
            If very many rows could be fitted with ``surrogate=`` (:doc:`/large_data`).
        UserWarning
            If the weights of several rows sum to 1 or less. With Student t noise, if the noise is
            mostly what its prior adds.
        """
        return self._fit(X, y, sample_weight, offset=offset)

    def _note_order(self, y, further):
        """Take down what y itself says of an order of classes, before its values are read."""

    # Below, a subclass says what fits find out about outcomes, in memory or shard by shard.

    @staticmethod
    def _survey(y, sample_weight):
        """The values of y that count, and a number for each that adds up over rows."""
        raise NotImplementedError("a subclass of BayesianLinearModel has to define _survey().")

    def _learn_outcomes(self, present, totals, classes):
        """Set what depends on the outcomes, such as classes and their order.

        ``present`` and ``totals`` are a survey of all rows. Returns what turns outcomes, weights
        and offsets into outcomes and weights of a target, and what is poor about the outcomes of a
        stream's first rows.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define _learn_outcomes().")

    def _fit(self, X, y, sample_weight, stream=False, classes=None, offset=None):
        """Find the posterior; in a stream, go on from that of the previous rows."""
        self._refuse_beside_effects(stream)
        further = stream and hasattr(self, "posterior_")
        if shards.is_collection(X):
            from . import sharded

            built = sharded.build_target(self, X, y, sample_weight, offset, stream)
        else:
            self._note_order(y, further)
            # What was read from X goes with the call: a target keeps what it needs of it.
            built = self._build_target(X, y, sample_weight, offset, stream, further, classes)
        target, to_original, scaling = built
        target.more_follow = stream
        learn = self._update if further else self._infer
        return learn(target, to_original, X, y, sample_weight, offset, _scaling=scaling)

    def _build_target(self, X, y, sample_weight, given_offset, stream, further, classes):
        """The target, the map from its coordinates to original units, and the scaling."""
        X, y = self._validated(X, y, further)
        y = self._checked(y)
        weights = check_sample_weight(sample_weight, X, may_be_zero=further)
        column = self._offset_column(given_offset)
        if column is None:
            offset = check_offset(given_offset, X.shape[0])
        else:
            X, offset = split_offset(X, column) if self._effects is None else (X, X.offset)
        n_given = len(weights)
        X, y, weights, offset = drop_weightless(X, y, weights, offset)
        table = None
        if self._effects is not None:
            table = self._effects.keep_seen(X)
            X = table.features
        encode, problem = self._learn_outcomes(*self._survey(y, weights), classes)  # type: ignore[call-arg]
        y, weights = encode(y, weights, offset)
        self._check_offset(offset.any())
        moments = partial(location_and_scale, X, weights)
        scaling = self._find_scaling(further, moments, y, weights, offset)
        where = {"offset_column": column, "offset_given": given_offset is not None}
        if further and where != {name: getattr(scaling, name) for name in where}:
            raise ValueError("offset must be given as it was before; or start again with fit.")
        scaling = replace(scaling, **where)
        regression = self._regression(X, y, weights, offset, scaling)
        target, to_original = self._assembled(regression, scaling, stream, table)
        target.n_weightless = n_given - len(y)
        if stream and not further:
            self._warn_of_poor_start(X, regression.dim, problem)
        return target, to_original, scaling

    def _regression(self, X, y, weights, offset, scaling):
        options = self._target_options(scaling, weights)
        y, options["offset"] = scaling.of_outcomes(self._outcome, y, offset)
        return self._make_target(X, y, options)

    def _assembled(self, regression, scaling, stream=False, table=None):
        """A regression with what else the parameters ask for, and the map to original units."""
        prior = self._resolved_prior(stream)
        target = self._with_factors(regression)
        if self._effects is not None:
            of_effects = resolve_deviation_prior(self.effects_prior)
            factors = [factor for factor, _ in scaling.units(self._outcome)]
            target = self._effects.target(target, table, scaling, of_effects, factors)
        if isinstance(prior, priors.Horseshoe):
            if self._outcome.further_priors:
                raise ValueError(
                    "a horseshoe is for outcomes with one linear predictor, and uneven noise has "
                    'its own: use another prior, such as "hierarchical-normal", or another noise.'
                )
            target = targets.HorseshoeTarget(target, prior)
            to_original = targets.Composition(self._reporting(scaling, target.dim), target.map)
        else:
            to_original = self._reporting(scaling, target.dim)
        if isinstance(prior, priors.MultivariateNormal):
            target = under_joint_prior(target, prior, to_original, getattr(self, "classes_", None))
        signs = self._signs(target, scaling)
        if signs.any():
            if scaling.half_scale is None:
                scaling.half_scale = sign_constraint_scale(target)
            bijection = targets.SignConstraintMap(signs, scaling.half_scale)
            target = targets.SignConstrainedTarget(target, bijection)
            to_original = targets.Composition(to_original, bijection)
        return target, to_original

    def _check_offset(self, used):
        k = self._outcome.n_predictors
        if used and k > 1 and not self._outcome.location_scale:
            raise ValueError(
                "offset is added to one linear predictor, and these classes have "
                f"{k}: leave it out, or fit two classes."
            )

    def _refuse_beside_effects(self, stream):
        """Refuse parameters that cannot be combined with random effects."""
        if self.random_effects is None:
            return
        prior = self._named_parameters["prior"](self.prior)
        signs = list(self.positive.values()) if isinstance(self.positive, dict) else self.positive
        beside = {
            "partial_fit": stream,
            "factorized=True": self.factorized,
            "positive=": np.any(signs),
            f"a {type(prior).__name__} prior": not prior.blockwise,
        }
        for what, used in beside.items():
            if used:
                raise ValueError(f"{what} and random_effects cannot be combined; use one of them.")

    def _offset_column(self, offset):
        """Position of the column of X that the parameter ``offset`` says, None for None."""
        if self.offset is None:
            return None
        names, n_columns = getattr(self, "feature_names_in_", None), self.n_features_in_
        column = column_position(self.offset, names, n_columns, "offset")
        if n_columns == 1:
            raise ValueError(f"offset={self.offset!r} leaves no feature: X needs another column.")
        if offset is not None:
            raise ValueError(f"offset={self.offset!r} is a column of X: give no other beside X.")
        return column

    def _make_target(self, X, y, options):
        return targets.RegressionTarget(self._outcome, X, y, **options)

    def _find_scaling(self, further, moments, y, sample_weight, offset):
        """How features and outcome are standardised; ``further`` rows like the first ones.

        ``moments()`` are means and standard deviations of the features.

        Raises
        ------
        ValueError
            If the parameters differ from those of the first rows.
        """
        if further:
            for name in ("fit_intercept", "standardize"):
                before = getattr(self._scaling, name)
                if getattr(self, name) != before:
                    raise ValueError(
                        f"{name}={before} of the rows before is that of the whole stream: set it "
                        "back, or start again with fit."
                    )
            if self.standardize and self._outcome.location_scale:
                warn_of_wider_outcomes(y, self._scaling.y_scale)
            return self._scaling
        warn_of_little_weight(sample_weight)
        if not self.standardize:
            return _Scaling(self.fit_intercept)
        scaling = _Scaling(self.fit_intercept, *moments())
        if self._outcome.location_scale:
            found = location_and_scale(y[:, None], sample_weight)
            scaling.y_center, scaling.y_scale = np.concatenate(found)
        else:
            scaling.y_center = self._outcome.center(y, sample_weight, offset)
        if not self.fit_intercept:
            scaling.y_center = 0.0
            if self._outcome.constant is None:
                scaling.center = None
        return scaling

    def _target_options(self, scaling, sample_weight):
        """Options of the target that do not depend on the outcome."""
        prior = self._resolved_prior()
        intercept_prior = self._named_parameters["intercept_prior"](self.intercept_prior)
        if not intercept_prior.blockwise:
            raise ValueError(
                f"intercept_prior={self.intercept_prior!r} is not a prior of intercepts alone: use "
                "another, such as Normal."
            )
        return {
            "sample_weight": sample_weight,
            "fit_intercept": self.fit_intercept,
            "prior": prior if prior.blockwise else None,
            "intercept_prior": intercept_prior,
            "center": scaling.center,
            "scale": scaling.scale,
            "feature_names": self._features(scaling),
        }

    def _signs(self, target, scaling):
        """The sign of each coordinate: 1, -1, or 0 for either."""
        features = self._features(scaling)
        names = features if hasattr(self, "feature_names_in_") else None
        signs = signs_of(self.positive, len(features), names)
        if any(signs) and self.factorized:
            raise ValueError("factorized=True has no factors in closed form with positive=.")
        if any(signs) and self._outcome.n_predictors > 1:
            raise ValueError(
                "positive= needs an outcome with one linear predictor, such as two classes; this "
                f"one has {self._outcome.n_predictors}, and a sign for one is none for another."
            )
        every = np.zeros(target.dim)
        every[self.fit_intercept :][: len(signs)] = signs
        return every

    def _resolved_prior(self, stream=False):
        prior = self._named_parameters["prior"](self.prior)
        if stream and not prior.streams:
            raise ValueError(
                f"a {type(prior).__name__} has tails that the particles of a stream do not follow: "
                'use prior="hierarchical-normal" in partial_fit, or fit all rows at once.'
            )
        return prior

    def _with_factors(self, target):
        """The target with its variances as mean-field factors, if ``factorized``."""
        if not self.factorized:
            return target
        if not resolve_engine(self.inference).keeps_factors:
            raise ValueError(
                'factorized=True needs an engine that keeps factors apart: use inference="pmfvb", '
                "with blocks=None."
            )
        if not self._resolved_prior().blockwise:
            raise ValueError(
                f"factorized=True has no factors in closed form under prior={self.prior!r}: use "
                "factorized=False."
            )
        if target.prior.variance_groups(target.n_features) is not None:
            target = targets.HierarchicalTarget(target)
        if len(target.factors) == 1:
            raise ValueError(
                "factorized=True finds no variance to give a factor: use "
                'prior="adaptive-ridge" or "hierarchical-normal", or factorized=False.'
            )
        return target

    def _warn_of_poor_start(self, X, n_coordinates, problem):
        """Warn if the first rows are too few or degenerate to fix the scaling for the stream."""
        problems = [problem] if problem else []
        if X.shape[0] < _FIRST_ROWS * n_coordinates:
            problems.append(f"{X.shape[0]} rows for {n_coordinates} coordinates")
        least = f"{_FIRST_ROWS} for each coordinate"
        warn_of_first_rows(problems, X, self.standardize, least, "scaling and coordinates")

    def _reporting(self, scaling, dim):
        """The map from a target's coordinates to the reported ones, in original units."""
        shift, factor = np.zeros(dim), np.ones(dim)
        if self._effects is not None:
            self._effects.set_scales(shift, factor)
        return scaling.to_original(self._outcome, len(self._features(scaling)), shift, factor)

    def _features(self, scaling, names=None):
        """Names of the features: the columns of X without an offset and groups."""
        if names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
            names = getattr(self, "feature_names_in_", names)
        if self._effects is not None:
            return [names[j] for j in self._effects.common]
        return [name for j, name in enumerate(names) if j != scaling.offset_column]

    def _unpack(self, theta):
        """Intercepts (m, k) and coefficients (m, k, p) of the k linear predictors."""
        first = int(self._scaling.fit_intercept)
        rows = theta[:, : self._n_linear].reshape(len(theta), self._outcome.n_predictors, -1)
        return (rows[:, :, 0] if first else np.zeros(rows.shape[:2])), rows[:, :, first:]

    @property
    def _n_linear(self):
        """The number of intercepts and coefficients, which are the first coordinates."""
        p = len(self._features(self._scaling))
        return self._outcome.n_predictors * (int(self._scaling.fit_intercept) + p)

    def _extra(self, theta):
        """The coordinates (m, k) behind these which the outcome has beside its predictors."""
        return theta[:, self._n_linear : self._n_linear + len(self._outcome.extra)]

    _effects: ClassVar[Any] = None  # without random effects

    def _read(self, X):
        if self._effects is None:
            return super()._read(X)
        from .effects import read_groups

        return read_groups(self, X)

    def _heads(self, X, theta):
        features, column = X, self._scaling.offset_column
        offset: Any = 0.0
        if self._effects is not None:
            features, offset = X.features, X.offset
        elif column is not None:
            features, offset = split_offset(X, column)
        intercept, coef = (values.swapaxes(0, 1) for values in self._unpack(theta))
        predictors = features @ coef.reshape(intercept.size, features.shape[1]).T
        predictors += intercept.ravel()
        predictors = predictors.reshape(X.shape[0], *intercept.shape).swapaxes(0, 1)
        if column is not None:
            self._check_offset(np.any(offset))
            predictors[0] += offset[:, None]
        if self._effects is not None and self._level != "population":
            known = self.posterior_.particles if self._level == "group" else None
            for of in self._effects.groupings:
                parts = of.contribution(X, theta, known)
                for predictor, part in zip(predictors, parts, strict=True):
                    predictor += part
        if not self._outcome.extra:
            return predictors
        extra = self._extra(theta)
        if self._outcome.reported is not None:
            extra = self._outcome.reported.inverse(extra)
        return [*predictors, *extra.T]

    def _summaries(self, posterior):
        """Means and standard deviations of intercepts (k,) and coefficients (k, p)."""
        summaries = {}
        for suffix, moment in (("", posterior.mean()), ("std_", posterior.std())):
            intercept, coef = self._unpack(moment[None])
            summaries |= {f"intercept_{suffix}": intercept[0], f"coef_{suffix}": coef[0]}
        return summaries

    def _attributes(self, bijection, names, fitted, posterior):
        attributes = super()._attributes(bijection, names, fitted, posterior)
        if self._effects is not None:
            attributes["random_effects_"] = self._effects.summary(
                attributes["posterior_"], self._outcome.n_predictors
            )
        return attributes
