"""Latent Dirichlet allocation: enumeration of all assignments, closed forms, and scikit-learn's."""

import pickle
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import block_diag
from scipy.special import betainc, digamma, gammaln, logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.decomposition import LatentDirichletAllocation as Variational
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_get_feature_names_out_error,
    check_param_validation,
)

import small
from skstein import LatentDirichletAllocation
from skstein._jit import lda as jit
from skstein.decomposition import topics
from skstein.decomposition.topics import (
    TopicParticles,
    TopicPosterior,
    document_blocks,
    match_topics,
)
from small import later

METHODS = ["online", "batch"]
TINY = [[0, 0, 1], [1, 2], [2, 2, 0]]  # words of three documents
ALPHA, BETA = 0.5, 0.4


def counts_of(texts, n_words=3):
    return np.array([np.bincount(words, minlength=n_words) for words in texts], dtype=float)


def as_documents(X):
    X = sparse.csr_array(X)
    return jit.documents(X.indptr, X.indices, X.data)


def seeds(rng, n):
    return rng.integers(0, 2**64, size=n, dtype=np.uint64)


def words_first(topics):
    return np.ascontiguousarray(topics.T)


def dirichlet_multinomial(counts, prior):
    """Log probability of draws (not of their counts) with the proportions integrated out."""
    total = counts.sum(axis=-1)
    k = counts.shape[-1]
    log_p = gammaln(k * prior) - gammaln(k * prior + total)
    return log_p + np.sum(gammaln(prior + counts) - gammaln(prior), axis=-1)


def enumerate_document(words, topics, alpha):
    """Exact log p(words | topics) and expected counts (words, topics) of one document."""
    k = len(topics)
    log_joint, counts = [], []
    for z in product(range(k), repeat=len(words)):
        of_topics = np.bincount(z, minlength=k)
        log_p = dirichlet_multinomial(of_topics, alpha)
        log_joint.append(log_p + np.log(topics[list(z), words]).sum())
        table = np.zeros(topics.T.shape)
        np.add.at(table, (words, list(z)), 1)
        counts.append(table)
    log_evidence = logsumexp(log_joint)
    return log_evidence, np.tensordot(np.exp(log_joint - log_evidence), counts, 1)


def enumerate_corpus(texts, k, n_words, alpha, beta):
    """Exact posterior over all assignments: log evidence, probabilities, pseudo-counts."""
    words = np.concatenate(texts)
    document = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    assigned = np.eye(k)[list(product(range(k), repeat=len(words)))].swapaxes(1, 2)
    of_documents = (assigned @ np.eye(len(texts))[document]).swapaxes(1, 2)
    of_topics = assigned @ np.eye(n_words)[words]
    log_joint = dirichlet_multinomial(of_documents, alpha).sum(axis=1)
    log_joint += dirichlet_multinomial(of_topics, beta).sum(axis=1)
    log_evidence = logsumexp(log_joint)
    return log_evidence, np.exp(log_joint - log_evidence), of_topics + beta


def second_moments(particles):
    """E sum_k phi_ku phi_kv of each particle, which does not depend on the topics' numbers."""
    total = particles.sum(axis=-1)[..., None, None]
    means = particles[..., None] / total
    moments = means * (np.swapaxes(means, -1, -2) * total + np.eye(particles.shape[-1]))
    return np.sum(moments / (total + 1), axis=-3)


def synthetic(rng, n=300, k=4, n_words=60, alpha=0.1, beta=0.05, length=50):
    topics = rng.dirichlet(np.full(n_words, beta), k)
    mixed = rng.dirichlet(np.full(k, alpha), n) @ topics
    lengths = rng.poisson(length, n) + 2
    X = [rng.multinomial(*pair) for pair in zip(lengths, mixed, strict=True)]
    return sparse.csr_array(np.array(X)), topics


@pytest.fixture
def blocks_of_words():
    """Three topics of three words each, every document about one of them."""
    return sparse.csr_array(block_diag(*[np.full((3, 3), 3)] * 3))


def assert_recovered(components):
    tops = {tuple(sorted(component.argsort()[-3:].tolist())) for component in components}
    assert tops == {(0, 1, 2), (3, 4, 5), (6, 7, 8)}


# Compiled routines


def test_uniform_numbers_are_those_of_splitmix64():
    # The first outputs of the reference implementation with seed 0.
    reference = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    state = np.zeros(1, dtype=np.uint64)
    assert [jit._uniform(state) for _ in reference] == [(x >> 11) * 2.0**-53 for x in reference]


def test_digamma():
    x = np.logspace(-9, 9, 200)
    assert_allclose([jit._digamma(value) for value in x], digamma(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("words", [[0, 0, 1, 2], [2, 1], [0]])
def test_gibbs_counts_against_enumeration(words, rng):
    topics = rng.dirichlet(np.ones(3), 2)
    _, exact = enumerate_document(np.array(words), topics, ALPHA)
    docs = as_documents(np.tile(counts_of([words]), (50, 1)))
    runs = [
        jit.assign(docs, words_first(topics), ALPHA, 20, 20, seeds(rng, 50))[0] / 50
        for _ in range(40)
    ]
    error = np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
    assert np.all(np.abs(np.mean(runs, axis=0) - exact) <= 5 * error + 1e-12)


def test_expected_and_drawn_counts_add_up_to_the_words(rng):
    X = sparse.random_array((20, 30), density=0.2, rng=rng, data_sampler=rng.exponential) * 40
    docs, phi = as_documents(X), words_first(rng.dirichlet(np.ones(30), 4))
    counts, topics = jit.assign(docs, phi, ALPHA, 2, 3, seeds(rng, 20))
    assert_allclose(counts.sum(axis=1), X.sum(axis=0))
    counts = jit.redraw(docs, phi, ALPHA, seeds(rng, 20), topics)
    assert_allclose(counts.sum(axis=1), X.sum(axis=0))


def test_hundreds_of_equal_words_move_one_by_one(rng):
    """Of a document of one word: how many are of the first topic, against all possible numbers."""
    n, m, p = 400, 300, np.array([[0.50, 0.48]])
    docs = as_documents(np.full((m, 1), n))
    _, state = jit.assign(docs, p, ALPHA, 5, 5, seeds(rng, m))
    for _ in range(400):
        jit.redraw(docs, p, ALPHA, seeds(rng, m), state)
    first = np.sum(state.reshape(m, n) == 0, axis=1)
    each = np.stack([np.arange(n + 1), np.arange(n, -1, -1)], axis=1)
    weights = softmax((each * np.log(p) + gammaln(ALPHA + each) - gammaln(each + 1)).sum(axis=1))
    mean = weights @ each[:, 0]
    sd = np.sqrt(weights @ (each[:, 0] - mean) ** 2)
    assert abs(first.mean() - mean) < 4 * sd / np.sqrt(m)
    assert_allclose(first.std(), sd, rtol=0.35)  # its tail is that of an exponential


def test_redrawing_leaves_the_conditional_invariant(rng):
    # From exact draws of the topics, a sweep gives exact draws.
    words, topics = np.array([0, 0, 1, 2]), rng.dirichlet(np.ones(3), 2)
    _, exact = enumerate_document(words, topics, ALPHA)
    every = np.array(list(product(range(2), repeat=4)))
    log_p = [
        dirichlet_multinomial(np.bincount(z, minlength=2), ALPHA) + np.log(topics[z, words]).sum()
        for z in every
    ]
    n = 20_000
    drawn = every[rng.choice(len(every), n, p=np.exp(log_p - logsumexp(log_p)))]
    state = np.ascontiguousarray(drawn, dtype=np.int32).ravel()
    docs = as_documents(np.tile(counts_of([words]), (n, 1)))
    counts = jit.redraw(docs, words_first(topics), ALPHA, seeds(rng, n), state) / n
    assert_allclose(counts, exact, atol=5 * 2 / np.sqrt(n))
    assert np.any(state != drawn.ravel())


def naive_proportions(counts, topics, alpha, n_rounds):
    """Expected counts by the zero-order collapsed update, entry by entry."""
    entries = np.flatnonzero(counts)
    shares = np.full((len(entries), len(topics)), 1 / len(topics))
    for _ in range(n_rounds):
        for i, word in enumerate(entries):
            others = counts[entries] @ shares - shares[i]
            p = topics[:, word] * (alpha + others)
            shares[i] = p / p.sum()
    return counts[entries] @ shares


def test_proportions_against_a_naive_implementation(rng):
    topics, X = rng.dirichlet(np.ones(6), 3), rng.integers(0, 4, size=(5, 6))
    result = jit.proportions(as_documents(X), words_first(topics), ALPHA, 7, 0.0)
    assert_allclose(result, [naive_proportions(row, topics, ALPHA, 7) for row in X])


def naive_bound(counts, topics, alpha, n_rounds):
    """The bound of Blei, Ng & Jordan, with the topics of words integrated out."""
    k = len(topics)
    gamma = np.full(k, alpha + counts.sum() / k)
    for _ in range(n_rounds):
        share = topics.T * np.exp(digamma(gamma))
        gamma = alpha + counts @ (share / share.sum(axis=1, keepdims=True))
    log_theta = digamma(gamma) - digamma(gamma.sum())
    words = counts @ np.log(np.exp(log_theta) @ topics)
    prior = gammaln(k * alpha) - k * gammaln(alpha) + (alpha - 1) * log_theta.sum()
    entropy = gammaln(gamma).sum() - gammaln(gamma.sum()) - (gamma - 1) @ log_theta
    return words + prior + entropy


@pytest.mark.parametrize("n_rounds", [1, 6])
def test_log_bounds_against_a_naive_implementation(rng, n_rounds):
    topics, X = rng.dirichlet(np.ones(6), 3), rng.integers(0, 4, size=(5, 6))
    bounds = jit.log_bounds(as_documents(X), words_first(topics), ALPHA, n_rounds, 0.0)
    assert_allclose(bounds, [naive_bound(row, topics, ALPHA, n_rounds) for row in X])


def test_log_bounds_rise_towards_the_enumerated_probability(rng):
    topics, docs = rng.dirichlet(np.ones(3), 2), as_documents(counts_of(TINY))
    exact = [enumerate_document(np.array(words), topics, ALPHA)[0] for words in TINY]
    bounds = [jit.log_bounds(docs, words_first(topics), ALPHA, n, 0.0) for n in (0, 1, 5, 500)]
    assert np.all(np.diff(bounds, axis=0) > -1e-12)
    assert np.all(bounds[-1] < exact)


def test_log_bound_of_one_topic_is_exact(rng):
    topics, X = rng.dirichlet(np.ones(6), 1), rng.integers(0, 4, size=(5, 6))
    bounds = jit.log_bounds(as_documents(X), words_first(topics), ALPHA, 5, 0.0)
    assert_allclose(bounds, X @ np.log(topics[0]))


# The method


@pytest.mark.parametrize("method", ["online", later("batch")])
def test_posterior_and_score_against_enumeration(method, seed):
    log_evidence, probability, exact = enumerate_corpus(TINY, 2, 3, ALPHA, BETA)
    model = LatentDirichletAllocation(
        2,
        doc_topic_prior=ALPHA,
        topic_word_prior=BETA,
        learning_method=method,
        n_particles=600,
        n_snapshots=1,
        random_state=seed,
    ).fit(counts_of(TINY))
    values = second_moments(model.posterior_.particles)
    error = values.std(axis=0) / np.sqrt(len(values))
    truth = np.tensordot(probability, second_moments(exact), 1)
    assert np.all(np.abs(values.mean(axis=0) - truth) < 5 * error)
    # The probability of a document of one word is linear in the topics, and the bound is below.
    for word in range(3):
        more = enumerate_corpus([*TINY, [word]], 2, 3, ALPHA, BETA)[0] - log_evidence
        assert more - 0.35 < model.score(np.eye(3)[[word]]) < more + 0.03


def serial(function, *iterables):
    return list(map(function, *iterables))


def test_a_step_keeps_the_units_of_counts(rng):
    """Each datum counts D / b times, and the prior once: mass is prior + power * all words."""
    X = sparse.csr_array(rng.multinomial(30, np.full(8, 1 / 8), size=60))
    particles = TopicParticles((2, 3, 8), BETA, (ALPHA, 100, 1e-3))
    for step_size in (0.6, 0.3, 0.5):
        rows = rng.choice(60, 12, replace=False)
        particles.step(X[rows], 60 / 12, step_size, rng, serial)
    assert_allclose(particles.power, 1 - 0.4 * 0.7 * 0.5)
    expected = 3 * 8 * BETA + particles.power * X.sum()
    assert_allclose(particles.topics.sum(axis=(1, 2)), expected)
    assert particles.topics.min() > 0.99 * BETA


def test_weights_follow_the_recursion(rng):
    """log w' = (1 - g) log w + g D / b log p, with the probability of documents before the step."""
    X, _ = synthetic(rng, n=30)
    particles = TopicParticles((3, 4, 60), BETA, (ALPHA, 100, 1e-3))
    log_weights = np.zeros(3)
    for step_size in (0.5, 0.02, 0.01):
        rows = rng.choice(30, 10, replace=False)
        docs = as_documents(X[rows])
        evidence = [
            jit.log_bounds(docs, (p / p.sum(axis=1)[:, None]).T, ALPHA, 10, 1e-3).sum()
            for p in particles.topics
        ]
        particles.step(X[rows], 3.0, step_size, rng, serial)
        log_weights = (1 - step_size) * log_weights + step_size * 3.0 * np.array(evidence)
        expected = np.exp(log_weights - logsumexp(log_weights))
        assert_allclose(particles.posterior().weights, expected, rtol=1e-8, atol=1e-300)


def test_particles_are_matched_to_the_first(rng):
    topics = 1e3 * rng.dirichlet(np.full(40, 0.1), 5) + BETA
    particles = np.array([topics[rng.permutation(5)] for _ in range(4)])
    match_topics(particles)
    assert_array_equal(particles, np.tile(particles[0], (4, 1, 1)))


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_result_does_not_depend_on_n_jobs(n_jobs, monkeypatch, rng):
    monkeypatch.setattr(topics, "_BLOCK", 16)
    X, _ = synthetic(rng, n=70)
    one = LatentDirichletAllocation(4, max_iter=2, n_sweeps=2, random_state=0).fit(X)
    several = clone(one).set_params(n_jobs=n_jobs).fit(X)
    assert_array_equal(one.posterior_.particles, several.posterior_.particles)
    assert_array_equal(one.transform(X), several.transform(X))


def test_blocks_cover_the_documents(monkeypatch, rng):
    monkeypatch.setattr(topics, "_BLOCK", 16)
    X, _ = synthetic(rng, n=70)
    seen = np.zeros(X.shape)
    for block in document_blocks(X):
        docs = block.documents
        rows = np.repeat(np.arange(len(docs.first) - 1), np.diff(docs.starts)) + block.rows.start
        seen[rows, block.columns[docs.words]] = docs.counts
    assert_array_equal(seen, X.toarray())


def test_counts_are_divided_into_few_copies():
    docs = as_documents([[1.0, 0.3, 2.5], [0, 1e9, 0], [0, 0, 0]])
    assert_array_equal(docs.copies, [1, 1, 3, 10_000])
    assert_array_equal(docs.first, [0, 5, 10_005, 10_005])


# The posterior


def test_posterior_moments_and_quantiles_against_draws(rng):
    particles = rng.gamma(1.0, 3.0, size=(3, 2, 4)) + 0.05
    posterior = TopicPosterior(particles, np.array([0.5, 0.2, 0.3]))
    n = 40_000
    draws = posterior.sample(n, random_state=rng)
    assert draws.shape == (n, 2, 4)
    assert_allclose(draws.sum(axis=2), 1)
    assert_allclose(posterior.mean(), draws.mean(axis=0), atol=5 * 0.5 / np.sqrt(n))
    assert_allclose(posterior.std(), draws.std(axis=0), atol=5 * 0.5 / np.sqrt(n))
    quantiles = posterior.quantile([0.05, 0.5, 0.95])
    below = (draws[None] <= quantiles[:, None]).mean(axis=1)
    assert_allclose(below, np.broadcast_to([[[0.05]], [[0.5]], [[0.95]]], below.shape), atol=0.0125)
    assert_array_equal(posterior.quantile(0.5, words=[2, 0]), quantiles[1][:, [2, 0]])
    assert_array_equal(posterior.quantile(0.5, words=2), quantiles[1][:, [2]])


def test_quantiles_invert_the_distribution_of_rare_words():
    posterior = TopicPosterior(np.array([[[0.01, 50.0]]]), np.ones(1))
    quantile = posterior.quantile([0.9, 0.999], words=[0])[:, 0, 0]
    assert_allclose(betainc(0.01, 50.0, quantile), [0.9, 0.999])
    assert_allclose(posterior.quantile([0.0, 1.0], words=0)[:, 0, 0], [0.0, 1.0], atol=1e-300)


def test_posterior_refuses_levels_outside_the_unit_interval():
    with pytest.raises(ValueError, match="q must be"):
        TopicPosterior(np.ones((1, 1, 2)), np.ones(1)).quantile(1.5)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_spreads_without_sweeps_warn(method, blocks_of_words):
    """Their 90 % intervals hold a third of the truth."""
    model = LatentDirichletAllocation(3, n_sweeps=0, random_state=0)
    posterior = getattr(model, method)(blocks_of_words).posterior_
    posterior.mean()
    for ask in (posterior.std, posterior.sample, lambda: posterior.quantile(0.5)):
        with pytest.warns(UserWarning, match="or there were none"):
            ask()


def test_spreads_of_topics_that_have_not_settled_warn(rng, blocks_of_words):
    """In long documents words take hundreds of sweeps to move to other topics."""
    topics = rng.dirichlet(np.full(40, 0.3), 3)
    mixed = rng.dirichlet(np.full(3, 0.3), 30) @ topics
    model = LatentDirichletAllocation(3, n_sweeps=8, random_state=0)
    posterior = model.fit([rng.multinomial(3000, row) for row in mixed]).posterior_
    with pytest.warns(UserWarning, match="have not settled"):
        posterior.std()
    model.set_params(n_sweeps=40).fit(blocks_of_words).posterior_.std()


def test_counts_that_move_in_parts_do_not_settle():
    model = LatentDirichletAllocation(2, n_sweeps=4, random_state=0).fit([[10_001, 1], [1, 1]])
    assert not model.posterior_.settled.any()


@pytest.mark.parametrize("n_sweeps", [1, 2, 3])
def test_few_sweeps_do_not_settle_topics(n_sweeps, blocks_of_words):
    model = LatentDirichletAllocation(3, n_sweeps=n_sweeps, random_state=0).fit(blocks_of_words)
    assert not model.posterior_.settled.any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*have not settled")  # in some of the fits
def test_intervals_cover_the_topics_that_made_the_documents(rng):
    """Of topics drawn from the prior, 90 % intervals hold nine in ten."""
    k, n_words, n_fits, covered = 3, 12, 20, []
    for fit in range(n_fits):
        topics = rng.dirichlet(np.full(n_words, 0.5), k)
        mixed = rng.dirichlet(np.full(k, 0.3), 150) @ topics
        model = LatentDirichletAllocation(
            k, doc_topic_prior=0.3, topic_word_prior=0.5, n_sweeps=100, random_state=fit
        ).fit([rng.multinomial(40, row) for row in mixed])
        found_and_true = np.array([model.posterior_.mean(), topics])
        match_topics(found_and_true)
        low, high = model.posterior_.quantile([0.05, 0.95])
        covered.append(np.mean((low <= found_and_true[1]) & (found_and_true[1] <= high)))
    error = np.std(covered, ddof=1) / np.sqrt(n_fits)
    assert abs(np.mean(covered) - 0.9) < 4 * error


def test_snapshots(rng):
    X, _ = synthetic(rng, n=40)
    model = LatentDirichletAllocation(4, n_particles=3, n_sweeps=7, random_state=0)
    for n_snapshots, n_kept in [(1, 1), (4, 4), (7, 7), (50, 7)]:
        posterior = model.set_params(n_snapshots=n_snapshots).fit(X).posterior_
        assert posterior.particles.shape == (3 * n_kept, 4, X.shape[1])
        # Given the topics of all words, pseudo-counts are whole numbers and the prior.
        assert_allclose(posterior.particles % 1, 0.25)
        assert_allclose(posterior.particles.sum(axis=(1, 2)), X.sum() + X.shape[1])


# scikit-learn's contract


@small.with_checks(
    [
        LatentDirichletAllocation(n_components=3),
        LatentDirichletAllocation(n_components=3, learning_method="batch", n_sweeps=0),
    ]
)
def test_sklearn_check(estimator, check):
    check(estimator)


def test_every_parameter_is_validated():
    check_param_validation("LatentDirichletAllocation", LatentDirichletAllocation())


def test_names_of_the_topics_need_a_fit():
    check_get_feature_names_out_error("LatentDirichletAllocation", LatentDirichletAllocation())


def test_column_names():
    check_dataframe_column_names_consistency(
        "LatentDirichletAllocation", LatentDirichletAllocation()
    )


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_topics_are_recovered(method, dense, n_jobs, seed, blocks_of_words):
    X = blocks_of_words.toarray() if dense else blocks_of_words
    model = LatentDirichletAllocation(
        3, learning_method=method, evaluate_every=1, n_jobs=n_jobs, random_state=seed
    ).fit(X)
    assert_recovered(model.components_)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_topics_are_recovered_by_partial_fit(n_jobs, seed, blocks_of_words):
    model = LatentDirichletAllocation(3, total_samples=100, n_jobs=n_jobs, random_state=seed)
    for _ in range(5):
        model.partial_fit(blocks_of_words)
    assert_recovered(model.components_)
    assert model.n_batch_iter_ == 5
    # Pseudo-counts are those of 100 documents like these nine.
    words = 100 / 9 * blocks_of_words.sum()
    assert_allclose(model.components_.sum(), 9 + model.posterior_power_ * words)


def test_default_priors(blocks_of_words):
    default = LatentDirichletAllocation(3, random_state=0).fit(blocks_of_words)
    given = LatentDirichletAllocation(
        3, doc_topic_prior=1 / 3, topic_word_prior=1 / 3, verbose=0, random_state=0
    ).fit(blocks_of_words)
    assert default.doc_topic_prior_ == default.topic_word_prior_ == 1 / 3
    assert_array_equal(default.components_, given.components_)


def test_transform_is_normalised_and_row_by_row(rng):
    X = rng.integers(5, size=(20, 10))
    model = LatentDirichletAllocation(3, random_state=0).fit(X)
    topics, counts = model.transform(X), model.transform(X, normalize=False)
    assert topics.min() > 0
    assert_allclose(topics.sum(axis=1), 1)
    assert_allclose(counts.sum(axis=1), X.sum(axis=1) + 3 * model.doc_topic_prior_)
    assert_allclose(topics, counts / counts.sum(axis=1, keepdims=True))
    order = rng.permutation(20)[:7]
    assert_allclose(model.transform(X[order]), topics[order])
    assert_array_equal(model.transform(sparse.csr_array(X)), topics)


@pytest.mark.parametrize("method", METHODS)
def test_fit_transform_is_fit_then_transform(method, rng):
    X = rng.integers(10, size=(50, 20))
    model = LatentDirichletAllocation(5, learning_method=method, random_state=0)
    for normalize in (True, False):
        fitted = model.fit_transform(X, normalize=normalize)
        assert_array_equal(fitted, model.transform(X, normalize=normalize))


@pytest.mark.parametrize("method", ["fit", "partial_fit", "transform", "score", "perplexity"])
def test_negative_counts_are_refused_by_name(method, blocks_of_words):
    model = LatentDirichletAllocation(3).fit(blocks_of_words)
    for X in (-blocks_of_words, -blocks_of_words.toarray()):
        message = rf"^Negative values in data passed to LatentDirichletAllocation\.{method}"
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(X)


@pytest.mark.parametrize("method", ["transform", "score", "perplexity"])
def test_unfitted_is_refused(method, blocks_of_words):
    with pytest.raises(NotFittedError, match="LatentDirichletAllocation instance is not fitted"):
        getattr(LatentDirichletAllocation(), method)(blocks_of_words)


@pytest.mark.parametrize("method", METHODS)
def test_perplexity_falls_and_score_rises_with_epochs(method, rng):
    X, _ = synthetic(rng)
    early, late = (
        LatentDirichletAllocation(
            4, learning_method=method, max_iter=max_iter, n_sweeps=0, random_state=0
        ).fit(X)
        for max_iter in (2, 20)
    )
    assert late.perplexity(X) < early.perplexity(X)
    assert late.score(X) > early.score(X)


def test_perplexity_follows_from_the_score(blocks_of_words):
    X = blocks_of_words
    model = LatentDirichletAllocation(3, random_state=0).fit(X)
    assert_allclose(model.perplexity(X), np.exp(-model.score(X) / X.sum()))
    assert_allclose(model.perplexity(X.toarray()), model.perplexity(X))
    assert_allclose(model.perplexity(X, sub_sampling=True), model.perplexity(X))
    assert_allclose(model.bound_, model.perplexity(X))
    # Sums over documents: twice the documents have twice the score.
    assert_allclose(model.score(sparse.vstack([X, X])), 2 * model.score(X))


@pytest.mark.parametrize("as_input", [np.asarray, sparse.csr_array])
def test_documents_without_words_leave_the_prior(as_input):
    X = as_input(np.zeros((5, 4)))
    model = LatentDirichletAllocation(random_state=0).fit(X)
    assert_allclose(model.components_, 0.1)
    assert_allclose(model.transform(X), 0.1)
    assert np.isnan(model.bound_)


@pytest.mark.parametrize(
    ("verbose", "evaluate_every", "n_lines", "n_perplexities"),
    [(False, 1, 0, 0), (False, 0, 0, 0), (True, 0, 3, 0), (True, 1, 3, 3), (True, 2, 3, 1)],
)
def test_lines_of_progress(
    verbose, evaluate_every, n_lines, n_perplexities, capsys, blocks_of_words
):
    LatentDirichletAllocation(
        3, max_iter=3, verbose=verbose, evaluate_every=evaluate_every, perp_tol=0.0, random_state=0
    ).fit(blocks_of_words)
    told = capsys.readouterr().out
    assert told.count("\n") == n_lines
    assert told.count("perplexity") == n_perplexities


def test_a_settled_perplexity_ends_the_epochs(rng):
    X, _ = synthetic(rng)
    model = LatentDirichletAllocation(4, evaluate_every=2, perp_tol=1e6, random_state=0).fit(X)
    assert model.n_iter_ == 4


def test_names_of_the_topics(blocks_of_words):
    model = LatentDirichletAllocation(3).fit(blocks_of_words)
    names = [f"latentdirichletallocation{i}" for i in range(3)]
    assert_array_equal(model.get_feature_names_out(), names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS)
def test_types_are_preserved(method, dtype, rng):
    X = rng.uniform(size=(20, 10)).astype(dtype)
    model = LatentDirichletAllocation(5, learning_method=method, random_state=0).fit(X)
    assert model.components_.dtype == model.exp_dirichlet_component_.dtype == dtype
    assert model.transform(X).dtype == dtype
    model.partial_fit(X.astype(np.float64))
    assert model.components_.dtype == dtype


def test_float32_gives_what_float64_gives(rng):
    X = rng.integers(5, size=(20, 10))
    single, double = (
        LatentDirichletAllocation(5, random_state=0).fit(X.astype(dtype))
        for dtype in (np.float32, np.float64)
    )
    assert_allclose(single.components_, double.components_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*have not settled")
def test_log_means_of_the_topics(rng):
    X, _ = synthetic(rng, n=100)
    model = LatentDirichletAllocation(4, n_particles=2, random_state=0).fit(X)
    draws = model.posterior_.sample(4000, random_state=rng)
    common = model.components_ > 50
    logs = np.log(draws[:, common])
    error = 5 * logs.std(axis=0) / np.sqrt(len(logs))
    found = np.log(model.exp_dirichlet_component_[common])
    assert np.all(np.abs(logs.mean(axis=0) - found) < error)


@pytest.mark.parametrize("method", METHODS)
def test_every_layout_of_the_same_counts_gives_the_same(method, rng):
    X = rng.integers(4, size=(30, 12))
    canonical = sparse.csr_array(X)
    unsorted = canonical.copy()
    for row in range(30):
        part = slice(*unsorted.indptr[row : row + 2])
        unsorted.indices[part] = unsorted.indices[part][::-1].copy()
        unsorted.data[part] = unsorted.data[part][::-1].copy()
    unsorted.has_sorted_indices = False
    entries = canonical.tocoo()
    halves = sparse.coo_array(
        (np.tile(entries.data / 2, 2), (np.tile(entries.row, 2), np.tile(entries.col, 2))),
        shape=X.shape,
    )
    zeros = sparse.csr_array(
        (np.append(X.ravel(), 0)[:-1], np.tile(np.arange(12), 30), np.arange(0, 361, 12)),
        shape=X.shape,
    )
    model = LatentDirichletAllocation(3, learning_method=method, random_state=0)
    reference = model.fit(X).components_
    layouts = [
        np.asfortranarray(X),
        X.tolist(),
        canonical,
        unsorted,
        halves,
        zeros,
        sparse.csc_matrix(X),
        sparse.csr_array(X.astype(np.uint8)),
    ]
    for layout in layouts:
        assert_array_equal(model.fit(layout).components_, reference)
    assert not unsorted.has_sorted_indices  # the input is left as it was
    assert zeros.nnz == 360


def test_sparse_counts_are_never_made_dense(monkeypatch, rng):
    def refuse(self, *args, **kwargs):
        raise AssertionError("made dense")

    X, _ = synthetic(rng, n=50)
    for container in (sparse.csr_array, sparse.csr_matrix):
        for name in ("toarray", "todense", "__array__"):
            monkeypatch.setattr(container, name, refuse, raising=False)
    model = LatentDirichletAllocation(4, evaluate_every=1, random_state=0).fit(X)
    model.partial_fit(X).transform(X)
    model.score(X)


def test_no_routine_is_compiled_twice(rng):
    X = rng.integers(4, size=(30, 12))
    for layout in (X, X.astype(np.float32), np.asfortranarray(X), sparse.csr_matrix(X)):
        model = LatentDirichletAllocation(3, max_iter=1, n_jobs=2, random_state=0).fit(layout)
        pickle.loads(pickle.dumps(model)).partial_fit(layout).score(layout)
    routines = [jit._sweep, jit._proportions, jit._log_bounds, jit._conditional]
    assert max(len(routine.signatures) for routine in routines) == 1


def test_a_pickled_model_goes_on_alike(rng):
    X, _ = synthetic(rng, n=60)
    model = LatentDirichletAllocation(4, total_samples=60, random_state=0).partial_fit(X[:30])
    copy = pickle.loads(pickle.dumps(model))
    before = model.posterior_.particles.copy()
    kept = model.posterior_
    assert_array_equal(model.partial_fit(X[30:]).components_, copy.partial_fit(X[30:]).components_)
    assert_array_equal(kept.particles, before)


def test_a_seed_and_a_random_state(rng):
    X, _ = synthetic(rng, n=60)
    model = LatentDirichletAllocation(4, random_state=3)
    first = model.fit(X).components_
    assert_array_equal(first, model.fit(X).components_)
    assert np.any(first != model.set_params(random_state=4).fit(X).components_)
    model.set_params(random_state=np.random.RandomState(3))
    assert np.any(model.fit(X).components_ != model.fit(X).components_)


def test_a_step_that_falls_short_of_the_likelihood_is_told(rng):
    X, _ = synthetic(rng, n=50)
    model = LatentDirichletAllocation(4, max_iter=1, n_sweeps=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="raise max_iter or n_sweeps"):
        model.fit(X)
    assert_allclose(model.posterior_power_, 2**-0.7)


# Degenerate and hostile input


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((3, 2), np.nan), "contains NaN"),
        (np.array([[1.0, np.inf]]), "infinity"),
        (np.full((3, 2), 1e300), "divide X by a constant"),
        (np.ones(3), "Expected 2D array"),
        (np.ones((0, 2)), "0 sample"),
        (np.array([["a", "b"]]), "X has text in it"),
    ],
)
def test_refused_in_words(X, message):
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(LatentDirichletAllocation(2), method)(X)


def test_another_number_of_columns_is_refused(blocks_of_words):
    model = LatentDirichletAllocation(3).fit(blocks_of_words)
    for method in ("transform", "score", "perplexity", "partial_fit"):
        with pytest.raises(ValueError, match="expecting 9 features"):
            getattr(model, method)(np.ones((2, 8)))


@pytest.mark.parametrize("prior", [1e-10, later(1e-3), 1e6])
@pytest.mark.parametrize(
    "X",
    [
        np.ones((1, 1)),
        np.array([[3.0, 0.0], [0.0, 0.0]]),
        np.full((2, 2), 1e9),
        np.full((4, 3), 1e-9),
        np.diag([1e9, 1e-9, 1.0]),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_degenerate_counts_give_a_finite_posterior(method, X, prior):
    model = LatentDirichletAllocation(
        2,
        doc_topic_prior=prior,
        topic_word_prior=prior,
        learning_method=method,
        evaluate_every=1,
        n_sweeps=8,
        random_state=0,
    ).fit(X)
    for _ in range(2):
        posterior = model.posterior_
        assert_allclose(posterior.weights.sum(), 1)
        assert_allclose(model.transform(X).sum(axis=1), 1)
        reported = [model.components_, model.exp_dirichlet_component_]
        with (
            nullcontext() if posterior.settled.all() else pytest.warns(UserWarning, match="sweeps")
        ):
            reported += [posterior.std(), posterior.quantile(0.9)]
            reported.append(posterior.sample(3, random_state=0))
        assert all(np.isfinite(array).all() for array in reported)
        assert np.isfinite(model.score(X)) and model.perplexity(X) >= 0.99
        model.partial_fit(X)


# Accuracy


def completion_perplexity(components, X, rng, alpha):
    """Halves of the words of each document: topics from one, perplexity of the other."""
    topics = components / components.sum(axis=1, keepdims=True)
    given = X.copy()
    given.data = rng.binomial(X.data.astype(int), 0.5).astype(float)
    hidden = X - given
    mass = jit.proportions(as_documents(given), words_first(topics), alpha, 100, 1e-4) + alpha
    rows, columns = hidden.nonzero()
    predicted = np.sum((mass / mass.sum(axis=1, keepdims=True))[rows] * topics.T[columns], axis=1)
    counts = np.asarray(hidden[rows, columns]).ravel()
    return np.exp(-counts @ np.log(predicted) / counts.sum())


@pytest.mark.slow
def test_perplexity_is_no_worse_than_variational_inference(rng):
    """Mean over six corpora drawn from the model, at the same passes."""
    ratios = []
    for k, n_words, beta in [(4, 60, 0.1), (8, 200, 0.05), (15, 300, 0.05)]:
        for n in (300, 600):
            X, _ = synthetic(rng, n=n + 100, k=k, n_words=n_words, beta=beta)
            found = []
            for model in (
                LatentDirichletAllocation(k, max_iter=5, n_sweeps=0, random_state=0),
                Variational(k, max_iter=5, learning_method="online", random_state=0),
            ):
                components = model.fit(X[:n]).components_
                found.append(
                    completion_perplexity(components, X[n:], np.random.default_rng(0), 1 / k)
                )
            ratios.append(found[0] / found[1])
    assert np.mean(ratios) <= 1.05


def test_held_out_perplexity_approaches_that_of_the_true_topics(rng):
    """As many documents of few topics as make them all but known."""
    X, topics = synthetic(rng, n=1100, k=3, n_words=30, beta=0.2)
    model = LatentDirichletAllocation(3, doc_topic_prior=0.1, random_state=0).fit(X[:1000])
    found, true = (
        completion_perplexity(components, X[1000:], np.random.default_rng(0), 0.1)
        for components in (model.components_, topics)
    )
    assert found < 1.03 * true


def test_counts_need_not_come_from_text():
    X, _ = make_multilabel_classification(n_samples=50, random_state=0)
    model = LatentDirichletAllocation(5, random_state=0).fit(X)
    assert model.transform(X).shape == (50, 5)
