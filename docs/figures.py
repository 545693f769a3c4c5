"""The figures of the docs, computed by the library: python docs/figures.py"""

# pyright: reportArgumentType=false

from pathlib import Path

import altair as alt
import jax.numpy as jnp
import numpy as np

import jrope
from benchmarks import stored

THEMES = {
    "light": {
        "ink": "#3a3a3a",
        "grid": "#e4e4e4",
        "colours": ["#0072B2", "#D55E00", "#009E73", "#B0528A", "#8A6D00"],
    },
    "dark": {
        "ink": "#c8c8c8",
        "grid": "#3c3f44",
        "colours": ["#56B4E9", "#F08A3C", "#2FBF92", "#E08FC0", "#E3C94B"],
    },
}
WIDTH = 430


def table(**columns) -> alt.Data:
    """Rows from columns, of which scalars are repeated."""
    length = max(np.size(column) for column in columns.values())
    columns = {
        name: np.broadcast_to(np.asarray(column), (length,)).tolist()
        for name, column in columns.items()
    }
    return alt.Data(
        values=[
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    )


def joined(*tables: alt.Data) -> alt.Data:
    return alt.Data(values=[row for rows in tables for row in rows.values])


def rotation() -> alt.ConcatChart:
    """A query and a key of one pair, turned to their positions."""
    spectrum, arrow = jrope.Spectrum([0.5]), jnp.ones((1, 1, 2)) * jnp.array([1.0, 0.0])

    def panel(q_position, k_position):
        tips = [
            np.asarray(jrope.rotate(arrow, jnp.array([position]), spectrum))[
                0, 0
            ].tolist()
            for position in (q_position, k_position)
        ]
        names = [f"query at {q_position}", f"key at {k_position}"]
        lines = joined(
            *(
                table(x=[0, x], y=[0, y], of=name[:5])
                for (x, y), name in zip(tips, names, strict=True)
            )
        )
        ends = joined(
            *(
                table(
                    x=[x],
                    y=[y],
                    tx=[1.05 * x],
                    ty=[y + 0.17 * np.sign(y)],
                    name=[name],
                    of=[name[:5]],
                )
                for (x, y), name in zip(tips, names, strict=True)
            )
        )
        turn = np.linspace(0, 2 * np.pi, 73)
        arc = np.linspace(0.5 * k_position, 0.5 * q_position, 30)
        axes = {
            "x": alt.X(
                "x:Q", axis=None, scale=alt.Scale(domain=[-1.3, 1.3], nice=False)
            ),
            "y": alt.Y(
                "y:Q", axis=None, scale=alt.Scale(domain=[-1.3, 1.3], nice=False)
            ),
        }
        circle = alt.Chart(
            table(x=np.cos(turn), y=np.sin(turn), i=np.arange(73))
        ).mark_line(opacity=0.35, strokeWidth=1)
        between = alt.Chart(
            table(x=0.4 * np.cos(arc), y=0.4 * np.sin(arc), i=np.arange(30))
        ).mark_line(strokeWidth=2)
        colour = alt.Color("of:N", legend=None, sort=["query", "key"])
        return alt.layer(
            circle.encode(**axes, order="i:Q"),
            between.encode(**axes, order="i:Q"),
            alt.Chart(lines).mark_line(strokeWidth=3).encode(**axes, color=colour),
            alt.Chart(ends)
            .mark_point(filled=True, size=90, opacity=1)
            .encode(**axes, color=colour),
            alt.Chart(ends)
            .mark_text(fontSize=13)
            .encode(x="tx:Q", y="ty:Q", text="name:N"),
            title=f"distance {q_position - k_position}",
        ).properties(width=WIDTH // 2, height=WIDTH // 2)

    return alt.hconcat(panel(3, 1), panel(7, 5), spacing=8)


def bands() -> alt.ConcatChart:
    """Cosines of four bands, and what of them is met within the trained length."""
    trained, length, dim = 64, 256, 32
    spectrum = jrope.spectrum(dim)
    positions = np.arange(length + 1)
    cos = np.asarray(jrope.rotation_tables(positions, spectrum)[0])
    rows = []
    for band in (1, 4, 6, 8):
        wavelength = 2 * np.pi / spectrum.frequencies[band]
        seen = cos[: trained + 1, band]
        ticks = alt.Axis(
            values=[0, 64, 128, 192, 256],
            labels=band == 8,
            title="position" if band == 8 else None,
        )
        x = alt.X(
            "position:Q", scale=alt.Scale(domain=[0, length], nice=False), axis=ticks
        )
        y = alt.Y(
            "cosine:Q",
            title=None,
            scale=alt.Scale(domain=[-1.1, 1.1], nice=False),
            axis=alt.Axis(values=[-1, 0, 1], grid=False),
        )
        range_seen = alt.Chart(
            table(low=[seen.min()], high=[seen.max()], from_=[0], to=[length])
        )
        wave = table(
            position=positions,
            cosine=cos[:, band],
            part=np.where(positions <= trained, "trained", "longer"),
        )
        wave = joined(
            wave,
            table(position=[trained], cosine=[cos[trained, band]], part=["longer"]),
        )
        colour = alt.Color(
            "part:N",
            sort=["trained", "longer"],
            legend=alt.Legend(title=None, orient="top") if not rows else None,
        )
        rows.append(
            alt.layer(
                range_seen.mark_rect(opacity=0.13).encode(
                    x="from_:Q", x2="to:Q", y="low:Q", y2="high:Q"
                ),
                alt.Chart(wave).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
                alt.Chart(table(at=[trained]))
                .mark_rule(strokeDash=[3, 3])
                .encode(x="at:Q"),
                title=alt.TitleParams(
                    f"band {band}: a turn every {wavelength:.0f} positions",
                    anchor="start",
                    fontSize=13,
                ),
            ).properties(width=WIDTH, height=62)
        )
    return alt.vconcat(*rows, spacing=6)


def scalings() -> alt.LayerChart:
    """How much each scaling slows each band of Llama 2, for four times its context."""
    trained, factor = 4096, 4.0
    plain = jrope.spectrum(128)
    kinds = {
        "PI": jrope.Linear(factor),
        "NTK-aware": jrope.NTK(factor),
        "YaRN": jrope.Yarn(factor, trained),
        "Llama 3": jrope.Llama3(factor, trained),
        "step": jrope.Step(factor, trained),
    }
    band = np.arange(64)
    rows = joined(
        *(
            table(
                band=band,
                ratio=scaling(plain).frequencies / plain.frequencies,
                scaling=[name],
            )
            for name, scaling in kinds.items()
        )
    )
    first = int(np.argmax(2 * np.pi / plain.frequencies > trained))
    x = alt.X(
        "band:Q",
        title="band, from fast to slow",
        scale=alt.Scale(domain=[0, 63], nice=False),
    )
    y = alt.Y(
        "ratio:Q",
        title="frequency, relative to the trained one",
        scale=alt.Scale(domain=[0, 1.05], nice=False),
    )
    style = {
        "scale": alt.Scale(domain=list(kinds)),
        "legend": alt.Legend(title=None, orient="top", columns=5),
    }
    rule = alt.Chart(table(band=[first - 0.5], text=["no whole turn →"])).encode(
        x="band:Q"
    )
    return alt.layer(
        rule.mark_rule(strokeDash=[3, 3]),
        rule.mark_text(align="left", dx=5, fontSize=12).encode(
            text="text:N", y=alt.value(40)
        ),
        alt.Chart(rows)
        .mark_line(strokeWidth=2.4)
        .encode(x=x, y=y, color=alt.Color("scaling:N", **style)),
    ).properties(width=WIDTH, height=260)


def biases() -> alt.Chart:
    """What three encodings add to a score, by distance."""
    distance = np.arange(129)
    query, keys = jnp.array([128]), jnp.asarray(128 - distance)
    one = jnp.ones(1)
    kinds = {
        "ALiBi (slope 1/16)": jrope.alibi(query, keys, num_heads=2)[0],
        "KERPLE, logarithmic (1, 1)": jrope.kerple_log(one, one, query, keys)[0],
        "Sandwich (dim 16, one head)": jrope.sandwich(query, keys, num_heads=1, dim=16)[
            0
        ],
    }
    rows = joined(
        *(
            table(distance=distance, bias=np.asarray(b)[0], encoding=[name])
            for name, b in kinds.items()
        )
    )
    style = {
        "scale": alt.Scale(domain=list(kinds)),
        "legend": alt.Legend(title=None, orient="top", columns=1),
    }
    return (
        alt.Chart(rows)
        .mark_line(strokeWidth=2.4)
        .encode(
            x=alt.X(
                "distance:Q",
                title="distance of query and key",
                scale=alt.Scale(domain=[0, 128], nice=False),
            ),
            y=alt.Y("bias:Q", title="added to the score"),
            color=alt.Color("encoding:N", **style),
            strokeDash=alt.StrokeDash("encoding:N", **style),
        )
        .properties(width=WIDTH, height=220)
    )


def errors(start: int) -> tuple[float, float]:
    """The largest errors of cosines near `start`: float32 products and exact angles."""
    positions = np.arange(start - 31, start + 1)
    spectrum = jrope.spectrum(128)
    truth = np.cos(
        positions[:, None] * spectrum.frequencies
    )  # in float64, right to 2e-9 at ten million
    product, exact = (
        jrope.rotation_tables(positions, kind)[0]
        for kind in (jrope.LearnedSpectrum(spectrum.frequencies), spectrum)
    )
    return tuple(
        float(np.abs(np.asarray(got, np.float64) - truth).max())
        for got in (product, exact)
    )


def precision() -> alt.Chart:
    """The error of a cosine against the position."""
    starts = [10**i for i in range(2, 8)]
    measured = np.array([errors(start) for start in starts])
    names = ["float32 product", "jrope: exact angles"]
    rows = joined(
        *(
            table(position=starts, error=measured[:, i], how=[name])
            for i, name in enumerate(names)
        )
    )
    style = {
        "scale": alt.Scale(domain=names),
        "legend": alt.Legend(title=None, orient="top"),
    }
    return (
        alt.Chart(rows)
        .mark_line(strokeWidth=2.4, point=alt.OverlayMarkDef(size=60))
        .encode(
            x=alt.X(
                "position:Q",
                title="position",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~s", values=starts),
            ),
            y=alt.Y(
                "error:Q",
                title="largest error of a cosine",
                scale=alt.Scale(type="log", domain=[1e-8, 2]),
                axis=alt.Axis(format=".0e", values=[1e-8, 1e-6, 1e-4, 1e-2, 1]),
            ),
            color=alt.Color("how:N", **style),
        )
        .properties(width=WIDTH, height=260)
    )


def scaling_cost() -> alt.ConcatChart:
    """What the benchmark `scaling_cost` measured."""
    results = stored.read("scaling_cost")["results"]

    def rows(word: str) -> list[dict]:
        return [
            {
                "at": case.get("at"),
                "form": form["form"],
                "milliseconds": 1e3 * form["seconds"],
                "ratio": form["ratio"],
            }
            for case in results
            if word in case["case"]
            for form in case["forms"]
        ]

    def curve(word: str, title: str, forms: list[str]):
        points = rows(word)
        ticks = sorted({row["at"] for row in points})
        return (
            alt.Chart(alt.Data(values=points))
            .mark_line(point=alt.OverlayMarkDef(size=40), strokeWidth=2)
            .encode(
                x=alt.X(
                    "at:Q",
                    title=title,
                    scale=alt.Scale(type="log", base=2, nice=False),
                    axis=alt.Axis(values=ticks, format="d", labelOverlap=True),
                ),
                y=alt.Y(
                    "milliseconds:Q",
                    title="ms",
                    scale=alt.Scale(type="log"),
                    axis=alt.Axis(format="~s", tickCount=4),
                ),
                color=alt.Color(
                    "form:N",
                    title=None,
                    scale=alt.Scale(domain=forms),
                    legend=alt.Legend(orient="top", columns=1)
                    if len(forms) > 1
                    else None,
                ),
            )
            .properties(width=250, height=190)
        )

    bars = (
        alt.Chart(alt.Data(values=rows("by encoding")))
        .mark_bar(height=9)
        .encode(
            x=alt.X("ratio:Q", title="time of a training step, times that without any"),
            y=alt.Y("form:N", title=None, sort=None),
        )
        .properties(width=250, height=190)
    )
    forms = ["blocks", "one array of scores"]
    return alt.concat(
        curve("causal attention", "tokens, of causal attention", forms),
        curve("by features", "features, of 10 training steps", ["training"]),
        curve("by seeds", "seeds, of 10 training steps", ["training"]),
        bars,
        columns=2,
        spacing=30,
    ).resolve_scale(color="independent")


FIGURES = (rotation, bands, scalings, biases, precision, scaling_cost)


def themed(chart, ink: str, grid: str, colours: list[str]):
    """The chart in the colours of a page, on its background."""
    words = {
        "labelColor": ink,
        "titleColor": ink,
        "labelFontSize": 13,
        "titleFontSize": 13,
    }
    return (
        chart.configure(
            background="transparent", range=alt.RangeConfig(category=colours), padding=4
        )
        .configure_axis(
            **words,
            titleFontWeight="normal",
            gridColor=grid,
            domainColor=ink,
            tickColor=ink,
        )
        .configure_legend(**words, symbolStrokeWidth=3, symbolOpacity=1, labelLimit=300)
        .configure_title(color=ink, fontSize=14, fontWeight="normal")
        .configure_view(stroke=None)
        .configure_rule(color=ink)
        .configure_text(color=ink)
        .configure_line(color=ink)
        .configure_rect(color=colours[0])
    )


def draw_all(directory: Path):
    """Every figure as an SVG for each theme."""
    directory.mkdir(exist_ok=True)
    for figure in FIGURES:
        chart = figure()
        for theme, colours in THEMES.items():
            themed(chart, **colours).save(
                str(directory / f"{figure.__name__}-{theme}.svg")
            )


if __name__ == "__main__":
    draw_all(Path(__file__).parent / "_figures")
