"""Linear models of the logarithm of a mean: what those of counts and of amounts share."""

import numpy as np

from ..shards.dask_collections import lazy_on_collections
from .regressor import GeneralizedLinearRegressor


class LogLinkRegressor(GeneralizedLinearRegressor):
    """Base class of linear models of the logarithm of the mean."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _summaries(self, posterior):
        values = posterior.weights @ np.exp(self._extra(posterior.particles))
        names = [f"{name.removeprefix('log_')}_" for name in self._outcome.extra]
        return super()._summaries(posterior) | dict(zip(names, values.tolist(), strict=True))

    def score(self, X, y, sample_weight=None):
        """Share of the deviance that the predicted means explain, D^2.

        It is that of `sklearn.linear_model.PoissonRegressor` and `GammaRegressor`, a generalisation
        of R^2: 1 is a perfect prediction, 0 that of the average of ``y``. Models of counts all
        have the deviance of Poisson, so that they compare. Of distributions, not of means alone,
        `log_predictive` is the score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        return self._share_explained(X, y, sample_weight, self._outcome.deviance)


class CountRegressor(LogLinkRegressor):
    """Base class of linear models of counts."""

    @lazy_on_collections
    def predict_pmf(self, X, counts):
        """Probability of each of some counts, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        counts : array-like of int, of shape (n_counts,)
            Whole numbers. Probabilities of ``range(10)`` add up to that of a count of at most 9.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_counts)

        Raises
        ------
        ValueError
            If ``counts`` are not whole numbers from 0 on.
        """
        counts = np.atleast_1d(np.asarray(counts, dtype=float))
        whole = np.isfinite(counts) & (counts >= 0.0) & (counts == np.floor(counts))
        if counts.ndim > 1 or not counts.size or not whole.all():
            raise ValueError("counts must be whole numbers from 0 on, in one dimension.")
        if not self._integrates():
            return self._over_rows(X, lambda heads, w: self._outcome.pmf(heads, w, counts))
        table = np.broadcast_to(counts, (self._read(X).shape[0], len(counts)))
        return np.exp(self._log_densities(X, table))
