"""Absolute encodings: a vector for each position, added to the token embeddings."""

import jax
import jax.numpy as jnp
import numpy as np

from jrope import phase


def sinusoidal(positions, dim: int, *, base: float = 10_000.0) -> jax.Array:
    """The sinusoidal encoding of positions [...] as float32 [..., dim].

        pe[2i] = sin(position / base^(2i/dim)),    pe[2i+1] = cos(position / base^(2i/dim))

    with exact angles at any integer position (see `jrope.phase`). An odd dim has one sine more than cosines.
    Vaswani et al. 2017, arXiv:1706.03762, section 3.5, whose order (interleaved) and exponent (2i/dim) are followed;
    tensor2tensor and fairseq concatenate sines and cosines and divide by dim/2 - 1 instead.

    Raises:
      ValueError: if dim is below 1 or base not positive and finite.
    """
    if dim < 1:
        raise ValueError(f"sinusoidal: dim must be at least 1, got {dim}")
    if not (np.isfinite(base) and base > 0):
        raise ValueError(f"sinusoidal: base must be positive and finite, got {base}")
    frequencies = np.float64(base) ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    cos, sin = phase.cos_sin(positions, frequencies, phase.fixed_point(frequencies))
    return jnp.stack([sin, cos], axis=-1).reshape((*cos.shape[:-1], -1))[..., :dim]


def lookup(table, positions) -> jax.Array:
    """Rows of a learned table [max_length, dim] at positions [...], as [..., dim] in the table's dtype.

    A learned encoding has no value outside its table. There the result is NaN inside jit, where nothing can be raised, and
    an error outside; an index of -1 never wraps round to the last row, as plain indexing would.

    Raises:
      IndexError: if positions are concrete and one is negative or not below max_length.
      TypeError: if positions are not integers.
    """
    rows = table.shape[0]
    if not jnp.issubdtype(jnp.result_type(positions), jnp.integer):
        raise TypeError(f"lookup: positions must be integers, got {jnp.result_type(positions)}")
    if phase.is_concrete(positions) and np.size(positions):
        ids = np.asarray(positions)  # on the host, also where a surrounding function is being traced
        low, high = ids.min(), ids.max()
        if low < 0 or high >= rows:
            raise IndexError(f"lookup: positions must be within 0..{rows - 1}, the rows of the table, got {low}..{high}")
    positions = jnp.asarray(positions)
    inside = (positions >= 0) & (positions < rows)
    values = table[jnp.where(inside, positions, 0)]
    return jnp.where(inside[..., None], values, jnp.full((), jnp.nan, table.dtype))
