"""One HTML file that shows a run: it opens from disk, asks for nothing over the network, and treats every name as text."""

import json
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from experiments import figures, results
from experiments.files import telling
from experiments.remarks import remarks
from experiments.results import Result

_DRAW = """
const specs = JSON.parse(document.getElementById("charts").textContent);
for (const name in specs) vegaEmbed("#" + name, specs[name], {actions: false, renderer: "svg"});
"""


CAPTIONS = {
    "figure": "Token accuracy and loss against length; the tables below hold the same numbers.",
    "steps": "Token accuracy against steps of fine-tuning, one panel for each length.",
    "sweep": "Token accuracy against the swept value, one line for each length.",
    "along": "Token accuracy along the answer, first token to last, one panel for each length.",
    "bands": "The wavelength of each pair of features over the trained context, and how much each scaling slows it.",
}


def write(result: Result, directory: Path) -> Path:
    """Draws the figures and writes report.html beside them; returns the report's path.

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
    charts = json.dumps({name: chart.to_dict() for name, chart in figures.figures(result).items()})
    return environment.from_string(template).render(
        result=result,
        results=results,
        remarks=remarks(result),
        captions={name: CAPTIONS[name] for name in figures.figures(result)},
        metrics={"accuracy": "Token accuracy", "exact_match": "Exact match", "loss": "Loss (nats per answer)"},
        config=json.dumps(result["config"], indent=2),
        # in a script element nothing is escaped, so nothing in it may look like a tag
        charts=Markup(charts.replace("<", "\\u003c")),
        library=Markup(vl_convert.javascript_bundle(_DRAW).replace("</", "\\x3c/").replace("<!--", "\\x3c!--")),
    )
