"""Llama 3.1's scaling: interpolation of the slow bands."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jrope import arguments, checks
from jrope.spectrum import AnySpectrum

__all__ = ["Llama3"]


@dataclass(frozen=True)
class Llama3:
    """Llama 3.1's scaling: as YaRN, but it ramps over turns and has no temperature.

    With `turns_i = original_length f_i / 2 pi`,

        kept_i = clip((turns_i - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
        g_i = f_i kept_i + (f_i / factor) (1 - kept_i)

    Equal low and high factors (Llama 4 Scout has 1 and 1) are the limit: a step, which is `Step`
    for 1 and 1.
    Grattafiori et al. 2024, arXiv:2407.21783; the formula is that of the published code.

    Attributes:
      factor: new length over trained length, at least 1.
      original_length: the trained length.
      low_freq_factor, high_freq_factor: turns in the trained length below which a band is
        interpolated by the whole factor, and above which it is kept.
    """

    name: ClassVar[str] = "llama3"

    factor: float
    original_length: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self):
        arguments.check_fields(self)
        checks.finite("Llama3", "factor", self.factor, least=1)
        checks.finite("Llama3", "original_length", self.original_length, least=1)
        checks.finite("Llama3", "low_freq_factor", self.low_freq_factor, above=0)
        checks.finite(
            "Llama3", "high_freq_factor", self.high_freq_factor, least=self.low_freq_factor
        )

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum, *, length: float | None = None) -> AnySpectrum:
        frequencies, low, high = spectrum.frequencies, self.low_freq_factor, self.high_freq_factor
        xp = frequencies.__array_namespace__()
        turns = self.original_length * frequencies / (2 * np.pi)
        if low == high:  # a division by 0 would make NaN, also in gradients
            kept = xp.where(turns >= low, 1.0, 0.0)
        else:
            kept = xp.clip((turns - low) / (high - low), 0, 1)
        return spectrum.scaled(frequencies * kept + frequencies / self.factor * (1 - kept))
