"""Latent Dirichlet allocation, one document at a time: Gibbs draws, means and bounds.

All routines take topics as given, ``phi[v, k]``, the probability of word ``v`` under topic ``k``,
words first, so that what one word needs lies side by side. Proportions of topics in a document are
integrated out: a word is drawn to topic k with probability proportional to

    phi[v, k] (alpha + n_k),        n_k: mass of the document's other words in topic k.

A count of c is c words; one that is not whole, or above `MOST_COPIES`, is a few words of equal
mass instead, so that any weight is accepted. Each copy costs a draw, and four bytes. A
document's random numbers come from its own seed: it does not matter which thread draws them.
"""

import math
from typing import NamedTuple

import numpy as np

from ._compile import REORDERED, compiled, frozen
from .dense_layers import next_bits

MOST_COPIES = 10_000
_TINY = 1e-300


class Documents(NamedTuple):
    """Word counts as arrays for compiled sweeps, with words numbered in a vocabulary of their own.

    The entries of document d are ``starts[d]:starts[d + 1]``: ``words``, ``counts`` and the number
    of ``copies`` that each count is divided into. Its copies, in this order, are numbered from
    ``first[d]`` to ``first[d + 1]``.
    """

    starts: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    copies: np.ndarray
    first: np.ndarray


def documents(starts, words, counts):
    """Documents from the arrays of a CSR matrix without duplicates."""
    copies = np.clip(np.ceil(counts), 0, MOST_COPIES).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(copies)])[starts]
    starts, words = (np.ascontiguousarray(a, dtype=np.int64) for a in (starts, words))
    return Documents(starts, words, np.array(counts, dtype=np.float64), copies, first)


def assign(docs, phi, alpha, n_burn, n_kept, seeds):
    """Gibbs sampling of every document from nothing, with averages over the last sweeps.

    Parameters
    ----------
    docs : Documents
    phi : array of shape (n_words, k)
    alpha : float
    n_burn, n_kept : int
        Sweeps that are dropped, and sweeps whose conditional probabilities are averaged.
    seeds : array of shape (n,), uint64

    Returns
    -------
    counts : array of shape (n_words, k)
        Expected mass of each word in each topic, summed over documents (Rao-Blackwellised).
    topics : array of shape (n_copies,), int32
        The topics drawn last.
    """
    counts = np.zeros(phi.shape)
    topics = np.zeros(docs.first[-1], dtype=np.int32)
    settings = float(alpha), int(1 + n_burn + n_kept), int(n_kept)
    _sweep(docs, frozen(phi), *settings, seeds, counts, topics, False)
    return counts, topics


def redraw(docs, phi, alpha, seeds, topics):
    """One Gibbs sweep over every document; ``topics`` change in place.

    Returns
    -------
    counts : array of shape (n_words, k)
        Mass of each word in each topic, as drawn.
    """
    counts = np.zeros(phi.shape)
    _sweep(docs, frozen(phi), float(alpha), 1, 1, seeds, counts, topics, True)
    return counts


def proportions(docs, phi, alpha, max_iter, tol):
    """Expected mass (n, k) of each document in each topic.

    The fixed point of the Gibbs conditional with probabilities in place of draws (Asuncion,
    Welling, Smyth & Teh 2009, "CVB0"), up to a mean change of ``tol`` per topic.
    """
    doc_topics = np.zeros((len(docs.first) - 1, phi.shape[1]))
    _proportions(docs, frozen(phi), float(alpha), int(max_iter), float(tol), doc_topics)
    return doc_topics


def log_bounds(docs, phi, alpha, max_iter, tol):
    """Variational lower bound (n,) of the log probability of each document given the topics.

    The bound of Blei, Ng & Jordan (2003), maximised over Dirichlet distributions of the proportions
    up to a mean change of ``tol`` per topic.
    """
    bounds = np.empty(len(docs.first) - 1)
    _log_bounds(docs, frozen(phi), float(alpha), int(max_iter), float(tol), bounds)
    return bounds


@compiled
def _uniform(state):
    """A uniform number in [0, 1), by SplitMix64 (Steele, Lea & Flood 2014)."""
    return (next_bits(state) >> np.uint64(11)) * 2.0**-53


@compiled
def _conditional(row, alpha, n, p):
    """Unnormalised probabilities of the topics of a word; their sum is returned."""
    k = row.size
    for j in range(k):
        p[j] = row[j] * (alpha + n[j])
    # Four sums at a time: one alone would wait for each addition before the next.
    a = b = c = d = 0.0
    whole = k - k % 4
    for j in range(0, whole, 4):
        a += p[j]
        b += p[j + 1]
        c += p[j + 2]
        d += p[j + 3]
    for j in range(whole, k):
        a += p[j]
    total = (a + b) + (c + d)
    if not total > 0.0:
        # Every product has underflowed.
        p[:] = 1.0
        total = float(k)
    return total


@compiled
def _pick(p, u):
    """The topic in whose piece of the running sum ``u`` falls."""
    topic = 0
    # Four at a time: each subtraction waits for the one before.
    while topic < p.size - 4:
        four = (p[topic] + p[topic + 1]) + (p[topic + 2] + p[topic + 3])
        if four > u:
            break
        u -= four
        topic += 4
    while topic < p.size - 1 and p[topic] <= u:
        u -= p[topic]
        topic += 1
    return topic


@compiled
def _sweep(docs, phi, alpha, n_sweeps, n_kept, seeds, counts, topics, onwards):
    """Gibbs sweeps over every document: ``onwards`` from its topics, or from nothing.

    Onwards, each sweep adds the words to the ``counts`` of their topics; from nothing the last
    ``n_kept`` together add the probabilities of the topics instead.
    """
    k = phi.shape[1]
    n = np.empty(k)
    p = np.empty(k)
    state = np.empty(1, dtype=np.uint64)
    for d in range(docs.first.size - 1):
        state[0] = seeds[d]
        n[:] = 0.0
        if onwards:
            t = docs.first[d]
            for entry in range(docs.starts[d], docs.starts[d + 1]):
                mass = docs.counts[entry] / max(docs.copies[entry], 1)
                for _ in range(docs.copies[entry]):
                    n[topics[t]] += mass
                    t += 1
        # From nothing, the first sweep seats the words one after the other.
        for sweep in range(n_sweeps):
            t = docs.first[d]
            for entry in range(docs.starts[d], docs.starts[d + 1]):
                row = phi[docs.words[entry]]
                found = counts[docs.words[entry]]
                mass = docs.counts[entry] / max(docs.copies[entry], 1)
                for _ in range(docs.copies[entry]):
                    if onwards or sweep > 0:
                        n[topics[t]] = max(n[topics[t]] - mass, 0.0)
                    total = _conditional(row, alpha, n, p)
                    topics[t] = _pick(p, _uniform(state) * total)
                    n[topics[t]] += mass
                    if onwards:
                        found[topics[t]] += mass
                    elif sweep >= n_sweeps - n_kept:
                        share = mass / (n_kept * total)
                        for j in range(k):
                            found[j] += share * p[j]
                    t += 1


# Not reordered: a loop that sums and stores comes in two versions, taken by where arrays lie.
@compiled
def _proportions(docs, phi, alpha, max_iter, tol, doc_topics):
    k = phi.shape[1]
    new = np.empty(k)
    for d in range(doc_topics.shape[0]):
        begin, end = docs.starts[d], docs.starts[d + 1]
        shares = np.full((end - begin, k), 1.0 / k)
        n = doc_topics[d]
        for entry in range(begin, end):
            for j in range(k):
                n[j] += docs.counts[entry] / k
        for _ in range(max_iter):
            change = 0.0
            for entry in range(begin, end):
                if docs.copies[entry] == 0:
                    continue
                share = shares[entry - begin]
                row = phi[docs.words[entry]]
                mass = docs.counts[entry] / docs.copies[entry]
                total = 0.0
                for j in range(k):
                    new[j] = max(row[j] * (alpha + max(n[j] - mass * share[j], 0.0)), _TINY)
                    total += new[j]
                scale = 1.0 / total
                for j in range(k):
                    moved = docs.counts[entry] * (scale * new[j] - share[j])
                    share[j] = scale * new[j]
                    n[j] = max(n[j] + moved, 0.0)
                    change += abs(moved)
            if change <= tol * k:
                break


@compiled(fastmath=REORDERED)
def _log_bounds(docs, phi, alpha, max_iter, tol, bounds):
    k = phi.shape[1]
    n = np.empty(k)
    pull = np.empty(k)
    log_theta = np.empty(k)
    theta = np.empty(k)
    for d in range(bounds.size):
        begin, end = docs.starts[d], docs.starts[d + 1]
        totals = np.empty(end - begin)
        n[:] = docs.counts[begin:end].sum() / k
        for iteration in range(max_iter + 1):
            below = _digamma(k * alpha + n.sum())
            for j in range(k):
                log_theta[j] = _digamma(alpha + n[j]) - below
                theta[j] = math.exp(log_theta[j])
                pull[j] = 0.0
            for entry in range(begin, end):
                row = phi[docs.words[entry]]
                total = 0.0
                for j in range(k):
                    total += row[j] * theta[j]
                totals[entry - begin] = max(total, _TINY)
                share = docs.counts[entry] / totals[entry - begin]
                for j in range(k):
                    pull[j] += share * row[j]
            change = 0.0
            for j in range(k):
                change += abs(theta[j] * pull[j] - n[j])
            if change <= tol * k or iteration == max_iter:
                break
            for j in range(k):
                n[j] = theta[j] * pull[j]
        # The words' part, and E log p(theta) - E log q(theta).
        bound = math.lgamma(k * alpha) - math.lgamma(k * alpha + n.sum())
        for entry in range(begin, end):
            bound += docs.counts[entry] * math.log(totals[entry - begin])
        for j in range(k):
            bound += math.lgamma(alpha + n[j]) - math.lgamma(alpha) - n[j] * log_theta[j]
        bounds[d] = bound


@compiled
def _digamma(x):
    """Derivative of the logarithm of the gamma function, for positive arguments."""
    value = 0.0
    while x < 8.0:
        value -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))
    return value + math.log(x) - 0.5 / x - series
