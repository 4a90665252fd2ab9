"""Who may import whom inside skstein: models and engines meet only at the seam, never pairwise.

The imports are read from the syntax tree, so nothing is executed. A name is followed through the
`__init__.py` that re-exports it: `from skstein.targets import LogisticTarget` counts as an import
of `skstein.targets.glm`.
"""

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "skstein"

ESTIMATORS = (
    "skstein._estimator",
    "skstein.linear_model",
    "skstein.neural_network",
    "skstein.gaussian_process",
    "skstein.decomposition",
    "skstein.time_series",
)
ENGINES = ("skstein.inference", "skstein.samplers")
MODELS = ("skstein.targets.design", "skstein.targets.glm", "skstein.targets.mlp")
OPTIONAL = ("matplotlib", "arviz", "pandas", "dask", "distributed", "xarray")


@dataclass(frozen=True)
class Rule:
    """What the modules at or below `who` must not import.

    `never` forbids modules (with all below them). `within` forbids everything below its key but the
    listed modules. Neither applies to the modules in `but`.
    """

    who: str
    why: str
    never: tuple = ()
    within: tuple = ()
    but: tuple = ()


RULES = (
    Rule(
        "skstein.targets",
        "a target knows neither engines nor scikit-learn",
        never=("sklearn", *ENGINES, *ESTIMATORS),
    ),
    Rule(
        "skstein.kernels",
        "a kernel knows neither targets nor engines",
        never=("skstein.targets", *ENGINES, *ESTIMATORS),
        within=("sklearn", ("sklearn.base",)),
    ),
    Rule(
        "skstein.priors",
        "a prior is a parameter object: sklearn.base is all it needs",
        never=(*ENGINES, *ESTIMATORS),
        within=("sklearn", ("sklearn.base",)),
    ),
    *(
        Rule(
            who,
            "an engine knows a target and a generator, not X, y, classes or which model it is",
            never=(*ESTIMATORS, *MODELS),
            within=("sklearn", ("sklearn.base", "sklearn.exceptions", "sklearn.mixture")),
        )
        for who in ENGINES
    ),
    *(
        Rule(
            who,
            "an engine is handed a `map`; only `infer` decides how pieces are run",
            never=("skstein._parallel",),
            but=("skstein.inference._infer",),
        )
        for who in ENGINES
    ),
    Rule(
        "skstein.posterior",
        "a posterior does not know how it was made",
        never=(*ENGINES, *ESTIMATORS),
    ),
    Rule(
        "skstein",
        "_parallel.py alone knows joblib",
        never=("joblib", "sklearn.utils.parallel"),
        but=("skstein._parallel",),
    ),
    Rule("skstein", "_jit alone holds compiled routines", never=("numba",), but=("skstein._jit",)),
)

COMPILED = "skstein._jit"
COMPILED_MAY_IMPORT = ("numpy", "numba", COMPILED, *sys.stdlib_module_names)
PRIVATE_SKLEARN_ONLY_IN = ("skstein._validation",)


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
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
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


def complaints(source, module, is_package=False):
    """One sentence for each import of `source` that breaks a rule."""
    for line, name, at_import in imports(source, module, is_package):
        broken = []
        for rule in RULES:
            if not below(module, rule.who) or below(module, *rule.but):
                continue
            if below(name, *rule.never):
                broken.append(rule.why)
            if rule.within:
                top, allowed = rule.within
                if below(name, top) and not below(name, *allowed):
                    broken.append(f"{rule.why} (of {top} only {', '.join(allowed)})")
        if below(module, COMPILED) and not below(name, *COMPILED_MAY_IMPORT):
            broken.append("compiled routines know arrays and scalars: numpy, numba, stdlib, _jit")
        if is_private_sklearn(name) and not below(module, *PRIVATE_SKLEARN_ONLY_IN):
            broken.append("private helpers of scikit-learn are wrapped in _validation.py alone")
        if at_import and below(name, *OPTIONAL):
            broken.append("optional dependencies are imported inside the function that needs them")
        for why in broken:
            yield f"{module} (line {line}) imports {name}, but {why}"


@pytest.mark.parametrize("module", FILES)
def test_imports_follow_the_rules(module):
    path = FILES[module]
    source = path.read_text(encoding="utf-8")
    found = list(complaints(source, module, is_package=path.name == "__init__.py"))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("skstein._jit.glm", "import scipy"),
        ("skstein._jit.glm", "from ..targets import base"),
        ("skstein.targets.glm", "from sklearn.base import BaseEstimator"),
        ("skstein.targets.glm", "from ..inference import PMD"),
        ("skstein.inference.pmd", "from skstein.linear_model import BayesianLogisticRegression"),
        ("skstein.inference.pmd", "from skstein.targets import glm"),
        ("skstein.inference.pmd", "from skstein.targets.glm import LogisticTarget"),
        ("skstein.inference.pmd", "from skstein._parallel import parallel_map"),
        ("skstein.inference.pmd", "from sklearn.utils import check_array"),
        ("skstein.samplers.hmc", "def f():\n    import joblib"),
        ("skstein.kernels", "from . import targets"),
        ("skstein.posterior", "from .inference import base"),
        ("skstein.linear_model", "import joblib"),
        ("skstein.linear_model", "from sklearn.utils.parallel import Parallel"),
        ("skstein.linear_model", "from sklearn.utils._param_validation import Interval"),
        ("skstein.linear_model", "from sklearn.utils.validation import _check_sample_weight"),
        ("skstein.metrics", "from numba import njit"),
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
        ("skstein._jit.glm", "import math\nimport numpy as np\nfrom ._compile import compiled"),
        ("skstein.targets.glm", "from scipy.special import expit\nfrom .._jit import glm"),
        ("skstein.inference.pmd", "from sklearn.base import BaseEstimator"),
        ("skstein.inference._infer", "from .._parallel import parallel_map"),
        ("skstein._parallel", "from joblib import effective_n_jobs"),
        ("skstein._validation", "from sklearn.utils._param_validation import Interval"),
        ("skstein.linear_model", "from sklearn import __version__"),
        ("skstein.plotting", "def plot():\n    import matplotlib.pyplot as plt"),
    ],
)
def test_an_allowed_import_passes(module, source):
    assert not list(complaints(source, module))


def test_a_reexported_name_is_followed_to_its_module():
    if "skstein.targets" not in FILES:
        pytest.skip("skstein/targets/__init__.py is not there")
    assert origin("skstein.targets.LogisticTarget") == "skstein.targets.glm.LogisticTarget"
