"""What is known before, where it needs other coordinates than those that rows are fitted in."""

import numpy as np

from ..targets import NormalPriorTarget


def under_joint_prior(target, prior, to_original, classes):
    """The target under a prior of all coordinates, which is on the scale of the raw features.

    Parameters
    ----------
    target : RegressionTarget
    prior : MultivariateNormal
    to_original : Affine
        From the target's coordinates to those of the raw features.
    classes : ndarray of shape (n_classes,) or None

    Raises
    ------
    ValueError
        If the prior is of other coordinates or classes.
    """
    loc, cov = prior.moments()
    _require_same("coordinates", prior.names, target.names)
    _require_same("classes", prior.classes, classes)
    if len(loc) != target.dim:
        raise ValueError(
            f"the prior is of {len(loc)} coordinates and this fit has {target.dim}, which are "
            f"{_listed(target.names)}."
        )
    half = to_original.inverse_matrix @ np.linalg.cholesky(cov)
    return NormalPriorTarget(target, to_original.inverse(loc[None])[0], half @ half.T)


def _require_same(what, of_prior, of_fit):
    if of_prior is None or np.array_equal(list(map(str, of_prior)), list(map(str, of_fit))):
        return
    raise ValueError(
        f"the prior's {what} are {_listed(of_prior)}, and those of this fit {_listed(of_fit)}: fit "
        "the same model on the same features, or use a prior of another kind."
    )


def _listed(names, most=6):
    names = list(map(str, [] if names is None else names))
    return ", ".join(names[:most]) + (f", ... ({len(names)})" if len(names) > most else "")
