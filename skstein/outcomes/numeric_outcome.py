"""Outcomes that are numbers, and how they are predicted: as a mixture over the particles."""

from functools import partial

import numpy as np
from scipy.stats import rv_discrete

from .._statistics.crps import mixture_crps
from .._statistics.quantiles import mixture_quantiles
from .base import Outcome


def _of_some(method, eta):
    """A method by particle as a function of its argument and of which particles are meant."""
    return lambda at, some: method([head[..., some] for head in eta], at)


class NumericOutcome(Outcome):
    """An outcome that is a number: predictions from the distribution under each particle."""

    def distribution(self, eta):
        """The outcome under each particle, a frozen distribution of `scipy.stats`."""
        raise NotImplementedError(f"{type(self).__name__} does not define distribution().")

    def expected(self, eta):
        """Mean under each particle, of shape (n, m)."""
        return self.distribution(eta).mean()

    def noise(self, eta):
        """Variance under each particle, which broadcasts against the means."""
        return self.distribution(eta).var()

    def moments(self, eta, weights):
        """Mean, variance between the particles' means, and mean noise, of shape (n, 3)."""
        means = self.expected(eta)
        mean = means @ weights
        between = np.square(means - mean[..., None]) @ weights
        return np.stack([mean, between, np.full_like(mean, self.noise(eta) @ weights)], axis=1)

    def cdf_by_particle(self, eta, y):
        """Probability of an outcome of ``y`` (n,) at most under each particle, shape (n, m)."""
        return self.distribution(eta).cdf(y[:, None])

    def quantiles_by_particle(self, eta, level):
        """A quantile under each particle, shape (n, m)."""
        return self.distribution(eta).ppf(level)

    def cdf(self, eta, weights, y):
        """Probability of an outcome of ``y`` (n,) at most, shape (n,)."""
        return self.cdf_by_particle(eta, y) @ weights

    def is_discrete(self, eta):
        return isinstance(self.distribution(eta).dist, rv_discrete)

    def quantiles(self, eta, weights, q):
        """Quantiles of the mixture, of shape (n, n_quantiles); whole numbers for counts."""
        discrete = self.is_discrete(eta)
        cdf = _of_some(self.cdf_by_particle, eta)
        ppf = _of_some(self.quantiles_by_particle, eta)
        log_pdf = _of_some(self.log_density_by_particle, eta)
        pdf = None if discrete else lambda y, some: np.exp(log_pdf(y, some))
        return mixture_quantiles(cdf, ppf, weights, q, discrete=discrete, pdf=pdf)

    def crps(self, eta, weights, y):
        """Continuous ranked probability score at each outcome (n,), by quadrature of the cdf."""
        cdf, ppf = partial(self.cdf, eta, weights), _of_some(self.quantiles_by_particle, eta)
        return mixture_crps(cdf, ppf, weights, y, discrete=self.is_discrete(eta))

    def sample(self, eta, rng):
        """A draw of the outcome under each particle, of shape (n, m)."""
        shape = np.broadcast_shapes(*map(np.shape, eta))
        return self.distribution(eta).rvs(size=shape, random_state=rng)
