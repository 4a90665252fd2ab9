"""Inference in two stages: networks are trained, and an engine goes on from there.

The posterior of a network has so many modes that no chain crosses between them. So networks are
trained from starts of their own, and what follows spreads particles around each of them, or nothing
does. The second engine works where it can:

- on the network itself, if it asks for more than other densities offer, as chains that draw prior
  precisions do;
- otherwise in weights divided by what a network's curvature says of their size, with the noise
  variances that training has left and the prior precisions that it had (`ScaledNetwork`): there
  any engine does that moves particles by scores;
- or, with ``subspace="curve"``, in the plane through two networks and the middle of a curve of good
  networks between them, whitened and checked as any density of a few coordinates
  (`skstein.inference.networks.curve`).

Particles that explain the rows worse than a constant does are left out at the end, whoever made
them (`failed_networks.py`).
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from ..._input.validation import HasMethods, StrOptions
from ..._statistics.quantiles import weighted_quantile
from ..._tools.warnings import warn
from ...targets import Affine, supports
from ...targets.networks.scaled_network import ScaledNetwork
from ...targets.subspace import Subspace
from .._run.infer import RunStage, approximate
from .._run.run_on_surrogate import surrogate_of
from .._run.stein_identities import stein_residuals
from ..base import N_NETWORKS, Engine, as_engine
from .curve import curve_middle, curve_plane
from .failed_networks import without_failures

# By Stein's identity mean squared scores are the mean curvature: about 1 for weights in units of
# what they would have on their own, at each network, whatever its mode. Chains came to 0.5 to 0.8.
# What stays where training ended, as an ensemble does, is not meant to be the posterior of the
# weights. Other residuals tell no more: where noise is small the average of (w - mean) score is off
# by several standard errors by default too.
_STEEP = 10.0
_AFFORDED = 0.05  # of the row gradients of training, for densities and scores of the particles


def _works_in_scaled_weights(engine, target):
    """Whether an engine asks for no more than `ScaledNetwork` offers, of whatever network."""
    return all(supports(_scaled(target), part) for part in engine.requires)


def _scaled(target):
    return ScaledNetwork(target, np.ones(target.n_weights), np.zeros(target.n_noise))


@dataclass(eq=False, repr=False)
class Trained(Engine):
    """Networks are trained, and an engine goes on from there.

    How it works, and when not to trust it: :doc:`/methods/neural_networks`.

    Parameters
    ----------
    training : engine
        What trains networks, and leaves them in its posterior's ``state``, such as `Ensemble`.
    then : engine, default=None
        What goes on from the networks; None for nothing.
    subspace : "curve" or None, default=None
        "curve": go on in a plane through two networks, with the defaults that engines have for
        other densities.

    Raises
    ------
    ValueError
        If ``then`` needs what the target does not offer, or more than the weights of a whole
        network allow.
    FloatingPointError
        If every network diverges, or one of the two of ``subspace="curve"`` diverges or dies.

    Warns
    -----
    ConvergenceWarning
        If particles explain the rows worse than a constant does; they are left out, unless all do.
        If ``then`` works on the network itself, and its particles have left the posterior: the mean
        square of the scores of the median one is above 10, of weights in units of the standard
        deviations that its curvature allows them.

    Notes
    -----
    The posterior's ``state`` is that of the networks, which can be trained further, and its
    ``whitening`` divides weights by their sizes. Log densities and scores are there where they are
    cheap beside training.

    Examples
    --------
    >>> import numpy as np
    >>> from skstein import infer
    >>> from skstein.inference import SVGD, Ensemble, Trained
    >>> from skstein.targets import MLPTarget
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> target = MLPTarget(X, np.sin(3 * X[:, 0]), hidden_layer_sizes=(5,))
    >>> engine = Trained(Ensemble(4, max_iter=300), SVGD(4, max_iter=20))
    >>> infer(target, engine, random_state=0)
    ParticlePosterior(4 particles, 17 coordinates)
    """

    _parameter_constraints = {
        "training": [HasMethods("run")],
        "then": [None, HasMethods("run")],
        "subspace": [None, StrOptions({"curve"})],
    }
    gaussian = False

    training: Any
    then: Any = None
    _: KW_ONLY
    subspace: str | None = None

    @property
    def continues(self):
        return self._training.continues

    @property
    def requires(self):
        own = ("expected_precision", "initial_precision", "scales", "shortfall")
        return (*self._training.requires, *own)

    @property
    def name(self):
        return self.last_stage.name

    @property
    def last_stage(self):
        """The engine of the last stage."""
        if self.then is None:
            return self._training
        engine = as_engine(self.then)
        if self.subspace is not None:
            return engine
        return engine.moving(getattr(self._training, "n_particles", N_NETWORKS))

    @property
    def _training(self):
        return as_engine(self.training).moving(N_NETWORKS)

    def check(self, target):
        super().check(target)
        self._training.check(target)
        engine = self.last_stage
        if self.subspace is not None:
            if self.then is None:
                raise ValueError(
                    'subspace="curve" needs an engine to find the posterior in it, such as '
                    'inference="ksd-mcmc"; got an ensemble.'
                )
            flat = np.zeros((2, target.dim))
            engine.check(Subspace(target, flat[0], flat))
        elif engine.needs_gaussian:
            raise ValueError(
                f"{engine.name} is lost among the {target.dim} coordinates of a network: use "
                'subspace="curve", where it has a few, or another engine.'
            )
        elif self.then is not None:
            surrogate_of(target, engine)  # refuses one
            engine.check(_scaled(target) if _works_in_scaled_weights(engine, target) else target)

    def n_rounds(self, target):
        rounds = [self._training.n_rounds(target)]
        if self.then is not None:
            rounds.append(self.last_stage.n_rounds(target))
        return None if None in rounds else sum(rounds)

    def run(self, target, rng, *, init=None, map=map, callback=None):
        stages = _Stages(callback, self.n_rounds(target))
        useful = partial(without_failures, target, weighted=self.subspace is not None)
        called = stages.callback("training", 0, lambda found: useful(found)[0], self.then is None)
        posterior = start = self._training.run(target, rng, init=init, map=map, callback=called)
        scale, leaves = None, False
        if self.then is not None and not stages.stopped:
            run, forward, scale = self._second(target, start, rng, map)
            leaves = forward is None
            if leaves:  # where training ended, and does not lean on that
                start.converged = True
                start.diagnostics.pop("message", None)
            whole = partial(_as_networks, start=start, forward=forward, names=target.names)
            called = stages.callback(
                self.name, start.n_iter, lambda posterior: useful(whole(posterior))[0], True
            )
            posterior = whole(run(callback=called))
        posterior, failure = useful(posterior)
        if failure is not None:
            warn(failure)
        if self.subspace is None:
            if scale is None:
                # Where training ended, networks fit their rows too well to tell.
                some = posterior.thin(min(len(posterior), len(start.state))).particles
                precision = target.expected_precision(np.mean(some[:, : target.n_weights] ** 2, 0))
                scale = _typical_scale(target, some, precision, rng.spawn(1)[0])
            # From weights in units of `scale`, and noise in those of its posterior, to networks.
            of_noise = 1.0 / np.sqrt(target.noise_shape + 0.5 * target.total_weight)
            scales = np.append(scale, np.full(target.n_noise, of_noise))
            posterior.whitening = Affine.diagonal(np.zeros(target.dim), scales)
            affordable = len(posterior) <= _AFFORDED * len(start.state) * start.n_iter
            steepness = _noted_steepness(posterior, target, affordable, rng.spawn(1)[0])
            if leaves and not steepness <= _STEEP:  # or not a number
                warn(
                    "the networks have left the posterior: mean squared scores are more than "
                    f"{_STEEP:g} times its curvature there. Use a smaller step_size, or a larger "
                    "batch_size.",
                    by=self.name,
                )
        return posterior

    def _second(self, target, start, rng, map):
        """How the second engine is run, what takes its particles to networks, and their scales."""
        theta, engine = start.particles, self.last_stage
        if self.subspace is not None:
            if len(theta) < 2 or start.diagnostics["n_dead"]:
                raise FloatingPointError(
                    'subspace="curve" needs two trained networks, of which one or both diverged or '
                    "died: use a smaller learning rate, more hidden units, "
                    'activation="tanh", or scale the features.'
                )
            middle = curve_middle(target, theta[0], theta[1], rng)
            plane = Subspace(target, *curve_plane(theta[0], middle, theta[1], target.n_weights))
            part = rng.spawn(1)[0]

            def run(callback):
                return approximate(plane, engine, part, map, RunStage(engine, callback))

            return run, plane.forward, None
        if not _works_in_scaled_weights(engine, target):
            return partial(engine.run, target, rng, init=theta, map=map), None, None
        scale = _typical_scale(target, theta, target.initial_precision, rng)
        noise = theta[0, target.n_weights :]
        working = ScaledNetwork(target, scale, noise, engine.batch_size, theta)
        run = partial(engine.run, working, rng, init=working.inverse(theta), map=map)
        return run, working.forward, scale


class _Stages:
    """One callback for both stages, which counts rounds and iterations through."""

    def __init__(self, callback, total):
        self._callback, self._total = callback, total
        self._done, self.stopped = 0, False

    def callback(self, stage, n_before, finish, last):
        """That of a stage, after so many iterations; ``finish`` makes its posteriors whole."""

        def called(iteration, total, make, info):
            self._done += 1
            if self._callback is not None:
                total = max(self._done + 1, total) if self._total is None else self._total
                own = {"n_iter": n_before + iteration, "stage": stage}
                info = {**info, **own, "last_stage": last}
                self.stopped = self._callback(self._done, total, lambda: finish(make()), info)
            return self.stopped

        return called


def _as_networks(posterior, start, forward, names):
    """What the second engine found, as networks, after the iterations of both stages."""
    changes = {} if forward is None else dict.fromkeys(("scores", "whitening", "chains"))
    return posterior._with(
        particles=posterior.particles if forward is None else forward(posterior.particles),
        names=tuple(names),
        n_iter=start.n_iter + posterior.n_iter,
        diagnostics=posterior.diagnostics | start.diagnostics,
        converged=posterior.converged and start.converged,
        state=start.state,
        **changes,
    )


def _typical_scale(target, theta, precision, rng):
    """Standard deviation that each weight would have on its own, the mean over networks."""
    return np.mean([target.scales(row, precision, rng) for row in theta], axis=0)


def _noted_steepness(posterior, target, affordable, rng):
    """Note Stein's residuals, and the mean square of scores of the median network over curvature.

    0 where there are no scores.

    Where it is ``affordable``, log densities and scores are filled in.
    """
    theta = posterior.particles
    if affordable and posterior.scores is None:
        posterior.log_densities, posterior.scores = None, target.score(theta)
    if affordable and posterior.log_densities is None:
        # In single precision those that come with scores differ in the last digits.
        posterior.log_densities = target.log_density(theta)
    if posterior.scores is None:
        return 0.0
    z = posterior.whitening.inverse(theta)
    scores = posterior.whitening.pull_score(z, posterior.scores)
    residuals = stein_residuals(z, scores, posterior.weights)
    squares, p = [], target.n_weights
    for row, score in zip(theta, posterior.scores, strict=True):
        scale = target.scales(row, target.expected_precision(row[:p] ** 2), rng)
        squares.append(np.mean((scale * score[:p]) ** 2))
    steepness = float(weighted_quantile(squares, posterior.weights, [0.5])[0])
    posterior.diagnostics |= {
        "stein_mean_residual": residuals.mean,
        "stein_spread_residual": residuals.spread,
        "steepness": steepness,
    }
    return steepness
