"""Which networks to keep in a posterior of networks, and the warnings about them.

Failed training leaves networks that are finite and predict. Each function here looks for one kind
of failure; :doc:`/methods/neural_networks` says on which data the limits were measured.
"""

from dataclasses import replace

import numpy as np

from ..._tools.warnings import warn

# On all kinds of data, 2 rows to 10,000, the defaults came to 0.3 at most, and to 0.07 from 50 rows
# on; with 0.5 and more, classifiers were far from what longer training gave.
_STRAIGHT = 0.5
# Times a constant's squared errors, out of bag. In 140 fits of noise, curves in noise and two real
# tables, 28 came above; 26 of these were worse than a constant on test rows too, and the others had
# 14 rows. Diabetes, where ensembles are a little better than a constant, came to 1.4.
_OVERFITTED = 1.5
_JUDGED_ROWS = 1000  # on which particles are compared with a constant
# Particles are left out that fall short of a constant by more than what draws of a posterior fall
# short of its mode, half a nat for each weight, or row if rows are fewer, and some chance. On noise
# of all kinds, 5 rows to 10,000, they did by 140 nats at most, and by 33 below 10,000 rows; or else
# by hundreds to millions, as soon as dead units woke up.
_LOST_BY_WEIGHT, _CHANCE = 0.5, 20.0
_TELLING_ROWS = 50  # of a stream; fewer rows say nothing about training


class Survivors:
    """Networks that have not diverged, without dead ones unless all are dead.

    Parameters
    ----------
    target : TrainableNetwork
    states : list of Training
    particles : ndarray of shape (m, dim)
        The networks.
    dead : ndarray of bool, shape (m,)
        Which of them are dead.
    learning_rate : float
        For messages.

    Attributes
    ----------
    states : list of Training
        Without those that are left out.
    particles : ndarray of shape (m_kept, dim)
    counts : dict
        ``n_dropped`` networks that were left out, and ``n_dead`` ones.

    Raises
    ------
    FloatingPointError
        If every network has diverged.
    """

    def __init__(self, target, states, particles, dead, learning_rate):
        finite = target.finite(particles)
        finite &= [bool(np.isfinite(state.weights).all()) for state in states]
        if not finite.any():
            raise FloatingPointError(
                f"every network diverged: use a smaller learning rate, below {learning_rate:g}, "
                "or scale the features."
            )
        self.n, self.n_finite = len(states), int(finite.sum())
        dead = dead & finite
        self.all_dead = bool(dead.sum() == self.n_finite)
        kept = finite if self.all_dead else finite & ~dead
        self.states = [state for state, keep in zip(states, kept, strict=True) if keep]
        self.particles = particles[kept]
        self.counts = {"n_dropped": int(np.sum(~kept)), "n_dead": int(dead.sum())}
        self.learning_rate = learning_rate

    def report(self):
        """Warn about networks that diverged, died or bounced."""
        rate = f"use a smaller learning rate than {self.learning_rate:g}"
        if self.n_finite < self.n:
            warn(
                f"{self.n - self.n_finite} of {self.n} networks diverged and were left out: {rate}."
            )
        if n_dead := self.counts["n_dead"]:
            who = f"{n_dead} of {self.n} networks died in training and were left out"
            if self.all_dead:
                who = "all networks died in training"
            warn(
                f"{who}: their output is the same for every row; {rate}, more hidden units, "
                'activation="tanh", or scale the features.'
            )
        bounced = [state for state in self.states if state.bounced]
        if bounced:
            warn(
                f"{len(bounced)} of {self.n} networks bounced in training: their loss rose to more "
                "than ten times that of a constant, and their present state may be "
                f"poor; {rate}, or scale the features."
            )


def still_training(states, learning_rate, n_steps, patience):
    """Whether most networks were still moving at the end of training."""
    count = sum(
        state.waiting < patience and state.straightness(learning_rate, n_steps) > _STRAIGHT
        for state in states
    )
    return count > 0.5 * len(states)


def overfitted(target, posterior):
    """Whether networks err more than a constant where they were not trained, and did not bounce.

    Their common noise variance is that of rows out of bag.
    """
    noise = posterior.particles[0, target.n_weights :] - target.constant()[target.n_weights :]
    bounced = any(state.bounced for state in posterior.state)
    return not bounced and np.mean(np.exp(noise)) > _OVERFITTED


def without_failures(target, posterior, weighted):
    """Drop particles that explain the rows far worse than a constant does.

    One of them is enough to spoil a mean. If particles are ``weighted``, engines have checks of
    their own and no particle is dropped. Returns the posterior, and a warning or None.
    """
    rows = np.arange(0, target.n_rows, -(-target.n_rows // _JUDGED_ROWS))
    loss, weight = target.shortfall(posterior.particles, rows)
    failed = ~(loss < _LOST_BY_WEIGHT * min(target.n_weights, weight) + _CHANCE)
    if not failed.any() or (weighted and not failed.all()):
        return posterior, None
    much = np.median(loss[failed]) / weight
    failure = (
        "explain the rows they were trained on worse than a constant does, by "
        f"{f'{much:.2g}' if np.isfinite(much) else 'infinitely many'} nats per row"
    )
    advice = "reduce learning_rate_init, raise max_iter, or scale the features."
    if failed.all():
        return posterior, f"the networks {failure}: their training failed; {advice}"
    n_dropped = int(np.sum(failed))
    counts = {"n_dropped": posterior.diagnostics["n_dropped"] + n_dropped}
    kept = posterior._some(
        ~failed,
        chains=None,  # which have draws of those that failed
        weights=posterior.weights[~failed] / posterior.weights[~failed].sum(),
        diagnostics=posterior.diagnostics | counts,
    )
    return kept, f"{n_dropped} of {len(failed)} networks {failure}, and were left out: {advice}"


def judged_in_stream(target, states, particles):
    """The networks of a stream with their latest losses, and which of them are dead."""
    silent, few = target.dead(particles), target.n_rows < _TELLING_ROWS

    def judged(state, says_nothing, theta):
        count = state.silent + target.n_rows if says_nothing else 0
        # The loss after the last step is not among those that the epoch met.
        worst = 0.0 if few else max(state.worst_loss, target.training_loss(theta, state.rows))
        return replace(state, silent=count, worst_loss=worst)

    states = [judged(*each) for each in zip(states, silent, particles, strict=True)]
    return states, np.array([state.silent >= _TELLING_ROWS for state in states])
