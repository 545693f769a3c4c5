"""The spectrum of RoPE before and after each scaling: why the results are as they are."""

# pyright: reportArgumentType=false

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from experiments.analysis.figures import style
from experiments.analysis.table import Entry, Results


def bands(results: Results) -> alt.TopLevelMixin | None:
    """Each pair's wavelength over the trained context, and the share of its frequency it keeps.

    Scalings are as they are at the longest length. None if nothing is scaled.
    """
    points = []
    for group in _same_spectrum(results):
        entry, label = group[0], ", ".join(entry.label for entry in group)
        before = results[entry.parent].frequencies
        for i, frequency in enumerate(entry.frequencies):
            if frequency > 0:
                kept = frequency / before[i] if i < len(before) and before[i] else None
                wavelength = 2 * math.pi / frequency / results.task["trained_context"]
                points.append(
                    {"encoding": label, "pair": i, "wavelength": wavelength, "kept": kept}
                )
    if all(point["kept"] == 1 for point in points):
        return None
    labels = list(dict.fromkeys(point["encoding"] for point in points))
    subtitle = [
        f"Spectra at {max(results.multiples):g}× the trained length. Left: pairs above the dotted"
        " line never complete a turn in training.",
        "Right: at 1 a pair is as trained, at 1 / factor it is interpolated; the ramp is between.",
    ]
    title = "RoPE's wavelengths, before and after scaling"
    return style.titled(spectra(points, labels), title, subtitle)


def spectra(points: Sequence[dict[str, Any]], labels: Sequence[str]) -> alt.HConcatChart:
    """The two panels.

    Args:
      points: have the fields encoding, pair, wavelength (over the trained context) and kept.
    """
    encoded = style.encodings(labels)
    axis = alt.Axis(tickMinStep=1, grid=False)
    x = alt.X("pair:Q", title="pair of features, fastest first", axis=axis)
    width = 380

    def panel(field: str, y: alt.Y, rows: Sequence[dict[str, Any]], *below: alt.LayerChart):
        tooltip = ["encoding:N", "pair:Q", alt.Tooltip(f"{field}:Q", format=".3g")]
        chart = alt.Chart(style.data(rows)).encode(x=x, y=y, color=encoded["color"])
        marks = chart.mark_point(filled=True, size=55, opacity=1)
        lines = chart.mark_line(strokeWidth=2) + marks.encode(
            shape=encoded["shape"], tooltip=tooltip
        )
        return alt.layer(*below, lines).properties(width=width, height=280)

    wavelength = alt.Y(
        "wavelength:Q",
        title="wavelength / trained context",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(format="~g", tickCount=6),
    )
    turn = style.horizontal(1, "one turn within the trained context", width, inside=True)
    share = alt.Scale(domain=[0, 1.05], nice=False)
    kept = alt.Y("kept:Q", title="frequency after scaling / before", scale=share)
    scaled = [point for point in points if point["kept"] is not None]
    return alt.hconcat(
        panel("wavelength", wavelength, points, turn), panel("kept", kept, scaled), spacing=28
    )


def _same_spectrum(results: Results) -> list[list[Entry]]:
    """The rotating encodings of the first panel that has any, in groups with one spectrum each."""
    rotating = [e for e in map(results.__getitem__, results.data["bands"]) if e.swept is None]
    groups: dict[tuple[float, ...], list[Entry]] = {}
    for entry in rotating:
        if entry.section.get("panel") == rotating[0].section.get("panel"):
            groups.setdefault(tuple(entry.frequencies), []).append(entry)
    return list(groups.values())
