"""Several position axes: which axis turns each pair of a spectrum.

Text has one position per token; an image patch has a row and a column, a video patch a time as well. Each function here takes
a spectrum and names the axis of every one of its pairs in `Spectrum.axes`; positions are then [A, ..., T].
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jrope import phase
from jrope.rotary import Spectrum


@dataclass(frozen=True)
class Sections:
    """M-RoPE: the pairs of one spectrum are shared out among the axes, in Qwen-VL's (time, height, width) order.

    Chunked, the first `sections[0]` pairs follow axis 0, the next `sections[1]` axis 1, and so on: Qwen2-VL, (16, 24, 24).
    Interleaved, as in Qwen3-VL (24, 20, 20), every axis gets fast and slow bands: pair k follows axis `a = k mod A` as long as
    `k < A * sections[a]`, and axis 0 otherwise. Text, whose position is the same along all axes, is plain RoPE in either.
    Wang et al. 2024, "Qwen2-VL", arXiv:2409.12191; the interleaved order is that of the Qwen3-VL code.

    Attributes:
      sections: how many pairs follow each axis; their sum is the P of the spectrum.
      interleaved: which of the two orders.

    Raises:
      ValueError: if a section is negative, or (when called) if the sections do not make up the spectrum in that order.
    """

    sections: tuple[int, ...]
    interleaved: bool = False

    def __post_init__(self):
        object.__setattr__(self, "sections", tuple(self.sections))
        if not self.sections or min(self.sections) < 0:
            raise ValueError(f"Sections: sections must be numbers of pairs, at least 0 for each axis, got {self.sections}")

    def __call__(self, spectrum: Spectrum) -> Spectrum:
        pairs, count = spectrum.frequencies.shape[-1], len(self.sections)
        if sum(self.sections) != pairs:
            raise ValueError(f"Sections: sections {self.sections} must add up to the spectrum's {pairs} pairs")
        if self.interleaved:
            k = np.arange(pairs)
            axes = np.where(k < count * np.array(self.sections)[k % count], k % count, 0)
            if tuple(np.bincount(axes, minlength=count)) != self.sections:
                raise ValueError(f"Sections: no interleaved order of {pairs} pairs has sections {self.sections}")
        else:
            axes = np.repeat(np.arange(count), self.sections)
        return Spectrum(spectrum.frequencies, spectrum.amplitude, tuple(axes.tolist()))


@dataclass(frozen=True)
class Axial:
    """Axial RoPE: each axis has an equal share of the pairs, and in it the whole range of frequencies.

    With d features in all, every axis has `base^(-2j / (d / axes))` for `j < d / (2 axes)`: every A-th frequency of the
    spectrum. The shares follow one another in the order of the position axes; for an image that is (row, column), counted
    from 0 at the top left. Heo et al. 2024, arXiv:2403.13298; as in the vision towers of the Qwen-VL family.

    Attributes:
      axes: how many position axes, A.

    Raises:
      ValueError: if `axes` is below 1, or (when called) does not divide the P pairs of the spectrum.
    """

    axes: int = 2

    def __post_init__(self):
        if self.axes < 1:
            raise ValueError(f"Axial: axes must be at least 1, got {self.axes}")

    def __call__(self, spectrum: Spectrum) -> Spectrum:
        pairs = spectrum.frequencies.shape[-1]
        if pairs % self.axes:
            raise ValueError(f"Axial: {self.axes} axes must divide the spectrum's {pairs} pairs ({2 * pairs} features)")
        xp = np if phase.is_concrete(spectrum.frequencies) else jnp
        frequencies = xp.tile(spectrum.frequencies[:: self.axes], self.axes)
        return Spectrum(frequencies, spectrum.amplitude, tuple(np.repeat(np.arange(self.axes), pairs // self.axes).tolist()))
