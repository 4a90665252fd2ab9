"""The picture of the README: a probability with its interval, along one feature.

Usage::

    python examples/readme_figure.py
"""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from skstein import BayesianLogisticRegression
from skstein.plotting import PredictiveIntervalDisplay


def main():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    severe = (y > 200).map({False: "mild", True: "severe"})
    model = BayesianLogisticRegression(random_state=0).fit(X[:400], severe[:400])
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    display = PredictiveIntervalDisplay.from_estimator(
        model, X[:400], "bmi", y=severe[:400], ax=axes
    )
    display.ax_.set(xlabel="body mass index", ylabel="probability of a severe course")
    path = Path(__file__).parents[1] / "doc" / "images" / "readme.png"
    figure.savefig(path, dpi=150)
    print(path)


if __name__ == "__main__":
    main()
