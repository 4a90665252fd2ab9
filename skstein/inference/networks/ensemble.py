"""Ensembles: networks trained independently, each from its own start.

The posterior of a network has so many modes that no chain crosses between them. What an ensemble of
local modes gives is cheap and decides the accuracy of whatever follows; the other engines for
networks start from it. It is in none of the papers. As a posterior by itself it lacks the spread
within a mode, and training errors say nothing of the noise: that is measured on rows which the
networks did not see.
"""

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real

import numpy as np

from ..._input.validation import Interval, StrOptions
from ...posterior import ParticlePosterior
from .._building_blocks.rounds import Rounds
from ..base import AUTO_BATCH_SIZE, N_NETWORKS, N_PARTICLES, Engine
from .failed_networks import Survivors, judged_in_stream, overfitted, still_training

_N_FOLDS = 10
_ROUNDS = 20  # between which the callback may stop the run
_SMALL_DATA, _SMALL_BATCH, _BATCH = 3000, 32, 100
_FOREVER = 2**62
_ENOUGH_TO_JUDGE = 20  # rows from which some are held out to stop early
_PATIENCE = 1 / 3  # of all epochs
_MEMORY = 0.999  # of the noise variance in a stream, from one row to the next

_LEARNT = (
    "the networks go on from a fit that may have trained them on rows that now measure the noise: "
    "it may be too small. Fit with warm_start=False, or with chains."
)
_FOLLOWED = (
    "on rows that they were not trained on, the networks err more than a constant does: where they "
    "follow the noise, stop early, use fewer units, a prior of smaller scale, or chains."
)


@dataclass(eq=False, repr=False)
class Ensemble(Engine):
    """Networks trained independently to modes of the posterior.

    How it works, and when not to trust it: :doc:`/methods/neural_networks`.

    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Networks; 20, or in an estimator its ``n_networks``, for "auto".
    max_iter : int or "auto", default="auto"
        Epochs; "auto" is as many as make 20,000 steps, from 50 to 2000, or in an estimator as its
        own ``max_iter="auto"`` says.
    batch_size : int, "auto" or None, default="auto"
        Rows of a step: 32 below 3000 rows, else 100, for "auto"; all rows for None.
    learning_rate : float, default=0.01
        First step of Adam; it falls to zero along a cosine.
    out_of_bag : bool, default=True
        Whether every network is kept from a tenth of the rows, from which noise variances are then
        estimated: from copies of a row together, where all rows of the same outcome are copies.
        Without it they are those of training errors, which are too small.
    validation_fraction : float or None, default=None
        Take the best state of each network, by its likelihood of this share of the rows, drawn for
        it at random; they are out of bag too. Normal noise has the variance that suits them. With
        fewer than 20 rows it is the last state.
    n_iter_no_change : int or None, default=None
        Epochs without progress after which a network stops early; None: a third of all epochs.
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
        If some bounce: their loss was more than ten times that of knowing nothing on the way.

    Notes
    -----
    In the posterior's ``diagnostics``, ``n_dropped`` counts the networks that were left out and
    ``n_dead`` those that died. It has not ``converged``, and a ``message`` says why, where most
    networks were still on their way at the end: their weights came more than half as far as steps
    in one direction would have taken them; where squared errors out of bag are larger than those of
    a constant by half; and where networks of an earlier run may have been trained on rows that now
    measure the noise. The warning is left to `infer`, because an engine may go on from there.

    References
    ----------
    Lakshminarayanan, Pritzel & Blundell (2017), "Simple and scalable predictive uncertainty
    estimation using deep ensembles" (arXiv:1612.01474).

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
        "n_particles": N_PARTICLES,
        "max_iter": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "batch_size": AUTO_BATCH_SIZE,
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "out_of_bag": ["boolean"],
        "validation_fraction": [None, Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [None, Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }
    requires = (
        "begin_training",
        "constant",
        "dead",
        "finite",
        "out_of_bag_noise",
        "sample_initial",
        "train",
        "trained",
    )
    gaussian = False
    continues = near_start = True
    subsampling = "plain"

    n_particles: int | str = "auto"
    _: KW_ONLY
    max_iter: int | str = "auto"
    batch_size: int | str | None = "auto"
    learning_rate: float = 0.01
    out_of_bag: bool = True
    validation_fraction: float | None = None
    n_iter_no_change: int | None = None
    tol: float = 0.0001

    def n_rounds(self, target):
        return min(_ROUNDS, self._n_epochs(target.n_rows))

    def run(self, target, rng, *, init=None, map=map, callback=None):
        m, n = self.moving(N_NETWORKS).n_particles, target.n_rows
        theta = target.sample_initial(rng, m)
        init, unseen, anew = _networks_before(init, target)
        unknown = [rows is None for rows in unseen]  # what they were trained on
        if init is not None:
            theta[: len(init)] = init[:m]
        batch_size = training_batch_size(self.batch_size, n)
        n_epochs = self._n_epochs(n)
        generators = rng.spawn(len(theta))
        early = self.validation_fraction is not None and n >= _ENOUGH_TO_JUDGE
        held_out = self._held_out(m, target, early, rng)
        judges_noise = target.n_noise > 0 and any(len(rows) for rows in held_out)
        if early or judges_noise:
            pairs = zip(held_out, unseen, strict=False)
            held_out[: len(unseen)] = [new if old is None else old for new, old in pairs]
        states = [
            target.begin_training(start, np.setdiff1d(np.arange(n), rows), rows, generator)
            for start, rows, generator in zip(theta, held_out, generators, strict=True)
        ]
        # Rows once seen stay seen: a later fit of the same rows has to know.
        for i in np.flatnonzero(unknown[: len(states)]):
            states[i].data = ~target.checksum
        epochs = [-(-len(state.rows) // batch_size) for state in states]  # each in steps
        n_steps = n_epochs * min(epochs)
        patience = self.n_iter_no_change or int(np.ceil(_PATIENCE * n_epochs))
        patience = patience if early else _FOREVER

        def n_iter():
            done = [int(state.done[0]) for state in states]
            return max(-(-steps // size) for steps, size in zip(done, epochs, strict=True))

        def survivors():
            chosen = [state.at_best for state in states] if early else states
            particles = np.stack([target.trained(state) for state in chosen])
            return Survivors(target, chosen, particles, target.dead(particles), self.learning_rate)

        def make_posterior():
            kept = survivors()
            particles = kept.particles
            if judges_noise:
                rows = [state.held_out for state in kept.states]
                particles[:, target.n_weights :] = target.out_of_bag_noise(particles, rows)
            return ParticlePosterior(
                particles,
                names=target.names,
                history=rounds.history.arrays(),
                n_iter=n_iter(),
                diagnostics=kept.counts,
                state=kept.states,
            )

        rounds = Rounds(n_epochs, make_posterior, callback)
        for part in np.array_split(np.arange(n_epochs), self.n_rounds(target)):
            advance = partial(
                target.train, len(part), batch_size, self.learning_rate, n_steps, patience, self.tol
            )
            states = list(map(advance, states))
            finite = sum(bool(np.isfinite(state.weights).all()) for state in states)
            loss = float(np.mean([state.loss for state in states]))
            stop = rounds.end(n_iter(), n_networks=finite, loss=loss)
            if stop or all(state.waiting >= patience for state in states):
                break
        posterior = make_posterior()
        survivors().report()
        training, problem = (posterior.state, self.learning_rate, n_steps, patience), ""
        if judges_noise and any(unknown):
            problem = _LEARNT
        elif anew and not rounds.stopped and still_training(*training):
            problem = (
                "most networks were still on their way when training ended: raise max_iter, or the "
                f"learning rate, {self.learning_rate:g}."
            )
        elif judges_noise and not rounds.stopped and overfitted(target, posterior):
            problem = _FOLLOWED
        if problem:
            posterior.converged = False
            posterior.diagnostics["message"] = problem
        return posterior

    def _n_epochs(self, n):
        if self.max_iter != "auto":
            return self.max_iter
        return training_epochs(n, training_batch_size(self.batch_size, n))

    def _held_out(self, m, target, early, rng):
        """The rows that each network is not trained on: of copies all, or none.

        Copies are rows of the same outcome, if all that share one share their features, too, and
        are a tenth of the rows at most: else they are cells of a table.
        """
        (X, y, _), n = target.data, target.n_rows
        if not early and (not (self.out_of_bag and target.n_noise) or n == 1):
            return [np.array([], dtype=int)] * m
        # With the first places, the inverse and the counts.
        _, first, which, counts = np.unique(y, True, True, True, axis=0)
        if _N_FOLDS * counts.max() > n or not np.array_equal(X[first[which.ravel()]], X):
            first = which = np.arange(n)
        which, n = np.argsort(np.argsort(first))[which.ravel()], len(first)  # in their order
        if early:
            count = int(np.ceil(self.validation_fraction * n))  # type: ignore[operator]
            if count >= n:
                raise ValueError(
                    f"validation_fraction={self.validation_fraction:g} leaves none of {n} rows to "
                    "train on; use early_stopping=False."
                )
            folds = [rng.permutation(n)[:count] for _ in range(m)]
        else:
            folds = np.array_split(rng.permutation(n), min(_N_FOLDS, n))
        return [np.flatnonzero(np.isin(which, folds[i % len(folds)])) for i in range(m)]


def _networks_before(init, target):
    """The networks to start from, the rows that each was kept from, and if these rows are others.

    The rows are None where unknown; training is anew without networks, too.
    """
    if not isinstance(init, ParticlePosterior):
        return init, [], init is None
    states = init.state if isinstance(init.state, list) else []
    states = [state for state in states if hasattr(state, "held_out")]
    if not states:
        return init.particles, [None] * len(init), False
    unseen = [
        state.held_out if state.data == target.checksum and len(state.held_out) else None
        for state in states
    ]
    anew = any(state.data not in (target.checksum, ~target.checksum) for state in states)
    return np.stack([target.trained(state) for state in states]), unseen, anew


def untrained(target, m, rng):
    """``m`` networks for the first rows of a stream."""
    theta, generators = target.sample_initial(rng, m), rng.spawn(m)
    return [target.begin_training(theta[i], [], [], generators[i]) for i in range(m)]


def epoch_of_stream(target, networks, noise, batch_size, learning_rate, map):
    """Train networks on the rows of a stream, with a constant learning rate.

    Parameters
    ----------
    target : TrainableNetwork
        Of these rows alone.
    networks : list of Training
        They are left as they are.
    noise : ndarray of shape (n_noise,) or None
        The noise variances so far, in a regression.
    batch_size : int, "auto" or None
    learning_rate : float
    map : callable

    Returns
    -------
    kept : Survivors
    noise : ndarray of shape (n_noise,), or None for classes
    """
    before, rows = np.stack([target.trained(state) for state in networks]), np.arange(target.n_rows)
    changed = {"rows": rows, "held_out": np.array([], dtype=np.int64)}
    states = [replace(state, **changed, usual_loss=None, worst_loss=0.0) for state in networks]
    size = training_batch_size(batch_size, target.n_rows)
    advance = partial(target.train, 1, size, learning_rate, _FOREVER, _FOREVER, 0.0)
    states = list(map(advance, states))
    particles = np.stack([target.trained(state) for state in states])
    if target.n_noise:
        # Rows are new when they come: the errors they meet are out of sample.
        fit_for_it = before[target.finite(before)]
        met = np.exp(target.out_of_bag_noise(fit_for_it, [rows] * len(fit_for_it)))
        # At first rows count the more the later they come: networks were poor when it began.
        share = max(min(1.0, 2.0 * target.prior_share), 1.0 - _MEMORY**target.total_weight)
        noise = met if noise is None else noise + share * (met - noise)
        particles[:, target.n_weights :] = np.log(noise)
    states, dead = judged_in_stream(target, states, particles)
    return Survivors(target, states, particles, dead, learning_rate), noise


def training_batch_size(batch_size, n):
    """Rows of a step."""
    if batch_size is None:
        return n
    if batch_size == "auto":
        batch_size = _SMALL_BATCH if n < _SMALL_DATA else _BATCH
    return min(batch_size, n)


def training_epochs(n, batch_size, n_updates=20_000, least=50):
    """As many epochs as make ``n_updates`` steps, within limits."""
    return int(np.clip(round(n_updates * batch_size / n), least, 2000))
