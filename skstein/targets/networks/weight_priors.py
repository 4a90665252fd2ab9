r"""Priors of a network's weights, with what engines for networks ask of them.

They are scale mixtures of normals: given precisions, weights are normal, and precisions can be
averaged and drawn in closed form. Densities have them integrated out. As both come from here, every
engine has the same posterior.

The precision that a `HierarchicalNormal` shares among a group of weights is bounded: the lowest
tenth of its gamma prior is left out,

.. math::
   u_j \mid \tau \sim N(0, 1 / \tau), \qquad
   p(\tau) \propto \tau^{a - 1} e^{-b \tau}\, [\tau \ge \tau_0], \qquad
   P_{\Gamma(a, b)}(\tau < \tau_0) = 0.1.

Where all units are off nothing but the prior holds the weights, and those that the heavy tails of
the whole mixture bring about make a network put out anything as soon as a unit wakes up.
"""

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaincinv, gammaln

_UNLIKELY = 0.1  # share of the prior of a shared precision that is left out
_TINY = 1e-200  # where incomplete gamma functions give way to their continued fraction
_TERMS = 50


class WeightPrior:
    """A prior whose precisions are known, or each weight's own.

    Parameters
    ----------
    prior : Normal or StudentT
    """

    def __init__(self, prior):
        self.prior = prior

    def log_density(self, coef):
        """Normalised log density of each row of ``coef`` (m, p), shape (m,)."""
        return self.prior.log_density(coef)

    def score(self, coef):
        """Gradient of the log density at each row of ``coef`` (m, p), shape (m, p)."""
        return self.prior.score(coef)

    def sample(self, rng, m, p):
        """Draw ``m`` vectors of ``p`` weights, shape (m, p)."""
        return self.prior.sample(rng, m, p)

    def expected_precision(self, second_moment):
        """Mean of each precision given ``E[coef**2]``, shape (p,)."""
        return self.prior.expected_precision(second_moment)

    def typical_precision(self, p):
        """Precisions before anything is learnt, shape (p,)."""
        if self.prior.precisions == "each":
            return np.broadcast_to(np.square(self.prior.scale) ** -1.0, p)
        return self.expected_precision(np.ones(p))

    def draw_precision(self, coef, rng, sizes):
        """Draw each precision given the weights ``coef`` (p,), shape (p,).

        ``sizes`` are those of groups of weights, one after the other.
        """
        if self.prior.precisions == "given":
            return self.expected_precision(np.square(coef))
        df, scale = self.prior.df, self.prior.scale
        return rng.gamma(df / 2 + 0.5, size=len(coef)) / (0.5 * (df * np.square(scale) + coef**2))


class SharedPrecision(WeightPrior):
    r"""A prior whose weights share one unknown precision, bounded from below.

    With the bound :math:`\tau_0`, the tail Q of the gamma distribution and :math:`r = b + |u|^2 /
    2`, the density of the unbounded prior is multiplied by :math:`Q(a + p / 2, \tau_0 r) / 0.9`.

    Parameters
    ----------
    prior : HierarchicalNormal
    """

    def __init__(self, prior):
        super().__init__(prior)
        self.least = gammaincinv(prior.shape, _UNLIKELY) / prior.rate

    def log_density(self, coef):
        shape, rate = self._conditional(np.einsum("ij,ij->i", coef, coef), coef.shape[1])
        log_tail, _ = _upper_tail(shape, self.least * rate)
        return self.prior.log_density(coef) + log_tail - np.log1p(-_UNLIKELY)

    def score(self, coef):
        square = np.einsum("ij,ij->i", coef, coef)
        return -self._mean(*self._conditional(square, coef.shape[1]))[:, None] * coef

    def sample(self, rng, m, p):
        tail = (1.0 - _UNLIKELY) * rng.uniform(size=(m, 1))
        precision = gammainccinv(self.prior.shape, tail) / self.prior.rate
        return rng.standard_normal((m, p)) / np.sqrt(precision)

    def expected_precision(self, second_moment):
        p = len(second_moment)
        return np.full(p, self._mean(*self._conditional(np.sum(second_moment), p)))

    def typical_precision(self, p):
        return np.full(p, self._mean(self.prior.shape, self.prior.rate))

    def draw_precision(self, coef, rng, sizes):
        shape, rate = self._conditional(np.add.reduceat(coef**2, np.cumsum(sizes) - sizes), sizes)
        bound, share = self.least * rate, rng.uniform(size=len(sizes))
        tail = share * gammaincc(shape, bound)
        precision = gammainccinv(shape, tail) / rate
        far = tail <= _TINY
        if far.any():  # the tail is exponential there
            beyond = 1.0 - np.log(share) / (bound - shape + 1.0)
            precision = np.where(far, self.least * beyond, precision)
        return np.repeat(precision, sizes)

    def _conditional(self, square, p):
        """Shape and rate of the gamma distribution of the precision, but for the bound."""
        return self.prior.shape + 0.5 * p, self.prior.rate + 0.5 * square

    def _mean(self, shape, rate):
        """Mean of a gamma distribution above the bound."""
        _, hazard = _upper_tail(shape, self.least * rate)
        return (shape + hazard) / rate


def weight_prior(prior):
    """What networks ask of a prior, with its shared precision bounded.

    Raises
    ------
    ValueError
        If its precisions have no closed form, it expects other than 0, or knows features apart.
    """
    if prior.blockwise and (np.any(prior.loc) or np.ndim(getattr(prior, "scale", 0.0))):
        raise ValueError(
            f"prior={prior!r} is for coefficients of features, which weights of a network are not: "
            "use loc=0 and one number for scale, and multiply features to give them more weight."
        )
    if prior.precisions == "shared":
        return SharedPrecision(prior)
    if prior.precisions is not None:
        return WeightPrior(prior)
    raise ValueError(
        f"prior={prior!r} has no precisions in closed form, which networks need: use Normal, "
        "StudentT, AdaptiveRidge or HierarchicalNormal."
    )


def _upper_tail(shape, x):
    r"""Log of :math:`Q = \Gamma(s, x) / \Gamma(s)`, and :math:`x^s e^{-x} / \Gamma(s, x)`.

    Where Q leaves the range of floating point by its continued fraction, DLMF 8.9.2.
    """
    log_density = shape * np.log(x) - x - gammaln(shape)
    tail = gammaincc(shape, x)
    hazard = np.exp(log_density) / np.maximum(tail, _TINY)
    far = tail <= _TINY
    if np.any(far):
        fraction = x + 2.0 * _TERMS + 1.0 - shape
        for k in range(_TERMS, 0, -1):
            fraction = x + 2.0 * k - 1.0 - shape - k * (k - shape) / fraction
        hazard = np.where(far, fraction, hazard)
    with np.errstate(divide="ignore"):
        return np.where(far, log_density - np.log(hazard), np.log(tail)), hazard
