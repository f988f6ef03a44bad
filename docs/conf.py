"""Configuration of the documentation; it builds without a network."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from math import inf
from pathlib import Path

from sphinx.pycode import ModuleAnalyzer

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "gradstep"
author = "The gradstep developers"
project_copyright = "The gradstep developers"
version = release = version_of("gradstep")

extensions = [
    "complete",
    "docstring_template",
    "equations",
    "mathml",
    "results",
    "run",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "pictures",
]
# The gallery's tables of times load scripts from elsewhere, and nobody needs them.
exclude_patterns = ["_build", "sg_execution_times.rst", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
default_role = "autolink"
# A module's reading list is not cited from every function.
suppress_warnings = ["ref.citation"]

myst_enable_extensions = ["deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "parallel": 2,
    "subsection_order": ["../examples/network", "../examples/papers", "../examples/data"],
    "within_subsection_order": "pictures.Order",
    "image_scrapers": ("pictures.scrape",),
    "reset_modules": ("pictures.reset",),
    "ignore_repr_types": "matplotlib|list|NoneType",
    "show_signature": False,
    "min_reported_time": inf,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = "gradstep"
# The font of the formulas is that of the interactive page.
html_static_path = ["_static", "../src/gradstep/app/static/stix-two-math.woff2"]
html_css_files = ["formulas.css", "pictures.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False


def skip_generated(app, what, name, obj, skip, options):
    """Leave out what the project does not write: methods that libraries generate in subclasses, fields of tuples.

    The ``set_*_request`` methods of scikit-learn and the ``set`` of Matplotlib refer to the sites of these libraries.
    The fields of a named tuple without a comment beside them are in its list of attributes.
    """
    if type(obj).__name__ == "_tuplegetter":
        told = ModuleAnalyzer.for_module(app.env.temp_data["autodoc:module"]).find_attr_docs()
        return (app.env.temp_data["autodoc:class"], name) not in told
    request = name.startswith("set_") and name.endswith("_request")
    generated = name == "set" and obj.__module__ == "matplotlib.artist"
    return True if request or generated else None


def setup(app):
    """Connect the handlers above."""
    app.connect("autodoc-skip-member", skip_generated)
