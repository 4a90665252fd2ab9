r"""A regression under a regularised horseshoe prior, in coordinates without its funnel.

A coefficient is normal given a local, a global and a slab scale (Piironen & Vehtari 2017, section
2.4),

.. math::
   \beta_j \sim N(0, v_j), \quad v_j = \frac{c^2 \tau^2 \lambda_j^2}{c^2 + \tau^2 \lambda_j^2},
   \quad \lambda_j \sim C^+(0, 1), \quad \tau \sim C^+(0, \tau_0), \quad
   c^2 \sim IG\Big(\frac{\nu}{2}, \frac{\nu s^2}{2}\Big).

The local scales are integrated out: given :math:`\tau` and :math:`c`, :math:`\beta_j / \tau` has a
distribution function :math:`F_\rho`, :math:`\rho = \log c / \tau`, which is tabulated. The target
is a density of

.. math::
   w_j = \Phi^{-1}(F_\rho(\beta_j / \tau)), \qquad u = \Phi^{-1}(F(\tau / \tau_0)), \qquad \log c,

of which :math:`w_j` and u are standard normal before the data, whatever the other ones: neither the
spike at 0 nor the funnel of a scale and what it scales is left. The prior is what the table makes
of normals, so that values and gradients agree to the last digit.

A coefficient that the rows know to be far from 0 stays as it is: its :math:`w_j` would have to
follow every move of the scales. Its prior is the integral over its local scale.
"""

from functools import lru_cache, partial

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import LinAlgError
from scipy.special import expit, ndtr, ndtri

from ... import _jit
from ..._tools.copies import changed
from ...priors.coefficients import FlatPrior
from ...priors.deviations import LogInverseGamma
from ..bijections import Placed
from ..laplace_at_mode import gaussian_bijection, laplace_approximation
from ..log_density import LogDensity
from ..subspace import SliceTarget
from ..wrapper import InnerTarget, Wrapper

_ROUND = 0.02  # below which w does not tell the logarithmic spike at 0
_W_MOST = 8.0
_N_AVERAGED, _AVERAGES, _STEP = 256, 15, 0.3
_RHO = np.linspace(-6.0, 24.0, 61)
# Standard deviations from 0, from where on a coefficient stays as it is: no mass is at the spike.
_STRONG = 5.0
_LOCAL = np.arange(-15.0, 45.0, 0.25)  # logarithms of local scales
_LOG_SHARE = np.log((_LOCAL[1] - _LOCAL[0]) / np.pi) - np.log(np.cosh(_LOCAL))


@lru_cache
def _table():
    r"""Spline of :math:`\log(\beta / (\tau w))` by ``log(w^2 + _ROUND^2) / 2`` and rho.

    As `horseshoe_coefficients` takes it.
    """
    x = np.linspace(-45.0, 60.0, 526)  # logarithms of local scales
    share = (x[1] - x[0]) / np.pi / np.cosh(x)
    y = np.linspace(np.log(_ROUND), np.log(_W_MOST), 61)
    w = np.sqrt(np.maximum(np.exp(2.0 * y) - _ROUND**2, (0.3 * _ROUND) ** 2))
    values = np.empty((len(y), len(_RHO)))
    for k, rho in enumerate(_RHO):
        log_std = x - 0.5 * np.logaddexp(0.0, 2.0 * (x - rho))
        log_b = np.linspace(min(rho, 0.0) - 12.0, rho + 2.3, 240)
        below = ndtr(-np.exp(log_b[:, None] - log_std)) @ share
        log_w = np.log(-ndtri(below / share.sum()))
        known = np.isfinite(log_w) & (log_w < np.log(_W_MOST) + 0.3)
        values[:, k] = CubicSpline(log_w[known], log_b[known])(np.log(w)) - np.log(w)
    by_rho = CubicSpline(_RHO, CubicSpline(y, values).c, axis=2).c  # (4, n_rho, 4, n_y), falling
    coefficients = np.ascontiguousarray(by_rho[::-1, :, ::-1].transpose(3, 1, 2, 0))
    corner, cell = np.array([y[0], _RHO[0]]), np.array([y[1] - y[0], _RHO[1] - _RHO[0]])
    return coefficients, corner, cell, _ROUND


def _coefficients(w, log_tau, log_c):
    return _jit.horseshoe.horseshoe_coefficients(_table(), w, log_tau, log_c)


def _log_prior(beta, log_tau, log_c):
    r"""Log prior density of coefficients given the scales, and its derivatives.

    Parameters
    ----------
    beta : ndarray of shape (m, k)
    log_tau, log_c : ndarray of shape (m, 1)

    Returns
    -------
    tuple
        The sum over coefficients (m,); its derivatives by beta (m, k), log tau and log c (m,).
    """
    beyond = 2.0 * (_LOCAL - (log_c - log_tau))  # the slab, (m, local scales)
    log_std = (_LOCAL - 0.5 * np.logaddexp(0.0, beyond))[:, None]
    log_b = np.log(np.maximum(np.abs(beta), 1e-300)) - log_tau
    square = np.exp(np.minimum(2.0 * (log_b[..., None] - log_std), 700.0))
    terms = _LOG_SHARE - log_std - 0.5 * square
    largest = terms.max(axis=2)
    share = np.exp(terms - largest[..., None])
    size = share.sum(axis=2)
    share /= size[..., None]
    value = largest + np.log(size)
    by_b = -np.sum(share * square, axis=2)
    by_rho = np.sum(share * expit(beyond)[:, None] * (square - 1.0), axis=2).sum(axis=1)
    total = np.sum(value - 0.5 * np.log(2.0 * np.pi) - log_tau, axis=1)
    by_beta = by_b / np.where(beta == 0.0, 1.0, beta)
    return total, by_beta, -by_b.sum(axis=1) - by_rho - beta.shape[1], by_rho


class HorseshoeMap(Placed):
    """From normal coordinates to coefficients, log global and log slab scale.

    Parameters
    ----------
    coef : ndarray of int, shape (p,)
        Places of the coefficients; the scales are the last two coordinates.
    log_scale : float
        Logarithm of the global scale's own.
    log_noise : sequence of int
        Place of a log variance, whose root the global scale is relative to; empty without one.
    """

    def __init__(self, coef, log_scale, log_noise=()):
        self.coef, self.log_scale, self.log_noise = coef, log_scale, log_noise

    def _scales(self, z):
        """Logarithm of tau, its slope in u, the relative slope of that, and log c, each (m, 1)."""
        u, noise = z[:, -2:-1], 0.5 * z[:, self.log_noise].sum(axis=1, keepdims=True)
        # log tan(pi / 2 Phi(u)) is odd.
        angle = np.pi * ndtr(-np.maximum(np.abs(u), 1e-300))
        angle = np.maximum(angle, 1e-300)
        slope = np.sqrt(0.5 * np.pi) * np.exp(-0.5 * u**2) / np.sin(angle)
        curve = np.copysign(slope * np.cos(angle), u) - u
        log_tau = self.log_scale + noise - np.copysign(np.log(np.tan(0.5 * angle)), -u)
        return log_tau, slope, curve, z[:, -1:]

    def parts(self, z):
        """Coefficients and derivatives, `horseshoe_coefficients`; those of tau by u; log tau."""
        log_tau, slope, curve, log_c = self._scales(z)
        return _coefficients(z[:, self.coef], log_tau, log_c), slope, curve, log_tau

    def at(self, z):
        at, theta = self.parts(z), z.copy()
        coefficients, slope, _, log_tau = at
        theta[:, self.coef], theta[:, -2:-1] = coefficients[0], log_tau

        def log_det():
            return coefficients[4].sum(axis=1) + np.log(slope[:, 0])

        return theta, log_det, lambda score: self.pull(score, at) + self._log_det_score(z, at)

    def inverse(self, theta):
        z = theta.copy()
        z[:, -2] = 0.0
        log_tau, log_c = theta[:, -2:-1], theta[:, -1:]
        x = log_tau - self._scales(z)[0]
        z[:, -2:-1] = np.copysign(ndtri(2.0 / np.pi * np.arctan(np.exp(-np.abs(x)))), x)
        beta = np.maximum(np.abs(theta[:, self.coef]), 1e-300)
        low, high = np.full(beta.shape, -700.0), np.full(beta.shape, 5.0)  # of log w
        for _ in range(60):
            middle = 0.5 * (low + high)
            less = _coefficients(np.exp(middle), log_tau, log_c)[0] < beta
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        z[:, self.coef] = np.copysign(np.exp(0.5 * (low + high)), theta[:, self.coef])
        return z

    def pull(self, score, at):
        """The transposed Jacobian times scores at ``forward(z)``; ``at`` is what `parts` gives."""
        (_, by_w, by_tau, by_c, *_), slope, *_ = at
        own, pulled = score[:, self.coef], score.copy()
        pulled[:, self.coef] = own * by_w
        along = score[:, -2] + np.einsum("ij,ij->i", own, by_tau)
        pulled[:, -2] = along * slope[:, 0]
        pulled[:, -1] += np.einsum("ij,ij->i", own, by_c)
        pulled[:, self.log_noise] += 0.5 * along[:, None]
        return pulled

    def _log_det_score(self, z, at):
        (*_, by_w, by_rho), slope, curve, _ = at
        score = np.zeros_like(z)
        score[:, self.coef] = by_w
        by_c = by_rho.sum(axis=1)
        by_tau = len(self.coef) - by_c
        score[:, -2], score[:, -1] = slope[:, 0] * by_tau + curve[:, 0], by_c
        score[:, self.log_noise] = 0.5 * by_tau[:, None]
        return score

    def push_score(self, z, score):
        at = self.parts(z)
        (_, by_w, by_tau, by_c, *_), slope, *_ = at
        pushed = score - self._log_det_score(z, at)
        own, along = pushed[:, self.coef] / by_w, pushed[:, -2] / slope[:, 0]
        pushed[:, self.coef] = own
        pushed[:, -2] = along - np.einsum("ij,ij->i", own, by_tau)
        pushed[:, -1] -= np.einsum("ij,ij->i", own, by_c)
        pushed[:, self.log_noise] -= 0.5 * along[:, None]
        return pushed


class HorseshoeTarget(Wrapper):
    """A regression under a `Horseshoe` prior, in the coordinates of `HorseshoeMap`.

    Parameters
    ----------
    regression : RegressionTarget
        The mode under its own prior of the coefficients is where searches begin and says which are
        far from 0; to the density that prior does not count.
    prior : Horseshoe
    """

    symmetric_prior = True
    factors = InnerTarget.factors

    def __init__(self, regression, prior):
        flat = changed(regression, prior=FlatPrior())
        super().__init__(flat)
        self.hessian, self._inner, self.judged_by_chains = None, flat.dim, True
        self._ridge, self._gaussian = regression, None
        self.dim = flat.dim + 2
        coef = flat._split(np.arange(flat.dim)[None])[1][0]
        of_noise = [name == "log_sigma2" for name in flat.outcome.extra]
        log_noise = flat._n_coef + np.flatnonzero(of_noise)
        global_scale = prior.global_scale
        if global_scale is None:
            # Of one coefficient of a feature, at no effect and noise of variance 1.
            information = regression._information_diagonal(np.zeros(flat.dim))[coef].mean()
            global_scale = prior.odds(len(coef)) / np.sqrt(information or 1.0)
        self._strong = self._far_from_zero(coef)
        coef = np.setdiff1d(coef, self._strong)
        self.map = HorseshoeMap(coef, float(np.log(global_scale)), log_noise)
        half = 0.5 * prior.slab_df
        self._slab = LogInverseGamma(half, half * prior.slab_scale**2)
        self._normal = np.append(coef, self._inner)

    def _far_from_zero(self, coef):
        """Coefficients that the rows know to be far from 0, under a normal prior of scale 1."""
        try:
            laplace = laplace_approximation(self._ridge)
            sure = np.abs(laplace.mode) > _STRONG * np.sqrt(laplace.variances())
        except LinAlgError:  # an engine, which looks for the mode too, says so
            return coef[:0]
        return coef[sure[coef]]

    @property
    def names(self):
        return (*self.target.names, "log_global_scale", "log_slab_scale")

    @property
    def initial(self):
        """The mode under a normal prior of scale 1, with the scales at their medians."""
        log_slab = 0.5 * np.log(self._slab.scale / self._slab.shape)
        mode = np.append(laplace_approximation(self._ridge).mode, [self.map.log_scale, *log_slab])
        mode[-2] += 0.5 * mode[self.map.log_noise].sum()
        return self.map.inverse(mode[None])[0]

    def conditional(self, second_moment):
        """A normal, whatever the second moments: of the global scale where its evidence is largest.

        At the joint mode it is far too large and all coefficients are small, where no mass is. So
        the others have their Gaussian given u, and u the one that its evidence asks for; then
        curvatures are averaged over that normal, as at small w the rows bend the density little.
        """
        if self._gaussian is None:
            self._gaussian = self._averaged(*self._by_evidence())
        mode, precision = self._gaussian
        return LogDensity(
            lambda z: -0.5 * np.einsum("ij,jk,ik->i", z - mode, precision, z - mode),
            lambda z: (mode - z) @ precision,
            dim=self.dim,
            hessian=lambda z: precision,
        )

    def _by_evidence(self):
        """Mean and precision of that normal."""
        rest = np.delete(np.arange(self.dim), self._inner)
        start = self.initial

        def given(u, guess):
            point = np.zeros(self.dim)
            point[self._inner] = u
            slice_ = SliceTarget(self, point, rest)
            found = laplace_approximation(slice_, guess, tol=1e-8)
            log_det = np.linalg.slogdet(found.hessian)[1]
            return slice_.log_density(found.mode[None])[0] - 0.5 * log_det, found

        guess, path, h = start[rest], {}, 0.5
        for u in np.arange(1.5, -2.6, -h):
            path[u] = given(u, guess)
            guess = path[u][1].mode
        u = max(path, key=lambda at: path[at][0])
        value, found = path[u]
        (low, below), (high, above) = (
            path[v] if v in path else given(v, found.mode) for v in (u - h, u + h)
        )
        curvature = max(0.5, (2.0 * value - low - high) / h**2)
        along = (above.mode - below.mode) / (2.0 * h)
        step = np.clip((high - low) / (2.0 * h) / curvature, -h, h)
        mode = np.empty(self.dim)
        mode[self._inner], mode[rest] = u + step, found.mode + step * along
        precision = np.empty((self.dim, self.dim))
        across = -found.hessian @ along
        precision[np.ix_(rest, rest)] = found.hessian
        precision[self._inner, rest] = precision[rest, self._inner] = across
        precision[self._inner, self._inner] = curvature - along @ across
        return mode, precision

    def _averaged(self, mode, precision):
        """The normal next to the density in Kullback-Leibler divergence, by natural gradients."""
        precision[self.map.coef, self.map.coef] += 1.0  # to begin with, none is far out
        noise = np.random.default_rng(0).standard_normal((_N_AVERAGED, self.dim))
        noise = np.concatenate([noise, -noise])
        for _ in range(_AVERAGES):
            white = gaussian_bijection(mode, precision)
            score = white.pull_score(noise, self.score(white.forward(noise))) + noise
            # A few draws where the density is next to nothing must not decide.
            longest = 10.0 * np.sqrt(self.dim)
            score *= np.minimum(1.0, longest / np.linalg.norm(score, axis=1, keepdims=True))
            # Stein: the mean curvature is minus that of score times deviation.
            product = score.T @ noise
            curvature = np.eye(self.dim) - 0.5 * (product + product.T) / len(noise)
            size, axes = np.linalg.eigh(curvature)
            curvature = (axes * np.clip(size, 0.3, 3.0)) @ axes.T
            mode = mode + _STEP * (white.forward(score.mean(axis=0)[None])[0] - mode)
            blend = (1.0 - _STEP) * np.eye(self.dim) + _STEP * curvature
            inverse = white.inverse(white.offset + np.eye(self.dim)).T
            precision = inverse.T @ blend @ inverse
        return mode, precision

    def forward(self, z):
        return self.map.forward(z)[:, : self._inner]

    def _added(self, z, log_tau):
        normal = z[:, self._normal]
        value = -0.5 * np.einsum("ij,ij->i", normal, normal)
        strong = _log_prior(z[:, self._strong], log_tau, z[:, -1:])[0]
        constant = np.log(2.0) - 0.5 * len(self._normal) * np.log(2.0 * np.pi)
        return value + constant + self._slab.log_density(2.0 * z[:, -1:]) + strong

    def log_prior(self, z):
        return self.target.log_prior(z[:, : self._inner]) + self._added(z, self.map._scales(z)[0])

    def _placed(self, z):
        at, theta = self.map.parts(z), z[:, : self._inner].copy()
        theta[:, self.map.coef] = at[0][0]
        return theta, partial(self._added, z, at[-1]), partial(self._pull, z, at)

    def _pull(self, z, at, score):
        """The score in z, from that of the regression without the prior of the coefficients."""
        _, by_strong, by_tau, by_c = _log_prior(z[:, self._strong], at[-1], z[:, -1:])
        score = np.column_stack([score, by_tau, by_c])
        score[:, self._strong] += by_strong
        score = self.map.pull(score, at)
        score[:, self._normal] -= z[:, self._normal]
        score[:, -1:] += 2.0 * self._slab.score(2.0 * z[:, -1:])
        return score

    def sample_prior(self, rng, m):
        z = np.zeros((m, self.dim))
        z[:, : self._inner] = self.target.sample_prior(rng, m)
        z[:, self._normal] = rng.standard_normal((m, len(self._normal)))
        z[:, -1:] = 0.5 * self._slab.sample(rng, m)
        whole = HorseshoeMap(self._strong, self.map.log_scale, self.map.log_noise)
        z[:, self._strong] = rng.standard_normal((m, len(self._strong)))
        z[:, self._strong] = whole.forward(z)[:, self._strong]
        return z

    def take(self, rows):
        """The same model on some of the rows, an index array."""
        twin = self._around(self.target.take(rows))
        twin._ridge, twin._gaussian = self._ridge.take(rows), None
        return twin
