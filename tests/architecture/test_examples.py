"""Examples compile, and what they import from this package exists; building the docs runs them."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_compiles_and_imports_what_exists(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), path.name)
    compile(tree, path.name, "exec")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skstein":
            module = importlib.import_module(node.module)
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            assert not missing, f"{node.module} has no {', '.join(missing)}"


def test_gallery_is_found():
    assert any(path.name.startswith("plot_") for path in EXAMPLES)
