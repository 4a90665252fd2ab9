"""Sphinx settings. Nothing is fetched while building."""

import re
import sys
from importlib.metadata import version as installed_version
from inspect import signature as signature_of
from pathlib import Path

from docutils.nodes import SkipNode, Text, math, reference
from sphinx.util.inspect import stringify_signature
from sphinx_gallery.directives import depart_imgsg_html, imgsgnode, visit_imgsg_html

import skstein

sys.path.insert(0, str(Path(__file__).parent))

import mathml

project = "skstein"
author = copyright = "The skstein developers"
version = release = installed_version("skstein")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "myst_parser",  # for the changelog
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
source_suffix = {".rst": "restructuredtext"}
default_role = "literal"
smartquotes = False  # strings are to be typed as they stand
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
}
html_title = "skstein"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["skstein.css"]
# Pages without pages below them have nothing to show beside them.
html_sidebars = {name: [] for name in ("index", "getting_started", "why", "whats_new")}

# Methods in the side bar by their own names.
toc_object_entries_show_parents = "hide"

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
    "ignore_pattern": "demo|readme",
    "subsection_order": [
        f"../examples/{name}"
        for name in ("start", "decisions", "groups", "networks", "streams", "papers")
    ],
    "within_subsection_order": "gallery_order.AsTold",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "plot_gallery": "True",
    "image_srcset": ["2x"],
}


def skip_foreign_members(app, what, name, obj, skip, options):
    """What other packages define is documented there, with links that resolve there.

    A property without a docstring would show that of the type of its value, and an attribute that
    is None nothing but that.
    """
    if obj is None or (isinstance(obj, property) and not obj.__doc__):
        return True
    module = getattr(obj, "__module__", None) or "skstein"
    return None if module.startswith("skstein") else True


def show_parameters(app, what, name, obj, options, signature, returned):
    """An estimator's own parameters, not those of the ``__new__`` that checks their names."""
    if what == "class" and (signature or "").startswith("(*args"):
        return stringify_signature(signature_of(obj), show_annotation=False), None
    return None


def protect_shapes(app, what, name, obj, options, lines):
    """A shape such as ``(n_features_in_,)`` would be read as a link."""
    lines[:] = [re.sub(r"\((\w+_),", r"(``\1``,", line) for line in lines]


def keep_marks(app, doctree, docname):
    """A comma or full stop after a formula moves into it: it is not to begin the next line."""
    for node in list(doctree.findall(math)):
        place = node.parent.index(node) + 1
        after = node.parent[place] if place < len(node.parent) else None
        if isinstance(after, Text) and (mark := re.match(r"[,.;:!?)]+", after)):
            node["mark"] = mark[0]
            node.parent[place] = Text(after[mark.end() :])


def inline_math(self, node):
    formula = mathml.inline(node.astext())
    if mark := node.get("mark"):
        formula = f'<span class="with-mark">{formula}{mark}</span>'
    self.body.append(formula)
    raise SkipNode


def display_math(self, node):
    self.body.append(self.starttag(node, "div", CLASS="math"))
    for line in mathml.display(node.astext()):
        self.body.append(f"<div>{''.join(f'<div>{part}</div>' for part in line)}</div>\n")
    self.body.append("</div>\n")
    raise SkipNode


def link_to_sklearn(app, env, node, contnode):
    """scikit-learn's page of a class or function, without fetching its list of names."""
    name = node.get("reftarget", "")
    if not re.fullmatch(r"sklearn(\.\w+)+", name):
        return None
    page = f"https://scikit-learn.org/stable/modules/generated/{name}.html"
    return reference("", "", contnode, internal=False, refuri=page)


def visit_figure(self, node):
    """A box of its own, in which a figure can be moved where the screen is narrow."""
    self.body.append('<div class="figure-box">')
    visit_imgsg_html(self, node)


def depart_figure(self, node):
    depart_imgsg_html(self, node)
    self.body.append("</div>")


def setup(app):
    # Browsers draw MathML themselves; MathJax would have to be fetched when a page is read.
    app.add_html_math_renderer("mathml", (inline_math, None), (display_math, None))
    app.add_node(imgsgnode, html=(visit_figure, depart_figure), override=True)
    app.connect("doctree-resolved", keep_marks)
    app.connect("missing-reference", link_to_sklearn)
    app.connect("autodoc-process-signature", show_parameters)
    app.connect("autodoc-process-docstring", protect_shapes, priority=400)
    app.connect("autodoc-skip-member", skip_foreign_members)
