r"""Stochastic gradient Hamiltonian Monte Carlo, for one network at a time.

After Chen, Fox & Guestrin (2014), with what networks of a few thousand weights were found to need:

- a diagonal metric, :math:`C_p = (G_p + \tau_p)^{-1/2}`, from the Gauss-Newton matrix :math:`G` and
  the prior precisions :math:`\tau`. It has a floor and is renewed on the way: a unit that is dead
  when the metric is taken has no curvature, and throws the chain out when it wakes up;
- velocities no larger than 4 standard deviations;
- steps of a length of their own: where the mean square of a chain's velocities, 1 in equilibrium,
  is above :math:`1 + 4 \sqrt{2 / d}`, its steps become shorter and the velocities are drawn again;
- the noise that a minibatch brings, measured by its errors, is taken off that of the dynamics;
- noise variances and prior precisions are drawn from their conditionals (Gibbs steps), at most once
  in an epoch.

A step of size :math:`\varepsilon` on a batch of B of n rows, with the gradient G of its negative
log likelihood:

.. math::
   v &\leftarrow e^{-\varepsilon} v - \varepsilon\, C \odot (\tfrac nB G + \tau \odot \theta)
   + \sqrt{\max(0, 1 - e^{-2 \varepsilon} - \varepsilon^2 (\tfrac nB - 1) s)}\; \xi, \\
   \theta &\leftarrow \theta + \varepsilon\, C \odot v,

where s is the mean squared error of the batch over the noise variance, at most 1; 1 for classes.

There is no acceptance step. The chains explore the mode they start in, and what they draw is an
approximate posterior around it.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real

import numpy as np

from .._validation import Interval, StrOptions
from .._warnings import warn
from .base import Sampler

_LEAST_BATCH, _LARGEST_RATIO = 300, 50
# Velocities of too long a step are hot: the mean of their squares, 1 in equilibrium, leaves what
# chance allows. Steps go down fast, and up slowly.
_CHANCE, _DOWN, _UP = 4.0, 0.7, 1.02
# What a minibatch of many rows heats are a few directions, which the mean does not tell.
_HEAT, _SMALL_STEP = 0.3, 0.03
_LEAST_STEPS = 20  # between Gibbs steps
_RENEWAL = 5  # Gibbs steps between two metrics


@dataclass
class NetworkChains:
    """What the next draw of several chains needs, each a list of one entry a chain.

    Attributes
    ----------
    theta, velocity, scale, precision : list of ndarray
    rngs : list of numpy.random.Generator
    until : list of int
        Steps to the next Gibbs step.
    n_gibbs : list of int
        Gibbs steps done.
    alive : list of bool
        False for a chain that has left for infinity: it stays at its last state.
    step : list of float
    n_divergent : int
        Always 0: there are no proposals to be rejected.
    """

    theta: list
    velocity: list
    scale: list
    precision: list
    rngs: list
    until: list
    n_gibbs: list
    alive: list
    step: list
    n_divergent: int = 0

    @property
    def step_size(self):
        """The mean over chains."""
        return float(np.mean(self.step))


@dataclass(eq=False, repr=False)
class SGHMC(Sampler):
    """Hamiltonian chains on minibatches for targets that are neural networks.

    Parameters
    ----------
    step_size : float, default=0.1
        The longest step, in units of the metric. A chain takes shorter ones where its velocities
        say that it is hotter than the posterior, and on a minibatch of n rows none above 0.03 for
        which ``step * n / (2 * batch_size)`` is more than 0.3.
    thinning : int, default=500
        Steps of a draw.
    batch_size : int, "auto" or None, default="auto"
        Rows of a step: 300, or a fiftieth of the rows if that is more, for "auto"; all for None.

    References
    ----------
    Chen, Fox & Guestrin (2014), "Stochastic gradient Hamiltonian Monte Carlo".

    Examples
    --------
    >>> import numpy as np
    >>> from skstein.samplers import SGHMC
    >>> from skstein.targets import MLPTarget
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> target = MLPTarget(X, np.sin(3 * X[:, 0]), hidden_layer_sizes=(5,))
    >>> rng, sampler = np.random.default_rng(0), SGHMC(thinning=20)
    >>> chains = sampler.warm_up(target, 5, target.sample_initial(rng, 2), rng)
    >>> chains, draws, scores, acceptance = sampler.draw(target, 10, chains)
    >>> draws.shape
    (2, 10, 17)
    """

    requires = ("hamiltonian_steps", "resample", "scales", "score")
    global_moves = False  # each chain explores the mode it starts in
    _parameter_constraints = {
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "thinning": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [
            None,
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
    }

    step_size: float = 0.1
    thinning: int = 500
    _: KW_ONLY
    batch_size: int | str | None = "auto"

    def warm_up(self, target, n_iterations, theta, rng):
        """Leave the start.

        Parameters
        ----------
        target : Target
            With the pieces of `MLPTarget`.
        n_iterations : int
            Each of ``thinning`` steps, as a draw is.
        theta : ndarray of shape (chains, dim)
            Where the chains start.
        rng : numpy.random.Generator

        Returns
        -------
        NetworkChains

        Raises
        ------
        ValueError
            If a parameter is wrong, or the target is not a neural network.
        """
        self._validate_params()
        if not hasattr(target, "hamiltonian_steps"):
            raise ValueError(
                "SGHMC moves neural networks only; for other targets use HMC, or SGLD on "
                "minibatches."
            )
        m = len(theta)
        chains = NetworkChains(
            theta=[np.array(row, dtype=float) for row in theta],
            velocity=[np.zeros(target.n_weights)] * m,
            scale=[None] * m,
            precision=[None] * m,
            rngs=rng.spawn(m),
            until=[0] * m,
            n_gibbs=[0] * m,
            alive=[True] * m,
            step=[self._longest_step(target.n_rows)] * m,
        )
        for i in range(m):
            chains.velocity[i] = chains.rngs[i].standard_normal(target.n_weights)
            self._advance(target, chains, i, n_iterations * self.thinning)
        return chains

    def draw(self, target, n_draws, chains):
        """Draw from the chains; see `HMC.draw`.

        The scores are those of all rows; 1 stands for the acceptance probability.

        Warns
        -----
        ConvergenceWarning
            If a chain leaves for infinity; it is held at its last state.
        """
        draws = np.empty((len(chains.theta), n_draws, target.dim))
        for i in range(len(chains.theta)):
            for t in range(n_draws):
                self._advance(target, chains, i, self.thinning)
                draws[i, t] = chains.theta[i]
        scores = target.score(draws.reshape(-1, target.dim)).reshape(draws.shape)
        return chains, draws, scores, 1.0

    def _advance(self, target, chains, i, n_steps):
        """Move chain ``i``."""
        rng = chains.rngs[i]
        batch_size = self._resolve_batch_size(target.n_rows)
        while n_steps and chains.alive[i]:
            theta = chains.theta[i]
            if chains.until[i] == 0:
                theta, chains.precision[i] = target.resample(theta, rng)
                if chains.n_gibbs[i] % _RENEWAL == 0:
                    chains.scale[i] = target.scales(theta, chains.precision[i], rng)
                chains.n_gibbs[i] += 1
                chains.until[i] = max(_LEAST_STEPS, target.n_rows // batch_size)
            count = min(n_steps, chains.until[i])
            theta, velocity = target.hamiltonian_steps(
                theta,
                chains.velocity[i],
                chains.scale[i],
                chains.precision[i],
                chains.step[i],
                batch_size,
                count,
                rng,
            )
            if not np.isfinite(theta).all():
                chains.alive[i] = False
                warn(
                    "a chain left for infinity and is held where it was last: use a step_size "
                    f"below {self.step_size:g}, or a larger batch_size."
                )
                return
            chains.theta[i], chains.velocity[i] = theta, velocity
            chains.until[i] -= count
            n_steps -= count
            if np.mean(np.square(velocity)) > 1.0 + _CHANCE * np.sqrt(2.0 / len(velocity)):
                chains.step[i] *= _DOWN
                chains.velocity[i] = rng.standard_normal(len(velocity))
            else:
                longest = self._longest_step(target.n_rows)
                chains.step[i] = min(longest, _UP * chains.step[i])

    def _longest_step(self, n):
        batch_size = self._resolve_batch_size(n)
        if batch_size == n:
            return self.step_size
        return min(self.step_size, max(_SMALL_STEP, 2.0 * _HEAT * batch_size / n))

    def _resolve_batch_size(self, n):
        if self.batch_size is None:
            return n
        if self.batch_size == "auto":
            return min(n, max(_LEAST_BATCH, n // _LARGEST_RATIO))
        return min(self.batch_size, n)
