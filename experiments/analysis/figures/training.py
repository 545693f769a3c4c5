"""Training loss against steps: whether training had converged."""

# pyright: reportArgumentType=false

import statistics
from collections import defaultdict
from typing import Any

import altair as alt

from experiments.analysis.figures import style
from experiments.analysis.table import Results

MAX_MARKS = 120  # of each line


def training(results: Results, metrics: list[dict[str, Any]]) -> alt.TopLevelMixin | None:
    """Mean loss over seeds of each trained encoding, on a logarithmic axis; None without metrics.

    Args:
      metrics: the rows of metrics.jsonl; damaged ones are left out.
    """
    losses: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in filter(_is_loss, metrics):
        losses[row["encoding"]][row["step"]].append(max(row["loss"], 1e-6))
    labels = [label for label in results.labels if label in losses]
    points = []
    for label in labels:
        steps = sorted(losses[label])
        kept = sorted({*steps[:: max(1, len(steps) // MAX_MARKS)], steps[-1]})
        mean = {step: statistics.fmean(losses[label][step]) for step in kept}
        points += [{"encoding": label, "step": s, "loss": loss} for s, loss in mean.items()]
    if not points:
        return None
    log = alt.Scale(type="log")
    tooltip = ["encoding:N", "step:Q", alt.Tooltip("loss:Q", format=".4f")]
    chart = alt.Chart(style.data(points)).mark_line(strokeWidth=2)
    chart = chart.encode(
        x=alt.X("step:Q", title="step"),
        y=alt.Y("loss:Q", title="training loss (nats per answer)", scale=log),
        color=style.encodings(labels)["color"],
        tooltip=tooltip,
    )
    return style.titled(chart.properties(width=560, height=300), "Training loss")


def _is_loss(row: dict[str, Any]) -> bool:
    label, step, loss = (row.get(name) for name in ("encoding", "step", "loss"))
    is_step = isinstance(step, int) and 0 <= step < 2**63
    return isinstance(label, str) and is_step and isinstance(loss, float)
