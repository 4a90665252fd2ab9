"""Particles: how many there are, where they start, and work on them piece by piece."""

import numpy as np
from scipy.linalg import solve_triangular

# Entries times rows. Two to five milliseconds of work: a dispatch costs a tenth of one, and a cut
# in four a few per cent.
_WORTH_A_DISPATCH = 1e7


def automatic_particles(n_particles, dim, least=150, cap=500, each=2):
    """The number of particles for "auto": ``max(least, each dim)``, at most ``cap``."""
    return min(max(least, each * dim), cap) if isinstance(n_particles, str) else int(n_particles)


def repelling_particles(n_particles, dim, least=150, each=3):
    """As many where particles repel each other: fewer spread sums of coordinates too far."""
    return automatic_particles(n_particles, dim, least, 1500, each)


def first_particles(target, rng, m, init):
    """``m`` particles: those of ``init``, as far as they go, and draws of the Gaussian start.

    Two equal particles never separate under a repulsive kernel, so ``init`` is not repeated:
    missing particles are drawn from the start, with the draws that a run without ``init`` would
    have there.
    """
    theta = target.sample_start(rng, m)
    if init is not None:
        theta[: len(init)] = init[:m]
    return theta


def of_unit_moments(z):
    """Standard normal draws (m, dim) with second moments exactly the identity, if m exceeds dim."""
    if len(z) <= z.shape[1]:
        return z
    return solve_triangular(np.linalg.cholesky(z.T @ z / len(z)), z.T, lower=True).T


def antithetic_normals(rng, m, dim):
    """Standard normal draws (m, dim) in pairs ``z, -z``, if m is large enough of unit moments."""
    half = of_unit_moments(rng.standard_normal(((m + 1) // 2, dim)))
    return (np.repeat(half, 2, axis=0) * np.resize([[1.0], [-1.0]], (2 * len(half), 1)))[:m]


def within_support(target, start):
    """``start`` (m, dim), with states of no density replaced by others, if some have one."""
    inside = np.isfinite(target.log_density(start))
    return start if inside.all() or not inside.any() else np.resize(start[inside], start.shape)


def draw_rows(target, rng):
    """Rows of a minibatch for a stochastic target; None for all rows."""
    if not target.stochastic:
        return None
    return rng.choice(target.n_rows, size=target.batch_size, replace=False)


def in_chunks(map, function, particles, n_rows):
    """``function`` of particles, piece by piece if the pieces are worth a dispatch.

    The cut depends on the sizes alone, never on the number of workers.
    """
    work = particles.size * (n_rows or 1)
    if work < _WORTH_A_DISPATCH or len(particles) < 64 or getattr(map, "whole", False):
        return function(particles)
    results = list(map(function, np.array_split(particles, 4)))
    if isinstance(results[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*results, strict=True))
    return np.concatenate(results)
