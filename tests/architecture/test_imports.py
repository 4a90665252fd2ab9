"""Who may import whom: each module or folder has a row of what it may know, and nothing else.

Models and engines meet only at the seam, never pairwise. The imports are read from the syntax tree,
so nothing is executed. A name is followed through the `__init__.py` that re-exports it:
`from skstein.targets import LogisticTarget` counts as one of `skstein.targets.regression.glm`.
"""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "skstein"

# What every module may import, beside the standard library and its own folder.
EVERYWHERE = (
    "numpy",
    "scipy",
    "skstein._tools.copies",
    "skstein._tools.lazy_imports",
    "skstein._tools.named_parameters",
)
OPTIONAL = ("matplotlib", "arviz", "arviz_base", "pandas", "dask", "distributed", "xarray")

# The parts of a target that are no model: what an engine may know of them.
SEAM = tuple(
    f"skstein.targets.{name}"
    for name in (
        "base",
        "bijections",
        "laplace_at_mode",
        "mean_field_factors",
        "transformed",
        "wrapper",
    )
)
ENGINE = (
    "sklearn.base",
    "sklearn.exceptions",
    "skstein._statistics.density_fingerprint",
    "skstein._statistics.quantiles",
    "skstein._statistics.resampling",
    "skstein._input.validation",
    "skstein._tools.warnings",
    "skstein.diagnostics",
    "skstein.kernels",
    "skstein.posterior",
    "skstein.protocols",
    "skstein.samplers",
    "skstein.thinning",
    *SEAM,
)
ESTIMATOR = (
    "sklearn.base",
    "sklearn.exceptions",
    "sklearn.utils",
    "skstein._tools.row_blocks",
    "skstein._input.class_labels",
    "skstein._input.columns",
    "skstein._input.streams",
    "skstein._statistics.column_moments",
    "skstein._estimators.base",
    "skstein._jit",
    "skstein._tools.parallel",
    "skstein._predictions.methods",
    "skstein._tools.random",
    "skstein._input.validation",
    "skstein._tools.warnings",
    "skstein.diagnostics",
    "skstein.inference._registry",
    "skstein.noise",
    "skstein.outcomes",
    "skstein.posterior",
    "skstein.priors",
    "skstein.shards",
    "skstein.targets",
)

# A row is of a module, or of a folder and all in it that has no row of its own.
ROWS = {
    # Types, which say what parts ask of each other and import none of them.
    "skstein.protocols": (),
    # Arrays and scalars: no SciPy either.
    "skstein._jit": ("numba",),
    # What each of these wraps, others get from it.
    "skstein._tools.row_blocks": ("sklearn.get_config", "sklearn.utils"),
    "skstein._statistics.resampling": (),
    "skstein._tools.pandas_and_arviz": ("arviz", "arviz_base", "pandas"),
    "skstein._tools.copies": (),
    "skstein._tools.versioned_pickles": ("sklearn.exceptions", "skstein.__version__"),
    "skstein._tools.lazy_imports": (),
    "skstein._tools.named_parameters": ("sklearn.base",),
    "skstein._tools.parallel": (
        "cloudpickle",
        "joblib",
        "sklearn.config_context",
        "sklearn.get_config",
        "threadpoolctl",
    ),
    "skstein._tools.random": ("sklearn.utils",),
    "skstein._input.validation": ("sklearn.base", "sklearn.utils", "skstein._tools.warnings"),
    "skstein._tools.warnings": ("sklearn.exceptions",),
    "skstein._estimators.progress": (),
    "skstein._input.class_labels": ("sklearn.utils", "skstein._tools.warnings"),
    "skstein._input.columns": ("skstein._tools.warnings",),
    "skstein._input.streams": ("skstein._input.columns", "skstein._tools.warnings"),
    "skstein._statistics.column_moments": (
        "sklearn.utils.sparsefuncs",
        "skstein._tools.row_blocks",
    ),
    "skstein._statistics.crps": (),
    "skstein._statistics.pareto_smoothing": (),
    "skstein._statistics.density_fingerprint": (),
    "skstein._statistics.quantiles": ("skstein._tools.row_blocks",),
    # Parameter objects, and what is learnt from arrays alone.
    "skstein.diagnostics": (),
    "skstein.kernels": ("sklearn.base", "skstein._jit"),
    "skstein.metrics": (
        "sklearn.metrics",
        "sklearn.utils",
        "skstein._input.validation",
        "skstein.kernels",
    ),
    "skstein.metrics.distributions": (
        "skstein._tools.row_blocks",
        "skstein._statistics.crps",
        "skstein._jit",
        "skstein._input.validation",
    ),
    # They reach what they score by `predictive`.
    "skstein.metrics.scorers": (
        "sklearn.base",
        "sklearn.metrics",
        "sklearn.utils",
        "skstein.predictive",
    ),
    "skstein.priors": ("sklearn.base", "skstein._input.validation"),
    "skstein.noise": (
        "sklearn.base",
        "skstein._input.validation",
        "skstein.outcomes",
        "skstein.priors",
    ),
    "skstein.thinning": (
        "sklearn.base",
        "sklearn.exceptions",
        "sklearn.utils",
        "skstein._jit",
        "skstein._tools.random",
        "skstein._input.validation",
        "skstein._tools.warnings",
        "skstein.kernels",
    ),
    # What is observed knows neither designs nor networks nor engines.
    "skstein.outcomes": (
        "skstein._statistics.crps",
        "skstein._jit",
        "skstein._statistics.quantiles",
        "skstein.priors",
    ),
    # Rows where they live: the only place that knows Dask, and no model.
    "skstein.shards": (
        "dask",
        "distributed",
        "pandas",
        "skstein._tools.parallel",
        "skstein._input.validation",
    ),
    # A target knows neither engines nor scikit-learn.
    "skstein.targets": (
        "skstein._input.columns",
        "skstein._tools.row_blocks",
        "skstein._jit",
        "skstein.outcomes",
        "skstein.priors",
        "skstein.protocols",
    ),
    # A posterior does not know how it was made.
    "skstein.posterior": (
        "skstein._tools.row_blocks",
        "skstein._tools.pandas_and_arviz",
        "skstein._statistics.density_fingerprint",
        "skstein._statistics.quantiles",
        "skstein._statistics.resampling",
        "skstein._tools.random",
        "skstein._input.columns",
        "skstein._input.validation",
        "skstein._tools.warnings",
        "skstein.diagnostics",
        "skstein.metrics.discrepancies",
        "skstein.priors",
        "skstein.protocols",
        "skstein.targets.bijections",
    ),
    # An engine knows a target and a generator: not X, y, classes or which model it is. It is handed
    # a `map`; only `infer` decides how pieces are run, and it alone wraps targets.
    "skstein.inference": ENGINE,
    "skstein.inference._run.stein_identities": (*ENGINE, "sklearn.utils"),
    "skstein.inference._building_blocks.gaussian_mixture": (
        "sklearn.exceptions",
        "sklearn.mixture",
    ),
    "skstein.inference._run.working_coordinates": (*ENGINE, "skstein.targets.one_sided"),
    "skstein.inference._run.run_on_surrogate": (
        *ENGINE,
        "skstein._statistics.pareto_smoothing",
        "skstein.targets.surrogate",
    ),
    "skstein.inference._run.infer": (
        *ENGINE,
        "skstein._tools.parallel",
        "skstein._tools.random",
        "skstein.targets.regression.transformed_regression",
        "skstein.targets.control_variate",
        "skstein.targets.surrogate",
    ),
    "skstein.inference._run.update": (*ENGINE, "skstein._tools.parallel"),
    "skstein.inference.networks.two_stages": (
        *ENGINE,
        "skstein.targets.networks.scaled_network",
        "skstein.targets.subspace",
    ),
    "skstein.samplers": (
        "sklearn.base",
        "skstein._input.validation",
        "skstein._tools.warnings",
        "skstein.protocols",
    ),
    "skstein.checks": ("skstein._tools.random", "skstein.targets.base"),
    "skstein._estimators.base": (
        *ESTIMATOR,
        "sklearn.callback",
        "skstein._tools.versioned_pickles",
        "skstein.inference._run",
    ),
    # Predictions know outcomes through their estimator, and nothing of fits.
    "skstein._predictions.methods": (
        "sklearn.base",
        "sklearn.metrics",
        "sklearn.utils",
        "skstein._input.class_labels",
        "skstein._tools.row_blocks",
        "skstein._tools.parallel",
        "skstein._tools.random",
        "skstein._input.validation",
        "skstein.shards",
    ),
    # Estimators know engines by name, but for those that are made of one.
    "skstein.linear_model": ESTIMATOR,
    "skstein.time_series": ESTIMATOR,
    "skstein.neural_network": (*ESTIMATOR, "skstein.inference"),
    "skstein.gaussian_process": (
        *ESTIMATOR,
        "sklearn.gaussian_process",
        "skstein.inference._building_blocks.mirror_steps",
        "skstein.inference._building_blocks.rounds",
        "skstein.inference.base",
    ),
    "skstein.gaussian_process.inducing_mixture": (
        "sklearn.utils",
        "skstein._tools.row_blocks",
        "skstein._tools.parallel",
    ),
    "skstein.gaussian_process.inducing": (
        "sklearn.base",
        "sklearn.gaussian_process",
        "sklearn.utils",
        "skstein._tools.row_blocks",
    ),
    "skstein.decomposition": (
        *ESTIMATOR,
        "skstein._tools.versioned_pickles",
        "skstein.inference._building_blocks.mirror_steps",
    ),
    "skstein.decomposition.topics": (
        "sklearn.utils",
        "skstein._jit",
        "skstein._tools.random",
        "skstein._input.validation",
        "skstein._tools.warnings",
        "skstein.inference._building_blocks.mirror_steps",
    ),
    # It knows neither fits nor posteriors, so that whatever scores predictions may know it.
    "skstein.predictive": (
        "sklearn.compose",
        "sklearn.feature_selection",
        "sklearn.frozen",
        "sklearn.model_selection",
        "sklearn.pipeline",
        "sklearn.utils",
        "skstein._estimators.inside_pipelines",
        "skstein._predictions.methods",
        "skstein._predictions.distribution",
        "skstein._predictions.transformed_outcome",
    ),
    "skstein._predictions.distribution": ("skstein._input.validation",),
    "skstein._predictions.transformed_outcome": (
        "sklearn.config_context",
        "sklearn.utils",
        "skstein._tools.row_blocks",
        "skstein._statistics.crps",
        "skstein._statistics.quantiles",
        "skstein._statistics.resampling",
        "skstein._input.validation",
    ),
    # What is inside of what scikit-learn wraps around an estimator, and what it says of rows.
    "skstein._estimators.inside_pipelines": (
        "sklearn.feature_selection",
        "sklearn.frozen",
        "sklearn.model_selection",
        "sklearn.pipeline",
        "sklearn.utils",
        "skstein.posterior",
    ),
    "skstein.inference_data": (
        "sklearn.utils",
        "skstein._tools.pandas_and_arviz",
        "skstein._estimators.inside_pipelines",
        "skstein._tools.random",
        "skstein.predictive",
    ),
    "skstein.model_comparison": (
        "sklearn.utils",
        "skstein._tools.pandas_and_arviz",
        "skstein._statistics.pareto_smoothing",
        "skstein._input.validation",
        "skstein._tools.warnings",
        "skstein.predictive",
    ),
    "skstein.plotting": (
        "skstein._input.class_labels",
        "skstein._input.columns",
        "matplotlib",
        "sklearn.base",
        "sklearn.utils",
        "skstein._estimators.inside_pipelines",
        "skstein._input.validation",
        "skstein.kernels",
        "skstein.posterior",
        "skstein.predictive",
    ),
}


def below(name, *tops):
    return any(name == top or name.startswith(top + ".") for top in tops)


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(source, module, is_package):
    """(line, dotted name, runs when the module is imported) of every import in `source`."""

    def visit(node, deferred):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, not deferred
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                anchor = parts[: len(parts) - node.level + is_package]
                base = ".".join([*anchor, *([base] if base else [])])
            for alias in node.names:
                yield node.lineno, origin(f"{base}.{alias.name}"), not deferred
        deferred = deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        body = ast.iter_child_nodes(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            body = node.orelse
        for child in body:
            yield from visit(child, deferred)

    yield from visit(ast.parse(source), False)


def origin(name):
    """The dotted name `name` stands for when a package of ours re-exports it, else `name`."""
    package, _, member = name.rpartition(".")
    path = FILES.get(package)
    if path is None or path.name != "__init__.py" or name in FILES:
        return name
    anchor = package.split(".")
    stub = path.with_suffix(".pyi")
    source = stub if stub.exists() else path
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            up = anchor[: len(anchor) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            for alias in node.names:
                if (alias.asname or alias.name) == member and base != package:
                    return origin(f"{base}.{alias.name}")
    return name


def is_private_sklearn(name):
    top, *rest = name.split(".")
    return top == "sklearn" and any(p.startswith("_") and not p.endswith("__") for p in rest)


def row_of(module):
    """The module or folder whose row holds for a module; None where there is none."""
    while module not in ROWS and "." in module:
        module = module.rpartition(".")[0]
    return module if module in ROWS else None


def complaints(source, module, is_package=False):
    """One sentence for each import of `source` that its module's row does not allow."""
    row = row_of(module)
    folder = module if is_package else module.rpartition(".")[0]
    own = () if folder == "skstein" else (".".join(folder.split(".")[:2]),)
    everywhere = ("numpy",) if below(module, "skstein._jit") else EVERYWHERE
    if module == "skstein":  # which hands on the public names
        everywhere += ("skstein",)
    for line, name, at_import in imports(source, module, is_package):
        where = f"{module} (line {line}) imports {name}"
        if below(name, *sys.stdlib_module_names, *everywhere):
            continue
        if is_private_sklearn(name) and module != "skstein._input.validation":
            yield f"{where}: private helpers of scikit-learn are wrapped in validation.py alone"
        elif below(name, "sklearn.utils.parallel"):
            yield f"{where}: jobs are run by parallel.py alone, through joblib"
        elif at_import and below(name, *OPTIONAL):
            yield f"{where}: optional dependencies are imported in the function that needs them"
        elif row is None:
            yield f"{where}, but has no row of what it may import"
        elif not below(name, *own, *ROWS[row]):
            yield f"{where}, which the row of {row} does not list"


@pytest.mark.parametrize("module", FILES)
def test_imports_follow_the_rules(module):
    path = FILES[module]
    source = path.read_text(encoding="utf-8")
    found = list(complaints(source, module, is_package=path.name == "__init__.py"))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("skstein._jit.mlp", "import scipy"),
        ("skstein._jit.mlp", "from ..targets import base"),
        ("skstein.targets.regression.glm", "from sklearn.base import BaseEstimator"),
        ("skstein.targets.regression.glm", "from ...inference import PMD"),
        ("skstein.inference.pmd", "from skstein.linear_model import BayesianLogisticRegression"),
        ("skstein.inference.pmd", "from skstein.targets.regression import glm"),
        ("skstein.inference.pmd", "from skstein.targets.regression.glm import LogisticTarget"),
        ("skstein.inference.networks.two_stages", "from ...targets import LinearTarget"),
        ("skstein.inference.networks.two_stages", "from ...targets.networks.mlp import Network"),
        ("skstein.samplers.hmc", "from ..targets import supports"),
        ("skstein.outcomes.poisson", "from ..targets import Target"),
        ("skstein.outcomes.poisson", "from sklearn.base import BaseEstimator"),
        ("skstein.linear_model.normal", "from ..inference import PMFVB"),
        ("skstein.protocols", "from .targets.base import Target"),
        ("skstein.a_new_module", "from ._tools.row_blocks import row_blocks"),
        ("skstein.inference.pmd", "from skstein._tools.parallel import make_map"),
        ("skstein.inference.pmd", "from sklearn.utils import check_array"),
        ("skstein.samplers.hmc", "def f():\n    import joblib"),
        ("skstein.kernels", "from . import targets"),
        ("skstein.posterior", "from .inference import base"),
        ("skstein.linear_model.base", "import joblib"),
        ("skstein.linear_model.base", "from sklearn.utils.parallel import Parallel"),
        ("skstein.linear_model.base", "from sklearn.utils._param_validation import Interval"),
        ("skstein.linear_model.base", "from sklearn.utils.validation import _check_sample_weight"),
        ("skstein.targets.regression.sharded", "def f():\n    import dask"),
        ("skstein.shards.cluster", "import distributed"),
        ("skstein.metrics.discrepancies", "from numba import njit"),
        ("skstein.metrics.discrepancies", "from .._statistics.crps import crps_of_points"),
        ("skstein.predictive", "from .posterior import weighted_quantile"),
        ("skstein.plotting", "import matplotlib.pyplot as plt"),
        ("skstein.plotting", "class Display:\n    import pandas"),
    ],
)
def test_a_forbidden_import_is_named(module, source):
    (message,) = complaints(source, module)
    assert message.startswith(f"{module} (line ")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("skstein._jit.mlp", "import math\nimport numpy as np\nfrom ._compile import compiled"),
        (
            "skstein.targets.regression.glm",
            "from scipy.special import expit\nfrom ..._jit import mlp",
        ),
        ("skstein.inference.pmd", "from sklearn.base import BaseEstimator"),
        ("skstein.inference._run.infer", "from ..._tools.parallel import make_map"),
        ("skstein.outcomes.poisson", "from .._jit import normal_mixtures"),
        ("skstein.targets.regression.glm", "from ..outcomes import Poisson"),
        ("skstein._tools.parallel", "from joblib import effective_n_jobs"),
        ("skstein._input.validation", "from sklearn.utils._param_validation import Interval"),
        ("skstein.linear_model.base", "from sklearn.utils import __doc__"),
        ("skstein.plotting", "def plot():\n    import matplotlib.pyplot as plt"),
    ],
)
def test_an_allowed_import_passes(module, source):
    assert not list(complaints(source, module))


def test_a_reexported_name_is_followed_to_its_module():
    assert (
        origin("skstein.targets.LogisticTarget") == "skstein.targets.regression.glm.LogisticTarget"
    )


def test_every_row_is_of_something():
    """But for what is still to be written."""
    assert {row for row in ROWS if row not in FILES} <= {"skstein.outcomes"}
