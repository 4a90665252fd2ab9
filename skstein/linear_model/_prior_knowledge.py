"""Prior knowledge that needs other coordinates than the likelihood: signs, and joint priors."""

import numpy as np

from .. import targets


def signs_of(positive, n_features, names=None):
    """The parameter ``positive`` as one sign per feature: 1, -1, or 0 for either.

    Parameters
    ----------
    positive : bool, array-like of shape (n_features,), dict of str to int, or Series
    n_features : int
    names : sequence of str, default=None

    Returns
    -------
    ndarray of shape (n_features,)

    Raises
    ------
    ValueError
        If a sign is another number, their number is wrong, or a name is not a feature.
    """
    if isinstance(positive, bool | np.bool_):
        return np.full(n_features, float(positive))
    if hasattr(positive, "to_dict"):  # a series of pandas, which has names or positions
        by_name = positive.to_dict()
        positive = by_name if all(isinstance(name, str) for name in by_name) else list(positive)
    if isinstance(positive, dict):
        known = [] if names is None else list(names)
        if unknown := [name for name in positive if name not in known]:
            raise ValueError(
                f"positive has signs of {_listed(unknown)}, which are not features of X; they are "
                + (f"{_listed(known)}." if known else "without names: give a list of signs.")
            )
        positive = [positive.get(name, 0) for name in known]
    signs = np.asarray(positive)
    if signs.shape != (n_features,) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(
            f"positive must be True, False, or 1, -1 or 0 for each of {n_features} features; got "
            f"{positive!r}."
        )
    return signs.astype(float)


def under_joint_prior(target, prior, to_original, classes):
    """The target under a prior of all coordinates, which is on the scale of the raw features.

    Parameters
    ----------
    target : RegressionTarget
    prior : MultivariateNormal
    to_original : bijection
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
    if not isinstance(to_original, targets.Affine):
        raise ValueError(
            f"{type(prior).__name__} cannot be the prior of an outcome whose own coordinates are "
            'reported on another scale, as cut points are: fit all rows, or a stream by "pmd".'
        )
    half = to_original.inverse_matrix @ np.linalg.cholesky(cov)
    return targets.NormalPriorTarget(target, to_original.inverse(loc[None])[0], half @ half.T)


def _require_same(what, of_prior, of_fit):
    if of_prior is None or np.array_equal(np.array(of_prior, str), np.array(of_fit, str)):
        return
    raise ValueError(
        f"the prior's {what} are {_listed(of_prior)}, and those of this fit {_listed(of_fit)}: fit "
        "the same model on the same features, or use a prior of another kind."
    )


def _listed(names):
    names = list(map(str, ["none"] if names is None else names))
    return ", ".join(names[:6]) + (f", ... ({len(names)})" if len(names) > 6 else "")
