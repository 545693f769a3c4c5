"""Encodings that rotate queries and keys."""

from dataclasses import dataclass
from typing import ClassVar

from jrope.encoding import Encoding
from jrope.rotary import LAYOUTS, Layout, Spectrum, apply_rotary, rotation_tables, spectrum
from jrope.scaling import Scaling


@dataclass(frozen=True)
class Rope(Encoding):
    """Rotary position embedding, plain or scaled.

    Attributes:
      base: of the geometric spectrum (rope_theta).
      scaling: None, or a function of a spectrum such as `Linear`, `NTK`, `DynamicNTK` or `Yarn`.
      layout: which features form a pair, see `apply_rotary`.
      rotary_fraction: how much of each head rotates, its first int(head_dim * rotary_fraction) features.
    """

    base: float = 10_000.0
    scaling: Scaling | None = None
    layout: Layout = "interleaved"
    rotary_fraction: float = 1.0

    def __post_init__(self):
        if not self.base > 0:
            raise ValueError(f"Rope: base must be positive, got {self.base}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"Rope: layout must be one of {LAYOUTS}, got {self.layout!r}")
        if not 0 < self.rotary_fraction <= 1:
            raise ValueError(f"Rope: rotary_fraction must be above 0 and at most 1, got {self.rotary_fraction}")

    def spectrum(self, head_dim: int, length=None) -> Spectrum:
        """The (scaled) spectrum for heads of this size; some scalings also need the current length."""
        plain = spectrum(int(head_dim * self.rotary_fraction), base=self.base)
        return plain if self.scaling is None else self.scaling(plain, length=length)

    def at(self, *, head_dim, length):
        return Rotary(self.spectrum(head_dim, length), self.layout)

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        return Rotary(self.spectrum(head_dim, length), self.layout).rotation(
            params, q_positions, k_positions, head_dim=head_dim
        )


@dataclass(frozen=True, eq=False)
class Rotary(Encoding):
    """Rotation by a given spectrum, which is data: what `Rope` becomes for one head size and length."""

    spectrum: Spectrum
    layout: Layout = "interleaved"

    arrays: ClassVar[tuple[str, ...]] = ("spectrum",)

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        q_tables = rotation_tables(q_positions, self.spectrum)
        k_tables = q_tables if k_positions is q_positions else rotation_tables(k_positions, self.spectrum)
        return lambda q, k: (
            apply_rotary(q, *q_tables, layout=self.layout),
            apply_rotary(k, *k_tables, layout=self.layout),
        )
