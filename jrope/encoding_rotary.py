"""Encodings that rotate queries and keys."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jrope.axes import Axial, Sections
from jrope.encoding import Encoding
from jrope.phase import is_concrete
from jrope.rotary import LAYOUTS, Layout, Spectrum, apply_rotary, rotate, rotation_tables, spectrum
from jrope.scaling import Scaling
from jrope.xpos import reach, xpos_rotation


@dataclass(frozen=True)
class Rope(Encoding):
    """Rotary position embedding, plain or scaled (`jrope.rotary`).

    Attributes:
      base: of the geometric spectrum (rope_theta); may be traced, to vmap or differentiate over bases.
      scaling: None, or a function of a spectrum such as `Linear`, `NTK`, `DynamicNTK` or `Yarn`.
      layout: which features form a pair, see `apply_rotary`.
      rotary_fraction: how much of each head rotates, its first int(head_dim * rotary_fraction) features.
      softmax_multiplier: what multiplies `head_dim^-0.5` in `softmax_scale`: models with multi-head latent attention
        (DeepSeek V2 and V3) put YaRN's temperature there, `(0.1 mscale_all_dim ln(factor) + 1)^2`. It is apart from the
        spectrum's amplitude: a model that has both uses both.
      axes: None, or `Sections` or `Axial` for positions of several axes [A, ..., T]; applied after the scaling.
    """

    base: float = 10_000.0
    scaling: Scaling | None = None
    layout: Layout = "interleaved"
    rotary_fraction: float = 1.0
    softmax_multiplier: float = 1.0
    axes: Sections | Axial | None = None

    def __post_init__(self):
        if is_concrete(self.base) and not 0 < self.base < float("inf"):
            raise ValueError(f"Rope: base must be positive and finite, got {self.base}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"Rope: layout must be one of {LAYOUTS}, got {self.layout!r}")
        if not 0 < self.rotary_fraction <= 1:
            raise ValueError(f"Rope: rotary_fraction must be above 0 and at most 1, got {self.rotary_fraction}")
        if not 0 < self.softmax_multiplier < float("inf"):
            raise ValueError(f"Rope: softmax_multiplier must be positive and finite, got {self.softmax_multiplier}")

    def spectrum(self, head_dim: int, length=None) -> Spectrum:
        """The (scaled) spectrum for heads of this size; some scalings also need the current length."""
        made = spectrum(int(head_dim * self.rotary_fraction), base=self.base)
        made = made if self.scaling is None else self.scaling(made, length=length)
        return made if self.axes is None else self.axes(made)

    def softmax_scale(self, head_dim):
        return head_dim**-0.5 * self.softmax_multiplier

    def at(self, *, head_dim, length=None):
        return Rotary(self.spectrum(head_dim, length), self.layout, self.softmax_multiplier)

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        return self.at(head_dim=head_dim, length=length).rotation(params, q_positions, k_positions, head_dim=head_dim)


@dataclass(frozen=True, eq=False)
class Rotary(Encoding):
    """Rotation by a given spectrum, which is data: what `Rope` becomes for one head size and length."""

    spectrum: Spectrum
    layout: Layout = "interleaved"
    softmax_multiplier: float = 1.0

    arrays: ClassVar[tuple[str, ...]] = ("spectrum",)

    def softmax_scale(self, head_dim):
        return head_dim**-0.5 * self.softmax_multiplier

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        if self.spectrum.axes is not None:
            # whether positions [3, T] are axes or rows is told by the rank of q alone; jit merges the equal tables of layers
            return lambda q, k: (
                rotate(q, q_positions, self.spectrum, layout=self.layout),
                rotate(k, k_positions, self.spectrum, layout=self.layout),
            )
        q_tables = rotation_tables(q_positions, self.spectrum)
        k_tables = q_tables if k_positions is q_positions else rotation_tables(k_positions, self.spectrum)
        return lambda q, k: (
            apply_rotary(q, *q_tables, layout=self.layout),
            apply_rotary(k, *k_tables, layout=self.layout),
        )


@dataclass(frozen=True)
class XPos(Encoding):
    """Rotary embedding whose scores decay with distance (`jrope.xpos`).

    Attributes:
      base: of the frequencies, as for `Rope`.
      scale_base: over how many positions the score of pair i falls to zeta_i.
      origin: the position where nothing is scaled. It cancels in the scores, but cached keys keep theirs: do not change it.
      layout: which features form a pair, see `apply_rotary`.
    """

    base: float = 10_000.0
    scale_base: float = 512.0
    origin: int = 0
    layout: Layout = "interleaved"

    def __post_init__(self):
        for name in ("base", "scale_base"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"XPos: {name} must be positive and finite, got {getattr(self, name)}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"XPos: layout must be one of {LAYOUTS}, got {self.layout!r}")

    @property
    def limit(self):
        return max(self.origin + reach(self.scale_base) + 1, 0) if self.origin <= reach(self.scale_base) else 0

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        options = {"scale_base": self.scale_base, "origin": self.origin, "layout": self.layout}
        return xpos_rotation(q_positions, k_positions, spectrum(head_dim, base=self.base), **options)
