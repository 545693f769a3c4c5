"""The spectrum of RoPE before and after each scaling: what explains the results."""

# pyright: reportArgumentType=false, reportReturnType=false

import math
from collections.abc import Sequence

import altair as alt

from experiments import results
from experiments.figures import style
from experiments.results import Result


def bands(result: Result) -> alt.TopLevelMixin | None:
    """Each pair's wavelength over the trained context, and what is left of its frequency after scaling, for the scalings as
    they are at the longest length; None if nothing is scaled."""
    parents, trained = result["task"]["parents"], result["task"]["trained_context"]
    points = []
    for alike in _alike(result):
        before = result["bands"].get(parents.get(alike[0], alike[0]), {"frequencies": []})["frequencies"]
        for i, frequency in enumerate(result["bands"][alike[0]]["frequencies"]):
            if frequency > 0:
                kept = frequency / before[i] if i < len(before) and before[i] else None
                wavelength = 2 * math.pi / frequency / trained
                points.append({"encoding": ", ".join(alike), "pair": i, "wavelength": wavelength, "kept": kept})
    labels = list(dict.fromkeys(point["encoding"] for point in points))
    if all(point["kept"] == 1 for point in points):
        return None
    longest = max(results.multiples(result))
    subtitle = [
        f"Spectra as they are at {longest:g}× the trained length. Left: pairs above the dotted line never completed a turn",
        "in training. Right: 1 is a pair left as it was trained, 1 / factor one that is interpolated; between is the ramp.",
    ]
    return style.titled(spectra(points, labels), "RoPE's wavelengths, before and after scaling", subtitle)


def spectra(points: list[dict], labels: Sequence[str]) -> alt.HConcatChart:
    """The panels, of points with the fields encoding, pair, wavelength (over the trained context) and kept (a share)."""
    shared = {"title": None, "sort": list(labels)}
    colour = alt.Color("encoding:N", scale=alt.Scale(domain=list(labels), range=style.cycle(style.COLOURS, labels)), **shared)
    shape = alt.Shape(
        "encoding:N", scale=alt.Scale(domain=list(labels), range=style.cycle(style.SHAPES, labels, shift=True)), **shared
    )

    def panel(field: str, y: alt.Y, data: list[dict], *below: alt.LayerChart) -> alt.LayerChart:
        x = alt.X("pair:Q", title="pair of features, fastest first", axis=alt.Axis(tickMinStep=1, grid=False))
        tooltip = ["encoding:N", "pair:Q", alt.Tooltip(f"{field}:Q", format=".3g")]
        chart = alt.Chart(style.data(data)).encode(x=x, y=y, color=colour)
        drawn = chart.mark_line(strokeWidth=2) + chart.mark_point(filled=True, size=55, opacity=1).encode(
            shape=shape, tooltip=tooltip
        )
        return alt.layer(*below, drawn).properties(width=380, height=280)

    wavelength = alt.Y(
        "wavelength:Q",
        title="wavelength / trained context",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(format="~g", tickCount=6),
    )
    turn = style.horizontal(1, "one turn within the trained context", name_at=-7)
    kept = alt.Y("kept:Q", title="frequency after scaling / before", scale=alt.Scale(domain=[0, 1.05], nice=False))
    scaled = [point for point in points if point["kept"] is not None]
    return alt.hconcat(panel("wavelength", wavelength, points, turn), panel("kept", kept, scaled), spacing=28)


def _alike(result: Result) -> list[list[str]]:
    """The encodings that rotate, of the first panel that has any, those of one spectrum together."""
    sections = result["config"]["encodings"]
    rotating = [label for label in result["bands"] if results.swept(result, label) is None]
    panels = {label: sections.get(label, {}).get("panel") for label in rotating}
    groups: dict[tuple, list[str]] = {}
    for label in rotating:
        if panels[label] == panels[rotating[0]]:
            groups.setdefault(tuple(result["bands"][label]["frequencies"]), []).append(label)
    return list(groups.values())
