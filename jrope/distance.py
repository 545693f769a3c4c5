"""Exact distances between integer positions, for biases: no difference wraps, wherever in the integers the positions lie."""

import jax
import jax.numpy as jnp

from jrope import phase


def distance(q_positions, k_positions) -> tuple[jax.Array, jax.Array]:
    """`|q_position - k_position|` and whether the key comes after the query: two arrays [..., T, S].

    The int32 difference of two int32 positions may wrap (2^31 - 1 and -1 are 2^31 apart). Here 64-bit words are
    subtracted, and the distance is a uint32: exact for all int32 and uint32 positions, and for int64 NumPy positions less
    than 2^32 apart; farther ones saturate at 2^32 - 1. Floating positions give the float32 distance.

    Args:
      q_positions: [..., T] and k_positions: [..., S], of one rank.
    """
    q_type, k_type = jnp.result_type(q_positions), jnp.result_type(k_positions)
    if not (jnp.issubdtype(q_type, jnp.integer) and jnp.issubdtype(k_type, jnp.integer)):
        q, k = (jnp.asarray(positions, jnp.float32) for positions in (q_positions, k_positions))
        difference = q[..., :, None] - k[..., None, :]
        return jnp.abs(difference), difference < 0
    (q_high, q_low), (k_high, k_low) = phase.split(q_positions), phase.split(k_positions)
    q_high, q_low, k_high, k_low = q_high[..., :, None], q_low[..., :, None], k_high[..., None, :], k_low[..., None, :]
    signed_q, signed_k = q_high.astype(jnp.int32), k_high.astype(jnp.int32)
    after = (signed_k > signed_q) | ((signed_k == signed_q) & (k_low > q_low))
    low = jnp.where(after, k_low - q_low, q_low - k_low)
    borrow = jnp.where(after, k_low < q_low, q_low < k_low).astype(jnp.uint32)
    high = jnp.where(after, k_high - q_high, q_high - k_high) - borrow
    return jnp.where(high == 0, low, jnp.uint32(0xFFFFFFFF)), after


def heads_of(distances, per_head) -> tuple[jax.Array, jax.Array]:
    """distances [..., T, S] and one number for each head [N], both lifted to the rank of a bias [..., N, T, S]; float32."""
    lifted = jnp.asarray(distances, jnp.float32)[..., None, :, :]
    per_head = jnp.asarray(per_head, jnp.float32)
    return lifted, per_head.reshape((1,) * (lifted.ndim - 3) + (-1, 1, 1))
