"""xPos: rotary embedding whose scores decay with distance, faster in the pairs that turn fast.

With zeta_i = (2i/d + 0.4) / 1.4, a query is rotated and multiplied by
`zeta_i^((position - origin) / scale_base)`, and a key by the inverse. The score of a pair then has
the factor `zeta_i^((q_position - k_position) / scale_base)`.
Sun et al. 2022, "A Length-Extrapolatable Transformer", arXiv:2212.10554.

The origin cancels in the scores only if queries and keys have the same one. The authors' code puts
it in the middle of the current sequence, so that cached keys do not fit later queries. Here it is a
number, fixed for the life of a cache, and 0 by default.

The two factors grow without bound, and float32 ends. Scores are exact (to 1e-5) for positions up to
`max_offset(scale_base)` from the origin, 26,156 at the usual 512. There the factors are within
e^64, which leaves room for queries, keys and their gradients. Beyond, the encoding has no value:
NaN under jit, an error outside. To go twice as far, put the origin in the middle of the longest
context. Float16 has a smaller range: its factors overflow from 4,500 positions on. Bfloat16 has
float32's.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jrope import arguments, checks, exact
from jrope.encoding import Encoding
from jrope.encodings.rope import LAYOUTS, Layout, apply_rotary, rotation_tables
from jrope.spectrum import LearnedSpectrum, Spectrum, spectrum

__all__ = ["XPos", "xpos", "xpos_scale"]

_GREATEST_EXPONENT = 64.0  # of e; float32 ends at 88


def max_offset(scale_base: float) -> int:
    """How far from the origin a position may be: pair 0 decays to 0.4 / 1.4 every scale_base."""
    return min(math.floor(scale_base * _GREATEST_EXPONENT / math.log(1.4 / 0.4)), 2**31)


@arguments.checked(positions="ids [..., T]")
def xpos_scale(
    positions: ArrayLike, pairs: int, *, scale_base: float = 512.0, origin: int = 0
) -> jax.Array:
    """`zeta_i^((position - origin) / scale_base)`: positions [..., T] -> float32 [..., T, pairs].

    Queries are multiplied by it and keys divided. Beyond `max_offset(scale_base)` from the origin
    it is NaN under jit.

    Raises:
      ValueError: if scale_base is not positive and finite, or concrete positions are beyond.
    """
    checks.positive("xpos", "scale_base", scale_base)
    farthest = max_offset(scale_base)
    if checks.is_concrete(positions) and np.size(positions):
        ids = checks.host(positions)
        low, high = ids.min(), ids.max()
        if int(low) < origin - farthest or int(high) > origin + farthest:
            allowed = f"within {farthest} of the origin, {origin}, where float32 ends"
            raise ValueError(f"xpos: positions must be {allowed}, got {low}..{high}")
    shape = np.shape(positions)
    at_origin = np.full((1,) * len(shape), origin)
    away, before = (x.reshape(shape) for x in exact.distance(positions, at_origin))
    steps = jnp.where(before, -1.0, 1.0) * away.astype(jnp.float32)
    log_zeta = np.log((np.arange(pairs) / pairs + 0.4) / 1.4) / scale_base
    log_zeta = log_zeta.astype(np.float32).reshape((1,) * len(shape) + (-1,))
    scale = jnp.exp(steps[..., None] * log_zeta)
    return jnp.where((away <= np.uint32(farthest))[..., None], scale, jnp.nan)


@arguments.checked(
    q="floating [..., T, N, H]",
    k="floating [..., S, K, H]",
    q_positions="ids [..., T]",
    k_positions="ids [..., S]",
)
def xpos(
    q: jax.Array,
    k: jax.Array,
    q_positions: ArrayLike,
    k_positions: ArrayLike,
    *,
    base: float = 10_000.0,
    scale_base: float = 512.0,
    origin: int = 0,
    layout: Layout = "interleaved",
) -> tuple[jax.Array, jax.Array]:
    """Queries [..., T, N, H] and keys [..., S, K, H] rotated and scaled, in their dtypes.

    Args:
      q, k: floating, of one even H.
      q_positions: [T] or [..., T] and k_positions: [S] or [..., S], position ids within
        `max_offset(scale_base)` of the origin.
      base: of the frequencies, as for RoPE.
      scale_base: over how many positions the score of pair i falls to zeta_i.
      origin: the position where nothing is scaled; one for queries and for all keys that they meet.
      layout: which features form a pair, see `apply_rotary`; both features of a pair have its
        scale.

    Raises:
      ValueError: if shapes do not fit, a number is out of range, or concrete positions are too far.
      TypeError: if q or k is not floating.
    """
    options = {"base": base, "scale_base": scale_base, "origin": origin, "layout": layout}
    return _rotation(q_positions, k_positions, q.shape[-1], **options)(q, k)


def _rotation(q_positions, k_positions, head_dim, *, base, scale_base, origin, layout):
    turning = spectrum(head_dim, base=base)

    def tables(positions, power):
        scale = xpos_scale(positions, turning.num_pairs, scale_base=scale_base, origin=origin)
        return [table * scale**power for table in rotation_tables(positions, turning)]

    q_tables, k_tables = tables(q_positions, 1), tables(k_positions, -1)
    return lambda q, k: (
        apply_rotary(q, *q_tables, layout=layout),
        apply_rotary(k, *k_tables, layout=layout),
    )


@dataclass(frozen=True)
class XPos(Encoding):
    """Rotary embedding whose scores decay with distance (`jrope.xpos`).

    Attributes:
      base: of the frequencies, as for `Rope`.
      scale_base: over how many positions the score of pair i falls to zeta_i.
      origin: the position where nothing is scaled. It cancels in the scores, but cached keys keep
        theirs: do not change it.
      layout: which features form a pair, see `apply_rotary`.
    """

    name: ClassVar[str] = "xpos"

    base: float = 10_000.0
    scale_base: float = 512.0
    origin: int = 0
    layout: Layout = "interleaved"

    def __post_init__(self):
        arguments.check_fields(self)
        checks.positive("XPos", "base", self.base)
        checks.positive("XPos", "scale_base", self.scale_base)
        checks.one_of("XPos", "layout", self.layout, LAYOUTS)

    def spectrum(self, head_dim: int, length=None) -> Spectrum | LearnedSpectrum:
        """The spectrum for heads of this size, which is the same at every length."""
        return spectrum(head_dim, base=self.base)

    @property
    def position_limit(self):
        farthest = max_offset(self.scale_base)
        return max(self.origin + farthest + 1, 0) if self.origin <= farthest else 0

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        options = {"base": self.base, "scale_base": self.scale_base}
        options |= {"origin": self.origin, "layout": self.layout}
        return _rotation(q_positions, k_positions, head_dim, **options)
