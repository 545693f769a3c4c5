"""Encodings that act on the scores: a bias for each head and distance, added before the softmax."""

import jax
import jax.numpy as jnp
import numpy as np


def alibi_slopes(num_heads: int) -> np.ndarray:
    """ALiBi's slope of each head, float32 [N]: `2^(-8 (h+1) / N)` where N is a power of two.

    Otherwise those of the next lower power of two, then every other slope of the next higher, as in the official code.
    Press et al. 2021, arXiv:2108.12409.
    """
    if num_heads < 1:
        raise ValueError(f"alibi_slopes: num_heads must be at least 1, got {num_heads}")
    lower = 2 ** (num_heads.bit_length() - 1)

    def geometric(n):
        return 2.0 ** (-8.0 * np.arange(1, n + 1) / n)

    return np.concatenate([geometric(lower), geometric(2 * lower)[::2][: num_heads - lower]]).astype(np.float32)


def alibi(q_positions, k_positions, *, num_heads: int) -> jax.Array:
    """Attention with linear biases: `-slope_h * |q_position - k_position|`, float32 [..., N, T, S].

    The distance form, symmetric in time: with a causal mask it gives the same attention as the key-only form of some
    libraries, since a softmax does not see a constant added to a row.

    Args:
      q_positions: [..., T] and k_positions: [..., S], position ids.
      num_heads: N.
    """
    distance = jnp.abs(jnp.asarray(q_positions)[..., :, None] - jnp.asarray(k_positions)[..., None, :])
    slopes = alibi_slopes(num_heads)[:, None, None]
    distance = distance[..., None, :, :].astype(jnp.float32)
    return -distance * slopes.reshape((1,) * (distance.ndim - 3) + slopes.shape)
