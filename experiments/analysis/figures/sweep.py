"""Scores against a swept value, a line for each length."""

# pyright: reportArgumentType=false, reportReturnType=false

from collections import defaultdict

import altair as alt

from experiments.analysis.figures import style
from experiments.analysis.table import Entry, Results

Member = tuple[float, Entry]  # the swept value, and the encoding that has it


def sweeps(results: Results) -> alt.TopLevelMixin | None:
    """The main metric against a swept number, a panel for each sweep; None without any."""
    found: dict[tuple[str, str], list[Member]] = defaultdict(list)
    for entry in results:
        if entry.swept and len(entry.swept["values"]) == 1:
            ((key, value),) = entry.swept["values"].items()
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[entry.swept["of"], key].append((value, entry))
    if not found:
        return None
    panels = [_panel(results, *names, members) for names, members in found.items()]
    title, subtitle = f"{results.config['title']}: the sweep", [style.seeds_sentence(results)]
    return style.titled(style.grid(panels, columns=2), title, subtitle)


def _panel(results: Results, of: str, key: str, members: list[Member]) -> alt.LayerChart:
    members = sorted(members, key=lambda member: member[0])
    values = [value for value, _ in members]
    lengths = {f"{multiple:g}× the trained length": multiple for multiple in results.multiples}
    points = [
        point | {"value": value, "length": length}
        for length, multiple in lengths.items()
        for value, entry in members
        if (point := style.point(entry, multiple))
    ]
    logarithmic = values[0] > 0 and values[-1] / values[0] >= 4
    scale = alt.Scale(type="log", base=2, nice=False) if logarithmic else alt.Scale(zero=False)
    axis = alt.Axis(values=values, grid=False, format="~g")
    x = alt.X("value:Q", title=key.rpartition(".")[2], scale=scale, axis=axis)
    y = style.score_axis(results, results.main_metric, points)
    layers = style.banded(points, x, y, list(lengths), key="length")
    title = style.panel_title(f"{of}: {key}")
    return alt.layer(*layers).properties(width=400, height=300, title=title)
