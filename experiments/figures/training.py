"""Training losses against steps: whether the models had come to rest."""

# pyright: reportArgumentType=false, reportReturnType=false

from collections import defaultdict
from typing import Any

import altair as alt

from experiments import results
from experiments.figures import style
from experiments.results import Result

MARKS = 120  # at most, for each line


def training(result: Result, metrics: list[dict[str, Any]]) -> alt.TopLevelMixin | None:
    """Mean loss over seeds of each trained encoding, on a logarithmic axis; None without metrics. In a damaged file what is
    no row of them is left out."""
    losses: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in metrics:
        if _is_loss(row):
            losses[row["encoding"]][row["step"]].append(max(row["loss"], 1e-6))
    labels = [label for label in results.labels(result) if label in losses]
    points = []
    for label in labels:
        steps = sorted(losses[label])
        kept = {*steps[:: max(1, len(steps) // MARKS)], steps[-1]}
        points += [{"encoding": label, "step": s, "loss": sum(losses[label][s]) / len(losses[label][s])} for s in sorted(kept)]
    if not points:
        return None
    scale = alt.Scale(domain=labels, range=style.cycle(style.COLOURS, labels))
    chart = (
        alt.Chart(style.data(points))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("step:Q", title="step"),
            y=alt.Y("loss:Q", title="training loss (nats per answer)", scale=alt.Scale(type="log")),
            color=alt.Color("encoding:N", scale=scale, sort=labels, title=None),
            tooltip=["encoding:N", "step:Q", alt.Tooltip("loss:Q", format=".4f")],
        )
        .properties(width=560, height=300)
    )
    return style.titled(chart, "Training loss")


def _is_loss(row: dict[str, Any]) -> bool:
    label, step, loss = (row.get(name) for name in ("encoding", "step", "loss"))
    return isinstance(label, str) and isinstance(step, int) and 0 <= step < 2**63 and isinstance(loss, float)
