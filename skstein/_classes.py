"""Labels and classes: which there are, and the number of each."""

import numpy as np


def stream_classes(classes, before=None):
    """The classes of a stream: given with its first rows, and the same ones ever after.

    Parameters
    ----------
    classes : array-like of shape (n_classes,) or None
        What `partial_fit` was given.
    before : ndarray of shape (n_classes,), default=None
        Those of the rows before; None for the first rows.

    Returns
    -------
    ndarray of shape (n_classes,)
        In order.

    Raises
    ------
    ValueError
        If the first rows come without them, or they change.
    """
    if classes is None:
        if before is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        return before
    classes = np.unique(classes)
    if before is not None and not np.array_equal(classes, before):
        raise ValueError(
            f"classes={classes.tolist()} are not those of the rows before, {before.tolist()}."
        )
    return classes


def class_codes(y, classes, name):
    """The position of each label among the classes.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels of samples that have weight.
    classes : ndarray of shape (n_classes,)
        In order.
    name : str
        Of the estimator, for messages.

    Returns
    -------
    ndarray of int, shape (n,)

    Raises
    ------
    ValueError
        If there is one class only, or a label is none of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein._classes import class_codes
    >>> class_codes(np.array(["b", "a", "b"]), np.array(["a", "b", "c"]), "Classifier")
    array([1, 0, 1])
    """
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs at least two classes in y, among the samples of positive weight; got "
            f"only one class: {classes.tolist()[0]!r}."
        )
    present, codes = np.unique(y, return_inverse=True)
    unknown = np.setdiff1d(present, classes)
    if len(unknown):
        raise ValueError(f"y holds classes that are not in classes: {unknown.tolist()}.")
    return np.searchsorted(classes, present)[codes]
