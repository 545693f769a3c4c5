"""RoPE scalings: functions from a spectrum to a spectrum, to run a model past the length it was trained on.

Each is a frozen value that can be compared, hashed, printed and written in a config, and is called on a `Spectrum`. They
differ in nothing but which bands they slow down: position interpolation slows all alike, NTK-aware scaling the slow ones
more, and YaRN only those that never complete a turn within the trained length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jrope import phase
from jrope.rotary import Spectrum

Scaling = Callable[..., Spectrum]


@dataclass(frozen=True)
class Linear:
    """Position interpolation: `g_i = f_i / factor`, the same as dividing every position by the factor.

    Chen et al. 2023, arXiv:2306.15595.

    Attributes:
      factor: new length over trained length, at least 1.
    """

    factor: float

    def __post_init__(self):
        _check_factor(self, "factor", 1)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        return Spectrum(spectrum.frequencies / self.factor, spectrum.amplitude)


@dataclass(frozen=True)
class NTK:
    """NTK-aware scaling: the base grows to `base * factor^(d/(d-2))`, so that `g_i = f_i * factor^(-2i/(d-2))`.

    The fastest band keeps its frequency and the slowest is interpolated by the whole factor.
    bloc97 2023, "NTK-Aware Scaled RoPE"; Peng et al. 2023, arXiv:2309.00071, section 3.1.

    Attributes:
      factor: new length over trained length, at least 1.
    """

    factor: float

    def __post_init__(self):
        _check_factor(self, "factor", 1)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        return _ntk(spectrum, self.factor)


@dataclass(frozen=True)
class DynamicNTK:
    """NTK-aware scaling by the current length: the factor is `factor * L / original_length - (factor - 1)`.

    Up to the trained length nothing changes, and `length=None` stands for any such length. Keys that were cached under another
    length must be rotated again by the difference of the two spectra. emozilla 2023; the form of transformers, where L is the
    highest position plus one.

    Attributes:
      factor: at least 1; at 1 the scaling follows the length exactly.
      original_length: the trained length (max_position_embeddings in transformers' configs).
    """

    factor: float
    original_length: int

    def __post_init__(self):
        _check_factor(self, "factor", 1)
        _check_factor(self, "original_length", 1)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        if length is None:
            return spectrum
        xp = np if phase.is_concrete(length) else jnp
        longest = xp.maximum(length, self.original_length)
        return _ntk(spectrum, self.factor * longest / self.original_length - (self.factor - 1))


@dataclass(frozen=True)
class Yarn:
    """YaRN: interpolate the bands that turn less than `beta_slow` times in the trained length, keep those that turn more
    than `beta_fast` times, ramp between, and raise the attention temperature.

    With `c(r)` the (real) index of the band that turns r times in `original_length`,

        low, high = max(floor(c(beta_fast)), 0), min(ceil(c(beta_slow)), d - 1)
        ramp_i = clip((i - low) / (high - low), 0, 1)
        g_i = f_i (1 - ramp_i) + (f_i / factor) ramp_i
        amplitude = attention_factor or 0.1 ln(factor) + 1

    Peng et al. 2023, arXiv:2309.00071. Where the paper ramps over turns and the official code over band indices with
    rounding, this follows the code, as transformers and published checkpoints do. Where every band turns less than
    `beta_slow` times, all but the first are interpolated.

    Attributes:
      factor: new length over trained length, at least 1.
      original_length: the trained length.
      beta_fast, beta_slow: turns in the trained length above which a band is kept, and below which it is interpolated.
        No band turns more than original_length / 2 pi times: for a small context the default 32 interpolates all.
      truncate: whether the ramp's ends are rounded to whole bands.
      attention_factor: the amplitude, in place of `0.1 ln(factor) + 1`.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None

    def __post_init__(self):
        _check_factor(self, "factor", 1)
        _check_factor(self, "original_length", 1)
        _check_factor(self, "beta_slow", 0, strict=True)
        _check_factor(self, "beta_fast", self.beta_slow)
        if self.attention_factor is not None:
            _check_factor(self, "attention_factor", 0, strict=True)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        frequencies = spectrum.frequencies
        ramp = self.ramp(spectrum)
        scaled = frequencies * (1 - ramp) + frequencies / self.factor * ramp
        amplitude = 0.1 * np.log(self.factor) + 1 if self.attention_factor is None else self.attention_factor
        return Spectrum(scaled, spectrum.amplitude * amplitude)

    def ramp(self, spectrum: Spectrum):
        """How far each band [P] is interpolated: 0 keeps it, 1 divides it by the factor."""
        frequencies = spectrum.frequencies
        pairs = frequencies.shape[-1]
        if pairs == 1:  # one band has no spacing to place the ramp by; the first band is always kept
            return np.zeros(1)
        xp = np if phase.is_concrete(frequencies) else jnp
        spacing = xp.log(frequencies[0] / frequencies[1])

        def band(turns):  # the spectrum is geometric, so its bands are evenly spaced in the logarithm
            return xp.log(self.original_length * frequencies[0] / (2 * np.pi * turns)) / spacing

        low, high = band(self.beta_fast), band(self.beta_slow)
        if self.truncate:
            low, high = xp.floor(low), xp.ceil(high)
        low = xp.maximum(low, 0)
        high = xp.maximum(xp.minimum(high, 2 * pairs - 1), low)
        width = xp.where(high == low, 0.001, high - low)
        return xp.clip((np.arange(pairs) - low) / width, 0, 1)


def _ntk(spectrum: Spectrum, factor) -> Spectrum:
    """The spectrum of base * factor^(d/(d-2)), written for the frequencies so that it needs no base."""
    pairs = spectrum.frequencies.shape[-1]
    exponents = -np.arange(pairs) / max(pairs - 1, 1)
    xp = np if phase.is_concrete(factor) else jnp
    return Spectrum(spectrum.frequencies * xp.power(factor, exponents), spectrum.amplitude)


def _check_factor(scaling, name: str, least: float, *, strict: bool = False):
    """Raises ValueError unless the field is a finite number of at least (strictly: above) `least`."""
    value = getattr(scaling, name)
    if phase.is_concrete(value) and not (np.isfinite(value) and (value > least if strict else value >= least)):
        wanted = f"{'above' if strict else 'at least'} {least:g}"
        raise ValueError(f"{type(scaling).__name__}: {name} must be a finite number {wanted}, got {value!r}")
