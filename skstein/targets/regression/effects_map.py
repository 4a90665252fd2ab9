r"""Coordinates of random effects in which there is no funnel.

Given all else the effects :math:`u_g` of a group are about normal, with the precision
:math:`P_g = J_g + \operatorname{diag}(\tau^{-2})`, :math:`J_g` being the information of the group's
own rows and :math:`\tau` the standard deviations of the effects, and the mean that goes with it:

.. math::
   u_g = P_g^{-1} (h_g - C_g (\kappa - \kappa_0)) + L_g^{-T} z_g, \qquad L_g L_g^T = P_g .

A group of many rows is thereby centred, one of few is not, and what lies between is between:
:math:`z` is about standard normal whatever the standard deviations are. For a normal outcome it is
so exactly. All of :math:`h, C, J` are sums over the rows of a group.

The idea of coordinates between centred and not centred is that of Papaspiliopoulos, Roberts &
Sköld (2007), "A general framework for the parametrization of hierarchical models", Statistical
Science 22; what differs is that they follow the standard deviation, and the common effects.
"""

from typing import Any

import numpy as np

from ..bijections import Placed


def solve_lower(root, a):
    """L^-1 a, for the Cholesky factors L of all groups of effects at once, entry by entry."""
    found = []
    for i, row in enumerate(root):
        left = a[i]
        for k in range(i):
            left = left - row[k] * found[k]
        found.append(left / row[i])
    return found


def _solve_upper(root, a):
    """L^-T a, for the Cholesky factors L of all groups of effects at once."""
    found = [None] * len(root)
    for i in reversed(range(len(root))):
        left = a[i]
        for k in range(i + 1, len(root)):
            left = left - root[k][i] * found[k]
        found[i] = left / root[i][i]
    return found


class EffectBlock:
    """Effects of a grouping and their conditional distribution; see the module's formula.

    Attributes
    ----------
    where : ndarray of int, shape (n_groups, q)
        The effects.
    sds : ndarray of int, shape (q,)
        Their log standard deviations.
    information : ndarray of shape (n_groups, q, q)
        J, for a precision of 1.
    moment : ndarray of shape (n_groups, q)
        h.
    given : ndarray of int, shape (r,), or None
        The coordinates that the mean depends on.
    origin : ndarray of shape (r,)
        kappa_0, the values of those coordinates at which C adds nothing.
    across : ndarray or sparse array of shape (n_groups * q, r)
        C.
    """

    moment: np.ndarray
    given: Any = None
    origin: Any = None
    across: Any = None

    def __init__(self, where, sds, information):
        self.where, self.sds, self.information = where, sds, information
        self.size = where.shape[1]
        first, stop = where[0, 0], where[-1, -1] + 1
        self.entry = [slice(first + i, stop, self.size) for i in range(self.size)]

    def factor(self, prior_precision, precision):
        """The lower triangle L of P, entries of shape (m, n_groups), as lists of rows."""
        root = []
        for i in range(self.size):
            row = []
            for j in range(i + 1):
                entry = precision * self.information[:, i, j]
                if i == j:
                    entry = entry + prior_precision[:, i, None]
                for a, b in zip(row, root[j] if j < i else row, strict=False):
                    entry = entry - a * b
                row.append(np.sqrt(entry) if i == j else entry / root[j][j])
            root.append(row)
        return root

    def entries(self, theta):
        """The coordinates of its effects, entries of shape (m, n_groups)."""
        return [theta[:, entry] for entry in self.entry]

    def parts(self, theta, precision):
        """h - C (kappa - kappa_0), L and L^-1 a: what the effects' mean and scale are made of."""
        root, whole = self.factor(np.exp(-2.0 * theta[:, self.sds]), precision), self.moment[None]
        if self.given is not None:
            moved = (self.across @ (theta[:, self.given] - self.origin).T).T
            whole = whole - moved.reshape(len(theta), -1, self.size)
        left = [whole[:, :, i] for i in range(self.size)]
        return left, root, solve_lower(root, [precision * part for part in left])


class EffectsMap(Placed):
    """From coordinates without a funnel to those of a `MixedTarget`: the module's formula.

    Parameters
    ----------
    blocks : list of EffectBlock
        In the order in which effects are conditional on those before.
    prior : HalfNormal or HalfStudentT
        Of the standard deviations, whose coordinates are the normal scores of their probabilities.
    noise : int or None
        The log variance to whose inverse all information is in proportion.
    """

    def __init__(self, blocks, prior, noise):
        self.blocks, self.prior, self.noise = blocks, prior, noise
        self._sds = np.concatenate([block.sds for block in blocks])

    def _precision(self, theta):
        return 1.0 if self.noise is None else np.exp(-theta[:, self.noise, None])

    def at(self, z):
        theta, scores = np.array(z), self.prior.from_normal(z[:, self._sds])
        theta[:, self._sds] = scores[0]
        precision, parts = self._precision(z), []
        for block in self.blocks:
            parts.append(block.parts(theta, precision))
            _, root, mean = parts[-1]
            own = [m + e for m, e in zip(mean, block.entries(z), strict=True)]
            for i, effects in enumerate(_solve_upper(root, own)):
                theta[:, block.entry[i]] = effects

        def log_det():
            value = np.log(scores[1]).sum(axis=1)
            for _, root, _ in parts:
                value = value - sum(np.log(row[-1]).sum(axis=1) for row in root)
            return value

        def pull(score):
            pulled = np.array(score)
            for block, of_block in zip(reversed(self.blocks), reversed(parts), strict=True):
                by_z = solve_lower(of_block[1], block.entries(pulled))
                for i, part in enumerate(by_z):
                    pulled[:, block.entry[i]] = part
                self._add_others(block, theta, *of_block, by_z, pulled, 1.0)  # type: ignore[call-arg]
            pulled[:, self._sds] = pulled[:, self._sds] * scores[1] + scores[2]
            return pulled

        return theta, log_det, pull

    def inverse(self, theta):
        z = np.array(theta)
        z[:, self._sds] = self.prior.to_normal(theta[:, self._sds])
        precision = self._precision(theta)
        for block in self.blocks:
            _, root, mean = block.parts(theta, precision)
            effects = block.entries(theta)
            for i in range(block.size):
                own = sum(root[k][i] * effects[k] for k in range(i, block.size))
                z[:, block.entry[i]] = own - mean[i]
        return z

    def push_score(self, z, score):
        """Score at ``forward(z)`` of the density whose score in ``z`` is ``score``."""
        theta, pushed = self.forward(z), np.array(score)
        precision = self._precision(theta)
        _, slope, bend = self.prior.from_normal(z[:, self._sds])
        pushed[:, self._sds] = (pushed[:, self._sds] - bend) / slope
        for block in self.blocks:
            left, root, mean = block.parts(theta, precision)
            by_z = [part.copy() for part in block.entries(pushed)]
            for i, row in enumerate(root):
                pushed[:, block.entry[i]] = sum(row[k] * by_z[k] for k in range(i + 1))
            self._add_others(block, theta, left, root, mean, by_z, pushed, -1.0)
        return pushed

    def _add_others(self, block, theta, left, root, mean, by_z, score, sign):
        """What a block's effects, moved by other coordinates, add to the score of these.

        Derivatives go backwards through ``L^T u = mean + z``, ``L mean = a`` and the factor itself;
        ``by_z`` is the score by ``mean + z``.
        """
        q, precision = block.size, self._precision(theta)
        effects = block.entries(theta)
        by_a = _solve_upper(root, by_z)
        by_root = [
            [-effects[i] * by_z[j] - by_a[i] * mean[j] for j in range(i + 1)] for i in range(q)
        ]
        for i in range(q):
            by_root[i][i] = by_root[i][i] - 1.0 / root[i][i]
        by_precision = 0.0
        for j in reversed(range(q)):
            for i in reversed(range(j, q)):
                if i == j:
                    entry = by_root[i][i] / (2.0 * root[i][i])
                    change = -2.0 * np.exp(-2.0 * theta[:, block.sds[i]])
                    score[:, block.sds[i]] += sign * change * entry.sum(axis=1)
                else:
                    entry = by_root[i][j] / root[j][j]
                    by_root[j][j] = by_root[j][j] - entry * root[i][j]
                for k in range(j):
                    by_root[i][k] = by_root[i][k] - entry * root[j][k]
                    by_root[j][k] = by_root[j][k] - entry * root[i][k]
                by_precision = by_precision + entry @ block.information[:, i, j]
        if self.noise is not None:
            by_precision = by_precision + sum(
                np.einsum("ig,ig->i", a, np.broadcast_to(b, a.shape))
                for a, b in zip(by_a, left, strict=True)
            )
            score[:, self.noise] -= sign * by_precision * precision[:, 0]
        if block.given is not None:
            table = np.stack(by_a, axis=2).reshape(len(theta), -1) * precision
            score[:, block.given] -= sign * (block.across.T @ table.T).T
