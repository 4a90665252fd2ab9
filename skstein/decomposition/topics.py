"""Topics as weighted particles: what Particle Mirror Descent does to them, and their posterior.

A topic is a distribution over words, a document a mixture of topics. A particle holds the posterior
of the topics given the topic of every word, which is Dirichlet: its parameters, the pseudo-counts
``B`` of each word in each topic, are all that is kept of the documents. A step of mirror descent on
b of D documents is, for each particle,

    B' = (1 - g) B + g (beta + D / b * counts),        log w' = (1 - g) log w + g D / b log p,

where ``counts`` come from Gibbs sampling of those documents under the particle's mean topics, and
``p`` is the probability of the documents under them. After Dai, He, Dai & Song (2016), "Provable
Bayesian inference via particle mirror descent" (arXiv:1506.03101), appendix F.2. What differs:

- counts are averages of the Gibbs conditionals over a few sweeps, not one draw;
- the paper weighs a particle by the probability of words and drawn topics together, which is right
  for topics drawn from the prior, not for those of a sampler that looks at the words. Here topics
  are summed out: ``log p`` is the documents' variational lower bound;
- particles stay apart until the last step, because the weights of the first epochs do not tell
  which particle will end in the better mode;
- then they are resampled, and all documents are swept by a Gibbs sampler that leaves the posterior
  invariant. That takes off the bias of the steps, which may be several posterior standard
  deviations, and spreads the copies of one particle, which share its numbering of the topics.
"""

from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import betainc
from sklearn.utils import gen_batches

from .. import _jit
from .._input.validation import check_count, check_fractions
from .._tools.random import as_generator
from .._tools.warnings import warn
from ..inference._building_blocks.mirror_steps import WeightedParticles, mirror_step

_N_BURN, _N_KEPT = 5, 5  # Gibbs sweeps of a document in a mirror step
_N_ROUNDS = 10  # for the bound in a mirror step: the last digits would not change its verdict
# Of topics between the second and last quarter of the sweeps, in standard deviations: 0.1 to 0.3
# where 90 % intervals held 88 to 92 % of the truth, 0.5 to 1.6 where they held less, down to 45 %.
_MOST_DRIFT = 0.4
_BLOCK = 512  # documents in a piece of work; never a matter of the number of jobs


class TopicParticles:
    """Weighted particles of topics, and what mirror descent does to them.

    Methods replace what they change, so that a shallow copy keeps its state.

    Parameters
    ----------
    shape : (n_particles, n_topics, n_words)
    beta : float
        Prior of the words in a topic, which all particles start from.
    settings : (float, int, float)
        Prior of the topics in a document, most rounds for its topics, and their tolerance.
    """

    def __init__(self, shape, beta, settings):
        self.topics = np.full(shape, float(beta))
        self.beta, self.settings = beta, settings
        self.power = 0.0
        self._weigh_equally()

    @property
    def weights(self):
        return self.state.weights

    def posterior(self):
        match_topics(self.topics)
        return TopicPosterior(self.topics, self.weights, settled=False)

    def step(self, X, ratio, step_size, rng, map_pieces):
        """A step of mirror descent on documents that each stand for ``ratio`` documents."""
        blocks = document_blocks(X)
        counts, log_bounds, _ = self._over_pieces(_assigned, self.topics, blocks, rng, map_pieces)
        evidence = ratio * np.reshape(log_bounds, (len(self.topics), -1)).sum(axis=1)
        target = self.beta + ratio * self._summed(blocks, counts)
        self.topics = (1.0 - step_size) * self.topics + step_size * target
        # What `mirror_step` moves are weights: where the particles are is told by their number.
        self.state = copy(self.state)
        mirror_step(self.state, lambda numbers: evidence, step_size, rng)
        self.power += (1.0 - self.power) * step_size

    def sweep(self, X, n_sweeps, n_snapshots, rng, map_pieces):
        """Resample, and draw topics and the topics of all words in turn, given each other.

        Returns
        -------
        TopicPosterior
            Of the particles after ``n_snapshots`` of the sweeps, evenly spaced up to the last.
        """
        self.state.resample(len(self.topics), rng)
        self.topics = self.topics[self.state.theta[:, 0].astype(int)]
        match_topics(self.topics)
        self._weigh_equally()
        blocks = document_blocks(X)
        *_, assigned = self._over_pieces(_assigned, self.topics, blocks, rng, map_pieces)
        kept = set(np.linspace(0, n_sweeps, n_snapshots + 1)[1:].astype(int))
        snapshots, halves = [], np.full((2, *self.topics.shape), self.beta)
        for sweep in range(1, n_sweeps + 1):
            drawn = map_pieces(_dirichlet, self.topics, rng.spawn(len(self.topics)))
            counts, assigned = self._over_pieces(_redrawn, drawn, blocks, rng, map_pieces, assigned)
            self.topics = self.beta + self._summed(blocks, counts)
            if sweep in kept:
                snapshots.append(self.topics)
            half, late = divmod(4 * (sweep - 1) // n_sweeps, 2)
            halves[half] += late * self.topics
        self.power = 1.0
        last = TopicPosterior(self.topics, self.weights)
        before, after = _normalised(halves).mean(axis=1)
        moved = (after - before) / (last.std() + np.finfo(float).tiny)
        drift = np.average(moved**2, axis=1, weights=last.mean()) ** 0.5
        pooled = np.concatenate(snapshots)
        match_topics(pooled)
        self.topics = pooled[-len(self.topics) :]
        settled = (drift < _MOST_DRIFT) & (n_sweeps >= 4) & (X.max() <= _jit.lda.MOST_COPIES)
        return TopicPosterior(pooled, np.full(len(pooled), 1.0 / len(pooled)), settled)

    def _weigh_equally(self):
        m = len(self.topics)
        self.state = WeightedParticles(np.arange(m)[:, None], np.zeros(m), resampled=False)

    def _over_pieces(self, function, topics, blocks, rng, map_pieces, *arguments):
        """What ``function`` gives for each particle and block of documents, which have seeds."""
        seeds = rng.integers(0, 2**64, size=(len(topics), blocks[-1].rows.stop), dtype=np.uint64)
        pieces = [
            (topics[i], block, seeds[i, block.rows]) for i in range(len(topics)) for block in blocks
        ]
        parts = *zip(*pieces, strict=True), *arguments
        return zip(*map_pieces(partial(function, self.settings), *parts), strict=True)

    def _summed(self, blocks, counts):
        """Counts of the pieces of `_over_pieces`, in their order, as an array like the topics."""
        total: Any = np.zeros(self.topics.shape)
        counts = iter(counts)
        for particle in total:
            for block in blocks:
                particle[:, block.columns] += next(counts).T
        return total


class TopicPosterior:
    """Posterior of the topics: a weighted mixture of Dirichlet distributions for each.

    Parameters
    ----------
    particles : ndarray of shape (m, n_topics, n_words)
        Pseudo-counts: given all topics of words, topic k is Dirichlet with ``particles[i, k]``.
    weights : ndarray of shape (m,)
        Non-negative, summing to 1.
    settled : bool or array-like of shape (n_topics,), default=True
        Whether a topic has stopped to move in the final sweeps. If one has not, there were fewer
        than four (as in `partial_fit`), or a word comes more than 10,000 times in a document and
        moves in parts of several words, intervals are wrong, and their methods warn.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.decomposition import TopicPosterior
    >>> posterior = TopicPosterior(np.array([[[8.0, 2.0]], [[6.0, 4.0]]]), np.array([0.5, 0.5]))
    >>> posterior.mean()
    array([[0.7, 0.3]])
    >>> posterior.std().round(2)
    array([[0.17, 0.17]])
    """

    def __init__(self, particles, weights, settled=True):
        self.particles, self.weights = np.asarray(particles, dtype=float), np.asarray(weights)
        self.settled = np.full(self.particles.shape[1], settled)

    def __repr__(self):
        return "TopicPosterior({} particles, {} topics, {} words)".format(*self.particles.shape)

    def __len__(self):
        return len(self.particles)

    def mean(self):
        """Probability of each word in each topic, shape (n_topics, n_words)."""
        return np.tensordot(self.weights, _normalised(self.particles), 1)

    def std(self):
        """Posterior standard deviation of those probabilities, shape (n_topics, n_words).

        The Dirichlet's own, given the topics of all words, and that of its mean over particles.
        """
        self._warn_of_spread()
        total = self.particles.sum(axis=2, keepdims=True)
        means = self.particles / total
        within = np.tensordot(self.weights, means * (1.0 - means) / (total + 1.0), 1)
        return np.sqrt(within + np.tensordot(self.weights, (means - self.mean()) ** 2, 1))

    def quantile(self, q, words=None):
        """Posterior quantiles of the probability of words.

        Parameters
        ----------
        q : float or array-like of shape (n_quantiles,)
            From 0 to 1.
        words : int or array-like of int, default=None
            Columns of X; all of them by default.

        Returns
        -------
        quantiles : ndarray of shape (n_topics, n_words) or (n_quantiles, n_topics, n_words)

        Raises
        ------
        ValueError
            If ``q`` is outside [0, 1].
        """
        fractions = check_fractions(q, "q")[:, None, None]
        self._warn_of_spread()
        words = slice(None) if words is None else np.atleast_1d(words)
        a = self.particles[:, None, :, words]
        b = self.particles.sum(axis=2)[:, None, :, None] - a
        # A word's marginal is a mixture of beta distributions, whose quantiles need a search; on
        # the scale of the logarithm, because most words are all but absent from a topic.
        low = np.full((len(fractions), *a.shape[2:]), np.log(np.finfo(float).tiny))
        high = np.zeros(low.shape)
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = np.tensordot(self.weights, betainc(a, b, np.exp(middle)), 1)
            above = (below >= fractions) & (fractions < 1.0)
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        values = np.exp(high)
        return values[0] if np.ndim(q) == 0 else values

    def sample(self, n_samples=1, random_state=None):
        """Draws of all topics together, shape (n_samples, n_topics, n_words).

        Parameters
        ----------
        n_samples : int, default=1
        random_state : None, int, RandomState or Generator, default=None

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        rng, n = as_generator(random_state), check_count(n_samples, "n_samples")
        self._warn_of_spread()
        return _dirichlet(self.particles[rng.choice(len(self), size=n, p=self.weights)], rng)

    def _warn_of_spread(self):
        if not self.settled.all():
            warn(
                f"topics {np.flatnonzero(~self.settled).tolist()} have not settled in the final "
                "sweeps of fit, or there were none (or a word comes more than 10,000 times in a "
                "document): their standard deviations, quantiles and draws are off, and 90 % "
                "intervals may hold less than half of the truth. Use fit with a larger n_sweeps.",
                UserWarning,
            )


def match_topics(particles):
    """Number the topics of every particle, in place, like those of the first that they overlap."""
    roots = np.sqrt(_normalised(particles))
    for i in range(1, len(roots)):
        _, order = linear_sum_assignment(roots[0] @ roots[i].T, maximize=True)
        particles[i] = particles[i][order]


class DocumentBlock(NamedTuple):
    """Some documents, their words numbered within the block, and the columns these stand for."""

    rows: slice
    documents: _jit.lda.Documents
    columns: np.ndarray


def document_blocks(X):
    """Pieces of work that cover the rows of a canonical CSR array."""
    blocks = []
    for rows in gen_batches(X.shape[0], _BLOCK):
        part = X[rows]
        columns, words = np.unique(part.indices, return_inverse=True)
        documents = _jit.lda.documents(part.indptr, words, part.data)
        blocks.append(DocumentBlock(rows, documents, columns))
    return blocks


def _words_first(topics, columns):
    """Probabilities (n_words, k) of a block's words under topics that need not be normalised."""
    return (topics[:, columns] / topics.sum(axis=1, keepdims=True)).T


def _assigned(settings, topics, block, seeds):
    """Expected counts, a bound of the block's log probability, and a topic for every word."""
    alpha, _, tol = settings
    phi = _words_first(topics, block.columns)
    counts, assigned = _jit.lda.assign(block.documents, phi, alpha, _N_BURN, _N_KEPT, seeds)
    return counts, _jit.lda.log_bounds(block.documents, phi, alpha, _N_ROUNDS, tol).sum(), assigned


def _redrawn(settings, topics, block, seeds, assigned):
    """Counts, and a topic for every word, after another sweep."""
    phi = _words_first(topics, block.columns)
    assigned = assigned.copy()
    return _jit.lda.redraw(block.documents, phi, settings[0], seeds, assigned), assigned


def proportions(settings, topics, block):
    """Expected counts (n, k) of topics in the block's documents."""
    return _jit.lda.proportions(block.documents, _words_first(topics, block.columns), *settings)


def log_bounds(settings, topics, block):
    """Lower bounds (n,) of the log probabilities of the block's documents."""
    return _jit.lda.log_bounds(block.documents, _words_first(topics, block.columns), *settings)


def _normalised(counts):
    return counts / counts.sum(axis=-1, keepdims=True)


def _dirichlet(counts, rng):
    # Gamma variates of a small shape underflow, all of a row only for an absurdly small prior.
    return _normalised(np.maximum(rng.standard_gamma(counts), np.finfo(float).tiny))
