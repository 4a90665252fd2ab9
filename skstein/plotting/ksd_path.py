"""The kernel Stein discrepancy as points are gathered."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._estimators.inside_pipelines import inside, posterior_of
from ..kernels import resolve_kernel
from ._common import COLORS, GREY, new_axes, wide


@dataclass(eq=False, repr=False)
class KSDPathDisplay:
    """The kernel Stein discrepancy as points are gathered.

    Parameters
    ----------
    steps : ndarray of shape (k,)
        Draws seen, or iterations of the engine.
    ksd : ndarray of shape (k,)
    reference : ndarray of shape (k,), default=None
        The KSD that as many independent draws of the target would have.
    xlabel : str

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Notes
    -----
    The mean square KSD of n independent draws is ``E[k0(x, x)] / n``, for the Stein kernel k0; the
    expectation is taken over the points at the end. A path below that line is better than draws
    where the points are. It says nothing about places that no point visited.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.plotting import KSDPathDisplay
    >>> from skstein.thinning import OnlineKSDThinner
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> thinner = OnlineKSDThinner(n_points=50).fit(draws, -draws)
    >>> display = KSDPathDisplay.from_thinner(thinner)
    >>> bool(display.ksd[-1] < display.reference[-1])
    True
    """

    steps: np.ndarray
    ksd: np.ndarray
    _: KW_ONLY
    reference: Any = None
    xlabel: str

    @classmethod
    def from_posterior(cls, posterior, *, kernel="imq", ax=None, **kwargs):
        """Draw the KSD that an engine recorded: "ksd-mcmc", "fwss" or "stein-points".

        Parameters
        ----------
        posterior : ParticlePosterior
        kernel : {"imq", "rbf"} or Kernel, default="imq"
            That of the engine, for the reference.
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        KSDPathDisplay

        Raises
        ------
        ValueError
            If the engine recorded no KSD.
        """
        if "ksd" not in posterior.history:
            raise ValueError(
                "the history of this posterior holds no KSD; the engines that record one are "
                '"ksd-mcmc", "fwss" and "stein-points".'
            )
        ksd = posterior.history["ksd"]
        sizes = posterior.history.get("n_particles", np.full(len(ksd), len(posterior)))
        reference = None
        if posterior.scores is not None:
            reference = _draws_ksd(kernel, *posterior._white(), posterior.weights, sizes)  # type: ignore[call-arg]
        steps = np.linspace(posterior.n_iter / len(ksd), posterior.n_iter, len(ksd))
        return cls(steps, ksd, reference=reference, xlabel="iteration").plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Draw the KSD that the engine of an estimator recorded.

        Parameters
        ----------
        estimator : estimator instance
            Fitted with "ksd-mcmc", "fwss" or "stein-points".
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        KSDPathDisplay

        Raises
        ------
        TypeError
            If there is no estimator of skstein inside.
        ValueError
            If the engine recorded no KSD.
        """
        engine = getattr(inside(estimator)[0], "inference_", None)
        kernel = getattr(engine, "ksd_kernel", "imq")
        return cls.from_posterior(posterior_of(estimator), kernel=kernel, ax=ax, **kwargs)

    @classmethod
    def from_thinner(cls, thinner, *, ax=None, **kwargs):
        """Draw the path of an online thinner, against the draws it has seen.

        Parameters
        ----------
        thinner : OnlineKSDThinner
            Fitted, with at least 100 draws.
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        KSDPathDisplay

        Raises
        ------
        ValueError
            If the path is still empty.
        """
        check_is_fitted(thinner)
        path = thinner.ksd_path_
        if not len(path):
            raise ValueError("the path is empty: a thinner records it after every 100 draws.")
        seen, kept, ksd, _ = path.T
        coordinates = thinner._coordinates
        points = coordinates.samples(thinner.samples_)
        scores = coordinates.scores(thinner.scores_)
        reference = _draws_ksd(coordinates.base_kernel, points, scores, None, kept)
        return cls(seen, ksd, reference=reference, xlabel="draws seen").plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, name=None, color=COLORS[0]):
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            New ones by default.
        name : str, default=None
            Name in the legend.
        color : matplotlib color, default="#0072B2"

        Returns
        -------
        self : KSDPathDisplay
        """
        self.ax_, self.figure_ = new_axes(ax)
        marker = "." if len(self.ksd) < 30 else None
        label = "kept points" if name is None else name
        self.ax_.plot(self.steps, self.ksd, color=color, lw=1.5, marker=marker, label=label)
        if self.reference is not None:
            dashed = {"color": GREY, "ls": "--", "lw": 1.0}
            self.ax_.plot(self.steps, self.reference, label="as many independent draws", **dashed)
        if wide(self.steps):
            self.ax_.set_xscale("log")
        if wide(self.ksd):
            self.ax_.set_yscale("log")
        else:
            self.ax_.set_ylim(bottom=0.0)
        self.ax_.set_xlabel(self.xlabel)
        self.ax_.set_ylabel("kernel Stein discrepancy")
        self.ax_.legend(frameon=False, fontsize="small")
        return self


def _draws_ksd(kernel, points, scores, weights, sizes):
    """The root mean square KSD of as many independent draws."""
    diagonal = resolve_kernel(kernel).fixed(points).stein_diagonal(points, scores)
    return np.sqrt(np.average(diagonal, weights=weights) / sizes)
