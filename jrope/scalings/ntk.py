"""NTK-aware scaling, by a fixed factor and by the current length."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks
from jrope.spectrum import AnySpectrum

__all__ = ["NTK", "DynamicNTK"]


def _ntk(spectrum: AnySpectrum, factor) -> AnySpectrum:
    """The spectrum of `base * factor^(d/(d-2))`. This form needs no base."""
    exponents = -np.arange(spectrum.num_pairs) / max(spectrum.num_pairs - 1, 1)
    return spectrum.scaled(spectrum.frequencies * factor**exponents)


@dataclass(frozen=True)
class NTK:
    """NTK-aware scaling: the base grows to `base * factor^(d/(d-2))`.

        g_i = f_i * factor^(-2i/(d-2))

    The fastest band keeps its frequency and the slowest is interpolated by the whole factor. A
    spectrum of one band (d = 2) has no such exponent: its band is the fastest and is kept.
    bloc97 2023, "NTK-Aware Scaled RoPE"; Peng et al. 2023, arXiv:2309.00071, section 3.1.

    Attributes:
      factor: new length over trained length, at least 1.
    """

    name: ClassVar[str] = "ntk"

    factor: float

    def __post_init__(self):
        arguments.check_fields(self)
        checks.finite("NTK", "factor", self.factor, least=1)

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum, *, length: float | None = None) -> AnySpectrum:
        return _ntk(spectrum, self.factor)


@dataclass(frozen=True)
class DynamicNTK:
    """NTK-aware scaling whose factor is `factor * L / original_length - (factor - 1)` at length L.

    Up to the trained length nothing changes, and `length=None` means any such length. Keys that
    were cached under another length must be rotated again (`jrope.rerotate`).
    emozilla 2023; the form of transformers, where L is the highest position plus one.

    Attributes:
      factor: at least 1; at 1 the scaling follows the length exactly.
      original_length: the trained length (max_position_embeddings in transformers' configs).

    Raises:
      TypeError: if it is called with a traced length on a `Spectrum`, which cannot be exact.
    """

    name: ClassVar[str] = "dynamic_ntk"
    depends_on_length: ClassVar[bool] = True  # so that `Rope` does not go without

    factor: float
    original_length: int

    def __post_init__(self):
        arguments.check_fields(self)
        checks.finite("DynamicNTK", "factor", self.factor, least=1)
        checks.finite("DynamicNTK", "original_length", self.original_length, least=1)

    @arguments.checked()
    def __call__(self, spectrum: AnySpectrum, *, length: float | None = None) -> AnySpectrum:
        if length is None:
            return spectrum
        xp = np if checks.is_concrete(length) else jnp
        longest = xp.maximum(checks.host(length), self.original_length)
        return _ntk(spectrum, self.factor * longest / self.original_length - (self.factor - 1))
