"""What all figures share: colours and shapes, axes, bands over seeds, reference lines."""

# pyright: reportArgumentType=false, reportReturnType=false
# (altair's types do not cover the classes that its own documentation passes)

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from experiments.analysis.table import Entry, Metric, Results

# Okabe and Ito's colours, which colour-blind readers can tell apart; shapes do so in print.
COLOURS = [
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000", "#999933"),
]
SHAPES = [
    *("circle", "square", "triangle-up", "diamond"),
    *("cross", "triangle-down", "triangle-left", "triangle-right"),
]
SMALL = 11.5
MARGIN = 46  # pixels right of a panel, for the name of a line across it


def data(rows: Sequence[dict[str, Any]]) -> alt.Data:
    """A chart's data, in a tuple: altair copies lists again at every composition."""
    return alt.Data(values=tuple(rows))


def titled(chart: Any, title: str, subtitle: Sequence[str] = ()) -> Any:
    """The whole figure, with fonts and grid as in print."""
    text = alt.TitleParams(
        title, subtitle=list(subtitle), anchor="start", fontSize=15, subtitleFontSize=SMALL
    )
    plain = {"titleFontWeight": "normal"}
    return (
        chart.properties(title=text)
        .configure_axis(labelFontSize=12, titleFontSize=13, gridColor="#e4e4e4", **plain)
        .configure_legend(labelFontSize=13, symbolSize=110, labelLimit=260, orient="right", **plain)
        .configure_view(stroke="#bbbbbb")
        .configure_header(labelFontSize=13, labelFontWeight="normal")
    )


def panel_title(text: str) -> alt.TitleParams:
    return alt.TitleParams(text, anchor="start", fontSize=13, fontWeight="normal")


def grid(panels: Sequence[alt.LayerChart], columns: int) -> alt.VConcatChart:
    """Panels in rows."""
    starts = range(0, len(panels), columns)
    rows = [alt.hconcat(*panels[i : i + columns], spacing=24) for i in starts]
    return alt.vconcat(*rows, spacing=24)


def seeds_sentence(results: Results) -> str:
    """What a line and its band are."""
    counts = [len(entry.rows(1)) for entry in results]
    few, many = min(counts), max(counts)
    number = f"{many}" if few == many else f"{few} to {many}"
    line = f"mean of {number} seeds; band: their range" if many > 1 else "one seed"
    return f"Line: {line}; dashed: not fitted in every seed."


def point(
    entry: Entry, multiple: float, metric: str | None = None, step: int | None = None
) -> dict[str, Any] | None:
    """What a figure draws of one cell; None if there is no value."""
    cell = entry.cell(multiple, metric, step)
    if cell is None:
        return None
    numbers = {"mean": cell.mean, "low": cell.low, "high": cell.high}
    return {"encoding": entry.label, "multiple": multiple, **numbers, "fitted": entry.has_fitted}


def length_axis(results: Results, *, linear: bool = False) -> alt.X:
    """Lengths, each labelled with itself and its multiple; on a log scale unless `linear`."""
    first, last = min(results.lengths), max(results.lengths)
    names = ", ".join(f"'{length}': '{m:g}×'" for length, m in results.lengths.items())
    log = {"type": "log", "base": 2, "domain": [first / 1.25, last * 1.15]}
    return alt.X(
        "length:Q",
        scale=alt.Scale(nice=False, **({"domain": [0, last * 1.05]} if linear else log)),
        axis=alt.Axis(
            values=list(results.lengths),
            labelExpr=f"[datum.value, {{{names}}}[datum.value]]",
            grid=False,
        ),
        title="length, and as a multiple of the trained length",
    )


def references(results: Results, metric: Metric) -> dict[str, float]:
    """Scores to compare with: a random symbol's, and the best one where the task has noise."""
    task = results.task
    if metric.unit == "share":
        return {"chance": task["chance"]} if metric.name == "accuracy" else {}
    nats = {"chance": task["chance_loss"]} | ({"best": task["floor"]} if task["floor"] > 0 else {})
    return {n: math.exp(x) for n, x in nats.items()} if metric.unit == "perplexity" else nats


def score_axis(results: Results, metric: Metric, points: Sequence[dict[str, Any]] = ()) -> alt.Y:
    """The axis of a metric, with room on the better side, where the end of a table is named.

    Args:
      points: what the axis must have room for; a share needs none.
    """
    title = metric.heading.lower()
    if metric.unit == "share":
        axis = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1])
        scale = alt.Scale(domain=[0, 1.1], nice=False)
        return alt.Y("mean:Q", title=title, scale=scale, axis=axis)
    worst = max([*references(results, metric).values(), *(point["high"] for point in points)])
    if metric.unit == "perplexity":
        scale = {"type": "log", "domain": [math.exp(0.8 * results.task["floor"]), 1.2 * worst]}
        axis = alt.Axis(format="~g", tickCount=6)
    else:
        scale = {"domain": [-0.1 * worst, 1.05 * worst]}
        axis = alt.Axis(labelExpr="datum.value < 0 ? '' : datum.label")
    return alt.Y("mean:Q", title=title, scale=alt.Scale(nice=False, **scale), axis=axis)


def banded(
    points: Sequence[dict[str, Any]],
    x: alt.X,
    y: alt.Y,
    labels: Sequence[str],
    *,
    key: str = "encoding",
    selection: Any = None,
) -> list[alt.Chart]:
    """Bands, lines and marks of points with the fields mean, low, high, fitted and `key`.

    Names stay data here: they are never part of an expression.

    Args:
      key: the field that names the line.
      selection: what is not in it is drawn pale.
    """
    legend = alt.Legend(symbolOpacity=1)  # not as pale as the bands
    encoded = encodings(labels, key, legend=legend)
    values = (alt.Tooltip(f"{field}:Q", format=".3f") for field in ("mean", "low", "high"))
    tooltip = [str(x.shorthand), f"{key}:N", *values]

    def chart(rows):
        return alt.Chart(data(rows)).encode(x=x, y=y, color=encoded["color"])

    def opacity(value: float) -> Any:
        if selection is None:
            return alt.value(value)
        return alt.condition(selection, alt.value(value), alt.value(0.04))

    fitted = chart([point for point in points if point["fitted"]])
    unfitted = chart([point for point in points if not point["fitted"]])
    marks = chart(points).mark_point(filled=True, size=70)
    return [
        chart(points).mark_area().encode(y="low:Q", y2="high:Q", opacity=opacity(0.16)),
        fitted.mark_line(strokeWidth=2.2).encode(opacity=opacity(1)),
        unfitted.mark_line(strokeWidth=2.2, strokeDash=[5, 4]).encode(opacity=opacity(1)),
        marks.encode(shape=encoded["shape"], tooltip=tooltip, opacity=opacity(1)),
    ]


def encodings(labels: Sequence[str], field: str = "encoding", **options: Any) -> dict[str, Any]:
    """Colour and shape of each label; together they never repeat.

    Args:
      options: of both channels, such as the legend.
    """
    labels, shared = list(labels), {"title": None, "sort": list(labels), **options}
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(labels))]
    shapes = [SHAPES[(i + i // len(SHAPES)) % len(SHAPES)] for i in range(len(labels))]
    return {
        "color": alt.Color(f"{field}:N", scale=alt.Scale(domain=labels, range=colours), **shared),
        "shape": alt.Shape(f"{field}:N", scale=alt.Scale(domain=labels, range=shapes), **shared),
    }


def vertical(at: float, text: str, y: float = 200) -> alt.LayerChart:
    """A named line across the panel at one length."""
    chart = alt.Chart(data([{"at": at, "text": text}])).encode(x="at:Q")
    label = chart.mark_text(color="#555555", fontSize=SMALL, angle=270, dy=-9)
    return chart.mark_rule(color="#555555", strokeDash=[2, 3], strokeWidth=1.4) + label.encode(
        y=alt.value(y), text="text:N"
    )


def horizontal(at: float, text: str, width: float, *, inside: bool = False) -> alt.LayerChart:
    """A named line across a panel; the name is `inside`, or in the margin, where no data are."""
    chart = alt.Chart(data([{"at": at, "text": text}])).encode(y="at:Q")
    if inside:
        x, place = width - 6, {"align": "right", "dy": -7}
    else:
        x, place = width + 5, {"align": "left", "baseline": "middle"}
    label = chart.mark_text(color="#666666", fontSize=SMALL, **place)
    return chart.mark_rule(color="#888888", strokeDash=[2, 3], strokeWidth=1.4) + label.encode(
        x=alt.value(x), text="text:N"
    )
