"""Particle Mirror Descent on a posterior of two modes, against its exact density.

The mixture of appendix H.1 of Dai, He, Dai & Song (2016): 1,000 observations of
0.5 N(theta_1, 2.5^2) + 0.5 N(theta_1 + theta_2, 2.5^2) with standard normal priors, made at
(1, -2); the other mode is at (-1, 2). For every method the table gives total variation and
Kullback-Leibler divergence of a kernel density estimate of its particles from the posterior, both
on a grid, the error of the mass of a mode, and how often each row was visited.

The estimate has a bandwidth for each mode (they are told apart at theta_2 = 0), Silverman's. The
first row of the table is what it makes of exact draws: nothing can be told apart below that.

Usage::

    python examples/benchmarks/pmd_mixture.py --seeds 0 1 2
"""

import argparse
import time
import warnings

import numpy as np
from scipy.special import expit

from skstein import ParticlePosterior, infer
from skstein.inference import PMD, SVGD, LaplaceDraws, update
from skstein.samplers import MALA, SGLD
from skstein.targets import Target

N_ROWS, N_PARTICLES, BATCH, SIGMA = 1000, 1500, 10, 2.5
EPOCHS = (1, 2, 3, 5, 10)
SVGD_PASSES = 300


class MixtureTarget(Target):
    """Means theta_1 and theta_1 + theta_2 of two normals with known variance and equal shares."""

    dim = 2

    def __init__(self, x):
        self.x, self.n_rows = x, len(x)

    def sample_prior(self, rng, m):
        return rng.standard_normal((m, 2))

    def log_prior(self, theta):
        return -0.5 * np.sum(theta**2, axis=1) - np.log(2 * np.pi)

    def _log_parts(self, theta, rows):
        x = self.x if rows is None else self.x[rows]
        first = x - theta[:, :1]
        second = first - theta[:, 1:]
        return first, second, -0.5 * (first / SIGMA) ** 2, -0.5 * (second / SIGMA) ** 2

    def log_likelihood(self, theta, rows=None):
        first, _, *log_parts = self._log_parts(theta, rows)
        return np.logaddexp(*log_parts).sum(axis=1) * self.n_rows / first.shape[1]

    def score(self, theta, rows=None):
        first, second, log_first, log_second = self._log_parts(theta, rows)
        share = expit(log_second - log_first)
        pull_second = (share * second).sum(axis=1)
        pull_first = ((1 - share) * first).sum(axis=1) + pull_second
        pulls = np.stack([pull_first, pull_second], axis=1) / SIGMA**2
        return pulls * self.n_rows / first.shape[1] - theta


def make_data(seed):
    rng = np.random.default_rng([seed, 1])
    return 1.0 - 2.0 * rng.integers(2, size=N_ROWS) + SIGMA * rng.standard_normal(N_ROWS)


class Grid:
    """The exact posterior on a grid of cells, and how far particles are from it."""

    def __init__(self, target):
        axes = np.linspace(-2.5, 2.5, 151), np.linspace(-4.5, 4.5, 226)
        self.sides = np.array([axis[1] - axis[0] for axis in axes])
        self.points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=2).reshape(-1, 2)
        pieces = np.array_split(self.points, 40)
        log_density = np.concatenate([target.log_density(piece) for piece in pieces])
        self.mass = np.exp(log_density - log_density.max())
        self.mass /= self.mass.sum()

    def sample(self, rng, m):
        cells = rng.choice(len(self.mass), size=m, p=self.mass)
        return self.points[cells] + self.sides * (rng.random((m, 2)) - 0.5)

    def estimate(self, posterior):
        """Mass of each cell under a kernel density estimate with a bandwidth for each mode."""
        theta, weights = posterior.particles, posterior.weights
        total = np.zeros(len(self.points))
        for side in (theta[:, 1] < 0, theta[:, 1] >= 0):
            share = weights[side].sum()
            if np.count_nonzero(weights[side]) < 5:
                continue
            part = ParticlePosterior(theta[side], weights[side] / share)
            bandwidth = np.sum(part.weights**2) ** (1 / 6)  # Silverman, of the effective size
            root = np.linalg.cholesky(bandwidth**2 * part.cov() + 1e-12 * np.eye(2))
            centres = np.linalg.solve(root, part.particles.T).T
            cells = np.linalg.solve(root, self.points.T).T
            scale = share * self.sides.prod() / (2 * np.pi * np.prod(np.diag(root)))
            for piece in np.array_split(np.arange(len(cells)), 20):
                squares = np.zeros((len(piece), len(centres)))
                for j in range(2):
                    squares += np.subtract.outer(cells[piece, j], centres[:, j]) ** 2
                total[piece] += scale * np.exp(-0.5 * squares) @ part.weights
        return total / total.sum()

    def distances(self, posterior):
        """Total variation, Kullback-Leibler divergence and the error of the mass of a mode."""
        estimate = self.estimate(posterior)
        logs = np.log(np.maximum(self.mass, 1e-300)) - np.log(np.maximum(estimate, 1e-300))
        below = posterior.weights[posterior.particles[:, 1] < 0].sum()
        return (
            0.5 * np.abs(self.mass - estimate).sum(),
            np.sum(self.mass * logs),
            abs(below - self.mass[self.points[:, 1] < 0].sum()),
        )


def mirror_descent(target, seed, **params):
    """Posteriors of PMD by the number of passes, the last one final."""
    engine = PMD(N_PARTICLES, batch_size=BATCH, max_iter=EPOCHS[-1], **params)
    per_epoch, found = N_ROWS // BATCH, {}

    def keep(iteration, total, make_posterior, info):
        if iteration % per_epoch == 0 and iteration // per_epoch in EPOCHS[:-1]:
            found[iteration // per_epoch] = make_posterior()

    found[EPOCHS[-1]] = infer(target, engine, random_state=seed, callback=keep)
    return found


def one_pass(target, seed):
    """Sequential Monte Carlo: every batch is taken in once, by Bayes' rule."""
    batches = [MixtureTarget(x) for x in np.split(target.x, N_ROWS // BATCH)]
    engine = PMD(N_PARTICLES, n_moves=0, strategy="kde", max_iter=1, step_size=lambda t, n: 1.0)
    posterior = infer(batches[0], engine, random_state=seed)
    for batch in batches[1:]:
        posterior = update(posterior, batch, engine)
    return posterior


def chain(sampler, n_warmup, target, seed):
    """One chain, of as many draws as there are particles."""
    rng = np.random.default_rng(seed)
    chains = sampler.warm_up(target, n_warmup, target.sample_prior(rng, 1), rng)
    draws = sampler.draw(target, N_PARTICLES, chains)[1]
    return ParticlePosterior(draws.reshape(-1, 2))


def langevin(target, seed):
    return chain(SGLD(step_size=3e-4, thinning=1, batch_size=BATCH), 1000, target, seed)


def adjusted_langevin(target, seed):
    return chain(MALA(), 500, target, seed)


def stein(target, seed):
    """A third of the particles: its costs grow with their square."""
    engine = SVGD(N_PARTICLES // 3, whiten=False, learning_rate=0.1, max_iter=SVGD_PASSES)
    start = target.sample_prior(np.random.default_rng(seed), engine.n_particles)
    return infer(target, engine, init=start, random_state=seed)


def gauss(target, seed):
    return infer(target, LaplaceDraws(N_PARTICLES), random_state=seed)


def compare(seed):
    """Rows (label, passes, TV, KL, mass error, seconds) of one data set."""
    target = MixtureTarget(make_data(seed))
    grid = Grid(target)
    rng = np.random.default_rng(seed)
    yield "exact draws", 0, *grid.distances(ParticlePosterior(grid.sample(rng, N_PARTICLES))), 0.0
    for label, params in (
        ("PMD", {}),
        ("PMD, 2 / (t + 100)", {"step_size": lambda t, n: 2 / (t + 100)}),
        ("PMD, 1 / (100 + sqrt t)", {"step_size": "inverse-sqrt"}),
    ):
        start = time.perf_counter()
        found = mirror_descent(target, seed, **params)
        seconds = time.perf_counter() - start
        for epochs, posterior in sorted(found.items()):
            yield label, epochs, *grid.distances(posterior), seconds if epochs == 10 else np.nan
    for label, method, passes in (
        ("one-pass SMC", one_pass, 1),
        ("SGLD, one chain", langevin, 25),
        ("MALA, one chain", adjusted_langevin, 2000),
        ("SVGD", stein, SVGD_PASSES),
        ("Laplace draws", gauss, np.nan),
    ):
        start = time.perf_counter()
        posterior = method(target, seed)
        seconds = time.perf_counter() - start
        yield label, passes, *grid.distances(posterior), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")  # a chain in one mode and a Gaussian are part of the comparison
    rows = {}
    for seed in seeds:
        for label, passes, *numbers in compare(seed):
            rows.setdefault((label, passes), []).append(numbers)
    print(f"{'method':<25}{'passes':>7}{'TV':>7}{'max':>7}{'KL':>7}{'mass':>7}{'max':>7}{'s':>7}")
    for (label, passes), numbers in rows.items():
        tv, kl, mass, seconds = np.array(numbers).T
        print(
            f"{label:<25}{passes:>7g}{tv.mean():>7.3f}{tv.max():>7.3f}{kl.mean():>7.2g}"
            f"{mass.mean():>7.3f}{mass.max():>7.3f}{seconds.mean():>7.1f}"
        )


if __name__ == "__main__":
    main()
