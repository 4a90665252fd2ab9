"""What an engine recorded, and traces."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._estimators.inside_pipelines import inside, posterior_of
from ._common import COLORS, GREY, positions, stacked_axes, wide

_QUANTITIES = {
    "acceptance": "acceptance rate",
    "drift": "mean length of a step (posterior sd)",
    "ess": "effective sample size of the weights",
    "ksd": "kernel Stein discrepancy",
    "n_accepted": "draws that ever entered",
    "n_particles": "particles",
    "n_resampled": "particles resampled",
    "n_visited": "rows visited",
    "power": "power of the likelihood",
    "residual": "largest Stein residual (posterior sd)",
    "rhat": "largest R-hat",
    "rhat_distance": "R-hat of the distance from the mode",
    "score": "mean score",
    "step_size": "step size",
}


@dataclass(eq=False, repr=False)
class HistoryDisplay:
    """What an engine recorded while it ran, one panel per quantity, and traces of coordinates.

    Parameters
    ----------
    history : dict of str to ndarray
        Values by iteration or round of the engine.
    n_iter : int
        Iterations made.
    limits : dict of str to float, default=None
        The value that each quantity must fall below.
    traces : dict of str to ndarray of shape (m,), default=None
        Values of a coordinate, particle by particle.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        One per panel.
    ax_ : matplotlib.axes.Axes
        The first of them.
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skstein import BayesianLinearRegression
    >>> from skstein.plotting import HistoryDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = BayesianLinearRegression("pmfvb", random_state=0).fit(X, y)
    >>> display = HistoryDisplay.from_estimator(reg, quantities=["residual", "rhat"])
    >>> [ax.get_title(loc="left") for ax in display.axes_]
    ['largest Stein residual (posterior sd)', 'largest R-hat']
    """

    history: dict
    n_iter: int
    _: KW_ONLY
    limits: Any = None
    traces: Any = None

    @classmethod
    def from_posterior(cls, posterior, *, quantities=None, names=(), ax=None, **kwargs):
        """Draw the history of a posterior.

        Parameters
        ----------
        posterior : ParticlePosterior
        quantities : str or sequence of str, default=None
            Keys of ``posterior.history``; all by default.
        names : str or sequence of str, default=()
            Coordinates whose traces are drawn: values in the order of the particles. Particles from
            a chain ("ksd-mcmc", "stein-points") are in the order of its draws.
        ax : matplotlib.axes.Axes or array of them, default=None
            One per panel, or one whose place they share; new ones by default.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        HistoryDisplay

        Raises
        ------
        ValueError
            If there is nothing to draw, or a quantity or a coordinate is unknown.
        """
        return cls._of(posterior, None, quantities, names).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, *, quantities=None, names=(), ax=None, **kwargs):
        """Draw the history of a fit, with the limits that its engine had to meet.

        Parameters
        ----------
        estimator : estimator instance
            Fitted.
        quantities, names, ax, **kwargs
            As in `from_posterior`.

        Returns
        -------
        HistoryDisplay

        Raises
        ------
        TypeError
            If there is no estimator of skstein inside.
        ValueError
            If there is nothing to draw, or a quantity or a coordinate is unknown.
        """
        engine = getattr(inside(estimator)[0], "inference_", None)
        return cls._of(posterior_of(estimator), engine, quantities, names).plot(ax=ax, **kwargs)

    @classmethod
    def _of(cls, posterior, engine, quantities, names):
        keys = list(posterior.history)
        shown = positions(quantities, keys, "quantities", "the history holds")
        history = {keys[j]: posterior.history[keys[j]] for j in shown}
        places = positions(() if names is None else names, posterior.names)
        traces = {posterior.names[j]: posterior.particles[:, j] for j in places}
        if not history and not traces:
            raise ValueError(
                "this posterior keeps no history: its engine does not iterate; pass names= for "
                "traces of coordinates."
            )
        of_engine = {"rhat": "max_rhat", "residual": "tol"}
        limits = {key: getattr(engine, name, None) for key, name in of_engine.items()}
        limits = {key: value for key, value in limits.items() if value is not None}
        return cls(history, posterior.n_iter, limits=limits, traces=traces)

    def plot(self, ax=None, *, color=COLORS[0]):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of them, default=None
            One per panel, or one whose place they share; new ones by default.
        color : matplotlib color, default="#0072B2"

        Returns
        -------
        self : HistoryDisplay

        Raises
        ------
        ValueError
            If there are not as many axes as panels.
        """
        limits, traces = self.limits or {}, self.traces or {}
        self.axes_, self.figure_ = stacked_axes(ax, len(self.history) + len(traces))
        self.ax_ = self.axes_[0]
        panels = iter(self.axes_)
        for (key, values), panel in zip(self.history.items(), panels, strict=False):
            values = np.where(np.isfinite(values), values, np.nan)
            x = np.linspace(self.n_iter / len(values), self.n_iter, len(values))
            panel.plot(x, values, color=color, lw=1.3, marker="." if len(values) < 30 else None)
            panel.set_xlim(0, 1.02 * self.n_iter)
            panel.margins(y=0.15)
            if key in limits:
                panel.axhline(limits[key], color=GREY, ls="--", lw=1.0)
                units = {"xycoords": panel.get_yaxis_transform(), "textcoords": "offset points"}
                font = {"va": "top", "color": GREY, "fontsize": "small"}
                text = f"limit {limits[key]:g}"
                panel.annotate(text, (0.01, limits[key]), xytext=(0, -3), **units, **font)
            if wide(values):
                panel.set_yscale("log")
            panel.set_title(_QUANTITIES.get(key, key), loc="left", fontsize="medium")
        if self.history:
            panel.set_xlabel("iteration")
        for (name, values), panel in zip(traces.items(), panels, strict=True):
            panel.plot(np.arange(1, len(values) + 1), values, color=color, lw=0.8)
            panel.set_title(f"trace of {name}", loc="left", fontsize="medium")
        if traces:
            self.axes_[-1].set_xlabel("particle, in the order they are kept")
        return self
