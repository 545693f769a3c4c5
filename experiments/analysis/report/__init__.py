"""One HTML file that shows a run or compares several.

It opens from disk, requests nothing over the network, and treats every name as text.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from experiments.analysis import figures
from experiments.analysis.compare import differences
from experiments.analysis.figures import Charts, style
from experiments.analysis.observations import observations
from experiments.analysis.table import Results
from experiments.study.files import read_lines, write_bytes
from experiments.study.folders import make_folder
from experiments.text import plain

FOLDER = Path(__file__).parent


def write(results: Results, directory: Path, output: Path | None = None) -> Path:
    """Draws the figures of a run and writes report.html; returns its path.

    Args:
      directory: of the run.
      output: where the files go, if not into that directory.

    Raises:
      DirectoryError: if the output is a file, or a link to nothing.
      DiskError: if a file cannot be written.
    """
    metrics = read_lines(directory / "metrics.jsonl")
    return _write(results, {plain(directory.name): results}, metrics, output or directory)


def write_comparison(results: Results, runs: Mapping[str, Results], output: Path) -> Path:
    """The same for several runs, which `compare.merged` made into one."""
    return _write(results, runs, [], output)


def _write(
    results: Results, runs: Mapping[str, Results], metrics: list[dict[str, Any]], output: Path
) -> Path:
    make_folder(output)
    charts = figures.figures(results)
    path = output / "report.html"
    figures.save(charts, output)
    write_bytes(path, render(results, runs, charts, metrics).encode())
    return path


def render(
    results: Results,
    runs: Mapping[str, Results],
    printed: Charts,
    metrics: list[dict[str, Any]],
) -> str:
    """The report as HTML.

    Args:
      results: of one run, or of several that were merged.
      runs: by name.
      printed: the figures that lie next to the report as files.
      metrics: training losses, or an empty list.
    """
    training = figures.training(results, metrics)
    charts = {**printed, **({"training": training.to_dict()} if training else {})}
    explorable = {
        f"{metric.name} {scale}": figures.explorable(
            results, metric, linear=scale == "linear"
        ).to_dict()
        for metric in results.metrics
        for scale in ("log", "linear")
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_read("page.html.jinja")).render(
        results=results,
        task=results.task,
        runs=runs,
        observations=observations(results),
        captions=figures.captions(results),
        charts=charts,
        printed=printed,
        seeds=style.seeds_sentence(results),
        differences=differences(runs),
        dump=lambda config: json.dumps(config, indent=2),
        style=Markup(_read("page.css")),
        charts_json=_embedded(charts),
        explorable_json=_embedded(explorable),
        script=_script(),
    )


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def _script() -> Markup:
    """The page's program with the drawing library, whose bundling takes a second."""
    script = vl_convert.javascript_bundle(_read("page.js"))
    return Markup(script.replace("</", "\\x3c/").replace("<!--", "\\x3c!--"))


def _embedded(charts: Charts) -> Markup:
    """JSON for a script element, where nothing is escaped: nothing in it may look like a tag."""
    return Markup(json.dumps(charts).replace("<", "\\u003c"))
