"""Scores against a swept value, a line for each length."""

# pyright: reportArgumentType=false, reportReturnType=false

from collections import defaultdict

import altair as alt

from experiments import results
from experiments.figures import style
from experiments.results import Result


def sweeps(result: Result) -> alt.TopLevelMixin | None:
    """Token accuracy against what a sweep of one number sets, a panel for each sweep; None if there is none."""
    found: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for label in results.labels(result):
        swept = results.swept(result, label)
        if swept and len(swept["values"]) == 1:
            ((key, value),) = swept["values"].items()
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[swept["of"], key].append((value, label))
    panels = [_panel(result, of, key, members) for (of, key), members in found.items()]
    if not panels:
        return None
    rows = [alt.hconcat(*panels[i : i + 2], spacing=24) for i in range(0, len(panels), 2)]
    subtitle = [style.seeds_sentence(result)]
    return style.titled(alt.vconcat(*rows, spacing=24), f"{result['config']['title']}: the sweep", subtitle)


def _panel(result: Result, of: str, key: str, members: list[tuple[float, str]]) -> alt.LayerChart:
    values = sorted(value for value, _ in members)
    logarithmic = values[0] > 0 and values[-1] / values[0] >= 4
    names = [f"{multiple:g}× the trained length" for multiple in results.multiples(result)]
    points = [
        point | {"value": value, "length": f"{multiple:g}× the trained length"}
        for multiple in results.multiples(result)
        for value, label in sorted(members)
        if (point := style.point(result, label, multiple, "accuracy"))
    ]
    scale = alt.Scale(type="log", base=2, nice=False) if logarithmic else alt.Scale(zero=False)
    x = alt.X("value:Q", title=key.rpartition(".")[2], scale=scale, axis=alt.Axis(values=values, grid=False, format="~g"))
    title = alt.TitleParams(f"{of}: {key}", anchor="start", fontSize=13, fontWeight="normal")
    layers = style.banded(points, x, style.accuracy_axis(), names, key="length")
    return alt.layer(*layers).properties(width=400, height=300, title=title)
