"""One HTML file that shows a run: it opens from disk, asks for nothing over the network, and treats every name as text."""

import functools
import json
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from experiments import figures, results
from experiments.files import telling
from experiments.results import Result

_DRAW = """
const spec = JSON.parse(document.getElementById("chart").textContent);
vegaEmbed("#figure", spec, {actions: false, renderer: "svg"});
"""


def write(result: Result, directory: Path) -> Path:
    """Draws the figure and writes report.html beside it; returns the report's path.

    Raises:
      DiskError: if one of the files cannot be written.
    """
    path = directory / "report.html"
    with telling(path):
        figures.save(result, directory)
        path.write_text(render(result), encoding="utf-8")
    return path


def render(result: Result) -> str:
    """The report as HTML."""
    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    spec = json.dumps(figures.extrapolation(result).to_dict())
    return environment.from_string(template).render(
        result=result,
        results=results,
        metrics={"accuracy": "Token accuracy", "exact_match": "Exact match", "loss": "Loss (nats per answer)"},
        config=json.dumps(result["config"], indent=2),
        # in a script element nothing is escaped, so nothing in it may look like a tag
        spec=Markup(spec.replace("<", "\\u003c")),
        library=_library(),
    )


@functools.cache
def _library() -> Markup:
    """The program that draws the chart: bundling it takes a second."""
    return Markup(vl_convert.javascript_bundle(_DRAW).replace("</", "\\x3c/").replace("<!--", "\\x3c!--"))
