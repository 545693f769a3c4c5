"""The extrapolation figure, from a result alone: one chart for the report (interactive) and for SVG, PDF and PNG."""

from pathlib import Path

import altair as alt

from experiments import results
from experiments.results import Result

# Okabe and Ito's colours, told apart by colour-blind readers; shapes tell the lines apart in print.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right"]
PANELS = {"accuracy": "token accuracy", "loss": "loss (nats per answer)"}


def extrapolation(result: Result) -> alt.HConcatChart:
    """Token accuracy and loss against length: mean lines and seed ranges, one for each encoding."""
    seeds = len(result["config"]["seeds"])
    subtitle = [
        f"Line: mean of {seeds} seed{'s' * (seeds > 1)}; band: their range; dashed: not fitted at the trained length.",
        *(
            f"{label} has no value past position {count}: its line ends there."
            for label in results.labels(result)
            if (count := results.limit(result, label))
        ),
    ]
    title = alt.TitleParams(result["config"]["title"], subtitle=subtitle, anchor="start", fontSize=15, subtitleFontSize=11.5)
    panels = [_panel(result, metric) for metric in PANELS]
    return (
        alt.hconcat(*panels, title=title, spacing=28)
        .configure_axis(labelFontSize=12, titleFontSize=13, gridColor="#e4e4e4")
        .configure_legend(labelFontSize=13, titleFontSize=13, symbolSize=110, labelLimit=260, orient="right")
        .configure_view(stroke="#bbbbbb")
    )


def save(result: Result, directory: Path) -> list[Path]:
    """Writes figure.svg, figure.pdf and figure.png."""
    chart = extrapolation(result)
    paths = [directory / f"figure.{ending}" for ending in ("svg", "pdf", "png")]
    for path in paths:
        chart.save(str(path), **({"ppi": 200} if path.suffix == ".png" else {}))
    return paths


def _panel(result: Result, metric: str) -> alt.LayerChart:
    task, labels = result["task"], results.labels(result)
    lengths = {row["length"]: row["multiple"] for row in result["rows"]}
    # names from a config are data, never parts of an expression
    points = [
        {
            "encoding": label,
            "length": length,
            "mean": c.mean,
            "low": c.low,
            "high": c.high,
            "fit": results.has_fitted(result, label),
        }
        for label in labels
        for length, multiple in lengths.items()
        if (c := results.cell(result, label, multiple, metric))
    ]
    ends = [
        max((point for point in points if point["encoding"] == label), key=lambda point: point["length"])
        for label in labels
        if results.limit(result, label) and any(point["encoding"] == label for point in points)
    ]
    ticks = sorted(lengths)
    names = "{" + ", ".join(f"'{length}': '{lengths[length]:g}×'" for length in ticks) + "}"
    x = alt.X(
        "length:Q",
        scale=alt.Scale(type="log", base=2, domain=[ticks[0] / 1.15, ticks[-1] * 1.15], nice=False),
        axis=alt.Axis(values=ticks, labelExpr=f"[datum.value, {names}[datum.value]]", grid=False),
        title=f"length of the {'stream' if task['type'] == 'lag' else 'string'}, and as a multiple of the trained length",
    )
    legend = alt.Legend(symbolOpacity=1)  # or it is as pale as the bands
    colour = alt.Color("encoding:N", title=None, legend=legend, scale=alt.Scale(domain=labels, range=_cycle(COLOURS, labels)))
    shape = alt.Shape("encoding:N", title=None, legend=legend, scale=alt.Scale(domain=labels, range=_cycle(SHAPES, labels)))
    tooltip = [
        alt.Tooltip("encoding:N"),
        alt.Tooltip("length:Q"),
        *(alt.Tooltip(f"{field}:Q", format=".3f") for field in ("mean", "low", "high")),
    ]
    y = alt.Y("mean:Q", title=PANELS[metric], scale=alt.Scale(domain=[0, 1]) if metric == "accuracy" else alt.Scale(zero=True))
    base = alt.Chart(alt.Data(values=points)).encode(x=x, y=y, color=colour)
    layers = [
        _rule("x", task["trained_length"], "trained length", "#555555"),
        _rule("y", task["chance" if metric == "accuracy" else "chance_loss"], "chance", "#888888"),
        base.mark_area(opacity=0.16).encode(y=alt.Y("low:Q"), y2="high:Q"),
        *(
            base.transform_filter(alt.datum.fit == fit).mark_line(strokeWidth=2.2, strokeDash=[1, 0] if fit else [5, 4])
            for fit in (True, False)
        ),
        base.mark_point(filled=True, size=70, opacity=1).encode(shape=shape, tooltip=tooltip),
        alt.Chart(alt.Data(values=ends))
        .mark_point(shape="stroke", angle=90, size=900, strokeWidth=3, opacity=1)
        .encode(x=x, y=y, color=colour),
        alt.Chart(alt.Data(values=ends))
        .mark_text(align="left", dx=9, dy=14, fontSize=11.5)
        .encode(x=x, y=y, color=colour, text=alt.value("table ends")),
    ]
    return alt.layer(*layers).properties(width=380, height=330)


def _rule(axis: str, at: float, text: str, colour: str) -> alt.LayerChart:
    """A labelled line across the panel."""
    data = alt.Chart(alt.Data(values=[{"at": at, "text": text}]))
    place = {axis: alt.X("at:Q") if axis == "x" else alt.Y("at:Q")}
    line = data.mark_rule(color=colour, strokeDash=[2, 3], strokeWidth=1.4).encode(**place)
    where = {"y": alt.value(10), "x": place["x"]} if axis == "x" else {"x": alt.value(374), "y": place["y"]}
    label = data.mark_text(
        color=colour,
        fontSize=11.5,
        align="left" if axis == "x" else "right",
        dx=5 if axis == "x" else 0,
        dy=0 if axis == "x" else -7,
    )
    return line + label.encode(text="text:N", **where)


def _cycle(values: list[str], labels: list[str]) -> list[str]:
    return [values[i % len(values)] for i in range(len(labels))]
