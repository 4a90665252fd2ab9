"""Write the fits that `tests/test_pickles.py` loads, for the installed version of skstein.

Files of earlier versions stay as they are: ``python tests/data/write_pickles.py``, once a version.
"""

import pickle
import warnings
from pathlib import Path

import numpy as np

import skstein

FOLDER = Path(__file__).parent


def fits():
    """Estimator, what it is asked, the argument, and the answer, of every estimator."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X @ [1.0, -1.0] + 0.5 * rng.normal(size=40)
    classes, three = np.where(y > 0, "yes", "no"), np.digitize(y, [-1.0, 1.0])
    counts = np.floor(np.exp(y))
    linear, grouped = skstein.BayesianLinearRegression, {2: [0]}
    options = {"inference": skstein.inference.SVGD(n_particles=15), "random_state": 0}
    network = {"hidden_layer_sizes": (2,), "max_iter": 3, "n_networks": 3, "random_state": 0}
    kernel_options = {"n_inducing": 5, "n_particles": 3, "optimizer": None, "random_state": 0}
    for estimator, outcome, method in [
        (skstein.BayesianLinearRegression(**options), y, "predict_interval"),
        (skstein.BayesianLogisticRegression(**options), classes, "predict_proba"),
        (skstein.BayesianLogisticRegression(**options), three, "predict_proba"),
        (skstein.BayesianProbitRegression(**options), classes, "predict_proba"),
        (skstein.BayesianPoissonRegression(**options), counts, "predict_interval"),
        (skstein.BayesianNegativeBinomialRegression(**options), counts, "predict_interval"),
        (skstein.BayesianGammaRegression(**options), np.exp(y), "predict_interval"),
        (skstein.BayesianOrdinalRegression(**options), three, "predict_proba"),
        (skstein.BayesianOrdinalRegression(link="probit", **options), three, "predict_proba"),
        (linear(noise="student-t", **options), y, "predict_interval"),
        (linear(noise="heteroscedastic", **options), y, "predict_interval"),
        (linear(prior="horseshoe", **options), y, "predict_interval"),
        (linear(positive=[1, -1], **options), y, "predict_interval"),
        (linear(random_effects=grouped, **options), y, "predict_interval"),
        (skstein.SparseGPRegressor(**kernel_options), y, "predict_interval"),
        (skstein.BayesianMLPRegressor(inference="ensemble", **network), y, "predict_interval"),
        (skstein.BayesianMLPClassifier(inference="ensemble", **network), three, "predict_proba"),
        (skstein.LatentDirichletAllocation(2, random_state=0), None, "transform"),
    ]:
        data = np.floor(np.exp(X)) if outcome is None else X
        if getattr(estimator, "random_effects", None):
            data = np.column_stack([X, np.arange(len(X)) % 5])
        estimator.fit(data, outcome)
        yield estimator, method, data[:5], getattr(estimator, method)(data[:5])


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits of this size do not converge, and need not
        written = list(fits())
    path = FOLDER / f"fits_{skstein.__version__}.pickle"
    path.write_bytes(pickle.dumps(written, protocol=5))
    print(f"{path}: {path.stat().st_size} bytes")
