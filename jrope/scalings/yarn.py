"""YaRN: interpolation of the slow bands, and a temperature."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks
from jrope.spectrum import AnySpectrum, LearnedSpectrum, Spectrum

__all__ = ["Yarn"]


def temperature(factor, weight: float = 1.0):
    """YaRN's `m = 0.1 weight ln(factor) + 1`, which is 1 up to a factor of 1."""
    xp = np if checks.is_concrete(factor) else jnp
    return 0.1 * weight * xp.log(xp.maximum(factor, 1)) + 1


@dataclass(frozen=True)
class Yarn:
    """YaRN interpolates slow bands, keeps fast ones, ramps between, and sharpens the softmax.

    A band that turns many times in the trained length has shown the model all of its angles. With
    `c(r)` the (real) index of the band that turns r times in `original_length`,

        low, high = max(floor(c(beta_fast)), 0), min(ceil(c(beta_slow)), d - 1)
        ramp_i = clip((i - low) / (high - low), 0, 1)
        g_i = f_i (1 - ramp_i) + (f_i / factor) ramp_i
        amplitude = attention_factor or m(1), m(a) = 0.1 a ln(factor) + 1
        amplitude = m(mscale) / m(mscale_all_dim) if both are given and attention_factor is not

    Peng et al. 2023, arXiv:2309.00071. The paper ramps over turns, the official code over band
    indices with rounding. This follows the code, as transformers and published checkpoints do. If
    every band turns less than `beta_slow` times, all but the first are interpolated. A spectrum of
    one band is kept.

    Attributes:
      factor: new length over trained length, at least 1.
      original_length: the trained length.
      beta_fast, beta_slow: turns in the trained length above which a band is kept, and below which
        it is interpolated. No band turns more than original_length / 2 pi times: in a small context
        the default of 32 keeps only the first band.
      truncate: whether the ramp's ends are rounded to whole bands.
      attention_factor: the amplitude, instead of any formula.
      mscale, mscale_all_dim: DeepSeek's weights of the temperature; if either is zero, neither has
        an effect. Equal ones make the amplitude 1. These models multiply the softmax scale instead,
        by `m(mscale_all_dim)^2`: that is `Rope.softmax_multiplier`, never part of the spectrum.

    Raises:
      ValueError: if a field is out of its range, or (when called) if the first two frequencies do
        not fall: their ratio places the ramp. Where they are traced, nothing can be raised: all
        bands but the first are interpolated.
    """

    name: ClassVar[str] = "yarn"

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float = 0.0
    mscale_all_dim: float = 0.0

    def __post_init__(self):
        arguments.check_fields(self)
        checks.finite("Yarn", "factor", self.factor, least=1)
        checks.finite("Yarn", "original_length", self.original_length, least=1)
        checks.finite("Yarn", "beta_slow", self.beta_slow, above=0)
        checks.finite("Yarn", "beta_fast", self.beta_fast, least=self.beta_slow)
        if self.attention_factor is not None:
            checks.finite("Yarn", "attention_factor", self.attention_factor, above=0)
        checks.finite("Yarn", "mscale", self.mscale, least=0)
        checks.finite("Yarn", "mscale_all_dim", self.mscale_all_dim, least=0)

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum, *, length: float | None = None) -> AnySpectrum:
        frequencies, ramp = spectrum.frequencies, self.ramp(spectrum)
        scaled = frequencies * (1 - ramp) + frequencies / self.factor * ramp
        return spectrum.scaled(scaled, self.amplitude())

    def amplitude(self):
        """The factor on cos and sin."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            above, below = (temperature(self.factor, m) for m in (self.mscale, self.mscale_all_dim))
            return above / below
        return temperature(self.factor)

    def ramp(self, spectrum: Spectrum | LearnedSpectrum):
        """How far each band [P] is interpolated: 0 keeps it, 1 divides it by the factor."""
        frequencies, pairs = spectrum.frequencies, spectrum.num_pairs
        if pairs == 1:  # the first band is always kept, and there is no spacing
            return np.zeros(1)
        first = checks.host(frequencies)[:2]
        if checks.is_concrete(first) and not first[0] > first[1] > 0:
            wanted = "the spectrum must fall, and its first two frequencies be positive"
            raise ValueError(f"Yarn: {wanted}, got {first.tolist()}")
        xp = frequencies.__array_namespace__()
        spacing = xp.log(frequencies[0] / frequencies[1])
        spacing = xp.where(spacing > 0, spacing, np.inf)  # 0 would make NaN, also in gradients

        def band(turns):  # bands are evenly spaced in the logarithm
            return xp.log(self.original_length * frequencies[0] / (2 * np.pi * turns)) / spacing

        low, high = band(self.beta_fast), band(self.beta_slow)
        if self.truncate:
            low, high = xp.floor(low), xp.ceil(high)
        low = xp.maximum(low, 0)
        high = xp.maximum(xp.minimum(high, 2 * pairs - 1), low)
        width = xp.where(high == low, 0.001, high - low)
        return xp.clip((np.arange(pairs) - low) / width, 0, 1)
