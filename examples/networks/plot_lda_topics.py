"""
Topics of documents, with intervals
===================================

Latent Dirichlet allocation finds topics in documents. With a posterior, each topic comes with
intervals: which of its words the documents have settled, and which might well be others.
"""

# %%
# A corpus that is at hand: the docstrings of scikit-learn, one a document, as counts of words. Of
# these, 300 are held out, and their words are split in two halves: from the first the topics of a
# document are found, the second is predicted.

import ast
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.decomposition import LatentDirichletAllocation as Variational
from sklearn.feature_extraction.text import CountVectorizer

from skstein import LatentDirichletAllocation

texts = {}
for path in sorted(Path(sklearn.__file__).parent.rglob("*.py")):
    if "tests" not in path.parts:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= 40:
                    texts[text] = None
vectorizer = CountVectorizer(
    max_features=1500, max_df=0.25, min_df=5, stop_words="english", token_pattern="[a-z]{3,}"
)
X = vectorizer.fit_transform(texts)
words = vectorizer.get_feature_names_out()

rng = np.random.default_rng(0)
order = rng.permutation(X.shape[0])
train, test = X[order[300:]], X[order[:300]]
given = test.copy()
given.data = rng.binomial(test.data, 0.5)
hidden = test - given
hidden.eliminate_zeros()
print(f"{train.shape[0]} documents, {train.shape[1]} words")

# %%
# Perplexity
# ----------
# The perplexity of the hidden halves is the number of words among which a word would have to be
# guessed, if all were alike. It is shown against the passes over the documents, beside that of
# scikit-learn's online variational inference. Sweeps at the end of the fit are passes as well, so
# they are left out here (``n_sweeps=0``); what 600 of them add to ten passes is marked.


def perplexity(model):
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    rows, columns = hidden.nonzero()
    predicted = np.sum(model.transform(given)[rows] * topics.T[columns], axis=1)
    return np.exp(-hidden.data @ np.log(predicted) / hidden.data.sum())


passes = [2, 5, 10, 20]
options = {"n_components": 6, "random_state": 0}
mirror, variational = (
    [perplexity(make(max_iter=n, **options).fit(train)) for n in passes]
    for make in (
        lambda **options: LatentDirichletAllocation(n_sweeps=0, **options),
        lambda **options: Variational(learning_method="online", **options),
    )
)
model = LatentDirichletAllocation(n_sweeps=600, **options).fit(train)

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(passes, variational, "o-", color="#0072B2", label="scikit-learn, online")
axes.plot(passes, mirror, "o-", color="#D55E00", label="particle mirror descent")
axes.plot(10, perplexity(model), "*", color="#D55E00", ms=13, label="with sweeps at the end")
axes.set_xscale("log")
axes.set_xticks(passes, passes)
axes.minorticks_off()
axes.set_xlabel("passes over the documents")
axes.set_ylabel("perplexity of hidden words")
axes.set_title("Held-out halves of documents", loc="left", fontsize=11)
axes.legend(frameon=False)
plt.show()

# %%
# Topics
# ------
# The words that a topic prefers most, with 90 % intervals of their probability. A word counts as
# preferred by its probability in the topic, times how much of that is the topic's own. Two topics
# still exchange words after 600 sweeps. They have no interval to show, and a warning names them.

topics = model.posterior_.mean()
own = topics * topics / topics.sum(axis=0)
settled = np.flatnonzero(model.posterior_.settled)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    quantiles = model.posterior_.quantile([0.05, 0.5, 0.95])
print(caught[0].message)

figure, panels = plt.subplots(2, 2, figsize=(7.5, 5), layout="constrained", sharex=True)
for panel, topic in zip(panels.flat, settled, strict=False):
    top = np.argsort(-own[topic])[:8][::-1]
    low, middle, high = quantiles[:, topic, top]
    panel.hlines(range(8), low, high, color="#D55E00", lw=5, alpha=0.35)
    panel.plot(middle, range(8), "o", color="#D55E00", ms=4)
    panel.set_yticks(range(8), words[top])
figure.suptitle("Topics that settled: median and 90 % interval", x=0.01, ha="left", fontsize=11)
panels[0, 0].set_xlim(0, None)
for panel in panels[1]:
    panel.set_xlabel("probability in the topic")
plt.show()

# %%
# An interval has two sources: words are few, and nobody knows which topic each of them came from.
# If that were known, only the first would be left, the standard deviation within a particle. So the
# ratio of the two tells how much the second adds: little to a word that one topic has for itself,
# more to a word that many topics share. The intervals hold for these topics; another seed may find
# others.

particles = model.posterior_.particles[:, settled]
total = particles.sum(axis=2, keepdims=True)
within = (particles / total * (1 - particles / total) / (total + 1)).mean(axis=0)
means = particles / total
widening = np.sqrt(1.0 + means.var(axis=0) / within)
share = (topics / topics.sum(axis=0))[settled]
frequent = model.components_[settled] > 30
for low, high in [(0.0, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.0)]:
    chosen = frequent & (share > low) & (share <= high)
    print(
        f"words of which the topic has {low:4.0%} to {high:4.0%}: "
        f"{widening[chosen].mean():.2f} times as wide"
    )
