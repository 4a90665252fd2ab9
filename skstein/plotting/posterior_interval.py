"""Coefficients with credible intervals."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._estimators.inside_pipelines import inside, named_posterior
from .._input.validation import check_count, check_level
from ..posterior import weighted_quantile
from ._common import COLORS, GREY, new_axes, positions


@dataclass(eq=False, repr=False)
class PosteriorIntervalDisplay:
    """Coefficients, or other coordinates of a posterior, with credible intervals.

    Parameters
    ----------
    names : sequence of str of length n
        One per row of the figure, from top to bottom.
    estimates : ndarray of shape (n_groups, n)
        Posterior medians.
    intervals, inner_intervals : ndarray of shape (n_groups, n, 2)
        Ends of the thin and of the thick line.
    level, inner_level : float
        Their probabilities.
    groups : sequence of str, default=None
        Names of the groups, such as classes, that share the rows.
    xlabel : str, default="value"
        With the unit.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skstein import BayesianLinearRegression
    >>> from skstein.plotting import PosteriorIntervalDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> reg = BayesianLinearRegression(random_state=0).fit(X, y)
    >>> display = PosteriorIntervalDisplay.from_estimator(reg)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()][:3]
    ['age', 'sex', 'bmi']
    """

    names: Any
    estimates: np.ndarray
    intervals: np.ndarray
    inner_intervals: np.ndarray
    _: KW_ONLY
    level: float
    inner_level: float
    groups: Any = None
    xlabel: str = "value"

    @classmethod
    def from_posterior(
        cls, posterior, *, names=None, level=0.9, inner_level=0.5, ax=None, **kwargs
    ):
        """Draw coordinates of a posterior, in their own units.

        Parameters
        ----------
        posterior : ParticlePosterior
        names : str or sequence of str, default=None
            Coordinates to show, from top to bottom; all by default.
        level, inner_level : float, default=0.9 and 0.5
            Posterior probabilities of the thin and of the thick line.
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        PosteriorIntervalDisplay

        Raises
        ------
        ValueError
            If the posterior has no coordinate of a name, or a level is outside [0, 1].
        """
        values, chosen = posterior.particles[:, None], positions(names, posterior.names)
        display = cls._of(posterior, values, posterior.names, chosen, level, inner_level)
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        names=None,
        top=None,
        standardized=None,
        grouping=None,
        term="intercept",
        level=0.9,
        inner_level=0.5,
        ax=None,
        **kwargs,
    ):
        """Draw the coefficients of a linear model; of other models, all coordinates.

        With ``grouping`` it is the random effects of its groups, sorted by their means.

        Parameters
        ----------
        estimator : estimator instance
            Fitted.
        names : str or sequence of str, default=None
            Features (of other models, coordinates) to show, from top to bottom; all by default.
        top : int, default=None
            How many to show: those whose mean is the most posterior standard deviations away from
            0, the clearest first.
        standardized : bool, default=None
            Whether to multiply each coefficient by the standard deviation of its feature in the
            training data, which makes them comparable. By default if the fit knows these, as linear
            models with ``standardize=True`` do. Of no use with ``grouping``.
        grouping : str, default=None
            A key of ``random_effects_``; then ``names`` and ``top`` are of its groups.
        term : str, default="intercept"
            Which effects of these: "intercept", or a feature with slopes.
        level, inner_level : float, default=0.9 and 0.5
            Posterior probabilities of the thin and of the thick line.
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        PosteriorIntervalDisplay

        Raises
        ------
        TypeError
            If there is no estimator of skstein with a `ParticlePosterior` inside.
        ValueError
            If a name is unknown, or the scales of the features are not.
        """
        estimator, features = inside(estimator)
        posterior = named_posterior(estimator, features)
        order = None
        if grouping is not None:
            values, features, groups, xlabel = _effects(estimator, posterior, grouping, term)
            order = np.argsort(np.tensordot(posterior.weights, values[:, 0], axes=1)).tolist()
        elif hasattr(estimator, "coef_"):
            features = estimator._features(estimator._scaling, features)
            values, groups, xlabel = _coefficients(estimator, posterior, standardized)
        elif standardized:
            raise ValueError(
                "standardized=True is for the coefficients of linear models, "
                f"{type(estimator).__name__} has none."
            )
        else:
            values, features, groups = posterior.particles[:, None], posterior.names, None
            xlabel = "value"
        chosen = order if names is None and order is not None else positions(names, features)
        if top is not None:
            mean = np.tensordot(posterior.weights, values, axes=1)
            spread = np.sqrt(np.tensordot(posterior.weights, (values - mean) ** 2, axes=1))
            clarity = (np.abs(mean) / np.where(spread > 0.0, spread, np.inf)).max(axis=0)
            clearest = sorted(chosen, key=lambda j: -clarity[j])[: check_count(top, "top")]
            chosen = clearest if order is None else [j for j in chosen if j in clearest]
        return cls._of(
            posterior, values, features, chosen, level, inner_level, groups=groups, xlabel=xlabel
        ).plot(ax=ax, **kwargs)

    @classmethod
    def _of(cls, posterior, values, names, chosen, level, inner_level, **kwargs):
        q = np.concatenate([[0.5], check_level(level), check_level(inner_level)])
        quantiles = weighted_quantile(values[:, :, chosen], posterior.weights, q)
        quantiles = np.moveaxis(quantiles, 0, -1)
        median, outer, inner = quantiles[..., 0], quantiles[..., 1:3], quantiles[..., 3:]
        shown = [names[j] for j in chosen]
        return cls(shown, median, outer, inner, level=level, inner_level=inner_level, **kwargs)

    def plot(self, ax=None, *, name=None, color=None, offset=0.0):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            New ones by default. The names on its vertical axis are replaced.
        name : str, default=None
            Name in the legend. Without groups and without a name there is no legend.
        color : matplotlib color, default=None
            Of all lines; by default one per group.
        offset : float, default=0.0
            Distance below the middle of the row, in rows. Different offsets let several posteriors
            share axes.

        Returns
        -------
        self : PosteriorIntervalDisplay
        """
        n_groups, n = self.estimates.shape
        height = 0.8 + (0.16 + 0.12 * n_groups) * n
        self.ax_, self.figure_ = new_axes(ax, figsize=(6.4, max(height, 2.0)))
        for g in range(n_groups):
            drawn = COLORS[g % len(COLORS)] if color is None else color
            rows = np.arange(n) + offset + 0.7 * ((g + 0.5) / n_groups - 0.5)
            label = name if self.groups is None else self.groups[g]
            self.ax_.hlines(rows, *self.intervals[g].T, color=drawn, lw=1.2)
            self.ax_.hlines(rows, *self.inner_intervals[g].T, color=drawn, lw=3.5)
            self.ax_.plot(
                self.estimates[g], rows, "o", color="white", mec=drawn, ms=4.5, ls="", label=label
            )
        self.ax_.axvline(0.0, color=GREY, lw=0.8, zorder=0)
        self.ax_.set_yticks(range(n), self.names)
        self.ax_.set_ylim(n - 0.4, -0.6)
        self.ax_.set_xlabel(self.xlabel)
        title = f"Median, {100.0 * self.inner_level:g}% and {100.0 * self.level:g}% interval"
        self.ax_.set_title(title, loc="left", fontsize="medium")
        if self.groups is not None or name is not None:
            self.ax_.legend(frameon=False, fontsize="small")
        return self


def _effects(estimator, posterior, grouping, term):
    """Random effects (m, n_outputs, n_groups), their groups, names of the outputs, and a label."""
    if not hasattr(estimator, "random_effects_"):
        raise ValueError(f"grouping={grouping!r} is for a fit with random_effects.")
    values, groups = estimator._effects.drawn(posterior.particles, grouping, term)
    outputs = _outputs(estimator, values.shape[1])
    unit = "" if term == "intercept" else f" per unit of {term}"
    return values, groups, outputs, f"effect of {grouping} ({estimator._outcome.predictor}{unit})"


def _outputs(estimator, n_outputs):
    """Names of the linear predictors; None of a single one."""
    labels = estimator._outcome.predictor_names
    if labels is None and n_outputs > 1:
        labels = estimator.classes_
    return None if labels is None else [str(label) for label in labels]


def _coefficients(estimator, posterior, standardized):
    """Coefficients (m, n_outputs, n_features), names of the outputs, and a label."""
    _, values = estimator._unpack(posterior.particles)
    outputs = _outputs(estimator, values.shape[1])
    scale, unit = estimator._scaling.scale, "unit"
    if standardized and scale is None:
        raise ValueError(
            "standardized=True needs the scales of the features, which a fit with "
            "standardize=False does not keep; standardise X before the fit instead."
        )
    if standardized or (standardized is None and scale is not None):
        values, unit = values * scale, "standard deviation"
    xlabel = f"coefficient ({estimator._outcome.predictor} per {unit} of the feature)"
    return values, outputs, xlabel
