"""One encoding by itself, for `show`: its bands, what it adds to scores by distance, or its vectors."""

# pyright: reportArgumentType=false, reportReturnType=false

import math

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

import jrope
from experiments.figures import style
from experiments.figures.bands import spectra
from experiments.show import anatomy
from experiments.show.subjects import Subject
from jrope.bias import UNSEEN

VECTORS = 64  # positions and features that are drawn, at most

MOST = 50_000_000  # parameters that are made to be looked at


def encoding(subjects: list[Subject]) -> alt.TopLevelMixin | None:
    """A chart for each part of each subject; None where there is nothing to draw."""
    charts = []
    for subject in subjects:
        for part in anatomy.parts(subject.encoding):
            if found := anatomy.bands(part, subject):
                charts.append(_bands(found, subject))
            elif by_distance := anatomy.biases(part, subject):
                charts.append(_biases(by_distance, subject))
            elif type(part).embed is not jrope.Encoding.embed and anatomy.parameters(part, subject) <= MOST:
                charts.append(_vectors(part, subject))
    if not charts:
        return None
    # each has colours of its own
    return style.titled(alt.vconcat(*charts, spacing=30).resolve_scale(color="independent", shape="independent"), "")


def _title(subject: Subject, *told: str) -> alt.TitleParams:
    return alt.TitleParams(subject.name, subtitle=list(told), anchor="start", fontSize=15, subtitleFontSize=style.SMALL)


def _bands(found: anatomy.Bands, subject: Subject) -> alt.TopLevelMixin:
    spectra_of = {"as trained": found.before}
    if not np.allclose(found.after, found.before):
        spectra_of[f"at length {subject.length}"] = found.after
    points = []
    for label, frequencies in spectra_of.items():
        for pair, (frequency, before) in enumerate(zip(frequencies.tolist(), found.before.tolist(), strict=True)):
            wavelength = 2 * math.pi / frequency / subject.trained if frequency else None
            points.append({"encoding": label, "pair": pair, "wavelength": wavelength, "kept": frequency / before})
    panels = spectra(points, list(spectra_of))
    chart = panels if len(spectra_of) > 1 else panels.hconcat[0]  # nothing is before and after where nothing is scaled
    return chart.properties(title=_title(subject, anatomy.summary(found, subject)))


def _biases(by_distance: dict[int, np.ndarray], subject: Subject) -> alt.LayerChart:
    heads = [f"head {h}" for h in range(subject.heads)]
    points = [
        {"head": head, "distance": distance, "bias": float(bias)}
        for distance, row in by_distance.items()
        for head, bias in zip(heads, row, strict=True)
        if bias > UNSEEN
    ]
    farthest = max(by_distance)
    ticks = [0, *(4**i for i in range(20) if 4**i <= farthest)]
    most = max((abs(point["bias"]) for point in points), default=1.0)
    constant = 1.0 if most > 10 else most / 10 or 1.0  # about which the axis turns from linear to logarithmic
    powers = [constant * 10**i for i in range(12) if constant * 10**i <= most]
    x = alt.X(
        "distance:Q",
        title="distance between query and key",
        scale=alt.Scale(type="symlog", constant=1, domain=[0, farthest]),
        axis=alt.Axis(values=ticks, format="d", grid=False),
    )
    y = alt.Y("bias:Q", title="added to the score", scale=alt.Scale(type="symlog", constant=constant))
    y = y.axis(alt.Axis(values=[-power for power in powers] + [0, *powers], format="~g"))
    colour = alt.Color(
        "head:N", scale=alt.Scale(domain=heads, range=style.cycle(style.COLOURS, heads)), sort=heads, title=None
    )
    shape = alt.Shape("head:N", scale=alt.Scale(domain=heads, range=style.cycle(style.SHAPES, heads, shift=True)), sort=heads)
    chart = alt.Chart(style.data(points)).encode(x=x, y=y, color=colour)
    drawn = chart.mark_line(strokeWidth=2) + chart.mark_point(filled=True, size=45, opacity=1).encode(
        shape=shape, tooltip=["head:N", "distance:Q", "bias:Q"]
    )
    trained = [style.vertical(subject.trained, "trained length", 45)] if subject.trained < farthest else []
    ends = "; where a line ends, the head sees nothing farther" if len(points) < len(heads) * len(by_distance) else ""
    told = f"Of the query at position {subject.length - 1}{ends}."
    return alt.layer(*trained, drawn).properties(width=480, height=300, title=_title(subject, told))


def _vectors(part: jrope.Encoding, subject: Subject) -> alt.Chart:
    features = subject.heads * subject.head_dim
    reach = min(VECTORS, part.limit or VECTORS)
    params = part.init(jax.random.key(0), **anatomy.sizes(subject))
    vectors = part.embed(params, jnp.zeros((reach, features)), jnp.arange(reach))
    shown = range(min(VECTORS, features))
    values = np.asarray(vectors, np.float64)
    points = [{"position": p, "feature": i, "value": float(values[p, i])} for p in range(reach) for i in shown]
    return (
        alt.Chart(style.data(points))
        .mark_rect()
        .encode(
            x=alt.X("position:O", title="position", axis=alt.Axis(values=list(range(0, reach, 8)), labelAngle=0)),
            y=alt.Y(
                "feature:O", title=f"feature, the first {len(shown)} of {features}", axis=alt.Axis(values=list(shown[::8]))
            ),
            color=alt.Color("value:Q", scale=alt.Scale(scheme="blueorange", domainMid=0), title="value"),
        )
        .properties(width=480, height=320, title=_title(subject, "What is added to the embeddings."))
    )
