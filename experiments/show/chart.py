"""The chart of `show`: an encoding's bands, its biases by distance, or its vectors."""

# pyright: reportArgumentType=false

import math

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

import jrope
from experiments.analysis.figures import style
from experiments.analysis.figures.bands import spectra
from experiments.show import encoding_stats
from experiments.show.encoding_stats import Bands
from experiments.show.parse_query import Subject
from jrope.checks import MASK_VALUE

MAX_VECTORS = 64  # positions and features to draw
MAX_PARAMETERS = 50_000_000  # to create for a chart
WIDTH = 480


def chart(subjects: list[Subject]) -> alt.TopLevelMixin | None:
    """A chart for each part of each encoding; None if there is nothing to draw."""
    charts = []
    for subject in subjects:
        for part in encoding_stats.parts(subject.encoding):
            if bands := encoding_stats.bands(part, subject):
                charts.append(_bands(bands, subject))
            elif biases := encoding_stats.biases(part, subject):
                charts.append(_biases(biases, subject))
            elif _can_draw_vectors(part, subject):
                charts.append(_vectors(part, subject))
    if not charts:
        return None
    separate = {"color": "independent", "shape": "independent"}
    return style.titled(alt.vconcat(*charts, spacing=30).resolve_scale(**separate), "")


def _can_draw_vectors(encoding: jrope.Encoding, subject: Subject) -> bool:
    if not encoding_stats.overrides(encoding, "embed"):
        return False
    return encoding_stats.num_parameters(encoding, subject) <= MAX_PARAMETERS


def _title(subject: Subject, subtitle: str) -> alt.TitleParams:
    sizes = {"fontSize": 15, "subtitleFontSize": style.SMALL}
    return alt.TitleParams(subject.name, subtitle=subtitle, anchor="start", **sizes)


def _bands(bands: Bands, subject: Subject) -> alt.TopLevelMixin:
    frequencies = {"as trained": bands.before}
    if not np.allclose(bands.after, bands.before):
        frequencies[f"at length {subject.length}"] = bands.after
    points = [
        {
            "encoding": label,
            "pair": pair,
            "wavelength": 2 * math.pi / float(now) / subject.trained if now else None,
            "kept": float(now / before),
        }
        for label, own in frequencies.items()
        for pair, (now, before) in enumerate(zip(own, bands.before, strict=True))
    ]
    panels = spectra(points, list(frequencies))
    drawn = panels if len(frequencies) > 1 else panels.hconcat[0]  # the other panel compares
    return drawn.properties(title=_title(subject, encoding_stats.summary(bands, subject)))


def _biases(biases: dict[int, np.ndarray], subject: Subject) -> alt.TopLevelMixin:
    heads = [f"head {head}" for head in range(subject.heads)]
    points = [
        {"head": head, "distance": distance, "bias": float(bias)}
        for distance, row in biases.items()
        for head, bias in zip(heads, row, strict=True)
        if bias > MASK_VALUE
    ]
    farthest = max(biases)
    largest = max((abs(point["bias"]) for point in points), default=1.0)
    linear = 1.0 if largest > 10 else largest / 10 or 1.0  # the axis is logarithmic beyond
    powers = [linear * 10**i for i in range(12) if linear * 10**i <= largest]
    ticks = [0, *(4**i for i in range(20) if 4**i <= farthest)]
    x = alt.X(
        "distance:Q",
        title="distance between query and key",
        scale=alt.Scale(type="symlog", constant=1, domain=[0, farthest]),
        axis=alt.Axis(values=ticks, format="d", grid=False),
    )
    y = alt.Y(
        "bias:Q",
        title="added to the score",
        scale=alt.Scale(type="symlog", constant=linear),
        axis=alt.Axis(values=[*(-power for power in powers), 0, *powers], format="~g"),
    )
    encoded, tooltip = style.encodings(heads, "head"), ["head:N", "distance:Q", "bias:Q"]
    base = alt.Chart(style.data(points)).encode(x=x, y=y, color=encoded["color"])
    marks = base.mark_point(filled=True, size=45, opacity=1)
    lines = base.mark_line(strokeWidth=2) + marks.encode(shape=encoded["shape"], tooltip=tooltip)
    if subject.trained < farthest:
        lines = alt.layer(style.vertical(subject.trained, "trained length", 45), lines)
    is_cut = len(points) < len(heads) * len(biases)
    end = "; where a line ends, the head sees nothing farther" if is_cut else ""
    title = _title(subject, f"Of the query at position {subject.length - 1}{end}.")
    return lines.properties(width=WIDTH, height=300, title=title)


def _vectors(encoding: jrope.Encoding, subject: Subject) -> alt.Chart:
    features = subject.sizes["features"]
    positions = min(MAX_VECTORS, encoding.position_limit or MAX_VECTORS)
    params = encoding.init(jax.random.key(0), **subject.sizes)
    zeros = jnp.zeros((positions, features))
    vectors = np.asarray(encoding.embed(params, zeros, jnp.arange(positions)), np.float64)
    shown = range(min(MAX_VECTORS, features))
    points = [
        {"position": position, "feature": i, "value": float(vectors[position, i])}
        for position in range(positions)
        for i in shown
    ]
    x = alt.X("position:O", title="position")
    y = alt.Y("feature:O", title=f"feature, the first {len(shown)} of {features}")
    scale = alt.Scale(scheme="blueorange", domainMid=0)
    return (
        alt.Chart(style.data(points))
        .mark_rect()
        .encode(
            x=x.axis(values=list(range(0, positions, 8)), labelAngle=0),
            y=y.axis(values=list(shown[::8])),
            color=alt.Color("value:Q", scale=scale, title="value"),
        )
        .properties(
            width=WIDTH,
            height=320,
            title=_title(subject, "The vectors that it adds to the embeddings."),
        )
    )
