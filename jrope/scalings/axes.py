"""Several position axes: which axis turns each pair of a spectrum.

Text has one position per token; an image patch has a row and a column, a video patch a time as
well. Each function here takes a spectrum and names the axis of every pair in its `axes`. Positions
are then [A, ..., T]. Only whole pairs move, so that exact spectra stay exact, also inside jit.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jrope import arguments, checks
from jrope.spectrum import AnySpectrum

__all__ = ["Axial", "Sections"]


@dataclass(frozen=True)
class Sections:
    """M-RoPE: the axes share the pairs of one spectrum, in Qwen-VL's order (time, height, width).

    Chunked: the first `sections[0]` pairs follow axis 0, the next `sections[1]` axis 1, and so on
    (Qwen2-VL, 16, 24, 24). Interleaved: every axis gets fast and slow bands (Qwen3-VL, 24, 20, 20).
    Pair k follows axis `a = k mod A` as long as `k < A * sections[a]`, and axis 0 otherwise. Text,
    whose position is the same along all axes, is plain RoPE in both orders.
    Wang et al. 2024, "Qwen2-VL", arXiv:2409.12191; the interleaved order is from Qwen3-VL's code.

    Attributes:
      sections: how many pairs follow each axis; their sum is the P of the spectrum.
      interleaved: which of the two orders.

    Raises:
      ValueError: if a section is negative, or (when called) if the sections do not make up the
        spectrum in that order.
    """

    name: ClassVar[str] = "sections"

    sections: tuple[int, ...]
    interleaved: bool = False

    def __post_init__(self):
        arguments.check_fields(self)
        object.__setattr__(self, "sections", tuple(self.sections))
        if not self.sections or min(self.sections) < 0:
            wanted = "numbers of pairs, at least 0 for each axis"
            raise ValueError(f"Sections: sections must be {wanted}, got {self.sections}")

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum) -> AnySpectrum:
        pairs, count = spectrum.num_pairs, len(self.sections)
        if sum(self.sections) != pairs:
            sections = f"sections {self.sections} must add up to the spectrum's {pairs} pairs"
            raise ValueError(f"Sections: {sections}")
        if not self.interleaved:
            return spectrum.with_axes(tuple(np.repeat(np.arange(count), self.sections).tolist()))
        k = np.arange(pairs)
        axes = np.where(k < count * np.array(self.sections)[k % count], k % count, 0)
        if tuple(np.bincount(axes, minlength=count)) != self.sections:
            order = f"no interleaved order of {pairs} pairs has sections {self.sections}"
            raise ValueError(f"Sections: {order}")
        return spectrum.with_axes(tuple(axes.tolist()))


@dataclass(frozen=True)
class Axial:
    """Axial RoPE: each axis has an equal share of the pairs, and the whole range of frequencies.

    With d features in all, every axis has `base^(-2j / (d / axes))` for `j < d / (2 axes)`: every
    A-th frequency of the spectrum. The shares are in the order of the position axes; for an image
    that is (row, column), counted from 0 at the top left.
    Heo et al. 2024, arXiv:2403.13298; as in the vision towers of the Qwen-VL family.

    Attributes:
      axes: how many position axes, A.

    Raises:
      ValueError: if `axes` is below 1, or (when called) does not divide the P pairs of the
        spectrum.
    """

    name: ClassVar[str] = "axial"

    axes: int = 2

    def __post_init__(self):
        arguments.check_fields(self)
        checks.at_least("Axial", "axes", self.axes, 1)

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum) -> AnySpectrum:
        pairs, count = spectrum.num_pairs, self.axes
        if pairs % count:
            of = f"the spectrum's {pairs} pairs ({2 * pairs} features)"
            raise ValueError(f"Axial: {count} axes must divide {of}")
        axes = np.repeat(np.arange(count), pairs // count)
        return spectrum.with_axes(tuple(axes.tolist()), np.tile(np.arange(0, pairs, count), count))
