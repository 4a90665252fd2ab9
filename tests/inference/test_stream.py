"""Streams of rows, `infer` and then `update`, against a conjugate model and importance weights."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skstein import LogDensity, infer
from skstein.inference import PMD, update
from skstein.targets import LogisticTarget, Target, laplace_approximation
from small import later

# How well a short stream does is what the tests compare with a truth.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class NormalMean(Target):
    """Rows N(theta, noise^2 I) of a mean with prior N(0, I): values alone, and a closed form."""

    def __init__(self, x, noise=2.0):
        self.x, self.noise = x, noise
        self.n_rows, self.dim = x.shape

    def log_prior(self, theta):
        return -0.5 * (theta**2).sum(axis=1) - 0.5 * self.dim * np.log(2 * np.pi)

    def log_likelihood(self, theta, rows=None):
        x = self.x if rows is None else self.x[rows]
        squares = (x**2).sum() - 2 * theta @ x.sum(axis=0) + len(x) * (theta**2).sum(axis=1)
        return -0.5 * squares / self.noise**2 * self.n_rows / len(x)

    def sample_prior(self, rng, m):
        return rng.normal(size=(m, self.dim))


def exact(x, noise=2.0):
    """Mean (dim,) and standard deviation of the posterior."""
    precision = 1 + len(x) / noise**2
    return x.sum(axis=0) / noise**2 / precision, 1 / np.sqrt(precision)


def rows_of(rng, n=3000, dim=3):
    return rng.normal(size=dim) + 2.0 * rng.normal(size=(n, dim))


def stream(x, engine, first, chunk, seed, passes=1):
    """The posterior after each chunk."""
    pieces = [NormalMean(part) for part in np.split(x, range(first, len(x), chunk))] * passes
    posteriors = [infer(pieces[0], engine, random_state=seed)]
    for piece in pieces[1:]:
        posteriors.append(update(posteriors[-1], piece, engine))
    return posteriors


def error_of(posterior, x):
    mean, sd = exact(x)
    return np.sqrt(np.mean((posterior.mean() - mean) ** 2)) / sd


@pytest.mark.parametrize(("first", "chunk"), [(1000, 1000), (100, 100), (3, 700)])
def test_every_posterior_on_the_way_is_that_of_the_rows_so_far(first, chunk, rng, seed):
    """Off by a tenth of a standard deviation, or some tenths after a chunk unlike the others.

    A chunk left out, or taken twice, would put the mean off by more than its own distance from the
    others, and the standard deviation by a fifth and more.
    """
    x = rows_of(rng)
    for posterior in stream(x, PMD(4000), first, chunk, seed):
        n_seen = posterior.diagnostics["n_seen"]
        assert error_of(posterior, x[:n_seen]) < 0.6
        assert_allclose(posterior.std() / exact(x[:n_seen])[1], 1.0, atol=0.15)
    assert n_seen == 3000


def test_the_order_of_the_rows_is_of_no_matter_where_chunks_agree(rng, seed):
    """Sorted by distance from the middle, so that no chunk contradicts the others."""
    x = rows_of(rng)
    x = x[np.argsort(((x - x.mean(axis=0)) ** 2).sum(axis=1))]
    assert error_of(stream(x, PMD(4000), 300, 300, seed)[-1], x) < 0.6


def test_a_stream_that_contradicts_itself_is_reported(rng, seed):
    """Sorted by class: every chunk pulls many standard deviations away."""
    chunks, mean, sd = logistic_chunks(rng, 2000, 3, 500, by_class=True)
    posterior = infer(chunks[0], PMD(400), random_state=seed)
    for chunk in chunks[1:-1]:
        posterior = update(posterior, chunk, PMD(400))
    with pytest.warns(ConvergenceWarning, match=r"does not fit where .* in random order"):
        posterior = update(posterior, chunks[-1], PMD(400))
    assert np.abs((posterior.mean() - mean) / sd).max() > 2


def test_a_quadratic_is_remembered_exactly(rng, seed):
    """Sorted by the first coordinate, and right all the same: such likelihoods are quadratic."""
    x = rows_of(rng)
    x = x[np.argsort(x[:, 0])]
    posterior = stream(x, PMD(400), 100, 100, seed)[-1]
    assert error_of(posterior, x) < 1e-6
    assert_allclose(posterior.std() / exact(x)[1], 1.0, atol=0.2)


def logistic_chunks(rng, n, dim, size, by_class=False):
    """Targets of the rows in chunks, and mean and standard deviations of the Gaussian at the mode
    of all."""
    X = rng.normal(size=(n, dim - 1))
    y = (0.5 + X @ rng.normal(size=dim - 1) + rng.logistic(size=n) > 0).astype(float)
    if by_class:
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    laplace = laplace_approximation(LogisticTarget(X, y))
    chunks = [LogisticTarget(X[k : k + size], y[k : k + size]) for k in range(0, n, size)]
    return chunks, laplace.mode, np.sqrt(laplace.variances())


def test_ten_coordinates_in_one_pass(rng, seed):
    """Within a tenth of a standard deviation; by draws alone the error grew with the chunks."""
    chunks, mean, sd = logistic_chunks(rng, 40_000, 10, 2000)
    posterior = infer(chunks[0], PMD(400), random_state=seed)
    for chunk in chunks[1:]:
        posterior = update(posterior, chunk, PMD(400))
    error = (posterior.mean() - mean) / sd
    assert np.sqrt(np.mean(error**2)) < 0.1
    assert np.mean(posterior.std() / sd) == pytest.approx(1.0, abs=0.05)


def test_the_halves_tell_a_part_of_the_error(rng, seed):
    """Not what both remember in common: of pieces of ten rows, about a third."""
    X = rng.normal(size=(60, 3))
    y = 3.0 * X[:, 0] + rng.logistic(size=60) > 0
    pieces = [LogisticTarget(*piece) for piece in zip(np.split(X, 6), np.split(y, 6), strict=True)]
    ends = []
    for k in range(8):
        posterior = infer(pieces[0], PMD(200), random_state=100 * seed + k)
        for piece in pieces[1:]:
            posterior = update(posterior, piece, PMD(200))
        ends.append(posterior)
    told = np.sqrt(np.mean([end.diagnostics["mc_error"] ** 2 for end in ends]))
    true = np.std([end.mean() for end in ends], axis=0, ddof=1) / ends[0].std()
    assert 0.1 < told / np.sqrt(np.mean(true**2)) < 1.5


def test_a_further_pass_leaves_the_error_of_importance_sampling(rng, seed):
    """The weights are those of the posterior of all rows over the density of the draws."""
    x = rows_of(rng)
    first, second = (
        stream(x, PMD(4000, n_total=3000, n_weighted=2000), 500, 500, seed, passes)[-1]
        for passes in (1, 2)
    )
    (state,) = second.state.parts
    log_posterior = NormalMean(x).log_density(second.particles)
    assert_allclose(state.log_q, log_posterior, rtol=1e-9)
    assert len(second) == 2000
    ess = 1 / np.sum(second.weights**2)
    assert error_of(second, x) < 5 / np.sqrt(ess)
    assert second.diagnostics["mc_error"] == pytest.approx(1 / np.sqrt(ess))
    assert second.diagnostics["posterior_power"] == 1.0
    assert second.n_iter == first.n_iter + 6


def test_within_a_further_pass_the_posterior_stays(rng, seed):
    x = rows_of(rng)
    posteriors = stream(x, PMD(1000, n_total=3000), 500, 500, seed, passes=3)
    for k in range(6, 11):
        assert_array_equal(posteriors[k].particles, posteriors[5].particles)
        assert posteriors[k].n_iter == posteriors[5].n_iter + k - 5
    assert not np.array_equal(posteriors[11].particles[:5], posteriors[5].particles[:5])


def test_a_pass_whose_weights_degenerate_says_so_until_one_does_not(rng, seed):
    """Forty particles in ten coordinates; the flattened weights keep a tenth of them."""
    x = rows_of(rng, n=400, dim=10)
    posteriors = stream(x, PMD(40, n_total=400), 200, 200, seed, passes=3)
    for posterior in posteriors[3:]:
        assert 1 / np.sum(posterior.weights**2) >= 0.1 * 40 - 1e-6
    assert posteriors[3].diagnostics["message"] == posteriors[4].diagnostics["message"]
    degenerate = [not posterior.converged for posterior in posteriors[3::2]]
    flat = [1 / np.sum(posterior.weights**2) < 4.01 for posterior in posteriors[3::2]]
    assert degenerate == flat


def test_rows_that_span_two_passes_are_refused(rng, seed):
    x = rows_of(rng)
    engine = PMD(1000, n_total=1200)
    posterior = infer(NormalMean(x[:1000]), engine, random_state=seed)
    with pytest.raises(ValueError, match=r"these 500 rows .* n_total=1200 rows, of which 200 are"):
        update(posterior, NormalMean(x[1000:1500]), engine)
    assert update(posterior, NormalMean(x[1000:1200]), engine).diagnostics["n_seen"] == 1200


def test_an_earlier_posterior_is_left_as_it_was(rng, seed):
    """The same rows lead from it to the same particles, from a pickle of it too."""
    x = rows_of(rng)
    engine = PMD(1000, n_total=3000)
    for posterior in stream(x, engine, 1000, 500, seed, passes=2)[2:9:3]:
        particles, weights = posterior.particles.copy(), posterior.weights.copy()
        piece = NormalMean(x[:500])
        results = [update(p, piece, engine) for p in (posterior, posterior)]
        results.append(update(pickle.loads(pickle.dumps(posterior)), piece, engine))
        assert_array_equal(posterior.particles, particles)
        assert_array_equal(posterior.weights, weights)
        for result in results[1:]:
            assert_array_equal(result.particles, results[0].particles)
            assert_array_equal(result.weights, results[0].weights)


def test_the_history_goes_on(rng, seed):
    posterior = stream(rows_of(rng), PMD(1000, max_iter=4), 1000, 500, seed)[-1]
    history = posterior.history
    assert {len(values) for values in history.values()} == {4 + 4}
    assert_array_equal(history["n_visited"][-4:], [1500, 2000, 2500, 3000])
    assert (np.diff(history["n_resampled"]) >= 0).all()
    assert (history["ess"] <= 1000 + 1e-6).all()
    assert posterior.n_iter == 8


@pytest.mark.parametrize("jobs", [later(2), 3])
def test_a_stream_does_not_depend_on_the_number_of_jobs(jobs, rng, seed):
    X = rng.normal(size=(40_000, 2))
    y = (X[:, 0] + rng.logistic(size=40_000) > 0).astype(float)
    first = infer(LogisticTarget(X[:500], y[:500]), PMD(500), random_state=seed)
    target = LogisticTarget(X[500:], y[500:])
    one, several = (update(first, target, PMD(500), n_jobs=n) for n in (1, jobs))
    assert_array_equal(one.particles, several.particles)
    assert_array_equal(one.weights, several.weights)


def test_the_number_of_particles_may_change(rng, seed):
    x = rows_of(rng)
    posterior = infer(NormalMean(x[:100]), PMD(400), random_state=seed)
    posterior = update(posterior, NormalMean(x[100:]), PMD(1001))
    assert len(posterior) == 1001


def test_what_cannot_be_updated_is_refused(rng, seed):
    x = rows_of(rng)
    engine = PMD(500)
    posterior = infer(NormalMean(x[:100]), engine, random_state=seed)
    piece = NormalMean(x[100:200])
    with pytest.raises(ValueError, match="SVGD cannot learn from more rows"):
        update(posterior, piece, "svgd")
    with pytest.raises(ValueError, match="was not made by PMD"):
        update(posterior.thin(100), piece, engine)
    with pytest.raises(ValueError, match="other coordinates"):
        update(posterior, NormalMean(x[:100, :2]), engine)
    density = LogDensity(lambda theta: -0.5 * (theta**2).sum(1), dim=3)
    with pytest.raises(ValueError, match="without n_rows has no rows"):
        update(posterior, density, engine)
    tighter = NormalMean(x[100:200])
    tighter.log_prior = lambda theta: -(theta**2).sum(axis=1)
    with pytest.raises(ValueError, match="the prior is not the one that the rows before were"):
        update(posterior, tighter, engine)
    with pytest.raises(ValueError, match="n_particles=8 must be at least 10 in 3 coordinates"):
        update(posterior, piece, PMD(8))


def test_plain_kernels_are_reported_in_a_stream(rng, seed):
    x = rows_of(rng, 600)
    engine = PMD(400, kernel="plain")
    posterior = infer(NormalMean(x[:300]), engine, random_state=seed)
    with pytest.warns(ConvergenceWarning, match="plain kernels widen the particles"):
        update(posterior, NormalMean(x[300:]), engine)
