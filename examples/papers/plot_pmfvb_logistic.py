r"""
Particle mean field on a logistic regression: two blocks are too narrow
=======================================================================

The first experiment of Tran, Tseng & Kohn, "Particle mean field variational Bayes", section 6.1: a
logistic regression with four coefficients. Their particles move in two blocks, each under the
average of the other. Here the default is one block in whitened coordinates. What do the blocks
cost, and what does a lower bound say of it?
"""

# %%
# Three posteriors of the same data
# ---------------------------------
# 200 rows, three features and an intercept, the prior :math:`N(0, 4)` of every coefficient, and
# coefficients drawn from it. The reference is a long run of Hamiltonian Monte Carlo.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logsumexp
from scipy.stats import gaussian_kde, multivariate_t
from sklearn.exceptions import ConvergenceWarning

from skstein import infer
from skstein.diagnostics import mcse_mean, split_rhat
from skstein.inference import PMFVB
from skstein.priors import Normal
from skstein.samplers import HMC
from skstein.targets import LogisticTarget, Transformed, laplace_approximation

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
beta = rng.normal(0, 2, size=4)
y = (rng.random(200) < expit(beta[0] + X @ beta[1:])).astype(float)
prior = Normal(2.0)
target = LogisticTarget(X, y, prior=prior, intercept_prior=prior)

whitening = laplace_approximation(target).bijection
white = Transformed(target, whitening)
sampler = HMC()
chains = sampler.warm_up(white, 300, white.sample_start(rng, 8), rng)
chains, draws, *_ = sampler.draw(white, 1500, chains)
hmc = whitening.forward(draws.reshape(-1, 4))
error = (mcse_mean(draws) / draws.std(axis=(0, 1))).max()
print(f"HMC: R-hat {split_rhat(draws).max():.4f}, error of means {error:.3f} sd")

# %%
# The paper's algorithm 1 is an option of the engine: two blocks of the coefficients as they are,
# one after the other, each averaged over a random subset of the other's 3000 particles, which start
# from the prior. It stops when Stein's identities hold for every coefficient as it is, and those
# the mean field satisfies. The check at the end of every fit takes them in whitened coordinates,
# where combinations of coefficients count; it sees that something is missing, and warns.

published = PMFVB(
    3000,
    blocks=2,
    coupling="subset",
    n_coupled=3,
    whiten=False,
    step_size=0.05,
    n_warmup=100,
    n_snapshots=5,
    tol=0.1,
)
start = prior.sample(rng, 3000, 4)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", ConvergenceWarning)
    blocks = infer(target, published, init=start, random_state=0)
default = infer(target, PMFVB(), random_state=0)
whitened_blocks = infer(target, PMFVB(blocks=2), random_state=0)
print(f"two raw blocks: {blocks.n_iter} iterations, Stein residual ", end="")
print(f"{blocks.diagnostics['stein_residual']:.3f}, R-hat {blocks.diagnostics['rhat']:.2f}")
for warning in caught:
    text = f"{warning.category.__name__}: {warning.message}"
    print(textwrap.fill(text, 90, initial_indent="  ", subsequent_indent="  "))

# %%
# The densities, as in figure 2 of the paper. Dotted lines are at the coefficients that made the
# data.

colors = {"HMC": "0.15", "one block, whitened (default)": "#0072B2", "two raw blocks": "#D55E00"}
samples = dict(zip(colors, (hmc, default.particles, blocks.particles), strict=True))
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for j, ax in enumerate(axes):
    center, spread = hmc[:, j].mean(), hmc[:, j].std()
    grid = np.linspace(center - 4 * spread, center + 4 * spread, 200)
    for label, color in colors.items():
        style = {"lw": 3, "alpha": 0.35} if label == "HMC" else {"lw": 1.6}
        density = gaussian_kde(samples[label][:, j])(grid)
        ax.plot(grid, density, color=color, label=label, **style)
    ax.axvline(beta[j], color="0.6", ls=":", lw=1)
    ax.set_xlabel(rf"$\beta_{j}$")
    ax.set_yticks([])
    ax.set_ylim(0)
axes[0].set_title("Posterior densities", loc="left", fontsize=11)
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
plt.show()

# %%
# Variances, and those that the authors published
# -----------------------------------------------
# The variance of a coefficient divided by that of HMC. For the blocks theory has an answer: that of
# a normal posterior with precision :math:`P` has a mean field with the precision
# :math:`P_{bb}` in each block, and the variances :math:`(P_{bb}^{-1})_{jj}`.

precision = np.linalg.inv(np.cov(hmc.T))
theory = np.concatenate(
    [np.linalg.inv(precision[np.ix_(b, b)]).diagonal() for b in ([0, 1], [2, 3])]
)
rows = {
    "one block, whitened": default.std() ** 2,
    "two blocks, whitened": whitened_blocks.std() ** 2,
    "two raw blocks": blocks.std() ** 2,
    "  theory of a normal": theory,
}
print("variance / variance of HMC")
for label, variances in rows.items():
    print(f"  {label:22}", (variances / hmc.var(axis=0)).round(2))
authors_mcmc, authors_pmfvb = np.array([[0.142, 0.338, 0.075, 0.111], [0.112, 0.229, 0.072, 0.079]])
print(f"  {'the authors, their data':22}", (authors_pmfvb / authors_mcmc).round(2))

# %%
# The authors' notebook prints the variances of their particles beside those of their Markov chain,
# .112, .229, .072, .079 beside .142, .338, .075, .111: too small by up to a third. Their data
# are not these, but this is what theory predicts. Two blocks *are* too narrow where they correlate,
# here by just what theory says, and neither more particles nor smaller steps can change it. (The
# notebook plugs in the mean of the other block where algorithm 1 averages over it, which for a
# normal posterior has the same answer.) In figure 2 of the paper the curves look alike, and the
# text says so. Whitened, the blocks have next to no correlation left to lose, and with one block
# nothing is lost at all: the default agrees with the Markov chain.
#
# Lower bounds
# ------------
# The paper follows the bound :math:`E_q \log p + H(q)` with :math:`\log M` for the entropy of
# :math:`M` particles. In its place the engine has the entropy of a normal with the particles'
# covariance, block by block. Importance sampling gives the log evidence, which a bound must not
# exceed.

proposal = multivariate_t(hmc.mean(axis=0), np.cov(hmc.T), df=10, seed=0)
theta = proposal.rvs(20_000)
log_weights = target.log_density(theta) - proposal.logpdf(theta)
evidence = logsumexp(log_weights) - np.log(len(theta))
print(f"log evidence {evidence:.2f}")
for label, posterior in {"default": default, "two raw blocks": blocks}.items():
    level = posterior.log_densities.mean()
    printed = ", ".join(f"{level + np.log(m):.1f} for M={m}" for m in (200, 3000))
    elbo = posterior.diagnostics["elbo"]
    print(f"{label:15} normal entropies {elbo:.2f}; with log M {printed}")

figure, (ax, zoom) = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
paths = {"two raw blocks": blocks, "one block, whitened (default)": default}
for panel in (ax, zoom):
    for label, posterior in paths.items():
        panel.plot(posterior.history["elbo"], color=colors[label], lw=1.6, label=label)
    panel.axhline(evidence, color="0.15", ls="--", lw=1, label="log evidence")
    panel.set_xlabel("iteration")
ax.set_ylabel("approximate bound (nats)")
ax.set_title("From the prior, and from the mode", loc="left", fontsize=11)
zoom.set_title("The last three nats", loc="left", fontsize=11)
zoom.set_ylim(evidence - 3, evidence + 0.5)
zoom.legend(frameon=False, loc="lower right")
plt.show()

# %%
# With log M the "bound" is nats above the evidence, and rises with the number of particles: it
# cannot compare models, though its path does show when a run has settled, which is what the paper
# uses it for (figure 1). The other one is approximate too, so that the default's is a few
# hundredths of a nat above the evidence; but it does tell half a nat, which is what the blocks
# cost.
#
# Three ways to stop
# ------------------
# The history of a fit holds what the run measured as it went. By default it stops on Stein's
# identities: :math:`E g_j = 0` and :math:`\operatorname{Cov}(z_j, g_j) = -1` under the posterior,
# in whitened coordinates, averaged over all states after the warm-up, with an R-hat for slowness.
# The paper looks at the path of the bound. The third way is a validation score:
# ``early_stopping=True`` sets a tenth of the rows aside and restores the particles that predict
# them best. Here both start from the prior.

start = prior.sample(rng, 200, 4)
watched = infer(target, PMFVB(early_stopping=True), init=start, random_state=0)
from_prior = infer(target, PMFVB(), init=start, random_state=0)

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
history = from_prior.history
axes[0].semilogy(history["residual"], color="#0072B2")
axes[0].axhline(0.2, color="0.5", ls=":")
axes[0].text(0.04, 0.19, "tol", color="0.4", va="top", transform=axes[0].get_yaxis_transform())
axes[0].set_title("Largest Stein residual", loc="left", fontsize=11)
axes[0].set_ylabel("posterior standard deviations")
axes[1].plot(history["elbo"], color="#0072B2")
axes[1].set_ylim(evidence - 8, evidence + 1)
axes[1].axhline(evidence, color="0.15", ls="--", lw=1)
axes[1].set_title("Approximate bound", loc="left", fontsize=11)
axes[1].set_ylabel("nats")
score = watched.history["validation_score"]
axes[2].plot(score, color="#009E73")
axes[2].plot(score.argmax(), score.max(), "o", color="#D55E00", label="restored")
axes[2].set_title("Validation score", loc="left", fontsize=11)
axes[2].set_ylabel("log predictive density of a row (nats)")
axes[2].legend(frameon=False, loc="lower right")
for ax in axes:
    ax.set_xlabel("iteration")
    ax.set_xlim(0, None)
plt.show()
last = from_prior.history
print(f"stopped on residuals after {from_prior.n_iter} iterations: ", end="")
print(f"residual {last['residual'][-1]:.3f}, R-hat {last['rhat'][-1]:.3f}")
print(f"stopped on the validation score after {len(score)}, best at {score.argmax() + 1}")

# %%
# A validation score levels off when predictions do, whatever the spread of the coefficients, and
# the rows set aside teach the model nothing. It is meant for models of which no exact posterior is
# asked; for a regression, stop on residuals.
