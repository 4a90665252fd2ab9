"""Sphinx settings. Nothing is fetched while building."""

from importlib.metadata import version as installed_version

project = "skstein"
author = copyright = "The skstein developers"
version = release = installed_version("skstein")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"

# A module's `__all__` is its public part, names imported from private modules included.
autosummary_ignore_module_all = False
autosummary_imported_members = True
# The class template lists the members; a second list by numpydoc would need a page for each.
numpydoc_show_class_members = False


def skip_foreign_members(app, what, name, obj, skip, options):
    """Methods inherited from scikit-learn are documented there, with links that resolve there."""
    return skip or (getattr(obj, "__module__", None) or "").startswith("sklearn.")


def setup(app):
    app.connect("autodoc-skip-member", skip_foreign_members)
