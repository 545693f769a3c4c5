"""Scores against length for every encoding: the main figure of an experiment."""

# pyright: reportArgumentType=false, reportReturnType=false

from collections.abc import Sequence
from typing import Any

import altair as alt

from experiments.analysis.figures import style
from experiments.analysis.table import Entry, Metric, Results


def extrapolation(results: Results) -> alt.TopLevelMixin:
    """The first and the last metric of the task against length: mean lines and seed ranges.

    There is one row of panels, or one for each `panel` of the config.
    """
    entries = [entry for entry in results if entry.swept is None]
    panels: dict[str, list[Entry]] = {}
    for entry in entries:
        panels.setdefault(entry.section.get("panel") or "", []).append(entry)
    rows = [_row(results, name, own) for name, own in panels.items()]
    chart = rows[0]
    if len(rows) > 1:
        independent = {"color": "independent", "shape": "independent"}
        chart = alt.vconcat(*rows, spacing=26).resolve_scale(**independent)

    best = ", and the best possible" if results.task["floor"] > 0 else ""
    dotted = f"Dotted: the trained length; chance, which is a random symbol{best}."
    ends = [
        f"{entry.label} has a value for {entry.limit} positions only: its line ends there."
        for entry in entries
        if entry.limit
    ]
    subtitle = [style.seeds_sentence(results), dotted, *ends]
    return style.titled(chart, results.config["title"], subtitle)


def explorable(results: Results, metric: Metric, *, linear: bool) -> alt.TopLevelMixin:
    """One metric, as wide as the report, with values to point at and a legend to click.

    Args:
      linear: whether lengths are on a linear axis instead of a logarithmic one.
    """
    points = points_by_length(list(results), metric)
    x, y = style.length_axis(results, linear=linear), style.score_axis(results, metric, points)
    selection = alt.selection_point(fields=["encoding"], bind="legend")
    band, *lines = style.banded(points, x, y, results.labels, selection=selection)
    trained = style.vertical(results.task["trained_length"], "trained length")
    chart = alt.layer(trained, band.add_params(selection), *lines)
    return style.titled(chart.properties(width="container", height=380), "")


def points_by_length(entries: Sequence[Entry], metric: Metric) -> list[dict[str, Any]]:
    """One point for each encoding and length that has a value."""
    points = []
    for entry in entries:
        own = [
            point | {"length": length, "end": None}
            for length, multiple in entry.results.lengths.items()
            if (point := style.point(entry, multiple, metric.name))
        ]
        if own and entry.limit:
            own[-1]["end"] = f"{entry.label}: no value beyond"
        points += own
    return points


def _row(results: Results, name: str, entries: Sequence[Entry]) -> alt.HConcatChart:
    """Panels of the same encodings, one for each metric."""
    size = {"width": 380, "height": 250 if name else 330}
    metrics = dict.fromkeys((results.metrics[0], results.metrics[-1]))
    panels = [_panel(results, metric, entries, size) for metric in metrics]
    if name:
        panels[0] = panels[0].properties(title=alt.TitleParams(name, anchor="start", fontSize=13))
    return alt.hconcat(*panels, spacing=style.MARGIN + 18)


def _panel(
    results: Results, metric: Metric, entries: Sequence[Entry], size: dict[str, int]
) -> alt.LayerChart:
    points = points_by_length(entries, metric)
    x, y = style.length_axis(results), style.score_axis(results, metric, points)
    references = style.references(results, metric).items()
    ends = alt.Chart(style.data([point for point in points if point["end"]])).encode(x=x, y=y)
    tick = {"shape": "stroke", "angle": 90, "size": 300, "strokeWidth": 3, "opacity": 1}
    below = -13 if metric.higher_is_better else 17
    name = {"align": "left", "dx": 5, "dy": below, "fontSize": style.SMALL}
    return alt.layer(
        style.vertical(results.task["trained_length"], "trained length", 0.6 * size["height"]),
        *(style.horizontal(value, text, size["width"]) for text, value in references),
        *style.banded(points, x, y, [entry.label for entry in entries]),
        ends.mark_point(color="#555555", **tick),
        ends.mark_text(color="#555555", **name).encode(text="end:N"),
    ).properties(**size)
