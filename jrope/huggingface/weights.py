"""Weights from one pair layout to the other: the rows of the projections to queries and keys.

Rotating the interleaved pairs (2i, 2i+1) of a weight gives the same scores as rotating the half
pairs (i, i+r/2) of the same weight with its rows reordered, head by head:

    half row j = interleaved row 2j             for j < r/2
                 interleaved row 2(j - r/2) + 1 otherwise

with r the features of a head that rotate. Reorder everything that makes or scales a query or a key:
weights, biases, QK norms, and the second factor of a LoRA. Values and outputs stay.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jrope import arguments


@arguments.checked(weight="array")
def to_half(weight: ArrayLike, *, num_heads: int, rotary_dim: int | None = None, axis: int = 0):
    """A query or key weight for the layout "half", from one for "interleaved".

    Args:
      weight: a NumPy or JAX array with num_heads * H rows along `axis`: [out, in] as in PyTorch,
        [in, out] with axis=1, a bias [out], or the scale [H] of a QK norm with num_heads=1.
      num_heads: the heads of this weight; for keys with grouped heads, the key heads.
      rotary_dim: how many features of each head rotate, the first ones; the others stay. None for
        all. Where a head has its rotating features last (multi-head latent attention), convert
        only that part.
      axis: the axis of the rows.

    Returns:
      The reordered weight, in its dtype, as an array of the same library.

    Raises:
      ValueError: if the rows do not divide into heads, or rotary_dim is odd or larger than a head.
    """
    return _reorder("to_half", weight, num_heads, rotary_dim, axis)


@arguments.checked(weight="array")
def to_interleaved(
    weight: ArrayLike, *, num_heads: int, rotary_dim: int | None = None, axis: int = 0
):
    """A query or key weight for the layout "interleaved", from one for "half".

    The inverse of `to_half`, with the same arguments.
    """
    return _reorder("to_interleaved", weight, num_heads, rotary_dim, axis)


def _reorder(owner: str, weight, num_heads: int, rotary_dim: int | None, axis: int):
    if not -np.ndim(weight) <= axis < np.ndim(weight):
        raise ValueError(f"{owner}: axis must be one of weight {np.shape(weight)}, got {axis}")
    rows = np.shape(weight)[axis]
    if num_heads < 1 or rows % num_heads:
        heads = f"do not divide into num_heads={num_heads} heads"
        given = f"{rows} rows along axis {axis} of weight {np.shape(weight)}"
        raise ValueError(f"{owner}: {given} {heads}")
    head_dim = rows // num_heads
    rotating: int = head_dim if rotary_dim is None else rotary_dim
    if rotating % 2 or not 0 <= rotating <= head_dim:
        allowed = f"even and at most the {head_dim} rows of a head of weight {np.shape(weight)}"
        raise ValueError(f"{owner}: rotary_dim must be {allowed}, got {rotating}")
    half = np.arange(rotating).reshape(-1, 2).T.ravel()
    first = half if owner == "to_half" else np.argsort(half)
    head = np.concatenate([first, np.arange(rotating, head_dim)])
    order = (head_dim * np.arange(num_heads)[:, None] + head).ravel()
    return (jnp if isinstance(weight, jax.Array) else np).take(weight, order, axis=axis)
