"""The extrapolation figure, from a result alone: one chart for the report (interactive) and for SVG, PDF and PNG."""

# pyright: reportArgumentType=false, reportReturnType=false
# (altair's types do not know the classes that its own documentation passes)

from pathlib import Path

import altair as alt

from experiments import results
from experiments.results import Result

# Okabe and Ito's colours, told apart by colour-blind readers; shapes tell the lines apart in print.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right"]
SMALL = 11.5


def extrapolation(result: Result) -> alt.HConcatChart:
    """Token accuracy and loss against length: mean lines and seed ranges, one for each encoding."""
    task, count = result["task"], len(result["config"]["seeds"])
    over = "one seed" if count == 1 else f"mean of {count} seeds; band: their range"
    subtitle = [f"Line: {over}; dashed: not fitted at the trained length."]
    for label in results.labels(result):
        if limit := results.limit(result, label):
            subtitle.append(f"{label} has a value for {limit} positions alone: its line ends with its table.")
    trained = _vertical(task["trained_length"], "trained length")
    # both scales leave room on their better side, where the end of a table is marked and named
    worst = max([task["chance_loss"], *(point["high"] for point in _points(result, "loss"))])
    accuracy = [
        trained,
        _horizontal(task["chance"], "chance (a random symbol)"),
        *_lines(result, "accuracy", _scale("token accuracy", [0, 1.1], values=[0, 0.2, 0.4, 0.6, 0.8, 1]), name_at=-13),
    ]
    loss = [
        trained,
        _horizontal(task["chance_loss"], "chance (a random symbol)"),
        *([_horizontal(task["floor"], "best possible", name_at=9)] if task["floor"] else []),
        *_lines(
            result,
            "loss",
            _scale("loss (nats per answer)", [-0.1 * worst, 1.05 * worst], labelExpr="datum.value < 0 ? '' : datum.label"),
            name_at=17,
        ),
    ]
    panels = [alt.layer(*layers).properties(width=380, height=330) for layers in (accuracy, loss)]
    title = alt.TitleParams(result["config"]["title"], subtitle=subtitle, anchor="start", fontSize=15, subtitleFontSize=SMALL)
    return (
        alt.hconcat(*panels, title=title, spacing=28)
        .configure_axis(labelFontSize=12, titleFontSize=13, titleFontWeight="normal", gridColor="#e4e4e4")
        .configure_legend(labelFontSize=13, symbolSize=110, labelLimit=260, orient="right")
        .configure_view(stroke="#bbbbbb")
    )


def save(result: Result, directory: Path):
    """Writes figure.svg, figure.pdf and figure.png."""
    chart = extrapolation(result)
    for ending in ("svg", "pdf"):
        chart.save(str(directory / f"figure.{ending}"))
    chart.save(str(directory / "figure.png"), ppi=200)


def _scale(title: str, domain: list[float], **axis) -> alt.Y:
    return alt.Y("mean:Q", title=title, scale=alt.Scale(domain=domain, nice=False), axis=alt.Axis(**axis))


def _lines(result: Result, metric: str, y: alt.Y, name_at: float) -> list[alt.Chart]:
    """The layers of one metric: bands, lines, points, and the ends of tables, named that many pixels below."""
    labels = results.labels(result)
    points = _points(result, metric)
    ends = [point for point in points if point["end"]]
    # legend symbols would else be as pale as the bands
    scale = {"title": None, "legend": alt.Legend(symbolOpacity=1)}
    colour = alt.Color("encoding:N", scale=alt.Scale(domain=labels, range=_cycle(COLOURS, labels)), **scale)
    shape = alt.Shape("encoding:N", scale=alt.Scale(domain=labels, range=_cycle(SHAPES, labels)), **scale)
    tooltip = [
        alt.Tooltip("encoding:N"),
        alt.Tooltip("length:Q"),
        *(alt.Tooltip(f"{field}:Q", format=".3f") for field in ("mean", "low", "high")),
    ]

    def chart(data):
        return alt.Chart(alt.Data(values=data)).encode(x=_length_axis(result), y=y, color=colour)

    return [
        chart(points).mark_area(opacity=0.16).encode(y="low:Q", y2="high:Q"),
        chart([point for point in points if point["fitted"]]).mark_line(strokeWidth=2.2),
        chart([point for point in points if not point["fitted"]]).mark_line(strokeWidth=2.2, strokeDash=[5, 4]),
        chart(points).mark_point(filled=True, size=70, opacity=1).encode(shape=shape, tooltip=tooltip),
        chart(ends).mark_point(shape="stroke", angle=90, size=300, strokeWidth=3, opacity=1),
        chart(ends).mark_text(align="left", dx=5, dy=name_at, fontSize=SMALL).encode(text="end:N"),
    ]


def _points(result: Result, metric: str) -> list[dict]:
    """One point for each encoding and length that has a value. Names stay data here, never part of an expression."""
    points = []
    for label in results.labels(result):
        fitted, limit = results.has_fitted(result, label), results.limit(result, label)
        own = [
            {"encoding": label, "length": length, **cell._asdict(), "fitted": fitted, "end": None}
            for length, multiple in results.lengths(result).items()
            if (cell := results.cell(result, label, multiple, metric))
        ]
        if own and limit:
            own[-1]["end"] = f"{label}: no value beyond"
        points += own
    return points


def _length_axis(result: Result) -> alt.X:
    """Lengths on a log scale, each labelled with itself and its multiple of the trained length."""
    lengths = results.lengths(result)
    first, *_, last = [*lengths, max(lengths)]
    names = ", ".join(f"'{length}': '{multiple:g}×'" for length, multiple in lengths.items())
    return alt.X(
        "length:Q",
        scale=alt.Scale(type="log", base=2, domain=[first / 1.25, last * 1.15], nice=False),
        axis=alt.Axis(values=list(lengths), labelExpr=f"[datum.value, {{{names}}}[datum.value]]", grid=False),
        title="length, and as a multiple of the trained length",
    )


def _vertical(at: float, text: str) -> alt.LayerChart:
    """A labelled line across the panel at one length."""
    chart = alt.Chart(alt.Data(values=[{"at": at, "text": text}])).encode(x="at:Q")
    label = chart.mark_text(color="#555555", fontSize=SMALL, angle=270, dy=-9).encode(y=alt.value(200), text="text:N")
    return chart.mark_rule(color="#555555", strokeDash=[2, 3], strokeWidth=1.4) + label


def _horizontal(at: float, text: str, name_at: float = -7) -> alt.LayerChart:
    """A line across the panel at one value, named that many pixels below it."""
    chart = alt.Chart(alt.Data(values=[{"at": at, "text": text}])).encode(y="at:Q")
    label = chart.mark_text(color="#777777", fontSize=SMALL, align="right", dy=name_at).encode(x=alt.value(374), text="text:N")
    return chart.mark_rule(color="#888888", strokeDash=[2, 3], strokeWidth=1.4) + label


def _cycle(values: list[str], labels: list[str]) -> list[str]:
    return [values[i % len(values)] for i in range(len(labels))]
