"""The figures of a run, drawn from its results only.

Each is one Vega-Lite chart, for the report (interactive) and for SVG, PDF and PNG.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from experiments.analysis.figures.bands import bands
from experiments.analysis.figures.by_position import by_position
from experiments.analysis.figures.extrapolation import explorable, extrapolation
from experiments.analysis.figures.steps import steps
from experiments.analysis.figures.sweep import sweeps
from experiments.analysis.figures.training import training
from experiments.analysis.table import Results
from experiments.study.files import write_bytes

__all__ = [
    "Charts",
    "bands",
    "by_position",
    "captions",
    "explorable",
    "extrapolation",
    "figures",
    "save",
    "steps",
    "sweeps",
    "training",
]

Charts = Mapping[str, dict[str, Any]]  # Vega-Lite, by the name of the file
FIGURES: dict[str, Callable[[Results], alt.TopLevelMixin | None]] = {
    "figure": extrapolation,
    "steps": steps,
    "sweep": sweeps,
    "by_position": by_position,
    "bands": bands,
}


def figures(results: Results) -> Charts:
    """All figures that these results have data for, the main one first."""
    drawn = {name: draw(results) for name, draw in FIGURES.items()}
    return {name: chart.to_dict() for name, chart in drawn.items() if chart is not None}


def save(charts: Charts, directory: Path):
    """Writes each of `figures` as SVG and PDF, and the main one as PNG too.

    Raises:
      DiskError: if a file cannot be written.
    """
    for name, spec in charts.items():
        write_bytes(directory / f"{name}.svg", vl_convert.vegalite_to_svg(spec).encode())
        write_bytes(directory / f"{name}.pdf", vl_convert.vegalite_to_pdf(spec))
        if name == "figure":
            png = vl_convert.vegalite_to_png(spec, ppi=200)
            write_bytes(directory / "figure.png", png)


def captions(results: Results) -> dict[str, str]:
    """What each figure shows, in a sentence."""
    first, last = results.metrics[0].title, results.metrics[-1].title.lower()
    both = first if len(results.metrics) == 1 else f"{first} and {last}"
    return {
        "figure": f"{both} against length.",
        "steps": f"{first} against steps of fine-tuning, one panel for each length.",
        "sweep": f"{first} against the swept value, one line for each length.",
        "by_position": "Score by position in the answer, one panel for each length.",
        "bands": "The wavelength of each pair of features over the trained context,"
        " and how much each scaling slows it.",
        "training": "Training loss against steps, mean over seeds, averaged between two reports.",
    }
