"""Heavy tails: found by a look at the log density, followed by a short pilot of chains.

One direction may set the scale of all others: a precision that the prior or the noise leaves open,
or coefficients of separable rows. The Gaussian at the mode is then too narrow by a factor of two
and more, and particles that start there stay there. A few hundred log densities show whether this
is possible: at draws of that Gaussian, at their mirror images and twice as far out. If so, chains
are run; if they spread much further than the Gaussian, a `FunnelMap` is fitted to them, chains go
on in its coordinates, where they move fast, and it is fitted again. In these coordinates the
posterior is close to normal, and every engine works unchanged.

The rest of the tails can still mislead engines whose particles satisfy Stein's identities: a few
particles cannot represent a tail, and are too narrow although the identities hold. So these
particles are moved slightly, to the covariance and margins of the chains.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, block_diag
from scipy.optimize import minimize

from ..._statistics.quantiles import quantile_misfit
from ...diagnostics import ess, split_rhat
from ...samplers import HMC
from ...targets import Transformed
from ...targets.bijections import Composition, FunnelMap
from ...targets.transformed import of_model
from ...thinning.moments import match_moments
from .._building_blocks.particles import within_support

# Ordinary posteriors, even skewed ones, stay below these, except some of almost separable rows.
# Above them chains decide, which cost as much as an engine.
_MAX_ASYMMETRY = 0.25  # variance of half the difference of mirror images, per coordinate
_MAX_RISE = 0.12  # median excess over a normal of the log density twice as far out, per coordinate
_N_LOOKS = 64
# On all kinds of data, chains in which engines were right came to 1.12, or in few coordinates to
# 1.25; where engines were silently wrong, to 1.18 and more.
_MAX_SPREAD = 1.15
_MAX_SPREAD_OF_CHAINS = 1.5  # for engines that find such a posterior by themselves, in more time
_MOST_COORDINATES = 200  # beyond them a pilot cannot estimate a covariance
_MOST_ROWS = 10_000  # beyond them tails are those of a normal
_LOOK = 16, 50, 30  # chains, warm-up and draws that tell how far the posterior spreads
_N_CHAINS = 32
_N_WARMUP = 100, 50  # of chains before the map and after it
_N_DRAWS = 50, 150
_MOST_ROUNDS = 4  # of draws after the map
_MOST_MAPS = 3  # one in the other
_LEAST_GAIN = 0.02  # nats of a draw, for a further map
_MAX_RHAT = 1.05  # of the draws after the map
_LEAST_ESS = 400
_N_DENSITIES = 500  # of draws, which a mean of log densities takes


@dataclass
class Pilot:
    """Draws of chains, which give the coordinates and correct the particles.

    Attributes
    ----------
    draws : ndarray of shape (m, dim)
        In the coordinates that were found.
    ess : float
        The smallest effective sample size of a coordinate.
    rhat : float
        The largest split R-hat of a coordinate.
    density_shift : float
        By how much the mean log density of particles that were set right exceeds that of the draws,
        in standard deviations of the latter: margins can be set right one by one, and the joint
        distribution be wrong.
    misfit : float
        Largest error of their 5, 50 and 95 % points, in standard deviations, in the coordinates of
        the model, which need not be linear in those of the draws.
    """

    draws: np.ndarray
    ess: float
    rhat: float
    density_shift: float = 0.0
    misfit: float = 0.0

    @property
    def mixed(self):
        return self.rhat <= _MAX_RHAT and self.ess >= _LEAST_ESS

    def calibrated(self, posterior, target):
        """A posterior in the same coordinates, with the covariance and the margins of the draws.

        If that would leave the support of the ``target`` it stays as it is.
        """
        weights, points = posterior.weights, posterior.particles.copy()
        with suppress(LinAlgError):  # too few particles have no covariance
            mean, covariance = self.draws.mean(axis=0), np.cov(self.draws.T)
            points = match_moments(points, mean, covariance, weights)
        order = np.argsort(points, axis=0)
        sorted_weights = weights[order]
        levels = np.cumsum(sorted_weights, axis=0) - 0.5 * sorted_weights
        known = (np.arange(len(self.draws)) + 0.5) / len(self.draws)
        for j, margin in enumerate(np.sort(self.draws, axis=0).T):
            points[order[:, j], j] = np.interp(levels[:, j], known, margin)
        value = target.log_density(points)
        if np.isfinite(value).all():
            of_draws = target.log_density(self.draws[:: max(1, len(self.draws) // _N_DENSITIES)])
            self.density_shift = float((weights @ value - of_draws.mean()) / of_draws.std())
            posterior.particles, posterior.log_densities, posterior.scores = points, value, None
            self.compare(posterior, target)
        return posterior

    def compare(self, posterior, target):
        """Set ``misfit`` to that of a posterior in the same coordinates."""
        points, draws = of_model(target, posterior.particles), of_model(target, self.draws)
        self.misfit = quantile_misfit(points, posterior.weights, draws)


def follow_tails(target, frame, calibrated):
    """The frame, in coordinates that follow heavy tails if there are any.

    Parameters
    ----------
    target : Target
    frame : Frame
    calibrated : bool
        Whether the chains correct particles, besides finding coordinates.

    Returns
    -------
    frame : Frame
    pilot : Pilot or None
        The result of the chains if tails are heavy.
    """
    working = Transformed(target, frame.bijection)
    rng = np.random.default_rng(0)  # coordinates that chains go on in must not change with the seed
    start = rng.standard_normal((_N_CHAINS, target.dim))
    if calibrated and getattr(target, "judged_by_chains", False):
        return frame, _pilot(working, start, rng)
    few = 1 < target.dim <= _MOST_COORDINATES and (target.n_rows or 0) <= _MOST_ROWS
    if not few or len(target.factors) > 1 or not _suspicious(working):
        return frame, None
    n_chains, n_warmup, n_draws = _LOOK
    draws = _chains(working, start[:n_chains], n_warmup, n_draws, rng)
    spread = np.sqrt(np.mean(draws**2, axis=(0, 1))).mean()  # about the mode
    if not spread > (_MAX_SPREAD if calibrated else _MAX_SPREAD_OF_CHAINS):
        return frame, None
    draws = _chains(working, start, _N_WARMUP[0], _N_DRAWS[0], rng)
    funnel, last = _fit_funnel(np.concatenate(draws)), draws[:, -1]
    pilot = _pilot(Transformed(working, funnel), funnel.inverse(last), rng)
    bijection, there = frame.bijection, funnel.forward(pilot.draws)
    for layer in range(_MOST_MAPS):
        funnel = _fit_funnel(there)
        z = funnel.inverse(there)
        gain = np.mean(0.5 * np.sum(there**2 - z**2, axis=1) - funnel.log_det(z))
        if layer and gain < _LEAST_GAIN:
            break
        bijection, there = Composition(bijection, funnel), z
    return replace(frame, bijection=bijection), replace(pilot, draws=there)


def _suspicious(working):
    """Whether tails may be heavy, by the log density at a few points in whitened coordinates."""
    # The same points for any seed, so that coordinates do not change with it.
    z = np.random.default_rng(0).standard_normal((_N_LOOKS, working.dim))
    points = np.concatenate([z, -z, 2.0 * z, np.zeros((1, working.dim))])
    value = np.nan_to_num(working.log_density(points), nan=-np.inf)
    near, mirrored, far = np.split(value[:-1], 3)
    finite = np.isfinite(near) & np.isfinite(mirrored)
    if finite.sum() < _N_LOOKS // 2:
        return True
    asymmetry = np.var(0.5 * (near - mirrored)[finite])
    rise = np.median(far - value[-1] + 2.0 * np.sum(z**2, axis=1))
    return max(asymmetry / _MAX_ASYMMETRY, rise / _MAX_RISE) > working.dim


def _chains(target, start, n_warmup, n_draws, rng):
    """Draws (n_chains, n_draws, dim) of chains from states to start at."""
    sampler = HMC()
    warm = sampler.warm_up(target, n_warmup, within_support(target, start), rng)
    return sampler.draw(target, n_draws, warm)[1]


def _pilot(target, start, rng):
    """Chains in coordinates in which they move fast, until they determine the margins."""
    sampler, draws = HMC(), []
    chains = sampler.warm_up(target, _N_WARMUP[1], within_support(target, start), rng)
    for _ in range(_MOST_ROUNDS):
        draws.append(sampler.draw(target, _N_DRAWS[1], chains)[1])
        found = np.concatenate(draws, axis=1)
        rhat, least = float(split_rhat(found).max()), float(ess(found).min())
        pilot = Pilot(np.concatenate(found), least, rhat)
        if pilot.mixed:
            break
    return pilot


def _fit_funnel(draws):
    """The `FunnelMap` from standard normal coordinates that fits draws of a posterior.

    Its first coordinate is the direction along which the logarithm of the distance from the mean
    grows; the others are whitened given it.

    Parameters
    ----------
    draws : ndarray of shape (m, dim)

    Returns
    -------
    FunnelMap
    """
    dim = draws.shape[1]
    location = draws.mean(axis=0)
    whitener = np.linalg.cholesky(np.cov(draws.T).reshape(dim, dim))
    y = np.linalg.solve(whitener, (draws - location).T).T
    size = np.log(np.einsum("ij,ij->i", y, y))
    # Clipped, so that one draw far out does not turn the axis.
    basis = _basis(np.clip(y, -3.0, 3.0).T @ (size - size.mean()))
    y = y @ basis
    tail = _fit_tail(y[:, 0])
    first = np.sinh(np.exp(tail[3]) * np.arcsinh((y[:, 0] - tail[0]) / np.exp(tail[1])) - tail[2])
    features, rest, growth = FunnelMap.features(first), y[:, 1:], np.zeros(2)
    design = np.column_stack([np.ones(len(y)), features])
    for _ in range(3):
        precision = np.exp(-features @ growth)[:, None]
        bend = np.linalg.lstsq(design * precision, rest * precision)[0]
        growth = _fit_growth(features, np.mean((rest - design @ bend) ** 2, axis=1))
    rest = (rest - design @ bend) * np.exp(-features @ growth)[:, None]
    scale = np.linalg.cholesky(np.cov(rest.T).reshape(dim - 1, dim - 1))
    location += whitener @ basis[:, 1:] @ bend[0]  # heavy tails move a mean
    bend = np.linalg.solve(scale, bend[1:].T).T
    return FunnelMap(location, whitener @ basis @ block_diag(1.0, scale), tail, growth, bend)


def _basis(axis):
    """An orthogonal matrix with its first column along ``axis``, else as near to axes as can be."""
    axis = axis / np.linalg.norm(axis)
    normal = axis.copy()
    normal[0] += np.copysign(1.0, axis[0])
    normal /= np.linalg.norm(normal)
    basis = np.eye(len(axis)) - 2.0 * np.outer(normal, normal)
    basis[:, 0] = axis
    return basis


def _fit_tail(y):
    """Location, log scale, skewness and log tail weight of a sinh-arcsinh distribution of ``y``."""

    def negative(parameters):
        xi, log_eta, kappa, log_delta = parameters
        scaled = (y - xi) / np.exp(log_eta)
        angle = np.exp(log_delta) * np.arcsinh(scaled) - kappa
        value = 0.5 * np.sinh(angle) ** 2 - np.log(np.cosh(angle)) + 0.5 * np.log1p(scaled**2)
        # A normal is the limit of many such distributions: the nearest is taken.
        return np.mean(value) + log_eta - log_delta + 0.01 * (kappa**2 + log_delta**2)

    low, middle, high = np.quantile(y, [0.25, 0.5, 0.75])
    start = [middle, np.log((high - low) / 1.349), 0.0, 0.0]
    bounds = [(None, None), (None, None), (-3.0, 3.0), (-3.0, 0.7)]
    return minimize(negative, start, method="L-BFGS-B", bounds=bounds).x


def _fit_growth(features, square):
    """How the logarithm of the scale of the others grows, from mean squares, shape (2,)."""

    def negative(parameters):
        log_scale = parameters[0] + features @ parameters[1:]
        return np.mean(log_scale + 0.5 * square * np.exp(-2.0 * log_scale))

    bounds = [(None, None), (-3.0, 3.0), (-1.0, 1.0)]
    return minimize(negative, np.zeros(3), method="L-BFGS-B", bounds=bounds).x[1:]
