"""Linear models of classes, for any link."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._input.class_labels import class_codes, stream_classes
from .._input.validation import LARGEST, StrOptions, available_if, validated
from .._predictions.methods import BayesianClassifierMixin
from .base import BayesianLinearModel, takes_more_rows
from .predictions import LinearPredictions


@dataclass(eq=False, repr=False)
class GeneralizedLinearClassifier(LinearPredictions, BayesianClassifierMixin, BayesianLinearModel):
    """What the linear classifiers share; a subclass says in ``_outcome`` how classes are linked."""

    _parameter_constraints = {
        **BayesianLinearModel._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _instead = {"C": "prior=Normal(scale=sqrt(C)), the prior of variance C"}
    _classes_known = None  # of a stream, if a parameter names them before the first rows

    _: KW_ONLY
    class_weight: Any = None

    @available_if(takes_more_rows)
    @validated
    def partial_fit(self, X, y, classes=None, sample_weight=None, offset=None):
        """Learn from more rows: a stream of them, each once, in chunks of any size.

        The posterior is that of all rows so far, up to sampling error; 10,000 rows at most are
        kept, until a quadratic stands for them (:doc:`/streaming`). The first call is a fit, and
        its standardisation stays. After `fit`, the rows of the fit are the first ones; a later
        `fit` starts again. Needs ``inference="pmd"``, whose ``n_total`` allows more passes over the
        same rows; rows of weight zero count as rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream; required by the first call, unless it follows a `fit` or the
            parameter ``categories`` has them.
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
            If a parameter, X, y, the weights or the offset are invalid, the classes are not given
            or change, ``class_weight="balanced"``, the rows go beyond ``n_total``, or priors,
            standardisation or offset are not those of the rows before.

        Warns
        -----
        ConvergenceWarning
            If the first rows are too few, or the posterior is likely to be wrong.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from skstein import BayesianLogisticRegression
        >>> X, y = make_classification(3000, 4, random_state=0)
        >>> clf = BayesianLogisticRegression("pmd", random_state=0)
        >>> for start in range(0, 3000, 1000):
        ...     rows = slice(start, start + 1000)
        ...     clf = clf.partial_fit(X[rows], y[rows], classes=[0, 1])
        >>> clf.posterior_.diagnostics["n_seen"]
        3000
        """
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs all rows at once; give partial_fit the weights as a '
                "dict."
            )
        before = self.classes_ if hasattr(self, "posterior_") else None
        if classes is None and before is None:
            classes = self._classes_known
        return self._fit(X, y, sample_weight, True, stream_classes(classes, before), offset)

    def _checked(self, y):
        check_classification_targets(y)
        return y

    @staticmethod
    def _survey(y, sample_weight):
        present = np.unique(y)
        return present, np.bincount(np.searchsorted(present, y), sample_weight)

    def _learn_outcomes(self, present, totals, classes):
        classes = present if classes is None else classes
        class_codes(present, classes, type(self).__name__)
        self.classes_ = classes
        weighed = np.isin(classes, present) | (self.class_weight != "balanced")
        class_weight = np.ones(len(classes))
        class_weight[weighed] = compute_class_weight(
            self.class_weight, classes=classes[weighed], y=present, sample_weight=totals
        )
        if not np.all((class_weight > 0.0) & (class_weight <= LARGEST)):
            raise ValueError(
                f"class_weight must be positive and at most {LARGEST:g}, got {self.class_weight!r}."
            )
        self._class_weight = class_weight
        absent = np.setdiff1d(classes, present).tolist()
        problem = f"no sample of classes {absent}" if absent else ""
        return partial(_encoded, classes, class_weight), problem

    def _target_options(self, scaling, sample_weight):
        return {**super()._target_options(scaling, sample_weight), "class_names": self.classes_}


def _encoded(classes, class_weight, y, sample_weight, offset):
    codes = np.searchsorted(classes, y)
    if np.any(class_weight != 1.0):
        sample_weight = sample_weight * class_weight[codes]
    return codes, sample_weight
