"""What all figures share: colours, shapes, the band over seeds, the line at the trained length."""

# pyright: reportArgumentType=false, reportReturnType=false
# (altair's types do not know the classes that its own documentation passes)

from collections.abc import Sequence
from typing import Any

import altair as alt

from experiments import results
from experiments.results import Result

# Okabe and Ito's colours, told apart by colour-blind readers; shapes tell the lines apart in print.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right"]
SMALL = 11.5
BESIDE = 46  # pixels right of a panel, for the name of a line across it


def data(rows: Sequence[dict[str, Any]]) -> alt.Data:
    """Rows as a chart's data: in a tuple, since altair copies what is in a list again at every composition."""
    return alt.Data(values=tuple(rows))


def titled(chart: Any, title: str, subtitle: Sequence[str] = ()) -> Any:
    """The whole figure, with fonts and grid as in print."""
    text = alt.TitleParams(title, subtitle=list(subtitle), anchor="start", fontSize=15, subtitleFontSize=SMALL)
    return (
        chart.properties(title=text)
        .configure_axis(labelFontSize=12, titleFontSize=13, titleFontWeight="normal", gridColor="#e4e4e4")
        .configure_legend(labelFontSize=13, symbolSize=110, labelLimit=260, orient="right", titleFontWeight="normal")
        .configure_view(stroke="#bbbbbb")
        .configure_header(labelFontSize=13, labelFontWeight="normal")
    )


def seeds_sentence(result: Result) -> str:
    """What a line and its band are."""
    counts = [len(results.rows(result, label, 1)) for label in results.labels(result)]
    few, many = min(counts), max(counts)
    over = f"mean of {few if few == many else f'{few} to {many}'} seeds; band: lowest to highest of them"
    over = "one seed" if many == 1 else over
    return f"Line: {over}; dashed: not fitted at the trained length."


def banded(
    points: list[dict], x: alt.X, y: alt.Y, labels: Sequence[str], *, key: str = "encoding", singled: Any = None
) -> list[alt.Chart]:
    """Bands, lines and points of data with the fields mean, low, high, fitted and `key`, which names the line.

    `singled` is a selection, and what is not in it is drawn pale.

    Names stay data here, never part of an expression.
    """
    shared = {"title": None, "sort": list(labels), "legend": alt.Legend(symbolOpacity=1)}  # not as pale as the bands
    colour = alt.Color(f"{key}:N", scale=alt.Scale(domain=list(labels), range=cycle(COLOURS, labels)), **shared)
    shape = alt.Shape(f"{key}:N", scale=alt.Scale(domain=list(labels), range=cycle(SHAPES, labels, shift=True)), **shared)
    own = [str(x.shorthand), f"{key}:N"]
    tooltip = [*own, *(alt.Tooltip(f"{field}:Q", format=".3f") for field in ("mean", "low", "high"))]

    def chart(rows):
        return alt.Chart(data(rows)).encode(x=x, y=y, color=colour)

    def seen(opacity: float) -> Any:
        return alt.condition(singled, alt.value(opacity), alt.value(0.04)) if singled else alt.value(opacity)

    return [
        chart(points).mark_area().encode(y="low:Q", y2="high:Q", opacity=seen(0.16)),
        chart([p for p in points if p["fitted"]]).mark_line(strokeWidth=2.2).encode(opacity=seen(1)),
        chart([p for p in points if not p["fitted"]]).mark_line(strokeWidth=2.2, strokeDash=[5, 4]).encode(opacity=seen(1)),
        chart(points).mark_point(filled=True, size=70).encode(shape=shape, tooltip=tooltip, opacity=seen(1)),
    ]


def point(result: Result, label: str, multiple: float, metric: str, finetuned: int | None = None) -> dict | None:
    """What a figure draws of one cell; None where there is none."""
    cell = results.cell(result, label, multiple, metric, finetuned)
    fitted = results.has_fitted(result, label)
    return {"encoding": label, "multiple": multiple, **cell._asdict(), "fitted": fitted} if cell else None


def accuracy_axis(title: str = "token accuracy") -> alt.Y:
    # room on the better side, where the end of a table is marked and named
    return alt.Y(
        "mean:Q", title=title, scale=alt.Scale(domain=[0, 1.1], nice=False), axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    )


def vertical(at: float, text: str, y: float = 200) -> alt.LayerChart:
    """A labelled line across the panel at one length."""
    chart = alt.Chart(data([{"at": at, "text": text}])).encode(x="at:Q")
    label = chart.mark_text(color="#555555", fontSize=SMALL, angle=270, dy=-9).encode(y=alt.value(y), text="text:N")
    return chart.mark_rule(color="#555555", strokeDash=[2, 3], strokeWidth=1.4) + label


def horizontal(at: float, text: str, name_at: float = -7, x: float = 374) -> alt.LayerChart:
    """A line across the panel at one value, named within it, that many pixels below the line."""
    return _across(at, text, alt.value(x), align="right", dy=name_at)


def beside(at: float, text: str, width: float) -> alt.LayerChart:
    """A line across a panel of that width at one value, named outside, where no data can be: in `BESIDE` pixels."""
    return _across(at, text, alt.value(width + 5), align="left", baseline="middle")


def _across(at: float, text: str, x: Any, **placed) -> alt.LayerChart:
    chart = alt.Chart(data([{"at": at, "text": text}])).encode(y="at:Q")
    label = chart.mark_text(color="#666666", fontSize=SMALL, **placed).encode(x=x, text="text:N")
    return chart.mark_rule(color="#888888", strokeDash=[2, 3], strokeWidth=1.4) + label


def cycle(values: list[str], labels: Sequence[str], *, shift: bool = False) -> list[str]:
    """A value for each label; with `shift`, another one in each round, so that colour and shape together never repeat."""
    return [values[(i + (i // len(values) if shift else 0)) % len(values)] for i in range(len(labels))]
