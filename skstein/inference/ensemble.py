"""Ensembles: networks trained independently, each from its own start.

The posterior of a network has so many modes that no chain crosses between them. What an ensemble of
local modes gives is cheap and decides the accuracy of whatever follows; the other engines for
networks start from it. It is in none of the papers. As a posterior by itself it lacks the spread
within a mode, and training errors say nothing of the noise: that is measured on rows which the
networks did not see.
"""

import warnings
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._validation import Interval, StrOptions
from ..posterior import ParticlePosterior
from .base import N_PARTICLES, Engine, Rounds

_N_FOLDS = 10
_ROUNDS = 20  # between which the callback may stop the run
_SMALL_DATA, _SMALL_BATCH, _BATCH = 3000, 32, 100
_FOREVER = 2**62
# On all kinds of data, 2 rows to 10,000, the defaults came to 0.3 at most, and to 0.07 from 50 rows
# on; with 0.5 and more, classifiers were far from what longer training gave.
_STRAIGHT = 0.5
# Times a constant's squared errors, out of bag. In 140 fits of noise, curves in noise and two real
# tables, 28 came above; 26 of these were worse than a constant on test rows too, and the others had
# 14 rows. Diabetes, where ensembles are a little better than a constant, came to 1.4.
_OVERFITTED = 1.5


class Ensemble(Engine):
    """Networks trained independently to modes of the posterior.

    How it works, and when not to trust it: :doc:`/methods/neural_networks`.

    Parameters
    ----------
    n_particles : int, default=20
        Networks.
    max_iter : int or "auto", default="auto"
        Epochs; "auto" is as many as make 20,000 steps, from 50 to 2000, or in a classifier as its
        own ``max_iter="auto"`` says.
    batch_size : int, "auto" or None, default="auto"
        Rows of a step: 32 below 3000 rows, else 100, for "auto"; all rows for None.
    learning_rate : float, default=0.01
        First step of Adam; it falls to zero along a cosine.
    out_of_bag : bool, default=True
        Whether every network is kept from a tenth of the rows, from which noise variances are then
        estimated. Without it they are those of training errors, which are too small.
    validation_fraction : float or None, default=None
        Stop a network early, and take its best state, by its likelihood of this share of the rows,
        drawn for it at random; they are out of bag too.
    n_iter_no_change : int, default=10
        Epochs without progress after which a network stops early.
    tol : float, default=1e-4
        What counts as progress in the mean log likelihood.

    Raises
    ------
    FloatingPointError
        If every network diverges.

    Warns
    -----
    ConvergenceWarning
        If some networks diverge or die, which are left out, or all die. A dead network puts out the
        same for every row: all units of one of its layers are off, and no gradient gets past it.
        If some bounce: their loss was more than ten times that of knowing nothing on the way. If
        squared errors out of bag are larger than those of a constant by half.

    Notes
    -----
    In the posterior's ``diagnostics``, ``n_dropped`` counts the networks that were left out and
    ``n_dead`` those that died. It has not ``converged`` where most networks were still on their
    way at the end: their weights came more than half as far as steps in one direction would have
    taken them. That is not warned of, because an engine may go on from there.

    References
    ----------
    Lakshminarayanan, Pritzel & Blundell (2017), "Simple and scalable predictive uncertainty
    estimation using deep ensembles".

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.inference import Ensemble
    >>> from skstein.targets import MLPTarget
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> target = MLPTarget(X, np.sin(3 * X[:, 0]), hidden_layer_sizes=(5,))
    >>> Ensemble(4, max_iter=10).run(target, np.random.default_rng(0))
    ParticlePosterior(4 particles, 17 coordinates)
    """

    _parameter_constraints = {
        "n_particles": N_PARTICLES[1:],
        "max_iter": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "batch_size": [
            None,
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "out_of_bag": ["boolean"],
        "validation_fraction": [None, Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }
    requires = ("begin_training", "train")

    def __init__(
        self,
        n_particles=20,
        *,
        max_iter="auto",
        batch_size="auto",
        learning_rate=0.01,
        out_of_bag=True,
        validation_fraction=None,
        n_iter_no_change=10,
        tol=1e-4,
    ):
        self.n_particles = n_particles
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.out_of_bag = out_of_bag
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol

    def n_rounds(self, target):
        return min(_ROUNDS, self._n_epochs(target.n_rows))

    def run(self, target, rng, *, init=None, map=map, callback=None):
        n = target.n_rows
        theta = target.sample_initial(rng, self.n_particles)
        if init is not None:
            theta[: len(init)] = init[: self.n_particles]
        batch_size = resolve_batch_size(self.batch_size, n)
        n_epochs = self._n_epochs(n)
        generators = rng.spawn(len(theta))
        held_out = self._held_out(n, target.n_noise, rng)
        states = [
            target.begin_training(start, np.setdiff1d(np.arange(n), rows), rows, generator)
            for start, rows, generator in zip(theta, held_out, generators, strict=True)
        ]
        n_steps = n_epochs * -(-min(len(state.rows) for state in states) // batch_size)
        early = self.validation_fraction is not None
        patience = self.n_iter_no_change if early else _FOREVER
        done = 0

        def survivors():
            particles = np.stack([target.trained(state, early) for state in states])
            dead = target.dead(particles)
            return Survivors(target, states, particles, dead, self.learning_rate)

        def make_posterior():
            kept = survivors()
            particles = kept.particles
            if target.n_noise and any(len(state.held_out) for state in kept.states):
                rows = [state.held_out for state in kept.states]
                particles[:, target.n_weights :] = target.out_of_bag_noise(particles, rows)
            return ParticlePosterior(
                particles,
                names=target.names,
                history=rounds.history.arrays(),
                n_iter=done,
                diagnostics=kept.counts,
                state=kept.states,
            )

        rounds = Rounds(n_epochs, make_posterior, callback)
        for part in np.array_split(np.arange(n_epochs), self.n_rounds(target)):
            advance = partial(
                target.train, len(part), batch_size, self.learning_rate, n_steps, patience, self.tol
            )
            states = list(map(advance, states))
            done += len(part)
            finite = sum(bool(np.isfinite(state.weights).all()) for state in states)
            if rounds.end(done, n_networks=finite):
                break
        posterior = make_posterior()
        survivors().report()
        if done == n_epochs:
            if init is None:
                self._judge(posterior, n_steps, patience)
            self._compare_out_of_bag(posterior, target)
        return posterior

    def _compare_out_of_bag(self, posterior, target):
        """Warn of networks that err more than a constant where they were not trained."""
        failed = not posterior.converged or any(state.bounced for state in posterior.state)
        out_of_bag = target.n_noise and any(len(state.held_out) for state in posterior.state)
        if failed or not out_of_bag:
            return
        constant = target.constant()[target.n_weights :]
        ratio = np.mean(np.exp(posterior.particles[0, target.n_weights :] - constant))
        if ratio > _OVERFITTED:
            warnings.warn(
                "on rows that they were not trained on, the networks err more than a constant "
                f"does, by a factor of {ratio:.2g} in squared errors: where they follow the noise, "
                "stop early, use fewer units, a prior of smaller scale, or chains.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _judge(self, posterior, n_steps, patience):
        """Note whether training has come to its end."""
        straight = [
            state.waiting < patience and state.straightness(self.learning_rate, n_steps) > _STRAIGHT
            for state in posterior.state
        ]
        if np.mean(straight) > 0.5:
            posterior.converged = False
            posterior.diagnostics["message"] = (
                f"{sum(straight)} of {len(straight)} networks were still on their way when "
                f"training ended after {posterior.n_iter} epochs: raise max_iter, or the learning "
                f"rate, {self.learning_rate:g}."
            )

    def _n_epochs(self, n):
        if self.max_iter != "auto":
            return self.max_iter
        return automatic_epochs(n, resolve_batch_size(self.batch_size, n))

    def _held_out(self, n, n_noise, rng):
        """The rows that each network is not trained on."""
        m = self.n_particles
        if self.validation_fraction is not None:
            count = int(np.ceil(self.validation_fraction * n))
            if count >= n:
                raise ValueError(
                    f"validation_fraction={self.validation_fraction:g} leaves none of {n} rows to "
                    "train on; use early_stopping=False."
                )
            return [rng.permutation(n)[:count] for _ in range(m)]
        if not (self.out_of_bag and n_noise) or n == 1:
            return [np.array([], dtype=int)] * m
        folds = np.array_split(rng.permutation(n), min(_N_FOLDS, n))
        return [folds[i % len(folds)] for i in range(m)]


class Survivors:
    """Networks that have not diverged, without dead ones unless all are dead.

    Parameters
    ----------
    target : MLPTarget
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
        """Warn of networks that diverged, died or bounced."""
        rate = f"use a smaller learning rate than {self.learning_rate:g}"
        problems = []
        if self.n_finite < self.n:
            problems.append(
                f"{self.n - self.n_finite} of {self.n} networks diverged and were left out: {rate}."
            )
        if n_dead := self.counts["n_dead"]:
            who = (
                "all networks died in training"
                if self.all_dead
                else f"{n_dead} of {self.n} networks died in training and were left out"
            )
            problems.append(
                f"{who}: they put out the same for every row; {rate}, more hidden units, "
                'activation="tanh", or scale the features.'
            )
        rises = [state.worst_loss / state.usual_loss for state in self.states if state.bounced]
        if rises:
            problems.append(
                f"{len(rises)} of {self.n} networks bounced in training: their loss rose to "
                f"{max(rises):.2g} times that of knowing nothing, and what they have come to since "
                f"may be poor; {rate}, or scale the features."
            )
        for problem in problems:
            warnings.warn(problem, ConvergenceWarning, stacklevel=3)


def resolve_batch_size(batch_size, n):
    """Rows of a step."""
    if batch_size is None:
        return n
    if batch_size == "auto":
        batch_size = _SMALL_BATCH if n < _SMALL_DATA else _BATCH
    return min(batch_size, n)


def automatic_epochs(n, batch_size, n_updates=20_000, least=50):
    """As many epochs as make ``n_updates`` steps, within limits."""
    return int(np.clip(round(n_updates * batch_size / n), least, 2000))
