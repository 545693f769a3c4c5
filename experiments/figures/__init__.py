"""The figures of a result, drawn from its rows alone: one chart each for the report (interactive) and for SVG, PDF and PNG."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from experiments.figures.along import along
from experiments.figures.bands import bands
from experiments.figures.extrapolation import extrapolation
from experiments.figures.interactive import interactive
from experiments.figures.steps import steps
from experiments.figures.sweep import sweeps
from experiments.figures.training import training
from experiments.files import write_bytes
from experiments.results import Result

__all__ = ["along", "bands", "extrapolation", "figures", "interactive", "save", "steps", "sweeps", "training"]

FIGURES: dict[str, Callable[[Result], alt.TopLevelMixin | None]] = {
    "figure": extrapolation,
    "steps": steps,
    "sweep": sweeps,
    "along": along,
    "bands": bands,
}


def figures(result: Result) -> dict[str, dict[str, Any]]:
    """All figures that this result has something to show in, as Vega-Lite, by the name of their files, the main one first."""
    charts = {name: draw(result) for name, draw in FIGURES.items()}
    return {name: chart.to_dict() for name, chart in charts.items() if chart is not None}


def save(drawn: Mapping[str, dict[str, Any]], directory: Path):
    """Writes each of `figures` as SVG and PDF, and the main one as PNG too.

    Raises:
      DiskError: if one of them cannot be written.
    """
    for name, spec in drawn.items():
        write_bytes(directory / f"{name}.svg", vl_convert.vegalite_to_svg(spec).encode())
        write_bytes(directory / f"{name}.pdf", vl_convert.vegalite_to_pdf(spec))
        if name == "figure":
            write_bytes(directory / "figure.png", vl_convert.vegalite_to_png(spec, ppi=200))
