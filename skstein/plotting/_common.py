"""What the displays share: colours, axes and names."""

import numpy as np

# The palette of Okabe & Ito, which colour-blind readers can tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "0.45"


def check_one_outcome(prediction):
    """Refuse to draw the predictive of several outcomes; none of them is transformed."""
    if prediction.n_outcomes > 1:
        raise TypeError("one outcome is drawn at a time; fit an estimator for each of them.")


def positions(names, known, what="names", where="there are"):
    """Where ``names`` to be drawn are among the known ones; None stands for all of them.

    ``what`` and ``where`` are how the message about an unknown one calls both.
    """
    known = list(known)
    if names is None:
        return list(range(len(known)))
    names = [names] if np.ndim(names) == 0 else names
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{what} has {unknown[0]!r}, but {where} {', '.join(map(str, known[:10])) or 'nothing'}"
            f"{', ...' if len(known) > 10 else ''}."
        )
    return [known.index(name) for name in names]


def new_axes(ax, **kwargs):
    """Axes to draw on, and their figure."""
    if ax is None:
        ax = pyplot().subplots(layout="constrained", **kwargs)[1]
    return ax, ax.figure


def stacked_axes(ax, n):
    """``n`` axes, one below the other, and their figure."""
    if ax is None:
        figure = pyplot().figure(figsize=(6.4, 0.6 + 1.5 * n), layout="constrained")
        return np.atleast_1d(figure.subplots(n, 1)), figure
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(axes) == 1 and n > 1:
        (place,) = axes
        place.set_axis_off()
        grid = place.get_subplotspec().subgridspec(n, 1, hspace=0.6)
        axes = np.array([place.figure.add_subplot(cell) for cell in grid])
    if len(axes) != n:
        raise ValueError(f"ax must be one, or {n}, one for each panel; got {len(axes)}.")
    return axes, axes[0].figure


def wide(values):
    """Whether values span so much that they need a logarithmic axis."""
    values = values[~np.isnan(values)]
    return len(values) > 0 and values.min() > 0.0 and values.max() > 20.0 * values.min()


def pyplot():
    """matplotlib, as late as possible."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('displays need matplotlib: pip install "skstein[plot]"') from error
    return plt
