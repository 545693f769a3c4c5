"""ALiBi: attention with linear biases."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np
from jax.typing import ArrayLike

from jrope import arguments, checks, exact
from jrope.encoding import Encoding

__all__ = ["Alibi", "alibi", "alibi_slopes"]


@arguments.checked()
def alibi_slopes(num_heads: int) -> np.ndarray:
    """ALiBi's slope of each head, float32 [N]: `2^(-8 (h+1) / N)` where N is a power of two.

    Other N take the slopes of the next lower power of two, then every other slope of the next
    higher, as in the official code.
    Press et al. 2021, arXiv:2108.12409.

    Raises:
      ValueError: if num_heads is below 1.
    """
    checks.at_least("alibi_slopes", "num_heads", num_heads, 1)
    lower = 2 ** (num_heads.bit_length() - 1)

    def geometric(n):
        return 2.0 ** (-8.0 * np.arange(1, n + 1) / n)

    higher = geometric(2 * lower)[::2][: num_heads - lower]
    return np.concatenate([geometric(lower), higher]).astype(np.float32)


@arguments.checked(q_positions="ids [..., T]", k_positions="ids [..., S]")
def alibi(q_positions: ArrayLike, k_positions: ArrayLike, *, num_heads: int) -> jax.Array:
    """Attention with linear biases: `-slope_h * |q_position - k_position|`, float32 [..., N, T, S].

    It is symmetric in time. Some libraries add `slope_h * k_position`. With a causal mask both give
    the same attention, since a softmax does not see a constant added to a row.
    Press et al. 2021, arXiv:2108.12409.

    Args:
      q_positions: [..., T] and k_positions: [..., S], position ids.
      num_heads: how many heads, N.

    Raises:
      ValueError: if num_heads is below 1.
    """
    distances, _ = exact.distance(q_positions, k_positions)
    distances, slopes = exact.align_heads(distances, alibi_slopes(num_heads))
    return -distances * slopes


@dataclass(frozen=True)
class Alibi(Encoding):
    """Attention with linear biases (`jrope.alibi`)."""

    name: ClassVar[str] = "alibi"

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return alibi(q_positions, k_positions, num_heads=num_heads)
