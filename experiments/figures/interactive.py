"""One score against length, to be looked at in the report: wide as the page, with values to point at and a legend to click."""

# pyright: reportArgumentType=false, reportReturnType=false

import altair as alt

from experiments import results
from experiments.figures import style
from experiments.figures.extrapolation import length_axis, points_of
from experiments.results import Result


def interactive(result: Result, metric: str, name: str, *, linear: bool) -> alt.TopLevelMixin:
    """Mean and range of a metric; lengths on a logarithmic or a linear axis."""
    labels = results.labels(result)
    points = points_of(result, labels, metric)
    most = 1.05 * max((point["high"] for point in points), default=1) if metric == "loss" else 1.03
    y = alt.Y("mean:Q", title=name.lower(), scale=alt.Scale(nice=False, domain=[0, most]))
    singled = alt.selection_point(fields=["encoding"], bind="legend")
    layers = [
        style.vertical(result["task"]["trained_length"], "trained length"),
        *style.banded(points, length_axis(result, linear=linear), y, labels, singled=singled),
    ]
    layers[1] = layers[1].add_params(singled)
    return style.titled(alt.layer(*layers).properties(width="container", height=380), "")
