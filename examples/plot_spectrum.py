"""A spectrum plotted: how each scaling of RoPE changes the wavelengths of its pairs of features.

The chart has the wavelength of each pair for Llama 2's context of 4096 tokens, extended four times.
Pairs above the dotted line never complete a turn in training. Linear scaling slows all pairs, NTK
the slow ones more, and YaRN only those that complete few turns.

    python examples/plot_spectrum.py [spectrum.svg]
"""

import sys

import altair as alt
import numpy as np

import jrope

TRAINED, FACTOR = 4096, 4.0
SCALINGS = {
    "as trained": lambda spectrum: spectrum,
    "linear": jrope.Linear(FACTOR),
    "ntk": jrope.NTK(FACTOR),
    "yarn": jrope.Yarn(FACTOR, original_length=TRAINED),
}


def main(path: str = "spectrum.svg"):
    rows = []
    for name, scaling in SCALINGS.items():
        wavelengths = 2 * np.pi / scaling(jrope.spectrum(128, base=10_000.0)).frequencies
        slow = int((wavelengths > TRAINED).sum())
        print(f"{name}: {slow} of {len(wavelengths)} pairs have a wavelength above {TRAINED}")
        for pair, wavelength in enumerate(wavelengths.tolist()):
            rows.append({"spectrum": name, "pair": pair, "wavelength": wavelength})

    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(
            x=alt.X("pair:Q", title="pair of features"),
            y=alt.Y("wavelength:Q", title="positions per turn", scale=alt.Scale(type="log")),
            color=alt.Color("spectrum:N", sort=list(SCALINGS), title=None),
        )
    )
    trained = alt.Chart(alt.Data(values=[{"length": TRAINED}]))
    rule = trained.mark_rule(strokeDash=[2, 3]).encode(y="length:Q")
    (lines + rule).properties(width=480, height=320).save(path)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
