"""p-RoPE: the slow bands do not turn."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jrope import arguments, checks
from jrope.spectrum import AnySpectrum

__all__ = ["Proportional"]


@dataclass(frozen=True)
class Proportional:
    """p-RoPE: the first pairs keep their frequency (over `factor`), and the slow ones do not turn.

        g_i = f_i / factor if i < int(rotary_fraction * d // 2) else 0

    The frequencies and the width are those of the whole head, d = 2P: in the half layout pair i is
    (i, i+P) whether it turns or not. Partial rotary (`Rope.rotary_fraction`) is different: there a
    narrower spectrum fills the first features.
    Barbero et al. 2024, arXiv:2410.06205; the form of Gemma 4.

    Attributes:
      rotary_fraction: the share of pairs that turn, from 0 (NoPE) to 1.
      factor: divides the frequencies, at least 1.
    """

    name: ClassVar[str] = "proportional"

    rotary_fraction: float
    factor: float = 1.0

    def __post_init__(self):
        arguments.check_fields(self)
        checks.finite("Proportional", "rotary_fraction", self.rotary_fraction, least=0)
        if self.rotary_fraction > 1:
            at_most = f"rotary_fraction must be at most 1, got {self.rotary_fraction}"
            raise ValueError(f"Proportional: {at_most}")
        checks.finite("Proportional", "factor", self.factor, least=1)

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum, *, length: float | None = None) -> AnySpectrum:
        pairs = spectrum.num_pairs
        turning = np.arange(pairs) < int(self.rotary_fraction * 2 * pairs // 2)
        return spectrum.scaled(spectrum.frequencies * turning / self.factor)
