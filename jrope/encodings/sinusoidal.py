"""The sinusoidal encoding: sines and cosines of the position, added to the embeddings."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jrope import arguments, checks, exact
from jrope.encoding import Encoding

__all__ = ["Sinusoidal", "sinusoidal"]

Layout = Literal["interleaved", "concatenated"]
LAYOUTS = ("interleaved", "concatenated")


@arguments.checked(positions="ids")
def sinusoidal(
    positions: ArrayLike,
    dim: int,
    *,
    base: float = 10_000.0,
    layout: Layout = "interleaved",
    endpoint: bool = False,
) -> jax.Array:
    """The sinusoidal encoding of positions [...] as float32 [..., dim].

        pe[2i] = sin(position / base^(2i/dim)),    pe[2i+1] = cos(position / base^(2i/dim))

    Angles are exact at any integer position (see `jrope.exact`). An odd dim has one sine more than
    cosines. Three variants are in use:

        interleaved                     the paper
        concatenated                    GPT-J's table, x-transformers
        concatenated, endpoint=True     tensor2tensor (the paper's code), fairseq, Whisper, MaxText

    fairseq also starts its positions at padding_idx + 1. For an odd dim tensor2tensor and fairseq
    end with a zero.
    Vaswani et al. 2017, arXiv:1706.03762, section 3.5.

    Args:
      positions: [...], position ids.
      dim: features, at least 1.
      base: of the frequencies.
      layout: "interleaved" alternates sines and cosines, "concatenated" has all sines first.
      endpoint: whether the last of the h frequencies is exactly 1 / base: exponents are then
        i / (h - 1) instead of 2i / dim.

    Raises:
      ValueError: if dim is below 1, base not positive and finite, or the layout unknown.
    """
    _check("sinusoidal", base, layout)
    checks.at_least("sinusoidal", "dim", dim, 1)
    even = np.arange(0, dim, 2, dtype=np.float64)
    frequencies = np.float64(base) ** (-even / (max(even[-1], 1) if endpoint else dim))
    cos, sin = exact.tables(positions, exact.phase_increments(frequencies))
    if layout == "concatenated":
        return jnp.concatenate([sin, cos], axis=-1)[..., :dim]
    pairs = jnp.stack([sin, cos], axis=-1)
    return pairs.reshape((*cos.shape[:-1], 2 * cos.shape[-1]))[..., :dim]


def _check(owner: str, base: float, layout: Layout):
    checks.positive(owner, "base", base)
    checks.one_of(owner, "layout", layout, LAYOUTS)


@dataclass(frozen=True)
class Sinusoidal(Encoding):
    """Sines and cosines of the position, added to the embeddings (`jrope.sinusoidal`).

    Attributes:
      base: of the frequencies.
      layout: "interleaved" (the paper) or "concatenated".
      endpoint: whether the last frequency is exactly 1 / base, as in tensor2tensor.
    """

    name: ClassVar[str] = "sinusoidal"

    base: float = 10_000.0
    layout: Layout = "interleaved"
    endpoint: bool = False

    def __post_init__(self):
        arguments.check_fields(self)
        _check("Sinusoidal", self.base, self.layout)

    def embed(self, params, x, positions):
        options = {"base": self.base, "layout": self.layout, "endpoint": self.endpoint}
        vectors = sinusoidal(positions, x.shape[-1], **options)
        return x + jnp.expand_dims(vectors, range(x.ndim - vectors.ndim)).astype(x.dtype)
