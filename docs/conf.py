"""Sphinx builds the docs, draws their figures and runs the notebook.

python -m sphinx -W --keep-going docs docs/_build/html
"""

import os
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import ClassVar

from docutils.parsers.rst import directives
from sphinx.directives.patches import Figure
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ["PYTHONPATH"] = str(HERE.parent)  # of the notebook's kernel

import reference  # noqa: E402

project, author, copyright = "jrope", "The jrope authors", "The jrope authors"
version = release = version_of("jrope")
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_figures", "study", "bench"]

html_theme = "furo"
html_title = "jrope"
html_theme_options = {"navigation_with_keys": True}
html_static_path, html_css_files = ["_static"], ["jrope.css"]
html_copy_source = html_show_sourcelink = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
copybutton_exclude = ".linenos, .gp"

# Docstrings are plain text: names in backticks, formulas indented, Google's sections.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # the maps of an encoding are described once
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False


class Drawn(Figure):
    """`drawn` NAME: the figure of this name in figures.py, in light and dark."""

    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self):
        name, self.options["alt"] = (
            self.arguments[0],
            self.options.get("alt") or self.error("drawn: needs an :alt: text"),
        )
        self.arguments[0] = f"_figures/{name}-light.svg"
        (figure,) = super().run()
        light = figure.children[0]
        dark = light.deepcopy()
        dark["uri"] = dark["uri"].replace("-light", "-dark")
        for image, theme in ((light, "light"), (dark, "dark")):
            image["classes"].append(f"only-{theme}")
        figure.insert(1, dark)
        return [figure]


class Measured(SphinxDirective):
    """`measured` NAME: the results of this benchmark in bench/, as a table."""

    required_arguments = 1

    def run(self):
        from benchmarks import stored

        name = self.arguments[0]
        self.env.note_dependency(str(stored.STORED / f"{name}.json"))
        return self.parse_text_to_nodes(
            f"{stored.markdown(name)}\n\nMeasured on {stored.conditions(name)}"
        )


class Listed(SphinxDirective):
    """`listed` KIND: a table of the encodings, scalings or axes of the library."""

    required_arguments = 1

    def run(self):
        return self.parse_text_to_nodes(reference.table(self.arguments[0]))


class Files(SphinxDirective):
    """`files` PACKAGE: a section for each of its files."""

    required_arguments = 1

    def run(self):
        sections = "\n\n".join(reference.files(self.arguments[0]))
        return self.parse_text_to_nodes(sections, allow_section_headings=True)


class Exports(SphinxDirective):
    """`exports` MODULES: the functions and classes that they export."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        entries = map(reference.entries, self.arguments[0].split())
        return self.parse_text_to_nodes("\n\n".join(entries))


def formulas_are_literal(app, what, name, obj, options, lines):
    """Indented paragraphs are formulas or tables, unless under a section's title."""
    given, lines[:] = list(lines), []
    margin, literal = "", False  # the last line at the margin, and what is below it
    for line in given:
        if line and not line.startswith(" "):
            margin, literal = line, False
        elif line.startswith("    ") and lines[-1:] == [""] and not literal:
            literal = not margin.endswith(
                ("Args:", "Returns:", "Raises:", "Attributes:")
            )
            lines += ["::", ""] if literal else []
        lines.append(line)


def fields_are_one_word(app, what, name, obj, options, lines):
    """`:ivar a, b:` documents both, which Sphinx reads as a `b` of type `a,`."""
    for i, line in enumerate(lines):
        if match := re.match(r":ivar ([\w, ]+):", line):
            lines[i] = line.replace(match[1], match[1].replace(", ", ","))


def draw(app):
    import figures

    figures.draw_all(HERE / "_figures")


def setup(app):
    app.add_directive("drawn", Drawn)
    app.add_directive("measured", Measured)
    app.add_directive("listed", Listed)
    app.add_directive("files", Files)
    app.add_directive("exports", Exports)
    app.connect("builder-inited", draw)
    before_napoleon, after_napoleon = 400, 600
    app.connect("autodoc-process-docstring", formulas_are_literal, before_napoleon)
    app.connect("autodoc-process-docstring", fields_are_one_word, after_napoleon)
