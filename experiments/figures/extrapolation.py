"""Scores against length, for every encoding: the figure that an experiment is run for."""

# pyright: reportArgumentType=false, reportReturnType=false

import math

import altair as alt

from experiments import results
from experiments.figures import style
from experiments.results import Result


def extrapolation(result: Result) -> alt.TopLevelMixin:
    """Token accuracy and loss against length, mean lines and seed ranges; one row of panels, or one for each `panel` of the
    config. On a stream, which has noise, the loss is drawn as perplexity."""
    labels = [label for label in results.labels(result) if results.swept(result, label) is None]
    panels: dict[str, list[str]] = {}
    for label in labels:
        panels.setdefault(result["config"]["encodings"].get(label, {}).get("panel") or "", []).append(label)
    dotted = "chance, which is a random symbol" + (", and the best possible" if result["task"]["floor"] > 0 else "")
    subtitle = [style.seeds_sentence(result), f"Dotted: the trained length; {dotted}."]
    for label in labels:
        if limit := results.limit(result, label):
            subtitle.append(f"{label} has a value for {limit} positions alone: its line ends with its table.")
    rows = [_row(result, name, own) for name, own in panels.items()]
    chart = (
        rows[0] if len(rows) == 1 else alt.vconcat(*rows, spacing=26).resolve_scale(color="independent", shape="independent")
    )
    return style.titled(chart, result["config"]["title"], subtitle)


def _row(result: Result, name: str, labels: list[str]) -> alt.HConcatChart:
    task = result["task"]
    size = {"width": 380, "height": 330 if not name else 250}
    trained = style.vertical(task["trained_length"], "trained length", 0.6 * size["height"])
    accuracy = [
        trained,
        style.beside(task["chance"], "chance", size["width"]),
        *_lines(result, "accuracy", style.accuracy_axis(), labels, name_at=-13),
    ]
    loss = [trained, *_loss_layers(result, labels, size["width"])]
    title = {"title": alt.TitleParams(name, anchor="start", fontSize=13)} if name else {}
    left = alt.layer(*accuracy).properties(**size, **title)
    return alt.hconcat(left, alt.layer(*loss).properties(**size), spacing=style.BESIDE + 18)


def _loss_layers(result: Result, labels: list[str], width: float) -> list:
    """The layers of the loss; those of perplexity, its exponential on a logarithmic axis, where there is noise to predict."""
    task = result["task"]
    worst = max([task["chance_loss"], *(point["high"] for point in points_of(result, labels, "loss"))])
    noisy = task["floor"] > 0

    def value(loss: float) -> float:
        return math.exp(loss) if noisy else loss

    if noisy:
        scale = alt.Scale(type="log", domain=[math.exp(0.8 * task["floor"]), 1.2 * value(worst)], nice=False)
        y = alt.Y("mean:Q", title="perplexity", scale=scale, axis=alt.Axis(format="~g", tickCount=6))
    else:
        axis = alt.Axis(labelExpr="datum.value < 0 ? '' : datum.label")
        scale = alt.Scale(domain=[-0.1 * worst, 1.05 * worst], nice=False)
        y = alt.Y("mean:Q", title="loss (nats per answer)", scale=scale, axis=axis)
    floor = [style.beside(value(task["floor"]), "best", width)] if noisy else []
    chance = style.beside(value(task["chance_loss"]), "chance", width)
    return [chance, *floor, *_lines(result, "loss", y, labels, name_at=17, value=value)]


def _lines(result: Result, metric: str, y: alt.Y, labels: list[str], *, name_at: float, value=lambda x: x) -> list[alt.Chart]:
    """The layers of one metric: bands, lines, points, and the ends of tables, named that many pixels below."""
    points = [p | {k: value(p[k]) for k in ("mean", "low", "high")} for p in points_of(result, labels, metric)]
    x = length_axis(result)
    ends = alt.Chart(style.data([point for point in points if point["end"]])).encode(x=x, y=y)
    return [
        *style.banded(points, x, y, labels),
        ends.mark_point(shape="stroke", angle=90, size=300, strokeWidth=3, opacity=1, color="#555555"),
        ends.mark_text(align="left", dx=5, dy=name_at, fontSize=style.SMALL, color="#555555").encode(text="end:N"),
    ]


def points_of(result: Result, labels: list[str], metric: str) -> list[dict]:
    """One point for each encoding and length that has a value."""
    points = []
    for label in labels:
        own = [
            point | {"length": length, "end": None}
            for length, multiple in results.lengths(result).items()
            if (point := style.point(result, label, multiple, metric))
        ]
        if own and results.limit(result, label):
            own[-1]["end"] = f"{label}: no value beyond"
        points += own
    return points


def length_axis(result: Result, *, linear: bool = False) -> alt.X:
    """Lengths, each labelled with itself and its multiple of the trained length; on a log scale unless `linear`."""
    lengths = results.lengths(result)
    first, *_, last = [*lengths, max(lengths)]
    names = ", ".join(f"'{length}': '{multiple:g}×'" for length, multiple in lengths.items())
    if linear:
        scale = alt.Scale(domain=[0, last * 1.05], nice=False)
    else:
        scale = alt.Scale(type="log", base=2, domain=[first / 1.25, last * 1.15], nice=False)
    return alt.X(
        "length:Q",
        scale=scale,
        axis=alt.Axis(values=list(lengths), labelExpr=f"[datum.value, {{{names}}}[datum.value]]", grid=False),
        title="length, and as a multiple of the trained length",
    )
