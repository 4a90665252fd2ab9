"""Labels and classes: which there are, and the number of each."""

import numpy as np
from sklearn.utils import column_or_1d

from .._tools.warnings import warn


def stream_classes(classes, before):
    """The classes of a stream: given with its first rows, and the same ones ever after.

    Parameters
    ----------
    classes : array-like of shape (n_classes,) or None
        What `partial_fit` was given.
    before : ndarray of shape (n_classes,) or None
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
    >>> from skstein._input.class_labels import class_codes
    >>> class_codes(np.array(["b", "a", "b"]), np.array(["a", "b", "c"]), "Classifier")
    array([1, 0, 1])
    """
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs at least two classes in y, among the samples of positive weight; got "
            f"only one class: {classes.tolist()[0]!r}."
        )
    refuse_unknown(y, classes, "are not in classes")
    return np.searchsorted(classes, y)


def refuse_unknown(y, classes, what):
    """Refuse labels that are none of the classes, saying ``what`` they are; no text is a number.

    Raises
    ------
    ValueError
        If there are any.
    """
    try:
        y = np.unique(y)
    except TypeError:  # labels of several types have no order
        y = np.array(sorted(set(y.tolist()), key=repr), dtype=object)
    of_text = [any(isinstance(label, str) for label in some) for some in (y.tolist(), classes)]
    unknown = y if of_text[0] != of_text[1] else y[~np.isin(y, classes)]
    if len(unknown):
        raise ValueError(f"y holds classes that {what}: {unknown.tolist()}.")


def declared_order(categories, y):
    """The order of classes, as given, or as an ordered Categorical or Enum has it; None without.

    Raises
    ------
    ValueError
        If a class is given twice, or Dask does not know the order.
    """
    if len(getattr(y, "shape", ())) == 2 and y.shape[1] == 1 and hasattr(y, "columns"):
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y.to_series()
    dtype = getattr(y, "dtype", None)
    if categories is None and (getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum"):
        categories = y.dtype.categories
        if "__UNKNOWN_CATEGORIES__" in list(categories):  # which stands for them in Dask
            raise ValueError(
                "y is an ordered categorical whose categories Dask does not know, nor their order: "
                "give categories=[...] in their order (y.cat.as_known() may change it)."
            )
    if categories is None:
        return None
    order = column_or_1d(categories)
    if len(np.unique(order)) < len(order):
        raise ValueError(f"categories holds a class twice: {order.tolist()}.")
    return order


def classes_in_order(y, classes, order):
    """The classes, sorted, of which `order` says the order.

    Raises
    ------
    ValueError
        If a label is none of them, or a stream has other ``classes``, which may be None.
    """
    what = "are not in categories"
    if order.dtype.kind in "OU" and np.asarray(y).dtype.kind in "iu":
        what += " (give wrappers that number classes, such as VotingClassifier, a y of numbers)"
    refuse_unknown(y, order, what)
    if classes is not None and not np.array_equal(classes, np.unique(order)):
        raise ValueError(f"classes={classes.tolist()} are not the categories {order.tolist()}.")
    return np.unique(order)


def alphabetical_order(classes):
    """The sorted classes as they are, with a warning where they are text."""
    if len(classes) > 2 and any(isinstance(label, str) for label in classes):
        warn(
            f"y is text, and its alphabetical order {classes.tolist()} is taken for that of the "
            "classes: give categories=[...] in their order.",
            UserWarning,
        )
    return classes
