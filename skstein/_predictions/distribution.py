"""The posterior predictive distribution of an estimator at some rows, by its own methods."""

import numpy as np

from .._input.validation import check_level


class Predictive:
    """Posterior predictive distribution at the rows of X, made by `predictive`.

    For a classifier it is the distribution of each class's probability over the posterior; for a
    regressor, that of the outcome, in the units of the y that the outermost object was fitted on.
    Nothing is averaged over the posterior before a method is called, no result is kept, and only
    `sample_predictive` and `sample_mean` draw random numbers.

    Attributes
    ----------
    outcome : Outcome
        What is observed, before any transformation.
    n_outcomes : int
        Outcomes per row.

    See Also
    --------
    skstein.predictive : Makes it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skstein import BayesianLogisticRegression, predictive
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = BayesianLogisticRegression(random_state=0).fit(X, y)
    >>> prediction = predictive(clf, X[:5])
    >>> prediction.mean().shape, prediction.interval(0.9).shape
    ((5, 3), (5, 3, 2))
    >>> prediction
    <Predictive of 3 classes for 5 rows>
    >>> prediction.sample_predictive(4, random_state=0).shape
    (5, 4)
    """

    center = "mean"  # of a particle's outcome, or "median" where there is no mean

    def __init__(self, estimator, X):
        self.estimator = estimator
        self.X = X

    def __repr__(self):
        n_rows = next(iter(np.shape(self.X)), 0)
        if self.outcome.has_classes:
            return f"<Predictive of {len(self.estimator.classes_)} classes for {n_rows} rows>"
        what = "an outcome" if self.n_outcomes == 1 else f"{self.n_outcomes} outcomes"
        return f"<Predictive of {what}, in units of y, for {n_rows} rows>"

    @property
    def outcome(self):
        return self.estimator._outcome

    @property
    def n_outcomes(self):
        return 1 if self.outcome.has_classes else self.estimator._n_outputs

    def mean(self):
        """Mean over the posterior.

        Returns
        -------
        mean : ndarray of shape (n, n_classes) or (n,)
            Class probabilities in the order of ``classes_``; or outcomes, in units of y, nan
            where more than about one outcome in a thousand has no inverse transform, where it
            grows without bound, as that of a power may, so that there is no mean, or where it
            rests on one particle, which has a quarter of the mean distance from it.
        """
        estimator = self.estimator
        return (estimator.predict_proba if self.outcome.has_classes else estimator.predict)(self.X)

    def std(self):
        """Standard deviation: over the posterior for a class probability, else of the outcome.

        Returns
        -------
        std : ndarray of shape (n, n_classes) or (n,)
            Of the probability of each class; or of the outcome, noise included, in units of y, nan
            where `mean` is, or one particle has half of the variance.
        """
        if self.outcome.has_classes:
            return self.estimator._proba_std(self.X)
        return self.estimator.predict(self.X, return_std=True)[1]

    def quantiles(self, q):
        """Quantiles.

        Parameters
        ----------
        q : float or array-like of shape (n_quantiles,)
            From 0 to 1; a single number gives one column.

        Returns
        -------
        quantiles : ndarray of shape (n, n_classes, n_quantiles) or (n, n_quantiles)
            Of the probability of each class; or of the outcome, in units of y.

        Raises
        ------
        ValueError
            If ``q`` is outside [0, 1].
        """
        return self.estimator.predict_quantiles(self.X, q)

    def interval(self, level=0.9):
        """Central credible interval: of the probability of each class, or of the outcome.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the interval, from 0 to 1; half of the rest lies on either side.

        Returns
        -------
        interval : ndarray of shape (n, n_classes, 2) or (n, 2)
            Lower and upper end. Classes are in the order of ``estimator.classes_``.

        Raises
        ------
        ValueError
            If ``level`` is outside [0, 1].
        """
        return self.quantiles(check_level(level))

    def log_predictive(self, y):
        """Logarithm of the density, or probability, of each observed outcome: the log score.

        Parameters
        ----------
        y : array-like of shape (n,), or (n, n_targets) for several outcomes
            What was observed at the rows of X: classes, or outcomes in units of y.

        Returns
        -------
        log_predictive : ndarray of shape (n,)
            Natural logarithm of a density per unit of y, or of a probability.

        Raises
        ------
        ValueError
            If ``y`` does not fit X or cannot be observed. If the outcome was transformed, and has
            no density at ``y``: the inverse is not monotone, does not reach ``y``, or is flat
            there.
        """
        return self.estimator.log_predictive(self.X, y)

    def crps(self, y):
        """Continuous ranked probability score of each observed outcome; smaller is better.

        Parameters
        ----------
        y : array-like of shape (n,), or (n, n_targets) for several outcomes
            What was observed at the rows of X.

        Returns
        -------
        crps : ndarray of shape (n,) or (n, n_targets)
            In units of y. Of a transformed outcome nan where the inverse transform is not defined
            for a thousandth of it, or where what is six normal scores out decides: heavy tails may
            make it infinite.

        Raises
        ------
        ValueError
            If ``y`` does not fit X or cannot be observed.
        TypeError
            If outcomes are classes.
        """
        if self.outcome.has_classes:
            raise TypeError(
                "the CRPS is of an outcome that is a number, and "
                f"{type(self.estimator).__name__} predicts classes: use log_predictive."
            )
        return self.estimator._scores(self.X, y, self.outcome.crps)

    def sample_mean(self, n_samples=1, random_state=None):
        """Draw means of the outcome, or class probabilities, from the posterior: without noise.

        Each column comes from one particle, so it is a joint draw for all rows.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            An int makes the draws reproducible.

        Returns
        -------
        means : ndarray of shape (n, n_samples) or (n, n_classes, n_samples)
            In units of y, nan where the outcome often has no inverse transform; or probabilities.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        return self.estimator.sample_mean(self.X, n_samples, random_state)

    def sample_predictive(self, n_samples=1, random_state=None):
        """Draw labels or outcomes.

        Each column comes from one particle, so it is a joint draw for all rows.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            An int makes the draws reproducible.

        Returns
        -------
        samples : ndarray of shape (n, n_samples)
            Labels of ``classes_``; or outcomes, in units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        return self.estimator.sample_predictive(self.X, n_samples, random_state)

    def uncertainty(self):
        """Uncertainty of the prediction, split into noise and ignorance of the model.

        Returns
        -------
        uncertainty : :class:`~sklearn.utils.Bunch`
            ``total``, ``aleatoric`` (the noise) and ``epistemic`` (what more data could take away),
            ndarrays of shape (n,); the first is the sum of the others. Entropies of the label, in
            nats; or variances of the outcome, in squared units of y, nan where `mean` is.
        """
        return self.estimator.predict_uncertainty(self.X)

    def _by_particle(self):
        """Yield (means, weights) of blocks of rows: what each particle expects.

        Means are class probabilities, of shape (n, m, n_classes), or means of the outcome, (n, m);
        or medians, if `center` says so.
        """
        self.estimator._warn_of_means()
        for _, heads, weights in self.estimator._common_heads(self.X):
            yield self.outcome.expected(heads), weights
