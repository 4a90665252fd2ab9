"""What importing and constructing an estimator adds to importing scikit-learn's linear models.

Each import is timed in a new process, in processor seconds. Another version is timed in turn with
this one, and the median ratio is printed. With ``--cold`` neither has byte code.

Usage::

    python examples/benchmarks/import_time.py --other ../skstein-0.1.0
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parents[2]
RUNS = 7
CODE = """
import sklearn.linear_model
import time

start = time.process_time()
from skstein import BayesianLogisticRegression
BayesianLogisticRegression()
print(time.process_time() - start)
"""


def seconds(folder, cold):
    """Seconds that the version in a folder adds."""
    if cold:
        for cache in folder.glob("skstein/**/__pycache__"):
            shutil.rmtree(cache)
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, help="folder that holds another version's skstein/")
    parser.add_argument("--cold", action="store_true", help="without byte code")
    args = parser.parse_args()
    folders = [HERE] + ([args.other.resolve()] if args.other else [])
    for folder in folders:  # the first import writes byte code
        seconds(folder, False)
    runs = np.array([[seconds(folder, args.cold) for folder in folders] for _ in range(RUNS)])
    print("added, s:", *np.median(runs, axis=0).round(3))
    if args.other:
        print(f"over the other version: {np.median(runs[:, 0] / runs[:, 1]):.2f}")


if __name__ == "__main__":
    main()
