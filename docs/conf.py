"""Sphinx builds the docs; on the way the figures are drawn and the notebook is run.

python -m sphinx -W --keep-going docs docs/_build/html
"""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import ClassVar

from docutils.parsers.rst import directives
from sphinx.directives.patches import Figure

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ["PYTHONPATH"] = str(HERE.parent)  # of the notebook's kernel

project, author, copyright = "jrope", "The jrope authors", "The jrope authors"
version = release = version_of("jrope")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "_figures", "quick"]

html_theme = "furo"
html_title = "jrope"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = html_show_sourcelink = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
copybutton_exclude = ".linenos, .gp"

# Docstrings are plain text: names in single backticks, formulas indented, sections as Google writes them.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False


class Drawn(Figure):
    """`drawn` NAME: what figures.py draws, for light and for dark pages, with a caption and a text alternative."""

    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self):
        name, self.options["alt"] = self.arguments[0], self.options.get("alt") or self.error("drawn: needs an :alt: text")
        self.arguments[0] = f"_figures/{name}-light.svg"
        (figure,) = super().run()
        light = figure.children[0]
        dark = light.deepcopy()
        dark["uri"] = dark["uri"].replace("-light", "-dark")
        for image, theme in ((light, "light"), (dark, "dark")):
            image["classes"].append(f"only-{theme}")
        figure.insert(1, dark)
        return [figure]


def formulas_are_literal(app, what, name, obj, options, lines):
    """Indented paragraphs of a docstring are formulas and tables, unless they stand under the title of a section."""
    given, lines[:] = list(lines), []
    opener = ""  # the last line that began a paragraph at the margin
    for i, line in enumerate(given):
        indented, begins = line.startswith("    "), i == 0 or not given[i - 1].strip()
        if line and not line.startswith(" "):
            opener = line
        if indented and begins and not opener.endswith(("Args:", "Returns:", "Raises:", "Attributes:")):
            lines += ["::", ""]
        lines.append(line)


def draw(app):
    import figures

    figures.draw_all(HERE / "_figures")


def setup(app):
    app.add_directive("drawn", Drawn)
    app.connect("builder-inited", draw)
    app.connect("autodoc-process-docstring", formulas_are_literal, priority=400)  # before napoleon
