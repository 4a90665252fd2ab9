"""Latent Dirichlet allocation against scikit-learn's online variational inference.

Corpora: four drawn from the model, and the docstrings of scikit-learn, SciPy and NumPy (and the
20 newsgroups where scikit-learn has them cached); a fifth of the documents is held out. Both
estimators make the same number of passes over the others, and their topics (rows of
``components_``, normalised) are judged by the same code:

completion  topics of half of the words of a held-out document, perplexity of the other half
bound       perplexity by the variational bound of whole held-out documents
own         what the estimator's ``perplexity`` returns; scikit-learn's includes the divergence of
            all topics from their prior, so that this column is no comparison

The table has the geometric mean of each over seeds, and ratios to scikit-learn with its defaults.
Sweeps at the end of `fit` visit the documents too: "no sweeps" makes exactly as many passes as
scikit-learn. Seconds are of the processor.

Usage::

    python examples/benchmarks/lda.py [--seeds 0 1 2] [--passes 1 2 5 10]
"""

import argparse
import ast
import importlib
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import fetch_20newsgroups
from sklearn.decomposition import LatentDirichletAllocation as Variational
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer

from skstein import LatentDirichletAllocation
from skstein._jit import lda as jit

MODELS = {
    "scikit-learn": lambda **options: Variational(learning_method="online", **options),
    "scikit-learn, offset 1": lambda **options: Variational(
        learning_method="online", learning_offset=1.0, **options
    ),
    "skstein": LatentDirichletAllocation,
    "skstein, no sweeps": lambda **options: LatentDirichletAllocation(n_sweeps=0, **options),
    "skstein, one particle, no sweeps": lambda **options: LatentDirichletAllocation(
        n_particles=1, n_sweeps=0, **options
    ),
}
COLUMNS = ("completion", "bound", "own", "seconds")


def synthetic(n, k, n_words, alpha, beta, length):
    """Documents drawn from the model, the same for all seeds."""
    rng = np.random.default_rng(n)
    mixed = rng.dirichlet(np.full(k, alpha), n) @ rng.dirichlet(np.full(n_words, beta), k)
    lengths = rng.poisson(length, n) + 2
    return sparse.csr_array(
        np.array([rng.multinomial(*pair) for pair in zip(lengths, mixed, strict=True)], dtype=float)
    )


def vectorised(texts):
    vectorizer = CountVectorizer(
        max_features=2000, max_df=0.4, min_df=5, stop_words="english", token_pattern="[a-z]{3,}"
    )
    X = sparse.csr_array(vectorizer.fit_transform(texts).astype(float))
    return X[X.sum(axis=1) >= 10][:1500]


def docstrings(package):
    """Docstrings of at least forty words of a package that is installed."""
    found = {}
    for path in sorted(Path(importlib.import_module(package).__file__).parent.rglob("*.py")):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= 40:
                    found[text] = None
    return vectorised(list(found))


def corpora():
    """Name, counts and number of topics of every corpus."""
    yield "5 topics, 200 words", synthetic(600, 5, 200, 0.1, 0.05, 60), 5
    yield "8 topics, 100 words", synthetic(400, 8, 100, 0.2, 0.10, 40), 8
    yield "10 topics, 300 words", synthetic(800, 10, 300, 0.1, 0.05, 80), 10
    yield "20 topics, 500 words", synthetic(1500, 20, 500, 0.05, 0.02, 60), 20
    for package, k in (("sklearn", 10), ("scipy", 20), ("numpy", 20)):
        yield f"docstrings of {package}", docstrings(package), k
    try:
        news = fetch_20newsgroups(remove=("headers", "footers"), download_if_missing=False)
    except OSError:
        return
    yield "20 newsgroups", vectorised(news.data), 20


def split(X, rng):
    """Documents to fit, and those held out, whole and as two halves of their words."""
    order = rng.permutation(X.shape[0])
    n_test = X.shape[0] // 5
    test = X[order[:n_test]]
    given = test.copy()
    given.data = rng.binomial(test.data.astype(int), 0.5).astype(float)
    hidden = sparse.csr_array(test - given)
    hidden.eliminate_zeros()
    return X[order[n_test:]], test, given, hidden


def documents(X):
    return jit.documents(X.indptr, X.indices, X.data)


def judge(components, alpha, test, given, hidden):
    """Perplexities of held-out documents by completion and by the bound."""
    phi = np.ascontiguousarray((components / components.sum(axis=1, keepdims=True)).T)
    mass = alpha + jit.proportions(documents(given), phi, alpha, 200, 1e-5)
    rows, words = hidden.nonzero()
    proportions = mass / mass.sum(axis=1, keepdims=True)
    predicted = np.sum(proportions[rows] * phi[words], axis=1)
    counts = np.asarray(hidden[rows, words]).ravel()
    bound = jit.log_bounds(documents(test), phi, alpha, 200, 1e-5).sum()
    return np.exp(-counts @ np.log(predicted) / counts.sum()), np.exp(-bound / test.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--passes", nargs="+", type=int, default=[1, 2, 5, 10])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    LatentDirichletAllocation(2, max_iter=1).fit(np.eye(2))  # compiles
    head = "{:34}" + 4 * "{:>12}" + "   {:>12}{:>10}{:>10}"
    line = "{:34}" + 3 * "{:12.1f}" + "{:12.2f}   {:12.3f}{:10.3f}{:10.2f}"
    ratios = {(name, passes): [] for name in MODELS for passes in arguments.passes}
    for corpus, X, k in corpora():
        print(f"\n{corpus}: {X.shape[0]} documents, {X.shape[1]} words, {k} topics")
        print(head.format("", *COLUMNS, "completion/", "bound/", "seconds/"))
        for passes in arguments.passes:
            table = {name: [] for name in MODELS}
            for seed in arguments.seeds:
                train, *held_out = split(X, np.random.default_rng(seed))
                for name, make in MODELS.items():
                    model = make(n_components=k, max_iter=passes, random_state=seed)
                    start = time.process_time()
                    model.fit(train)
                    seconds = time.process_time() - start
                    judged = judge(model.components_, 1.0 / k, *held_out)
                    table[name].append((*judged, model.perplexity(held_out[0]), seconds))
            means = {name: np.exp(np.log(rows).mean(axis=0)) for name, rows in table.items()}
            for name, mean in means.items():
                ratio = mean / means["scikit-learn"]
                ratios[name, passes].append(ratio)
                print(line.format(f"{passes:3d}  {name}", *mean, *ratio[[0, 1, 3]]), flush=True)
    print("\nMean ratio over corpora (worst corpus)")
    for (name, passes), rows in ratios.items():
        mean, worst = np.mean(rows, axis=0), np.max(rows, axis=0)
        told = [f"{c} {mean[i]:.3f} ({worst[i]:.3f})" for i, c in enumerate(COLUMNS) if i != 2]
        print(f"{passes:3d}  {name:34}" + ", ".join(told))


if __name__ == "__main__":
    main()
