"""xPos: rotary embedding whose scores decay with distance, more so in the pairs that turn fast.

With zeta_i = (2i/d + 0.4) / 1.4, a query is rotated and scaled by `zeta_i^((position - origin) / scale_base)` and a key by
the inverse, so that the score of a pair carries `zeta_i^((q_position - k_position) / scale_base)`.
Sun et al. 2022, "A Length-Extrapolatable Transformer", arXiv:2212.10554.

The origin cancels in the scores, but only if queries and keys have the same one. The authors' code, and others after it, put
it in the middle of the sequence at hand: cached keys then no longer fit the queries that come later. Here it is a number,
fixed for the life of a cache, and 0 by default.

The two factors themselves grow without bound, and float32 ends. What is computed is exact (to 1e-5) for positions less than
`reach(scale_base)` from the origin, 26,156 at the usual 512, where the factors are within e^64 and leave room for queries,
keys and their gradients. There is no value beyond, as beyond the rows of a learned table: NaN under jit, an error outside.
To reach twice as far, put the origin in the middle of the longest context. In float16, whose range is less, the factors
overflow from 4,500 positions on; bfloat16 has the range of float32.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jrope import phase
from jrope.distance import distance
from jrope.rotary import Layout, Spectrum, apply_rotary, rotation_tables, spectrum

_GREATEST_EXPONENT = 64.0  # of e: between float32's 87 and the range that values and gradients need for themselves


def reach(scale_base: float) -> int:
    """How far from the origin a position may be: the fastest decay, of pair 0, is to 0.4 / 1.4 every scale_base."""
    return min(math.floor(scale_base * _GREATEST_EXPONENT / math.log(1.4 / 0.4)), 2**31)


def xpos_scale(positions, pairs: int, *, scale_base: float = 512.0, origin: int = 0) -> jax.Array:
    """`zeta_i^((position - origin) / scale_base)` of every pair: positions [..., T] -> float32 [..., T, pairs].

    Queries are multiplied by it and keys divided. Beyond `reach(scale_base)` from the origin it is NaN under jit.

    Raises:
      ValueError: if scale_base is not positive and finite, or concrete positions are beyond reach.
    """
    if not (np.isfinite(scale_base) and scale_base > 0):
        raise ValueError(f"xpos: scale_base must be positive and finite, got {scale_base}")
    furthest = reach(scale_base)
    if phase.is_concrete(positions) and np.size(positions):
        ids = np.asarray(positions)  # on the host, also where a surrounding function is being traced
        low, high = ids.min(), ids.max()
        if int(low) < origin - furthest or int(high) > origin + furthest:
            raise ValueError(
                f"xpos: positions must be within {furthest} of the origin, {origin}, where float32 ends, got {low}..{high}"
            )
    shape = np.shape(positions)
    away, before = (x.reshape(shape) for x in distance(positions, np.full((*shape[:-1], 1), origin)))
    steps = jnp.where(before, -1.0, 1.0) * away.astype(jnp.float32)
    log_zeta = np.log((np.arange(pairs) / pairs + 0.4) / 1.4) / scale_base
    scale = jnp.exp(steps[..., None] * log_zeta.astype(np.float32).reshape((1,) * len(shape) + (-1,)))
    return jnp.where((away <= np.uint32(furthest))[..., None], scale, jnp.nan)


def xpos_rotation(q_positions, k_positions, spectrum: Spectrum, *, scale_base=512.0, origin=0, layout: Layout = "interleaved"):
    """A function of queries [..., T, N, H] and keys [..., S, K, H], for all layers that share the positions."""
    pairs = spectrum.frequencies.shape[-1]

    def tables(positions, power):
        scale = xpos_scale(positions, pairs, scale_base=scale_base, origin=origin) ** power
        return [table * scale for table in rotation_tables(positions, spectrum)]

    q_tables, k_tables = tables(q_positions, 1), tables(k_positions, -1)
    return lambda q, k: (apply_rotary(q, *q_tables, layout=layout), apply_rotary(k, *k_tables, layout=layout))


def xpos(
    q,
    k,
    q_positions,
    k_positions,
    *,
    base: float = 10_000.0,
    scale_base: float = 512.0,
    origin: int = 0,
    layout: Layout = "interleaved",
) -> tuple[jax.Array, jax.Array]:
    """Queries [..., T, N, H] and keys [..., S, K, H] rotated and scaled, in their dtypes.

    Args:
      q, k: floating, of one even H.
      q_positions: [T] or [..., T] and k_positions: [S] or [..., S], position ids within `reach(scale_base)` of the origin.
      base: of the frequencies, as for RoPE.
      scale_base: over how many positions the score of pair i falls to zeta_i.
      origin: the position where nothing is scaled; the same for queries and for all keys that they meet.
      layout: which features form a pair, see `apply_rotary`; both features of a pair have its scale.

    Raises:
      ValueError: if shapes do not fit, a number is out of range, or concrete positions are beyond reach.
      TypeError: if q or k is not floating.
    """
    turning = spectrum(q.shape[-1], base=base)
    return xpos_rotation(q_positions, k_positions, turning, scale_base=scale_base, origin=origin, layout=layout)(q, k)
