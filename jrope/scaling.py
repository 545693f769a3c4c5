"""RoPE scalings: functions from a spectrum to a spectrum, to run a model past the length it was trained on.

Each is a frozen value that can be compared, hashed, printed and written in a config, and is called on a `Spectrum`, float64 on
the host or traced. They differ in which bands they slow down, and some raise the amplitude: position interpolation slows all
alike, NTK-aware scaling the slow ones more, LongRoPE by numbers that were searched for. Those that ask how often a band turns
in the trained length stand in `scaling_bands`.

Scale a spectrum outside jit. What a scaling makes of one that is a traced argument of a jitted function is traced itself, has
no exact turns, and its angles are float32 products, right at short positions alone (see `jrope.phase.cos_sin`). Give the
jitted function the scaled spectrum, or the `Rope.at(...)` that holds it; a spectrum made inside jit from a Python base is
concrete, and its scalings are exact. So does a traced `length` make the result of `DynamicNTK` and `LongRope` traced.
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
        check(self, "factor", 1)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        return spectrum.scaled(spectrum.frequencies / self.factor)


@dataclass(frozen=True)
class NTK:
    """NTK-aware scaling: the base grows to `base * factor^(d/(d-2))`, so that `g_i = f_i * factor^(-2i/(d-2))`.

    The fastest band keeps its frequency and the slowest is interpolated by the whole factor. A spectrum of one band (d = 2),
    for which the exponent has no value, is its own fastest and is kept.
    bloc97 2023, "NTK-Aware Scaled RoPE"; Peng et al. 2023, arXiv:2309.00071, section 3.1.

    Attributes:
      factor: new length over trained length, at least 1.
    """

    factor: float

    def __post_init__(self):
        check(self, "factor", 1)

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
        check(self, "factor", 1)
        check(self, "original_length", 1)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        if length is None:
            return spectrum
        xp = np if phase.is_concrete(length) else jnp
        longest = xp.maximum(length, self.original_length)
        return _ntk(spectrum, self.factor * longest / self.original_length - (self.factor - 1))


@dataclass(frozen=True)
class LongRope:
    """LongRoPE: every band is divided by a number of its own, from one list up to the trained length and another past it.

        g_i = f_i / (short_factor_i if length <= original_length else long_factor_i)
        amplitude = attention_factor or sqrt(1 + ln(factor) / ln(original_length)), 1 for a factor of at most 1

    The length is that of the sequence, not of the memory set aside for it; exactly `original_length` is still short, and so is
    `length=None`. The amplitude is the same for both lists. A sequence that is decoded past the trained length changes list:
    give one length for the whole of it, or rotate the cached keys again by the difference of the two spectra.
    Ding et al. 2024, arXiv:2402.13753; the form of Phi-3 and transformers.

    Attributes:
      short_factor, long_factor: P positive numbers each.
      original_length: the trained length.
      factor: new length over trained length (max_position_embeddings / original_max_position_embeddings); for the amplitude
        alone.
      attention_factor: the amplitude, in place of the formula.

    Raises:
      ValueError: if a field is out of its range, or (when called) if the lists are not of the spectrum's P bands.
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_length: int
    factor: float = 1.0
    attention_factor: float | None = None

    def __post_init__(self):
        for name in ("short_factor", "long_factor"):
            factors = tuple(getattr(self, name))
            object.__setattr__(self, name, factors)
            if not (np.all(np.isfinite(factors)) and all(factor > 0 for factor in factors)):
                raise ValueError(f"LongRope: {name} must be positive finite numbers, got {factors}")
        check(self, "original_length", 1)
        check(self, "factor", 0, strict=True)
        if self.attention_factor is not None:
            check(self, "attention_factor", 0, strict=True)

    def __call__(self, spectrum: Spectrum, *, length: int | None = None) -> Spectrum:
        pairs = spectrum.frequencies.shape[-1]
        if not len(self.short_factor) == len(self.long_factor) == pairs:
            sizes = f"short_factor has {len(self.short_factor)} numbers and long_factor {len(self.long_factor)}"
            raise ValueError(f"LongRope: {sizes}, but the spectrum has {pairs} bands")
        short, long = np.array(self.short_factor, np.float64), np.array(self.long_factor, np.float64)
        xp = np if phase.is_concrete(length) else jnp
        past = length is not None and length > self.original_length
        return spectrum.scaled(spectrum.frequencies / xp.where(past, long, short), self.amplitude())

    def amplitude(self) -> float:
        """The factor on cos and sin."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.factor <= 1:
            return 1.0
        if self.original_length < 2:
            raise ValueError(f"LongRope: a factor above 1 needs an original_length of at least 2, got {self.original_length}")
        return float(np.sqrt(1 + np.log(self.factor) / np.log(self.original_length)))


def _ntk(spectrum: Spectrum, factor) -> Spectrum:
    """The spectrum of base * factor^(d/(d-2)), written for the frequencies so that it needs no base."""
    pairs = spectrum.frequencies.shape[-1]
    exponents = -np.arange(pairs) / max(pairs - 1, 1)
    xp = np if phase.is_concrete(factor) else jnp
    return spectrum.scaled(spectrum.frequencies * xp.power(factor, exponents))


def check(scaling, name: str, least: float, *, strict: bool = False):
    """Raises ValueError unless the field is a finite number of at least (strictly: above) `least`."""
    value = getattr(scaling, name)
    if phase.is_concrete(value) and not (np.isfinite(value) and (value > least if strict else value >= least)):
        wanted = f"{'above' if strict else 'at least'} {least:g}"
        raise ValueError(f"{type(scaling).__name__}: {name} must be a finite number {wanted}, got {value!r}")
