"""Biases on the scores that nothing is learned for: ALiBi, windows (Hard-ALiBi) and Sandwich.

All take position ids `q_positions` [..., T] and `k_positions` [..., S] and return float32 [..., N, T, S], to be added to the
scaled scores before the softmax. They see distances alone, which are exact over all of int32 and uint32
(`jrope.distance`), so a shift of all positions changes nothing, and a decoding step is a row of the whole.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jrope import phase
from jrope.distance import distance, heads_of

# Finite, so that no row of a softmax is all -inf (which makes NaN) and several add up without overflow; so low that a
# float32 score added to it is absorbed, and exp gives exactly 0 beside any key that is seen. bfloat16 can hold it.
UNSEEN = -1e30


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
    Press et al. 2021, arXiv:2108.12409.

    Args:
      q_positions: [..., T] and k_positions: [..., S], position ids.
      num_heads: how many heads, N.
    """
    distances, slopes = heads_of(distance(q_positions, k_positions)[0], alibi_slopes(num_heads))
    return -distances * slopes


def windowed(q_positions, k_positions, *, windows: Sequence[int | None]) -> jax.Array:
    """Local windows: 0 where `|q_position - k_position| < windows[h]`, -1e30 elsewhere, float32 [..., N, T, S].

    The softmax weight of an unseen key is exactly 0, and so is its gradient. A row of which nothing is seen (decoding with
    the window's keys gone) becomes uniform and not NaN. "Hard-ALiBi" is this with windows 1, 2, 3, ... for some heads and
    None for the rest: Jelassi et al. 2024, "Repeat After Me", arXiv:2402.01032.

    Args:
      q_positions: [..., T] and k_positions: [..., S], position ids.
      windows: for each head, how many positions a query sees on its side, its own included, or None for all of them.

    Raises:
      ValueError: if there are no heads or a window is below 1.
    """
    if not windows or any(window is not None and window < 1 for window in windows):
        raise ValueError(f"windowed: windows must be a window of at least 1, or None, for each head, got {windows}")
    distances, limits = heads_of(distance(q_positions, k_positions)[0], [w or np.inf for w in windows])
    return jnp.where(distances < limits, 0.0, UNSEEN).astype(jnp.float32)


def sandwich(q_positions, k_positions, *, num_heads: int, dim: int = 128, base: float = 10_000.0) -> jax.Array:
    """Sandwich: the inner product of two sinusoidal encodings, compressed for each head, float32 [..., N, T, S].

        bias_h = (sum_i cos((q_position - k_position) / base^(2i/dim)) - dim/2) * N / (8 (h + 1)),    i = 1 .. dim/2

    The formula is that of Chi et al. 2022, arXiv:2212.10356; it was not compared with the authors' own code. The constant
    `- dim/2`, which a softmax does not see, is that of NVIDIA NeMo's re-implementation (which sums the distances without
    their cosine, and up to i = dim/2 - 1): it makes the bias 0 at distance 0 and negative elsewhere. Angles are exact for any
    integer distance.

    Args:
      q_positions: [..., T] and k_positions: [..., S], position ids.
      num_heads: how many heads, N.
      dim: features of the sinusoidal encodings, even; a hyper-parameter of its own, not the model's width.
      base: of their frequencies.

    Raises:
      ValueError: if num_heads is below 1, dim is not even or below 2, or base is not positive and finite.
    """
    if num_heads < 1:
        raise ValueError(f"sandwich: num_heads must be at least 1, got {num_heads}")
    check_sandwich("sandwich", dim, base)
    frequencies = np.float64(base) ** (-2 * np.arange(1, dim // 2 + 1, dtype=np.float64) / dim)
    distances = distance(q_positions, k_positions)[0]

    def add_one(total, band):  # one frequency at a time: [..., T, S, dim/2] would be the largest array of the model
        frequency, turns = band
        return total + phase.cos_sin(distances, frequency[None], turns[:, None])[0][..., 0], None

    bands = (jnp.asarray(frequencies, jnp.float32), jnp.asarray(phase.fixed_point(frequencies).T))
    nothing = 0.0 * distances.astype(jnp.float32)  # zeros that vary over a mesh as the distances do, for shard_map
    total, _ = jax.lax.scan(add_one, nothing, bands)
    total, compression = heads_of(total - dim / 2, 8 * np.arange(1, num_heads + 1) / num_heads)
    return total / compression


def check_sandwich(name: str, dim: int, base: float):
    """Raises the ValueErrors of `sandwich`, in the name of the caller."""
    if dim < 2 or dim % 2:
        raise ValueError(f"{name}: dim must be an even number of features, at least 2, got {dim}")
    if not (np.isfinite(base) and base > 0):
        raise ValueError(f"{name}: base must be positive and finite, got {base}")
