"""Checkpoints from one pair layout to the other: the rows of the projections that make queries and keys.

Rotating interleaved pairs (2i, 2i+1) of one weight gives the same scores as rotating half pairs (i, i+r/2) of the same weight
with its rows reordered, head by head:

    half row j = interleaved row 2j for j < r/2, else interleaved row 2 (j - r/2) + 1

with r the features of a head that rotate. All that makes or scales a query or key must be reordered alike: weights, biases,
QK norms, and the second factor of a LoRA; values and outputs stay.
"""

import jax
import jax.numpy as jnp
import numpy as np


def to_half(weight, *, num_heads: int, rotary_dim: int | None = None, axis: int = 0):
    """A query or key weight for the layout "half", from one for "interleaved".

    Args:
      weight: any array, NumPy or JAX, with num_heads * H rows along `axis`: [out, in] as PyTorch has it, or [in, out] with
        axis=1, a bias [out], or a QK norm's scale [H] with num_heads=1.
      num_heads: the heads of this weight: for keys with grouped heads, the key heads.
      rotary_dim: how many features of each head rotate, its first; the others keep their place. None for all. Where a head
        holds its rotating features last (multi-head latent attention), convert that part of it alone.
      axis: of the rows.

    Returns:
      The reordered weight, in its dtype and kind.

    Raises:
      ValueError: if the rows do not divide into heads, or rotary_dim is odd or beyond a head.
    """
    return _reorder(weight, lambda r: np.arange(r).reshape(-1, 2).T.ravel(), "to_half", num_heads, rotary_dim, axis)


def to_interleaved(weight, *, num_heads: int, rotary_dim: int | None = None, axis: int = 0):
    """A query or key weight for the layout "interleaved", from one for "half": the inverse of `to_half`, same arguments."""
    return _reorder(weight, lambda r: np.arange(r).reshape(2, -1).T.ravel(), "to_interleaved", num_heads, rotary_dim, axis)


def _reorder(weight, order, name, num_heads, rotary_dim, axis):
    xp = jnp if isinstance(weight, jax.Array) else np
    rows = np.shape(weight)[axis]
    if num_heads < 1 or rows % num_heads:
        raise ValueError(f"{name}: {rows} rows along axis {axis} do not divide into num_heads={num_heads} heads")
    head_dim = rows // num_heads
    rotary_dim = head_dim if rotary_dim is None else rotary_dim
    if rotary_dim % 2 or not 0 <= rotary_dim <= head_dim:
        raise ValueError(f"{name}: rotary_dim must be even and at most the {head_dim} rows of a head, got {rotary_dim}")
    head = np.concatenate([order(rotary_dim), np.arange(rotary_dim, head_dim)])
    return xp.take(weight, (head_dim * np.arange(num_heads)[:, None] + head).ravel(), axis=axis)
