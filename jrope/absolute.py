"""Absolute encodings: a vector for each position, added to the token embeddings."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jrope import phase

SinusoidalLayout = Literal["interleaved", "concatenated"]
SINUSOIDAL_LAYOUTS = ("interleaved", "concatenated")


def sinusoidal(
    positions, dim: int, *, base: float = 10_000.0, layout: SinusoidalLayout = "interleaved", endpoint: bool = False
) -> jax.Array:
    """The sinusoidal encoding of positions [...] as float32 [..., dim].

        pe[2i] = sin(position / base^(2i/dim)),    pe[2i+1] = cos(position / base^(2i/dim))

    with exact angles at any integer position (see `jrope.phase`). An odd dim has one sine more than cosines.
    Vaswani et al. 2017, arXiv:1706.03762, section 3.5. Three variants are about:

        interleaved                     the paper
        concatenated                    GPT-J's table, x-transformers
        concatenated, endpoint=True     tensor2tensor (the paper's own code), fairseq, Whisper, MaxText

    fairseq also starts its positions at padding_idx + 1; for an odd dim tensor2tensor and fairseq end with a zero.

    Args:
      positions: [...], position ids.
      dim: features, at least 1.
      base: of the frequencies.
      layout: "interleaved" alternates sines and cosines, "concatenated" has all sines first.
      endpoint: whether the last of the h frequencies is exactly 1 / base, with exponents i / (h - 1) in place of 2i / dim.

    Raises:
      ValueError: if dim is below 1, base not positive and finite, or the layout unknown.
    """
    if layout not in SINUSOIDAL_LAYOUTS:
        raise ValueError(f"sinusoidal: layout must be one of {SINUSOIDAL_LAYOUTS}, got {layout!r}")
    if dim < 1:
        raise ValueError(f"sinusoidal: dim must be at least 1, got {dim}")
    if not (np.isfinite(base) and base > 0):
        raise ValueError(f"sinusoidal: base must be positive and finite, got {base}")
    even = np.arange(0, dim, 2, dtype=np.float64)
    frequencies = np.float64(base) ** (-even / (max(even[-1], 1) if endpoint else dim))
    cos, sin = phase.tables(positions, frequencies, phase.fixed_point(frequencies))
    if layout == "concatenated":
        return jnp.concatenate([sin, cos], axis=-1)[..., :dim]
    return jnp.stack([sin, cos], axis=-1).reshape((*cos.shape[:-1], -1))[..., :dim]


LookupMode = Literal["nan", "clip"]
LOOKUP_MODES = ("nan", "clip")


def lookup(table, positions, *, mode: LookupMode = "nan") -> jax.Array:
    """Rows of a learned table [max_length, dim] at positions [...], as [..., dim] in the table's dtype.

    A learned encoding has no value outside its table. There the result is NaN inside jit, where nothing can be raised, and
    an error outside; an index of -1 never wraps round to the last row, as plain indexing would.
    Gehring et al. 2017, arXiv:1705.03122.

    Args:
      table: [max_length, dim].
      positions: [...], integers.
      mode: "nan" as above, or "clip": the first row for all positions before it and the last for all after, with gradients.

    Raises:
      IndexError: if the mode is "nan" and concrete positions include one that is negative or not below max_length.
      TypeError: if positions are not integers.
      ValueError: if the mode is unknown.
    """
    if mode not in LOOKUP_MODES:
        raise ValueError(f"lookup: mode must be one of {LOOKUP_MODES}, got {mode!r}")
    rows = table.shape[0]
    if not jnp.issubdtype(jnp.result_type(positions), jnp.integer):
        raise TypeError(f"lookup: positions must be integers, got {jnp.result_type(positions)}")
    if mode == "clip":
        return table[jnp.clip(jnp.asarray(positions), 0, rows - 1)]
    if phase.is_concrete(positions) and np.size(positions):
        ids = np.asarray(positions)  # on the host, also where a surrounding function is being traced
        low, high = ids.min(), ids.max()
        if low < 0 or high >= rows:
            raise IndexError(f"lookup: positions must be within 0..{rows - 1}, the rows of the table, got {low}..{high}")
    positions = jnp.asarray(positions)
    inside = (positions >= 0) & (positions < rows)
    values = table[jnp.where(inside, positions, 0)]
    return jnp.where(inside[..., None], values, jnp.full((), jnp.nan, table.dtype))
