"""One HTML file that shows a run, or several: it opens from disk, asks for nothing over the network, and treats every name as
text."""

import json
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from experiments import figures, results
from experiments.figures import style
from experiments.files import read_lines, telling, write_bytes
from experiments.remarks import remarks
from experiments.results import Result
from experiments.store import flat
from experiments.text import shown

METRICS = {"accuracy": "Token accuracy", "exact_match": "Exact match", "loss": "Loss (nats per answer)"}
Figures = Mapping[str, dict[str, Any]]  # Vega-Lite, by name
CAPTIONS = {
    "figure": "Token accuracy and loss against length.",
    "steps": "Token accuracy against steps of fine-tuning, one panel for each length.",
    "sweep": "Token accuracy against the swept value, one line for each length.",
    "along": "Token accuracy along the answer, first token to last, one panel for each length.",
    "bands": "The wavelength of each pair of features over the trained context, and how much each scaling slows it.",
    "training": "Training loss against steps, mean over seeds, averaged between two reports.",
}


def write(result: Result, directory: Path, output: Path | None = None) -> Path:
    """Draws the figures of a run and writes report.html beside them, in its directory or another; returns the report's path.

    Raises:
      DiskError: if one of the files cannot be written.
    """
    drawn = figures.figures(result)
    metrics = read_lines(directory / "metrics.jsonl")
    output = output or directory
    with telling(output):
        output.mkdir(parents=True, exist_ok=True)
    figures.save(drawn, output)
    path = output / "report.html"
    write_bytes(path, render(result, {directory.name: result}, drawn, metrics).encode())
    return path


def write_comparison(result: Result, runs: Mapping[str, Result], directory: Path) -> Path:
    """The same for several runs, which were merged into one result.

    Raises:
      DiskError: if one of the files cannot be written.
    """
    path = directory / "report.html"
    with telling(path):
        directory.mkdir(parents=True, exist_ok=True)
    drawn = figures.figures(result)
    figures.save(drawn, directory)
    write_bytes(path, render(result, runs, drawn, []).encode())
    return path


def render(result: Result, runs: Mapping[str, Result], drawn: Figures, metrics: list[dict[str, Any]]) -> str:
    """The report as HTML: of a result, which the runs made, with its figures, and the training losses if there are any."""
    folder = Path(__file__).parent
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    training = figures.training(result, metrics)
    charts = {**drawn, **({"training": training.to_dict()} if training else {})}
    explored = {
        f"{metric} {scale}": figures.interactive(result, metric, name, linear=scale == "linear").to_dict()
        for metric, name in METRICS.items()
        for scale in ("log", "linear")
    }
    return environment.from_string((folder / "page.html.jinja").read_text(encoding="utf-8")).render(
        result=result,
        runs=runs,
        results=results,
        remarks=remarks(result),
        metrics=METRICS,
        captions=CAPTIONS,
        charts=charts,
        printed=drawn,
        seeds=style.seeds_sentence(result),
        differences=_differences(runs),
        dump=lambda config: json.dumps(config, indent=2),
        style=Markup((folder / "page.css").read_text(encoding="utf-8")),
        charts_json=_embedded(charts),
        explored_json=_embedded(explored),
        script=_script(),
    )


def _differences(runs: Mapping[str, Result]) -> dict[str, list[str]]:
    """The keys whose values differ between the configs of several runs, and those values."""
    configs = [flat(run["config"]) for run in runs.values()]
    keys = [key for key in dict.fromkeys(chain(*configs)) if any(config.get(key) != configs[0].get(key) for config in configs)]
    return {key: [shown(config[key]) if key in config else "–" for config in configs] for key in keys}


@cache
def _script() -> Markup:
    """The page's program, with the library that draws: bundling it takes a second."""
    script = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    return Markup(vl_convert.javascript_bundle(script).replace("</", "\\x3c/").replace("<!--", "\\x3c!--"))


def _embedded(charts: Figures) -> Markup:
    """Specifications as JSON in a script element, where nothing is escaped, so that nothing in it may look like a tag."""
    return Markup(json.dumps(charts).replace("<", "\\u003c"))
