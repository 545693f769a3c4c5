"""Scores against steps of fine-tuning: how soon each scaling makes a longer context work."""

# pyright: reportArgumentType=false

import altair as alt

from experiments.analysis.figures import style
from experiments.analysis.table import Results


def steps(results: Results) -> alt.TopLevelMixin | None:
    """The main metric against fine-tuning steps, a panel for each length; None without any."""
    tuned = [entry for entry in results if entry.points]
    if not tuned:
        return None
    metric = results.main_metric
    every = sorted({step for entry in tuned for step in entry.points})
    # a logarithmic axis has no place for 0; a linear one hides the first steps
    scale = alt.Scale(type="symlog", constant=max(every[1:2] or [1]))
    axis = alt.Axis(values=every, grid=False)
    x = alt.X("step:Q", title="fine-tuning steps", scale=scale, axis=axis)
    panels = []
    for length, multiple in results.lengths.items():
        points = [
            point | {"step": step}
            for entry in tuned
            for step in entry.points
            if (point := style.point(entry, multiple, step=step))
        ]
        y = style.score_axis(results, metric, points)
        panel = alt.layer(*style.banded(points, x, y, [entry.label for entry in tuned]))
        title = style.panel_title(f"length {length} ({multiple:g}×)")
        panels.append(panel.properties(width=330, height=240, title=title))

    subtitle = [style.seeds_sentence(results)]
    if finetune := results.config.get("finetune"):  # runs that are compared have different ones
        longest = f"{finetune['multiple']:g}× the trained length"
        subtitle.insert(0, f"Fine-tuned on lengths up to {longest}.")
    title = f"{metric.title} against steps of fine-tuning"
    return style.titled(style.grid(panels, columns=2), title, subtitle)
