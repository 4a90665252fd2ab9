"""
Ten thousand sparse columns: words and their evidence
=====================================================

Text gives a wide and almost empty matrix: a column for each word, a few entries in each row. Such a
matrix stays sparse here from the vectoriser to the prediction. The posterior of ten thousand
coefficients is another matter. This example shows what it costs, which warnings it raises, and
what it is good for.
"""

# %%
# The text
# --------
# No corpus has to be fetched: scikit-learn's own documentation is text enough. Each document is a
# sentence of a docstring, and the question is whether it is about supervised or about unsupervised
# learning. A sentence counts once, however often it is repeated, and not at all when both use it.

import ast
import re
import textwrap
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.calibration import calibration_curve
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedGroupKFold

from skstein import BayesianLogisticRegression
from skstein.inference import SVGD, KSDThinnedMCMC, LaplaceDraws
from skstein.metrics import expected_calibration_error
from skstein.priors import Normal

SUBPACKAGES = {
    "supervised": "discriminant_analysis dummy ensemble gaussian_process isotonic kernel_ridge "
    "linear_model multiclass multioutput naive_bayes neural_network svm tree",
    "unsupervised": "cluster covariance decomposition kernel_approximation manifold mixture "
    "random_projection",
}


def sentences(path):
    """The sentences of a module's docstrings, in lower case, without marks and numbers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            docstring = ast.get_docstring(node) or ""
            prose = re.split(r"\n(?:Examples|References|See Also)\n", docstring)[0]
            for paragraph in prose.split("\n\n"):
                for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph):
                    words = re.findall(r"[a-z]{2,}", sentence.lower())
                    if len(words) >= 5:
                        yield " ".join(words)


root = Path(sklearn.__file__).parent
found = {}  # of each sentence, the sides that use it and the first module
for side, names in enumerate(SUBPACKAGES.values()):
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] in names.split() and "tests" not in parts:
            for sentence in sentences(path):
                found.setdefault(sentence, (set(), "/".join(parts)))[0].add(side)
documents = np.array([text for text, (sides, _) in found.items() if len(sides) == 1], dtype=object)
y = np.array([min(found[text][0]) for text in documents])
module = np.array([found[text][1] for text in documents])
print(f"{len(documents)} sentences of {len(set(module))} modules, {y.mean():.0%} unsupervised")
print(f"for example: {documents[0]!r}")

# %%
# TF-IDF of words and pairs of words, the ten thousand most frequent, gives rows of length 1.


def vectorizer():
    return TfidfVectorizer(
        stop_words="english", ngram_range=(1, 2), sublinear_tf=True, max_features=10_000
    )


def megabytes(n_bytes):
    return f"{n_bytes / 2**20:.1f} MB"


all_documents = vectorizer().fit(documents)
words, X = all_documents.get_feature_names_out(), all_documents.transform(documents)
print(f"X: {type(X).__name__} {X.shape}, {X.nnz / X.shape[0]:.0f} entries a row")
sparse_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
print(f"it takes {megabytes(sparse_bytes)}, and dense would take {megabytes(8 * np.prod(X.shape))}")

# %%
# How wide a prior, and is it worth it?
# -------------------------------------
# Dividing each column by its standard deviation would favour the rarest words, so
# ``standardize=False``: the prior is on the coefficients of the columns as they are. An intercept
# is left out, which the log loss does not miss.
#
# ``LogisticRegression`` with a given ``C`` is the mode under a normal prior with standard deviation
# :math:`\sqrt C`, so both can be tried at the same prior. Sentences of a module resemble each
# other, and the question is what words tell about code that the model has not seen: the folds are
# of *modules*. The posterior is found by runs of two short chains, all that a search has time for.
# They are far from converged and say so by warnings, which are silenced here; with chains of ten
# times the draws the log loss is the same within 0.002.


def bayesian(engine, scale):
    return BayesianLogisticRegression(
        engine, prior=Normal(scale), standardize=False, fit_intercept=False, random_state=0
    )


short = KSDThinnedMCMC(n_particles=100, n_chains=2, n_warmup=50, n_draws=50, max_draws=50)
mode_scales, scales = 2.0 ** np.arange(-0.5, 3.5, 0.5), [1.5, 3.0, 6.0]
modes = {scale: np.empty(len(y)) for scale in mode_scales}
posteriors = {scale: np.empty(len(y)) for scale in scales}
folds = StratifiedGroupKFold(4, shuffle=True, random_state=0)
for train, test in folds.split(documents, y, module):
    transform = vectorizer().fit(documents[train])
    X_train, X_test = transform.transform(documents[train]), transform.transform(documents[test])
    for scale, probability in modes.items():
        mode = LogisticRegression(C=scale**2, fit_intercept=False, max_iter=1000)
        probability[test] = mode.fit(X_train, y[train]).predict_proba(X_test)[:, 1]
    for scale, probability in posteriors.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = bayesian(short, scale).fit(X_train, y[train])
        probability[test] = model.predict_proba(X_test)[:, 1]

mode_losses = {scale: log_loss(y, p) for scale, p in modes.items()}
losses = {scale: log_loss(y, p) for scale, p in posteriors.items()}
mode_scale, scale = min(mode_losses, key=mode_losses.get), min(losses, key=losses.get)
best = {
    f"mode, C = {mode_scale**2:.0f}": modes[mode_scale],
    f"posterior, scale {scale:.0f}": posteriors[scale],
}
print(f"{'':20}accuracy  log loss  calibration error")
for label, p in best.items():
    row = accuracy_score(y, p > 0.5), log_loss(y, p), expected_calibration_error(y, p)
    print("{:20}{:8.3f}{:10.3f}{:12.3f}".format(label, *row))

# %%
# How certain is the difference? Modules vary, and sentences of one are no independent witnesses, so
# the standard error is taken over modules.

surprise_mode, surprise = (
    -np.log(np.where(y == 1, p, 1 - p)) for p in (modes[mode_scale], posteriors[scale])
)
_, code = np.unique(module, return_inverse=True)
by_module = np.bincount(code, surprise - surprise_mode)
print(f"difference {by_module.sum() / len(y):+.4f} ± {np.sqrt(np.sum(by_module**2)) / len(y):.4f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.plot(mode_scales, list(mode_losses.values()), "o-", color="0.45", label="mode", ms=5)
left.plot(scales, list(losses.values()), "o-", color="#0072B2", label="posterior", ms=5)
left.set_xscale("log", base=2)
left.set_xticks([0.75, 1.5, 3, 6], ["0.75", "1.5", "3", "6"])
left.set_xlabel(r"prior scale ($\sqrt{C}$)")
left.set_ylabel("held-out log loss")
left.set_title("How wide a prior", loc="left", fontsize=11)
left.legend(frameon=False)
right.plot([0, 1], [0, 1], color="0.8", lw=1)
for color, (label, p) in zip(("0.45", "#0072B2"), best.items(), strict=True):
    often, probability = calibration_curve(y, p, n_bins=10, strategy="quantile")
    right.plot(probability, often, "o-", color=color, ms=5, label=label)
right.set_xlabel("predicted probability of unsupervised")
right.set_ylabel("fraction that is")
right.set_title("Calibration", loc="left", fontsize=11)
right.legend(frameon=False)
plt.show()

# %%
# With a tuned ``C``, ``LogisticRegression`` predicts as well as the posterior, and is as well
# calibrated. The posterior is the more forgiving: under too wide a prior the mode becomes far too
# sure of itself, and the average does not follow it there.
#
# The posterior of all sentences
# ------------------------------
# Four longer chains on all sentences. What is warned of is kept, to be printed.


def fit_and_listen(model):
    """The fitted model, its seconds, and what it warned of."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(X, y)
    return model, time.perf_counter() - start, [str(warning.message) for warning in caught]


mode, mode_seconds, _ = fit_and_listen(
    LogisticRegression(C=mode_scale**2, fit_intercept=False, max_iter=1000)
)
chains = KSDThinnedMCMC(n_particles=300, n_chains=4, n_warmup=75, n_draws=250, max_draws=250)
model, seconds, messages = fit_and_listen(bayesian(chains, scale))
posterior = model.posterior_
for message in messages:
    print(textwrap.fill(message, 90, subsequent_indent="  "))
print(f"{seconds / mode_seconds:.0f} times the time of LogisticRegression")
draws = chains.n_chains * chains.n_draws * X.shape[1]
print(f"the particles take {megabytes(posterior.particles.nbytes)}")
print(f"the chains, states and scores, took {megabytes(2 * 8 * draws)}")

# %%
# *The first warning* tells how chains move. With up to 2000 coefficients they do so in coordinates
# that the curvature at the mode has decorrelated. The matrix for that would take 800 MB here, so
# each coefficient is only scaled by its own curvature. Words that often stand together, and so have
# correlated coefficients, then mix slowly.
#
# *The second* says how slowly. R-hat and effective sample size (ESS) are judged by the worst of ten
# thousand coefficients, and these chains are short. It has to be seen how many are concerned:

rhat, ess = posterior.diagnostics["rhat"], posterior.diagnostics["ess"]
print(f"R-hat: median {np.median(rhat):.3f}, above 1.05 for {np.sum(rhat > 1.05)} of {len(rhat)}")
print(f"ESS: median {np.median(ess):.0f}, below 100 for {np.sum(ess < 100)}")
slow = np.argsort(ess)[:6]
print("slowest:", ", ".join(f"{words[j]!r}" for j in slow))

# %%
# The mean of a coefficient with an ESS of 50 is off by about a seventh of its standard deviation,
# and nearly all have far more: good enough for what follows. To meet the limits of the defaults
# would take ten times the draws, the time and the memory.
#
# Two engines that are quicker give a wrong answer here, and say so. "laplace" draws from the
# Gaussian at the mode as if coefficients were independent. "svgd" has fewer particles than
# coefficients, which cannot spread in all directions, and shrinks them; more iterations do not
# help, and "fwss" does the same. "pmd" refuses to start with fewer particles than coefficients, and
# "pmfvb" finds the right spread but warns that its particles move too slowly.

engines = {"laplace": LaplaceDraws(n_particles=300), "svgd": SVGD(n_particles=100, max_iter=50)}
print(f"{'ksd-mcmc':9} mean standard deviation {model.coef_std_.mean():.2f}")
for label, engine in engines.items():
    quick, _, messages = fit_and_listen(bayesian(engine, scale))
    print(f"{label:9} mean standard deviation {quick.coef_std_.mean():.2f}, and warns:")
    for message in messages[1:]:
        print(f"          {message[:80]} ...")

# %%
# Which words are evidence
# ------------------------
# A word's interval tells a coefficient that is large from one that is known to be.

low, high = posterior.quantile([0.05, 0.95])
mean = model.coef_[0]
sure = (low > 0) | (high < 0)
print(f"{sure.sum()} of {len(words)} intervals exclude zero")
largest = np.argsort(-np.abs(mode.coef_[0]))[: sure.sum()]
print(f"of as many words with the largest coefficients of the mode, {sure[largest].mean():.0%} do")
evidence = np.where(sure, mean / model.coef_std_[0], 0)
shown = np.concatenate([np.argsort(evidence)[:15], np.argsort(-evidence)[:15][::-1]])
figure, axis = plt.subplots(figsize=(7, 7), layout="constrained")
colors = np.where(mean[shown] > 0, "#009E73", "#D55E00")
axis.hlines(range(30), low[shown], high[shown], color=colors, lw=2.5, alpha=0.6)
axis.scatter(mean[shown], range(30), c=colors, s=22)
axis.axvline(0, color="0.8", lw=1)
axis.set_yticks(range(30), words[shown], fontsize=9)
axis.set_xlabel("coefficient: supervised < 0 < unsupervised")
axis.set_title("The surest evidence, with 90 % intervals", loc="left", fontsize=11)
plt.show()

# %%
# All other words are not shown to be without meaning: too few sentences use them. Their intervals
# are nearly as wide as the prior's, 90 % of which lies within five of zero.
