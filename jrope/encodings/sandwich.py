"""Sandwich: the inner product of two sinusoidal encodings."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jrope import arguments, checks, exact
from jrope.encoding import Encoding

__all__ = ["Sandwich", "sandwich"]


@arguments.checked(q_positions="ids [..., T]", k_positions="ids [..., S]")
def sandwich(
    q_positions: ArrayLike,
    k_positions: ArrayLike,
    *,
    num_heads: int,
    dim: int = 128,
    base: float = 10_000.0,
) -> jax.Array:
    """Sandwich: the inner product of two sinusoidal encodings, compressed for each head.

        bias_h = (sum_i cos((q_position - k_position) / base^(2i/dim)) - dim/2) * N / (8 (h + 1))

    with i = 1 .. dim/2, float32 [..., N, T, S]. Angles are exact for any integer distance.

    The formula is that of Chi et al. 2022, arXiv:2212.10356; it was not compared with the authors'
    code. The constant `- dim/2`, which a softmax does not see, is that of NVIDIA NeMo's
    re-implementation (which sums the distances without their cosine, and up to i = dim/2 - 1). It
    makes the bias 0 at distance 0 and negative elsewhere.

    Args:
      q_positions: [..., T] and k_positions: [..., S], position ids.
      num_heads: how many heads, N.
      dim: features of the sinusoidal encodings, even; independent of the model's width.
      base: of their frequencies.

    Raises:
      ValueError: if num_heads is below 1, dim is not even or below 2, or base is not positive and
        finite.
    """
    checks.at_least("sandwich", "num_heads", num_heads, 1)
    _check("sandwich", dim, base)
    frequencies = np.float64(base) ** (-2 * np.arange(1, dim // 2 + 1, dtype=np.float64) / dim)
    distances, _ = exact.distance(q_positions, k_positions)

    def add_band(total, increments):  # all bands at once, [..., T, S, dim/2], take too much memory
        return total + exact.cos_sin(distances, increments[:, None])[0][..., 0], None

    zeros = 0.0 * distances.astype(jnp.float32)  # varies over a mesh as distances do, for shard_map
    total, _ = jax.lax.scan(add_band, zeros, exact.phase_increments(frequencies).T)
    compression = 8 * np.arange(1, num_heads + 1) / num_heads
    total, compression = exact.align_heads(total - dim / 2, compression)
    return total / compression


def _check(owner: str, dim: int, base: float):
    checks.even(owner, "dim", dim)
    checks.positive(owner, "base", base)


@dataclass(frozen=True)
class Sandwich(Encoding):
    """The inner product of sinusoids as a bias (`jrope.sandwich`).

    Attributes:
      dim: of the sinusoids, even; not the model's width.
      base: of their frequencies.
    """

    name: ClassVar[str] = "sandwich"

    dim: int = 128
    base: float = 10_000.0

    def __post_init__(self):
        arguments.check_fields(self)
        _check("Sandwich", self.dim, self.base)

    def bias(self, params, q_positions, k_positions, *, num_heads):
        options = {"num_heads": num_heads, "dim": self.dim, "base": self.base}
        return sandwich(q_positions, k_positions, **options)
