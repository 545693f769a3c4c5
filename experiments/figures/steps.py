"""Scores against steps of fine-tuning: how soon each scaling makes a longer context work."""

# pyright: reportArgumentType=false, reportReturnType=false

import altair as alt

from experiments import results
from experiments.figures import style
from experiments.results import Result


def steps(result: Result) -> alt.TopLevelMixin | None:
    """Token accuracy against fine-tuning steps, a panel for each length; None if nothing was fine-tuned."""
    labels = [label for label in results.labels(result) if results.points(result, label)]
    if not labels:
        return None
    everything = sorted({point for label in labels for point in results.points(result, label)})
    # 0 has no place on a logarithmic axis, where the first steps would be seen
    x = alt.X("step:Q", title="fine-tuning steps", scale=alt.Scale(type="symlog", constant=max(everything[1:2] or [1])))
    x = x.axis(alt.Axis(values=everything, grid=False))
    panels = []
    for length, multiple in results.lengths(result).items():
        points = [
            point | {"step": step}
            for label in labels
            for step in results.points(result, label)
            if (point := style.point(result, label, multiple, "accuracy", step))
        ]
        layers = style.banded(points, x, style.accuracy_axis(), labels)
        title = alt.TitleParams(f"length {length} ({multiple:g}×)", anchor="start", fontSize=13, fontWeight="normal")
        panels.append(alt.layer(*layers).properties(width=330, height=240, title=title))
    rows = [alt.hconcat(*panels[i : i + 2], spacing=24) for i in range(0, len(panels), 2)]
    subtitle = [style.seeds_sentence(result)]
    if tuned := result["config"].get("finetune"):  # of several runs in one figure, each has its own
        subtitle.insert(0, f"Fine-tuned on lengths up to {tuned['multiple']:g}× the trained one.")
    return style.titled(alt.vconcat(*rows, spacing=24), "Token accuracy against steps of fine-tuning", subtitle)
