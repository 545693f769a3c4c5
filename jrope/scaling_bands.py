"""RoPE scalings that slow a band down by how often it turns within the trained length.

A band that turns many times there has shown the model all of its angles, and is kept; one that does not complete a turn would
meet new angles past the trained length, and is interpolated. The scalings differ in what they do between: `Step` draws the
line at one turn; `Yarn` and `Llama3` interpolate in part the bands between two numbers of turns (1 and 32, 1 and 4), and so
slow some that do complete turns. `Proportional` stops slow bands instead, by their index.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jrope import phase
from jrope.rotary import Spectrum
from jrope.scaling import check


def temperature(factor, weight: float = 1.0):
    """YaRN's `m = 0.1 weight ln(factor) + 1`, which is 1 up to a factor of 1."""
    xp = np if phase.is_concrete(factor) else jnp
    return 0.1 * weight * xp.log(xp.maximum(factor, 1)) + 1


@dataclass(frozen=True)
class Yarn:
    """YaRN: interpolate the bands that turn less than `beta_slow` times in the trained length, keep those that turn more
    than `beta_fast` times, ramp between, and sharpen the softmax (a temperature below 1).

    With `c(r)` the (real) index of the band that turns r times in `original_length`,

        low, high = max(floor(c(beta_fast)), 0), min(ceil(c(beta_slow)), d - 1)
        ramp_i = clip((i - low) / (high - low), 0, 1)
        g_i = f_i (1 - ramp_i) + (f_i / factor) ramp_i
        amplitude = attention_factor or m(1), m(a) = 0.1 a ln(factor) + 1
        amplitude = m(mscale) / m(mscale_all_dim) where these are given, both of them, and no attention_factor is

    Peng et al. 2023, arXiv:2309.00071. Where the paper ramps over turns and the official code over band indices with
    rounding, this follows the code, as transformers and published checkpoints do. Where every band turns less than
    `beta_slow` times, all but the first are interpolated; a spectrum of one band is kept.

    Attributes:
      factor: new length over trained length, at least 1.
      original_length: the trained length.
      beta_fast, beta_slow: turns in the trained length above which a band is kept, and below which it is interpolated.
        No band turns more than original_length / 2 pi times: for a small context the default 32 keeps the first band alone.
      truncate: whether the ramp's ends are rounded to whole bands.
      attention_factor: the amplitude, in place of any formula.
      mscale, mscale_all_dim: DeepSeek's weights of the temperature; where either is zero both are without effect. Equal ones
        make the amplitude 1: these models then multiply the softmax scale instead, by `m(mscale_all_dim)^2`, which is
        `Rope.softmax_multiplier` and never part of the spectrum.

    Raises:
      ValueError: if a field is out of its range, or (when called) if the first two frequencies do not fall: their ratio is
        what places the ramp. Where they are traced, nothing can be raised and all but the first band are interpolated.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float = 0.0
    mscale_all_dim: float = 0.0

    def __post_init__(self):
        check(self, "factor", 1)
        check(self, "original_length", 1)
        check(self, "beta_slow", 0, strict=True)
        check(self, "beta_fast", self.beta_slow)
        if self.attention_factor is not None:
            check(self, "attention_factor", 0, strict=True)
        check(self, "mscale", 0)
        check(self, "mscale_all_dim", 0)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        frequencies = spectrum.frequencies
        ramp = self.ramp(spectrum)
        scaled = frequencies * (1 - ramp) + frequencies / self.factor * ramp
        return spectrum.scaled(scaled, self.amplitude())

    def amplitude(self):
        """The factor on cos and sin."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return temperature(self.factor, self.mscale) / temperature(self.factor, self.mscale_all_dim)
        return temperature(self.factor)

    def ramp(self, spectrum: Spectrum):
        """How far each band [P] is interpolated: 0 keeps it, 1 divides it by the factor."""
        frequencies = spectrum.frequencies
        pairs = frequencies.shape[-1]
        if pairs == 1:  # one band has no spacing to place the ramp by; the first band is always kept
            return np.zeros(1)
        concrete = phase.is_concrete(frequencies)
        if concrete and not frequencies[0] > frequencies[1] > 0:
            first = frequencies[:2].tolist()
            raise ValueError(f"Yarn: the spectrum must fall, and its first two frequencies be positive, got {first}")
        xp = np if concrete else jnp
        spacing = xp.log(frequencies[0] / frequencies[1])
        spacing = xp.where(spacing > 0, spacing, np.inf)  # a division by 0 would make NaN, in gradients above all

        def band(turns):  # the spectrum is geometric, so its bands are evenly spaced in the logarithm
            return xp.log(self.original_length * frequencies[0] / (2 * np.pi * turns)) / spacing

        low, high = band(self.beta_fast), band(self.beta_slow)
        if self.truncate:
            low, high = xp.floor(low), xp.ceil(high)
        low = xp.maximum(low, 0)
        high = xp.maximum(xp.minimum(high, 2 * pairs - 1), low)
        width = xp.where(high == low, 0.001, high - low)
        return xp.clip((np.arange(pairs) - low) / width, 0, 1)


@dataclass(frozen=True)
class Llama3:
    """Llama 3.1's scaling: as YaRN's, but with a ramp over turns instead of band indices, and no temperature.

    With `turns_i = original_length f_i / 2 pi`,

        kept_i = clip((turns_i - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
        g_i = f_i kept_i + (f_i / factor) (1 - kept_i)

    Equal low and high factors (Llama 4 Scout has 1 and 1) are the limit: a step, which is `Step` for 1 and 1.
    Grattafiori et al. 2024, arXiv:2407.21783; the formula is that of the published code.

    Attributes:
      factor: new length over trained length, at least 1.
      original_length: the trained length.
      low_freq_factor, high_freq_factor: turns in the trained length below which a band is interpolated by the whole factor,
        and above which it is kept.
    """

    factor: float
    original_length: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self):
        check(self, "factor", 1)
        check(self, "original_length", 1)
        check(self, "low_freq_factor", 0, strict=True)
        check(self, "high_freq_factor", self.low_freq_factor)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        frequencies, low, high = spectrum.frequencies, self.low_freq_factor, self.high_freq_factor
        xp = np if phase.is_concrete(frequencies) else jnp
        turns = self.original_length * frequencies / (2 * np.pi)
        # a division by high - low = 0 would make NaN, in gradients even where no value takes it
        kept = xp.where(turns >= low, 1.0, 0.0) if low == high else xp.clip((turns - low) / (high - low), 0, 1)
        return spectrum.scaled(frequencies * kept + frequencies / self.factor * (1 - kept))


@dataclass(frozen=True)
class Step:
    """Interpolates by the whole factor only the bands whose wavelength exceeds the trained length, and keeps the others:

        g_i = f_i / factor if 2 pi / f_i > original_length else f_i

    The plainest form of "NTK-by-parts", Peng et al. 2023, arXiv:2309.00071, section 3.2, with both of its ramp's ends at one
    turn: what a band needs if it has met all angles in training, and no more.

    Attributes:
      factor: new length over trained length, at least 1.
      original_length: the trained length.
    """

    factor: float
    original_length: int

    def __post_init__(self):
        check(self, "factor", 1)
        check(self, "original_length", 1)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        return Llama3(self.factor, self.original_length, 1.0, 1.0)(spectrum)


@dataclass(frozen=True)
class Proportional:
    """p-RoPE: the first `int(rotary_fraction d // 2)` pairs keep their frequency (over `factor`), the slow ones do not turn.

        g_i = f_i / factor if i < int(rotary_fraction * d // 2) else 0

    The frequencies are those of the whole head, d = 2P, and so is the width: pairs that do not turn still stand where they
    would, (i, i+P) in the half layout. That is not partial rotary (`Rope.rotary_fraction`), where a narrower spectrum fills
    the first features. Barbero et al. 2024, arXiv:2410.06205; the form of Gemma 4.

    Attributes:
      rotary_fraction: the share of pairs that turn, from 0 (NoPE) to 1.
      factor: what divides the frequencies, at least 1.
    """

    rotary_fraction: float
    factor: float = 1.0

    def __post_init__(self):
        check(self, "rotary_fraction", 0)
        if self.rotary_fraction > 1:
            raise ValueError(f"Proportional: rotary_fraction must be at most 1, got {self.rotary_fraction}")
        check(self, "factor", 1)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        pairs = spectrum.frequencies.shape[-1]
        turning = np.arange(pairs) < int(self.rotary_fraction * 2 * pairs // 2)
        return spectrum.scaled(spectrum.frequencies * turning / self.factor)
