"""What ``import skstein`` adds to importing scikit-learn and numba.

Each import is timed in new processes, the two in turn, and the median difference is printed.

Usage::

    python examples/benchmarks/import_time.py
"""

import subprocess
import sys

import numpy as np

RUNS = 7


def seconds(code):
    """Seconds that a new process needs for ``code``, without starting the interpreter."""
    timed = f"import time; start = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main():
    base, ours = "import sklearn.base, sklearn.linear_model, numba", "import skstein"
    seconds(ours)  # the first import in a new environment writes byte code
    pairs = np.array([(seconds(base), seconds(f"{base}\n{ours}")) for _ in range(RUNS)])
    before, both = np.median(pairs, axis=0)
    added = np.median(pairs[:, 1] - pairs[:, 0])
    print(
        f"scikit-learn and numba: {before:.2f} s; with skstein: {both:.2f} s; added: {added:.2f} s"
    )


if __name__ == "__main__":
    main()
