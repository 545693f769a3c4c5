"""Scores by position in the answer: where the errors are."""

# pyright: reportArgumentType=false

import statistics
from typing import Any

import altair as alt

from experiments.analysis.figures import style
from experiments.analysis.table import Entry, Results


def by_position(results: Results) -> alt.TopLevelMixin | None:
    """The first metric that rows have by position, a panel for each length; None without any."""
    kept = {name for row in results.data["rows"] for name in row.get("by_position", {})}
    metric = next((metric for metric in results.metrics if metric.name in kept), None)
    if metric is None:
        return None
    entries = [entry for entry in results if entry.swept is None]
    title = "position in the answer (0 first, 1 last)"
    x = alt.X("part:Q", title=title, scale=alt.Scale(domain=[0, 1]))
    panels = []
    for length, multiple in results.lengths.items():
        points = [point for e in entries for point in _points(e, multiple, metric.name)]
        if points:
            y = style.score_axis(results, metric, points)
            layers = style.banded(points, x, y, [entry.label for entry in entries])[:-1]
            title = style.panel_title(f"length {length} ({multiple:g}×)")
            panels.append(alt.layer(*layers).properties(width=250, height=220, title=title))
    title, subtitle = f"{metric.title} by position", [style.seeds_sentence(results)]
    return style.titled(style.grid(panels, columns=3), title, subtitle) if panels else None


def _points(entry: Entry, multiple: float, metric: str) -> list[dict[str, Any]]:
    """One for each part of the answers; empty if the seeds do not all have the same parts."""
    seeds = [row.get("by_position", {}).get(metric, []) for row in entry.rows(multiple)]
    if len({len(parts) for parts in seeds}) != 1:
        return []
    number = len(seeds[0])
    return [
        {
            "encoding": entry.label,
            "part": (i + 0.5) / number,
            "mean": statistics.fmean(part),
            "low": min(part),
            "high": max(part),
            "fitted": entry.has_fitted,
        }
        for i, part in enumerate(zip(*seeds, strict=True))
    ]
