"""The check at the end of every fit: do the particles satisfy Stein's identities?

Under the posterior, ``E[g_j] = 0``, ``E[(z_j - mean_j) g_j] = -1`` and ``E[(z_j^2 - 1) g_j + 2 z_j]
= 0`` for the score ``g`` in whitened coordinates. If a coordinate misses them by more than its
Monte-Carlo error allows, and by enough to matter, the fit warns. Errors of the mean below about a
tenth of a standard deviation are not detectable in this way, and engines that solve the first two
on their particles (SVGD, FWSS) satisfy them when they are wrong, as they do when stopped too early;
the third, which they do not solve, then shows that a skewed coordinate is too short. These engines,
and all that stay near their start, are also compared with importance-weighted draws from that
start, as all engines are in few coordinates of few rows: there these show where the particles
should be, in many at least how far the posterior is from the start.

Last, each particle may move along its ray from the mode, to a draw from the density on that ray.
This move leaves the posterior unchanged. If it leads particles outwards on average, they lie too
near the mode, as particles do that cannot follow a heavy tail.
"""

import numpy as np
from numpy.linalg import LinAlgError
from scipy.interpolate import CubicSpline
from scipy.special import softmax
from sklearn.utils import Bunch

from ...posterior import weighted_quantile
from ...targets import Transformed
from ...targets.base import NotANumber
from .working_coordinates import start_elsewhere

MAX_PARTICLES = 1000  # the check needs no more
# Enough to detect a mean error of .35 standard deviations. Prime, so that an even stride through
# pooled chains does not pick only a few of them.
FEW_PARTICLES = 151
MAX_SHRINKAGE = 0.1
MAX_SKEW = 0.7  # of the third moment of a standard normal
MAX_MISMATCH = 1.2
MIN_EFFICIENCY = 0.4
MAX_MISFIT = 0.67  # points that were right came to .63, those that were wrong to .70 and more
MAX_OWN_MISFIT = 0.45  # of points that chains did not correct: right ones came to .4
MAX_SHIFT = 0.1  # of the share of particles below a quantile
MAX_STRETCH = 0.2  # of the logarithm of the distance between the 10 and 90 % points
MAX_NARROWING = 0.1  # of the logarithm of the mean distance from the median; right ones came to .09
_FARTHEST = 4.0  # such distance, in units of that between the 10 and 90 % points
MAX_RADIAL_SHIFT = 0.07  # of the logarithm of the distance from the mode
# Particles with the margins of chains that were right came to .56; those that were wrong in
# products of coordinates to .8 and more.
MAX_DENSITY_SHIFT = 0.75  # of the mean log density, in standard deviations
_N_RAYS, _FEW_RAYS = 101, 11  # fewer tell nothing
_RADII = np.linspace(-np.log(4.0), np.log(4.0), 16)  # logarithms, in units of the median radius
_FINE = np.linspace(_RADII[0], _RADII[-1], 151)
_LEVELS = np.array([0.1, 0.5, 0.9])
_COMPARED_UP_TO = 10  # coordinates, beyond which the error of importance weights is not known
_MOST_TERMS = 5 * 10**7  # rows times particles; more would cost as much as some engines do
_FEW_ROWS = 100  # up to which draws add less than a tenth to the time of chains
_CHEAP_UP_TO = 10_000  # rows up to which a density is cheap: more draws then see smaller errors


def affordable_particles(target, most=MAX_PARTICLES):
    """Of how many particles a check may ask the log density: ``most``, or few on very many rows."""
    n_rows = 0 if getattr(target, "sufficient", False) else target.n_rows or 0
    return min(most, max(_MOST_TERMS // max(n_rows, 1), FEW_PARTICLES))


def most_scored(engine, target):
    """How many particles are scored on all rows; after minibatches that is most of a fit's cost."""
    return affordable_particles(target) if engine.batch_size is None else FEW_PARTICLES


def judge(posterior, target, engine, frame, start, pilot, near):
    """Note if a posterior misses Stein's identities, or is known to be out of reach.

    It has then not ``converged``, and the ``message`` of its diagnostics has all reasons.

    Parameters
    ----------
    posterior : ParticlePosterior
        In the target's own coordinates; its ``diagnostics`` are added to.
    target : Target
    engine : Engine
    frame : Frame
    start : StartDraws or None
        For an engine that stays near its start, and where they are cheap.
    pilot : Pilot or None
        Chains that found the coordinates, if tails are heavy. Particles that these have corrected
        no longer satisfy Stein's identities, so the chains are judged instead.
    near : bool
        Whether the engine stays near its start.
    """
    names, numbers = np.array(target.names), posterior.diagnostics
    most = most_scored(engine, target)
    many = posterior.scores is None and len(posterior) > most
    subset = posterior.thin(most) if many else posterior
    scores = target.score(subset.particles) if subset.scores is None else subset.scores
    z = frame.bijection.inverse(subset.particles)
    residuals = stein_residuals(z, frame.bijection.pull_score(z, scores), subset.weights)
    shrinkage, one_sided = residuals.shrinkage, names[frame.one_sided]
    shift = radial_shift(Transformed(target, frame.bijection), z, subset.weights)
    numbers |= {
        "stein_mean_residual": residuals.mean,
        "stein_spread_residual": residuals.spread,
        "stein_skew_residual": residuals.skew,
        "one_sided": one_sided,
        "shrinkage": shrinkage,
        "radial_shift": shift,
    }
    mapped = engine.whiten and engine.one_sided
    mixed = pilot is not None and pilot.mixed
    judged = not (mixed and engine.calibrated)
    flagged = residuals.flagged & judged
    findings = [
        (
            len(one_sided) and not mapped,
            f"the posterior is one-sided in {', '.join(one_sided)} and the engine ran without the "
            "map for it (whiten=True, one_sided=True)",
        ),
        (flagged.any(), "Stein's identities fail for some coordinates"),
        (near and len(posterior) < 2 * target.dim, "fewer than two particles per coordinate"),
        (judged and shrinkage > 0, "standard deviations are too small on average"),
        (judged and shrinkage < 0, "standard deviations are too large on average"),
        (judged and shift > 0, "the particles lie too near the mode"),
        (judged and shift < 0, "the particles lie too far from the mode"),
    ]
    if start is not None:
        contradicted = start.contradicted(posterior.particles, posterior.weights)
        flagged = flagged | contradicted
        numbers |= {"start_mismatch": start.mismatch, "start_efficiency": start.efficiency}
        far = near and (start.mismatch > MAX_MISMATCH or start.efficiency < MIN_EFFICIENCY)
        reason = "importance-weighted draws have another spread in some coordinates"
        findings += [
            (contradicted.any(), reason),
            (
                far and not mixed,  # chains that agree are better evidence
                "the posterior is far from the Gaussian start that the engine leans on (use pmfvb "
                "or mcmc, or a tighter prior)",
            ),
        ]
    if pilot is not None:
        shift = pilot.density_shift
        numbers |= {"pilot_rhat": pilot.rhat, "density_shift": shift, "pilot_misfit": pilot.misfit}
        where = f"the density is {'higher' if shift > 0 else 'lower'} than chains find it"
        disagree = not (mixed or engine.runs_chains)
        most_misfit = MAX_MISFIT if engine.calibrated else MAX_OWN_MISFIT
        findings += [
            (abs(shift) > MAX_DENSITY_SHIFT, f"the particles lie where {where}"),
            (pilot.misfit > most_misfit, "chains find other quantiles of some coefficients"),
            (disagree, "its tails are heavy, and the chains along them do not agree"),
        ]
    numbers["flagged"] = names[flagged]
    if frame.modes is not None:
        if start is not None:
            frame.modes.search(start.heaviest())
        mass = frame.modes.missed(posterior.particles, posterior.weights)
        if mass:
            numbers["other_mass"] = mass
        reason = f"the density has another mode, with {mass:.0%} of its mass, and too few particles"
        findings.append((mass > 0.0, f"{reason} are there"))
    reasons = [reason for found, reason in findings if found]
    if reasons:
        advice = " ".join(filter(None, _advice(engine, target)))
        wrong = f"the posterior is likely to be wrong: {'; '.join(reasons)}. {advice}"
        own = numbers.get("message", "").removesuffix(".")
        numbers["message"] = f"{own}; {wrong}".removeprefix("; ")
        posterior.converged = False


def _advice(engine, target):
    """Yield what to do about a posterior that is likely to be wrong."""
    cure = "Raise the engine's iterations or particles, or use" if engine.iterative else "Use"
    yield f"{cure} another engine."
    # Parameters that the rows hardly determine may be wrong and predictions right.
    if target.n_rows is not None:
        yield "Predictions may still be good: compare a score."
    yield start_elsewhere(target)
    yield "The posterior's diagnostics have names and numbers."


def comparable(target, most_rows=_FEW_ROWS):
    """Whether `StartDraws` say for certain which coordinates are wrong, and cost little."""
    return target.dim <= _COMPARED_UP_TO and (target.n_rows or 0) <= most_rows


def _log_density(target, points):
    """The log density, with -inf where the target fails far out, so that the fit goes on."""
    try:
        return target.log_density(points)
    except (FloatingPointError, LinAlgError, NotANumber):
        if len(points) == 1:
            return np.array([-np.inf])
        return np.concatenate([_log_density(target, half) for half in np.array_split(points, 2)])


class StartDraws:
    """Draws around the Gaussian start, weighted towards the target.

    In few coordinates half of the draws are Cauchy: weights of Gaussian draws cannot see tails that
    are heavier. The weights are then those of the mixture of both (Veach & Guibas 1995).

    Parameters
    ----------
    target : Transformed
        In the engine's coordinates.
    rng : numpy.random.Generator

    Attributes
    ----------
    draws : ndarray of shape (m, dim)
        In the coordinates of the target inside: 1000, or 4000 where they are compared and rows are
        few, and fewer on very many rows.
    weights : ndarray of shape (m,)
        Normalised, for expectations under the target.
    mismatch : float
        How far the start is from the target: 0 when they agree, whatever the dimension. The spread
        of the log density ratio over draws of the start (interquartile range, in units of a
        normal's standard deviation) over the square root of the dimension. An effective sample
        size would fall with the dimension even where every coordinate is nearly normal.
    efficiency : float
        Effective share of the draws, per coordinate: the root of order ``dim``.
    """

    def __init__(self, target, rng):
        dim = target.dim
        m = 4 * MAX_PARTICLES if comparable(target, _CHEAP_UP_TO) else affordable_particles(target)
        n_normal = m // 2 if dim <= _COMPARED_UP_TO else m
        z = rng.standard_normal((m, dim))
        z[n_normal:] = rng.standard_cauchy((m - n_normal, dim))
        points = z if target.start is None else target.start.forward(z)
        self.draws = target.forward(points)
        log_ratio = _log_density(target, points) - target.log_start(points)
        log_ratio = np.nan_to_num(log_ratio, nan=-np.inf)
        # Densities relative to that of the start.
        share = n_normal / m
        log_cauchy = np.sum(0.5 * np.log(2.0 / np.pi) + 0.5 * z**2 - np.log1p(z**2), axis=1)
        with np.errstate(divide="ignore"):
            log_mixture = np.logaddexp(np.log(share), np.log1p(-share) + log_cauchy)
        self.weights = softmax(log_ratio - log_mixture)
        self.efficiency = (1.0 / np.sum(self.weights**2) / m) ** (1.0 / dim)
        low, high = np.quantile(log_ratio[:n_normal], [0.25, 0.75])
        self.mismatch = (high - low) / 1.349 / np.sqrt(dim) if np.isfinite(low) else np.inf

    def heaviest(self, n=3):
        """The ``n`` draws of the largest weights, each as one to search a mode from."""
        return self.draws[np.argsort(-self.weights)[:n]]

    def contradicted(self, particles, weights):
        """Coordinates in which particles differ from the weighted draws.

        They are compared by the share of particles below the 10, 50 and 90 % points, by the
        distance of the outer two, and by the mean distance from the median: a twentieth of the mass
        that lies far out moves none of these points, and may make up most of the variance. A
        difference counts when it is large in itself, against the error of the draws and for so few
        particles. In more than ten coordinates no difference counts.

        Parameters
        ----------
        particles : ndarray of shape (k, dim)
        weights : ndarray of shape (k,)

        Returns
        -------
        ndarray of bool, shape (dim,)
        """
        if particles.shape[1] > _COMPARED_UP_TO:
            return np.zeros(particles.shape[1], dtype=bool)
        low, middle, high = weighted_quantile(self.draws, self.weights, _LEVELS)
        shares = [weights @ (particles < point) for point in (low, middle, high)]
        shift = np.abs(np.stack(shares) - _LEVELS[:, None]).max(axis=0)
        least, centre, most = weighted_quantile(particles, weights, _LEVELS)
        stretch = np.abs(np.log((most - least) / (high - low)))
        error = 4.0 * np.sqrt(np.sum(self.weights**2))
        coarse = np.sum(weights**2)  # a share moves by that much from one particle to the next
        too_far = np.linalg.norm([MAX_SHIFT, 0.5 * error, coarse])
        too_wide = np.linalg.norm([MAX_STRETCH, error, 4.0 * coarse])
        # Without an end a few particles would have too short a mean distance in heavy tails.
        farthest = _FARTHEST * (high - low)
        distance = np.fmin(np.abs(self.draws - middle), farthest)  # NaN, of no weight, is far
        mean = self.weights @ distance
        error = np.sqrt(self.weights**2 @ (distance / mean - 1.0) ** 2)
        too_narrow = np.sqrt(MAX_NARROWING**2 + (3.5 * error) ** 2 + (4.0 * coarse) ** 2)
        narrowing = np.log(mean / (weights @ np.minimum(np.abs(particles - centre), farthest)))
        return (shift > too_far) | ~(stretch <= too_wide) | (narrowing > too_narrow)


def radial_shift(target, z, weights, n_times=1):
    """How far particles lie too near the mode, or too far from it.

    On the ray through a particle, direction fixed, the radius r has the density
    ``r^(d - 1) p(r u)``. It is tabulated between a quarter of the particles' median radius and four
    times as much, and interpolated; rays on which it is not finite are left out.

    Parameters
    ----------
    target : Transformed
        In whitened coordinates, with the mode at 0.
    z : ndarray of shape (m, dim)
        Particles in them.
    weights : ndarray of shape (m,)
    n_times : int, default=1
        How often as many rays as are cheap.

    Returns
    -------
    float
        The mean change of the logarithm of the radius in such a move, positive outwards; 0 on very
        many rows, where each density is expensive and tails are those of a normal, and if it is too
        small to matter or below 3.5 standard errors, of ten times as many rays too.
    """
    n_rays = min(_N_RAYS * _CHEAP_UP_TO // max(target.n_rows or 0, 1), _N_RAYS)
    if n_rays < _FEW_RAYS:
        return 0.0
    n_rays = min(n_times * n_rays, len(z))
    rank = (np.arange(n_rays) + 0.5) / n_rays
    ends = z[np.minimum(np.searchsorted(np.cumsum(weights), rank), len(z) - 1)]
    radius = np.linalg.norm(ends, axis=1)
    unit = np.median(radius)
    inside = (radius >= unit * np.exp(_RADII[0])) & (radius <= unit * np.exp(_RADII[-1]))
    if not 0.0 < unit < np.inf or np.count_nonzero(inside) < n_rays // 4:
        return 0.0
    before = np.log(radius[inside] / unit)
    rays = ends[inside] * (unit / radius[inside, None])
    points = rays[:, None, :] * np.exp(_RADII)[:, None]
    found = target.log_density(points.reshape(-1, z.shape[1])).reshape(len(rays), len(_RADII))
    shift = _mean_log_radius(found + z.shape[1] * _RADII, z.shape[1]) - before
    shift = shift[np.isfinite(shift)]
    if len(shift) < n_rays // 4:
        return 0.0
    mean, error = shift.mean(), shift.std() / np.sqrt(len(shift))
    if abs(mean) < max(MAX_RADIAL_SHIFT, 3.5 * error):
        return 0.0
    return float(mean) if n_times > 1 else radial_shift(target, z, weights, 10)


def _mean_log_radius(log_density, dim):
    """Means of the logarithm of the radius by its log densities at `_RADII`, shape (n_rays,).

    NaN for a ray that is poor: infinite somewhere, with two modes, or too few radii about its mode.
    """
    means = np.full(len(log_density), np.nan)
    # A cliff far below the mode would make a spline swing there.
    high = log_density > log_density.max(axis=1, keepdims=True) - 100.0 - dim
    first, last = high.argmax(axis=1), len(_RADII) - high[:, ::-1].argmax(axis=1)
    whole = (high.sum(axis=1) == last - first) & np.isfinite(log_density).all(axis=1)
    for start, stop in {(i, j) for i, j in zip(first, last, strict=True) if j - i >= 4}:
        rays = whole & (first == start) & (last == stop)
        if rays.any():
            part, fine = _RADII[start:stop], _FINE
            within = fine[(fine >= part[0]) & (fine <= part[-1])]
            spline = CubicSpline(part, log_density[rays, start:stop], axis=1)
            means[rays] = softmax(spline(within), axis=1) @ within
    return means


def stein_residuals(z, scores, weights):
    """Residuals of the particles ``z`` (m, dim) with their ``scores``, and which are too large.

    A residual counts when it is large in itself and against its standard error for independent
    draws; a very large one counts alone, because an outlier inflates its own standard error. If
    particles are too few for the dimension, every coordinate loses some spread; the mean over
    coordinates, whose standard error is smaller, shows it.

    Returns
    -------
    Bunch
        Of arrays of shape (dim,), for whitened coordinates:

        - ``mean``, ``|E[g_j]|``: about the error of the mean, in posterior standard deviations;
        - ``spread``, ``|E[(z_j - mean_j) g_j] + 1|``: about twice the relative error of the
          standard deviation;
        - ``skew``, ``|E[(z_j^2 - 1) g_j + 2 z_j]|``: about the error of the third moment;
        - ``flagged``: which coordinates have too large a residual;

        and ``shrinkage``, a number: by how much, relatively, standard deviations are too small,
        about and on average over the coordinates: half of the mean of ``E[(z_j - mean_j) g_j] +
        1``. It counts if it is too large, even if no single coordinate is; 0 otherwise.
    """
    ess = 1.0 / np.sum(weights**2)
    product = (z - weights @ z) * scores

    def residual(values, expected):
        mean = weights @ values
        error = np.sqrt(weights @ (values - mean) ** 2 / ess)
        size = np.abs(mean - expected)
        return size, size / np.maximum(error, 1e-12)

    mean, z_mean = residual(scores, 0.0)
    spread, z_spread = residual(product, -1.0)
    skew, z_skew = residual((z**2 - 1.0) * scores + 2.0 * z, 0.0)
    flagged = ((mean > 0.35) & (z_mean > 4)) | ((spread > 0.5) & (z_spread > 4))
    # Particles of SVGD that are right came to 4.5 in 55 coordinates.
    flagged |= (skew > MAX_SKEW) & (z_skew > 5)
    flagged |= (mean > 2) | (spread > np.clip(6.0 * np.sqrt(2.0 / ess), 1.0, 4.0))
    overall, z_overall = residual(product.mean(axis=1), -1.0)
    counts = overall > 2 * MAX_SHRINKAGE and z_overall > 4
    shrinkage = 0.5 * (weights @ product.mean(axis=1) + 1.0) if counts else 0.0
    return Bunch(mean=mean, spread=spread, skew=skew, flagged=flagged, shrinkage=shrinkage)
