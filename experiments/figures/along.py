"""Scores along the sequence: where in an answer the errors are."""

# pyright: reportArgumentType=false, reportReturnType=false

import statistics

import altair as alt

from experiments import results
from experiments.figures import style
from experiments.results import Result


def along(result: Result) -> alt.TopLevelMixin | None:
    """Token accuracy in each part of the answers, a panel for each length; None if it was not kept."""
    labels = [label for label in results.labels(result) if results.swept(result, label) is None]
    panels = []
    for length, multiple in results.lengths(result).items():
        points = [point for label in labels for point in _points(result, label, multiple)]
        if points:
            x = alt.X("part:Q", title="place in the answer (0 first, 1 last)", scale=alt.Scale(domain=[0, 1]))
            layers = style.banded(points, x, style.accuracy_axis(), labels)[:-1]
            title = alt.TitleParams(f"length {length} ({multiple:g}×)", anchor="start", fontSize=13, fontWeight="normal")
            panels.append(alt.layer(*layers).properties(width=250, height=220, title=title))
    if not panels:
        return None
    rows = [alt.hconcat(*panels[i : i + 3], spacing=24) for i in range(0, len(panels), 3)]
    subtitle = [style.seeds_sentence(result)]
    return style.titled(alt.vconcat(*rows, spacing=24), "Token accuracy along the answer", subtitle)


def _points(result: Result, label: str, multiple: float) -> list[dict]:
    seeds = [row.get("accuracy_along") for row in results.rows(result, label, multiple)]
    if not seeds or any(seed is None or len(seed) != len(seeds[0] or []) for seed in seeds):
        return []
    fitted = results.has_fitted(result, label)
    parts = list(zip(*seeds, strict=True))
    return [
        {
            "encoding": label,
            "part": (i + 0.5) / len(parts),
            "mean": statistics.fmean(part),
            "low": min(part),
            "high": max(part),
            "fitted": fitted,
        }
        for i, part in enumerate(parts)
    ]
