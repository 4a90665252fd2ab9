"""Results that examples load, computed again and stored in ``examples/results``.

Usage::

    SKSTEIN_DATA=folder python examples/benchmarks/stories.py credit drift gbp_usd

Data that are not in the folder are fetched by scikit-learn where that is possible.
"""

import ast
import gzip
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
STORIES = {
    "credit": "decisions/plot_credit.py",
    "drift": "streams/plot_drift.py",
    "gbp_usd": "groups/plot_gbp_usd.py",
}


def definitions(name):
    """Imports, functions and constants of an example, which is not run."""
    tree = ast.parse((ROOT / STORIES[name]).read_text(encoding="utf-8"), STORIES[name])
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    body = [node for node in tree.body if isinstance(node, kept) or constant(node)]
    namespace = {}
    exec(compile(ast.Module(body, []), STORIES[name], "exec"), namespace)
    return namespace


def constant(node):
    """Whether a statement names what is made of numbers, numpy and other constants."""
    read = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return isinstance(node, ast.Assign) and all(name == "np" or name.isupper() for name in read)


def stored_data(name, folder):
    """The arguments of a story's ``study`` from the folder, or None."""
    if name == "credit" and (path := folder / "german.csv.gz").exists():
        import pandas as pd

        table = pd.read_csv(path, names=[f"attribute {j}" for j in range(1, 21)] + ["bad"])
        return table.drop(columns=["attribute 9", "bad"]), (table["bad"] == 2).to_numpy()
    if name == "drift" and (path := folder / "covertype.npz").exists():
        with np.load(path) as file:
            return file["X_quant"].astype(float), file["X_bin"][:, :4].argmax(axis=1), file["y"]
    if name == "gbp_usd":
        with gzip.open(folder / "gbp_usd_9798.txt.gz", "rt") as file:
            rows = [line.split() for line in file]
        rates = np.array([float(row[3]) for row in rows if len(row) == 4 and row[0].isdigit()])
        pounds = 100 * np.diff(np.log(rates))
        return (pounds - pounds.mean(),)
    return None


if __name__ == "__main__":
    for name in sys.argv[1:] or STORIES:
        story = definitions(name)
        data = stored_data(name, Path(os.environ.get("SKSTEIN_DATA", ".")) / "data")
        found = story["study"](*(story["fetch"]() if data is None else data))
        found = {key: np.asarray(value) for key, value in found.items()}
        found = {k: v.astype(np.float32) if v.dtype == float else v for k, v in found.items()}
        np.savez_compressed(ROOT / "results" / f"{name}.npz", **found)
