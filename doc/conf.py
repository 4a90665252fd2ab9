"""Sphinx settings. Nothing is fetched while building."""

import re
from importlib.metadata import version as installed_version

import skstein

project = "skstein"
author = copyright = "The skstein developers"
version = release = installed_version("skstein")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "myst_parser",  # for the changelog
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
source_suffix = {".rst": "restructuredtext"}
default_role = "literal"
html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}

# A module's `__all__` is its public part, names imported from private modules included.
autosummary_ignore_module_all = False
autosummary_imported_members = True
# What stands at the top level is not documented a second time in its own module.
autosummary_context = {"top_level": skstein.__all__}
# The class template lists the members; a second list by numpydoc would need a page for each.
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "ignore_pattern": "demo",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "plot_gallery": "True",
}


def skip_foreign_members(app, what, name, obj, skip, options):
    """What other packages define is documented there, with links that resolve there."""
    module = getattr(obj, "__module__", None) or "skstein"
    return None if module.startswith("skstein") else True


def protect_shapes(app, what, name, obj, options, lines):
    """A shape such as ``(n_features_in_,)`` would be read as a link."""
    lines[:] = [re.sub(r"\((\w+_),", r"(``\1``,", line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", protect_shapes, priority=400)
    app.connect("autodoc-skip-member", skip_foreign_members)
