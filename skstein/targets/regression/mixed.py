r"""Regressions with random effects: groups of rows that share an effect of their own.

To the linear predictor of a row is added, for each grouping, :math:`\sum_t v_t u_{g,t}`: its terms
:math:`v` are 1 and the features that have slopes, :math:`u_g \sim N(0, \tau_t^2)` the effects of
its group. Standard deviations :math:`\tau` have a half-normal or half Student t prior.

The target's coordinates are the plain ones. Effects and their standard deviation form a funnel in
them, so the target says in which ones to work (`coordinates`): those of `EffectsMap`. Of the
grouping with the most effects no matrix is formed: these are standard normal given the rest, and
the Gaussian at the mode is that of the rest alone, which is Schur's complement. Groupings beside it
are part of that rest, each with such coordinates of its own, in which :math:`J` is what is left
once the effects of the largest one are integrated out.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse

from ..._tools.copies import changed
from ...priors import HalfNormal
from ..base import SummedTarget
from ..bijections import Within
from ..laplace_at_mode import (
    DIAGONAL_ABOVE,
    LaplaceApproximation,
    laplace_approximation,
    whitening_laplace,
)
from ..subspace import SliceTarget
from ..transformed import Transformed
from .effects_map import EffectBlock, EffectsMap, solve_lower
from .glm import SEARCHED_UP_TO, RegressionTarget
from .grouped_design import GroupedDesign, GroupedGram, Grouping
from .linear import LinearTarget

_MOST_EXPANSIONS = 30
_TOLERANCE = 1e-3  # of the score of the effects at the mode, in standard deviations
_WIDE = math.log(100.0)  # of standard deviations, to begin where effects are free


class MixedTarget(SummedTarget):
    """A regression with random effects.

    ``theta`` = (coordinates of the regression, log standard deviations, effects). The effects of a
    grouping stand group by group, and for several linear predictors, in a group, one predictor
    after the other. The grouping with the most effects is the last one.

    Parameters
    ----------
    regression : RegressionTarget
        Without the effects.
    groupings : sequence of Grouping
    prior : HalfNormal or HalfStudentT, default=None
        Of the standard deviations; by default ``HalfNormal()``.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.targets import Grouping, LinearTarget, MixedTarget
    >>> rows = np.arange(4.0)
    >>> county = Grouping("county", np.array([0, 0, 1, 1]), ["a", "b"], [""], np.ones((4, 1)))
    >>> MixedTarget(LinearTarget(rows[:, None], rows), [county]).names
    ('intercept', 'x0', 'log_sigma2', 'log_sd[county]', 'county[a]', 'county[b]')
    """

    # A standard deviation that may be 0 leans, and particles at the start do not see how far.
    judged_by_chains = True
    regression: Any
    n_rows: int

    def __init__(self, regression: RegressionTarget, groupings: Sequence[Grouping], prior=None):
        self.regression, self.n_rows = regression, regression.n_rows
        k = self._n_outputs = regression.n_outputs
        self.prior = HalfNormal() if prior is None else prior
        self.groupings = sorted(groupings, key=lambda each: each.n_groups * len(each.terms))
        sizes = [k * len(grouping.terms) for grouping in self.groupings]
        lengths = [each.n_groups * k * len(each.terms) for each in self.groupings]
        self._n_coords, n_sds = regression.dim, sum(sizes)
        self.dim = regression.dim + n_sds + sum(lengths)
        self._sds = np.split(regression.dim + np.arange(n_sds), np.cumsum(sizes)[:-1])
        starts = np.cumsum([regression.dim + n_sds, *lengths])
        self._effects = [
            np.arange(*ends).reshape(grouping.n_groups, -1)
            for grouping, *ends in zip(self.groupings, starts, starts[1:], strict=False)
        ]
        # The regression with all effects as coefficients, and where its coordinates are in theta.
        columns = [grouping.columns() for grouping in self.groupings]
        effects = scipy.sparse.hstack(columns, format="csr")
        own = np.arange(regression._n_coef).reshape(k, -1)
        theirs = [
            where.reshape(len(where), k, -1).swapaxes(0, 1).reshape(k, -1)
            for where in self._effects
        ]
        extra = np.arange(regression._n_coef, regression.dim)
        self._order = np.append(np.hstack([own, *theirs]).ravel(), extra)
        self._rows = changed(regression, design=GroupedDesign(regression.design, effects))
        self._rows.n_columns = self._rows.design.shape[1]
        self._rows._n_coef = k * self._rows.n_columns
        self._rows.dim = self._rows._n_coef + len(extra)
        # A normal outcome's information is in proportion to the precision of its noise.
        self._noise = None
        if isinstance(regression, LinearTarget):
            self._noise = regression.dim - 1
            if regression._gram is not None:
                self._sum_up(regression, effects)

    def _sum_up(self, regression, effects):
        rows = self._rows
        weighted = effects.multiply(rows.weights[:, None]).tocsr()
        c = regression.n_columns
        units = np.eye(c)
        across = np.zeros((effects.shape[1], c))
        for block in self._rows._blocks(8 * c):
            across += weighted[block].T @ regression.design.predictor(units, block).T
        rows._gram = GroupedGram(regression._gram, across, (effects.T @ weighted).tocsr())
        self._recentre(np.append(regression._center, np.zeros(effects.shape[1])))

    def _recentre(self, coef):
        """Take sums of squares about these coefficients."""
        rows = self._rows
        rows._center = coef
        _, (rows._rss,), (rows._moment,) = rows._sums(coef[None])

    def places(self, grouping):
        """Where a grouping's log standard deviations (q,) and effects (groups, q) are in theta."""
        (j,) = (j for j, each in enumerate(self.groupings) if each is grouping)
        return self._sds[j], self._effects[j]

    @property
    def names(self):
        outputs = [f"[{name}]" for name in self.regression.class_names]
        outputs = outputs if self._n_outputs > 1 else [""]
        sds, effects = [], []
        for grouping in self.groupings:
            sds += [f"log_sd[{label}]{output}" for output in outputs for label in grouping.labels]
            effects += [
                f"{label}[{group}]{output}"
                for group in grouping.groups
                for output in outputs
                for label in grouping.labels
            ]
        return (*self.regression.names, *sds, *effects)

    def take(self, rows):
        """The same model on some of the rows, an index array."""
        few = [grouping.take(rows) for grouping in self.groupings]
        return MixedTarget(self.regression.take(rows), few, self.prior)

    # Prior

    def _deviations(self, theta):
        """Yield each grouping's log standard deviations (m, q) and effects (m, groups, q)."""
        for sds, effects in zip(self._sds, self._effects, strict=True):
            first, stop = effects[0, 0], effects[-1, -1] + 1
            yield theta[:, sds], theta[:, first:stop].reshape(len(theta), *effects.shape)

    def log_prior(self, theta):
        value = self.regression.log_prior(theta[:, : self._n_coords])
        for log_sd, effects in self._deviations(theta):
            square = np.einsum("igq,igq->iq", effects, effects) * np.exp(-2.0 * log_sd)
            normal = log_sd + 0.5 * math.log(2 * math.pi)
            value = value - np.sum(effects.shape[1] * normal + 0.5 * square, axis=1)
            value = value + self.prior.log_density_of_log(log_sd).sum(axis=1)
        return value

    def _add_prior_score(self, theta, score):
        first = slice(self._n_coords)
        score[:, first] = self.regression._add_prior_score(theta[:, first], score[:, first].copy())
        parts = zip(self._effects, self._sds, self._deviations(theta), strict=True)
        for where, sds, (log_sd, effects) in parts:
            scaled = effects * np.exp(-2.0 * log_sd)[:, None]
            score[:, where[0, 0] : where[-1, -1] + 1] -= scaled.reshape(len(theta), -1)
            square = np.einsum("igq,igq->iq", effects, scaled)
            score[:, sds] += square - len(where) + self.prior.score_of_log(log_sd)
        return score

    def sample_prior(self, rng, m):
        theta = np.empty((m, self.dim))
        theta[:, : self._n_coords] = self.regression.sample_prior(rng, m)
        for sds, where in zip(self._sds, self._effects, strict=True):
            theta[:, sds] = self.prior.sample_log(rng, (m, len(sds)))
            noise = rng.standard_normal((m, *where.shape))
            theta[:, where] = np.exp(theta[:, sds])[:, None] * noise
        return theta

    # Likelihood

    def _sum(self, theta, rows, value, score):
        total, gradient = self._rows._sum(theta[:, self._order], rows, value, score)
        if score:
            own = np.zeros_like(theta)
            own[:, self._order] = gradient
            gradient = own
        return total, gradient

    def pointwise_log_likelihood(self, theta):
        """Log likelihood of every row (unweighted), shape (m, n)."""
        return self._rows.pointwise_log_likelihood(theta[:, self._order])

    # Coordinates

    def coordinates(self):
        """Coordinates without a funnel, and the Gaussian at the mode in them.

        Returns
        -------
        bijection : EffectsMap
        laplace : LaplaceApproximation
            In the coordinates before that map.
        """
        theta, sds = np.zeros(self.dim), np.concatenate(self._sds)
        theta[: self._n_coords] = whitening_laplace(self.regression)[1].mode
        theta[sds] = self.prior.from_normal(0.0)[0]
        log_mass, bijection, laplace = self._expanded(theta)
        if self.n_rows <= SEARCHED_UP_TO:
            # Without an intercept the noise may take what effects should: both may be a mode.
            theta[sds] = _WIDE
            with suppress(FloatingPointError, np.linalg.LinAlgError):
                other_mass, *other = self._expanded(theta)
                if other[1].converged and other_mass > log_mass:
                    bijection, laplace = other
        if self._noise is not None and self.regression._gram is not None:
            self._recentre(bijection.forward(laplace.mode[None])[0][self._order[:-1]])
        return bijection, laplace

    def _expanded(self, theta):
        """Log mass, map and Gaussian at the mode that a search from ``theta`` (dim,) finds."""
        inner = int(self._effects[-1][0, 0])
        n_iter = 0
        for _ in range(_MOST_EXPANSIONS):
            bijection = self._map_about(theta)
            working = Transformed(self, bijection)
            at_zero = SliceTarget(working, np.zeros(self.dim), np.arange(inner))
            found = laplace_approximation(at_zero, bijection.inverse(theta[None])[0, :inner])
            n_iter += found.n_iter
            mode = np.append(found.mode, np.zeros(self.dim - inner))
            theta, score = bijection.forward(mode[None])[0], working.score(mode[None])[0]
            settled = np.abs(score[inner:]).max() < _TOLERANCE
            if settled:
                break
        log_mass = working.log_density(mode[None]) + found.bijection.log_det(np.zeros((1, inner)))
        # The Gaussian, with standard normal coordinates behind its own, independent.
        hessian, n_behind = found.hessian, self.dim - inner
        if hessian.ndim == 1:
            hessian = np.append(hessian, np.ones(n_behind))
        else:
            one = scipy.sparse.eye_array(n_behind)
            hessian = scipy.sparse.block_diag([hessian, one], format="csr")
            hessian = hessian.toarray() if self.dim <= DIAGONAL_ABOVE else hessian
        within, converged = Within(found.bijection, slice(0, inner)), found.converged and settled
        laplace = LaplaceApproximation(mode, hessian, within, n_iter, converged)
        return log_mass[0], bijection, laplace

    def _map_about(self, theta):
        """The map whose effects have their conditional mean and precision at ``theta`` (dim,)."""
        inner = theta[self._order]
        n_coef = self._n_coords - len(self.regression.outcome.extra)
        precision = 1.0 if self._noise is None else math.exp(-theta[self._noise])
        # What effects are conditional on: coefficients, further coordinates but for the noise
        # whose precision all are in proportion to, and effects of the other groupings.
        before = np.arange(self._effects[0][0, 0], self._effects[-1][0, 0])
        own = np.arange(self._n_coords if self._noise is None else n_coef)
        given = np.append(own, before)
        score = np.zeros(self.dim)
        score[self._order] = self._rows._sum(inner[None], None, False, True)[1][0]
        information, across = self._information(inner, precision, given)
        where = self._effects[-1]
        main = EffectBlock(where, self._sds[-1], _not_negative(information[-1]))
        main.given, main.origin, main.across = given, theta[given], across
        main.moment = np.einsum("gij,gj->gi", main.information, theta[where])
        main.moment += score[where] / precision
        blocks = self._conditioned(theta, precision, information, main, len(own))
        return EffectsMap([*blocks, main], self.prior, self._noise)

    def _information(self, inner, precision, given):
        """Of each grouping's effects (groups, q, q), and of the last ones with ``given``."""
        k, rows, last = self._n_outputs, self._rows, self.groupings[-1]
        information = [
            np.zeros((grouping.n_groups, k, len(grouping.terms), k, len(grouping.terms)))
            for grouping in self.groupings
        ]
        c = self.regression.n_columns
        units, ends = np.eye(c), self.regression._n_coef
        dense = np.zeros((last.n_groups, k, len(last.terms), ends))
        n_extra = np.count_nonzero((given >= ends) & (given < self._n_coords))
        extra = np.zeros((last.n_groups, k, len(last.terms), n_extra))
        others = self.groupings[:-1]
        sparse = []
        for block, curvature in rows._curvatures(inner, 8 * (k * k + c)):
            curvature = curvature / precision
            common = self.regression.design.predictor(units, block)
            n = common.shape[1]
            ones = np.ones(n), last.codes[block], np.arange(n + 1)
            sums = scipy.sparse.csr_array(ones, shape=(n, last.n_groups)).T
            for i, j in np.argwhere(curvature[:k, :k].any(axis=2)):
                for found, grouping in zip(information, self.groupings, strict=True):
                    codes, values = grouping.codes[block], grouping.values[block]
                    for s, t in np.ndindex(len(grouping.terms), len(grouping.terms)):
                        part = curvature[i, j] * values[:, s] * values[:, t]
                        found[:, i, s, j, t] += np.bincount(codes, part, grouping.n_groups)
                for s in range(len(last.terms)):
                    weights = curvature[i, j] * last.values[block, s]
                    dense[:, i, s, j * c : (j + 1) * c] += sums @ (weights * common).T
            for i, s, e in np.ndindex(k, len(last.terms), n_extra):
                extra[:, i, s, e] += sums @ (curvature[i, k + e] * last.values[block, s])
            sparse.append(curvature[:k, :k])
        q = k * len(last.terms)
        across = np.concatenate([dense, extra], axis=3).reshape(last.n_groups * q, -1)
        if others:
            weights = np.concatenate(sparse, axis=2)
            columns = [self._across(grouping, last, weights) for grouping in others]
            across = scipy.sparse.hstack([scipy.sparse.csr_array(across), *columns], format="csr")
        return [found.reshape(len(found), k * found.shape[2], -1) for found in information], across

    def _across(self, grouping, last, weights):
        """Information of the last grouping's effects with those of another, a sparse array."""
        k = self._n_outputs
        shape = last.n_groups * k * len(last.terms), grouping.n_groups * k * len(grouping.terms)
        total = scipy.sparse.csr_array(shape)
        for i, j in np.argwhere(weights.any(axis=2)):
            for s, t in np.ndindex(len(last.terms), len(grouping.terms)):
                row = last.codes * (k * len(last.terms)) + i * len(last.terms) + s
                column = grouping.codes * (k * len(grouping.terms)) + j * len(grouping.terms) + t
                part = weights[i, j] * last.values[:, s] * grouping.values[:, t]
                total = total + scipy.sparse.coo_array((part, (row, column)), shape=shape).tocsr()
        return total

    def _conditioned(self, theta, precision, information, main, n_own):
        """Blocks of the other groupings, once the effects of the last one are integrated out."""
        root = main.factor(np.exp(-2.0 * theta[main.sds])[None], np.array([[precision]]))
        size, n_groups = main.size, len(main.where)
        # Rows of L^-1 C, group by group.
        solved = solve_lower(root, list(np.eye(size)[:, :, None, None]))
        lower = np.zeros((n_groups, size, size))
        for i in range(size):
            lower[:, i] = np.broadcast_to(solved[i][:, 0], (size, n_groups)).T
        starts = np.arange(n_groups + 1)
        triangle = scipy.sparse.bsr_array((lower, starts[:-1], starts)).tocsr()
        blocks, first = [], n_own
        for of_effects, of_sds, found in zip(
            self._effects[:-1], self._sds[:-1], information, strict=False
        ):
            stop = first + of_effects.size
            half = (triangle @ main.across[:, first:stop]).tocsc() * precision
            first, q = stop, of_effects.shape[1]
            left = found * precision
            for a, b in np.ndindex(q, q):
                left[:, a, b] -= half[:, a::q].multiply(half[:, b::q]).sum(axis=0)
            left = _not_negative(left) / precision
            block = EffectBlock(of_effects, of_sds, left)
            prior = np.exp(-2.0 * theta[of_sds]) / precision
            effects = theta[of_effects]
            block.moment = np.einsum("gij,gj->gi", left, effects) + prior * effects
            blocks.append(block)
        return blocks


def _not_negative(matrices):
    """Symmetric matrices (n, q, q) without what rounding, or a saddle, left below 0."""
    value, vector = np.linalg.eigh(matrices)
    return np.einsum("nij,nj,nkj->nik", vector, np.maximum(value, 0.0), vector)
