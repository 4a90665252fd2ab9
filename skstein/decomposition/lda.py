"""Latent Dirichlet allocation by Particle Mirror Descent.

The estimator: scikit-learn's parameters, validation, epochs, and what it reports of the posterior.
The method is in `skstein.decomposition.topics`.
"""

from copy import copy, deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import digamma, logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, check_non_negative

from .._input.validation import Interval, StrOptions, validate_data, validated
from .._tools.parallel import make_map
from .._tools.random import as_generator
from .._tools.versioned_pickles import VersionedPickles
from .._tools.warnings import warn
from ..inference._building_blocks.mirror_steps import LEAST_POWER
from .topics import TopicParticles, TopicPosterior, document_blocks, log_bounds, proportions

__all__ = ["LatentDirichletAllocation", "TopicPosterior"]

_NEGLIGIBLE = 1e-12  # weight of a particle that is left out of predictions
_MOST_WORDS = 1e15  # whole numbers beyond are not exact in float64


@dataclass(eq=False, repr=False)
class LatentDirichletAllocation(
    VersionedPickles, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    r"""Latent Dirichlet allocation by Particle Mirror Descent.

    A replacement for :class:`sklearn.decomposition.LatentDirichletAllocation` with a posterior for
    the topics. Parameters that both have mean the same; two defaults differ,
    ``learning_method="online"`` (there "batch") and ``learning_offset=1`` (there 10). Counts stay
    sparse. :doc:`/methods/lda` has the formulas, and when not to trust it.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics.
    doc_topic_prior : float, default=None
        Dirichlet parameter of a document's topics (alpha), above 0; ``1 / n_components`` by
        default.
    topic_word_prior : float, default=None
        Dirichlet parameter of a topic's words (beta), above 0; ``1 / n_components`` by default.
    learning_method : {"online", "batch"}, default="online"
        "online": steps of size ``(learning_offset + t) ** -learning_decay``, t = 1, 2, ..., on
        batches. "batch": steps of size 1 on all documents.
    learning_decay : float, default=0.7
        How fast the steps of "online" shrink, in (0.5, 1] for convergence.
    learning_offset : float, default=1.0
        Shortens the first steps of "online" if larger (scikit-learn has 10).
    max_iter : int, default=10
        Epochs of mirror descent: passes over the documents.
    batch_size : int, default=128
        Documents in a step of "online".
    evaluate_every : int, default=-1
        Evaluate the perplexity of X after every so many epochs; never if not positive.
    total_samples : float, default=1e6
        Number of documents that the calls of `partial_fit` are a sample of. The posterior is that
        of so many documents: choose it truthfully if its standard deviations matter.
    perp_tol : float, default=0.1
        Stop when an evaluated perplexity differs by less from the one before.
    mean_change_tol : float, default=1e-3
        A document's topics are settled when a round changes them by less than this, in words per
        topic on average.
    max_doc_update_iter : int, default=100
        Most rounds for a document's topics in `transform`, `score` and `perplexity`.
    n_particles : int, default=4
        Particles, over which predictions are averaged. Each is a run of its own until the last
        epoch has ended; work grows with their number.
    n_sweeps : int, default=40
        Gibbs sweeps over all documents at the end of `fit`; ten cost about as much as an epoch.
        Topics predict well without them, but may be off by several posterior standard deviations
        where they overlap. Long documents and rare words want more, 100 or 300, if intervals
        matter.
    n_snapshots : int, default=4
        Draws of each particle that ``posterior_`` keeps, evenly spaced over the sweeps; at most
        ``n_sweeps``.
    n_jobs : int, default=None
        Number of threads; the result does not depend on it.
    verbose : int, default=0
        Print a line for every epoch.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Pseudo-counts of words in topics, averaged over the posterior. Divided by the sums of its
        rows it gives the topics.
    exp_dirichlet_component_ : ndarray of shape (n_components, n_features)
        Exponential of the posterior mean of the logarithm of the topics.
    posterior_ : TopicPosterior
        Particles and weights, with means, standard deviations, quantiles and draws of the topics.
    posterior_power_ : float
        Power of the likelihood that mirror descent has reached, ``1 - prod(1 - g)``.
    doc_topic_prior_, topic_word_prior_ : float
        The priors in use.
    bound_ : float
        Perplexity of X at the end of `fit`; nan if X has no words.
    n_batch_iter_ : int
        Steps of mirror descent.
    n_iter_ : int
        Epochs of mirror descent.
    random_state_ : numpy.random.Generator
        What `partial_fit` draws from.
    n_features_in_ : int
        Number of words.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The words, if X names them.

    Raises
    ------
    ValueError
        If X has negative, non-finite or astronomically large entries, or a parameter is wrong.

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : Variational inference.

    Notes
    -----
    Topics have no order: another seed numbers them differently, and may find others. Particles
    that were resampled from one ancestor agree on the numbering; those that were not are matched,
    topic by topic, to the first. With more than a few documents one ancestor is left. The posterior
    then describes the neighbourhood of one mode, the best that a particle has found, and does not
    tell how different the topics of other modes are.

    Draws of `partial_fit` have no sweeps: their standard deviations are too small.

    References
    ----------
    Dai, He, Dai & Song (2016), "Provable Bayesian inference via particle mirror descent"
    (arXiv:1506.03101), appendix F.2.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from skstein import LatentDirichletAllocation
    >>> texts = ["cats and dogs", "dogs chase cats", "stocks and bonds", "bonds beat stocks"]
    >>> X = CountVectorizer(stop_words=["and"]).fit_transform(5 * texts)
    >>> lda = LatentDirichletAllocation(n_components=2, random_state=0).fit(X)
    >>> lda.transform(X[:4]).argmax(axis=1).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "doc_topic_prior": [None, Interval(Real, 1e-10, 1e6, closed="both")],
        "topic_word_prior": [None, Interval(Real, 1e-10, 1e6, closed="both")],
        "learning_method": [StrOptions({"batch", "online"})],
        "learning_decay": [Interval(Real, 0, 1, closed="both")],
        "learning_offset": [Interval(Real, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "evaluate_every": [Integral],
        "total_samples": [Interval(Real, 0, _MOST_WORDS, closed="right")],
        "perp_tol": [Interval(Real, 0, None, closed="left")],
        "mean_change_tol": [Interval(Real, 0, None, closed="left")],
        "max_doc_update_iter": [Interval(Integral, 1, None, closed="left")],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "n_sweeps": [Interval(Integral, 0, None, closed="left")],
        "n_snapshots": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    n_components: int = 10
    _: KW_ONLY
    doc_topic_prior: float | None = None
    topic_word_prior: float | None = None
    learning_method: str = "online"
    learning_decay: float = 0.7
    learning_offset: float = 1.0
    max_iter: int = 10
    batch_size: int = 128
    evaluate_every: int = -1
    total_samples: float = 1000000.0
    perp_tol: float = 0.1
    mean_change_tol: float = 0.001
    max_doc_update_iter: int = 100
    n_particles: int = 4
    n_sweeps: int = 40
    n_snapshots: int = 4
    n_jobs: int | None = None
    verbose: int = 0
    random_state: Any = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return len(self.components_)

    @property
    def exp_dirichlet_component_(self):
        check_is_fitted(self, "posterior_")
        particles, weights = self.posterior_.particles, self.posterior_.weights
        logs = digamma(particles) - digamma(particles.sum(axis=2, keepdims=True))
        return np.exp(np.tensordot(weights, logs, 1)).astype(self.components_.dtype)

    @validated
    def fit(self, X, y=None):
        """Find the posterior of the topics.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents; they need not be whole numbers.
        y : None
            Ignored.

        Returns
        -------
        self : LatentDirichletAllocation

        Warns
        -----
        ConvergenceWarning
            If mirror descent and sweeps reached less than a power of 0.95 of the likelihood, so
            that pseudo-counts are too small. If sweeps were too few for intervals, the methods of
            ``posterior_`` that give them warn.
        """
        X, dtype = self._checked(X, "fit", reset=True)
        n = X.shape[0]
        particles = self._start(X.shape[1])
        map_pieces = make_map(self.n_jobs)
        last = np.inf
        for epoch in range(1, self.max_iter + 1):
            batches = [np.arange(n)]
            if self.learning_method == "online":
                order = self.random_state_.permutation(n)
                batches = [order[batch] for batch in gen_batches(n, self.batch_size)]
            for rows in batches:
                step_size = self._next_step_size(self.learning_method)
                particles.step(X[rows], n / len(rows), step_size, self.random_state_, map_pieces)
            self.n_iter_ = epoch
            told, before = "", last
            if self.evaluate_every > 0 and epoch % self.evaluate_every == 0:
                last = self._perplexity(X, particles)
                told = f", perplexity {last:.4f}"
            if self.verbose:
                print(f"[{type(self).__name__}] epoch {epoch} of {self.max_iter}{told}")
            if told and abs(before - last) < self.perp_tol:
                break
        if self.n_sweeps:
            posterior = particles.sweep(
                X, self.n_sweeps, self.n_snapshots, self.random_state_, map_pieces
            )
        else:
            posterior = particles.posterior()
        if particles.power < LEAST_POWER:
            warn(
                f"less than a power of {LEAST_POWER:g} of the likelihood was reached, so that "
                "pseudo-counts are too small: raise max_iter or n_sweeps."
            )
        self._finish(particles, posterior, dtype)
        self.bound_ = self._perplexity(X, particles)
        return self

    @validated
    def partial_fit(self, X, y=None):
        """Take more documents into account, in steps of mirror descent on batches of them.

        Documents are not kept, so that there are no final sweeps, and those given twice count
        twice. How many there are in all is ``total_samples``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.
        y : None
            Ignored.

        Returns
        -------
        self : LatentDirichletAllocation
        """
        first = not hasattr(self, "posterior_")
        X, dtype = self._checked(X, "partial_fit", reset=first)
        if first:
            particles = self._start(X.shape[1])
        else:
            particles, dtype = copy(self._particles), self.components_.dtype
            self.random_state_ = deepcopy(self.random_state_)
        map_pieces = make_map(self.n_jobs)
        for rows in gen_batches(X.shape[0], self.batch_size):
            batch = X[rows]
            ratio = self.total_samples / batch.shape[0]
            step_size = self._next_step_size("online")
            particles.step(batch, ratio, step_size, self.random_state_, map_pieces)
        self._finish(particles, particles.posterior(), dtype)
        return self

    def transform(self, X, *, normalize=True):
        """Topics of documents, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.
        normalize : bool, default=True
            Return proportions; else the expected count of words in each topic, plus the prior.

        Returns
        -------
        doc_topics : ndarray of shape (n_samples, n_components)
        """
        X, _ = self._checked(X, "transform")
        by_particle, weights = self._over_particles(X, proportions, self._particles)
        doc_topics = self.doc_topic_prior_ + np.tensordot(weights, by_particle, 1)
        if normalize:
            doc_topics /= doc_topics.sum(axis=1, keepdims=True)
        return doc_topics.astype(self.components_.dtype, copy=False)

    def fit_transform(self, X, y=None, *, normalize=True):
        """Fit, and return the topics of the documents fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.
        y : None
            Ignored.
        normalize : bool, default=True
            As in `transform`.

        Returns
        -------
        doc_topics : ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, y).transform(X, normalize=normalize)

    def score(self, X, y=None):
        """Lower bound of the log probability of documents under the posterior.

        A document's proportions of topics are integrated out by variational inference, the topics
        by averaging over particles. scikit-learn's `score` also subtracts the divergence of the
        topics' posterior from their prior, which is a matter of the training data, and is the lower
        the fewer documents it is given.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Natural logarithm, summed over documents.
        """
        X, _ = self._checked(X, "score")
        return self._score(X, self._particles)

    def perplexity(self, X, sub_sampling=False):
        """Exponential of minus the score per word.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.
        sub_sampling : bool, default=False
            Accepted for compatibility. It makes no difference, since this score is in proportion to
            the number of documents.

        Returns
        -------
        perplexity : float
            nan if X has no words.
        """
        X, _ = self._checked(X, "perplexity")
        return self._perplexity(X, self._particles)

    def _perplexity(self, X, particles):
        if not (n_words := X.sum()):
            return np.nan
        with np.errstate(over="ignore"):  # of counts that are tiny fractions
            return float(np.exp(-self._score(X, particles) / n_words))

    def _score(self, X, particles):
        bounds, weights = self._over_particles(X, log_bounds, particles)
        return float(logsumexp(bounds + np.log(weights)[:, None], axis=0).sum())

    def _over_particles(self, X, function, particles):
        """``function`` of all particles and documents, (m, n_samples, ...), and the weights (m,).

        Particles of negligible weight are left out.
        """
        kept = np.flatnonzero(particles.weights > _NEGLIGIBLE)
        blocks = document_blocks(X)
        pieces = [(particles.topics[i], block) for i in kept for block in blocks]
        parts = make_map(self.n_jobs)(partial(function, self._settings), *zip(*pieces, strict=True))
        by_particle = np.concatenate(parts)
        return by_particle.reshape(len(kept), -1, *by_particle.shape[1:]), particles.weights[kept]

    @property
    def _settings(self):
        return self.doc_topic_prior_, self.max_doc_update_iter, self.mean_change_tol

    def _checked(self, X, method, reset=False):
        """Counts as a canonical CSR array of float64, and the type to report in."""
        if not reset:
            check_is_fitted(self)
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_non_negative(X, f"{type(self).__name__}.{method}")
        counts = sparse.csr_array(X, dtype=np.float64, copy=True)
        counts.sum_duplicates()
        counts.eliminate_zeros()
        if counts.data.max(initial=0.0) * counts.nnz > _MOST_WORDS:
            raise ValueError(
                f"X passed to {type(self).__name__}.{method} has counts up to "
                f"{counts.data.max():.1e}, too many to be added up: divide X by a constant."
            )
        return counts, X.dtype

    def _start(self, n_features):
        self.random_state_ = as_generator(self.random_state)
        self.n_iter_ = self.n_batch_iter_ = 0
        inverse = 1.0 / self.n_components
        self.doc_topic_prior_ = inverse if self.doc_topic_prior is None else self.doc_topic_prior
        self.topic_word_prior_ = inverse if self.topic_word_prior is None else self.topic_word_prior
        shape = (self.n_particles, self.n_components, n_features)
        return TopicParticles(shape, self.topic_word_prior_, self._settings)

    def _next_step_size(self, learning_method):
        self.n_batch_iter_ += 1
        if learning_method == "batch":
            return 1.0
        return (self.learning_offset + self.n_batch_iter_) ** -self.learning_decay

    def _finish(self, particles, posterior, dtype):
        self._particles, self.posterior_ = particles, posterior
        self.components_ = np.tensordot(posterior.weights, posterior.particles, 1).astype(dtype)
        self.posterior_power_ = particles.power
